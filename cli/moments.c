/*
 * Moments and spans of time, read from the command line and said in output.
 *
 * What a text is, libclient/core/moment-text.h decides. A time that is too late for 64 bits of
 * nanoseconds is read as the end of time, and so refused as a time that has not come yet.
 */
#define _GNU_SOURCE
#include "cli/moments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "libclient/core/moment-text.h"

#define SECOND_NS UINT64_C(1000000000)

static const struct {
        const char *name;
        uint64_t ns;
} moments_units[] = {{"d", 86400 * SECOND_NS}, {"h", 3600 * SECOND_NS}, {"m", 60 * SECOND_NS},
        {"s", SECOND_NS}, {"ms", SECOND_NS / 1000}};
#define UNIT_COUNT (sizeof(moments_units) / sizeof(moments_units[0]))

/* The time that a date says, in nanoseconds since 1970. A date before that is 0, which is before
 * all of agentd's notes. */
static uint64_t moments_date_ns(const struct sb_moment_text *date)
{
        struct tm tm = {.tm_year = (int)date->year - 1900,
                .tm_mon = (int)date->month - 1,
                .tm_mday = (int)date->day,
                .tm_hour = (int)date->hour,
                .tm_min = (int)date->minute,
                .tm_sec = (int)date->second,
                .tm_isdst = -1};
        time_t seconds = date->local ? mktime(&tm) : timegm(&tm) - 60 * (time_t)date->zone_minutes;
        uint64_t ns;

        if (seconds < 0)
                return 0;
        return __builtin_mul_overflow((uint64_t)seconds, SECOND_NS, &ns) ||
                               __builtin_add_overflow(ns, date->fraction_ns, &ns)
                       ? UINT64_MAX
                       : ns;
}

enum cli_moment cli_moment_of(const char *text, uint64_t *ret_time_ns)
{
        struct sb_moment_text moment;
        uint64_t ns;

        switch (sb_moment_text_read((struct sb_bytes){text, strlen(text)}, &moment)) {
        case SB_MOMENT_TEXT_NOTHING:
                return CLI_MOMENT_NOTHING;
        case SB_MOMENT_TEXT_NOW:
                return CLI_MOMENT_NOW;
        case SB_MOMENT_TEXT_NUMBER:
                return CLI_MOMENT_NUMBER;
        case SB_MOMENT_TEXT_SECONDS:
                *ret_time_ns = __builtin_mul_overflow(moment.seconds, SECOND_NS, &ns) ||
                                               __builtin_add_overflow(ns, moment.fraction_ns, &ns)
                                       ? UINT64_MAX
                                       : ns;
                return CLI_MOMENT_TIME;
        case SB_MOMENT_TEXT_DATE:
                *ret_time_ns = moments_date_ns(&moment);
                return CLI_MOMENT_TIME;
        default:
                return CLI_MOMENT_NAME;
        }
}

