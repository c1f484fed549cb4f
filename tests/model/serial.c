/*
 * Whether some order of all that was done, one event after the other, explains all that was seen:
 * each answer, each value read, and what is there at the end.
 *
 * The judge tries all orders in which what was finished comes before what began later, and in which
 * stamped events follow their stamps. A transaction is one event where it commits, and another one
 * where it reads, at its cut: a serializable transaction must find at its commit what it read, and
 * under snapshot isolation the keys that it writes must be unchanged. An operation that was under
 * way when its thread was killed happened, or did not.
 *
 * Always true: nothing here looks at the segment; it is not instrumented.
 */
#include <stdio.h>

#include "ring/op/commit.h"
#include "shm/base/result.h"
#include "tests/model/world-core.h"

#define EVENTS_MAX 48u
#define NO_CUT     UINT32_MAX

enum event_kind { EVENT_PLAIN, EVENT_CUT, EVENT_COMMIT, EVENT_CONFLICT };

struct event {
        enum event_kind kind;
        uint32_t thread, op;
        uint32_t key; /* of a plain operation */
        struct outcome *outcome;
        const struct world_op *what;
        uint64_t behind;   /* a bit for each event that comes before */
        uint64_t stamp;    /* of what it wrote, or its cut; 0: not known */
        uint32_t cut;      /* of a commit: the number of its cut's event */
        bool writes, open; /* open: killed, it may have happened */
};

struct key {
        uint32_t tag; /* NO_TAG: no value */
        uint64_t rev; /* the highest that is known */
        bool exact;   /* it is the present value's */
        uint32_t changes;
};
struct keys {
        struct key key[WORLD_KEYS];
};

static struct {
        struct event event[EVENTS_MAX];
        uint32_t count;
        struct keys at_cut[EVENTS_MAX];
        uint64_t tried;
} order;

static struct event *add(enum event_kind kind, uint32_t thread, uint32_t op)
{
        struct event *event = &order.event[order.count++];

        if (order.count > EVENTS_MAX)
                model_fail("too many events");
        *event = (struct event){.kind = kind,
                .thread = thread,
                .op = op,
                .outcome = &world.outcomes[thread][op],
                .what = &spec()->ops[thread][op],
                .key = spec()->ops[thread][op].key,
                .cut = NO_CUT};
        event->open = !event->outcome->finished;
        return event;
}

static void add_txn(uint32_t thread, uint32_t op)
{
        struct outcome *outcome = &world.outcomes[thread][op];
        uint32_t cut = order.count;
        struct event *event;

        if (!outcome->begun || (outcome->finished && outcome->r == SB_E_LAPPED))
                return; /* or it did not happen */
        event = add(EVENT_CUT, thread, op);
        event->stamp = outcome->read_cut;
        event->open = false; /* a read at the cut stays what it was */
        if (!(outcome->wrote | outcome->deleted) ||
                (outcome->finished && outcome->r && outcome->r != SB_E_CONFLICT))
                return;
        event = add(outcome->finished && outcome->r ? EVENT_CONFLICT : EVENT_COMMIT, thread, op);
        event->cut = cut;
        event->writes = event->kind == EVENT_COMMIT;
        event->stamp = event->writes && outcome->finished ? outcome->cut : 0;
}

/* One that wrote nothing is a look at its cut. No process takes the same cut once it was told of
 * one: so in the order of stamps it may count as a write. */
static void add_restore(uint32_t thread, uint32_t op)
{
        const struct outcome *outcome = &world.outcomes[thread][op];
        struct event *event;

        if (outcome->finished && outcome->r == SB_E_LAPPED)
                return;
        event = add(EVENT_PLAIN, thread, op);
        event->writes = true;
        event->stamp = event->open ? 0 : outcome->cut;
}

static void add_events(void)
{
        uint32_t t, i;

        order.count = 0;
        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++) {
                        struct outcome *outcome = &world.outcomes[t][i];
                        enum world_op_kind kind = spec()->ops[t][i].kind;
                        struct event *event;
                        uint32_t key;

                        if (!outcome->ran)
                                continue;
                        if (kind == OP_TXN || kind == OP_LOOK || kind == OP_SCAN ||
                                kind == OP_SNAPSHOT || kind == OP_LOG ||
                                (kind == OP_MANY && outcome->begun)) {
                                add_txn(t, i);
                        } else if (kind == OP_CLEAR) {
                                event = add(EVENT_PLAIN, t, i);
                                event->writes = event->open || outcome->rev;
                                event->stamp = event->open ? 0 : outcome->cut;
                        } else if (kind == OP_RESTORE) {
                                add_restore(t, i);
                        } else if (is_write(kind) || (kind == OP_GET && outcome->finished)) {
                                event = add(EVENT_PLAIN, t, i);
                                event->writes = is_write(kind) && (event->open || !outcome->r);
                                event->stamp = event->writes && !event->open ? outcome->cut : 0;
                        } else if (kind == OP_MANY && outcome->finished) {
                                for (key = 0; key < WORLD_KEYS; key++)
                                        add(EVENT_PLAIN, t, i)->key = key; /* a get each */
                        }
                }
}

