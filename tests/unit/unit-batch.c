/*
 * Batches of the log (ring/log/batch.h), in one process: what they hold up to each cut is the bus
 * at that cut, whatever is written between any two of a batch's steps, and however many batches
 * fail; and the batches of a copy are enough. Which buckets are marked, unit-unlogged shows; what
 * is kept for a batch, unit-batch-kept.
 */
#include "ring/log/batch.h"
#include "ring/log/load.h"
#include "ring/op/commit.h"
#include "ring/op/keep.h"
#include "shm/history/rules.h"
#include "shm/layout/report.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/log-model.h"

/* ---- one after another ---- */

static void test_what_was_written_is_in_the_next_batch_and_in_no_later_one(void)
{
        void *space = begin_log(4 << 20);

        CHECK(space);
        CHECK(!put(&writer, "key00", "a", 1) && !put(&writer, "key01", "b", 1));
        CHECK(log_once(true) && taken == 2 && logged.keys[0].rev == 1);
        CHECK(log_once(true) && taken == 2);
        CHECK(!put(&writer, "key00", "c", 1) && !put(&writer, "key00", "d", 1));
        CHECK(log_once(true) && taken == 3 && logged.keys[0].rev == 3);
        CHECK(!delete (&writer, "key01"));
        CHECK(log_once(true) && taken == 4 && logged.keys[1].kind == SB_VERSION_DELETED);
        CHECK(sb_load_relaxed(&writer.segment.super->durable) == batch.cut);
        free(space);
        unmake_bus();
}

static void test_a_batch_that_failed_comes_again(void)
{
        void *space = begin_log(4 << 20);

        CHECK(space);
        CHECK(!put(&writer, "key00", "a", 1));
        CHECK(log_once(false) && taken == 1 && !logged.keys[0].rev);
        CHECK(!sb_load_relaxed(&writer.segment.super->durable));
        CHECK(!put(&writer, "key01", "b", 1));
        CHECK(log_once(false) && taken == 3);
        CHECK(log_once(true) && taken == 5 && logged.keys[0].rev && logged.keys[1].rev);
        CHECK(log_once(true) && taken == 5);
        free(space);
        unmake_bus();
}

static void test_another_log_goes_on_where_the_first_one_was_durable(void)
{
        void *space = begin_log(4 << 20);

        CHECK(space);
        CHECK(!put(&writer, "key00", "a", 1) && log_once(true));
        CHECK(!put(&writer, "key01", "b", 1));
        /* The first one takes the mark of this, and ends in the middle. */
        CHECK(!sb_batch_begin(&reader, &batch));
        sb_snapshot_close(&reader, batch.snapshot);
        memset(space, 0, sb_batch_space(&writer.segment.geometry));
        sb_batch_init(
                &writer.segment, space, sb_load_relaxed(&writer.segment.super->durable), &batch);
        taken = 0;
        CHECK(log_once(true) && taken == 1 && logged.keys[1].rev == 1);
        free(space);
        unmake_bus();
}

/* ---- rules, long chains, little room ---- */

static void test_of_a_key_with_a_rule_every_version_is_logged_once_oldest_first(void)
{
        void *space = begin_log(16 << 20);
        char value[8];

        CHECK(space);
        CHECK(!sb_keep_write(&writer, "key00", 5, false, SB_RULE_WORD(SB_RULE_ALL, 0)));
        for (uint32_t i = 1; i <= 300; i++) {
                snprintf(value, sizeof(value), "%u", i);
                CHECK(!put(&writer, "key00", value, strlen(value)));
        }
        room_left = 2;
        CHECK(log_once(true));
        CHECK(logged.keys[0].rev == 300 && logged.keys[0].count == 300 && taken == 300);
        CHECK(room_asked > 10);
        CHECK(!put(&writer, "key00", "x", 1) && !put(&writer, "key00", "y", 1));
        CHECK(log_once(true) && taken == 302);
        room_left = 0;
        free(space);
        unmake_bus();
}

