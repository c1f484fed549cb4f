/*
 * agentd as a program: started, stopped, told what it cannot do, and idle. The program under test
 * is $AGENTD. Each test has a bus of its own in a fresh directory. Its deaths: api-supervisor.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "ring/attach/place.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/report.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/upkeep/check.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

static unsigned mode_of(const struct sb_place *place, const char *file)
{
        char path[SB_PLACE_MAX + 32];
        struct stat status;

        snprintf(path, sizeof(path), "%s/%s", place->directory, file);
        return stat(path, &status) ? 0 : status.st_mode & 07777;
}

static void test_start_says_ready_and_sigterm_ends_it_clean(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(mode_of(&daemon.place, "."), 0711);
        CHECK_EQ(mode_of(&daemon.place, SB_PLACE_SOCKET), 0666);
        CHECK_EQ(mode_of(&daemon.place, SB_PLACE_LOCK), 0600);
        CHECK_EQ(daemon_attach(&daemon, &attachment, NULL), 0);
        CHECK(sb_segment_serving(&attachment.segment));
        CHECK_EQ(daemon_stop(&daemon), 0);
        CHECK_EQ(mode_of(&daemon.place, SB_PLACE_SOCKET), 0);
        CHECK(!sb_segment_serving(&attachment.segment));
        CHECK(sb_attach_lost(&daemon.place, &attachment.segment));
        CHECK_EQ(sb_attach(&daemon.place, SB_PEER, &attachment), -ECONNREFUSED);
}

static void test_sigint_ends_it_clean(void)
{
        struct daemon daemon;

        CHECK(daemon_start(&daemon));
        kill(daemon.pid, SIGINT);
        CHECK_EQ(daemon_ended(&daemon), 0);
}

static void test_sigterm_ends_it_although_the_engine_is_stopped(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        kill(daemon_engine(&attachment), SIGSTOP);
        CHECK_EQ(daemon_set(&daemon_handle, "key", "value"),
                0); /* clients go on while the engine is stopped */
        CHECK_EQ(daemon_stop(&daemon), 0);
        sb_attach_unmap(&attachment);
}

static void test_second_agentd_ends_and_names_the_first(void)
{
        struct daemon first, second;
        char pid[32];

        CHECK(daemon_start(&first));
        second.place = first.place;
        SPAWN(&second, "--size", "4M", "--hugepages", "off");
        CHECK_EQ(daemon_ended(&second), 1);
        snprintf(pid, sizeof(pid), "pid %d ", (int)first.pid);
        CHECK(strstr(second.said, pid));
        CHECK_EQ(daemon_stop(&first), 0);
}

/* Open a bus with sb_open(), which starts @program when no agentd serves the bus. */
static int open_with(const struct sb_place *place, const char *program, struct sb_bus **ret_bus)
{
        struct sb_options options = {.size = sizeof(options),
                .bus = place->directory,
                .access = SB_PEER,
                .flags = program ? SB_START : 0};

        if (program)
                setenv("STATEBUS_AGENTD", program, 1);
        return sb_open(&options, ret_bus);
}

static void test_open_starts_agentd_when_told_to(void)
{
        struct sb_place place;
        struct sb_bus *bus = NULL, *other = NULL;
        pid_t supervisor;

        daemon_place(&place);
        CHECK_EQ(open_with(&place, NULL, &bus), -ECONNREFUSED);
        CHECK_EQ(open_with(&place, "/no/such/agentd", &bus), -ENOENT);
        CHECK_EQ(open_with(&place, "no-such-agentd-on-the-path", &bus), -ENOENT);
        CHECK_EQ(open_with(&place, "/bin/false", &bus), -ECONNREFUSED);
        CHECK_EQ(open_with(&place, "/dev/null", &bus), -EACCES);
        CHECK_EQ(open_with(&place, getenv("AGENTD"), &bus), 0);
        /* The next sb_open() finds that agentd and starts nothing. */
        CHECK_EQ(open_with(&place, "/no/such/agentd", &other), 0);
        CHECK_EQ(sb_admin_supervisor(place.directory, &supervisor), 0);
        sb_close(other);
        sb_close(bus);
        kill(supervisor, SIGTERM);
        CHECK(WAIT(waitpid(supervisor, NULL, WNOHANG) == supervisor)); /* it is an orphan of ours */
        CHECK_EQ(open_with(&place, NULL, &bus), -ECONNREFUSED);
        unsetenv("STATEBUS_AGENTD");
}

