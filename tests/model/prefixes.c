/*
 * Watches of a prefix in scenarios, by the steps of the client library (libclient/core/prefix.c);
 * see world.h.
 *
 * What a reader must be given follows from what the writers were told: each write with a stamp
 * between two of its cuts, once, and nothing else. A reader that says that it was lapped may have
 * lost what lies above the cut that it had read to.
 */
#include "libclient/core/prefix.h"

#include "libclient/core/backlog.h"
#include "ring/op/get.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"
#include "shm/notify/bell.h"
#include "shm/notify/hint.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/sweep.h"
#include "shm/upkeep/work.h"
#include "tests/model/world-core.h"

/* Changes that a ring keeps at least: it has four slots. */
#define PREFIX_DEPTH SB_PREFIX_DEPTH
/* What a full ring names, the newest, and what came since its last half began. */
#define PREFIX_CHAIN_MAX 7u
/* The same of the ring of a watch that drops, which has six slots, and what that has room for. */
#define QUEUE_CHAIN_MAX (10u + PREFIX_ROOM + 1u)

static bool prefix_has(const struct world_prefix *prefix, uint32_t key)
{
        return !prefix->within || key == prefix->key;
}

/* ---- reading ---- */

static void prefix_begin_span(struct world_prefix *prefix)
{
        uint64_t begun = prefix->user ? sb_watch_cut(prefix->user) : prefix->watch->begun;
        /* What its first reading drops comes behind the cut. */
        bool first = prefix->user || !prefix->span_count;

        if (prefix->span_count == PREFIX_SPANS_MAX)
                model_fail("a watch of a prefix was lapped too often");
        prefix->span[prefix->span_count++] = (struct world_span){.begun = begun,
                .reached = begun,
                .dropped = first ? 0 : sb_backlog_dropped(NULL, prefix->watch),
                .first = prefix->count};
}

static void prefix_open(uint32_t me, const struct world_op *op, struct outcome *outcome)
{
        struct world_prefix *prefix = &world.prefixes[me];
        struct sb_bytes bytes = {world_key(op->key), op->way == WAY_SHORT};
        const struct sb_prefix_how how = {.depth = op->way == WAY_BACK ? PREFIX_ROOM : PREFIX_DEPTH,
                .drops = op->way == WAY_BACK,
                .after = op->way == WAY_PAST || spec()->joins ? world.prefix_after : 0};

        MODEL_CHECK(!prefix->open);
        *prefix = (struct world_prefix){.within = op->way == WAY_SHORT,
                .drops = op->way == WAY_BACK,
                .key = op->key,
                .told = true};
        if (spec()->users)
                user_prefix_open(me, op, outcome);
        else
                outcome->r = sb_prefix_open(bus_of(me), bytes, WATCH_BIT, &how, &prefix->watch);
        if (outcome->r) {
                MODEL_CHECK(outcome->r == SB_E_FULL && spec()->start == START_FULL);
                return;
        }
        prefix->open = true;
        prefix_begin_span(prefix);
}

/* The number of the transaction that wrote a version; 0: none. */
static uint64_t prefix_txn_of(const struct sb_version *version)
{
        uint64_t shape = version->shape, number = 0;

        if (SB_SHAPE_KIND(shape) & SB_VERSION_HAS_TXN)
                memcpy(&number,
                        version->bytes + SB_SHAPE_KEY_LEN(shape) + SB_SHAPE_VALUE_LEN(shape),
                        SB_TRAILER_TXN);
        return number;
}

/* The version that a guard holds, which does not change under it. */
static uint32_t prefix_read(const struct sb_version *version, uint32_t key)
{
        world_check_version(version, key);
        return sb_version_has_value(version) ? (uint32_t)version->bytes[world_key_len(key)] - '0'
                                             : NO_TAG;
}

static void prefix_take(
        struct sb_handle *handle, struct world_prefix *prefix, const struct sb_op_change *change)
{
        struct world_given *given = &prefix->given[prefix->count];
        const struct world_span *span = &prefix->span[prefix->span_count - 1];
        const struct sb_version *version = change->version;
        uint32_t key;

