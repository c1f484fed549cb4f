/*
 * Results in words. The texts come from the table in statebus.h that the numbers come from, and
 * those of an errno from the system, but for two.
 *
 * Always true: every int has a text, and the text is static.
 *
 * The public calls are described in statebus.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "libclient/statebus.h"

const char *sb_strerror(int result)
{
        const char *text = NULL;

        switch (result) {
        case 0:
                return "done";
#define CASE(name, value, words)                                                                   \
        case SB_E_##name:                                                                          \
                return words;
                SB_RESULTS(CASE)
#undef CASE
        /* What the system says of these does not tell a caller what to do. */
        case -ECONNREFUSED:
                return "connection refused: no agentd serves the bus, or the one that was started "
                       "has ended; the last line of agentd.log in the bus's directory says why";
        case -EROFS:
                return "the bus is read-only: its log cannot be written, see its status for the "
                       "cause";
        case -ENOTSUP:
                return "not supported: not in this version; of accesses, ask sb_open() for SB_PEER";
        }
        if (result < 0 && result >= -4095)
                text = strerrordesc_np(-result);
        return text ? text : "unknown result";
}
