/*
 * Finding the newest value the short way and the long way (shm/mvcc/find-plain.h, find.h): what the
 * short way returns is what the long way returns, for keys of every length and for all that may
 * lie in a cell; and what it leaves to the long way.
 */
#include "shm/base/word.h"
#include "shm/memory/era.h"
#include "shm/mvcc/find-plain.h"
#include "shm/mvcc/find.h"
#include "tests/harness/faults.h"
#include "tests/unit/chain.h"
#include "tests/unit/draw.h"

static uint32_t disagreements; /* between what a pin finds and what a guard without one does */

/* Whether a guard without a pin finds the value. Its word holds that, or nothing. Not inlined, as
 * in a get that is called with any key. */
__attribute__((noipa)) static bool hold_plain(
        const char *key, uint64_t len, const struct sb_version *expected)
{
        struct sb_found held;
        bool holds = sb_find_hold(&reader, key, len, sb_find_hash(&reader, key, len), 0, &held);

        disagreements += sb_load_relaxed(&reader.guards.words[0]) != (holds ? held.offset : 0) ||
                         (holds && held.version != expected);
        sb_guard_set(&reader, 0, 0);
        return holds;
}

/* Not inlined, as above. */
__attribute__((noipa)) static bool find_plain(const char *key, uint64_t len, struct sb_found *ret)
{
        bool found = sb_find_plain(
                &reader, key, len, sb_find_hash(&reader, key, len), sb_find_pin(&reader), ret);

        sb_find_unpin(&reader);
        disagreements += hold_plain(key, len, found ? ret->version : NULL) != found;
        return found;
}

static struct sb_version *find_long(const char *key, uint64_t len)
{
        struct sb_version *version;

        sb_pin(&reader);
        version = sb_find_newest(&reader, key, (uint32_t)len, hash_of(key, (uint32_t)len));
        sb_unpin(&reader);
        return version;
}

static void test_a_hash_is_the_same_by_both_ways_for_every_length(void)
{
        static char key[SB_KEY_LEN_MAX];

        CHECK(make_bus(1 << 20));
        draw_state = 1;
        for (uint32_t len = 1; len <= SB_KEY_LEN_MAX; len++) {
                for (uint32_t i = 0; i < len; i++)
                        key[i] = (char)draw(256);
                CHECK_EQ(sb_find_hash(&reader, key, len), hash_of(key, len));
                CHECK_EQ(sb_find_hash_any(&reader, key, len), hash_of(key, len));
                CHECK(sb_find_takes(&reader, len));
        }
        CHECK(!sb_find_takes(&reader, 0) && !sb_find_takes(&reader, SB_KEY_LEN_MAX + 1));
        unmake_bus();
}

/* A length is asked for once, and its steps are those of one class of lengths. */
static void test_each_length_is_in_one_class_at_most(void)
{
        for (uint64_t len = 0; len <= SB_KEY_LEN_MAX + 1; len++) {
                CHECK_EQ(sb_find_one_word(len), len >= 1 && len <= 8);
                CHECK_EQ(sb_find_two_words(len), len >= 9 && len <= 16);
                CHECK_EQ(sb_find_four_words(len), len >= 17 && len <= 32);
                CHECK_EQ(sb_find_eight_words(len), len >= 33 && len <= 64);
        }
}

static void test_keys_are_the_same_if_each_byte_is(void)
{
        for (uint32_t len = 1; len <= 300; len++) {
                /* Of just this size: a sanitizer sees a read beyond it. */
                unsigned char *a = malloc(len), *b = malloc(len);

                CHECK(a && b);
                memset(a, 'a', len);
                memset(b, 'a', len);
                CHECK(sb_find_same(a, b, len) && sb_bytes_same(a, b, len));
                for (uint32_t i = 0; i < len; i++) {
                        b[i] ^= (unsigned char)(1u << i % 8);
                        CHECK(!sb_find_same(a, b, len) && !sb_bytes_same(a, b, len));
                        b[i] = 'a';
                }
                free(a);
                free(b);
        }
        CHECK(sb_bytes_same((const unsigned char *)"a", "b", 0));
}

