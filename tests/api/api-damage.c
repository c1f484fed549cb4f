/* A bus whose memory a process has scribbled over: calls end, and say -EIO where damage keeps them
 * from knowing the answer. SIGALRM ends a test that does not. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libclient/core/bus.h"
#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB        (UINT64_C(1) << 20)
#define PATIENCE_S 30u

static struct world world;
static struct sb_bus *bus;
static const struct sb_bytes none = {NULL, 0};

/* A bus in this process: the test scribbles over its segment. */
#define BEGIN()                                                                                    \
        do {                                                                                       \
                WORLD_BEGIN(4 * MIB);                                                              \
                if (world.remote) {                                                                \
                        sb_close(bus);                                                             \
                        world_close(&world);                                                       \
                        TEST_SKIP("the test writes into the segment itself");                      \
                }                                                                                  \
                alarm(PATIENCE_S);                                                                 \
        } while (0)
#define END()                                                                                      \
        do {                                                                                       \
                alarm(0);                                                                          \
                CHECK(!world_sound(&world, bus));                                                  \
                sb_close(bus);                                                                     \
                world_drop(&world);                                                                \
        } while (0)

static struct sb_node *node_of(const char *key)
{
        struct sb_node *node;

        sb_pin(&bus->handle);
        node = sb_order_find(&bus->handle, key, (uint32_t)strlen(key));
        sb_unpin(&bus->handle);
        return node;
}

static struct sb_word64 *cell_of(const char *key)
{
        return sb_cell_at(&bus->handle.segment, sb_load_relaxed(&node_of(key)->cell));
}

/* Keys k1 .. k5. In the branch that tells them apart, the slot of k5 leads to the branch. */
static void make_a_round(void)
{
        static const char *const keys[] = {"k1", "k2", "k3", "k4", "k5"};
        struct sb_branch_view view = {0};
        uint64_t word;

        for (size_t i = 0; i < 5; i++)
                CHECK_EQ(sb_set(bus, b(keys[i]), b("value"), NULL, NULL), 0);
        word = sb_load_relaxed(&bus->handle.segment.super->order);
        CHECK(sb_branch_view(&bus->handle.segment, word, 0, &view));
        for (uint32_t i = 0; i < view.slots; i++)
                if ((sb_load_relaxed(&view.branch->slot[i]) & SB_OFFSET_MASK) ==
                        sb_offset_of(&bus->handle.segment, node_of("k5")))
                        sb_store_relaxed(&view.branch->slot[i], SB_SLOT(1 + 5, word));
}

/* Goes on with a scan as far as it gives keys. Return: what ended it. */
static int scan_through(struct sb_txn *txn)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        int r = sb_scan_open(bus, txn, none, &scan);

        while (r == 0) {
                r = sb_scan_next(scan, &guard);
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        return r;
}

static void test_a_scan_in_an_index_that_goes_round_ends(void)
{
        struct sb_txn *txn = NULL;

        BEGIN();
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        make_a_round();
        CHECK_EQ(scan_through(NULL), -EIO);
        /* The keys have no value at this cut: the scan gives none, and goes on inside one call. */
        CHECK_EQ(scan_through(txn), -EIO);
        CHECK(!sb_txn_end(txn));
        END();
}

/* In the branch above @key, the slot that leads to it leads to @other from now on. */
static void lead_to(const char *key, const void *other, uint32_t other_len)
{
        struct sb_handle *handle = &bus->handle;
        uint64_t leaf = sb_offset_of(&handle->segment, node_of(key)), word;
        struct sb_word64 *slot = &handle->segment.super->order;
        struct sb_branch_view view;
        struct sb_node *node;
        uint32_t depth = 0;

        sb_pin(handle);
        word = sb_load_relaxed(slot);
        while ((word & SB_OFFSET_MASK) != leaf) {
                CHECK(sb_branch_view(&handle->segment, word, depth, &view));
                slot = sb_branch_slot(handle, &view,
                        sb_branch_symbol(
                                (const unsigned char *)key, (uint32_t)strlen(key), view.depth),
                        &word);
                CHECK(slot);
                depth = view.depth + 1;
        }
        node = sb_order_find(handle, other, other_len);
        CHECK(node);
        sb_store_relaxed(
                slot, SB_SLOT_TO(word, sb_offset_of(&handle->segment, node) | SB_SLOT_LEAF));
        sb_unpin(handle);
}

