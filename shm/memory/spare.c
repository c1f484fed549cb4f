/* Spares: put on the list and taken off it; see spare.h. */

#include "shm/memory/spare.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"

/* Put a block on its list, which has space for it; in the era @known its grace period was over. */
static void spare_put(struct sb_handle *handle, const struct sb_spare *spare, uint64_t known)
{
        struct sb_spares *spares = &handle->spares;
        uint32_t class_ = spare->unit_kind & 63, number = spares->free;

        if (!spares->count++ || known < spares->known)
                spares->known = known;
        if (number)
                spares->free = spares->entries[number].next;
        else
                number = ++spares->used;
        spares->entries[number] = *spare;
        spares->entries[number].next = spares->first[class_];
        spares->first[class_] = (uint16_t)number;
        spares->missed &= ~(UINT64_C(1) << class_);
        if (spare->kept)
                spares->kept += handle->segment.class_size[class_];
}

/* Whether a block of a class of which the magazine has no share is within this client's part of
 * what all clients may keep. */
static bool spare_has_space(const struct sb_handle *handle, uint32_t class_)
{
        return handle->spares.kept + handle->segment.class_size[class_] <= handle->magazine.keeps;
}

/* Whether the era of a date was over at the last look. */
static bool spare_is_over(const struct sb_handle *handle, uint64_t era)
{
        return era < sb_era_looked(handle) || SB_FAULT(SPARE_ERA_OPEN);
}

/* Whether the spares were found free so long before @era that their dates may be later ones. */
static bool spare_is_old(const struct sb_handle *handle, uint64_t era)
{
        return era - handle->spares.known > SB_ERA_OLD && !SB_FAULT(SPARE_OLD_BELIEVED);
}

bool sb_spare_add(struct sb_handle *handle, const struct sb_limbo_entry *waiting)
{
        uint32_t class_ = waiting->unit_kind & 63;
        bool large = class_ >= handle->magazine.class_end;

        if (!waiting->spare || !spare_is_over(handle, waiting->era) ||
                handle->spares.count == SB_LIMBO_MAX || (large && !spare_has_space(handle, class_)))
                return false;
        spare_put(handle,
                &(struct sb_spare){.offset = waiting->offset,
                        .era = waiting->era,
                        .unit_kind = waiting->unit_kind,
                        .kept = large},
                sb_era_looked(handle));
        return true;
}

/* Date a block that was never published, and say that it is a plain version, not what it was in its
 * life before. A process that holds its offset from then may look at it just now. */
static void spare_date(struct sb_handle *handle, uint64_t offset, uint64_t era)
{
        struct sb_version *version = (struct sb_version *)(handle->segment.base + offset);

        sb_model_unchecked_begin();
        if (!SB_FAULT(SPARE_SHAPE_KEPT))
                version->shape = SB_SHAPE(0, 0, SB_VERSION_VALUE, handle->slot);
        /* Relaxed: published with the date. */
        sb_store_relaxed(&version->block.birth, sb_era_low(era));
        /* R:retire > A:retire. From here on a sweep finds it. */
        sb_store_release(&version->block.retire, sb_era_low(era));
        sb_model_unchecked_end();
}

/* Whether a block out of a slab is dated. Fault SPARES_DATED_ONCE: not beside other spares. */
static bool spare_is_dated(const struct sb_handle *handle)
{
        return !SB_FAULT(SPARES_DATED_ONCE) || !handle->spares.count;
}

bool sb_spare_keep(struct sb_handle *handle, uint64_t offset)
{
        uint32_t unit_kind = sb_unit_kind_of(&handle->segment, offset);
        uint64_t era = sb_load_acquire(&handle->segment.super->era); /* A:era. */

        /* The date is the era before, and has to be one. */
        if (handle->spares.count == SB_LIMBO_MAX || sb_era_low(era) <= SB_ERA_MIN)
                return false;
        if (spare_is_dated(handle))
                spare_date(handle, offset, era - 1);
        spare_put(handle,
                &(struct sb_spare){
                        .offset = offset, .era = era - 1, .unit_kind = unit_kind, .kept = true},
                era);
        return true;
}

