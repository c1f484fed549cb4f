/* The ordered index, made at once; see sorted.h. */

#include "shm/keys/sorted.h"

#include <string.h>

#include "shm/base/bytes.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"

#define HEAD  8u  /* bytes of a key that stand beside its node's offset */
#define FEW   12u /* so many nodes are sorted by whole keys */
#define AHEAD 24u /* so many nodes ahead memory is fetched */

/* A node to sort: eight bytes of its key, the first the highest, zeros behind its end. */
struct sorted_node {
        uint64_t head;
        uint64_t at; /* offset */
};
static_assert(sizeof(struct sorted_node) == SB_SORTED_SPACE, "a node to sort");

struct sorted {
        const struct sb_segment *segment;
        uint64_t drawn; /* the last random number */
};

/* Nodes in a row, of which all keys have the same bytes before @depth. */
struct sorted_part {
        struct sorted_node *nodes;
        uint64_t count;
        uint32_t depth;
};

/* ---- which nodes ---- */

/* Relaxed, all of these: no other process maps the segment. */
static uint64_t sorted_load(const struct sb_word64 *word)
{
        return sb_load_relaxed(word); /* Relaxed: as above. */
}

/* The node that the version at @at names; NULL: there is none. */
static struct sb_node *sorted_node_of(const struct sb_segment *segment, uint64_t at)
{
        const struct sb_version *head = at ? sb_version_at(segment, at) : NULL;

        return head ? sb_node_at(segment, head->node) : NULL;
}

/* Of a block and what comes behind its first line. */
static void sorted_fetch(const struct sb_segment *segment, uint64_t at)
{
        __builtin_prefetch(segment->base + at);
        __builtin_prefetch(segment->base + at + SB_LINE);
}

/* The bytes of a key from @depth on. */
static uint64_t sorted_head(struct sb_node_key key, uint32_t depth)
{
        uint32_t len = key.len > depth ? key.len - depth : 0;
        uint64_t head = 0;

        if (len)
                memcpy(&head, key.bytes + depth, len < HEAD ? len : HEAD);
        return __builtin_bswap64(head);
}

static struct sorted_node sorted_node(const struct sb_segment *segment, const struct sb_node *node)
{
        return (struct sorted_node){.head = sorted_head(sb_node_key(segment, node), 0),
                .at = sb_offset_of(segment, node)};
}

/* A node that is linked and has no cell: its maker found none that was empty. A sweep takes it out
 * of the index, so it stays there until then. @nodes: NULL, or room for them. */
static uint64_t sorted_take_linked(const struct sb_segment *segment, struct sorted_node *nodes)
{
        uint64_t word = sorted_load(&segment->super->order[0]), count = 0;
        const struct sb_node *node;

        while ((node = word ? sb_node_at(segment, word & SB_OFFSET_MASK) : NULL)) {
                if (!sorted_load(&node->cell)) {
                        if (nodes)
                                nodes[count] = sorted_node(segment, node);
                        count++;
                }
                word = sorted_load(&node->next[0]);
        }
        return count;
}

/* What the cells lead to: in place of a node's offset that of its newest version, in place of the
 * bytes the number of the cell. */
static uint64_t sorted_take_cells(
        const struct sb_segment *segment, struct sorted_node *nodes, uint64_t room)
{
        uint64_t count = 0;
        uint32_t bucket, index;

        for (bucket = 0; bucket < segment->geometry.bucket_count; bucket++)
                for (index = 0; index < SB_BUCKET_CELLS; index++) {
                        uint64_t word = sorted_load(&segment->buckets[bucket].cell[index]);

                        if (word && count < room)
                                nodes[count++] =
                                        (struct sorted_node){.head = SB_CELL_NUMBER(bucket, index),
                                                .at = word & SB_OFFSET_MASK};
                }
        return count;
}

/* The nodes of all keys: those that name the cell which leads to them. In steps, so that each can
 * fetch memory ahead: the cells, their versions, the nodes of these. */
