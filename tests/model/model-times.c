/*
 * The notes of which cut was taken when (shm/history/times.h), beside a process that reads them,
 * and after an engine that was killed while it wrote one: each that is found has the times of its
 * cut.
 */
#include "shm/history/times.h"
#include "shm/layout/geometry.h"
#include "tests/harness/model/model.h"

#define HOUR_NS UINT64_C(3600000000000)
#define REGION  (64u << 10)
#define NOTES   3u /* of the engine, behind the one that is there at the start */
#define OF(cut) ((struct sb_moment){(cut), 7 * (cut), HOUR_NS * (cut)})

static struct world {
        struct sb_segment segment;
} world;

/* So few entries that the engine writes over the one that is being read. */
static void setup(void)
{
        static const uint64_t id[2] = {1, 2};
        struct sb_geometry_wish wish = {.size = REGION,
                .clients = 1,
                .record_stride = 64,
                .unit_size = 256,
                .bucket_count = 1,
                .guard_inline = 1,
                .snapshot_count = 1,
                .magazine_count = SB_MAGAZINE_NONE,
                .times_count = *(const uint32_t *)model_spec(),
                .mark_count = 1};
        unsigned char *base = model_region(REGION);
        struct sb_moment first = OF(1);
        struct sb_geometry geometry;

        if (sb_geometry_fit(&wish, &geometry))
                model_fail("no geometry");
        sb_segment_format(base, &geometry, 1, id, 1);
        if (sb_segment_open(base, REGION, &model_os, &world.segment))
                model_fail("no segment");
        sb_times_note(&world.segment, &first);
}

/* @least: the cut of a note that was there before. With one entry there may be none. */
static uint64_t look(uint64_t least)
{
        struct sb_moment found = {0};

        if (!sb_times_at(&world.segment, UINT64_MAX, &found)) {
                MODEL_CHECK(*(const uint32_t *)model_spec() == 1);
                return least;
        }
        MODEL_CHECK(
                found.realtime_ns == 7 * found.cut && found.monotonic_ns == HOUR_NS * found.cut);
        MODEL_CHECK(found.cut >= least && found.cut <= 1 + NOTES);
        return found.cut;
}

static void run(uint32_t me)
{
        uint64_t cut;

        if (me) {
                cut = look(1);
                look(cut);
                return;
        }
        for (cut = 2; cut <= 1 + NOTES; cut++) {
                struct sb_moment now = OF(cut);

                sb_times_note(&world.segment, &now);
        }
}

/* A new engine goes on. */
static void check(void)
{
        struct sb_moment now = OF(2 + NOTES), found;

        look(1);
        sb_times_note(&world.segment, &now);
        MODEL_CHECK(sb_times_at(&world.segment, UINT64_MAX, &found));
        MODEL_CHECK(found.cut == 2 + NOTES && found.realtime_ns == 7 * found.cut);
}

int main(int argc, char **argv)
{
        static const uint32_t counts[] = {1, 2, 3};
        struct model_scenario scenarios[] = {
                {.name = "times: one entry", .spec = &counts[0]},
                {.name = "times: two entries", .spec = &counts[1]},
                {.name = "times: three entries, killed engine", .spec = &counts[2], .crashes = 1},
                {.name = "times: one entry, killed engine", .spec = &counts[0], .crashes = 1},
        };

        for (uint32_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
                struct model_scenario *scenario = &scenarios[i];

                scenario->setup = setup;
                scenario->thread = run;
                scenario->check = check;
                scenario->world = &world;
                scenario->world_size = sizeof(world);
                scenario->thread_count = 2;
                scenario->preemptions = scenario->crashes ? 2 : 3;
                scenario->crash_mask = 1;
        }
        return model_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
