/* A slice of a benchmark of watches; see slice.h. */
#define _GNU_SOURCE
#include "bench/slice.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/latency.h"
#include "bench/wake.h"
#include "libclient/core/admin.h"
#include "libclient/statebus.h"
#include "shm/base/word.h"

#define BATCH   32u
#define BOUNCES 1000u
#define SPIN_NS UINT64_C(3600000000000)

static struct wake_shared *shared;
static struct wake_end teller; /* on the bus, for all slices */
static char directory[64];
static double apart_ns[WAKE_WAITERS_MAX]; /* by how much a waiter's clock is ahead */
static pid_t pids[WAKE_WAITERS_MAX];
static uint32_t pid_count;
uint32_t slice_cores;
static volatile sig_atomic_t interrupted;

static void stop_bus(void)
{
        char command[96];
        pid_t pid;

        if (!directory[0])
                return;
        if (sb_admin_supervisor(directory, &pid) == 0)
                kill(pid, SIGTERM);
        while (sb_admin_supervisor(directory, &pid) == 0)
                usleep(10000);
        snprintf(command, sizeof(command), "rm -r '%s'", directory);
        if (system(command))
                fputs("bench-watch: the directory of a bus is left behind\n", stderr);
}

static void fail(const char *what, int r)
{
        fprintf(stderr, "bench-watch: %s: %s\n", what, sb_strerror(r));
        for (uint32_t i = 0; i < pid_count; i++)
                kill(pids[i], SIGKILL);
        stop_bus();
        exit(1);
}

static void on_signal(int number)
{
        (void)number;
        interrupted = 1;
}

/* ---- cores ---- */

/* Take the core for waiter @index, or (UINT32_MAX) for the process that tells. */
static void pin(uint32_t index)
{
        static cpu_set_t all;
        static bool known;
        uint32_t wanted;
        cpu_set_t one;

        if (!known) {
                if (sched_getaffinity(0, sizeof(all), &all) < 0)
                        fail("sched_getaffinity", -errno);
                slice_cores = (uint32_t)CPU_COUNT(&all);
                known = true;
        }
        wanted = index == UINT32_MAX || slice_cores == 1 ? 0 : 1 + index % (slice_cores - 1);
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
                if (!CPU_ISSET(cpu, &all) || wanted--)
                        continue;
                CPU_ZERO(&one);
                CPU_SET(cpu, &one);
                (void)sched_setaffinity(0, sizeof(one), &one);
                break;
        }
        /* A process without the right to do so keeps the usual priority. */
        setpriority(PRIO_PROCESS, 0, -20);
}

static uint64_t switches(void)
{
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return (uint64_t)usage.ru_nivcsw;
}

/* One turn of waiting for another process. On a single core it would wait in vain. */
static void turn(void)
{
        if (slice_cores == 1)
                sched_yield();
        else
                sb_stall();
}

static void pause_for(uint32_t ns)
{
        uint64_t start = latency_ticks();

        while ((double)(latency_ticks() - start) * latency_tick_ns() < ns)
                turn();
}

/* ---- the processes that wait ---- */

static void waiter_bounce(uint32_t index, bool stamped)
{
        uint64_t last = 0, what;

        sb_store_release(
                &shared->waiters[index].waits, 1); /* R:told. The process that tells looks. */
        for (;;) {
                while ((what = sb_load_acquire(&shared->there)) == last) /* A:told. */
                        turn();
                if (what == WAKE_END)
                        _exit(0);
                last = what;
                sb_store_release(&shared->back, stamped ? latency_ticks() : what); /* R:told. */
        }
}

static void waiter_exchange(const struct slice_case *case_, uint32_t index)
{
        struct wake_how how = {.directory = directory,
                .spin_ns = case_->spins ? SPIN_NS : 0,
                .prefix = case_->prefix};
        struct wake_waiter *self = &shared->waiters[index];
        struct wake_end end = {.shared = shared};
        uint64_t what, had = 0;
        int r = case_->way->open(&end, &how, true);

        if (r == -ENOTSUP && case_->prefix)
                _exit(77);
        sb_store_release(&self->waits, 1); /* R:told. */
        while (r == 0) {
                r = case_->way->wait(&end, &what);
                if (r || what == WAKE_END)
                        break;
                self->took = latency_ticks() - what;
                if (++had % BATCH == 0)
                        self->switches = switches();
                sb_add_full(&shared->had, 1); /* R:had > A:had. The plain words are written. */
        }
        wake_close(&end);
        if (r)
                fprintf(stderr, "bench-watch: a watcher: %s\n", sb_strerror(r));
        _exit(r ? 1 : 0);
}

