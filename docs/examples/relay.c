/* Agents that hand each other a task: each sleeps until the task is at its step, and wakes the next
 * by compare and set. Two agents wait for each step, so that one of them may be killed. */
#include <signal.h>
#include <statebus.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct sb_bytes task = {"task", 4},
                             steps[] = {{"plan", 4}, {"write", 5}, {"review", 6}, {"done", 4}};

/* A process: it never ends by itself. SB_E_CONFLICT: the other agent of this step was faster. */
static int agent(const struct sb_bytes *step)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER};
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        struct sb_bus *bus = NULL;
        int r = sb_open(&options, &bus);

        if (r == 0)
                r = sb_watch_open(bus, task, 0, 0, &watch); /* as it is, and what comes */
        for (; r == 0 || r == SB_E_CONFLICT || r == SB_E_LAPPED; sb_guard_release(&change)) {
                r = sb_watch_next(watch, SB_FOREVER, &change);
                if (r == 0 && change.value.len == step->len &&
                        memcmp(change.value.data, step->data, step->len) == 0)
                        r = sb_cas(bus, task, change.rev, step[1], NULL, NULL);
        }
        return 1;
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        struct sb_guard change = {0};
        struct sb_watch *watch = NULL;
        struct sb_bus *bus = NULL;
        pid_t agents[6] = {0};
        int r = sb_open(&options, &bus);

        for (int i = 0; r == 0 && i < 6; i++)
                if ((agents[i] = fork()) == 0)
                        return agent(&steps[i / 2]);
        if (r == 0)
                r = sb_watch_open(bus, task, 0, SB_ANY_REV, &watch);
        for (int i = 0; r == 0 && i < 12; i++, sb_guard_release(&change)) {
                if (i % 4 == 0) /* a new task; and an agent dies, whatever it is doing */
                        r = sb_set(bus, task, steps[0], NULL, NULL) + kill(agents[i / 2], SIGKILL);
                if (r == 0 && (r = sb_watch_next(watch, SB_FOREVER, &change)) == 0)
                        printf("%.*s%c", (int)change.value.len, (const char *)change.value.data,
                                i % 4 == 3 ? '\n' : ' ');
        }
        for (int i = 0; i < 6 && agents[i] > 0; i++)
                kill(agents[i], SIGKILL);
        sb_watch_close(watch);
        sb_close(bus);
        if (r != 0)
                fprintf(stderr, "relay: %s\n", sb_strerror(r));
        return r != 0;
}
