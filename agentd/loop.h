/* The engine's loop. */
#ifndef SB_LOOP_H
#define SB_LOOP_H

#include "agentd/keeper.h"

/* Be the engine, in a fresh child of the keeper. Return: how it ended; everything that it opened is
 * closed. */
enum sb_engine_end sb_loop_run(struct sb_keeper *keeper);

#endif
