/*
 * The prune horizon and pruning (shm/upkeep/horizon.h, prune.h), and reading in the past of what
 * is left (shm/mvcc/find.h, shm/history/past.h): any chain, any cuts, against their definition.
 */
#include <stdlib.h>

#include "shm/base/word.h"
#include "shm/history/budget.h"
#include "shm/history/past.h"
#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/stable.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"
#include "tests/unit/flush.h"

#define CHAIN_MAX 24u
#define CLOCK_MAX 60u
#define CUTS_MAX  400u /* words for cuts in a small bus */
#define MANY      10240u

static struct sb_superblock *super(void)
{
        return writer.segment.super;
}

/* ---- the horizon ---- */

static int compare_cuts(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

/* Return: how many different ones there are. */
static uint32_t sort_cuts(uint64_t *cuts, uint32_t count)
{
        uint32_t different = 0;

        qsort(cuts, count, sizeof(cuts[0]), compare_cuts);
        for (uint32_t i = 0; i < count; i++)
                if (!i || cuts[i] != cuts[i - 1])
                        cuts[different++] = cuts[i];
        return different;
}

static struct sb_horizon draw_horizon(void)
{
        static uint64_t cuts[6];
        struct sb_horizon horizon = {
                .bound = 2 + draw(CLOCK_MAX), .cut_count = draw(6), .cuts = cuts};

        for (uint32_t i = 0; i < horizon.cut_count; i++)
                cuts[i] = 2 + draw((uint32_t)horizon.bound);
        qsort(cuts, horizon.cut_count, sizeof(cuts[0]), compare_cuts);
        return horizon;
}

/* Whether a cut, of those or from the bound on, lies in [stamp, successor). */
static bool is_needed(const struct sb_horizon *horizon, uint64_t stamp, uint64_t successor)
{
        for (uint32_t i = 0; i < horizon->cut_count; i++)
                if (horizon->cuts[i] >= stamp && horizon->cuts[i] < successor)
                        return true;
        return successor > horizon->bound && stamp < successor;
}

static void test_a_version_is_needed_if_a_cut_lies_between_it_and_its_successor(void)
{
        uint32_t yes = 0, no = 0;

        draw_state = 1;
        for (uint32_t step = 0; step < 20000; step++) {
                struct sb_horizon horizon = draw_horizon();
                uint64_t stamp = 1 + draw(CLOCK_MAX), successor = stamp + draw(12);
                bool needed = is_needed(&horizon, stamp, successor);

                CHECK_EQ(sb_horizon_needs(&horizon, stamp, successor), needed);
                writer.horizon = horizon;
                CHECK_EQ(sb_horizon_passed(&writer, successor, stamp), !needed);
                *(needed ? &yes : &no) += 1;
        }
        CHECK(yes > 1000 && no > 1000);
}

static struct sb_word64 *announcement(uint32_t slot, uint32_t index)
{
        return &sb_record_snapshots(sb_record_at(&writer.segment, slot))[index];
}

static void test_a_horizon_has_all_cuts_that_are_announced_or_marked(void)
{
        for (uint32_t round = 0; round < 200; round++) {
                uint64_t wanted[200], pending = 0;
                uint64_t cuts[2 * CUTS_MAX];
                struct sb_horizon horizon = {.cut_count = 77, .cuts = cuts};
                uint32_t count = 0;

                draw_state = round;
                CHECK(make_bus_for(1 << 20, 9));
                sb_store_relaxed(&super()->clock, 1000);
                sb_store_relaxed(&super()->stable, 900);
                list_records(0, 9);
                sb_store_relaxed(&super()->mark_high, 3);
                sb_store_relaxed(announcement(9, 0), 5); /* a record that was never in use */
                sb_store_relaxed(&writer.segment.marks[3].owner, 1);
                sb_store_relaxed(&writer.segment.marks[3].cut, 6); /* a mark that never was */
                for (uint32_t i = draw(60); i; i--) {
                        struct sb_word64 *word = announcement(draw(9), draw(32));
                        uint64_t cut = 2 + draw(998);

                        if (sb_load_relaxed(word))
                                continue;
                        switch (draw(5)) {
                        case 0:
                                sb_store_relaxed(word, SB_SNAPSHOT_EVICTED);
                                continue;
                        case 1:
                                sb_store_relaxed(word, SB_SNAPSHOT_PENDING | cut);
                                pending++;
                                continue;
                        case 2:
                                sb_store_relaxed(word, SB_SNAPSHOT_EVICTING | cut);
                                break;
                        default:
                                sb_store_relaxed(word, cut);
                        }
                        wanted[count++] = cut;
                }
                for (uint32_t i = 0; i < 3; i++) {
                        uint64_t cut = 2 + draw(998);

                        if (draw(2))
                                continue;
                        sb_store_relaxed(
                                &writer.segment.marks[i].owner, i == 2 ? SB_NAMED_MAKING | 5 : 5);
                        sb_store_relaxed(&writer.segment.marks[i].cut, cut);
                        wanted[count++] = cut;
                }
                count = sort_cuts(wanted, count);
                sb_store_relaxed(&super()->observers, round % 3 == 0);
                sb_horizon_take(&writer, &horizon);
                CHECK_EQ(horizon.bound, round % 3 ? 1000 : 900);
                /* What was being opened has a cut now, each its own, behind all others. */
                CHECK_EQ(horizon.cut_count, count + pending);
                for (uint32_t i = 0; i < horizon.cut_count; i++)
                        CHECK_EQ(horizon.cuts[i], i < count ? wanted[i] : 1000 + i - count);
                CHECK_EQ(sb_load_relaxed(&super()->clock), 1000 + pending);
                unmake_bus();
        }
}

/* A client has announced a cut that it took before the look; the store has lain in its store buffer
 * until now. Another one takes a cut, and will announce it behind the look. */
static void announcement_comes_out(void)
{
        sb_store_relaxed(announcement(4, 3), 500);
        sb_store_relaxed(&super()->clock, 1001);
}

static void test_a_horizon_is_flushed_first_and_bounded_by_the_clock_of_before(void)
{
        uint64_t cuts[2 * CUTS_MAX];
        struct sb_horizon horizon = {.cuts = cuts};

        CHECK(make_bus_for(1 << 20, 9));
        sb_store_relaxed(&super()->clock, 1000);
        list_records(0, 9);
        flush_begin(&writer, announcement_comes_out);
        sb_horizon_take(&writer, &horizon);
        CHECK_EQ(flush_count, 1);
        CHECK(horizon.cut_count == 1 && horizon.cuts[0] == 500);
        CHECK_EQ(horizon.bound, 1000);
        unmake_bus();
}

/* Each a word of its own, in all records; cuts far apart and side by side, and equal ones. */
static void test_any_number_of_cuts_is_told_apart(void)
{
        static const uint64_t spans[] = {1, 40, 5000, UINT64_C(1) << 33};
        static uint64_t cuts[MANY], found[2 * (MANY + 1000)];

        CHECK(make_bus_for(8 << 20, MANY / 32));
        list_records(0, MANY / 32);
        for (uint32_t round = 0; round < 12; round++) {
                uint64_t span = spans[round % 4], asked = 0;
                uint32_t count = round < 4 ? round * 40 : round < 8 ? 900 : MANY;
                struct sb_horizon horizon = {.cuts = found};

                draw_state = round;
                sb_store_relaxed(&super()->clock, 100 + span);
                for (uint32_t i = 0; i < MANY; i++) {
                        cuts[i] = 10 + (((uint64_t)draw(1 << 20) << 14) + draw(1 << 14)) % span;
                        sb_store_relaxed(announcement(i % (MANY / 32), i / (MANY / 32)),
                                i < count ? cuts[i] : 0);
                }
                count = sort_cuts(cuts, count);
                sb_horizon_take(&writer, &horizon);
                CHECK_EQ(horizon.cut_count, count);
                CHECK(!count || !memcmp(horizon.cuts, cuts, count * sizeof(cuts[0])));
                for (uint32_t i = 0; i < 20000 && count; i++) {
                        uint64_t at = cuts[draw(count)], stamp = at - 3 + draw(6),
                                 successor = stamp + draw(12);
                        /* Only cuts near the one that was drawn can lie in between. */
                        const uint64_t *drawn =
                                bsearch(&at, cuts, count, sizeof(cuts[0]), compare_cuts);
                        uint32_t first = drawn - cuts < 16 ? 0 : (uint32_t)(drawn - cuts) - 16;
                        struct sb_horizon near = {.bound = horizon.bound,
                                .cuts = cuts + first,
                                .cut_count = count - first < 32 ? count - first : 32};

                        CHECK_EQ(sb_horizon_needs(&horizon, stamp, successor),
                                is_needed(&near, stamp, successor));
                        asked++;
                }
                CHECK(asked || !count);
        }
        unmake_bus();
}

static void test_a_horizon_is_taken_anew_when_the_clock_has_moved(void)
{
        CHECK(make_bus(1 << 20));
        sb_store_relaxed(&super()->clock, 50);
        sb_horizon_renew(&writer);
        CHECK(writer.horizon.bound == 50 && !writer.horizon.cut_count);
        sb_store_relaxed(announcement(2, 0), 20);
        sb_horizon_renew(&writer);
        CHECK_EQ(writer.horizon.cut_count, 0); /* that is a cut of above 50, or was kept before */
        sb_store_relaxed(&super()->clock, 51);
        sb_horizon_renew(&writer);
        CHECK(writer.horizon.bound == 51 && writer.horizon.cut_count == 1);
        unmake_bus();
}

/* ---- chains ---- */

/* One key's chain as it was made; [0] is the newest. */
struct link {
        struct sb_version *version;
        uint64_t stamp; /* 0: not committed */
        uint64_t offset;
        bool held, gone;
};
static struct link chain[CHAIN_MAX + 1];
static uint32_t chain_count;
static bool chain_ties; /* two of its stamps are the same */
static struct sb_spot spot;

static bool make_chain(uint32_t held_of)
{
        uint64_t stamp = 1 + draw(8);
        struct sb_descriptor *commit = NULL;
        uint32_t count = 1 + draw(CHAIN_MAX - 2);

        chain_count = 0;
        chain_ties = false;
        sb_pin(&writer);
        for (uint32_t i = 0; i < count; i++) {
                struct link *link = &chain[CHAIN_MAX - 1 - i];
                bool aborted = !draw(5), intent = i == count - 1 && !draw(4);

                *link = (struct link){.stamp = aborted || intent ? 0 : stamp};
                if (intent && !(commit = make_descriptor(1, 0, 0)))
                        return false;
                link->version = push("k",
                        (draw(4) ? SB_VERSION_VALUE : SB_VERSION_DELETED) |
                                (draw(3) ? 0 : SB_VERSION_HAS_TXN),
                        intent    ? intent_of(commit)
                        : aborted ? SB_STAMP_ABORTED
                                  : stamp);
                if (!link->version)
                        return false;
                link->offset = sb_offset_of(&writer.segment, link->version);
                if (held_of && !draw(held_of)) {
                        link->held = true;
                        sb_store_relaxed(&link->version->block.retire,
                                draw(2) ? SB_RETIRE_HELD : SB_RETIRE_FREEING | reader.slot);
                }
                if (!aborted && !intent) {
                        uint64_t step = draw(6);

                        stamp += step;
                        chain_ties |= !step;
                }
        }
        memmove(chain, &chain[CHAIN_MAX - count], count * sizeof(chain[0]));
        chain_count = count;
        return spot_of("k", &spot) && spot.head == chain[0].version;
}

/* What is in the chain now is what the model says; at its end the placeholder, or nothing. */
static bool chain_is_right(bool placeholder)
{
        uint64_t at = sb_load_relaxed(spot.cell) & SB_OFFSET_MASK;

        for (uint32_t i = 0; i < chain_count; i++) {
                uint32_t retire = sb_load_relaxed(&chain[i].version->block.retire);

                if (chain[i].gone != (retire >= SB_ERA_MIN && retire < SB_RETIRE_FREEING))
                        return false;
                if (chain[i].gone)
                        continue;
                if (at != chain[i].offset)
                        return false;
                at = sb_load_relaxed(&chain[i].version->prev) & SB_OFFSET_MASK;
        }
        return !at == !placeholder;
}

/* What has to go, by the definition; *ret_kept: something superseded stays for a cut's sake. */
static bool model_prune(const struct sb_horizon *horizon, uint32_t last, bool *ret_kept)
{
        uint64_t successor = 0;
        uint32_t number = 0;
        bool placeholder = true;

        *ret_kept = false;
        for (uint32_t i = 0; i < chain_count; i++) {
                struct link *link = &chain[i];

                number += link->stamp != 0;
                if (i && !link->held)
                        link->gone = !link->stamp ||
                                     (successor && number > last &&
                                             !is_needed(horizon, link->stamp, successor));
                /* What a rule alone keeps is no reason to come again. */
                *ret_kept |= i && link->stamp && successor && !link->gone &&
                             (link->held || is_needed(horizon, link->stamp, successor));
                placeholder &= !link->stamp;
                successor = link->stamp ? link->stamp : successor;
        }
        return placeholder;
}

static void test_what_no_cut_needs_is_taken_out_and_all_else_stays(void)
{
        uint32_t taken = 0, left = 0;

        for (uint32_t round = 0; round < 3000; round++) {
                struct sb_horizon horizon;
                bool placeholder, kept;

                CHECK(make_bus(1 << 18));
                draw_state = round;
                horizon = draw_horizon();
                CHECK(make_chain(0));
                placeholder = model_prune(&horizon, 0, &kept);
                CHECK_EQ(sb_prune_cell(&writer, spot.cell_number, &horizon), kept);
                CHECK(chain_is_right(placeholder));
                CHECK_EQ(sb_prune_cell(&writer, spot.cell_number, &horizon), kept);
                CHECK(chain_is_right(placeholder));
                for (uint32_t i = 0; i < chain_count; i++)
                        *(chain[i].gone ? &taken : &left) += 1;
                unmake_bus();
        }
        CHECK(taken > 1000 && left > 1000);
}

/* The newest version that was current in @cut, when all of them were there; NULL: none. */
static struct sb_version *current_in(uint64_t cut)
{
        for (uint32_t i = 0; i < chain_count; i++)
                if (chain[i].stamp && chain[i].stamp <= cut)
                        return chain[i].version;
        return NULL;
}

static void test_every_open_cut_reads_what_it_read_and_no_other_reads_what_is_not_so(void)
{
        uint32_t counts[3] = {0};

        for (uint32_t round = 0; round < 2000; round++) {
                struct sb_horizon horizon;
                uint64_t hash = 0;

                CHECK(make_bus(1 << 18));
                draw_state = 7000 + round;
                hash = hash_of("k", 1);
                horizon = draw_horizon();
                CHECK(make_chain(0));
                for (uint64_t cut = 1; cut < 3 * CLOCK_MAX; cut++)
                        CHECK(sb_find_at(&writer, "k", 1, hash, cut) == current_in(cut));
                sb_prune_cell(&writer, spot.cell_number, &horizon);
                for (uint32_t i = 0; i < horizon.cut_count; i++)
                        CHECK(sb_find_at(&writer, "k", 1, hash, horizon.cuts[i]) ==
                                current_in(horizon.cuts[i]));
                for (uint64_t cut = 1; cut < 3 * CLOCK_MAX; cut++) {
                        struct sb_version *version = NULL, *wanted = current_in(cut);
                        enum sb_past past = sb_past_find(&writer, "k", 1, hash, cut, &version);

                        CHECK(cut < horizon.bound ||
                                sb_find_at(&writer, "k", 1, hash, cut) == wanted);
                        CHECK(past != SB_PAST_FOUND || version == wanted);
                        CHECK(past != SB_PAST_ABSENT || !wanted);
                        /* Of two with one stamp the older one leaves a trace, too. */
                        CHECK(past != SB_PAST_TRIMMED || cut < horizon.bound || chain_ties);
                        counts[past]++;
                }
                unmake_bus();
        }
        CHECK(counts[0] > 1000 && counts[1] > 1000 && counts[2] > 1000);
}

static void test_what_is_held_or_in_hand_stays_until_it_is_let_go(void)
{
        for (uint32_t round = 0; round < 2000; round++) {
                struct sb_horizon horizon;
                bool placeholder, kept;

                CHECK(make_bus(1 << 18));
                draw_state = 20000 + round;
                horizon = draw_horizon();
                CHECK(make_chain(3));
                placeholder = model_prune(&horizon, 0, &kept);
                CHECK_EQ(sb_prune_cell(&writer, spot.cell_number, &horizon), kept);
                CHECK(chain_is_right(placeholder));
                for (uint32_t i = 0; i < chain_count; i++) {
                        if (!chain[i].held)
                                continue;
                        chain[i].held = false;
                        sb_store_relaxed(&chain[i].version->block.retire, 0);
                }
                placeholder = model_prune(&horizon, 0, &kept);
                CHECK_EQ(sb_prune_cell(&writer, spot.cell_number, &horizon), kept);
                CHECK(chain_is_right(placeholder));
                unmake_bus();
        }
}

static void test_a_rule_keeps_the_newest_versions_beside_what_cuts_need(void)
{
        for (uint32_t round = 0; round < 2000; round++) {
                struct sb_horizon horizon;
                uint32_t last;
                bool placeholder, kept;

                CHECK(make_bus(1 << 18));
                draw_state = 40000 + round;
                horizon = draw_horizon();
                CHECK(make_chain(0));
                last = 1 + draw(6);
                sb_or_full(spot.cell, SB_CELL_KEPT);
                sb_store_relaxed(
                        &((struct sb_node *)sb_node_at(&writer.segment, chain[0].version->node))
                                 ->rule,
                        SB_RULE_WORD(SB_RULE_LAST, last));
                placeholder = model_prune(&horizon, last, &kept);
                CHECK_EQ(sb_prune_cell(&writer, spot.cell_number, &horizon), kept);
                CHECK(chain_is_right(placeholder));
                unmake_bus();
        }
}

/* What a look is to answer, and what it takes out, by the definition. */
static struct sb_prune_look model_look(
        const struct sb_horizon *horizon, uint64_t since, uint64_t young, uint32_t last)
{
        struct sb_prune_look look = {.since = since, .young = young};
        uint64_t successor = 0, above = 0, number = 0, window = 0;

        for (uint32_t i = 0; i < chain_count; i++) {
                struct link *link = &chain[i];
                bool needed = is_needed(horizon, link->stamp, successor);

                if (i && above >= since)
                        window = last ? last + number : 0;
                else if (i && above && number >= window)
                        break;
                number += link->stamp != 0;
                if (!i || !link->stamp || !successor) {
                        link->gone = i && !link->stamp && !link->held;
                } else if (!needed && number > last && !link->held) {
                        link->gone = true;
                        number--;
                } else if (needed || number > last) {
                        struct sb_horizon old = {
                                .bound = UINT64_MAX, .cuts = horizon->cuts, .cut_count = 0};

                        while (old.cut_count < horizon->cut_count &&
                                horizon->cuts[old.cut_count] < young)
                                old.cut_count++;
                        if (successor > horizon->bound ||
                                (needed && !is_needed(&old, link->stamp, successor)))
                                look.again = successor;
                        else
                                look.kept = true;
                }
                above = link->stamp ? link->stamp : above;
                /* A version is judged by the next newer one that stays. */
                successor = link->stamp && !link->gone ? link->stamp : successor;
        }
        return look;
}

static void test_a_look_since_a_stamp_leaves_what_lies_below(void)
{
        uint32_t again = 0, kept = 0, below = 0;

        for (uint32_t round = 0; round < 4000; round++) {
                struct sb_horizon horizon;
                struct sb_prune_look look, wanted;
                uint32_t last = round % 4 ? 0 : 1 + draw(3);

                CHECK(make_bus(1 << 18));
                draw_state = 60000 + round;
                horizon = draw_horizon();
                CHECK(make_chain(round % 3 ? 0 : 4));
                if (last) {
                        sb_or_full(spot.cell, SB_CELL_KEPT);
                        sb_store_relaxed(&((struct sb_node *)sb_node_at(
                                                   &writer.segment, chain[0].version->node))
                                                  ->rule,
                                SB_RULE_WORD(SB_RULE_LAST, last));
                }
                look = (struct sb_prune_look){
                        .since = draw(CLOCK_MAX + 20), .young = draw(CLOCK_MAX)};
                wanted = model_look(&horizon, look.since, look.young, last);
                sb_prune_look(&writer, spot.cell_number, &horizon, &look);
                CHECK(look.again == wanted.again && look.kept == wanted.kept);
                for (uint32_t i = 0; i < chain_count; i++) {
                        uint32_t retire = sb_load_relaxed(&chain[i].version->block.retire);

                        CHECK_EQ(retire >= SB_ERA_MIN && retire < SB_RETIRE_FREEING, chain[i].gone);
                        below += i && chain[i].stamp && !chain[i].gone && chain[i - 1].stamp &&
                                 chain[i - 1].stamp < look.since;
                }
                again += look.again != 0;
                kept += look.kept;
                unmake_bus();
        }
        TEST_NOTE("%u again, %u kept, %u below", again, kept, below);
        CHECK(again > 300 && kept > 300 && below > 300);
}

static void test_a_version_that_an_unlinker_marked_and_left_goes_whatever_cuts_say(void)
{
        uint64_t cut = 25;
        struct sb_horizon horizon = {.bound = 100, .cut_count = 1, .cuts = &cut};
        struct sb_version *first, *second;

        CHECK(make_bus(1 << 18));
        sb_pin(&writer);
        CHECK((first = push("k", SB_VERSION_VALUE, 10)));
        CHECK((second = push("k", SB_VERSION_VALUE, 20)) && push("k", SB_VERSION_VALUE, 30));
        CHECK(spot_of("k", &spot) && sb_limbo_begin(&writer, &second->block));
        sb_or_full(&second->prev, SB_PREV_MARKED);
        sb_prune_cell(&writer, spot.cell_number, &horizon);
        CHECK(sb_load_relaxed(&second->block.retire) >= SB_ERA_MIN);
        CHECK(sb_load_relaxed(&spot.head->prev) & SB_PREV_TRIMMED);
        unmake_bus();
        (void)first;
}

static void test_a_frozen_cell_and_a_placeholder_alone_are_left(void)
{
        struct sb_horizon horizon = {.bound = 100};
        struct sb_spot bare;

        CHECK(make_bus(1 << 18));
        sb_pin(&writer);
        CHECK(spot_of("bare", &bare));
        CHECK(!sb_prune_cell(&writer, bare.cell_number, &horizon));
        CHECK_EQ(sb_load_relaxed(bare.cell), bare.word);
        CHECK(push("k", SB_VERSION_VALUE, 10) && push("k", SB_VERSION_DELETED, 20));
        CHECK(spot_of("k", &spot));
        sb_or_full(spot.cell, SB_CELL_FROZEN);
        CHECK(!sb_prune_cell(&writer, spot.cell_number, &horizon));
        CHECK(sb_load_relaxed(&spot.head->prev) & SB_OFFSET_MASK);
        CHECK(!sb_prune_cell(&writer, 0, &horizon) && !sb_prune_cell(&writer, 15, &horizon));
        unmake_bus();
}

static void test_what_was_replaced_just_now_goes_at_once_when_no_cut_can_tell(void)
{
        struct sb_version *old, *version;
        uint64_t cut = 25;

        for (uint32_t round = 0; round < 6; round++) {
                /* needed by a cut; by cuts to come; not; one stamp; linked elsewhere; marked */
                static const bool goes[] = {false, false, true, true, false, false};

                CHECK(make_bus(1 << 18));
                sb_pin(&writer);
                sb_store_relaxed(&super()->clock, 50);
                writer.horizon = (struct sb_horizon){
                        .bound = round == 1 ? 49 : 50, .cut_count = !round, .cuts = &cut};
                CHECK((old = push("k", SB_VERSION_VALUE, 20)));
                CHECK((version = push("k", SB_VERSION_VALUE, round == 3 ? 20 : 30)));
                if (round == 3)
                        writer.horizon.bound = 5;
                if (round == 4)
                        sb_store_relaxed(&version->prev, sb_offset_of(&writer.segment, version));
                if (round == 5)
                        sb_or_full(&version->prev, SB_PREV_MARKED);
                CHECK_EQ(sb_prune_behind(&writer, version, old), goes[round]);
                CHECK_EQ(sb_load_relaxed(&old->block.retire) >= SB_ERA_MIN, goes[round]);
                CHECK(!goes[round] || (sb_load_relaxed(&version->prev) & SB_OFFSET_MASK) !=
                                              sb_offset_of(&writer.segment, old));
                unmake_bus();
        }
}

/* By the lists alone, without a sweep: a version is replaced before the next horizon, and waits for
 * it, while the one below it goes. */
static void test_what_waits_for_the_next_horizon_goes_by_then(void)
{
        CHECK(make_bus(1 << 18));
        sb_store_relaxed(&super()->observers, 1);
        CHECK(!put(&writer, "k", "1", 1));
        sb_stable_raise(&writer);
        CHECK(!put(&writer, "k", "2", 1));
        sb_stable_raise(&writer);
        CHECK(!put(&writer, "k", "3", 1));
        CHECK_EQ(chain_len("k"), 3);
        sb_reclaim_pending(&writer);
        CHECK_EQ(chain_len("k"), 2);
        sb_stable_raise(&writer);
        sb_reclaim_pending(&writer);
        CHECK_EQ(chain_len("k"), 1);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_version_is_needed_if_a_cut_lies_between_it_and_its_successor);
        RUN(test_a_horizon_has_all_cuts_that_are_announced_or_marked);
        RUN(test_a_horizon_is_flushed_first_and_bounded_by_the_clock_of_before);
        RUN(test_any_number_of_cuts_is_told_apart);
        RUN(test_a_horizon_is_taken_anew_when_the_clock_has_moved);
        RUN(test_what_no_cut_needs_is_taken_out_and_all_else_stays);
        RUN(test_every_open_cut_reads_what_it_read_and_no_other_reads_what_is_not_so);
        RUN(test_what_is_held_or_in_hand_stays_until_it_is_let_go);
        RUN(test_a_rule_keeps_the_newest_versions_beside_what_cuts_need);
        RUN(test_a_look_since_a_stamp_leaves_what_lies_below);
        RUN(test_a_version_that_an_unlinker_marked_and_left_goes_whatever_cuts_say);
        RUN(test_a_frozen_cell_and_a_placeholder_alone_are_left);
        RUN(test_what_was_replaced_just_now_goes_at_once_when_no_cut_can_tell);
        RUN(test_what_waits_for_the_next_horizon_goes_by_then);
        return test_end();
}
