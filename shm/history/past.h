/*
 * Reading at cuts that no client announces: what happens to be left, or is kept by a rule of
 * history or a mark.
 *
 * How it works: a link says TRIMMED when something that was current in some cut was taken out from
 * behind its version. So a walk down a chain that meets no such link before it finds what was
 * current in the cut has found the truth, whatever pruners do at the same time. What a removed key
 * was like nothing tells: that a key was absent is known only where the cut is covered for it.
 *
 * Always true: whether a cut is covered is asked after the read. What covers it (a mark, or a rule,
 * the floor of history and the horizon of its span) only ever covers less as time goes by, and a
 * pruner looks at these before it takes something out.
 */
#ifndef SB_HISTORY_PAST_H
#define SB_HISTORY_PAST_H

#include "shm/base/fault.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"

enum sb_past {
        SB_PAST_FOUND,   /* *ret_version, which may be a tombstone */
        SB_PAST_ABSENT,  /* the key was not there in this life of it */
        SB_PAST_TRIMMED, /* not known any more; *ret_version: the oldest that is left, or NULL */
};

/* Under a pin: what a key, or the key of a node, was in @cut, as far as its chain tells.
 * Cost: a step for each version since the cut. */
enum sb_past sb_past_find(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint64_t hash, uint64_t cut, struct sb_version **ret_version);
enum sb_past sb_past_walk(struct sb_handle *handle, struct sb_node *node, uint64_t cut,
        struct sb_version **ret_version);
/* Whether a mark keeps @cut, for all keys. */
bool sb_past_marked(const struct sb_segment *segment, uint64_t cut);
/* Whether it keeps a key, or the keys with a prefix, of these bytes: a mark keeps none of the bus's
 * own. */
static inline bool sb_past_is_marked(
        const struct sb_segment *segment, uint64_t cut, const void *key, uint32_t key_len)
{
        return (!sb_reserved_is(key, key_len) || SB_FAULT(OWN_AT_MARKS)) &&
               sb_past_marked(segment, cut);
}
/* Under a pin: whether a rule keeps what a key was in @cut. */
bool sb_past_kept(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t cut);
/* Not under a pin: whether rules keep what all keys with a prefix were in @cut. *ret_end_ns: the
 * time (CLOCK_MONOTONIC) until which they certainly do; UINT64_MAX: as long as the floor is not
 * above the cut. Cost: a look at each rule for the prefix or below it. */
bool sb_past_kept_all(struct sb_handle *handle, const void *prefix, uint32_t prefix_len,
        uint64_t cut, uint64_t *ret_end_ns);
/* Under a pin: the newest version down from @version, itself or @below it, that is committed and no
 * placeholder; NULL: there is none. What moves (upkeep/move.h) is there once. *trimmed is set when
 * something is missing on the way. */
struct sb_version *sb_past_next(
        struct sb_handle *handle, struct sb_version *version, bool below, bool *trimmed);
/* Under a pin: the head of a key's chain, or NULL. */
struct sb_version *sb_past_head(
        struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash);

#endif
