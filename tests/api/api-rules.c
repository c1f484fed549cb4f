/*
 * Rules of history: what each keeps of a key's past, which one applies where there are several, and
 * that all of them together fill no bus.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/core/scan-place.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"
#include "tests/api/past.h"
#include "tests/api/world.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"

/* The users' calls alone: the calls themselves sweep where no agentd is there to. */
static void test_keys_that_come_and_go_under_a_rule_never_fill_the_bus(void)
{
        struct sb_superblock *super;
        uint64_t limit;
        char key[32];
        int r = 0;

        WORLD_BEGIN(8 * MIB);
        super = bus->handle.segment.super;
        if (!world.remote)
                sb_store_relaxed(&super->history_limit, 2 * MIB);
        limit = sb_load_relaxed(&super->history_limit);
        CHECK_EQ(limit, 2 * MIB); /* agentd's default is a quarter */
        CHECK_EQ(keep("s/", SB_PREFIX, SB_KEEP_LAST, 1), 0);
        for (unsigned i = 0; i < 50000 && !r; i++) {
                snprintf(key, sizeof(key), "s/%u", i);
                r = sb_set(bus, b(key), b("a value"), NULL, NULL);
                r = r ? r : sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL);
        }
        CHECK_EQ(r, 0);
        world_prune(&world, bus);
        CHECK(sb_load_relaxed(&super->history_bytes) <= limit);
        AT("s/49999", cut_now(), "-");
        END();
}

