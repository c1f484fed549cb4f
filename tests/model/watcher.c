/* Watches of a key in scenarios; see world.h. */
#include "ring/op/watch.h"

#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/memory/guard.h"
#include "shm/notify/bell.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/sweep.h"
#include "tests/model/world-core.h"

static void watcher_begin(
        uint32_t me, struct sb_handle *handle, const struct world_op *op, struct outcome *outcome)
{
        struct world_watch *watch = &world.watches[me];
        uint64_t done = model_noted(NOTE_DONE + op->key);

        MODEL_CHECK(!watch->open);
        if (op->way == WAY_BACK)
                outcome->r = sb_op_watch_begin_dropping(handle, world_key(op->key),
                        world_key_len(op->key), WATCH_BIT, WATCH_DEPTH, WATCH_DEPTH, UINT64_MAX,
                        &watch->op);
        else
                outcome->r = sb_op_watch_begin(handle, world_key(op->key), world_key_len(op->key),
                        WATCH_BIT, op->way == WAY_SHORT ? 2 * WATCH_DEPTH : WATCH_DEPTH,
                        SB_WATCH_VERSIONS, &watch->op);
        if (outcome->r) {
                MODEL_CHECK(outcome->r == SB_E_FULL && spec()->start == START_FULL);
                return;
        }
        *watch = (struct world_watch){.op = watch->op,
                .open = true,
                .deep = op->way == WAY_SHORT,
                .drops = op->way == WAY_BACK,
                .key = op->key,
                .start = watch->op.start};
        MODEL_CHECK(watch->op.last == watch->op.start && watch->start >= done);
        if (watch->drops) {
                /* Behind those of a change and of what it replaced. */
                for (uint32_t level = 0; level < SB_ANCHORS; level++)
                        watch->anchors.guards[level] = 2 + level;
                watch->op.anchors = &watch->anchors;
        }
        /* As a caller that says which revision it knows. */
        if (op->way == WAY_PAST)
                watch->op.last = watch->start = world.watch_after;
}

/* The version that a guard holds, which does not change under it. */
static uint32_t watcher_read(const struct sb_version *version, enum world_key key)
{
        world_check_version(version, key);
        return sb_version_has_value(version) ? (uint32_t)version->bytes[world_key_len(key)] - '0'
                                             : NO_TAG;
}

/* A change comes without what it replaced: the value that this watch was given last is gone from
 * its chain, and the ring says so. */
static void watcher_lacks(const struct world_watch *watch, uint64_t rev)
{
        const struct world_change *before = &watch->got[watch->count - 1];

        if (!watch->count || watch->drops || before->rev + 1 != rev || before->tag == NO_TAG)
                return;
        MODEL_CHECK(sb_ring_gone(&watch->op.ring) >= before->rev);
}

static void watcher_take(struct sb_handle *handle, struct world_watch *watch,
        const struct sb_op_change *change, uint64_t last)
{
        struct world_change *got = &watch->got[watch->count];
        uint64_t rev = change->version->rev;

        if (watch->count == WATCH_GOT_MAX)
                model_fail("a watch gave more changes than there were");
        if (rev != last + 1 + change->missed || watch->op.last != rev)
                model_fail("a watch gave revision %lu behind %lu, with %lu missed",
                        (unsigned long)rev, (unsigned long)last, (unsigned long)change->missed);
        /* Lost ones are said twice: as LAPPED, then how many. */
        MODEL_CHECK(watch->drops || (change->missed != 0) == watch->lapped);
        MODEL_CHECK(change->cut && change->cut == sb_load_acquire(&change->version->stamp));
        if (!change->old)
                watcher_lacks(watch, rev);
        got->rev = rev;
        got->missed = change->missed;
        got->tag = watcher_read(change->version, watch->key);
        watch->count++;
        watch->lapped = false;
        watch->held = change->version;
        if (change->old) {
                MODEL_CHECK(change->old->rev == rev - 1 && sb_version_has_value(change->old));
                watcher_read(change->old, watch->key);
                sb_guard_set(handle, 1, 0);
        }
}

