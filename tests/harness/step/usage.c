/* Uses a bus in every way; see usage.h. */
#include "tests/harness/step/usage.h"

#include <string.h>

#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/layout/report.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/unit.h"
#include "shm/upkeep/check.h"

#define DRAIN_ROUNDS 60u
#define STALL_WRITES 150u
#define ROW_LEN      1100u /* of three units */
#define ROW_KEY      (SCENE_KEYS - 1)
#define GIVEN_MAX    600u /* changes and laps of a watch */

/* While no client is naming a cut: each name has its mark, and each mark has a name. */
static void check_marks(enum scene_actor actor, const char *when)
{
        const struct sb_segment *segment = &scene.segment;
        struct result named = usage_act(actor, MARK_FIND, 0, 0, 0, ANY);
        uint32_t marks = 0;
        uint64_t cut;

        for (uint32_t i = 0; i < segment->geometry.mark_count; i++) {
                bool used = sb_load_acquire(&segment->marks[i].owner);

                if (used != sb_named_read(segment, i, &cut))
                        trial_fail("%s: mark %u is half made", when, i);
                marks += used;
        }
        if (marks != named.seen[0].rev)
                trial_fail("%s: %u marks are in use, and find says %d", when, marks, named.code);
}

bool usage_check(
        enum scene_actor actor, bool quiescent, const char *when, struct sb_check_report *ret)
{
        int r;

        memset(ret, 0, sizeof(*ret));
        r = sb_check(scene_handle(&scene, actor), quiescent, ret);
        if (r)
                trial_fail("%s: check says %d", when, r);
        else if (ret->problem_count)
                trial_fail("%s: check finds %u: %s", when, ret->problem_count, ret->problems[0]);
        else if (quiescent && ret->guards_stale)
                trial_fail("%s: %llu guards hold no block", when,
                        (unsigned long long)ret->guards_stale);
        else if (ret->blocks_lost)
                trial_fail("%s: %llu blocks lost", when, (unsigned long long)ret->blocks_lost);
        if (quiescent && !trial_failed())
                check_marks(actor, when);
        return !trial_failed();
}

struct result usage_act(enum scene_actor actor, enum act_kind kind, uint32_t key, uint32_t tag,
        uint32_t len, enum act_expect expect)
{
        struct act act = {.actor = (uint8_t)actor,
                .kind = (uint8_t)kind,
                .key = (uint8_t)key,
                .tag = (uint8_t)tag,
                .len = (uint16_t)len,
                .expect = (uint8_t)expect};
        struct result result;

        scene_do(&scene, &act, &result);
        return result;
}

static void expect_fact(enum scene_actor actor, uint32_t key, uint32_t tag, uint32_t len,
        uint64_t rev, const char *when)
{
        struct fact want = {FACT_VALUE, tag, len, rev};
        struct result got = usage_act(actor, GET, key, 0, 0, ANY);

        if (got.code || !scene_fact_equal(&got.seen[key], &want, true))
                trial_fail("%s: get of key %u gives %d {%s}, not {%s}", when, key, got.code,
                        trial_fact_text(&got.seen[key]), trial_fact_text(&want));
}

static void write_all_ways(enum scene_actor actor, uint32_t key, const struct fact *found)
{
        struct result set = usage_act(actor, SET, key, 50 + key, 20, ANY), got;
        uint64_t rev = set.rev;

        if (set.code ||
                (found->state == FACT_VALUE ? rev != found->rev + 1 : rev <= scene.then[key]))
                trial_fail("set of key %u after {%s} gives %d rev %llu", key,
                        trial_fact_text(found), set.code, (unsigned long long)rev);
        expect_fact(actor, key, 50 + key, 20, rev, "after set");
        scene.then[key] = rev;
        got = usage_act(actor, CAS, key, 1, 1, STALE);
        if (got.code != SB_E_CONFLICT || got.rev != rev)
                trial_fail("stale cas of key %u gives %d rev %llu", key, got.code,
                        (unsigned long long)got.rev);
        got = usage_act(actor, CAS, key, 60 + key, 30, THEN);
        if (got.code || got.rev != rev + 1)
                trial_fail("cas of key %u gives %d rev %llu", key, got.code,
                        (unsigned long long)got.rev);
        expect_fact(actor, key, 60 + key, 30, rev + 1, "after cas");
        got = usage_act(actor, DELETE, key, 0, 0, ANY);
        if (got.code || got.rev != rev + 2)
                trial_fail("delete of key %u gives %d rev %llu", key, got.code,
                        (unsigned long long)got.rev);
        if (usage_act(actor, GET, key, 0, 0, ANY).code != SB_E_NOT_FOUND)
                trial_fail("key %u is there after its delete", key);
        if (usage_act(actor, DELETE, key, 0, 0, ANY).code != SB_E_NOT_FOUND)
                trial_fail("key %u can be deleted twice", key);
        got = usage_act(actor, CAS, key, 70 + key, 10, NOTHING);
        if (got.code || got.rev <= rev + 2)
                trial_fail("create of key %u gives %d rev %llu", key, got.code,
                        (unsigned long long)got.rev);
        rev = got.rev;
        expect_fact(actor, key, 70 + key, 10, rev, "after create");
        if (usage_act(actor, CAS, key, 1, 1, NOTHING).code != SB_E_CONFLICT)
                trial_fail("key %u can be created twice", key);
}

