/* Moving versions; see move.h. */

#include "shm/upkeep/move.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/window.h"
#include "shm/notify/prefix.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/reclaim.h"

#define SHARE        64u          /* blocks that one call looks at closely */
#define SHARE_BYTES  (256u << 10) /* of blocks: behind so many that moved it is over */
#define KNOWN_AGO    3u           /* eras: clients that are not stopped mostly have a younger pin */
#define COLLECT_EACH 8u           /* looks in vain: blocks that others dated are collected */
#define WALK_MAX     256u         /* versions above one that moves */

/* What became of a block in the window. */
enum moved {
        GOES,   /* it moved, or is on its way out already */
        WAITS,  /* another process is at work there: look again */
        STAYS,  /* for now: in a hand, known to a stopped client, or too deep */
        NO_ROOM /* there is no block for the copy */
};

/* The word that links a version, and what is in it. */
struct holder {
        struct sb_word64 *word;
        uint64_t link;
};

/* Whether a version with these words may have another one put behind it. */
static bool move_is_settled(uint64_t link, uint64_t stamp)
{
        return (!(link & SB_PREV_MARKED) || SB_FAULT(MOVE_UNDER_MARKED)) &&
               ((int64_t)stamp > 0 || SB_FAULT(MOVE_OVER_INTENT));
}

/* Find the word that links the version at @at. Return: GOES: it is a cell, or the link of a
 * committed version; WAITS; STAYS: the version lies too deep. */
static enum moved move_find(
        struct sb_handle *handle, struct sb_word64 *cell, uint64_t at, struct holder *ret)
{
        uint64_t link = sb_pin_load(handle, cell);
        bool settled = !(link & SB_CELL_FROZEN) || SB_FAULT(MOVE_FROZEN);
        struct sb_version *version;
        uint32_t steps = 0;

        *ret = (struct holder){.word = cell, .link = link};
        while ((link & SB_OFFSET_MASK) != at) {
                version = sb_version_at(&handle->segment, link & SB_OFFSET_MASK);
                /* Bound: result. The version stays, and so does its unit. */
                if (!version || steps++ == WALK_MAX)
                        return version ? STAYS : WAITS;
                link = sb_pin_load(handle, &version->prev);
                settled = move_is_settled(link, sb_load_acquire(&version->stamp)); /* A:stamp. */
                *ret = (struct holder){.word = &version->prev, .link = link};
        }
        return settled ? GOES : WAITS;
}

/* The bytes behind a version's head, by the shape that was checked. The fault MOVED_READ_AGAIN
 * loads it once more. */
static uint64_t move_size(const struct sb_version *version, uint64_t shape)
{
        return sb_version_size(SB_FAULT(MOVED_READ_AGAIN) ? sb_again(version->shape) : shape) -
               sizeof(*version);
}

/* A copy is as old as its original: a reader that is at a newer version, which was taken out
 * meanwhile, still follows that one's link, and its pin may reach no younger birth. Of a birth that
 * is so old that a sweep may label it, and have passed the copy's block by, nothing is said: then
 * each pin reaches it. */
static void move_give_birth(
        struct sb_handle *handle, struct sb_version *copy, const struct sb_version *version)
{
        /* Relaxed, all: the copy is private, and a label that comes meanwhile says no more. */
        uint32_t birth = sb_load_relaxed(&version->block.birth);

        sb_store_relaxed(&copy->block.birth, birth);
        /* A:era. Behind the store, as in sb_pin_give_birth(). */
        if (!(birth & SB_BIRTH_LABEL) &&
                sb_load_acquire(&handle->segment.super->era) - sb_era_of_birth(handle, birth) >
                        SB_ERA_OLD / 2)
                sb_store_relaxed(&copy->block.birth, SB_BIRTH_FIRST);
        if (SB_FAULT(MOVE_BORN_ANEW))
                sb_pin_give_birth(handle, &copy->block);
}

/* Fill the copy's block, which no other process can reach. */
static void move_fill(struct sb_handle *handle, struct sb_version *copy,
        const struct sb_version *version, uint64_t shape, uint64_t stamp)
{
        move_give_birth(handle, copy, version);
        copy->rev = version->rev;
        /* Relaxed, both: the copy is private until the CAS publishes it. */
        sb_store_relaxed(&copy->stamp, SB_FAULT(MOVE_UNSTAMPED) ? 0 : stamp);
        sb_store_relaxed(&copy->prev, SB_FAULT(MOVE_SKIPS)
                                              ? sb_load_relaxed(&version->prev)
                                              : sb_offset_of(&handle->segment, version));
        copy->node = version->node;
        copy->shape = shape;
        memcpy(copy->bytes, version->bytes, move_size(version, shape));
}

/* Publish the copy over @version. False: another process changed the link. */
static bool move_publish(
        struct sb_handle *handle, const struct holder *holder, const struct sb_version *copy)
{
        /* In the link of a transaction's version, no late helper can take the copy for what it saw:
         * one that loads this link asks behind that whether the transaction is over, and it is. */
        uint64_t link = (holder->link & ~SB_OFFSET_MASK) | sb_offset_of(&handle->segment, copy);

