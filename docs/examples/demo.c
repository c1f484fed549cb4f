/*
 * The demo: a crew of processes counts the identifiers in a folder of C headers, again and again, while one of them is killed
 * every 100 ms; at the end all numbers are exact. What is shared lies on a bus:
 *
 *      claim/NUMBER   who works on file NUMBER. Made by create-if-absent, so that one of those who try gets it. A dead worker's
 *                     claims are deleted ("given back") by the coordinator, after the kernel said that it is dead.
 *      file/PATH      the result for one file: "IDENTIFIER COUNT" a line. One write, so there is none of it or all of it.
 *      totals         struct totals: how many files and identifiers, over all passes.
 *
 * Why the totals are exact although workers die anywhere. Written: a file's result, which depends on the file alone, so that
 * it does no harm to write it again. Derived: the totals. A worker can die after it wrote a result and before it added it, or after it
 * added it and before it gave its claim back; who takes over cannot know which. So the totals value itself says which files of
 * this pass are in it: one bit a file, set by the same compare and set that adds the file's count. Bit set: it is in, leave it.
 * Bit not set: it is not, add it. There is no third case. The claims only save double work: nothing depends on them.
 *
 * Usage: demo [DIR]. It starts a bus of its own with agentctl, which is expected on the PATH.
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
#include <time.h>
#include <unistd.h>

#include <statebus.h>

#include "demo-count.h"

#define SECONDS      10
#define KILLS        50
#define KILL_EVERY_S 0.1
#define CREW_MAX     256

struct totals {
        uint64_t passes;      /* complete ones */
        uint64_t files;       /* of this pass: as many as there are bits in `in` */
        uint64_t identifiers; /* of all passes */
        uint64_t operations;  /* at least: a killed worker's last ones are not in it */
        uint64_t last;        /* 1: no pass after this one */
        unsigned char in[];   /* one bit a file */
};

static char directory[] = "/tmp/statebus-demo-XXXXXX"; /* the bus */
static char *root, **paths;    /* the headers below it, sorted */
static size_t path_count, bytes_total;
static struct totals *totals;  /* this process's copy, */
static size_t totals_len;
static uint64_t totals_rev;    /* of this revision */
static uint64_t operations;    /* of this worker, not in the totals yet */
static volatile sig_atomic_t interrupted;

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

        snprintf(text, sizeof(text), "file/%s", paths[number]);
        return text_bytes(text);
}

/* ---- the totals ---- */

static int read_totals(struct sb_bus *bus)
{
        sb_auto(sb_guard_release) struct sb_guard guard = {0};
        int r = sb_get(bus, text_bytes("totals"), &guard);

        if (r == 0) {
                /* The guard shows shared memory, which no write changes: what is to be changed must be copied. */
                memcpy(totals, guard.value.data, totals_len);
                totals_rev = guard.rev;
        }
        return r;
}

/* Return: as the bus; SB_E_CONFLICT: another one came first, read and change them again. Revision 0: there is no value yet. */
static int write_totals(struct sb_bus *bus)
{
        return sb_cas(bus, text_bytes("totals"), totals_rev, (struct sb_bytes){totals, totals_len}, NULL, &totals_rev);
}

static bool is_in(size_t number)
{
        return (totals->in[number / 8] >> number % 8 & 1) != 0;
}

/* Add a file with @count identifiers, unless it is in. Who adds a pass's last one begins the next pass. */
static int add_file(struct sb_bus *bus, size_t number, uint64_t count)
{
        int r;

        do {
                r = read_totals(bus);
                if (r != 0 || is_in(number))
                        return r;
                totals->in[number / 8] |= (unsigned char)(1u << number % 8);
                totals->identifiers += count;
                totals->operations += operations;
                if (++totals->files == path_count) {
                        totals->passes++;
                        if (!totals->last) {
                                totals->files = 0;
                                memset(totals->in, 0, totals_len - sizeof(*totals));
                        }
                }
                r = write_totals(bus);
        } while (r == SB_E_CONFLICT);
        operations = 0;
        return r;
}

/* ---- a worker ---- */

