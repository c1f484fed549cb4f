/*
 * A bus with many processes, nearly all of them asleep or stopped: SB_CROWD of them, 100 if nothing
 * says otherwise. Each holds a key, a guard and a cut; then nine of ten are stopped, while two
 * writers go on, agentctl's calls look at the bus, and in the end all are killed. The program under
 * test is $AGENTD.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/statebus.h"
#include "ring/attach/place.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define CROWD_MAX 4000u
#define KEYS      300u  /* that the writers write */
#define SETS      6000u /* of each writer, in each of two rounds */

static struct daemon served;
static struct sb_bus *own;
static uint32_t crowd;
static pid_t members[CROWD_MAX];
static int news[2]; /* a pipe from all members to the test */

static struct sb_bus *open_bus(const char *directory)
{
        struct sb_options options = {.size = sizeof(options), .bus = directory, .access = SB_PEER};
        struct sb_bus *bus = NULL;
        int r = sb_open(&options, &bus);

        if (r)
                TEST_NOTE("sb_open: %s", sb_strerror(r));
        return bus;
}

static struct sb_bytes bytes_of(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

/* Private memory of this process, in KiB. */
static long private_kib(void)
{
        char line[128];
        long kib = 0, found;
        FILE *file = fopen("/proc/self/smaps_rollup", "re");

        while (file && fgets(line, sizeof(line), file))
                if (sscanf(line, "Private_Dirty: %ld", &found) == 1 ||
                        sscanf(line, "Private_Clean: %ld", &found) == 1)
                        kib += found;
        if (file)
                fclose(file);
        return kib;
}

/* One of the crowd, in a process of its own: tell what attaching cost, then sleep for ever. */
static int member(const char *directory)
{
        static struct sb_guard guard;
        struct sb_bus *bus;
        struct sb_txn *txn;
        char key[32];
        long before = private_kib();
        uint64_t began = daemon_now_ns();
        long told[2];

        bus = open_bus(directory);
        told[1] = (long)(daemon_now_ns() - began);
        told[0] = private_kib() - before;
        snprintf(key, sizeof(key), "member/%d", (int)getpid());
        if (!bus || sb_set(bus, bytes_of("newest"), bytes_of(key), NULL, NULL) ||
                sb_set(bus, bytes_of(key), bytes_of("here"), NULL, NULL) ||
                sb_get(bus, bytes_of(key), &guard) || sb_txn_begin(bus, SB_SNAPSHOT, &txn) ||
                write(1, told, sizeof(told)) != sizeof(told))
                return 1;
        for (;;)
                pause();
}

static pid_t start_member(void)
{
        pid_t pid = fork();

        if (pid)
                return pid;
        dup2(news[1], 1);
        setenv("API_CROWD_MEMBER", served.place.directory, 1);
        execl("/proc/self/exe", "api-crowd", (char *)NULL);
        _exit(2);
}

/* Overwrite keys with values of many sizes. Return: sets that failed, 255 at most. */
static int churn(uint32_t seed)
{
        static char value[3000];
        struct sb_bus *bus = open_bus(served.place.directory);
        uint32_t failed = 0;
        char key[32];

        for (uint32_t i = 0; bus && i < SETS; i++) {
                seed = seed * 1103515245 + 12345;
                snprintf(key, sizeof(key), "key%u", (seed >> 8) % KEYS);
                failed += sb_set(bus, bytes_of(key),
                                  (struct sb_bytes){value, (seed >> 4) % sizeof(value)}, NULL,
                                  NULL) != 0;
        }
        sb_close(bus);
        return !bus || failed > 255 ? 255 : (int)failed;
}

/* Two writers at once. Return: nanoseconds that they took; *ret_failed: sets that failed. */
static uint64_t churn_by_two(uint32_t seed, int *ret_failed)
{
        uint64_t began = daemon_now_ns();
        pid_t writers[2];
        int status;

        *ret_failed = 0;
        for (uint32_t i = 0; i < 2; i++) {
                writers[i] = fork();
                if (!writers[i])
                        _exit(churn(seed + i));
        }
        for (uint32_t i = 0; i < 2; i++) {
                status = -1;
                waitpid(writers[i], &status, 0);
                *ret_failed += WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
        }
        return daemon_now_ns() - began;
}

static uint32_t attached(void)
{
        struct sb_admin_client client;
        uint32_t number = 1, count = 0;

        while (!sb_admin_client_next(own, &number, &client))
                count++;
        return count;
}

static void test_a_crowd_attaches(void)
{
        uint64_t slowest = 0;
        long told[2], most = 0;

        for (uint32_t i = 0; i < crowd; i++) {
                members[i] = start_member();
                CHECK(members[i] > 0);
                CHECK_EQ(read(news[0], told, sizeof(told)), sizeof(told));
                most = told[0] > most ? told[0] : most;
                slowest = (uint64_t)told[1] > slowest ? (uint64_t)told[1] : slowest;
        }
        CHECK_EQ(attached(), crowd + 1);
        TEST_NOTE(
                "%u processes: %ld KiB of private memory each at most, attached in %.1f ms at most",
                crowd, most, (double)slowest / 1e6);
        /* A process may have a hundred neighbours for each megabyte. */
        CHECK(most < 1024);
}

static void test_writers_and_looks_go_on_beside_a_crowd_that_is_stopped(void)
{
        uint64_t alone, stopped, looks;
        struct sb_admin_holders holders;
        struct sb_admin_stat stat;
        int failed;

        alone = churn_by_two(1, &failed);
        CHECK_EQ(failed, 0);
        for (uint32_t i = 0; i < crowd; i++)
                if (i % 10)
                        kill(members[i], SIGSTOP);
        stopped = churn_by_two(3, &failed);
        CHECK_EQ(failed, 0);
        looks = daemon_now_ns();
        CHECK_EQ(sb_admin_stat(own, &stat), 0);
        CHECK_EQ(stat.clients, crowd);
        CHECK_EQ(sb_admin_holders(own, &holders), 0);
        CHECK(holders.count >= crowd);
        sb_admin_holders_free(&holders);
        CHECK_EQ(attached(), crowd + 1);
        looks = daemon_now_ns() - looks;
        TEST_NOTE("%u sets by two writers: %.0f ms beside sleeping ones, %.0f ms beside stopped "
                  "ones; "
                  "agentctl's looks: %.1f ms",
                2 * SETS, (double)alone / 1e6, (double)stopped / 1e6, (double)looks / 1e6);
        /* An operator does not wait. */
        CHECK(looks < UINT64_C(2000000000));
}

static void test_what_the_crowd_held_comes_back_when_it_is_killed(void)
{
        struct sb_check_report report;
        struct sb_admin_client client;
        uint32_t number = 1;
        int failed;

        for (uint32_t i = 0; i < crowd; i++)
                kill(members[i], SIGKILL);
        for (uint32_t i = 0; i < crowd; i++)
                waitpid(members[i], NULL, 0);
        CHECK(WAIT(attached() == 1));
        CHECK(!sb_admin_client_next(own, &number, &client) && number == crowd + 4);
        CHECK_EQ(sb_admin_check(own, &report), 0);
        CHECK(!report.problem_count && !report.guards && !report.snapshots && !report.blocks_lost);
        churn_by_two(5, &failed);
        CHECK_EQ(failed, 0);
}

int main(int argc, char **argv)
{
        char clients[16];

        if (getenv("API_CROWD_MEMBER"))
                return member(getenv("API_CROWD_MEMBER"));
        test_begin(argc, argv);
        crowd = getenv("SB_CROWD") ? (uint32_t)strtoul(getenv("SB_CROWD"), NULL, 10) : 100;
        if (!crowd || crowd > CROWD_MAX - 2 || !daemon_begin() || pipe2(news, O_CLOEXEC))
                return 1;
        daemon_place(&served.place);
        snprintf(clients, sizeof(clients), "%u", crowd + 2);
        SPAWN(&served, "--size", "64M", "--clients", clients);
        if (!daemon_hear(&served, "ready\n") || sb_admin_open(served.place.directory, &own))
                return 1;
        RUN(test_a_crowd_attaches);
        RUN(test_writers_and_looks_go_on_beside_a_crowd_that_is_stopped);
        RUN(test_what_the_crowd_held_comes_back_when_it_is_killed);
        sb_close(own);
        daemon_stop(&served);
        return daemon_end(test_end());
}
