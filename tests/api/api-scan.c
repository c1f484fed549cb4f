/* Scans: ordered by bytes, at one cut, exact while keys come and go under them. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shm/base/word.h"
#include "tests/api/world.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;
static const struct sb_bytes all = {NULL, 0};

#define BEGIN() WORLD_BEGIN(16 * MIB)
#define END()   WORLD_END()

/* Set a key to its own name. */
static int put(const char *key)
{
        return sb_set(bus, b(key), b(key), NULL, NULL);
}

/* The next key of a scan, or with @back the one before, in @text: "" at the end, "?" for a result
 * that must not be. */
static const char *step(struct sb_scan *scan, bool back, char text[2048])
{
        struct sb_guard guard = {0};
        int r = back ? sb_scan_prev(scan, &guard) : sb_scan_next(scan, &guard);

        text[0] = '\0';
        if (r != 0 && r != SB_E_NOT_FOUND)
                return "?";
        if (r == 0) {
                if (guard.key.len != guard.value.len ||
                        memcmp(guard.key.data, guard.value.data, guard.key.len) != 0 ||
                        guard.cut > sb_scan_cut(scan) || guard.kind != SB_VALUE)
                        strcpy(text, "?");
                else
                        snprintf(text, 2048, "%.*s", (int)guard.key.len,
                                (const char *)guard.key.data);
        }
        sb_guard_release(&guard);
        return text;
}

static const char *next(struct sb_scan *scan, char text[2048])
{
        return step(scan, false, text);
}
static const char *prev(struct sb_scan *scan, char text[2048])
{
        return step(scan, true, text);
}

/* Whether a scan gives exactly these keys from here on, a space behind each. */
static bool gives(struct sb_scan *scan, const char *expected)
{
        char text[2048], got[4096] = "";

        while (*next(scan, text) != '\0') {
                strcat(got, text);
                strcat(got, " ");
                if (strlen(got) > 2000)
                        return false;
        }
        if (strcmp(got, expected) != 0)
                printf("got '%s', expected '%s'\n", got, expected);
        return strcmp(got, expected) == 0;
}

static void test_scan_of_an_empty_bus_ends_at_once_and_stays_ended(void)
{
        struct sb_scan *scan = NULL;
        struct sb_guard guard = {.rev = 7};

        BEGIN();
        CHECK_EQ(sb_scan_open(bus, NULL, all, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        CHECK(guard.rev == 7 && !guard.bus);
        CHECK(!sb_scan_close(scan));
        END();
}

static void test_scan_gives_the_keys_with_the_prefix_in_byte_order(void)
{
        static const char *const keys[] = {
                "b", "a", "ab", "aa", "abc", "a\x7f", "a\xff", "c", "ab\x01", "B"};
        struct sb_scan *scan = NULL;

        BEGIN();
        for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
                CHECK_EQ(put(keys[i]), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, b("a"), &scan), 0);
        CHECK(gives(scan, "a aa ab ab\x01 abc a\x7f a\xff "));
        CHECK(!sb_scan_close(scan));
        CHECK_EQ(sb_scan_open(bus, NULL, b("ab"), &scan), 0);
        CHECK(gives(scan, "ab ab\x01 abc "));
        CHECK(!sb_scan_close(scan));
        CHECK_EQ(sb_scan_open(bus, NULL, all, &scan), 0);
        CHECK(gives(scan, "B a aa ab ab\x01 abc a\x7f a\xff b c "));
        CHECK(!sb_scan_close(scan));
        CHECK_EQ(sb_scan_open(bus, NULL, b("nothing"), &scan), 0);
        CHECK(gives(scan, ""));
        CHECK(!sb_scan_close(scan));
        END();
}

static void test_seek_goes_forwards_and_backwards_within_the_prefix(void)
{
        static const char *const keys[] = {"a", "b1", "b3", "b5", "c"};
        struct sb_scan *scan = NULL;
        char text[2048];

        BEGIN();
        for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
                CHECK_EQ(put(keys[i]), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, b("b"), &scan), 0);
        CHECK_EQ(sb_scan_seek(scan, b("b3")), 0);
        CHECK(gives(scan, "b3 b5 "));
        CHECK_EQ(sb_scan_seek(scan, b("b2")), 0);
        CHECK(strcmp(next(scan, text), "b3") == 0);
        CHECK_EQ(sb_scan_seek(scan, b("a")), 0); /* below the prefix: to its first key */
        CHECK(gives(scan, "b1 b3 b5 "));
        CHECK_EQ(sb_scan_seek(scan, all), 0);
        CHECK(gives(scan, "b1 b3 b5 "));
        CHECK_EQ(sb_scan_seek(scan, b("b5\x01")), 0);
        CHECK(gives(scan, ""));
        CHECK_EQ(sb_scan_seek(scan, b("zzz")), 0);
        CHECK(gives(scan, ""));
        CHECK_EQ(sb_scan_seek(scan, b("b1")), 0);
        CHECK(gives(scan, "b1 b3 b5 "));
        CHECK(!sb_scan_close(scan));
        END();
}

