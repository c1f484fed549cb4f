/*
 * The look of a new engine at a whole segment (shm/upkeep/check.h), by as many processes as there
 * are processors: nothing is served before it, and in a large bus one process takes seconds.
 *
 *      the ordered index          this process
 *      the buckets, in parts      its children, meanwhile
 *      the units, in parts        all of them
 *
 * A child claims a record of its own, as a client has, and gives it back. It is in no process's
 * way where it is killed: its record has its pid, and is reaped as all records of dead processes
 * are. It ends with its parent, which ends it where it is stopped. A part that brings no answer is
 * looked at by the parent: where there was no process or record for it, or where it was ended by
 * what it met; then the parent meets that.
 */
#ifndef SB_AGENTD_INSPECT_H
#define SB_AGENTD_INSPECT_H

#include <stdint.h>

#include "shm/layout/handle.h"
#include "shm/layout/report.h"

/* Looks at the segment of an engine's handle. @clients: records that may serve the children, from 1
 * on. @parts: of each pass, at most SB_MEMORY_PARTS_MAX; 1: no child is made. Return: as
 * sb_check(). */
int sb_inspect(
        struct sb_handle *handle, uint32_t clients, uint32_t parts, struct sb_check_report *ret);

#endif
