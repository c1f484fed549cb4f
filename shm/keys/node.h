/*
 * Key nodes: one for each key, with its bytes, the number of its cell and its rule of history.
 * Making and removing nodes is upkeep/key.h.
 *
 * Always true: hash and key of a node are written before any other process can find it, and stay as
 * long as a pin protects the node. Its length is checked before its key is read: a segment may be
 * damaged.
 */
#ifndef SB_KEYS_NODE_H
#define SB_KEYS_NODE_H

#include <string.h>

#include "shm/layout/block.h"
#include "shm/layout/segment.h"

/* A node's key, by a length that was loaded once and checked: what the node itself says of it is
 * read nowhere else. */
struct sb_node_key {
        const unsigned char *bytes; /* NULL: the length does not fit the segment; it is 0 here */
        uint32_t len;
};
struct sb_node_key sb_node_key(const struct sb_segment *segment, const struct sb_node *node);
/* How many bytes a node with this key length has. */
static inline uint64_t sb_node_size(uint32_t key_len)
{
        return sizeof(struct sb_node) + (uint64_t)key_len;
}

/* The order of a node's key and @key, as sb_bytes_compare(): < 0 when the node comes first. A node
 * that cannot be read counts as behind all keys, so that walks end there. */
int sb_node_compare(const struct sb_segment *segment, const struct sb_node *node, const void *key,
        uint32_t key_len);

#endif
