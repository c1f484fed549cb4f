/*
 * Key nodes: one for each key, with its bytes, its links in the ordered index and the number of its
 * cell. Making and removing them is upkeep/key.h.
 */
#ifndef SB_KEYS_NODE_H
#define SB_KEYS_NODE_H

#include <string.h>

#include "shm/layout/block.h"
#include "shm/layout/segment.h"

/* A node's key, or NULL when its lengths do not fit the segment. */
const unsigned char *sb_node_key(const struct sb_segment *segment, const struct sb_node *node);
/* Bytes of a node with this height and key length. */
static inline uint64_t sb_node_size(uint32_t height, uint32_t key_len)
{
        return sizeof(struct sb_node) + 8 * (uint64_t)height + key_len;
}

/* Bits of the hash that neither bucket nor tag uses much. */
static inline uint32_t sb_node_height(const struct sb_segment *segment, uint64_t hash)
{
        uint32_t height = 1 + (uint32_t)__builtin_ctzll(hash >> 16 | UINT64_C(1) << 47) / 2;

        return height < segment->height_max ? height : segment->height_max;
}

/* The order of a node's key and @key, as sb_bytes_compare(); a node that cannot be read counts as
 * behind all keys, so that walks end there. */
int sb_node_compare(const struct sb_segment *segment, const struct sb_node *node, const void *key,
        uint32_t key_len);

#endif
