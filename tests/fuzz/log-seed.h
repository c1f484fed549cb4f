/*
 * The logs that inputs change: each is written by the log's own writer, and is of a small bus with
 * a rule of history, a mark, deleted keys and transactions.
 *
 * What is known of each: its batches, by a hash of all that a reader hands out of one; and where
 * its frames stand.
 */
#ifndef SB_TESTS_LOG_SEED_H
#define SB_TESTS_LOG_SEED_H

#include <stdint.h>

#include "ring/wal/wal-reader.h"
#include "tests/fuzz/log-image.h"

enum {
        LOG_PLAIN,  /* one file */
        LOG_FILES,  /* many, of a frame or two: batches go on from one to the next */
        LOG_ANEW,   /* a batch that did not count comes once more, as another one */
        LOG_COPY,   /* the files before a copy of the bus are gone */
        LOG_PIECES, /* they are there, and the batches of the copy have no change */
        LOG_SEEDS,
        /* They are there, and it has changes; for tests of power failures (tests/power). */
        LOG_FRONT = LOG_SEEDS,
};

/* A batch that was written. Of those that did not count there may be two of one sequence. */
struct log_written {
        uint64_t sequence, cut, hash;
};
struct log_frame {
        uint32_t file, offset, space;
        uint64_t sequence;
};

#define LOG_WRITTEN_MAX 24u
#define LOG_FRAMES_MAX  64u
struct log_seed {
        struct log_image image;
        struct log_written written[LOG_WRITTEN_MAX];
        uint32_t written_count;
        uint64_t first, last;                    /* sequences that the whole log hands out */
        struct log_frame frames[LOG_FRAMES_MAX]; /* those that count */
        uint32_t frame_count;
};

/* Make the log in an empty directory; it is empty again behind that. */
void log_seed_make(uint32_t kind, int directory_fd, struct log_seed *ret);

/* The hash of a batch, as a reader hands it out: begun, each entry added. */
uint64_t log_hash_begin(const struct sb_wal_batch *batch);
uint64_t log_hash_entry(uint64_t hash, const struct sb_wal_entry *entry);

#endif
