/*
 * The commands backup and restore-from: the log of a durable bus, copied into one file, which is a
 * log itself (log-copy.h); and back into the directory of a bus that has none.
 *
 * Of a bus that is served, all that was written before the command is made durable first. Then a
 * shared lock on BUS/backup.lock keeps agentd from letting go of files of the log. A backup that is
 * killed gives it back; one that is stopped keeps old files on the disk, and nothing else: it has
 * left the bus by then.
 *
 * Always true: no file that is there is written or replaced, and what is written appears under its
 * name when it is whole (partial.h). What is restored into is locked as by an agentd.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mimalloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/log-copy.h"
#include "cli/logged.h"
#include "cli/moments.h"
#include "cli/partial.h"
#include "cli/progress.h"
#include "libclient/core/admin.h"
#include "ring/attach/place.h"
#include "ring/wal/wal-file.h"

#define SECOND_NS       UINT64_C(1000000000)
#define FLUSH_SECONDS   30
#define RELEASE_SECONDS 30 /* for a log that is letting go of files */
#define END_SECONDS     1  /* for an agentd that is ending */

struct backup {
        struct cli *cli;
        const char *command;
        struct cli_logged logged; /* what is copied */
        int lock_fd;              /* of the source; -1: none */
        /* Where the copy goes. */
        char directory[PATH_MAX], name[NAME_MAX + 1], shown[PATH_MAX];
        int directory_fd;
        bool made; /* the directory, by this command */
        int bus_lock_fd;
        struct cli_partial partial;
        struct cli_log_copied copied;
};

/* ---- locks ---- */

static void backup_note_alarm(int signal_number)
{
        (void)signal_number;
}

/* Take a flock(), and wait for it so long at most. Return: 0, -EWOULDBLOCK, -errno. */
static int backup_flock(int fd, int operation, time_t seconds)
{
        const struct itimerval timer = {.it_value.tv_sec = seconds, .it_interval.tv_sec = 1},
                               none = {0};
        int r;

        if (!flock(fd, operation | LOCK_NB))
                return 0;
        if (errno != EWOULDBLOCK)
                return -errno;
        sigaction(SIGALRM, &(struct sigaction){.sa_handler = backup_note_alarm}, NULL);
        setitimer(ITIMER_REAL, &timer, NULL);
        r = flock(fd, operation) < 0 ? -errno : 0;
        setitimer(ITIMER_REAL, &none, NULL);
        return r == -EINTR ? -EWOULDBLOCK : r;
}

/* Where root works for the owner of a bus's directory, the owner has to be able to open its files.
 * Return: 0, -errno. */
static int backup_give(int directory_fd, int fd)
{
        struct stat directory, file;

        if (geteuid())
                return 0;
        if (fstat(directory_fd, &directory) < 0 || fstat(fd, &file) < 0)
                return -errno;
        if (directory.st_uid == file.st_uid)
                return 0;
        return fchown(fd, directory.st_uid, directory.st_gid) < 0 ? -errno : 0;
}

/* Open, and make, a file of locks. Return: 0, -errno. */
static int backup_open_lock(int directory_fd, const char *name, int *ret_fd)
{
        int fd = openat(directory_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), r;

        if (fd < 0)
                return -errno;
        r = backup_give(directory_fd, fd);
        if (r)
                close(fd);
        else
                *ret_fd = fd;
        return r;
}

/* Keep the files of a log that an agentd may be writing: one that was there has left its own lock.
 * Where no lock can be made, as on a disk that can only be read, the copy does without: if a file
 * goes meanwhile it fails, and says so. Return: 0, or an exit code after a message. */
static int backup_keep_files(struct backup *backup, const char *directory)
{
        int directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

        if (directory_fd < 0)
                return 0; /* the source is a file, or what reads it says why not */
        r = faccessat(directory_fd, SB_PLACE_LOCK, F_OK, 0);
        r = r ? r : backup_open_lock(directory_fd, SB_PLACE_BACKUP, &backup->lock_fd);
        close(directory_fd);
        if (r)
                return 0;
        r = backup_flock(backup->lock_fd, LOCK_SH, RELEASE_SECONDS);
        if (!r)
                return 0;
        cli_say("%s: the log of %s has been letting go of files for %d seconds: is agentd-log "
                "stopped? `pgrep agentd-log` finds it, `kill -CONT PID` lets it go on",
                backup->command, directory, RELEASE_SECONDS);
        return CLI_TIMED_OUT;
}

/* ---- the source ---- */

