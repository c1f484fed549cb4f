/*
 * Every operation, with the lengths in shared memory written over after one of its instructions:
 * all nodes' key lengths or heights, all versions' shapes, or the numbers of all descriptors. What
 * the operation checked before and uses behind is the copy that it checked, so it comes to an end
 * and reads nothing outside the segment. What it answers is not judged.
 *
 * SB_TEST_LONG=1: all scenarios, and after every instruction. runs.h names other variables.
 */
#include <stdlib.h>
#include <time.h>

#include "shm/memory/unit.h"
#include "tests/harness/step/runs.h"
#include "tests/harness/step/stepper.h"
#include "tests/harness/test.h"

#define POINT_LIMIT 4000000u
#define EVERY       97
#define SCENARIOS   4 /* a quick run takes a part of the scenarios, another one each time */

/* What is written over, in all blocks of its kind. */
enum target {
        KEY_LEN,
        HEIGHT,
        VALUE_LEN,
        SHAPE_KEY_LEN,
        WRITE_COUNT,
        RANGE_COUNT,
        RANGES_LEN,
        WRITES, /* the offsets in the lists */
        VERSION_NODE,
        TARGETS
};
static const char *const target_names[TARGETS] = {"a node's key length", "a node's height",
        "a version's value length", "a version's key length", "a descriptor's number of writes",
        "a descriptor's number of ranges", "a descriptor's bytes of ranges",
        "a descriptor's list of writes", "a version's node"};

static uint64_t first;
static bool all;
static enum target target;
static uint64_t every;

static void spoil_node(struct sb_node *node)
{
        if (target == KEY_LEN)
                node->key_len = UINT16_MAX;
        else if (target == HEIGHT)
                node->height = UINT16_MAX;
}

static void spoil_descriptor(struct sb_descriptor *descriptor)
{
        uint32_t count = descriptor->write_count;

        if (target == WRITE_COUNT)
                descriptor->write_count = UINT32_MAX;
        else if (target == RANGE_COUNT)
                descriptor->range_count = UINT32_MAX;
        else if (target == RANGES_LEN)
                descriptor->ranges_len = UINT64_MAX / 2;
        else if (target == WRITES)
                for (uint32_t i = 0; i < count && i < SCENE_KEYS; i++)
                        descriptor->write[i] = UINT64_C(1) << 47;
}

static void spoil_version(struct sb_version *version)
{
        if (target == VALUE_LEN)
                version->shape |= SB_SHAPE((UINT64_C(1) << 36) - 1, 0, 0, 0);
        else if (target == SHAPE_KEY_LEN)
                version->shape |= SB_SHAPE(0, 0x7ff, 0, 0);
        else if (target == VERSION_NODE)
                version->node = UINT64_C(1) << 47;
}

static void spoil_block(uint32_t kind, unsigned char *at)
{
        struct sb_version *version = (struct sb_version *)at;

        if (kind == SB_UNIT_NODES)
                spoil_node((struct sb_node *)at);
        else if (kind == SB_UNIT_VERSIONS && SB_SHAPE_KIND(version->shape) == SB_VERSION_DESCRIPTOR)
                spoil_descriptor((struct sb_descriptor *)at);
        else if (kind == SB_UNIT_VERSIONS)
                spoil_version(version);
}

static void spoil_all(void)
{
        const struct sb_segment *segment = &scene.segment;

        for (uint32_t unit = 0; unit < segment->geometry.unit_count; unit++) {
                /* Relaxed: no other process is at work. */
                uint64_t word = sb_load_relaxed(&segment->unit_words[unit]);
                uint32_t kind = SB_UNIT_KIND(word), count;

                if (kind != SB_UNIT_NODES && kind != SB_UNIT_VERSIONS)
                        continue;
                count = sb_unit_block_count(segment, word);
                for (uint32_t i = 0; i < count; i++)
                        spoil_block(
                                kind, scene.image + sb_unit_offset(segment, unit) +
                                              (size_t)i * segment->class_size[SB_UNIT_CLASS(word)]);
        }
}

static enum step_verdict spoil_point(void *context, uint64_t number, uintptr_t address)
{
        (void)context;
        (void)address;
        trial.report->points++;
        if (number % every != first % every)
                return STEP_ON;
        step_branch();
        spoil_all();
        return STEP_ON;
}

static void spoil_ended(void *context, uint64_t number)
{
        (void)context;
        (void)number;
}

/* Whether it is the scenario's turn. */
static bool turn(const struct step_scenario *scenario)
{
        uint32_t i = 0;

        while (scenario_at(i) != scenario)
                i++;
        return all || (i + first) % SCENARIOS == 0;
}

/* The scenario's operation, with each kind of damage. */
static bool hostile(const struct step_scenario *scenario, struct trial_report *report)
{
        if (!turn(scenario))
                return true;
        for (target = 0; target < TARGETS; target++) {
                struct step_run run = {.operation = trial_operation,
                        .point = spoil_point,
                        .ended = spoil_ended,
                        .point_limit = POINT_LIMIT};
                enum step_end end;

                if (!story_prepare(scenario, NULL, report))
                        return false;
                run.memory[0] = (struct step_memory){&scene, scene_size(&scene)};
                end = step_run(&run);
                report->branches += run.branches;
                if (end == STEP_DONE)
                        continue;
                trial_fail("%s changes, and the operation %s", target_names[target],
                        step_end_text(end));
                trial_locate(run.points, run.address);
                return false;
        }
        return true;
}

static void test_a_length_that_changes_after_its_check_leads_nowhere(void)
{
        CHECK_EQ(runs_all(hostile, "damaged", first, 1, 0), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        /* Each run takes other points; a few runs together take all of them. */
        first = getenv("SB_FIRST") ? strtoull(getenv("SB_FIRST"), NULL, 10)
                                   : (uint64_t)time(NULL) % 1000;
        all = getenv("SB_TEST_LONG") || getenv("SB_SCENARIO");
        every = getenv("SB_TEST_LONG") ? 1 : EVERY;
        RUN(test_a_length_that_changes_after_its_check_leads_nowhere);
        TEST_NOTE("hostile: points %llu, resumed %llu (SB_FIRST=%llu)",
                (unsigned long long)runs_total.points, (unsigned long long)runs_total.branches,
                (unsigned long long)first);
        return test_end();
}
