/* Pins, guards, retire words; see epoch.h. */
#include "epoch.h"

#include "base/fault.h"
#include "base/result.h"
#include "slab.h"

void sb_pin_resume(struct sb_peer *peer)
{
        uint64_t pin = sb_load_relaxed(&peer->client->pin); /* Relaxed: its writer is dead, and we were told by the kernel. */
        uint32_t era = sb_load_acquire(&peer->segment.super->era); /* A:era. */

        peer->hi = era;
        sb_pin_publish(peer, pin ? pin >> 32 : era, era);
}

void sb_pin_raise(struct sb_peer *peer, uint32_t era)
{
        peer->hi = era;
        /* Relaxed: the owner reads back its own word. */
        sb_pin_publish(peer, sb_load_relaxed(&peer->client->pin) >> 32, era);
}

/* Words in chunk @chunk > 0: as many as all before it together, as long as a slab has a class for them. */
static uint32_t chunk_words(const struct sb_segment *segment, uint32_t chunk)
{
        uint64_t most = (segment->class_size[segment->class_count - 1] - sizeof(struct sb_guard_chunk)) / 8;
        uint64_t words = (uint64_t)segment->geometry.guard_inline << (chunk - 1 < 16 ? chunk - 1 : 16);

        return (uint32_t)(words < most ? words : most);
}

/* Which chunk holds guard word *index, which becomes the place in it; SB_GUARD_CHUNKS: none can. */
static uint32_t chunk_of(const struct sb_segment *segment, uint32_t *index)
{
        uint32_t chunk = 0, words = segment->geometry.guard_inline;

        while (*index >= words && chunk < SB_GUARD_CHUNKS) {
                *index -= words;
                chunk++;
                words = chunk_words(segment, chunk);
        }
        return chunk;
}

struct sb_cell64 *sb_guard_word(const struct sb_segment *segment, struct sb_client *client, uint32_t index)
{
        uint32_t chunk = chunk_of(segment, &index);
        uint64_t offset, size;

        if (!chunk)
                return &sb_client_guards(segment, client)[index];
        if (chunk >= SB_GUARD_CHUNKS)
                return NULL;
        /* A:guard-chunk. */
        offset = sb_load_acquire(&client->guard_chunk[chunk]);
        if (!offset || !sb_block_at(segment, offset) || !sb_slab_is_block(segment, offset, SB_UNIT_GUARDS, &size) ||
                sizeof(struct sb_guard_chunk) + 8 * ((uint64_t)index + 1) > size)
                return NULL;
        return &((struct sb_guard_chunk *)sb_block_at(segment, offset))->guard[index];
}

uint64_t sb_guard_read(const struct sb_segment *segment, struct sb_client *client, uint32_t index)
{
        struct sb_cell64 *word = sb_guard_word(segment, client, index);

        /* A:guard. Ordered behind the reclaimer's reading of the pins. */
        return word ? sb_load_acquire(word) : 0;
}

int sb_guard_grow(struct sb_peer *peer, uint32_t index)
{
        struct sb_client *client = peer->client;
        uint32_t within = index, chunk = chunk_of(&peer->segment, &within), words;
        struct sb_guard_chunk *block;
        uint64_t offset;
        int r;

        if (index >= SB_GUARDS_MAX || chunk >= SB_GUARD_CHUNKS)
                return SB_E_FULL;
        if (chunk && !sb_guard_word(&peer->segment, client, index)) {
                words = chunk_words(&peer->segment, chunk);
                r = sb_slab_take(peer, SB_UNIT_GUARDS, sizeof(*block) + 8 * (uint64_t)words, false, &offset);
                if (r)
                        return r;
                block = sb_block_at(&peer->segment, offset);
                block->owner = (uint64_t)peer->generation << 32 | (uint64_t)peer->slot << 8 | chunk;
                for (uint32_t i = 0; i < words; i++)
                        /* Relaxed: published by the release below. */
                        sb_store_relaxed(&block->guard[i], 0);
                /* R:guard-chunk > A:guard-chunk. */
                sb_store_release(&client->guard_chunk[chunk], offset);
                sb_slab_settle(peer);
        }
        /* Relaxed read: the owner's own word. R:guard > A:guard: the bound comes before what it bounds. */
        if (index >= sb_load_relaxed(&client->guard_high))
                sb_store_release(&client->guard_high, index + 1);
        return 0;
}

