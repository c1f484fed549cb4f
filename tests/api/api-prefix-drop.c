/*
 * Watches of all keys with a prefix that want a depth of their own, through the public interface:
 * one that drops keeps the first changes that were not read, whichever keys they are of, and counts
 * the rest; one that is deeper than those before it has the depth that it asked for.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "tests/api/prefix.h"
#include "tests/api/world.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

static int open_queue(struct sb_bus *on, const char *prefix, uint32_t depth, struct sb_watch **ret)
{
        struct sb_watch_options how = {.size = sizeof(how),
                .flags = SB_PREFIX | SB_BUFFERED,
                .depth = depth,
                .after = SB_ANY_REV};

        return sb_watch_open_at(on, b(prefix), &how, ret);
}

/* Set n/@key, and take a cut, so that the order of what is written is known. */
static bool put(unsigned key, unsigned value)
{
        char name[16], text[16];

        snprintf(name, sizeof(name), "n/%u", key);
        snprintf(text, sizeof(text), "%u", value);
        return sb_set(bus, b(name), b(text), NULL, NULL) == 0 && take_cut();
}

/* Whether the next change is of n/@key, has this value and says that so many are missing. */
static bool gives(struct sb_watch *watch, unsigned key, unsigned value, uint64_t missed)
{
        struct sb_guard change = {0};
        char name[16], text[16];
        bool same;

        snprintf(name, sizeof(name), "n/%u", key);
        snprintf(text, sizeof(text), "%u", value);
        same = sb_watch_next(watch, 0, &change) == 0 && is(change.key, name) &&
               is(change.value, text) && change.missed == missed;
        sb_guard_release(&change);
        return same;
}

/* The number of the key and of the value of a change. */
static unsigned number_of(struct sb_bytes bytes, size_t from)
{
        char text[24] = {0};

        if (bytes.len <= from || bytes.len - from >= sizeof(text))
                return UINT32_MAX;
        memcpy(text, (const char *)bytes.data + from, bytes.len - from);
        return (unsigned)strtoul(text, NULL, 10);
}

/* ---- what waits ---- */

static void test_the_first_changes_stay_whichever_keys_they_are_of(void)
{
        struct sb_watch *first = NULL, *second = NULL, *plain = NULL;
        struct sb_guard change = {0};

        BEGIN();
        CHECK(put(3, 1));
        CHECK_EQ(open_queue(bus, "n/", 16, &first), 0);
        CHECK_EQ(open_queue(bus, "n/", 16, &second), 0);
        CHECK_EQ(open_watch(bus, "n/", &plain), 0);
        CHECK(nothing(first));
        CHECK_EQ(sb_watch_dropped(first), 0);
        for (unsigned i = 0; i < 1000; i++)
                CHECK(put(i % 7, 100 + i));
        CHECK_EQ(sb_delete(bus, b("n/0"), SB_ANY_REV, NULL, NULL), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_watch_dropped(first), 1001 - 16);
        CHECK(gives(first, 0, 100, 0));
        CHECK(gives(first, 1, 101, 0));
        /* Room for two, and the second is of a key that is made now. */
        CHECK(put(9, 7));
        CHECK(put(10, 8));
        for (unsigned i = 0; i < 500; i++)
                CHECK(put(i % 3, i));
        world_prune(&world, bus);
        for (unsigned i = 2; i < 16; i++) {
                CHECK_EQ(sb_wait(bus, 0), 0);
                CHECK_EQ(sb_watch_next(first, 0, &change), 0);
                CHECK_EQ(number_of(change.value, 0), 100 + i);
                CHECK(change.missed == 0 &&
                        (i >= 7 || i == 3 ? (bool)change.old_value.data : !change.old_value.data));
                sb_guard_release(&change);
        }
        CHECK(gives(first, 9, 7, 985));
        CHECK(gives(first, 10, 8, 0));
        CHECK(nothing(first));
        CHECK_EQ(sb_watch_dropped(first), 985 + 500);
        CHECK_EQ(sb_watch_dropped(plain), 0);
        /* The other one has not read. */
        CHECK_EQ(sb_watch_dropped(second), 1503 - 16);
        CHECK(gives(second, 0, 100, 0));
        first = sb_watch_close(first);
        second = sb_watch_close(second);
        plain = sb_watch_close(plain);
        END();
}

