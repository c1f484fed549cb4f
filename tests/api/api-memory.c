/*
 * A process without memory: one allocation after the other fails, in every call of the library that
 * makes some. Such a call returns -ENOMEM and has changed nothing; the same call again, when there
 * is memory, does what it says; and in the end nothing is left on the heap.
 *
 * The program is linked so that the library's allocations come here first (see meson.build).
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB   (UINT64_C(1) << 20)
#define KEYS  200u
#define READS 300u

static struct world world;
static struct sb_bus *bus, *own; /* the neighbour's, which has memory; and the one in question */

/* ---- the heap ---- */

enum { ONE_FAILS, THEN_ALL_FAIL };
static long allocations, fails_at = -1, live;
static int manner;
static bool failed;

static bool heap_fails(void)
{
        bool fails = fails_at >= 0 &&
                     (manner == ONE_FAILS ? allocations == fails_at : allocations >= fails_at);

        allocations++;
        failed |= fails;
        return fails;
}

/* A block has its size in front of it, and behind it bytes that are no caller's. */
struct block {
        size_t size;
        uint64_t fence;
        unsigned char bytes[];
};
#define FENCE UINT64_C(0xfe9ce0fe9ce0fe9c)
static bool fence_broken;

static struct block *heap_block(void *bytes)
{
        struct block *block = (struct block *)((unsigned char *)bytes - sizeof(*block));
        uint64_t behind;

        memcpy(&behind, block->bytes + block->size, sizeof(behind));
        fence_broken |= block->fence != FENCE || behind != FENCE;
        return block;
}

static void *heap_give(struct block *block, size_t size)
{
        static const uint64_t fence = FENCE;

        if (!block)
                return NULL;
        block->size = size;
        block->fence = fence;
        memcpy(block->bytes + size, &fence, sizeof(fence));
        return block->bytes;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
        if (heap_fails())
                return NULL;
        live++;
        return heap_give(__real_malloc(sizeof(struct block) + size + 8), size);
}

void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
        void *bytes = __wrap_malloc(count * size);

        return bytes ? memset(bytes, 0, count * size) : NULL;
}

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *bytes, size_t size);
void *__wrap_realloc(void *bytes, size_t size)
{
        if (!bytes)
                return __wrap_malloc(size);
        if (heap_fails())
                return NULL;
        return heap_give(__real_realloc(heap_block(bytes), sizeof(struct block) + size + 8), size);
}

void __real_free(void *block);
void __wrap_free(void *bytes);
void __wrap_free(void *bytes)
{
        if (!bytes)
                return;
        live--;
        __real_free(heap_block(bytes));
}

/* ---- what is done again and again ---- */

/* Where one allocation fails, the call is made once more. */
#define TRY(call)                                                                                  \
        ({                                                                                         \
                int try_r_ = (call);                                                               \
                if (try_r_ == -ENOMEM && manner == ONE_FAILS)                                      \
                        try_r_ = (call);                                                           \
                try_r_;                                                                            \
        })

static struct sb_bytes key_of(unsigned number)
{
        static char names[4][16];
        static unsigned next;
        char *name = names[next++ % 4];

        snprintf(name, sizeof(names[0]), "k%03u", number);
        return b(name);
}

static unsigned round_number; /* of what is written */
static char written[16];
static uint64_t marked;

static int fill(struct sb_txn *txn, unsigned count)
{
        int r = 0;

        for (unsigned i = 0; i < count && !r; i++)
                r = TRY(sb_txn_set(txn, key_of(i), b(written)));
        r = r ? r : TRY(sb_txn_delete(txn, b("gone")));
        return r ? r : TRY(sb_txn_set(txn, b("last"), b(written)));
}

