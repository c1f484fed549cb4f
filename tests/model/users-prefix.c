/* Watches of a prefix by the public calls; see world.h. */
#include "shm/base/result.h"
#include "tests/model/users.h"

void user_prefix_open(uint32_t me, const struct world_op *op, struct outcome *outcome)
{
        struct world_prefix *prefix = &world.prefixes[me];
        struct sb_bytes bytes = {world_key(op->key), op->way == WAY_SHORT};
        bool past = op->way == WAY_PAST;

        outcome->r = sb_watch_open(bus_of(me), bytes, SB_PREFIX | (past ? SB_AFTER_CUT : 0),
                past ? world.prefix_after : SB_ANY_REV, &prefix->user);
        MODEL_CHECK(!outcome->r);
        MODEL_CHECK(!past || sb_watch_cut(prefix->user) == world.prefix_after);
}

/* The last change, which a guard holds until the next one, shows what it showed. */
void user_prefix_let_go(uint32_t me, const struct world_prefix *prefix)
{
        struct sb_guard *guard = &world.watches[me].guard;
        const struct world_given *given = &prefix->given[prefix->count - 1];

        if (!guard->bus)
                return;
        MODEL_CHECK(guard->rev == given->rev && guard->cut == given->cut);
        if (given->tag != NO_TAG) {
                user_read_guard(guard, given->key);
                MODEL_CHECK(user_guard_tag(guard) == given->tag);
        }
        sb_guard_release(guard);
}

/* Which transaction of the scenario wrote a value, as a number; 0: none did. */
static uint64_t prefix_txn(uint32_t tag)
{
        return tag < TAG_SETUP && spec()->ops[tag / WORLD_OPS][tag % WORLD_OPS].kind == OP_TXN
                       ? tag + 1
                       : 0;
}

static void prefix_take(struct world_prefix *prefix, const struct sb_guard *guard)
{
        const struct world_span *span = &prefix->span[prefix->span_count - 1];
        struct world_given *given = &prefix->given[prefix->count];
        uint32_t key = user_key_number(guard);

        if (prefix->count == PREFIX_GIVEN_MAX)
                model_fail("a watch of a prefix gave more changes than there were");
        MODEL_CHECK(!prefix->within || key == prefix->key);
        *given = (struct world_given){
                .key = (uint8_t)key, .rev = guard->rev, .cut = guard->cut, .tag = NO_TAG};
        if (guard->kind != SB_DELETED) {
                user_read_guard(guard, key);
                given->tag = user_guard_tag(guard);
                given->txn = prefix_txn(given->tag);
        }
        MODEL_CHECK(guard->cut > span->begun && !guard->missed);
        MODEL_CHECK(prefix->count == span->first || given[-1].cut <= guard->cut);
        if (guard->old_value.data)
                model_touch(guard->old_value.data, guard->old_value.len);
        prefix->count++;
}

int user_prefix_next(uint32_t me, struct world_prefix *prefix, uint64_t deadline_ns)
{
        struct sb_guard *guard = &world.watches[me].guard;
        int r;

        user_prefix_let_go(me, prefix);
        r = sb_watch_next(prefix->user, deadline_ns, guard);
        if (!r)
                prefix_take(prefix, guard);
        else
                MODEL_CHECK(r == SB_E_TIMED_OUT || r == SB_E_LAPPED);
        return r;
}

void user_prefix_sleep(uint32_t me, struct world_prefix *prefix, bool any)
{
        /* Any of the client's watches, then this one. */
        if (any)
                MODEL_CHECK(!sb_wait(bus_of(me), UINT64_MAX));
        while (world_prefix_look(me, prefix, UINT64_MAX) != 0)
                ;
}
