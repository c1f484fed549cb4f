/*
 * All calls of the public interface, by chance, beside a model in plain memory (any.h): on buses
 * from the smallest one on, most of them full, with keys and values of each length at which
 * something changes.
 *
 * Buses are closed and opened again, with all that is open on them; of a segment of this process
 * they are left to the reaper as by a killed process; of an agentd the engine is killed, and goes
 * on; where it has a log, all of it is killed, too, behind a flush, and has to know all that it
 * knew. One thread does it all, and where there is no agentd its clock is the test's own: a seed
 * gives the same again.
 *
 * Arguments: none. SB_SEED: the first seed; SB_RUNS: how many.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "libclient/core/fd.h"
#include "ring/op/mark.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/memory/guard.h"
#include "shm/mvcc/evict.h"
#include "shm/upkeep/reap.h"
#include "tests/api/any.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

#define KIB       (UINT64_C(1) << 10)
#define SECOND_NS UINT64_C(1000000000)
#define RUNS      80u
#define STEPS     2500u
#define CLIENTS   9u
#define BEGUN_NS  (UINT64_C(1) << 60) /* the clock's beginning: years from now */

static struct world world;
static _Thread_local bool is_test; /* this is the test's thread */

/* The clock of a segment of this process stands still, but for what steps let pass. A thread that
 * waits behind a descriptor has one of its own, which stands still for ever. */
static uint64_t tell_ns(void *context)
{
        uint64_t now;

        (void)context;
        if (!is_test)
                return BEGUN_NS;
        /* Not with each look: what looks twice, for how long it took, has to come to an end. */
        if (any.hurries && ++any.looks % 16 == 0)
                any.time_ns += SECOND_NS;
        now = any.time_ns;
        any_look();
        return now;
}

static void pass_ns(void *context, uint64_t ns)
{
        (void)context;
        any.time_ns += ns;
}

static int sleep_on(void *context, struct sb_word32 *word, uint32_t expected, uint64_t deadline_ns)
{
        if (!is_test)
                return sb_os_linux.wait(context, word, expected, deadline_ns);
        return any_sleep(word, expected, deadline_ns);
}

static void stop_clock(void)
{
        static struct sb_os os;

        os = sb_os_linux;
        os.now_ns = os.realtime_ns = tell_ns;
        os.pause = pass_ns;
        os.wait = sleep_on;
        world.segment.os = world.engine->segment.os = &os;
        any.time_ns = BEGUN_NS;
}

void any_tick(void)
{
        if (any.time_ns != 0)
                pass_ns(NULL,
                        any_one_in(50) ? any_below(3600 * SECOND_NS) : any_below(SECOND_NS / 50));
        world_tick(&world);
}

static void prune(void)
{
        if (!world.remote || any_one_in(20))
                world_prune(&world, any.bus[any_bus()]);
}

static void check_sound(void)
{
        ANY_CHECK(world_sound(&world, any.bus[any_bus()]), "the bus is not sound");
}

/* What waits behind a killed process's descriptor ends with it, and it is said to sleep still. */
static void end_fd_as_killed(struct sb_bus *bus)
{
        struct sb_word64 *sleeps = &bus->handle.record->sleeps;
        uint64_t said = sb_load_relaxed(sleeps); /* Relaxed, both: this thread's own. */

        sb_fd_end(bus, false);
        sb_store_relaxed(sleeps, said);
}

/* A bus is closed, or @dies, and another one takes its place. One that dies is closed as by a
 * forked child: its private memory is given back, and nothing in the segment is. */
static void replace(uint32_t bus, bool dies)
{
        struct sb_bus *old = any.bus[bus];
        uint32_t slot = old->handle.slot, generation = old->handle.generation;

        if (dies) {
                end_fd_as_killed(old);
                /* Relaxed: private memory, which fork() would have set to 0. */
                sb_store_relaxed((struct sb_word32 *)old->alive, 0);
        }
        sb_close(old);
        any_fd_end(bus);
        any_scans_end(bus, ANY_CLOSED);
        any_walks_end(bus);
        any_txns_end(bus, ANY_CLOSED);
        any_watches_end(bus, ANY_CLOSED);
        any_guards_end(old);
        if (dies)
                sb_reap_record(world.engine, slot, generation);
        any.bus[bus] = world_bus(&world);
        ANY_CHECK(any.bus[bus], "no bus can be opened");
}

static void reopen(void)
{
        replace(any_bus(), !world.remote && any_one_in(2));
}

