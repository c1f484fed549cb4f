/*
 * What tests/api/api-instructions counts: each public call over keys of one length with values of
 * one length, in a bus of its own, under `valgrind --tool=callgrind`.
 *
 *      instructions KEY_LENGTHS VALUE_LENGTHS          as 4,8,16 64,512
 *
 * Standard output is a line `count CALL KEY_LENGTH VALUE_LENGTH CALLS` for each dump that callgrind
 * writes, in turn.
 *
 * Always true: callgrind collects within the calls that the line names, and the loop around them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else /* nothing is collected, so that the script finds nothing */
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_DUMP_STATS
#endif

#include "tests/api/world.h"

#define MIB (UINT64_C(1) << 20)
/* In a bus of this size the magazine has blocks of all sizes that are measured; in a small one
 * those for large values are spares. */
#define BUS_SIZE  (128 * MIB)
#define BUS_SMALL (16 * MIB)
#define KEYS      32u /* of each shape */
#define KEY_MAX   1024u
#define VALUE_MAX 8192u
#define ROUNDS    12u /* over all keys; blocks go through the magazine in that time */
#define TOGETHER  16u /* keys of one sb_get_many() */
#define IN_COMMIT 4u
#define COMMITS   40u
/* Versions of a key that a rule keeps. */
#define LAST_FEW  64u
#define LAST_MANY 512u
#define LENGTHS   128u
#define IDLE      100u

static struct world world;
static struct sb_bus *bus;
static struct sb_bus *idlers[IDLE];
static uint32_t idle_count;

/* A key length and a value length, and the keys that have them. */
struct shape {
        size_t key_len, value_len;
        char texts[KEYS][KEY_MAX];
        struct sb_bytes keys[KEYS];
        struct sb_bytes values[2]; /* different ones of the same length, by turns */
        uint64_t revs[KEYS];
};

#define NEED(condition)                                                                            \
        do {                                                                                       \
                if (!(condition)) {                                                                \
                        fprintf(stderr, "instructions: line %d: %s\n", __LINE__, #condition);      \
                        exit(1);                                                                   \
                }                                                                                  \
        } while (0)

/* A call, @count times. Return: how many calls were made. */
typedef uint32_t work(struct shape *shape);

static uint32_t get(struct shape *shape)
{
        struct sb_guard guard = {0};

        for (uint32_t i = 0; i < KEYS; i++) {
                NEED(sb_get(bus, shape->keys[i], &guard) == 0);
                sb_guard_release(&guard);
        }
        return KEYS;
}

/* Of each key one call, as of sb_get(). */
static uint32_t get_many(struct shape *shape)
{
        struct sb_guard guards[TOGETHER] = {0};

        for (uint32_t i = 0; i < KEYS; i += TOGETHER) {
                NEED(sb_get_many(bus, shape->keys + i, TOGETHER, guards) == 0);
                for (uint32_t k = 0; k < TOGETHER; k++)
                        sb_guard_release(&guards[k]);
        }
        return KEYS;
}

static uint32_t set(struct shape *shape)
{
        for (uint32_t i = 0; i < ROUNDS * KEYS; i++)
                NEED(sb_set(bus, shape->keys[i % KEYS], shape->values[i / KEYS % 2], NULL,
                             &shape->revs[i % KEYS]) == 0);
        return ROUNDS * KEYS;
}

static struct sb_watch *watches[KEYS]; /* of each key; all one, of their prefix */
static bool counting;

/* Leaves a part of the work out, or has left it out. */
static void leave_out(bool leaves)
{
        if (counting && leaves)
                CALLGRIND_TOGGLE_COLLECT;
}

/* A watch takes each change at once. So each has a stamp of its own, and a ring of hints is gone
 * round once: what it keeps goes by halves. Either the sets are counted, or that each change is
 * taken and the look in vain behind it. */
static uint32_t set_and_take(struct shape *shape, bool counts_sets)
{
        struct sb_guard guard = {0};

        for (uint32_t i = 0; i < 7 * ROUNDS * KEYS; i++) {
                leave_out(!counts_sets);
                NEED(sb_set(bus, shape->keys[i % KEYS], shape->values[i / KEYS % 2], NULL,
                             &shape->revs[i % KEYS]) == 0);
                leave_out(!counts_sets);
                leave_out(counts_sets);
                NEED(sb_watch_next(watches[i % KEYS], 0, &guard) == 0);
                sb_guard_release(&guard);
                NEED(sb_watch_next(watches[i % KEYS], 0, &guard) == SB_E_TIMED_OUT);
                leave_out(counts_sets);
        }
        return 7 * ROUNDS * KEYS;
}

static uint32_t set_taken(struct shape *shape)
{
        return set_and_take(shape, true);
}

static uint32_t take(struct shape *shape)
{
        return set_and_take(shape, false);
}

/* Until what a rule or a watch keeps is there, so that each further write takes something out. */
static void fill(struct shape *shape, uint32_t depth)
{
        for (uint32_t i = 0; i < 3 * depth; i += ROUNDS)
                set(shape);
}

static uint32_t cas(struct shape *shape)
{
        for (uint32_t i = 0; i < ROUNDS * KEYS; i++)
                NEED(sb_cas(bus, shape->keys[i % KEYS], shape->revs[i % KEYS],
                             shape->values[i / KEYS % 2], NULL, &shape->revs[i % KEYS]) == 0);
        return ROUNDS * KEYS;
}

/* Another write came first: what a process does most that shares a busy key with others. */
static uint32_t cas_lost(struct shape *shape)
{
        uint64_t rev;

        for (uint32_t i = 0; i < KEYS; i++)
                NEED(sb_cas(bus, shape->keys[i], shape->revs[i] + 1, shape->values[0], NULL,
                             &rev) == SB_E_CONFLICT);
        return KEYS;
}

static uint32_t incr(struct shape *shape)
{
        for (uint32_t i = 0; i < ROUNDS * KEYS; i++)
                NEED(sb_incr(bus, shape->keys[i % KEYS], 1, NULL, NULL, NULL) == 0);
        return ROUNDS * KEYS;
}

static uint32_t scan(struct shape *shape)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan;
        uint32_t steps = 0;

        CALLGRIND_TOGGLE_COLLECT;
        NEED(sb_scan_open(bus, NULL, (struct sb_bytes){shape->texts[0], 1}, &scan) == 0);
        NEED(sb_scan_next(scan, &guard) == 0);
        CALLGRIND_TOGGLE_COLLECT;
        for (; steps < KEYS - 1; steps++) {
                sb_guard_release(&guard);
                NEED(sb_scan_next(scan, &guard) == 0);
        }
        sb_guard_release(&guard);
        CALLGRIND_TOGGLE_COLLECT;
        sb_scan_close(scan);
        CALLGRIND_TOGGLE_COLLECT;
        return steps;
}

