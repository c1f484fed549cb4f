/*
 * The commit of a transaction; see commit.h. All memory is taken, and all keys are made, before the
 * pin; under the pin commit_attempt() builds the transaction and brings it to its end.
 */

#include "ring/op/commit.h"

#include <errno.h>
#include <string.h>

#include "ring/op/make.h"
#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/mvcc/find-plain.h"
#include "shm/mvcc/finish.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/snapshot.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/work.h"

/* Each further round means that a key went away just now. So many mean that the segment is damaged,
 * and no process may hang in such a segment. */
#ifndef SB_COMMIT_ROUNDS_MAX
#define SB_COMMIT_ROUNDS_MAX 1024u
#endif
/* So many aborted transactions in limbo are worth the membarrier of a batch. */
#define ABORTED_WAITING 8u

/* One commit on its way. The descriptor's list of versions is also the list of the blocks taken. */
struct attempt {
        const struct sb_commit_wish *wish;
        uint64_t at; /* offset of the descriptor; 0: no blocks yet */
        struct sb_descriptor *descriptor;
        uint32_t taken; /* blocks for versions, entries of descriptor->write */
        bool made;      /* whether keys were made that have no value yet */
};

#define AGAIN (-1) /* look again; otherwise 0 or a result */

/* ---- sizes, bytes ---- */

static uint64_t commit_version_size(const struct sb_commit_write *write)
{
        return sizeof(struct sb_version) + write->key_len + write->value_len + SB_TRAILER_TXN;
}

static uint64_t commit_read_set_size(const struct sb_commit_wish *wish)
{
        uint64_t size = 0;
        uint32_t i;

        for (i = 0; i < wish->range_count; i++)
                size += SB_RANGE_HEAD + wish->ranges[i].low_len + wish->ranges[i].high_len;
        return size;
}

static uint64_t commit_descriptor_size(const struct sb_commit_wish *wish)
{
        return sizeof(struct sb_descriptor) + 8 * (uint64_t)wish->write_count +
               commit_read_set_size(wish);
}

/* ---- blocks ---- */

/* Gives back each block that was taken and not used. */
static void commit_give_back(struct sb_handle *handle, struct attempt *attempt)
{
        if (!attempt->at)
                return;
        while (attempt->taken)
                sb_slab_give_back(handle, attempt->descriptor->write[--attempt->taken]);
        sb_slab_give_back(handle, attempt->at);
        attempt->at = 0;
}

/* Takes all blocks, or none. Return: 0, SB_E_FULL. */
static int commit_take_all(struct sb_handle *handle, struct attempt *attempt, uint32_t also)
{
        const struct sb_commit_wish *wish = attempt->wish;
        int r = sb_slab_take(
                handle, SB_UNIT_VERSIONS, commit_descriptor_size(wish), also, &attempt->at);

        if (r)
                return r;
        attempt->descriptor = (struct sb_descriptor *)(handle->segment.base + attempt->at);
        attempt->taken = 0;
        while (!r && attempt->taken < wish->write_count) {
                r = sb_slab_take(handle, SB_UNIT_VERSIONS,
                        commit_version_size(&wish->writes[attempt->taken]), also,
                        &attempt->descriptor->write[attempt->taken]);
                attempt->taken += !r;
        }
        if (r)
                commit_give_back(handle, attempt);
        return r;
}

static bool commit_only_deletes(const struct sb_commit_wish *wish)
{
        uint32_t i;

        for (i = 0; i < wish->write_count; i++)
                if (wish->writes[i].kind != SB_VERSION_DELETED)
                        return false;
        return true;
}

/* What may serve a transaction, other than blocks of the sizes' own classes: as in put_allow(). */
static uint32_t commit_allow(struct sb_handle *handle, bool only_deletes, bool worked)
{
        if (!worked)
                return sb_work_lists_worth(handle) ? 0 : SB_SLAB_LARGER;
        return SB_SLAB_LARGER | (only_deletes ? SB_SLAB_RESERVE : 0);
}

/* Takes all blocks, if need be behind the work on this handle's lists. A handle does memory work
 * only while it holds no block that nothing links: the reaper finds such a block only as long as
 * its slab is this client's, and the work may give slabs up. Return: 0, SB_E_FULL. */
