/* Cuts, snapshots, `safe` and pruning; see snapshot.h. */
#include "snapshot.h"

#include "base/fault.h"
#include "base/result.h"
#include "epoch.h"
#include "history.h"
#include "mark.h"
#include "node.h"
#include "retire.h"
#include "rules.h"
#include "slab.h"
#include "txn.h"

uint64_t sb_stamp(struct sb_peer *peer, struct sb_version *version)
{
        /* A:stamp. */
        uint64_t stamp = sb_load_acquire(&version->stamp);

        if (SB_LIKELY((int64_t)stamp > 0))
                return stamp;
        if (stamp) {
                struct sb_settled settled = sb_txn_settle(peer, version);

                return settled.outcome == SB_TXN_COMMITTED ? settled.stamp : SB_STAMP_ABORTED;
        }
        /* A:clock. Read after the install, which we have done or seen: no cut that was taken before
         * can contain it. */
        sb_cas64_full(&version->stamp, 0, sb_load_acquire(&peer->segment.super->clock));
        return sb_load_acquire(&version->stamp); /* A:stamp. */
}

uint64_t sb_cut_take(struct sb_peer *peer)
{
        struct sb_cell64 *clock = &peer->segment.super->clock;
        /* A:clock. */
        uint64_t cut = sb_load_acquire(clock);

        /* R:clock > A:clock. Failed: somebody else advanced it, which serves as well. */
        sb_cas64_full(clock, cut, cut + 1);
        return cut;
}

/* Each further round means that somebody else got on; so many in a row mean a damaged segment, in
 * which nobody shall hang. */
#define ROUNDS_MAX 1024u

/* Whatever an operation slot shows as being written gets its stamp. */
static void resolve_slot(struct sb_peer *peer, struct sb_client *client)
{
        uint64_t at = sb_load_pinned(peer, &client->operation);
        struct sb_node *node = at ? sb_node_at(&peer->segment, at) : NULL;
        struct sb_commit *commit;
        struct sb_version *head;
        struct sb_cell64 *cell;

        if (at & SB_OPERATION_COMMIT) {
                commit = SB_FAULT(SAFE_SKIPS_TXN) ? NULL : sb_commit_at(&peer->segment, at);
                if (commit)
                        sb_txn_resolve(peer, commit);
                return;
        }
        if (!node)
                return;
        /* A node that was noted and never linked is freed at once when its maker is reaped. Another
         * node's cell does no harm. */
        sb_model_unchecked_begin();
        cell = sb_cell_at(&peer->segment, sb_load_pinned(peer, &node->cell));
        sb_model_unchecked_end();
        head = cell ? sb_version_at(&peer->segment, sb_load_pinned(peer, cell) & SB_OFFSET_MASK)
                    : NULL;
        /* Only the newest can be unstamped: a successor is installed over what is stamped alone. */
        if (head && head->node == at && SB_SHAPE_KIND(head->shape) != SB_VERSION_BIRTH)
                sb_stamp(peer, head);
}

void sb_safe_raise(struct sb_peer *peer)
{
        struct sb_superblock *super = peer->segment.super;
        uint64_t cut = sb_cut_take(peer), high, safe;
        uint32_t slot;

        sb_pin(peer);
        high = sb_load_acquire(&super->client_high); /* A:roster. */
        for (slot = 0; slot < high && slot < peer->segment.geometry.client_count &&
                       !SB_FAULT(SAFE_SKIPS_SLOTS);
                slot++)
                resolve_slot(peer, sb_client_at(&peer->segment, slot));
        sb_unpin(peer);
        for (;;) {
                safe = sb_load_acquire(&super->safe); /* A:safe. */
                /* R:safe > A:safe. */
                if (safe >= cut || sb_cas64_full(&super->safe, safe, cut))
                        return;
        }
}

/* Whether an announcement is of a cut that nobody takes away. */
static bool is_cut(uint64_t word)
{
        return word > SB_SNAPSHOT_EVICTED && !(word & (SB_SNAPSHOT_PENDING | SB_SNAPSHOT_EVICTING));
}

/* An announcement word that is not in use. */
static int free_word(struct sb_peer *peer, uint32_t *ret_index)
{
        struct sb_cell64 *words = sb_client_snapshots(peer->client);
        uint32_t index = 0;

        /* Relaxed: the owner's own words; others only change what it has announced. */
        while (index < peer->segment.geometry.snapshot_count && sb_load_relaxed(&words[index]))
                index++;
        *ret_index = index;
        return index == peer->segment.geometry.snapshot_count ? SB_E_FULL : 0;
}

