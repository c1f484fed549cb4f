/* Finding versions, from the key's cell down its chain; see find.h. */

#include "shm/mvcc/find.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/stamp.h"

/* ---- the newest ---- */

/* Whether an undecided transaction may turn out to be committed at a cut that was taken already. If
 * it has no stamp, and does not say STAMPING, it will be later than all that the caller has seen.
 */
static bool find_may_be_past(struct sb_settled settled)
{
        return settled.outcome == SB_OUTCOME_UNDECIDED && settled.stamp &&
               !SB_FAULT(GET_SER_AS_BEFORE);
}

/* Down from an intent or an aborted version. False: *ret_version was not the newest at any one
 * moment, look again. */
static __attribute__((noinline)) bool find_below(struct sb_handle *handle,
        const struct sb_word64 *cell, uint64_t word, struct sb_version *head,
        struct sb_version **ret_version)
{
        struct sb_settled settled;
        struct sb_version *version = sb_stamp_effective(handle, head, &settled);

        if (find_may_be_past(settled)) {
                sb_help_version(handle, head);
                version = sb_stamp_effective(handle, head, &settled);
        }
        *ret_version =
                version && SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER ? version : NULL;
        return version == head || sb_stamp_lasts(handle, cell, word, head, settled);
}

static bool find_counts(struct sb_handle *handle, struct sb_version *head)
{
        if (SB_FAULT(GET_NO_STAMP) && !sb_load_acquire(&head->stamp)) /* A:stamp. */
                return true;
        return !(sb_stamp(handle, head) & SB_STAMP_INTENT);
}

/* The version in this cell, if it is the key's newest that counts. */
static struct sb_version *find_newest_in(
        struct sb_handle *handle, const struct sb_word64 *cell, const void *key, uint32_t key_len)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_version *version, *head;
        uint64_t word;

        do {
                word = sb_pin_load(handle, cell);
                head = version = sb_version_at(segment, word & SB_OFFSET_MASK);
                if (SB_UNLIKELY((word & SB_CELL_FROZEN) || !version) ||
                        SB_UNLIKELY(!sb_version_is(segment, version, key, key_len)) ||
                        SB_UNLIKELY(SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER))
                        return NULL;
        } while (SB_UNLIKELY(!find_counts(handle, head)) &&
                 !find_below(handle, cell, word, head, &version));
        return version;
}

struct sb_version *sb_find_newest(
        struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash)
{
        struct sb_probe probe = sb_probe_first(&handle->segment, hash);
        struct sb_word64 *cell;

        while ((cell = sb_probe_next(&handle->segment, &probe))) {
                struct sb_version *version = find_newest_in(handle, cell, key, key_len);

                if (SB_LIKELY(version))
                        return version;
        }
        return NULL;
}

uint64_t sb_find_hash_any(const struct sb_handle *handle, const void *key, uint64_t key_len)
{
        return sb_hash_key(key, key_len, handle->segment.seed);
}

/* ---- at a cut ---- */

/* What a version is and when it was committed, in one look: it may be decided at any time. */
static inline struct sb_settled find_settle(struct sb_handle *handle, struct sb_version *version)
{
        uint64_t stamp = sb_load_acquire(&version->stamp); /* A:stamp. */

        if (SB_UNLIKELY((int64_t)stamp <= 0))
                return sb_stamp_settle(handle, version);
        return (struct sb_settled){.outcome = SB_OUTCOME_COMMITTED, .stamp = stamp};
}

/* Whether an undecided transaction may turn out to be in the cut. Without a stamp yet, it will have
 * one above the cut. */
static bool find_may_be_in(struct sb_settled settled, uint64_t cut)
{
        return SB_UNLIKELY(settled.outcome == SB_OUTCOME_UNDECIDED) && settled.stamp &&
               settled.stamp <= cut && !SB_FAULT(READ_SER_AS_BEFORE);
}

/* Down the chain from @version, its head, to the first one that is in the cut. */
static struct sb_version *find_newest_at(
        struct sb_handle *handle, struct sb_version *version, uint64_t cut)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t left = sb_damage_bound(segment);

        /* Bound: damage. A chain that goes round. */
        while (version && sb_version_fits(segment, version) && sb_damage_step(handle, &left)) {
                struct sb_settled settled;

                if (SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER)
                        return NULL;
                settled = find_settle(handle, version);
                if (settled.outcome == SB_OUTCOME_COMMITTED && settled.stamp <= cut)
                        return version;
                if (find_may_be_in(settled, cut)) {
                        sb_help_version(handle, version);
                        continue;
                }
                version = sb_version_at(
                        segment, sb_pin_load(handle, &version->prev) & SB_OFFSET_MASK);
        }
        return NULL;
}

struct sb_version *sb_find_in_cell(
        struct sb_handle *handle, const struct sb_word64 *cell, uint64_t node, uint64_t cut)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_version *head;
        uint64_t word;

        /* No cell yet, or gone: the key had no value at a cut that is announced. */
        if (!cell)
                return NULL;
        word = sb_pin_load(handle, cell);
        head = word && !(word & SB_CELL_FROZEN) ? sb_version_at(segment, word & SB_OFFSET_MASK)
                                                : NULL;
        return head && (head->node == node || SB_FAULT(FIND_NODE_UNASKED))
                       ? find_newest_at(handle, head, cut)
                       : NULL;
}

struct sb_version *sb_find_in_node(struct sb_handle *handle, struct sb_node *node, uint64_t cut)
{
        const struct sb_segment *segment = &handle->segment;
        const struct sb_word64 *cell = sb_cell_at(segment, sb_pin_load(handle, &node->cell));

        return sb_find_in_cell(handle, cell, sb_offset_of(segment, node), cut);
}

struct sb_version *sb_find_at(
        struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash, uint64_t cut)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_probe probe = sb_probe_first(segment, hash);
        struct sb_word64 *cell;

        while ((cell = sb_probe_next(segment, &probe))) {
                uint64_t word = sb_pin_load(handle, cell);
                struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);

                /* A frozen cell: no value at a cut that is announced. */
                if ((word & SB_CELL_FROZEN) || !version ||
                        !sb_version_is(segment, version, key, key_len))
                        continue;
                version = find_newest_at(handle, version, cut);
                if (version)
                        return version;
        }
        return NULL;
}

/* ---- its node ---- */

struct sb_node *sb_find_node(
        struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_probe probe = sb_probe_first(segment, hash);
        struct sb_word64 *cell;

        while ((cell = sb_probe_next(segment, &probe))) {
                uint64_t word = sb_pin_load(handle, cell);
                struct sb_version *head = sb_version_at(segment, word & SB_OFFSET_MASK);

                /* The node of a frozen cell may have left the ordered index, and that of a
                 * placeholder may be about to. */
                if (head && !(word & SB_CELL_FROZEN) &&
                        sb_version_is(segment, head, key, key_len) &&
                        SB_SHAPE_KIND(head->shape) != SB_VERSION_PLACEHOLDER)
                        return sb_node_at(segment, sb_once(head->node));
        }
        return NULL;
}
