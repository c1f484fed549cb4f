/*
 * All that a bus has, as text: its keys with their values, revisions and cuts, the history of
 * "kept/0" to "kept/2", the mark "mark", and "key/3" at it, where it has those. So two buses are
 * compared, and what differs is shown.
 */
#ifndef SB_TEST_KILL_CONTENTS_H
#define SB_TEST_KILL_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "libclient/statebus.h"

#define CONTENTS_MAX (1u << 20)

struct contents {
        char text[CONTENTS_MAX];
        size_t len;
};

/* For main(), before the tests. Return: false: there is no memory. */
bool contents_begin(void);
/* Keys that begin with "z" come later, and are left out. Return: 0; why there is no such bus any
 * more. */
int contents_read(struct sb_bus *bus, struct contents *ret);
/* What this bus has now is what others have to have, for all processes of the test. */
void contents_keep(struct sb_bus *bus);
/* Complain (tests/kill/traced.h) when these are not the ones that were kept. */
void contents_compare(const struct contents *contents);

#endif