static int commit_take_blocks(struct sb_handle *handle, struct attempt *attempt)
{
        bool only_deletes = commit_only_deletes(attempt->wish);
        int r = commit_take_all(handle, attempt, commit_allow(handle, only_deletes, false));

        if (!r)
                return 0;
        sb_slab_settle(handle);
        (void)sb_work_lists(handle);
        r = commit_take_all(handle, attempt, commit_allow(handle, only_deletes, true));
        if (r)
                sb_slab_settle(handle);
        return r;
}

/* ---- keys ---- */

/* Gives each key that is to have a value a node and a cell. A key that is made here and not used
 * stays bare, and the sweep takes it out. */
static int commit_make_keys(struct sb_handle *handle, struct attempt *attempt)
{
        const struct sb_commit_wish *wish = attempt->wish;
        uint32_t i;
        int r = 0;

        for (i = 0; i < wish->write_count && !r; i++) {
                const struct sb_commit_write *write = &wish->writes[i];

                if (write->kind == SB_VERSION_DELETED ||
                        sb_make_is_there(handle, write->key, write->key_len, write->hash))
                        continue;
                attempt->made = true;
                r = sb_make_key(handle, write->key, write->key_len, write->hash,
                        commit_allow(handle, false, false));
                if (r == SB_E_FULL && sb_work_lists(handle))
                        r = sb_make_key(handle, write->key, write->key_len, write->hash,
                                commit_allow(handle, false, true));
        }
        return r;
}

/* ---- the versions ---- */

/* The revision behind @effective's. Fault CONFLICT_BURNS: it counts on from the head, aborted or
 * not. */
static uint64_t commit_next_rev(const struct sb_version *head, const struct sb_version *effective)
{
        (void)head;
        return (SB_FAULT(CONFLICT_BURNS) ? head : effective)->rev + 1;
}

/* Whether @effective was committed above the cut, so that the transaction did not read it. Fault
 * TXN_COMMIT_STALE: not asked. */
static bool commit_is_stale(
        struct sb_handle *handle, struct sb_version *effective, const struct sb_commit_wish *wish)
{
        return SB_SHAPE_KIND(effective->shape) != SB_VERSION_PLACEHOLDER &&
               sb_stamp(handle, effective) > wish->cut && !SB_FAULT(TXN_COMMIT_STALE);
}

/* Says that the version's block is held until the transaction is over. Fault TXN_NOT_HELD: left
 * out. */
static void commit_hold(struct sb_version *version)
{
        /* R:retire > A:retire. Behind the stamp word: a reaper knows such a block by both, held and
         * an intent. */
        if (!SB_FAULT(TXN_NOT_HELD))
                sb_store_release(&version->block.retire, SB_RETIRE_HELD);
}

/* Fills block @i with the key's next version: an intent over the head that was found. */
static void commit_fill_version(struct sb_handle *handle, struct attempt *attempt, uint32_t i,
        const struct sb_spot *spot, uint64_t rev)
{
        const struct sb_commit_write *write = &attempt->wish->writes[i];
        struct sb_version *version =
                (struct sb_version *)(handle->segment.base + attempt->descriptor->write[i]);

        version->rev = rev;
        version->node = spot->head->node;
        version->shape = SB_SHAPE(
                write->value_len, write->key_len, write->kind | SB_VERSION_HAS_TXN, handle->slot);
        memcpy(version->bytes, write->key, write->key_len);
        if (write->value_len)
                memcpy(version->bytes + write->key_len, write->value, write->value_len);
        memcpy(version->bytes + write->key_len + write->value_len, &attempt->descriptor->number,
                SB_TRAILER_TXN);
        sb_pin_give_birth(handle, &version->block);
        /* Relaxed, all: the version is private until the note. */
        sb_store_relaxed(&version->stamp, SB_STAMP_INTENT | attempt->at);
        sb_store_relaxed(&version->prev, spot->word & SB_OFFSET_MASK);
        commit_hold(version);
}

/* How far ahead of the key that is looked at memory is fetched: keys. What is fetched sooner is out
 * of the cache again before its turn, or waits for what was fetched before it. The model checker
 * has no cache. */
#ifdef SB_MODEL
#define FETCH_BUCKETS  0u
#define FETCH_VERSIONS 0u
#else
#define FETCH_BUCKETS  64u
#define FETCH_VERSIONS 32u
#endif

