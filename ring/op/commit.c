/* The commit of a transaction; see commit.h. */

#include "ring/op/commit.h"

#include <errno.h>
#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/mvcc/find-plain.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/snapshot.h"
#include "shm/mvcc/stamp.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/work.h"

#define EFFORTS 3u
/* Each further round means that a key went away just now: so many mean a damaged segment, in which
 * nobody shall hang. */
#define ROUNDS_MAX 1024u
#define ABORTED_WAITING                                                                            \
        8u /* aborted transactions in limbo: then a batch is worth its membarrier                  \
            */

/* One commit on its way. The descriptor's list of versions is also ours of blocks. */
struct attempt {
        const struct sb_commit_wish *wish;
        uint64_t at; /* offset of the descriptor; 0: no blocks yet */
        struct sb_commit *commit;
        uint32_t taken; /* blocks for versions, entries of commit->write */
        bool made;      /* keys that have no value yet */
};

#define AGAIN (-1) /* look again; otherwise 0 or a result */

static uint64_t version_size(const struct sb_commit_write *write)
{
        return sizeof(struct sb_version) + write->key_len + write->value_len + SB_TRAILER_TXN;
}

static uint64_t ranges_size(const struct sb_commit_wish *wish)
{
        uint64_t size = 0;
        uint32_t i;

        for (i = 0; i < wish->range_count; i++)
                size += SB_RANGE_HEAD + wish->ranges[i].low_len + wish->ranges[i].high_len;
        return size;
}

static uint64_t commit_size(const struct sb_commit_wish *wish)
{
        return sizeof(struct sb_commit) + 8 * (uint64_t)wish->write_count + ranges_size(wish);
}

/* ---- blocks ---- */

static void give_back(struct sb_peer *peer, struct attempt *attempt)
{
        if (!attempt->at)
                return;
        while (attempt->taken)
                sb_slab_give_back(peer, attempt->commit->write[--attempt->taken]);
        sb_slab_give_back(peer, attempt->at);
        attempt->at = 0;
}

/* All blocks, or none. */
static int take_all(struct sb_peer *peer, struct attempt *attempt, uint32_t also)
{
        const struct sb_commit_wish *wish = attempt->wish;
        int r = sb_slab_take(peer, SB_UNIT_VERSIONS, commit_size(wish), also, &attempt->at);

        if (r)
                return r;
        attempt->commit = (struct sb_commit *)(peer->segment.base + attempt->at);
        attempt->taken = 0;
        while (!r && attempt->taken < wish->write_count) {
                r = sb_slab_take(peer, SB_UNIT_VERSIONS,
                        version_size(&wish->writes[attempt->taken]), also,
                        &attempt->commit->write[attempt->taken]);
                attempt->taken += !r;
        }
        if (r)
                give_back(peer, attempt);
        return r;
}

static bool only_deletes(const struct sb_commit_wish *wish)
{
        uint32_t i;

        for (i = 0; i < wish->write_count; i++)
                if (wish->writes[i].kind != SB_VERSION_DELETED)
                        return false;
        return true;
}

/* Memory work only while no block is in hand that nothing links: the slabs that such ones lie in
 * must stay this client's. */
static int take_blocks(struct sb_peer *peer, struct attempt *attempt)
{
        uint32_t reserve = only_deletes(attempt->wish) ? SB_SLAB_RESERVE : 0, effort;
        int r = take_all(peer, attempt, 0);

        for (effort = 0; r && effort < EFFORTS; effort++) {
                sb_slab_settle(peer);
                sb_work_all(peer, effort > 0);
                r = take_all(peer, attempt, effort ? SB_SLAB_LARGER | reserve : 0);
        }
        if (r)
                sb_slab_settle(peer);
        return r;
}

/* ---- keys ---- */

