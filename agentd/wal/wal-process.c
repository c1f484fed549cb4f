/* The process that writes the log; see wal-process.h. */
#define _GNU_SOURCE
#include "agentd/wal/wal-process.h"

#include <errno.h>
#include <inttypes.h>
#include <mimalloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agentd/log.h"
#include "agentd/wal/wal-finish.h"
#include "agentd/wal/wal-lock.h"
#include "agentd/wal/wal-log.h"
#include "ring/attach/place.h"
#include "ring/log/batch.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/superblock.h"
#include "shm/notify/bell.h"
#include "shm/notify/durable.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/work.h"

#define RETRY_NS   UINT64_C(1000000000)  /* behind trouble with the disk */
#define AGAIN_NS   UINT64_C(10000000)    /* where the bus had no cut for a batch */
#define LOOK_NS    UINT64_C(100000000)   /* between looks at how much has changed */
#define NAMES_NS   UINT64_C(1000000000)  /* between looks at the files' names, without a batch */
#define COPY_NS    UINT64_C(20000000000) /* for a copy at the end: agentctl stop waits for 30 s */
#define SAY_NS     UINT64_C(1000000000)
#define SPIN_NS    UINT64_C(50000) /* for the next strict write, behind one */
#define SPIN_TURNS 4u

struct wal_process {
        struct sb_wal_log log;
        uint64_t retry_ns; /* not before this, behind trouble */
        uint64_t spin_until_ns;
        int error;         /* -errno: why nothing becomes durable */
        uint64_t look_ns;  /* at how much has changed */
        uint64_t names_ns; /* when to look at the files' names */
        bool ended;        /* by trouble, as --on-disk-error says */
};

/* ---- signals ---- */

static struct sb_word32 wal_process_stop;
static struct sb_word32 wal_process_stop_at_once; /* told twice */
static const struct sb_segment *wal_process_segment;

/* Told to stop by the engine, which does it when the bus is not served any more. While it is, the
 * signal is another process's, mostly one for all of agentd's: a log that ended by it would end
 * before the last writes, and the engine take that for the end it asked for. */
static void wal_process_hear(int signal)
{
        (void)signal;
        /* Relaxed: the engine's signal comes behind the store of the state. Fault STOPS_FOR_ANY:
         * not asked. */
        if (sb_load_relaxed(&wal_process_segment->super->state) & SB_SEGMENT_SERVING &&
                !SB_FAULT(STOPS_FOR_ANY))
                return;
        /* R:stop > A:stop. Before the wake. */
        if (sb_exchange_full(&wal_process_stop, 1))
                sb_exchange_full(&wal_process_stop_at_once, 1); /* R:stop > A:stop. */
        sb_bell_wake(wal_process_segment, sb_durable_slot(wal_process_segment));
}

static bool wal_process_is_stopped(void)
{
        return sb_load_acquire(&wal_process_stop); /* A:stop. */
}

static bool wal_process_is_told_twice(void)
{
        return sb_load_acquire(&wal_process_stop_at_once); /* A:stop. */
}

