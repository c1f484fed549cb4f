/*
 * What leads to a key and goes by it: its cell, its place in the ordered index, its rule, its
 * newest version. Another process changes them between two instructions of one that changes them,
 * too, or reads them (tests/kill/race.h). What both did is there in the end.
 */
#include "ring/op/keep.h"
#include "ring/op/past.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/memory/era.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/vacancy.h"
#include "shm/mvcc/clock.h"
#include "shm/upkeep/work.h"
#include "tests/kill/race.h"
#include "tests/unit/bus.h"

/* ---- rules of history ---- */

#define ALL    SB_RULE_WORD(SB_RULE_ALL, 0)
#define LAST   SB_RULE_WORD(SB_RULE_LAST, 1)
#define NEWEST SB_RULE_WORD(SB_RULE_NEWEST, 0)
#define GUARD  0u

/* The key "key", for which there is a rule: its own, or that of the prefix "k". */
static bool begin_ruled(bool prefix)
{
        return begin_plain() && !put(&writer, "key", "1", 1) &&
               !sb_keep_write(&writer, "key", prefix ? 1 : 3, prefix, ALL) &&
               !sb_guard_grow(&writer, GUARD);
}

static bool begin_with_rule(void)
{
        return begin_ruled(false);
}

static bool begin_with_wider_rule(void)
{
        return begin_ruled(true);
}

static void keep_last(void *context)
{
        (void)context;
        broken |= sb_keep_write(&reader, "key", 3, false, LAST) != 0;
}

static void end_wider_rule(void *context)
{
        (void)context;
        broken |= sb_keep_write(&reader, "key", 1, true, NEWEST) != 0;
}

static void keep_all(void)
{
        broken |= sb_keep_write(&writer, "key", 3, false, ALL) != 0;
}

/* The rule that applies to the key; and what its node says. */
static bool read_rule(struct sb_rule_found *ret, uint64_t *ret_copied)
{
        struct sb_node *node;

        sb_pin(&writer);
        node = sb_order_find(&writer, "key", 3);
        sb_rules_find(&writer, "key", 3, false, ret);
        if (node)
                *ret_copied = sb_rules_of_node(node);
        sb_unpin(&writer);
        return node;
}

/* What the key has now is there still when it has been overwritten. */
static bool is_kept(void)
{
        uint64_t cut = sb_clock_take_cut(&writer);
        struct sb_version *version;

        if (put(&writer, "key", "2", 1))
                return false;
        sb_work_all(&writer, true);
        return !sb_past_get(&writer, "key", 3, cut, GUARD, &version);
}

/* As long as the rule covers what is written. */
static void overwrite_and_look_back(void)
{
        struct sb_rule_found found;
        uint64_t copied = 0;

        broken |= !read_rule(&found, &copied);
        /* Only where the node does not say so can it be lost. */
        if (found.value.word != ALL || !found.value.since || copied == ALL || looked)
                return;
        looked = true;
        broken |= !is_kept();
}

/* Of the two the last one that was written. */
static bool has_rule(void)
{
        struct sb_rule_found found;
        uint64_t copied = 0;

        return read_rule(&found, &copied) && found.value.since && copied == found.value.word;
}

static void test_a_rule_keeps_what_it_covers_beside_another_one_that_was_about_to_be(void)
{
        const struct race race = {.begin = begin_with_rule,
                .operation = keep_last,
                .beside = keep_all,
                .behind = overwrite_and_look_back,
                .right = has_rule};

        CHECK(race_all(&race) > 100);
}

static bool is_kept_by_its_own(void)
{
        return !came || is_kept();
}

static void test_a_rule_keeps_what_it_covers_beside_the_end_of_a_wider_one(void)
{
        const struct race race = {.begin = begin_with_wider_rule,
                .operation = end_wider_rule,
                .beside = keep_all,
                .right = is_kept_by_its_own};

        CHECK(race_all(&race) > 100);
}

/* ---- cells ---- */

static struct sb_version *placeholder; /* a second one of the key's node, in a cell of its own */
static uint64_t placeholder_cell, placeholder_hash;

