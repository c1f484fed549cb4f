/*
 * The demo: a crew of processes counts the identifiers in a folder of C headers, again and again,
 * while one of them is killed every 100 ms; at the end all numbers are exact. What is shared lies
 * on a bus:
 *
 *      claim/NUMBER   who works on file NUMBER. Made by create-if-absent, so that one of those who
 * try gets it. A dead worker's claims are deleted ("given back") by the coordinator, after the
 * kernel said that it is dead. file/PATH      the result for one file: "IDENTIFIER COUNT" a line.
 * One write, so there is none of it or all of it. totals         struct totals: how many files and
 * identifiers, over all passes.
 *
 * Why the totals are exact although workers die anywhere. Written: a file's result, which depends
 * on the file alone, so that it does no harm to write it again. Derived: the totals. A worker can
 * die after it wrote a result and before it added it, or after it added it and before it gave its
 * claim back; who takes over cannot know which. So the totals value itself says which files of this
 * pass are in it: one bit a file, set by the same compare and set that adds the file's count. Bit
 * set: it is in, leave it. Bit not set: it is not, add it. There is no third case. The claims only
 * save double work: nothing depends on them.
 *
 * Usage: demo [DIR]. It starts a bus of its own with agentctl, which is expected on the PATH. What
 * does not call the bus is elsewhere: demo-count.c finds the headers and counts in one of them,
 * demo-stage.c starts and stops agentd and keeps the time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
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

#define SECONDS      10
#define KILLS        50
#define KILL_EVERY_S 0.1
#define OPERATIONS                                                                                 \
        6 /* for one file: get, cas, set, get, cas, delete; what is done twice is not counted */
#define CREW_MAX 200 /* agentd has places for 256 clients */

struct totals {
        uint64_t passes;      /* complete ones */
        uint64_t files;       /* of this pass: as many as there are bits in `in` */
        uint64_t identifiers; /* of all passes */
        uint64_t last;        /* 1: no pass after this one */
        unsigned char in[];   /* one bit a file */
};

static const char *directory; /* the bus */
static struct headers headers;
static struct totals *totals; /* this process's copy, */
static size_t totals_len;
static uint64_t totals_rev; /* of this revision; 0: there is no value yet */

/* The end of this process. The workers die with the coordinator. */
static void fail(const char *what, const char *why)
{
        fprintf(stderr, "\ndemo: process %d: %s: %s\n", (int)getpid(), what, why);
        stage_stop_bus();
        _exit(1);
}

/* The answers that a caller knows how to handle, it handles first. Any other one ends here. */
static void check(const char *what, int result)
{
        if (result != 0)
                fail(what, sb_strerror(result));
}

static struct sb_bytes text_bytes(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static bool same_bytes(struct sb_bytes a, struct sb_bytes b)
{
        return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static struct sb_bytes file_key(size_t number)
{
        static char text[PATH_BYTES_MAX + 6];

        snprintf(text, sizeof(text), "file/%s", headers.paths[number]);
        return text_bytes(text);
}

/* A bus does not work on the other side of fork(): each process opens its own. */
static struct sb_bus *open_bus(void)
{
        struct sb_options options = {.size = sizeof(options), .bus = directory, .access = SB_PEER};
        struct sb_bus *bus = NULL;

        check("bus", sb_open(&options, &bus));
        return bus;
}

/* ---- the totals ---- */

static void read_totals(struct sb_bus *bus)
{
        sb_auto(sb_guard_release) struct sb_guard guard = {0};

        check("totals", sb_get(bus, text_bytes("totals"), &guard));
        /* The guard shows shared memory, which no write changes: what is to be changed must be
         * copied. */
        memcpy(totals, guard.value.data, totals_len);
        totals_rev = guard.rev;
}

/* Write them unless another one came first. Return: whether they are written; if not: read and
 * change them again. */
static bool write_totals(struct sb_bus *bus)
{
        int r = sb_cas(bus, text_bytes("totals"), totals_rev, (struct sb_bytes){totals, totals_len},
                NULL, &totals_rev);

        if (r != SB_E_CONFLICT)
                check("totals", r);
        return r == 0;
}

static bool is_in(size_t number)
{
        return (totals->in[number / 8] >> number % 8 & 1) != 0;
}

/* Add a file with @count identifiers, unless it is in. Who adds a pass's last one begins the next
 * pass. */
static void add_file(struct sb_bus *bus, size_t number, uint64_t count)
{
        do {
                read_totals(bus);
                if (is_in(number))
                        return;
                totals->in[number / 8] |= (unsigned char)(1u << number % 8);
                totals->identifiers += count;
                if (++totals->files == headers.count) {
                        totals->passes++;
                        if (!totals->last) {
                                totals->files = 0;
                                memset(totals->in, 0, totals_len - sizeof(*totals));
                        }
                }
        } while (!write_totals(bus));
}

/* ---- a worker ---- */

/* Index one file, unless another worker has claimed it, and bring it in. */
static void work(struct sb_bus *bus, size_t number)
{
        char claim[32], me[16], *result;
        uint64_t claim_rev, count;
        size_t len;
        int r;

        snprintf(claim, sizeof(claim), "claim/%zu", number);
        snprintf(me, sizeof(me), "%d", (int)getpid());
        /* 0: it must not be there */
        r = sb_cas(bus, text_bytes(claim), 0, text_bytes(me), NULL, &claim_rev);
        if (r == SB_E_CONFLICT) {
                sched_yield();
                return;
        }
        check("claim", r);
        len = index_file(&headers, number, &result, &count);
        check("result", sb_set(bus, file_key(number), (struct sb_bytes){result, len}, NULL, NULL));
        free(result);
        add_file(bus, number, count);
        check("claim", sb_delete(bus, text_bytes(claim), claim_rev, NULL, NULL));
}

/* Each worker looks for files from a place of its own on, so that workers seldom meet. */
static pid_t start_worker(void)
{
        size_t number = (size_t)random() % headers.count;
        struct sb_bus *bus;
        pid_t pid = fork();

        if (pid != 0)
                return pid;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGINT, SIG_IGN);
        bus = open_bus();
        for (read_totals(bus); totals->files < headers.count; read_totals(bus)) {
                do
                        number = (number + 1) % headers.count;
                while (is_in(number));
                work(bus, number);
        }
        sb_close(bus);
        _exit(0);
}

/* ---- the coordinator ---- */

/* A dead worker's claims are free again. It is dead, so it makes no more of them. Return: how many.
 */
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
                        check("giving a claim back",
                                sb_delete(bus, guard.key, guard.rev, NULL, NULL));
                        given++;
                }
                sb_guard_release(&guard);
        }
        check("scan", r == SB_E_NOT_FOUND ? 0 : r); /* that is its end */
        return given;
}

