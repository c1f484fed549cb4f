/*
 * What a CUT of agentctl's command line means, and how times and spans of time are said: zones,
 * fractions, far ends, bad input, numbers, names.
 *
 * No bus is needed: what a text means is decided before the bus is asked.
 */
#include <stdlib.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/moments.h"
#include "tests/harness/test.h"
#include "tests/unit/draw.h"

#define SECOND UINT64_C(1000000000)
#define MILLI  UINT64_C(1000000)
#define NOON   (1748779200 * SECOND) /* 2025-06-01T12:00:00Z */

static void set_zone(const char *zone)
{
        setenv("TZ", zone, 1);
        tzset();
}

/* The time that @text means, in nanoseconds; 0: it is no time. */
static uint64_t time_of(const char *text)
{
        uint64_t time_ns = 0;

        return cli_moment_of(text, &time_ns) == CLI_MOMENT_TIME ? time_ns : 0;
}

static bool is_name(const char *text)
{
        uint64_t time_ns;

        return cli_moment_of(text, &time_ns) == CLI_MOMENT_NAME;
}

/* The span that @text means, in nanoseconds; 0: it was refused. */
static uint64_t duration_of(const char *text)
{
        uint64_t ns = 0;

        return cli_duration(text, "test", &ns) == 0 ? ns : 0;
}

static void test_digits_alone_are_the_number_of_a_cut(void)
{
        static const char *const numbers[] = {"0", "1", "42", "007", "2025", "18446744073709551615",
                "18446744073709551616", "99999999999999999999999999"};
        uint64_t time_ns = 7;

        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
                CHECK_EQ(cli_moment_of(numbers[i], &time_ns), CLI_MOMENT_NUMBER);
        CHECK_EQ(time_ns, 7);
}

static void test_seconds_since_1970_stand_behind_an_at_sign(void)
{
        CHECK_EQ(time_of("@1"), SECOND);
        CHECK_EQ(time_of("@1748779200"), NOON);
        CHECK_EQ(time_of("@0001748779200"), NOON);
}

static void test_fractions_of_a_second_count_to_the_nanosecond(void)
{
        CHECK_EQ(time_of("@0.000000001"), 1);
        CHECK_EQ(time_of("@1748779200.25"), NOON + 250 * MILLI);
        CHECK_EQ(time_of("@1748779200.123456789"), NOON + 123456789);
        CHECK_EQ(time_of("@1748779200.1234567899999"), NOON + 123456789);
        CHECK_EQ(time_of("@1748779200."), NOON);
        CHECK_EQ(time_of("2025-06-01T12:00:00.25Z"), NOON + 250 * MILLI);
        CHECK_EQ(time_of("2025-06-01T12:00:00,25Z"), NOON + 250 * MILLI);
        CHECK_EQ(time_of("2025-06-01T12:00:00.1234567899999Z"), NOON + 123456789);
        CHECK_EQ(time_of("2025-06-01T12:00:00.25+00:00"), NOON + 250 * MILLI);
}

