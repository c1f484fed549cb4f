/*
 * Large values on a bus in which small ones lie scattered: they find room, because versions move
 * out of their way (shm/upkeep/move.h), and no other client can tell.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "shm/base/os.h"
#include "shm/layout/block.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/memory/window.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB        (UINT64_C(1) << 20)
#define SPARE_EACH 50u
#define KEYS_MAX   140000u /* as many as the smallest keys that fit */
#define TINY       8u

static struct world world;
static struct sb_bus *bus;
static unsigned char bytes[16 << 20];
static struct {
        uint64_t rev;
        uint32_t len;
} keys[KEYS_MAX];
static unsigned key_count;
static unsigned less;           /* pages that the bus is smaller */
static struct sb_bus **growers; /* clients that write the larger values in turn; NULL: `bus` does */
static struct sb_bus *stopped;  /* once all keys are made, it is stopped under a pin; or NULL */

#define BEGIN() WORLD_BEGIN(16 * MIB - 4096 * (uint64_t)less)
#define END()   WORLD_END()

static struct sb_bytes key_of(unsigned i)
{
        static _Thread_local char text[16];

        snprintf(text, sizeof(text), "k%06u", i);
        return b(text);
}

static uint32_t unit_size(void)
{
        return bus->handle.segment.geometry.unit_size;
}

/* A value of so many bytes, which are all the same. */
static struct sb_bytes value_of(unsigned i, size_t len)
{
        memset(bytes, 'a' + (int)(i % 26), len);
        return (struct sb_bytes){bytes, len};
}

static int set_by(struct sb_bus *client, unsigned i, size_t len, uint64_t wait_ns)
{
        struct sb_write how = {.size = sizeof(how), .deadline_ns = now_ns() + wait_ns};
        uint64_t rev;
        int r = sb_set(client, key_of(i), value_of(i, len), &how, &rev);

        if (r == 0) {
                keys[i].rev = rev;
                keys[i].len = (uint32_t)len;
        }
        return r;
}

/* Of what has to be done: a process that gets no processor for a while has not failed. */
#define PATIENCE_NS UINT64_C(10000000000)

static int set(unsigned i, size_t len, uint64_t wait_ns)
{
        return set_by(bus, i, len, wait_ns);
}

static bool is_value(const struct sb_guard *guard, unsigned i)
{
        const unsigned char *at = guard->value.data;

        return guard->rev == keys[i].rev && guard->value.len == keys[i].len &&
               at[0] == 'a' + i % 26 && at[guard->value.len - 1] == 'a' + i % 26;
}

/* Whether all keys are what they were set to. */
static bool all_there(void)
{
        for (unsigned i = 0; i < key_count; i++) {
                struct sb_guard guard = {0};
                bool right = sb_get(bus, key_of(i), &guard) == 0 && is_value(&guard, i);

                sb_guard_release(&guard);
                if (!right)
                        return false;
        }
        return true;
}

/* Free units side by side. */
static uint32_t longest_run(void)
{
        const struct sb_segment *segment = &bus->handle.segment;
        uint32_t count = segment->geometry.unit_count - segment->geometry.reserve_count, row = 0,
                 longest = 0;

        for (uint32_t unit = 0; unit < count; unit++) {
                enum sb_unit_kind kind = SB_UNIT_KIND(sb_unit_word(segment, unit));

                row = kind == SB_UNIT_FREE || kind == SB_UNIT_EMPTY ? row + 1 : 0;
                longest = row > longest ? row : longest;
        }
        return longest;
}

/* Keys in between, which go when the bus is full: to write tiny values takes memory, too. */
static bool set_spare(unsigned number, bool there)
{
        char value[1000] = {0}, text[32];

        snprintf(text, sizeof(text), "spare/%u", number);
        return there ? sb_set(bus, b(text), (struct sb_bytes){value, sizeof(value)}, NULL, NULL) ==
                               0
                     : sb_delete(bus, b(text), SB_ANY_REV, NULL, NULL) == 0;
}

/* So many keys are made, with tiny values. Then they get values of several sizes, until the bus is
 * full, and most get tiny ones again: in each unit one or two of the others are left. */
