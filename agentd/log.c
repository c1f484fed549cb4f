/*
 * Lines on standard error; see log.h. A line is written only when poll() says that the write will
 * not block.
 *
 * Always true: no line is longer than PIPE_BUF, so a pipe takes it whole.
 */
#define _GNU_SOURCE
#include "agentd/log.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"

static struct sb_word32 *log_lost; /* NULL: standard error is as this process was given it */
static bool log_is_file;

static void log_say(const char *line, size_t len)
{
        struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

        /* A pipe that says POLLOUT takes a line of up to PIPE_BUF bytes whole. */
        if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) &&
                write(STDERR_FILENO, line, len) == (ssize_t)len)
                return;
        if (log_lost && !SB_FAULT(LINES_LOST_UNSAID))
                (void)sb_add_full(log_lost, 1); /* R:lost. */
}

/* Write the time, when the line goes into a file: nothing else adds one there. Return: its length.
 */
static size_t log_write_time(char *line, size_t size)
{
        struct timespec now;
        struct stat status;
        struct tm parts;
        bool is_file =
                log_lost ? log_is_file : !fstat(STDERR_FILENO, &status) && S_ISREG(status.st_mode);

        if (!is_file || clock_gettime(CLOCK_REALTIME, &now) < 0 || !gmtime_r(&now.tv_sec, &parts))
                return 0;
        return strftime(line, size, "%Y-%m-%dT%H:%M:%SZ ", &parts);
}

/* As sb_log_make(). */
__attribute__((format(printf, 2, 0))) static size_t log_make(
        char *ret, const char *format, va_list arguments)
{
        size_t len = log_write_time(ret, SB_LOG_LINE_MAX);
        int more;

        len += (size_t)snprintf(ret + len, SB_LOG_LINE_MAX - len, "agentd: ");
        more = vsnprintf(ret + len, SB_LOG_LINE_MAX - len - 1, format, arguments);
        if (more < 0)
                return 0;
        len = (size_t)more < SB_LOG_LINE_MAX - len - 1 ? len + (size_t)more : SB_LOG_LINE_MAX - 2;
        ret[len++] = '\n';
        return len;
}

size_t sb_log_make(char *ret, const char *format, ...)
{
        va_list arguments;
        size_t len;

        va_start(arguments, format);
        len = log_make(ret, format, arguments);
        va_end(arguments);
        return len;
}

void sb_log(const char *format, ...)
{
        char line[SB_LOG_LINE_MAX];
        va_list arguments;
        size_t len;

        va_start(arguments, format);
        len = log_make(line, format, arguments);
        va_end(arguments);
        if (len)
                log_say(line, len);
}

void sb_log_word(const char *word)
{
        char line[64];
        int len = snprintf(line, sizeof(line), "%s\n", word);

        if (len > 0 && (size_t)len < sizeof(line))
                log_say(line, (size_t)len);
}

void sb_log_into_pipe(bool is_file, struct sb_word32 *lost)
{
        log_is_file = is_file;
        log_lost = lost;
}
