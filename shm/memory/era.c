/* Eras, and a look at all pins; see era.h. */

#include "shm/memory/era.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

/* ---- in blocks ---- */

static struct sb_word64 *era_base(const struct sb_segment *segment, uint32_t number)
{
        return &sb_record_at(segment, number / SB_RECORD_BASES)->base[number % SB_RECORD_BASES];
}

uint64_t sb_era_of_label(const struct sb_segment *segment, uint32_t birth)
{
        uint32_t number = SB_BIRTH_BASE(birth);
        uint64_t word;

        if (number >= segment->geometry.record_count * SB_RECORD_BASES)
                return 0;
        word = sb_load_acquire(era_base(segment, number)); /* A:base. */
        return SB_BASE_TAG(word) == SB_BIRTH_TAG(birth) ? SB_BASE_ERA(word) : 0;
}

uint64_t sb_era_of_date(const struct sb_segment *segment, uint32_t date)
{
        /* A:sweep. Behind the load of the date: what was dated before this floor is taken for
         * younger than it is. */
        return sb_era_from(sb_load_acquire(&segment->super->birth_floor), date);
}

/* ---- the era ---- */

void sb_era_advance(struct sb_handle *handle)
{
        struct sb_superblock *super = handle->segment.super;
        /* A:era. Also the value that the CAS below expects. */
        uint64_t era = sb_load_acquire(&super->era);
        /* A:sweep. The sweep that set this floor has labelled all older births. */
        uint64_t floor = sb_load_acquire(&super->birth_floor);

        if (SB_UNLIKELY(era > floor && era - floor > SB_ERA_ASK) && era % 4096 == 0)
                sb_add_full(&super->sweep_wanted, 1); /* R:sweep. The engine sweeps. */
        /* No process has swept for that long. While the era stands still, what is retired waits for
         * every client that is pinned then. */
        if (SB_UNLIKELY(era > floor && era - floor > SB_ERA_STOP))
                return;
        /* R:era > A:era. If the CAS fails, another process advanced it, which serves as well. */
        sb_cas64_full(&super->era, era, sb_era_whole(era + 1));
}

bool sb_era_stands(const struct sb_segment *segment)
{
        uint64_t era = sb_load_acquire(&segment->super->era);           /* A:era. */
        uint64_t floor = sb_load_acquire(&segment->super->birth_floor); /* A:sweep. */

        return era > floor && era - floor > SB_ERA_STOP;
}

/* ---- a look at all pins ---- */

/* The pin of another client; 0: none, or this is this client's own. */
static uint64_t era_load_pin(const struct sb_handle *handle, const struct sb_record *record)
{
        /* A:pins. Where a pin has ended, its reads are over and its guards are set (R:unpin). */
        uint64_t pin = sb_load_acquire(&record->pin);

        return record == handle->record || SB_FAULT(FREE_IGNORES_PINS) ? 0 : pin;
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

                        for (j = i; j >= gap && pin.lo < pins[j - gap].lo; j -= gap)
                                pins[j] = pins[j - gap];
                        pins[j] = pin;
                }
}

/* Of sorted pins keep those that reach further than all before them. Return: how many. */
static uint32_t era_keep_furthest(struct sb_era_pin *pins, uint32_t count)
{
        uint32_t i, kept = 0;

        for (i = 0; i < count; i++) {
                if (kept && pins[i].hi <= pins[kept - 1].hi)
                        continue;
                if (kept && pins[kept - 1].lo == pins[i].lo)
                        kept--;
                pins[kept++] = pins[i];
        }
        return kept;
}

void sb_era_read_pins(struct sb_handle *handle, uint64_t era)
{
        struct sb_roster_walk walk = {.segment = &handle->segment};
        struct sb_era_pin *pins = handle->era.pins;
        const struct sb_record *record;
        uint64_t pin, before = 0;
        uint32_t count = 0;

        while ((record = sb_roster_next(&walk))) {
                pin = era_load_pin(handle, record);
                /* Those that are reading just now mostly have the same pin, or a younger one. */
                if (!pin || pin == before || sb_record_pin_lo(pin) > era)
                        continue;
                before = pin;
                pins[count].lo = sb_record_pin_lo(pin);
                pins[count++].hi = SB_PIN_HI(pin);
        }
        era_sort(pins, count);
        handle->era.pin_count = era_keep_furthest(pins, count);
        handle->era.looked = era;
        /* A:sweep. Births that are read from here on lie no earlier, or are labels. */
        handle->era.floor = sb_load_acquire(&handle->segment.super->birth_floor);
}

