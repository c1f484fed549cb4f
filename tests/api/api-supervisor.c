/*
 * Supervisor and engine of agentd as processes: each is killed, and both, while clients are
 * attached, and the segment that they find is sound or not. And systems on which no engine can
 * work. The program under test is $AGENTD. What a supervisor counts: tests/unit/unit-supervisor.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/attach/place.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/keys/branch.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "tests/api/crashed.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

static void test_killed_engine_is_replaced_while_clients_go_on(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, second;
        struct sb_check_report report;
        uint64_t longest = 0;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        CHECK_EQ(daemon_set(&daemon_handle, "key", "before"), 0);
        for (int i = 0; i < 10; i++) {
                pid_t engine = daemon_engine(&attachment);
                uint64_t begun = daemon_now_ns();

                kill(engine, SIGKILL);
                CHECK_EQ(daemon_set(&daemon_handle, "other", "written without an engine"), 0);
                CHECK(WAIT(daemon_engine(&attachment) != engine));
                if (daemon_now_ns() - begun > longest)
                        longest = daemon_now_ns() - begun;
        }
        TEST_NOTE("api-supervisor: longest time without an engine %.1f ms", (double)longest / 1e6);
        CHECK(sb_segment_serving(&attachment.segment));
        CHECK(daemon_has(&daemon_handle, "key", "before"));
        CHECK_EQ(daemon_attach(&daemon, &second, &daemon_other), 0);
        CHECK(second.slot != attachment.slot);
        CHECK(daemon_has(&daemon_other, "key", "before"));
        CHECK_EQ(sb_check(&daemon_other, false, &report), 0);
        CHECK_EQ(report.problem_count, 0);
        CHECK_EQ(daemon_attached(&attachment), 2);
        daemon_detach(&second, &daemon_other);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* A process that writes and deletes until it is killed. */
static pid_t child_writes(const struct daemon *daemon)
{
        pid_t pid = fork();

        if (pid == 0) {
                struct sb_attachment attachment;
                struct sb_op_write delete = {.key = "k1",
                        .key_len = 2,
                        .kind = SB_VERSION_DELETED,
                        .expected_rev = SB_OP_ANY_REV};
                struct sb_op_result result;

                if (daemon_attach(daemon, &attachment, &daemon_handle))
                        _exit(1);
                while (!daemon_set(&daemon_handle, "k1", "one") &&
                        !daemon_set(&daemon_handle, "k2", "another") &&
                        !sb_op_write(&daemon_handle, &delete, &result))
                        ;
                _exit(2);
        }
        return pid;
}

static void test_engine_killed_whenever_it_works_leaves_the_segment_sound(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_check_report report;
        unsigned seed = 1;
        pid_t writer;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        writer = child_writes(&daemon);
        for (int i = 0; i < 60; i++) {
                pid_t engine = daemon_engine(&attachment);

                sb_os_linux.pause(NULL, (uint64_t)(rand_r(&seed) % 20000) * 1000);
                if (i % 4 == 0) { /* gives the reaper work, so that the engine is killed in the
                                     middle of it */
                        CHECK_EQ(daemon_end_child(writer), DAEMON_KILLED);
                        writer = child_writes(&daemon);
                }
                kill(engine, SIGKILL);
                CHECK(WAIT(daemon_engine(&attachment) != engine));
        }
        CHECK_EQ(daemon_end_child(writer), DAEMON_KILLED);
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        CHECK(daemon_has(&daemon_handle, "k2", "another"));
        CHECK(sb_segment_serving(&attachment.segment));
        CHECK_EQ(sb_check(&daemon_handle, false, &report), 0);
        if (report.problem_count)
                TEST_FAIL("%s", report.problems[0]);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
        CHECK(!strstr(daemon.said, "not adopted"));
        if (agentd_crashed(daemon.said))
                TEST_FAIL("agentd said: %s", daemon.said);
}

/* Killed while it took a snapshot away, and behind the reaping of a client that was making a mark:
 * nothing else comes back to either. */
