/*
 * The ordered index: a lock-free trie of the keys, four bits at a time, of which each slot is one
 * word (model: trie). A process touches it only to make or remove a key, and to scan; sets and gets
 * of keys that are there do not.
 *
 * The root and the slots of branches (layout/block.h) lead to nodes, which are leaves, and to
 * branches. A branch tells keys apart at its depth; all below it are the same up to there.
 *
 * - A maker goes down by its key. The leaf that it comes to, or any one below where it can go no
 *   further, says at which depth its key differs from those that are there. If a branch has that
 *   depth: CAS of its slot from free, or from empty with the same symbol, to the leaf. Else: a new
 *   branch of that depth, with what was there and the leaf, takes the place of the word on the way,
 *   by a CAS from exactly that word.
 * - A branch that has no slot left, or too few leaves, is replaced, by any process: OR of FROZEN
 *   into every slot; what is left in them goes into a copy, or, when it is one leaf or branch, is
 *   itself the successor; the retire word says DYING; CAS of the link to the branch, from exactly
 *   the word that led to it. The winner dates it. A process that writes, and comes to a FROZEN
 *   word, replaces its branch first: from above, so that its link is not FROZEN itself.
 * - A remover empties its leaf's slot, which keeps its symbol. The anchor, a slot that is fixed
 * when its branch is made, is never emptied: so along the anchors there is always a leaf. A leaf in
 * an anchor goes by replacing the branch, without the leaves of which the nodes are GONE.
 * - A reader goes down, over FROZEN words, too, as long as its stem stays (branch.h). It never
 *   helps, and never waits.
 *
 * A kill leaves FROZEN slots: the next writer there replaces the branch. A branch that is DYING and
 * not dated: a sweep asks whether the index leads to it, replaces it there, and dates it. A branch
 * that was never linked: the reaper of its maker frees it. A branch with one leaf: the second look
 * at a removed node repeats the removal by its key.
 *
 * Always true: a key is in the index once. Each branch has a leaf below it. Where the memory for a
 * copy is missing, a GONE node stays linked; a sweep tries again. All functions but the walk are
 * called under a pin; a node that they return may be read until the pin ends.
 */
#ifndef SB_KEYS_ORDER_H
#define SB_KEYS_ORDER_H

#include "shm/keys/branch.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* The node with exactly this key; NULL: none. */
struct sb_node *sb_order_find(struct sb_handle *handle, const void *key, uint32_t key_len);

/* A branch on the way of a key, or the root, where that leads to a leaf or to nothing. */
struct sb_order_place {
        struct sb_word64 *link; /* to the branch */
        uint64_t word;          /* what is in it */
        struct sb_branch_view view;
        struct sb_word64 *slot; /* the key's in the branch; NULL: there is none, and none is free */
        uint64_t slot_word;
        uint32_t above; /* the branch is at least so deep */
};

/* The index is empty; look again; the branch of the place is to be replaced first; the index is
 * damaged. */
enum sb_order_found {
        SB_ORDER_FOUND,
        SB_ORDER_NOTHING_THERE,
        SB_ORDER_CHANGED,
        SB_ORDER_IN_THE_WAY,
        SB_ORDER_LOST
};

/* Where a node is to be linked, and what its key differs from. For those that make keys: plain
 * data, good until the pin ends. */
struct sb_order_target {
        enum sb_order_found found;
        struct sb_order_place place;
        struct sb_node *leaf;
        struct sb_node_key leaf_key;
        uint32_t depth; /* at which it differs; SB_BRANCH_SAME: it is the same key */
};

/* Find where a key belongs, and whether there is memory for a branch that it needs there, or none
 * is needed. What it needs is then in the slab cache, unless other processes change the index
 * meanwhile. @also: SB_SLAB_* bits. Return: 0, SB_E_FULL. */
int sb_order_prepare(struct sb_handle *handle, const void *key, uint32_t key_len, uint32_t also,
        struct sb_order_target *ret);
/* Link @node, in place of a GONE one of its key, unless its key is in the index already. @prepared:
 * what sb_order_prepare() found for this key under this pin; NULL: it is looked for. A target that
 * is old by now is as one of a process that was stopped: each change is a CAS from what was found.
 * Return: 0: *ret_node is the key's node, @node or the one that was there; SB_E_FULL: there is no
 * memory for a branch; -EIO: the index is damaged. Then @node is not linked. */
int sb_order_insert(struct sb_handle *handle, struct sb_node *node, uint32_t also,
        const struct sb_order_target *prepared, struct sb_node **ret_node);
/* Take @node, which is GONE, out. Any process may do this, at any time and more than once. Return:
 * whether it is out; false: the index is damaged, or there is no memory for the copy of a branch.
 */
bool sb_order_remove(struct sb_handle *handle, struct sb_node *node);

/* Make a branch of the words of 2 to 17 symbols, which no other process sees. Under a pin.
 * *ret_link:
 * as in a slot. Return: 0, SB_E_FULL. */
int sb_order_make_branch(struct sb_handle *handle, uint32_t depth, const uint64_t *words,
        uint32_t count, uint64_t *ret_link);

/* Whether the index leads to @branch, which may be anything that lies in a block of a slab of
 * nodes. */
bool sb_order_reaches(struct sb_handle *handle, struct sb_branch *branch);
/* Replace @branch, which is DYING, where the index leads to it still, and date it. Without the
 * memory for that it stays. */
void sb_order_finish(struct sb_handle *handle, struct sb_branch *branch);

/* The first node with a key >= @key (> with @after); NULL: none. */
struct sb_node *sb_order_seek(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool after);
/* The last node with a key < @key (<= with @inclusive); NULL: none. */
struct sb_node *sb_order_below(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool inclusive);

/* Nodes in a row, by their keys. */
#define SB_ORDER_RUN 128u
struct sb_order_run {
        struct sb_node *node[SB_ORDER_RUN];
        uint32_t count;
        bool more; /* there may be others behind the last one */
};
/* The @most first nodes behind @key (from @key on, with @inclusive), ascending; with @backwards
 * those before it, descending. A key that is in the index all the time, and is not behind the last
 * of the run, or behind any if there are no more, is among them. 0 nodes: there is none. Cost: a
 * way down the trie, and a step for each node. */
void sb_order_take_run(struct sb_handle *handle, const void *key, uint32_t key_len, bool inclusive,
        bool backwards, uint32_t most, struct sb_order_run *ret);

/* A walk upwards under one pin: as sb_order_seek(), then the next node. NULL: there is none. */
struct sb_order_cursor {
        struct sb_order_run run;
        uint32_t at;
};
struct sb_node *sb_order_first(struct sb_handle *handle, const void *key, uint32_t key_len,
        bool after, struct sb_order_cursor *ret);
struct sb_node *sb_order_next(struct sb_handle *handle, struct sb_order_cursor *cursor);

/* Visit the nodes of all keys that begin with @prefix, ascending, each under a pin of the walk's. A
 * key that is there all the time is visited, once. Return: false: the segment is damaged. */
typedef void sb_order_visit(struct sb_handle *handle, struct sb_node *node, void *context);
bool sb_order_walk(struct sb_handle *handle, const void *prefix, uint32_t prefix_len,
        sb_order_visit *visit, void *context);

#endif
