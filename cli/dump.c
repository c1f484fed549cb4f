/*
 * The command dump: all keys with a prefix at one cut, and the rules of history of these keys, as
 * text that load reads (dumped.h says what it looks like).
 *
 * The lines are printed as -o json prints them elsewhere, into a stream of which each byte is
 * hashed on its way to standard output. The last line is printed behind all others and only when
 * all went well, so what ends early is never whole.
 *
 * Always true: no line has a key of the bus's own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/dumped.h"
#include "cli/moments.h"
#include "cli/progress.h"
#include "shm/layout/reserved.h"

#define SCANNED_MAX 64      /* keys that are held at once */
#define OUTPUT_SIZE 262144u /* bytes that are written at once */

struct dump {
        struct cli *cli;
        struct sb_bus *bus;
        struct sb_bytes prefix;
        struct cli_dumped_hash *hash;
        bool hashing; /* what is printed; not the last line */
        int fd;       /* of standard output */
        uint64_t keys, rules, bytes;
        struct cli_progress progress;
};

/* Write what was printed, and hash it. Return: how many bytes; 0: the write failed, errno says
 * why. */
static ssize_t dump_write(void *cookie, const char *bytes, size_t size)
{
        struct dump *dump = cookie;
        size_t done = 0;

        if (dump->hashing)
                cli_dumped_hash_add(dump->hash, bytes, size);
        while (done < size) {
                ssize_t wrote = write(dump->fd, bytes + done, size - done);

                if (wrote < 0 && errno != EINTR)
                        return 0;
                done += wrote < 0 ? 0 : (size_t)wrote;
        }
        dump->bytes += size;
        return (ssize_t)size;
}

/* Make standard output a stream that hashes; the C library lets a program do so. It stays until
 * agentctl ends, because main looks whether all of it was written. */
static int dump_begin_output(struct dump *dump)
{
        FILE *stream;

        fflush(stdout);
        dump->fd = fileno(stdout);
        dump->hash = cli_dumped_hash_new();
        if (!dump->hash)
                return -ENOMEM;
        stream = fopencookie(dump, "w", (cookie_io_functions_t){.write = dump_write});
        if (!stream)
                return -errno;
        setvbuf(stream, NULL, _IOFBF, OUTPUT_SIZE);
        stdout = stream;
        dump->hashing = true;
        return 0;
}

/* Whether bytes are shorter in base64 than as text of JSON. So no line is much longer than its
 * bytes, and load can tell how long a line may be. */
static bool dump_is_long_as_text(struct sb_bytes bytes)
{
        const unsigned char *p = bytes.data;
        size_t len = 0;

        for (size_t i = 0; i < bytes.len; i++) {
                if (p[i] >= 0x20 && p[i] < 0x7f)
                        len += p[i] == '"' || p[i] == '\\' ? 2 : 1;
                else if (p[i] < 0x80 || p[i] >= 0xc0) /* the first byte of a character */
                        len += p[i] < 0xf0 ? 6 : 12;
        }
        return len > (bytes.len + 2) / 3 * 4 + strlen("_base64");
}

static void dump_print_bytes(const struct dump *dump, const char *name, struct sb_bytes bytes)
{
        cli_json_bytes(name, bytes, dump->cli->base64 || dump_is_long_as_text(bytes));
}

static void dump_print_head(const struct dump *dump, uint64_t cut)
{
        cli_json_begin();
        cli_json_number("statebus_dump", CLI_DUMPED_FORMAT);
        cli_json_number("cut", cut);
        dump_print_bytes(dump, "prefix", dump->prefix);
        cli_json_text("agentctl", SB_VERSION);
        cli_json_end();
}

static void dump_print_rule(
        struct dump *dump, struct sb_bytes key, bool prefix, const struct sb_rule *rule)
{
        static const char *const names[] = {"newest", "last", "for", "all"};

        cli_json_begin();
        dump_print_bytes(dump, prefix ? "prefix" : "key", key);
        cli_json_text("rule", names[rule->kind & 3]);
        if (rule->kind == SB_KEEP_LAST)
                cli_json_number("versions", rule->value);
        if (rule->kind == SB_KEEP_SPAN)
                cli_json_number("ns", rule->value);
        cli_json_end();
        dump->rules++;
}

/* Whether the rule in a key of the bus's own is one of the keys that are dumped. */
static bool dump_has_rule(
        const struct dump *dump, struct sb_bytes stored, struct sb_bytes *ret_key, bool *ret_prefix)
{
        const char *at = stored.data;

        if (stored.len < SB_KEEP_PREFIX)
                return false;
        *ret_key = (struct sb_bytes){at + SB_KEEP_PREFIX, stored.len - SB_KEEP_PREFIX};
        *ret_prefix = at[SB_KEEP_PREFIX - 1] == 'P';
        return ret_key->len >= dump->prefix.len &&
               memcmp(ret_key->data, dump->prefix.data, dump->prefix.len) == 0;
}

