/*
 * What is kept in a segment for a batch of the log (ring/log/batch.h), and how long: a deleted key
 * until it is logged, or until memory is short; what a batch reads until it was read; and what was
 * kept for it alone goes when it is tidied.
 */
#include "ring/log/batch.h"
#include "ring/op/keep.h"
#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/horizon.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/log-model.h"

static bool is_there(const char *key)
{
        bool there;

        sb_pin(&reader);
        there = find(key);
        sb_unpin(&reader);
        return there;
}

static void test_a_deleted_key_waits_for_the_log(void)
{
        void *space = begin_log(4 << 20);

        CHECK(space);
        CHECK(!put(&writer, "key00", "a", 1) && log_once(true));
        CHECK(!delete (&writer, "key00"));
        sb_work_all(&writer, true);
        CHECK(is_there("key00"));
        CHECK(log_once(true) && logged.keys[0].kind == SB_VERSION_DELETED);
        sb_work_all(&reader, false);
        CHECK(!is_there("key00"));
        CHECK(log_once(true) && !batch.whole);
        free(space);
        unmake_bus();
}

static void test_where_memory_is_short_it_goes_and_the_batch_is_whole(void)
{
        void *space = begin_log(4 << 20);

        CHECK(space);
        CHECK(!put(&writer, "key00", "a", 1) && !put(&writer, "key01", "b", 1));
        CHECK(log_once(true));
        CHECK(!delete (&writer, "key00"));
        writer.work.pressed = true;
        sb_work_all(&writer, true);
        writer.work.pressed = false;
        CHECK(!is_there("key00"));
        CHECK(!sb_batch_begin(&reader, &batch));
        CHECK(read_batch() && batch.whole && is_the_bus());
        CHECK(!staged.keys[0].rev && staged.keys[1].rev == 1);
        end_batch(true);
        CHECK(log_once(true) && !batch.whole);
        free(space);
        unmake_bus();
}

/* Replace all keys by large values. Return: how many of them found memory. */
static uint32_t put_large(const char *value, size_t len)
{
        char name[8];
        uint32_t i;

        for (i = 0; i < KEYS; i++) {
                name_of(i, name);
                if (put(&writer, name, value, len)) {
                        sb_work_all(&writer, true);
                        if (put(&writer, name, value, len))
                                break;
                }
        }
        return i;
}

/* Twice the bus does not fit into the memory. */
static void test_while_the_disk_works_nothing_is_kept_for_the_batch(void)
{
        static char value[90000];
        void *space = begin_log(4 << 20);

        CHECK(space);
        CHECK(put_large(value, sizeof(value)) == KEYS);
        CHECK(!sb_batch_begin(&reader, &batch) && read_batch());
        CHECK(put_large(value, sizeof(value)) < KEYS);
        sb_batch_release(&reader, &batch);
        CHECK(put_large(value, sizeof(value)) == KEYS && put_large(value, sizeof(value)) == KEYS);
        end_batch(true);
        CHECK(log_once(true) && logged.keys[KEYS - 1].rev >= 3);
        free(space);
        unmake_bus();
}

static void test_writers_hear_that_a_batch_was_read(void)
{
        void *space = begin_log(16 << 20);
        uint64_t clock;

        CHECK(space && !put(&writer, "key00", "a", 1) && log_once(true));
        CHECK(!sb_batch_begin(&reader, &batch));
        CHECK(!put(&writer, "key00", "b", 1));
        sb_horizon_renew(&writer);
        CHECK(sb_horizon_has_cuts(&writer));
        CHECK(read_batch());
        sb_batch_release(&reader, &batch);
        sb_horizon_renew(&writer);
        CHECK(!sb_horizon_has_cuts(&writer));
        /* Once. */
        clock = sb_load_relaxed(&writer.segment.super->clock);
        sb_batch_release(&reader, &batch);
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->clock), clock);
        end_batch(true);
        free(space);
        unmake_bus();
}

