/*
 * The command load: it sets the keys of a dump, and its rules of history.
 *
 * A file is read twice: first to see that it is the whole dump, and that the bus can take each of
 * its lines, and only then to write. What comes through a pipe can be read once, so it is written
 * as it is read. With --txn all keys are one transaction, which is committed behind the last line.
 *
 * Always true: nothing of a file is written that is no whole dump, and with --txn nothing of a
 * pipe. However long the dump, one line of it is in memory, but with --txn.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <mimalloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/dumped.h"
#include "cli/lines.h"
#include "cli/patience.h"
#include "cli/progress.h"
#include "libclient/core/admin.h"
#include "ring/wal/wal-file.h"
#include "shm/layout/reserved.h"

#define LINE_BESIDES 8192 /* bytes of a line that are no value: a key, names, a number */

/* A rule that is set when the transaction has been committed. */
struct load_rule {
        struct load_rule *next;
        bool prefix;
        struct sb_rule rule;
        size_t key_len;
        unsigned char key[];
};

struct load {
        struct cli *cli;
        struct sb_bus *bus;
        char name[64]; /* of the file, for messages */
        int fd;
        off_t begin; /* where the dump begins in the file; -1: it is no file */
        uint64_t file_bytes;
        uint64_t value_len_max, data_bytes; /* of the bus */
        uint32_t key_len_max;
        bool checking; /* this is the first of two times, and nothing is written */
        struct cli_lines lines;
        struct cli_dumped dumped;
        struct cli_progress progress;
        uint64_t bytes, line_number;
        uint64_t set, kept, rules_set, rules_kept;
        uint64_t txn_bytes; /* keys and values of the transaction */
        struct load_rule *rules, **rules_end;
};

/* What a message is about: a line, or the dump as a whole. Static text. */
static const char *load_place(const struct load *load)
{
        static char place[sizeof(load->name) + 32];

        if (load->line_number == 0)
                return load->name;
        snprintf(place, sizeof(place), "%s, line %" PRIu64, load->name, load->line_number);
        return place;
}

/* Say how much was done before it failed. Return: @code. */
static int load_end_badly(struct load *load, int code)
{
        cli_progress_end(&load->progress);
        if (load->cli->txn_wanted || load->set + load->rules_set == 0)
                cli_say("nothing was written");
        else
                cli_say("before this, %" PRIu64 " keys and %" PRIu64 " rules were set; a load of "
                        "the whole dump begins with them again",
                        load->set, load->rules_set);
        return code;
}

static int load_fail(struct load *load, int result)
{
        int code;

        cli_progress_end(&load->progress);
        code = cli_fail_write(load->cli, load_place(load), result);
        if (result != SB_E_NOT_DURABLE || !load->cli->txn_wanted)
                return load_end_badly(load, code);
        cli_say("all %" PRIu64
                " keys are there, at one moment; the rules of the dump are not: load "
                "it again when the log can be written",
                load->set);
        return code;
}

static int __attribute__((format(printf, 2, 3)))
load_refuse(struct load *load, const char *format, ...)
{
        char wrong[512];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(wrong, sizeof(wrong), format, arguments);
        va_end(arguments);
        cli_progress_end(&load->progress);
        cli_say("%s: %s", load_place(load), wrong);
        return load_end_badly(load, CLI_FAILED);
}

/* Of a dump that is not what was written. */
static int load_refuse_dump(struct load *load, const char *wrong)
{
        return load_refuse(load, "%s. Take another copy of the dump, or make it again", wrong);
}

/* ---- what a line does ---- */

/* Whether a rule is there already, which --if-absent leaves. */
static bool load_has_rule(struct load *load, struct sb_bytes key, bool prefix)
{
        struct sb_rule rule;

        return load->cli->if_absent && sb_kept(load->bus, key, prefix ? SB_PREFIX : 0, &rule) == 0;
}

static int load_set_rule(
        struct load *load, struct sb_bytes key, bool prefix, const struct sb_rule *rule)
{
        int r;

        if (load_has_rule(load, key, prefix)) {
                load->rules_kept++;
                return 0;
        }
        r = sb_keep(load->bus, key, prefix ? SB_PREFIX : 0, rule);
        load->rules_set += r == 0 || r == SB_E_NOT_DURABLE; /* which is there, too */
        return r;
}

/* Set a rule, or with --txn remember it for later. */
static int load_take_rule(struct load *load, const struct cli_dumped_line *line)
{
        struct load_rule *later;

        if (!load->cli->txn)
                return load_set_rule(load, line->key, line->prefix, &line->rule);
        later = mi_malloc(sizeof(*later) + line->key.len);
        if (!later)
                return -ENOMEM;
        *later = (struct load_rule){
                .prefix = line->prefix, .rule = line->rule, .key_len = line->key.len};
        memcpy(later->key, line->key.data, line->key.len);
        *load->rules_end = later;
        load->rules_end = &later->next;
        load->txn_bytes += sizeof(*later) + line->key.len;
        return 0;
}

