/*
 * What the log of a durable bus is: its batches, and how it ends. No agentd is needed to tell, and
 * one that serves the bus meanwhile is not disturbed: files are opened to be read, and no lock is
 * taken. A backup that is one file is a log, too.
 *
 * A log that is read while agentd writes it can look damaged in passing: a batch was not there when
 * the reader came by, and the one behind it was a moment later. So damage is believed when a second
 * reading finds it in the same place. Files that go meanwhile, because the log has begun anew, make
 * the reading begin anew, too.
 *
 * Always true: what is listed is a run of whole batches without a gap, and every entry in them was
 * read. Memory: 64 bytes for a batch, which takes 4096 bytes of the disk or more, and what the
 * reader needs (ring/wal/wal-reader.h).
 */
#ifndef SB_CLI_LOGGED_H
#define SB_CLI_LOGGED_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ring/wal/wal-reader.h"

/* A batch. */
struct cli_logged_batch {
        uint64_t sequence, cut, realtime_ns;
        uint64_t entries;
        uint64_t keys;  /* versions of one key that stand together count once */
        uint64_t bytes; /* of its entries */
        /* [0: none] What was logged before the batch of this sequence counts no more: this one has
         * all that the bus had, or it ends a copy that began there. */
        uint64_t since;
};

struct cli_logged {
        char directory[PATH_MAX]; /* or the name of the one file */
        int directory_fd;
        bool single; /* directory_fd is the one file */
        struct sb_wal_reader *reader;
        struct sb_wal_end end; /* of the log, or the first thing in it that agentd would refuse */
        uint64_t files, file_bytes, first_file;
        uint64_t cut_behind;  /* damage in two places: up to here the later part is the bus */
        bool is_whole_behind; /* what is damaged lies before a copy of the whole bus */
        pid_t supervisor;     /* of the bus; 0: no agentd serves it; -1: one that is not seen */
        struct cli_logged_batch *batches, sum;
        size_t batch_count, batch_room;
};

/* Read the log in a directory, or in the file that is a backup. Return: 0: logged->files is 0 where
 * there is none, and cli_logged_close() gives all back; -ESTALE: the files change faster than they
 * can be read; -EXDEV: it is one file of a log, of which the others have to be read, too; -ENODATA:
 * a command that wrote a file was killed, and left this; -errno: a file or the directory cannot be
 * read. Cost: reads all files twice, and tells on a terminal how far it is. */
int cli_logged_open(const char *name, struct cli_logged *ret);
void cli_logged_close(struct cli_logged *logged);

/* The state of the log as a word: whole, torn, damaged, other version, other byte order, other bus,
 * no file. Static text. */
const char *cli_logged_state(const struct cli_logged *logged);
/* Whether it is damaged, but where it has pieces of a copy of the bus alone, which agentd passes
 * over. */
bool cli_logged_costs_nothing(const struct cli_logged *logged);
/* Where that is, and what it costs. Static text, until the next call. */
const char *cli_logged_passed_words(const struct cli_logged *logged);
/* Whether agentd takes the log as it is: it is whole or torn, but for such pieces. */
bool cli_logged_is_good(const struct cli_logged *logged);
/* Where agentd takes a damaged log as if it began behind the damage: so does @logged from here on.
 * Return: 0; -ENODATA: agentd refuses it, or it is a backup; -errno. */
int cli_logged_go_behind(struct cli_logged *logged);
/* What is not as behind a clean end, and what to do about it; "" for nothing. Static text, until
 * the next call. */
const char *cli_logged_words(const struct cli_logged *logged);
const char *cli_logged_advice(const struct cli_logged *logged);
/* Say that the log cannot be read, and why. Return: CLI_FAILED. */
int cli_logged_fail(const char *name, int result);
/* Say that the directory has no log. Return: CLI_FAILED. */
int cli_logged_none(const struct cli_logged *logged);

#endif
