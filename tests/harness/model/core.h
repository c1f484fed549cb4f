/*
 * The inside of the model checker: choices.c (choices), states.c (tables), memory.c (accesses),
 * callbacks.c (what the compiler calls), heap.c and world.c (private memory), saved.c (executions
 * half way) and report.c (traces, main) share this.
 */
#ifndef TESTS_HARNESS_MODEL_CORE_H
#define TESTS_HARNESS_MODEL_CORE_H

#include "tests/harness/model/model.h"

#define FIBRE_REAPER   MODEL_THREADS
#define FIBRE_CHECKER  (MODEL_THREADS + 1)
#define FIBRE_STARTER  (MODEL_THREADS + 2)
#define FIBRE_COUNT    (MODEL_THREADS + 3)
#define FIBRE_NONE     FIBRE_COUNT
#define BUFFER_MAX     8u
#define DIRECTIVES_MAX 64u

enum fibre_state { FIBRE_ABSENT, FIBRE_READY, FIBRE_ASLEEP, FIBRE_DONE, FIBRE_DEAD };

struct buffered_store {
        uint32_t offset, size; /* 4 or 8 */
        uint64_t value;
};

struct fibre {
        void *sp;
        uint64_t history; /* a hash of all that it has read and done */
        uint32_t points;  /* choices so far */
        uint32_t buffered;
        uint32_t unchecked;
        uint32_t sleeps_on; /* the offset of a word, of one that is ASLEEP */
        enum fibre_state state;
        struct buffered_store buffer[BUFFER_MAX];
};

enum action_kind {
        ACTION_RUN,
        ACTION_SWITCH,
        ACTION_SWITCH_KEEP,
        ACTION_DRAIN,
        ACTION_CRASH,
        ACTION_PICK,
        ACTION_KEEP,
        ACTION_OLDER
};

/* What to do at choice number @point of @fibre, where that is not ACTION_RUN. */
struct directive {
        uint32_t fibre, point;
        enum action_kind kind;
        uint32_t target;
        bool used;
};

/* RUN_SAVED: not over, but at a choice at which it is to be saved. */
enum run_result { RUN_ENDED, RUN_MERGED, RUN_FAILED, RUN_SAVED };

/* One execution under way. */
struct model_run {
        const struct model_scenario *scenario;
        struct fibre fibres[FIBRE_COUNT];
        uint32_t current;
        uint64_t steps, step_max;
        uint64_t notes[MODEL_NOTES];
        bool failed, in_setup, trace, directed;
        bool weak;     /* as the scenario says */
        bool at_point; /* the access that is made now was a choice */
        enum run_result result;
        char message[256];
};
extern struct model_run run;

/* ---- saved.c ---- */
/* An execution as it was at choice number @depth of the path: what was put in, in that order. The
 * same functions save it and load it again, so that both name the same things in the same order. */
struct model_saved {
        unsigned char *bytes;
        size_t size, room, taken;
        uint32_t depth;
        bool loading;
};
/* The next @size bytes, to be written, or to be read when it is loading. */
unsigned char *model_saved_span(struct model_saved *saved, size_t size);
/* Puts in these bytes; when it is loading, takes them out. */
void model_saved_move(struct model_saved *saved, void *bytes, size_t size);
/* The saved executions are a stack, of which the deepest choice is the top. Some choices lie
 * between one and the next. */
struct model_saved *model_saved_top(void); /* NULL: none */
bool model_saved_due(uint32_t depth);
struct model_saved *model_saved_push(uint32_t depth);
/* Leaves those of choices before number @depth. */
void model_saved_forget(uint32_t depth);

/* ---- choices.c ---- */
/* Called before an access of the current fibre: makes a choice. */
void model_point(uint32_t offset);
#define NO_OFFSET UINT32_MAX /* of a point that is no access */
/* At the same choice, once more: how far back, of @count ways, the access reaches. */
uint32_t model_choose_older(uint32_t count);
/* Lets another fibre go on, at no cost. */
void model_yield(void);
/* The current fibre sleeps until another one wakes those that sleep on the word at @offset. Where
 * all others have ended or sleep, the execution ends. */
void model_sleep(uint32_t offset);
void model_wake(uint32_t offset);
void model_buffers_drain(uint32_t fibre);
void model_buffer_drain_one(uint32_t fibre);
/* Run the scenario once by directives alone. Return: whether it failed. */
bool model_run_directed(const struct directive *directives, uint32_t count, bool trace);
void model_begin(const struct model_scenario *scenario);

/* ---- states.c ---- */
/* Enters the present state. @left: what is left of the bounds, except preemptions. Return: whether
 * the walk met it with at least as many preemptions left. */
bool model_state_known(uint64_t left, uint64_t preemptions_left);
bool model_end_known(void);
void model_states_forget(void);
void model_states_count(uint64_t *ret_states, uint64_t *ret_ends);

