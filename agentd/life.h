/*
 * How clients learn that the supervisor and the engine are dead, without a timeout. Each of the two
 * holds a robust futex word in the superblock. The kernel writes SB_LIFE_DIED into that word when
 * its holder is gone, whatever ended the holder.
 *
 * Always true: the list of a thread holds words of one segment only.
 */
#ifndef SB_LIFE_H
#define SB_LIFE_H

#include <stdbool.h>

#include "shm/layout/superblock.h"

enum sb_life_role { SB_LIFE_SUPERVISOR, SB_LIFE_ENGINE };

/* This thread is @role in the segment behind @super from now on, and has no part in another one.
 * The map has to stay. A child of fork() has to call this again. */
void sb_life_hold(struct sb_superblock *super, enum sb_life_role role);
/* Whether the kernel takes this thread's list, which has no word yet. Return: 0; -errno: a filter
 * of system calls forbids it. */
int sb_life_try(void);
/* Hold no word any more. Call this before the segment is unmapped. */
void sb_life_let_go(void);

#endif
