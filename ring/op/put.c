/* The write path of one key; see put.h. */

#include "ring/op/put.h"

#include <string.h>

#include "ring/op/overwrite.h"
#include "ring/op/write.h"
#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/magazine.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/mvcc/find-plain.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/stamp.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/work.h"

/* One write on its way. */
struct attempt {
        const struct sb_op_write *write;
        uint64_t hash;
        uint64_t version;     /* block for the new version; 0 once installed */
        uint32_t stock_place; /* of that block in the stock, or 0 */
        struct sb_key_supplies supplies;
        uint32_t also; /* what may serve when memory is short: SB_SLAB_* */
        struct sb_spot place;
        bool look_again; /* something is left in the chain that goes once `safe` has moved */
};

#define AGAIN (-1) /* somebody's CAS came first; otherwise 0 or SB_E_* */
/* Each further round means that somebody else got on; so many in a row mean a damaged segment, in
 * which the engine, which writes too, shall not hang. */
#define ROUNDS_MAX (1u << 20)

/* A block for the new version, if one is at hand. Tombstones never come out of the stock: so a
 * key's removal meets none in hand. */
static bool take_ready(struct sb_peer *peer, struct attempt *attempt, uint64_t size)
{
        uint32_t class_ = sb_unit_class(&peer->segment, size);

        attempt->stock_place = 0;
        if (sb_stock_serves(peer, class_) && attempt->write->kind == SB_VERSION_VALUE)
                attempt->stock_place = sb_stock_first(peer, class_);
        if (!attempt->stock_place)
                return sb_slab_take_ready(peer, size, &attempt->version);
        attempt->version = sb_stock_offset(peer, attempt->stock_place);
        sb_stock_take(peer, class_, attempt->stock_place);
        sb_model_block(attempt->version, peer->segment.class_size[class_], 1);
        return true;
}

static void put_back(struct sb_peer *peer, struct attempt *attempt)
{
        uint32_t class_ = sb_unit_kind_of(&peer->segment, attempt->version) & 63;

        sb_stock_put(peer, class_, attempt->stock_place);
        sb_model_block(attempt->version, peer->segment.class_size[class_], 0);
}

static __attribute__((noinline)) void give_back(struct sb_peer *peer, struct attempt *attempt)
{
        if (attempt->version && attempt->stock_place)
                put_back(peer, attempt);
        else if (attempt->version)
                sb_slab_give_back(peer, attempt->version);
        if (attempt->supplies.node)
                sb_slab_give_back(peer, attempt->supplies.node);
        if (attempt->supplies.birth)
                sb_slab_give_back(peer, attempt->supplies.birth);
        attempt->version = attempt->supplies.node = attempt->supplies.birth = 0;
}

/* What making a key takes, before anything is linked. */
static int fetch_supplies(struct sb_peer *peer, struct attempt *attempt)
{
        uint32_t key_len = attempt->write->key_len;
        int r = 0;

        if (!attempt->supplies.node)
                r = sb_slab_take(peer, SB_UNIT_NODES,
                        sb_node_size(sb_node_height(&peer->segment, attempt->hash), key_len),
                        attempt->also, &attempt->supplies.node);
        if (!r && !attempt->supplies.birth)
                r = sb_slab_take(peer, SB_UNIT_VERSIONS, sizeof(struct sb_version) + key_len,
                        attempt->also, &attempt->supplies.birth);
        return r;
}

/* The key has no cell. 0: made, or being made; look again. */
static __attribute__((noinline)) int make_key(
        struct sb_peer *peer, struct attempt *attempt, struct sb_op_result *ret)
{
        const struct sb_op_write *write = attempt->write;
        int r;

        if (write->kind == SB_VERSION_DELETED)
                return SB_E_NOT_FOUND;
        if (write->expected_rev && write->expected_rev != SB_OP_ANY_REV) {
                ret->rev = 0;
                return SB_E_CONFLICT;
        }
        r = fetch_supplies(peer, attempt);
        if (!r)
                r = sb_key_make(
                        peer, write->key, write->key_len, attempt->hash, &attempt->supplies);
        return r;
}

