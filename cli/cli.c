/* What several commands need: opening the bus, reading arguments, saying what went wrong and what
 * to do about it. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <mimalloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "ring/attach/place.h"
#include "shm/layout/superblock.h"

#define SAY_AFTER_S     1  /* by then say what agentctl waits for */
#define GIVE_UP_AFTER_S 30 /* and by then fail */

#define WORD_MAX 60 /* characters of a key in a message */

static volatile sig_atomic_t cli_alarmed;

static uint64_t cli_line_number; /* of a batch, for messages; 0: none */

void cli_say_of_line(uint64_t line_number)
{
        cli_line_number = line_number;
}

void cli_write_words(FILE *to, const char *text)
{
        for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
                if (*p < 0x20 || *p > 0x7e)
                        fprintf(to, "\\x%02x", *p);
                else
                        fputc(*p, to);
        }
}

static void cli_say_escaped(const char *format, va_list arguments)
{
        char text[8192];

        vsnprintf(text, sizeof(text), format, arguments);
        flockfile(stderr); /* another thread may say something, too (patience.h) */
        fputs("agentctl: ", stderr);
        if (cli_line_number != 0)
                fprintf(stderr, "line %" PRIu64 ": ", cli_line_number);
        cli_write_words(stderr, text);
        fputc('\n', stderr);
        funlockfile(stderr);
}

void cli_say(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        cli_say_escaped(format, arguments);
        va_end(arguments);
}

int cli_usage(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        cli_say_escaped(format, arguments);
        va_end(arguments);
        fputs("agentctl: `agentctl help` lists the commands, `agentctl help COMMAND` explains "
              "one\n",
                stderr);
        return CLI_USAGE;
}

int cli_code_of(int error)
{
        return error == EACCES || error == EPERM ? CLI_NOT_PERMITTED : CLI_FAILED;
}

const char *cli_bus_words(const struct cli *cli)
{
        static char words[SB_PLACE_WORD_MAX + 8];
        char word[SB_PLACE_WORD_MAX];

        if (!cli->bus)
                return "";
        snprintf(words, sizeof(words), "-b %s ", sb_place_word(cli->bus, word));
        return words;
}

const char *cli_word(const char *typed)
{
        static char beginning[WORD_MAX + 4];

        if (strlen(typed) <= WORD_MAX)
                return typed;
        snprintf(beginning, sizeof(beginning), "%.*s...", WORD_MAX, typed);
        return beginning;
}

/* The directory of the bus, for messages. */
static const char *cli_directory_of(const struct cli *cli)
{
        static char directory[PATH_MAX];

        return sb_admin_directory(cli->bus, directory, sizeof(directory)) == 0
                       ? directory
                       : "a bus without a place";
}

/* Nothing survives power loss: on this bus, or because of the disk. */
static int cli_fail_durable(const struct cli *cli, const char *what)
{
        struct sb_bus *bus = NULL, *asked = cli->attached;
        int error = 0;

        /* A bus that lost its directory can be asked still, but not be opened. */
        if (asked || sb_admin_open(cli->bus, &bus) == 0)
                error = sb_admin_log_error(asked ? asked : bus);
        sb_close(bus);

        if (error < 0)
                cli_say("%s: this bus is volatile, nothing was written: leave out --durability, or "
                        "start agentd with --durability batched",
                        what);
        else
                cli_say("%s: it was written and can be seen, but it is not durable: the log cannot "
                        "be written (%s). `agentctl %sstat` says how it is now, %s/agentd.log more",
                        what, error ? strerror(error) : "it works again", cli_bus_words(cli),
                        cli_directory_of(cli));
        return CLI_FAILED;
}

/* The segment is lost: with its agentd, or agentd has another one. */
static int cli_fail_detached(const struct cli *cli, const char *what)
{
        if (sb_admin_served(cli->bus) == -ECONNREFUSED) {
                cli_say("%s: agentd has ended meanwhile (its log says why: %s/agentd.log), and no "
                        "other one serves the bus: start one with `agentctl %sstart`",
                        what, cli_directory_of(cli), cli_bus_words(cli));
                return CLI_NO_AGENTD;
        }
        cli_say("%s: agentd was started anew meanwhile, or replaced the segment: try again (its "
                "log says why: %s/agentd.log)",
                what, cli_directory_of(cli));
        return CLI_FAILED;
}