static bool scatter(unsigned count)
{
        static const uint32_t lens[] = {200, 1200, 600, 1900, 350};
        unsigned grown = 0;

        for (key_count = 0; key_count < count; key_count++)
                if (set(key_count, TINY, 0) != 0)
                        return false;
        if (stopped)
                sb_pin(&stopped->handle);
        while (grown < count && (grown % SPARE_EACH || set_spare(grown / SPARE_EACH, true)) &&
                set_by(growers ? growers[grown % 100] : bus, grown, lens[grown / 16 % 5],
                        2000000) == 0)
                grown++;
        if (grown == count)
                return false;
        for (unsigned i = 0; i * SPARE_EACH < grown; i++)
                if (!set_spare(i, false))
                        return false;
        for (unsigned i = 0; i < grown; i++)
                if (i % 16 % (3000 / keys[i].len) != 0 && set(i, TINY, PATIENCE_NS) != 0)
                        return false;
        world_prune(&world, bus);
        return true;
}

/* With a deadline of a second, as every write has that names none. */
static void test_values_of_many_units_find_room_where_small_ones_lie_scattered(void)
{
        static const unsigned counts[] = {2, 3, 10, 64, 65, 300, 1000};

        BEGIN();
        CHECK(scatter(18000));
        CHECK(longest_run() < 5);
        for (unsigned i = 0; i < 7; i++) {
                struct sb_bytes value = value_of(i, (size_t)counts[i] * unit_size() - 200);

                CHECK_EQ(sb_set(bus, b("large"), value, NULL, NULL), 0);
                CHECK(all_there());
                CHECK_EQ(sb_delete(bus, b("large"), SB_ANY_REV, NULL, NULL), 0);
        }
        TEST_NOTE("%llu versions moved", (unsigned long long)bus->handle.counters.moved);
        CHECK(bus->handle.counters.moved > 1000);
        END();
}

/* Keys come with their values, so that slabs of nodes are taken in between. Nodes do not move. */
static void test_nodes_of_keys_lie_where_they_leave_rows(void)
{
        for (unsigned round = 0; round < 2; round++) {
                BEGIN();
                for (key_count = 0; set(key_count, round ? 1000 : 200, 2000000) == 0; key_count++)
                        ;
                for (unsigned i = 0; i < key_count; i++)
                        if (i % (round ? 4 : 20) != 0) {
                                CHECK_EQ(sb_delete(bus, key_of(i), SB_ANY_REV, NULL, NULL), 0);
                        }
                world_prune(&world, bus);
                CHECK_EQ(
                        sb_set(bus, b("large"), value_of(0, (size_t)150 * unit_size()), NULL, NULL),
                        0);
                END();
        }
}

/* What serves the first values must not be what the next ones take, as one window is found after
 * the other. */
static void commit_large(const unsigned counts[4])
{
        struct sb_txn *txn = NULL;
        struct sb_bytes value;

        BEGIN();
        CHECK(scatter(18000));
        CHECK(longest_run() < 5);
        CHECK_EQ(sb_txn_begin(bus, 0, &txn), 0);
        for (unsigned i = 0; i < 4 && counts[i]; i++) {
                value = value_of(i, (size_t)counts[i] * unit_size() - 200);
                CHECK_EQ(sb_txn_set(txn, key_of(i), value), 0);
                keys[i].rev++;
                keys[i].len = (uint32_t)value.len;
        }
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK(!sb_txn_end(txn));
        CHECK(all_there());
        END();
}

/* Of one size, and of several. */
static void test_a_commit_of_several_large_values_finds_room_for_all(void)
{
        static const unsigned counts[3][4] = {{100, 100}, {40, 150, 3}, {200, 20, 200, 20}};

        for (unsigned round = 0; round < 3; round++)
                commit_large(counts[round]);
}

/* Between two looks for a window the commit is tried, and takes blocks of its small values. On a
 * bus of some of these sizes they came out of a slab in the middle of the row that the next look
 * found: it did so until the deadline. */
static void test_what_a_commit_takes_at_its_tries_does_not_keep_it_from_a_window(void)
{
        static const unsigned sizes[] = {0, 1, 6, 8, 14, 16}, counts[4] = {100, 100};

        for (unsigned i = 0; i < 6; i++) {
                less = sizes[i];
                commit_large(counts);
        }
        less = 0;
}

/* ---- what others see ---- */

