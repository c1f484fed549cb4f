/*
 * The write path of one key; see put.h. sb_op_write() tries the short way; behind it, put_long()
 * and below it are the long way.
 */

#include "ring/op/put.h"

#include <errno.h>
#include <string.h>

#include "ring/op/overwrite.h"
#include "ring/op/write.h"
#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/spare.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/find-plain.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"
#include "shm/notify/unlogged.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/work.h"

/* One write on its way. */
struct attempt {
        const struct sb_op_write *write;
        uint64_t hash;
        uint64_t version; /* offset of the block for the new version; 0 once it is installed */
        uint32_t entry;   /* of that block in the magazine, or 0 */
        struct sb_key_supplies supplies;
        uint32_t also; /* what may serve when memory is short: SB_SLAB_* */
        struct sb_spot spot;
        uint32_t lost;   /* times that another process's CAS on the cell came first */
        bool look_again; /* the chain has a version that can go once the stable cut has moved */
};

#define AGAIN (-1) /* another process's CAS came first; otherwise 0 or SB_E_* */
/* Each further round means that another process got on. So many in a row mean that the segment is
 * damaged; the engine writes too, and must not hang in such a segment. */
#ifndef SB_PUT_ROUNDS_MAX
#define SB_PUT_ROUNDS_MAX (1u << 20)
#endif
/* A writer that lost gives way for some five microseconds on average, and for twice as long each
 * further time, up to some twenty. */
#define PAUSE_BITS  8u
#define PAUSE_GROWS 2u
/* Marks and rules are written without a deadline: so much of a sweep such a write does at most. */
#define RESERVED_SLICES 8u

/* ---- blocks ---- */

/* Tells the model checker whether the block is allocated: any access to one that is not is an
 * error. In the magazine a block is not. */
static inline __attribute__((always_inline)) void put_tell_model(const struct sb_handle *handle,
        const struct attempt *attempt, uint32_t class_, int allocated)
{
        (void)handle, (void)attempt, (void)class_, (void)allocated;
        sb_model_block(attempt->version, handle->segment.class_size[class_], allocated);
}

/* Takes a block for the new version, if the client has one at hand. A tombstone never takes one out
 * of the magazine: so the removal of a key meets no version that is in a client's hands. */
static bool put_take_ready(struct sb_handle *handle, struct attempt *attempt, uint64_t size)
{
        uint32_t class_ = sb_unit_class(&handle->segment, size);

        attempt->entry = 0;
        if (sb_magazine_serves(handle, class_) && attempt->write->kind == SB_VERSION_VALUE) {
                attempt->entry = sb_magazine_first(handle, class_);
                if (!attempt->entry)
                        attempt->entry = sb_spare_draw(handle, class_);
        }
        if (!attempt->entry)
                return sb_slab_take_ready(handle, size, &attempt->version);
        attempt->version = sb_magazine_offset(handle, attempt->entry);
        sb_magazine_take(handle, class_, attempt->entry);
        put_tell_model(handle, attempt, class_, 1);
        return true;
}

/* Puts the block for the version back into the magazine. */
static void put_return_to_magazine(struct sb_handle *handle, struct attempt *attempt)
{
        uint32_t class_ = sb_unit_kind_of(&handle->segment, attempt->version) & 63;

        sb_magazine_put(handle, class_, attempt->entry);
        put_tell_model(handle, attempt, class_, 0);
}

/* Gives back each block that was taken and not used. */
static __attribute__((noinline)) void put_give_back(
        struct sb_handle *handle, struct attempt *attempt)
{
        if (attempt->version && attempt->entry)
                put_return_to_magazine(handle, attempt);
        else if (attempt->version)
                sb_slab_give_back(handle, attempt->version);
        if (attempt->supplies.node)
                sb_slab_give_back(handle, attempt->supplies.node);
        if (attempt->supplies.placeholder)
                sb_slab_give_back(handle, attempt->supplies.placeholder);
        attempt->version = attempt->supplies.node = attempt->supplies.placeholder = 0;
}

/* ---- keys ---- */

/* Makes the key, which has no cell. Return: 0: this writer, or another one, has made it: look
 * again; SB_E_NOT_FOUND, SB_E_CONFLICT: the write does not want a new key; SB_E_FULL. */