static int load_take_key_in_txn(struct load *load, const struct cli_dumped_line *line)
{
        struct sb_guard guard = {0};
        int r = SB_E_NOT_FOUND;

        if (load->cli->if_absent)
                r = sb_txn_get(load->cli->txn, line->key, &guard);
        sb_guard_release(&guard);
        if (r == 0) {
                load->kept++;
                return 0;
        }
        if (r != SB_E_NOT_FOUND)
                return r;
        r = sb_txn_set(load->cli->txn, line->key, line->value);
        load->set += r == 0;
        load->txn_bytes += line->key.len + line->value.len;
        return r;
}

static int load_take_key(struct load *load, const struct cli_dumped_line *line)
{
        int r;

        if (load->cli->txn)
                return load_take_key_in_txn(load, line);
        if (!load->cli->if_absent) {
                r = sb_set(load->bus, line->key, line->value, NULL, NULL);
        } else {
                r = sb_cas(load->bus, line->key, 0, line->value, NULL, NULL);
                if (r == SB_E_CONFLICT) {
                        load->kept++;
                        return 0;
                }
        }
        load->set += r == 0 || r == SB_E_NOT_DURABLE; /* which is there, too */
        return r;
}

/* Whether the bus can take the line at all, as far as that can be said before. */
static int load_check_line(struct load *load, const struct cli_dumped_line *line)
{
        const uint64_t value_len_max = load->value_len_max - (load->cli->txn_wanted ? 8 : 0);
        const size_t rule_less = line->kind == CLI_DUMPED_RULE ? SB_KEEP_PREFIX : 0;

        if (line->value.len > value_len_max && line->value.len <= load->value_len_max)
                return load_refuse(load,
                        "the value has %zu bytes, and %" PRIu64
                        " are the most in a transaction of this bus: leave out --txn",
                        line->value.len, value_len_max);
        if (line->value.len > value_len_max)
                return load_refuse(load,
                        "the value has %zu bytes, and %" PRIu64 " are the most in a value of this "
                        "bus: start agentd with a larger --size",
                        line->value.len, value_len_max);
        if (line->key.len > load->key_len_max - rule_less)
                return load_refuse(load,
                        "the key has %zu bytes, and %zu are the most in one of this bus%s",
                        line->key.len, load->key_len_max - rule_less,
                        rule_less != 0 ? " that has a rule" : "");
        if (load->txn_bytes > load->data_bytes)
                return load_refuse(load, "these are more bytes than one transaction of this bus "
                                         "takes: leave out --txn");
        return 0;
}

static int load_take_line(struct load *load, const struct cli_dumped_line *line)
{
        int r = load_check_line(load, line);

        if (r != 0 || load->checking)
                return r;
        if (line->kind == CLI_DUMPED_RULE)
                r = load_take_rule(load, line);
        else if (line->kind == CLI_DUMPED_KEY)
                r = load_take_key(load, line);
        return r == 0 ? 0 : load_fail(load, r);
}

/* ---- the whole dump ---- */

/* Whether it is a backup, by its first bytes, as long as none of them was given out and changed. */
static bool load_is_backup(const struct load *load)
{
        const size_t len = strlen(SB_WAL_FILE_MAGIC);

        return load->line_number == 1 && load->lines.len >= len &&
               memcmp(load->lines.bytes, SB_WAL_FILE_MAGIC, len) == 0;
}

/* Read the next line. Return: 0, or an exit code after a message; *ret_line is NULL at the end. */
static int load_next_line(struct load *load, char **ret_line, size_t *ret_len)
{
        bool whole = false;
        int r;

        *ret_line = NULL;
        load->line_number++;
        r = cli_lines_next(&load->lines, ret_line, ret_len, &whole);
        if (r == SB_E_NOT_FOUND) {
                load->line_number--;
                return 0;
        }
        if ((r == 0 || r == -EMSGSIZE) && load_is_backup(load))
                return load_refuse(load, "this is no dump but a backup, or a file of a log: "
                                         "`agentctl restore-from` takes a backup");
        if (r == -EMSGSIZE && load->line_number == 1)
                return load_refuse_dump(load, "this is no dump: its first line is too long");
        if (r == -EMSGSIZE)
                return load_refuse(load,
                        "it is longer than a line with a value of %" PRIu64
                        " bytes, which are the most in one of this bus: start agentd with a larger "
                        "--size, if `agentctl verify` finds the dump whole",
                        load->value_len_max);
        if (r != 0)
                return load_fail(load, r);
        if (!whole)
                return load_refuse_dump(load, "the dump ends in it: it was cut off, or is still "
                                              "being written");
        load->bytes += *ret_len + 1;
        return 0;
}

/* Go through the dump once. Return: 0, or an exit code after a message. */
static int load_go_through(struct load *load)
{
        struct cli_dumped_line taken;
        char *line;
        size_t len;
        int r;

        for (;;) {
                r = load_next_line(load, &line, &len);
                if (r != 0)
                        return r;
                if (!line)
                        break;
                if (cli_dumped_take(&load->dumped, line, len, &taken) != 0)
                        return load_refuse_dump(load, load->dumped.wrong);
                r = load_take_line(load, &taken);
                if (r != 0)
                        return r;
                cli_progress_step(&load->progress, load->dumped.keys, load->bytes);
        }
        load->line_number = 0;
        return cli_dumped_finish(&load->dumped) == 0 ? 0
                                                     : load_refuse_dump(load, load->dumped.wrong);
}

