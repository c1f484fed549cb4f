/* Eras, and a look at all pins; see era.h. */

#include "shm/memory/era.h"

#include "shm/base/assert.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

void sb_era_advance(struct sb_handle *handle)
{
        struct sb_superblock *super = handle->segment.super;
        /* A:era. Also the value that the CAS below expects. */
        uint32_t era = sb_load_acquire(&super->era);
        /* A:sweep. The sweep that set this floor has raised all older births. */
        uint32_t age = era - sb_load_acquire(&super->birth_floor);

        if (SB_UNLIKELY(age > SB_ERA_ASK) && era % 4096 == 0)
                sb_add_full(&super->sweep_wanted, 1); /* R:sweep. The engine sweeps. */
        /* Some client has been pinned for that long. While the era stands still, what is retired
         * waits for every client that is pinned then. */
        if (SB_UNLIKELY(age > SB_ERA_STOP && age < UINT32_MAX - SB_ERA_STOP))
                return;
        /* R:era > A:era. If the CAS fails, another process advanced it, which serves as well. */
        sb_cas32_full(&super->era, era, era == SB_ERA_MAX ? SB_ERA_MIN : era + 1);
}

void sb_era_look(struct sb_handle *handle)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_roster_walk walk = {.segment = segment};
        uint64_t pin;
        uint32_t slot;

        sb_era_advance(handle);
        /* A:era. What is dated before was unlinked before. */
        handle->era.looked = handle->era.oldest = sb_load_acquire(&segment->super->era);
        handle->era.pin_count = 0;
        /* M:pins. Pins that other clients have stored are visible from here on. */
        segment->os->membarrier(segment->os->context);
        while (sb_roster_next(&walk, &slot)) {
                /* A:pins. Where a pin has ended, its reads are over (R:unpin). */
                pin = sb_load_acquire(&sb_record_at(segment, slot)->pin);
                if (!pin || slot == handle->slot)
                        continue;
                if (sb_era_before((uint32_t)(pin >> 32), handle->era.oldest))
                        handle->era.oldest = (uint32_t)(pin >> 32);
                if (handle->era.pin_count < SB_ERA_PINS_MAX)
                        handle->era.pins[handle->era.pin_count] = pin;
                handle->era.pin_count++;
        }
}

bool sb_era_clear(const struct sb_handle *handle, uint32_t era, uint32_t birth)
{
        uint32_t i;

        if (sb_era_before(era, handle->era.oldest))
                return true;
        if (!sb_era_before(era, handle->era.looked) || handle->era.pin_count > SB_ERA_PINS_MAX)
                return false;
        for (i = 0; i < handle->era.pin_count; i++)
                if (!sb_era_before(era, (uint32_t)(handle->era.pins[i] >> 32)) &&
                        !sb_era_before((uint32_t)handle->era.pins[i], birth))
                        return false;
        return true;
}

uint32_t sb_era_bygone(const struct sb_handle *handle)
{
        uint32_t old = handle->era.looked - SB_ERA_OLD;

        return sb_era_before(handle->era.oldest, old) ? handle->era.oldest : old;
}

void sb_era_init(struct sb_handle *handle)
{
        /* A:era. The handle has not looked yet: by such an old look no date is past. */
        handle->era.looked = handle->era.oldest =
                sb_load_acquire(&handle->segment.super->era) - SB_ERA_STOP;
}