static __attribute__((noinline)) int put_make_key(
        struct sb_handle *handle, struct attempt *attempt, struct sb_op_result *ret)
{
        const struct sb_op_write *write = attempt->write;
        int r;

        if (write->kind == SB_VERSION_DELETED)
                return SB_E_NOT_FOUND;
        if (write->expected_rev && write->expected_rev != SB_OP_ANY_REV) {
                ret->rev = 0;
                return SB_E_CONFLICT;
        }
        r = sb_key_take_supplies(handle, write->key_len, attempt->also, &attempt->supplies);
        if (r)
                return r;
        r = sb_key_make(handle, write->key, write->key_len, attempt->hash, &attempt->supplies);
        if (r == SB_E_FULL && !attempt->supplies.node)
                sb_limbo_leave(handle); /* a node without a cell, which a sweep takes out */
        return r;
}

/* Finds the key's cell: the short way first, then the search that settles unconfirmed placeholders
 * and finishes removals. Return: whether there is one. */
static inline __attribute__((always_inline)) bool put_find(
        struct sb_handle *handle, struct attempt *attempt)
{
        const struct sb_op_write *write = attempt->write;
        struct sb_found found;

        if (SB_LIKELY(sb_find_plain(handle, write->key, write->key_len, attempt->hash,
                    sb_pin_era(handle), &found))) {
                attempt->spot = (struct sb_spot){.cell = found.cell,
                        .word = found.word,
                        .head = found.version,
                        .cell_number = sb_cell_number(&handle->segment, found.cell)};
                return true;
        }
        return sb_key_find(handle, write->key, write->key_len, attempt->hash, &attempt->spot);
}

/* ---- the version ---- */

#define COPY_SHORT 512u /* bytes: beyond that the copy is what a write costs */

static inline __attribute__((always_inline)) void put_copy(
        unsigned char *to, const void *data, uint64_t len)
{
        if (SB_UNLIKELY(len > COPY_SHORT))
                memcpy(to, data, len);
        else
                sb_overwrite_copy(to, data, len);
}

/* Fills in what does not depend on the version that will be replaced. */
static inline __attribute__((always_inline)) void put_fill(
        struct sb_handle *handle, struct attempt *attempt)
{
        const struct sb_op_write *write = attempt->write;
        struct sb_version *version = (struct sb_version *)(handle->segment.base + attempt->version);

        sb_pin_give_birth(handle, &version->block);
        version->shape = SB_SHAPE(write->value_len, write->key_len, write->kind, handle->slot);
        put_copy(version->bytes, write->key, write->key_len);
        put_copy(version->bytes + write->key_len, write->value, write->value_len);
}

/* The revision behind @old's. Fault CONFLICT_BURNS: it counts on from the head, aborted or not. */
static inline __attribute__((always_inline)) uint64_t put_next_rev(
        const struct sb_version *head, const struct sb_version *old)
{
        (void)head;
        return (SB_FAULT(CONFLICT_BURNS) ? head : old)->rev + 1;
}

/* Stamps the head that a writer is about to replace, if no process has yet. A version is stamped
 * before it is replaced, else an effect could be in a cut without its cause; and before its value
 * is looked at, else a later cut could be without what the writer saw. A placeholder needs no
 * stamp. Fault SUPERSEDE_UNSTAMPED: left out. Return: whether the head is an intent, or was
 * aborted. */
static inline __attribute__((always_inline)) bool put_head_is_intent(
        struct sb_handle *handle, struct sb_version *head)
{
        return SB_SHAPE_KIND(head->shape) != SB_VERSION_PLACEHOLDER &&
               !SB_FAULT(SUPERSEDE_UNSTAMPED) &&
               SB_UNLIKELY(sb_stamp(handle, head) & SB_STAMP_INTENT);
}

/* Fault TXN_NOT_HELPED: a writer replaces an undecided intent. */
static inline __attribute__((always_inline)) bool put_must_help(struct sb_settled settled)
{
        return settled.outcome == SB_OUTCOME_UNDECIDED && !SB_FAULT(TXN_NOT_HELPED);
}

