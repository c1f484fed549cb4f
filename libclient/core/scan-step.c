/*
 * Steps of a scan; see scan-step.h.
 *
 * A step takes a pin, walks the ordered index until it meets a key with a version to show, and
 * holds that version before the pin ends. A long walk over keys without one pins anew now and then.
 * The write set is asked first: its next entry is where the walk ends at the latest.
 *
 * Always true: after each read the step asks whether the cut still stands. So what it gives was
 * there in the cut, and what it passed over was not.
 */
#include "libclient/core/scan-step.h"

#include <string.h>

#include "libclient/core/watches.h"
#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/past.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find-plain.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"

#define AGAIN        (-1) /* the walk has to go on under a fresh pin; never leaves this file */
#define IN_WRITE_SET (-2) /* an entry of the write set comes first; never leaves this file */
/* Keys to pass over under one pin, so that a walk over dead keys holds up no memory. */
#ifndef SB_SCAN_STEPS_MAX
#define SB_SCAN_STEPS_MAX 256u
#endif

/* Whether the rules that covered the cut still do. It is asked after each read. */
static bool scan_step_past_holds(const struct sb_scan *scan)
{
        struct sb_handle *handle = &scan->bus->handle;
        const struct sb_segment *segment = &handle->segment;
        uint64_t end_ns;

        if (!scan->past)
                return true;
        if (scan->watched)
                return sb_bus_keeps_cut(scan->bus, scan->cut, scan->prefix, scan->prefix_len);
        /* A:history-floor. */
        if (sb_load_acquire(&segment->super->history_floor) > scan->cut ||
                (scan->end_ns != UINT64_MAX &&
                        segment->os->now_ns(segment->os->context) >= scan->end_ns))
                return false;
        /* A:rule. The count goes up before a rule is changed. So what was read before this look was
         * kept, if the rules that are read after it say so. */
        return sb_load_acquire(&segment->super->rule_count) == scan->rules ||
               sb_past_kept_all(handle, scan->prefix, scan->prefix_len, scan->cut, &end_ns);
}

/* The version of a key that the scan shows, or NULL. Call it under a pin. */
static inline __attribute__((always_inline)) struct sb_version *scan_step_version_of(
        struct sb_scan *scan, struct sb_node *node)
{
        struct sb_version *version = NULL;
        enum sb_past past;

        if (scan->past) {
                past = sb_past_walk(&scan->bus->handle, node, scan->cut, &version);
                scan->trimmed = past == SB_PAST_TRIMMED && version;
                if (past == SB_PAST_TRIMMED)
                        return version;
                version = past == SB_PAST_FOUND ? version : NULL;
        } else {
                version = sb_find_in_node(&scan->bus->handle, node, scan->cut);
        }
        return version && (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE
                       ? version
                       : NULL;
}

/* Let go of the node at which the scan stands, if it stands at one; fault SCAN_NODE_KEPT: not. */
static void scan_step_leave_node(struct sb_scan *scan)
{
        if (scan->position == AT_NODE && !SB_FAULT(SCAN_NODE_KEPT))
                sb_guard_set(&scan->bus->handle, scan->guard, 0);
}

void sb_scan_stand_at_key(struct sb_scan *scan, const void *key, uint32_t key_len, bool after)
{
        if (key_len > 0)
                memmove(scan->key, key, key_len);
        /* After the copy: the key may lie in the node, which only this guard word still holds. */
        scan_step_leave_node(scan);
        scan->key_len = key_len;
        scan->compares = scan->sought = false;
        scan->after = after;
        scan->position = AT_KEY;
}

#define KEYS_APART 64u /* nodes between two of which the keys are compared */

/* Whether the scan gets on: keys ascend, so that one which is not behind an earlier one lies in a
 * damaged segment, where the scan would go round for ever. Now and then one is compared. */
static bool scan_step_ascends(struct sb_scan *scan, struct sb_node_key key)
{
        if (++scan->passed % KEYS_APART != 0)
                return true;
        if (scan->compares && sb_bytes_compare(key.bytes, key.len, scan->key, scan->key_len) <= 0) {
                sb_damage_note(&scan->bus->handle);
                return false;
        }
        memcpy(scan->key, key.bytes, key.len);
        scan->key_len = key.len;
        scan->compares = true;
        return true;
}

/* Stand at a node, under the pin under which it was found. */
static void scan_step_stand_at_node(struct sb_scan *scan, struct sb_node *node)
{
        scan->node = sb_offset_of(&scan->bus->handle.segment, node);
        if (!SB_FAULT(SCAN_NODE_NOT_HELD))
                sb_guard_set(&scan->bus->handle, scan->guard, scan->node);
        scan->position = AT_NODE;
}

void sb_scan_stand_at_end(struct sb_scan *scan)
{
        scan_step_leave_node(scan);
        scan->position = AT_END;
}

/* Whether the entry comes before @key, in the direction of the step, or is of the same key. @key
 * NULL: there is no key; @entry NULL: no entry. */
static bool scan_step_entry_is_first(const struct sb_write_set_entry *entry,
        const unsigned char *key, uint32_t key_len, bool backwards)
{
        int order;

        if (!entry || !key)
                return entry;
        order = sb_bytes_compare(key, key_len, entry->value->bytes, entry->value->key_len);
        return backwards ? order <= 0 : order >= 0;
}

static bool scan_step_has_prefix(const struct sb_scan *scan, const void *key, uint32_t key_len)
{
        return key_len >= scan->prefix_len && sb_bytes_same(key, scan->prefix, scan->prefix_len);
}

static bool scan_step_below_end(const struct sb_scan *scan, const void *key, uint32_t key_len)
{
        return !scan->bounded || sb_bytes_compare(key, key_len, scan->end, scan->end_len) < 0;
}

/* Whether a key is one of the scan's. Each step asks. */
static inline __attribute__((always_inline)) bool scan_step_in_range(
        const struct sb_scan *scan, const void *key, uint32_t key_len)
{
        return scan_step_has_prefix(scan, key, key_len) && scan_step_below_end(scan, key, key_len);
}

/* Stand behind a value of the write set; at @node, when that has the same key. */
static int scan_step_stand_behind_entry(
        struct sb_scan *scan, const struct sb_write_set_value *value, struct sb_node *node)
{
        struct sb_node_key key = {0};

