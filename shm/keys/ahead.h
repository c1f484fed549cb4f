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

#define SB_AHEAD_LANES 8u
#define SB_AHEAD_CELLS 16u

/* A walk from a node up to where the next one began. */
struct sb_ahead_lane {
        const struct sb_node *at, *end;
        uint32_t steps;
};

/* How far ahead of a walk along level 0 memory is fetched. A node names the next one, so a walk
 * gets one miss after the other. From several nodes that a higher level names, as many walks get
 * theirs at once. */
struct sb_ahead {
        const struct sb_node *next; /* of the higher level, from which a walk begins; NULL: none */
        uint32_t left;              /* nodes from here on that need nothing but sb_ahead_pass() */
        uint32_t level;             /* SB_AHEAD_*, or 0: there is no `next` yet */
        uint32_t fetches;           /* so often from this level */
        bool lost;                  /* a walk did not come to where the next one began */
        /* The stream, behind the first fetch from FAR. */
        uint32_t turn; /* of the lanes */
        uint32_t lead; /* nodes that lanes have passed and the walk not */
        struct sb_ahead_lane lane[SB_AHEAD_LANES]; /* at NULL: idle */
        const struct sb_node *scout; /* a node that the walk comes to soon; NULL: the end */
        uint32_t scout_lead;         /* in so many nodes */
        uint32_t cell_turn;
        const struct sb_word64 *cell[SB_AHEAD_CELLS]; /* of the last nodes that the scout passed */
};

/* Which level: one node in four is of NEAR, from which some 16 nodes are fetched at a time; one in
 * sixteen of FAR, from which all that follow are, by a few steps with each one that the walk
 * passes: so memory comes while the walk works. To set FAR up is worth its cost where a walk has
 * fetched from NEAR a few times. */
#define SB_AHEAD_NEAR  1u
#define SB_AHEAD_FAR   2u
#define SB_AHEAD_TIMES 3u

/* With each node that a walk passes: the stream goes on. */
void sb_ahead_stream(const struct sb_segment *segment, struct sb_ahead *ahead);
/* The walk goes on by a node. Return: whether it was fetched. */
static inline bool sb_ahead_pass(const struct sb_segment *segment, struct sb_ahead *ahead)
{
        if (SB_UNLIKELY(!ahead->left))
                return false;
        ahead->left--;
        if (ahead->level == SB_AHEAD_FAR)
                sb_ahead_stream(segment, ahead);
        return true;
}
/* Of a walk that begins with the first node, and changes nothing. */
void sb_ahead_begin(const struct sb_segment *segment, struct sb_ahead *ret);
/* Of one that goes on from @next, of @level; the stream begins later. */
static inline void sb_ahead_begin_at(
        struct sb_ahead *ret, uint32_t level, const struct sb_node *next)
{
        ret->next = next;
        ret->left = ret->fetches = 0;
        ret->level = level;
        ret->lost = false;
}
/* Go up to @level from @node, where the walk is: or from the level on which it is, if it is not
 * lost. Cost: some four steps for each level. */
void sb_ahead_climb(const struct sb_segment *segment, struct sb_ahead *ahead,
        const struct sb_node *node, uint32_t level);
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