int sb_snapshot_open(struct sb_peer *peer, uint32_t *ret_index, uint64_t *ret_cut)
{
        struct sb_cell64 *words = sb_client_snapshots(peer->client);
        uint64_t pending, cut;
        uint32_t index;
        int r = free_word(peer, &index);

        if (r)
                return r;
        do {
                pending = SB_SNAPSHOT_PENDING | (sb_load_relaxed(&peer->client->opens) + 1);
                sb_store_relaxed(&peer->client->opens, pending & ~SB_SNAPSHOT_PENDING);
                if (SB_FAULT(CUT_BEFORE_ANNOUNCE)) {
                        cut = sb_cut_take(peer);
                        /* R:announce, too late: that is the fault. */
                        sb_exchange_full(&words[index], cut);
                        break;
                }
                /* R:announce > A:announce. A full barrier: announced before the cut is taken. */
                sb_exchange_full(&words[index], pending);
                cut = sb_cut_take(peer);
                if (!sb_cas64_full(&words[index], pending, cut))
                        /* A:announce. A pruner gave it its cut; or that was even taken away again.
                         */
                        cut = sb_load_acquire(&words[index]);
        } while (!is_cut(cut));
        *ret_index = index;
        *ret_cut = cut;
        return 0;
}

int sb_snapshot_open_at(struct sb_peer *peer, uint64_t cut, uint32_t *ret_index)
{
        uint32_t index;
        int r = free_word(peer, &index);

        if (r)
                return r;
        /* R:announce > A:announce. A full barrier: whoever is found to keep the cut behind this did
         * so when the last view without it was taken. */
        sb_exchange_full(&sb_client_snapshots(peer->client)[index], cut);
        *ret_index = index;
        return 0;
}

bool sb_snapshot_holds(const struct sb_peer *peer, uint32_t index, uint64_t cut)
{
        /* A:announce. Whoever took it away stored that before he pruned: what was read before this
         * look was whole. */
        return sb_load_acquire(&sb_client_snapshots(peer->client)[index]) == cut ||
               SB_FAULT(EVICT_NO_LOOK);
}

void sb_snapshot_close(struct sb_peer *peer, uint32_t index)
{
        /* Relaxed: the own word, in which what was taken away counts as little as it says. A:clock.
         */
        bool moved = sb_load_acquire(&peer->segment.super->clock) >
                     (sb_load_relaxed(&sb_client_snapshots(peer->client)[index]) &
                             ~SB_SNAPSHOT_EVICTING) +
                             1;

        /* R:announce. Reads in it are over. */
        sb_store_release(&sb_client_snapshots(peer->client)[index], 0);
        /* Later cuts were taken: pruners may have kept for this one what nobody needs any more. */
        if (moved)
                sb_retire_leave(peer);
}

static void add_cut(struct sb_view *view, uint64_t cut)
{
        uint32_t i;

        if (view->cut_count == SB_VIEW_CUTS_MAX) {
                /* Too many to tell apart: everything from the lowest of the last on counts as
                 * needed. */
                view->cuts_overflow = true;
                if (cut < view->cuts[view->cut_count - 1])
                        view->cuts[view->cut_count - 1] = cut;
                for (i = view->cut_count - 1; i && view->cuts[i - 1] > view->cuts[i]; i--) {
                        uint64_t swap = view->cuts[i];

                        view->cuts[i] = view->cuts[i - 1];
                        view->cuts[i - 1] = swap;
                }
                return;
        }
        for (i = view->cut_count; i && view->cuts[i - 1] > cut; i--)
                view->cuts[i] = view->cuts[i - 1];
        view->cuts[i] = cut;
        view->cut_count++;
}

static void read_announcement(struct sb_peer *peer, struct sb_cell64 *word, struct sb_view *view)
{
        uint64_t cut = sb_load_acquire(word); /* A:announce. */
        uint32_t rounds = 0;

        while (cut & SB_SNAPSHOT_PENDING) {
                if (SB_FAULT(PRUNE_PENDING_IGNORED))
                        return;
                if (rounds++ == ROUNDS_MAX) {
                        view->bound = 0; /* damaged: then nothing is pruned */
                        return;
                }
                sb_cas64_full(word, cut, sb_cut_take(peer));
                cut = sb_load_acquire(word); /* A:announce. */
        }
        /* Until it says EVICTED, somebody may be reading at it. */
        cut &= ~SB_SNAPSHOT_EVICTING;
        if (cut > SB_SNAPSHOT_EVICTED)
                add_cut(view, cut);
}

/* Marked cuts, each of which was announced by its maker until it was in the table. */
static void read_marks(struct sb_segment *segment, struct sb_view *view)
{
        uint64_t high = sb_load_acquire(&segment->super->mark_high), cut; /* A:mark. */
        uint32_t i;

        for (i = 0; i < high && i < segment->geometry.mark_count; i++)
                if (sb_mark_keeps(segment, i, &cut))
                        add_cut(view, cut);
}

