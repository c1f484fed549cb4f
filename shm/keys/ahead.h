/*
 * Memory of the indexes that a pass over all keys reads soon, fetched ahead: else the validator
 * would wait for a miss at nearly each step in a large bus.
 *
 * Always true: nothing that is read here is believed, and nothing is changed. What a link leads to
 * may be free memory by now, or damaged: each offset is checked to lie in the segment, and each
 * loop ends after a number of steps.
 */
#ifndef SB_KEYS_AHEAD_H
#define SB_KEYS_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"

/* How far ahead of a walk along level 0 memory is fetched. A node names the next one, so a walk
 * gets one miss after the other. From several nodes that a higher level names, as many walks get
 * theirs at once. */
struct sb_ahead {
        const struct sb_node *next; /* of the higher level, from which a walk begins; NULL: none */
        uint32_t left;              /* nodes from here on that were fetched */
        uint32_t level;             /* SB_AHEAD_*, or 0: there is no `next` yet */
        uint32_t fetches;           /* so often from this level */
        bool lost;                  /* a walk did not come to where the next one began */
};

/* Which level: one node in four is of NEAR, from which some 16 nodes are fetched at a time; one in
 * sixteen of FAR, from which 256 are. To find the first one of FAR is worth its cost where a walk
 * has fetched from NEAR a few times. */
#define SB_AHEAD_NEAR  1u
#define SB_AHEAD_FAR   2u
#define SB_AHEAD_TIMES 3u

/* The walk goes on by a node. Return: whether it was fetched. */
static inline bool sb_ahead_pass(struct sb_ahead *ahead)
{
        if (SB_UNLIKELY(!ahead->left))
                return false;
        ahead->left--;
        return true;
}
/* Of a walk that begins with the first node, and changes nothing. */
void sb_ahead_begin(const struct sb_segment *segment, struct sb_ahead *ret);
/* Fetch nodes from @node on, where the walk is, their cells and what is in these. ahead->next and
 * ahead->level are set. */
void sb_ahead_nodes(
        const struct sb_segment *segment, struct sb_ahead *ahead, const struct sb_node *node);
/* The pass over the buckets has come to @bucket: what the cells of later ones lead to. */
void sb_ahead_bucket(const struct sb_segment *segment, uint32_t bucket);
/* Versions that are looked at next, in blocks of @size bytes; a bit of @bits for each: their nodes,
 * and the cells that these name. */
void sb_ahead_versions(const struct sb_segment *segment, const unsigned char *blocks, uint64_t size,
        uint64_t bits);

#endif
