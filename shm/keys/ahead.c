/* Memory of the indexes that is read soon; see ahead.h. All loads are relaxed: they are hints of
 * what to fetch. The model checker need not judge them. */

#include "shm/keys/ahead.h"

#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

#define SCOUT_LEVEL   2u  /* of which a node in sixteen is */
#define LANES         8u  /* walks at once */
#define LANE_NODES    48u /* of one walk, at most */
#define BUCKETS_AHEAD 16u

static void ahead_lines(const struct sb_segment *segment, uint64_t at)
{
        __builtin_prefetch(segment->base + (at & SB_OFFSET_MASK));
        __builtin_prefetch(segment->base + (at & SB_OFFSET_MASK) + SB_LINE);
}

/* ---- nodes ---- */

/* Where a link leads; NULL: nowhere. */
static const struct sb_node *ahead_follow(
        const struct sb_segment *segment, const struct sb_word64 *link)
{
        uint64_t word = sb_load_relaxed(link); /* Relaxed: a hint. */

        return word & SB_OFFSET_MASK ? sb_node_at(segment, word & SB_OFFSET_MASK) : NULL;
}

/* The next scout; NULL: there is none. */
static const struct sb_node *ahead_scout(const struct sb_segment *segment, struct sb_ahead *ahead)
{
        const struct sb_node *scout = ahead->next;

        if (!ahead->begun)
                scout = ahead_follow(segment, &segment->super->order[SCOUT_LEVEL]);
        ahead->begun = true;
        ahead->next = scout ? ahead_follow(segment, &scout->next[SCOUT_LEVEL]) : NULL;
        return scout;
}

/* A walk from a node up to where the next one began. */
struct lane {
        const struct sb_node *at, *end;
        const struct sb_word64 *cells[LANE_NODES]; /* of the nodes on the way */
        uint32_t count;
};

/* A step. */
static void ahead_step(const struct sb_segment *segment, struct lane *lane)
{
        const struct sb_word64 *cell;

        if (!lane->at || lane->at == lane->end)
                return;
        /* Relaxed: a hint. */
        cell = sb_cell_at(segment, sb_load_relaxed(&lane->at->cell));
        lane->cells[lane->count++] = cell;
        if (cell)
                __builtin_prefetch(cell);
        lane->at = ahead_follow(segment, &lane->at->next[0]);
        if (lane->at)
                ahead_lines(segment, sb_offset_of(segment, lane->at));
}

/* What the cells on the way lead to. */
static void ahead_heads(const struct sb_segment *segment, const struct lane *lane)
{
        uint32_t i;

        for (i = 0; i < lane->count; i++) {
                /* Relaxed: a hint. */
                uint64_t word = lane->cells[i] ? sb_load_relaxed(lane->cells[i]) : 0;

                if (word)
                        ahead_lines(segment, word);
        }
}

/* Walk from @node, and from the scouts behind it. */
static void ahead_walk(
        const struct sb_segment *segment, struct sb_ahead *ahead, const struct sb_node *node)
{
        struct lane lanes[LANES];
        uint32_t round, i;

        for (i = 0; i < LANES; i++) {
                lanes[i].at = i ? lanes[i - 1].end : node;
                lanes[i].end = ahead_scout(segment, ahead);
                lanes[i].count = 0;
        }
        for (round = 0; round < LANE_NODES; round++)
                for (i = 0; i < LANES; i++)
                        ahead_step(segment, &lanes[i]);
        for (i = 0; i < LANES; i++)
                ahead_heads(segment, &lanes[i]);
        /* A walk that did not come to its end goes on from there in the next call. */
        ahead->left = 0;
        for (i = 0; i < LANES; i++) {
                ahead->left += lanes[i].count;
                if (lanes[i].at != lanes[i].end)
                        break;
        }
        if (i < LANES)
                ahead->next = lanes[i].end;
}

void sb_ahead_nodes(
        const struct sb_segment *segment, struct sb_ahead *ahead, const struct sb_node *node)
{
        if (!ahead->left) {
                sb_model_unchecked_begin();
                ahead_walk(segment, ahead, node);
                sb_model_unchecked_end();
        }
        ahead->left -= ahead->left > 0;
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
