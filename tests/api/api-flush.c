/*
 * What a program asks of durability: sb_flush(), sb_durable(), and writes and commits with each
 * word of enum sb_durability, on an agentd of which the log is stopped, killed, cannot write, or
 * works.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/statebus.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define SECOND UINT64_C(1000000000)

static struct daemon daemon_;
static struct sb_bus *bus;

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static int open_bus(void)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = daemon_.place.directory, .access = SB_PEER};

        return sb_open(&options, &bus);
}

/* A batch is due once a minute: nothing is durable in time but what was waited for. */
static bool serve(const char *mode)
{
        daemon_durability = mode;
        SPAWN(&daemon_, "--size", "4M", "--clients", "16", "--flush-ms", "60000");
        return daemon_hear(&daemon_, "ready\n") && open_bus() == 0;
}

static bool begin(const char *mode)
{
        daemon_place(&daemon_.place);
        return serve(mode);
}

static pid_t log_pid(void)
{
        struct sb_admin_stat stat = {0};

        (void)WAIT(sb_admin_stat(bus, &stat) == 0 && stat.log_pid != 0);
        return (pid_t)stat.log_pid;
}

/* What the log writes is refused, or taken again. */
static bool break_disk(bool broken)
{
        static struct rlimit before;
        struct rlimit none;

        if (!broken)
                return prlimit(log_pid(), RLIMIT_FSIZE, &before, NULL) == 0;
        if (prlimit(log_pid(), RLIMIT_FSIZE, NULL, &before) < 0)
                return false;
        none = before;
        none.rlim_cur = 0;
        return prlimit(log_pid(), RLIMIT_FSIZE, &none, NULL) == 0;
}

/* Everything is killed at once, and another agentd serves what is on the disk. */
static bool kill_all_and_serve(const char *mode)
{
        struct sb_admin_stat stat = {0};

        if (sb_admin_stat(bus, &stat) != 0 || kill(daemon_.pid, SIGSTOP) < 0 ||
                kill((pid_t)stat.log_pid, SIGKILL) < 0 ||
                kill((pid_t)stat.engine_pid, SIGKILL) < 0 || kill(daemon_.pid, SIGKILL) < 0 ||
                daemon_ended(&daemon_) != 128 + SIGKILL)
                return false;
        bus = sb_close(bus);
        return serve(mode);
}

static bool has(const char *key)
{
        struct sb_guard guard = {0};
        int r = sb_get(bus, b(key), &guard);

        if (r == 0)
                sb_guard_release(&guard);
        return r == 0;
}

static int set(const char *key, uint32_t durability, uint64_t deadline_ns, uint64_t *ret_cut)
{
        struct sb_write how = {.size = sizeof(how),
                .durability = durability,
                .deadline_ns = deadline_ns,
                .ret_cut = ret_cut};

        return sb_set(bus, b(key), b("x"), &how, NULL);
}

static int commit(const char *key, uint32_t durability, uint64_t *ret_cut)
{
        struct sb_write how = {.size = sizeof(how), .durability = durability, .ret_cut = ret_cut};
        struct sb_txn *txn = NULL;
        int r = sb_txn_begin(bus, SB_SNAPSHOT, &txn);

        r = r ? r : sb_txn_set(txn, b(key), b("x"));
        r = r ? r : sb_txn_commit(txn, &how);
        (void)sb_txn_end(txn);
        return r;
}

#define END()                                                                                      \
        do {                                                                                       \
                bus = sb_close(bus);                                                               \
                CHECK_EQ(daemon_stop(&daemon_), 0);                                                \
        } while (0)

static void test_a_flush_has_all_that_was_written_before_it(void)
{
        uint64_t cut = 0, before;

        CHECK(begin("batched"));
        CHECK_EQ(sb_flush(bus, UINT64_MAX), 0);
        before = sb_durable(bus);
        CHECK_EQ(set("first", SB_DEFAULT, 0, &cut), 0);
        CHECK_EQ(set("second", SB_BATCHED, 0, &cut), 0);
        CHECK_EQ(commit("third", SB_DEFAULT, &cut), 0);
        CHECK_EQ(set("fourth", SB_VOLATILE, 0, &cut), 0);
        /* None of them has waited. */
        CHECK(sb_durable(bus) == before && before < cut);
        CHECK_EQ(sb_flush(bus, UINT64_MAX), 0);
        CHECK(sb_durable(bus) >= cut);
        CHECK(kill_all_and_serve("batched"));
        CHECK(has("first") && has("second") && has("third") && has("fourth"));
        CHECK(sb_durable(bus) >= cut);
        END();
}

