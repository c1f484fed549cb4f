/*
 * Reading at cuts that no client announces (shm/history/past.h, ring/op/past.h): what a chain with
 * gaps tells, against its definition; which cuts marks and rules cover, against a search through
 * all of them; and a history with pruning, of which every answer has to be the truth.
 */
#include "ring/op/keep.h"
#include "ring/op/mark.h"
#include "ring/op/past.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/history/past.h"
#include "shm/history/rules.h"
#include "shm/history/times.h"
#include "shm/layout/record.h"
#include "shm/memory/guard.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/descriptor.h"
#include "shm/upkeep/work.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

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
static const struct sb_os clock_of_the_test = {
        .now_ns = read_clock, .realtime_ns = read_clock, .membarrier = flush};

static struct sb_superblock *super(void)
{
        return writer.segment.super;
}

/* ---- chains ---- */

#define CHAIN_MAX 20u
#define STAMP_MAX 90u

/* As it was made; [0] is the newest. */
struct link {
        struct sb_version *version;
        uint64_t stamp; /* 0: not committed */
        bool trimmed;   /* the link behind it says so */
};
static struct link chain[CHAIN_MAX];
static uint32_t chain_count;
static struct sb_spot spot;

static bool make_chain(void)
{
        uint64_t stamp = 2 + draw(20);

        chain_count = 1 + draw(CHAIN_MAX);
        sb_pin(&writer);
        for (uint32_t i = chain_count; i-- > 0;) {
                struct link *link = &chain[i];
                bool aborted = !draw(6), intent = !i && !draw(3);

                stamp += draw(7);
                *link = (struct link){.stamp = aborted || intent ? 0 : stamp, .trimmed = !draw(12)};
                link->version = push("key", draw(4) ? SB_VERSION_VALUE : SB_VERSION_DELETED,
                        intent    ? intent_of(make_descriptor(1, 0, 0))
                        : aborted ? SB_STAMP_ABORTED
                                  : stamp);
                if (!link->version)
                        return false;
                if (i == chain_count - 1 && draw(2)) /* the placeholder is gone */
                        sb_store_relaxed(&link->version->prev, 0);
                if (link->trimmed)
                        sb_or_full(&link->version->prev, SB_PREV_TRIMMED);
                if (draw(2))
                        sb_or_full(&link->version->prev, SB_PREV_SETTLED);
        }
        return spot_of("key", &spot);
}

/* By the definition: the newest version that is committed in the cut is the truth, unless something
 * is missing before it. */
static enum sb_past model_find(uint64_t cut, struct sb_version **ret)
{
        uint32_t found = 0, gap = 0, oldest = chain_count;

        while (found < chain_count && (!chain[found].stamp || chain[found].stamp > cut))
                found++;
        while (gap < chain_count && !chain[gap].trimmed)
                gap++;
        while (oldest && !chain[oldest - 1].stamp)
                oldest--;
        if (found < chain_count && found <= gap) {
                *ret = chain[found].version;
                return SB_PAST_FOUND;
        }
        if (gap == chain_count)
                return SB_PAST_ABSENT;
        *ret = oldest ? chain[oldest - 1].version : NULL;
        return SB_PAST_TRIMMED;
}

static void test_a_chain_tells_what_was_so_unless_something_is_missing_on_the_way(void)
{
        uint32_t counts[3] = {0};

        for (uint32_t round = 0; round < 1200; round++) {
                struct sb_node *node;

                CHECK(make_bus(1 << 18));
                draw_state = round;
                sb_store_relaxed(&super()->clock, 500);
                CHECK(make_chain());
                node = sb_node_at(&writer.segment, spot.head->node);
                sb_pin(&reader);
                for (uint64_t cut = 1; cut < STAMP_MAX; cut += 1 + draw(3)) {
                        struct sb_version *wanted = NULL, *by_key = NULL, *by_node = NULL;
                        enum sb_past past = model_find(cut, &wanted);

                        CHECK_EQ(sb_past_find(&reader, "key", 3, hash_of("key", 3), cut, &by_key),
                                past);
                        CHECK_EQ(sb_past_walk(&reader, node, cut, &by_node), past);
                        CHECK(by_key == wanted && by_node == wanted);
                        counts[past]++;
                }
                unmake_bus();
        }
        CHECK(counts[0] > 3000 && counts[1] > 3000 && counts[2] > 3000);
}

