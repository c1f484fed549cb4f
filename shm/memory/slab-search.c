/*
 * Searches for units that serve as slabs; see slab-search.h.
 *
 * Always true: a unit's word decides which process owns it. Hints, and what is counted before the
 * word is won, only say where to look.
 */

#include "shm/memory/slab-search.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/era.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"

#define NO_UNIT        SB_SLAB_NO_UNIT
#define ALL_FREE       UINT32_MAX /* blocks */
#define UNITS_ENDS     64u        /* fewer units have no two ends */
#define NODES_PART     4u         /* of the reserve */
#define RESERVE_FEW    3u         /* units: fewer are divided by blocks */
#define LOOK_ROOMY     8u         /* slabs of which one shall have a quarter free */
#define LOOK_EMPTY     8u         /* EMPTY units */
#define LOOK_EMPTY_ALL 64u        /* after a look at all pins */
#define LOOK_REST_MAX  15u        /* searches between looks at all pins that found nothing */

/* Whether what is taken now may have the whole reserve. Fault RESERVE_UNDIVIDED: any tombstone may.
 */
static bool slab_search_takes_whole(const struct sb_handle *handle)
{
        return handle->slabs.takes_own || SB_FAULT(RESERVE_UNDIVIDED);
}

/* The unit behind the last one of the reserve that may be taken now. */
static uint32_t slab_search_reserve_end(const struct sb_handle *handle)
{
        const struct sb_geometry *g = &handle->segment.geometry;

        if (g->reserve_count < RESERVE_FEW || slab_search_takes_whole(handle))
                return g->unit_count;
        return g->unit_count - (g->reserve_count + 3) / 4;
}

uint32_t sb_slab_search_block_count(const struct sb_handle *handle, uint32_t class_, bool reserve)
{
        const struct sb_geometry *g = &handle->segment.geometry;
        uint32_t count = g->unit_size / handle->segment.class_size[class_], own;

        if (!reserve || g->reserve_count >= RESERVE_FEW || slab_search_takes_whole(handle))
                return count;
        own = g->reserve_count < 2 && count < 8 ? 2 : (count + 3) / 4;
        return own < count ? count - own : 1;
}

uint32_t sb_slab_search_count_free(const struct sb_segment *segment)
{
        const struct sb_geometry *g = &segment->geometry;
        uint32_t count = 0, unit;

        for (unit = 0; unit < g->unit_count - g->reserve_count; unit++) {
                enum sb_unit_kind kind = SB_UNIT_KIND(sb_unit_word(segment, unit));

                count += kind == SB_UNIT_FREE || kind == SB_UNIT_EMPTY;
        }
        return count;
}

bool sb_slab_search_holds(const struct sb_handle *handle, uint32_t count)
{
        uint64_t held = handle->segment.super->held_units;

        return SB_UNLIKELY(held) && !SB_FAULT(UNITS_UNHELD) &&
               sb_slab_search_count_free(&handle->segment) < held + count;
}

/* A search for a unit that serves as a slab of one kind and class, among first .. end-1. */
struct search {
        uint64_t wanted; /* the unit's word, with this client as its owner */
        uint32_t first, end;
        uint32_t block_count; /* in each: those that it may take */
        bool waits;           /* an EMPTY unit waits for its grace period */
};

static uint64_t slab_search_unowned(const struct search *search)
{
        return search->wanted & ~UINT64_C(0x003fffffffffffff);
}

static uint32_t slab_search_quarter(const struct search *search)
{
        return (search->block_count + 3) / 4;
}

/* Become the owner of the unit, of which the word is @word. */
static bool slab_search_claim(
        struct sb_handle *handle, const struct search *search, uint32_t unit, uint64_t word)
{
        uint64_t unowned = slab_search_unowned(search);

        /* R:unit-owned > A:unit-owned. One process becomes the owner. */
        if (!sb_cas64_full(&handle->segment.unit_words[unit], word, search->wanted))
                return false;
        /* Of another kind or class than before, if there was any: that is another life. */
        if (word != unowned && (SB_UNIT_KIND(word) != SB_UNIT_EMPTY ||
                                       SB_UNIT_CLASS(word) != SB_UNIT_CLASS(unowned) ||
                                       SB_UNIT_WAS(word) != SB_UNIT_KIND(unowned)))
                sb_unit_set_birth(handle, unit);
        sb_unit_taken(&handle->segment, unit, word);
        return true;
}

/* Look at a unit that the list hints at. Return: how many blocks of the slab are free, up to
 * @enough; ALL_FREE: it is an EMPTY unit that was such a slab; 0: it is not for this search, or has
 * nothing free, and the hint goes. */
