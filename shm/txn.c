/* Transactions under way; see txn.h. */
#include "txn.h"

#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "epoch.h"
#include "index.h"
#include "order.h"
#include "reach.h"
#include "retire.h"
#include "slab.h"
#include "walk.h"

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

struct sb_commit *sb_commit_at(const struct sb_segment *segment, uint64_t offset)
{
        struct sb_commit *commit;
        uint64_t room;

        offset &= SB_OFFSET_MASK;
        commit = sb_block_at(segment, offset);
        if (!commit || offset + sizeof(*commit) > segment->geometry.size)
                return NULL;
        room = SB_SHAPE_VALUE_LEN(commit->shape) + sizeof(struct sb_version);
        /* Each length by itself: damaged ones could add up to anything. */
        if (SB_SHAPE_KIND(commit->shape) != SB_VERSION_COMMIT || SB_SHAPE_KEY_LEN(commit->shape) ||
                offset + room > segment->geometry.size || commit->ranges_len > room ||
                sizeof(*commit) + 8 * (uint64_t)commit->write_count + commit->ranges_len != room)
                return NULL;
        return commit;
}

static uint64_t status_of(const struct sb_commit *commit)
{
        return sb_load_acquire(&commit->status); /* A:status. */
}
static bool decided(const struct sb_commit *commit)
{
        return SB_STATUS_STATE(status_of(commit)) != SB_STATUS_UNDECIDED;
}

/* The decision, unless there is one already. */
static void decide(struct sb_commit *commit, enum sb_status state, uint64_t value)
{
        for (;;) {
                uint64_t status = status_of(commit);

                /* R:status > A:status. */
                if (SB_STATUS_STATE(status) != SB_STATUS_UNDECIDED ||
                        sb_cas64_full(&commit->status, status,
                                SB_STATUS_OF(state, value) | (status & SB_STATUS_SERIALIZABLE)))
                        return;
        }
}

/* The status with its stamp, when that can be known: committed by snapshot isolation it is the
 * clock, read by anybody once the decision is there. */
static uint64_t stamped(struct sb_peer *peer, struct sb_commit *commit)
{
        uint64_t status = status_of(commit);

        if (SB_STATUS_STATE(status) != SB_STATUS_COMMITTED || SB_STATUS_VALUE(status))
                return status;
        /* A:clock. R:status > A:status. */
        sb_cas64_full(&commit->status, status,
                status | sb_load_acquire(&peer->segment.super->clock) << 3);
        return status_of(commit);
}

static uint64_t outcome_of(uint64_t status)
{
        return SB_STATUS_STATE(status) == SB_STATUS_COMMITTED ? SB_STATUS_VALUE(status)
                                                              : SB_STAMP_ABORTED;
}

/* An intent: whose, and what has become of it. */
static struct sb_settled settle_intent(
        struct sb_peer *peer, struct sb_version *version, uint64_t word)
{
        struct sb_commit *commit = sb_commit_at(&peer->segment, word & SB_OFFSET_MASK);
        uint64_t status;

        if (!commit) /* damaged */
                return (struct sb_settled){.outcome = SB_TXN_ABORTED};
        status = stamped(peer, commit);
        if (SB_FAULT(TXN_STAMP_EACH) && SB_STATUS_STATE(status) == SB_STATUS_COMMITTED)
                status = SB_STATUS_OF(SB_STATUS_COMMITTED,
                        sb_load_acquire(&peer->segment.super->clock)); /* A:clock. */
        if (SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED)
                return (struct sb_settled){
                        .outcome = SB_TXN_UNDECIDED, .stamp = SB_STATUS_VALUE(status)};
        /* R:stamp > A:stamp. */
        sb_cas64_full(&version->stamp, word, outcome_of(status));
        if (SB_STATUS_STATE(status) == SB_STATUS_ABORTED)
                return (struct sb_settled){.outcome = SB_TXN_ABORTED};
        return (struct sb_settled){.outcome = SB_TXN_COMMITTED, .stamp = SB_STATUS_VALUE(status)};
}