/* Read by key, by keys and by ranges, a scan of the transaction's own writes included. */
static int look(struct sb_txn *txn)
{
        struct sb_bytes keys[8] = {b("k000"), b("k100"), b("k007"), b("last"), b("x"), b("k001"),
                b("none"), b("k150")};
        struct sb_guard guards[8] = {0};
        struct sb_scan *scan = NULL;
        int r = 0;

        for (unsigned i = 0; i < KEYS && !r; i += 2) {
                r = TRY(sb_txn_get(txn, key_of((i * 7) % KEYS), &guards[0]));
                sb_guard_release(&guards[0]);
                r = r == SB_E_NOT_FOUND ? 0 : r;
        }
        r = r ? r : TRY(sb_txn_get_many(txn, keys, 8, guards));
        r = r == SB_E_NOT_FOUND ? 0 : r;
        for (unsigned i = 0; i < 8; i++)
                sb_guard_release(&guards[i]);
        r = r ? r : TRY(sb_scan_open(own, txn, b("k"), &scan));
        while (!r) {
                r = TRY(sb_scan_next(scan, &guards[0]));
                sb_guard_release(&guards[0]);
        }
        sb_scan_close(scan);
        return r == SB_E_NOT_FOUND ? 0 : r;
}

/* Whether a story that failed has changed nothing. */
static bool is_as_prepared(void)
{
        return has(bus, "r00", "now") && has(bus, "r19", "now") && has(bus, "tail", "before") &&
               has(bus, "gone", "here") && !has(bus, "last", written) && !has(bus, "k000", written);
}

static int story_txn(uint32_t isolation, bool writes_first)
{
        struct sb_txn *txn = NULL;
        int r = TRY(sb_txn_begin(own, isolation, &txn));

        r = r ? r : writes_first ? fill(txn, KEYS) : look(txn);
        r = r ? r : writes_first ? look(txn) : fill(txn, KEYS);
        r = r ? r : TRY(sb_txn_commit(txn, NULL));
        sb_txn_end(txn);
        return r;
}
static int story_snapshot(void)
{
        return story_txn(SB_SNAPSHOT, true);
}
static int story_serializable(void)
{
        return story_txn(SB_SERIALIZABLE, false);
}

/* What it has read changes before it commits: it never does, without memory least of all. */
static int story_conflict(void)
{
        struct sb_txn *txn = NULL;
        int r = TRY(sb_txn_begin(own, SB_SERIALIZABLE, &txn));

        r = r ? r : look(txn);
        r = r ? r : fill(txn, 10);
        r = r ? r : sb_set(bus, b("x"), b(written), NULL, NULL);
        r = r ? r : TRY(sb_txn_commit(txn, NULL));
        sb_txn_end(txn);
        return r == SB_E_CONFLICT ? is_as_prepared() ? 0 : -EPROTO : r ? r : -EPROTO;
}

static int attempt(void *argument, struct sb_txn *txn)
{
        (void)argument;
        return fill(txn, KEYS);
}
static int story_transact(void)
{
        return TRY(sb_transact(own, SB_SERIALIZABLE, attempt, NULL, NULL));
}

static int story_scan(void)
{
        struct sb_scan_options how = {.size = sizeof(how), .end = b("k150")};
        struct sb_guard guards[32] = {0};
        struct sb_scan *scan = NULL;
        size_t count, seen = 0;
        int r = TRY(sb_scan_open_at(own, b("k"), &how, &scan));

        while (!r) {
                r = TRY(sb_scan_next_many(scan, guards, 32, &count));
                for (size_t i = 0; i < count && !r; i++, seen++)
                        sb_guard_release(&guards[i]);
        }
        if (r == SB_E_NOT_FOUND)
                r = TRY(sb_scan_prev(scan, &guards[0]));
        sb_guard_release(&guards[0]);
        sb_scan_close(scan);
        return r ? r : seen == 150 ? 0 : -EPROTO;
}

static int story_guards(void)
{
        static struct sb_guard guards[READS];
        int r = 0;

        memset(guards, 0, sizeof(guards));
        for (unsigned i = 0; i < READS && !r; i++)
                r = TRY(sb_get(own, key_of(i % KEYS), &guards[i]));
        for (unsigned i = 0; i < READS; i++)
                sb_guard_release(&guards[i]);
        return r;
}