        if (prefix->count == PREFIX_GIVEN_MAX)
                model_fail("a watch of a prefix gave more changes than there were");
        model_touch(version->bytes, 1);
        key = (uint32_t)version->bytes[0] - 'A';
        MODEL_CHECK(key < WORLD_KEYS && prefix_has(prefix, key));
        *given = (struct world_given){.key = (uint8_t)key,
                .rev = version->rev,
                .cut = change->cut,
                .tag = prefix_read(version, key),
                .txn = prefix_txn_of(version)};
        MODEL_CHECK(change->cut == sb_load_acquire(&version->stamp));
        MODEL_CHECK((change->cut > span->reached || prefix->drops) &&
                    change->cut <= prefix->watch->cut);
        MODEL_CHECK(prefix->count == span->first || given[-1].cut <= change->cut);
        prefix->count++;
        prefix->held = version;
        if (change->old) {
                MODEL_CHECK(
                        change->old->rev == given->rev - 1 && sb_version_has_value(change->old));
                prefix_read(change->old, key);
                sb_guard_set(handle, 1, 0);
        }
}

/* The last change is held until the next look. */
static void prefix_let_go(struct sb_handle *handle, struct world_prefix *prefix)
{
        const struct world_given *given = &prefix->given[prefix->count - 1];

        if (!prefix->held)
                return;
        MODEL_CHECK(prefix_read(prefix->held, given->key) == given->tag &&
                    prefix->held->rev == given->rev);
        prefix->held = NULL;
        sb_guard_set(handle, 0, 0);
}

static void prefix_take_bits(struct sb_handle *handle, struct world_prefix *prefix)
{
        uint64_t bits;
        uint32_t word;

        while (sb_bell_take(handle, &word, &bits)) {
                MODEL_CHECK(word == WATCH_BIT / 64 && bits == UINT64_C(1) << WATCH_BIT % 64);
                prefix->told = true;
        }
}

/* As sb_watch_next() does. */
static int prefix_next(uint32_t me, struct world_prefix *prefix)
{
        struct sb_handle *handle = handle_of(me);
        struct sb_op_change change = {0};
        struct world_span *span = &prefix->span[prefix->span_count - 1];
        int r;

        prefix_let_go(handle, prefix);
        sb_op_prefix_let_go(handle, &prefix->watch->op);
        if (sb_bell_is_dirty(handle))
                prefix_take_bits(handle, prefix);
        r = sb_prefix_fill(bus_of(me), prefix->watch, prefix->told);
        prefix->idle = r == SB_E_TIMED_OUT;
        prefix->told = !prefix->idle; /* there may be more */
        MODEL_CHECK(!r || prefix->idle);
        span->reached = prefix->idle ? prefix->watch->cut : prefix->watch->op.cut;
        if (prefix->idle)
                return r;
        r = sb_prefix_give(bus_of(me), prefix->watch, 0, 1, &change);
        /* Of a watch that drops all that waited may be gone for want of memory. */
        prefix->idle = r == SB_E_TIMED_OUT && prefix->drops;
        prefix->told = !prefix->idle;
        MODEL_CHECK(!r || r == SB_E_LAPPED || prefix->idle);
        if (!r)
                prefix_take(handle, prefix, &change);
        return r;
}

int world_prefix_look(uint32_t me, struct world_prefix *prefix, uint64_t deadline_ns)
{
        int r = prefix->user ? user_prefix_next(me, prefix, deadline_ns) : prefix_next(me, prefix);

        if (r == SB_E_LAPPED) {
                prefix->span[prefix->span_count - 1].lapped = true;
                prefix_begin_span(prefix);
        }
        return r;
}

static void prefix_read_all(uint32_t me, struct world_prefix *prefix)
{
        while (world_prefix_look(me, prefix, 0) != SB_E_TIMED_OUT)
                ;
}

static void prefix_close(uint32_t me, struct world_prefix *prefix)
{
        if (prefix->user)
                MODEL_CHECK(!sb_watch_close(prefix->user));
        else
                sb_prefix_close(bus_of(me), prefix->watch, false);
        prefix->open = false;
}

