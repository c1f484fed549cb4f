/* Tells the stories of a scenario, and compares them with what a trial saw; see story.h. */
#include "tests/harness/step/story.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/step/images.h"
#include "tests/harness/step/stepper.h"

struct trial trial;
struct scene scene, scene_saved, scene_start;

/* ---- reporting what is wrong ---- */

void trial_fail(const char *format, ...)
{
        char *text = trial.report->failure;
        va_list arguments;

        if (*text)
                return;
        va_start(arguments, format);
        vsnprintf(text, sizeof(trial.report->failure), format, arguments);
        va_end(arguments);
}

bool trial_failed(void)
{
        return trial.report->failure[0] != 0;
}

/* Adds to the report where it happened. */
void trial_locate(uint64_t number, uintptr_t address)
{
        char text[sizeof(trial.report->failure)];

        memcpy(text, trial.report->failure, sizeof(text));
        snprintf(trial.report->failure, sizeof(trial.report->failure),
                "%s: stopped before instruction %llu (%s): %.380s", trial.scenario->name,
                (unsigned long long)number, step_where(address), text);
}

const char *trial_fact_text(const struct fact *fact)
{
        static char texts[4][64];
        static unsigned turn;
        char *text = texts[turn++ % 4];

        snprintf(text, sizeof(texts[0]), "%s tag %u len %u rev %llu",
                fact->state == FACT_NONE    ? "none"
                : fact->state == FACT_VALUE ? "value"
                                            : "BROKEN",
                fact->tag, fact->len, (unsigned long long)fact->rev);
        return text;
}

bool trial_play(void (*play)(void *), void *context, const char *what)
{
        enum step_end end = step_play(play, context);

        if (end != STEP_DONE)
                trial_fail("%s %s", what, step_end_text(end));
        return !trial_failed();
}

/* ---- acts and stories ---- */

static uint32_t act_count(const struct act *acts, uint32_t max)
{
        uint32_t count = 0;

        while (count < max && acts[count].kind != ACT_END)
                count++;
        return count;
}

void trial_acts(const struct act *acts, uint32_t count, struct result *results)
{
        struct result ignored;

        for (uint32_t i = 0; i < count; i++)
                scene_do(&scene, &acts[i], results ? &results[i] : &ignored);
}

enum scene_actor trial_subject(void)
{
        return trial.scenario->operation[0].actor;
}

/* A client that is attached and is not the stepped one. */
enum scene_actor trial_witness(void)
{
        return trial_subject() == OTHER ? ENGINE : OTHER;
}

void trial_restore(const struct scene *from)
{
        memcpy(&scene, from, scene_size(from));
}

void trial_save(struct scene *to)
{
        memcpy(to, &scene, scene_size(&scene));
}

/* Reads the facts and leaves no trace. */
static void look(struct fact *ret)
{
        trial_save(&scene_saved);
        scene_facts(&scene, trial_witness(), ret);
        trial_restore(&scene_saved);
}

/* The same of a cut that is past, where scenarios have one. */
static void look_back(void)
{
        static const struct act past = {.actor = OTHER, .kind = PAST, .len = RULED_KEY + 1};
        struct result result;

        if (!(trial.scenario->flags & TRIAL_ROWS))
                return;
        trial_save(&scene_saved);
        scene_do(&scene, &past, &result);
        trial.past = result.seen[RULED_KEY];
        trial_restore(&scene_saved);
}

static void tell_story(void *context)
{
        struct story *story = context;
        const struct act *operation = trial.scenario->operation, *others = trial.scenario->others;
        uint32_t act = story->act, done = story->done;
        uint64_t moved = 0;
        /* The last story: all acts of the operation come first. */
        uint32_t here = act < trial.operation_count;

        trial_acts(operation, act, story->operation);
        look(story->alone);
        trial_acts(others, done, story->others);
        if (here && done < trial.others_count)
                trial_acts(operation + act, 1, story->operation + act);
        trial_acts(others + done, trial.others_count - done, story->others + done);
        look(story->stopped);
        if (here && done == trial.others_count)
                trial_acts(operation + act, 1, story->operation + act);
        look(story->late);
        for (act += here; act < trial.operation_count; act++) {
                trial_acts(operation + act, 1, story->operation + act);
                look(story->rest[act]);
        }
        look(story->after);
        for (uint32_t i = 0; i < SCENE_PEERS; i++)
                moved += scene_handle(&scene, i)->counters.moved;
        if ((trial.scenario->flags & TRIAL_ROWS) && trial.from_setup && !moved)
                trial_fail("no version moves");
}

