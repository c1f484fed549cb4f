/*
 * The short way of a write (ring/op/overwrite.h): it copies each byte of a key and of a value, and
 * no byte beside them; it serves keys and values of all lengths up to its own limit; above what a
 * cut needs it leaves nothing behind that no cut needs, and keeps no other key waiting.
 */
#include "ring/op/overwrite.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/horizon.h"
#include "tests/harness/faults.h"
#include "tests/unit/bus.h"

#define SPACE 1100u

/* Not inlined, as for lengths that are not known. */
__attribute__((noipa)) static void copy(unsigned char *to, const unsigned char *from, uint64_t len)
{
        sb_overwrite_copy(to, from, len);
}

static void test_a_copy_has_each_byte_and_touches_no_other(void)
{
        unsigned char from[SPACE], to[SPACE + 16], *exact;

        for (uint32_t i = 0; i < SPACE; i++)
                from[i] = (unsigned char)(1 + i * 7 % 251);
        for (uint32_t len = 0; len <= SPACE; len++) {
                exact = malloc(len); /* a read beyond it is seen by a sanitizer */
                CHECK(exact || len == 0);
                memcpy(exact, from, len);
                memset(to, 0xee, sizeof(to));
                copy(to + 8, exact, len);
                free(exact);
                CHECK(memcmp(to + 8, from, len) == 0);
                for (uint32_t i = 0; i < 8; i++)
                        CHECK(to[i] == 0xee && to[8 + len + i] == 0xee);
        }
}

static uint64_t hash_of(const unsigned char *key, uint64_t key_len)
{
        return sb_hash_key(key, key_len, writer.segment.seed);
}

/* A key has a value, and this writer has blocks of its size: then the short way does it. */
__attribute__((noipa)) static bool overwrite(
        const unsigned char *key, uint64_t key_len, const unsigned char *value, uint64_t value_len)
{
        struct sb_op_result result;

        return sb_overwrite(&writer, key, key_len, hash_of(key, key_len), value, value_len,
                       SB_OP_ANY_REV, &result) == SB_OVERWRITE_DONE;
}

static bool has(
        const unsigned char *key, uint32_t key_len, const unsigned char *value, uint64_t value_len)
{
        struct sb_version *version;
        bool same;

        sb_pin(&reader);
        version = sb_find_newest(
                &reader, key, key_len, sb_hash_key(key, key_len, writer.segment.seed));
        same = version && SB_SHAPE_KEY_LEN(version->shape) == key_len &&
               SB_SHAPE_VALUE_LEN(version->shape) == value_len &&
               memcmp(version->bytes, key, key_len) == 0 &&
               memcmp(version->bytes + key_len, value, value_len) == 0;
        sb_unpin(&reader);
        return same;
}

static void test_keys_and_values_of_all_lengths_go_the_short_way_up_to_its_limit(void)
{
        static unsigned char key[SB_KEY_LEN_MAX], value[SB_OVERWRITE_MAX + 1];
        static const uint32_t key_lens[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 47,
                48, 63, 64, 65, 128, 129, 240, 241, 500, 1023, 1024};

        CHECK(make_bus(32 << 20));
        for (uint32_t k = 0; k < sizeof(key_lens) / sizeof(key_lens[0]); k++) {
                uint32_t key_len = key_lens[k];

                for (uint32_t i = 0; i < key_len; i++)
                        key[i] = (unsigned char)('a' + (i + k) % 26);
                for (uint64_t len = 0; len <= SB_OVERWRITE_MAX - key_len;
                        len += len < 70 ? 1 : 97) {
                        struct sb_op_write write = {.key = key,
                                .key_len = key_len,
                                .value = value,
                                .value_len = len,
                                .expected_rev = SB_OP_ANY_REV};
                        struct sb_op_result result;
                        bool done;

                        memset(value, (int)len, sizeof(value));
                        if (len > 0)
                                value[len - 1] ^= 0x80;
                        /* The long way fetches blocks where this one has none at hand. */
                        done = false;
                        for (uint32_t tries = 0; tries < 40 && !done; tries++) {
                                CHECK_EQ(sb_op_write(&writer, &write, &result), 0);
                                value[0] ^= 1;
                                done = overwrite(key, key_len, value, len);
                        }
                        CHECK(done);
                        CHECK(has(key, key_len, value, len));
                }
                CHECK(!overwrite(key, key_len, value, SB_OVERWRITE_MAX - key_len + 1));
                CHECK(!overwrite(key, key_len, value, UINT64_MAX));
                CHECK(!overwrite(key, key_len, value, UINT64_MAX - key_len - 40));
        }
        unmake_bus();
}