static void test_strict_is_said_by_bus_by_write_and_by_transaction(void)
{
        uint64_t cut = 0;

        CHECK(begin("batched"));
        CHECK_EQ(set("write", SB_STRICT, 0, &cut), 0);
        CHECK(sb_durable(bus) >= cut);
        CHECK_EQ(commit("transaction", SB_STRICT, &cut), 0);
        CHECK(sb_durable(bus) >= cut);
        CHECK(kill_all_and_serve("strict"));
        CHECK(has("write") && has("transaction"));
        CHECK_EQ(set("bus", SB_DEFAULT, 0, &cut), 0);
        CHECK(sb_durable(bus) >= cut);
        CHECK_EQ(commit("both", SB_DEFAULT, &cut), 0);
        CHECK(sb_durable(bus) >= cut);
        CHECK_EQ(sb_set(bus, b("plain"), b("x"), NULL, NULL), 0);
        /* Less than the bus asks for may be said, too. */
        CHECK_EQ(kill(log_pid(), SIGSTOP), 0);
        CHECK_EQ(set("less", SB_BATCHED, 0, &cut), 0);
        CHECK_EQ(set("least", SB_VOLATILE, 0, &cut), 0);
        CHECK(sb_durable(bus) < cut);
        CHECK_EQ(kill(log_pid(), SIGCONT), 0);
        CHECK(kill_all_and_serve("strict"));
        CHECK(has("bus") && has("both") && has("plain"));
        END();
}

static void test_marks_and_rules_of_a_strict_bus_are_durable_when_their_calls_return(void)
{
        struct sb_rule all = {.size = sizeof(all), .kind = SB_KEEP_ALL};
        struct sb_rule newest = {.size = sizeof(newest), .kind = SB_KEEP_NEWEST}, found;
        uint64_t cut = 0, found_cut = 0;

        CHECK(begin("strict"));
        CHECK_EQ(sb_mark(bus, b("mark"), &cut), 0);
        CHECK(kill_all_and_serve("strict"));
        CHECK_EQ(sb_mark_find(bus, b("mark"), &found_cut), 0);
        CHECK_EQ(found_cut, cut);
        CHECK_EQ(sb_keep(bus, b("key"), SB_PREFIX, &all), 0);
        CHECK(kill_all_and_serve("strict"));
        CHECK_EQ(sb_kept(bus, b("key"), SB_PREFIX, &found), 0);
        CHECK_EQ(found.kind, SB_KEEP_ALL);
        CHECK_EQ(sb_mark_drop(bus, b("mark")), 0);
        CHECK(kill_all_and_serve("strict"));
        CHECK_EQ(sb_mark_find(bus, b("mark"), &found_cut), SB_E_NOT_FOUND);
        CHECK_EQ(sb_keep(bus, b("key"), SB_PREFIX, &newest), 0);
        CHECK(kill_all_and_serve("strict"));
        CHECK_EQ(sb_kept(bus, b("key"), SB_PREFIX, &found), SB_E_NOT_FOUND);
        /* One that cannot become durable says so, and is there. */
        CHECK(break_disk(true));
        cut = 0;
        CHECK_EQ(sb_mark(bus, b("mark"), &cut), SB_E_NOT_DURABLE);
        CHECK_EQ(sb_mark_find(bus, b("mark"), &found_cut), 0);
        CHECK_EQ(found_cut, cut);
        CHECK_EQ(sb_keep(bus, b("key"), SB_PREFIX, &all), SB_E_NOT_DURABLE);
        CHECK_EQ(sb_kept(bus, b("key"), SB_PREFIX, &found), 0);
        CHECK(break_disk(false));
        CHECK(WAIT(sb_flush(bus, UINT64_MAX) == 0));
        END();
}

