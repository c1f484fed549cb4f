/*
 * Lines on standard error; see log.h. A line is written only when poll() says that the write will
 * not block.
 *
 * Always true: no line is longer than PIPE_BUF, so a pipe takes it whole.
 */
#define _GNU_SOURCE
#include "agentd/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void log_say(const char *line, size_t len)
{
        struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

        /* A pipe that says POLLOUT takes a line of up to PIPE_BUF bytes whole. */
        if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT))
                (void)!write(STDERR_FILENO, line, len);
}

/* Write the time, when standard error is a file: nothing else adds one there. Return: its length.
 */
static size_t log_write_time(char *line, size_t size)
{
        struct timespec now;
        struct stat status;
        struct tm parts;

        if (fstat(STDERR_FILENO, &status) < 0 || !S_ISREG(status.st_mode) ||
                clock_gettime(CLOCK_REALTIME, &now) < 0 || !gmtime_r(&now.tv_sec, &parts))
                return 0;
        return strftime(line, size, "%Y-%m-%dT%H:%M:%SZ ", &parts);
}

void sb_log(const char *format, ...)
{
        char line[1024];
        size_t len = log_write_time(line, sizeof(line));
        va_list arguments;
        int more;

        len += (size_t)snprintf(line + len, sizeof(line) - len, "agentd: ");
        va_start(arguments, format);
        more = vsnprintf(line + len, sizeof(line) - len - 1, format, arguments);
        va_end(arguments);
        if (more < 0)
                return;
        len = (size_t)more < sizeof(line) - len - 1 ? len + (size_t)more : sizeof(line) - 2;
        line[len++] = '\n';
        log_say(line, len);
}

void sb_log_word(const char *word)
{
        char line[64];
        int len = snprintf(line, sizeof(line), "%s\n", word);

        if (len > 0 && (size_t)len < sizeof(line))
                log_say(line, (size_t)len);
}