/* The head is an intent or was aborted, so the version that counts is below it. An undecided
 * transaction is brought to its end first. Return: the version that counts; NULL: look again. */
static __attribute__((noinline)) struct sb_version *put_look_through(
        struct sb_handle *handle, const struct sb_spot *spot)
{
        struct sb_settled settled;
        struct sb_version *version = sb_stamp_effective(handle, spot->head, &settled);

        if (put_must_help(settled)) {
                sb_help_version(handle, spot->head);
                return NULL;
        }
        if (!sb_stamp_lasts(handle, spot->cell, spot->word, spot->head, settled))
                return NULL;
        /* Only in a damaged segment nothing below counts; a writer must not hang there. */
        return version ? version : spot->head;
}

/* Takes a value that a value replaced into the magazine, if no cut can tell it from the new one. */
static bool put_hold(struct sb_handle *handle, struct sb_version *version, struct sb_version *old,
        uint64_t cut, uint32_t entry)
{
        return sb_version_has_value(old) && sb_version_has_value(version) &&
               sb_horizon_passed(handle, cut, sb_load_acquire(&old->stamp)) && /* A:stamp. */
               sb_magazine_hold(handle, version, old, sb_offset_of(&handle->segment, old), entry);
}

/* Behind the install: takes the replaced version out of its chain, if this handle's prune horizon
 * says that no cut can tell it from the new one. A value that a value replaced goes into the
 * magazine; what a delete replaces goes into limbo and becomes free for every client, also when
 * this one does nothing more. @entry: the new version's in the magazine, or 0; afterwards the entry
 * holds the old version, or is free. Return: false when the old version stays for later. */
static bool put_supersede(struct sb_handle *handle, struct sb_version *version,
        struct sb_version *old, uint64_t cut, uint32_t entry)
{
        if (put_hold(handle, version, old, cut, entry))
                return true;
        if (entry)
                sb_magazine_vacate(handle, entry);
        return sb_prune_behind(handle, version, old);
}

/* A short write took @old out. Fault OVERWRITE_FREED_AT_ONCE: and gives the block back. */
static void put_pass(struct sb_handle *handle, const struct sb_version *old)
{
        if (SB_FAULT(OVERWRITE_FREED_AT_ONCE))
                sb_slab_give_back(handle, sb_offset_of(&handle->segment, old));
        sb_limbo_pass(handle);
}

/* A short write leaves in its chain what it replaced: note the cell. @below: it tried to take that
 * out; fault OVERWRITE_LEFT_UNNOTED: then it does not. */
static void put_note_cell(
        struct sb_handle *handle, const struct sb_word64 *cell, uint64_t stamp, bool below)
{
        if (!below || !SB_FAULT(OVERWRITE_LEFT_UNNOTED))
                sb_limbo_later(handle, sb_cell_number(&handle->segment, cell), stamp);
}

/* Takes out what the new version pushed over the edge of what stays by its number. In hand it goes,
 * into @entry or a free one, where it is the last of its chain; as in put_supersede(), no tombstone
 * does. Return: whether it is out. */
static bool put_take_outgrown(
        struct sb_handle *handle, const struct sb_outgrown *outgrown, uint32_t entry)
{
        struct sb_version *old = outgrown->old, *holder = outgrown->holder;

        if (sb_version_has_value(old) && sb_version_has_value(holder) &&
                !(SB_SHAPE_KIND(holder->shape) & SB_VERSION_HAS_TXN) &&
                sb_magazine_hold(handle, holder, old, sb_offset_of(&handle->segment, old), entry))
                return true;
        if (entry)
                sb_magazine_vacate(handle, entry);
        if (!sb_prune_outgrow(handle, outgrown))
                return false;
        put_pass(handle, old);
        return true;
}

/* Behind the stamp, and before the note goes, where the replaced word said KEPT or WATCHED: tells
 * the watchers, and sees to what does not stay any more. Fault TELL_LEFT_OUT: the first is not
 * done.
 */
static __attribute__((noinline)) void put_outgrow(struct sb_handle *handle,
        struct sb_version *version, uint32_t entry, struct sb_word64 *cell, uint64_t stamp)
{
        struct sb_node *node = sb_node_at(&handle->segment, version->node);
        struct sb_ring_view view, *ring = NULL;
        struct sb_outgrown outgrown = {.later = stamp};

