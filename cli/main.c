/* agentctl: a bus's command line, a client like any other. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

int main(int argc, char **argv)
{
        struct cli cli = {0};
        int code;

        /* A closed pipe is then a failed write like any other. */
        signal(SIGPIPE, SIG_IGN);
        code = cli_run(&cli, argc, argv);
        sb_close(cli.attached);
        if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_DONE) {
                cli_say("cannot write to standard output: %s; all else was done", strerror(errno));
                code = CLI_FAILED;
        }
        return code;
}
