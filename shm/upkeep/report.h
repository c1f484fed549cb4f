/*
 * What the validator found in one look at a segment.
 */
#ifndef SB_UPKEEP_REPORT_H
#define SB_UPKEEP_REPORT_H

#include <stdint.h>

struct sb_check_report {
        uint32_t problem_count;                               /* 0: sound */
        char problems[8][160];                                /* the first ones, as sentences */
        uint64_t keys, keys_deleted, births, versions, nodes; /* reachable */
        /* waiting: unlinked, for a grace period */
        uint64_t units_free, units_used, blocks_used, blocks_waiting;
        uint64_t blocks_private; /* taken by a live client, not published */
        /* allocated, reachable by nothing, owned by nobody alive: each is also a problem */
        uint64_t blocks_lost;
        uint64_t bytes_used, bytes_free;
        uint64_t clients, guards, pinned, snapshots;
};

/* Count a finding; the first ones are told, printf-like. */
__attribute__((format(printf, 2, 3))) void sb_report_problem(
        struct sb_check_report *report, const char *format, ...);

#endif