/* A scan passes over the bus's own keys. One of them lies behind all others. */
static void test_a_scan_over_the_buss_own_keys_that_do_not_lie_together_ends(void)
{
        static const char own[] = SB_RESERVED_KEEP "Pk";
        const struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_ALL};

        BEGIN();
        CHECK_EQ(sb_keep(bus, b("k"), SB_PREFIX, &rule), 0);
        CHECK_EQ(sb_set(bus, b("k"), b("value"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("z"), b("value"), NULL, NULL), 0);
        lead_to("z", own, sizeof(own) - 1);
        CHECK_EQ(scan_through(NULL), -EIO);
        END();
}

/* A scan of the past comes to a key that lies behind others, and before them. */
static void test_a_scan_of_the_past_in_an_index_without_order_ends(void)
{
        const struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_ALL};
        struct sb_scan_options how = {.size = sizeof(how)};
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        uint32_t count = 0;
        char key[8];
        int r;

        BEGIN();
        CHECK_EQ(sb_keep(bus, b("k"), SB_PREFIX, &rule), 0);
        CHECK_EQ(sb_set(bus, b("k00"), b("value"), NULL, NULL), 0);
        CHECK_EQ(sb_cut_at(bus, UINT64_MAX, &how.cut), 0);
        for (uint32_t i = 1; i < 40; i++) {
                snprintf(key, sizeof(key), "k%02u", i);
                CHECK_EQ(sb_set(bus, b(key), b("value"), NULL, NULL), 0);
        }
        lead_to("k20", "k00", 3);
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        while ((r = sb_scan_next(scan, &guard)) == 0 && ++count < 100)
                sb_guard_release(&guard);
        CHECK_EQ(r, -EIO);
        CHECK_EQ(count, 1);
        CHECK(!sb_scan_close(scan));
        END();
}

static void test_an_index_that_goes_round_is_eio_where_it_keeps_the_answer(void)
{
        const struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_ALL};
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_txn *txn = NULL;

        BEGIN();
        make_a_round();
        CHECK_EQ(sb_set(bus, b("k5x"), b("value"), NULL, NULL), -EIO);
        CHECK_EQ(sb_cas(bus, b("k5x"), 0, b("value"), NULL, NULL), -EIO);
        CHECK_EQ(sb_keep(bus, b("k"), SB_PREFIX, &rule), -EIO);
        CHECK_EQ(sb_scan_open(bus, NULL, none, &scan), 0);
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        CHECK_EQ(sb_scan_prev(scan, &guard), -EIO);
        CHECK(!guard.bus);
        CHECK(!sb_scan_close(scan));
        CHECK_EQ(sb_scan_open(bus, NULL, b("k5"), &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), -EIO);
        CHECK(!sb_scan_close(scan));
        CHECK_EQ(sb_txn_begin(bus, SB_SERIALIZABLE, &txn), 0);
        CHECK_EQ(sb_txn_set(txn, b("k5x"), b("value")), 0);
        CHECK_EQ(sb_txn_commit(txn, NULL), -EIO);
        CHECK(!sb_txn_end(txn));
        /* What the damage does not reach is as ever. */
        CHECK(has(bus, "k3", "value"));
        CHECK_EQ(sb_get(bus, b("k5x"), &guard), SB_E_NOT_FOUND);
        CHECK_EQ(sb_set(bus, b("k3"), b("other"), NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("k3"), 1, NULL, NULL), SB_E_CONFLICT);
        CHECK_EQ(sb_set(bus, b("a"), b("value"), NULL, NULL), 0);
        END();
}

static void test_a_chain_that_goes_round_is_eio_where_it_keeps_the_answer(void)
{
        struct sb_version *newest, *old;
        struct sb_guard guard = {0}, many[2] = {0};
        struct sb_segment *segment;
        struct sb_bytes keys[2];
        struct sb_txn *txn = NULL;
        uint64_t stamp;

        BEGIN();
        segment = &bus->handle.segment;
        keys[0] = b("beside");
        keys[1] = b("key");
        CHECK_EQ(sb_set(bus, b("beside"), b("value"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("old"), NULL, NULL), 0);
        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("new"), NULL, NULL), 0);
        newest = sb_version_at(segment, sb_load_relaxed(cell_of("key")) & SB_OFFSET_MASK);
        old = sb_version_at(segment, sb_load_relaxed(&newest->prev) & SB_OFFSET_MASK);
        stamp = sb_load_relaxed(&old->stamp);
        sb_store_relaxed(&old->stamp, sb_load_relaxed(&newest->stamp));
        sb_store_relaxed(&old->prev, sb_offset_of(segment, newest));
        CHECK_EQ(sb_txn_get(txn, b("key"), &guard), -EIO);
        CHECK_EQ(sb_txn_delete(txn, b("key")), -EIO);
        CHECK_EQ(sb_get_at(bus, b("key"), stamp, &guard), -EIO);
        CHECK(!guard.bus);
        CHECK_EQ(sb_txn_get(txn, b("beside"), &guard), 0);
        sb_guard_release(&guard);
        CHECK(has(bus, "key", "new")); /* the newest one is found */
        CHECK_EQ(sb_get_many(bus, keys, 2, many), 0);
        sb_guard_release(&many[0]);
        sb_guard_release(&many[1]);
        CHECK(!sb_txn_end(txn));
        alarm(0);
        sb_close(bus);
        world_drop(&world);
}

