/*
 * Units and blocks, which another process takes, frees or gives another life between two
 * instructions of one that looks at them (tests/kill/race.h). What is in them then is left as it
 * is: the look was repeated, or a pin kept the other one out.
 */
#include "shm/base/word.h"
#include "shm/memory/era.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/memory/window.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/sweep.h"
#include "tests/kill/race.h"
#include "tests/unit/bus.h"

/* ---- units ---- */

#define SMALL 64u /* bytes of a block */

static uint64_t block;    /* alone in its unit */
static uint64_t other[2]; /* of the other client */

static bool begin_small(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 18, .clients = 2, .unit_size = 4096};

        other[0] = other[1] = 0;
        return make_bus_of(&wish);
}

static bool take(struct sb_handle *handle, uint64_t *ret)
{
        return !sb_slab_take(handle, SB_UNIT_VERSIONS, SMALL, 0, ret);
}

static void give_up_slabs(void)
{
        sb_slab_release_all(&writer);
        sb_slab_release_all(&reader);
}

static bool begin_with_block(void)
{
        if (!begin_small() || !take(&writer, &block))
                return false;
        give_up_slabs();
        return true;
}

static void clear_block(void *context)
{
        (void)context;
        sb_unit_clear(&reader, block);
}

static void take_other(void)
{
        broken |= !take(&writer, &other[0]);
}

/* What a client took out of a unit is in a unit that it owns. */
static bool owns(const struct sb_handle *handle, uint64_t offset)
{
        uint64_t word = sb_unit_word(&handle->segment, sb_unit_of(&handle->segment, offset));

        return SB_UNIT_OWNER(word) == sb_unit_owner(handle) &&
               sb_unit_is_block(&handle->segment, offset, SB_UNIT_VERSIONS, NULL);
}

static bool other_owns_its_block(void)
{
        bool right = !came || owns(&writer, other[0]);

        give_up_slabs();
        if (came)
                sb_unit_clear(&writer, other[0]);
        return right;
}

static void test_a_unit_that_becomes_empty_stays_with_the_client_that_takes_it(void)
{
        const struct race race = {.begin = begin_with_block,
                .operation = clear_block,
                .beside = take_other,
                .right = other_owns_its_block};

        CHECK(race_all(&race) > 3);
}

/* All units are full but for two in a row, which are a window for a client that waits. */
static bool begin_with_window(void)
{
        uint32_t limit;
        uint64_t last = 0;

        if (!begin_small())
                return false;
        limit = writer.segment.geometry.unit_count - writer.segment.geometry.reserve_count;
        while (take(&writer, &block))
                last = block > last ? block : last;
        give_up_slabs();
        for (uint32_t unit = sb_unit_of(&writer.segment, last) - 1, i = 0; i < 2; i++)
                for (uint32_t j = 1; j < 16; j++)
                        sb_unit_clear(&writer,
                                sb_unit_offset(&writer.segment, unit + i) + (uint64_t)j * SMALL);
        sb_window_begin(&reader);
        return sb_window_take(&reader, 2, limit) == SB_VACANCY_NONE;
}

static void find_window(void *context)
{
        (void)context;
        (void)sb_window_find(&reader);
}

static bool window_is_owned(void)
{
        bool right = !other[0] || owns(&writer, other[0]);
        uint32_t i;

        for (i = 0; i < sb_window_count(&reader); i++) {
                uint64_t word = sb_unit_word(&reader.segment, sb_window_first(&reader) + i);

                right = right && SB_UNIT_OWNER(word) == sb_unit_owner(&reader);
        }
        sb_window_end(&reader);
        give_up_slabs();
        return right;
}

/* All are owned by then, perhaps. */
static void try_to_take_other(void)
{
        (void)take(&writer, &other[0]);
}

static void test_a_unit_that_another_client_takes_is_in_no_window(void)
{
        const struct race race = {.begin = begin_with_window,
                .operation = find_window,
                .beside = try_to_take_other,
                .right = window_is_owned,
                .bare = true};

        CHECK(race_all(&race) > 20);
}

