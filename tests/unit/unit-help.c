/*
 * Helping (shm/mvcc/help.h): transactions that were left at any step are brought to their end by a
 * process that meets them. The test makes descriptors and intents itself, and leaves them where it
 * likes.
 */
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/superblock.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/help.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

#define CLOCK     400u
#define KEYS      96u
#define CYCLE_MAX 60u /* transactions in a cycle */

static char names[KEYS][8];

static bool begin(void)
{
        if (!make_bus(1 << 20))
                return false;
        sb_store_relaxed(&writer.segment.super->clock, CLOCK);
        sb_pin(&writer);
        sb_pin(&reader);
        for (uint32_t i = 0; i < KEYS; i++)
                snprintf(names[i], sizeof(names[i]), "k%02u", i);
        return true;
}

static struct sb_version *head_of(const char *key)
{
        struct sb_spot spot;

        return spot_of(key, &spot) ? spot.head : NULL;
}

static uint64_t at(const void *block)
{
        return sb_offset_of(&writer.segment, block);
}

static uint64_t prev_of(const struct sb_version *version)
{
        return sb_load_relaxed(&version->prev);
}

static enum sb_status state_of(const struct sb_descriptor *commit)
{
        return SB_STATUS_STATE(sb_descriptor_status(commit));
}
static uint64_t value_of(const struct sb_descriptor *commit)
{
        return SB_STATUS_VALUE(sb_descriptor_status(commit));
}
static bool is_aborted(const struct sb_descriptor *commit, uint64_t cause)
{
        return state_of(commit) == SB_STATUS_ABORTED && value_of(commit) == cause;
}

/* ---- installing ---- */

static void test_however_far_its_owner_came_a_helper_does_the_rest_and_copies_into_one(void)
{
        enum { WRITES = 7 };

        for (uint32_t step = 0; step < WRITES * WRITES * 2; step++) {
                uint32_t done = step % WRITES, met = step / WRITES % WRITES;
                bool serializable = step >= WRITES * WRITES;
                struct sb_version *versions[WRITES], *below[WRITES];
                struct sb_descriptor *commit;

                CHECK(begin());
                CHECK((commit = make_descriptor(CLOCK - 1, WRITES, 0)));
                if (serializable)
                        sb_store_relaxed(&commit->status, SB_STATUS_SERIALIZABLE);
                for (uint32_t i = 0; i < WRITES; i++) {
                        /* The key is new, or had a value. */
                        CHECK(i % 3 == 0 || push(names[i], SB_VERSION_VALUE, 100 + i));
                        CHECK((versions[i] = intend(commit, i, names[i])));
                        below[i] = head_of(names[i]);
                }
                for (uint32_t i = 0; i < done; i++)
                        CHECK(install_intent(versions[i], names[i]));
                sb_help_version(&reader, versions[met]);
                CHECK_EQ(sb_descriptor_status(commit),
                        SB_STATUS_OF(SB_STATUS_COMMITTED, CLOCK) |
                                (serializable ? SB_STATUS_SERIALIZABLE : 0));
                for (uint32_t i = 0; i < WRITES; i++) {
                        CHECK(head_of(names[i]) == versions[i]);
                        CHECK_EQ(prev_of(versions[i]), at(below[i]));
                        CHECK_EQ(sb_load_relaxed(&versions[i]->stamp),
                                i == met ? CLOCK : intent_of(commit));
                        CHECK_EQ(sb_load_relaxed(&versions[i]->block.retire), SB_RETIRE_HELD);
                }
                CHECK_EQ(reader.counters.helped, 1);
                unmake_bus();
        }
}

