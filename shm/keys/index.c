/* The hash index: buckets in turn, placeholders and floors; see index.h. */

#include "shm/keys/index.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"

bool sb_path_next(const struct sb_segment *segment, uint64_t hash, struct sb_path *path)
{
        const struct sb_geometry *g = &segment->geometry;

        /* A:spill. A process that sees an empty cell here, and no flag, was here before the key was
         * placed. */
        if (!(sb_load_acquire(&segment->buckets[path->bucket].floor) & SB_BUCKET_SPILLED) ||
                path->spilled == g->spill_count)
                return false;
        path->bucket =
                g->bucket_count +
                (((uint32_t)hash & (g->bucket_count - 1)) / 8 + path->spilled) % g->spill_count;
        path->spilled++;
        return true;
}

/* Whether a placeholder was confirmed by its node already. */
static bool index_is_confirmed(const struct sb_version *placeholder)
{
        /* A:stamp. The stamp is set after the node took this cell. */
        return sb_load_acquire(&placeholder->stamp) || SB_FAULT(PLACEHOLDER_UNCONFIRMED);
}

/* The cell number of a node; if it has none yet, it takes @cell_number. */
static uint64_t index_settle_cell(
        struct sb_handle *handle, struct sb_node *node, uint64_t cell_number)
{
        uint64_t own = sb_pin_load(handle, &node->cell);

        if (own)
                return own;
        /* R:publish > A:publish. The cell has its placeholder. Failed: another one was confirmed,
         * or the node is gone. */
        sb_cas64_full(&node->cell, 0, cell_number);
        return sb_pin_load(handle, &node->cell);
}

/* If a rule of history applies to the node, its cell says so before the placeholder is stamped:
 * nothing is superseded until the rule shows. */
static void index_show_rule(
        struct sb_handle *handle, const struct sb_node *node, uint64_t cell_number, uint64_t word)
{
        /* A:rule. */
        if (SB_UNLIKELY(sb_load_acquire(&node->rule)) && !(word & SB_CELL_KEPT) &&
                !SB_FAULT(KEEP_PLACEHOLDER_UNFLAGGED))
                /* R:publish > A:publish. Failed: another process did it. */
                sb_cas64_full(sb_cell_at(&handle->segment, cell_number), word, word | SB_CELL_KEPT);
}

bool sb_index_confirm(struct sb_handle *handle, uint64_t cell_number, uint64_t word)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_version *placeholder = sb_version_at(segment, word & SB_OFFSET_MASK);
        struct sb_node *node = placeholder ? sb_node_at(segment, placeholder->node) : NULL;

        if (!node || index_is_confirmed(placeholder))
                return true;
        if (index_settle_cell(handle, node, cell_number) == cell_number) {
                index_show_rule(handle, node, cell_number, word);
                /* R:stamp > A:stamp. Failed: another process confirmed it. */
                sb_cas64_full(&placeholder->stamp, 0, SB_STAMP_PLACEHOLDER);
                return true;
        }
        /* Another cell is the node's, or the node is gone: for good. So each process that meets
         * this placeholder takes it out. */
        sb_limbo_begin(handle, &placeholder->block);
        /* R:publish. Nothing is put in; between DYING and the date, so that no link is left when
         * the era is read. Failed: another process emptied the cell. */
        sb_cas64_full(sb_cell_at(segment, cell_number), word, 0);
        sb_limbo_date(handle, &placeholder->block);
        return false;
}

uint32_t sb_index_confirm_all(struct sb_handle *handle, uint64_t hash, uint64_t node)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_path path = sb_path_first(segment, hash);
        uint32_t index, confirmed = 0;

        do {
                for (index = 0; index < SB_BUCKET_CELLS; index++) {
                        uint64_t word =
                                sb_pin_load(handle, &segment->buckets[path.bucket].cell[index]);
                        struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);

                        if (!word || !version || version->node != node || (word & SB_CELL_FROZEN) ||
                                SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER)
                                continue;
                        confirmed +=
                                sb_index_confirm(handle, SB_CELL_NUMBER(path.bucket, index), word);
                }
        } while (sb_path_next(segment, hash, &path));
        return confirmed;
}

int sb_index_insert(
        struct sb_handle *handle, uint64_t hash, uint64_t placeholder, uint64_t *ret_cell_number)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_path path = sb_path_first(segment, hash);
        uint32_t index;

        for (;;) {
                struct sb_bucket *bucket = &segment->buckets[path.bucket];

                for (index = 0; index < SB_BUCKET_CELLS; index++) {
                        /* Relaxed: a hint; the CAS decides. */
                        if (sb_load_relaxed(&bucket->cell[index]))
                                continue;
                        /* R:publish > A:publish. The placeholder is complete. */
                        if (sb_cas64_full(&bucket->cell[index], 0, sb_tag_of(hash) | placeholder)) {
                                *ret_cell_number = SB_CELL_NUMBER(path.bucket, index);
                                return 0;
                        }
                }
                if (path.spilled == segment->geometry.spill_count)
                        return SB_E_FULL;
                /* R:spill > A:spill. The flag before anything that lies behind it. */
                sb_or_full(&bucket->floor, SB_BUCKET_SPILLED);
                if (!sb_path_next(segment, hash, &path))
                        return SB_E_FULL;
        }
}

uint64_t sb_index_floor(const struct sb_segment *segment, uint64_t hash)
{
        uint32_t bucket = (uint32_t)hash & (segment->geometry.bucket_count - 1);

        /* A:floor. Read after the node is linked: then no removal of an older life can still raise
         * it unseen. */
        return sb_load_acquire(&segment->buckets[bucket].floor) >> 1;
}

void sb_index_raise_floor(const struct sb_segment *segment, uint64_t hash, uint64_t rev)
{
        struct sb_word64 *floor =
                &segment->buckets[(uint32_t)hash & (segment->geometry.bucket_count - 1)].floor;

        for (;;) {
                uint64_t word = sb_load_acquire(floor); /* A:floor. Only what the CAS expects. */

                /* R:floor > A:floor. Before the node is gone. */
                if (word >> 1 >= rev ||
                        sb_cas64_full(floor, word, rev << 1 | (word & SB_BUCKET_SPILLED)))
                        return;
        }
}
