/* Commands that look at a bus as a whole: stat, clients, evict, check. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/moments.h"
#include "cli/wrap.h"
#include "libclient/core/admin.h"

#define STAT_INDENT      13 /* of what stat says of a thing, behind its name */
#define SOUND_INDENT     7
#define NOT_SOUND_INDENT 11

/* The cuts that a client (SB_ADMIN_MARKS: the marks) holds, and the memory that they keep. */
static const struct sb_admin_holder *look_holder_of(
        const struct sb_admin_holders *holders, uint32_t client)
{
        static const struct sb_admin_holder none;

        for (uint32_t i = 0; i < holders->count; i++)
                if (holders->holders[i].client == client)
                        return &holders->holders[i];
        return &none;
}

static const char *look_durability(const struct sb_admin_stat *stat)
{
        return stat->durability == SB_STRICT    ? "strict"
               : stat->durability == SB_BATCHED ? "batched"
                                                : "volatile";
}

static void look_print_stat_json(const struct sb_admin_stat *stat, uint64_t marks_bytes)
{
        char id[40];

        snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, stat->id[0], stat->id[1]);
        cli_json_begin();
        cli_json_text("id", id);
        cli_json_number("segment_bytes", stat->segment_bytes);
        cli_json_number("huge_bytes", stat->huge_bytes);
        cli_json_number("data_bytes", stat->data_bytes);
        cli_json_number("data_free_bytes", stat->data_free_bytes);
        cli_json_number("reserve_bytes", stat->reserve_bytes);
        cli_json_number("held_bytes", stat->held_bytes);
        cli_json_number("unit_bytes", stat->unit_size);
        cli_json_number("value_bytes_max", stat->value_len_max);
        cli_json_number("key_bytes_max", stat->key_len_max);
        cli_json_number("buckets", stat->buckets);
        cli_json_number("cells", stat->cells);
        cli_json_number("cells_used", stat->cells_used);
        cli_json_number("cells_away", stat->cells_away);
        cli_json_number("keys", stat->keys);
        cli_json_number("keys_deleted", stat->keys_deleted);
        cli_json_number("history_bytes", stat->history_bytes);
        cli_json_number("history_bytes_max", stat->history_limit);
        cli_json_number("marks", stat->marks);
        cli_json_number("marks_max", stat->marks_max);
        cli_json_number("marks_bytes", marks_bytes);
        cli_json_number("clients", stat->clients);
        cli_json_number("clients_max", stat->clients_max);
        cli_json_number("clock", stat->clock);
        cli_json_number("safe", stat->stable);
        cli_json_number("era", stat->era);
        cli_json_text("durability", look_durability(stat));
        cli_json_number("durable", stat->durable);
        cli_json_number("log_errno", (uint64_t)stat->log_error);
        cli_json_number("log_pid", stat->log_pid);
        cli_json_number("log_lag_ms", stat->log.lag_ns / 1000000);
        cli_json_number("log_batches", stat->log.batches);
        cli_json_number("log_batch_bytes_max", stat->log.batch_most);
        cli_json_number("log_bytes", stat->log.bytes);
        cli_json_number("log_user_bytes", stat->log.user_bytes);
        cli_json_number("log_copies", stat->log.copies);
        cli_json_list_begin("log_syncs");
        for (uint32_t i = 0; i < SB_LOG_SYNCS; i++)
                cli_json_list_number(stat->log.syncs[i]);
        cli_json_list_end();
        cli_json_number("age_ms", stat->age_ns / 1000000);
        cli_json_number("keeper_pid", stat->supervisor_pid);
        cli_json_number("engine_pid", stat->engine_pid);
        cli_json_number("engine_generation", stat->engine_generation);
        cli_json_end();
}

static const char *look_us_words(uint64_t us, char text[static 32])
{
        if (us < 1000)
                snprintf(text, 32, "%" PRIu64 " us", us);
        else if (us < 1000000)
                snprintf(text, 32, "%.0f ms", (double)us / 1e3);
        else
                snprintf(text, 32, "%.0f s", (double)us / 1e6);
        return text;
}