struct sb_settled sb_txn_settle(struct sb_peer *peer, struct sb_version *version)
{
        uint64_t word = sb_load_pinned(peer, &version->stamp);

        if (SB_SHAPE_KIND(version->shape) == SB_VERSION_BIRTH)
                return (struct sb_settled){.outcome = SB_TXN_COMMITTED, .stamp = SB_STAMP_BIRTH};
        if (!word) {
                /* A:clock. As in sb_stamp(). */
                sb_cas64_full(&version->stamp, 0, sb_load_acquire(&peer->segment.super->clock));
                word = sb_load_acquire(&version->stamp); /* A:stamp. Not an intent's any more. */
        }
        if (SB_LIKELY(!(word & SB_STAMP_INTENT)))
                return (struct sb_settled){.outcome = SB_TXN_COMMITTED, .stamp = word};
        if (!(word & SB_OFFSET_MASK))
                return (struct sb_settled){.outcome = SB_TXN_ABORTED};
        return settle_intent(peer, version, word);
}

struct sb_version *sb_txn_effective(
        struct sb_peer *peer, struct sb_version *head, struct sb_settled *ret_head)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t steps = segment->geometry.size / SB_BLOCK_MIN; /* more only in a damaged segment */
        struct sb_version *version = head;
        struct sb_settled settled = *ret_head = sb_txn_settle(peer, head);

        while (settled.outcome != SB_TXN_COMMITTED) {
                version = sb_version_at(
                        segment, sb_load_pinned(peer, &version->prev) & SB_OFFSET_MASK);
                if (!version || !steps-- || !sb_version_fits(segment, version))
                        return NULL;
                settled = sb_txn_settle(peer, version);
        }
        return version;
}

bool sb_txn_lasts(struct sb_peer *peer, const struct sb_cell64 *cell, uint64_t word,
        struct sb_version *head, struct sb_settled settled)
{
        if (SB_FAULT(TXN_OLD_BELOW))
                return true;
        /* The outcome first: while it is undecided, the cell is what it was. */
        if (settled.outcome == SB_TXN_UNDECIDED &&
                sb_txn_settle(peer, head).outcome != SB_TXN_UNDECIDED)
                return false;
        return sb_load_acquire(cell) == word; /* A:publish. */
}

/* ---- helping ---- */

static enum step help(struct sb_peer *peer, const struct path *path);

/* The undecided transaction of @version is in the way of path->commit. */
static enum step meet(struct sb_peer *peer, const struct path *path, struct sb_version *version)
{
        uint64_t word = sb_load_pinned(peer, &version->stamp);
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
                decide(victim->commit, SB_STATUS_ABORTED, 0);
                r = SB_FAULT(SER_NO_UNWIND) ? AGAIN : BACK;
        } else if (next.depth > DEPTH_MAX) {
                decide(next.commit, SB_STATUS_ABORTED, 0);
                r = AGAIN;
        } else {
                help(peer, &next);
                r = AGAIN;
        }
        return decided(path->commit) ? DECIDED : r;
}

/* What was loaded counts only while the transaction is undecided. */
static enum step give_up(struct sb_commit *commit, uint64_t cause)
{
        decide(commit, SB_STATUS_ABORTED, cause);
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
        cell = node ? sb_cell_at(&peer->segment, sb_load_pinned(peer, &node->cell)) : NULL;
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
        link = SB_FAULT(TXN_CELL_BEFORE_PREV) ? 0 : sb_load_pinned(peer, &version->prev);
        if (link & SB_PREV_SETTLED)
                return IN; /* and more: something behind it was taken out already */
        cell = cell_of(peer, version);
        word = cell ? sb_load_pinned(peer, cell) : 0;
        if (SB_FAULT(TXN_CELL_BEFORE_PREV))
                link = sb_load_pinned(peer, &version->prev);
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
        if (decided(commit) && !SB_FAULT(TXN_INSTALL_UNCHECKED))
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
                (sb_load_pinned(peer, cell) & SB_OFFSET_MASK) == (word & SB_OFFSET_MASK))
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