void usage_delete_all(enum scene_actor actor)
{
        for (uint32_t key = 0; key < scene.key_count && !trial_failed(); key++) {
                struct result get = usage_act(actor, GET, key, 0, 0, ANY),
                              got = usage_act(actor, DELETE, key, 0, 0, ANY);

                if (got.code != get.code)
                        trial_fail("delete of key %u gives %d, get before gave %d", key, got.code,
                                get.code);
        }
}

/* Writes all keys in one transaction, which sees what was there before. */
static void commit_all(enum scene_actor actor)
{
        struct fact facts[SCENE_KEYS], after[SCENE_KEYS];
        struct result got;
        bool full;

        scene_facts(&scene, actor, facts);
        got = usage_act(actor, TXN, 0, 5, TXN_SERIALIZABLE | scene.key_count, ANY);
        scene_facts(&scene, actor, after);
        /* scene-users.c says when. */
        full = got.code == SB_E_FULL && (trial.scenario->flags & TRIAL_ROWS) &&
               scene_other_is_pinned(&scene, actor);
        if (got.code && !full)
                trial_fail("a transaction over all keys gives %d", got.code);
        for (uint32_t key = 0; key < scene.key_count; key++) {
                struct fact want = {FACT_VALUE, 5, 10, facts[key].rev + 1};

                if (full && !scene_fact_equal(&after[key], &facts[key], true))
                        trial_fail("a transaction found no memory, and key %u is {%s} behind {%s}",
                                key, trial_fact_text(&after[key]), trial_fact_text(&facts[key]));
                if (full)
                        continue;
                if (!scene_fact_equal(&got.seen[key], &facts[key], true) ||
                        !scene_fact_equal(&after[key], &want, true))
                        trial_fail("a transaction reads {%s} for key %u, get {%s}; after it {%s}",
                                trial_fact_text(&got.seen[key]), key, trial_fact_text(&facts[key]),
                                trial_fact_text(&after[key]));
        }
}

void usage_everything(enum scene_actor actor)
{
        struct fact facts[SCENE_KEYS];
        struct result scan;

        if (trial.scenario->flags & TRIAL_FULL) {
                usage_delete_all(actor);
                usage_act(actor, WORK, 0, 0, 1, ANY);
                usage_act(actor, WORK, 0, 0, 1, ANY);
        }
        scene_facts(&scene, actor, facts);
        scan = usage_act(actor, SCAN, 0, 0, 0, ANY);
        for (uint32_t key = 0; key < scene.key_count; key++)
                if (!scene_fact_equal(&scan.seen[key], &facts[key], true))
                        trial_fail("scan (%d) has {%s} for key %u, get {%s}", scan.code,
                                trial_fact_text(&scan.seen[key]), key,
                                trial_fact_text(&facts[key]));
        for (uint32_t key = 0; key < scene.key_count && !trial_failed(); key++)
                write_all_ways(actor, key, &facts[key]);
        if (!(trial.scenario->flags & TRIAL_FULL) && !trial_failed())
                commit_all(actor);
}

/* The engine makes no public calls. */
static enum scene_actor usage_caller(enum scene_actor actor)
{
        return actor == ENGINE ? OTHER : actor;
}

