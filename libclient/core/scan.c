/*
 * Scans: the keys with a prefix, in byte order, at one cut.
 *
 * A scan announces its cut as a snapshot for as long as it is open, so that no version of the cut
 * goes away, and no key that has a value in it. Between calls it stands at such a key's node, and
 * has the nodes of those that come next, which it took out of the ordered index together: the keys
 * of the cut are among them, wherever the others go meanwhile (scan-step.c). Where rules alone keep
 * the cut, keys may go; there the scan takes nodes anew with each step.
 *
 * In a transaction the scan reads at the transaction's cut, which is announced already, and merges
 * the write set in. The next key is the lesser of the next key in the segment and the next entry of
 * the write set. An entry hides the same key in the segment, and a delete is passed over. Each step
 * looks the entry up anew, so the caller may write in between. A serializable transaction notes
 * each step in its read set: between the gaps before and behind the step there was nothing but what
 * the step gave.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/scan.h"

#include <stdlib.h>
#include <string.h>

#include "libclient/core/scan-step.h"
#include "libclient/core/sized.h"
#include "libclient/core/use.h"
#include "libclient/core/watches.h"
#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/past.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/snapshot.h"

/* Take a cut that was taken before, if a mark or rules keep it for all keys of the scan. Return: 0,
 * SB_E_LAPPED, SB_E_FULL. */
static int scan_take_past(struct sb_scan *scan, struct sb_bus *bus, uint64_t cut)
{
        struct sb_handle *handle = &bus->handle;
        int r = sb_snapshot_open_at(handle, cut, &scan->snapshot);

        if (r != 0)
                return r;
        scan->cut = cut;
        /* After the announcement: until here the mark, or a watch, kept the cut, from here on the
         * scan does. */
        if (sb_past_is_marked(&handle->segment, cut, scan->prefix, scan->prefix_len) ||
                sb_bus_holds_cut(bus, cut))
                return 0;
        scan->past = true;
        scan->watched = sb_bus_keeps_cut(bus, cut, scan->prefix, scan->prefix_len);
        if (scan->watched)
                return 0;
        scan->rules = sb_load_acquire(&handle->segment.super->rule_count); /* A:rule. */
        if (!sb_reserved_is(scan->prefix, scan->prefix_len) &&
                sb_past_kept_all(handle, scan->prefix, scan->prefix_len, cut, &scan->end_ns))
                return 0;
        sb_snapshot_close(handle, scan->snapshot);
        return SB_E_LAPPED;
}

/* Take a fresh cut, or use @txn's, or @cut unless that is 0. Return: 0, SB_E_FULL, SB_E_LAPPED. */
static int scan_take_cut(struct sb_scan *scan, struct sb_bus *bus, struct sb_txn *txn, uint64_t cut)
{
        if (cut != 0)
                return scan_take_past(scan, bus, cut);
        if (!txn)
                return sb_snapshot_open(&bus->handle, &scan->snapshot, &scan->cut);
        scan->in_txn = true;
        scan->snapshot = txn->snapshot;
        scan->cut = txn->cut;
        sb_bus_reader_enter(&scan->reader, txn);
        return 0;
}

int sb_scan_open(
        struct sb_bus *bus, struct sb_txn *txn, struct sb_bytes prefix, struct sb_scan **ret_scan)
{
        const struct sb_scan_options how = {.size = sizeof(how), .txn = txn};

        SB_USE(bus, sb_scan_open(bus, txn, prefix, ret_scan));
        return sb_scan_open_at(bus, prefix, &how, ret_scan);
}

/* The first header's scan had no end. */
static const size_t scan_sizes_earlier[] = {offsetof(struct sb_scan_options, end), 0};

/* Take the options as they are meant, all of them. Return: 0, -EINVAL, -ENAMETOOLONG. */
static int scan_take_options(const struct sb_bus *bus, struct sb_bytes prefix,
        const struct sb_scan_options *given, struct sb_scan_options *ret)
{
        static const struct sb_scan_options plain = {.size = sizeof(plain)};
        size_t len_max = bus->handle.segment.key_len_max;

        if (!sb_sized_take(ret, sizeof(*ret), given ? given : &plain, scan_sizes_earlier) ||
                (ret->flags & ~SB_REVERSE) != 0 || ret->zero != 0 ||
                (!ret->end.data && ret->end.len > 0) ||
                (ret->cut != 0 && (ret->txn || ret->cut <= SB_STAMP_PLACEHOLDER)))
                return -EINVAL;
        if (ret->txn && (ret->txn->state != SB_BUS_TXN_OPEN || ret->txn->bus != bus))
                return -EINVAL;
        return prefix.len > len_max || ret->end.len > len_max ? -ENAMETOOLONG : 0;
}

/* Make a scan that stands nowhere yet. Return: NULL: there is no memory. */
static struct sb_scan *scan_new(struct sb_bytes prefix, struct sb_bytes end)
{
        struct sb_scan *scan = malloc(sizeof(*scan) + end.len);