static void test_the_next_engine_ends_what_the_dead_one_had_begun(void)
{
        struct sb_attachment attachment;
        struct sb_named_value mark;
        struct sb_word64 *words;
        struct daemon daemon;
        uint32_t taken, making;
        uint64_t cut;
        pid_t engine;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        CHECK_EQ(sb_snapshot_open(&daemon_handle, &taken, &cut), 0);
        CHECK_EQ(sb_snapshot_open(&daemon_handle, &making, &cut), 0);
        CHECK_EQ(sb_named_take(&daemon_handle, making, cut, &mark), 0);
        sb_snapshot_close(&daemon_handle, making);
        CHECK(sb_named_stands(&attachment.segment, &mark));
        words = sb_record_snapshots(daemon_handle.record);
        sb_or_full(&words[taken], SB_SNAPSHOT_EVICTING);
        engine = daemon_engine(&attachment);
        kill(engine, SIGKILL);
        CHECK(WAIT(daemon_engine(&attachment) != engine));
        CHECK_EQ(sb_load_acquire(&words[taken]), SB_SNAPSHOT_EVICTED);
        CHECK(!sb_named_stands(&attachment.segment, &mark));
        sb_snapshot_close(&daemon_handle, taken);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* ---- an engine that looks at a large segment ---- */

/* The first child of a process by the name of @name; 0: it has none. */
static pid_t child_named(pid_t parent, const char *name)
{
        char path[64], text[32];
        pid_t child = 0;
        FILE *file, *comm;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
        file = fopen(path, "r");
        while (file && fscanf(file, "%d", &child) == 1) {
                snprintf(path, sizeof(path), "/proc/%d/comm", (int)child);
                comm = fopen(path, "r");
                *text = 0;
                if (comm && !fgets(text, sizeof(text), comm))
                        *text = 0;
                if (comm)
                        fclose(comm);
                text[strcspn(text, "\n")] = 0;
                if (!strcmp(text, name))
                        break;
                child = 0;
        }
        if (file)
                fclose(file);
        return child;
}

static int processors(void)
{
        cpu_set_t set;

        return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : CPU_COUNT(&set);
}

/* How many ends a look may come to. */
#define LOOK_ENDS 4u

/* End what looks at the segment just now. Return: whether something did. */
static bool end_look(pid_t supervisor, unsigned how)
{
        pid_t engine = child_named(supervisor, "agentd-engine"), child;

        child = engine ? child_named(engine, "agentd-look") : 0;
        if (!child)
                return false;
        if (how & 1) /* alone, or its parent is killed as well */
                kill(child, SIGSTOP);
        if (how != 1)
                kill(how == 0 ? child : engine, SIGKILL);
        return true;
}

static void test_an_engine_and_its_children_are_killed_while_they_look(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_check_report report;
        unsigned met[LOOK_ENDS] = {0}, seed = 3;
        char key[24];

        daemon_place(&daemon.place);
        SPAWN(&daemon, "--size", "256M", "--clients", "5", "--durability", "volatile");
        CHECK(daemon_hear(&daemon, "ready"));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        for (int i = 0; i < 100000; i++) {
                snprintf(key, sizeof(key), "key %d", i);
                if (daemon_set(&daemon_handle, key, "some value"))
                        TEST_FAIL("key %d", i);
        }
        for (unsigned round = 0; round < 24; round++) {
                pid_t engine = daemon_engine(&attachment);

                kill(engine, SIGKILL);
                sb_os_linux.pause(NULL, (uint64_t)(rand_r(&seed) % 4000) * 1000);
                while (daemon_engine(&attachment) == engine && !met[round % LOOK_ENDS])
                        met[round % LOOK_ENDS] += end_look(daemon.pid, round % LOOK_ENDS);
                met[round % LOOK_ENDS] += end_look(daemon.pid, round % LOOK_ENDS);
                CHECK(WAIT(daemon_engine(&attachment) != engine));
                CHECK_EQ(daemon_set(&daemon_handle, "key 7", "is written"), 0);
        }
        TEST_NOTE("api-supervisor: looks of which a child was killed, or stopped, the engine was "
                  "killed, or that beside a stopped child: %u, %u, %u, %u",
                met[0], met[1], met[2], met[3]);
        /* One processor needs no child. */
        CHECK(processors() == 1 || (met[0] && met[1] && met[2] && met[3]));
        CHECK(WAIT(daemon_attached(&attachment) == 1));
        CHECK_EQ(sb_check(&daemon_handle, false, &report), 0);
        CHECK(report.problem_count == 0 && report.keys == 100000);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
        CHECK(strstr(daemon.said, ": 100000 keys") && !strstr(daemon.said, "not adopted"));
}

static void test_engine_becomes_supervisor_when_the_supervisor_is_killed(void)
{
        struct daemon daemon, second;
        struct sb_attachment attachment;
        pid_t engine, supervisor;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        CHECK_EQ(daemon_set(&daemon_handle, "key", "value"), 0);
        for (int i = 0; i < 3; i++) {
                CHECK_EQ(sb_place_supervisor(&daemon.place, &supervisor), 0);
                engine = daemon_engine(&attachment);
                kill(supervisor, SIGKILL);
                CHECK(WAIT(daemon_engine(&attachment) != engine));
                CHECK_EQ(sb_place_supervisor(&daemon.place, &supervisor), 0);
                CHECK_EQ(supervisor, engine);
                CHECK(sb_segment_serving(&attachment.segment));
        }
        /* The new supervisor restarts engines, refuses a second agentd and stops as the first one
         * did. */
        engine = daemon_engine(&attachment);
        kill(engine, SIGKILL);
        CHECK(WAIT(daemon_engine(&attachment) != engine));
        second.place = daemon.place;
        SPAWN(&second, "--size", "4M", "--hugepages", "off");
        CHECK_EQ(daemon_ended(&second), 1);
        CHECK(daemon_has(&daemon_handle, "key", "value"));
        kill(supervisor, SIGTERM);
        CHECK(WAIT(sb_place_supervisor(&daemon.place, &supervisor) == -ESRCH));
        CHECK(sb_attach_lost(&daemon.place, &attachment.segment));
        CHECK_EQ(daemon_ended(&daemon), 128 + SIGKILL);
        sb_attach_unmap(&attachment);
}

/* The engine reads it first, or meets the supervisor's death first. */
static void test_a_signal_to_stop_is_not_lost_with_the_supervisor(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        pid_t engine;
        siginfo_t unused;

        for (int order = 0; order < 2; order++) {
                CHECK(daemon_start(&daemon));
                CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
                engine = daemon_engine(&attachment);
                kill(engine, SIGSTOP);
                kill(order ? daemon.pid : engine, order ? SIGKILL : SIGTERM);
                kill(order ? engine : daemon.pid, order ? SIGTERM : SIGKILL);
                CHECK(!waitid(P_PID, (id_t)daemon.pid, &unused, WEXITED | WNOWAIT));
                kill(engine, SIGCONT);
                CHECK_EQ(daemon_ended(&daemon), 128 + SIGKILL);
                CHECK(strstr(daemon.said, "told to stop"));
                sb_attach_unmap(&attachment);
        }
}

/* Whether a SIGTERM waits for the process. */
static bool has_pending(pid_t pid)
{
        unsigned long long signals = 0;
        char path[32], line[128];
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
                if (sscanf(line, "ShdPnd: %llx", &signals) == 1)
                        break;
        if (file)
                fclose(file);
        return signals >> (SIGTERM - 1) & 1;
}

/* The engine has sent it on, and the supervisor dies before it reads it. */
static void test_nor_is_one_that_the_engine_has_sent_on(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        kill(daemon.pid, SIGSTOP);
        kill(daemon_engine(&attachment), SIGTERM);
        CHECK(WAIT(has_pending(daemon.pid)));
        kill(daemon.pid, SIGKILL);
        CHECK_EQ(daemon_ended(&daemon), 128 + SIGKILL);
        CHECK(WAIT(sb_attach_lost(&daemon.place, &attachment.segment)));
        sb_attach_unmap(&attachment);
}

/* Go on with a process until it is about to make a call of this number, and kill it there. Return:
 * whether it came to that. */
static bool kill_at_call(pid_t pid, uint64_t number)
{
        struct user_regs_struct registers;
        int status;

        while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
                if (!ptrace(PTRACE_GETREGS, pid, NULL, &registers) &&
                        registers.orig_rax == number && registers.rax == (uint64_t)-ENOSYS)
                        return !kill(pid, SIGKILL);
                if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL))
                        return false;
        }
        return false;
}