static int make_key(struct sb_peer *peer, const struct sb_commit_write *write, uint32_t also)
{
        uint64_t hash = sb_hash_key(write->key, write->key_len, peer->segment.seed);
        struct sb_key_supplies supplies = {0};
        struct sb_spot spot;
        uint32_t rounds = 0;
        int r = 0;

        sb_pin(peer);
        while (!r && rounds++ < ROUNDS_MAX &&
                !sb_key_find(peer, write->key, write->key_len, hash, &spot)) {
                if (!supplies.node)
                        r = sb_slab_take(peer, SB_UNIT_NODES,
                                sb_node_size(sb_node_height(&peer->segment, hash), write->key_len),
                                also, &supplies.node);
                if (!r && !supplies.birth)
                        r = sb_slab_take(peer, SB_UNIT_VERSIONS,
                                sizeof(struct sb_version) + write->key_len, also, &supplies.birth);
                if (!r)
                        r = sb_key_make(peer, write->key, write->key_len, hash, &supplies);
        }
        /* R:operation > A:operation, R:unpin > A:pins. As in a single write. */
        sb_store_release(&peer->client->operation, 0);
        sb_unpin(peer);
        if (supplies.node)
                sb_slab_give_back(peer, supplies.node);
        if (supplies.birth)
                sb_slab_give_back(peer, supplies.birth);
        sb_slab_settle(peer);
        if (r == SB_E_FULL)
                sb_limbo_leave(peer); /* perhaps a node without a cell */
        return r;
}

/* Each key that is to have a value has a node and a cell. What is made here and not used is a bare
 * key: the sweep takes it out. */
static int make_keys(struct sb_peer *peer, struct attempt *attempt)
{
        const struct sb_commit_wish *wish = attempt->wish;
        uint32_t i, effort;
        int r = 0;

        for (i = 0; i < wish->write_count && !r; i++) {
                const struct sb_commit_write *write = &wish->writes[i];
                struct sb_spot spot;
                bool there;

                if (write->kind == SB_VERSION_DELETED)
                        continue;
                sb_pin(peer);
                there = sb_key_find(peer, write->key, write->key_len,
                        sb_hash_key(write->key, write->key_len, peer->segment.seed), &spot);
                sb_unpin(peer);
                if (there)
                        continue;
                attempt->made = true;
                r = make_key(peer, write, 0);
                for (effort = 0; r == SB_E_FULL && effort < EFFORTS; effort++) {
                        sb_work_all(peer, effort > 0);
                        r = make_key(peer, write, effort ? SB_SLAB_LARGER : 0);
                }
        }
        return r;
}

/* ---- the versions ---- */

static void fill_version(struct sb_peer *peer, struct attempt *attempt, uint32_t i,
        const struct sb_spot *spot, uint64_t rev)
{
        const struct sb_commit_write *write = &attempt->wish->writes[i];
        struct sb_version *version =
                (struct sb_version *)(peer->segment.base + attempt->commit->write[i]);

        version->rev = rev;
        version->node = spot->head->node;
        version->shape = SB_SHAPE(
                write->value_len, write->key_len, write->kind | SB_VERSION_HAS_TXN, peer->slot);
        memcpy(version->bytes, write->key, write->key_len);
        if (write->value_len)
                memcpy(version->bytes + write->key_len, write->value, write->value_len);
        memcpy(version->bytes + write->key_len + write->value_len, &attempt->commit->number,
                SB_TRAILER_TXN);
        /* Relaxed, all: private until the note. */
        sb_store_relaxed(&version->block.birth, sb_pin_era(peer));
        sb_store_relaxed(&version->stamp, SB_STAMP_INTENT | attempt->at);
        sb_store_relaxed(&version->prev, spot->word & SB_OFFSET_MASK);
        /* R:retire > A:retire. Behind the stamp: held and an intent is what a reaper knows it by.
         */
        if (!SB_FAULT(TXN_NOT_HELD))
                sb_store_release(&version->block.retire, SB_RETIRE_HELD);
}

/* The memory of all keys on its way at once: first their buckets, and when those are there, what
 * the buckets name. Of very many the first are out of the cache again before their turn; a model
 * has no cache. */
#ifdef SB_MODEL
static const uint32_t fetch_max = 0;
#else
static const uint32_t fetch_max = 64;
#endif

static void fetch(const struct sb_peer *peer, const struct sb_commit_wish *wish, bool versions)
{
        uint32_t i;

        for (i = 0; i < wish->write_count && i < fetch_max; i++) {
                const struct sb_commit_write *write = &wish->writes[i];
                uint64_t hash = sb_find_hash(peer, write->key, write->key_len);

                if (versions)
                        sb_find_fetch_version(peer, hash);
                else
                        sb_find_fetch_bucket(peer, hash);
        }
}