static int story_append(void)
{
        struct sb_guard guard = {0};
        int r = TRY(sb_append(own, b("tail"), b("-end"), NULL, NULL));

        r = r ? r : TRY(sb_get(own, b("tail"), &guard));
        r = r                                                                      ? r
            : guard.value.len == 10 && !memcmp(guard.value.data, "before-end", 10) ? 0
                                                                                   : -EPROTO;
        sb_guard_release(&guard);
        return r;
}

/* A change that shows by the descriptor, which is kept with the bus. */
static int story_descriptor(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        struct pollfd look = {.events = POLLIN};
        int r = TRY(sb_watch_open(own, b("r00"), 0, SB_ANY_REV, &watch));

        if (!r) {
                look.fd = TRY(sb_fd(own));
                r = look.fd < 0 ? look.fd : sb_set(bus, b("r00"), b("now"), NULL, NULL);
        }
        r = r ? r : poll(&look, 1, 10000) == 1 ? 0 : -EPROTO;
        r = r ? r : TRY(sb_watch_next(watch, 0, &change));
        sb_guard_release(&change);
        sb_watch_close(watch);
        return r;
}

static int story_thread(void)
{
        int r;

        setenv("STATEBUS_FD", "thread", 1);
        r = story_descriptor();
        unsetenv("STATEBUS_FD");
        return r;
}

static int story_history(void)
{
        static struct sb_guard held[62]; /* so that a batch of versions finds no guard free */
        struct sb_history *history = NULL;
        struct sb_guard guard = {0};
        unsigned seen = 0;
        int r = 0;

        memset(held, 0, sizeof(held));
        for (unsigned i = 0; i < 62 && !r; i++)
                r = TRY(sb_get(own, key_of(i), &held[i]));
        r = r ? r : TRY(sb_history_open(own, b("kept"), 0, &history));
        while (!r) {
                r = TRY(sb_history_next(history, &guard, NULL));
                seen += r == 0;
                sb_guard_release(&guard);
        }
        sb_history_close(history);
        for (unsigned i = 0; i < 62; i++)
                sb_guard_release(&held[i]);
        return r != SB_E_LAPPED ? r : seen == 5 ? 0 : -EPROTO;
}

/* More cells and more changes than a list begins with, mixed with transactions; a wait between. */
static int story_watch(void)
{
        struct sb_guard guard = {0};
        struct sb_watch *watch = NULL;
        struct sb_txn *txn = NULL;
        unsigned seen = 0;
        int r = TRY(sb_watch_open(own, b("w"), SB_PREFIX, SB_ANY_REV, &watch));

        for (unsigned i = 0; i < 200 && !r; i++) {
                char name[8];

                snprintf(name, sizeof(name), "w%03u", i % 150);
                r = sb_set(bus, b(name), b("v"), NULL, NULL);
        }
        r = r ? r : TRY(sb_txn_begin(own, SB_SNAPSHOT, &txn));
        r = r ? r : TRY(sb_txn_set(txn, b("w1"), b("t")));
        r = r ? r : TRY(sb_txn_set(txn, b("w2"), b("t")));
        for (unsigned i = 0; i < 200 && !r; i++)
                r = sb_set(bus, b("w3"), b("v"), NULL, NULL);
        r = r ? r : TRY(sb_txn_commit(txn, NULL));
        sb_txn_end(txn);
        r = r ? r : sb_wait(own, SB_FOREVER);
        while (!r) {
                r = TRY(sb_watch_next(watch, 0, &guard));
                seen += r == 0;
                sb_guard_release(&guard);
        }
        sb_watch_close(watch);
        return r != SB_E_TIMED_OUT ? r : seen == 402 ? 0 : -EPROTO;
}

