/* Commands about the past: mark; and what names a moment. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "shm/layout/reserved.h"

#define SECOND_NS UINT64_C(1000000000)

/* Digits, and perhaps a point and more of them: seconds. What is too far off is the end of time. */
static bool read_seconds(const char *text, uint64_t *ret_ns)
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

/* What is behind the seconds of ISO 8601: a fraction, and a zone: none: local time; Z, +HH:MM,
 * -HH:MM. */
static bool read_zone(const char *text, struct tm *tm, uint64_t *ret_ns)
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
static bool read_iso(const char *text, uint64_t *ret_ns)
{
        static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
                "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"};

        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
                struct tm tm = {0};
                const char *end = strptime(text, forms[i], &tm);

                if (end != NULL && read_zone(end, &tm, ret_ns))
                        return true;
        }
        return false;
}

static bool is_number(const char *text)
{
        return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

static bool is_time(const char *text, uint64_t *ret_ns)
{
        return *text == '@' ? read_seconds(text + 1, ret_ns) : read_iso(text, ret_ns);
}

static bool has_come(uint64_t time_ns)
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

int cli_cut(const struct cli *cli, struct sb_bus *bus, const char *text, uint64_t *ret_cut)
{
        uint64_t time_ns = 0;
        struct sb_bytes name;
        int r;

        if (*text == '\0')
                return cli_usage("a CUT is a number, a mark's name or a time, and not empty");
        if (is_number(text)) {
                r = cli_number(text, "a cut", ret_cut);
                /* To the library 0 is the present. */
                return r == 0 && *ret_cut == 0 ? cli_no_cut(cli, text) : r;
        }
        if (is_time(text, &time_ns)) {
                if (!has_come(time_ns))
                        return cli_usage("%s: that time has not come yet", text);
                r = sb_cut_at(bus, time_ns, ret_cut);
                if (r != SB_E_LAPPED)
                        return r == 0 ? 0 : cli_fail(cli, text, r);
                cli_say("%s: agentd has no note of that time, or none any more", text);
                return CLI_NOT_FOUND;
        }
        r = cli_key(cli, text, false, &name);
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

/* What has another meaning as a CUT could not be named there; a mark that a program gave such a
 * name can be dropped. Return: 0, CLI_USAGE. */
static int check_mark(const struct cli *cli, const char *name)
{
        uint64_t time_ns;

        if (*name == '\0')
                return cli_usage("a mark's NAME has at least one byte");
        if (!cli->drop && (strcmp(name, "now") == 0 || is_number(name) || is_time(name, &time_ns)))
                return cli_usage("'%s' means another moment where a CUT is wanted: choose another "
                                 "NAME",
                        name);
        return 0;
}

static void print_mark(const struct cli *cli, struct sb_bytes name, uint64_t cut)
{
        if (cli->json) {
                json_begin();
                json_bytes("mark", name, cli->base64);
                json_number("cut", cut);
                json_end();
                return;
        }
        if (cli->base64)
                print_base64(name);
        else
                print_escaped(name);
        printf("\t%" PRIu64 "\n", cut);
}

static int list_marks(struct cli *cli, struct sb_bus *bus)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        int r;

        r = sb_scan_open(bus, NULL, (struct sb_bytes){SB_RESERVED_MARK, SB_MARK_PREFIX}, &scan);
        while (r == 0) {
                struct sb_guard guard = {0};

                r = sb_scan_next(scan, &guard);
                if (r == 0) {
                        struct sb_bytes name = {(const char *)guard.key.data + SB_MARK_PREFIX,
                                guard.key.len - SB_MARK_PREFIX};
                        uint64_t cut;

                        /* One that is dropped just now, or whose maker died, is none. */
                        if (sb_mark_find(bus, name, &cut) == 0)
                                print_mark(cli, name, cut);
                }
                sb_guard_release(&guard);
        }
        return r == SB_E_NOT_FOUND ? CLI_DONE : cli_fail(cli, "mark", r);
}

/* ---- rules ---- */

/* In the largest unit that fits. */
static void print_span(uint64_t ns)
{
        static const struct {
                const char *unit;
                uint64_t ns;
        } units[] = {{"h", 3600 * SECOND_NS}, {"m", 60 * SECOND_NS}, {"s", SECOND_NS}};

        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
                if (ns % units[i].ns == 0) {
                        printf(" %" PRIu64 "%s", ns / units[i].ns, units[i].unit);
                        return;
                }
        printf(" %" PRIu64 "ms", ns / 1000000);
}

/* A star behind it says prefix, so the star at the end of a key is escaped. */
static void print_rule_key(const struct cli *cli, struct sb_bytes key, bool prefix)
{
        bool star = key.len != 0 && ((const char *)key.data)[key.len - 1] == '*';

        if (cli->base64) {
                print_base64(key);
        } else if (star && !prefix) {
                print_escaped((struct sb_bytes){key.data, key.len - 1});
                fputs("\\x2a", stdout);
        } else {
                print_escaped(key);
        }
        if (prefix)
                putchar('*');
}

static void print_rule(
        const struct cli *cli, struct sb_bytes key, bool prefix, const struct sb_rule *rule)
{
        static const char *const names[] = {"newest", "last", "for", "all"};

        if (cli->json) {
                json_begin();
                json_bytes(prefix ? "prefix" : "key", key, cli->base64);
                json_text("rule", names[rule->kind & 3]);
                if (rule->kind == SB_KEEP_LAST)
                        json_number("versions", rule->value);
                if (rule->kind == SB_KEEP_SPAN)
                        json_number("ms", rule->value / 1000000);
                json_end();
                return;
        }
        print_rule_key(cli, key, prefix);
        printf("\t%s", names[rule->kind & 3]);
        if (rule->kind == SB_KEEP_LAST)
                printf(" %" PRIu64, rule->value);
        if (rule->kind == SB_KEEP_SPAN)
                print_span(rule->value);
        putchar('\n');
}

static int list_rules(struct cli *cli, struct sb_bus *bus)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_bytes all = {SB_RESERVED_KEEP, SB_KEEP_PREFIX - 1};
        int r;

        r = sb_scan_open(bus, NULL, all, &scan);
        while (r == 0) {
                struct sb_guard guard = {0};
                struct sb_rule rule;

                r = sb_scan_next(scan, &guard);
                if (r == 0 && guard.key.len >= SB_KEEP_PREFIX) {
                        const char *at = guard.key.data;
                        struct sb_bytes key = {at + SB_KEEP_PREFIX, guard.key.len - SB_KEEP_PREFIX};
                        bool prefix = at[SB_KEEP_PREFIX - 1] == 'P';

                        if (sb_kept(bus, key, prefix ? SB_PREFIX : 0, &rule) == 0)
                                print_rule(cli, key, prefix, &rule);
                }
                sb_guard_release(&guard);
        }
        return r == SB_E_NOT_FOUND ? CLI_DONE : cli_fail(cli, "keep", r);
}

