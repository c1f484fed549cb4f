/* A bus of its own, the time, and an early end; see demo-stage.h. */
#define _GNU_SOURCE
#include "demo-stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define START "agentctl -b %s start --size %zuM"

static char directory[] = "/tmp/statebus-demo-XXXXXX";
static size_t size;
static pid_t beginner;
static double begin;
static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
        interrupted = signal_number;
}

/* Ctrl-C, a closed terminal and a reader that closed the pipe have the same effect: the demo goes
 * to its end and leaves nothing behind. */
static void on_every_end(void (*handler)(int))
{
        static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
                sigaction(ends[i],
                        &(struct sigaction){.sa_handler = handler, .sa_flags = SA_RESTART}, NULL);
}

/* Run a command with the bus's directory in it. Return: whether it ended well. */
static bool run_command(const char *format, size_t number)
{
        char command[256];

        snprintf(command, sizeof(command), format, directory, number);
        fflush(stdout);
        return system(command) == 0;
}

const char *stage_begin(size_t size_mib)
{
        beginner = getpid();
        size = size_mib;
        /* Commands inherit that signals are ignored, so a start or a stop that has begun goes on to
         * its end. */
        on_every_end(SIG_IGN);
        if (!mkdtemp(directory)) {
                perror("demo: /tmp");
                exit(1);
        }
        if (!run_command(START, size)) {
                rmdir(directory); /* it stays if there is a log in it */
                exit(1);
        }
        on_every_end(interrupt);
        begin = stage_seconds();
        return directory;
}

void stage_stop_bus(void)
{
        if (getpid() == beginner)
                run_command("agentctl -b %s stop", 0);
}

/* Return: the pid of agentd, which leads a process group of all its processes; 0: not known. */
static pid_t find_agentd(void)
{
        char command[256], answer[4096];
        const char *found;
        FILE *pipe;
        size_t len;

        snprintf(command, sizeof(command), "agentctl -b %s -o json stat", directory);
        pipe = popen(command, "r");
        if (!pipe)
                return 0;
        len = fread(answer, 1, sizeof(answer) - 1, pipe);
        answer[len] = 0;
        found = pclose(pipe) == 0 ? strstr(answer, "\"keeper_pid\":") : NULL;
        return found ? (pid_t)strtol(strchr(found, ':') + 1, NULL, 10) : 0;
}

bool stage_crash(void)
{
        pid_t agentd = find_agentd();

        if (interrupted)
                return false;
        printf("\nnow agentd is killed with all its processes, and the bus in memory with them; "
               "agentd starts again\n");
        if (agentd > 1 && kill(-agentd, SIGKILL) == 0 && run_command(START, size))
                return true;
        fprintf(stderr, "demo: WRONG: agentd did not start again. Its log is in %s\n", directory);
        exit(1);
}

void stage_show_changes(const char *from, const char *to, const char *prefix)
{
        char command[256];

        printf("\nwhat changed between \"%s\" and \"%s\":\n", from, to);
        fflush(stdout);
        snprintf(command, sizeof(command), "agentctl -b %s diff '%s' '%s' %s --values", directory,
                from, to, prefix);
        if (system(command) != 0)
                printf("(it ended before that)\n");
        printf("\n");
}

bool stage_end(bool wrong)
{
        on_every_end(SIG_IGN);
        if (interrupted != SIGPIPE) { /* else no reader is left */
                printf("       agentctl check: ");
                wrong = !run_command("agentctl -b %s check", 0) || wrong;
        }
        stage_stop_bus();
        if (wrong)
                fprintf(stderr, "demo: WRONG. agentd's log is in %s\n", directory);
        else
                run_command("rm -r %s", 0);
        return !wrong;
}

double stage_seconds(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (double)time.tv_sec + (double)time.tv_nsec / 1e9 - begin;
}

bool stage_wait(double seconds)
{
        double early = seconds - stage_seconds();

        if (early > 0 && !interrupted)
                usleep((useconds_t)(early * 1e6));
        return !interrupted;
}
