/*
 * A transaction's read set: what a serializable transaction has read, as keys, and as ranges of
 * keys that scans went over.
 *
 * Reads are noted in the order in which they come; a scan's next step lengthens the scan's last
 * range. When memory gets short, and for the commit, the set is put in order: it is sorted,
 * overlapping and neighbouring ranges are joined, and keys are dropped that lie in a range or are
 * written, too (the commit compares the revisions of those). When the set is more than a commit can
 * carry it becomes coarser: neighbours are joined over the gap between them, which can only give
 * more conflicts, and never misses one.
 *
 * Always true: each key that was read, found or not, and each key that a scan passed, is in an
 * entry of the read set or in the write set.
 */
#ifndef SB_READ_SET_H
#define SB_READ_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/core/write-set.h"
#include "ring/op/commit.h"

/* A gap between two keys: right before this key, or right behind it. */
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
        uint64_t len_max; /* bytes, packed as in a descriptor, beyond which the set becomes coarser
                           */
};

/* A read set is all zero before its first use, but for key_len_max and len_max. */

/* Make memory for two more entries, if need be by putting the set in order. @writes: the
 * transaction's write set. Return: 0, -ENOMEM. Cost: two comparisons, now and then a sort. */
int sb_read_set_prepare(struct sb_read_set *reads, const struct sb_write_set *writes);
/* Note that a key was read. sb_read_set_prepare() came before. */
void sb_read_set_add_key(struct sb_read_set *reads, const void *key, uint32_t key_len);
/* Note that all keys between two edges were read. sb_read_set_prepare() came before. */
void sb_read_set_add_range(struct sb_read_set *reads, const struct sb_read_set_edge *from,
        const struct sb_read_set_edge *to);
/* Give all keys and ranges, ascending and disjoint, in memory that stays until the next call. They
 * take @len_max bytes at most, packed as in a descriptor, unless a single range is longer. Return:
 * 0, -ENOMEM. Cost: a sort. */
int sb_read_set_order(struct sb_read_set *reads, const struct sb_write_set *writes,
        uint64_t len_max, const struct sb_commit_range **ret_ranges, uint32_t *ret_count);
/* Forget all reads. The memory stays, if it is little, for the next transaction. */
void sb_read_set_clear(struct sb_read_set *reads);
/* Forget all reads, and give the memory back. */
void sb_read_set_fini(struct sb_read_set *reads);

#endif
