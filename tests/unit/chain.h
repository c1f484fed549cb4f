/*
 * Chains and descriptors that a test makes itself, version by version: any stamp, any outcome, any
 * order, without the operations that would make them (ring/op).
 */
#ifndef SB_TEST_UNIT_CHAIN_H
#define SB_TEST_UNIT_CHAIN_H

#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/index.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/mvcc/stamp.h"
#include "shm/upkeep/key.h"
#include "tests/unit/bus.h"

#define CHAIN_UNDECIDED UINT64_C(0)

__attribute__((noipa, unused)) static uint64_t hash_of(const void *key, uint32_t key_len)
{
        return sb_hash_key(key, key_len, writer.segment.seed);
}

/* The slot, or the root, in which a node's way through the ordered index ends. */
static inline struct sb_word64 *slot_of(const struct sb_node *node)
{
        struct sb_word64 *slot = &writer.segment.super->order;
        struct sb_branch_view view = {0};

        while (!(sb_load_relaxed(slot) & SB_SLOT_LEAF) &&
                sb_branch_view(&writer.segment, sb_load_relaxed(slot), view.depth, &view)) {
                uint32_t symbol = sb_branch_symbol(node->key, node->key_len, view.depth), i = 0;

                while (i < view.slots &&
                        SB_SLOT_SYMBOL(sb_load_relaxed(&view.branch->slot[i])) != symbol + 1)
                        i++;
                if (i == view.slots)
                        break;
                slot = &view.branch->slot[i];
        }
        return slot;
}

/* How many branches the ordered index has, from @word on. */
__attribute__((noipa, unused)) static uint64_t branches_below(uint64_t word)
{
        struct sb_branch_view view;
        uint64_t count = 1;

        if (!(word & SB_OFFSET_MASK) || (word & SB_SLOT_LEAF) ||
                !sb_branch_view(&writer.segment, word, 0, &view))
                return 0;
        for (uint32_t i = 0; i < view.slots; i++)
                count += branches_below(sb_load_relaxed(&view.branch->slot[i]));
        return count;
}

/* Under the writer's pin: where the key is; it is made, with a placeholder, where there is none. */
static inline bool spot_of(const char *key, struct sb_spot *ret)
{
        uint32_t len = (uint32_t)strlen(key);
        struct sb_key_supplies supplies = {0};
        bool found;

        if (sb_key_find(&writer, key, len, hash_of(key, len), ret))
                return true;
        if (sb_key_take_supplies(&writer, len, 0, &supplies) ||
                sb_key_make(&writer, key, len, hash_of(key, len), &supplies))
                return false;
        sb_store_relaxed(&writer.record->operation, 0);
        found = sb_key_find(&writer, key, len, hash_of(key, len), ret);
        return found;
}

/* Under the writer's pin: a version on top of the key's chain; its value is its revision. */
static inline struct sb_version *push(const char *key, uint32_t kind, uint64_t stamp)
{
        uint32_t len = (uint32_t)strlen(key);
        struct sb_version *version;
        uint64_t offset, shape;
        struct sb_spot spot;

        shape = SB_SHAPE(
                (kind & SB_VERSION_KIND) == SB_VERSION_VALUE ? 8 : 0, len, kind, writer.slot);
        if (!spot_of(key, &spot) ||
                sb_slab_take(&writer, SB_UNIT_VERSIONS, sb_version_size(shape), 0, &offset))
                return NULL;
        version = sb_version_at(&writer.segment, offset);
        version->rev = spot.head->rev + 1;
        version->node = spot.head->node;
        version->shape = shape;
        sb_store_relaxed(&version->block.birth, sb_pin_era(&writer));
        sb_store_relaxed(&version->stamp, stamp);
        sb_store_relaxed(&version->prev, sb_offset_of(&writer.segment, spot.head));
        memcpy(version->bytes, key, len);
        memcpy(version->bytes + len, &version->rev, 8);
        return sb_cas64_full(spot.cell, spot.word, (spot.word & ~SB_OFFSET_MASK) | offset) ? version
                                                                                           : NULL;
}

/* A descriptor with so many writes and bytes of ranges, undecided; all of them zero. */
static inline struct sb_descriptor *make_descriptor(
        uint64_t cut, uint32_t write_count, uint64_t ranges_len)
{
        uint64_t size = sizeof(struct sb_descriptor) + 8 * (uint64_t)write_count + ranges_len,
                 offset;
        struct sb_descriptor *commit;

        if (sb_slab_take(&writer, SB_UNIT_VERSIONS, size, 0, &offset))
                return NULL;
        commit = sb_block_at(&writer.segment, offset);
        if (!commit)
                return NULL;
        memset((unsigned char *)commit + sizeof(struct sb_block), 0,
                size - sizeof(struct sb_block));
        sb_store_relaxed(&commit->block.birth, sb_pin_era(&writer));
        commit->number = (uint64_t)(writer.slot + 1) << 48 | 77;
        commit->shape =
                SB_SHAPE(size - sizeof(struct sb_version), 0, SB_VERSION_DESCRIPTOR, writer.slot);
        commit->cut = cut;
        commit->write_count = write_count;
        commit->ranges_len = ranges_len;
        return commit;
}

/* The stamp word of an intent of this transaction. */
static inline uint64_t intent_of(const struct sb_descriptor *commit)
{
        return SB_STAMP_INTENT | sb_offset_of(&writer.segment, commit);
}

/* Write @i of a transaction, over the newest version of the key; it is not installed. */
static inline struct sb_version *intend(struct sb_descriptor *commit, uint32_t i, const char *key)
{
        uint32_t len = (uint32_t)strlen(key);
        struct sb_version *version, *below;
        struct sb_settled settled;
        struct sb_spot spot;
        uint64_t offset, shape = SB_SHAPE(8, len, SB_VERSION_HAS_TXN, writer.slot);

        if (!spot_of(key, &spot) ||
                sb_slab_take(&writer, SB_UNIT_VERSIONS, sb_version_size(shape), 0, &offset))
                return NULL;
        below = sb_stamp_effective(&writer, spot.head, &settled);
        version = sb_version_at(&writer.segment, offset);
        if (!below || !version)
                return NULL;
        version->rev = below->rev + 1;
        version->node = below->node;
        version->shape = shape;
        sb_store_relaxed(&version->block.birth, sb_pin_era(&writer));
        sb_store_relaxed(&version->block.retire, SB_RETIRE_HELD);
        sb_store_relaxed(&version->stamp, intent_of(commit));
        sb_store_relaxed(&version->prev, sb_offset_of(&writer.segment, spot.head));
        memcpy(version->bytes, key, len);
        commit->write[i] = offset;
        return version;
}

/* Puts the intent where it belongs, as the owner or a helper did before it stopped. */
static inline bool install_intent(struct sb_version *version, const char *key)
{
        struct sb_spot spot;

        if (!version || !spot_of(key, &spot))
                return false;
        sb_store_relaxed(&version->prev, sb_offset_of(&writer.segment, spot.head));
        return sb_cas64_full(spot.cell, spot.word,
                (spot.word & ~SB_OFFSET_MASK) | sb_offset_of(&writer.segment, version));
}

#endif