/* Act @act with all others before it, with one fewer, ... */
uint32_t story_number(uint32_t act, uint32_t done)
{
        return act == trial.operation_count
                       ? trial.story_count - 1
                       : act * (trial.others_count + 1) + trial.others_count - done;
}

static bool tell_stories(void)
{
        trial.story_count = trial.operation_count * (trial.others_count + 1) + 1;
        for (uint32_t act = 0; act <= trial.operation_count; act++) {
                for (uint32_t done = 0;
                        done <= (act < trial.operation_count ? trial.others_count : 0); done++) {
                        struct story *story = &trial.story[story_number(act, done)];

                        story->act = act;
                        story->done = done;
                        if (!trial_play(tell_story, story, "the uninterrupted run"))
                                return false;
                        trial_restore(&scene_start);
                }
        }
        return true;
}

/* Does the setup in a segment that is just large enough, perhaps: so no run is left behind it.
 * Return: whether it is. */
static bool fits_in_rows(void)
{
        const struct step_scenario *scenario = trial.scenario;

        trial_acts(scenario->setup, act_count(scenario->setup, TRIAL_SETUP_MAX), NULL);
        if (!trial_failed() && !scene_handle(&scene, OTHER)->counters.slices)
                return true;
        trial.report->failure[0] = 0;
        return false;
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
        wish.magazine_count = scenario->wish.magazine_count ? scenario->wish.magazine_count : 3;
        wish.snapshot_count = 2;
        wish.clients = 4;
        wish.record_stride = SB_LINE;
        scene_use_calls(scenario->flags & TRIAL_USERS);
        for (;;) {
                r = scene_make(
                        &scene, &wish, scenario->key_count, scenario->flags & TRIAL_ONE_HOME);
                if (r) {
                        trial_fail("the scene cannot be made: %d, size %llu", r,
                                (unsigned long long)wish.size);
                        return;
                }
                if (!(scenario->flags & TRIAL_ROWS) || fits_in_rows())
                        break;
                wish.size += wish.unit_size;
        }
        if (scenario->flags & TRIAL_ERA_WRAPS) { /* before any block has an era */
                sb_store_release(&scene.segment.super->birth_floor, SB_ERA_LOW - 2);
                sb_store_release(&scene.segment.super->era, SB_ERA_LOW - 2);
        }
        if (scenario->flags & TRIAL_OBSERVED)
                sb_store_release(&scene.segment.super->observers, 1);
        if (!(scenario->flags & TRIAL_ROWS))
                trial_acts(scenario->setup, act_count(scenario->setup, TRIAL_SETUP_MAX), NULL);
        scene_set_up(&scene);
        trial_save(&scene_start);
}

/* From an image, or from the scenario's setup when @from is NULL. */
bool story_prepare(
        const struct step_scenario *scenario, const struct scene *from, struct trial_report *report)
{
        trial.scenario = scenario;
        trial.report = report;
        trial.operation_count = act_count(scenario->operation, TRIAL_OPERATION_MAX);
        trial.others_count = act_count(scenario->others, TRIAL_OTHERS_MAX);
        trial.least_story = 0;
        images_forget();
        memset(trial.story, 0, sizeof(trial.story));
        report->failure[0] = 0;
        trial.from_setup = !from;
        if (from)
                memcpy(&scene_start, from, scene_size(from));
        else if (!trial_play(set_the_scene, NULL, "the setup"))
                return false;
        scene_start.stepped = trial_subject();
        trial_restore(&scene_start);
        look(trial.begin);
        look_back();
        return tell_stories();
}