static void wal_process_take_signals(const struct sb_segment *segment)
{
        struct sigaction action = {.sa_handler = wal_process_hear};
        sigset_t set;

        wal_process_segment = segment;
        sigaction(SIGTERM, &action, NULL);
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- trouble ---- */

static uint64_t wal_process_now(void)
{
        return sb_os_linux.now_ns(sb_os_linux.context);
}

/* Say it once. */
static void wal_process_say(const struct wal_process *process, int r)
{
        static const char *const sentences[] = {
                [SB_TROUBLE_CONTINUE] = "what is written does not become durable",
                [SB_TROUBLE_READ_ONLY] = "the bus is read-only",
                [SB_TROUBLE_STOP] = "agentd stops, as --on-disk-error says",
        };
        const struct sb_config *config = process->log.config;

        if (r == process->error)
                return;
        sb_log("%s: the log in %s cannot be written (%s)%s", sentences[config->trouble],
                config->place.directory, process->log.reason ? process->log.reason : strerror(-r),
                config->trouble == SB_TROUBLE_STOP ? "" : "; it is tried again each second");
}

/* Between the two states in which the bus is served; another one, which is its end, stays. */
static void wal_process_take_writes(const struct wal_process *process, bool takes)
{
        struct sb_word32 *state = &process->log.handle.segment.super->state;
        uint32_t from = takes ? SB_SEGMENT_READ_ONLY : SB_SEGMENT_SERVING;

        /* Each call of a client reads that line: it is written where it changes alone. */
        if (sb_load_relaxed(state) != from)
                return;
        /* R:state. Clients look at it by itself. */
        (void)sb_cas32_full(state, from, takes ? SB_SEGMENT_SERVING : SB_SEGMENT_READ_ONLY);
}

/* Nothing becomes durable for now: clients that wait are told, and people. */
static void wal_process_fail(struct wal_process *process, int r)
{
        bool disk = r != -EAGAIN && r != -EBUSY;

        process->retry_ns = wal_process_now() + (disk ? RETRY_NS : AGAIN_NS);
        if (!disk)
                return;
        wal_process_say(process, r);
        process->error = r;
        if (process->log.config->trouble == SB_TROUBLE_READ_ONLY)
                wal_process_take_writes(process, false);
        process->ended = process->log.config->trouble == SB_TROUBLE_STOP;
        sb_durable_tell(&process->log.handle.segment, (uint32_t)-r);
}

/* A batch is durable. */
static void wal_process_be_well(struct wal_process *process)
{
        if (process->error)
                sb_log("the log is written again: what was written so far is durable");
        process->error = 0;
        wal_process_take_writes(process, true);
}

/* ---- the loop ---- */

/* Whether there is something new to write. */
static bool wal_process_is_due(const struct wal_process *process)
{
        const struct sb_wal_log *log = &process->log;
        const struct sb_segment *segment = &log->handle.segment;

        /* A:unlogged. */
        return process->error || log->batch.all || log->batch.marks.count ||
               sb_load_acquire(&segment->unlogged[segment->unlogged_levels - 1][0]);
}

static bool wal_process_is_wanted(const struct sb_wal_log *log)
{
        const struct sb_superblock *super = log->handle.segment.super;

        return sb_load_acquire(&super->wanted) > log->batch.above; /* A:wanted. */
}

/* For people: where nothing is to be written, all is durable. */
static void wal_process_say_all_is(const struct wal_process *process)
{
        uint64_t now = sb_os_linux.realtime_ns(sb_os_linux.context);

        if (!wal_process_is_due(process))
                sb_store_relaxed(&process->log.handle.segment.super->log_cut_ns, now);
}

/* Wait until there is something to do, or @until_ns. */
static void wal_process_wait(struct wal_process *process, uint64_t until_ns)
{
        struct sb_handle *handle = &process->log.handle;
        uint64_t bits;
        uint32_t word;

        while (wal_process_now() < process->spin_until_ns) {
                if (sb_bell_is_dirty(handle))
                        break;
                sb_os_linux.spin(sb_os_linux.context, SPIN_TURNS);
        }
        if (!sb_bell_is_dirty(handle))
                (void)sb_bell_sleep(handle, &wal_process_stop, until_ns);
        while (sb_bell_take(handle, &word, &bits))
                ;
}

/* One batch. */
static void wal_process_batch(struct wal_process *process, bool wanted)
{
        int r;

        if (wanted)
                process->log.waited_ns = wal_process_now();
        r = sb_wal_log_batch(&process->log);
        if (r) {
                wal_process_fail(process, r);
                return;
        }
        wal_process_be_well(process);
        if (wanted)
                process->spin_until_ns = wal_process_now() + SPIN_NS;
}

/* Whether it is time for a batch. */
static bool wal_process_is_time(const struct wal_process *process, uint64_t now)
{
        const struct sb_wal_log *log = &process->log;

        return now >= sb_wal_log_copy_due_ns(log) ||
               (now >= sb_wal_log_due_ns(log) && wal_process_is_due(process)) ||
               (now >= process->look_ns && sb_wal_log_is_full(log));
}

/* When to look again, if no client rings. */
static uint64_t wal_process_next(struct wal_process *process, uint64_t now)
{
        uint64_t until = sb_wal_log_due_ns(&process->log);
        uint64_t copy = sb_wal_log_copy_due_ns(&process->log);

        if (until <= now)
                until = now + (uint64_t)process->log.config->flush_ms * 1000000u;
        process->look_ns = now + LOOK_NS;
        if (until > process->look_ns)
                until = process->look_ns;
        return copy < until ? copy : until;
}

/* A bus that does not change has files, too. */
static void wal_process_look(struct wal_process *process, uint64_t now)
{
        int r;

        if (now < process->names_ns)
                return;
        process->names_ns = now + NAMES_NS;
        r = sb_wal_log_look(&process->log);
        if (r)
                wal_process_fail(process, r);
}

/* One turn: a batch, if it is time for one. */
static void wal_process_turn(struct wal_process *process)
{
        uint64_t now = wal_process_now();
        bool wanted = wal_process_is_wanted(&process->log);

        if (now < process->retry_ns) {
                wal_process_wait(process, process->retry_ns);
        } else if (wanted || wal_process_is_time(process, now)) {
                process->look_ns = UINT64_MAX;
                wal_process_batch(process, wanted);
        } else {
                sb_work_due(&process->log.handle);
                wal_process_say_all_is(process);
                wal_process_look(process, now);
                wal_process_wait(process, wal_process_next(process, now));
        }
}

/* ---- beginning and end ---- */

/* Take the log's record, and begin. Return: 0, -errno. */
static int wal_process_begin(struct sb_wal_log *log, const struct sb_segment *segment)
{
        struct sb_roster_identity identity = {.pid = (uint32_t)getpid(),
                .uid = geteuid(),
                .access = SB_PEER,
                .attached_ns = wal_process_now()};
        struct sb_segment copy = *segment;
        uint32_t slot, generation;
        void *space, *marks;

        space = mi_malloc(sb_handle_space(&segment->geometry));
        marks = mi_zalloc(sb_batch_space(&segment->geometry));
        if (!space || !marks || sb_wal_stage_init(&log->stage) || sb_wal_stage_init(&log->pieces)) {
                sb_log("the log cannot start: no memory");
                return -ENOMEM;
        }
        if (sb_os_register() ||
                sb_roster_claim(&copy, sb_durable_slot(segment), &identity, &slot, &generation)) {
                sb_log("the log cannot start: its record is in use");
                return -EBUSY;
        }
        sb_handle_init(&log->handle, segment, slot, generation, space);
        sb_batch_init(segment, marks, sb_durable_cut(segment), &log->batch);
        sb_durable_take_over(segment);
        sb_wal_log_begin(log);
        wal_process_take_signals(&log->handle.segment);
        return 0;
}

/* Descriptors that are the engine's alone: clients' connections, above all. */
static void wal_process_keep_descriptors(int directory_fd)
{
        if (directory_fd > STDERR_FILENO + 1)
                (void)syscall(SYS_close_range, STDERR_FILENO + 1, directory_fd - 1, 0);
        (void)syscall(SYS_close_range, directory_fd + 1, ~0u, 0);
}

/* Where the directory was removed, the locks come with another one (wal-lock.h). Return: 0, -errno.
 */
static int wal_process_lock(struct sb_wal_log *log)
{
        int r = 0;

        log->nameless = sb_wal_lock_is_homeless(log->directory_fd);
        if (!log->nameless)
                r = sb_wal_lock(log->config->place.directory, log->directory_fd);
        return r < 0 ? r : 0;
}

/* All is durable, and the log may have more changes than the bus has bytes: a copy of the bus lets
 * a start read less. It ends early when agentd is told to stop once more, when it takes too long,
 * and when the disk fails: then a start reads what it would have read without. */
static void wal_process_copy(struct wal_process *process)
{
        struct sb_wal_log *log = &process->log;
        uint64_t now = wal_process_now(), until = now + COPY_NS, said = now;
        uint32_t percent = 0;
        int r = 0;

        if (wal_process_is_told_twice() || !sb_wal_finish_begin(log))
                return;
        sb_log("all is durable; the bus is copied into its log, so that the next start reads less");
        do { /* Bound: result. */
                r = sb_wal_log_batch(log);
                now = wal_process_now();
                if (r || !sb_wal_finish_goes_on(log, &percent))
                        break;
                if (now - said >= SAY_NS) {
                        said = now;
                        sb_log("the copy of the bus is at %u %%; a second SIGTERM leaves it out",
                                percent);
                }
        } while (now < until && !wal_process_is_told_twice());
        if (r || sb_wal_finish_goes_on(log, &percent))
                sb_log("the copy of the bus was left out at %u %% (%s): all is durable without it",
                        percent,
                        r                             ? strerror(-r)
                        : wal_process_is_told_twice() ? "told to stop again"
                                                      : "it takes too long");
}

/* What was written up to now is to be durable. Return: 0: it is, or nothing was written; -errno. */
static int wal_process_finish(struct wal_process *process)
{
        struct sb_wal_log *log = &process->log;
        int r = sb_wal_log_look(log);

        if (r)
                wal_process_fail(process, r);
        if (process->ended)
                return r;
        r = wal_process_is_due(process) ? sb_wal_log_batch(log) : 0;
        if (!r) {
                wal_process_be_well(process);
                wal_process_copy(process);
                return 0;
        }
        sb_log("the log in %s cannot be written (%s)", log->config->place.directory,
                log->reason ? log->reason : strerror(-r));
        if (sb_wal_log_has_more(log))
                return r;
        sb_log("nothing was written that is not durable: nothing is lost");
        return 0;
}

static int wal_process_run(
        const struct sb_config *config, int directory_fd, const struct sb_segment *segment)
{
        struct wal_process process = {.log = {.config = config, .directory_fd = directory_fd}};
        int r;

        r = wal_process_lock(&process.log);
        if (!r)
                r = wal_process_begin(&process.log, segment);
        if (r) {
                if (!SB_FAULT(UNSTARTED_UNTOLD))
                        sb_durable_tell(segment, (uint32_t)-r);
                return EXIT_FAILURE;
        }
        /* What was told last of trouble stands until a batch is durable. Relaxed: the processes
         * that wrote it have ended. */
        process.error = -(int)sb_load_relaxed(&segment->super->log_error);
        while (!wal_process_is_stopped() && !process.ended)
                wal_process_turn(&process);
        if (!process.ended)
                r = wal_process_finish(&process);
        if (!r && !process.ended && process.log.lock_fd)
                sb_wal_lock_say_well(process.log.lock_fd);
        sb_wal_log_end(&process.log);
        sb_handle_fini(&process.log.handle);
        return process.ended ? SB_WAL_PROCESS_GAVE_UP : r ? EXIT_FAILURE : EXIT_SUCCESS;
}

int sb_wal_process_start(const struct sb_config *config, int directory_fd,
        const struct sb_segment *segment, int *ret_pidfd)
{
        pid_t parent = getpid(), child = fork();
        int error;

        if (child < 0)
                return -errno;
        if (child) {
                *ret_pidfd = (int)syscall(SYS_pidfd_open, child, 0);
                if (*ret_pidfd >= 0)
                        return child;
                error = errno;
                /* No event would tell of its end. */
                (void)kill(child, SIGKILL);
                (void)waitpid(child, NULL, 0);
                return -error;
        }
        prctl(PR_SET_NAME, "agentd-log");
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
                _exit(EXIT_FAILURE);
        wal_process_keep_descriptors(directory_fd);
        _exit(wal_process_run(config, directory_fd, segment));
}
