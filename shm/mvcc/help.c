/*
 * Helping; see help.h.
 *
 * A helper that meets another undecided transaction in its way helps that one first, and so on: a
 * path of transactions, each of which waits for the next one (struct path).
 */

#include "shm/mvcc/help.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/stamp.h"
#include "shm/mvcc/validate.h"

/* The descriptors that wait for one another, as far as this thread has got: the last one first. */
struct path {
        const struct path *up;
        struct sb_descriptor *descriptor;
        struct sb_descriptor_lists lists;
        uint64_t at;    /* offset of the descriptor */
        uint32_t depth; /* 1: the first */
};
/* A transaction that would be the next one is aborted instead. */
#define DEPTH_MAX 64u

/* How one step of helping path->descriptor ended. */
enum step {
        IN,     /* installed, or nothing in the way */
        AGAIN,  /* what was met is over: look again */
        BACK,   /* one of a cycle was aborted: go back to it, and look again from there */
        DECIDED /* this transaction is over */
};

/* ---- meeting another transaction ---- */

static enum step help_once(struct sb_handle *handle, const struct path *path);

/* The frame of the path that has the descriptor at @at; NULL: none. */
static const struct path *help_find_on_path(const struct path *path, uint64_t at)
{
        const struct path *frame = path;

        while (frame && frame->at != at)
                frame = frame->up;
        return SB_FAULT(SER_CYCLE_IGNORED) ? NULL : frame;
}

/* From @frame down to the end of the path each transaction waits for the next one, and the last one
 * for the first: a cycle. The one of the greatest offset is aborted, whichever process looks; so
 * one of the others can go on. */
static enum step help_break_cycle(const struct path *path, const struct path *frame)
{
        const struct path *victim = path, *member;

        for (member = path; member != frame; member = member->up)
                if (member->up->at > victim->at)
                        victim = member->up;
        sb_descriptor_decide(victim->descriptor, SB_STATUS_ABORTED, 0);
        return SB_FAULT(SER_NO_UNWIND) ? AGAIN : BACK;
}

/* Read what the last transaction of the path lists. False: that is damaged. The transaction is
 * aborted, for what it was to write is not known. */
static bool help_read(struct sb_handle *handle, struct path *path)
{
        if (sb_descriptor_read(&handle->segment, path->descriptor, &path->lists))
                return true;
        sb_damage_note(handle);
        sb_descriptor_decide(path->descriptor, SB_STATUS_ABORTED, SB_CAUSE_GONE);
        return false;
}

/* The undecided transaction of @version is in the way of path->descriptor. */
static enum step help_meet(
        struct sb_handle *handle, const struct path *path, struct sb_version *version)
{
        uint64_t word = sb_pin_load(handle, &version->stamp);
        struct path next = {.up = path, .depth = path->depth + 1};
        const struct path *frame;
        enum step r = AGAIN;

        next.at = word & SB_OFFSET_MASK;
        next.descriptor =
                sb_stamp_is_intent(word) ? sb_descriptor_at(&handle->segment, next.at) : NULL;
        if (!next.descriptor)
                return AGAIN;
        if (!help_read(handle, &next))
                return sb_descriptor_decided(path->descriptor) ? DECIDED : AGAIN;
        frame = help_find_on_path(path, next.at);
        if (frame)
                r = help_break_cycle(path, frame);
        /* Bound: result. The owner of the transaction that is aborted answers SB_E_CONFLICT. */
        else if (next.depth > DEPTH_MAX)
                sb_descriptor_decide(next.descriptor, SB_STATUS_ABORTED, 0);
        else if (help_once(handle, &next) == BACK)
                r = BACK; /* on to the one that was aborted: here the cycle would be met again */
        return sb_descriptor_decided(path->descriptor) ? DECIDED : r;
}

/* Abort, unless it is decided: what was loaded counts only while the transaction is undecided. */
static enum step help_give_up(struct sb_descriptor *descriptor, uint64_t cause)
{
        sb_descriptor_decide(descriptor, SB_STATUS_ABORTED, cause);
        return DECIDED;
}