static void test_a_zone_is_subtracted_whatever_the_local_one_is(void)
{
        static const char *const zones[] = {"UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "EST5"};

        for (size_t i = 0; i < sizeof zones / sizeof *zones; i++) {
                set_zone(zones[i]);
                CHECK_EQ(time_of("2025-06-01T12:00:00Z"), NOON);
                CHECK_EQ(time_of("2025-06-01 12:00:00Z"), NOON);
                CHECK_EQ(time_of("2025-06-01T12:00Z"), NOON);
                CHECK_EQ(time_of("2025-06-01 12:00Z"), NOON);
                CHECK_EQ(time_of("2025-06-01T14:00:00+02:00"), NOON);
                CHECK_EQ(time_of("2025-06-01T06:30-05:30"), NOON);
                CHECK_EQ(time_of("2025-06-02T11:59:00+23:59"), NOON);
                CHECK_EQ(time_of("2025-06-01Z"), NOON - 12 * 3600 * SECOND);
                CHECK_EQ(time_of("2025-06-01+12:00"), NOON - 24 * 3600 * SECOND);
        }
}

static void test_without_a_zone_a_time_is_local(void)
{
        set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
        CHECK_EQ(time_of("2025-06-01T14:00:00"), NOON);
        CHECK_EQ(time_of("2025-06-01T14:00"), NOON);
        CHECK_EQ(time_of("2025-06-01 14:00:00.5"), NOON + 500 * MILLI);
        CHECK_EQ(time_of("2025-06-01"), NOON - 14 * 3600 * SECOND);
        /* In winter the same zone is one hour from UTC. */
        CHECK_EQ(time_of("2025-01-01T01:00:00"), time_of("2025-01-01T00:00:00Z"));
        set_zone("EST5");
        CHECK_EQ(time_of("2025-06-01T07:00:00"), NOON);
}

static void test_a_time_too_far_off_is_the_end_of_time_and_no_name(void)
{
        CHECK(time_of("@18446744073.709551615") == UINT64_MAX);
        CHECK(time_of("@18446744073.709551614") == UINT64_MAX - 1);
        CHECK(time_of("@18446744073.709551616") == UINT64_MAX);
        CHECK(time_of("@18446744074") == UINT64_MAX);
        CHECK(time_of("@18446744073709551616") == UINT64_MAX);
        CHECK(time_of("@99999999999999999999999999.5") == UINT64_MAX);
        CHECK(time_of("2554-07-21T23:34:33Z") == 18446744073 * SECOND);
        CHECK(time_of("2554-07-21T23:34:33.709551616Z") == UINT64_MAX);
        CHECK(time_of("9999-12-31T23:59:59Z") == UINT64_MAX);
}

/* Whether a date is before 1970 can depend on the time zone; whether it is a date must not. */
static void test_a_date_before_1970_is_a_time_before_all_notes_in_every_zone(void)
{
        static const char *const dates[] = {"1969-12-31T23:59:59Z", "1970-01-01T00:00:00+00:01",
                "1969-12-31", "5-1-1", "0000-01-01"};
        static const char *const zones[] = {"UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "EST5"};

        for (size_t z = 0; z < sizeof zones / sizeof *zones; z++) {
                set_zone(zones[z]);
                for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
                        uint64_t time_ns = 7;

                        CHECK_EQ(cli_moment_of(dates[i], &time_ns), CLI_MOMENT_TIME);
                        CHECK(time_ns <= 24 * 3600 * SECOND);
                }
                CHECK(!is_name("1970-01-01"));
                CHECK_EQ(time_of("1970-01-01T00:00:01Z"), SECOND);
                CHECK_EQ(time_of("1969-12-31T23:59:59-00:01"), 59 * SECOND);
        }
}

static void test_what_is_almost_a_time_is_a_name(void)
{
        static const char *const names[] = {"2025-06", "2025-13-01", "2025-06-32", "2025-06-01T",
                "2025-06-01T24:30", "2025-06-01T12:60", "2025-06-01T12:30:00z",
                "2025-06-01T12:30:00 Z", "2025-06-01T12:30:00+2", "2025-06-01T12:30:00+0200",
                "2025-06-01T12:30:00+24:00", "2025-06-01T12:30:00-02:60",
                "2025-06-01T12:30:00+02:", "2025-06-01T12:30:00+02:00Z", "2025-06-01T12:30:00Z ",
                "2025-06-01T12:30:00.5.5", "12:30:00", "20250601T123000Z", "-5", "+5", "5 ", "0x10",
                "1e9", " 2025-06-01", "2025- 6-01", "2025-06-0112:30", "2025-06-01  12:30",
                "2025-06-01.5", "2025-06-01T12:30.5", "02025-06-01", "2025-006-01",
                "2025-06-01T12:30:61", "2025-06-01T12:30:00+ 2:00", "2025-06-01-before", "now ",
                "1_000"};

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (!is_name(names[i]))
                        TEST_FAIL("'%s' is taken for another moment", names[i]);
}

static void test_a_day_that_its_month_does_not_have_is_no_date(void)
{
        static const char *const names[] = {"2025-02-29", "2025-02-30T12:30:00Z", "2025-04-31",
                "2025-06-31", "2025-09-31", "2025-11-31", "1900-02-29", "2100-02-29"};

        set_zone("UTC0");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (!is_name(names[i]))
                        TEST_FAIL("'%s' is taken for another moment", names[i]);
        CHECK_EQ(time_of("2024-02-29"), time_of("2024-03-01") - 24 * 3600 * SECOND);
        CHECK_EQ(time_of("2000-02-29"), time_of("2000-03-01") - 24 * 3600 * SECOND);
        CHECK_EQ(time_of("2025-12-31"), time_of("2026-01-01") - 24 * 3600 * SECOND);
}

static void test_what_begins_with_an_at_sign_is_a_time_or_nothing(void)
{
        static const char *const wrong[] = {
                "@", "@x", "@-1", "@+1", "@.5", "@1x", "@1.5.5", "@1 ", "@ 1", "@@1", "@now"};
        const struct cli cli = {0};
        uint64_t time_ns = 7, cut = 7;

        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                CHECK_EQ(cli_moment_of(wrong[i], &time_ns), CLI_MOMENT_NOTHING);
                CHECK_EQ(cli_cut(&cli, NULL, wrong[i], &cut), CLI_USAGE);
        }
        CHECK_EQ(cli_moment_of("", &time_ns), CLI_MOMENT_NOTHING);
        CHECK(time_ns == 7 && cut == 7);
}

