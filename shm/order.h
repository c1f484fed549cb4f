/*
 * The ordered index: a lock-free skip list over the nodes, by the keys' bytes (Fraser, 2004;
 * Harris, 2001), touched only when a key is made or removed, and by scans. All under the caller's
 * pin.
 *
 * Always true: level 0 decides whether a node is in it. A node is marked from its top level down to
 * 0; a node that is marked at a level is taken out of it by whoever passes. Upper links are
 * shortcuts that may be missing.
 */
#ifndef SB_ORDER_H
#define SB_ORDER_H

#include "peer.h"

/* The node with exactly this key, unmarked when it was seen, or NULL. */
struct sb_node *sb_order_find(struct sb_peer *peer, const void *key, uint32_t key_len);
/* Link @node, or find the one that is there already: returns the one in the index. */
struct sb_node *sb_order_insert(struct sb_peer *peer, struct sb_node *node);
/* Mark and take out. Idempotent; anybody. */
void sb_order_remove(struct sb_peer *peer, struct sb_node *node);
/* First node with a key >= @key (> with @after), unmarked when seen, or NULL. */
struct sb_node *sb_order_seek(struct sb_peer *peer, const void *key, uint32_t key_len, bool after);
/* Last node with a key < @key (<= with @inclusive), unmarked when seen, or NULL. */
struct sb_node *sb_order_below(
        struct sb_peer *peer, const void *key, uint32_t key_len, bool inclusive);

/* Order of two keys: bytes, then length. */
int sb_key_compare(const void *a, uint32_t a_len, const void *b, uint32_t b_len);
/* A node's key, or NULL when its lengths do not fit the segment. */
const unsigned char *sb_node_key(const struct sb_segment *segment, const struct sb_node *node);
/* Bytes of a node with this height and key length. */
static inline uint64_t sb_node_size(uint32_t height, uint32_t key_len)
{
        return sizeof(struct sb_node) + 8 * (uint64_t)height + key_len;
}

#endif
