/*
 * What the validator found in one look at a segment (upkeep/check.h): how many problems, the first
 * of them as sentences, and what it counted on the way.
 *
 * Always true: a segment is sound when problem_count is 0. The counts are of one look at a segment
 * that others may be changing; they are exact when no other process is at work.
 */
#ifndef SB_LAYOUT_REPORT_H
#define SB_LAYOUT_REPORT_H

#include <stdint.h>

struct sb_check_report {
        uint32_t problem_count; /* 0: sound */
        char problems[8][160];  /* the first ones, as sentences */
        uint64_t keys, keys_deleted, placeholders, versions, nodes, branches; /* reachable */
        /* blocks_waiting: unlinked, for a grace period */
        uint64_t units_free, units_used, blocks_used, blocks_waiting;
        /* that lack a hint (memory/vacancy.h), as a kill leaves them; a sweep sets it */
        uint64_t units_unhinted;
        uint64_t blocks_private; /* taken by a live client, not published */
        /* taken, linked by nothing, owned by no live client: each is also a problem */
        uint64_t blocks_lost;
        uint64_t bytes_used, bytes_free;
        uint64_t clients, guards, pinned, snapshots;
        /* that hold no block: of clients that are within a get, or were killed or stopped in one,
         * between publishing a guard and the look that would take it back (memory/guard.h) */
        uint64_t guards_stale;
};

/* Count a finding; the first ones are told, with a format as printf() takes it. */
__attribute__((format(printf, 2, 3))) void sb_report_problem(
        struct sb_check_report *report, const char *format, ...);

/* Add the findings and counts of another look, at another part of the same segment. */
void sb_report_add(struct sb_check_report *report, const struct sb_check_report *other);

#endif
