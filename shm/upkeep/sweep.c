/*
 * The sweep; see sweep.h.
 *
 * What a sweeper finds by a bit may never have been published, or be freed and taken again while
 * the sweeper looks. The model checker would call such a load a use of free memory; each is in a
 * helper that says why the load does no harm, between sb_model_unchecked_begin() and _end().
 */

#include "shm/upkeep/sweep.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/history/budget.h"
#include "shm/keys/index.h"
#include "shm/keys/order.h"
#include "shm/keys/reach.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/note.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/reclaim.h"

#define CHUNK_WORDS 8u /* of a bitmap: 512 blocks at most */

/* Finish the removal of a node that is gone, where its remover died before it emptied the cell.
 * Return: whether there was such a cell. */
static bool sweep_finish_frozen(struct sb_handle *handle, struct sb_node *node)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_path path = sb_path_first(segment, node->hash);
        uint64_t at = sb_offset_of(segment, node);
        bool found = false;
        uint32_t index;

        do {
                for (index = 0; index < SB_BUCKET_CELLS; index++) {
                        uint64_t word =
                                sb_pin_load(handle, &segment->buckets[path.bucket].cell[index]);
                        struct sb_version *head = sb_version_at(segment, word & SB_OFFSET_MASK);

                        if ((word & SB_CELL_FROZEN) && head && head->node == at) {
                                sb_key_unhook(handle, SB_CELL_NUMBER(path.bucket, index), word);
                                found = true;
                        }
                }
        } while (sb_path_next(segment, node->hash, &path));
        return found;
}

/* ---- versions ---- */

/* DYING and not dated: take it out of whatever still links it, then date it. */
static void sweep_finish_dying(
        struct sb_handle *handle, struct sb_version *version, const struct sb_horizon *horizon)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t own, at = version->node; /* once: it is checked, then followed */
        struct sb_node *node = sb_node_at(segment, at);

        if (node && sb_unit_is_block(segment, at, SB_UNIT_NODES, NULL)) {
                own = sb_pin_load(handle, &node->cell);
                if (SB_SHAPE_KIND(version->shape) == SB_VERSION_RING)
                        sb_ring_retire(handle, node);
                if (own == SB_NODE_GONE)
                        sweep_finish_frozen(handle, node);
                if (sb_cell_at(segment, own)) {
                        sb_key_try_remove(handle, own, horizon); /* goes on with a removal */
                        sb_prune_cell(handle, own, horizon);
                }
                if (SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER)
                        sb_index_confirm_all(handle, node->hash, at, true);
        }
        if (!sb_reach_version(handle, version))
                sb_limbo_date(handle, &version->block);
}

/* The number of the cell that the version's node names, or 0. A version that is not published yet
 * says anything here: the caller goes on only where that cell leads to this very version. */
static uint64_t sweep_cell_of(struct sb_handle *handle, const struct sb_version *version)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_node *node;
        uint64_t own;

        sb_model_unchecked_begin();
        node = sb_node_at(segment, version->node);
        own = node && sb_unit_is_block(segment, sb_offset_of(segment, node), SB_UNIT_NODES, NULL)
                      ? sb_pin_load(handle, &node->cell)
                      : 0;
        sb_model_unchecked_end();
        return own;
}

/* Count a key that is deleted, and still there though no cut needs anything of it: so its rule
 * keeps it. @head: of its chain; a newer one is counted where the sweep meets it. */
static void sweep_count_dead(struct sb_handle *handle, uint64_t cell_number,
        struct sb_version *head, const struct sb_horizon *horizon)
{
        uint64_t word = sb_pin_load(handle, sb_cell_at(&handle->segment, cell_number)), stamp;
        struct sb_version *tombstone = sb_key_tombstone(handle, head, &stamp);
        struct sb_node *node = sb_node_at(&handle->segment, head->node);

        if (tombstone && node && (word & SB_CELL_KEPT) && !(word & SB_CELL_FROZEN) &&
                (word & SB_OFFSET_MASK) == sb_offset_of(&handle->segment, head) &&
                stamp <= horizon->bound)
                sb_budget_count_dead(handle, tombstone, stamp, node);
}