static void test_segment_is_sealed_and_private(void)
{
        struct daemon daemon;
        char path[64];
        bool seen = false;

        CHECK(daemon_start(&daemon));
        for (int i = 3; i < 32; i++) {
                char name[64] = "";
                struct stat status;
                int fd;

                snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)daemon.pid, i);
                if (readlink(path, name, sizeof(name) - 1) < 0 || strncmp(name, "/memfd:", 7))
                        continue;
                fd = open(path, O_RDWR | O_CLOEXEC);
                CHECK(fd >= 0);
                CHECK(!fstat(fd, &status));
                CHECK_EQ(status.st_mode & 07777, 0600);
                CHECK_EQ(status.st_size, 4 << 20);
                CHECK_EQ(status.st_blocks * 512, 4 << 20); /* every page is there */
                CHECK_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
                close(fd);
                seen = true;
        }
        CHECK(seen);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void test_wrong_options_end_with_2_and_say_what_to_do(void)
{
        static const struct {
                const char *option, *value, *says;
        } cases[] = {
                {"--size", "64X", "--size 256M"},
                {"--size", "-1", "--size 256M"},
                {"--size", "99999999999999999999", "--size 256M"},
                {"--size", "8K", "the least that serves"},
                {"--size", "65T", "up to 64T"},
                {"--size", "18446744073709551617", "up to 64T"},
                {"--size", "64MiBs", "--size 256M"},
                {"--history-memory", "0", "off: no limit"},
                {"--history-memory", "65T", "up to 64T"},
                {"--max-snapshot-age", "0s", "500ms, 30s"},
                {"--max-snapshot-age", "30", "500ms, 30s"},
                {"--max-snapshot-age", "8785h", "500ms, 30s"},
                {"--max-snapshot-age", "367d", "500ms, 30s"},
                {"--checkpoint-every", "1w", "30s, 10m, 1h or 7d"},
                {"--max-snapshot-age", "0000000000000000000000000000000000000030s", "500ms, 30s"},
                {"--hugepages", "perhaps", "auto, require or off"},
                {"--durability", "maybe", "volatile, batched or strict"},
                {"--checkpoint-bytes", "1000", "1M at least"},
                {"--checkpoint-bytes", "x", "--checkpoint-bytes 100M"},
                {"--io", "fast", "auto, uring or sync"},
                {"--flush-bytes", "4095", "4K at least"},
                {"--flush-bytes", "x", "--flush-bytes 1M"},
                {"--checkpoint-every", "5", "30s, 10m, 1h or 7d, or off"},
                {"--on-disk-error", "ignore", "continue, read-only or stop"},
                {"--recover-to", "x", "the number of a cut"},
                {"--recover-to", "7", "--durability batched or strict"},
                {"--flush-ms", "0", "1 to 60000"},
                {"--flush-ms", "1x", "1 to 60000"},
                {"--flush-ms", "60001", "1 to 60000"},
                {"--flush-ms", "18446744073709551617", "1 to 60000"},
                {"--clients", "0", "1 to 4000"},
                {"--clients", "4001", "1 to 4000"},
                {"--recover-to", "7", "durable"},
                {"--no-such-option", "", "--help"},
                {"argument", "", "-b"},
                {"-b", "..", "name"},
        };
        static char name[5000];
        struct daemon daemon;

        daemon_place(&daemon.place);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                SPAWN(&daemon, cases[i].option, *cases[i].value ? cases[i].value : NULL);
                CHECK_EQ(daemon_ended(&daemon), 2);
                if (!strstr(daemon.said, cases[i].says))
                        TEST_FAIL("%s %s said: %s", cases[i].option, cases[i].value, daemon.said);
        }
        daemon_durability = "volatile";
        memset(name, 'x', sizeof(name) - 1);
        SPAWN(&daemon, "-b", name);
        CHECK_EQ(daemon_ended(&daemon), 2);
        CHECK(strstr(daemon.said, "at most 3839 bytes"));
        CHECK_EQ(access(daemon.place.directory, F_OK), -1); /* agentd has made nothing */
}