/* A queue of its own, beside what a watch of a prefix has. */
static int story_buffered(void)
{
        struct sb_watch_options how = {.size = sizeof(how),
                .flags = SB_PREFIX | SB_BUFFERED,
                .depth = 100,
                .after = SB_ANY_REV};
        struct sb_guard guard = {0};
        struct sb_watch *watch = NULL;
        unsigned seen = 0;
        int r = TRY(sb_watch_open_at(own, b("w"), &how, &watch));

        for (unsigned i = 0; i < 50 && !r; i++)
                r = sb_set(bus, b("w3"), b("v"), NULL, NULL);
        while (!r) {
                r = TRY(sb_watch_next(watch, 0, &guard));
                seen += r == 0;
                sb_guard_release(&guard);
        }
        sb_watch_close(watch);
        return r != SB_E_TIMED_OUT ? r : seen == 50 ? 0 : -EPROTO;
}

static int story_delete_range(void)
{
        uint64_t count = 0;
        int r = TRY(sb_delete_range(own, NULL, b("r"), b("s"), 0, NULL, &count));

        return r ? r : count == 20 ? 0 : -EPROTO;
}

static int story_restore(void)
{
        int r = TRY(sb_restore(own, b("r"), SB_PREFIX, marked, NULL));

        return r ? r : has(bus, "r00", "then") && has(bus, "r19", "then") ? 0 : -EPROTO;
}

static int story_holders(void)
{
        struct sb_admin_holders holders;
        struct sb_txn *txn = NULL;
        int r = TRY(sb_txn_begin(own, SB_SNAPSHOT, &txn));

        r = r ? r : TRY(sb_admin_holders(own, &holders));
        if (!r) {
                r = holders.count == 2 ? 0 : -EPROTO; /* the mark is the other one */
                sb_admin_holders_free(&holders);
        }
        sb_txn_end(txn);
        return r;
}

/* ---- tests ---- */

/* How many shared maps this process has. Of private ones the heap has some, which come and go. */
static unsigned maps(void)
{
        static char text[1 << 16];
        FILE *file = fopen("/proc/self/maps", "re");
        unsigned count = 0;
        char mode[5];

        while (file && fgets(text, sizeof(text), file))
                count += sscanf(text, "%*s %4s", mode) == 1 && mode[3] == 's';
        if (file)
                fclose(file);
        return count;
}

static int open_once(void)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = world.directory, .access = SB_PEER};
        struct sb_roster_identity identity = {.pid = (uint32_t)getpid(), .access = SB_PEER};
        uint32_t slot, generation;
        int r;

        own = NULL;
        if (world.remote)
                return sb_open(&options, &own);
        r = sb_roster_claim(&world.segment, 1, &identity, &slot, &generation);
        if (r)
                return r;
        r = sb_bus_open_segment(&world.segment, slot, generation, &own);
        if (r)
                sb_roster_release(&world.segment, slot, generation);
        return r;
}

/* Return: as sb_open(); -EPROTO: one that failed has left a client or a map. */
static int open_own(void)
{
        unsigned before = maps();
        struct sb_admin_stat stat;
        int r = open_once();

        if (!r)
                return 0;
        return maps() == before && !sb_admin_stat(bus, &stat) && stat.clients == 1 ? r : -EPROTO;
}

/* What a story finds. */
static bool prepare(void)
{
        char name[8];
        bool done = true;

        round_number++;
        snprintf(written, sizeof(written), "round %u", round_number);
        for (unsigned i = 0; i < 20 && done; i++) {
                snprintf(name, sizeof(name), "r%02u", i);
                done = !sb_set(bus, b(name), b("now"), NULL, NULL);
        }
        return done && !sb_set(bus, b("tail"), b("before"), NULL, NULL) &&
               !sb_set(bus, b("gone"), b("here"), NULL, NULL);
}

/* In the checked mode a bus that was closed is known for ever, and here for leak checkers. */
#define KNOWN 64u
static struct sb_bus *known[KNOWN];
static unsigned known_count;