static void test_a_plain_value_is_found_at_once_whatever_its_keys_length(void)
{
        static char key[SB_KEY_LEN_MAX + 1];
        struct sb_found found;

        CHECK(make_bus(8 << 20));
        sb_pin(&writer);
        for (uint32_t len = 1; len <= SB_KEY_LEN_MAX; len += len < 40 ? 1 : 61) {
                memset(key, 'k', len);
                key[len] = 0;
                CHECK(!find_plain(key, len, &found));
                CHECK(push(key, SB_VERSION_VALUE, 20) && push(key, SB_VERSION_VALUE, 30));
                CHECK(find_plain(key, len, &found));
                CHECK(found.version == find_long(key, len));
                CHECK(found.version->rev == 2 && found.stamp == 30);
                CHECK_EQ(found.offset, sb_offset_of(&reader.segment, found.version));
                CHECK_EQ(found.word, sb_load_relaxed(found.cell));
                CHECK_EQ(SB_SHAPE_VALUE_LEN(found.shape), 8);
                CHECK_EQ(SB_SHAPE_KEY_LEN(found.shape), 0);
                key[len - 1] = 'l'; /* another key of that length */
                CHECK(!find_plain(key, len, &found) && !find_long(key, len));
        }
        unmake_bus();
}

/* Whether each way to a key's version finds one; -1: they do not say the same. */
static int finds(const char *key, uint64_t len)
{
        uint64_t hash = hash_of(key, (uint32_t)len);
        bool plain, whole, at, made, node;
        struct sb_found found;
        struct sb_spot spot;

        plain = find_plain(key, len, &found);
        whole = find_long(key, len);
        sb_pin(&reader);
        at = sb_find_at(&reader, key, (uint32_t)len, hash, UINT64_MAX >> 1);
        made = sb_key_find(&reader, key, (uint32_t)len, hash, &spot);
        node = sb_find_node(&reader, key, (uint32_t)len, hash);
        sb_unpin(&reader);
        if (plain == whole && plain == at && plain == made && plain == node)
                return plain;
        TEST_NOTE("a key of %u: plain %d, the long way %d, at a cut %d, for a writer %d, a node %d",
                (unsigned)len, plain, whole, at, made, node);
        return -1;
}

/* A cell with the tag of one key leads to the version of another, and that one's bytes, with its
 * value behind them, are this key's: so it is where two keys share a tag, and in a forged segment.
 */
static void test_a_tag_of_another_key_finds_nothing_however_alike_the_bytes_are(void)
{
        static const char text[] = "0123456789abcdefghijklmnopqrstuvwxyz0123456789"
                                   "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz";
        static const uint32_t lens[] = {1, 4, 7, 8, 9, 10, 12, 15, 16, 17, 23, 24, 31, 32, 40, 64};

        for (uint32_t i = 0; i < 256; i++) {
                uint32_t stored_len = lens[i / 16], len = lens[i % 16];
                uint64_t hash;
                struct sb_bucket *home;
                struct sb_spot spot;
                char key[65] = {0};

                memcpy(key, text, stored_len);
                CHECK(make_bus(1 << 20) && !put(&writer, key, text + stored_len, 40));
                sb_pin(&writer);
                CHECK(spot_of(key, &spot));
                sb_unpin(&writer);
                hash = hash_of(text, len);
                home = &writer.segment.buckets[sb_index_home(&writer.segment, hash)];
                if (len != stored_len && &home->cell[1] != spot.cell)
                        sb_store_relaxed(&home->cell[1],
                                sb_tag_of(hash) | sb_offset_of(&writer.segment, spot.head));
                CHECK_EQ(finds(text, len), len == stored_len);
                unmake_bus();
        }
}

/* A node that is about to come into the ordered index or to leave it is none to go on from. */
static void test_a_node_is_found_of_a_key_that_has_been_written_and_stays(void)
{
        struct sb_spot spot;
        struct sb_node *node;

        CHECK(make_bus(1 << 20));
        sb_pin(&writer);
        CHECK(spot_of("key", &spot));
        node = sb_node_at(&writer.segment, spot.head->node);
        CHECK(node && !sb_find_node(&writer, "key", 3, hash_of("key", 3)));
        CHECK(push("key", SB_VERSION_VALUE, 20));
        CHECK(sb_find_node(&writer, "key", 3, hash_of("key", 3)) == node);
        CHECK(push("key", SB_VERSION_DELETED, 30));
        CHECK(sb_find_node(&writer, "key", 3, hash_of("key", 3)) == node);
        CHECK(!sb_find_node(&writer, "keys", 4, hash_of("keys", 4)));
        sb_store_relaxed(spot.cell, sb_load_relaxed(spot.cell) | SB_CELL_FROZEN);
        CHECK(!sb_find_node(&writer, "key", 3, hash_of("key", 3)));
        sb_store_relaxed(spot.cell, 0);
        CHECK(!sb_find_node(&writer, "key", 3, hash_of("key", 3)));
        sb_unpin(&writer);
        unmake_bus();
}