static uint32_t commit(struct shape *shape)
{
        struct sb_txn *txn;

        for (uint32_t i = 0; i < COMMITS * IN_COMMIT; i += IN_COMMIT) {
                NEED(sb_txn_begin(bus, SB_SNAPSHOT, &txn) == 0);
                for (uint32_t k = 0; k < IN_COMMIT; k++)
                        NEED(sb_txn_set(txn, shape->keys[(i + k) % KEYS],
                                     shape->values[i / KEYS % 2]) == 0);
                NEED(sb_txn_commit(txn, NULL) == 0);
                sb_txn_end(txn);
        }
        return COMMITS;
}

static void measure(const char *name, work *function, struct shape *shape)
{
        uint32_t count;

        function(shape); /* caches, the magazine, guard words */
        counting = true;
        CALLGRIND_TOGGLE_COLLECT;
        count = function(shape);
        CALLGRIND_TOGGLE_COLLECT;
        counting = false;
        CALLGRIND_DUMP_STATS;
        printf("count %s %zu %zu %u\n", name, shape->key_len, shape->value_len, count);
}

/* Keys are what those of a program have in common, and a number. */
static void shape_make(struct shape *shape, size_t key_len, size_t value_len)
{
        static char bytes[2][VALUE_MAX];

        NEED(key_len >= 3 && key_len <= KEY_MAX && value_len <= VALUE_MAX);
        shape->key_len = key_len;
        shape->value_len = value_len;
        for (uint32_t i = 0; i < KEYS; i++) {
                char number[4];

                memset(shape->texts[i], '/', key_len);
                snprintf(number, sizeof(number), "%03u", i);
                memcpy(shape->texts[i] + key_len - 3, number, 3);
                shape->keys[i] = (struct sb_bytes){shape->texts[i], key_len};
        }
        for (uint32_t i = 0; i < 2; i++) {
                memset(bytes[i], '1' + (int)i, sizeof(bytes[i]));
                shape->values[i] = (struct sb_bytes){bytes[i], value_len};
        }
}

static uint32_t lengths(char *text, size_t *ret)
{
        uint32_t count = 0;

        for (char *word = strtok(text, ","); word && count < LENGTHS; word = strtok(NULL, ","))
                ret[count++] = strtoul(word, NULL, 10);
        return count;
}

/* A bus of its own for what is measured, with keys that have values, and @idle clients that do
 * nothing. */
static void begin_beside(
        uint32_t idle, uint64_t bus_size, struct shape *shape, size_t key_len, size_t value_len)
{
        NEED(!world_open(&world, bus_size, 8 + idle));
        bus = world_bus(&world);
        NEED(bus);
        for (idle_count = 0; idle_count < idle; idle_count++) {
                idlers[idle_count] = world_bus(&world);
                NEED(idlers[idle_count]);
        }
        shape_make(shape, key_len, value_len);
        for (uint32_t i = 0; i < KEYS; i++)
                NEED(sb_set(bus, shape->keys[i], shape->values[0], NULL, &shape->revs[i]) == 0);
}

