/* The ordered index, made at once; see sorted.h. */

#include "shm/keys/sorted.h"

#include <errno.h>
#include <string.h>

#include "shm/base/bytes.h"
#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"

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
        sb_prefetch(segment->base + at);
        sb_prefetch(segment->base + at + SB_LINE);
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

/* Nodes that are linked and have no cell: their maker found none that was empty. A sweep takes them
 * out of the index, so they stay there until then. */
struct sorted_linked {
        struct sorted_node *nodes; /* NULL: they are counted */
        uint64_t count;
};

static void sorted_visit_linked(struct sb_handle *handle, struct sb_node *node, void *context)
{
        struct sorted_linked *linked = context;

        if (sorted_load(&node->cell))
                return;
        if (linked->nodes)
                linked->nodes[linked->count] = sorted_node(&handle->segment, node);
        linked->count++;
}

static uint64_t sorted_take_linked(struct sb_handle *handle, struct sorted_node *nodes)
{
        struct sorted_linked linked = {.nodes = nodes};

        (void)sb_order_walk(handle, NULL, 0, sorted_visit_linked, &linked);
        return linked.count;
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

uint64_t sb_sorted_count(struct sb_handle *handle)
{
        const struct sb_segment *segment = &handle->segment;
        uint64_t count = sorted_take_linked(handle, NULL);
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

/* ---- the branches ---- */

/* What comes of a node's eight bytes behind the sort: at which depth its key differs from the one
 * before, and the symbols of both there: {depth : 32, that one's : 8, its own : 8}. */
#define JOINT(depth, before, own) ((uint64_t)(depth) << 32 | (before) << 8 | (own))
#define JOINT_DEPTH(joint)        ((uint32_t)((joint) >> 32))
#define JOINT_BEFORE(joint)       ((uint32_t)((joint) >> 8) & 0xffu)
#define JOINT_OWN(joint)          ((uint32_t)(joint)&0xffu)

static void sorted_join(const struct sorted *sorted, const struct sorted_part *part)
{
        struct sb_node_key before = {0};
        uint64_t i;

        for (i = 0; i < part->count; i++) {
                struct sb_node_key key = sorted_key(sorted, &part->nodes[i]);
                uint32_t depth;

                if (i + AHEAD < part->count)
                        sorted_fetch(sorted->segment, part->nodes[i + AHEAD].at);
                depth = i ? sb_branch_differ(before.bytes, before.len, key.bytes, key.len) : 0;
                part->nodes[i].head =
                        JOINT(depth, i ? sb_branch_symbol(before.bytes, before.len, depth) : 0,
                                sb_branch_symbol(key.bytes, key.len, depth));
                before = key;
        }
}

/* The depth of the branch of all these nodes. */
static uint32_t sorted_depth(const struct sorted_node *nodes, uint64_t count)
{
        uint32_t depth = UINT32_MAX;
        uint64_t i;

        for (i = 1; i < count; i++)
                if (JOINT_DEPTH(nodes[i].head) < depth)
                        depth = JOINT_DEPTH(nodes[i].head);
        return depth;
}

/* Make the branch of two nodes or more, and all below it: it calls itself for each part, so not
 * deeper than keys have symbols. *ret_link: as in a slot. Return: 0, SB_E_FULL. */
static int sorted_branch(struct sb_handle *handle, const struct sorted_node *nodes, uint64_t count,
        uint64_t *ret_link)
{
        uint32_t depth = sorted_depth(nodes, count), word_count = 0, symbol;
        uint64_t words[SB_BRANCH_SYMBOLS], first = 0, end = 1, link;
        int r;

        for (; first < count; first = end++) {
                /* Bound: damage. Keys that are the same have no branch. */
                if (word_count == SB_BRANCH_SYMBOLS)
                        return -EIO;
                while (end < count && JOINT_DEPTH(nodes[end].head) != depth)
                        end++;
                symbol = end < count ? JOINT_BEFORE(nodes[end].head) : JOINT_OWN(nodes[first].head);
                link = nodes[first].at | SB_SLOT_LEAF;
                r = end - first > 1 ? sorted_branch(handle, nodes + first, end - first, &link) : 0;
                if (r)
                        return r;
                words[word_count++] = SB_SLOT(symbol, link);
        }
        return sb_order_make_branch(handle, depth, words, word_count, ret_link);
}

/* Take the branches apart that are there: of few nodes, which were linked one by one. */
static void sorted_unlink(struct sb_handle *handle, uint64_t word)
{
        struct sb_branch_view view;
        uint32_t i;

        if (!(word & SB_OFFSET_MASK) || (word & SB_SLOT_LEAF) ||
                !sb_branch_view(&handle->segment, word, 0, &view))
                return;
        for (i = 0; i < view.slots; i++)
                sorted_unlink(handle, sorted_load(&view.branch->slot[i]));
        sb_slab_give_back(handle, word & SB_OFFSET_MASK);
}

/* Without memory to sort them in: each looks for its own place. What is linked stays so. */
static int sorted_link_each(struct sb_handle *handle)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t bucket, index;
        int r = 0;

        for (bucket = 0; !r && bucket < segment->geometry.bucket_count; bucket++) {
                sb_pin(handle);
                for (index = 0; !r && index < SB_BUCKET_CELLS; index++) {
                        uint64_t word = sorted_load(&segment->buckets[bucket].cell[index]);
                        struct sb_node *node = sorted_node_of(segment, word & SB_OFFSET_MASK);

                        if (node && sorted_load(&node->cell) == SB_CELL_NUMBER(bucket, index))
                                r = sb_order_insert(handle, node, SB_SLAB_LARGER, NULL, &node);
                }
                sb_unpin(handle);
        }
        return r;
}

int sb_sorted_link(struct sb_handle *handle, void *space, uint64_t count)
{
        const struct sb_segment *segment = &handle->segment;
        struct sorted sorted = {.segment = segment, .drawn = segment->seed | 1};
        struct sorted_part part = {.nodes = space};
        uint64_t link = 0;
        int r = 0;

        if (space) {
                part.count = sorted_take_linked(handle, part.nodes);
                part.count += sorted_take(segment, part.nodes + part.count, count - part.count);
                sorted_sort(&sorted, part);
                sorted_join(&sorted, &part);
                sorted_unlink(handle, sorted_load(&segment->super->order));
                if (part.count)
                        link = part.nodes[0].at | SB_SLOT_LEAF;
                sb_pin(handle);
                if (part.count > 1)
                        r = sorted_branch(handle, part.nodes, part.count, &link);
                sb_unpin(handle);
                /* Relaxed: no other process maps the segment; what hands it on publishes it. */
                sb_store_relaxed(&segment->super->order, r ? 0 : link);
        } else {
                r = sorted_link_each(handle);
        }
        sb_slab_settle(handle);
        return r;
}