/* ---- installing ---- */

/* The cell of an intent's key; NULL: gone. Once the transaction is over, the node may be another
 * key's; but then a late helper learns from the status that it is late, before it changes anything.
 * So the model checker need not judge this load. */
static struct sb_word64 *help_cell_of(struct sb_handle *handle, const struct sb_version *version)
{
        struct sb_node *node = sb_node_at(&handle->segment, version->node);
        struct sb_word64 *cell;

        sb_model_unchecked_begin();
        cell = node ? sb_cell_at(&handle->segment, sb_pin_load(handle, &node->cell)) : NULL;
        sb_model_unchecked_end();
        return cell;
}

/* What a helper sees where an intent belongs. */
struct sight {
        uint64_t link;          /* the intent's `prev` */
        struct sb_word64 *cell; /* of its key */
        uint64_t word;          /* in that cell; 0: there is none */
};

static void help_see_cell(
        struct sb_handle *handle, const struct sb_version *version, struct sight *ret)
{
        ret->cell = help_cell_of(handle, version);
        ret->word = ret->cell ? sb_pin_load(handle, ret->cell) : 0;
}

/* First the link, then the cell: so a link that was loaded over an older head is not taken for one
 * over this head. False: the link says that the intent was installed, and more: something behind it
 * was taken out already. */
static bool help_see_link_first(
        struct sb_handle *handle, const struct sb_version *version, struct sight *ret)
{
        ret->link = sb_pin_load(handle, &version->prev);
        if (ret->link & SB_PREV_SETTLED)
                return false;
        help_see_cell(handle, version, ret);
        return true;
}

static bool help_see(struct sb_handle *handle, const struct sb_version *version, struct sight *ret)
{
        if (!SB_FAULT(TXN_CELL_BEFORE_PREV))
                return help_see_link_first(handle, version, ret);
        help_see_cell(handle, version, ret);
        ret->link = sb_pin_load(handle, &version->prev);
        return true;
}

/* Whether the head that is in the cell belongs to the intent's key. */
static bool help_is_of_node(const struct sb_version *head, uint64_t node)
{
        return head->node == node || SB_FAULT(TXN_NODE_UNASKED);
}

/* The head of the chain that @word leads to, if that is the chain of the intent's key. NULL: the
 * key went away: the cell is empty, frozen or another key's, or it has a placeholder that its node
 * has not confirmed. */
static struct sb_version *help_head(
        struct sb_handle *handle, const struct sb_version *version, uint64_t word)
{
        struct sb_version *head = word & SB_CELL_FROZEN
                                          ? NULL
                                          : sb_version_at(&handle->segment, word & SB_OFFSET_MASK);

        if (!head || !help_is_of_node(head, version->node))
                return NULL;
        /* A:stamp. The stamp of a placeholder says that it was confirmed. */
        return SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER &&
                               !sb_load_acquire(&head->stamp)
                       ? NULL
                       : head;
}

/* Whether it is too late to install; asked behind the loads, which count only if it is not. */
static bool help_is_late(const struct sb_descriptor *descriptor)
{
        return sb_descriptor_decided(descriptor) && !SB_FAULT(TXN_INSTALL_UNCHECKED);
}

/* Fault TXN_PREV_STORED. */
static bool help_store_link(struct sb_version *version, const struct sight *sight)
{
        /* R:publish, without looking: that is the fault. */
        sb_store_release(&version->prev, sight->word & SB_OFFSET_MASK);
        return true;
}

/* Have the intent's link lead to the head that was seen. False: another process set it. */
static bool help_set_link(struct sb_version *version, const struct sight *sight)
{
        if (SB_FAULT(TXN_PREV_STORED))
                return help_store_link(version, sight);
        /* R:publish > A:publish. Once the intent is in, its link is followed. */
        return (sight->link & SB_OFFSET_MASK) == (sight->word & SB_OFFSET_MASK) ||
               sb_cas64_full(&version->prev, sight->link, sight->word & SB_OFFSET_MASK);
}

