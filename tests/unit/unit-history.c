/*
 * The judge of histories finds what is wrong: made-up histories with one anomaly each, and long
 * ones in which only one operation is wrong.
 *
 * A history is written as a line. " | " stands between transactions; a transaction is operations
 * such as "rx1" (it read version 1 of x), "wy2" (it wrote version 2 of y) and "rx2=0" (it read
 * version 2 of x and saw that T0 wrote it). "!" in front of a transaction: it aborted; "?": its
 * outcome is unknown; "[3,7]": it began at 3 and ended at 7.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/harness/history/history.h"
#include "tests/harness/test.h"

static struct history_verdict verdict;

static void add_operation(struct history *history, uint32_t txn, const char **at)
{
        bool write = **at == 'w';
        uint64_t object = (uint64_t)(*at)[1], version;
        uint32_t writer = HISTORY_ANYONE;
        char *end;

        version = strtoull(*at + 2, &end, 10);
        if (*end == '=')
                writer = (uint32_t)strtoul(end + 1, &end, 10);
        if (write)
                history_write(history, txn, object, version);
        else
                history_read(history, txn, object, version, writer);
        *at = end;
}

static struct history *history_from(const char *at)
{
        struct history *history = history_make();

        while (*at) {
                enum history_outcome outcome = *at == '!'   ? HISTORY_ABORTED
                                               : *at == '?' ? HISTORY_UNKNOWN
                                                            : HISTORY_COMMITTED;
                uint64_t began = 0, ended = 0;
                uint32_t txn;
                char *end;

                at += outcome != HISTORY_COMMITTED;
                if (*at == '[') {
                        began = strtoull(at + 1, &end, 10);
                        ended = strtoull(end + 1, &end, 10);
                        at = end + 1;
                }
                for (txn = history_txn(history, outcome, began, ended); *at && *at != '|';)
                        if (*at == ' ')
                                at++;
                        else
                                add_operation(history, txn, &at);
                while (*at == '|' || *at == ' ')
                        at++;
        }
        return history;
}

/* The name that the judge gives the line at this level; "" when the level allows it. */
static const char *name_of(const char *line, enum history_level level)
{
        struct history *history = history_from(line);
        bool allowed = history_check(history, level, &verdict);

        history_unmake(history);
        if (allowed != (!verdict.anomaly))
                return "verdict and answer differ";
        return allowed ? "" : verdict.anomaly;
}

#define CHECK_STR(got, wanted)                                                                     \
        do {                                                                                       \
                const char *got_ = (got);                                                          \
                if (!got_ || strcmp(got_, (wanted)) != 0)                                          \
                        TEST_FAIL(                                                                 \
                                "\"%s\", not \"%s\": %s", got_ ? got_ : "", wanted, verdict.text); \
        } while (0)
#define CHECK_NAMED(line, snapshot, serializable)                                                  \
        do {                                                                                       \
                CHECK_STR(name_of(line, HISTORY_SNAPSHOT), snapshot);                              \
                CHECK_STR(name_of(line, HISTORY_SERIALIZABLE), serializable);                      \
        } while (0)

static void test_serial_histories_have_no_anomaly(void)
{
        CHECK_NAMED("", "", "");
        CHECK_NAMED("wx1", "", "");
        CHECK_NAMED("wx1 wy1 | rx1 ry1 wx2 | rx2 ry1 wy2", "", "");
        CHECK_NAMED("rx0 wy1 | wx1 | rx1 ry1", "", "");
        CHECK_EQ(verdict.txns, 3);
        CHECK_EQ(verdict.operations, 5);
}

static void test_gaps_in_the_numbers_are_no_anomaly(void)
{
        CHECK_NAMED("wx3 | rx3 wx7 | rx7", "", "");
}

static void test_writes_in_a_circle_are_g0(void)
{
        CHECK_NAMED("wx1 wy2 | wx2 wy1", "G0", "G0");
        CHECK(strstr(verdict.text, "T0 -ww 120-> T1") || strstr(verdict.text, "T1 -ww 121-> T0"));
}

static void test_reading_from_the_aborted_is_g1a(void)
{
        CHECK_NAMED("!wx1 | rx1", "G1a", "G1a");
        CHECK_NAMED("!wx1 | wx1 | rx1=0", "G1a", "G1a");
        CHECK_NAMED("!wx1 | wx1 | rx1=1", "", "");
        CHECK_NAMED("!wx1 | wx1 | rx1", "", "");
        CHECK_NAMED("!wx1 rx5 | wx1", "", "");
}

static void test_reading_what_its_writer_overwrote_is_g1b(void)
{
        CHECK_NAMED("wx1 wx2 | rx1", "G1b", "G1b");
        CHECK_NAMED("wx1 wx2 | rx2", "", "");
        CHECK_NAMED("wx1 | wx2 | rx1", "", "");
}