/* The fault LOOK_UNFLUSHED leaves it out. */
static void era_flush_pins(const struct sb_segment *segment)
{
        if (!SB_FAULT(LOOK_UNFLUSHED))
                /* M:pins. Pins that other clients have stored are visible from here on. */
                segment->os->membarrier(segment->os->context);
}

void sb_era_look(struct sb_handle *handle)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t era;

        sb_era_advance(handle);
        /* A:era. What is dated before was unlinked before. */
        era = sb_load_acquire(&segment->super->era);
        era_flush_pins(segment);
        sb_era_read_pins(handle, era);
}

/* ---- what it says ---- */

/* How many of the pins were begun in @era or before. The fault ERA_PIN_FORGOTTEN leaves out the
 * last of them. */
static uint32_t era_begun(const struct sb_handle *handle, uint64_t era)
{
        uint32_t low = 0, high = handle->era.pin_count;

        while (low < high) {
                uint32_t middle = (low + high) / 2;

                if (era < handle->era.pins[middle].lo)
                        high = middle;
                else
                        low = middle + 1;
        }
        return low && SB_FAULT(ERA_PIN_FORGOTTEN) ? low - 1 : low;
}

bool sb_era_protected(const struct sb_handle *handle, uint64_t era, uint64_t birth)
{
        uint32_t begun = era_begun(handle, era);

        /* Of those, the last one reaches furthest. */
        return begun && birth <= handle->era.pins[begun - 1].hi;
}

bool sb_era_clear(const struct sb_handle *handle, uint64_t era, uint64_t birth)
{
        return era < handle->era.looked && !sb_era_protected(handle, era, birth);
}

bool sb_era_looked_lately(const struct sb_handle *handle)
{
        /* A:era. */
        return sb_load_acquire(&handle->segment.super->era) - handle->era.looked <= SB_ERA_OLD;
}

uint64_t sb_era_sum_pins(const struct sb_handle *handle, uint64_t era)
{
        struct sb_roster_walk walk = {.segment = &handle->segment};
        const struct sb_record *record;
        uint64_t sum = 0, pin;

        while ((record = sb_roster_next(&walk))) {
                pin = era_load_pin(handle, record);
                if (pin && sb_record_pin_lo(pin) < era)
                        sum += (pin ^ sb_roster_met(&walk)) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        }
        return sum;
}

/* ---- labels ---- */

/* A base that labels can name: {era : 46, number : 13}. */
#define BASE_ENTRY(era, number) ((uint64_t)(era) << 13 | (number))
#define BASE_ERA(entry)         ((entry) >> 13)
#define BASE_NUMBER(entry)      ((uint32_t)(entry)&0x1fffu)

/* The base that the pin of a record needs: right behind the pin, so that births after it have one
 * of their own. 0: none; the client is not pinned, or not since before @floor. */
static uint64_t era_needed_base(const struct sb_segment *segment, uint32_t slot, uint64_t floor)
{
        /* A:pins. */
        uint64_t pin = sb_load_acquire(&sb_record_at(segment, slot)->pin);

        return pin && SB_PIN_HI(pin) < floor ? SB_PIN_HI(pin) + 1 : 0;
}

/* Make a base of @era in a word that is free. Return: whether the word says @era. */
static bool era_make_base(struct sb_word64 *word, uint64_t era)
{
        uint64_t old = sb_load_acquire(word); /* A:base. */

        if (!SB_BASE_ERA(old))
                /* R:base > A:base. Another tag: what named the base before does not name this. */
                sb_cas64_full(word, old, SB_BASE(era, SB_BASE_TAG(old) + 1));
        return SB_BASE_ERA(sb_load_acquire(word)) == era; /* A:base. */
}

/* One record's bases: those that are not @needed are noted to go. Return: whether it has the one
 * that is, or none is. */
