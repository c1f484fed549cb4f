/*
 * `agentctl stop` beside an engine that does not answer (cli/serve.c): the wait for it ends, also
 * where the first alarm comes before the wait begins.
 *
 * The library's calls are the test's: attaching is a wait that only a signal ends.
 */
#include <errno.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "libclient/core/admin.h"
#include "tests/harness/test.h"

static int waits; /* of an attach; each was ended by an alarm */

/* Return: false: no alarm is to come that would end the wait. */
static bool wait_for_alarm(void)
{
        struct itimerval timer;

        if (getitimer(ITIMER_REAL, &timer) < 0 || !timerisset(&timer.it_value))
                return false;
        pause();
        waits++;
        return true;
}

int __wrap_sb_admin_open(const char *name, struct sb_bus **ret_bus);
int __wrap_sb_admin_open(const char *name, struct sb_bus **ret_bus)
{
        (void)name;
        (void)ret_bus;
        /* The first alarm comes before the engine is waited for, the second one in that wait. */
        return wait_for_alarm() && wait_for_alarm() ? -EINTR : -EDEADLK;
}

int __wrap_sb_admin_supervisor(const char *name, pid_t *ret_pid);
int __wrap_sb_admin_supervisor(const char *name, pid_t *ret_pid)
{
        (void)name;
        (void)ret_pid;
        return -ESRCH;
}

static void test_an_engine_that_does_not_answer_is_not_waited_for(void)
{
        struct cli cli = {.bus = "/tmp"};
        struct itimerval timer;

        CHECK_EQ(cli_stop(&cli), CLI_NO_AGENTD);
        CHECK_EQ(waits, 2);
        /* No alarm is left behind: it would end a wait of what comes next. */
        CHECK(!getitimer(ITIMER_REAL, &timer) && !timerisset(&timer.it_value));
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_an_engine_that_does_not_answer_is_not_waited_for);
        return test_end();
}
