/*
 * The stable cut: the newest cut that is known to have nothing open below it. No version that is
 * stamped later gets a stamp at or below it, so what is read there stays as it is. Clients that
 * observe the bus read at it instead of at cuts of their own; while there are such observers,
 * pruners go by it instead of by the clock.
 *
 * How it works: a version is installed before it is stamped, so a cut alone may still gain one. But
 * each writer notes in its record, before it installs, what it is about to write (`operation`). So:
 * take a cut, stamp what the notes of all records lead to, then raise the stable cut by a CAS.
 *
 * Always true: it only rises, and lies below the clock.
 */
#ifndef SB_UPKEEP_STABLE_H
#define SB_UPKEEP_STABLE_H

#include <stdbool.h>

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

/* Raise the stable cut to one that is taken now; not under a pin. Any process may. What is being
 * written meanwhile is told to its watchers. Return: whether some client was in a write.
 * Cost: a look at all records that were ever used. */
bool sb_stable_raise(struct sb_handle *handle);

/* Behind a cut: stamp what notes show, and visit each key that one shows. Every change up to the
 * cut is stamped by then, and is told to the end already, or is of a key that was visited. Not
 * under a pin; @visit is called under one. Cost: as above. */
typedef void sb_stable_visit(struct sb_handle *handle, struct sb_node *node, void *context);
void sb_stable_look(struct sb_handle *handle, sb_stable_visit *visit, void *context);

#endif
