/* How the states come about in which scenarios start: what start.c and start-memory.c know of each
 * other. */
#ifndef SB_MODEL_START_H
#define SB_MODEL_START_H

#include "tests/model/world-core.h"

/* start.c: the client that makes the state; a write at the start, by it or by another one. */
struct sb_handle *setup_handle(void);
void setup_write(enum world_key key, uint32_t value_len);
void setup_write_by(struct sb_handle *handle, enum world_key key, uint32_t value_len);

/* start-memory.c: the segment, with its clients; then keys that fill the home of all others. */
void setup_segment(void);
void setup_away(void);
/* A client that will write has a block in its slab cache. */
void setup_reserves(void);
/* START_FREED; START_SHORT; START_APART; START_FULL, START_HINTED; START_NOTED. */
void setup_freed(void);
void setup_short(void);
void setup_apart(void);
void setup_full(void);
void setup_noted(void);

#endif
