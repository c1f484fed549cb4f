/*
 * What the programs that watch prefixes share. For a file with `world` and `bus`.
 */
#ifndef SB_TEST_PREFIX_H
#define SB_TEST_PREFIX_H

#include <stdbool.h>
#include <string.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"
#include "tests/api/watched.h"
#include "tests/api/world.h"

#define KEPT 1024u /* changes, at least */

static inline int open_watch(struct sb_bus *on, const char *prefix, struct sb_watch **ret)
{
        return sb_watch_open(on, b(prefix), SB_PREFIX, SB_ANY_REV, ret);
}

/* Whether the next change is this one; it is released. @value NULL: a delete. @old NULL: it
 * replaced nothing. */
static inline bool next_is(
        struct sb_watch *watch, const char *key, const char *value, const char *old)
{
        struct sb_guard change = {0};
        bool same = sb_watch_next(watch, 0, &change) == 0 && is(change.key, key) &&
                    change.missed == 0 && change.cut > 0 && is(change.old_value, old) &&
                    (value ? is(change.value, value) && change.kind == SB_VALUE
                           : change.kind == SB_DELETED);

        sb_guard_release(&change);
        return same;
}

/* A change as it came. */
struct seen {
        char key[24], value[24];
        uint64_t rev, cut, txn;
        uint32_t kind;
};

/* Copy all that a watch has, up to @room. Return: how many; -1: a call failed, or lapped. */
static inline int all_of(struct sb_watch *watch, struct seen *ret, int room)
{
        struct sb_guard change = {0};
        int count = 0, r = 0;

        while (count < room && !(r = sb_watch_next(watch, 0, &change))) {
                ret[count] = (struct seen){.rev = change.rev,
                        .cut = change.cut,
                        .txn = change.txn,
                        .kind = change.kind};
                if (change.key.len >= sizeof(ret->key) || change.value.len >= sizeof(ret->value))
                        return -1;
                memcpy(ret[count].key, change.key.data, change.key.len);
                if (change.value.len > 0)
                        memcpy(ret[count].value, change.value.data, change.value.len);
                sb_guard_release(&change);
                count++;
        }
        return r == 0 || r == SB_E_TIMED_OUT ? count : -1;
}

/* Whether each change has a cut that is not below the one before, each transaction is in one piece,
 * and each key's revisions are one after the other. */
static const char *order_breaks(const struct seen *seen, int count)
{
        for (int i = 1; i < count; i++) {
                if (seen[i].cut < seen[i - 1].cut)
                        return "a cut goes back";
                for (int k = i - 1; k >= 0; k--)
                        if (!strcmp(seen[k].key, seen[i].key)) {
                                if (seen[i].rev != seen[k].rev + 1)
                                        return "a key's revision does not follow";
                                break;
                        }
                if (seen[i].txn && seen[i].txn != seen[i - 1].txn)
                        for (int k = i - 2; k >= 0; k--)
                                if (seen[k].txn == seen[i].txn)
                                        return "a transaction is not in one piece";
        }
        return NULL;
}

static inline uint64_t free_bytes(void)
{
        struct sb_admin_stat stat;

        return sb_admin_stat(bus, &stat) == 0 ? stat.data_free_bytes : 0;
}

/* Attention but the log's, and the lengths behind it. */
static inline bool is_attended(void)
{
        const struct sb_superblock *super = bus->handle.segment.super;
        bool any = (sb_load_relaxed(&super->attention) & ~SB_ATTENTION_LOG) != 0;

        for (unsigned i = 0; i < SB_PREFIX_LENGTHS; i++)
                any |= (uint32_t)sb_load_relaxed(&super->prefix_lengths[i]) != 0;
        return any;
}

/* Take a cut, so that what is written before and behind it comes in this order. */
static inline bool take_cut(void)
{
        struct sb_txn *first = NULL, *second = NULL;
        int r = sb_txn_begin(bus, SB_SNAPSHOT, &first);

        if (r == 0)
                r = sb_txn_begin(bus, SB_SNAPSHOT, &second);
        sb_txn_end(second);
        /* The clock has moved on since its cut: so this asks for a sweep, which frees units that
         * are empty and say so still. */
        sb_txn_end(first);
        return r == 0;
}

/* A remote engine rests for some hundred ticks between sweeps that find nothing; it ticks while
 * anything changes. */
static inline bool ends_unattended(void)
{
        for (unsigned i = 0; i < 2000 && is_attended(); i++) {
                if (!world.remote)
                        world_prune(&world, bus);
                else if (take_cut())
                        sb_os_linux.pause(NULL, 10 * MS);
        }
        return !is_attended();
}

/* The same until so much is free again. */
static inline bool comes_to_free(uint64_t bytes)
{
        for (unsigned i = 0; i < 2000 && free_bytes() < bytes; i++) {
                if (!world.remote)
                        world_prune(&world, bus);
                else if (take_cut())
                        sb_os_linux.pause(NULL, 10 * MS);
        }
        return free_bytes() >= bytes;
}

#endif
