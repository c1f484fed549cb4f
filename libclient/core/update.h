/* Not installed: what counts as an integer in a value, for agentctl; pauses of who tries again. */
#ifndef SB_UPDATE_H
#define SB_UPDATE_H

#include <stdbool.h>

#include "libclient/statebus.h"

/* A decimal integer of 64 bits as Redis keeps it: no sign but -, no space, no leading zeros. */
bool sb_update_integer(struct sb_bytes text, int64_t *ret);

/* Before attempt number @attempt: less than 2^@bits turns of a pause instruction (some ten
 * nanoseconds each), so many that it differs among those who wait. */
void sb_update_pause(uint32_t attempt, uint32_t bits);

#endif
