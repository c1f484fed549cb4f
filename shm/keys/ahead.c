/* Memory of the indexes that is read soon; see ahead.h. All loads are relaxed: they are hints of
 * what to fetch. The model checker need not judge them. */

#include "shm/keys/ahead.h"

#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

#define LANES_NEAR 4u /* walks at once */
#define LANES_FAR  12u
#define NODES_NEAR 12u /* behind so many no further walk begins */
#define NODES_FAR  256u
#define LANE_NODES 256u /* of one walk, at most */
/* Behind so many a stream begins anew: other processes change the index. */
#define STREAM_NODES 16384u
#define STREAM_LEAD                                                                                \
        384u /* nodes by which its walks may lead; what they fetch is in the cache still */
#define CLIMB_STEPS   64u   /* along a level, of which one node in four is of the next */
#define SCOUT_LEAD    32u   /* and its scout: SB_AHEAD_CELLS to a cell, as many to what is in it */
#define CELLS         1024u /* of all of them */
#define BUCKETS_AHEAD 16u

/* The line at @at, and the next one. By loads: prefetches took half as long again (decision 82). */
static void ahead_lines(const struct sb_segment *segment, uint64_t at)
{
        const unsigned char *block = segment->base + (at & SB_OFFSET_MASK);

        if ((at & SB_OFFSET_MASK) > segment->geometry.size - 2 * SB_LINE)
                return;
        /* Relaxed, both: hints. */
        (void)sb_load_relaxed((const struct sb_word64 *)block);
        (void)sb_load_relaxed((const struct sb_word64 *)(block + SB_LINE));
}

/* ---- nodes ---- */

/* Where a link leads; NULL: nowhere. */
static const struct sb_node *ahead_follow(
        const struct sb_segment *segment, const struct sb_word64 *link)
{
        uint64_t word = sb_load_relaxed(link); /* Relaxed: a hint. */

        return word & SB_OFFSET_MASK ? sb_node_at(segment, word & SB_OFFSET_MASK) : NULL;
}

/* Along one level to the first node that is higher, @node or one behind it. NULL: there is none
 * near. */
static const struct sb_node *ahead_higher(
        const struct sb_segment *segment, const struct sb_node *node, uint32_t level)
{
        uint32_t steps;

        /* Bound: duty. Without a node of the higher level one walk fetches less at a time. */
        for (steps = 0; node && (uint32_t)sb_once(node->height) <= level + 1; steps++)
                node = steps < CLIMB_STEPS ? ahead_follow(segment, &node->next[level]) : NULL;
        return node;
}

void sb_ahead_climb(const struct sb_segment *segment, struct sb_ahead *ahead,
        const struct sb_node *node, uint32_t level)
{
        bool near = ahead->level == SB_AHEAD_NEAR && ahead->next && !ahead->lost;
        uint32_t from;

        sb_model_unchecked_begin();
        if (near)
                node = ahead->next;
        for (from = near ? SB_AHEAD_NEAR : 0; from < level; from++)
                node = ahead_higher(segment, node, from);
        sb_ahead_begin_at(ahead, level, node);
        sb_model_unchecked_end();
}

/* Walks side by side, and the cells of the nodes that they passed. */
struct lanes {
        struct sb_ahead_lane lane[LANES_FAR];
        const struct sb_word64 *cell[CELLS];
        uint32_t lane_count, cell_count;
        uint32_t begun; /* walks */
        bool lost;      /* one did not come to its end */
};

/* Begin the next walk at @from, up to the next scout. */
static struct sb_ahead_lane ahead_lane(const struct sb_segment *segment, struct sb_ahead *ahead,
        struct lanes *lanes, const struct sb_node *from)
{
        if (from == ahead->next)
                ahead->next = ahead_follow(segment, &from->next[ahead->level]);
        lanes->begun++;
        return (struct sb_ahead_lane){.at = from, .end = ahead->next};
}

/* Whether a further walk is to begin. In a damaged segment walks of no step could follow one
 * another for ever. */
static bool ahead_wants_more(const struct sb_ahead *ahead, const struct lanes *lanes)
{
        uint32_t most = ahead->level == SB_AHEAD_NEAR ? NODES_NEAR : NODES_FAR;

        return ahead->next && lanes->cell_count < most && lanes->begun < most;
}

