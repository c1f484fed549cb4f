/*
 * The stage of the log (agentd/wal/wal-stage.h): what is put in comes out as it was and in its
 * order, it grows as far as it may, and a value that is larger has a stage of its size.
 */
#include <errno.h>
#include <mimalloc.h>
#include <string.h>

#include "agentd/wal/wal-stage.h"
#include "shm/layout/block.h"
#include "tests/harness/test.h"
#include "tests/unit/blocks.h"

#define ENTRIES 8u

static struct sb_wal_stage stage;
static unsigned char bytes[4 << 20];

/* What came out. */
static struct sb_wal_entry written[ENTRIES];
static uint32_t written_count;
static uint32_t fails_at; /* the entry that the writer does not take; ENTRIES: none */

int __wrap_sb_wal_writer_add(struct sb_wal_writer *writer, const struct sb_wal_entry *entry);
int __wrap_sb_wal_writer_add(struct sb_wal_writer *writer, const struct sb_wal_entry *entry)
{
        (void)writer;
        if (written_count == fails_at || written_count == ENTRIES)
                return -EIO;
        written[written_count++] = *entry;
        return 0;
}

static struct sb_batch_entry entry_of(uint32_t i, uint32_t key_len, uint64_t value_len)
{
        static const uint32_t kinds[] = {
                SB_VERSION_VALUE, SB_VERSION_EXPIRED, SB_VERSION_DELETED, SB_VERSION_VALUE};

        return (struct sb_batch_entry){.kind = kinds[i % 4],
                .born = i % 3 == 0,
                .writer = 5 + i,
                .key = bytes + 100 * (size_t)i,
                .key_len = key_len,
                .value = bytes + 3000 - 100 * (size_t)i,
                .value_len = value_len,
                .rev = 7 + i,
                .stamp = 90 + i,
                .txn = 40 - i};
}

static bool is_entry(const struct sb_wal_entry *have, uint32_t i, const struct sb_batch_entry *put)
{
        static const uint32_t kinds[] = {
                SB_WAL_VALUE, SB_WAL_EXPIRED, SB_WAL_TOMBSTONE, SB_WAL_VALUE};

        return have->kind == kinds[i % 4] && have->flags == (i % 3 ? 0 : SB_WAL_BORN) &&
               have->writer == 5 + i && have->rev == 7 + i && have->stamp == 90 + i &&
               have->transaction == 40 - i && have->key_len == put->key_len &&
               have->value_len == put->value_len && !memcmp(have->key, put->key, put->key_len) &&
               !memcmp(have->value, put->value, put->value_len);
}

static bool begin(void)
{
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (unsigned char)(i * 7 + i / 251);
        blocks = 0;
        memory_ends = false;
        written_count = 0;
        fails_at = ENTRIES;
        return sb_wal_stage_init(&stage) == 0;
}

static void end(void)
{
        mi_free(stage.bytes);
        CHECK_EQ(blocks, 0);
}

static void test_what_goes_in_comes_out_in_its_order_once(void)
{
        static const uint32_t lens[][2] = {{1, 0}, {7, 1}, {8, 8}, {9, 500}, {30, 3}, {16, 1000}};
        struct sb_batch_entry put[6];
        uint64_t count = 100, sum = 100;

        CHECK(begin());
        for (uint32_t i = 0; i < 6; i++) {
                put[i] = entry_of(i, lens[i][0], lens[i][1]);
                CHECK(sb_wal_stage_add(&stage, &put[i]));
                sum += sb_wal_entry_size(lens[i][0], lens[i][1]);
        }
        CHECK_EQ(sb_wal_stage_write(&stage, NULL, &count), 0);
        CHECK(count == sum && written_count == 6 && stage.len == 0);
        for (uint32_t i = 0; i < 6; i++)
                CHECK(is_entry(&written[i], i, &put[i]));
        CHECK_EQ(sb_wal_stage_write(&stage, NULL, &count), 0);
        CHECK(count == sum && written_count == 6);
        end();
}

static void test_what_the_writer_says_is_handed_on_and_what_is_left_is_dropped(void)
{
        struct sb_batch_entry put = entry_of(0, 8, 8);
        uint64_t count = 0;

        CHECK(begin());
        for (uint32_t i = 0; i < 3; i++)
                CHECK(sb_wal_stage_add(&stage, &put));
        fails_at = 1;
        CHECK_EQ(sb_wal_stage_write(&stage, NULL, &count), -EIO);
        CHECK_EQ(count, sb_wal_entry_size(8, 8));
        sb_wal_stage_clear(&stage);
        CHECK_EQ(sb_wal_stage_write(&stage, NULL, &count), 0);
        CHECK_EQ(written_count, 1);
        end();
}

