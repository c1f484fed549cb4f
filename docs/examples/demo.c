/*
 * The demo: a crew of processes counts the identifiers in a folder of C headers, while one of them is killed every 100 ms;
 * at the end all numbers are exact. What is shared lies on a bus:
 *
 *      claim/NUMBER   who works on file NUMBER. Made by create-if-absent, so that one of those who try gets it. A dead worker's
 *                     claims are deleted ("given back") by the coordinator, after the kernel said that it is dead.
 *      file/PATH      the result for one file: "PASS COUNT", then "IDENTIFIER COUNT" a line. Written whole by one compare and
 *                     set: there is none, or all of it.
 *      totals         struct totals: sums over all files of the pass, and over all passes.
 *
 * Why the totals are exact although workers die anywhere. Written once: a file's result, which depends on the file alone, so
 * that whoever makes it again makes the same. Derived: the totals. A worker can die after it wrote a result and before it added it,
 * or after it added it and before it gave its claim back; who takes over cannot know which. So the totals value itself says
 * which files are in it: one bit a file, set by the same compare and set that adds the file's count. Bit set: it is in, leave it.
 * Bit not set: it is not, add it. There is no third case, and the claims only save double work: nothing depends on them.
 *
 * Usage: demo [DIR]. It starts a bus of its own with agentctl, which is expected on the PATH.
 */
#define _GNU_SOURCE
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
#define KILL_EVERY   100000000 /* ns */
#define CREW_MAX     256
#define KEY_MAX      1024

struct totals {
        uint64_t pass, last_pass;  /* last_pass 0: go on */
        uint64_t files, identifiers;          /* of this pass */
        uint64_t all_passes, all_identifiers; /* of the passes that are complete */
        uint64_t operations;       /* at least: a killed worker's last ones are not in it */
        unsigned char in[];        /* one bit a file: it is in `files` and `identifiers` */
};

static char directory[] = "/tmp/statebus-demo-XXXXXX"; /* the bus */
static char *root, **paths; /* the headers below it, sorted */
static size_t path_count, bytes_total, totals_len;
static const struct sb_bytes totals_key = {"totals", 6};
static uint64_t operations; /* of this worker, not in the totals yet */
static volatile sig_atomic_t interrupted;

static uint64_t now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct sb_bytes file_key(size_t number, char text[KEY_MAX])
{
        int len = snprintf(text, KEY_MAX, "file/%s", paths[number]);

        return (struct sb_bytes){text, (size_t)len};
}

/* ---- a worker ---- */

/* Put a file's result for @pass on the bus, unless it is there already. */
static int put_result(struct sb_bus *bus, size_t number, uint64_t pass, uint64_t *ret_count)
{
        char text[KEY_MAX], *result;
        struct sb_bytes key = file_key(number, text);
        struct sb_guard guard = {0};
        uint64_t rev = 0, old_pass = 0;
        size_t len;
        int r;

        r = sb_get(bus, key, &guard);
        if (r != 0 && r != SB_E_NOT_FOUND)
                return r;
        if (r == 0) {
                /* The value lies in shared memory and ends with a line end, not with a NUL. */
                char line[64] = "";

                rev = guard.rev;
                memcpy(line, guard.value.data, guard.value.len < 63 ? guard.value.len : 63);
                sscanf(line, "%" SCNu64 " %" SCNu64, &old_pass, ret_count);
                sb_guard_release(&guard);
        }
        if (old_pass >= pass)
                return 0; /* somebody did that, and perhaps died before it counted */
        result = index_file(root, paths[number], pass, ret_count, &len);
        r = sb_cas(bus, key, rev, (struct sb_bytes){result, len}, NULL, NULL);
        free(result);
        operations += 2;
        return r == SB_E_CONFLICT ? 0 : r; /* then somebody wrote the same */
}

/* One file that may be missing from the totals. */
struct addition {
        size_t number;
        uint64_t pass, count;
};

