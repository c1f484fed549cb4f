/* The hash index: ways, signs, placeholders and floors; see index.h. */

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

/* ---- the way of a home, and its stretches ---- */

/* Where each stretch begins on the way, and the last one ends. The first are one bucket each: there
 * nearly all keys find a cell. */
static const uint16_t index_stretch_begin[SB_SIGN_STRETCHES + 1] = {
        1, 2, 3, 4, 6, 8, 16, 64, SB_WAY_MAX + 1};

static uint32_t index_stretch_of(uint32_t position)
{
        uint32_t stretch = 0;

        while (position >= index_stretch_begin[stretch + 1])
                stretch++;
        return stretch;
}

static uint32_t index_way_end(const struct sb_segment *segment)
{
        uint32_t others = segment->geometry.bucket_count - 1;

        return others < SB_WAY_MAX ? others : SB_WAY_MAX;
}

/* The first bucket of the group of four that comes at @step on the way. It goes on by the same
 * distance each time, which has no factor in common with the number of groups, a prime or a power
 * of two (layout/geometry.c): so each group comes once. */
static uint32_t index_way_group(const struct sb_segment *segment, uint32_t home, uint32_t step)
{
        uint32_t group = home / 4, count = segment->geometry.bucket_count / 4,
                 mixed = group * UINT32_C(0x9e3779b1);
        uint64_t odd;

        if (!step)
                return group * 4;
        mixed = (mixed ^ mixed >> 15) * UINT32_C(0x85ebca6b);
        odd = ((uint64_t)mixed * (count / 2) >> 32) * 2 + 1; /* below count */
        return (uint32_t)((group + step * odd) % count) * 4;
}

/* The number of a bucket on the way. First the three others of the home's group: they lie on the
 * lines beside it, and on the same page. */
static uint32_t index_way_bucket(const struct sb_segment *segment, uint32_t home, uint32_t position)
{
        return index_way_group(segment, home, position / 4) + ((home ^ position) & 3);
}

/* Where a bucket comes on the way; UINT32_MAX: nowhere. */
static uint32_t index_way_position(const struct sb_segment *segment, uint32_t home, uint32_t bucket)
{
        uint32_t end = index_way_end(segment), step;

        for (step = 0; step <= end / 4; step++)
                if (index_way_group(segment, home, step) == (bucket & ~UINT32_C(3)))
                        return step * 4 + ((home ^ bucket) & 3);
        return UINT32_MAX;
}

/* The first position behind @position in a stretch that @sign names; or one behind the way's end.
 */
static uint32_t index_next_position(uint64_t sign, uint32_t position)
{
        position++;
        while (position <= SB_WAY_MAX) {
                uint32_t stretch = index_stretch_of(position);

                if (sign & SB_SIGN_STRETCH(stretch))
                        break;
                position = index_stretch_begin[stretch + 1];
        }
        return position;
}

static bool index_go_on(const struct sb_segment *segment, uint32_t home, struct sb_path *path)
{
        uint32_t position = index_next_position(path->sign, path->position);

        if (position > index_way_end(segment))
                return false;
        path->position = position;
        path->bucket = index_way_bucket(segment, home, position);
        return true;
}

bool sb_path_next(const struct sb_segment *segment, uint64_t hash, struct sb_path *path)
{
        uint32_t home = (uint32_t)sb_index_home(segment, hash);

        if (!path->position) {
                /* A:sign. A process that sees no sign here was here before the key was confirmed.
                 */
                path->sign = sb_load_acquire(&segment->buckets[home].sign);
                if (!(path->sign & SB_SIGN_CLASS(hash)))
                        return false;
        }
        return index_go_on(segment, home, path);
}

bool sb_path_next_of_all(const struct sb_segment *segment, uint64_t hash, struct sb_path *path)
{
        path->sign = SB_SIGN_BITS;
        return index_go_on(segment, (uint32_t)sb_index_home(segment, hash), path);
}

/* ---- signs ---- */

/* Say in the sign of a key's home that the key may be in @cell_number. It counts even where the
 * bits say so already: a process may have looked before the cell was filled, and clears them if
 * nothing has changed since. */