        if (node)
                key = sb_node_key(&scan->bus->handle.segment, node);
        if (key.bytes && key.len == value->key_len &&
                memcmp(key.bytes, value->bytes, value->key_len) == 0)
                scan_step_stand_at_node(scan, node);
        else
                sb_scan_stand_at_key(scan, value->bytes, value->key_len, true);
        return IN_WRITE_SET;
}

/* The first node from where the scan stands, at a key. One that was sought is there mostly: a page
 * begins behind the last key of the one before. Then the hash index has its node, at two misses and
 * not some twenty-five. That node was in the ordered index after the cut was announced: should it
 * go from here on, and the key be made anew, then the cut has nothing of that. */
static struct sb_node *scan_step_begin(struct sb_scan *scan)
{
        struct sb_handle *handle = &scan->bus->handle;
        struct sb_node *node = NULL;
        bool gone = false;

        if (scan->sought)
                node = sb_find_node(handle, scan->key, scan->key_len,
                        sb_find_hash_any(handle, scan->key, scan->key_len));
        if (node && scan->after)
                node = sb_order_next(handle, node, &gone);
        if (!node || (gone && !SB_FAULT(SCAN_GONE_IGNORED)))
                return sb_order_begin(handle, scan->key, scan->key_len, scan->after, &scan->ahead);
        sb_ahead_begin_at(&scan->ahead, 0, NULL);
        return node;
}

/* Go from where the scan stands to the first key in range with a value at the cut. Call it under a
 * pin. @entry: the next entry of the write set in range, or NULL. Return: 0: the scan stands at the
 * key's node; IN_WRITE_SET: it stands behind the entry; SB_E_NOT_FOUND: at the end; AGAIN. */
static int scan_step_forward(struct sb_scan *scan, const struct sb_write_set_entry *entry,
        struct sb_version **ret_version)
{
        struct sb_handle *handle = &scan->bus->handle;
        struct sb_node *node = NULL;