        if (node && sb_ring_of(handle, node, &view))
                ring = &view;
        if (ring && !SB_FAULT(TELL_LEFT_OUT))
                sb_ring_tell_view(handle, ring, version);
        if (node) /* NULL: written over meanwhile */
                sb_prune_outgrown(
                        handle, node, ring, version, stamp, sb_pin_load(handle, cell), &outgrown);
        if (outgrown.old) {
                if (!put_take_outgrown(handle, &outgrown, entry) && !outgrown.later)
                        outgrown.later = outgrown.stamp;
        } else if (entry) {
                sb_magazine_vacate(handle, entry);
        }
        if (outgrown.later)
                sb_limbo_later(handle, sb_cell_number(&handle->segment, cell), outgrown.later);
}

/* Behind the stamp, and before the note goes: a hint for each watched prefix of the key. Return:
 * what becomes of what the write replaced. */
static enum sb_prefix_told put_tell_prefixes(struct sb_handle *handle,
        const struct sb_version *version, uint64_t cell_number, uint64_t stamp)
{
        uint64_t shape = sb_version_shape(&handle->segment, version);

        /* Fault HINT_PAST_NOTE: the note goes first. */
        if (SB_FAULT(HINT_PAST_NOTE))
                sb_store_release(&handle->record->operation, 0); /* R:operation, too early. */
        return SB_FAULT(TELL_LEFT_OUT) ? SB_PREFIX_GOES
                                       : sb_prefix_tell(handle, version->bytes,
                                                 SB_SHAPE_KEY_LEN(shape), cell_number, stamp);
}

/* The log is told, if it has to be, and watchers of prefixes are. @replaced: the stamp of what the
 * write replaced. Return: as put_tell_prefixes(). Fault LOG_TOLD_LATE: the note goes first. */
static enum sb_prefix_told put_attend(struct sb_handle *handle, const struct sb_version *version,
        uint64_t replaced, uint64_t stamp, uint64_t cell_number)
{
        if (SB_FAULT(LOG_TOLD_LATE))
                sb_store_release(&handle->record->operation, 0); /* R:operation, too early. */
        sb_unlogged_tell(&handle->segment, cell_number, replaced);
        return sb_prefix_any(&handle->segment)
                       ? put_tell_prefixes(handle, version, cell_number, stamp)
                       : SB_PREFIX_GOES;
}

void sb_overwrite_later(struct sb_handle *handle, struct sb_version *version,
        struct sb_version *old, uint32_t entry, struct sb_word64 *cell, uint64_t stamp)
{
        bool below;

        if (!old) {
                /* What it replaced may be gone: so the log is told in any case. */
                (void)put_attend(handle, version, 0, stamp, sb_cell_number(&handle->segment, cell));
                put_outgrow(handle, version, entry, cell, stamp);
                return;
        }
        if (entry)
                sb_magazine_vacate(handle, entry);
        /* A:publish. Where older ones lie below that some cut needs, each write takes out the one
         * that it replaced, and none walks down the chain. */
        below = sb_horizon_has_cuts(handle) && (sb_load_acquire(&old->prev) & SB_OFFSET_MASK);
        if (below && sb_prune_behind(handle, version, old))
                put_pass(handle, old);
        else
                put_note_cell(handle, cell, stamp, below);
}

bool sb_overwrite_attend(struct sb_handle *handle, struct sb_version *version,
        struct sb_version *old, uint32_t entry, struct sb_word64 *cell, uint64_t stamp)
{
        uint64_t cell_number = sb_cell_number(&handle->segment, cell);
        /* A:stamp. */
        enum sb_prefix_told told =
                put_attend(handle, version, sb_load_acquire(&old->stamp), stamp, cell_number);

        if (told != SB_PREFIX_GOES) {
                if (entry)
                        sb_magazine_vacate(handle, entry);
                if (told == SB_PREFIX_STAYS)
                        sb_prefix_leave(handle, cell_number, stamp);
                else
                        put_note_cell(handle, cell, stamp, false);
                return false;
        }
        if (put_hold(handle, version, old, stamp, entry))
                return !sb_limbo_pending_due(handle);
        sb_overwrite_later(handle, version, old, entry, cell, stamp);
        return false;
}