/* All of an agentd dies, and what was flushed comes back: what is kept of the past, too. */
static void restart(void)
{
        if (!world_has_log() || !any_one_in(2))
                return;
        ANY_CHECK(sb_flush(any.bus[any_bus()], SB_FOREVER) == 0, "a flush");
        ANY_CHECK(world_restart(&world, any.bus[0]), "no agentd starts again");
        for (uint32_t i = 0; i < ANY_BUSES; i++)
                any_must_show(i, "it is detached");
        for (uint32_t i = 0; i < ANY_BUSES; i++)
                replace(i, false);
        any.value_len_max = any.bus[0]->handle.segment.value_len_max;
        check_sound();
        any_scan_whole();
}

/* An operator takes a client's cuts away. */
static void evict(void)
{
        uint32_t bus = any_bus(), slot = any.bus[bus]->handle.slot, count;

        if (world.remote)
                ANY_CHECK(sb_admin_evict(world.directory, slot, 0, false, &count) == 0, "evict");
        else
                sb_evict_client(world.engine, slot, UINT64_MAX);
        any_scans_lose(bus);
        any_txns_lose(bus);
        any_watches_lose(bus);
}

static void kill_engine(void)
{
        struct sb_admin_stat stat;

        if (world.remote && sb_admin_stat(any.bus[any_bus()], &stat) == 0 && stat.engine_pid != 0)
                kill((pid_t)stat.engine_pid, SIGKILL);
}

/* Watches keep memory, which others are to have: half of the runs have some. */
static bool has_watches(void)
{
        return any.seed / 10 % 2;
}

static void watch_open(void)
{
        /* Where the clock is a real one, a watch that finds no memory waits for a second. */
        if (has_watches() && (any.time_ns != 0 || any_one_in(10)))
                any_watch_open();
}

static void wait_until(void)
{
        if (has_watches() && (any.time_ns != 0 || any_one_in(10)))
                any_wait_until();
}

static void interrupt(void)
{
        if (has_watches())
                any_interrupt();
}

static void make_fd(void)
{
        if (has_watches())
                any_fd();
}

/* What is done, and how often in so many steps. */
static const struct {
        void (*run)(void);
        uint32_t weight;
} parts[] = {{any_set, 280}, {any_cas, 100}, {any_delete, 160}, {any_number, 80}, {any_append, 40},
        {any_get, 60}, {any_get_at, 160}, {any_get_many, 60}, {any_take_cut, 60}, {any_cut_at, 40},
        {any_scan_open, 120}, {any_scan_step, 500}, {any_scan_many, 80}, {any_scan_seek, 120},
        {any_scan_whole, 20}, {any_txn_begin, 100}, {any_txn_set, 200}, {any_txn_delete, 100},
        {any_txn_get, 120}, {any_txn_commit, 120}, {any_delete_range, 40}, {any_restore, 40},
        {any_mark, 60}, {any_keep, 40}, {any_walk, 100}, {any_walk_whole, 60}, {any_tick, 120},
        {prune, 40}, {check_sound, 4}, {reopen, 5}, {kill_engine, 4}, {restart, 4}, {evict, 6},
        {any_txn_lost, 30}, {watch_open, 60}, {any_watch_next, 240}, {any_watch_scan, 60},
        {any_wait, 120}, {wait_until, 60}, {interrupt, 20}, {make_fd, 6}, {any_fd_look, 120},
        {any_fd_turn, 120}};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static void make_names(void)
{
        uint32_t len_max = sb_op_mark_name_max(&any.bus[0]->handle);

        for (uint32_t i = 0; i < ANY_MARKS; i++) {
                struct any_mark *mark = &any.mark[i];

                mark->len = i == 0 ? 1 : i == 1 ? len_max : 2 + (uint32_t)any_below(len_max - 1);
                for (uint32_t j = 0; j < mark->len; j++)
                        mark->name[j] = (unsigned char)any_below(256);
                mark->name[0] = (unsigned char)('A' + i);
        }
}

/* Between two calls no client is pinned, so an idle one keeps no memory that was let go. */
static void check_no_pins(void)
{
        for (uint32_t i = 0; i < ANY_BUSES; i++)
                ANY_CHECK(sb_load_relaxed(&any.bus[i]->handle.record->pin) == 0,
                        "an idle client is pinned");
}

/* One step, whichever chance says. */
static void do_any(void)
{
        uint64_t total = 0, at;
        uint32_t i;

        for (i = 0; i < PARTS; i++)
                total += parts[i].weight;
        at = any_below(total);
        for (i = 0; at >= parts[i].weight; i++)
                at -= parts[i].weight;
        parts[i].run();
        check_no_pins();
}