/* The history of a key lists each revision once. Return: whether the one of @rev is among them. */
static bool lists_once(enum scene_actor actor, uint32_t key, uint64_t rev)
{
        struct result history = usage_act(actor, HISTORY, key, 0, 0, ANY);
        uint32_t above = SCENE_KEYS;
        bool there = false;

        for (uint32_t i = 0; i < SCENE_KEYS; i++) {
                /* A tombstone has no revision here. */
                if (history.seen[i].state == FACT_NONE)
                        continue;
                if (above < SCENE_KEYS && history.seen[i].rev >= history.seen[above].rev)
                        trial_fail("the history of key %u lists {%s} below {%s}", key,
                                trial_fact_text(&history.seen[i]),
                                trial_fact_text(&history.seen[above]));
                there = there || history.seen[i].rev == rev;
                above = i;
        }
        return there;
}

void usage_rows(enum scene_actor actor)
{
        struct result past;

        if (!(trial.scenario->flags & TRIAL_ROWS))
                return;
        actor = usage_caller(actor);
        for (uint32_t key = 0; key < scene.key_count && !trial_failed(); key++)
                if (lists_once(actor, key, trial.past.rev) && key == RULED_KEY) {
                        past = usage_act(actor, PAST, 0, 0, RULED_KEY + 1, ANY);
                        if (!scene_fact_equal(&past.seen[key], &trial.past, true))
                                trial_fail("the past (%d) has {%s} for key %u, and had {%s}",
                                        past.code, trial_fact_text(&past.seen[key]), key,
                                        trial_fact_text(&trial.past));
                }
        if (!trial_failed() && usage_act(actor, LARGE, ROW_KEY, 7, ROW_LEN, ANY).code)
                trial_fail("a large value cannot be written");
}

/* No unit is owned by a client that is gone, and all that were slabs or large blocks can become
 * other ones. */
static void check_rows(void)
{
        const struct sb_segment *segment = &scene.segment;

        for (uint32_t unit = 0; unit < segment->geometry.unit_count; unit++) {
                uint64_t word = sb_unit_word(segment, unit);

                if (SB_UNIT_KIND(word) == SB_UNIT_EMPTY || SB_UNIT_KIND(word) == SB_UNIT_FREE ||
                        SB_UNIT_OWNER(word) == sb_unit_owner(scene_handle(&scene, ENGINE)))
                        continue;
                trial_fail("after everything was deleted unit %u is 0x%llx", unit,
                        (unsigned long long)word);
        }
}

/* How many buckets have a sign: of none, where there is no key. */
static uint32_t usage_signs(void)
{
        const struct sb_segment *segment = &scene.segment;
        uint32_t count = 0;

        for (uint32_t i = 0; i < segment->geometry.bucket_count; i++)
                count += (sb_load_acquire(&segment->buckets[i].sign) & SB_SIGN_BITS) != 0;
        return count;
}

/* How many lengths of prefixes writers still look for, and whether they do at all. */
static uint32_t usage_attention(void)
{
        const struct sb_superblock *super = scene.segment.super;
        uint64_t attention = sb_load_acquire(&super->attention);
        uint32_t count = (trial.scenario->flags & TRIAL_LOGS ? attention & SB_ATTENTION_PREFIXES
                                                             : attention) != 0;

        for (uint32_t i = 0; i < SB_PREFIX_LENGTHS; i++)
                count += (uint32_t)__builtin_popcount(
                        (uint32_t)sb_load_acquire(&super->prefix_lengths[i]));
        return count;
}

void usage_drain(enum scene_actor actor)
{
        struct sb_check_report report;

        if (!trial_failed())
                usage_delete_all(actor);
        if (!trial_failed()) {
                usage_act(actor, MARK_DROP, 0, 0, 0, ANY);
                usage_act(actor, KEEP, 0, 0, 0, ANY);
                for (uint32_t key = 0; key < scene.key_count; key++)
                        if (trial.scenario->flags & (TRIAL_ROWS | TRIAL_USERS))
                                usage_act(usage_caller(actor), KEEP, key, KEEP_ONE, 0, ANY);
        }
        for (uint32_t i = SUBJECT; i < SCENE_PEERS && !trial_failed(); i++)
                if (scene.attached[i])
                        usage_act((enum scene_actor)i, DETACH, 0, 0, 0, ANY);
        for (uint32_t round = 0; round < DRAIN_ROUNDS && !trial_failed(); round++) {
                if (trial.scenario->flags & TRIAL_LOGS)
                        usage_act(ENGINE, LOG, 0, 0, 0, ANY);
                usage_act(ENGINE, TICK, 0, 0, 0, ANY);
                usage_act(ENGINE, WORK, 0, 0, 1, ANY);
                if (!usage_check(ENGINE, true, "while draining", &report))
                        return;
                if (report.blocks_used == report.blocks_private && !report.keys &&
                        !report.keys_deleted && !report.placeholders && !usage_signs() &&
                        !usage_attention()) {
                        if (trial.scenario->flags & TRIAL_ROWS)
                                check_rows();
                        return;
                }
        }
        trial_fail("after everything was deleted %llu blocks stay in use (%llu private, %llu "
                   "waiting), keys %llu deleted %llu placeholders %llu, signs of %u buckets, "
                   "attention to "
                   "%u lengths",
                (unsigned long long)report.blocks_used, (unsigned long long)report.blocks_private,
                (unsigned long long)report.blocks_waiting, (unsigned long long)report.keys,
                (unsigned long long)report.keys_deleted, (unsigned long long)report.placeholders,
                usage_signs(), usage_attention());
}

