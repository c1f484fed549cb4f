/*
 * Scenarios in which threads make the public calls: users.c has reads, writes, scans and
 * transactions, users-past.c the past; see world.h.
 */
#ifndef TESTS_MODEL_USERS_H
#define TESTS_MODEL_USERS_H

#include "libclient/statebus.h"
#include "tests/model/world-core.h"

struct user {
        uint32_t me;
        struct sb_bus *bus;
        const struct world_op *op;
        uint32_t tag;
        struct outcome *outcome;
};

struct sb_bytes user_key(enum world_key key);
/* Which operation wrote what a guard shows. */
uint32_t user_guard_tag(const struct sb_guard *guard);
/* Reads all that a guard shows: the key, and a value that an operation wrote. */
void user_read_guard(const struct sb_guard *guard, enum world_key key);
/* Notes what is seen of a key; @guard NULL: no value. */
void user_see(struct outcome *outcome, enum world_key key, const struct sb_guard *guard);
/* A guard that shows what was seen shows it still. */
void user_read_again(
        const struct sb_guard *guard, enum world_key key, const struct outcome *outcome);
void user_note_done(struct outcome *outcome);
/* The part of user_run() that is in users-past.c. */
bool user_run_past(const struct user *user);

#endif
