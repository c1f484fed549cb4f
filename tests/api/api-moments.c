/* Several keys at one moment: now, in an earlier cut, in a transaction. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/mvcc/evict.h"
#include "tests/api/txns.h"

#define MANY        5000u
#define PATIENCE_NS UINT64_C(20000000000)

static struct sb_guard guards[65537];
static struct sb_bytes keys[65537];

/* Whether a guard shows this value; NULL: it is not held. */
static bool shows(const struct sb_guard *guard, const char *value)
{
        if (!value)
                return !guard->bus;
        return guard->bus && guard->value.len == strlen(value) && guard->kind == SB_VALUE &&
               memcmp(guard->value.data, value, guard->value.len) == 0;
}

static void release(size_t count)
{
        for (size_t i = 0; i < count; i++)
                sb_guard_release(&guards[i]);
}

static bool none_held(size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (guards[i].bus)
                        return false;
        return true;
}

/* What three keys are at a cut. */
static bool three(uint64_t cut, const char *a, const char *b_, const char *c)
{
        struct sb_bytes names[] = {b("a"), b("b"), b("c")};
        bool right = sb_get_many_at(bus, names, 3, cut, guards) == 0 && shows(&guards[0], a) &&
                     shows(&guards[1], b_) && shows(&guards[2], c);

        release(3);
        return right;
}

/* A copy of a guard that was released still names its bus. */
static void test_a_guard_for_a_key_without_a_value_holds_nothing(void)
{
        struct sb_bytes names[] = {b("absent"), b("deleted")};
        uint64_t cut;

        BEGIN();
        CHECK(!put("deleted", "1") && !take("deleted"));
        CHECK_EQ(sb_mark(bus, b("then"), &cut), 0);
        for (uint32_t past = 0; past < 2; past++) {
                guards[0].bus = guards[1].bus = bus;
                CHECK_EQ(sb_get_many_at(bus, names, 2, past ? cut : 0, guards), 0);
                CHECK(!guards[0].bus && !guards[1].bus);
        }
        CHECK_EQ(sb_mark_drop(bus, b("then")), 0);
        END();
}

static void test_many_keys_are_what_they_were_in_the_cut(void)
{
        uint64_t cut;

        BEGIN();
        CHECK(three(0, NULL, NULL, NULL));
        CHECK(!put("a", "1") && !put("b", "2"));
        CHECK(three(0, "1", "2", NULL));
        CHECK_EQ(sb_mark(bus, b("then"), &cut), 0);
        CHECK(!put("a", "3") && !put("c", "4") && !take("b"));
        CHECK(three(cut, "1", "2", NULL) && three(0, "3", NULL, "4"));
        for (unsigned i = 0; i < 4; i++)
                world_tick(&world);
        CHECK(three(cut, "1", "2", NULL) && three(0, "3", NULL, "4"));
        CHECK_EQ(sb_mark_drop(bus, b("then")), 0);
        END();
}

static void test_a_key_may_occur_twice_and_guards_stay(void)
{
        struct sb_bytes names[] = {b("a"), b("none"), b("a"), b("b"), b("none")};

        BEGIN();
        CHECK(!put("a", "1") && !put("b", "2"));
        CHECK_EQ(sb_get_many_at(bus, names, 5, 0, guards), 0);
        for (unsigned i = 0; i < 2000; i++)
                CHECK(!put("a", "later") && !put("b", "later"));
        CHECK(shows(&guards[0], "1") && shows(&guards[1], NULL) && shows(&guards[2], "1") &&
                shows(&guards[3], "2") && shows(&guards[4], NULL));
        release(5);
        END();
}

static struct sb_word32 stops, written;

static int write_pair(void *argument, struct sb_txn *txn)
{
        const char *text = argument;
        int r = sb_txn_set(txn, b("pair/a"), b(text));

        return r ? r : sb_txn_set(txn, b("pair/b"), b(text));
}