/* The last change is held until the next look. */
static void watcher_let_go(struct sb_handle *handle, struct world_watch *watch)
{
        const struct world_change *got = &watch->got[watch->count - 1];

        if (!watch->held)
                return;
        MODEL_CHECK(
                watcher_read(watch->held, watch->key) == got->tag && watch->held->rev == got->rev);
        watch->held = NULL;
        sb_guard_set(handle, 0, 0);
}

static enum sb_watched watcher_look(struct sb_handle *handle, struct world_watch *watch)
{
        struct sb_op_change change = {0};
        uint64_t last = watch->op.last, done = model_noted(NOTE_DONE + watch->key);
        enum sb_watched watched;

        watcher_let_go(handle, watch);
        watched = sb_op_watch_look(handle, &watch->op, 0, 1, &change);
        watch->idle = watched == SB_WATCHED_NOTHING;
        /* What was written before it looked is given, or said to be lost. */
        if (watch->idle && !watch->drops && last < done)
                model_fail("a look behind revision %lu found nothing, and %lu was written",
                        (unsigned long)last, (unsigned long)done);
        if (watched == SB_WATCHED_CHANGE)
                watcher_take(handle, watch, &change, last);
        if (watched == SB_WATCHED_LAPPED) {
                MODEL_CHECK(!watch->lapped && watch->op.last == last);
                watch->lapped = true;
        }
        return watched;
}

static void watcher_take_bits(struct sb_handle *handle)
{
        uint64_t bits;
        uint32_t word;

        while (sb_bell_take(handle, &word, &bits))
                MODEL_CHECK(word == WATCH_BIT / 64 && bits == UINT64_C(1) << WATCH_BIT % 64);
}

/* As sb_watch_next() does without a deadline. */
static void watcher_sleep(struct sb_handle *handle, struct world_watch *watch)
{
        static const struct sb_word32 stop;

        while (watcher_look(handle, watch) == SB_WATCHED_NOTHING) {
                if (!sb_bell_is_dirty(handle)) {
                        model_note(NOTE_SLEEPS, model_noted(NOTE_SLEEPS) + 1);
                        sb_bell_sleep(handle, &stop, UINT64_MAX);
                }
                watcher_take_bits(handle);
        }
}

/* As a loop over the descriptor: something waits in the client's place. */
static void watcher_stand(struct sb_handle *handle, struct world_watch *watch)
{
        static const struct sb_word32 stop;
        const struct sb_os *os = handle->segment.os;
        uint32_t count;

        while (watcher_look(handle, watch) == SB_WATCHED_NOTHING) {
                model_note(NOTE_SLEEPS, model_noted(NOTE_SLEEPS) + 1);
                if (sb_bell_stand(handle, &stop, &count)) {
                        os->wait(os->context, &handle->record->bell, count, UINT64_MAX);
                        sb_bell_unstand(handle);
                }
                watcher_take_bits(handle);
        }
}

void world_watch_run(
        uint32_t me, struct sb_handle *handle, const struct world_op *op, struct outcome *outcome)
{
        struct world_watch *watch = &world.watches[me];
        enum sb_watched watched;
        uint32_t cursor = 0;

        if (!watch->open && op->kind != OP_WATCH && op->kind != OP_PRESS)
                return;
        switch (op->kind) {
        case OP_WATCH:
                watcher_begin(me, handle, op, outcome);
                break;
        case OP_NEXT:
                watcher_take_bits(handle);
                do
                        watched = watcher_look(handle, watch);
                while (watched != SB_WATCHED_NOTHING &&
                        !(op->way == WAY_SHORT && watched == SB_WATCHED_CHANGE));
                break;
        case OP_SLEEP:
                if (op->way == WAY_TURN)
                        watcher_stand(handle, watch);
                else
                        watcher_sleep(handle, watch);
                break;
        case OP_UNWATCH:
                watcher_let_go(handle, watch);
                if (watch->op.anchors)
                        sb_anchor_drop(handle, watch->op.anchors);
                watch->open = false;
                sb_op_watch_end(handle, &watch->op);
                break;
        case OP_PRESS:
                handle->work.pressed = true;
                sb_sweep(handle, &cursor, handle->segment.geometry.unit_count);
                handle->work.pressed = false;
                break;
        default:
                break;
        }
}