/* Whether @a comes before @b by time, or by stamps. */
static bool goes_before(const struct event *a, const struct event *b)
{
        uint32_t over = (uint32_t)(b->outcome->over_before >> 8 * a->thread) & 255;
        /* Observers may see a state of long ago; another client may help a prepared transaction at
         * once. */
        bool untimely = b->what->kind == OP_LOOK || b->what->txn.prepared ||
                        (b->kind == EVENT_CUT && b->what->txn.early);

        if (a->thread == b->thread && a->op == b->op)
                return a < b;
        if (!untimely && (a->thread == b->thread ? a->op < b->op : a->op < over))
                return true;
        if (!a->stamp || !b->stamp)
                return false;
        if (a->writes && b->kind == EVENT_CUT)
                return a->stamp <= b->stamp;
        return (a->writes && b->writes && a->stamp < b->stamp) ||
               (a->kind == EVENT_CUT && b->writes && b->stamp > a->stamp);
}

static void find_bounds(void)
{
        uint32_t a, b;

        for (b = 0; b < order.count; b++)
                for (a = 0; a < order.count; a++)
                        if (a != b && goes_before(&order.event[a], &order.event[b]))
                                order.event[b].behind |= UINT64_C(1) << a;
}

/* ---- one event ---- */

/* @rev 0: no value. */
static bool sees(struct key *key, uint64_t rev, uint32_t tag)
{
        if (!rev)
                return key->tag == NO_TAG;
        if (key->tag != tag || (key->exact ? key->rev != rev : rev < key->rev))
                return false;
        key->rev = rev;
        key->exact = true;
        return true;
}

/* @rev 0: it is not known. The next revision in a life is one more. */
static bool write(struct key *key, uint64_t rev, uint32_t tag)
{
        bool live = key->tag != NO_TAG;

        if (rev && (live && key->exact ? rev != key->rev + 1 : rev <= key->rev))
                return false;
        key->exact = rev || (live && key->exact);
        key->rev = rev ? rev : key->rev + 1;
        key->tag = tag;
        key->changes++;
        return true;
}

/* All keys go, and as many had a value as was told. */
static bool do_clear(const struct event *event, struct keys *keys)
{
        uint64_t count = 0;
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                if (keys->key[key].tag != NO_TAG) {
                        write(&keys->key[key], 0, NO_TAG);
                        count++;
                }
        return event->open || count == event->outcome->rev;
}

/* What was restored is what it was at the mark; what is so already has not changed. */
static bool do_restore(const struct event *event, struct keys *keys)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                if (keys->key[key].tag != world.mark_tag[key] &&
                        (event->what->way != WAY_SHORT || key == event->what->key))
                        write(&keys->key[key], 0, world.mark_tag[key]);
        return true;
}

static bool do_plain(const struct event *event, struct keys *keys)
{
        const struct outcome *outcome = event->outcome;
        struct key *key = &keys->key[event->key];
        enum world_op_kind kind = event->what->kind;
        uint64_t expected = world.start_seen[event->what->key],
                 rev = event->open ? 0 : outcome->rev;
        uint32_t tag = world_tag(event->thread, event->op);
        bool live = key->tag != NO_TAG;

        if (kind == OP_CLEAR)
                return do_clear(event, keys);
        if (kind == OP_RESTORE)
                return do_restore(event, keys);
        if (kind == OP_GET || kind == OP_MANY)
                return sees(key, outcome->seen[event->key], outcome->tags[event->key]);
        if (!event->open && outcome->r == SB_E_NOT_FOUND)
                return !live;
        if (!event->open && outcome->r == SB_E_CONFLICT)
                return outcome->rev ? live &&
                                              (key->exact ? key->rev == outcome->rev
                                                          : key->rev <= outcome->rev) &&
                                              (kind == OP_CREATE || outcome->rev != expected)
                                    : !live && kind == OP_CAS;
        if (!event->open && outcome->r)
                return true; /* full */
        if ((kind == OP_CAS && (!live || (key->exact && key->rev != expected))) ||
                (kind == OP_CREATE && live) || (kind == OP_DELETE && !live))
                return false;
        return write(key, rev, kind == OP_DELETE ? NO_TAG : tag);
}

static bool do_reads(const struct event *event, struct keys *keys)
{
        const struct outcome *outcome = event->outcome;
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                if ((outcome->looked >> key & 1) &&
                        !sees(&keys->key[key], outcome->seen[key], outcome->tags[key]))
                        return false;
        return true;
}

/* Whether a key is as it was at the event's cut. It may have been made and forgotten in between:
 * absent is absent. */
static bool unchanged(const struct event *event, const struct keys *keys, uint32_t key)
{
        const struct key *before = &order.at_cut[event->cut].key[key], *now = &keys->key[key];

        return before->changes == now->changes || (before->tag == NO_TAG && now->tag == NO_TAG);
}

