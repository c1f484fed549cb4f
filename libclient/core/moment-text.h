/*
 * What a text means where a moment of the bus is wanted, as a CUT of agentctl's command line:
 * `now`, a cut's number, a time, or a mark's name. agentctl reads CUTs with this function, and
 * sb_mark() refuses what it does not take for a name. So each mark that is made can be named.
 *
 * Always true: the form of a text alone decides. Neither the time zone, nor the locale, nor what
 * the clock says makes a time of one process another one's name.
 */
#ifndef SB_MOMENT_TEXT_H
#define SB_MOMENT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/statebus.h"

enum sb_moment_text_kind {
        SB_MOMENT_TEXT_NOTHING, /* an empty text, or one that begins with @ and is no time */
        SB_MOMENT_TEXT_NOW,
        SB_MOMENT_TEXT_NUMBER,  /* digits alone, of a cut; it may have more than 64 bits */
        SB_MOMENT_TEXT_SECONDS, /* @SECONDS since 1970, perhaps with a fraction */
        SB_MOMENT_TEXT_DATE,    /* of ISO 8601: a date, perhaps with a time, perhaps with a zone */
        SB_MOMENT_TEXT_NAME,    /* any other text: of a mark */
};

/* What a time says. What is left out of a date is 0. */
struct sb_moment_text {
        uint64_t seconds; /* since 1970; UINT64_MAX: more */
        uint32_t year, month, day, hour, minute, second;
        uint32_t fraction_ns;
        bool local;           /* the date has no zone */
        int32_t zone_minutes; /* that the date's zone is ahead of UTC */
};

/* Read @text. *ret is set for SB_MOMENT_TEXT_SECONDS and SB_MOMENT_TEXT_DATE. */
enum sb_moment_text_kind sb_moment_text_read(struct sb_bytes text, struct sb_moment_text *ret);

#endif
