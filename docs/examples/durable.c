/* What survives power loss, and when a program can know. On a bus that was started with
 * --durability volatile the calls say that nothing does. */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "durable: not as expected: %s\n", what);
                exit(1);
        }
}

/* One write that must not be lost: the call returns when it is on the disk. */
static void pay(struct sb_bus *bus)
{
        uint64_t cut = 0;
        struct sb_write how = {.size = sizeof(how), .durability = SB_STRICT, .ret_cut = &cut};
        int r = sb_set(bus, b("paid/17"), b("yes"), &how, NULL);

        if (r == SB_E_NOT_DURABLE) {
                printf("paid: %s\n", sb_strerror(r));
                return;
        }
        expect(r == 0, "the write is durable");
        expect(sb_durable(bus) >= cut, "and sb_durable() says so");
        printf("paid: durable\n");
}

/* Many that may wait for each other: written at once, then made durable together. */
static void report(struct sb_bus *bus)
{
        char key[32];
        int r;

        for (int i = 0; i < 1000; i++) {
                snprintf(key, sizeof(key), "report/%d", i);
                expect(sb_set(bus, b(key), b("done"), NULL, NULL) == 0, "a write");
        }
        r = sb_flush(bus, SB_FOREVER);
        printf("report: %s\n", r == 0 ? "durable" : sb_strerror(r));
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        struct sb_bus *bus;

        expect(sb_open(&options, &bus) == 0, "a bus");
        pay(bus);
        report(bus);
        expect(sb_durable(bus) == 0 || sb_durable(bus) > 1, "a cut, or none");
        sb_close(bus);
        return 0;
}
