/*
 * A long chain, oldest versions first: places on it from which a look goes on down.
 *
 * A chain is followed downwards only, and a batch of the log gives the oldest versions first, a few
 * dozen at a time. So that it does not go through the whole chain for each few of them, a look
 * leaves places behind it: one that lies some dozen versions above where it ended, one eight times
 * as far, and so on. The next look begins at the lowest one above what was given by then, and
 * leaves nearer ones anew.
 *
 * Always true: a place was met under the pin of now, which the caller keeps; behind that they count
 * no more. So what is followed from there is a version still, in the chain or just taken out.
 */
#ifndef SB_RING_LOG_CHAIN_H
#define SB_RING_LOG_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

/* Levels; how far the places of the first one are apart, and how much farther those of each next
 * one. */
#define SB_CHAIN_LEVELS 6u
#define SB_CHAIN_FIRST  64u
#define SB_CHAIN_STEP   8u

/* One version: its offset, or 0, and its revision. */
struct sb_chain_place {
        uint64_t at, rev;
};

struct sb_chain {
        bool any; /* what follows counts; most chains are short */
        uint64_t steps;
        struct sb_chain_place passed[SB_CHAIN_LEVELS][2]; /* the latest two of each level */
        struct sb_chain_place places[SB_CHAIN_LEVELS];
};

/* There are no places: another chain, or another pin. */
static inline void sb_chain_forget(struct sb_chain *chain)
{
        chain->any = false;
}
/* A look begins that wants revisions above @rev. Return: the offset of where; 0: at the head. */
uint64_t sb_chain_begin(struct sb_chain *chain, uint64_t rev);
/* It goes on below this version. */
void sb_chain_pass(struct sb_chain *chain, uint64_t at, uint64_t rev);
/* It has ended. */
void sb_chain_end(struct sb_chain *chain);

#endif
