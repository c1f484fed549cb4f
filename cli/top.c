/*
 * The command top: a bus at work, looked at once a second.
 *
 * On a terminal it has a screen of its own, drawn anew with each look and whenever the terminal
 * gets another size; what has no room is left out, from the right and from below. Elsewhere, and
 * with --once, it is plain text, of which a terminal gets what has room in its width, or objects of
 * JSON.
 *
 * Always true: a look costs the bus what a reader costs it, for some 50 ms of a second, and a few
 * times as much until it has seen all keys once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <mimalloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/moments.h"
#include "cli/rates.h"
#include "cli/terminal.h"
#include "libclient/core/admin.h"

#define TICK_NS       UINT64_C(1000000000)
#define FIRST_NS      UINT64_C(400000000)  /* between the first two looks */
#define LOOK_NS       UINT64_C(50000000)   /* a look goes through keys for so long */
#define LOOK_ONCE_NS  UINT64_C(1000000000) /* where two looks are all */
#define PLAIN_LINES   20
#define PLAIN_COLUMNS 10000
#define TEXT_MAX      32

/* What is shown. */
struct top {
        const struct cli *cli;
        struct sb_bus *bus;
        struct cli_rates *rates;
        char directory[PATH_MAX];
        struct sb_admin_stat stat;
        struct sb_admin_memory memory;
        struct sb_admin_client *clients; /* without the engine and agentctl itself */
        size_t client_count, client_size;
        uint64_t began_ns; /* when stat was taken */
        uint32_t own;
        int columns, lines;
};

/* ---- looking ---- */

static uint64_t top_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int top_look_at_clients(struct top *top)
{
        struct sb_admin_client client;
        uint32_t number = 1;
        int r;

        top->client_count = 0;
        while ((r = sb_admin_client_next(top->bus, &number, &client)) == 0) {
                if (client.number == top->own)
                        continue;
                if (top->client_count == top->client_size) {
                        size_t size = top->client_size ? 2 * top->client_size : 64;
                        struct sb_admin_client *clients =
                                mi_realloc(top->clients, size * sizeof(*clients));

                        if (!clients)
                                return -ENOMEM;
                        top->clients = clients;
                        top->client_size = size;
                }
                top->clients[top->client_count++] = client;
        }
        return r == SB_E_NOT_FOUND ? 0 : r;
}

static int top_look(struct top *top, uint64_t budget_ns)
{
        int r = cli_rates_look(top->rates, top->bus, budget_ns);

        if (r == 0)
                r = sb_admin_memory(top->bus, &top->memory);
        if (r == 0)
                r = top_look_at_clients(top);
        return r;
}

static int top_compare_clients(const void *a, const void *b, void *argument)
{
        const struct sb_admin_client *left = a, *right = b;
        const struct cli_rates_client *watches[2] = {
                cli_rates_client(argument, left->number),
                cli_rates_client(argument, right->number),
        };

        if (watches[0]->lag != watches[1]->lag)
                return watches[0]->lag < watches[1]->lag ? 1 : -1;
        return (left->number > right->number) - (left->number < right->number);
}

/* ---- text ---- */

/* A column of a table, and from how wide a terminal on it is shown. */
struct column {
        const char *title;
        int width, from;
};

static const struct column key_columns[] = {{"WRITES/S", 10, 0}, {"REV", 11, 70},
        {"WATCHERS", 9, 40}, {"BEHIND", 7, 50}, {"LAG", 8, 50}, {"FOR", 9, 64}};
static const struct column client_columns[] = {{"CLIENT", 6, 0}, {"PID", 8, 0}, {"WATCHES", 8, 0},
        {"BEHIND", 7, 30}, {"LAG", 8, 40}, {"STATE", 8, 48}, {"GUARDS", 7, 56}, {"PINNED", 11, 68},
        {"CUTS", 5, 74}};
#define KEY_COLUMNS    (sizeof(key_columns) / sizeof(key_columns[0]))
#define CLIENT_COLUMNS (sizeof(client_columns) / sizeof(client_columns[0]))

/* A line of a table: cells, each at the right-hand end of its column, then @last and @behind. */
static void top_put_line(const struct top *top, FILE *to, const struct column *columns,
        size_t count, char cells[][TEXT_MAX], struct sb_bytes last, const char *behind)
{
        for (size_t i = 0; i < count; i++)
                if (top->columns >= columns[i].from)
                        fprintf(to, "%*s", columns[i].width, cells ? cells[i] : columns[i].title);
        if (last.len || *behind)
                fputs("  ", to);
        cli_write_escaped(to, last);
        fprintf(to, "%s\n", behind);
}

