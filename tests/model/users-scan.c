/* Scans by the public calls; see users.h. */
#include <string.h>

#include "shm/base/result.h"
#include "tests/model/users.h"
#include "tests/model/world-core.h"

#define NO_KEY WORLD_KEYS

uint32_t user_key_number(const struct sb_guard *guard)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                if (guard->key.len == world_key_len(key) &&
                        !memcmp(guard->key.data, world_key(key), guard->key.len))
                        return key;
        model_fail("a guard shows a key that no thread wrote");
        return NO_KEY;
}

void user_walk_release(struct user_walk *walk)
{
        while (walk->count)
                sb_guard_release(&walk->guards[--walk->count]);
}

/* Reads what a step gave, and that of the step before, which is held still. Return: its key. */
static uint32_t walk_see(
        struct user_walk *walk, struct sb_guard *guard, bool down, struct outcome *outcome)
{
        uint32_t key = user_key_number(guard);

        if (walk->last != NO_KEY && (down ? key >= walk->last : key <= walk->last))
                model_fail("a scan gives %s behind %s", world_key(key), world_key(walk->last));
        walk->keys |= 1u << key;
        walk->last = key;
        user_see(outcome, key, guard);
        if (guard > walk->guards)
                user_read_guard(guard - 1, user_key_number(guard - 1));
        return key;
}

/* Whether a scan is at its end, or its cut was taken away, which does not come back. */
static bool walk_is_over(struct sb_scan *scan, int r)
{
        struct sb_guard guard;

        if (r == SB_E_NOT_FOUND)
                return true;
        if (r && r != SB_E_LAPPED)
                model_fail("a step of a scan: %d", r);
        if (r)
                MODEL_CHECK(world_evicts() && sb_scan_next(scan, &guard) == r);
        return r;
}

int user_walk(struct sb_scan *scan, bool back, bool down, uint32_t stop, struct outcome *outcome,
        struct user_walk *walk)
{
        walk->keys = 0;
        walk->last = NO_KEY;
        for (;;) {
                struct sb_guard *guard = &walk->guards[walk->count];
                int r = back ? sb_scan_prev(scan, guard) : sb_scan_next(scan, guard);

                if (walk_is_over(scan, r))
                        return r == SB_E_LAPPED ? r : 0;
                if (++walk->count == STEPS_MAX)
                        model_fail("a scan has no end");
                if (walk_see(walk, guard, down, outcome) >= stop)
                        return 0;
        }
}

int user_walk_many(struct sb_scan *scan, bool down, struct outcome *outcome, struct user_walk *walk)
{
        walk->keys = 0;
        walk->last = NO_KEY;
        for (;;) {
                size_t given = 0;
                int r = sb_scan_next_many(scan, &walk->guards[walk->count], 2, &given);

                if (walk_is_over(scan, r))
                        return r == SB_E_LAPPED ? r : 0;
                MODEL_CHECK(given && given <= 2);
                if (walk->count + given + 2 > STEPS_MAX)
                        model_fail("a scan has no end");
                while (given--)
                        walk_see(walk, &walk->guards[walk->count++], down, outcome);
        }
}

void user_see_absent(struct outcome *outcome, const struct user_walk *walk, uint32_t stop)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS && !(walk->keys >> stop && key > stop); key++)
                if (!(walk->keys >> key & 1))
                        user_see(outcome, key, NULL);
}

void user_read_walk(const struct user_walk *walk, const struct outcome *outcome)
{
        uint32_t i;

        for (i = 0; i < walk->count; i++)
                user_read_again(&walk->guards[i], user_key_number(&walk->guards[i]), outcome);
}

void user_expect_same(const struct outcome *a, const struct outcome *b, uint32_t keys)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                if ((keys >> key & 1) &&
                        (a->seen[key] != b->seen[key] || a->tags[key] != b->tags[key]))
                        model_fail("in one cut %s is %lu by %u, and then %lu by %u", world_key(key),
                                (unsigned long)a->seen[key], a->tags[key],
                                (unsigned long)b->seen[key], b->tags[key]);
}