/* Start the waiters of a case. */
static void waiters_start(const struct slice_case *case_, bool stamped)
{
        pid_t parent = getpid();

        sb_store_relaxed(&shared->had, 0); /* no waiter is there yet */
        sb_store_relaxed(&shared->there, 0);
        sb_store_relaxed(&shared->back, 0);
        for (pid_count = 0; pid_count < case_->watchers; pid_count++) {
                sb_store_relaxed(&shared->waiters[pid_count].waits, 0); /* it is not there yet */
                shared->waiters[pid_count].switches = 0;
                fflush(NULL);
                pids[pid_count] = fork();
                if (pids[pid_count] < 0)
                        fail("fork", -errno);
                if (pids[pid_count] > 0)
                        continue;
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)signal(SIGINT, SIG_IGN);
                if (getppid() != parent)
                        _exit(1);
                pin(pid_count);
                if (case_->kind == SLICE_LINE)
                        waiter_bounce(pid_count, stamped);
                waiter_exchange(case_, pid_count);
        }
}

/* Whether a waiter has ended before its time. @ret_code: how. */
static bool waiter_ended(int *ret_code)
{
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (interrupted)
                fail("interrupted", -EINTR);
        for (uint32_t i = 0; i < pid_count; i++)
                if (pid > 0 && pids[i] == pid) {
                        pids[i] = pids[--pid_count];
                        *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
                        return true;
                }
        return false;
}

/* Wait until the waiters have counted themselves to @wanted. */
static void await_had(uint32_t wanted)
{
        uint32_t turns = 0;
        int code;

        while (sb_load_acquire(&shared->had) != wanted) { /* A:had. */
                turn();
                if (++turns % (1u << 22) == 0 && waiter_ended(&code))
                        fail("a watcher has ended", -ECHILD);
        }
}

static void waiters_end(void)
{
        while (pid_count)
                waitpid(pids[--pid_count], NULL, 0);
}

/* Wait until all waiters wait. Return: false: this version has no such watches. */
static bool waiters_ready(const struct slice_case *case_)
{
        for (uint32_t i = 0; i < case_->watchers; i++)
                while (!sb_load_acquire(&shared->waiters[i].waits)) { /* A:told. */
                        int code;

                        usleep(50);
                        if (!waiter_ended(&code))
                                continue;
                        if (code != 77)
                                fail("a watcher could not begin", -ECHILD);
                        waiters_end();
                        return false;
                }
        return true;
}

/* Whether a process sleeps. */
static bool asleep(pid_t pid)
{
        char path[48], line[256] = "";
        const char *behind;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        file = fopen(path, "re");
        if (!file)
                fail(path, -errno);
        if (!fgets(line, sizeof(line), file))
                line[0] = '\0';
        fclose(file);
        behind = strrchr(line, ')');
        return behind && behind[1] == ' ' && behind[2] == 'S';
}

static void waiters_stop(const struct slice_case *case_)
{
        for (uint32_t i = 0; i < pid_count && case_->stopped; i++) {
                while (!asleep(pids[i]))
                        usleep(200);
                kill(pids[i], SIGSTOP);
        }
}

/* ---- slices ---- */

/* One way of a line: half of there and back, the mean of many. */
static void slice_line(uint64_t end_ns, struct slice *slice)
{
        uint64_t number = 0;

        while (bench_now_ns() < end_ns || !slice->had.count) {
                uint64_t before = switches(), start = latency_ticks();

                for (uint32_t i = 0; i < BOUNCES; i++) {
                        sb_store_release(&shared->there, ++number);      /* R:told > A:told. */
                        while (sb_load_acquire(&shared->back) != number) /* A:told. */
                                turn();
                }
                start = latency_ticks() - start;
                if (switches() == before || slice_cores == 1)
                        latency_add(&slice->had, (double)start * latency_tick_ns() / BOUNCES / 2);
        }
        sb_store_release(&shared->there, WAKE_END); /* R:told. */
}

/* What a batch has taken, before it is known whether it counts. */
struct batch {
        double had[WAKE_WAITERS_MAX][BATCH], last[BATCH], cost[BATCH];
};

/* Tell once, and see how long it takes all waiters. */
static void exchange(const struct slice_case *case_, struct wake_end *end, uint32_t number,
        struct batch *batch, uint32_t index)
{
        uint64_t start = latency_ticks();
        int r = case_->way->tell(end, start);