/* Of a chain that a rule keeps, each version is a few steps, however many there are. */
static void test_a_long_chain_is_not_gone_through_for_each_few_versions(void)
{
        static const uint32_t versions = 50000, each = 24;
        void *space = begin_log(16 << 20);
        char value[8];

        CHECK(space);
        CHECK(!sb_keep_write(&writer, "key00", 5, false, SB_RULE_WORD(SB_RULE_ALL, 0)));
        for (uint32_t i = 1; i <= versions; i++) {
                snprintf(value, sizeof(value), "%u", i);
                CHECK(!put(&writer, "key00", value, strlen(value)));
        }
        CHECK(log_once(true));
        CHECK(logged.keys[0].rev == versions && logged.keys[0].count == versions);
        CHECK(batch.walked > versions && batch.walked < each * versions);
        free(space);
        unmake_bus();
}

/* ---- copies ---- */

/* One batch, in which so many words of the copy are, too. */
static bool copy_some(uint32_t words, bool durable)
{
        if (sb_batch_begin(&reader, &batch))
                return false;
        sb_batch_copy_some(&reader, &batch, words);
        if (!read_batch())
                return false;
        end_batch(durable);
        return true;
}

static void begin_copy(void)
{
        memset(&copied, 0, sizeof(copied));
        sb_batch_copy(&batch);
}

/* Whether the copy knows all values that the log knows, and of key 0 all versions. */
static bool copy_is_enough(void)
{
        for (uint32_t i = 0; i < KEYS; i++) {
                const struct known *all = &logged.keys[i], *own = &copied.keys[i];

                if (own->rev != all->rev && (all->kind == SB_VERSION_VALUE || own->rev)) {
                        snprintf(wrong, sizeof(wrong), "key %u is revision %lu, copied %lu", i,
                                (unsigned long)all->rev, (unsigned long)own->rev);
                        return false;
                }
                if (own->rev && (own->kind != all->kind || strcmp(own->value, all->value) != 0))
                        return false;
        }
        return true;
}

static void test_the_batches_of_a_copy_are_enough(void)
{
        void *space = begin_log(64 << 20);
        uint64_t words = (writer.segment.bucket_count + 63) / 64;
        uint32_t batches = 0;

        CHECK(space && words > 20);
        CHECK(!sb_keep_write(&writer, "key00", 5, false, SB_RULE_WORD(SB_RULE_ALL, 0)));
        sb_batch_copy(&batch);
        CHECK(!batch.copying); /* the first one is all anyway */
        for (uint32_t i = 0; i < KEYS; i++) {
                char name[8];

                name_of(i, name);
                CHECK(!put(&writer, name, "a", 1) && !put(&writer, name, "b", 1));
        }
        CHECK(log_once(true) && log_once(true));
        begin_copy();
        CHECK(batch.copying);
        while (batch.copying) {
                /* This one is logged before the copy comes to it: all of it, and once. */
                CHECK(batches || !put(&writer, "key00", "c", 1));
                CHECK(copy_some((uint32_t)words / 9, batches % 3 != 1));
                batches++;
        }
        CHECK(batches > 9 && copy_is_enough());
        CHECK_EQ(copied.keys[0].count, 3);
        CHECK_EQ(copied.keys[1].count, 1);
        taken = 0;
        CHECK(log_once(true) && taken == 0);
        free(space);
        unmake_bus();
}

/* ---- anything in between ---- */

static bool commit_some(struct sb_handle *handle)
{
        struct sb_commit_write writes[3];
        struct sb_commit_result result;
        struct sb_commit_wish wish = {.writes = writes};
        char names[3][8], value[8];
        uint32_t i = (uint32_t)draw(KEYS - 3);
        int r;

        snprintf(value, sizeof(value), "t%u", (uint32_t)draw(1000));
        for (; wish.write_count < 3; i++) {
                name_of(i, names[wish.write_count]);
                writes[wish.write_count] = (struct sb_commit_write){.key = names[wish.write_count],
                        .key_len = 5,
                        .kind = SB_VERSION_VALUE,
                        .value = value,
                        .value_len = strlen(value)};
                wish.write_count++;
        }
        if (sb_snapshot_open(handle, &wish.snapshot, &wish.cut))
                return false;
        r = sb_commit_run(handle, &wish, &result);
        sb_snapshot_close(handle, wish.snapshot);
        return r == 0 || r == SB_E_CONFLICT;
}