/* How long the disk took: the share of each time that there was. */
static void look_print_syncs(FILE *to, const struct sb_admin_log *log)
{
        const char *between = "up to ";
        char time[32];

        if (log->batches == 0)
                return;
        fprintf(to, "disk         a batch's last write and its sync: ");
        for (uint32_t i = 0; i < SB_LOG_SYNCS; i++) {
                if (log->syncs[i] == 0)
                        continue;
                fprintf(to, "%s%s %.3g %%", between, look_us_words(UINT64_C(1) << i, time),
                        100.0 * (double)log->syncs[i] / (double)log->batches);
                between = ", ";
        }
        fprintf(to, "\n");
}

static void look_print_log_counts(FILE *to, const struct sb_admin_log *log)
{
        char mean[32], most[32];

        fprintf(to,
                "log          %" PRIu64 " batches, the mean %s, the largest %s; %.2f bytes written "
                "for each of keys and values; %" PRIu64 " copies of the bus",
                log->batches,
                cli_bytes_words(log->batches == 0 ? 0 : log->bytes / log->batches, mean),
                cli_bytes_words(log->batch_most, most),
                log->user_bytes == 0 ? 0.0 : (double)log->bytes / (double)log->user_bytes,
                log->copies);
        if (log->copy_all != 0)
                fprintf(to, ", and %.0f %% of another",
                        100.0 * (double)log->copy_done / (double)log->copy_all);
        fprintf(to, "\n");
        look_print_syncs(to, log);
}

static void look_print_log(FILE *to, const struct sb_admin_stat *stat)
{
        char age[32];

        if (stat->durability < SB_BATCHED)
                fprintf(to, "durability   volatile: nothing survives power loss\n");
        else if (stat->log_error)
                fprintf(to,
                        "durability   %s, up to cut %" PRIu64
                        ". NOTHING BECOMES DURABLE NOW, the log cannot be written: %s\n",
                        look_durability(stat), stat->durable, strerror(stat->log_error));
        else if (stat->log_pid)
                fprintf(to,
                        "durability   %s, up to cut %" PRIu64 ", %s ago; the log is process %u\n",
                        look_durability(stat), stat->durable, cli_age_words(stat->log.lag_ns, age),
                        stat->log_pid);
        else
                fprintf(to, "durability   %s, up to cut %" PRIu64 "; the log does not run\n",
                        look_durability(stat), stat->durable);
        if (stat->durability >= SB_BATCHED)
                look_print_log_counts(to, &stat->log);
}

/* Whether more than the rest behind the last huge page is in small ones. */
static bool look_is_slow(const struct sb_admin_stat *stat)
{
        return stat->segment_bytes - stat->huge_bytes >= UINT64_C(2) << 20;
}

