/*
 * Units in a row under churn: what a value that needs several of them can count on. The mix of the
 * soak, in one process and without a pause, so that an hour of the soak passes in minutes.
 *
 * How it works: four clients take turns at batches of work, and the engine of the world ticks in
 * between. Now and then a client is left as by a kill, and reaped; some cuts stay open for long, as
 * those of halted readers do: they make the peaks. After each few batches the units are looked at:
 * how many are free, and how long the longest run of them is. A write that finds no memory is tried
 * again at each of its client's turns, with a slice of a sweep, for as many batches as the soak
 * does in a second.
 *
 * Always true: one process and one seed, so the same program does the same again. What is judged is
 * a bus that is never full; of the other one the table is for people.
 * Arguments: none. SB_BATCHES, SB_KEYS, SB_PACE (of the soak's), SB_CUTS (long ones in 10,000
 * scans), SB_SEED: of the table.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/unit.h"
#include "shm/memory/window.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/work.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"
#include "tests/storm/random.h"
#include "tests/storm/soak-worker.h"

#define SIZE          (16u << 20)
#define OPERATIONS    20u   /* of a batch */
#define SECOND        780u  /* batches that the soak does in one, without those of reads alone */
#define SCAN_BATCHES  8u    /* a cut is open for so long, at the soak's pace */
#define LONG_BATCHES  546u  /* at most, when its holder is halted */
#define KILL_BATCHES  1733u /* between two kills, on the average */
#define LOOK_BATCHES  50u
#define SHARES        8u /* of free units: 4 % each, the last one is for all above */
#define SHARE_PERCENT 4u

static const uint32_t row_lengths[] = {2, 3, 4, 6, 8, 16, 32};
#define ROWS (sizeof(row_lengths) / sizeof(*row_lengths))

/* A client, and the write that it waits for. */
static struct seat {
        struct sb_bus *bus;
        struct sb_scan *scan;
        uint64_t scan_end, wait_end; /* batches; wait_end 0: it waits for nothing */
        enum soak_kind kind;
        uint32_t left; /* operations of its batch */
        char key[48];
        size_t len;
        uint32_t grows; /* the key that begins a life with this write, or SOAK_NO_KEY */
        bool once;      /* it is deleted behind it */
} seats[SOAK_WORKERS];

static struct world world;
static uint64_t state, now, end_of_fill;
static uint32_t keys, life[SOAK_KEYS];
static uint64_t pace, cuts;
static struct {
        uint64_t moments[SHARES], missing[SHARES][ROWS], larges, refused, failed, tries, moved,
                wrong;
        uint32_t least_row, least_free;
} seen;

/* ---- looking ---- */

static void look(void)
{
        const struct sb_segment *segment = &world.segment;
        uint32_t count = segment->geometry.unit_count - segment->geometry.reserve_count, row = 0,
                 longest = 0, unused = 0, share;

        for (uint32_t unit = 0; unit < count; unit++) {
                enum sb_unit_kind kind = SB_UNIT_KIND(sb_unit_word(segment, unit));

                row = kind == SB_UNIT_FREE || kind == SB_UNIT_EMPTY ? row + 1 : 0;
                unused += row > 0;
                longest = row > longest ? row : longest;
        }
        share = unused * 100 / count / SHARE_PERCENT;
        share = share < SHARES ? share : SHARES - 1;
        seen.moments[share]++;
        for (uint32_t i = 0; i < ROWS; i++)
                seen.missing[share][i] += longest < row_lengths[i];
        seen.least_row = longest < seen.least_row ? longest : seen.least_row;
        seen.least_free = unused < seen.least_free ? unused : seen.least_free;
}

/* ---- working ---- */

/* @r is one of the results that a working client meets. */
static bool is_met(int r)
{
        bool met = r == 0 || r == SB_E_FULL || r == SB_E_NOT_FOUND || r == SB_E_CONFLICT ||
                   r == SB_E_LAPPED;

        seen.wrong += !met;
        return met;
}

static int try_write(struct seat *seat)
{
        static const unsigned char bytes[24000];
        struct sb_write how = {.size = sizeof(how), .deadline_ns = 1};
        int r = sb_set(seat->bus, b(seat->key), (struct sb_bytes){bytes, seat->len}, &how, NULL);

        is_met(r);
        if (r == SB_E_FULL)
                return r;
        if (seat->grows != SOAK_NO_KEY)
                life[seat->grows]++;
        if (seat->once)
                is_met(sb_delete(seat->bus, b(seat->key), SB_ANY_REV, NULL, NULL));
        return r;
}

/* Write the seat's key, with a value of a length that is drawn. */
static void write_key(struct seat *seat, uint64_t random, uint32_t grows, bool once)
{
        bool large;

        seat->len = soak_value(random).len;
        seat->grows = grows;
        seat->once = once;
        large = seat->len > world.segment.geometry.unit_size;
        seen.larges += large;
        if (try_write(seat) == SB_E_FULL) {
                seen.refused += large;
                seat->wait_end = now + SECOND * pace;
                sb_window_begin(&seat->bus->handle);
        }
}