/* Items of the head: as many in a line as there is room for. */
struct head {
        FILE *to;
        int columns, at, lines;
};

static void __attribute__((format(printf, 2, 3)))
top_put_item(struct head *head, const char *format, ...)
{
        char item[PATH_MAX + 64];
        va_list arguments;
        int len;

        va_start(arguments, format);
        len = vsnprintf(item, sizeof(item), format, arguments);
        va_end(arguments);
        if (head->at > 0 && head->at + 3 + len > head->columns) {
                putc('\n', head->to);
                head->lines++;
                head->at = 0;
        }
        fprintf(head->to, "%s%s", head->at > 0 ? "   " : "", item);
        head->at += len + (head->at > 0 ? 3 : 0);
}

static void top_end_line(struct head *head)
{
        putc('\n', head->to);
        head->lines++;
        head->at = 0;
}

/* The first lines. Return: how many. */
static int top_put_head(const struct top *top, FILE *to)
{
        struct head head = {.to = to, .columns = top->columns};
        struct cli_rates_sums sums = cli_rates_sums(top->rates);
        const struct sb_admin_memory *memory = &top->memory;
        char a[32], b[32];

        top_put_item(&head, "bus %s", top->directory);
        top_put_item(
                &head, "age %s", cli_age_words(top->stat.age_ns + top_now() - top->began_ns, a));
        top_put_item(&head, "agentd %u", top->stat.supervisor_pid);
        top_end_line(&head);
        top_put_item(&head, "keys %s%" PRIu64, sums.keys_all ? "" : "at least ", sums.keys);
        if (sums.looked < sums.keys || !sums.keys_all)
                top_put_item(&head, "looked at %" PRIu64, sums.looked);
        if (sums.rate_known)
                top_put_item(&head, "writes %s%.0f/s",
                        sums.looked < sums.keys || !sums.keys_all ? "about " : "", sums.rate);
        top_put_item(&head, "watches %u, %u behind", sums.watches, sums.behind);
        top_put_item(&head, "clients %zu of %u", top->client_count, top->stat.clients_max);
        top_end_line(&head);
        top_put_item(&head, "memory %s of %s free", cli_bytes_words(memory->free_bytes, a),
                cli_bytes_words(memory->all_bytes, b));
        top_put_item(&head, "values %s", cli_bytes_words(memory->values_bytes, a));
        top_put_item(&head, "keys %s", cli_bytes_words(memory->keys_bytes, a));
        top_put_item(&head, "large %s", cli_bytes_words(memory->large_bytes, a));
        top_put_item(&head, "guards %s", cli_bytes_words(memory->guards_bytes, a));
        top_put_item(&head, "emptied %s", cli_bytes_words(memory->emptied_bytes, a));
        top_put_item(&head, "history %s", cli_bytes_words(memory->history_bytes, a));
        top_end_line(&head);
        return head.lines;
}

static void top_put_key(const struct top *top, FILE *to, const struct cli_rates_key *key)
{
        char cells[KEY_COLUMNS][TEXT_MAX] = {"", "", "-", "-", "-", "-"};

        snprintf(
                cells[0], TEXT_MAX, key->rate > 0 && key->rate < 9.95 ? "%.1f" : "%.0f", key->rate);
        if (key->prefix)
                strcpy(cells[0], "-");
        snprintf(cells[1], TEXT_MAX, "%" PRIu64, key->rev);
        if (key->watchers) {
                snprintf(cells[2], TEXT_MAX, "%u", key->watchers);
                snprintf(cells[3], TEXT_MAX, "%u", key->behind);
        }
        if (key->behind) {
                snprintf(cells[4], TEXT_MAX, "%" PRIu64, key->lag);
                cli_age_words(key->behind_ns, cells[5]);
        }
        top_put_line(top, to, key_columns, KEY_COLUMNS, cells,
                (struct sb_bytes){key->bytes, key->len}, key->prefix ? "..." : "");
}

static const char *top_state(const struct sb_admin_client *client)
{
        return client->reading ? "reading" : client->sleeps ? "asleep" : "awake";
}