static void test_a_walk_meets_each_committed_version_once_and_says_what_is_missing(void)
{
        for (uint32_t round = 0; round < 1000; round++) {
                struct sb_version *version;
                bool trimmed = false, below = false;
                uint32_t i = 0;

                CHECK(make_bus(1 << 18));
                draw_state = 5000 + round;
                CHECK(make_chain());
                sb_pin(&reader);
                CHECK(sb_past_head(&reader, "key", 3, hash_of("key", 3)) == chain[0].version);
                version = chain[0].version;
                for (;; i++) {
                        bool missing = false;

                        if (below) /* the link of the one before counts for this step */
                                missing = chain[i - 1].trimmed;
                        for (; i < chain_count && !chain[i].stamp; i++)
                                missing |= chain[i].trimmed;
                        trimmed = false;
                        version = sb_past_next(&reader, version, below, &trimmed);
                        CHECK_EQ(trimmed, missing);
                        CHECK(version == (i < chain_count ? chain[i].version : NULL));
                        if (!version)
                                break;
                        below = true;
                }
                CHECK(!sb_past_next(&reader, NULL, true, &trimmed));
                unmake_bus();
        }
}

static void test_a_walk_meets_once_what_moves(void)
{
        struct sb_version *older, *original, *copy;
        bool trimmed = false;

        CHECK(make_bus(1 << 18));
        sb_pin(&writer);
        sb_pin(&reader);
        CHECK((older = push("k", SB_VERSION_VALUE, 30)));
        CHECK((original = push("k", SB_VERSION_VALUE, 40)));
        CHECK((copy = push("k", SB_VERSION_VALUE, 40)));
        copy->rev = original->rev;
        sb_store_relaxed(&original->prev, sb_load_relaxed(&original->prev) | SB_PREV_TRIMMED);
        CHECK(sb_past_next(&reader, copy, false, &trimmed) == copy && !trimmed);
        CHECK(sb_past_next(&reader, copy, true, &trimmed) == older && trimmed);
        CHECK(sb_past_next(&reader, original, true, &trimmed) == older);
        unmake_bus();
}

static void test_a_key_has_a_head_if_it_is_there_and_more_than_made(void)
{
        struct sb_version *version = NULL, *ret = NULL;
        struct sb_node *node;

        CHECK(make_bus(1 << 18));
        sb_pin(&writer);
        sb_pin(&reader);
        CHECK(!sb_past_head(&reader, "k", 1, hash_of("k", 1)));
        CHECK(spot_of("k", &spot)); /* a placeholder */
        node = sb_node_at(&writer.segment, spot.head->node);
        CHECK(!sb_past_head(&reader, "k", 1, hash_of("k", 1)));
        CHECK_EQ(sb_past_walk(&reader, node, 100, &ret), SB_PAST_ABSENT);
        CHECK((version = push("k", SB_VERSION_DELETED, 20)));
        CHECK(sb_past_head(&reader, "k", 1, hash_of("k", 1)) == version);
        CHECK_EQ(sb_past_walk(&reader, node, 100, &ret), SB_PAST_FOUND);
        CHECK(ret == version);
        sb_or_full(spot.cell, SB_CELL_FROZEN);
        CHECK(!sb_past_head(&reader, "k", 1, hash_of("k", 1)));
        CHECK_EQ(sb_past_walk(&reader, node, 100, &ret), SB_PAST_ABSENT);
        sb_and_full(spot.cell, ~SB_CELL_FLAGS);
        version->node += 16; /* the cell is another key's by now */
        CHECK_EQ(sb_past_walk(&reader, node, 100, &ret), SB_PAST_ABSENT);
        sb_store_relaxed(&node->cell, SB_NODE_GONE);
        CHECK_EQ(sb_past_walk(&reader, node, 100, &ret), SB_PAST_ABSENT);
        unmake_bus();
}

