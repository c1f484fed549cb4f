/* What the validator found, put into words; see report.h. */

#include "shm/layout/report.h"

#include <stdarg.h>
#include <stdio.h>

void sb_report_problem(struct sb_check_report *report, const char *format, ...)
{
        uint32_t i = report->problem_count++;
        va_list arguments;

        if (i >= sizeof(report->problems) / sizeof(report->problems[0]))
                return;
        va_start(arguments, format);
        vsnprintf(report->problems[i], sizeof(report->problems[i]), format, arguments);
        va_end(arguments);
}

void sb_report_add(struct sb_check_report *report, const struct sb_check_report *other)
{
        const uint32_t most = sizeof(report->problems) / sizeof(report->problems[0]);

        for (uint32_t i = 0; i < other->problem_count && i < most; i++)
                sb_report_problem(
                        report, "%.*s", (int)sizeof(other->problems[i]), other->problems[i]);
        /* The rest, which no sentence tells. */
        if (other->problem_count > most)
                report->problem_count += other->problem_count - most;
        report->keys += other->keys;
        report->keys_deleted += other->keys_deleted;
        report->placeholders += other->placeholders;
        report->versions += other->versions;
        report->nodes += other->nodes;
        report->branches += other->branches;
        report->units_free += other->units_free;
        report->units_used += other->units_used;
        report->blocks_used += other->blocks_used;
        report->blocks_waiting += other->blocks_waiting;
        report->units_unhinted += other->units_unhinted;
        report->blocks_private += other->blocks_private;
        report->blocks_lost += other->blocks_lost;
        report->bytes_used += other->bytes_used;
        report->bytes_free += other->bytes_free;
        report->clients += other->clients;
        report->guards += other->guards;
        report->pinned += other->pinned;
        report->snapshots += other->snapshots;
        report->guards_stale += other->guards_stale;
}
