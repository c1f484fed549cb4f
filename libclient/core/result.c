/*
 * Results in words. The texts come from the table in statebus.h that the numbers come from.
 *
 * Always true: every int has a text, and the text is static.
 *
 * The public calls are described in statebus.h.
 */
#define _GNU_SOURCE
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
        }
        if (result < 0 && result >= -4095)
                text = strerrordesc_np(-result);
        return text ? text : "unknown result";
}
