/*
 * The judge of a recorded history; see history.h.
 *
 * A radix sort puts the operations into the order of object and version. One walk down each
 * object's versions then finds wrong reads, and draws the edges: from each version's writer to its
 * readers, and from both to the writer of the next version.
 */
#include "tests/harness/history/history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/history/graph.h"

#define NONE UINT32_MAX

struct txn {
        uint64_t began, ended;
        uint32_t outcome;
        uint32_t overwrote; /* the last object with a later version of its own, + 1 */
};

struct operation {
        uint64_t object, version;
        uint32_t txn;
        uint32_t writer; /* of a read: the writer that the value names; of a write: NONE */
        bool write;
};

struct history {
        struct txn *txns;
        struct operation *operations;
        uint64_t txn_room, operation_count, operation_room;
        uint32_t txn_count;
        bool timed;
        struct history_graph graph;
        struct history_verdict *verdict; /* while the check runs */
};

struct history *history_make(void)
{
        struct history *history = history_memory(NULL, 1, sizeof(*history));

        *history = (struct history){0};
        return history;
}

struct history *history_unmake(struct history *history)
{
        if (history) {
                free(history->txns);
                free(history->operations);
                free(history->graph.edges);
                free(history->graph.first);
        }
        free(history);
        return NULL;
}

uint32_t history_txn(
        struct history *history, enum history_outcome outcome, uint64_t began, uint64_t ended)
{
        if (history->txn_count == history->txn_room) {
                history->txn_room = history->txn_room ? history->txn_room * 2 : 1024;
                history->txns =
                        history_memory(history->txns, history->txn_room, sizeof(*history->txns));
        }
        history->timed = history->timed || ended;
        history->txns[history->txn_count] =
                (struct txn){.began = began, .ended = ended, .outcome = outcome};
        return history->txn_count++;
}

static void add(struct history *history, struct operation operation)
{
        if (history->operation_count == history->operation_room) {
                history->operation_room =
                        history->operation_room ? history->operation_room * 2 : 1024;
                history->operations = history_memory(
                        history->operations, history->operation_room, sizeof(*history->operations));
        }
        history->operations[history->operation_count++] = operation;
}

void history_read(
        struct history *history, uint32_t txn, uint64_t object, uint64_t version, uint32_t writer)
{
        add(history, (struct operation){
                             .object = object, .version = version, .txn = txn, .writer = writer});
}

void history_write(struct history *history, uint32_t txn, uint64_t object, uint64_t version)
{
        add(history, (struct operation){.object = object,
                             .version = version,
                             .txn = txn,
                             .writer = NONE,
                             .write = true});
}

/* ---- order ---- */

static uint64_t key_of(const struct operation *operation, bool object)
{
        return object ? operation->object : operation->version;
}

/* A stable sort by one byte; it moves nothing when all have the same byte. */
static void sort_by_byte(struct history *history, struct operation **spare, bool object, int shift)
{
        uint64_t counts[256] = {0}, sum = 0, i;
        struct operation *from = history->operations;

        for (i = 0; i < history->operation_count; i++)
                counts[key_of(&from[i], object) >> shift & 255]++;
        for (i = 0; i < 256; i++) {
                uint64_t count = counts[i];

                if (count == history->operation_count)
                        return;
                counts[i] = sum;
                sum += count;
        }
        for (i = 0; i < history->operation_count; i++)
                (*spare)[counts[key_of(&from[i], object) >> shift & 255]++] = from[i];
        history->operations = *spare;
        *spare = from;
}

static void sort(struct history *history)
{
        struct operation *spare =
                history_memory(NULL, history->operation_count, sizeof(*history->operations));
        int shift;

        history->operation_room = history->operation_count;
        for (shift = 0; shift < 64; shift += 8)
                sort_by_byte(history, &spare, false, shift);
        for (shift = 0; shift < 64; shift += 8)
                sort_by_byte(history, &spare, true, shift);
        free(spare);
}

/* The operations on one version of an object: from first to end - 1. */
struct group {
        uint64_t first, end;
        uint32_t writer; /* the transaction that counts, or NONE */
        uint32_t other;  /* a transaction that does not count, or NONE */
};

