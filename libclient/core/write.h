/*
 * What all writes have in common, a commit included: judging how they are to be done, and waiting
 * for memory.
 */
#ifndef SB_WRITE_H
#define SB_WRITE_H

#include "libclient/core/bus.h"

/* Whether @how can be meant; NULL can. Return: 0, -EINVAL. */
int sb_write_check(const struct sb_write *how);
/* Whether a caller may write @key, which has a legal length, or keys that begin so. Return: 0;
 * -EPERM: the key is the bus's own. It comes behind misuse, before SB_E_DETACHED, SB_E_DENIED. */
int sb_write_key(struct sb_bytes key);
/* Whether this bus does what was asked for properly. @how may be NULL. Return: 0, SB_E_DENIED,
 * SB_E_NOT_DURABLE, -ENOTSUP. */
int sb_write_able(const struct sb_bus *bus, const struct sb_write *how);
/* Whether the bus takes writes now. Return: 0; -EROFS: it cannot make them durable, and was started
 * with --on-disk-error read-only. */
int sb_write_open(const struct sb_bus *bus);

/* Behind the write, which is in @cut: wait until it is durable, if @how or the bus asks for that.
 * Return: 0; SB_E_TIMED_OUT, SB_E_NOT_DURABLE, SB_E_DETACHED, -EINTR: it is visible. */
int sb_write_last(struct sb_bus *bus, const struct sb_write *how, uint64_t cut);
/* The same behind a write of the bus's own keys, which has no @how, and of which the cut is not
 * known. */
int sb_write_last_own(struct sb_bus *bus);
/* Wait until @cut is durable, or the deadline. Return: as above. */
int sb_write_wait_durable(struct sb_bus *bus, uint64_t cut, uint64_t deadline_ns);

typedef int sb_write_attempt(void *argument);
/* An attempt has answered SB_E_FULL: reclaim memory and try again, until one answers something
 * else, or until @how's deadline. Return: what the last attempt answered; SB_E_FULL, SB_E_DETACHED,
 * -EINTR: nothing happened. */
int sb_write_wait(
        struct sb_bus *bus, const struct sb_write *how, sb_write_attempt *attempt, void *argument);

#endif