static void test_an_intent_is_brought_to_its_end_if_it_may_be_in_the_cut(void)
{
        for (uint64_t stamp = 0; stamp < 40; stamp++)
                for (uint64_t cut = 28; cut < 32; cut++) {
                        struct sb_version *intent, *below, *ret = NULL;
                        struct sb_descriptor *commit;
                        bool helped = stamp && stamp <= cut, in;

                        CHECK(make_bus(1 << 18));
                        sb_store_relaxed(&super()->clock, 50);
                        sb_pin(&writer);
                        sb_pin(&reader);
                        CHECK((below = push("k", SB_VERSION_VALUE, 10)));
                        CHECK((commit = make_descriptor(9, 1, 0)));
                        CHECK((intent = push("k", SB_VERSION_VALUE, intent_of(commit))));
                        commit->write[0] = sb_offset_of(&writer.segment, intent);
                        sb_store_relaxed(&commit->status,
                                SB_STATUS_SERIALIZABLE | SB_STATUS_OF(SB_STATUS_UNDECIDED, stamp));
                        /* STAMPING is no stamp: the clock's is taken, and that is not in the cut.
                         */
                        in = helped && stamp != SB_STATUS_STAMPING;
                        CHECK_EQ(sb_past_find(&reader, "k", 1, hash_of("k", 1), cut, &ret),
                                SB_PAST_FOUND);
                        CHECK(ret == (in ? intent : below));
                        CHECK_EQ(sb_descriptor_decided(commit), helped);
                        unmake_bus();
                }
}

/* ---- what covers a cut ---- */

static void test_a_cut_is_marked_that_a_mark_in_use_has(void)
{
        uint32_t counts[2] = {0}, count;

        CHECK(make_bus(4 << 20));
        draw_state = 6;
        count = writer.segment.geometry.mark_count;
        CHECK(count > 8);
        for (uint32_t i = 0; i < 9; i++) { /* what lies behind the table is no mark */
                sb_store_relaxed(&writer.segment.marks[count + i].owner, 5);
                sb_store_relaxed(&writer.segment.marks[count + i].cut, i * 7);
        }
        for (uint32_t step = 0; step < 4000; step++) {
                bool marked[64] = {false};
                uint64_t high = draw(count + 9);

                for (uint32_t i = 0; i < count; i++) {
                        uint64_t cut = draw(64), owner = draw(3) ? draw_word() >> 1 : 0;

                        if (!draw(4))
                                owner |= SB_NAMED_MAKING;
                        sb_store_relaxed(&writer.segment.marks[i].owner, owner);
                        sb_store_relaxed(&writer.segment.marks[i].cut, cut);
                        marked[cut] |= i < high && owner && !(owner & SB_NAMED_MAKING);
                }
                sb_store_relaxed(&super()->mark_high, high);
                for (uint64_t cut = 0; cut < 64; cut++) {
                        CHECK_EQ(sb_past_marked(&writer.segment, cut), marked[cut]);
                        counts[marked[cut]]++;
                }
        }
        CHECK(counts[0] > 1000 && counts[1] > 1000);
        unmake_bus();
}

#define RULES_MAX    12u
#define CUTS         14u /* that were noted: 2 .. CUTS + 1, one a tick */
#define TICK         UINT64_C(5000000)
#define TIME_OF(cut) ((1000 + (uint64_t)(cut)) * TICK)

struct rule {
        const char *key;
        bool prefix;
        struct sb_rule_value value;
};
static struct rule rules[RULES_MAX];
static uint32_t rule_count;
static const char *const keys[] = {
        "", "a", "aa", "aaa", "aab", "ab", "abc", "abcd", "b", "ba", "bb", "c\377", "c\377\377"};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static bool begin_with_times(void)
{
        if (!make_bus(1 << 20))
                return false;
        writer.segment.os = reader.segment.os = &clock_of_the_test;
        for (uint64_t cut = 2; cut < CUTS + 2; cut++) {
                struct sb_moment moment = {
                        .cut = cut, .realtime_ns = TIME_OF(cut), .monotonic_ns = TIME_OF(cut)};

                sb_times_note(&writer.segment, &moment);
        }
        now_ns = TIME_OF(CUTS + 1);
        return writer.segment.geometry.times_count >= CUTS;
}