/* ---- blocks that wait for their grace period ---- */

#define LARGE 2048u /* bytes of a value where small blocks were */

static uint32_t date; /* of the block */

static void pass(uint32_t eras)
{
        sb_add_full(&writer.segment.super->era, eras);
}

/* Return: whether so many small blocks are taken of the first four of this unit. */
static bool take_some(uint64_t first, uint32_t count)
{
        uint64_t at;

        for (uint32_t i = 0; i < count; i++)
                if (!take(&writer, &at) || at < first || at >= first + 4 * SMALL)
                        return false;
        return true;
}

static void clear(uint64_t first, uint64_t size, uint32_t count)
{
        give_up_slabs();
        while (count--)
                sb_unit_clear(&writer, first + count * size);
        pass(2);
}

/* All is full but one unit. Return: where that begins; 0: there is none. */
static uint64_t leave_one_unit(void)
{
        uint64_t at, last = 0;

        if (!begin_small())
                return 0;
        while (!sb_slab_take(&writer, SB_UNIT_VERSIONS, LARGE, 0, &at))
                last = sb_unit_offset(&writer.segment, sb_unit_of(&writer.segment, at));
        clear(last, LARGE, 2);
        return last;
}

/* The block is dated, and the reader waits for its grace period; another client frees it. */
static bool free_beside_the_reader(uint64_t first)
{
        struct sb_block *dated = sb_block_at(&writer.segment, block);
        uint32_t unit = sb_unit_of(&writer.segment, first);

        pass(2);
        sb_store_relaxed(&dated->retire, SB_RETIRE_DYING);
        sb_limbo_date(&reader, dated);
        date = sb_load_relaxed(&dated->retire);
        pass(2);
        sb_sweep_begin(&writer);
        sb_sweep(&writer, &unit, 1);
        return !sb_unit_is_block(&writer.segment, block, SB_UNIT_VERSIONS, NULL);
}

/* Values of the unit that take all of it, and all bytes of which look like that date. */
#define VALUE 1024u

static void write_values(uint64_t first)
{
        for (uint32_t i = 0; i < 4 * VALUE; i += sizeof(date))
                memcpy(writer.segment.base + first + i, &date, sizeof(date));
}

static bool take_values(uint64_t first)
{
        uint64_t at;

        for (uint32_t i = 0; i < 4; i++)
                if (sb_slab_take(&writer, SB_UNIT_VERSIONS, VALUE, 0, &at) || at < first ||
                        at >= first + 4 * VALUE)
                        return false;
        return true;
}

/* Then the unit has such values, and then it is empty. */
static uint64_t begin_behind_values(void)
{
        uint64_t first = leave_one_unit();

        block = first + 3 * SMALL;
        if (!first || !take_some(first, 4))
                return 0;
        give_up_slabs();
        if (!free_beside_the_reader(first))
                return 0;
        clear(first, SMALL, 3);
        if (!take_values(first))
                return 0;
        write_values(first);
        clear(first, VALUE, 4);
        return first;
}

/* And then it has small blocks again: two are taken, and the one that the reader waits for is free.
 */
static bool begin_with_bytes_of_a_date(void)
{
        uint64_t first = begin_behind_values();

        return first && take_some(first, 2);
}

static void free_waiting(void *context)
{
        (void)context;
        sb_reclaim_free(&reader);
}

static void take_two(void)
{
        broken |= !take(&writer, &other[0]) || !take(&writer, &other[1]);
}

static bool other_owns_its_blocks(void)
{
        return !came || (owns(&writer, other[0]) && owns(&writer, other[1]));
}

static void test_what_looks_like_a_date_in_a_free_block_is_none(void)
{
        const struct race race = {.begin = begin_with_bytes_of_a_date,
                .operation = free_waiting,
                .beside = take_two,
                .right = other_owns_its_blocks,
                .bare = true};

        CHECK(race_all(&race) > 10);
}

