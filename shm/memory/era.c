/* Eras and grace periods; see era.h. */

#include "shm/memory/era.h"

#include "shm/base/assert.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

void sb_era_advance(struct sb_peer *peer)
{
        struct sb_superblock *super = peer->segment.super;
        uint32_t era = sb_load_acquire(&super->era);               /* A:era. */
        uint32_t age = era - sb_load_acquire(&super->birth_floor); /* A:sweep. */

        if (SB_UNLIKELY(age > SB_ERA_ASK) && era % 4096 == 0)
                sb_add_full(&super->sweep_wanted, 1);
        if (SB_UNLIKELY(age > SB_ERA_STOP && age < UINT32_MAX - SB_ERA_STOP))
                return; /* somebody has been pinned for that long: what is retired waits for whoever
                           is pinned just then */
        /* R:era > A:era. A failed CAS means that somebody else advanced it, which serves as well.
         */
        sb_cas32_full(&super->era, era, era == SB_ERA_MAX ? SB_ERA_MIN : era + 1);
}

void sb_era_look(struct sb_peer *peer)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t high, pin;
        uint32_t slot;

        sb_era_advance(peer);
        peer->era.looked = peer->era.oldest = sb_load_acquire(&segment->super->era); /* A:era. */
        peer->era.pin_count = 0;
        segment->os->membarrier(segment->os->context);        /* M:pins. */
        high = sb_load_acquire(&segment->super->client_high); /* A:roster. */
        for (slot = 0; slot < high && slot < segment->geometry.client_count; slot++) {
                pin = sb_load_acquire(&sb_client_at(segment, slot)->pin); /* A:pins. */
                if (!pin || slot == peer->slot)
                        continue;
                if (sb_era_before((uint32_t)(pin >> 32), peer->era.oldest))
                        peer->era.oldest = (uint32_t)(pin >> 32);
                if (peer->era.pin_count < SB_ERA_PINS_MAX)
                        peer->era.pins[peer->era.pin_count] = pin;
                peer->era.pin_count++;
        }
}

bool sb_era_clear(const struct sb_peer *peer, uint32_t era, uint32_t birth)
{
        uint32_t i;

        if (sb_era_before(era, peer->era.oldest))
                return true;
        if (!sb_era_before(era, peer->era.looked) || peer->era.pin_count > SB_ERA_PINS_MAX)
                return false;
        for (i = 0; i < peer->era.pin_count; i++)
                if (!sb_era_before(era, (uint32_t)(peer->era.pins[i] >> 32)) &&
                        !sb_era_before((uint32_t)peer->era.pins[i], birth))
                        return false;
        return true;
}

uint32_t sb_era_bygone(const struct sb_peer *peer)
{
        uint32_t old = peer->era.looked - SB_ERA_OLD;

        return sb_era_before(peer->era.oldest, old) ? peer->era.oldest : old;
}

void sb_era_init(struct sb_peer *peer)
{
        /* A:era. It has not looked yet: no date is that old. */
        peer->era.looked = peer->era.oldest =
                sb_load_acquire(&peer->segment.super->era) - SB_ERA_STOP;
}
