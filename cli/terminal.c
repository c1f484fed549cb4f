/* A screen of its own on the terminal; see terminal.h. */
#define _GNU_SOURCE
#include "cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

/* The other screen, without a cursor, and lines that end where the screen does; and back. */
#define TERMINAL_ENTER "\033[?1049h\033[?25l\033[?7l"
#define TERMINAL_LEAVE "\033[?7h\033[?25h\033[?1049l"

static struct termios terminal_before;
static sigset_t terminal_mask_before;
static bool terminal_has_keys;
static int terminal_signals = -1;

bool cli_terminal_is_there(void)
{
        const char *kind = getenv("TERM");

        return cli_on_terminal() && kind && kind[0] != '\0' && strcmp(kind, "dumb") != 0;
}

static void terminal_say(const char *text)
{
        fputs(text, stdout);
        fflush(stdout);
}

static void terminal_enter(void)
{
        struct termios keys = terminal_before;

        /* Keys come one by one, and are not shown. Ctrl-C and Ctrl-Z stay signals. */
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        keys.c_cc[VMIN] = 1;
        keys.c_cc[VTIME] = 0;
        if (terminal_has_keys)
                tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
        terminal_say(TERMINAL_ENTER);
}

static void terminal_leave(void)
{
        terminal_say(TERMINAL_LEAVE);
        if (terminal_has_keys)
                tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal_before);
}

int cli_terminal_begin(void)
{
        const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT};
        sigset_t mask;

        sigemptyset(&mask);
        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
                sigaddset(&mask, taken[i]);
        terminal_signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
        if (terminal_signals < 0)
                return -errno;
        sigprocmask(SIG_BLOCK, &mask, &terminal_mask_before);
        terminal_has_keys = tcgetattr(STDIN_FILENO, &terminal_before) == 0;
        terminal_enter();
        return 0;
}

void cli_terminal_end(void)
{
        terminal_leave();
        close(terminal_signals);
        terminal_signals = -1;
        sigprocmask(SIG_SETMASK, &terminal_mask_before, NULL);
}

void cli_terminal_size(int *ret_columns, int *ret_lines)
{
        struct winsize size = {0};

        (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        *ret_columns = size.ws_col > 0 ? size.ws_col : 80;
        *ret_lines = size.ws_row > 0 ? size.ws_row : 24;
}

void cli_terminal_draw(const char *text)
{
        int columns, lines;

        cli_terminal_size(&columns, &lines);
        fputs("\033[H", stdout);
        for (int line = 0; line < lines && *text; line++) {
                int len = (int)strcspn(text, "\n");

                printf("%s%.*s\033[K", line > 0 ? "\r\n" : "", len < columns ? len : columns, text);
                text += len + (text[len] == '\n');
        }
        terminal_say("\033[J");
}

/* Give the terminal back, and stop, until the shell lets this process go on. */
static void terminal_stop(void)
{
        terminal_leave();
        raise(SIGSTOP);
}

static enum cli_terminal_event terminal_take_signal(void)
{
        struct signalfd_siginfo info;

        if (read(terminal_signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
                return CLI_TERMINAL_DRAW;
        switch (info.ssi_signo) {
        case SIGTSTP:
                terminal_stop();
                return CLI_TERMINAL_DRAW; /* SIGCONT waits to be taken */
        case SIGCONT:
                terminal_enter();
                return CLI_TERMINAL_DRAW;
        case SIGWINCH:
                return CLI_TERMINAL_DRAW;
        default:
                return CLI_TERMINAL_END;
        }
}

/* Read keys. Return: whether one says that this is the end, or there will be no more. */
static bool terminal_take_keys(void)
{
        char keys[64];
        ssize_t len = read(STDIN_FILENO, keys, sizeof(keys));

        if (len < 0)
                return errno != EINTR && errno != EAGAIN;
        return len == 0 || memchr(keys, 'q', (size_t)len) || memchr(keys, 'Q', (size_t)len);
}

enum cli_terminal_event cli_terminal_await(uint64_t until_ns)
{
        for (;;) {
                struct pollfd polled[2] = {
                        {.fd = terminal_signals, .events = POLLIN},
                        {.fd = terminal_has_keys ? STDIN_FILENO : -1, .events = POLLIN},
                };
                struct timespec now, left = {0};
                uint64_t now_ns;
                int r;

                clock_gettime(CLOCK_MONOTONIC, &now);
                now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
                if (until_ns > now_ns) {
                        left.tv_sec = (time_t)((until_ns - now_ns) / 1000000000u);
                        left.tv_nsec = (long)((until_ns - now_ns) % 1000000000u);
                }
                r = ppoll(polled, 2, &left, NULL);
                if (r == 0)
                        return CLI_TERMINAL_TIME;
                if (polled[0].revents)
                        return terminal_take_signal();
                if (polled[1].revents && terminal_take_keys())
                        return CLI_TERMINAL_END;
        }
}