static void test_information_in_a_circle_is_g1c(void)
{
        CHECK_NAMED("wx1 ry1 | wy1 rx1", "G1c", "G1c");
        CHECK_NAMED("wx1 ry1 | wx2 wy1", "G1c", "G1c");
}

static void test_lost_update_and_read_skew_are_g_single(void)
{
        CHECK_NAMED("rx0 wx1 | rx0 wx2", "G-single", "G-single");
        CHECK_NAMED("wx1 wy1 | rx0 ry1", "G-single", "G-single");
        CHECK_NAMED("wx1 wy1 | rx1 ry1 wx2 wy2 | rx1 ry2", "G-single", "G-single");
        CHECK_NAMED("wx1 | rx0 rx1", "G-single", "G-single");
}

static void test_long_fork_is_not_snapshot_isolation(void)
{
        CHECK_NAMED("wx1 | wy1 | rx1 ry0 | rx0 ry1", "G-nonadjacent", "G-nonadjacent");
        CHECK_NAMED("wx1 | wy1 | rx1 ry0 | rx1 ry1", "", "");
}

static void test_write_skew_is_g2_item_and_snapshot_isolation(void)
{
        CHECK_NAMED("rx0 wy1 | ry0 wx1", "", "G2-item");
        CHECK_NAMED("rx0 ry0 wx1 | rx0 ry0 wy1", "", "G2-item");
        CHECK_NAMED("rx0 wy1 | ry0 wz1 | rz0 wx1", "", "G2-item");
}

static void test_read_only_anomaly_is_g2_item(void)
{
        /* Fekete, O'Neil and O'Neil, 2004: withdrawal, deposit, and a reader in between. */
        CHECK_NAMED("rx0 ry0 wx1 | ry0 wy1 | rx0 ry1", "", "G2-item");
        CHECK_NAMED("rx0 ry0 wx1 | ry0 wy1", "", "");
}

static void test_an_old_snapshot_is_an_anomaly_of_time_alone(void)
{
        CHECK_NAMED("[1,2]wx1 | [3,4]rx0", "G-single-rt", "G-single-rt");
        CHECK_NAMED("[1,3]wx1 | [2,4]rx0", "", "");
        CHECK_NAMED("[1,2]wx1 | [3,4]rx1", "", "");
        CHECK_NAMED("[3,4]wx1 | [1,2]rx1", "G1c-rt", "G1c-rt");
        CHECK_NAMED("[3,4]wx1 | [1,2]wx2", "G0-rt", "G0-rt");
        CHECK_NAMED("[1,9]rx0 wy1 | [2,3]wx1 | [4,5]ry0 wz1", "", "G2-item-rt");
}

static void test_the_unknown_counts_once_it_was_read(void)
{
        CHECK_NAMED("?wx1 wy1 | rx1 ry0", "G-single", "G-single");
        CHECK_NAMED("?wx1 wy1 | rx0 ry0", "", "");
        CHECK_NAMED("?wx1 | ?rx1 wy1 | ry1 rx0", "G-single", "G-single");
        CHECK_NAMED("?wx1 wy1 | wx1 | rx1=1 ry0", "", "");
        CHECK_NAMED("?wx1 wy1 | ry1=0 rx0", "G-single", "G-single");
}

static void test_what_cannot_be_is_said(void)
{
        CHECK_NAMED("rx1", "unwritten", "unwritten");
        CHECK_NAMED("wx1 | wy1 | rx1=1", "unwritten", "unwritten");
        CHECK_NAMED("wx1 | wx1", "unordered", "unordered");
}

/* ---- all short histories, by trying every order ---- */

#define SHORT_TXNS    4u
#define SHORT_OBJECTS 3u
#define SHORT_TRIES   40000u
#define NOT_DONE      UINT32_MAX

static uint64_t seed;

static uint32_t random_below(uint32_t bound)
{
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)((seed >> 33) % bound);
}

/* The version of each object that each transaction read and wrote; NOT_DONE: none. */
static uint32_t read_of[SHORT_TXNS][SHORT_OBJECTS], write_of[SHORT_TXNS][SHORT_OBJECTS];

/* Writers get versions in any order; a reader reads some version of another transaction. */
static void make_short(void)
{
        memset(read_of, 0xff, sizeof(read_of));
        memset(write_of, 0xff, sizeof(write_of));
        for (uint32_t object = 0; object < SHORT_OBJECTS; object++) {
                uint32_t first = random_below(SHORT_TXNS), step = random_below(2) * 2 + 1,
                         count = random_below(3), txn, i;

                for (i = 0; i < count; i++)
                        write_of[(first + i * step) % SHORT_TXNS][object] = i + 1;
                for (txn = 0; txn < SHORT_TXNS; txn++) {
                        uint32_t version = random_below(count + 1);

                        if (random_below(2) && version != write_of[txn][object])
                                read_of[txn][object] = version;
                }
        }
}