static void test_a_wait_for_the_disk_ends_at_its_deadline_and_what_was_written_stays_visible(void)
{
        uint64_t cut = 0;
        pid_t log;

        CHECK(begin("batched"));
        CHECK_EQ(sb_flush(bus, UINT64_MAX), 0);
        log = log_pid();
        CHECK_EQ(kill(log, SIGSTOP), 0);
        CHECK_EQ(set("key", SB_STRICT, daemon_now_ns() + SECOND / 20, &cut), SB_E_TIMED_OUT);
        CHECK_EQ(sb_flush(bus, daemon_now_ns() + SECOND / 20), SB_E_TIMED_OUT);
        CHECK_EQ(sb_flush(bus, 0), SB_E_TIMED_OUT);
        CHECK(has("key") && sb_durable(bus) < cut);
        CHECK_EQ(kill(log, SIGCONT), 0);
        CHECK_EQ(sb_flush(bus, UINT64_MAX), 0);
        CHECK(sb_durable(bus) >= cut);
        END();
}

static void test_trouble_with_the_disk_is_told_to_all_that_wait_and_ends(void)
{
        uint64_t cut = 0;

        CHECK(begin("batched"));
        CHECK_EQ(set("before", SB_STRICT, 0, &cut), 0);
        CHECK(break_disk(true));
        CHECK_EQ(set("write", SB_STRICT, 0, &cut), SB_E_NOT_DURABLE);
        CHECK_EQ(commit("transaction", SB_STRICT, &cut), SB_E_NOT_DURABLE);
        CHECK_EQ(sb_flush(bus, UINT64_MAX), SB_E_NOT_DURABLE);
        CHECK_EQ(sb_delete(bus, b("before"), SB_ANY_REV,
                         &(struct sb_write){
                                 .size = sizeof(struct sb_write), .durability = SB_STRICT},
                         NULL),
                SB_E_NOT_DURABLE);
        CHECK(has("write") && has("transaction") && !has("before") && sb_durable(bus) < cut);
        CHECK_EQ(sb_admin_log_error(bus), EFBIG);
        CHECK(break_disk(false));
        CHECK(WAIT(sb_flush(bus, UINT64_MAX) == 0));
        CHECK_EQ(sb_admin_log_error(bus), 0);
        CHECK(kill_all_and_serve("batched"));
        CHECK(has("write") && has("transaction") && !has("before"));
        END();
}

#define WRITERS 8u

/* One strict write, by a process of its own. */
static void write_strictly(const char *key)
{
        int r = open_bus();

        r = r ? r : set(key, SB_STRICT, 0, NULL);
        _exit(r != 0);
}

static void test_strict_writers_that_wait_share_one_write_to_the_disk(void)
{
        struct sb_admin_log before, after;
        pid_t children[WRITERS], log;
        char key[] = "key0";
        int status;

        CHECK(begin("batched"));
        CHECK_EQ(sb_flush(bus, UINT64_MAX), 0);
        log = log_pid();
        CHECK_EQ(kill(log, SIGSTOP), 0);
        sb_admin_log_counts(bus, &before);
        for (uint32_t i = 0; i < WRITERS; i++) {
                key[3] = (char)('0' + i);
                children[i] = fork();
                if (children[i] == 0)
                        write_strictly(key);
                CHECK(children[i] > 0 && WAIT(has(key)));
                CHECK_EQ(waitpid(children[i], &status, WNOHANG), 0);
        }
        CHECK_EQ(kill(log, SIGCONT), 0);
        for (uint32_t i = 0; i < WRITERS; i++)
                CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
        sb_admin_log_counts(bus, &after);
        /* The last one may have asked behind the first batch's cut. */
        CHECK(after.batches > before.batches && after.batches <= before.batches + 2);
        END();
}

static void on_alarm(int signal)
{
        (void)signal;
}

/* Once a second they would need longer than a test waits. */
static void test_a_log_that_is_killed_is_replaced_at_once_however_often(void)
{
        enum { KILLS = 30 };
        uint64_t end_ns;
        unsigned kills = 0;

        CHECK(daemon_patience_ns() < KILLS * SECOND);
        CHECK(begin("batched"));
        end_ns = daemon_now_ns() + daemon_patience_ns();
        while (kills < KILLS && daemon_now_ns() < end_ns) {
                CHECK_EQ(set("strict", SB_STRICT, 0, NULL), 0);
                kills += kill(log_pid(), SIGKILL) == 0;
        }
        CHECK_EQ(kills, KILLS);
        CHECK_EQ(set("strict", SB_STRICT, 0, NULL), 0);
        END();
}

