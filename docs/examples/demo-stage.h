/*
 * The surroundings of the demo: a bus in a directory of its own, the time, and an early end.
 */
#ifndef DEMO_STAGE_H
#define DEMO_STAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Make a directory and start a bus of @size_mib in it; when that fails, say why and end the
 * program. Return: the directory. */
const char *stage_begin(size_t size_mib);
/* Stop the bus. Only the process that began it does so. */
void stage_stop_bus(void);
/* Kill agentd with all its processes, and so the bus in memory, and start it again; when that
 * fails, end the program. Return: whether it was done: not after Ctrl-C. */
bool stage_crash(void);
/* Show what changed between two marks in the keys with a prefix, when both marks exist. */
void stage_show_changes(const char *from, const char *to, const char *prefix);
/* Check the bus, stop it, and remove its directory unless something is @wrong. Return: whether all
 * is well. */
bool stage_end(bool wrong);

/* Seconds since the bus was started. */
double stage_seconds(void);
/* Wait until that many seconds. Return: false after Ctrl-C or the like: go to the end. */
bool stage_wait(double seconds);

#endif
