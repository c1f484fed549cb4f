/*
 * What a full segment may answer. Which write finds no free block depends on which client took the
 * last one, so there are no stories (see story.h). Instead this puts the acts into each order that
 * was possible, and holds each act's answer against the keys as they are then: a write may say that
 * the segment is full, and then changes nothing; a delete may not; a read gives what is there.
 */
#ifndef SB_TESTS_ORDERS_H
#define SB_TESTS_ORDERS_H

#include "tests/harness/step/story.h"

/* Whether the others' answers, and what the keys hold at last, fit some order. @resumed: all of the
 * operation's acts were done and answered, too. Otherwise the operation stands in act
 * trial.operation_done, which has taken effect or not. */
bool orders_fit(bool resumed, const struct fact facts[SCENE_KEYS]);
void orders_fail(bool resumed, const struct fact facts[SCENE_KEYS], const char *what);

#endif
