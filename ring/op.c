/* The write path and the read path of one key; see op.h. */
#include "op.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/result.h"
#include "shm/epoch.h"
#include "shm/find.h"
#include "shm/guard.h"
#include "shm/index.h"
#include "shm/node.h"
#include "shm/order.h"
#include "shm/reap.h"
#include "shm/retire.h"
#include "shm/slab.h"
#include "shm/snapshot.h"
#include "shm/walk.h"

/* One write on its way. */
struct attempt {
        const struct sb_op_write *write;
        uint64_t hash;
        uint64_t version; /* block for the new version; 0 once installed */
        struct sb_node_supplies supplies;
        struct sb_spot place;
        bool look_again;  /* something is left in the chain that goes once `safe` has moved */
};

#define AGAIN (-1) /* somebody's CAS came first; otherwise 0 or SB_E_* */

static __attribute__((noinline)) void give_back(struct sb_peer *peer, struct attempt *attempt)
{
        if (attempt->version)
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
                r = sb_slab_take(peer, SB_UNIT_NODES, sb_node_size(sb_height_of(&peer->segment, attempt->hash), key_len), false,
                        &attempt->supplies.node);
        if (!r && !attempt->supplies.birth)
                r = sb_slab_take(peer, SB_UNIT_VERSIONS, sizeof(struct sb_version) + key_len, false, &attempt->supplies.birth);
        return r;
}

/* The key has no cell. 0: made, or being made; look again. */
static __attribute__((noinline)) int make_key(struct sb_peer *peer, struct attempt *attempt, struct sb_op_result *ret)
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
                r = sb_node_make(peer, write->key, write->key_len, attempt->hash, &attempt->supplies);
        return r;
}