static bool do_commit(const struct event *event, struct keys *keys)
{
        const struct outcome *outcome = event->outcome;
        uint32_t key;

        if (event->what->txn.serializable && !do_reads(event, keys))
                return false;
        for (key = 0; key < WORLD_KEYS; key++) {
                bool deletes = outcome->deleted >> key & 1;

                if (!deletes && !(outcome->wrote >> key & 1))
                        continue;
                if (!event->what->txn.serializable && !unchanged(event, keys, key))
                        return false;
                if ((deletes && keys->key[key].tag == NO_TAG) ||
                        !write(&keys->key[key], 0,
                                deletes ? NO_TAG : world_tag(event->thread, event->op)))
                        return false;
        }
        return true;
}

/* Another writer was first: one of the keys that are given as the cause was written since the cut.
 */
static bool do_conflict(const struct event *event, struct keys *keys)
{
        const struct keys *before = &order.at_cut[event->cut];
        const struct outcome *outcome = event->outcome;
        uint32_t written = outcome->wrote | outcome->deleted, count = 0, key;

        if (outcome->cause == SB_COMMIT_CAUSE_NONE)
                return true;
        for (key = 0; key < WORLD_KEYS; key++) {
                bool changed = keys->key[key].changes != before->key[key].changes;

                if ((written >> key & 1) && count++ == outcome->cause)
                        return changed;
        }
        for (key = 0; key < WORLD_KEYS; key++)
                if (outcome->cause >= count && (outcome->looked >> key & 1) &&
                        keys->key[key].changes != before->key[key].changes)
                        return true;
        return false;
}

static bool happens(uint32_t i, struct keys *keys)
{
        const struct event *event = &order.event[i];

        switch (event->kind) {
        case EVENT_PLAIN:
                return do_plain(event, keys);
        case EVENT_CUT:
                order.at_cut[i] = *keys;
                return do_reads(event, keys);
        case EVENT_COMMIT:
                return do_commit(event, keys);
        default:
                return do_conflict(event, keys);
        }
}

static bool ends(struct keys keys)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                if (!sees(&keys.key[key], world.end_seen[key], world.end_tag[key]))
                        return false;
        return true;
}

/* Goes on after the events in @done. */
static bool explained(uint64_t done, struct keys keys)
{
        uint32_t i;

        if (done == (UINT64_C(1) << order.count) - 1)
                return ends(keys);
        if (++order.tried > 10000000)
                model_fail("too many orders");
        for (i = 0; i < order.count; i++) {
                const struct event *event = &order.event[i];
                struct keys next = keys;

                if ((done >> i & 1) || (event->behind & ~done))
                        continue;
                if (happens(i, &next) && explained(done | UINT64_C(1) << i, next))
                        return true;
                if (event->open && explained(done | UINT64_C(1) << i, keys))
                        return true;
        }
        return false;
}

/* ---- the report ---- */

static int print_keys(
        char *text, size_t size, uint32_t keys, const uint64_t *seen, const uint32_t *tags)
{
        size_t len = 0;
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                if ((keys >> key & 1) && len < size)
                        len += (size_t)snprintf(text + len, size - len, " %c%lu/%u", 'A' + key,
                                (unsigned long)seen[key], seen[key] ? tags[key] : 0);
        return (int)len;
}

static void fail(void)
{
        char text[240];
        size_t len = 0;
        uint32_t i;

        for (i = 0; i < order.count && len < sizeof text; i++) {
                const struct event *event = &order.event[i];

                len += (size_t)snprintf(text + len, sizeof text - len, "; T%u.%u %s r%d",
                        event->thread, event->op,
                        event->kind == EVENT_PLAIN    ? "op"
                        : event->kind == EVENT_CUT    ? "cut"
                        : event->kind == EVENT_COMMIT ? "commit"
                                                      : "conflict",
                        event->outcome->r);
                if (len < sizeof text && event->stamp)
                        len += (size_t)snprintf(text + len, sizeof text - len, " @%lu",
                                (unsigned long)event->stamp);
                if (len < sizeof text && event->kind != EVENT_COMMIT)
                        len += (size_t)print_keys(text + len, sizeof text - len,
                                event->outcome->looked, event->outcome->seen, event->outcome->tags);
        }
        if (len < sizeof text)
                len += (size_t)snprintf(text + len, sizeof text - len, "; end");
        if (len < sizeof text)
                print_keys(text + len, sizeof text - len, 7, world.end_seen, world.end_tag);
        model_fail("no order explains it%s", text);
}

/* Two transactions that conflict do not both lose: of all that write, at least one commits. */
static void check_progress(void)
{
        uint32_t i, done = 0, lost = 0;

        for (i = 0; i < order.count; i++) {
                if (order.event[i].open)
                        return;
                done += order.event[i].writes;
                lost += order.event[i].kind == EVENT_CONFLICT;
        }
        if (lost && !done)
                model_fail("%u conflicts, and none committed", lost);
}

void world_serial_judge(void)
{
        struct keys keys = {0};
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                keys.key[key] = (struct key){
                        .tag = world.start_seen[key] ? world.start_tag[key] : NO_TAG,
                        .rev = world.start_rev[key],
                        .exact = world.start_seen[key] != 0,
                };
        order.tried = 0;
        add_events();
        find_bounds();
        check_progress();
        if (!explained(0, keys))
                fail();
}