        if (SB_FAULT(MOVE_STORED)) {
                sb_store_release(holder->word, link); /* R:publish, over anything: the fault. */
                return true;
        }
        /* R:publish > A:publish. It expects the link that was followed, unmarked. */
        return sb_cas64_full(holder->word, holder->link, link);
}

/* Move @version, which is committed. @shape: its own, as it was checked. */
static enum moved move_version(struct sb_handle *handle, struct sb_version *version, uint64_t shape,
        uint64_t cell_number, uint64_t stamp)
{
        enum moved found;
        struct sb_version *copy;
        struct holder holder;
        uint64_t at;

        found = move_find(handle, sb_cell_at(&handle->segment, cell_number),
                sb_offset_of(&handle->segment, version), &holder);
        if (found != GOES)
                return found;
        if (sb_slab_take(handle, SB_UNIT_VERSIONS, sb_version_size(shape), SB_SLAB_LARGER, &at))
                return NO_ROOM;
        /* A reader that listed it comes back for it where it is, unless it was given up. Fault
         * MOVE_AWAITED: not said. */
        if (!SB_FAULT(MOVE_AWAITED))
                sb_prefix_say_moved(handle, version, stamp);
        copy = (struct sb_version *)(handle->segment.base + at);
        move_fill(handle, copy, version, shape, stamp);
        if (!move_publish(handle, &holder, copy)) {
                sb_slab_give_back(handle, at);
                return WAITS;
        }
        handle->counters.moved++;
        /* The original is looked for in the whole chain. A tombstone's key can perhaps be removed.
         */
        if (!sb_prune_behind(handle, copy, version))
                sb_limbo_later(handle, cell_number, SB_STAMP_PLACEHOLDER);
        if (!sb_version_has_value(version))
                sb_limbo_later(handle, cell_number, stamp);
        /* A:publish. A sweep looks at a chain where its newest version lies. */
        else if (sb_load_acquire(&copy->prev) & SB_OFFSET_MASK)
                sb_limbo_moved(handle, cell_number, stamp);
        return GOES;
}

/* Let a version go that is superseded and that no cut needs. Return: whether it goes. */
static bool move_prune(struct sb_handle *handle, const struct sb_version *version,
        uint64_t cell_number, uint64_t stamp)
{
        struct sb_prune_look look = {.since = stamp};

        sb_prune_look(handle, cell_number, &handle->horizon, &look);
        return sb_load_acquire(&version->block.retire) && /* A:retire. */
               !SB_FAULT(MOVE_IN_HAND);
}

/* A block of the window that no process has said anything about: it is published, for each owner of
 * its unit gave that up behind its last operation. @size: of the block. */
static enum moved move_live(struct sb_handle *handle, struct sb_version *version, uint64_t size)
{
        uint64_t stamp = sb_load_acquire(&version->stamp), cell_number; /* A:stamp. */
        uint64_t shape = sb_once(version->shape);
        uint32_t kind = SB_SHAPE_KIND(shape) & SB_VERSION_KIND;
        struct sb_node *node = sb_node_at(&handle->segment, version->node);

        if (kind >= SB_VERSION_PLACEHOLDER || sb_version_size(shape) > size)
                return STAYS;
        if ((int64_t)stamp <= 0 || !node)
                return WAITS;
        cell_number = sb_pin_load(handle, &node->cell);
        if (!sb_cell_at(&handle->segment, cell_number))
                return WAITS;
        return move_prune(handle, version, cell_number, stamp)
                       ? GOES
                       : move_version(handle, version, shape, cell_number, stamp);
}

/* One call's share of the work. */
struct share {
        uint32_t left;  /* blocks that it looks at closely */
        uint64_t moved; /* bytes of blocks that moved */
        uint64_t since; /* clients that are pinned since then or before are as good as stopped */
        bool collects;  /* what is dated waits in the mover's limbo from now on */
};

/* The retire word of a block in the window. Under a pin. */
static uint32_t move_retire(struct sb_handle *handle, const struct sb_block *block)
{
        uint32_t retire;

        do
                retire = sb_load_acquire(&block->retire); /* A:retire. */
        while (!sb_pin_covers(handle));
        return retire;
}

static bool move_is_in_hand(uint32_t retire)
{
        return (retire == SB_RETIRE_HELD || retire >= SB_RETIRE_FREEING) && !SB_FAULT(MOVE_IN_HAND);
}

/* Whether a client that may be reading the block is pinned for long: it holds the original of what
 * moves, and each copy, for that is as old. */
static bool move_is_known(
        struct sb_handle *handle, const struct sb_block *block, const struct share *share)
{
        uint64_t birth;

        sb_model_unchecked_begin();
        /* Relaxed: an older value only keeps the block where it is. */
        birth = sb_era_of_birth(handle, sb_load_relaxed(&block->birth));
        sb_model_unchecked_end();
        return sb_era_protected(handle, share->since, birth) && !SB_FAULT(MOVE_KNOWN);
}

