/* The rare ways of a pin: raising hi, and continuing a dead process's pin; see pin.h. */

#include "shm/memory/pin.h"

#include "shm/base/word.h"
#include "shm/layout/handle.h"

void sb_pin_resume(struct sb_peer *peer)
{
        /* Relaxed: the writer is dead, as the kernel has told this process. */
        uint64_t pin = sb_load_relaxed(&peer->client->pin);
        /* A:era. As in sb_pin(). */
        uint32_t era = sb_load_acquire(&peer->segment.super->era);

        peer->pin.hi = era;
        sb_pin_publish(peer, pin ? pin >> 32 : era, era);
}

void sb_pin_raise(struct sb_peer *peer, uint32_t era)
{
        peer->pin.hi = era;
        /* Relaxed: the owner reads back its own word. */
        sb_pin_publish(peer, sb_load_relaxed(&peer->client->pin) >> 32, era);
}
