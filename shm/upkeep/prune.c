/* Pruning; see prune.h. */

#include "shm/upkeep/prune.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/budget.h"
#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/stamp.h"
#include "shm/upkeep/horizon.h"

/* Each further round means that somebody else got on; so many in a row mean a damaged segment, in
 * which nobody shall hang. */
#define ROUNDS_MAX 1024u

enum unlinked { UNLINKED, CHANGED, IN_HAND /* or kept */ };

/* Whether @version may be taken out: DYING by now. In somebody's hand (shm/stock.h) it is left to
 * him. */
static bool begin_unlink(struct sb_peer *peer, struct sb_version *version)
{
        uint32_t retire = 0;

        /* 0 again: he has let go of it just now. Then it must be DYING before it is unlinked, as
         * ever. */
        while (!retire && !sb_limbo_begin(peer, &version->block))
                retire = sb_load_acquire(&version->block.retire); /* A:retire. */
        if (retire == SB_RETIRE_HELD)
                return SB_FAULT(PRUNE_TAKES_HELD); /* his, too, who is in a transaction */
        return retire < SB_RETIRE_FREEING || SB_FAULT(PRUNE_TAKES_STOCK);
}

/* Take @version out from behind @successor, whose link to it was @link. CHANGED: look again. */
static enum unlinked unlink_version(struct sb_peer *peer, struct sb_version *successor,
        uint64_t link, struct sb_version *version)
{
        uint64_t own, flags = 0;

        if (!SB_FAULT(UNLINK_BEFORE_DYING) && !begin_unlink(peer, version))
                return IN_HAND;
        for (;;) {
                own = sb_pin_load(peer, &version->prev);
                /* The last of its chain needs no mark: nothing can be taken out behind it, so its
                 * link stays 0. */
                if (!(own & SB_OFFSET_MASK) || (own & SB_PREV_MARKED) ||
                        SB_FAULT(UNLINK_UNMARKED) ||
                        sb_cas64_full(&version->prev, own, own | SB_PREV_MARKED))
                        break;
        }
        /* A helper may still be about to set the link of a transaction's version to what it was
         * when it was not in yet. */
        if ((SB_SHAPE_KIND(successor->shape) & SB_VERSION_HAS_TXN) && !SB_FAULT(PREV_UNSETTLED))
                flags = SB_PREV_SETTLED;
        /* A:stamp. Births and what was aborted never counted. */
        if (SB_SHAPE_KIND(version->shape) != SB_VERSION_BIRTH &&
                sb_load_acquire(&version->stamp) != SB_STAMP_ABORTED && !SB_FAULT(TRIM_UNMARKED))
                flags |= SB_PREV_TRIMMED;
        flags |= (link | own) & SB_PREV_TRIMMED;
        if (!sb_cas64_full(&successor->prev, link, (own & SB_OFFSET_MASK) | flags))
                return CHANGED;
        if (SB_FAULT(UNLINK_BEFORE_DYING))
                sb_limbo_begin(peer, &version->block);
        sb_limbo_date(peer, &version->block);
        return UNLINKED;
}

/* One walk down. -1: the chain changed under us; else whether something superseded was kept. Only
 * what is committed supersedes; what is aborted goes as soon as it is let go (its transaction sees
 * to it that somebody looks here then). */
