/* Finding keys; see walk.h. */
#include "walk.h"

#include "base/fault.h"
#include "base/hash.h"
#include "epoch.h"
#include "index.h"
#include "order.h"
#include "snapshot.h"
#include "txn.h"

/* Down from an intent or an aborted version. An undecided one that is stamped may be committed at a
 * cut that was taken already: it is helped; without a stamp it will be later than whatever the
 * caller has seen. False: that was not the newest all the while, look again. */
static __attribute__((noinline)) bool below(struct sb_peer *peer, const struct sb_cell64 *cell,
        uint64_t word, struct sb_version *head, struct sb_version **ret_version)
{
        struct sb_settled settled;
        struct sb_version *version = sb_txn_effective(peer, head, &settled);

        if (settled.outcome == SB_TXN_UNDECIDED && settled.stamp && !SB_FAULT(GET_SER_AS_BEFORE)) {
                sb_txn_help(peer, head);
                version = sb_txn_effective(peer, head, &settled);
        }
        *ret_version =
                version && SB_SHAPE_KIND(version->shape) != SB_VERSION_BIRTH ? version : NULL;
        return version == head || sb_txn_lasts(peer, cell, word, head, settled);
}

/* The version in this cell, if it is the key's newest that counts. */
static struct sb_version *newest_in(
        struct sb_peer *peer, const struct sb_cell64 *cell, const void *key, uint32_t key_len)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_version *version, *head;
        uint64_t word;

        do {
                word = sb_load_pinned(peer, cell);
                head = version = sb_version_at(segment, word & SB_OFFSET_MASK);
                if (SB_UNLIKELY((word & SB_CELL_FROZEN) || !version) ||
                        SB_UNLIKELY(!sb_version_is(segment, version, key, key_len)) ||
                        SB_UNLIKELY(SB_SHAPE_KIND(version->shape) == SB_VERSION_BIRTH))
                        return NULL;
                if (SB_FAULT(GET_NO_STAMP) && !sb_load_acquire(&version->stamp)) /* A:stamp. */
                        return version;
        } while (SB_UNLIKELY(sb_stamp(peer, head) & SB_STAMP_INTENT) &&
                 !below(peer, cell, word, head, &version));
        return version;
}

struct sb_version *sb_find_newest(
        struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash)
{
        struct sb_probe probe = sb_probe_first(&peer->segment, hash);
        struct sb_cell64 *cell;

        while ((cell = sb_probe_next(&peer->segment, &probe)) != NULL) {
                struct sb_version *version = newest_in(peer, cell, key, key_len);

                if (SB_LIKELY(version))
                        return version;
        }
        return NULL;
}

uint64_t sb_find_hash_any(const struct sb_peer *peer, const void *key, uint64_t key_len)
{
        return sb_hash_key(key, key_len, peer->segment.seed);
}

struct sb_node *sb_walk_seek(struct sb_peer *peer, const void *key, uint32_t key_len, bool after)
{
        return sb_order_seek(peer, key, key_len, after);
}

struct sb_node *sb_walk_below(
        struct sb_peer *peer, const void *key, uint32_t key_len, bool inclusive)
{
        return sb_order_below(peer, key, key_len, inclusive);
}

struct sb_node *sb_walk_next(struct sb_peer *peer, struct sb_node *node, bool *ret_gone)
{
        uint64_t word = sb_load_pinned(peer, &node->next[0]);

        *ret_gone = word & SB_PREV_MARKED;
        return word & SB_OFFSET_MASK ? sb_node_at(&peer->segment, word & SB_OFFSET_MASK) : NULL;
}

uint32_t sb_walk_fetch(struct sb_peer *peer, struct sb_node *node, uint32_t count)
{
        const struct sb_cell64 *cells[SB_WALK_FETCH];
        uint32_t found = 0, i;
        bool gone;

        if (count > SB_WALK_FETCH)
                count = SB_WALK_FETCH;
        /* The nodes themselves come one after the other: each knows the next. */
        while (found < count && (node = sb_walk_next(peer, node, &gone)) != NULL) {
                /* Relaxed, both: hints of what to fetch. */
                cells[found] = sb_cell_at(&peer->segment, sb_load_relaxed(&node->cell));
                if (cells[found])
                        __builtin_prefetch(cells[found]);
                found++;
        }
        for (i = 0; i < found; i++) {
                uint64_t at = cells[i] ? sb_load_relaxed(cells[i]) & SB_OFFSET_MASK : 0;

                if (at) {
                        __builtin_prefetch(peer->segment.base + at);
                        __builtin_prefetch(peer->segment.base + at + SB_LINE);
                }
        }
        return found;
}

/* Down the chain whose head @word names, to the first version that is in the cut. */
static struct sb_version *newest_at(struct sb_peer *peer, uint64_t word, uint64_t cut)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t steps = segment->geometry.size / SB_BLOCK_MIN; /* more only in a damaged segment */
        struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);

        while (version && sb_version_fits(segment, version) && steps--) {
                struct sb_settled settled = {
                        .outcome = SB_TXN_COMMITTED,
                        .stamp = sb_load_acquire(&version->stamp), /* A:stamp. */
                };

                if (SB_SHAPE_KIND(version->shape) == SB_VERSION_BIRTH)
                        return NULL;
                /* One look says both, what it is and when: it may be decided any time. */
                if (SB_UNLIKELY((int64_t)settled.stamp <= 0))
                        settled = sb_txn_settle(peer, version);
                if (settled.outcome == SB_TXN_COMMITTED && settled.stamp <= cut)
                        return version;
                /* Without a stamp yet it will have one above the cut. */
                if (SB_UNLIKELY(settled.outcome == SB_TXN_UNDECIDED) && settled.stamp &&
                        settled.stamp <= cut && !SB_FAULT(READ_SER_AS_BEFORE)) {
                        sb_txn_help(peer, version);
                        continue;
                }
                version = sb_version_at(
                        segment, sb_load_pinned(peer, &version->prev) & SB_OFFSET_MASK);
        }
        return NULL;
}

struct sb_version *sb_walk_at(struct sb_peer *peer, struct sb_node *node, uint64_t cut)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t at = sb_offset_of(segment, node), word, own = sb_load_pinned(peer, &node->cell);
        struct sb_cell64 *cell = sb_cell_at(segment, own);
        struct sb_version *head;

        /* No cell yet, or gone: then it had no value at a cut that is announced, or none any more.
         */
        if (!cell)
                return NULL;
        word = sb_load_pinned(peer, cell);
        head = word && !(word & SB_CELL_FROZEN) ? sb_version_at(segment, word & SB_OFFSET_MASK)
                                                : NULL;
        return head && head->node == at ? newest_at(peer, word, cut) : NULL;
}

struct sb_version *sb_find_at(
        struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash, uint64_t cut)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_probe probe = sb_probe_first(segment, hash);
        struct sb_cell64 *cell;

        while ((cell = sb_probe_next(segment, &probe)) != NULL) {
                uint64_t word = sb_load_pinned(peer, cell);
                struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);

                /* Births and frozen cells: no value at a cut that is announced. */
                if ((word & SB_CELL_FROZEN) || !version ||
                        !sb_version_is(segment, version, key, key_len))
                        continue;
                version = newest_at(peer, word, cut);
                if (version)
                        return version;
        }
        return NULL;
}
