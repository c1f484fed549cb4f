/*
 * What counts as an integer in a value, for agentctl; and pauses between attempts, for transact.c.
 * Not installed.
 */
#ifndef SB_UPDATE_H
#define SB_UPDATE_H

#include <stdbool.h>

#include "libclient/statebus.h"

/* Read a decimal integer of 64 bits as Redis keeps it: no sign but -, no space, no leading zeros.
 * Return: false: @text is none. */
bool sb_update_integer(struct sb_bytes text, int64_t *ret);

/* Pause before attempt number @attempt: for less than 2^@bits turns of a pause instruction, of some
 * ten nanoseconds each. The number of turns differs from thread to thread and from attempt to
 * attempt. */
void sb_update_pause(uint32_t attempt, uint32_t bits);

#endif
