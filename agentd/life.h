/*
 * How clients learn that supervisor and engine are dead, without anybody's timeout: each holds a
 * robust futex word in the superblock, and the kernel itself writes SB_LIFE_DIED into it when the
 * holder is gone, whatever ended it.
 */
#ifndef SB_LIFE_H
#define SB_LIFE_H

#include <stdbool.h>

#include "shm/layout/superblock.h"

enum sb_life_role { SB_LIFE_SUPERVISOR, SB_LIFE_ENGINE };

/* This thread is @role of the segment behind @super from now on, and of no other one; the map
 * stays. After a fork() anew. */
void sb_life_hold(struct sb_superblock *super, enum sb_life_role role);
/* Before the segment is unmapped. */
void sb_life_let_go(void);

#endif
