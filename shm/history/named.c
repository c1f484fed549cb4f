/* Marks: the table of cuts that are kept under names; see named.h. */

#include "shm/history/named.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"

#define ROUNDS_MAX 1024u /* more only in a damaged segment */

bool sb_mark_read(const struct sb_segment *segment, uint32_t index, uint64_t *ret_cut)
{
        const struct sb_mark *mark = &segment->marks[index];
        uint32_t rounds;

        for (rounds = 0; rounds < ROUNDS_MAX; rounds++) {
                uint64_t owner = sb_load_acquire(&mark->owner), cut; /* A:mark. */

                if (!owner || (owner & SB_MARK_MAKING))
                        return false;
                /* A:mark, both. If the owner is the same behind the load, this is its cut. */
                cut = sb_load_acquire(&mark->cut);
                if (sb_load_acquire(&mark->owner) != owner)
                        continue;
                *ret_cut = cut;
                return true;
        }
        return false;
}

bool sb_mark_keeps(const struct sb_segment *segment, uint32_t index, uint64_t *ret_cut)
{
        const struct sb_mark *mark = &segment->marks[index];

        if (!sb_load_acquire(&mark->owner)) /* A:mark. */
                return false;
        /* A:mark. If it is another owner's cut by now, the former owner has let go of its own. */
        *ret_cut = sb_load_acquire(&mark->cut);
        return *ret_cut != 0;
}

/* Write the cut into a mark that this handle has taken, in MAKING: pruners keep what it says from
 * now on. Return: whether the announcement was still there then: if so, there was always something
 * that kept the cut. */
static bool named_set_cut(
        struct sb_peer *peer, struct sb_mark *mark, uint32_t snapshot, uint64_t cut)
{
        /* R:mark > A:mark. A full barrier: if the engine takes the announcement away after the look
         * at it, pruners see that only after this cut is there. */
        sb_exchange_full(&mark->cut, cut);
        return sb_snapshot_holds(peer, snapshot, cut) || SB_FAULT(MARK_UNASKED);
}

int sb_mark_take(struct sb_peer *peer, uint32_t snapshot, uint64_t cut, struct sb_mark_value *ret)
{
        struct sb_segment *segment = &peer->segment;
        /* Relaxed: the own word. It was counted on for the snapshot, and will be for the next one,
         * so no two marks have the same owner. */
        uint64_t owner = (uint64_t)(peer->slot + 1) << 48 | sb_load_relaxed(&peer->client->opens);
        uint64_t high;
        uint32_t index;

        for (index = 0; index < segment->geometry.mark_count; index++) {
                struct sb_mark *mark = &segment->marks[index];

                /* A:mark, R:mark > A:mark. With MAKING, sb_mark_read() passes it by. */
                if (sb_load_acquire(&mark->owner) ||
                        !sb_cas64_full(&mark->owner, 0, owner | SB_MARK_MAKING))
                        continue;
                /* R:mark > A:mark. Pruners look so far before the mark is one. */
                for (high = sb_load_acquire(&segment->super->mark_high); high <= index;
                        high = sb_load_acquire(&segment->super->mark_high))
                        sb_cas64_full(&segment->super->mark_high, high, (uint64_t)index + 1);
                if (!named_set_cut(peer, mark, snapshot, cut)) {
                        sb_cas64_full(&mark->owner, owner | SB_MARK_MAKING, 0);
                        return SB_E_LAPPED;
                }
                sb_cas64_full(&mark->owner, owner | SB_MARK_MAKING, owner);
                *ret = (struct sb_mark_value){.cut = cut, .owner = owner, .index = index};
                return 0;
        }
        return SB_E_FULL;
}

bool sb_mark_stands(const struct sb_segment *segment, const struct sb_mark_value *value)
{
        return value->index < segment->geometry.mark_count && value->owner &&
               sb_load_acquire(&segment->marks[value->index].owner) == value->owner; /* A:mark. */
}

void sb_mark_let_go(struct sb_peer *peer, const struct sb_mark_value *value)
{
        /* R:mark > A:mark. No key names it any more. */
        if (sb_mark_stands(&peer->segment, value) &&
                sb_cas64_full(&peer->segment.marks[value->index].owner, value->owner, 0))
                /* Pruners kept for it what perhaps nothing needs any more. */
                sb_limbo_leave(peer);
}

/* Whether the maker may be at work: the client of this slot announces @cut, or, with MAKING, any
 * cut at all. */
static bool named_is_announced(struct sb_segment *segment, uint64_t owner, uint64_t cut)
{
        uint64_t slot = ((owner & ~SB_MARK_MAKING) >> 48) - 1;
        uint32_t i;

        for (i = 0; slot < segment->geometry.client_count && i < segment->geometry.snapshot_count;
                i++) {
                /* A:announce. */
                uint64_t word = sb_load_acquire(
                        &sb_client_snapshots(sb_client_at(segment, (uint32_t)slot))[i]);

                if (word && ((owner & SB_MARK_MAKING) || (word & ~SB_SNAPSHOT_EVICTING) == cut))
                        return true;
        }
        return false;
}

/* The next key of a mark from @key on, or, with @after, behind it: it replaces @key; and what it
 * holds. False: there is none. */
static bool named_next_key(struct sb_peer *peer, unsigned char *key, uint32_t *key_len, bool after,
        struct sb_mark_value *ret)
{
        struct sb_version *version;
        const unsigned char *bytes;
        struct sb_node *node;
        bool found = false;

        sb_pin(peer);
        node = sb_order_seek(peer, key, *key_len, after);
        bytes = node ? sb_node_key(&peer->segment, node) : NULL;
        if (bytes && node->key_len >= SB_MARK_PREFIX &&
                !memcmp(bytes, SB_RESERVED_MARK, SB_MARK_PREFIX)) {
                *key_len = node->key_len;
                memcpy(key, bytes, *key_len);
                *ret = (struct sb_mark_value){0};
                version = sb_find_in_node(peer, node, SB_STAMP_INTENT - 1);
                if (version && SB_SHAPE_VALUE_LEN(version->shape) == sizeof(*ret))
                        memcpy(ret, version->bytes + *key_len, sizeof(*ret));
                found = true;
        }
        sb_unpin(peer);
        return found;
}

/* Whether a key names the mark of this owner. */
static bool named_has_key(struct sb_peer *peer, uint64_t owner)
{
        unsigned char key[SB_KEY_LEN_MAX];
        uint32_t key_len = SB_MARK_PREFIX;
        struct sb_mark_value value;
        bool after = false;

        memcpy(key, SB_RESERVED_MARK, SB_MARK_PREFIX);
        for (; named_next_key(peer, key, &key_len, after, &value); after = true)
                if (value.owner == owner)
                        return true;
        return false;
}

void sb_marks_repair(struct sb_peer *peer)
{
        struct sb_segment *segment = &peer->segment;
        bool freed = false;
        uint32_t i;

        /* All of them: one that is being made may lie above mark_high. */
        for (i = 0; i < segment->geometry.mark_count; i++) {
                struct sb_mark *mark = &segment->marks[i];
                uint64_t owner = sb_load_acquire(&mark->owner); /* A:mark. */

                /* First whether the maker is at work, then whether there is a key: if the maker has
                 * finished in between, there is. A:mark. */
                if (!owner || named_is_announced(segment, owner, sb_load_acquire(&mark->cut)) ||
                        named_has_key(peer, owner))
                        continue;
                /* R:mark > A:mark. Failed: its maker, or another repairer, has freed it. */
                freed = sb_cas64_full(&mark->owner, owner, 0) || freed;
        }
        if (freed)
                sb_limbo_leave(peer);
}
