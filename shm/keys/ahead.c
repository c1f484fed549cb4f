/* Memory of the indexes that is read soon; see ahead.h. All loads are relaxed: they are hints of
 * what to fetch. The model checker need not judge them. */

#include "shm/keys/ahead.h"

#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

#define NODES_AHEAD   64u
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

void sb_ahead_nodes(const struct sb_segment *segment, struct sb_node *const *nodes, uint32_t count)
{
        const struct sb_word64 *cells[NODES_AHEAD];
        uint32_t i;

        count = count < NODES_AHEAD ? count : NODES_AHEAD;
        sb_model_unchecked_begin();
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
                        ahead_lines(segment, word);
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
                        sb_prefetch(cell);
        }
        sb_model_unchecked_end();
}
