/*
 * Steps of a scan; see scan-step.h.
 *
 * A step takes a pin, goes to the next node that has a version to show, and holds that version
 * before the pin ends. A long way over keys without one pins anew now and then. The write set is
 * asked first: its next entry is where the way ends at the latest.
 *
 * Upwards a step goes by nodes that were taken ahead (scan-ahead.h).
 *
 * Always true: after each read the step asks whether the cut still stands. So what it gives was
 * there in the cut, and what it passed over was not.
 */
#include "libclient/core/scan-step.h"

#include <string.h>

#include "libclient/core/scan-ahead.h"
#include "libclient/core/watches.h"
#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/past.h"
#include "shm/keys/ahead.h"
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

/* Whether the rules that covered the cut do so by what they say now. Where none was changed since
 * the last look, none is read: there may be thousands. */
static bool scan_step_rules_hold(struct sb_scan *scan)
{
        struct sb_handle *handle = &scan->bus->handle;
        /* A:rule. The count goes up before a rule is changed. So what was read before this look was
         * kept, if the rules that are read after it say so. */
        uint64_t rules = sb_load_acquire(&handle->segment.super->rule_count), end_ns;

        if (rules == scan->rules)
                return true;
        if (!sb_past_kept_all(handle, scan->prefix, scan->prefix_len, scan->cut, &end_ns))
                return false;
        scan->rules = rules;
        return true;
}

/* Whether the rules that covered the cut still do. It is asked after each read. */
static bool scan_step_past_holds(struct sb_scan *scan)
{
        const struct sb_segment *segment = &scan->bus->handle.segment;

        if (!scan->past)
                return true;
        if (scan->watched)
                return sb_bus_keeps_cut(scan->bus, scan->cut, scan->prefix, scan->prefix_len);
        /* A:history-floor. */
        if (sb_load_acquire(&segment->super->history_floor) > scan->cut ||
                (scan->end_ns != UINT64_MAX &&
                        segment->os->now_ns(segment->os->context) >= scan->end_ns))
                return false;
        return scan_step_rules_hold(scan);
}

/* The version of a key that the scan shows, or NULL, by its node and its cell. Call it under a pin.
 */
static inline __attribute__((always_inline)) struct sb_version *scan_step_version_of(
        struct sb_scan *scan, struct sb_node *node, const struct sb_word64 *cell)
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
                version = sb_find_in_cell(&scan->bus->handle, cell,
                        sb_offset_of(&scan->bus->handle.segment, node), scan->cut);
        }
        return version && (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE
                       ? version
                       : NULL;
}

/* The same, by a node that the index leads to. */
static struct sb_version *scan_step_version_by(struct sb_scan *scan, struct sb_node *node)
{
        struct sb_handle *handle = &scan->bus->handle;

        return scan_step_version_of(
                scan, node, sb_cell_at(&handle->segment, sb_pin_load(handle, &node->cell)));
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

/* Stand behind a value of the write set; at @node, when that has the same key. */
static int scan_step_stand_behind_entry(
        struct sb_scan *scan, const struct sb_write_set_value *value, struct sb_node *node)
{
        struct sb_node_key key = {0};

        if (node)
                key = sb_node_key(&scan->bus->handle.segment, node);
        if (key.bytes && key.len == value->key_len &&
                memcmp(key.bytes, value->bytes, value->key_len) == 0)
                sb_scan_stand_at_node(scan, node);
        else
                sb_scan_stand_at_key(scan, value->bytes, value->key_len, true);
        return IN_WRITE_SET;
}

/* There is no key any more. Return: IN_WRITE_SET, SB_E_NOT_FOUND. */
static int scan_step_end(struct sb_scan *scan, const struct sb_write_set_entry *entry)
{
        scan->run_count = scan->run_at;
        scan->run_ends = true;
        if (entry)
                return scan_step_stand_behind_entry(scan, entry->value, NULL);
        sb_scan_stand_at_end(scan);
        return SB_E_NOT_FOUND;
}

/* Whether a node's key comes behind where the scan stands, or the index is damaged. */
static bool scan_step_is_ahead(const struct sb_scan *scan, const struct sb_node *node)
{
        struct sb_node_key key = sb_node_key(&scan->bus->handle.segment, node), at;
        bool after = sb_scan_position(scan, &at);

        return key.bytes && sb_scan_is_ahead(at, after, key.bytes, key.len);
}

/* Go from where the scan stands to the first key in range with a value at the cut. Call it under a
 * pin. @entry: the next entry of the write set in range, or NULL. Return: 0: the scan stands at the
 * key's node; IN_WRITE_SET: it stands behind the entry; SB_E_NOT_FOUND: at the end; AGAIN. */
static int scan_step_forward(struct sb_scan *scan, const struct sb_write_set_entry *entry,
        struct sb_version **ret_version)
{
        struct sb_handle *handle = &scan->bus->handle;
        struct sb_node *node = NULL;

