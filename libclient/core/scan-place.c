/* Where a scan stands; see scan-place.h. */

#include "libclient/core/scan-place.h"

#include <string.h>

#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/keys/node.h"
#include "shm/layout/segment.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/snapshot.h"

/* Let go of the node at which the scan stands, if it holds that. */
static void scan_place_leave_node(struct sb_scan *scan)
{
        if (scan->position == AT_NODE && scan->past)
                sb_scan_place_hold(scan, 0);
}

void sb_scan_let_go(struct sb_scan *scan)
{
        sb_scan_place_hold_last(scan, 0);
        scan_place_leave_node(scan);
}

void sb_scan_stand_at_key(struct sb_scan *scan, const void *key, uint32_t key_len, bool after)
{
        if (key_len > 0)
                memmove(scan->key, key, key_len);
        /* After the copy: the key may lie in the node, which only this guard word still holds. */
        scan_place_leave_node(scan);
        scan->key_len = key_len;
        scan->after = after;
        scan->position = AT_KEY;
}

void sb_scan_stand_at_node(struct sb_scan *scan, struct sb_node *node)
{
        scan->node = sb_offset_of(&scan->bus->handle.segment, node);
        if (scan->past)
                sb_scan_place_hold(scan, scan->node);
        scan->position = AT_NODE;
}

void sb_scan_stand_at_end(struct sb_scan *scan)
{
        scan_place_leave_node(scan);
        scan->position = AT_END;
}

bool sb_scan_position(const struct sb_scan *scan, struct sb_node_key *ret)
{
        const struct sb_segment *segment = &scan->bus->handle.segment;
        const struct sb_node *node;

        *ret = (struct sb_node_key){.bytes = scan->key, .len = scan->key_len};
        if (scan->position != AT_NODE)
                return scan->after;
        node = sb_node_at(segment, scan->node); /* a key never changes */
        *ret = node ? sb_node_key(segment, node) : (struct sb_node_key){0};
        return true;
}

bool sb_scan_is_ahead(struct sb_node_key at, bool after, const unsigned char *key, uint32_t key_len)
{
        int order = sb_bytes_compare(key, key_len, at.bytes, at.len);

        return after ? order > 0 : order >= 0;
}

void sb_scan_bound_set(struct sb_scan_bound *ret, const void *key, uint32_t len, bool inclusive)
{
        if (len > 0)
                memcpy(ret->key, key, len);
        ret->len = len;
        ret->inclusive = inclusive;
}

/* Whether a key lies below all keys with the prefix, or among them. */
static bool scan_place_not_above_prefix(
        const struct sb_scan *scan, const void *key, uint32_t key_len)
{
        return sb_bytes_compare(key, key_len, scan->prefix, scan->prefix_len) <= 0 ||
               sb_scan_place_has_prefix(scan, key, key_len);
}

/* Say where the scan's last key ends: in the lowest gap that no key of the scan lies above. */
static void scan_place_bound_end(const struct sb_scan *scan, struct sb_scan_bound *ret)
{
        uint32_t len = scan->prefix_len;

        if (scan->bounded && scan_place_not_above_prefix(scan, scan->end, scan->end_len)) {
                sb_scan_bound_set(ret, scan->end, scan->end_len, false);
                return;
        }
        /* It is right before the least key that lies behind all keys with the prefix. */
        while (len > 0 && scan->prefix[len - 1] == 0xff)
                len--;
        sb_scan_bound_set(ret, scan->prefix, len, false);
        if (len > 0) {
                ret->key[len - 1]++;
                return;
        }
        memset(ret->key, 0xff, SB_KEY_LEN_MAX); /* no key is larger */
        ret->len = SB_KEY_LEN_MAX;
        ret->inclusive = true;
}

bool sb_scan_nodes_stay(const struct sb_scan *scan)
{
        return scan->past || SB_FAULT(SCAN_NODE_UNASKED) ||
               sb_snapshot_holds(&scan->bus->handle, scan->snapshot, scan->cut);
}

void sb_scan_bound_of(const struct sb_scan *scan, struct sb_scan_bound *ret)
{
        if (scan->position == AT_NODE) {
                struct sb_node_key key = {0};

                sb_pin(&scan->bus->handle);
                if (sb_scan_nodes_stay(scan))
                        (void)sb_scan_position(scan, &key);
                sb_scan_bound_set(ret, key.bytes, key.len, true);
                sb_unpin(&scan->bus->handle);
                return;
        }
        if (scan->position == AT_KEY &&
                scan_place_not_above_prefix(scan, scan->key, scan->key_len) &&
                sb_scan_place_below_end(scan, scan->key, scan->key_len)) {
                sb_scan_bound_set(ret, scan->key, scan->key_len, scan->after);
                return;
        }
        /* It stands at the end, or above all of its keys. */
        scan_place_bound_end(scan, ret);
}