const char *cli_agentd(pid_t pid)
{
        static char words[40];

        if (pid <= 0)
                return "agentd (in another pid namespace)";
        snprintf(words, sizeof(words), "agentd (pid %d)", (int)pid);
        return words;
}

int cli_fail_lockless(const char *directory, pid_t pid)
{
        char how[48] = "end it there";

        if (pid > 0)
                snprintf(how, sizeof(how), "`kill %d` ends it", (int)pid);
        cli_say("%s serves the bus in %s, and its lock file was removed: %s", cli_agentd(pid),
                directory, how);
        return CLI_FAILED;
}

static int cli_fail_unserved(const struct cli *cli)
{
        pid_t pid;

        if (sb_admin_homeless(cli->bus, &pid) == 0)
                cli_say("no client reaches %s, which has its log in %s: its own "
                        "directory was removed. `agentctl %sstop` ends it when all is saved "
                        "there; then start it again",
                        cli_agentd(pid), cli_directory_of(cli), cli_bus_words(cli));
        else if (sb_admin_supervisor(cli->bus, &pid) == 0)
                cli_say("no client reaches %s, which serves the bus in %s: it ends, "
                        "or its socket was removed. `agentctl %sstop` ends it; then start it again",
                        cli_agentd(pid), cli_directory_of(cli), cli_bus_words(cli));
        else if (sb_admin_listener(cli->bus, &pid) == 0)
                return cli_fail_lockless(cli_directory_of(cli), pid);
        else
                cli_say("no agentd serves the bus in %s: start one with `agentctl %sstart`",
                        cli_directory_of(cli), cli_bus_words(cli));
        return CLI_NO_AGENTD;
}

/* The bus's agentd is of another version than this agentctl. */
static int cli_fail_version(const struct cli *cli, const char *what)
{
        const char *words = cli_bus_words(cli);
        char layout[48] = "another layout of the segment";
        uint32_t number;

        if (sb_admin_layout(cli->bus, &number) == 0)
                snprintf(layout, sizeof(layout), "layout %u of the segment", number);
        cli_say("%s: its agentd has %s, and this agentctl has layout %u: use the agentctl that "
                "came with that agentd. Or `agentctl %sstop` and start this one's, which brings "
                "the bus back from its log; a volatile bus has none, so let that other agentctl "
                "`dump` it first",
                what, layout, SB_LAYOUT_VERSION, words);
        return CLI_FAILED;
}

int cli_fail(const struct cli *cli, const char *what, int result)
{
        const char *words = cli_bus_words(cli);

        switch (result) {
        case -ECONNREFUSED:
                return cli_fail_unserved(cli);
        case SB_E_NOT_FOUND:
                cli_say("%s: the key has no value", what);
                return CLI_NOT_FOUND;
        case SB_E_CONFLICT:
        case SB_E_FENCED:
                cli_say("%s: %s", what, sb_strerror(result));
                return CLI_CONFLICT;
        case SB_E_TIMED_OUT:
                cli_say("%s: %s", what, sb_strerror(result));
                return CLI_TIMED_OUT;
        case -EPERM: /* cli_fail_write() knows more */
                cli_say("%s: %s", what, sb_strerror(result));
                return CLI_NOT_PERMITTED;
        case SB_E_DENIED:
        case -EACCES:
                cli_say("%s: not permitted: the bus takes only its owner and root as clients, and "
                        "no process that agentd cannot see (in another pid namespace)",
                        what);
                return CLI_NOT_PERMITTED;
        case SB_E_FULL:
                if (cli->attached && sb_admin_full(cli->attached) != SB_ADMIN_FULL_MEMORY) {
                        cli_say("%s: this agentctl has too many %s", what,
                                sb_admin_full(cli->attached) == SB_ADMIN_FULL_GUARDS
                                        ? "guards: it holds 65,536 values"
                                        : "transactions and scans open");
                        return CLI_FAILED;
                }
                cli_say("%s: the bus is full: see `agentctl %sstat`; delete keys, or stop agentd "
                        "and start it with a larger --size",
                        what, words);
                return CLI_FAILED;
        case SB_E_DETACHED:
                return cli_fail_detached(cli, what);
        case SB_E_LAPPED:
                cli_say("%s: what was there at that moment is not known any more: it was pruned, a "
                        "rule for some of it was changed since, or an operator took the moment "
                        "away. `agentctl %smark` and `agentctl %skeep` keep what comes",
                        what, words, words);
                return CLI_FAILED;
        case SB_E_NOT_DURABLE:
                return cli_fail_durable(cli, what);
        case -EROFS:
                cli_say("%s: nothing was written: the log cannot be written, and the bus was "
                        "started with --on-disk-error read-only. `agentctl %sstat` says how it is "
                        "now, %s/agentd.log more",
                        what, words, cli_directory_of(cli));
                return CLI_FAILED;
        case -EPROTONOSUPPORT:
                return cli_fail_version(cli, what);
        case -ENAMETOOLONG:
                cli_say("%s: the key is too long: 1024 bytes are the most", what);
                return CLI_USAGE;
        case -EMSGSIZE:
                cli_say("%s: the value is too large for this segment: `agentctl %sstat` says how "
                        "large it may be",
                        what, words);
                return CLI_FAILED;
        case -EIO:
                cli_say("%s: the bus's memory is damaged there: `agentctl %scheck` names the "
                        "places. "
                        "Save what can be read, then stop agentd and start it again",
                        what, words);
                return CLI_FAILED;
        case -ENOTSUP:
                cli_say("%s: this comes with a later version of statebus; nothing was written",
                        what);
                return CLI_FAILED;
        default:
                cli_say("%s: %s", what, sb_strerror(result));
                return CLI_FAILED;
        }
}

