/* The process that writes the log; see wal-process.h. */
#define _GNU_SOURCE
#include "agentd/wal/wal-process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mimalloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agentd/log.h"
#include "agentd/wal/wal-backend.h"
#include "agentd/wal/wal-io.h"
#include "agentd/wal/wal-stage.h"
#include "agentd/wal/wal-writer.h"
#include "ring/attach/place.h"
#include "ring/log/batch.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/times.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/notify/bell.h"
#include "shm/notify/durable.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/work.h"

#define LOCK_NAME  "log.lock"
#define RETRY_NS   UINT64_C(1000000000) /* behind trouble with the disk */
#define SPIN_NS    UINT64_C(50000)      /* for the next strict write, behind one */
#define SPIN_TURNS 4u
#define SPARES     1u
/* A copy goes on at this pace, unless the log grows so fast that it would not end in time. */
#define COPY_BYTES    (256u << 10) /* of a batch */
#define COPY_PAUSE_NS UINT64_C(10000000)
#define COPY_FLOORS   65536u /* buckets that are looked at with a batch */

/* A copy of the bus into the log, a piece with each batch (batch.h): first all keys, then, behind
 * the last look at a key, the floors of all buckets. So a key that is taken out meanwhile is in the
 * one or in the other. */
struct wal_copy {
        uint64_t since; /* the first batch that has a piece of it; 0: none goes on */
        uint64_t above; /* the last cut before */
        uint64_t words; /* of buckets, with a batch */
        uint64_t floor_next, floor_end;
        uint64_t changed; /* bytes of changes since it began */
        uint64_t due_ns;
};

struct wal_process {
        const struct sb_config *config;
        int directory_fd;
        struct sb_handle handle;
        struct sb_batch batch;
        struct sb_wal_stage stage;
        struct sb_wal_io io;
        struct sb_wal_writer *writer;
        uint64_t sequence; /* of the last durable batch */
        uint64_t written;  /* bytes since the log began, or began anew; or how long it is */
        struct wal_copy copy;
        uint64_t begun_ns; /* the last batch */
        uint64_t retry_ns; /* not before this, behind trouble */
        uint64_t spin_until_ns;
        int error; /* -errno: why nothing becomes durable */
};

/* ---- signals ---- */

static struct sb_word32 wal_process_stop;
static const struct sb_segment *wal_process_segment;

static void wal_process_hear(int signal)
{
        (void)signal;
        /* R:stop > A:stop. Before the wake. */
        sb_exchange_full(&wal_process_stop, 1);
        sb_bell_wake(wal_process_segment, sb_durable_slot(wal_process_segment));
}