static bool has_value(const struct sb_version *version)
{
        return (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE;
}

#define COPY_SHORT 512u /* beyond that the copy is what a write costs */

/* Without a call or a string instruction: those would end the overlapping of this write's misses with the next one's. */
static inline __attribute__((always_inline)) void copy(unsigned char *to, const void *data, uint64_t len)
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

static inline __attribute__((always_inline)) void fill(struct sb_peer *peer, struct attempt *attempt)
{
        const struct sb_op_write *write = attempt->write;
        struct sb_version *version = (struct sb_version *)(peer->segment.base + attempt->version);

        sb_store_relaxed(&version->block.birth, peer->hi); /* Relaxed: private until it is installed. */
        version->shape = SB_SHAPE(write->value_len, write->key_len, write->kind, peer->slot);
        copy(version->bytes, write->key, write->key_len);
        copy(version->bytes + write->key_len, write->value, write->value_len);
}

/* The key's cell: the short way, then the one that asks births and finishes removals. */
static inline __attribute__((always_inline)) bool find(struct sb_peer *peer, struct attempt *attempt)
{
        const struct sb_op_write *write = attempt->write;
        struct sb_found found;

        if (SB_LIKELY(sb_find_plain(peer, write->key, write->key_len, attempt->hash, peer->hi, &found))) {
                attempt->place = (struct sb_spot){.cell = found.cell, .word = found.word, .head = found.version,
                        .cell_number = sb_cell_number(&peer->segment, found.cell)};
                return true;
        }
        return sb_index_find(peer, write->key, write->key_len, attempt->hash, &attempt->place);
}

/* Install over the version that was found. 0, AGAIN, SB_E_CONFLICT, SB_E_NOT_FOUND. */
static inline __attribute__((always_inline)) int install(struct sb_peer *peer, struct attempt *attempt, struct sb_op_result *ret)
{
        const struct sb_op_write *write = attempt->write;
        struct sb_version *old = attempt->place.head, *version = (struct sb_version *)(peer->segment.base + attempt->version);
        uint64_t early = 0;

        if (SB_UNLIKELY(!has_value(old)) && write->kind == SB_VERSION_DELETED)
                return SB_E_NOT_FOUND;
        /* A predecessor is stamped before it is replaced: else an effect could be in a cut without its cause. */
        if (SB_SHAPE_KIND(old->shape) != SB_VERSION_BIRTH && !SB_FAULT(SUPERSEDE_UNSTAMPED))
                sb_stamp(peer, old);
        if (write->expected_rev != SB_OP_ANY_REV && write->expected_rev != (has_value(old) ? old->rev : 0)) {
                ret->rev = has_value(old) ? old->rev : 0;
                return SB_E_CONFLICT;
        }
        version->rev = old->rev + 1;
        version->node = old->node;
        /* Relaxed, both: private until the CAS publishes them. */
        sb_store_relaxed(&version->stamp, 0);
        sb_store_relaxed(&version->prev, sb_offset_of(&peer->segment, old));
        if (SB_FAULT(STAMP_EARLY))
                early = sb_load_acquire(&peer->segment.super->clock); /* A:clock. */
        /* R:operation > A:operation. Before the install: whoever raises `safe` stamps what it finds there. */
        if (!SB_FAULT(SLOT_AFTER_INSTALL))
                sb_store_release(&peer->client->operation, old->node);
        /* R:publish > A:publish. This is the write; the flags ride along. */
        if (SB_UNLIKELY(!sb_cas64_full(attempt->place.cell, attempt->place.word,
                    (attempt->place.word & (SB_TAG_MASK | SB_CELL_FLAGS)) | attempt->version))) {
                peer->count_retried++;
                return AGAIN;
        }
        if (SB_FAULT(SLOT_AFTER_INSTALL))
                sb_store_release(&peer->client->operation, old->node); /* R:operation. */
        attempt->version = 0;
        if (early)
                sb_cas64_full(&version->stamp, 0, early);
        ret->cut = sb_stamp(peer, version);
        ret->rev = version->rev;
        attempt->look_again = !sb_prune_behind(peer, version, old) || write->kind == SB_VERSION_DELETED;
        return 0;
}

static inline __attribute__((always_inline)) int run(struct sb_peer *peer, struct attempt *attempt, struct sb_op_result *ret)
{
        int r;

        sb_pin(peer);
        fill(peer, attempt);
        for (;;) {
                if (SB_LIKELY(find(peer, attempt)))
                        r = install(peer, attempt, ret);
                else
                        r = make_key(peer, attempt, ret);
                if (SB_UNLIKELY(r == AGAIN || (!r && attempt->version)))
                        continue;
                break;
        }
        /* R:operation > A:operation, R:unpin > A:pins. Last, in this order: nothing is left to finish. */
        sb_store_release(&peer->client->operation, 0);
        sb_unpin(peer);
        return r;
}

/* Behind the operation, unpinned: remember what can be pruned later, give back what was not used, work when there is enough of it. */
static inline __attribute__((always_inline)) void settle(struct sb_peer *peer, struct attempt *attempt, int r, uint64_t cut)
{
        if (!r && attempt->look_again)
                sb_retire_later(peer, attempt->place.cell_number, cut);
        else if (r == SB_E_FULL)
                sb_retire_leave(peer); /* perhaps a node without a cell, which a sweep takes out */
        if (SB_UNLIKELY(attempt->version | attempt->supplies.node | attempt->supplies.birth))
                give_back(peer, attempt);
        sb_slab_settle(peer);
        if (peer->pending_tail - peer->pending_head >= SB_PENDING_MAX / 4)
                sb_retire_pending(peer);
        if (peer->limbo_count >= SB_LIMBO_MAX / 2)
                sb_retire_free(peer);
}

void sb_op_memory_work(struct sb_peer *peer, bool whole_sweep)
{
        uint32_t cursor = 0;

        sb_safe_raise(peer);
        sb_retire_pending(peer);
        sb_retire_free(peer);
        if (whole_sweep) {
                sb_sweep_begin(peer);
                sb_sweep(peer, &cursor, peer->segment.geometry.unit_count);
                sb_sweep_end(peer);
        }
        /* Twice: a removed node has a second grace period. */
        sb_retire_pending(peer);
        sb_retire_free(peer);
        sb_retire_free(peer);
}

/* Room for the version: after the own lists' work, after everybody's. */
static __attribute__((noinline)) int find_room(struct sb_peer *peer, uint64_t size, bool tombstone, uint64_t *ret_offset)
{
        int r = sb_slab_take(peer, SB_UNIT_VERSIONS, size, false, ret_offset), effort;

        for (effort = 0; r && effort < 3; effort++) {
                sb_slab_settle(peer);
                sb_op_memory_work(peer, effort > 0);
                r = sb_slab_take(peer, SB_UNIT_VERSIONS, size, tombstone && effort, ret_offset);
        }
        return r;
}

/* No room at all: is that the answer, or would it have been another one with room? */
static __attribute__((noinline)) int full(struct sb_peer *peer, const struct sb_op_write *write, uint64_t hash, struct sb_op_result *ret)
{
        struct sb_version *version;
        uint64_t rev = 0;

        sb_pin(peer);
        version = sb_find_newest(peer, write->key, write->key_len, hash);
        if (version && has_value(version))
                rev = version->rev;
        sb_unpin(peer);
        if (!rev && write->kind == SB_VERSION_DELETED)
                return SB_E_NOT_FOUND;
        if (write->expected_rev == SB_OP_ANY_REV || write->expected_rev == rev)
                return SB_E_FULL;
        ret->rev = rev;
        return SB_E_CONFLICT;
}

/* ---- the short way ---- */

#define SHORT_VALUE_MIN 8u   /* copied as words that overlap */
#define SHORT_VALUE_MAX 512u /* beyond that the copy is what a write costs */

/* Without a call and without a string instruction: those would end the overlapping of this write's misses with the next one's. */
static inline __attribute__((always_inline)) void copy_pair(unsigned char *to, const unsigned char *from)
{
        uint64_t words[2];

        memcpy(words, from, 16);
        memcpy(to, words, 16);
}

/* SHORT_VALUE_MIN bytes or more. */
static inline __attribute__((always_inline)) void copy_value(unsigned char *to, const unsigned char *from, uint64_t len)
{
        const unsigned char *end = from + len;
        uint64_t word;

        if (SB_UNLIKELY(len < 16)) {
                memcpy(&word, from, 8);
                memcpy(to, &word, 8);
                memcpy(&word, end - 8, 8);
                memcpy(to + len - 8, &word, 8);
                return;
        }
        for (; end - from > 32; from += 32, to += 32) {
                copy_pair(to, from);
                copy_pair(to + 16, from + 16);
        }
        if (end - from > 16)
                copy_pair(to, from);
        copy_pair(to + (end - from) - 16, end - 16);
}

/* Keys of the short way: two words that overlap. */
static inline __attribute__((always_inline)) void copy_key(unsigned char *to, const unsigned char *from, uint64_t len)
{
        uint64_t first, last;

        memcpy(&first, from, 8);
        memcpy(&last, from + len - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + len - 8, &last, 8);
}

/* Where a short write takes its block from, or NULL: another kind of write, or memory work is due. */
static inline __attribute__((always_inline)) struct sb_reserve *short_reserve(struct sb_peer *peer,
        const struct sb_op_write *write)
{
        struct sb_reserve *reserve;

        if (SB_UNLIKELY(!sb_find_two_words(write->key_len)) || SB_UNLIKELY(write->kind != SB_VERSION_VALUE) ||
                SB_UNLIKELY(write->value_len - SHORT_VALUE_MIN > SHORT_VALUE_MAX - SHORT_VALUE_MIN) ||
                SB_FAULT(SUPERSEDE_UNSTAMPED) || SB_FAULT(STAMP_EARLY) || SB_FAULT(SLOT_AFTER_INSTALL))
                return NULL;
        /* A table of classes that is long enough for all that is short. */
        static_assert((sizeof(struct sb_version) + SB_FIND_KEY_MAX + SHORT_VALUE_MAX + 15) / 16 < SB_CLASS_TABLE, "short");
        reserve = &peer->versions[peer->segment.class_of[(sizeof(struct sb_version) + write->key_len + write->value_len + 15) /
                16]];
        if (SB_UNLIKELY(!reserve->count) || SB_UNLIKELY(peer->pending_tail - peer->pending_head >= SB_PENDING_MAX / 4) ||
                SB_UNLIKELY(peer->limbo_count >= SB_LIMBO_MAX / 2))
                return NULL;
        return reserve;
}

/* Behind the install: the replaced version goes at once when no cut can tell it from the new one, else once `safe` has moved. */
static __attribute__((noinline)) void prune_same_stamp(struct sb_peer *peer, struct sb_version *version,
        struct sb_version *old, uint32_t era, uint64_t cell_number)
{
        peer->hi = era; /* the pin is still there */
        if (!sb_prune_behind(peer, version, old))
                /* Relaxed: stamped by now. */
                sb_retire_later(peer, cell_number, sb_load_relaxed(&version->stamp));
        peer->hi = 0;
}

/* The value of a key that has one, replaced at the first try: the same steps in the same order as run(), install() and settle().
 * False: nothing happened, the block is in the reserve still. */
static inline __attribute__((always_inline)) bool write_short(struct sb_peer *peer, const struct sb_op_write *write,
        struct sb_op_result *ret)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_reserve *reserve = short_reserve(peer, write);
        uint64_t at, stamp, cell_number, key_len = write->key_len;
        struct sb_version *version;
        struct sb_found found;
        uint32_t era;

        if (SB_UNLIKELY(!reserve))
                return false;
        era = sb_find_pin(peer);
        if (SB_UNLIKELY(!sb_find_plain(peer, write->key, key_len, sb_find_hash(peer, write->key, key_len), era, &found)) ||
                SB_UNLIKELY(write->expected_rev != SB_OP_ANY_REV && write->expected_rev != found.version->rev)) {
                sb_find_unpin(peer);
                return false;
        }
        at = reserve->offset[reserve->count - 1];
        version = (struct sb_version *)(segment->base + at);
        sb_store_relaxed(&version->block.birth, era); /* Relaxed, these three: private until the CAS publishes them. */
        sb_store_relaxed(&version->stamp, 0);
        sb_store_relaxed(&version->prev, found.offset);
        version->rev = found.version->rev + 1;
        version->node = found.version->node;
        version->shape = SB_SHAPE(write->value_len, key_len, SB_VERSION_VALUE, peer->slot);
        copy_key(version->bytes, write->key, key_len);
        copy_value(version->bytes + key_len, write->value, write->value_len);
        sb_store_release(&peer->client->operation, version->node); /* R:operation > A:operation. As in install(). */
        /* R:publish > A:publish. The other offset, the same tag and flags. */
        if (SB_UNLIKELY(!sb_cas64_full(found.cell, found.word, found.word ^ found.offset ^ at))) {
                sb_store_release(&peer->client->operation, 0); /* R:operation. */
                sb_find_unpin(peer);
                return false;
        }
        reserve->count--;
        /* A:clock. As in sb_stamp(). */
        stamp = sb_load_acquire(&segment->super->clock);
        if (SB_UNLIKELY(!sb_cas64_full(&version->stamp, 0, stamp)))
                stamp = sb_load_acquire(&version->stamp); /* A:stamp. Somebody else was first. */
        ret->cut = stamp;
        ret->rev = version->rev;
        cell_number = sb_cell_number(segment, found.cell);
        if (SB_UNLIKELY(stamp == found.stamp))
                prune_same_stamp(peer, version, found.version, era, cell_number);
        else /* There is room: it was looked for. */
                peer->pending[peer->pending_tail++ % SB_PENDING_MAX] =
                        (struct sb_pending){.cell_number = cell_number, .stamp = stamp};
        /* R:operation > A:operation, R:unpin > A:pins. As in run(). */
        sb_store_release(&peer->client->operation, 0);
        sb_find_unpin(peer);
        return true;
}