static int set_the_key(void *argument, struct sb_txn *txn)
{
        (void)argument;
        return sb_txn_set(txn, b("key"), b("value"));
}

static void test_a_key_without_its_cell_is_eio_for_a_write(void)
{
        BEGIN();
        CHECK_EQ(sb_set(bus, b("key"), b("value"), NULL, NULL), 0);
        sb_store_relaxed(cell_of("key"), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("value"), NULL, NULL), -EIO);
        CHECK_EQ(sb_set(bus, b("beside"), b("value"), NULL, NULL), 0);
        CHECK_EQ(sb_transact(bus, SB_SNAPSHOT, set_the_key, NULL, NULL), -EIO);
        END();
}

/* A version says that its key, or its value, is longer than these are. */
static void test_a_range_with_lengths_that_no_key_has_is_eio_for_a_restore(void)
{
        for (uint32_t value = 0; value < 2; value++) {
                struct sb_version *version;
                uint64_t cut, count;

                BEGIN();
                CHECK_EQ(sb_set(bus, b("k1"), b("value"), NULL, NULL), 0);
                CHECK_EQ(sb_set(bus, b("k2"), b("value"), NULL, NULL), 0);
                version = sb_version_at(
                        &bus->handle.segment, sb_load_relaxed(cell_of("k2")) & SB_OFFSET_MASK);
                version->shape =
                        SB_SHAPE(value ? MIB + 1 : 5, value ? 2 : 2000, SB_VERSION_VALUE, 1);
                CHECK_EQ(sb_mark(bus, b("mark"), &cut), 0);
                CHECK_EQ(sb_delete_range(bus, NULL, b("k"), none, SB_PREFIX, NULL, &count),
                        value ? 0 : -EIO);
                CHECK_EQ(sb_set(bus, b("beside"), b("value"), NULL, NULL), 0);
                CHECK_EQ(sb_restore(bus, b("k"), SB_PREFIX, cut, NULL), -EIO);
                CHECK_EQ(sb_set(bus, b("beside 2"), b("value"), NULL, NULL), 0);
                END();
        }
}

/* A version with lengths that reach behind the segment; or its cell leads to another key's. */
static void test_a_scan_gives_no_key_that_is_damaged(void)
{
        static const char *const keys[] = {"k1", "k2", "k3"};

        for (uint32_t foreign = 0; foreign < 2; foreign++) {
                struct sb_guard guard = {0};
                struct sb_scan *scan = NULL;
                struct sb_version *version;

                BEGIN();
                for (size_t i = 0; i < 3; i++)
                        CHECK_EQ(sb_set(bus, b(keys[i]), b("value"), NULL, NULL), 0);
                version = sb_version_at(
                        &bus->handle.segment, sb_load_relaxed(cell_of("k2")) & SB_OFFSET_MASK);
                if (foreign)
                        sb_store_relaxed(cell_of("k2"), sb_load_relaxed(cell_of("k1")));
                else
                        version->shape = SB_SHAPE(UINT32_MAX >> 4, 2, SB_VERSION_VALUE, 1);
                CHECK_EQ(sb_scan_open(bus, NULL, none, &scan), 0);
                for (size_t i = 0; i < 3; i += 2) {
                        CHECK_EQ(sb_scan_next(scan, &guard), 0);
                        CHECK(guard.key.len == 2 && !memcmp(guard.key.data, keys[i], 2));
                        sb_guard_release(&guard);
                }
                CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
                CHECK(!sb_scan_close(scan));
                alarm(0);
                sb_close(bus);
                world_drop(&world);
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_scan_in_an_index_that_goes_round_ends);
        RUN(test_a_scan_over_the_buss_own_keys_that_do_not_lie_together_ends);
        RUN(test_a_scan_of_the_past_in_an_index_without_order_ends);
        RUN(test_an_index_that_goes_round_is_eio_where_it_keeps_the_answer);
        RUN(test_a_chain_that_goes_round_is_eio_where_it_keeps_the_answer);
        RUN(test_a_scan_gives_no_key_that_is_damaged);
        RUN(test_a_key_without_its_cell_is_eio_for_a_write);
        RUN(test_a_range_with_lengths_that_no_key_has_is_eio_for_a_restore);
        return test_end();
}
