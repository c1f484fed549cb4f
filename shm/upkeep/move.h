/*
 * Moving versions out of a window (memory/window.h), so that a large value finds units in a row.
 *
 * How it works: the mover, which owns the units, copies a committed version into a block elsewhere:
 * same revision, same stamp, same node, shape and bytes; the copy's link leads to the original. It
 * publishes the copy by the CAS of the word that links the original: the key's cell, or the link of
 * the next newer version. Then it takes the original out from behind the copy, as a pruner does.
 *
 * So to move is to replace a version by one of the same stamp: no cut can tell the two apart, and
 * all that holds for a write holds for a move. A reader that is at the original goes on from there.
 *
 * Always true:
 *
 * - A copy is stamped before it is published, and as old as its original: so a link still leads to
 *   nothing younger than the version that it is in, as a reader counts on which stands at one that
 *   was taken out. What a stopped client knows does not move, for it would hold each copy, too.
 *
 * - What moves is committed, is in no client's hand, and lies right below a committed version, or
 *   in the cell. So no transaction under way counts on the link that changes.
 *
 * - A mover that is killed leaves the original, or the copy above it: any pruner takes that out.
 *   Two versions of one revision and one stamp are one version to all that count or list them.
 */
#ifndef SB_UPKEEP_MOVE_H
#define SB_UPKEEP_MOVE_H

#include "shm/layout/handle.h"

/* For a client that waits for memory, not under a pin: if it wants a window, look for one, or move
 * what lives there. Return: false: there is nothing to do. Cost: up to 64 versions. */
bool sb_move(struct sb_handle *handle);

#endif
