/*
 * Moments and spans of time, read from the command line and said in output.
 *
 * A time that is too late for 64 bits of nanoseconds is read as the end of time, so that it is
 * refused as a time that has not come yet, and not taken for a mark's name.
 */
#define _GNU_SOURCE
#include "cli/moments.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"

#define SECOND_NS UINT64_C(1000000000)

static const struct {
        const char *name;
        uint64_t ns;
} moments_units[] = {
        {"h", 3600 * SECOND_NS}, {"m", 60 * SECOND_NS}, {"s", SECOND_NS}, {"ms", SECOND_NS / 1000}};
#define UNIT_COUNT (sizeof(moments_units) / sizeof(moments_units[0]))

/* Read seconds: digits, and perhaps a point and more digits. */
static bool moments_read_seconds(const char *text, uint64_t *ret_ns)
{
        uint64_t seconds = 0, ns = 0, unit = SECOND_NS;
        const char *p = text;
        bool far = false;

        for (; *p >= '0' && *p <= '9'; p++)
                far |= __builtin_mul_overflow(seconds, 10, &seconds) ||
                       __builtin_add_overflow(seconds, (uint64_t)(*p - '0'), &seconds);
        if (p == text)
                return false;
        if (*p == '.')
                for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10)
                        ns += (uint64_t)(*p - '0') * (unit / 10);
        far |= __builtin_mul_overflow(seconds, SECOND_NS, &seconds) ||
               __builtin_add_overflow(seconds, ns, &ns);
        if (*p != '\0')
                return false;
        *ret_ns = far ? UINT64_MAX : ns;
        return true;
}

/* Read what stands behind the seconds of ISO 8601: perhaps a fraction, then a zone (Z, +HH:MM or
 * -HH:MM). Without a zone the time is local. */
static bool moments_read_zone(const char *text, struct tm *tm, uint64_t *ret_ns)
{
        uint64_t fraction = 0, unit = SECOND_NS;
        int hours = 0, minutes = 0, len = 0;
        time_t seconds;
        bool local;

        if (*text == '.' || *text == ',')
                for (text++; *text >= '0' && *text <= '9'; text++, unit /= 10)
                        fraction += (uint64_t)(*text - '0') * (unit / 10);
        local = *text == '\0';
        if (strcmp(text, "Z") != 0 && !local) {
                if ((*text != '+' && *text != '-') ||
                        sscanf(text + 1, "%2d:%2d%n", &hours, &minutes, &len) != 2 ||
                        text[1 + len] != '\0' || hours < 0 || hours > 23 || minutes < 0 ||
                        minutes > 59)
                        return false;
                if (*text == '-') {
                        hours = -hours;
                        minutes = -minutes;
                }
        }
        tm->tm_isdst = -1;
        seconds = local ? mktime(tm) : timegm(tm);
        seconds -= hours * 3600 + minutes * 60;
        if (seconds < 0)
                return false;
        if (__builtin_mul_overflow((uint64_t)seconds, SECOND_NS, ret_ns) ||
                __builtin_add_overflow(*ret_ns, fraction, ret_ns))
                *ret_ns = UINT64_MAX;
        return true;
}

/* 2025-06-01, 2025-06-01T12:30, 2025-06-01 12:30:05.25+02:00 ... */
static bool moments_read_iso(const char *text, uint64_t *ret_ns)
{
        static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
                "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"};

        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
                struct tm tm = {0};
                const char *end = strptime(text, forms[i], &tm);

                if (end && moments_read_zone(end, &tm, ret_ns))
                        return true;
        }
        return false;
}

enum cli_moment cli_moment_of(const char *text, uint64_t *ret_time_ns)
{
        if (*text != '\0' && strspn(text, "0123456789") == strlen(text))
                return CLI_MOMENT_NUMBER;
        if (*text == '@' ? moments_read_seconds(text + 1, ret_time_ns)
                         : moments_read_iso(text, ret_time_ns))
                return CLI_MOMENT_TIME;
        return CLI_MOMENT_NAME;
}

bool cli_moment_is_free(const char *name)
{
        uint64_t time_ns;

        return strcmp(name, "now") != 0 && cli_moment_of(name, &time_ns) == CLI_MOMENT_NAME;
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

        if (*text == '\0')
                return cli_usage("a CUT is a number, a mark's name or a time, and not empty");
        switch (cli_moment_of(text, &time_ns)) {
        case CLI_MOMENT_NUMBER:
                return moments_cut_of_number(cli, text, ret_cut);
        case CLI_MOMENT_TIME:
                return moments_cut_of_time(cli, bus, text, time_ns, ret_cut);
        default:
                return moments_cut_of_mark(cli, bus, text, ret_cut);
        }
}

int cli_cut_or_now(const struct cli *cli, struct sb_bus *bus, const char *text, uint64_t *ret_cut)
{
        if (strcmp(text, "now") != 0)
                return cli_cut(cli, bus, text, ret_cut);
        *ret_cut = 0;
        return 0;
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

int cli_duration(const char *text, const char *name, uint64_t *ret_ns)
{
        size_t digits = strspn(text, "0123456789");
        uint64_t value, ns;
        char number[24];

        for (size_t i = 0; i < UNIT_COUNT; i++) {
                if (digits == 0 || digits >= sizeof(number) ||
                        strcmp(text + digits, moments_units[i].name) != 0)
                        continue;
                memcpy(number, text, digits);
                number[digits] = '\0';
                if (cli_number(number, name, &value) != 0)
                        return CLI_USAGE;
                if (__builtin_mul_overflow(value, moments_units[i].ns, &ns) || ns == 0)
                        break;
                *ret_ns = ns;
                return 0;
        }
        return cli_usage("%s wants a time such as 200ms, 5s, 2m or 1h, not '%s'", name, text);
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
