/*
 * The ordered index: a lock-free skip list over the nodes, by the keys' bytes (Fraser, 2004;
 * Harris, 2001), touched only when a key is made or removed, and by scans. All under the caller's
 * pin.
 *
 * Always true: level 0 decides whether a node is in it. A node is marked from its top level down to
 * 0; a node that is marked at a level is taken out of it by whoever passes. Upper links are
 * shortcuts that may be missing.
 */
#ifndef SB_KEYS_ORDER_H
#define SB_KEYS_ORDER_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

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

/* The next node behind @node; *ret_gone says that @node is being removed, and the walk has to seek
 * anew from its key once the pin under which @node was found is over. */
struct sb_node *sb_order_next(struct sb_peer *peer, struct sb_node *node, bool *ret_gone);
/* Have the memory of up to @count nodes behind @node, and of their newest versions, fetched: a walk
 * would wait for one after the other. Return: how many. */
uint32_t sb_order_fetch(struct sb_peer *peer, struct sb_node *node, uint32_t count);
#define SB_ORDER_FETCH 32u /* at most */

#endif
