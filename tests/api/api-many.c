/* A million keys under one prefix, in order. */
#include <stdlib.h>
#include <string.h>

#include "tests/api/world.h"
#include "tests/harness/test.h"

#define COUNT 1000000u

static struct world world;

static struct sb_bytes key_of(unsigned number, char text[32])
{
        snprintf(text, 32, "prefix/%08u", number);
        return b(text);
}

static void test_a_million_keys_under_one_prefix_come_in_order(void)
{
        const char *why = world_open(&world, UINT64_C(1) << 30, 4);
        struct sb_scan *scan = NULL;
        struct sb_bus *bus;
        unsigned seen = 0;
        char text[32];

        if (why)
                TEST_SKIP(why);
        bus = world_bus(&world);
        CHECK(bus);
        /* 611,953 has no factor in common with a million, so each number comes once, and out of
         * order. */
        for (uint64_t i = 0; i < COUNT; i++) {
                unsigned number = (unsigned)(i * 611953 % COUNT);

                CHECK_EQ(sb_cas(bus, key_of(number, text), 0,
                                 (struct sb_bytes){&number, sizeof(number)}, NULL, NULL),
                        0);
        }
        CHECK_EQ(sb_scan_open(bus, NULL, b("prefix/"), &scan), 0);
        for (;; seen++) {
                struct sb_guard guard = {0};
                int r = sb_scan_next(scan, &guard);

                if (r == SB_E_NOT_FOUND)
                        break;
                CHECK_EQ(r, 0);
                CHECK(guard.key.len == key_of(seen, text).len &&
                        memcmp(guard.key.data, text, guard.key.len) == 0);
                CHECK(memcmp(guard.value.data, &seen, sizeof(seen)) == 0);
                sb_guard_release(&guard);
        }
        CHECK_EQ(seen, COUNT);
        CHECK_EQ(sb_scan_seek(scan, key_of(COUNT / 2, text)), 0);
        scan = sb_scan_close(scan);
        CHECK(world_sound(&world, bus));
        CHECK(!sb_close(bus));
        CHECK(world_close(&world));
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_million_keys_under_one_prefix_come_in_order);
        return test_end();
}