/* What a key was. */
struct past {
        uint64_t rev;
        size_t len;
        unsigned char first;
};
static struct past past_of(const struct sb_guard *guard)
{
        return (struct past){.rev = guard->rev,
                .len = guard->value.len,
                .first = guard->value.len ? *(const unsigned char *)guard->value.data : 0};
}
static bool is_same(const struct past *a, const struct past *b)
{
        return a->rev == b->rev && a->len == b->len && a->first == b->first;
}
static bool is_past(const struct sb_guard *guard, const struct past *past)
{
        struct past now = past_of(guard);

        return is_same(&now, past);
}

#define SEEN  100u /* keys that are read in a cut and under a mark */
#define HELD  20u  /* of them: a guard holds what they were */
#define RULED 100u /* keys under a rule */

/* The versions of a key that a rule keeps. Return: how many there are, at most 8. */
static unsigned list_history(unsigned i, uint32_t flags, struct past *ret)
{
        sb_auto(sb_history_closep) struct sb_history *walk = NULL;
        struct sb_guard guard = {0};
        unsigned count = 0;

        if (sb_history_open(bus, key_of(i), flags, &walk) != 0)
                return 0;
        while (count < 8) {
                int r = sb_history_next(walk, &guard, NULL);

                if (r == SB_E_LAPPED && count == 0 && (flags & SB_REVERSE))
                        continue;
                if (r != 0)
                        break;
                ret[count++] = past_of(&guard);
                sb_guard_release(&guard);
        }
        return count;
}

static void test_no_client_can_tell_that_versions_moved(void)
{
        static struct past seen[SEEN], histories[RULED][8];
        static unsigned numbers[SEEN], lengths[RULED];
        const struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 4};
        struct sb_guard guards[HELD] = {0}, guard = {0};
        struct sb_txn *txn = NULL, *writes = NULL;
        unsigned count = 0, versions = 0;
        uint64_t cut;

        BEGIN();
        CHECK_EQ(sb_keep(bus, b("k0001"), SB_PREFIX, &rule), 0);
        CHECK(scatter(18000));
        /* Some of the values that lie scattered are read in a cut and under a mark. */
        for (unsigned i = 200; count < SEEN; i += 37)
                if (keys[i].len != TINY)
                        numbers[count++] = i;
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_mark(bus, b("before"), &cut), 0);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &writes), 0);
        for (unsigned i = 0; i < SEEN; i++) {
                CHECK_EQ(sb_get(bus, key_of(numbers[i]), i < HELD ? &guards[i] : &guard), 0);
                seen[i] = past_of(i < HELD ? &guards[i] : &guard);
                sb_guard_release(&guard);
                /* Half of them are replaced, also by a transaction. */
                if (i % 4 == 0)
                        CHECK_EQ(set(numbers[i], 300, 0), 0);
                if (i % 4 == 1) {
                        CHECK_EQ(sb_txn_set(writes, key_of(numbers[i]), value_of(numbers[i], 310)),
                                0);
                        keys[numbers[i]].rev++;
                        keys[numbers[i]].len = 310;
                }
        }
        CHECK_EQ(sb_txn_commit(writes, NULL), 0);
        CHECK(!sb_txn_end(writes));
        for (unsigned i = 0; i < RULED; i++)
                versions += lengths[i] = list_history(100 + i, 0, histories[i]);
        for (unsigned units = 20; units <= 500; units *= 5) {
                struct sb_bytes value = value_of(units, (size_t)units * unit_size() - 200);

                CHECK_EQ(sb_set(bus, b("large"), value, NULL, NULL), 0);
                CHECK(all_there());
                for (unsigned i = 0; i < SEEN; i++) {
                        CHECK_EQ(sb_txn_get(txn, key_of(numbers[i]), &guard), 0);
                        CHECK(is_past(&guard, &seen[i]));
                        sb_guard_release(&guard);
                        CHECK_EQ(sb_get_at(bus, key_of(numbers[i]), cut, &guard), 0);
                        CHECK(is_past(&guard, &seen[i]));
                        sb_guard_release(&guard);
                        CHECK(i >= HELD || is_past(&guards[i], &seen[i]));
                }
                for (unsigned i = 0; i < RULED; i++) {
                        struct past now[8];

                        for (uint32_t flags = 0; flags <= SB_REVERSE; flags += SB_REVERSE) {
                                CHECK_EQ(list_history(100 + i, flags, now), lengths[i]);
                                for (unsigned j = 0; j < lengths[i]; j++) {
                                        unsigned k = flags ? lengths[i] - 1 - j : j;

                                        CHECK(is_same(&now[j], &histories[i][k]));
                                }
                        }
                }
                CHECK_EQ(sb_delete(bus, b("large"), SB_ANY_REV, NULL, NULL), 0);
        }
        CHECK(bus->handle.counters.moved > 300);
        CHECK(versions > 2 * RULED);
        for (unsigned i = 0; i < HELD; i++)
                sb_guard_release(&guards[i]);
        CHECK(!sb_txn_end(txn));
        END();
}