static void test_a_rule_keeps_everything_that_was_since_it_was_made(void)
{
        uint64_t before, cuts[6];
        char value[16];
        int end;

        BEGIN();
        CHECK(!put("log/a", "old"));
        before = cut_now();
        CHECK_EQ(keep("log/", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        for (int i = 0; i < 6; i++) {
                cuts[i] = cut_now();
                snprintf(value, sizeof(value), "v%d", i);
                CHECK(!put("log/a", value) && !put("log/made-later", value) && !put("other", "o"));
        }
        CHECK_EQ(sb_delete(bus, b("log/a"), SB_ANY_REV, NULL, NULL), 0);
        world_prune(&world, bus);
        world_prune(&world, bus);
        AT("log/a", cuts[0], "old");
        AT("log/a", cuts[1], "v0");
        AT("log/a", cuts[5], "v4");
        AT("log/a", cut_now(), "-");
        AT("log/made-later", cuts[0], "-");
        AT("log/made-later", cuts[3], "v2");
        AT("log/never", cuts[0], "-");
        AT("log/never", before, "?");
        AT("other", cuts[2], "?o");
        CHECK(strcmp(history("log/a", 0, &end), "8:x 7:v5 6:v4 5:v3 4:v2 3:v1 2:v0 1:old ") == 0);
        CHECK_EQ(end, SB_E_NOT_FOUND);
        CHECK(strcmp(history("log/a", SB_REVERSE, &end),
                      "1:old 2:v0 3:v1 4:v2 5:v3 6:v4 7:v5 8:x ") == 0);
        CHECK_EQ(end, SB_E_NOT_FOUND);
        CHECK(strcmp(history("absent", 0, &end), "") == 0);
        CHECK_EQ(end, SB_E_NOT_FOUND);
        /* Without the rule the past goes. */
        CHECK_EQ(keep("log/", SB_PREFIX, SB_KEEP_NEWEST, 0), 0);
        /* A batch of the log may need it for a moment. */
        for (unsigned i = 0; i < 100 && (i < 2 || strcmp(at("log/a", cuts[1]), "?") != 0); i++)
                world_prune(&world, bus);
        AT("log/a", cuts[1], "?");
        CHECK(strcmp(history("log/made-later", 0, &end), "6:v5 ") == 0);
        CHECK_EQ(end, SB_E_LAPPED);
        CHECK(strcmp(history("log/made-later", SB_REVERSE, &end), "... 6:v5 ") == 0);
        CHECK_EQ(end, SB_E_NOT_FOUND);
        END();
}

/* As a program does that says at each start what it wants kept. */
static void test_a_rule_that_is_said_again_covers_what_it_covered(void)
{
        uint64_t cut;

        BEGIN();
        CHECK_EQ(keep("log/", SB_PREFIX, SB_KEEP_LAST, 3), 0);
        CHECK(!put("log/a", "1"));
        cut = cut_now();
        CHECK(!put("log/a", "2") && !put("log/b", "2"));
        CHECK_EQ(keep("log/", SB_PREFIX, SB_KEEP_LAST, 3), 0);
        AT("log/a", cut, "1");
        AT("log/b", cut, "-");
        CHECK_EQ(sb_restore(bus, b("log/"), SB_PREFIX, cut, NULL), 0);
        CHECK(has(bus, "log/a", "1") && !has(bus, "log/b", "2"));
        /* Another rule begins anew. */
        CHECK_EQ(keep("log/", SB_PREFIX, SB_KEEP_LAST, 4), 0);
        AT("log/never", cut, "?");
        CHECK_EQ(sb_restore(bus, b("log/"), SB_PREFIX, cut, NULL), SB_E_LAPPED);
        END();
}

static void test_the_last_versions_of_a_key_are_kept_and_no_more(void)
{
        uint64_t cut;
        char value[16];
        int end;

        BEGIN();
        CHECK_EQ(keep("k", 0, SB_KEEP_LAST, 3), 0);
        cut = cut_now();
        for (int i = 1; i <= 9; i++) {
                snprintf(value, sizeof(value), "v%d", i);
                CHECK(!put("k", value) && !put("kk", value));
                cut_now();
        }
        world_prune(&world, bus);
        CHECK(strcmp(history("k", 0, &end), "9:v9 8:v8 7:v7 ") == 0);
        CHECK_EQ(end, SB_E_LAPPED);
        CHECK(strcmp(history("kk", 0, &end), "9:v9 ") == 0);
        CHECK_EQ(end, SB_E_LAPPED);
        AT("k", cut, "?v7");
        CHECK_EQ(sb_delete(bus, b("k"), SB_ANY_REV, NULL, NULL), 0);
        world_prune(&world, bus);
        CHECK(strcmp(history("k", SB_REVERSE, &end), "... 8:v8 9:v9 10:x ") == 0);
        AT("k", cut, "?v8");
        CHECK_EQ(keep("k", 0, SB_KEEP_LAST, 1), 0);
        world_prune(&world, bus);
        AT("k", cut, "?deleted");
        CHECK_EQ(keep("k", 0, SB_KEEP_NEWEST, 0), 0);
        END();
}

static void test_a_span_of_time_is_kept_and_no_more(void)
{
        uint64_t end_ns = now_ns() + UINT64_C(20000000000), cut, late;
        int end;

        BEGIN();
        CHECK_EQ(keep("", SB_PREFIX, SB_KEEP_SPAN, UINT64_C(400000000)), 0);
        CHECK(!put("k", "1") && !put("gone", "1"));
        cut = cut_now();
        CHECK(!put("k", "2"));
        CHECK_EQ(sb_delete(bus, b("gone"), SB_ANY_REV, NULL, NULL), 0);
        world_tick(&world);
        world_prune(&world, bus);
        AT("k", cut, "1");
        AT("gone", cut, "1");
        AT("never", cut, "-");
        while (strcmp(at("never", cut), "?") != 0 && now_ns() < end_ns) {
                sb_os_linux.pause(NULL, 10000000);
                world_tick(&world);
        }
        AT("never", cut, "?");
        world_prune(&world, bus);
        world_prune(&world, bus);
        CHECK(strcmp(history("k", 0, &end), "2:2 ") == 0);
        CHECK_EQ(end, SB_E_LAPPED);
        CHECK(strcmp(history("gone", 0, &end), "") == 0);
        AT("gone", cut, "?");
        late = cut_now();
        CHECK(!put("k", "3"));
        AT("k", late, "2");
        AT("gone", late, "-");
        END();
}

static void test_the_longest_rule_applies_and_a_keys_own_before_any(void)
{
        struct sb_rule rule = {0};
        int end;

        BEGIN();
        CHECK_EQ(keep("", SB_PREFIX, SB_KEEP_LAST, 2), 0);
        CHECK_EQ(keep("a/", SB_PREFIX, SB_KEEP_LAST, 4), 0);
        CHECK_EQ(keep("a/b", 0, SB_KEEP_LAST, 3), 0);
        for (int i = 0; i < 6; i++) {
                CHECK(!put("x", "v") && !put("a/x", "v") && !put("a/b", "v"));
                cut_now();
        }
        world_prune(&world, bus);
        CHECK(strcmp(history("x", 0, &end), "6:v 5:v ") == 0);
        CHECK(strcmp(history("a/x", 0, &end), "6:v 5:v 4:v 3:v ") == 0);
        CHECK(strcmp(history("a/b", 0, &end), "6:v 5:v 4:v ") == 0);
        CHECK_EQ(sb_kept(bus, b("a/"), SB_PREFIX, &rule), 0);
        CHECK(rule.kind == SB_KEEP_LAST && rule.value == 4 && rule.size == sizeof(rule));
        CHECK_EQ(sb_kept(bus, b("a/"), 0, &rule), SB_E_NOT_FOUND);
        CHECK_EQ(sb_kept(bus, b("a"), SB_PREFIX, &rule), SB_E_NOT_FOUND);
        CHECK_EQ(keep("a/b", 0, SB_KEEP_NEWEST, 0), 0);
        CHECK_EQ(keep("a/", SB_PREFIX, SB_KEEP_NEWEST, 0), 0);
        CHECK_EQ(sb_kept(bus, b("a/"), SB_PREFIX, &rule), SB_E_NOT_FOUND);
        world_prune(&world, bus);
        CHECK(strcmp(history("a/x", 0, &end), "6:v 5:v ") == 0);
        CHECK(strcmp(history("a/b", 0, &end), "6:v 5:v ") == 0);
        END();
}

/* What the first step of a scan of the past says. */
static int first_at(const char *prefix, uint64_t cut)
{
        struct sb_scan_options how = {.size = sizeof(how), .cut = cut};
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        int r = sb_scan_open_at(bus, b(prefix), &how, &scan);

        r = r ? r : sb_scan_next(scan, &guard);
        sb_guard_release(&guard);
        sb_scan_close(scan);
        return r;
}

static void test_what_a_narrow_rule_did_not_keep_no_wider_one_claims(void)
{
        struct sb_rule rule;
        uint64_t cut;

        BEGIN();
        CHECK_EQ(keep("", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK_EQ(keep("tmp/", SB_PREFIX, SB_KEEP_SPAN, 1), 0);
        CHECK(!put("tmp/x", "1") && !put("x", "1"));
        cut = cut_now();
        CHECK_EQ(sb_delete(bus, b("tmp/x"), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_delete(bus, b("x"), SB_ANY_REV, NULL, NULL), 0);
        for (int i = 0; i < 3; i++) {
                sb_os_linux.pause(NULL, 20000000);
                world_tick(&world);
                world_prune(&world, bus);
        }
        AT("tmp/x", cut, "?");
        AT("x", cut, "1");
        CHECK_EQ(keep("tmp/", SB_PREFIX, SB_KEEP_NEWEST, 0), 0);
        AT("tmp/x", cut, "?");
        AT("tmp/x", cut_now(), "-");
        /* The past of the others goes on. */
        AT("x", cut, "1");
        AT("never", cut, "-");
        CHECK_EQ(first_at("", cut), SB_E_LAPPED);
        CHECK_EQ(first_at("x", cut), 0);
        cut = cut_now();
        CHECK(!put("tmp/y", "1"));
        cut = cut_now();
        CHECK_EQ(sb_delete(bus, b("tmp/y"), SB_ANY_REV, NULL, NULL), 0);
        world_prune(&world, bus);
        AT("tmp/y", cut, "1");
        CHECK_EQ(first_at("", cut), 0);
        CHECK_EQ(sb_kept(bus, b("tmp/"), SB_PREFIX, &rule), SB_E_NOT_FOUND);
        END();
}

/* As a run does that keeps all of its own past, and is cleaned up: many, one after the other. */
static void test_rules_that_come_and_go_leave_the_past_of_others_alone(void)
{
        char name[16], key[24];
        uint64_t cut, later;

        BEGIN();
        CHECK_EQ(keep("", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK(!put("other", "1") && !put("run/x", "1"));
        cut = cut_now();
        CHECK(!put("other", "2") && !put("run/x", "2"));
        for (int i = 0; i < 60; i++) {
                snprintf(name, sizeof(name), "run/%d/", i);
                snprintf(key, sizeof(key), "run/%d/state", i);
                CHECK_EQ(keep(name, SB_PREFIX, SB_KEEP_LAST, 2), 0);
                CHECK(!put(key, "a") && !put(key, "b") && !put(key, "c"));
                later = cut_now();
                CHECK(!put(key, "d"));
                CHECK_EQ(keep(name, SB_PREFIX, SB_KEEP_NEWEST, 0), 0);
                world_prune(&world, bus);
                AT("other", cut, "1");
                AT("run/x", cut, "1");
                AT("never", cut, "-");
                AT(key, later, "c"); /* it was kept, and is */
                CHECK(at(key, cut)[0] == '?');
                AT(key, cut_now(), "d");
        }
        CHECK_EQ(first_at("run/", cut), SB_E_LAPPED);
        CHECK_EQ(first_at("run/x", cut), 0);
        CHECK_EQ(first_at("", cut_now()), 0);
        /* Where that is too much, nothing is claimed that is not known. */
        for (int i = 60; i < 80; i++) {
                snprintf(name, sizeof(name), "run/%d/", i);
                CHECK_EQ(keep(name, SB_PREFIX, SB_KEEP_LAST, 2), 0);
                CHECK_EQ(keep(name, SB_PREFIX, SB_KEEP_NEWEST, 0), 0);
        }
        AT("never", cut, "?");
        AT("never", cut_now(), "-");
        CHECK_EQ(first_at("", cut_now()), 0);
        END();
}

/* Of thousands of rules below its prefix, one look for each of thousands of keys took minutes. */
static void test_a_scan_looks_at_the_rules_once_for_each_change_of_one(void)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        const struct sb_superblock *super;
        struct sb_guard guard = {0};
        struct sb_scan *scan;

        BEGIN();
        super = bus->handle.segment.super;
        CHECK_EQ(keep("k/", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK(!put("k/1", "1") && !put("k/2", "2") && !put("k/3", "3"));
        how.cut = cut_now();
        CHECK_EQ(sb_scan_open_at(bus, b("k/"), &how, &scan), 0);
        CHECK_EQ(keep("other/", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK(scan->rules != sb_load_relaxed(&super->rule_count));
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        sb_guard_release(&guard);
        CHECK_EQ(scan->rules, sb_load_relaxed(&super->rule_count));
        /* The next change is seen, too. */
        CHECK_EQ(keep("k/", SB_PREFIX, SB_KEEP_LAST, 1), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_LAPPED);
        scan = sb_scan_close(scan);
        END();
}

static void test_memory_for_history_has_a_limit_and_marks_are_not_touched(void)
{
        struct sb_superblock *super;
        char *value = calloc(1, 20000);
        uint64_t cut = 0, early;
        int r = 0, end;

        CHECK(value);
        BEGIN();
        super = bus->handle.segment.super;
        if (!world.remote)
                sb_store_release(&super->history_limit, 4 * MIB);
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK(!put("k1", "marked"));
        CHECK_EQ(sb_mark(bus, b("m"), &cut), 0);
        CHECK(!put("k1", "early") && !put("k3", "v"));
        early = cut_now();
        CHECK(!put("k3", "w"));
        /* Write ten times as much as the segment holds. */
        for (unsigned i = 0; i < 8000 && r == 0; i++) {
                r = sb_set(
                        bus, b(i % 2 ? "k1" : "k2"), (struct sb_bytes){value, 20000}, NULL, NULL);
                if (i % 10 == 0)
                        cut_now();
        }
        CHECK_EQ(r, 0);
        world_prune(&world, bus);
        world_prune(&world, bus);
        CHECK(sb_load_relaxed(&super->history_bytes) <= 5 * MIB);
        CHECK(sb_load_relaxed(&super->history_floor) > early);
        AT("k1", cut, "marked");
        CHECK(at("k1", early)[0] == '?');
        AT("k3", early, "?w");
        (void)history("k3", 0, &end);
        CHECK_EQ(end, SB_E_LAPPED);
        CHECK_EQ(sb_mark_drop(bus, b("m")), 0);
        free(value);
        END();
}

static void test_a_rule_that_keeps_all_memory_can_be_taken_away(void)
{
        for (uint64_t size = 2048; size >= 128; size /= 4) {
                unsigned count = 0;
                char key[32];
                int r = 0;

                WORLD_BEGIN(size * 1024);
                sb_store_release(&bus->handle.segment.super->history_limit, 0);
                CHECK_EQ(keep("", SB_PREFIX, SB_KEEP_ALL, 0), 0);
                CHECK_EQ(keep("narrow", SB_PREFIX, SB_KEEP_ALL, 0), 0);
                for (; r == 0; count += r == 0) {
                        snprintf(key, sizeof(key), "key %u", count);
                        r = sb_set(bus, b(key), b("a value"), NULL, NULL);
                }
                r = 0;
                for (unsigned i = 0; r == 0 && i < count; i++) {
                        snprintf(key, sizeof(key), "key %u", i);
                        r = sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL);
                }
                CHECK_EQ(r, SB_E_FULL);
                CHECK_EQ(keep("", SB_PREFIX, SB_KEEP_NEWEST, 0), 0);
                world_prune(&world, bus);
                CHECK_EQ(sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL), 0);
                CHECK_EQ(keep("narrow", SB_PREFIX, SB_KEEP_NEWEST, 0), 0);
                END();
        }
}

/* Transactions push out what leaves, too. */
static void test_a_rule_of_the_last_few_holds_for_transactions(void)
{
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 20};
        struct sb_guard version = {0};
        struct sb_history *history;
        uint64_t oldest;

        BEGIN();
        CHECK_EQ(sb_keep(bus, b("k"), 0, &rule), 0);
        for (uint32_t i = 0; i < 400; i++) {
                struct sb_txn *txn = NULL;

                CHECK_EQ(sb_txn_begin(bus, SB_SNAPSHOT, &txn), 0);
                CHECK_EQ(sb_txn_set(txn, b("k"), b("value")), 0);
                CHECK_EQ(sb_txn_set(txn, b("other"), b("value")), 0);
                CHECK_EQ(sb_txn_commit(txn, NULL), 0);
                sb_txn_end(txn);
        }
        world_prune(&world, bus);
        CHECK_EQ(sb_history_open(bus, b("k"), 0, &history), 0);
        oldest = 0;
        for (uint32_t i = 0; i < 20; i++) {
                CHECK_EQ(sb_history_next(history, &version, NULL), 0);
                oldest = version.rev;
                sb_guard_release(&version);
        }
        CHECK_EQ(oldest, 381);
        sb_history_close(history);
        END();
}

int main(int argc, char **argv)
{
        fault_from_environment();
        test_begin(argc, argv);
        RUN(test_keys_that_come_and_go_under_a_rule_never_fill_the_bus);
        RUN(test_a_rule_keeps_everything_that_was_since_it_was_made);
        RUN(test_a_rule_that_is_said_again_covers_what_it_covered);
        RUN(test_the_last_versions_of_a_key_are_kept_and_no_more);
        RUN(test_a_span_of_time_is_kept_and_no_more);
        RUN(test_the_longest_rule_applies_and_a_keys_own_before_any);
        RUN(test_what_a_narrow_rule_did_not_keep_no_wider_one_claims);
        RUN(test_rules_that_come_and_go_leave_the_past_of_others_alone);
        RUN(test_a_scan_looks_at_the_rules_once_for_each_change_of_one);
        RUN(test_memory_for_history_has_a_limit_and_marks_are_not_touched);
        RUN(test_a_rule_that_keeps_all_memory_can_be_taken_away);
        RUN(test_a_rule_of_the_last_few_holds_for_transactions);
        return test_end();
}
