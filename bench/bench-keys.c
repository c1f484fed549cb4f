/*
 * Keys: get, get of many, set, mixes, compare-and-set on one hot key, transfers between some
 * accounts, and scans. statebus and the other contenders do them side by side.
 *
 * For each size of value, worker processes are made once, pinned to one core each, and attached to
 * every contender. Then come rounds. In one round of a case each contender runs a slice with each
 * number of processes. The order of the contenders moves on by one every round; so a drift (of the
 * clock rate, or of the load by the host's other guests) meets all alike, and ratios are taken
 * within a round. In a slice all workers meet, warm up, then time each batch of work. A batch
 * during which the kernel gave the core to another process does not count. But a contender that
 * waits by itself (for a lock, for its server) waits on its own time, so for a contender with a
 * server every batch counts.
 *
 * Standard output is for bench/report: "# name value" lines about the run, then
 *      slice CASE PROCESSES ROUND CONTENDER OPERATIONS_PER_SECOND PREEMPTED CONFLICTS SHARE
 * CONFLICTS is per operation. SHARE is the part of the slice's time that counts: when it is much
 * less than 1, the workers did not run side by side.
 *
 * Always true: nothing but the contender's own code runs between the two readings of the clock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/options.h"
#include "shm/base/word.h"

struct bench_case {
        const char *name;
        enum bench_op op;
        enum bench_spread spread;
        uint32_t value_len;
        uint32_t number; /* BENCH_MIX: writes of 256 operations; BENCH_TRANSFER: accounts */
        bool mixed;      /* keys of 16 to 32 bytes; otherwise of 16 */
};

static const struct bench_case cases[] = {
        {"get-64-uniform", BENCH_GET, BENCH_UNIFORM, 64, 0, false},
        {"get-64-zipf", BENCH_GET, BENCH_ZIPF, 64, 0, false},
        {"get16-64-uniform", BENCH_GET_MANY, BENCH_UNIFORM, 64, 0, false},
        {"get16-64-zipf", BENCH_GET_MANY, BENCH_ZIPF, 64, 0, false},
        {"set-64-uniform", BENCH_MIX, BENCH_UNIFORM, 64, 256, false},
        {"set-64-zipf", BENCH_MIX, BENCH_ZIPF, 64, 256, false},
        {"mix95-64-zipf", BENCH_MIX, BENCH_ZIPF, 64, 13, false},
        {"mix50-64-zipf", BENCH_MIX, BENCH_ZIPF, 64, 128, false},
        {"cas-64-hot", BENCH_CAS, BENCH_UNIFORM, 64, 0, false},
        {"bank-2", BENCH_TRANSFER, BENCH_UNIFORM, 64, 2, false},
        {"bank-4", BENCH_TRANSFER, BENCH_UNIFORM, 64, 4, false},
        {"bank-16", BENCH_TRANSFER, BENCH_UNIFORM, 64, 16, false},
        {"bank-64", BENCH_TRANSFER, BENCH_UNIFORM, 64, 64, false},
        {"scan-64", BENCH_SCAN, BENCH_UNIFORM, 64, 0, false},
        {"scan10-64", BENCH_PAGE, BENCH_UNIFORM, 64, 0, false},
        {"scan10-64-between", BENCH_AFTER, BENCH_UNIFORM, 64, 0, false},
        {"get-mixed-uniform", BENCH_GET, BENCH_UNIFORM, 64, 0, true},
        {"get-mixed-zipf", BENCH_GET, BENCH_ZIPF, 64, 0, true},
        {"get16-mixed-uniform", BENCH_GET_MANY, BENCH_UNIFORM, 64, 0, true},
        {"set-mixed-uniform", BENCH_MIX, BENCH_UNIFORM, 64, 256, true},
        {"set-mixed-zipf", BENCH_MIX, BENCH_ZIPF, 64, 256, true},
        {"mix95-mixed-zipf", BENCH_MIX, BENCH_ZIPF, 64, 13, true},
        {"get-1024-uniform", BENCH_GET, BENCH_UNIFORM, 1024, 0, false},
        {"get-1024-zipf", BENCH_GET, BENCH_ZIPF, 1024, 0, false},
        {"set-1024-uniform", BENCH_MIX, BENCH_UNIFORM, 1024, 256, false},
};
#define CASE_COUNT (sizeof(cases) / sizeof(cases[0]))

