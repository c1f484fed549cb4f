/*
 * What a serializable transaction has read: keys, and ranges of keys that scans went over.
 *
 * How it works: noted in the order of reading, a scan's next step lengthening its last range; now
 * and then, and for the commit, put in order: sorted, overlapping and neighbouring ones joined,
 * keys dropped that are written too (their commit compares revisions) or lie in a range. Too much
 * for a commit to carry becomes coarser: neighbours are joined over the gap between them, which
 * can only give more conflicts, never miss one.
 *
 * Always true: each key that was read, found or not, and each that a scan passed, is in one of them
 * or among the writes.
 */
#ifndef SB_READ_SET_H
#define SB_READ_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/core/write-set.h"
#include "ring/commit.h"

/* A place between two keys: before this one, or behind it. */
struct sb_read_set_edge {
        const void *key;
        uint32_t key_len;
        bool behind;
};

struct sb_read_set_entry;
struct sb_read_set {
        struct sb_read_set_entry *entries; /* @count of @capacity */
        unsigned char *bytes;              /* their keys: @used of @size */
        struct sb_commit_range *ordered;   /* what sb_read_set_order() gave */
        uint32_t count, capacity, ordered_capacity;
        uint32_t key_len_max;
        uint64_t used, size;
        uint64_t len_max; /* so many bytes, packed as in a commit, are enough to remember */
};

/* @reads is all zero before its first use, but for key_len_max and len_max. */

/* Make room for two more; @writes: the transaction's writes. Return: 0, -ENOMEM. */
int sb_read_set_prepare(struct sb_read_set *reads, const struct sb_write_set *writes);
/* A key was read. There is room. */
void sb_read_set_add_key(struct sb_read_set *reads, const void *key, uint32_t key_len);
/* All between two places was read. There is room. */
void sb_read_set_add_range(struct sb_read_set *reads, const struct sb_read_set_edge *from,
        const struct sb_read_set_edge *to);
/* All of them, ascending and disjoint, until the next call; in @len_max bytes, packed as in a
 * commit, if there can be more than one. Return: 0, -ENOMEM. */
int sb_read_set_order(struct sb_read_set *reads, const struct sb_write_set *writes,
        uint64_t len_max, const struct sb_commit_range **ret_ranges, uint32_t *ret_count);
/* Forget all; the memory stays, if it is little. */
void sb_read_set_clear(struct sb_read_set *reads);
void sb_read_set_fini(struct sb_read_set *reads);

#endif
