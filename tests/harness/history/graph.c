/* Cycles in the graph of a history; see graph.h. */
#include "tests/harness/history/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
/* A state is a node, and whether an rw led to it. */
#define STATE(node, by_rw) ((node)*2 + (by_rw))
#define NODE(state)        ((state) / 2)
#define SINGLE_WORK        UINT64_C(10000000) /* the most nodes that all tries together look at */

void *history_memory(void *old, size_t count, size_t size)
{
        void *memory = reallocarray(old, count ? count : 1, size);

        if (!memory) {
                puts("FAIL history: out of memory");
                exit(1);
        }
        return memory;
}

static uint32_t *states_filled(const struct history_graph *graph, int byte)
{
        uint32_t *memory = history_memory(NULL, 2 * (size_t)graph->node_count, sizeof(*memory));

        memset(memory, byte, 2 * (size_t)graph->node_count * sizeof(*memory));
        return memory;
}

void history_graph_add(struct history_graph *graph, uint32_t from, uint32_t to,
        enum history_kind kind, uint32_t op)
{
        if (graph->edge_count == graph->edge_room) {
                graph->edge_room = graph->edge_room ? graph->edge_room * 2 : 1024;
                graph->edges =
                        history_memory(graph->edges, graph->edge_room, sizeof(*graph->edges));
        }
        graph->edges[graph->edge_count++] =
                (struct history_edge){.from = from, .to = to, .op = op, .kind = kind};
}

void history_graph_sort(struct history_graph *graph, uint32_t node_count)
{
        struct history_edge *sorted =
                history_memory(NULL, graph->edge_count, sizeof(*graph->edges));
        uint64_t *next = history_memory(NULL, (size_t)node_count + 2, sizeof(*next)), i;

        memset(next, 0, ((size_t)node_count + 2) * sizeof(*next));
        for (i = 0; i < graph->edge_count; i++)
                next[graph->edges[i].from + 2]++;
        for (i = 2; i < (uint64_t)node_count + 2; i++)
                next[i] += next[i - 1];
        for (i = 0; i < graph->edge_count; i++)
                sorted[next[graph->edges[i].from + 1]++] = graph->edges[i];
        free(graph->edges);
        free(graph->first);
        graph->edges = sorted;
        graph->edge_room = graph->edge_count;
        graph->first = next;
        graph->node_count = node_count;
}

/* The state to which an edge leads from a state, or NONE. */
static uint32_t follow(struct history_walk walk, uint32_t state, const struct history_edge *edge)
{
        if (!(walk.mask & HISTORY_MASK(edge->kind)))
                return NONE;
        if (walk.in_a_row || edge->kind != HISTORY_RW)
                return STATE(edge->to, 0);
        return state & 1 ? NONE : STATE(edge->to, 1);
}

/* ---- components ---- */

struct frame {
        uint32_t state;
        uint64_t edge; /* the next one to follow */
};

struct search {
        const struct history_graph *graph;
        struct history_walk walk;
        uint32_t *number, *low; /* by state: in order of discovery, from 0; the least reached */
        uint32_t *component;    /* by state: NONE while it is open; no walk leads to a higher one */
        uint32_t *open;         /* stack of states without a component yet */
        struct frame *frames;
        uint64_t frame_count, frame_room;
        uint32_t found, open_count, component_count;
        uint32_t inside; /* a state of a component that has a cycle, or NONE */
};

static void enter(struct search *search, uint32_t state)
{
        search->number[state] = search->low[state] = search->found++;
        search->open[search->open_count++] = state;
        if (search->frame_count == search->frame_room) {
                search->frame_room = search->frame_room ? search->frame_room * 2 : 1024;
                search->frames =
                        history_memory(search->frames, search->frame_room, sizeof(*search->frames));
        }
        search->frames[search->frame_count++] =
                (struct frame){.state = state, .edge = search->graph->first[NODE(state)]};
}

static void leave(struct search *search, uint32_t state)
{
        uint32_t member, members = 0;

        if (search->low[state] == search->number[state]) {
                do {
                        member = search->open[--search->open_count];
                        search->component[member] = search->component_count;
                        members++;
                } while (member != state);
                search->component_count++;
                if (members > 1 && search->inside == NONE)
                        search->inside = state;
        }
        search->frame_count--;
        if (search->frame_count) {
                uint32_t below = search->frames[search->frame_count - 1].state;

                if (search->low[state] < search->low[below])
                        search->low[below] = search->low[state];
        }
}