static bool gives_back(struct sb_scan *scan, const char *expected)
{
        char text[2048], got[4096] = "";

        while (*prev(scan, text) != '\0' && strlen(got) < 2000) {
                strcat(got, text);
                strcat(got, " ");
        }
        if (strcmp(got, expected) != 0)
                printf("got '%s', expected '%s'\n", got, expected);
        return strcmp(got, expected) == 0;
}

static void test_prev_gives_the_keys_from_the_last_to_the_first(void)
{
        struct sb_scan *scan = NULL;

        BEGIN();
        CHECK_EQ(sb_scan_open(bus, NULL, all, &scan), 0);
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        CHECK(gives_back(scan, ""));
        scan = sb_scan_close(scan);
        CHECK(!put("b") && !put("a") && !put("a/1") && !put("a/2") && !put("a0") && !put("c") &&
                !put("\xff") && !put("\xff\xff") && !put("\xff\xff\xff"));
        CHECK_EQ(sb_delete(bus, b("c"), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, all, &scan), 0);
        CHECK(gives_back(scan, ""));
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        CHECK(gives_back(scan, "\xff\xff\xff \xff\xff \xff b a0 a/2 a/1 a "));
        CHECK(gives(scan, "a a/1 a/2 a0 b \xff \xff\xff \xff\xff\xff "));
        /* A new scan goes back from the end. */
        CHECK(gives_back(scan, "\xff\xff\xff \xff\xff \xff b a0 a/2 a/1 a "));
        scan = sb_scan_close(scan);
        CHECK_EQ(sb_scan_open(bus, NULL, b("a/"), &scan), 0);
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        CHECK(gives_back(scan, "a/2 a/1 "));
        CHECK(gives_back(scan, "") && gives(scan, "a/1 a/2 "));
        scan = sb_scan_close(scan);
        CHECK_EQ(sb_scan_open(bus, NULL, b("\xff\xff"), &scan), 0);
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        CHECK(gives_back(scan, "\xff\xff\xff \xff\xff "));
        sb_scan_close(scan);
        END();
}

