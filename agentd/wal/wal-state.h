/*
 * The log's state, as its process has it between two batches and within one: what a batch and a
 * copy of the bus (wal-log.h, wal-copy.h) know of each other.
 */
#ifndef SB_WAL_STATE_H
#define SB_WAL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/config.h"
#include "agentd/wal/wal-io.h"
#include "agentd/wal/wal-stage.h"
#include "agentd/wal/wal-stranger.h"
#include "agentd/wal/wal-writer.h"
#include "ring/log/batch.h"
#include "shm/layout/handle.h"

struct sb_wal_copy {
        uint64_t since; /* the first batch that has a piece of it; 0: none goes on */
        uint64_t above; /* the last cut before */
        uint64_t words; /* of buckets, in a piece */
        uint64_t floor_next, floor_end;
        uint64_t changed; /* bytes of changes since it began */
        uint64_t due_ns;  /* the next piece */
        uint64_t pieces;  /* that were due with this batch */
        bool begins;      /* with this batch */
        bool once, soon;  /* all of it with one batch, if it can be; in large pieces at least */
};

/* What copy of the bus the log's files call for (wal-bound.h). */
enum sb_wal_call {
        SB_WAL_CALL_NONE,
        SB_WAL_CALL_SOON, /* one, as fast as can be */
        SB_WAL_CALL_ONCE, /* one with the next batch */
};

struct sb_wal_log {
        const struct sb_config *config;
        int directory_fd;
        int lock_fd; /* of a directory that was made again; 0: it has its first one */
        struct sb_handle handle;
        struct sb_batch batch;
        struct sb_wal_stage stage;  /* changes */
        struct sb_wal_stage pieces; /* of a copy */
        struct sb_wal_stage *full;  /* the one that took no more */
        enum {
                SB_WAL_LOG_READING, /* no batch is begun in the files */
                SB_WAL_LOG_PIECES,  /* the pieces of a copy are */
                SB_WAL_LOG_CHANGES,
        } part;
        struct sb_wal_io io;
        struct sb_wal_writer *writer;
        struct sb_wal_strangers strangers;
        char stranger[160]; /* why one is in the way; empty: none is */
        uint64_t sequence;  /* of the last durable batch */
        uint64_t written;   /* bytes since the last copy began, without it; or how long it is */
        uint64_t grown;     /* bytes of changes since the last copy began, in this process */
        uint64_t changed, users; /* bytes of changes in this batch; of their keys and values */
        uint64_t begun_ns;       /* the last batch */
        uint64_t pause_ns;       /* the next one is due so long after it */
        struct sb_wal_copy copy;
        enum sb_wal_call call;    /* a copy is called for, and has not begun */
        uint32_t calls;           /* that were answered by this process with one batch */
        uint64_t waited_ns;       /* when a client last waited for a batch */
        uint64_t copied_ns;       /* when the last copy ended, or the log began */
        uint64_t wanted;          /* the copy that clients had asked for when this batch began */
        uint64_t release_cut;     /* files with no batch above it may go; 0: none may */
        bool release_put_off;     /* for a backup, and that was said */
        bool failed;              /* the last batch */
        bool last;                /* wal-finish.h: a copy is to be made, in large pieces */
        bool nameless;            /* files were removed: the next batch has the whole bus */
        const char *reason;       /* why it cannot be written, where no errno says it; or NULL */
        uint64_t cut_ns, boot_ns; /* when its cut was taken: realtime, boot time */
        uint64_t above_cut_ns, above_boot_ns; /* the one before */
        uint64_t marked;                      /* buckets, when it began */
        uint64_t each;                        /* bytes of changes in one of them */
        uint64_t sync_ns;                     /* how long its last write and the sync took */
};

#endif