static void test_what_is_not_plain_is_left_to_the_long_way(void)
{
        enum {
                BIRTH,
                TOMBSTONE,
                EXPIRED,
                EXPIRY,
                UNSTAMPED,
                INTENT,
                ABORTED,
                FROZEN,
                ERA,
                TOO_LONG,
                NOWHERE,
                BELOW,
                TRANSACTIONS,
                RULED,
                CASES
        };

        for (uint32_t i = 0; i < CASES; i++) {
                struct sb_version *version = NULL;
                struct sb_found found;
                struct sb_spot spot;
                uint32_t kind = i == TOMBSTONE      ? SB_VERSION_DELETED
                                : i == EXPIRED      ? SB_VERSION_EXPIRED
                                : i == EXPIRY       ? SB_VERSION_HAS_EXPIRY
                                : i == TRANSACTIONS ? SB_VERSION_HAS_TXN
                                                    : 0;
                uint32_t era;

                CHECK(make_bus(1 << 20));
                sb_pin(&writer);
                CHECK(spot_of("key", &spot));
                if (i != BIRTH)
                        CHECK((version = push("key", kind,
                                       i == UNSTAMPED ? 0
                                       : i == ABORTED ? SB_STAMP_ABORTED
                                       : i == INTENT  ? intent_of(make_descriptor(1, 0, 0))
                                                      : 20)));
                CHECK(spot_of("key", &spot));
                if (i == TOO_LONG)
                        version->shape = SB_SHAPE(writer.segment.geometry.size, 3, 0, 1);
                if (i == FROZEN || i == RULED)
                        sb_or_full(spot.cell, i == FROZEN ? SB_CELL_FROZEN : SB_CELL_KEPT);
                if (i == NOWHERE)
                        sb_or_full(spot.cell, SB_OFFSET_MASK);
                if (i == BELOW)
                        sb_and_full(spot.cell, SB_TAG_MASK | 0xfff0);
                era = sb_find_pin(&reader);
                if (i == ERA)
                        sb_era_advance(&writer);
                if (sb_find_plain(&reader, "key", 3, hash_of("key", 3), era, &found) !=
                        (i >= TRANSACTIONS))
                        TEST_FAIL("case %u", i);
                CHECK(i < TRANSACTIONS || found.version == version);
                sb_find_unpin(&reader);
                /* A guard without a pin asks no era. */
                CHECK_EQ(hold_plain("key", 3, version), i == ERA || i >= TRANSACTIONS);
                /* A trailer, a tombstone, a missing stamp are no matter there. */
                if (i == TOMBSTONE || i == EXPIRY || i == UNSTAMPED || i == ERA ||
                        i >= TRANSACTIONS)
                        CHECK(find_long("key", 3) == version && sb_load_relaxed(&version->stamp));
                else
                        CHECK(i == EXPIRED || !find_long("key", 3));
                /* Nor does a look at a cut follow such a cell. */
                if (i == FROZEN || i == NOWHERE || i == BELOW) {
                        sb_pin(&reader);
                        CHECK(!sb_find_at(&reader, "key", 3, hash_of("key", 3), 99));
                        sb_unpin(&reader);
                }
                unmake_bus();
        }
}

/* A length that is forged leads the comparison and the copy to the segment's end, and not beyond.
 */
static void test_a_value_may_reach_just_to_where_every_key_has_room_behind_it(void)
{
        struct sb_version *version;
        struct sb_found found;
        uint64_t room;

        CHECK(make_bus(1 << 20));
        sb_pin(&writer);
        CHECK((version = push("key", SB_VERSION_VALUE, 20)));
        room = writer.segment.values_end - sb_offset_of(&writer.segment, version);
        CHECK(room < writer.segment.geometry.size - sizeof(struct sb_version));
        version->shape = SB_SHAPE(room, 3, 0, 1);
        CHECK(find_plain("key", 3, &found) && found.version == version);
        CHECK_EQ(SB_SHAPE_VALUE_LEN(found.shape), room);
        version->shape = SB_SHAPE(room + 1, 3, 0, 1);
        CHECK(!find_plain("key", 3, &found));
        CHECK_EQ(disagreements, 0);
        unmake_bus();
}

