/*
 * What transactions must never show, and what they may, for both isolations.
 *
 * An interleaving is written as a line of steps in the order in which they happen, each an actor (a
 * bus of its own; 0 is plain operations) and what it does:
 *
 *      1b       begin                      1rx5  get x: "5"; 1rx-  get x: no value
 *      1wx5     set x to "5"               1dx   delete x
 *      1s=ab    a scan of a..h gives a, b  1c    commit; 1c!x  commit: conflict, over x; 1e  end
 *      1mxy5    get x and y, and move 5 from x to y
 *      1t       x, y and z add up to what they did in the beginning
 *
 * One such line forces an anomaly, or shows that it cannot be. Then all interleavings of some
 * actors' programs are gone through (there a step says neither actor nor outcome, and "+" binds
 * steps together), each is recorded, and the judge of histories names what it sees.
 *
 * Always true: one process and one thread; nothing here is left to chance.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/harness/faults.h"
#include "tests/harness/history.h"
#include "tests/harness/test.h"
#include "world.h"

#define ACTORS  5u
#define WRITES  8u
#define STEPS   8u
#define NOTES   256u
#define TOTAL   150
#define BEGIN() WORLD_BEGIN(16 << 20)
#define REQUIRE(...)                                                                               \
        do {                                                                                       \
                const char *why_ = (__VA_ARGS__);                                                  \
                if (why_ != NULL)                                                                  \
                        TEST_FAIL("%s", why_);                                                     \
        } while (0)

struct actor {
        struct sb_bus *bus;
        struct sb_txn *txn;
        char written[WRITES];
        uint32_t written_count;
        bool committed;
};

/* What goes into a history when it is known who committed. */
struct note {
        uint64_t version;
        uint32_t actor, writer;
        char letter;
        bool write;
};

static struct world world;
static struct sb_bus *bus;
static struct actor actors[ACTORS];
static struct note notes[NOTES];
static uint32_t note_count;
static struct history_verdict verdict;
static uint32_t isolation;
static char complaint[1280];

/* ---- keys and plain operations ---- */

static struct sb_bytes key_of(char letter, char text[8])
{
        snprintf(text, 8, "%s/%c", letter <= 'h' ? "set" : "one", letter);
        return b(text);
}

/* As sb_get(), with the value as text; "-" and revision 0 when there is none. */
static int look(struct actor *actor, char letter, char *ret_text, uint64_t *ret_rev)
{
        struct sb_guard guard = {0};
        char text[8];
        struct sb_bytes key = key_of(letter, text);
        int r = actor->txn != NULL ? sb_txn_get(actor->txn, key, &guard)
                                   : sb_get(actor->bus, key, &guard);

        if (r != 0 && r != SB_E_NOT_FOUND)
                return r;
        snprintf(ret_text, 32, "%.*s", r ? 1 : (int)guard.value.len,
                r ? "-" : (const char *)guard.value.data);
        *ret_rev = r ? 0 : guard.rev;
        sb_guard_release(&guard);
        return 0;
}

static uint64_t rev_of(char letter)
{
        struct actor plain = {.bus = bus};
        uint64_t rev = 0;
        char text[32];

        return look(&plain, letter, text, &rev) ? 0 : rev;
}

/* ---- steps ---- */

/* Own writes are not recorded; who wrote a value says the value, if it begins with a #. */
static void record_read(const struct actor *actor, char letter, const char *value, uint64_t rev)
{
        if (note_count < NOTES && !memchr(actor->written, letter, actor->written_count))
                notes[note_count++] = (struct note){.actor = (uint32_t)(actor - actors),
                        .letter = letter,
                        .version = rev,
                        .writer = value[0] == '#' ? (uint32_t)atoi(value + 1) : HISTORY_ANYONE};
}

static bool step_begin(struct actor *actor)
{
        actor->written_count = 0;
        actor->committed = false;
        return sb_txn_begin(actor->bus, isolation, &actor->txn) == 0;
}

static bool step_get(struct actor *actor, char letter, const char *expected)
{
        uint64_t rev;
        char text[32];

        if (look(actor, letter, text, &rev) != 0)
                return false;
        record_read(actor, letter, text, rev);
        return expected[0] == '\0' || strcmp(expected, text) == 0;
}

