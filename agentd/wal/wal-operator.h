/*
 * What a start says to an operator about a command that did not do what it was meant to: a
 * --recover-to that names a cut which the log does not have. That is no damage: without a line the
 * bus would look as if all were well.
 */
#ifndef SB_WAL_OPERATOR_H
#define SB_WAL_OPERATOR_H

#include <stdint.h>

#include "agentd/config.h"

/* The operator asked for a cut that lies before the first batch. */
void sb_wal_operator_say_too_old(const struct sb_config *config);
/* The log ends with @last_cut; 0: there is none. Where the operator asked for a later one, say so:
 * all that there is comes back. */
void sb_wal_operator_say_unreached(const struct sb_config *config, uint64_t last_cut);

#endif