/* Whether the ring, which no watch has, serves a rule of history. */
static bool sweep_ring_serves_rule(struct sb_handle *handle, struct sb_node *node,
        const struct sb_ring_view *view, struct sb_word64 *cell)
{
        uint64_t word = sb_pin_load(handle, cell);

        return !(word & SB_CELL_WATCHED) && sb_prune_wants_ring(node, word) &&
               !(sb_load_acquire(&view->ring->state) & SB_TURN_CLOSED); /* A:watcher. */
}

/* The ring of a key: watches of dead clients go, and behind the last one, for the engine, the ring
 * and what the cell says of it. */
static void sweep_ring(struct sb_handle *handle, struct sb_node *node, struct sb_word64 *cell)
{
        struct sb_ring_view view;
        uint64_t at = node ? sb_pin_load(handle, &node->ring) : 0;

        if (SB_LIKELY(!at) || !sb_ring_view(handle, at, &view))
                return;
        if (sb_ring_scrub(handle, &view)) {
                if (sb_once(view.ring->hints))
                        sb_prefix_sweep_saw(handle, node);
                return;
        }
        if (sweep_ring_serves_rule(handle, node, &view, cell))
                return;
        if (handle->slot != 0 || !sb_ring_clear(handle, node, cell))
                return;
        sb_ring_retire(handle, node);
        /* What it kept can go with the next sweep. Fault HINTS_GO_UNASKED: none is asked for. */
        if (sb_once(view.ring->hints) && !SB_FAULT(HINTS_GO_UNASKED))
                sb_limbo_leave(handle);
}

/* Prune a chain and remove its key, once for each chain: from its newest version. */
static void sweep_version(
        struct sb_handle *handle, struct sb_version *version, const struct sb_horizon *horizon)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t own = sweep_cell_of(handle, version);
        struct sb_word64 *cell = sb_cell_at(segment, own);
        struct sb_version *head =
                cell ? sb_version_at(segment, sb_pin_load(handle, cell) & SB_OFFSET_MASK) : NULL;
        bool needed;

        if (head != version)
                return;
        sweep_ring(handle, sb_node_at(segment, version->node), cell);
        needed = sb_prune_cell(handle, own, horizon);
        sb_key_try_remove(handle, own, horizon);
        if (!needed && sb_budget_counts(handle))
                sweep_count_dead(handle, own, version, horizon);
}

/* ---- births and dates that are very old ---- */

/* The label that a birth needs, or the birth, where it needs none. Births since the floor keep
 * their low bits, labels of bases that stay keep those. */
static uint32_t sweep_label_for(const struct sb_handle *handle, uint32_t birth)
{
        uint64_t era;

        if (birth & SB_BIRTH_LABEL) {
                if (SB_LIKELY(!sb_era_drops_bases(handle)) || birth == SB_BIRTH_FIRST)
                        return birth;
                return sb_era_label(handle, sb_era_of_label(&handle->segment, birth));
        }
        era = sb_era_from(handle->sweep.before, birth);
        return SB_LIKELY(era >= handle->sweep.floor) ? birth : sb_era_label(handle, era);
}

/* Label a birth of before the floor. A sweeper that was stopped for ages leaves it to the others:
 * their floor is further by now. */
static void sweep_label_birth(struct sb_handle *handle, struct sb_word32 *birth, uint64_t era)
{
        uint32_t old = sb_load_relaxed(birth), label; /* Relaxed: the CAS decides. */

        if (SB_UNLIKELY(era - handle->sweep.before > SB_ERA_LOW))
                return;
        label = sweep_label_for(handle, old);
        if (SB_UNLIKELY(label != old))
                /* R:retire. Failed: another sweep labelled it, or the block has a new life. */
                sb_cas32_full(birth, old, label);
}

/* The same for a block that is perhaps taken and not published: then its owner fills it later, with
 * a younger birth. */