static void prefix_sleep(uint32_t me, struct world_prefix *prefix)
{
        static const struct sb_word32 stop;
        struct sb_handle *handle = handle_of(me);

        while (world_prefix_look(me, prefix, 0) == SB_E_TIMED_OUT) {
                if (!sb_bell_is_dirty(handle)) {
                        model_note(NOTE_SLEEPS, model_noted(NOTE_SLEEPS) + 1);
                        sb_bell_sleep(handle, &stop, UINT64_MAX);
                }
                prefix_take_bits(handle, prefix);
        }
}

bool world_prefix_run(uint32_t me, const struct world_op *op, struct outcome *outcome)
{
        struct world_prefix *prefix = &world.prefixes[me];

        if (op->kind == OP_PREFIX) {
                prefix_open(me, op, outcome);
                return true;
        }
        if (!prefix->open)
                return false;
        switch (op->kind) {
        case OP_NEXT:
                prefix->told |= op->way == WAY_MANY;
                if (op->way == WAY_SHORT) {
                        (void)world_prefix_look(me, prefix, 0);
                        prefix->given_first = prefix->count;
                } else {
                        prefix_read_all(me, prefix);
                }
                return true;
        case OP_SLEEP:
                if (prefix->user)
                        user_prefix_sleep(me, prefix, op->way == WAY_MANY);
                else
                        prefix_sleep(me, prefix);
                return true;
        case OP_VIEW:
                user_prefix_view(prefix);
                return true;
        case OP_UNWATCH:
                if (prefix->user)
                        user_prefix_let_go(me, prefix);
                else
                        prefix_let_go(handle_of(me), prefix);
                prefix_close(me, prefix);
                return true;
        default:
                return false;
        }
}

/* ---- at the start ---- */

void world_prefix_start(void)
{
        struct outcome outcome = {0};
        uint32_t t;

        for (t = 0; t < MODEL_THREADS; t++) {
                struct world_op op = {
                        OP_PREFIX, KEY_A, .way = spec()->within >> t & 1 ? WAY_SHORT : WAY_ON};

                if (spec()->drops >> t & 1)
                        op.way = WAY_BACK;

                if ((spec()->prefixed || world_does(OP_PREFIX)) && sb_guard_grow(handle_of(t), 1))
                        model_fail("no guard");
                if (!(spec()->prefixed >> t & 1))
                        continue;
                prefix_open(t, &op, &outcome);
                if (outcome.r)
                        model_fail("a watch of a prefix at the start: %d", outcome.r);
        }
        world_prefix_start_read();
}

void world_prefix_start_read(void)
{
        uint32_t t;

        for (t = 0; t < MODEL_THREADS; t++)
                if (world.prefixes[t].open)
                        prefix_read_all(t, &world.prefixes[t]);
}

void world_prefix_start_end(void)
{
        const struct world_op op = {OP_UNWATCH, KEY_A};
        struct outcome outcome;
        uint32_t t;

        for (t = 0; t < MODEL_THREADS; t++)
                if (spec()->ops[t][0].kind)
                        (void)world_prefix_run(t, &op, &outcome);
}

void world_prefix_note(enum world_key key, uint64_t rev, uint64_t cut, uint32_t tag)
{
        if (!spec()->prefixed && !world_does(OP_PREFIX))
                return;
        if (world.written_count == PREFIX_WRITTEN_MAX)
                model_fail("too many writes at the start");
        world.written[world.written_count++] =
                (struct world_given){.key = (uint8_t)key, .rev = rev, .cut = cut, .tag = tag};
}

/* ---- at the end ---- */

uint64_t world_prefix_hash(uint64_t hash)
{
        uint32_t t, i;

        for (t = 0; t < MODEL_THREADS; t++) {
                const struct world_prefix *prefix = &world.prefixes[t];

                if (!prefix->open)
                        continue;
                hash = hash * 31 + prefix->span_count * 4 + prefix->idle * 2 + model_asleep(t);
                if (!prefix->user)
                        hash = hash * 31 + sb_backlog_dropped(NULL, prefix->watch);
                for (i = 0; i < prefix->span_count; i++)
                        hash = hash * 31 + (prefix->span[i].begun ^ prefix->span[i].reached << 20);
                for (i = 0; i < prefix->count; i++)
                        hash = (hash ^ prefix->given[i].rev ^ prefix->given[i].cut << 20 ^
                                       (uint64_t)prefix->given[i].key << 40) *
                               UINT64_C(0x9e3779b97f4a7c15);
        }
        return hash;
}