static bool step_set(struct actor *actor, char letter, const char *value)
{
        char text[8], own[32];
        struct sb_bytes key = key_of(letter, text);

        snprintf(own, sizeof(own), "#%u", (unsigned)(actor - actors));
        if (value[0] == '\0')
                value = own;
        if (actor->txn == NULL)
                return sb_set(actor->bus, key, b(value), NULL, NULL) == 0;
        if (memchr(actor->written, letter, actor->written_count) == NULL)
                actor->written[actor->written_count++] = letter;
        return actor->written_count < WRITES && sb_txn_set(actor->txn, key, b(value)) == 0;
}

static bool step_delete(struct actor *actor, char letter)
{
        char text[8];
        struct sb_bytes key = key_of(letter, text);

        return (actor->txn ? sb_txn_delete(actor->txn, key)
                           : sb_delete(actor->bus, key, SB_ANY_REV, NULL, NULL)) == 0;
}

static bool step_move(struct actor *actor, const char *what)
{
        char from[32], to[32], left[32], more[32];
        uint64_t revs[2];
        int by = atoi(what + 2);

        if (look(actor, what[0], from, &revs[0]) != 0 || look(actor, what[1], to, &revs[1]) != 0)
                return false;
        record_read(actor, what[0], from, revs[0]);
        record_read(actor, what[1], to, revs[1]);
        snprintf(left, sizeof(left), "%d", atoi(from) - by);
        snprintf(more, sizeof(more), "%d", atoi(to) + by);
        return step_set(actor, what[0], left) && step_set(actor, what[1], more);
}

static bool step_total(struct actor *actor)
{
        int sum = 0;

        for (char letter = 'x'; letter <= 'z'; letter++) {
                uint64_t rev;
                char text[32];

                if (look(actor, letter, text, &rev) != 0)
                        return false;
                record_read(actor, letter, text, rev);
                sum += atoi(text);
        }
        return sum == TOTAL;
}

/* The letters that a scan gives must be @expected, if that is said ("=" and the letters). */
static bool step_scan(struct actor *actor, const char *expected)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan;
        char found[16] = "", values[8][32];
        uint64_t revs[8];
        size_t count = 0;
        int r = sb_scan_open(actor->bus, actor->txn, b("set/"), &scan);

        if (r != 0)
                return false;
        while ((r = sb_scan_next(scan, &guard)) == 0 && count < 8) {
                found[count] = ((const char *)guard.key.data)[4];
                revs[count] = guard.rev;
                snprintf(values[count++], 32, "%.*s", (int)guard.value.len,
                        (const char *)guard.value.data);
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        for (char letter = 'a'; letter <= 'h'; letter++) {
                const char *at = strchr(found, letter);

                record_read(
                        actor, letter, at ? values[at - found] : "-", at ? revs[at - found] : 0);
        }
        return r == SB_E_NOT_FOUND && (expected[0] != '=' || strcmp(expected + 1, found) == 0);
}

/* An attempt that was aborted claims the revision that its successor gets. */
static void record_end(const struct actor *actor)
{
        for (uint32_t i = 0; i < actor->written_count && note_count < NOTES; i++)
                notes[note_count++] = (struct note){.actor = (uint32_t)(actor - actors),
                        .letter = actor->written[i],
                        .version = rev_of(actor->written[i]) + !actor->committed,
                        .write = true};
}

/* @expected: "" for success, "!x" for a conflict over x, "?" for either. */
static bool step_commit(struct actor *actor, const char *expected)
{
        int r = sb_txn_commit(actor->txn, NULL);
        struct sb_bytes key = sb_txn_conflict(actor->txn);
        bool right = r == (expected[0] == '!' ? SB_E_CONFLICT : 0) ||
                     (expected[0] == '?' && r == SB_E_CONFLICT);

        if (r == SB_E_CONFLICT)
                right = right && key.len == 5 &&
                        (expected[0] == '?' || ((const char *)key.data)[4] == expected[1]);
        actor->committed = r == 0;
        actor->txn = sb_txn_end(actor->txn);
        record_end(actor);
        return right;
}

static bool do_step(struct actor *actor, const char *what)
{
        switch (what[0]) {
        case 'b':
                return step_begin(actor);
        case 'r':
                return step_get(actor, what[1], what + 2);
        case 'w':
                return step_set(actor, what[1], what + 2);
        case 'd':
                return step_delete(actor, what[1]);
        case 's':
                return step_scan(actor, what + 1);
        case 'm':
                return step_move(actor, what + 1);
        case 't':
                return step_total(actor);
        case 'c':
                return step_commit(actor, what + 1);
        case 'e':
                actor->txn = sb_txn_end(actor->txn);
                return true;
        default:
                return false;
        }
}

