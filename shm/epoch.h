/*
 * Pins, guards and grace periods: interval reclamation (models: retire, hold, claim; interval-based reclamation: Wen et al., PPoPP 2018).
 *
 * A pin is one word in the owner's record, {lo, hi}: the eras in which the owner may be following offsets. It is a plain store:
 * whoever frees pays with a membarrier. Every load that is followed looks at the era again and raises hi.
 */
#ifndef SB_EPOCH_H
#define SB_EPOCH_H

#include "peer.h"

void sb_pin(struct sb_peer *peer);   /* not nested */
/* Go on under the pin that a dead process left in this record: it stays, and grows up to now. */
void sb_pin_resume(struct sb_peer *peer);
void sb_unpin(struct sb_peer *peer);
/* Load a word whose offset will be followed. */
uint64_t sb_load_pinned(struct sb_peer *peer, const struct sb_cell64 *cell);

/* Guard word @index (0 .. guard capacity-1) holds the version at @offset; call it before sb_unpin(). 0 lets go. */
void sb_guard_set(struct sb_peer *peer, uint32_t index, uint64_t offset);
/* Make room for guard word @index. Return: 0, SB_E_FULL. */
int sb_guard_grow(struct sb_peer *peer, uint32_t index);

/* Guard word @index of any record, 0 when it holds nothing or was never made. */
uint64_t sb_guard_read(const struct sb_segment *segment, struct sb_client *client, uint32_t index);
/* Free one more chunk of guard words, the owner's own or a dead one's. True when this call freed a block. */
bool sb_guard_chunk_free(struct sb_peer *peer, uint32_t slot, uint32_t generation, uint32_t chunk);

/* Retire word 0 -> DYING: on its way out; before anything that links the block goes. True: this call did it. */
bool sb_retire_begin(struct sb_peer *peer, struct sb_block *block);
void sb_era_advance(struct sb_peer *peer);
/* Advance the era, look at the pins, remember peer->horizon. What is dated before it has had its grace period. */
void sb_era_look(struct sb_peer *peer);
/* After loading a word of a block that no link led to: true when hi still is the era; else hi is raised: load again. */
bool sb_pin_covers(struct sb_peer *peer);
/* Eras compare by unsigned difference, so that they may wrap. */
static inline bool sb_era_before(uint32_t a, uint32_t b)
{
        return (int32_t)(a - b) < 0;
}

#endif