static void test_next_and_prev_give_the_same_key_in_turn(void)
{
        struct sb_scan *scan = NULL;
        char text[2048];

        BEGIN();
        CHECK(!put("k1") && !put("k2") && !put("k3") && !put("m"));
        CHECK_EQ(sb_scan_open(bus, NULL, b("k"), &scan), 0);
        CHECK(strcmp(next(scan, text), "k1") == 0);
        CHECK(strcmp(next(scan, text), "k2") == 0);
        CHECK(strcmp(prev(scan, text), "k2") == 0);
        CHECK(strcmp(prev(scan, text), "k1") == 0);
        CHECK(strcmp(prev(scan, text), "") == 0);
        CHECK(strcmp(next(scan, text), "k1") == 0);
        /* A key that comes later is not in the cut; a key that goes stays in it. */
        CHECK(!put("k15"));
        CHECK_EQ(sb_delete(bus, b("k2"), SB_ANY_REV, NULL, NULL), 0);
        for (int i = 0; i < 4; i++)
                world_tick(&world);
        CHECK(strcmp(next(scan, text), "k2") == 0);
        CHECK(strcmp(prev(scan, text), "k2") == 0);
        CHECK(strcmp(prev(scan, text), "k1") == 0);
        /* After a seek, prev gives the key below it. */
        CHECK_EQ(sb_scan_seek(scan, b("k25")), 0);
        CHECK(strcmp(prev(scan, text), "k2") == 0);
        CHECK_EQ(sb_scan_seek(scan, b("z")), 0);
        CHECK(strcmp(prev(scan, text), "k3") == 0);
        CHECK_EQ(sb_scan_seek(scan, b("a")), 0);
        CHECK(strcmp(prev(scan, text), "") == 0);
        CHECK_EQ(sb_scan_seek(scan, b("k1")), 0);
        CHECK(strcmp(prev(scan, text), "") == 0);
        CHECK(strcmp(next(scan, text), "k1") == 0);
        CHECK_EQ(sb_scan_prev(NULL, NULL), -EINVAL);
        CHECK_EQ(sb_scan_prev(scan, NULL), -EINVAL);
        CHECK_EQ(sb_scan_seek_end(NULL), -EINVAL);
        sb_scan_close(scan);
        END();
}

static void test_a_reversed_scan_stands_before_the_key_that_it_seeks(void)
{
        const struct sb_scan_options down = {.size = sizeof(down), .flags = SB_REVERSE};
        const struct sb_scan_options two = {.size = sizeof(two), .flags = SB_REVERSE, .limit = 2};
        struct sb_scan *scan = NULL;
        char text[2048];

        BEGIN();
        CHECK(!put("a") && !put("k1") && !put("k3") && !put("k5") && !put("m"));
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &down, &scan), 0);
        CHECK(gives(scan, "k5 k3 k1 "));
        /* A key that is there: next gives the one below, prev the key itself. */
        CHECK_EQ(sb_scan_seek(scan, b("k3")), 0);
        CHECK(strcmp(next(scan, text), "k1") == 0);
        CHECK(strcmp(next(scan, text), "") == 0);
        CHECK_EQ(sb_scan_seek(scan, b("k3")), 0);
        CHECK(gives_back(scan, "k3 k5 "));
        /* One that is not there; one before and one behind the prefix. */
        CHECK_EQ(sb_scan_seek(scan, b("k4")), 0);
        CHECK(gives(scan, "k3 k1 "));
        CHECK_EQ(sb_scan_seek(scan, b("b")), 0);
        CHECK(gives(scan, "") && gives_back(scan, "k1 k3 k5 "));
        CHECK_EQ(sb_scan_seek(scan, b("z")), 0);
        CHECK(gives_back(scan, "") && gives(scan, "k5 k3 k1 "));
        /* Before all keys and behind them. */
        CHECK_EQ(sb_scan_seek(scan, all), 0);
        CHECK(gives(scan, "") && gives_back(scan, "k1 k3 k5 "));
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        CHECK(gives_back(scan, ""));
        CHECK(strcmp(next(scan, text), "k5") == 0);
        scan = sb_scan_close(scan);
        /* A seek gives no new limit. */
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &two, &scan), 0);
        CHECK(strcmp(next(scan, text), "k5") == 0);
        CHECK_EQ(sb_scan_seek(scan, b("k9")), 0);
        CHECK(gives(scan, "k5 "));
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        CHECK(gives(scan, ""));
        CHECK(!sb_scan_close(scan));
        END();
}

