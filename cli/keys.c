/* Commands on one key: get, set, del, incr; by themselves, or in the transaction of a batch. */
#define _GNU_SOURCE
#include <errno.h>
#include <mimalloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/moments.h"
#include "cli/patience.h"
#include "libclient/core/admin.h"
#include "libclient/core/number.h"

#define NUMBER_MAX 20 /* characters of the longest decimal of 64 bits */

/* Print the result of a write: the new revision, or an object. A transaction's writes have no
 * revision before it commits: as text they have no answer. */
static void keys_print_written(
        const struct cli *cli, struct sb_bytes key, const char *kind, uint64_t rev, uint64_t cut)
{
        if (!cli->json) {
                if (!cli->txn)
                        printf("%llu\n", (unsigned long long)rev);
                return;
        }
        cli_json_begin();
        cli_json_bytes("key", key, cli->base64);
        if (!cli->txn)
                cli_json_number("rev", rev);
        cli_json_text("kind", kind);
        if (!cli->txn)
                cli_json_number("cut", cut);
        cli_json_end();
}

/* Print a value as it is. In a batch each answer is a line, so that the reader knows where it
 * ends. */
static void keys_print_value(const struct cli *cli, struct sb_bytes value)
{
        if (cli->in_batch)
                cli_print_bytes(cli, value);
        else
                fwrite(value.data, 1, value.len, stdout);
        if (cli->in_batch || cli_on_terminal())
                putchar('\n');
}

int cli_get(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        struct sb_guard guard = {0};
        struct sb_bytes key;
        uint64_t cut = 0;
        int r;

        r = cli_key(cli, cli->operands[0], false, &key);
        if (r == 0)
                r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        if (cli->at)
                r = cli_cut(cli, bus, cli->at, &cut);
        if (r != 0)
                return r;
        if (cut != 0)
                r = sb_get_at(bus, key, cut, &guard);
        else
                r = cli->txn ? sb_txn_get(cli->txn, key, &guard) : sb_get(bus, key, &guard);
        if (r == -EINVAL && cut != 0)
                return cli_no_cut(cli, cli->at);
        if (r != 0) {
                sb_guard_release(&guard);
                return cli_fail(cli, cli_word(cli->operands[0]), r);
        }
        if (cli->json) {
                cli_json_guard(cli, &guard, true);
        } else {
                if (cli->rev)
                        printf("%llu\n", (unsigned long long)guard.rev);
                keys_print_value(cli, guard.value);
        }
        sb_guard_release(&guard);
        return CLI_DONE;
}

/* Read standard input to its end, or until it is larger than any value may be. Return: 0,
 * SB_E_DETACHED, -EMSGSIZE, -errno. */
static int keys_read_input(struct sb_bus *bus, struct sb_bytes *ret)
{
        struct sb_admin_stat stat = {0}; /* asked for by large input only: it walks over all keys */
        size_t len = 0, size = 65536;
        char *bytes = mi_malloc(size), *larger;
        ssize_t got;
        int r;

        while (bytes) {
                got = read(STDIN_FILENO, bytes + len, size - len);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0) {
                        if (got < 0) {
                                r = -errno;
                                mi_free(bytes);
                                return r;
                        }
                        *ret = (struct sb_bytes){bytes, len};
                        return 0;
                }
                len += (size_t)got;
                if (len < size)
                        continue;
                r = stat.value_len_max ? 0 : sb_admin_stat(bus, &stat);
                if (r != 0 || len > stat.value_len_max) {
                        mi_free(bytes);
                        return r != 0 ? r : -EMSGSIZE;
                }
                larger = mi_realloc(bytes, 2 * size);
                if (!larger)
                        mi_free(bytes);
                bytes = larger;
                size *= 2;
        }
        return -ENOMEM;
}

int cli_read_how(const struct cli *cli, struct sb_write *how, uint64_t *ret_expected)
{
        static const char *const names[] = {"default", "volatile", "batched", "strict"};
        uint64_t expected = SB_ANY_REV;
        int r;

        if (cli->txn && (cli->ttl || cli->durability))
                return cli_usage("%s is not for one line of a transaction",
                        cli->ttl ? "--ttl" : "--durability");
        if (cli->if_absent + !!cli->if_rev + !!cli->if_value > 1)
                return cli_usage("--if-absent, --if-rev and --if-value exclude each other");
        if (cli->if_absent)
                expected = 0;
        if (cli->if_rev) {
                r = cli_number(cli->if_rev, "--if-rev", &expected);
                if (r != 0)
                        return r;
                if (expected == SB_ANY_REV)
                        return cli_usage("--if-rev: no key has that revision");
        }
        if (cli->ttl) {
                r = cli_duration(cli->ttl, "--ttl", &how->ttl_ns);
                if (r != 0)
                        return r;
                if (how->ttl_ns == 0)
                        return cli_usage("--ttl wants more than %s", cli->ttl);
        }
        if (cli->durability) {
                how->durability = UINT32_MAX;
                for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                        if (strcmp(cli->durability, names[i]) == 0)
                                how->durability = i;
                if (how->durability == UINT32_MAX)
                        return cli_usage("--durability wants volatile, batched or strict, not '%s'",
                                cli->durability);
        }
        *ret_expected = expected;
        return 0;
}