/* The cell was changed beside this helper, if only its flags were: a reason to look again, and for
 * nothing else. */
static enum step help_missed(struct sb_handle *handle, struct sb_descriptor *descriptor, uint32_t i,
        const struct sight *sight)
{
        if (SB_FAULT(TXN_ABORT_BY_FLAGS) && (sb_pin_load(handle, sight->cell) & SB_OFFSET_MASK) ==
                                                    (sight->word & SB_OFFSET_MASK))
                return help_give_up(descriptor, 1 + i);
        return AGAIN;
}

/* Fault TXN_EXPECTS_PRESET: the CAS expects the head that the owner saw. */
static enum step help_put_over_preset(
        struct sb_descriptor *descriptor, uint32_t i, uint64_t own, const struct sight *sight)
{
        uint64_t rest = sight->word & ~SB_OFFSET_MASK;

        /* R:publish, over the wrong head: that is the fault. */
        return sb_cas64_full(sight->cell, rest | (sight->link & SB_OFFSET_MASK), rest | own)
                       ? IN
                       : help_give_up(descriptor, 1 + i);
}

/* Put an intent over the head that was seen: first its link, then the cell. */
static enum step help_put(struct sb_handle *handle, struct sb_descriptor *descriptor, uint32_t i,
        struct sb_version *version, const struct sight *sight)
{
        uint64_t own = sb_offset_of(&handle->segment, version);

        if (SB_FAULT(TXN_EXPECTS_PRESET))
                return help_put_over_preset(descriptor, i, own, sight);
        if (!help_set_link(version, sight))
                return AGAIN;
        /* R:publish > A:publish. It expects what was looked at, flags and all. */
        if (sb_cas64_full(
                    sight->cell, sight->word, (sight->word & (SB_TAG_MASK | SB_CELL_FLAGS)) | own))
                return IN;
        return help_missed(handle, descriptor, i, sight);
}

/* One look, one attempt to install write @i, which is @version. */
static enum step help_install_once(
        struct sb_handle *handle, const struct path *path, uint32_t i, struct sb_version *version)
{
        struct sb_descriptor *descriptor = path->descriptor;
        struct sb_version *head, *effective;
        struct sb_settled settled;
        struct sight sight;

        if (!help_see(handle, version, &sight))
                return IN;
        if (sight.word && (sight.word & SB_OFFSET_MASK) == sb_offset_of(&handle->segment, version))
                return IN;
        head = help_head(handle, version, sight.word);
        if (!head)
                return help_give_up(descriptor, SB_CAUSE_GONE);
        effective = sb_stamp_effective(handle, head, &settled);
        if (settled.outcome == SB_OUTCOME_UNDECIDED)
                return help_meet(handle, path, head);
        if (!effective)
                return help_give_up(descriptor, SB_CAUSE_GONE);
        if (effective->rev != version->rev - 1)
                return help_give_up(descriptor, 1 + i);
        if (help_is_late(descriptor))
                return DECIDED;
        return help_put(handle, descriptor, i, version, &sight);
}

static enum step help_install(struct sb_handle *handle, const struct path *path, uint32_t i)
{
        struct sb_version *version = sb_version_at(&handle->segment, path->lists.write[i]);
        enum step r;

        if (!version)
                return help_give_up(path->descriptor, SB_CAUSE_GONE);
        do
                r = help_install_once(handle, path, i, version);
        while (r == AGAIN);
        return r;
}

/* All intents, in the order of their keys: so transactions by snapshot isolation alone never wait
 * for one another in a cycle. */
static enum step help_install_all(struct sb_handle *handle, const struct path *path)
{
        uint32_t i;

        for (i = 0; i < path->lists.write_count; i++) {
                enum step r = help_install(handle, path, i);

                if (r != IN)
                        return r;
        }
        return IN;
}