static int backup_fail_flush(const struct backup *backup, int result, int log_error)
{
        const char *words = cli_bus_words(backup->cli);

        if (log_error < 0) {
                cli_say("backup: this bus is volatile and has no log: `agentctl %sdump >FILE` "
                        "saves its keys",
                        words);
                return CLI_FAILED;
        }
        if (result == SB_E_TIMED_OUT) {
                cli_say("backup: what was written has not become durable in %d seconds: is "
                        "agentd-log stopped, or the disk too slow? Nothing was done; `agentctl "
                        "%sdump >FILE` saves all keys without the log",
                        FLUSH_SECONDS, words);
                return CLI_TIMED_OUT;
        }
        if (result == SB_E_NOT_DURABLE) {
                cli_say("backup: the log cannot be written (%s), so what was written lately would "
                        "not be in a backup. Nothing was done; `agentctl %sdump >FILE` saves all "
                        "keys without the log",
                        log_error ? strerror(log_error) : "it works again: try again", words);
                return CLI_FAILED;
        }
        return cli_fail(backup->cli, "backup", result);
}

/* All that was written before this command is to be in the log, if the bus is served. Return: 0,
 * or an exit code after a message. */
static int backup_flush(const struct backup *backup)
{
        struct cli *cli = backup->cli;
        struct sb_bus *bus = NULL;
        struct timespec now;
        pid_t supervisor;
        int r, log_error;

        /* One without a supervisor just now, or without its lock, serves it all the same. */
        if (sb_admin_supervisor(cli->bus, &supervisor) != 0 && sb_admin_served(cli->bus) != 0)
                return 0;
        r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        clock_gettime(CLOCK_MONOTONIC, &now);
        cli_progress_wait("backup: waiting until all that was written is on the disk ...");
        do
                r = sb_flush(bus,
                        ((uint64_t)now.tv_sec + FLUSH_SECONDS) * SECOND_NS + (uint64_t)now.tv_nsec);
        while (r == -EINTR);
        cli_progress_wait(NULL);
        log_error = sb_admin_log_error(bus);
        if (r != 0)
                r = backup_fail_flush(backup, r, log_error);
        /* A client that is stopped would keep its place. */
        sb_close(bus);
        cli->attached = NULL;
        return r;
}

/* The log has nothing that could be copied. Return: CLI_FAILED. */
static int backup_say_empty(const struct backup *backup)
{
        const struct cli_logged *logged = &backup->logged;

        if (logged->files != 0)
                cli_say("%s: the log in %s has no whole batch yet: there is nothing to copy",
                        backup->command, logged->directory);
        else if (logged->supervisor)
                return cli_logged_none(logged);
        else
                cli_say("%s: there is no log in %s: it has no file wal-* with a number. A volatile "
                        "bus has none: `agentctl dump >FILE` saves its keys while it is served",
                        backup->command, logged->directory);
        return CLI_FAILED;
}

/* Read what is to be copied. Return: 0, or an exit code after a message. */
static int backup_read(struct backup *backup, const char *name)
{
        struct cli_logged *logged = &backup->logged;
        char word[SB_PLACE_WORD_MAX];
        int r = backup_keep_files(backup, name);

        if (r != 0)
                return r;
        r = cli_logged_open(name, &backup->logged);
        if (r != 0)
                return cli_logged_fail(name, r);
        if (logged->is_whole_behind) {
                cli_say("%s: %s is damaged (%s), but the whole bus is in it again behind that, "
                        "and is taken from there",
                        backup->command, logged->directory, cli_logged_words(logged));
                r = cli_logged_go_behind(logged);
                if (r != 0)
                        return cli_logged_fail(name, r);
        }
        if (!cli_logged_is_good(logged)) {
                cli_say("%s: %s is %s, and nothing was written: %s", backup->command,
                        logged->directory, cli_logged_state(logged), cli_logged_words(logged));
                cli_say("%s", cli_logged_advice(logged));
                return CLI_FAILED;
        }
        if (logged->files == 0 || logged->batch_count == 0)
                return backup_say_empty(backup);
        if (cli_logged_costs_nothing(logged))
                cli_say("%s: %s is damaged, and taken all the same, as by agentd: %s",
                        backup->command, logged->directory, cli_logged_passed_words(logged));
        if (logged->supervisor && strcmp(backup->command, "backup") != 0)
                cli_say("%s: %s serves %s: what it has on the disk by now is taken. "
                        "`agentctl -b %s backup FILE` has all that was written before it, too",
                        backup->command, cli_agentd(logged->supervisor), logged->directory,
                        sb_place_word(logged->directory, word));
        if (logged->end.ending == SB_WAL_TORN && !logged->supervisor)
                cli_say("%s: the last batch of %s is not whole (%s): it is left out, as agentd "
                        "does; a power failure leaves that",
                        backup->command, logged->directory, cli_logged_words(logged));
        return 0;
}

