/* A trial with hostile neighbours; see hostile.h. */
#include "tests/harness/step/hostile.h"

#include "shm/memory/unit.h"
#include "tests/harness/step/stepper.h"

#define POINT_LIMIT 4000000u

static const char *const target_names[HOSTILE_TARGETS] = {"a node's key length", "a branch's shape",
        "a branch's slots", "a branch's slots to itself", "a version's value length",
        "a version's key length", "a descriptor's number of writes",
        "a descriptor's number of ranges", "a descriptor's bytes of ranges",
        "a descriptor's ranges", "a descriptor's list of writes", "a version's node",
        "a version's link", "a version's link to itself", "a version's stamp", "a node's cell",
        "a unit's class", "a unit's bitmap", "a node's ring", "a ring's counts", "a ring's slots",
        "a ring's slots to itself", "a ring's watchers", "a ring's further block",
        "a ring's further block to itself", "a ring's state", "what a ring says is gone",
        "a record's bell", "a ring's number of slots", "what a ring says that it holds",
        "a ring's tail", "a ring's slots, to laps ahead", "a ring's mark", "what writers look at",
        "the lengths of prefixes", "the state of prefixes"};

static enum hostile_target target;
static uintptr_t stopped_at;
static bool strayed;

static void spoil_node(struct sb_node *node)
{
        if (target == KEY_LEN)
                node->key_len = UINT16_MAX;
        else if (target == NODE_CELL)
                sb_store_relaxed(&node->cell, UINT64_C(1) << 40);
        else if (target == NODE_RING)
                sb_store_relaxed(&node->ring, UINT64_C(1) << 43);
}