static void write_again(struct seat *seat)
{
        sb_work_slice(&seat->bus->handle);
        seen.tries++;
        if (try_write(seat) != SB_E_FULL) {
                seat->wait_end = 0;
        } else if (now >= seat->wait_end) {
                seen.failed += seat->len > world.segment.geometry.unit_size;
                seat->wait_end = 0;
        }
        if (!seat->wait_end) {
                seen.moved += seat->bus->handle.counters.moved;
                seat->bus->handle.counters.moved = 0;
                sb_window_end(&seat->bus->handle);
        }
}

/* A key of this client's. */
static uint32_t draw_key(uint32_t number)
{
        return (uint32_t)(storm_random(&state) % (keys / SOAK_WORKERS)) * SOAK_WORKERS + number;
}

/* Short values alone: this write would wait for a large one in its call, while no other client gets
 * on. */
static void commit(struct seat *seat, uint32_t number)
{
        struct sb_write how = {.size = sizeof(how), .deadline_ns = 1};
        struct sb_txn *txn;
        char text[48];

        if (sb_txn_begin(seat->bus, SB_SNAPSHOT, &txn))
                return;
        for (uint32_t i = 0; i < 4; i++) {
                uint32_t key = draw_key(number);

                is_met(sb_txn_set(txn, soak_key(key, life[key], text), b("commit")));
        }
        is_met(sb_txn_commit(txn, &how));
        sb_txn_end(txn);
}

static void scan(struct seat *seat)
{
        bool halted = storm_random(&state) % 10000 < cuts;

        if (seat->scan || sb_scan_open(seat->bus, NULL, b("soak/"), &seat->scan))
                return;
        seat->scan_end =
                now + pace * (halted ? 1 + storm_random(&state) % LONG_BATCHES : SCAN_BATCHES);
}

static void mark(struct seat *seat, uint32_t number)
{
        uint64_t cut;
        char name[32];

        snprintf(name, sizeof(name), "soak-%u", number);
        is_met(sb_mark_drop(seat->bus, b(name)));
        is_met(sb_mark(seat->bus, b(name), &cut));
}

static void write_ruled(struct seat *seat, uint32_t number, uint64_t random)
{
        bool once = random & 1;

        if (once)
                snprintf(seat->key, sizeof(seat->key), "rule/%u/once/%016" PRIx64, number, random);
        else
                snprintf(seat->key, sizeof(seat->key), "rule/%u/%u", number,
                        (uint32_t)(random >> 1) % SOAK_RULED);
        write_key(seat, random >> 8, SOAK_NO_KEY, once);
}

static void operate(struct seat *seat, uint32_t number)
{
        uint64_t random = storm_random(&state);
        uint32_t key = draw_key(number);

        switch (seat->kind) {
        case SOAK_TURNOVER:
                is_met(sb_delete(
                        seat->bus, soak_key(key, life[key], seat->key), SB_ANY_REV, NULL, NULL));
                soak_key(key, life[key] + 1, seat->key);
                write_key(seat, random, key, false);
                break;
        case SOAK_SET:
                soak_key(key, life[key], seat->key);
                write_key(seat, random, SOAK_NO_KEY, false);
                break;
        case SOAK_COMMIT:
                commit(seat, number);
                break;
        case SOAK_RULED_KEY:
                write_ruled(seat, number, random);
                break;
        case SOAK_SCAN:
                scan(seat);
                break;
        default:
                mark(seat, number);
                break;
        }
}

static enum soak_kind draw_kind(void)
{
        /* As in the soak; reads need no memory. */
        static const struct {
                enum soak_kind kind;
                uint32_t parts, parts_filling;
        } kinds[] = {{SOAK_TURNOVER, 200, 150}, {SOAK_SET, 100, 50}, {SOAK_COMMIT, 45, 45},
                {SOAK_RULED_KEY, 3, 203}, {SOAK_SCAN, 20, 20}, {SOAK_MARK, 20, 20}};
        uint32_t part = (uint32_t)(storm_random(&state) % (end_of_fill ? 388 : 488)), i = 0, parts;

        while (part >= (parts = end_of_fill ? kinds[i].parts : kinds[i].parts_filling)) {
                part -= parts;
                i++;
        }
        return kinds[i].kind;
}

static void take_turn(uint32_t number)
{
        struct seat *seat = &seats[number];

        if (seat->scan && now >= seat->scan_end)
                seat->scan = sb_scan_close(seat->scan);
        if (seat->wait_end) {
                write_again(seat);
                return;
        }
        if (!seat->left) {
                seat->kind = draw_kind();
                seat->left = seat->kind == SOAK_SCAN || seat->kind == SOAK_MARK ? 1
                             : seat->kind == SOAK_RULED_KEY                     ? 2 * OPERATIONS
                                                                                : OPERATIONS;
        }
        for (; seat->left && !seat->wait_end; seat->left--)
                operate(seat, number);
}

