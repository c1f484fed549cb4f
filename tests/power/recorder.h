/*
 * A back end of the log that writes down what is done with files: each create, write, sync, rename,
 * unlink and sync of the directory, in order, with the bytes. It does all of it, too, in a real
 * directory, through another back end. On request one of its calls fails.
 *
 * Always true: what stands in the record was asked for in this order, by one thread; a sync that
 * answered 0 stands there as SYNC, one that failed as SYNC_FAILED.
 */
#ifndef SB_TESTS_POWER_RECORDER_H
#define SB_TESTS_POWER_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "agentd/wal/wal-io.h"

#define RECORD_MAX   16384u /* of one generation */
#define NODES_MAX    512u   /* files ever made in one generation, under whatever name */
#define NAME_MAX_LEN 64u

enum record_kind {
        RECORD_CREATE,
        RECORD_WRITE,
        RECORD_SYNC,
        RECORD_SYNC_FAILED,
        RECORD_RENAME,
        RECORD_UNLINK,
        RECORD_LINK,    /* one more name of a file */
        RECORD_MAKE,    /* a directory */
        RECORD_SYMLINK, /* its text is the bytes */
        RECORD_DIRECTORY,
        RECORD_DIRECTORY_FAILED,
        RECORD_BEGIN,    /* the test: a batch begins; sequence, seed */
        RECORD_DURABLE,  /* the test: the writer says that it is durable */
        RECORD_RELEASED, /* the test: batches up to this one are a checkpoint's */
        RECORD_RELEASE_FAILED,
};

struct record {
        enum record_kind kind;
        uint32_t node;
        uint64_t file_offset;
        uint32_t len;
        unsigned char *bytes;
        /* As the directory that is recorded has them: of one below it with a slash between. Of a
         * sync of a directory: its own name, and "" is the recorded one. */
        char name[NAME_MAX_LEN], to[NAME_MAX_LEN];
        uint64_t sequence, seed;
};

/* How a call fails. */
enum recorder_failure {
        FAIL_BEFORE, /* nothing is done */
        FAIL_PART,   /* of a write, half is done; anything else is done, and answered with -EIO */
        FAIL_REST,   /* nothing is done, by this call and all later ones, as of a killed process */
};

struct recorder {
        struct sb_wal_io below;
        struct record records[RECORD_MAX];
        uint32_t count;
        /* The names, and which file of which number they are; and what is open. */
        struct {
                char name[NAME_MAX_LEN];
                uint32_t node;
        } names[512];
        uint32_t name_count, node_count;
        int open_node[1024]; /* -1: not open */
        uint64_t calls;
        uint64_t fail_at; /* the number of the call that fails; 0: none */
        enum recorder_failure failure;
        int error;
        bool poisoned[NODES_MAX]; /* a write or a sync of this file has failed */
        const char *wrong;        /* the writer has broken a rule; static */
        uint64_t salt;            /* of the random numbers that the writer gets */
};

/* Begins an empty record over @below, and sets *ret up as a back end. */
void recorder_begin(
        struct recorder *recorder, const struct sb_wal_io *below, struct sb_wal_io *ret);
void recorder_end(struct recorder *recorder);
/* Begins an empty record that lies below calls of the C library (calls.h). */
void recorder_clear(struct recorder *recorder);
/* A file that is there already. Return: its node. */
uint32_t recorder_add(struct recorder *recorder, const char *name);
/* Which file has the name, as an index of the names; -1: none. */
int recorder_find(const struct recorder *recorder, const char *name);
void recorder_put_name(struct recorder *recorder, const char *name, uint32_t node);
void recorder_drop_name(struct recorder *recorder, const char *name);
/* One more record, of which the caller sets the rest. */
struct record *recorder_new(struct recorder *recorder, enum record_kind kind, uint32_t node);
/* A record of bytes that are written. */
void recorder_note_write(struct recorder *recorder, uint32_t node, const void *bytes, size_t len,
        uint64_t file_offset);
/* Counts a call. Return: whether it is the one that fails. */
bool recorder_fails(struct recorder *recorder);
/* The test notes something. */
void recorder_note(
        struct recorder *recorder, enum record_kind kind, uint64_t sequence, uint64_t seed);

#endif
