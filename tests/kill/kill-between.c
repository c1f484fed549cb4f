/*
 * Another process does something whole between two instructions of one.
 *
 * An operation is stopped before each instruction that loads or stores in the segment, in a bus of
 * its own for each; there another client acts, and the operation goes on to its end. What the other
 * client did stands, and the operation has done nothing over it: a CAS that has to fail there
 * failed, and a look was repeated.
 */
#include "ring/op/keep.h"
#include "ring/op/past.h"
#include "ring/op/prefix.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/record.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/memory/window.h"
#include "shm/mvcc/clock.h"
#include "shm/notify/hint.h"
#include "shm/notify/prefix.h"
#include "shm/notify/unlogged.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/sweep.h"
#include "tests/harness/faults.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/work.h"
#include "tests/kill/race.h"
#include "tests/unit/bus.h"

/* ---- rules of history ---- */

#define ALL    SB_RULE_WORD(SB_RULE_ALL, 0)
#define LAST   SB_RULE_WORD(SB_RULE_LAST, 1)
#define NEWEST SB_RULE_WORD(SB_RULE_NEWEST, 0)
#define GUARD  0u

/* The key "key", for which there is a rule: its own, or that of the prefix "k". */
static bool begin_ruled(bool prefix)
{
        return begin_plain() && !put(&writer, "key", "1", 1) &&
               !sb_keep_write(&writer, "key", prefix ? 1 : 3, prefix, ALL) &&
               !sb_guard_grow(&writer, GUARD);
}

static bool begin_with_rule(void)
{
        return begin_ruled(false);
}

static bool begin_with_wider_rule(void)
{
        return begin_ruled(true);
}

static void keep_last(void *context)
{
        (void)context;
        broken |= sb_keep_write(&reader, "key", 3, false, LAST) != 0;
}

static void end_wider_rule(void *context)
{
        (void)context;
        broken |= sb_keep_write(&reader, "key", 1, true, NEWEST) != 0;
}

static void keep_all(void)
{
        broken |= sb_keep_write(&writer, "key", 3, false, ALL) != 0;
}

/* The rule that applies to the key; and what its node says. */
static bool read_rule(struct sb_rule_found *ret, uint64_t *ret_copied)
{
        struct sb_node *node;

        sb_pin(&writer);
        node = sb_order_find(&writer, "key", 3);
        sb_rules_find(&writer, "key", 3, false, ret);
        if (node)
                *ret_copied = sb_rules_of_node(node);
        sb_unpin(&writer);
        return node;
}

/* What the key has now is there still when it has been overwritten. */
static bool is_kept(void)
{
        uint64_t cut = sb_clock_take_cut(&writer);
        struct sb_version *version;

        if (put(&writer, "key", "2", 1))
                return false;
        sb_work_all(&writer, true);
        return !sb_past_get(&writer, "key", 3, cut, GUARD, &version);
}

/* As long as the rule covers what is written. */
static void overwrite_and_look_back(void)
{
        struct sb_rule_found found;
        uint64_t copied = 0;

        broken |= !read_rule(&found, &copied);
        /* Only where the node does not say so can it be lost. */
        if (found.value.word != ALL || !found.value.since || copied == ALL || looked)
                return;
        looked = true;
        broken |= !is_kept();
}

/* Of the two the last one that was written. */
static bool has_rule(void)
{
        struct sb_rule_found found;
        uint64_t copied = 0;

        return read_rule(&found, &copied) && found.value.since && copied == found.value.word;
}

static void test_a_rule_keeps_what_it_covers_beside_another_one_that_was_about_to_be(void)
{
        const struct race race = {.begin = begin_with_rule,
                .operation = keep_last,
                .beside = keep_all,
                .behind = overwrite_and_look_back,
                .right = has_rule};

        CHECK(race_all(&race) > 100);
}

static bool is_kept_by_its_own(void)
{
        return !came || is_kept();
}

static void test_a_rule_keeps_what_it_covers_beside_the_end_of_a_wider_one(void)
{
        const struct race race = {.begin = begin_with_wider_rule,
                .operation = end_wider_rule,
                .beside = keep_all,
                .right = is_kept_by_its_own};

        CHECK(race_all(&race) > 100);
}

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

