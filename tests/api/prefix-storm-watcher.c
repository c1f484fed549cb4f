/* The watchers of the storm over watched prefixes; see prefix-storm.h. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "shm/keys/order.h"
#include "shm/memory/pin.h"
#include "shm/notify/hint.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"
#include "tests/api/prefix-storm.h"

/* Watchers with a descriptor; the others sleep in calls. */
#define WITH_RING   4u
#define WITH_THREAD 5u

void look_at_all(struct follower *follower)
{
        struct sb_scan_options how = {.size = sizeof(how), .cut = sb_watch_cut(follower->watch)};
        struct sb_guard guard = {0};
        struct known before[ALL];
        struct sb_scan *scan;
        int r;

        memcpy(before, follower->known, sizeof(before));
        memset(follower->known, 0, sizeof(follower->known));
        r = sb_scan_open_at(follower->bus, (struct sb_bytes){"storm/", 6}, &how, &scan);
        if (r)
                COMPLAIN("a scan at the watch's cut said %d", r);
        while (!(r = sb_scan_next(scan, &guard))) {
                follower->known[number_of(&guard)] = (struct known){PRESENT, guard.rev};
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        /* An operator's or the engine's doing; not in here. */
        if (r != SB_E_NOT_FOUND)
                COMPLAIN("a scan at the watch's cut ended with %d", r);
        for (unsigned key = 0; key < ALL; key++) {
                struct known *known = &follower->known[key];

                if (known->state != PRESENT)
                        *known = (struct known){
                                ABSENT, key < KEYS ? revision_at(follower->bus, key, how.cut) : 0};
                if (known->rev && known->rev < before[key].rev)
                        COMPLAIN("key %u: a scan went back from %" PRIu64 " to %" PRIu64, key,
                                before[key].rev, known->rev);
                if (key < KEYS && known->rev)
                        *(volatile uint64_t *)&table->place[follower->place].last[key] = known->rev;
        }
        follower->cut = how.cut;
        follower->txn = follower->txn_left = 0;
        table->place[follower->place].scans++;
}

/* Up to which cut the ring of the watched prefix has given up what was replaced. */
static uint64_t given_up(struct follower *follower)
{
        struct sb_handle *handle = &follower->bus->handle;
        unsigned char key[SB_KEY_LEN_MAX];
        uint32_t len = sb_prefix_key(follower->prefix.data, (uint32_t)follower->prefix.len, key);
        struct sb_ring_view ring;
        struct sb_node *node;
        uint64_t cut = 0;

        sb_pin(handle);
        node = sb_order_find(handle, key, len);
        if (node && sb_ring_of(handle, node, &ring))
                cut = sb_hint_gone(&ring);
        sb_unpin(handle);
        return cut;
}

/* Whether a change of a key that had a value may come without it: its ring went round since the
 * change was listed, and no process need keep what the change replaced. */
static bool may_lack_old(struct follower *follower, const struct sb_guard *change)
{
        if (change->old_value.data)
                return true;
        if (given_up(follower) < change->cut)
                return false;
        table->place[follower->place].late++;
        return true;
}

void follow_txn(struct follower *follower, const struct sb_guard *change, unsigned place)
{
        if (follower->txn_left && change->txn != follower->txn)
                COMPLAIN("%.*s: in the middle of a transaction", (int)change->key.len,
                        (const char *)change->key.data);
        if (change->txn && !follower->txn_left) {
                follower->txn = change->txn;
                follower->txn_left = (unsigned)((const char *)change->value.data)[place] - '0';
                table->place[follower->place].txns++;
        }
        follower->txn_left -= change->txn != 0;
}

static void follow(struct follower *follower, const struct sb_guard *change)
{
        unsigned key = number_of(change);
        struct known *known = &follower->known[key];
        bool value = change->kind == SB_VALUE;

        if (key >= ALL || change->missed)
                COMPLAIN("a change of key %u", key);
        if (change->cut < follower->cut || change->cut <= sb_watch_cut(follower->watch))
                COMPLAIN("key %u: a cut goes back", key);
        if (key < KEYS && known->rev && change->rev != known->rev + 1)
                COMPLAIN("key %u: %" PRIu64 " comes behind %" PRIu64, key, change->rev, known->rev);
        if (change->rev <= known->rev)
                COMPLAIN("key %u: %" PRIu64 " comes again", key, change->rev);
        if (known->state == ABSENT ? !value || change->old_value.data
                                   : !may_lack_old(follower, change))
                COMPLAIN("key %u: kind %u, revision %" PRIu64 " behind %s, %" PRIu64
                         ", txn %" PRIu64,
                        key, change->kind, change->rev,
                        known->state == ABSENT ? "nothing" : "a value", known->rev, change->txn);
        *known = (struct known){value ? PRESENT : ABSENT, change->rev};
        follower->cut = change->cut;
        follow_txn(follower, change, 1);
        table->place[follower->place].given++;
        if (key < KEYS)
                *(volatile uint64_t *)&table->place[follower->place].last[key] = change->rev;
}

/* What the watch has, or with a deadline waits for, all of it. */
static void drain(struct follower *follower, uint64_t deadline)
{
        struct sb_guard change = {0};
        int r;

        while ((r = sb_watch_next(follower->watch, deadline, &change)) != SB_E_TIMED_OUT) {
                if (r == SB_E_LAPPED) {
                        table->place[follower->place].lapped++;
                        look_at_all(follower);
                } else if (!r) {
                        follow(follower, &change);
                        sb_guard_release(&change);
                } else if (r != -EINTR) {
                        COMPLAIN("sb_watch_next() said %d", r);
                }
        }
}

/* Drain a watch of other keys, or of a part of them; each change has the prefix. */
static void drain_other(struct sb_watch *watch, struct sb_bytes prefix)
{
        struct sb_guard change = {0};
        int r;

        while ((r = sb_watch_next(watch, 0, &change)) != SB_E_TIMED_OUT) {
                if (r && r != SB_E_LAPPED)
                        COMPLAIN("another sb_watch_next() said %d", r);
                if (!r && (change.key.len < prefix.len ||
                                  memcmp(change.key.data, prefix.data, prefix.len) != 0))
                        COMPLAIN("a change of another prefix");
                sb_guard_release(&change);
        }
}

/* Return: what the watcher polls; -1: it sleeps in calls. */
static int descriptor(struct sb_bus *bus, unsigned place)
{
        int fd = -1;

        if (place == WITH_THREAD)
                setenv("STATEBUS_FD", "thread", 1);
        if (place == WITH_THREAD || place == WITH_RING) {
                fd = sb_fd(bus);
                if (fd < 0)
                        COMPLAIN("sb_fd() said %d", fd);
        }
        return fd;
}

int sleep_on(struct sb_bus *bus, int fd)
{
        struct pollfd look = {.fd = fd, .events = POLLIN};
        int r = fd < 0 ? sb_wait(bus, SB_FOREVER) : 0;

        if (fd >= 0 && poll(&look, 1, -1) < 0 && errno != EINTR)
                COMPLAIN("poll() failed: %d", errno);
        if (r && r != -EINTR)
                COMPLAIN("sb_wait() said %d", r);
        return r;
}

void be_watcher(const struct daemon *daemon, unsigned place)
{
        static const struct sb_bytes part = {"storm/a/", 8};
        struct sb_bytes prefix = {"storm/", place == 3 ? 0 : 6};
        struct follower follower = {.bus = attach(daemon), .prefix = prefix, .place = place};
        struct sb_watch *other = NULL, *one = NULL;
        int fd = descriptor(follower.bus, place);
        int r = sb_watch_open(follower.bus, prefix, SB_PREFIX, SB_ANY_REV, &follower.watch);

        if (!r && place > 1)
                r = sb_watch_open(follower.bus, part, SB_PREFIX, SB_ANY_REV, &other);
        if (!r && place > 1)
                r = sb_watch_open(follower.bus, key_of(0), 0, SB_ANY_REV, &one);
        if (r)
                COMPLAIN("sb_watch_open() said %d", r);
        look_at_all(&follower);
        if (place <= 1)
                drain(&follower, SB_FOREVER);
        for (;;) {
                drain(&follower, 0);
                drain_other(other, part);
                drain_other(one, key_of(0));
                sleep_on(follower.bus, fd);
        }
}
