/* A bus on which nothing is left to do, for the validator (shm/upkeep/check.h), and its report. */
#ifndef SB_TEST_UNIT_CHECKED_H
#define SB_TEST_UNIT_CHECKED_H

#include "shm/layout/report.h"
#include "shm/memory/slab.h"
#include "shm/upkeep/work.h"
#include "tests/unit/bus.h"

static struct sb_check_report report;

static inline void settle(void)
{
        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&writer, true);
        sb_slab_release_all(&writer);
        sb_slab_release_all(&reader);
}

#endif