/* Print the rules as they are now: the library knows those of no other moment. */
static int dump_print_rules(struct dump *dump)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_bytes all = {SB_RESERVED_KEEP, SB_KEEP_PREFIX - 1};
        int r;

        r = sb_scan_open(dump->bus, NULL, all, &scan);
        while (r == 0) {
                struct sb_guard guard = {0};
                struct sb_rule rule;
                struct sb_bytes key;
                bool prefix;

                r = sb_scan_next(scan, &guard);
                if (r == 0 && dump_has_rule(dump, guard.key, &key, &prefix) &&
                        sb_kept(dump->bus, key, prefix ? SB_PREFIX : 0, &rule) == 0 &&
                        rule.kind != SB_KEEP_NEWEST)
                        dump_print_rule(dump, key, prefix, &rule);
                sb_guard_release(&guard);
        }
        return r == SB_E_NOT_FOUND ? 0 : r;
}

static void dump_print_key(struct dump *dump, const struct sb_guard *guard)
{
        cli_json_begin();
        dump_print_bytes(dump, "key", guard->key);
        dump_print_bytes(dump, "value", guard->value);
        cli_json_number("rev", guard->rev);
        cli_json_end();
        dump->keys++;
}

/* Print all keys of the scan. Return: 0; as sb_scan_next(), SB_E_LAPPED, too, where a rule has kept
 * too little of a key: a dump without that key would not be what there was. */
static int dump_print_keys(struct dump *dump, struct sb_scan *scan)
{
        struct sb_guard guards[SCANNED_MAX] = {0};
        size_t count = 0;
        int r = 0;

        while (r == 0 && !ferror(stdout)) {
                r = sb_scan_next_many(scan, guards, SCANNED_MAX, &count);
                for (size_t i = 0; r == 0 && i < count; i++) {
                        dump_print_key(dump, &guards[i]);
                        sb_guard_release(&guards[i]);
                }
                if (r != 0)
                        sb_guard_release(&guards[0]);
                cli_progress_step(&dump->progress, dump->keys, dump->bytes);
        }
        return r == SB_E_NOT_FOUND ? 0 : r;
}

/* The last line has the hash of all that was printed, so that goes out first. */
static void dump_print_end(struct dump *dump)
{
        char words[17];

        fflush(stdout);
        dump->hashing = false;
        cli_dumped_hash_words(dump->hash, words);
        cli_json_begin();
        cli_json_number("keys", dump->keys);
        cli_json_number("rules", dump->rules);
        cli_json_text("xxh3", words);
        cli_json_end();
        fflush(stdout);
}

static int dump_print(struct dump *dump, struct sb_scan *scan)
{
        int r = dump_begin_output(dump);

        if (r != 0)
                return cli_fail(dump->cli, "dump", r);
        cli_progress_begin(&dump->progress, "dump", 0);
        if (cli_on_terminal())
                dump->progress.wanted = false; /* the dump itself is on the terminal */
        dump_print_head(dump, sb_scan_cut(scan));
        r = dump_print_rules(dump);
        if (r == 0)
                r = dump_print_keys(dump, scan);
        cli_progress_end(&dump->progress);
        if (r == 0) {
                if (!ferror(stdout))
                        dump_print_end(dump);
        } else {
                r = cli_fail(dump->cli, "dump", r);
                cli_say("the dump is not whole, and has no last line: load refuses it");
        }
        dump->hash = cli_dumped_hash_free(dump->hash);
        dump->hashing = false;
        return r;
}

int cli_dump(struct cli *cli)
{
        static struct dump dump; /* it is there as long as standard output is */
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_scan_options how = {.size = sizeof(how)};
        int r = 0;

        dump = (struct dump){.cli = cli, .prefix = {"", 0}};
        if (cli->operand_count > 0)
                r = cli_key(cli, cli->operands[0], true, &dump.prefix);
        if (r == 0 && sb_reserved_is(dump.prefix.data, dump.prefix.len))
                r = cli_usage("these are keys of the bus's own, which no dump has: rules of "
                              "history stand in the dump of the keys that they are for");
        if (r == 0)
                r = cli_open(cli, &dump.bus);
        if (r == 0 && cli->at)
                r = cli_cut(cli, dump.bus, cli->at, &how.cut);
        if (r != 0)
                return r;
        r = sb_scan_open_at(dump.bus, dump.prefix, &how, &scan);
        if (r == -EINVAL && how.cut != 0)
                return cli_no_cut(cli, cli->at);
        return r == 0 ? dump_print(&dump, scan) : cli_fail(cli, "dump", r);
}
