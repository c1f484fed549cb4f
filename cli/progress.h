/*
 * How far a long command is: a line on standard error, written over again and again, on a terminal
 * alone, and only when the command takes longer than a second.
 *
 * Always true: between cli_progress_end() and the next cli_progress_begin() the line is gone, so
 * that a message stands on a line of its own.
 */
#ifndef SB_CLI_PROGRESS_H
#define SB_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cli_progress {
        bool wanted;
        const char *what; /* is going on; static text */
        const char *unit; /* what is counted: keys, if nothing else is said behind the begin */
        uint64_t bytes_max, began_ns, next_ns;
        uint32_t steps;
};

/* @bytes_max: how many bytes there are; 0: that is not known. */
void cli_progress_begin(struct cli_progress *progress, const char *what, uint64_t bytes_max);
/* So many keys, or of the other unit, and bytes are done. Cost: mostly that of a comparison. */
void cli_progress_step(struct cli_progress *progress, uint64_t count, uint64_t bytes);
/* So much of all is done, of something that another process does. */
void cli_progress_share(struct cli_progress *progress, uint64_t done, uint64_t all);
void cli_progress_end(struct cli_progress *progress);
/* Take the line away until the next step, for a message of another thread. */
void cli_progress_hide(void);
/* The same for one call that cannot say how far it is: @what stands there when it takes longer than
 * a second, until it is told NULL. Static text of one line; it uses the alarm. */
void cli_progress_wait(const char *what);

#endif
