/*
 * agentctl's own conventions: options, exit codes, what goes to which stream.
 *
 * Always true: data goes to standard output, messages to standard error; what came from the bus or
 * the command line is escaped on its way to either, except the value that `get` prints as text.
 */
#ifndef SB_CLI_H
#define SB_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "libclient/statebus.h"

/* Exit codes; `agentctl help` explains them. */
enum cli_exit {
        CLI_DONE = 0,
        CLI_FAILED = 1,
        CLI_USAGE = 2,
        CLI_NOT_FOUND = 3,
        CLI_CONFLICT = 4,
        CLI_TIMED_OUT = 5,
        CLI_NOT_PERMITTED = 6,
        CLI_NO_AGENTD = 69,
};

struct cli {
        const char *bus; /* NULL: not given */
        bool json, base64, help;
        /* options of single commands; text options are NULL when not given */
        bool if_absent, rev, values, full, reverse;
        bool kill, drop, prefix, entries;
        bool txn_wanted, once;
        const char *if_rev, *if_value, *ttl, *durability, *limit, *at, *pid;
        const char *after, *count, *timeout, *exec, *until, *from;
        int operand_count;
        char **operands;
        struct sb_bus *attached; /* NULL until cli_open(); main closes it */
        /* a line of a batch: with what it does it, and how it answers */
        bool in_batch;
        struct sb_txn *txn; /* NULL: each line by itself */
};

struct cli_command {
        const char *name;
        const char *usage; /* behind the name */
        const char *summary;
        const char *options; /* names of the options that it takes, each followed by a space */
        int operands_min, operands_max;
        int (*run)(struct cli *cli); /* returns an exit code; NULL: comes with a later version */
        const char *text;            /* more help, or NULL */
};
extern const struct cli_command cli_commands[];

/* The command of that name, or NULL. */
const struct cli_command *cli_find_command(const char *name);
/* Say that there is no such command, and which one is near. Return: CLI_USAGE. */
int cli_no_command(const char *name);
/* Read the words behind argv[0] into @cli. The operands are moved to the front of @argv. Return: 0,
 * or CLI_USAGE after a message; *ret_command is NULL when there is no command. */
int cli_read_arguments(
        struct cli *cli, int argc, char **argv, const struct cli_command **ret_command);
/* Run a command with the arguments that were read, if they are as many as it takes. Return: an exit
 * code. */
int cli_run_command(struct cli *cli, const struct cli_command *command);
/* Do what the words behind argv[0] say. Return: an exit code. */
int cli_run(struct cli *cli, int argc, char **argv);

int cli_get(struct cli *cli);
int cli_set(struct cli *cli);
int cli_del(struct cli *cli);
int cli_scan(struct cli *cli);
int cli_del_prefix(struct cli *cli);
int cli_incr(struct cli *cli);
int cli_batch(struct cli *cli);
int cli_stat(struct cli *cli);
int cli_clients(struct cli *cli);
int cli_evict(struct cli *cli);
int cli_check(struct cli *cli);
int cli_mark(struct cli *cli);
int cli_keep(struct cli *cli);
int cli_history(struct cli *cli);
int cli_diff(struct cli *cli);
int cli_restore(struct cli *cli);
int cli_watch(struct cli *cli);
int cli_wait(struct cli *cli);
int cli_top(struct cli *cli);
int cli_dump(struct cli *cli);
int cli_load(struct cli *cli);
int cli_backup(struct cli *cli);
int cli_restore_from(struct cli *cli);
int cli_log(struct cli *cli);
int cli_verify(struct cli *cli);
int cli_checkpoint(struct cli *cli);
int cli_start(struct cli *cli);
int cli_stop(struct cli *cli);
int cli_version(struct cli *cli);
int cli_help(struct cli *cli);

/* ---- cli.c: what several commands need ---- */

/* Open the bus, which stays open until agentctl ends. agentctl waits half a minute for an engine
 * that does not answer, and says so. Return: 0, or an exit code after a message. */
int cli_open(struct cli *cli, struct sb_bus **ret_bus);
/* The bus's directory. Return: 0, or an exit code after a message: the name can be no directory. */
int cli_place(const struct cli *cli, char *ret_directory, size_t size);
/* The option that names the bus, for a command in a message: `-b NAME `, or "". Static text. */
const char *cli_bus_words(const struct cli *cli);
/* The exit code for a call of the system that failed with @error. */
int cli_code_of(int error);
/* Say that @what failed with @result, and what to do next. Return: the exit code for @result. */
int cli_fail(const struct cli *cli, const char *what, int result);
/* The same for a write of what was named by @what: -EPERM says that it is the bus's own. */
int cli_fail_write(const struct cli *cli, const char *what, int result);
/* Say that an agentd serves the bus in @directory, and how it is ended, for its lock file was
 * removed. Return: CLI_FAILED. */
