/*
 * The images that a run has met, by their hashes, so that each is examined once.
 *
 * Always true: the table grows as far as memory goes; there is no number of images behind which a
 * run examines no more.
 */
#ifndef SB_TESTS_IMAGES_H
#define SB_TESTS_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

/* A run begins: no image was met. */
void images_forget(void);
/* Whether the image with this hash is met for the first time. */
bool images_new(uint64_t hash);

#endif