/* ---- blocks ---- */

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

/* ---- cells ---- */

static struct sb_version *placeholder; /* a second one of the key's node, in a cell of its own */
static uint64_t placeholder_cell, placeholder_hash;

static bool begin_with_second_placeholder(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 18, .clients = 2, .bucket_count = 1};
        struct sb_version *version;
        uint64_t offset;

        if (!make_bus_of(&wish) || put(&writer, "key", "1", 1) || !(version = find("key")) ||
                sb_slab_take(&writer, SB_UNIT_VERSIONS, sizeof(*version) + 3, 0, &offset))
                return false;
        placeholder = sb_version_at(&writer.segment, offset);
        placeholder_hash = sb_hash_key("key", 3, writer.segment.seed);
        placeholder->rev = 0;
        placeholder->node = version->node;
        placeholder->shape = SB_SHAPE(0, 3, SB_VERSION_PLACEHOLDER, writer.slot);
        sb_store_relaxed(&placeholder->stamp, 0);
        sb_store_relaxed(&placeholder->prev, 0);
        sb_pin(&writer);
        sb_pin_give_birth(&writer, &placeholder->block);
        sb_unpin(&writer);
        return !sb_index_insert(&writer, placeholder_hash, offset, &placeholder_cell);
}

static void confirm(void *context)
{
        uint64_t word;

        (void)context;
        sb_pin(&reader);
        word = sb_pin_load(&reader, sb_cell_at(&reader.segment, placeholder_cell));
        if (sb_version_at(&reader.segment, word & SB_OFFSET_MASK) == placeholder)
                broken |= sb_index_confirm(&reader, placeholder_cell, word);
        sb_unpin(&reader);
}

/* It meets the placeholder, too; and the next key has its cell. */
static void confirm_and_make(void)
{
        sb_pin(&writer);
        broken |= sb_index_confirm_all(&writer, placeholder_hash, placeholder->node, true) != 0;
        sb_unpin(&writer);
        broken |= put(&writer, "other", "2", 1) != 0;
}

static bool both_are_there(void)
{
        return find("key") && (!came || find("other"));
}

static void test_a_cell_that_another_key_has_taken_is_not_emptied(void)
{
        const struct race race = {.begin = begin_with_second_placeholder,
                .operation = confirm,
                .beside = confirm_and_make,
                .right = both_are_there};

        CHECK(race_all(&race) > 10);
}

/* ---- watches of prefixes ---- */

static struct sb_op_prefix watch;

static void ask_for_all(void *context)
{
        (void)context;
        sb_unlogged_ask_all(&reader.segment);
}

static void ask_above_a_cut(void *context)
{
        (void)context;
        sb_unlogged_ask_above(&reader.segment, 5);
}

static void watch_keys(void)
{
        broken |= sb_op_prefix_begin(&writer, "k", 1, 1, SB_PREFIX_DEPTH, &watch) != 0;
}

static bool watch_is_told(void)
{
        uint64_t hints = came ? sb_hint_tail(&watch.row) : 0;

        return !came || (!put(&reader, "key", "1", 1) && sb_hint_tail(&watch.row) > hints);
}

static void test_a_watch_of_a_prefix_that_joins_where_a_log_asks_is_told(void)
{
        static void (*const operations[])(void *) = {ask_for_all, ask_above_a_cut};

        for (uint32_t i = 0; i < 2; i++) {
                const struct race race = {.begin = begin_plain,
                        .operation = operations[i],
                        .beside = watch_keys,
                        .right = watch_is_told};

                CHECK(race_all(&race) > 1);
        }
}

static bool begin_watched(void)
{
        return begin_plain() && !put(&writer, "key", "1", 1) &&
               !sb_op_prefix_begin(&reader, "k", 1, 1, SB_PREFIX_DEPTH, &watch);
}

static void watch_anew(void *context)
{
        (void)context;
        broken |= !sb_op_prefix_again(&reader, &watch);
}

/* More than the ring has hints for. */
static void write_much(void)
{
        for (uint32_t i = 0; i < 4 * sb_hint_slots(SB_PREFIX_DEPTH); i++)
                broken |= put(&writer, i % 2 ? "key" : "kex", "2", 1) != 0;
}