static bool is_same(const struct world_given *a, const struct world_given *b)
{
        return a->key == b->key && a->tag == b->tag && a->cut == b->cut &&
               (!a->rev || !b->rev || a->rev == b->rev);
}

/* A write with this stamp: given once where the reader came by, and never where it did not. */
static void judge_written(const struct world_prefix *prefix, const struct world_given *written)
{
        bool must = false, may = false;
        uint32_t count = 0, i;

        if (!prefix_has(prefix, written->key))
                return;
        for (i = 0; i < prefix->span_count; i++) {
                const struct world_span *span = &prefix->span[i];

                must |= written->cut > span->begun && written->cut <= span->reached &&
                        !prefix->drops;
                may |= written->cut > span->begun &&
                       (span->lapped || written->cut <= span->reached);
        }
        for (i = 0; i < prefix->count; i++)
                count += is_same(&prefix->given[i], written);
        if (count > may)
                model_fail("a change of %s at %lu was given %u times", world_key(written->key),
                        (unsigned long)written->cut, count);
        if (must && !count)
                model_fail("a change of %s at %lu was not given", world_key(written->key),
                        (unsigned long)written->cut);
}

static uint32_t written_by(const struct world_op *op, const struct outcome *outcome)
{
        if (is_write(op->kind))
                return 1u << op->key;
        return op->kind == OP_TXN ? outcome->wrote | outcome->deleted : 0;
}

static void judge_outcome(const struct world_prefix *prefix, uint32_t t, uint32_t i)
{
        const struct world_op *op = &spec()->ops[t][i];
        const struct outcome *outcome = &world.outcomes[t][i];
        uint32_t keys = written_by(op, outcome), key;

        /* A user may not have been told the cut. */
        if (!outcome->finished || outcome->r || !outcome->cut)
                return;
        for (key = 0; key < WORLD_KEYS; key++) {
                struct world_given written = {.key = (uint8_t)key,
                        .rev = is_write(op->kind) ? outcome->rev : 0,
                        .cut = outcome->cut,
                        .tag = world_tag(t, i)};

                if (op->kind == OP_DELETE || (op->kind == OP_TXN && outcome->deleted >> key & 1))
                        written.tag = NO_TAG;
                if (keys >> key & 1)
                        judge_written(prefix, &written);
        }
}

/* What is given was written, in the order of the key's revisions, without a gap in a life; what a
 * transaction wrote together. */
static void judge_given(
        const struct world_prefix *prefix, const struct world_span *span, uint32_t at)
{
        const struct world_given *given = &prefix->given[at];
        const struct outcome *outcome;
        uint32_t i;

        if (given->tag < TAG_SETUP) {
                outcome = &world.outcomes[given->tag / WORLD_OPS][given->tag % WORLD_OPS];
                MODEL_CHECK(outcome->ran && (!outcome->finished || !outcome->r));
        }
        for (i = at; i > span->first; i--) {
                const struct world_given *before = &prefix->given[i - 1];

                if (given->txn && before->txn == given->txn)
                        MODEL_CHECK(prefix->given[at - 1].txn == given->txn &&
                                    before->cut == given->cut);
                if (before->key != given->key)
                        continue;
                if (before->tag == NO_TAG || spec()->drops || prefix->drops
                                ? given->rev <= before->rev
                                : given->rev != before->rev + 1)
                        model_fail("a watch of a prefix gave revision %lu of %s behind %lu",
                                (unsigned long)given->rev, world_key(given->key),
                                (unsigned long)before->rev);
                break;
        }
}

