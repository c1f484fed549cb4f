/*
 * Large values on a bus in which small ones lie scattered: they find room, because versions move
 * out of their way (shm/upkeep/move.h), and no other client can tell.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "shm/layout/block.h"
#include "shm/memory/unit.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB      (UINT64_C(1) << 20)
#define KEYS_MAX 40000u
#define TINY     8u

static struct world world;
static struct sb_bus *bus;
static unsigned char bytes[16 << 20];
static struct {
        uint64_t rev;
        uint32_t len;
} keys[KEYS_MAX];
static unsigned key_count;

#define BEGIN() WORLD_BEGIN(16 * MIB)
#define END()   WORLD_END()

static struct sb_bytes key_of(unsigned i)
{
        static char text[16];

        snprintf(text, sizeof(text), "k%06u", i);
        return b(text);
}

static uint32_t unit_size(void)
{
        return bus->handle.segment.geometry.unit_size;
}

/* A value of so many bytes, which are all the same. */
static struct sb_bytes value_of(unsigned i, size_t len)
{
        memset(bytes, 'a' + (int)(i % 26), len);
        return (struct sb_bytes){bytes, len};
}

static int set(unsigned i, size_t len, uint64_t wait_ns)
{
        struct sb_write how = {.size = sizeof(how), .deadline_ns = now_ns() + wait_ns};
        uint64_t rev;
        int r = sb_set(bus, key_of(i), value_of(i, len), &how, &rev);

        if (r == 0) {
                keys[i].rev = rev;
                keys[i].len = (uint32_t)len;
        }
        return r;
}

static bool is_value(const struct sb_guard *guard, unsigned i)
{
        const unsigned char *at = guard->value.data;

        return guard->rev == keys[i].rev && guard->value.len == keys[i].len &&
               at[0] == 'a' + i % 26 && at[guard->value.len - 1] == 'a' + i % 26;
}

/* Whether all keys are what they were set to. */
static bool all_there(void)
{
        for (unsigned i = 0; i < key_count; i++) {
                struct sb_guard guard = {0};
                bool right = sb_get(bus, key_of(i), &guard) == 0 && is_value(&guard, i);

                sb_guard_release(&guard);
                if (!right)
                        return false;
        }
        return true;
}

/* Free units side by side. */
static uint32_t longest_run(void)
{
        const struct sb_segment *segment = &bus->handle.segment;
        uint32_t count = segment->geometry.unit_count - segment->geometry.reserve_count, row = 0,
                 longest = 0;

        for (uint32_t unit = 0; unit < count; unit++) {
                enum sb_unit_kind kind = SB_UNIT_KIND(sb_unit_word(segment, unit));

                row = kind == SB_UNIT_FREE || kind == SB_UNIT_EMPTY ? row + 1 : 0;
                longest = row > longest ? row : longest;
        }
        return longest;
}

/* So many keys are made, with tiny values. Then they get values of several sizes, until the bus is
 * full, and most get tiny ones again: in each unit one or two of the others are left. */
static bool scatter(unsigned count)
{
        static const uint32_t lens[] = {200, 1200, 600, 1900, 350};
        unsigned grown = 0;

        for (key_count = 0; key_count < count; key_count++)
                if (set(key_count, TINY, 0) != 0)
                        return false;
        while (grown < count && set(grown, lens[grown / 16 % 5], 2000000) == 0)
                grown++;
        if (grown == count)
                return false;
        for (unsigned i = 0; i < grown; i++)
                if (i % 16 % (3000 / keys[i].len) != 0 && set(i, TINY, 2000000) != 0)
                        return false;
        world_prune(&world, bus);
        return true;
}

/* With a deadline of a second, as every write has that names none. */
static void test_values_of_many_units_find_room_where_small_ones_lie_scattered(void)
{
        static const unsigned counts[] = {2, 3, 10, 64, 65, 300, 1000};

        BEGIN();
        CHECK(scatter(18000));
        CHECK(longest_run() < 5);
        for (unsigned i = 0; i < 7; i++) {
                struct sb_bytes value = value_of(i, (size_t)counts[i] * unit_size() - 200);

                CHECK_EQ(sb_set(bus, b("large"), value, NULL, NULL), 0);
                CHECK(all_there());
                CHECK_EQ(sb_delete(bus, b("large"), SB_ANY_REV, NULL, NULL), 0);
        }
        TEST_NOTE("%llu versions moved", (unsigned long long)bus->handle.counters.moved);
        CHECK(bus->handle.counters.moved > 1000);
        END();
}

/* Of one size, and of several: as one window is found after the other, what serves the first
 * values must not be what the next ones take. */
static void test_a_commit_of_several_large_values_finds_room_for_all(void)
{
        static const unsigned counts[3][4] = {{100, 100}, {40, 150, 3}, {200, 20, 200, 20}};

        for (unsigned round = 0; round < 3; round++) {
                struct sb_txn *txn = NULL;
                struct sb_bytes value;

                BEGIN();
                CHECK(scatter(18000));
                CHECK(longest_run() < 5);
                CHECK_EQ(sb_txn_begin(bus, 0, &txn), 0);
                for (unsigned i = 0; i < 4 && counts[round][i]; i++) {
                        value = value_of(i, (size_t)counts[round][i] * unit_size() - 200);
                        CHECK_EQ(sb_txn_set(txn, key_of(i), value), 0);
                        keys[i].rev++;
                        keys[i].len = (uint32_t)value.len;
                }
                CHECK_EQ(sb_txn_commit(txn, NULL), 0);
                CHECK(!sb_txn_end(txn));
                CHECK(all_there());
                END();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_values_of_many_units_find_room_where_small_ones_lie_scattered);
        RUN(test_a_commit_of_several_large_values_finds_room_for_all);
        return test_end();
}
