/*
 * A bus at random is stored as a log would store it, and loaded into an empty segment
 * (ring/log/load.h): keys of all lengths, deletes, keys that are made anew, transactions, rules and
 * marks that come and go. What is loaded is compared with all that ever happened.
 *
 * The log of this test: now and then a batch, which has a cut and, of each chain, what was stamped
 * behind the batch before and is in the chain still. If a delete was forgotten before a batch came,
 * that batch has the whole bus instead. A checkpoint is written in parts, each at the cut of
 * another batch; then the log goes on from the first part's cut.
 */
#include <errno.h>
#include <stdlib.h>

#include "ring/op/commit.h"
#include "ring/op/keep.h"
#include "ring/log/load.h"
#include "ring/op/mark.h"
#include "ring/op/past.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/past.h"
#include "shm/history/rules.h"
#include "shm/history/times.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/report.h"
#include "shm/layout/reserved.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"

#ifdef __SANITIZE_ADDRESS__
#define ROUNDS 5u
#else
#define ROUNDS 16u
#endif
#define ROUNDS_MAX 16u /* where none of them had a checkpoint */
#define STEPS      1200u
#define LATER      200u /* changes behind the cut */
#define KEYS       48u
#define MARKS      6u
#define CUTS       3000u
#define STORED     60000u
#define BATCHES    200u
#define VALUE_MAX  200000u
#define PARTS      5u /* of a checkpoint */
#define SEGMENT    (UINT64_C(48) << 20)
#define CHECK_OR(x)                                                                                \
        do {                                                                                       \
                if (!(x))                                                                          \
                        return #x;                                                                 \
        } while (0)

/* ---- the clocks ---- */

static uint64_t now_ns;
static uint64_t read_clock(void *context)
{
        (void)context;
        return now_ns;
}
static void flush(void *context)
{
        (void)context;
}
static const struct sb_os os = {
        .now_ns = read_clock, .realtime_ns = read_clock, .membarrier = flush};

static struct sb_superblock *super(void)
{
        return writer.segment.super;
}

/* ---- what happened ---- */

struct happened {
        uint64_t rev, stamp, txn, len;
        bool deleted;
};
struct key {
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t len, count;
        struct happened past[STEPS + LATER]; /* ascending */
};
static struct key keys[KEYS];
static const char *const mark_names[MARKS] = {"a", "bb", "ccc", "d", "e", "longer than others"};
static uint64_t mark_cuts[MARKS]; /* 0: there is no such mark */

static unsigned char pattern[VALUE_MAX + 256];

/* The bytes of a value: of its revision and key, at any length. */
static const unsigned char *value_of(const struct key *key, uint64_t rev)
{
        return pattern + (rev * 31 + (uint64_t)(key - keys) * 7) % 251;
}

static bool has_value(const struct key *key)
{
        return key->count && !key->past[key->count - 1].deleted;
}

/* Prefixes repeat, so that rules for them apply to several keys. */
static void make_keys(void)
{
        for (uint32_t i = 0; i < VALUE_MAX + 256; i++)
                pattern[i] = (unsigned char)(i % 251 * 97 + i % 7);
        for (uint32_t i = 0; i < KEYS; i++) {
                struct key *key = &keys[i];

                key->count = 0;
                key->len = draw(4) ? 4 + draw(12) : 4 + draw(SB_KEY_LEN_MAX - 3);
                for (uint32_t j = 0; j < key->len; j++)
                        key->bytes[j] = (unsigned char)draw(256);
                key->bytes[0] = (unsigned char)('a' + draw(3));
                key->bytes[1] = (unsigned char)(i % 3);
                key->bytes[2] = (unsigned char)i; /* so that no two are the same */
        }
}

static uint64_t hash_of(const struct sb_handle *handle, const struct key *key)
{
        return sb_hash_key(key->bytes, key->len, handle->segment.seed);
}

static void note(
        struct key *key, uint64_t rev, uint64_t stamp, uint64_t txn, uint64_t len, bool deleted)
{
        key->past[key->count++] = (struct happened){
                .rev = rev, .stamp = stamp, .txn = txn, .len = len, .deleted = deleted};
}

