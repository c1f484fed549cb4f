/* The past: reads at old cuts, rules that say what is kept, all versions of a key, undo. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"
#include "shm/memory/guard.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"
#include "tests/unit/copy.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;
static const struct sb_bytes all = {NULL, 0};

#define BEGIN() WORLD_BEGIN(16 * MIB)
#define END()   WORLD_END()

static int put(const char *key, const char *value)
{
        return sb_set(bus, b(key), b(value), NULL, NULL);
}

/* The cut of this moment, which no mark keeps. */
static uint64_t cut_now(void)
{
        uint64_t cut = 0;

        return sb_cut_at(bus, UINT64_MAX, &cut) == 0 ? cut : 0;
}

static int keep(const char *key, uint32_t flags, uint32_t kind, uint64_t value)
{
        const struct sb_rule rule = {.size = sizeof(rule), .kind = kind, .value = value};

        return sb_keep(bus, b(key), flags, &rule);
}

/* What a key was at a cut: its value; "-": it had none; "?": the answer is SB_E_LAPPED; "?value":
 * the same, with the oldest value that is known. */
static const char *at(const char *key, uint64_t cut)
{
        static char text[64];
        struct sb_guard guard = {0};
        int r = sb_get_at(bus, b(key), cut, &guard);

        if (r == SB_E_NOT_FOUND && !guard.bus)
                return "-";
        if (r != 0 && r != SB_E_LAPPED)
                return "error";
        if (!guard.bus)
                return "?";
        snprintf(text, sizeof(text), "%s%.*s", r == 0 ? "" : "?", (int)guard.value.len,
                (const char *)guard.value.data);
        if (guard.kind == SB_DELETED)
                strcpy(text, "?deleted");
        sb_guard_release(&guard);
        return text;
}
#define AT(key, cut, expected) CHECK(strcmp(at(key, cut), expected) == 0)

/* All versions of a key, a space behind each; @ret_end: the last result. */
static const char *history(const char *key, uint32_t flags, int *ret_end)
{
        static char text[4096];
        sb_auto(sb_history_closep) struct sb_history *walk = NULL;
        struct sb_guard guard = {0};
        uint64_t time_ns;
        int r = sb_history_open(bus, b(key), flags, &walk);

        text[0] = '\0';
        while (r == 0 || (r == SB_E_LAPPED && (flags & SB_REVERSE) && text[0] == '\0')) {
                if (r == SB_E_LAPPED)
                        strcat(text, "... ");
                r = sb_history_next(walk, &guard, &time_ns);
                if (r != 0)
                        continue;
                if (guard.missed != 0)
                        snprintf(text + strlen(text), 32, "(%llu) ",
                                (unsigned long long)guard.missed);
                snprintf(text + strlen(text), 64, "%llu:%.*s%s ", (unsigned long long)guard.rev,
                        (int)guard.value.len, (const char *)guard.value.data,
                        guard.kind == SB_DELETED ? "x" : "");
                sb_guard_release(&guard);
        }
        *ret_end = r;
        return text;
}

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

