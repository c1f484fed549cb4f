/* Watches of a key by the public calls; see world.h. */
#include "shm/base/result.h"
#include "tests/model/users.h"

static void watch_open(const struct user *user)
{
        struct world_watch *watch = &world.watches[user->me];
        uint64_t done = model_noted(NOTE_DONE + user->op->key);

        MODEL_CHECK(!watch->open);
        user->outcome->r =
                sb_watch_open(user->bus, user_key(user->op->key), 0, SB_ANY_REV, &watch->user);
        MODEL_CHECK(!user->outcome->r);
        watch->open = true;
        watch->key = user->op->key;
        /* At least. */
        watch->start = watch->op.last = done;
}

/* The last change, which a guard holds until the next one, shows what it showed. */
static void watch_let_go(struct world_watch *watch)
{
        const struct world_change *got = &watch->got[watch->count - 1];

        if (!watch->guard.bus)
                return;
        MODEL_CHECK(watch->guard.rev == got->rev);
        if (got->tag != NO_TAG) {
                user_read_guard(&watch->guard, watch->key);
                MODEL_CHECK(user_guard_tag(&watch->guard) == got->tag);
        }
        sb_guard_release(&watch->guard);
}

static void watch_take(struct world_watch *watch)
{
        struct sb_guard *guard = &watch->guard;
        struct world_change *got = &watch->got[watch->count++];

        if (watch->count > WATCH_GOT_MAX)
                model_fail("a watch gave more changes than there were");
        /* Where it began is what the first change tells. */
        if (watch->count == 1 && !guard->missed && guard->rev > watch->start)
                watch->start = watch->op.last = guard->rev - 1;
        if (guard->rev != watch->op.last + 1 + guard->missed)
                model_fail("a watch gave revision %lu behind %lu, with %lu missed",
                        (unsigned long)guard->rev, (unsigned long)watch->op.last,
                        (unsigned long)guard->missed);
        MODEL_CHECK((guard->missed != 0) == watch->lapped);
        *got = (struct world_change){guard->rev, guard->missed, NO_TAG};
        if (guard->kind != SB_DELETED) {
                user_read_guard(guard, watch->key);
                got->tag = user_guard_tag(guard);
        }
        if (guard->old_value.data)
                model_touch(guard->old_value.data, guard->old_value.len);
        watch->op.last = guard->rev;
        watch->lapped = false;
}

int user_watch_next(struct world_watch *watch, uint64_t deadline_ns)
{
        int r;

        watch_let_go(watch);
        r = sb_watch_next(watch->user, deadline_ns, &watch->guard);
        if (!r)
                watch_take(watch);
        else
                MODEL_CHECK(r == SB_E_TIMED_OUT || (r == SB_E_LAPPED && !watch->lapped));
        watch->lapped = r == SB_E_LAPPED;
        return r;
}

bool user_run_watch(const struct user *user)
{
        struct world_watch *watch = &world.watches[user->me];

        if (world_prefix_run(user->me, user->op, user->outcome))
                return true;
        switch (user->op->kind) {
        case OP_WATCH:
                watch_open(user);
                break;
        case OP_NEXT:
                while (user_watch_next(watch, 0) != SB_E_TIMED_OUT)
                        ;
                break;
        case OP_SLEEP:
                /* Any of the client's watches, then this one. */
                if (user->op->way == WAY_MANY)
                        MODEL_CHECK(!sb_wait(user->bus, UINT64_MAX));
                while (user_watch_next(watch, UINT64_MAX) != 0)
                        ;
                break;
        default:
                watch_let_go(watch);
                watch->open = false;
                MODEL_CHECK(!sb_watch_close(watch->user));
        }
        return true;
}

void user_watch_judge(uint32_t thread)
{
        struct world_watch *watch = &world.watches[thread];
        int any = sb_wait(bus_of(thread), 0), r = user_watch_next(watch, 0);

        if (r != SB_E_TIMED_OUT && model_asleep(thread))
                model_fail("T%u sleeps, and there is something to see", thread);
        if (r != SB_E_TIMED_OUT && any)
                model_fail("T%u waits, and there is something to see", thread);
        while (r != SB_E_TIMED_OUT)
                r = user_watch_next(watch, 0);
}

uint64_t user_watch_holds(uint32_t thread)
{
        const struct sb_guard *guard = &world.watches[thread].guard;
        uint64_t held = 0;

        if (guard->bus) {
                held = UINT64_C(1) << (guard->reserved[0] & 63);
                if (guard->reserved[0] & SB_BUS_PAIR)
                        held |= UINT64_C(1) << (guard->reserved[2] & 63);
        }
        return held;
}