        sb_scan_step_forget(scan);
        if (scan->position == AT_NODE)
                node = sb_node_at(&handle->segment, scan->node);
        for (uint32_t steps = 0;; steps++) {
                struct sb_version *version;
                struct sb_node_key key;
                bool gone = false;

                if (!node) {
                        node = scan_step_begin(scan);
                } else {
                        struct sb_node *from = node;

                        sb_order_fetch(handle, &scan->ahead, from);
                        node = sb_order_next(handle, from, &gone);
                        if (gone && !SB_FAULT(SCAN_GONE_IGNORED)) {
                                key = sb_node_key(&handle->segment, from);
                                if (!key.bytes)
                                        break;
                                sb_scan_stand_at_key(scan, key.bytes, key.len, true);
                                return AGAIN;
                        }
                }
                if (!node)
                        break;
                key = sb_node_key(&handle->segment, node);
                if (!key.bytes || !scan_step_in_range(scan, key.bytes, key.len) ||
                        scan_step_entry_is_first(entry, key.bytes, key.len, false))
                        break;
                /* Bound: damage. A scan that goes round ends. */
                if (!scan_step_ascends(scan, key)) {
                        sb_scan_stand_at_end(scan);
                        return SB_E_NOT_FOUND;
                }
                if (!scan->reserved && sb_reserved_is(key.bytes, key.len)) {
                        sb_scan_stand_at_key(scan, SB_RESERVED_END, SB_RESERVED_LEN, false);
                        return AGAIN;
                }
                version = scan_step_version_of(scan, node);
                if (version) {
                        scan_step_stand_at_node(scan, node);
                        *ret_version = version;
                        return 0;
                }
                /* Bound: slice. AGAIN: the caller goes on from here under another pin. */
                if (steps == SB_SCAN_STEPS_MAX) {
                        scan_step_stand_at_node(scan, node);
                        return AGAIN;
                }
        }
        if (entry)
                return scan_step_stand_behind_entry(scan, entry->value, node);
        sb_scan_stand_at_end(scan);
        return SB_E_NOT_FOUND;
}

/* A gap between two keys, to look from: right before this key, or right behind it. */
struct bound {
        uint32_t len;
        bool inclusive; /* behind the key: looking down, the key itself counts */
        unsigned char key[SB_KEY_LEN_MAX];
};

static void scan_step_bound_set(struct bound *ret, const void *key, uint32_t len, bool inclusive)
{
        if (len > 0)
                memcpy(ret->key, key, len);
        ret->len = len;
        ret->inclusive = inclusive;
}

/* Whether a key lies below all keys with the prefix, or among them. */
static bool scan_step_not_above_prefix(
        const struct sb_scan *scan, const void *key, uint32_t key_len)
{
        return sb_bytes_compare(key, key_len, scan->prefix, scan->prefix_len) <= 0 ||
               scan_step_has_prefix(scan, key, key_len);
}

/* Say where the scan's last key ends: in the lowest gap that no key of the scan lies above. */
static void scan_step_bound_end(const struct sb_scan *scan, struct bound *ret)
{
        uint32_t len = scan->prefix_len;

        if (scan->bounded && scan_step_not_above_prefix(scan, scan->end, scan->end_len)) {
                scan_step_bound_set(ret, scan->end, scan->end_len, false);
                return;
        }
        /* It is right before the least key that lies behind all keys with the prefix. */
        while (len > 0 && scan->prefix[len - 1] == 0xff)
                len--;
        scan_step_bound_set(ret, scan->prefix, len, false);
        if (len > 0) {
                ret->key[len - 1]++;
                return;
        }
        memset(ret->key, 0xff, SB_KEY_LEN_MAX); /* no key is larger */
        ret->len = SB_KEY_LEN_MAX;
        ret->inclusive = true;
}

/* Say where the scan stands. */
static void scan_step_bound_of(const struct sb_scan *scan, struct bound *ret)
{
        const struct sb_segment *segment = &scan->bus->handle.segment;

        if (scan->position == AT_NODE) {
                /* It stands behind this node's key. The guard word holds the node, and a key never
                 * changes. */
                const struct sb_node *node = sb_node_at(segment, scan->node);
                struct sb_node_key key = {0};

                if (node)
                        key = sb_node_key(segment, node);
                scan_step_bound_set(ret, key.bytes, key.len, true);
                return;
        }
        if (scan->position == AT_KEY &&
                scan_step_not_above_prefix(scan, scan->key, scan->key_len) &&
                scan_step_below_end(scan, scan->key, scan->key_len)) {
                scan_step_bound_set(ret, scan->key, scan->key_len, scan->after);
                return;
        }
        /* It stands at the end, or above all of its keys. */
        scan_step_bound_end(scan, ret);
}

#define RUN_LEVEL 2u /* of the node from which a run goes: one in sixteen */

static bool scan_step_is_below(
        const struct sb_scan *scan, const struct sb_node *node, const struct bound *bound)
{
        struct sb_node_key key = sb_node_key(&scan->bus->handle.segment, node);
        int order;

        if (!key.bytes)
                return false;
        order = sb_bytes_compare(key.bytes, key.len, bound->key, bound->len);
        return order < 0 || (order == 0 && bound->inclusive);
}

/* The node of the run that is next below @bound; NULL: none is left. */
static struct sb_node *scan_step_from_run(struct sb_scan *scan, const struct bound *bound)
{
        for (; scan->run_count > 0; scan->run_count--) {
                struct sb_node *node =
                        sb_node_at(&scan->bus->handle.segment, scan->run[scan->run_count - 1]);

                if (node && scan_step_is_below(scan, node, bound))
                        return node;
        }
        return NULL;
}

/* Take the run of nodes below @bound, and keep those that have a value in the cut. Return: its
 * first node; NULL: it is empty. */
static struct sb_node *scan_step_take_run(
        struct sb_scan *scan, const struct bound *bound, uint32_t level)
{
        struct sb_handle *handle = &scan->bus->handle;
        struct sb_node *nodes[SB_ORDER_RUN];
        uint32_t count =
                sb_order_run_below(handle, bound->key, bound->len, bound->inclusive, level, nodes);

