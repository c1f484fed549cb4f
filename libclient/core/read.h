/*
 * Reading several keys at one cut, for all that has one: sb_get_many_at() and sb_txn_get_many()
 * (read.c).
 */
#ifndef SB_READ_H
#define SB_READ_H

#include "libclient/core/bus.h"

/* Whether the arguments of a batch can be meant. Return: 0, -EINVAL, -ENAMETOOLONG. */
int sb_read_many_check(size_t key_len_max, const struct sb_bytes *keys, size_t count,
        const struct sb_guard *guards);
/* Hold the versions of @count keys at @cut, which the record's word @snapshot announces; the guard
 * of a key without a value is not held. The arguments were checked. Return: 0; SB_E_LAPPED: the
 * announcement was taken away; SB_E_FULL, -ENOMEM, -EIO. On failure no guard is held. */
int sb_read_many_at(struct sb_bus *bus, const struct sb_bytes *keys, size_t count,
        uint32_t snapshot, uint64_t cut, struct sb_guard *ret_guards);

#endif
