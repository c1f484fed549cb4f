/* Commands that wait for changes: watch prints them, wait ends when a key is as one wants it. */
#include <errno.h>
#include <inttypes.h>
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/moments.h"

/* Read --timeout. Without it there is no deadline. Return: 0, or CLI_USAGE after a message. */
static int watch_deadline(const struct cli *cli, uint64_t *ret_ns)
{
        struct timespec now;
        uint64_t span;
        int r;

        *ret_ns = SB_FOREVER;
        if (!cli->timeout)
                return 0;
        r = cli_duration(cli->timeout, "--timeout", &span);
        if (r != 0)
                return r;
        clock_gettime(CLOCK_MONOTONIC, &now);
        *ret_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        *ret_ns = span > SB_FOREVER - *ret_ns ? SB_FOREVER : *ret_ns + span;
        return 0;
}

/* ---- watch ---- */

static void watch_print(const struct cli *cli, const struct sb_guard *change)
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
                cli_json_number("missed", change->missed);
                cli_json_end();
                return;
        }
        if (change->missed != 0)
                printf("... %" PRIu64 " lost\n", change->missed);
        cli_print_bytes(cli, change->key);
        printf("\t%" PRIu64 "\t%s\t", change->rev, cli_kind_name(change->kind));
        cli_print_escaped(change->value);
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

static void watch_set_number(const char *name, uint64_t number)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, number);
        setenv(name, text, 1);
}

/* Say in the environment of a command what it is run for. */
static int watch_set_environment(const struct sb_guard *change, bool lapped)
{
        char *key = mi_malloc(change->key.len + 1);

        if (!key)
                return -ENOMEM;
        memcpy(key, change->key.data, change->key.len);
        key[change->key.len] = 0; /* behind a byte 0 in the key the command sees no more of it */
        setenv("STATEBUS_KEY", key, 1);
        mi_free(key);
        setenv("STATEBUS_KIND", cli_kind_name(change->kind), 1);
        watch_set_number("STATEBUS_REV", change->rev);
        watch_set_number("STATEBUS_CUT", change->cut);
        watch_set_number("STATEBUS_WRITER", change->writer);
        watch_set_number("STATEBUS_TXN", change->txn);
        if (lapped)
                setenv("STATEBUS_MISSED", "some", 1);
        else
                watch_set_number("STATEBUS_MISSED", change->missed);
        return 0;
}

/* Give the change to the standard input of a command: as it is printed with -o json, else its
 * value. @lapped: some before it are lost, and how many is not known. Return: 0, or an exit code
 * after a message. */
static int watch_run(const struct cli *cli, const struct sb_guard *change, bool lapped)
{
        FILE *to, *out = stdout;
        int status;

        if (watch_set_environment(change, lapped) != 0)
                return cli_fail(cli, "watch", -ENOMEM);
        to = popen(cli->exec, "we");
        if (!to) {
                cli_say("cannot run %s: %s", cli_word(cli->exec), strerror(errno));
                return CLI_FAILED;
        }
        /* A command that does not read its input is no failure. */
        if (cli->json) {
                stdout = to;
                watch_print(cli, change);
                stdout = out;
        } else {
                (void)fwrite(change->value.data, 1, change->value.len, to);
        }
        status = pclose(to);
        if (status == 0)
                return 0;
        cli_say("%s ended with status %d", cli_word(cli->exec), status);
        return CLI_FAILED;
}

/* Print what one watch has, or hand it to the command. Return: 0: nothing more; an exit code;
 * -1: *left is 0. */
static int watch_drain(
        const struct cli *cli, struct sb_watch *watch, const char *key, uint64_t *left)
{
        struct sb_guard change = {0};
        bool lapped = false;
        int r;

        while (*left > 0 && !ferror(stdout)) {
                r = sb_watch_next(watch, 0, &change);
                if (r == SB_E_LAPPED) { /* of a key the next one says how many are lost */
                        lapped = cli->prefix;
                        if (cli->prefix && !cli->exec)
                                watch_print_lapped(cli, watch);
                        continue;
                }
                if (r == SB_E_TIMED_OUT || r == -EINTR)
                        return 0;
                if (r != 0)
                        return cli_fail(cli, cli_word(key), r);
                if (cli->exec) {
                        r = watch_run(cli, &change, lapped);
                        lapped = false;
                } else {
                        watch_print(cli, &change);
                        fflush(stdout);
                }
                sb_guard_release(&change);
                if (r != 0)
                        return r;
                (*left)--;
        }
        return -1;
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
        if (!cli->prefix)
                return cli_number(cli->after, "--after", ret);
        r = cli_cut(cli, bus, cli->after, ret);
        if (r == 0 && *ret != 0)
                *ret_flags |= SB_AFTER_CUT;
        else if (r == 0)
                *ret = SB_ANY_REV; /* now */
        return r;
}

static int watch_open_all(struct cli *cli, struct sb_bus *bus, struct sb_watch **watches)
{
        struct sb_bytes key;
        uint64_t after;
        uint32_t flags;
        int r = watch_after(cli, bus, &flags, &after);

        if (r != 0)
                return r;
        for (int i = 0; i < cli->operand_count; i++) {
                r = cli_key(cli, cli->operands[i], cli->prefix, &key);
                if (r != 0)
                        return r;
                r = sb_watch_open(bus, key, flags, after, &watches[i]);
                if (r == -EINVAL && (flags & SB_AFTER_CUT))
                        return cli_no_cut(cli, cli->after);
                if (r != 0)
                        return cli_fail(cli, cli_word(cli->operands[i]), r);
        }
        return 0;
}

static int watch_all(struct cli *cli, struct sb_bus *bus, struct sb_watch **watches, uint64_t left,
        uint64_t deadline_ns)
{
        int r;

        for (;;) {
                for (int i = 0; i < cli->operand_count; i++) {
                        r = watch_drain(cli, watches[i], cli->operands[i], &left);
                        if (r != 0)
                                return r < 0 ? CLI_DONE : r;
                }
                r = sb_wait(bus, deadline_ns);
                if (r != 0 && r != -EINTR)
                        return cli_fail(cli, "watch", r);
        }
}

int cli_watch(struct cli *cli)
{
        uint64_t left = UINT64_MAX, deadline_ns;
        struct sb_watch **watches;
        struct sb_bus *bus = NULL;
        int r = watch_deadline(cli, &deadline_ns);

        if (r == 0 && cli->count)
                r = cli_number(cli->count, "--count", &left);
        if (r == 0)
                r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        watches = mi_calloc((size_t)cli->operand_count, sizeof(*watches));
        if (!watches)
                return cli_fail(cli, "watch", -ENOMEM);
        r = watch_open_all(cli, bus, watches);
        if (r == 0)
                r = watch_all(cli, bus, watches, left, deadline_ns);
        for (int i = 0; i < cli->operand_count; i++)
                sb_watch_close(watches[i]);
        mi_free(watches);
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