static __attribute__((noinline)) SB_FIND_FLAT int write_long(struct sb_peer *peer, const struct sb_op_write *write,
        struct sb_op_result *ret)
{
        struct attempt attempt;
        uint64_t size = sizeof(struct sb_version) + write->key_len + write->value_len;
        int r, effort;

        attempt.write = write;
        attempt.hash = sb_find_hash(peer, write->key, write->key_len);
        attempt.supplies.node = attempt.supplies.birth = 0;
        attempt.look_again = false;
        for (effort = 0;; effort++) {
                if (SB_UNLIKELY(!sb_slab_take_ready(peer, size, &attempt.version))) {
                        r = find_room(peer, size, write->kind == SB_VERSION_DELETED, &attempt.version);
                        if (r) {
                                sb_slab_settle(peer);
                                return full(peer, write, attempt.hash, ret);
                        }
                }
                r = run(peer, &attempt, ret);
                settle(peer, &attempt, r, ret->cut);
                if (SB_LIKELY(r != SB_E_FULL) || effort == 2)
                        return r;
                sb_op_memory_work(peer, effort > 0);
        }
}

SB_FIND_FLAT int sb_op_write(struct sb_peer *peer, const struct sb_op_write *write, struct sb_op_result *ret)
{
        return SB_LIKELY(write_short(peer, write, ret)) ? 0 : write_long(peer, write, ret);
}

