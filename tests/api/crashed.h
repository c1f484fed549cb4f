/*
 * Whether a process of agentd crashed, by the lines that agentd writes, or a worker of a storm did.
 * Another one takes its place, so clients need not notice, and a test has to ask.
 */
#ifndef SB_TEST_CRASHED_H
#define SB_TEST_CRASHED_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/daemon.h"

/* Whether a line says that an engine or a log ended by itself: not by SIGKILL, which is a test's
 * doing. Or a sanitizer has something to say. */
static inline bool agentd_crashed(const char *said)
{
        static const char by[] = "was ended by signal ", with[] = "ended with status ";
        const char *at = said;

        for (; (at = strstr(at, by)); at += sizeof(by) - 1)
                if (strtol(at + sizeof(by) - 1, NULL, 10) != SIGKILL)
                        return true;
        for (at = said; (at = strstr(at, with)); at += sizeof(with) - 1)
                if (strtol(at + sizeof(with) - 1, NULL, 10) != 128 + SIGKILL)
                        return true;
        return strstr(said, "runtime error") || strstr(said, "Sanitizer");
}

/* Whether a worker that is ended just now ended as it was told, by daemon_end_child()'s @end; @may:
 * it may have ended by itself. Else the complaint is about @name. */
static inline bool worker_ended_well(
        int end, bool may, const char *name, char *complaint, size_t complaint_size)
{
        if (end == DAEMON_KILLED || (may && end == 0))
                return true;
        if (!*complaint)
                snprintf(complaint, complaint_size, "%s ended by itself: %d", name, end);
        return false;
}

#endif
