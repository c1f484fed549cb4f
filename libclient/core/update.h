/* For agentctl, not installed: what counts as an integer in a value. */
#ifndef SB_UPDATE_H
#define SB_UPDATE_H

#include <stdbool.h>

#include "libclient/statebus.h"

/* A decimal integer of 64 bits as Redis keeps it: no sign but -, no space, no leading zeros. */
bool sb_update_integer(struct sb_bytes text, int64_t *ret);

#endif