/* What a step gave, if it is this key; else the key is not there, and the guard holds nothing. */
static int seek_see(struct sb_guard *guard, enum world_key key, int r, struct outcome *outcome)
{
        bool found = !r && user_key_number(guard) == key;

        if (r && r != SB_E_NOT_FOUND) {
                MODEL_CHECK(r == SB_E_LAPPED && world_evicts());
                return r;
        }
        user_see(outcome, key, found ? guard : NULL);
        if (!r && !found)
                sb_guard_release(guard);
        return 0;
}

/* From behind the end comes the last key that was seen. Return: 0, SB_E_LAPPED. */
static int user_seek_end(
        struct sb_scan *scan, const struct outcome *outcome, struct user_walk *walk)
{
        struct sb_guard *guard = &walk->guards[walk->count];
        struct outcome again = *outcome;
        uint32_t last = WORLD_KEYS;
        int r;

        while (last && !outcome->seen[last - 1])
                last--;
        MODEL_CHECK(!sb_scan_seek_end(scan));
        r = sb_scan_prev(scan, guard);
        if (!last && r == SB_E_NOT_FOUND)
                return 0;
        if (!r && user_key_number(guard) + 1 != last)
                model_fail("a scan ends with another key than was seen last");
        if (!last)
                last = 1; /* it was taken away, or that is wrong */
        r = seek_see(guard, last - 1, r, &again);
        if (r)
                return r;
        walk->count += guard->bus ? 1 : 0;
        user_expect_same(outcome, &again, 1u << (last - 1));
        return 0;
}

/* Each key, from behind it and from before it, and holds what it finds. Return: 0, SB_E_LAPPED. */
static int user_seek(struct sb_scan *scan, struct outcome *outcome, struct user_walk *walk)
{
        struct outcome again = *outcome;
        uint32_t key;
        int r = 0;

        for (key = 0; key < WORLD_KEYS && !r; key++) {
                struct sb_guard *guard = &walk->guards[walk->count];

                guard[0].bus = guard[1].bus = NULL;
                MODEL_CHECK(!sb_scan_seek_last(scan, user_key(key)));
                r = seek_see(&guard[0], key, sb_scan_prev(scan, &guard[0]), outcome);
                if (r)
                        break;
                walk->count += guard[0].bus ? 1 : 0;
                guard = &walk->guards[walk->count];
                MODEL_CHECK(!sb_scan_seek(scan, user_key(key)));
                r = seek_see(guard, key, sb_scan_next(scan, guard), &again);
                if (r)
                        break;
                walk->count += guard->bus ? 1 : 0;
                user_expect_same(outcome, &again, 1u << key);
        }
        return r ? r : user_seek_end(scan, outcome, walk);
}

void user_scan(const struct user *user)
{
        struct sb_scan_options options = {
                .size = sizeof options, .flags = user->op->way == WAY_BACK ? SB_REVERSE : 0};
        struct outcome seen = *user->outcome, again;
        struct user_walk walk = {.count = 0};
        struct sb_scan *scan;

        user_note_done(&seen);
        seen.r = sb_scan_open_at(user->bus, (struct sb_bytes){NULL, 0}, &options, &scan);
        if (seen.r)
                model_fail("a scan: %d", seen.r);
        seen.cut = seen.read_cut = sb_scan_cut(scan);
        seen.begun = true;
        seen.r = user->op->way == WAY_SEEK   ? user_seek(scan, &seen, &walk)
                 : user->op->way == WAY_MANY ? user_walk_many(scan, false, &seen, &walk)
                                             : user_walk(scan, false, user->op->way == WAY_BACK,
                                                       WORLD_KEYS, &seen, &walk);
        if (!seen.r && user->op->way != WAY_SEEK)
                user_see_absent(&seen, &walk, WORLD_KEYS);
        if (!seen.r && user->op->way == WAY_TURN) {
                again = seen;
                user_walk_release(&walk);
                seen.r = user_walk(scan, true, true, WORLD_KEYS, &again, &walk);
                if (!seen.r) {
                        user_see_absent(&again, &walk, WORLD_KEYS);
                        user_expect_same(&seen, &again, (1u << WORLD_KEYS) - 1);
                }
        }
        sb_scan_close(scan);
        /* The guards stay when the scan goes. */
        user_read_walk(&walk, &seen);
        user_walk_release(&walk);
        *user->outcome = seen;
}
