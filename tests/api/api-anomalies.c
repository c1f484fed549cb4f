/*
 * Anomalies that transactions must never show, and those that they may, for both isolations: an
 * interleaving forces each anomaly, or shows that it cannot be; then all interleavings of a few
 * transactions are searched for it. interleave.h describes how they are written.
 */
#include "tests/api/interleave.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

#define BEGIN() WORLD_BEGIN(16 << 20)
#define REQUIRE(...)                                                                               \
        do {                                                                                       \
                const char *why_ = (__VA_ARGS__);                                                  \
                if (why_)                                                                          \
                        TEST_FAIL("%s", why_);                                                     \
        } while (0)

static struct world world;
static struct sb_bus *bus;
static struct interleave_counts all;

/* Run @what on a bus of its own. */
static void under(uint32_t level, void (*what)(uint32_t level))
{
        BEGIN();
        CHECK(interleave_open(&world, bus));
        what(level);
        CHECK(interleave_close(&world));
        WORLD_END();
}

static void bank(uint32_t level)
{
        REQUIRE(interleave_run(
                level, "x50y50z50", "1b 1mxy20 2b 2t 1c 2t 2c 0t 1b 2b 1mxy5 2mzx5 2c 1c!x 0t"));
        REQUIRE(interleave_run(level, "x50y50z50", "3b 1b 1mxy50 1c 0rx0 3rx50 3t 3c"));
        REQUIRE(interleave_all(level, "x50y50z50", "b mxy5 c | b myz7 c | b t c", &all));
        CHECK_EQ(all.runs, 1680);
        CHECK(all.losers > 0 && all.skews == 0);
        CHECK(interleave_step("0t"));
}
static void test_bank_adds_up_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, bank);
}
static void test_bank_adds_up_under_serializability(void)
{
        under(SB_SERIALIZABLE, bank);
}

static void lost_update(uint32_t level)
{
        REQUIRE(interleave_run(level, "x1", "1b 2b 1rx1 2rx1 1wx11 2wx21 1c 2c!x 0rx11"));
        REQUIRE(interleave_run(level, "x1", "1b 2b 1wx11 2wx21 2c 1c!x 0rx21"));
        REQUIRE(interleave_run(level, "x1", "1b 1rx1 0wx2 1wx11 1c!x 0rx2"));
        REQUIRE(interleave_run(level, "", "1b 2b 1rx- 2rx- 1wx11 2wx21 1c 2c!x 0rx11"));
        REQUIRE(interleave_run(level, "x1", "1b 2b 1dx 2wx2 1c 2c!x 0rx-"));
        REQUIRE(interleave_run(level, "x1", "1b 2b 1dx 2wx2 2c 1c!x 0rx2"));
        REQUIRE(interleave_all(level, "x1", "b rx wx c | b rx wx c", &all));
        CHECK_EQ(all.runs, 70);
        CHECK(all.losers > 0 && all.skews == 0);
        REQUIRE(interleave_all(level, "", "b+rx wx c | b+rx wx c | b+wx c", &all));
        CHECK(all.losers > 0 && all.skews == 0);
}
static void test_lost_update_never_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, lost_update);
}
static void test_lost_update_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, lost_update);
}

static void read_skew(uint32_t level)
{
        REQUIRE(interleave_run(level, "x1y1", "1b 1rx1 2b 2wx2 2wy2 2c 1ry1 1rx1 1c 0rx2 0ry2"));
        REQUIRE(interleave_run(level, "x1y1", "1b 1rx1 0wx2 0wy2 1ry1 1s= 1c"));
        REQUIRE(interleave_run(
                level, "a1b1", "1b 1ra1 2b 2da 2db 2wc1 2c 1s=ab 1rb1 1rc- 1c 0s=c"));
        /* A transaction that also writes: what it read is out of date. */
        REQUIRE(interleave_run(level, "x1y1",
                level == SB_SNAPSHOT ? "1b 1rx1 2b 2wx2 2wy2 2c 1ry1 1wz1 1c 0rz1"
                                     : "1b 1rx1 2b 2wx2 2wy2 2c 1ry1 1wz1 1c!x 0rz-"));
        REQUIRE(interleave_all(level, "x1y1", "b rx ry c | b wx wy c", &all));
        CHECK_EQ(all.runs, 70);
        CHECK(all.losers == 0 && all.skews == 0);
}
static void test_read_skew_never_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, read_skew);
}
static void test_read_skew_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, read_skew);
}