static bool begin_with_second_placeholder(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 18, .clients = 2, .bucket_count = 1};
        struct sb_version *version;
        uint64_t offset;

        if (!make_bus_of(&wish) || put(&writer, "key", "1", 1) || !(version = find("key")) ||
                sb_slab_take(&writer, SB_UNIT_VERSIONS, sizeof(*version) + 3, 0, &offset))
                return false;
        placeholder = sb_version_at(&writer.segment, offset);
        placeholder_hash = sb_hash_key("key", 3, writer.segment.seed);
        placeholder->rev = 0;
        placeholder->node = version->node;
        placeholder->shape = SB_SHAPE(0, 3, SB_VERSION_PLACEHOLDER, writer.slot);
        sb_store_relaxed(&placeholder->stamp, 0);
        sb_store_relaxed(&placeholder->prev, 0);
        sb_pin(&writer);
        sb_pin_give_birth(&writer, &placeholder->block);
        sb_unpin(&writer);
        return !sb_index_insert(&writer, placeholder_hash, offset, &placeholder_cell);
}

static void confirm(void *context)
{
        uint64_t word;

        (void)context;
        sb_pin(&reader);
        word = sb_pin_load(&reader, sb_cell_at(&reader.segment, placeholder_cell));
        if (sb_version_at(&reader.segment, word & SB_OFFSET_MASK) == placeholder)
                broken |= sb_index_confirm(&reader, placeholder_cell, word);
        sb_unpin(&reader);
}

/* It meets the placeholder, too; and the next key has its cell. */
static void confirm_and_make(void)
{
        sb_pin(&writer);
        broken |= sb_index_confirm_all(&writer, placeholder_hash, placeholder->node, true) != 0;
        sb_unpin(&writer);
        broken |= put(&writer, "other", "2", 1) != 0;
}

static bool both_are_there(void)
{
        return find("key") && (!came || find("other"));
}

static void test_a_cell_that_another_key_has_taken_is_not_emptied(void)
{
        const struct race race = {.begin = begin_with_second_placeholder,
                .operation = confirm,
                .beside = confirm_and_make,
                .right = both_are_there};

        CHECK(race_all(&race) > 10);
}

/* ---- writes ---- */

static bool begin_with_two_writes(void)
{
        return begin_plain() && !put(&writer, "long-key", "12345678", 8) &&
               !put(&reader, "long-key", "23456789", 8);
}

static void overwrite(void *context)
{
        (void)context;
        broken |= put(&reader, "long-key", "34567890", 8) != 0;
}

static void overwrite_first(void)
{
        broken |= put(&writer, "long-key", "45678901", 8) != 0;
}

static void see_note(void)
{
        broken |=
                sb_load_relaxed(&reader.record->operation) && !sb_load_relaxed(&reader.record->pin);
}

static bool has_all_writes(void)
{
        const struct sb_version *version = find("long-key");

        return version && version->rev == (came ? 4 : 3) &&
               !sb_load_relaxed(&reader.record->operation);
}

static void test_a_write_that_loses_its_first_try_notes_no_node_without_a_pin(void)
{
        const struct race race = {.begin = begin_with_two_writes,
                .operation = overwrite,
                .beside = overwrite_first,
                .behind = see_note,
                .right = has_all_writes};

        CHECK(race_all(&race) > 20);
}

/* ---- the ordered index ---- */

static struct sb_node *goes, *stays, *comes;

/* A node that is not in the index. */
static struct sb_node *make_node(const char *key)
{
        struct sb_node *node;
        uint64_t offset;

        if (sb_slab_take(&writer, SB_UNIT_NODES, sb_node_size(1), 0, &offset))
                return NULL;
        node = sb_node_at(&writer.segment, offset);
        node->key_len = 1;
        memcpy(node->key, key, 1);
        return node;
}

static bool insert_node(struct sb_handle *handle, struct sb_node *node)
{
        struct sb_node *found = NULL;
        int r;

        sb_pin(handle);
        r = sb_order_insert(handle, node, 0, NULL, &found);
        sb_unpin(handle);
        return !r && found == node;
}

/* "a", which is the anchor, and "b" are in the index, in one branch; "c" is not. */
static bool begin_with_two_nodes(void)
{
        return begin_plain() && (goes = make_node("a")) && (stays = make_node("b")) &&
               (comes = make_node("c")) && insert_node(&writer, goes) &&
               insert_node(&writer, stays);
}

static void remove_node(struct sb_handle *handle)
{
        sb_store_relaxed(&goes->cell, SB_NODE_GONE);
        sb_pin(handle);
        broken |= !sb_order_remove(handle, goes);
        sb_unpin(handle);
}

static void insert_by_reader(void *context)
{
        (void)context;
        broken |= !insert_node(&reader, comes);
}