/* Take the first spare of a class off its list, which is not empty. */
static struct sb_spare spare_take(struct sb_handle *handle, uint32_t class_)
{
        struct sb_spares *spares = &handle->spares;
        uint32_t number = spares->first[class_];
        struct sb_spare spare = spares->entries[number];

        spares->first[class_] = (uint16_t)spare.next;
        spares->entries[number].next = spares->free;
        spares->free = number;
        spares->count--;
        if (spare.kept)
                spares->kept -= handle->segment.class_size[class_];
        return spare;
}

/* Whether no process has brought the block further, so that the place still is a block that has a
 * retire word; it stays one as long as the pin lasts. The bit is asked before the word: a block
 * that was taken again has its word reset before its bit is set, and what a unit held in another
 * life may look like any date. */
static bool spare_waits(struct sb_handle *handle, const struct sb_spare *spare)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_block *block = sb_block_at(segment, spare->offset);
        bool same;

        /* It was found free ages ago: perhaps its date is one of a later life. A sweep looks. */
        if (SB_UNLIKELY(spare_is_old(handle, sb_pin_era(handle)))) {
                sb_limbo_leave(handle);
                return false;
        }
        do
                same = sb_unit_kind_of(segment, spare->offset) == spare->unit_kind &&
                       sb_unit_is_block(segment, spare->offset, SB_UNIT_VERSIONS, NULL) &&
                       /* A:retire. Of this life. */
                       sb_load_acquire(&block->retire) == sb_era_low(spare->era);
        while (!sb_pin_covers(handle));
        return same;
}

/* Win the retire word of a spare that waits. The fault SPARE_NOT_WON takes it as won. */
static bool spare_win(struct sb_handle *handle, const struct sb_spare *spare)
{
        struct sb_block *block = sb_block_at(&handle->segment, spare->offset);
        uint64_t era;

        if (SB_FAULT(SPARE_NOT_WON)) {
                /* R:retire, whatever the word says by now: that is the fault. */
                sb_store_release(&block->retire, SB_RETIRE_FREEING | handle->slot);
                return true;
        }
        /* R:retire > A:retire. Behind the note in the magazine. */
        if (!sb_cas32_full(
                    &block->retire, sb_era_low(spare->era), SB_RETIRE_FREEING | handle->slot))
                return false;
        era = sb_load_acquire(&handle->segment.super->era); /* A:era. */
        if (SB_LIKELY(!spare_is_old(handle, era)))
                return true;
        /* That was ages ago: perhaps the date is one of a later life. The block begins its
         * grace period again. R:retire > A:retire. */
        sb_store_release(&block->retire, sb_era_low(era));
        sb_limbo_leave(handle);
        return false;
}

/* Note a spare in the magazine and win it. The fault SPARE_NOTE_LATE does it the other way round.
 * Return: its entry, or 0. */
static uint32_t spare_hold(struct sb_handle *handle, const struct sb_spare *spare)
{
        bool late = SB_FAULT(SPARE_NOTE_LATE), won = late && spare_win(handle, spare);
        uint32_t entry = sb_magazine_begin(handle, spare->offset);

        if (won || (!late && spare_win(handle, spare)))
                return entry;
        sb_magazine_vacate(handle, entry);
        return 0;
}

uint32_t sb_spare_draw_some(struct sb_handle *handle, uint32_t class_)
{
        uint32_t entry = 0;

        if (!sb_magazine_make_space(handle))
                return 0;
        sb_pin(handle);
        while (!entry && handle->spares.first[class_]) {
                struct sb_spare spare = spare_take(handle, class_);

                if (spare_waits(handle, &spare))
                        entry = spare_hold(handle, &spare);
        }
        sb_unpin(handle);
        if (entry)
                sb_magazine_keep(handle, class_, entry);
        return entry;
}

bool sb_spare_next(struct sb_handle *handle, struct sb_limbo_entry *ret)
{
        struct sb_spares *spares = &handle->spares;
        uint32_t class_;

        for (class_ = 0; spares->count && class_ < SB_CLASS_MAX; class_++)
                while (spares->first[class_]) {
                        struct sb_spare spare = spare_take(handle, class_);

                        if (!spare_waits(handle, &spare))
                                continue;
                        *ret = (struct sb_limbo_entry){.offset = spare.offset,
                                .era = spare.era,
                                .unit_kind = spare.unit_kind};
                        return true;
                }
        return false;
}