static uint32_t slab_search_look(struct sb_handle *handle, const struct search *search,
        uint32_t list, uint32_t unit, uint32_t enough, uint64_t *ret_word)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t unowned = slab_search_unowned(search), word = sb_unit_word(segment, unit);
        enum sb_unit_kind kind = SB_UNIT_KIND(unowned);
        uint32_t count = 0;

        *ret_word = word;
        if (word == unowned)
                count = sb_unit_count_some(segment, unit, search->block_count, enough);
        else if (SB_UNIT_KIND(word) == SB_UNIT_EMPTY &&
                 SB_UNIT_CLASS(word) == SB_UNIT_CLASS(unowned) && SB_UNIT_WAS(word) == kind)
                return ALL_FREE;
        /* Guards of all classes are in one list, and they are few. */
        else if (kind == SB_UNIT_GUARDS && SB_UNIT_KIND(word) == kind && !SB_UNIT_OWNER(word))
                return 0;
        if (!count)
                sb_unit_unhint(segment, list, unit);
        return count;
}

/* The lowest unit that the list of the kind and class hints at: a slab with a free block, or an
 * EMPTY unit that was such a slab. */
static uint32_t slab_search_list(struct sb_handle *handle, const struct search *search)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t list = sb_vacancy_list(
                         segment, SB_UNIT_KIND(search->wanted), SB_UNIT_CLASS(search->wanted)),
                 unit;
        uint64_t word;

        for (unit = sb_vacancy_next(segment, list, search->first, search->end);
                unit != SB_VACANCY_NONE;
                unit = sb_vacancy_next(segment, list, unit + 1, search->end))
                if (slab_search_look(handle, search, list, unit, 1, &word) &&
                        slab_search_claim(handle, search, unit, word))
                        return unit;
        return NO_UNIT;
}

/* Whether so many units are FREE that slabs of versions with little room can wait until they have
 * more: one of the lowest three eighths is. Versions begin there, and they can move, should the bus
 * become full. What moves goes where it is dense. */
static bool slab_search_has_plenty(const struct sb_handle *handle, const struct search *search)
{
        return SB_UNIT_KIND(search->wanted) == SB_UNIT_VERSIONS && !search->first &&
               !handle->window.moves &&
               sb_vacancy_next(&handle->segment, SB_VACANCY_FREE, 0, search->end / 8 * 3) !=
                       SB_VACANCY_NONE;
}

/* A slab that has a quarter free, of the next LOOK_ROOMY that the list hints at: each of them gets
 * its turn, so what became free in it since the last one is taken at once. */
static uint32_t slab_search_roomy(struct sb_handle *handle, const struct search *search)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t list = sb_vacancy_list(
                         segment, SB_UNIT_KIND(search->wanted), SB_UNIT_CLASS(search->wanted)),
                 quarter = slab_search_quarter(search), unit;
        uint64_t word;

        for (uint32_t looked = 0; looked < LOOK_ROOMY; looked++) {
                unit = sb_vacancy_next(segment, list, handle->slabs.roomy_next, search->end);
                if (unit == SB_VACANCY_NONE)
                        unit = sb_vacancy_next(segment, list, 0, search->end);
                if (unit == SB_VACANCY_NONE)
                        return NO_UNIT;
                handle->slabs.roomy_next = unit + 1;
                if (slab_search_look(handle, search, list, unit, quarter, &word) >= quarter &&
                        slab_search_claim(handle, search, unit, word))
                        return unit;
        }
        return NO_UNIT;
}

/* A FREE unit: the lowest one for versions, which can move (upkeep/move.h); the highest one for
 * what cannot. Large values find units in a row in between. */
static uint32_t slab_search_free(struct sb_handle *handle, const struct search *search)
{
        const struct sb_segment *segment = &handle->segment;
        bool moves = SB_UNIT_KIND(search->wanted) == SB_UNIT_VERSIONS ||
                     segment->geometry.unit_count < UNITS_ENDS; /* so few have no two ends */
        uint32_t first = search->first, end = search->end, unit;

        for (;;) {
                unit = moves ? sb_vacancy_next(segment, SB_VACANCY_FREE, first, end)
                             : sb_vacancy_run(segment, SB_VACANCY_FREE, 1, end);
                if (unit == SB_VACANCY_NONE || unit < first)
                        return NO_UNIT;
                if (sb_unit_word(segment, unit))
                        sb_unit_unhint(segment, SB_VACANCY_FREE, unit);
                else if (slab_search_claim(handle, search, unit, 0))
                        return unit;
                first = moves ? unit + 1 : first;
                end = moves ? end : unit;
        }
}

/* The same. Eras pass with what is taken, too: a client that is stopped protects nothing younger.
 */