static void *write_pairs(void *argument)
{
        struct sb_bus *own = argument;
        char text[24];

        for (uint32_t i = 0; !sb_load_relaxed(&stops); i++) {
                snprintf(text, sizeof(text), "%u", i);
                if (sb_transact(own, SB_SNAPSHOT, write_pair, text, NULL) != 0)
                        break;
                sb_store_relaxed(&written, i);
        }
        return NULL;
}

static void test_what_a_transaction_writes_is_there_whole_or_not_at_all(void)
{
        struct sb_bytes names[] = {b("pair/a"), b("pair/b")};
        uint64_t end = now_ns() + PATIENCE_NS;
        unsigned changes = 0;
        char last[24] = "";
        pthread_t thread;

        BEGIN();
        sb_store_relaxed(&stops, 0);
        CHECK(!put("pair/a", "-") && !put("pair/b", "-"));
        CHECK_EQ(pthread_create(&thread, NULL, write_pairs, other), 0);
        while (changes < 100 && now_ns() < end) {
                char text[24];

                if (sb_get_many_at(bus, names, 2, 0, guards) != 0 || !guards[0].bus ||
                        guards[0].value.len >= sizeof(text))
                        break;
                memcpy(text, guards[0].value.data, guards[0].value.len);
                text[guards[0].value.len] = '\0';
                if (!shows(&guards[1], text))
                        break;
                changes += strcmp(text, last) != 0;
                strcpy(last, text);
                release(2);
        }
        sb_store_relaxed(&stops, 1);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK(none_held(2));
        printf("# %u states of a pair while %u were written\n", changes, sb_load_relaxed(&written));
        CHECK(changes >= 100);
        END();
}

static void name_keys(unsigned count)
{
        static char names[MANY][12];

        for (unsigned i = 0; i < count; i++) {
                snprintf(names[i], sizeof(names[i]), "k%u", i);
                keys[i] = b(names[i]);
        }
}

static void test_thousands_of_keys_some_of_them_gone(void)
{
        uint64_t cut;

        BEGIN();
        name_keys(MANY);
        for (unsigned i = 0; i < MANY; i++)
                CHECK_EQ(sb_set(other, keys[i], keys[i], NULL, NULL), 0);
        CHECK_EQ(sb_mark(bus, b("then"), &cut), 0);
        for (unsigned i = 0; i < MANY; i += 3)
                CHECK_EQ(sb_delete(other, keys[i], SB_ANY_REV, NULL, NULL), 0);
        for (unsigned i = 0; i < 4; i++)
                world_tick(&world);
        for (unsigned past = 0; past < 2; past++) {
                CHECK_EQ(sb_get_many_at(bus, keys, MANY, past ? cut : 0, guards), 0);
                for (unsigned i = 0; i < MANY; i++)
                        CHECK(shows(&guards[i], past || i % 3 != 0 ? keys[i].data : NULL));
                release(MANY);
        }
        CHECK_EQ(sb_mark_drop(bus, b("then")), 0);
        END();
}

static void test_where_one_key_is_not_known_any_more_none_is_held(void)
{
        const struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_ALL};
        struct sb_bytes names[] = {b("kept/a"), b("lost"), b("kept/b")};
        uint64_t cut, between;

        BEGIN();
        CHECK_EQ(sb_keep(bus, b("kept/"), SB_PREFIX, &rule), 0);
        CHECK(!put("kept/a", "1") && !put("lost", "1") && !put("kept/b", "1"));
        CHECK_EQ(sb_cut_at(bus, UINT64_MAX, &cut), 0);
        for (unsigned i = 0; i < 5; i++) {
                CHECK(!put("kept/a", "2") && !put("lost", "2"));
                CHECK_EQ(sb_cut_at(bus, UINT64_MAX, &between), 0);
        }
        world_prune(&world, other);
        /* No guard word is lost, however often: a bus has 65,536. */
        for (unsigned i = 0; i < 70000; i++) {
                CHECK_EQ(sb_get_many_at(bus, names, 3, cut, guards), SB_E_LAPPED);
                CHECK(none_held(3));
        }
        names[1] = names[2];
        CHECK_EQ(sb_get_many_at(bus, names, 2, cut, guards), 0);
        CHECK(shows(&guards[0], "1") && shows(&guards[1], "1"));
        release(2);
        END();
}

