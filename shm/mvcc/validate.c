/* Validation; see validate.h. */

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
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/stamp.h"

/* One range, unpacked. */
struct range {
        const unsigned char *low, *high;
        uint32_t low_len, high_len, flags;
};

/* What one look at a cell says: a verdict about its key, or that the chain changed meanwhile. */
#define LOOK_AGAIN (-1)

/* Whether the key in @cell is what it was at the cut; a cell without that key is no change. The key
 * is named by its node, or by its bytes. */
static int look_once(struct sb_peer *peer, struct sb_validation *validation, struct sb_cell64 *cell,
        uint64_t node, const void *key, uint32_t key_len)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t own = sb_offset_of(segment, validation->commit), word = sb_pin_load(peer, cell);
        struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);
        uint64_t steps = segment->geometry.size / SB_BLOCK_MIN;

        if ((word & SB_CELL_FROZEN) || !version || !sb_version_fits(segment, version) ||
                (key ? !sb_version_is(segment, version, key, key_len) : version->node != node))
                return SB_VERDICT_VALID;
        for (; version && steps--; version = sb_version_at(segment,
                                           sb_pin_load(peer, &version->prev) & SB_OFFSET_MASK)) {
                uint64_t stamp = sb_pin_load(peer, &version->stamp);
                struct sb_settled settled;

                if (SB_SHAPE_KIND(version->shape) == SB_VERSION_BIRTH)
                        return SB_VERDICT_VALID;
                /* An own intent: what it replaces was in the cut when the owner looked, and by its
                 * revision still was the same when it came in. */
                if (sb_stamp_is_intent(stamp) && (stamp & SB_OFFSET_MASK) == own)
                        return SB_VERDICT_VALID;
                settled = sb_txn_settle(peer, version);
                if (settled.outcome == SB_TXN_UNDECIDED && !SB_FAULT(SER_FOREIGN_AS_BEFORE)) {
                        validation->met = version;
                        return SB_VERDICT_IN_THE_WAY;
                }
                if (settled.outcome != SB_TXN_COMMITTED)
                        continue;
                if (settled.stamp > validation->commit->cut)
                        return SB_VERDICT_CHANGED;
                break;
        }
        /* A:publish. Under what was aborted: as sb_txn_lasts() says. */
        return sb_load_acquire(cell) == word || SB_FAULT(TXN_OLD_BELOW) ? SB_VERDICT_VALID
                                                                        : LOOK_AGAIN;
}

static enum sb_verdict look(struct sb_peer *peer, struct sb_validation *validation,
        struct sb_cell64 *cell, uint64_t node, const void *key, uint32_t key_len)
{
        int r;

        do
                r = look_once(peer, validation, cell, node, key, key_len);
        while (r == LOOK_AGAIN);
        return (enum sb_verdict)r;
}

static enum sb_verdict validate_point(
        struct sb_peer *peer, struct sb_validation *validation, const struct range *range)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t hash = sb_hash_key(range->low, range->low_len, segment->seed);
        struct sb_probe probe = sb_probe_first(segment, hash);
        struct sb_cell64 *cell;

        while ((cell = sb_probe_next(segment, &probe)) != NULL) {
                enum sb_verdict verdict =
                        look(peer, validation, cell, 0, range->low, range->low_len);

                if (verdict != SB_VERDICT_VALID)
                        return verdict;
        }
        return SB_VERDICT_VALID;
}

static bool is_behind(const struct sb_segment *segment, const struct sb_node *node, const void *key,
        uint32_t key_len)
{
        const unsigned char *own = sb_node_key(segment, node);

        return own && sb_bytes_compare(own, node->key_len, key, key_len) > 0;
}

/* From validation->node on, or from the range's beginning. */
static enum sb_verdict validate_range(
        struct sb_peer *peer, struct sb_validation *validation, const struct range *range)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_node *node = validation->node;

        if (!node)
                node = sb_order_seek(peer, range->low, range->low_len, false);
        while (node) {
                const unsigned char *key = sb_node_key(segment, node);
                struct sb_node *next;
                struct sb_cell64 *cell;
                enum sb_verdict verdict;
                bool gone;

                if (!key)
                        return SB_VERDICT_VALID; /* damaged */
                if (!(range->flags & SB_RANGE_NO_END) &&
                        sb_bytes_compare(key, node->key_len, range->high, range->high_len) >= 0)
                        return SB_VERDICT_VALID;
                cell = sb_cell_at(segment, sb_pin_load(peer, &node->cell));
                validation->node = node;
                verdict =
                        cell && !SB_FAULT(SER_SEEN_ONLY)
                                ? look(peer, validation, cell, sb_offset_of(segment, node), NULL, 0)
                                : SB_VERDICT_VALID;
                if (verdict != SB_VERDICT_VALID)
                        return verdict;
                next = sb_order_next(peer, node, &gone);
                if (gone)
                        next = sb_order_seek(peer, key, node->key_len, true);
                else if (next && !is_behind(segment, next, key, node->key_len))
                        return SB_VERDICT_VALID; /* damaged: it could go round for ever */
                node = next;
        }
        return SB_VERDICT_VALID;
}

/* The range at @at, of which the bytes end at @end. NULL: it does not fit, the segment is damaged;
 * else where the next one begins. */
static const unsigned char *unpack(
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

void sb_validate_begin(const struct sb_commit *commit, struct sb_validation *ret)
{
        const unsigned char *at = (const unsigned char *)&commit->write[commit->write_count];

        *ret = (struct sb_validation){.commit = commit, .at = at, .end = at + commit->ranges_len};
}

enum sb_verdict sb_validate(struct sb_peer *peer, struct sb_validation *validation)
{
        const unsigned char *next;
        struct range range;

        for (; validation->range < validation->commit->range_count; validation->range++) {
                enum sb_verdict verdict;

                next = unpack(validation->at, validation->end, &range);
                if (!next)
                        break;
                verdict = range.flags & SB_RANGE_POINT ? validate_point(peer, validation, &range)
                                                       : validate_range(peer, validation, &range);
                if (verdict != SB_VERDICT_VALID)
                        return verdict;
                validation->at = next;
                validation->node = NULL;
        }
        return SB_VERDICT_VALID;
}