        batch->cost[index] = (double)(latency_ticks() - start) * latency_tick_ns();
        if (r)
                fail("sb_set", r);
        batch->last[index] = 0;
        if (!case_->stopped)
                await_had(number * case_->watchers);
        for (uint32_t i = 0; i < case_->watchers && !case_->stopped; i++) {
                double took =
                        (double)(int64_t)shared->waiters[i].took * latency_tick_ns() - apart_ns[i];

                batch->had[i][index] = took;
                if (took > batch->last[index])
                        batch->last[index] = took;
        }
        pause_for(case_->pause_ns);
}

static uint64_t all_switches(const struct slice_case *case_)
{
        uint64_t sum = switches();

        for (uint32_t i = 0; i < case_->watchers; i++)
                sum += shared->waiters[i].switches;
        return case_->shared || slice_cores == 1 ? 0 : sum;
}

/* Add a batch; its first exchange found cold what the end of the last batch had used. */
static void batch_add(
        const struct slice_case *case_, const struct batch *batch, struct slice *slice)
{
        for (uint32_t i = 1; i < BATCH; i++) {
                latency_add(&slice->cost, batch->cost[i]);
                if (!case_->watchers || case_->stopped)
                        continue;
                latency_add(&slice->last, batch->last[i]);
                for (uint32_t w = 0; w < case_->watchers; w++)
                        latency_add(&slice->had, batch->had[w][i]);
        }
}

static void slice_exchange(const struct slice_case *case_, uint64_t end_ns, struct slice *slice)
{
        static struct batch batch;
        struct wake_end end = teller;
        uint32_t number = 0, batches = 0, counted = 0;

        if (!case_->way->uses_bus && case_->way->open(&end, NULL, false))
                fail("the end of the process that tells", -EINVAL);
        do {
                uint64_t before = all_switches(case_);

                for (uint32_t i = 0; i < BATCH; i++)
                        exchange(case_, &end, ++number, &batch, i);
                if (number == BATCH)
                        continue; /* both are warm by now */
                batches++;
                if (all_switches(case_) != before)
                        continue;
                batch_add(case_, &batch, slice);
                counted++;
        } while (bench_now_ns() < end_ns || !batches);
        if (counted * 2 < batches)
                slice->left_out = true;
        (void)case_->way->tell(&end, WAKE_END);
}

/* Run one slice. Return: false: this version cannot. */
bool slice_run(const struct slice_case *case_, uint64_t slice_ns, struct slice *slice)
{
        memset(slice, 0, sizeof(*slice));
        waiters_start(case_, false);
        if (!waiters_ready(case_))
                return false;
        waiters_stop(case_);
        if (case_->kind == SLICE_LINE)
                slice_line(bench_now_ns() + slice_ns, slice);
        else
                slice_exchange(case_, bench_now_ns() + slice_ns, slice);
        for (uint32_t i = 0; i < pid_count && case_->stopped; i++)
                kill(pids[i], SIGKILL);
        waiters_end();
        return true;
}

/* By how much the clock of a waiter's core is ahead: half of what the way there seems longer than
 * the way back. */
static double measure_apart(void)
{
        int64_t there, back, there_least = INT64_MAX, back_least = INT64_MAX;
        uint64_t seen = 0, start, now;

        for (uint32_t i = 0; i < 5000; i++) {
                start = latency_ticks();
                sb_store_release(&shared->there, start);               /* R:told > A:told. */
                while ((now = sb_load_acquire(&shared->back)) == seen) /* A:told. */
                        turn();
                seen = now;
                there = (int64_t)(seen - start);
                back = (int64_t)(latency_ticks() - seen);
                there_least = there < there_least ? there : there_least;
                back_least = back < back_least ? back : back_least;
        }
        sb_store_release(&shared->there, WAKE_END); /* R:told. */
        return (double)(there_least - back_least) / 2 * latency_tick_ns();
}

static void measure_clocks(void)
{
        struct slice_case one = {.kind = SLICE_LINE};

        for (uint32_t i = 0; i < WAKE_WAITERS_MAX; i++) {
                if (slice_cores == 1 || i >= slice_cores - 1) {
                        apart_ns[i] = slice_cores == 1 ? 0 : apart_ns[i % (slice_cores - 1)];
                        continue;
                }
                one.watchers = i + 1; /* the last one answers alone */
                waiters_start(&one, true);
                (void)waiters_ready(&one);
                apart_ns[i] = measure_apart();
                waiters_end();
        }
}