#define COPY_SHORT 512u /* beyond that the copy is what a write costs */

/* Without a call or a string instruction: those would end the overlapping of this write's misses
 * with the next one's. */
static inline __attribute__((always_inline)) void copy(
        unsigned char *to, const void *data, uint64_t len)
{
        const unsigned char *from = data;
        uint64_t at = 0, words[2];

        if (SB_UNLIKELY(len > COPY_SHORT)) {
                memcpy(to, from, len);
                return;
        }
        for (; at + 16 <= len; at += 16) {
                memcpy(words, from + at, 16);
                memcpy(to + at, words, 16);
        }
        for (; at + 8 <= len; at += 8) {
                memcpy(words, from + at, 8);
                memcpy(to + at, words, 8);
        }
        for (; at < len; at++)
                to[at] = from[at];
}

static inline __attribute__((always_inline)) void fill(
        struct sb_peer *peer, struct attempt *attempt)
{
        const struct sb_op_write *write = attempt->write;
        struct sb_version *version = (struct sb_version *)(peer->segment.base + attempt->version);

        /* Relaxed: private until it is installed. */
        sb_store_relaxed(&version->block.birth, sb_pin_era(peer));
        version->shape = SB_SHAPE(write->value_len, write->key_len, write->kind, peer->slot);
        copy(version->bytes, write->key, write->key_len);
        copy(version->bytes + write->key_len, write->value, write->value_len);
}

/* The key's cell: the short way, then the one that asks births and finishes removals. */
static inline __attribute__((always_inline)) bool find(
        struct sb_peer *peer, struct attempt *attempt)
{
        const struct sb_op_write *write = attempt->write;
        struct sb_found found;

        if (SB_LIKELY(sb_find_plain(
                    peer, write->key, write->key_len, attempt->hash, sb_pin_era(peer), &found))) {
                attempt->place = (struct sb_spot){.cell = found.cell,
                        .word = found.word,
                        .head = found.version,
                        .cell_number = sb_cell_number(&peer->segment, found.cell)};
                return true;
        }
        return sb_key_find(peer, write->key, write->key_len, attempt->hash, &attempt->place);
}

/* Behind the install: the replaced version goes, when by the peer's own view no cut can tell it
 * from the new one. False: it stays for later. What a delete replaces goes the long way: it is to
 * serve everybody, also when this peer does nothing more. @place: the new one's in the stock, or 0;
 * it is used or empty afterwards. */
static bool supersede(struct sb_peer *peer, struct sb_version *version, struct sb_version *old,
        uint64_t cut, uint32_t place)
{
        if (sb_version_has_value(old) && sb_version_has_value(version) &&
                sb_horizon_passed(peer, cut, sb_load_acquire(&old->stamp)) && /* A:stamp. */
                sb_stock_hold(peer, version, old, sb_offset_of(&peer->segment, old), place))
                return true;
        if (place)
                sb_stock_vacate(peer, place);
        return sb_prune_behind(peer, version, old);
}

/* The head is an intent or was aborted: what counts is below. NULL: look again. */
static __attribute__((noinline)) struct sb_version *look_through(
        struct sb_peer *peer, const struct sb_spot *place)
{
        struct sb_settled settled;
        struct sb_version *version = sb_txn_effective(peer, place->head, &settled);

        if (settled.outcome == SB_TXN_UNDECIDED && !SB_FAULT(TXN_NOT_HELPED)) {
                sb_txn_help(peer, place->head);
                return NULL;
        }
        if (!sb_txn_lasts(peer, place->cell, place->word, place->head, settled))
                return NULL;
        /* Nothing below counts: only in a damaged segment, in which nobody shall hang. */
        return version ? version : place->head;
}

