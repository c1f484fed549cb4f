/*
 * Validation (shm/mvcc/validate.h): what a serializable transaction has read, over chains that the
 * test makes version by version, against a plain list of which key changed when.
 */
#include <unistd.h>

#include "shm/base/word.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/validate.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

#define RANGES_MAX 40u
#define PATIENCE_S 30u

/* What is read, before it is packed. */
struct wish {
        const char *low, *high;
        uint32_t flags;
};

static bool begin(uint64_t size)
{
        draw_state = size;
        if (!make_bus(size))
                return false;
        sb_store_relaxed(&writer.segment.super->clock, 1000);
        sb_pin(&writer);
        sb_pin(&reader);
        return true;
}

/* A descriptor that has read this, at @cut. */
static struct sb_descriptor *reading(uint64_t cut, const struct wish *wishes, uint32_t count)
{
        static unsigned char packed[RANGES_MAX * 200];
        struct sb_descriptor *commit;
        uint64_t len = 0;

        for (uint32_t i = 0; i < count; i++) {
                const char *high = wishes[i].high ? wishes[i].high : "";
                uint16_t head[3] = {(uint16_t)strlen(wishes[i].low), (uint16_t)strlen(high),
                        (uint16_t)wishes[i].flags};

                memcpy(packed + len, head, SB_RANGE_HEAD);
                len += SB_RANGE_HEAD;
                memcpy(packed + len, wishes[i].low, head[0]);
                len += head[0];
                memcpy(packed + len, high, head[1]);
                len += head[1];
        }
        commit = make_descriptor(cut, 0, len);
        if (!commit)
                return NULL;
        memcpy(&commit->write[0], packed, len);
        commit->range_count = count;
        sb_store_relaxed(&commit->status, SB_STATUS_SERIALIZABLE);
        return commit;
}

static enum sb_verdict verdict_of(const struct sb_descriptor *commit, struct sb_validation *ret)
{
        struct sb_descriptor_lists lists;

        (void)sb_descriptor_read(&reader.segment, commit, &lists);
        sb_validate_begin(commit, &lists, ret);
        return sb_validate(&reader, ret);
}

static enum sb_verdict verdict(uint64_t cut, const struct wish *wishes, uint32_t count)
{
        struct sb_descriptor *commit = reading(cut, wishes, count);
        struct sb_validation validation;

        return commit ? verdict_of(commit, &validation) : (enum sb_verdict)99;
}

static enum sb_verdict verdict_point(uint64_t cut, const char *key)
{
        struct wish wish = {key, NULL, SB_RANGE_POINT};

        return verdict(cut, &wish, 1);
}
static enum sb_verdict verdict_range(uint64_t cut, const char *low, const char *high)
{
        struct wish wish = {low, high, high ? 0 : SB_RANGE_NO_END};

        return verdict(cut, &wish, 1);
}

static void test_nothing_read_is_valid_and_so_is_what_is_not_there(void)
{
        struct sb_validation validation;
        struct sb_descriptor *commit;

        CHECK(begin(1 << 20));
        commit = make_descriptor(10, 3, 0);
        CHECK(commit && verdict_of(commit, &validation) == SB_VERDICT_VALID);
        CHECK_EQ(verdict_point(10, "no"), SB_VERDICT_VALID);
        CHECK_EQ(verdict_range(10, "", NULL), SB_VERDICT_VALID);
        CHECK_EQ(verdict_range(10, "a", "b"), SB_VERDICT_VALID);
        unmake_bus();
}

static void test_a_stamp_above_the_cut_is_a_change_and_one_in_it_is_none(void)
{
        CHECK(begin(1 << 20));
        CHECK(push("k", SB_VERSION_VALUE, 20) && push("k", SB_VERSION_VALUE, 30));
        CHECK_EQ(verdict_point(29, "k"), SB_VERDICT_CHANGED);
        CHECK_EQ(verdict_point(30, "k"), SB_VERDICT_VALID);
        CHECK_EQ(verdict_range(29, "", NULL), SB_VERDICT_CHANGED);
        CHECK_EQ(verdict_range(30, "", NULL), SB_VERDICT_VALID);
        CHECK(push("k", SB_VERSION_DELETED, 40)); /* a delete is one, too */
        CHECK_EQ(verdict_point(39, "k"), SB_VERDICT_CHANGED);
        CHECK_EQ(verdict_point(40, "k"), SB_VERDICT_VALID);
        unmake_bus();
}