/* Fault STAMP_EARLY: stamps the version with what the clock said before the install. */
static inline __attribute__((always_inline)) void put_fault_stamp(
        struct sb_version *version, uint64_t early)
{
        if (early)
                sb_cas64_full(&version->stamp, 0, early); /* R:stamp > A:stamp. */
}

void sb_overwrite_lose(struct sb_handle *handle, uint32_t lost)
{
        handle->counters.lost++;
        sb_os_give_way(handle->segment.os, handle->counters.lost << 8 ^ handle->slot,
                lost < PAUSE_GROWS ? PAUSE_BITS + lost : PAUSE_BITS + PAUSE_GROWS);
}

/* Fault LOG_TOLD_EARLY: the log is told of a write before the install. */
static void put_fault_tell(
        struct sb_handle *handle, const struct attempt *attempt, const struct sb_version *old)
{
        if (SB_FAULT(LOG_TOLD_EARLY))
                sb_unlogged_tell(&handle->segment, attempt->spot.cell_number,
                        sb_load_acquire(&old->stamp)); /* A:stamp. */
}

/* The stamp of what a write replaced. Fault LOG_TOLD_EARLY: one for which the log is not told. */
static inline __attribute__((always_inline)) uint64_t put_replaced(const struct sb_version *old)
{
        /* A:stamp. A placeholder's is below every cut. */
        return SB_FAULT(LOG_TOLD_EARLY) ? UINT64_MAX : sb_load_acquire(&old->stamp);
}

/* Whether all that the write replaced is a value that stays, and nothing else is to go. */
static bool put_stays(
        const struct attempt *attempt, const struct sb_version *old, enum sb_prefix_told told)
{
        return told == SB_PREFIX_STAYS && old == attempt->spot.head && sb_version_has_value(old) &&
               attempt->write->kind == SB_VERSION_VALUE;
}

/* Installs the version over the head that was found. Return: 0, AGAIN, SB_E_CONFLICT,
 * SB_E_NOT_FOUND. */
static inline __attribute__((always_inline)) int put_install(
        struct sb_handle *handle, struct attempt *attempt, struct sb_op_result *ret)
{
        const struct sb_op_write *write = attempt->write;
        struct sb_version *head = attempt->spot.head, *old = head,
                          *version = (struct sb_version *)(handle->segment.base + attempt->version);
        enum sb_prefix_told told = SB_PREFIX_GOES;
        uint64_t early, replaced;

        if (put_head_is_intent(handle, head)) {
                old = put_look_through(handle, &attempt->spot);
                if (!old)
                        return AGAIN;
        }
        if (SB_UNLIKELY(!sb_version_has_value(old)) && write->kind == SB_VERSION_DELETED)
                return SB_E_NOT_FOUND;
        if (write->expected_rev != SB_OP_ANY_REV &&
                write->expected_rev != (sb_version_has_value(old) ? old->rev : 0)) {
                ret->rev = sb_version_has_value(old) ? old->rev : 0;
                return SB_E_CONFLICT;
        }
        version->rev = put_next_rev(head, old);
        version->node = head->node;
        /* Relaxed, both: the version is private until the CAS publishes it. */
        sb_store_relaxed(&version->stamp, 0);
        sb_store_relaxed(&version->prev, sb_offset_of(&handle->segment, head));
        early = sb_overwrite_fault_clock(&handle->segment);
        sb_overwrite_note(handle, head->node);
        put_fault_tell(handle, attempt, old);
        /* R:publish > A:publish. This is the write: the new offset, the same tag and flags. */
        if (SB_UNLIKELY(!sb_cas64_full(attempt->spot.cell, attempt->spot.word,
                    (attempt->spot.word & (SB_TAG_MASK | SB_CELL_FLAGS)) | attempt->version))) {
                sb_overwrite_lose(handle, ++attempt->lost);
                return AGAIN;
        }
        sb_overwrite_fault_note(handle, head->node);
        if (attempt->entry)
                sb_magazine_publish(handle, &version->block);
        put_fault_stamp(version, early);
        ret->cut = sb_stamp(handle, version);
        ret->rev = version->rev;
        replaced = put_replaced(old);
        if (SB_UNLIKELY(sb_unlogged_or_watched(handle->segment.super, replaced)))
                told = put_attend(handle, version, replaced, ret->cut, attempt->spot.cell_number);
        if (SB_UNLIKELY(attempt->spot.word & (SB_CELL_KEPT | SB_CELL_WATCHED))) {
                put_outgrow(handle, version, attempt->entry, attempt->spot.cell, ret->cut);
                attempt->look_again = old != head || write->kind == SB_VERSION_DELETED;
        } else if (SB_LIKELY(old == head) && SB_LIKELY(told == SB_PREFIX_GOES)) {
                attempt->look_again =
                        !put_supersede(handle, version, old, ret->cut, attempt->entry) ||
                        write->kind == SB_VERSION_DELETED;
        } else {
                attempt->look_again = !put_stays(attempt, old, told);
                if (!attempt->look_again)
                        sb_prefix_leave(handle, attempt->spot.cell_number, ret->cut);
                if (attempt->entry)
                        sb_magazine_vacate(handle, attempt->entry);
        }
        attempt->version = 0;
        return 0;
}