static void sweep_label_block(struct sb_handle *handle, struct sb_block *block)
{
        sb_model_unchecked_begin();
        sweep_label_birth(handle, &block->birth, sb_pin_era(handle));
        sb_model_unchecked_end();
}

/* Bring a date of long ago up to the floor, so that it is not taken for a later one when a guard
 * keeps the block for ages; and a date that a process wrote ages after it loaded the era down to
 * now. Both are later than the truth. Return: its era. */
static uint64_t sweep_renew_date(struct sb_handle *handle, struct sb_word32 *date, uint32_t old)
{
        uint64_t era = sb_era_of_date(&handle->segment, old), now = sb_pin_era(handle), renewed;

        if (SB_LIKELY(era >= handle->sweep.floor && era <= now))
                return era;
        renewed = sb_era_whole(era > now ? now : handle->sweep.floor);
        /* R:retire > A:retire. Failed: another process is freeing it. */
        return sb_cas32_full(date, old, sb_era_low(renewed)) ? renewed : era;
}

/* ---- what waits for clients that are stopped ---- */

/* Whether a client holds the block that is pinned since before the sweep. It would wait in limbo in
 * vain, and thousands of them would be looked at with every batch: they are counted, and wait for
 * a sweep after one of those pins has ended. */
static bool sweep_is_held(struct sb_handle *handle, uint64_t date, uint64_t birth)
{
        uint64_t since = handle->sweep.since - 1;

        if (!sb_era_protected(handle, date < since ? date : since, birth))
                return false;
        handle->sweep.held++;
        return true;
}

/* ---- nodes ---- */

/* The cell that a node names. A node that was never linked is freed without a grace period; its
 * unit keeps its kind, so this is some node's cell. */
static uint64_t sweep_load_cell(struct sb_handle *handle, struct sb_node *node)
{
        uint64_t own;

        sb_model_unchecked_begin();
        own = sb_pin_load(handle, &node->cell);
        sb_model_unchecked_end();
        return own;
}

/* Whether the ordered index leads to the node, which was perhaps never linked, and freed since. */
static bool sweep_is_linked(struct sb_handle *handle, struct sb_node *node)
{
        bool linked;

        sb_model_unchecked_begin();
        linked = sb_reach_node(handle, node);
        sb_model_unchecked_end();
        return linked;
}

/* In its first grace period, since @date: it waits in the sweeper's limbo, as all that is dated. */
static void sweep_unhooked(struct sb_handle *handle, struct sb_node *node, uint32_t date)
{
        uint64_t era = sweep_renew_date(handle, &node->unhooked, date);

        /* Relaxed: an older value only holds the node for longer. */
        if (SB_FAULT(SWEEP_NODES_NEVER_LIE) ||
                !sweep_is_held(
                        handle, era, sb_era_of_birth(handle, sb_load_relaxed(&node->block.birth))))
                sb_limbo_wait(handle, sb_offset_of(&handle->segment, node), era, true);
}

static void sweep_node(struct sb_handle *handle, struct sb_node *node)
{
        uint64_t own = sweep_load_cell(handle, node);

        if (SB_BRANCH_IS(own))
                return; /* linked, or its maker's still, or a reaper's to find */
        if (!own) {
                /* Without a cell and in the index: left by a dead maker, or by one that found no
                 * empty cell. A live maker makes it anew. */
                if (sweep_is_linked(handle, node))
                        sb_key_abandon(handle, node);
                return;
        }
        if (own != SB_NODE_GONE)
                return;
        if (!sb_load_acquire(&node->unhooked)) { /* A:retire. */
                if (!sweep_finish_frozen(handle, node))
                        sb_key_abandon(handle, node);
                return;
        }
        sweep_unhooked(handle, node, sb_load_acquire(&node->unhooked)); /* A:retire. */
}

/* ---- blocks ---- */

/* Dated: let it wait in the sweeper's own limbo. Another process may be freeing it; then it is
 * dropped there as stale. */
static void sweep_dated(
        struct sb_handle *handle, struct sb_block *block, uint64_t offset, uint32_t date)
{
        uint64_t era, birth;

