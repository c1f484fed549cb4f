/* A worker of storm-keys; see keys-worker.h. */
#include "tests/storm/keys-worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ring/op/get.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/result.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/handle.h"
#include "tests/harness/space.h"

#define VALUE_MAX 3000u

struct keys_table *keys_table;

struct worker {
        struct sb_handle handle;
        struct keys_seat *seat;
        uint64_t random;
        uint64_t least_rev[KEYS_COUNTERS]; /* revisions of a key never go back */
        struct sb_version *held;
        unsigned char held_copy[VALUE_MAX + 64];
        size_t held_len;
};

void keys_complain(const char *format, ...)
{
        va_list arguments;

        if (__atomic_exchange_n(&keys_table->complained, true, __ATOMIC_SEQ_CST))
                return;
        va_start(arguments, format);
        vsnprintf(keys_table->complaint, sizeof(keys_table->complaint), format, arguments);
        va_end(arguments);
}

uint32_t keys_counter_key(uint32_t counter, char *ret)
{
        return (uint32_t)sprintf(ret, "counter/%u", counter);
}
uint32_t keys_churn_key(uint32_t number, char *ret)
{
        return (uint32_t)sprintf(
                ret, "churn/%u/%.*s", number, (int)(number % 20), "xxxxxxxxxxxxxxxxxxxx");
}

const unsigned char *keys_value_of(const struct sb_version *version, uint64_t *ret_len)
{
        *ret_len = SB_SHAPE_VALUE_LEN(version->shape);
        return version->bytes + SB_SHAPE_KEY_LEN(version->shape);
}

/* Fill a churn value: a length, then bytes that follow from it and from the key's number. */
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

/* What a write may say; a delete finds no key where another one was faster. */
static void take_result(struct worker *w, const struct sb_op_write *write, int r)
{
        w->seat->full += r == SB_E_FULL;
        w->seat->conflicts += r == SB_E_CONFLICT;
        if (r != 0 && r != SB_E_FULL &&
                (r != SB_E_CONFLICT || write->expected_rev == SB_OP_ANY_REV) &&
                (r != SB_E_NOT_FOUND || write->kind != SB_VERSION_DELETED))
                keys_complain("a write of %.*s said %d", (int)write->key_len,
                        (const char *)write->key, r);
}

static void increment(struct worker *w)
{
        uint32_t counter = storm_random(&w->random) % KEYS_COUNTERS;
        char key[64];
        struct sb_op_write write = {.key = key,
                .key_len = keys_counter_key(counter, key),
                .kind = SB_VERSION_VALUE,
                .value_len = 8};
        struct sb_version *version;
        struct sb_op_result result = {0};
        uint64_t value = 0, len;
        int r = sb_op_get(&w->handle, key, write.key_len, 0, &version);

        if (r == 0) {
                if (keys_value_of(version, &len), len != 8)
                        keys_complain("a counter has %llu bytes", (unsigned long long)len);
                memcpy(&value, keys_value_of(version, &len), 8);
                write.expected_rev = version->rev;
                sb_guard_set(&w->handle, 0, 0);
                if (write.expected_rev < w->least_rev[counter])
                        keys_complain("revision of a counter went back");
                w->least_rev[counter] = write.expected_rev;
        } else if (r != SB_E_NOT_FOUND || w->least_rev[counter]) {
                keys_complain("a get of counter %u said %d", counter, r);
        }
        value++;
        write.value = &value;
        __atomic_store_n(&w->seat->under_way, counter + 1, __ATOMIC_SEQ_CST);
        r = sb_op_write(&w->handle, &write, &result);
        if (r == 0)
                __atomic_fetch_add(&keys_table->acknowledged[counter], 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&w->seat->under_way, 0, __ATOMIC_SEQ_CST);
        take_result(w, &write, r);
        if (r == 0 && write.expected_rev && result.rev != write.expected_rev + 1)
                keys_complain("cas at %llu gave revision %llu",
                        (unsigned long long)write.expected_rev, (unsigned long long)result.rev);
}