static bool make_rules(void)
{
        uint32_t count = 1 + draw(RULES_MAX);

        rule_count = 0;
        while (rule_count < count) {
                struct rule *rule = &rules[rule_count], *other = rules;
                unsigned char bytes[SB_KEY_LEN_MAX];
                enum sb_rule_kind kind = draw(9) ? 1 + draw(3) : SB_RULE_NEWEST;
                uint64_t rev;
                uint32_t len;

                *rule = (struct rule){.key = keys[draw(KEYS)], .prefix = draw(2)};
                rule->prefix |= !rule->key[0];
                rule->value.word = SB_RULE_WORD(kind, kind == SB_RULE_SPAN ? draw(6) * TICK : 1);
                rule->value.since = draw(8) ? 1 + draw(CUTS / 2) : 0;
                while (other < rule && (other->key != rule->key || other->prefix != rule->prefix))
                        other++;
                if (other < rule)
                        return true; /* there already: that many are enough */
                len = (uint32_t)strlen(rule->key);
                sb_rules_announce(&writer, len, rule->prefix);
                len = sb_rules_key(rule->key, len, rule->prefix, bytes);
                if (sb_op_write_reserved(&writer, bytes, len, &rule->value, sizeof(rule->value),
                            SB_OP_ANY_REV, &rev))
                        return false;
                rule_count++;
        }
        return true;
}

static bool begins_with(const char *key, const char *prefix)
{
        return !strncmp(key, prefix, strlen(prefix));
}

static bool is_longer(const struct rule *rule, const struct rule *other)
{
        return !rule->prefix || (other->prefix && strlen(rule->key) > strlen(other->key));
}

/* What applies: a key's own rule, else the longest prefix; of places of rules that went, the longer
 * ones say from which cut on. NULL: no rule. */
static const struct rule *model_rule(const char *key, bool prefix, uint64_t *ret_since)
{
        const struct rule *best = NULL;

        *ret_since = 0;
        for (uint32_t places = 0; places < 2; places++)
                for (uint32_t i = 0; i < rule_count; i++) {
                        const struct rule *rule = &rules[i];
                        bool own = !rule->prefix && !prefix && !strcmp(rule->key, key);
                        uint64_t since = rule->value.since;

                        if ((!own && !(rule->prefix && begins_with(key, rule->key))) ||
                                (SB_RULE_KIND(rule->value.word) == SB_RULE_NEWEST) != places)
                                continue;
                        if (!places && (!best || is_longer(rule, best)))
                                best = rule;
                        if (places && best && is_longer(rule, best) &&
                                (!since || since > *ret_since))
                                *ret_since = since ? since : UINT64_MAX;
                }
        return best;
}

static bool model_covers(const struct rule *rule, uint64_t cut)
{
        uint64_t span;

        if (!rule || SB_RULE_KIND(rule->value.word) == SB_RULE_NEWEST || !rule->value.since ||
                rule->value.since > cut || sb_load_relaxed(&super()->history_floor) > cut)
                return false;
        span = SB_RULE_VALUE(rule->value.word);
        /* Older than the span by the notes: the cut that was taken a span ago, or later. */
        return SB_RULE_KIND(rule->value.word) != SB_RULE_SPAN || now_ns - span < TIME_OF(2) ||
               TIME_OF(cut) >= now_ns - span;
}

static void test_a_rule_keeps_a_key_in_the_cuts_since_it_was_there(void)
{
        uint32_t counts[2] = {0};

        for (uint32_t round = 0; round < 250; round++) {
                draw_state = round;
                CHECK(begin_with_times() && make_rules());
                sb_store_relaxed(&super()->history_floor, draw(2) * draw(8));
                sb_pin(&reader);
                for (uint64_t cut = 1; cut < CUTS + 2; cut++)
                        for (uint32_t i = 1; i < KEYS; i++) {
                                uint64_t since;
                                const struct rule *rule = model_rule(keys[i], false, &since);
                                bool kept = model_covers(rule, cut) && cut >= since;

                                CHECK_EQ(sb_past_kept(
                                                 &reader, keys[i], (uint32_t)strlen(keys[i]), cut),
                                        kept);
                                counts[kept]++;
                        }
                unmake_bus();
        }
        CHECK(counts[0] > 5000 && counts[1] > 5000);
}