/* Without a cut between them: which 16 are the first follows from where the watch stands. */
static void test_many_changes_of_one_cut_fill_a_queue_in_their_order(void)
{
        struct sb_watch *watch = NULL;
        struct seen seen[32];
        int count;

        BEGIN();
        CHECK_EQ(open_queue(bus, "n/", 16, &watch), 0);
        for (unsigned i = 0; i < 3000; i++)
                CHECK_EQ(sb_incr(bus, b(i % 2 ? "n/a" : "n/b"), 1, NULL, NULL, NULL), 0);
        world_prune(&world, bus);
        count = all_of(watch, seen, 16);
        CHECK_EQ(count, 16);
        CHECK(!order_breaks(seen, count));
        for (int i = 0; i < count; i++)
                CHECK(atoi(seen[i].value) <= 8);
        CHECK_EQ(sb_watch_dropped(watch), 3000 - 16);
        watch = sb_watch_close(watch);
        END();
}

static int write_both(unsigned first, unsigned count, unsigned value)
{
        struct sb_txn *txn = NULL;
        char name[16], text[16];
        int r = sb_txn_begin(bus, SB_SNAPSHOT, &txn);

        snprintf(text, sizeof(text), "%u", value);
        for (unsigned i = 0; i < count && r == 0; i++) {
                snprintf(name, sizeof(name), "n/%u", first + i);
                r = sb_txn_set(txn, b(name), b(text));
        }
        r = r != 0 ? r : sb_txn_commit(txn, NULL);
        sb_txn_end(txn);
        return r == 0 && !take_cut() ? -EPROTO : r;
}

static void test_a_transaction_waits_whole_or_is_dropped_whole(void)
{
        struct sb_watch *watch = NULL;
        struct seen seen[8];

        BEGIN();
        CHECK_EQ(open_queue(bus, "n/", 4, &watch), 0);
        CHECK(put(0, 1));
        CHECK_EQ(write_both(1, 3, 2), 0);
        CHECK_EQ(write_both(4, 2, 3), 0);
        CHECK(gives(watch, 0, 1, 0));
        CHECK_EQ(all_of(watch, seen, 8), 3);
        CHECK(seen[0].txn && seen[0].txn == seen[1].txn && seen[0].txn == seen[2].txn);
        CHECK_EQ(sb_watch_dropped(watch), 2);
        /* With room for one, one of two is dropped, and what comes behind it. */
        for (unsigned i = 0; i < 3; i++)
                CHECK(put(i, 10 + i));
        CHECK_EQ(write_both(4, 2, 5), 0);
        CHECK(put(7, 6));
        CHECK(gives(watch, 0, 10, 2));
        CHECK(gives(watch, 1, 11, 0));
        CHECK(gives(watch, 2, 12, 0));
        CHECK(nothing(watch));
        CHECK_EQ(sb_watch_dropped(watch), 5);
        /* One for which there is never room. */
        CHECK_EQ(write_both(0, 5, 9), 0);
        CHECK(nothing(watch));
        CHECK_EQ(sb_watch_dropped(watch), 10);
        CHECK_EQ(write_both(0, 4, 10), 0);
        CHECK_EQ(all_of(watch, seen, 8), 4);
        watch = sb_watch_close(watch);
        END();
}

/* ---- at random, beside a queue that is a list ---- */

#define ROOM_MAX 20u
struct queue {
        struct {
                unsigned key, value;
                uint64_t before; /* dropped, before it */
        } waiting[ROOM_MAX];
        unsigned room, count;
        uint64_t dropped, said;
        bool blocked; /* by a transaction, until the watch is asked */
};

static void queue_write(struct queue *queue, unsigned key, unsigned count, unsigned value)
{
        if (queue->blocked || queue->count + count > queue->room) {
                queue->dropped += count;
                queue->blocked = true;
                return;
        }
        for (unsigned i = 0; i < count; i++) {
                queue->waiting[queue->count].key = key + i;
                queue->waiting[queue->count].value = value;
                queue->waiting[queue->count++].before = queue->dropped;
        }
}

