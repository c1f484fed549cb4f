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
#include "shm/layout/reserved.h"

#define SHOWN_MAX 60 /* characters of a value on a terminal */

static void scan_print_key(const struct cli *cli, const struct sb_guard *guard, bool shorten)
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
                else if (shorten)
                        cli_print_shortened(guard->value, SHOWN_MAX);
                else
                        cli_print_escaped(guard->value);
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
        bool shorten = cli_on_terminal() && !cli->full;
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
                        scan_print_key(cli, &guard, shorten);
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

/* What del --prefix takes away. */
struct scan_range {
        struct sb_bus *bus;
        struct sb_bytes prefix;
        uint64_t count; /* of keys */
};

static int scan_delete_range(void *argument, struct sb_txn *txn)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct scan_range *range = argument;
        int r = sb_scan_open(range->bus, txn, range->prefix, &scan);

        range->count = 0;
        while (r == 0) {
                sb_auto(sb_guard_release) struct sb_guard guard = {0};

                r = sb_scan_next(scan, &guard);
                if (r == SB_E_NOT_FOUND)
                        return 0;
                if (r == 0)
                        r = sb_txn_delete(txn, guard.key);
                range->count++;
        }
        return r;
}

/* Say why nothing was deleted. Return: the exit code for it. */
static int scan_fail_delete(const struct cli *cli, const struct scan_range *range, int result)
{
        const char *word = cli_word(cli->operands[0]), *bus = cli_bus_words(cli);

        if (result != -EMSGSIZE && result != SB_E_FULL)
                return cli_fail_write(cli, word, result);
        cli_say("%s: %s to delete %" PRIu64 " keys in one transaction; nothing was deleted. Take "
                "longer prefixes, or delete key by key: `agentctl %s--base64 scan PREFIX | sed "
                "'s/^/del /' >FILE`, then `agentctl %s--base64 batch <FILE` (while the scan is "
                "open, nothing that it shows makes room)",
                word, result == SB_E_FULL ? "the bus is too full" : "the bus is too small",
                range->count, bus, bus);
        return CLI_FAILED;
}

int cli_del_prefix(struct cli *cli)
{
        uint64_t expected, cut = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        struct scan_range range = {0};
        int r;

        if (cli->if_rev)
                return cli_usage("--if-rev is about one key: it does not stand with --prefix");
        r = cli_key(cli, cli->operands[0], true, &range.prefix);
        if (r == 0)
                r = cli_read_how(cli, &how, &expected);
        if (r == 0 && range.prefix.len == 0)
                r = cli_usage("del --prefix: an empty PREFIX would mean every key of the bus. Stop "
                              "agentd and start it again for that, or give each key to a batch");
        if (r == 0)
                r = cli_open(cli, &range.bus);
        if (r != 0)
                return r;
        if (sb_reserved_is(range.prefix.data, range.prefix.len))
                r = -EPERM; /* also when there is no such key */
        else if (cli->txn)
                r = scan_delete_range(&range, cli->txn);
        else
                r = sb_transact(range.bus, SB_SERIALIZABLE, scan_delete_range, &range, &how);
        if (r != 0)
                return scan_fail_delete(cli, &range, r);
        if (!cli->json) {
                printf("%" PRIu64 "\n", range.count);
                return CLI_DONE;
        }
        cli_json_begin();
        cli_json_number("deleted", range.count);
        if (!cli->txn)
                cli_json_number("cut", cut);
        cli_json_end();
        return CLI_DONE;
}
