/* Keys, values, revisions and guards, through the public interface alone. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libclient/core/admin.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;

/* Begin a test with a bus of 16 MiB; ends it with END(). */
#define BEGIN()        WORLD_BEGIN(16 * MIB)
#define BEGIN_OF(size) WORLD_BEGIN(size)
#define END()          WORLD_END()

static void test_get_of_absent_key_is_not_found_and_leaves_the_guard(void)
{
        struct sb_guard guard = {.rev = 77};

        BEGIN();
        CHECK_EQ(sb_get(bus, b("absent"), &guard), SB_E_NOT_FOUND);
        CHECK_EQ(guard.rev, 77);
        CHECK(!guard.bus);
        END();
}

static void test_set_then_get_gives_the_value_in_place(void)
{
        struct sb_guard first = {0}, second = {0};
        uint64_t rev = 0;

        BEGIN();
        CHECK_EQ(sb_set(bus, b("key"), b("value"), NULL, &rev), 0);
        CHECK_EQ(rev, 1);
        CHECK_EQ(sb_get(bus, b("key"), &first), 0);
        CHECK_EQ(sb_get(bus, b("key"), &second), 0);
        CHECK(first.value.data == second.value.data); /* not a copy */
        CHECK(first.value.len == 5 && memcmp(first.value.data, "value", 5) == 0);
        CHECK(first.key.len == 3 && memcmp(first.key.data, "key", 3) == 0);
        CHECK(first.kind == SB_VALUE && first.rev == 1 && first.bus == bus && first.txn == 0 &&
                first.missed == 0);
        sb_guard_release(&first);
        CHECK(!first.bus);
        sb_guard_release(&second);
        END();
}

static void test_empty_value_is_a_value(void)
{
        struct sb_guard guard = {0};

        BEGIN();
        CHECK_EQ(sb_set(bus, b("key"), (struct sb_bytes){0}, NULL, NULL), 0);
        CHECK_EQ(sb_get(bus, b("key"), &guard), 0);
        CHECK_EQ(guard.value.len, 0);
        CHECK_EQ(guard.kind, SB_VALUE);
        sb_guard_release(&guard);
        END();
}

static void test_keys_of_every_length_and_of_any_bytes_are_told_apart(void)
{
        unsigned char key[1024];
        struct sb_guard guard = {0};

        BEGIN();
        for (unsigned i = 0; i < 256; i++) {
                unsigned char byte = (unsigned char)i;

                CHECK_EQ(sb_set(bus, (struct sb_bytes){&byte, 1}, (struct sb_bytes){&i, sizeof(i)},
                                 NULL, NULL),
                        0);
        }
        for (unsigned i = 0; i < sizeof(key); i++)
                key[i] = (unsigned char)(i * 7);
        for (unsigned len = 2; len <= sizeof(key); len++)
                CHECK_EQ(sb_set(bus, (struct sb_bytes){key, len},
                                 (struct sb_bytes){&len, sizeof(len)}, NULL, NULL),
                        0);
        for (unsigned i = 0; i < 256; i++) {
                unsigned char byte = (unsigned char)i;

                CHECK_EQ(sb_get(bus, (struct sb_bytes){&byte, 1}, &guard), 0);
                CHECK(memcmp(guard.value.data, &i, sizeof(i)) == 0);
                sb_guard_release(&guard);
        }
        for (unsigned len = 2; len <= sizeof(key); len++) {
                CHECK_EQ(sb_get(bus, (struct sb_bytes){key, len}, &guard), 0);
                CHECK(memcmp(guard.value.data, &len, sizeof(len)) == 0);
                CHECK(guard.key.len == len && memcmp(guard.key.data, key, len) == 0);
                sb_guard_release(&guard);
        }
        END();
}

/* A page with nothing readable before it and behind it. */
#define PAGE 4096u
static char *lonely_page(void)
{
        char *pages = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE) != 0)
                return NULL;
        return pages + PAGE;
}

