/*
 * The magazine: replaced blocks that a client keeps in its own hands, to build its next versions
 * in. (Magazines of free objects for each processor: Bonwick and Adams, USENIX 2001.)
 *
 * A version that was replaced and that no cut needs would go a long way: it leaves the chain, is
 * dated, is found free in a batch, loses its bit, and gets it again from the client that owns its
 * slab then. A client that overwrites goes a short way: it takes the replaced version in hand, lets
 * the grace period pass, and builds one of its next versions in it. The block stays warm in that
 * client's cache, and no word is touched that others write.
 *
 * An entry is a word in the client's record that notes one block. It is either free, or held: its
 * block waits in limbo (limbo.h), is ready to be built in, or was just installed again.
 *
 * Always true:
 *
 * - A block of which the retire word is FREEING | slot is noted in the record of that client, in
 *   its magazine (or in `freeing`), before the word says so and as long as it does. The reaper of a
 *   dead client finds it there.
 *
 * - Only that client and its reaper touch such a block, linked or not.
 *
 * - So a version that is built in the magazine's block is in hand until its retire word is 0 again,
 *   which follows the install, and a replaced one is in hand before it is unlinked: no kill leaves
 *   a block that is neither linked nor noted.
 *
 * - The record has a fixed number of entries: what one client can hoard is a small part of the
 *   segment.
 */
#ifndef SB_MEMORY_MAGAZINE_H
#define SB_MEMORY_MAGAZINE_H

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/unit.h"

/* Whether blocks of this class are for the magazine at all, be it for a moment. */
static inline bool sb_magazine_serves(const struct sb_handle *handle, uint32_t class_)
{
        return class_ < handle->magazine.pass_end;
}
/* The entry of a block of this class that is ready to be built in, or 0. It stays ready until
 * sb_magazine_take(). */
static inline uint32_t sb_magazine_first(const struct sb_handle *handle, uint32_t class_)
{
        return handle->magazine.ready[class_];
}
/* The block of an entry. */
static inline uint64_t sb_magazine_offset(const struct sb_handle *handle, uint32_t entry)
{
        /* Relaxed: the owner reads back its own word. */
        return sb_load_relaxed(&handle->magazine.words[entry]);
}
/* Take what sb_magazine_first() said off the ready ones. */
static inline void sb_magazine_take(struct sb_handle *handle, uint32_t class_, uint32_t entry)
{
        handle->magazine.ready[class_] = handle->magazine.next[entry];
}
/* Make an entry's block ready. */
static inline void sb_magazine_put(struct sb_handle *handle, uint32_t class_, uint32_t entry)
{
        handle->magazine.next[entry] = (uint16_t)handle->magazine.ready[class_];
        handle->magazine.ready[class_] = (uint16_t)entry;
}

/* Let go of an entry's block, which was just installed and so is any process's from now on. The
 * entry still notes it: the caller notes another block there, or vacates the entry. */
static inline void sb_magazine_publish(struct sb_handle *handle, struct sb_block *block)
{
        (void)handle;
        /* R:retire > A:retire. After the install, and before the note goes. */
        sb_store_release(&block->retire, 0);
}
/* Make the entry free. */
static inline void sb_magazine_vacate(struct sb_handle *handle, uint32_t entry)
{
        /* R:magazine > A:magazine. The block is linked, dated or free by now. */
        sb_store_release(&handle->magazine.words[entry], 0);
        handle->magazine.next[entry] = (uint16_t)handle->magazine.free;
        handle->magazine.free = (uint16_t)entry;
        handle->magazine.held--;
}

/* Whether an entry is free, now or once what is ready was given back. */
bool sb_magazine_make_space(struct sb_handle *handle);
/* Note the block at @offset, which the caller is about to take in hand, in a free entry. Return:
 * that entry; it is the caller's until sb_magazine_keep() or sb_magazine_vacate(). */
static inline uint32_t sb_magazine_begin(struct sb_handle *handle, uint64_t offset)
{
        uint32_t entry = handle->magazine.free;

        handle->magazine.free = handle->magazine.next[entry];
        handle->magazine.held++;
        /* R:magazine > A:magazine. Noted, then in hand: as in sb_magazine_note(). */
        sb_store_release(&handle->magazine.words[entry], offset);
        return entry;
}
/* The block of @entry is in hand, and can be built in. */
void sb_magazine_keep(struct sb_handle *handle, uint32_t class_, uint32_t entry);

/* Note in @entry the block that is about to be taken in hand. The fault MAGAZINE_NOTE_LATE does it
 * when the block is out of the chain already. */
static inline void sb_magazine_note(struct sb_handle *handle, uint32_t entry, uint64_t offset)
{
        if (!SB_FAULT(MAGAZINE_NOTE_LATE))
                /* R:magazine > A:magazine. Noted, then in hand, then out of the chain: the reaper
                 * of a client that died in between finds the block. */
                sb_store_release(&handle->magazine.words[entry], offset);
}
static inline void sb_magazine_note_late(struct sb_handle *handle, uint32_t entry, uint64_t offset)
{
        if (SB_FAULT(MAGAZINE_NOTE_LATE))
                /* R:magazine, too late: that is the fault. */
                sb_store_release(&handle->magazine.words[entry], offset);
}

