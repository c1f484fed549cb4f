/*
 * Vacancies: hints at the units in which a block, or the whole unit, may be taken: so finding one
 * costs the same however full the bus is.
 *
 * How it works: for each list below the segment has a bit for each unit; and one word more, each
 * bit of which says that in 1/64 of the units some have their bits set:
 *
 *      FREE     units that are FREE
 *      EMPTY    units that are EMPTY: they serve any kind once their grace period is over
 *      GUARDS   slabs of guard words without an owner, with a free block
 *      a list for each kind (versions, nodes) and class: slabs of it without an owner that have a
 *               free block, and EMPTY units that were such slabs
 *
 * The process that makes a unit fit for a list (it clears a block's bit, or gives the unit up) sets
 * the bit there behind it. The process that follows a bit and finds the unit unfit clears the bit,
 * and looks at the unit once more.
 *
 * Always true:
 *
 * - A bit is a hint: what may be taken, the unit's word and bitmap say.
 *
 * - Without a kill, no unit that is fit for a list lacks its bit there for longer than one call
 *   takes: the unit becomes fit before its bit is set, and a bit is cleared before the unit is
 *   looked at once more; each of the four steps is a locked instruction or comes behind one.
 *
 * - A process that is killed or stopped in between hides the hint at one unit; or those at 1/64 of
 *   the units, where it has cleared the list's own bit and not looked again. The next hint there
 *   shows them, and so does the next sweep, which a writer without room does itself.
 */
#ifndef SB_MEMORY_VACANCY_H
#define SB_MEMORY_VACANCY_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

#define SB_VACANCY_NONE UINT32_MAX

/* Numbers of the lists. */
enum { SB_VACANCY_FREE, SB_VACANCY_EMPTY, SB_VACANCY_GUARDS, SB_VACANCY_SLABS };
static inline uint32_t sb_vacancy_list(
        const struct sb_segment *segment, enum sb_unit_kind kind, uint32_t class_)
{
        return kind == SB_UNIT_GUARDS
                       ? SB_VACANCY_GUARDS
                       : SB_VACANCY_SLABS + (kind == SB_UNIT_NODES ? segment->class_count : 0) +
                                 class_;
}

/* Whether the list may have any unit at all. */
bool sb_vacancy_any(const struct sb_segment *segment, uint32_t list);
/* Whether the unit's bit is set. */
bool sb_vacancy_has(const struct sb_segment *segment, uint32_t list, uint32_t unit);
/* The list's first unit of first .. end-1, or SB_VACANCY_NONE. */
uint32_t sb_vacancy_next(
        const struct sb_segment *segment, uint32_t list, uint32_t first, uint32_t end);
/* The highest of @count units in a row below @end that the list has, or SB_VACANCY_NONE: the number
 * of the first of them. */
uint32_t sb_vacancy_run(
        const struct sb_segment *segment, uint32_t list, uint32_t count, uint32_t end);

/* Set the unit's bit, behind a locked instruction that made the unit fit. */
void sb_vacancy_set(const struct sb_segment *segment, uint32_t list, uint32_t unit);
/* Clear the unit's bit. The caller owns the unit, or looks at it once more. */
void sb_vacancy_clear(const struct sb_segment *segment, uint32_t list, uint32_t unit);

#endif
