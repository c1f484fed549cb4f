/* Trials of one scenario at every instruction; see trial.h. */
#include "tests/harness/step/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/layout/report.h"
#include "tests/harness/step/images.h"
#include "tests/harness/step/orders.h"
#include "tests/harness/step/stepper.h"
#include "tests/harness/step/usage.h"

#define POINT_LIMIT 4000000u
#define KEPT_MAX    8192u /* images that trial_reaper and trial_beside keep; more fail */

static struct scene *kept[KEPT_MAX];

static void do_others(void *context)
{
        (void)context;
        trial_acts(trial.scenario->others, trial.others_count, trial.others);
        scene_poison(&scene, trial_subject());
}

void trial_operation(void *context)
{
        (void)context;
        for (uint32_t i = 0; i < trial.operation_count; i++) {
                trial_acts(trial.scenario->operation + i, 1, trial.operation + i);
                trial.operation_done = i + 1;
        }
}

/* The client that a dead engine was attaching or reaping is dead with it. */
static void bury_companions(const struct act *acts, struct scene *of)
{
        for (; acts->kind != ACT_END; acts++)
                if (acts->actor == ENGINE && (acts->kind == REAP || acts->kind == ATTACH))
                        of->attached[acts->key] = false;
}

/* Does what follows when the kernel has said that the stepped client is dead. */
static void reap_the_subject(void)
{
        int r;

        if (trial_subject() != ENGINE) {
                usage_act(ENGINE, REAP, trial_subject(), 0, 0, ANY);
                return;
        }
        bury_companions(trial.scenario->operation, &scene);
        r = usage_act(ENGINE, ADOPT, 0, 0, 0, ANY).code;
        if (r)
                trial_fail("a new engine cannot adopt the segment: %d", r);
}

/* ---- cuts ---- */

/* A second reading at a cut gives what the first gave, whatever the resumed client has done
 * meanwhile. */
static void read_cuts_again(void)
{
        struct fact facts[SCENE_KEYS];
        struct result again;

        if ((trial.scenario->flags & TRIAL_OBSERVED) &&
                sb_load_acquire(&scene.segment.super->stable) == trial.stable) {
                scene_observe(&scene, trial.stable, facts);
                for (uint32_t key = 0; key < scene.key_count; key++)
                        if (!scene_fact_equal(&facts[key], &trial.observed[key], true))
                                trial_fail("an observer at the same cut %llu sees key %u change "
                                           "from {%s} to {%s}",
                                        (unsigned long long)trial.stable, key,
                                        trial_fact_text(&trial.observed[key]),
                                        trial_fact_text(&facts[key]));
        }
        if (!scene.attached[OTHER] || !scene.snapshot_was_read[OTHER])
                return;
        again = scene.snapshot_read[OTHER];
        usage_act(OTHER, SNAPSHOT_READ, 0, 0, 0, ANY);
        for (uint32_t key = 0; key < scene.key_count; key++)
                if (!scene_fact_equal(
                            &again.seen[key], &scene.snapshot_read[OTHER].seen[key], true))
                        trial_fail("a snapshot read again sees key %u change from {%s} to {%s}",
                                key, trial_fact_text(&again.seen[key]),
                                trial_fact_text(&scene.snapshot_read[OTHER].seen[key]));
}

/* ---- kill ---- */

static bool fits_stopped(const struct story *story, const struct fact *facts)
{
        if (!story_others_fit(story))
                return false;
        if (story_facts_equal(facts, story->stopped) || story_facts_equal(facts, story->late))
                return true;
        /* The operation went on after them. */
        for (uint32_t act = story->act + 1; trial.late && act < trial.operation_count; act++)
                if (story_facts_equal(facts, story->rest[act]))
                        return true;
        return false;
}

/* The number of the first story that the others' answers and these facts fit, where the stopped
 * client's acts from there on are never done. */
static uint32_t find_stopped(const struct fact *facts)
{
        uint32_t number = trial.least_story;

        while (number < trial.story_count && !fits_stopped(&trial.story[number], facts))
                number++;
        if (number == trial.story_count) {
                story_fail_results(trial.scenario->others, trial.others_count, trial.others,
                        offsetof(struct story, others));
                story_fail_facts(facts, offsetof(struct story, stopped), "beside the stopped one");
        }
        return number;
}

