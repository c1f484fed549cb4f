/* Claiming, clearing and freeing client records; see roster.h. */

#include "shm/layout/roster.h"

#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"

static struct sb_word64 *roster_tag(const struct sb_segment *segment, uint32_t slot)
{
        return &sb_record_at(segment, slot)->tag;
}

enum sb_record_state sb_roster_state(
        const struct sb_segment *segment, uint32_t slot, uint32_t *ret_generation)
{
        /* A:record-tag. The record's identity was written before. */
        uint64_t tag = sb_load_acquire(roster_tag(segment, slot));

        if (ret_generation)
                *ret_generation = (uint32_t)(tag >> 32);
        return (enum sb_record_state)(uint32_t)tag;
}

/* The bit of record @slot, and the word that has it. */
static struct sb_word64 *roster_word(const struct sb_segment *segment, uint32_t slot)
{
        return &segment->super->roster[slot / 64];
}

static uint64_t roster_bit(uint32_t slot)
{
        return UINT64_C(1) << (slot % 64);
}

static void roster_list(const struct sb_segment *segment, uint32_t slot)
{
        /* R:roster > A:roster. Before the owner can pin: reclaimers look at the records that are
         * listed. */
        sb_or_full(roster_word(segment, slot), roster_bit(slot));
}

int sb_roster_claim(struct sb_segment *segment, uint32_t first,
        const struct sb_roster_identity *identity, uint32_t *ret_slot, uint32_t *ret_generation)
{
        return sb_roster_claim_below(
                segment, first, segment->geometry.record_count, identity, ret_slot, ret_generation);
}

int sb_roster_claim_below(struct sb_segment *segment, uint32_t first, uint32_t end,
        const struct sb_roster_identity *identity, uint32_t *ret_slot, uint32_t *ret_generation)
{
        uint32_t slot, generation;

        for (slot = first; slot < end && (first || !slot); slot++) {
                struct sb_record *record = sb_record_at(segment, slot);

                /* R:record-tag > A:record-tag. From CLAIMED on the engine writes the identity. */
                if (sb_roster_state(segment, slot, &generation) != SB_RECORD_FREE ||
                        !sb_cas64_full(&record->tag, SB_RECORD_TAG(generation, SB_RECORD_FREE),
                                SB_RECORD_TAG(generation, SB_RECORD_CLAIMED)))
                        continue;
                record->pid = identity->pid;
                record->uid = identity->uid;
                record->access = identity->access;
                record->map_locked = identity->map_locked;
                record->pid_start = identity->pid_start;
                record->attached_ns = identity->attached_ns;
                record->ticket = identity->ticket;
                roster_list(segment, slot);
                /* R:record-tag > A:record-tag. The identity comes first. */
                sb_store_release(&record->tag, SB_RECORD_TAG(generation, SB_RECORD_ATTACHED));
                *ret_slot = slot;
                *ret_generation = generation;
                return 0;
        }
        return SB_E_FULL;
}

void sb_roster_clear(const struct sb_segment *segment, uint32_t slot)
{
        struct sb_record *record = sb_record_at(segment, slot);
        /* A:guard. Words beyond were never used, so that they are 0. */
        uint64_t high = sb_load_acquire(&record->guard_high);
        uint32_t i;

        /* R:announce. The owner reads at none of these cuts any more. */
        for (i = 0; i < segment->geometry.snapshot_count; i++)
                sb_store_release(&sb_record_snapshots(record)[i], 0);
        /* R:guard. All reads of what a guard held are over. */
        for (i = 0; i < segment->geometry.guard_inline && i < high; i++)
                sb_store_release(&sb_record_guards(segment, record)[i], 0);
        /* R:magazine. The blocks are given back by now. */
        for (i = 0; i < segment->geometry.magazine_count; i++)
                sb_store_release(&sb_record_magazine(segment, record)[i], 0);
        sb_store_release(&record->sleeps, 0);     /* R:sleeps. No process is woken for it. */
        sb_store_release(&record->guard_high, 0); /* R:guard. After the words that it bounds. */
        sb_store_release(&record->operation, 0);  /* R:operation. It is finished. */
        sb_store_release(&record->freeing, 0);    /* R:freeing. The block's bit is clear. */
        /* R:unpin > A:pins. Last: until here nothing that was read under the pin is reused. */
        sb_store_release(&record->pin, 0);
}

void sb_roster_release(struct sb_segment *segment, uint32_t slot, uint32_t generation)
{
        uint32_t current;

        /* A second call changes no other owner's record. */
        if (sb_roster_state(segment, slot, &current) != SB_RECORD_ATTACHED || current != generation)
                return;
        sb_roster_clear(segment, slot);
        sb_roster_unlist(segment, slot);
        /* R:record-tag > A:record-tag. A CAS: the engine may be reaping it. */
        sb_cas64_full(roster_tag(segment, slot), SB_RECORD_TAG(generation, SB_RECORD_ATTACHED),
                SB_RECORD_TAG(generation + 1, SB_RECORD_FREE));
}

void sb_roster_unlist(const struct sb_segment *segment, uint32_t slot)
{
        /* R:roster > A:roster. A process that does not see the bit need not see the record: its
         * pin has ended, and what was read under it. */
        sb_and_full(roster_word(segment, slot), ~roster_bit(slot));
}

bool sb_roster_lists(const struct sb_segment *segment, uint32_t slot)
{
        return sb_load_acquire(roster_word(segment, slot)) & roster_bit(slot); /* A:roster. */
}

static uint32_t roster_count_bits(uint64_t bits)
{
        bits -= bits >> 1 & UINT64_C(0x5555555555555555);
        bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
        bits = (bits + (bits >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
        return (uint32_t)(bits * UINT64_C(0x0101010101010101) >> 56);
}

uint32_t sb_roster_count(const struct sb_segment *segment)
{
        uint32_t count = 0, word;

        for (word = 0; word * 64 < segment->geometry.record_count; word++) {
                /* Relaxed: shares of memory go by it, and no read. */
                uint64_t bits = sb_load_relaxed(&segment->super->roster[word]);

                if (!word)
                        bits |= 1;
                if (bits)
                        count += roster_count_bits(bits);
        }
        return count;
}
