/*
 * Descriptors, stamps and the commit clock (shm/mvcc/descriptor.h, stamp.h, clock.h): which bytes
 * are a descriptor, how it is decided, and what becomes of the versions that name it.
 */
#include <unistd.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/stamp.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

static bool begin(uint64_t clock)
{
        draw_state = clock;
        if (!make_bus(1 << 20))
                return false;
        sb_store_relaxed(&writer.segment.super->clock, clock);
        sb_pin(&writer);
        sb_pin(&reader);
        return true;
}

static void set_clock(uint64_t clock)
{
        sb_store_relaxed(&writer.segment.super->clock, clock);
}

static void test_a_cut_is_the_clock_and_the_next_one_is_above_it(void)
{
        CHECK(begin(2));
        for (uint64_t cut = 2; cut < 1000; cut++) {
                CHECK_EQ(sb_clock_take_cut(draw(2) ? &writer : &reader), cut);
                CHECK_EQ(sb_load_relaxed(&writer.segment.super->clock), cut + 1);
        }
        unmake_bus();
}

/* What sb_descriptor_at() says, in numbers that cannot overflow. */
static bool fits(const struct sb_descriptor *commit, uint64_t at)
{
        unsigned __int128 all = sizeof(*commit);

        all += (unsigned __int128)8 * commit->write_count + commit->ranges_len;
        return SB_SHAPE_KIND(commit->shape) == SB_VERSION_DESCRIPTOR &&
               !SB_SHAPE_KEY_LEN(commit->shape) &&
               all == (unsigned __int128)SB_SHAPE_VALUE_LEN(commit->shape) +
                               sizeof(struct sb_version) &&
               at + all <= writer.segment.geometry.size;
}

static void test_hostile_lengths_are_no_descriptor(void)
{
        const struct sb_segment *segment = &writer.segment;
        struct sb_descriptor *commit;
        uint32_t yes = 0, no = 0;

        CHECK(begin(50));
        for (uint32_t step = 0; step < 200000; step++) {
                uint64_t at = segment->geometry.units_at + 16 * draw(1000), left, len;

                if (!draw(3)) /* near the end */
                        at = segment->geometry.units_at + segment->blocks_span + 64 - 16 * draw(60);
                if (at > segment->geometry.units_at + segment->blocks_span ||
                        at + sizeof(*commit) > segment->geometry.size) {
                        CHECK(!sb_descriptor_at(segment, at));
                        continue;
                }
                commit = sb_block_at(segment, at);
                left = segment->geometry.size - at;
                commit->write_count = draw(4) ? draw(12) : draw_bits();
                commit->ranges_len = draw(4) ? draw(100) : draw_word() >> draw(64);
                if (!draw(8)) /* so long that the sum is short again */
                        commit->ranges_len = draw(99) - 8 * (uint64_t)commit->write_count;
                len = sizeof(*commit) - sizeof(struct sb_version) +
                      8 * (uint64_t)commit->write_count + commit->ranges_len;
                if (!draw(8))
                        len += draw(3) - 1;
                if (!draw(16))
                        len = left - sizeof(struct sb_version) + draw(3) - 1;
                commit->shape = SB_SHAPE(len & ((UINT64_C(1) << 36) - 1), draw(20) ? 0 : draw(9),
                        draw(20) ? SB_VERSION_DESCRIPTOR : draw(32), draw(4096));
                if (sb_descriptor_at(segment, at | draw(16)) != (fits(commit, at) ? commit : NULL))
                        TEST_FAIL("at %ju of %ju: %u writes, %ju bytes, shape %jx", (uintmax_t)at,
                                (uintmax_t)segment->geometry.size, commit->write_count,
                                (uintmax_t)commit->ranges_len, (uintmax_t)commit->shape);
                *(fits(commit, at) ? &yes : &no) += 1;
        }
        CHECK(yes > 10000 && no > 10000);
        unmake_bus();
}

