/* Agents that hand each other a task: each sleeps until the task is at its step, and wakes the next
 * one. Two wait for each step: one of them may be killed. The parent waits for what is done. */
#include <signal.h>
#include <statebus.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct sb_bytes task = {"task", 4},
                             steps[] = {{"plan", 4}, {"write", 5}, {"review", 6}, {"done", 4}};

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        int me = 0, tasks = 0, mine, r;
        struct sb_guard change = {0};
        struct sb_watch *watch = NULL;
        struct sb_bus *bus = NULL;
        pid_t agents[6];

        while (me < 6 && (agents[me] = fork()) != 0)
                me++;
        if ((r = sb_open(&options, &bus)) == 0) /* an agent begins with the task as it is */
                r = sb_watch_open(bus, task, 0, me < 6 ? 0 : SB_ANY_REV, &watch);
        if (r == 0 && me == 6)
                r = sb_set(bus, task, steps[0], NULL, NULL);
        for (; tasks < 3 && (r == 0 || r == SB_E_CONFLICT || r == SB_E_LAPPED);
                sb_guard_release(&change)) {
                r = sb_watch_next(watch, SB_FOREVER, &change);
                mine = r == 0 && change.value.len == steps[me / 2].len &&
                       memcmp(change.value.data, steps[me / 2].data, change.value.len) == 0;
                if (me == 6 && r == 0)
                        printf("%.*s%c", (int)change.value.len, (const char *)change.value.data,
                                mine ? '\n' : ' ');
                if (me == 6 && mine && agents[2 * tasks++] > 0)
                        kill(agents[2 * tasks - 2], SIGKILL); /* whatever it is doing */
                if (mine && tasks < 3) /* SB_E_CONFLICT: the other agent of the step was faster */
                        r = sb_cas(bus, task, change.rev, steps[(me / 2 + 1) % 4], NULL, NULL);
        }
        for (int i = 0; i < 6 && me == 6 && agents[i] > 0; i++)
                kill(agents[i], SIGKILL);
        sb_watch_close(watch);
        sb_close(bus);
        return r != 0 && (me < 6 || fprintf(stderr, "relay: %s\n", sb_strerror(r)) > 0);
}
