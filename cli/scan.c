/*
 * Commands on all keys with a prefix: scan.
 *
 * On a terminal a scan shows the beginnings of long values, so that a line stays a line; what reads
 * a pipe gets all bytes.
 */
#include <errno.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/moments.h"

#define SHOWN_MAX 60 /* characters of a value on a terminal */

static void scan_print_key(const struct cli *cli, const struct sb_guard *guard, bool shorten)
{
        if (cli->json) {
                cli_json_guard(cli, guard, cli->values);
                return;
        }
        if (cli->base64)
                cli_print_base64(guard->key);
        else
                cli_print_escaped(guard->key);
        if (cli->values) {
                putchar('\t');
                if (shorten)
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