static void test_a_version_without_a_stamp_takes_one_and_is_a_change(void)
{
        struct sb_version *version;

        CHECK(begin(1 << 20));
        version = push("k", SB_VERSION_VALUE, 0);
        CHECK(version && verdict_point(999, "k") == SB_VERDICT_CHANGED);
        CHECK_EQ(sb_load_relaxed(&version->stamp), 1000);
        unmake_bus();
}

static void test_a_point_is_one_key_and_a_range_ends_before_its_end(void)
{
        static const char *const others[] = {"j", "k\1", "ka", "kk", "l"};

        CHECK(begin(1 << 20));
        CHECK(push("k", SB_VERSION_VALUE, 10));
        for (uint32_t i = 0; i < 5; i++)
                CHECK(push(others[i], SB_VERSION_VALUE, 50));
        CHECK_EQ(verdict_point(20, "k"), SB_VERDICT_VALID);
        CHECK_EQ(verdict_point(20, "ka"), SB_VERDICT_CHANGED);
        CHECK_EQ(verdict_range(20, "k", "k\1"), SB_VERDICT_VALID);
        CHECK_EQ(verdict_range(20, "k", "k\1\1"), SB_VERDICT_CHANGED);
        CHECK_EQ(verdict_range(20, "k\1", "k\1"), SB_VERDICT_VALID); /* empty */
        CHECK_EQ(verdict_range(20, "kb", "ka"), SB_VERDICT_VALID);   /* less than that */
        CHECK_EQ(verdict_range(20, "kl", "l"), SB_VERDICT_VALID);    /* between two keys */
        CHECK_EQ(verdict_range(20, "l", NULL), SB_VERDICT_CHANGED);
        CHECK_EQ(verdict_range(20, "l\1", NULL), SB_VERDICT_VALID);
        unmake_bus();
}

static void test_any_ranges_over_any_changes_as_a_list_of_them_says(void)
{
        enum { KEYS = 300 };
        static char names[KEYS][8];
        static uint64_t stamps[KEYS]; /* 0: there is no such key */
        uint32_t seen[3] = {0};

        CHECK(begin(8 << 20));
        for (uint32_t i = 0; i < KEYS; i++) {
                snprintf(names[i], sizeof(names[i]), "k%03u", i);
                stamps[i] = 0;
                if (!draw(4))
                        continue;
                for (uint32_t n = 1 + draw(3); n; n--) {
                        stamps[i] += 1 + draw(300);
                        CHECK(push(names[i], draw(5) ? SB_VERSION_VALUE : SB_VERSION_DELETED,
                                stamps[i]));
                        if (!draw(8)) /* what was aborted never counts */
                                CHECK(push(names[i], SB_VERSION_VALUE, SB_STAMP_ABORTED));
                }
        }
        for (uint32_t step = 0; step < 1500; step++) {
                struct wish wishes[4];
                uint64_t cut = draw(4) ? 500 + draw(450) : draw(500);
                uint32_t count = 1 + draw(4), first = UINT32_MAX;
                struct sb_validation validation;
                struct sb_descriptor *commit;
                enum sb_verdict r;

                for (uint32_t j = 0; j < count; j++) {
                        uint32_t low = draw(KEYS), high = low + draw(12);

                        wishes[j] = (struct wish){names[low], high < KEYS ? names[high] : NULL,
                                high < KEYS ? 0 : SB_RANGE_NO_END};
                        if (draw(2))
                                high = low + 1,
                                wishes[j] = (struct wish){names[low], NULL, SB_RANGE_POINT};
                        for (uint32_t k = low; k < high && k < KEYS && first > j; k++)
                                if (stamps[k] > cut)
                                        first = j;
                }
                commit = reading(cut, wishes, count);
                CHECK(commit);
                r = verdict_of(commit, &validation);
                CHECK_EQ(r, first < count ? SB_VERDICT_CHANGED : SB_VERDICT_VALID);
                CHECK_EQ(validation.range, first < count ? first : count);
                seen[r]++;
                sb_slab_give_back(&writer, sb_offset_of(&writer.segment, commit));
        }
        CHECK(seen[SB_VERDICT_VALID] > 100 && seen[SB_VERDICT_CHANGED] > 100);
        unmake_bus();
}

