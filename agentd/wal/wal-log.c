/* The log: batches onto the disk; see wal-log.h. */
#include "agentd/wal/wal-log.h"

#include <errno.h>
#include <mimalloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agentd/log.h"
#include "agentd/wal/wal-backend.h"
#include "agentd/wal/wal-bound.h"
#include "agentd/wal/wal-copy.h"
#include "agentd/wal/wal-lock.h"
#include "ring/wal/wal-entry.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/history/times.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/notify/durable.h"
#include "shm/notify/unlogged.h"

#define SPARES 1u
/* Bytes of the present file, from which on one is made. */
#define SPARE_FROM (SB_WAL_FILE_SIZE / 4)
#define BATCH_REST 10.0 /* times as long as a batch took, before --flush-bytes brings another */
/* Marked buckets: with fewer the cut is held for so short that writers leave little behind, and
 * what waits for the disk goes first. */
#define TIDIED_FROM 1000u
#define COPY_FLOORS 65536u /* buckets that are looked at with a batch */
#define CALLS_MOST  2u     /* copies that the files call for, one behind the other */

#define OCCUPIED                                                                                   \
        "its directory was removed, another agentd has the one of that name, and nothing of this " \
        "bus is on the disk: stop that one, move its directory away and make a new one, and all "  \
        "of it is written there"
#define NAMELESS                                                                                   \
        "files of it were removed, or cut: what they had is not durable, until a new one has all"

static uint64_t wal_log_now(void)
{
        return sb_os_linux.now_ns(sb_os_linux.context);
}

/* ---- the writer ---- */

/* What has the name of a file of the log and is none of its files. */
static void wal_log_hear_stranger(
        void *context, const char *name, const char *what, const char *now)
{
        struct sb_wal_log *log = context;

        if (now)
                sb_log("in the directory of the log %s, %s was %s, and no file of the log: it is "
                       "called %s now, and the log goes on",
                        log->config->place.directory, name, what, now);
        else
                snprintf(log->stranger, sizeof(log->stranger),
                        "%s is %s, and no file of the log: move it away, and all is written", name,
                        what);
}

/* Which batch has the cut that is durable; of two, for one has pieces of a copy alone, the last.
 * Fault LOG_PAIR_EARLY: one is found for the cut 0, which none has. */
static uint64_t wal_log_find_sequence(const struct sb_segment *segment, uint64_t durable)
{
        const struct sb_word64 *batch = segment->super->log_batch;
        uint64_t last = 0, sequence;

        if (!durable && !SB_FAULT(LOG_PAIR_EARLY))
                return 0;
        for (uint32_t i = 0; i < 4; i += 2) {
                /* A:durable, both. */
                if (sb_load_acquire(&batch[i + 1]) != durable)
                        continue;
                sequence = sb_load_acquire(&batch[i]);
                last = sequence > last ? sequence : last;
        }
        return last;
}

static int wal_log_open_writer(struct sb_wal_log *log)
{
        const struct sb_superblock *super = log->handle.segment.super;
        uint64_t durable = sb_durable_cut(&log->handle.segment);
        struct sb_wal_writer_options options = {.directory_fd = log->directory_fd,
                .io = &log->io,
                .hash_seed = super->seed,
                .cut = durable,
                .spares_wanted = SPARES,
                .strangers = &log->strangers};
        const char *reason = NULL;
        int r;

        if (!log->io.context) {
                r = sb_wal_backend_open(log->config->io, log->directory_fd, &log->io, &reason);
                if (r) {
                        log->reason = reason;
                        return r;
                }
                if (reason)
                        sb_log("the log is written without io_uring: %s", reason);
        }
        memcpy(options.id, super->log_id, sizeof(options.id));
        options.sequence = log->sequence = wal_log_find_sequence(&log->handle.segment, durable);
        /* To begin at 0 would say that all files before count no more. */
        if (durable && !log->sequence)
                return -EBADMSG;
        r = sb_wal_writer_open(&options, &log->writer);
        if (r)
                return r;
        log->written = sb_wal_writer_bytes(log->writer);
        /* Relaxed: the log's own word. */
        log->nameless |= sb_wal_writer_lacks(log->writer, sb_load_relaxed(&super->copied_above),
                sb_load_acquire(&super->log_file)); /* A:durable. */
        if (log->nameless && !log->reason)
                log->reason = NAMELESS;
        log->call = sb_wal_bound_call(log);
        return 0;
}

