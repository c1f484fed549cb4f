/* Watches and waits: every change of a key, one wait for all watches, and keys as one wants them.
 */
#include <errno.h>
#include <signal.h>
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sb_bus *bus;

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "watch: not as expected: %s\n", what);
                exit(1);
        }
}

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static int is(struct sb_bytes bytes, const char *text)
{
        return bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

/* Each change comes once, in order, with what it replaced. */
static void changes(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};

        expect(sb_watch_open(bus, b("task"), 0, SB_ANY_REV, &watch) == 0, "a watch");
        expect(sb_set(bus, b("task"), b("ready"), NULL, NULL) == 0, "a first value");
        expect(sb_set(bus, b("task"), b("taken"), NULL, NULL) == 0, "a second one");
        expect(sb_delete(bus, b("task"), SB_ANY_REV, NULL, NULL) == 0, "and none");
        expect(sb_watch_next(watch, SB_FOREVER, &change) == 0 && is(change.value, "ready"), "one");
        sb_guard_release(&change);
        expect(sb_watch_next(watch, SB_FOREVER, &change) == 0 && is(change.value, "taken") &&
                        is(change.old_value, "ready"),
                "two");
        sb_guard_release(&change);
        expect(sb_watch_next(watch, SB_FOREVER, &change) == 0 && change.kind == SB_DELETED,
                "three");
        sb_guard_release(&change);
        expect(sb_watch_next(watch, 0, &change) == SB_E_TIMED_OUT, "that was all");
        watch = sb_watch_close(watch);
        printf("changes: three, none twice\n");
}

/* A queue with room for 16, which takes the first and drops what comes then. */
static void queue(void)
{
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = SB_BUFFERED, .depth = 16, .after = SB_ANY_REV};
        sb_auto(sb_watch_closep) struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        int read = 0;

        expect(sb_watch_open_at(bus, b("count"), &how, &watch) == 0, "a watch that drops");
        for (int i = 0; i < 1000; i++)
                expect(sb_incr(bus, b("count"), 1, NULL, NULL, NULL) == 0, "a step");
        for (; sb_watch_next(watch, 0, &change) == 0; read++)
                sb_guard_release(&change);
        printf("queue: %d changes, %d dropped\n", read, (int)sb_watch_dropped(watch));
}

/* One wait for any number of watches. */
static void any(void)
{
        sb_auto(sb_watch_closep) struct sb_watch *left = NULL;
        sb_auto(sb_watch_closep) struct sb_watch *right = NULL;
        struct sb_guard change = {0};

        expect(sb_watch_open(bus, b("left"), 0, SB_ANY_REV, &left) == 0, "a watch");
        expect(sb_watch_open(bus, b("right"), 0, SB_ANY_REV, &right) == 0, "another one");
        expect(sb_wait(bus, 0) == SB_E_TIMED_OUT, "nothing came");
        expect(sb_set(bus, b("right"), b("1"), NULL, NULL) == 0, "a value");
        expect(sb_wait(bus, SB_FOREVER) == 0, "something came");
        expect(sb_watch_next(left, 0, &change) == SB_E_TIMED_OUT, "not on the left");
        expect(sb_watch_next(right, 0, &change) == 0, "but on the right");
        sb_guard_release(&change);
        printf("any: right\n");
}

/* Another process does half of the work. */
static int both_done(void *argument, const struct sb_guard *guards, size_t count)
{
        (void)argument;
        return count == 2 && guards[0].bus && guards[1].bus;
}

static void until(void)
{
        struct sb_bytes keys[] = {b("half/1"), b("half/2")};

        expect(sb_set(bus, keys[0], b("done"), NULL, NULL) == 0, "one half");
        if (fork() == 0) {
                struct sb_options options = {.size = sizeof(options), .access = SB_PEER};
                struct sb_bus *other = NULL;
                int r = sb_open(&options, &other);

                if (r == 0)
                        r = sb_set(other, keys[1], b("done"), NULL, NULL);
                sb_close(other);
                _exit(r != 0);
        }
        expect(sb_wait_until(bus, keys, 2, both_done, NULL, SB_FOREVER) == 1, "both halves");
        printf("until: both halves are done\n");
}

/* A signal handler ends a wait. */
static void on_alarm(int signal_number)
{
        (void)signal_number;
        sb_interrupt(bus);
}

static void interrupt(void)
{
        signal(SIGALRM, on_alarm);
        alarm(1);
        expect(sb_wait(bus, SB_FOREVER) == -EINTR, "the alarm");
        printf("interrupt: the wait has ended\n");
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};

        expect(sb_open(&options, &bus) == 0, "a bus");
        changes();
        queue();
        any();
        until();
        interrupt();
        sb_close(bus);
        return 0;
}