/* ---- one interleaving ---- */

/* Keys as "x50y50"; all others have no value. */
static bool set_up(const char *state)
{
        char text[8];

        for (char letter = 'a'; letter <= 'z'; letter++) {
                int r = sb_delete(bus, key_of(letter, text), SB_ANY_REV, NULL, NULL);

                if (r != 0 && r != SB_E_NOT_FOUND)
                        return false;
        }
        while (*state != '\0') {
                char value[32];
                size_t len = strcspn(state + 1, "abcdefghijklmnopqrstuvwxyz");

                snprintf(value, sizeof(value), "%.*s", (int)len, state + 1);
                if (sb_set(bus, key_of(*state, text), b(value), NULL, NULL) != 0)
                        return false;
                state += 1 + len;
        }
        for (uint32_t i = 0; i < ACTORS; i++)
                actors[i].txn = sb_txn_end(actors[i].txn);
        return true;
}

/* Return: NULL, or which step went otherwise. */
static const char *run(uint32_t level, const char *state, const char *line)
{
        char step[32];
        int len;

        isolation = level;
        if (!set_up(state))
                return "the beginning cannot be set up";
        for (const char *at = line; sscanf(at, " %31s%n", step, &len) == 1; at += len)
                if (!do_step(&actors[step[0] - '0'], step + 1)) {
                        snprintf(complaint, sizeof(complaint), "step %s of \"%s\" went otherwise",
                                step, line);
                        return complaint;
                }
        for (uint32_t i = 0; i < ACTORS; i++)
                actors[i].txn = sb_txn_end(actors[i].txn);
        return NULL;
}

/* ---- all interleavings ---- */

struct program {
        char steps[STEPS][32];
        uint32_t count, next;
};

static struct all {
        struct program programs[ACTORS];
        uint32_t program_count, step_count;
        uint32_t order[ACTORS * STEPS];
        const char *state;
        uint32_t runs, skews; /* skews: with a cycle that snapshot isolation allows */
        uint32_t losers;      /* transactions that met a conflict */
        const char *why;
} all;

static const char *tell(const char *what)
{
        size_t at = (size_t)snprintf(complaint, sizeof(complaint), "%s: %s %s; steps", what,
                verdict.anomaly ? verdict.anomaly : "", verdict.text);

        for (uint32_t i = 0; i < all.step_count && at < sizeof(complaint); i++)
                at += (size_t)snprintf(complaint + at, sizeof(complaint) - at, " %u", all.order[i]);
        return complaint;
}

static bool do_steps(struct actor *actor, const char *steps)
{
        while (*steps != '\0') {
                char step[32];
                size_t len = strcspn(steps, "+");

                snprintf(step, sizeof(step), "%.*s%s", (int)len, steps, steps[0] == 'c' ? "?" : "");
                if (!do_step(actor, step))
                        return false;
                steps += len + (steps[len] == '+');
        }
        return true;
}

/* The state in the beginning is T0's. */
static void record_beginning(void)
{
        note_count = 0;
        actors[0].committed = true;
        for (char letter = 'a'; letter <= 'z'; letter++)
                if (rev_of(letter))
                        notes[note_count++] = (struct note){
                                .letter = letter, .version = rev_of(letter), .write = true};
}

static bool do_order(void)
{
        if (!set_up(all.state))
                return false;
        record_beginning();
        for (uint32_t i = 0; i < all.program_count; i++)
                all.programs[i].next = 0;
        for (uint32_t i = 0; i < all.step_count; i++) {
                struct program *program = &all.programs[all.order[i]];

                if (!do_steps(&actors[all.order[i] + 1], program->steps[program->next++]))
                        return false;
        }
        return note_count < NOTES;
}

static struct history *recorded(void)
{
        struct history *history = history_make();

        for (uint32_t i = 0; i <= all.program_count; i++)
                history_txn(
                        history, actors[i].committed ? HISTORY_COMMITTED : HISTORY_ABORTED, 0, 0);
        for (uint32_t i = 0; i < note_count; i++)
                if (notes[i].write)
                        history_write(history, notes[i].actor, (uint64_t)notes[i].letter,
                                notes[i].version);
                else
                        history_read(history, notes[i].actor, (uint64_t)notes[i].letter,
                                notes[i].version, notes[i].writer);
        return history;
}

