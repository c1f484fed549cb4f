/*
 * The model checker for the real code.
 *
 * Protocol files are compiled once more with -fsanitize=thread and linked against the callbacks of
 * memory.c instead of the sanitizer's library. Every atomic access to the region (the image
 * of a tiny segment) is a scheduling point of fibres; everything outside the region is private and
 * runs as it is. choices.c walks all choices depth first by running the scenario again from its
 * start image: who goes on (bounded by a number of preemptions), who is killed (bounded by a number
 * of crashes), and under TSO whose stores wait in a buffer (bounded by a number of delays).
 *
 * Two executions that meet in one state are walked on once. A state is the region, the buffers, and
 * for each fibre a hash of all that it has read: a fibre is a function of that, so no stack is
 * looked at. Therefore what a scenario's functions share besides the region goes through
 * model_note() and model_noted().
 *
 * Always true: one schedule gives one execution, whatever the address layout of the process.
 */
#ifndef TESTS_HARNESS_MODEL_H
#define TESTS_HARNESS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/base/model.h"
#include "shm/base/os.h"

#define MODEL_THREADS    4u
#define MODEL_REGION_MAX (256u << 10)
#define MODEL_NOTES      16u
#define MODEL_REAPER     (1u << MODEL_THREADS)

struct model_scenario {
        const char *name;
        const void *spec;    /* for setup, thread and check, by model_spec() */
        void (*setup)(void); /* builds the start image; once, and not in a fibre */
        void (*thread)(uint32_t index);
        /* optional: a fibre that starts when thread @dead was killed */
        void (*reaper)(uint32_t dead);
        void (*check)(void); /* when all have finished or are dead */
        /* optional: a name for a place in the region */
        void (*where)(uint64_t offset, char ret_text[64]);
        /* optional: at accesses elsewhere nobody is preempted or killed; for deeper bounds */
        bool (*focus)(uint64_t offset);
        /* private state: peers, results. Put back before each execution */
        void *world;
        size_t world_size;
        uint32_t thread_count;
        uint32_t preemptions;
        uint32_t crashes;
        /* which threads may be killed; MODEL_REAPER: the reaper too */
        uint32_t crash_mask;
        /* > 0: TSO; how often a store buffer may outlive a switch */
        uint32_t delays;
        bool unmerged; /* walk known states again: to check the checker */
        /* accesses of one execution; more is "no progress" [4000] */
        uint32_t step_max;
        uint64_t execution_max; /* [unbounded] */
};

struct model_report {
        uint64_t executions; /* started */
        uint64_t merged;     /* of these: given up in a state that was known */
        uint64_t states;     /* distinct, at choices */
        uint64_t finals;     /* distinct, at ends */
        uint64_t steps;
        bool failed;
        bool cut; /* execution_max was reached */
        char message[256];
        char replay[1024]; /* the shrunk schedule; for model_replay() */
};

/* Walk a scenario. The first violation ends it, with the shortest schedule that still shows it.
 * Return: !failed. */
bool model_explore(const struct model_scenario *scenario, struct model_report *ret);
/* Run one schedule and print each access. Return: whether it ends without a violation. */
bool model_replay(const struct model_scenario *scenario, const char *schedule);

/* Common main of model tests: [--long] [--only SCENARIO] [--replay SCHEDULE] [--preemptions N]
 * [--list]. Without --long and --only each scenario has one preemption less than it asks for,
 * though never less than one. Return: exit status. */
int model_main(int argc, char **argv, const struct model_scenario *scenarios, uint32_t count);
/* One line about a walk, to stdout. */
void model_print(const struct model_scenario *scenario, const struct model_report *report,
        uint64_t spent_ns);

/* ---- for setup, thread, reaper and check ---- */

/* The region: all zero at setup. @size: how much of it the scenario uses; a multiple of 16. */
unsigned char *model_region(uint32_t size);
const void *model_spec(void);
/* Blocks lie in @offset .. +@size: from now on each access there must meet an allocated one, but
 * for loads of retire words. */
void model_ghost_area(uint64_t offset, uint64_t size);
/* A violation. In a thread it does not return. */
void model_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define MODEL_CHECK(condition)                                                                     \
        do {                                                                                       \
                if (!(condition))                                                                  \
                        model_fail("%s:%d: %s", __FILE_NAME__, __LINE__, #condition);              \
        } while (0)
/* Private words that threads share, sequentially consistent. No scheduling points: they belong to
 * the access before or after. */
void model_note(uint32_t index, uint64_t value);
uint64_t model_noted(uint32_t index);
/* Read region bytes in place, as a user of a guard does: a scheduling point, and checked like an
 * access. */
void model_touch(const void *pointer, size_t len);
/* Once for each @hash in a walk: to leave out costly checks of what was checked. */
bool model_first_time(uint64_t hash);
/* Hash of the region as it is. */
uint64_t model_region_hash(void);
/* Did thread @index come to its end? For check. */
bool model_finished(uint32_t index);
/* Was the reaper killed? For check. */
bool model_reaper_died(void);
/* Clock stands still; membarrier drains all buffers; pause lets another go on, at no cost. */
extern const struct sb_os model_os;

/* ---- called by the protocol files themselves, under SB_MODEL ---- */

/* A block was freed or allocated: called right after the access that made it so, with no other in
 * between. */
void sb_model_block(uint64_t offset, uint64_t size, int allocated);
/* Accesses of this fibre in between may meet free blocks: a sweep, an allocator that resets a
 * retire word. */
void sb_model_unchecked_begin(void);
void sb_model_unchecked_end(void);

#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif

#endif
