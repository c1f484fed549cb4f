/*
 * Whether a process of agentd crashed, by the lines that agentd writes. Another one takes its
 * place, so clients need not notice, and a test has to ask.
 */
#ifndef SB_TEST_CRASHED_H
#define SB_TEST_CRASHED_H

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

#endif