int cli_fail_write(const struct cli *cli, const char *what, int result)
{
        const char *words = cli_bus_words(cli);

        if (result != -EPERM)
                return cli_fail(cli, what, result);
        cli_say("%s: this begins as the bus's own keys do (a zero byte, sb, a zero byte), which "
                "hold "
                "its marks and rules: `agentctl %smark` and `agentctl %skeep` write them; take "
                "another key",
                what, words, words);
        return CLI_NOT_PERMITTED;
}

static void cli_note_alarm(int signal_number)
{
        (void)signal_number;
        cli_alarmed = 1;
}

/* Set an alarm; it rings again every second, because one that rings just before a wait begins would
 * not end that wait. 0 ends the alarms. */
static void cli_set_alarm(time_t seconds)
{
        struct itimerval timer = {.it_value.tv_sec = seconds, .it_interval.tv_sec = seconds != 0};

        cli_alarmed = 0;
        setitimer(ITIMER_REAL, &timer, NULL);
}

static void cli_say_waiting(const struct cli *cli)
{
        pid_t supervisor;

        if ((sb_admin_supervisor(cli->bus, &supervisor) == 0 ||
                    sb_admin_listener(cli->bus, &supervisor) == 0) &&
                supervisor > 0)
                cli_say("waiting for agentd's engine, which does not answer. Is it stopped, or its "
                        "supervisor? `ps -o pid,stat -p %d --ppid %d` shows both, a stopped one "
                        "with state T; `kill -CONT` or `kill -KILL` with that pid helps",
                        (int)supervisor, (int)supervisor);
        else
                cli_say("waiting for an agentd that is just starting in %s, or does not answer",
                        cli_directory_of(cli));
}

static int cli_no_place(const struct cli *cli, int result)
{
        const char *from = getenv("STATEBUS");
        const char *bus = cli->bus ? cli->bus : from && *from ? from : "default";

        if (result == -ENOENT)
                return cli_usage("neither $XDG_STATE_HOME nor $HOME is a path from / on, below "
                                 "which the bus '%s' would be: set one, or give a directory with a "
                                 "/ in it",
                        cli_word(bus));
        return cli_usage("the bus '%s'%s names no place: give a name, or a directory with a / in "
                         "it (%s)",
                cli_word(bus), bus == from ? " of $STATEBUS" : "", sb_strerror(result));
}

/* sb_admin_open() waits for the engine without a limit, but a signal ends the wait: an alarm bounds
 * it here. */
