/* The past by the public calls: cuts, rules, marks, all versions of a key; see users.h. */
#include "shm/base/result.h"
#include "shm/layout/block.h"
#include "tests/model/users.h"

#define NOW_NS       UINT64_C(1000000) /* model_os: its clock stands still */
#define VERSIONS_MAX 16u

static const struct sb_bytes start_mark = {WORLD_MARK, sizeof WORLD_MARK - 1};

/* Reads the key at an earlier cut, into what was seen. Return: as sb_get_at(). */
static int read_at(
        const struct user *user, uint64_t cut, struct outcome *outcome, struct sb_guard *guard)
{
        struct sb_bytes key = user_key(user->op->key);
        bool many = user->op->way == WAY_MANY;
        int r = many ? sb_get_many_at(user->bus, &key, 1, cut, guard)
                     : sb_get_at(user->bus, key, cut, guard);

        if (many && !r && !guard->bus)
                r = SB_E_NOT_FOUND;
        MODEL_CHECK(!many || !r || !guard->bus);
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

/* A writer tells of its cut, which no process has taken yet: later writes could still be in it. */
static void do_told(const struct user *user)
{
        uint64_t cut = model_noted(NOTE_TOLD);

        user->outcome->r = SB_E_LAPPED;
        if (cut)
                read_twice(user, cut, false);
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
                MODEL_CHECK(user->outcome->r == SB_E_LAPPED && world_evicts());
                return;
        }
        read_twice(user, cut, true);
        MODEL_CHECK(!sb_mark_find(user->bus, name, &found) && found == cut);
        MODEL_CHECK(!sb_mark_drop(user->bus, name));
        MODEL_CHECK(sb_mark_find(user->bus, name, &found) == SB_E_NOT_FOUND);
}

/* All keys in a cut of which too little is left: each step says so, and holds the oldest version
 * that there is. */
static void do_scan_past(const struct user *user)
{
        struct sb_scan_options options = {.size = sizeof options, .cut = world.engine_cut};
        struct sb_guard guards[WORLD_KEYS + 1] = {0};
        struct outcome seen = {0};
        struct sb_scan *scan;
        uint32_t count = 0, i;
        int r = sb_scan_open_at(user->bus, (struct sb_bytes){NULL, 0}, &options, &scan);

        if (r)
                model_fail("a scan in the past: %d", r);
        while ((r = sb_scan_next(scan, &guards[count])) == SB_E_LAPPED && guards[count].bus) {
                user_see(&seen, KEY_A, &guards[count]);
                MODEL_CHECK(guards[count].cut > world.engine_cut);
                if (++count > WORLD_KEYS)
                        model_fail("a scan has no end");
        }
        MODEL_CHECK(r == SB_E_NOT_FOUND && count == 1);
        sb_scan_close(scan);
        for (i = 0; i < count; i++) {
                user_read_again(&guards[i], KEY_A, &seen);
                sb_guard_release(&guards[i]);
        }
        user->outcome->r = SB_E_LAPPED;
}

/* The start state's mark. As long as it is found, its cut can be read. */
static void do_find(const struct user *user)
{
        struct sb_guard guard = {0};
        uint64_t cut, again;
        int r = sb_mark_find(user->bus, start_mark, &cut);

        user->outcome->r = SB_E_LAPPED;
        if (r == SB_E_NOT_FOUND)
                return;
        MODEL_CHECK(!r && cut == world.engine_cut);
        user->outcome->cut = cut;
        user->outcome->r = read_at(user, cut, user->outcome, &guard);
        if (user->outcome->r == SB_E_LAPPED)
                MODEL_CHECK(sb_mark_find(user->bus, start_mark, &again) == SB_E_NOT_FOUND);
        if (user->outcome->r != SB_E_LAPPED)
                MODEL_CHECK(user->outcome->seen[user->op->key] == world.past_seen);
        if (!user->outcome->r)
                user_read_again(&guard, user->op->key, user->outcome);
        sb_guard_release(&guard);
        if (user->outcome->r == SB_E_NOT_FOUND)
                user->outcome->r = 0;
}

/* All keys, or one, become what they were in the cut of the start state's mark. */
static void do_restore(const struct user *user)
{
        struct sb_write how = {.size = sizeof how, .ret_cut = &user->outcome->cut};
        bool one = user->op->way == WAY_SHORT;
        struct sb_bytes key = one ? user_key(user->op->key) : (struct sb_bytes){NULL, 0};

        user->outcome->r = sb_restore(user->bus, key, one ? 0 : SB_PREFIX, world.engine_cut, &how);
        if (user->outcome->r)
                MODEL_CHECK(user->outcome->r == SB_E_LAPPED && (world_evicts() || world_drops()));
}

/* WAY_TURN: and then it is made again, of a new cut. */
static void do_drop(const struct user *user)
{
        int r = sb_mark_drop(user->bus, start_mark);
        uint64_t cut;

        MODEL_CHECK(r == 0 || r == SB_E_NOT_FOUND);
        if (user->op->way == WAY_TURN)
                MODEL_CHECK(!sb_mark(user->bus, start_mark, &cut) && cut > world.engine_cut);
}

/* All versions of the key, each held until the walk has ended; WAY_TURN: until the next one is
 * there; WAY_SHORT: the newest one. */
static void do_history(const struct user *user)
{
        bool reverse = user->op->way == WAY_BACK;
        struct sb_guard guards[VERSIONS_MAX];
        struct outcome *outcome = user->outcome;
        enum world_key key = user->op->key;
        uint32_t tags[VERSIONS_MAX], count = 0, i, newest = 0;
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
                if (user->op->way == WAY_TURN)
                        sb_guard_release(guard);
                if (user->op->way == WAY_SHORT)
                        break;
        }
        MODEL_CHECK(!r || r == SB_E_NOT_FOUND || (r == SB_E_LAPPED && !reverse));
        sb_history_close(history);
        if (reverse && count)
                newest = count - 1;
        outcome->r = !count || guards[newest].kind != SB_VALUE ? SB_E_NOT_FOUND : 0;
        outcome->rev = outcome->r ? 0 : guards[newest].rev;
        for (i = 0; i < count; i++) {
                if (guards[i].bus && guards[i].kind == SB_VALUE) {
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
        case OP_TOLD:
                do_told(user);
                return true;
        case OP_MARK:
                do_mark(user);
                return true;
        case OP_HISTORY:
                do_history(user);
                return true;
        case OP_SCAN:
                do_scan_past(user);
                return true;
        case OP_FIND:
                do_find(user);
                return true;
        case OP_RESTORE:
                do_restore(user);
                return true;
        case OP_DROP:
                do_drop(user);
                return true;
        default:
                return false;
        }
}