/* The group that ends at @end. */
static struct group group_before(const struct history *history, uint64_t end)
{
        const struct operation *operations = history->operations, *last = &operations[end - 1];
        struct group group = {.first = end - 1, .end = end, .writer = NONE, .other = NONE};
        uint64_t i;

        while (group.first && operations[group.first - 1].object == last->object &&
                operations[group.first - 1].version == last->version)
                group.first--;
        for (i = group.first; i < end; i++)
                if (operations[i].write) {
                        if (history->txns[operations[i].txn].outcome == HISTORY_COMMITTED)
                                group.writer = operations[i].txn;
                        else
                                group.other = operations[i].txn;
                }
        return group;
}

/* Whether a transaction that counts read what @writer wrote in this group. */
static bool was_read(const struct history *history, const struct group *group, uint32_t writer)
{
        uint64_t i;

        for (i = group->first; i < group->end; i++) {
                const struct operation *read = &history->operations[i];

                if (!read->write && history->txns[read->txn].outcome == HISTORY_COMMITTED &&
                        (read->writer == writer ||
                                (read->writer == HISTORY_ANYONE && group->writer == NONE)))
                        return true;
        }
        return false;
}

/* Whether a read in @group shows that a transaction with an unknown outcome committed. */
static bool believe(struct history *history, const struct group *group)
{
        bool changed = false;
        uint64_t i;

        for (i = group->first; i < group->end && group->other != NONE; i++) {
                const struct operation *write = &history->operations[i];

                if (!write->write || history->txns[write->txn].outcome != HISTORY_UNKNOWN ||
                        !was_read(history, group, write->txn))
                        continue;
                history->txns[write->txn].outcome = HISTORY_COMMITTED;
                changed = true;
        }
        return changed;
}

static void decide_unknown(struct history *history)
{
        bool changed = false;
        uint32_t txn;

        for (txn = 0; txn < history->txn_count && !changed; txn++)
                changed = history->txns[txn].outcome == HISTORY_UNKNOWN;
        while (changed) {
                uint64_t end;
                struct group group;

                changed = false;
                for (end = history->operation_count; end; end = group.first) {
                        group = group_before(history, end);
                        if (group.end - group.first > 1)
                                changed = believe(history, &group) || changed;
                }
        }
}

/* ---- edges, and what a look at single reads shows ---- */

static bool __attribute__((format(printf, 3, 4)))
say(struct history_verdict *verdict, const char *anomaly, const char *format, ...)
{
        va_list arguments;

        if (!verdict->anomaly) {
                verdict->anomaly = anomaly;
                va_start(arguments, format);
                vsnprintf(verdict->text, sizeof(verdict->text), format, arguments);
                va_end(arguments);
        }
        return false;
}

/* Whether the read saw what a transaction that counts wrote; else it says which rule the read
 * broke. */
static bool read_fits(
        const struct history *history, const struct group *group, const struct operation *read)
{
        struct history_verdict *verdict = history->verdict;
        uint32_t writer = read->writer;

        if (writer != HISTORY_ANYONE && writer == group->writer)
                return true;
        if (writer == HISTORY_ANYONE && group->writer == NONE)
                writer = group->other; /* or HISTORY_ANYONE, which is NONE */
        if (writer == HISTORY_ANYONE && (group->writer != NONE || !read->version))
                return true;
        if (writer == HISTORY_ANYONE)
                return say(verdict, "unwritten",
                        "T%" PRIu32 " read %" PRIu64 " of object %" PRIu64
                        ", which no transaction wrote",
                        read->txn, read->version, read->object);
        if (writer >= history->txn_count || history->txns[writer].outcome == HISTORY_COMMITTED)
                return say(verdict, "unwritten",
                        "T%" PRIu32 " read %" PRIu64 " of object %" PRIu64 " as T%" PRIu32
                        "'s, which did not write it",
                        read->txn, read->version, read->object, writer);
        return say(verdict, "G1a",
                "T%" PRIu32 " read %" PRIu64 " of object %" PRIu64 ", which T%" PRIu32
                " wrote and did not commit",
                read->txn, read->version, read->object, writer);
}