static void begin(uint64_t bus_size, struct shape *shape, size_t key_len, size_t value_len)
{
        begin_beside(0, bus_size, shape, key_len, value_len);
}

static void end(void)
{
        while (idle_count > 0)
                sb_close(idlers[--idle_count]);
        bus = sb_close(bus);
        world_drop(&world);
}

/* How many versions of a key there are. */
static uint32_t versions(struct shape *shape)
{
        struct sb_history *history;
        struct sb_guard guard = {0};
        uint32_t count = 0;

        NEED(sb_history_open(bus, shape->keys[0], 0, &history) == 0);
        for (; sb_history_next(history, &guard, NULL) == 0; count++)
                sb_guard_release(&guard);
        sb_history_close(history);
        return count;
}

static void watch_prefix(struct shape *shape)
{
        NEED(sb_watch_open(bus, (struct sb_bytes){shape->texts[0], 1}, SB_PREFIX, SB_ANY_REV,
                     &watches[0]) == 0);
        for (uint32_t i = 1; i < KEYS; i++)
                watches[i] = watches[0];
}

/* The watches are through with what was not counted. */
static void take_rest(void)
{
        struct sb_guard guard = {0};
        int r;

        for (uint32_t i = 0; i < KEYS; i++)
                while ((r = sb_watch_next(watches[i], 0, &guard)) != SB_E_TIMED_OUT) {
                        NEED(r == 0 || r == SB_E_LAPPED);
                        sb_guard_release(&guard);
                }
}

/* The ring of hints goes round, as it does from then on. The cut that the watch began at is closed,
 * and the sweep that is asked for then is done. */
static void go_round(struct shape *shape)
{
        take_rest();
        (void)set_taken(shape);
        world_prune(&world, bus);
}

/* What a write costs where versions stay: by a rule, for watches of its key, or of its prefix; and
 * what it costs a watch to take it. */
static void measure_kept(struct shape *shape, size_t key_len, size_t value_len)
{
        static const struct {
                const char *name;
                uint32_t depth;
        } rules[] = {{"set_last_64", LAST_FEW}, {"set_last_512", LAST_MANY}};

        for (uint32_t i = 0; i < 2; i++) {
                struct sb_rule rule = {
                        .size = sizeof(rule), .kind = SB_KEEP_LAST, .value = rules[i].depth};

                begin(BUS_SIZE, shape, key_len, value_len);
                NEED(sb_keep(bus, (struct sb_bytes){shape->texts[0], 1}, SB_PREFIX, &rule) == 0);
                fill(shape, rules[i].depth);
                NEED(versions(shape) >= rules[i].depth);
                measure(rules[i].name, set, shape);
                end();
        }
        begin(BUS_SIZE, shape, key_len, value_len);
        for (uint32_t i = 0; i < KEYS; i++)
                NEED(sb_watch_open(bus, shape->keys[i], 0, SB_ANY_REV, &watches[i]) == 0);
        fill(shape, LAST_FEW);
        measure("set_watched", set, shape);
        take_rest();
        measure("next_key", take, shape);
        end();
        begin(BUS_SIZE, shape, key_len, value_len);
        watch_prefix(shape);
        fill(shape, LAST_MANY);
        measure("set_prefix", set, shape);
        go_round(shape);
        measure("set_taken", set_taken, shape);
        measure("next_prefix", take, shape);
        end();
        begin_beside(IDLE, BUS_SIZE, shape, key_len, value_len);
        watch_prefix(shape);
        go_round(shape);
        measure("next_beside", take, shape);
        end();
}

int main(int argc, char **argv)
{
        static struct shape shape;
        size_t keys[LENGTHS], values[LENGTHS];
        uint32_t key_count, value_count;

        NEED(argc == 3);
        key_count = lengths(argv[1], keys);
        value_count = lengths(argv[2], values);
        for (uint32_t k = 0; k < key_count; k++) {
                for (uint32_t v = 0; v < value_count; v++) {
                        begin(BUS_SIZE, &shape, keys[k], values[v]);
                        measure("get", get, &shape);
                        measure("get_many", get_many, &shape);
                        measure("scan", scan, &shape);
                        measure("set", set, &shape);
                        measure("cas", cas, &shape);
                        if (values[v] == 64)
                                measure("cas_lost", cas_lost, &shape);
                        measure("commit", commit, &shape);
                        end();
                        if (keys[k] != 16)
                                continue;
                        begin(BUS_SMALL, &shape, keys[k], values[v]);
                        measure("cas_small", cas, &shape);
                        end();
                }
                begin(BUS_SIZE, &shape, keys[k], 4); /* a number */
                measure("incr", incr, &shape);
                end();
        }
        measure_kept(&shape, 16, 64);
        return 0;
}
