/*
 * The end of a transaction (shm/mvcc/finish.h): what its owner does, or the reaper of a dead one,
 * and what becomes of the versions of an aborted one.
 */
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/finish.h"
#include "shm/mvcc/help.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

#define CLOCK 400u

static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};

static bool begin(void)
{
        if (!make_bus(1 << 20))
                return false;
        sb_store_relaxed(&writer.segment.super->clock, CLOCK);
        sb_pin(&writer);
        sb_pin(&reader);
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

static void note(struct sb_descriptor *commit)
{
        sb_store_relaxed(&writer.record->operation, at(commit) | SB_OPERATION_DESCRIPTOR);
}

static void test_its_owner_copies_the_outcome_into_all_and_dates_the_descriptor(void)
{
        enum { WRITES = 5 };

        for (uint32_t step = 0; step < 4 * WRITES; step++) {
                uint32_t conflict = step % WRITES, kind = step / WRITES;
                struct sb_version *versions[WRITES];
                struct sb_descriptor *commit;
                enum sb_outcome outcome;
                uint64_t value = 99;
                bool aborts = kind & 1;

                CHECK(begin());
                CHECK((commit = make_descriptor(CLOCK - 1, WRITES, 0)));
                for (uint32_t i = 0; i < WRITES; i++)
                        CHECK((versions[i] = intend(commit, i, names[i])));
                if (aborts)
                        CHECK(push(names[conflict], SB_VERSION_VALUE, 350));
                if (kind & 2) { /* another process has done all, and copied into one */
                        sb_help_decide(&reader, commit);
                        sb_store_relaxed(&writer.segment.super->clock, CLOCK + 5);
                        sb_help_version(&reader, versions[conflict]);
                }
                note(commit);
                outcome = sb_finish_run(&writer, commit, &value);
                CHECK_EQ(outcome, aborts ? SB_OUTCOME_ABORTED : SB_OUTCOME_COMMITTED);
                CHECK_EQ(value, aborts ? 1 + conflict : CLOCK + (kind & 2 ? 5 : 0));
                for (uint32_t i = 0; i < WRITES; i++) {
                        CHECK_EQ(sb_load_relaxed(&versions[i]->stamp),
                                aborts ? SB_STAMP_ABORTED : value);
                        CHECK_EQ(sb_load_relaxed(&versions[i]->block.retire),
                                aborts ? SB_RETIRE_HELD : 0);
                }
                CHECK_EQ(sb_load_relaxed(&writer.record->operation), 0);
                CHECK_EQ(sb_load_relaxed(&commit->block.retire),
                        sb_load_relaxed(&writer.segment.super->era));
                CHECK(writer.limbo.count == 1 && writer.limbo.entries[0].offset == at(commit));
                unmake_bus();
        }
}

/* A descriptor that was damaged lists what is no write of its transaction. */
static void test_a_version_that_is_not_its_own_keeps_its_stamp(void)
{
        for (uint32_t aborts = 0; aborts < 2; aborts++) {
                struct sb_version *own, *foreign;
                struct sb_descriptor *commit;
                uint64_t value, stamp;

                CHECK(begin());
                CHECK((commit = make_descriptor(CLOCK - 1, 2, 0)));
                CHECK((own = intend(commit, 0, "a")));
                CHECK(push("b", SB_VERSION_VALUE, 350));
                CHECK((foreign = head_of("b")));
                commit->write[1] = at(foreign);
                stamp = sb_load_relaxed(&foreign->stamp);
                sb_descriptor_decide(commit, aborts ? SB_STATUS_ABORTED : SB_STATUS_COMMITTED,
                        aborts ? 1 : CLOCK);
                note(commit);
                CHECK_EQ(sb_finish_run(&writer, commit, &value),
                        aborts ? SB_OUTCOME_ABORTED : SB_OUTCOME_COMMITTED);
                CHECK_EQ(sb_load_relaxed(&own->stamp), aborts ? SB_STAMP_ABORTED : CLOCK);
                CHECK_EQ(sb_load_relaxed(&foreign->stamp), stamp);
                unmake_bus();
        }
}

static void count_visit(
        struct sb_handle *handle, struct sb_node *node, uint64_t stamp, void *context)
{
        uint32_t *count = context;

        (void)handle;
        *count += node && stamp == CLOCK;
}

/* Ranges may lie there, of which no bytes are an offset. */
static void test_what_lies_behind_the_list_is_no_write(void)
{
        for (uint32_t writes = 0; writes <= 2; writes++) {
                struct sb_descriptor *commit;
                uint32_t count = 0;

                CHECK(begin());
                CHECK((commit = make_descriptor(CLOCK - 1, 2, 0)));
                CHECK(intend(commit, 0, "a") && intend(commit, 1, "b"));
                commit->write_count = writes;
                commit->ranges_len = 8 * (2 - writes);
                sb_finish_each(&writer, commit, count_visit, &count);
                CHECK_EQ(count, 0);
                sb_descriptor_decide(commit, SB_STATUS_COMMITTED, CLOCK);
                sb_finish_each(&writer, commit, count_visit, &count);
                CHECK_EQ(count, writes);
                unmake_bus();
        }
}

static void test_its_reaper_does_the_same_wherever_the_owner_died(void)
{
        /* Decided; copied into all; let go; the descriptor on its way out; dated. */
        for (uint32_t steps = 0; steps <= 5; steps++) {
                struct sb_version *versions[3];
                struct sb_descriptor *commit;

                CHECK(begin());
                CHECK((commit = make_descriptor(CLOCK - 1, 3, 0)));
                for (uint32_t i = 0; i < 3; i++)
                        CHECK((versions[i] = intend(commit, i, names[i])));
                if (steps > 0)
                        sb_help_decide(&writer, commit);
                if (steps > 0)
                        CHECK_EQ(SB_STATUS_VALUE(sb_descriptor_stamped(&writer, commit)), CLOCK);
                for (uint32_t i = 0; i < 3; i++) {
                        if (steps > 1)
                                sb_store_relaxed(&versions[i]->stamp, CLOCK);
                        if (steps > 2)
                                sb_store_relaxed(&versions[i]->block.retire, 0);
                }
                if (steps > 3)
                        CHECK(sb_limbo_begin(&writer, &commit->block));
                if (steps > 4)
                        sb_limbo_date(&writer, &commit->block);
                note(commit);
                sb_finish_noted(&reader, commit, &writer.record->operation);
                for (uint32_t i = 0; i < 3; i++) {
                        CHECK_EQ(sb_load_relaxed(&versions[i]->stamp), CLOCK);
                        CHECK_EQ(sb_load_relaxed(&versions[i]->block.retire), 0);
                        CHECK(head_of(names[i]) == versions[i]);
                }
                CHECK_EQ(sb_load_relaxed(&writer.record->operation), 0);
                CHECK(sb_load_relaxed(&commit->block.retire) >= SB_ERA_MIN);
                CHECK_EQ(reader.limbo.count, steps < 5);
                unmake_bus();
        }
}

/* Of an aborted transaction: what is in a chain is let go, also under other versions; what never
 * was in one is dated; what another process has seen to stays. */
static void test_what_was_aborted_is_disposed_of_by_where_it_lies(void)
{
        enum where { HEAD, BELOW, NOT_IN, KEY_GONE, SEEN_TO, DATED, WHERES };

        draw_state = 4;
        for (uint32_t step = 0; step < 200; step++) {
                uint32_t later = 0, dated = 0, count = 1 + draw(9);
                struct sb_version *versions[9];
                struct sb_descriptor *commit;
                enum where where[9];

                CHECK(begin());
                CHECK((commit = make_descriptor(CLOCK - 1, count, 0)));
                for (uint32_t i = 0; i < count; i++) {
                        struct sb_version *version;
                        struct sb_spot spot;

                        where[i] = draw(WHERES);
                        version = versions[i] = intend(commit, i, names[i]);
                        CHECK(version);
                        if (where[i] == HEAD || where[i] == BELOW)
                                CHECK(install_intent(version, names[i]));
                        for (uint32_t n = where[i] == BELOW ? 1 + draw(4) : 0; n; n--)
                                CHECK(push(names[i], SB_VERSION_VALUE, CLOCK));
                        CHECK(spot_of(names[i], &spot));
                        if (where[i] == KEY_GONE)
                                sb_store_relaxed(&((struct sb_node *)sb_node_at(
                                                           &writer.segment, version->node))
                                                          ->cell,
                                        SB_NODE_GONE);
                        if (where[i] == SEEN_TO || where[i] == DATED)
                                sb_store_relaxed(
                                        &version->block.retire, where[i] == DATED ? SB_ERA_MIN : 0);
                        sb_store_relaxed(&version->stamp, SB_STAMP_ABORTED);
                        later += where[i] <= BELOW;
                        dated += where[i] == NOT_IN || where[i] == KEY_GONE;
                }
                sb_descriptor_decide(commit, SB_STATUS_ABORTED, draw(4));
                for (uint32_t again = 0; again < 2; again++) {
                        sb_finish_dispose(&reader, commit);
                        for (uint32_t i = 0; i < count; i++) {
                                uint32_t retire = sb_load_relaxed(&versions[i]->block.retire);

                                CHECK_EQ(retire,
                                        where[i] == NOT_IN || where[i] == KEY_GONE
                                                ? sb_load_relaxed(&writer.segment.super->era)
                                        : where[i] == DATED ? SB_ERA_MIN
                                                            : 0);
                        }
                        CHECK_EQ(sb_limbo_pending(&reader), later);
                        CHECK_EQ(reader.limbo.count, dated);
                }
                unmake_bus();
        }
}

static void test_what_was_not_aborted_is_never_disposed_of(void)
{
        static const uint64_t statuses[] = {0, SB_STATUS_SERIALIZABLE, SB_STATUS_COMMITTED,
                SB_STATUS_OF(SB_STATUS_COMMITTED, 90), SB_STATUS_OF(SB_STATUS_UNDECIDED, 90)};

        for (uint32_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
                struct sb_version *versions[2];
                struct sb_descriptor *commit;

                CHECK(begin());
                CHECK((commit = make_descriptor(CLOCK - 1, 2, 0)));
                CHECK((versions[0] = intend(commit, 0, "a")) && install_intent(versions[0], "a"));
                CHECK((versions[1] = intend(commit, 1, "b")));
                sb_store_relaxed(&commit->status, statuses[i]);
                sb_finish_dispose(&reader, commit);
                for (uint32_t j = 0; j < 2; j++)
                        CHECK_EQ(sb_load_relaxed(&versions[j]->block.retire), SB_RETIRE_HELD);
                CHECK(!sb_limbo_pending(&reader) && sb_limbo_is_empty(&reader));
                unmake_bus();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_its_owner_copies_the_outcome_into_all_and_dates_the_descriptor);
        RUN(test_a_version_that_is_not_its_own_keeps_its_stamp);
        RUN(test_what_lies_behind_the_list_is_no_write);
        RUN(test_its_reaper_does_the_same_wherever_the_owner_died);
        RUN(test_what_was_aborted_is_disposed_of_by_where_it_lies);
        RUN(test_what_was_not_aborted_is_never_disposed_of);
        return test_end();
}