struct answer {
        uint64_t operations, ns, preempted, conflicts;
        int error;
        uint32_t pad[7];
};

/* Shared by the parent and its workers. The parent writes plain words before it moves @turn on;
 * workers write plain words before they move @finished on. */
struct control {
        /* turn: moved on by the parent; workers sleep on it. arrived: counted by workers at the
         * start of a slice; the parent resets it. finished: counted by workers; the parent sleeps
         * on it and resets it. */
        struct sb_word32 turn, arrived, finished;
        uint32_t handle, case_, processes; /* processes 0: end */
        uint64_t warm_ns, slice_ns;
        uint64_t pad[3];
        struct answer answers[BENCH_WORKERS_MAX];
};

struct worker {
        uint32_t index;
        struct control *control;
        void *handles[BENCH_PEERS];
        uint32_t *orders[BENCH_SPREAD_COUNT];
        uint32_t position[BENCH_SPREAD_COUNT];
        struct bench_key keys[BENCH_BATCH];
        unsigned char is_write[BENCH_BATCH];
        unsigned char value[1024];
        uint64_t value_number;
        uint64_t conflicts;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
        (void)number;
        interrupted = 1;
}

static int futex_wait(struct sb_word32 *cell, uint32_t value, uint64_t ns)
{
        struct timespec timeout = {
                .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

        return (int)syscall(SYS_futex, cell, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static void futex_wake(struct sb_word32 *cell)
{
        syscall(SYS_futex, cell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static bool has_peer(
        const struct bench_settings *settings, uint32_t handle, const struct bench_case *case_)
{
        return settings->peer_mask >> handle & 1 &&
               (!case_ || bench_peers[handle]->ops >> case_->op & 1);
}

static bool has_case(const struct bench_settings *settings, const struct bench_case *case_)
{
        return !settings->only || strstr(case_->name, settings->only);
}

static bool in_phase(const struct bench_case *case_, uint32_t value_len)
{
        return case_->value_len == value_len && case_->mixed == bench_keys_mixed;
}

/* ---- a worker ---- */

/* Another account than @first. */
static uint32_t second_account(uint32_t first, uint32_t entry, uint32_t accounts)
{
        return (first + 1 + entry % (accounts - 1)) % accounts;
}

static void batch_fill(
        struct worker *worker, const struct bench_case *case_, struct bench_batch *ret)
{
        const uint32_t *order = worker->orders[case_->spread];
        uint32_t at = worker->position[case_->spread], before = 0;

        if (case_->op == BENCH_CAS) /* nothing else: a worker that computes does not contend */
                bench_key_write(0, &worker->keys[0]);
        for (uint32_t i = 0; i < BENCH_BATCH && case_->op != BENCH_CAS; i++) {
                uint32_t entry = order[(at + i) & (BENCH_ORDER_LEN - 1)],
                         number = entry & (BENCH_KEYS_MAX - 1);

                if (case_->op == BENCH_TRANSFER)
                        number = i & 1 ? second_account(before, number, case_->number)
                                       : number % case_->number;
                before = number;
                bench_key_write(number, &worker->keys[i]);
                worker->is_write[i] = entry >> 24 < case_->number;
        }
        worker->position[case_->spread] = (at + BENCH_BATCH) & (BENCH_ORDER_LEN - 1);
        worker->value_number++;
        memcpy(worker->value, &worker->value_number, sizeof(worker->value_number));
        *ret = (struct bench_batch){.op = case_->op,
                .count = case_->op == BENCH_TRANSFER ? BENCH_BATCH / 2 : BENCH_BATCH,
                .value_len = case_->value_len,
                .value = worker->value,
                .is_write = worker->is_write,
                .keys = worker->keys,
                .conflicts = &worker->conflicts};
}

static void slice_run(struct worker *worker, const struct control *control, struct answer *ret)
{
        const struct bench_case *case_ = &cases[control->case_];
        const struct bench_peer *handle = bench_peers[control->handle];
        uint64_t now = bench_now_ns(), measure_ns = now + control->warm_ns,
                 end_ns = measure_ns + control->slice_ns;
        struct answer answer = {0};
        struct rusage usage;
        struct bench_batch batch;

        while (now < end_ns || !answer.ns) {
                uint64_t start_ns, conflicts = worker->conflicts;
                uint32_t done;
                long switches;

                batch_fill(worker, case_, &batch);
                getrusage(RUSAGE_THREAD, &usage);
                switches = usage.ru_nivcsw;
                start_ns = bench_now_ns();
                done = handle->run(worker->handles[control->handle], &batch);
                now = bench_now_ns();
                if (done != batch.count && case_->op != BENCH_CAS)
                        answer.error = -EIO;
                getrusage(RUSAGE_THREAD, &usage);
                if (start_ns < measure_ns)
                        continue;
                if (usage.ru_nivcsw != switches && !handle->is_server) {
                        answer.preempted++;
                        continue;
                }
                answer.operations += done;
                answer.conflicts += worker->conflicts - conflicts;
                answer.ns += now - start_ns;
        }
        *ret = answer;
}

/* Attach to all contenders, make the orders, and read every key once, so that all pages are mapped.
 */
static int worker_prepare(struct worker *worker, const struct bench_settings *settings,
        void *const *stores, uint32_t value_len)
{
        for (uint32_t i = 0; i < BENCH_SPREAD_COUNT; i++) {
                worker->orders[i] = bench_order_new(i, settings->key_count, worker->index);
                if (!worker->orders[i])
                        return -ENOMEM;
        }
        for (uint32_t i = 0; i < BENCH_PEERS; i++) {
                struct bench_batch batch = {
                        .op = BENCH_GET, .value_len = value_len, .keys = worker->keys};
                int r;

                if (!has_peer(settings, i, NULL))
                        continue;
                r = bench_peers[i]->attach(stores[i], worker->index, &worker->handles[i]);
                if (r)
                        return r;
                if (bench_peers[i]->is_server)
                        continue;
                for (uint32_t number = 0; number < settings->key_count; number += batch.count) {
                        uint32_t left = settings->key_count - number;

                        batch.count = left < BENCH_BATCH ? left : BENCH_BATCH;
                        for (uint32_t k = 0; k < batch.count; k++)
                                bench_key_write(number + k, &worker->keys[k]);
                        if (bench_peers[i]->run(worker->handles[i], &batch) != batch.count)
                                return -EIO;
                }
        }
        return 0;
}

static void worker_end(struct worker *worker, const struct bench_settings *settings)
{
        for (uint32_t i = 0; i < BENCH_PEERS; i++)
                if (has_peer(settings, i, NULL) && worker->handles[i])
                        bench_peers[i]->detach(worker->handles[i]);
        for (uint32_t i = 0; i < BENCH_SPREAD_COUNT; i++)
                free(worker->orders[i]);
        free(worker);
}

static void finish(struct control *control)
{
        /* R:finished > A:finished. The answer is written by now. */
        sb_add_full(&control->finished, 1);
        futex_wake(&control->finished);
}

static void worker_main(struct control *control, uint32_t index,
        const struct bench_settings *settings, void *const *stores, uint32_t value_len)
{
        struct worker *worker = calloc(1, sizeof(*worker));
        uint32_t turn = 0;

        if (!worker)
                _exit(1);
        worker->index = index;
        worker->control = control;
        control->answers[index].error = worker_prepare(worker, settings, stores, value_len);
        finish(control);
        for (;;) {
                /* A:turn. The parent wrote the plain words of @control before. */
                while (sb_load_acquire(&control->turn) == turn)
                        futex_wait(&control->turn, turn, BENCH_TICK_NS * 100);
                turn++;
                if (!control->processes)
                        break;
                if (index >= control->processes)
                        continue;
                sb_add_full(&control->arrived, 1);
                /* No edge: the workers only wait here for one another. */
                while (sb_load_acquire(&control->arrived) < control->processes)
                        sb_stall();
                slice_run(worker, control, &control->answers[index]);
                finish(control);
        }
        worker_end(worker, settings);
        _exit(0);
}

/* ---- the parent ---- */

struct crew {
        struct control *control;
        pid_t pids[BENCH_WORKERS_MAX];
        uint32_t count;
        uint32_t turn;
};

static int pin(uint32_t index)
{
        cpu_set_t all, one;

        if (sched_getaffinity(0, sizeof(all), &all) < 0)
                return -errno;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
                if (!CPU_ISSET(cpu, &all) || index--)
                        continue;
                CPU_ZERO(&one);
                CPU_SET(cpu, &one);
                return sched_setaffinity(0, sizeof(one), &one) < 0 ? -errno : 0;
        }
        return -ENODEV;
}

/* Wait until @wanted workers have finished. A worker that died ends the run. */
static int crew_wait(struct crew *crew, uint32_t wanted, const struct bench_settings *settings,
        void *const *stores)
{
        uint32_t seen;

        /* A:finished. The workers wrote their answers before. */
        while ((seen = sb_load_acquire(&crew->control->finished)) < wanted) {
                int status;

                if (futex_wait(&crew->control->finished, seen, BENCH_TICK_NS) < 0 && interrupted)
                        return -EINTR;
                if (waitpid(-1, &status, WNOHANG) > 0) {
                        fprintf(stderr, "bench-keys: a worker or a daemon ended with status 0x%x\n",
                                status);
                        return -ECHILD;
                }
                for (uint32_t i = 0; i < BENCH_PEERS; i++)
                        if (has_peer(settings, i, NULL) && bench_peers[i]->tick)
                                bench_peers[i]->tick(stores[i]);
        }
        sb_store_relaxed(&crew->control->finished, 0); /* ordered by the next turn */
        for (uint32_t i = 0; i < wanted; i++)
                if (crew->control->answers[i].error)
                        return crew->control->answers[i].error;
        return 0;
}

static void crew_order(struct crew *crew)
{
        sb_store_relaxed(&crew->control->arrived, 0); /* ordered by the turn */
        /* R:turn > A:turn. The plain words of the control are written by now. */
        sb_store_release(&crew->control->turn, ++crew->turn);
        futex_wake(&crew->control->turn);
}

static int crew_start(struct crew *crew, const struct bench_settings *settings, void *const *stores,
        uint32_t value_len)
{
        pid_t parent = getpid();

        memset(crew, 0, sizeof(*crew));
        crew->control = mmap(NULL, sizeof(*crew->control), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (crew->control == MAP_FAILED)
                return -ENOMEM;
        for (uint32_t i = 0; i < settings->process_count_count; i++)
                if (settings->process_counts[i] > crew->count)
                        crew->count = settings->process_counts[i];
        for (uint32_t i = 0; i < crew->count; i++) {
                crew->pids[i] = fork();
                if (crew->pids[i] < 0)
                        return -errno;
                if (crew->pids[i] == 0) {
                        prctl(PR_SET_PDEATHSIG, SIGKILL);
                        signal(SIGINT, SIG_IGN);
                        /* a process without the right to do so keeps the usual priority */
                        setpriority(PRIO_PROCESS, 0, -20);
                        if (getppid() != parent || pin(i) < 0)
                                _exit(1);
                        worker_main(crew->control, i, settings, stores, value_len);
                }
        }
        return crew_wait(crew, crew->count, settings, stores);
}

static void crew_stop(struct crew *crew, bool at_once)
{
        crew->control->processes = 0;
        crew_order(crew);
        for (uint32_t i = 0; i < crew->count; i++) {
                if (crew->pids[i] <= 0)
                        continue;
                if (at_once)
                        kill(crew->pids[i], SIGKILL);
                waitpid(crew->pids[i], NULL, 0);
        }
        munmap(crew->control, sizeof(*crew->control));
}

static int slice_order(struct crew *crew, const struct bench_settings *settings,
        void *const *stores, uint32_t case_, uint32_t handle, uint32_t processes, uint32_t round)
{
        struct control *control = crew->control;
        uint64_t preempted = 0, conflicts = 0, operations = 0, counted_ns = 0;
        double rate = 0;
        int r;

        control->case_ = case_;
        control->handle = handle;
        control->processes = processes;
        control->warm_ns = settings->warm_ns;
        control->slice_ns = settings->slice_ns;
        crew_order(crew);
        r = crew_wait(crew, processes, settings, stores);
        if (r)
                return r;
        for (uint32_t i = 0; i < processes; i++) {
                rate += (double)control->answers[i].operations * 1e9 /
                        (double)control->answers[i].ns;
                preempted += control->answers[i].preempted;
                conflicts += control->answers[i].conflicts;
                operations += control->answers[i].operations;
                counted_ns += control->answers[i].ns;
        }
        printf("slice %s %u %u %s %.0f %llu %.5f %.2f\n", cases[case_].name, processes, round,
                bench_peers[handle]->name, rate, (unsigned long long)preempted,
                (double)conflicts / (double)operations,
                (double)counted_ns / (double)(settings->slice_ns * processes));
        return 0;
}

static int case_run(struct crew *crew, const struct bench_settings *settings, void *const *stores,
        uint32_t case_)
{
        int r = 0;

        fprintf(stderr, "bench-keys: %s\n", cases[case_].name);
        for (uint32_t round = 0; round < settings->rounds; round++) {
                for (uint32_t p = 0; p < BENCH_PEERS; p++) {
                        uint32_t handle = (p + round) % BENCH_PEERS;

                        if (!has_peer(settings, handle, &cases[case_]))
                                continue;
                        for (uint32_t i = 0; i < settings->process_count_count && !r; i++)
                                r = slice_order(crew, settings, stores, case_, handle,
                                        settings->process_counts[i], round);
                        if (r)
                                return r;
                }
                fflush(stdout);
        }
        return 0;
}

/* Run without a clock, in one process: for a tool that counts instructions. */
static int profile_run(
        const struct bench_settings *settings, void *const *stores, uint32_t value_len)
{
        struct worker *worker = calloc(1, sizeof(*worker));
        struct bench_batch batch;
        int r;

        if (!worker)
                return -ENOMEM;
        r = worker_prepare(worker, settings, stores, value_len);
        for (uint32_t i = 0; i < CASE_COUNT && !r; i++) {
                if (!in_phase(&cases[i], value_len) || !has_case(settings, &cases[i]))
                        continue;
                for (uint32_t handle = 0; handle < BENCH_PEERS; handle++) {
                        if (!has_peer(settings, handle, &cases[i]))
                                continue;
                        for (uint64_t done = 0; done < settings->profile_ops; done += BENCH_BATCH) {
                                batch_fill(worker, &cases[i], &batch);
                                bench_peers[handle]->run(worker->handles[handle], &batch);
                        }
                }
        }
        worker_end(worker, settings);
        return r;
}

static int stores_create(const struct bench_settings *settings, uint32_t value_len,
        enum bench_pages pages, void **stores)
{
        struct bench_shape shape = {.key_count = settings->key_count,
                .value_len = value_len,
                .pages = pages,
                .agentd = settings->agentd};
        int r = 0;

        for (uint32_t i = 0; i < BENCH_PEERS && !r; i++)
                if (has_peer(settings, i, NULL)) {
                        r = bench_peers[i]->create(&shape, &stores[i]);
                        if (r)
                                fprintf(stderr,
                                        "bench-keys: %s cannot make its store in %s pages: %s\n",
                                        bench_peers[i]->name,
                                        pages == BENCH_PAGES_HUGE ? "huge" : "4 KiB",
                                        r < 0 ? strerror(-r) : "an unexpected answer");
                }
        return r;
}

static void stores_destroy(void **stores)
{
        for (uint32_t i = 0; i < BENCH_PEERS; i++)
                if (stores[i]) {
                        bench_peers[i]->destroy(stores[i]);
                        stores[i] = NULL;
                }
}

/* Run all cases with one size of value and one kind of keys. All contenders have the same kind of
 * pages: when the huge pages do not suffice for the last contender, because another process took
 * some, all contenders start again without huge pages. */
static int phase_run(const struct bench_settings *settings, uint32_t value_len, bool mixed)
{
        void *stores[BENCH_PEERS] = {NULL};
        struct crew crew = {0};
        uint32_t wanted = 0;
        int r;

        bench_keys_mixed = mixed;

        for (uint32_t i = 0; i < CASE_COUNT; i++)
                wanted += in_phase(&cases[i], value_len) && has_case(settings, &cases[i]);
        if (!wanted)
                return 0;
        r = stores_create(settings, value_len, settings->pages, stores);
        if (r && settings->pages == BENCH_PAGES_HUGE && !settings->pages_required) {
                stores_destroy(stores);
                r = stores_create(settings, value_len, BENCH_PAGES_PLAIN, stores);
                if (!r)
                        printf("# pages_%u%s 4 KiB\n", value_len, mixed ? "_mixed" : "");
        }
        if (!r && settings->profile_ops) {
                r = profile_run(settings, stores, value_len);
        } else if (!r) {
                r = crew_start(&crew, settings, stores, value_len);
                for (uint32_t i = 0; i < CASE_COUNT && !r; i++)
                        if (in_phase(&cases[i], value_len) && has_case(settings, &cases[i]))
                                r = case_run(&crew, settings, stores, i);
                crew_stop(&crew, r != 0);
        }
        stores_destroy(stores);
        return r;
}

static void print_about(const struct bench_settings *settings)
{
        struct utsname name;
        char line[256];
        FILE *file = fopen("/proc/cpuinfo", "re");

        while (file && fgets(line, sizeof(line), file))
                if (strncmp(line, "model name", 10) == 0) {
                        printf("# processor%s", strchr(line, ':') + 1);
                        break;
                }
        if (file)
                fclose(file);
        uname(&name);
        printf("# cores %ld\n# kernel %s\n# pages %s\n# keys %u\n# rounds %u\n# slice_ms %.0f\n",
                sysconf(_SC_NPROCESSORS_ONLN), name.release,
                settings->pages == BENCH_PAGES_HUGE ? "2 MiB" : "4 KiB", settings->key_count,
                settings->rounds, (double)settings->slice_ns / 1e6);
}

/* How much memory the largest phase needs, for all contenders together. */
static uint64_t bytes_needed(const struct bench_settings *settings)
{
        uint64_t most = 0;

        for (uint32_t i = 0; i < CASE_COUNT; i++) {
                uint64_t bytes = 0;

                if (!has_case(settings, &cases[i]))
                        continue;
                bench_keys_mixed = cases[i].mixed;
                for (uint32_t handle = 0; handle < BENCH_PEERS; handle++)
                        if (has_peer(settings, handle, NULL) && !bench_peers[handle]->is_server)
                                bytes +=
                                        bench_segment_size(settings->key_count, cases[i].value_len);
                if (bytes > most)
                        most = bytes;
        }
        return most;
}

int main(int argc, char **argv)
{
        struct bench_settings settings = {.key_count = 1000000,
                .rounds = 9,
                .slice_ns = 100000000,
                .warm_ns = 40000000,
                .peer_mask = BENCH_PEERS_USUAL,
                .agentd = "agentd/agentd"};
        struct sigaction action = {.sa_handler = on_signal};
        const char *pages = "auto";
        int r;

        if (bench_options_parse(argc, argv, &settings, &pages) < 0) {
                bench_options_usage();
                return 2;
        }
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGPIPE, &action, NULL); /* as of `bench-keys | head` */
        if (strcmp(pages, "off") != 0 && bench_pages_reserve(bytes_needed(&settings)))
                settings.pages = BENCH_PAGES_HUGE;
        settings.pages_required = strcmp(pages, "require") == 0;
        if (settings.pages_required && settings.pages != BENCH_PAGES_HUGE) {
                fprintf(stderr, "bench-keys: no %llu MiB in huge pages\n",
                        (unsigned long long)(bytes_needed(&settings) >> 20));
                return 1;
        }
        print_about(&settings);
        r = phase_run(&settings, 64, false);
        if (!r)
                r = phase_run(&settings, 64, true);
        if (!r)
                r = phase_run(&settings, 1024, false);
        bench_pages_restore();
        if (r)
                fprintf(stderr, "bench-keys: ended early: %s\n",
                        r < 0 ? strerror(-r) : "an unexpected answer");
        return r ? 1 : 0;
}