static void test_a_marked_cut_can_be_read_until_the_mark_is_dropped(void)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_scan_options how = {.size = sizeof(how)};
        struct sb_guard guard = {0};
        uint64_t cut = 0;

        BEGIN();
        CHECK(!put("a", "1") && !put("gone", "1") && !put("same", "1"));
        CHECK_EQ(sb_mark(bus, b("m"), &cut), 0);
        for (int i = 0; i < 10; i++)
                CHECK(!put("a", "2"));
        CHECK_EQ(sb_delete(bus, b("gone"), SB_ANY_REV, NULL, NULL), 0);
        CHECK(!put("new", "2") && !put("new", "3"));
        world_prune(&world, bus);
        AT("a", cut, "1");
        AT("gone", cut, "1");
        AT("same", cut, "1");
        AT("new", cut, "-");
        AT("never", cut, "-");
        how.cut = cut;
        CHECK_EQ(sb_scan_open_at(bus, all, &how, &scan), 0);
        CHECK_EQ(sb_scan_cut(scan), cut);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(guard.key.len == 1 && guard.value.len == 1 && *(const char *)guard.value.data == '1');
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(guard.key.len == 4 && memcmp(guard.key.data, "gone", 4) == 0);
        sb_guard_release(&guard);
        /* From here on the scan keeps the cut. */
        CHECK_EQ(sb_mark_drop(bus, b("m")), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(guard.key.len == 4 && memcmp(guard.key.data, "same", 4) == 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        scan = sb_scan_close(scan);
        world_prune(&world, bus);
        AT("a", cut, "?2");
        AT("never", cut, "?");
        AT("same", cut, "1"); /* known only because nothing happened to this key */
        CHECK_EQ(sb_scan_open_at(bus, all, &how, &scan), SB_E_LAPPED);
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

static void test_what_a_narrow_rule_did_not_keep_no_wider_one_claims(void)
{
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
        END();
}

static void test_a_scan_of_the_past_ends_when_its_rule_is_taken_away(void)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};

        BEGIN();
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK(!put("k1", "1") && !put("k2", "2") && !put("k3", "3"));
        how.cut = cut_now();
        CHECK(!put("k1", "now"));
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        sb_guard_release(&guard);
        CHECK_EQ(keep("else", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        sb_guard_release(&guard);
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_NEWEST, 0), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_LAPPED);
        END();
}

/* A process that is stopped for an hour once it has looked at the time so often. */
static unsigned looks_left;
static uint64_t stopped_now_ns(void *context)
{
        looks_left -= looks_left > 0;
        return sb_os_linux.now_ns(context) + (looks_left > 0 ? 0 : UINT64_C(3600000000000));
}

/* A batch that comes to a key of which too little is left, and only then to the end of its rule,
 * has nothing to take back there. */
static void test_a_batch_of_the_past_that_outlasts_its_rule_ends_at_the_last_whole_key(void)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guards[3], untouched;
        const struct sb_os *before;
        struct sb_os stopped = sb_os_linux;
        size_t count = 0;

        BEGIN();
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_SPAN, UINT64_C(60000000000)), 0);
        CHECK_EQ(keep("k2", 0, SB_KEEP_LAST, 2), 0);
        CHECK(!put("k1", "then") && !put("k2", "then") && !put("k3", "then"));
        how.cut = cut_now();
        CHECK(!put("k1", "now"));
        for (int i = 0; i < 4; i++)
                CHECK(!put("k2", "now") && cut_now());
        world_tick(&world);
        world_prune(&world, bus);
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        memset(guards, 0x5a, sizeof(guards));
        memset(&untouched, 0x5a, sizeof(untouched));
        stopped.now_ns = stopped_now_ns;
        looks_left = 2;
        before = bus->handle.segment.os;
        bus->handle.segment.os = &stopped;
        CHECK_EQ(sb_scan_next_many(scan, guards, 3, &count), 0);
        CHECK_EQ(count, 1);
        CHECK(memcmp(guards[0].key.data, "k1", 2) == 0 && guards[0].cut <= how.cut);
        CHECK(memcmp(&guards[1], &untouched, sizeof(untouched)) == 0);
        sb_guard_release(&guards[0]);
        CHECK_EQ(sb_scan_next(scan, &guards[0]), SB_E_LAPPED);
        bus->handle.segment.os = before;
        CHECK_EQ(sb_scan_next(scan, &guards[0]), SB_E_LAPPED);
        scan = sb_scan_close(scan);
        for (uint32_t i = 0; i < bus->guard_count; i++)
                CHECK_EQ(sb_guard_read(&bus->handle.segment, bus->handle.record, i), 0);
        END();
}