/* ---- reading ---- */

static bool hold(struct sb_peer *peer, struct sb_version *version, uint32_t guard_index, struct sb_version **ret_version)
{
        if (!version || !has_value(version))
                return false;
        /* Before the unpin: the guard takes over from the pin. */
        if (!SB_FAULT(GUARD_AFTER_UNPIN))
                sb_guard_set(peer, guard_index, sb_offset_of(&peer->segment, version));
        *ret_version = version;
        return true;
}

static __attribute__((noinline)) int get_long(struct sb_peer *peer, const void *key, uint32_t key_len, uint32_t guard_index,
        struct sb_version **ret_version)
{
        uint64_t hash = sb_hash_key(key, key_len, peer->segment.seed);
        bool held;

        sb_pin(peer);
        held = hold(peer, sb_find_newest(peer, key, key_len, hash), guard_index, ret_version);
        sb_unpin(peer);
        if (SB_FAULT(GUARD_AFTER_UNPIN) && held)
                sb_guard_set(peer, guard_index, sb_offset_of(&peer->segment, *ret_version));
        return held ? 0 : SB_E_NOT_FOUND;
}

SB_FIND_FLAT int sb_op_get(struct sb_peer *peer, const void *key, uint32_t key_len, uint32_t guard_index, struct sb_version **ret_version)
{
        struct sb_found found;

        if (SB_UNLIKELY(guard_index >= peer->segment.geometry.guard_inline) ||
                SB_UNLIKELY(!sb_find_plain(peer, key, key_len, sb_find_hash(peer, key, key_len), sb_find_pin(peer), &found)))
                return get_long(peer, key, key_len, guard_index, ret_version);
        sb_find_hold_and_unpin(peer, guard_index, found.offset);
        *ret_version = found.version;
        return 0;
}

