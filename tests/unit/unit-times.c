/*
 * The times of cuts, by which the rules of history go: what a span of time has let go stays let go,
 * however quickly or slowly the engine ticks, and not much more than the span is kept.
 */
#include "shm/base/os.h"
#include "shm/history/times.h"
#include "tests/unit/bus.h"

#define SECOND  UINT64_C(1000000000)
#define MILLI   UINT64_C(1000000)
#define CUT_MAX 20000u

static uint64_t now_ns, taken_ns[CUT_MAX], last_cut;

static uint64_t get_now(void *context)
{
        (void)context;
        return now_ns;
}

static bool begin(void)
{
        static struct sb_os os;

        if (!make_bus(1 << 20))
                return false;
        os = sb_os_linux;
        os.now_ns = get_now;
        writer.segment.os = &os;
        now_ns = 1000 * SECOND;
        last_cut = 1;
        return true;
}

static void tick(uint64_t after_ns)
{
        struct sb_moment now;

        now_ns += after_ns;
        last_cut++;
        taken_ns[last_cut] = now_ns;
        now = (struct sb_moment){.cut = last_cut, .realtime_ns = now_ns, .monotonic_ns = now_ns};
        sb_times_note(&writer.segment, &now);
}

/* How long ago the cut was taken that is a span's horizon, in nanoseconds; UINT64_MAX: there is
 * none. */
static uint64_t age_of(uint64_t span_ns, uint64_t *ret_cut)
{
        struct sb_moment moment = {0};

        *ret_cut = 0;
        if (!sb_times_horizon(&writer.segment, span_ns, &moment))
                return UINT64_MAX;
        *ret_cut = moment.cut;
        return now_ns - taken_ns[moment.cut];
}

static void test_what_a_span_let_go_stays_let_go(void)
{
        static const uint64_t spans[] = {
                MILLI, 50 * MILLI, 400 * MILLI, 2 * SECOND, 10 * SECOND, 20 * SECOND, 300 * SECOND};
        static const struct {
                uint64_t tick_ns;
                uint32_t count;
        } phases[] = {{160 * MILLI, 200}, {10 * MILLI, 500}, {1, 300}, {160 * MILLI, 300},
                {10 * MILLI, 1500}, {5 * SECOND, 200}, {30 * MILLI, 1000}};
        uint64_t before[sizeof spans / sizeof *spans] = {0}, cut;
        uint32_t back = 0, phase, i, n, found = 0;

        CHECK(begin());
        for (phase = 0; phase < sizeof phases / sizeof *phases; phase++)
                for (n = 0; n < phases[phase].count; n++) {
                        tick(phases[phase].tick_ns);
                        for (i = 0; i < sizeof spans / sizeof *spans; i++) {
                                found += age_of(spans[i], &cut) != UINT64_MAX;
                                back += cut < before[i];
                                before[i] = cut;
                        }
                }
        CHECK_EQ(back, 0);
        CHECK(found > 1000);
        unmake_bus();
}

static void test_little_more_than_a_span_is_kept(void)
{
        uint64_t cut, age;
        uint32_t n;

        CHECK(begin());
        for (n = 0; n < 10000; n++)
                tick(10 * MILLI);
        age = age_of(30 * MILLI, &cut);
        CHECK(age >= 30 * MILLI && age <= 40 * MILLI);
        age = age_of(5 * SECOND, &cut);
        CHECK(age >= 5 * SECOND && age <= 6 * SECOND + 10 * MILLI);
        /* Longer than the rings of 16 seconds, minutes and hours go back. */
        CHECK_EQ(age_of(3600 * 24 * SECOND, &cut), UINT64_MAX);
        unmake_bus();
}

/* Wherever in the table it lies. */
static void test_the_newest_cut_is_found_at_each_place(void)
{
        struct sb_moment moment;

        CHECK(begin());
        for (uint32_t n = 0; n < 3000; n++) {
                tick(7 * MILLI);
                CHECK(sb_times_before(&writer.segment, UINT64_MAX, &moment));
                CHECK_EQ(moment.cut, last_cut);
        }
        unmake_bus();
}

/* A clock that stands still, but for one time that this process was stopped for so long that what
 * it looks for was overwritten. */
static uint32_t asked;
static uint64_t get_late(void *context)
{
        (void)context;
        if (++asked == 2)
                for (uint32_t i = 0; i < 5000; i++)
                        tick(10 * MILLI);
        return now_ns;
}

static void test_a_process_that_was_stopped_while_it_looked_looks_again(void)
{
        struct sb_os os;
        uint64_t cut, age;

        CHECK(begin());
        for (uint32_t n = 0; n < 5000; n++)
                tick(10 * MILLI);
        os = *writer.segment.os;
        os.now_ns = get_late;
        writer.segment.os = &os;
        asked = 0;
        age = age_of(30 * MILLI, &cut);
        CHECK(age >= 30 * MILLI && age <= 40 * MILLI);
        CHECK_EQ(asked, 4);
        unmake_bus();
}

static uint64_t real_ns;
static uint64_t get_real(void *context)
{
        (void)context;
        return real_ns;
}

/* Which cut a real time finds; 0: none. */
static uint64_t cut_at(uint64_t realtime_ns)
{
        struct sb_moment moment = {0};

        return sb_times_at(&writer.segment, realtime_ns, &moment) ? moment.cut : 0;
}

/* A log has the time of each batch, and the machine's clock was set back in between, or is behind
 * all of them now. */
static void test_a_clock_that_was_set_back_loses_no_time_and_lets_nothing_go_early(void)
{
        struct sb_os os;
        uint64_t cut;

        CHECK(begin());
        os = *writer.segment.os;
        os.realtime_ns = get_real;
        writer.segment.os = &os;
        /* Ten seconds from 5000 on, then, an hour earlier by the clock, ten more. */
        real_ns = 1410 * SECOND;
        for (cut = 2; cut < 12; cut++)
                sb_times_load(&writer.segment, cut, (5000 + cut - 2) * SECOND);
        for (; cut < 22; cut++)
                sb_times_load(&writer.segment, cut, (1400 + cut - 12) * SECOND);
        CHECK_EQ(cut_at(5003 * SECOND), 21); /* the last one that is not later by its clock */
        CHECK_EQ(cut_at(1404 * SECOND), 16);
        CHECK_EQ(cut_at(1399 * SECOND), 0);
        taken_ns[16] = now_ns - 6 * SECOND;
        CHECK_EQ(age_of(5 * SECOND + SECOND / 2, &cut), 6 * SECOND);
        CHECK_EQ(cut, 16);
        unmake_bus();
        /* All of them lie in what is to come: they count as of now. */
        CHECK(begin());
        os = *writer.segment.os;
        os.realtime_ns = get_real;
        writer.segment.os = &os;
        real_ns = 100 * SECOND;
        for (cut = 2; cut < 12; cut++)
                sb_times_load(&writer.segment, cut, (5000 + cut) * SECOND);
        CHECK_EQ(age_of(SECOND, &cut), UINT64_MAX);
        CHECK_EQ(cut_at(5004 * SECOND), 4);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_what_a_span_let_go_stays_let_go);
        RUN(test_little_more_than_a_span_is_kept);
        RUN(test_the_newest_cut_is_found_at_each_place);
        RUN(test_a_process_that_was_stopped_while_it_looked_looks_again);
        RUN(test_a_clock_that_was_set_back_loses_no_time_and_lets_nothing_go_early);
        return test_end();
}
