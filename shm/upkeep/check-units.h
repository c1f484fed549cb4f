/* The validator's pass over units and blocks (check.c has the other passes). */
#ifndef SB_UPKEEP_CHECK_UNITS_H
#define SB_UPKEEP_CHECK_UNITS_H

#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/upkeep/report.h"

struct sb_look {
        struct sb_peer *peer;
        struct sb_segment *segment;
        struct sb_check_report *report;
        bool quiescent;
        uint64_t held, listed; /* versions that are held; those that transactions list */
};

/* The pass over units and blocks. */
void sb_look_at_units(struct sb_look *look);

#endif
