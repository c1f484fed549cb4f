/* Trials of one scenario at every instruction; see trial.h. */
#include "trial.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/base/hash.h"
#include "shm/base/result.h"
#include "stepper.h"

#define SEEN_MAX       (1u << 16) /* power of two; distinct images of one run */
#define POINT_LIMIT    4000000u
#define DRAIN_ROUNDS   60u
#define STALL_WRITES   150u
#define KEPT_MAX       256u       /* images kept for trial_reaper */

/* Act `act` of the operation takes effect when `done` of the others' acts are done; those before it earlier, those behind it later.
 * Stories are numbered as the stopped operation can only move: act by act, each the earlier the farther it had come. */
struct story {
        uint32_t act, done;
        struct result operation[TRIAL_OPERATION_MAX], others[TRIAL_OTHERS_MAX];
        struct fact alone[SCENE_KEYS];   /* after the operation's acts up to `act`, without others */
        struct fact stopped[SCENE_KEYS]; /* after the others' acts, the operation's behind `act` never done */
        struct fact late[SCENE_KEYS];    /* ... and `act` too, when it takes effect after all of the others' acts */
        struct fact after[SCENE_KEYS];   /* after everything */
};

#define STORIES_MAX (TRIAL_OPERATION_MAX * TRIAL_OTHERS_MAX + TRIAL_OPERATION_MAX + 1)

static struct trial {
        const struct step_scenario *scenario;
        struct trial_report *report;
        uint32_t operation_count, others_count;
        struct story story[STORIES_MAX];
        uint32_t story_count;
        struct result operation[TRIAL_OPERATION_MAX], others[TRIAL_OTHERS_MAX];
        uint32_t least_story;   /* what was seen once is never taken back */
        uint32_t play_story;
        void (*play)(void *context);
        uint64_t first, every;
        uint32_t kept_count, kept_limit;
        uint64_t seen[SEEN_MAX];
        uint32_t seen_count;
} trial;

static struct scene scene, saved, start;
static struct scene *kept[KEPT_MAX];

/* ---- saying what is wrong ---- */

static void __attribute__((format(printf, 1, 2))) fail(const char *format, ...)
{
        char *text = trial.report->failure;
        va_list arguments;

        if (*text)
                return;
        va_start(arguments, format);
        vsnprintf(text, sizeof(trial.report->failure), format, arguments);
        va_end(arguments);
}

static bool failed(void)
{
        return trial.report->failure[0] != 0;
}

/* To what is wrong, add where. */
static void locate(uint64_t number, uintptr_t address)
{
        char text[sizeof(trial.report->failure)];

        memcpy(text, trial.report->failure, sizeof(text));
        snprintf(trial.report->failure, sizeof(trial.report->failure), "%s: stopped before instruction %llu (%s): %.380s",
                trial.scenario->name, (unsigned long long)number, step_where(address), text);
}

static const char *fact_text(const struct fact *fact)
{
        static char texts[4][64];
        static unsigned turn;
        char *text = texts[turn++ % 4];

        snprintf(text, sizeof(texts[0]), "%s tag %u len %u rev %llu",
                fact->state == FACT_NONE ? "none" : fact->state == FACT_VALUE ? "value" : "BROKEN", fact->tag, fact->len,
                (unsigned long long)fact->rev);
        return text;
}

static bool play_safely(void (*play)(void *), void *context, const char *what)
{
        enum step_end end = step_play(play, context);

        if (end != STEP_DONE)
                fail("%s %s", what, step_end_text(end));
        return !failed();
}

/* ---- acts and stories ---- */

static uint32_t act_count(const struct act *acts, uint32_t max)
{
        uint32_t count = 0;

        while (count < max && acts[count].kind != ACT_END)
                count++;
        return count;
}

static void do_acts(const struct act *acts, uint32_t count, struct result *results)
{
        struct result ignored;

        for (uint32_t i = 0; i < count; i++)
                scene_do(&scene, &acts[i], results ? &results[i] : &ignored);
}