static void index_sign(struct sb_handle *handle, uint64_t hash, uint64_t cell_number)
{
        const struct sb_segment *segment = &handle->segment;
        uint32_t home = (uint32_t)sb_index_home(segment, hash),
                 bucket = (uint32_t)(cell_number / 8 - 1), position;
        struct sb_word64 *sign = &segment->buckets[home].sign;
        uint64_t word, bits;

        if (SB_LIKELY(bucket == home))
                return;
        position = index_way_position(segment, home, bucket);
        if (position == UINT32_MAX)
                return; /* damaged: no process would look for it there */
        bits = SB_SIGN_CLASS(hash) | SB_SIGN_STRETCH(index_stretch_of(position));
        do {
                word = sb_load_acquire(sign); /* A:sign. Only what the CAS expects. */
                if (SB_FAULT(SIGN_UNCOUNTED) && (word & bits) == bits)
                        return;
                /* R:sign > A:sign. Behind the placeholder, before it is confirmed. */
        } while (!sb_cas64_full(sign, word, (word | bits) + SB_SIGN_ONE));
}

/* Whether what a cell of the way holds is of a key with this home. What makes no sense may be. */
static bool index_is_of(struct sb_handle *handle, uint64_t word, uint32_t home)
{
        const struct sb_segment *segment = &handle->segment;
        const struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);
        const struct sb_node *node = version ? sb_node_at(segment, version->node) : NULL;

        if (!node)
                return true;
        if (SB_FAULT(HEAL_IGNORES_PLACEHOLDERS) && !sb_load_acquire(&version->stamp)) /* A:stamp. */
                return false;
        return sb_index_home(segment, node->hash) == home;
}

/* What the cells on the way need of the bits in @sign. */
static uint64_t index_needed(struct sb_handle *handle, uint32_t home, uint64_t sign)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_path path = {.bucket = home, .sign = sign};
        uint64_t needed = 0;

        while (index_go_on(segment, home, &path)) {
                uint64_t stretch = SB_SIGN_STRETCH(index_stretch_of(path.position));
                uint32_t index;

                for (index = 0; index < SB_BUCKET_CELLS; index++) {
                        uint64_t word =
                                sb_pin_load(handle, &segment->buckets[path.bucket].cell[index]);
                        uint64_t bits = stretch | SB_SIGN_CLASS(word);

                        if (word && (sign & bits) == bits && (needed & bits) != bits &&
                                index_is_of(handle, word, home))
                                needed |= bits;
                }
        }
        return needed;
}

void sb_index_heal(struct sb_handle *handle, uint32_t home)
{
        struct sb_word64 *word = &handle->segment.buckets[home].sign;
        uint64_t sign, needed;

        do {
                /* A:sign. Before the look: a process that signs later has changed the word. */
                sign = sb_load_acquire(word);
                if (!(sign & SB_SIGN_BITS))
                        return;
                needed = index_needed(handle, home, sign);
                if (needed == (sign & SB_SIGN_BITS))
                        return;
                /* R:sign > A:sign. Failed: another process signed or healed. */
        } while (!sb_cas64_full(word, sign, (sign & ~SB_SIGN_BITS) | needed));
}

void sb_index_heal_behind(struct sb_handle *handle, uint64_t hash, uint64_t cell_number)
{
        uint32_t home = (uint32_t)sb_index_home(&handle->segment, hash);

        if (SB_UNLIKELY(cell_number / 8 - 1 != home))
                sb_index_heal(handle, home);
}

/* ---- placeholders ---- */

/* Whether a placeholder was confirmed by its node already. Fault PLACEHOLDER_UNCONFIRMED: a process
 * that did not make it believes so. */
