/* What a start says about commands that did not do what was meant; see wal-operator.h. */
#define _GNU_SOURCE
#include "agentd/wal/wal-operator.h"

#include <inttypes.h>

#include "agentd/log.h"

void sb_wal_operator_say_too_old(const struct sb_config *config)
{
        sb_log("--recover-to %" PRIu64
               ": the log in %s has no batch that is so old: `agentctl log` lists their cuts; "
               "nothing is done",
                config->recover_to, config->place.directory);
}

void sb_wal_operator_say_unreached(const struct sb_config *config, uint64_t last_cut)
{
        const char *directory = config->place.directory;

        if (config->recover_to <= last_cut)
                return;
        if (last_cut)
                sb_log("--recover-to %" PRIu64
                       ": the log in %s was never at that cut; it ends with cut %" PRIu64
                       ", and all of it is brought back",
                        config->recover_to, directory, last_cut);
        else
                sb_log("--recover-to %" PRIu64 ": there is no log in %s, and the bus begins empty",
                        config->recover_to, directory);
}