static void do_others(void *context)
{
        (void)context;
        do_acts(trial.scenario->others, trial.others_count, trial.others);
}

static void do_operation(void *context)
{
        (void)context;
        do_acts(trial.scenario->operation, trial.operation_count, trial.operation);
}

static void restore(const struct scene *from)
{
        memcpy(&scene, from, scene_size(from));
}

static void save(struct scene *to)
{
        memcpy(to, &scene, scene_size(&scene));
}

static enum scene_who subject(void)
{
        return trial.scenario->operation[0].who;
}

/* Somebody who is attached and not the stepped one. */
static enum scene_who witness(void)
{
        return OTHER;
}

/* The facts, without leaving traces. */
static void look(struct fact *ret)
{
        save(&saved);
        scene_facts(&scene, witness(), ret);
        restore(&saved);
}

static void tell_story(void *context)
{
        struct story *story = context;
        const struct act *operation = trial.scenario->operation, *others = trial.scenario->others;
        uint32_t act = story->act, done = story->done;
        /* The last story: all acts of the operation come first. */
        uint32_t here = act < trial.operation_count;

        do_acts(operation, act, story->operation);
        look(story->alone);
        do_acts(others, done, story->others);
        if (here && done < trial.others_count)
                do_acts(operation + act, 1, story->operation + act);
        do_acts(others + done, trial.others_count - done, story->others + done);
        look(story->stopped);
        if (here && done == trial.others_count)
                do_acts(operation + act, 1, story->operation + act);
        look(story->late);
        do_acts(operation + act + here, trial.operation_count - act - here, story->operation + act + here);
        look(story->after);
}

/* Act @act with all others before it, with one less, ... */
static uint32_t story_number(uint32_t act, uint32_t done)
{
        return act == trial.operation_count ? trial.story_count - 1 :
                                              act * (trial.others_count + 1) + trial.others_count - done;
}

static bool tell_stories(void)
{
        trial.story_count = trial.operation_count * (trial.others_count + 1) + 1;
        for (uint32_t act = 0; act <= trial.operation_count; act++) {
                for (uint32_t done = 0; done <= (act < trial.operation_count ? trial.others_count : 0); done++) {
                        struct story *story = &trial.story[story_number(act, done)];

                        story->act = act;
                        story->done = done;
                        if (!play_safely(tell_story, story, "the uninterrupted run"))
                                return false;
                        restore(&start);
                }
        }
        return true;
}

static void set_the_scene(void *context)
{
        const struct step_scenario *scenario = trial.scenario;
        struct sb_geometry_wish wish = {.size = 28u << 10, .unit_size = 512, .bucket_count = 2};
        int r;

        (void)context;
        if (scenario->wish.size)
                wish.size = scenario->wish.size;
        if (scenario->wish.unit_size)
                wish.unit_size = scenario->wish.unit_size;
        if (scenario->wish.bucket_count)
                wish.bucket_count = scenario->wish.bucket_count;
        wish.guard_inline = scenario->wish.guard_inline ? scenario->wish.guard_inline : 12;
        wish.snapshot_count = 2;
        wish.clients = 4;
        wish.client_stride = SB_LINE;
        r = scene_make(&scene, &wish, scenario->key_count);
        if (r) {
                fail("the scene cannot be made: %d, size %llu", r, (unsigned long long)wish.size);
                return;
        }
        do_acts(scenario->setup, act_count(scenario->setup, TRIAL_SETUP_MAX), NULL);
        scene_set_up(&scene);
        save(&start);
}

/* From an image, or from the scenario's setup when @from is NULL. */
static bool prepare(const struct step_scenario *scenario, const struct scene *from, struct trial_report *report)
{
        trial.scenario = scenario;
        trial.report = report;
        trial.operation_count = act_count(scenario->operation, TRIAL_OPERATION_MAX);
        trial.others_count = act_count(scenario->others, TRIAL_OTHERS_MAX);
        trial.least_story = 0;
        trial.seen_count = 0;
        memset(trial.seen, 0, sizeof(trial.seen));
        memset(trial.story, 0, sizeof(trial.story));
        report->failure[0] = 0;
        if (from)
                memcpy(&start, from, scene_size(from));
        else if (!play_safely(set_the_scene, NULL, "the setup"))
                return false;
        restore(&start);
        return tell_stories();
}

