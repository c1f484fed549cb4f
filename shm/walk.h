/*
 * Finding keys: the newest version by hash, and all of a range in order at a cut. All under the
 * caller's pin.
 */
#ifndef SB_WALK_H
#define SB_WALK_H

#include "peer.h"

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
/* First node whose key is >= @key (> with @after), or NULL; its level-0 link was unmarked when it
 * was found. */
struct sb_node *sb_walk_seek(struct sb_peer *peer, const void *key, uint32_t key_len, bool after);
/* Last node whose key is < @key (<= with @inclusive), or NULL. There is no link back: each step is
 * a search. */
struct sb_node *sb_walk_below(
        struct sb_peer *peer, const void *key, uint32_t key_len, bool inclusive);
/* The next node behind @node; *ret_gone says that @node is being removed, and the walk has to seek
 * anew from its key once the pin under which @node was found is over. */
struct sb_node *sb_walk_next(struct sb_peer *peer, struct sb_node *node, bool *ret_gone);
/* Have the memory of up to @count nodes behind @node, and of their newest versions, fetched: a walk
 * would wait for one after the other. Return: how many. */
uint32_t sb_walk_fetch(struct sb_peer *peer, struct sb_node *node, uint32_t count);
#define SB_WALK_FETCH 32u /* at most */
/* A node's version at @cut: the newest with stamp <= cut, stamping what is unstamped; NULL: none,
 * or a birth. May be a tombstone. */
struct sb_version *sb_walk_at(struct sb_peer *peer, struct sb_node *node, uint64_t cut);

#endif
