/* Steps of transactions, written down as text and done; see interleave.h. */
#include "tests/api/interleave.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/history/history.h"

#define ACTORS 5u
#define WRITES 8u
#define STEPS  8u
#define NOTES  256u
#define TOTAL  150

struct actor {
        struct sb_bus *bus;
        struct sb_txn *txn;
        char written[WRITES];
        uint32_t written_count;
        bool committed;
};

/* What goes into a history once the outcome of each transaction is known. */
struct note {
        uint64_t version;
        uint32_t actor, writer;
        char letter;
        bool write;
};

static struct actor actors[ACTORS];
static struct note notes[NOTES];
static uint32_t note_count;
static struct history_verdict verdict;
static uint32_t isolation;
static char complaint[1280];

bool interleave_open(struct world *world, struct sb_bus *plain)
{
        for (uint32_t i = 0; i < ACTORS; i++) {
                actors[i] = (struct actor){.bus = i ? world_bus(world) : plain};
                if (!actors[i].bus)
                        return false;
        }
        return true;
}

bool interleave_close(struct world *world)
{
        for (uint32_t i = 1; i < ACTORS; i++)
                actors[i].bus = sb_close(actors[i].bus);
        world_tick(world);
        return world_sound(world, actors[0].bus);
}

/* ---- keys and plain operations ---- */

static struct sb_bytes key_of(char letter, char text[8])
{
        snprintf(text, 8, "%s/%c", letter <= 'h' ? "set" : "one", letter);
        return b(text);
}

/* Get a key as sb_get() does, with the value as text; "-" and revision 0 when there is none. */
static int look(struct actor *actor, char letter, char *ret_text, uint64_t *ret_rev)
{
        struct sb_guard guard = {0};
        char text[8];
        struct sb_bytes key = key_of(letter, text);
        int r = actor->txn ? sb_txn_get(actor->txn, key, &guard) : sb_get(actor->bus, key, &guard);

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
        struct actor plain = {.bus = actors[0].bus};
        uint64_t rev = 0;
        char text[32];

        return look(&plain, letter, text, &rev) ? 0 : rev;
}

/* ---- steps ---- */

/* Reads of own writes are not recorded. A value that begins with a # names its writer. */
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
        if (!actor->txn)
                return sb_set(actor->bus, key, b(value), NULL, NULL) == 0;
        if (!memchr(actor->written, letter, actor->written_count))
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

/* Take a scan. The letters that it gives must be @expected, if that is given ("=" and the
 * letters). */
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

/* Commit. @expected: "" for success, "!x" for a conflict over x, "?" for either. */
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

bool interleave_step(const char *step)
{
        return do_step(&actors[step[0] - '0'], step + 1);
}

/* Give keys the values in @state, as "x50y50"; all other keys have no value. */
static bool set_up(const char *state)
{
        char text[8];

        for (char letter = 'a'; letter <= 'z'; letter++) {
                int r = sb_delete(actors[0].bus, key_of(letter, text), SB_ANY_REV, NULL, NULL);

                if (r != 0 && r != SB_E_NOT_FOUND)
                        return false;
        }
        while (*state != '\0') {
                char value[32];
                size_t len = strcspn(state + 1, "abcdefghijklmnopqrstuvwxyz");

                snprintf(value, sizeof(value), "%.*s", (int)len, state + 1);
                if (sb_set(actors[0].bus, key_of(*state, text), b(value), NULL, NULL) != 0)
                        return false;
                state += 1 + len;
        }
        for (uint32_t i = 0; i < ACTORS; i++)
                actors[i].txn = sb_txn_end(actors[i].txn);
        return true;
}

const char *interleave_run(uint32_t level, const char *state, const char *line)
{
        char step[32];
        int len;

        isolation = level;
        if (!set_up(state))
                return "the beginning cannot be set up";
        for (const char *at = line; sscanf(at, " %31s%n", step, &len) == 1; at += len)
                if (!interleave_step(step)) {
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
        struct interleave_counts counts;
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

/* Record the state in the beginning as written by T0. */
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

        all.counts.runs++;
        for (uint32_t i = 1; i <= all.program_count; i++)
                commits += actors[i].committed;
        all.counts.losers += all.program_count - commits;
        verdict = (struct history_verdict){0};
        if (!right)
                all.why = tell("a step went wrong");
        else if (commits == 0)
                all.why = tell("no transaction committed");
        else if (!history_check(history, HISTORY_SNAPSHOT, &verdict))
                all.why = tell("not even snapshot isolation");
        else if (!history_check(history, HISTORY_SERIALIZABLE, &verdict))
                all.counts.skews++;
        if (!all.why && isolation == SB_SERIALIZABLE && verdict.anomaly)
                all.why = tell("not serializable");
        history_unmake(history);
}

static void go_through(uint32_t placed)
{
        if (all.why)
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

const char *interleave_all(uint32_t level, const char *state, const char *programs,
        struct interleave_counts *ret_counts)
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
        if (!all.why)
                *ret_counts = all.counts;
        return all.why;
}
