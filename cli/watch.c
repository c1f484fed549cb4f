/* Commands that wait for changes: watch prints them, wait ends when a key is as one wants it. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/moments.h"
#include "cli/shell.h"
#include "shm/layout/reserved.h"
#include "shm/layout/superblock.h"

/* Read --timeout, which may be 0: now. Without it there is no deadline. Return: 0, or CLI_USAGE
 * after a message. */
static int watch_deadline(const struct cli *cli, uint64_t *ret_ns)
{
        struct timespec now;
        uint64_t span = 0;
        int r = 0;

        *ret_ns = SB_FOREVER;
        if (!cli->timeout)
                return 0;
        /* A 0 needs no unit. */
        if (strcmp(cli->timeout, "0") != 0)
                r = cli_duration(cli->timeout, "--timeout", &span);
        if (r != 0)
                return r;
        clock_gettime(CLOCK_MONOTONIC, &now);
        *ret_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        *ret_ns = span > SB_FOREVER - *ret_ns ? SB_FOREVER : *ret_ns + span;
        return 0;
}

/* ---- watch ---- */

/* One of the watches. */
struct watched {
        struct sb_watch *watch;
        const char *key;       /* as it was typed */
        struct sb_bytes bytes; /* as the bus has it */
        bool is_lapped;        /* changes were lost, and no change behind them was told so far */
};

/* All watches of the command, and when it ends. */
struct watching {
        const struct cli *cli;
        struct sb_bus *bus;
        struct watched *all;
        uint64_t left; /* changes, before --count is reached */
        uint64_t deadline_ns;
        uint64_t last_cut; /* of what is printed, once the deadline is over; before, UINT64_MAX */
};

/* What a turn says when --count is reached, or nothing can be printed any more. */
#define WATCH_ENOUGH (-1)

/* How many changes of a watch are printed before the next watch has its turn. A slow reader of the
 * output, and one key that is written all the time, then hold up no other key. */
#define WATCH_SLICE 64

/* Whether changes before this one are lost, and nothing knows how many. */
static bool watch_lost_some(const struct watched *watched, const struct sb_guard *change)
{
        return watched->is_lapped && change->missed == 0;
}

static void watch_print(
        const struct cli *cli, const struct watched *watched, const struct sb_guard *change)
{
        if (cli->json) {
                cli_json_begin();
                cli_json_bytes("key", change->key, cli->base64);
                if (change->kind == SB_VALUE)
                        cli_json_bytes("value", change->value, false);
                if (change->old_value.data)
                        cli_json_bytes("old_value", change->old_value, false);
                cli_json_number("rev", change->rev);
                cli_json_text("kind", cli_kind_name(change->kind));
                cli_json_number("cut", change->cut);
                cli_json_number("writer", change->writer);
                cli_json_number("txn", change->txn);
                if (watch_lost_some(watched, change))
                        cli_json_text("missed", "some");
                else
                        cli_json_number("missed", change->missed);
                cli_json_end();
                return;
        }
        if (change->missed != 0)
                printf("... %" PRIu64 " lost\n", change->missed);
        else if (!cli->prefix && watch_lost_some(watched, change))
                puts("... some lost"); /* of a prefix that was said as the watch was lapped */
        cli_print_bytes(cli, change->key);
        printf("\t%" PRIu64 "\t%s\t", change->rev, cli_kind_name(change->kind));
        cli_print_shown(cli, change->value);
        putchar('\n');
}

/* Say that a watch of a prefix has lost changes, and at which cut it goes on. */
static void watch_print_lapped(const struct cli *cli, const struct sb_watch *watch)
{
        if (cli->json) {
                cli_json_begin();
                cli_json_text("lapped", "from this cut on");
                cli_json_number("cut", sb_watch_cut(watch));
                cli_json_end();
        } else {
                printf("... some lost; on from cut %" PRIu64 "\n", sb_watch_cut(watch));
        }
        fflush(stdout);
}

/* Say that a key was forgotten behind the revision after which it is watched. */
static void watch_print_forgotten(const struct cli *cli, struct sb_bytes key)
{
        if (cli->json) {
                cli_json_begin();
                cli_json_bytes("key", key, cli->base64);
                cli_json_text("lapped", "it has no value now");
                cli_json_end();
        } else {
                printf("... some lost; ");
                cli_print_bytes(cli, key);
                printf(" has no value now\n");
        }
        fflush(stdout);
}

/* Return: 0, -ENOMEM. */
static int watch_set_number(const char *name, uint64_t number)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, number);
        return setenv(name, text, 1) == 0 ? 0 : -ENOMEM;
}