/* ---- watches ---- */

/* The client goes on: it is attached, and not stopped, and the engine does not reap it. @resumed:
 * the stepped one goes on, too. */
static bool goes_on(uint32_t actor, bool resumed)
{
        for (uint32_t i = 0; i < trial.operation_count; i++)
                if (trial.scenario->operation[i].kind == REAP &&
                        trial.scenario->operation[i].key == actor)
                        return false;
        return scene.attached[actor] && (resumed || actor != trial_subject());
}

static bool gives_something(enum scene_actor actor)
{
        for (uint32_t i = 0; i < SCENE_WATCHES; i++)
                if (scene.watch[actor][i] &&
                        usage_act(actor, WATCH_NEXT, scene.watch_key[actor][i], 0, i, ANY).code !=
                                SB_E_TIMED_OUT)
                        return true;
        /* A watch of a prefix reads when it is told, or hinted: what no process told it, it cannot
         * see. */
        for (uint32_t i = 0; i < SCENE_WATCHES; i++)
                if (scene.prefix[actor][i].stands &&
                        scene_prefix_missing(&scene, actor, i) < SCENE_KEYS)
                        return true;
        return false;
}

void usage_sleepers(const char *when)
{
        static struct scene before;

        for (uint32_t actor = SUBJECT; actor < SCENE_PEERS && !trial_failed(); actor++) {
                if (!scene.attached[actor] || !scene.asleep[actor] || scene.woken[actor])
                        continue;
                trial_save(&before);
                if (gives_something((enum scene_actor)actor))
                        trial_fail("%s: client %u sleeps with something to see", when, actor);
                trial_restore(&before);
        }
}

/* A watch that has nothing more has given each key as it is. */
static void expect_all_given(enum scene_actor actor, uint32_t i)
{
        uint32_t missing =
                scene.prefix[actor][i].stands ? scene_prefix_missing(&scene, actor, i) : SCENE_KEYS;

        if (missing < SCENE_KEYS)
                trial_fail("watch %u of client %u ends, and did not give key %u as it is", i, actor,
                        missing);
}

/* What is left to give. */
static void give_all(enum scene_actor actor, uint32_t i)
{
        for (uint32_t count = 0; count < GIVEN_MAX && !trial_failed(); count++)
                if (usage_act(actor, WATCH_NEXT, scene.watch_key[actor][i], 0, i, ANY).code ==
                        SB_E_TIMED_OUT) {
                        expect_all_given(actor, i);
                        return;
                }
        trial_fail("watch %u of client %u gives without end", i, actor);
}

/* A write by another client wakes this one, and comes out of its watch. */
static void watch_once(enum scene_actor actor, uint32_t i, enum scene_actor writer)
{
        uint32_t key = scene.watch_key[actor][i];
        struct result sleep = usage_act(actor, SLEEP, 0, 0, 0, ANY), set, next;
        struct fact want;

        if (sleep.code != SB_E_TIMED_OUT)
                trial_fail(
                        "client %u has nothing to see, and does not sleep: %d", actor, sleep.code);
        set = usage_act(writer, SET, key, 33, 20, ANY);
        if (set.code)
                trial_fail("set of the watched key %u gives %d", key, set.code);
        if (!trial_failed() && writer != actor && !scene.woken[actor])
                trial_fail("client %u is not woken by a write of key %u", actor, key);
        if (!trial_failed() && usage_act(actor, WAIT, 0, 0, 0, ANY).code)
                trial_fail("client %u is not told of a write of key %u", actor, key);
        next = usage_act(actor, WATCH_NEXT, key, 0, i, ANY);
        want = (struct fact){FACT_VALUE, 33, 20, set.rev};
        if (next.code || next.rev != set.rev || !scene_fact_equal(&next.seen[key], &want, true))
                trial_fail("watch %u of client %u gives %d {%s}, not {%s}", i, actor, next.code,
                        trial_fact_text(&next.seen[key]), trial_fact_text(&want));
}