#define TOGETHER 32u /* keys whose memory is fetched at once: as many misses as a core keeps in flight, and some */

static void get_together(struct sb_peer *peer, const struct sb_op_write *keys, uint32_t count, const uint32_t *guard_indexes,
        struct sb_version **ret_versions)
{
        uint64_t hash[TOGETHER];
        uint32_t i;

        for (i = 0; i < count; i++) {
                hash[i] = sb_hash_key(keys[i].key, keys[i].key_len, peer->segment.seed);
                sb_find_fetch_bucket(peer, hash[i]);
        }
        for (i = 0; i < count; i++)
                sb_find_fetch_version(peer, hash[i]);
        sb_pin(peer);
        for (i = 0; i < count; i++) {
                ret_versions[i] = NULL;
                hold(peer, sb_find_newest(peer, keys[i].key, keys[i].key_len, hash[i]), guard_indexes[i], &ret_versions[i]);
        }
        sb_unpin(peer);
}

void sb_op_get_many(struct sb_peer *peer, const struct sb_op_write *keys, uint32_t count, const uint32_t *guard_indexes,
        struct sb_version **ret_versions)
{
        uint32_t done;

        for (done = 0; done < count; done += TOGETHER)
                get_together(peer, keys + done, count - done < TOGETHER ? count - done : TOGETHER, guard_indexes + done,
                        ret_versions + done);
}
