/* One process that follows a thousand agents: the bus says which of them have something. */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGENTS 1000

struct agent {
        char key[16];
        struct sb_watch *watch;
};

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static void check(const char *what, int r)
{
        if (r == 0)
                return;
        fprintf(stderr, "ready: %s: %s\n", what, sb_strerror(r));
        exit(1);
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        sb_auto(sb_closep) struct sb_bus *bus = NULL;
        static struct agent agents[AGENTS];
        const struct sb_bytes none = {0};
        struct sb_guard change = {0};
        struct sb_watch *watch;

        check("open", sb_open(&options, &bus));
        for (int i = 0; i < AGENTS; i++) {
                struct agent *agent = &agents[i];
                struct sb_watch_options how = {
                        .size = sizeof(how), .after = SB_ANY_REV, .data = agent};

                snprintf(agent->key, sizeof(agent->key), "agent/%d", i);
                check("watch", sb_watch_open_at(bus, b(agent->key), &how, &agent->watch));
        }
        check("set", sb_set(bus, b("agent/7"), b("done"), NULL, NULL));
        check("set", sb_set(bus, b("agent/700"), b("waits"), NULL, NULL));

        /* A program with an event loop waits for the descriptor of sb_fd() in place of this. */
        check("wait", sb_wait(bus, SB_FOREVER));
        while ((watch = sb_watch_ready(bus))) {
                const struct agent *agent = sb_watch_data(watch);

                check("next", sb_watch_next(watch, 0, &change));
                printf("%s: %.*s\n", agent->key, (int)change.value.len,
                        (const char *)change.value.data);
                sb_guard_release(&change);
        }
        for (int i = 0; i < AGENTS; i++)
                sb_watch_close(agents[i].watch);
        check("delete", sb_delete_range(bus, NULL, b("agent/"), none, SB_PREFIX, NULL, NULL));
        return 0;
}