static void test_the_least_size_that_is_named_serves(void)
{
        struct daemon daemon;
        const char *at;
        char size[32];
        unsigned long least;

        daemon_place(&daemon.place);
        SPAWN(&daemon, "--size", "16K", "--clients", "1000", "--hugepages", "off");
        CHECK_EQ(daemon_ended(&daemon), 2);
        at = strstr(daemon.said, "serves is --size ");
        CHECK(at && sscanf(at, "serves is --size %luK", &least) == 1);
        snprintf(size, sizeof(size), "%luK", least - 4);
        SPAWN(&daemon, "--size", size, "--clients", "1000", "--hugepages", "off");
        CHECK_EQ(daemon_ended(&daemon), 2);
        snprintf(size, sizeof(size), "%luK", least);
        SPAWN(&daemon, "--size", size, "--clients", "1000", "--hugepages", "off");
        CHECK(daemon_hear(&daemon, "ready\n"));
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static unsigned long free_hugepages(void)
{
        FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
        unsigned long count = 0;

        if (!file || fscanf(file, "%lu", &count) != 1)
                count = 0;
        if (file)
                fclose(file);
        return count;
}

static void test_required_hugepages_that_are_missing_end_it_with_the_remedy(void)
{
        struct daemon daemon;
        char size[32];

        snprintf(size, sizeof(size), "%luM", 2 * (free_hugepages() + 4096));
        daemon_place(&daemon.place);
        SPAWN(&daemon, "--size", size, "--hugepages", "require");
        CHECK_EQ(daemon_ended(&daemon), 1);
        CHECK(strstr(daemon.said, "sysctl vm.nr_hugepages="));
        CHECK(!strstr(daemon.said, "ready"));
        CHECK_EQ(mode_of(&daemon.place, SB_PLACE_SOCKET), 0);
}

/* Bytes of the segment that process @pid has mapped in pages of 2 MiB. */
static uint64_t huge_bytes(pid_t pid)
{
        unsigned long long from = 0, to = 0, page = 0;
        uint64_t bytes = 0;
        char path[64], line[256];
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
        file = fopen(path, "r");
        while (file && fgets(line, sizeof(line), file)) {
                if (strstr(line, "memfd:statebus") && sscanf(line, "%llx-%llx", &from, &to) == 2)
                        continue;
                if (from && sscanf(line, "KernelPageSize: %llu", &page) == 1) {
                        bytes += page == 2048 ? to - from : 0;
                        from = 0;
                }
        }
        if (file)
                fclose(file);
        return bytes;
}

/* Once more with huge pages alone: meson.build. */
static void test_an_agentd_on_huge_pages_serves_and_its_engine_is_replaced(void)
{
        struct sb_attachment attachment, second;
        struct sb_check_report report;
        struct daemon daemon;
        pid_t engine;

        if (!getenv("SB_HUGE_PAGES") && free_hugepages() < 8)
                TEST_SKIP("no huge pages are free");
        daemon_place(&daemon.place);
        SPAWN(&daemon, "--size", "8M", "--hugepages", "require", "--clients", "16");
        CHECK(daemon_hear(&daemon, "ready\n"));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        CHECK_EQ(daemon_set(&daemon_handle, "key", "before"), 0);
        engine = daemon_engine(&attachment);
        CHECK_EQ(huge_bytes(getpid()), 8 << 20);
        CHECK(huge_bytes(engine) >= 8 << 20);
        kill(engine, SIGKILL);
        CHECK(WAIT(daemon_engine(&attachment) != engine));
        CHECK_EQ(daemon_attach(&daemon, &second, &daemon_other), 0);
        CHECK(huge_bytes(daemon_engine(&attachment)) >= 8 << 20);
        CHECK(daemon_has(&daemon_other, "key", "before"));
        CHECK_EQ(sb_check(&daemon_other, false, &report), 0);
        CHECK_EQ(report.problem_count, 0);
        daemon_detach(&second, &daemon_other);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* Bytes of the segment that this process has mapped in huge pages of ordinary memory, when it has
 * read all of it. */
static uint64_t joined_bytes(const struct sb_segment *segment)
{
        unsigned long long from = 0, begin, end, kib;
        uint64_t bytes = 0;
        char line[256];
        FILE *file;

        for (uint64_t at = 0; at < segment->geometry.size; at += 4096)
                (void)*(const volatile unsigned char *)(segment->base + at);
        file = fopen("/proc/self/smaps", "r");
        while (file && fgets(line, sizeof(line), file)) {
                if (sscanf(line, "%llx-%llx ", &begin, &end) == 2)
                        from = begin;
                else if (from == (uintptr_t)segment->base &&
                         sscanf(line, "ShmemPmdMapped: %llu", &kib) == 1)
                        bytes = kib << 10;
        }
        if (file)
                fclose(file);
        return bytes;
}

static void test_without_hugepages_ordinary_ones_are_joined_or_one_line_warns(void)
{
        struct sb_attachment attachment;
        struct daemon daemon;
        const char *warning;
        unsigned long before = free_hugepages();
        uint64_t joined, huge;
        char size[32];

        if (before > 1024)
                TEST_SKIP("so many huge pages are free that more would fill the machine");
        snprintf(size, sizeof(size), "%luM", 2 * before + 64);
        daemon_place(&daemon.place);
        SPAWN(&daemon, "--size", size);
        CHECK(daemon_hear(&daemon, "ready\n"));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        CHECK_EQ((uintptr_t)attachment.segment.base % (2 << 20), 0);
        joined = joined_bytes(&attachment.segment);
        huge = attachment.segment.super->huge_bytes;
        TEST_NOTE("%ju of %ju MiB in huge pages", (uintmax_t)(joined >> 20),
                (uintmax_t)(attachment.segment.geometry.size >> 20));
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
        warning = strstr(daemon.said, "warning: ");
        if (!warning && free_hugepages() != before)
                TEST_SKIP("others use the huge pages meanwhile");
        if (!warning) {
                CHECK_EQ(joined, attachment.segment.geometry.size);
                CHECK_EQ(huge, joined);
        } else {
                CHECK(strstr(warning, "sysctl vm.nr_hugepages="));
                CHECK(!strstr(warning + 1, "warning: "));
        }
}

static void test_a_limit_on_file_sizes_is_a_sentence_and_no_death(void)
{
        struct daemon daemon;
        struct rlimit old, limit;

        CHECK(!getrlimit(RLIMIT_FSIZE, &old));
        limit = (struct rlimit){.rlim_cur = 100 << 10, .rlim_max = old.rlim_max};
        daemon_place(&daemon.place);
        CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
        SPAWN(&daemon, "--hugepages", "off");
        CHECK(!setrlimit(RLIMIT_FSIZE, &old));
        CHECK_EQ(daemon_ended(&daemon), 1);
        CHECK(strstr(daemon.said, "ulimit -f"));
}

static void test_lines_in_a_pipe_have_no_times(void)
{
        struct daemon daemon;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(strncmp(daemon.said, "agentd: version ", 16), 0);
        CHECK_EQ(daemon_stop(&daemon), 0);
        CHECK(strstr(daemon.said, "\nagentd: told to stop\n"));
}

static void test_check_config_makes_nothing(void)
{
        struct daemon daemon;

        daemon_place(&daemon.place);
        SPAWN(&daemon, "--check-config", "--size", "1G");
        CHECK_EQ(daemon_ended(&daemon), 0);
        CHECK_EQ(access(daemon.place.directory, F_OK), -1);
        CHECK(strstr(daemon.said, daemon.place.directory));
        CHECK(strstr(daemon.said, "size = 1073741824\n"));
        SPAWN(&daemon, "--version");
        CHECK_EQ(daemon_ended(&daemon), 0);
        CHECK(strstr(daemon.said, "layout 11"));
        SPAWN(&daemon, "--help");
        CHECK_EQ(daemon_ended(&daemon), 0);
        CHECK(strstr(daemon.said, "--recover-to"));
        CHECK_EQ(access(daemon.place.directory, F_OK), -1);
}

static void test_check_config_says_what_each_option_comes_to(void)
{
        static const struct {
                const char *option, *value, *says;
        } cases[] = {
                {"--check-config", "",
                        "size = 268435456\nhugepages = auto\ndurability = batched\n"
                        "flush-ms = 100\nflush-bytes = 1048576\ncheckpoint-bytes = "
                        "104857600\ncheckpoint-every = 1800000ms\non-disk-error = "
                        "continue\nio = auto\nclients = 256\nhistory-memory = 67108864\n"
                        "max-snapshot-age = off\n"},
                {"--size", "65536K", "\nsize = 67108864\n"},
                {"--size", "64m", "history-memory = 16777216\n"},
                {"--size", "1GiB", "\nsize = 1073741824\n"},
                {"--size", "1TB", "\nsize = 1099511627776\n"},
                {"--size", "8388609", "\nsize = 8388609\n"},
                {"--hugepages", "auto", "hugepages = auto\n"},
                {"--hugepages", "require", "hugepages = require\n"},
                {"--hugepages", "off", "hugepages = off\n"},
                {"--durability", "volatile", "durability = volatile\n"},
                {"--durability", "batched", "durability = batched\n"},
                {"--durability", "strict", "durability = strict\n"},
                {"--checkpoint-bytes", "1M", "checkpoint-bytes = 1048576\n"},
                {"--flush-bytes", "4K", "flush-bytes = 4096\n"},
                {"--checkpoint-every", "off", "checkpoint-every = off\n"},
                {"--checkpoint-every", "90s", "checkpoint-every = 90000ms\n"},
                {"--on-disk-error", "continue", "on-disk-error = continue\n"},
                {"--on-disk-error", "read-only", "on-disk-error = read-only\n"},
                {"--on-disk-error", "stop", "on-disk-error = stop\n"},
                {"--io", "uring", "io = uring\n"},
                {"--io", "sync", "io = sync\n"},
                {"--flush-ms", "1", "flush-ms = 1\n"},
                {"--flush-ms", "60000", "flush-ms = 60000\n"},
                {"--clients", "1", "clients = 1\n"},
                {"--clients", "4000", "clients = 4000\n"},
                {"--history-memory", "3M", "history-memory = 3145728\n"},
                {"--history-memory", "off", "history-memory = off\n"},
                {"--max-snapshot-age", "off", "max-snapshot-age = off\n"},
                {"--max-snapshot-age", "1500ms", "max-snapshot-age = 1500ms\n"},
                {"--max-snapshot-age", "30s", "max-snapshot-age = 30000ms\n"},
                {"--max-snapshot-age", "10m", "max-snapshot-age = 600000ms\n"},
                {"--max-snapshot-age", "8784h", "max-snapshot-age = 31622400000ms\n"},
                {"--max-snapshot-age", "366d", "max-snapshot-age = 31622400000ms\n"},
                {"--checkpoint-every", "2d", "checkpoint-every = 172800000ms\n"},
                {"--recover-to", "71", "recover-to = 71\n"},
        };
        struct daemon daemon;

        daemon_place(&daemon.place);
        daemon_durability = NULL;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                SPAWN(&daemon, "--check-config", cases[i].option,
                        *cases[i].value ? cases[i].value : NULL);
                CHECK_EQ(daemon_ended(&daemon), 0);
                if (!strstr(daemon.said, cases[i].says))
                        TEST_FAIL("%s %s said: %s", cases[i].option, cases[i].value, daemon.said);
        }
        /* Of an option that is given twice, the last one counts. */
        SPAWN(&daemon, "--check-config", "--max-snapshot-age", "30s", "--max-snapshot-age", "off",
                "--history-memory", "off", "--history-memory", "3M", "--hugepages", "off",
                "--hugepages", "auto");
        CHECK_EQ(daemon_ended(&daemon), 0);
        CHECK(strstr(daemon.said, "max-snapshot-age = off\n"));
        CHECK(strstr(daemon.said, "history-memory = 3145728\n"));
        CHECK(strstr(daemon.said, "hugepages = auto\n"));
}

static void test_a_long_directory_name_serves(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        char name[400];

        snprintf(name, sizeof(name), "%s/%0150d/%0150d", daemon_home, 1, 2);
        CHECK_EQ(sb_place_resolve(name, &daemon.place), 0);
        SPAWN(&daemon, "--size", "4M", "--hugepages", "off");
        CHECK(daemon_hear(&daemon, "ready\n"));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void test_start_in_the_background_by_many_at_once(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        pid_t children[6], supervisor;
        int status;

        daemon_place(&daemon.place);
        setenv("STATEBUS_AGENTD", getenv("AGENTD"), 1);
        for (int i = 0; i < 6; i++) {
                children[i] = fork();
                if (children[i] == 0) {
                        const char *const options[] = {"--size", "4M", "--hugepages", "off", NULL};
                        int r = sb_attach(&daemon.place, SB_PEER, &attachment);

                        if (r == -ECONNREFUSED) {
                                (void)sb_attach_start(&daemon.place, options, NULL);
                                r = sb_attach(&daemon.place, SB_PEER, &attachment);
                        }
                        _exit(r ? 1 : 0);
                }
        }
        for (int i = 0; i < 6; i++) {
                CHECK_EQ(waitpid(children[i], &status, 0), children[i]);
                CHECK_EQ(status, 0);
        }
        CHECK_EQ(sb_place_supervisor(&daemon.place, &supervisor), 0);
        CHECK_EQ(mode_of(&daemon.place, SB_PLACE_LOG), 0600);
        CHECK_EQ(sb_attach_start(&daemon.place, NULL, NULL),
                -ECONNREFUSED); /* one serves it already */
        kill(supervisor, SIGTERM);
        CHECK(WAIT(sb_place_supervisor(&daemon.place, &supervisor) == -ESRCH));
}

/* How often a process has gone to sleep. */
static unsigned long sleeps_of(pid_t pid)
{
        char path[64], line[128];
        unsigned long count = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file) &&
                sscanf(line, "voluntary_ctxt_switches: %lu", &count) != 1)
                ;
        if (file)
                fclose(file);
        return count;
}

