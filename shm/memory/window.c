/* Choosing a window, and making a run of it; see window.h. */

#include "shm/memory/window.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/era.h"
#include "shm/memory/slab-search.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"

#define LOOK_WORDS 4096u      /* of units and bitmaps, in one call */
#define NEVER      UINT64_MAX /* bytes */
#define CHEAP      8u         /* of a run: a window in which no more lives is as good as any */
#define WAITS_MAX  16u        /* for what moved out of a window, and is held */
/* Windows without a rest where nothing that lives there has room: each costs a search. */
#define NO_ROOM_MAX 8u

/* ---- choosing ---- */

static uint64_t *window_refused(struct sb_handle *handle, uint32_t unit, uint64_t *ret_bit)
{
        /* Units of which the numbers differ by a multiple of SB_WINDOW_REFUSED share a bit: then
         * one more is passed by. */
        *ret_bit = UINT64_C(1) << (unit % 64);
        return &handle->window.refused[unit % SB_WINDOW_REFUSED / 64];
}

/* Where the large block begins that the unit is a part of; any other unit: itself. */
static uint32_t window_head(const struct sb_segment *segment, uint32_t unit)
{
        uint64_t word = sb_unit_word(segment, unit);
        uint32_t head = (uint32_t)word;

        return SB_UNIT_KIND(word) == SB_UNIT_PART && head < unit ? head : unit;
}

/* The era in which the unit became what it is. */
static uint64_t window_birth(struct sb_handle *handle, uint32_t unit)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t head = window_head(segment, unit);

        /* A:unit-owned. Where the birth is another by now, so is the word. */
        return sb_era_of_birth(handle, sb_load_acquire(&segment->unit_births[head]));
}

/* Whether this wait met something that keeps the unit from becoming part of a run. */
static bool window_is_refused(struct sb_handle *handle, uint32_t unit)
{
        uint64_t bit;

        return (*window_refused(handle, unit, &bit) & bit) ||
               window_birth(handle, unit) < handle->window.young;
}

/* ---- large blocks in a window ---- */

static bool window_is_part(const struct sb_segment *segment, uint32_t unit)
{
        return unit < segment->geometry.unit_count &&
               SB_UNIT_KIND(sb_unit_word(segment, unit)) == SB_UNIT_PART;
}

/* Whether a row of units has a part of a large block, and not all of it. Fault MOVE_PARTS: not
 * asked. */
static bool window_cuts(const struct sb_segment *segment, uint32_t first, uint32_t count)
{
        return !SB_FAULT(MOVE_PARTS) &&
               (window_is_part(segment, first) || window_is_part(segment, first + count));
}

/* Whether the large block that begins in @head has no owner and can be moved. Its parts are asked
 * one by one, and the first unit says of all how many there are. */
static bool window_is_movable(
        struct sb_handle *handle, uint32_t head, uint32_t unit, uint32_t *looked)
{
        const struct sb_segment *segment = &handle->segment;

        ++*looked;
        if (sb_unit_word(segment, head) != SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0) ||
                window_is_refused(handle, head))
                return false;
        if (head != unit)
                return true;
        *looked += sb_unit_large_count(segment, head);
        return !sb_unit_is_empty(segment, head) && (uint64_t)sb_unit_large_count(segment, head)
                                                                   << segment->unit_shift <=
                                                           SB_WINDOW_BLOCK_MAX;
}

/* Bytes that live in the unit, or NEVER: it is nothing that a client can take over and empty.
 * *looked: more by the words that were loaded. */
static uint64_t window_cost(struct sb_handle *handle, uint32_t unit, uint32_t *looked)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t word = sb_unit_word(segment, unit);
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        uint32_t count;

        ++*looked;
        if (kind == SB_UNIT_FREE)
                return 0;
        if (window_is_refused(handle, unit))
                return NEVER;
        if (kind == SB_UNIT_EMPTY)
                return 0;
        if (kind == SB_UNIT_LARGE || kind == SB_UNIT_PART)
                return window_is_movable(handle, window_head(segment, unit), unit, looked)
                               ? segment->geometry.unit_size
                               : NEVER;
        if (kind != SB_UNIT_VERSIONS || SB_UNIT_OWNER(word) ||
                SB_UNIT_CLASS(word) >= segment->class_count)
                return NEVER;
        count = sb_unit_block_count(segment, word);
        *looked += count / 64;
        return (uint64_t)(count - sb_unit_count_free(segment, unit, count)) *
               segment->class_size[SB_UNIT_CLASS(word)];
}

/* Go on looking, downwards, for the row of wanted units in which the fewest bytes live. True: all
 * were looked at, or a cheap one was found. */