/* Such an answer needs no memory, and leaves the block where it was. */
static void test_another_revision_than_was_expected_is_told_the_short_way(void)
{
        static const unsigned char key[] = "a key of some length", value[] = "some value";
        struct sb_op_write write = {.key = key,
                .key_len = sizeof(key),
                .value = value,
                .value_len = sizeof(value),
                .expected_rev = SB_OP_ANY_REV};
        static const uint64_t others[] = {0, 1, 3, 7, UINT64_MAX - 1};
        struct sb_op_result result;

        CHECK(make_bus(16 << 20));
        CHECK_EQ(sb_op_write(&writer, &write, &result), 0);
        CHECK_EQ(sb_op_write(&writer, &write, &result), 0);
        CHECK_EQ(result.rev, 2);
        for (uint32_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
                result.rev = 77;
                CHECK_EQ(sb_overwrite(&writer, key, sizeof(key), hash_of(key, sizeof(key)), value,
                                 sizeof(value), others[i], &result),
                        SB_OVERWRITE_CONFLICT);
                CHECK_EQ(result.rev, 2);
                CHECK_EQ(sb_load_relaxed(&writer.record->pin), 0);
        }
        CHECK_EQ(sb_overwrite(&writer, key, sizeof(key), hash_of(key, sizeof(key)), value,
                         sizeof(value), 2, &result),
                SB_OVERWRITE_DONE);
        CHECK_EQ(result.rev, 3);
        unmake_bus();
}

/* ---- above what a cut needs ---- */

#define HOT  "a key that is written again and again"
#define COLD "a key that is written once"

/* By the short way, which a client goes that has blocks of this size at hand; the long way fetches
 * some. Return: whether it was the short way. */
static bool write_short(const char *key)
{
        static const unsigned char value[] = "some value";

        if (overwrite((const unsigned char *)key, strlen(key), value, sizeof(value)))
                return true;
        if (put(&writer, key, value, sizeof(value)))
                abort();
        return false;
}

/* A key with a version that a cut needs, and a newer one, and a key that came after the cut; the
 * writer knows of the cut. */
static bool make_hot(uint32_t *ret_index)
{
        uint64_t cut;

        if (!make_bus(16 << 20) || put(&writer, HOT, "some value", 11) ||
                sb_snapshot_open(&reader, ret_index, &cut) || put(&writer, HOT, "some value", 11) ||
                put(&writer, COLD, "some value", 11))
                return false;
        /* A cell with a cut that is new to the client is looked at once more. */
        sb_work_all(&writer, false);
        sb_work_all(&writer, false);
        return chain_len(HOT) == 2 && !sb_limbo_pending(&writer);
}

static void test_a_short_write_above_what_a_cut_needs_takes_out_what_it_replaced(void)
{
        uint32_t index, count = 0;

        CHECK(make_hot(&index));
        for (uint32_t i = 0; i < 3 * SB_PENDING_BATCH; i++) {
                count += write_short(HOT);
                CHECK_EQ(chain_len(HOT), 2);
                CHECK(!sb_limbo_pending(&writer));
        }
        CHECK(count > 2 * SB_PENDING_BATCH);
        unmake_bus();
}

/* A cut came meanwhile: what it needs is left, and the writer remembers where. */
static void test_what_a_short_write_leaves_below_for_a_later_cut_is_noted(void)
{
        uint32_t index, later;
        uint64_t cut;

        CHECK(make_hot(&index));
        CHECK_EQ(sb_snapshot_open(&reader, &later, &cut), 0);
        CHECK(write_short(HOT));
        CHECK_EQ(chain_len(HOT), 3);
        CHECK_EQ(sb_limbo_pending(&writer), 1);
        sb_snapshot_close(&reader, later);
        sb_work_all(&writer, false);
        CHECK_EQ(chain_len(HOT), 2);
        unmake_bus();
}

/* A cell that was noted is looked at after so many writes, also when none of them notes one. */
static void test_writes_above_what_a_cut_needs_keep_no_other_key_waiting(void)
{
        uint32_t index, later, writes;
        uint64_t cut;

        CHECK(make_hot(&index));
        CHECK_EQ(sb_snapshot_open(&reader, &later, &cut), 0);
        CHECK(write_short(COLD));
        CHECK_EQ(sb_limbo_pending(&writer), 1);
        sb_snapshot_close(&reader, later);
        CHECK_EQ(sb_snapshot_open(&reader, &later, &cut), 0); /* by which it is seen */
        sb_snapshot_close(&reader, later);
        sb_horizon_renew(&writer);
        for (uint32_t i = writes = 0; sb_limbo_pending(&writer) && i < 4 * SB_PENDING_BATCH; i++)
                writes += write_short(HOT);
        CHECK(writes <= SB_PENDING_BATCH);
        CHECK_EQ(chain_len(COLD), 1);
        CHECK_EQ(chain_len(HOT), 2);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_copy_has_each_byte_and_touches_no_other);
        RUN(test_keys_and_values_of_all_lengths_go_the_short_way_up_to_its_limit);
        RUN(test_another_revision_than_was_expected_is_told_the_short_way);
        RUN(test_a_short_write_above_what_a_cut_needs_takes_out_what_it_replaced);
        RUN(test_what_a_short_write_leaves_below_for_a_later_cut_is_noted);
        RUN(test_writes_above_what_a_cut_needs_keep_no_other_key_waiting);
        return test_end();
}
