/*
 * The segment's memory: a sealed memfd of mode 0600, every page of it there before anybody sees it.
 */
#ifndef SB_MEMORY_H
#define SB_MEMORY_H

#include "agentd/config.h"

struct sb_memory {
        int fd;
        uint64_t size;
        uint64_t page_size;
        struct sb_geometry geometry; /* as it was made: what the superblock says is input */
        struct sb_superblock *super; /* the supervisor's map: the first page alone */
};

/* Make a segment with an empty bus in it. Return: 0; -1: it could not be, and why was said. */
int sb_memory_make(const struct sb_config *config, struct sb_memory *ret);
/* Nobody will be given it any more: clients see SB_E_DETACHED. The memory goes when the last of
 * them has unmapped it. */
void sb_memory_drop(struct sb_memory *memory);

#endif
