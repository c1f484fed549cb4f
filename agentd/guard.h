/*
 * A guard for code that reads the segment. The kernel raises SIGBUS for memory that is not there
 * any more, because a client punched a hole into it or the hardware failed. The guard makes that
 * end the work instead of the process:
 *
 *      if (sigsetjmp(sb_guard_return, 1)) {
 *              the memory failed: give up
 *      } else {
 *              sb_guard_arm();
 *              work
 *      }
 *      sb_guard_disarm();
 *
 * Always true: the guard is armed only between the two calls, inside the function that called
 * sigsetjmp().
 */
#ifndef SB_AGENTD_GUARD_H
#define SB_AGENTD_GUARD_H

#include <setjmp.h>

extern sigjmp_buf sb_guard_return;

void sb_guard_arm(void);
void sb_guard_disarm(void);

#endif
