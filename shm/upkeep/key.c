/* Making, finding and removing a key; see key.h. */

#include "shm/upkeep/key.h"

#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"

static struct sb_node *fill_node(
        struct sb_peer *peer, uint64_t offset, const void *key, uint32_t key_len, uint64_t hash)
{
        struct sb_node *node = sb_node_at(&peer->segment, offset);

        sb_assert(node);
        /* Relaxed, all: private until it is linked. The other words were reset when the block was
         * taken. */
        sb_store_relaxed(&node->block.birth, sb_pin_era(peer));
        sb_store_relaxed(&node->ring, 0);
        sb_store_relaxed(&node->rule, 0);
        node->hash = hash;
        node->key_len = (uint16_t)key_len;
        node->height = (uint16_t)sb_node_height(&peer->segment, hash);
        memcpy(&node->next[node->height], key, key_len);
        return node;
}

static void fill_birth(struct sb_peer *peer, uint64_t offset, uint64_t node, uint64_t floor,
        const void *key, uint32_t key_len)
{
        struct sb_version *birth = sb_version_at(&peer->segment, offset);

        sb_assert(birth);
        birth->rev = floor;
        birth->node = node;
        birth->shape = SB_SHAPE(0, key_len, SB_VERSION_BIRTH, peer->slot);
        /* Relaxed: private until it is placed. */
        sb_store_relaxed(&birth->block.birth, sb_pin_era(peer));
        sb_store_relaxed(&birth->stamp, 0);
        sb_store_relaxed(&birth->prev, 0);
        memcpy(birth->bytes, key, key_len);
}

int sb_key_make(struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash,
        struct sb_key_supplies *supplies)
{
        struct sb_segment *segment = &peer->segment;
        uint64_t floor = SB_FAULT(FLOOR_EARLY) ? sb_index_floor(segment, hash) : 0;
        uint64_t at, cell_number, own;
        struct sb_node *node, *mine;
        int r;

        mine = fill_node(peer, supplies->node, key, key_len, hash);
        if (SB_FAULT(KEEP_LOOKUP_EARLY))
                sb_rules_apply_new(peer, mine);
        /* The note comes before the link: then whoever finds us dead finds the node. R:operation >
         * A:operation. */
        sb_store_release(&peer->client->operation, supplies->node);
        for (;;) {
                node = sb_order_insert(peer, mine);
                own = sb_pin_load(peer, &node->cell);
                if (own != SB_NODE_GONE)
                        break;
                if (node == mine) {
                        /* Linked, and a sweep took it for an abandoned one: it waits for its grace
                         * periods. */
                        supplies->node = 0;
                        return 0;
                }
                sb_order_remove(peer, node);
        }
        at = sb_offset_of(segment, node);
        if (node == mine)
                supplies->node = 0;
        else
                sb_store_release(&peer->client->operation, at); /* R:operation > A:operation. */
        if (own)
                return 0; /* it has a cell: somebody else was first */
        if (!SB_FAULT(KEEP_LOOKUP_EARLY))
                sb_rules_apply_new(peer, node);
        if (!SB_FAULT(FLOOR_EARLY))
                floor = sb_index_floor(segment, hash);
        fill_birth(peer, supplies->birth, at, floor, key, key_len);
        r = sb_index_place(peer, hash, supplies->birth, &cell_number);
        if (r)
                return r;
        own = sb_tag_of(hash) | supplies->birth;
        supplies->birth = 0;
        sb_index_confirm(peer, cell_number, own);
        return 0;
}

/* One cell with the key's tag. 1: it is the key's; 0: it is not; -1: something was finished on the
 * way, look again. */
