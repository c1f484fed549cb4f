/*
 * The demo: a crew of processes counts the identifiers in a folder of C headers, again and again,
 * while one of them is killed and another one stopped every 100 ms; at the end all numbers are
 * exact, and so they were at every moment. Then agentd is killed, too, and all is still there. What
 * is shared lies on a bus:
 *
 *      claim/NUMBER    the worker that works on file NUMBER; made by create-if-absent, so that one
 *                      of the workers that try gets it.
 *      file/PATH       the result for one file: "PASS COUNT", then "IDENTIFIER COUNT", a line each.
 *      total/files     how many files were counted, over all passes;
 *      total/all       how many identifiers were found,
 *      totals/LETTER   and how many of them begin with that letter.
 *      total/looks     how often everything was looked at, from the first file on;
 *      total/killed    and how often workers were killed
 *      total/end       no pass after this one
 *
 * Why all of it is exact although workers die anywhere. A worker brings a file in by one
 * transaction: the result, all the totals and the end of its claim appear together or not at all.
 * The result says of which pass it is, so that a file that another worker has brought in already is
 * not added twice: the transaction reads that, and if it changed meanwhile, begins again. The
 * claims only save double work: nothing depends on them. A worker that finds nothing left to do in
 * a pass but what a stopped worker has claimed does that, too, and does not wait.
 *
 * A watcher looks at everything, at one cut, all the while: each file's result is in the totals as
 * many times as there were passes over it, at every moment. A viewer shows how far the work is: it
 * watches all keys that begin with total/, and sleeps while none changes. Two marks keep moments of
 * the bus; at the end `agentctl diff` shows what changed between them. The bus is durable: what is
 * on it at the end is flushed to the disk, and comes back from there when agentd was killed.
 *
 * Usage: demo [DIR]. It starts a bus of its own with agentctl, which is expected on the PATH. What
 * does not call the bus is elsewhere: demo-count.c finds the headers and counts in one of them,
 * demo-stage.c starts and stops agentd and keeps the time, demo-text.h reads numbers in values.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <statebus.h>

#include "demo-count.h"
#include "demo-stage.h"
#include "demo-text.h"

#define SECONDS        10
#define KILLS          50
#define KILL_EVERY_S   0.1
#define KILLS_A_SECOND 10
#define CREW_MAX       200 /* agentd has places for 256 clients */

static const char *directory; /* the bus */
static struct headers headers;

/* End this process with a message. When the coordinator ends, its workers are killed. */
static void fail(const char *what, const char *why)
{
        fprintf(stderr, "\ndemo: process %d: %s: %s\n", (int)getpid(), what, why);
        stage_stop_bus();
        _exit(1);
}

/* The caller handles the answers that it knows how to handle first. Any other one ends the process
 * here. */
static void check(const char *what, int result)
{
        if (result != 0)
                fail(what, sb_strerror(result));
}

static struct sb_bytes file_key(size_t number)
{
        static char text[PATH_BYTES_MAX + 6];

        snprintf(text, sizeof(text), "file/%s", headers.paths[number]);
        return text_bytes(text);
}

static struct sb_bytes claim_key(size_t number)
{
        static char text[32];

        snprintf(text, sizeof(text), "claim/%zu", number);
        return text_bytes(text);
}

/* A handle of a bus does not work after fork(), so each process opens its own. */
static struct sb_bus *open_bus(void)
{
        struct sb_options options = {.size = sizeof(options), .bus = directory, .access = SB_PEER};
        struct sb_bus *bus = NULL;

        check("bus", sb_open(&options, &bus));
        return bus;
}

/* The number at the beginning of a key's value; 0 when the key has none. */
static uint64_t number_at(struct sb_bus *bus, struct sb_bytes key)
{
        sb_auto(sb_guard_release) struct sb_guard guard = {0};
        uint64_t numbers[2] = {0};
        int r = sb_get(bus, key, &guard);

        if (r == 0)
                read_numbers(guard.value, numbers);
        else if (r != SB_E_NOT_FOUND)
                check("get", r);
        return numbers[0];
}