static void test_a_version_that_is_no_intent_is_left_as_it_is(void)
{
        static const uint64_t stamps[] = {0, 1, 55, SB_STAMP_ABORTED, SB_STAMP_INTENT,
                SB_STAMP_INTENT | 0x10, SB_STAMP_INTENT | SB_OFFSET_MASK};

        for (uint32_t i = 0; i < sizeof(stamps) / sizeof(stamps[0]); i++) {
                struct sb_version *version;
                uint64_t word;

                CHECK(begin());
                CHECK((version = push("k", SB_VERSION_VALUE, stamps[i])));
                word = sb_load_relaxed(&version->prev);
                sb_help_version(&reader, version);
                CHECK_EQ(sb_load_relaxed(&version->stamp), stamps[i]);
                CHECK_EQ(sb_load_relaxed(&version->prev), word);
                CHECK_EQ(reader.counters.helped, 0);
                unmake_bus();
        }
}

static void test_an_intent_goes_into_the_cell_beside_its_tag_and_flags(void)
{
        static const uint64_t flags[] = {
                0, SB_CELL_KEPT, 4, 8, SB_CELL_KEPT | 4, SB_CELL_KEPT | 12};

        for (uint32_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
                struct sb_descriptor *commit;
                struct sb_version *version;
                struct sb_spot spot;

                CHECK(begin());
                CHECK(push("key", SB_VERSION_VALUE, 100));
                CHECK((commit = make_descriptor(CLOCK - 1, 1, 0)));
                CHECK((version = intend(commit, 0, "key")) && spot_of("key", &spot));
                sb_or_full(spot.cell, flags[i]);
                sb_help_decide(&reader, commit);
                CHECK_EQ(sb_load_relaxed(spot.cell),
                        (hash_of("key", 3) & SB_TAG_MASK) | at(version) | flags[i]);
                unmake_bus();
        }
}

/* Between the owner's look and the install another version came, at write @i of five. */
static void test_a_head_that_was_replaced_by_a_value_ends_it_and_what_follows_is_not_installed(void)
{
        for (uint32_t i = 0; i < 5; i++) {
                struct sb_version *versions[5], *newer = NULL;
                struct sb_descriptor *commit;

                CHECK(begin());
                CHECK((commit = make_descriptor(CLOCK - 1, 5, 0)));
                for (uint32_t j = 0; j < 5; j++)
                        CHECK((versions[j] = intend(commit, j, names[j])));
                CHECK((newer = push(names[i], i % 2 ? SB_VERSION_VALUE : SB_VERSION_DELETED, 0)));
                sb_help_version(&reader, versions[0]);
                CHECK(is_aborted(commit, 1 + i));
                for (uint32_t j = 0; j < 5; j++)
                        CHECK_EQ(head_of(names[j]) == versions[j], j < i);
                CHECK(head_of(names[i]) == newer);
                CHECK_EQ(sb_load_relaxed(&newer->stamp), CLOCK); /* it was met, so it has one */
                CHECK_EQ(sb_load_relaxed(&versions[0]->stamp), SB_STAMP_ABORTED);
                unmake_bus();
        }
}

static void test_aborted_versions_that_came_on_top_are_no_conflict_and_lie_below_then(void)
{
        for (uint32_t count = 1; count < 12; count += 2) {
                struct sb_descriptor *commit;
                struct sb_version *version, *top = NULL;

                CHECK(begin());
                CHECK(push("k", SB_VERSION_VALUE, 100));
                CHECK((commit = make_descriptor(CLOCK - 1, 1, 0)));
                CHECK((version = intend(commit, 0, "k")));
                for (uint32_t i = 0; i < count; i++)
                        CHECK((top = push("k", SB_VERSION_VALUE, SB_STAMP_ABORTED)));
                sb_help_decide(&reader, commit);
                CHECK_EQ(state_of(commit), SB_STATUS_COMMITTED);
                CHECK(head_of("k") == version && prev_of(version) == at(top));
                unmake_bus();
        }
}