static bool wal_process_is_stopped(void)
{
        return sb_load_acquire(&wal_process_stop); /* A:stop. */
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

/* Nothing becomes durable for now: clients that wait are told, and people, once. */
static void wal_process_fail(struct wal_process *log, int r)
{
        if (r != log->error)
                sb_log("what is written does not become durable: the log in %s cannot be written "
                       "(%s); it is tried again each second",
                        log->config->place.directory, strerror(-r));
        log->error = r;
        log->retry_ns = wal_process_now() + RETRY_NS;
        sb_durable_tell(&log->handle.segment, (uint32_t)-r);
}

/* ---- the writer ---- */

/* Which batch has the cut that is durable. */
static uint64_t wal_process_find_sequence(const struct sb_segment *segment, uint64_t durable)
{
        const struct sb_word64 *batch = segment->super->log_batch;

        for (uint32_t i = 0; i < 4; i += 2)
                /* A:durable, both. */
                if (sb_load_acquire(&batch[i + 1]) == durable)
                        return sb_load_acquire(&batch[i]);
        return 0;
}

static int wal_process_open_writer(struct wal_process *log)
{
        const struct sb_superblock *super = log->handle.segment.super;
        uint64_t durable = sb_durable_cut(&log->handle.segment);
        struct sb_wal_writer_options options = {.directory_fd = log->directory_fd,
                .io = &log->io,
                .hash_seed = super->seed,
                .cut = durable,
                .spares_wanted = SPARES};
        const char *reason = NULL;
        int r;

        if (!log->io.context) {
                r = sb_wal_backend_open(log->config->io, log->directory_fd, &log->io, &reason);
                if (r)
                        return r;
                if (reason)
                        sb_log("the log is written without io_uring: %s", reason);
        }
        memcpy(options.id, super->log_id, sizeof(options.id));
        options.sequence = log->sequence = wal_process_find_sequence(&log->handle.segment, durable);
        /* To begin at 0 would say that all files before count no more. */
        if (durable && !log->sequence)
                return -EBADMSG;
        r = sb_wal_writer_open(&options, &log->writer);
        if (!r)
                log->written = sb_wal_writer_bytes(log->writer);
        return r;
}

/* The writer, ready for a batch. */
static int wal_process_ready(struct wal_process *log)
{
        if (!log->writer)
                return wal_process_open_writer(log);
        return log->error ? sb_wal_writer_resume(log->writer) : 0;
}

/* ---- a batch ---- */

static bool wal_process_take(const struct sb_batch_entry *entry, void *context)
{
        struct wal_process *log = context;

        if (!sb_wal_stage_add(&log->stage, entry))
                return false;
        if (entry->stamp > log->batch.above)
                log->copy.changed += entry->key_len + entry->value_len + SB_WAL_ENTRY_HEAD;
        return true;
}

static int wal_process_room(uint64_t size, void *context)
{
        struct wal_process *log = context;
        int r = sb_wal_stage_write(&log->stage, log->writer, &log->written);

        return r ? r : sb_wal_stage_reserve(&log->stage, size);
}

/* A word of the bus, as an entry. */
static int wal_process_add_word(struct wal_process *log, uint64_t which, uint64_t value)
{
        struct sb_wal_entry entry = {.kind = SB_WAL_WORD, .which = which, .rev = value};

        return sb_wal_writer_add(log->writer, &entry);
}

/* The floors of these buckets. */
static int wal_process_add_floors(struct wal_process *log, uint64_t first, uint64_t end)
{
        const struct sb_segment *segment = &log->handle.segment;
        struct sb_wal_entry entry = {.kind = SB_WAL_FLOOR};
        int r = wal_process_add_word(log, SB_WAL_WORD_BUCKETS, segment->bucket_count);

        for (entry.which = first; entry.which < end && !r; entry.which++) {
                entry.rev = sb_load_acquire(&segment->floors[entry.which]); /* A:floor. */
                if (entry.rev)
                        r = sb_wal_writer_add(log->writer, &entry);
        }
        return r;
}

/* All keys of the batch. */
static int wal_process_each(struct wal_process *log)
{
        int r = 0;

        if (log->batch.whole) {
                log->written = 0;
                r = wal_process_add_word(log, SB_WAL_WORD_WHOLE, 0);
        }
        if (!r)
                r = sb_batch_each(
                        &log->handle, &log->batch, wal_process_take, wal_process_room, log);
        return r ? r : sb_wal_stage_write(&log->stage, log->writer, &log->written);
}

static int wal_process_compare_cuts(const void *a, const void *b)
{
        const struct sb_moment *one = a, *other = b;

        return (one->cut > other->cut) - (one->cut < other->cut);
}

/* When cuts were taken, as far as the bus knows: from here on no earlier batch says so. */
static int wal_process_add_times(struct wal_process *log)
{
        const struct sb_segment *segment = &log->handle.segment;
        struct sb_moment *moments = mi_malloc(
                (size_t)segment->geometry.times_count * SB_TIME_LEVELS * sizeof(*moments));
        struct sb_wal_entry entry = {.kind = SB_WAL_TIME};
        uint32_t count, i;
        int r = 0;

        if (!moments)
                return -ENOMEM;
        count = sb_times_list(segment, moments);
        qsort(moments, count, sizeof(*moments), wal_process_compare_cuts);
        for (i = 0; i < count && !r; i++) {
                if (moments[i].cut == entry.rev || moments[i].cut > log->batch.cut)
                        continue;
                entry.rev = moments[i].cut;
                entry.which = moments[i].realtime_ns;
                r = sb_wal_writer_add(log->writer, &entry);
        }
        mi_free(moments);
        return r;
}

/* ---- a copy ---- */

/* Begin one when the log has grown enough; between two batches. */
static void wal_process_begin_copy(struct wal_process *log)
{
        if (log->copy.since || log->batch.all || !log->sequence ||
                log->written <= log->config->checkpoint_bytes)
                return;
        log->copy = (struct wal_copy){
                .since = log->sequence + 1, .above = log->batch.above, .words = 1};
        log->written = 0;
        sb_batch_copy(&log->batch);
}

/* How many words of buckets come into the open batch. By the time that as much was changed again,
 * all have been there: so fast writers cannot make the log grow for ever. */
static uint64_t wal_process_copy_words(const struct wal_process *log)
{
        uint64_t all = ((uint64_t)log->handle.segment.bucket_count + 63) / 64;
        uint64_t wanted = (uint64_t)((double)all * (double)log->copy.changed /
                                     (double)log->config->checkpoint_bytes);
        uint64_t late = wanted > log->batch.copy_next ? wanted - log->batch.copy_next : 0;
        uint64_t paced = log->begun_ns >= log->copy.due_ns ? log->copy.words : 0;

        return late > paced ? late : paced;
}

/* The piece of the copy that the open batch has. */
static void wal_process_copy_some(struct wal_process *log)
{
        uint64_t words;

        if (!log->copy.since || log->batch.whole)
                return;
        words = wal_process_copy_words(log);
        sb_batch_copy_some(
                &log->handle, &log->batch, words > UINT32_MAX ? UINT32_MAX : (uint32_t)words);
}

/* Behind the last key, the floors; with the last of them the copy is all that counts. Fault
 * COPY_WITHOUT_FLOORS: it ends without. */
static int wal_process_copy_floors(struct wal_process *log)
{
        uint64_t count = log->handle.segment.bucket_count;
        int r;

        log->copy.floor_end = log->copy.floor_next;
        if (!log->copy.since || log->batch.copying)
                return 0;
        log->copy.floor_end = count - log->copy.floor_next < COPY_FLOORS
                                      ? count
                                      : log->copy.floor_next + COPY_FLOORS;
        r = SB_FAULT(COPY_WITHOUT_FLOORS)
                    ? 0
                    : wal_process_add_floors(log, log->copy.floor_next, log->copy.floor_end);
        return r || log->copy.floor_end < count
                       ? r
                       : wal_process_add_word(log, SB_WAL_WORD_SINCE, log->copy.since);
}

/* Old files go. */
static void wal_process_release(struct wal_process *log, uint64_t cut)
{
        int r = sb_wal_writer_release(log->writer, cut);

        if (r)
                sb_log("old files of the log stay in %s (%s)", log->config->place.directory,
                        strerror(-r));
}

/* A batch is durable, and so is its piece of the copy. */
static void wal_process_count_copy(struct wal_process *log, uint64_t bytes)
{
        struct wal_copy *copy = &log->copy;

        if (!copy->since)
                return;
        copy->floor_next = copy->floor_end;
        copy->due_ns = wal_process_now() + COPY_PAUSE_NS;
        if (bytes < COPY_BYTES / 2 && copy->words < log->handle.segment.bucket_count)
                copy->words *= 2;
        else if (bytes > COPY_BYTES && copy->words > 1)
                copy->words /= 2;
        if (copy->floor_next < log->handle.segment.bucket_count)
                return;
        wal_process_release(log, copy->above);
        *copy = (struct wal_copy){0};
}

/* What the bus says of itself, behind the last look at a key. */
static int wal_process_add_words(struct wal_process *log)
{
        const struct sb_superblock *super = log->handle.segment.super;
        int r;

        /* A:history-floor, A:forgotten. */
        r = wal_process_add_word(
                log, SB_WAL_WORD_HISTORY_FLOOR, sb_load_acquire(&super->history_floor));
        if (!r)
                r = wal_process_add_word(
                        log, SB_WAL_WORD_FORGOTTEN, sb_load_acquire(&super->forgotten));
        if (!r && (log->batch.whole || log->copy.since == log->sequence + 1))
                r = wal_process_add_times(log);
        if (r)
                return r;
        return log->batch.whole ? wal_process_add_floors(log, 0, log->handle.segment.bucket_count)
                                : wal_process_copy_floors(log);
}

/* The batch that is open, onto the disk. */
static int wal_process_write(struct wal_process *log)
{
        struct timespec boot;
        int r;

        clock_gettime(CLOCK_BOOTTIME, &boot);
        r = sb_wal_writer_begin(log->writer, log->batch.cut,
                sb_os_linux.realtime_ns(sb_os_linux.context),
                (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec);
        if (!r)
                r = wal_process_each(log);
        if (!r && sb_batch_turns_whole(&log->handle, &log->batch))
                r = wal_process_each(log);
        /* The disk may take its time, and memory be short. */
        sb_batch_release(&log->handle, &log->batch);
        if (!r)
                r = wal_process_add_words(log);
        return r ? r : sb_wal_writer_end(log->writer);
}

/* The batch is on the disk: say which one it is, before its cut is durable. So the next log finds
 * the pair of the durable cut, wherever this one is killed. */
static void wal_process_note(struct wal_process *log)
{
        struct sb_word64 *slot;

        log->sequence++;
        slot = &log->handle.segment.super->log_batch[2 * (log->sequence % 2)];
        /* R:durable, both. The pair of the batch before stays as it is. */
        sb_store_release(&slot[0], log->sequence);
        sb_store_release(&slot[1], log->batch.cut);
}

/* The batch has ended. Fault LOG_PAIR_LATE: it is noted behind that, and the log is killed between.
 */
static void wal_process_end(struct wal_process *log, int r)
{
        if (!r && !SB_FAULT(LOG_PAIR_LATE))
                wal_process_note(log);
        sb_batch_end(&log->handle, &log->batch, !r);
        if (!r && SB_FAULT(LOG_PAIR_LATE))
                raise(SIGKILL);
}

/* Behind a durable batch: what may go, goes; what will be needed is made ready. No client waits. */
static void wal_process_tidy(struct wal_process *log, uint64_t before, uint64_t bytes)
{
        if (log->batch.whole) {
                log->copy = (struct wal_copy){0};
                wal_process_release(log, before);
        }
        wal_process_count_copy(log, bytes);
        (void)sb_wal_writer_prepare(log->writer);
}

/* Fault DURABLE_EARLY: clients are told before the disk has answered. */
static void wal_process_fault_early(struct wal_process *log)
{
        if (!SB_FAULT(DURABLE_EARLY))
                return;
        /* R:durable, too early: that is the fault. */
        sb_store_release(&log->handle.segment.super->durable, log->batch.cut);
        sb_durable_tell(&log->handle.segment, 0);
}

/* Return: 0, -errno. */
static int wal_process_batch(struct wal_process *log)
{
        uint64_t before = log->batch.above, written;
        int r = wal_process_ready(log);

        if (r)
                return r;
        log->begun_ns = wal_process_now();
        wal_process_begin_copy(log);
        if (sb_batch_begin(&log->handle, &log->batch))
                return -EBUSY;
        log->batch.whole = !log->sequence;
        wal_process_copy_some(log);
        written = log->written;
        sb_wal_stage_clear(&log->stage);
        wal_process_fault_early(log);
        r = wal_process_write(log);
        /* A batch that did not end is dropped: the writer begins another file. */
        if (r > 0)
                r = -EAGAIN;
        wal_process_end(log, r);
        if (r)
                return r;
        if (log->error)
                sb_log("the log is written again: what was written so far is durable");
        log->error = 0;
        sb_durable_tell(&log->handle.segment, 0);
        wal_process_tidy(log, before, log->written - written);
        return 0;
}

/* ---- the loop ---- */

/* Whether there is something new to write. */
static bool wal_process_is_due(const struct wal_process *log)
{
        const struct sb_segment *segment = &log->handle.segment;

        /* A:unlogged. */
        return log->batch.all || log->batch.marks.count ||
               sb_load_acquire(&segment->unlogged[segment->unlogged_levels - 1][0]);
}

static bool wal_process_is_wanted(const struct wal_process *log)
{
        const struct sb_superblock *super = log->handle.segment.super;

        return sb_load_acquire(&super->wanted) > log->batch.above; /* A:wanted. */
}

/* Wait until there is something to do, or @until_ns. */
static void wal_process_wait(struct wal_process *log, uint64_t until_ns)
{
        uint64_t bits;
        uint32_t word;

        while (wal_process_now() < log->spin_until_ns) {
                if (sb_bell_is_dirty(&log->handle))
                        break;
                sb_os_linux.spin(sb_os_linux.context, SPIN_TURNS);
        }
        if (!sb_bell_is_dirty(&log->handle))
                (void)sb_bell_sleep(&log->handle, &wal_process_stop, until_ns);
        while (sb_bell_take(&log->handle, &word, &bits))
                ;
}

/* One turn: a batch, if one is due. */
static void wal_process_turn(struct wal_process *log)
{
        uint64_t now = wal_process_now(),
                 due = log->begun_ns + (uint64_t)log->config->flush_ms * 1000000u;
        bool wanted = wal_process_is_wanted(log), copies = log->copy.since;
        int r;

        if (now < log->retry_ns) {
                wal_process_wait(log, log->retry_ns);
                return;
        }
        if (copies && log->copy.due_ns < due)
                due = log->copy.due_ns;
        if (!wanted && (now < due || !(copies || wal_process_is_due(log)))) {
                sb_work_due(&log->handle);
                wal_process_wait(
                        log, now < due ? due : now + (uint64_t)log->config->flush_ms * 1000000u);
                return;
        }
        r = wal_process_batch(log);
        if (r)
                wal_process_fail(log, r);
        else if (wanted)
                log->spin_until_ns = wal_process_now() + SPIN_NS;
}

/* ---- beginning and end ---- */

/* Return: the lock, held until the process ends; -1: another log has it. */
static int wal_process_lock(const struct wal_process *log)
{
        int fd = openat(
                log->directory_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0) {
                sb_log("%s/%s cannot be opened: %s", log->config->place.directory, LOCK_NAME,
                        strerror(errno));
                return -1;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                sb_log("the log waits: another process writes in %s still, perhaps one that hangs "
                       "in the disk",
                        log->config->place.directory);
                (void)flock(fd, LOCK_EX);
        }
        return fd;
}

/* Take the log's record, and begin. Return: 0, -1. */
static int wal_process_begin(struct wal_process *log, const struct sb_segment *segment)
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
        if (!space || !marks || sb_wal_stage_init(&log->stage)) {
                sb_log("the log cannot start: no memory");
                return -1;
        }
        if (sb_os_register() ||
                sb_roster_claim(&copy, sb_durable_slot(segment), &identity, &slot, &generation)) {
                sb_log("the log cannot start: its record is in use");
                return -1;
        }
        sb_handle_init(&log->handle, segment, slot, generation, space);
        sb_batch_init(segment, marks, sb_durable_cut(segment), &log->batch);
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

static int wal_process_run(
        const struct sb_config *config, int directory_fd, const struct sb_segment *segment)
{
        struct wal_process log = {.config = config, .directory_fd = directory_fd};

        if (wal_process_lock(&log) < 0 || wal_process_begin(&log, segment))
                return EXIT_FAILURE;
        while (!wal_process_is_stopped())
                wal_process_turn(&log);
        /* What was written up to now is to be durable. */
        if (!log.error && wal_process_is_due(&log))
                (void)wal_process_batch(&log);
        log.writer = sb_wal_writer_close(log.writer);
        sb_wal_backend_close(&log.io);
        sb_handle_fini(&log.handle);
        return EXIT_SUCCESS;
}

int sb_wal_process_start(const struct sb_config *config, int directory_fd,
        const struct sb_segment *segment, int *ret_pidfd)
{
        pid_t parent = getpid(), child = fork();

        if (child < 0)
                return -errno;
        if (child) {
                *ret_pidfd = (int)syscall(SYS_pidfd_open, child, 0);
                if (*ret_pidfd >= 0)
                        return child;
                (void)kill(child, SIGKILL);
                return -errno;
        }
        prctl(PR_SET_NAME, "agentd-log");
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
                _exit(EXIT_FAILURE);
        wal_process_keep_descriptors(directory_fd);
        _exit(wal_process_run(config, directory_fd, segment));
}