/* ---- a worker ---- */

/* One file that was counted. */
struct job {
        size_t number;
        uint64_t pass;
        struct result result;
};

static int add(struct sb_txn *txn, const char *key, uint64_t count)
{
        sb_auto(sb_guard_release) struct sb_guard guard = {0};
        uint64_t numbers[2] = {0};
        char text[24];
        int r;

        r = sb_txn_get(txn, text_bytes(key), &guard);
        if (r != 0 && r != SB_E_NOT_FOUND)
                return r;
        if (r == 0)
                read_numbers(guard.value, numbers);
        snprintf(text, sizeof(text), "%" PRIu64, numbers[0] + count);
        return sb_txn_set(txn, text_bytes(key), text_bytes(text));
}

/* Runs in a transaction: nothing that it does has happened before the transaction commits, and it
 * is called again when another worker was faster. Any answer but 0 ends the transaction. */
static int bring_in(void *argument, struct sb_txn *txn)
{
        sb_auto(sb_guard_release) struct sb_guard before = {0};
        const struct job *job = argument;
        uint64_t numbers[2] = {0};
        int r = sb_txn_get(txn, file_key(job->number), &before);

        if (r == 0)
                read_numbers(before.value, numbers);
        else if (r != SB_E_NOT_FOUND)
                return r;
        r = sb_txn_delete(txn, claim_key(job->number));
        if (r != 0 && r != SB_E_NOT_FOUND)
                return r;
        if (numbers[0] >= job->pass)
                return 0; /* another worker has brought the file in */
        r = sb_txn_set(
                txn, file_key(job->number), (struct sb_bytes){job->result.text, job->result.len});
        if (r == 0)
                r = add(txn, "total/files", 1);
        if (r == 0)
                r = add(txn, "total/all", job->result.count);
        for (int letter = 0; r == 0 && letter < LETTERS; letter++) {
                char key[] = {'t', 'o', 't', 'a', 'l', 's', '/', LETTER(letter), 0};

                if (job->result.by_letter[letter] > 0)
                        r = add(txn, key, job->result.by_letter[letter]);
        }
        return r;
}

/* Count a file and bring it in, unless another worker has claimed it; @anyway: also then. Return:
 * whether it is done. */
static bool work(struct sb_bus *bus, size_t number, uint64_t pass, bool anyway)
{
        struct job job = {.number = number, .pass = pass};
        char me[16];
        int r;

        snprintf(me, sizeof(me), "%d", (int)getpid());
        /* 0: it must not be there */
        r = sb_cas(bus, claim_key(number), 0, text_bytes(me), NULL, NULL);
        if (r == SB_E_CONFLICT && !anyway)
                return false;
        if (r != SB_E_CONFLICT)
                check("claim", r);
        job.result = index_file(&headers, number, pass);
        do
                /* Many workers add to the same totals at once: one of them always succeeds. */
                r = sb_transact(bus, SB_SNAPSHOT, bring_in, &job, NULL);
        while (r == SB_E_CONFLICT);
        check("bringing a file in", r);
        free(job.result.text);
        return true;
}

/* Each worker starts to look for files at another number, so that workers seldom meet. */
static void work_until_the_end(struct sb_bus *bus, size_t number)
{
        for (;;) {
                uint64_t files = number_at(bus, text_bytes("total/files")), claimed = 0;
                uint64_t pass = files / headers.count + 1;

                if (files > 0 && files % headers.count == 0 &&
                        number_at(bus, text_bytes("total/end")))
                        return;
                /* One round takes files without a claim; after that, all that is left. */
                for (size_t i = 0; i < headers.count; i++) {
                        number = (number + 1) % headers.count;
                        if (number_at(bus, file_key(number)) < pass)
                                claimed += !work(bus, number, pass, false);
                }
                for (size_t i = 0; claimed > 0 && i < headers.count; i++) {
                        number = (number + 1) % headers.count;
                        if (number_at(bus, file_key(number)) < pass)
                                work(bus, number, pass, true);
                }
        }
}