static void play_kill(void *context)
{
        struct sb_check_report report;
        struct fact facts[SCENE_KEYS];
        size_t moment = offsetof(struct story, alone);
        int r;

        (void)context;
        scene_poison(&scene, trial_subject());
        reap_the_subject();
        usage_check(ENGINE, true, "after the reaper", &report);
        usage_sleepers("after the reaper");
        if (scene_unstamped(&scene))
                trial_fail("after the reaper a committed version has no stamp");
        r = usage_act(ENGINE, ATTACH, NEWCOMER, 0, 0, ANY).code;
        if (r)
                trial_fail("a newcomer cannot attach: %d", r);
        if (trial_failed())
                return;
        if (!trial.others_came)
                read_cuts_again();
        scene_facts(&scene, NEWCOMER, facts);
        if (trial.others_came) {
                trial.play_story = find_stopped(facts);
        } else {
                trial.play_story = story_find(facts, moment, trial.least_story);
                if (trial.play_story == trial.story_count)
                        story_fail_facts(facts, moment, "after the reaper");
        }
        usage_rows(NEWCOMER);
        usage_logs(NEWCOMER, false);
        if (!trial_failed())
                usage_watches(NEWCOMER, false);
        if (!trial_failed())
                usage_everything(NEWCOMER);
        if (!trial_failed())
                usage_check(ENGINE, true, "after a newcomer's writes", &report);
        usage_drain(NEWCOMER);
}

/* ---- stall ---- */

/* The stopped client may have all memory, and still another client can read and delete what is
 * there. */
static void play_stall_full(void *context)
{
        struct sb_check_report report;
        struct fact facts[SCENE_KEYS];

        do_others(context);
        scene_facts(&scene, trial_witness(), facts);
        if (!orders_fit(false, facts))
                orders_fail(false, facts, "beside the stopped one");
        usage_check(trial_witness(), false, "beside the stopped one", &report);
        if (!trial_failed())
                usage_delete_all(trial_witness());
        usage_check(trial_witness(), false, "after deletes beside the stopped one", &report);
        if (trial_failed())
                return;
        reap_the_subject();
        usage_check(ENGINE, true, "after the stopped one was reaped", &report);
        if (!trial_failed())
                usage_everything(trial_witness());
        usage_drain(trial_witness());
}

/* The engine's next tick makes up for a writer that is stopped before it told. */
static void raise_for_sleepers(void)
{
        if (trial_subject() == ENGINE)
                return;
        if (scene.asleep[OTHER])
                usage_act(ENGINE, TICK, 0, 0, 0, ANY);
        usage_sleepers("beside the stopped one");
}

static void play_stall(void *context)
{
        struct sb_check_report report;
        struct fact facts[SCENE_KEYS];

        do_others(context);
        raise_for_sleepers();
        scene_facts(&scene, trial_witness(), facts);
        trial.play_story = find_stopped(facts);
        usage_check(trial_witness(), false, "beside the stopped one", &report);
        usage_logs(trial_witness(), false);
        usage_write_much(trial_witness());
        if (!trial_failed())
                usage_watches(trial_witness(), false);
        if (!trial_failed())
                usage_everything(trial_witness());
        if (!trial_failed())
                usage_check(trial_witness(), false, "after many writes beside the stopped one",
                        &report);
        if (trial_failed())
                return;
        reap_the_subject();
        usage_check(ENGINE, true, "after the stopped one was reaped", &report);
        usage_logs(trial_witness(), false);
        usage_rows(trial_witness());
        usage_drain(trial_witness());
}

/* ---- the points of kill and stall ---- */

/* Whether this image is new. */
static bool image_is_new(void)
{
        return images_new(XXH3_64bits(scene.image, scene.image_size));
}

static void keep_image(void)
{
        if (trial.kept_count == trial.kept_limit) {
                trial_fail("more than %u images are to be kept: raise KEPT_MAX", KEPT_MAX);
                return;
        }
        if (!kept[trial.kept_count])
                kept[trial.kept_count] = malloc(sizeof(struct scene));
        memcpy(kept[trial.kept_count++], &scene, scene_size(&scene));
}

static void examine(void)
{
        trial_save(&scene_saved);
        trial_play(trial.play, NULL, "what comes after");
        trial_restore(&scene_saved);
        if (!trial_failed() && trial.play_story > trial.least_story)
                trial.least_story = trial.play_story;
}

/* Whether others may come at this point: see trial.h. Counts those points. */
static bool is_stop(const struct step_run *run)
{
        trial.stops += run->touches;
        return run->touches;
}

static struct step_memory shared_memory(void)
{
        return (struct step_memory){scene.image, scene.image_size};
}

static enum step_verdict point(void *context, uint64_t number, uintptr_t address)
{
        struct step_run *run = context;