/* The operands behind KEY. Return: 0, or CLI_USAGE. */
static int read_rule(const struct cli *cli, struct sb_rule *rule)
{
        const char *word = cli->operands[1], *value = cli->operands[2];
        int r;

        if (cli->operand_count == 2 && strcmp(word, "all") == 0) {
                rule->kind = SB_KEEP_ALL;
        } else if (cli->operand_count == 2 && strcmp(word, "newest") == 0) {
                rule->kind = SB_KEEP_NEWEST;
        } else if (cli->operand_count == 3 && strcmp(word, "last") == 0) {
                rule->kind = SB_KEEP_LAST;
                r = cli_number(value, "last", &rule->value);
                if (r != 0)
                        return r;
        } else if (cli->operand_count == 3 && strcmp(word, "for") == 0) {
                rule->kind = SB_KEEP_SPAN;
                r = cli_duration(value, "for", &rule->value);
                if (r != 0)
                        return r;
        } else {
                return cli_usage("keep wants last N, for TIME, all or newest behind the KEY");
        }
        if (rule->kind == SB_KEEP_LAST && (rule->value == 0 || rule->value >> 62 != 0))
                return cli_usage("keep last wants 1 to %" PRIu64 " versions, not %s",
                        (UINT64_C(1) << 62) - 1, value);
        if (rule->kind == SB_KEEP_SPAN && rule->value >> 62 != 0)
                return cli_usage("keep for %s is too long: `keep all` has no end", value);
        return 0;
}