/* All of a transaction in one span comes with it, whatever its process came to. */
static void judge_txn(
        const struct world_prefix *prefix, const struct world_span *span, uint32_t end)
{
        uint32_t i, k;

        for (i = span->first; i < end && !span->lapped; i++) {
                uint32_t tag = prefix->given[i].tag, keys = 0, expected = 0, key;
                const struct outcome *outcome;

                if (tag >= TAG_SETUP || !prefix->given[i].txn)
                        continue;
                outcome = &world.outcomes[tag / WORLD_OPS][tag % WORLD_OPS];
                for (key = 0; key < WORLD_KEYS; key++)
                        if (prefix_has(prefix, key))
                                expected |= (outcome->wrote | outcome->deleted) & 1u << key;
                for (k = span->first; k < end; k++)
                        if (prefix->given[k].txn == prefix->given[i].txn)
                                keys |= 1u << prefix->given[k].key;
                if (keys != expected)
                        model_fail("of a transaction's keys %x, %x were given", expected, keys);
        }
}

/* What a reader saw at the cut that its watch began at is what the first change replaced. */
static void judge_view(const struct world_prefix *prefix, uint32_t key)
{
        uint32_t i;

        for (i = 0; i < prefix->count && prefix->viewed; i++) {
                const struct world_given *given = &prefix->given[i];

                if (given->key != key || given->cut <= prefix->viewed)
                        continue;
                if (prefix->view[key] && given->rev != prefix->view[key] + 1)
                        model_fail("%s was at revision %lu, and its first change is %lu",
                                world_key(key), (unsigned long)prefix->view[key],
                                (unsigned long)given->rev);
                return;
        }
}

/* When nothing else goes on the last one given is what is there. */
static void judge_newest(const struct world_prefix *prefix, uint32_t key)
{
        const struct world_span *span = &prefix->span[prefix->span_count - 1];
        struct sb_version *version = NULL;
        uint64_t rev, stamp, last = 0;
        uint32_t i;

        if (!prefix_has(prefix, key) ||
                sb_op_get(world_peer(0), world_key(key), world_key_len(key), 0, &version))
                return;
        rev = version->rev;
        stamp = sb_load_acquire(&version->stamp);
        sb_guard_set(world_peer(0), 0, 0);
        for (i = span->first; i < prefix->count; i++)
                if (prefix->given[i].key == key)
                        last = prefix->given[i].rev;
        if (stamp > span->begun && last != rev)
                model_fail("%s is at revision %lu, and a watch of its prefix gave %lu last",
                        world_key(key), (unsigned long)rev, (unsigned long)last);
}

static bool is_pressed(void)
{
        return world_does(OP_PRESS) || world_does(OP_MOVE) || spec()->unit_count ||
               world.prefix_after;
}

/* A reader that was lapped had read no hint for as many as the ring keeps. */
static void judge_lapped(const struct world_prefix *prefix)
{
        uint64_t tail = prefix->user ? UINT64_MAX : sb_hint_tail(&prefix->watch->op.watch.ring);

        if (prefix->span_count > 1 && !spec()->joins &&
                (prefix->drops || (!is_pressed() && tail <= PREFIX_DEPTH)))
                model_fail("lapped after %lu hints", (unsigned long)tail);
}

/* What the watch gives when nothing else goes on. */
static void judge_looks(uint32_t thread, struct world_prefix *prefix)
{
        bool idle = prefix->idle && !sb_bell_is_dirty(handle_of(thread));
        bool asleep = model_asleep(thread);
        int r;

        if (prefix->user)
                idle = sb_wait(bus_of(thread), 0) == SB_E_TIMED_OUT;
        prefix->told = true;
        r = world_prefix_look(thread, prefix, 0);
        if (r != SB_E_TIMED_OUT && asleep)
                model_fail("T%u sleeps, and there is something to see", thread);
        if (r != SB_E_TIMED_OUT && idle)
                model_fail("T%u would sleep, and there is something to see", thread);
        while (r != SB_E_TIMED_OUT)
                r = world_prefix_look(thread, prefix, 0);
        if (prefix->user)
                prefix->span[prefix->span_count - 1].reached = UINT64_MAX;
}

/* Each change was given or counted, once; and the first ones, for which there was room, were given.
 * Where a process was killed or stopped, no more can be told than that none was given twice. */
