/* Eras, and a look at all pins; see era.h. */

#include "shm/memory/era.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
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

/* ---- a look at all pins ---- */

/* The pin of another client; 0: none, or this is this client's own. */
static uint64_t era_load_pin(const struct sb_handle *handle, uint32_t slot)
{
        /* A:pins. Where a pin has ended, its reads are over and its guards are set (R:unpin). */
        uint64_t pin = sb_load_acquire(&sb_record_at(&handle->segment, slot)->pin);

        return slot == handle->slot || SB_FAULT(FREE_IGNORES_PINS) ? 0 : pin;
}

/* Sort by lo, ascending (Shell's sort). */
static void era_sort(struct sb_era_pin *pins, uint32_t count)
{
        uint32_t gap, i, j;

        for (gap = 1; gap < count / 3; gap = gap * 3 + 1)
                ;
        for (; gap; gap /= 3)
                for (i = gap; i < count; i++) {
                        struct sb_era_pin pin = pins[i];

                        for (j = i; j >= gap && sb_era_before(pin.lo, pins[j - gap].lo); j -= gap)
                                pins[j] = pins[j - gap];
                        pins[j] = pin;
                }
}

/* Of sorted pins keep those that reach further than all before them. Return: how many. */
static uint32_t era_keep_furthest(struct sb_era_pin *pins, uint32_t count)
{
        uint32_t i, kept = 0;

        for (i = 0; i < count; i++) {
                if (kept && !sb_era_before(pins[kept - 1].hi, pins[i].hi))
                        continue;
                if (kept && pins[kept - 1].lo == pins[i].lo)
                        kept--;
                pins[kept++] = pins[i];
        }
        return kept;
}

void sb_era_read_pins(struct sb_handle *handle, uint32_t era)
{
        struct sb_roster_walk walk = {.segment = &handle->segment};
        struct sb_era_pin *pins = handle->era.pins;
        uint64_t pin, before = 0;
        uint32_t slot, count = 0;

        while (sb_roster_next(&walk, &slot)) {
                pin = era_load_pin(handle, slot);
                /* Those that are reading just now mostly have the same pin, or a younger one. */
                if (!pin || pin == before || sb_era_before(era, (uint32_t)(pin >> 32)))
                        continue;
                before = pin;
                pins[count].lo = (uint32_t)(pin >> 32);
                pins[count++].hi = (uint32_t)pin;
        }
        era_sort(pins, count);
        handle->era.pin_count = era_keep_furthest(pins, count);
        handle->era.looked = era;
}

void sb_era_look(struct sb_handle *handle)
{
        struct sb_segment *segment = &handle->segment;
        uint32_t era;

        sb_era_advance(handle);
        /* A:era. What is dated before was unlinked before. */
        era = sb_load_acquire(&segment->super->era);
        /* M:pins. Pins that other clients have stored are visible from here on. */
        segment->os->membarrier(segment->os->context);
        sb_era_read_pins(handle, era);
}

/* ---- what it says ---- */

/* How many of the pins were begun in @era or before. The fault ERA_PIN_FORGOTTEN leaves out the
 * last of them. */
static uint32_t era_begun(const struct sb_handle *handle, uint32_t era)
{
        uint32_t low = 0, high = handle->era.pin_count;

        while (low < high) {
                uint32_t middle = (low + high) / 2;

                if (sb_era_before(era, handle->era.pins[middle].lo))
                        high = middle;
                else
                        low = middle + 1;
        }
        return low && SB_FAULT(ERA_PIN_FORGOTTEN) ? low - 1 : low;
}

bool sb_era_protected(const struct sb_handle *handle, uint32_t era, uint32_t birth)
{
        uint32_t begun = era_begun(handle, era);

        /* Of those, the last one reaches furthest. */
        return begun && !sb_era_before(handle->era.pins[begun - 1].hi, birth);
}

bool sb_era_clear(const struct sb_handle *handle, uint32_t era, uint32_t birth)
{
        return sb_era_before(era, handle->era.looked) && !sb_era_protected(handle, era, birth);
}

uint32_t sb_era_bygone(const struct sb_handle *handle)
{
        uint32_t old = handle->era.looked - SB_ERA_OLD;

        return handle->era.pin_count && sb_era_before(handle->era.pins[0].lo, old)
                       ? handle->era.pins[0].lo
                       : old;
}

uint64_t sb_era_sum_pins(const struct sb_handle *handle, uint32_t era)
{
        struct sb_roster_walk walk = {.segment = &handle->segment};
        uint64_t sum = 0, pin;
        uint32_t slot;

        while (sb_roster_next(&walk, &slot)) {
                pin = era_load_pin(handle, slot);
                if (pin && sb_era_before((uint32_t)(pin >> 32), era))
                        sum += (pin ^ slot) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        }
        return sum;
}

/* ---- a handle begins ---- */

uint64_t sb_era_space(const struct sb_geometry *geometry)
{
        return geometry->record_count * sizeof(struct sb_era_pin);
}

void sb_era_init(struct sb_handle *handle, void *space)
{
        handle->era.pins = space;
        /* A:era. The handle has not looked yet: by such an old look no date is past. */
        handle->era.looked = sb_load_acquire(&handle->segment.super->era) - SB_ERA_STOP;
}
