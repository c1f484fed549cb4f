/* The past by the public calls: cuts, rules, marks, all versions of a key; see users.h. */
#include "shm/base/result.h"
#include "shm/layout/block.h"
#include "tests/model/users.h"

#define NOW_NS       UINT64_C(1000000) /* model_os: its clock stands still */
#define VERSIONS_MAX 16u

/* Reads the key at an earlier cut, into what was seen. Return: as sb_get_at(). */
static int read_at(
        const struct user *user, uint64_t cut, struct outcome *outcome, struct sb_guard *guard)
{
        int r = sb_get_at(user->bus, user_key(user->op->key), cut, guard);

        MODEL_CHECK(r == 0 || r == SB_E_NOT_FOUND || r == SB_E_LAPPED);
        if (r != SB_E_LAPPED)
                user_see(outcome, user->op->key, r ? NULL : guard);
        else if (guard->bus && guard->kind == SB_VALUE)
                user_read_guard(guard, user->op->key);
        return r;
}

/* Reads twice at one cut: each gives the value, or that it is lost; once lost, it stays lost.
 * @kept: it is never lost. */
static void read_twice(const struct user *user, uint64_t cut, bool kept)
{
        struct outcome *outcome = user->outcome, again = {0};
        struct sb_guard first = {0}, second = {0};
        enum world_key key = user->op->key;
        int r;

        outcome->cut = outcome->read_cut = cut;
        outcome->r = read_at(user, cut, outcome, &first);
        r = read_at(user, cut, &again, &second);
        if (kept && (outcome->r == SB_E_LAPPED || r == SB_E_LAPPED))
                model_fail("%s is kept, and what it was at cut %lu is lost", world_key(key),
                        (unsigned long)cut);
        MODEL_CHECK(outcome->r != SB_E_LAPPED || r == SB_E_LAPPED);
        if (r != SB_E_LAPPED)
                MODEL_CHECK(again.seen[key] == outcome->seen[key]);
        if (!outcome->r)
                user_read_again(&first, key, outcome);
        sb_guard_release(&first);
        if (!r)
                user_read_again(&second, key, &again);
        sb_guard_release(&second);
        if (outcome->r == SB_E_NOT_FOUND)
                outcome->r = 0;
}

static void do_at(const struct user *user)
{
        struct sb_rule rule = {.size = sizeof rule, .kind = SB_KEEP_ALL};
        bool keeps = user->op->kind == OP_KEEP;
        uint64_t cut;

        if (keeps && sb_keep(user->bus, user_key(user->op->key), 0, &rule))
                model_fail("a rule cannot be set");
        user_note_done(user->outcome);
        if (sb_cut_at(user->bus, NOW_NS, &cut))
                model_fail("no cut");
        read_twice(user, cut, keeps);
}

/* The mark keeps the cut until it is dropped. */
static void do_mark(const struct user *user)
{
        char text[] = {'m', (char)('0' + user->me)};
        struct sb_bytes name = {text, sizeof text};
        uint64_t cut, found;

        user_note_done(user->outcome);
        user->outcome->r = sb_mark(user->bus, name, &cut);
        if (user->outcome->r) {
                /* Its cut was evicted before. */
                MODEL_CHECK(user->outcome->r == SB_E_LAPPED);
                return;
        }
        read_twice(user, cut, true);
        MODEL_CHECK(!sb_mark_find(user->bus, name, &found) && found == cut);
        MODEL_CHECK(!sb_mark_drop(user->bus, name));
        MODEL_CHECK(sb_mark_find(user->bus, name, &found) == SB_E_NOT_FOUND);
}

/* All versions of the key, each held until the walk has ended. */
static void do_history(const struct user *user)
{
        bool reverse = user->op->way == WAY_BACK;
        struct sb_guard guards[VERSIONS_MAX];
        struct outcome *outcome = user->outcome;
        enum world_key key = user->op->key;
        uint32_t tags[VERSIONS_MAX], count = 0, i, newest;
        struct sb_history *history;
        int r = sb_history_open(user->bus, user_key(key), reverse ? SB_REVERSE : 0, &history);

        if (r)
                model_fail("a history: %d", r);
        for (;;) {
                struct sb_guard *guard = &guards[count];

                r = sb_history_next(history, guard, NULL);
                if (r == SB_E_LAPPED && reverse && !count)
                        continue;
                if (r)
                        break;
                if (guard->kind == SB_VALUE)
                        user_read_guard(guard, key);
                else
                        model_touch(guard->key.data, guard->key.len);
                tags[count] = guard->kind == SB_VALUE ? user_guard_tag(guard) : 0;
                MODEL_CHECK(guard->cut > SB_STAMP_PLACEHOLDER && !(guard->cut & SB_STAMP_INTENT));
                if (count)
                        MODEL_CHECK(
                                reverse ? guard->rev > guard[-1].rev &&
                                                  guard->cut >= guard[-1].cut &&
                                                  guard->missed == guard->rev - guard[-1].rev - 1
                                        : guard->rev < guard[-1].rev &&
                                                  guard->cut <= guard[-1].cut &&
                                                  guard->missed == guard[-1].rev - guard->rev - 1);
                if (++count == VERSIONS_MAX)
                        model_fail("a history has no end");
        }
        MODEL_CHECK(r == SB_E_NOT_FOUND || (r == SB_E_LAPPED && !reverse));
        sb_history_close(history);
        newest = reverse && count ? count - 1 : 0;
        outcome->r = !count || guards[newest].kind != SB_VALUE ? SB_E_NOT_FOUND : 0;
        user_see(outcome, key, outcome->r ? NULL : &guards[newest]);
        outcome->rev = outcome->seen[key];
        for (i = 0; i < count; i++) {
                if (guards[i].kind == SB_VALUE) {
                        user_read_guard(&guards[i], key);
                        MODEL_CHECK(user_guard_tag(&guards[i]) == tags[i]);
                }
                sb_guard_release(&guards[i]);
        }
}

bool user_run_past(const struct user *user)
{
        switch (user->op->kind) {
        case OP_AT:
        case OP_KEEP:
                do_at(user);
                return true;
        case OP_MARK:
                do_mark(user);
                return true;
        case OP_HISTORY:
                do_history(user);
                return true;
        default:
                return false;
        }
}
