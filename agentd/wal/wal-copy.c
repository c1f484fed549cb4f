/* A copy of the bus; see wal-copy.h. */
#include "agentd/wal/wal-copy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "agentd/log.h"
#include "ring/attach/place.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"

/* A copy goes on at this pace, unless the log grows so fast that it would not end in time. */
#define COPY_BYTES    (256u << 10) /* a piece */
#define COPY_PAUSE_NS UINT64_C(10000000)
/* Each batch takes something of the writers, so pieces come together, unless the batch of a client
 * that waits would have them. */
#define COPY_PIECES      10u
#define COPY_PIECES_LAST 32u                  /* 8 MiB, at a clean end, or of too long a log */
#define COPY_ALONE_NS    UINT64_C(1000000000) /* since a client waited */

static uint64_t wal_copy_now(void)
{
        return sb_os_linux.now_ns(sb_os_linux.context);
}

/* The copy that clients ask for: two ahead at most, for one under way is lost with its log. A word
 * that says more is damaged, and would ask for ever: it asks for one. */
uint64_t sb_wal_copy_asked(const struct sb_wal_log *log)
{
        struct sb_superblock *super = log->handle.segment.super;
        /* A:copies, both. */
        uint64_t begun = sb_load_acquire(&super->copies_begun);
        uint64_t wanted = sb_load_acquire(&super->copies_wanted);

        if (wanted <= begun || wanted - begun <= 2)
                return wanted;
        /* R:copies > A:copies. A client that asks meanwhile has its own number, or a lower one. */
        (void)sb_cas64_full(&super->copies_wanted, wanted, begun + 1);
        return begun + 1;
}

bool sb_wal_copy_is_wanted(const struct sb_wal_log *log)
{
        const struct sb_superblock *super = log->handle.segment.super;

        return log->call || log->written > log->config->checkpoint_bytes ||
               (log->config->checkpoint_ns && log->written &&
                       wal_copy_now() - log->copied_ns >= log->config->checkpoint_ns) ||
               /* A:copies. Fault COPY_UNWANTED: not asked. */
               (sb_wal_copy_asked(log) > sb_load_acquire(&super->copies_begun) &&
                       !SB_FAULT(COPY_UNWANTED));
}

/* All that the copy is to have is durable, or a batch of the whole bus is: then those that were
 * asked for before it began have ended, too. */
void sb_wal_copy_count_ended(struct sb_wal_log *log)
{
        struct sb_superblock *super = log->handle.segment.super;
        uint64_t begun = sb_load_relaxed(&super->copies_begun); /* the log's own word */

        if (log->batch.whole && log->wanted > begun) {
                begun = log->wanted;
                sb_store_release(&super->copies_begun, begun); /* R:copies > A:copies. */
        }
        sb_store_release(&super->copies_ended, begun); /* R:copies > A:copies. */
        log->copied_ns = wal_copy_now();
}

/* Fault COPY_ENDED_EARLY: it counts as ended. */
static void wal_copy_count_begun(struct sb_wal_log *log)
{
        struct sb_superblock *super = log->handle.segment.super;
        uint64_t words = ((uint64_t)log->handle.segment.bucket_count + 63) / 64;

        /* Relaxed: for people. */
        sb_store_relaxed(&super->copy_done, 0);
        sb_store_relaxed(&super->copy_all, words + log->handle.segment.bucket_count);
        /* R:copies > A:copies. The log alone writes it. */
        sb_store_release(&super->copies_begun, sb_load_relaxed(&super->copies_ended) + 1);
        if (SB_FAULT(COPY_ENDED_EARLY))
                sb_wal_copy_count_ended(log);
}

/* Begin one when it is time; between two batches. */
void sb_wal_copy_begin(struct sb_wal_log *log)
{
        bool once = log->call == SB_WAL_CALL_ONCE;

        /* The first batch of a log looks at all anyway: with it comes the whole copy, or none. */
        if (log->copy.since || (log->batch.all && !once) || !log->sequence ||
                (!log->last && !sb_wal_copy_is_wanted(log)))
                return;
        log->copy = (struct sb_wal_copy){.since = log->sequence + 1,
                /* Below the cut that its first batch shares with the one before. */
                .above = log->batch.above - 1,
                .words = 1,
                .begins = true,
                .once = once,
                .soon = log->call};
        log->call = SB_WAL_CALL_NONE;
        log->written = log->grown = 0;
        if (once)
                sb_batch_copy_once(&log->batch);
        else
                sb_batch_copy(&log->batch);
        wal_copy_count_begun(log);
}

/* How many words of buckets come into the open batch. By the time that as much was changed again,
 * all have been there: so fast writers cannot make the log grow for ever. */