static bool era_find_base(struct sb_handle *handle, uint32_t slot, uint64_t needed)
{
        uint32_t i, number, free = UINT32_MAX;

        for (i = 0; i < SB_RECORD_BASES; i++) {
                uint64_t word;

                number = slot * SB_RECORD_BASES + i;
                word = sb_load_acquire(era_base(&handle->segment, number)); /* A:base. */
                if (!SB_BASE_ERA(word)) {
                        free = number;
                } else if (SB_BASE_ERA(word) == needed) {
                        handle->era.bases[handle->era.base_count++] = BASE_ENTRY(needed, number);
                        needed = 0;
                } else {
                        handle->era.drops[handle->era.drop_count++] =
                                SB_BIRTH_OF(number, SB_BASE_TAG(word));
                }
        }
        if (needed && free != UINT32_MAX &&
                era_make_base(era_base(&handle->segment, free), needed)) {
                handle->era.bases[handle->era.base_count++] = BASE_ENTRY(needed, free);
                needed = 0;
        }
        return !needed;
}

/* Ascending (Shell's sort). */
static void era_sort_bases(uint64_t *bases, uint32_t count)
{
        uint32_t gap, i, j;

        for (gap = 1; gap < count / 3; gap = gap * 3 + 1)
                ;
        for (; gap; gap /= 3)
                for (i = gap; i < count; i++) {
                        uint64_t base = bases[i];

                        for (j = i; j >= gap && bases[j - gap] > base; j -= gap)
                                bases[j] = bases[j - gap];
                        bases[j] = base;
                }
}

uint64_t sb_era_find_bases(struct sb_handle *handle, uint64_t before, uint64_t floor)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t slot;

        handle->era.base_count = handle->era.drop_count = 0;
        for (slot = 0; slot < segment->geometry.record_count; slot++) {
                uint64_t needed = era_needed_base(segment, slot, floor);

                /* Both its bases are of earlier pins. One is free when this sweep has ended. */
                if (!era_find_base(handle, slot, needed) && needed < floor)
                        floor = needed;
        }
        era_sort_bases(handle->era.bases, handle->era.base_count);
        return floor > before ? floor : before;
}

uint32_t sb_era_label(const struct sb_handle *handle, uint64_t era)
{
        uint32_t low = 0, high = handle->era.base_count, number;
        uint64_t word;

        while (low < high) {
                uint32_t middle = (low + high) / 2;

                if (era < BASE_ERA(handle->era.bases[middle]))
                        high = middle;
                else
                        low = middle + 1;
        }
        if (SB_FAULT(LABEL_TOO_LATE) && low < handle->era.base_count)
                low++;
        if (!low)
                return SB_BIRTH_FIRST;
        number = BASE_NUMBER(handle->era.bases[low - 1]);
        word = sb_load_acquire(era_base(&handle->segment, number)); /* A:base. */
        /* Another sweep has dropped it since. */
        if (SB_BASE_ERA(word) != BASE_ERA(handle->era.bases[low - 1]))
                return SB_BIRTH_FIRST;
        return SB_BIRTH_OF(number, SB_BASE_TAG(word));
}

void sb_era_drop_bases(struct sb_handle *handle)
{
        while (handle->era.drop_count) {
                uint32_t label = handle->era.drops[--handle->era.drop_count];
                struct sb_word64 *base = era_base(&handle->segment, SB_BIRTH_BASE(label));
                uint64_t word = sb_load_acquire(base); /* A:base. */

                if (SB_BASE_ERA(word) && SB_BASE_TAG(word) == SB_BIRTH_TAG(label))
                        /* R:base > A:base. A label that still names it means the beginning. */
                        sb_cas64_full(base, word, SB_BASE(0, SB_BASE_TAG(word)));
        }
}

/* ---- a handle begins ---- */

uint64_t sb_era_space(const struct sb_geometry *geometry)
{
        return geometry->record_count *
               (sizeof(struct sb_era_pin) +
                       SB_RECORD_BASES * (sizeof(uint64_t) + sizeof(uint32_t)));
}

void sb_era_init(struct sb_handle *handle, void *space)
{
        uint32_t count = handle->segment.geometry.record_count;

        handle->era.pins = space;
        handle->era.bases = (uint64_t *)(handle->era.pins + count);
        handle->era.drops = (uint32_t *)(handle->era.bases + SB_RECORD_BASES * count);
        handle->era.looked = 0; /* The handle has not looked yet: no era is over. */
        /* A:sweep. As in sb_era_read_pins(). */
        handle->era.floor = sb_load_acquire(&handle->segment.super->birth_floor);
}
