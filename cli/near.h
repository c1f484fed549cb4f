/* "Did you mean": which of some names is near to what was typed. */
#ifndef SB_CLI_NEAR_H
#define SB_CLI_NEAR_H

#include <stddef.h>

/* How far @name is from the @len bytes at @typed: 0 when they are the same, SIZE_MAX when they are
 * not near. A name is near when a letter or two are wrong, missing, too many or in the wrong order
 * (one in a word of less than six letters, none in a single letter), when one of both begins with
 * the whole of the other, and that has three letters or more. */
size_t cli_distance(const char *typed, size_t len, const char *name);

#endif
