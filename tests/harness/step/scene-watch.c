/*
 * Acts about watches by the public calls, and the system under a client that sleeps; see scene.h.
 *
 * All clients run in one thread. So one that is to sleep leaves its call from within the system's
 * wait, with all that it has stored, and is asleep until a wake of its bell, or until its next act:
 * then its time was over. What it still had to do in that call is done for it then.
 *
 * Always true: a change is the revision after the last one, or the guard says how many are missed.
 */
#include <string.h>

#include "libclient/statebus.h"
#include "ring/op/watch.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/notify/bell.h"
#include "tests/harness/step/scene.h"
#include "tests/harness/step/story.h"

/* What is wrong with what a call gives; no result of the library has these. */
#define BAD_GUARD (-1002) /* it does not show what it showed before */
#define BAD_STEP  (-1005) /* a revision was left out without a word, or came twice */
#define BAD_OLD   (-1006) /* what a change replaced is no value */

/* ---- asleep ---- */

int scene_wait(void *context, struct sb_word32 *word, uint32_t expected, uint64_t deadline_ns)
{
        struct scene *of = context;

        (void)deadline_ns;
        /* In this order: a wake from here on counts. */
        of->woken[of->running] = false;
        of->asleep[of->running] = true;
        if (sb_load_acquire(word) != expected) {
                of->asleep[of->running] = false;
                return 0;
        }
        __builtin_longjmp(of->bed[of->running], 1);
}

void scene_wake(void *context, struct sb_word32 *word)
{
        struct scene *of = context;

        for (uint32_t actor = SUBJECT; actor < SCENE_PEERS; actor++)
                if (of->asleep[actor] && word == &scene_handle(of, actor)->record->bell)
                        of->woken[actor] = true;
}

void scene_wake_up(struct scene *of, uint32_t actor)
{
        if (!of->asleep[actor])
                return;
        of->asleep[actor] = false;
        /* As behind the wait of sb_bell_sleep(). */
        sb_bell_unstand(scene_handle(of, actor));
}

static void do_sleep(struct scene *of, const struct act *act, struct result *ret)
{
        if (__builtin_setjmp(of->bed[act->actor]) == 0)
                ret->code = sb_wait(&of->bus[act->actor], SB_FOREVER);
        else
                ret->code = SB_E_TIMED_OUT;
}

static void do_stand(struct scene *of, const struct act *act, struct result *ret)
{
        struct sb_bus *bus = &of->bus[act->actor];
        uint32_t count;

        ret->code = sb_wait(bus, 0);
        if (ret->code != SB_E_TIMED_OUT)
                return;
        ret->code = 0;
        if (!sb_bell_stand(&bus->handle, &bus->watches.interrupted, &count))
                return;
        /* As in scene_wait(). */
        of->woken[act->actor] = false;
        of->asleep[act->actor] = true;
        if (sb_load_acquire(&bus->handle.record->bell) == count)
                ret->code = SB_E_TIMED_OUT;
        else
                of->asleep[act->actor] = false;
}

/* ---- watches ---- */

static void do_open(struct scene *of, const struct act *act, struct result *ret)
{
        struct sb_watch **watch = &of->watch[act->actor][act->len];
        struct sb_watch_options how = {.size = sizeof(how),
                .flags = act->expect == STALE ? SB_BUFFERED : 0,
                .depth = act->expect == THEN    ? 2 * SB_WATCH_DEPTH
                         : act->expect == STALE ? 3
                                                : 0,
                .after = act->tag ? act->tag : SB_ANY_REV};

        ret->code = sb_watch_open_at(&of->bus[act->actor], scene_key(act->key), &how, watch);
        of->watch_key[act->actor][act->len] = act->key;
        of->watch_rev[act->actor][act->len] = act->tag;
        of->prefix[act->actor][act->len].stands = false;
}

/* Whether what a change replaced has the bytes of a value. */
static bool replaces_value(const struct sb_guard *guard)
{
        const unsigned char *old = guard->old_value.data;

        return !old || !guard->old_value.len ||
               memcmp(old, scene_value(old[0]), guard->old_value.len) == 0;
}

static void do_next(struct scene *of, const struct act *act, struct result *ret)
{
        uint64_t *last = &of->watch_rev[act->actor][act->len];
        struct sb_watch *watch = of->watch[act->actor][act->len];
        struct sb_guard guard;
        struct fact again;

        if (!watch) {
                ret->code = SB_E_TIMED_OUT;
                return;
        }
        ret->code = sb_watch_next(watch, 0, &guard);
        if (ret->code)
                return;
        ret->rev = guard.rev;
        ret->seen[act->key] = scene_guard_fact(of, &guard, act->key);
        again = scene_guard_fact(of, &guard, act->key);
        if (ret->seen[act->key].state == FACT_BROKEN ||
                !scene_fact_equal(&again, &ret->seen[act->key], true))
                ret->code = BAD_GUARD;
        if (!replaces_value(&guard))
                ret->code = BAD_OLD;
        if (guard.rev <= *last || (*last && guard.rev != *last + 1 + guard.missed))
                ret->code = BAD_STEP;
        *last = guard.rev;
        sb_guard_release(&guard);
}

static bool watch_call(struct scene *of, const struct act *act, struct result *ret)
{
        switch (act->kind) {
        case WATCH:
                do_open(of, act, ret);
                return true;
        case PREFIX:
                scene_prefix_open(of, act, ret);
                return true;
        case WATCH_NEXT:
                if (of->prefix[act->actor][act->len].stands)
                        scene_prefix_next(of, act, ret);
                else
                        do_next(of, act, ret);
                return true;
        case WATCH_CLOSE:
                of->prefix[act->actor][act->len].stands = false;
                of->watch[act->actor][act->len] = sb_watch_close(of->watch[act->actor][act->len]);
                return true;
        case WAIT:
                ret->code = sb_wait(&of->bus[act->actor], 0);
                return true;
        case SLEEP:
                do_sleep(of, act, ret);
                return true;
        case STAND:
                do_stand(of, act, ret);
                return true;
        default:
                return false;
        }
}

bool scene_watch(struct scene *of, const struct act *act, struct result *ret)
{
        if (!watch_call(of, act, ret))
                return false;
        if (ret->code < 0 ||
                ((act->kind == WATCH || act->kind == PREFIX) && ret->code &&
                        !(ret->code == SB_E_FULL && (trial.scenario->flags & TRIAL_FULL))))
                trial_fail("%s: %d", scene_act_text(act), ret->code);
        return true;
}