static uint64_t sorted_take(
        const struct sb_segment *segment, struct sorted_node *nodes, uint64_t room)
{
        uint64_t found = sorted_take_cells(segment, nodes, room), count = 0, i;

        for (i = 0; i < found; i++) {
                const struct sb_node *node = sorted_node_of(segment, nodes[i].at);

                if (i + AHEAD < found)
                        sorted_fetch(segment, nodes[i + AHEAD].at);
                nodes[i].at = node ? sb_offset_of(segment, node) : 0;
        }
        for (i = 0; i < found; i++) {
                const struct sb_node *node = nodes[i].at ? sb_node_at(segment, nodes[i].at) : NULL;

                if (i + AHEAD < found)
                        sorted_fetch(segment, nodes[i + AHEAD].at);
                if (node && sorted_load(&node->cell) == nodes[i].head)
                        nodes[count++] = sorted_node(segment, node);
        }
        return count;
}

uint64_t sb_sorted_count(const struct sb_handle *handle)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t count = sorted_take_linked(segment, NULL);
        uint32_t bucket, index;

        for (bucket = 0; bucket < segment->geometry.bucket_count; bucket++)
                for (index = 0; index < SB_BUCKET_CELLS; index++)
                        count += sorted_load(&segment->buckets[bucket].cell[index]) != 0;
        return count;
}

/* ---- their order ---- */

static struct sb_node_key sorted_key(const struct sorted *sorted, const struct sorted_node *node)
{
        return sb_node_key(sorted->segment, sb_node_at(sorted->segment, node->at));
}

static void sorted_swap(struct sorted_node *a, struct sorted_node *b)
{
        struct sorted_node node = *a;

        *a = *b;
        *b = node;
}

static bool sorted_is_less(
        const struct sorted *sorted, const struct sorted_node *a, const struct sorted_node *b)
{
        struct sb_node_key first, second;

        if (a->head != b->head)
                return a->head < b->head;
        first = sorted_key(sorted, a);
        second = sorted_key(sorted, b);
        return sb_bytes_compare(first.bytes, first.len, second.bytes, second.len) < 0;
}

static void sorted_sort_few(const struct sorted *sorted, const struct sorted_part *part)
{
        uint64_t i, k;

        for (i = 1; i < part->count; i++)
                for (k = i; k && sorted_is_less(sorted, &part->nodes[k], &part->nodes[k - 1]); k--)
                        sorted_swap(&part->nodes[k], &part->nodes[k - 1]);
}

/* The head of a node that is drawn (xorshift). */
static uint64_t sorted_draw(struct sorted *sorted, const struct sorted_part *part)
{
        sorted->drawn ^= sorted->drawn << 13;
        sorted->drawn ^= sorted->drawn >> 7;
        sorted->drawn ^= sorted->drawn << 17;
        return part->nodes[sorted->drawn % part->count].head;
}

/* The middle one of three. */
static uint64_t sorted_draw_middle(struct sorted *sorted, const struct sorted_part *part)
{
        uint64_t a = sorted_draw(sorted, part), b = sorted_draw(sorted, part),
                 c = sorted_draw(sorted, part), low = a < b ? a : b, high = a < b ? b : a;

        return c < low ? low : c > high ? high : c;
}

/* Cut a part in three: heads below that of a node that is drawn, equal to it, above it. */
static void sorted_cut(
        struct sorted *sorted, const struct sorted_part *part, struct sorted_part ret[static 3])
{
        uint64_t head = sorted_draw_middle(sorted, part), low = 0, i = 0, high = part->count;

        while (i < high) {
                if (part->nodes[i].head < head)
                        sorted_swap(&part->nodes[low++], &part->nodes[i++]);
                else if (part->nodes[i].head > head)
                        sorted_swap(&part->nodes[i], &part->nodes[--high]);
                else
                        i++;
        }
        ret[0] = (struct sorted_part){part->nodes, low, part->depth};
        ret[1] = (struct sorted_part){part->nodes + low, high - low, part->depth};
        ret[2] = (struct sorted_part){part->nodes + high, part->count - high, part->depth};
}

/* Of a part of which all heads are equal: keys that end within them come first, the shortest of
 * them before the others. There is one of each length, for no two keys are the same. What is left
 * of the part goes on with the bytes behind these. */