static void test_an_empty_batch_is_fine_and_misuse_has_a_name(void)
{
        struct sb_bytes names[] = {b("a"), {"", 0}, {NULL, 3}};
        static char large[1025];
        struct sb_txn *txn;

        BEGIN();
        CHECK(!put("a", "1"));
        txn = begin(SB_SERIALIZABLE);
        guards[0] = guards[1] = (struct sb_guard){.rev = 7};
        CHECK_EQ(sb_get_many_at(bus, NULL, 0, 0, NULL), 0);
        CHECK_EQ(sb_txn_get_many(txn, NULL, 0, NULL), 0);
        CHECK_EQ(sb_get_many_at(NULL, names, 1, 0, guards), -EINVAL);
        CHECK_EQ(sb_get_many_at(NULL, NULL, 0, 0, NULL), -EINVAL);
        CHECK_EQ(sb_txn_get_many(NULL, names, 1, guards), -EINVAL);
        CHECK_EQ(sb_get_many_at(bus, NULL, 1, 0, guards), -EINVAL);
        CHECK_EQ(sb_txn_get_many(txn, NULL, 1, guards), -EINVAL);
        CHECK_EQ(sb_get_many_at(bus, names, 1, 0, NULL), -EINVAL);
        CHECK_EQ(sb_txn_get_many(txn, names, 1, NULL), -EINVAL);
        CHECK_EQ(sb_get_many_at(bus, names, 2, 0, guards), -EINVAL);
        CHECK_EQ(sb_txn_get_many(txn, names, 2, guards), -EINVAL);
        names[1] = names[2];
        CHECK_EQ(sb_get_many_at(bus, names, 2, 0, guards), -EINVAL);
        CHECK_EQ(sb_txn_get_many(txn, names, 2, guards), -EINVAL);
        names[1] = (struct sb_bytes){large, 1025};
        CHECK_EQ(sb_get_many_at(bus, names, 2, 0, guards), -ENAMETOOLONG);
        CHECK_EQ(sb_txn_get_many(txn, names, 2, guards), -ENAMETOOLONG);
        CHECK_EQ(sb_get_many_at(bus, names, 1, 1, guards), -EINVAL);
        CHECK_EQ(sb_get_many_at(bus, names, 1, UINT64_MAX, guards), -EINVAL);
        CHECK_EQ(sb_get_many_at(bus, NULL, 0, UINT64_MAX, NULL), -EINVAL);
        CHECK(guards[0].rev == 7 && guards[1].rev == 7 && none_held(2));
        CHECK_EQ(sb_txn_commit(txn, NULL), 0);
        CHECK_EQ(sb_txn_get_many(txn, names, 1, guards), -EINVAL);
        CHECK_EQ(sb_txn_get_many(txn, NULL, 0, NULL), -EINVAL);
        CHECK(!sb_txn_end(txn));
        txn = begin(SB_SNAPSHOT);
        bus = sb_close(bus);
        CHECK_EQ(sb_txn_get_many(txn, names, 1, guards), SB_E_DETACHED);
        CHECK(!sb_txn_end(txn));
        bus = world_bus(&world);
        CHECK(bus);
        END();
}

