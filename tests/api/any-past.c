/* Marks, rules of history, and all versions of a key, by chance. See any.h. */
#include <errno.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "tests/api/any.h"

#define RULE_ROOM 10u /* a rule is for keys that are this much shorter */

static struct walk {
        struct sb_history *history; /* NULL: none is open */
        uint32_t bus, key, index;   /* index: of the last change that it gave */
        uint64_t rev;
        bool reverse, begun, ended, said;
} walks[ANY_WALKS];

void any_mark(void)
{
        struct any_mark *mark = &any.mark[any_below(ANY_MARKS)];
        struct sb_bytes name = {mark->name, mark->len};
        struct sb_bus *bus = any.bus[any_bus()];
        uint64_t cut = 0;
        int r;

        if (any_one_in(4)) {
                r = sb_mark_find(bus, name, &cut);
                ANY_CHECK(r == (mark->there ? 0 : SB_E_NOT_FOUND) && (r != 0 || cut == mark->cut),
                        "a mark is looked for: %d", r);
                return;
        }
        if (any_one_in(3)) {
                r = sb_mark_drop(bus, name);
                if (any_is_full(r))
                        return;
                ANY_CHECK(r == (mark->there ? 0 : SB_E_NOT_FOUND), "a mark is dropped: %d", r);
                mark->there = false;
                return;
        }
        r = sb_mark(bus, name, &cut);
        if (any_is_full(r))
                return;
        ANY_CHECK(r == (mark->there ? SB_E_CONFLICT : 0), "a mark: %d", r);
        if (r != 0)
                return;
        mark->there = true;
        mark->cut = cut;
        any_saw_cut(cut);
}

/* Draw what a rule that is not there is for. Return: false: another one is for that. */
static bool aim(struct any_rule *rule)
{
        struct sb_bytes key = any_near_key();
        uint32_t len_max = any.key_len_max - RULE_ROOM;

        rule->prefix = key.len == 0 || any_one_in(2);
        rule->len = key.len < len_max ? (uint32_t)key.len : len_max;
        if (rule->len > 0)
                memcpy(rule->bytes, key.data, rule->len);
        if (any_is_own((struct sb_bytes){rule->bytes, rule->len}))
                return false;
        for (uint32_t i = 0; i < ANY_RULES; i++) {
                const struct any_rule *other = &any.rule[i];

                if (other != rule && other->there && other->prefix == rule->prefix &&
                        any_compare(other->bytes, other->len, rule->bytes, rule->len) == 0)
                        return false;
        }
        return true;
}

static struct sb_rule draw_rule(void)
{
        struct sb_rule rule = {
                .size = sizeof(rule), .kind = any_one_in(2) ? SB_KEEP_ALL : (uint32_t)any_below(4)};

        if (rule.kind == SB_KEEP_LAST)
                rule.value = 1 + any_below(6);
        if (rule.kind == SB_KEEP_SPAN)
                rule.value = 1 + (any_one_in(2) ? any_below(100000000)
                                                : any_below(3600) * UINT64_C(1000000000));
        return rule;
}

/* A rule was written, or @taken: others cover its keys from now on. Where there were many such
 * before, the past of all others may begin anew. */
static void set_since(struct any_rule *rule, struct sb_bus *bus, bool taken)
{
        uint64_t cut = 0;

        ANY_CHECK(sb_cut_at(bus, UINT64_MAX, &cut) == 0, "a cut behind a rule");
        rule->since = cut;
        if (taken && any.gone_count < ANY_GONE) {
                any.gone[any.gone_count++] = *rule;
        } else if (taken) {
                any.gone_count = 0;
                for (uint32_t i = 0; i < ANY_RULES; i++)
                        if (any.rule[i].since != UINT64_MAX)
                                any.rule[i].since = cut;
        }
        any_saw_cut(cut);
}

/* There was no room for a rule, which may stand there half. */
static void look_up_rule(struct any_rule *rule, struct sb_bus *bus, uint32_t flags)
{
        struct sb_rule now;
        int r = sb_kept(bus, (struct sb_bytes){rule->bytes, rule->len}, flags, &now);

        ANY_CHECK(r == 0 || r == SB_E_NOT_FOUND, "a rule is looked up: %d", r);
        rule->there = r == 0;
        rule->kind = r == 0 ? now.kind : rule->kind;
        rule->value = r == 0 ? now.value : rule->value;
        for (uint32_t i = 0; i < ANY_RULES; i++)
                any.rule[i].since = UINT64_MAX;
}

void any_keep(void)
{
        struct any_rule *rule = &any.rule[any_below(ANY_RULES)];
        struct sb_rule wanted = draw_rule(), now = {0};
        struct sb_bus *bus = any.bus[any_bus()];
        struct sb_bytes key;
        uint32_t flags;
        bool same;
        int r;

        if (!rule->there && !aim(rule))
                return;
        key = (struct sb_bytes){rule->bytes, rule->len};
        flags = rule->prefix ? SB_PREFIX : 0;
        if (any_one_in(4)) {
                r = sb_kept(bus, key, flags, &now);
                ANY_CHECK(r == (rule->there ? 0 : SB_E_NOT_FOUND), "a rule is looked for: %d", r);
                ANY_CHECK(r != 0 || (now.kind == rule->kind && now.value == rule->value),
                        "another rule");
                return;
        }
        same = rule->there && rule->kind == wanted.kind && rule->value == wanted.value;
        r = sb_keep(bus, key, flags, &wanted);
        if (any_is_full(r)) {
                look_up_rule(rule, bus, flags);
                return;
        }
        ANY_CHECK(r == 0, "a rule: %d", r);
        if (same)
                return;
        set_since(rule, bus, rule->there && wanted.kind == SB_KEEP_NEWEST);
        rule->there = wanted.kind != SB_KEEP_NEWEST;
        rule->kind = wanted.kind;
        rule->value = wanted.value;
}