static void test_a_signal_ends_a_wait_for_the_disk(void)
{
        struct sigaction action = {.sa_handler = on_alarm};
        struct itimerval often = {.it_value.tv_usec = 20000, .it_interval.tv_usec = 20000};
        pid_t log;

        CHECK(begin("batched"));
        CHECK_EQ(set("key", SB_DEFAULT, 0, NULL), 0);
        log = log_pid();
        CHECK_EQ(kill(log, SIGSTOP), 0);
        CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
        CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
        CHECK_EQ(sb_flush(bus, UINT64_MAX), -EINTR);
        often = (struct itimerval){0};
        CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
        CHECK_EQ(kill(log, SIGCONT), 0);
        CHECK_EQ(sb_flush(bus, UINT64_MAX), 0);
        END();
}

static void test_a_wait_for_the_disk_ends_with_agentd(void)
{
        struct sb_admin_stat stat = {0};
        pid_t child;

        CHECK(begin("batched"));
        CHECK_EQ(set("key", SB_DEFAULT, 0, NULL), 0);
        CHECK_EQ(kill(log_pid(), SIGSTOP), 0);
        CHECK_EQ(sb_admin_stat(bus, &stat), 0);
        child = fork();
        if (child == 0) { /* behind the beginning of the wait */
                daemon_rest();
                (void)kill(daemon_.pid, SIGSTOP);
                (void)kill((pid_t)stat.engine_pid, SIGKILL);
                (void)kill(daemon_.pid, SIGKILL);
                _exit(0);
        }
        CHECK(child > 0);
        CHECK_EQ(sb_flush(bus, UINT64_MAX), SB_E_DETACHED);
        CHECK_EQ(waitpid(child, NULL, 0), child);
        CHECK_EQ(daemon_ended(&daemon_), 128 + SIGKILL);
        CHECK_EQ(sb_flush(bus, 0), SB_E_DETACHED);
        CHECK_EQ(set("key", SB_STRICT, 0, NULL), SB_E_DETACHED);
        bus = sb_close(bus);
}

static void test_the_end_by_trouble_that_was_asked_for_detaches_clients(void)
{
        daemon_place(&daemon_.place);
        daemon_durability = "strict";
        SPAWN(&daemon_, "--size", "4M", "--hugepages", "off", "--on-disk-error", "stop");
        CHECK(daemon_hear(&daemon_, "ready\n") && open_bus() == 0);
        CHECK_EQ(set("before", SB_DEFAULT, 0, NULL), 0);
        CHECK(break_disk(true));
        CHECK(set("key", SB_DEFAULT, 0, NULL) != 0);
        CHECK_EQ(daemon_ended(&daemon_), 1);
        CHECK_EQ(set("key", SB_DEFAULT, 0, NULL), SB_E_DETACHED);
        CHECK_EQ(sb_flush(bus, UINT64_MAX), SB_E_DETACHED);
        bus = sb_close(bus);
        CHECK(serve("strict") && has("before"));
        END();
}

static void test_nothing_of_a_volatile_bus_is_durable(void)
{
        uint64_t cut = 0;

        CHECK(begin("volatile"));
        CHECK_EQ(set("key", SB_DEFAULT, 0, &cut), 0);
        CHECK_EQ(sb_flush(bus, UINT64_MAX), SB_E_NOT_DURABLE);
        CHECK_EQ(set("key", SB_STRICT, 0, NULL), SB_E_NOT_DURABLE);
        CHECK(sb_durable(bus) == 0 && sb_durable(NULL) == 0);
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_a_flush_has_all_that_was_written_before_it);
        RUN(test_strict_is_said_by_bus_by_write_and_by_transaction);
        RUN(test_marks_and_rules_of_a_strict_bus_are_durable_when_their_calls_return);
        RUN(test_a_wait_for_the_disk_ends_at_its_deadline_and_what_was_written_stays_visible);
        RUN(test_trouble_with_the_disk_is_told_to_all_that_wait_and_ends);
        RUN(test_strict_writers_that_wait_share_one_write_to_the_disk);
        RUN(test_a_log_that_is_killed_is_replaced_at_once_however_often);
        RUN(test_a_signal_ends_a_wait_for_the_disk);
        RUN(test_a_wait_for_the_disk_ends_with_agentd);
        RUN(test_the_end_by_trouble_that_was_asked_for_detaches_clients);
        RUN(test_nothing_of_a_volatile_bus_is_durable);
        return daemon_end(test_end());
}
