/*
 * Validation; see validate.h.
 *
 * A key is looked at from its cell down its chain, to the first version that says: unchanged, or
 * changed, or in the way. A range is walked in the ordered index.
 */

#include "shm/mvcc/validate.h"

#include <string.h>

#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/stamp.h"

/* One range, unpacked. */
struct range {
        const unsigned char *low, *high;
        uint32_t low_len, high_len, flags;
};

/* ---- one key ---- */

static bool validate_is_own(
        const struct sb_validation *validation, const struct sb_segment *segment, uint64_t stamp)
{
        return sb_stamp_is_intent(stamp) &&
               (stamp & SB_OFFSET_MASK) == sb_offset_of(segment, validation->commit);
}

static bool validate_is_in_the_way(struct sb_settled settled)
{
        return settled.outcome == SB_OUTCOME_UNDECIDED && !SB_FAULT(SER_FOREIGN_AS_BEFORE);
}

/* Whether the way down from @word led past what was taken out meanwhile, as in sb_stamp_lasts(). */
static bool validate_missed(const struct sb_word64 *cell, uint64_t word)
{
        return sb_load_acquire(cell) != word && !SB_FAULT(TXN_OLD_BELOW); /* A:publish. */
}

/* What one look at a cell says: a verdict about its key, or that the chain changed meanwhile. */
#define LOOK_AGAIN (-1)

/* Whether the key in @cell is what it was at the cut; a cell without that key is no change. The key
 * is named by its node, or by its bytes. */
static int validate_look_once(struct sb_handle *handle, struct sb_validation *validation,
        struct sb_word64 *cell, uint64_t node, const void *key, uint32_t key_len)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t word = sb_pin_load(handle, cell);
        struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);
        uint64_t left = sb_damage_bound(segment);

        if ((word & SB_CELL_FROZEN) || !version || !sb_version_fits(segment, version) ||
                (key ? !sb_version_is(segment, version, key, key_len) : version->node != node))
                return SB_VERDICT_VALID;
        /* Bound: damage. A chain that goes round. It counts as changed: nothing is committed by a
         * guess. */
        for (; version; version = sb_version_at(
                                segment, sb_pin_load(handle, &version->prev) & SB_OFFSET_MASK)) {
                uint64_t stamp = sb_pin_load(handle, &version->stamp);
                struct sb_settled settled;

                if (!sb_damage_step(handle, &left))
                        return SB_VERDICT_CHANGED;
                if (SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER)
                        return SB_VERDICT_VALID;
                /* What an own intent replaces was in the cut when the owner looked, and by its
                 * revision was still the same when the intent came in. */
                if (validate_is_own(validation, segment, stamp))
                        return SB_VERDICT_VALID;
                settled = sb_stamp_settle(handle, version);
                if (validate_is_in_the_way(settled)) {
                        validation->met = version;
                        return SB_VERDICT_IN_THE_WAY;
                }
                if (settled.outcome != SB_OUTCOME_COMMITTED)
                        continue;
                if (settled.stamp > validation->commit->cut)
                        return SB_VERDICT_CHANGED;
                break;
        }
        return validate_missed(cell, word) ? LOOK_AGAIN : SB_VERDICT_VALID;
}

static enum sb_verdict validate_look(struct sb_handle *handle, struct sb_validation *validation,
        struct sb_word64 *cell, uint64_t node, const void *key, uint32_t key_len)
{
        int r;

        do
                r = validate_look_once(handle, validation, cell, node, key, key_len);
        while (r == LOOK_AGAIN);
        return (enum sb_verdict)r;
}

static enum sb_verdict validate_point(
        struct sb_handle *handle, struct sb_validation *validation, const struct range *range)
{
        struct sb_segment *segment = &handle->segment;
        uint64_t hash = sb_hash_key(range->low, range->low_len, segment->seed);
        struct sb_probe probe = sb_probe_first(segment, hash);
        struct sb_word64 *cell;

