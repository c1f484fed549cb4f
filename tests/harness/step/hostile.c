/* A trial with hostile neighbours; see hostile.h. */
#include "tests/harness/step/hostile.h"

#include "shm/memory/unit.h"
#include "tests/harness/step/stepper.h"

#define POINT_LIMIT 4000000u

static const char *const target_names[HOSTILE_TARGETS] = {"a node's key length", "a node's height",
        "a version's value length", "a version's key length", "a descriptor's number of writes",
        "a descriptor's number of ranges", "a descriptor's bytes of ranges",
        "a descriptor's ranges", "a descriptor's list of writes", "a version's node",
        "a version's link", "a version's link to itself", "a version's stamp", "a node's cell",
        "a unit's class", "a unit's bitmap"};

static enum hostile_target target;
static uintptr_t stopped_at;
static bool strayed;

static void spoil_node(struct sb_node *node)
{
        if (target == KEY_LEN)
                node->key_len = UINT16_MAX;
        else if (target == HEIGHT)
                node->height = UINT16_MAX;
        else if (target == NODE_CELL)
                sb_store_relaxed(&node->cell, UINT64_C(1) << 40);
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
        else if (target == RANGES) {
                descriptor->range_count = UINT32_MAX;
                descriptor->ranges_len = UINT64_MAX / 2;
        } else if (target == WRITES)
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
        else if (target == VERSION_LINK)
                sb_store_relaxed(&version->prev, UINT64_C(1) << 47);
        else if (target == LINK_ROUND)
                sb_store_relaxed(&version->prev, sb_offset_of(&scene.segment, version));
        else if (target == VERSION_STAMP)
                sb_store_relaxed(&version->stamp, INT64_MAX);
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

static void spoil_unit(uint32_t unit, uint64_t word)
{
        const struct sb_segment *segment = &scene.segment;

        if (target == UNIT_CLASS)
                sb_store_relaxed(
                        &segment->unit_words[unit], word | SB_UNIT_WORD(0, UINT64_C(63), 0, 0));
        else if (target == UNIT_BITMAP)
                for (uint32_t i = 0; i < segment->geometry.bitmap_stride / 8; i++)
                        sb_store_relaxed(&sb_unit_bitmap(segment, unit)[i], UINT64_MAX);
}

/* Relaxed, all stores: no other process is at work. */
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
                spoil_unit(unit, word);
        }
}

static enum step_verdict spoil_point(void *context, uint64_t number, uintptr_t address)
{
        struct step_run *run = context;

        (void)number;
        trial.report->points++;
        if (!run->touches || trial.stops++ % trial.every != trial.first % trial.every)
                return STEP_ON;
        stopped_at = address;
        step_branch();
        spoil_all();
        return STEP_ON;
}

static void spoil_ended(void *context, uint64_t number)
{
        (void)context;
        if (!scene.strays || strayed)
                return;
        strayed = true;
        trial.report->failure[0] = 0; /* what the operation answered */
        trial_fail("%s changes, and a guard shows bytes outside the segment", target_names[target]);
        trial_locate(number, stopped_at);
}

bool trial_hostile(const struct step_scenario *scenario, enum hostile_target what, uint64_t first,
        uint64_t every, struct trial_report *report)
{
        struct step_run run = {.operation = trial_operation,
                .point = spoil_point,
                .ended = spoil_ended,
                .point_limit = POINT_LIMIT};
        enum step_end end;

        target = what;
        strayed = false;
        if (!story_prepare(scenario, NULL, report))
                return false;
        trial.first = first;
        trial.every = every;
        trial.stops = 0;
        run.context = &run;
        run.shared = (struct step_memory){scene.image, scene.image_size};
        run.memory[0] = (struct step_memory){&scene, scene_size(&scene)};
        end = step_run(&run);
        report->branches += run.branches;
        if (strayed)
                return false;
        report->failure[0] = 0; /* what the operation answered */
        if (end == STEP_DONE)
                return true;
        trial_fail("%s changes, and the operation %s", target_names[target], step_end_text(end));
        trial_locate(run.points, run.address);
        return false;
}
