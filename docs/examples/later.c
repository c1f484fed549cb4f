/* What the header declares and version 0.1 does not have: each call says so, and does nothing. */
#include <errno.h>
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sb_bus *bus;

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "later: not as expected: %s\n", what);
                exit(1);
        }
}

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static void expire(void)
{
        struct sb_write how = {.size = sizeof(how), .ttl_ns = 1000000000u};
        int r = sb_set(bus, b("model"), b("small"), &how, NULL);

        expect(r == -ENOTSUP, "nothing expires");
        printf("expiry: %s\n", sb_strerror(r));
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};

        expect(sb_open(&options, &bus) == 0, "a bus");
        expire();
        sb_close(bus);
        return 0;
}
