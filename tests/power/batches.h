/*
 * Batches that are known by a number: what a test writes into a log, and finds again.
 *
 * A batch is made from its seed alone, so nothing of it is kept: the seed stands in the batch as
 * its time, and a reader makes the same entries once more and compares.
 */
#ifndef SB_TESTS_POWER_BATCHES_H
#define SB_TESTS_POWER_BATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/wal/wal-writer.h"
#include "ring/wal/wal-reader.h"

/* The low bits of a seed say what the batch looks like. */
enum {
        BATCH_ONE,    /* one short entry */
        BATCH_FEW,    /* up to eight */
        BATCH_KINDS,  /* entries of each kind */
        BATCH_PAGES,  /* some thousand bytes */
        BATCH_FRAMES, /* more than a frame of the tests */
        BATCH_VALUE,  /* one value that is longer than such a frame */
        BATCH_EMPTY,
        BATCH_HUGE, /* values of some MiB: unit tests alone */
        BATCH_SHAPES,
};

static inline uint64_t batch_seed(uint64_t number, uint32_t shape)
{
        return number * BATCH_SHAPES + shape;
}

/* Writes the batch. Return: what the writer returned first that is not 0. */
int batch_write(struct sb_wal_writer *writer, uint64_t seed, uint64_t cut);

#define STORY_MAX 512u
/* What a log says. */
struct story {
        uint64_t first; /* sequence of the first batch */
        uint32_t count;
        uint64_t seeds[STORY_MAX], cuts[STORY_MAX];
        const char *wrong; /* what is not as it was written; NULL: all is */
        struct sb_wal_end end;
        uint64_t first_file; /* its number */
        /* The batch that is being read. */
        bool begun;
        uint32_t entry;
        uint32_t skipped; /* batches with a cut up to story_skip */
};
extern uint64_t story_skip;

/* Reads the log of a directory. Return: what the reader returned; a batch that is not as it was
 * written is told in `wrong`. */
int story_read(int directory_fd, struct story *ret);
/* The same of a log that begins behind the last file that is missing. */
int story_read_behind(int directory_fd, struct story *ret);

/* A new directory in memory where there is some. What scratch_remove() has not removed is removed
 * when the process that made it exits. Return: its descriptor; -1: there is none. */
int scratch_make(char *ret_path, uint32_t path_max);
/* Removes what is in it, directories, too. */
void scratch_empty(int directory_fd);
/* Removes what is in it, and it. */
void scratch_remove(int directory_fd, const char *path);

#endif