/* Files were removed, or the log has trouble of any kind: so has one of which the
 * directory was removed before it had a file there, or while it could write none. Where the
 * directory was, the log goes on in the one that is there now, as if it began, and so without what
 * it knew of files. Return: 0, -errno. */
static int wal_log_find_home(struct sb_wal_log *log)
{
        int r;

        if ((!log->nameless && !log->failed) || !sb_wal_lock_is_homeless(log->directory_fd))
                return 0;
        log->nameless = true;
        log->reason = SB_WAL_LOCK_HOMELESS;
        /* Relaxed: a number for people. */
        r = sb_wal_lock_again(log->config->place.directory, log->directory_fd,
                (pid_t)sb_load_relaxed(&log->handle.segment.super->supervisor), &log->lock_fd);
        log->writer = sb_wal_writer_close(log->writer);
        if (r != -EBUSY)
                return r;
        log->reason = OCCUPIED;
        return -EEXIST;
}

/* The writer, ready for a batch. Behind trouble it goes on in another file; by the one that it had,
 * the log has grown: so a disk that fails now and then brings copies, and these let such files go.
 */
static int wal_log_ready(struct sb_wal_log *log)
{
        int r;

        log->reason = log->nameless ? NAMELESS : NULL;
        log->stranger[0] = 0;
        r = wal_log_find_home(log);
        if (r)
                return r;
        if (!log->writer) {
                r = wal_log_open_writer(log);
        } else if (log->failed) {
                r = sb_wal_writer_resume(log->writer);
                if (!r && !SB_FAULT(SPELLS_UNCOUNTED))
                        log->written += SB_WAL_FILE_SIZE;
        }
        if (r && log->stranger[0])
                log->reason = log->stranger;
        return r;
}

/* ---- a batch ---- */

static bool wal_log_take(const struct sb_batch_entry *entry, void *context)
{
        struct sb_wal_log *log = context;
        bool piece = log->copy.since && !log->batch.whole && log->part != SB_WAL_LOG_CHANGES &&
                     entry->stamp <= log->batch.above;

        log->full = piece ? &log->pieces : &log->stage;
        if (!sb_wal_stage_add(log->full, entry))
                return false;
        if (entry->stamp > log->batch.above) {
                log->changed += entry->key_len + entry->value_len + SB_WAL_ENTRY_HEAD;
                log->users += entry->key_len + entry->value_len;
        }
        return true;
}

/* A batch is on the disk: say which one it is, before its cut is durable. So the next log finds the
 * pair of the durable cut, wherever this one is killed. The batch before the one before may have
 * the durable cut as well, where a batch of pieces lies between: so its cut goes first, and no cut
 * stands beside another batch's number. Which file it ends in is said, too: so the next log sees
 * that it was removed. Faults LOG_PAIR_TORN: it stays, and the log is killed there; LOG_PAIR_EARLY:
 * the log is killed there with its first batch; LOG_FILE_UNSAID: no file is said. */
static void wal_log_note(struct sb_wal_log *log, uint64_t cut)
{
        struct sb_word64 *slot;

        log->sequence++;
        slot = &log->handle.segment.super->log_batch[2 * (log->sequence % 2)];
        /* R:durable, all. The pair of the batch before stays as it is. */
        if (!SB_FAULT(LOG_FILE_UNSAID))
                sb_store_release(
                        &log->handle.segment.super->log_file, sb_wal_writer_file(log->writer));
        if (!SB_FAULT(LOG_PAIR_TORN))
                sb_store_release(&slot[1], 0);
        sb_store_release(&slot[0], log->sequence);
        if (SB_FAULT(LOG_PAIR_TORN) && log->batch.above && cut != log->batch.above &&
                sb_load_relaxed(&slot[1]) == log->batch.above)
                raise(SIGKILL);
        if (SB_FAULT(LOG_PAIR_EARLY) && log->sequence == 1)
                raise(SIGKILL);
        sb_store_release(&slot[1], cut);
}

/* The pieces of a copy that were read are a batch of their own, which goes no further than the
 * durable cut: so it has no change, and the next one says so (ring/wal/wal-reader.h). */