/* The first that waits is what the watch gives; what one transaction wrote comes in any order. */
static bool queue_agrees(struct queue *queue, struct sb_watch *watch)
{
        struct sb_guard change = {0};
        unsigned i, value, key;
        int r = sb_watch_next(watch, 0, &change);
        bool same;

        queue->blocked = false;
        if (queue->count == 0)
                return r == SB_E_TIMED_OUT;
        if (r != 0)
                return false;
        value = number_of(change.value, 0);
        key = number_of(change.key, 2);
        for (i = 0; i < queue->count && queue->waiting[i].key != key; i++)
                ;
        same = i < queue->count && queue->waiting[i].value == value &&
               queue->waiting[0].value == value &&
               change.missed == queue->waiting[0].before - queue->said;
        queue->said = queue->waiting[0].before;
        if (i < queue->count)
                memmove(&queue->waiting[i], &queue->waiting[i + 1],
                        (--queue->count - i) * sizeof(*queue->waiting));
        sb_guard_release(&change);
        return same;
}

static void test_a_queue_of_a_prefix_is_a_queue(void)
{
        static const unsigned rooms[] = {1, 2, 5, ROOM_MAX};
        unsigned seed = 4711, value = 0;

        for (unsigned round = 0; round < 8; round++) {
                struct queue queue = {.room = rooms[round % 4]};
                struct sb_watch *watch = NULL;

                BEGIN();
                CHECK_EQ(open_queue(bus, "n/", queue.room, &watch), 0);
                for (unsigned step = 0; step < 300; step++) {
                        unsigned what = (unsigned)rand_r(&seed) % 8;

                        for (unsigned n = what < 4 ? (unsigned)rand_r(&seed) % (3 * queue.room) : 0;
                                n > 0; n--) {
                                unsigned key = (unsigned)rand_r(&seed) % 12;

                                CHECK(put(key, ++value));
                                queue_write(&queue, key, 1, value);
                        }
                        if (what == 4) {
                                unsigned count = 2 + (unsigned)rand_r(&seed) % 3;

                                CHECK_EQ(write_both(what, count, ++value), 0);
                                queue_write(&queue, what, count, value);
                        }
                        for (unsigned n = what > 4 ? (unsigned)rand_r(&seed) % (2 * queue.room) : 0;
                                n > 0; n--)
                                CHECK(queue_agrees(&queue, watch));
                        if (step % 20 == 19 && !world.remote)
                                world_prune(&world, bus);
                        CHECK_EQ(sb_watch_dropped(watch), queue.dropped);
                        if (queue.count < queue.room)
                                queue.blocked = false;
                }
                watch = sb_watch_close(watch);
                END();
        }
}

/* ---- beside writers, and stopped ---- */

#define COUNTS 20000u
#define SPELL  100u
static _Atomic uint64_t all_given; /* to the reader, by now */
static _Atomic uint64_t all_made;  /* in this round */

static int make_change(struct sb_bus *own, unsigned key)
{
        char name[16];

        snprintf(name, sizeof(name), "n/%u", key);
        all_made++;
        return sb_incr(own, b(name), 1, NULL, NULL, NULL);
}

/* Of each spell of changes the reader is given one before the next begins: however the processors
 * are shared, it reads beside writers. One that was told of late, behind the cut of a run that had
 * room, takes that room: all of a spell may be dropped then, and another change is given. */
static void *write_keys(void *argument)
{
        struct sb_bus *own = argument;

        for (unsigned i = 0; i < COUNTS; i += SPELL) {
                uint64_t before = all_given;
                unsigned turns = 0;

                for (unsigned at = i; at < i + SPELL; at++)
                        if (make_change(own, at % 50))
                                return own;
                while (all_given == before) {
                        sched_yield();
                        if (++turns % 1024 == 0 && make_change(own, i % 50))
                                return own;
                }
        }
        return NULL;
}