static void watcher_wake(void *context, struct sb_word32 *word)
{
        model_os.wake(context, word);
        model_note(NOTE_WAKES, model_noted(NOTE_WAKES) + 1);
}

const struct sb_os *world_os(void)
{
        static struct sb_os os;

        os = model_os;
        os.wake = watcher_wake;
        return &os;
}

void world_watch_start(void)
{
        struct world_op op = {OP_WATCH, KEY_A};
        struct outcome outcome = {0};
        uint32_t t;

        for (t = 0; t < MODEL_THREADS; t++) {
                if ((spec()->watched || world_does(OP_WATCH)) && sb_guard_grow(handle_of(t), 1))
                        model_fail("no guard");
                for (uint32_t index = 2; world_has_queue() && index < 2 + SB_ANCHORS; index++)
                        if (sb_guard_grow(handle_of(t), index))
                                model_fail("no guard for an anchor");
                if (!(spec()->watched & 1u << t))
                        continue;
                op.way = spec()->drops & 1u << t ? WAY_BACK : WAY_ON;
                if (spec()->users)
                        user_run(t, &op, 0, &outcome);
                else
                        watcher_begin(t, handle_of(t), &op, &outcome);
                if (outcome.r)
                        model_fail("a watch at the start: %d", outcome.r);
        }
}

/* ---- at the end ---- */

/* What the watches gave, mixed into @hash. */
uint64_t world_watch_hash(uint64_t hash)
{
        uint32_t t, i;

        for (t = 0; t < MODEL_THREADS; t++) {
                const struct world_watch *watch = &world.watches[t];

                if (!watch->open)
                        continue;
                hash = hash * 31 + watch->op.last * 8 + watch->lapped * 4 + watch->idle * 2 +
                       model_asleep(t);
                hash = (hash * 31 + watch->op.dropped) * 31 + watch->op.latest;
                for (i = 0; i < watch->count; i++)
                        hash = (hash ^ watch->got[i].rev ^ watch->got[i].missed << 20 ^
                                       (uint64_t)watch->got[i].tag << 32) *
                               UINT64_C(0x9e3779b97f4a7c15);
        }
        return hash;
}

/* What an operation wrote, as far as it was told of a revision of its own. */
static void judge_write(const struct world_watch *watch, const struct world_op *op,
        const struct outcome *outcome, uint32_t tag)
{
        uint32_t i;

        if (!outcome->finished || outcome->r || !is_write(op->kind) || op->key != watch->key ||
                outcome->rev <= watch->start || outcome->rev > watch->op.last)
                return;
        for (i = 0; i < watch->count; i++) {
                const struct world_change *got = &watch->got[i];

                if (outcome->rev > got->rev)
                        continue;
                if (outcome->rev < got->rev) {
                        MODEL_CHECK(outcome->rev + got->missed >= got->rev);
                        return;
                }
                MODEL_CHECK(got->tag == (op->kind == OP_DELETE ? NO_TAG : tag));
                return;
        }
        model_fail("a watch passed over revision %lu", (unsigned long)outcome->rev);
}

/* What was given is what a write wrote that took place; what was lost a pruner could take. */
static void judge_change(const struct world_watch *watch, const struct world_change *got)
{
        const struct outcome *outcome;

        if (got->tag < TAG_SETUP) {
                outcome = &world.outcomes[got->tag / WORLD_OPS][got->tag % WORLD_OPS];
                MODEL_CHECK(outcome->ran && (!outcome->finished || !outcome->r));
        }
        /* The first ones stay, whatever comes, unless memory is short. */
        if (watch->drops)
                MODEL_CHECK(!got->missed || world_does(OP_PRESS) ||
                            got->rev - got->missed > watch->op.start + WATCH_DEPTH);
        else if (got->missed && got->rev - 1 > watch->op.start && !world_does(OP_PRESS) &&
                 !spec()->unit_count &&
                 watch->op.last + 2 <= got->rev + (watch->deep ? 2 : 1) * WATCH_DEPTH)
                model_fail("revision %lu was lost, and %lu is the newest",
                        (unsigned long)got->rev - 1, (unsigned long)watch->op.last);
}

