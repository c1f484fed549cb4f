/* Notes as links: reading one, asking for one, and the end of what one names; see note.h. */

#include "shm/mvcc/note.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"

/* The fault NOTE_READ_UNPINNED: a note is followed under a younger pin than it was read under. */
static void note_fault_pin_again(struct sb_handle *handle)
{
        if (!SB_FAULT(NOTE_READ_UNPINNED))
                return;
        sb_unpin(handle);
        sb_pin(handle);
}

uint64_t sb_note_load(struct sb_handle *handle, const struct sb_record *record)
{
        uint64_t word = sb_pin_load(handle, &record->operation);

        note_fault_pin_again(handle);
        return word;
}

bool sb_note_names(const struct sb_segment *segment, uint64_t offset)
{
        /* A record that the walk does not meet is of a client that began after the block was DYING,
         * or notes nothing any more. */
        struct sb_roster_walk walk = {.segment = segment};
        const struct sb_record *record;

        while ((record = sb_roster_next(&walk)))
                /* A:operation. Where the note is gone, its readers were pinned before. */
                if ((sb_load_acquire(&record->operation) & SB_OFFSET_MASK) == offset)
                        return true;
        return false;
}

/* The block is on its way out before the note goes: so no kill can lose it. The note goes before
 * the block is dated: a process that found it by the note was pinned by then. */
static void note_retire_in_order(struct sb_handle *handle, struct sb_block *block,
        struct sb_word64 *operation, uint64_t next)
{
        sb_limbo_begin(handle, block);
        /* R:operation > A:operation. A full barrier: a store alone could still be on its way when
         * the era is read. */
        sb_exchange_full(operation, next);
        sb_limbo_date(handle, block);
}

/* Faults NOTE_CLEARED_LATE, NOTE_CLEARED_LAZILY and DYING_LATE: the three steps, each time with one
 * of them out of its place. */
static void note_retire_out_of_order(struct sb_handle *handle, struct sb_block *block,
        struct sb_word64 *operation, uint64_t next)
{
        if (SB_FAULT(NOTE_CLEARED_LATE)) {
                sb_limbo_begin(handle, block);
                sb_limbo_date(handle, block);
                sb_store_release(operation, next); /* R:operation. */
        } else if (SB_FAULT(NOTE_CLEARED_LAZILY)) {
                sb_limbo_begin(handle, block);
                sb_store_release(operation, next); /* R:operation, late for others: the fault. */
                sb_limbo_date(handle, block);
        } else {
                sb_exchange_full(operation, next); /* R:operation > A:operation. */
                sb_limbo_begin(handle, block);
                sb_limbo_date(handle, block);
        }
}

void sb_note_retire(struct sb_handle *handle, struct sb_block *block, struct sb_word64 *operation,
        uint64_t next)
{
        if (SB_FAULT(NOTE_CLEARED_LATE) || SB_FAULT(NOTE_CLEARED_LAZILY) || SB_FAULT(DYING_LATE))
                note_retire_out_of_order(handle, block, operation, next);
        else
                note_retire_in_order(handle, block, operation, next);
}
