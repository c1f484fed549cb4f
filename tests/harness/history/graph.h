/*
 * Cycles in the graph of a history: strongly connected components (Tarjan, 1972), without
 * recursion, and a short cycle in one of them.
 *
 * To look for cycles without two rw in a row, each node is there twice: (n, 0) and (n, 1). An rw
 * leads from (n, 0) to (m, 1), all else from (n, 0) or (n, 1) to (m, 0).
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
        uint32_t op; /* where it comes from; of an rt: 0 */
        uint32_t kind;
};

struct history_graph {
        uint32_t node_count;
        uint64_t edge_count, edge_room;
        struct history_edge *edges; /* in order of `from` once history_graph_sort() was called */
        uint64_t *first;            /* of node n: edges first[n] .. first[n + 1] - 1 */
};

/* Which walks are looked at. */
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
/* Whether there is a cycle among such walks. @ret: a short one, if wanted. */
bool history_graph_cycle(
        const struct history_graph *graph, struct history_walk walk, struct history_cycle *ret);
/* Behind it, for a cycle of any walk: one with a single rw and else @kinds, found by trying, first
 * the rw in @cycle, then others as long as it does not take too long. @cycle is changed if so. */
bool history_graph_single(
        const struct history_graph *graph, uint32_t kinds, struct history_cycle *cycle);

/* Memory, or the end of the program. */
void *history_memory(void *old, size_t count, size_t size);

#endif
