/*
 * Making, finding and removing a key (models: keys, walk). All under the caller's pin.
 *
 * Making: a complete node goes into the ordered index, which decides which process makes the key ->
 * a placeholder into any empty cell -> CAS(node.cell: none -> that cell) decides which cell it is
 * -> the placeholder is stamped; only then may it be superseded.
 *
 * Removing: CAS(cell: -> FROZEN), only over a stamped tombstone that no cut can tell from an absent
 * key, or over a bare placeholder. From there any process goes on: floor raised -> what lies in the
 * cell is DYING -> node.cell GONE -> node out of the ordered index -> cell emptied -> dated. Then
 * the home's sign is healed, if the cell was outside (keys/index.h). Then
 * two grace periods: after the first the buckets and the index are looked through once more for
 * what a slow maker left, after the second the node is free.
 *
 * Always true: a key has one node in the ordered index, and its cell is the one that this node
 * names. The floor of a key's home is raised before its cell is emptied, and read after the node of
 * a new key is linked: so no revision of a key is given twice.
 */
#ifndef SB_UPKEEP_KEY_H
#define SB_UPKEEP_KEY_H

#include <string.h>

#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Blocks that a maker brings along; 0 after it was used. */
struct sb_key_supplies {
        uint64_t node, placeholder;
        uint32_t also; /* SB_SLAB_* bits, for what the ordered index needs */
        bool gave_way; /* at first false: another process's node was the key's, and `node` went */
        bool unlinked; /* of the only process: the caller links all nodes at once (keys/sorted.h) */
};

/* For writers: the cell of a key. On the way it asks about every unstamped placeholder and finishes
 * every removal. Return: whether there is one. */
bool sb_key_find(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash,
        struct sb_spot *ret);

/* Take the blocks that a new key needs and that @supplies lack; @also: SB_SLAB_* bits. Return: 0,
 * SB_E_FULL. */
int sb_key_take_supplies(struct sb_handle *handle, uint32_t key_len, uint32_t also,
        struct sb_key_supplies *supplies);
/* Make the key, or find that another process does: after 0, sb_key_find() finds it or it was
 * removed again. @supplies come filled; what is still there afterwards is the caller's.
 * Return: 0; SB_E_FULL: no empty cell, or, if the node is there afterwards, no memory for the
 * ordered index; -EIO: that is damaged. */
int sb_key_make(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash,
        struct sb_key_supplies *supplies);
/* Under a pin: the tombstone of a key that is deleted, and its stamp. @head: of the key's chain;
 * what lies above the tombstone was aborted. NULL: the key has a value, or it is not decided. */
struct sb_version *sb_key_tombstone(
        struct sb_handle *handle, struct sb_version *head, uint64_t *ret_stamp);
/* Freeze the key in this cell if no cut and no rule needs it by @horizon, and take it out. */
void sb_key_try_remove(
        struct sb_handle *handle, uint64_t cell_number, const struct sb_horizon *horizon);
/* Go on with a removal: @word is the frozen word that was in the cell. Each step can be done twice,
 * by several processes at once. */
void sb_key_unhook(struct sb_handle *handle, uint64_t cell_number, uint64_t word);
/* Take a node without a cell, which its dead maker left, out of the ordered index. */
void sb_key_abandon(struct sb_handle *handle, struct sb_node *node);
/* Between the two grace periods: from here on nothing can find the node. */
void sb_key_second_look(struct sb_handle *handle, struct sb_node *node);

#endif