/* ---- beside others ---- */

#define IDLE 100u

static void test_values_find_room_beside_a_hundred_idle_clients(void)
{
        static struct sb_bus *idle[IDLE];
        const char *why = world_open(&world, 32 * MIB, IDLE + 2);
        unsigned largest = 0, run;

        if (why)
                TEST_SKIP(why);
        bus = world_bus(&world);
        CHECK(bus);
        for (unsigned i = 0; i < IDLE; i++) {
                idle[i] = world_bus(&world);
                CHECK(idle[i]);
        }
        growers = idle;
        CHECK(scatter(36000));
        growers = NULL;
        run = longest_run();
        for (unsigned units = 2; units <= 1024; units *= 2) {
                struct sb_bytes value = value_of(units, (size_t)units * unit_size() - 200);

                if (sb_set(bus, b("large"), value, NULL, NULL) != 0)
                        break;
                largest = units;
                CHECK_EQ(sb_delete(bus, b("large"), SB_ANY_REV, NULL, NULL), 0);
        }
        TEST_NOTE("beside %u idle clients a value of %u units, where %u were free in a row", IDLE,
                largest, run);
        CHECK(largest >= 64 && largest > 4 * run);
        CHECK(all_there());
        for (unsigned i = 0; i < IDLE; i++)
                CHECK(!sb_close(idle[i]));
        END();
}

static void test_values_find_room_beside_a_client_that_is_stopped_under_a_pin(void)
{
        struct sb_bus *other;

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        stopped = other;
        CHECK(scatter(18000));
        stopped = NULL;
        CHECK(longest_run() < 5);
        for (unsigned units = 2; units <= 200; units *= 10) {
                struct sb_bytes value = value_of(units, (size_t)units * unit_size() - 200);

                CHECK_EQ(sb_set(bus, b("large"), value, NULL, NULL), 0);
                CHECK(all_there());
        }
        sb_unpin(&other->handle);
        CHECK(!sb_close(other));
        END();
}

/* ---- no room ---- */

/* A clock that the test drives: each look at it is 300 us later. */
static struct {
        struct sb_os os;
        uint64_t now;
} fake;

static uint64_t fake_now_ns(void *context)
{
        (void)context;
        return fake.now += 300000;
}

static void test_where_nothing_can_move_it_is_full_within_the_deadline_and_a_slice(void)
{
        struct sb_write how = {.size = sizeof(how)};
        struct sb_bytes value;

        BEGIN();
        for (key_count = 0; set(key_count, 1900, 2000000) == 0; key_count++)
                ;
        while (set(key_count, TINY, 2000000) == 0)
                key_count++;
        value = value_of(0, (size_t)100 * unit_size());
        fake.os = *bus->handle.segment.os;
        fake.os.now_ns = fake_now_ns;
        fake.now = 1000000000;
        bus->handle.segment.os = &fake.os;
        for (unsigned i = 0; i < 200; i++) {
                uint64_t slices = bus->handle.counters.slices, moved = bus->handle.counters.moved;

                how.deadline_ns = fake.now + 1000000;
                CHECK_EQ(sb_set(bus, b("large"), value, &how, NULL), SB_E_FULL);
                CHECK(bus->handle.counters.slices <= slices + 4);
                CHECK(bus->handle.counters.moved <= moved + 4 * 64);
                CHECK_EQ(sb_window_count(&bus->handle), 0);
        }
        bus->handle.segment.os = &sb_os_linux;
        CHECK(all_there());
        END();
}