/* ---- comparing ---- */

static bool facts_equal(const struct fact *a, const struct fact *b)
{
        for (uint32_t key = 0; key < scene.key_count; key++)
                if (!scene_fact_equal(&a[key], &b[key], !(trial.scenario->flags & TRIAL_NEW_LIVES)))
                        return false;
        return true;
}

static bool results_equal(const struct act *act, const struct result *got, const struct result *a, const struct result *b)
{
        bool revisions = !(trial.scenario->flags & TRIAL_NEW_LIVES);

        if (got->code != a->code || (revisions && got->rev != a->rev))
                return false;
        for (uint32_t key = 0; key < scene.key_count; key++) {
                if (scene_fact_equal(&got->seen[key], &a->seen[key], revisions))
                        continue;
                /* get_many is not a cut: each key for itself. */
                if (act->kind != GET_MANY || !scene_fact_equal(&got->seen[key], &b->seen[key], revisions))
                        return false;
        }
        return true;
}

/* The first story from @from on whose facts at one of its moments are these; or story_count. */
static uint32_t story_of(const struct fact *facts, size_t moment, uint32_t from)
{
        uint32_t number = from;

        while (number < trial.story_count &&
                !facts_equal(facts, (const struct fact *)((const char *)&trial.story[number] + moment)))
                number++;
        return number;
}

static void fail_story(const struct fact *facts, size_t moment, const char *what)
{
        const struct fact *first = (const struct fact *)((const char *)&trial.story[trial.least_story] + moment);
        const struct fact *last = (const struct fact *)((const char *)&trial.story[trial.story_count - 1] + moment);

        for (uint32_t key = 0; key < scene.key_count; key++)
                if (!scene_fact_equal(&facts[key], &first[key], true) || !scene_fact_equal(&facts[key], &last[key], true))
                        fail("%s: key %u has {%s}; before: {%s}, after: {%s}", what, key, fact_text(&facts[key]),
                                fact_text(&first[key]), fact_text(&last[key]));
        fail("%s: keys fit no order", what);
}

/* ---- what everybody must be able to do afterwards ---- */

static bool check_is_clean(enum scene_who who, bool quiescent, const char *when, struct sb_check_report *ret)
{
        int r;

        memset(ret, 0, sizeof(*ret));
        r = sb_check(&scene.peer[who], quiescent, ret);
        if (r)
                fail("%s: check says %d", when, r);
        else if (ret->problem_count)
                fail("%s: check finds %u: %s", when, ret->problem_count, ret->problems[0]);
        else if (ret->blocks_lost)
                fail("%s: %llu blocks lost", when, (unsigned long long)ret->blocks_lost);
        return !failed();
}

static struct result act_once(enum scene_who who, enum act_kind kind, uint32_t key, uint32_t tag, uint32_t len,
        enum act_expect expect)
{
        struct act act = {.who = (uint8_t)who, .kind = (uint8_t)kind, .key = (uint8_t)key, .tag = (uint8_t)tag,
                .len = (uint16_t)len, .expect = (uint8_t)expect};
        struct result result;

        scene_do(&scene, &act, &result);
        return result;
}

static void expect_fact(enum scene_who who, uint32_t key, uint32_t tag, uint32_t len, uint64_t rev, const char *when)
{
        struct fact want = {FACT_VALUE, tag, len, rev};
        struct result got = act_once(who, GET, key, 0, 0, ANY);

        if (got.code || !scene_fact_equal(&got.seen[key], &want, true))
                fail("%s: get of key %u gives %d {%s}, not {%s}", when, key, got.code, fact_text(&got.seen[key]),
                        fact_text(&want));
}