/* How many versions a key's chain has. */
static uint32_t chain_of(const char *name)
{
        uint32_t count = 0;

        sb_pin(&reader);
        for (struct sb_version *version =
                        sb_find_newest(&reader, name, 5, sb_hash_key(name, 5, reader.segment.seed));
                version && SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER; count++)
                version = sb_version_at(
                        &reader.segment, sb_pin_load(&reader, &version->prev) & SB_OFFSET_MASK);
        sb_unpin(&reader);
        return count;
}

/* All keys, so that a tidying walk has its pipe full. */
static bool put_all(const char *value)
{
        for (uint32_t i = 0; i < KEYS; i++) {
                char name[8];

                name_of(i, name);
                if (put(&writer, name, value, strlen(value)))
                        return false;
        }
        return true;
}

static uint32_t chains(void)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < KEYS; i++) {
                char name[8];

                name_of(i, name);
                count += chain_of(name);
        }
        return count;
}

static void test_what_was_kept_for_a_batch_alone_goes_when_that_is_tidied(void)
{
        void *space = begin_log(16 << 20);

        CHECK(space && put_all("a") && log_once(true) && chains() == KEYS);
        CHECK(!sb_batch_begin(&reader, &batch));
        CHECK(put_all("b") && read_batch() && chains() == 2 * KEYS);
        sb_horizon_renew(&reader);
        sb_batch_release(&reader, &batch);
        sb_batch_tidy(&reader, &batch);
        CHECK_EQ(chains(), KEYS);
        end_batch(true);
        /* The marks are as they were. */
        taken = 0;
        CHECK(log_once(true) && taken == KEYS && !strcmp(logged.keys[KEYS - 1].value, "b"));
        free(space);
        unmake_bus();
}

static void test_what_another_cut_or_a_rule_keeps_stays_when_a_batch_is_tidied(void)
{
        void *space = begin_log(16 << 20);
        uint32_t snapshot;
        uint64_t cut;

        CHECK(space && !sb_keep_write(&writer, "key00", 5, false, SB_RULE_WORD(SB_RULE_LAST, 3)));
        CHECK(put_all("a") && log_once(true));
        CHECK(!sb_snapshot_open(&writer, &snapshot, &cut));
        CHECK(!sb_batch_begin(&reader, &batch));
        CHECK(put_all("b") && read_batch());
        sb_batch_release(&reader, &batch);
        sb_batch_tidy(&reader, &batch);
        CHECK_EQ(chains(), 2 * KEYS);
        sb_snapshot_close(&writer, snapshot);
        (void)sb_clock_take_cut(&writer);
        sb_batch_tidy(&reader, &batch);
        CHECK_EQ(chains(), KEYS + 1);
        CHECK_EQ(chain_of("key00"), 2);
        end_batch(true);
        free(space);
        unmake_bus();
}

/* A thousand cuts may keep as many versions of a key, and the log walks over many keys. */
static void test_what_was_kept_before_a_batch_is_not_walked_over_when_it_is_tidied(void)
{
        void *space = begin_log(16 << 20);
        uint32_t snapshot;
        uint64_t cut;

        CHECK(space && put_all("a") && !sb_snapshot_open(&writer, &snapshot, &cut));
        CHECK(put_all("b") && log_once(true) && chains() == 2 * KEYS);
        sb_snapshot_close(&writer, snapshot);
        CHECK(!sb_batch_begin(&reader, &batch));
        CHECK(put_all("c") && read_batch() && chains() == 3 * KEYS);
        sb_batch_release(&reader, &batch);
        sb_batch_tidy(&reader, &batch);
        CHECK_EQ(chains(), 2 * KEYS);
        end_batch(true);
        free(space);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_deleted_key_waits_for_the_log);
        RUN(test_where_memory_is_short_it_goes_and_the_batch_is_whole);
        RUN(test_while_the_disk_works_nothing_is_kept_for_the_batch);
        RUN(test_writers_hear_that_a_batch_was_read);
        RUN(test_what_was_kept_for_a_batch_alone_goes_when_that_is_tidied);
        RUN(test_what_another_cut_or_a_rule_keeps_stays_when_a_batch_is_tidied);
        RUN(test_what_was_kept_before_a_batch_is_not_walked_over_when_it_is_tidied);
        return test_end();
}
