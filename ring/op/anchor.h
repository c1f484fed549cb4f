/*
 * Anchors: versions in a key's chain from which a watch that is far behind goes on down, so that it
 * does not walk over all that it has not read for each change.
 *
 * What a watch has not read and no slot names (notify/ring.h) lies below all newer versions, and a
 * chain is followed downwards only. So the walk to the next change leaves anchors behind it: one a
 * few versions above where it ends, one some eight times as far, and so on. The next walk begins at
 * the lowest one that the watch has not passed, and leaves nearer ones anew. With SB_ANCHORS levels
 * a change costs some steps for each level, and one long walk in thousands.
 *
 * An anchor is held by a guard word, so its block is that version still. It may have left its chain
 * meanwhile, and what it links may be free by now. But a version's own link is marked before it
 * leaves (upkeep/prune.h): an anchor with an unmarked link was in its chain under the pin under
 * which that was loaded, and so is what is followed from there. The last of a chain is not marked,
 * and links nothing.
 *
 * Always true: a guard word of an anchor holds that anchor, or nothing. An anchor that the watch
 * has passed is let go with its next walk, and all are where it finds a change without one.
 */
#ifndef SB_RING_OP_ANCHOR_H
#define SB_RING_OP_ANCHOR_H

#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Levels, and how much farther each is than the one before; a power of two. */
#ifndef SB_ANCHORS
#define SB_ANCHORS 4u
#endif
#ifndef SB_ANCHOR_STEP
#define SB_ANCHOR_STEP 8u
#endif
/* A walk of so many steps is worth anchors. */
#ifndef SB_ANCHOR_WORTH
#define SB_ANCHOR_WORTH 64u
#endif

/* One version: its offset, or 0, and its revision. */
struct sb_anchor {
        uint64_t at, rev;
};

/* The anchors of a watch, the nearest first, and the guard words of its client that hold them. */
struct sb_anchors {
        struct sb_anchor each[SB_ANCHORS];
        uint32_t guards[SB_ANCHORS];
};

/* A walk down: how many steps it has made, and at each level the latest two versions that it went
 * by. So one lies below it that is at least as far behind as the level says. */
struct sb_descent {
        uint64_t steps;
        struct sb_anchor passed[SB_ANCHORS][2];
};

void sb_anchor_note(struct sb_descent *descent, uint64_t at, uint64_t rev);
/* The walk goes on below @version. Under the pin under which it was found. */
static inline void sb_anchor_pass(const struct sb_segment *segment, struct sb_descent *descent,
        const struct sb_version *version)
{
        if (SB_UNLIKELY(!(++descent->steps % SB_ANCHOR_STEP)))
                sb_anchor_note(descent, sb_offset_of(segment, version), version->rev);
}
/* The walk has ended: what it passed are the anchors, where it passed enough. Under the same pin.
 */
void sb_anchor_keep(
        struct sb_handle *handle, struct sb_anchors *anchors, const struct sb_descent *descent);

/* The lowest anchor that is not older than revision @want and in its chain; NULL: none. Those below
 * it are let go. Under a pin. */
struct sb_version *sb_anchor_find(
        struct sb_handle *handle, struct sb_anchors *anchors, uint64_t want);
/* Let go of all. */
void sb_anchor_drop(struct sb_handle *handle, struct sb_anchors *anchors);

#endif