/* ---- deciding ---- */

/* The status does not say yet that the clock is being read, or was read. */
static bool help_wants_stamping(uint64_t status)
{
        return SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED && !SB_STATUS_VALUE(status) &&
               !SB_FAULT(SER_STAMP_UNSAID) && !SB_FAULT(SER_NO_STAMP);
}

/* The status has no stamp yet. */
static bool help_wants_stamp(uint64_t status)
{
        return SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED &&
               SB_STATUS_VALUE(status) <= SB_STATUS_STAMPING && !SB_FAULT(SER_NO_STAMP);
}

/* All intents are in: take the stamp that a serializable transaction will have if it commits. The
 * status first says that the clock is being read: so a process that sees an undecided transaction
 * that does not say so, and leaves it out of a cut, knows that its stamp will be read from a later
 * clock. */
static void help_take_stamp(struct sb_handle *handle, struct sb_descriptor *descriptor)
{
        uint64_t status = sb_descriptor_status(descriptor);

        if (help_wants_stamping(status)) {
                /* R:status > A:status. */
                sb_cas64_full(&descriptor->status, status, status | SB_STATUS_STAMPING << 3);
                status = sb_descriptor_status(descriptor);
        }
        if (help_wants_stamp(status))
                /* A:clock, read after all intents were seen installed. R:status > A:status. */
                sb_cas64_full(&descriptor->status, status,
                        SB_STATUS_OF(SB_STATUS_UNDECIDED,
                                sb_load_acquire(&handle->segment.super->clock)) |
                                SB_STATUS_SERIALIZABLE);
}

/* Whether all that the transaction has read is what it was at its cut: IN, or it is aborted. */
static enum step help_validate(struct sb_handle *handle, const struct path *path)
{
        struct sb_descriptor *descriptor = path->descriptor;
        struct sb_validation validation;

        sb_validate_begin(descriptor, &path->lists, &validation);
        for (;;) {
                enum sb_verdict verdict = sb_validate(handle, &validation);
                enum step r;

                if (verdict == SB_VERDICT_VALID)
                        return sb_descriptor_decided(descriptor) ? DECIDED : IN;
                if (verdict == SB_VERDICT_CHANGED)
                        return help_give_up(descriptor,
                                1 + (uint64_t)path->lists.write_count + validation.range);
                r = help_meet(handle, path, validation.met);
                if (r != AGAIN)
                        return r;
        }
}

/* A serializable transaction, all intents of which are in: first its stamp, and only then a look at
 * all that it has read. What another transaction installs later has a later stamp, and that
 * transaction looks at what this one wrote. */
static enum step help_decide_serializable(struct sb_handle *handle, const struct path *path)
{
        struct sb_descriptor *descriptor = path->descriptor;
        enum step r;

        help_take_stamp(handle, descriptor);
        r = help_validate(handle, path);
        if (r != IN)
                return r;
        sb_descriptor_decide(
                descriptor, SB_STATUS_COMMITTED, SB_STATUS_VALUE(sb_descriptor_status(descriptor)));
        return DECIDED;
}

/* Faults SER_VALIDATE_FIRST and TXN_STAMP_IN_DECISION: the clock is read before the decision. */
static enum step help_decide_stamped(struct sb_handle *handle, struct sb_descriptor *descriptor)
{
        sb_descriptor_decide(descriptor, SB_STATUS_COMMITTED,
                sb_load_acquire(&handle->segment.super->clock)); /* A:clock. */
        return DECIDED;
}

/* A transaction by snapshot isolation, all intents of which are in: without a stamp, because the
 * clock is read for it after the decision (sb_descriptor_stamped()). */
static enum step help_decide_snapshot(struct sb_handle *handle, struct sb_descriptor *descriptor)
{
        if (SB_FAULT(TXN_STAMP_IN_DECISION))
                return help_decide_stamped(handle, descriptor);
        sb_descriptor_decide(descriptor, SB_STATUS_COMMITTED, 0);
        return DECIDED;
}