static void judge_order(void)
{
        uint32_t commits = 0;
        bool right = do_order();
        struct history *history = recorded();

        all.runs++;
        for (uint32_t i = 1; i <= all.program_count; i++)
                commits += actors[i].committed;
        all.losers += all.program_count - commits;
        verdict = (struct history_verdict){0};
        if (!right)
                all.why = tell("a step went wrong");
        else if (commits == 0)
                all.why = tell("nobody committed");
        else if (!history_check(history, HISTORY_SNAPSHOT, &verdict))
                all.why = tell("not even snapshot isolation");
        else if (!history_check(history, HISTORY_SERIALIZABLE, &verdict))
                all.skews++;
        if (all.why == NULL && isolation == SB_SERIALIZABLE && verdict.anomaly != NULL)
                all.why = tell("not serializable");
        history_unmake(history);
}

static void go_through(uint32_t placed)
{
        if (all.why != NULL)
                return;
        if (placed == all.step_count) {
                judge_order();
                return;
        }
        for (uint32_t i = 0; i < all.program_count; i++) {
                uint32_t used = 0;

                for (uint32_t k = 0; k < placed; k++)
                        used += all.order[k] == i;
                if (used == all.programs[i].count)
                        continue;
                all.order[placed] = i;
                go_through(placed + 1);
        }
}

/* All interleavings of @programs, which are apart by " | ". Return: NULL, or what was wrong. */
static const char *run_all(uint32_t level, const char *state, const char *programs)
{
        const char *at = programs;
        char step[32];
        int len;

        all = (struct all){.state = state, .program_count = 1};
        isolation = level;
        for (; sscanf(at, " %31s%n", step, &len) == 1; at += len) {
                struct program *program = &all.programs[all.program_count - 1];

                if (step[0] == '|') {
                        all.program_count++;
                        continue;
                }
                strcpy(program->steps[program->count++], step);
                all.step_count++;
        }
        go_through(0);
        return all.why;
}

/* ---- the tests ---- */

static bool open_actors(void)
{
        for (uint32_t i = 0; i < ACTORS; i++) {
                actors[i] = (struct actor){.bus = i ? world_bus(&world) : bus};
                if (actors[i].bus == NULL)
                        return false;
        }
        return true;
}

static bool close_actors(void)
{
        for (uint32_t i = 1; i < ACTORS; i++)
                actors[i].bus = sb_close(actors[i].bus);
        world_tick(&world);
        return world_sound(&world, bus);
}

/* On a bus of its own. */
static void under(uint32_t level, void (*what)(uint32_t level))
{
        BEGIN();
        CHECK(open_actors());
        what(level);
        CHECK(close_actors());
        WORLD_END();
}

static void bank(uint32_t level)
{
        REQUIRE(run(
                level, "x50y50z50", "1b 1mxy20 2b 2t 1c 2t 2c 0t 1b 2b 1mxy5 2mzx5 2c 1c!x 0t"));
        REQUIRE(run(level, "x50y50z50", "3b 1b 1mxy50 1c 0rx0 3rx50 3t 3c"));
        REQUIRE(run_all(level, "x50y50z50", "b mxy5 c | b myz7 c | b t c"));
        CHECK_EQ(all.runs, 1680);
        CHECK(all.losers > 0 && all.skews == 0);
        CHECK(step_total(&actors[0]));
}
static void test_bank_adds_up_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, bank);
}
static void test_bank_adds_up_under_serializability(void)
{
        under(SB_SERIALIZABLE, bank);
}

static void lost_update(uint32_t level)
{
        REQUIRE(run(level, "x1", "1b 2b 1rx1 2rx1 1wx11 2wx21 1c 2c!x 0rx11"));
        REQUIRE(run(level, "x1", "1b 2b 1wx11 2wx21 2c 1c!x 0rx21"));
        REQUIRE(run(level, "x1", "1b 1rx1 0wx2 1wx11 1c!x 0rx2"));
        REQUIRE(run(level, "", "1b 2b 1rx- 2rx- 1wx11 2wx21 1c 2c!x 0rx11"));
        REQUIRE(run(level, "x1", "1b 2b 1dx 2wx2 1c 2c!x 0rx-"));
        REQUIRE(run(level, "x1", "1b 2b 1dx 2wx2 2c 1c!x 0rx2"));
        REQUIRE(run_all(level, "x1", "b rx wx c | b rx wx c"));
        CHECK_EQ(all.runs, 70);
        CHECK(all.losers > 0 && all.skews == 0);
        REQUIRE(run_all(level, "", "b+rx wx c | b+rx wx c | b+wx c"));
        CHECK(all.losers > 0 && all.skews == 0);
}
static void test_lost_update_never_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, lost_update);
}
static void test_lost_update_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, lost_update);
}