/* Has the memory of keys @from .. @end-1 come: their buckets; with @versions, what those name. */
static void commit_fetch(const struct sb_handle *handle, const struct sb_commit_wish *wish,
        uint32_t from, uint32_t end, bool versions)
{
        for (uint32_t i = from; i < end && i < wish->write_count; i++)
                if (versions)
                        sb_find_fetch_version(handle, wish->writes[i].hash);
                else
                        sb_find_fetch_bucket_to_write(handle, wish->writes[i].hash);
}

/* The same for the keys that come next when key @i is looked at. */
static void commit_fetch_ahead(
        const struct sb_handle *handle, const struct sb_commit_wish *wish, uint32_t i)
{
        if (!FETCH_BUCKETS)
                return;
        commit_fetch(handle, wish, i + FETCH_BUCKETS, i + FETCH_BUCKETS + 1, false);
        commit_fetch(handle, wish, i + FETCH_VERSIONS, i + FETCH_VERSIONS + 1, true);
}

/* Looks at key @i as it is now, and builds its next version. Return: 0, AGAIN (the key was never
 * made, or went away), SB_E_CONFLICT. */
static int commit_prepare(struct sb_handle *handle, struct attempt *attempt, uint32_t i)
{
        const struct sb_commit_write *write = &attempt->wish->writes[i];
        struct sb_version *effective;
        struct sb_settled settled;
        struct sb_spot spot;

        for (;;) {
                if (!sb_key_find(handle, write->key, write->key_len, write->hash, &spot))
                        return write->kind == SB_VERSION_DELETED ? SB_E_CONFLICT : AGAIN;
                effective = sb_stamp_effective(handle, spot.head, &settled);
                if (settled.outcome != SB_OUTCOME_UNDECIDED)
                        break;
                sb_help_version(handle, spot.head);
        }
        if (!effective)
                return AGAIN;
        if (commit_is_stale(handle, effective, attempt->wish))
                return SB_E_CONFLICT;
        if (write->kind == SB_VERSION_DELETED && !sb_version_has_value(effective))
                return SB_E_CONFLICT;
        sb_prefetch(handle->segment.base + spot.head->node); /* for the install */
        commit_fill_version(handle, attempt, i, &spot, commit_next_rev(spot.head, effective));
        return 0;
}

/* Writes the descriptor, but for its list of versions, which commit_take_all() wrote. */
static void commit_fill_descriptor(struct sb_handle *handle, struct attempt *attempt)
{
        const struct sb_commit_wish *wish = attempt->wish;
        struct sb_descriptor *descriptor = attempt->descriptor;
        unsigned char *at = (unsigned char *)&descriptor->write[wish->write_count];
        uint32_t i;

        sb_pin_give_birth(handle, &descriptor->block);
        /* Relaxed, all: the descriptor is private until the note. */
        sb_store_relaxed(&descriptor->status, wish->serializable ? SB_STATUS_SERIALIZABLE : 0);
        sb_store_relaxed(&descriptor->zero, 0);
        descriptor->node = 0;
        descriptor->shape = SB_SHAPE(commit_descriptor_size(wish) - sizeof(struct sb_version), 0,
                SB_VERSION_DESCRIPTOR, handle->slot);
        descriptor->cut = wish->cut;
        descriptor->write_count = wish->write_count;
        descriptor->range_count = wish->range_count;
        descriptor->ranges_len = commit_read_set_size(wish);
        for (i = 0; i < wish->range_count; i++) {
                const struct sb_commit_range *range = &wish->ranges[i];
                const uint16_t head[3] = {(uint16_t)range->low_len, (uint16_t)range->high_len,
                        (uint16_t)range->flags};

                memcpy(at, head, SB_RANGE_HEAD);
                if (range->low_len)
                        memcpy(at + SB_RANGE_HEAD, range->low, range->low_len);
                at += SB_RANGE_HEAD + range->low_len;
                if (range->high_len)
                        memcpy(at, range->high, range->high_len);
                at += range->high_len;
        }
}

/* Of a key with one of the flags KEPT and WATCHED: takes out what the committed version pushed over
 * the edge of what stays by its number. Return: for sb_limbo_later(), or 0. */