/* Return: NULL, or why this machine cannot have such a bus. */
static const char *begin(uint64_t seed, uint64_t size)
{
        const char *why = world_open(&world, size, CLIENTS);

        any = (struct any){.seed = seed, .random = seed};
        if (!why && !world.remote)
                stop_clock();
        /* An agentd has its own limit. */
        if (!why && !world.remote && any_one_in(2))
                sb_store_release(&world.segment.super->history_limit, size / (4 << any_below(3)));
        for (uint32_t i = 0; !why && i < ANY_BUSES; i++) {
                any.bus[i] = world_bus(&world);
                ANY_CHECK(any.bus[i], "no bus can be opened");
        }
        if (why)
                return why;
        any.value_len_max = any.bus[0]->handle.segment.value_len_max;
        any.key_len_max = any.bus[0]->handle.segment.key_len_max;
        any_make_keys();
        make_names();
        return NULL;
}

/* Whether a bus on which nothing is open holds nothing, and has all guard words to give. */
static bool holds_nothing(const struct sb_bus *bus)
{
        const struct sb_handle *handle = &bus->handle;

        for (uint32_t i = 0; i < bus->guard_count; i++)
                if (sb_guard_read(&handle->segment, handle->record, i) != 0)
                        return false;
        /* Guard word 0 may stand apart (libclient/core/bus.h). */
        return bus->guard_free_count + 1 >= bus->guard_count;
}

static void end(void)
{
        any_scan_whole();
        for (uint32_t i = 0; i < ANY_BUSES; i++) {
                any_scans_end(i, ANY_OPEN);
                any_walks_end(i);
                any_txns_end(i, ANY_OPEN);
                any_watches_end(i, ANY_OPEN);
        }
        any_release_all();
        check_sound();
        for (uint32_t i = 0; i < ANY_BUSES; i++) {
                ANY_CHECK(holds_nothing(any.bus[i]), "a bus holds something still");
                any.bus[i] = sb_close(any.bus[i]);
                any_fd_end(i);
        }
        any_forget();
        ANY_CHECK(world_close(&world), "the bus is not sound at its end");
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
        const char *text = getenv(name);

        return text ? strtoull(text, NULL, 0) : otherwise;
}

static void test_each_call_says_what_a_model_says_on_buses_of_each_size(void)
{
        static const uint64_t sizes[] = {128 * KIB, 160 * KIB, 192 * KIB, 256 * KIB, 384 * KIB,
                512 * KIB, 1024 * KIB, 2048 * KIB, 4096 * KIB, 16384 * KIB};
        uint64_t seed = number_of("SB_SEED", 1), runs = number_of("SB_RUNS", RUNS), full = 0,
                 lapped = 0, known = 0, conflicts = 0, changes = 0, behind = 0, scans = 0,
                 slept = 0, shown = 0, rested = 0;
        const char *why;

        any_test = test_state.name;
        for (uint64_t i = 0; i < runs; i++) {
                why = begin(seed + i, sizes[(seed + i) % 10]);
                if (why)
                        TEST_SKIP(why);
                for (any.step = 1; any.step <= STEPS; any.step++)
                        do_any();
                end();
                full += any.full;
                lapped += any.lapped;
                known += any.known;
                conflicts += any.conflicts;
                changes += any.watched;
                behind += any.watch_lapped;
                scans += any.watch_scans;
                slept += any.slept;
                shown += any.shown;
                rested += any.rested;
        }
        TEST_NOTE("seeds %llu to %llu: %llu conflicts; no room %llu times, not known %llu times, "
                  "known for a mark or a rule %llu times; watches gave %llu changes, were lapped "
                  "%llu times, and scanned at %llu times; calls slept %llu times; descriptors "
                  "showed %llu times, and rested %llu times",
                (unsigned long long)seed, (unsigned long long)(seed + runs - 1),
                (unsigned long long)conflicts, (unsigned long long)full, (unsigned long long)lapped,
                (unsigned long long)known, (unsigned long long)changes, (unsigned long long)behind,
                (unsigned long long)scans, (unsigned long long)slept, (unsigned long long)shown,
                (unsigned long long)rested);
        CHECK(runs < 20 || (changes > 0 && scans > 0 && shown > 0 && rested > 0));
        CHECK(runs < RUNS || (behind > 0 && (world.remote || slept > 0)));
        CHECK(runs < 10 || (conflicts > 0 && lapped > 0 && known > 0));
        /* A bus that an engine looks after is rarely full: ten runs beside one may meet none. */
        CHECK(runs < RUNS || full > 0);
}

int main(int argc, char **argv)
{
        is_test = true;
        fault_from_environment();
        test_begin(argc, argv);
        RUN(test_each_call_says_what_a_model_says_on_buses_of_each_size);
        return test_end();
}
