/*
 * Finding versions: the newest one of a key, or the one that was current at a cut. The short way to
 * the newest, which nearly every get takes, is find-plain.h.
 *
 * A key's chain begins in its cell; from there on each version is older. The newest version of a
 * key is the first one that is committed; the one at a cut is the first one with a stamp that is
 * not above the cut. What lies under an intent or an aborted version is believed only after another
 * look at the head. An intent that may be in the reader's past is brought to its end (help.h).
 *
 * All functions are called under a pin; a version that they return may be read until the pin ends.
 */
#ifndef SB_MVCC_FIND_H
#define SB_MVCC_FIND_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* The newest version of a key that counts (never a placeholder), stamped; NULL: none. It may be a
 * tombstone. */
struct sb_version *sb_find_newest(
        struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash);
/* The version of a key at @cut, which is announced: the newest one that is committed with a stamp
 * <= @cut. NULL: none, or a placeholder. It may be a tombstone. */
struct sb_version *sb_find_at(
        struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash, uint64_t cut);
/* sb_hash_key() with the segment's seed, not inlined. */
uint64_t sb_find_hash_any(const struct sb_handle *handle, const void *key, uint64_t key_len);
/* The version at @cut, as sb_find_at(), of the node at offset @node: by its cell, or NULL, for
 * none. The node is not read. So it may have left the index since the cut, and @cell be any: then
 * no version is found. */
struct sb_version *sb_find_in_cell(
        struct sb_handle *handle, const struct sb_word64 *cell, uint64_t node, uint64_t cut);
struct sb_version *sb_find_in_node(struct sb_handle *handle, struct sb_node *node, uint64_t cut);
/* The node of a key that has been written, which was in the ordered index when it was looked at.
 * NULL says nothing about the key. */
struct sb_node *sb_find_node(
        struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash);

#endif