/* ---- what a serializable one has read ---- */

/* Whether the key in @cell is what it was at the cut. IN: it is, or no key is there. @node, or
 * @key: whose cell it is to be, else there is nothing to look at. */
static enum step look_once(struct sb_peer *peer, const struct path *path, struct sb_cell64 *cell,
        uint64_t node, const void *key, uint32_t key_len)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t word = sb_load_pinned(peer, cell);
        struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);
        uint64_t steps = segment->geometry.size / SB_BLOCK_MIN;

        if ((word & SB_CELL_FROZEN) || !version || !sb_version_fits(segment, version) ||
                (key ? !sb_version_is(segment, version, key, key_len) : version->node != node))
                return IN;
        for (; version && steps--; version = sb_version_at(segment,
                                           sb_load_pinned(peer, &version->prev) & SB_OFFSET_MASK)) {
                uint64_t stamp = sb_load_pinned(peer, &version->stamp);
                struct sb_settled settled;

                if (SB_SHAPE_KIND(version->shape) == SB_VERSION_BIRTH)
                        return IN;
                /* An own intent: what it replaces was in the cut when the owner looked, and by its
                 * revision still was the same when it came in. */
                if (sb_stamp_is_intent(stamp) && (stamp & SB_OFFSET_MASK) == path->at)
                        return IN;
                settled = sb_txn_settle(peer, version);
                if (settled.outcome == SB_TXN_UNDECIDED && !SB_FAULT(SER_FOREIGN_AS_BEFORE))
                        return meet(peer, path, version);
                if (settled.outcome != SB_TXN_COMMITTED)
                        continue;
                if (settled.stamp > path->commit->cut)
                        return CHANGED;
                break;
        }
        /* A:publish. Under what was aborted: as sb_txn_lasts() says. */
        return sb_load_acquire(cell) == word || SB_FAULT(TXN_OLD_BELOW) ? IN : AGAIN;
}

static enum step look(struct sb_peer *peer, const struct path *path, struct sb_cell64 *cell,
        uint64_t node, const void *key, uint32_t key_len)
{
        enum step r;

        do
                r = look_once(peer, path, cell, node, key, key_len);
        while (r == AGAIN);
        return r;
}

static enum step validate_key(
        struct sb_peer *peer, const struct path *path, const void *key, uint32_t key_len)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t hash = sb_hash_key(key, key_len, segment->seed);
        struct sb_probe probe = sb_probe_first(segment, hash);
        struct sb_cell64 *cell;

        while ((cell = sb_probe_next(segment, &probe)) != NULL) {
                enum step r = look(peer, path, cell, 0, key, key_len);

                if (r != IN)
                        return r;
        }
        return IN;
}

/* One range, unpacked. */
struct range {
        const unsigned char *low, *high;
        uint32_t low_len, high_len, flags;
};

static bool is_behind(const struct sb_segment *segment, const struct sb_node *node, const void *key,
        uint32_t key_len)
{
        const unsigned char *own = sb_node_key(segment, node);

        return own && sb_key_compare(own, node->key_len, key, key_len) > 0;
}

static enum step validate_range(
        struct sb_peer *peer, const struct path *path, const struct range *range)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_node *node = sb_walk_seek(peer, range->low, range->low_len, false);

        while (node) {
                const unsigned char *key = sb_node_key(segment, node);
                struct sb_node *next;
                struct sb_cell64 *cell;
                bool gone;
                enum step r;

                if (!key)
                        return IN; /* damaged */
                if (!(range->flags & SB_RANGE_NO_END) &&
                        sb_key_compare(key, node->key_len, range->high, range->high_len) >= 0)
                        return IN;
                cell = sb_cell_at(segment, sb_load_pinned(peer, &node->cell));
                r = cell && !SB_FAULT(SER_SEEN_ONLY)
                            ? look(peer, path, cell, sb_offset_of(segment, node), NULL, 0)
                            : IN;
                if (r != IN)
                        return r;
                next = sb_walk_next(peer, node, &gone);
                if (gone)
                        next = sb_walk_seek(peer, key, node->key_len, true);
                else if (next && !is_behind(segment, next, key, node->key_len))
                        return IN; /* damaged: it could go round for ever */
                node = next;
        }
        return IN;
}

