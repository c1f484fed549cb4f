/* Reachability: the ways to each kind of block, and the order of the looks; see reach.h. */

#include "shm/keys/reach.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"

/* Whether a placeholder lies in any cell of its home and its way, also in one that is not its
 * node's, and where no sign leads yet. */
static bool reach_placeholder(
        struct sb_handle *handle, const struct sb_version *placeholder, uint64_t hash)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_path path = sb_path_first(segment, hash);
        uint64_t at = sb_offset_of(segment, placeholder);
        uint32_t index;

        do {
                for (index = 0; index < SB_BUCKET_CELLS; index++)
                        if ((sb_pin_load(handle, &segment->buckets[path.bucket].cell[index]) &
                                    SB_OFFSET_MASK) == at)
                                return true;
        } while (sb_path_next_of_all(segment, hash, &path));
        return false;
}

/* ---- many looks at one chain ---- */

/* The number of the part that the block at @at lies in, + 1. */
static uint64_t reach_part_of(const struct sb_reach *reach, uint64_t at)
{
        return at / SB_BLOCK_MIN / 64 / reach->words + 1;
}

/* A bit for the block at @at: no two blocks begin in the same SB_BLOCK_MIN bytes. */
static uint64_t *reach_note_of(struct sb_reach *reach, uint64_t at, uint64_t *ret_bit)
{
        uint64_t number = at / SB_BLOCK_MIN % (64 * reach->words);

        *ret_bit = UINT64_C(1) << (number % 64);
        return &reach->met[number / 64];
}

void sb_reach_lend(struct sb_handle *handle, uint64_t *words, uint64_t count)
{
        handle->reach = (struct sb_reach_room){words, count};
}

/* Whether an earlier walk met the block. */
static bool reach_was_met(struct sb_reach *reach, uint64_t at)
{
        uint64_t bit, *word;

        if (!reach || reach->part != reach_part_of(reach, at))
                return false;
        word = reach_note_of(reach, at, &bit);
        return *word & bit;
}

/* Notes that a walk to the block at @to met the one at @at. */
static void reach_note(struct sb_reach *reach, uint64_t to, uint64_t at)
{
        uint64_t bit, *word;

        if (reach->part != reach_part_of(reach, to)) {
                reach->part = reach_part_of(reach, to);
                memset(reach->met, 0, reach->words * sizeof(*reach->met));
        }
        if (reach_part_of(reach, at) != reach->part)
                return;
        word = reach_note_of(reach, at, &bit);
        *word |= bit;
}

/* Walk down a chain from @link to the version at @at, and as far again. */
static bool reach_walk(struct sb_handle *handle, uint64_t link, uint64_t at, struct sb_reach *reach)
{
        uint64_t left = sb_damage_bound(&handle->segment), end = UINT64_MAX, steps;
        bool notes = false;

        /* Bound: damage. A chain that goes round: what cannot be told is not freed. */
        for (steps = 0; (link & SB_OFFSET_MASK) && steps < end; steps++) {
                struct sb_version *here = sb_version_at(&handle->segment, link & SB_OFFSET_MASK);

                notes = reach && steps >= SB_REACH_NEAR;
                if ((link & SB_OFFSET_MASK) == at)
                        end = notes ? 2 * steps + 1 : 0;
                if (!here || !end)
                        break;
                if (!sb_damage_step(handle, &left))
                        return true;
                if (notes)
                        reach_note(reach, at, link & SB_OFFSET_MASK);
                link = sb_pin_load(handle, &here->prev);
        }
        handle->counters.walked += steps;
        return end != UINT64_MAX;
}

/* Whether the node leads to this ring, or to this further block of its ring. */
static bool reach_ring(struct sb_handle *handle, struct sb_node *node, uint64_t at)
{
        uint64_t left = sb_damage_bound(&handle->segment), next = sb_pin_load(handle, &node->ring);
        struct sb_ring *ring;

        /* Bound: damage. Blocks that go round: what cannot be told is not freed. */
        while (next && next != at) {
                ring = sb_block_at(&handle->segment, next);
                if (!ring || !sb_damage_step(handle, &left))
                        break;
                next = sb_pin_load(handle, &ring->more) & SB_OFFSET_MASK;
        }
        return next == at || sb_damage_met(handle);
}

