/*
 * How much memory the control groups of this process allow.
 *
 * A segment beyond that ends with SIGKILL and no word, so agentd asks before it makes one, and the
 * process that started agentd asks when agentd was killed.
 */
#ifndef SB_LIMIT_H
#define SB_LIMIT_H

#include <stdint.h>

#define SB_LIMIT_NONE UINT64_MAX

/* The least limit of this process's memory cgroup and those above it, in bytes. Return:
 * SB_LIMIT_NONE: there is none, or the machine does not say. */
uint64_t sb_limit_memory(void);

#endif
