/*
 * Reading at cuts that nobody announces: what happens to be left, or is kept by a rule or a mark.
 *
 * A link says TRIMMED when something that was current in some cut was taken out from behind its
 * version: so a walk down a chain that meets no such link before it finds what was current in the
 * cut has found the truth, whatever pruners do at the same time. What a removed key was like
 * nothing tells: that a key was absent is known only when the cut is covered for it.
 *
 * Always true: that a cut is covered is asked after the read. What covers it, a mark or a rule, the
 * floor of history and its horizon, only ever covers less as time goes by, and a pruner looks at
 * these before he takes something out.
 */
#ifndef SB_HISTORY_PAST_H
#define SB_HISTORY_PAST_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

enum sb_past {
        SB_PAST_FOUND,   /* may be a tombstone */
        SB_PAST_ABSENT,  /* not in this life of the key */
        SB_PAST_TRIMMED, /* not known any more; *ret_version: the oldest that is left, or NULL */
};

/* Under a pin. */
enum sb_past sb_past_find(struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash,
        uint64_t cut, struct sb_version **ret_version);
enum sb_past sb_past_walk(
        struct sb_peer *peer, struct sb_node *node, uint64_t cut, struct sb_version **ret_version);
/* Whether a mark keeps @cut, for all keys. */
bool sb_past_marked(const struct sb_segment *segment, uint64_t cut);
/* Under a pin: whether a rule keeps what a key was in @cut. */
bool sb_past_kept(struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t cut);
/* Not under a pin: whether rules keep what all keys with a prefix were. *ret_end_ns: until then,
 * CLOCK_MONOTONIC, for certain; UINT64_MAX: as long as the floor is not above. */
bool sb_past_kept_all(struct sb_peer *peer, const void *prefix, uint32_t prefix_len, uint64_t cut,
        uint64_t *ret_end_ns);
/* Under a pin: the newest version down from @version, itself or @below it, that is committed, and
 * no birth; NULL: there is none. *trimmed is set when something is missing on the way. */
struct sb_version *sb_past_next(
        struct sb_peer *peer, struct sb_version *version, bool below, bool *trimmed);
/* Under a pin: the head of a key's chain, or NULL. */
struct sb_version *sb_past_head(
        struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash);

#endif
