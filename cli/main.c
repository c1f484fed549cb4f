/* agentctl: a bus's command line, a client like any other. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/patience.h"

/* Whether standard output is a pipe that nothing reads any more, as behind `agentctl scan | head`:
 * then the reader has what it wanted, and needs no line. */
static bool main_reader_is_gone(void)
{
        struct pollfd out = {.fd = STDOUT_FILENO};

        return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

/* Where the program that runs agentctl has closed a standard stream, the first file of a bus that
 * is opened would take its place, and messages would be written into it. What takes it here fails
 * as the closed one does (EBADF). */
static void main_keep_streams(void)
{
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0)
                        (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
        struct cli cli = {0};
        int code;

        main_keep_streams();
        /* A closed pipe is then a failed write like any other. */
        signal(SIGPIPE, SIG_IGN);
        code = cli_run(&cli, argc, argv);
        cli_patience_end();
        sb_close(cli.attached);
        if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_DONE) {
                if (!main_reader_is_gone())
                        cli_say("cannot write to standard output: %s; all else was done",
                                strerror(errno));
                code = CLI_FAILED;
        }
        return code;
}