/* Add a file, if it is not in. Who adds the last one begins the next pass. Return: whether anything changed. */
static bool add_file(struct totals *totals, const struct addition *file)
{
        unsigned char bit = (unsigned char)(1u << file->number % 8);

        if (totals->pass != file->pass || (totals->in[file->number / 8] & bit) != 0)
                return false;
        totals->in[file->number / 8] |= bit;
        totals->files++;
        totals->identifiers += file->count;
        totals->operations += operations + 4;
        if (totals->files < path_count)
                return true;
        totals->all_passes++;
        totals->all_identifiers += totals->identifiers;
        if (totals->last_pass == 0) {
                totals->pass++;
                totals->files = totals->identifiers = 0;
                memset(totals->in, 0, totals_len - sizeof(*totals));
        }
        return true;
}

/* Read the totals, change a copy (@file NULL: this pass is the last one), compare and set, as often as it takes. */
static int change_totals(struct sb_bus *bus, const struct addition *file)
{
        struct totals *totals = allocate(totals_len);
        int r;

        do {
                struct sb_guard guard = {0};

                r = sb_get(bus, totals_key, &guard);
                if (r != 0)
                        break;
                memcpy(totals, guard.value.data, totals_len);
                sb_guard_release(&guard); /* its numbers stay */
                if (file == NULL)
                        totals->last_pass = totals->pass;
                else if (!add_file(totals, file))
                        break;
                r = sb_cas(bus, totals_key, guard.rev, (struct sb_bytes){totals, totals_len}, NULL, NULL);
                if (r == 0)
                        operations = 0;
        } while (r == SB_E_CONFLICT);
        free(totals);
        return r;
}

/* What the totals say now, without the bits. */
static int get_totals(struct sb_bus *bus, struct totals *ret_totals)
{
        struct sb_guard guard = {0};
        int r = sb_get(bus, totals_key, &guard);

        if (r == 0)
                memcpy(ret_totals, guard.value.data, sizeof(*ret_totals));
        sb_guard_release(&guard);
        return r;
}

/* The next file behind *number that is not in the totals. Return: as the bus; SB_E_NOT_FOUND: all passes are complete. */
static int find_file(struct sb_bus *bus, size_t *number, uint64_t *ret_pass)
{
        struct sb_guard guard = {0};
        struct totals totals;
        int r = sb_get(bus, totals_key, &guard);

        if (r != 0)
                return r;
        memcpy(&totals, guard.value.data, sizeof(totals));
        *ret_pass = totals.pass;
        if (totals.files == path_count) {
                r = SB_E_NOT_FOUND;
        } else {
                const unsigned char *in = (const unsigned char *)guard.value.data + sizeof(totals); /* read in place */

                do
                        *number = (*number + 1) % path_count;
                while ((in[*number / 8] & 1u << *number % 8) != 0);
        }
        sb_guard_release(&guard);
        return r;
}

/* Claim one file, and bring it in. */
static int work_once(struct sb_bus *bus, size_t *number)
{
        char key_text[32], me_text[32];
        uint64_t pass, rev, count;
        struct sb_bytes key, me = {me_text, (size_t)sprintf(me_text, "%d", (int)getpid())};
        int r = find_file(bus, number, &pass);

        if (r != 0)
                return r;
        key = (struct sb_bytes){key_text, (size_t)sprintf(key_text, "claim/%zu", *number)};
        r = sb_cas(bus, key, 0, me, NULL, &rev);
        operations += 2;
        if (r == SB_E_CONFLICT) {
                sched_yield(); /* another one has it: look further */
                return 0;
        }
        if (r == 0)
                r = put_result(bus, *number, pass, &count);
        if (r == 0)
                r = change_totals(bus, &(struct addition){*number, pass, count});
        return r == 0 ? sb_delete(bus, key, rev, NULL, NULL) : r;
}

static int open_bus(struct sb_bus **ret_bus)
{
        struct sb_options options = {.size = sizeof(options), .bus = directory, .access = SB_PEER};

        return sb_open(&options, ret_bus);
}

