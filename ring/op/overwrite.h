/*
 * The short way of a write: the value of a key that has one is replaced at the first try, in a
 * block that the client has in stock or in reserve. What nearly every write is, inline and without
 * a call; whatever is otherwise is left to the long way (op.c), whose steps these are, in the same
 * order.
 *
 * A write ends in locked instructions, behind which the next write's misses begin: what counts is
 * the number of instructions between.
 */
#ifndef SB_RING_OP_OVERWRITE_H
#define SB_RING_OP_OVERWRITE_H

#include <string.h>

#include "ring/op/write.h"
#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/slab.h"
#include "shm/mvcc/find-plain.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/work.h"

#define SB_OVERWRITE_MIN 8u   /* a value's bytes: copied as words that overlap */
#define SB_OVERWRITE_MAX 512u /* beyond that the copy is what a write costs */

/* Without a call and without a string instruction: those would end the overlapping of this write's
 * misses with the next one's. */
static inline __attribute__((always_inline)) void sb_overwrite_copy_pair(
        unsigned char *to, const unsigned char *from)
{
        uint64_t words[2];

        memcpy(words, from, 16);
        memcpy(to, words, 16);
}

/* Of 8 bytes or more. */
static inline __attribute__((always_inline)) void sb_overwrite_copy(
        unsigned char *to, const unsigned char *from, uint64_t len)
{
        const unsigned char *end = from + len;
        uint64_t first, last;

        if (SB_UNLIKELY(len <= 16)) {
                memcpy(&first, from, 8);
                memcpy(&last, end - 8, 8);
                memcpy(to, &first, 8);
                memcpy(to + len - 8, &last, 8);
                return;
        }
        for (; end - from > 32; from += 32, to += 32) {
                sb_overwrite_copy_pair(to, from);
                sb_overwrite_copy_pair(to + 16, from + 16);
        }
        if (end - from > 16)
                sb_overwrite_copy_pair(to, from);
        sb_overwrite_copy_pair(to + (end - from) - 16, end - 16);
}

/* The block of a short write: it stays where it is until the write has happened. */
struct sb_overwrite_block {
        uint64_t offset;
        uint32_t class_, place; /* place: in the stock; 0: the last of the reserve */
};

/* False: there is none at hand, or memory work is due before the reserve serves. */
static inline __attribute__((always_inline)) bool sb_overwrite_block(
        struct sb_peer *peer, uint64_t size, struct sb_overwrite_block *ret)
{
        /* A table of classes that is long enough for all that is short. */
        static_assert((sizeof(struct sb_version) + SB_FIND_KEY_MAX + SB_OVERWRITE_MAX + 15) / 16 <
                              SB_CLASS_TABLE,
                "short");
        ret->class_ = peer->segment.class_of[(size + 15) / 16];
        ret->place = sb_stock_first(peer, ret->class_);
        if (SB_LIKELY(ret->place)) {
                ret->offset = sb_stock_offset(peer, ret->place);
                sb_model_block(ret->offset, peer->segment.class_size[ret->class_], 1);
                return true;
        }
        return SB_LIKELY(sb_slab_peek(peer, ret->class_, &ret->offset)) &&
               SB_LIKELY(!sb_limbo_due(peer));
}

static inline __attribute__((always_inline)) void sb_overwrite_take(
        struct sb_peer *peer, const struct sb_overwrite_block *block, struct sb_version *version)
{
        if (SB_LIKELY(block->place)) {
                sb_stock_take(peer, block->class_, block->place);
                sb_stock_publish(peer, &version->block);
        } else {
                sb_slab_take_peeked(peer, block->class_);
        }
}

static inline void sb_overwrite_leave(struct sb_peer *peer, const struct sb_overwrite_block *block)
{
        sb_find_unpin(peer);
        if (block->place)
                sb_model_block(block->offset, peer->segment.class_size[block->class_], 0);
}

/* Lengths may be any, up to what the segment takes. On true ret->rev and ret->cut are set. False:
 * nothing happened, go the long way. */