/* The key, as it is and in base64. A word of the environment ends at a byte 0: a key that has one
 * would be taken for another, and stands there in base64 alone. Return: 0, -ENOMEM; -EIO: no bus
 * has that key. */
static int watch_set_key(struct sb_bytes key)
{
        char text[SB_KEY_LEN_MAX + 1], base64[SB_KEY_LEN_MAX / 3 * 4 + 8];
        FILE *out = stdout, *to;
        int r;

        if (key.len > SB_KEY_LEN_MAX)
                return -EIO;
        to = fmemopen(base64, sizeof(base64), "w");
        if (!to)
                return -ENOMEM;
        stdout = to;
        cli_print_base64(key);
        stdout = out;
        if (fclose(to) != 0 || setenv("STATEBUS_KEY_BASE64", base64, 1) != 0)
                return -ENOMEM;
        memcpy(text, key.data, key.len);
        text[key.len] = 0;
        r = strlen(text) == key.len ? setenv("STATEBUS_KEY", text, 1) : unsetenv("STATEBUS_KEY");
        return r == 0 ? 0 : -ENOMEM;
}

/* Say in the environment of a command what it is run for. Return: 0, -ENOMEM. */
static int watch_set_environment(const struct watched *watched, const struct sb_guard *change)
{
        int r = watch_set_key(change->key);

        if (r == 0 && setenv("STATEBUS_KIND", cli_kind_name(change->kind), 1) != 0)
                r = -ENOMEM;
        if (r == 0)
                r = watch_set_number("STATEBUS_REV", change->rev);
        if (r == 0)
                r = watch_set_number("STATEBUS_CUT", change->cut);
        if (r == 0)
                r = watch_set_number("STATEBUS_WRITER", change->writer);
        if (r == 0)
                r = watch_set_number("STATEBUS_TXN", change->txn);
        if (r != 0)
                return r;
        if (watch_lost_some(watched, change))
                return setenv("STATEBUS_MISSED", "some", 1) == 0 ? 0 : -ENOMEM;
        return watch_set_number("STATEBUS_MISSED", change->missed);
}

/* A command that asks for a bus by none of its own options means the one that is watched, from
 * whichever directory. Return: 0, or an exit code after a message. */
static int watch_name_bus(const struct cli *cli)
{
        char directory[PATH_MAX], whole[PATH_MAX];
        int r = cli_place(cli, directory, sizeof(directory));

        if (r != 0)
                return r;
        if (!realpath(directory, whole))
                return cli_fail(cli, "watch", -errno);
        return setenv("STATEBUS", whole, 1) == 0 ? 0 : cli_fail(cli, "watch", -ENOMEM);
}

/* Write the change to the input of a command: as it is printed with -o json, else its value. */
static void watch_write(const struct cli *cli, const struct watched *watched,
        const struct sb_guard *change, FILE *input)
{
        FILE *out = stdout;

        if (cli->json) {
                stdout = input;
                watch_print(cli, watched, change);
                stdout = out;
        } else {
                (void)fwrite(change->value.data, 1, change->value.len, input);
        }
}

/* Hand a change to the command, and release it. Return: 0, or an exit code after a message. */
static int watch_run(
        const struct watching *watching, struct watched *watched, struct sb_guard *change)
{
        const struct cli *cli = watching->cli;
        FILE *input = NULL;
        int r = watch_set_environment(watched, change);

        if (r == 0) {
                input = cli_shell_input();
                if (!input)
                        r = -errno;
        }
        if (r == 0)
                watch_write(cli, watched, change, input);
        /* The bus need not keep the value for a command that takes long. */
        sb_guard_release(change);
        if (r != 0)
                return cli_fail(cli, "watch", r);
        /* From here on the command knows. */
        watched->is_lapped = false;
        return cli_shell_run(cli->exec, input, watching->deadline_ns);
}

/* See whether the deadline is over. Then no command begins; what was there before is printed, but
 * nothing that came later. Return: 0, or an exit code after a message. */
static int watch_look_at_clock(struct watching *watching)
{
        struct timespec now;
        int r;

        if (watching->deadline_ns == SB_FOREVER || watching->last_cut != UINT64_MAX)
                return 0;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec < watching->deadline_ns)
                return 0;
        if (watching->cli->exec)
                return cli_fail(watching->cli, "watch", SB_E_TIMED_OUT);
        r = sb_cut_at(watching->bus, UINT64_MAX, &watching->last_cut);
        return r == 0 ? 0 : cli_fail(watching->cli, "watch", r);
}

/* Take one change of a watch, and print it or hand it to the command. Return: 0: there may be more;
 * SB_E_TIMED_OUT: there is nothing more now; else *ret_end says how the command ends. */