static pid_t start(void (*function)(struct sb_bus *, size_t))
{
        size_t number = (size_t)random() % headers.count;
        struct sb_bus *bus;
        pid_t pid;

        fflush(stdout); /* else the child prints it again */
        pid = fork();
        if (pid != 0)
                return pid;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGINT, SIG_IGN);
        bus = open_bus();
        function(bus, number);
        sb_close(bus);
        _exit(0);
}

/* ---- the watcher ---- */

/* Look at everything at one cut. Return: the number of files counted. When something does not add
 * up, the program ends. */
static uint64_t look(struct sb_bus *bus)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        uint64_t files = 0, all = 0, letters = 0, of_files = 0, of_results = 0, numbers[2];
        struct sb_guard guard = {0};
        int r;

        check("scan", sb_scan_open(bus, NULL, text_bytes(""), &scan));
        while ((r = sb_scan_next(scan, &guard)) == 0) {
                read_numbers(guard.value, numbers);
                if (begins_with(guard.key, "file/")) {
                        of_files += numbers[0];
                        of_results += numbers[0] * numbers[1];
                } else if (same_bytes(guard.key, text_bytes("total/files"))) {
                        files = numbers[0];
                } else if (same_bytes(guard.key, text_bytes("total/all"))) {
                        all = numbers[0];
                } else if (begins_with(guard.key, "totals/")) {
                        letters += numbers[0];
                }
                sb_guard_release(&guard);
        }
        check("scan", r == SB_E_NOT_FOUND ? 0 : r); /* SB_E_NOT_FOUND is the end of the scan */
        if (files != of_files || all != of_results || all != letters) {
                fprintf(stderr,
                        "\ndemo: WRONG: at cut %" PRIu64 " the totals have %" PRIu64
                        " files and %" PRIu64 " identifiers, the letters %" PRIu64
                        ", the results %" PRIu64 " and %" PRIu64 "\n",
                        sb_scan_cut(scan), files, all, letters, of_files, of_results);
                _exit(1);
        }
        return files;
}

static void watch(struct sb_bus *bus, size_t number)
{
        uint64_t looks = 0;
        char text[24];

        (void)number;
        while (!number_at(bus, text_bytes("total/end"))) {
                if (look(bus) == 0)
                        continue; /* nothing is there yet that could be wrong */
                snprintf(text, sizeof(text), "%" PRIu64, ++looks);
                check("looks",
                        sb_set(bus, text_bytes("total/looks"), text_bytes(text), NULL, NULL));
        }
}

/* ---- the viewer ---- */

struct view {
        uint64_t files, all, looks, killed;
        bool end;
};

/* Take one number over, which is new. */
static void view_take(struct view *view, const struct sb_guard *guard)
{
        uint64_t numbers[2] = {0};

        read_numbers(guard->value, numbers);
        if (same_bytes(guard->key, text_bytes("total/files")))
                view->files = numbers[0];
        else if (same_bytes(guard->key, text_bytes("total/all")))
                view->all = numbers[0];
        else if (same_bytes(guard->key, text_bytes("total/looks")))
                view->looks = numbers[0];
        else if (same_bytes(guard->key, text_bytes("total/killed")))
                view->killed = numbers[0];
        else
                view->end = same_bytes(guard->key, text_bytes("total/end"));
}

/* Take all numbers over as they were when the watch began, at first or again. */
static void view_begin(struct sb_bus *bus, struct sb_watch *watch, struct view *view)
{
        struct sb_scan_options how = {.size = sizeof(how), .cut = sb_watch_cut(watch)};
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};

        check("scan", sb_scan_open_at(bus, text_bytes("total/"), &how, &scan));
        while (sb_scan_next(scan, &guard) == 0) {
                view_take(view, &guard);
                sb_guard_release(&guard);
        }
}