/* Install over the version that was found. 0, AGAIN, SB_E_CONFLICT, SB_E_NOT_FOUND. */
static inline __attribute__((always_inline)) int install(
        struct sb_peer *peer, struct attempt *attempt, struct sb_op_result *ret)
{
        const struct sb_op_write *write = attempt->write;
        struct sb_version *head = attempt->place.head, *old = head,
                          *version = (struct sb_version *)(peer->segment.base + attempt->version);
        uint64_t early = 0;

        /* A predecessor is stamped before it is replaced: else an effect could be in a cut without
         * its cause; before it is seen at all, else a later cut could be without what was seen. */
        if (SB_SHAPE_KIND(head->shape) != SB_VERSION_BIRTH && !SB_FAULT(SUPERSEDE_UNSTAMPED) &&
                SB_UNLIKELY(sb_stamp(peer, head) & SB_STAMP_INTENT)) {
                old = look_through(peer, &attempt->place);
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
        version->rev = (SB_FAULT(CONFLICT_BURNS) ? head : old)->rev + 1;
        version->node = head->node;
        /* Relaxed, both: private until the CAS publishes them. */
        sb_store_relaxed(&version->stamp, 0);
        sb_store_relaxed(&version->prev, sb_offset_of(&peer->segment, head));
        if (SB_FAULT(STAMP_EARLY))
                early = sb_load_acquire(&peer->segment.super->clock); /* A:clock. */
        /* R:operation > A:operation. Before the install: whoever raises `safe` stamps what it finds
         * there. */
        if (!SB_FAULT(SLOT_AFTER_INSTALL))
                sb_store_release(&peer->client->operation, head->node);
        /* R:publish > A:publish. This is the write; the flags ride along. */
        if (SB_UNLIKELY(!sb_cas64_full(attempt->place.cell, attempt->place.word,
                    (attempt->place.word & (SB_TAG_MASK | SB_CELL_FLAGS)) | attempt->version))) {
                peer->counters.retried++;
                return AGAIN;
        }
        if (SB_FAULT(SLOT_AFTER_INSTALL))
                sb_store_release(&peer->client->operation, head->node); /* R:operation. */
        if (attempt->stock_place)
                sb_stock_publish(peer, &version->block);
        if (early)
                sb_cas64_full(&version->stamp, 0, early);
        ret->cut = sb_stamp(peer, version);
        ret->rev = version->rev;
        if (SB_LIKELY(old == head) && SB_LIKELY(!(attempt->place.word & SB_CELL_KEPT))) {
                attempt->look_again =
                        !supersede(peer, version, old, ret->cut, attempt->stock_place) ||
                        write->kind == SB_VERSION_DELETED;
        } else {
                attempt->look_again = true;
                if (attempt->stock_place)
                        sb_stock_vacate(peer, attempt->stock_place);
        }
        attempt->version = 0;
        return 0;
}

static inline __attribute__((always_inline)) int run(
        struct sb_peer *peer, struct attempt *attempt, struct sb_op_result *ret)
{
        uint32_t rounds = 0;
        int r;

        sb_pin(peer);
        fill(peer, attempt);
        for (;;) {
                if (SB_LIKELY(find(peer, attempt)))
                        r = install(peer, attempt, ret);
                else
                        r = make_key(peer, attempt, ret);
                if (SB_LIKELY(r != AGAIN && (r || !attempt->version)))
                        break;
                if (++rounds == ROUNDS_MAX) {
                        r = SB_E_FULL;
                        break;
                }
        }
        /* R:operation > A:operation, R:unpin > A:pins. Last, in this order: nothing is left to
         * finish. */
        sb_store_release(&peer->client->operation, 0);
        sb_unpin(peer);
        return r;
}

/* Behind the operation, unpinned: remember what can be pruned later, give back what was not used,
 * work when there is enough of it. */
static inline __attribute__((always_inline)) void settle(
        struct sb_peer *peer, struct attempt *attempt, int r, uint64_t cut)
{
        if (!r && attempt->look_again)
                sb_limbo_later(peer, attempt->place.cell_number, cut);
        else if (r == SB_E_FULL)
                sb_limbo_leave(peer); /* perhaps a node without a cell, which a sweep takes out */
        if (SB_UNLIKELY(attempt->version | attempt->supplies.node | attempt->supplies.birth))
                give_back(peer, attempt);
        sb_slab_settle(peer);
        sb_work_due(peer);
}

/* Room for the version: after the own lists' work, after everybody's. */
static __attribute__((noinline)) int find_room(
        struct sb_peer *peer, uint64_t size, bool tombstone, uint64_t *ret_offset)
{
        int r = sb_slab_take(peer, SB_UNIT_VERSIONS, size, 0, ret_offset), effort;

