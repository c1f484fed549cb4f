/*
 * The ordered index: a lock-free skip list of the nodes, by the bytes of their keys (Fraser, 2004;
 * Harris, 2001). A process touches it only to make or remove a key, and to scan; sets and gets of
 * keys that are there do not.
 *
 * Always true: level 0 decides whether a node is in the index. A node leaves marked, from its top
 * level down to level 0; each process that passes a node that is marked at a level takes it out of
 * that level. Links above level 0 are shortcuts that may be missing. All functions but the walk are
 * called under a pin; a node that they return may be read until the pin ends.
 */
#ifndef SB_KEYS_ORDER_H
#define SB_KEYS_ORDER_H

#include "shm/keys/ahead.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* The node with exactly this key, unmarked when it was seen; NULL: none. */
struct sb_node *sb_order_find(struct sb_handle *handle, const void *key, uint32_t key_len);
/* Link @node, unless its key is in the index already. Return: the key's node, @node or the one that
 * was there; NULL: the index is damaged, and @node is not linked. */
struct sb_node *sb_order_insert(struct sb_handle *handle, struct sb_node *node);
/* Mark @node and take it out. Any process may do this, at any time and more than once. Return:
 * false: the index is damaged, and @node may be linked still. */
bool sb_order_remove(struct sb_handle *handle, struct sb_node *node);
/* The first node with a key >= @key (> with @after), unmarked when seen; NULL: none. */
struct sb_node *sb_order_seek(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool after);
/* The last node with a key < @key (<= with @inclusive), unmarked when seen; NULL: none. */
struct sb_node *sb_order_below(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool inclusive);

/* The last nodes with keys < @key (<= with @inclusive), ascending: those from the last node of
 * @level on, SB_ORDER_RUN at most. A key that is in the index all the time is among them, if it
 * lies behind the first. What came meanwhile may be, also where it is not below @key. Return: how
 * many; 0: there is none. Cost: a way down, and a step for each node. */
#define SB_ORDER_RUN 32u
uint32_t sb_order_run_below(struct sb_handle *handle, const void *key, uint32_t key_len,
        bool inclusive, uint32_t level, struct sb_node *ret_nodes[SB_ORDER_RUN]);

/* The next node behind @node; NULL: none. *ret_gone: @node is being removed; its links may lead
 * past what came since, so the walk has to seek anew from its key. */
struct sb_node *sb_order_next(struct sb_handle *handle, struct sb_node *node, bool *ret_gone);
/* The same as sb_order_seek(), where a walk begins that fetches memory ahead. */
struct sb_node *sb_order_begin(struct sb_handle *handle, const void *key, uint32_t key_len,
        bool after, struct sb_ahead *ret_ahead);
/* The walk has come to @node: have memory of the nodes behind it fetched, unless it was. */
void sb_order_fetch_more(
        struct sb_handle *handle, struct sb_ahead *ahead, const struct sb_node *node);
static inline void sb_order_fetch(
        struct sb_handle *handle, struct sb_ahead *ahead, const struct sb_node *node)
{
        if (!sb_ahead_pass(&handle->segment, ahead))
                sb_order_fetch_more(handle, ahead, node);
}

/* Visit the nodes of all keys that begin with @prefix, ascending, each under a pin of the walk's. A
 * key that is there all the time is visited, once. Return: false: the segment is damaged. */
typedef void sb_order_visit(struct sb_handle *handle, struct sb_node *node, void *context);
bool sb_order_walk(struct sb_handle *handle, const void *prefix, uint32_t prefix_len,
        sb_order_visit *visit, void *context);

#endif