static void test_all_keys_with_a_prefix_are_kept_if_each_rule_for_some_of_them_keeps(void)
{
        uint32_t good = 0, ends = 0, not = 0;

        for (uint32_t round = 0; round < 250; round++) {
                draw_state = 700 + round;
                CHECK(begin_with_times() && make_rules());
                sb_store_relaxed(&super()->history_floor, draw(2) * draw(8));
                for (uint64_t cut = 1; cut < CUTS + 2; cut++)
                        for (uint32_t i = 0; i < KEYS; i++) {
                                uint64_t end = UINT64_MAX, ret = 7, since;
                                const struct rule *whole = model_rule(keys[i], true, &since);
                                bool kept = model_covers(whole, cut) && cut >= since;

                                for (uint32_t j = 0; j < rule_count; j++) {
                                        uint64_t next = cut > CUTS ? now_ns : TIME_OF(cut + 1);

                                        if (&rules[j] != whole &&
                                                !begins_with(rules[j].key, keys[i]))
                                                continue;
                                        if (SB_RULE_KIND(rules[j].value.word) == SB_RULE_NEWEST) {
                                                kept &= rules[j].value.since &&
                                                        rules[j].value.since <= cut;
                                                continue;
                                        }
                                        kept &= model_covers(&rules[j], cut);
                                        next += SB_RULE_VALUE(rules[j].value.word);
                                        if (SB_RULE_KIND(rules[j].value.word) == SB_RULE_SPAN &&
                                                next < end)
                                                end = next;
                                }
                                CHECK_EQ(sb_past_kept_all(&reader, keys[i],
                                                 (uint32_t)strlen(keys[i]), cut, &ret),
                                        kept);
                                CHECK_EQ(ret, kept ? end : 7);
                                good += kept;
                                ends += kept && end != UINT64_MAX;
                                not += !kept;
                        }
                unmake_bus();
        }
        CHECK(good > 2000 && ends > 500 && not > 2000);
}

/* While the look is at a wide rule, a narrow one goes, which has not kept the cut. */
static uint64_t take_narrow_away(void *context)
{
        bool *due = context;

        if (*due) {
                *due = false;
                (void)sb_keep_write(&writer, "ab", 2, true, 0);
        }
        return now_ns;
}

static void test_a_narrow_rule_that_goes_during_the_look_has_not_kept_the_cut(void)
{
        uint64_t end, wide = SB_RULE_WORD(SB_RULE_SPAN, 60 * UINT64_C(1000000000)), cut;
        struct sb_os os = clock_of_the_test;
        bool due = false;

        os.now_ns = take_narrow_away;
        os.context = &due;
        /* The wide rule is of the keys that are asked for, or wider still. */
        for (uint32_t len = 0; len < 2; len++) {
                CHECK(begin_with_times());
                writer.segment.os = reader.segment.os = &os;
                CHECK(!sb_keep_write(&writer, "", 0, true, wide));
                cut = sb_clock_take_cut(&writer);
                CHECK(sb_past_kept_all(&reader, "a", len, cut, &end));
                CHECK(!sb_keep_write(&writer, "ab", 2, true, SB_RULE_WORD(SB_RULE_LAST, 1)));
                CHECK(!sb_past_kept_all(&reader, "a", len, cut, &end));
                due = true;
                CHECK(!sb_past_kept_all(&reader, "a", len, cut, &end));
                unmake_bus();
        }
        /* Between the two, of all that are asked for. */
        CHECK(begin_with_times());
        writer.segment.os = reader.segment.os = &os;
        CHECK(!sb_keep_write(&writer, "", 0, true, SB_RULE_WORD(SB_RULE_ALL, 0)));
        CHECK(!sb_keep_write(&writer, "a", 1, true, wide));
        cut = sb_clock_take_cut(&writer);
        CHECK(sb_past_kept_all(&reader, "", 0, cut, &end));
        CHECK(!sb_keep_write(&writer, "ab", 2, true, SB_RULE_WORD(SB_RULE_LAST, 1)));
        due = true;
        CHECK(!sb_past_kept_all(&reader, "", 0, cut, &end));
        unmake_bus();
}

/* ---- a history ---- */

#define ALIVE_KEYS 4u
#define STEPS      260u
#define CLOCK_END  (2 * STEPS + 10)

/* What each key had in each cut; 0: nothing. */
static uint64_t truth[CLOCK_END][ALIVE_KEYS], present[ALIVE_KEYS], known_to;
static const char *const alive[ALIVE_KEYS] = {"p", "ruled-all", "ruled-last", "q"};
static uint64_t since[ALIVE_KEYS]; /* from which cut on a rule keeps all of the key; 0: none */
static char marks[8][4];
static uint64_t mark_cut[8]; /* 0: there is no such mark */

/* The present is what each cut has that was taken since the last call. */
static bool note_cuts(void)
{
        uint64_t clock = sb_load_relaxed(&super()->clock);

        if (clock > CLOCK_END)
                return false;
        for (; known_to < clock; known_to++)
                memcpy(truth[known_to], present, sizeof(present));
        return true;
}