static void write_all_ways(enum scene_who who, uint32_t key, const struct fact *found)
{
        struct result set = act_once(who, SET, key, 50 + key, 20, ANY), got;
        uint64_t rev = set.rev;

        if (set.code || (found->state == FACT_VALUE ? rev != found->rev + 1 : rev <= scene.then[key]))
                fail("set of key %u after {%s} gives %d rev %llu", key, fact_text(found), set.code,
                        (unsigned long long)rev);
        expect_fact(who, key, 50 + key, 20, rev, "after set");
        scene.then[key] = rev;
        got = act_once(who, CAS, key, 1, 1, STALE);
        if (got.code != SB_E_CONFLICT || got.rev != rev)
                fail("stale cas of key %u gives %d rev %llu", key, got.code, (unsigned long long)got.rev);
        got = act_once(who, CAS, key, 60 + key, 30, THEN);
        if (got.code || got.rev != rev + 1)
                fail("cas of key %u gives %d rev %llu", key, got.code, (unsigned long long)got.rev);
        expect_fact(who, key, 60 + key, 30, rev + 1, "after cas");
        got = act_once(who, DELETE, key, 0, 0, ANY);
        if (got.code || got.rev != rev + 2)
                fail("delete of key %u gives %d rev %llu", key, got.code, (unsigned long long)got.rev);
        if (act_once(who, GET, key, 0, 0, ANY).code != SB_E_NOT_FOUND)
                fail("key %u is there after its delete", key);
        if (act_once(who, DELETE, key, 0, 0, ANY).code != SB_E_NOT_FOUND)
                fail("key %u can be deleted twice", key);
        got = act_once(who, CAS, key, 70 + key, 10, NOTHING);
        if (got.code || got.rev <= rev + 2)
                fail("create of key %u gives %d rev %llu", key, got.code, (unsigned long long)got.rev);
        rev = got.rev;
        expect_fact(who, key, 70 + key, 10, rev, "after create");
        if (act_once(who, CAS, key, 1, 1, NOTHING).code != SB_E_CONFLICT)
                fail("key %u can be created twice", key);
}

static void delete_all(enum scene_who who)
{
        for (uint32_t key = 0; key < scene.key_count && !failed(); key++) {
                struct result get = act_once(who, GET, key, 0, 0, ANY), got = act_once(who, DELETE, key, 0, 0, ANY);

                if (got.code != get.code)
                        fail("delete of key %u gives %d, get before gave %d", key, got.code, get.code);
        }
}

static void use_everything(enum scene_who who)
{
        struct fact facts[SCENE_KEYS];
        struct result scan;

        if (trial.scenario->flags & TRIAL_FULL) {
                delete_all(who);
                act_once(who, WORK, 0, 0, 1, ANY);
                act_once(who, WORK, 0, 0, 1, ANY);
        }
        scene_facts(&scene, who, facts);
        scan = act_once(who, SCAN, 0, 0, 0, ANY);
        for (uint32_t key = 0; key < scene.key_count; key++)
                if (!scene_fact_equal(&scan.seen[key], &facts[key], true))
                        fail("scan (%d) has {%s} for key %u, get {%s}", scan.code, fact_text(&scan.seen[key]), key,
                                fact_text(&facts[key]));
        for (uint32_t key = 0; key < scene.key_count && !failed(); key++)
                write_all_ways(who, key, &facts[key]);
}

/* Delete everything, let all go but the engine, and see every block come back. */
static void drain(enum scene_who who)
{
        struct sb_check_report report;

        if (!failed())
                delete_all(who);
        for (uint32_t i = SUBJECT; i < SCENE_PEERS && !failed(); i++)
                if (scene.attached[i])
                        act_once((enum scene_who)i, DETACH, 0, 0, 0, ANY);
        for (uint32_t round = 0; round < DRAIN_ROUNDS && !failed(); round++) {
                act_once(ENGINE, TICK, 0, 0, 0, ANY);
                act_once(ENGINE, WORK, 0, 0, 1, ANY);
                if (!check_is_clean(ENGINE, true, "while draining", &report))
                        return;
                if (report.blocks_used == report.blocks_private && !report.keys && !report.keys_deleted && !report.births)
                        return;
        }
        fail("after everything was deleted %llu blocks stay in use (%llu private, %llu waiting), keys %llu deleted %llu births %llu",
                (unsigned long long)report.blocks_used, (unsigned long long)report.blocks_private,
                (unsigned long long)report.blocks_waiting, (unsigned long long)report.keys,
                (unsigned long long)report.keys_deleted, (unsigned long long)report.births);
}

