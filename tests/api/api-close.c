/* What comes from a bus may be ended before the bus or after it, in any order, and each takes its
 * part of the bus's memory with it. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/world.h"
#include "tests/harness/test.h"
#include "tests/unit/draw.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;

#define BEGIN()                                                                                    \
        do {                                                                                       \
                WORLD_BEGIN(8 * MIB);                                                              \
                CHECK_EQ(sb_set(bus, b("key"), b("value"), NULL, NULL), 0);                        \
                CHECK_EQ(sb_set(bus, b("more"), b("value"), NULL, NULL), 0);                       \
        } while (0)
#define END() WORLD_END()

static const struct sb_bytes all = {NULL, 0};

/* One of each kind that comes from a bus. */
enum part {
        QUICK,   /* the guard that a get takes first */
        SECOND,  /* and any other one */
        MANY,    /* two of a get of many */
        OWN,     /* a guard on a transaction's own write */
        SCANNED, /* the guard of a scan's step */
        PAST,    /* the guard of a history's step */
        CHANGED, /* the guard of a change, which holds two versions */
        CAME,    /* the guard of a change below a prefix */
        SCAN,
        TXN,
        TXN_SCAN,
        SPARE_TXN, /* a second one */
        HISTORY,
        WATCH,
        PREFIX_WATCH,
        BUS,
        PARTS
};

struct parts {
        struct sb_bus *bus;
        struct sb_txn *txn, *second;
        struct sb_scan *scan, *txn_scan;
        struct sb_history *history;
        struct sb_watch *watch, *prefix;
        struct sb_guard guards[SCAN], more[2];
};

static struct parts parts;

/* Open a bus, and make all that can come from one. Return: whether that worked. */
static bool make_parts(uint32_t isolation)
{
        struct sb_bytes keys[] = {b("key"), b("more")};

        memset(&parts, 0, sizeof(parts));
        parts.bus = world_bus(&world);
        return parts.bus && sb_get(parts.bus, b("key"), &parts.guards[QUICK]) == 0 &&
               sb_get(parts.bus, b("more"), &parts.guards[SECOND]) == 0 &&
               sb_get_many(parts.bus, keys, 2, parts.more) == 0 &&
               sb_txn_begin(parts.bus, isolation, &parts.txn) == 0 &&
               sb_txn_begin(parts.bus, isolation, &parts.second) == 0 &&
               sb_txn_set(parts.txn, b("key"), b("mine")) == 0 &&
               sb_txn_get(parts.txn, b("key"), &parts.guards[OWN]) == 0 &&
               sb_scan_open(parts.bus, NULL, all, &parts.scan) == 0 &&
               sb_scan_next(parts.scan, &parts.guards[SCANNED]) == 0 &&
               sb_scan_open(parts.bus, parts.txn, all, &parts.txn_scan) == 0 &&
               sb_history_open(parts.bus, b("key"), 0, &parts.history) == 0 &&
               sb_history_next(parts.history, &parts.guards[PAST], NULL) == 0 &&
               sb_watch_open(parts.bus, b("more"), 0, SB_ANY_REV, &parts.watch) == 0 &&
               sb_watch_open(parts.bus, b("mo"), SB_PREFIX, SB_ANY_REV, &parts.prefix) == 0 &&
               sb_set(bus, b("more"), b("value"), NULL, NULL) == 0 &&
               sb_set(bus, b("more"), b("value"), NULL, NULL) == 0 &&
               sb_watch_next(parts.watch, 0, &parts.guards[CHANGED]) == 0 &&
               sb_watch_next(parts.prefix, 0, &parts.guards[CAME]) == 0 &&
               parts.guards[CHANGED].old_value.len == 5;
}

/* End one part. Return: whether its end said what it should. */
static bool end_part(unsigned part)
{
        struct sb_guard copy;

        switch (part) {
        case SCAN:
                return !sb_scan_close(parts.scan);
        case TXN:
                return !sb_txn_end(parts.txn);
        case TXN_SCAN:
                return !sb_scan_close(parts.txn_scan);
        case SPARE_TXN:
                return !sb_txn_end(parts.second);
        case HISTORY:
                return !sb_history_close(parts.history);
        case WATCH:
                return !sb_watch_close(parts.watch);
        case PREFIX_WATCH:
                return !sb_watch_close(parts.prefix);
        case BUS:
                return !(parts.bus = sb_close(parts.bus));
        case MANY:
                sb_guard_release(&parts.more[0]);
                sb_guard_release(&parts.more[1]);
                return !parts.more[0].bus && !parts.more[1].bus;
        default:
                copy = parts.guards[part];
                sb_guard_release(&parts.guards[part]);
                sb_guard_release(&parts.guards[part]);
                /* The bus lasts as long as there is a guard that was not released. */
                if (parts.more[1].bus)
                        sb_guard_release(&copy);
                return !parts.guards[part].bus;
        }
}