static int wal_log_write_pieces(struct sb_wal_log *log)
{
        int r = 0;

        if (log->part == SB_WAL_LOG_READING)
                r = sb_wal_writer_begin(
                        log->writer, log->batch.above, log->above_cut_ns, log->above_boot_ns);
        if (!r)
                log->part = SB_WAL_LOG_PIECES;
        return r ? r : sb_wal_stage_write(&log->pieces, log->writer, &log->written);
}

/* A word of the bus, as an entry. */
static int wal_log_add_word(struct sb_wal_log *log, uint64_t which, uint64_t value)
{
        struct sb_wal_entry entry = {.kind = SB_WAL_WORD, .which = which, .rev = value};

        return sb_wal_writer_add(log->writer, &entry);
}

/* The floors of these buckets. */
static int wal_log_add_floors(struct sb_wal_log *log, uint64_t first, uint64_t end)
{
        const struct sb_segment *segment = &log->handle.segment;
        struct sb_wal_entry entry = {.kind = SB_WAL_FLOOR};
        int r = wal_log_add_word(log, SB_WAL_WORD_BUCKETS, segment->bucket_count);

        for (entry.which = first; entry.which < end && !r; entry.which++) {
                entry.rev = sb_load_acquire(&segment->floors[entry.which]); /* A:floor. */
                if (entry.rev)
                        r = sb_wal_writer_add(log->writer, &entry);
        }
        return r;
}

static int wal_log_compare_cuts(const void *a, const void *b)
{
        const struct sb_moment *one = a, *other = b;

        return (one->cut > other->cut) - (one->cut < other->cut);
}

/* When cuts were taken, as far as the bus knows: from here on no earlier batch says so. The engine
 * may note this batch's cut later than the log has taken it: the batch itself says more. Another
 * cut may have a later time, too, where the clock was set back since. */
static int wal_log_add_times(struct sb_wal_log *log, uint64_t last)
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
        qsort(moments, count, sizeof(*moments), wal_log_compare_cuts);
        for (i = 0; i < count && !r; i++) {
                if (moments[i].cut == entry.rev || moments[i].cut > last ||
                        (moments[i].cut == log->batch.cut && moments[i].realtime_ns > log->cut_ns))
                        continue;
                entry.rev = moments[i].cut;
                entry.which = moments[i].realtime_ns;
                r = sb_wal_writer_add(log->writer, &entry);
        }
        mi_free(moments);
        return r;
}

/* Behind the last key, the floors: no batch has a piece with keys any more. Fault
 * COPY_WITHOUT_FLOORS: it ends without. */
static int wal_log_copy_floors(struct sb_wal_log *log)
{
        uint64_t count = log->handle.segment.bucket_count;

        return SB_FAULT(COPY_WITHOUT_FLOORS) || log->copy.floor_end == log->copy.floor_next
                       ? 0
                       : wal_log_add_floors(log, log->copy.floor_next,
                                 log->copy.floor_end < count ? log->copy.floor_end : count);
}

/* Which floors the open batch has. */
static void wal_log_count_floors(struct sb_wal_log *log)
{
        uint64_t count = log->handle.segment.bucket_count;

        log->copy.floor_end = log->copy.floor_next;
        if (!log->copy.since || (log->batch.copying && !log->copy.once))
                return;
        log->copy.floor_end = log->copy.once || count - log->copy.floor_next < COPY_FLOORS
                                      ? count
                                      : log->copy.floor_next + COPY_FLOORS;
}

/* The batch of pieces, if there are any: to its end, on the disk. */
static int wal_log_end_pieces(struct sb_wal_log *log)
{
        bool some =
                log->pieces.len || log->copy.begins || log->copy.floor_end != log->copy.floor_next;
        int r = 0;

        if (log->part == SB_WAL_LOG_READING && (log->batch.whole || !some))
                return 0;
        if (!log->batch.whole) {
                r = wal_log_write_pieces(log);
                if (!r && log->copy.begins)
                        r = wal_log_add_times(log, log->batch.above);
                r = r ? r : wal_log_copy_floors(log);
        }
        r = r ? r : sb_wal_writer_end(log->writer);
        if (!r)
                wal_log_note(log, log->batch.above);
        return r;
}

