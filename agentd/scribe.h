/*
 * The scribe: a process of agentd that copies the lines of all others to where standard error goes.
 * A file may hang with its disk, a terminal may be stopped, and the reader of a pipe may read no
 * more: then the scribe hangs, and no process that clients wait for.
 *
 *      supervisor, engine, log -> a pipe that does not block -> scribe -> file, terminal, journal
 *
 * The pipe holds some hundred lines. What it has no space for is counted, and the scribe says how
 * many lines were lost, where they are missing.
 *
 * Always true: the scribe ends when supervisor and engine have ended, however they did, and what
 * they said until then is written. A scribe that dies is followed by another one, which goes on
 * with what is in the pipe. One at a time copies, so lines stay in their order.
 */
#ifndef SB_SCRIBE_H
#define SB_SCRIBE_H

#include <stdint.h>

#include "agentd/memory.h"

struct sb_scribe {
        int out;     /* where standard error went; -1: there is no scribe, it goes there still */
        int in;      /* the end of the pipe that is read */
        int ended;   /* hung up when supervisor and engine have ended */
        int serving; /* its other end: theirs */
        int pidfd;   /* of the scribe, or -1 */
        uint64_t retry_ns; /* no other one is started before this */
};

/* From here on this process and its children have a scribe. @memory: the segment, of which the
 * scribe keeps nothing. Return: 0; -1: the reason was logged. */
int sb_scribe_begin(struct sb_scribe *scribe, const struct sb_memory *memory);
/* Start another one if the pidfd says that it has ended, or there is none, a second behind the one
 * before. Return: when to call again without a word of the pidfd, in ns; UINT64_MAX: never. */
uint64_t sb_scribe_renew(struct sb_scribe *scribe, const struct sb_memory *memory);
/* This process ends, and says nothing any more: wait until all of its lines are in their file. For
 * a terminal that is stopped, and a reader that does not read, it does not wait. */
void sb_scribe_end(struct sb_scribe *scribe, const struct sb_memory *memory);

#endif