/* IN: all ranges are what they were; CHANGED: *ret_range is not; else as ever. */
static enum step validate(struct sb_peer *peer, const struct path *path, uint32_t *ret_range)
{
        const struct sb_commit *commit = path->commit;
        const unsigned char *at = (const unsigned char *)&commit->write[commit->write_count];
        const unsigned char *end = at + commit->ranges_len;
        uint32_t i;

        for (i = 0; i < commit->range_count && end - at >= (ptrdiff_t)SB_RANGE_HEAD; i++) {
                struct range range = {.low = at + SB_RANGE_HEAD};
                uint16_t head[3];
                enum step r;

                memcpy(head, at, SB_RANGE_HEAD);
                range.low_len = head[0];
                range.high_len = head[1];
                range.flags = head[2];
                range.high = range.low + range.low_len;
                at = range.high + range.high_len;
                if (at > end)
                        break; /* damaged */
                r = range.flags & SB_RANGE_POINT
                            ? validate_key(peer, path, range.low, range.low_len)
                            : validate_range(peer, path, &range);
                if (r != IN) {
                        *ret_range = i;
                        return r;
                }
        }
        return decided(commit) ? DECIDED : IN;
}

/* All are in: the stamp that it will have. Not before the status says that the clock is read: so
 * who sees an undecided one that does not say so, and leaves it out of his cut, knows that its
 * stamp is read from a later clock. */
static void take_stamp(struct sb_peer *peer, struct sb_commit *commit)
{
        uint64_t status = status_of(commit);

        if (SB_FAULT(SER_NO_STAMP))
                return;
        /* R:status > A:status, both. */
        if (SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED && !SB_STATUS_VALUE(status) &&
                !SB_FAULT(SER_STAMP_UNSAID)) {
                sb_cas64_full(&commit->status, status, status | SB_STATUS_STAMPING << 3);
                status = status_of(commit);
        }
        if (SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED &&
                SB_STATUS_VALUE(status) <= SB_STATUS_STAMPING)
                /* A:clock, read after all were seen installed. */
                sb_cas64_full(&commit->status, status,
                        SB_STATUS_OF(
                                SB_STATUS_UNDECIDED, sb_load_acquire(&peer->segment.super->clock)) |
                                SB_STATUS_SERIALIZABLE);
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
        status = status_of(commit);
        decide(commit, SB_STATUS_COMMITTED, SB_STATUS_VALUE(status));
        return DECIDED;
}