static int watch_take(struct watching *watching, struct watched *watched, int *ret_end)
{
        const struct cli *cli = watching->cli;
        struct sb_guard change = {0};
        int r = sb_watch_next(watched->watch, 0, &change);

        if (r == SB_E_LAPPED) { /* of a key the next one says how many are lost */
                watched->is_lapped = true;
                if (cli->prefix && !cli->exec)
                        watch_print_lapped(cli, watched->watch);
                /* A prefix goes on from now. */
                return cli->prefix && watching->last_cut != UINT64_MAX ? SB_E_TIMED_OUT : 0;
        }
        if (r == SB_E_TIMED_OUT || r == -EINTR) {
                /* No change comes behind that, unless the key comes back. */
                if (r == SB_E_TIMED_OUT && watched->is_lapped && !cli->prefix && !cli->exec) {
                        watch_print_forgotten(cli, watched->bytes);
                        watched->is_lapped = false;
                }
                return SB_E_TIMED_OUT;
        }
        if (r != 0) {
                *ret_end = cli_fail(cli, cli_word(watched->key), r);
                return 0;
        }
        if (change.cut > watching->last_cut) {
                sb_guard_release(&change);
                return SB_E_TIMED_OUT;
        }
        watching->left--;
        if (cli->exec) {
                *ret_end = watch_run(watching, watched, &change);
                return 0;
        }
        watch_print(cli, watched, &change);
        fflush(stdout);
        watched->is_lapped = false;
        sb_guard_release(&change);
        return 0;
}

/* A watch has its turn. @ret_more: becomes true when there may be more. Return: 0: go on; an exit
 * code; WATCH_ENOUGH. */
static int watch_turn(struct watching *watching, struct watched *watched, bool *ret_more)
{
        int end = 0, r;

        /* Bound: slice. The caller comes back behind the other watches. */
        for (int count = 0; count < (watching->cli->exec ? 1 : WATCH_SLICE); count++) {
                if (watching->left == 0 || ferror(stdout))
                        return WATCH_ENOUGH;
                r = watch_look_at_clock(watching);
                if (r != 0)
                        return r;
                r = watch_take(watching, watched, &end);
                if (r == SB_E_TIMED_OUT)
                        return 0;
                if (end != 0)
                        return end;
        }
        *ret_more = true;
        return 0;
}

/* What --after says: of a key a revision, of a prefix a cut. Return: 0, or an exit code after a
 * message. */
static int watch_after(struct cli *cli, struct sb_bus *bus, uint32_t *ret_flags, uint64_t *ret)
{
        int r;

        *ret = SB_ANY_REV;
        *ret_flags = cli->prefix ? SB_PREFIX : 0;
        if (!cli->after)
                return 0;
        if (!cli->prefix) {
                r = cli_number(cli->after, "--after", ret);
                if (r == 0 && *ret == SB_ANY_REV)
                        return cli_usage("--after: no key comes behind that revision");
                return r;
        }
        r = cli_cut(cli, bus, cli->after, ret);
        if (r == 0 && *ret != 0)
                *ret_flags |= SB_AFTER_CUT;
        else if (r == 0)
                *ret = SB_ANY_REV; /* now */
        return r;
}

/* A revision that is to come is waited for. It may be one of a bus that has begun anew since, and
 * then the wait is long. */
static void watch_say_ahead(
        const struct cli *cli, struct sb_bus *bus, const struct watched *watched, uint64_t after)
{
        struct sb_guard guard = {0};

        if (!cli->after || cli->prefix || sb_get(bus, watched->bytes, &guard) != 0)
                return;
        if (guard.rev < after)
                cli_say("%s is at revision %" PRIu64
                        ": the first change that comes is the one after %" PRIu64,
                        cli_word(watched->key), guard.rev, after);
        sb_guard_release(&guard);
}

static int watch_open_all(struct cli *cli, struct sb_bus *bus, struct watched *all)
{
        struct sb_bytes key;
        uint64_t after;
        uint32_t flags;
        int r = watch_after(cli, bus, &flags, &after);

        if (r != 0)
                return r;
        for (int i = 0; i < cli->operand_count; i++) {
                all[i].key = cli->operands[i];
                r = cli_key(cli, cli->operands[i], cli->prefix, &key);
                if (r != 0)
                        return r;
                all[i].bytes = key;
                r = sb_watch_open(bus, key, flags, after, &all[i].watch);
                if (r == -EINVAL && (flags & SB_AFTER_CUT))
                        return cli_no_cut(cli, cli->after);
                if (r == -ENAMETOOLONG && cli->prefix)
                        return cli_usage("%s: a prefix that is watched has %u bytes less than the "
                                         "longest key, at most: watch a shorter one",
                                cli_word(cli->operands[i]), SB_WATCH_PREFIX);
                if (r != 0)
                        return cli_fail(cli, cli_word(cli->operands[i]), r);
                watch_say_ahead(cli, bus, &all[i], after);
        }
        return 0;
}