static bool window_search(struct sb_handle *handle)
{
        struct sb_window *window = &handle->window;
        uint32_t looked = 0;
        uint64_t cheap = ((uint64_t)window->wanted << handle->segment.unit_shift) / CHEAP, cost;

        while (window->cursor && looked < LOOK_WORDS) {
                cost = window_cost(handle, --window->cursor, &looked);
                if (cost == NEVER) {
                        window->row = 0;
                        window->sum = 0;
                        continue;
                }
                window->sum += cost;
                if (++window->row > window->wanted) {
                        /* The highest unit of the row leaves it. What lives there may have changed
                         * since it was counted: the sum is what it costs about. */
                        cost = window_cost(handle, window->cursor + window->wanted, &looked);
                        window->sum -= cost < window->sum ? cost : 0;
                        window->row--;
                }
                if (window->row == window->wanted && window->sum < window->best_cost &&
                        !window_cuts(&handle->segment, window->cursor, window->wanted)) {
                        window->best = window->cursor;
                        window->best_cost = window->sum;
                        if (window->sum <= cheap)
                                return true;
                }
        }
        return !window->cursor;
}

static void window_search_anew(struct sb_window *window)
{
        window->cursor = window->limit;
        window->row = 0;
        window->sum = 0;
        window->best_cost = NEVER;
}

/* ---- owning ---- */

/* Become the owner of a unit, and leave it what it is; a FREE one becomes a large block that is not
 * taken. The owner of a large block owns its parts, which come behind. */
static bool window_own(struct sb_handle *handle, uint32_t unit)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t word = sb_unit_word(segment, unit), owned = word;
        enum sb_unit_kind kind = SB_UNIT_KIND(word);

        if (kind == SB_UNIT_PART)
                return window_head(segment, unit) >= handle->window.first &&
                       sb_unit_word(segment, window_head(segment, unit)) ==
                               (SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0) | sb_unit_owner(handle));
        if (kind == SB_UNIT_FREE)
                owned = SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0);
        else if (kind == SB_UNIT_EMPTY)
                owned = SB_UNIT_WORD(SB_UNIT_WAS(word), SB_UNIT_CLASS(word), 0, 0);
        else if ((kind != SB_UNIT_VERSIONS && kind != SB_UNIT_LARGE) || SB_UNIT_OWNER(word))
                return false;
        /* R:unit-owned > A:unit-owned. One process becomes the owner. */
        if (!sb_cas64_full(&segment->unit_words[unit], word, owned | sb_unit_owner(handle)))
                return false;
        if (kind == SB_UNIT_FREE)
                sb_unit_set_birth(handle, unit);
        sb_unit_taken(segment, unit, word);
        return true;
}

/* Behind the last one: whether all of each large block is in the window. */
static bool window_is_owned(struct sb_handle *handle)
{
        struct sb_window *window = &handle->window;

        while (window->count < window->wanted && window_own(handle, window->first + window->count))
                window->count++;
        return window->count == window->wanted &&
               !window_cuts(&handle->segment, window->first, window->count);
}

static void window_leave(struct sb_handle *handle)
{
        struct sb_window *window = &handle->window;

        while (window->count)
                if (!window_is_part(&handle->segment, window->first + --window->count))
                        sb_unit_give_up(handle, window->first + window->count);
        window->era = 0;
        window->waited = 0;
        window_search_anew(window);
}

static void window_note_refused(struct sb_handle *handle, uint32_t unit)
{
        uint64_t bit, *word = window_refused(handle, unit, &bit);

        *word |= bit;
}

/* What was held may be let go. */
static void window_forget_refused(struct sb_window *window)
{
        memset(window->refused, 0, sizeof(window->refused));
        window->young = 0;
}

bool sb_window_find(struct sb_handle *handle)
{
        struct sb_window *window = &handle->window;

        if (window->count || !window->wanted || !window_search(handle))
                return window->count;
        window->first = window->best;
        if (window->best_cost == NEVER) {
                window_forget_refused(window);
        } else {
                if (window_is_owned(handle))
                        return true;
                /* A client has taken it since the search was there: perhaps this one, for its try
                 * in between, and so at each try. */
                window_note_refused(
                        handle, window->first + window->count - (window->count == window->wanted));
        }
        window_leave(handle);
        return false;
}

void sb_window_refuse(struct sb_handle *handle, uint32_t unit)
{
        window_note_refused(handle, unit);
        window_leave(handle);
}

bool sb_window_found_no_room(struct sb_handle *handle)
{
        return ++handle->window.no_room % NO_ROOM_MAX != 0;
}

/* The unit is empty. If a client is pinned that can know it, that client knows all older ones, too:
 * they are refused. */