static uint64_t wal_copy_words(const struct sb_wal_log *log)
{
        uint64_t all = ((uint64_t)log->handle.segment.bucket_count + 63) / 64;
        uint64_t wanted = (uint64_t)((double)all * (double)log->copy.changed /
                                     (double)log->config->checkpoint_bytes);
        uint64_t late = wanted > log->batch.copy_next ? wanted - log->batch.copy_next : 0;
        uint64_t paced = log->copy.words * log->copy.pieces;

        if (log->copy.once)
                return all;
        return late > paced ? late : paced;
}

/* The piece of the copy that the open batch has. */
void sb_wal_copy_some(struct sb_wal_log *log)
{
        uint64_t words;

        if (!log->copy.since || log->batch.whole)
                return;
        log->copy.pieces = 0;
        if (log->begun_ns >= log->copy.due_ns || log->last || log->copy.soon) {
                log->copy.due_ns = log->begun_ns + COPY_PAUSE_NS;
                log->copy.pieces = log->begun_ns - log->waited_ns < COPY_ALONE_NS ? 1 : COPY_PIECES;
                if (log->last || log->copy.soon)
                        log->copy.pieces = COPY_PIECES_LAST;
        }
        words = wal_copy_words(log);
        sb_batch_copy_some(
                &log->handle, &log->batch, words > UINT32_MAX ? UINT32_MAX : (uint32_t)words);
}

/* Whether a process copies the files; if none does, none begins while *ret_fd is open. A lock that
 * cannot be asked keeps no file: a copy that loses one fails and says so. Fault BACKUP_UNLOCKED: it
 * is not asked. */
static bool wal_copy_is_read(const struct sb_wal_log *log, int *ret_fd)
{
        *ret_fd = openat(log->directory_fd, SB_PLACE_BACKUP,
                O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        return *ret_fd >= 0 && !SB_FAULT(BACKUP_UNLOCKED) &&
               flock(*ret_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Old files go; while a backup reads them they stay, and it is asked again behind the next batch.
 */
void sb_wal_copy_release(struct sb_wal_log *log)
{
        const char *directory = log->config->place.directory;
        int fd, r = 0;

        if (!log->release_cut)
                return;
        if (wal_copy_is_read(log, &fd)) {
                if (!log->release_put_off)
                        sb_log("old files of the log stay in %s as long as a backup reads them",
                                directory);
                log->release_put_off = true;
        } else {
                r = sb_wal_writer_release(log->writer, log->release_cut);
                log->release_cut = 0;
                log->release_put_off = false;
        }
        if (r)
                sb_log("old files of the log stay in %s (%s)", directory, strerror(-r));
        if (fd >= 0)
                close(fd);
}

/* A copy is durable that began behind the cut @above. Files from the beginning of the one before it
 * on stay: where this one is damaged, the bus comes back by that one. A word that says more is
 * damaged. What is left where files were removed is of no use. Fault OLDER_COPY_DROPPED: they go.
 */
void sb_wal_copy_keep_two(struct sb_wal_log *log, uint64_t above)
{
        struct sb_word64 *word = &log->handle.segment.super->copied_above;
        uint64_t before = sb_load_relaxed(word); /* the log's own word */

        log->release_cut =
                before < above && !log->nameless && !SB_FAULT(OLDER_COPY_DROPPED) ? before : above;
        sb_store_relaxed(word, above);
}

/* With the batch that was written. */
bool sb_wal_copy_is_over(const struct sb_wal_log *log)
{
        return log->copy.since && log->copy.floor_end == log->handle.segment.bucket_count;
}

/* The batch had @bytes of the copy: how much is a piece, and when is the next one due? */
static void wal_copy_pace(struct sb_wal_log *log, uint64_t bytes)
{
        struct sb_wal_copy *copy = &log->copy;
        uint64_t pieces = bytes / COPY_BYTES;

        if (!copy->pieces)
                return;
        if (bytes < copy->pieces * COPY_BYTES / 2 && copy->words < log->handle.segment.bucket_count)
                copy->words *= 2;
        else if (bytes > copy->pieces * COPY_BYTES && copy->words > 1)
                copy->words /= 2;
        if (pieces > 1)
                copy->due_ns = log->begun_ns +
                               (pieces < COPY_PIECES ? pieces : COPY_PIECES) * COPY_PAUSE_NS;
}

/* A batch is durable, and so is its piece of the copy. */
void sb_wal_copy_count(struct sb_wal_log *log, uint64_t bytes)
{
        struct sb_wal_copy *copy = &log->copy;

        if (!copy->since)
                return;
        copy->floor_next = copy->floor_end;
        wal_copy_pace(log, bytes > log->changed ? bytes - log->changed : 0);
        if (!sb_wal_copy_is_over(log))
                return;
        sb_wal_copy_keep_two(log, copy->above);
        /* The copy itself is no growth: a bus that is larger than --checkpoint-bytes would be
         * copied for ever. */
        log->written = copy->changed;
        *copy = (struct sb_wal_copy){0};
}