static inline __attribute__((always_inline)) bool sb_overwrite(struct sb_peer *peer,
        const void *key, uint64_t key_len, const void *value, uint64_t value_len,
        uint64_t expected_rev, struct sb_op_result *ret)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_overwrite_block block;
        struct sb_version *version;
        struct sb_found found;
        uint64_t stamp;
        uint32_t era;
        bool held;

        if (SB_UNLIKELY(!sb_find_two_words(key_len)) ||
                SB_UNLIKELY(value_len - SB_OVERWRITE_MIN > SB_OVERWRITE_MAX - SB_OVERWRITE_MIN) ||
                SB_UNLIKELY(
                        !sb_overwrite_block(peer, sizeof(*version) + key_len + value_len, &block)))
                return false;
        era = sb_find_pin(peer);
        if (SB_UNLIKELY(!sb_find_plain(
                    peer, key, key_len, sb_find_hash(peer, key, key_len), era, &found)) ||
                SB_UNLIKELY(expected_rev != SB_OP_ANY_REV && expected_rev != found.version->rev)) {
                sb_overwrite_leave(peer, &block);
                return false;
        }
        version = (struct sb_version *)(segment->base + block.offset);
        /* Relaxed, these three: private until the CAS publishes them. */
        sb_store_relaxed(&version->block.birth, era);
        sb_store_relaxed(&version->stamp, 0);
        sb_store_relaxed(&version->prev, found.offset);
        version->rev = ret->rev = found.version->rev + 1;
        version->node = found.version->node;
        version->shape = SB_SHAPE(value_len, key_len, SB_VERSION_VALUE, peer->slot);
        sb_overwrite_copy(version->bytes, key, key_len);
        sb_overwrite_copy(version->bytes + key_len, value, value_len);
        if (SB_FAULT(STOCK_LIVE_EARLY) && block.place)
                sb_stock_publish(peer, &version->block);
        stamp = SB_FAULT(STAMP_EARLY) ? sb_load_acquire(&segment->super->clock) : 0; /* A:clock. */
        if (!SB_FAULT(SLOT_AFTER_INSTALL))
                sb_store_release(&peer->client->operation,
                        version->node); /* R:operation > A:operation. As in install(). */
        /* R:publish > A:publish. The other offset, the same tag and flags. */
        if (SB_UNLIKELY(!sb_cas64_full(
                    found.cell, found.word, found.word ^ found.offset ^ block.offset))) {
                sb_store_release(&peer->client->operation, 0); /* R:operation. */
                sb_overwrite_leave(peer, &block);
                return false;
        }
        if (SB_FAULT(SLOT_AFTER_INSTALL))
                /* R:operation, too late: that is the fault. */
                sb_store_release(&peer->client->operation, version->node);
        sb_overwrite_take(peer, &block, version);
        /* A:clock. As in sb_stamp(). */
        if (!SB_FAULT(STAMP_EARLY))
                stamp = sb_load_acquire(&segment->super->clock);
        if (SB_UNLIKELY(!sb_cas64_full(&version->stamp, 0, stamp)))
                stamp = sb_load_acquire(&version->stamp); /* A:stamp. Somebody else was first. */
        ret->cut = stamp;
        held = SB_LIKELY(!(found.word & SB_CELL_KEPT)) &&
               SB_LIKELY(sb_horizon_passed(peer, stamp, found.stamp)) &&
               SB_LIKELY(sb_stock_hold(peer, version, found.version, found.offset, block.place));
        if (SB_UNLIKELY(!held)) {
                if (block.place)
                        sb_stock_vacate(peer, block.place);
                sb_limbo_later(peer, sb_cell_number(segment, found.cell), stamp);
        }
        /* R:operation > A:operation, R:unpin > A:pins. As in run(). */
        sb_store_release(&peer->client->operation, 0);
        sb_find_unpin(peer);
        if (SB_UNLIKELY(!held))
                sb_work_due(peer);
        return true;
}

#endif