static bool index_is_confirmed(const struct sb_handle *handle, const struct sb_version *placeholder)
{
        bool believed = SB_FAULT(PLACEHOLDER_UNCONFIRMED) &&
                        SB_SHAPE_WRITER(placeholder->shape) != handle->slot;

        /* A:stamp. The stamp is set after the node took this cell. */
        return sb_load_acquire(&placeholder->stamp) || believed;
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

/* Before a placeholder is confirmed. Faults SIGN_LATE, SIGN_BY_MAKER_ONLY: it is not signed yet, or
 * not by a process that only meets it. */
static void index_sign_first(struct sb_handle *handle, const struct sb_version *placeholder,
        uint64_t hash, uint64_t cell_number)
{
        if (!SB_FAULT(SIGN_LATE) && (!SB_FAULT(SIGN_BY_MAKER_ONLY) ||
                                            SB_SHAPE_WRITER(placeholder->shape) == handle->slot))
                index_sign(handle, hash, cell_number);
}
static void index_sign_late(struct sb_handle *handle, uint64_t hash, uint64_t cell_number)
{
        if (SB_FAULT(SIGN_LATE))
                index_sign(handle, hash, cell_number);
}

bool sb_index_confirm(struct sb_handle *handle, uint64_t cell_number, uint64_t word)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_version *placeholder = sb_version_at(segment, word & SB_OFFSET_MASK);
        struct sb_node *node = placeholder ? sb_node_at(segment, placeholder->node) : NULL;

        if (!node || index_is_confirmed(handle, placeholder))
                return true;
        index_sign_first(handle, placeholder, node->hash, cell_number);
        if (index_settle_cell(handle, node, cell_number) == cell_number) {
                index_show_rule(handle, node, cell_number, word);
                /* R:stamp > A:stamp. Failed: another process confirmed it. */
                sb_cas64_full(&placeholder->stamp, 0, SB_STAMP_PLACEHOLDER);
                index_sign_late(handle, node->hash, cell_number);
                return true;
        }
        /* Another cell is the node's, or the node is gone: for good. So each process that meets
         * this placeholder takes it out. */
        sb_limbo_begin(handle, &placeholder->block);
        /* R:publish. Nothing is put in; between DYING and the date, so that no link is left when
         * the era is read. Failed: another process emptied the cell. */
        sb_cas64_full(sb_cell_at(segment, cell_number), word, 0);
        sb_limbo_date(handle, &placeholder->block);
        sb_index_heal_behind(handle, node->hash, cell_number);
        return false;
}

uint32_t sb_index_confirm_all(struct sb_handle *handle, uint64_t hash, uint64_t node, bool all)
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
        } while (all ? sb_path_next_of_all(segment, hash, &path)
                     : sb_path_next(segment, hash, &path));
        return confirmed;
}

int sb_index_insert(
        struct sb_handle *handle, uint64_t hash, uint64_t placeholder, uint64_t *ret_cell_number)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_path path = sb_path_first(segment, hash);
        uint32_t index;

        do {
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
        } while (sb_path_next_of_all(segment, hash, &path));
        return SB_E_FULL;
}

/* ---- floors ---- */

static void index_raise_floor_of(const struct sb_segment *segment, uint64_t home, uint64_t rev)
{
        struct sb_word64 *floor = &segment->floors[home];

        for (;;) {
                uint64_t word = sb_load_acquire(floor); /* A:floor. Only what the CAS expects. */

                /* R:floor > A:floor. Before the node is gone. */
                if (word >= rev || sb_cas64_full(floor, word, rev))
                        return;
        }
}

uint64_t sb_index_floor(const struct sb_segment *segment, uint64_t hash)
{
        /* A:floor. Read after the node is linked: then no removal of an older life can still raise
         * it unseen. */
        return sb_load_acquire(&segment->floors[sb_index_home(segment, hash)]);
}

void sb_index_raise_floor(const struct sb_segment *segment, uint64_t hash, uint64_t rev)
{
        index_raise_floor_of(segment, sb_index_home(segment, hash), rev);
}

/* A home's keys are those of which the hash's lower half lies in one part of 2^32; all parts are of
 * the same size, but for rounding. */
void sb_index_inherit_floor(
        const struct sb_segment *segment, uint32_t which, uint32_t count, uint64_t rev)
{
        uint64_t i = which, low = ((i << 32) + count - 1) / count,
                 high = (((i + 1) << 32) + count - 1) / count - 1, home;

        for (home = sb_index_home(segment, low); home <= sb_index_home(segment, high); home++)
                index_raise_floor_of(segment, home, rev);
}