static __attribute__((noinline)) uint64_t commit_outgrow(struct sb_handle *handle,
        struct sb_node *node, const struct sb_version *version, uint64_t stamp, uint64_t word)
{
        struct sb_outgrown outgrown;
        struct sb_ring_view view;

        if (!sb_version_has_value(version))
                return stamp;
        sb_prune_outgrown(handle, node, sb_ring_of(handle, node, &view) ? &view : NULL, version,
                stamp, word, &outgrown);
        if (outgrown.old && !sb_prune_outgrow(handle, &outgrown) && !outgrown.later)
                return outgrown.stamp;
        return outgrown.later;
}

/* Behind the commit: takes each replaced version out of its chain, or notes the cell to look at it
 * again later. */
static void commit_supersede(struct sb_handle *handle, struct attempt *attempt, uint64_t stamp)
{
        struct sb_segment *segment = &handle->segment;
        uint32_t i;

        for (i = 0; i < attempt->wish->write_count; i++) {
                struct sb_version *version = sb_version_at(segment, attempt->descriptor->write[i]);
                struct sb_node *node = version ? sb_node_at(segment, version->node) : NULL;
                struct sb_version *old;
                struct sb_word64 *cell;
                uint64_t word, later;

                if (!node) { /* damaged */
                        sb_damage_note(handle);
                        continue;
                }
                old = sb_version_at(segment, sb_pin_load(handle, &version->prev) & SB_OFFSET_MASK);
                cell = sb_cell_at(segment, sb_pin_load(handle, &node->cell));
                /* The flags are read again behind the decision: a rule may have come in between. */
                word = cell ? sb_pin_load(handle, cell) : 0;
                /* A:stamp. */
                if (SB_LIKELY(word && !(word & (SB_CELL_KEPT | SB_CELL_WATCHED))) && old &&
                        !(sb_load_acquire(&old->stamp) & SB_STAMP_INTENT) &&
                        sb_version_has_value(version) && sb_prune_behind(handle, version, old))
                        continue;
                later = stamp;
                if (SB_UNLIKELY(word & (SB_CELL_KEPT | SB_CELL_WATCHED)))
                        later = commit_outgrow(handle, node, version, stamp, word);
                if (later)
                        sb_limbo_later(handle, sb_pin_load(handle, &node->cell), later);
        }
}

/* Aborts the transaction, the announcement of which was taken away. */
static void commit_abort_gone(struct sb_descriptor *descriptor, bool serializable)
{
        uint64_t flags = serializable ? SB_STATUS_SERIALIZABLE : 0;

        /* R:status > A:status. Where it fails, a helper was quicker: the transaction is decided, or
         * has a stamp. */
        sb_cas64_full(
                &descriptor->status, flags, SB_STATUS_OF(SB_STATUS_ABORTED, SB_CAUSE_GONE) | flags);
}

/* Fault TXN_CLOSE_EARLY: the cut is given up before the decision. */
static void commit_fault_close(struct sb_handle *handle, const struct sb_commit_wish *wish)
{
        (void)handle, (void)wish;
        if (SB_FAULT(TXN_CLOSE_EARLY))
                /* R:announce, too early: that is the fault. */
                sb_store_release(&sb_record_snapshots(handle->record)[wish->snapshot], 0);
}

/* Notes the descriptor. Fault COMMIT_NOTE_LAZY: other processes may see the note later than this
 * one looks at its announcement. */
static void commit_note(struct sb_handle *handle, uint64_t descriptor)
{
        struct sb_word64 *operation = &handle->record->operation;
        uint64_t note = descriptor | SB_OPERATION_DESCRIPTOR;

        /* R:operation > A:operation. A full barrier: a process that takes the announcement away
         * looks at the note afterwards, and this one looks at the announcement behind the note; so
         * one of the two sees the other. */
        if (!SB_FAULT(COMMIT_NOTE_LAZY))
                sb_exchange_full(operation, note);
        else
                sb_store_release(operation, note); /* R:operation, late: that is the fault. */
}

/* Notes the descriptor, which is complete, and runs the transaction: all versions are held, so from
 * the note on any process can go on with it. Return: 0, AGAIN (a key went away), SB_E_CONFLICT,
 * SB_E_LAPPED. */