static enum step help(struct sb_peer *peer, const struct path *path)
{
        struct sb_commit *commit = path->commit;
        bool serializable = status_of(commit) & SB_STATUS_SERIALIZABLE;
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
        decide(commit, SB_STATUS_COMMITTED,
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

        while (!decided(commit))
                help(peer, &path);
}

void sb_txn_help(struct sb_peer *peer, struct sb_version *version)
{
        uint64_t word = sb_load_pinned(peer, &version->stamp);
        struct sb_commit *commit = sb_stamp_is_intent(word)
                                           ? sb_commit_at(&peer->segment, word & SB_OFFSET_MASK)
                                           : NULL;

        if (!commit)
                return;
        peer->count_helped++;
        help_root(peer, commit);
        sb_txn_settle(peer, version);
        if (SB_FAULT(TXN_COPIES_ALL))
                for (uint32_t i = 0; i < commit->write_count; i++) {
                        struct sb_version *each = sb_version_at(&peer->segment, commit->write[i]);

                        sb_cas64_full(&each->stamp, word, outcome_of(stamped(peer, commit)));
                        sb_cas32_full(&each->block.retire, SB_RETIRE_HELD, 0);
                }
}

void sb_txn_decide(struct sb_peer *peer, struct sb_commit *commit)
{
        help_root(peer, commit);
}

void sb_txn_cancel(struct sb_commit *commit)
{
        decide(commit, SB_STATUS_ABORTED, SB_CAUSE_GONE);
}

/* ---- the end, by the owner or his reaper ---- */

void sb_txn_finish(struct sb_peer *peer, struct sb_commit *commit, struct sb_cell64 *operation)
{
        uint64_t intent = SB_STAMP_INTENT | sb_offset_of(&peer->segment, commit), status;
        uint32_t i;

        help_root(peer, commit);
        status = stamped(peer, commit);
        for (i = 0; i < commit->write_count; i++) {
                struct sb_version *version = sb_version_at(&peer->segment, commit->write[i]);

                /* R:stamp > A:stamp. */
                if (version)
                        sb_cas64_full(&version->stamp, intent, outcome_of(status));
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
                sb_retire_begin(peer, &commit->block);
                sb_retire_finish(peer, &commit->block);
                sb_store_release(operation, 0); /* R:operation. */
                return;
        }
        /* On its way out before the note goes: so that no kill can lose it. The note goes before it
         * is dated: who found it by the note was pinned by then. */
        if (!SB_FAULT(DYING_LATE))
                sb_retire_begin(peer, &commit->block);
        if (SB_FAULT(NOTE_CLEARED_LAZILY))
                sb_store_release(operation, 0); /* R:operation, late for others: the fault. */
        else
                /* R:operation > A:operation. A full barrier: a store alone could still be on its
                 * way when the era is read. */
                sb_exchange_full(operation, 0);
        if (SB_FAULT(DYING_LATE))
                sb_retire_begin(peer, &commit->block);
        sb_retire_finish(peer, &commit->block);
}

enum sb_outcome sb_txn_run(struct sb_peer *peer, struct sb_commit *commit, uint64_t *ret_value)
{
        uint64_t status;

        sb_txn_finish(peer, commit, &peer->client->operation);
        status = status_of(commit);
        *ret_value = SB_STATUS_VALUE(status);
        return SB_STATUS_STATE(status) == SB_STATUS_COMMITTED ? SB_TXN_COMMITTED : SB_TXN_ABORTED;
}

void sb_txn_resolve(struct sb_peer *peer, struct sb_commit *commit)
{
        uint64_t status = stamped(peer, commit);

        /* Undecided and without a stamp: the stamp will be read from a later clock. */
        if (SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED && SB_STATUS_VALUE(status))
                help_root(peer, commit);
}

static bool is_head(struct sb_peer *peer, const struct sb_version *version)
{
        struct sb_cell64 *cell = cell_of(peer, version);

        return cell && (sb_load_pinned(peer, cell) & SB_OFFSET_MASK) ==
                               sb_offset_of(&peer->segment, version);
}

void sb_txn_dispose(struct sb_peer *peer, struct sb_commit *commit)
{
        struct sb_segment *segment = &peer->segment;
        uint32_t i, era;
        bool linked;

        if (SB_STATUS_STATE(status_of(commit)) != SB_STATUS_ABORTED)
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
                        own = sb_load_pinned(peer, &sb_node_at(segment, version->node)->cell);
                        /* R:retire > A:retire. From here on a pruner may take it. */
                        if (sb_cas32_full(&version->block.retire, SB_RETIRE_HELD, 0))
                                sb_retire_later(peer, own, SB_STAMP_BIRTH);
                        continue;
                }
                /* Never in, and nobody is left who could put it there: everybody's to free. */
                era = sb_load_acquire(&segment->super->era); /* A:era. */
                if (sb_cas32_full(&version->block.retire, SB_RETIRE_HELD, era))
                        sb_retire_wait(peer, commit->write[i], era, false);
        }
}
