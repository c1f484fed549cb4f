/* The hash index; see index.h. */

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

        /* A:spill. Who sees a key's cell empty here, and no flag, was here before the key was. */
        if (!(sb_load_acquire(&segment->buckets[path->bucket].floor) & SB_BUCKET_SPILLED) ||
                path->spilled == g->spill_count)
                return false;
        path->bucket =
                g->bucket_count +
                (((uint32_t)hash & (g->bucket_count - 1)) / 8 + path->spilled) % g->spill_count;
        path->spilled++;
        return true;
}

bool sb_index_confirm(struct sb_peer *peer, uint64_t cell_number, uint64_t word)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_version *birth = sb_version_at(segment, word & SB_OFFSET_MASK);
        struct sb_node *node = birth ? sb_node_at(segment, birth->node) : NULL;
        uint64_t own;

        /* A:stamp. A stamped birth was confirmed by its node. */
        if (!node || sb_load_acquire(&birth->stamp) || SB_FAULT(BIRTH_UNCONFIRMED))
                return true;
        own = sb_pin_load(peer, &node->cell);
        if (!own) {
                sb_cas64_full(&node->cell, 0, cell_number);
                own = sb_pin_load(peer, &node->cell);
        }
        if (own == cell_number) {
                /* R:publish > A:publish. A:rule. Before the stamp: nothing is superseded until a
                 * rule shows. Failed: somebody else did it. */
                if (SB_UNLIKELY(sb_load_acquire(&node->rule)) && !(word & SB_CELL_KEPT) &&
                        !SB_FAULT(KEEP_BIRTH_UNFLAGGED))
                        sb_cas64_full(sb_cell_at(segment, cell_number), word, word | SB_CELL_KEPT);
                sb_cas64_full(&birth->stamp, 0, SB_STAMP_BIRTH);
                return true;
        }
        /* Another cell is the node's, or it is gone: for good. So this birth goes, by whoever meets
         * it. */
        sb_limbo_begin(peer, &birth->block);
        sb_cas64_full(sb_cell_at(segment, cell_number), word, 0);
        sb_limbo_date(peer, &birth->block);
        return false;
}

uint32_t sb_index_confirm_all(struct sb_peer *peer, uint64_t hash, uint64_t node)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_path path = sb_path_first(segment, hash);
        uint32_t place, confirmed = 0;

        do {
                for (place = 0; place < SB_BUCKET_CELLS; place++) {
                        uint64_t word =
                                sb_pin_load(peer, &segment->buckets[path.bucket].cell[place]);
                        struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);

                        if (!word || !version || version->node != node || (word & SB_CELL_FROZEN) ||
                                SB_SHAPE_KIND(version->shape) != SB_VERSION_BIRTH)
                                continue;
                        confirmed +=
                                sb_index_confirm(peer, SB_CELL_NUMBER(path.bucket, place), word);
                }
        } while (sb_path_next(segment, hash, &path));
        return confirmed;
}

int sb_index_place(struct sb_peer *peer, uint64_t hash, uint64_t birth, uint64_t *ret_cell_number)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_path path = sb_path_first(segment, hash);
        uint32_t place;

        for (;;) {
                struct sb_bucket *bucket = &segment->buckets[path.bucket];

                for (place = 0; place < SB_BUCKET_CELLS; place++) {
                        /* Relaxed: a hint; the CAS decides. */
                        if (sb_load_relaxed(&bucket->cell[place]))
                                continue;
                        /* R:publish > A:publish: the birth is complete. */
                        if (sb_cas64_full(&bucket->cell[place], 0, sb_tag_of(hash) | birth)) {
                                *ret_cell_number = SB_CELL_NUMBER(path.bucket, place);
                                return 0;
                        }
                }
                /* R:spill > A:spill. The flag before anything that lies behind it. */
                if (path.spilled == segment->geometry.spill_count)
                        return SB_E_FULL;
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
        struct sb_cell64 *cell =
                &segment->buckets[(uint32_t)hash & (segment->geometry.bucket_count - 1)].floor;

        for (;;) {
                /* A:floor. */
                uint64_t word = sb_load_acquire(cell);

                /* R:floor > A:floor: before the node is gone. */
                if (word >> 1 >= rev ||
                        sb_cas64_full(cell, word, rev << 1 | (word & SB_BUCKET_SPILLED)))
                        return;
        }
}