static void test_scan_shows_its_cut_whatever_happens_afterwards(void)
{
        struct sb_scan *before = NULL, *after = NULL;
        struct sb_guard guard = {0};

        BEGIN();
        CHECK(put("a") == 0 && put("b") == 0 && put("d") == 0 && put("e") == 0);
        CHECK_EQ(sb_scan_open(bus, NULL, all, &before), 0);
        CHECK_EQ(put("c"), 0);
        CHECK_EQ(sb_set(bus, b("b"), b("overwritten"), NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("d"), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("e"), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(put("e"), 0);
        world_tick(&world);
        CHECK_EQ(sb_scan_open(bus, NULL, all, &after), 0);
        CHECK(sb_scan_cut(after) > sb_scan_cut(before));
        CHECK(gives(before, "a b d e "));
        CHECK_EQ(sb_delete(bus, b("a"), SB_ANY_REV, NULL, NULL), 0);
        world_tick(&world);
        CHECK_EQ(sb_scan_seek(before, all), 0);
        CHECK(gives(before, "a b d e "));
        CHECK_EQ(sb_scan_seek(after, b("b")), 0);
        CHECK_EQ(sb_scan_next(after, &guard), 0);
        CHECK(guard.value.len == 11 && guard.rev == 2);
        sb_guard_release(&guard);
        CHECK(gives(after, "c e "));
        CHECK(!sb_scan_close(before));
        CHECK(!sb_scan_close(after));
        END();
}

static void test_a_scan_goes_on_from_a_key_that_went_away(void)
{
        struct sb_scan *scan = NULL;
        struct sb_bus *other;
        char text[2048], key[16];

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        for (unsigned i = 0; i < 100; i++) {
                snprintf(key, sizeof(key), "k%02u", i);
                CHECK_EQ(put(key), 0);
        }
        /* In the cut, all keys but these have no value: they are dead, and are removed while the
         * scan passes them. */
        for (unsigned i = 0; i < 100; i++) {
                snprintf(key, sizeof(key), "k%02u", i);
                if (i % 33 != 0)
                        CHECK_EQ(sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL), 0);
        }
        CHECK_EQ(sb_scan_open(bus, NULL, b("k"), &scan), 0);
        CHECK(strcmp(next(scan, text), "k00") == 0);
        world_tick(&world);
        world_tick(&world);
        CHECK(strcmp(next(scan, text), "k33") == 0);
        for (unsigned i = 0; i < 20; i++)
                CHECK_EQ(sb_set(other, b("x"), b("x"), NULL, NULL), 0);
        world_tick(&world);
        CHECK(gives(scan, "k66 k99 "));
        CHECK(!sb_scan_close(scan));
        CHECK(!sb_close(other));
        END();
}

static void test_guards_of_a_scan_outlive_it(void)
{
        struct sb_scan *scan = NULL;
        struct sb_guard guards[3] = {0};

        BEGIN();
        CHECK(put("a") == 0 && put("b") == 0 && put("c") == 0);
        CHECK_EQ(sb_scan_open(bus, NULL, all, &scan), 0);
        for (unsigned i = 0; i < 3; i++)
                CHECK_EQ(sb_scan_next(scan, &guards[i]), 0);
        CHECK(!sb_scan_close(scan));
        for (unsigned i = 0; i < 3000; i++)
                CHECK_EQ(sb_set(bus,
                                 b(i % 3 == 0         ? "a"
                                         : i % 3 == 1 ? "b"
                                                      : "c"),
                                 b("x"), NULL, NULL),
                        0);
        world_tick(&world);
        for (unsigned i = 0; i < 3; i++) {
                CHECK(guards[i].value.len == 1 &&
                        *(const char *)guards[i].value.data == (char)('a' + i));
                sb_guard_release(&guards[i]);
        }
        END();
}

static void test_32_scans_can_be_open_and_not_one_more(void)
{
        struct sb_scan *scans[32] = {0}, *more = NULL;

        BEGIN();
        CHECK_EQ(put("a"), 0);
        for (unsigned i = 0; i < 32; i++)
                CHECK_EQ(sb_scan_open(bus, NULL, all, &scans[i]), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, all, &more), SB_E_FULL);
        CHECK(!more);
        for (unsigned i = 0; i < 32; i++)
                CHECK(gives(scans[i], "a "));
        scans[7] = sb_scan_close(scans[7]);
        CHECK_EQ(sb_scan_open(bus, NULL, all, &scans[7]), 0);
        CHECK(gives(scans[7], "a "));
        for (unsigned i = 0; i < 32; i++)
                CHECK(!sb_scan_close(scans[i]));
        END();
}

