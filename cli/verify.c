/*
 * The command verify: whether a log on the disk, a backup or a dump, is whole, and if not, what is
 * wrong with it and what to do.
 *
 * Always true: nothing is written, and no bus is attached to.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mimalloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/dumped.h"
#include "cli/lines.h"
#include "cli/logged.h"
#include "cli/moments.h"
#include "cli/partial.h"
#include "cli/progress.h"
#include "ring/wal/wal-file.h"
#include "ring/wal/wal-frame.h"

#define HEAD_MAX  16384             /* bytes of a dump's first line, which has a prefix alone */
#define BEGINS    16                /* bytes that all headers of a log's files begin with */
#define PIPED_MAX ((size_t)1 << 30) /* bytes of a line that comes through a pipe */

/* Print a line, with what is no printable ASCII escaped. */
static void __attribute__((format(printf, 1, 2))) verify_print(const char *format, ...)
{
        char text[3 * PATH_MAX];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        cli_write_words(stdout, text);
        putchar('\n');
}

/* ---- a log ---- */

static const char *verify_plural(uint64_t count)
{
        return count == 1 ? "" : "s";
}

/* The batches that are whole. */
static void verify_print_batches(const struct cli_logged *logged, const char *before)
{
        const struct cli_logged_batch *sum = &logged->sum;
        char bytes[32], file_bytes[32], time[32];

        if (logged->batch_count == 0) {
                verify_print("%sno batch, in %" PRIu64 " file%s of %s", before, logged->files,
                        verify_plural(logged->files),
                        cli_bytes_words(logged->file_bytes, file_bytes));
                return;
        }
        verify_print("%s%zu batch%s (%" PRIu64 " to %" PRIu64 "), %" PRIu64
                     " entries, %s, in %" PRIu64 " file%s of %s; the last cut is %" PRIu64
                     ", of %s",
                before, logged->batch_count, logged->batch_count == 1 ? "" : "es",
                logged->batches[0].sequence, sum->sequence, sum->entries,
                cli_bytes_words(sum->bytes, bytes), logged->files, verify_plural(logged->files),
                cli_bytes_words(logged->file_bytes, file_bytes), sum->cut,
                cli_time_words(sum->realtime_ns, time));
}

static void verify_print_log(struct cli_logged *logged)
{
        const char *state = cli_logged_state(logged), *advice = cli_logged_advice(logged);

        if (cli_logged_costs_nothing(logged)) {
                verify_print("damaged: %s", cli_logged_passed_words(logged));
                verify_print_batches(logged, "without it: ");
                return;
        }
        if (logged->end.ending == SB_WAL_CLEAN) {
                verify_print_batches(logged, "whole: ");
                return;
        }
        verify_print("%s: %s", state, cli_logged_words(logged));
        if (logged->end.ending <= SB_WAL_DAMAGED)
                verify_print_batches(logged, "before it: ");
        if (*advice)
                verify_print("%s", advice);
        if (logged->is_whole_behind && cli_logged_go_behind(logged) == 0)
                verify_print_batches(logged, "behind it: ");
}

static void verify_print_log_json(struct cli_logged *logged)
{
        const struct sb_wal_end *end = &logged->end;
        const struct cli_logged_batch *sum = &logged->sum;
        char name[SB_WAL_FILE_NAME_MAX], time[32];

        cli_json_begin();
        cli_json_text(logged->single ? "backup" : "log", logged->directory);
        cli_json_text("state", cli_logged_state(logged));
        cli_json_number("files", logged->files);
        cli_json_number("file_bytes", logged->file_bytes);
        cli_json_number("batches", logged->batch_count);
        cli_json_number("entries", sum->entries);
        cli_json_number("bytes", sum->bytes);
        if (logged->batch_count != 0) {
                cli_json_number("first_sequence", logged->batches[0].sequence);
                cli_json_number("sequence", sum->sequence);
                cli_json_number("cut", sum->cut);
                cli_json_text("time", cli_time_words(sum->realtime_ns, time));
        }
        if (cli_logged_costs_nothing(logged)) {
                sb_wal_file_name(end->passed_file, name);
                cli_json_text("file", name);
                cli_json_number("byte", end->passed_offset);
                cli_json_number("passed_over", end->passed);
                cli_json_text("why", cli_logged_passed_words(logged));
        } else if (end->file != 0 && !logged->single) {
                sb_wal_file_name(end->file, name);
                cli_json_text("file", name);
        }
        if (end->file != 0 && !cli_logged_costs_nothing(logged))
                cli_json_number("byte", end->offset);
        if (end->ending == SB_WAL_TORN)
                cli_json_number("dropped_bytes", end->dropped);
        if (end->ending == SB_WAL_OTHER_VERSION)
                cli_json_number("version", end->version);
        if (end->ending != SB_WAL_CLEAN && !cli_logged_costs_nothing(logged)) {
                cli_json_text("why", cli_logged_words(logged));
                cli_json_text("advice", cli_logged_advice(logged));
        }
        if (end->ending == SB_WAL_DAMAGED)
                cli_json_flag("whole_behind", logged->is_whole_behind);
        cli_json_flag("served", logged->supervisor != 0);
        cli_json_end();
}