/* Tell a story again and again, each time with another allocation that fails, until none does. */
static void tell(const char *name, int (*story)(void), bool writes)
{
        int r;

        for (manner = ONE_FAILS; manner <= THEN_ALL_FAIL; manner++) {
                long first, at = 0;

                do {
                        CHECK(prepare());
                        first = live;
                        allocations = 0;
                        failed = false;
                        fails_at = at;
                        r = TRY(open_own());
                        r = r ? r : story();
                        if (own && !own->use != !getenv("STATEBUS_CHECKED"))
                                TEST_FAIL(
                                        "%s: allocation %ld: not in the mode asked for", name, at);
                        if (getenv("STATEBUS_CHECKED"))
                                known[known_count++ % KNOWN] = own;
                        sb_close(own);
                        fails_at = -1;
                        if (failed && manner == THEN_ALL_FAIL ? r != -ENOMEM && r != 0 : r != 0)
                                TEST_FAIL("%s: allocation %ld: %d", name, at, r);
                        if (live != first && (!own || !getenv("STATEBUS_CHECKED")))
                                TEST_FAIL(
                                        "%s: allocation %ld: %ld are left", name, at, live - first);
                        if (fence_broken)
                                TEST_FAIL("%s: it wrote where it has no memory", name);
                        if (r && !is_as_prepared())
                                TEST_FAIL("%s: allocation %ld: something was written", name, at);
                        if (!r && writes && is_as_prepared())
                                TEST_FAIL("%s: allocation %ld: nothing was written", name, at);
                        at++;
                } while (failed);
                CHECK(at > 2);
        }
}

/* What came from it, and is not ended yet, has its own and nothing more. */
static void test_a_closed_bus_keeps_no_memory_but_for_guards(void)
{
        struct sb_history *history = NULL;
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn = NULL;
        long first, parts;

        if (getenv("STATEBUS_CHECKED"))
                TEST_SKIP("a bus is known for ever in the checked mode");
        WORLD_BEGIN(16 * MIB);
        CHECK_EQ(sb_set(bus, b("key"), b("v"), NULL, NULL), 0);
        first = live;
        CHECK_EQ(open_own(), 0);
        parts = live;
        CHECK_EQ(sb_history_open(own, b("key"), 0, &history), 0);
        CHECK_EQ(sb_history_next(history, &guard, NULL), 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_open(own, NULL, b("k"), &scan), 0);
        CHECK_EQ(sb_txn_begin(own, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_txn_set(txn, b("key"), b("w")), 0);
        parts = live - parts;
        own = sb_close(own);
        CHECK(live <= first + parts);
        sb_txn_end(txn);
        sb_scan_close(scan);
        sb_history_close(history);
        CHECK_EQ(live, first);
        WORLD_END();
}

static void test_a_call_without_memory_has_done_nothing_and_leaves_nothing(void)
{
        static const struct {
                const char *name;
                int (*story)(void);
                bool writes;
        } stories[] = {
                {"snapshot", story_snapshot, true},
                {"serializable", story_serializable, true},
                {"conflict", story_conflict, false},
                {"transact", story_transact, true},
                {"scan", story_scan, false},
                {"guards", story_guards, false},
                {"append", story_append, true},
                {"descriptor", story_descriptor, false},
                {"descriptor of a thread", story_thread, false},
                {"history", story_history, false},
                {"delete range", story_delete_range, true},
                {"restore", story_restore, true},
                {"holders", story_holders, false},
                {"watch", story_watch, false},
                {"buffered", story_buffered, false},
        };
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 5};
        char name[8];

        WORLD_BEGIN(16 * MIB);
        CHECK(maps() > 0);
        CHECK(!sb_keep(bus, b("kept"), 0, &rule));
        for (unsigned i = 0; i < KEYS; i++) {
                CHECK(!sb_set(bus, key_of(i), b("first"), NULL, NULL));
                CHECK(!sb_set(bus, b("kept"), key_of(i), NULL, NULL));
        }
        for (unsigned i = 0; i < 20; i++) {
                snprintf(name, sizeof(name), "r%02u", i);
                CHECK(!sb_set(bus, b(name), b("then"), NULL, NULL));
        }
        CHECK(!sb_mark(bus, b("mark"), &marked));
        for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
                tell(stories[i].name, stories[i].story, stories[i].writes);
                if (test_state.failed_here)
                        return;
        }
        setenv("STATEBUS_CHECKED", "1", 1);
        tell("checked", story_append, true);
        unsetenv("STATEBUS_CHECKED");
        CHECK(!sb_mark_drop(bus, b("mark")));
        WORLD_END();
}