/* Claim one file that is not in the totals, index it, bring it in. Return: as the bus; SB_E_NOT_FOUND: all work is done. */
static int work_once(struct sb_bus *bus, size_t *number)
{
        char claim[32], me[16], *result;
        uint64_t claim_rev, count;
        size_t len;
        int r = read_totals(bus);

        if (r != 0)
                return r;
        if (totals->files == path_count)
                return SB_E_NOT_FOUND;
        do
                *number = (*number + 1) % path_count;
        while (is_in(*number));
        snprintf(claim, sizeof(claim), "claim/%zu", *number);
        snprintf(me, sizeof(me), "%d", (int)getpid());
        operations += 6;
        r = sb_cas(bus, text_bytes(claim), 0, text_bytes(me), NULL, &claim_rev);
        if (r == SB_E_CONFLICT) {
                sched_yield(); /* another one has it: look further */
                return 0;
        }
        if (r != 0)
                return r;
        len = index_file(root, paths[*number], &result, &count);
        r = sb_set(bus, file_key(*number), (struct sb_bytes){result, len}, NULL, NULL);
        free(result);
        if (r == 0)
                r = add_file(bus, *number, count);
        return r == 0 ? sb_delete(bus, text_bytes(claim), claim_rev, NULL, NULL) : r;
}

static int open_bus(struct sb_bus **ret_bus)
{
        struct sb_options options = {.size = sizeof(options), .bus = directory, .access = SB_PEER};

        return sb_open(&options, ret_bus);
}

/* The worker looks for files from a place of its own on, so that workers seldom meet. */
static pid_t start_worker(void)
{
        size_t number = (size_t)random() % path_count;
        struct sb_bus *bus = NULL;
        pid_t pid = fork();
        int r;

        if (pid != 0)
                return pid;
        /* The parent's bus does not work on this side of fork(): a worker opens its own. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGINT, SIG_IGN);
        r = open_bus(&bus);
        while (r == 0)
                r = work_once(bus, &number);
        sb_close(bus);
        if (r != SB_E_NOT_FOUND)
                fprintf(stderr, "demo: worker %d: %s\n", (int)getpid(), sb_strerror(r));
        _exit(r == SB_E_NOT_FOUND ? 0 : 1);
}

/* ---- the coordinator ---- */

/* Run a command with the bus's directory in it. Return: whether it ended well. */
static bool run_command(const char *format, size_t number)
{
        char command[256];

        snprintf(command, sizeof(command), format, directory, number);
        fflush(stdout);
        return system(command) == 0;
}

/* On a failure, the end. The workers die with this process, the bus does not. */
static void check(const char *what, int result)
{
        if (result == 0)
                return;
        fprintf(stderr, "\ndemo: %s: %s\n", what, sb_strerror(result));
        run_command("agentctl -b %s stop", 0);
        exit(1);
}

/* A dead worker's claims are free again. It is dead, so it makes no more of them. Return: how many. */
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
                        check("giving a claim back", sb_delete(bus, guard.key, guard.rev, NULL, NULL));
                        given++;
                }
                sb_guard_release(&guard);
        }
        check("scan", r == SB_E_NOT_FOUND ? 0 : r);
        return given;
}

static double now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Kill one worker every 100 ms and start another, until there was enough of it; then let the rest finish the pass. */
static void lead_crew(struct sb_bus *bus, unsigned crew)
{
        double begin = now(), seconds = 0;
        unsigned kills = 0, claims = 0;
        pid_t pids[CREW_MAX];
        int status, r;

        for (unsigned i = 0; i < crew; i++)
                pids[i] = start_worker();
        while (!interrupted && (seconds < SECONDS || kills < KILLS)) {
                unsigned victim = (unsigned)random() % crew;
                double early = begin + KILL_EVERY_S * ++kills - now();

                if (early > 0)
                        usleep((useconds_t)(early * 1e6));
                kill(pids[victim], SIGKILL);
                waitpid(pids[victim], &status, 0);
                check("a worker ended by itself", WIFSIGNALED(status) ? 0 : -ECHILD);
                claims += give_back_claims(bus, pids[victim]);
                pids[victim] = start_worker();
                seconds = now() - begin;
                check("totals", read_totals(bus));
                if (isatty(1) || kills % 10 == 0)
                        printf("%5.1f s  pass %" PRIu64 "  %5" PRIu64 " of %zu files  %" PRIu64 " identifiers  %u killed%s", seconds,
                                totals->passes + 1, totals->files, path_count, totals->identifiers, kills, isatty(1) ? " \r" : "\n");
                fflush(stdout);
        }
        do {
                check("totals", read_totals(bus));
                totals->last = 1;
                r = write_totals(bus);
        } while (r == SB_E_CONFLICT);
        check("totals", r);
        for (unsigned i = 0; i < crew; i++) {
                waitpid(pids[i], &status, 0);
                check("a worker failed", status == 0 ? 0 : -ECHILD);
        }
        check("totals", read_totals(bus));
        seconds = now() - begin;
        printf("%s\n%zu files, %zu bytes, %u workers; %" PRIu64 " passes in %.1f s; %" PRIu64 " operations, %.0f a second\n"
               "%u workers killed; %u claims of theirs were given back\n",
                isatty(1) ? "\n" : "", path_count, bytes_total, crew, totals->passes, seconds, totals->operations,
                (double)totals->operations / seconds, kills, claims);
}

