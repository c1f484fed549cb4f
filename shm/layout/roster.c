/* The roster; see roster.h. */

#include "shm/layout/roster.h"

#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"

static struct sb_cell64 *tag_of(const struct sb_segment *segment, uint32_t slot)
{
        return &sb_client_at(segment, slot)->tag;
}

enum sb_client_state sb_slot_state(
        const struct sb_segment *segment, uint32_t slot, uint32_t *ret_generation)
{
        /* A:slot-tag. The record's identity was written before. */
        uint64_t tag = sb_load_acquire(tag_of(segment, slot));

        if (ret_generation)
                *ret_generation = (uint32_t)(tag >> 32);
        return (enum sb_client_state)(uint32_t)tag;
}

int sb_slot_claim(struct sb_segment *segment, uint32_t first,
        const struct sb_slot_identity *identity, uint32_t *ret_slot, uint32_t *ret_generation)
{
        uint32_t slot, generation;

        for (slot = first; slot < segment->geometry.client_count && (first || !slot); slot++) {
                struct sb_client *client = sb_client_at(segment, slot);
                uint64_t high;

                if (sb_slot_state(segment, slot, &generation) != SB_CLIENT_FREE ||
                        !sb_cas64_full(&client->tag, SB_CLIENT_TAG(generation, SB_CLIENT_FREE),
                                SB_CLIENT_TAG(generation, SB_CLIENT_CLAIMED)))
                        continue;
                client->pid = identity->pid;
                client->uid = identity->uid;
                client->access = identity->access;
                client->pid_start = identity->pid_start;
                client->attached_ns = identity->attached_ns;
                client->ticket = identity->ticket;
                /* R:roster > A:roster. Before the owner can pin: reclaimers look at every record
                 * below. */
                for (high = sb_load_acquire(&segment->super->client_high); high <= slot;
                        high = sb_load_acquire(&segment->super->client_high))
                        sb_cas64_full(&segment->super->client_high, high, (uint64_t)slot + 1);
                /* R:slot-tag > A:slot-tag. */
                sb_store_release(&client->tag, SB_CLIENT_TAG(generation, SB_CLIENT_ATTACHED));
                *ret_slot = slot;
                *ret_generation = generation;
                return 0;
        }
        return SB_E_FULL;
}

void sb_slot_clear(const struct sb_segment *segment, uint32_t slot)
{
        struct sb_client *client = sb_client_at(segment, slot);
        uint64_t high = sb_load_acquire(&client->guard_high); /* A:guard. */
        uint32_t i;

        for (i = 0; i < segment->geometry.snapshot_count; i++)
                sb_store_release(&sb_client_snapshots(client)[i], 0); /* R:announce. */
        for (i = 0; i < segment->geometry.guard_inline && i < high; i++)
                sb_store_release(&sb_client_guards(segment, client)[i], 0); /* R:guard. */
        for (i = 0; i < segment->geometry.stock_count; i++)
                sb_store_release(&sb_client_stock(segment, client)[i], 0); /* R:stock. */
        sb_store_release(&client->guard_high, 0);                          /* R:guard. */
        sb_store_release(&client->operation, 0);                           /* R:operation. */
        sb_store_release(&client->freeing, 0);                             /* R:freeing. */
        /* R:unpin. Last: until here nothing that it read under the pin is reused. */
        sb_store_release(&client->pin, 0);
}

void sb_slot_release(struct sb_segment *segment, uint32_t slot, uint32_t generation)
{
        sb_slot_clear(segment, slot);
        /* R:slot-tag > A:slot-tag. By CAS, so that a second call changes nobody else's record. */
        sb_cas64_full(tag_of(segment, slot), SB_CLIENT_TAG(generation, SB_CLIENT_ATTACHED),
                SB_CLIENT_TAG(generation + 1, SB_CLIENT_FREE));
}