static void search_from(struct search *search, uint32_t start)
{
        enter(search, start);
        while (search->frame_count) {
                struct frame *frame = &search->frames[search->frame_count - 1];
                uint32_t state = frame->state, to;

                if (frame->edge == search->graph->first[NODE(state) + 1]) {
                        leave(search, state);
                        continue;
                }
                to = follow(search->walk, state, &search->graph->edges[frame->edge++]);
                if (to == NONE)
                        continue;
                if (search->number[to] == NONE)
                        enter(search, to);
                else if (search->component[to] == NONE && search->number[to] < search->low[state])
                        search->low[state] = search->number[to];
        }
}

/* Fills search->component and search->inside; the caller frees the first. */
static void find_components(struct search *search)
{
        const struct history_graph *graph = search->graph;
        uint32_t node;

        search->number = states_filled(graph, 0xff);
        search->low = states_filled(graph, 0xff);
        search->component = states_filled(graph, 0xff);
        search->open = states_filled(graph, 0xff);
        search->inside = NONE;
        for (node = 0; node < graph->node_count; node++)
                if (search->number[STATE(node, 0)] == NONE)
                        search_from(search, STATE(node, 0));
        free(search->number);
        free(search->low);
        free(search->open);
        free(search->frames);
}

/* ---- a short cycle ---- */

/* A search breadth first from @from to @to, over the states of @component (NULL: all states).
 * @reached: NONE for each state before; afterwards the edge by which the search reached it. */
static bool shortest(const struct history_graph *graph, struct history_walk walk, uint32_t from,
        uint32_t to, const uint32_t *component, struct history_cycle *ret)
{
        uint32_t *by = states_filled(graph, 0xff), *origin = states_filled(graph, 0xff),
                 *queue = states_filled(graph, 0xff), head = 0, tail = 0, state = NONE, i;
        bool found = false;

        queue[tail++] = from;
        while (head < tail && !found) {
                uint64_t edge, end;

                state = queue[head++];
                end = graph->first[NODE(state) + 1];
                for (edge = graph->first[NODE(state)]; edge < end && !found; edge++) {
                        uint32_t next = follow(walk, state, &graph->edges[edge]);

                        if (next == NONE || by[next] != NONE ||
                                (component && component[next] != component[from]))
                                continue;
                        by[next] = (uint32_t)edge;
                        origin[next] = state;
                        queue[tail++] = next;
                        found = next == to;
                }
        }
        if (found) {
                ret->count = 0;
                state = to;
                do {
                        ret->count++;
                        state = origin[state];
                } while (state != from);
                state = to;
                for (i = ret->count; i--; state = origin[state])
                        if (i < HISTORY_CYCLE_MAX)
                                ret->edges[i] = graph->edges[by[state]];
        }
        free(by);
        free(origin);
        free(queue);
        return found;
}

bool history_graph_cycle(
        const struct history_graph *graph, struct history_walk walk, struct history_cycle *ret)
{
        struct search search = {.graph = graph, .walk = walk};

        find_components(&search);
        if (search.inside != NONE && ret)
                shortest(graph, walk, search.inside, search.inside, search.component, ret);
        free(search.component);
        return search.inside != NONE;
}

/* Whether a walk leads back from the node to which @edge, an rw, leads. */
static bool closes(const struct history_graph *graph, struct history_walk walk,
        const struct history_edge *edge, struct history_cycle *ret)
{
        struct history_edge last = *edge; /* it may be in *ret */

        if (!shortest(graph, walk, STATE(last.to, 0), STATE(last.from, 0), NULL, ret))
                return false;
        if (ret->count < HISTORY_CYCLE_MAX)
                ret->edges[ret->count] = last;
        ret->count++;
        return true;
}

bool history_graph_single(
        const struct history_graph *graph, uint32_t kinds, struct history_cycle *cycle)
{
        struct search search = {.graph = graph, .walk = {.mask = kinds, .in_a_row = true}};
        uint64_t tries = SINGLE_WORK / (graph->node_count + 1) + 1, i;
        bool found = false;

        for (i = 0; i < cycle->count && i < HISTORY_CYCLE_MAX; i++)
                if (cycle->edges[i].kind == HISTORY_RW &&
                        closes(graph, search.walk, &cycle->edges[i], cycle))
                        return true;
        find_components(&search);
        for (i = 0; i < graph->edge_count && tries && !found; i++) {
                const struct history_edge *edge = &graph->edges[i];

                /* No walk leads to a higher component, so from a lower one no way leads back. */
                if (edge->kind != HISTORY_RW || search.component[STATE(edge->to, 0)] <
                                                        search.component[STATE(edge->from, 0)])
                        continue;
                tries--;
                found = closes(graph, search.walk, edge, cycle);
        }
        free(search.component);
        return found;
}