static void view_show(const struct view *view)
{
        printf("%5.1f s  pass %" PRIu64 "  %5" PRIu64 " of %zu files  %" PRIu64
               " identifiers  %" PRIu64 " killed, %" PRIu64 " stopped  %" PRIu64 " looks%s",
                stage_seconds(), view->files / headers.count + 1, view->files % headers.count,
                headers.count, view->all, view->killed, view->killed, view->looks,
                isatty(1) ? " \r" : "\n");
        fflush(stdout);
}

/* Show the numbers whenever they have changed, ten times a second at most; once a second where it
 * is no terminal that shows them. */
static void view(struct sb_bus *bus, size_t number)
{
        sb_auto(sb_watch_closep) struct sb_watch *watch = NULL;
        double every = isatty(1) ? 0.1 : 1, next = every;
        struct sb_guard change = {0};
        struct view view = {0};

        (void)number;
        check("watch", sb_watch_open(bus, text_bytes("total/"), SB_PREFIX, SB_ANY_REV, &watch));
        view_begin(bus, watch, &view);
        while (!view.end) {
                int r = sb_watch_next(watch, SB_FOREVER, &change);

                if (r == SB_E_LAPPED) { /* it was stopped for long, or slower than all the others */
                        view_begin(bus, watch, &view);
                        continue;
                }
                check("next", r);
                view_take(&view, &change);
                sb_guard_release(&change);
                if (stage_seconds() < next)
                        continue;
                view_show(&view);
                next = stage_seconds() + every;
        }
}

/* ---- the coordinator ---- */

/* Give a dead worker's claims back. It is dead, so it makes no more of them. Return: how many there
 * were. */
static unsigned give_back_claims(struct sb_bus *bus, pid_t dead)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        unsigned given = 0;
        char pid[16];
        int r;

        snprintf(pid, sizeof(pid), "%d", (int)dead);
        check("scan", sb_scan_open(bus, NULL, text_bytes("claim/"), &scan));
        while ((r = sb_scan_next(scan, &guard)) == 0) {
                if (same_bytes(guard.value, text_bytes(pid))) {
                        r = sb_delete(bus, guard.key, guard.rev, NULL, NULL);
                        given += r == 0;
                        /* else another worker has brought the file in just now */
                        if (r != SB_E_NOT_FOUND && r != SB_E_CONFLICT)
                                check("giving a claim back", r);
                }
                sb_guard_release(&guard);
        }
        check("scan", r == SB_E_NOT_FOUND ? 0 : r);
        return given;
}

/* Keep the bus as it is now under this name. */
static void mark(struct sb_bus *bus, const char *name)
{
        uint64_t cut;

        check("mark", sb_mark(bus, text_bytes(name), &cut));
}

/* Every 100 ms kill one worker and start another, stop one and let the last stopped one go on,
 * until there was enough of it; then let the crew finish the pass. Return: how many were killed. */
static unsigned lead_crew(struct sb_bus *bus)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN), crew = cores < 4          ? 4
                                                           : cores < CREW_MAX ? cores
                                                                              : CREW_MAX;
        unsigned kills = 0, claims = 0;
        pid_t pids[CREW_MAX], watcher = start(watch), viewer = start(view), stopped = 0;
        uint64_t files;
        char text[24];
        int status;

        for (long i = 0; i < crew; i++)
                pids[i] = start(work_until_the_end);
        while ((kills < KILLS || stage_seconds() < SECONDS) &&
                stage_wait(KILL_EVERY_S * (kills + 1))) {
                pid_t *victim = &pids[random() % crew];

                kill(*victim, SIGKILL);
                waitpid(*victim, &status, 0);
                kills++;
                if (!WIFSIGNALED(status))
                        fail("crew", "a worker ended by itself");
                claims += give_back_claims(bus, *victim);
                if (stopped && stopped != *victim)
                        kill(stopped, SIGCONT);
                *victim = start(work_until_the_end);
                stopped = pids[random() % crew];
                kill(stopped, SIGSTOP);
                snprintf(text, sizeof(text), "%u", kills);
                check("kills",
                        sb_set(bus, text_bytes("total/killed"), text_bytes(text), NULL, NULL));
                if (kills == KILLS_A_SECOND)
                        mark(bus, "a second of work");
        }
        if (stopped)
                kill(stopped, SIGCONT);
        check("end", sb_set(bus, text_bytes("total/end"), text_bytes("1"), NULL, NULL));
        for (long i = 0; i <= crew + 1; i++) {
                waitpid(i < crew ? pids[i] : i == crew ? watcher : viewer, &status, 0);
                if (status != 0)
                        fail("crew", i < crew ? "a worker failed" : "the watcher or viewer failed");
        }
        mark(bus, "the end");
        files = look(bus);
        printf("%s\n%zu files, %zu bytes, %ld workers; %" PRIu64 " passes in %.1f s: %" PRIu64
               " transactions, %.0f a second\n",
                isatty(1) ? "\n" : "", headers.count, headers.bytes, crew, files / headers.count,
                stage_seconds(), files, (double)files / stage_seconds());
        printf("%u workers killed, %u stopped for a while; %u claims were given back; %" PRIu64
               " looks at everything at one cut added up\n",
                kills, kills, claims, number_at(bus, text_bytes("total/looks")));
        return kills;
}