/* A large value takes whole units, to the byte. */
static void test_what_is_held_is_counted_as_it_lies(void)
{
        const uint64_t parts[] = {1, 2, 3};
        static char value[1 << 20];

        WORLD_BEGIN(16 * MIB);
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
                uint64_t unit = bus->handle.segment.geometry.unit_size, size = parts[i] * unit;

                for (int more = -1; more <= 1; more++) {
                        struct sb_bytes bytes = {value,
                                size - sizeof(struct sb_version) - 1 + (uint64_t)(int64_t)more};
                        struct sb_admin_holders holders;
                        struct sb_txn *txn = NULL;

                        CHECK(!sb_set(bus, b("k"), bytes, NULL, NULL));
                        CHECK(!sb_txn_begin(bus, SB_SNAPSHOT, &txn));
                        CHECK(!sb_set(bus, b("k"), b("x"), NULL, NULL));
                        CHECK_EQ(sb_admin_holders(bus, &holders), 0);
                        CHECK(holders.count == 1 && holders.holders[0].cut_count == 1);
                        CHECK_EQ(holders.holders[0].held_bytes, size + (more > 0 ? unit : 0));
                        sb_admin_holders_free(&holders);
                        sb_txn_end(txn);
                }
        }
        WORLD_END();
}

/* A damaged segment names a cut in the engine's record, too, which opens none. */
static void test_all_that_may_hold_a_cut_have_a_place(void)
{
        struct sb_admin_holders holders;
        struct sb_bus *buses[64];
        struct sb_txn *txns[64];
        uint64_t cut;
        uint32_t count = 0;

        WORLD_BEGIN(16 * MIB);
        if (world.remote) {
                CHECK(!sb_close(bus) && world_close(&world));
                TEST_SKIP("no client damages the engine's record here");
        }
        CHECK(!sb_set(bus, b("k"), b("before"), NULL, NULL));
        CHECK(!sb_mark(bus, b("mark"), &cut));
        buses[count++] = bus;
        while (count < 64 && (buses[count] = world_bus(&world)))
                count++;
        CHECK_EQ(count, world.geometry.record_count - 1);
        for (uint32_t i = 0; i < count; i++)
                CHECK(!sb_txn_begin(buses[i], SB_SNAPSHOT, &txns[i]));
        sb_store_relaxed(sb_record_snapshots(sb_record_at(&world.segment, 0)), cut);
        CHECK(!sb_set(bus, b("k"), b("behind"), NULL, NULL));
        CHECK_EQ(sb_admin_holders(bus, &holders), 0);
        sb_store_relaxed(sb_record_snapshots(sb_record_at(&world.segment, 0)), 0);
        CHECK_EQ(holders.count, world.geometry.record_count + 1);
        for (uint32_t i = 0; i < holders.count; i++)
                CHECK(holders.holders[i].cut_count == 1 && holders.holders[i].cuts[0] >= cut &&
                        holders.holders[i].held_bytes > 0);
        sb_admin_holders_free(&holders);
        CHECK(!fence_broken);
        for (uint32_t i = 0; i < count; i++) {
                sb_txn_end(txns[i]);
                CHECK(!i || !sb_close(buses[i]));
        }
        CHECK(!sb_mark_drop(bus, b("mark")));
        WORLD_END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_closed_bus_keeps_no_memory_but_for_guards);
        RUN(test_a_call_without_memory_has_done_nothing_and_leaves_nothing);
        RUN(test_what_is_held_is_counted_as_it_lies);
        RUN(test_all_that_may_hold_a_cut_have_a_place);
        return test_end();
}