/* ---- while others write ---- */

#define PAIRS 64

static struct sb_word32 stop, failed,
        moves[2]; /* counters and flags between threads, which order nothing else */

/* Move one token from key to key. Each move makes the new key before it deletes the old one, so at
 * every cut there are one or two tokens. The other keys stay as they are. */
static void *move_tokens(void *argument)
{
        struct sb_bus *own = world_bus(&world);
        unsigned lane = *(unsigned *)argument, at = 0;
        char old[32], new[32];

        if (!own) {
                sb_add_full(&failed, 1);
                return NULL;
        }
        snprintf(old, sizeof(old), "lane%u/token/%04u", lane, at);
        if (sb_set(own, b(old), b(old), NULL, NULL) != 0)
                sb_add_full(&failed, 1);
        while (sb_load_relaxed(&stop) == 0 && sb_load_relaxed(&failed) == 0) {
                at = (at * 5 + 7) % 512;
                snprintf(new, sizeof(new), "lane%u/token/%04u", lane, at);
                if (strcmp(new, old) == 0)
                        continue;
                if (sb_set(own, b(new), b(new), NULL, NULL) != 0 ||
                        sb_delete(own, b(old), SB_ANY_REV, NULL, NULL) != 0)
                        sb_add_full(&failed, 1);
                strcpy(old, new);
                sb_add_full(&moves[lane], 1);
        }
        sb_close(own);
        return NULL;
}

/* Scan a lane once: keys come in order, all keys that stay are there, and one or two tokens.
 * Return: what is wrong, or NULL. */
static const char *look_at_lane(unsigned lane)
{
        bool begun = sb_load_acquire(&moves[lane]) > 0;
        struct sb_scan *scan = NULL;
        char prefix[32], last[2048] = "", text[2048];
        unsigned stays = 0, tokens = 0, count = 0;

        snprintf(prefix, sizeof(prefix), "lane%u/", lane);
        if (sb_scan_open(bus, NULL, b(prefix), &scan) != 0)
                return "open";
        while (*next(scan, text) != '\0') {
                if (strcmp(text, "?") == 0)
                        return "a key with another's value";
                if (strcmp(text, last) <= 0)
                        return "order";
                strcpy(last, text);
                if (strstr(text, "/token/"))
                        tokens++;
                else
                        stays++;
                count++;
        }
        /* Backwards the scan gives as many keys, and the first one last. */
        for (strcpy(last, "~"); *prev(scan, text) != '\0'; strcpy(last, text), count--)
                if (strcmp(text, "?") == 0 || strcmp(text, last) >= 0)
                        return "order backwards";
        sb_scan_close(scan);
        if (count != 0)
                return "other keys backwards";
        if (stays != PAIRS)
                return "a key that was always there is missing";
        return tokens > 2 || (begun && tokens == 0) ? "tokens" : NULL;
}

static void test_scans_are_exact_while_keys_come_and_go(void)
{
        pthread_t threads[2];
        unsigned lanes[2] = {0, 1}, scans = 0, moved;
        const char *wrong = NULL;
        uint64_t end;
        char key[32];

        BEGIN();
        sb_store_relaxed(&stop, 0);
        sb_store_relaxed(&failed, 0);
        sb_store_relaxed(&moves[0], 0);
        sb_store_relaxed(&moves[1], 0);
        for (unsigned i = 0; i < 2 * PAIRS; i++) {
                snprintf(key, sizeof(key), "lane%u/%s/%04u", i % 2, i % 4 < 2 ? "a" : "z", i);
                CHECK_EQ(put(key), 0);
        }
        for (unsigned i = 0; i < 2; i++)
                CHECK_EQ(pthread_create(&threads[i], NULL, move_tokens, &lanes[i]), 0);
        for (end = now_ns() + 2000000000; now_ns() < end && !wrong && sb_load_relaxed(&failed) == 0;
                scans++)
                wrong = look_at_lane(scans % 2);
        sb_store_relaxed(&stop, 1);
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        moved = sb_load_relaxed(&moves[0]) + sb_load_relaxed(&moves[1]);
        if (wrong)
                TEST_FAIL("after %u scans and %u moves: %s", scans, moved, wrong);
        CHECK_EQ(sb_load_relaxed(&failed), 0);
        CHECK(scans > 10 && sb_load_relaxed(&moves[0]) > 100 && sb_load_relaxed(&moves[1]) > 100);
        TEST_NOTE("%u scans while %u keys came and went", scans, moved);
        END();
}

