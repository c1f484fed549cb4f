/*
 * The short way of a write: its fast path. It overwrites a key that has a value, succeeds at the
 * first try, and builds the new version in a block that the client already has, in its magazine or
 * in its slab cache. Nearly every write is like that. The short way is inline and makes no call.
 * Where anything is different, sb_overwrite() changes nothing and says so; the caller then goes the
 * long way (put.c), which takes the same steps in the same order.
 *
 * A write ends in locked instructions, and the next write's cache misses begin only behind them. So
 * the cost of a write is the number of instructions between the two, and each one here counts.
 *
 * Always true: until the CAS on the cell succeeds, the block stays where the client had it, so the
 * short way can be left at any step before that. Behind the CAS the write has happened, and no step
 * can fail any more.
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
#include "shm/memory/spare.h"
#include "shm/mvcc/find-plain.h"
#include "shm/notify/prefix.h"
#include "shm/notify/unlogged.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/work.h"

/* Bytes of key and value together. That is what the table of classes has, and beyond it the copy
 * is what a write costs. */
#define SB_OVERWRITE_MAX ((SB_CLASS_TABLE - 1) * 16 - sizeof(struct sb_version))
/* Bytes of a value at least; as SB_FIND_KEY_MIN. */
#ifndef SB_OVERWRITE_MIN
#define SB_OVERWRITE_MIN 0u
#endif

/* Copies 16 bytes without a call and without a string instruction: either would keep the next
 * write's cache misses from beginning before this write is through. */
static inline __attribute__((always_inline)) void sb_overwrite_copy_pair(
        unsigned char *to, const unsigned char *from)
{
        uint64_t words[2];

        memcpy(words, from, 16);
        memcpy(to, words, 16);
}

/* The same for fewer than 8 bytes, as words that overlap. */
static inline __attribute__((always_inline)) void sb_overwrite_copy_few(
        unsigned char *to, const unsigned char *from, uint64_t len)
{
        uint32_t first, last;

        if (SB_LIKELY(len >= 4)) {
                memcpy(&first, from, 4);
                memcpy(&last, from + len - 4, 4);
                memcpy(to, &first, 4);
                memcpy(to + len - 4, &last, 4);
        } else if (len) {
                /* Of three bytes or fewer these are all. */
                unsigned char middle = from[len / 2], end = from[len - 1];

                to[0] = from[0];
                to[len / 2] = middle;
                to[len - 1] = end;
        }
}

/* The same for any number. */
static inline __attribute__((always_inline)) void sb_overwrite_copy(
        unsigned char *to, const unsigned char *from, uint64_t len)
{
        const unsigned char *end = from + len;
        uint64_t first, last, at;

        if (SB_UNLIKELY(len <= 16)) {
                if (SB_UNLIKELY(len < 8)) {
                        sb_overwrite_copy_few(to, from, len);
                        return;
                }
                memcpy(&first, from, 8);
                memcpy(&last, end - 8, 8);
                memcpy(to, &first, 8);
                memcpy(to + len - 8, &last, 8);
                return;
        }
        /* One index for both sides: so the loop takes few registers. */
        for (at = 0; at + 32 < len; at += 32) {
                sb_overwrite_copy_pair(to + at, from + at);
                sb_overwrite_copy_pair(to + at + 16, from + at + 16);
        }
        if (len - at > 16)
                sb_overwrite_copy_pair(to + at, from + at);
        sb_overwrite_copy_pair(to + len - 16, end - 16);
}

/* The block that a short write builds in. It stays where it is until the write has happened. */
struct sb_overwrite_block {
        uint64_t offset;
        uint32_t class_, entry; /* entry: of the magazine; 0: the last block of the slab cache */
};

/* Tells the model checker whether the block is allocated: any access to one that is not is an
 * error. In the magazine a block is not. */
static inline __attribute__((always_inline)) void sb_overwrite_tell_model(
        const struct sb_handle *handle, const struct sb_overwrite_block *block, int allocated)
{
        (void)handle, (void)block, (void)allocated;
        sb_model_block(block->offset, handle->segment.class_size[block->class_], allocated);
}

/* Finds a block for a version of @size bytes, and leaves it where it is. Return: false when the
 * client has none, or when memory work is due before the slab cache may serve. */