static bool all_finish(void)
{
        uint32_t t;

        for (t = 0; t < MODEL_THREADS; t++)
                if (spec()->ops[t][0].kind && !model_finished(t) && !model_asleep(t))
                        return false;
        return true;
}

/* What the watch gives when nothing else goes on. */
static void judge_looks(uint32_t thread)
{
        struct world_watch *watch = &world.watches[thread];
        struct sb_handle *handle = handle_of(thread);

        if (sb_op_watch_has(handle, &watch->op)) {
                if (model_asleep(thread))
                        model_fail("T%u sleeps, and there is something to see", thread);
                if (watch->idle && !sb_bell_is_dirty(handle))
                        model_fail("T%u would sleep, and there is something to see", thread);
        }
        while (watcher_look(handle, watch) != SB_WATCHED_NOTHING)
                ;
}

/* Up to which revision all were given, or counted. */
static uint64_t judge_seen(struct sb_handle *handle, const struct world_watch *watch)
{
        return watch->drops
                       ? watch->op.start + watch->count + sb_op_watch_dropped(handle, &watch->op)
                       : watch->op.last;
}

static void judge_watch(uint32_t thread)
{
        struct world_watch *watch = &world.watches[thread];
        struct sb_handle *handle = handle_of(thread);
        uint32_t t, i;

        if (watch->user)
                user_watch_judge(thread);
        else
                judge_looks(thread);
        /* A user's that gave nothing began behind all writes. */
        MODEL_CHECK(!watch->lapped &&
                    (judge_seen(handle, watch) >= model_noted(NOTE_DONE + watch->key) ||
                            (watch->user && !watch->count)));
        /* Its version comes by the slot: the way that costs least. One that stood at the head,
         * undecided, when the ring was opened comes by the chain. */
        if (!watch->user && !watch->drops && watch->op.last > watch->op.start && all_finish() &&
                !world_does(OP_MOVE) && sb_ring_gone(&watch->op.ring) < watch->op.last)
                MODEL_CHECK(sb_ring_find(handle, &watch->op.ring, watch->op.last));
        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++)
                        judge_write(
                                watch, &spec()->ops[t][i], &world.outcomes[t][i], world_tag(t, i));
        for (i = 0; i < watch->count; i++)
                judge_change(watch, &watch->got[i]);
        if (watch->user)
                sb_watch_close(watch->user);
        else
                sb_op_watch_end(handle, &watch->op);
        if (watch->op.anchors)
                sb_anchor_drop(handle, watch->op.anchors);
        watch->open = false;
}

/* A sleep costs each process that tells one system call at most, whatever it writes while the
 * sleeper is stopped. */
static void judge_wakes(void)
{
        uint64_t processes = world.reaped, t;

        /* The public calls do not say when they sleep. */
        if (spec()->users)
                return;
        for (t = 0; t < MODEL_THREADS; t++)
                processes += spec()->ops[t][0].kind != OP_NONE;
        if (model_noted(NOTE_WAKES) > model_noted(NOTE_SLEEPS) * (processes - 1))
                model_fail("%lu sleeps of one of %lu processes, and %lu wakes",
                        (unsigned long)model_noted(NOTE_SLEEPS), (unsigned long)processes,
                        (unsigned long)model_noted(NOTE_WAKES));
}

void world_watch_judge(struct sb_handle *engine)
{
        uint32_t t;

        judge_wakes();
        /* Some may be stopped for good. What they wrote is told with the engine's next cut. */
        for (t = 0; t < MODEL_THREADS; t++)
                if (world.watches[t].open)
                        break;
        if (t == MODEL_THREADS)
                return;
        sb_stable_raise(engine);
        for (t = 0; t < MODEL_THREADS; t++)
                if (world.watches[t].open && (model_finished(t) || model_asleep(t)))
                        judge_watch(t);
}