static int commit_note_and_run(
        struct sb_handle *handle, struct attempt *attempt, struct sb_commit_result *ret)
{
        const struct sb_commit_wish *wish = attempt->wish;
        struct sb_descriptor *descriptor = attempt->descriptor;
        enum sb_outcome outcome;
        uint64_t value;
        bool holds;

        commit_note(handle, attempt->at);
        holds = sb_snapshot_holds(handle, wish->snapshot, wish->cut);
        if (!holds)
                commit_abort_gone(descriptor, wish->serializable);
        commit_fault_close(handle, wish);
        outcome = sb_finish_run(handle, descriptor, &value);
        if (outcome == SB_OUTCOME_COMMITTED) {
                ret->cut = value;
                ret->number = descriptor->number;
                commit_supersede(handle, attempt, value);
                attempt->at = 0;
                return 0;
        }
        attempt->at = 0; /* the versions stay held until the descriptor is freed */
        handle->commits.aborted_waiting++;
        if (!holds)
                return SB_E_LAPPED;
        if (value == SB_CAUSE_GONE)
                return AGAIN;
        ret->cause = value ? (uint32_t)value - 1 : SB_COMMIT_CAUSE_NONE;
        return SB_E_CONFLICT;
}

/* One round with all blocks at hand, under one pin. Return: as of commit_note_and_run(). */
static int commit_attempt(
        struct sb_handle *handle, struct attempt *attempt, struct sb_commit_result *ret)
{
        /* Relaxed, load and store: only this client writes the word. */
        uint64_t number = sb_load_relaxed(&handle->record->commits) + 1;
        uint32_t i;
        int r = 0;

        sb_store_relaxed(&handle->record->commits, number);
        sb_pin(handle);
        attempt->descriptor->number = SB_RECORD_NUMBER(handle->slot, number);
        for (i = 0; i < attempt->wish->write_count && !r; i++) {
                commit_fetch_ahead(handle, attempt->wish, i);
                r = commit_prepare(handle, attempt, i);
                if (r == SB_E_CONFLICT)
                        ret->cause = i;
        }
        if (!r) {
                commit_fill_descriptor(handle, attempt);
                r = commit_note_and_run(handle, attempt, ret);
        }
        sb_unpin(handle);
        return r;
}

int sb_commit_run(
        struct sb_handle *handle, const struct sb_commit_wish *wish, struct sb_commit_result *ret)
{
        struct attempt attempt = {.wish = wish};
        uint32_t i, rounds = 0;
        bool make = false;
        int r;

        for (i = 0; i < wish->write_count; i++) {
                struct sb_commit_write *write = &wish->writes[i];

                sb_assert(write->key_len - 1 < handle->segment.key_len_max);
                if (commit_version_size(write) >
                        sizeof(struct sb_version) + write->key_len + handle->segment.value_len_max)
                        return -EMSGSIZE;
                write->hash = sb_find_hash(handle, write->key, write->key_len);
        }
        if (commit_descriptor_size(wish) > handle->segment.value_len_max)
                return -EMSGSIZE;
        ret->cause = SB_COMMIT_CAUSE_NONE;
        commit_fetch(handle, wish, 0, FETCH_BUCKETS, false);
        do {
                /* Mostly no key has to be made. The first round finds out. */
                r = make ? commit_make_keys(handle, &attempt) : 0;
                make = true;
                if (!r)
                        r = commit_take_blocks(handle, &attempt);
                commit_fetch(handle, wish, 0, FETCH_VERSIONS, true);
                if (!r)
                        r = commit_attempt(handle, &attempt, ret);
                commit_give_back(handle, &attempt);
                sb_slab_settle(handle);
                /* Bound: result. SB_E_CONFLICT: each round another process came first. */
        } while (r == AGAIN && !sb_damage_met(handle) && ++rounds < SB_COMMIT_ROUNDS_MAX);
        if (r == AGAIN)
                r = SB_E_CONFLICT;
        if (r && attempt.made)
                sb_limbo_leave(handle); /* a bare key, or a node without a cell */
        if (handle->commits.aborted_waiting >= ABORTED_WAITING) {
                handle->commits.aborted_waiting = 0;
                sb_reclaim_free(handle);
        }
        sb_work_due(handle);
        return r;
}
