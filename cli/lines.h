/*
 * The lines of a file or a pipe, out of one buffer.
 *
 * What standard output was given is written out before more is read: a program that waits for an
 * answer before it writes its next line gets it, and a long file costs few system calls.
 *
 * Always true: the buffer holds the bytes that were read and not given out yet, and is no larger
 * than four times the longest line that was met, but for one piece of input.
 */
#ifndef SB_CLI_LINES_H
#define SB_CLI_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_lines {
        int fd;
        size_t line_max; /* bytes of the longest line that may come; it may be raised */
        bool ended;      /* there is no more input */
        char *bytes;     /* bytes[at] to bytes[len] was not given out yet, */
        size_t at, len, size;
        size_t looked; /* and so much of that has no line end */
};

/* Find the next line, without its end, which is a zero byte then. The last one may lack its end:
 * *ret_whole says so. It stays until the next call. Return: 0; SB_E_NOT_FOUND: there is no more;
 * -EMSGSIZE: it is longer than line_max, and the call may be made again with a larger one; -ENOMEM;
 * -errno of read(). */
int cli_lines_next(struct cli_lines *lines, char **ret_line, size_t *ret_len, bool *ret_whole);
/* Give the buffer back. The descriptor is the caller's. */
void cli_lines_free(struct cli_lines *lines);

#endif