static void test_without_guards_or_cuts_a_batch_is_full_and_holds_nothing(void)
{
        struct sb_scan *scans[32] = {0};
        struct sb_bytes names[] = {b("a"), b("b"), b("a")};
        unsigned held = 0;
        struct sb_txn *txn;
        uint64_t cut;

        BEGIN();
        CHECK(!put("a", "1") && !put("b", "2"));
        CHECK_EQ(sb_mark(bus, b("then"), &cut), 0);
        for (unsigned i = 0; i < 65537; i++)
                keys[i] = names[0];
        CHECK_EQ(sb_get_many_at(bus, keys, 65537, 0, guards), SB_E_FULL);
        CHECK_EQ(sb_get_many_at(bus, keys, 65537, cut, guards), SB_E_FULL);
        while (held < 65537 && sb_get(bus, names[0], &guards[held]) == 0)
                held++;
        CHECK(held > 3);
        for (unsigned i = 0; i < 2; i++)
                sb_guard_release(&guards[--held]);
        CHECK_EQ(sb_get_many_at(bus, names, 3, 0, guards + held), SB_E_FULL);
        CHECK_EQ(sb_get_many_at(bus, names, 3, cut, guards + held), SB_E_FULL);
        txn = begin(SB_SNAPSHOT);
        CHECK_EQ(sb_txn_get_many(txn, names, 3, guards + held), SB_E_FULL);
        CHECK_EQ(sb_txn_get_many(txn, names, 2, guards + held), 0);
        CHECK(!sb_txn_end(txn));
        release(held + 2);
        for (unsigned i = 0; i < 32; i++)
                CHECK_EQ(sb_scan_open(bus, NULL, none, &scans[i]), 0);
        CHECK_EQ(sb_get_many_at(bus, names, 3, 0, guards), SB_E_FULL);
        CHECK(three(cut, "1", "2", NULL)); /* this one needs no cut of its own */
        CHECK(!sb_scan_close(scans[31]));
        CHECK(three(0, "1", "2", NULL));
        for (unsigned i = 0; i < 31; i++)
                CHECK(!sb_scan_close(scans[i]));
        CHECK_EQ(sb_mark_drop(bus, b("then")), 0);
        END();
}

/* ---- in a transaction ---- */

static void test_a_batch_in_a_transaction_shows_its_cut_and_its_own_writes(void)
{
        struct sb_bytes names[] = {b("a"), b("b"), b("c"), b("d"), b("e"), b("a"), b("d")};
        struct sb_txn *txn;

        BEGIN();
        CHECK(!put("a", "1") && !put("b", "2") && !put("c", "3"));
        for (unsigned isolation = SB_SNAPSHOT; isolation <= SB_SERIALIZABLE; isolation++) {
                txn = begin(isolation);
                CHECK(!put("a", "later") && !put("e", "later"));
                CHECK(!set(txn, "b", "mine") && !set(txn, "d", "mine too"));
                CHECK_EQ(sb_txn_delete(txn, b("c")), 0);
                CHECK_EQ(sb_txn_get_many(txn, names, 7, guards), 0);
                CHECK(shows(&guards[0], "1") && shows(&guards[1], "mine") &&
                        shows(&guards[2], NULL) && shows(&guards[3], "mine too") &&
                        shows(&guards[4], NULL) && shows(&guards[5], "1") &&
                        shows(&guards[6], "mine too"));
                CHECK(guards[0].rev > 0 && guards[1].rev == 0 && guards[1].cut == 0);
                /* Guards outlive a second write and the transaction. */
                CHECK(!set(txn, "b", "mine again"));
                CHECK(!sb_txn_end(txn));
                CHECK(shows(&guards[1], "mine") && shows(&guards[6], "mine too") &&
                        shows(&guards[0], "1"));
                release(7);
                CHECK(!put("a", "1") && !take("e"));
        }
        END();
}

static void test_a_batch_in_a_serializable_transaction_has_read_its_keys_and_no_others(void)
{
        static const struct {
                const char *key;
                bool conflicts;
        } cases[] = {{"a", true}, {"b", true}, {"c", false}, {"absent", true}, {"mine", false}};
        struct sb_bytes names[] = {b("a"), b("absent"), b("b")};
        struct sb_txn *txn;

        BEGIN();
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                CHECK(!put("a", "1") && !put("b", "1") && !put("c", "1"));
                txn = begin(SB_SERIALIZABLE);
                CHECK_EQ(sb_txn_get_many(txn, names, 3, guards), 0);
                CHECK(shows(&guards[0], "1") && shows(&guards[1], NULL) && shows(&guards[2], "1"));
                release(3);
                CHECK(!put(cases[i].key, "2"));
                CHECK(!set(txn, "result", "1"));
                CHECK_EQ(sb_txn_commit(txn, NULL), cases[i].conflicts ? SB_E_CONFLICT : 0);
                CHECK(!cases[i].conflicts || conflict_is(txn, cases[i].key));
                CHECK(!sb_txn_end(txn));
                CHECK(!take(cases[i].key));
        }
        END();
}