static void test_beside_writers_every_change_of_a_prefix_is_given_or_counted(void)
{
        static const uint32_t rooms[] = {1, 3, 64, 100000};

        for (unsigned round = 0; round < 4; round++) {
                uint64_t given = 0, missed = 0, last[50] = {0};
                struct sb_watch *watch = NULL;
                struct sb_guard change = {0};
                struct sb_bus *writers[2];
                pthread_t threads[2];
                void *failed;
                int r;

                BEGIN();
                all_made = 0;
                CHECK_EQ(open_queue(bus, "n/", rooms[round], &watch), 0);
                for (unsigned i = 0; i < 2; i++) {
                        writers[i] = world_bus(&world);
                        CHECK(writers[i]);
                        CHECK_EQ(pthread_create(&threads[i], NULL, write_keys, writers[i]), 0);
                }
                for (unsigned ended = 0; ended < 2;) {
                        unsigned key;

                        r = sb_watch_next(watch, 0, &change);
                        if (r == SB_E_TIMED_OUT && !pthread_tryjoin_np(threads[ended], &failed)) {
                                CHECK(!failed);
                                ended++;
                        }
                        if (r == SB_E_TIMED_OUT)
                                continue;
                        CHECK_EQ(r, 0);
                        key = number_of(change.key, 2);
                        CHECK(key < 50 && change.rev > last[key]);
                        CHECK_EQ(number_of(change.value, 0), change.rev);
                        CHECK(change.rev == 1 || change.old_value.data);
                        last[key] = change.rev;
                        missed += change.missed;
                        given++;
                        all_given++;
                        sb_guard_release(&change);
                }
                while (!(r = sb_watch_next(watch, 0, &change))) {
                        given++;
                        missed += change.missed;
                        sb_guard_release(&change);
                }
                CHECK_EQ(r, SB_E_TIMED_OUT);
                printf("# room for %u: %llu given, %llu dropped\n", rooms[round],
                        (unsigned long long)given, (unsigned long long)sb_watch_dropped(watch));
                CHECK_EQ(given + sb_watch_dropped(watch), all_made);
                CHECK(missed <= sb_watch_dropped(watch));
                CHECK(rooms[round] < 2 * COUNTS || given == all_made);
                CHECK(given >= COUNTS / SPELL);
                for (unsigned i = 0; i < 2; i++)
                        writers[i] = sb_close(writers[i]);
                watch = sb_watch_close(watch);
                END();
        }
}

static _Atomic bool writes, rests;

static void *write_one(void *argument)
{
        for (rests = true; all_given != UINT64_MAX; rests = !writes)
                if (writes && sb_incr(argument, b("n/1"), 1, NULL, NULL, NULL))
                        return argument;
        return NULL;
}

/* What one queue gives that is opened beside the writer. Revisions of its one key say what is
 * missing. */
static void open_beside(uint64_t after)
{
        struct sb_watch_options how = {.size = sizeof(how),
                .flags = SB_PREFIX | SB_BUFFERED | (after ? SB_AFTER_CUT : 0),
                .after = after ? after : SB_ANY_REV,
                .depth = 2};
        uint64_t first = 0, last = 0, given = 0, missed = 0;
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        int r;

        rests = false;
        writes = true;
        CHECK_EQ(sb_watch_open_at(bus, b("n/"), &how, &watch), 0);
        for (unsigned looks = 0; looks < 20; looks++) {
                while ((r = sb_watch_next(watch, 0, &change)) != SB_E_TIMED_OUT) {
                        CHECK(r == 0 || r == SB_E_LAPPED);
                        if (r == SB_E_LAPPED) /* it begins anew */
                                first = missed = given = 0;
                        if (r == SB_E_LAPPED)
                                continue;
                        first = first ? first : change.rev;
                        missed += given++ ? change.missed : 0;
                        last = change.rev;
                        sb_guard_release(&change);
                        if (writes)
                                break;
                }
                if (looks == 4) {
                        for (writes = false; !rests;)
                                sched_yield();
                        looks = 17;
                }
                if (looks == 18) /* it says what was dropped before it */
                        CHECK_EQ(sb_incr(bus, b("n/1"), 1, NULL, NULL, NULL), 0);
        }
        if (given + missed < last - first + 1)
                TEST_FAIL("revisions %lu to %lu, of which %lu were given and %lu missed",
                        (unsigned long)first, (unsigned long)last, (unsigned long)given,
                        (unsigned long)missed);
        CHECK(!sb_watch_close(watch));
}