static pid_t start_worker(unsigned place)
{
        struct sb_bus *bus = NULL;
        size_t number;
        pid_t pid = fork();
        int r;

        if (pid != 0)
                return pid;
        /* The parent's bus does not work on this side of fork(): a worker opens its own. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGINT, SIG_IGN);
        number = place * path_count / CREW_MAX;
        r = open_bus(&bus);
        while (r == 0)
                r = work_once(bus, &number);
        sb_close(bus);
        if (r != SB_E_NOT_FOUND)
                fprintf(stderr, "demo: worker %d: %s\n", (int)getpid(), sb_strerror(r));
        _exit(r == SB_E_NOT_FOUND ? 0 : 1);
}

/* ---- the coordinator ---- */

/* Run a command with the bus's directory in it. Return: its exit code. */
static int run_command(const char *format, size_t number)
{
        char command[256];
        int status;

        snprintf(command, sizeof(command), format, directory, number);
        fflush(stdout);
        status = system(command);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* The workers die with this process, the bus does not. */
static void die(const char *what, int result)
{
        fprintf(stderr, "\ndemo: %s%s%s\n", what, result != 0 ? ": " : "", result != 0 ? sb_strerror(result) : "");
        run_command("agentctl -b %s stop", 0);
        exit(1);
}

/* A dead worker's claims are free again. It is dead, so it makes no more of them. */
static uint64_t give_back_claims(struct sb_bus *bus, pid_t dead)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        char text[32];
        size_t len = (size_t)sprintf(text, "%d", (int)dead);
        uint64_t given = 0;
        int r = sb_scan_open(bus, NULL, (struct sb_bytes){"claim/", 6}, &scan);

        while (r == 0) {
                sb_auto(sb_guard_release) struct sb_guard guard = {0};

                r = sb_scan_next(scan, &guard);
                if (r == 0 && guard.value.len == len && memcmp(guard.value.data, text, len) == 0) {
                        r = sb_delete(bus, guard.key, guard.rev, NULL, NULL);
                        given += r == 0;
                }
        }
        if (r != SB_E_NOT_FOUND)
                die("giving claims back", r);
        return given;
}

/* Kill one worker every 100 ms and start another, until there was enough of it; then let the rest finish. */
static void lead_crew(struct sb_bus *bus, unsigned crew, unsigned *ret_kills, uint64_t *ret_claims)
{
        uint64_t begin = now_ns(), next = begin;
        pid_t pids[CREW_MAX];
        struct totals totals;
        double seconds;
        int status, r;

        for (unsigned i = 0; i < crew; i++)
                pids[i] = start_worker(i * (CREW_MAX / crew));
        while (!interrupted && (now_ns() - begin < SECONDS * 1000000000ull || *ret_kills < KILLS)) {
                unsigned victim = (unsigned)random() % crew;

                next += KILL_EVERY;
                clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME,
                        &(struct timespec){(time_t)(next / 1000000000), (long)(next % 1000000000)}, NULL);
                kill(pids[victim], SIGKILL);
                waitpid(pids[victim], &status, 0);
                if (!WIFSIGNALED(status))
                        die("a worker ended by itself", 0);
                ++*ret_kills;
                *ret_claims += give_back_claims(bus, pids[victim]);
                pids[victim] = start_worker((unsigned)random() % CREW_MAX);
                if (get_totals(bus, &totals) == 0 && (isatty(1) || *ret_kills % 10 == 0))
                        printf("%5.1f s  pass %" PRIu64 "  %5" PRIu64 " of %zu files  %" PRIu64 " identifiers  %u killed%s",
                                (double)(now_ns() - begin) / 1e9, totals.pass, totals.files, path_count,
                                totals.all_identifiers + totals.identifiers, *ret_kills, isatty(1) ? " \r" : "\n");
                fflush(stdout);
        }
        r = change_totals(bus, NULL);
        if (r != 0)
                die("totals", r);
        for (unsigned i = 0; i < crew; i++) {
                waitpid(pids[i], &status, 0);
                if (status != 0)
                        die("a worker failed", 0);
        }
        get_totals(bus, &totals);
        seconds = (double)(now_ns() - begin) / 1e9;
        printf("%s\n%zu files, %zu bytes, %u workers; %" PRIu64 " passes in %.1f s; %" PRIu64 " operations, %.0f a second\n"
               "%u workers killed, %" PRIu64 " of them held a claim, which was given back\n",
                isatty(1) ? "\n" : "", path_count, bytes_total, crew, totals.all_passes, seconds, totals.operations,
                (double)totals.operations / seconds, *ret_kills, *ret_claims);
}

