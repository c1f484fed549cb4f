/*
 * Integers of 64 bits as decimal text, as a value has them. The C library's formats would do it,
 * too; they can do much else, which costs more than the write of the value.
 */
#ifndef SB_NUMBER_H
#define SB_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/statebus.h"

#define SB_NUMBER_LEN_MAX 20u /* bytes: a sign and nineteen digits */

/* Read a decimal integer of 64 bits as Redis keeps it: no sign but -, no space, no leading zeros.
 * Return: false: @text is none. */
bool sb_number_read(struct sb_bytes text, int64_t *ret);

/* Write @number so that sb_number_read() reads it. Return: the text, in @space. */
struct sb_bytes sb_number_print(int64_t number, char space[SB_NUMBER_LEN_MAX]);

#endif