/* Texts that are made of the pieces of moments: none means a time in one zone or at one end of its
 * year, and a name in another. */
static void test_the_form_alone_decides_in_every_zone(void)
{
        static const char *const pieces[] = {"", "now", "@", "5", "12", "1969", "2025", "-", "06",
                "T", " ", ":", ".", "Z", "+02:00", "x"};
        static const char *const date[] = {"2025", "-", "06", "-", "12"};
        const uint32_t count = sizeof pieces / sizeof *pieces;
        uint64_t time_ns;
        unsigned times = 0, names = 0;

        for (unsigned i = 0; i < 20000; i++) {
                enum cli_moment kind;
                char text[64] = "";

                for (unsigned n = 0; n < 9; n++) {
                        strcat(text, i % 3 && n < 5 ? date[n] : draw(2) ? "" : pieces[draw(count)]);
                }
                set_zone("EST5");
                kind = cli_moment_of(text, &time_ns);
                times += kind == CLI_MOMENT_TIME;
                names += kind == CLI_MOMENT_NAME;
                set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
                if (cli_moment_of(text, &time_ns) != kind)
                        TEST_FAIL("'%s' depends on the zone", text);
        }
        CHECK(times > 100 && names > 1000);
}

static void test_any_other_text_is_a_name(void)
{
        CHECK(is_name("before-upgrade"));
        CHECK(is_name("a"));
        CHECK(is_name("v1"));
        CHECK(is_name("1st"));
        CHECK(is_name("\xc3\xa9\x1b\xff"));
}

static void test_a_cut_that_cannot_be_is_refused_before_the_bus_is_asked(void)
{
        static const char *const wrong[] = {"", "0", "000", "18446744073709551616", "2999-01-01",
                "9999-01-01", "@18446744073", "@99999999999999999999999"};
        const struct cli cli = {0};
        uint64_t cut = 7;

        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                CHECK_EQ(cli_cut(&cli, NULL, wrong[i], &cut), CLI_USAGE);
        }
        CHECK_EQ(cut, 7);
}

static void test_a_number_is_the_cut_and_now_is_the_present(void)
{
        const struct cli cli = {0};
        uint64_t cut = 7;

        CHECK_EQ(cli_cut(&cli, NULL, "42", &cut), 0);
        CHECK_EQ(cut, 42);
        CHECK_EQ(cli_cut(&cli, NULL, "18446744073709551615", &cut), 0);
        CHECK(cut == UINT64_MAX);
        CHECK_EQ(cli_cut(&cli, NULL, "now", &cut), 0);
        CHECK_EQ(cut, 0);
}