/*
 * Read all results from the bus, at one cut and in byte order, which is the paths' order: print the
 * most frequent identifiers, if they are wanted, and compare each result and the totals with what
 * this one process counts again, from the files alone. Return: whether all agrees.
 */
static bool prove(struct sb_bus *bus, bool prints_words)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        uint64_t files = number_at(bus, text_bytes("total/files")),
                 all = number_at(bus, text_bytes("total/all")), passes = files / headers.count,
                 sum = 0;
        struct sb_guard guard = {0};
        struct words words = {0};
        size_t right = 0;
        bool exact;

        check("scan", sb_scan_open(bus, NULL, text_bytes("file/"), &scan));
        for (size_t i = 0; i < headers.count; i++) {
                struct result expected = index_file(&headers, i, passes);

                check("a result is missing", sb_scan_next(scan, &guard));
                if (same_bytes(guard.key, file_key(i)) &&
                        same_bytes(guard.value, (struct sb_bytes){expected.text, expected.len}))
                        right++;
                else
                        fprintf(stderr,
                                "demo: %s: the result is wrong, or the file was changed "
                                "meanwhile\n",
                                headers.paths[i]);
                sum += expected.count;
                if (prints_words)
                        words_add_result(&words, guard.value.data, guard.value.len);
                free(expected.text);
                sb_guard_release(&guard);
        }
        exact = right == headers.count && sb_scan_next(scan, &guard) == SB_E_NOT_FOUND &&
                passes > 0 && files == passes * headers.count && all == passes * sum;
        if (prints_words)
                words_print(&words, 20);
        printf("\n%s: a recount by one process without the bus agrees for %zu of %zu files, and "
               "has %" PRIu64 " identifiers;\n"
               "       the totals have %" PRIu64 " of %" PRIu64 " passes (%" PRIu64 " x %" PRIu64
               ")\n",
                exact ? "proof" : "WRONG", right, headers.count, sum, all, passes, passes, sum);
        words_free(&words);
        return exact;
}

int main(int argc, char **argv)
{
        struct sb_bus *bus;
        unsigned kills;
        bool right;

        headers = find_headers(argc, argv);
        /* Results are shorter than the files, and the bus seldom holds more than two of each; the
         * marks keep one more. */
        directory = stage_begin(128 + (3 * headers.bytes >> 20));
        printf("counting the identifiers of %zu headers in %s, on the bus %s\n", headers.count,
                headers.root, directory);
        bus = open_bus();
        kills = lead_crew(bus);
        right = prove(bus, true);
        if (kills >= KILLS_A_SECOND)
                stage_show_changes("a second of work", "the end", "total");
        check("flush", sb_flush(bus, SB_FOREVER));
        sb_close(bus);
        if (stage_crash()) {
                bus = open_bus();
                right = prove(bus, false) && right;
                sb_close(bus);
        }
        return stage_end(!right) ? 0 : 1;
}