static void look_print_stat_text(FILE *to, const struct sb_admin_stat *stat, uint64_t marks_bytes)
{
        char a[32], b[32], c[32];

        fprintf(to, "segment      %s, id %016" PRIx64 "%016" PRIx64 ", age %s\n",
                cli_bytes_words(stat->segment_bytes, a), stat->id[0], stat->id[1],
                cli_age_words(stat->age_ns, b));
        fprintf(to, "pages        %s of that in huge ones%s\n",
                cli_bytes_words(stat->huge_bytes, a),
                look_is_slow(stat) ? ": in a large bus lookups take longer outside them" : "");
        fprintf(to, "memory       %s, %s of whole units free (a unit: %s)\n",
                cli_bytes_words(stat->data_bytes, a), cli_bytes_words(stat->data_free_bytes, b),
                cli_bytes_words(stat->unit_size, c));
        fprintf(to, "reserve      %s, for deletes alone\n",
                cli_bytes_words(stat->reserve_bytes, a));
        if (stat->held_bytes)
                fprintf(to,
                        "held         %s of that stay free: the bus came back in more than "
                        "--size\n",
                        cli_bytes_words(stat->held_bytes, a));
        fprintf(to, "keys         %" PRIu64 ", and %" PRIu64 " deleted ones not forgotten yet\n",
                stat->keys, stat->keys_deleted);
        fprintf(to,
                "index        %" PRIu64 " of %" PRIu64 " cells in use, %" PRIu64
                " of them not in their key's bucket\n",
                stat->cells_used, stat->cells, stat->cells_away);
        fprintf(to, "limits       keys of %u bytes, values of %s\n", stat->key_len_max,
                cli_bytes_words(stat->value_len_max, a));
        fprintf(to, "history      %s kept by rules (limit: %s)\n",
                cli_bytes_words(stat->history_bytes, a),
                stat->history_limit ? cli_bytes_words(stat->history_limit, b) : "none");
        fprintf(to, "marks        %u of %u, %s kept by them\n", stat->marks, stat->marks_max,
                cli_bytes_words(marks_bytes, a));
        fprintf(to, "clients      %u of %u\n", stat->clients, stat->clients_max);
        fprintf(to, "clock        %" PRIu64 ", stable cut %" PRIu64 ", era %" PRIu64 "\n",
                stat->clock, stat->stable, stat->era);
        look_print_log(to, stat);
        fprintf(to, "agentd       supervisor %u, engine %u (number %" PRIu64 ")\n",
                stat->supervisor_pid, stat->engine_pid, stat->engine_generation);
}

/* Return: 0, -ENOMEM. */
static int look_show_stat(const struct sb_admin_stat *stat, uint64_t marks_bytes)
{
        char *text = NULL;
        size_t len;
        FILE *to = open_memstream(&text, &len);

        if (!to)
                return -ENOMEM;
        look_print_stat_text(to, stat, marks_bytes);
        if (fclose(to) == 0)
                cli_wrap_lines(text, STAT_INDENT);
        free(text);
        return 0;
}

int cli_stat(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        struct sb_admin_holders holders = {0};
        struct sb_admin_stat stat;
        int r;

        r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        r = sb_admin_stat(bus, &stat);
        if (r == 0)
                r = sb_admin_holders(bus, &holders);
        if (r != 0)
                return cli_fail(cli, "stat", r);
        if (cli->json)
                look_print_stat_json(&stat, look_holder_of(&holders, SB_ADMIN_MARKS)->held_bytes);
        else
                r = look_show_stat(&stat, look_holder_of(&holders, SB_ADMIN_MARKS)->held_bytes);
        sb_admin_holders_free(&holders);
        return r == 0 ? CLI_DONE : cli_fail(cli, "stat", r);
}

/* The columns of clients. On a terminal that is too narrow for all of them, AGE is narrower, and
 * those go that are needed least. */
static const struct look_column {
        const char *title;
        int width, narrow;
        int rank; /* of those that go; 0: it stays */
} look_columns[] = {
        {"CLIENT", 6, 6, 0},
        {"PID", 8, 8, 0},
        {"UID", 6, 6, 3},
        {"ACCESS", -8, -8, 5},
        {"AGE", 12, 10, 6},
        {"GUARDS", 7, 7, 4},
        {"PINNED", 12, 12, 2},
        {"CUTS", 6, 6, 0},
        {"OLDEST", 10, 10, 7},
        {"ITS AGE", 10, 10, 1},
        {"KEPT", 10, 10, 0},
};
#define LOOK_COLUMNS (sizeof(look_columns) / sizeof(look_columns[0]))
#define LOOK_RANKS   7

/* How many characters a line has without the columns up to a rank. */
static int look_columns_width(int gone)
{
        int width = -1;

        for (size_t i = 0; i < LOOK_COLUMNS; i++)
                if (look_columns[i].rank == 0 || look_columns[i].rank > gone)
                        width +=
                                1 + abs(gone == 0 ? look_columns[i].width : look_columns[i].narrow);
        return width;
}

