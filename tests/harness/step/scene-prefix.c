/*
 * Watches of prefixes by the public calls; see scene.h.
 *
 * Always true: a change comes once, by cut, and is the revision after the last one of its key, as
 * long as nothing was said to be lost. A key that was deleted goes on with any later revision.
 */
#include <string.h>

#include "libclient/statebus.h"
#include "shm/base/result.h"
#include "tests/harness/step/scene.h"
#include "tests/harness/step/story.h"

/* What is wrong with what a call gives; no result of the library has these. */
#define BAD_GUARD (-1002) /* it does not show what it showed before */
#define BAD_STEP  (-1005) /* a revision was left out without a word, or came twice */
#define BAD_OLD   (-1006) /* what a change replaced is no value */
#define BAD_KEY   (-1007) /* it has another prefix */
#define BAD_CUT   (-1008) /* one of before came already */

#define NOW INT64_MAX /* a cut that has all that is stamped */

static bool has_prefix(const struct scene_prefix *prefix, uint32_t key)
{
        struct sb_bytes name = scene_key(key), begin = scene_key(prefix->key);

        return name.len >= prefix->len && memcmp(name.data, begin.data, prefix->len) == 0;
}

static void begin_at(const struct scene *of, struct scene_prefix *prefix, const struct fact *facts)
{
        for (uint32_t key = 0; key < of->key_count; key++) {
                prefix->last[key].known = true;
                prefix->last[key].value = facts[key].state == FACT_VALUE;
                prefix->last[key].rev = facts[key].rev;
        }
}

void scene_prefix_begin(struct scene *of, uint32_t actor, uint32_t watch)
{
        struct fact facts[SCENE_KEYS];

        scene_observe(of, NOW, facts);
        begin_at(of, &of->prefix[actor][watch], facts);
}

void scene_prefix_open(struct scene *of, const struct act *act, struct result *ret)
{
        struct scene_prefix *prefix = &of->prefix[act->actor][act->len];
        struct sb_bytes bytes = scene_key(act->key);
        bool after = act->expect == THEN, drops = act->expect == STALE;
        struct sb_watch_options how = {.size = sizeof(how),
                .flags = SB_PREFIX | (after ? SB_AFTER_CUT : 0) | (drops ? SB_BUFFERED : 0),
                .depth = drops ? 2 : 0,
                .after = after ? of->marked_cut : SB_ANY_REV};

        bytes.len = act->tag;
        ret->code = sb_watch_open_at(
                &of->bus[act->actor], bytes, &how, &of->watch[act->actor][act->len]);
        *prefix = (struct scene_prefix){
                .stands = ret->code == 0, .drops = drops, .key = act->key, .len = act->tag};
        of->watch_key[act->actor][act->len] = act->key;
        if (after)
                begin_at(of, prefix, of->marked);
        else if (ret->code == 0 && !of->is_set_up)
                scene_prefix_begin(of, act->actor, act->len);
}

/* The watch has begun anew. */
static void forget(struct scene_prefix *prefix)
{
        for (uint32_t key = 0; key < SCENE_KEYS; key++)
                prefix->last[key].known = false;
}

/* Whether what a change replaced has the bytes of a value. */
static bool replaces_value(const struct sb_guard *guard)
{
        const unsigned char *old = guard->old_value.data;

        return !old || !guard->old_value.len ||
               memcmp(old, scene_value(old[0]), guard->old_value.len) == 0;
}

/* What is wrong with a change of @key, of which the guard has shown @seen. */
static int judge(struct scene *of, const struct scene_prefix *prefix, const struct sb_guard *guard,
        uint32_t key, const struct fact *seen)
{
        struct fact again = scene_guard_fact(of, guard, key);

        if (seen->state == FACT_BROKEN || !scene_fact_equal(&again, seen, true))
                return BAD_GUARD;
        if (!replaces_value(guard))
                return BAD_OLD;
        if (guard->cut < prefix->cut)
                return BAD_CUT;
        if (guard->rev <= prefix->last[key].rev ||
                (prefix->last[key].known && prefix->last[key].value && !prefix->drops &&
                        guard->rev != prefix->last[key].rev + 1))
                return BAD_STEP;
        return 0;
}

void scene_prefix_next(struct scene *of, const struct act *act, struct result *ret)
{
        struct scene_prefix *prefix = &of->prefix[act->actor][act->len];
        struct sb_watch *watch = of->watch[act->actor][act->len];
        struct sb_guard guard;
        uint32_t key;

        ret->code = sb_watch_next(watch, 0, &guard);
        if (ret->code == SB_E_LAPPED)
                forget(prefix);
        if (ret->code)
                return;
        key = scene_guard_key(&guard);
        ret->rev = guard.rev;
        if (key == SCENE_KEYS || !has_prefix(prefix, key)) {
                ret->code = BAD_KEY;
        } else {
                ret->seen[key] = scene_guard_fact(of, &guard, key);
                ret->code = judge(of, prefix, &guard, key, &ret->seen[key]);
                prefix->cut = guard.cut;
                prefix->last[key].known = true;
                prefix->last[key].value = guard.kind != SB_DELETED;
                prefix->last[key].rev = guard.rev;
        }
        sb_guard_release(&guard);
}

uint32_t scene_prefix_missing(struct scene *of, uint32_t actor, uint32_t watch)
{
        const struct scene_prefix *prefix = &of->prefix[actor][watch];
        struct fact now[SCENE_KEYS], then[SCENE_KEYS];

        /* One that drops may have dropped the last ones. */
        if (prefix->drops)
                return SCENE_KEYS;
        scene_observe(of, NOW, now);
        scene_observe(of, sb_watch_cut(of->watch[actor][watch]), then);
        for (uint32_t key = 0; key < of->key_count; key++) {
                bool has = now[key].state == FACT_VALUE;

                if (!has_prefix(prefix, key))
                        continue;
                if (!prefix->last[key].known
                                ? !scene_fact_equal(&now[key], &then[key], true)
                                : has != prefix->last[key].value ||
                                          (has && now[key].rev != prefix->last[key].rev))
                        return key;
        }
        return SCENE_KEYS;
}
