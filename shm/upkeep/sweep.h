/*
 * The sweep: looks at every block of some units, and brings each that nothing needs one step nearer
 * to being free. It finds what the private lists of handles lost, by overflow or by a kill:
 * superseded versions, removals that stopped half way, blocks that are dated and wait.
 *
 * How it works: the bit of a block says that it is taken, its retire word what it waits for:
 *
 *      0, HELD      a version: prune its chain, remove its key, once for each chain; a node without
 *                   a cell, or gone: go on with its removal
 *      DYING        take it out of what still links it, then date it
 *      an era       let it wait in the sweeper's own limbo; that frees it
 *      FREEING      its client, or that client's reaper, sees to it
 *
 * Always true: a sweeper looks at a block under a pin that covers it (sb_pin_covers()), and goes by
 * nothing but what the block and the words that link it say. Any process may sweep, several at
 * once.
 *
 * A sweep goes by chunks, a unit each or 512 blocks of a larger one, so that its caller can look at
 * the time in between. A whole sweep is one handle's, which looks at each chunk: it also brings
 * births that are very old up to date, so that 32 bits of era last for ever, and adds up what rules
 * of history keep (history/budget.h). Slices that many handles share promise neither: what a killed
 * one left out is found by the next.
 */
#ifndef SB_UPKEEP_SWEEP_H
#define SB_UPKEEP_SWEEP_H

#include "shm/layout/handle.h"

/* Look at @count units from *cursor on. Advances *cursor, modulo unit_count. Not under a pin.
 * Return: blocks freed. */
uint64_t sb_sweep(struct sb_handle *handle, uint32_t *cursor, uint32_t count);

/* Around the calls of one whole sweep. */
void sb_sweep_begin(struct sb_handle *handle);
bool sb_sweep_end(struct sb_handle *handle);
/* Whether this handle's sweeps passed blocks by that a stopped client held: no other handle knows
 * that they wait. */
bool sb_sweep_lets_lie(const struct sb_handle *handle);
/* The same of the last whole sweep, and such a client holds less by now. */
bool sb_sweep_is_due(const struct sb_handle *handle);

/* The same by chunks, numbered from 0. Around a slice, some calls of sb_sweep_chunk():
 * sb_sweep_slice_begin() and _end(). @of_whole: the slice belongs to this handle's whole sweep. */
uint64_t sb_sweep_chunks(const struct sb_segment *segment);
void sb_sweep_slice_begin(struct sb_handle *handle, bool of_whole);
/* @chunk: modulo their number. */
void sb_sweep_chunk(struct sb_handle *handle, uint64_t chunk);
void sb_sweep_slice_end(struct sb_handle *handle);

#endif
