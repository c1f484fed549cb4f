/*
 * The guard against SIGBUS; see guard.h.
 *
 * Always true: the handler restores the default action before it jumps, so that a second SIGBUS
 * ends the process.
 */
#define _GNU_SOURCE
#include "agentd/guard.h"

#include <signal.h>
#include <stddef.h>

sigjmp_buf sb_guard_return;

static void guard_caught(int number)
{
        (void)signal(number, SIG_DFL);
        siglongjmp(sb_guard_return, 1);
}

void sb_guard_arm(void)
{
        struct sigaction action = {.sa_handler = guard_caught};

        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, NULL);
}

void sb_guard_disarm(void)
{
        (void)signal(SIGBUS, SIG_DFL);
}