/* @next: the writer of the version above, or NONE. @passing: this version's writer overwrote it. */
static void draw_group(
        struct history *history, const struct group *group, uint32_t next, bool passing)
{
        struct history_graph *graph = &history->graph;
        uint32_t writer = group->writer;
        uint64_t i;

        for (i = group->first; i < group->end; i++) {
                const struct operation *op = &history->operations[i];

                if (history->txns[op->txn].outcome != HISTORY_COMMITTED)
                        continue;
                if (op->write && op->txn != writer)
                        say(history->verdict, "unordered",
                                "T%" PRIu32 " and T%" PRIu32 " both wrote %" PRIu64
                                " of object %" PRIu64,
                                op->txn, writer, op->version, op->object);
                if (op->write || op->txn == writer || !read_fits(history, group, op))
                        continue;
                if (passing)
                        say(history->verdict, "G1b",
                                "T%" PRIu32 " read %" PRIu64 " of object %" PRIu64
                                ", which T%" PRIu32 " overwrote itself",
                                op->txn, op->version, op->object, writer);
                if (writer != NONE)
                        history_graph_add(graph, writer, op->txn, HISTORY_WR, (uint32_t)i);
                if (next != NONE && next != op->txn)
                        history_graph_add(graph, op->txn, next, HISTORY_RW, (uint32_t)i);
        }
        if (writer != NONE && next != NONE && next != writer)
                history_graph_add(graph, writer, next, HISTORY_WW, (uint32_t)group->first);
}

static void draw(struct history *history)
{
        uint32_t next = NONE, object = 0;
        struct group group;
        uint64_t end;

        for (end = history->operation_count; end; end = group.first) {
                bool passing = false;

                if (end == history->operation_count ||
                        history->operations[end].object != history->operations[end - 1].object) {
                        next = NONE;
                        object++;
                }
                group = group_before(history, end);
                if (group.writer != NONE) {
                        passing = history->txns[group.writer].overwrote == object;
                        history->txns[group.writer].overwrote = object;
                }
                draw_group(history, &group, next, passing);
                if (group.writer != NONE)
                        next = group.writer;
        }
}

/* ---- real time ---- */

struct moment {
        uint64_t ended;
        uint32_t txn;
};

static int compare_moments(const void *a, const void *b)
{
        const struct moment *left = a, *right = b;

        return (left->ended > right->ended) - (left->ended < right->ended);
}

/* Each end becomes a node, and each of these leads to the next in time; so the edges grow with the
 * number of transactions and not with the number of their pairs. */
static uint32_t draw_times(struct history *history)
{
        struct moment *moments = history_memory(NULL, history->txn_count, sizeof(*moments));
        uint32_t count = 0, txn, low, high;

        for (txn = 0; txn < history->txn_count; txn++)
                if (history->txns[txn].outcome == HISTORY_COMMITTED && history->txns[txn].ended)
                        moments[count++] =
                                (struct moment){.ended = history->txns[txn].ended, .txn = txn};
        qsort(moments, count, sizeof(*moments), compare_moments);
        for (low = 0; low < count; low++) {
                history_graph_add(
                        &history->graph, moments[low].txn, history->txn_count + low, HISTORY_RT, 0);
                if (low)
                        history_graph_add(&history->graph, history->txn_count + low - 1,
                                history->txn_count + low, HISTORY_RT, 0);
        }
        for (txn = 0; txn < history->txn_count; txn++) {
                if (history->txns[txn].outcome != HISTORY_COMMITTED || !history->txns[txn].began)
                        continue;
                for (low = 0, high = count; low < high;) {
                        uint32_t middle = low + (high - low) / 2;

                        if (moments[middle].ended < history->txns[txn].began)
                                low = middle + 1;
                        else
                                high = middle;
                }
                if (low)
                        history_graph_add(
                                &history->graph, history->txn_count + low - 1, txn, HISTORY_RT, 0);
        }
        free(moments);
        return count;
}

/* ---- the verdict ---- */

#define WW HISTORY_MASK(HISTORY_WW)
#define WR HISTORY_MASK(HISTORY_WR)
#define RW HISTORY_MASK(HISTORY_RW)
#define RT HISTORY_MASK(HISTORY_RT)