        sb_model_unchecked_begin();
        era = sweep_renew_date(handle, &block->retire, date);
        /* Relaxed: an older value only holds the block for longer. */
        birth = sb_era_of_birth(handle, sb_load_relaxed(&block->birth));
        if (!sweep_is_held(handle, era, birth))
                sb_limbo_wait(handle, offset, era, false);
        sb_model_unchecked_end();
}

/* The birth of a block that another process may be freeing: looked at again by the caller. */
static uint32_t sweep_load_birth(const struct sb_block *block)
{
        uint32_t birth;

        sb_model_unchecked_begin();
        birth = sb_load_relaxed(&block->birth); /* Relaxed: looked at again. */
        sb_model_unchecked_end();
        return birth;
}

/* Of a block that was found by its bit and is DYING: the process that dates it may have read the
 * era before the sweeper's pin's, so that this pin does not protect it. But that process is pinned
 * itself then, since before this one. True: no such process that can know the block is left, it is
 * still DYING, and any date that it gets from here on is covered by the sweeper's pin. */
static bool sweep_covers_dying(struct sb_handle *handle, const struct sb_block *block)
{
        /* Relaxed: the sweeper's own word. */
        uint64_t lo = sb_record_pin_lo(sb_load_relaxed(&handle->record->pin));
        uint32_t birth = sweep_load_birth(block);

        sb_era_look(handle);
        return lo && sb_era_clear(handle, lo - 1, sb_era_of_birth(handle, birth)) &&
               sb_load_acquire(&block->retire) == SB_RETIRE_DYING && /* A:retire. */
               sb_load_relaxed(&block->birth) == birth; /* Relaxed: behind the acquire. */
}

/* Whether a record notes the block: then its owner dates it, or its reaper does (memory/note.h). */
static bool sweep_is_noted(const struct sb_handle *handle, const struct sb_block *block)
{
        return !SB_FAULT(SWEEP_DATES_NOTED) &&
               sb_note_names(&handle->segment, sb_offset_of(&handle->segment, block));
}

/* Whether one of the clients that may be about to date it is pinned since before the sweep. */
static bool sweep_dying_is_held(struct sb_handle *handle, const struct sb_block *block)
{
        /* Relaxed: the sweeper's own word. */
        uint64_t lo = sb_record_pin_lo(sb_load_relaxed(&handle->record->pin));

        return lo && !SB_FAULT(SWEEP_DYING_NEVER_LIE) &&
               sweep_is_held(handle, lo - 1, sb_era_of_birth(handle, sweep_load_birth(block)));
}

/* DYING, and the process that said so went no further, or is about to. */
static void sweep_dying(struct sb_handle *handle, struct sb_block *block, enum sb_unit_kind kind,
        const struct sb_horizon *horizon)
{
        if (!sweep_covers_dying(handle, block)) {
                /* What is noted, or waits for clients that are stopped, is no work for a sweep:
                 * none is asked for again and again. */
                if (!sweep_is_noted(handle, block) && !sweep_dying_is_held(handle, block))
                        sb_limbo_leave(handle);
                return;
        }
        /* Asked only now, when the block cannot begin another life under the sweeper's pin. */
        if (sweep_is_noted(handle, block))
                return;
        if (kind == SB_UNIT_NODES && SB_BRANCH_IS(sweep_load_cell(handle, (struct sb_node *)block)))
                sb_order_finish(handle, (struct sb_branch *)block);
        else if (kind == SB_UNIT_NODES)
                sb_limbo_date(handle, block);
        else
                sweep_finish_dying(handle, (struct sb_version *)block, horizon);
}

static void sweep_block(struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind,
        const struct sb_horizon *horizon)
{
        struct sb_block *block = sb_block_at(&handle->segment, offset);
        uint32_t retire;

        do
                retire = sb_load_acquire(&block->retire); /* A:retire. What is not dated yet is
                                                             protected by the sweeper's pin. */
        while (!sb_pin_covers(handle));
        handle->counters.swept++;
        sweep_label_block(handle, block);
        if (retire >= SB_RETIRE_FREEING)
                return;
        if (retire >= SB_ERA_MIN)
                sweep_dated(handle, block, offset, retire);
        else if (retire == SB_RETIRE_DYING)
                sweep_dying(handle, block, kind, horizon);
        else if (kind == SB_UNIT_NODES)
                sweep_node(handle, (struct sb_node *)block);
        else
                sweep_version(handle, (struct sb_version *)block, horizon);
}

