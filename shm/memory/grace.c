/* A look at all clients, for the blocks in limbo; see grace.h. */

#include "shm/memory/grace.h"

#include <stddef.h>
#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"

#define FETCH_AHEAD 8u /* entries */

static void grace_block(struct sb_grace *grace, uint32_t i)
{
        grace->blocked[i / 64] |= UINT64_C(1) << (i % 64);
}

/* Whether a pin or a guard holds entry @i. The fault MAGAZINE_NO_GRACE lets the magazine have its
 * blocks all the same. */
static bool grace_is_blocked(
        const struct sb_handle *handle, const struct sb_grace *grace, uint32_t i)
{
        return (grace->blocked[i / 64] >> (i % 64) & 1) &&
               !(handle->limbo.entries[i].held && SB_FAULT(MAGAZINE_NO_GRACE));
}

static uint32_t grace_hash(uint64_t offset)
{
        return (uint32_t)((offset >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % SB_LIMBO_MAX;
}

/* Whether a node in its first grace period is as it was dated. A process that takes the block for
 * another life resets these words before the block counts as taken: so the model checker need not
 * judge the loads. */
static bool grace_node_waits(const struct sb_limbo_entry *entry, struct sb_node *node)
{
        bool waits;

        sb_model_unchecked_begin();
        /* A:retire, all three. A new life resets cell and unhooked first. */
        waits = !sb_load_acquire(&node->block.retire) &&
                sb_load_acquire(&node->cell) == SB_NODE_GONE &&
                sb_load_acquire(&node->unhooked) == sb_era_low(entry->era);
        sb_model_unchecked_end();
        return waits;
}

/* Which bit of its unit's bitmap is the block's. Of a large one the first: it begins the unit. */
static uint32_t grace_index_of(const struct sb_segment *segment, const struct sb_limbo_entry *entry)
{
        uint32_t class_ = entry->unit_kind & 63;

        return class_ < segment->class_count
                       ? sb_unit_index(segment, sb_limbo_offset(entry), class_)
                       : 0;
}

/* Whether the block is taken. A free one has a word of any life, and what its unit held meanwhile
 * may look like any date; a block that is taken again has its words reset before its bit is set. So
 * the bit is asked before the words that count: of a node in its first grace period those of this
 * look, of all else the date, when the retire word is won. */
static bool grace_is_taken(const struct sb_segment *segment, const struct sb_limbo_entry *entry)
{
        uint32_t index = grace_index_of(segment, entry);
        const struct sb_word64 *bits =
                sb_unit_bitmap(segment, sb_unit_of(segment, sb_limbo_offset(entry)));

        return SB_FAULT(FREE_BY_DATE_ALONE) ||
               (sb_load_acquire(&bits[index / 64]) >> (index % 64) & 1); /* A:block-taken. */
}

bool sb_grace_may_go(const struct sb_handle *handle, const struct sb_limbo_entry *entry)
{
        /* In the era behind the date another process can free the block; in the next one its unit
         * can begin another life, and behind that, as a part of a large block, one of this kind. */
        return SB_LIKELY(sb_pin_era(handle) - entry->era < 2) ||
               grace_is_taken(&handle->segment, entry);
}

/* Whether the words of an entry's block are as they were dated. */
static bool grace_words_wait(
        const struct sb_handle *handle, const struct sb_limbo_entry *entry, struct sb_block *block)
{
        if (!(entry->offset & SB_LIMBO_FIRST_GRACE))
                /* A:retire. Of this life. */
                return sb_load_acquire(&block->retire) == sb_era_low(entry->era);
        return sb_grace_may_go(handle, entry) && grace_node_waits(entry, (struct sb_node *)block);
}

/* Whether no process has brought the block further. The unit has its kind and class of then before
 * and after the look, so that this still is the start of a block and holds a retire word. Once
 * this client's pin covers the era, the unit was nothing else in between, and becomes nothing else
 * as long as the pin lasts. */
static bool grace_still_waits(
        struct sb_handle *handle, const struct sb_limbo_entry *entry, struct sb_block *block)
{
        uint64_t offset = sb_limbo_offset(entry);

        return sb_unit_kind_of(&handle->segment, offset) == entry->unit_kind &&
               grace_words_wait(handle, entry, block) &&
               sb_unit_kind_of(&handle->segment, offset) == entry->unit_kind;
}

/* Prefetch what freeing a block takes: its retire word and its bit. */
static void grace_fetch(const struct sb_segment *segment, const struct sb_limbo_entry *entry)
{
        uint64_t within = sb_limbo_offset(entry) - segment->geometry.units_at;

        sb_prefetch_write(segment->base + sb_limbo_offset(entry));
        sb_prefetch_write(segment->base + segment->geometry.bitmaps_at +
                          (within >> segment->unit_shift) * segment->geometry.bitmap_stride +
                          grace_index_of(segment, entry) / 8);
}

static void grace_keep(struct sb_handle *handle, uint32_t i, const struct sb_limbo_entry *entry)
{
        if (SB_UNLIKELY(entry != &handle->limbo.entries[i]))
                handle->limbo.entries[i] = *entry;
}

/* Drop the entries that other processes have brought further meanwhile. What is in the magazine, no
 * other process touches. The words are read under this client's pin: a block that is dated before
 * the pin's era cannot get the same date in a later life, and one that is dated in it cannot be
 * freed by others. */
static void grace_drop_stale(struct sb_handle *handle, struct sb_grace *grace)
{
        uint32_t i, kept = 0;

        for (i = 0; i < handle->limbo.count; i++) {
                struct sb_limbo_entry *entry = &handle->limbo.entries[i];
                struct sb_block *block = sb_block_at(&handle->segment, sb_limbo_offset(entry));
                bool same;

                if (entry->held) {
                        grace_keep(handle, kept++, entry);
                        continue;
                }
                if (i + FETCH_AHEAD < handle->limbo.count &&
                        !handle->limbo.entries[i + FETCH_AHEAD].held)
                        grace_fetch(&handle->segment, &handle->limbo.entries[i + FETCH_AHEAD]);
                do {
                        same = grace_still_waits(handle, entry, block);
                } while (!sb_pin_covers(handle));
                if (!same)
                        continue;
                grace_keep(handle, kept++, entry);
        }
        handle->limbo.count = kept;
        grace->count = kept;
}

/* Make each pin visible that covers a load from before an unlink. The fault: NO_MEMBARRIER. */
static void grace_flush_pins(const struct sb_handle *handle)
{
        if (!SB_FAULT(NO_MEMBARRIER))
                /* M:pins. Readers publish their pins without a fence. */
                handle->segment.os->membarrier(handle->segment.os->context);
}

/* The fault PINS_READ_EARLY: the pins are read before they are flushed; the guards are not. */
static void grace_read_pins(struct sb_handle *handle, bool early)
{
        if (early == SB_FAULT(PINS_READ_EARLY))
                /* The pin's era was loaded before the stores were flushed. */
                sb_era_read_pins(handle, sb_pin_era(handle));
}

static void grace_mark_pinned(struct sb_handle *handle, struct sb_grace *grace)
{
        const uint64_t oldest = sb_era_oldest(handle);
        uint32_t i;

        for (i = 0; i < grace->count; i++) {
                const struct sb_limbo_entry *entry = &handle->limbo.entries[i];

                if (SB_UNLIKELY(entry->era >= oldest) &&
                        sb_era_protected(handle, entry->era, entry->birth))
                        grace_block(grace, i);
        }
}

static void grace_index(const struct sb_handle *handle, struct sb_grace *grace)
{
        memset(grace->first, 0, sizeof(grace->first));
        for (uint32_t i = 0; i < grace->count; i++) {
                uint32_t hash = grace_hash(sb_limbo_offset(&handle->limbo.entries[i]));

                grace->then[i] = grace->first[hash];
                grace->first[hash] = (uint16_t)(i + 1);
        }
        grace->indexed = true;
}

/* Whatever waits at @offset is held. */
static void grace_mark_offset(struct sb_handle *handle, struct sb_grace *grace, uint64_t offset)
{
        uint32_t i;

        if (!grace->indexed)
                grace_index(handle, grace);
        for (i = grace->first[grace_hash(offset)]; i; i = grace->then[i - 1])
                if (sb_limbo_offset(&handle->limbo.entries[i - 1]) == offset)
                        grace_block(grace, i - 1);
}

static void grace_read_guards(struct sb_handle *handle, struct sb_grace *grace)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_roster_walk walk = {.segment = segment};
        struct sb_record *record;
        uint64_t count, offset;
        uint32_t index;

        while ((record = sb_roster_next(&walk))) {
                /* A:guard. No guard is set beyond it yet. */
                count = sb_load_acquire(&record->guard_high);
                for (index = 0; index < count && index < SB_GUARDS_MAX; index++) {
                        offset = sb_guard_read(segment, record, index);
                        if (offset)
                                grace_mark_offset(handle, grace, offset);
                }
        }
}

/* The fault FREE_GUARDS_FIRST: the guards are read before the pins. */
static void grace_mark_guarded_early(struct sb_handle *handle, struct sb_grace *grace)
{
        if (SB_FAULT(FREE_GUARDS_FIRST))
                grace_read_guards(handle, grace);
}

/* After the pins. The fault FREE_IGNORES_GUARDS leaves it out. */
static void grace_mark_guarded(struct sb_handle *handle, struct sb_grace *grace)
{
        if (!SB_FAULT(FREE_GUARDS_FIRST) && !SB_FAULT(FREE_IGNORES_GUARDS))
                grace_read_guards(handle, grace);
}

/* Whether something in limbo is to be a spare that was dated in this era: that must be over. */
static bool grace_has_young_spare(const struct sb_handle *handle)
{
        uint64_t era = sb_load_acquire(&handle->segment.super->era); /* A:era. */
        uint32_t i = handle->limbo.count;

        while (i--)
                if (handle->limbo.entries[i].spare && handle->limbo.entries[i].era >= era)
                        return true;
        return false;
}

void sb_grace_look(struct sb_handle *handle, struct sb_grace *ret)
{
        memset(ret, 0, offsetof(struct sb_grace, first));
        if (!handle->limbo.ripened || grace_has_young_spare(handle))
                sb_era_advance(handle);
        handle->limbo.ripened = false;
        sb_pin(handle);
        grace_drop_stale(handle, ret);
        grace_mark_guarded_early(handle, ret);
        grace_read_pins(handle, true);
        grace_flush_pins(handle);
        grace_read_pins(handle, false);
        grace_mark_pinned(handle, ret);
        grace_mark_guarded(handle, ret);
}

bool sb_grace_next(struct sb_handle *handle, struct sb_grace *grace, struct sb_limbo_entry *ret)
{
        for (; grace->next < grace->count; grace->next++) {
                uint32_t i = grace->next;

                if (grace_is_blocked(handle, grace, i))
                        continue;
                *ret = handle->limbo.entries[i];
                handle->limbo.entries[i].offset = 0;
                grace->next++;
                return true;
        }
        return false;
}

void sb_grace_end(struct sb_handle *handle)
{
        uint32_t i, kept = 0, held = 0;

        for (i = 0; i < handle->limbo.count; i++)
                if (handle->limbo.entries[i].offset) {
                        held += handle->limbo.entries[i].held != 0;
                        handle->limbo.entries[kept++] = handle->limbo.entries[i];
                }
        handle->limbo.count = kept;
        /* A magazine serves its client's next writes. Blocks that another client's pin or guard
         * keeps for long are of no use to it. */
        if (held > handle->magazine.limit / 2)
                held = sb_magazine_release_waiting(handle);
        /* These blocks are dated, so that a sweep finds them, and the list takes new ones. */
        if (kept > SB_LIMBO_MAX / 2) {
                held = sb_magazine_release_waiting(handle);
                handle->limbo.count = SB_LIMBO_MAX / 4;
                sb_limbo_leave(handle);
        }
        sb_magazine_expect(handle, handle->limbo.count - held);
}