static void window_note_known(struct sb_handle *handle, uint32_t unit)
{
        struct sb_window *window = &handle->window;
        uint64_t birth = window_birth(handle, unit);

        if (window->era && birth >= window->young && sb_era_protected(handle, window->era, birth) &&
                !SB_FAULT(WINDOW_KNOWN_AGAIN))
                window->young = birth + 1;
}

bool sb_window_wait(struct sb_handle *handle)
{
        struct sb_window *window = &handle->window;
        uint32_t unit;

        if (window->waited++ < WAITS_MAX)
                return false;
        for (unit = window->first; unit < window->first + window->count; unit++)
                if (sb_unit_is_empty(&handle->segment, unit))
                        window_note_known(handle, unit);
                else
                        window_note_refused(handle, unit);
        window_leave(handle);
        return true;
}

/* ---- the run ---- */

/* Whether all units are empty, and have been for a grace period. */
static bool window_is_run(struct sb_handle *handle)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_window *window = &handle->window;
        uint32_t i;

        for (i = 0; !window->era && i < window->count; i++)
                if (!sb_unit_is_empty(segment, window->first + i))
                        return false;
        if (!window->era)
                /* A:era. Loaded after all were found empty: their blocks' readers were pinned
                 * before. */
                window->era = sb_load_acquire(&segment->super->era);
        sb_era_look(handle); /* in a later era */
        for (i = 0; i < window->count && !SB_FAULT(WINDOW_EARLY); i++)
                if (!sb_era_clear(handle, window->era, window_birth(handle, window->first + i)))
                        return false;
        return true;
}

/* Which unit comes as number @i; fault WINDOW_PARTS_FIRST: from behind. */
static uint32_t window_turn(const struct sb_window *window, uint32_t i)
{
        return SB_FAULT(WINDOW_PARTS_FIRST) ? window->count - 1 - i : i;
}

/* Make one large block of the window, which is empty: the head first, so that the reaper finds the
 * parts. Return: its first unit. */
static uint32_t window_make_run(struct sb_handle *handle)
{
        struct sb_window *window = &handle->window;
        uint32_t i;

        /* The parts of what was there become blocks of their own, the last ones first: so a kill
         * leaves shorter runs with the same owner. Fault WINDOW_PARTS_STAY: left out. */
        for (i = SB_FAULT(WINDOW_PARTS_STAY) ? 0 : window->count; i-- > 0;)
                if (window_is_part(&handle->segment, window->first + i))
                        sb_unit_set_large(handle, window->first + i, window->first + i);
        for (i = 0; i < window->count; i++)
                sb_unit_set_large(handle, window->first + window_turn(window, i), window->first);
        sb_unit_set_birth(handle, window->first);
        window->count = 0;
        window_leave(handle);
        return window->first;
}

uint32_t sb_window_take(struct sb_handle *handle, uint32_t count, uint32_t limit)
{
        struct sb_window *window = &handle->window;

        if (!window->waits)
                return SB_VACANCY_NONE;
        if (window->wanted != count) {
                window->limit = limit;
                window_leave(handle);
                window->wanted = count;
        }
        return window->count && window_is_run(handle) ? window_make_run(handle) : SB_VACANCY_NONE;
}

/* ---- runs that were given back ---- */

void sb_window_keep(struct sb_handle *handle)
{
        handle->window.keeps = handle->window.waits && !SB_FAULT(WINDOW_KEEPS_NONE);
}

bool sb_window_keeps(const struct sb_handle *handle, uint32_t unit)
{
        return handle->window.keeps && !sb_window_has(handle, unit) &&
               sb_unit_word(&handle->segment, unit) ==
                       (SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0) | sb_unit_owner(handle)) &&
               sb_unit_is_empty(&handle->segment, unit);
}

uint32_t sb_window_take_kept(struct sb_handle *handle, uint32_t count)
{
        uint32_t unit = handle->window.keeps ? handle->segment.geometry.unit_count : 0;

        while (unit--)
                if (sb_window_keeps(handle, unit) &&
                        sb_unit_large_count(&handle->segment, unit) == count)
                        return unit;
        return SB_VACANCY_NONE;
}

static void window_leave_kept(struct sb_handle *handle)
{
        uint32_t unit = handle->window.keeps ? handle->segment.geometry.unit_count : 0;

        while (unit--)
                if (sb_window_keeps(handle, unit))
                        sb_unit_give_up(handle, unit);
        handle->window.keeps = false;
}

/* ---- runs of free units ---- */

/* Claim @count units in a row: the head names the owner, each part names the head. Return: how many
 * could be claimed; if that is fewer than @count, they are given back. */
