/*
 * Guards: words in a client's record, each of which holds one version (or node) in place for any
 * time.
 *
 * The first words lie in the record itself; more of them lie in chunks, blocks of the segment that
 * the record names. A chunk stays where it is until its owner leaves, so that a word never moves.
 * Only the owner writes guard words; reclaimers read them all, up to the owner's guard_high.
 */
#ifndef SB_MEMORY_GUARD_H
#define SB_MEMORY_GUARD_H

#include "shm/base/assert.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"

/* Guard word @index of a record; NULL when its chunk was never made. */
struct sb_cell64 *sb_guard_word(
        const struct sb_segment *segment, struct sb_client *client, uint32_t index);
/* sb_guard_set() for a word outside the record. */
void sb_guard_set_far(struct sb_peer *peer, uint32_t index, uint64_t offset);
/* Guard word @index (0 .. guard capacity-1) holds the version at @offset; call it before
 * sb_unpin(). 0 lets go. */
static inline void sb_guard_set(struct sb_peer *peer, uint32_t index, uint64_t offset)
{
        /* R:guard > A:guard. Before the unpin, so that a reclaimer that saw no pin sees the guard.
         */
        if (SB_LIKELY(index < peer->segment.geometry.guard_inline))
                sb_store_release(&peer->guards.words[index], offset);
        else
                sb_guard_set_far(peer, index, offset);
}
/* The same for a word that lies in the record, for the short way of a get. */
static inline void sb_guard_set_near(struct sb_peer *peer, uint32_t index, uint64_t offset)
{
        /* R:guard > A:guard. The guard takes over from the pin. */
        sb_store_release(&peer->guards.words[index], offset);
}
/* For a handle that begins. */
static inline void sb_guard_init(struct sb_peer *peer)
{
        peer->guards.words = sb_client_guards(&peer->segment, peer->client);
}
/* Make room for guard word @index. Return: 0, SB_E_FULL. */
int sb_guard_grow(struct sb_peer *peer, uint32_t index);

/* Guard word @index of any record, 0 when it holds nothing or was never made. */
uint64_t sb_guard_read(const struct sb_segment *segment, struct sb_client *client, uint32_t index);
/* Free one more chunk of guard words, the owner's own or a dead one's. True when this call freed a
 * block. */
bool sb_guard_chunk_free(struct sb_peer *peer, uint32_t slot, uint32_t generation, uint32_t chunk);

#endif