struct state {
        uint32_t now[SHORT_OBJECTS], seen[SHORT_TXNS][SHORT_OBJECTS];
        uint32_t begun, ended; /* one bit for each transaction */
};

static bool reads_fit(const struct state *state, uint32_t txn)
{
        for (uint32_t object = 0; object < SHORT_OBJECTS; object++)
                if (read_of[txn][object] != NOT_DONE && read_of[txn][object] != state->now[object])
                        return false;
        return true;
}

static bool commit_fits(struct state *state, uint32_t txn)
{
        for (uint32_t object = 0; object < SHORT_OBJECTS; object++) {
                if (write_of[txn][object] == NOT_DONE)
                        continue;
                if (state->now[object] != state->seen[txn][object] ||
                        write_of[txn][object] != state->now[object] + 1)
                        return false;
                state->now[object]++;
        }
        return true;
}

/* Whether some order of begins and ends explains the history, by the definition of each isolation;
 * @serial: each transaction ends before the next one begins. */
static bool explained(struct state state, bool serial)
{
        if (state.ended == (1u << SHORT_TXNS) - 1)
                return true;
        for (uint32_t txn = 0; txn < SHORT_TXNS; txn++) {
                struct state next = state;

                if (state.ended >> txn & 1)
                        continue;
                if (!(state.begun >> txn & 1)) {
                        if ((serial && state.begun != state.ended) || !reads_fit(&state, txn))
                                continue;
                        memcpy(next.seen[txn], state.now, sizeof(state.now));
                        next.begun |= 1u << txn;
                } else {
                        if (!commit_fits(&next, txn))
                                continue;
                        next.ended |= 1u << txn;
                }
                if (explained(next, serial))
                        return true;
        }
        return false;
}

static struct history *history_of_short(void)
{
        struct history *history = history_make();

        for (uint32_t txn = 0; txn < SHORT_TXNS; txn++) {
                history_txn(history, HISTORY_COMMITTED, 0, 0);
                for (uint32_t object = 0; object < SHORT_OBJECTS; object++) {
                        if (read_of[txn][object] != NOT_DONE)
                                history_read(
                                        history, txn, object, read_of[txn][object], HISTORY_ANYONE);
                        if (write_of[txn][object] != NOT_DONE)
                                history_write(history, txn, object, write_of[txn][object]);
                }
        }
        return history;
}

static void test_it_judges_as_trying_every_order_does(void)
{
        uint32_t i, serial = 0, snapshot = 0;

        seed = 11;
        for (i = 0; i < SHORT_TRIES; i++) {
                bool wanted[2], got[2];
                struct history *history;

                make_short();
                wanted[HISTORY_SNAPSHOT] = explained((struct state){0}, false);
                wanted[HISTORY_SERIALIZABLE] = explained((struct state){0}, true);
                history = history_of_short();
                got[HISTORY_SNAPSHOT] = history_check(history, HISTORY_SNAPSHOT, &verdict);
                got[HISTORY_SERIALIZABLE] = history_check(history, HISTORY_SERIALIZABLE, &verdict);
                history_unmake(history);
                serial += wanted[HISTORY_SERIALIZABLE];
                snapshot += wanted[HISTORY_SNAPSHOT];
                if (got[0] != wanted[0] || got[1] != wanted[1])
                        TEST_FAIL("try %u: %d and %d, not %d and %d: %s", i, got[0], got[1],
                                wanted[0], wanted[1], verdict.text);
        }
        TEST_NOTE("%u short histories: %u serializable, %u more of snapshot isolation", i, serial,
                snapshot - serial);
        CHECK(serial > SHORT_TRIES / 20 && snapshot > serial + SHORT_TRIES / 100 &&
                snapshot < SHORT_TRIES / 20 * 19);
}

/* ---- long histories ---- */

#define OBJECTS  256u
#define PER_TXN  4u
#define KEEP     64u /* a snapshot is at most this many commits old */
#define LONG_OPS 2000000u

/* The newest version of each object, and what the last commits overwrote. */
static struct {
        uint64_t version[OBJECTS];
        struct {
                uint32_t object;
                uint64_t commit; /* the commit that overwrote it */
                uint64_t version;
        } undo[KEEP * PER_TXN];
        uint64_t undo_count, commit;
} bus;

static uint64_t version_at(uint32_t object, uint64_t commit)
{
        uint64_t version = bus.version[object], i, oldest;

        oldest = bus.undo_count > KEEP * PER_TXN ? bus.undo_count - KEEP * PER_TXN : 0;
        for (i = bus.undo_count; i-- > oldest;)
                if (bus.undo[i % (KEEP * PER_TXN)].object == object &&
                        bus.undo[i % (KEEP * PER_TXN)].commit > commit)
                        version = bus.undo[i % (KEEP * PER_TXN)].version;
        return version;
}