static void test_a_settled_link_says_that_the_intent_was_in(void)
{
        for (uint32_t settled = 0; settled < 2; settled++) {
                struct sb_descriptor *commit;
                struct sb_version *version, *newer;

                CHECK(begin());
                CHECK((commit = make_descriptor(CLOCK - 1, 1, 0)));
                CHECK((version = intend(commit, 0, "k")));
                CHECK((newer = push("k", SB_VERSION_VALUE, 300)));
                if (settled)
                        sb_store_relaxed(&version->prev, SB_PREV_SETTLED | SB_PREV_TRIMMED);
                sb_help_decide(&reader, commit);
                CHECK_EQ(state_of(commit), settled ? SB_STATUS_COMMITTED : SB_STATUS_ABORTED);
                CHECK(head_of("k") == newer);
                CHECK(!settled || prev_of(version) == (SB_PREV_SETTLED | SB_PREV_TRIMMED));
                unmake_bus();
        }
}

static void test_a_key_that_went_away_ends_it(void)
{
        enum { EMPTY, FROZEN, OF_ANOTHER, NO_CELL, GONE, UNCONFIRMED, NOTHING, NO_VERSION, CASES };

        for (uint32_t i = 0; i < CASES; i++) {
                struct sb_descriptor *commit;
                struct sb_version *version, *other;
                struct sb_node *node;
                struct sb_spot spot;
                uint64_t word;

                CHECK(begin());
                CHECK(push("k", SB_VERSION_VALUE, 100));
                CHECK((other = push("other", SB_VERSION_VALUE, 100)));
                CHECK((commit = make_descriptor(CLOCK - 1, 2, 0)) && intend(commit, 0, "j"));
                CHECK((version = intend(commit, 1, "k")) && spot_of("k", &spot));
                node = sb_node_at(&writer.segment, version->node);
                word = i == EMPTY        ? 0
                       : i == FROZEN     ? spot.word | SB_CELL_FROZEN
                       : i == OF_ANOTHER ? (spot.word & ~SB_OFFSET_MASK) | at(other)
                       : i == NOTHING    ? spot.word | SB_OFFSET_MASK
                                         : spot.word;
                sb_store_relaxed(spot.cell, word);
                if (i == NO_CELL || i == GONE)
                        sb_store_relaxed(&node->cell, i == GONE ? SB_NODE_GONE : 0);
                if (i == UNCONFIRMED) {
                        spot.head->shape = SB_SHAPE(0, 1, SB_VERSION_PLACEHOLDER, 0);
                        sb_store_relaxed(&spot.head->stamp, 0);
                }
                if (i == NO_VERSION)
                        commit->write[1] = 24;
                sb_help_decide(&reader, commit);
                if (!is_aborted(commit, SB_CAUSE_GONE))
                        TEST_FAIL(
                                "case %u: status %jx", i, (uintmax_t)sb_descriptor_status(commit));
                CHECK_EQ(sb_load_relaxed(spot.cell), word);
                CHECK_EQ(prev_of(version), at(spot.head));
                unmake_bus();
        }
}

static void test_a_helper_that_comes_late_changes_no_chain(void)
{
        for (uint32_t aborted = 0; aborted < 2; aborted++) {
                struct sb_version *version, *head, *second;
                struct sb_descriptor *commit;
                uint64_t links[2];

                CHECK(begin());
                CHECK((commit = make_descriptor(CLOCK - 1, 2, 0)));
                CHECK((version = intend(commit, 0, "k")) && install_intent(version, "k"));
                CHECK((second = intend(
                               commit, 1, "l"))); /* which was never installed, or is gone */
                sb_descriptor_decide(
                        commit, aborted ? SB_STATUS_ABORTED : SB_STATUS_COMMITTED, 333);
                CHECK((head = push("k", SB_VERSION_VALUE, 350)));
                links[0] = prev_of(version);
                links[1] = prev_of(second);
                sb_store_relaxed(&writer.segment.super->clock, 500);
                sb_help_version(&reader, version);
                CHECK_EQ(sb_load_relaxed(&version->stamp), aborted ? SB_STAMP_ABORTED : 333);
                CHECK(head_of("k") == head && head_of("l") != second);
                CHECK(prev_of(version) == links[0] && prev_of(second) == links[1]);
                CHECK_EQ(sb_load_relaxed(&second->stamp), intent_of(commit));
                unmake_bus();
        }
}

/* ---- deciding ---- */