/* ---- comparing ---- */

bool story_facts_equal(const struct fact *a, const struct fact *b)
{
        for (uint32_t key = 0; key < scene.key_count; key++)
                if (!scene_fact_equal(&a[key], &b[key], !(trial.scenario->flags & TRIAL_NEW_LIVES)))
                        return false;
        return true;
}

bool story_results_equal(const struct act *act, const struct result *got, const struct result *a,
        const struct result *b)
{
        bool revisions = !(trial.scenario->flags & TRIAL_NEW_LIVES);

        if (got->code != a->code || (revisions && got->rev != a->rev))
                return false;
        for (uint32_t key = 0; key < scene.key_count; key++) {
                if (scene_fact_equal(&got->seen[key], &a->seen[key], revisions))
                        continue;
                /* get_many is no cut: each key counts for itself. */
                if (act->kind != GET_MANY ||
                        !scene_fact_equal(&got->seen[key], &b->seen[key], revisions))
                        return false;
        }
        return true;
}

/* The first story from @from on with these facts at one of its moments; or story_count. */
uint32_t story_find(const struct fact *facts, size_t moment, uint32_t from)
{
        uint32_t number = from;

        while (number < trial.story_count &&
                !story_facts_equal(
                        facts, (const struct fact *)((const char *)&trial.story[number] + moment)))
                number++;
        return number;
}

void story_fail_facts(const struct fact *facts, size_t moment, const char *what)
{
        const struct fact *first =
                (const struct fact *)((const char *)&trial.story[trial.least_story] + moment);
        const struct fact *last =
                (const struct fact *)((const char *)&trial.story[trial.story_count - 1] + moment);

        for (uint32_t key = 0; key < scene.key_count; key++)
                if (!scene_fact_equal(&facts[key], &first[key], true) ||
                        !scene_fact_equal(&facts[key], &last[key], true))
                        trial_fail("%s: key %u has {%s}; before: {%s}, after: {%s}", what, key,
                                trial_fact_text(&facts[key]), trial_fact_text(&first[key]),
                                trial_fact_text(&last[key]));
        trial_fail("%s: keys fit no order", what);
}

/* Reports which result is in no story; where each fits some story, the whole does not. */
void story_fail_results(
        const struct act *acts, uint32_t count, const struct result *got, size_t member)
{
        for (uint32_t i = 0; i < count; i++) {
                uint32_t number = 0, key = acts[i].key;
                const struct result *result = NULL, *first;

                for (; number < trial.story_count; number++) {
                        result = (const struct result *)((const char *)&trial.story[number] +
                                                         member) +
                                 i;
                        if (story_results_equal(&acts[i], &got[i], result, result))
                                break;
                }
                if (number < trial.story_count)
                        continue;
                first = (const struct result *)((const char *)&trial.story[0] + member) + i;
                while ((acts[i].kind == SCAN || acts[i].kind == SCAN_MANY ||
                               acts[i].kind == SCAN_SEEK || acts[i].kind == GET_MANY ||
                               acts[i].kind == GET_MANY_AT) &&
                        key + 1 < scene.key_count &&
                        scene_fact_equal(&got[i].seen[key], &first->seen[key], true))
                        key++;
                trial_fail("%s gives %d rev %llu, key %u {%s}; in order: %d rev %llu {%s} or %d "
                           "rev %llu {%s}",
                        scene_act_text(&acts[i]), got[i].code, (unsigned long long)got[i].rev, key,
                        trial_fact_text(&got[i].seen[key]), first->code,
                        (unsigned long long)first->rev, trial_fact_text(&first->seen[key]),
                        result->code, (unsigned long long)result->rev,
                        trial_fact_text(&result->seen[key]));
        }
}

bool story_others_fit(const struct story *story)
{
        for (uint32_t i = 0; i < trial.others_count; i++)
                if (!story_results_equal(&trial.scenario->others[i], &trial.others[i],
                            &story->others[i], &story->others[i]))
                        return false;
        return true;
}
