/* Bringing transactions to their end; see help.h. */

#include "shm/mvcc/help.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/keys/reach.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/stamp.h"
#include "shm/mvcc/validate.h"

/* Who helps whom, as far as this thread has got: the descriptors that wait for one another. */
struct path {
        const struct path *up;
        struct sb_commit *commit;
        uint64_t at;    /* offset of the descriptor */
        uint32_t depth; /* 1: the first */
};
#define DEPTH_MAX 64u /* what would be the next one gives way instead */

enum step {
        IN,      /* installed, or nothing in the way */
        AGAIN,   /* what was met is over: look again */
        BACK,    /* somebody in a ring gave way: go back a level and look again */
        DECIDED, /* this transaction is over */
        CHANGED  /* a range is not what it was at the cut */
};

/* ---- helping ---- */

static enum step help(struct sb_peer *peer, const struct path *path);

/* The undecided transaction of @version is in the way of path->commit. */
static enum step meet(struct sb_peer *peer, const struct path *path, struct sb_version *version)
{
        uint64_t word = sb_pin_load(peer, &version->stamp);
        struct path next = {.up = path, .depth = path->depth + 1};
        const struct path *frame;
        enum step r;

        next.at = word & SB_OFFSET_MASK;
        next.commit = sb_stamp_is_intent(word) ? sb_commit_at(&peer->segment, next.at) : NULL;
        if (!next.commit)
                return AGAIN;
        for (frame = path; frame && frame->at != next.at; frame = frame->up)
                ;
        if (frame && !SB_FAULT(SER_CYCLE_IGNORED)) {
                /* Each waits for the next in a ring: the one of the greatest offset gives way,
                 * whoever looks; so one of them can go on. */
                const struct path *victim = path, *member;

                for (member = path; member != frame; member = member->up)
                        if (member->up->at > victim->at)
                                victim = member->up;
                sb_commit_decide(victim->commit, SB_STATUS_ABORTED, 0);
                r = SB_FAULT(SER_NO_UNWIND) ? AGAIN : BACK;
        } else if (next.depth > DEPTH_MAX) {
                sb_commit_decide(next.commit, SB_STATUS_ABORTED, 0);
                r = AGAIN;
        } else {
                help(peer, &next);
                r = AGAIN;
        }
        return sb_commit_decided(path->commit) ? DECIDED : r;
}

/* What was loaded counts only while the transaction is undecided. */
static enum step give_up(struct sb_commit *commit, uint64_t cause)
{
        sb_commit_decide(commit, SB_STATUS_ABORTED, cause);
        return DECIDED;
}

/* The cell of an intent's key, or NULL: gone. */
static struct sb_cell64 *cell_of(struct sb_peer *peer, const struct sb_version *version)
{
        struct sb_node *node = sb_node_at(&peer->segment, version->node);
        struct sb_cell64 *cell;

        /* For a helper whose transaction is over the node may be another's by now: then he finds
         * out by the status before he does anything. */
        sb_model_unchecked_begin();
        cell = node ? sb_cell_at(&peer->segment, sb_pin_load(peer, &node->cell)) : NULL;
        sb_model_unchecked_end();
        return cell;
}

