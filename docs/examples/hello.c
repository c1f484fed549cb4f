#include <statebus.h>
#include <stdio.h>

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        struct sb_bytes key = {"greeting", 8}, value = {"hello, bus", 10};
        sb_auto(sb_closep) struct sb_bus *bus = NULL;
        sb_auto(sb_guard_release) struct sb_guard guard = {0};
        int r = sb_open(&options, &bus);

        if (r == 0)
                r = sb_set(bus, key, value, NULL, NULL);
        if (r == 0)
                r = sb_get(bus, key, &guard); /* held in place, not copied */
        if (r == 0)
                printf("%.*s\n", (int)guard.value.len, (const char *)guard.value.data);
        else
                fprintf(stderr, "hello: %s\n", sb_strerror(r));
        return r == 0 ? 0 : 1;
}