/* Whom a dead engine was attaching or reaping is dead with it. */
static void bury_companions(const struct act *acts, struct scene *of)
{
        for (; acts->kind != ACT_END; acts++)
                if (acts->who == ENGINE && (acts->kind == REAP || acts->kind == ATTACH))
                        of->attached[acts->key] = false;
}

/* The kernel said that the stepped peer is dead. */
static void reap_the_subject(void)
{
        int r;

        if (subject() != ENGINE) {
                act_once(ENGINE, REAP, subject(), 0, 0, ANY);
                return;
        }
        bury_companions(trial.scenario->operation, &scene);
        r = act_once(ENGINE, ADOPT, 0, 0, 0, ANY).code;
        if (r)
                fail("a new engine cannot adopt the segment: %d", r);
}

/* ---- kill ---- */

static void play_kill(void *context)
{
        struct sb_check_report report;
        struct fact facts[SCENE_KEYS];
        size_t moment = offsetof(struct story, alone);
        int r;

        (void)context;
        reap_the_subject();
        check_is_clean(ENGINE, true, "after the reaper", &report);
        r = act_once(ENGINE, ATTACH, NEWCOMER, 0, 0, ANY).code;
        if (r)
                fail("a newcomer cannot attach: %d", r);
        if (failed())
                return;
        scene_facts(&scene, NEWCOMER, facts);
        trial.play_story = story_of(facts, moment, trial.least_story);
        if (trial.play_story == trial.story_count)
                fail_story(facts, moment, "after the reaper");
        use_everything(NEWCOMER);
        if (!failed())
                check_is_clean(ENGINE, true, "after a newcomer's writes", &report);
        drain(NEWCOMER);
}

/* ---- stall ---- */

/* Say which result is in no story; of those that each fit some story, the whole does not. */
static void fail_results(const struct act *acts, uint32_t count, const struct result *got, size_t member)
{
        for (uint32_t i = 0; i < count; i++) {
                uint32_t number = 0, key = acts[i].key;
                const struct result *result = NULL, *first;

                for (; number < trial.story_count; number++) {
                        result = (const struct result *)((const char *)&trial.story[number] + member) + i;
                        if (results_equal(&acts[i], &got[i], result, result))
                                break;
                }
                if (number < trial.story_count || acts[i].kind == GET_MANY)
                        continue;
                first = (const struct result *)((const char *)&trial.story[0] + member) + i;
                while (acts[i].kind == SCAN && key + 1 < scene.key_count &&
                        scene_fact_equal(&got[i].seen[key], &first->seen[key], true))
                        key++;
                fail("%s gives %d rev %llu, key %u {%s}; in order: %d rev %llu {%s} or %d rev %llu {%s}",
                        scene_act_text(&acts[i]), got[i].code, (unsigned long long)got[i].rev, key,
                        fact_text(&got[i].seen[key]), first->code, (unsigned long long)first->rev,
                        fact_text(&first->seen[key]), result->code, (unsigned long long)result->rev,
                        fact_text(&result->seen[key]));
        }
}

static bool others_fit(const struct story *story)
{
        for (uint32_t i = 0; i < trial.others_count; i++)
                if (!results_equal(&trial.scenario->others[i], &trial.others[i], &story->others[i], &story->others[i]))
                        return false;
        return true;
}

static void write_much(enum scene_who who)
{
        for (uint32_t i = 0; i < STALL_WRITES && !failed(); i++) {
                struct result set = act_once(who, SET, i % scene.key_count, i & 63, 20, ANY);

                if (set.code)
                        fail("write %u beside the stopped one gives %d", i, set.code);
                if (i % 8 == 0 && subject() != ENGINE)
                        act_once(ENGINE, TICK, 0, 0, 0, ANY);
        }
}