/* Pass a block on that was just taken in hand: it is dated at once, and becomes a spare of this
 * client when its grace period is over. */
void sb_magazine_pass(struct sb_handle *handle, struct sb_limbo_entry *waiting);

/* Whether a version with this link is not the last one of its chain. Fault MAGAZINE_TAKES_CHAIN: it
 * always is. */
static inline __attribute__((always_inline)) bool sb_magazine_is_above(uint64_t link)
{
        return (link & SB_OFFSET_MASK) && !SB_FAULT(MAGAZINE_TAKES_CHAIN);
}

/* Take @old, which this client has just replaced with @version, in hand and out of the chain.
 * @offset: of @old. @entry: the one of which the block holds @version now, or 0. Return: true when
 * @old is in hand, and @entry (or a free one) notes it; false when nothing happened, and @old is
 * for the long way. */
static inline __attribute__((always_inline)) bool sb_magazine_hold(struct sb_handle *handle,
        struct sb_version *version, struct sb_version *old, uint64_t offset, uint32_t entry)
{
        struct sb_segment *segment = &handle->segment;
        uint32_t unit_kind = sb_unit_kind_of(segment, offset), used = entry;

        /* A:publish. Only the last version of its chain is taken: nothing can be taken out from
         * behind it, so its link needs no mark. */
        if (SB_UNLIKELY(sb_magazine_is_above(sb_load_acquire(&old->prev))) ||
                SB_UNLIKELY((unit_kind ^ SB_UNIT_VERSIONS << 6) >= handle->magazine.pass_end) ||
                SB_UNLIKELY(handle->limbo.count == SB_LIMBO_MAX))
                return false;
        if (!entry) {
                used = handle->magazine.free;
                if (SB_UNLIKELY(handle->magazine.held >= handle->magazine.limit)) {
                        handle->magazine.lacking = true;
                        return false;
                }
        }
        sb_magazine_note(handle, used, offset);
        /* R:retire > A:retire. No pruner that meets it touches it from here on. */
        if (SB_UNLIKELY(!sb_cas32_full(&old->block.retire, 0, SB_RETIRE_FREEING | handle->slot)))
                goto undo;
        /* R:publish. The unlink; a reader that passes is told that the past is not whole. */
        if (SB_UNLIKELY(!sb_cas64_full(&version->prev, offset, SB_PREV_TRIMMED))) {
                /* R:retire. @version is on its way out itself, and its successor links @old now; or
                 * a copy of @old came in between (upkeep/move.h). */
                sb_store_release(&old->block.retire, 0);
                goto undo;
        }
        sb_magazine_note_late(handle, used, offset);
        if (!entry) {
                handle->magazine.free = handle->magazine.next[used];
                handle->magazine.held++;
        }
        handle->limbo.entries[handle->limbo.count] = (struct sb_limbo_entry){
                .offset = offset,
                .era = sb_load_acquire(&segment->super->era), /* A:era. After the unlink, as in
                                                                 sb_limbo_date(). */
                /* Relaxed: as in sb_limbo_wait(). */
                .birth = sb_era_of_birth(handle, sb_load_relaxed(&old->block.birth)),
                .unit_kind = unit_kind,
                .held = (uint16_t)used,
        };
        if (SB_UNLIKELY((unit_kind & 63) >= handle->magazine.pass_from))
                sb_magazine_pass(handle, &handle->limbo.entries[handle->limbo.count]);
        sb_limbo_count(handle);
        return true;
undo:
        if (!entry)
                /* R:magazine. The block is not in hand, so the note may go. */
                sb_store_release(&handle->magazine.words[used], 0);
        return false;
}

/* The grace period of a held block is over: it is ready to be built in. */
void sb_magazine_ready(struct sb_handle *handle, const struct sb_limbo_entry *waiting);
/* Give back all blocks that are ready. */
void sb_magazine_empty(struct sb_handle *handle);
/* Give back what is ready if an entry was missing: these are blocks of classes that are not asked
 * for any more. */
static inline void sb_magazine_make_way(struct sb_handle *handle)
{
        if (handle->magazine.lacking)
                sb_magazine_empty(handle);
}
/* A held block waits for too long: it is dated, so that any process may free it, and @waiting
 * becomes an ordinary entry of limbo. */
void sb_magazine_release(struct sb_handle *handle, struct sb_limbo_entry *waiting);
/* The same for all held blocks that wait. Return: how many wait then, 0. */
uint32_t sb_magazine_release_waiting(struct sb_handle *handle);
/* Let go of all blocks in hand: what is ready is given back, what waits becomes any process's. */
void sb_magazine_release_all(struct sb_handle *handle);
/* Set how many blocks this client may hold: all clients together about half as many as there are
 * units, since a unit in which one lies cannot change its class. And how many bytes of spares it
 * may take out of slabs. */
void sb_magazine_limit(struct sb_handle *handle);
/* Set when the next batch is due; @old entries in limbo may stay there for long. */
void sb_magazine_expect(struct sb_handle *handle, uint32_t old);
/* Whether client @slot has the block at @offset in hand. */
bool sb_magazine_noted(const struct sb_segment *segment, uint32_t slot, uint64_t offset);
/* For a handle that begins: all entries are free. */
void sb_magazine_init(struct sb_handle *handle);

#endif
