/*
 * Commands on all keys with a prefix: scan, del --prefix.
 *
 * On a terminal a scan shows the beginnings of long values, so that a line stays a line; what reads
 * a pipe gets all bytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/moments.h"
#include "cli/patience.h"

static void scan_print_key(const struct cli *cli, const struct sb_guard *guard)
{
        if (cli->json) {
                cli_json_guard(cli, guard, cli->values);
                return;
        }
        cli_print_bytes(cli, guard->key);
        if (cli->values) {
                putchar('\t');
                if (cli->in_batch)
                        cli_print_bytes(cli, guard->value);
                else
                        cli_print_shown(cli, guard->value);
        }
        putchar('\n');
}

int cli_scan(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_scan_options how = {.size = sizeof(how), .flags = cli->reverse ? SB_REVERSE : 0};
        struct sb_bytes prefix = {0};
        uint64_t limit = UINT64_MAX, gone = 0;
        int r = 0;

        if (cli->full && !cli->values)
                return cli_usage("--full is about values: it stands with --values");
        if (cli->limit)
                r = cli_number(cli->limit, "--limit", &limit);
        if (r == 0 && cli->operand_count > 0)
                r = cli_key(cli, cli->operands[0], true, &prefix);
        if (r == 0)
                r = cli_open(cli, &bus);
        if (r == 0 && cli->at)
                r = cli_cut(cli, bus, cli->at, &how.cut);
        if (r != 0)
                return r;
        if (how.cut == 0)
                how.txn = cli->txn;
        r = sb_scan_open_at(bus, prefix, &how, &scan);
        if (r == -EINVAL && how.cut != 0)
                return cli_no_cut(cli, cli->at);
        for (uint64_t count = 0; r == 0 && count < limit && !ferror(stdout); count++) {
                struct sb_guard guard = {0};

                r = sb_scan_next(scan, &guard);
                if (r == 0)
                        scan_print_key(cli, &guard);
                if (r == SB_E_LAPPED && guard.bus) {
                        gone++;
                        r = 0;
                }
                sb_guard_release(&guard);
        }
        if (gone != 0 && (r == 0 || r == SB_E_NOT_FOUND)) {
                cli_say("of %llu more keys it is not known any more what they were: a rule kept "
                        "too few of their versions",
                        (unsigned long long)gone);
                return CLI_FAILED;
        }
        return r == 0 || r == SB_E_NOT_FOUND ? CLI_DONE : cli_fail(cli, "scan", r);
}

/* Count the keys with a prefix. */
static uint64_t scan_count(struct sb_bus *bus, struct sb_bytes prefix)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        uint64_t count = 0;

        if (sb_scan_open(bus, NULL, prefix, &scan) == 0)
                for (; sb_scan_next(scan, &guard) == 0; count++)
                        sb_guard_release(&guard);
        return count;
}

/* Say why nothing was deleted. Return: the exit code for it. */
static int scan_fail_delete(
        const struct cli *cli, struct sb_bus *bus, struct sb_bytes prefix, int result)
{
        const char *word = cli_word(cli->operands[0]), *words = cli_bus_words(cli);

        if (result != -EMSGSIZE && result != SB_E_FULL)
                return cli_fail_write(cli, word, result);
        cli_say("%s: %s to delete %" PRIu64 " keys in one transaction; nothing was deleted. Take "
                "longer prefixes, or delete key by key: `agentctl %s--base64 scan PREFIX | sed "
                "'s/^/del /' >FILE`, then `agentctl %s--base64 batch <FILE` (while the scan is "
                "open, nothing that it shows makes room)",
                word, result == SB_E_FULL ? "the bus is too full" : "the bus is too small",
                scan_count(bus, prefix), words, words);
        return CLI_FAILED;
}

int cli_del_prefix(struct cli *cli)
{
        const char *words = cli_bus_words(cli);
        uint64_t expected, cut = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        struct sb_bytes prefix = {0};
        struct sb_bus *bus = NULL;
        uint64_t count = 0;
        int r;

        if (cli->if_rev || cli->if_value)
                return cli_usage("%s is about one key: it does not stand with --prefix",
                        cli->if_rev ? "--if-rev" : "--if-value");
        r = cli_key(cli, cli->operands[0], true, &prefix);
        if (r == 0)
                r = cli_read_how(cli, &how, &expected);
        if (r == 0 && prefix.len == 0)
                r = cli_usage("del --prefix: an empty PREFIX would mean every key of the bus. For "
                              "that give each key to a batch: `agentctl %s--base64 scan | sed "
                              "'s/^/del /' >FILE`, then `agentctl %s--base64 batch <FILE`",
                        words, words);
        if (r == 0)
                r = cli_open_to_write(cli, &bus);
        if (r != 0)
                return r;
        r = sb_delete_range(bus, cli->txn, prefix, (struct sb_bytes){0}, SB_PREFIX,
                cli->txn ? NULL : &how, &count);
        if (r != 0)
                return scan_fail_delete(cli, bus, prefix, r);
        if (!cli->json) {
                printf("%" PRIu64 "\n", count);
                return CLI_DONE;
        }
        cli_json_begin();
        cli_json_number("deleted", count);
        if (!cli->txn)
                cli_json_number("cut", cut);
        cli_json_end();
        return CLI_DONE;
}