static void play_stall(void *context)
{
        struct sb_check_report report;
        struct fact facts[SCENE_KEYS];
        uint32_t number = trial.least_story;

        do_others(context);
        scene_facts(&scene, witness(), facts);
        while (number < trial.story_count &&
                !(others_fit(&trial.story[number]) && (facts_equal(facts, trial.story[number].stopped) ||
                          facts_equal(facts, trial.story[number].late))))
                number++;
        trial.play_story = number;
        if (number == trial.story_count) {
                fail_results(trial.scenario->others, trial.others_count, trial.others, offsetof(struct story, others));
                fail_story(facts, offsetof(struct story, stopped), "beside the stopped one");
        }
        check_is_clean(witness(), false, "beside the stopped one", &report);
        if (!(trial.scenario->flags & TRIAL_FULL))
                write_much(witness());
        if (!failed())
                use_everything(witness());
        if (!failed())
                check_is_clean(witness(), false, "after many writes beside the stopped one", &report);
        if (failed())
                return;
        reap_the_subject();
        check_is_clean(ENGINE, true, "after the stopped one was reaped", &report);
        drain(witness());
}

/* ---- the points of kill and stall ---- */

/* Whether this image is new. */
static bool image_is_new(void)
{
        uint64_t hash = XXH3_64bits(scene.image, scene.image_size) | 1;
        uint32_t at = (uint32_t)hash & (SEEN_MAX - 1);

        while (trial.seen[at] && trial.seen[at] != hash)
                at = (at + 1) & (SEEN_MAX - 1);
        if (trial.seen[at] || trial.seen_count > SEEN_MAX / 2)
                return false;
        trial.seen[at] = hash;
        trial.seen_count++;
        return true;
}

static void keep_image(void)
{
        if (trial.kept_count == trial.kept_limit)
                return;
        if (!kept[trial.kept_count])
                kept[trial.kept_count] = malloc(sizeof(struct scene));
        memcpy(kept[trial.kept_count++], &scene, scene_size(&scene));
}

static void examine(void)
{
        save(&saved);
        play_safely(trial.play, NULL, "what comes after");
        restore(&saved);
        if (!failed() && trial.play_story > trial.least_story)
                trial.least_story = trial.play_story;
}

static enum step_verdict point(void *context, uint64_t number, uintptr_t address)
{
        (void)context;
        trial.report->points++;
        if (!image_is_new())
                return STEP_ON;
        trial.report->images++;
        if (trial.kept_limit)
                keep_image();
        examine();
        if (!failed())
                return STEP_ON;
        locate(number, address);
        return STEP_STOP;
}

static bool step_through(void (*play)(void *))
{
        struct step_run run = {.operation = do_operation, .point = point, .point_limit = POINT_LIMIT};
        enum step_end end;

        trial.play = play;
        end = step_run(&run);
        if (failed())
                return false;
        if (end != STEP_DONE) {
                fail("the operation %s", step_end_text(end));
                locate(run.points, run.address);
                return false;
        }
        /* Done means done. */
        trial.least_story = trial.story_count - 1;
        examine();
        if (failed())
                locate(run.points, run.address);
        return !failed();
}

bool trial_kill(const struct step_scenario *scenario, struct trial_report *report)
{
        trial.kept_limit = 0;
        return prepare(scenario, NULL, report) && step_through(play_kill);
}

bool trial_stall(const struct step_scenario *scenario, struct trial_report *report)
{
        trial.kept_limit = 0;
        return prepare(scenario, NULL, report) && step_through(play_stall);
}

/* ---- stop and resume ---- */

static bool story_fits(const struct story *story, const struct fact *facts)
{
        for (uint32_t i = 0; i < trial.operation_count; i++)
                if (!results_equal(&trial.scenario->operation[i], &trial.operation[i], &story->operation[i],
                            &trial.story[story_number(i + 1, trial.others_count)].operation[i]))
                        return false;
        return others_fit(story) && facts_equal(facts, story->after);
}

