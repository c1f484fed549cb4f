/*
 * The roster: which process has which client record. The engine claims a record for a process that
 * attaches. The owner frees it, or the reaper of a dead owner.
 *
 * The superblock's roster has a bit for each record. A loop over the clients looks at the records
 * that have their bit set: so what it costs is the number of clients now, not that of a busier day.
 *
 *      FREE -> CLAIMED -> bit set -> ATTACHED ... pins ... -> record cleared -> bit clear -> FREE
 *
 * Always true: the tag tells a record's state and generation in one word, and its identity is
 * written before the tag says ATTACHED. A record's bit is set before its owner can pin, and cleared
 * when neither the owner nor its reaper pins in it any more, so that loops over the roster miss no
 * pin. A kill at any point leaves a tag that is not FREE, and the reaper clears the bit.
 */
#ifndef SB_LAYOUT_ROSTER_H
#define SB_LAYOUT_ROSTER_H

#include "shm/layout/record.h"
#include "shm/layout/segment.h"

/* What the engine knows of the process that attaches; see struct sb_record. */
struct sb_roster_identity {
        uint32_t pid, uid, access, map_locked;
        uint64_t pid_start, attached_ns, ticket;
};

/* Take the first free record from @first on (0 is the engine's own) and make it ATTACHED. Return:
 * 0, SB_E_FULL. Threads: one engine. A kill leaves CLAIMED, which the reaper frees. */
int sb_roster_claim(struct sb_segment *segment, uint32_t first,
        const struct sb_roster_identity *identity, uint32_t *ret_slot, uint32_t *ret_generation);
/* The same, of the records below @end alone. */
int sb_roster_claim_below(struct sb_segment *segment, uint32_t first, uint32_t end,
        const struct sb_roster_identity *identity, uint32_t *ret_slot, uint32_t *ret_generation);
/* Clear the record, and make it FREE with the next generation. For its owner. */
void sb_roster_release(struct sb_segment *segment, uint32_t slot, uint32_t generation);
/* Clear a record's announcements, guards, notes and, last, its pin. For its owner, or the reaper of
 * a dead one. */
void sb_roster_clear(const struct sb_segment *segment, uint32_t slot);
/* The state of a record; @ret_generation may be NULL. Both come from one load. */
enum sb_record_state sb_roster_state(
        const struct sb_segment *segment, uint32_t slot, uint32_t *ret_generation);
/* Clear a record's bit: it holds nothing any more, and is not FREE yet. For its owner, or the
 * reaper of a dead one. */
void sb_roster_unlist(const struct sb_segment *segment, uint32_t slot);
/* Whether a record's bit is set. */
bool sb_roster_lists(const struct sb_segment *segment, uint32_t slot);
/* How many records are in use, with that of the engine, even if none serves right now. A hint:
 * clients come and go. */
uint32_t sb_roster_count(const struct sb_segment *segment);

/* A walk over the records in use:
 *
 *      struct sb_roster_walk walk = {.segment = segment};
 *
 *      while ((record = sb_roster_next(&walk)))
 *
 * It meets each client that attached before the walk began and stays. A client that it does not
 * meet attached later, or holds nothing any more. */
struct sb_roster_walk {
        const struct sb_segment *segment;
        unsigned char *first; /* the record of bit 0 of the last word */
        uint64_t bits;        /* of the last word, of records that were not met yet */
        uint32_t words;       /* loaded so far */
        uint32_t bit;         /* of the record that was met last */
};
/* NULL: the walk has met all. */
static inline struct sb_record *sb_roster_next(struct sb_roster_walk *walk)
{
        const struct sb_geometry *geometry = &walk->segment->geometry;
        uint32_t left;

        while (SB_UNLIKELY(!walk->bits)) {
                if (walk->words * 64 >= geometry->record_count)
                        return NULL;
                left = geometry->record_count - walk->words * 64;
                walk->first = (unsigned char *)sb_record_at(walk->segment, walk->words * 64);
                /* A:roster. Where a bit is not set, its client pins later, or never again. */
                walk->bits = sb_load_acquire(&walk->segment->super->roster[walk->words++]);
                if (left < 64) /* the roster is input */
                        walk->bits &= (UINT64_C(1) << left) - 1;
        }
        walk->bit = (uint32_t)__builtin_ctzll(walk->bits);
        walk->bits &= walk->bits - 1;
        return (struct sb_record *)(walk->first + (uint64_t)walk->bit * geometry->record_stride);
}
/* The number of the record that was met last. */
static inline uint32_t sb_roster_met(const struct sb_roster_walk *walk)
{
        return (walk->words - 1) * 64 + walk->bit;
}

#endif