static int fail_keep(const struct cli *cli, int result)
{
        const char *word = cli_word(cli->operands[0]);

        if (result != -ENAMETOOLONG)
                return cli_fail(cli, word, result);
        return cli_usage("%s: the %s of a rule has %d bytes less than the longest key, at most: "
                         "keep a shorter prefix",
                word, cli->prefix ? "prefix" : "key", SB_KEEP_PREFIX);
}

int cli_keep(struct cli *cli)
{
        sb_auto(sb_closep) struct sb_bus *bus = NULL;
        struct sb_rule rule = {.size = sizeof(rule)};
        uint32_t flags = cli->prefix ? SB_PREFIX : 0;
        struct sb_bytes key = {0};
        int r = 0;

        if (cli->operand_count > 0)
                r = cli_key(cli, cli->operands[0], cli->prefix, &key);
        if (r == 0 && cli->operand_count > 1)
                r = read_rule(cli, &rule);
        if (r == 0)
                r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        if (cli->operand_count == 0)
                return list_rules(cli, bus);
        if (cli->operand_count > 1) {
                r = sb_keep(bus, key, flags, &rule);
                return r == 0 ? CLI_DONE : fail_keep(cli, r);
        }
        r = sb_kept(bus, key, flags, &rule);
        if (r == SB_E_NOT_FOUND) {
                cli_say("%s: there is no rule for exactly this %s: `agentctl %skeep` lists them",
                        cli_word(cli->operands[0]), cli->prefix ? "prefix" : "key",
                        cli_bus_words(cli));
                return CLI_NOT_FOUND;
        }
        if (r != 0)
                return fail_keep(cli, r);
        print_rule(cli, key, cli->prefix, &rule);
        return CLI_DONE;
}

int cli_mark(struct cli *cli)
{
        sb_auto(sb_closep) struct sb_bus *bus = NULL;
        struct sb_bytes name = {0};
        uint64_t cut = 0;
        int r = 0;

        if (cli->operand_count > 0)
                r = check_mark(cli, cli->operands[0]);
        else if (cli->drop)
                r = cli_usage("mark --drop wants a NAME");
        if (r == 0 && cli->operand_count > 0)
                r = cli_key(cli, cli->operands[0], false, &name);
        if (r == 0)
                r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        if (cli->operand_count == 0)
                return list_marks(cli, bus);
        r = cli->drop ? sb_mark_drop(bus, name) : sb_mark(bus, name, &cut);
        if (r == SB_E_NOT_FOUND) {
                cli_say("%s: there is no such mark: `agentctl %smark` lists them",
                        cli_word(cli->operands[0]), cli_bus_words(cli));
                return CLI_NOT_FOUND;
        }
        if (r == -ENAMETOOLONG)
                return cli_usage(
                        "%s: a mark's NAME has %d bytes less than the longest key, at most",
                        cli_word(cli->operands[0]), SB_MARK_PREFIX);
        if (r == SB_E_CONFLICT) {
                cli_say("%s: there is a mark of that name: drop it first, or choose another",
                        cli_word(cli->operands[0]));
                return CLI_CONFLICT;
        }
        if (r == SB_E_FULL) {
                cli_say("%s: no mark is left, or no memory for it: `agentctl %sstat` says which; "
                        "drop one, or delete keys",
                        cli_word(cli->operands[0]), cli_bus_words(cli));
                return CLI_FAILED;
        }
        if (r != 0)
                return cli_fail(cli, cli_word(cli->operands[0]), r);
        if (cli->drop)
                return CLI_DONE;
        if (cli->json)
                print_mark(cli, name, cut);
        else
                printf("%" PRIu64 "\n", cut);
        return CLI_DONE;
}