        if (!scan)
                return NULL;
        memset(scan, 0, offsetof(struct sb_scan, from));
        scan->prefix_len = scan->key_len = (uint32_t)prefix.len;
        if (prefix.len > 0) {
                memcpy(scan->prefix, prefix.data, prefix.len);
                memcpy(scan->key, prefix.data, prefix.len);
        }
        scan->bounded = end.data;
        scan->end_len = (uint32_t)end.len;
        if (end.len > 0)
                memcpy(scan->end, end.data, end.len);
        return scan;
}

int sb_scan_open_at(struct sb_bus *bus, struct sb_bytes prefix, const struct sb_scan_options *given,
        struct sb_scan **ret_scan)
{
        struct sb_scan_options how;
        struct sb_scan *scan;
        int r;

        SB_USE(bus, sb_scan_open_at(bus, prefix, given, ret_scan));
        if (!bus || !ret_scan || (!prefix.data && prefix.len > 0))
                return -EINVAL;
        r = scan_take_options(bus, prefix, given, &how);
        if (r != 0)
                return r;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        /* A cut that was not taken yet has no past. */
        if (how.cut != 0 && !sb_clock_reaches(&bus->handle, how.cut))
                return -EINVAL;
        r = sb_bus_guards_prepare(bus, 1);
        if (r != 0)
                return r;
        scan = scan_new(prefix, how.end);
        if (!scan)
                return -ENOMEM;
        r = scan_take_cut(scan, bus, how.txn, how.cut);
        if (r != 0) {
                free(scan);
                return r;
        }
        scan->bus = bus;
        scan->guard = sb_bus_guard_take(bus);
        scan->left = how.limit != 0 ? how.limit : UINT64_MAX;
        scan->reverse = (how.flags & SB_REVERSE) != 0;
        scan->position = scan->reverse ? AT_END : AT_KEY;
        scan->plain = !scan->reverse && !scan->in_txn && !scan->past;
        scan->reserved = sb_reserved_is(scan->prefix, prefix.len);
        scan->next = bus->scans;
        scan->link = &bus->scans;
        if (scan->next)
                scan->next->link = &scan->next;
        bus->scans = scan;
        *ret_scan = scan;
        return 0;
}

/* Whether the scan can be used now. Return: 0, SB_E_DETACHED, -EINVAL: its transaction is decided
 * or has ended. */
static inline __attribute__((always_inline)) int scan_check(const struct sb_scan *scan)
{
        if (!scan->bus)
                return SB_E_DETACHED;
        if (scan->in_txn)
                return !scan->reader.txn ? -EINVAL : sb_bus_check_txn(scan->reader.txn);
        return sb_bus_detached(scan->bus) ? SB_E_DETACHED : 0;
}

static inline __attribute__((always_inline)) int scan_check_step(
        const struct sb_scan *scan, const struct sb_guard *ret_guard)
{
        return !scan || !ret_guard ? -EINVAL : scan_check(scan);
}

/* Step on, or @backwards, in the direction in which the scan was opened. */
static inline __attribute__((always_inline)) int scan_turn(
        struct sb_scan *scan, bool backwards, struct sb_guard *ret_guard)
{
        bool down = scan->reverse != backwards;
        int r;

        if (scan->lapped)
                return SB_E_LAPPED;
        r = !down && scan->position == AT_END ? SB_E_NOT_FOUND
                                              : sb_scan_step(scan, down, ret_guard);
        return r == SB_E_NOT_FOUND ? sb_bus_result(scan->bus, r) : r;
}

/* A next of a scan that can be used. Return: as sb_scan_next(). */
static inline __attribute__((always_inline)) int scan_go_on(
        struct sb_scan *scan, struct sb_guard *ret_guard)
{
        int r;

        if (scan->left == 0)
                return SB_E_NOT_FOUND;
        r = scan_turn(scan, false, ret_guard);
        scan->left -= r == 0 || (r == SB_E_LAPPED && scan->trimmed);
        return r;
}

/* A step the short way, if the scan can go it. */
static inline __attribute__((always_inline)) bool scan_next_short(
        struct sb_scan *scan, struct sb_guard *ret_guard)
{
        if (SB_UNLIKELY(scan->run_at >= scan->short_to) || !sb_scan_step_short(scan, ret_guard))
                return false;
        scan->left--;
        return true;
}

int sb_scan_next(struct sb_scan *scan, struct sb_guard *ret_guard)
{
        int r;

        SB_USE(scan ? scan->bus : NULL, sb_scan_next(scan, ret_guard));
        if (SB_LIKELY(scan && ret_guard) && SB_LIKELY(scan->bus) &&
                SB_LIKELY(sb_bus_usable(scan->bus)) && SB_LIKELY(scan_next_short(scan, ret_guard)))
                return 0;
        r = scan_check_step(scan, ret_guard);
        return r != 0 ? r : scan_go_on(scan, ret_guard);
}