/* ---- units ---- */

/* An EMPTY unit becomes FREE when no process is left that was pinned in its era: the era need not
 * be remembered any more. @word: what the unit said. */
static void sweep_empty_unit(struct sb_handle *handle, uint32_t unit, uint64_t word)
{
        struct sb_segment *segment = &handle->segment;

        /* A:unit-owned. */
        if (SB_UNIT_KIND(word) == SB_UNIT_EMPTY &&
                sb_era_clear(handle, SB_UNIT_ERA(word),
                        sb_era_of_birth(handle, sb_load_acquire(&segment->unit_births[unit]))))
                sb_cas64_full(&segment->unit_words[unit], word, 0); /* R:unit-owned. */
}

/* Look at the blocks of the unit that have their bits in @words words of its bitmap, from word
 * @first on; with the first of them, at the unit itself. */
static void sweep_unit(struct sb_handle *handle, uint32_t unit, uint32_t first, uint32_t words)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t word = sb_load_acquire(&segment->unit_words[unit]), now, bits; /* A:unit-owned. */
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        uint32_t count = sb_unit_block_count(segment, word), base;
        uint64_t size;

        if (!first) {
                /* A:era. */
                sweep_label_birth(
                        handle, &segment->unit_births[unit], sb_load_acquire(&segment->super->era));
                sweep_empty_unit(handle, unit, word);
                sb_unit_repair(handle, unit);
        }
        if (kind == SB_UNIT_FREE || kind == SB_UNIT_GUARDS || kind >= SB_UNIT_PART || !count)
                return;
        size = kind == SB_UNIT_LARGE ? 0 : segment->class_size[SB_UNIT_CLASS(word)];
        for (base = first * 64; base < count && base < (first + words) * 64; base += 64) {
                sb_pin(handle);
                do {
                        /* A:block-taken. */
                        bits = sb_load_acquire(&sb_unit_bitmap(segment, unit)[base / 64]);
                        /* A:unit-owned. */
                        now = sb_load_acquire(&segment->unit_words[unit]);
                } while (!sb_pin_covers(handle));
                /* It may have changed hands and kind before this pin: then it is left for the next
                 * round. From here on it keeps its kind as long as the pin stands. */
                if (((now ^ word) >> 54) == 0)
                        for (; bits; bits &= bits - 1) {
                                uint32_t index = base + (uint32_t)__builtin_ctzll(bits);

                                if (index < count)
                                        sweep_block(handle,
                                                sb_unit_offset(segment, unit) + index * size, kind,
                                                &handle->horizon);
                        }
                sb_unpin(handle);
                if (sb_limbo_half_full(handle))
                        sb_reclaim_free(handle);
        }
}

/* ---- signs of the index ---- */

/* Heal the signs of the buckets that fall to this part of the segment: all parts together have all
 * buckets. */
static void sweep_signs(struct sb_handle *handle, uint64_t part, uint64_t parts)
{
        uint64_t count = handle->segment.geometry.bucket_count, bucket = part * count / parts,
                 end = (part + 1) * count / parts;

        if (SB_FAULT(SWEEP_SKIPS_SIGNS))
                return;
        for (; bucket < end; bucket++) {
                /* Relaxed: a hint of where to look. */
                if (!(sb_load_relaxed(&handle->segment.buckets[bucket].sign) & SB_SIGN_BITS))
                        continue;
                sb_pin(handle);
                sb_index_heal(handle, (uint32_t)bucket);
                sb_unpin(handle);
        }
}

/* ---- chunks and whole sweeps ---- */

static uint32_t sweep_unit_words(const struct sb_segment *segment)
{
        return segment->geometry.bitmap_stride / 8;
}