static int cli_open_in_time(const struct cli *cli, struct sb_bus **ret_bus)
{
        char what[PATH_MAX + 16];
        bool waiting = false;
        int r;

        sigaction(SIGALRM, &(struct sigaction){.sa_handler = cli_note_alarm}, NULL);
        cli_set_alarm(SAY_AFTER_S);
        while ((r = sb_admin_open(cli->bus, ret_bus)) == -EINTR) {
                if (!cli_alarmed)
                        continue;
                if (waiting)
                        break;
                cli_set_alarm(GIVE_UP_AFTER_S - SAY_AFTER_S);
                cli_say_waiting(cli);
                waiting = true;
        }
        cli_set_alarm(0);
        if (r == 0)
                return 0;
        if (r == -EINTR) {
                cli_say("agentd's engine has not answered in %d seconds: gave up, nothing was done",
                        GIVE_UP_AFTER_S);
                return CLI_TIMED_OUT;
        }
        if (r == SB_E_FULL) {
                cli_say("the bus in %s has as many clients as it takes, and another agentctl has "
                        "the place that is kept for one: try again when that has ended. `agentctl "
                        "%sevict CLIENT --kill` needs no place; agentd's --clients says how many "
                        "there are",
                        cli_directory_of(cli), cli_bus_words(cli));
                return CLI_FAILED;
        }
        if (r == SB_E_DENIED && access(cli_directory_of(cli), X_OK) < 0 && errno == EACCES) {
                cli_say("not permitted: this user cannot enter %s. A bus takes only its owner and "
                        "root as clients; the owner needs the permissions rwx there (`ls -ld` "
                        "shows "
                        "them, for the directories above, too)",
                        cli_directory_of(cli));
                return CLI_NOT_PERMITTED;
        }
        snprintf(what, sizeof(what), "the bus in %s", cli_directory_of(cli));
        return cli_fail(cli, what, r);
}

const char *cli_kind_name(uint32_t kind)
{
        return kind == SB_VALUE ? "value" : kind == SB_DELETED ? "deleted" : "expired";
}

int cli_place(const struct cli *cli, char *ret_directory, size_t size)
{
        int r = sb_admin_directory(cli->bus, ret_directory, size);

        return r != 0 ? cli_no_place(cli, r) : 0;
}

int cli_open(struct cli *cli, struct sb_bus **ret_bus)
{
        char directory[PATH_MAX];
        int r = 0;

        if (!cli->attached)
                r = cli_place(cli, directory, sizeof(directory));
        if (r == 0 && !cli->attached)
                r = cli_open_in_time(cli, &cli->attached);
        if (r == 0)
                *ret_bus = cli->attached;
        return r;
}

/* What was decoded from base64, until cli_free_keys(). */
struct cli_decoded {
        struct cli_decoded *next;
        unsigned char bytes[];
};
static struct cli_decoded *cli_all_decoded;

void cli_free_keys(void)
{
        struct cli_decoded *next;

        for (; cli_all_decoded; cli_all_decoded = next) {
                next = cli_all_decoded->next;
                mi_free(cli_all_decoded);
        }
}

static int cli_decode(
        const struct cli *cli, const char *text, const char *what, struct sb_bytes *ret)
{
        struct cli_decoded *decoded = mi_malloc(sizeof(*decoded) + strlen(text) + 1);
        size_t len;

        if (!decoded)
                return cli_fail(cli, what, -ENOMEM);
        decoded->next = cli_all_decoded;
        cli_all_decoded = decoded;
        if (cli_base64_decode(text, decoded->bytes, &len) < 0)
                return cli_usage(
                        "'%s' is not base64, as --base64 says of %s", cli_word(text), what);
        *ret = (struct sb_bytes){decoded->bytes, len};
        return 0;
}

int cli_key(const struct cli *cli, const char *text, bool maybe_empty, struct sb_bytes *ret_key)
{
        int r = 0;

        if (cli->base64)
                r = cli_decode(cli, text, "keys", ret_key);
        else
                *ret_key = (struct sb_bytes){text, strlen(text)};
        if (r == 0 && ret_key->len == 0 && !maybe_empty)
                return cli_usage("a key has at least one byte");
        return r;
}

int cli_value(const struct cli *cli, const char *text, struct sb_bytes *ret_value)
{
        if (cli->base64 && cli->in_batch)
                return cli_decode(cli, text, "keys and values", ret_value);
        *ret_value = (struct sb_bytes){text, strlen(text)};
        return 0;
}

int cli_number(const char *text, const char *name, uint64_t *ret)
{
        uint64_t number = 0;

        if (*text == '\0')
                return cli_usage("%s wants a number", name);
        if (strspn(text, "0123456789") != strlen(text))
                return cli_usage("%s wants a number from 0 on, not '%s'", name, cli_word(text));
        for (const char *p = text; *p != '\0'; p++)
                if (__builtin_mul_overflow(number, 10, &number) ||
                        __builtin_add_overflow(number, (uint64_t)(*p - '0'), &number))
                        return cli_usage(
                                "%s wants a number of 64 bits, not %s", name, cli_word(text));
        *ret = number;
        return 0;
}
