/*
 * The validator (shm/upkeep/check.h): it counts what a bus holds, finds each kind of damage, and
 * says which; and its report keeps the first findings.
 */
#include "ring/op/get.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/memory/guard.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/work.h"
#include "tests/unit/chain.h"

static struct sb_check_report report;

static void settle(void)
{
        for (uint32_t i = 0; i < 4; i++)
                sb_work_all(&writer, true);
        sb_slab_release_all(&writer);
        sb_slab_release_all(&reader);
}

static void test_a_sound_bus_is_counted(void)
{
        struct sb_version *version;
        uint32_t index;
        uint64_t cut, unit_size;
        char key[16];

        CHECK(make_bus_for(2 << 20, 5));
        unit_size = writer.segment.geometry.unit_size;
        CHECK_EQ(sb_check(&writer, true, &report), 0);
        CHECK(!report.problem_count && !report.keys && !report.blocks_used && !report.units_used);
        CHECK_EQ(report.units_free, writer.segment.geometry.unit_count);
        CHECK_EQ(report.bytes_free, writer.segment.geometry.unit_count * unit_size);
        CHECK_EQ(report.clients, 2);
        for (uint32_t i = 0; i < 200; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                CHECK_EQ(put(&writer, key, "0123456789", i % 10), 0);
        }
        CHECK_EQ(sb_snapshot_open(&reader, &index, &cut), 0);
        for (uint32_t i = 0; i < 30; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                CHECK_EQ(i < 20 ? put(&writer, key, "new", 3) : delete (&writer, key), 0);
        }
        CHECK(!sb_guard_grow(&reader, 0) && !sb_op_get(&reader, "key7", 4, 0, &version));
        settle();
        sb_pin(&reader);
        CHECK_EQ(sb_check(&writer, true, &report), 0);
        CHECK_EQ(report.problem_count, 0);
        CHECK(report.keys == 190 && report.keys_deleted == 10 && report.placeholders == 0);
        CHECK(report.nodes == 200 && report.versions == 230);
        CHECK_EQ(report.blocks_used, 430);
        CHECK(report.snapshots == 1 && report.guards == 1 && report.pinned == 1);
        CHECK(!report.blocks_waiting && !report.blocks_private && !report.blocks_lost);
        CHECK_EQ(report.units_free + report.units_used, writer.segment.geometry.unit_count);
        CHECK_EQ(report.bytes_free + report.bytes_used,
                writer.segment.geometry.unit_count * unit_size);
        unmake_bus();
}

#define CASES 25u

/* Where the key "k" is. */
struct place {
        struct sb_version *head;
        struct sb_node *node, *before;
};

/* Do one kind of damage to a chain or to the ordered index. Return: what it is told as. */
static const char *damage_links(uint32_t number, const struct place *at)
{
        struct sb_segment *s = &writer.segment;
        struct sb_version *head = at->head;
        struct sb_node *node = at->node, *other = at->before;

        switch (number) {
        case 0:
                sb_store_relaxed(&s->super->stable, sb_load_relaxed(&s->super->clock));
                return "make no sense";
        case 1:
                sb_store_relaxed(&s->super->era, SB_ERA_MIN - 1);
                return "makes no sense";
        case 2: /* a node is passed over */
                sb_store_relaxed(&other->next[0], sb_load_relaxed(&node->next[0]));
                for (uint32_t i = 0; i < s->height_max; i++)
                        for (uint32_t j = 0; j < 2; j++) {
                                struct sb_word64 *link = !j                  ? &s->super->order[i]
                                                         : i < other->height ? &other->next[i]
                                                                             : NULL;

                                if (link && sb_load_relaxed(link) == sb_offset_of(s, node))
                                        sb_store_relaxed(link, sb_load_relaxed(&node->next[i]));
                        }
                return "its node is not in the ordered index";
        case 3:
                sb_store_relaxed(&s->super->order[0], 16);
                return "no node at offset";
        case 4:
                node->key_len = 0;
                return "height or key length is wrong";
        case 5:
                memset(&node->next[node->height], 0xff, 1);
                memset(head->bytes, 0xff, 1);
                return "it is out of order";
        case 6:
                sb_store_relaxed(&node->cell, sb_load_relaxed(&other->cell));
                return "its cell is another key's";
        case 7:
                sb_store_relaxed(&node->cell, 15);
                return "it names no cell";
        case 8:
                head->node = sb_offset_of(s, head);
                return "its cell is another key's";
        case 9:
                head->bytes[0] ^= 1;
                return "version and node have different keys";
        case 10:
                sb_store_relaxed(&head->stamp, sb_load_relaxed(&s->super->clock) + 1);
                return "a stamp is ahead of the clock";
        default:
                return NULL;
        }
}