static bool live_on(uint64_t step)
{
        uint32_t i = draw(ALIVE_KEYS), which = draw(8);
        uint64_t value = step * 7 + 1;

        switch (draw(12)) {
        case 0:
                if (!present[i] == !delete (&writer, alive[i]))
                        return false;
                present[i] = 0;
                break;
        case 1:
                if (mark_cut[which])
                        break;
                if (sb_op_mark(&writer, marks[which], 3, &mark_cut[which]))
                        return false;
                break;
        case 2:
                if (mark_cut[which] && sb_op_mark_drop(&writer, marks[which], 3))
                        return false;
                mark_cut[which] = 0;
                break;
        case 3:
                sb_work_all(draw(2) ? &writer : &reader, draw(2));
                break;
        default:
                if (put(draw(2) ? &writer : &reader, alive[i], &value, 8))
                        return false;
                present[i] = value;
        }
        sb_clock_take_cut(&reader);
        return note_cuts();
}

static bool is_marked(uint64_t cut)
{
        for (uint32_t i = 0; i < 8; i++)
                if (mark_cut[i] && mark_cut[i] == cut)
                        return true;
        return false;
}

/* Asks for a key at a cut. Return: what is wrong with the answer, or NULL. */
static const char *ask(uint32_t i, uint64_t cut, uint32_t guard, int *ret)
{
        uint32_t len = (uint32_t)strlen(alive[i]);
        struct sb_version *version = NULL;
        uint64_t held, value = 0;

        sb_pin(&reader);
        sb_guard_set(&reader, guard, 0);
        sb_unpin(&reader);
        *ret = sb_past_get(&reader, alive[i], len, cut, guard, &version);
        held = sb_guard_read(&reader.segment, reader.record, guard);
        if (held != (version ? sb_offset_of(&reader.segment, version) : 0))
                return "the guard word holds something else";
        if (version && (*ret == 0 || sb_version_has_value(version)))
                memcpy(&value, version->bytes + len, 8);
        switch (*ret) {
        case 0:
                return value && value == truth[cut][i] ? NULL : "not the value of then";
        case SB_E_NOT_FOUND:
                return truth[cut][i] ? "it had a value" : version ? "a version" : NULL;
        case SB_E_LAPPED:
                return is_marked(cut)                ? "a marked cut is not known"
                       : since[i] && cut >= since[i] ? "a cut is not known that a rule keeps"
                                                     : NULL;
        }
        return "another result";
}

static void test_every_answer_is_the_truth_and_what_is_kept_is_answered(void)
{
        uint32_t counts[3] = {0};

        for (uint32_t round = 0; round < 6; round++) {
                CHECK(make_bus(2 << 20));
                draw_state = 90 + round;
                known_to = 0;
                memset(present, 0, sizeof(present));
                memset(since, 0, sizeof(since));
                memset(mark_cut, 0, sizeof(mark_cut));
                for (uint32_t i = 0; i < 8; i++)
                        snprintf(marks[i], sizeof(marks[i]), "m%02u", i);
                CHECK(!sb_guard_grow(&reader, 3));
                for (uint64_t step = 0; step < STEPS; step++) {
                        if (step == 40) {
                                CHECK(!sb_keep_write(
                                        &writer, alive[1], 9, false, SB_RULE_WORD(SB_RULE_ALL, 0)));
                                CHECK(!sb_keep_write(&writer, alive[2], 10, false,
                                        SB_RULE_WORD(SB_RULE_LAST, 3)));
                                CHECK(note_cuts());
                                since[1] = known_to;
                        }
                        CHECK(live_on(step));
                        for (uint32_t n = 0; n < 40; n++) {
                                uint64_t cut = n < 8 && mark_cut[n]
                                                       ? mark_cut[n]
                                                       : 2 + draw((uint32_t)known_to - 2);
                                uint32_t i = draw(ALIVE_KEYS);
                                int r = 0;
                                const char *wrong = ask(i, cut, draw(4), &r);

                                if (wrong)
                                        TEST_FAIL("round %u, step %ju: %s at %ju: %s", round,
                                                (uintmax_t)step, alive[i], (uintmax_t)cut, wrong);
                                counts[!r ? 0 : r == SB_E_LAPPED ? 1 : 2]++;
                        }
                }
                unmake_bus();
        }
        CHECK(counts[0] > 3000 && counts[1] > 3000 && counts[2] > 300);
}

