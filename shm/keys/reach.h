/*
 * Reachability: whether anything links a block, asked of the chains, of the index and of the
 * records, never of a list. The reaper decides by it whether a block that a dead client took was
 * ever published, and `agentctl check` asks the same of every block.
 *
 * One look at a version walks down its chain. A process that looks at many versions of a long chain
 * would walk it again for each: so such walks note what they met, and go on behind the version that
 * they looked for, to twice its depth. Then all looks at a chain of n versions take some 4 n steps
 * for each part of the segment that has any of them. A part is what the notes have bits for: the
 * whole segment where the handle was lent so much room, else 16 MiB.
 *
 * Always true: a block's retire word leaves 0 before the last link to it goes. So a block that was
 * not found, and has a retire word of 0 after that, was never published.
 */
#ifndef SB_KEYS_REACH_H
#define SB_KEYS_REACH_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

#ifndef SB_REACH_WORDS
#define SB_REACH_WORDS 4096u /* of notes where no room was lent: of 64 of the least blocks each */
#endif
#define SB_REACH_LENT_MAX 8388608u /* words that are lent, at most: 64 MiB for each process */
#ifndef SB_REACH_NEAR
#define SB_REACH_NEAR 64u /* versions: behind so many a walk notes what it meets */
#endif

/* What walks down long chains met in one part of the segment, the one that was looked at last. All
 * of it was published once. Its user looks at blocks in the order in which they lie. */
struct sb_reach {
        uint64_t part;        /* its number + 1; 0: none yet */
        uint64_t *met, words; /* the notes: the handle's room, or these few */
        uint64_t few[SB_REACH_WORDS];
};
static inline void sb_reach_begin(const struct sb_handle *handle, struct sb_reach *reach)
{
        reach->part = 0;
        reach->met = handle->reach.words ? handle->reach.words : reach->few;
        reach->words = handle->reach.words ? handle->reach.count : SB_REACH_WORDS;
}
/* Words of notes for a whole segment: 2 MiB for each GiB; of more than 32 GiB for so much of it. */
static inline uint64_t sb_reach_words(const struct sb_segment *segment)
{
        uint64_t count = segment->geometry.size / (64 * (uint64_t)SB_BLOCK_MIN) + 1;

        return count < SB_REACH_LENT_MAX ? count : SB_REACH_LENT_MAX;
}
/* Lend the handle room for so many words of notes; NULL: none any more. */
void sb_reach_lend(struct sb_handle *handle, uint64_t *words, uint64_t count);

/* Under a pin: whether the version is in the chain of the cell that its node names; a placeholder:
 * whether it is in any cell of the buckets where that may be. */
bool sb_reach_version(struct sb_handle *handle, const struct sb_version *version);
/* Under a pin: whether the node, or the branch that lies in its place, is in the ordered index. */
bool sb_reach_node(struct sb_handle *handle, const struct sb_node *node);
/* Under a pin: whether the block at @offset, which is taken in a unit of @kind, was ever published.
 * True also where no block can be. */
bool sb_reach_published(struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind);
/* The same, one of many looks, of which @reach has the notes. What was published when a walk of
 * theirs met it counts as published, for a block of a live client, too, that began another life
 * since; so the caller frees blocks of dead clients alone by it, which begin none. */
bool sb_reach_published_of_many(
        struct sb_handle *handle, uint64_t offset, enum sb_unit_kind kind, struct sb_reach *reach);

#endif