static void test_hostile_offsets_are_no_descriptor(void)
{
        static const uint64_t offsets[] = {0, 16, UINT64_MAX, SB_OFFSET_MASK, SB_STAMP_ABORTED,
                UINT64_C(1) << 47, UINT64_C(0x7fffffff0)};
        struct sb_descriptor *commit;
        uint64_t at;

        CHECK(begin(50));
        commit = make_descriptor(1, 0, 0);
        at = sb_offset_of(&writer.segment, commit);
        /* Whatever word names it, flags and all. */
        CHECK(sb_descriptor_at(&writer.segment, at | SB_OPERATION_DESCRIPTOR) == commit);
        CHECK(sb_descriptor_at(&writer.segment, intent_of(commit)) == commit);
        for (uint32_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
                CHECK(!sb_descriptor_at(&writer.segment, offsets[i]));
        CHECK(!sb_descriptor_at(&writer.segment, writer.segment.geometry.size));
        CHECK(!sb_descriptor_at(&writer.segment, writer.segment.geometry.size - 64));
        CHECK(!sb_descriptor_at(&writer.segment, writer.segment.geometry.units_at - 16));
        unmake_bus();
}

static void test_what_is_decided_stays_decided(void)
{
        static const enum sb_status states[] = {SB_STATUS_COMMITTED, SB_STATUS_ABORTED};

        CHECK(begin(50));
        for (uint32_t i = 0; i < 8; i++) {
                struct sb_descriptor *commit = make_descriptor(1, 0, 0);
                uint64_t serializable = i & 1 ? SB_STATUS_SERIALIZABLE : 0, status;

                CHECK(commit);
                /* Also one that has its stamp already, or is about to. */
                sb_store_relaxed(&commit->status,
                        serializable | SB_STATUS_OF(SB_STATUS_UNDECIDED, i & 2 ? 33 : 0));
                CHECK(!sb_descriptor_decided(commit));
                sb_descriptor_decide(commit, states[i >> 2], 1234567);
                status = sb_descriptor_status(commit);
                CHECK_EQ(status, SB_STATUS_OF(states[i >> 2], 1234567) | serializable);
                CHECK(sb_descriptor_decided(commit));
                sb_descriptor_decide(commit, SB_STATUS_ABORTED, 1);
                sb_descriptor_decide(commit, SB_STATUS_COMMITTED, 2);
                sb_descriptor_cancel(commit);
                CHECK_EQ(sb_descriptor_status(commit), status);
                CHECK_EQ(sb_descriptor_outcome(status), i >> 2 ? SB_STAMP_ABORTED : 1234567);
        }
        unmake_bus();
}

static void test_a_cancelled_one_is_aborted_since_a_cut_is_gone(void)
{
        struct sb_descriptor *commit;

        CHECK(begin(50));
        commit = make_descriptor(1, 0, 0);
        sb_store_relaxed(&commit->status, SB_STATUS_SERIALIZABLE);
        sb_descriptor_cancel(commit);
        CHECK_EQ(SB_STATUS_STATE(sb_descriptor_status(commit)), SB_STATUS_ABORTED);
        CHECK_EQ(SB_STATUS_VALUE(sb_descriptor_status(commit)), SB_CAUSE_GONE);
        CHECK(sb_descriptor_status(commit) & SB_STATUS_SERIALIZABLE);
        unmake_bus();
}

static void test_a_committed_one_takes_the_clock_once(void)
{
        struct sb_descriptor *commit;

        CHECK(begin(50));
        commit = make_descriptor(1, 0, 0);
        CHECK_EQ(sb_descriptor_stamped(&reader, commit), 0);
        sb_descriptor_decide(commit, SB_STATUS_COMMITTED, 0);
        CHECK_EQ(sb_descriptor_status(commit), SB_STATUS_COMMITTED);
        set_clock(61);
        CHECK_EQ(sb_descriptor_stamped(&reader, commit), SB_STATUS_OF(SB_STATUS_COMMITTED, 61));
        set_clock(75);
        CHECK_EQ(sb_descriptor_stamped(&writer, commit), SB_STATUS_OF(SB_STATUS_COMMITTED, 61));
        commit = make_descriptor(1, 0, 0);
        sb_descriptor_decide(commit, SB_STATUS_ABORTED, 0);
        CHECK_EQ(sb_descriptor_stamped(&writer, commit), SB_STATUS_ABORTED);
        unmake_bus();
}

static struct sb_settled settle(struct sb_version *version)
{
        return sb_stamp_settle(&reader, version);
}

static void test_a_plain_version_is_stamped_once_by_any_process_that_meets_it(void)
{
        struct sb_version *version;
        struct sb_spot spot;

        CHECK(begin(90));
        CHECK(spot_of("k", &spot));
        CHECK_EQ(settle(spot.head).outcome, SB_OUTCOME_COMMITTED); /* a placeholder */
        CHECK_EQ(settle(spot.head).stamp, SB_STAMP_PLACEHOLDER);
        version = push("k", SB_VERSION_VALUE, 0);
        CHECK(version && settle(version).outcome == SB_OUTCOME_COMMITTED);
        CHECK_EQ(sb_load_relaxed(&version->stamp), 90);
        set_clock(91);
        CHECK_EQ(settle(version).stamp, 90);
        CHECK_EQ(sb_stamp(&writer, version), 90);
        version = push("k", SB_VERSION_DELETED, 0);
        CHECK(version && sb_stamp(&reader, version) == 91);
        CHECK_EQ(sb_load_relaxed(&version->stamp), 91);
        version = push("k", SB_VERSION_DELETED, SB_STAMP_ABORTED);
        CHECK(version && settle(version).outcome == SB_OUTCOME_ABORTED);
        CHECK_EQ(sb_stamp(&writer, version), SB_STAMP_ABORTED);
        unmake_bus();
}

static void test_an_intent_is_what_its_descriptor_says_and_takes_over_what_is_final(void)
{
        struct sb_version *version;
        struct sb_descriptor *commit;

        CHECK(begin(90));
        commit = make_descriptor(80, 0, 0);
        version = push("k", SB_VERSION_VALUE, intent_of(commit));
        CHECK(commit && version && settle(version).outcome == SB_OUTCOME_UNDECIDED);
        CHECK_EQ(settle(version).stamp, 0);
        CHECK_EQ(sb_stamp(&writer, version), SB_STAMP_ABORTED); /* above every clock */
        sb_store_relaxed(&commit->status, SB_STATUS_SERIALIZABLE | SB_STATUS_OF(0, 88));
        CHECK_EQ(settle(version).outcome, SB_OUTCOME_UNDECIDED);
        CHECK_EQ(settle(version).stamp, 88); /* that it will have if it commits */
        CHECK_EQ(sb_load_relaxed(&version->stamp), intent_of(commit));
        sb_descriptor_decide(commit, SB_STATUS_COMMITTED, 88);
        CHECK_EQ(sb_stamp(&writer, version), 88);
        CHECK_EQ(sb_load_relaxed(&version->stamp), 88);

        commit = make_descriptor(80, 0, 0);
        version = push("k", SB_VERSION_VALUE, intent_of(commit));
        sb_descriptor_decide(commit, SB_STATUS_COMMITTED, 0);
        CHECK(version && settle(version).outcome == SB_OUTCOME_COMMITTED);
        CHECK_EQ(sb_load_relaxed(&version->stamp), 90); /* and so has the descriptor */
        CHECK_EQ(SB_STATUS_VALUE(sb_descriptor_status(commit)), 90);

        commit = make_descriptor(80, 0, 0);
        version = push("k", SB_VERSION_VALUE, intent_of(commit));
        sb_descriptor_decide(commit, SB_STATUS_ABORTED, 5);
        CHECK(version && settle(version).outcome == SB_OUTCOME_ABORTED);
        CHECK_EQ(sb_load_relaxed(&version->stamp), SB_STAMP_ABORTED);
        unmake_bus();
}

static void test_an_intent_that_names_no_descriptor_counts_as_aborted(void)
{
        struct sb_version *version, *other;

        CHECK(begin(90));
        other = push("other", SB_VERSION_VALUE, 5);
        version =
                push("k", SB_VERSION_VALUE, SB_STAMP_INTENT | sb_offset_of(&writer.segment, other));
        CHECK(version && settle(version).outcome == SB_OUTCOME_ABORTED);
        sb_store_relaxed(&version->stamp, SB_STAMP_INTENT | (SB_OFFSET_MASK & ~UINT64_C(0xff)));
        CHECK_EQ(settle(version).outcome, SB_OUTCOME_ABORTED);
        CHECK_EQ(sb_stamp(&writer, version), SB_STAMP_ABORTED);
        unmake_bus();
}

static void test_what_counts_is_the_first_committed_version_from_the_head_down(void)
{
        struct sb_version *value, *aborted, *intent;
        struct sb_settled head;
        struct sb_descriptor *commit;
        struct sb_spot spot;

        CHECK(begin(90));
        CHECK(spot_of("k", &spot));
        CHECK((aborted = push("k", SB_VERSION_VALUE, SB_STAMP_ABORTED)));
        CHECK(sb_stamp_effective(&reader, aborted, &head) == spot.head);
        CHECK_EQ(head.outcome, SB_OUTCOME_ABORTED);
        CHECK((value = push("k", SB_VERSION_DELETED, 0)));
        CHECK(sb_stamp_effective(&reader, value, &head) == value);
        CHECK(head.outcome == SB_OUTCOME_COMMITTED && head.stamp == 90);
        for (uint32_t i = 0; i < 9; i++)
                CHECK((aborted = push("k", SB_VERSION_VALUE, SB_STAMP_ABORTED)));
        commit = make_descriptor(80, 0, 0);
        CHECK(commit && (intent = push("k", SB_VERSION_VALUE, intent_of(commit))));
        CHECK(sb_stamp_effective(&reader, intent, &head) == value);
        CHECK_EQ(head.outcome, SB_OUTCOME_UNDECIDED);
        sb_descriptor_decide(commit, SB_STATUS_COMMITTED, 95);
        CHECK(sb_stamp_effective(&reader, intent, &head) == intent);
        CHECK_EQ(head.stamp, 95);
        /* A chain of nothing but aborted ones, and one that goes round, have nothing. */
        sb_store_relaxed(&aborted->prev, 0);
        CHECK(!sb_stamp_effective(&reader, aborted, &head));
        sb_store_relaxed(&aborted->prev, sb_offset_of(&writer.segment, aborted));
        alarm(30);
        CHECK(!sb_stamp_effective(&reader, aborted, &head));
        alarm(0);
        unmake_bus();
}

static void test_what_was_seen_lasts_until_the_cell_or_the_outcome_changes(void)
{
        struct sb_settled settled;
        struct sb_version *intent;
        struct sb_descriptor *commit;
        struct sb_spot spot;

        CHECK(begin(90));
        CHECK(push("k", SB_VERSION_VALUE, 10));
        commit = make_descriptor(80, 0, 0);
        CHECK(commit && (intent = push("k", SB_VERSION_VALUE, intent_of(commit))));
        CHECK(spot_of("k", &spot) && spot.head == intent);
        settled = settle(intent);
        CHECK(sb_stamp_lasts(&reader, spot.cell, spot.word, intent, settled));
        sb_or_full(spot.cell, SB_CELL_KEPT); /* any change of the word is one */
        CHECK(!sb_stamp_lasts(&reader, spot.cell, spot.word, intent, settled));
        sb_and_full(spot.cell, ~SB_CELL_KEPT);
        CHECK(sb_stamp_lasts(&reader, spot.cell, spot.word, intent, settled));
        sb_descriptor_decide(commit, SB_STATUS_ABORTED, 0);
        CHECK(!sb_stamp_lasts(&reader, spot.cell, spot.word, intent, settled));
        settled = settle(intent);
        CHECK(sb_stamp_lasts(&reader, spot.cell, spot.word, intent, settled));
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_cut_is_the_clock_and_the_next_one_is_above_it);
        RUN(test_hostile_lengths_are_no_descriptor);
        RUN(test_hostile_offsets_are_no_descriptor);
        RUN(test_what_is_decided_stays_decided);
        RUN(test_a_cancelled_one_is_aborted_since_a_cut_is_gone);
        RUN(test_a_committed_one_takes_the_clock_once);
        RUN(test_a_plain_version_is_stamped_once_by_any_process_that_meets_it);
        RUN(test_an_intent_is_what_its_descriptor_says_and_takes_over_what_is_final);
        RUN(test_an_intent_that_names_no_descriptor_counts_as_aborted);
        RUN(test_what_counts_is_the_first_committed_version_from_the_head_down);
        RUN(test_what_was_seen_lasts_until_the_cell_or_the_outcome_changes);
        return test_end();
}