static void judge_dropped(struct world_prefix *prefix)
{
        /* Where not all was kept it began anew. */
        const struct world_span *span = &prefix->span[prefix->span_count - 1];
        uint64_t dropped = sb_backlog_dropped(NULL, prefix->watch) - span->dropped;
        uint64_t begun = span->begun;
        uint32_t t, i, count = 0, given = prefix->count - span->first;

        for (i = 0; i < world.written_count; i++)
                count += world.written[i].cut > begun;
        for (t = 0; t < MODEL_THREADS; t++) {
                if (!model_finished(t) && spec()->ops[t][0].kind)
                        return;
                for (i = 0; i < WORLD_OPS; i++) {
                        const struct outcome *outcome = &world.outcomes[t][i];

                        if (outcome->ran && !outcome->r && outcome->cut > begun)
                                count += (uint32_t)__builtin_popcount(
                                        written_by(&spec()->ops[t][i], outcome));
                }
        }
        if (given + dropped < count || (given + dropped > count && !spec()->joins))
                model_fail("%u changes, of which %u were given and %lu dropped", count, given,
                        (unsigned long)dropped);
        if (dropped && spec()->roomy && prefix->given_first)
                model_fail("dropped where there was room behind what was given");
        if (dropped && count <= PREFIX_ROOM && !is_pressed() && !spec()->joins)
                model_fail("dropped where there was room");
}

static void judge_prefix(uint32_t thread)
{
        struct world_prefix *prefix = &world.prefixes[thread];
        uint32_t t, i, k;

        judge_looks(thread, prefix);
        for (i = 0; i < world.written_count; i++)
                judge_written(prefix, &world.written[i]);
        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++)
                        judge_outcome(prefix, t, i);
        for (i = 0; i < prefix->span_count; i++) {
                const struct world_span *span = &prefix->span[i];
                uint32_t end = i + 1 < prefix->span_count ? span[1].first : prefix->count;

                for (k = span->first; k < end; k++)
                        judge_given(prefix, span, k);
                judge_txn(prefix, span, end);
        }
        for (k = 0; k < WORLD_KEYS && !prefix->drops; k++)
                judge_newest(prefix, k);
        if (prefix->drops)
                judge_dropped(prefix);
        for (k = 0; k < WORLD_KEYS && prefix->span_count == 1; k++)
                judge_view(prefix, k);
        judge_lapped(prefix);
        prefix_close(thread, prefix);
}

/* How many versions of a key there are. */
static uint32_t chain_of(struct sb_handle *handle, enum world_key key)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t hash = sb_find_hash_any(handle, world_key(key), world_key_len(key)), link;
        struct sb_version *version;
        struct sb_spot spot;
        uint32_t count = 0;

        sb_pin(handle);
        link = sb_key_find(handle, world_key(key), world_key_len(key), hash, &spot) ? spot.word : 0;
        for (; (version = sb_version_at(segment, link & SB_OFFSET_MASK)); count++)
                link = sb_load_relaxed(&version->prev);
        sb_unpin(handle);
        return count;
}

/* However little its readers read, a ring keeps no more than it names. */
static void judge_kept(struct sb_handle *engine)
{
        uint32_t key, cursor = 0, i, max = spec()->drops ? QUEUE_CHAIN_MAX : PREFIX_CHAIN_MAX;

        for (i = 0; i < 3; i++) {
                sb_sweep(engine, &cursor, engine->segment.geometry.unit_count);
                sb_work_all(engine, true);
        }
        for (key = 0; key < WORLD_KEYS; key++)
                if (chain_of(engine, key) > max)
                        model_fail("%u versions of %s are kept", chain_of(engine, key),
                                world_key(key));
}

void world_prefix_judge(struct sb_handle *engine)
{
        uint32_t t, open = 0;

        for (t = 0; t < MODEL_THREADS; t++)
                open += world.prefixes[t].open && (model_finished(t) || model_asleep(t));
        if (!open)
                return;
        /* Some may be stopped for good. What they wrote is told with the engine's next cut. */
        sb_stable_raise(engine);
        if (spec()->keeps)
                judge_kept(engine);
        for (t = 0; t < MODEL_THREADS; t++)
                if (world.prefixes[t].open && (model_finished(t) || model_asleep(t)))
                        judge_prefix(t);
}