/* Small blocks come there when the reader has pinned, in a later era; and so many accesses behind
 * that they go, and values come. */
static uint32_t lives_end;
static uint64_t lives_unit;
static bool lives_left;      /* the blocks of before are gone */
static uint64_t lives_leave; /* at this point, before the pin */
static bool lives_values;    /* they could be taken */
static bool lives_again;     /* there were such blocks before, too, and values between them */

static enum step_verdict lives_point(void *context, uint64_t number, uintptr_t address)
{
        (void)context;
        stopped_before = address;
        if (!run.touches)
                return STEP_ON;
        if (lives_again && !lives_left && number == lives_leave) {
                lives_left = true;
                clear(lives_unit, SMALL, 2);
        }
        if (!sb_load_relaxed(&reader.record->pin))
                return STEP_ON;
        if (!came) {
                came = true;
                pass(1);
                if (lives_again) {
                        broken |= !lives_left || !take_values(lives_unit);
                        clear(lives_unit, VALUE, 4);
                }
                broken |= !take_some(lives_unit, 2);
                return STEP_ON;
        }
        if (lives_end--)
                return STEP_ON;
        looked = true;
        clear(lives_unit, SMALL, 2);
        lives_values = take_values(lives_unit);
        if (lives_values)
                write_values(lives_unit);
        return STEP_STOP;
}

static bool values_are_whole(void)
{
        for (uint32_t i = 0; i < 4 * VALUE; i += sizeof(date))
                if (memcmp(writer.segment.base + lives_unit + i, &date, sizeof(date)))
                        return false;
        for (uint32_t i = 0; i < 4; i++)
                if (!sb_unit_is_block(
                            &writer.segment, lives_unit + i * VALUE, SB_UNIT_VERSIONS, NULL))
                        return false;
        return true;
}

/* At each access behind the pin. Return: whether there was one with values, and one where the pin
 * kept them out, and nothing was wrong. */
static bool lives_end_anywhere(bool (*begin)(void), void (*operation)(void *context))
{
        uint32_t values = 0, kept_out = 0;

        looked = true;
        for (uint32_t end = 0; looked; end++) {
                broken = came = looked = lives_left = lives_values = false;
                lives_end = end;
                if (!begin())
                        return false;
                run = (struct step_run){.operation = operation,
                        .point = lives_point,
                        .wanted = STEP_TOUCHING,
                        .shared = {writer.segment.base, writer.segment.geometry.size},
                        .point_limit = 1000000};
                if (step_run(&run) != STEP_DONE || !came || broken)
                        return false;
                if (lives_values && !values_are_whole()) {
                        TEST_NOTE("access %u behind the pin, before %s", end,
                                step_where(stopped_before));
                        return false;
                }
                values += lives_values;
                kept_out += looked && !lives_values;
                unmake_bus();
        }
        return values > 0 && kept_out > 0;
}

static bool begin_empty(void)
{
        lives_again = false;
        lives_unit = begin_behind_values();
        return lives_unit;
}

/* What is found before the pin covers it counts for nothing: behind it the pin keeps the unit. */
static void test_what_looks_like_a_date_in_a_unit_that_changes_is_none(void)
{
        CHECK(lives_end_anywhere(begin_empty, free_waiting));
}

/* Behind the look at the unit's word, and before the look at the era for the pin. */
static enum step_verdict leave_point(void *context, uint64_t number, uintptr_t address)
{
        (void)context;
        if (!run.touches || !strstr(step_where(address), "sweep_label_birth"))
                return STEP_ON;
        lives_leave = number;
        return STEP_STOP;
}

/* So old that a sweep labels their births. */
static bool begin_with_blocks(void)
{
        lives_again = true;
        lives_unit = begin_behind_values();
        if (!lives_unit || !take_some(lives_unit, 2))
                return false;
        pass(3 * SB_ERA_OLD);
        sb_sweep_begin(&reader);
        return true;
}