/* ---- beside readers ---- */

static _Atomic bool over;

/* Whether a guard holds a value of this test's. */
static bool is_whole(const struct sb_guard *guard)
{
        const unsigned char *at = guard->value.data;
        unsigned number = 0;

        if (!guard->bus || guard->key.len != 7 || !guard->value.len)
                return false;
        for (unsigned i = 1; i < 7; i++)
                number = number * 10 + ((const unsigned char *)guard->key.data)[i] - '0';
        return at[0] == 'a' + number % 26 && at[guard->value.len - 1] == 'a' + number % 26;
}

/* All keys are there in each cut. */
static bool scan_is_whole(struct sb_bus *reader)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        unsigned count = 0;

        if (sb_scan_open(reader, NULL, b("k"), &scan) != 0)
                return false;
        while (sb_scan_next(scan, &guard) == 0) {
                count += is_whole(&guard);
                sb_guard_release(&guard);
        }
        return count == key_count;
}

static bool many_are_whole(struct sb_bus *reader, unsigned first)
{
        struct sb_guard guards[32] = {0};
        struct sb_bytes wanted[32];
        char texts[32][16];
        bool whole;

        for (unsigned i = 0; i < 32; i++) {
                snprintf(texts[i], sizeof(texts[i]), "k%06u", (first + i * 97) % key_count);
                wanted[i] = b(texts[i]);
        }
        whole = sb_get_many(reader, wanted, 32, guards) == 0;
        for (unsigned i = 0; i < 32; i++) {
                whole = whole && is_whole(&guards[i]);
                sb_guard_release(&guards[i]);
        }
        return whole;
}

static struct sb_word32 rounds_read;

static void *read_on(void *argument)
{
        struct sb_bus *reader = argument;

        for (unsigned round = 0; !over; round++, sb_add_full(&rounds_read, 1))
                if (!many_are_whole(reader, round) || (round % 64 == 0 && !scan_is_whole(reader))) {
                        over = true;
                        return reader;
                }
        return NULL;
}

static void test_readers_find_every_key_while_versions_move(void)
{
        uint64_t end, larges = 0, refused = 0;
        struct sb_bus *readers[2];
        pthread_t threads[2];
        void *wrong[2];

        BEGIN();
        CHECK(scatter(18000));
        over = false;
        for (unsigned i = 0; i < 2; i++) {
                readers[i] = world_bus(&world);
                CHECK(readers[i]);
        }
        for (unsigned i = 0; i < 2; i++)
                CHECK_EQ(pthread_create(&threads[i], NULL, read_on, readers[i]), 0);
        end = now_ns() + (getenv("SB_TEST_LONG") ? UINT64_C(10000000000) : 300000000);
        /* On a loaded machine the first large value may come behind the end. */
        for (unsigned round = 0;
                now_ns() < end || (!over && (!larges || !bus->handle.counters.moved ||
                                                    sb_load_relaxed(&rounds_read) <= 10));
                round++) {
                struct sb_write how = {.size = sizeof(how), .deadline_ns = now_ns() + 1000000000};
                unsigned units = 50 + round % 7 * 30;
                struct sb_bytes value;

                /* What became free is scattered over again. */
                for (unsigned i = 0; i < 600; i++) {
                        unsigned number = (round * 613 + i * 29) % key_count;

                        (void)set(number, i % 8 ? TINY : 200 + i * 3, 0);
                }
                value = value_of(round, (size_t)units * unit_size() - 200);
                larges += sb_set(bus, b("large"), value, &how, NULL) == 0;
                if (sb_delete(bus, b("large"), SB_ANY_REV, NULL, NULL) != 0)
                        refused++;
        }
        over = true;
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], &wrong[i]);
        TEST_NOTE("%llu large values, %llu refused, %llu versions moved beside readers, who read "
                  "%u times",
                (unsigned long long)larges, (unsigned long long)refused,
                (unsigned long long)bus->handle.counters.moved, sb_load_relaxed(&rounds_read));
        CHECK(!wrong[0] && !wrong[1]);
        CHECK(all_there());
        for (unsigned i = 0; i < 2; i++)
                CHECK(!sb_close(readers[i]));
        END();
}

/* ---- a fleet ---- */

#define FLEET 8u
static _Atomic uint64_t *fleet_larges; /* of all processes */