/* ---- the destination ---- */

static int backup_fail_name(const struct backup *backup, const char *name, int error)
{
        cli_say("%s: %s: %s", backup->command, cli_word(name), strerror(error));
        return cli_code_of(error);
}

/* How many files of a log are in the directory. Return: 0, -errno. */
static int backup_count_files(const struct backup *backup, size_t *ret)
{
        struct sb_wal_names names;
        int r = sb_wal_file_list(backup->directory_fd, &names);

        if (r)
                return r;
        *ret = names.number_count;
        sb_wal_file_list_end(&names);
        return 0;
}

/* Open the directory, which may have no log and no agentd. Return: 0, or an exit code after a
 * message. */
static int backup_open_directory(struct backup *backup)
{
        const char *directory = backup->directory;
        char word[SB_PLACE_WORD_MAX];
        pid_t supervisor;
        size_t count;
        int r;

        backup->directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (backup->directory_fd < 0)
                return backup_fail_name(backup, directory, errno);
        if (sb_admin_supervisor(directory, &supervisor) == 0) {
                cli_say("%s: %s serves the bus in %s: stop it by `agentctl -b %s "
                        "stop`, or take another directory",
                        backup->command, cli_agentd(supervisor), directory,
                        sb_place_word(directory, word));
                return CLI_FAILED;
        }
        if (sb_admin_listener(directory, &supervisor) == 0)
                return cli_fail_lockless(directory, supervisor);
        r = backup_count_files(backup, &count);
        if (r)
                return backup_fail_name(backup, directory, -r);
        if (count != 0) {
                cli_say("%s: %s has a log already, of %zu file%s wal-*, and nothing is "
                        "overwritten: take another directory, or move them away",
                        backup->command, directory, count, count == 1 ? "" : "s");
                return CLI_FAILED;
        }
        sb_wal_file_name(1, backup->name);
        return 0;
}

static void backup_leave_directory(struct backup *backup)
{
        if (backup->directory_fd >= 0)
                close(backup->directory_fd);
        backup->directory_fd = -1;
}

/* The backup is to be a directory: make it, if need be. Return: 0, or an exit code after a message.
 */
static int backup_take_directory(struct backup *backup, const char *name)
{
        backup->made = mkdir(name, 0700) == 0;
        if (!backup->made && errno != EEXIST)
                return backup_fail_name(backup, name, errno);
        if (!realpath(name, backup->directory))
                return backup_fail_name(backup, name, errno);
        snprintf(backup->shown, sizeof(backup->shown), "%s", backup->directory);
        return backup_open_directory(backup);
}