static uint32_t window_claim_run(struct sb_handle *handle, uint32_t first, uint32_t count)
{
        struct sb_word64 *words = handle->segment.unit_words;
        uint32_t claimed = 1;

        /* R:unit-owned > A:unit-owned. The head first, so that the reaper finds the parts. */
        if (!sb_cas64_full(
                    &words[first], 0, SB_UNIT_WORD(SB_UNIT_LARGE, 0, 0, 0) | sb_unit_owner(handle)))
                return 0;
        while (claimed < count && /* R:unit-owned. As above. */
                sb_cas64_full(&words[first + claimed], 0, SB_UNIT_WORD(SB_UNIT_PART, 0, 0, first)))
                claimed++;
        sb_unit_set_birth(handle, first);
        if (claimed < count)
                sb_unit_free_large(handle, first);
        return claimed;
}

/* Make FREE what is EMPTY and past its grace period, so that a run of units can be found. Below
 * @limit. Return: whether there was any. */
static bool window_free_empty(struct sb_handle *handle, uint32_t limit)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t unit = sb_vacancy_next(segment, SB_VACANCY_EMPTY, 0, limit);
        bool any = false;

        if (unit == SB_VACANCY_NONE)
                return false;
        sb_era_look(handle);
        for (; unit != SB_VACANCY_NONE;
                unit = sb_vacancy_next(segment, SB_VACANCY_EMPTY, unit + 1, limit)) {
                uint64_t word = sb_unit_word(segment, unit);
                /* R:unit-owned > A:unit-owned. The unit may be taken again by now. */
                bool freed = sb_unit_past_grace(handle, unit, word) &&
                             sb_cas64_full(&segment->unit_words[unit], word, 0);

                any |= freed;
                if (freed || SB_UNIT_KIND(word) != SB_UNIT_EMPTY)
                        sb_unit_unhint(segment, SB_VACANCY_EMPTY, unit);
        }
        return any;
}

/* Claim the highest @count FREE units in a row below @limit. Return: the first, or
 * SB_VACANCY_NONE. */
static uint32_t window_find_run(struct sb_handle *handle, uint32_t count, uint32_t limit)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t end = limit, unit, claimed;

        /* From the top: slabs of versions are taken from below, so that runs stay. */
        while ((unit = sb_vacancy_run(segment, SB_VACANCY_FREE, count, end)) != SB_VACANCY_NONE) {
                claimed = window_claim_run(handle, unit, count);
                if (claimed == count)
                        return unit;
                sb_unit_unhint(segment, SB_VACANCY_FREE, unit + claimed);
                end = unit + claimed;
        }
        return SB_VACANCY_NONE;
}

uint32_t sb_window_row(struct sb_handle *handle, uint32_t count, uint32_t limit)
{
        uint32_t unit = SB_VACANCY_NONE;

        if (!handle->window.moves)
                unit = sb_window_take_kept(handle, count);
        if (unit == SB_VACANCY_NONE && sb_slab_search_holds(handle, count))
                return SB_VACANCY_NONE;
        if (unit == SB_VACANCY_NONE)
                unit = window_find_run(handle, count, limit);
        if (unit == SB_VACANCY_NONE && window_free_empty(handle, limit))
                unit = window_find_run(handle, count, limit);
        return unit == SB_VACANCY_NONE && !handle->window.moves
                       ? sb_window_take(handle, count, limit)
                       : unit;
}

/* Whether some slab of versions has a free block. */
static bool window_has_room(const struct sb_segment *segment)
{
        uint32_t class_;

        for (class_ = 0; class_ < segment->class_count; class_++)
                if (sb_vacancy_any(segment, sb_vacancy_list(segment, SB_UNIT_VERSIONS, class_)))
                        return true;
        return false;
}

uint32_t sb_window_emptied(struct sb_handle *handle)
{
        const struct sb_geometry *g = &handle->segment.geometry;

        if (!handle->window.waits || handle->window.moves || !window_has_room(&handle->segment))
                return SB_VACANCY_NONE;
        return sb_window_row(handle, 1, g->unit_count - g->reserve_count);
}

void sb_window_move(struct sb_handle *handle)
{
        handle->window.moves = true;
}

void sb_window_moved(struct sb_handle *handle)
{
        handle->window.moves = false;
}

/* ---- a wait ---- */

void sb_window_begin(struct sb_handle *handle)
{
        handle->window.waits = true;
        window_forget_refused(&handle->window);
}

void sb_window_end(struct sb_handle *handle)
{
        handle->window.waits = false;
        handle->window.wanted = 0;
        window_leave(handle);
        window_leave_kept(handle);
}