#define LIST 600u

static uint32_t seed_ = 1;

static uint32_t draw(uint32_t below)
{
        seed_ = seed_ * 1664525 + 1013904223;
        return (uint32_t)((uint64_t)seed_ * below >> 32);
}

static const char *list_key(uint32_t i, char text[32])
{
        snprintf(text, 32, "k%04u", i);
        return text;
}

/* The next one that is there, from right before @at (@down: from right before it down); LIST: none.
 */
static uint32_t list_step(const bool there[LIST], uint32_t at, bool down)
{
        if (!down) {
                while (at < LIST && !there[at])
                        at++;
                return at;
        }
        while (at > 0 && !there[at - 1])
                at--;
        return at > 0 ? at - 1 : LIST;
}

/* A scan that goes up and down in runs of any length, and is moved, over keys of which most come or
 * go under it: as a list of the keys that its cut has. In a transaction, of which every third round
 * is one, over what it wrote itself, too. */
static void test_a_scan_goes_up_and_down_as_in_a_list(void)
{
        for (uint32_t round = 0; round < 12; round++) {
                bool there[LIST] = {0}, seen[LIST];
                struct sb_txn *txn = NULL;
                struct sb_scan *scan;
                char key[32], text[2048];
                uint32_t at = 0;

                BEGIN();
                /* Few or many, and stretches without any. */
                for (uint32_t i = 0; i < LIST; i++)
                        if (draw(4) < 1 + round % 4 && i / 64 % 3 != round % 3) {
                                CHECK_EQ(put(list_key(i, key)), 0);
                                there[i] = true;
                        }
                for (uint32_t i = 0; i < LIST / 4; i++) {
                        uint32_t which = draw(LIST);

                        if (there[which])
                                CHECK_EQ(sb_delete(bus, b(list_key(which, key)), SB_ANY_REV, NULL,
                                                 NULL),
                                        0);
                        there[which] = false;
                }
                if (round % 3 == 2)
                        CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
                CHECK_EQ(sb_scan_open(bus, txn, b("k"), &scan), 0);
                memcpy(seen, there, sizeof(seen));
                for (uint32_t steps = 0; steps < 4000;) {
                        uint32_t which = draw(LIST), left = 1 + draw(120);
                        bool down = draw(2), mine = txn && draw(4) == 0;

                        list_key(which, key);
                        if (mine) {
                                CHECK_EQ(seen[which] ? sb_txn_delete(txn, b(key))
                                                     : sb_txn_set(txn, b(key), b(key)),
                                        0);
                                seen[which] = !seen[which];
                        } else if (there[which]) {
                                CHECK_EQ(sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL), 0);
                                there[which] = false;
                        } else {
                                CHECK_EQ(put(key), 0);
                                there[which] = true;
                        }
                        if (draw(6) == 0) {
                                bool behind = draw(2);

                                at = draw(LIST);
                                list_key(at, key);
                                CHECK_EQ(behind ? sb_scan_seek_last(scan, b(key))
                                                : sb_scan_seek(scan, b(key)),
                                        0);
                                at += behind;
                        } else if (draw(12) == 0) {
                                CHECK_EQ(sb_scan_seek_end(scan), 0);
                                at = LIST;
                        }
                        for (; left > 0; left--, steps++) {
                                uint32_t found = list_step(seen, at, down);

                                step(scan, down, text);
                                if (strcmp(text, found == LIST ? "" : list_key(found, key)) != 0)
                                        TEST_FAIL("round %u: '%s', not '%s'", round, text,
                                                found == LIST ? "" : key);
                                at = found == LIST ? down ? 0 : LIST : down ? found : found + 1;
                                /* Memory of removed keys is taken again. */
                                if (draw(1500) == 0)
                                        world_prune(&world, bus);
                        }
                }
                CHECK(!sb_scan_close(scan));
                sb_txn_end(txn);
                END();
        }
}

