/*
 * Real processes on one segment, ended by SIGKILL and halted by SIGSTOP at random moments, the engine among them.
 *
 * Workers count by compare and set, write and delete keys, hold guards, scan at cuts; an engine ticks, attaches and reaps. The test
 * process is everybody's parent: it kills, waits for the death that the kernel reports, tells the engine, and starts
 * another one. What workers were told lies in a table that outlives them, so at the end each counter must be exactly what was
 * acknowledged, plus at most the one increment that each killed worker had under way.
 *
 * Always true: a worker that sees something impossible writes it into the table and ends with status 1.
 * Arguments: none. SB_SEED, SB_SECONDS.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ring/op.h"
#include "shm/base/result.h"
#include "shm/check.h"
#include "shm/epoch.h"
#include "shm/reap.h"
#include "shm/slot.h"
#include "shm/snapshot.h"
#include "shm/walk.h"
#include "tests/harness/test.h"

#define WORKERS      6u
#define COUNTERS     4u
#define CHURN        40u
#define SIZE         (1u << 20)
#define SECONDS      12u
#define TICK_MS      2
#define VALUE_MAX    3000u
#define PLACES       (WORKERS + 1) /* the engine's place is the last */

enum { COMMAND_REAP = 'r', COMMAND_CLAIM = 'c', COMMAND_END = 'e' };

/* What outlives a process. A place's words are its holder's, the parent's after its death. */
struct place {
        uint32_t slot, generation;
        bool attached;
        pid_t pid;
        uint64_t under_way; /* counter + 1 while its increment may have happened and is not acknowledged */
        uint64_t operations, full, conflicts;
};

static struct table {
        struct place place[PLACES];
        uint64_t acknowledged[COUNTERS]; /* by atomic adds: many workers */
        uint64_t uncertain[COUNTERS];    /* the parent's */
        char complaint[256];
        bool complained, stop;
} *table;

static unsigned char *segment_base;
static uint64_t seed;
static int commands[2], replies[2];

/* ---- small things ---- */