static void dirty_read(uint32_t level)
{
        REQUIRE(interleave_run(level, "x1", "1b 1wx8 2b 2rx1 0rx1 1wx9 2rx1 0rx1 1c 2rx1 0rx9 2c"));
        REQUIRE(interleave_run(level, "x1", "1b 1wx8 1e 0rx1 1b 2b 2wx2 2c 1wx3 1c!x 0rx2"));
        REQUIRE(interleave_all(level, "x1y1", "b wx wy c | b wx wy c", &all));
        CHECK(all.losers > 0 && all.skews == 0);
        REQUIRE(interleave_all(level, "x1", "b rx wx wx c | b wx+wx c | b+rx c", &all));
        CHECK(all.losers > 0 && all.skews == 0);
}
static void test_dirty_read_never_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, dirty_read);
}
static void test_dirty_read_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, dirty_read);
}

static void long_fork(uint32_t level)
{
        REQUIRE(interleave_run(
                level, "x0y0", "1b 2b 1wx1 2wy1 1c 3b 2c 4b 3rx1 3ry0 4rx1 4ry1 3c 4c 0rx1 0ry1"));
        REQUIRE(interleave_run(level, "x0y0", "3b 0wx1 4b 0wy1 3rx0 3ry0 4ry0 4rx1 3c 4c"));
        REQUIRE(interleave_all(level, "x0y0", "b+wx c | b+wy c | b+rx ry+c | b+ry rx+c", &all));
        CHECK_EQ(all.runs, 2520);
        CHECK(all.losers == 0 && all.skews == 0);
}
static void test_long_fork_never_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, long_fork);
}
static void test_long_fork_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, long_fork);
}

static void write_skew(uint32_t level)
{
        /* Both transactions may draw on the sum of x and y; each leaves it at 0. */
        REQUIRE(interleave_run(level, "x50y50",
                level == SB_SNAPSHOT
                        ? "1b 2b 1rx50 1ry50 2rx50 2ry50 1wx-50 2wy-50 1c 2c 0rx-50 0ry-50"
                        : "1b 2b 1rx50 1ry50 2rx50 2ry50 1wx-50 2wy-50 1c 2c!x 0rx-50 0ry50"));
        REQUIRE(interleave_run(level, "",
                level == SB_SNAPSHOT ? "1b 2b 1rx- 2ry- 1wy1 2wx1 1c 2c"
                                     : "1b 2b 1rx- 2ry- 1wy1 2wx1 1c 2c!y"));
        REQUIRE(interleave_run(level, "x1y1",
                level == SB_SNAPSHOT ? "1b 2b 1rx1 2ry1 1dy 2dx 1c 2c 0rx- 0ry-"
                                     : "1b 2b 1rx1 2ry1 1dy 2dx 1c 2c!y 0ry-"));
        REQUIRE(interleave_all(level, "x50y50", "b rx ry wx c | b rx ry wy c", &all));
        CHECK_EQ(all.runs, 252);
        CHECK((all.skews > 0) == (level == SB_SNAPSHOT));
        CHECK((all.losers > 0) == (level == SB_SERIALIZABLE));
        /* A cycle of three transactions, of which no two are in conflict with each other. */
        REQUIRE(interleave_all(level, "x1y1z1", "b+rx wy c | b+ry wz c | b+rz wx c", &all));
        CHECK((all.skews > 0) == (level == SB_SNAPSHOT));
}
static void test_write_skew_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, write_skew);
}
static void test_write_skew_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, write_skew);
}