/* Write and read by every call that takes a key. */
static bool is_kept(struct sb_bytes key, struct sb_bytes value, uint64_t *rev)
{
        struct sb_guard guards[2] = {0};
        bool same;

        if (sb_set(bus, key, value, NULL, rev) != 0 ||
                sb_cas(bus, key, *rev, value, NULL, rev) != 0 ||
                sb_get(bus, key, &guards[0]) != 0 || sb_get_many(bus, &key, 1, &guards[1]) != 0)
                return false;
        same = guards[1].bus && guards[0].value.data == guards[1].value.data;
        for (int i = 0; i < 2; i++)
                same = same && guards[i].key.len == key.len && guards[i].value.len == value.len &&
                       memcmp(guards[i].key.data, key.data, key.len) == 0 &&
                       memcmp(guards[i].value.data, value.data, value.len) == 0 &&
                       guards[i].rev == *rev;
        sb_guard_release(&guards[0]);
        sb_guard_release(&guards[1]);
        return same;
}

static void test_no_byte_beside_a_key_or_a_value_is_read(void)
{
        static const unsigned lens[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 31, 32, 33,
                40, 47, 48, 63, 64, 65, 96, 97, 127, 128, 129, 200, 240, 241, 512, 1000, 1024, 2048,
                PAGE};
        char *keys = lonely_page(), *values = lonely_page();
        uint64_t rev;

        BEGIN();
        CHECK(keys && values);
        for (unsigned i = 0; i < PAGE; i++) {
                keys[i] = (char)('a' + i % 26);
                values[i] = (char)(i * 7);
        }
        for (size_t k = 1; k < sizeof(lens) / sizeof(lens[0]) && lens[k] <= 1024; k++)
                for (size_t v = 0; v < sizeof(lens) / sizeof(lens[0]); v++) {
                        struct sb_bytes first = {keys, lens[k]},
                                        last = {keys + PAGE - lens[k], lens[k]},
                                        head = {values, lens[v]},
                                        tail = {values + PAGE - lens[v], lens[v]};

                        CHECK(is_kept(first, tail, &rev) && is_kept(last, head, &rev));
                        CHECK(is_kept(first, head, &rev) && is_kept(last, tail, &rev));
                }
        munmap(keys - PAGE, 3 * PAGE);
        munmap(values - PAGE, 3 * PAGE);
        END();
}

static void test_revisions_count_each_change_without_gaps(void)
{
        uint64_t rev = 0;

        BEGIN();
        for (uint64_t i = 1; i <= 1000; i++) {
                CHECK_EQ(sb_set(bus, b("key"), b("v"), NULL, &rev), 0);
                CHECK_EQ(rev, i);
        }
        CHECK_EQ(sb_delete(bus, b("key"), 1000, NULL, &rev), 0);
        CHECK_EQ(rev, 1001);
        CHECK_EQ(sb_cas(bus, b("key"), 0, b("again"), NULL, &rev), 0);
        CHECK(rev > 1001);
        END();
}

static void test_revision_of_a_key_that_was_forgotten_is_never_given_again(void)
{
        uint64_t rev = 0, last = 0;

        BEGIN();
        for (unsigned i = 0; i < 200; i++) {
                CHECK_EQ(sb_set(bus, b("key"), b("v"), NULL, &rev), 0);
                CHECK(rev > last);
                CHECK_EQ(sb_delete(bus, b("key"), rev, NULL, &last), 0);
                CHECK_EQ(last, rev + 1);
                world_tick(&world);
        }
        END();
}

static void test_cas_with_0_creates_once(void)
{
        uint64_t rev = 0;

        BEGIN();
        CHECK_EQ(sb_cas(bus, b("key"), 0, b("mine"), NULL, &rev), 0);
        CHECK_EQ(rev, 1);
        rev = 0;
        CHECK_EQ(sb_cas(bus, b("key"), 0, b("yours"), NULL, &rev), SB_E_CONFLICT);
        CHECK_EQ(rev, 1);
        CHECK(has(bus, "key", "mine"));
        END();
}