static uint64_t next_random(uint64_t *state)
{
        uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

static uint64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void __attribute__((format(printf, 1, 2))) complain(const char *format, ...)
{
        va_list arguments;

        if (__atomic_exchange_n(&table->complained, true, __ATOMIC_SEQ_CST))
                return;
        va_start(arguments, format);
        vsnprintf(table->complaint, sizeof(table->complaint), format, arguments);
        va_end(arguments);
}

static struct sb_segment open_segment(void)
{
        struct sb_segment segment;

        if (sb_os_register() || sb_segment_open(segment_base, SIZE, &sb_os_linux, &segment))
                _exit(3);
        return segment;
}

/* ---- a worker ---- */

struct worker {
        struct sb_peer peer;
        struct place *place;
        uint64_t random;
        uint64_t least_rev[COUNTERS]; /* revisions of a key never go back */
        struct sb_version *held;
        unsigned char held_copy[VALUE_MAX + 64];
        size_t held_len;
};

static uint32_t counter_key(uint32_t counter, char *ret)
{
        return (uint32_t)sprintf(ret, "counter/%u", counter);
}
static uint32_t churn_key(uint32_t number, char *ret)
{
        return (uint32_t)sprintf(ret, "churn/%u/%.*s", number, (int)(number % 20), "xxxxxxxxxxxxxxxxxxxx");
}

static const unsigned char *value_of(const struct sb_version *version, uint64_t *ret_len)
{
        *ret_len = SB_SHAPE_VALUE_LEN(version->shape);
        return version->bytes + SB_SHAPE_KEY_LEN(version->shape);
}

/* A churn value: a length, then bytes that follow from it and from the key's number. */
static void fill(unsigned char *value, uint32_t len, uint32_t number)
{
        for (uint32_t i = 0; i < len; i++)
                value[i] = (unsigned char)(number * 31 + len + i * 7);
}

static bool filled_right(const unsigned char *value, uint64_t len, uint32_t number)
{
        for (uint64_t i = 0; i < len; i++)
                if (value[i] != (unsigned char)(number * 31 + len + i * 7))
                        return false;
        return true;
}

static void increment(struct worker *w)
{
        uint32_t counter = next_random(&w->random) % COUNTERS;
        char key[64];
        struct sb_op_write write = {.key = key, .key_len = counter_key(counter, key), .kind = SB_VERSION_VALUE, .value_len = 8};
        struct sb_version *version;
        struct sb_op_result result = {0};
        uint64_t value = 0, len;
        int r = sb_op_get(&w->peer, key, write.key_len, 0, &version);

        if (r == 0) {
                if (value_of(version, &len), len != 8)
                        complain("a counter has %llu bytes", (unsigned long long)len);
                memcpy(&value, value_of(version, &len), 8);
                write.expected_rev = version->rev;
                sb_guard_set(&w->peer, 0, 0);
                if (write.expected_rev < w->least_rev[counter])
                        complain("revision of a counter went back");
                w->least_rev[counter] = write.expected_rev;
        }
        value++;
        write.value = &value;
        __atomic_store_n(&w->place->under_way, counter + 1, __ATOMIC_SEQ_CST);
        r = sb_op_write(&w->peer, &write, &result);
        if (r == 0)
                __atomic_fetch_add(&table->acknowledged[counter], 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&w->place->under_way, 0, __ATOMIC_SEQ_CST);
        w->place->conflicts += r == SB_E_CONFLICT;
        w->place->full += r == SB_E_FULL;
        if (r == 0 && write.expected_rev && result.rev != write.expected_rev + 1)
                complain("cas at %llu gave revision %llu", (unsigned long long)write.expected_rev,
                        (unsigned long long)result.rev);
}

static void churn_set(struct worker *w)
{
        unsigned char value[VALUE_MAX];
        uint32_t number = next_random(&w->random) % CHURN;
        uint32_t len = next_random(&w->random) % 16 ? next_random(&w->random) % 200 : next_random(&w->random) % VALUE_MAX;
        char key[64];
        struct sb_op_write write = {.key = key, .key_len = churn_key(number, key), .kind = SB_VERSION_VALUE,
                .value = value, .value_len = len, .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        fill(value, len, number);
        w->place->full += sb_op_write(&w->peer, &write, &result) == SB_E_FULL;
}

static void churn_delete(struct worker *w)
{
        char key[64];
        struct sb_op_write write = {.key = key, .key_len = churn_key(next_random(&w->random) % CHURN, key),
                .kind = SB_VERSION_DELETED, .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        w->place->full += sb_op_write(&w->peer, &write, &result) == SB_E_FULL;
}

static void churn_get(struct worker *w)
{
        uint32_t number = next_random(&w->random) % CHURN;
        char key[64];
        uint32_t key_len = churn_key(number, key);
        struct sb_version *version;
        uint64_t len;

        if (sb_op_get(&w->peer, key, key_len, 0, &version))
                return;
        if (SB_SHAPE_KEY_LEN(version->shape) != key_len || memcmp(version->bytes, key, key_len) != 0 ||
                !filled_right(value_of(version, &len), SB_SHAPE_VALUE_LEN(version->shape), number))
                complain("key %u has a wrong value", number);
        sb_guard_set(&w->peer, 0, 0);
}

/* Hold a version over many operations; its bytes must not change. */
static void hold_or_let_go(struct worker *w)
{
        char key[64];
        uint64_t len;

        if (!w->held) {
                if (sb_op_get(&w->peer, key, churn_key(next_random(&w->random) % CHURN, key), 1, &w->held)) {
                        w->held = NULL;
                        return;
                }
                value_of(w->held, &len);
                w->held_len = SB_SHAPE_KEY_LEN(w->held->shape) + len;
                memcpy(w->held_copy, w->held->bytes, w->held_len);
                return;
        }
        if (memcmp(w->held_copy, w->held->bytes, w->held_len) != 0)
                complain("a held version changed");
        w->held = NULL;
        sb_guard_set(&w->peer, 1, 0);
}

/* One walk at a cut: in order, and the counters not behind what this worker saw before the cut. Returns a sum over all. */
static uint64_t walk(struct worker *w, uint64_t cut)
{
        struct sb_node *node;
        char last[1200];
        uint32_t last_len = 0;
        uint64_t sum = 0;
        bool gone = false;

        sb_pin(&w->peer);
        node = sb_walk_seek(&w->peer, "", 0, false);
        while (node) {
                const char *key = (const char *)&node->next[node->height];
                uint32_t len = node->key_len, shorter = len < last_len ? len : last_len;
                int order = memcmp(last, key, shorter);
                struct sb_version *version;

                if (order > 0 || (order == 0 && last_len >= len))
                        complain("a scan is out of order: %.*s after %.*s", (int)len, key, (int)last_len, last);
                memcpy(last, key, len);
                last_len = len;
                version = sb_walk_at(&w->peer, node, cut);
                if (version)
                        sum = sum * 31 + version->rev + SB_SHAPE_VALUE_LEN(version->shape) +
                                ((version->shape >> 12 & 31) + 1) * len;
                node = sb_walk_next(&w->peer, node, &gone);
                if (gone) {
                        sb_unpin(&w->peer);
                        sb_pin(&w->peer);
                        node = sb_walk_seek(&w->peer, last, last_len, true);
                        gone = false;
                }
        }
        sb_unpin(&w->peer);
        return sum;
}

static uint64_t walk_live(struct worker *w, uint64_t cut)
{
        /* A tombstone and no version are the same to a cut: a key may be removed between two walks. */
        struct sb_node *node;
        char last[1200];
        uint32_t last_len = 0;
        uint64_t sum = 0;
        bool gone = false;

        sb_pin(&w->peer);
        node = sb_walk_seek(&w->peer, "", 0, false);
        while (node) {
                struct sb_version *version = sb_walk_at(&w->peer, node, cut);

                last_len = node->key_len;
                memcpy(last, &node->next[node->height], last_len);
                if (version && SB_SHAPE_KIND(version->shape) == SB_VERSION_VALUE)
                        sum = sum * 31 + version->rev + SB_SHAPE_VALUE_LEN(version->shape) * 7 + last_len;
                node = sb_walk_next(&w->peer, node, &gone);
                if (gone) {
                        sb_unpin(&w->peer);
                        sb_pin(&w->peer);
                        node = sb_walk_seek(&w->peer, last, last_len, true);
                        gone = false;
                }
        }
        sb_unpin(&w->peer);
        return sum;
}

static void scan(struct worker *w)
{
        uint32_t index;
        uint64_t cut, before;

        if (sb_snapshot_open(&w->peer, &index, &cut))
                return;
        walk(w, cut);
        before = walk_live(w, cut);
        increment(w);
        churn_set(w);
        churn_delete(w);
        if (walk_live(w, cut) != before)
                complain("the same cut read twice differs");
        sb_snapshot_close(&w->peer, index);
}

static void work(uint32_t number)
{
        static struct worker w;
        struct sb_segment segment = open_segment();

        w.place = &table->place[number];
        w.random = seed * 1000 + (uint64_t)getpid();
        sb_peer_init(&w.peer, &segment, w.place->slot, w.place->generation);
        while (!__atomic_load_n(&table->stop, __ATOMIC_RELAXED) && !table->complained) {
                uint64_t what = next_random(&w.random) % 100;

                if (what < 30)
                        increment(&w);
                else if (what < 55)
                        churn_set(&w);
                else if (what < 70)
                        churn_delete(&w);
                else if (what < 90)
                        churn_get(&w);
                else if (what < 97)
                        hold_or_let_go(&w);
                else
                        scan(&w);
                w.place->operations++;
        }
        sb_peer_fini(&w.peer);
        _exit(table->complained);
}
