/*
 * A constant number of keys, turned over many times: what a lookup costs stays what it was. Counted
 * is how many buckets a lookup looks at, not time. SB_TEST_LONG=1: a larger bus.
 */
#include <stdlib.h>

#include "shm/keys/index.h"
#include "shm/layout/report.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/work.h"
#include "tests/unit/bus.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

#define BUCKETS_QUICK 1024u
#define BUCKETS_LONG  8192u
#define TURNOVERS     50u
#define PROBES        20000u

static uint32_t names[BUCKETS_LONG * SB_BUCKET_CELLS], name_count, name_next;

static int write_key(uint32_t name, bool remove)
{
        char key[16];

        snprintf(key, sizeof(key), "k%u", name);
        return remove ? delete (&writer, key) : put(&writer, key, "x", 1);
}

/* A part of the keys goes, and as many new ones come. */
static int turn_over(uint32_t count)
{
        for (uint32_t i = 0; i < count; i++) {
                uint32_t nth = draw(name_count);
                int r = write_key(names[nth], true);

                if (r)
                        return r;
                names[nth] = names[--name_count];
        }
        sb_stable_raise(&writer);
        sb_work_all(&writer, false);
        for (; count; count--) {
                int r = write_key(name_next, false);

                if (r)
                        return r;
                names[name_count++] = name_next++;
        }
        return 0;
}

/* How many buckets a lookup passes on the average, in thousandths. Absent ones pass what they look
 * at, and present ones end where they find the key. */
static uint32_t passed_by(bool present)
{
        uint64_t passed = 0;

        sb_pin(&writer);
        for (uint32_t i = 0; i < PROBES; i++) {
                uint64_t hash, cell = 0;
                struct sb_path path;
                struct sb_spot spot;
                char key[16];

                if (present)
                        snprintf(key, sizeof(key), "k%u", names[draw(name_count)]);
                else
                        snprintf(key, sizeof(key), "no%u", i);
                hash = hash_of(key, (uint32_t)strlen(key));
                if (sb_key_find(&writer, key, (uint32_t)strlen(key), hash, &spot))
                        cell = spot.cell_number;
                passed += !cell == present ? 1000000 : 0; /* it is not as it should be */
                path = sb_path_first(&writer.segment, hash);
                do
                        passed++;
                while ((!cell || path.bucket != cell / 8 - 1) &&
                        sb_path_next(&writer.segment, hash, &path));
        }
        sb_unpin(&writer);
        return (uint32_t)(passed * 1000 / PROBES);
}

static void test_fifty_turnovers_cost_a_lookup_what_the_first_one_did(void)
{
        /* Of the cells, in hundredths; and what a lookup may pass after the turnovers. */
        static const struct {
                uint32_t fill, absent_max, present_max;
        } cases[] = {{30, 1010, 1020}, {60, 1080, 1200}, {75, 1400, 1550}, {90, 4500, 3300}};
        uint32_t buckets = getenv("SB_TEST_LONG") ? BUCKETS_LONG : BUCKETS_QUICK;
        struct sb_geometry_wish wish = {
                .size = (uint64_t)buckets * 3072, .clients = 2, .bucket_count = buckets};
        struct sb_check_report report;

        for (uint32_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
                uint32_t keys = buckets * SB_BUCKET_CELLS * cases[c].fill / 100, part = keys / 20,
                         absent[3], present[3];

                CHECK(make_bus_of(&wish));
                draw_state = c;
                for (name_count = name_next = 0; name_count < keys; name_next++) {
                        CHECK_EQ(write_key(name_next, false), 0);
                        names[name_count++] = name_next;
                }
                absent[0] = passed_by(false);
                present[0] = passed_by(true);
                for (uint32_t i = 0; i < 20 * TURNOVERS; i++) {
                        CHECK_EQ(turn_over(part), 0);
                        if (i != 20 * 10)
                                continue;
                        absent[1] = passed_by(false);
                        present[1] = passed_by(true);
                }
                absent[2] = passed_by(false);
                present[2] = passed_by(true);
                TEST_NOTE("%u %%: thousandths of buckets that an absent lookup passes at first, "
                          "after 10 and %u turnovers: %u, %u, %u; a present one %u, %u, %u",
                        cases[c].fill, TURNOVERS, absent[0], absent[1], absent[2], present[0],
                        present[1], present[2]);
                CHECK(absent[2] <= cases[c].absent_max && present[2] <= cases[c].present_max);
                CHECK(absent[2] <= absent[1] * 5 / 4 && present[2] <= present[1] * 5 / 4);
                CHECK(!sb_check(&writer, true, &report) && !report.problem_count);
                unmake_bus();
        }
}

/* New keys of the smallest size. Return: how many there are now; fewer than @count: memory is full.
 */
static uint32_t fill_up_to(uint32_t count)
{
        while (name_count < count && write_key(name_next, false) == 0)
                names[name_count++] = name_next++;
        return name_count;
}

/* That is the most that is asked of a lookup, because it is the most cells that a bus can use:
 * other keys and values take more memory a cell. */
static void test_nine_tenths_full_and_old_costs_a_lookup_what_half_full_and_fresh_did(void)
{
        bool deep = getenv("SB_TEST_LONG");
        uint64_t size = deep ? 8 << 20 : 4 << 20;
        uint32_t turnovers = deep ? TURNOVERS : 12, full, part, absent[2], present[2];

        CHECK(make_bus(size));
        draw_state = 46;
        name_count = name_next = 0;
        full = fill_up_to(sizeof(names) / sizeof(names[0]));
        unmake_bus();

        CHECK(make_bus(size));
        name_count = name_next = 0;
        CHECK_EQ(fill_up_to(full / 2), full / 2);
        absent[0] = passed_by(false);
        present[0] = passed_by(true);
        CHECK_EQ(fill_up_to(full / 10 * 9), full / 10 * 9);
        part = name_count / 100;
        for (uint32_t i = 0; i < 100 * turnovers; i++)
                CHECK_EQ(turn_over(part), 0);
        absent[1] = passed_by(false);
        present[1] = passed_by(true);
        TEST_NOTE("%u keys fill the memory, and %u of %u cells; thousandths of buckets that an "
                  "absent lookup passes, half full and nine tenths full: %u, %u; a present one %u, "
                  "%u",
                full, full, writer.segment.geometry.bucket_count * SB_BUCKET_CELLS, absent[0],
                absent[1], present[0], present[1]);
        CHECK(absent[1] * 10 <= absent[0] * 13 && present[1] * 10 <= present[0] * 13);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_fifty_turnovers_cost_a_lookup_what_the_first_one_did);
        RUN(test_nine_tenths_full_and_old_costs_a_lookup_what_half_full_and_fresh_did);
        return test_end();
}