/* The step behind a batch has answered @r, which the next call is to answer. Return: 0. */
static int scan_take_back(struct sb_scan *scan, int r, struct sb_guard *guard)
{
        /* A step goes on behind a key of which too little is left. */
        if (r == SB_E_LAPPED && scan->trimmed) {
                sb_scan_stand_at_key(
                        scan, guard->key.data, (uint32_t)guard->key.len, scan->reverse);
                scan->left++;
                sb_guard_release(guard);
        }
        if (r == -EIO)
                sb_damage_note(&scan->bus->handle);
        return 0;
}

int sb_scan_next_many(
        struct sb_scan *scan, struct sb_guard *ret_guards, size_t count, size_t *ret_count)
{
        size_t done = 0;
        int r;

        SB_USE(scan ? scan->bus : NULL, sb_scan_next_many(scan, ret_guards, count, ret_count));
        r = count == 0 || !ret_count ? -EINVAL : scan_check_step(scan, ret_guards);
        if (r == 0)
                scan->wished = count < SB_SCAN_RUN ? (uint32_t)count : SB_SCAN_RUN;
        while (r == 0 && done < count) {
                if (!scan_next_short(scan, &ret_guards[done]))
                        r = scan_go_on(scan, &ret_guards[done]);
                done += r == 0;
        }
        if (scan)
                scan->wished = 0;
        if (done == 0)
                return r;
        *ret_count = done;
        return scan_take_back(scan, r, &ret_guards[done]);
}

int sb_scan_prev(struct sb_scan *scan, struct sb_guard *ret_guard)
{
        int r;

        SB_USE(scan ? scan->bus : NULL, sb_scan_prev(scan, ret_guard));
        r = scan_check_step(scan, ret_guard);
        return r != 0 ? r : scan_turn(scan, true, ret_guard);
}

int sb_scan_seek_end(struct sb_scan *scan)
{
        int r;

        SB_USE(scan ? scan->bus : NULL, sb_scan_seek_end(scan));
        if (!scan)
                return -EINVAL;
        r = scan_check(scan);
        if (r != 0)
                return r;
        sb_scan_place_forget(scan);
        sb_scan_stand_at_end(scan);
        return 0;
}

/* Stand right before a key, or right @behind it. Return: as sb_scan_seek(). */
static int scan_stand(struct sb_scan *scan, struct sb_bytes key, bool behind)
{
        int r;

        if (!scan || (!key.data && key.len > 0))
                return -EINVAL;
        if (key.len > SB_KEY_LEN_MAX)
                return -ENAMETOOLONG;
        r = scan_check(scan);
        if (r != 0)
                return r;
        sb_scan_place_forget(scan);
        /* Below all keys of the scan it stands before the first one. */
        if (key.len == 0 ||
                sb_bytes_compare(key.data, (uint32_t)key.len, scan->prefix, scan->prefix_len) < 0)
                sb_scan_stand_at_key(scan, scan->prefix, scan->prefix_len, false);
        else
                sb_scan_stand_at_key(scan, key.data, (uint32_t)key.len, behind);
        return 0;
}

int sb_scan_seek(struct sb_scan *scan, struct sb_bytes key)
{
        SB_USE(scan ? scan->bus : NULL, sb_scan_seek(scan, key));
        return scan_stand(scan, key, false);
}

int sb_scan_seek_last(struct sb_scan *scan, struct sb_bytes key)
{
        SB_USE(scan ? scan->bus : NULL, sb_scan_seek_last(scan, key));
        return scan_stand(scan, key, true);
}

uint64_t sb_scan_cut(const struct sb_scan *scan)
{
        return !scan ? 0 : scan->cut;
}

struct sb_scan *sb_scan_close(struct sb_scan *scan)
{
        SB_USE_END(scan ? scan->bus : NULL, sb_scan_close(scan));
        if (!scan)
                return NULL;
        if (scan->bus) {
                /* In a forked child the announcement and the guard word are the parent's. */
                if (sb_load_relaxed(scan->bus->alive) != 0) {
                        sb_scan_let_go(scan);
                        if (!scan->in_txn || SB_FAULT(SCAN_ENDS_TXN_CUT))
                                sb_snapshot_close(&scan->bus->handle, scan->snapshot);
                }
                sb_bus_reader_leave(&scan->reader);
                sb_bus_guard_give(scan->bus, scan->guard);
                *scan->link = scan->next;
                if (scan->next)
                        scan->next->link = scan->link;
        }
        free(scan);
        return NULL;
}

void sb_bus_orphan_scans(struct sb_scan *scans)
{
        for (struct sb_scan *scan = scans; scan; scan = scan->next) {
                sb_bus_guard_give(scan->bus, scan->guard);
                scan->bus = NULL;
        }
}