/* The same to blocks, units and records. */
static const char *damage_memory(uint32_t number, const struct place *at)
{
        struct sb_segment *s = &writer.segment;
        struct sb_version *head = at->head;
        uint64_t offset;

        switch (number) {
        case 11:
                sb_store_relaxed(&head->block.retire, sb_load_relaxed(&s->super->era));
                return "its newest version is on its way out";
        case 12:
                sb_store_relaxed(&head->block.retire, SB_RETIRE_FREEING | 3);
                return "is in hand";
        case 13:
                sb_or_full(&sb_unit_bitmap(s, s->geometry.unit_count - 1)[0], 4);
                return "bits are set where no block is";
        case 14:
                sb_store_relaxed(&s->unit_words[s->geometry.unit_count - 1], UINT64_C(9) << 60);
                return "makes no sense";
        case 15: /* a block is taken and its slab forgotten */
                if (sb_slab_take(&reader, SB_UNIT_VERSIONS, 700, 0, &offset))
                        return NULL;
                sb_and_full(&s->unit_words[sb_unit_of(s, offset)], UINT64_C(0xffc) << 52);
                return "is lost";
        case 16:
                sb_store_relaxed(&sb_record_at(s, 4)->tag, 7);
                return "its state makes no sense";
        case 17:
                sb_store_relaxed(&sb_record_at(s, 2)->guard_high, SB_GUARDS_MAX + 1);
                return "more guards than there can be";
        case 18:
                sb_store_relaxed(&sb_record_at(s, 2)->guard_high, 1);
                sb_store_relaxed(&reader.guards.words[0], sb_offset_of(s, head) + 16);
                return "holds what is no block";
        case 19:
                sb_store_relaxed(&at->node->block.retire, sb_load_relaxed(&s->super->era));
                return "it is linked and dated";
        case 20:
                sb_pin(&writer);
                sb_roster_unlist(s, writer.slot);
                return "is in use and not in the roster";
        case 21:
                list_records(4, 5);
                return "is free and in the roster";
        case 22:
                sb_store_relaxed(&sb_record_at(s, 4)->pin, SB_PIN(16, 0));
                return "is free but pinned";
        default:
                return NULL;
        }
}

/* The same to the order of two versions of a key. */
static const char *damage_descent(uint32_t number)
{
        struct sb_version *version;
        uint64_t stamp = sb_load_relaxed(&writer.segment.super->clock);

        sb_pin(&writer);
        version = push("k", SB_VERSION_VALUE, number == 23 ? 1 : stamp);
        sb_unpin(&writer);
        if (!version || stamp < 2)
                return NULL;
        if (number == 23)
                return "stamps do not descend";
        version->rev--;
        return "revisions do not descend";
}

static const char *damage(uint32_t number)
{
        struct place at = {0};
        struct sb_spot spot;

        sb_pin(&writer);
        if (sb_key_find(&writer, "k", 1, hash_of("k", 1), &spot)) {
                at.head = spot.head;
                at.node = sb_node_at(&writer.segment, spot.head->node);
                at.before = sb_order_find(&writer, "a", 1);
        }
        sb_unpin(&writer);
        if (!at.node || !at.before)
                return NULL;
        return number <= 10   ? damage_links(number, &at)
               : number <= 22 ? damage_memory(number, &at)
                              : damage_descent(number);
}

static void test_each_kind_of_damage_is_found_and_named(void)
{
        for (uint32_t i = 0; i < CASES; i++) {
                const char *words;

                CHECK(make_bus_for(1 << 20, 5));
                CHECK(!put(&writer, "a", "1", 1) && !put(&writer, "k", "1", 1) &&
                        !put(&writer, "z", "1", 1));
                settle();
                CHECK(!sb_check(&reader, true, &report) && !report.problem_count);
                words = damage(i);
                CHECK(words);
                CHECK_EQ(sb_check(&reader, true, &report), 0);
                if (!report.problem_count || !strstr(report.problems[0], words))
                        TEST_FAIL("case %u, %u findings: %s", i, report.problem_count,
                                report.problem_count ? report.problems[0] : "");
                unmake_bus();
        }
}

static void test_a_superblock_that_is_unusable_is_another_matter(void)
{
        CHECK(make_bus(1 << 20));
        writer.segment.super->geometry.unit_count++;
        CHECK(sb_check(&reader, true, &report) < 0);
        unmake_bus();
}

static void test_only_the_first_findings_are_told_and_all_are_counted(void)
{
        char longer[400];

        memset(longer, 'x', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = 0;
        memset(&report, 0, sizeof(report));
        for (uint32_t i = 0; i < 1000; i++)
                sb_report_problem(&report, "%u %s", i, i == 3 ? longer : "short");
        CHECK_EQ(report.problem_count, 1000);
        for (uint32_t i = 0; i < 8; i++) {
                char expected[16];

                snprintf(expected, sizeof(expected), "%u %s", i, i == 3 ? "xxxx" : "short");
                CHECK(!strncmp(report.problems[i], expected, strlen(expected)));
                CHECK(strlen(report.problems[i]) < sizeof(report.problems[i]));
        }
        CHECK(!report.keys && !report.clients);
}

static void test_the_versions_of_a_long_chain_are_checked_in_a_few_steps_each(void)
{
        uint64_t begun;

        CHECK(make_bus_for(8 << 20, 2));
        sb_pin(&writer);
        for (uint32_t i = 0; i < 20000; i++)
                CHECK(push("log", SB_VERSION_VALUE, 1));
        sb_unpin(&writer);
        begun = writer.counters.walked;
        CHECK_EQ(sb_check(&writer, false, &report), 0);
        CHECK_EQ(report.problem_count, 0);
        CHECK(report.versions >= 20000 && !report.blocks_lost);
        CHECK(writer.counters.walked - begun <= 4 * 20000);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_sound_bus_is_counted);
        RUN(test_the_versions_of_a_long_chain_are_checked_in_a_few_steps_each);
        RUN(test_each_kind_of_damage_is_found_and_named);
        RUN(test_a_superblock_that_is_unusable_is_another_matter);
        RUN(test_only_the_first_findings_are_told_and_all_are_counted);
        return test_end();
}
