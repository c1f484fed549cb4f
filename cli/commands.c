/*
 * The table of commands: their names, options, operands and help. Help is printed from it, and what
 * stands on a command line is run by it.
 */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/near.h"
#include "cli/wrap.h"

#define MANY 1000000

#define CUT_TEXT                                                                                   \
        "CUT is a cut's number, a mark's name, `now`, or a time: @SECONDS since 1970, "            \
        "2025-06-01T12:30:00Z (without Z: local time). A moment that nothing keeps any more: "     \
        "exit code 1; a time without a note, no such mark: 3."

const struct cli_command cli_commands[] = {
        {"start", "[agentd's options]", "start agentd in the background; returns when it is ready",
                "", 0, MANY, cli_start,
                "It logs to BUS/agentd.log. `agentd --help` lists the options: --size, "
                "--hugepages, --clients ... A bus that is served already: exit code 1."},
        {"stop", "", "end the bus's agentd, and wait until it has ended", "", 0, 0, cli_stop,
                "Its log has all that was written then; a volatile bus forgets it. Nothing to end: "
                "exit code 69."},
        {"get", "KEY [--rev] [--at CUT]", "print a key's value, as it is", "rev at ", 1, 1, cli_get,
                "A terminal gets a line end behind it, a pipe the bytes alone. --rev prints the "
                "revision on a line before the value. --at reads the past. A KEY without a value: "
                "exit code 3.\n" CUT_TEXT},
        {"set", "KEY VALUE|- [--if-absent | --if-rev N | --if-value OLD] [--durability strict]",
                "give a key a value; print the new revision",
                "if-absent if-rev if-value ttl durability ", 2, 2, cli_set,
                "VALUE - reads standard input to its end. --if-absent, --if-rev N and --if-value "
                "OLD write only if the key has no value, is still at revision N, or has the value "
                "OLD, byte by byte (else exit code 4). --durability says how safe it is when set "
                "returns: volatile, batched, or strict, which waits "
                "until it is on the disk; without it as the bus was started. --ttl comes with a "
                "later version."},
        {"del", "KEY [--if-rev N | --if-value OLD] | PREFIX --prefix",
                "take a key's value away; print the delete's revision",
                "if-rev if-value durability prefix ", 1, 1, cli_del,
                "A KEY without a value: exit code 3. With --if-rev N or --if-value OLD only if it "
                "is still at revision N, or has that value (else exit code 4). With --prefix all "
                "keys that begin so, in one transaction; prints how many. None is no failure. An "
                "empty PREFIX is refused: it "
                "would mean every key."},
        {"scan", "[PREFIX] [--values] [--full] [--reverse] [--limit N] [--at CUT]",
                "list keys in byte order, all at one moment", "values full reverse limit at ", 0, 1,
                cli_scan,
                "One key a line, escaped; with --values a tab and the value behind it, escaped "
                "too; with --reverse the last key first. A terminal gets the first 60 characters "
                "of a value, or with --full all of it; a pipe gets all in any case. --at reads the "
                "past, as far as it is kept for all keys with the PREFIX. No key at all is no "
                "failure: exit code 0.\n" CUT_TEXT},
        {"incr", "KEY [N]", "add N (1) to a decimal integer; print the sum", "", 1, 2, cli_incr,
                "A KEY without a value counts as 0; N may be negative. Exact however many do it at "
                "once. A value that is no decimal integer of 64 bits: exit code 1."},
        {"batch", "[--txn]", "do one command a line from standard input", "txn ", 0, 0, cli_batch,
                "A line is a get, set, del, incr or scan as on the command line, its words quoted "
                "as in a shell: 'a b', \"a b\", a\\ b, and $'\\xff\\n' with escapes as scan prints "
                "them, but for \\x00. Nothing is expanded. Empty lines and those that begin with # "
                "are skipped. Each answer is a line: get prints its value escaped. With --base64 "
                "keys and values are in base64, those of set, too. The first line that fails ends "
                "the batch, is named, and gives the exit code; what stands before it is "
                "done.\n--txn: all lines are one transaction, at one moment, and all or none is "
                "done. set and del print nothing then; at the end the new cut is printed. When "
                "another writer came in between: exit code 4, nothing done."},
        {"stat", "", "sizes, keys, memory, the clock, agentd's processes", "", 0, 0, cli_stat,
                NULL},
        {"clients", "", "list attached clients, and how much memory they hold", "", 0, 0,
                cli_clients,
                "GUARDS are versions held in place; PINNED is the memory that they keep from being "
                "reused. CUTS are open scans and transactions; OLDEST is the least cut of them, "
                "and KEPT the memory of versions that were replaced since and are kept for them. "
                "`agentctl evict` takes them away. A terminal gets as many columns as it is wide "
                "for, a pipe all."},
        {"evict", "CLIENT [--kill] [--pid PID]", "take a client's open cuts away", "kill pid ", 1,
                1, cli_evict,
                "CLIENT is a number that `agentctl clients` shows. Prints how many cuts it held; "
                "its reads at them say LAPPED from then on. What it holds by guards it keeps: "
                "--kill ends the process. With --pid only if the client is that process still. No "
                "such client: exit code 3."},
        {"mark", "[NAME [--drop]]", "keep a moment of the whole bus under a name; list them",
                "drop ", 0, 1, cli_mark,
                "Prints the cut. A marked cut is kept, and all that was there then, until --drop. "
                "Without a NAME: all marks, each with its cut, a tab in between. A NAME that is "
                "taken: exit code 4; one to drop that is not there: 3. What means something else "
                "as a CUT (now, a number, a time, what begins with @) cannot be a NAME."},
        {"keep", "[KEY [last N|for TIME|all|newest]] [--prefix]",
                "say how much of a key's past is kept; list it", "prefix ", 0, 3, cli_keep,
                "With --prefix for all keys that begin so, also those that come. last N: versions, "
                "the newest included; for TIME (5s, 10m, 24h): since they were replaced; newest: "
                "takes the rule of this KEY or prefix away. The longest that matches applies, so "
                "that `last 1` excepts a key from a prefix's rule. Without a rule behind KEY: "
                "print it; without KEY: all of them. agentd's --history-memory limits them all."},
        {"history", "KEY [--reverse] [--limit N] [--full]",
                "list all versions of a key that are kept", "reverse limit full ", 1, 1,
                cli_history,
                "Newest first, or with --reverse oldest first: revision, cut, time, writer, kind, "
                "value, tabs in between; ... where some are gone. A terminal gets the first 60 "
                "characters of a value, or with --full all of it."},
        {"diff", "CUT CUT [PREFIX] [--values] [--full]", "list what changed between two moments",
                "values full ", 2, 3, cli_diff,
                "+ added, - removed, ~ changed, ? not known any more; with --values the old and "
                "the new value behind the key, on a terminal the first 60 characters, or with "
                "--full all.\n" CUT_TEXT},
        {"restore", "KEY CUT [--prefix]", "make a key what it was; print the new cut", "prefix ", 2,
                2, cli_restore,
                "With --prefix all keys that begin so, in one transaction.\n" CUT_TEXT},
        {"dump", "[PREFIX] [--at CUT]", "write all keys as text that load reads, at one moment",
                "at ", 0, 1, cli_dump,
                "One object of JSON a line: a head, the rules of history, the keys in byte order "
                "with value and revision, and an end with their number and a checksum. Without the "
                "end, or changed since, load refuses it. With a PREFIX only the keys, and the "
                "rules of keys, that begin so. Marks are not in it: the moments that they name are "
                "those of this bus alone. Nor is the past, but --at dumps a moment that is kept; "
                "the rules are always those of now.\n" CUT_TEXT},
        {"load", "[FILE] [--if-absent] [--txn]", "set the keys and the rules of a dump",
                "if-absent txn ", 0, 1, cli_load,
                "Without a FILE, or with -, from standard input. Prints how many keys were set. "
                "Revisions are this bus's own, not those in the dump; keys that the dump does not "
                "have stay. --if-absent leaves keys that have a value, and rules that are there, "
                "as they are.\nA file that is no whole dump is refused before anything is written. "
                "A pipe is written as it is read: if the dump turns out to be damaged, the message "
                "says how many keys were set. --txn: all keys at one moment or none, also of a "
                "pipe, as far as they fit one transaction; when another writer came in between: "
                "exit code 4, nothing done. The rules follow."},
        {"backup", "DIR|FILE", "save a durable bus into one file", "", 1, 1, cli_backup,
                "The bus as it was at one moment, with its revisions, its past, rules and marks. "
                "Of a bus that is served, all that was written before is in it. FILE: a new file. "
                "A DIR without a log, or a name that ends in /, gets the file as its log: `agentd "
                "-b DIR --durability batched` serves it. Nothing is overwritten, and what is not "
                "whole gets no name. A volatile bus has no log: dump saves its keys. `agentctl "
                "verify` says of either whether it is whole still."},
        {"restore-from", "DIR|FILE", "bring a backup back into a bus that has no log", "", 1, 1,
                cli_restore_from,
                "DIR may be any directory with a log, a FILE is one that backup wrote. The bus is "
                "that of -b; no agentd may serve it. A backup that was changed is refused, and so "
                "is a bus with a log: nothing is overwritten. Then `agentctl start --durability "
                "batched` serves it, with a --size as large as the bus had."},
        {"watch",
                "KEY... [--prefix] [--after REV|CUT] [--count N] [--timeout 5s] [--full] [--exec "
                "CMD]",
                "print each change of keys, until Ctrl-C", "prefix after count timeout full exec ",
                1, MANY, cli_watch,
                "From now on, or after revision REV: key, revision, kind and value, tabs in "
                "between, on a terminal the first 60 characters of a value, or with --full all; "
                "-o json has the replaced value, too. With --prefix of all keys that "
                "begin so, by cut, from now on or after CUT. --count N ends it after N changes, "
                "--timeout with exit code 5; a CMD that runs then goes on by itself.\n... N lost: "
                "from the watch on the last 64 changes of a key are kept, 1,024 of a prefix, and "
                "some of the time less; of the past what other watches and rules keep.\n--exec "
                "runs CMD in a shell for each change, one at a time, each key in its turn, with "
                "the value on its standard input, which has nothing of a delete, or with -o json "
                "the change as it is printed then; and STATEBUS (the bus, so that an agentctl in "
                "CMD asks the same one), STATEBUS_KEY (not of a key with a byte 0), _KEY_BASE64, "
                "_KIND (value, deleted), _REV, _CUT, _WRITER, _TXN (0: none) and _MISSED (how many "
                "before it are lost, or `some` of a prefix) in its environment. CMD need not read. "
                "A CMD that fails ends it.\n" CUT_TEXT},
        {"wait", "KEY [--until VALUE] [--timeout 5s]",
                "wait until a key has a value; print its revision", "until timeout ", 1, 1,
                cli_wait,
                "With --until: until it has this value; one that is replaced at once may be passed "
                "by. When the time is over: exit code 5. --timeout 0 looks once."},
        {"top", "[--once]", "watch the bus at work: hottest keys, watchers, memory, clients",
                "once ", 0, 0, cli_top,
                "Once a second, until q or Ctrl-C; with --once, or where the output is no "
                "terminal, as plain text. WRITES/S is by the difference of a key's revisions "
                "between two looks, of the keys that were looked at: nothing counts in a write. "
                "BEHIND are watchers to which something came since they last waited; LAG is how "
                "many changes that are, and FOR since when, as far as top has seen it."},
        {"check", "", "validate the whole live segment", "", 0, 0, cli_check,
                "Prints what it found; exit code 1 when anything is wrong, lost or leaked."},
        {"log", "[--entries] [--values] [--full] [--from SEQUENCE] [--limit N]",
                "list the batches of the bus's log on the disk", "entries values full from limit ",
                0, 0, cli_log,
                "One batch a line: sequence, cut, time, entries, keys, bytes, tabs in between, and "
                "`whole` where the log begins anew. With --entries a line for each entry below it: "
                "a tab, then kind, key, revision, stamp, bytes; with --values the value, as scan "
                "shows it. The file is read, and no agentd is needed or disturbed. What is damaged "
                "ends the list, is said, and gives exit code 1."},
        {"checkpoint", "", "have the log copy the whole bus now, and wait for that", "", 0, 0,
                cli_checkpoint,
                "What was written before is not needed any more then: agentd uses its files again, "
                "and a start reads less. agentd does it by itself when the log has grown by "
                "--checkpoint-bytes, or after --checkpoint-every. Writers go on."},
        {"verify", "[DIR|FILE|-]", "say whether a log, a backup or a dump is whole", "", 0, 1,
                cli_verify,
                "DIR has a bus's log: that of -b without it. FILE is what backup or dump wrote. "
                "Nothing is written, no agentd is needed.\nwhole; torn: a power failure's end, "
                "which agentd drops; damaged; other version, byte order or bus. Exit code 0 for "
                "whole and torn, 1 for all others, and for what cannot be read."},
        {"version", "", "print the version", "", 0, 0, cli_version, NULL},
        {"help", "[COMMAND]", "explain", "", 0, 1, cli_help, NULL},
        {"doctor", "", "", "", 0, MANY, NULL, NULL},
        {"bench", "", "", "", 0, MANY, NULL, NULL},
        {0},
};

