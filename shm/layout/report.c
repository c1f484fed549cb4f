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
