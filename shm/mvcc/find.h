/*
 * Finding versions: the newest of a key, or the one that was current at a cut. All under the
 * caller's pin. The short way, which nearly every get takes, is find-plain.h.
 */
#ifndef SB_MVCC_FIND_H
#define SB_MVCC_FIND_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* The newest version of a key that counts (never a birth), stamped; NULL when there is none. May be
 * a tombstone. */
struct sb_version *sb_find_newest(
        struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash);
/* The version of a key at @cut, which is announced: the newest that is committed with stamp <= cut;
 * NULL: none, or a birth. May be a tombstone. */
struct sb_version *sb_find_at(
        struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash, uint64_t cut);
/* sb_hash_key() with the segment's seed, not inlined. */
uint64_t sb_find_hash_any(const struct sb_peer *peer, const void *key, uint64_t key_len);
/* A node's version at @cut: the newest with stamp <= cut, stamping what is unstamped; NULL: none,
 * or a birth. May be a tombstone. */
struct sb_version *sb_find_in_node(struct sb_peer *peer, struct sb_node *node, uint64_t cut);

#endif