const struct cli_command *cli_find_command(const char *name)
{
        for (const struct cli_command *command = cli_commands; command->name; command++)
                if (strcmp(command->name, name) == 0)
                        return command;
        return NULL;
}

int cli_no_command(const char *name)
{
        const struct cli_command *nearest = NULL;
        size_t least = SIZE_MAX;

        for (const struct cli_command *command = cli_commands; command->name; command++) {
                size_t distance = cli_distance(name, strlen(name), command->name);

                if (distance < least && command->run) {
                        least = distance;
                        nearest = command;
                }
        }
        if (!nearest)
                return cli_usage("there is no command '%s'", cli_word(name));
        return cli_usage(
                "there is no command '%s'; did you mean '%s'?", cli_word(name), nearest->name);
}

#define HELP_COLUMNS 79

static void commands_print_usage(FILE *to)
{
        fputs("usage: agentctl [-b BUS] [-o text|json] [--base64] COMMAND ...\n\n", to);
        for (const struct cli_command *command = cli_commands; command->name; command++)
                if (command->run)
                        fprintf(to, "  %-12s %s\n", command->name, command->summary);
        fputc('\n', to);
        cli_wrap_words(to,
                "`agentctl help COMMAND` says what a command takes, and more.\n"
                "BUS is a name, or a directory when it contains a /; without -b: $STATEBUS, then "
                "`default`.\n"
                "-o json prints one object a line; --base64 takes and gives keys in base64, and "
                "takes names of marks so.\n"
                "Options may stand before or behind the command, but for start, which takes those "
                "of agentd; -- ends them, for words that begin with -.\n"
                "Exit codes: 0 done, 1 failure, 2 wrong usage, 3 not found, 4 conflict, 5 deadline "
                "passed, 6 not permitted, 69 no agentd serves the bus.",
                0, 0, HELP_COLUMNS);
}

