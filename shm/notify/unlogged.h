/*
 * Which buckets have changes that the log has not taken yet.
 *
 *      attention            the cut of the log's last batch, or SB_ATTENTION_ALL; 0: there is no
 * log unlogged             a bit for each bucket; above it, on further levels, a bit for each word
 *
 * Telling. A process that has stamped a change loads `attention`. It marks the bucket of the key's
 * cell if the version that was replaced is not above that cut; before its note goes. If it is
 * above, the process that wrote *that* version has marked the bucket, or is about to: so a hot key
 * is marked once for each batch, however often it is written.
 *
 * Taking. The log says SB_ATTENTION_ALL, takes a cut F, says F, looks at what notes show, and then
 * takes the marks. A mark says where to look, never what changed. So what the log finds there above
 * F it looks at again in the next batch; and so nothing is between the two. A log that does not
 * know what the one before it has taken looks at all buckets.
 *
 * The levels. A process marks from the bucket's bit upwards, the log takes from the top downwards.
 * Each process goes all the way up, also where it finds a bit set: the one that set it may be
 * stopped in the middle.
 *
 * Always true: there is nothing that can be full, so no process waits for the log, and a log that
 * is killed takes nothing along but its private list.
 */
#ifndef SB_NOTIFY_UNLOGGED_H
#define SB_NOTIFY_UNLOGGED_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

/* Whether a client that replaced a version with this stamp has something to tell to the log, or to
 * the watchers of a prefix. Loaded behind its own stamp. Cost: a comparison, on the clock's line.
 */
static inline __attribute__((always_inline)) bool sb_unlogged_or_watched(
        const struct sb_superblock *super, uint64_t replaced_stamp)
{
        return sb_reaches_acquire(&super->attention, replaced_stamp); /* A:attention. */
}

/* Set the bit of a bucket, then those above it. Fault UNLOGGED_STOPS_EARLY: up to the first bit
 * that is set. */
static inline void sb_unlogged_mark(const struct sb_segment *segment, uint64_t bucket)
{
        uint64_t index = bucket;
        uint32_t level;

        for (level = 0; level < segment->unlogged_levels; level++, index /= 64) {
                struct sb_word64 *word = &segment->unlogged[level][index / 64];
                uint64_t bit = UINT64_C(1) << (index % 64);
                bool set = sb_load_acquire(word) & bit; /* A:unlogged. */

                if (set && SB_FAULT(UNLOGGED_STOPS_EARLY))
                        return;
                /* R:unlogged > A:unlogged. The change first, and each level before the one above.
                 * The bit of the bucket is set again if it is set: the log that takes it then sees
                 * this change, too. */
                if (!set || !level)
                        sb_or_full(word, bit);
        }
}

/* Mark the bucket of a cell, if there is a log and a version with this stamp, which was replaced
 * there, is not above its last cut; 0: mark it in any case. Inline: with a log at work, nearly each
 * set of another key than lately comes here. */
static inline void sb_unlogged_tell(
        const struct sb_segment *segment, uint64_t cell_number, uint64_t replaced_stamp)
{
        /* A:attention. Behind the stamp of the change: what the log does not hear of now it hears
         * of in the batch for which the version before was told. */
        uint64_t attention = sb_load_acquire(&segment->super->attention) & SB_ATTENTION_LOG;

        if (attention && replaced_stamp <= attention && !SB_FAULT(LOG_UNTOLD))
                sb_unlogged_mark(segment, cell_number / 8 - 1);
}
/* The same for a process that goes by the key's node. Under a pin. */
void sb_unlogged_tell_node(struct sb_handle *handle, struct sb_node *node);

/* ---- for the log ---- */

/* From here on every change is told. */
void sb_unlogged_ask_all(const struct sb_segment *segment);
/* From here on changes are told that replace what is not above @cut. */
void sb_unlogged_ask_above(const struct sb_segment *segment, uint64_t cut);
/* Take all marks. @visit is called with the number of a word, and its bits: bit n is bucket
 * 64 * word + n. */
typedef void sb_unlogged_visit(void *context, uint64_t word, uint64_t bits);
void sb_unlogged_take(const struct sb_segment *segment, sb_unlogged_visit *visit, void *context);

/* The same, and they stay. */
void sb_unlogged_look(const struct sb_segment *segment, sb_unlogged_visit *visit, void *context);

/* How many buckets are marked, about. Cost: a look at each word that has a mark. */
uint64_t sb_unlogged_count(const struct sb_segment *segment);

/* Whether a log has still to hear of a tombstone with this stamp. */
static inline bool sb_unlogged_awaits(const struct sb_segment *segment, uint64_t stamp)
{
        const struct sb_superblock *super = segment->super;

        /* A:attention, A:durable. */
        return (sb_load_acquire(&super->attention) & SB_ATTENTION_LOG) &&
               stamp > sb_load_acquire(&super->durable);
}

#endif