/* Say why a write did not happen. Return: the exit code for it. */
static int keys_fail_write(const struct cli *cli, int result, uint64_t current_rev)
{
        if (result == SB_E_CONFLICT) {
                if (current_rev == 0)
                        cli_say("%s: the key has no value, nothing was written",
                                cli_word(cli->operands[0]));
                else if (cli->if_value)
                        cli_say("%s: the key has another value, at revision %llu, nothing was "
                                "written",
                                cli_word(cli->operands[0]), (unsigned long long)current_rev);
                else
                        cli_say("%s: the key is at revision %llu, nothing was written",
                                cli_word(cli->operands[0]), (unsigned long long)current_rev);
                return CLI_CONFLICT;
        }
        if (result == -EEXIST) {
                cli_say("%s: an earlier line of the transaction wrote it: it has a value, and no "
                        "revision before the commit",
                        cli_word(cli->operands[0]));
                return CLI_CONFLICT;
        }
        if (result == -EMSGSIZE && cli->txn) {
                cli_say("%s: the value is too large for a transaction, which takes 8 bytes less "
                        "than `agentctl %sstat` says",
                        cli_word(cli->operands[0]), cli_bus_words(cli));
                return CLI_FAILED;
        }
        if (result == -ENOTSUP && cli->ttl) {
                cli_say("%s: --ttl comes with a later version of statebus, nothing was written",
                        cli_word(cli->operands[0]));
                return CLI_FAILED;
        }
        return cli_fail_write(cli, cli_word(cli->operands[0]), result);
}

/* Read VALUE, which is standard input for -, but in a batch. Return: 0, or an exit code after a
 * message. */
static int keys_read_value(
        const struct cli *cli, struct sb_bus *bus, const char *text, struct sb_bytes *ret)
{
        int r;

        if (strcmp(text, "-") != 0)
                return cli_value(cli, text, ret);
        if (cli->in_batch)
                return cli_usage("set KEY -: standard input holds the lines: give the value on its "
                                 "own line, in quotes or with --base64");
        r = keys_read_input(bus, ret);
        return r == 0 ? 0 : cli_fail(cli, "standard input", r);
}

/* What set or del is to do, and what came of it. */
struct keys_write {
        struct sb_bytes key, value, wanted; /* wanted: by --if-value */
        bool deletes;
        uint64_t expected;
        uint64_t rev, cut; /* rev: of what was written, or where the key is */
        bool matched;      /* the key was as it is expected to be, before the write */
};

/* Whether the key is as the command line expects it, in the transaction or now; @expected becomes
 * the revision that it has. Return: 0; SB_E_CONFLICT; -EEXIST: the transaction wrote it itself; as
 * sb_txn_get(). */
static int keys_check(const struct cli *cli, struct sb_bus *bus, struct keys_write *write)
{
        sb_auto(sb_guard_release) struct sb_guard guard = {0};
        bool same;
        int r;

        r = cli->txn ? sb_txn_get(cli->txn, write->key, &guard) : sb_get(bus, write->key, &guard);
        if (r != 0 && r != SB_E_NOT_FOUND)
                return r;
        write->rev = r == 0 ? guard.rev : 0;
        same = cli->if_value ? r == 0 && guard.value.len == write->wanted.len &&
                                       memcmp(guard.value.data, write->wanted.data,
                                               write->wanted.len) == 0
                             : write->rev == write->expected;
        if (r == 0 && guard.rev == 0 && !(cli->if_value && same))
                return -EEXIST;
        if (!same) /* a delete as sb_delete() */
                return write->deletes && write->rev == 0 ? SB_E_NOT_FOUND : SB_E_CONFLICT;
        write->expected = write->rev;
        write->matched = true;
        return 0;
}

/* Return: as keys_check(), sb_cas() and sb_delete(). */
static int keys_write_once(const struct cli *cli, struct sb_bus *bus, const struct sb_write *how,
        struct keys_write *write)
{
        int r = 0;