static inline __attribute__((always_inline)) bool sb_overwrite_block(
        struct sb_handle *handle, uint64_t size, struct sb_overwrite_block *ret)
{
        ret->class_ = handle->segment.class_of[(size + 15) / 16];
        ret->entry = sb_magazine_first(handle, ret->class_);
        if (SB_UNLIKELY(!ret->entry)) {
                if (SB_UNLIKELY(sb_limbo_due(handle)))
                        return false;
                ret->entry = sb_spare_draw(handle, ret->class_);
        }
        if (SB_LIKELY(ret->entry)) {
                ret->offset = sb_magazine_offset(handle, ret->entry);
                sb_overwrite_tell_model(handle, ret, 1);
                return true;
        }
        return SB_LIKELY(sb_slab_peek(handle, ret->class_, &ret->offset));
}

/* Behind the install: the block leaves the magazine, or the slab cache, for good. */
static inline __attribute__((always_inline)) void sb_overwrite_take(struct sb_handle *handle,
        const struct sb_overwrite_block *block, struct sb_version *version)
{
        if (SB_LIKELY(block->entry)) {
                sb_magazine_take(handle, block->class_, block->entry);
                sb_magazine_publish(handle, &version->block);
        } else {
                sb_slab_take_peeked(handle, block->class_);
        }
}

/* Leaves the short way before the install. */
static inline void sb_overwrite_leave(
        struct sb_handle *handle, const struct sb_overwrite_block *block)
{
        sb_find_unpin(handle);
        if (block->entry)
                sb_overwrite_tell_model(handle, block, 0);
}

/* ---- steps that the long way takes too, and what the seeded faults make of them ---- */

/* Says which node this client is about to write, before it installs a version there. */
static inline __attribute__((always_inline)) void sb_overwrite_note(
        struct sb_handle *handle, uint64_t node)
{
        /* R:operation > A:operation. The note comes before the install: the process that raises the
         * stable cut reads it, and stamps what it finds at that node. */
        if (!SB_FAULT(NOTE_AFTER_INSTALL))
                sb_store_release(&handle->record->operation, node);
}
/* Fault NOTE_AFTER_INSTALL: the note comes behind the install. */
static inline __attribute__((always_inline)) void sb_overwrite_fault_note(
        struct sb_handle *handle, uint64_t node)
{
        if (SB_FAULT(NOTE_AFTER_INSTALL))
                /* R:operation, too late: that is the fault. */
                sb_store_release(&handle->record->operation, node);
}
/* Fault STAMP_EARLY: the clock is read before the install. Return: what it said; 0: no fault. */
static inline __attribute__((always_inline)) uint64_t sb_overwrite_fault_clock(
        const struct sb_segment *segment)
{
        (void)segment;
        /* A:clock, too early: that is the fault. */
        return SB_FAULT(STAMP_EARLY) ? sb_load_acquire(&segment->super->clock) : 0;
}
/* Fault MAGAZINE_LIVE_EARLY: a block of the magazine is said to be live before it is installed. */
static inline __attribute__((always_inline)) void sb_overwrite_fault_live(struct sb_handle *handle,
        const struct sb_overwrite_block *block, struct sb_version *version)
{
        if (SB_FAULT(MAGAZINE_LIVE_EARLY) && block->entry)
                sb_magazine_publish(handle, &version->block);
}

/* Whether a rule of history, or a watch of the key, may keep what the write replaced. Faults
 * KEPT_UNASKED: it is not asked; WATCHED_IN_HAND: the watch is not. */
static inline __attribute__((always_inline)) bool sb_overwrite_is_kept(const struct sb_found *found)
{
        const uint64_t watched = SB_FAULT(WATCHED_IN_HAND) ? 0 : SB_CELL_WATCHED;

        return (found->word & (SB_CELL_KEPT | watched)) && !SB_FAULT(KEPT_UNASKED);
}

/* ---- the write ---- */

/* Writes into @block what does not depend on the version that will be replaced. It comes before the
 * search, so that the bytes are copied while the bucket is fetched; and what lies between a set's
 * second miss and the next one's first is the same for each length. */
static inline __attribute__((always_inline)) struct sb_version *sb_overwrite_fill(
        struct sb_handle *handle, const struct sb_overwrite_block *block, const void *key,
        uint64_t key_len, const void *value, uint64_t value_len)
{
        struct sb_version *version = (struct sb_version *)(handle->segment.base + block->offset);

        /* Relaxed: the version is private until the CAS on the cell publishes it. */
        sb_store_relaxed(&version->stamp, 0);
        version->shape = SB_SHAPE(value_len, key_len, SB_VERSION_VALUE, handle->slot);
        sb_overwrite_copy(version->bytes, key, key_len);
        sb_overwrite_copy(version->bytes + key_len, value, value_len);
        return version;
}