static void test_an_own_intent_is_no_change_and_ends_the_look(void)
{
        struct wish wishes[] = {{"k", NULL, SB_RANGE_POINT}, {"j", "l", 0}};
        struct sb_validation validation;
        struct sb_descriptor *commit;

        CHECK(begin(1 << 20));
        CHECK(push("k", SB_VERSION_VALUE, 10));
        commit = reading(20, wishes, 2);
        CHECK(commit && push("k", SB_VERSION_VALUE, intent_of(commit)));
        CHECK_EQ(verdict_of(commit, &validation), SB_VERDICT_VALID);
        CHECK(!validation.met);
        CHECK_EQ(SB_STATUS_STATE(sb_descriptor_status(commit)), SB_STATUS_UNDECIDED);
        /* Another key in the range still counts. */
        CHECK(push("kk", SB_VERSION_VALUE, 21));
        CHECK_EQ(verdict_of(commit, &validation), SB_VERDICT_CHANGED);
        CHECK_EQ(validation.range, 1);
        unmake_bus();
}

static void test_an_undecided_intent_of_another_is_in_the_way(void)
{
        struct wish wish = {"a", NULL, SB_RANGE_NO_END};
        struct sb_descriptor *other, *commit;
        struct sb_validation validation;
        struct sb_version *intent;

        CHECK(begin(1 << 20));
        CHECK(push("a", SB_VERSION_VALUE, 10) && push("b", SB_VERSION_VALUE, 10));
        other = make_descriptor(15, 0, 0);
        commit = reading(20, &wish, 1);
        CHECK(other && commit && (intent = push("b", SB_VERSION_VALUE, intent_of(other))));
        CHECK_EQ(verdict_of(commit, &validation), SB_VERDICT_IN_THE_WAY);
        CHECK(validation.met == intent);
        CHECK_EQ(sb_load_relaxed(&intent->stamp), intent_of(other));        /* it only looks */
        CHECK_EQ(sb_validate(&reader, &validation), SB_VERDICT_IN_THE_WAY); /* and stands still */
        sb_descriptor_decide(other, SB_STATUS_ABORTED, 0);
        CHECK_EQ(sb_validate(&reader, &validation), SB_VERDICT_VALID);
        CHECK_EQ(sb_load_relaxed(&intent->stamp), SB_STAMP_ABORTED);
        unmake_bus();
}

static void test_an_intent_that_was_committed_meanwhile_is_a_change_by_its_stamp(void)
{
        static const uint64_t stamps[] = {0, 21, 20, 12}; /* 0: it takes the clock */

        for (uint32_t i = 0; i < 4; i++) {
                struct sb_validation validation;
                struct sb_descriptor *other, *commit;
                struct wish wish = {"b", NULL, i % 2 ? SB_RANGE_NO_END : SB_RANGE_POINT};

                CHECK(begin(1 << 20));
                CHECK(push("b", SB_VERSION_VALUE, 10));
                other = make_descriptor(11, 0, 0);
                commit = reading(20, &wish, 1);
                CHECK(other && commit && push("b", SB_VERSION_VALUE, intent_of(other)));
                CHECK_EQ(verdict_of(commit, &validation), SB_VERDICT_IN_THE_WAY);
                sb_descriptor_decide(other, SB_STATUS_COMMITTED, stamps[i]);
                CHECK_EQ(sb_validate(&reader, &validation),
                        i < 2 ? SB_VERDICT_CHANGED : SB_VERDICT_VALID);
                unmake_bus();
        }
}

