/*
 * The commit clock (models: stamps; versioned CAS: Wei et al., PPoPP 2021). One word, which only a
 * process advances that needs a cut; no plain write does.
 */
#ifndef SB_MVCC_CLOCK_H
#define SB_MVCC_CLOCK_H

#include "shm/layout/handle.h"

/* Take a cut: everything stamped so far, nothing installed later. */
uint64_t sb_cut_take(struct sb_peer *peer);

#endif
