/* What the bus has to do with open walks through histories. */
#ifndef SB_CLIENT_HISTORY_H
#define SB_CLIENT_HISTORY_H

struct sb_history;

/* The bus of these is going away: they answer SB_E_DETACHED from now on. @histories: the first of
 * the list, or NULL. */
void sb_bus_orphan_histories(struct sb_history *histories);

#endif