static void test_a_scan_of_the_past_says_whether_the_oldest_version_left_is_a_delete(void)
{
        static const enum sb_kind kinds[] = {SB_VALUE, SB_DELETED};
        struct sb_scan_options how = {.size = sizeof(how)};
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};

        BEGIN();
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK_EQ(keep("k1", 0, SB_KEEP_LAST, 1), 0);
        CHECK_EQ(keep("k2", 0, SB_KEEP_LAST, 1), 0);
        CHECK(!put("k1", "then") && !put("k2", "then"));
        how.cut = cut_now();
        CHECK(!put("k1", "now") && cut_now() && !put("k1", "now"));
        CHECK(!put("k2", "now") && cut_now());
        CHECK_EQ(sb_delete(bus, b("k2"), SB_ANY_REV, NULL, NULL), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        for (unsigned i = 0; i < 2; i++) {
                CHECK_EQ(sb_scan_next(scan, &guard), SB_E_LAPPED);
                CHECK(guard.key.len == 2 && ((const char *)guard.key.data)[1] == (char)('1' + i));
                CHECK_EQ(guard.kind, kinds[i]);
                sb_guard_release(&guard);
        }
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        END();
}

static void test_a_scan_of_the_past_shows_what_rules_kept(void)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        uint64_t cut;
        unsigned count = 0;
        char key[16];

        BEGIN();
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK_EQ(keep("k55", 0, SB_KEEP_LAST, 2), 0);
        for (unsigned i = 10; i < 60; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                CHECK(!put(key, "then"));
        }
        cut = how.cut = cut_now();
        for (unsigned i = 0; i < 70; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                if (i % 3 == 0 && i >= 10 && i < 60)
                        CHECK_EQ(sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL), 0);
                else
                        CHECK(!put(key, "now"));
                cut_now();
        }
        CHECK(!put("k55", "now") && !put("k55", "now"));
        world_prune(&world, bus);
        CHECK_EQ(sb_scan_open_at(bus, all, &how, &scan), SB_E_LAPPED);
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        for (int r; (r = sb_scan_next(scan, &guard)) != SB_E_NOT_FOUND; count++) {
                if (guard.key.len == 3 && memcmp(guard.key.data, "k55", 3) == 0) {
                        CHECK_EQ(r, SB_E_LAPPED);
                        CHECK(guard.cut > cut);
                } else {
                        CHECK_EQ(r, 0);
                        CHECK(guard.cut <= cut && guard.value.len == 4);
                }
                sb_guard_release(&guard);
        }
        CHECK_EQ(count, 50);
        scan = sb_scan_close(scan);
        how.flags = SB_REVERSE;
        how.limit = 2;
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), 0);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(memcmp(guard.key.data, "k59", 3) == 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), 0);
        CHECK(memcmp(guard.key.data, "k58", 3) == 0);
        sb_guard_release(&guard);
        CHECK_EQ(sb_scan_next(scan, &guard), SB_E_NOT_FOUND);
        scan = sb_scan_close(scan);
        how.cut = UINT64_MAX - 1;
        CHECK_EQ(sb_scan_open_at(bus, b("k"), &how, &scan), -EINVAL);
        END();
}

/* The processor's time of this thread. */
static uint64_t cpu_now_ns(void)
{
        struct timespec now = {0};

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Goes through the keys with "k". Return: the time that it took. */
static uint64_t time_scan(const struct sb_scan_options *how, uint32_t *ret_count)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        uint64_t began = cpu_now_ns();
        int r = sb_scan_open_at(bus, b("k"), how, &scan);

        for (*ret_count = 0; r == 0; *ret_count += r == 0) {
                r = sb_scan_next(scan, &guard);
                sb_guard_release(&guard);
        }
        return cpu_now_ns() - began;
}

