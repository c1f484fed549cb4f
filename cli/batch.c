/*
 * The command batch: one command a line from standard input, on one attachment to the bus, and with
 * --txn in one transaction.
 *
 * Lines are taken out of one buffer. Before more is read, the answers to what was read are written
 * out, so that a program which waits for an answer before it writes the next line gets it, and a
 * long file costs few system calls.
 *
 * Always true: a line is done whole, in order, and nothing behind the first line that fails. With
 * --txn nothing is written unless all lines are done and the input has ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <mimalloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/words.h"
#include "libclient/core/admin.h"

#define WORDS_MAX    32
#define INPUT_SIZE   65536
#define LINE_PLENTY  (1u << 20) /* bytes; a longer line is compared with what the bus can take */
#define LINE_BESIDES 16384      /* bytes of a line that are no value: a key, options */

struct batch {
        struct cli *cli;
        struct sb_bus *bus;
        char *bytes; /* what was read; bytes[at] to bytes[len] is not done yet */
        size_t at, len, size;
        size_t line_max; /* bytes of the longest line that can be a command; 0: not asked for yet */
        uint64_t line_number;
        bool ended; /* there is no more input */
};

/* A line that is too long for any command shall not take all memory: each byte of a value has four
 * characters at most. */
static int batch_check_length(struct batch *batch)
{
        struct sb_admin_stat stat = {0};
        size_t len = batch->len - batch->at;
        int r;

        if (len < LINE_PLENTY)
                return 0;
        if (batch->line_max == 0) {
                r = sb_admin_stat(batch->bus, &stat); /* it walks over all keys */
                if (r != 0)
                        return cli_fail(batch->cli, "standard input", r);
                batch->line_max = 4 * stat.value_len_max + LINE_BESIDES;
        }
        if (len <= batch->line_max)
                return 0;
        return cli_usage(
                "it is longer than any command on this bus can be: %zu bytes and no end", len);
}

/* Make room behind what is not done yet, for one byte more than is read. */
static int batch_make_room(struct batch *batch)
{
        char *larger;

        if (batch->at != 0) {
                memmove(batch->bytes, batch->bytes + batch->at, batch->len - batch->at);
                batch->len -= batch->at;
                batch->at = 0;
        }
        if (batch->size - batch->len > INPUT_SIZE / 2)
                return 0;
        larger = mi_realloc(batch->bytes, batch->size + batch->len + INPUT_SIZE);
        if (!larger)
                return cli_fail(batch->cli, "standard input", -ENOMEM);
        batch->bytes = larger;
        batch->size += batch->len + INPUT_SIZE;
        return 0;
}

/* Read what there is, up to the room. Return: 0, or an exit code after a message. */
static int batch_read_more(struct batch *batch)
{
        ssize_t got;
        int r = batch_check_length(batch);

        if (r == 0)
                r = batch_make_room(batch);
        if (r != 0)
                return r;
        fflush(stdout); /* main says it when this fails */
        do
                got = read(STDIN_FILENO, batch->bytes + batch->len, batch->size - batch->len - 1);
        while (got < 0 && errno == EINTR);
        if (got < 0)
                return cli_fail(batch->cli, "standard input", -errno);
        batch->len += (size_t)got;
        batch->ended = got == 0;
        return 0;
}

/* Find the next line; the last one may lack its end. *ret_line is NULL when there is none. Return:
 * 0, or an exit code after a message. */
static int batch_next_line(struct batch *batch, char **ret_line, size_t *ret_len)
{
        size_t looked = 0, len;
        char *line, *end;
        int r;

        batch->line_number++;
        cli_say_of_line(batch->line_number);
        for (;;) {
                line = batch->bytes + batch->at;
                len = batch->len - batch->at;
                end = len > looked ? memchr(line + looked, '\n', len - looked) : NULL;
                if (end || batch->ended)
                        break;
                looked = len;
                r = batch_read_more(batch);
                if (r != 0)
                        return r;
        }
        *ret_line = end || len != 0 ? line : NULL;
        *ret_len = end ? (size_t)(end - line) : len;
        batch->at += end ? *ret_len + 1 : len;
        if (!*ret_line)
                return 0;
        /* Where lines end with a carriage return, too, it is no part of the last word. */
        if (*ret_len != 0 && line[*ret_len - 1] == '\r')
                --*ret_len;
        line[*ret_len] = '\0';
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
        struct batch batch = {.cli = cli};
        int r = cli_open(cli, &batch.bus);

        if (r != 0)
                return r;
        if (cli->txn_wanted) {
                r = sb_txn_begin(batch.bus, SB_SERIALIZABLE, &cli->txn);
                if (r != 0)
                        return cli_fail(cli, "the transaction", r);
        }
        r = batch_do_lines(&batch);
        mi_free(batch.bytes);
        cli_say_of_line(0);
        if (r != 0)
                cli_say(cli->txn ? "this line ended the batch: nothing was written"
                                 : "this line ended the batch: what stands before it is done");
        else if (cli->txn)
                r = batch_commit(cli);
        cli->txn = sb_txn_end(cli->txn);
        return r;
}