/* From here on what is read goes behind the changes. */
static int wal_log_begin_changes(struct sb_wal_log *log)
{
        int r;

        if (log->part == SB_WAL_LOG_CHANGES)
                return 0;
        r = wal_log_end_pieces(log);
        log->part = SB_WAL_LOG_CHANGES;
        return r ? r : sb_wal_writer_begin(log->writer, log->batch.cut, log->cut_ns, log->boot_ns);
}

/* A stage is full and cannot grow. Behind pieces of a copy there may be more of them; behind
 * changes there are none in this batch, and what there is of the copy stands among them. */
static int wal_log_room(uint64_t size, void *context)
{
        struct sb_wal_log *log = context;
        struct sb_wal_stage *full = log->full;
        int r;

        if (sb_wal_stage_grow(full))
                return 0;
        /* Pieces go before all keys were read: so the floors come with another batch. */
        if (log->batch.copying)
                log->copy.floor_end = log->copy.floor_next;
        if (full == &log->pieces)
                r = wal_log_write_pieces(log);
        else
                r = wal_log_begin_changes(log);
        if (!r && full == &log->stage)
                r = sb_wal_stage_write(full, log->writer, &log->written);
        return r ? r : sb_wal_stage_reserve(full, size);
}

/* Read all keys of the batch: the stages have them, or the last of them. */
static int wal_log_each(struct sb_wal_log *log)
{
        int r = 0;

        if (log->batch.whole) {
                log->written = 0;
                sb_wal_stage_clear(&log->stage);
                sb_wal_stage_clear(&log->pieces);
                r = wal_log_begin_changes(log);
                r = r ? r : wal_log_add_word(log, SB_WAL_WORD_WHOLE, 0);
        }
        return r ? r : sb_batch_each(&log->handle, &log->batch, wal_log_take, wal_log_room, log);
}

/* ---- all of a batch ---- */

/* What the bus says of itself, behind the last look at a key. */
static int wal_log_add_words(struct sb_wal_log *log)
{
        const struct sb_superblock *super = log->handle.segment.super;
        int r;

        /* A:history-floor, A:forgotten. */
        r = wal_log_add_word(
                log, SB_WAL_WORD_HISTORY_FLOOR, sb_load_acquire(&super->history_floor));
        if (!r)
                r = wal_log_add_word(
                        log, SB_WAL_WORD_FORGOTTEN, sb_load_acquire(&super->forgotten));
        if (!r && log->batch.whole)
                r = wal_log_add_times(log, log->batch.cut);
        if (r)
                return r;
        if (log->batch.whole)
                return wal_log_add_floors(log, 0, log->handle.segment.bucket_count);
        return sb_wal_copy_is_over(log) ? wal_log_add_word(log, SB_WAL_WORD_SINCE, log->copy.since)
                                        : 0;
}

/* The batch that is open, onto the disk. */
static int wal_log_write(struct sb_wal_log *log)
{
        struct timespec boot;
        uint64_t begun_ns;
        int r;

        clock_gettime(CLOCK_BOOTTIME, &boot);
        log->cut_ns = sb_os_linux.realtime_ns(sb_os_linux.context);
        log->boot_ns = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
        log->part = SB_WAL_LOG_READING;
        wal_log_count_floors(log);
        r = wal_log_each(log);
        if (!r && sb_batch_turns_whole(&log->handle, &log->batch))
                r = wal_log_each(log);
        /* The disk may take its time, and memory be short. */
        sb_batch_release(&log->handle, &log->batch);
        if (log->marked >= TIDIED_FROM)
                sb_batch_tidy(&log->handle, &log->batch);
        if (!r)
                r = wal_log_begin_changes(log);
        if (!r)
                r = sb_wal_stage_write(&log->stage, log->writer, &log->written);
        if (!r)
                r = wal_log_add_words(log);
        if (r)
                return r;
        begun_ns = wal_log_now();
        r = sb_wal_writer_end(log->writer);
        log->sync_ns = wal_log_now() - begun_ns;
        return r;
}

/* ---- a durable batch ---- */

/* For people: the log alone writes these words, and they are read relaxed. */
static void wal_log_add_count(struct sb_word64 *word, uint64_t count)
{
        sb_store_relaxed(word, sb_load_relaxed(word) + count);
}