static void read_skew(uint32_t level)
{
        REQUIRE(run(level, "x1y1", "1b 1rx1 2b 2wx2 2wy2 2c 1ry1 1rx1 1c 0rx2 0ry2"));
        REQUIRE(run(level, "x1y1", "1b 1rx1 0wx2 0wy2 1ry1 1s= 1c"));
        REQUIRE(run(level, "a1b1", "1b 1ra1 2b 2da 2db 2wc1 2c 1s=ab 1rb1 1rc- 1c 0s=c"));
        /* Who also writes: its reads were of the past. */
        REQUIRE(run(level, "x1y1",
                level == SB_SNAPSHOT ? "1b 1rx1 2b 2wx2 2wy2 2c 1ry1 1wz1 1c 0rz1"
                                     : "1b 1rx1 2b 2wx2 2wy2 2c 1ry1 1wz1 1c!x 0rz-"));
        REQUIRE(run_all(level, "x1y1", "b rx ry c | b wx wy c"));
        CHECK_EQ(all.runs, 70);
        CHECK(all.losers == 0 && all.skews == 0);
}
static void test_read_skew_never_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, read_skew);
}
static void test_read_skew_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, read_skew);
}

static void dirty_read(uint32_t level)
{
        REQUIRE(run(level, "x1", "1b 1wx8 2b 2rx1 0rx1 1wx9 2rx1 0rx1 1c 2rx1 0rx9 2c"));
        REQUIRE(run(level, "x1", "1b 1wx8 1e 0rx1 1b 2b 2wx2 2c 1wx3 1c!x 0rx2"));
        REQUIRE(run_all(level, "x1y1", "b wx wy c | b wx wy c"));
        CHECK(all.losers > 0 && all.skews == 0);
        REQUIRE(run_all(level, "x1", "b rx wx wx c | b wx+wx c | b+rx c"));
        CHECK(all.losers > 0 && all.skews == 0);
}
static void test_dirty_read_never_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, dirty_read);
}
static void test_dirty_read_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, dirty_read);
}

static void long_fork(uint32_t level)
{
        REQUIRE(run(
                level, "x0y0", "1b 2b 1wx1 2wy1 1c 3b 2c 4b 3rx1 3ry0 4rx1 4ry1 3c 4c 0rx1 0ry1"));
        REQUIRE(run(level, "x0y0", "3b 0wx1 4b 0wy1 3rx0 3ry0 4ry0 4rx1 3c 4c"));
        REQUIRE(run_all(level, "x0y0", "b+wx c | b+wy c | b+rx ry+c | b+ry rx+c"));
        CHECK_EQ(all.runs, 2520);
        CHECK(all.losers == 0 && all.skews == 0);
}
static void test_long_fork_never_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, long_fork);
}
static void test_long_fork_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, long_fork);
}

static void write_skew(uint32_t level)
{
        /* Both may draw on the sum of x and y; each leaves it at 0. */
        REQUIRE(run(level, "x50y50",
                level == SB_SNAPSHOT
                        ? "1b 2b 1rx50 1ry50 2rx50 2ry50 1wx-50 2wy-50 1c 2c 0rx-50 0ry-50"
                        : "1b 2b 1rx50 1ry50 2rx50 2ry50 1wx-50 2wy-50 1c 2c!x 0rx-50 0ry50"));
        REQUIRE(run(level, "",
                level == SB_SNAPSHOT ? "1b 2b 1rx- 2ry- 1wy1 2wx1 1c 2c"
                                     : "1b 2b 1rx- 2ry- 1wy1 2wx1 1c 2c!y"));
        REQUIRE(run(level, "x1y1",
                level == SB_SNAPSHOT ? "1b 2b 1rx1 2ry1 1dy 2dx 1c 2c 0rx- 0ry-"
                                     : "1b 2b 1rx1 2ry1 1dy 2dx 1c 2c!y 0ry-"));
        REQUIRE(run_all(level, "x50y50", "b rx ry wx c | b rx ry wy c"));
        CHECK_EQ(all.runs, 252);
        CHECK((all.skews > 0) == (level == SB_SNAPSHOT));
        CHECK((all.losers > 0) == (level == SB_SERIALIZABLE));
        /* A ring of three, of which no two cross. */
        REQUIRE(run_all(level, "x1y1z1", "b+rx wy c | b+ry wz c | b+rz wx c"));
        CHECK((all.skews > 0) == (level == SB_SNAPSHOT));
}
static void test_write_skew_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, write_skew);
}
static void test_write_skew_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, write_skew);
}

