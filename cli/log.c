/*
 * The command log: the batches of a durable bus's log, and what is in them, as they lie on the
 * disk.
 *
 * The log is read as a whole before the first line is printed (logged.h). With --entries it is read
 * once more, and printed on the way.
 *
 * Always true: what is printed is a run of whole batches. How the log ends, if not cleanly, is said
 * on standard error.
 */
#include <errno.h>
#include <inttypes.h>
#include <mimalloc.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/logged.h"
#include "cli/moments.h"

struct log {
        struct cli *cli;
        struct cli_logged logged;
        uint64_t from, limit; /* sequence of the first batch, and how many */
        size_t index;         /* of the batch that is printed */
};

static void log_print_batch(const struct log *log, const struct cli_logged_batch *batch)
{
        char time[32];

        if (!log->cli->json) {
                printf("%" PRIu64 "\t%" PRIu64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64,
                        batch->sequence, batch->cut, cli_time_words(batch->realtime_ns, time),
                        batch->entries, batch->keys, batch->bytes);
                if (batch->since == batch->sequence)
                        fputs("\twhole", stdout);
                else if (batch->since)
                        printf("\twhole since %" PRIu64, batch->since);
                putchar('\n');
                return;
        }
        cli_json_begin();
        cli_json_number("sequence", batch->sequence);
        cli_json_number("cut", batch->cut);
        cli_json_text("time", cli_time_words(batch->realtime_ns, time));
        cli_json_number("entries", batch->entries);
        cli_json_number("keys", batch->keys);
        cli_json_number("bytes", batch->bytes);
        cli_json_flag("whole", batch->since);
        if (batch->since)
                cli_json_number("since", batch->since);
        cli_json_end();
}

/* ---- entries ---- */

static bool log_is_version(const struct sb_wal_entry *entry)
{
        return entry->kind < SB_WAL_FLOOR;
}

static const char *log_kind_name(const struct sb_wal_entry *entry)
{
        switch (entry->kind) {
        case SB_WAL_VALUE:
                return cli_kind_name(SB_VALUE);
        case SB_WAL_TOMBSTONE:
                return cli_kind_name(SB_DELETED);
        case SB_WAL_EXPIRED:
                return cli_kind_name(SB_EXPIRED);
        case SB_WAL_FLOOR:
                return "floor";
        case SB_WAL_WORD:
                return "word";
        case SB_WAL_TIME:
                return "time";
        }
        return "unknown";
}

static const char *log_word_name(uint64_t which)
{
        switch (which) {
        case SB_WAL_WORD_WHOLE:
                return "whole";
        case SB_WAL_WORD_HISTORY_FLOOR:
                return "history_floor";
        case SB_WAL_WORD_FORGOTTEN:
                return "forgotten";
        case SB_WAL_WORD_BUCKETS:
                return "buckets";
        case SB_WAL_WORD_SINCE:
                return "since";
        }
        return "unknown";
}

static void log_print_entry_json(const struct log *log, const struct sb_wal_entry *entry)
{
        cli_json_begin();
        cli_json_number("sequence", log->logged.batches[log->index].sequence);
        cli_json_text("kind", log_kind_name(entry));
        if (log_is_version(entry)) {
                cli_json_bytes(
                        "key", (struct sb_bytes){entry->key, entry->key_len}, log->cli->base64);
                if (log->cli->values && entry->kind == SB_WAL_VALUE)
                        cli_json_bytes(
                                "value", (struct sb_bytes){entry->value, entry->value_len}, false);
                cli_json_number("rev", entry->rev);
                cli_json_number("stamp", entry->stamp);
                cli_json_number("writer", entry->writer);
                cli_json_number("txn", entry->transaction);
                cli_json_flag("born", entry->flags & SB_WAL_BORN);
        } else if (entry->kind == SB_WAL_FLOOR) {
                cli_json_number("bucket", entry->which);
                cli_json_number("rev", entry->rev);
        } else if (entry->kind == SB_WAL_TIME) {
                char time[32];

                cli_json_number("stamp", entry->rev);
                cli_json_text("time", cli_time_words(entry->which, time));
        } else {
                cli_json_text("word", log_word_name(entry->which));
                cli_json_number("content", entry->rev);
        }
        cli_json_number("bytes", sb_wal_entry_size(entry->key_len, entry->value_len));
        cli_json_end();
}

static void log_print_value(const struct log *log, const struct sb_wal_entry *entry)
{
        const struct sb_bytes value = {entry->value, entry->value_len};

        putchar('\t');
        cli_print_shown(log->cli, value);
}

