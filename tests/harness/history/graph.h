/*
 * Cycles in the graph of a history: strongly connected components (Tarjan, 1972), without
 * recursion, and a short cycle in one of them.
 *
 * For the search of cycles without two rw in a row each node exists twice: (n, 0) and (n, 1). An rw
 * leads from (n, 0) to (m, 1); every other edge leads from (n, 0) or (n, 1) to (m, 0).
 */
#ifndef SB_TESTS_HISTORY_GRAPH_H
#define SB_TESTS_HISTORY_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum history_kind { HISTORY_WW, HISTORY_WR, HISTORY_RW, HISTORY_RT };
#define HISTORY_MASK(kind) (1u << (kind))

struct history_edge {
        uint32_t from, to;
        uint32_t op; /* the operation that it comes from; of an rt: 0 */
        uint32_t kind;
};

struct history_graph {
        uint32_t node_count;
        uint64_t edge_count, edge_room;
        struct history_edge *edges; /* in order of `from` once history_graph_sort() was called */
        uint64_t *first;            /* of node n: edges first[n] .. first[n + 1] - 1 */
};

/* The walks that count. */
struct history_walk {
        uint32_t mask; /* of kinds */
        bool in_a_row; /* rw may follow rw */
};

#define HISTORY_CYCLE_MAX 64u
struct history_cycle {
        uint32_t count; /* of edges; may be more than are here */
        struct history_edge edges[HISTORY_CYCLE_MAX];
};

void history_graph_add(struct history_graph *graph, uint32_t from, uint32_t to,
        enum history_kind kind, uint32_t op);
void history_graph_sort(struct history_graph *graph, uint32_t node_count);
/* Whether such walks contain a cycle. @ret: a short one, unless NULL. */
bool history_graph_cycle(
        const struct history_graph *graph, struct history_walk walk, struct history_cycle *ret);
/* After history_graph_cycle(): looks for a cycle with a single rw and otherwise @kinds. It tries
 * the rw in @cycle first, then others, up to a bound on work. It changes @cycle when it finds one.
 */
bool history_graph_single(
        const struct history_graph *graph, uint32_t kinds, struct history_cycle *cycle);

/* Memory; the program ends when there is none. */
void *history_memory(void *old, size_t count, size_t size);

#endif