/* Makes the next version of the key out of what sb_overwrite_fill() began, and sets ret->rev. No
 * other process can reach the version yet. */
static inline __attribute__((always_inline)) void sb_overwrite_build(struct sb_version *version,
        const struct sb_found *found, uint64_t era, struct sb_op_result *ret)
{
        /* Relaxed, both: as in sb_overwrite_fill(). */
        sb_store_relaxed(&version->block.birth, sb_era_low(era));
        sb_store_relaxed(&version->prev, found->offset);
        version->rev = ret->rev = found->version->rev + 1;
        version->node = found->version->node;
}

/* Behind the store of the birth: whether it is a birth of now, as in sb_pin_give_birth(). */
static inline __attribute__((always_inline)) bool sb_overwrite_is_young(
        const struct sb_segment *segment, uint64_t era)
{
        /* A:era. */
        return sb_load_acquire(&segment->super->era) - era <= SB_ERA_OLD || SB_FAULT(BIRTH_STALE);
}

/* Stamps the version that was just installed. @early: of sb_overwrite_fault_clock(). Return: its
 * stamp. */
static inline __attribute__((always_inline)) uint64_t sb_overwrite_stamp(
        const struct sb_superblock *super, struct sb_version *version, uint64_t early)
{
        /* A:clock. Behind the install, as in sb_stamp(): a cut that was taken before the install is
         * below this stamp. */
        uint64_t stamp = SB_FAULT(STAMP_EARLY) ? early : sb_load_acquire(&super->clock);

        /* R:stamp > A:stamp. */
        if (SB_UNLIKELY(!sb_cas64_full(&version->stamp, 0, stamp)))
                stamp = sb_load_acquire(&version->stamp); /* A:stamp. Another process was first. */
        return stamp;
}

/* The replaced version does not go into the magazine: out of its chain behind @version, if only
 * older ones keep it from there; else its cell is noted, and pruned later. @entry: a free one to
 * give back, or 0; @old: NULL: a rule of history or a watch may keep it, and watchers are told;
 * @stamp: of @version. */
__attribute__((cold)) void sb_overwrite_later(struct sb_handle *handle, struct sb_version *version,
        struct sb_version *old, uint32_t entry, struct sb_word64 *cell, uint64_t stamp);
/* The same, and the way into the magazine, where some prefix is watched: its watchers are told, if
 * it is the key's, and the log is. Return: whether @old went into the magazine, and what was noted
 * of other keys is not worth a look yet. */
__attribute__((cold)) bool sb_overwrite_attend(struct sb_handle *handle, struct sb_version *version,
        struct sb_version *old, uint32_t entry, struct sb_word64 *cell, uint64_t stamp);

/* The log is told, if it has to be, and no prefix is watched. Fault LOG_TOLD_LATE: the note goes
 * first. */
static inline __attribute__((always_inline)) void sb_overwrite_tell_log(
        struct sb_handle *handle, const struct sb_found *found)
{
        if (SB_FAULT(LOG_TOLD_LATE))
                sb_store_release(&handle->record->operation, 0); /* R:operation, too early. */
        sb_unlogged_tell(
                &handle->segment, sb_cell_number(&handle->segment, found->cell), found->stamp);
}

/* Fault WATCHED_IN_HAND: watchers are told, as they should be. */
static inline __attribute__((always_inline)) void sb_overwrite_fault_tell(struct sb_handle *handle,
        struct sb_version *version, const struct sb_found *found, uint64_t stamp)
{
        if (SB_FAULT(WATCHED_IN_HAND) && (found->word & SB_CELL_WATCHED))
                sb_overwrite_later(handle, version, NULL, 0, found->cell, stamp);
}

/* Behind a lost CAS on a cell: counts it, and gives way. @lost: how often this write has lost
 * before. */
__attribute__((cold)) void sb_overwrite_lose(struct sb_handle *handle, uint32_t lost);

/* Takes the replaced version into the magazine, where no cut and no rule needs it. Return: false:
 * that was for sb_overwrite_later(). */