static void remove_by_reader(void *context)
{
        (void)context;
        remove_node(&reader);
}

static void insert_by_writer(void)
{
        broken |= !insert_node(&writer, comes);
}

static void remove_by_writer(void)
{
        remove_node(&writer);
}

static bool index_has(const struct sb_node *node)
{
        struct sb_node_key key = sb_node_key(&writer.segment, node);

        return sb_order_find(&writer, key.bytes, key.len) == node;
}

/* The index has "b", and what it should have of the others. */
static bool order_is(bool has_goes, bool has_comes)
{
        uint32_t count = 1 + has_goes + has_comes;
        struct sb_order_run nodes;
        bool right;

        sb_pin(&writer);
        sb_order_take_run(&writer, "", 0, true, false, SB_ORDER_RUN, &nodes);
        right = index_has(goes) == has_goes && index_has(stays) && index_has(comes) == has_comes &&
                nodes.count == count && nodes.node[has_goes] == stays && !nodes.more;
        sb_unpin(&writer);
        return right;
}

/* Without a point the other client has done nothing. */
static bool one_came_and_the_other_goes(void)
{
        return order_is(!came, true);
}

static bool one_went_and_the_other_comes(void)
{
        return order_is(false, came);
}

static void test_a_node_comes_into_a_branch_from_which_another_one_goes(void)
{
        const struct race race = {.begin = begin_with_two_nodes,
                .operation = insert_by_reader,
                .beside = remove_by_writer,
                .right = one_came_and_the_other_goes,
                .bare = true};

        CHECK(race_all(&race) > 10);
}

static void test_a_node_goes_out_of_a_branch_into_which_another_one_comes(void)
{
        const struct race race = {.begin = begin_with_two_nodes,
                .operation = remove_by_reader,
                .beside = insert_by_writer,
                .right = one_went_and_the_other_comes,
                .bare = true};

        CHECK(race_all(&race) > 10);
}

/* ---- a reader in a branch that was replaced ---- */

static struct sb_order_run found;
static bool found_freed;

static bool begin_with_two_keys(void)
{
        found_freed = false;
        return begin_plain() && !put(&writer, "a", "1", 1) && !put(&writer, "b", "1", 1);
}

/* The pin still stands where the nodes are looked at. */
static void take_run_by_reader(void *context)
{
        (void)context;
        sb_pin(&reader);
        sb_order_take_run(&reader, "", 0, true, false, SB_ORDER_RUN, &found);
        for (uint32_t i = 0; i < found.count; i++)
                found_freed |= !sb_unit_is_block(&reader.segment,
                        sb_offset_of(&reader.segment, found.node[i]), SB_UNIT_NODES, NULL);
        sb_unpin(&reader);
}

/* "c" comes into the branch when the reader is pinned, so that the pin does not protect its node.
 * Then the branch is copied without "a", "c" goes out of the copy, and its node is freed: what was
 * replaced leads to it still. */
static void copy_and_free(void)
{
        sb_era_advance(&writer);
        broken |= put(&writer, "c", "1", 1) != 0 || delete (&writer, "a") != 0;
        sb_work_all(&writer, true);
        broken |= delete (&writer, "c") != 0;
        for (uint32_t i = 0; i < 4; i++) {
                sb_era_advance(&writer);
                sb_work_all(&writer, true);
        }
}

static bool found_what_is_there(void)
{
        return !found_freed && found.count > 0;
}

static void test_a_reader_of_a_branch_that_was_replaced_meets_no_node_that_was_freed(void)
{
        const struct race race = {.begin = begin_with_two_keys,
                .operation = take_run_by_reader,
                .beside = copy_and_free,
                .right = found_what_is_there};

        CHECK(race_all(&race) > 10);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_rule_keeps_what_it_covers_beside_another_one_that_was_about_to_be);
        RUN(test_a_rule_keeps_what_it_covers_beside_the_end_of_a_wider_one);
        RUN(test_a_cell_that_another_key_has_taken_is_not_emptied);
        RUN(test_a_write_that_loses_its_first_try_notes_no_node_without_a_pin);
        RUN(test_a_node_comes_into_a_branch_from_which_another_one_goes);
        RUN(test_a_node_goes_out_of_a_branch_into_which_another_one_comes);
        RUN(test_a_reader_of_a_branch_that_was_replaced_meets_no_node_that_was_freed);
        return test_end();
}