static void phantom(uint32_t level)
{
        /* What was scanned stays what it was. */
        REQUIRE(run(level, "a1", "1b 1s=a 0wb1 2b 2wc1 2da 2c 1s=a 1ra1 1c 0s=bc"));
        /* Both see one key and make another, so that there are three. */
        REQUIRE(run(level, "a1",
                level == SB_SNAPSHOT ? "1b 2b 1s=a 2s=a 1wb1 2wc1 1c 2c 0s=abc"
                                     : "1b 2b 1s=a 2s=a 1wb1 2wc1 1c 2c!b 0s=ab"));
        REQUIRE(run(level, "a1b1",
                level == SB_SNAPSHOT ? "1b 2b 1s=ab 2s=ab 1da 2db 1c 2c 0s="
                                     : "1b 2b 1s=ab 2s=ab 1da 2db 1c 2c!a 0s=b"));
        REQUIRE(run(level, "a1",
                level == SB_SNAPSHOT ? "1b 1s=a 0wb1 1wx1 1c" : "1b 1s=a 0wb1 1wx1 1c!b"));
        /* Own writes are in the scan, and what they cover is looked at none the less. */
        REQUIRE(run(level, "a1b1", "1b 1wc1 1da 1s=bc 1c 0s=bc"));
        REQUIRE(run(level, "a1", "1b 1wb1 1s=ab 0wb2 1c!b 0s=ab"));
        REQUIRE(run_all(level, "a1", "b s wb c | b s wc c"));
        CHECK_EQ(all.runs, 70);
        CHECK((all.skews > 0) == (level == SB_SNAPSHOT));
        CHECK((all.losers > 0) == (level == SB_SERIALIZABLE));
}
static void test_phantom_skew_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, phantom);
}
static void test_phantom_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, phantom);
}

static void read_only_anomaly(uint32_t level)
{
        /* 1 pays 20 into y; 2 draws 10 from x, and 1 more as the sum would fall below 0, for it
         * does not see the 20; 3 sees the 20, and nothing drawn. */
        REQUIRE(run(level, "x0y0",
                level == SB_SNAPSHOT
                        ? "2b 2rx0 2ry0 1b 1ry0 1wy20 1c 3b 3rx0 3ry20 3c 2wx-11 2c 0rx-11 0ry20"
                        : "2b 2rx0 2ry0 1b 1ry0 1wy20 1c 3b 3rx0 3ry20 3c 2wx-11 2c!y 0rx0"));
        REQUIRE(run_all(level, "x0y0", "b ry wy+c | b rx+ry wx c | b rx+ry+c"));
        CHECK_EQ(all.runs, 1260);
        CHECK((all.skews > 0) == (level == SB_SNAPSHOT));
        /* Without the one who only reads there is none. */
        REQUIRE(run_all(level, "x0y0", "b ry wy+c | b rx+ry wx c"));
        CHECK_EQ(all.skews, 0);
}
static void test_read_only_anomaly_shows_under_snapshot_isolation(void)
{
        under(SB_SNAPSHOT, read_only_anomaly);
}
static void test_read_only_anomaly_never_shows_under_serializability(void)
{
        under(SB_SERIALIZABLE, read_only_anomaly);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_bank_adds_up_under_snapshot_isolation);
        RUN(test_bank_adds_up_under_serializability);
        RUN(test_lost_update_never_shows_under_snapshot_isolation);
        RUN(test_lost_update_never_shows_under_serializability);
        RUN(test_read_skew_never_shows_under_snapshot_isolation);
        RUN(test_read_skew_never_shows_under_serializability);
        RUN(test_dirty_read_never_shows_under_snapshot_isolation);
        RUN(test_dirty_read_never_shows_under_serializability);
        RUN(test_long_fork_never_shows_under_snapshot_isolation);
        RUN(test_long_fork_never_shows_under_serializability);
        RUN(test_write_skew_shows_under_snapshot_isolation);
        RUN(test_write_skew_never_shows_under_serializability);
        RUN(test_phantom_skew_shows_under_snapshot_isolation);
        RUN(test_phantom_never_shows_under_serializability);
        RUN(test_read_only_anomaly_shows_under_snapshot_isolation);
        RUN(test_read_only_anomaly_never_shows_under_serializability);
        return test_end();
}
