/*
 * Two bits, used in turn, that say together that something is watched (models: wkey): in a key's
 * cell that the key is, in the superblock that some prefix is.
 *
 *      state       {joins, CLOSED, TURN, CLEARING}
 *
 * How it works: a watch enters itself where it can be found, then counts itself in the state, and
 * sets the bit that the old state named: that of TURN, or while CLEARING the other one. The engine
 * takes a bit away: it loads the state, finds no watch, and sets CLEARING by a CAS that a join
 * makes fail; it takes the bit of TURN away; and turns. So no join loses its bit to an engine that
 * looked before it, however slow either of them is.
 *
 * Always true: while a watch stands that has set its bit, one of the two bits is set.
 */
#ifndef SB_NOTIFY_TURN_H
#define SB_NOTIFY_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"

#define SB_TURN_NONE (-1) /* what would be watched is closed */

/* Which of the two bits the engine takes away next. */
static inline int sb_turn_of(uint64_t state)
{
        return (state & SB_TURN_SECOND) != 0;
}

/* Count a watch that was entered. Return: the bit to set, 0 or 1; SB_TURN_NONE. */
static inline int sb_turn_join(struct sb_word64 *state)
{
        /* R:watcher > A:watcher. Behind the entry: the engine that saw none loses its CAS. */
        uint64_t old = sb_add_full(state, SB_TURN_JOIN);
        bool other = (old & SB_TURN_CLEARING) && !SB_FAULT(JOIN_OLD_TURN);

        return old & SB_TURN_CLOSED ? SB_TURN_NONE : sb_turn_of(old) ^ (int)other;
}

/* For the engine, which loaded @state before it looked for watches and found none. Return: false: a
 * watch has joined meanwhile. Fault CLEAR_UNASKED: that is not asked. */
static inline bool sb_turn_begin(struct sb_word64 *word, uint64_t state)
{
        if (SB_FAULT(CLEAR_UNASKED)) {
                sb_or_full(word, SB_TURN_CLEARING); /* R:watcher. */
                return true;
        }
        return sb_cas64_full(word, state, state | SB_TURN_CLEARING); /* R:watcher. */
}

/* The bit is taken away: turn. */
static inline void sb_turn_end(struct sb_word64 *word)
{
        uint64_t state;

        do
                state = sb_load_acquire(word); /* A:watcher. */
        /* R:watcher > A:watcher. */
        while (!sb_cas64_full(word, state, (state ^ SB_TURN_SECOND) & ~SB_TURN_CLEARING));
}

#endif
