/* The command mark: it gives names to moments of the whole bus, lists and drops them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/moments.h"
#include "cli/patience.h"
#include "shm/layout/reserved.h"

/* Say that the name means another moment where a CUT is wanted. Return: CLI_USAGE. */
static int marks_refuse_name(const char *name)
{
        return cli_usage("'%s' means another moment where a CUT is wanted: choose another NAME",
                cli_word(name));
}

/* With --base64 the text that stands for a name must be no other moment, either: digits alone are
 * base64, too. --drop takes any name. Return: 0, CLI_USAGE. */
static int marks_check_name(const struct cli *cli, const char *name)
{
        uint64_t time_ns;

        if (*name == '\0')
                return cli_usage("a mark's NAME has at least one byte");
        return cli->drop || cli_moment_of(name, &time_ns) == CLI_MOMENT_NAME
                       ? 0
                       : marks_refuse_name(name);
}

static void marks_print_mark(const struct cli *cli, struct sb_bytes name, uint64_t cut)
{
        if (cli->json) {
                cli_json_begin();
                cli_json_bytes("mark", name, cli->base64);
                cli_json_number("cut", cut);
                cli_json_end();
                return;
        }
        if (cli->base64)
                cli_print_base64(name);
        else
                cli_print_escaped(name);
        printf("\t%" PRIu64 "\n", cut);
}

static int marks_list(struct cli *cli, struct sb_bus *bus)
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

                        /* A mark that is dropped just now, or that a dead client left half made, is
                         * not listed. */
                        if (sb_mark_find(bus, name, &cut) == 0)
                                marks_print_mark(cli, name, cut);
                }
                sb_guard_release(&guard);
        }
        return r == SB_E_NOT_FOUND ? CLI_DONE : cli_fail(cli, "mark", r);
}

int cli_mark(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        struct sb_bytes name = {0};
        uint64_t cut = 0;
        int r = 0;

        if (cli->operand_count > 0)
                r = marks_check_name(cli, cli->operands[0]);
        else if (cli->drop)
                r = cli_usage("mark --drop wants a NAME");
        if (r == 0 && cli->operand_count > 0)
                r = cli_key(cli, cli->operands[0], false, &name);
        if (r == 0)
                r = cli_open_to_write(cli, &bus);
        if (r != 0)
                return r;
        if (cli->operand_count == 0)
                return marks_list(cli, bus);
        r = cli->drop ? sb_mark_drop(bus, name) : sb_mark(bus, name, &cut);
        if (r == SB_E_NOT_FOUND) {
                cli_say("%s: there is no such mark: `agentctl %smark` lists them",
                        cli_word(cli->operands[0]), cli_bus_words(cli));
                return CLI_NOT_FOUND;
        }
        if (r == -EINVAL)
                return marks_refuse_name(cli->operands[0]);
        if (r == -ENAMETOOLONG)
                return cli_usage(
                        "%s: a mark's NAME has %d bytes less than the longest key, at most",
                        cli_word(cli->operands[0]), SB_MARK_PREFIX);
        if (r == SB_E_CONFLICT) {
                cli_say("%s: there is a mark of that name: drop it first, or choose another",
                        cli_word(cli->operands[0]));
                return CLI_CONFLICT;
        }
        if (r == SB_E_FULL && cli->drop) {
                cli_say("%s: there is no memory even for the drop: the mark stays. Drop the newest "
                        "mark first; `agentctl %sclients` shows which clients keep cuts, and "
                        "`agentctl %sevict CLIENT` takes them away",
                        cli_word(cli->operands[0]), cli_bus_words(cli), cli_bus_words(cli));
                return CLI_FAILED;
        }
        if (r == SB_E_FULL) {
                cli_say("%s: no mark is left, or no memory for it: `agentctl %sstat` says which; "
                        "drop one, or delete keys",
                        cli_word(cli->operands[0]), cli_bus_words(cli));
                return CLI_FAILED;
        }
        if (r != 0)
                return cli_fail_write(cli, cli_word(cli->operands[0]), r);
        if (cli->drop)
                return CLI_DONE;
        if (cli->json)
                marks_print_mark(cli, name, cut);
        else
                printf("%" PRIu64 "\n", cut);
        return CLI_DONE;
}