        if (trial.late && !trial.others_came) {
                if (!is_stop(run) || trial.stops <= trial.pause_at)
                        return STEP_ON;
                trial.others_came = true;
                run->wanted = STEP_STORED; /* others have the image of the point before */
                trial_play(do_others, NULL, "what the others do");
        }
        if (!image_is_new())
                return STEP_ON;
        trial.report->images++;
        if (trial.kept_limit)
                keep_image();
        examine();
        if (!trial_failed())
                return STEP_ON;
        trial_locate(number, address);
        return STEP_STOP;
}

static bool step_through(void (*play)(void *))
{
        struct step_run run = {.operation = trial_operation,
                .point = point,
                .shared = shared_memory(),
                .wanted = trial.late ? STEP_TOUCHING : STEP_STORED,
                .point_limit = POINT_LIMIT};
        enum step_end end;

        run.context = &run;
        trial.play = play;
        trial.stops = 0;
        trial.operation_done = 0;
        end = step_run(&run);
        trial.report->points += run.points;
        if (trial_failed())
                return false;
        if (end != STEP_DONE) {
                trial_fail("the operation %s", step_end_text(end));
                trial_locate(run.points, run.address);
                return false;
        }
        /* A finished operation stays finished; with others in the middle, it may come after them.
         */
        if (!trial.late)
                trial.least_story = trial.story_count - 1;
        examine();
        if (trial_failed())
                trial_locate(run.points, run.address);
        return !trial_failed();
}

bool trial_kill(const struct step_scenario *scenario, struct trial_report *report)
{
        trial.kept_limit = 0;
        return story_prepare(scenario, NULL, report) && step_through(play_kill);
}

bool trial_late(const struct step_scenario *scenario, uint64_t first, uint64_t every,
        struct trial_report *report)
{
        bool passed = true, came = true;

        trial.kept_limit = 0;
        for (uint64_t at = first % every; passed && came; at += every) {
                passed = story_prepare(scenario, NULL, report);
                trial.late = true;
                trial.others_came = false;
                trial.pause_at = at;
                passed = passed && step_through(play_kill);
                came = trial.others_came;
                report->branches += came;
                trial.late = trial.others_came = false;
        }
        return passed;
}

bool trial_stall(const struct step_scenario *scenario, struct trial_report *report)
{
        trial.kept_limit = 0;
        return story_prepare(scenario, NULL, report) &&
               step_through(scenario->flags & TRIAL_FULL ? play_stall_full : play_stall);
}

/* ---- stop and resume ---- */

/* No two writes of one key got the same revision, and none got a revision from before. */
static void revisions_are_new(void)
{
        const struct step_scenario *scenario = trial.scenario;
        uint64_t revs[SCENE_KEYS][TRIAL_OPERATION_MAX + TRIAL_OTHERS_MAX];
        uint32_t counts[SCENE_KEYS] = {0};

        for (uint32_t i = 0; i < trial.operation_count + trial.others_count; i++) {
                bool own = i < trial.operation_count;
                const struct act *act = own ? &scenario->operation[i]
                                            : &scenario->others[i - trial.operation_count];
                const struct result *result =
                        own ? &trial.operation[i] : &trial.others[i - trial.operation_count];

                if ((act->kind != SET && act->kind != CAS && act->kind != DELETE) || result->code)
                        continue;
                for (uint32_t j = 0; j < counts[act->key]; j++)
                        if (revs[act->key][j] == result->rev)
                                trial_fail("two writes of key %u got revision %llu", act->key,
                                        (unsigned long long)result->rev);
                if (result->rev <= scene.then[act->key])
                        trial_fail("a write of key %u got the old revision %llu", act->key,
                                (unsigned long long)result->rev);
                revs[act->key][counts[act->key]++] = result->rev;
        }
}

static bool story_fits(const struct story *story, const struct fact *facts)
{
        for (uint32_t i = 0; i < trial.operation_count; i++)
                if (!story_results_equal(&trial.scenario->operation[i], &trial.operation[i],
                            &story->operation[i],
                            &trial.story[story_number(i + 1, trial.others_count)].operation[i]))
                        return false;
        return story_others_fit(story) && story_facts_equal(facts, story->after);
}

/* A write that lost against another one gives way, each time. */
static void losers_gave_way(void)
{
        uint64_t lost = 0;

        for (uint32_t actor = 0; actor < SCENE_PEERS; actor++)
                lost += scene_handle(&scene, actor)->counters.lost;
        if (lost > scene.ways_given)
                trial_fail("writes lost %llu races, and gave way %llu times",
                        (unsigned long long)lost, (unsigned long long)scene.ways_given);
}

