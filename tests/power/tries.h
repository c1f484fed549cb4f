/*
 * All that may be left at one place of a record, or enough of it; each state once.
 *
 * Where few writes and names wait, all subsets of them are tried, else some by chance; and where a
 * reader may look at what a waiting write is in, sectors and blocks of it, too.
 */
#ifndef SB_TESTS_POWER_TRIES_H
#define SB_TESTS_POWER_TRIES_H

#include "tests/power/states.h"

struct tries {
        uint64_t made, states, torn; /* drawn; of those other ones than before; with torn writes */
        uint64_t places;
};

/* Looks at a state that was drawn. Return: whether it is one that may be. */
typedef bool (*tries_judge)(struct states *states, const void *known);

/* Forgets which states were there. */
void tries_begin(struct tries *tries);
/* @known: what the judge asks of a state; as @known_number, by which states are told apart. Return:
 * whether the judge took each of them; else *ret_choice is the last one. */
bool tries_all(struct tries *tries, struct states *states, const void *known, uint64_t known_number,
        tries_judge judge, struct states_choice *ret_choice);

#endif
