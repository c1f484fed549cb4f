/*
 * The model checker for the real code.
 *
 * Protocol files are compiled once more with -fsanitize=thread and linked against callbacks.c
 * instead of the sanitizer's library. Every atomic access to the region (the image of a tiny
 * segment) is a scheduling point of fibres; everything outside the region is private and runs as it
 * is. choices.c walks all choices depth first by running the scenario again from its start image,
 * or from where an execution before was saved: which fibre goes on (bounded by a number of
 * preemptions), which fibre is killed (bounded by a number of crashes), and under TSO which stores
 * wait in a buffer (bounded by a number of delays), or under C11's orders which loads read an older
 * value (views.c; bounded, too).
 *
 * Two executions that meet in one state are walked on once. A state is the region, the buffers, and
 * for each fibre a hash of all that it has read: a fibre is a function of that, so the checker
 * looks at no stack. Therefore the functions of a scenario share private state through model_note()
 * and model_noted() only.
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

/* MODEL_ACQ_REL: a locked instruction that is an acquire and a release, and no full barrier. */
enum model_order { MODEL_AS_WRITTEN, MODEL_ACQ_REL, MODEL_RELAXED };

struct model_scenario {
        const char *name;
        const void *spec;    /* for setup, thread and check, by model_spec() */
        void (*setup)(void); /* builds the start image; once, and not in a fibre */
        void (*thread)(uint32_t index);
        /* optional: a fibre that starts when thread @dead was killed */
        void (*reaper)(uint32_t dead);
        void (*check)(void); /* when all threads have finished or are dead */
        /* optional: names an offset in the region */
        void (*where)(uint64_t offset, char ret_text[64]);
        /* optional: at accesses for which this is false no fibre is preempted or killed; for deeper
         * bounds */
        bool (*focus)(uint64_t offset);
        /* private state: handles, results. Each execution starts with a copy of what setup left */
        void *world;
        size_t world_size;
        uint32_t thread_count;
        uint32_t preemptions;
        uint32_t crashes;
        /* which threads may be killed; MODEL_REAPER: the reaper too */
        uint32_t crash_mask;
        /* > 0: TSO; how often a store buffer may outlive a switch */
        uint32_t delays;
        /* memory is ordered as C11 orders it (views.c), instead of TSO; how many accesses of an
         * execution may read or write behind a store that is there already */
        bool weak;
        uint32_t older;
        /* optional, under weak: how the acquire, release or locked instruction in this line orders
         */
        enum model_order (*order)(const char *file, uint32_t line);
        /* these two check the checker: walk known states again; begin each execution at its start
         */
        bool unmerged, anew;
        /* a walk for every day takes two switches less instead of one; without any it leaves the
         * scenario to --long */
        bool costly;
        /* much is examined in little time: a walk for every day takes all its switches, too */
        bool whole;
        /* accesses of one execution; more is "no progress" [4000] */
        uint32_t step_max;
        /* [unbounded] A walk that ends there is a failure of model_main(). */
        uint64_t execution_max;
};

struct model_report {
        uint64_t executions; /* started */
        uint64_t merged;     /* of these: ended in a state that was known */
        uint64_t states;     /* distinct, at choices */
        uint64_t finals;     /* distinct, at ends */
        uint64_t steps;
        bool failed;
        bool cut; /* execution_max was reached */
        char message[256];
        char replay[1024]; /* the shrunk schedule; for model_replay() */
};

/* Walks a scenario. The first violation ends the walk, with the shortest schedule that still shows
 * it. Return: !failed. */
bool model_explore(const struct model_scenario *scenario, struct model_report *ret);
/* Runs one schedule and prints each access. Return: whether it ends without a violation. */
bool model_replay(const struct model_scenario *scenario, const char *schedule);
/* The same without a word. Return: whether it ends with a violation. */
bool model_schedule_fails(const struct model_scenario *scenario, const char *schedule);

/* The common main of model tests: [--long] [--only SCENARIO] [--replay SCHEDULE] [--preemptions N]
 * [--weak N] [--list]. --weak: C11's orders, with N for `older`. Without --long and --only each
 * scenario that is not `whole` has one preemption less than it asks for, though never less than
 * one. Return: the exit status. */
int model_main(int argc, char **argv, const struct model_scenario *scenarios, uint32_t count);
/* Prints one line about a walk to stdout. */
void model_print(const struct model_scenario *scenario, const struct model_report *report,
        uint64_t spent_ns);

/* ---- for setup, thread, reaper and check ---- */

/* The region, all zero at setup. @size: how much of it the scenario uses; a multiple of 16. */
unsigned char *model_region(uint32_t size);
const void *model_spec(void);
/* Blocks lie in @offset .. +@size: from now on each access there must meet an allocated one. Only
 * loads of retire words may meet a free one. */
void model_ghost_area(uint64_t offset, uint64_t size);
/* Reports a violation. In a thread it does not return. */
void model_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define MODEL_CHECK(condition)                                                                     \
        do {                                                                                       \
                if (!(condition))                                                                  \
                        model_fail("%s:%d: %s", __FILE_NAME__, __LINE__, #condition);              \
        } while (0)
/* Private words that threads share, sequentially consistent. They are no scheduling points: each
 * belongs to the access before or after it. */
void model_note(uint32_t index, uint64_t value);
uint64_t model_noted(uint32_t index);
/* Reads bytes of the region in place, as a user of a guard does: a scheduling point, checked like
 * an access. */
void model_touch(const void *pointer, size_t len);
/* True once for each @hash in a walk: a scenario skips costly checks of what it has checked. */
bool model_first_time(uint64_t hash);
/* A hash of the region's present content. */
uint64_t model_region_hash(void);
/* For check: whether thread @index came to its end. */
bool model_finished(uint32_t index);
/* For check: whether thread @index sleeps, and no other process has woken it. */
bool model_asleep(uint32_t index);
/* For check: whether the reaper was killed. */
bool model_reaper_died(void);
/* The clock stands still; membarrier drains all buffers; pause lets another fibre go on, at no
 * cost. A wait lasts until a wake, whatever its deadline; where all threads have ended but those
 * that wait, the execution ends. */
extern const struct sb_os model_os;

/* ---- called by the protocol files themselves, under SB_MODEL ---- */

/* The protocol code has freed or allocated a block. The call follows the access that did so, with
 * no other access in between. */
void sb_model_block(uint64_t offset, uint64_t size, int allocated);
/* Accesses of this fibre between the two calls may meet free blocks: a sweep, a taker of blocks
 * that resets a retire word. */
void sb_model_unchecked_begin(void);
void sb_model_unchecked_end(void);

#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif

#endif
