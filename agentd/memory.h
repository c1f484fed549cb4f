/*
 * The segment's memory: a sealed memfd of mode 0600.
 *
 * Always true: every page is present before any other process sees the memory, and its size never
 * changes.
 */
#ifndef SB_MEMORY_H
#define SB_MEMORY_H

#include "agentd/config.h"

/* Into so many parts at most work on all of a segment is divided. */
#define SB_MEMORY_PARTS_MAX 16u

struct sb_memory {
        int fd;
        uint64_t size;
        uint64_t page_size;
        /* As the segment was made: what the superblock says is input. */
        struct sb_geometry geometry;
        struct sb_superblock *super; /* the supervisor's map: the first page alone */
};

/* Make a segment with an empty bus in it. *ret_base: a map of all of it, in which each page is
 * present; for the caller to use before others come, and to unmap. Return: 0; -1: the reason was
 * logged. */
int sb_memory_make(const struct sb_config *config, struct sb_memory *ret, void **ret_base);
/* How many parts to make of such work: one for each processor that this process may use, if they
 * are of 64 MiB at least. */
uint32_t sb_memory_parts(uint64_t size);
/* No client will be given the memory any more, and attached clients see SB_E_DETACHED. The kernel
 * frees the memory when the last client has unmapped it. */
void sb_memory_drop(struct sb_memory *memory);

#endif