        write->matched = false;
        if (cli->if_value || (cli->txn && write->expected != SB_ANY_REV))
                r = keys_check(cli, bus, write);
        if (r != 0)
                return r;
        if (cli->txn)
                return write->deletes ? sb_txn_delete(cli->txn, write->key)
                                      : sb_txn_set(cli->txn, write->key, write->value);
        if (write->deletes)
                return sb_delete(bus, write->key, write->expected, how, &write->rev);
        return write->expected == SB_ANY_REV
                       ? sb_set(bus, write->key, write->value, how, &write->rev)
                       : sb_cas(bus, write->key, write->expected, write->value, how, &write->rev);
}

static int keys_write(struct cli *cli, bool deletes)
{
        struct keys_write write = {.deletes = deletes};
        struct sb_write how = {.size = sizeof(how), .ret_cut = &write.cut};
        struct sb_bus *bus = NULL;
        int r;

        r = cli_key(cli, cli->operands[0], false, &write.key);
        if (r == 0)
                r = cli_read_how(cli, &how, &write.expected);
        if (r == 0 && cli->if_value)
                r = cli_value(cli, cli->if_value, &write.wanted);
        if (r == 0 && deletes && write.expected == 0)
                r = cli_usage("--if-rev 0 means no value, and there would be nothing to delete");
        if (r == 0)
                r = cli_open_to_write(cli, &bus);
        if (r == 0 && !deletes)
                r = keys_read_value(cli, bus, cli->operands[1], &write.value);
        if (r != 0)
                return r;
        /* Lock-free: another round means that another process wrote behind the look. */
        do
                r = keys_write_once(cli, bus, &how, &write);
        while (r == SB_E_CONFLICT && write.matched && cli->if_value);
        if (r != 0)
                return keys_fail_write(cli, r, write.rev);
        keys_print_written(cli, write.key, deletes ? "deleted" : "value", write.rev, write.cut);
        return CLI_DONE;
}

int cli_set(struct cli *cli)
{
        return keys_write(cli, false);
}

int cli_del(struct cli *cli)
{
        return cli->prefix ? cli_del_prefix(cli) : keys_write(cli, true);
}

/* Add in a transaction. Return: as sb_incr(). */
static int keys_incr_in(struct sb_txn *txn, struct sb_bytes key, int64_t by, int64_t *ret_sum)
{
        sb_auto(sb_guard_release) struct sb_guard guard = {0};
        char text[NUMBER_MAX + 2];
        int64_t number = 0;
        int r;

        r = sb_txn_get(txn, key, &guard);
        if (r != 0 && r != SB_E_NOT_FOUND)
                return r;
        if (r == 0 && !sb_number_read(guard.value, &number))
                return -EBADMSG;
        if (__builtin_add_overflow(number, by, ret_sum))
                return -ERANGE;
        snprintf(text, sizeof(text), "%lld", (long long)*ret_sum);
        return sb_txn_set(txn, key, (struct sb_bytes){text, strlen(text)});
}

int cli_incr(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        const char *by_text = cli->operand_count > 1 ? cli->operands[1] : "1";
        uint64_t rev = 0, cut = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        char text[NUMBER_MAX + 2];
        struct sb_bytes key;
        int64_t by, sum = 0;
        int r;

        if (!sb_number_read((struct sb_bytes){by_text, strlen(by_text)}, &by))
                return cli_usage("incr: '%s' is not a decimal integer of 64 bits", by_text);
        r = cli_key(cli, cli->operands[0], false, &key);
        if (r == 0)
                r = cli_open_to_write(cli, &bus);
        if (r != 0)
                return r;
        r = cli->txn ? keys_incr_in(cli->txn, key, by, &sum)
                     : sb_incr(bus, key, by, &how, &sum, &rev);
        if (r == -EBADMSG || r == -ERANGE) {
                cli_say(r == -EBADMSG ? "%s: the value is not a decimal integer of 64 bits"
                                      : "%s: the sum does not fit 64 bits, nothing was written",
                        cli_word(cli->operands[0]));
                return CLI_FAILED;
        }
        if (r != 0)
                return cli_fail_write(cli, cli_word(cli->operands[0]), r);
        snprintf(text, sizeof(text), "%lld", (long long)sum);
        if (!cli->json) {
                puts(text);
                return CLI_DONE;
        }
        cli_json_begin();
        cli_json_bytes("key", key, cli->base64);
        cli_json_text("value", text);
        if (!cli->txn)
                cli_json_number("rev", rev);
        cli_json_text("kind", "value");
        if (!cli->txn)
                cli_json_number("cut", cut);
        cli_json_end();
        return CLI_DONE;
}