bool sb_guard_chunk_free(struct sb_peer *peer, uint32_t slot, uint32_t generation, uint32_t chunk)
{
        struct sb_client *client = sb_client_at(&peer->segment, slot);
        /* A:guard-chunk. */
        uint64_t offset = sb_load_acquire(&client->guard_chunk[chunk]);
        struct sb_guard_chunk *block = sb_block_at(&peer->segment, offset);
        bool freed = false;

        if (offset && block && sb_slab_is_block(&peer->segment, offset, SB_UNIT_GUARDS, NULL) &&
                block->owner == ((uint64_t)generation << 32 | (uint64_t)slot << 8 | chunk)) {
                sb_store_relaxed(&peer->client->freeing, offset); /* Relaxed: the CAS below orders it. */
                if (sb_cas32_full(&block->block.retire, 0, SB_RETIRE_FREEING | peer->slot)) {
                        sb_slab_clear(peer, offset);
                        freed = true;
                }
                sb_store_release(&peer->client->freeing, 0); /* R:freed. The bit is clear before the note is gone. */
        }
        sb_store_release(&client->guard_chunk[chunk], 0); /* R:guard-chunk. */
        return freed;
}

bool sb_retire_begin(struct sb_peer *peer, struct sb_block *block)
{
        (void)peer;
        return sb_cas32_full(&block->retire, 0, SB_RETIRE_DYING);
}

void sb_era_advance(struct sb_peer *peer)
{
        struct sb_superblock *super = peer->segment.super;
        uint32_t era = sb_load_acquire(&super->era);                 /* A:era. */
        uint32_t age = era - sb_load_acquire(&super->birth_floor);   /* A:sweep. */

        if (SB_UNLIKELY(age > SB_ERA_ASK) && era % 4096 == 0)
                sb_add_full(&super->sweep_wanted, 1);
        if (SB_UNLIKELY(age > SB_ERA_STOP && age < UINT32_MAX - SB_ERA_STOP))
                return; /* somebody has been pinned for that long: what is retired waits for whoever is pinned just then */
        /* R:era > A:era. A failed CAS means that somebody else advanced it, which serves as well. */
        sb_cas32_full(&super->era, era, era == SB_ERA_MAX ? SB_ERA_MIN : era + 1);
}

void sb_era_look(struct sb_peer *peer)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t high, pin;
        uint32_t slot;

        sb_era_advance(peer);
        peer->looked_era = peer->horizon = sb_load_acquire(&segment->super->era); /* A:era. */
        peer->looked_count = 0;
        segment->os->membarrier(segment->os->context);        /* M:pins. */
        high = sb_load_acquire(&segment->super->client_high); /* A:roster. */
        for (slot = 0; slot < high && slot < segment->geometry.client_count; slot++) {
                pin = sb_load_acquire(&sb_client_at(segment, slot)->pin); /* A:pins. */
                if (!pin || slot == peer->slot)
                        continue;
                if (sb_era_before((uint32_t)(pin >> 32), peer->horizon))
                        peer->horizon = (uint32_t)(pin >> 32);
                if (peer->looked_count < SB_LOOKED_MAX)
                        peer->looked[peer->looked_count] = pin;
                peer->looked_count++;
        }
}

bool sb_era_clear(const struct sb_peer *peer, uint32_t era, uint32_t birth)
{
        uint32_t i;

        if (sb_era_before(era, peer->horizon))
                return true;
        if (!sb_era_before(era, peer->looked_era) || peer->looked_count > SB_LOOKED_MAX)
                return false;
        for (i = 0; i < peer->looked_count; i++)
                if (!sb_era_before(era, (uint32_t)(peer->looked[i] >> 32)) && !sb_era_before((uint32_t)peer->looked[i], birth))
                        return false;
        return true;
}
