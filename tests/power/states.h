/*
 * What may be left of a directory when the power goes, after each call of a record.
 *
 * The disk is modelled as badly as it may behave: of what was written to a file and not synced, any
 * sectors of 512 bytes may be there, whatever their order; of what was done to names and not
 * synced, any of it may have happened, in the order in which it was done, with gaps. A failed sync
 * makes nothing sure, and what was waiting for it is never made sure by a later one.
 *
 * Disks and file systems that are better than that leave states that are rare among those, and so
 * are a choice of their own: any blocks of 4,096 bytes, each whole or not at all; a file that has
 * grown by some blocks, whichever of them have come; names up to one, as a journal has them.
 *
 * A sync of a directory is one of its own names alone: those in a directory below it wait for a
 * sync of that. A name in a directory that has none itself is not there.
 *
 * A state is made in a real directory, so that the real reader reads it: by writing what differs
 * from the state before, or anew where the reader changes what it finds.
 */
#ifndef SB_TESTS_POWER_STATES_H
#define SB_TESTS_POWER_STATES_H

#include "tests/power/recorder.h"

#define FILE_MAX    (128u << 10) /* bytes of a file, in these tests */
#define SECTOR      512u
#define BLOCK       4096u
#define LINKS_MAX   512u
#define WAITING_MAX 1024u

#define SEEN_MAX (1u << 18) /* states of one generation */

struct states_file {
        unsigned char *bytes;
        uint32_t size;
        bool changed;  /* since it was copied from what is sure, or looked at */
        uint64_t look; /* its bytes as a number, while it has not changed */
};

struct states_links {
        struct {
                char name[NAME_MAX_LEN];
                uint32_t node;
        } link[LINKS_MAX];
        uint32_t count;
};

enum states_kind { STATES_FILE, STATES_DIRECTORY, STATES_SYMLINK };

struct states {
        const struct recorder *recorder;
        uint32_t at; /* records that were gone over */
        /* What is sure. */
        struct states_file sure[NODES_MAX];
        struct states_links sure_links;
        enum states_kind kind[NODES_MAX];
        /* The records that are not. */
        uint32_t writes[WAITING_MAX], write_count;
        uint32_t names[WAITING_MAX], name_count, names_waiting;
        bool sure_name[WAITING_MAX]; /* it has happened, behind one that may not have */
        bool lost_write[WAITING_MAX], lost_name[WAITING_MAX]; /* a sync of it failed */
        /* The state that was drawn last. */
        struct states_file file[NODES_MAX];
        struct states_links links;
        /* The directories that hold it: files by their node, and the names that the reader sees. */
        int store_fd, image_fd;
        /* What was made before, as a table of numbers. */
        uint64_t seen[SEEN_MAX];
        uint32_t seen_count;
        struct states_file stored[NODES_MAX];
        int stored_fd[NODES_MAX];
        struct states_links linked;
};

/* Begins with what stands in @links and @files, which may be NULL: nothing. */
void states_begin(
        struct states *states, const struct recorder *recorder, int store_fd, int image_fd);
/* Adds a file that is there from the start; the same node as in the record. */
void states_add(struct states *states, const char *name, uint32_t node, const unsigned char *bytes,
        uint32_t size);
/* The same of a directory. */
void states_add_directory(struct states *states, const char *name, uint32_t node);
/* What @from has drawn is what is there from the start, and the names are told to the recorder. */
void states_begin_behind(
        struct states *states, const struct states *from, struct recorder *recorder);
void states_end(struct states *states);
/* Goes over the next record. */
void states_step(struct states *states);

/* How many of the waiting writes are in files that the reader may look at. */
uint32_t states_visible(const struct states *states);
/* How many of those are longer than a block. */
uint32_t states_visible_long(const struct states *states);

/* How a state is chosen: a bit for each waiting write and each waiting name, or by chance. */
struct states_choice {
        uint64_t writes, names; /* of the first 64 of each: whether they are there */
        uint32_t torn;          /* 0: writes are whole; else of 8 sectors as many are there */
        bool blocks;            /* of 8 blocks as many; and a file has grown by blocks */
        uint64_t seed;          /* of the sectors */
};

/* Makes the state, and lays it into the image. @known: what the caller asks of it now. Return:
 * false: the same was asked of the same state before, and the image is as it was. */
bool states_make(struct states *states, const struct states_choice *choice, uint64_t known);
/* The same without an image. Return: what a reader would see, and @known, as a number. */
uint64_t states_draw(struct states *states, const struct states_choice *choice, uint64_t known);
/* Lays what was drawn into an empty directory. */
void states_lay(const struct states *states, int directory_fd);
/* Which file has the name in what was drawn. Return: its node; -1: none. */
int states_find(const struct states *states, const char *name);

#endif