/* Every file's result from the bus, at one cut: the most frequent identifiers of them all. */
static void print_table(struct sb_bus *bus)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct table all = {0};
        int r = sb_scan_open(bus, NULL, (struct sb_bytes){"file/", 5}, &scan);

        while (r == 0) {
                sb_auto(sb_guard_release) struct sb_guard guard = {0};

                r = sb_scan_next(scan, &guard);
                if (r == 0)
                        table_add_result(&all, guard.value.data, guard.value.len);
        }
        if (r != SB_E_NOT_FOUND)
                die("scan", r);
        table_print(&all, 20);
}

/* Count again in this one process, from the files alone, and compare with what the bus has. Return: how many differ. */
static uint64_t prove(struct sb_bus *bus)
{
        struct totals totals;
        uint64_t wrong = 0, sum = 0;

        if (get_totals(bus, &totals) != 0)
                return 1;
        for (size_t i = 0; i < path_count; i++) {
                sb_auto(sb_guard_release) struct sb_guard guard = {0};
                char text[KEY_MAX], *expected;
                uint64_t count;
                size_t len;

                expected = index_file(root, paths[i], totals.last_pass, &count, &len);
                sum += count;
                if (sb_get(bus, file_key(i, text), &guard) != 0 || guard.value.len != len ||
                        memcmp(guard.value.data, expected, len) != 0) {
                        fprintf(stderr, "demo: the result for %s is wrong\n", paths[i]);
                        wrong++;
                }
                free(expected);
        }
        if (totals.files != path_count || totals.identifiers != sum ||
                totals.all_identifiers != totals.all_passes * sum || totals.all_passes != totals.last_pass) {
                fprintf(stderr, "demo: the totals are wrong: %" PRIu64 " files, %" PRIu64 " identifiers, counted %zu and %" PRIu64 "\n",
                        totals.files, totals.identifiers, path_count, sum);
                wrong++;
        }
        if (wrong == 0)
                printf("\nproof: a recount by one process without the bus agrees for each of %zu files, for their %" PRIu64
                       " identifiers,\n       and for all %" PRIu64 " passes (%" PRIu64 " = %" PRIu64 " x %" PRIu64 ")\n",
                        path_count, sum, totals.all_passes, totals.all_identifiers, totals.all_passes, sum);
        return wrong;
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
        unsigned crew = cores < 4 ? 4 : cores < CREW_MAX / 2 ? (unsigned)cores : CREW_MAX / 2, kills = 0;
        struct totals *totals = allocate(totals_len);
        uint64_t claims = 0;
        int r = open_bus(&bus);

        totals->pass = 1;
        if (r == 0)
                r = sb_cas(bus, totals_key, 0, (struct sb_bytes){totals, totals_len}, NULL, NULL);
        free(totals);
        if (r != 0)
                die("bus", r);
        lead_crew(bus, crew, &kills, &claims);
        print_table(bus);
        return prove(bus) == 0;
}

int main(int argc, char **argv)
{
        bool right, sound;

        root = realpath(argc > 1 ? argv[1] : "/usr/include", NULL);
        if (argc > 2 || root == NULL) {
                fprintf(stderr, "usage: demo [DIR]: DIR, or /usr/include, must be a folder with C headers\n");
                return 2;
        }
        path_count = list_headers(root, &paths, &bytes_total);
        totals_len = sizeof(struct totals) + (path_count + 7) / 8;
        if (path_count == 0) {
                fprintf(stderr, "demo: there are no C headers (*.h) in %s\n", root);
                return 1;
        }
        if (mkdtemp(directory) == NULL) {
                perror("demo: /tmp");
                return 1;
        }
        sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt, .sa_flags = SA_RESTART}, NULL);
        printf("counting the identifiers of %zu headers in %s, on the bus %s\n", path_count, root, directory);
        /* Results are shorter than the files, and there are two of each at most for long. */
        if (run_command("agentctl -b %s start --size %zuM", 128 + (2 * bytes_total >> 20)) != 0)
                return 1;
        right = run();
        printf("       agentctl check: ");
        sound = run_command("agentctl -b %s check", 0) == 0;
        run_command("agentctl -b %s stop", 0);
        if (!right || !sound) {
                fprintf(stderr, "demo: WRONG. agentd's log is in %s\n", directory);
                return 1;
        }
        run_command("rm -r %s", 0);
        return 0;
}
