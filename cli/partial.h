/*
 * A file that is there whole or not at all: it is written under another name, NAME.partial, and
 * gets its own behind the last sync.
 *
 * A command that is killed leaves NAME.partial. It begins with a sentence that says what it is, and
 * the next command that writes NAME takes it away. Two commands that write NAME at once are told
 * apart by a lock on NAME.partial, which goes with its process.
 *
 * Always true: no file that is there is written or replaced, whatever it is called: only what such
 * a command left is taken away. Under NAME there is a whole file, on the disk, or nothing. From the
 * beginning to the end SIGINT, SIGTERM and SIGHUP, where they are not ignored, end no process, but
 * the next write; and a file that is larger than a limit of the process is a failed write.
 */
#ifndef SB_CLI_PARTIAL_H
#define SB_CLI_PARTIAL_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_PARTIAL_SIGNALS 4

struct cli_partial {
        int directory_fd; /* the caller's */
        int fd;           /* -1: none is being written */
        bool replaced;    /* what an earlier command had left */
        const char *name; /* the caller's */
        char partial_name[NAME_MAX + 1];
        struct sigaction before[CLI_PARTIAL_SIGNALS];
};

/* Whether the open file is what a command left that was killed. */
bool cli_partial_is(int fd);
/* Begin the file @name of the directory, mode 0600. Return: 0: cli_partial_finish() or
 * cli_partial_drop() ends it; -EEXIST: there is a file of that name;
 * -EBUSY: another process writes it; -EPERM: NAME.partial is a file of another kind; -errno. */
int cli_partial_begin(int directory_fd, const char *name, struct cli_partial *ret);
/* Return: 0; -EINTR: a signal came; -errno. */
int cli_partial_write(struct cli_partial *partial, const void *bytes, size_t len, uint64_t offset);
/* Give it its name. Return: 0: it is on the disk, and ended; -EEXIST; -EINTR; -errno. */
int cli_partial_finish(struct cli_partial *partial);
/* End it without a trace. */
void cli_partial_drop(struct cli_partial *partial);

#endif