static bool do_something(void)
{
        struct sb_handle *handle = draw(2) ? &writer : &reader;
        char name[8], value[16];
        int r = 0;

        name_of((uint32_t)draw(KEYS), name);
        snprintf(value, sizeof(value), "%u", (uint32_t)draw(100000));
        switch (draw(10)) {
        case 0:
        case 1:
                r = delete (handle, name);
                break;
        case 2:
                return commit_some(handle);
        case 3:
                writer.work.pressed = !draw(4);
                sb_work_all(&writer, true);
                writer.work.pressed = false;
                break;
        case 4:
                sb_work_due(handle);
                break;
        default:
                r = put(handle, name, value, strlen(value));
        }
        return r == 0 || r == SB_E_NOT_FOUND;
}

static bool do_some(void)
{
        for (uint64_t i = draw(8); i; i--)
                if (!do_something())
                        return false;
        return true;
}

static void test_up_to_each_cut_the_log_is_the_bus_whatever_happens_in_between(void)
{
        uint32_t wholes = 0, failed = 0, others = 0, copies = 0;
        bool copying = false;
        void *space = begin_log(4 << 20);
        uint64_t words = (writer.segment.bucket_count + 63) / 64;
        struct sb_check_report report;

        CHECK(space);
        draw_state = 20261123;
        for (uint32_t round = 0; round < 6000; round++) {
                if (!batch.copying && !draw(8))
                        begin_copy();
                copying = batch.copying;
                CHECK(do_some() && !sb_batch_begin(&reader, &batch) && do_some());
                sb_batch_copy_some(&reader, &batch, (uint32_t)draw(words));
                room_left = draw(3) ? 0 : 1 + (uint32_t)draw(4);
                if (!read_batch() || !do_some() || !is_the_bus()) {
                        TEST_FAIL("round %u: %s", round, wrong);
                        break;
                }
                wholes += batch.whole;
                if (!draw(16)) {
                        /* The log's process ends, and another one begins. */
                        sb_snapshot_close(&reader, batch.snapshot);
                        memset(space, 0, sb_batch_space(&writer.segment.geometry));
                        sb_batch_init(&writer.segment, space,
                                sb_load_relaxed(&writer.segment.super->durable), &batch);
                        others++;
                } else {
                        bool durable = draw(4) != 0;

                        failed += !durable;
                        if (draw(2)) {
                                sb_batch_release(&reader, &batch);
                                CHECK(do_some());
                                sb_batch_tidy(&reader, &batch);
                        }
                        end_batch(durable);
                        if (copying && !batch.copying) {
                                copies++;
                                CHECK(copy_is_enough());
                        }
                }
        }
        printf("# 6000 batches: %u whole, %u failed, %u logs that ended, %u copies\n", wholes,
                failed, others, copies);
        CHECK(wholes > 50 && failed > 500 && others > 100 && copies > 100);
        CHECK(!sb_check(&reader, true, &report));
        free(space);
        unmake_bus();
}

/* Cuts as high as a log that is loaded may have them. */
static void test_behind_the_highest_cut_that_is_loaded_a_bus_is_logged(void)
{
        void *space = begin_log(4 << 20);

        CHECK(space);
        sb_clock_resume(&writer, SB_LOAD_CUT_MAX);
        CHECK(!put(&writer, "key00", "a", 1) && log_once(true) && logged.keys[0].rev == 1);
        for (uint32_t i = 2; i < 6; i++) {
                CHECK(!put(&writer, "key00", "b", 1));
                CHECK(log_once(true) && logged.keys[0].rev == i);
        }
        free(space);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_what_was_written_is_in_the_next_batch_and_in_no_later_one);
        RUN(test_a_batch_that_failed_comes_again);
        RUN(test_another_log_goes_on_where_the_first_one_was_durable);
        RUN(test_of_a_key_with_a_rule_every_version_is_logged_once_oldest_first);
        RUN(test_a_long_chain_is_not_gone_through_for_each_few_versions);
        RUN(test_the_batches_of_a_copy_are_enough);
        RUN(test_behind_the_highest_cut_that_is_loaded_a_bus_is_logged);
        RUN(test_up_to_each_cut_the_log_is_the_bus_whatever_happens_in_between);
        return test_end();
}
