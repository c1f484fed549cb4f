/*
 * What the stepper's trials share: the scene that is stepped, the stories that are right (see
 * trial.h), and the first error. This part tells a scenario's stories and compares them with what a
 * trial saw.
 *
 * Always true: a trial keeps its first failure only; after that it plays no more.
 */
#ifndef SB_TESTS_STORY_H
#define SB_TESTS_STORY_H

#include "tests/harness/step/scenarios.h"

/* Act `act` of the operation takes effect when `done` of the others' acts are done; the operation's
 * earlier acts come before these, its later acts after them. Stories have numbers in the order in
 * which the stopped operation can move: act by act, and within an act a smaller number means that
 * the operation had come less far. */
struct story {
        uint32_t act, done;
        struct result operation[TRIAL_OPERATION_MAX], others[TRIAL_OTHERS_MAX];
        /* after the operation's acts up to `act`, without others */
        struct fact alone[SCENE_KEYS];
        /* after the others' acts; the operation's acts after `act` are never done */
        struct fact stopped[SCENE_KEYS];
        /* ... and `act` too, when it takes effect after all of the others' acts */
        struct fact late[SCENE_KEYS];
        /* ... and each of the operation's acts after it */
        struct fact rest[TRIAL_OPERATION_MAX][SCENE_KEYS];
        struct fact after[SCENE_KEYS]; /* after everything */
};

struct trial_report {
        uint64_t points, images, branches;
        char failure[640]; /* empty: passed */
};

#define STORIES_MAX (TRIAL_OPERATION_MAX * TRIAL_OTHERS_MAX + TRIAL_OPERATION_MAX + 1)

extern struct trial {
        const struct step_scenario *scenario;
        struct trial_report *report;
        uint32_t operation_count, others_count;
        struct story story[STORIES_MAX];
        uint32_t story_count;
        struct result operation[TRIAL_OPERATION_MAX], others[TRIAL_OTHERS_MAX];
        uint32_t operation_done; /* how many acts of the operation were answered */
        struct fact begin[SCENE_KEYS];
        struct fact past;     /* TRIAL_ROWS: of RULED_KEY, in the cut that is past */
        bool from_setup;      /* and not from an image */
        uint32_t least_story; /* what was seen once is never taken back */
        uint32_t play_story;
        void (*play)(void *context);
        uint64_t first, every, pause_at; /* of the stops that others may come at */
        uint64_t stops;                  /* so many came in this run */
        /* how many of the others' acts come at the first stop, at pause_at */
        uint32_t pause;
        /* they all come at pause_at, and the kill is later; they have come */
        bool late, others_came;
        uint64_t stable; /* at the stop, when the others were done */
        struct fact observed[SCENE_KEYS];
        uint32_t kept_count, kept_limit;
} trial;

/* The scene that all functions work on; a copy from before a play; the scene as the operation finds
 * it. */
extern struct scene scene, scene_saved, scene_start;

void trial_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool trial_failed(void);
/* Adds to the report where it happened. */
void trial_locate(uint64_t number, uintptr_t address);
/* Uses four static buffers in turn. */
const char *trial_fact_text(const struct fact *fact);
/* Calls step_play(); an early end is a failure. Return: whether all is well. */
bool trial_play(void (*play)(void *), void *context, const char *what);
void trial_acts(const struct act *acts, uint32_t count, struct result *results);
void trial_restore(const struct scene *from);
void trial_save(struct scene *to);
/* The client that is stepped, and one that is attached and is not stepped. */
enum scene_actor trial_subject(void);
enum scene_actor trial_witness(void);

/* Tells the stories, from an image, or from the scenario's setup when @from is NULL. */
bool story_prepare(const struct step_scenario *scenario, const struct scene *from,
        struct trial_report *report);
/* Act @act with all others before it, with one fewer, ... */
uint32_t story_number(uint32_t act, uint32_t done);
bool story_facts_equal(const struct fact *a, const struct fact *b);
/* @b: what get_many may have seen of some keys instead. */
bool story_results_equal(const struct act *act, const struct result *got, const struct result *a,
        const struct result *b);
bool story_others_fit(const struct story *story);
/* The first story from @from on with these facts at one of its moments (an offset in struct story);
 * or story_count. */
uint32_t story_find(const struct fact *facts, size_t moment, uint32_t from);
void story_fail_facts(const struct fact *facts, size_t moment, const char *what);
/* Reports which result is in no story. @member: offset of operation or others in struct story. */
void story_fail_results(
        const struct act *acts, uint32_t count, const struct result *got, size_t member);

#endif
