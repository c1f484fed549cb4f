/*
 * Marked cuts: a table in the segment that pruners read like announcements, for cuts that outlive
 * who took them.
 *
 *      announce the cut -> take a free mark, write the cut -> write the key that names the mark
 *          -> end the announcement                                        (ring/named.h)
 *      drop: delete the key -> free the mark
 *
 * Always true: a mark without a key is nobody's, unless its maker is at work, and then he announces
 * its cut. So whoever dies in between leaves a mark that sb_marks_repair() frees; a key whose mark
 * is another one's by now, or free, names none. A mark's owner is never the same again: freeing is
 * one CAS that cannot meet another life.
 */
#ifndef SB_HISTORY_NAMED_H
#define SB_HISTORY_NAMED_H

#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"

/* A marked cut, if mark @index is in use. */
bool sb_mark_read(const struct sb_segment *segment, uint32_t index, uint64_t *ret_cut);
/* For pruners: the same, and what is being made; perhaps a cut that nobody needs any more. */
bool sb_mark_keeps(const struct sb_segment *segment, uint32_t index, uint64_t *ret_cut);
/* Take a mark for @cut, which the caller announces by his latest snapshot, @snapshot. Return: 0,
 * SB_E_FULL, SB_E_LAPPED: the announcement was taken away. */
int sb_mark_take(struct sb_peer *peer, uint32_t snapshot, uint64_t cut, struct sb_mark_value *ret);
/* Whether what a key holds names a mark still. */
bool sb_mark_stands(const struct sb_segment *segment, const struct sb_mark_value *value);
/* Free it; nothing where that was done already. */
void sb_mark_let_go(struct sb_peer *peer, const struct sb_mark_value *value);
/* For the engine, behind a reaping and at its start, and for who finds none free: free what the
 * dead left. Not under a pin. */
void sb_marks_repair(struct sb_peer *peer);

#endif
