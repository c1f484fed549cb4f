/*
 * Undo: a key, or all keys with a prefix, become what they were in a cut, in one serializable
 * transaction.
 *
 * Two scans go side by side, one over the present state and one over the past one; only what
 * differs is written.
 *
 * Always true: the present is read through the transaction. So another writer that comes in between
 * makes a conflict, and the whole is tried again. Marks and rules stay as they are: the bus's own
 * keys are in no scan but one with a prefix that begins as they do, and such a prefix is refused.
 *
 * The public calls are described in statebus.h.
 */
#include <errno.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/core/use.h"
#include "libclient/core/write.h"
#include "shm/base/fault.h"

struct wish {
        struct sb_bus *bus;
        struct sb_bytes key;
        uint64_t cut;
};

static bool restore_same(const struct sb_guard *a, const struct sb_guard *b)
{
        return a->value.len == b->value.len &&
               memcmp(a->value.data, b->value.data, a->value.len) == 0;
}

/* Make one key what it was. @now and @then are held, or not, as the key has or had a value. */
static int restore_key(struct sb_txn *txn, const struct sb_guard *now, const struct sb_guard *then)
{
        if (!then->bus)
                return !now->bus ? 0 : sb_txn_delete(txn, now->key);
        if (now->bus && restore_same(now, then))
                return 0;
        return sb_txn_set(txn, then->key, then->value);
}

static int restore_one(void *argument, struct sb_txn *txn)
{
        const struct wish *wish = argument;
        struct sb_guard now = {0}, then = {0};
        int r = sb_get_at(wish->bus, wish->key, wish->cut, &then);

        if (r == 0 || r == SB_E_NOT_FOUND)
                r = sb_txn_get(txn, wish->key, &now);
        if (r == 0 || r == SB_E_NOT_FOUND)
                r = restore_key(txn, &now, &then);
        sb_guard_release(&now);
        sb_guard_release(&then);
        return r;
}

/* Compare the keys of two guards; a guard that is not held stands for the end of its scan. */
static int restore_order(const struct sb_guard *a, const struct sb_guard *b)
{
        size_t len = a->key.len < b->key.len ? a->key.len : b->key.len;
        int r;

        if (!a->bus || !b->bus)
                return (!a->bus) - (!b->bus); /* the end comes behind all keys */
        r = len == 0 ? 0 : memcmp(a->key.data, b->key.data, len);
        return r != 0 ? r : (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

/* The same in a range, where @now shows the key that is to be deleted, and so is held meanwhile.
 * Fault RESTORE_NOW_RELEASED_FIRST: no longer. */
static int restore_shown(struct sb_txn *txn, struct sb_guard *now, const struct sb_guard *then)
{
        struct sb_guard shown = *now;

        if (SB_FAULT(RESTORE_NOW_RELEASED_FIRST))
                sb_guard_release(now);
        return restore_key(txn, &shown, then);
}

/* Whether a step of a scan came to its end. Fault RESTORE_LAPPED_ENDS: or its cut was taken away.
 */
static bool restore_is_end(int r)
{
        return r == SB_E_NOT_FOUND || (r == SB_E_LAPPED && SB_FAULT(RESTORE_LAPPED_ENDS));
}

/* Go on to the next key; at the end the guard is not held. Return: 0, or as sb_scan_next(). */
static int restore_step(struct sb_bus *bus, struct sb_scan *scan, struct sb_guard *guard)
{
        int r;

        sb_guard_release(guard);
        r = sb_scan_next(scan, guard);
        /* As in sb_bus_txn_delete_shown(): the lengths are what the version says. */
        if (r == 0 && (guard->key.len - 1 >= bus->handle.segment.key_len_max ||
                              guard->value.len > bus->handle.segment.value_len_max)) {
                sb_guard_release(guard);
                return -EIO;
        }
        if (r == SB_E_LAPPED)
                sb_guard_release(guard);
        return restore_is_end(r) ? 0 : r;
}

static int restore_between(
        struct sb_bus *bus, struct sb_txn *txn, struct sb_scan *nows, struct sb_scan *thens)
{
        struct sb_guard now = {0}, then = {0};
        struct sb_guard none = {0};
        int r = restore_step(bus, nows, &now);

        if (r == 0)
                r = restore_step(bus, thens, &then);
        while (r == 0 && (now.bus || then.bus)) {
                int which = restore_order(&now, &then);

                r = restore_shown(txn, which <= 0 ? &now : &none, which >= 0 ? &then : &none);
                if (r == 0 && which <= 0)
                        r = restore_step(bus, nows, &now);
                if (r == 0 && which >= 0)
                        r = restore_step(bus, thens, &then);
        }
        sb_guard_release(&now);
        sb_guard_release(&then);
        return r;
}

static int restore_all(void *argument, struct sb_txn *txn)
{
        const struct wish *wish = argument;
        const struct sb_scan_options how = {.size = sizeof(how), .cut = wish->cut};
        sb_auto(sb_scan_closep) struct sb_scan *nows = NULL, *thens = NULL;
        int r = sb_scan_open_at(wish->bus, wish->key, &how, &thens);

        if (r == 0)
                r = sb_scan_open(wish->bus, txn, wish->key, &nows);
        return r != 0 ? r : restore_between(wish->bus, txn, nows, thens);
}

/* What a state is restored under; fault RESTORE_BLIND: nothing looks at what was read. */
static uint32_t restore_isolation(void)
{
        return SB_FAULT(RESTORE_BLIND) ? SB_SNAPSHOT : SB_SERIALIZABLE;
}

int sb_restore(struct sb_bus *bus, struct sb_bytes key, uint32_t flags, uint64_t cut,
        const struct sb_write *how)
{
        struct wish wish = {.bus = bus, .key = key, .cut = cut};
        int r;

        SB_USE(bus, sb_restore(bus, key, flags, cut, how));
        if (!bus || (flags & ~SB_PREFIX) != 0 || cut <= SB_STAMP_PLACEHOLDER ||
                (!key.data && key.len > 0) || (key.len == 0 && !(flags & SB_PREFIX)))
                return -EINVAL;
        if (key.len > bus->handle.segment.key_len_max)
                return -ENAMETOOLONG;
        r = sb_write_check(how);
        if (r == 0)
                r = sb_write_key(key);
        if (r != 0)
                return r;
        return sb_transact(bus, restore_isolation(), flags & SB_PREFIX ? restore_all : restore_one,
                &wish, how);
}