static void wal_log_count(struct sb_wal_log *log, uint64_t bytes)
{
        struct sb_superblock *super = log->handle.segment.super;
        uint64_t us = log->sync_ns / 1000;
        uint32_t bit = us < 2 ? 0 : 64u - (uint32_t)__builtin_clzll(us - 1);

        sb_store_relaxed(&super->log_cut_ns, log->cut_ns);
        wal_log_add_count(&super->log_batches, 1);
        wal_log_add_count(&super->log_bytes, bytes);
        wal_log_add_count(&super->log_user_bytes, log->users);
        wal_log_add_count(&super->log_syncs[bit < SB_LOG_SYNCS ? bit : SB_LOG_SYNCS - 1], 1);
        if (bytes > sb_load_relaxed(&super->log_batch_most))
                sb_store_relaxed(&super->log_batch_most, bytes);
        sb_store_relaxed(&super->copy_done, log->batch.copy_next + log->copy.floor_end);
}

/* The next batch is due when as much has changed as --flush-bytes, if it goes on as before this
 * one. But writers are to have most of the time: a hot key is logged once a batch, however often it
 * is written, so more batches are more work for the same writes. */
static void wal_log_set_pace(struct sb_wal_log *log, uint64_t previous_ns)
{
        double longest = (double)log->config->flush_ms * 1e6;
        double pause = (double)(log->begun_ns - previous_ns) * (double)log->config->flush_bytes /
                       (double)(log->changed + 1);
        double least = (double)(wal_log_now() - log->begun_ns) * BATCH_REST;

        if (pause < least)
                pause = least;
        log->pause_ns = (uint64_t)(pause < longest ? pause : longest);
        log->each = log->changed / (log->marked ? log->marked : 1);
}

/* The batch has ended. Fault LOG_PAIR_LATE: it is noted behind that, and the log is killed between.
 */
static void wal_log_end(struct sb_wal_log *log, int r)
{
        if (!r && !SB_FAULT(LOG_PAIR_LATE))
                wal_log_note(log, log->batch.cut);
        sb_batch_end(&log->handle, &log->batch, !r);
        if (!r && SB_FAULT(LOG_PAIR_LATE))
                raise(SIGKILL);
}

/* Behind a durable batch: what may go, goes; what will be needed is made ready. No client waits.
 * The next file is not made at once: a bus that writes little never needs it. A copy that the files
 * called for lets those go that the copy before it does not need: where that was the first batch of
 * all, none. So there may be another one behind it. */
static void wal_log_tidy(struct sb_wal_log *log, uint64_t before, uint64_t bytes)
{
        bool once;

        if (log->batch.whole) {
                log->copy = (struct sb_wal_copy){0};
                log->written = log->grown = 0; /* as behind a copy */
                sb_wal_copy_keep_two(log, before);
        }
        once = log->copy.once;
        sb_wal_copy_count(log, bytes);
        sb_wal_copy_release(log);
        if (once && !log->copy.since && ++log->calls < CALLS_MOST)
                log->call = sb_wal_bound_call(log);
        if (sb_wal_writer_left(log->writer) <= SB_WAL_FILE_SIZE - SPARE_FROM)
                (void)sb_wal_writer_prepare(log->writer);
}

/* Fault DURABLE_EARLY: clients are told before the disk has answered. */
static void wal_log_fault_early(struct sb_wal_log *log)
{
        if (!SB_FAULT(DURABLE_EARLY))
                return;
        /* R:durable, too early: that is the fault. */
        sb_store_release(&log->handle.segment.super->durable, log->batch.cut);
        sb_durable_tell(&log->handle.segment, 0);
}

/* How the batch went, or a look. */
static void wal_log_note_failed(struct sb_wal_log *log, int r)
{
        bool homeless = r && sb_wal_lock_is_homeless(log->directory_fd);

        log->failed = r;
        if (r && log->stranger[0])
                log->reason = log->stranger;
        if (!r || (!homeless && !sb_wal_writer_lacks(log->writer, UINT64_MAX, 0)))
                return;
        log->nameless = true;
        log->reason = homeless ? SB_WAL_LOCK_HOMELESS : NAMELESS;
}