static void spoil_branch(struct sb_branch *branch)
{
        uint32_t slots = SB_BRANCH_SLOTS(sb_load_relaxed(&branch->shape));
        uint64_t to =
                target == BRANCH_ROUND ? sb_offset_of(&scene.segment, branch) : UINT64_C(1) << 47;

        if (target == BRANCH_SHAPE)
                sb_store_relaxed(&branch->shape, SB_BRANCH_SHAPE(0, 255, 254));
        else if (target == BRANCH_SLOTS || target == BRANCH_ROUND)
                for (uint32_t i = 0; i < slots && i < SB_BRANCH_SYMBOLS; i++)
                        sb_store_relaxed(&branch->slot[i], SB_SLOT(i, to));
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

/* @size: of its block. */
static void spoil_ring(struct sb_ring *ring, uint32_t size)
{
        uint64_t own = sb_offset_of(&scene.segment, ring);
        uint32_t count = (uint32_t)((size - sizeof(*ring)) / 8), slots = ring->slot_count;

        if (target == RING_COUNTS) {
                ring->slot_count = UINT32_MAX;
                ring->watcher_count = UINT32_MAX / 2;
        } else if (target == RING_SLOTS || target == RING_OLD_SLOTS) {
                for (uint32_t i = 0; i < slots && i < count; i++)
                        sb_store_relaxed(
                                &ring->words[i], target == RING_SLOTS ? UINT64_MAX : own | 1);
        } else if (target == RING_WATCHERS) {
                for (uint32_t i = slots; i < count; i++)
                        sb_store_relaxed(&ring->words[i], UINT64_MAX);
        } else if (target == RING_MORE) {
                sb_store_relaxed(&ring->more, UINT64_C(1) << 43);
        } else if (target == RING_ROUND) {
                sb_store_relaxed(&ring->more, own);
        } else if (target == RING_STATE) {
                sb_store_relaxed(&ring->state, UINT64_MAX);
        } else if (target == RING_GONE) {
                sb_store_relaxed(&ring->gone, UINT64_MAX);
        }
}

/* The words of a ring of hints. */
static void spoil_hints(struct sb_ring *ring, uint32_t size)
{
        uint32_t count = (uint32_t)((size - sizeof(*ring)) / 8);

        if (target == RING_SLOT_COUNT)
                ring->slot_count = 0;
        else if (target == RING_HINTS)
                ring->hints = !ring->hints;
        else if (target == RING_TAIL)
                sb_store_relaxed(&ring->tail, UINT64_MAX - 2);
        else if (target == RING_MARK)
                sb_store_relaxed(&ring->mark, UINT64_MAX);
        for (uint32_t i = 0; target == RING_AHEAD && i < ring->slot_count && i < count; i++)
                sb_store_relaxed(&ring->words[i], UINT64_C(0x7ffff) << 44 | 1);
}

/* Relaxed, all stores: no other process is at work. */
static void spoil_superblock(void)
{
        struct sb_superblock *super = scene.segment.super;

        if (target == ATTENTION)
                sb_store_relaxed(&super->attention, UINT64_MAX);
        if (target == PREFIXES)
                sb_store_relaxed(&super->prefixes, UINT64_MAX);
        for (uint32_t i = 0; target != PREFIXES && i < SB_PREFIX_LENGTHS; i++)
                sb_store_relaxed(&super->prefix_lengths[i], UINT64_MAX);
}

static void spoil_bells(void)
{
        const struct sb_segment *segment = &scene.segment;

        for (uint32_t slot = 0; slot < segment->geometry.record_count; slot++) {
                struct sb_record *record = sb_record_at(segment, slot);

                sb_store_relaxed(&record->bell, UINT32_MAX);
                sb_store_relaxed(&record->rung, UINT32_MAX / 2);
                sb_store_relaxed(&record->sleeps, UINT64_MAX);
                sb_store_relaxed(&record->dirty_any, UINT64_MAX);
                for (uint32_t i = 0; i < SB_DIRTY_WORDS; i++)
                        sb_store_relaxed(&record->dirty[i], UINT64_MAX);
        }
}

static void spoil_block(uint32_t kind, unsigned char *at, uint32_t size)
{
        struct sb_version *version = (struct sb_version *)at;

        if (kind == SB_UNIT_NODES && SB_BRANCH_IS(sb_load_relaxed(&((struct sb_node *)at)->cell)))
                spoil_branch((struct sb_branch *)at);
        else if (kind == SB_UNIT_NODES)
                spoil_node((struct sb_node *)at);
        else if (kind == SB_UNIT_VERSIONS && SB_SHAPE_KIND(version->shape) == SB_VERSION_DESCRIPTOR)
                spoil_descriptor((struct sb_descriptor *)at);
        else if (kind == SB_UNIT_VERSIONS && SB_SHAPE_KIND(version->shape) == SB_VERSION_RING &&
                 target >= HOSTILE_HINTS)
                spoil_hints((struct sb_ring *)at, size);
        else if (kind == SB_UNIT_VERSIONS && SB_SHAPE_KIND(version->shape) == SB_VERSION_RING &&
                 target >= HOSTILE_RINGS)
                spoil_ring((struct sb_ring *)at, size);
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

        if (target == BELL_WORDS)
                spoil_bells();
        if (target >= ATTENTION)
                spoil_superblock();
        for (uint32_t unit = 0; unit < segment->geometry.unit_count; unit++) {
                /* Relaxed: no other process is at work. */
                uint64_t word = sb_load_relaxed(&segment->unit_words[unit]);
                uint32_t kind = SB_UNIT_KIND(word), count;

                if (kind != SB_UNIT_NODES && kind != SB_UNIT_VERSIONS)
                        continue;
                count = sb_unit_block_count(segment, word);
                for (uint32_t i = 0; i < count; i++) {
                        uint32_t size = segment->class_size[SB_UNIT_CLASS(word)];

                        spoil_block(kind,
                                scene.image + sb_unit_offset(segment, unit) + (size_t)i * size,
                                size);
                }
                spoil_unit(unit, word);
        }
}

static enum step_verdict spoil_point(void *context, uint64_t number, uintptr_t address)
{
        struct step_run *run = context;

        (void)number;
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
                .wanted = STEP_TOUCHING,
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
        report->points += run.points;
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