static inline __attribute__((always_inline)) bool sb_overwrite_replace(struct sb_handle *handle,
        const struct sb_superblock *super, const struct sb_overwrite_block *block,
        struct sb_version *version, const struct sb_found *found, uint64_t stamp)
{
        if (SB_UNLIKELY(sb_overwrite_is_kept(found))) {
                sb_overwrite_later(handle, version, NULL, block->entry, found->cell, stamp);
                return false;
        }
        sb_overwrite_fault_tell(handle, version, found, stamp);
        if (sb_unlogged_or_watched(super, found->stamp)) {
                if (SB_UNLIKELY(sb_prefix_any(&handle->segment)))
                        return sb_overwrite_attend(
                                handle, version, found->version, block->entry, found->cell, stamp);
                sb_overwrite_tell_log(handle, found);
        }
        if (SB_LIKELY(sb_horizon_passed(handle, stamp, found->stamp)) &&
                SB_LIKELY(sb_magazine_hold(
                        handle, version, found->version, found->offset, block->entry)))
                return true;
        sb_overwrite_later(handle, version, found->version, block->entry, found->cell, stamp);
        return false;
}

/* What came of a write the short way: it happened, with ret->rev and ret->cut set; the key has
 * another revision than was expected, ret->rev; nothing happened, so the long way has to be gone.
 */
enum sb_overwritten { SB_OVERWRITE_DONE, SB_OVERWRITE_CONFLICT, SB_OVERWRITE_LEFT };

/* Overwrites the value of a key. Lengths may be any that the segment takes: the caller has asked
 * sb_find_takes() about the key's. @expected_rev as in struct sb_op_write. */
static inline __attribute__((always_inline)) enum sb_overwritten sb_overwrite(
        struct sb_handle *handle, const void *key, uint64_t key_len, uint64_t hash,
        const void *value, uint64_t value_len, uint64_t expected_rev, struct sb_op_result *ret)
{
        const uint64_t most = SB_OVERWRITE_MAX - SB_OVERWRITE_MIN;
        const struct sb_superblock *super;
        struct sb_overwrite_block block;
        struct sb_version *version;
        struct sb_found found;
        uint64_t early, stamp;
        uint64_t era;
        bool held;

        static_assert(SB_OVERWRITE_MAX > SB_KEY_LEN_MAX + SB_OVERWRITE_MIN, "none wraps round");
        if (SB_UNLIKELY(value_len - SB_OVERWRITE_MIN > most - key_len) ||
                SB_UNLIKELY(!sb_overwrite_block(
                        handle, sizeof(*version) + key_len + value_len, &block)))
                return SB_OVERWRITE_LEFT;
        /* A watcher has just read the head of what the last write replaced, which is this block
         * now: so it comes back while the key is looked for, and not behind that. */
        sb_prefetch_write(handle->segment.base + block.offset);
        version = sb_overwrite_fill(handle, &block, key, key_len, value, value_len);
        era = sb_find_pin(handle);
        if (SB_UNLIKELY(!sb_find_plain(handle, key, key_len, hash, era, &found))) {
                sb_overwrite_leave(handle, &block);
                return SB_OVERWRITE_LEFT;
        }
        /* The version is stamped, so a cut that is taken after this answer has it. */
        if (SB_UNLIKELY(expected_rev != SB_OP_ANY_REV && expected_rev != found.version->rev)) {
                ret->rev = found.version->rev;
                sb_overwrite_leave(handle, &block);
                return SB_OVERWRITE_CONFLICT;
        }
        sb_overwrite_build(version, &found, era, ret);
        if (SB_UNLIKELY(!sb_overwrite_is_young(&handle->segment, era))) {
                sb_overwrite_leave(handle, &block);
                return SB_OVERWRITE_LEFT;
        }
        sb_overwrite_fault_live(handle, &block, version);
        early = sb_overwrite_fault_clock(&handle->segment);
        sb_overwrite_note(handle, version->node);
        /* R:publish > A:publish. This is the write: the new offset, the same tag and flags. */
        if (SB_UNLIKELY(!sb_cas64_full(
                    found.cell, found.word, found.word ^ found.offset ^ block.offset))) {
                /* R:operation > A:operation. Nothing was installed. */
                sb_store_release(&handle->record->operation, 0);
                sb_overwrite_leave(handle, &block);
                sb_overwrite_lose(handle, 0);
                return SB_OVERWRITE_LEFT;
        }
        sb_overwrite_fault_note(handle, version->node);
        sb_overwrite_take(handle, &block, version);
        /* Loaded once: behind the next locked instruction the compiler would load it again. */
        super = handle->segment.super;
        ret->cut = stamp = sb_overwrite_stamp(super, version, early);
        held = sb_overwrite_replace(handle, super, &block, version, &found, stamp);
        /* R:operation > A:operation, R:unpin > A:pins. As in put_run(): nothing is left to finish.
         */
        sb_store_release(&handle->record->operation, 0);
        sb_find_unpin(handle);
        if (SB_UNLIKELY(!held))
                sb_work_due(handle);
        return SB_OVERWRITE_DONE;
}

#endif