static void test_times_are_said_in_utc_and_mean_what_they_say(void)
{
        char text[32];

        set_zone("EST5");
        CHECK(strcmp(cli_time_words(0, text), "-") == 0);
        CHECK(strcmp(cli_time_words(NOON, text), "2025-06-01T12:00:00.000Z") == 0);
        CHECK(strcmp(cli_time_words(NOON + 1999999, text), "2025-06-01T12:00:00.001Z") == 0);
        CHECK(strcmp(cli_time_words(1, text), "1970-01-01T00:00:00.000Z") == 0);
        CHECK(strcmp(cli_time_words(UINT64_MAX, text), "2554-07-21T23:34:33.709Z") == 0);
        CHECK_EQ(time_of(cli_time_words(NOON + 42 * MILLI, text)), NOON + 42 * MILLI);
}

static void test_spans_are_said_as_they_are_read(void)
{
        static const char *const spans[] = {"1ms", "1500ms", "1s", "90s", "5m", "90m", "1h", "25h",
                "1d", "36h", "7d", "5124095h", "213503d"};
        char text[32];

        for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
                if (strcmp(cli_duration_words(duration_of(spans[i]), text), spans[i]) != 0)
                        TEST_FAIL("%s is said %s", spans[i], text);
        CHECK_EQ(duration_of("200ms"), 200 * MILLI);
        CHECK_EQ(duration_of("0090s"), 90 * SECOND);
        CHECK_EQ(duration_of("0.2s"), 200 * MILLI);
        CHECK_EQ(duration_of("1.5s"), 1500 * MILLI);
        CHECK_EQ(duration_of("0.000000001s"), 1);
        CHECK_EQ(duration_of("1.0000000009s"), SECOND);
        CHECK_EQ(duration_of("2.25h"), 8100 * SECOND);
        CHECK_EQ(duration_of("0.5ms"), MILLI / 2);
        CHECK(strcmp(cli_duration_words(duration_of("120m"), text), "2h") == 0);
        CHECK(strcmp(cli_duration_words(duration_of("48h"), text), "2d") == 0);
        /* What wants more than 0 says so itself. */
        CHECK(duration_of("0s") == 0 && duration_of("000.0d") == 0);
        CHECK(duration_of("0.0000000001s") == 0);
        CHECK(strcmp(cli_age_words(90 * SECOND + 250 * MILLI, text), "90.2 s") == 0);
        CHECK(strcmp(cli_age_words(0, text), "0.0 s") == 0);
        CHECK(strcmp(cli_age_words(UINT64_MAX, text), "18446744073.7 s") == 0);
}

static void test_what_is_no_span_is_refused(void)
{
        static const char *const wrong[] = {"", "0", "5", "s", "-5s", "+5s", "5 s", " 5s", "5S",
                "5w", "5D", "5ss", "1.s", ".5s", "1.5", "1..5s", "1.5.5s", "1.-5s", "213504d",
                "5124096h", "5124095.9h", "18446744073709551615h", "99999999999999999999s",
                "9999999999999999999999999999s"};
        uint64_t ns = 7;

        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
                if (cli_duration(wrong[i], "test", &ns) != CLI_USAGE)
                        TEST_FAIL("'%s' is a span", wrong[i]);
        CHECK_EQ(ns, 7);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_digits_alone_are_the_number_of_a_cut);
        RUN(test_seconds_since_1970_stand_behind_an_at_sign);
        RUN(test_fractions_of_a_second_count_to_the_nanosecond);
        RUN(test_a_zone_is_subtracted_whatever_the_local_one_is);
        RUN(test_without_a_zone_a_time_is_local);
        RUN(test_a_time_too_far_off_is_the_end_of_time_and_no_name);
        RUN(test_a_date_before_1970_is_a_time_before_all_notes_in_every_zone);
        RUN(test_what_is_almost_a_time_is_a_name);
        RUN(test_a_day_that_its_month_does_not_have_is_no_date);
        RUN(test_what_begins_with_an_at_sign_is_a_time_or_nothing);
        RUN(test_the_form_alone_decides_in_every_zone);
        RUN(test_any_other_text_is_a_name);
        RUN(test_a_cut_that_cannot_be_is_refused_before_the_bus_is_asked);
        RUN(test_a_number_is_the_cut_and_now_is_the_present);
        RUN(test_times_are_said_in_utc_and_mean_what_they_say);
        RUN(test_spans_are_said_as_they_are_read);
        RUN(test_what_is_no_span_is_refused);
        return test_end();
}