/* A step. False: the walk is at its end, or has missed it. */
static bool ahead_step(
        const struct sb_segment *segment, struct lanes *lanes, struct sb_ahead_lane *lane)
{
        const struct sb_word64 *cell;

        if (lane->at == lane->end)
                return false;
        /* Bound: duty. The walk that memory is fetched for waits for it itself. */
        if (!lane->at || ++lane->steps > LANE_NODES || lanes->cell_count == CELLS) {
                lanes->lost = true;
                return false;
        }
        /* Relaxed: a hint. */
        cell = sb_cell_at(segment, sb_load_relaxed(&lane->at->cell));
        lanes->cell[lanes->cell_count++] = cell;
        if (cell)
                __builtin_prefetch(cell);
        lane->at = ahead_follow(segment, &lane->at->next[0]);
        if (lane->at)
                ahead_lines(segment, sb_offset_of(segment, lane->at));
        return true;
}

/* What the cells on the way lead to. */
static void ahead_heads(const struct sb_segment *segment, const struct lanes *lanes)
{
        uint32_t i;

        for (i = 0; i < lanes->cell_count; i++) {
                /* Relaxed: a hint. */
                uint64_t word = lanes->cell[i] ? sb_load_relaxed(lanes->cell[i]) : 0;

                if (word)
                        ahead_lines(segment, word);
        }
}

/* Walk from @node, and from the scouts behind it. A walk that is at its end gives its place to the
 * next one, so that as many as can be wait for memory at any time. */
static void ahead_walk(
        const struct sb_segment *segment, struct sb_ahead *ahead, const struct sb_node *node)
{
        uint32_t i, most = ahead->level == SB_AHEAD_NEAR ? LANES_NEAR : LANES_FAR;
        struct lanes lanes;

        lanes.cell_count = lanes.begun = 0;
        lanes.lost = false;
        lanes.lane[0] = ahead_lane(segment, ahead, &lanes, node);
        for (i = 1; i < most && ahead_wants_more(ahead, &lanes); i++)
                lanes.lane[i] = ahead_lane(segment, ahead, &lanes, ahead->next);
        lanes.lane_count = i;
        while (lanes.lane_count)
                for (i = 0; i < lanes.lane_count; i++) {
                        if (ahead_step(segment, &lanes, &lanes.lane[i]))
                                continue;
                        if (ahead_wants_more(ahead, &lanes))
                                lanes.lane[i] = ahead_lane(segment, ahead, &lanes, ahead->next);
                        else
                                lanes.lane[i--] = lanes.lane[--lanes.lane_count];
                }
        ahead_heads(segment, &lanes);
        /* A walk that missed its end went over nodes that the next ones went over, too. */
        ahead->left = lanes.lost && lanes.cell_count > LANE_NODES ? LANE_NODES : lanes.cell_count;
        ahead->fetches++;
        ahead->lost = lanes.lost;
}

/* ---- the stream ---- */

/* What a walk reads of a node. Its key is not read: the version has it, too. */
static void ahead_prefetch_node(const struct sb_node *node)
{
        __builtin_prefetch(&node->cell);
        __builtin_prefetch(&node->next[0]);
}

/* The next walk begins. The node is on its way since the walk before began. */
static void ahead_stream_lane(
        const struct sb_segment *segment, struct sb_ahead *ahead, struct sb_ahead_lane *lane)
{
        lane->at = ahead->next;
        lane->steps = 0;
        if (ahead->next) {
                ahead->next = ahead_follow(segment, &ahead->next->next[ahead->level]);
                if (ahead->next)
                        ahead_prefetch_node(ahead->next);
        }
        lane->end = ahead->next;
}

/* The scout begins at the node where the walk is. */
static void ahead_scout_from(struct sb_ahead *ahead, const struct sb_node *node)
{
        uint32_t i;

        ahead->scout = node;
        ahead->scout_lead = ahead->cell_turn = 0;
        for (i = 0; i < SB_AHEAD_CELLS; i++)
                ahead->cell[i] = NULL;
        ahead->left = STREAM_NODES;
}

/* Behind a fetch of all nodes up to ahead->next. */
static void ahead_stream_begin(
        const struct sb_segment *segment, struct sb_ahead *ahead, const struct sb_node *node)
{
        uint32_t i;

        ahead->lead = ahead->left;
        ahead->turn = 0;
        for (i = 0; i < SB_AHEAD_LANES; i++)
                ahead_stream_lane(segment, ahead, &ahead->lane[i]);
        ahead_scout_from(ahead, node);
}

/* The lane of which it is the turn goes on by a node, and fetches the next one. */
static void ahead_stream_step(const struct sb_segment *segment, struct sb_ahead *ahead)
{
        struct sb_ahead_lane *lane = &ahead->lane[ahead->turn++ % SB_AHEAD_LANES];
        const struct sb_node *next;

        if (!lane->at)
                return;
        next = ahead_follow(segment, &lane->at->next[0]);
        ahead->lead++;
        if (next == lane->end) {
                ahead_stream_lane(segment, ahead, lane);
                return;
        }
        /* Bound: duty. The walk begins the stream anew with its next node. */
        if (!next || ++lane->steps > LANE_NODES) {
                ahead->lost = true;
                ahead->left = 0;
                lane->at = NULL;
                return;
        }
        ahead_prefetch_node(next);
        lane->at = next;
}