static void test_the_look_goes_on_where_an_intent_was_in_the_way(void)
{
        struct wish wishes[] = {{"a", "d", 0}, {"x", NULL, SB_RANGE_POINT}, {"k", NULL, 1}};
        struct sb_descriptor *others[2], *commit;
        struct sb_validation validation;
        const char *key;

        CHECK(begin(1 << 20));
        for (key = "abckx"; *key; key++)
                CHECK(push((const char[]){*key, 0}, SB_VERSION_VALUE, 10));
        commit = reading(20, wishes, 3);
        CHECK(commit && (others[0] = make_descriptor(9, 0, 0)) &&
                (others[1] = make_descriptor(9, 0, 0)));
        CHECK(push("b", SB_VERSION_VALUE, intent_of(others[0])));
        CHECK(push("x", SB_VERSION_VALUE, intent_of(others[1])));
        CHECK_EQ(verdict_of(commit, &validation), SB_VERDICT_IN_THE_WAY);
        CHECK_EQ(validation.range, 0);
        CHECK(validation.node == sb_order_find(&reader, "b", 1));
        /* What lies before is not looked at once more. */
        CHECK(push("a", SB_VERSION_VALUE, 30));
        sb_descriptor_decide(others[0], SB_STATUS_ABORTED, 0);
        CHECK_EQ(sb_validate(&reader, &validation), SB_VERDICT_IN_THE_WAY);
        CHECK_EQ(validation.range, 1);
        CHECK_EQ(sb_load_relaxed(&validation.met->stamp), intent_of(others[1]));
        CHECK(push("c", SB_VERSION_VALUE, 30));
        sb_descriptor_decide(others[1], SB_STATUS_ABORTED, 0);
        /* What lies behind is. */
        CHECK(push("k", SB_VERSION_VALUE, 31));
        CHECK_EQ(sb_validate(&reader, &validation), SB_VERDICT_CHANGED);
        CHECK_EQ(validation.range, 2);
        unmake_bus();
}

static void test_a_key_made_behind_a_node_that_left_meanwhile_is_met(void)
{
        struct wish wish = {"a", "d", 0};
        struct sb_descriptor *other, *commit;
        struct sb_validation validation;
        struct sb_node *node;

        CHECK(begin(1 << 20));
        CHECK(push("a", SB_VERSION_VALUE, 10) && push("b", SB_VERSION_VALUE, 10) &&
                push("c", SB_VERSION_VALUE, 10));
        commit = reading(20, &wish, 1);
        CHECK(commit && (other = make_descriptor(9, 0, 0)));
        CHECK(push("b", SB_VERSION_VALUE, intent_of(other)));
        CHECK_EQ(verdict_of(commit, &validation), SB_VERDICT_IN_THE_WAY);
        sb_descriptor_decide(other, SB_STATUS_ABORTED, 0);
        node = sb_order_find(&writer, "b", 1);
        sb_order_remove(&writer, node);
        CHECK(push("bb", SB_VERSION_VALUE, 30)); /* its link leads past this one */
        CHECK_EQ(sb_validate(&reader, &validation), SB_VERDICT_CHANGED);
        CHECK(validation.node == sb_order_find(&reader, "bb", 2));
        unmake_bus();
}

static void test_what_is_under_aborted_versions_decides(void)
{
        CHECK(begin(1 << 20));
        CHECK(push("old", SB_VERSION_VALUE, 10) && push("new", SB_VERSION_VALUE, 30));
        for (uint32_t i = 0; i < 5; i++)
                CHECK(push("old", SB_VERSION_VALUE, SB_STAMP_ABORTED) &&
                        push("new", SB_VERSION_VALUE, SB_STAMP_ABORTED) &&
                        push("none", SB_VERSION_VALUE, SB_STAMP_ABORTED));
        CHECK_EQ(verdict_point(20, "old"), SB_VERDICT_VALID);
        CHECK_EQ(verdict_point(20, "none"), SB_VERDICT_VALID);
        CHECK_EQ(verdict_point(20, "new"), SB_VERDICT_CHANGED);
        CHECK_EQ(verdict_range(20, "new", "nez"), SB_VERDICT_CHANGED);
        CHECK_EQ(verdict_range(20, "none", "p"), SB_VERDICT_VALID);
        unmake_bus();
}

