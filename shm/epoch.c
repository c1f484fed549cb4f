/* Pins, retire words, grace periods; see epoch.h. */
#include "epoch.h"

#include "base/fault.h"
#include "base/result.h"

void sb_pin_resume(struct sb_peer *peer)
{
        /* Relaxed: its writer is dead, and we were told by the kernel. */
        uint64_t pin = sb_load_relaxed(&peer->client->pin);
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

bool sb_retire_begin(struct sb_peer *peer, struct sb_block *block)
{
        (void)peer;
        return sb_cas32_full(&block->retire, 0, SB_RETIRE_DYING);
}

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
                if (!sb_era_before(era, (uint32_t)(peer->looked[i] >> 32)) &&
                        !sb_era_before((uint32_t)peer->looked[i], birth))
                        return false;
        return true;
}