/* One look, one attempt. */
static enum step install_once(
        struct sb_peer *peer, const struct path *path, uint32_t i, struct sb_version *version)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_commit *commit = path->commit;
        uint64_t at = commit->write[i], link, word;
        struct sb_version *head, *effective;
        struct sb_settled settled;
        struct sb_cell64 *cell;

        /* First the link, then the cell: so a link that was loaded over an older head is not taken
         * for one over this head. */
        link = SB_FAULT(TXN_CELL_BEFORE_PREV) ? 0 : sb_pin_load(peer, &version->prev);
        if (link & SB_PREV_SETTLED)
                return IN; /* and more: something behind it was taken out already */
        cell = cell_of(peer, version);
        word = cell ? sb_pin_load(peer, cell) : 0;
        if (SB_FAULT(TXN_CELL_BEFORE_PREV))
                link = sb_pin_load(peer, &version->prev);
        if (word && (word & SB_OFFSET_MASK) == at)
                return IN;
        head = word & SB_CELL_FROZEN ? NULL : sb_version_at(segment, word & SB_OFFSET_MASK);
        if (!head || (head->node != version->node && !SB_FAULT(TXN_NODE_UNASKED)) ||
                (SB_SHAPE_KIND(head->shape) == SB_VERSION_BIRTH &&
                        !sb_load_acquire(&head->stamp))) /* A:stamp. */
                return give_up(commit, SB_CAUSE_GONE);
        effective = sb_txn_effective(peer, head, &settled);
        if (settled.outcome == SB_TXN_UNDECIDED)
                return meet(peer, path, head);
        if (!effective)
                return give_up(commit, SB_CAUSE_GONE);
        if (effective->rev != version->rev - 1)
                return give_up(commit, 1 + i);
        if (sb_commit_decided(commit) && !SB_FAULT(TXN_INSTALL_UNCHECKED))
                return DECIDED;
        if (SB_FAULT(TXN_EXPECTS_PRESET))
                return sb_cas64_full(cell, (word & ~SB_OFFSET_MASK) | (link & SB_OFFSET_MASK),
                               (word & ~SB_OFFSET_MASK) | at)
                               ? IN
                               : give_up(commit, 1 + i);
        if (SB_FAULT(TXN_PREV_STORED))
                /* R:publish, without looking: that is the fault. */
                sb_store_release(&version->prev, word & SB_OFFSET_MASK);
        else if ((link & SB_OFFSET_MASK) != (word & SB_OFFSET_MASK) &&
                 !sb_cas64_full(&version->prev, link, word & SB_OFFSET_MASK))
                return AGAIN;
        /* R:publish > A:publish. It expects what was looked at, flags and all. */
        if (sb_cas64_full(cell, word, (word & (SB_TAG_MASK | SB_CELL_FLAGS)) | at))
                return IN;
        if (SB_FAULT(TXN_ABORT_BY_FLAGS) &&
                (sb_pin_load(peer, cell) & SB_OFFSET_MASK) == (word & SB_OFFSET_MASK))
                return give_up(commit, 1 + i);
        return AGAIN;
}

static enum step install(struct sb_peer *peer, const struct path *path, uint32_t i)
{
        struct sb_version *version = sb_version_at(&peer->segment, path->commit->write[i]);
        enum step r;

        if (!version)
                return give_up(path->commit, SB_CAUSE_GONE);
        do
                r = install_once(peer, path, i, version);
        while (r == AGAIN);
        return r;
}

/* All are in: the stamp that it will have. Not before the status says that the clock is read: so
 * who sees an undecided one that does not say so, and leaves it out of his cut, knows that its
 * stamp is read from a later clock. */
static void take_stamp(struct sb_peer *peer, struct sb_commit *commit)
{
        uint64_t status = sb_commit_status(commit);

        if (SB_FAULT(SER_NO_STAMP))
                return;
        /* R:status > A:status, both. */
        if (SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED && !SB_STATUS_VALUE(status) &&
                !SB_FAULT(SER_STAMP_UNSAID)) {
                sb_cas64_full(&commit->status, status, status | SB_STATUS_STAMPING << 3);
                status = sb_commit_status(commit);
        }
        if (SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED &&
                SB_STATUS_VALUE(status) <= SB_STATUS_STAMPING)
                /* A:clock, read after all were seen installed. */
                sb_cas64_full(&commit->status, status,
                        SB_STATUS_OF(
                                SB_STATUS_UNDECIDED, sb_load_acquire(&peer->segment.super->clock)) |
                                SB_STATUS_SERIALIZABLE);
}

/* IN: all that it has read is what it was; CHANGED: range number *ret_range is not; else as ever.
 */
static enum step validate(struct sb_peer *peer, const struct path *path, uint32_t *ret_range)
{
        struct sb_validation validation;

        sb_validate_begin(path->commit, &validation);
        for (;;) {
                enum sb_verdict verdict = sb_validate(peer, &validation);
                enum step r;

                if (verdict == SB_VERDICT_VALID)
                        return sb_commit_decided(path->commit) ? DECIDED : IN;
                if (verdict == SB_VERDICT_CHANGED) {
                        *ret_range = validation.range;
                        return CHANGED;
                }
                r = meet(peer, path, validation.met);
                if (r != AGAIN)
                        return r;
        }
}

