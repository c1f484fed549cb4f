/* The command keep: it makes and lists the rules that say how much of the past of keys the bus
 * keeps. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/moments.h"
#include "cli/patience.h"
#include "shm/layout/reserved.h"

/* A star marks a prefix at its end, so a star that ends a key itself is escaped. */
static void keep_print_key(const struct cli *cli, struct sb_bytes key, bool prefix)
{
        bool star = key.len != 0 && ((const char *)key.data)[key.len - 1] == '*';

        if (cli->base64) {
                cli_print_base64(key);
        } else if (star && !prefix) {
                cli_print_escaped((struct sb_bytes){key.data, key.len - 1});
                fputs("\\x2a", stdout);
        } else {
                cli_print_escaped(key);
        }
        if (prefix)
                putchar('*');
}

static void keep_print_rule(
        const struct cli *cli, struct sb_bytes key, bool prefix, const struct sb_rule *rule)
{
        static const char *const names[] = {"newest", "last", "for", "all"};
        char span[32];

        if (cli->json) {
                cli_json_begin();
                cli_json_bytes(prefix ? "prefix" : "key", key, cli->base64);
                cli_json_text("rule", names[rule->kind & 3]);
                if (rule->kind == SB_KEEP_LAST)
                        cli_json_number("versions", rule->value);
                if (rule->kind == SB_KEEP_SPAN)
                        cli_json_number("ms", rule->value / 1000000);
                cli_json_end();
                return;
        }
        keep_print_key(cli, key, prefix);
        printf("\t%s", names[rule->kind & 3]);
        if (rule->kind == SB_KEEP_LAST)
                printf(" %" PRIu64, rule->value);
        if (rule->kind == SB_KEEP_SPAN)
                printf(" %s", cli_duration_words(rule->value, span));
        putchar('\n');
}

static int keep_list_rules(struct cli *cli, struct sb_bus *bus)
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
                                keep_print_rule(cli, key, prefix, &rule);
                }
                sb_guard_release(&guard);
        }
        return r == SB_E_NOT_FOUND ? CLI_DONE : cli_fail(cli, "keep", r);
}

/* Read the operands behind KEY. Return: 0, or CLI_USAGE. */
static int keep_read_rule(const struct cli *cli, struct sb_rule *rule)
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
        if (rule->kind == SB_KEEP_SPAN && rule->value == 0)
                return cli_usage("keep for wants more than %s: `keep newest` keeps nothing of "
                                 "the past",
                        value);
        if (rule->kind == SB_KEEP_SPAN && rule->value >> 62 != 0)
                return cli_usage("keep for %s is too long: `keep all` has no end", value);
        return 0;
}

static int keep_fail(const struct cli *cli, int result)
{
        const char *word = cli_word(cli->operands[0]);

        if (result != -ENAMETOOLONG)
                return cli_fail_write(cli, word, result);
        return cli_usage("%s: the %s of a rule has %d bytes less than the longest key, at most: "
                         "keep a shorter prefix",
                word, cli->prefix ? "prefix" : "key", SB_KEEP_PREFIX);
}

int cli_keep(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        struct sb_rule rule = {.size = sizeof(rule)};
        uint32_t flags = cli->prefix ? SB_PREFIX : 0;
        struct sb_bytes key = {0};
        int r = 0;

        if (cli->operand_count > 0)
                r = cli_key(cli, cli->operands[0], cli->prefix, &key);
        if (r == 0 && cli->operand_count > 1)
                r = keep_read_rule(cli, &rule);
        if (r == 0)
                r = cli_open_to_write(cli, &bus);
        if (r != 0)
                return r;
        if (cli->operand_count == 0)
                return keep_list_rules(cli, bus);
        if (cli->operand_count > 1) {
                r = sb_keep(bus, key, flags, &rule);
                return r == 0 ? CLI_DONE : keep_fail(cli, r);
        }
        r = sb_kept(bus, key, flags, &rule);
        if (r == SB_E_NOT_FOUND) {
                cli_say("%s: there is no rule for exactly this %s: `agentctl %skeep` lists them",
                        cli_word(cli->operands[0]), cli->prefix ? "prefix" : "key",
                        cli_bus_words(cli));
                return CLI_NOT_FOUND;
        }
        if (r != 0)
                return keep_fail(cli, r);
        keep_print_rule(cli, key, cli->prefix, &rule);
        return CLI_DONE;
}