static void test_a_present_value_is_always_known(void)
{
        struct sb_version *version = NULL;
        uint64_t value = 5, cut;

        CHECK(make_bus(1 << 20) && !sb_guard_grow(&reader, 0));
        for (uint32_t i = 0; i < 300; i++) {
                CHECK(!put(&writer, "k", &value, 8));
                cut = sb_clock_take_cut(&writer);
                if (i % 7 == 0)
                        sb_work_all(&writer, true);
                CHECK_EQ(sb_past_get(&reader, "k", 1, cut, 0, &version), 0);
                CHECK(version && !memcmp(version->bytes + 1, &value, 8));
                value = value * 3 + 1;
        }
        unmake_bus();
}

static void test_a_key_that_was_never_made_is_known_to_be_absent_where_a_rule_covers_it(void)
{
        struct sb_version *version = NULL;
        uint64_t from;

        CHECK(make_bus(1 << 20) && !sb_guard_grow(&reader, 0));
        sb_store_relaxed(&super()->clock, 30);
        CHECK(!sb_keep_write(&writer, "ab", 2, true, SB_RULE_WORD(SB_RULE_LAST, 1)));
        from = sb_load_relaxed(&super()->clock) - 1;
        CHECK(from >= 30);
        for (uint64_t cut = 25; cut < 45; cut++) {
                CHECK_EQ(sb_past_get(&reader, "abc", 3, cut, 0, &version),
                        cut < from ? SB_E_LAPPED : SB_E_NOT_FOUND);
                CHECK_EQ(sb_past_get(&reader, "aa", 2, cut, 0, &version), SB_E_LAPPED);
        }
        sb_store_relaxed(&super()->history_floor, 36);
        for (uint64_t cut = 25; cut < 45; cut++)
                CHECK_EQ(sb_past_get(&reader, "ab", 2, cut, 0, &version),
                        cut < 36 ? SB_E_LAPPED : SB_E_NOT_FOUND);
        unmake_bus();
}

static void test_what_is_left_of_a_trimmed_past_is_held_for_the_caller(void)
{
        struct sb_version *version = NULL, *oldest = NULL;
        uint64_t guard = 0;

        CHECK(make_bus(1 << 20) && !sb_guard_grow(&reader, 1));
        sb_store_relaxed(&super()->clock, 90);
        sb_pin(&writer);
        CHECK((oldest = push("k", SB_VERSION_VALUE, 40)) && push("k", SB_VERSION_VALUE, 50));
        CHECK(push("k", SB_VERSION_DELETED, 60));
        sb_store_relaxed(&oldest->prev, SB_PREV_TRIMMED);
        for (uint64_t cut = 30; cut < 80; cut++) {
                int r = sb_past_get(&reader, "k", 1, cut, 1, &version);

                CHECK_EQ(r, cut < 40 ? SB_E_LAPPED : cut < 60 ? 0 : SB_E_NOT_FOUND);
                if (r != SB_E_NOT_FOUND)
                        guard = sb_offset_of(&reader.segment, version);
                CHECK(cut >= 40 || version == oldest);
                /* Where there is nothing to hold, the guard word stays the caller's. */
                CHECK_EQ(sb_guard_read(&reader.segment, reader.record, 1), guard);
        }
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_chain_tells_what_was_so_unless_something_is_missing_on_the_way);
        RUN(test_a_walk_meets_each_committed_version_once_and_says_what_is_missing);
        RUN(test_a_walk_meets_once_what_moves);
        RUN(test_a_key_has_a_head_if_it_is_there_and_more_than_made);
        RUN(test_an_intent_is_brought_to_its_end_if_it_may_be_in_the_cut);
        RUN(test_a_cut_is_marked_that_a_mark_in_use_has);
        RUN(test_a_rule_keeps_a_key_in_the_cuts_since_it_was_there);
        RUN(test_all_keys_with_a_prefix_are_kept_if_each_rule_for_some_of_them_keeps);
        RUN(test_a_narrow_rule_that_goes_during_the_look_has_not_kept_the_cut);
        RUN(test_every_answer_is_the_truth_and_what_is_kept_is_answered);
        RUN(test_a_present_value_is_always_known);
        RUN(test_a_key_that_was_never_made_is_known_to_be_absent_where_a_rule_covers_it);
        RUN(test_what_is_left_of_a_trimmed_past_is_held_for_the_caller);
        return test_end();
}