static void top_put_client(const struct top *top, FILE *to, const struct sb_admin_client *client)
{
        const struct cli_rates_client *watches = cli_rates_client(top->rates, client->number);
        char cells[CLIENT_COLUMNS][TEXT_MAX];

        snprintf(cells[0], TEXT_MAX, "%u", client->number);
        snprintf(cells[1], TEXT_MAX, "%u", client->pid);
        snprintf(cells[2], TEXT_MAX, "%u", watches->watches);
        snprintf(cells[3], TEXT_MAX, "%u", watches->behind);
        snprintf(cells[4], TEXT_MAX, "%" PRIu64, watches->lag);
        snprintf(cells[5], TEXT_MAX, "%s", top_state(client));
        snprintf(cells[6], TEXT_MAX, "%u", client->guards);
        cli_bytes_words(client->pinned_bytes, cells[7]);
        snprintf(cells[8], TEXT_MAX, "%u", client->snapshots);
        top_put_line(top, to, client_columns, CLIENT_COLUMNS, cells, (struct sb_bytes){0}, "");
}

/* All of it as text, in so many lines. Return: NULL without memory. */
static char *top_text(const struct top *top)
{
        char *text = NULL;
        size_t len, key_count, left;
        const struct cli_rates_key *keys = cli_rates_keys(top->rates, &key_count);
        FILE *to = open_memstream(&text, &len);
        size_t key_lines, client_lines;

        if (!to)
                return NULL;
        left = (size_t)top->lines;
        key_lines = (size_t)top_put_head(top, to) + 4; /* two empty lines, two titles */
        left = left > key_lines ? left - key_lines : 0;
        /* A third of what is left for the clients, or as much as the keys do not need. */
        client_lines = left / 3 > left - (key_count < left ? key_count : left)
                               ? left / 3
                               : left - (key_count < left ? key_count : left);
        if (client_lines > top->client_count)
                client_lines = top->client_count;
        key_lines = left - client_lines < key_count ? left - client_lines : key_count;
        putc('\n', to);
        top_put_line(top, to, key_columns, KEY_COLUMNS, NULL, (struct sb_bytes){"KEY", 3}, "");
        for (size_t i = 0; i < key_lines; i++)
                top_put_key(top, to, &keys[i]);
        putc('\n', to);
        top_put_line(top, to, client_columns, CLIENT_COLUMNS, NULL, (struct sb_bytes){0}, "");
        for (size_t i = 0; i < client_lines; i++)
                top_put_client(top, to, &top->clients[i]);
        if (fclose(to) == 0)
                return text;
        free(text);
        return NULL;
}

/* ---- JSON ---- */

static void top_print_json(const struct top *top)
{
        struct cli_rates_sums sums = cli_rates_sums(top->rates);
        size_t key_count;
        const struct cli_rates_key *keys = cli_rates_keys(top->rates, &key_count);

        cli_json_begin();
        cli_json_text("about", "bus");
        cli_json_number("keys", sums.keys);
        cli_json_flag("keys_all", sums.keys_all);
        cli_json_number("keys_looked_at", sums.looked);
        cli_json_number("writes_per_second", (uint64_t)(sums.rate + 0.5));
        cli_json_number("watches", sums.watches);
        cli_json_number("watches_behind", sums.behind);
        cli_json_number("clients", top->client_count);
        cli_json_number("clients_max", top->stat.clients_max);
        cli_json_number("data_bytes", top->memory.all_bytes);
        cli_json_number("free_bytes", top->memory.free_bytes);
        cli_json_number("values_bytes", top->memory.values_bytes);
        cli_json_number("keys_bytes", top->memory.keys_bytes);
        cli_json_number("large_bytes", top->memory.large_bytes);
        cli_json_number("guards_bytes", top->memory.guards_bytes);
        cli_json_number("emptied_bytes", top->memory.emptied_bytes);
        cli_json_number("history_bytes", top->memory.history_bytes);
        cli_json_end();
        for (size_t i = 0; i < key_count; i++) {
                cli_json_begin();
                cli_json_text("about", keys[i].prefix ? "prefix" : "key");
                cli_json_bytes(
                        "key", (struct sb_bytes){keys[i].bytes, keys[i].len}, top->cli->base64);
                cli_json_number("rev", keys[i].rev);
                cli_json_number("writes_per_second", (uint64_t)(keys[i].rate + 0.5));
                cli_json_number("watchers", keys[i].watchers);
                cli_json_number("watchers_behind", keys[i].behind);
                cli_json_number("lag", keys[i].lag);
                cli_json_number("behind_ms", keys[i].behind_ns / 1000000);
                cli_json_end();
        }
        for (size_t i = 0; i < top->client_count; i++) {
                const struct sb_admin_client *client = &top->clients[i];
                const struct cli_rates_client *watches =
                        cli_rates_client(top->rates, client->number);

                cli_json_begin();
                cli_json_text("about", "client");
                cli_json_number("client", client->number);
                cli_json_number("pid", client->pid);
                cli_json_number("watches", watches->watches);
                cli_json_number("watches_behind", watches->behind);
                cli_json_number("lag", watches->lag);
                cli_json_text("state", top_state(client));
                cli_json_number("guards", client->guards);
                cli_json_number("pinned_bytes", client->pinned_bytes);
                cli_json_number("snapshots", client->snapshots);
                cli_json_end();
        }
}

