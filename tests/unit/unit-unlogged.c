/*
 * Which buckets have changes that a log has not taken (shm/notify/unlogged.h): each has a mark of
 * its own, which the first change since the last batch sets, all the way up, and a batch takes.
 */
#include "ring/log/batch.h"
#include "shm/notify/unlogged.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/log-model.h"

static uint64_t marked;

static void count_bits(void *context, uint64_t word, uint64_t bits)
{
        (void)context, (void)word;
        marked += (uint64_t)__builtin_popcountll(bits);
}

static uint64_t take_marks(void)
{
        marked = 0;
        sb_unlogged_take(&writer.segment, count_bits, NULL);
        return marked;
}

static void test_a_hot_key_is_marked_once_for_each_batch(void)
{
        void *space = begin_log(4 << 20);

        CHECK(space);
        CHECK(!put(&writer, "key00", "a", 1) && log_once(true));
        CHECK(!put(&writer, "key00", "b", 1) && take_marks() == 1);
        for (uint32_t i = 0; i < 100; i++)
                CHECK(!put(&writer, "key00", "c", 1));
        CHECK(take_marks() == 0);
        sb_unlogged_ask_all(&writer.segment);
        CHECK(!put(&writer, "key00", "d", 1) && take_marks() == 1);
        free(space);
        unmake_bus();
}

static void test_without_a_log_nothing_is_marked(void)
{
        CHECK(make_bus(4 << 20));
        CHECK(!put(&writer, "key00", "a", 1) && !put(&writer, "key00", "b", 1) &&
                !delete (&writer, "key00"));
        CHECK(take_marks() == 0);
        unmake_bus();
}

static void test_every_bucket_has_a_mark_of_its_own(void)
{
        static const uint32_t counts[] = {8, 64, 128, 1 << 12, 1 << 16};

        for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                struct sb_geometry_wish wish = {
                        .size = 32 << 20, .clients = 2, .bucket_count = counts[i]};

                CHECK(make_bus_of(&wish));
                sb_unlogged_ask_all(&writer.segment);
                for (uint64_t bucket = 0; bucket < counts[i]; bucket++)
                        sb_unlogged_tell(&writer.segment, SB_CELL_NUMBER(bucket, bucket % 7), 0);
                CHECK(take_marks() == counts[i] && take_marks() == 0);
                sb_unlogged_tell(&writer.segment, SB_CELL_NUMBER(counts[i] - 1, 6), 0);
                sb_unlogged_tell(&writer.segment, SB_CELL_NUMBER(counts[i] - 1, 0), 0);
                CHECK(take_marks() == 1 && take_marks() == 0);
                unmake_bus();
        }
}

static void test_marks_that_no_bucket_has_are_passed_by(void)
{
        struct sb_geometry_wish wish = {.size = 4 << 20, .clients = 2, .bucket_count = 128};
        void *space;

        CHECK(make_bus_of(&wish));
        sb_unlogged_ask_all(&writer.segment);
        space = calloc(1, sb_batch_space(&writer.segment.geometry));
        CHECK(space);
        sb_batch_init(&writer.segment, space, 0, &batch);
        memset(&logged, 0, sizeof(logged));
        CHECK(log_once(true));
        for (uint32_t i = 0; i < 2; i++)
                sb_or_full(&writer.segment.unlogged[0][i], UINT64_MAX);
        sb_or_full(&writer.segment.unlogged[1][0], UINT64_MAX);
        /* Behind the words of one level lie those of the next. */
        CHECK_EQ(sb_unlogged_count(&writer.segment), 128);
        CHECK(log_once(true));
        free(space);
        unmake_bus();
}

static void test_a_writer_marks_all_the_way_up_where_another_one_stopped(void)
{
        void *space = begin_log(4 << 20);

        CHECK(space);
        CHECK(!put(&writer, "key00", "a", 1) && log_once(true));
        CHECK(!put(&writer, "key00", "b", 1));
        /* As if the writer had been stopped behind the bit of the bucket. */
        for (uint32_t level = 1; level < writer.segment.unlogged_levels; level++)
                for (uint64_t i = 0; i < 64 && i * 64 < writer.segment.bucket_count; i++)
                        sb_store_relaxed(&writer.segment.unlogged[level][0], 0);
        sb_unlogged_ask_all(&writer.segment);
        CHECK(!put(&reader, "key00", "c", 1));
        CHECK(take_marks() == 1);
        free(space);
        unmake_bus();
}

/* A deleted key goes when its delete is durable: on a bus where nothing is written any more, no
 * later batch would come. */
static void test_what_the_durable_cut_has_is_not_waited_for(void)
{
        void *space = begin_log(4 << 20);
        uint64_t durable;

        CHECK(space);
        CHECK(!put(&writer, "key00", "a", 1) && log_once(true));
        durable = sb_load_acquire(&writer.segment.super->durable);
        CHECK(durable > SB_STAMP_PLACEHOLDER);
        CHECK(!sb_unlogged_awaits(&writer.segment, durable - 1));
        CHECK(!sb_unlogged_awaits(&writer.segment, durable));
        CHECK(sb_unlogged_awaits(&writer.segment, durable + 1));
        free(space);
        unmake_bus();
        CHECK(make_bus(4 << 20));
        CHECK(!sb_unlogged_awaits(&writer.segment, UINT64_MAX));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_hot_key_is_marked_once_for_each_batch);
        RUN(test_without_a_log_nothing_is_marked);
        RUN(test_every_bucket_has_a_mark_of_its_own);
        RUN(test_marks_that_no_bucket_has_are_passed_by);
        RUN(test_a_writer_marks_all_the_way_up_where_another_one_stopped);
        RUN(test_what_the_durable_cut_has_is_not_waited_for);
        return test_end();
}