/* Look at key @i as it is now, and build its next version. 0, AGAIN (it is to be made, or went),
 * SB_E_CONFLICT. */
static int prepare(struct sb_peer *peer, struct attempt *attempt, uint32_t i)
{
        const struct sb_commit_write *write = &attempt->wish->writes[i];
        uint64_t hash = sb_hash_key(write->key, write->key_len, peer->segment.seed);
        struct sb_version *effective;
        struct sb_settled settled;
        struct sb_spot spot;

        for (;;) {
                if (!sb_key_find(peer, write->key, write->key_len, hash, &spot))
                        return write->kind == SB_VERSION_DELETED ? SB_E_CONFLICT : AGAIN;
                effective = sb_txn_effective(peer, spot.head, &settled);
                if (settled.outcome != SB_TXN_UNDECIDED)
                        break;
                sb_txn_help(peer, spot.head);
        }
        if (!effective)
                return AGAIN;
        if (SB_SHAPE_KIND(effective->shape) != SB_VERSION_BIRTH &&
                sb_stamp(peer, effective) > attempt->wish->cut && !SB_FAULT(TXN_COMMIT_STALE))
                return SB_E_CONFLICT;
        if (write->kind == SB_VERSION_DELETED && !sb_version_has_value(effective))
                return SB_E_CONFLICT;
        __builtin_prefetch(peer->segment.base + spot.head->node); /* for the install */
        fill_version(peer, attempt, i, &spot,
                (SB_FAULT(CONFLICT_BURNS) ? spot.head : effective)->rev + 1);
        return 0;
}

static void fill_commit(struct sb_peer *peer, struct attempt *attempt)
{
        const struct sb_commit_wish *wish = attempt->wish;
        struct sb_commit *commit = attempt->commit;
        unsigned char *at = (unsigned char *)&commit->write[wish->write_count];
        uint32_t i;

        /* Relaxed, all: private until the note. */
        sb_store_relaxed(&commit->block.birth, sb_pin_era(peer));
        sb_store_relaxed(&commit->status, wish->serializable ? SB_STATUS_SERIALIZABLE : 0);
        sb_store_relaxed(&commit->zero, 0);
        commit->node = 0;
        commit->shape = SB_SHAPE(
                commit_size(wish) - sizeof(struct sb_version), 0, SB_VERSION_COMMIT, peer->slot);
        commit->cut = wish->cut;
        commit->write_count = wish->write_count;
        commit->range_count = wish->range_count;
        commit->ranges_len = ranges_size(wish);
        for (i = 0; i < wish->range_count; i++) {
                const struct sb_commit_range *range = &wish->ranges[i];
                const uint16_t head[3] = {(uint16_t)range->low_len, (uint16_t)range->high_len,
                        (uint16_t)range->flags};

                memcpy(at, head, SB_RANGE_HEAD);
                if (range->low_len)
                        memcpy(at + SB_RANGE_HEAD, range->low, range->low_len);
                at += SB_RANGE_HEAD + range->low_len;
                if (range->high_len)
                        memcpy(at, range->high, range->high_len);
                at += range->high_len;
        }
}

/* Behind the commit: what was replaced goes, or is looked at again. */
static void supersede(struct sb_peer *peer, struct attempt *attempt, uint64_t stamp)
{
        struct sb_segment *segment = &peer->segment;
        uint32_t i;

        for (i = 0; i < attempt->wish->write_count; i++) {
                struct sb_version *version =
                        (struct sb_version *)(segment->base + attempt->commit->write[i]);
                struct sb_version *old =
                        sb_version_at(segment, sb_pin_load(peer, &version->prev) & SB_OFFSET_MASK);
                struct sb_node *node = sb_node_at(segment, version->node);
                struct sb_cell64 *cell = sb_cell_at(segment, sb_pin_load(peer, &node->cell));

                /* The flag behind the decision: a rule may have come in between. A:stamp. */
                if (cell && !(sb_pin_load(peer, cell) & SB_CELL_KEPT) && old &&
                        !(sb_load_acquire(&old->stamp) & SB_STAMP_INTENT) &&
                        sb_version_has_value(version) && sb_prune_behind(peer, version, old))
                        continue;
                sb_limbo_later(peer, sb_pin_load(peer, &node->cell), stamp);
        }
}

