/*
 * The commit clock (models: stamps; versioned CAS: Wei et al., PPoPP 2021): one word, from which
 * stamps are read and cuts are taken. No plain write advances it; a process that needs a cut does.
 *
 * Always true: the clock never goes back. A cut contains the versions with stamps that are not
 * above it; so a version that is installed after the cut was taken, with a stamp that is read after
 * that, is never in it.
 */
#ifndef SB_MVCC_CLOCK_H
#define SB_MVCC_CLOCK_H

#include "shm/layout/handle.h"

/* Take a cut. It contains everything that was stamped before, and nothing that is installed later.
 * Cost: one CAS, on a line that all clients share. */
uint64_t sb_clock_take_cut(struct sb_handle *handle);

/* Whether @cut was taken. The first cut that contains a write (its stamp) may be the one that is
 * to be taken next: then it is taken now. */
bool sb_clock_reaches(struct sb_handle *handle, uint64_t cut);

/* For a process that is alone in the segment, and fills it with what was stamped before: go on
 * above @cut, unless the clock is there already. */
void sb_clock_resume(struct sb_handle *handle, uint64_t cut);

#endif