static bool watch_is_whole(void)
{
        bool right = sb_op_prefix_whole(&watch);

        sb_op_prefix_end(&reader, &watch);
        return right;
}

static void test_a_watch_of_a_prefix_begins_behind_what_was_given_up(void)
{
        const struct race race = {.begin = begin_watched,
                .operation = watch_anew,
                .beside = write_much,
                .right = watch_is_whole};

        CHECK(race_all(&race) > 10);
}

/* ---- writes ---- */

static bool begin_with_two_writes(void)
{
        return begin_plain() && !put(&writer, "long-key", "12345678", 8) &&
               !put(&reader, "long-key", "23456789", 8);
}

static void overwrite(void *context)
{
        (void)context;
        broken |= put(&reader, "long-key", "34567890", 8) != 0;
}

static void overwrite_first(void)
{
        broken |= put(&writer, "long-key", "45678901", 8) != 0;
}

static void see_note(void)
{
        broken |=
                sb_load_relaxed(&reader.record->operation) && !sb_load_relaxed(&reader.record->pin);
}

static bool has_all_writes(void)
{
        const struct sb_version *version = find("long-key");

        return version && version->rev == (came ? 4 : 3) &&
               !sb_load_relaxed(&reader.record->operation);
}

static void test_a_write_that_loses_its_first_try_notes_no_node_without_a_pin(void)
{
        const struct race race = {.begin = begin_with_two_writes,
                .operation = overwrite,
                .beside = overwrite_first,
                .behind = see_note,
                .right = has_all_writes};

        CHECK(race_all(&race) > 20);
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

/* ---- the ordered index ---- */

static struct sb_node *goes, *stays, *comes;

/* A node that is not in the index. */
static struct sb_node *make_node(const char *key)
{
        struct sb_node *node;
        uint64_t offset;

        if (sb_slab_take(&writer, SB_UNIT_NODES, sb_node_size(1), 0, &offset))
                return NULL;
        node = sb_node_at(&writer.segment, offset);
        node->key_len = 1;
        memcpy(node->key, key, 1);
        return node;
}

static bool insert_node(struct sb_handle *handle, struct sb_node *node)
{
        struct sb_node *found = NULL;
        int r;

        sb_pin(handle);
        r = sb_order_insert(handle, node, 0, NULL, &found);
        sb_unpin(handle);
        return !r && found == node;
}

/* "a", which is the anchor, and "b" are in the index, in one branch; "c" is not. */
static bool begin_with_two_nodes(void)
{
        return begin_plain() && (goes = make_node("a")) && (stays = make_node("b")) &&
               (comes = make_node("c")) && insert_node(&writer, goes) &&
               insert_node(&writer, stays);
}

static void remove_node(struct sb_handle *handle)
{
        sb_store_relaxed(&goes->cell, SB_NODE_GONE);
        sb_pin(handle);
        broken |= !sb_order_remove(handle, goes);
        sb_unpin(handle);
}

static void insert_by_reader(void *context)
{
        (void)context;
        broken |= !insert_node(&reader, comes);
}

static void remove_by_reader(void *context)
{
        (void)context;
        remove_node(&reader);
}

static void insert_by_writer(void)
{
        broken |= !insert_node(&writer, comes);
}

static void remove_by_writer(void)
{
        remove_node(&writer);
}

static bool index_has(const struct sb_node *node)
{
        struct sb_node_key key = sb_node_key(&writer.segment, node);

        return sb_order_find(&writer, key.bytes, key.len) == node;
}

/* The index has "b", and what it should have of the others. */
static bool order_is(bool has_goes, bool has_comes)
{
        uint32_t count = 1 + has_goes + has_comes;
        struct sb_order_run nodes;
        bool right;

        sb_pin(&writer);
        sb_order_take_run(&writer, "", 0, true, false, SB_ORDER_RUN, &nodes);
        right = index_has(goes) == has_goes && index_has(stays) && index_has(comes) == has_comes &&
                nodes.count == count && nodes.node[has_goes] == stays && !nodes.more;
        sb_unpin(&writer);
        return right;
}

/* Without a point the other client has done nothing. */
static bool one_came_and_the_other_goes(void)
{
        return order_is(!came, true);
}

static bool one_went_and_the_other_comes(void)
{
        return order_is(false, came);
}

static void test_a_node_comes_into_a_branch_from_which_another_one_goes(void)
{
        const struct race race = {.begin = begin_with_two_nodes,
                .operation = insert_by_reader,
                .beside = remove_by_writer,
                .right = one_came_and_the_other_goes,
                .bare = true};

        CHECK(race_all(&race) > 10);
}

static void test_a_node_goes_out_of_a_branch_into_which_another_one_comes(void)
{
        const struct race race = {.begin = begin_with_two_nodes,
                .operation = remove_by_reader,
                .beside = insert_by_writer,
                .right = one_went_and_the_other_comes,
                .bare = true};

        CHECK(race_all(&race) > 10);
}

/* ---- a reader in a branch that was replaced ---- */

static struct sb_order_run found;
static bool found_freed;

static bool begin_with_two_keys(void)
{
        found_freed = false;
        return begin_plain() && !put(&writer, "a", "1", 1) && !put(&writer, "b", "1", 1);
}

/* The pin still stands where the nodes are looked at. */
static void take_run_by_reader(void *context)
{
        (void)context;
        sb_pin(&reader);
        sb_order_take_run(&reader, "", 0, true, false, SB_ORDER_RUN, &found);
        for (uint32_t i = 0; i < found.count; i++)
                found_freed |= !sb_unit_is_block(&reader.segment,
                        sb_offset_of(&reader.segment, found.node[i]), SB_UNIT_NODES, NULL);
        sb_unpin(&reader);
}

/* "c" comes into the branch when the reader is pinned, so that the pin does not protect its node.
 * Then the branch is copied without "a", "c" goes out of the copy, and its node is freed: what was
 * replaced leads to it still. */
static void copy_and_free(void)
{
        sb_era_advance(&writer);
        broken |= put(&writer, "c", "1", 1) != 0 || delete (&writer, "a") != 0;
        sb_work_all(&writer, true);
        broken |= delete (&writer, "c") != 0;
        for (uint32_t i = 0; i < 4; i++) {
                sb_era_advance(&writer);
                sb_work_all(&writer, true);
        }
}

static bool found_what_is_there(void)
{
        return !found_freed && found.count > 0;
}

static void test_a_reader_of_a_branch_that_was_replaced_meets_no_node_that_was_freed(void)
{
        const struct race race = {.begin = begin_with_two_keys,
                .operation = take_run_by_reader,
                .beside = copy_and_free,
                .right = found_what_is_there};

        CHECK(race_all(&race) > 10);
}

/* ---- hints ---- */

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
        RUN(test_a_rule_keeps_what_it_covers_beside_another_one_that_was_about_to_be);
        RUN(test_a_rule_keeps_what_it_covers_beside_the_end_of_a_wider_one);
        RUN(test_a_unit_that_becomes_empty_stays_with_the_client_that_takes_it);
        RUN(test_a_unit_that_another_client_takes_is_in_no_window);
        RUN(test_what_looks_like_a_date_in_a_free_block_is_none);
        RUN(test_what_looks_like_a_date_in_a_unit_that_changes_is_none);
        RUN(test_a_sweep_labels_no_births_in_a_unit_that_changes);
        RUN(test_a_cell_that_another_key_has_taken_is_not_emptied);
        RUN(test_a_watch_of_a_prefix_that_joins_where_a_log_asks_is_told);
        RUN(test_a_watch_of_a_prefix_begins_behind_what_was_given_up);
        RUN(test_a_write_that_loses_its_first_try_notes_no_node_without_a_pin);
        RUN(test_a_block_has_its_own_birth_beside_a_sweep_that_saw_the_one_before);
        RUN(test_a_node_comes_into_a_branch_from_which_another_one_goes);
        RUN(test_a_node_goes_out_of_a_branch_into_which_another_one_comes);
        RUN(test_a_reader_of_a_branch_that_was_replaced_meets_no_node_that_was_freed);
        RUN(test_a_hint_that_comes_while_its_list_is_found_empty_stays);
        return test_end();
}
