/*
 * The client library's sleeps in the stepper's build: included before everything else in its files,
 * so that a write that waits for memory costs time of the scene alone.
 */
#ifndef SB_TESTS_SLEEP_H
#define SB_TESTS_SLEEP_H

#include <time.h>

int scene_sleep(const struct timespec *time, struct timespec *rest);

#define nanosleep(time, rest) scene_sleep(time, rest)

#endif