/* The backup is to be a file. Return: as before. */
static int backup_take_file(struct backup *backup, const char *name)
{
        const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
        char above[PATH_MAX];
        size_t len = slash ? (size_t)(slash - name) : 0;

        if (strncmp(last, "wal-", 4) == 0)
                return cli_usage("backup: the files of a log have names that begin with wal-: "
                                 "take another name, or name a directory");
        if (strlen(last) >= sizeof(backup->name) || len >= sizeof(above))
                return backup_fail_name(backup, name, ENAMETOOLONG);
        strcpy(backup->name, last);
        snprintf(above, sizeof(above), "%.*s", (int)len, name);
        if (!realpath(!slash ? "." : len == 0 ? "/" : above, backup->directory))
                return backup_fail_name(backup, name, errno);
        backup->directory_fd = open(backup->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (backup->directory_fd < 0)
                return backup_fail_name(backup, name, errno);
        if (snprintf(backup->shown, sizeof(backup->shown), "%s%s%s", backup->directory,
                    backup->directory[1] ? "/" : "", last) >= (int)sizeof(backup->shown))
                return backup_fail_name(backup, name, ENAMETOOLONG);
        return 0;
}

static int backup_say_taken(const struct backup *backup)
{
        cli_say("%s: %s is there already, and nothing is overwritten: take another name, or move "
                "it away",
                backup->command, backup->shown);
        return CLI_FAILED;
}

/* Find out where the backup goes. Return: 0, or an exit code after a message. */
static int backup_find_destination(struct backup *backup, const char *name)
{
        const size_t len = strlen(name);
        struct stat status;

        if (len == 0 || strcmp(name, "-") == 0)
                return cli_usage("backup wants the name of a file or a directory: it writes no "
                                 "pipe");
        if (name[len - 1] == '/' || (stat(name, &status) == 0 && S_ISDIR(status.st_mode)))
                return backup_take_directory(backup, name);
        if (lstat(name, &status) == 0) {
                snprintf(backup->shown, sizeof(backup->shown), "%s", name);
                return backup_say_taken(backup);
        }
        return backup_take_file(backup, name);
}

/* ---- the copy ---- */

static int backup_fail_copy(const struct backup *backup, int result)
{
        const char *shown = backup->shown;
        char bytes[32];

        switch (result) {
        case -EEXIST:
                return backup_say_taken(backup);
        case -EBUSY:
                cli_say("%s: another process is writing %s", backup->command, shown);
                return CLI_FAILED;
        case -EINTR:
                cli_say("%s: interrupted: %s was not made, and nothing is left of it",
                        backup->command, shown);
                return CLI_FAILED;
        case -ESTALE:
                cli_say("%s: files of the log in %s went or changed while they were copied; "
                        "nothing is left of the copy. Try again",
                        backup->command, backup->logged.directory);
                return CLI_FAILED;
        case -ENOSPC:
        case -EDQUOT:
        case -EFBIG:
                cli_say("%s: %s cannot be written: %s. Nothing is left of it; it takes up to %s",
                        backup->command, shown, strerror(-result),
                        cli_bytes_words(backup->logged.file_bytes, bytes));
                return CLI_FAILED;
        case -EPERM:
                cli_say("%s: %s/%s is in the way, and was not written by agentctl: move it away",
                        backup->command, backup->directory, backup->partial.partial_name);
                return CLI_FAILED;
        default:
                cli_say("%s: %s cannot be written: %s", backup->command, shown, strerror(-result));
                return cli_code_of(-result);
        }
}

/* Return: 0, or an exit code after a message. */
static int backup_copy(struct backup *backup)
{
        int r = sb_place_sync(backup->directory_fd);

        r = r ? r : cli_partial_begin(backup->directory_fd, backup->name, &backup->partial);
        if (r)
                return backup_fail_copy(backup, r);
        if (backup->partial.replaced)
                cli_say("%s: what an interrupted command had left in %s is gone", backup->command,
                        backup->partial.partial_name);
        if (backup->bus_lock_fd >= 0)
                r = backup_give(backup->directory_fd, backup->partial.fd);
        r = r ? r
              : cli_log_copy(&backup->logged, backup->command, &backup->partial, &backup->copied);
        if (r)
                cli_partial_drop(&backup->partial);
        else
                r = cli_partial_finish(&backup->partial);
        return r ? backup_fail_copy(backup, r) : 0;
}

static void backup_print_json(const struct backup *backup, const char *name)
{
        const struct cli_log_copied *copied = &backup->copied;
        char time[32];

        cli_json_begin();
        cli_json_text(name, backup->shown);
        cli_json_text("from", backup->logged.directory);
        cli_json_number("cut", copied->cut);
        cli_json_text("time", cli_time_words(copied->realtime_ns, time));
        cli_json_number("batches", copied->batches);
        cli_json_number("first_sequence", copied->first_sequence);
        cli_json_number("sequence", copied->sequence);
        cli_json_number("bytes", copied->bytes);
        if (backup->logged.end.ending == SB_WAL_TORN)
                cli_json_number("dropped_bytes", backup->logged.end.dropped);
        cli_json_end();
}

static void backup_say_done(const struct backup *backup)
{
        const struct cli_log_copied *copied = &backup->copied;
        char time[32], bytes[32];

        cli_say("%s: %s is the bus as it was at cut %" PRIu64 ", of %s: %" PRIu64 " batch%s, %s",
                backup->command, backup->shown, copied->cut,
                cli_time_words(copied->realtime_ns, time), copied->batches,
                copied->batches == 1 ? "" : "es", cli_bytes_words(copied->bytes, bytes));
}

static struct backup *backup_new(struct cli *cli, const char *command)
{
        struct backup *backup = mi_zalloc(sizeof(*backup));

        if (!backup)
                return NULL;
        backup->cli = cli;
        backup->command = command;
        backup->logged.directory_fd = backup->directory_fd = -1;
        backup->lock_fd = backup->bus_lock_fd = -1;
        /* What is made is read again, whatever umask agentctl was started with. */
        umask(umask(0) & 0077);
        return backup;
}

/* Give all back. Of a command that failed no empty directory is left. */
static void backup_free(struct backup *backup, bool failed)
{
        const int fds[] = {backup->lock_fd, backup->bus_lock_fd, backup->directory_fd};

        if (failed && backup->made)
                (void)rmdir(backup->directory);
        cli_logged_close(&backup->logged);
        for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
                if (fds[i] >= 0)
                        close(fds[i]);
        mi_free(backup);
}

/* ---- backup ---- */

int cli_backup(struct cli *cli)
{
        struct backup *backup = backup_new(cli, "backup");
        char directory[PATH_MAX];
        int r;

        if (!backup)
                return cli_fail(cli, "backup", -ENOMEM);
        r = cli_place(cli, directory, sizeof(directory));
        r = r ? r : backup_find_destination(backup, cli->operands[0]);
        r = r ? r : backup_flush(backup);
        r = r ? r : backup_read(backup, directory);
        r = r ? r : backup_copy(backup);
        if (!r && cli->json)
                backup_print_json(backup, "backup");
        else if (!r)
                backup_say_done(backup);
        backup_free(backup, r != 0);
        return r;
}

/* ---- restore-from ---- */

/* Whether a process still writes a log in the directory: one that hangs in the disk outlives its
 * agentd. */
static bool backup_is_written(const struct backup *backup)
{
        int fd = openat(backup->directory_fd, SB_PLACE_WRITER, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        bool written = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;

        if (fd >= 0)
                close(fd);
        return written;
}

/* Lock the bus as an agentd does. Return: 0, or an exit code after a message. */
static int backup_lock_bus(struct backup *backup)
{
        const char *directory = backup->directory;
        int r = backup_open_lock(backup->directory_fd, SB_PLACE_LOCK, &backup->bus_lock_fd);

        r = r ? r : backup_flock(backup->bus_lock_fd, LOCK_EX, END_SECONDS);
        if (r == -EWOULDBLOCK || (!r && backup_is_written(backup))) {
                cli_say("%s: an agentd is starting or ending in %s, or another %s works there: try "
                        "again when that is over",
                        backup->command, directory, backup->command);
                return CLI_FAILED;
        }
        return r ? backup_fail_name(backup, directory, -r) : 0;
}

/* Where the bus is that is to come back. What is said before a long reading is asked again behind
 * it. Return: 0, or an exit code after a message. */
static int backup_find_bus(struct backup *backup, const struct sb_place *place)
{
        int r;

        snprintf(backup->directory, sizeof(backup->directory), "%s", place->directory);
        snprintf(backup->shown, sizeof(backup->shown), "%s", place->directory);
        if (access(place->directory, F_OK) < 0)
                return 0;
        r = backup_open_directory(backup);
        backup_leave_directory(backup);
        return r;
}

/* Make the bus's directory, if need be, and lock it. Return: 0, or an exit code after a message. */
static int backup_take_bus(struct backup *backup, const struct sb_place *place)
{
        int r = sb_place_make(place);

        if (r)
                return backup_fail_name(backup, place->directory, -r);
        r = backup_open_directory(backup);
        r = r ? r : backup_lock_bus(backup);
        if (r)
                return r;
        /* Once more: an agentd may have been there since. */
        backup_leave_directory(backup);
        return backup_open_directory(backup);
}

static int backup_restore(struct backup *backup, const char *name)
{
        char word[SB_PLACE_WORD_MAX];
        struct sb_place place;
        int r = cli_place(backup->cli, place.directory, sizeof(place.directory));

        r = r ? r : backup_find_bus(backup, &place);
        r = r ? r : backup_read(backup, name);
        r = r ? r : backup_take_bus(backup, &place);
        r = r ? r : backup_copy(backup);
        if (r)
                return r;
        if (backup->cli->json) {
                backup_print_json(backup, "restored");
                return 0;
        }
        backup_say_done(backup);
        cli_say("`agentctl -b %s start --durability batched` serves it, with a --size as large as "
                "the bus had",
                sb_place_word(backup->shown, word));
        return 0;
}

/* As /dev/stdin may be, and what a shell makes of <(COMMAND). */
static bool backup_is_piped(const char *name)
{
        struct stat status;

        return stat(name, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

int cli_restore_from(struct cli *cli)
{
        const char *name = cli->operands[0];
        struct backup *backup;
        int r;

        if (name[0] == '\0' || strcmp(name, "-") == 0 || backup_is_piped(name))
                return cli_usage("restore-from wants the name of a backup: it reads no pipe");
        backup = backup_new(cli, "restore-from");
        if (!backup)
                return cli_fail(cli, "restore-from", -ENOMEM);
        r = backup_restore(backup, name);
        backup_free(backup, r != 0);
        return r;
}