static void test_a_serializable_one_keeps_the_stamp_that_was_read_first(void)
{
        static const uint64_t values[] = {0, SB_STATUS_STAMPING, 2, 77, CLOCK - 1};

        for (uint32_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
                struct sb_descriptor *commit;
                struct sb_version *version;

                CHECK(begin());
                CHECK((commit = make_descriptor(60, 1, 0)));
                CHECK((version = intend(commit, 0, "k")) && install_intent(version, "k"));
                sb_store_relaxed(&commit->status,
                        SB_STATUS_SERIALIZABLE | SB_STATUS_OF(SB_STATUS_UNDECIDED, values[i]));
                sb_help_version(&reader, version);
                CHECK_EQ(state_of(commit), SB_STATUS_COMMITTED);
                CHECK_EQ(value_of(commit), i < 2 ? CLOCK : values[i]);
                CHECK_EQ(sb_load_relaxed(&version->stamp), value_of(commit));
                unmake_bus();
        }
}

/* A descriptor with one write, which is installed, and so many points that it has read. */
static struct sb_descriptor *reading(
        const char *written, uint32_t count, const char *const *keys, uint64_t cut)
{
        struct sb_descriptor *commit;
        unsigned char *to;
        uint64_t len = 0;

        for (uint32_t i = 0; i < count; i++)
                len += SB_RANGE_HEAD + strlen(keys[i]);
        commit = make_descriptor(cut, 1, len);
        if (!commit || !install_intent(intend(commit, 0, written), written))
                return NULL;
        to = (unsigned char *)&commit->write[1];
        for (uint32_t i = 0; i < count; i++) {
                uint16_t head[3] = {(uint16_t)strlen(keys[i]), 0, SB_RANGE_POINT};

                memcpy(to, head, SB_RANGE_HEAD);
                memcpy(to + SB_RANGE_HEAD, keys[i], head[0]);
                to += SB_RANGE_HEAD + head[0];
        }
        commit->range_count = count;
        sb_store_relaxed(&commit->status, SB_STATUS_SERIALIZABLE);
        return commit;
}

static void test_the_first_range_that_changed_is_the_cause(void)
{
        static const char *const keys[] = {"a", "b", "c", "d", "e", "f"};

        for (uint32_t changed = 1; changed < 64; changed++) {
                struct sb_descriptor *commit;

                CHECK(begin());
                for (uint32_t i = 0; i < 6; i++)
                        CHECK(push(keys[i], SB_VERSION_VALUE, changed >> i & 1 ? 201 : 200));
                CHECK((commit = reading("k", 6, keys, 200)));
                sb_help_decide(&reader, commit);
                CHECK(is_aborted(commit, 2 + (uint64_t)__builtin_ctz(changed)));
                unmake_bus();
        }
}

static void test_for_the_stable_cut_only_what_may_have_its_stamp_is_decided(void)
{
        enum { FRESH, FRESH_SERIALIZABLE, STAMPING, STAMPED, COMMITTED, ABORTED, CASES };

        for (uint32_t i = 0; i < CASES; i++) {
                static const uint64_t before[] = {0, SB_STATUS_SERIALIZABLE,
                        SB_STATUS_SERIALIZABLE | SB_STATUS_OF(0, SB_STATUS_STAMPING),
                        SB_STATUS_SERIALIZABLE | SB_STATUS_OF(0, 350), SB_STATUS_COMMITTED,
                        SB_STATUS_OF(SB_STATUS_ABORTED, 3)};
                static const uint64_t after[] = {0, SB_STATUS_SERIALIZABLE,
                        SB_STATUS_SERIALIZABLE | SB_STATUS_OF(SB_STATUS_COMMITTED, CLOCK),
                        SB_STATUS_SERIALIZABLE | SB_STATUS_OF(SB_STATUS_COMMITTED, 350),
                        SB_STATUS_OF(SB_STATUS_COMMITTED, CLOCK),
                        SB_STATUS_OF(SB_STATUS_ABORTED, 3)};
                struct sb_descriptor *commit;
                struct sb_version *version;

                CHECK(begin());
                CHECK((commit = make_descriptor(60, 1, 0)));
                CHECK((version = intend(commit, 0, "k")) && install_intent(version, "k"));
                sb_store_relaxed(&commit->status, before[i]);
                sb_help_resolve(&reader, commit);
                CHECK_EQ(sb_descriptor_status(commit), after[i]);
                CHECK_EQ(sb_load_relaxed(&version->stamp), intent_of(commit));
                unmake_bus();
        }
}