static void look_print_row(char (*cells)[32], const char *behind)
{
        int gone = 0, columns = cli_wrap_columns();
        const char *between = "";

        while (gone < LOOK_RANKS && look_columns_width(gone) > columns)
                gone++;
        for (size_t i = 0; i < LOOK_COLUMNS; i++) {
                const struct look_column *column = &look_columns[i];

                if (column->rank != 0 && column->rank <= gone)
                        continue;
                printf("%s%*s", between, gone == 0 ? column->width : column->narrow, cells[i]);
                between = " ";
        }
        printf("%s\n", behind);
}

static void look_print_titles(void)
{
        char cells[LOOK_COLUMNS][32];

        for (size_t i = 0; i < LOOK_COLUMNS; i++)
                snprintf(cells[i], sizeof(cells[i]), "%s", look_columns[i].title);
        look_print_row(cells, "");
}

static void look_print_client(const struct cli *cli, const struct sb_admin_client *client,
        const struct sb_admin_holder *holder)
{
        static const char *const names[] = {"observer", "mediated", "peer"};
        const char *access = client->number == 0         ? "engine"
                             : client->is_log            ? "log"
                             : client->access <= SB_PEER ? names[client->access]
                                                         : "unknown";
        char cells[LOOK_COLUMNS][32] = {[8] = "-", [9] = "-"};

        if (cli->json) {
                cli_json_begin();
                cli_json_number("client", client->number);
                cli_json_number("pid", client->pid);
                cli_json_number("uid", client->uid);
                cli_json_text("access", access);
                cli_json_number("age_ms", client->age_ns / 1000000);
                cli_json_number("guards", client->guards);
                cli_json_number("pinned_bytes", client->pinned_bytes);
                cli_json_number("snapshots", client->snapshots);
                cli_json_number("evicted", client->evicted);
                cli_json_list_begin("cuts");
                for (uint32_t i = 0; i < holder->cut_count; i++)
                        cli_json_list_number(holder->cuts[i]);
                cli_json_list_end();
                cli_json_number("cut_age_ms", client->cut_age_ns / 1000000);
                cli_json_number("held_bytes", holder->held_bytes);
                cli_json_flag("reading", client->reading);
                cli_json_end();
                return;
        }
        if (client->cut != 0) {
                snprintf(cells[8], sizeof(cells[8]), "%" PRIu64, client->cut);
                cli_age_words(client->cut_age_ns, cells[9]);
        }
        snprintf(cells[0], sizeof(cells[0]), "%u", client->number);
        snprintf(cells[1], sizeof(cells[1]), "%u", client->pid);
        snprintf(cells[2], sizeof(cells[2]), "%u", client->uid);
        snprintf(cells[3], sizeof(cells[3]), "%s", access);
        cli_age_words(client->age_ns, cells[4]);
        snprintf(cells[5], sizeof(cells[5]), "%u", client->guards);
        cli_bytes_words(client->pinned_bytes, cells[6]);
        snprintf(cells[7], sizeof(cells[7]), "%u", client->snapshots);
        cli_bytes_words(holder->held_bytes, cells[10]);
        look_print_row(cells, client->evicted != 0 ? " (some were taken away)" : "");
}

int cli_clients(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        struct sb_admin_holders holders = {0};
        struct sb_admin_client client;
        uint32_t number = 0;
        int r;

        r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        r = sb_admin_holders(bus, &holders);
        if (r != 0)
                return cli_fail(cli, "clients", r);
        if (!cli->json)
                look_print_titles();
        while ((r = sb_admin_client_next(bus, &number, &client)) == 0)
                look_print_client(cli, &client, look_holder_of(&holders, client.number));
        sb_admin_holders_free(&holders);
        return r == SB_E_NOT_FOUND ? CLI_DONE : cli_fail(cli, "clients", r);
}