int cli_fail_lockless(const char *directory, pid_t pid);
/* How a message names an agentd: by its pid, unless this process cannot see it (0, or below): its
 * lock shows no pid to another pid namespace. Static text. */
const char *cli_agentd(pid_t pid);
/* How a message names a key: as it was typed, or by its beginning. Static text. */
const char *cli_word(const char *typed);
/* Read a key or a prefix, which is base64 when --base64 says so. The memory of @ret_key lasts until
 * cli_free_keys(). Return: 0, or an exit code after a message. */
int cli_key(const struct cli *cli, const char *text, bool maybe_empty, struct sb_bytes *ret_key);
/* The same for a value: it may be empty, and is base64 in a batch alone. */
int cli_value(const struct cli *cli, const char *text, struct sb_bytes *ret_value);
void cli_free_keys(void);
/* Read a number in decimal. Return: 0, or CLI_USAGE after a message. */
int cli_number(const char *text, const char *name, uint64_t *ret);
/* The name of a kind of version: value, deleted or expired. */
const char *cli_kind_name(uint32_t kind);
/* Print a message on standard error, printf-like, with `agentctl: ` before it and a line end behind
 * it. Control bytes come out as escapes. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Text of a message: what is no printable ASCII is escaped, and a backslash stays as it is, for a
 * command that is named is to be typed so. */
void cli_write_words(FILE *to, const char *text);
/* From now on messages say that they are about that line of a batch; 0: about none. */
void cli_say_of_line(uint64_t line_number);
/* The same for wrong usage; it also tells where help is. Return: CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- keys.c ---- */

/* Read --if-absent, --if-rev, --ttl and --durability; without the first two *ret_expected is
 * SB_ANY_REV. Return: 0, or CLI_USAGE after a message. */
int cli_read_how(const struct cli *cli, struct sb_write *how, uint64_t *ret_expected);

/* ---- print.c: to standard output ---- */

/* Whether standard output is a terminal: people read it, and no program. */
bool cli_on_terminal(void);

/* Print bytes as text: printable ASCII as it is, \\ for \, \n \t \r, any other byte as \xHH. */
void cli_print_escaped(struct sb_bytes bytes);
/* The same into another stream. */
void cli_write_escaped(FILE *to, struct sb_bytes bytes);
/* cli_print_escaped() of a value; where standard output is a terminal and --full was not said, of
 * its beginning: then it also says how many bytes there are. */
void cli_print_shown(const struct cli *cli, struct sb_bytes value);
void cli_print_base64(struct sb_bytes bytes);
/* Print a key, or a value of a batch: in base64 when --base64 says so, else escaped. */
void cli_print_bytes(const struct cli *cli, struct sb_bytes bytes);
/* Decode base64, perhaps over the text itself: the result is no longer. Return: 0, -EINVAL. */
int cli_base64_decode(const char *text, unsigned char *ret_bytes, size_t *ret_len);
/* Read one character of UTF-8. Return: its length; 0 when the bytes are none, as overlong forms,
 * surrogates and what is above U+10FFFF. */
size_t cli_utf8_decode(const unsigned char *p, size_t len, uint32_t *ret_point);
/* A size in the largest unit that it fills: 1536 is 1.5 KiB. */
const char *cli_bytes_words(uint64_t bytes, char text[static 32]);
/* Print one object of JSON on a line: begin it, print its fields, end it. All output is ASCII. */
void cli_json_begin(void);
void cli_json_number(const char *name, uint64_t value);
void cli_json_flag(const char *name, bool value);
void cli_json_text(const char *name, const char *value);
/* The field is `name` when the bytes are UTF-8 and @base64 is false, else `name_base64`. */
void cli_json_bytes(const char *name, struct sb_bytes bytes, bool base64);
void cli_json_list_begin(const char *name);
void cli_json_list_text(const char *value);
void cli_json_list_number(uint64_t value);
void cli_json_list_end(void);
void cli_json_end(void);
/* A whole object about a version: key, its value when @value is true, rev, kind, cut. */
void cli_json_guard(const struct cli *cli, const struct sb_guard *guard, bool value);

#endif
