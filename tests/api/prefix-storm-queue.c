/* The watcher of the storm over watched prefixes whose queue drops; see prefix-storm.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>

#include "libclient/core/bus.h"
#include "shm/notify/bell.h"
#include "tests/api/prefix-storm.h"

/* Changes that can be seen and of which their writers have not told yet: a transaction of each, and
 * as many again of killed ones that are not reaped. */
#define UNTOLD (2 * WRITERS * 4u)

/* Of each key revisions ascend, and no more are skipped than were dropped by then, or are not told
 * yet. */
static void follow_queue(struct follower *follower, const struct sb_guard *change)
{
        unsigned key = number_of(change);
        struct known *known = &follower->known[key];

        if (key >= KEYS || change->cut < follower->cut || change->rev <= known->rev)
                COMPLAIN("the queue gives key %u: revision %" PRIu64 " behind %" PRIu64
                         ", cut %" PRIu64 " behind %" PRIu64,
                        key, change->rev, known->rev, change->cut, follower->cut);
        follower->missed += change->missed;
        follower->gaps += change->rev - known->rev - 1;
        if (follower->gaps > follower->missed + UNTOLD)
                COMPLAIN("key %u: the queue skipped %" PRIu64 " and says %" PRIu64, key,
                        follower->gaps, follower->missed);
        follow_txn(follower, change, 2);
        known->rev = change->rev;
        follower->cut = change->cut;
        follower->seen++;
        table->place[follower->place].given++;
}

/* What the queue has. Behind that what was dropped is all that was not given. */
static void drain_queue(struct follower *follower)
{
        struct sb_guard change = {0};
        uint64_t dropped;
        int r;

        while (!(r = sb_watch_next(follower->watch, 0, &change))) {
                follow_queue(follower, &change);
                sb_guard_release(&change);
        }
        if (r != SB_E_TIMED_OUT)
                COMPLAIN("sb_watch_next() of the queue said %d", r);
        dropped = sb_watch_dropped(follower->watch);
        if (dropped < follower->missed)
                COMPLAIN("the queue dropped %" PRIu64 ", and said %" PRIu64, dropped,
                        follower->missed);
        table->place[follower->place].dropped += dropped - follower->dropped;
        follower->dropped = dropped;
        *(volatile uint64_t *)&table->place[follower->place].seen = follower->seen + dropped;
}

static void be_woken(int signal)
{
        (void)signal;
}

void be_queue(const struct daemon *daemon, unsigned place)
{
        static const uint32_t rooms[] = {5, 8, 100, 2000};
        struct sb_watch_options how = {.size = sizeof(how),
                .flags = SB_PREFIX | SB_BUFFERED,
                .after = SB_ANY_REV,
                .depth = rooms[(unsigned)getpid() % (sizeof(rooms) / sizeof(rooms[0]))]};
        const struct sigaction woken = {.sa_handler = be_woken};
        const volatile bool *asked = &table->asked;
        struct follower follower = {.bus = attach(daemon), .place = place};
        bool overslept = false;
        uint64_t given;
        int r = sb_watch_open_at(
                follower.bus, (struct sb_bytes){"storm/k/", 8}, &how, &follower.watch);

        if (r)
                COMPLAIN("sb_watch_open_at() said %d", r);
        look_at_all(&follower);
        for (unsigned key = 0; key < KEYS; key++)
                follower.seen += follower.known[key].rev;
        sigaction(SIGUSR1, &woken, NULL);
        for (;;) {
                given = table->place[place].given;
                drain_queue(&follower);
                if (overslept && given != table->place[place].given)
                        COMPLAIN("the queue sleeps with something to see");
                overslept = sleep_on(follower.bus, -1) == -EINTR && *asked &&
                            !sb_bell_is_dirty(&follower.bus->handle);
        }
}
