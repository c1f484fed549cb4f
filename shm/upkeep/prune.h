/*
 * Pruning: taking versions out of a key's chain that no cut, open or to come, can read, and that no
 * rule of history keeps (models: prune).
 *
 * How it works: the pruner writes DYING into the version's retire word, marks the version's own
 * link, so that nothing can be taken out behind it any more, and moves its successor's link past it
 * by a CAS. Then it dates the block, which waits in limbo for its grace period (memory/limbo.h).
 *
 * Always true:
 *
 * - A retire word leaves 0 before the last link to its block goes: a kill loses no block, and a
 *   sweep finishes what a dead pruner began.
 *
 * - Only a committed version supersedes. A version that is HELD by a transaction, or in a client's
 *   magazine, is left in its chain.
 *
 * - Where the latest versions stay by their number, be it for a rule LAST or for watches, a write
 *   takes out the one that its own pushes over the edge. It finds the version above that one by the
 *   key's ring (notify/ring.h), or where they are few by going down to it: so no write walks over
 *   what stays. All revisions from there on are in the chain, so that the number of each is the
 *   difference of revisions. A pruner's look begins there, too.
 *
 * - The new link says what is missing behind it: TRIMMED, if that was current in some cut; SETTLED
 *   behind a transaction's version, so that no helper sets its link any more.
 */
#ifndef SB_UPKEEP_PRUNE_H
#define SB_UPKEEP_PRUNE_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/notify/ring.h"

/* Under a pin: take out of the cell's chain what no cut needs by @horizon. Return: whether a
 * superseded version was kept for some cut: then another look is worth while later. */
bool sb_prune_cell(
        struct sb_handle *handle, uint64_t cell_number, const struct sb_horizon *horizon);

/* A look at the newer part of a chain. Of what lies below, an earlier look has said that some cut
 * needs it; the end of that cut asks for a sweep. So a write costs no walk over all that is kept.
 */
struct sb_prune_look {
        uint64_t since; /* a stamp: what was superseded before it is not looked at; 0: all is */
        uint64_t young; /* cuts from this one on will perhaps be closed by the next look */
        uint64_t again; /* answer: what was superseded at this stamp or later waits for the next
                           look: the bound lies below it, or young cuts alone need it; 0: nothing */
        bool whole;     /* look at all for what goes; what was superseded before `since` and stays
                           is no answer */
        uint32_t most;  /* the look takes out so many; 0: any number */
        uint32_t taken; /* how many it took out, which is 0 at first */
        bool more;      /* answer: the next one would go, too */
        bool kept;      /* answer: something else was kept that is superseded */
        bool ring; /* answer: the key's rule is worth a ring, and has none that is large enough */
};
void sb_prune_look(struct sb_handle *handle, uint64_t cell_number, const struct sb_horizon *horizon,
        struct sb_prune_look *look);

/* The same by the handle's own horizon, and no more of it than what was superseded at @since or
 * later. */
void sb_prune_since(struct sb_handle *handle, uint64_t cell_number, uint64_t since);

/* Under a pin, where no rule applies: the same for @old alone, which this handle has just replaced
 * with the stamped @version. It goes by the handle's own prune horizon, without a new look: the
 * usual case after an overwrite. Return: whether nothing superseded is left behind @version. */
bool sb_prune_behind(struct sb_handle *handle, struct sb_version *version, struct sb_version *old);

/* Of a key of which the latest versions stay by their number: what a new one pushes out. */
struct sb_outgrown {
        struct sb_version *holder, *old; /* @old goes from behind @holder; NULL: none does now */
        uint64_t later; /* for sb_limbo_later(), where the chain is to be looked at later; or 0 */
        uint64_t stamp; /* the same, should @old stay behind all the same */
};
/* Under a pin: what leaves because of @version, which this handle has installed and stamped
 * (@stamp) over a word with one of the flags KEPT and WATCHED. @ring: of its node, NULL: none;
 * @word: of its cell, or a later one. What is to go was said to be gone. Cost: some steps, however
 * many versions stay. */
void sb_prune_outgrown(struct sb_handle *handle, struct sb_node *node,
        const struct sb_ring_view *ring, const struct sb_version *version, uint64_t stamp,
        uint64_t word, struct sb_outgrown *ret);
/* Take it out. Return: whether that was possible. */
bool sb_prune_outgrow(struct sb_handle *handle, const struct sb_outgrown *outgrown);
/* Under a pin: give the key of a cell the ring that its rule is worth, if there is memory. */
void sb_prune_give_ring(struct sb_handle *handle, uint64_t cell_number);
/* Whether a rule is worth a ring, also without a watch. @word: of the node's cell. */
bool sb_prune_wants_ring(const struct sb_node *node, uint64_t word);

#endif
