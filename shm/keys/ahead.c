/* Memory of the indexes that is read soon; see ahead.h. All loads are relaxed: they are hints of
 * what to fetch. The model checker need not judge them. */

#include "shm/keys/ahead.h"

#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/unit.h"

#define NODES_AHEAD   128u
#define BUCKETS_AHEAD 6u

/* The first two lines of a block. */
static void ahead_lines(const struct sb_segment *segment, uint64_t at)
{
        const unsigned char *block = segment->base + (at & SB_OFFSET_MASK);

        sb_prefetch(block);
        sb_prefetch(block + SB_LINE);
}

/* The same, and with @bits its bit. */
static void ahead_block(const struct sb_segment *segment, uint64_t at, bool bits)
{
        ahead_lines(segment, at);
        if (bits)
                sb_unit_fetch_bit(segment, at & SB_OFFSET_MASK);
}

/* ---- nodes ---- */

void sb_ahead_nodes(
        const struct sb_segment *segment, struct sb_node *const *nodes, uint32_t count, bool bits)
{
        const struct sb_word64 *cells[NODES_AHEAD];
        uint32_t i;

        count = count < NODES_AHEAD ? count : NODES_AHEAD;
        sb_model_unchecked_begin();
        for (i = 0; i < count; i++)
                ahead_block(segment, sb_offset_of(segment, nodes[i]), bits);
        for (i = 0; i < count; i++) {
                /* Relaxed: a hint. */
                cells[i] = sb_cell_at(segment, sb_load_relaxed(&nodes[i]->cell));
                if (cells[i])
                        sb_prefetch(cells[i]);
        }
        for (i = 0; i < count; i++) {
                /* Relaxed: a hint. */
                uint64_t word = cells[i] ? sb_load_relaxed(cells[i]) : 0;

                if (word)
                        ahead_block(segment, word, bits);
        }
        sb_model_unchecked_end();
}

/* ---- buckets, versions ---- */

/* The word of a cell; 0: there is no such bucket. */
static uint64_t ahead_cell(const struct sb_segment *segment, uint32_t bucket, uint32_t index)
{
        if (bucket >= segment->geometry.bucket_count)
                return 0;
        return sb_load_relaxed(&segment->buckets[bucket].cell[index]); /* Relaxed: a hint. */
}

void sb_ahead_bucket(const struct sb_segment *segment, uint32_t bucket)
{
        uint32_t index;

        sb_model_unchecked_begin();
        sb_prefetch(&segment->buckets[bucket + 3 * BUCKETS_AHEAD]);
        for (index = 0; index < SB_BUCKET_CELLS; index++) {
                uint64_t far = ahead_cell(segment, bucket + 2 * BUCKETS_AHEAD, index),
                         near = ahead_cell(segment, bucket + BUCKETS_AHEAD, index);
                const struct sb_version *head = sb_version_at(segment, near & SB_OFFSET_MASK);

                if (far)
                        ahead_block(segment, far, true);
                if (near && head)
                        ahead_block(segment, sb_once(head->node), true);
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
                        sb_prefetch(cell);
        }
        sb_model_unchecked_end();
}