static void play_resumed(void *context)
{
        struct sb_check_report report;
        struct fact facts[SCENE_KEYS];
        uint32_t number = 0;

        (void)context;
        scene_facts(&scene, witness(), facts);
        while (number < trial.story_count && !story_fits(&trial.story[number], facts))
                number++;
        if (number == trial.story_count) {
                fail_results(trial.scenario->operation, trial.operation_count, trial.operation,
                        offsetof(struct story, operation));
                fail_results(trial.scenario->others, trial.others_count, trial.others, offsetof(struct story, others));
                fail_story(facts, offsetof(struct story, after), "resumed");
        }
        check_is_clean(witness(), false, "after the stopped one was resumed", &report);
        if (!failed())
                use_everything(witness());
        drain(witness());
}

static enum step_verdict point_resume(void *context, uint64_t number, uintptr_t address)
{
        (void)context;
        trial.report->points++;
        if (failed())
                return STEP_STOP;
        if (number % trial.every != trial.first)
                return STEP_ON;
        step_branch();
        trial.report->branches++;
        if (!play_safely(do_others, NULL, "what the others do"))
                locate(number, address);
        return STEP_ON;
}

static uintptr_t resumed_address;

static void ended(void *context, uint64_t number)
{
        (void)context;
        if (!failed() && !play_safely(play_resumed, NULL, "what comes after"))
                locate(number, resumed_address);
}

static enum step_verdict point_resume_located(void *context, uint64_t number, uintptr_t address)
{
        resumed_address = address;
        return point_resume(context, number, address);
}

bool trial_resume(const struct step_scenario *scenario, uint64_t first, uint64_t every, struct trial_report *report)
{
        struct step_run run = {.operation = do_operation, .point = point_resume_located, .ended = ended,
                .point_limit = POINT_LIMIT};
        enum step_end end;

        trial.kept_limit = 0;
        if (!prepare(scenario, NULL, report))
                return false;
        trial.every = every;
        trial.first = first % every;
        run.memory[0] = (struct step_memory){&scene, scene_size(&scene)};
        run.memory[1] = (struct step_memory){trial.operation, sizeof(trial.operation)};
        end = step_run(&run);
        if (!failed() && end != STEP_DONE) {
                fail("resumed, the operation %s", step_end_text(end));
                locate(run.points, run.address);
        }
        return !failed();
}

/* ---- the reaper killed ---- */

/* After the engine's death a new one adopts; after another's the engine reaps. */
static struct step_scenario reaping_of(const struct step_scenario *scenario)
{
        struct step_scenario reaping = {.name = scenario->name, .key_count = scenario->key_count, .flags = scenario->flags,
                .operation = {{.who = ENGINE, .kind = REAP, .key = SUBJECT}}};

        if (subject() == ENGINE)
                reaping.operation[0].kind = ADOPT;
        return reaping;
}

bool trial_reaper(const struct step_scenario *scenario, uint32_t image_limit, struct trial_report *report)
{
        struct step_scenario reaping;
        char failure[sizeof(report->failure)];
        uint32_t every;

        trial.kept_count = 0;
        trial.kept_limit = KEPT_MAX;
        if (!prepare(scenario, NULL, report) || !step_through(play_kill))
                return false;
        reaping = reaping_of(scenario);
        trial.kept_limit = 0;
        every = trial.kept_count > image_limit ? (trial.kept_count + image_limit - 1) / image_limit : 1;
        for (uint32_t i = every / 2; i < trial.kept_count; i += every) {
                bury_companions(scenario->operation, kept[i]);
                if (prepare(&reaping, kept[i], report) && step_through(play_kill))
                        continue;
                memcpy(failure, report->failure, sizeof(failure));
                snprintf(report->failure, sizeof(report->failure), "reaping image %u: %.600s", i, failure);
                return false;
        }
        return true;
}
