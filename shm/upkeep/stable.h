/*
 * The stable cut: one with nothing open below it.
 */
#ifndef SB_UPKEEP_STABLE_H
#define SB_UPKEEP_STABLE_H

#include "shm/layout/handle.h"

/* Take a cut, resolve what the operation slots show, raise `safe` to it. */
void sb_safe_raise(struct sb_peer *peer);

#endif