static void log_print_entry(const struct log *log, const struct sb_wal_entry *entry)
{
        const uint64_t bytes = sb_wal_entry_size(entry->key_len, entry->value_len);

        if (log->cli->json) {
                log_print_entry_json(log, entry);
                return;
        }
        printf("\t%s\t", log_kind_name(entry));
        if (log_is_version(entry)) {
                cli_print_bytes(log->cli, (struct sb_bytes){entry->key, entry->key_len});
                printf("\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, entry->rev, entry->stamp, bytes);
                if (log->cli->values)
                        log_print_value(log, entry);
        } else if (entry->kind == SB_WAL_FLOOR) {
                printf("bucket %" PRIu64 "\t%" PRIu64 "\t-\t%" PRIu64, entry->which, entry->rev,
                        bytes);
        } else if (entry->kind == SB_WAL_TIME) {
                char time[32];

                printf("%s\t%" PRIu64 "\t-\t%" PRIu64, cli_time_words(entry->which, time),
                        entry->rev, bytes);
        } else {
                printf("%s\t%" PRIu64 "\t-\t%" PRIu64, log_word_name(entry->which), entry->rev,
                        bytes);
        }
        putchar('\n');
}

/* ---- the log ---- */

/* Where the batches begin that are wanted, and where they end. */
static void log_find_range(const struct log *log, size_t *ret_begin, size_t *ret_end)
{
        const size_t count = log->logged.batch_count;
        size_t begin = 0;

        while (begin < count && log->logged.batches[begin].sequence < log->from)
                begin++;
        *ret_begin = begin;
        *ret_end = log->limit < count - begin ? begin + (size_t)log->limit : count;
}

/* A batch begins. Return: 0; -ECANCELED: no further one is wanted. */
static int log_begin(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        struct log *log = context;
        size_t begin, end;

        log_find_range(log, &begin, &end);
        if (begin == end || batch->sequence > log->logged.batches[end - 1].sequence ||
                ferror(stdout))
                return -ECANCELED;
        *ret_skip = batch->sequence < log->logged.batches[begin].sequence;
        if (*ret_skip)
                return 0;
        /* No sum: what is passed over is not listed. */
        while (log->index + 1 < end && log->logged.batches[log->index].sequence < batch->sequence)
                log->index++;
        log_print_batch(log, &log->logged.batches[log->index]);
        return 0;
}

static int log_entry(void *context, const struct sb_wal_entry *entry)
{
        const struct log *log = context;

        log_print_entry(log, entry);
        return ferror(stdout) ? -ECANCELED : 0;
}

/* Print the batches, and their entries. Return: 0, -ESTALE, -errno. */
static int log_print(struct log *log)
{
        static const struct sb_wal_visitor visitor = {.begin = log_begin, .entry = log_entry};
        size_t begin, end;
        int r;

        if (log->cli->entries) {
                r = sb_wal_reader_visit(log->logged.reader, &visitor, log);
                /* Entries that no agentd writes are said of the log as a whole. */
                return r == -ECANCELED || r == -EBADMSG || r == -EPROTONOSUPPORT ? 0 : r;
        }
        log_find_range(log, &begin, &end);
        for (size_t i = begin; i < end && !ferror(stdout); i++)
                log_print_batch(log, &log->logged.batches[i]);
        return 0;
}

/* Say how the log ends. Return: an exit code. */
static int log_say_end(const struct log *log)
{
        const struct cli_logged *logged = &log->logged;

        if (cli_logged_costs_nothing(logged)) {
                fflush(stdout);
                cli_say("the log is damaged: %s", cli_logged_passed_words(logged));
                return CLI_FAILED;
        }
        if (logged->end.ending == SB_WAL_CLEAN ||
                (logged->end.ending == SB_WAL_TORN && logged->supervisor))
                return CLI_DONE;
        fflush(stdout);
        cli_say("the log is %s: %s", cli_logged_state(logged), cli_logged_words(logged));
        cli_say("%s", cli_logged_advice(logged));
        return cli_logged_is_good(logged) ? CLI_DONE : CLI_FAILED;
}

static int log_show(struct log *log, const char *directory)
{
        int r = cli_logged_open(directory, &log->logged);
        bool is_good = true;

        if (r != 0)
                return cli_logged_fail(directory, r);
        if (log->logged.files == 0)
                return cli_logged_none(&log->logged);
        if (log->logged.is_whole_behind) {
                /* What agentd takes is of more use than what comes before the damage. */
                is_good = false;
                (void)log_say_end(log);
                r = cli_logged_go_behind(&log->logged);
        }
        r = r ? r : log_print(log);
        if (r == -ESTALE) {
                cli_say("the log has begun anew while it was read, and this batch is gone: try "
                        "again");
                return CLI_FAILED;
        }
        if (r != 0)
                return cli_logged_fail(directory, r);
        r = log_say_end(log);
        return is_good ? r : CLI_FAILED;
}

int cli_log(struct cli *cli)
{
        char directory[PATH_MAX];
        struct log *log;
        uint64_t from = 0, limit = UINT64_MAX;
        int r = 0;

        if (cli->values && !cli->entries)
                return cli_usage("--values is about entries: it stands with --entries");
        if (cli->full && !cli->values)
                return cli_usage("--full is about values: it stands with --values");
        if (cli->from)
                r = cli_number(cli->from, "--from", &from);
        if (r == 0 && cli->limit)
                r = cli_number(cli->limit, "--limit", &limit);
        if (r == 0)
                r = cli_place(cli, directory, sizeof(directory));
        if (r != 0)
                return r;
        log = mi_zalloc(sizeof(*log));
        if (!log)
                return cli_fail(cli, "log", -ENOMEM);
        *log = (struct log){.cli = cli, .logged.directory_fd = -1, .from = from, .limit = limit};
        r = log_show(log, directory);
        cli_logged_close(&log->logged);
        mi_free(log);
        return r;
}