static void test_any_of_many_keys_is_found_as_the_long_way_finds_it(void)
{
        enum { KEYS = 400 };
        struct sb_geometry_wish wish = {.size = 2 << 20, .clients = 2, .bucket_count = 64};
        static char names[KEYS][40];
        uint32_t plain = 0, other = 0;

        CHECK(make_bus_of(&wish)); /* more than six to a bucket: many are outside their home */
        draw_state = 9;
        sb_pin(&writer);
        for (uint32_t i = 0; i < KEYS; i++) {
                snprintf(names[i], sizeof(names[i]), "%.*s%u", (int)draw(24),
                        "abcdefghijklmnopqrstuvwxyz", i);
                CHECK(push(names[i], SB_VERSION_VALUE, 10));
                for (uint32_t j = draw(3); j; j--)
                        CHECK(push(names[i], draw(4) ? SB_VERSION_VALUE : SB_VERSION_DELETED,
                                draw(4) ? 20 : SB_STAMP_ABORTED));
        }
        for (uint32_t i = 0; i < KEYS; i++) {
                uint64_t len = strlen(names[i]);
                struct sb_found found;

                CHECK(find_long(names[i], len));
                if (find_plain(names[i], len, &found)) {
                        CHECK(found.version == find_long(names[i], len));
                        plain++;
                } else {
                        other++;
                }
                names[i][len - 1] ^= 0x40;
                CHECK(!find_plain(names[i], len, &found) && !find_long(names[i], len));
        }
        CHECK(plain > 100 && other > 20);
        CHECK_EQ(disagreements, 0);
        unmake_bus();
}

/* A scan goes by nodes that may have left the index: what lies there now may name any cell. */
static void test_in_a_cell_only_its_own_nodes_version_is_found(void)
{
        struct sb_version *first, *second;
        struct sb_word64 *cell, *other;
        uint64_t at, shape;

        CHECK(make_bus(1 << 20));
        sb_pin(&writer);
        CHECK(push("a", SB_VERSION_VALUE, 20) && push("b", SB_VERSION_VALUE, 30));
        first = find_long("a", 1);
        second = find_long("b", 1);
        CHECK(first && second);
        at = first->node;
        cell = sb_cell_at(
                &writer.segment, sb_load_relaxed(&sb_node_at(&writer.segment, first->node)->cell));
        other = sb_cell_at(
                &writer.segment, sb_load_relaxed(&sb_node_at(&writer.segment, second->node)->cell));
        CHECK(cell && other && cell != other);
        CHECK(sb_find_in_cell(&writer, cell, at, 20) == first);
        CHECK(sb_find_plain_in_cell(&writer, cell, at, 20, &shape) == first);
        CHECK(sb_find_in_node(&writer, sb_node_at(&writer.segment, at), 20) == first);
        CHECK(!sb_find_in_cell(&writer, cell, at, 19));
        CHECK(!sb_find_plain_in_cell(&writer, cell, at, 19, &shape));
        CHECK(!sb_find_in_cell(&writer, other, at, 30));
        CHECK(!sb_find_plain_in_cell(&writer, other, at, 30, &shape));
        CHECK(!sb_find_in_cell(&writer, NULL, at, 30));
        CHECK(!sb_find_plain_in_cell(&writer, NULL, at, 30, &shape));
        sb_unpin(&writer);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_hash_is_the_same_by_both_ways_for_every_length);
        RUN(test_each_length_is_in_one_class_at_most);
        RUN(test_keys_are_the_same_if_each_byte_is);
        RUN(test_a_plain_value_is_found_at_once_whatever_its_keys_length);
        RUN(test_a_tag_of_another_key_finds_nothing_however_alike_the_bytes_are);
        RUN(test_a_node_is_found_of_a_key_that_has_been_written_and_stays);
        RUN(test_what_is_not_plain_is_left_to_the_long_way);
        RUN(test_a_value_may_reach_just_to_where_every_key_has_room_behind_it);
        RUN(test_any_of_many_keys_is_found_as_the_long_way_finds_it);
        RUN(test_in_a_cell_only_its_own_nodes_version_is_found);
        return test_end();
}