void sb_view_take(struct sb_peer *peer, struct sb_view *ret)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t high;
        uint32_t slot, i;

        ret->cut_count = 0;
        ret->cuts_overflow = false;
        /* A:clock, A:observers, A:safe. First the bound: a snapshot that is announced after we
         * looked takes its cut at it or above. The clock before the observers: whoever becomes one
         * after we looked reads at a cut that is not below that clock. */
        ret->bound = sb_load_acquire(&segment->super->clock);
        if (sb_load_acquire(&segment->super->observers))             /* A:observers. */
                ret->bound = sb_load_acquire(&segment->super->safe); /* A:safe. */
        segment->os->membarrier(segment->os->context);
        if (SB_FAULT(PRUNE_MARKS_FIRST))
                read_marks(segment, ret);
        high = sb_load_acquire(&segment->super->client_high); /* A:roster. */
        for (slot = 0; slot < high && slot < segment->geometry.client_count &&
                       !SB_FAULT(PRUNE_IGNORES_SNAPSHOTS);
                slot++)
                for (i = 0; i < segment->geometry.snapshot_count; i++)
                        read_announcement(
                                peer, &sb_client_snapshots(sb_client_at(segment, slot))[i], ret);
        if (!SB_FAULT(PRUNE_MARKS_FIRST))
                read_marks(segment, ret);
}

bool sb_view_needs(const struct sb_view *view, uint64_t stamp, uint64_t successor)
{
        uint32_t i;

        if (stamp == successor)
                return false;
        if (successor > view->bound)
                return true;
        for (i = 0; i < view->cut_count; i++) {
                if (view->cuts[i] >= successor)
                        return false;
                if (view->cuts[i] >= stamp || (view->cuts_overflow && i == view->cut_count - 1))
                        return true;
        }
        return false;
}

enum unlinked { UNLINKED, CHANGED, IN_HAND /* or kept */ };

/* Whether @version may be taken out: DYING by now. In somebody's hand (shm/stock.h) it is left to
 * him. */
static bool begin_unlink(struct sb_peer *peer, struct sb_version *version)
{
        uint32_t retire = 0;

        /* 0 again: he has let go of it just now. Then it must be DYING before it is unlinked, as
         * ever. */
        while (!retire && !sb_retire_begin(peer, &version->block))
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
                own = sb_load_pinned(peer, &version->prev);
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
                sb_retire_begin(peer, &version->block);
        sb_retire_finish(peer, &version->block);
        return UNLINKED;
}

/* One walk down. -1: the chain changed under us; else whether something superseded was kept. Only
 * what is committed supersedes; what is aborted goes as soon as it is let go (its transaction sees
 * to it that somebody looks here then). */
static int prune_once(struct sb_peer *peer, struct sb_version *head, const struct sb_view *view,
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

                link = sb_load_pinned(peer, &holder->prev);
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
                going = sb_load_pinned(peer, &version->prev) & SB_PREV_MARKED;
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

bool sb_prune_cell(struct sb_peer *peer, uint64_t cell_number, const struct sb_view *view)
{
        struct sb_cell64 *cell = sb_cell_at(&peer->segment, cell_number);
        uint32_t round;

        for (round = 0; round < ROUNDS_MAX; round++) {
                uint64_t word = cell ? sb_load_pinned(peer, cell) : 0;
                struct sb_version *head = sb_version_at(&peer->segment, word & SB_OFFSET_MASK);
                struct sb_node *node = head ? sb_node_at(&peer->segment, head->node) : NULL;
                struct sb_keeping keeping;
                int kept;

                if (!word || !head || !node || (word & SB_CELL_FROZEN))
                        return false;
                if (word & SB_CELL_KEPT)
                        sb_rules_keeping(peer, node, &keeping);
                kept = prune_once(peer, head, view, word & SB_CELL_KEPT ? &keeping : NULL);
                if (kept >= 0)
                        return kept;
                peer->count_retried++;
        }
        return true;
}

bool sb_prune_behind(struct sb_peer *peer, struct sb_version *version, struct sb_version *old)
{
        static const struct sb_view nothing = {.bound = 0};
        /* A:clock. Still the bound: no cut was taken since the view, so it says who needs what was
         * just replaced. If not, one stamp for both versions means that no cut can tell them apart.
         */
        bool current = sb_load_acquire(&peer->segment.super->clock) == peer->view.bound;
        uint64_t link = sb_load_pinned(peer, &version->prev);

        if ((link & SB_PREV_MARKED) || (link & SB_OFFSET_MASK) != sb_offset_of(&peer->segment, old))
                return false;
        /* A:stamp, both. */
        if (SB_SHAPE_KIND(old->shape) != SB_VERSION_BIRTH &&
                sb_view_needs(current ? &peer->view : &nothing, sb_load_acquire(&old->stamp),
                        sb_load_acquire(&version->stamp)))
                return false;
        return unlink_version(peer, version, link, old) == UNLINKED;
}

void sb_view_renew(struct sb_peer *peer)
{
        /* A:clock. */
        if (sb_load_acquire(&peer->segment.super->clock) != peer->view.bound)
                sb_view_take(peer, &peer->view);
}