/* All intents in, in the order of their keys; then, for a serializable one, the stamp that it would
 * have, and only then a look at all that it has read: what others install later has a later stamp,
 * and looks at what this one wrote. */
static enum step help_serializable(struct sb_peer *peer, const struct path *path)
{
        struct sb_commit *commit = path->commit;
        uint32_t range = 0;
        uint64_t status;
        enum step r;

        take_stamp(peer, commit);
        r = validate(peer, path, &range);
        if (r == CHANGED)
                return give_up(commit, 1 + (uint64_t)commit->write_count + range);
        if (r != IN)
                return r;
        status = sb_commit_status(commit);
        sb_commit_decide(commit, SB_STATUS_COMMITTED, SB_STATUS_VALUE(status));
        return DECIDED;
}

static enum step help(struct sb_peer *peer, const struct path *path)
{
        struct sb_commit *commit = path->commit;
        bool serializable = sb_commit_status(commit) & SB_STATUS_SERIALIZABLE;
        enum step r;
        uint32_t i;

        if (serializable && SB_FAULT(SER_VALIDATE_FIRST)) {
                uint32_t range = 0;

                r = validate(peer, path, &range);
                if (r == CHANGED)
                        return give_up(commit, 1 + (uint64_t)commit->write_count + range);
                if (r != IN)
                        return r;
        }
        for (i = 0; i < commit->write_count; i++) {
                r = install(peer, path, i);
                if (r != IN)
                        return r;
        }
        if (serializable && !SB_FAULT(SER_VALIDATE_FIRST))
                return help_serializable(peer, path);
        sb_commit_decide(commit, SB_STATUS_COMMITTED,
                SB_FAULT(TXN_STAMP_IN_DECISION) || serializable
                        ? sb_load_acquire(&peer->segment.super->clock) /* A:clock. */
                        : 0);
        return DECIDED;
}

/* From the beginning of a path: whoever gives way in a ring, somebody got on, and we look again. */
static void help_root(struct sb_peer *peer, struct sb_commit *commit)
{
        struct path path = {
                .commit = commit, .at = sb_offset_of(&peer->segment, commit), .depth = 1};

        while (!sb_commit_decided(commit))
                help(peer, &path);
}

void sb_txn_help(struct sb_peer *peer, struct sb_version *version)
{
        uint64_t word = sb_pin_load(peer, &version->stamp);
        struct sb_commit *commit = sb_stamp_is_intent(word)
                                           ? sb_commit_at(&peer->segment, word & SB_OFFSET_MASK)
                                           : NULL;

        if (!commit)
                return;
        peer->counters.helped++;
        help_root(peer, commit);
        sb_txn_settle(peer, version);
        if (SB_FAULT(TXN_COPIES_ALL))
                for (uint32_t i = 0; i < commit->write_count; i++) {
                        struct sb_version *each = sb_version_at(&peer->segment, commit->write[i]);

                        sb_cas64_full(&each->stamp, word,
                                sb_commit_outcome(sb_commit_stamped(peer, commit)));
                        sb_cas32_full(&each->block.retire, SB_RETIRE_HELD, 0);
                }
}

void sb_txn_decide(struct sb_peer *peer, struct sb_commit *commit)
{
        help_root(peer, commit);
}

/* ---- the end, by the owner or his reaper ---- */