        if (!scan->run_up || scan->past)
                sb_scan_place_forget(scan);
        scan->run_up = true;
        scan->short_to = 0;
        /* Bound: slice. AGAIN: the caller goes on from here under another pin. */
        for (uint32_t steps = 0; steps < SB_SCAN_STEPS_MAX; steps++) {
                struct sb_node_key key, at;
                bool after;

                if (!scan->run_ends && scan->run_count - scan->run_at <= sb_scan_ahead_low(scan)) {
                        int r = sb_scan_ahead_take(scan);

                        if (r)
                                return r;
                }
                if (scan->run_at == scan->run_count)
                        return scan_step_end(scan, entry);
                sb_scan_ahead_fetch(scan);
                node = sb_node_at(&handle->segment, scan->run[scan->run_at]);
                *ret_version = node ? scan_step_version_of(
                                              scan, node, *sb_scan_ahead_cell(scan, scan->run_at))
                                    : NULL;
                if (!*ret_version) {
                        scan->run_at++;
                        continue;
                }
                key = (struct sb_node_key){.bytes = (*ret_version)->bytes,
                        .len = SB_SHAPE_KEY_LEN(sb_version_shape(&handle->segment, *ret_version))};
                if (!sb_scan_place_in_range(scan, key.bytes, key.len))
                        return scan_step_end(scan, entry);
                after = sb_scan_position(scan, &at);
                if (!scan->reserved && sb_reserved_is(key.bytes, key.len)) {
                        if (!sb_scan_is_ahead(at, after, key.bytes, key.len))
                                return sb_scan_end_in_damage(scan);
                        sb_scan_stand_at_key(scan, SB_RESERVED_END, SB_RESERVED_LEN, false);
                        sb_scan_place_forget(scan);
                        return AGAIN;
                }
                /* An entry of the write set with the same key may have been given. */
                if (scan->reader.txn && !sb_scan_is_ahead(at, after, key.bytes, key.len)) {
                        scan->run_at++;
                        continue;
                }
                if (scan_step_entry_is_first(entry, key.bytes, key.len, false))
                        return scan_step_stand_behind_entry(scan, entry->value, node);
                if (scan->past && !scan_step_is_ahead(scan, node))
                        return sb_scan_end_in_damage(scan);
                scan->run_at++;
                sb_scan_stand_at_node(scan, node);
                sb_scan_ahead_set_short(scan);
                return 0;
        }
        if (!scan->past)
                return AGAIN;
        /* Where rules alone keep the cut, the nodes were taken under this pin. */
        if (!node || !scan_step_is_ahead(scan, node))
                return sb_scan_end_in_damage(scan);
        sb_scan_stand_at_node(scan, node);
        return AGAIN;
}

static bool scan_step_is_below(
        const struct sb_scan *scan, const struct sb_node *node, const struct sb_scan_bound *bound)
{
        struct sb_node_key key = sb_node_key(&scan->bus->handle.segment, node);
        int order;

        if (!key.bytes)
                return false;
        order = sb_bytes_compare(key.bytes, key.len, bound->key, bound->len);
        return order < 0 || (order == 0 && bound->inclusive);
}

/* The node of the run that is next below @bound; NULL: none is left. */
static struct sb_node *scan_step_from_run(struct sb_scan *scan, const struct sb_scan_bound *bound)
{
        for (; scan->run_count > 0; scan->run_count--) {
                struct sb_node *node =
                        sb_node_at(&scan->bus->handle.segment, scan->run[scan->run_count - 1]);

                if (node && scan_step_is_below(scan, node, bound))
                        return node;
        }
        return NULL;
}

/* Take the run of nodes below @bound, and keep those that have a value in the cut, the nearest
 * last.
 * Return: the furthest; NULL: there is none. */
static struct sb_node *scan_step_take_run(
        struct sb_scan *scan, const struct sb_scan_bound *bound, uint32_t most)
{
        struct sb_handle *handle = &scan->bus->handle;
        struct sb_order_run run;
        uint32_t i;