/* ---- system calls ---- */

/* The process that is traced: it sets, and does nothing else between two calls of getppid(). */
static void traced_main(const struct slice_case *case_)
{
        struct wake_how how = {.directory = directory};
        struct wake_end end = {.shared = shared};
        static struct batch batch;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
                _exit(77);
        raise(SIGSTOP);
        pid_count = 0; /* the waiters and the bus are another's, from here on */
        if (wake_bus.open(&end, &how, false))
                _exit(1);
        directory[0] = '\0';
        for (uint32_t i = 0; i < 2 * SLICE_TRACED; i++) {
                if (i == SLICE_TRACED)
                        syscall(SYS_getppid);
                exchange(case_, &end, i + 1, &batch, 0);
        }
        syscall(SYS_getppid);
        _exit(0);
}

/* Count one stop of the traced process. */
static void calls_add(pid_t pid, uint32_t *marks, struct slice_calls *calls)
{
        struct __ptrace_syscall_info info = {0};

        if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) <= 0 ||
                info.op != PTRACE_SYSCALL_INFO_ENTRY)
                return;
        if (info.entry.nr == SYS_getppid)
                ++*marks;
        else if (*marks == 1 && info.entry.nr == SYS_futex)
                calls->futex++;
        else if (*marks == 1 && info.entry.nr != SYS_sched_yield)
                calls->other++;
}

/* The system calls of SLICE_TRACED sets of a case. */
struct slice_calls slice_count_calls(const struct slice_case *case_)
{
        struct slice_calls calls = {0};
        uint32_t marks = 0;
        int status = 0;
        pid_t pid;

        waiters_start(case_, false);
        if (!waiters_ready(case_))
                return calls;
        waiters_stop(case_);
        fflush(NULL);
        pid = fork();
        if (pid == 0)
                traced_main(case_);
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                fail("a traced process", -errno);
        if (WIFSTOPPED(status))
                ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD);
        while (WIFSTOPPED(status)) {
                calls_add(pid, &marks, &calls);
                if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) != pid)
                        break;
        }
        calls.counted = marks == 2;
        if (case_->watchers && !case_->stopped)
                (void)case_->way->tell(&teller, WAKE_END);
        for (uint32_t i = 0; i < pid_count && case_->stopped; i++)
                kill(pids[i], SIGKILL);
        waiters_end();
        return calls;
}

/* ---- the bus ---- */

static void bus_begin(uint64_t key_count)
{
        struct wake_how how = {.directory = directory};
        const char *options[] = {
                "--size", NULL, "--clients", "80", "--durability", "volatile", NULL};
        unsigned char value[64] = {0};
        char size[32], name[32];
        int r;

        snprintf(size, sizeof(size), "%lluM",
                (unsigned long long)(bench_segment_size((uint32_t)key_count, 64) >> 20));
        options[1] = size;
        strcpy(directory, "/tmp/sb-watch-XXXXXX");
        if (!mkdtemp(directory))
                fail("mkdtemp", -errno);
        r = sb_admin_start(directory, options, NULL);
        if (r)
                fail("agentd", r);
        teller.shared = shared;
        r = wake_bus.open(&teller, &how, false);
        if (r)
                fail("sb_open", r);
        /* In an order in which neighbours in memory are none in the index. */
        for (uint64_t i = 0; i < key_count && !interrupted; i++) {
                int len = snprintf(name, sizeof(name), "watched/%08llx",
                        (unsigned long long)(i * UINT64_C(0x9e3779b1) & 0xffffffff));

                r = sb_set(teller.bus, (struct sb_bytes){name, (size_t)len},
                        (struct sb_bytes){value, sizeof(value)}, NULL, NULL);
                if (r)
                        fail("sb_set", r);
        }
}

void slice_begin(uint64_t key_count)
{
        shared = mmap(
                NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED || wake_init(shared))
                fail("memory for all processes", -ENOMEM);
        (void)signal(SIGINT, on_signal);
        (void)signal(SIGTERM, on_signal);
        (void)signal(SIGPIPE, on_signal); /* as of `bench-watch | head` */
        bus_begin(key_count);
        pin(UINT32_MAX);
        (void)latency_tick_ns();
        measure_clocks();
}

void slice_end(void)
{
        wake_close(&teller);
        stop_bus();
}

double slice_apart_ns(void)
{
        return apart_ns[0];
}