static void sorted_go_deeper(const struct sorted *sorted, struct sorted_part *part)
{
        struct sorted_part ended = {part->nodes, 0, part->depth};
        uint64_t i;

        part->depth += HEAD;
        for (i = 0; i < part->count; i++) {
                struct sb_node_key key = sorted_key(sorted, &part->nodes[i]);

                if (i + AHEAD < part->count)
                        sorted_fetch(sorted->segment, part->nodes[i + AHEAD].at);
                if (key.len <= part->depth)
                        sorted_swap(&part->nodes[ended.count++], &part->nodes[i]);
                else
                        part->nodes[i].head = sorted_head(key, part->depth);
        }
        sorted_sort_few(sorted, &ended);
        part->nodes += ended.count;
        part->count -= ended.count;
}

/* Sort a part. It calls itself for the smaller ones of each three, so not deeper than the number of
 * nodes has bits. */
static void sorted_sort(struct sorted *sorted, struct sorted_part part)
{
        while (part.count > FEW) {
                struct sorted_part three[3];
                uint32_t largest, i;

                sorted_cut(sorted, &part, three);
                if (three[1].count > 1)
                        sorted_go_deeper(sorted, &three[1]);
                largest = three[0].count > three[2].count ? 0 : 2;
                if (three[1].count > three[largest].count)
                        largest = 1;
                for (i = 0; i < 3; i++)
                        if (i != largest)
                                sorted_sort(sorted, three[i]);
                part = three[largest];
        }
        sorted_sort_few(sorted, &part);
}

/* ---- the links ---- */

/* Link the nodes in their order, at all levels at once. Relaxed: no other process maps the segment;
 * what hands it to others publishes it. */
static void sorted_link_all(
        const struct sb_segment *segment, const struct sorted_node *nodes, uint64_t count)
{
        struct sb_word64 *last[SB_HEIGHT_MAX];
        uint32_t level;
        uint64_t i;

        for (level = 0; level < SB_HEIGHT_MAX; level++)
                last[level] = &segment->super->order[level];
        for (i = 0; i < count; i++) {
                struct sb_node *node = sb_node_at(segment, nodes[i].at);
                uint32_t height = sb_node_key(segment, node).height;

                if (i + AHEAD < count) {
                        const struct sb_node *next =
                                (const struct sb_node *)(segment->base + nodes[i + AHEAD].at);

                        __builtin_prefetch(&next->unhooked, 1);
                        __builtin_prefetch(&next->next[1], 1);
                }
                for (level = 0; level < height; level++) {
                        sb_store_relaxed(last[level], nodes[i].at); /* Relaxed: as above. */
                        last[level] = &node->next[level];
                }
        }
        for (level = 0; level < SB_HEIGHT_MAX; level++)
                sb_store_relaxed(last[level], 0); /* Relaxed: as above. */
}

/* Without memory to sort them in: each looks for its own place. What is linked stays so. */
static void sorted_link_each(struct sb_handle *handle)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t bucket, index;

        for (bucket = 0; bucket < segment->geometry.bucket_count; bucket++) {
                sb_pin(handle);
                for (index = 0; index < SB_BUCKET_CELLS; index++) {
                        uint64_t word = sorted_load(&segment->buckets[bucket].cell[index]);
                        struct sb_node *node = sorted_node_of(segment, word & SB_OFFSET_MASK);

                        if (node && sorted_load(&node->cell) == SB_CELL_NUMBER(bucket, index))
                                (void)sb_order_insert(handle, node);
                }
                sb_unpin(handle);
        }
}

void sb_sorted_link(struct sb_handle *handle, void *space, uint64_t count)
{
        const struct sb_segment *segment = &handle->segment;
        struct sorted sorted = {.segment = segment, .drawn = segment->seed | 1};
        struct sorted_part part = {.nodes = space};

        if (!space) {
                sorted_link_each(handle);
                return;
        }
        part.count = sorted_take_linked(segment, part.nodes);
        part.count += sorted_take(segment, part.nodes + part.count, count - part.count);
        sorted_sort(&sorted, part);
        sorted_link_all(segment, space, part.count);
}