/* Clients see that the bus is not served any more, and its socket is there still, or is gone: an
 * engine that went on would hold a bus that no client can reach. */
static void test_a_stop_goes_on_when_the_supervisor_is_killed_in_it(void)
{
        static const uint64_t calls[] = {SYS_unlinkat, SYS_ftruncate, SYS_sendto};
        struct daemon daemon;
        struct sb_attachment attachment;
        pid_t supervisor;

        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
                CHECK(daemon_start(&daemon));
                CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
                if (ptrace(PTRACE_SEIZE, daemon.pid, NULL, NULL) ||
                        ptrace(PTRACE_INTERRUPT, daemon.pid, NULL, NULL))
                        TEST_SKIP("no process may be traced here");
                kill(daemon.pid, SIGTERM);
                CHECK(kill_at_call(daemon.pid, calls[i]));
                CHECK_EQ(daemon_ended(&daemon), 128 + SIGKILL);
                CHECK_EQ(sb_place_supervisor(&daemon.place, &supervisor), -ESRCH);
                CHECK(!sb_segment_serving(&attachment.segment));
                sb_attach_unmap(&attachment);
        }
}

static void test_after_kill_of_everything_clients_know_and_the_next_one_starts(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, fresh;
        pid_t engine;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        engine = daemon_engine(&attachment);
        kill(engine, SIGSTOP); /* so that the engine cannot take over in between */
        kill(daemon.pid, SIGKILL);
        kill(engine, SIGKILL);
        SPAWN(&daemon, "--size", "4M", "--hugepages", "off");
        CHECK(daemon_hear(&daemon, "ready\n"));
        CHECK(!sb_segment_serving(&attachment.segment));
        CHECK(sb_attach_lost(&daemon.place, &attachment.segment));
        CHECK_EQ(daemon_attach(&daemon, &fresh, &daemon_other), 0);
        CHECK(!daemon_has(&daemon_other, "key", "value"));
        CHECK(memcmp(fresh.segment.super->id, attachment.segment.super->id, 16));
        daemon_detach(&fresh, &daemon_other);
        sb_attach_unmap(&attachment);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* The segment fails the check when no process is left but the engine that checks it. */
static void test_an_engine_without_supervisor_replaces_an_unsound_segment(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        pid_t engine, supervisor;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        engine = daemon_engine(&attachment);
        kill(engine, SIGSTOP);
        attachment.segment.super->geometry.units_at = UINT64_MAX - 64;
        kill(daemon.pid, SIGKILL);
        /* The engine takes over, and its own engine finds the segment unsound. */
        kill(engine, SIGCONT);
        CHECK(daemon_hear(&daemon, "making a new segment"));
        CHECK(WAIT(!sb_segment_serving(&attachment.segment)));
        sb_attach_unmap(&attachment);
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        CHECK_EQ(sb_place_supervisor(&daemon.place, &supervisor), 0);
        CHECK_EQ(supervisor, engine);
        daemon_detach(&attachment, &daemon_handle);
        kill(supervisor, SIGTERM);
        CHECK_EQ(daemon_ended(&daemon), 128 + SIGKILL);
}

static void test_a_segment_that_fails_the_check_is_not_adopted(void)
{
        struct daemon daemon;
        struct sb_attachment attachment, fresh;
        struct sb_bucket *bucket;
        pid_t engine;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        CHECK_EQ(daemon_set(&daemon_handle, "key", "value"), 0);
        /* A cell gets the offset of a block far outside. */
        bucket = &attachment.segment.buckets[attachment.segment.geometry.bucket_count / 2];
        sb_store_release(&bucket->cell[6], UINT64_C(0x00007ffffffffff0));
        engine = daemon_engine(&attachment);
        kill(engine, SIGKILL);
        CHECK(daemon_hear(&daemon, "not adopted"));
        CHECK(daemon_hear(&daemon, "making a new segment"));
        CHECK(WAIT(!sb_segment_serving(&attachment.segment)));
        CHECK(sb_attach_lost(&daemon.place, &attachment.segment));
        CHECK_EQ(daemon_attach(&daemon, &fresh, &daemon_other), 0);
        CHECK(memcmp(fresh.segment.super->id, attachment.segment.super->id, 16));
        CHECK_EQ(daemon_set(&daemon_other, "key", "again"), 0);
        daemon_detach(&fresh, &daemon_other);
        sb_attach_unmap(&attachment);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void not_adopted(void (*scribble)(struct sb_geometry *geometry))
{
        struct daemon daemon;
        struct sb_attachment attachment;
        pid_t engine;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        engine = daemon_engine(&attachment);
        scribble(&attachment.segment.super->geometry);
        kill(engine, SIGKILL);
        CHECK(daemon_hear(&daemon, "not adopted"));
        CHECK(WAIT(!sb_segment_serving(&attachment.segment)));
        sb_attach_unmap(&attachment);
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        daemon_detach(&attachment, &daemon_handle);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

static void scribble_nonsense(struct sb_geometry *geometry)
{
        geometry->units_at = UINT64_MAX - 64;
}

/* Make a geometry that is sound in itself, but for more clients than agentd has memory for. */
static void scribble_another(struct sb_geometry *geometry)
{
        struct sb_geometry_wish wish = {.size = geometry->size, .clients = 200};

        (void)sb_geometry_fit(&wish, geometry);
}

static void test_a_superblock_scribbled_over_is_not_adopted(void)
{
        not_adopted(scribble_nonsense);
        not_adopted(scribble_another);
}

static int daemon_delete(struct sb_handle *writer, const char *key)
{
        struct sb_op_write write = {.key = key,
                .key_len = (uint32_t)strlen(key),
                .kind = SB_VERSION_DELETED,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        return sb_op_write(writer, &write, &result);
}

/* The round comes from a client that writes where it should not. */
static void test_damage_that_an_engine_meets_is_said_and_seen_by_the_next(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_branch_view view = {0};
        uint64_t root;
        pid_t engine;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        CHECK(!daemon_set(&daemon_handle, "key", "value") &&
                !daemon_set(&daemon_handle, "old", ""));
        CHECK_EQ(daemon_delete(&daemon_handle, "old"), 0);
        /* All slots of the branch lead to the branch. */
        root = sb_load_relaxed(&attachment.segment.super->order);
        CHECK(sb_branch_view(&attachment.segment, root, 0, &view));
        for (uint32_t i = 0; i < view.slots; i++)
                if (sb_load_relaxed(&view.branch->slot[i]))
                        sb_store_relaxed(&view.branch->slot[i],
                                SB_SLOT_TO(sb_load_relaxed(&view.branch->slot[i]), root));
        /* The engine's next sweep removes the key that was deleted. */
        sb_limbo_leave(&daemon_handle);
        CHECK(daemon_hear(&daemon, "the segment is damaged: `agentctl check` names"));
        CHECK(daemon_has(&daemon_handle, "key", "value"));
        engine = daemon_engine(&attachment);
        kill(engine, SIGKILL);
        CHECK(daemon_hear(&daemon, "not adopted"));
        CHECK(WAIT(!sb_segment_serving(&attachment.segment)));
        sb_attach_unmap(&attachment);
        CHECK_EQ(daemon_stop(&daemon), 0);
}

/* What is in the superblock for people, and for clients that look whether the bus is lost; and a
 * record that a dead engine had only claimed. */
static void test_what_agentd_writes_of_itself_is_so_after_each_change(void)
{
        struct daemon daemon;
        struct sb_attachment attachment;
        struct sb_superblock *super;
        struct sb_record *claimed;
        char path[SB_PLACE_MAX + 16];
        struct stat lock;
        pid_t engine;

        CHECK(daemon_start(&daemon));
        CHECK_EQ(daemon_attach(&daemon, &attachment, &daemon_handle), 0);
        super = attachment.segment.super;
        engine = daemon_engine(&attachment);
        CHECK_EQ(sb_load_relaxed(&super->supervisor), daemon.pid);
        CHECK_EQ(sb_load_relaxed(&super->engine_generation), 1);
        CHECK_EQ(sb_load_relaxed(&super->clients_max), 16);
        CHECK_EQ(sb_load_relaxed(&super->history_limit), 1 << 20);
        claimed = sb_record_at(&attachment.segment, 9);
        sb_store_relaxed(&claimed->tag, SB_RECORD_TAG(4, SB_RECORD_CLAIMED));
        kill(engine, SIGKILL);
        CHECK(WAIT(sb_load_relaxed(&super->engine_generation) == 2));
        CHECK(WAIT(sb_load_relaxed(&claimed->tag) == SB_RECORD_TAG(5, SB_RECORD_FREE)));
        engine = daemon_engine(&attachment);
        kill(daemon.pid, SIGKILL);
        CHECK(WAIT(sb_load_relaxed(&super->supervisor) == (uint64_t)engine));
        CHECK(WAIT(sb_load_relaxed(&super->engine_generation) == 3));
        daemon_detach(&attachment, &daemon_handle);
        kill(engine, SIGTERM);
        CHECK_EQ(daemon_ended(&daemon), 128 + SIGKILL);
        snprintf(path, sizeof(path), "%s/%s", daemon.place.directory, SB_PLACE_LOCK);
        CHECK(WAIT(stat(path, &lock) == 0 &&
                   lock.st_size == 0)); /* no pid of a process that is gone */
}

/* A filter of system calls hides one; as Linux before it was there. */
static uint32_t hidden;
static int hide_a_call(void)
{
        struct sock_filter look[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, hidden, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof(look) / sizeof(look[0]), look};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* It does not start engine after engine that cannot work, while a program waits for the start. */
static void test_on_a_system_that_lacks_a_call_it_ends_and_names_it(void)
{
        static const struct {
                uint32_t call;
                const char *says;
        } cases[] = {{SYS_membarrier, "this system has no membarrier"},
                {SYS_pidfd_open, "this system cannot watch processes"},
                {SYS_set_robust_list, "this system does not tell clients of agentd's end"}};
        struct daemon daemon;

        if (prctl(PR_GET_SECCOMP) < 0)
                TEST_SKIP("this kernel has no filters for system calls");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                hidden = cases[i].call;
                daemon_prepare = hide_a_call;
                daemon_place(&daemon.place);
                SPAWN(&daemon, "--size", "4M", "--hugepages", "off");
                daemon_prepare = NULL;
                CHECK_EQ(daemon_ended(&daemon), 1);
                CHECK(strstr(daemon.said, cases[i].says));
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!daemon_begin())
                return 1;
        RUN(test_killed_engine_is_replaced_while_clients_go_on);
        RUN(test_engine_killed_whenever_it_works_leaves_the_segment_sound);
        RUN(test_the_next_engine_ends_what_the_dead_one_had_begun);
        RUN(test_an_engine_and_its_children_are_killed_while_they_look);
        RUN(test_engine_becomes_supervisor_when_the_supervisor_is_killed);
        RUN(test_a_signal_to_stop_is_not_lost_with_the_supervisor);
        RUN(test_nor_is_one_that_the_engine_has_sent_on);
        RUN(test_a_stop_goes_on_when_the_supervisor_is_killed_in_it);
        RUN(test_after_kill_of_everything_clients_know_and_the_next_one_starts);
        RUN(test_an_engine_without_supervisor_replaces_an_unsound_segment);
        RUN(test_a_segment_that_fails_the_check_is_not_adopted);
        RUN(test_damage_that_an_engine_meets_is_said_and_seen_by_the_next);
        RUN(test_a_superblock_scribbled_over_is_not_adopted);
        RUN(test_what_agentd_writes_of_itself_is_so_after_each_change);
        RUN(test_on_a_system_that_lacks_a_call_it_ends_and_names_it);
        return daemon_end(test_end());
}
