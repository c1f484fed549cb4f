/* Watches of a prefix by the public calls; see world.h. */
#include <string.h>

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

/* A key that was there then, and none twice. */
static void prefix_see(
        struct world_prefix *prefix, uint64_t view[WORLD_KEYS], struct sb_guard *guard)
{
        uint32_t key = user_key_number(guard);

        MODEL_CHECK(guard->cut <= prefix->span[0].begun && !view[key]);
        user_read_guard(guard, key);
        view[key] = guard->rev;
        sb_guard_release(guard);
}

/* What was written up to the cut is seen, and what was written last up to it. */
static void prefix_check_view(uint64_t cut, const uint64_t view[WORLD_KEYS])
{
        uint32_t i, k;

        for (i = 0; i < world.written_count; i++) {
                const struct world_given *written = &world.written[i];

                if (written->cut > cut)
                        continue;
                for (k = i + 1; k < world.written_count; k++)
                        if (world.written[k].key == written->key && world.written[k].cut <= cut)
                                break;
                if (k == world.written_count && view[written->key] < written->rev)
                        MODEL_CHECK(written->tag == NO_TAG && !view[written->key]);
        }
}

void user_prefix_view(struct world_prefix *prefix)
{
        uint64_t cut = sb_watch_cut(prefix->user), view[WORLD_KEYS] = {0};
        struct sb_scan_options how = {.size = sizeof how, .cut = cut};
        struct sb_bytes bytes = {world_key(prefix->key), prefix->within};
        struct sb_guard guard;
        struct sb_scan *scan;
        int r;

        /* It may have begun anew since. */
        if (prefix->span_count > 1)
                return;
        r = sb_scan_open_at(bus_of((uint32_t)(prefix - world.prefixes)), bytes, &how, &scan);
        if (r == SB_E_LAPPED)
                return;
        MODEL_CHECK(!r);
        while (!(r = sb_scan_next(scan, &guard)))
                prefix_see(prefix, view, &guard);
        sb_scan_close(scan);
        if (r == SB_E_LAPPED)
                return;
        MODEL_CHECK(r == SB_E_NOT_FOUND);
        prefix_check_view(cut, view);
        prefix->viewed = cut;
        memcpy(prefix->view, view, sizeof view);
}