static bool moments_has_come(uint64_t time_ns)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return time_ns <= (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

int cli_no_cut(const struct cli *cli, const char *text)
{
        return cli_usage("%s: there is no such cut: they go from 2 to below the `clock` of "
                         "`agentctl %sstat`",
                text, cli_bus_words(cli));
}

static int moments_cut_of_number(const struct cli *cli, const char *text, uint64_t *ret_cut)
{
        uint64_t cut = 0;
        int r = cli_number(text, "a cut", &cut);

        if (r != 0)
                return r;
        if (cut == 0) /* to the library 0 is the present */
                return cli_no_cut(cli, text);
        *ret_cut = cut;
        return 0;
}

static int moments_cut_of_time(const struct cli *cli, struct sb_bus *bus, const char *text,
        uint64_t time_ns, uint64_t *ret_cut)
{
        int r;

        if (!moments_has_come(time_ns))
                return cli_usage("%s: that time has not come yet", text);
        r = sb_cut_at(bus, time_ns, ret_cut);
        if (r != SB_E_LAPPED)
                return r == 0 ? 0 : cli_fail(cli, text, r);
        cli_say("%s: agentd has no note of that time, or none any more", text);
        return CLI_NOT_FOUND;
}

static int moments_cut_of_mark(
        const struct cli *cli, struct sb_bus *bus, const char *text, uint64_t *ret_cut)
{
        struct sb_bytes name;
        int r = cli_key(cli, text, false, &name);

        if (r != 0)
                return r;
        r = sb_mark_find(bus, name, ret_cut);
        if (r != SB_E_NOT_FOUND)
                return r == 0 ? 0 : cli_fail(cli, text, r);
        cli_say("%s: neither a cut's number nor a time (@SECONDS, 2025-06-01T12:30:00Z), and there "
                "is no such mark: `agentctl %smark` lists them",
                cli_word(text), cli_bus_words(cli));
        return CLI_NOT_FOUND;
}

int cli_cut(const struct cli *cli, struct sb_bus *bus, const char *text, uint64_t *ret_cut)
{
        uint64_t time_ns = 0;

        switch (cli_moment_of(text, &time_ns)) {
        case CLI_MOMENT_NOTHING:
                return *text == '\0'
                               ? cli_usage("a CUT is a number, a mark's name or a time, and not "
                                           "empty")
                               : cli_usage("%s: seconds since 1970 stand behind an @, as in "
                                           "@1748779200.5; no mark's name begins with one",
                                         cli_word(text));
        case CLI_MOMENT_NOW:
                *ret_cut = 0; /* to the library, too */
                return 0;
        case CLI_MOMENT_NUMBER:
                return moments_cut_of_number(cli, text, ret_cut);
        case CLI_MOMENT_TIME:
                return moments_cut_of_time(cli, bus, text, time_ns, ret_cut);
        default:
                return moments_cut_of_mark(cli, bus, text, ret_cut);
        }
}

const char *cli_time_words(uint64_t time_ns, char text[static 32])
{
        time_t seconds = (time_t)(time_ns / SECOND_NS);
        struct tm tm;
        size_t len;

        if (time_ns == 0 || !gmtime_r(&seconds, &tm))
                return "-";
        len = strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(text + len, 32 - len, ".%03uZ", (unsigned)(time_ns % SECOND_NS / 1000000));
        return text;
}

/* What these decimals of a unit are. */
static uint64_t moments_decimals(const char *decimals, size_t count, uint64_t unit_ns)
{
        uint64_t ns = 0;

        for (size_t i = 0; i < count; i++) {
                unit_ns /= 10;
                ns += (uint64_t)(decimals[i] - '0') * unit_ns;
        }
        return ns;
}

int cli_duration(const char *text, const char *name, uint64_t *ret_ns)
{
        static const char all_digits[] = "0123456789";
        size_t digits = strspn(text, all_digits), decimals = 0, i = 0;
        const char *unit = text + digits, *point = unit;
        uint64_t value = 0, ns;

        if (*point == '.') {
                decimals = strspn(point + 1, all_digits);
                unit += 1 + decimals;
        }
        while (i < UNIT_COUNT && strcmp(unit, moments_units[i].name) != 0)
                i++;
        if (i == UNIT_COUNT || digits == 0 || unit == point + 1)
                return cli_usage("%s wants a time such as 200ms, 0.5s, 5s, 2m, 1h or 7d, not '%s'",
                        name, text);
        while (*text == '0')
                text++;
        errno = 0;
        value = strtoull(text, NULL, 10);
        if (errno != 0 || __builtin_mul_overflow(value, moments_units[i].ns, &ns) ||
                __builtin_add_overflow(
                        ns, moments_decimals(point + 1, decimals, moments_units[i].ns), &ns))
                return cli_usage("%s %s is too long: 200,000 days are not", name, text);
        *ret_ns = ns;
        return 0;
}

const char *cli_duration_words(uint64_t ns, char text[static 32])
{
        size_t i = 0;

        while (i + 1 < UNIT_COUNT && ns % moments_units[i].ns != 0)
                i++;
        snprintf(text, 32, "%" PRIu64 "%s", ns / moments_units[i].ns, moments_units[i].name);
        return text;
}

const char *cli_age_words(uint64_t ns, char text[static 32])
{
        snprintf(text, 32, "%" PRIu64 ".%" PRIu64 " s", ns / SECOND_NS, ns / 100000000 % 10);
        return text;
}