static int look_at(struct sb_peer *peer, uint64_t cell_number, const void *key, uint32_t key_len,
        struct sb_spot *ret)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_cell64 *cell = sb_cell_at(segment, cell_number);
        uint64_t word = sb_pin_load(peer, cell);
        struct sb_version *head = sb_version_at(segment, word & SB_OFFSET_MASK);

        if (!head || !sb_version_is(segment, head, key, key_len))
                return 0;
        if (SB_UNLIKELY(word & SB_CELL_FROZEN)) {
                if (!SB_FAULT(FROZEN_WAITS))
                        sb_key_unhook(peer, cell_number, word);
                return -1;
        }
        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_BIRTH &&
                !sb_index_confirm(peer, cell_number, word))
                return 0;
        *ret = (struct sb_spot){
                .cell_number = cell_number, .cell = cell, .word = word, .head = head};
        return 1;
}

static int find_once(
        struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash, struct sb_spot *ret)
{
        struct sb_path path = sb_path_first(&peer->segment, hash);

        do {
                uint32_t mask = sb_bucket_match(&peer->segment.buckets[path.bucket], hash);

                for (; mask; mask &= mask - 1) {
                        int r = look_at(peer, SB_CELL_NUMBER(path.bucket, sb_bucket_place(mask)),
                                key, key_len, ret);

                        if (r)
                                return r;
                }
        } while (sb_path_next(&peer->segment, hash, &path));
        return 0;
}

bool sb_key_find(
        struct sb_peer *peer, const void *key, uint32_t key_len, uint64_t hash, struct sb_spot *ret)
{
        int r;

        while ((r = find_once(peer, key, key_len, hash, ret)) < 0)
                peer->counters.helped++;
        return r;
}

/* The first version that is not aborted; NULL: it, or one on the way, is held still. What is held
 * cannot be retired, and nobody would come back for it. */
static struct sb_version *under_aborted(struct sb_peer *peer, struct sb_version *head)
{
        uint64_t steps = peer->segment.geometry.size / SB_BLOCK_MIN;

        while (head && steps--) {
                /* A:stamp, A:retire. Let go once, it is let go for good. */
                bool aborted = sb_load_acquire(&head->stamp) == SB_STAMP_ABORTED;
                if (sb_load_acquire(&head->block.retire) == SB_RETIRE_HELD && /* A:retire. */
                        !(aborted ? SB_FAULT(REMOVE_UNDER_ABORTED) : SB_FAULT(REMOVE_HELD)))
                        return NULL;
                if (!aborted)
                        return head;
                head = sb_version_at(
                        &peer->segment, sb_pin_load(peer, &head->prev) & SB_OFFSET_MASK);
        }
        return NULL;
}

/* Whether no cut, open or to come, can tell this key from one that is not there. */
static bool removable(struct sb_peer *peer, struct sb_version *head, const struct sb_horizon *view)
{
        uint64_t stamp;
        uint32_t kind;

        head = under_aborted(peer, head);
        if (!head)
                return false;
        kind = SB_SHAPE_KIND(head->shape) & SB_VERSION_KIND;
        stamp = sb_load_acquire(&head->stamp); /* A:stamp. */
        if (kind == SB_VERSION_VALUE || !stamp || (stamp & SB_STAMP_INTENT))
                return false;
        if (SB_FAULT(REMOVE_IGNORES_CUTS))
                return true;
        return stamp <= view->bound && !(sb_pin_load(peer, &head->prev) & SB_OFFSET_MASK);
}

/* Whether the key's rule of history lets it go; what is above its tombstone was aborted. */
static bool forgotten(struct sb_peer *peer, struct sb_version *head)
{
        struct sb_node *node = sb_node_at(&peer->segment, head->node);
        struct sb_keeping keeping;

        head = under_aborted(peer, head);
        if (!node || !head)
                return false;
        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_BIRTH)
                return true;
        sb_rules_keeping(peer, node, peer->horizon.bound, &keeping);
        return sb_rules_forget(&keeping, sb_load_acquire(&head->stamp)); /* A:stamp. */
}

