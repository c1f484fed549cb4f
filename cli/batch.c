/*
 * The command batch: one command a line from standard input, on one attachment to the bus, and with
 * --txn in one transaction.
 *
 * Before more is read, the answers to what was read are written out (lines.h).
 *
 * Always true: a line is done whole, in order, and nothing behind the first line that fails. With
 * --txn nothing is written unless all lines are done and the input has ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/lines.h"
#include "cli/patience.h"
#include "cli/words.h"
#include "libclient/core/admin.h"

#define WORDS_MAX    32
#define LINE_PLENTY  (1u << 20) /* bytes; a longer line is compared with what the bus can take */
#define LINE_BESIDES 16384      /* bytes of a line that are no value: a key, options */

struct batch {
        struct cli *cli;
        struct sb_bus *bus;
        struct cli_lines lines;
        uint64_t line_number;
};

/* A line that is too long for any command shall not take all memory: each byte of a value has four
 * characters at most. Return: 0: it may be longer; or an exit code after a message. */
static int batch_allow_length(struct batch *batch)
{
        struct sb_admin_stat stat = {0};
        int r;

        if (batch->lines.line_max != LINE_PLENTY)
                return cli_usage("it is longer than any command on this bus can be: %zu bytes and "
                                 "no end",
                        batch->lines.len - batch->lines.at);
        r = sb_admin_stat(batch->bus, &stat); /* it walks over all keys */
        if (r != 0)
                return cli_fail(batch->cli, "standard input", r);
        batch->lines.line_max = 4 * stat.value_len_max + LINE_BESIDES;
        return 0;
}

/* Find the next line; the last one may lack its end. *ret_line is NULL when there is none. Return:
 * 0, or an exit code after a message. */
static int batch_next_line(struct batch *batch, char **ret_line, size_t *ret_len)
{
        bool whole;
        int r;

        *ret_line = NULL;
        batch->line_number++;
        cli_say_of_line(batch->line_number);
        while ((r = cli_lines_next(&batch->lines, ret_line, ret_len, &whole)) == -EMSGSIZE) {
                r = batch_allow_length(batch);
                if (r != 0)
                        return r;
        }
        if (r == SB_E_NOT_FOUND)
                return 0;
        if (r != 0)
                return cli_fail(batch->cli, "standard input", r);
        /* Where lines end with a carriage return, too, it is no part of the last word. */
        if (*ret_len != 0 && (*ret_line)[*ret_len - 1] == '\r')
                (*ret_line)[--*ret_len] = '\0';
        return 0;
}

static bool batch_takes(const struct cli_command *command)
{
        return command->run == cli_get || command->run == cli_set || command->run == cli_del ||
               command->run == cli_incr || command->run == cli_scan;
}

/* Do what a line says. Return: an exit code, after a message when it is not CLI_DONE. */
static int batch_do_line(struct batch *batch, char *line, size_t len)
{
        struct cli cli = {.bus = batch->cli->bus,
                .json = batch->cli->json,
                .base64 = batch->cli->base64,
                .attached = batch->bus,
                .txn = batch->cli->txn,
                .in_batch = true};
        char *words[WORDS_MAX + 1] = {"agentctl"};
        const struct cli_command *command;
        const char *wrong;
        size_t count;
        int r;

        wrong = cli_split(line, len, words + 1, WORDS_MAX, &count);
        if (wrong)
                return cli_usage("%s", wrong);
        if (count == 0)
                return CLI_DONE;
        r = cli_read_arguments(&cli, (int)count + 1, words, &command);
        if (r != 0)
                return r;
        if (!command || !batch_takes(command))
                return cli_usage("a batch takes get, set, del, incr and scan, not '%s'",
                        command ? command->name : "");
        if (cli.bus != batch->cli->bus)
                return cli_usage("all lines are for one bus: -b stands before batch");
        r = cli_run_command(&cli, command);
        cli_free_keys();
        if (r == CLI_DONE && ferror(stdout)) {
                cli_say("standard output takes no more answers");
                return CLI_FAILED;
        }
        return r;
}

static int batch_do_lines(struct batch *batch)
{
        char *line;
        size_t len;
        int r;

        for (;;) {
                r = batch_next_line(batch, &line, &len);
                if (r != 0 || !line)
                        return r;
                if (line[strspn(line, " \t")] == '#')
                        continue;
                r = batch_do_line(batch, line, len);
                if (r != 0)
                        return r;
        }
}

static int batch_commit(struct cli *cli)
{
        uint64_t cut = 0;
        const struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        int r = sb_txn_commit(cli->txn, &how);

        if (r == SB_E_CONFLICT) {
                cli_say("another writer changed what this batch read or writes: nothing was "
                        "written, run it again");
                return CLI_CONFLICT;
        }
        if (r == -EMSGSIZE) {
                cli_say("these are more writes than one transaction of this bus takes: nothing was "
                        "written. Give them in several batches");
                return CLI_FAILED;
        }
        if (r != 0)
                return cli_fail(cli, "the transaction", r);
        if (cli->json) {
                cli_json_begin();
                cli_json_number("cut", cut);
                cli_json_end();
        } else {
                printf("%" PRIu64 "\n", cut);
        }
        return CLI_DONE;
}

int cli_batch(struct cli *cli)
{
        struct batch batch = {.cli = cli, .lines = {.fd = STDIN_FILENO, .line_max = LINE_PLENTY}};
        int r = cli_open_to_write(cli, &batch.bus);

        if (r != 0)
                return r;
        if (cli->txn_wanted) {
                r = sb_txn_begin(batch.bus, SB_SERIALIZABLE, &cli->txn);
                if (r != 0)
                        return cli_fail(cli, "the transaction", r);
        }
        r = batch_do_lines(&batch);
        cli_lines_free(&batch.lines);
        cli_say_of_line(0);
        if (r != 0)
                cli_say(cli->txn ? "this line ended the batch: nothing was written"
                                 : "this line ended the batch: what stands before it is done");
        else if (cli->txn)
                r = batch_commit(cli);
        cli->txn = sb_txn_end(cli->txn);
        return r;
}
