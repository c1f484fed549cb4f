/*
 * The log's files: their names and their header block.
 *
 *      wal-<16 hexadecimal digits>     a file of the log, by its number: 1, 2, 3 ...
 *      wal-spare-<8 digits>            a file that is made or recycled, and waits to be used
 *
 * Order by name is the order of the log. A number is not the sequence of a batch: a batch can go on
 * in the next file, and after a failed write the same batch begins once more in another one.
 *
 * A file begins with a block that is written before the file gets its number, and never again:
 *
 *      0    magic 64 "statewal"
 *      8    version 32 | little-endian mark 32
 *      16   id 128             of the bus
 *      32   hash_seed 64       of its keys
 *      40   salt 64            random, anew for each use of a file
 *      48   number 64
 *      56   first_sequence 64  of the batch that the file's first frame belongs to
 *      64   previous_cut 64    of the batch before that one
 *      72   reaches_cut 64     the highest cut of a batch with frames in the files before
 *      80   first_frame 32     index of the first frame: above 0 the batch began in the file before
 *      84   block 32           4096
 *      88   stream_offset 64   payload of that batch in the files before
 *      96   file_size 64
 *      104  last_sequence 64   of a file that was closed: of its last batch; 0: it is not closed
 *      112  zeros
 *      4088 checksum 64        XXH3 of all before
 *
 * Always true: a file that has a number has a whole header; it was synced before the file was
 * named. A header says what the log was when the file came: all batches before first_sequence are
 * in the files before it, and what else stands in them does not count (what a failed write or a
 * power failure left). With first_frame above 0, that batch's earlier frames are in them, too.
 *
 * A closed file is a backup: one that was written as a whole, and got its name behind that. What
 * its header promises was there once, so nothing of it can be called torn; and nothing is ever
 * written behind its end.
 */
#ifndef SB_WAL_FILE_H
#define SB_WAL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SB_WAL_VERSION       1u
#define SB_WAL_FILE_MAGIC    "statewal" /* the first 8 bytes */
#define SB_WAL_FILE_NAME_MAX 32u        /* bytes of a name, with the zero */

struct sb_wal_file {
        unsigned char id[16];
        uint64_t hash_seed, salt, number;
        uint64_t first_sequence, previous_cut, reaches_cut;
        uint64_t stream_offset, size;
        uint64_t last_sequence; /* 0: it is not closed */
        uint32_t first_frame;
};

/* What a header block is. */
enum sb_wal_header {
        SB_WAL_HEADER_GOOD,
        SB_WAL_HEADER_BAD,           /* no header, or one that is not whole */
        SB_WAL_HEADER_OTHER_VERSION, /* *ret_version is the version */
        SB_WAL_HEADER_OTHER_ENDIAN,
};

/* The numbers of files, as directories list them: in no order. */
struct sb_wal_names {
        uint64_t *numbers;
        uint32_t *spares;
        size_t number_count, spare_count;
};

void sb_wal_file_name(uint64_t number, char ret[SB_WAL_FILE_NAME_MAX]);
void sb_wal_file_spare_name(uint32_t number, char ret[SB_WAL_FILE_NAME_MAX]);
/* Writes the header block, of SB_WAL_BLOCK bytes. */
void sb_wal_file_encode(const struct sb_wal_file *file, unsigned char *ret_block);
/* What the block of SB_WAL_BLOCK bytes says; *ret is set when that is GOOD, *ret_version when it is
 * OTHER_VERSION. A header of which the version alone was changed, by its checksum, is BAD. */
enum sb_wal_header sb_wal_file_decode(
        const unsigned char *block, struct sb_wal_file *ret, uint32_t *ret_version);
/* Reads the header of the open file. Return: 0: *ret_header says what it is; -errno. */
int sb_wal_file_read_header(
        int fd, struct sb_wal_file *ret, enum sb_wal_header *ret_header, uint32_t *ret_version);
/* Opens the file @number to be read. Return: 0; -errno; -EBADMSG: it is no ordinary file. */
int sb_wal_file_open(int directory_fd, uint64_t number, int *ret_fd);
/* What has the name of the file @number, if it is no ordinary file: "a FIFO", "a directory" and so
 * on, static text; else NULL. It is not opened. */
const char *sb_wal_file_other_kind(int directory_fd, uint64_t number);
/* The same of any name. */
const char *sb_wal_file_name_kind(int directory_fd, const char *name);
/* Lists the log's files; numbers come in their order. Return: 0: sb_wal_file_list_end() frees the
 * list; -errno. */
int sb_wal_file_list(int directory_fd, struct sb_wal_names *ret);
/* The list of a log that is this open file alone: its number, or 1 where no good header says one.
 */
int sb_wal_file_list_one(int fd, struct sb_wal_names *ret);
/* Only the files from this number on. */
void sb_wal_file_list_from(struct sb_wal_names *names, uint64_t first);
void sb_wal_file_list_end(struct sb_wal_names *names);
/* The files that batches @first to @last begin and end in, by what headers say; those that cannot
 * be read say nothing, and what no header says stays as it is. */
void sb_wal_file_find_run(
        int directory_fd, uint64_t first, uint64_t last, uint64_t *ret_first, uint64_t *ret_last);

#endif
