/*
 * Spares: replaced blocks that a client will build its next versions in, if no other process frees
 * them first.
 *
 * The magazine (magazine.h) is a client's alone, and so has to be a small part of the segment for
 * each of the clients that are attached, most of which do nothing. Where that share is too small to
 * be worth a batch, a client keeps what it replaced as spares instead. A spare is a block that is
 * dated, as every block that was unlinked: a sweep of any process may free it. Its client remembers
 * it, and that one look (grace.h) has found its grace period over. To build in it the client wins
 * its retire word, as if to free it, and has it in its magazine then, as the one block in hand.
 *
 * A client that may not keep a slab takes some blocks of it as spares, too. And so go blocks of
 * classes that are too large for the share of any magazine, within the same bound.
 *
 * So clients that are idle, stopped or dead keep nothing from others, however many they are. A
 * client that writes pays no more beside a thousand of them than alone: one more locked instruction
 * a write than the magazine takes, and looks of which the batches grow with their number.
 *
 * Always true:
 *
 * - A spare's date is of an era that was over when it became one. So no other process that has read
 *   this date can take a later one of the same block for it.
 *
 * - The list is a private hint, as limbo is: the retire word decides which process has the block.
 */
#ifndef SB_MEMORY_SPARE_H
#define SB_MEMORY_SPARE_H

#include "shm/base/assert.h"
#include "shm/layout/handle.h"

/* Take the next spare of this class that no other process has freed into the magazine, ready to be
 * built in. Not under a pin. Return: its entry, or 0. */
uint32_t sb_spare_draw_some(struct sb_handle *handle, uint32_t class_);
static inline uint32_t sb_spare_draw(struct sb_handle *handle, uint32_t class_)
{
        if (handle->spares.first[class_])
                return sb_spare_draw_some(handle, class_);
        handle->spares.missed |= UINT64_C(1) << class_;
        return 0;
}
/* How many there are. */
static inline uint32_t sb_spare_count(const struct sb_handle *handle)
{
        return handle->spares.count;
}
/* How many blocks of a class, taken and not used, are for sb_spare_keep(): none, unless one was
 * asked for when there was none; no more than are within the share of what clients keep so. */
static inline uint32_t sb_spare_wants(const struct sb_handle *handle, uint32_t class_)
{
        uint64_t keeps = handle->magazine.keeps, kept = handle->spares.kept;

        return handle->magazine.passes && (handle->spares.missed >> class_ & 1) && kept < keeps
                       ? (uint32_t)((keeps - kept) / handle->segment.class_size[class_])
                       : 0;
}
/* Make a spare of a version's block that this client took and never published. False: it has to be
 * given back otherwise. */
bool sb_spare_keep(struct sb_handle *handle, uint64_t offset);
/* Under the pin of a look, before the first sb_spare_add(): take a spare of before off the list.
 * False: there is none. True: no other process has freed @ret, and it can be freed. */
bool sb_spare_next(struct sb_handle *handle, struct sb_limbo_entry *ret);
/* What waited in limbo was free to go at that look: make it a spare. False: it is not for that. */
bool sb_spare_add(struct sb_handle *handle, const struct sb_limbo_entry *waiting);

#endif