static void test_an_idle_engine_hardly_runs(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct timespec before, after;
        unsigned long sleeps;
        uint64_t sweeps;
        clockid_t clock;
        double used;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        CHECK_EQ(daemon_set(&daemon_handle, "key", "value"), 0);
        CHECK(!clock_getcpuclockid(daemon_engine(&attachment), &clock));
        sb_os_linux.pause(NULL, 500000000);
        clock_gettime(clock, &before);
        sleeps = sleeps_of(daemon_engine(&attachment));
        sweeps = sb_load_relaxed(&attachment.segment.super->sweep_wanted);
        sb_os_linux.pause(NULL, 1000000000);
        sleeps = sleeps_of(daemon_engine(&attachment)) - sleeps;
        clock_gettime(clock, &after);
        CHECK_EQ(sb_load_relaxed(&attachment.segment.super->sweep_wanted), sweeps);
        used = (double)(after.tv_sec - before.tv_sec) +
               (double)(after.tv_nsec - before.tv_nsec) / 1e9;
        TEST_NOTE("api-agentd: an idle engine used %.3f ms of a second, and woke %lu times",
                used * 1e3, sleeps);
        CHECK(used < 0.02);
        /* Each 160 ms, and a few more; where its ticks stay short, a hundred times, and where they
         * grow longer and longer, once or never. */
        CHECK(sleeps >= 4 && sleeps < 40);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* How often an engine sleeps until a sweep that is asked for now has ended; first it has its rest.
 */
static unsigned long sleeps_of_sweep(const struct sb_attachment *attachment)
{
        const struct sb_superblock *super = attachment->segment.super;
        unsigned long sleeps = sleeps_of(daemon_engine(attachment));

        sb_limbo_leave(&daemon_handle);
        if (!WAIT(sb_load_acquire(&super->swept) == sb_load_acquire(&super->sweep_wanted)))
                return 0;
        return sleeps_of(daemon_engine(attachment)) - sleeps;
}

static void test_an_engine_that_sweeps_rests_between_slices(void)
{
        enum { KEYS = 20000 };
        struct daemon daemon;
        struct sb_attachment attachment;
        unsigned long empty, full;
        char key[16];

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        (void)sleeps_of_sweep(&attachment); /* the next ones rest for as long */
        empty = sleeps_of_sweep(&attachment);
        for (uint32_t i = 0; i < KEYS; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                CHECK_EQ(daemon_set(&daemon_handle, key, "value"), 0);
        }
        (void)sleeps_of_sweep(&attachment); /* its rest was over before the last key was there */
        full = sleeps_of_sweep(&attachment);
        TEST_NOTE("api-agentd: an engine slept %lu times until an empty bus was swept, %lu times "
                  "until a full one was",
                empty, full);
        /* A slice is of 1,024 blocks, or a few more; a key has two. */
        CHECK(empty && full >= empty + KEYS * 2 / 1024 / 2);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* The count of copies is a word that any peer can raise. */
static void test_a_peer_that_asks_for_all_copies_gets_one(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_superblock *super;

        daemon_durability = "batched";
        CHECK(daemon_start(&daemon));
        daemon_durability = "volatile";
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        super = attachment.segment.super;
        CHECK_EQ(daemon_set(&daemon_handle, "key", "value"), 0);
        CHECK(WAIT(sb_load_acquire(&super->durable)));
        sb_store_release(&super->copies_wanted, UINT64_MAX);
        CHECK_EQ(daemon_set(&daemon_handle, "key", "again"), 0);
        CHECK(WAIT(sb_load_acquire(&super->copies_ended)));
        CHECK(WAIT(
                sb_load_acquire(&super->copies_wanted) <= sb_load_acquire(&super->copies_ended)));
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_start_says_ready_and_sigterm_ends_it_clean);
        RUN(test_sigint_ends_it_clean);
        RUN(test_sigterm_ends_it_although_the_engine_is_stopped);
        RUN(test_second_agentd_ends_and_names_the_first);
        RUN(test_open_starts_agentd_when_told_to);
        RUN(test_segment_is_sealed_and_private);
        RUN(test_wrong_options_end_with_2_and_say_what_to_do);
        RUN(test_the_least_size_that_is_named_serves);
        RUN(test_required_hugepages_that_are_missing_end_it_with_the_remedy);
        RUN(test_without_hugepages_ordinary_ones_are_joined_or_one_line_warns);
        if (getenv("SB_API_WORLD"))
                RUN(test_an_agentd_on_huge_pages_serves_and_its_engine_is_replaced);
        RUN(test_a_limit_on_file_sizes_is_a_sentence_and_no_death);
        RUN(test_lines_in_a_pipe_have_no_times);
        RUN(test_check_config_makes_nothing);
        RUN(test_check_config_says_what_each_option_comes_to);
        RUN(test_a_long_directory_name_serves);
        RUN(test_start_in_the_background_by_many_at_once);
        RUN(test_an_idle_engine_hardly_runs);
        RUN(test_an_engine_that_sweeps_rests_between_slices);
        RUN(test_a_peer_that_asks_for_all_copies_gets_one);
        return daemon_end(test_end());
}
