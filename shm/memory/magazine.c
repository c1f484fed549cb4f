/* The magazine's slow ways: how much it may hold, giving blocks back, and a dead client's notes;
 * see magazine.h. */

#include "shm/memory/magazine.h"

#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/unit.h"

#define SPARE_SIZE_MAX 2048u /* bytes: what the short way of a write builds is not larger */
#define KEEPS_SHARE    16u   /* of the segment: what all clients together keep out of slabs */

/* Tell the model checker, to which a block that is ready is free memory until it is built in. */
static void magazine_tell(
        const struct sb_handle *handle, uint64_t offset, uint32_t class_, int allocated)
{
        sb_model_block(offset, handle->segment.class_size[class_], allocated);
}

/* Classes up to the size that the geometry's share is meant for, or up to what a larger share
 * allows. */
static uint32_t magazine_class_end(const struct sb_segment *segment)
{
        const struct sb_geometry *g = &segment->geometry;
        uint32_t class_end = 0;
        uint64_t most;

        if (!g->magazine_count)
                return 0;
        most = (uint64_t)g->unit_count * g->unit_size / 16 / g->record_count / g->magazine_count;
        if (most < SB_MAGAZINE_BLOCK)
                most = SB_MAGAZINE_BLOCK;
        while (class_end < segment->class_count && segment->class_size[class_end] <= most)
                class_end++;
        return class_end;
}

/* Where there is a magazine at all, larger classes go through it for a moment. */
static uint32_t magazine_pass_end(const struct sb_handle *handle)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t class_end = handle->magazine.class_end;

        while (class_end && class_end < segment->class_count &&
                segment->class_size[class_end] <= SPARE_SIZE_MAX)
                class_end++;
        return class_end;
}

void sb_magazine_init(struct sb_handle *handle)
{
        uint32_t entry;

        handle->magazine.words = sb_record_magazine(&handle->segment, handle->record) - 1;
        for (entry = handle->segment.geometry.magazine_count; entry; entry--) {
                handle->magazine.next[entry] = handle->magazine.free;
                handle->magazine.free = (uint16_t)entry;
        }
        handle->magazine.class_end = magazine_class_end(&handle->segment);
        sb_magazine_expect(handle, 0);
}

void sb_magazine_keep(struct sb_handle *handle, uint32_t class_, uint32_t entry)
{
        sb_magazine_put(handle, class_, entry);
        magazine_tell(handle, sb_magazine_offset(handle, entry), class_, 0);
}

bool sb_magazine_make_space(struct sb_handle *handle)
{
        if (handle->magazine.held >= handle->magazine.limit)
                sb_magazine_empty(handle);
        return handle->magazine.held < handle->magazine.limit;
}

void sb_magazine_ready(struct sb_handle *handle, const struct sb_limbo_entry *waiting)
{
        sb_magazine_keep(handle, waiting->unit_kind & 63, waiting->held);
        handle->counters.freed++;
}

void sb_magazine_release(struct sb_handle *handle, struct sb_limbo_entry *waiting)
{
        struct sb_block *block = sb_block_at(&handle->segment, waiting->offset);
        /* A:era. As for every block that is dated. */
        uint64_t era = sb_load_acquire(&handle->segment.super->era);

        sb_assert(block);
        /* It was in hand for so long that its date could be taken for another. A later one holds it
         * for a little longer. */
        if (SB_UNLIKELY(era - waiting->era > SB_ERA_OLD))
                waiting->era = era;
        /* R:retire > A:retire. From here on a sweep finds it. */
        sb_store_release(&block->retire, sb_era_low(waiting->era));
        sb_magazine_vacate(handle, waiting->held);
        waiting->held = 0;
}

void sb_magazine_pass(struct sb_handle *handle, struct sb_limbo_entry *waiting)
{
        sb_magazine_release(handle, waiting);
        waiting->spare = 1;
}

uint32_t sb_magazine_release_waiting(struct sb_handle *handle)
{
        uint32_t i;

        for (i = 0; i < handle->limbo.count; i++)
                if (handle->limbo.entries[i].held)
                        sb_magazine_release(handle, &handle->limbo.entries[i]);
        return 0;
}