/* Fault SER_VALIDATE_FIRST. */
static enum step help_validate_first(struct sb_handle *handle, const struct path *path)
{
        enum step r = help_validate(handle, path);

        if (r == IN)
                r = help_install_all(handle, path);
        return r == IN ? help_decide_stamped(handle, path->descriptor) : r;
}

static enum step help_install_first(
        struct sb_handle *handle, const struct path *path, bool serializable)
{
        enum step r = help_install_all(handle, path);

        if (r != IN)
                return r;
        return serializable ? help_decide_serializable(handle, path)
                            : help_decide_snapshot(handle, path->descriptor);
}

/* Bring path->descriptor to its end: DECIDED, or BACK out of a cycle. */
static enum step help_once(struct sb_handle *handle, const struct path *path)
{
        bool serializable = sb_descriptor_status(path->descriptor) & SB_STATUS_SERIALIZABLE;

        return serializable && SB_FAULT(SER_VALIDATE_FIRST)
                       ? help_validate_first(handle, path)
                       : help_install_first(handle, path, serializable);
}

/* From the beginning of a path: whichever transaction of a cycle was aborted, one of the others can
 * go on now, and this helper looks again. */
static void help_to_the_end(struct sb_handle *handle, struct sb_descriptor *descriptor)
{
        struct path path = {.descriptor = descriptor,
                .at = sb_offset_of(&handle->segment, descriptor),
                .depth = 1};

        if (!help_read(handle, &path))
                return;
        while (!sb_descriptor_decided(descriptor))
                help_once(handle, &path);
}

/* ---- for a process that meets an intent ---- */

/* Fault TXN_COPIES_ALL: a helper goes through the list, which may be old, and copies and lets go as
 * the owner does. */
static void help_copy_by_list(
        struct sb_handle *handle, struct sb_descriptor *descriptor, uint64_t word)
{
        uint32_t i;

        struct sb_descriptor_lists lists;

        (void)sb_descriptor_read(&handle->segment, descriptor, &lists);
        for (i = 0; i < lists.write_count; i++) {
                struct sb_version *each = sb_version_at(&handle->segment, lists.write[i]);

                /* R:stamp, then R:retire, by a process that must not: that is the fault. */
                sb_cas64_full(&each->stamp, word,
                        sb_descriptor_outcome(sb_descriptor_stamped(handle, descriptor)));
                sb_cas32_full(&each->block.retire, SB_RETIRE_HELD, 0); /* R:retire. */
        }
}

/* Copy the outcome into the one version that this helper met. */
static void help_copy_one(struct sb_handle *handle, struct sb_descriptor *descriptor,
        struct sb_version *version, uint64_t word)
{
        sb_stamp_settle(handle, version);
        if (SB_FAULT(TXN_COPIES_ALL))
                help_copy_by_list(handle, descriptor, word);
}

void sb_help_version(struct sb_handle *handle, struct sb_version *version)
{
        uint64_t word = sb_pin_load(handle, &version->stamp);
        struct sb_descriptor *descriptor =
                sb_stamp_is_intent(word) ? sb_descriptor_at(&handle->segment, word & SB_OFFSET_MASK)
                                         : NULL;

        if (!descriptor)
                return;
        handle->counters.helped++;
        help_to_the_end(handle, descriptor);
        help_copy_one(handle, descriptor, version, word);
}

void sb_help_decide(struct sb_handle *handle, struct sb_descriptor *descriptor)
{
        help_to_the_end(handle, descriptor);
}

void sb_help_resolve(struct sb_handle *handle, struct sb_descriptor *descriptor)
{
        uint64_t status = sb_descriptor_stamped(handle, descriptor);

        /* Undecided and without a stamp: the stamp will be read from a later clock. */
        if (SB_STATUS_STATE(status) == SB_STATUS_UNDECIDED && SB_STATUS_VALUE(status))
                help_to_the_end(handle, descriptor);
}