int cli_evict(struct cli *cli)
{
        uint64_t number, pid = 0;
        uint32_t count = 0;
        int r;

        r = cli_number(cli->operands[0], "CLIENT", &number);
        if (r == 0 && cli->pid)
                r = cli_number(cli->pid, "--pid", &pid);
        if (r != 0)
                return r;
        if (number > UINT32_MAX || pid > UINT32_MAX)
                r = SB_E_NOT_FOUND;
        else
                r = sb_admin_evict(cli->bus, (uint32_t)number, (uint32_t)pid, cli->kill, &count);
        if (r == SB_E_NOT_FOUND && number == 0)
                return cli_usage("client 0 is agentd's engine, which holds no cuts");
        if (r == SB_E_NOT_FOUND) {
                cli_say("there is no client %s%s%s: `agentctl %sclients` shows them",
                        cli->operands[0], pid != 0 ? " of process " : "", pid != 0 ? cli->pid : "",
                        cli_bus_words(cli));
                return CLI_NOT_FOUND;
        }
        if (r != 0)
                return cli_fail(cli, "evict", r);
        if (cli->json) {
                cli_json_begin();
                cli_json_number("client", number);
                cli_json_number("snapshots", count);
                cli_json_flag("killed", cli->kill);
                cli_json_end();
        } else {
                printf("%u\n", count);
        }
        return CLI_DONE;
}

static void look_print_check_json(const struct sb_check_report *report)
{
        cli_json_begin();
        cli_json_flag("sound", report->problem_count == 0);
        cli_json_number("problem_count", report->problem_count);
        cli_json_list_begin("problems");
        for (uint32_t i = 0; i < report->problem_count &&
                             i < sizeof(report->problems) / sizeof(report->problems[0]);
                i++)
                cli_json_list_text(report->problems[i]);
        cli_json_list_end();
        cli_json_number("keys", report->keys);
        cli_json_number("keys_deleted", report->keys_deleted);
        cli_json_number("versions", report->versions);
        cli_json_number("nodes", report->nodes);
        cli_json_number("branches", report->branches);
        cli_json_number("blocks_used", report->blocks_used);
        cli_json_number("blocks_waiting", report->blocks_waiting);
        cli_json_number("blocks_private", report->blocks_private);
        cli_json_number("blocks_lost", report->blocks_lost);
        cli_json_number("units_used", report->units_used);
        cli_json_number("units_free", report->units_free);
        cli_json_number("bytes_used", report->bytes_used);
        cli_json_number("bytes_free", report->bytes_free);
        cli_json_number("clients", report->clients);
        cli_json_number("guards", report->guards);
        cli_json_number("snapshots", report->snapshots);
        cli_json_end();
}

int cli_check(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        struct sb_check_report report;
        char used[32], free_words[32], text[512];
        int r;

        r = cli_open(cli, &bus);
        if (r != 0)
                return r;
        r = sb_admin_check(bus, &report);
        if (r != 0)
                return cli_fail(cli, "check", r);
        if (cli->json) {
                look_print_check_json(&report);
        } else {
                snprintf(text, sizeof(text),
                        "%s: %" PRIu64 " keys, %" PRIu64 " deleted; %" PRIu64 " versions, %" PRIu64
                        " nodes in %" PRIu64 " blocks; %" PRIu64
                        " blocks wait to be reused, %" PRIu64 " lost; %s used, %s free\n",
                        report.problem_count == 0 ? "sound" : "NOT SOUND", report.keys,
                        report.keys_deleted, report.versions, report.nodes, report.blocks_used,
                        report.blocks_waiting, report.blocks_lost,
                        cli_bytes_words(report.bytes_used, used),
                        cli_bytes_words(report.bytes_free, free_words));
                cli_wrap_lines(text, report.problem_count == 0 ? SOUND_INDENT : NOT_SOUND_INDENT);
                for (uint32_t i = 0; i < report.problem_count &&
                                     i < sizeof(report.problems) / sizeof(report.problems[0]);
                        i++) {
                        cli_print_escaped((struct sb_bytes){
                                report.problems[i], __builtin_strlen(report.problems[i])});
                        putchar('\n');
                }
        }
        if (report.problem_count == 0)
                return CLI_DONE;
        cli_say("the segment has %u problems: please report them with agentd's log; `agentctl "
                "%sstop` and start make a new one",
                report.problem_count, cli_bus_words(cli));
        return CLI_FAILED;
}