void sb_magazine_empty(struct sb_handle *handle)
{
        uint32_t class_, entry;

        for (class_ = 0; class_ < SB_CLASS_MAX; class_++)
                while ((entry = sb_magazine_first(handle, class_)) != 0) {
                        uint64_t offset = sb_magazine_offset(handle, entry);

                        sb_magazine_take(handle, class_, entry);
                        magazine_tell(handle, offset, class_, 1);
                        /* The retire word says FREEING already. The bit goes before the note. */
                        sb_unit_clear(handle, offset);
                        sb_magazine_vacate(handle, entry);
                }
        handle->magazine.lacking = false;
}

void sb_magazine_release_all(struct sb_handle *handle)
{
        sb_magazine_release_waiting(handle);
        sb_magazine_empty(handle);
}

/* Say which classes become spares: @all of the magazine's, where its share is too small; or larger
 * ones, of which it has no share. */
static void magazine_pass_on(struct sb_handle *handle, bool all)
{
        handle->magazine.passes = all;
        handle->magazine.pass_from = all ? 0 : handle->magazine.class_end;
        handle->magazine.pass_end = all ? handle->magazine.class_end : magazine_pass_end(handle);
}

void sb_magazine_limit(struct sb_handle *handle)
{
        const struct sb_geometry *g = &handle->segment.geometry;
        /* The engine's record is not counted. */
        uint32_t clients = sb_roster_count(&handle->segment) - 1;
        uint32_t share = clients ? g->unit_count / 2 / clients : g->unit_count / 2;

        handle->magazine.keeps = (uint64_t)g->unit_count * g->unit_size / KEEPS_SHARE;
        handle->magazine.keeps /= clients ? clients : 1;
        handle->magazine.limit = g->magazine_count;
        magazine_pass_on(handle, g->magazine_count == SB_MAGAZINE_HANDS);
        if (g->magazine_count < SB_MAGAZINE_BATCH_MIN) /* such a count was asked for, or is least */
                return;
        if (share < handle->magazine.limit) {
                magazine_pass_on(handle, share < SB_MAGAZINE_BATCH_MIN);
                handle->magazine.limit = handle->magazine.passes ? SB_MAGAZINE_HANDS : share;
        }
        if (handle->magazine.held > handle->magazine.limit)
                sb_magazine_empty(handle);
}

/* How many blocks share a look at all clients, where the magazine does not say it: half of the
 * @space that limbo has left, or one for each client, so that a write's part in the look stays
 * small; an eighth of the space is for those that write on. */
static uint32_t magazine_batch(const struct sb_handle *handle, uint32_t space)
{
        uint32_t clients = sb_roster_count(&handle->segment);

        if (clients < space / 2)
                return space / 2;
        return clients < space - space / 8 ? clients : space - space / 8;
}

void sb_magazine_expect(struct sb_handle *handle, uint32_t old)
{
        uint32_t limit;

        sb_magazine_limit(handle);
        limit = handle->magazine.limit;
        handle->limbo.ripe = UINT32_MAX;
        handle->limbo.wake = SB_LIMBO_MAX / 2;
        if (limit >= SB_MAGAZINE_BATCH_MIN) {
                /* When no block of the magazine is ready any more. */
                handle->limbo.wake = old + limit - limit / 16;
                handle->limbo.ripe = old + limit - limit / 8;
        } else if (SB_LIMBO_MAX >= SB_MAGAZINE_BATCH_MIN) {
                handle->limbo.wake = old + magazine_batch(handle, SB_LIMBO_MAX - old);
                handle->limbo.ripe = handle->limbo.wake - SB_LIMBO_MAX / 16;
        }
}

bool sb_magazine_noted(const struct sb_segment *segment, uint32_t slot, uint64_t offset)
{
        struct sb_record *record;
        uint32_t i;

        if (slot >= segment->geometry.record_count)
                return false;
        record = sb_record_at(segment, slot);
        /* A:freeing. The note comes before the retire word that brought the caller here. */
        if (sb_load_acquire(&record->freeing) == offset)
                return true;
        for (i = 0; i < segment->geometry.magazine_count; i++)
                /* A:magazine. As above. */
                if (sb_load_acquire(&sb_record_magazine(segment, record)[i]) == offset)
                        return true;
        return false;
}