/* ---- others in the way ---- */

static void test_another_one_in_the_way_comes_to_its_end_first(void)
{
        for (uint32_t aborts = 0; aborts < 2; aborts++) {
                struct sb_descriptor *mine, *other;
                struct sb_version *in_the_way, *version;

                CHECK(begin());
                CHECK((mine = make_descriptor(CLOCK - 1, 2, 0)) && intend(mine, 0, "a"));
                CHECK((version = intend(mine, 1, "m")));
                CHECK((other = make_descriptor(CLOCK - 1, 2, 0)));
                CHECK((in_the_way = intend(other, 0, "m")) && install_intent(in_the_way, "m"));
                CHECK(intend(other, 1, "z"));
                if (aborts)
                        CHECK(push("z", SB_VERSION_VALUE, 300));
                sb_help_decide(&reader, mine);
                if (aborts) {
                        CHECK(is_aborted(other, 2));
                        CHECK_EQ(state_of(mine), SB_STATUS_COMMITTED);
                        CHECK(head_of("m") == version && prev_of(version) == at(in_the_way));
                } else {
                        CHECK(is_aborted(mine, 2));
                        CHECK_EQ(state_of(other), SB_STATUS_COMMITTED);
                        CHECK(head_of("m") == in_the_way && at(head_of("z")) == other->write[1]);
                }
                unmake_bus();
        }
}

/* Each transaction has written a key of its own, and waits for the next one: the last for the first
 * in a cycle, or for none. */
static struct sb_descriptor *waiting[KEYS];

/* @written: it waits with its second write; else with what it has read. @order: in which order the
 * descriptors are made, hence lie in memory. */
static bool make_waiting(uint32_t count, bool cycle, bool written, const uint32_t *order)
{
        for (uint32_t j = 0; j < count; j++)
                if (!push(names[j], SB_VERSION_VALUE, 100))
                        return false;
        for (uint32_t j = 0; j < count; j++) {
                uint32_t i = order ? order[j] : j, next = (i + 1) % count;
                const char *key = names[next];
                bool waits = cycle || next;

                if (!written) {
                        waiting[i] = reading(names[i], waits, &key, CLOCK - 1);
                        if (!waiting[i])
                                return false;
                        continue;
                }
                waiting[i] = make_descriptor(CLOCK - 1, waits ? 2 : 1, 0);
                /* Built before any is in: over the value. */
                if (!waiting[i] || !intend(waiting[i], 0, names[i]) ||
                        (waits && !intend(waiting[i], 1, key)))
                        return false;
        }
        for (uint32_t i = 0; i < count && written; i++)
                if (!install_intent(sb_version_at(&writer.segment, waiting[i]->write[0]), names[i]))
                        return false;
        return true;
}

static void test_a_long_path_is_cut_off_behind_sixty_four(void)
{
        CHECK(begin());
        CHECK(make_waiting(80, false, true, NULL));
        sb_help_decide(&reader, waiting[0]);
        /* 0 .. 63 wait for the next one each; 64 gives way, and every second one goes on. */
        CHECK(is_aborted(waiting[64], 0));
        for (uint32_t i = 0; i < 64; i++)
                CHECK(i % 2 ? state_of(waiting[i]) == SB_STATUS_COMMITTED
                            : is_aborted(waiting[i], 2));
        for (uint32_t i = 65; i < 80; i++)
                CHECK_EQ(sb_descriptor_status(waiting[i]), 0);
        unmake_bus();
}