static uint64_t overwrite(uint32_t object)
{
        uint64_t at = bus.undo_count++ % (KEEP * PER_TXN);

        bus.undo[at].object = object;
        bus.undo[at].commit = bus.commit;
        bus.undo[at].version = bus.version[object];
        return ++bus.version[object];
}

/* Make transactions of two reads and two writes. @age: how many commits old a snapshot may be; 0:
 * transactions are serial. The first committer wins, as snapshot isolation says. @wrong: the
 * transaction of which the first read is half the versions too old, or UINT32_MAX. */
static struct history *history_of(uint32_t operations, uint32_t age, uint32_t wrong)
{
        struct history *history = history_make();
        uint32_t done, i;

        memset(&bus, 0, sizeof(bus));
        seed = 7;
        for (done = 0; done < operations; done += PER_TXN) {
                uint64_t snapshot = bus.commit - (age ? random_below(age) : 0), versions[PER_TXN];
                uint32_t objects[PER_TXN], shift = random_below(PER_TXN), txn;
                bool conflict = false;

                if (snapshot > bus.commit)
                        snapshot = 0;
                for (i = 0; i < PER_TXN; i++) {
                        objects[i] =
                                random_below(OBJECTS / PER_TXN) * PER_TXN + (i + shift) % PER_TXN;
                        versions[i] =
                                age ? version_at(objects[i], snapshot) : bus.version[objects[i]];
                        conflict = conflict || (i >= 2 && versions[i] != bus.version[objects[i]]);
                }
                bus.commit++;
                txn = history_txn(history, conflict ? HISTORY_ABORTED : HISTORY_COMMITTED, 0, 0);
                if (txn >= wrong && versions[0] && !conflict) {
                        versions[0] /= 2;
                        wrong = UINT32_MAX;
                }
                for (i = 0; i < PER_TXN; i++) {
                        history_read(history, txn, objects[i], versions[i], HISTORY_ANYONE);
                        if (i >= 2)
                                history_write(history, txn, objects[i],
                                        conflict ? versions[i] + 1 : overwrite(objects[i]));
                }
        }
        return history;
}

static double seconds(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void test_two_million_operations_take_seconds(void)
{
        struct history *history = history_of(LONG_OPS / 3 * 2, 0, UINT32_MAX);
        double begin = seconds(), took;

        CHECK(history_check(history, HISTORY_SERIALIZABLE, &verdict));
        took = seconds() - begin;
        history_unmake(history);
        CHECK(verdict.operations >= LONG_OPS - 8);
        TEST_NOTE("%llu operations, %llu edges in %.2f s", (unsigned long long)verdict.operations,
                (unsigned long long)verdict.edges, took);
        CHECK(took < 30); /* a quadratic judge would take an hour */
}

static void test_a_long_snapshot_history_is_that_and_no_more(void)
{
        struct history *history = history_of(200000, KEEP / 2, UINT32_MAX);

        CHECK(history_check(history, HISTORY_SNAPSHOT, &verdict));
        CHECK(!history_check(history, HISTORY_SERIALIZABLE, &verdict));
        CHECK_STR(verdict.anomaly, "G2-item");
        history_unmake(history);
}

static void test_one_stale_read_in_a_long_history_is_found(void)
{
        struct history *history = history_of(200000, 0, 20000);

        CHECK(!history_check(history, HISTORY_SNAPSHOT, &verdict));
        CHECK_STR(verdict.anomaly, "G-single");
        history_unmake(history);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_serial_histories_have_no_anomaly);
        RUN(test_gaps_in_the_numbers_are_no_anomaly);
        RUN(test_writes_in_a_circle_are_g0);
        RUN(test_reading_from_the_aborted_is_g1a);
        RUN(test_reading_what_its_writer_overwrote_is_g1b);
        RUN(test_information_in_a_circle_is_g1c);
        RUN(test_lost_update_and_read_skew_are_g_single);
        RUN(test_long_fork_is_not_snapshot_isolation);
        RUN(test_write_skew_is_g2_item_and_snapshot_isolation);
        RUN(test_read_only_anomaly_is_g2_item);
        RUN(test_an_old_snapshot_is_an_anomaly_of_time_alone);
        RUN(test_the_unknown_counts_once_it_was_read);
        RUN(test_what_cannot_be_is_said);
        RUN(test_it_judges_as_trying_every_order_does);
        RUN(test_two_million_operations_take_seconds);
        RUN(test_a_long_snapshot_history_is_that_and_no_more);
        RUN(test_one_stale_read_in_a_long_history_is_found);
        return test_end();
}