static bool reach_version(
        struct sb_handle *handle, const struct sb_version *version, struct sb_reach *reach)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t at = sb_offset_of(segment, version);
        struct sb_node *node;
        struct sb_word64 *cell;

        /* What lies here may be anything: a block that was taken and not filled still has what its
         * last life left. */
        node = sb_node_at(segment, version->node);
        if (!node || !sb_unit_is_block(segment, sb_offset_of(segment, node), SB_UNIT_NODES, NULL))
                return false;
        if (SB_SHAPE_KIND(version->shape) == SB_VERSION_RING)
                return reach_ring(handle, node, at);
        if (reach_was_met(reach, at))
                return true;
        cell = sb_cell_at(segment, sb_pin_load(handle, &node->cell));
        if (cell && reach_walk(handle, sb_pin_load(handle, cell), at, reach))
                return true;
        return SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER &&
               reach_placeholder(handle, version, node->hash);
}

bool sb_reach_version(struct sb_handle *handle, const struct sb_version *version)
{
        return reach_version(handle, version, NULL);
}

bool sb_reach_node(struct sb_handle *handle, const struct sb_node *node)
{
        struct sb_node_key key;

        /* A:publish. */
        if (SB_BRANCH_IS(sb_load_acquire(&node->cell)))
                return sb_order_reaches(handle, (struct sb_branch *)node);
        key = sb_node_key(&handle->segment, node);
        /* In a damaged index nothing is found: what cannot be told is not freed. */
        return key.bytes &&
               (sb_order_find(handle, key.bytes, key.len) == node || sb_damage_met(handle));
}

static bool reach_chunk(const struct sb_segment *segment, const struct sb_guard_chunk *chunk)
{
        uint32_t slot = (uint32_t)(chunk->owner >> 16) & 0xffffu, number = chunk->owner & 0xffffu;

        if (slot >= segment->geometry.record_count || number >= SB_GUARD_CHUNKS)
                return false;
        /* A:guard-chunk. */
        return sb_load_acquire(&sb_record_at(segment, slot)->guard_chunk[number]) ==
               sb_offset_of(segment, chunk);
}

/* Whether the retire word says that the block was published. An intent that is HELD while its
 * transaction is not over lies where it was installed, or is its owner's still. */
static bool reach_retire_says_so(const struct sb_block *block)
{
        uint32_t retire = sb_load_acquire(&block->retire); /* A:retire. */

        /* A:stamp. The owner sets HELD behind the stamp. */
        return retire &&
               (retire != SB_RETIRE_HELD || !sb_stamp_is_intent(sb_load_acquire(
                                                    &((const struct sb_version *)block)->stamp)));
}

/* The same, of a block to which no link led: the pin must cover what 0 says. Else a version that
 * was published after the pin could be replaced, built in again by its writer
 * (shm/memory/magazine.h) and published elsewhere while this process looks, and be missed in both
 * lives. */
static bool reach_covered_retire_says_so(struct sb_handle *handle, const struct sb_block *block)
{
        bool published;

        do
                published = reach_retire_says_so(block);
        while (!SB_FAULT(REACH_UNCOVERED) && !sb_pin_covers(handle));
        return published;
}

static bool reach_names_cell(const struct sb_node *node)
{
        uint64_t cell = sb_load_acquire(&node->cell); /* A:publish. */

        return cell && !SB_BRANCH_IS(cell);
}

/* Whether a link leads to the block. What its words name may be of another life, so the model
 * checker need not judge these loads. */
static bool reach_link(struct sb_handle *handle, struct sb_block *block, enum sb_unit_kind kind,
        struct sb_reach *reach)
{
        struct sb_node *node = (struct sb_node *)block;
        bool reached;

        sb_model_unchecked_begin();
        if (kind == SB_UNIT_NODES)
                /* The cell again: a node that was taken out between the looks said GONE before. */
                reached = reach_names_cell(node) || sb_reach_node(handle, node) ||
                          reach_names_cell(node);
        else if (kind == SB_UNIT_GUARDS)
                reached = reach_chunk(&handle->segment, (struct sb_guard_chunk *)block);
        else
                reached = reach_version(handle, (struct sb_version *)block, reach);
        sb_model_unchecked_end();
        return reached;
}

bool sb_reach_published(struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind)
{
        return sb_reach_published_of_many(handle, offset, kind, NULL);
}

bool sb_reach_published_of_many(
        struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind, struct sb_reach *reach)
{
        struct sb_block *block = sb_block_at(&handle->segment, offset);

        if (!block || reach_covered_retire_says_so(handle, block))
                return true;
        /* The word again, behind the look: as reach.h says. */
        return reach_link(handle, block, kind, reach) || reach_retire_says_so(block);
}