void sb_key_try_remove(struct sb_peer *peer, uint64_t cell_number, const struct sb_horizon *view)
{
        struct sb_cell64 *cell = sb_cell_at(&peer->segment, cell_number);
        uint64_t word = cell ? sb_pin_load(peer, cell) : 0;
        struct sb_version *head = sb_version_at(&peer->segment, word & SB_OFFSET_MASK);

        if (!word || !head)
                return;
        if (word & SB_CELL_FROZEN) {
                sb_key_unhook(peer, cell_number, word);
                return;
        }
        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_BIRTH &&
                !sb_index_confirm(peer, cell_number, word))
                return;
        if ((word & SB_CELL_WATCHED) || !removable(peer, head, view) ||
                ((word & SB_CELL_KEPT) && !forgotten(peer, head)))
                return;
        if (sb_cas64_full(cell, word, word | SB_CELL_FROZEN))
                sb_key_unhook(peer, cell_number, word | SB_CELL_FROZEN);
}

/* Out of cell and index: the first grace period begins. */
static void date_unhooked(struct sb_peer *peer, struct sb_node *node)
{
        /* A:era. Read after the cell was emptied. */
        uint32_t era = sb_load_acquire(&peer->segment.super->era);

        if (sb_cas32_full(&node->unhooked, 0, era))
                sb_limbo_wait(peer, sb_offset_of(&peer->segment, node), era, true);
}

/* All that lies in a frozen cell: a birth or a tombstone, and aborted versions above it. @finish:
 * date it, else say that it goes. */
static void retire_chain(struct sb_peer *peer, struct sb_version *head, bool finish)
{
        uint64_t steps = peer->segment.geometry.size / SB_BLOCK_MIN;

        while (head && steps--) {
                struct sb_version *next = sb_version_at(
                        &peer->segment, sb_pin_load(peer, &head->prev) & SB_OFFSET_MASK);

                if (finish)
                        sb_limbo_date(peer, &head->block);
                else
                        sb_limbo_begin(peer, &head->block);
                head = SB_FAULT(UNHOOK_HEAD_ONLY) ? NULL : next;
        }
}

void sb_key_unhook(struct sb_peer *peer, uint64_t cell_number, uint64_t word)
{
        struct sb_segment *segment = &peer->segment;
        struct sb_version *head = sb_version_at(segment, word & SB_OFFSET_MASK);
        struct sb_node *node = head ? sb_node_at(segment, head->node) : NULL;

        if (!node) {
                /* Damaged: the cell is nobody's. Emptied, so that no writer meets it for ever. */
                sb_cas64_full(sb_cell_at(segment, cell_number), word, 0);
                return;
        }
        if (!SB_FAULT(FLOOR_LATE))
                sb_index_raise_floor(segment, node->hash, head->rev);
        /* What lies in the cell says that it goes before it is out of reach, so that no kill can
         * lose it. */
        retire_chain(peer, head, false);
        if (!SB_FAULT(GONE_UNMARKED))
                sb_cas64_full(&node->cell, cell_number, SB_NODE_GONE);
        sb_order_remove(peer, node);
        sb_cas64_full(sb_cell_at(segment, cell_number), word, 0);
        if (SB_FAULT(FLOOR_LATE))
                sb_index_raise_floor(segment, node->hash, head->rev);
        retire_chain(peer, head, true);
        date_unhooked(peer, node);
}

void sb_key_abandon(struct sb_peer *peer, struct sb_node *node)
{
        sb_cas64_full(&node->cell, 0, SB_NODE_GONE);
        if (sb_pin_load(peer, &node->cell) != SB_NODE_GONE)
                return;
        sb_order_remove(peer, node);
        sb_index_confirm_all(peer, node->hash, sb_offset_of(&peer->segment, node));
        date_unhooked(peer, node);
}

void sb_key_second_look(struct sb_peer *peer, struct sb_node *node)
{
        if (!SB_FAULT(NO_SECOND_LOOK)) {
                sb_order_remove(peer, node);
                sb_index_confirm_all(peer, node->hash, sb_offset_of(&peer->segment, node));
        }
        if (sb_limbo_begin(peer, &node->block))
                sb_limbo_date(peer, &node->block);
}
