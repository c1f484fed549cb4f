/* One look of the validator at a segment, shared by its passes (check.c, check-units.c). */
#ifndef SB_CHECK_LOOK_H
#define SB_CHECK_LOOK_H

#include "check.h"

struct sb_look {
        struct sb_peer *peer;
        struct sb_segment *segment;
        struct sb_check_report *report;
        bool quiescent;
        uint64_t held, listed; /* versions that are held; those that transactions list */
};

/* Count a finding; the first ones are told, printf-like. */
__attribute__((format(printf, 2, 3))) void sb_look_problem(
        struct sb_look *look, const char *format, ...);
/* The pass over units and blocks. */
void sb_look_at_units(struct sb_look *look);

#endif
