/*
 * Scenarios in which threads make the public calls: users.c has reads, writes and transactions,
 * users-scan.c scans, users-past.c the past; see world.h.
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
/* Which key a guard shows. */
uint32_t user_key_number(const struct sb_guard *guard);

#define STEPS_MAX (2 * WORLD_KEYS + 2)
/* What a scan gave, which stays held. All zero before its first use. */
struct user_walk {
        struct sb_guard guards[STEPS_MAX];
        uint32_t count, keys; /* keys: a bit for each that the last walk saw */
        uint32_t last;
};
/* Steps to the end, one way, and holds what it finds; or up to a key that is not one of the first
 * @stop. Return: 0, SB_E_LAPPED. */
int user_walk(struct sb_scan *scan, bool back, bool down, uint32_t stop, struct outcome *outcome,
        struct user_walk *walk);
/* The same to the end, two keys with each call. */
int user_walk_many(
        struct sb_scan *scan, bool down, struct outcome *outcome, struct user_walk *walk);
/* Notes which keys a walk passed over: up to the one where it stopped, or all. */
void user_see_absent(struct outcome *outcome, const struct user_walk *walk, uint32_t stop);
void user_read_walk(const struct user_walk *walk, const struct outcome *outcome);
void user_walk_release(struct user_walk *walk);
/* Two reads at one cut show the same of @keys, a bit for each. */
void user_expect_same(const struct outcome *a, const struct outcome *b, uint32_t keys);
/* The whole of an OP_SCAN. */
void user_scan(const struct user *user);
/* The part of user_run() that is in users-past.c; in users-watch.c. */
bool user_run_past(const struct user *user);
bool user_run_watch(const struct user *user);

#endif
