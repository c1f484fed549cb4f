/*
 * A process's map of a segment.
 *
 * Its address is a multiple of 2 MiB: where the segment's memory lies in huge pages, the process
 * needs no table of small ones then, and misses the TLB less.
 */
#ifndef SB_MAP_H
#define SB_MAP_H

#include <stdint.h>

#define SB_MAP_HUGE_PAGE (UINT64_C(2) << 20)

/* Map the first @size bytes of the segment behind @fd, for reading and writing. Return: NULL: it
 * cannot be, and errno says why. munmap() ends it. */
void *sb_map_segment(int fd, uint64_t size);

#endif