static void play_resumed(void *context)
{
        struct sb_check_report report;
        struct fact facts[SCENE_KEYS];
        uint32_t number = 0;

        (void)context;
        usage_sleepers("after the stopped one was resumed");
        read_cuts_again();
        revisions_are_new();
        losers_gave_way();
        scene_facts(&scene, trial_witness(), facts);
        while (number < trial.story_count && !story_fits(&trial.story[number], facts))
                number++;
        if (trial.scenario->flags & TRIAL_FULL) {
                if (!orders_fit(true, facts))
                        orders_fail(true, facts, "resumed");
        } else if (number == trial.story_count) {
                story_fail_results(trial.scenario->operation, trial.operation_count,
                        trial.operation, offsetof(struct story, operation));
                story_fail_results(trial.scenario->others, trial.others_count, trial.others,
                        offsetof(struct story, others));
                story_fail_facts(facts, offsetof(struct story, after), "resumed");
        }
        usage_check(trial_witness(), false, "after the stopped one was resumed", &report);
        usage_logs(trial_witness(), true);
        usage_rows(trial_witness());
        if (!trial_failed())
                usage_watches(trial_witness(), true);
        if (!trial_failed())
                usage_everything(trial_witness());
        usage_drain(trial_witness());
}

static uintptr_t resumed_address;

/* The others' acts from @from to @to, at a stop. */
struct share {
        uint32_t from, to;
};

static void do_share(void *context)
{
        struct share *share = context;

        trial_acts(trial.scenario->others + share->from, share->to - share->from,
                trial.others + share->from);
        scene_poison(&scene, trial_subject());
        trial.stable = sb_load_acquire(&scene.segment.super->stable);
        scene_observe(&scene, trial.stable, trial.observed);
}

/* In a trial with two stops the first one is not undone. */
static enum step_verdict point_resume(void *context, uint64_t number, uintptr_t address)
{
        struct share share = {0, trial.others_count};
        uint64_t stop = trial.stops;

        resumed_address = address;
        if (trial_failed())
                return STEP_STOP;
        if (!is_stop(context) || (trial.pause && stop < trial.pause_at))
                return STEP_ON;
        if (trial.pause && stop == trial.pause_at) {
                share.to = trial.pause;
        } else {
                if (stop % trial.every != trial.first)
                        return STEP_ON;
                step_branch();
                trial.report->branches++;
                share.from = trial.pause;
        }
        if (!trial_play(do_share, &share, "what the others do"))
                trial_locate(number, address);
        return STEP_ON;
}

static void ended(void *context, uint64_t number)
{
        (void)context;
        if (!trial_failed() && !trial_play(play_resumed, NULL, "what comes after"))
                trial_locate(number, resumed_address);
}

/* One run with stops, from the start. Return: false when it failed. */
static bool run_with_stops(void)
{
        struct step_run run = {.operation = trial_operation,
                .point = point_resume,
                .ended = ended,
                .shared = shared_memory(),
                .wanted = STEP_TOUCHING,
                .point_limit = POINT_LIMIT};
        enum step_end end;

        run.context = &run;
        trial.stops = 0;
        trial_restore(&scene_start);
        run.memory[0] = (struct step_memory){&scene, scene_size(&scene)};
        run.memory[1] = (struct step_memory){trial.operation, sizeof(trial.operation)};
        end = step_run(&run);
        trial.report->points += run.points;
        if (!trial_failed() && end != STEP_DONE) {
                trial_fail("resumed, the operation %s", step_end_text(end));
                trial_locate(run.points, run.address);
        }
        return !trial_failed();
}

bool trial_resume(const struct step_scenario *scenario, uint64_t first, uint64_t every,
        struct trial_report *report)
{
        trial.kept_limit = 0;
        if (!story_prepare(scenario, NULL, report))
                return false;
        trial.pause = 0;
        trial.every = every;
        trial.first = first % every;
        return run_with_stops();
}

bool trial_twice(const struct step_scenario *scenario, uint64_t first, uint64_t every,
        struct trial_report *report)
{
        trial.kept_limit = 0;
        trial.stops = UINT64_MAX;
        if (!story_prepare(scenario, NULL, report))
                return false;
        trial.pause = scenario->pause;
        trial.every = every;
        trial.first = first % every;
        for (trial.pause_at = trial.first; trial.pause_at < trial.stops; trial.pause_at += every)
                if (!run_with_stops())
                        return false;
        return true;
}

/* ---- from the images of a kill ---- */