/* Kill one worker every 100 ms and start another, until there was enough of it; then let the crew
 * finish the pass. */
static void lead_crew(struct sb_bus *bus)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN), crew = cores < 4          ? 4
                                                           : cores < CREW_MAX ? cores
                                                                              : CREW_MAX;
        unsigned kills = 0, claims = 0;
        uint64_t operations;
        pid_t pids[CREW_MAX];
        int status;

        for (long i = 0; i < crew; i++)
                pids[i] = start_worker();
        while ((kills < KILLS || stage_seconds() < SECONDS) &&
                stage_wait(KILL_EVERY_S * (kills + 1))) {
                pid_t *victim = &pids[random() % crew];

                kill(*victim, SIGKILL);
                waitpid(*victim, &status, 0);
                kills++;
                if (!WIFSIGNALED(status))
                        fail("crew", "a worker ended by itself");
                claims += give_back_claims(bus, *victim);
                *victim = start_worker();
                read_totals(bus);
                if (isatty(1) || kills % 10 == 0)
                        printf("%5.1f s  pass %" PRIu64 "  %5" PRIu64 " of %zu files  %" PRIu64
                               " identifiers  %u killed%s",
                                stage_seconds(), totals->passes + 1, totals->files, headers.count,
                                totals->identifiers, kills, isatty(1) ? " \r" : "\n");
                fflush(stdout);
        }
        do {
                read_totals(bus);
                totals->last = 1;
        } while (!write_totals(bus));
        for (long i = 0; i < crew; i++) {
                waitpid(pids[i], &status, 0);
                if (status != 0)
                        fail("crew", "a worker failed");
        }
        read_totals(bus);
        operations = totals->passes * headers.count * OPERATIONS;
        printf("%s\n%zu files, %zu bytes, %ld workers; %" PRIu64 " passes in %.1f s; %" PRIu64
               " operations, %.0f a second\n",
                isatty(1) ? "\n" : "", headers.count, headers.bytes, crew, totals->passes,
                stage_seconds(), operations, (double)operations / stage_seconds());
        printf("%u workers killed; %u claims of theirs were given back\n", kills, claims);
}

/*
 * All results from the bus, at one cut and in byte order, which is the paths' order: print the most
 * frequent identifiers, and compare each result and the totals with what this one process counts
 * again, from the files alone. Return: whether all agrees.
 */
static bool prove(struct sb_bus *bus)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        struct words words = {0};
        uint64_t sum = 0, count;
        size_t right = 0;
        char *expected;
        bool all;

        check("scan", sb_scan_open(bus, NULL, text_bytes("file/"), &scan));
        for (size_t i = 0; i < headers.count; i++) {
                size_t len = index_file(&headers, i, &expected, &count);

                check("a result is missing", sb_scan_next(scan, &guard));
                if (same_bytes(guard.key, file_key(i)) &&
                        same_bytes(guard.value, (struct sb_bytes){expected, len}))
                        right++;
                else
                        fprintf(stderr,
                                "demo: %s: the result is wrong, or the file was changed "
                                "meanwhile\n",
                                headers.paths[i]);
                sum += count;
                words_add_result(&words, guard.value.data, guard.value.len);
                free(expected);
                sb_guard_release(&guard);
        }
        all = right == headers.count && sb_scan_next(scan, &guard) == SB_E_NOT_FOUND &&
              totals->files == headers.count && totals->passes > 0 &&
              totals->identifiers == totals->passes * sum;
        words_print(&words, 20);
        printf("\n%s: a recount by one process without the bus agrees for %zu of %zu files, and "
               "has %" PRIu64 " identifiers;\n"
               "       the totals have %" PRIu64 " of %" PRIu64 " passes (%" PRIu64 " x %" PRIu64
               ")\n",
                all ? "proof" : "WRONG", right, headers.count, sum, totals->identifiers,
                totals->passes, totals->passes, sum);
        return all;
}

int main(int argc, char **argv)
{
        struct sb_bus *bus;
        bool right;

        headers = find_headers(argc, argv);
        totals_len = sizeof(*totals) + (headers.count + 7) / 8;
        totals = calloc(1, totals_len);
        check("totals", totals == NULL ? -ENOMEM : 0);
        /* Results are shorter than the files, and there are two of each at most for long. */
        directory = stage_begin(128 + (2 * headers.bytes >> 20));
        printf("counting the identifiers of %zu headers in %s, on the bus %s\n", headers.count,
                headers.root, directory);
        bus = open_bus();
        write_totals(bus); /* all zero */
        lead_crew(bus);
        right = prove(bus);
        sb_close(bus);
        return stage_end(!right) ? 0 : 1;
}
