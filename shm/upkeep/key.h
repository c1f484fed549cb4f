/*
 * Making and removing a key (models: keys, walk). All under the caller's pin.
 *
 * Making: a complete node into the ordered index decides who makes it -> a birth into any empty
 * cell -> CAS(node.cell: none -> that cell) decides which cell it is -> the birth is stamped; only
 * then may it be superseded. Removing: CAS(cell: -> FROZEN), only over a stamped tombstone that no
 * cut can tell from "nothing", or over a bare birth. From there anybody goes on: floor raised ->
 * node.cell GONE -> node out of the ordered index -> cell emptied. Then two grace periods: after
 * the first the buckets and the index are looked through once more for what a slow maker left,
 * after the second the node is free.
 */
#ifndef SB_UPKEEP_KEY_H
#define SB_UPKEEP_KEY_H

#include <string.h>

#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Blocks a maker brings along; 0 after it was used. */
struct sb_key_supplies {
        uint64_t node, birth;
};

/* For writers: the cell of a key, asking every unstamped birth and finishing every removal that is
 * met. Return: whether there is one. */
bool sb_key_find(struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash,
        struct sb_spot *ret);

/* Make the key, or find that somebody does: after 0, sb_key_find() finds it or it was removed
 * again. @supplies come filled; what is still there afterwards is the caller's. Return: 0,
 * SB_E_FULL (no empty cell). */
int sb_key_make(struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash,
        struct sb_key_supplies *supplies);
/* Freeze the key in this cell if nobody needs it, and take it out. */
void sb_key_try_remove(struct sb_peer *peer, uint64_t cell_number, const struct sb_horizon *view);
/* Go on with a removal: @word is the frozen word that was in the cell. */
void sb_key_unhook(struct sb_peer *peer, uint64_t cell_number, uint64_t word);
/* A node without a cell that its dead maker left in the ordered index: out with it. */
void sb_key_abandon(struct sb_peer *peer, struct sb_node *node);
/* Between the grace periods: nothing can find the node from here on. */
void sb_key_second_look(struct sb_peer *peer, struct sb_node *node);

#endif