void sb_txn_finish(struct sb_peer *peer, struct sb_commit *commit, struct sb_cell64 *operation)
{
        uint64_t intent = SB_STAMP_INTENT | sb_offset_of(&peer->segment, commit), status;
        uint32_t i;

        help_root(peer, commit);
        status = sb_commit_stamped(peer, commit);
        for (i = 0; i < commit->write_count; i++) {
                struct sb_version *version = sb_version_at(&peer->segment, commit->write[i]);

                /* R:stamp > A:stamp. */
                if (version)
                        sb_cas64_full(&version->stamp, intent, sb_commit_outcome(status));
        }
        for (i = 0; i < commit->write_count && SB_STATUS_STATE(status) == SB_STATUS_COMMITTED;
                i++) {
                struct sb_version *version = sb_version_at(&peer->segment, commit->write[i]);

                /* R:retire > A:retire. Behind the outcome: what can be unlinked names no
                 * descriptor. */
                if (version)
                        sb_cas32_full(&version->block.retire, SB_RETIRE_HELD, 0);
        }
        if (SB_FAULT(TXN_RELEASE_EARLY))
                sb_txn_dispose(peer, commit);
        if (SB_FAULT(NOTE_CLEARED_LATE)) {
                sb_limbo_begin(peer, &commit->block);
                sb_limbo_date(peer, &commit->block);
                sb_store_release(operation, 0); /* R:operation. */
                return;
        }
        /* On its way out before the note goes: so that no kill can lose it. The note goes before it
         * is dated: who found it by the note was pinned by then. */
        if (!SB_FAULT(DYING_LATE))
                sb_limbo_begin(peer, &commit->block);
        if (SB_FAULT(NOTE_CLEARED_LAZILY))
                sb_store_release(operation, 0); /* R:operation, late for others: the fault. */
        else
                /* R:operation > A:operation. A full barrier: a store alone could still be on its
                 * way when the era is read. */
                sb_exchange_full(operation, 0);
        if (SB_FAULT(DYING_LATE))
                sb_limbo_begin(peer, &commit->block);
        sb_limbo_date(peer, &commit->block);
}

enum sb_outcome sb_txn_run(struct sb_peer *peer, struct sb_commit *commit, uint64_t *ret_value)
{
        uint64_t status;

        sb_txn_finish(peer, commit, &peer->client->operation);
        status = sb_commit_status(commit);
        *ret_value = SB_STATUS_VALUE(status);
        return SB_STATUS_STATE(status) == SB_STATUS_COMMITTED ? SB_TXN_COMMITTED : SB_TXN_ABORTED;
}

void sb_txn_resolve(struct sb_peer *peer, struct sb_commit *commit)
{
        uint64_t status = sb_commit_stamped(peer, commit);

        /* Undecided and without a stamp: the stamp will be read from a later clock. */
        if (SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED && SB_STATUS_VALUE(status))
                help_root(peer, commit);
}

static bool is_head(struct sb_peer *peer, const struct sb_version *version)
{
        struct sb_cell64 *cell = cell_of(peer, version);

        return cell &&
               (sb_pin_load(peer, cell) & SB_OFFSET_MASK) == sb_offset_of(&peer->segment, version);
}

void sb_txn_dispose(struct sb_peer *peer, struct sb_commit *commit)
{
        struct sb_segment *segment = &peer->segment;
        uint32_t i, era;
        bool linked;

        if (SB_STATUS_STATE(sb_commit_status(commit)) != SB_STATUS_ABORTED)
                return;
        for (i = 0; i < commit->write_count; i++) {
                struct sb_version *version = sb_version_at(segment, commit->write[i]);
                uint64_t own;

                /* A:retire. */
                if (!version || sb_load_acquire(&version->block.retire) != SB_RETIRE_HELD)
                        continue;
                /* Its node may be another's by now: then it was never in. */
                sb_model_unchecked_begin();
                linked = sb_reach_version(peer, version);
                sb_model_unchecked_end();
                if (SB_FAULT(TXN_DISPOSE_HEAD_ONLY))
                        linked = is_head(peer, version);
                if (linked) {
                        own = sb_pin_load(peer, &sb_node_at(segment, version->node)->cell);
                        /* R:retire > A:retire. From here on a pruner may take it. */
                        if (sb_cas32_full(&version->block.retire, SB_RETIRE_HELD, 0))
                                sb_limbo_later(peer, own, SB_STAMP_BIRTH);
                        continue;
                }
                /* Never in, and nobody is left who could put it there: everybody's to free. */
                era = sb_load_acquire(&segment->super->era); /* A:era. */
                if (sb_cas32_full(&version->block.retire, SB_RETIRE_HELD, era))
                        sb_limbo_wait(peer, commit->write[i], era, false);
        }
}