/*
 * All results from the bus, at one cut and in byte order, which is the paths' order: print the most frequent identifiers, and compare each
 * result and the totals with what this one process counts again, from the files alone. Return: whether all agrees.
 */
static bool prove(struct sb_bus *bus)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        struct words words = {0};
        uint64_t sum = 0, count;
        size_t right = 0;
        bool all;
        int r;

        check("scan", sb_scan_open(bus, NULL, text_bytes("file/"), &scan));
        for (size_t i = 0; (r = sb_scan_next(scan, &guard)) == 0 && i < path_count; i++) {
                char *expected;
                size_t len = index_file(root, paths[i], &expected, &count);

                if (same_bytes(guard.key, file_key(i)) && same_bytes(guard.value, (struct sb_bytes){expected, len}))
                        right++;
                else
                        fprintf(stderr, "demo: the result for %s is wrong\n", paths[i]);
                sum += count;
                words_add_result(&words, guard.value.data, guard.value.len);
                free(expected);
                sb_guard_release(&guard);
        }
        check("scan: not as many results as files", r == SB_E_NOT_FOUND ? 0 : -EBADMSG);
        words_print(&words, 20);
        all = right == path_count && totals->files == path_count && totals->passes > 0 &&
              totals->identifiers == totals->passes * sum;
        printf("\n%s: a recount by one process without the bus agrees for %zu of %zu files, and has %" PRIu64
               " identifiers;\n       the totals have %" PRIu64 " of %" PRIu64 " passes (%" PRIu64 " x %" PRIu64 ")\n",
                all ? "proof" : "WRONG", right, path_count, sum, totals->identifiers, totals->passes, totals->passes, sum);
        return all;
}

static void interrupt(int signal_number)
{
        interrupted = signal_number;
}

/* With the bus started: all of the work. Return: whether it came out right. */
static bool run(void)
{
        sb_auto(sb_closep) struct sb_bus *bus = NULL;
        long cores = sysconf(_SC_NPROCESSORS_ONLN);

        check("bus", open_bus(&bus));
        check("totals", write_totals(bus)); /* all zero */
        lead_crew(bus, cores < 4 ? 4 : cores < CREW_MAX ? (unsigned)cores : CREW_MAX);
        return prove(bus);
}

int main(int argc, char **argv)
{
        bool right;

        root = realpath(argc > 1 ? argv[1] : "/usr/include", NULL);
        if (argc > 2 || root == NULL) {
                fprintf(stderr, "usage: demo [DIR]: DIR, or /usr/include, must be a folder with C headers\n");
                return 2;
        }
        path_count = list_headers(root, &paths, &bytes_total);
        if (path_count == 0) {
                fprintf(stderr, "demo: there are no C headers (*.h) in %s\n", root);
                return 1;
        }
        totals_len = sizeof(*totals) + (path_count + 7) / 8;
        totals = calloc(1, totals_len);
        if (totals == NULL || mkdtemp(directory) == NULL) {
                perror("demo: /tmp");
                return 1;
        }
        sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt, .sa_flags = SA_RESTART}, NULL);
        printf("counting the identifiers of %zu headers in %s, on the bus %s\n", path_count, root, directory);
        /* Results are shorter than the files, and there are two of each at most for long. */
        if (!run_command("agentctl -b %s start --size %zuM", 128 + (2 * bytes_total >> 20)))
                return 1;
        right = run();
        printf("       agentctl check: ");
        right = run_command("agentctl -b %s check", 0) && right;
        run_command("agentctl -b %s stop", 0);
        if (!right) {
                fprintf(stderr, "demo: WRONG. agentd's log is in %s\n", directory);
                return 1;
        }
        run_command("rm -r %s", 0);
        return 0;
}