static void test_each_part_may_end_before_its_bus_and_after_it(void)
{
        BEGIN();
        for (unsigned part = 0; part < BUS; part++)
                for (unsigned after = 0; after < 2; after++) {
                        CHECK(make_parts(SB_SERIALIZABLE));
                        if (after)
                                CHECK(end_part(BUS));
                        CHECK(end_part(part));
                        if (!after)
                                CHECK(end_part(BUS));
                        for (unsigned other = 0; other < BUS; other++)
                                CHECK(other == part || end_part(other));
                }
        END();
}

static void test_parts_may_end_in_any_order(void)
{
        BEGIN();
        draw_state = 1;
        for (unsigned round = 0; round < 300; round++) {
                unsigned order[PARTS];

                for (unsigned i = 0; i < PARTS; i++) {
                        unsigned at = draw(i + 1);

                        order[i] = order[at];
                        order[at] = i;
                }
                CHECK(make_parts(round % 2 ? SB_SNAPSHOT : SB_SERIALIZABLE));
                for (unsigned i = 0; i < PARTS; i++)
                        CHECK(end_part(order[i]));
        }
        END();
}

/* What a function does that declares its variables in the given order. */
static int end_bus_last(void)
{
        sb_auto(sb_closep) struct sb_bus *own = world_bus(&world);
        sb_auto(sb_txn_endp) struct sb_txn *txn = NULL;
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        sb_auto(sb_history_closep) struct sb_history *history = NULL;
        sb_auto(sb_watch_closep) struct sb_watch *watch = NULL;
        sb_auto(sb_guard_release) struct sb_guard guard = {0}, mine = {0};
        int r = !own;

        r = r ? r : sb_get(own, b("key"), &guard);
        r = r ? r : sb_txn_begin(own, SB_SERIALIZABLE, &txn);
        r = r ? r : sb_txn_set(txn, b("key"), b("mine"));
        r = r ? r : sb_txn_get(txn, b("key"), &mine);
        r = r ? r : sb_scan_open(own, txn, all, &scan);
        r = r ? r : sb_watch_open(own, b("key"), 0, SB_ANY_REV, &watch);
        return r ? r : sb_history_open(own, b("key"), 0, &history);
}
static int end_bus_first(void)
{
        sb_auto(sb_guard_release) struct sb_guard guard = {0}, mine = {0};
        sb_auto(sb_watch_closep) struct sb_watch *watch = NULL;
        sb_auto(sb_history_closep) struct sb_history *history = NULL;
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        sb_auto(sb_txn_endp) struct sb_txn *txn = NULL;
        sb_auto(sb_closep) struct sb_bus *own = world_bus(&world);
        int r = !own;

        r = r ? r : sb_get(own, b("key"), &guard);
        r = r ? r : sb_txn_begin(own, SB_SERIALIZABLE, &txn);
        r = r ? r : sb_txn_set(txn, b("key"), b("mine"));
        r = r ? r : sb_txn_get(txn, b("key"), &mine);
        r = r ? r : sb_scan_open(own, txn, all, &scan);
        r = r ? r : sb_watch_open(own, b("key"), 0, SB_ANY_REV, &watch);
        return r ? r : sb_history_open(own, b("key"), 0, &history);
}

static void test_sb_auto_may_end_the_bus_first_or_last(void)
{
        BEGIN();
        for (unsigned i = 0; i < 20; i++) {
                CHECK_EQ(end_bus_last(), 0);
                CHECK_EQ(end_bus_first(), 0);
        }
        END();
}

static void test_what_is_left_of_a_closed_bus_can_only_be_ended(void)
{
        struct sb_guard guard = {0};
        struct sb_bytes conflict;

        BEGIN();
        CHECK(make_parts(SB_SERIALIZABLE));
        CHECK(end_part(BUS));
        CHECK_EQ(sb_scan_next(parts.scan, &guard), SB_E_DETACHED);
        CHECK_EQ(sb_scan_prev(parts.txn_scan, &guard), SB_E_DETACHED);
        CHECK_EQ(sb_history_next(parts.history, &guard, NULL), SB_E_DETACHED);
        CHECK_EQ(sb_watch_next(parts.watch, SB_FOREVER, &guard), SB_E_DETACHED);
        CHECK_EQ(sb_watch_next(parts.prefix, SB_FOREVER, &guard), SB_E_DETACHED);
        CHECK_EQ(sb_txn_get(parts.txn, b("key"), &guard), SB_E_DETACHED);
        CHECK_EQ(sb_txn_set(parts.txn, b("key"), b("v")), SB_E_DETACHED);
        CHECK_EQ(sb_txn_commit(parts.txn, NULL), SB_E_DETACHED);
        CHECK(sb_txn_cut(parts.txn) > 0 && sb_scan_cut(parts.scan) > 0);
        conflict = sb_txn_conflict(parts.txn);
        CHECK(!conflict.data && !guard.bus);
        for (unsigned part = 0; part < BUS; part++)
                CHECK(end_part(part));
        END();
}