        for (uint32_t i = 0; i < count; i++)
                if (scan_step_version_of(scan, nodes[i]) || SB_FAULT(SCAN_RUN_OF_ALL))
                        scan->run[scan->run_count++] = sb_offset_of(&handle->segment, nodes[i]);
        return count == 0 ? NULL : nodes[0];
}

/* The node to which a scan that goes down comes next; or one below @bound that has no value in the
 * cut, as all between the two. NULL: there is none. The first time it is looked for alone, then
 * from near: a scan for the last key goes no further. */
static struct sb_node *scan_step_below(struct sb_scan *scan, const struct bound *bound)
{
        struct sb_handle *handle = &scan->bus->handle;
        struct sb_node *node = scan_step_from_run(scan, bound), *first;
        uint32_t level = scan->runs < RUN_LEVEL ? scan->runs : RUN_LEVEL;

        if (node)
                return node;
        scan->runs++;
        /* Where rules alone keep the cut, no key has to stay. */
        if (level > 0 && level < handle->segment.height_max && !scan->past) {
                first = scan_step_take_run(scan, bound, level);
                node = scan_step_from_run(scan, bound);
                if (node || (first && scan_step_is_below(scan, first, bound)))
                        return node ? node : first;
        }
        return sb_order_below(handle, bound->key, bound->len, bound->inclusive);
}

/* Go from @bound, which moves down, to the last key in range below it with a value at the cut. Call
 * it under a pin. @entry: the last entry of the write set there, or NULL. Return: 0 or
 * IN_WRITE_SET: the scan stands before that key; SB_E_NOT_FOUND: before the first one; AGAIN. */
static int scan_step_back(struct sb_scan *scan, struct bound *bound,
        const struct sb_write_set_entry *entry, struct sb_version **ret_version)
{
        struct sb_handle *handle = &scan->bus->handle;

        /* Bound: slice. AGAIN: the caller goes on from @bound under another pin. */
        for (uint32_t steps = 0; steps < SB_SCAN_STEPS_MAX; steps++) {
                struct sb_node *node = scan_step_below(scan, bound);
                struct sb_node_key key = {0};
                struct sb_version *version;

                if (node)
                        key = sb_node_key(&handle->segment, node);
                if (!key.bytes || !scan_step_in_range(scan, key.bytes, key.len))
                        key = (struct sb_node_key){0};
                if (scan_step_entry_is_first(entry, key.bytes, key.len, true)) {
                        scan_step_bound_set(
                                bound, entry->value->bytes, entry->value->key_len, false);
                        sb_scan_stand_at_key(scan, bound->key, bound->len, false);
                        return IN_WRITE_SET;
                }
                if (!key.bytes) {
                        sb_scan_stand_at_key(scan, scan->prefix, scan->prefix_len, false);
                        return SB_E_NOT_FOUND;
                }
                if (!scan->reserved && sb_reserved_is(key.bytes, key.len)) {
                        scan_step_bound_set(bound, SB_RESERVED, SB_RESERVED_LEN, false);
                        continue;
                }
                scan_step_bound_set(bound, key.bytes, key.len, false);
                version = scan_step_version_of(scan, node);
                if (version) {
                        sb_scan_stand_at_key(scan, bound->key, bound->len, false);
                        *ret_version = version;
                        return 0;
                }
        }
        return AGAIN;
}

/* The next entry of the write set from @bound on, or NULL; in a transaction. */
static struct sb_write_set_entry *scan_step_entry_from(
        const struct sb_scan *scan, const struct bound *bound, bool backwards)
{
        const struct sb_write_set *writes = &scan->reader.txn->write_set;
        struct sb_write_set_entry *entry;

        if (writes->count == 0)
                return NULL;
        entry = backwards ? sb_write_set_below(writes, bound->key, bound->len, bound->inclusive)
                          : sb_write_set_above(writes, bound->key, bound->len, bound->inclusive);
        if (!entry || !scan_step_in_range(scan, entry->value->bytes, entry->value->key_len))
                return NULL;
        return entry;
}

/* End the pin under which @version was found, which the guard word holds from before that on; fault
 * SCAN_GUARD_LATE: from after that on. @version NULL: none was found. */
static void scan_step_hold_and_unpin(
        struct sb_handle *handle, uint32_t guard, const struct sb_version *version)
{
        if (version && !SB_FAULT(SCAN_GUARD_LATE))
                sb_guard_set(handle, guard, sb_offset_of(&handle->segment, version));
        sb_unpin(handle);
        if (version && SB_FAULT(SCAN_GUARD_LATE))
                sb_guard_set(handle, guard, sb_offset_of(&handle->segment, version));
}

/* Go one step from @bound, which moves along when the scan goes back: to a key, with its version
 * held by guard word @guard; or to an entry of the write set that is a value. Return: 0,
 * IN_WRITE_SET, SB_E_NOT_FOUND. */
static int scan_step_merged(struct sb_scan *scan, struct bound *bound, bool backwards,
        uint32_t guard, struct sb_version **ret_version, struct sb_write_set_entry **ret_entry)
{
        struct sb_write_set_entry *entry =
                scan->reader.txn ? scan_step_entry_from(scan, bound, backwards) : NULL;
        struct sb_handle *handle = &scan->bus->handle;
        int r;

        do {
                sb_pin(handle);
                r = backwards ? scan_step_back(scan, bound, entry, ret_version)
                              : scan_step_forward(scan, entry, ret_version);
                scan_step_hold_and_unpin(handle, guard, r == 0 ? *ret_version : NULL);
                if (r == IN_WRITE_SET && entry->kind == SB_WRITE_SET_DELETED) {
                        scan_step_bound_of(scan, bound);
                        entry = scan_step_entry_from(scan, bound, backwards);
                        r = AGAIN;
                }
        } while (r == AGAIN);
        *ret_entry = entry;
        return r;
}

static bool scan_step_is_above(const struct sb_read_set_edge *a, const struct sb_read_set_edge *b)
{
        int order = sb_bytes_compare(a->key, a->key_len, b->key, b->key_len);

        return order != 0 ? order > 0 : a->behind && !b->behind;
}

/* Note that a serializable transaction has read what lies between @from and where the scan stands
 * now; but not the bus's own keys, unless the prefix asks for them. */
static void scan_step_note(struct sb_scan *scan, const struct bound *from, bool backwards)
{
        static const struct sb_read_set_edge reserved = {SB_RESERVED, SB_RESERVED_LEN, false},
                                             behind = {SB_RESERVED_END, SB_RESERVED_LEN, false};
        struct sb_read_set *reads = &scan->reader.txn->read_set;
        struct sb_read_set_edge edges[2];
        struct bound to;

        scan_step_bound_of(scan, &to);
        edges[backwards] = (struct sb_read_set_edge){from->key, from->len, from->inclusive};
        edges[!backwards] = (struct sb_read_set_edge){to.key, to.len, to.inclusive};
        if (scan->reserved || scan_step_is_above(&edges[0], &reserved) ||
                !scan_step_is_above(&edges[1], &behind)) {
                sb_read_set_add_range(reads, &edges[0], &edges[1]);
                return;
        }
        sb_read_set_add_range(reads, &edges[0], &reserved);
        sb_read_set_add_range(reads, &behind, &edges[1]);
}

/* Whether a step that answered @r is noted. Fault SCAN_NOT_NOTED: none is; SCAN_END_NOT_NOTED: not
 * the last one, which gave no key. */
static bool scan_step_noted(int r)
{
        return !SB_FAULT(SCAN_NOT_NOTED) && !(SB_FAULT(SCAN_END_NOT_NOTED) && r == SB_E_NOT_FOUND);
}

/* The next key's version, under a pin: if that key is in range, and its newest version is a value
 * in the cut. NULL says nothing. */
static inline __attribute__((always_inline)) struct sb_version *scan_step_plain(
        struct sb_scan *scan, struct sb_node **ret_node, uint64_t *ret_shape)
{
        struct sb_handle *handle = &scan->bus->handle;
        const struct sb_segment *segment = &handle->segment;
        struct sb_node *node = sb_node_at(segment, scan->node);
        struct sb_version *version;
        bool gone;