static void test_a_queue_that_is_opened_beside_a_writer_skips_nothing_in_silence(void)
{
        struct sb_guard guard = {0};
        struct sb_bus *writer;
        pthread_t thread;
        uint64_t old = 0;
        void *failed;

        BEGIN();
        writer = world_bus(&world);
        CHECK(writer && !sb_incr(bus, b("n/1"), 1, NULL, NULL, NULL));
        all_given = 0;
        CHECK_EQ(pthread_create(&thread, NULL, write_one, writer), 0);
        /* From now on; after a cut of now; and after one that is gone, so that it begins again. */
        for (unsigned round = 0; round < 1500; round++) {
                CHECK_EQ(sb_get(bus, b("n/1"), &guard), 0);
                old = old ? old : guard.cut;
                open_beside(round % 6 == 0 ? 0 : round % 3 ? guard.cut : old);
                sb_guard_release(&guard);
        }
        all_given = UINT64_MAX;
        CHECK(!pthread_join(thread, &failed) && !failed);
        sb_close(writer);
        END();
}

/* Of a reader that stands still the bus keeps as many as there was room for, and what the ring of
 * its prefix holds. */
static void test_a_queue_that_is_not_read_keeps_no_more_than_its_room(void)
{
        static const unsigned value_len = 4000, ring_max = 200;
        static char value[4000];
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        uint64_t before;

        BEGIN();
        CHECK_EQ(open_queue(bus, "n/", 20, &watch), 0);
        for (unsigned i = 0; i < 1000; i++)
                CHECK_EQ(sb_set(bus, b("n/k"), (struct sb_bytes){value, value_len}, NULL, NULL), 0);
        world_prune(&world, bus);
        before = free_bytes();
        CHECK(before > 16 * MIB - (uint64_t)(ring_max + 20) * 2 * value_len - 4 * MIB);
        for (unsigned i = 0; i < 4000; i++)
                CHECK_EQ(sb_set(bus, b("n/k"), (struct sb_bytes){value, value_len}, NULL, NULL), 0);
        CHECK(comes_to_free(before - MIB));
        for (unsigned i = 0; i < 20; i++) {
                CHECK_EQ(sb_watch_next(watch, 0, &change), 0);
                CHECK(change.rev == i + 1 && change.missed == 0);
                sb_guard_release(&change);
        }
        CHECK(nothing(watch));
        CHECK_EQ(sb_watch_dropped(watch), 5000 - 20);
        watch = sb_watch_close(watch);
        CHECK(ends_unattended());
        END();
}

/* Set three keys in turn, so often, to large values: the memory ends. */
static bool set_large(unsigned count)
{
        static char value[100000];
        char name[16];

        for (unsigned i = 0; i < count; i++) {
                snprintf(name, sizeof(name), "n/%u", i % 3);
                if (sb_set(bus, b(name), (struct sb_bytes){value, sizeof(value)}, NULL, NULL))
                        return false;
        }
        return true;
}

/* Take what waits of such values, few of which are left. *ret_missed: as the changes say it. */
static bool takes_large(struct sb_watch *watch, uint64_t *ret_given, uint64_t *ret_missed)
{
        struct sb_guard change = {0};
        bool well = true;
        int r;

        *ret_given = *ret_missed = 0;
        while (!(r = sb_watch_next(watch, 0, &change))) {
                well = well && change.value.len == 100000;
                ++*ret_given;
                *ret_missed += change.missed;
                sb_guard_release(&change);
        }
        return well && r == SB_E_TIMED_OUT && *ret_given < 200;
}

/* What waits goes before a write says that the bus is full, and is counted: of @count changes in a
 * queue with room for 1,000. */
static void check_short(unsigned count)
{
        struct sb_watch *watch = NULL;
        uint64_t given, missed;

        BEGIN();
        CHECK_EQ(open_queue(bus, "n/", 1000, &watch), 0);
        CHECK(set_large(count) && takes_large(watch, &given, &missed));
        CHECK_EQ(given + sb_watch_dropped(watch), count);
        CHECK(missed <= sb_watch_dropped(watch));
        /* There is memory again. */
        CHECK(put(7, 7));
        CHECK(gives(watch, 7, 7, sb_watch_dropped(watch) - missed));
        watch = sb_watch_close(watch);
        END();
}

static void test_where_memory_is_short_what_waited_is_counted(void)
{
        check_short(1000);
}

/* What was there, in room that there was, and is gone counts, too. */
static void test_where_memory_is_short_and_there_is_room_what_waited_is_counted(void)
{
        check_short(500);
}