/* ---- the write as a whole ---- */

/* Whether a write that took @rounds goes on for ever. Bound: damage. A key that has a node, and no
 * cell that a search finds; a chain or an index that goes round. */
static __attribute__((noinline)) bool put_is_damaged(struct sb_handle *handle, uint32_t rounds)
{
        if (rounds == SB_PUT_ROUNDS_MAX)
                sb_damage_note(handle);
        return sb_damage_met(handle);
}

/* The part of a write that is under a pin. */
static inline __attribute__((always_inline)) int put_run(
        struct sb_handle *handle, struct attempt *attempt, struct sb_op_result *ret)
{
        uint32_t rounds = 0;
        int r;

        sb_pin(handle);
        put_fill(handle, attempt);
        for (;;) {
                if (SB_LIKELY(put_find(handle, attempt)))
                        r = put_install(handle, attempt, ret);
                else
                        r = put_make_key(handle, attempt, ret);
                if (SB_LIKELY(r != AGAIN && (r || !attempt->version)))
                        break;
                if (put_is_damaged(handle, ++rounds)) {
                        r = -EIO;
                        break;
                }
        }
        /* R:operation > A:operation, R:unpin > A:pins. Last, and in this order: the note stands
         * until nothing is left that a reaper would have to finish, and as long as it stands, the
         * pin keeps the node that it names from being freed. */
        sb_store_release(&handle->record->operation, 0);
        sb_unpin(handle);
        return r;
}

/* Behind the operation, unpinned: remembers what can be pruned later, gives back what was not used,
 * and works when there is enough to do. */
static inline __attribute__((always_inline)) void put_settle(
        struct sb_handle *handle, struct attempt *attempt, int r, uint64_t cut)
{
        if (!r && attempt->look_again)
                sb_limbo_later(handle, attempt->spot.cell_number, cut);
        if (SB_UNLIKELY(attempt->version | attempt->supplies.node | attempt->supplies.placeholder))
                put_give_back(handle, attempt);
        sb_slab_settle(handle);
        sb_work_due(handle);
}

/* No free block was found. Return: SB_E_FULL, or the answer that needs no block: SB_E_NOT_FOUND,
 * SB_E_CONFLICT. */
static __attribute__((noinline)) int put_answer_full(struct sb_handle *handle,
        const struct sb_op_write *write, uint64_t hash, struct sb_op_result *ret)
{
        struct sb_version *version;
        uint64_t rev = 0;

        sb_pin(handle);
        version = sb_find_newest(handle, write->key, write->key_len, hash);
        if (version && sb_version_has_value(version))
                rev = version->rev;
        sb_unpin(handle);
        if (!rev && write->kind == SB_VERSION_DELETED)
                return SB_E_NOT_FOUND;
        if (write->expected_rev == SB_OP_ANY_REV || write->expected_rev == rev)
                return SB_E_FULL;
        ret->rev = rev;
        return SB_E_CONFLICT;
}