static void sweep_unit(void *context)
{
        (void)context;
        sb_sweep(&reader, &(uint32_t){sb_unit_of(&reader.segment, lives_unit)}, 1);
}

static void test_a_sweep_labels_no_births_in_a_unit_that_changes(void)
{
        lives_leave = 0;
        CHECK(begin_with_blocks());
        run = (struct step_run){.operation = sweep_unit,
                .point = leave_point,
                .wanted = STEP_TOUCHING,
                .shared = {writer.segment.base, writer.segment.geometry.size},
                .point_limit = 1000000};
        CHECK_EQ(step_run(&run), STEP_DONE);
        unmake_bus();
        CHECK(lives_leave > 0);
        CHECK(lives_end_anywhere(begin_with_blocks, sweep_unit));
}

/* ---- births ---- */

static uint32_t birth; /* of the block's next life */

static void bear(void)
{
        sb_pin(&writer);
        sb_pin_give_birth(&writer, sb_block_at(&writer.segment, block));
        sb_unpin(&writer);
}

static uint32_t read_birth(void)
{
        const struct sb_block *at = sb_block_at(&writer.segment, block);

        return sb_load_relaxed(&at->birth);
}

/* A block that was taken ages ago, and not published. */
static bool begin_with_old_block(void)
{
        if (!begin_small() || !take(&writer, &block))
                return false;
        bear();
        pass(3 * SB_ERA_OLD);
        birth = 0;
        sb_sweep_begin(&reader);
        return true;
}

static void sweep(void *context)
{
        (void)context;
        sb_sweep(&reader, &(uint32_t){sb_unit_of(&reader.segment, block)}, 1);
}

static void take_again(void)
{
        uint64_t again = 0;

        sb_slab_give_back(&writer, block);
        broken |= !take(&writer, &again) || again != block;
        bear();
        birth = read_birth();
}

static bool has_its_birth(void)
{
        bool right = !came || read_birth() == birth;

        sb_slab_give_back(&writer, block);
        give_up_slabs();
        return right;
}

static void test_a_block_has_its_own_birth_beside_a_sweep_that_saw_the_one_before(void)
{
        const struct race race = {.begin = begin_with_old_block,
                .operation = sweep,
                .beside = take_again,
                .right = has_its_birth};

        CHECK(race_all(&race) > 10);
}

/* ---- hints at units ---- */

static uint32_t hint_list;

static bool begin_with_a_hint(void)
{
        if (!begin_plain())
                return false;
        hint_list = sb_vacancy_list(&writer.segment, SB_UNIT_NODES, 3);
        sb_vacancy_set(&writer.segment, hint_list, 3);
        return true;
}

static void clear_hint(void *context)
{
        (void)context;
        sb_vacancy_clear(&reader.segment, hint_list, 3);
}

static void set_hint(void)
{
        sb_vacancy_set(&writer.segment, hint_list, 4);
}

static bool hint_is_found(void)
{
        return !came || (sb_vacancy_any(&writer.segment, hint_list) &&
                                sb_vacancy_next(&writer.segment, hint_list, 0, 64) == 4);
}

static void test_a_hint_that_comes_while_its_list_is_found_empty_stays(void)
{
        const struct race race = {.begin = begin_with_a_hint,
                .operation = clear_hint,
                .beside = set_hint,
                .right = hint_is_found,
                .bare = true};

        CHECK(race_all(&race) > 3);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_unit_that_becomes_empty_stays_with_the_client_that_takes_it);
        RUN(test_a_unit_that_another_client_takes_is_in_no_window);
        RUN(test_what_looks_like_a_date_in_a_free_block_is_none);
        RUN(test_what_looks_like_a_date_in_a_unit_that_changes_is_none);
        RUN(test_a_sweep_labels_no_births_in_a_unit_that_changes);
        RUN(test_a_block_has_its_own_birth_beside_a_sweep_that_saw_the_one_before);
        RUN(test_a_hint_that_comes_while_its_list_is_found_empty_stays);
        return test_end();
}