/* Whether a block keeps its unit from being emptied: nothing there need move then. */
static enum moved move_ask(
        struct sb_handle *handle, uint64_t offset, uint64_t size, struct share *share)
{
        struct sb_block *block = sb_block_at(&handle->segment, offset);

        (void)size;
        return move_is_in_hand(move_retire(handle, block)) || move_is_known(handle, block, share)
                       ? STAYS
                       : GOES;
}

/* Put a block that is dated into the mover's limbo. Another client may free it meanwhile. Then its
 * birth is read to no end: its retire word says that it is in hand, and no client takes it again as
 * long as the mover owns the unit. */
static void move_collect(struct sb_handle *handle, uint64_t offset, uint64_t era)
{
        sb_model_unchecked_begin();
        sb_limbo_wait(handle, offset, era, false);
        sb_model_unchecked_end();
}

static enum moved move_block(
        struct sb_handle *handle, uint64_t offset, uint64_t size, struct share *share)
{
        struct sb_block *block = sb_block_at(&handle->segment, offset);
        uint32_t retire = move_retire(handle, block);
        enum moved moved;

        if (move_is_in_hand(retire) || move_is_known(handle, block, share))
                return STAYS;
        /* The client that dated it may be idle, with the block in its limbo. */
        if (retire >= SB_ERA_MIN && share->collects && !sb_limbo_half_full(handle))
                move_collect(handle, offset, sb_era_of_date(&handle->segment, retire));
        if (retire && !SB_FAULT(MOVE_IN_HAND))
                return GOES;
        moved = move_live(handle, (struct sb_version *)block, size);
        share->left--;
        share->moved += moved == GOES ? size : 0;
        if (share->moved >= SHARE_BYTES)
                share->left = 0;
        return moved;
}

typedef enum moved move_look(
        struct sb_handle *handle, uint64_t offset, uint64_t size, struct share *share);

/* Look at the blocks in one unit of the window, each under a pin, as far as the share goes, or
 * until something does not move. */
static enum moved move_unit(
        struct sb_handle *handle, uint32_t unit, move_look *look, struct share *share)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t word = sb_unit_word(segment, unit), taken, size;
        uint32_t count = sb_unit_block_count(segment, word), base, index;
        enum moved moved = GOES;

        if ((SB_UNIT_KIND(word) != SB_UNIT_VERSIONS && SB_UNIT_KIND(word) != SB_UNIT_LARGE) ||
                !count)
                return GOES;
        size = SB_UNIT_KIND(word) == SB_UNIT_LARGE
                       ? (uint64_t)sb_unit_large_count(segment, unit) << segment->unit_shift
                       : segment->class_size[SB_UNIT_CLASS(word)];
        for (base = 0; base < count; base += 64) {
                /* This client owns the unit: no bit is set meanwhile. */
                taken = ~sb_unit_free_bits(segment, unit, base / 64, count);
                if (count - base < 64)
                        taken &= (UINT64_C(1) << (count - base)) - 1;
                for (; taken && share->left && moved <= WAITS; taken &= taken - 1) {
                        index = base + (uint32_t)__builtin_ctzll(taken);
                        sb_pin(handle);
                        moved = look(
                                handle, sb_unit_offset(segment, unit) + index * size, size, share);
                        sb_unpin(handle);
                }
        }
        return moved;
}

/* The same in all units of the window. Return: GOES: all that was looked at goes, or waits; else
 * the window was given up. */
static enum moved move_window(struct sb_handle *handle, move_look *look, struct share *share)
{
        uint32_t unit = sb_window_first(handle), end = unit + sb_window_count(handle);
        enum moved moved;

        for (; unit < end && share->left; unit++) {
                moved = move_unit(handle, unit, look, share);
                if (moved <= WAITS)
                        continue;
                sb_window_refuse(handle, unit);
                return moved;
        }
        return GOES;
}

/* Before a search: what this client itself has in its hands may be in the way, too. */
static void move_let_go(struct sb_handle *handle)
{
        if (!SB_FAULT(MOVE_OWN_SLABS))
                sb_slab_release_all(handle);
        sb_magazine_release_all(handle);
}

bool sb_move(struct sb_handle *handle)
{
        struct share share = {.left = SHARE};
        bool found = sb_window_count(handle);
        enum moved moved;

        if (sb_window_begins(handle))
                move_let_go(handle);
        if (!sb_window_find(handle))
                return sb_window_searches(handle);
        sb_era_look(handle);
        share.since = sb_era_looked(handle) - KNOWN_AGO;
        if (!found && move_window(handle, move_ask, &share) != GOES)
                return true;
        share.collects = sb_window_waited(handle) % COLLECT_EACH == 1;
        sb_horizon_renew(handle);
        sb_window_move(handle);
        moved = move_window(handle, move_block, &share);
        sb_window_moved(handle);
        sb_slab_settle(handle);
        sb_reclaim_pending(handle);
        sb_reclaim_free(handle);
        if (moved == NO_ROOM)
                return sb_window_found_no_room(handle);
        return moved != GOES || share.moved || sb_window_wait(handle);
}