static uint32_t slab_search_fresh(struct sb_handle *handle, const struct search *search)
{
        sb_era_advance(handle);
        return slab_search_free(handle, search);
}

/* The first of the next @count EMPTY units that is past its grace period. */
static uint32_t slab_search_empty(struct sb_handle *handle, struct search *search, uint32_t count)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t from = handle->slabs.empty_next, unit;

        if (from < search->first || from >= search->end)
                from = search->first;
        while (count--) {
                uint64_t word;

                unit = sb_vacancy_next(segment, SB_VACANCY_EMPTY, from, search->end);
                if (unit == SB_VACANCY_NONE)
                        unit = sb_vacancy_next(
                                segment, SB_VACANCY_EMPTY, search->first, search->end);
                if (unit == SB_VACANCY_NONE)
                        return NO_UNIT;
                from = handle->slabs.empty_next = unit + 1;
                word = sb_unit_word(segment, unit);
                if (SB_UNIT_KIND(word) != SB_UNIT_EMPTY) {
                        sb_unit_unhint(segment, SB_VACANCY_EMPTY, unit);
                        continue;
                }
                search->waits = true;
                if (sb_unit_past_grace(handle, unit, word) &&
                        slab_search_claim(handle, search, unit, word))
                        return unit;
        }
        return NO_UNIT;
}

/* A look at all pins, by which more EMPTY units may be past their grace periods; not each time,
 * unless nothing else is left. */
static uint32_t slab_search_past_grace(struct sb_handle *handle, struct search *search, bool last)
{
        uint32_t unit;

        handle->slabs.look_skipped = handle->slabs.look_rest && !last;
        if (handle->slabs.look_skipped) {
                handle->slabs.look_rest--;
                return NO_UNIT;
        }
        sb_era_look(handle);
        unit = slab_search_empty(handle, search, LOOK_EMPTY_ALL);
        if (unit != NO_UNIT)
                handle->slabs.look_wait = 0;
        else if (handle->slabs.look_wait < LOOK_REST_MAX)
                handle->slabs.look_wait = handle->slabs.look_wait * 2 + 1;
        handle->slabs.look_rest = handle->slabs.look_wait;
        return unit;
}

/* Become the owner of a unit of @search that serves as a slab: of one of the kind and class that
 * has a free block, else as @effort says. Return: the unit, or NO_UNIT. */
static uint32_t slab_search_units(
        struct sb_handle *handle, struct search *search, enum sb_slab_effort effort)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t unit = NO_UNIT;

        /* Not guards: a full bus can be read. */
        if (effort != SB_SLABS_ALONE && !search->first &&
                SB_UNIT_KIND(search->wanted) != SB_UNIT_GUARDS && sb_slab_search_holds(handle, 1))
                effort = SB_SLABS_ALONE;
        if (effort != SB_SLABS_ALONE && slab_search_has_plenty(handle, search)) {
                unit = slab_search_roomy(handle, search);
                if (unit == NO_UNIT)
                        unit = slab_search_fresh(handle, search);
        }
        if (unit == NO_UNIT &&
                sb_vacancy_any(segment, sb_vacancy_list(segment, SB_UNIT_KIND(search->wanted),
                                                SB_UNIT_CLASS(search->wanted))))
                unit = slab_search_list(handle, search);
        if (unit != NO_UNIT || effort == SB_SLABS_ALONE)
                return unit;
        unit = slab_search_fresh(handle, search);
        if (unit == NO_UNIT && sb_vacancy_any(segment, SB_VACANCY_EMPTY)) {
                unit = slab_search_empty(handle, search, LOOK_EMPTY);
                if (unit == NO_UNIT && search->waits)
                        unit = slab_search_past_grace(
                                handle, search, effort == SB_SLABS_FRESH_LAST);
        }
        return unit;
}

uint32_t sb_slab_search(struct sb_handle *handle, enum sb_unit_kind kind, uint32_t class_,
        enum sb_slab_effort effort, bool reserve)
{
        const struct sb_geometry *g = &handle->segment.geometry;
        uint32_t limit = g->unit_count - g->reserve_count, unit;
        struct search search = {
                .wanted = SB_UNIT_WORD(kind, class_, 0, 0) | sb_unit_owner(handle),
                .first = reserve ? limit : 0,
                .end = reserve ? slab_search_reserve_end(handle) : limit,
                .block_count = sb_slab_search_block_count(handle, class_, reserve),
        };

        unit = slab_search_units(handle, &search, effort);
        if (unit != NO_UNIT || kind != SB_UNIT_NODES)
                return unit;
        search.first = limit;
        search.end = limit + g->reserve_count / NODES_PART;
        return slab_search_units(handle, &search, effort);
}
