/*
 * What may be seen when a segment is full: which write finds no room depends on who took the last
 * block, so there are no stories (see story.h). Instead the acts are put into each order that could
 * have been, and each act's answer is held against the keys as they then are: a write may say that
 * there is no room, and changes nothing; a delete may not; what is read is what is there.
 */
#ifndef SB_TESTS_ORDERS_H
#define SB_TESTS_ORDERS_H

#include "tests/harness/step/story.h"

/* Whether what the others were answered, and what the keys hold at last, fit some order. @resumed:
 * all of the operation's acts were done, too, and were answered. Otherwise it stands in act
 * trial.operation_done, which has taken effect or not. */
bool orders_fit(bool resumed, const struct fact facts[SCENE_KEYS]);
void orders_fail(bool resumed, const struct fact facts[SCENE_KEYS], const char *what);

#endif