/* What is left in each watch of the client. */
static void give_all_of(enum scene_actor actor)
{
        for (uint32_t i = 0; i < SCENE_WATCHES; i++)
                if (scene.watch[actor][i] && !trial_failed())
                        give_all(actor, i);
}

/* Another watch of all keys, which begins now. */
static void watch_afresh(enum scene_actor actor)
{
        const uint32_t place = SCENE_WATCHES - 1;

        if (!(trial.scenario->flags & TRIAL_PREFIXES) || actor == ENGINE ||
                scene.watch[actor][place] || trial_failed())
                return;
        usage_act(actor, PREFIX, 1, 0, place, ANY);
        if (trial_failed())
                return;
        scene_prefix_begin(&scene, actor, place);
        give_all(actor, place);
        usage_act(actor, SET, 1, 34, 20, ANY);
        usage_act(actor, DELETE, 1, 0, 0, ANY);
        usage_act(actor, SET, 2, 35, 20, ANY);
        if (!trial_failed())
                give_all(actor, place);
        usage_act(actor, WATCH_CLOSE, 1, 0, place, ANY);
}

void usage_watches(enum scene_actor writer, bool resumed)
{
        enum scene_actor second = goes_on(ENGINE, resumed) ? ENGINE : OTHER;

        if (trial.scenario->flags & TRIAL_FULL)
                return; /* a write may find no room */
        for (uint32_t actor = SUBJECT; actor < SCENE_PEERS; actor++)
                for (uint32_t i = 0; i < SCENE_WATCHES && goes_on(actor, resumed); i++) {
                        if (!scene.watch[actor][i] || trial_failed())
                                continue;
                        give_all_of((enum scene_actor)actor);
                        if (!trial_failed())
                                watch_once((enum scene_actor)actor, i,
                                        writer != actor ? writer : second);
                }
        watch_afresh(writer);
}

/* ---- logs ---- */

static void log_once(enum scene_actor actor, uint32_t len, const char *which)
{
        struct result result = usage_act(actor, LOG, 0, 0, len, ANY);
        struct fact facts[SCENE_KEYS];

        if (result.code) {
                trial_fail("a batch of %s gives %d", which, result.code);
                return;
        }
        scene_facts(&scene, actor, facts);
        for (uint32_t key = 0; key < scene.key_count; key++)
                if (!scene_fact_equal(&facts[key], &result.seen[key], true))
                        trial_fail("key %u is {%s}, and %s has {%s}", key,
                                trial_fact_text(&facts[key]), which,
                                trial_fact_text(&result.seen[key]));
}

void usage_logs(enum scene_actor actor, bool resumed)
{
        enum scene_actor subject = trial_subject();

        if (!(trial.scenario->flags & TRIAL_LOGS))
                return;
        for (uint32_t i = 0; i < SCENE_PEERS && !trial_failed(); i++)
                if (scene.log[i].stands && goes_on(i, resumed))
                        log_once((enum scene_actor)i, 0, "the log that stands");
        /* One that is stopped may go on: no other log begins beside it. */
        if (trial_failed() || (scene.log[subject].stands && scene.attached[subject] && !resumed))
                return;
        log_once(actor, LOG_ANEW, "a log that begins anew");
        for (uint32_t i = 0; i < SCENE_PEERS; i++)
                scene.log[i].stands = false;
}

/* ---- at the end ---- */

void usage_write_much(enum scene_actor actor)
{
        for (uint32_t i = 0; i < STALL_WRITES && !trial_failed(); i++) {
                struct result set = usage_act(actor, SET, i % scene.key_count, i & 63, 20, ANY);

                if (set.code)
                        trial_fail("write %u beside the stopped one gives %d", i, set.code);
                if (i % 8 == 0 && trial_subject() != ENGINE)
                        usage_act(ENGINE, TICK, 0, 0, 0, ANY);
        }
}