        if (SB_UNLIKELY(!node))
                return NULL;
        node = sb_order_next(handle, node, &gone);
        if (SB_UNLIKELY(gone || !node))
                return NULL;
        version = sb_find_plain_in_node(handle, node, scan->cut, ret_shape);
        /* The version has its node's key: the node is not read for it. */
        if (SB_UNLIKELY(!version) ||
                SB_UNLIKELY(
                        !scan_step_in_range(scan, version->bytes, SB_SHAPE_KEY_LEN(*ret_shape))) ||
                SB_UNLIKELY(!scan->reserved && !version->bytes[0]))
                return NULL;
        *ret_node = node;
        return version;
}

bool sb_scan_step_short(struct sb_scan *scan, struct sb_guard *ret_guard)
{
        struct sb_bus *bus = scan->bus;
        struct sb_handle *handle = &bus->handle;
        struct sb_version *version;
        struct sb_node *node;
        uint64_t shape;
        uint32_t guard;

        if (SB_UNLIKELY(!bus->guard_free_count) ||
                SB_UNLIKELY((scan->passed + 1) % KEYS_APART == 0))
                return false;
        guard = sb_bus_guard_first(bus);
        sb_pin(handle);
        version = scan_step_plain(scan, &node, &shape);
        if (SB_UNLIKELY(!version)) {
                sb_unpin(handle);
                return false;
        }
        sb_order_fetch(handle, &scan->ahead, sb_node_at(&handle->segment, scan->node));
        scan_step_stand_at_node(scan, node);
        scan_step_hold_and_unpin(handle, guard, version);
        if (SB_UNLIKELY(!sb_snapshot_holds(handle, scan->snapshot, scan->cut))) {
                sb_guard_set(handle, guard, 0);
                scan->lapped = true;
                return false;
        }
        scan->passed++;
        sb_bus_guard_fill(
                bus, sb_bus_ticket_take(bus), version, SB_SHAPE_KEY_LEN(shape), shape, ret_guard);
        return true;
}

int sb_scan_step(struct sb_scan *scan, bool backwards, struct sb_guard *ret_guard)
{
        bool noted = scan->reader.txn && scan->reader.txn->serializable;
        struct sb_version *version = NULL;
        struct sb_write_set_entry *entry = NULL;
        struct sb_bus *bus = scan->bus;
        struct bound bound, from;
        uint64_t shape = 0;
        uint32_t guard;
        int r = sb_bus_guards_prepare(bus, 1);

        if (r == 0 && noted)
                r = sb_read_set_prepare(&scan->reader.txn->read_set, &scan->reader.txn->write_set);
        if (r != 0)
                return r;
        if (backwards || scan->reader.txn)
                scan_step_bound_of(scan, &bound);
        if (noted)
                scan_step_bound_set(&from, bound.key, bound.len, bound.inclusive);
        guard = sb_bus_guard_first(bus);
        r = scan_step_merged(scan, &bound, backwards, guard, &version, &entry);
        if (!sb_snapshot_holds(&bus->handle, scan->snapshot, scan->cut) ||
                !scan_step_past_holds(scan)) {
                if (r == 0)
                        sb_guard_set(&bus->handle, guard, 0);
                scan->trimmed = false;
                scan->lapped = true;
                return SB_E_LAPPED;
        }
        if (noted && scan_step_noted(r))
                scan_step_note(scan, &from, backwards);
        if (version)
                shape = sb_version_shape(&bus->handle.segment, version);
        if (r == 0)
                sb_bus_guard_fill(bus, sb_bus_ticket_take(bus), version, SB_SHAPE_KEY_LEN(shape),
                        shape, ret_guard);
        if (r == IN_WRITE_SET)
                sb_bus_guard_fill_private(bus, entry->value, ret_guard);
        if (r != 0 || !scan->trimmed)
                return r == IN_WRITE_SET ? 0 : r;
        if ((SB_SHAPE_KIND(shape) & SB_VERSION_KIND) != SB_VERSION_VALUE)
                ret_guard->kind = SB_DELETED;
        return SB_E_LAPPED;
}