static void test_a_shorter_path_is_gone_down_to_its_end(void)
{
        for (uint32_t count = 1; count <= 64; count += 9) {
                CHECK(begin());
                CHECK(make_waiting(count, false, true, NULL));
                sb_help_decide(&reader, waiting[0]);
                for (uint32_t i = 0; i < count; i++)
                        CHECK((count - i) % 2 ? state_of(waiting[i]) == SB_STATUS_COMMITTED
                                              : is_aborted(waiting[i], 2));
                unmake_bus();
        }
}

/* In any order, begun anywhere: the one of the greatest offset gives way; the one that waits for it
 * goes on, and the one before that one finds a change. */
static bool cycle_ends_well(uint32_t count, bool written, uint32_t start)
{
        uint32_t order[KEYS], last = 0;

        for (uint32_t i = 0; i < count; i++)
                order[i] = i;
        for (uint32_t i = count; i-- > 1;) {
                uint32_t other = draw(i + 1), kept = order[i];

                order[i] = order[other];
                order[other] = kept;
        }
        if (!begin() || !make_waiting(count, true, written, order))
                return false;
        for (uint32_t i = 1; i < count; i++)
                last = at(waiting[i]) > at(waiting[last]) ? i : last;
        for (uint32_t i = 0; i < count; i++)
                sb_help_decide(i % 2 ? &writer : &reader, waiting[(start + i) % count]);
        if (!is_aborted(waiting[last], 0))
                return false;
        for (uint32_t i = 1; i < count; i++) {
                struct sb_descriptor *commit = waiting[(last + count - i) % count];

                if (i % 2 ? state_of(commit) != SB_STATUS_COMMITTED : !is_aborted(commit, 2))
                        return false;
        }
        unmake_bus();
        return true;
}

static void test_of_a_cycle_the_one_of_the_greatest_offset_gives_way(void)
{
        draw_state = 9;
        for (uint32_t step = 0; step < 240; step++) {
                uint32_t count = 2 + draw(CYCLE_MAX - 1), start = draw(count);
                bool written = draw(2);

                if (!cycle_ends_well(count, written, start))
                        TEST_FAIL("step %u: %u of them, by %s, from %u", step, count,
                                written ? "writes" : "reads", start);
        }
}

static void test_one_of_which_the_lists_are_damaged_is_aborted_and_that_is_noted(void)
{
        struct sb_descriptor *commit;

        CHECK(make_bus(1 << 20));
        sb_pin(&writer);
        sb_pin(&reader);
        CHECK((commit = make_descriptor(1, 2, 0)));
        commit->write_count = 1000;
        sb_help_decide(&reader, commit);
        CHECK_EQ(SB_STATUS_STATE(sb_descriptor_status(commit)), SB_STATUS_ABORTED);
        CHECK(sb_damage_take(&reader));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_however_far_its_owner_came_a_helper_does_the_rest_and_copies_into_one);
        RUN(test_a_version_that_is_no_intent_is_left_as_it_is);
        RUN(test_an_intent_goes_into_the_cell_beside_its_tag_and_flags);
        RUN(test_a_head_that_was_replaced_by_a_value_ends_it_and_what_follows_is_not_installed);
        RUN(test_aborted_versions_that_came_on_top_are_no_conflict_and_lie_below_then);
        RUN(test_a_settled_link_says_that_the_intent_was_in);
        RUN(test_a_key_that_went_away_ends_it);
        RUN(test_a_helper_that_comes_late_changes_no_chain);
        RUN(test_a_serializable_one_keeps_the_stamp_that_was_read_first);
        RUN(test_the_first_range_that_changed_is_the_cause);
        RUN(test_for_the_stable_cut_only_what_may_have_its_stamp_is_decided);
        RUN(test_another_one_in_the_way_comes_to_its_end_first);
        RUN(test_a_long_path_is_cut_off_behind_sixty_four);
        RUN(test_a_shorter_path_is_gone_down_to_its_end);
        RUN(test_one_of_which_the_lists_are_damaged_is_aborted_and_that_is_noted);
        RUN(test_of_a_cycle_the_one_of_the_greatest_offset_gives_way);
        return test_end();
}