#define GUARDS_MAX 65536u
static struct sb_guard many[GUARDS_MAX];

static void test_65536_guards_may_be_released_after_their_bus(void)
{
        struct sb_bus *other;

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        for (unsigned i = 0; i < GUARDS_MAX; i++)
                CHECK_EQ(sb_get(other, b("key"), &many[i]), 0);
        CHECK(!sb_close(other));
        /* Its record is free, though none was released. */
        for (unsigned i = 0; i < 7; i++)
                CHECK((other = world_bus(&world)) && !sb_close(other));
        for (unsigned i = 0; i < GUARDS_MAX; i++)
                sb_guard_release(&many[i ^ 1]);
        END();
}

/* All of them at once, of which one is kept for single reads until it is the last. */
static void test_65536_guards_may_come_in_batches(void)
{
        static struct sb_bytes keys[GUARDS_MAX];
        struct sb_guard more = {0};
        struct sb_bus *other;

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        for (unsigned i = 0; i < GUARDS_MAX; i++)
                keys[i] = b("key");
        for (unsigned last = 0; last < 3; last++) {
                CHECK_EQ(sb_get_many(other, keys, GUARDS_MAX - last, many), 0);
                for (unsigned i = 0; i < last; i++)
                        CHECK_EQ(sb_get_many(other, keys, 1, &many[GUARDS_MAX - last + i]), 0);
                CHECK_EQ(sb_get_many(other, keys, 1, &more), SB_E_FULL);
                CHECK_EQ(sb_get(other, b("key"), &more), SB_E_FULL);
                CHECK(!more.bus);
                for (unsigned i = 0; i < GUARDS_MAX; i++)
                        CHECK(many[i].value.data == many[0].value.data && many[i].bus == other);
                sb_guard_release(&many[last]);
                CHECK_EQ(sb_get(other, b("key"), &many[last]), 0);
                CHECK_EQ(sb_get(other, b("key"), &more), SB_E_FULL);
                for (unsigned i = 0; i < GUARDS_MAX; i++)
                        sb_guard_release(&many[i]);
        }
        CHECK(!sb_close(other));
        END();
}

/* Three are open, and the bus ends before the first, behind the last, or in between. */
static void test_histories_of_a_bus_end_in_any_order(void)
{
        static const unsigned orders[6][3] = {
                {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

        BEGIN();
        for (unsigned order = 0; order < 6; order++)
                for (unsigned end = 0; end <= 4; end++) {
                        struct sb_bus *other = world_bus(&world);
                        struct sb_history *histories[3], *more;
                        struct sb_guard guard = {0};

                        CHECK(other);
                        for (unsigned i = 0; i < 3; i++)
                                CHECK_EQ(sb_history_open(other, b("key"), 0, &histories[i]), 0);
                        for (unsigned i = 0; i < 3; i++) {
                                struct sb_history *next = histories[orders[order][i]];

                                if (i == end)
                                        CHECK(!sb_close(other));
                                CHECK_EQ(sb_history_next(next, &guard, NULL),
                                        i < end ? 0 : SB_E_DETACHED);
                                sb_guard_release(&guard);
                                CHECK(!sb_history_close(next));
                        }
                        if (end < 3)
                                continue;
                        CHECK_EQ(sb_history_open(other, b("key"), 0, &more), 0);
                        if (end == 3)
                                CHECK(!sb_history_close(more));
                        CHECK(!sb_close(other));
                        if (end == 4)
                                CHECK(!sb_history_close(more));
                }
        END();
}

static void test_a_forked_child_may_end_all_in_any_order(void)
{
        BEGIN();
        for (unsigned first = 0; first < PARTS; first++) {
                pid_t pid;
                int status;

                CHECK(make_parts(SB_SERIALIZABLE));
                pid = fork();
                if (pid == 0) {
                        bool well = end_part(first);

                        for (unsigned part = PARTS; part-- > 0;)
                                well = well && (part == first || end_part(part));
                        _exit(!well);
                }
                CHECK(waitpid(pid, &status, 0) == pid);
                CHECK_EQ(status, 0);
                CHECK(parts.guards[QUICK].value.len == 5 &&
                        !memcmp(parts.guards[QUICK].value.data, "value", 5));
                for (unsigned part = 0; part < PARTS; part++)
                        CHECK(end_part(part));
        }
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_each_part_may_end_before_its_bus_and_after_it);
        RUN(test_parts_may_end_in_any_order);
        RUN(test_sb_auto_may_end_the_bus_first_or_last);
        RUN(test_what_is_left_of_a_closed_bus_can_only_be_ended);
        RUN(test_65536_guards_may_be_released_after_their_bus);
        RUN(test_65536_guards_may_come_in_batches);
        RUN(test_histories_of_a_bus_end_in_any_order);
        RUN(test_a_forked_child_may_end_all_in_any_order);
        return test_end();
}