/* What may serve a write, other than blocks of the size's own class: at once what is larger, unless
 * this handle's lists hold much that may be of the size; behind the work on the lists all. */
static uint32_t put_allow(struct sb_handle *handle, const struct sb_op_write *write, bool worked)
{
        if (!worked)
                return sb_work_lists_worth(handle) ? 0 : SB_SLAB_LARGER;
        if (write->kind != SB_VERSION_DELETED && (!write->passes || SB_FAULT(RULE_UNRESERVED)))
                return SB_SLAB_LARGER;
        return SB_SLAB_LARGER | SB_SLAB_RESERVE |
               (sb_reserved_is(write->key, write->key_len) ? SB_SLAB_OWN : 0);
}

/* The long way: the whole write, at most twice: where no memory was found, behind the work on this
 * handle's own lists. */
static __attribute__((noinline)) SB_FIND_FLAT int put_long(
        struct sb_handle *handle, const struct sb_op_write *write, struct sb_op_result *ret)
{
        struct attempt attempt;
        uint64_t size = sizeof(struct sb_version) + write->key_len + write->value_len;
        bool taken, worked = false;
        int r;

        attempt.write = write;
        attempt.hash = sb_find_hash(handle, write->key, write->key_len);
        attempt.supplies = (struct sb_key_supplies){0};
        attempt.look_again = false;
        for (;; worked = true) {
                attempt.also = put_allow(handle, write, worked);
                taken = put_take_ready(handle, &attempt, size) ||
                        !sb_slab_take(
                                handle, SB_UNIT_VERSIONS, size, attempt.also, &attempt.version);
                if (SB_LIKELY(taken)) {
                        r = put_run(handle, &attempt, ret);
                        put_settle(handle, &attempt, r, ret->cut);
                        if (SB_LIKELY(r != SB_E_FULL) || worked)
                                return r;
                } else {
                        sb_slab_settle(handle);
                        if (worked)
                                return put_answer_full(handle, write, attempt.hash, ret);
                }
                (void)sb_work_lists(handle);
        }
}

SB_FIND_FLAT int sb_op_write(
        struct sb_handle *handle, const struct sb_op_write *write, struct sb_op_result *ret)
{
        enum sb_overwritten done = SB_OVERWRITE_LEFT;

        if (SB_LIKELY(write->kind == SB_VERSION_VALUE) &&
                SB_LIKELY(sb_find_takes(handle, write->key_len)))
                done = sb_overwrite(handle, write->key, write->key_len,
                        sb_find_hash(handle, write->key, write->key_len), write->value,
                        write->value_len, write->expected_rev, ret);
        if (SB_LIKELY(done == SB_OVERWRITE_DONE))
                return 0;
        return done == SB_OVERWRITE_CONFLICT ? SB_E_CONFLICT : put_long(handle, write, ret);
}

static int put_reserved(struct sb_handle *handle, const void *key, uint32_t key_len,
        const void *value, uint64_t value_len, uint64_t expected_rev, bool passes,
        uint64_t *ret_rev)
{
        struct sb_op_write write = {.key = key,
                .key_len = key_len,
                .kind = value ? SB_VERSION_VALUE : SB_VERSION_DELETED,
                .value = value,
                .value_len = value ? value_len : 0,
                .expected_rev = expected_rev,
                .passes = passes};
        struct sb_op_result result = {0};
        uint32_t slices = 0;
        int r = sb_op_write(handle, &write, &result);

        while (r == SB_E_FULL && slices++ < RESERVED_SLICES && sb_work_slice(handle))
                r = sb_op_write(handle, &write, &result);
        *ret_rev = result.rev;
        return r;
}

int sb_op_write_reserved(struct sb_handle *handle, const void *key, uint32_t key_len,
        const void *value, uint64_t value_len, uint64_t expected_rev, uint64_t *ret_rev)
{
        return put_reserved(handle, key, key_len, value, value_len, expected_rev, false, ret_rev);
}

int sb_op_write_passing(struct sb_handle *handle, const void *key, uint32_t key_len,
        const void *value, uint64_t value_len, uint64_t expected_rev, uint64_t *ret_rev)
{
        return put_reserved(handle, key, key_len, value, value_len, expected_rev, true, ret_rev);
}