/* ---- memory.c ---- */
void model_memory_begin(void);    /* before setup: all zero */
void model_memory_snapshot(void); /* after setup */
void model_memory_restore(void);
void model_memory_move(struct model_saved *saved);
uint64_t model_memory_hash(void);
void model_memory_store(uint32_t offset, uint32_t size, uint64_t value);

uint64_t model_memory_load_word(uint32_t offset, uint32_t size);
/* Whether this is in the region, and where. */
extern unsigned char model_region_bytes[MODEL_REGION_MAX];
static inline bool model_region_has(const volatile void *pointer, uint32_t *ret_offset)
{
        uint64_t offset = (uint64_t)((uintptr_t)pointer - (uintptr_t)model_region_bytes);

        *ret_offset = (uint32_t)offset;
        return offset < MODEL_REGION_MAX;
}
/* An access to the region by the current fibre; @order: __ATOMIC_*. */
uint64_t model_atomic_load(uint32_t offset, uint32_t size, int order);
void model_atomic_store(uint32_t offset, uint32_t size, uint64_t value, int order);
enum model_rmw { RMW_EXCHANGE, RMW_ADD, RMW_SUB, RMW_AND, RMW_OR, RMW_XOR };
/* Return: the old value. */
uint64_t model_atomic_rmw(enum model_rmw what, uint32_t offset, uint32_t size, uint64_t value);
/* Return: the old value; the word changes when that is @expected. */
uint64_t model_atomic_cas(uint32_t offset, uint32_t size, uint64_t expected, uint64_t desired);
void model_atomic_fence(int order);
/* The bytes are read, or are about to be written. */
void model_plain_read(uint32_t offset, uint64_t size);
void model_plain_write(uint32_t offset, uint64_t size);

/* ---- views.c ---- */
/* Accesses of fibre @me where the scenario is `weak`. Of a store and a locked instruction the call
 * comes before memory changes. */
uint64_t model_views_load(uint32_t me, uint32_t offset, uint32_t size, bool acquire);
/* Return: whether memory is to hold the new value; another store is later in the order. */
bool model_views_store(uint32_t me, uint32_t offset, uint32_t size, uint64_t value, bool release);
void model_views_locked(uint32_t me, uint32_t offset, uint32_t size, enum model_order order);
/* Return: whether the compare-and-swap failed, and was a load of *@ret_value. */
bool model_views_cas_fails(uint32_t me, uint32_t offset, uint32_t size, uint64_t expected,
        enum model_order order, uint64_t *ret_value);
void model_views_plain(uint32_t me, uint32_t offset, uint32_t size, bool write);
/* The bytes are a block that @me has just freed: all reads of it came before. */
void model_views_freed(uint32_t me, uint32_t offset, uint32_t size);
void model_views_fence(uint32_t me);
void model_views_membarrier(void);
void model_views_note(uint32_t me, uint32_t index, bool write);
/* Fibre @me begins, and knows all that the dead one did. */
void model_views_begin_behind(uint32_t me, uint32_t dead);
void model_views_restore(void);
void model_views_move(struct model_saved *saved);
uint64_t model_views_hash(void);

/* ---- heap.c ---- */
void model_heap_begin(void);    /* before setup: empty */
void model_heap_snapshot(void); /* after setup */
void model_heap_restore(void);
void model_heap_move(struct model_saved *saved);

/* ---- world.c ---- */
/* The private state of the scenario, in parts. Which of them an execution has written since its
 * start is known from the compiler's callbacks, so that no others are copied. */
#define WORLD_PART 64u
extern struct model_world {
        unsigned char *bytes;
        size_t size;
} model_world;
void model_world_begin(void *bytes, size_t size); /* before setup: all zero */
void model_world_snapshot(void);                  /* after setup */
void model_world_restore(void);
void model_world_move(struct model_saved *saved);
void model_world_touch(size_t offset, size_t size);
/* Anything outside the region is about to be written. */
static inline void model_world_write(const volatile void *to, size_t size)
{
        size_t offset = (size_t)((uintptr_t)to - (uintptr_t)model_world.bytes);

        if (offset < model_world.size)
                model_world_touch(offset, size);
}

/* ---- report.c ---- */
void model_trace_line(
        const char *what, uint32_t offset, uint64_t old, uint64_t value, const char *note);
void model_trace_event(const char *what, uint32_t fibre);
void model_directives_print(
        const struct directive *directives, uint32_t count, char *ret, size_t size);
uint32_t model_directives_parse(const char *text, struct directive *ret, uint32_t max);

static inline uint64_t model_mix(uint64_t hash, uint64_t value)
{
        hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
        return hash ^ hash >> 29;
}

#endif