static int verify_log(const struct cli *cli, const char *name)
{
        struct cli_logged *logged = mi_zalloc(sizeof(*logged));
        int r = logged ? cli_logged_open(name, logged) : -ENOMEM;

        if (r != 0) {
                r = cli_logged_fail(name, r);
                mi_free(logged);
                return r;
        }
        if (logged->files == 0) {
                r = cli_logged_none(logged);
        } else {
                r = cli_logged_is_good(logged) && !cli_logged_costs_nothing(logged) ? CLI_DONE
                                                                                    : CLI_FAILED;
                (cli->json ? verify_print_log_json : verify_print_log)(logged);
        }
        cli_logged_close(logged);
        mi_free(logged);
        return r;
}

/* ---- a dump ---- */

struct verify_dump {
        const struct cli *cli;
        const char *name; /* as it was typed */
        uint64_t file_bytes, bytes, line_number;
        size_t line_max; /* behind the first line */
        struct cli_lines lines;
        struct cli_dumped dumped;
        struct cli_progress progress;
        bool piped_backup;
        bool neither; /* it begins as no dump does; as a backup does neither, or it were read so */
        char wrong[320];
};

static int verify_wrong(struct verify_dump *dump, const char *wrong)
{
        snprintf(dump->wrong, sizeof(dump->wrong), "%s", wrong);
        return SB_E_NOT_FOUND;
}

/* Look whether it begins as a dump does, before its first line is read, which changes it in place.
 */
static void verify_look_at_beginning(struct verify_dump *dump)
{
        static const char begins[] = CLI_DUMPED_BEGINS;
        const struct cli_lines *lines = &dump->lines;
        size_t len = lines->len < sizeof(begins) - 1 ? lines->len : sizeof(begins) - 1;

        dump->neither = len == 0 || memcmp(lines->bytes, begins, len) != 0;
        dump->piped_backup = lines->len >= 8 && memcmp(lines->bytes, SB_WAL_FILE_MAGIC, 8) == 0;
}

/* What has packed it, by its first bytes; NULL: nothing that is known here. */
static const char *verify_packed_by(const struct verify_dump *dump)
{
        static const struct {
                const char *bytes, *program;
        } known[] = {{"\x1f\x8b", "gzip"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"\xfd\x37zXZ", "xz"},
                {"BZh", "bzip2"}, {"\x04\x22\x4d\x18", "lz4"}};

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                if (dump->lines.len >= strlen(known[i].bytes) &&
                        !memcmp(dump->lines.bytes, known[i].bytes, strlen(known[i].bytes)))
                        return known[i].program;
        return NULL;
}

/* Of what is not even the beginning of a dump no line is named. */
static int verify_wrong_kind(struct verify_dump *dump)
{
        const char *packed = verify_packed_by(dump);

        dump->line_number = 0;
        if (packed) {
                snprintf(dump->wrong, sizeof(dump->wrong),
                        "neither a backup nor a dump: it was packed by %s", packed);
                return SB_E_NOT_FOUND;
        }
        return verify_wrong(dump,
                dump->lines.len == 0 ? "neither a backup nor a dump: it is empty"
                                     : "neither a backup nor a dump: its first bytes are those of "
                                       "neither");
}

/* Read the whole dump. Return: 0: it is whole; SB_E_NOT_FOUND: dump->wrong says why it is not;
 * -errno. */
static int verify_read_dump(struct verify_dump *dump)
{
        struct cli_dumped_line taken;
        bool whole = false;
        char *line;
        size_t len;
        int r;

        for (;;) {
                dump->line_number++;
                r = cli_lines_next(&dump->lines, &line, &len, &whole);
                if (dump->line_number == 1)
                        verify_look_at_beginning(dump);
                if (dump->neither && (r >= 0 || r == -EMSGSIZE))
                        return verify_wrong_kind(dump);
                if (r == SB_E_NOT_FOUND)
                        break;
                if (r == -EMSGSIZE && dump->line_number == 1)
                        return verify_wrong(dump, "this is no dump: its first line is too long");
                if (r == -EMSGSIZE)
                        return verify_wrong(dump, "it is too long for a line that comes through a "
                                                  "pipe: put the dump into a file");
                if (r != 0)
                        return r;
                if (!whole)
                        return verify_wrong(dump, "the dump ends in it: it was cut off, or is "
                                                  "still being written");
                if (cli_dumped_take(&dump->dumped, line, len, &taken) != 0)
                        return verify_wrong(dump, dump->dumped.wrong);
                dump->bytes += len + 1;
                dump->lines.line_max = dump->line_max;
                cli_progress_step(&dump->progress, dump->dumped.keys, dump->bytes);
        }
        dump->line_number = 0;
        return cli_dumped_finish(&dump->dumped) == 0 ? 0 : verify_wrong(dump, dump->dumped.wrong);
}

