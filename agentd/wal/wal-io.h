/*
 * What the log's writer does with files, as a table of functions: through io_uring, through
 * ordinary system calls, or through a test that writes down what is done, or lets it fail.
 *
 * All names are names in one directory. A file is a number that create() or open() gave. A frame
 * is written out of one of two buffers that belong to the table, so that a back end can register
 * them with the kernel; while one is on its way the writer fills the other.
 *
 * Each call returns 0 or -errno; a write that is not whole is a failed one (-EIO). A call that
 * failed may have done anything or nothing: the writer never writes or syncs that file again.
 *
 * Always true: sync() and finish() sync what was written before by any call; what they have
 * answered 0 for survives a power failure. The writer is one thread.
 */
#ifndef SB_WAL_IO_H
#define SB_WAL_IO_H

#include <stddef.h>
#include <stdint.h>

#define SB_WAL_IO_BUFFERS 2u

struct sb_wal_io {
        void *context;
        unsigned char *buffers[SB_WAL_IO_BUFFERS];
        size_t buffer_size;
        int (*create)(void *context, const char *name, int *ret_file); /* it must not be there */
        int (*open)(void *context, const char *name, int *ret_file);
        /* Writes, and waits for it. */
        int (*write)(void *context, int file, const void *bytes, size_t len, uint64_t file_offset);
        /* Begins to write from a buffer, which stays untouched until the next call but one of
         * push() or finish(), or the next of sync() or close(). A failure may be answered by any
         * later call for this file, at the latest by finish() or sync(). */
        int (*push)(void *context, int file, uint32_t buffer, size_t len, uint64_t file_offset);
        /* Writes from a buffer, behind what was pushed, then syncs the file, and waits for both. */
        int (*finish)(void *context, int file, uint32_t buffer, size_t len, uint64_t file_offset);
        int (*sync)(void *context, int file);   /* the file's bytes, and its size */
        void (*close)(void *context, int file); /* waits for what was pushed, syncs nothing */
        int (*rename)(void *context, const char *from, const char *to); /* replaces @to */
        int (*unlink)(void *context, const char *name);
        int (*sync_directory)(void *context);
        int (*random)(void *context, uint64_t *ret);
        void (*fini)(void *context); /* of the back end; frees the context and the buffers */
};

#endif
