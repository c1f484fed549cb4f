/*
 * A little language in which a test says what transactions do, and in which order.
 *
 * An interleaving is written as a line of steps in the order in which they happen, each an actor (a
 * bus of its own; 0 is plain operations) and what it does:
 *
 *      1b       begin                      1rx5  get x: "5"; 1rx-  get x: no value
 *      1wx5     set x to "5"               1dx   delete x
 *      1s=ab    a scan of a..h gives a, b  1c    commit; 1c!x  commit: conflict, over x; 1e  end
 *      1mxy5    get x and y, and move 5 from x to y
 *      1t       x, y and z add up to 150, as in "x50y50z50"
 *
 * Actors are 0 to 4, keys are a to z; the state in the beginning is written as "x50y50", and all
 * other keys have no value. A get or a scan that says no outcome (1rx, 1s) takes any.
 *
 * One such line forces an anomaly, or shows that it cannot be. Or all interleavings of some actors'
 * programs are gone through: "b rx wx c | b+rx wx+c". There a step says neither actor nor outcome,
 * "+" binds steps together, and a set without a value sets what names its actor. Each is recorded,
 * and the judge of histories (tests/harness/history/history.h) names what it sees.
 *
 * Always true: one process and one thread; nothing here is left to chance.
 */
#ifndef SB_TEST_INTERLEAVE_H
#define SB_TEST_INTERLEAVE_H

#include "tests/api/world.h"

struct interleave_counts {
        uint32_t runs;   /* interleavings */
        uint32_t skews;  /* of those: with a cycle that snapshot isolation allows */
        uint32_t losers; /* transactions that met a conflict */
};

/* Open the actors' buses; @plain is the bus of actor 0. Return: whether each has one. */
bool interleave_open(struct world *world, struct sb_bus *plain);
/* Close them. Return: whether the world is sound without them. */
bool interleave_close(struct world *world);

/* Run one interleaving under isolation @level. Return: NULL, or the step that went otherwise. */
const char *interleave_run(uint32_t level, const char *state, const char *line);
/* Run one more step. Return: whether it went as it says. */
bool interleave_step(const char *step);
/* Run all interleavings of @programs, with " | " between them, under isolation @level. Return:
 * NULL, or what was wrong. */
const char *interleave_all(uint32_t level, const char *state, const char *programs,
        struct interleave_counts *ret_counts);

#endif
