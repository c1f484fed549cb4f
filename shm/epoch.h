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
void sb_unpin(struct sb_peer *peer);
/* Load a word whose offset will be followed. */
uint64_t sb_load_pinned(struct sb_peer *peer, const struct sb_cell64 *cell);

/* Guard word @index (0 .. guard capacity-1) holds the version at @offset; call it before sb_unpin(). 0 lets go. */
void sb_guard_set(struct sb_peer *peer, uint32_t index, uint64_t offset);
/* Make room for guard word @index. Return: 0, SB_E_FULL. */
int sb_guard_grow(struct sb_peer *peer, uint32_t index);

/* Retire words: 0 -> DYING (true: this call did it) ; DYING -> era of now. */
bool sb_retire_begin(struct sb_peer *peer, struct sb_block *block);
void sb_retire_date(struct sb_peer *peer, struct sb_block *block);
void sb_era_advance(struct sb_peer *peer);

#endif