/* To the byte, with what stands in front of each entry. */
static void test_an_entry_goes_in_where_there_is_room_for_it(void)
{
        struct sb_batch_entry put = entry_of(0, 8, 0);
        uint64_t head;

        CHECK(begin());
        CHECK(sb_wal_stage_add(&stage, &put));
        head = stage.len - 8;
        put.value_len = stage.capacity - stage.len - head - 8 + 1;
        CHECK(!sb_wal_stage_add(&stage, &put));
        CHECK_EQ(stage.len, head + 8);
        put.value_len--;
        CHECK(sb_wal_stage_add(&stage, &put));
        CHECK_EQ(stage.len, stage.capacity);
        end();
}

static void test_a_stage_grows_to_32_mib_and_keeps_what_it_has(void)
{
        struct sb_batch_entry put = entry_of(1, 9, 700);
        uint64_t count = 0;

        CHECK(begin());
        CHECK(sb_wal_stage_add(&stage, &put));
        for (uint64_t size = 2 << 20; size <= 32 << 20; size *= 2) {
                memory_ends = true;
                CHECK(!sb_wal_stage_grow(&stage));
                CHECK_EQ(stage.capacity, size / 2);
                memory_ends = false;
                CHECK(sb_wal_stage_grow(&stage));
                CHECK_EQ(stage.capacity, size);
        }
        memset(stage.bytes + stage.len, 0xff, stage.capacity - stage.len); /* it is there */
        CHECK(!sb_wal_stage_grow(&stage));
        CHECK_EQ(stage.capacity, 32 << 20);
        CHECK_EQ(sb_wal_stage_write(&stage, NULL, &count), 0);
        CHECK(written_count == 1 && is_entry(&written[0], 1, &put));
        end();
}

/* And goes back when the next one is asked for. */
static void test_a_larger_value_has_a_stage_of_its_size(void)
{
        struct sb_batch_entry put = entry_of(0, 8, sizeof(bytes) - 3000);
        const unsigned char *before;
        uint64_t head, large = UINT64_C(40) << 20;

        CHECK(begin());
        CHECK(!sb_wal_stage_add(&stage, &put));
        CHECK_EQ(sb_wal_stage_reserve(&stage, put.key_len + put.value_len), 0);
        CHECK(sb_wal_stage_add(&stage, &put));
        CHECK_EQ(stage.len, stage.capacity);
        head = stage.len - ((put.key_len + put.value_len + 7) & ~UINT64_C(7));
        sb_wal_stage_clear(&stage);
        before = stage.bytes;
        CHECK_EQ(sb_wal_stage_reserve(&stage, stage.capacity - head), 0);
        CHECK(stage.bytes == before);
        memory_ends = true;
        CHECK_EQ(sb_wal_stage_reserve(&stage, stage.capacity - head + 1), -ENOMEM);
        CHECK(stage.bytes == before);
        memory_ends = false;
        CHECK_EQ(sb_wal_stage_reserve(&stage, large), 0);
        CHECK_EQ(stage.capacity, large + head);
        CHECK(!sb_wal_stage_grow(&stage));
        CHECK_EQ(sb_wal_stage_reserve(&stage, 1), 0);
        CHECK_EQ(stage.capacity, 1 << 20);
        CHECK_EQ(sb_wal_stage_reserve(&stage, (32 << 20) - head), 0);
        before = stage.bytes;
        CHECK_EQ(sb_wal_stage_reserve(&stage, 1), 0);
        CHECK(stage.bytes == before);
        end();
        memory_ends = true;
        CHECK_EQ(sb_wal_stage_init(&stage), -ENOMEM);
        memory_ends = false;
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_what_goes_in_comes_out_in_its_order_once);
        RUN(test_what_the_writer_says_is_handed_on_and_what_is_left_is_dropped);
        RUN(test_an_entry_goes_in_where_there_is_room_for_it);
        RUN(test_a_stage_grows_to_32_mib_and_keeps_what_it_has);
        RUN(test_a_larger_value_has_a_stage_of_its_size);
        return test_end();
}