static uint64_t draw_len(void)
{
        return draw(3) ? draw(200) : draw(20) ? draw(5000) : draw(VALUE_MAX + 1);
}

/* The revision that the next write of a key will have is not known before; so the value is that of
 * the key's number of changes. */
static const unsigned char *next_value(const struct key *key)
{
        return value_of(key, key->count + 1);
}

static bool change(struct sb_handle *handle, struct key *key, bool deletes, uint64_t len)
{
        struct sb_op_write write = {.key = key->bytes,
                .key_len = key->len,
                .kind = deletes ? SB_VERSION_DELETED : SB_VERSION_VALUE,
                .value = next_value(key),
                .value_len = deletes ? 0 : len,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;
        int r = sb_op_write(handle, &write, &result);

        if (r == SB_E_FULL || r == SB_E_NOT_FOUND)
                return r == SB_E_FULL || !has_value(key);
        if (r)
                return false;
        note(key, result.rev, result.cut, 0, write.value_len, deletes);
        return true;
}

static int compare_keys(const void *a, const void *b)
{
        const struct key *one = *(struct key *const *)a, *other = *(struct key *const *)b;

        return sb_bytes_compare(one->bytes, one->len, other->bytes, other->len);
}

static uint64_t newest_rev(struct sb_handle *handle, const struct key *key)
{
        struct sb_version *version;
        uint64_t rev;

        sb_pin(handle);
        version = sb_find_newest(handle, key->bytes, key->len, hash_of(handle, key));
        rev = version ? version->rev : 0;
        sb_unpin(handle);
        return rev;
}

static bool transact(void)
{
        struct key *picked[5];
        struct sb_commit_write writes[5];
        struct sb_commit_wish wish = {.writes = writes};
        struct sb_commit_result result;
        uint32_t count = 2 + draw(4), used = 0;
        int r;

        while (used < count) {
                struct key *key = &keys[draw(KEYS)];
                uint32_t i = 0;

                while (i < used && picked[i] != key)
                        i++;
                if (i == used)
                        picked[used++] = key;
        }
        qsort(picked, used, sizeof(picked[0]), compare_keys);
        for (uint32_t i = 0; i < used; i++) {
                bool deletes = has_value(picked[i]) && !draw(3);

                writes[i] = (struct sb_commit_write){.key = picked[i]->bytes,
                        .key_len = picked[i]->len,
                        .kind = deletes ? SB_VERSION_DELETED : SB_VERSION_VALUE,
                        .value = next_value(picked[i]),
                        .value_len = deletes ? 0 : draw(500)};
        }
        wish.write_count = used;
        if (sb_snapshot_open(&writer, &wish.snapshot, &wish.cut))
                return false;
        r = sb_commit_run(&writer, &wish, &result);
        sb_snapshot_close(&writer, wish.snapshot);
        if (r)
                return r == SB_E_FULL;
        for (uint32_t i = 0; i < used; i++)
                note(picked[i], newest_rev(&writer, picked[i]), result.cut, result.number,
                        writes[i].value_len, writes[i].kind == SB_VERSION_DELETED);
        return true;
}

static bool change_mark(void)
{
        uint32_t i = draw(MARKS);
        uint32_t len = (uint32_t)strlen(mark_names[i]);
        int r;

        if (mark_cuts[i] && draw(3)) {
                r = sb_op_mark_drop(&writer, mark_names[i], len);
                mark_cuts[i] = 0;
                return !r;
        }
        if (mark_cuts[i])
                return true;
        r = sb_op_mark(&writer, mark_names[i], len, &mark_cuts[i]);
        return !r;
}

#define MILLISECOND UINT64_C(1000000)

static bool change_rule(void)
{
        const struct key *key = &keys[draw(KEYS)];
        uint32_t len = draw(3), kind = draw(5) % 4;
        uint64_t amount = kind == SB_RULE_LAST   ? 1 + draw(20)
                          : kind == SB_RULE_SPAN ? (50 + draw(500)) * MILLISECOND
                                                 : 0;
        bool prefix = draw(4);

        return !sb_keep_write(
                &writer, key->bytes, prefix ? len : 3, prefix, SB_RULE_WORD(kind, amount));
}

/* One step of the bus's life. */
static bool live(void)
{
        struct key *key = &keys[draw(KEYS) * draw(KEYS) / KEYS];
        uint32_t what = draw(100);

        now_ns += draw(4) * MILLISECOND;
        if (draw(5) < 2)
                sb_clock_take_cut(&reader);
        if (what < 4)
                return change_mark();
        if (what < 6)
                return change_rule();
        if (what < 11) {
                sb_work_all(draw(2) ? &writer : &reader, draw(2));
                return true;
        }
        if (what < 23)
                return transact();
        return change(draw(2) ? &writer : &reader, key, what < 40, draw_len());
}

/* ---- the log ---- */

struct batch {
        uint64_t cut, realtime_ns;
        uint32_t first, count; /* of what is stored */
};
static struct sb_load_version stored[STORED];
static uint32_t stored_count, batch_count;
static struct batch batches[BATCHES];
static struct sb_load_words words;
static uint64_t durable, stored_seed, *floors, floor_count;
/* The checkpoint; part 0: there is none. */
static struct sb_load_version saved[STORED];
static uint32_t saved_count, part;
static uint64_t part_cut; /* of its first part */
static uint64_t *saved_floors;

static void *copy(const void *from, uint64_t len)
{
        void *to = malloc(len + 1);

        if (!to)
                abort();
        memcpy(to, from, len);
        return to;
}

static void drop(struct sb_load_version *list, uint32_t *count)
{
        while (*count) {
                (*count)--;
                free((void *)(uintptr_t)list[*count].key);
                free((void *)(uintptr_t)list[*count].value);
        }
}

struct store {
        struct sb_load_version *list;
        uint32_t *count;
        uint64_t above, to; /* stamps */
        bool bad;
};

static void store_version(struct sb_handle *handle, struct store *store, struct sb_version *version)
{
        struct sb_load_version *to = &store->list[*store->count];
        uint32_t kind = SB_SHAPE_KIND(version->shape);
        bool trimmed = false;

        if (*store->count == STORED) {
                store->bad = true;
                return;
        }
        *to = (struct sb_load_version){
                .key_len = SB_SHAPE_KEY_LEN(version->shape),
                .kind = kind & SB_VERSION_KIND,
                .value_len = SB_SHAPE_VALUE_LEN(version->shape),
                .rev = version->rev,
                .stamp = sb_load_relaxed(&version->stamp),
                .slot = SB_SHAPE_WRITER(version->shape),
        };
        to->key = copy(version->bytes, to->key_len);
        to->value = copy(version->bytes + to->key_len, to->value_len);
        if (kind & SB_VERSION_HAS_TXN)
                memcpy(&to->txn, version->bytes + to->key_len + to->value_len, 8);
        to->born = !sb_past_next(handle, version, true, &trimmed) && !trimmed;
        (*store->count)++;
}

/* The versions of a chain with stamps that are asked for, the oldest first. */
static void store_chain(struct sb_handle *handle, struct sb_node *node, void *context)
{
        static struct sb_version *chain[STEPS + LATER];
        struct sb_word64 *cell = sb_cell_at(&handle->segment, sb_load_relaxed(&node->cell));
        struct sb_version *version;
        struct store *store = context;
        bool trimmed = false;
        uint32_t count = 0;

        if (!cell)
                return;
        version = sb_version_at(&handle->segment, sb_load_relaxed(cell) & SB_OFFSET_MASK);
        version = sb_past_next(handle, version, false, &trimmed);
        for (; version; version = sb_past_next(handle, version, true, &trimmed))
                chain[count++] = version;
        while (count--) {
                uint64_t stamp = sb_load_relaxed(&chain[count]->stamp);

                if (stamp > store->above && stamp <= store->to)
                        store_version(handle, store, chain[count]);
        }
}

static void read_floors(uint64_t *to)
{
        for (uint64_t i = 0; i < floor_count; i++)
                to[i] = sb_load_relaxed(&writer.segment.floors[i]);
}

/* Goes over some of the keys, for one part of the checkpoint: those that begin with one byte. */
static bool store_part(uint64_t cut)
{
        struct store store = {.list = saved, .count = &saved_count, .to = cut};
        static const unsigned char bounds[PARTS] = {0, 'a', 'b', 'c'};

        if (part == 0)
                part_cut = cut;
        if (part + 1 < PARTS)
                (void)sb_order_walk(&writer, &bounds[part], 1, store_chain, &store);
        else
                read_floors(saved_floors);
        part++;
        return !store.bad;
}

/* Appends a batch. */
static bool store_batch(void)
{
        struct batch *batch = &batches[batch_count];
        struct store store = {.list = stored, .count = &stored_count, .above = durable};
        struct sb_moment moment;

        if (batch_count == BATCHES)
                return false;
        batch->cut = store.to = sb_clock_take_cut(&writer);
        batch->realtime_ns = now_ns;
        batch->first = stored_count;
        if (draw(2)) { /* in another order: the bus's own keys last */
                for (uint32_t byte = 255; byte < 256; byte--) {
                        unsigned char prefix = (unsigned char)byte;

                        (void)sb_order_walk(&writer, &prefix, 1, store_chain, &store);
                }
        } else {
                (void)sb_order_walk(&writer, NULL, 0, store_chain, &store);
        }
        /* All that was stored before has to give way: a key has gone without a word. */
        if (sb_load_relaxed(&super()->forgotten) > durable &&
                sb_load_relaxed(&super()->forgotten)) {
                drop(stored, &stored_count);
                batch->first = 0;
                store.above = 0;
                (void)sb_order_walk(&writer, NULL, 0, store_chain, &store);
                for (uint32_t i = 0; i < batch_count; i++)
                        batches[i].count = batches[i].first = 0;
                read_floors(floors);
                drop(saved, &saved_count);
                part = 0;
        }
        batch->count = stored_count - batch->first;
        batch_count++;
        durable = batch->cut;
        words = (struct sb_load_words){.cut = durable,
                .history_floor = sb_load_relaxed(&super()->history_floor),
                .forgotten = sb_load_relaxed(&super()->forgotten)};
        moment = (struct sb_moment){.cut = durable, .realtime_ns = now_ns, .monotonic_ns = now_ns};
        sb_times_note(&writer.segment, &moment);
        if (part < PARTS && (part || !draw(4)) && draw(3))
                store.bad |= !store_part(durable);
        return !store.bad;
}

/* ---- what is known at the cut ---- */

#define MAYBE 0 /* it may be known, or not */
#define MUST  1

static unsigned char known[KEYS][CUTS];
static uint64_t marks_then[MARKS];
static uint32_t count_then[KEYS];

/* What a key was in a cut; NULL: it had no value. */
static const struct happened *truth(uint32_t i, uint64_t cut)
{
        uint32_t at = count_then[i];

        while (at && keys[i].past[at - 1].stamp > cut)
                at--;
        return at && !keys[i].past[at - 1].deleted ? &keys[i].past[at - 1] : NULL;
}

/* Whether a mark or a rule says that what a key was in a cut stays: also of a rule that goes by
 * number, and says nothing of what else is there still. */
static bool is_kept(uint32_t i, uint64_t cut)
{
        struct sb_rule_found found;
        uint32_t at = keys[i].count;
        bool kept;

        while (at && keys[i].past[at - 1].stamp > cut)
                at--;
        sb_pin(&reader);
        kept = sb_past_kept(&reader, keys[i].bytes, keys[i].len, cut);
        sb_rules_find(&reader, keys[i].bytes, keys[i].len, false, &found);
        sb_unpin(&reader);
        if (SB_RULE_KIND(found.value.word) == SB_RULE_LAST)
                kept &= keys[i].count - at < SB_RULE_VALUE(found.value.word);
        return kept || sb_past_marked(&reader.segment, cut);
}

/* Whether a rule with a span covers the cut also by what a log knows of the times: only from the
 * first note on that is younger than the span. That a key was not there takes no less. */
static bool is_in_span(uint32_t i, uint64_t cut)
{
        struct sb_rule_found found;
        struct sb_moment moment;
        uint64_t word;

        sb_pin(&reader);
        sb_rules_find(&reader, keys[i].bytes, keys[i].len, false, &found);
        sb_unpin(&reader);
        word = found.value.word;
        return SB_RULE_KIND(word) != SB_RULE_SPAN || sb_past_marked(&reader.segment, cut) ||
               !sb_times_at(&reader.segment, now_ns - SB_RULE_VALUE(word), &moment) ||
               (sb_times_behind(&reader.segment, moment.cut + 1, &moment) && cut >= moment.cut);
}

/* What the bus answers at its cut, by a mark or a rule, has to be answered behind the loading. */
static const char *note_known(void)
{
        CHECK_OR(durable < CUTS);
        memcpy(marks_then, mark_cuts, sizeof(marks_then));
        for (uint32_t i = 0; i < KEYS; i++) {
                count_then[i] = keys[i].count;
                for (uint64_t cut = 2; cut <= durable; cut++) {
                        struct sb_version *version = NULL;
                        int r = sb_past_get(&reader, keys[i].bytes, keys[i].len, cut, 0, &version);

                        known[i][cut] =
                                is_kept(i, cut) && r != SB_E_LAPPED && (!r || is_in_span(i, cut))
                                        ? MUST
                                        : MAYBE;
                }
                if (truth(i, durable)) /* the newest value is known, whatever is kept */
                        known[i][durable] = MUST;
        }
        return NULL;
}

static bool is(const struct sb_version *version, uint32_t i, const struct happened *wanted)
{
        const struct key *key = &keys[i];
        uint64_t shape = version->shape, number = 0;

        if (SB_SHAPE_KIND(shape) & SB_VERSION_HAS_TXN)
                memcpy(&number, version->bytes + key->len + wanted->len, 8);
        return version->rev == wanted->rev && sb_load_relaxed(&version->stamp) == wanted->stamp &&
               SB_SHAPE_VALUE_LEN(shape) == wanted->len && SB_SHAPE_KEY_LEN(shape) == key->len &&
               number == wanted->txn && sb_version_has_value(version) == !wanted->deleted &&
               !memcmp(version->bytes, key->bytes, key->len) &&
               !memcmp(version->bytes + key->len, value_of(key, (uint64_t)(wanted - key->past) + 1),
                       wanted->len);
}

/* ---- loading ---- */

static const char *load_list(
        struct sb_load *load, const struct sb_load_version *list, uint32_t count)
{
        for (uint32_t i = 0; i < count; i++) {
                int r = sb_load_version(load, &list[i]);

                if (r)
                        return r == SB_E_FULL ? "the segment is full" : "a version is refused";
        }
        return NULL;
}

/* The checkpoint, if it is whole, then the log from its first part on. */
static const char *load_all(struct sb_load *load, bool saves)
{
        const char *wrong = saves ? load_list(load, saved, saved_count) : NULL;

        for (uint32_t i = 0; !wrong && i < batch_count; i++)
                if (!saves || batches[i].cut > part_cut)
                        wrong = load_list(load, stored + batches[i].first, batches[i].count);
        return wrong;
}

static uint32_t loads_saved;

/* With another seed each floor raises all of them: the highest ones are enough. */
static bool load_floors(struct sb_load *load, uint64_t seed, const uint64_t *of)
{
        uint64_t highest = 0;

        for (uint64_t i = 0; i < floor_count; i++) {
                if (of[i] <= highest)
                        continue;
                if (seed != stored_seed)
                        highest = of[i];
                if (sb_load_floor_of(load, stored_seed, i, floor_count, of[i]))
                        return false;
        }
        return true;
}

/* With memory to sort the keys in, or without. */
static int end_load(struct sb_load *load, bool sorts)
{
        void *space = sorts ? malloc(sb_load_space(load) + 1) : NULL;
        int r = sb_load_end(load, space);

        free(space);
        return r;
}

static const char *load_bus(uint64_t seed, uint64_t size)
{
        struct sb_load load;
        /* The first that can be loaded from a checkpoint is. */
        bool saves = part == PARTS && (!loads_saved || draw(3));
        const char *wrong;

        CHECK_OR(make_bus(size));
        super()->seed = writer.segment.seed = reader.segment.seed = seed;
        writer.segment.os = reader.segment.os = &os;
        loads_saved += saves;
        CHECK_OR(!sb_guard_grow(&reader, 0) && !sb_load_begin(&writer, &load));
        wrong = load_all(&load, saves);
        if (wrong)
                return wrong;
        CHECK_OR(!sb_load_turn(&load, &words));
        for (uint32_t i = 0; i < batch_count; i++)
                sb_load_time(&load, batches[i].cut, batches[i].realtime_ns);
        CHECK_OR(load_floors(&load, seed, saves ? saved_floors : floors));
        wrong = load_all(&load, saves);
        return wrong ? wrong : end_load(&load, batch_count % 4) ? "it does not end" : NULL;
}

/* ---- comparing ---- */

static uint32_t answers[3];

static const char *compare_past(uint32_t i)
{
        for (uint64_t cut = 2; cut <= durable; cut++) {
                const struct happened *wanted = truth(i, cut);
                struct sb_version *version = NULL;
                int r = sb_past_get(&reader, keys[i].bytes, keys[i].len, cut, 0, &version);

                if (r == 0)
                        CHECK_OR(wanted && is(version, i, wanted));
                else if (r == SB_E_NOT_FOUND)
                        CHECK_OR(!wanted);
                else
                        CHECK_OR(r == SB_E_LAPPED && known[i][cut] == MAYBE);
                answers[r == 0 ? 0 : r == SB_E_NOT_FOUND ? 1 : 2]++;
        }
        return NULL;
}

/* A walk down the chain meets what happened, in order, and says what is missing. */
static const char *compare_chain(uint32_t i)
{
        uint32_t at = count_then[i];
        struct sb_version *version;
        const char *wrong = NULL;
        bool trimmed = false;

        sb_pin(&reader);
        version = sb_past_head(&reader, keys[i].bytes, keys[i].len, hash_of(&reader, &keys[i]));
        if (version && keys[i].past[at - 1].rev != version->rev)
                wrong = "the newest is another one";
        while (version && !wrong) {
                uint32_t from = at;

                while (at && keys[i].past[at - 1].rev != version->rev)
                        at--;
                if (!at || !is(version, i, &keys[i].past[at - 1]))
                        wrong = "a version that never was";
                else if (from != at && !trimmed)
                        wrong = "a gap that nothing says";
                at -= !wrong;
                trimmed = false;
                version = sb_past_next(&reader, version, true, &trimmed);
        }
        sb_unpin(&reader);
        return wrong;
}

static const char *compare_tables(void)
{
        for (uint32_t i = 0; i < MARKS; i++) {
                uint64_t cut = 0;
                int r = sb_op_mark_find(
                        &reader, mark_names[i], (uint32_t)strlen(mark_names[i]), &cut);

                CHECK_OR(marks_then[i] ? !r && cut == marks_then[i] : r == SB_E_NOT_FOUND);
        }
        return NULL;
}

/* The same changes as in the bus of before, behind the cut: they give the same revisions, where the
 * key had a value; else higher ones than ever before. */
static const char *go_on(void)
{
        static struct key before[KEYS];

        memcpy(before, keys, sizeof(keys));
        for (uint32_t i = 0; i < KEYS; i++) {
                uint32_t end = before[i].count;
                bool alive = count_then[i] && !before[i].past[count_then[i] - 1].deleted;

                for (uint32_t at = count_then[i]; at < end; at++) {
                        const struct happened *old = &before[i].past[at];

                        keys[i].count = at;
                        CHECK_OR(change(&writer, &keys[i], old->deleted, old->len));
                        CHECK_OR(keys[i].count == at + 1);
                        CHECK_OR(!alive || keys[i].past[at].rev == old->rev);
                        CHECK_OR(!at || keys[i].past[at].rev > keys[i].past[at - 1].rev);
                        CHECK_OR(keys[i].past[at].stamp > durable);
                }
        }
        return NULL;
}

static const char *is_sound(void)
{
        struct sb_check_report report;

        CHECK_OR(!sb_check(&reader, true, &report));
        if (report.problem_count)
                printf("# %s\n", report.problems[0]);
        CHECK_OR(!report.problem_count && !report.blocks_lost);
        return NULL;
}

static const char *compare_all(void)
{
        const char *wrong = is_sound();

        for (uint32_t i = 0; !wrong && i < KEYS; i++) {
                wrong = compare_chain(i);
                wrong = wrong ? wrong : compare_past(i);
        }
        return wrong ? wrong : compare_tables();
}

/* ---- one round ---- */

static const char *make_bus_at_random(uint32_t round)
{
        CHECK_OR(make_bus(SEGMENT));
        writer.segment.os = reader.segment.os = &os;
        now_ns = UINT64_C(1000000000000);
        memset(mark_cuts, 0, sizeof(mark_cuts));
        stored_count = batch_count = saved_count = part = 0;
        durable = 0;
        stored_seed = writer.segment.seed;
        floor_count = writer.segment.bucket_count;
        floors = calloc(floor_count, 8);
        saved_floors = calloc(floor_count, 8);
        make_keys();
        CHECK_OR(floors && saved_floors && !sb_guard_grow(&reader, 0));
        if (round % 4 == 3) /* rules keep more than is allowed */
                sb_store_release(&super()->history_limit, 100000);
        for (uint32_t step = 0; step < STEPS; step++) {
                CHECK_OR(live());
                if (!draw(20))
                        CHECK_OR(store_batch());
        }
        CHECK_OR(store_batch());
        CHECK_OR(!note_known());
        for (uint32_t step = 0; step < LATER; step++)
                CHECK_OR(change(&writer, &keys[draw(KEYS)], !draw(4), draw_len()));
        return NULL;
}

static const char *run_round(uint32_t round)
{
        const char *wrong = make_bus_at_random(round);

        unmake_bus();
        wrong = wrong ? wrong : load_bus(round % 3 ? stored_seed : 99, SEGMENT << round % 2);
        wrong = wrong ? wrong : compare_all();
        if (!wrong) {
                /* What is kept stays. */
                sb_work_all(&writer, true);
                sb_work_all(&reader, true);
                wrong = compare_all();
        }
        wrong = wrong ? wrong : go_on();
        wrong = wrong ? wrong : is_sound();
        unmake_bus();
        drop(stored, &stored_count);
        drop(saved, &saved_count);
        free(floors);
        free(saved_floors);
        return wrong;
}

static void test_a_bus_is_loaded_as_it_was_at_the_cut(void)
{
        uint64_t seed = 1, given;

        if (getenv("SB_SEED") && (given = strtoull(getenv("SB_SEED"), NULL, 0)))
                seed = given;
        for (uint32_t round = 0; round < ROUNDS || (!loads_saved && round < ROUNDS_MAX); round++) {
                const char *wrong;

                draw_state = seed * 1000 + round;
                wrong = run_round(round);
                if (wrong)
                        TEST_FAIL("seed %ju, round %u: %s", (uintmax_t)seed, round, wrong);
        }
        TEST_NOTE("seed %ju: %u values, %u times none, %u times unknown; %u loads from checkpoints",
                (uintmax_t)seed, answers[0], answers[1], answers[2], loads_saved);
        CHECK(answers[0] > 10000 && answers[1] > 10000 && answers[2] > 10000 && loads_saved);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_bus_is_loaded_as_it_was_at_the_cut);
        return test_end();
}