/* A chain that goes round, of versions of which none decides: nothing is committed by a guess. */
static void test_a_chain_without_an_end_is_a_change(void)
{
        struct sb_version *first, *last;

        CHECK(begin(1 << 20));
        CHECK(push("k", SB_VERSION_VALUE, 10));
        CHECK((first = push("k", SB_VERSION_VALUE, SB_STAMP_ABORTED)));
        CHECK((last = push("k", SB_VERSION_VALUE, SB_STAMP_ABORTED)));
        CHECK_EQ(verdict_point(20, "k"), SB_VERDICT_VALID);
        sb_store_relaxed(&first->prev, sb_offset_of(&writer.segment, last));
        alarm(PATIENCE_S);
        CHECK_EQ(verdict_point(20, "k"), SB_VERDICT_CHANGED);
        CHECK_EQ(verdict_range(20, "k", NULL), SB_VERDICT_CHANGED);
        alarm(0);
        unmake_bus();
}

static void test_a_placeholder_or_a_key_that_is_being_removed_is_no_change(void)
{
        struct sb_spot spot;

        CHECK(begin(1 << 20));
        CHECK(spot_of("held", &spot));
        CHECK_EQ(SB_SHAPE_KIND(spot.head->shape), SB_VERSION_PLACEHOLDER);
        CHECK(push("going", SB_VERSION_DELETED, 30) && spot_of("going", &spot));
        CHECK_EQ(verdict_range(20, "", NULL), SB_VERDICT_CHANGED);
        sb_or_full(spot.cell, SB_CELL_FROZEN);
        CHECK_EQ(verdict_range(20, "", NULL), SB_VERDICT_VALID);
        CHECK_EQ(verdict_point(20, "going"), SB_VERDICT_VALID);
        CHECK_EQ(verdict_point(20, "held"), SB_VERDICT_VALID);
        unmake_bus();
}

static void test_ranges_that_do_not_fit_their_bytes_end_the_look(void)
{
        struct wish wishes[] = {{"a", NULL, SB_RANGE_POINT}, {"b", NULL, SB_RANGE_POINT}};
        struct sb_validation validation;
        struct sb_descriptor *commit;
        uint16_t *head;

        CHECK(begin(1 << 20));
        CHECK(push("b", SB_VERSION_VALUE, 30));
        commit = reading(20, wishes, 2);
        CHECK(commit);
        CHECK_EQ(verdict_of(commit, &validation), SB_VERDICT_CHANGED);
        commit->range_count = UINT32_MAX;
        CHECK_EQ(verdict_of(commit, &validation), SB_VERDICT_CHANGED);
        head = (uint16_t *)&commit->write[0];
        CHECK(!sb_damage_take(&reader));
        head[1] = UINT16_MAX; /* the first one's end lies behind them all */
        CHECK_EQ(verdict_of(commit, &validation), SB_VERDICT_CHANGED);
        CHECK_EQ(validation.range, 0);
        CHECK(sb_damage_take(&reader));
        head[1] = 0;
        commit->ranges_len--; /* one byte is missing */
        commit->shape -= SB_SHAPE(1, 0, 0, 0);
        CHECK_EQ(verdict_of(commit, &validation), SB_VERDICT_CHANGED);
        CHECK_EQ(validation.range, 1);
        CHECK(sb_damage_take(&reader));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_nothing_read_is_valid_and_so_is_what_is_not_there);
        RUN(test_a_stamp_above_the_cut_is_a_change_and_one_in_it_is_none);
        RUN(test_a_version_without_a_stamp_takes_one_and_is_a_change);
        RUN(test_a_point_is_one_key_and_a_range_ends_before_its_end);
        RUN(test_any_ranges_over_any_changes_as_a_list_of_them_says);
        RUN(test_an_own_intent_is_no_change_and_ends_the_look);
        RUN(test_an_undecided_intent_of_another_is_in_the_way);
        RUN(test_an_intent_that_was_committed_meanwhile_is_a_change_by_its_stamp);
        RUN(test_the_look_goes_on_where_an_intent_was_in_the_way);
        RUN(test_a_key_made_behind_a_node_that_left_meanwhile_is_met);
        RUN(test_what_is_under_aborted_versions_decides);
        RUN(test_a_chain_without_an_end_is_a_change);
        RUN(test_a_placeholder_or_a_key_that_is_being_removed_is_no_change);
        RUN(test_ranges_that_do_not_fit_their_bytes_end_the_look);
        return test_end();
}