/* What a file is that is no dump, and what to do about it. */
static void verify_print_neither(const struct verify_dump *dump)
{
        verify_print("damaged: %s is %s", dump->name, dump->wrong);
        if (dump->file_bytes == 0 && dump->lines.len != 0)
                verify_print("a backup is verified by the name of its file: through a pipe only a "
                             "dump can be");
        if (verify_packed_by(dump)) {
                verify_print("what was packed is not looked at: unpack it first");
                return;
        }
        verify_print("if it was one, it was cut off or changed, and neither `agentctl "
                     "restore-from` nor `agentctl load` takes it. Take another copy of it, or make "
                     "it again");
}

static void verify_print_dump(const struct verify_dump *dump, bool whole)
{
        char bytes[32];

        if (dump->cli->json) {
                cli_json_begin();
                cli_json_text("dump", dump->name);
                cli_json_text("state", whole ? "whole" : "damaged");
                cli_json_number("keys", dump->dumped.keys);
                cli_json_number("rules", dump->dumped.rules);
                cli_json_number("bytes", dump->bytes);
                if (!whole) {
                        cli_json_number("line", dump->line_number);
                        cli_json_text("why", dump->wrong);
                }
                cli_json_end();
        } else if (whole) {
                verify_print("whole: a dump of %" PRIu64 " key%s and %" PRIu64 " rule%s, %s",
                        dump->dumped.keys, verify_plural(dump->dumped.keys), dump->dumped.rules,
                        verify_plural(dump->dumped.rules), cli_bytes_words(dump->bytes, bytes));
        } else if (dump->neither) {
                verify_print_neither(dump);
        } else {
                if (dump->line_number != 0)
                        verify_print("damaged: %s, line %" PRIu64 ": %s", dump->name,
                                dump->line_number, dump->wrong);
                else
                        verify_print("damaged: %s: %s", dump->name, dump->wrong);
                verify_print("`agentctl load` refuses it. Take another copy of the dump, or make "
                             "it again");
        }
}

static int verify_fail_file(const char *name, int error)
{
        cli_say("%s: cannot read it: %s", cli_word(name), strerror(error));
        return cli_code_of(error);
}

/* Whether the open file begins as one of a log's does, or was to become one: of a beginning that
 * was changed a part is enough, and of one that was cut off what there is. */
static bool verify_is_of_log(int fd, const struct stat *status)
{
        static const struct sb_wal_file any = {0};
        unsigned char header[SB_WAL_BLOCK], begins[BEGINS];
        ssize_t len;

        if (!S_ISREG(status->st_mode))
                return false;
        len = pread(fd, begins, sizeof(begins), 0);
        sb_wal_file_encode(&any, header);
        if (len < (ssize_t)sizeof(begins))
                return len > 0 && memcmp(begins, header, (size_t)len) == 0;
        return memcmp(begins, header, BEGINS / 2) == 0 ||
               memcmp(begins + BEGINS / 2, header + BEGINS / 2, BEGINS / 2) == 0 ||
               cli_partial_is(fd);
}

static int verify_dump(const struct cli *cli, int fd, const char *name, const struct stat *status)
{
        struct verify_dump *dump = mi_zalloc(sizeof(*dump));
        int code, r = dump ? cli_dumped_begin(&dump->dumped) : -ENOMEM;

        if (r != 0) {
                mi_free(dump);
                return cli_fail(cli, "verify", r);
        }
        dump->cli = cli;
        dump->name = name;
        dump->line_max = PIPED_MAX;
        if (S_ISREG(status->st_mode))
                dump->line_max = dump->file_bytes = (uint64_t)status->st_size;
        dump->lines = (struct cli_lines){.fd = fd, .line_max = HEAD_MAX};
        cli_progress_begin(&dump->progress, "verify", dump->file_bytes);
        r = verify_read_dump(dump);
        cli_progress_end(&dump->progress);
        code = r == 0 ? CLI_DONE : CLI_FAILED;
        if (dump->piped_backup)
                code = cli_usage("a backup is verified by the name of its file: through a pipe "
                                 "only a dump can be");
        else if (r < 0)
                code = verify_fail_file(name, -r);
        else
                verify_print_dump(dump, r == 0);
        cli_lines_free(&dump->lines);
        cli_dumped_end(&dump->dumped);
        mi_free(dump);
        return code;
}

/* Verify what was named: a directory, a file, or standard input. */
static int verify_named(const struct cli *cli, const char *name)
{
        bool from_input = strcmp(name, "-") == 0;
        int fd = from_input ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
        struct stat status;
        int r;

        if (fd < 0 || fstat(fd, &status) < 0)
                return verify_fail_file(name, errno);
        if (S_ISDIR(status.st_mode) || verify_is_of_log(fd, &status))
                r = verify_log(cli, from_input ? "/dev/stdin" : name);
        else
                r = verify_dump(cli, fd, from_input ? "standard input" : name, &status);
        if (!from_input)
                close(fd);
        return r;
}

int cli_verify(struct cli *cli)
{
        char directory[PATH_MAX];
        int r;

        if (cli->operand_count > 0)
                return verify_named(cli, cli->operands[0]);
        r = cli_place(cli, directory, sizeof(directory));
        return r != 0 ? r : verify_log(cli, directory);
}