/* A delete that waits, of a key that is forgotten meanwhile, because memory is short. */
static void test_where_memory_is_short_a_delete_that_waits_is_given_or_counted(void)
{
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};
        unsigned given = 0;
        char name[16];
        int r = 0;

        BEGIN();
        CHECK_EQ(open_queue(bus, "n/", 100, &watch), 0);
        CHECK(put(1, 1) && put(2, 2));
        CHECK(sb_delete(bus, b("n/2"), SB_ANY_REV, NULL, NULL) == 0 && take_cut());
        CHECK(put(3, 3));
        CHECK(gives(watch, 1, 1, 0));
        for (unsigned i = 0; i < 1000000; i++) {
                snprintf(name, sizeof(name), "f/%u", i);
                r = sb_set(bus, b(name), b("f"), NULL, NULL);
                if (r != 0)
                        break;
        }
        CHECK_EQ(r, SB_E_FULL);
        while (!(r = sb_watch_next(watch, 0, &change))) {
                CHECK(change.key.len == 3 && !memcmp(change.key.data, "n/", 2));
                given++;
                sb_guard_release(&change);
        }
        CHECK_EQ(r, SB_E_TIMED_OUT);
        CHECK_EQ(given + sb_watch_dropped(watch), 3);
        watch = sb_watch_close(watch);
        END();
}

static void test_a_queue_begins_after_a_cut_of_before(void)
{
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = SB_PREFIX | SB_BUFFERED | SB_AFTER_CUT, .depth = 3};
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 100};
        struct sb_watch *watch = NULL;
        uint64_t cut;

        BEGIN();
        CHECK_EQ(sb_keep(bus, b("n/"), SB_PREFIX, &rule), 0);
        CHECK_EQ(sb_set(bus, b("n/1"), b("0"), NULL, &how.after), 0);
        CHECK_EQ(sb_mark(bus, b("mark"), &cut), 0);
        how.after = cut;
        for (unsigned i = 0; i < 5; i++)
                CHECK(put(i, i));
        CHECK_EQ(sb_watch_open_at(bus, b("n/"), &how, &watch), 0);
        CHECK_EQ(sb_watch_cut(watch), cut);
        CHECK(put(7, 7));
        CHECK_EQ(sb_watch_dropped(watch), 3);
        CHECK(gives(watch, 0, 0, 0));
        CHECK(put(8, 8));
        CHECK(gives(watch, 1, 1, 0));
        CHECK(gives(watch, 2, 2, 0));
        CHECK(gives(watch, 8, 8, 3));
        CHECK(nothing(watch));
        watch = sb_watch_close(watch);
        CHECK_EQ(sb_mark_drop(bus, b("mark")), 0);
        END();
}

/* Where something since the cut is not kept any more, it says so once, and begins anew. */
static void test_a_queue_after_a_cut_that_is_not_kept_is_lapped_once(void)
{
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = SB_PREFIX | SB_BUFFERED | SB_AFTER_CUT, .depth = 3};
        struct sb_watch *watch = NULL;
        struct sb_guard change = {0};

        BEGIN();
        CHECK(put(1, 0));
        CHECK_EQ(sb_set(bus, b("n/1"), b("1"),
                         &(struct sb_write){.size = sizeof(struct sb_write), .ret_cut = &how.after},
                         NULL),
                0);
        for (unsigned i = 0; i < 50; i++)
                CHECK(put(1, i));
        world_prune(&world, bus);
        CHECK_EQ(sb_watch_open_at(bus, b("n/"), &how, &watch), 0);
        CHECK(put(2, 1));
        CHECK_EQ(sb_watch_next(watch, 0, &change), SB_E_LAPPED);
        CHECK(sb_watch_cut(watch) > how.after);
        for (unsigned i = 0; i < 5; i++)
                CHECK(put(i, 5 + i));
        CHECK(gives(watch, 0, 5, 0));
        CHECK(gives(watch, 1, 6, 0));
        CHECK(gives(watch, 2, 7, 0));
        CHECK(nothing(watch));
        CHECK_EQ(sb_watch_dropped(watch), 2);
        watch = sb_watch_close(watch);
        END();
}

