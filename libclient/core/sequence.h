/*
 * The order in which a watch of a prefix gives what it has listed: by cut; of one stamp each
 * transaction without anything in between, and the changes of each key in their order.
 */
#ifndef SB_CORE_SEQUENCE_H
#define SB_CORE_SEQUENCE_H

#include <stddef.h>

#include "ring/op/prefix.h"

/* Return: 0, -ENOMEM. */
int sb_sequence_order(struct sb_op_listed *list, size_t count);

#endif
