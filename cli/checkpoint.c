/*
 * The command checkpoint: the log copies the whole bus, so that what was written before is not
 * needed any more, and a start has less to read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "libclient/core/admin.h"
#include "shm/base/os.h"

#define LOOK_NS  UINT64_C(100000000) /* how often a terminal is told how far it is */
#define STILL_NS UINT64_C(5000000000)

/* Nothing is wrong that the log could tell of, but nothing comes. */
static void checkpoint_say_still(struct sb_bus *bus)
{
        struct sb_admin_stat stat = {0};

        if (sb_admin_stat(bus, &stat) != 0)
                return;
        cli_say("checkpoint: nothing was written for 5 seconds: is agentd-log (pid %u) stopped, or "
                "the disk too slow? It is waited for; Ctrl-C ends the wait, and not the copy",
                stat.log_pid);
}

/* Wait for the copy, and show how far it is. Return: as sb_admin_log_wait(). */
static int checkpoint_wait(struct sb_bus *bus, uint64_t number)
{
        uint64_t now = sb_os_linux.now_ns(sb_os_linux.context), since = now, bytes = 0, done = 0;
        struct cli_progress progress;
        struct sb_admin_log log;
        bool said = false;
        int r;

        cli_progress_begin(&progress, "checkpoint", 0);
        do {
                r = sb_admin_log_wait(bus, number, now + LOOK_NS);
                sb_admin_log_counts(bus, &log);
                cli_progress_share(&progress, log.copy_done, log.copy_all);
                now = sb_os_linux.now_ns(sb_os_linux.context);
                if (log.bytes != bytes || log.copy_done != done) {
                        since = now;
                } else if (!said && now - since >= STILL_NS) {
                        checkpoint_say_still(bus);
                        said = true;
                }
                bytes = log.bytes;
                done = log.copy_done;
        } while (r == SB_E_TIMED_OUT || r == -EINTR);
        cli_progress_end(&progress);
        return r;
}

int cli_checkpoint(struct cli *cli)
{
        struct sb_bus *bus = NULL;
        struct sb_admin_log before, after;
        uint64_t number;
        char size[32];
        int r = cli_open(cli, &bus);

        if (r != 0)
                return r;
        sb_admin_log_counts(bus, &before);
        r = sb_admin_log_copy(bus, &number);
        if (r == SB_E_NOT_DURABLE) {
                cli_say("this bus is volatile: it has no log. `agentctl dump` writes its keys to a "
                        "file");
                return CLI_FAILED;
        }
        if (r == 0)
                r = checkpoint_wait(bus, number);
        if (r == SB_E_NOT_DURABLE) {
                cli_say("the log cannot be written (%s): it goes on with the copy when it can",
                        strerror(sb_admin_log_error(bus)));
                return CLI_FAILED;
        }
        if (r != 0)
                return cli_fail(cli, "checkpoint", r);
        sb_admin_log_counts(bus, &after);
        if (cli->json) {
                cli_json_begin();
                cli_json_number("cut", sb_durable(bus));
                cli_json_number("bytes", after.bytes - before.bytes);
                cli_json_end();
        } else {
                printf("the log has the whole bus up to cut %" PRIu64 "; %s were written\n",
                        sb_durable(bus), cli_bytes_words(after.bytes - before.bytes, size));
        }
        return CLI_DONE;
}
