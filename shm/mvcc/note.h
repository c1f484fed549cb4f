/*
 * Notes: the word `operation` of a client record names what its owner is about to write, before
 * other processes can see any of that: the node of a key, or a transaction's descriptor. The reaper
 * of a dead owner goes by it, and two processes that have to do with writes under way follow it:
 * one that raises the stable cut, and the engine when it takes a cut away.
 *
 * So a note is a link, and what it names is dated only after it is gone (limbo.h):
 *
 * - A process that reads a note pins, loads the note under that pin, and only then follows it:
 *   sb_note_load().
 *
 * - What a record notes, no other process dates. The owner, or its reaper, first says that the
 *   block goes (DYING), then takes the note back so that all processes see it gone, then dates the
 *   block: sb_note_retire().
 *
 * - A process that would date what another one left DYING asks all records behind that word
 *   whether one notes the block: sb_note_names(). No block is noted for the first time once it is
 *   DYING. Where one does, nothing is lost: the owner dates the block, or dies, and then its reaper
 *   asks for a sweep.
 *
 * - A node that was linked is noted under pins that began before it was unlinked. So its first
 *   grace period lasts as long as such a note, and the date of the second one comes later.
 *
 * Always true: a block that was found in a note is dated in an era in which its finder was pinned
 * already, and was born before: the finder's pin protects it, whatever other processes do.
 */
#ifndef SB_MEMORY_NOTE_H
#define SB_MEMORY_NOTE_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"

/* What @record notes, or 0; under a pin, by which it may be followed. */
uint64_t sb_note_load(struct sb_handle *handle, const struct sb_record *record);
/* Whether any record notes the block at @offset. Cost: a look at all records in use. */
bool sb_note_names(const struct sb_segment *segment, uint64_t offset);
/* End the life of a block that @operation notes and that nothing else links any more, or ever did:
 * it is dated when @operation says @next. Each step can be done twice, by a reaper after the owner.
 * Under a pin. */
void sb_note_retire(struct sb_handle *handle, struct sb_block *block, struct sb_word64 *operation,
        uint64_t next);

#endif
