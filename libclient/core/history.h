/*
 * What a bus does with the walks through histories that are open on it (history.c).
 *
 * Always true: a walk is in its bus's list from sb_history_open() to sb_history_close(), or until
 * the bus is closed.
 */
#ifndef SB_CLIENT_HISTORY_H
#define SB_CLIENT_HISTORY_H

struct sb_history;

/* Their bus is being closed: these walks answer SB_E_DETACHED from now on. @histories: the first of
 * the bus's list, or NULL. */
void sb_bus_orphan_histories(struct sb_history *histories);

#endif