static int watch_all(struct watching *watching)
{
        const struct cli *cli = watching->cli;
        int r;

        for (;;) {
                bool more = false;

                for (int i = 0; i < cli->operand_count; i++) {
                        r = watch_turn(watching, &watching->all[i], &more);
                        if (r != 0)
                                return r == WATCH_ENOUGH ? CLI_DONE : r;
                }
                if (more)
                        continue;
                if (watching->last_cut != UINT64_MAX) /* all is printed that came in time */
                        return cli_fail(cli, "watch", SB_E_TIMED_OUT);
                r = sb_wait(watching->bus, watching->deadline_ns);
                if (r != 0 && r != -EINTR)
                        return cli_fail(cli, "watch", r);
        }
}

/* Say which losses no command was told of, as no change came behind them. */
static void watch_say_untold(const struct watching *watching)
{
        const struct cli *cli = watching->cli;

        for (int i = 0; cli->exec && i < cli->operand_count; i++)
                if (watching->all[i].is_lapped)
                        cli_say("%s: some changes are lost, and no change came behind them to tell "
                                "the command so",
                                cli_word(watching->all[i].key));
}

/* Each key that was named is watched once. */
static void watch_name_once(struct cli *cli)
{
        int count = 0, before;

        for (int i = 0; i < cli->operand_count; i++) {
                for (before = 0; before < count; before++)
                        if (strcmp(cli->operands[before], cli->operands[i]) == 0)
                                break;
                if (before == count)
                        cli->operands[count++] = cli->operands[i];
        }
        cli->operand_count = count;
}

int cli_watch(struct cli *cli)
{
        struct watching watching = {.cli = cli, .left = UINT64_MAX, .last_cut = UINT64_MAX};
        int r = watch_deadline(cli, &watching.deadline_ns);

        watch_name_once(cli);
        if (r == 0 && cli->exec && strspn(cli->exec, " \t\n") == strlen(cli->exec))
                r = cli_usage("--exec wants a command to run for each change");
        if (r == 0 && cli->count)
                r = cli_number(cli->count, "--count", &watching.left);
        if (r == 0)
                r = cli_open(cli, &watching.bus);
        if (r == 0 && cli->exec)
                r = watch_name_bus(cli);
        if (r != 0)
                return r;
        watching.all = mi_calloc((size_t)cli->operand_count, sizeof(*watching.all));
        if (!watching.all)
                return cli_fail(cli, "watch", -ENOMEM);
        r = watch_open_all(cli, watching.bus, watching.all);
        if (r == 0) {
                r = watch_all(&watching);
                watch_say_untold(&watching);
        }
        for (int i = 0; i < cli->operand_count; i++)
                sb_watch_close(watching.all[i].watch);
        mi_free(watching.all);
        return r;
}

/* ---- wait ---- */

/* What is waited for, and the revision at which it came. */
struct wanted {
        struct sb_bytes value; /* data NULL: any */
        uint64_t rev;
};

#define WAIT_CAME 1
static int watch_is_wanted(void *argument, const struct sb_guard *guards, size_t count)
{
        struct wanted *wanted = argument;

        (void)count;
        if (!guards[0].bus ||
                (wanted->value.data && (guards[0].value.len != wanted->value.len ||
                                               memcmp(guards[0].value.data, wanted->value.data,
                                                       wanted->value.len) != 0)))
                return 0;
        wanted->rev = guards[0].rev;
        return WAIT_CAME;
}

int cli_wait(struct cli *cli)
{
        struct wanted wanted = {0};
        struct sb_bus *bus = NULL;
        uint64_t deadline_ns;
        struct sb_bytes key;
        int r = watch_deadline(cli, &deadline_ns);

        if (r == 0)
                r = cli_key(cli, cli->operands[0], false, &key);
        if (r == 0 && cli->until)
                r = cli_value(cli, cli->until, &wanted.value);
        if (r == 0)
                r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        do
                r = sb_wait_until(bus, &key, 1, watch_is_wanted, &wanted, deadline_ns);
        while (r == -EINTR);
        if (r != WAIT_CAME)
                return cli_fail(cli, cli_word(cli->operands[0]), r);
        if (cli->json) {
                cli_json_begin();
                cli_json_bytes("key", key, cli->base64);
                cli_json_number("rev", wanted.rev);
                cli_json_end();
        } else {
                printf("%" PRIu64 "\n", wanted.rev);
        }
        return CLI_DONE;
}