static uint32_t sweep_unit_chunks(const struct sb_segment *segment)
{
        return (sweep_unit_words(segment) + CHUNK_WORDS - 1) / CHUNK_WORDS;
}

uint64_t sb_sweep_chunks(const struct sb_segment *segment)
{
        return (uint64_t)segment->geometry.unit_count * sweep_unit_chunks(segment);
}

void sb_sweep_chunk(struct sb_handle *handle, uint64_t chunk)
{
        uint32_t each = sweep_unit_chunks(&handle->segment);
        uint64_t count = sb_sweep_chunks(&handle->segment);

        sweep_signs(handle, chunk % count, count);
        sweep_unit(handle, (uint32_t)(chunk / each % handle->segment.geometry.unit_count),
                (uint32_t)(chunk % each) * CHUNK_WORDS, CHUNK_WORDS);
}

/* A look, for a sweep or a slice. Births keep what they say, unless a whole sweep makes a floor. */
static void sweep_look(struct sb_handle *handle)
{
        handle->sweep.before = sb_load_acquire(&handle->segment.super->birth_floor); /* A:sweep. */
        handle->sweep.floor = handle->sweep.before;
        sb_era_look(handle);
        /* Two eras ago: clients that are not stopped mostly have a younger pin. */
        handle->sweep.since = sb_era_looked(handle) - 2;
}

/* The floor that this sweep makes: SB_ERA_OLD ago. It never goes back. */
static void sweep_find_floor(struct sb_handle *handle)
{
        uint64_t looked = sb_era_looked(handle);

        if (looked > SB_ERA_OLD && looked - SB_ERA_OLD > handle->sweep.before)
                handle->sweep.floor = looked - SB_ERA_OLD;
        handle->sweep.floor = sb_era_find_bases(handle, handle->sweep.before, handle->sweep.floor);
}

void sb_sweep_slice_begin(struct sb_handle *handle, bool of_whole)
{
        if (!of_whole)
                sweep_look(handle);
        sb_budget_look(handle, true);
        sb_horizon_renew(handle);
}

void sb_sweep_slice_end(struct sb_handle *handle)
{
        sb_budget_look(handle, false);
        sb_reclaim_free(handle);
}

void sb_sweep_begin(struct sb_handle *handle)
{
        sweep_look(handle);
        sweep_find_floor(handle);
        sb_prefix_sweep_begin(handle);
        handle->sweep.held = 0;
        handle->sweep.held_by = sb_era_sum_pins(handle, handle->sweep.since);
        sb_budget_begin(handle);
}

bool sb_sweep_end(struct sb_handle *handle)
{
        struct sb_word64 *word = &handle->segment.super->birth_floor;
        uint64_t floor = sb_load_acquire(word); /* A:sweep. */

        /* R:sweep > A:sweep. Failed: another process's sweep ended; the next one goes on from
         * there. */
        if (floor < handle->sweep.floor)
                sb_cas64_full(word, floor, handle->sweep.floor);
        sb_era_drop_bases(handle);
        (void)sb_prefix_sweep_end(handle);
        return sb_budget_end(handle);
}

bool sb_sweep_lets_lie(const struct sb_handle *handle)
{
        return handle->sweep.held && !SB_FAULT(SWEEP_LIES_UNSAID);
}

bool sb_sweep_is_due(const struct sb_handle *handle)
{
        return handle->sweep.held &&
               sb_era_sum_pins(handle, handle->sweep.since) != handle->sweep.held_by;
}

uint64_t sb_sweep(struct sb_handle *handle, uint32_t *cursor, uint32_t count)
{
        uint32_t units = handle->segment.geometry.unit_count;
        uint64_t before = handle->counters.freed;

        sb_sweep_slice_begin(handle, true);
        while (count--) {
                *cursor %= units;
                sweep_signs(handle, *cursor, units);
                sweep_unit(handle, (*cursor)++, 0, sweep_unit_words(&handle->segment));
        }
        sb_sweep_slice_end(handle);
        return handle->counters.freed - before;
}