        while ((cell = sb_probe_next(segment, &probe))) {
                enum sb_verdict verdict =
                        validate_look(handle, validation, cell, 0, range->low, range->low_len);

                if (verdict != SB_VERDICT_VALID)
                        return verdict;
        }
        return SB_VERDICT_VALID;
}

/* ---- a range of keys ---- */

/* A node without a cell is not made yet, or is gone: there is no version to look at. */
static enum sb_verdict validate_node(
        struct sb_handle *handle, struct sb_validation *validation, struct sb_node *node)
{
        struct sb_word64 *cell = sb_cell_at(&handle->segment, sb_pin_load(handle, &node->cell));

        if (!cell || SB_FAULT(SER_SEEN_ONLY))
                return SB_VERDICT_VALID;
        return validate_look(
                handle, validation, cell, sb_offset_of(&handle->segment, node), NULL, 0);
}

static bool validate_ends_before(const struct range *range, struct sb_node_key key)
{
        return !(range->flags & SB_RANGE_NO_END) &&
               sb_bytes_compare(key.bytes, key.len, range->high, range->high_len) >= 0;
}

/* The keys as they are now, from validation->node on, or from the range's beginning. */
static enum sb_verdict validate_range(
        struct sb_handle *handle, struct sb_validation *validation, const struct range *range)
{
        struct sb_node_key from = {.bytes = range->low, .len = range->low_len};
        struct sb_order_cursor cursor;
        struct sb_node *node = validation->node;

        /* The one at which another try was disturbed is looked at again. */
        if (node)
                from = sb_node_key(&handle->segment, node);
        if (node && !from.bytes)
                sb_damage_note(handle);
        for (node = sb_order_first(handle, from.bytes, from.len, false, &cursor); node;
                node = sb_order_next(handle, &cursor)) {
                struct sb_node_key key = sb_node_key(&handle->segment, node);
                enum sb_verdict verdict;

                if (!key.bytes) {
                        sb_damage_note(handle);
                        break;
                }
                if (validate_ends_before(range, key))
                        return SB_VERDICT_VALID;
                validation->node = node;
                verdict = validate_node(handle, validation, node);
                if (verdict != SB_VERDICT_VALID)
                        return verdict;
        }
        /* Where the walk met damage, what lies behind is not known. */
        return sb_damage_met(handle) ? SB_VERDICT_CHANGED : SB_VERDICT_VALID;
}

/* ---- all ranges ---- */

/* The range at @at; the packed ranges end at @end. Return: where the next one begins; NULL: it does
 * not fit, the segment is damaged. */
static const unsigned char *validate_unpack(
        const unsigned char *at, const unsigned char *end, struct range *ret)
{
        uint16_t head[3];

        if (end - at < (ptrdiff_t)SB_RANGE_HEAD)
                return NULL;
        memcpy(head, at, SB_RANGE_HEAD);
        ret->low = at + SB_RANGE_HEAD;
        ret->low_len = head[0];
        ret->high_len = head[1];
        ret->flags = head[2];
        ret->high = ret->low + ret->low_len;
        at = ret->high + ret->high_len;
        return at > end ? NULL : at;
}

void sb_validate_begin(const struct sb_descriptor *descriptor,
        const struct sb_descriptor_lists *lists, struct sb_validation *ret)
{
        *ret = (struct sb_validation){.commit = descriptor,
                .at = lists->ranges,
                .end = lists->ranges + lists->ranges_len,
                .range_count = lists->range_count};
}

enum sb_verdict sb_validate(struct sb_handle *handle, struct sb_validation *validation)
{
        const unsigned char *next;
        struct range range;

        for (; validation->range < validation->range_count; validation->range++) {
                enum sb_verdict verdict;

                next = validate_unpack(validation->at, validation->end, &range);
                if (!next) {
                        sb_damage_note(handle);
                        return SB_VERDICT_CHANGED;
                }
                verdict = range.flags & SB_RANGE_POINT ? validate_point(handle, validation, &range)
                                                       : validate_range(handle, validation, &range);
                if (verdict != SB_VERDICT_VALID)
                        return verdict;
                validation->at = next;
                validation->node = NULL;
        }
        return SB_VERDICT_VALID;
}