/* ---- showing ---- */

static void top_sleep(uint64_t until_ns)
{
        struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                .tv_nsec = (long)(until_ns % 1000000000u)};

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
                ;
}

/* Print lines of printable ASCII, each as far as there is room for it. */
static void top_print_cut(const struct top *top, const char *text)
{
        for (; *text; text++) {
                int len = (int)strcspn(text, "\n");

                printf("%.*s\n", len < top->columns ? len : top->columns, text);
                text += len;
        }
}

/* Show what was found. Return: 0, -ENOMEM. */
static int top_show(struct top *top, bool on_screen)
{
        char *text;

        if (top->client_count)
                qsort_r(top->clients, top->client_count, sizeof(*top->clients), top_compare_clients,
                        top->rates);
        if (top->cli->json) {
                top_print_json(top);
                fflush(stdout);
                return 0;
        }
        top->columns = PLAIN_COLUMNS;
        if (on_screen || isatty(STDOUT_FILENO))
                cli_terminal_size(&top->columns, &top->lines);
        if (!on_screen)
                top->lines = 3 * PLAIN_LINES;
        text = top_text(top);
        if (!text)
                return -ENOMEM;
        if (on_screen)
                cli_terminal_draw(text);
        else
                top_print_cut(top, text);
        fflush(stdout);
        free(text);
        return 0;
}

/* Look and print, again and again, or once, until the output cannot be written. */
static int top_run_plain(struct top *top)
{
        uint64_t budget_ns = top->cli->once ? LOOK_ONCE_NS : LOOK_NS, pause_ns = FIRST_NS, until_ns;
        int r = top_look(top, budget_ns);

        for (bool more = true; r == 0 && more && !ferror(stdout);) {
                until_ns = top_now() + pause_ns;
                pause_ns = TICK_NS;
                top_sleep(until_ns);
                r = top_look(top, budget_ns);
                if (r == 0)
                        r = top_show(top, false);
                more = !top->cli->once;
                if (more && !top->cli->json && r == 0)
                        putchar('\n');
        }
        return r;
}

static int top_run_on_screen(struct top *top)
{
        uint64_t until_ns = top_now(), pause_ns = FIRST_NS;
        int r = cli_terminal_begin();

        if (r != 0)
                return r;
        for (;;) {
                enum cli_terminal_event event = cli_terminal_await(until_ns);

                if (event == CLI_TERMINAL_END || ferror(stdout))
                        break;
                if (event == CLI_TERMINAL_TIME) {
                        until_ns = top_now() + pause_ns;
                        pause_ns = TICK_NS;
                        r = top_look(top, LOOK_NS);
                }
                if (r == 0)
                        r = top_show(top, true);
                if (r != 0)
                        break;
        }
        cli_terminal_end();
        return r;
}

int cli_top(struct cli *cli)
{
        struct top top = {.cli = cli, .began_ns = top_now()};
        uint32_t generation;
        int r = cli_place(cli, top.directory, sizeof(top.directory));

        if (r == 0)
                r = cli_open(cli, &top.bus);
        if (r != 0)
                return r;
        top.rates = cli_rates_new();
        r = top.rates ? sb_client(top.bus, &top.own, &generation) : -ENOMEM;
        if (r == 0)
                r = sb_admin_stat(top.bus, &top.stat);
        if (r == 0)
                r = !cli->once && !cli->json && cli_terminal_is_there() ? top_run_on_screen(&top)
                                                                        : top_run_plain(&top);
        cli_rates_free(top.rates);
        mi_free(top.clients);
        return r == 0 ? CLI_DONE : cli_fail(cli, "top", r);
}