static void commands_print_command(const struct cli_command *command)
{
        int at = printf("usage: agentctl [-b BUS] [-o text|json] [--base64] %s", command->name);

        cli_wrap_words(stdout, command->usage, at, 7, HELP_COLUMNS);
        printf("\n%c%s.\n", toupper((unsigned char)command->summary[0]), command->summary + 1);
        if (command->text)
                cli_wrap_words(stdout, command->text, 0, 0, HELP_COLUMNS);
}

static int commands_say_later(const char *what)
{
        return cli_usage(
                "%s comes with a later version of statebus; this one does not have it", what);
}

int cli_help(struct cli *cli)
{
        const struct cli_command *command;

        if (cli->operand_count == 0) {
                commands_print_usage(stdout);
                return CLI_DONE;
        }
        command = cli_find_command(cli->operands[0]);
        if (!command)
                return cli_no_command(cli->operands[0]);
        if (!command->run)
                return commands_say_later(command->name);
        commands_print_command(command);
        return CLI_DONE;
}

int cli_version(struct cli *cli)
{
        if (cli->json) {
                cli_json_begin();
                cli_json_text("version", SB_VERSION);
                cli_json_end();
        } else {
                puts("agentctl " SB_VERSION);
        }
        return CLI_DONE;
}

int cli_run_command(struct cli *cli, const struct cli_command *command)
{
        if (cli->help) {
                commands_print_command(command);
                return CLI_DONE;
        }
        if (cli->operand_count < command->operands_min ||
                cli->operand_count > command->operands_max)
                return cli_usage("usage: agentctl %s%s%s", command->name,
                        command->usage[0] != '\0' ? " " : "", command->usage);
        return command->run(cli);
}

int cli_run(struct cli *cli, int argc, char **argv)
{
        const struct cli_command *command = NULL;
        int r;

        r = cli_read_arguments(cli, argc, argv, &command);
        if (r != 0)
                return r;
        if (!command && cli->help) {
                commands_print_usage(stdout);
                return CLI_DONE;
        }
        if (!command) {
                commands_print_usage(stderr);
                return CLI_USAGE;
        }
        if (!command->run)
                return commands_say_later(command->name);
        return cli_run_command(cli, command);
}