/* It does not look at one many times, nor at keys behind its own. */
static void test_a_scan_of_the_past_goes_once_over_the_keys_that_came_later(void)
{
        struct sb_scan_options how = {.size = sizeof(how)};
        uint64_t now_ns, past_ns;
        uint32_t count;
        char key[16];

        BEGIN();
        CHECK_EQ(keep("k", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        CHECK(!put("k", "then"));
        how.cut = cut_now();
        for (uint32_t i = 0; i < 2000; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                CHECK(!put(key, "now"));
        }
        for (uint32_t i = 0; i < 20000; i++) {
                snprintf(key, sizeof(key), "l%u", i);
                CHECK(!put(key, "now"));
        }
        now_ns = time_scan(NULL, &count);
        CHECK_EQ(count, 2001);
        for (how.limit = 0; how.limit < 4; how.limit++) {
                past_ns = time_scan(&how, &count);
                CHECK_EQ(count, 1);
                /* At one look for each, about as long; with few nodes at a time some five times. */
                CHECK(past_ns < 20 * now_ns);
        }
        END();
}

static void test_a_long_history_comes_whole_and_in_both_orders(void)
{
        sb_auto(sb_history_closep) struct sb_history *walk = NULL;
        struct sb_guard guard = {0}, held[3] = {0};
        uint64_t time_ns = 0, last_ns = UINT64_MAX;

        BEGIN();
        CHECK_EQ(keep("k", 0, SB_KEEP_ALL, 0), 0);
        for (unsigned i = 1; i <= 1000; i++) {
                CHECK(!put("k", "v"));
                if (i % 100 == 0)
                        world_tick(&world);
        }
        world_prune(&world, bus);
        for (uint32_t flags = 0; flags <= SB_REVERSE; flags += SB_REVERSE) {
                CHECK_EQ(sb_history_open(bus, b("k"), flags, &walk), 0);
                for (uint64_t i = 1; i <= 1000; i++) {
                        CHECK_EQ(sb_history_next(walk, &guard, &time_ns), 0);
                        CHECK_EQ(guard.rev, flags ? i : 1001 - i);
                        CHECK_EQ(guard.missed, 0);
                        if (!flags) {
                                CHECK(time_ns <= last_ns);
                                last_ns = time_ns;
                        }
                        sb_guard_release(&guard);
                }
                CHECK_EQ(sb_history_next(walk, &guard, NULL), SB_E_NOT_FOUND);
                walk = sb_history_close(walk);
        }
        /* Guards outlive the walk; a walk that is closed early releases the rest. */
        CHECK_EQ(sb_history_open(bus, b("k"), 0, &walk), 0);
        for (int i = 0; i < 3; i++)
                CHECK_EQ(sb_history_next(walk, &held[i], NULL), 0);
        walk = sb_history_close(walk);
        CHECK_EQ(keep("k", 0, SB_KEEP_NEWEST, 0), 0);
        world_prune(&world, bus);
        for (int i = 0; i < 3; i++) {
                CHECK(held[i].rev == 1000 - (uint64_t)i &&
                        *(const char *)held[i].value.data == 'v');
                sb_guard_release(&held[i]);
        }
        END();
}

/* A mover was stopped at each version of a key (shm/upkeep/move.h): so a batch of a walk ends
 * between a copy and its original, too. */
static void test_a_version_that_is_there_twice_is_listed_once(void)
{
        struct sb_guard guard = {0};

        for (unsigned versions = 1; versions <= 100; versions += versions % 32 == 31 ? 2 : 31) {
                BEGIN();
                CHECK_EQ(keep("k", 0, SB_KEEP_ALL, 0), 0);
                for (unsigned i = 1; i <= versions; i++)
                        CHECK(!put("k", i % 2 ? "odd" : "even"));
                for (int round = 0; round < 3; round++) {
                        /* Once more, above copies; then the originals are taken out. */
                        if (round < 2)
                                CHECK(copy_above_all(&bus->handle, "k", 1) >= versions);
                        else
                                world_prune(&world, bus);
                        CHECK(world_sound(&world, bus));
                        for (uint32_t flags = 0; flags <= SB_REVERSE; flags += SB_REVERSE) {
                                sb_auto(sb_history_closep) struct sb_history *walk = NULL;

                                CHECK_EQ(sb_history_open(bus, b("k"), flags, &walk), 0);
                                for (uint64_t i = 1; i <= versions; i++) {
                                        CHECK_EQ(sb_history_next(walk, &guard, NULL), 0);
                                        CHECK_EQ(guard.rev, flags ? i : versions + 1 - i);
                                        CHECK_EQ(guard.missed, 0);
                                        CHECK_EQ(guard.value.len, guard.rev % 2 ? 3 : 4);
                                        sb_guard_release(&guard);
                                }
                                CHECK_EQ(sb_history_next(walk, &guard, NULL), SB_E_NOT_FOUND);
                        }
                }
                END();
        }
}

static void test_a_walk_goes_on_while_what_it_stands_on_is_pruned(void)
{
        sb_auto(sb_history_closep) struct sb_history *walk = NULL;
        struct sb_guard guard = {0};
        uint64_t last = 0;
        unsigned count = 0;
        int r;

        BEGIN();
        CHECK_EQ(keep("k", 0, SB_KEEP_LAST, 64), 0);
        for (unsigned i = 0; i < 64; i++)
                CHECK(!put("k", "v"));
        CHECK_EQ(sb_history_open(bus, b("k"), 0, &walk), 0);
        for (; count < 32; count++) {
                CHECK_EQ(sb_history_next(walk, &guard, NULL), 0);
                last = guard.rev;
                sb_guard_release(&guard);
        }
        for (unsigned i = 0; i < 48; i++)
                CHECK(!put("k", "v"));
        world_prune(&world, bus);
        while ((r = sb_history_next(walk, &guard, NULL)) == 0) {
                CHECK(guard.rev < last);
                last = guard.rev;
                sb_guard_release(&guard);
                count++;
        }
        CHECK(r == SB_E_LAPPED && count >= 32 && count <= 64);
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

static void test_restore_undoes_what_came_after_a_cut(void)
{
        uint64_t cut = 0, rev = 0;

        BEGIN();
        CHECK(!put("a/changed", "1") && !put("a/gone", "1") && !put("a/same", "1") &&
                !put("b", "1"));
        CHECK_EQ(sb_mark(bus, b("m"), &cut), 0);
        CHECK(!put("a/changed", "2") && !put("a/new", "2") && !put("b", "2") && !put("b/x", "2"));
        CHECK_EQ(sb_delete(bus, b("a/gone"), SB_ANY_REV, NULL, NULL), 0);
        CHECK_EQ(sb_restore(bus, b("a/"), SB_PREFIX, cut, NULL), 0);
        CHECK(has(bus, "a/changed", "1") && has(bus, "a/gone", "1") && has(bus, "a/same", "1") &&
                !has(bus, "a/new", "2") && has(bus, "b", "2"));
        /* A key that was the same was not written; the others have new revisions. */
        CHECK_EQ(sb_cas(bus, b("a/same"), 1, b("1"), NULL, &rev), 0);
        CHECK_EQ(sb_cas(bus, b("a/changed"), 3, b("3"), NULL, &rev), 0);
        CHECK_EQ(sb_restore(bus, b("b"), 0, cut, NULL), 0);
        CHECK(has(bus, "b", "1") && has(bus, "b/x", "2"));
        CHECK_EQ(sb_restore(bus, b("b/x"), 0, cut, NULL), 0);
        CHECK(!has(bus, "b/x", "2"));
        CHECK_EQ(sb_restore(bus, all, SB_PREFIX, cut, NULL), 0);
        CHECK(has(bus, "a/changed", "1"));
        CHECK_EQ(sb_mark_drop(bus, b("m")), 0);
        world_prune(&world, bus);
        CHECK_EQ(sb_restore(bus, all, SB_PREFIX, cut, NULL), SB_E_LAPPED);
        CHECK_EQ(sb_restore(bus, b("absent"), 0, cut, NULL), SB_E_LAPPED);
        CHECK(has(bus, "a/changed", "1"));
        CHECK(!put("b", "6"));
        world_prune(&world, bus);
        CHECK_EQ(sb_restore(bus, b("b"), 0, cut, NULL), SB_E_LAPPED);
        CHECK(has(bus, "b", "6"));
        END();
}

static void test_misuse_has_a_name(void)
{
        const struct sb_rule good = {.size = sizeof(good), .kind = SB_KEEP_ALL};
        struct sb_rule bad = good;
        struct sb_scan_options how = {.size = 1};
        struct sb_history *walk = NULL;
        struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};

        BEGIN();
        CHECK_EQ(sb_get_at(bus, b("k"), 0, &guard), -EINVAL);
        CHECK_EQ(sb_get_at(bus, b("k"), UINT64_MAX, &guard), -EINVAL);
        CHECK_EQ(sb_get_at(NULL, b("k"), 2, &guard), -EINVAL);
        CHECK_EQ(sb_get_at(bus, all, 2, &guard), -EINVAL);
        CHECK_EQ(sb_keep(bus, all, 0, &good), -EINVAL);
        CHECK_EQ(sb_keep(bus, b("k"), 8, &good), -EINVAL);
        CHECK_EQ(sb_keep(bus, b("k"), 0, NULL), -EINVAL);
        bad.value = 1;
        CHECK_EQ(sb_keep(bus, b("k"), 0, &bad), -EINVAL);
        bad.kind = SB_KEEP_LAST;
        bad.value = 0;
        CHECK_EQ(sb_keep(bus, b("k"), 0, &bad), -EINVAL);
        bad.kind = 9;
        CHECK_EQ(sb_keep(bus, b("k"), 0, &bad), -EINVAL);
        CHECK_EQ(sb_kept(bus, b("k"), 0, NULL), -EINVAL);
        CHECK_EQ(sb_history_open(bus, b("k"), 1, &walk), -EINVAL);
        CHECK_EQ(sb_history_next(NULL, &guard, NULL), -EINVAL);
        CHECK(!sb_history_close(NULL));
        CHECK_EQ(sb_scan_open_at(bus, all, &how, &scan), -EINVAL);
        CHECK_EQ(sb_restore(bus, all, 0, 2, NULL), -EINVAL);
        CHECK_EQ(sb_restore(NULL, b("k"), 0, 2, NULL), -EINVAL);
        CHECK_EQ(sb_history_open(bus, b("k"), 0, &walk), 0);
        CHECK_EQ(sb_history_next(walk, NULL, NULL), -EINVAL);
        bus = sb_close(bus);
        CHECK_EQ(sb_history_next(walk, &guard, NULL), SB_E_DETACHED);
        CHECK(!sb_history_close(walk));
        bus = world_bus(&world);
        CHECK(bus);
        END();
}

static struct sb_word32 writer_stops;
static void *write_on(void *argument)
{
        struct sb_bus *own = argument;
        char value[24];

        for (unsigned i = 0; !sb_load_relaxed(&writer_stops) && i < 200000; i++) {
                snprintf(value, sizeof(value), "%u", i);
                if (sb_set(own, b("pair/a"), b(value), NULL, NULL) != 0 ||
                        sb_set(own, b("pair/b"), b(value), NULL, NULL) != 0)
                        break;
                if (i % 64 == 0 && sb_delete(own, b("pair/a"), SB_ANY_REV, NULL, NULL) != 0)
                        break;
        }
        return NULL;
}

static void test_the_past_reads_the_same_while_a_writer_goes_on(void)
{
        struct sb_bus *writers;
        pthread_t thread;
        char first[2][64], again[64];
        unsigned read = 0;

        BEGIN();
        writers = world_bus(&world);
        CHECK(writers);
        CHECK_EQ(keep("pair/", SB_PREFIX, SB_KEEP_ALL, 0), 0);
        if (!world.remote)
                sb_store_release(&bus->handle.segment.super->history_limit, 2 * MIB);
        CHECK_EQ(pthread_create(&thread, NULL, write_on, writers), 0);
        for (unsigned i = 0; i < 300; i++) {
                uint64_t cut = cut_now();

                strcpy(first[0], at("pair/a", cut));
                strcpy(first[1], at("pair/b", cut));
                for (unsigned k = 0; k < 8; k++) {
                        strcpy(again, at(k % 2 ? "pair/b" : "pair/a", cut));
                        /* A read gives the same value or SB_E_LAPPED, never another value. */
                        CHECK(strcmp(again, first[k % 2]) == 0 || again[0] == '?' ||
                                first[k % 2][0] == '?');
                        read += again[0] != '?';
                }
                if (i % 16 == 0)
                        world_prune(&world, bus);
        }
        sb_store_relaxed(&writer_stops, 1);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK(read > 1000);
        CHECK(!sb_close(writers));
        END();
}

static void test_a_cut_of_a_write_can_be_read_at_once_by_any_process(void)
{
        const struct sb_rule keep_all = {.size = sizeof(keep_all), .kind = SB_KEEP_ALL};
        uint64_t cut = 0, later = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        struct sb_scan_options past = {.size = sizeof(past)};
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_bus *other;

        BEGIN();
        other = world_bus(&world);
        CHECK(other);
        CHECK_EQ(sb_keep(bus, b("k"), SB_PREFIX, &keep_all), 0);
        for (unsigned round = 0; round < 12; round++) {
                struct sb_bus *reader = round % 2 ? other : bus;

                CHECK_EQ(sb_set(bus, b("k1"), b("then"), &how, NULL), 0);
                past.cut = cut;
                if (round % 3 == 0) {
                        CHECK_EQ(sb_get_at(reader, b("k1"), cut, &guard), 0);
                        CHECK(guard.cut == cut && guard.value.len == 4);
                        sb_guard_release(&guard);
                } else if (round % 3 == 1) {
                        CHECK_EQ(sb_scan_open_at(reader, b("k"), &past, &scan), 0);
                        CHECK_EQ(sb_scan_next(scan, &guard), 0);
                        CHECK(guard.cut == cut && sb_scan_cut(scan) == cut);
                        sb_guard_release(&guard);
                        scan = sb_scan_close(scan);
                } else {
                        CHECK_EQ(sb_restore(reader, b("k"), SB_PREFIX, cut, NULL), 0);
                }
                /* The cut was taken: what comes now is not in it. */
                how.ret_cut = &later;
                CHECK_EQ(sb_set(other, b("k1"), b("later"), &how, NULL), 0);
                how.ret_cut = &cut;
                CHECK(later > cut);
                CHECK_EQ(sb_get_at(bus, b("k1"), cut, &guard), 0);
                CHECK(guard.value.len == 4);
                sb_guard_release(&guard);
                /* One that is above any that was given is none. */
                CHECK_EQ(sb_get_at(bus, b("k1"), later + 1000, &guard), -EINVAL);
        }
        CHECK(!sb_close(other));
        END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_keys_that_come_and_go_under_a_rule_never_fill_the_bus);
        RUN(test_a_marked_cut_can_be_read_until_the_mark_is_dropped);
        RUN(test_a_rule_keeps_everything_that_was_since_it_was_made);
        RUN(test_a_rule_that_is_said_again_covers_what_it_covered);
        RUN(test_the_last_versions_of_a_key_are_kept_and_no_more);
        RUN(test_a_span_of_time_is_kept_and_no_more);
        RUN(test_the_longest_rule_applies_and_a_keys_own_before_any);
        RUN(test_what_a_narrow_rule_did_not_keep_no_wider_one_claims);
        RUN(test_a_scan_of_the_past_ends_when_its_rule_is_taken_away);
        RUN(test_a_batch_of_the_past_that_outlasts_its_rule_ends_at_the_last_whole_key);
        RUN(test_a_scan_of_the_past_says_whether_the_oldest_version_left_is_a_delete);
        RUN(test_a_scan_of_the_past_shows_what_rules_kept);
        RUN(test_a_scan_of_the_past_goes_once_over_the_keys_that_came_later);
        RUN(test_a_long_history_comes_whole_and_in_both_orders);
        RUN(test_a_version_that_is_there_twice_is_listed_once);
        RUN(test_a_walk_goes_on_while_what_it_stands_on_is_pruned);
        RUN(test_memory_for_history_has_a_limit_and_marks_are_not_touched);
        RUN(test_a_cut_of_a_write_can_be_read_at_once_by_any_process);
        RUN(test_restore_undoes_what_came_after_a_cut);
        RUN(test_the_past_reads_the_same_while_a_writer_goes_on);
        RUN(test_misuse_has_a_name);
        return test_end();
}
