/*
 * Batches of the log (ring/log/batch.h, shm/notify/unlogged.h), in one process: what they hold up
 * to each cut is the bus at that cut, whatever is written between any two of a batch's steps, and
 * however many batches fail; which buckets are marked, and when; that a deleted key waits for the
 * log, and where memory is short says that it did not; and that the batches of a copy are enough.
 */
#include "ring/log/batch.h"
#include "ring/op/commit.h"
#include "ring/op/keep.h"
#include "shm/base/fault.h"
#include "shm/history/rules.h"
#include "shm/keys/index.h"
#include "shm/layout/report.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/snapshot.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/unlogged.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/reap.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"

#define KEYS     24u
#define VERSIONS 64u

/* What a log knows of a key: the newest version that was given, and all of them. */
struct known {
        uint64_t rev, stamp, count;
        uint32_t kind;
        char value[24];
        uint64_t revs[VERSIONS];
};
struct contents {
        struct known keys[KEYS];
};

static struct contents logged, staged;
/* The same by the batches of the copy alone. Fewer versions of a key than by all is a chain cut
 * short. */
static struct contents copied, copy_staged;
static struct sb_batch batch;
static uint32_t room_asked, room_left, taken;
static char wrong[200];

static void name_of(uint32_t i, char ret[8])
{
        snprintf(ret, 8, "key%02u", i);
}

/* A bus with a log: from the beginning each change is told. */
static void *begin_log(uint64_t size)
{
        void *space;

        if (!make_bus(size))
                return NULL;
        sb_unlogged_ask_all(&writer.segment);
        space = calloc(1, sb_batch_space(&writer.segment.geometry));
        if (space)
                sb_batch_init(&writer.segment, space, 0, &batch);
        memset(&logged, 0, sizeof(logged));
        taken = 0;
        return space;
}

/* Put an entry to what is known. */
static void know(struct known *known, uint32_t i, const struct sb_batch_entry *entry)
{
        if (known->rev && entry->rev < known->rev) {
                if (!batch.copying)
                        snprintf(wrong, sizeof(wrong), "key %u: revision %lu behind %lu", i,
                                (unsigned long)entry->rev, (unsigned long)known->rev);
                return;
        }
        if (entry->rev != known->rev)
                known->revs[known->count++ % VERSIONS] = entry->rev;
        known->rev = entry->rev;
        known->stamp = entry->stamp;
        known->kind = entry->kind;
        memset(known->value, 0, sizeof(known->value));
        memcpy(known->value, entry->value,
                entry->value_len < sizeof(known->value) ? entry->value_len : sizeof(known->value));
}

static bool take(const struct sb_batch_entry *entry, void *context)
{
        uint32_t i;

        (void)context;
        if (entry->key_len != 5 || memcmp(entry->key, "key", 3))
                return true; /* a rule */
        if (room_left && !--room_left)
                return false;
        i = (uint32_t)(entry->key[3] - '0') * 10 + (uint32_t)(entry->key[4] - '0');
        if (entry->stamp > batch.cut)
                snprintf(wrong, sizeof(wrong), "key %u: a stamp above the cut", i);
        know(&staged.keys[i], i, entry);
        if (batch.copying)
                know(&copy_staged.keys[i], i, entry);
        taken++;
        return true;
}

static int room(uint64_t size, void *context)
{
        (void)context;
        room_asked++;
        room_left = size ? 3 : 0;
        return 0;
}

/* All of a batch: what is staged is complete behind it. */
static bool read_batch(void)
{
        staged = logged;
        copy_staged = copied;
        if (sb_batch_each(&reader, &batch, take, room, NULL))
                return false;
        if (sb_batch_turns_whole(&reader, &batch)) {
                memset(&staged, 0, sizeof(staged));
                memset(&copy_staged, 0, sizeof(copy_staged));
                if (sb_batch_each(&reader, &batch, take, room, NULL) ||
                        sb_batch_turns_whole(&reader, &batch))
                        return false;
        }
        return !*wrong;
}

static void end_batch(bool durable)
{
        sb_batch_end(&reader, &batch, durable);
        if (durable) {
                logged = staged;
                copied = copy_staged;
        }
}

/* Whether the staged contents are the bus at the batch's cut. */
static bool is_the_bus(void)
{
        for (uint32_t i = 0; i < KEYS; i++) {
                const struct known *known = &staged.keys[i];
                struct sb_version *version;
                uint64_t rev = 0, len = 0;
                char name[8], value[24] = "";

                name_of(i, name);
                sb_pin(&reader);
                version = sb_find_at(
                        &reader, name, 5, sb_hash_key(name, 5, reader.segment.seed), batch.cut);
                if (version && sb_version_has_value(version)) {
                        rev = version->rev;
                        len = SB_SHAPE_VALUE_LEN(version->shape);
                        memcpy(value, version->bytes + 5, len < 24 ? len : 24);
                }
                sb_unpin(&reader);
                if (rev != (known->rev && known->kind == SB_VERSION_VALUE ? known->rev : 0) ||
                        (rev && memcmp(value, known->value, sizeof(value)))) {
                        printf("# %s at cut %lu: revision %lu, the log has %lu, kind %u\n", name,
                                (unsigned long)batch.cut, (unsigned long)rev,
                                (unsigned long)known->rev, known->kind);
                        return false;
                }
        }
        return true;
}

/* ---- one after another ---- */

static bool log_once(bool durable)
{
        bool good;

        if (sb_batch_begin(&reader, &batch))
                return false;
        good = read_batch() && is_the_bus();
        end_batch(durable);
        return good;
}

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

/* ---- marks ---- */

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

/* ---- deletes ---- */

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

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_what_was_written_is_in_the_next_batch_and_in_no_later_one);
        RUN(test_a_batch_that_failed_comes_again);
        RUN(test_another_log_goes_on_where_the_first_one_was_durable);
        RUN(test_a_hot_key_is_marked_once_for_each_batch);
        RUN(test_without_a_log_nothing_is_marked);
        RUN(test_every_bucket_has_a_mark_of_its_own);
        RUN(test_marks_that_no_bucket_has_are_passed_by);
        RUN(test_a_writer_marks_all_the_way_up_where_another_one_stopped);
        RUN(test_a_deleted_key_waits_for_the_log);
        RUN(test_where_memory_is_short_it_goes_and_the_batch_is_whole);
        RUN(test_while_the_disk_works_nothing_is_kept_for_the_batch);
        RUN(test_writers_hear_that_a_batch_was_read);
        RUN(test_what_was_kept_for_a_batch_alone_goes_when_that_is_tidied);
        RUN(test_what_another_cut_or_a_rule_keeps_stays_when_a_batch_is_tidied);
        RUN(test_what_was_kept_before_a_batch_is_not_walked_over_when_it_is_tidied);
        RUN(test_of_a_key_with_a_rule_every_version_is_logged_once_oldest_first);
        RUN(test_the_batches_of_a_copy_are_enough);
        RUN(test_up_to_each_cut_the_log_is_the_bus_whatever_happens_in_between);
        return test_end();
}