int sb_wal_log_batch(struct sb_wal_log *log)
{
        uint64_t before = log->batch.above, previous_ns = log->begun_ns, bytes;
        int r = wal_log_ready(log);

        if (r)
                return r;
        log->begun_ns = wal_log_now();
        log->wanted = sb_wal_copy_asked(log); /* before the cut */
        log->marked = sb_unlogged_count(&log->handle.segment);
        sb_wal_copy_begin(log);
        if (sb_batch_begin(&log->handle, &log->batch))
                return -EBUSY;
        log->batch.whole = !log->sequence || log->nameless;
        sb_wal_copy_some(log);
        bytes = sb_wal_writer_written(log->writer);
        log->changed = log->users = 0;
        sb_wal_stage_clear(&log->stage);
        sb_wal_stage_clear(&log->pieces);
        wal_log_fault_early(log);
        r = wal_log_write(log);
        wal_log_note_failed(log, r);
        wal_log_end(log, r);
        if (r)
                return r > 0 ? -EAGAIN : r; /* what was written is dropped: another file begins */
        log->above_cut_ns = log->cut_ns;
        log->above_boot_ns = log->boot_ns;
        log->copy.begins = false;
        log->copy.changed += log->changed;
        log->grown += log->changed;
        bytes = sb_wal_writer_written(log->writer) - bytes;
        wal_log_count(log, bytes);
        wal_log_set_pace(log, previous_ns);
        if (log->batch.whole || sb_wal_copy_is_over(log))
                sb_wal_copy_count_ended(log);
        sb_durable_tell(&log->handle.segment, 0);
        wal_log_tidy(log, before, bytes);
        log->nameless = false;
        return 0;
}

/* The first look of a log that goes on from another one: files may have gone between them. */
static int wal_log_look_first(struct sb_wal_log *log)
{
        int r;

        if (!sb_durable_cut(&log->handle.segment))
                return 0;
        r = wal_log_ready(log);
        return r ? r : log->nameless ? -ENOENT : 0;
}

int sb_wal_log_look(struct sb_wal_log *log)
{
        int r;

        if (!log->writer)
                return wal_log_look_first(log);
        r = log->failed ? 0 : sb_wal_writer_look(log->writer);
        if (r)
                wal_log_note_failed(log, r);
        return r;
}

/* For sb_batch_each(): it is enough to know that there is one. */
static bool wal_log_count_one(const struct sb_batch_entry *entry, void *context)
{
        struct sb_wal_log *log = context;

        log->changed += entry->stamp > log->batch.above;
        return true;
}

bool sb_wal_log_has_more(struct sb_wal_log *log)
{
        int r;

        if (log->nameless || sb_batch_begin(&log->handle, &log->batch))
                return true;
        log->changed = 0;
        r = sb_batch_each(&log->handle, &log->batch, wal_log_count_one, wal_log_room, log);
        if (!r && sb_batch_turns_whole(&log->handle, &log->batch))
                log->changed++;
        sb_batch_end(&log->handle, &log->batch, false);
        return r || log->changed;
}

/* ---- beginning and end ---- */

void sb_wal_log_begin(struct sb_wal_log *log)
{
        struct sb_superblock *super = log->handle.segment.super;

        /* R:copies > A:copies. A copy that another log was at is lost with it. */
        sb_store_release(&super->copies_begun, sb_load_relaxed(&super->copies_ended));
        log->strangers = (struct sb_wal_strangers){.context = log, .tell = wal_log_hear_stranger};
        log->copied_ns = wal_log_now();
        log->pause_ns = (uint64_t)log->config->flush_ms * 1000000u;
}

void sb_wal_log_end(struct sb_wal_log *log)
{
        log->writer = sb_wal_writer_close(log->writer);
        sb_wal_backend_close(&log->io);
}

uint64_t sb_wal_log_due_ns(const struct sb_wal_log *log)
{
        return log->begun_ns + log->pause_ns;
}

uint64_t sb_wal_log_copy_due_ns(const struct sb_wal_log *log)
{
        if (log->copy.since)
                return log->copy.soon ? 0 : log->copy.due_ns;
        return log->sequence && sb_wal_copy_is_wanted(log) ? 0 : UINT64_MAX;
}

bool sb_wal_log_is_full(const struct sb_wal_log *log)
{
        return sb_unlogged_count(&log->handle.segment) * (log->each + SB_WAL_ENTRY_HEAD) >=
               log->config->flush_bytes;
}
