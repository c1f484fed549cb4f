/* Commands on a key's past: history shows it, restore brings it back. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/moments.h"
#include "cli/patience.h"
#include "shm/layout/reserved.h"

static void history_print_version(
        const struct cli *cli, const struct sb_guard *guard, uint64_t time_ns)
{
        char time_text[32];

        if (cli->json) {
                cli_json_begin();
                cli_json_bytes("key", guard->key, cli->base64);
                if (guard->kind == SB_VALUE)
                        cli_json_bytes("value", guard->value, false);
                cli_json_number("rev", guard->rev);
                cli_json_text("kind", cli_kind_name(guard->kind));
                cli_json_number("cut", guard->cut);
                if (time_ns != 0)
                        cli_json_text("time", cli_time_words(time_ns, time_text));
                cli_json_number("writer", guard->writer);
                cli_json_number("txn", guard->txn);
                cli_json_number("missed", guard->missed);
                cli_json_end();
                return;
        }
        if (guard->missed != 0)
                puts("...");
        printf("%" PRIu64 "\t%" PRIu64 "\t%s\t%u\t%s\t", guard->rev, guard->cut,
                cli_time_words(time_ns, time_text), guard->writer, cli_kind_name(guard->kind));
        cli_print_shown(cli, guard->value);
        putchar('\n');
}

/* Say that the key had older versions, which are gone. */
static void history_print_gap(const struct cli *cli, struct sb_bytes key)
{
        if (!cli->json) {
                puts("...");
                return;
        }
        cli_json_begin();
        cli_json_bytes("key", key, cli->base64);
        cli_json_text("kind", "gone");
        cli_json_end();
}

int cli_history(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        sb_auto(sb_history_closep) struct sb_history *history = NULL;
        uint64_t limit = UINT64_MAX, count = 0;
        struct sb_guard guard = {0};
        struct sb_bytes key;
        int r = 0;

        if (cli->limit)
                r = cli_number(cli->limit, "--limit", &limit);
        if (r == 0)
                r = cli_key(cli, cli->operands[0], false, &key);
        if (r == 0)
                r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        r = sb_history_open(bus, key, cli->reverse ? SB_REVERSE : 0, &history);
        while (r == 0 && count < limit && !ferror(stdout)) {
                uint64_t time_ns = 0;

                r = sb_history_next(history, &guard, &time_ns);
                if (r == SB_E_LAPPED)
                        history_print_gap(cli, key);
                if (r == SB_E_LAPPED && cli->reverse && count == 0)
                        r = sb_history_next(history, &guard, &time_ns);
                if (r != 0)
                        break;
                history_print_version(cli, &guard, time_ns);
                sb_guard_release(&guard);
                count++;
        }
        if (r == SB_E_NOT_FOUND && count == 0)
                return cli_fail(cli, cli_word(cli->operands[0]), r);
        return r == 0 || r == SB_E_NOT_FOUND || r == SB_E_LAPPED
                       ? CLI_DONE
                       : cli_fail(cli, cli_word(cli->operands[0]), r);
}

/* What is restored to the present stays as it is, but the caller hears of a wrong key, and gets a
 * cut. Return: as sb_restore(). */
static int history_restore_now(struct sb_bus *bus, struct sb_bytes key, uint64_t *ret_cut)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        int r = sb_reserved_is(key.data, key.len) ? -EPERM : sb_scan_open(bus, NULL, key, &scan);

        if (r == 0)
                *ret_cut = sb_scan_cut(scan);
        return r;
}

/* Say why nothing was restored. Return: the exit code for it. */
static int history_fail_restore(const struct cli *cli, int result)
{
        const char *words = cli_bus_words(cli);

        if (result != -EMSGSIZE)
                return cli_fail_write(cli, cli_word(cli->operands[0]), result);
        cli_say("%s: nothing was restored: a value then was larger than a transaction takes, which "
                "is 8 bytes less than `agentctl %sstat` says. Key by key, `agentctl %sget KEY --at "
                "CUT | agentctl %sset KEY -` brings such a value back",
                cli_word(cli->operands[0]), words, words, words);
        return CLI_FAILED;
}

int cli_restore(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        uint32_t flags = cli->prefix ? SB_PREFIX : 0;
        uint64_t cut = 0, made = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &made};
        struct sb_bytes key;
        int r;

        r = cli_key(cli, cli->operands[0], cli->prefix, &key);
        if (r == 0)
                r = cli_open_to_write(cli, &bus);
        if (r == 0)
                r = cli_cut(cli, bus, cli->operands[1], &cut);
        if (r != 0)
                return r;
        r = cut != 0 ? sb_restore(bus, key, flags, cut, &how)
                     : history_restore_now(bus, key, &made);
        if (r == -EINVAL)
                return cli_no_cut(cli, cli->operands[1]);
        if (r != 0)
                return history_fail_restore(cli, r);
        if (cli->json) {
                cli_json_begin();
                cli_json_number("cut", made);
                cli_json_end();
        } else {
                printf("%" PRIu64 "\n", made);
        }
        return CLI_DONE;
}