/* A client is gone between two calls, with all that its lists held, and the engine reaps it. */
static bool kill_one(struct seat *seat)
{
        struct sb_handle *handle = &seat->bus->handle;

        sb_reap_record(world.engine, handle->slot, handle->generation);
        *seat = (struct seat){.bus = world_bus(&world), .grows = SOAK_NO_KEY};
        return seat->bus;
}

static bool churn(uint64_t batches)
{
        const struct sb_superblock *super = world.segment.super;

        for (now = 1; now <= batches; now++) {
                take_turn((uint32_t)(now % SOAK_WORKERS));
                if (now % 4 == 0)
                        world_tick(&world);
                if (storm_random(&state) % (KILL_BATCHES * pace) == 0 &&
                        !kill_one(&seats[storm_random(&state) % SOAK_WORKERS]))
                        return false;
                /* Relaxed: one thread. History has reached its limit. */
                if (!end_of_fill && sb_load_relaxed(&super->history_floor))
                        end_of_fill = now;
                if (end_of_fill && now % LOOK_BATCHES == 0)
                        look();
        }
        return end_of_fill;
}

/* ---- tests ---- */

/* Churn on a new bus. Return: whether it could be made and filled, and ended soundly. */
static bool work(uint32_t key_count, uint64_t batches)
{
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 4};
        bool good = true;
        char text[48];

        memset(&seen, 0, sizeof(seen));
        memset(seats, 0, sizeof(seats));
        memset(life, 0, sizeof(life));
        seen.least_row = seen.least_free = UINT32_MAX;
        keys = key_count;
        end_of_fill = 0;
        if (world_open(&world, SIZE, 16))
                return false;
        /* R:sweep. A quarter of the bus, as agentd sets it. */
        sb_store_release(&world.segment.super->history_limit, SIZE / 4);
        for (uint32_t i = 0; i < SOAK_WORKERS; i++)
                good = (seats[i].bus = world_bus(&world)) && good;
        good = good && sb_keep(seats[0].bus, b("rule/"), SB_PREFIX, &rule) == 0;
        for (uint32_t key = 0; good && key < keys; key++)
                good = sb_set(seats[0].bus, soak_key(key, 0, text),
                               soak_value(storm_random(&state)), NULL, NULL) == 0;
        good = good && churn(batches);
        for (uint32_t i = 0; i < SOAK_WORKERS; i++) {
                sb_scan_close(seats[i].scan);
                seats[i].bus = sb_close(seats[i].bus);
        }
        return world_close(&world) && good;
}

static void test_a_bus_that_is_never_full_keeps_what_is_above_its_use_in_one_run(void)
{
        state = 1;
        pace = 1;
        cuts = 12;
        CHECK(work(8000, 60000));
        CHECK_EQ(seen.wrong, 0);
        CHECK_EQ(seen.refused, 0);
        /* Two thirds of what was free when least was. */
        CHECK(seen.least_row > seen.least_free / 3 * 2);
        TEST_NOTE("runs: 8000 keys: at least %u units were free, and %u of them in a row",
                seen.least_free, seen.least_row);
}

static void test_what_a_large_value_can_count_on_behind_peaks(void)
{
        char line[128];

        state = soak_number("SB_SEED", 1);
        pace = soak_number("SB_PACE", 4);
        cuts = soak_number("SB_CUTS", 48);
        CHECK(work((uint32_t)soak_number("SB_KEYS", SOAK_KEYS), soak_number("SB_BATCHES", 60000)));
        CHECK_EQ(seen.wrong, 0);
        CHECK(seen.larges > 0);
        TEST_NOTE("runs: %" PRIu64 " large values, %" PRIu64 " refused at first, %" PRIu64
                  " still after a second; %" PRIu64 " further tries, %" PRIu64 " versions moved",
                seen.larges, seen.refused, seen.failed, seen.tries, seen.moved);
        for (uint32_t share = 0; share < SHARES; share++) {
                int at = snprintf(line, sizeof(line),
                        "runs: from %2u %% free units on, %5" PRIu64 " moments, of which without",
                        share * SHARE_PERCENT, seen.moments[share]);

                for (uint32_t i = 0; seen.moments[share] && i < ROWS; i++)
                        at += snprintf(line + at, sizeof(line) - (size_t)at, " %u: %.1f%%",
                                row_lengths[i],
                                100.0 * (double)seen.missing[share][i] /
                                        (double)seen.moments[share]);
                if (seen.moments[share])
                        TEST_NOTE("%s", line);
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_bus_that_is_never_full_keeps_what_is_above_its_use_in_one_run);
        RUN(test_what_a_large_value_can_count_on_behind_peaks);
        return test_end();
}
