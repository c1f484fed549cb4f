/*
 * The ordered index of a segment that one process alone maps, made at once: all nodes are sorted,
 * then the branches are made, each once and of the size that it needs. A node that is inserted into
 * the index (order.h) costs a way down, of which the last steps are cache misses in a large one; a
 * node that is sorted costs few of those.
 *
 * The sort goes by eight bytes of the keys at a time, which stand beside the nodes' offsets
 * (Bentley and Sedgewick's sort of strings), so most steps touch no node. Each key is less, equal
 * or more in these bytes than a key drawn at random; those that are equal are sorted by their next
 * eight bytes. So no order in which keys were made costs more than another one.
 *
 * Always true: behind sb_sorted_link(), the index has the nodes of all keys that have cells, and
 * those without a cell that were linked before.
 */
#ifndef SB_KEYS_SORTED_H
#define SB_KEYS_SORTED_H

#include <stdint.h>

#include "shm/layout/handle.h"

#define SB_SORTED_SPACE 16u /* bytes of private memory for each node */

/* At least as many nodes as sb_sorted_link() links. Cost: a look at each bucket. */
uint64_t sb_sorted_count(struct sb_handle *handle);
/* Link them. @space: of SB_SORTED_SPACE bytes for each of @count, which is what sb_sorted_count()
 * said, aligned to 8; no key has come since. NULL: there is none, and each node is inserted as
 * usual. No other process maps the segment; not under a pin. Return: 0; SB_E_FULL: there is no
 * memory for a branch, and the index is empty or has some of the nodes; -EIO. */
int sb_sorted_link(struct sb_handle *handle, void *space, uint64_t count);

#endif