/* The scout goes on by a node, of which it fetches the cell; and what is in the cell of one that it
 * passed some time ago. */
static void ahead_scout(const struct sb_segment *segment, struct sb_ahead *ahead)
{
        const struct sb_word64 **last = &ahead->cell[ahead->cell_turn++ % SB_AHEAD_CELLS];
        const struct sb_node *node = ahead->scout;
        /* Relaxed: a hint. */
        const uint64_t word = *last ? sb_load_relaxed(*last) & SB_OFFSET_MASK : 0;

        if (word) {
                __builtin_prefetch(segment->base + word);
                __builtin_prefetch(segment->base + word + SB_LINE);
        }
        ahead->scout_lead++;
        *last = NULL;
        if (!node)
                return;
        *last = sb_cell_at(segment, sb_load_relaxed(&node->cell)); /* Relaxed: a hint. */
        if (*last)
                __builtin_prefetch(*last);
        ahead->scout = ahead_follow(segment, &node->next[0]);
}

void sb_ahead_stream(const struct sb_segment *segment, struct sb_ahead *ahead)
{
        sb_model_unchecked_begin();
        ahead_stream_step(segment, ahead);
        if (ahead->lead < STREAM_LEAD)
                ahead_stream_step(segment, ahead);
        ahead->lead -= ahead->lead != 0;
        ahead_scout(segment, ahead);
        if (ahead->scout_lead < SCOUT_LEAD)
                ahead_scout(segment, ahead);
        ahead->scout_lead--;
        sb_model_unchecked_end();
}

/* ---- both ---- */

void sb_ahead_begin(const struct sb_segment *segment, struct sb_ahead *ret)
{
        sb_model_unchecked_begin();
        sb_ahead_begin_at(
                ret, SB_AHEAD_FAR, ahead_follow(segment, &segment->super->order[SB_AHEAD_FAR]));
        sb_model_unchecked_end();
}

void sb_ahead_nodes(
        const struct sb_segment *segment, struct sb_ahead *ahead, const struct sb_node *node)
{
        sb_model_unchecked_begin();
        if (ahead->level != SB_AHEAD_FAR) {
                ahead_walk(segment, ahead, node);
        } else if (!ahead->fetches) {
                ahead_walk(segment, ahead, node);
                ahead_stream_begin(segment, ahead, node);
        } else {
                ahead->fetches++;
                ahead_scout_from(ahead, node);
        }
        sb_model_unchecked_end();
}

/* ---- buckets, versions ---- */

void sb_ahead_bucket(const struct sb_segment *segment, uint32_t bucket)
{
        const uint32_t count = segment->geometry.bucket_count;
        uint32_t index;

        sb_model_unchecked_begin();
        for (index = 0; index < SB_BUCKET_CELLS; index++) {
                const struct sb_bucket *far = &segment->buckets[bucket + 2 * BUCKETS_AHEAD],
                                       *near = &segment->buckets[bucket + BUCKETS_AHEAD];
                const struct sb_version *head = NULL;
                uint64_t word = 0;

                if (bucket + 2 * BUCKETS_AHEAD < count)
                        word = sb_load_relaxed(&far->cell[index]); /* Relaxed: a hint. */
                if (word)
                        ahead_lines(segment, word);
                /* Relaxed: a hint. */
                word = bucket + BUCKETS_AHEAD < count ? sb_load_relaxed(&near->cell[index]) : 0;
                if (word)
                        head = sb_version_at(segment, word & SB_OFFSET_MASK);
                if (head)
                        ahead_lines(segment, sb_once(head->node));
        }
        sb_model_unchecked_end();
}

void sb_ahead_versions(
        const struct sb_segment *segment, const unsigned char *blocks, uint64_t size, uint64_t bits)
{
        const struct sb_version *version;
        uint64_t left;

        sb_model_unchecked_begin();
        for (left = bits; left; left &= left - 1) {
                version = (const void *)(blocks + (uint32_t)__builtin_ctzll(left) * size);
                ahead_lines(segment, sb_once(version->node));
        }
        for (left = bits; left; left &= left - 1) {
                const struct sb_word64 *cell = NULL;
                const struct sb_node *node;

                version = (const void *)(blocks + (uint32_t)__builtin_ctzll(left) * size);
                node = sb_node_at(segment, sb_once(version->node));
                if (node)
                        /* Relaxed: a hint. */
                        cell = sb_cell_at(segment, sb_load_relaxed(&node->cell));
                if (cell)
                        __builtin_prefetch(cell);
        }
        sb_model_unchecked_end();
}
