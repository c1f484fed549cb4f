/*
 * Pauses between attempts, for transact.c, too. Not installed.
 */
#ifndef SB_UPDATE_H
#define SB_UPDATE_H

#include <stdint.h>

/* Pause before attempt number @attempt: for less than 2^@bits turns of a pause instruction, of some
 * ten nanoseconds each. The number of turns differs from thread to thread and from attempt to
 * attempt. */
void sb_update_pause(uint32_t attempt, uint32_t bits);

#endif