static void phantom(uint32_t level)
{
        /* A scan that is repeated gives what it gave before. */
        REQUIRE(interleave_run(level, "a1", "1b 1s=a 0wb1 2b 2wc1 2da 2c 1s=a 1ra1 1c 0s=bc"));
        /* Both transactions see one key and make another, so that there are three. */
        REQUIRE(interleave_run(level, "a1",
                level == SB_SNAPSHOT ? "1b 2b 1s=a 2s=a 1wb1 2wc1 1c 2c 0s=abc"
                                     : "1b 2b 1s=a 2s=a 1wb1 2wc1 1c 2c!b 0s=ab"));
        REQUIRE(interleave_run(level, "a1b1",
                level == SB_SNAPSHOT ? "1b 2b 1s=ab 2s=ab 1da 2db 1c 2c 0s="
                                     : "1b 2b 1s=ab 2s=ab 1da 2db 1c 2c!a 0s=b"));
        REQUIRE(interleave_run(level, "a1",
                level == SB_SNAPSHOT ? "1b 1s=a 0wb1 1wx1 1c" : "1b 1s=a 0wb1 1wx1 1c!b"));
        /* A scan includes own writes, and what they cover is validated all the same. */
        REQUIRE(interleave_run(level, "a1b1", "1b 1wc1 1da 1s=bc 1c 0s=bc"));
        REQUIRE(interleave_run(level, "a1", "1b 1wb1 1s=ab 0wb2 1c!b 0s=ab"));
        REQUIRE(interleave_all(level, "a1", "b s wb c | b s wc c", &all));
        CHECK_EQ(all.runs, 70);
        CHECK((all.skews > 0) == (level == SB_SNAPSHOT));
        CHECK((all.losers > 0) == (level == SB_SERIALIZABLE));
}
static void test_phantom_skew_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, phantom);
}
static void test_phantom_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, phantom);
}

static void read_only_anomaly(uint32_t level)
{
        /* 1 pays 20 into y; 2 draws 10 from x, and 1 more because the sum would fall below 0, for
         * it does not see the 20; 3 sees the 20, and nothing drawn. */
        REQUIRE(interleave_run(level, "x0y0",
                level == SB_SNAPSHOT
                        ? "2b 2rx0 2ry0 1b 1ry0 1wy20 1c 3b 3rx0 3ry20 3c 2wx-11 2c 0rx-11 0ry20"
                        : "2b 2rx0 2ry0 1b 1ry0 1wy20 1c 3b 3rx0 3ry20 3c 2wx-11 2c!y 0rx0"));
        REQUIRE(interleave_all(level, "x0y0", "b ry wy+c | b rx+ry wx c | b rx+ry+c", &all));
        CHECK_EQ(all.runs, 1260);
        CHECK((all.skews > 0) == (level == SB_SNAPSHOT));
        /* Without the transaction that only reads there is no anomaly. */
        REQUIRE(interleave_all(level, "x0y0", "b ry wy+c | b rx+ry wx c", &all));
        CHECK_EQ(all.skews, 0);
}
static void test_read_only_anomaly_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, read_only_anomaly);
}
static void test_read_only_anomaly_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, read_only_anomaly);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_bank_adds_up_under_snapshot_isolation);
        RUN(test_bank_adds_up_under_serializability);
        RUN(test_lost_update_never_shows_under_snapshot_isolation);
        RUN(test_lost_update_never_shows_under_serializability);
        RUN(test_read_skew_never_shows_under_snapshot_isolation);
        RUN(test_read_skew_never_shows_under_serializability);
        RUN(test_dirty_read_never_shows_under_snapshot_isolation);
        RUN(test_dirty_read_never_shows_under_serializability);
        RUN(test_long_fork_never_shows_under_snapshot_isolation);
        RUN(test_long_fork_never_shows_under_serializability);
        RUN(test_write_skew_shows_under_snapshot_isolation);
        RUN(test_write_skew_never_shows_under_serializability);
        RUN(test_phantom_skew_shows_under_snapshot_isolation);
        RUN(test_phantom_never_shows_under_serializability);
        RUN(test_read_only_anomaly_shows_under_snapshot_isolation);
        RUN(test_read_only_anomaly_never_shows_under_serializability);
        return test_end();
}