static void test_cas_with_another_revision_changes_nothing_and_tells_the_current_one(void)
{
        uint64_t rev = 0;

        BEGIN();
        CHECK_EQ(sb_set(bus, b("key"), b("one"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("key"), b("two"), NULL, NULL), 0);
        CHECK_EQ(sb_cas(bus, b("key"), 1, b("three"), NULL, &rev), SB_E_CONFLICT);
        CHECK_EQ(rev, 2);
        CHECK_EQ(sb_cas(bus, b("key"), 3, b("three"), NULL, NULL), SB_E_CONFLICT);
        CHECK(has(bus, "key", "two"));
        CHECK_EQ(sb_cas(bus, b("key"), 2, b("three"), NULL, &rev), 0);
        CHECK_EQ(rev, 3);
        CHECK(has(bus, "key", "three"));
        END();
}

static void test_cas_on_a_key_without_value_tells_revision_0(void)
{
        uint64_t rev = 9;

        BEGIN();
        CHECK_EQ(sb_cas(bus, b("never"), 5, b("v"), NULL, &rev), SB_E_CONFLICT);
        CHECK_EQ(rev, 0);
        CHECK_EQ(sb_set(bus, b("gone"), b("v"), NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("gone"), SB_ANY_REV, NULL, NULL), 0);
        rev = 9;
        CHECK_EQ(sb_cas(bus, b("gone"), 1, b("v"), NULL, &rev), SB_E_CONFLICT);
        CHECK_EQ(rev, 0);
        CHECK_EQ(sb_cas(bus, b("gone"), 0, b("v"), NULL, &rev), 0);
        END();
}

static void test_delete_takes_the_value_away_and_counts(void)
{
        struct sb_guard guard = {0};
        uint64_t rev = 0;

        BEGIN();
        CHECK_EQ(sb_set(bus, b("key"), b("v"), NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("key"), 7, NULL, &rev), SB_E_CONFLICT);
        CHECK_EQ(rev, 1);
        CHECK(has(bus, "key", "v"));
        CHECK_EQ(sb_delete(bus, b("key"), 1, NULL, &rev), 0);
        CHECK_EQ(rev, 2);
        CHECK_EQ(sb_get(bus, b("key"), &guard), SB_E_NOT_FOUND);
        END();
}

static void test_delete_of_what_is_not_there_is_not_found_whatever_was_expected(void)
{
        uint64_t rev = 9;

        BEGIN();
        CHECK_EQ(sb_delete(bus, b("never"), SB_ANY_REV, NULL, &rev), SB_E_NOT_FOUND);
        CHECK_EQ(sb_delete(bus, b("never"), 3, NULL, &rev), SB_E_NOT_FOUND);
        CHECK_EQ(sb_set(bus, b("gone"), b("v"), NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("gone"), 1, NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("gone"), 2, NULL, &rev), SB_E_NOT_FOUND);
        CHECK_EQ(rev, 9);
        END();
}

static void test_cuts_of_writes_never_go_back_and_a_guard_has_the_same(void)
{
        uint64_t cut = 0, last = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        struct sb_guard guard = {0};

        BEGIN();
        for (unsigned i = 0; i < 100; i++) {
                CHECK_EQ(sb_set(bus, b(i % 2 ? "a" : "b"), b("v"), &how, NULL), 0);
                CHECK(cut >= last && cut > 0);
                last = cut;
                CHECK_EQ(sb_get(bus, b(i % 2 ? "a" : "b"), &guard), 0);
                CHECK_EQ(guard.cut, cut);
                sb_guard_release(&guard);
                world_tick(&world);
        }
        END();
}

static void test_get_many_gives_each_key_its_guard(void)
{
        enum { COUNT = 100 };
        struct sb_guard guards[COUNT] = {0};
        struct sb_bytes keys[COUNT];
        char names[COUNT][16];

        BEGIN();
        for (unsigned i = 0; i < COUNT; i++) {
                /* the last ten names stand twice */
                snprintf(names[i], sizeof(names[i]), "key-%u", i % 90);
                keys[i] = b(names[i]);
                if (i % 3 != 0 && i < 90)
                        CHECK_EQ(sb_set(bus, keys[i], keys[i], NULL, NULL), 0);
        }
        CHECK_EQ(sb_get_many(bus, keys, COUNT, guards), 0);
        for (unsigned i = 0; i < COUNT; i++) {
                CHECK((guards[i].bus == bus) == (i % 90 % 3 != 0));
                if (!guards[i].bus)
                        continue;
                CHECK(guards[i].value.len == keys[i].len &&
                        memcmp(guards[i].value.data, keys[i].data, keys[i].len) == 0);
                CHECK_EQ(guards[i].rev, 1);
        }
        for (unsigned i = 0; i < COUNT; i++)
                sb_guard_release(&guards[i]);
        CHECK_EQ(sb_get_many(bus, NULL, 0, NULL), 0);
        END();
}

static void test_two_buses_see_each_others_writes(void)
{
        struct sb_guard mine = {0}, theirs = {0};
        struct sb_bus *other;

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        CHECK_EQ(sb_set(bus, b("mine"), b("1"), NULL, NULL), 0);
        CHECK_EQ(sb_set(other, b("theirs"), b("2"), NULL, NULL), 0);
        CHECK_EQ(sb_get(other, b("mine"), &mine), 0);
        CHECK_EQ(sb_get(bus, b("theirs"), &theirs), 0);
        CHECK(mine.writer != theirs.writer && mine.writer != 0 && theirs.writer != 0);
        sb_guard_release(&mine);
        sb_guard_release(&theirs);
        CHECK(!sb_close(other));
        END();
}

static void test_guard_keeps_its_version_while_others_write_delete_and_fill_the_memory(void)
{
        struct sb_guard old = {0}, deleted = {0};
        struct sb_bus *other;
        char value[4000], copy[4000];

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        memset(value, 'x', sizeof(value));
        CHECK_EQ(sb_set(bus, b("key"), (struct sb_bytes){value, sizeof(value)}, NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("other"), (struct sb_bytes){value, sizeof(value)}, NULL, NULL), 0);
        CHECK_EQ(sb_get(bus, b("key"), &old), 0);
        CHECK_EQ(sb_get(bus, b("other"), &deleted), 0);
        CHECK_EQ(sb_delete(other, b("other"), SB_ANY_REV, NULL, NULL), 0);
        /* Write ten times as much as the segment holds, in the same class of blocks. */
        for (unsigned i = 0; i < 40000; i++) {
                memset(copy, 'a' + i % 20, sizeof(copy));
                CHECK_EQ(sb_set(other, b("key"), (struct sb_bytes){copy, sizeof(copy)}, NULL, NULL),
                        0);
                if (i % 1000 == 0)
                        world_tick(&world);
        }
        CHECK(old.value.len == sizeof(value) && memcmp(old.value.data, value, sizeof(value)) == 0);
        CHECK(deleted.value.len == sizeof(value) &&
                memcmp(deleted.value.data, value, sizeof(value)) == 0);
        CHECK(old.key.len == 3 && memcmp(old.key.data, "key", 3) == 0 && old.rev == 1);
        sb_guard_release(&old);
        sb_guard_release(&deleted);
        CHECK(!sb_close(other));
        END();
}

static void test_value_of_a_quarter_of_the_segment_fits_an_empty_bus(void)
{
        struct sb_guard guard = {0};
        size_t len = 4 * MIB;
        char *value;

        BEGIN();
        value = malloc(len);
        CHECK(value);
        for (unsigned round = 0; round < 5; round++) {
                memset(value, 'a' + (int)round, len);
                CHECK_EQ(sb_set(bus, b("large"), (struct sb_bytes){value, len}, NULL, NULL), 0);
                CHECK_EQ(sb_get(bus, b("large"), &guard), 0);
                CHECK(guard.value.len == len && memcmp(guard.value.data, value, len) == 0);
                sb_guard_release(&guard);
        }
        free(value);
        END();
}

static void test_overwrites_for_ever_need_no_more_memory(void)
{
        char value[1000] = {0};

        BEGIN();
        for (unsigned i = 0; i < 200000; i++) {
                char key[2] = {(char)('a' + i % 16), 0};

                CHECK_EQ(sb_set(bus, b(key), (struct sb_bytes){value, i % sizeof(value)}, NULL,
                                 NULL),
                        0);
        }
        END();
}

static void hold_65536_guards(uint64_t segment_size)
{
        enum { COUNT = 65536 };
        struct sb_guard *guards = calloc(COUNT + 1, sizeof(*guards)), again = {0};
        struct sb_bytes keys[2] = {{"a", 1}, {"b", 1}};
        struct sb_guard two[2] = {0};

        CHECK(guards);
        BEGIN_OF(segment_size);
        CHECK_EQ(sb_set(bus, b("a"), b("v"), NULL, NULL), 0);
        CHECK_EQ(sb_set(bus, b("b"), b("v"), NULL, NULL), 0);
        for (unsigned i = 0; i < COUNT; i++)
                CHECK_EQ(sb_get(bus, b("a"), &guards[i]), 0);
        CHECK_EQ(sb_get(bus, b("a"), &guards[COUNT]), SB_E_FULL);
        CHECK(!guards[COUNT].bus && sb_admin_full(bus) == SB_ADMIN_FULL_GUARDS);
        sb_guard_release(&guards[COUNT / 2]);
        CHECK_EQ(sb_get_many(bus, keys, 2, two), SB_E_FULL);
        CHECK(!two[0].bus && !two[1].bus && sb_admin_full(bus) == SB_ADMIN_FULL_GUARDS);
        CHECK_EQ(sb_get(bus, b("b"), &again), 0);
        sb_guard_release(&again);
        for (unsigned i = 0; i < COUNT; i++)
                sb_guard_release(&guards[i]);
        CHECK_EQ(sb_admin_full(bus), SB_ADMIN_FULL_MEMORY);
        CHECK_EQ(sb_get_many(bus, keys, 2, two), 0);
        sb_guard_release(&two[0]);
        sb_guard_release(&two[1]);
        END();
        free(guards);
}

static void test_65536_guards_can_be_held_and_not_one_more(void)
{
        hold_65536_guards(256 * MIB);
}

static void test_65536_guards_can_be_held_in_a_small_segment(void)
{
        hold_65536_guards(16 * MIB);
}

static void test_a_closed_bus_frees_its_record(void)
{
        BEGIN();
        for (unsigned i = 0; i < 100; i++) {
                struct sb_bus *other = world_bus(&world);
                struct sb_guard guard = {0};

                CHECK(other);
                CHECK_EQ(sb_set(other, b("key"), b("v"), NULL, NULL), 0);
                /* What a guard holds ends with the bus. */
                CHECK_EQ(sb_get(other, b("key"), &guard), 0);
                CHECK(!sb_close(other));
                sb_guard_release(&guard);
        }
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_get_of_absent_key_is_not_found_and_leaves_the_guard);
        RUN(test_set_then_get_gives_the_value_in_place);
        RUN(test_empty_value_is_a_value);
        RUN(test_keys_of_every_length_and_of_any_bytes_are_told_apart);
        RUN(test_no_byte_beside_a_key_or_a_value_is_read);
        RUN(test_revisions_count_each_change_without_gaps);
        RUN(test_revision_of_a_key_that_was_forgotten_is_never_given_again);
        RUN(test_cas_with_0_creates_once);
        RUN(test_cas_with_another_revision_changes_nothing_and_tells_the_current_one);
        RUN(test_cas_on_a_key_without_value_tells_revision_0);
        RUN(test_delete_takes_the_value_away_and_counts);
        RUN(test_delete_of_what_is_not_there_is_not_found_whatever_was_expected);
        RUN(test_cuts_of_writes_never_go_back_and_a_guard_has_the_same);
        RUN(test_get_many_gives_each_key_its_guard);
        RUN(test_two_buses_see_each_others_writes);
        RUN(test_guard_keeps_its_version_while_others_write_delete_and_fill_the_memory);
        RUN(test_value_of_a_quarter_of_the_segment_fits_an_empty_bus);
        RUN(test_overwrites_for_ever_need_no_more_memory);
        RUN(test_65536_guards_can_be_held_and_not_one_more);
        RUN(test_65536_guards_can_be_held_in_a_small_segment);
        RUN(test_a_closed_bus_frees_its_record);
        return test_end();
}