/* The strongest anomaly comes first: a history gets the name of the first that it contains. */
static const struct {
        const char *name, *in_time;
        struct history_walk walk;
        enum history_level level; /* levels below this one allow it */
} anomalies[] = {
        {"G0", "G0-rt", {WW, true}, HISTORY_SNAPSHOT},
        {"G1c", "G1c-rt", {WW | WR, true}, HISTORY_SNAPSHOT},
        {"G-nonadjacent", "G-nonadjacent-rt", {WW | WR | RW, false}, HISTORY_SNAPSHOT},
        {"G2-item", "G2-item-rt", {WW | WR | RW, true}, HISTORY_SERIALIZABLE},
};

/* Writes "T1 -ww 7-> T2 -rw 9-> T1", where the number is the object; a way through time is one
 * step. */
static void tell(
        const struct history *history, const struct history_cycle *cycle, char *text, size_t room)
{
        static const char *const kinds[] = {"ww", "wr", "rw"};
        uint32_t count = cycle->count < HISTORY_CYCLE_MAX ? cycle->count : HISTORY_CYCLE_MAX, i,
                 begin = 0;
        size_t at = 0;

        while (begin < count && cycle->edges[begin].from >= history->txn_count)
                begin++;
        for (i = 0; i < count && at < room; i++) {
                const struct history_edge *edge = &cycle->edges[(begin + i) % count];

                if (edge->from < history->txn_count)
                        at += (size_t)snprintf(
                                text + at, room - at, "%sT%" PRIu32, i ? " " : "", edge->from);
                if (at < room && edge->kind != HISTORY_RT)
                        at += (size_t)snprintf(text + at, room - at, " -%s %" PRIu64 "->",
                                kinds[edge->kind], history->operations[edge->op].object);
                else if (at < room && edge->from < history->txn_count)
                        at += (size_t)snprintf(text + at, room - at, " -rt->");
        }
        if (at < room)
                snprintf(text + at, room - at, "%s",
                        cycle->count > count ? " ..." : " the first again");
}

static bool find_named(struct history *history, enum history_level level, uint32_t times)
{
        struct history_verdict *verdict = history->verdict;
        struct history_cycle cycle = {0};
        uint32_t i;

        for (i = 0; i < sizeof(anomalies) / sizeof(anomalies[0]); i++) {
                struct history_walk walk = anomalies[i].walk;

                if (anomalies[i].level > level)
                        continue;
                walk.mask |= times;
                if (!history_graph_cycle(&history->graph, walk, &cycle))
                        continue;
                verdict->anomaly = times ? anomalies[i].in_time : anomalies[i].name;
                if (!walk.in_a_row &&
                        history_graph_single(&history->graph, walk.mask & ~RW, &cycle))
                        verdict->anomaly = times ? "G-single-rt" : "G-single";
                tell(history, &cycle, verdict->text, sizeof(verdict->text));
                return true;
        }
        return false;
}

bool history_check(struct history *history, enum history_level level, struct history_verdict *ret)
{
        struct history_walk all = {
                .mask = WW | WR | RW | RT, .in_a_row = level == HISTORY_SERIALIZABLE};
        uint32_t txn, nodes = history->txn_count;

        *ret = (struct history_verdict){.operations = history->operation_count};
        history->verdict = ret;
        history->graph.edge_count = 0;
        for (txn = 0; txn < history->txn_count; txn++)
                history->txns[txn].overwrote = 0;
        sort(history);
        decide_unknown(history);
        draw(history);
        if (history->timed)
                nodes += draw_times(history);
        history_graph_sort(&history->graph, nodes);
        ret->edges = history->graph.edge_count;
        for (txn = 0; txn < history->txn_count; txn++)
                ret->txns += history->txns[txn].outcome == HISTORY_COMMITTED;
        /* One search for all kinds comes first, because most histories are right. */
        if (!ret->anomaly && history_graph_cycle(&history->graph, all, NULL) &&
                !find_named(history, level, 0))
                find_named(history, level, RT);
        return !ret->anomaly;
}