static int load_pass(struct load *load, bool checking)
{
        int r;

        load->checking = checking;
        load->bytes = load->line_number = 0;
        load->lines = (struct cli_lines){
                .fd = load->fd, .line_max = load->value_len_max / 3 * 4 + LINE_BESIDES};
        if (load->begin >= 0 && lseek(load->fd, load->begin, SEEK_SET) < 0)
                return load_fail(load, -errno);
        r = cli_dumped_begin(&load->dumped);
        if (r != 0)
                return load_fail(load, r);
        cli_progress_begin(&load->progress, checking ? "check" : "load", load->file_bytes);
        r = load_go_through(load);
        cli_progress_end(&load->progress);
        cli_dumped_end(&load->dumped);
        cli_lines_free(&load->lines);
        return r;
}

static int load_commit(struct load *load)
{
        struct cli *cli = load->cli;
        int r = sb_txn_commit(cli->txn, NULL);

        cli->txn = sb_txn_end(cli->txn);
        if (r == SB_E_CONFLICT) {
                cli_say("%s: another writer changed a key of the dump meanwhile: load it again",
                        load->name);
                return load_end_badly(load, CLI_CONFLICT);
        }
        if (r == -EMSGSIZE)
                return load_refuse(load, "these are more keys than one transaction of this bus "
                                         "takes: leave out --txn");
        if (r != 0)
                return load_fail(load, r);
        for (struct load_rule *later = load->rules; later; later = later->next) {
                r = load_set_rule(load, (struct sb_bytes){later->key, later->key_len},
                        later->prefix, &later->rule);
                if (r == 0)
                        continue;
                r = cli_fail_write(cli, load->name, r);
                cli_say("all keys were set, but not all rules: load it again");
                return r;
        }
        return 0;
}

static int load_in_txn(struct load *load)
{
        struct load_rule *next;
        int r = sb_txn_begin(load->bus, SB_SNAPSHOT, &load->cli->txn);

        if (r != 0)
                return load_fail(load, r);
        load->rules_end = &load->rules;
        r = load_pass(load, false);
        if (r == 0)
                r = load_commit(load);
        load->cli->txn = sb_txn_end(load->cli->txn);
        for (; load->rules; load->rules = next) {
                next = load->rules->next;
                mi_free(load->rules);
        }
        return r;
}

static void load_print(const struct load *load)
{
        if (!load->cli->json) {
                printf("%" PRIu64 "\n", load->set);
                return;
        }
        cli_json_begin();
        cli_json_number("set", load->set);
        cli_json_number("kept", load->kept);
        cli_json_number("rules", load->rules_set);
        cli_json_number("rules_kept", load->rules_kept);
        cli_json_end();
}

/* Open the file, or take standard input. Return: 0, or an exit code after a message. */
static int load_open(struct load *load)
{
        const char *word = load->cli->operand_count > 0 ? load->cli->operands[0] : "-";
        struct stat stat;

        load->fd = STDIN_FILENO;
        load->begin = -1;
        if (strcmp(word, "-") == 0)
                word = "standard input";
        else
                load->fd = open(word, O_RDONLY | O_CLOEXEC);
        snprintf(load->name, sizeof(load->name), "%s", cli_word(word));
        if (load->fd < 0 || fstat(load->fd, &stat) < 0) {
                int error = errno;

                cli_say("%s: cannot open it: %s", load->name, strerror(error));
                return cli_code_of(error);
        }
        if (S_ISDIR(stat.st_mode)) {
                cli_say("%s: this is a directory: name the file that dump wrote", load->name);
                return CLI_FAILED;
        }
        if (S_ISREG(stat.st_mode))
                load->begin = lseek(load->fd, 0, SEEK_CUR);
        if (load->begin >= 0 && stat.st_size > load->begin)
                load->file_bytes = (uint64_t)(stat.st_size - load->begin);
        return 0;
}

int cli_load(struct cli *cli)
{
        struct load *load = mi_zalloc(sizeof(*load));
        struct sb_admin_stat stat = {0};
        int r;

        if (!load)
                return cli_fail(cli, "load", -ENOMEM);
        load->cli = cli;
        r = load_open(load);
        if (r == 0)
                r = cli_open_to_write(cli, &load->bus);
        if (r == 0) {
                r = sb_admin_stat(load->bus, &stat);
                r = r == 0 ? 0 : load_fail(load, r);
        }
        load->value_len_max = stat.value_len_max;
        load->key_len_max = stat.key_len_max;
        load->data_bytes = stat.data_bytes;
        if (r == 0 && load->begin >= 0 && !cli->txn_wanted)
                r = load_pass(load, true);
        if (r == 0)
                r = cli->txn_wanted ? load_in_txn(load) : load_pass(load, false);
        if (r == 0)
                load_print(load);
        if (load->fd > STDIN_FILENO)
                close(load->fd);
        mi_free(load);
        return r;
}