/* ---- all versions ---- */

/* The change of which a guard is. */
static uint32_t change_of(uint32_t key, const struct sb_guard *guard)
{
        struct any_key *of = &any.key[key];

        for (uint32_t i = of->count; i-- > 0;) {
                struct any_change *change = &of->change[i];

                if (change->cut != guard->cut)
                        continue;
                if (change->rev == 0 && change->gone && guard->kind == SB_DELETED)
                        change->rev = guard->rev;
                if (change->rev == guard->rev)
                        return i;
        }
        any_fail(__FILE__, __LINE__, "key %u: revision %llu at %llu was never there", key,
                (unsigned long long)guard->rev, (unsigned long long)guard->cut);
}

static void compare_version(struct walk *walk, struct sb_guard *guard, uint64_t time_ns)
{
        const struct any_key *of = &any.key[walk->key];
        uint32_t index = change_of(walk->key, guard);
        uint64_t missed = 0;

        any_compare_guard(guard, walk->key, &of->change[index]);
        if (walk->begun) {
                ANY_CHECK(walk->reverse ? index > walk->index : index < walk->index,
                        "key %u: versions in another order", walk->key);
                missed = (walk->reverse ? guard->rev - walk->rev : walk->rev - guard->rev) - 1;
        } else if (!walk->reverse) {
                ANY_CHECK(index == of->count - 1, "key %u: the newest version is left out",
                        walk->key);
        }
        ANY_CHECK(any.time_ns == 0 || time_ns <= of->change[index].time_ns,
                "key %u was written before the time that is said", walk->key);
        ANY_CHECK(guard->missed == missed, "key %u: missed %llu", walk->key,
                (unsigned long long)guard->missed);
        walk->begun = true;
        walk->index = index;
        walk->rev = guard->rev;
        any_let_go(guard);
}

/* Newest first: where a walk says that nothing is missing, the key began there. */
static void compare_walk_end(struct walk *walk, int r)
{
        const struct any_key *of = &any.key[walk->key];

        ANY_CHECK(r == SB_E_NOT_FOUND || (r == SB_E_LAPPED && !walk->reverse),
                "the end of a walk: %d", r);
        if (walk->begun && r == SB_E_NOT_FOUND && !walk->reverse)
                ANY_CHECK(walk->index == 0 || of->change[walk->index - 1].gone,
                        "key %u: a version is missing, which is not said", walk->key);
        ANY_CHECK(walk->begun || walk->ended || !any_now(walk->key),
                "key %u has a value, and no version", walk->key);
        walk->ended = true;
}

/* One step. Return: whether there is more. */
static bool step(struct walk *walk)
{
        struct sb_guard guard = {0};
        uint64_t time_ns = 0;
        int r = sb_history_next(walk->history, &guard, any_one_in(2) ? &time_ns : NULL);

        if (any_is_full(r))
                return false;
        if (r == SB_E_LAPPED && walk->reverse && !walk->begun && !walk->said) {
                walk->said = true;
                return true;
        }
        if (r == 0)
                compare_version(walk, &guard, time_ns);
        else
                compare_walk_end(walk, r);
        return r == 0;
}

void any_walk(void)
{
        struct walk *walk = &walks[any_below(ANY_WALKS)];
        uint64_t left = any_below(6);
        int r;

        if (!walk->history || any_one_in(6)) {
                sb_history_close(walk->history);
                *walk = (struct walk){.bus = any_bus(), .key = any_key(), .reverse = any_one_in(2)};
                r = sb_history_open(any.bus[walk->bus], any_bytes(walk->key),
                        walk->reverse ? SB_REVERSE : 0, &walk->history);
                if (any_is_full(r))
                        return;
                ANY_CHECK(r == 0, "a walk: %d", r);
                left = any_one_in(2) ? UINT64_MAX : left;
        }
        while (left > 0 && step(walk))
                left--;
}

/* How many versions a rule must have kept. */
static uint32_t kept_of(uint32_t key, uint64_t floor)
{
        const struct any_rule *rule = any_rule_of(key);
        const struct any_key *of = &any.key[key];
        uint32_t count = 0;
        uint64_t since;

        if (!rule || rule->since == UINT64_MAX || rule->kind == SB_KEEP_SPAN)
                return 0;
        since = any_since(rule, key);
        for (uint32_t i = of->count; i-- > 0; count++)
                if (of->change[i].cut <= since || of->change[i].cut <= floor ||
                        (rule->kind == SB_KEEP_LAST && count == rule->value))
                        break;
        return count;
}

void any_walk_whole(void)
{
        struct walk walk = {.bus = any_bus(), .key = any_key(), .reverse = any_one_in(2)};
        uint32_t count = 0;
        uint64_t floor;
        int r = sb_history_open(any.bus[walk.bus], any_bytes(walk.key),
                walk.reverse ? SB_REVERSE : 0, &walk.history);

        if (any_is_full(r))
                return;
        ANY_CHECK(r == 0, "a walk: %d", r);
        while (step(&walk))
                count += walk.begun;
        floor = any_floor();
        ANY_CHECK(!walk.ended || count >= kept_of(walk.key, floor),
                "key %u has %u versions, and a rule keeps %u", walk.key, count,
                kept_of(walk.key, floor));
        sb_history_close(walk.history);
}

void any_walks_end(uint32_t bus)
{
        for (uint32_t i = 0; i < ANY_WALKS; i++) {
                struct walk *walk = &walks[i];

                if (walk->history && walk->bus == bus)
                        walk->history = sb_history_close(walk->history);
        }
}