static int prune_once(struct sb_peer *peer, struct sb_version *head, const struct sb_horizon *view,
        const struct sb_keeping *keeping)
{
        struct sb_version *holder = head; /* of the link that we follow */
        uint64_t newer = 0, link,
                 steps = 0; /* newer: stamp of the next newer committed one, or 0 */
        uint64_t number;    /* of the newest committed one so far */
        struct sb_settled settled;
        int kept = 0;

        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_BIRTH)
                return 0;
        settled = sb_txn_settle(peer, head);
        number = settled.outcome == SB_TXN_COMMITTED;
        if (settled.outcome == SB_TXN_COMMITTED ||
                (SB_FAULT(PRUNE_BY_ABORTED) && settled.outcome == SB_TXN_ABORTED))
                newer = settled.stamp ? settled.stamp : SB_STAMP_BIRTH;
        for (;;) {
                struct sb_version *version;
                enum unlinked r = IN_HAND;
                bool aborted, going, ruled = false;
                uint64_t stamp;

                link = sb_pin_load(peer, &holder->prev);
                if ((link & SB_PREV_MARKED) || steps++ > peer->segment.geometry.size / SB_BLOCK_MIN)
                        return -1;
                version = link & SB_OFFSET_MASK
                                  ? sb_version_at(&peer->segment, link & SB_OFFSET_MASK)
                                  : NULL;
                if (!version)
                        return kept;
                /* A:stamp. Set before its successor was installed. */
                stamp = sb_load_acquire(&version->stamp);
                aborted = stamp == SB_STAMP_ABORTED;
                /* One that is marked goes, whatever our view, perhaps an older one, says: its
                 * unlinker may have stopped. */
                going = sb_pin_load(peer, &version->prev) & SB_PREV_MARKED;
                if (!going && !aborted && newer && !sb_view_needs(view, stamp, newer))
                        ruled = keeping && SB_SHAPE_KIND(version->shape) != SB_VERSION_BIRTH &&
                                sb_rules_keep(keeping, number + 1, newer);
                if (going || aborted ||
                        (newer && !ruled &&
                                (SB_SHAPE_KIND(version->shape) == SB_VERSION_BIRTH ||
                                        !sb_view_needs(view, stamp, newer))))
                        r = unlink_version(peer, holder, link, version);
                if (r == CHANGED)
                        return -1;
                if (r == UNLINKED)
                        continue;
                if (ruled) {
                        if (!sb_history_count(peer, keeping, version, newer))
                                return kept;
                }
                kept |= newer && !aborted && !ruled;
                holder = version;
                number += !aborted;
                if (!aborted)
                        newer = stamp;
        }
}

bool sb_prune_cell(struct sb_peer *peer, uint64_t cell_number, const struct sb_horizon *view)
{
        struct sb_cell64 *cell = sb_cell_at(&peer->segment, cell_number);
        uint32_t round;

        for (round = 0; round < ROUNDS_MAX; round++) {
                uint64_t word = cell ? sb_pin_load(peer, cell) : 0;
                struct sb_version *head = sb_version_at(&peer->segment, word & SB_OFFSET_MASK);
                struct sb_node *node = head ? sb_node_at(&peer->segment, head->node) : NULL;
                struct sb_keeping keeping;
                int kept;

                if (!word || !head || !node || (word & SB_CELL_FROZEN))
                        return false;
                if (word & SB_CELL_KEPT)
                        sb_rules_keeping(peer, node, peer->horizon.bound, &keeping);
                kept = prune_once(peer, head, view, word & SB_CELL_KEPT ? &keeping : NULL);
                if (kept >= 0)
                        return kept;
                peer->counters.retried++;
        }
        return true;
}

bool sb_prune_behind(struct sb_peer *peer, struct sb_version *version, struct sb_version *old)
{
        static const struct sb_horizon nothing = {.bound = 0};
        /* A:clock. Still the bound: no cut was taken since the view, so it says who needs what was
         * just replaced. If not, one stamp for both versions means that no cut can tell them apart.
         */
        bool current = sb_load_acquire(&peer->segment.super->clock) == peer->horizon.bound;
        uint64_t link = sb_pin_load(peer, &version->prev);

        if ((link & SB_PREV_MARKED) || (link & SB_OFFSET_MASK) != sb_offset_of(&peer->segment, old))
                return false;
        /* A:stamp, both. */
        if (SB_SHAPE_KIND(old->shape) != SB_VERSION_BIRTH &&
                sb_view_needs(current ? &peer->horizon : &nothing, sb_load_acquire(&old->stamp),
                        sb_load_acquire(&version->stamp)))
                return false;
        return unlink_version(peer, version, link, old) == UNLINKED;
}
