/* How far a long command is; see progress.h. */
#include "cli/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

#define SECOND_NS   UINT64_C(1000000000)
#define EVERY_NS    (SECOND_NS / 5)
#define EVERY_STEPS 16 /* the clock is looked at */
#define LINE_MAX    79 /* characters, which any terminal has */

static bool progress_shown; /* a line stands there */

static uint64_t progress_now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

void cli_progress_begin(struct cli_progress *progress, const char *what, uint64_t bytes_max)
{
        *progress = (struct cli_progress){.wanted = isatty(STDERR_FILENO) == 1,
                .what = what,
                .unit = "keys",
                .bytes_max = bytes_max};
        progress->began_ns = progress_now_ns();
        progress->next_ns = progress->began_ns + SECOND_NS;
}

void cli_progress_step(struct cli_progress *progress, uint64_t count, uint64_t bytes)
{
        char text[LINE_MAX + 1], size[32], share[16] = "";
        uint64_t now_ns;

        if (!progress->wanted || progress->steps++ % EVERY_STEPS != 0)
                return;
        now_ns = progress_now_ns();
        if (now_ns < progress->next_ns)
                return;
        progress->next_ns = now_ns + EVERY_NS;
        if (progress->bytes_max != 0)
                snprintf(share, sizeof(share), " %2.0f %%",
                        100.0 * (double)bytes / (double)progress->bytes_max);
        snprintf(text, sizeof(text), "%s:%s %" PRIu64 " %s, %s, %.0f %s a second", progress->what,
                share, count, progress->unit, cli_bytes_words(bytes, size),
                (double)count * (double)SECOND_NS / (double)(now_ns - progress->began_ns),
                progress->unit);
        fprintf(stderr, "\r%-*s", LINE_MAX, text);
        fflush(stderr);
        progress_shown = true;
}

void cli_progress_share(struct cli_progress *progress, uint64_t done, uint64_t all)
{
        char text[LINE_MAX + 1];
        uint64_t now_ns = progress_now_ns();

        if (!progress->wanted || now_ns < progress->next_ns || all == 0)
                return;
        progress->next_ns = now_ns + EVERY_NS;
        snprintf(text, sizeof(text), "%s: %2.0f %%", progress->what,
                100.0 * (double)done / (double)all);
        fprintf(stderr, "\r%-*s", LINE_MAX, text);
        fflush(stderr);
        progress_shown = true;
}

void cli_progress_hide(void)
{
        if (progress_shown)
                fprintf(stderr, "\r%-*s\r", LINE_MAX, "");
        fflush(stderr);
        progress_shown = false;
}

void cli_progress_end(struct cli_progress *progress)
{
        cli_progress_hide();
        progress->wanted = false;
}

/* ---- for one call ---- */

static const char *progress_what; /* stays as it is while the timer runs */
static volatile sig_atomic_t progress_told;

static void progress_tell(int signal_number)
{
        const int error = errno;

        (void)signal_number;
        if (write(STDERR_FILENO, progress_what, strlen(progress_what)) > 0)
                progress_told = 1;
        errno = error;
}

void cli_progress_wait(const char *what)
{
        const struct sigaction action = {.sa_handler = progress_tell, .sa_flags = SA_RESTART};
        const struct itimerval timer = {.it_value.tv_sec = what ? 1 : 0};

        if (isatty(STDERR_FILENO) != 1)
                return;
        if (what) {
                progress_what = what;
                sigaction(SIGALRM, &action, NULL);
        }
        setitimer(ITIMER_REAL, &timer, NULL);
        if (what)
                return;
        if (progress_told)
                fprintf(stderr, "\r%-*s\r", LINE_MAX, "");
        fflush(stderr);
        progress_told = 0;
}