static void test_thousands_of_keys_in_a_serializable_transaction(void)
{
        struct sb_txn *txn;

        BEGIN();
        name_keys(MANY);
        for (unsigned i = 0; i < MANY; i += 2)
                CHECK_EQ(sb_set(other, keys[i], keys[i], NULL, NULL), 0);
        /* Nothing changes; a key comes that was absent; one changes that was there. */
        for (unsigned round = 0; round < 3; round++) {
                txn = begin(SB_SERIALIZABLE);
                CHECK_EQ(sb_txn_get_many(txn, keys, MANY, guards), 0);
                for (unsigned i = 0; i < MANY; i++)
                        CHECK(shows(&guards[i], i % 2 == 0 ? keys[i].data : NULL));
                release(MANY);
                CHECK(!set(txn, "result", "1"));
                if (round == 1)
                        CHECK(!put("k4001", "k4001"));
                if (round == 2)
                        CHECK(!put("k4000", "k4000"));
                CHECK_EQ(sb_txn_commit(txn, NULL), round ? SB_E_CONFLICT : 0);
                CHECK(!round || conflict_is(txn, round == 1 ? "k4001" : "k4000"));
                CHECK(!sb_txn_end(txn));
                if (round == 1)
                        CHECK(!take("k4001"));
        }
        END();
}

static int evict(uint32_t number, uint32_t *ret_count)
{
        if (world.remote)
                return sb_admin_evict(world.directory, number, 0, false, ret_count);
        *ret_count = sb_evict_client(world.engine, number, UINT64_MAX);
        return 0;
}

static void test_a_batch_at_a_cut_that_was_taken_away_holds_nothing(void)
{
        struct sb_bytes names[] = {b("a"), b("b")};
        uint32_t count = 0;
        struct sb_txn *txn;

        BEGIN();
        CHECK(!put("a", "1") && !put("b", "2"));
        txn = begin(SB_SERIALIZABLE);
        CHECK(!put("a", "3"));
        CHECK_EQ(evict(bus->handle.slot, &count), 0);
        CHECK_EQ(count, 1);
        for (unsigned i = 0; i < 70000; i++) {
                CHECK_EQ(sb_txn_get_many(txn, names, 2, guards), SB_E_LAPPED);
                CHECK(none_held(2));
        }
        CHECK(!sb_txn_end(txn));
        CHECK(three(0, "3", "2", NULL));
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_guard_for_a_key_without_a_value_holds_nothing);
        RUN(test_many_keys_are_what_they_were_in_the_cut);
        RUN(test_a_key_may_occur_twice_and_guards_stay);
        RUN(test_what_a_transaction_writes_is_there_whole_or_not_at_all);
        RUN(test_thousands_of_keys_some_of_them_gone);
        RUN(test_where_one_key_is_not_known_any_more_none_is_held);
        RUN(test_an_empty_batch_is_fine_and_misuse_has_a_name);
        RUN(test_without_guards_or_cuts_a_batch_is_full_and_holds_nothing);
        RUN(test_a_batch_in_a_transaction_shows_its_cut_and_its_own_writes);
        RUN(test_a_batch_in_a_serializable_transaction_has_read_its_keys_and_no_others);
        RUN(test_thousands_of_keys_in_a_serializable_transaction);
        RUN(test_a_batch_at_a_cut_that_was_taken_away_holds_nothing);
        return test_end();
}
