/*
 * A log, brought back into a small segment by agentd's own recovery (agentd/wal/wal-recover.h), and
 * what is in the segment then.
 *
 * There is one with room for all that an input can say, and one that is soon full. Each lies in a
 * piece of memory that is used again and again. What agentd would say is kept, and not printed.
 *
 * Always true: a segment that recovery gives out was found sound by the validator, also behind a
 * write and a delete.
 */
#ifndef SB_TESTS_LOG_LOADED_H
#define SB_TESTS_LOG_LOADED_H

#include <stdbool.h>
#include <stdint.h>

struct log_loaded {
        int result; /* of sb_wal_recover() */
        uint64_t keys;
        uint64_t digest;                   /* of all keys, with the chains of their versions */
        uint64_t cut;                      /* that the bus is at, and its log */
        uint64_t history_floor, forgotten; /* what the bus says of itself */
        const char *said;                  /* the last line, until the next call */
};

/* Bring back the log in the directory, up to the cut @recover_to, 0: to its end. @small: into the
 * segment that is soon full. */
void log_load(int directory_fd, uint64_t recover_to, bool small, struct log_loaded *ret);

#endif