        sb_order_take_run(handle, bound->key, bound->len, bound->inclusive, true, most, &run);
        sb_ahead_nodes(&handle->segment, run.node, run.count, false);
        for (i = run.count; i; i--)
                if (scan_step_version_by(scan, run.node[i - 1]) || SB_FAULT(SCAN_RUN_OF_ALL))
                        scan->run[scan->run_count++] =
                                sb_offset_of(&handle->segment, run.node[i - 1]);
        return run.count ? run.node[run.count - 1] : NULL;
}

/* The node to which a scan that goes down comes next; or one below @bound that has no value in the
 * cut, as all between the two. NULL: there is none. The first time it is looked for alone: a scan
 * for the last key goes no further. */
static struct sb_node *scan_step_below(struct sb_scan *scan, const struct sb_scan_bound *bound)
{
        struct sb_handle *handle = &scan->bus->handle;
        struct sb_node *node = scan_step_from_run(scan, bound), *furthest;

        if (node)
                return node;
        /* Where rules alone keep the cut, no key has to stay. */
        if (scan->runs++ > 0 && !scan->past) {
                furthest = scan_step_take_run(
                        scan, bound, scan->runs == 2 ? SB_SCAN_FIRST_RUN : SB_SCAN_RUN);
                node = scan_step_from_run(scan, bound);
                if (node || (furthest && scan_step_is_below(scan, furthest, bound)))
                        return node ? node : furthest;
        }
        return sb_order_below(handle, bound->key, bound->len, bound->inclusive);
}

/* Go from @bound, which moves down, to the last key in range below it with a value at the cut. Call
 * it under a pin. @entry: the last entry of the write set there, or NULL. Return: 0 or
 * IN_WRITE_SET: the scan stands before that key; SB_E_NOT_FOUND: before the first one; AGAIN. */
static int scan_step_back(struct sb_scan *scan, struct sb_scan_bound *bound,
        const struct sb_write_set_entry *entry, struct sb_version **ret_version)
{
        struct sb_handle *handle = &scan->bus->handle;

        if (scan->run_up)
                sb_scan_place_forget(scan);
        /* Bound: slice. AGAIN: the caller goes on from @bound under another pin. */
        for (uint32_t steps = 0; steps < SB_SCAN_STEPS_MAX; steps++) {
                struct sb_node *node = scan_step_below(scan, bound);
                struct sb_node_key key = {0};
                struct sb_version *version;

                if (node)
                        key = sb_node_key(&handle->segment, node);
                if (!key.bytes || !sb_scan_place_in_range(scan, key.bytes, key.len))
                        key = (struct sb_node_key){0};
                if (scan_step_entry_is_first(entry, key.bytes, key.len, true)) {
                        sb_scan_bound_set(bound, entry->value->bytes, entry->value->key_len, false);
                        sb_scan_stand_at_key(scan, bound->key, bound->len, false);
                        return IN_WRITE_SET;
                }
                if (!key.bytes) {
                        sb_scan_stand_at_key(scan, scan->prefix, scan->prefix_len, false);
                        return SB_E_NOT_FOUND;
                }
                if (!scan->reserved && sb_reserved_is(key.bytes, key.len)) {
                        sb_scan_bound_set(bound, SB_RESERVED, SB_RESERVED_LEN, false);
                        continue;
                }
                sb_scan_bound_set(bound, key.bytes, key.len, false);
                version = scan_step_version_by(scan, node);
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
        const struct sb_scan *scan, const struct sb_scan_bound *bound, bool backwards)
{
        const struct sb_write_set *writes = &scan->reader.txn->write_set;
        struct sb_write_set_entry *entry;

        if (writes->count == 0)
                return NULL;
        entry = backwards ? sb_write_set_below(writes, bound->key, bound->len, bound->inclusive)
                          : sb_write_set_above(writes, bound->key, bound->len, bound->inclusive);
        if (!entry || !sb_scan_place_in_range(scan, entry->value->bytes, entry->value->key_len))
                return NULL;
        return entry;
}

/* End the pin under which @version was found, which the guard word holds from before that on; fault
 * SCAN_GUARD_LATE: from after that on. @version NULL: none was found. */
static inline __attribute__((always_inline)) void scan_step_hold_and_unpin(
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
 * IN_WRITE_SET, SB_E_NOT_FOUND, SB_E_LAPPED. */
static int scan_step_merged(struct sb_scan *scan, struct sb_scan_bound *bound, bool backwards,
        uint32_t guard, struct sb_version **ret_version, struct sb_write_set_entry **ret_entry)
{
        struct sb_write_set_entry *entry =
                scan->reader.txn ? scan_step_entry_from(scan, bound, backwards) : NULL;
        struct sb_handle *handle = &scan->bus->handle;
        int r;

        do {
                sb_pin(handle);
                r = SB_E_LAPPED;
                if (sb_scan_nodes_stay(scan))
                        r = backwards ? scan_step_back(scan, bound, entry, ret_version)
                                      : scan_step_forward(scan, entry, ret_version);
                scan_step_hold_and_unpin(handle, guard, r == 0 ? *ret_version : NULL);
                if (r == IN_WRITE_SET && entry->kind == SB_WRITE_SET_DELETED) {
                        sb_scan_bound_of(scan, bound);
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

/* Note that a serializable transaction has read what lies between @from and @to, where the scan
 * stands now; but not the bus's own keys, unless the prefix asks for them. Each of the two may lie
 * among those. */
static void scan_step_note(struct sb_scan *scan, const struct sb_scan_bound *from,
        const struct sb_scan_bound *to, bool backwards)
{
        static const struct sb_read_set_edge reserved = {SB_RESERVED, SB_RESERVED_LEN, false},
                                             behind = {SB_RESERVED_END, SB_RESERVED_LEN, false};
        struct sb_read_set *reads = &scan->reader.txn->read_set;
        struct sb_read_set_edge edges[2];

        edges[backwards] = (struct sb_read_set_edge){from->key, from->len, from->inclusive};
        edges[!backwards] = (struct sb_read_set_edge){to->key, to->len, to->inclusive};
        if (scan->reserved || !scan_step_is_above(&behind, &edges[0])) {
                sb_read_set_add_range(reads, &edges[0], &edges[1]);
                return;
        }
        /* Of the two parts one may be empty. */
        sb_read_set_add_range(
                reads, &edges[0], scan_step_is_above(&edges[1], &reserved) ? &reserved : &edges[1]);
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
        struct sb_scan *scan, uint64_t *ret_shape)
{
        struct sb_version *version =
                sb_find_plain_in_cell(&scan->bus->handle, *sb_scan_ahead_cell(scan, scan->run_at),
                        scan->run[scan->run_at], scan->cut, ret_shape);

        /* The version has its node's key: the node is not read for it. */
        if (SB_UNLIKELY(!version) ||
                SB_UNLIKELY(!sb_scan_place_in_range(
                        scan, version->bytes, SB_SHAPE_KEY_LEN(*ret_shape))) ||
                SB_UNLIKELY(!scan->reserved && !version->bytes[0]))
                return NULL;
        return version;
}

bool sb_scan_step_short(struct sb_scan *scan, struct sb_guard *ret_guard)
{
        struct sb_bus *bus = scan->bus;
        struct sb_handle *handle = &bus->handle;
        struct sb_version *version;
        uint64_t shape;
        uint32_t guard;

        if (SB_UNLIKELY(!bus->guard_free_count))
                return false;
        guard = sb_bus_guard_first(bus);
        sb_pin(handle);
        sb_scan_ahead_fetch(scan);
        version = scan_step_plain(scan, &shape);
        if (SB_UNLIKELY(!version)) {
                sb_unpin(handle);
                return false;
        }
        scan->node = scan->run[scan->run_at++];
        scan_step_hold_and_unpin(handle, guard, version);
        if (SB_UNLIKELY(!sb_snapshot_holds(handle, scan->snapshot, scan->cut))) {
                sb_guard_set(handle, guard, 0);
                scan->lapped = true;
                return false;
        }
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
        struct sb_scan_bound bound, from, to;
        uint64_t shape = 0;
        uint32_t guard;
        int r = sb_bus_guards_prepare(bus, 1);

        if (r == 0 && noted)
                r = sb_read_set_prepare(&scan->reader.txn->read_set, &scan->reader.txn->write_set);
        if (r != 0)
                return r;
        if (backwards || scan->reader.txn)
                sb_scan_bound_of(scan, &bound);
        if (noted)
                sb_scan_bound_set(&from, bound.key, bound.len, bound.inclusive);
        guard = sb_bus_guard_first(bus);
        r = scan_step_merged(scan, &bound, backwards, guard, &version, &entry);
        if (noted)
                sb_scan_bound_of(scan, &to);
        if (!sb_snapshot_holds(&bus->handle, scan->snapshot, scan->cut) ||
                !scan_step_past_holds(scan)) {
                if (r == 0)
                        sb_guard_set(&bus->handle, guard, 0);
                scan->trimmed = false;
                scan->lapped = true;
                return SB_E_LAPPED;
        }
        if (noted && scan_step_noted(r))
                scan_step_note(scan, &from, &to, backwards);
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
