/*
 * A transaction's descriptor: a block with the write set, the versions to install in the order of
 * their keys, and with the read set, packed ranges of keys (models: desc, commit; Harris, Fraser
 * and Pratt, DISC 2002).
 *
 * Its status word is the truth about all intents of the transaction at once: they are committed in
 * the instant in which it says so. Every change of the status is a CAS, and what is decided stays
 * decided. Everything else in a descriptor, but for its retire word, is written before any other
 * process can find it. A descriptor is never used twice: a process that found one under its pin may
 * read it until the pin ends.
 */
#ifndef SB_MVCC_DESCRIPTOR_H
#define SB_MVCC_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

/* What a descriptor lists, by numbers that were loaded once and checked. The entries lie in shared
 * memory: each is loaded once, too. */
struct sb_descriptor_lists {
        const uint64_t *write;       /* offsets of the versions */
        const unsigned char *ranges; /* packed: the read set */
        uint64_t ranges_len;         /* bytes */
        uint32_t write_count, range_count;
};

/* Read what @descriptor lists. Return: false: its numbers do not fit its size or the segment, which
 * is damaged; then both lists are empty. */
bool sb_descriptor_read(const struct sb_segment *segment, const struct sb_descriptor *descriptor,
        struct sb_descriptor_lists *ret);
/* The descriptor at @offset; NULL: there can be none, the segment is damaged. The low bits of
 * @offset do not count, so the note of an `operation` word may be given as it is. Its lists are
 * read by sb_descriptor_read() alone: what was sound here may be written over since. */
struct sb_descriptor *sb_descriptor_at(const struct sb_segment *segment, uint64_t offset);

static inline uint64_t sb_descriptor_status(const struct sb_descriptor *descriptor)
{
        /* A:status. All that was done before this status was set. */
        return sb_load_acquire(&descriptor->status);
}
static inline bool sb_descriptor_decided(const struct sb_descriptor *descriptor)
{
        return SB_STATUS_STATE(sb_descriptor_status(descriptor)) != SB_STATUS_UNDECIDED;
}
/* What the stamp of a version becomes when the status of its transaction is @status, which is
 * final. */
static inline uint64_t sb_descriptor_outcome(uint64_t status)
{
        return SB_STATUS_STATE(status) == SB_STATUS_COMMITTED ? SB_STATUS_VALUE(status)
                                                              : SB_STAMP_ABORTED;
}
/* Decide the transaction, unless it is decided; @value: the stamp, or the cause of the abort. */
void sb_descriptor_decide(struct sb_descriptor *descriptor, enum sb_status state, uint64_t value);
/* Abort the transaction, unless it is decided: no announcement keeps its cut any more. */
void sb_descriptor_cancel(struct sb_descriptor *descriptor);
/* The status, with the stamp if that can be known: a transaction that was committed by snapshot
 * isolation takes its stamp from the clock, which any process reads for it after the decision. */
uint64_t sb_descriptor_stamped(struct sb_handle *handle, struct sb_descriptor *descriptor);

#endif