/* After the engine's death a new engine adopts; after another client's the engine reaps. */
static struct step_scenario reaping_of(const struct step_scenario *scenario)
{
        struct step_scenario reaping = {.name = scenario->name,
                .key_count = scenario->key_count,
                .flags = scenario->flags,
                .operation = {{.actor = ENGINE, .kind = REAP, .key = SUBJECT}}};

        if (trial_subject() == ENGINE)
                reaping.operation[0].kind = ADOPT;
        return reaping;
}

/* Keeps the images of a kill. */
static bool collect_images(const struct step_scenario *scenario, struct trial_report *report)
{
        bool passed;

        trial.kept_count = 0;
        trial.kept_limit = KEPT_MAX;
        passed = story_prepare(scenario, NULL, report) && step_through(play_kill);
        trial.kept_limit = 0;
        for (uint32_t i = 0; i < trial.kept_count; i++)
                bury_companions(scenario->operation, kept[i]);
        return passed;
}

static uint32_t stride(uint32_t limit)
{
        return trial.kept_count > limit ? (trial.kept_count + limit - 1) / limit : 1;
}

static bool fail_image(uint32_t image, struct trial_report *report)
{
        char failure[sizeof(report->failure)];

        memcpy(failure, report->failure, sizeof(failure));
        snprintf(report->failure, sizeof(report->failure), "image %u of a kill: %.600s", image,
                failure);
        return false;
}

/* Stops at points of @what, from each of some images of a kill of @scenario. */
static bool stop_at_images(const struct step_scenario *what, uint32_t image_limit, uint64_t first,
        uint64_t every, struct trial_report *report)
{
        for (uint32_t step = stride(image_limit), i = step / 2; i < trial.kept_count; i += step) {
                if (!story_prepare(what, kept[i], report))
                        return fail_image(i, report);
                trial.pause = 0;
                trial.every = every;
                trial.first = first % every;
                if (!run_with_stops())
                        return fail_image(i, report);
        }
        return true;
}

bool trial_beside(const struct step_scenario *scenario, uint32_t image_limit, uint64_t first,
        uint64_t every, struct trial_report *report)
{
        struct step_scenario beside = {.name = scenario->name,
                .key_count = scenario->key_count,
                .flags = scenario->flags | TRIAL_NEW_LIVES,
                .operation = {{.actor = OTHER, .kind = SET, .tag = 40, .len = 10},
                        {.actor = OTHER, .kind = SET, .key = 1, .tag = 41, .len = 60}},
                .others = {{.actor = ENGINE, .kind = REAP, .key = SUBJECT},
                        {.actor = ENGINE, .kind = TICK}, {.actor = ENGINE, .kind = WORK, .len = 1},
                        {.actor = ENGINE, .kind = SET, .tag = 42, .len = 10}}};

        if (!collect_images(scenario, report))
                return false;
        beside.others[0].kind = trial_subject() == ENGINE ? ADOPT : REAP;
        return stop_at_images(&beside, image_limit, first, every, report);
}

bool trial_reaping(const struct step_scenario *scenario, uint32_t image_limit, uint64_t first,
        uint64_t every, struct trial_report *report)
{
        static const struct act others[] = {{.actor = OTHER, .kind = GET},
                {.actor = OTHER, .kind = SET, .tag = 40, .len = 10},
                {.actor = OTHER, .kind = DELETE, .key = 1},
                {.actor = OTHER, .kind = SET, .tag = 41, .len = 60},
                {.actor = OTHER, .kind = WORK, .len = 1}, {.actor = OTHER, .kind = WORK, .len = 1},
                {.actor = OTHER, .kind = DELETE}, {.actor = OTHER, .kind = WORK, .len = 1},
                {.actor = OTHER, .kind = SET, .tag = 42, .len = 10},
                {.actor = OTHER, .kind = SCAN}};
        struct step_scenario reaping;

        if (!collect_images(scenario, report))
                return false;
        reaping = reaping_of(scenario);
        reaping.flags |= TRIAL_NEW_LIVES;
        memcpy(reaping.others, others, sizeof(others));
        return stop_at_images(&reaping, image_limit, first, every, report);
}

bool trial_reaper(
        const struct step_scenario *scenario, uint32_t image_limit, struct trial_report *report)
{
        struct step_scenario reaping;

        if (!collect_images(scenario, report))
                return false;
        reaping = reaping_of(scenario);
        for (uint32_t step = stride(image_limit), i = step / 2; i < trial.kept_count; i += step)
                if (!story_prepare(&reaping, kept[i], report) || !step_through(play_kill))
                        return fail_image(i, report);
        return true;
}