        for (effort = 0; r && effort < 3; effort++) {
                sb_slab_settle(peer);
                sb_work_all(peer, effort > 0);
                r = sb_slab_take(peer, SB_UNIT_VERSIONS, size,
                        !effort ? 0 : SB_SLAB_LARGER | (tombstone ? SB_SLAB_RESERVE : 0),
                        ret_offset);
        }
        return r;
}

/* No room at all: is that the answer, or would it have been another one with room? */
static __attribute__((noinline)) int full(struct sb_peer *peer, const struct sb_op_write *write,
        uint64_t hash, struct sb_op_result *ret)
{
        struct sb_version *version;
        uint64_t rev = 0;

        sb_pin(peer);
        version = sb_find_newest(peer, write->key, write->key_len, hash);
        if (version && sb_version_has_value(version))
                rev = version->rev;
        sb_unpin(peer);
        if (!rev && write->kind == SB_VERSION_DELETED)
                return SB_E_NOT_FOUND;
        if (write->expected_rev == SB_OP_ANY_REV || write->expected_rev == rev)
                return SB_E_FULL;
        ret->rev = rev;
        return SB_E_CONFLICT;
}

static __attribute__((noinline)) SB_FIND_FLAT int write_long(
        struct sb_peer *peer, const struct sb_op_write *write, struct sb_op_result *ret)
{
        struct attempt attempt;
        uint64_t size = sizeof(struct sb_version) + write->key_len + write->value_len;
        int r, effort;

        attempt.write = write;
        attempt.hash = sb_find_hash(peer, write->key, write->key_len);
        attempt.supplies.node = attempt.supplies.birth = 0;
        attempt.look_again = false;
        for (effort = 0;; effort++) {
                attempt.also = effort > 1 ? SB_SLAB_LARGER : 0;
                if (SB_UNLIKELY(!take_ready(peer, &attempt, size))) {
                        r = find_room(
                                peer, size, write->kind == SB_VERSION_DELETED, &attempt.version);
                        if (r) {
                                sb_slab_settle(peer);
                                return full(peer, write, attempt.hash, ret);
                        }
                }
                r = run(peer, &attempt, ret);
                settle(peer, &attempt, r, ret->cut);
                if (SB_LIKELY(r != SB_E_FULL) || effort == 2)
                        return r;
                sb_work_all(peer, effort > 0);
        }
}

SB_FIND_FLAT int sb_op_write(
        struct sb_peer *peer, const struct sb_op_write *write, struct sb_op_result *ret)
{
        if (SB_LIKELY(write->kind == SB_VERSION_VALUE) &&
                SB_LIKELY(sb_overwrite(peer, write->key, write->key_len, write->value,
                        write->value_len, write->expected_rev, ret)))
                return 0;
        return write_long(peer, write, ret);
}

int sb_op_write_own(struct sb_peer *peer, const void *key, uint32_t key_len, const void *value,
        uint64_t value_len, uint64_t expected_rev, uint64_t *ret_rev)
{
        struct sb_op_write write = {.key = key,
                .key_len = key_len,
                .kind = value ? SB_VERSION_VALUE : SB_VERSION_DELETED,
                .value = value,
                .value_len = value ? value_len : 0,
                .expected_rev = expected_rev};
        struct sb_op_result result = {0};
        int r = sb_op_write(peer, &write, &result);

        *ret_rev = result.rev;
        return r;
}