/* One process of the fleet: keys of its own, most of them small, some large, for a while. Return:
 * its exit code, 0 when all was right. */
static int sail(unsigned number, uint64_t end)
{
        static unsigned lengths[400];
        struct sb_bus *own = world_bus(&world);
        uint64_t state = number + 1;
        char text[16];

        for (unsigned round = 0; own && now_ns() < end; round++) {
                struct sb_guard guard = {0};
                unsigned key, len;
                int r;

                state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                key = (unsigned)(state >> 33) % 400;
                len = (unsigned)(state >> 45) % 1500 + 1;
                if (round % 64 == 0) /* in the unit's size */
                        len = (unsigned)(state >> 45) % 100 * 4096 + 4096;
                snprintf(text, sizeof(text), "f%u/%u", number, key);
                r = sb_set(own, b(text), value_of(number + len, len), NULL, NULL);
                if (r == 0)
                        lengths[key] = len;
                *fleet_larges += r == 0 && len >= 4096;
                if (r != 0 && r != SB_E_FULL)
                        return 2;
                r = sb_get(own, b(text), &guard);
                if (r != (lengths[key] ? 0 : SB_E_NOT_FOUND))
                        return 3;
                if (r == 0 && (guard.value.len != lengths[key] ||
                                      *(const unsigned char *)guard.value.data !=
                                              'a' + (number + lengths[key]) % 26))
                        return 4;
                sb_guard_release(&guard);
                /* Large values do not stay, and of the small ones half. */
                if (lengths[key] && (lengths[key] >= 4096 || state >> 62)) {
                        r = sb_delete(own, b(text), SB_ANY_REV, NULL, NULL);
                        if (r != 0 && r != SB_E_FULL)
                                return 5;
                        lengths[key] = r == 0 ? 0 : lengths[key];
                }
        }
        return !own || sb_close(own) ? 6 : 0;
}

/* Eight processes write on a bus in which values lie scattered; two of them are killed. */
static void test_a_fleet_of_processes_writes_large_values_and_small_ones(void)
{
        uint64_t lasts = getenv("SB_TEST_LONG") ? UINT64_C(8000000000) : 300000000, end;
        const char *kind = getenv("SB_API_WORLD");
        pid_t fleet[FLEET];
        int status;

        if (!kind || strcmp(kind, "agentd") != 0)
                TEST_SKIP("the bus is this process's own");
        WORLD_BEGIN(32 * MIB);
        CHECK(scatter(36000));
        fleet_larges = mmap(NULL, sizeof(*fleet_larges), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(fleet_larges != MAP_FAILED);
        end = now_ns() + lasts;
        for (unsigned i = 0; i < FLEET; i++) {
                fleet[i] = fork();
                if (fleet[i] == 0)
                        _exit(sail(i, i < 2 ? UINT64_MAX : end));
                CHECK(fleet[i] > 0);
        }
        for (unsigned i = 0; i < 2; i++) {
                sb_os_linux.pause(NULL, lasts / 4);
                kill(fleet[i], SIGKILL);
        }
        for (unsigned i = 0; i < FLEET; i++) {
                CHECK_EQ(waitpid(fleet[i], &status, 0), fleet[i]);
                if (i < 2)
                        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
                else
                        CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : 100, 0);
        }
        TEST_NOTE("%llu large values of a fleet", (unsigned long long)*fleet_larges);
        CHECK(*fleet_larges > 0);
        CHECK(all_there());
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_values_of_many_units_find_room_where_small_ones_lie_scattered);
        RUN(test_nodes_of_keys_lie_where_they_leave_rows);
        RUN(test_no_client_can_tell_that_versions_moved);
        RUN(test_values_find_room_beside_a_hundred_idle_clients);
        RUN(test_values_find_room_beside_a_client_that_is_stopped_under_a_pin);
        RUN(test_where_nothing_can_move_it_is_full_within_the_deadline_and_a_slice);
        RUN(test_readers_find_every_key_while_versions_move);
        RUN(test_a_fleet_of_processes_writes_large_values_and_small_ones);
        RUN(test_a_commit_of_several_large_values_finds_room_for_all);
        RUN(test_what_a_commit_takes_at_its_tries_does_not_keep_it_from_a_window);
        return test_end();
}
