/*
 * What a watch of a prefix that drops has waiting.
 *
 * What its readings list waits here, as far as there is room; the segment keeps just that, and what
 * there is room for yet (shm/notify/queue.h). While all of it has room, a reading goes from one cut
 * to the next, as that of any watch. Where some has none, or the run was closed, the run ends: what
 * is between its end and the next one, which begins when something was given, is dropped.
 *
 * A transaction waits whole or is dropped whole, and with it what comes behind it up to the next
 * run.
 *
 * What was dropped is counted by the hints of the prefix's ring: so many as came, less what waited.
 * A change that is being written counts with the first reading behind it. One that was told twice,
 * since its writer was killed, counts twice until a reading that met no other write.
 *
 * Always true: what waits and what there is room for are as many as the room of the watch, but for
 * what is on its way.
 */
#ifndef SB_CORE_BACKLOG_H
#define SB_CORE_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/core/bus.h"
#include "libclient/core/reading.h"

/* Return: NULL: no memory. */
struct sb_backlog *sb_backlog_new(uint32_t room);
/* NULL is fine. */
void sb_backlog_free(struct sb_backlog *backlog);
/* The watch has begun, at a cut of now. */
void sb_backlog_begin(struct sb_prefix_watch *watch);

/* Take what came, as far as there is room. Return: 0, -ENOMEM. */
int sb_backlog_read(struct sb_bus *bus, struct sb_prefix_watch *watch);
/* As sb_prefix_fill() and sb_prefix_give(). */
int sb_backlog_fill(struct sb_bus *bus, struct sb_prefix_watch *watch, bool told);
int sb_backlog_give(struct sb_bus *bus, struct sb_prefix_watch *watch, uint32_t guard,
        uint32_t old_guard, struct sb_op_change *ret);
/* How many were dropped. @bus: NULL: as far as was known. */
uint64_t sb_backlog_dropped(struct sb_bus *bus, struct sb_prefix_watch *watch);

#endif
