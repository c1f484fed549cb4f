/* What all writes have in common: judging how they are to be done, and waiting for room. */
#ifndef SB_WRITE_H
#define SB_WRITE_H

#include "libclient/core/bus.h"

/* Whether @how can be meant. Return: 0, -EINVAL. */
int sb_write_check(const struct sb_write *how);
/* What was asked for properly, but this bus does not do. @how may be NULL. Return: 0, SB_E_DENIED,
 * SB_E_NOT_DURABLE, -ENOTSUP. */
int sb_write_able(const struct sb_bus *bus, const struct sb_write *how);

typedef int sb_write_attempt(void *argument);
/* An attempt found no room: more of them, up to @how's deadline. Return: what the last attempt
 * said; SB_E_FULL, SB_E_DETACHED, -EINTR: nothing happened. */
int sb_write_wait(
        struct sb_bus *bus, const struct sb_write *how, sb_write_attempt *attempt, void *argument);

#endif