static void churn_set(struct worker *w)
{
        unsigned char value[VALUE_MAX];
        uint32_t number = storm_random(&w->random) % KEYS_CHURN;
        uint32_t len = storm_random(&w->random) % 16 ? storm_random(&w->random) % 200
                                                     : storm_random(&w->random) % VALUE_MAX;
        char key[64];
        struct sb_op_write write = {.key = key,
                .key_len = keys_churn_key(number, key),
                .kind = SB_VERSION_VALUE,
                .value = value,
                .value_len = len,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        fill(value, len, number);
        take_result(w, &write, sb_op_write(&w->handle, &write, &result));
}

static void churn_delete(struct worker *w)
{
        char key[64];
        struct sb_op_write write = {.key = key,
                .key_len = keys_churn_key(storm_random(&w->random) % KEYS_CHURN, key),
                .kind = SB_VERSION_DELETED,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        take_result(w, &write, sb_op_write(&w->handle, &write, &result));
}

static void churn_get(struct worker *w)
{
        uint32_t number = storm_random(&w->random) % KEYS_CHURN;
        char key[64];
        uint32_t key_len = keys_churn_key(number, key);
        struct sb_version *version;
        uint64_t len;
        int r = sb_op_get(&w->handle, key, key_len, 0, &version);

        if (r == SB_E_NOT_FOUND)
                return;
        if (r) {
                keys_complain("a get of key %u said %d", number, r);
                return;
        }
        w->seat->found++;
        if (SB_SHAPE_KEY_LEN(version->shape) != key_len ||
                memcmp(version->bytes, key, key_len) != 0 ||
                !filled_right(
                        keys_value_of(version, &len), SB_SHAPE_VALUE_LEN(version->shape), number))
                keys_complain("key %u has a wrong value", number);
        sb_guard_set(&w->handle, 0, 0);
}

/* Hold a version over many operations; its bytes must not change. */
static void hold_or_let_go(struct worker *w)
{
        char key[64];
        uint64_t len;

        if (!w->held) {
                if (sb_op_get(&w->handle, key,
                            keys_churn_key(storm_random(&w->random) % KEYS_CHURN, key), 1,
                            &w->held)) {
                        w->held = NULL;
                        return;
                }
                keys_value_of(w->held, &len);
                w->held_len = SB_SHAPE_KEY_LEN(w->held->shape) + len;
                memcpy(w->held_copy, w->held->bytes, w->held_len);
                return;
        }
        if (memcmp(w->held_copy, w->held->bytes, w->held_len) != 0)
                keys_complain("a held version changed");
        w->held = NULL;
        w->seat->held++;
        sb_guard_set(&w->handle, 1, 0);
}

/* Add the version of a node at @cut to the sum of a walk. A tombstone and no version count the
 * same: a key may be removed between two walks. */
static uint64_t add_up(struct worker *w, struct sb_node *node, uint64_t cut, uint64_t sum)
{
        struct sb_version *version = sb_find_in_node(&w->handle, node, cut);

        if (!version || SB_SHAPE_KIND(version->shape) != SB_VERSION_VALUE)
                return sum;
        return sum * 31 + version->rev + SB_SHAPE_VALUE_LEN(version->shape) * 7 + node->key_len;
}

/* Walk over all keys at a cut; they must come in order. Return: a sum over the keys that have a
 * value there. */
static uint64_t walk(struct worker *w, uint64_t cut)
{
        struct sb_order_cursor cursor;
        struct sb_node *node;
        char last[SB_KEY_LEN_MAX];
        uint32_t last_len = 0;
        uint64_t sum = 0;

        sb_pin(&w->handle);
        node = sb_order_first(&w->handle, "", 0, false, &cursor);
        while (node) {
                const char *key = (const char *)node->key;
                uint32_t len = node->key_len, shorter = len < last_len ? len : last_len;
                int order = memcmp(last, key, shorter);

                if (len > sizeof(last) || order > 0 || (order == 0 && last_len >= len)) {
                        keys_complain("a scan is out of order: %.*s after %.*s", (int)len, key,
                                (int)last_len, last);
                        break;
                }
                memcpy(last, key, len);
                last_len = len;
                sum = add_up(w, node, cut, sum);
                node = sb_order_next(&w->handle, &cursor);
        }
        sb_unpin(&w->handle);
        return sum;
}

/* Walk over the same cut twice, with writes in between. */
static void scan(struct worker *w)
{
        uint32_t index;
        uint64_t cut, before;
        int r = sb_snapshot_open(&w->handle, &index, &cut);

        if (r) {
                keys_complain("opening a cut said %d", r);
                return;
        }
        before = walk(w, cut);
        increment(w);
        churn_set(w);
        churn_delete(w);
        if (walk(w, cut) != before)
                keys_complain("the same cut read twice differs");
        w->seat->scans += before != 0;
        sb_snapshot_close(&w->handle, index);
}

void keys_work(const struct sb_segment *segment, struct keys_seat *seat, uint64_t seed)
{
        static struct worker w;

        w.seat = seat;
        w.random = seed;
        sb_handle_init(&w.handle, segment, seat->slot, seat->generation, test_space(segment));
        if (sb_guard_grow(&w.handle, 1))
                keys_complain("no memory for a guard");
        while (!__atomic_load_n(&keys_table->stop, __ATOMIC_RELAXED) && !keys_table->complained) {
                uint64_t what = storm_random(&w.random) % 100;

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
                w.seat->operations++;
        }
        sb_handle_fini(&w.handle);
}