/* The descriptor is complete, all versions are held: from the note on anybody can go on. */
static int run(struct sb_peer *peer, struct attempt *attempt, struct sb_commit_result *ret)
{
        const struct sb_commit_wish *wish = attempt->wish;
        struct sb_commit *commit = attempt->commit;
        enum sb_outcome outcome;
        uint64_t value;
        bool holds;

        /* R:operation > A:operation. A full barrier: whoever takes the announcement away looks here
         * afterwards, we look at the announcement. */
        sb_exchange_full(&peer->client->operation, attempt->at | SB_OPERATION_COMMIT);
        holds = sb_snapshot_holds(peer, wish->snapshot, wish->cut);
        if (!holds)
                /* R:status > A:status. Failed: somebody was quicker, it is decided or stamped. */
                sb_cas64_full(&commit->status, wish->serializable ? SB_STATUS_SERIALIZABLE : 0,
                        SB_STATUS_OF(SB_STATUS_ABORTED, SB_CAUSE_GONE) |
                                (wish->serializable ? SB_STATUS_SERIALIZABLE : 0));
        if (SB_FAULT(TXN_CLOSE_EARLY))
                /* R:announce, too early: that is the fault. */
                sb_store_release(&sb_client_snapshots(peer->client)[wish->snapshot], 0);
        outcome = sb_txn_run(peer, commit, &value);
        if (outcome == SB_TXN_COMMITTED) {
                ret->cut = value;
                ret->number = commit->number;
                supersede(peer, attempt, value);
                attempt->at = 0;
                return 0;
        }
        attempt->at = 0; /* they are held, and let go when the descriptor is freed */
        peer->commits.aborted_waiting++;
        if (!holds)
                return SB_E_LAPPED;
        if (value == SB_CAUSE_GONE)
                return AGAIN;
        ret->cause = value ? (uint32_t)value - 1 : SB_COMMIT_CAUSE_NONE;
        return SB_E_CONFLICT;
}

/* One round with all blocks at hand: all under one pin. */
static int attempt_once(struct sb_peer *peer, struct attempt *attempt, struct sb_commit_result *ret)
{
        uint64_t number = sb_load_relaxed(&peer->client->commits) + 1; /* Relaxed: the own word. */
        uint32_t i;
        int r = 0;

        sb_store_relaxed(&peer->client->commits, number);
        sb_pin(peer);
        attempt->commit->number = (uint64_t)(peer->slot + 1) << 48 | number;
        for (i = 0; i < attempt->wish->write_count && !r; i++) {
                r = prepare(peer, attempt, i);
                if (r == SB_E_CONFLICT)
                        ret->cause = i;
        }
        if (!r) {
                fill_commit(peer, attempt);
                r = run(peer, attempt, ret);
        }
        sb_unpin(peer);
        return r;
}

int sb_commit_run(
        struct sb_peer *peer, const struct sb_commit_wish *wish, struct sb_commit_result *ret)
{
        struct attempt attempt = {.wish = wish};
        uint32_t i, rounds = 0;
        bool make = false;
        int r;

        for (i = 0; i < wish->write_count; i++)
                if (version_size(&wish->writes[i]) > sizeof(struct sb_version) +
                                                             wish->writes[i].key_len +
                                                             peer->segment.value_len_max)
                        return -EMSGSIZE;
        if (commit_size(wish) > peer->segment.value_len_max)
                return -EMSGSIZE;
        ret->cause = SB_COMMIT_CAUSE_NONE;
        fetch(peer, wish, false);
        do {
                /* Mostly there is nothing to make; the first look says. */
                r = make ? make_keys(peer, &attempt) : 0;
                make = true;
                if (!r)
                        r = take_blocks(peer, &attempt);
                fetch(peer, wish, true);
                if (!r)
                        r = attempt_once(peer, &attempt, ret);
                give_back(peer, &attempt);
                sb_slab_settle(peer);
        } while (r == AGAIN && ++rounds < ROUNDS_MAX);
        if (r == AGAIN)
                r = SB_E_CONFLICT;
        if (r && attempt.made)
                sb_limbo_leave(peer);
        if (peer->commits.aborted_waiting >= ABORTED_WAITING) {
                peer->commits.aborted_waiting = 0;
                sb_reclaim_free(peer);
        }
        sb_work_due(peer);
        return r;
}
