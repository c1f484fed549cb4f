/*
 * Marks: cuts in a table of the segment that pruners read like announcements, for cuts that outlive
 * the client that took them. A key of the bus's own names each (layout/reserved.h).
 *
 *      make: say that there are marks -> announce the cut -> take a free mark, write the cut
 *            -> write the key that names the mark -> end the announcement       (ring/op/mark.h)
 *      drop: delete the key -> free the mark
 *
 * Always true:
 *
 * - A mark without a key belongs to no client, unless its maker is at work; then the maker
 *   announces the mark's cut. So a maker that dies in between leaves a mark that sb_named_repair()
 *   frees.
 *
 * - A key that names a mark which is free, or has another owner by now, names none.
 *
 * - A mark's owner word is never the same again: it is freed by one CAS, which cannot meet another
 *   life of the mark.
 */
#ifndef SB_HISTORY_NAMED_H
#define SB_HISTORY_NAMED_H

#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"

/* The cut of mark @index. Return: whether the mark is in use. */
bool sb_named_read(const struct sb_segment *segment, uint32_t index, uint64_t *ret_cut);
/* For pruners: the same, and what is being made. Perhaps nothing needs that cut any more. */
bool sb_named_keeps(const struct sb_segment *segment, uint32_t index, uint64_t *ret_cut);
/* For a process that is about to take the cut of a mark: from here on the log writes down what
 * marks may keep, and not the newest version of a key alone. So a batch with a later cut does. */
void sb_named_announce(struct sb_handle *handle);
/* Take a mark for @cut, which the caller announces by its latest snapshot, @snapshot. Return: 0;
 * SB_E_FULL: no mark is free; SB_E_LAPPED: the announcement was taken away. */
int sb_named_take(
        struct sb_handle *handle, uint32_t snapshot, uint64_t cut, struct sb_named_value *ret);
/* Whether what a key holds still names a mark. */
bool sb_named_stands(const struct sb_segment *segment, const struct sb_named_value *value);
/* Free the mark that a key held, unless that was done already. */
void sb_named_let_go(struct sb_handle *handle, const struct sb_named_value *value);
/* For a process that is alone in the segment, in which the table is empty: make the marks that keys
 * name. Of two keys that name one mark the newer one counts, as in the bus that wrote them. @most:
 * the highest cut that there can be. Return: 0; SB_E_FULL: the table is too small; -EBADMSG: a mark
 * has a cut above @most. Then the table is empty. Cost: two looks at each key of a mark. */
int sb_named_load(struct sb_handle *handle, uint64_t most);
/* Free the marks that dead makers left. The engine calls it behind a reaping and when it starts, a
 * client when it finds no mark free. Not under a pin. Cost: each mark in use is looked for among
 * all keys of marks. */
void sb_named_repair(struct sb_handle *handle);

#endif
