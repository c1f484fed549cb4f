/* A word about a write that waits long for the disk; see patience.h. */
#define _GNU_SOURCE
#include "cli/patience.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "libclient/core/admin.h"

#define SAY_AFTER_NS  UINT64_C(2000000000)
#define LOOK_EVERY_NS 250000000

static pthread_mutex_t patience_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t patience_ended;
static struct cli *patience_cli; /* NULL: there is nothing to look at */

/* Return: whether the line was said. */
static bool patience_look(const struct cli *cli, uint64_t now_ns)
{
        uint64_t since_ns = sb_admin_waits_since(cli->attached);

        if (since_ns == 0 || now_ns < since_ns + SAY_AFTER_NS)
                return false;
        cli_progress_hide();
        cli_say("waiting until the write is on the disk; `agentctl %sstat` says how far the log is",
                cli_bus_words(cli));
        return true;
}

static void *patience_run(void *argument)
{
        struct timespec at;

        pthread_mutex_lock(&patience_lock);
        clock_gettime(CLOCK_MONOTONIC, &at);
        while (patience_cli && !patience_look(patience_cli,
                                       (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec)) {
                at.tv_nsec += LOOK_EVERY_NS;
                at.tv_sec += at.tv_nsec / 1000000000;
                at.tv_nsec %= 1000000000;
                (void)pthread_cond_timedwait(&patience_ended, &patience_lock, &at);
                clock_gettime(CLOCK_MONOTONIC, &at);
        }
        pthread_mutex_unlock(&patience_lock);
        return argument;
}

/* Without a thread there is no line, and the write is made all the same. */
static void patience_begin(struct cli *cli)
{
        pthread_condattr_t clock;
        sigset_t all, before;
        pthread_t thread;

        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        pthread_cond_init(&patience_ended, &clock);
        pthread_condattr_destroy(&clock);
        patience_cli = cli;
        /* The signals are those of the thread that writes. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        if (pthread_create(&thread, NULL, patience_run, NULL) == 0)
                pthread_detach(thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void cli_patience_end(void)
{
        pthread_mutex_lock(&patience_lock);
        if (patience_cli)
                pthread_cond_signal(&patience_ended);
        patience_cli = NULL;
        pthread_mutex_unlock(&patience_lock);
}

int cli_open_to_write(struct cli *cli, struct sb_bus **ret_bus)
{
        bool is_first = !cli->attached;
        int r = cli_open(cli, ret_bus);

        /* A volatile bus has no disk to wait for. */
        if (r == 0 && is_first && sb_admin_log_error(*ret_bus) >= 0)
                patience_begin(cli);
        return r;
}