/* As many cuts as watches may hold are held by others: then the rows keep it. */
static void test_the_cut_of_a_queue_that_was_lapped_is_kept_for_a_scan(void)
{
        enum { HELD = 16 };
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = SB_PREFIX | SB_BUFFERED | SB_AFTER_CUT, .depth = 3};
        struct sb_watch *watch = NULL, *holds[HELD];
        struct sb_scan_options at = {.size = sizeof(at)};
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;

        BEGIN();
        CHECK(put(1, 0));
        CHECK_EQ(sb_set(bus, b("n/1"), b("1"),
                         &(struct sb_write){.size = sizeof(struct sb_write), .ret_cut = &how.after},
                         NULL),
                0);
        for (unsigned i = 0; i < 50; i++)
                CHECK(put(1, i));
        world_prune(&world, bus);
        CHECK_EQ(sb_watch_open_at(bus, b("n/"), &how, &watch), 0);
        for (unsigned i = 0; i < HELD; i++)
                CHECK_EQ(open_watch(bus, "m/", &holds[i]), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &guard), SB_E_LAPPED);
        CHECK(put(1, 77));
        at.cut = sb_watch_cut(watch);
        CHECK_EQ(sb_scan_open_at(bus, b("n/"), &at, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(is(guard.key, "n/1") && is(guard.value, "49"));
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        sb_scan_close(scan);
        CHECK(gives(watch, 1, 77, 0));
        for (unsigned i = 0; i < HELD; i++)
                holds[i] = sb_watch_close(holds[i]);
        watch = sb_watch_close(watch);
        END();
}

/* ---- a depth ---- */

static void test_a_deeper_watch_of_a_prefix_has_its_depth_beside_others(void)
{
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = SB_PREFIX, .depth = 6000, .after = SB_ANY_REV};
        struct sb_watch *plain = NULL, *deep = NULL, *none = NULL;
        struct sb_guard change = {0};

        BEGIN();
        CHECK_EQ(open_watch(bus, "n/", &plain), 0);
        CHECK_EQ(sb_watch_open_at(bus, b("n/"), &how, &deep), 0);
        for (unsigned i = 0; i < 6000; i++)
                CHECK_EQ(sb_incr(bus, b(i % 2 ? "n/a" : "n/b"), 1, NULL, NULL, NULL), 0);
        world_prune(&world, bus);
        for (unsigned i = 0; i < 6000; i++) {
                CHECK_EQ(sb_watch_next(deep, 0, &change), 0);
                sb_guard_release(&change);
        }
        CHECK(nothing(deep));
        /* Each has its own. */
        CHECK_EQ(sb_watch_next(plain, 0, &change), SB_E_LAPPED);
        CHECK(nothing(plain));
        CHECK(put(1, 1));
        CHECK(gives(plain, 1, 1, 0));
        CHECK(gives(deep, 1, 1, 0));
        how.depth = UINT32_MAX;
        CHECK_EQ(sb_watch_open_at(bus, b("n/"), &how, &none), SB_E_FULL);
        how.depth = 4 << 20;
        CHECK_EQ(sb_watch_open_at(bus, b("n/"), &how, &none), SB_E_FULL);
        how.flags |= SB_BUFFERED;
        CHECK_EQ(sb_watch_open_at(bus, b("n/"), &how, &none), SB_E_FULL);
        CHECK(!none);
        CHECK(put(1, 2));
        CHECK(gives(deep, 1, 2, 0));
        deep = sb_watch_close(deep);
        plain = sb_watch_close(plain);
        CHECK(ends_unattended());
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_the_first_changes_stay_whichever_keys_they_are_of);
        RUN(test_many_changes_of_one_cut_fill_a_queue_in_their_order);
        RUN(test_a_transaction_waits_whole_or_is_dropped_whole);
        RUN(test_a_queue_of_a_prefix_is_a_queue);
        RUN(test_beside_writers_every_change_of_a_prefix_is_given_or_counted);
        RUN(test_a_queue_that_is_opened_beside_a_writer_skips_nothing_in_silence);
        RUN(test_a_queue_that_is_not_read_keeps_no_more_than_its_room);
        RUN(test_where_memory_is_short_what_waited_is_counted);
        RUN(test_where_memory_is_short_a_delete_that_waits_is_given_or_counted);
        RUN(test_where_memory_is_short_and_there_is_room_what_waited_is_counted);
        RUN(test_a_queue_begins_after_a_cut_of_before);
        RUN(test_a_queue_after_a_cut_that_is_not_kept_is_lapped_once);
        RUN(test_the_cut_of_a_queue_that_was_lapped_is_kept_for_a_scan);
        RUN(test_a_deeper_watch_of_a_prefix_has_its_depth_beside_others);
        return test_end();
}
