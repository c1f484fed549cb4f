/* Lines on standard error; see log.h. */
#define _GNU_SOURCE
#include "agentd/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say(const char *line, size_t len)
{
        struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

        /* A pipe that says POLLOUT takes a line of up to PIPE_BUF bytes whole. */
        if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT))
                (void)!write(STDERR_FILENO, line, len);
}

void sb_log(const char *format, ...)
{
        char line[1024] = "agentd: ";
        size_t len = strlen(line);
        va_list arguments;
        int more;

        va_start(arguments, format);
        more = vsnprintf(line + len, sizeof(line) - len - 1, format, arguments);
        va_end(arguments);
        if (more < 0)
                return;
        len = (size_t)more < sizeof(line) - len - 1 ? len + (size_t)more : sizeof(line) - 2;
        line[len++] = '\n';
        say(line, len);
}

void sb_log_word(const char *word)
{
        char line[64];
        int len = snprintf(line, sizeof(line), "%s\n", word);

        if (len > 0 && (size_t)len < sizeof(line))
                say(line, (size_t)len);
}
