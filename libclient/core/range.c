/*
 * Deleting a range: all keys from one key to below another one, or with a prefix, at one moment.
 *
 * A scan in a transaction goes over the range, and each key that it gives becomes a delete in the
 * write set. Without a transaction of the caller's that is one serializable transaction, tried
 * again while others write there. The scan has noted the whole range, so that a key that is born
 * in it before the commit is a conflict, and no key is left that was there when the keys went.
 *
 * Always true: the bus's own keys stay. They are in a scan alone that has a prefix that begins so,
 * and a range that begins so is refused.
 *
 * The public call is described in statebus.h.
 */
#include <errno.h>

#include "libclient/core/txn.h"
#include "libclient/core/use.h"
#include "libclient/core/write.h"
#include "shm/base/fault.h"

struct wish {
        struct sb_bus *bus;
        struct sb_bytes from, to;
        uint32_t flags;
        uint64_t count; /* of keys that had a value */
};

/* Open a scan of the range, which stands before its first key. Return: as sb_scan_open_at(). */
static int range_open(const struct wish *wish, struct sb_txn *txn, struct sb_scan **ret_scan)
{
        const struct sb_scan_options how = {.size = sizeof(how), .txn = txn, .end = wish->to};
        int r;

        if (wish->flags & SB_PREFIX)
                return sb_scan_open(wish->bus, txn, wish->from, ret_scan);
        r = sb_scan_open_at(wish->bus, (struct sb_bytes){NULL, 0}, &how, ret_scan);
        return r != 0 ? r : sb_scan_seek(*ret_scan, wish->from);
}

/* Go over the range in @txn. Return: 0; as sb_scan_open_at(), sb_scan_next(),
 * sb_txn_delete(). */
static int range_delete(void *argument, struct sb_txn *txn)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct wish *wish = argument;
        struct sb_guard guard = {0};
        int r = range_open(wish, txn, &scan);

        wish->count = 0;
        while (r == 0) {
                r = sb_scan_next(scan, &guard);
                if (r == SB_E_NOT_FOUND)
                        return 0;
                if (r == 0)
                        r = sb_bus_txn_delete_shown(txn, &guard);
                sb_guard_release(&guard);
                wish->count += r == 0;
        }
        return r;
}

/* Whether the arguments can be meant. Return: 0, -EINVAL, -ENAMETOOLONG, -EPERM. */
static int range_check(
        const struct wish *wish, const struct sb_txn *txn, const struct sb_write *how)
{
        bool prefix = wish->flags & SB_PREFIX;
        size_t len_max;
        int r;

        if (!wish->bus || (wish->flags & ~SB_PREFIX) != 0 ||
                (!wish->from.data && wish->from.len > 0) ||
                (prefix ? wish->to.data || wish->to.len > 0 : !wish->to.data))
                return -EINVAL;
        if (txn && (how || txn->state != SB_BUS_TXN_OPEN || txn->bus != wish->bus))
                return -EINVAL;
        len_max = wish->bus->handle.segment.key_len_max;
        if (wish->from.len > len_max || wish->to.len > len_max)
                return -ENAMETOOLONG;
        r = sb_write_check(how);
        return r != 0 ? r : sb_write_key(wish->from);
}

/* What the range is deleted under; fault DELETE_RANGE_BLIND: nothing looks at what was read. */
static uint32_t range_isolation(void)
{
        return SB_FAULT(DELETE_RANGE_BLIND) ? SB_SNAPSHOT : SB_SERIALIZABLE;
}

int sb_delete_range(struct sb_bus *bus, struct sb_txn *txn, struct sb_bytes from,
        struct sb_bytes to, uint32_t flags, const struct sb_write *how, uint64_t *ret_count)
{
        struct wish wish = {.bus = bus, .from = from, .to = to, .flags = flags};
        int r;

        SB_USE(bus, sb_delete_range(bus, txn, from, to, flags, how, ret_count));
        r = range_check(&wish, txn, how);
        if (r == 0 && txn) {
                r = sb_bus_check_txn(txn);
                if (r == 0)
                        r = sb_write_able(bus, NULL);
                if (r == 0)
                        r = range_delete(&wish, txn);
        } else if (r == 0) {
                r = sb_transact(bus, range_isolation(), range_delete, &wish, how);
        }
        if (r == 0 && ret_count)
                *ret_count = wish.count;
        return r;
}
