/*
 * Key nodes: one for each key, with its bytes, its links in the ordered index, the number of its
 * cell and its rule of history. Making and removing nodes is upkeep/key.h.
 *
 * Always true: hash, key and height of a node are written before any other process can find it, and
 * stay as long as a pin protects the node. Its lengths are checked before its key is read: a
 * segment may be damaged.
 */
#ifndef SB_KEYS_NODE_H
#define SB_KEYS_NODE_H

#include <string.h>

#include "shm/layout/block.h"
#include "shm/layout/segment.h"

/* A node's key, by lengths that were loaded once and checked: what the node itself says of them is
 * read nowhere else. */
struct sb_node_key {
        const unsigned char *bytes; /* NULL: the lengths do not fit the segment; they are 0 here */
        uint32_t len, height;
};
struct sb_node_key sb_node_key(const struct sb_segment *segment, const struct sb_node *node);
/* How many bytes a node with this height and key length has. */
static inline uint64_t sb_node_size(uint32_t height, uint32_t key_len)
{
        return sizeof(struct sb_node) + 8 * (uint64_t)height + key_len;
}

/* The height of a key's node: 1, and one more with a probability of a quarter each, by bits of the
 * hash that neither bucket nor tag uses much. */
static inline uint32_t sb_node_height(const struct sb_segment *segment, uint64_t hash)
{
        uint32_t height = 1 + (uint32_t)__builtin_ctzll(hash >> 16 | UINT64_C(1) << 47) / 2;

        return height < segment->height_max ? height : segment->height_max;
}

/* The order of a node's key and @key, as sb_bytes_compare(): < 0 when the node comes first. A node
 * that cannot be read counts as behind all keys, so that walks end there. */
int sb_node_compare(const struct sb_segment *segment, const struct sb_node *node, const void *key,
        uint32_t key_len);

#endif