/* Keys that had gone before the cut leave their memory to others while the scan goes down. */
static void test_memory_of_removed_keys_is_taken_while_a_scan_goes_down(void)
{
        struct sb_scan *scan, *old;
        char key[32], text[2048];

        BEGIN();
        for (uint32_t i = 0; i < LIST; i++)
                CHECK_EQ(put(list_key(i, key)), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, all, &old), 0); /* keeps the keys */
        for (uint32_t i = 1; i < LIST; i += 2)
                CHECK_EQ(sb_delete(bus, b(list_key(i, key)), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_scan_open(bus, NULL, all, &scan), 0);
        CHECK_EQ(sb_scan_seek_end(scan), 0);
        for (uint32_t i = LIST; i > 0; i -= 2) {
                CHECK(strcmp(prev(scan, text), list_key(i - 2, key)) == 0);
                if (i % 100 != 50)
                        continue;
                old = sb_scan_close(old);
                for (uint32_t k = 0; k < 4; k++)
                        world_prune(&world, bus);
                /* Below all others. */
                for (uint32_t k = 0; k < LIST; k++) {
                        snprintf(key, sizeof(key), "a%04u", i / 100 * LIST + k);
                        CHECK_EQ(put(key), 0);
                }
        }
        CHECK(*prev(scan, text) == '\0');
        CHECK(!sb_scan_close(scan));
        END();
}

static void test_a_limit_counts_each_key(void)
{
        struct sb_scan_options how = {.size = sizeof(how), .limit = 150};
        struct sb_guard guards[8];
        struct sb_scan *scan;
        char key[32], text[2048];
        size_t given;

        BEGIN();
        for (uint32_t i = 0; i < LIST; i++)
                CHECK_EQ(put(list_key(i, key)), 0);
        for (uint32_t many = 0; many < 2; many++) {
                uint32_t count = 0;
                int r = 0;

                CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
                while (many && (r = sb_scan_next_many(scan, guards, 8, &given)) == 0)
                        for (size_t i = 0; i < given; i++, count++)
                                sb_guard_release(&guards[i]);
                while (!many && *next(scan, text) != '\0')
                        count++;
                CHECK(r == 0 || r == SB_E_NOT_FOUND);
                CHECK_EQ(count, 150);
                CHECK(!sb_scan_close(scan));
        }
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_scan_of_an_empty_bus_ends_at_once_and_stays_ended);
        RUN(test_scan_gives_the_keys_with_the_prefix_in_byte_order);
        RUN(test_seek_goes_forwards_and_backwards_within_the_prefix);
        RUN(test_prev_gives_the_keys_from_the_last_to_the_first);
        RUN(test_next_and_prev_give_the_same_key_in_turn);
        RUN(test_a_reversed_scan_stands_before_the_key_that_it_seeks);
        RUN(test_scan_shows_its_cut_whatever_happens_afterwards);
        RUN(test_a_scan_goes_on_from_a_key_that_went_away);
        RUN(test_guards_of_a_scan_outlive_it);
        RUN(test_32_scans_can_be_open_and_not_one_more);
        RUN(test_scans_are_exact_while_keys_come_and_go);
        RUN(test_a_scan_goes_up_and_down_as_in_a_list);
        RUN(test_memory_of_removed_keys_is_taken_while_a_scan_goes_down);
        RUN(test_a_limit_counts_each_key);
        return test_end();
}
