/* Making, finding and removing a key; see key.h, which has the order of the steps. */

#include "shm/upkeep/key.h"

#include <errno.h>
#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/mvcc/note.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"
#include "shm/notify/unlogged.h"

/* ---- making ---- */

int sb_key_take_supplies(
        struct sb_handle *handle, uint32_t key_len, uint32_t also, struct sb_key_supplies *supplies)
{
        int r = 0;

        supplies->also = also;
        if (!supplies->node)
                r = sb_slab_take(
                        handle, SB_UNIT_NODES, sb_node_size(key_len), also, &supplies->node);
        if (!r && !supplies->placeholder)
                r = sb_slab_take(handle, SB_UNIT_VERSIONS, sizeof(struct sb_version) + key_len,
                        also, &supplies->placeholder);
        return r;
}

static struct sb_node *key_fill_node(struct sb_handle *handle,
        const struct sb_key_supplies *supplies, const void *key, uint32_t key_len, uint64_t hash)
{
        struct sb_node *node = sb_node_at(&handle->segment, supplies->node);

        sb_assert(node);
        sb_pin_give_birth(handle, &node->block);
        /* Relaxed, all: private until it is linked. The other words were reset when the block was
         * taken. */
        sb_store_relaxed(&node->ring, 0);
        sb_store_relaxed(&node->rule, 0);
        node->hash = hash;
        node->key_len = (uint16_t)key_len;
        node->zero = 0;
        memcpy(node->key, key, key_len);
        return node;
}

static void key_fill_placeholder(struct sb_handle *handle, uint64_t offset, uint64_t node,
        uint64_t floor, const void *key, uint32_t key_len)
{
        struct sb_version *placeholder = sb_version_at(&handle->segment, offset);

        sb_assert(placeholder);
        placeholder->rev = floor;
        placeholder->node = node;
        placeholder->shape = SB_SHAPE(0, key_len, SB_VERSION_PLACEHOLDER, handle->slot);
        sb_pin_give_birth(handle, &placeholder->block);
        /* Relaxed, all: private until it is placed. */
        sb_store_relaxed(&placeholder->stamp, 0);
        sb_store_relaxed(&placeholder->prev, 0);
        memcpy(placeholder->bytes, key, key_len);
}

/* Nothing is to be done before the link. Faults KEEP_LOOKUP_EARLY, FLOOR_EARLY: what belongs behind
 * it is done here. Return: the floor, if it was read too early. */
static uint64_t key_before_link(struct sb_handle *handle, struct sb_node *node)
{
        if (SB_FAULT(KEEP_LOOKUP_EARLY))
                sb_rules_apply_new(handle, node);
        return SB_FAULT(FLOOR_EARLY) ? sb_index_floor(&handle->segment, node->hash) : 0;
}

/* Copy the rules of history that apply into the linked node: a process that writes a rule meanwhile
 * sees the node, or this one sees the rule. Return: the floor of the key's bucket, which every
 * removal before the link has raised. */
static uint64_t key_behind_link(
        struct sb_handle *handle, struct sb_node *node, uint64_t hash, uint64_t early)
{
        if (!SB_FAULT(KEEP_LOOKUP_EARLY))
                sb_rules_apply_new(handle, node);
        return SB_FAULT(FLOOR_EARLY) ? early : sb_index_floor(&handle->segment, hash);
}

/* Link @mine, unless the key has a node. Return: 0: *ret is the key's node, and *ret_own the cell
 * that it names, or 0; *ret NULL: @mine is linked, and a sweep took it for an abandoned one.
 * SB_E_FULL, -EIO: as sb_order_insert(). */
static int key_link(struct sb_handle *handle, struct sb_node *mine, uint32_t also,
        const struct sb_order_target *prepared, struct sb_node **ret, uint64_t *ret_own)
{
        int r;

        /* Another process's node that is GONE by now gives way. */
        do {
                r = sb_order_insert(handle, mine, also, prepared, ret);
                prepared = NULL;
                *ret_own = r ? 0 : sb_pin_load(handle, &(*ret)->cell);
        } while (*ret_own == SB_NODE_GONE && *ret != mine);
        if (*ret_own == SB_NODE_GONE)
                *ret = NULL;
        return r;
}

/* Another node is the key's: @mine, which is noted and was never linked, goes as all that was noted
 * goes, and that node at @at is noted instead. Fault NODE_GIVEN_BACK_NOTED: the caller has the
 * block back, and frees it at once. */
static void key_give_way(struct sb_handle *handle, struct sb_node *mine, uint64_t at,
        struct sb_key_supplies *supplies)
{
        supplies->gave_way = true;
        if (SB_FAULT(NODE_GIVEN_BACK_NOTED)) {
                sb_store_release(&handle->record->operation, at); /* R:operation > A:operation. */
                return;
        }
        sb_note_retire(handle, &mine->block, &handle->record->operation, at);
        supplies->node = 0;
}

/* A maker that gave way before first looks whether the key has a node, so that however often it
 * comes back, it brings the memory of one node or two. Return: that node, noted; NULL: none. */
static struct sb_node *key_look_first(struct sb_handle *handle, const void *key, uint32_t key_len,
        const struct sb_key_supplies *supplies, uint64_t *ret_own)
{
        struct sb_node *node = supplies->gave_way ? sb_order_find(handle, key, key_len) : NULL;
        uint64_t own = node ? sb_pin_load(handle, &node->cell) : SB_NODE_GONE;

        if (own == SB_NODE_GONE)
                return NULL;
        *ret_own = own;
        /* R:operation > A:operation. */
        sb_store_release(&handle->record->operation, sb_offset_of(&handle->segment, node));
        return node;
}

/* The key's node, noted: the maker's own, now linked, or another one. *ret_own: the cell that it
 * names, or 0. Return: as key_link(). Where the maker is the only process, and the key has no node,
 * its own is not in the ordered index: loading puts all nodes there at its end. */
static int key_make_node(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash,
        struct sb_key_supplies *supplies, struct sb_node **ret, uint64_t *ret_own,
        uint64_t *ret_floor)
{
        struct sb_order_target target;
        struct sb_node *mine;
        int r = 0;

        *ret = key_look_first(handle, key, key_len, supplies, ret_own);
        if (*ret)
                return 0;
        /* Before the node is noted: it cannot be given back then. */
        if (!supplies->unlinked)
                r = sb_order_prepare(handle, key, key_len, supplies->also, &target);
        if (r)
                return r;
        *ret = mine = key_fill_node(handle, supplies, key, key_len, hash);
        *ret_floor = key_before_link(handle, mine);
        /* R:operation > A:operation. The note comes before the link: so a process that finds this
         * client dead finds the node. */
        sb_store_release(&handle->record->operation, supplies->node);
        if (!supplies->unlinked)
                r = key_link(handle, mine, supplies->also, &target, ret, ret_own);
        if (r || (*ret && *ret != mine))
                key_give_way(handle, mine, r ? 0 : sb_offset_of(&handle->segment, *ret), supplies);
        else
                supplies->node = 0; /* linked; or it waits for its grace periods */
        return r;
}

int sb_key_make(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash,
        struct sb_key_supplies *supplies)
{
        uint64_t floor = 0, at, cell_number, own = 0;
        struct sb_node *node;
        int r = key_make_node(handle, key, key_len, hash, supplies, &node, &own, &floor);

        if (r || own)
                return r; /* if it has a cell, another process was first */
        at = sb_offset_of(&handle->segment, node);
        floor = key_behind_link(handle, node, hash, floor);
        key_fill_placeholder(handle, supplies->placeholder, at, floor, key, key_len);
        r = sb_index_insert(handle, hash, supplies->placeholder, &cell_number);
        if (r) {
                /* No other process has seen it. */
                if (supplies->unlinked)
                        supplies->node = at;
                return r;
        }
        own = sb_tag_of(hash) | supplies->placeholder;
        supplies->placeholder = 0;
        sb_index_confirm(handle, cell_number, own);
        return 0;
}

/* ---- finding ---- */

/* A writer meets a removal and brings it to its end. */
static void key_finish_removal(struct sb_handle *handle, uint64_t cell_number, uint64_t word)
{
        if (!SB_FAULT(FROZEN_WAITS))
                sb_key_unhook(handle, cell_number, word);
}

/* One cell with the key's tag. Return: 1: it is the key's; 0: it is not; -1: a removal was finished
 * on the way, look again. */
static int key_look_at(struct sb_handle *handle, uint64_t cell_number, const void *key,
        uint32_t key_len, struct sb_spot *ret)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_word64 *cell = sb_cell_at(segment, cell_number);
        uint64_t word = sb_pin_load(handle, cell);
        struct sb_version *head = sb_version_at(segment, word & SB_OFFSET_MASK);

        if (!head || !sb_version_is(segment, head, key, key_len))
                return 0;
        if (SB_UNLIKELY(word & SB_CELL_FROZEN)) {
                key_finish_removal(handle, cell_number, word);
                return -1;
        }
        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER &&
                !sb_index_confirm(handle, cell_number, word))
                return 0;
        *ret = (struct sb_spot){
                .cell_number = cell_number, .cell = cell, .word = word, .head = head};
        return 1;
}

static int key_find_once(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash,
        struct sb_spot *ret)
{
        struct sb_path path = sb_path_first(&handle->segment, hash);

        do {
                uint32_t mask = sb_bucket_match(&handle->segment.buckets[path.bucket], hash);

                for (; mask; mask &= mask - 1) {
                        uint32_t index = sb_bucket_index(mask);
                        int r = key_look_at(
                                handle, SB_CELL_NUMBER(path.bucket, index), key, key_len, ret);

                        if (r)
                                return r;
                }
        } while (sb_path_next(&handle->segment, hash, &path));
        return 0;
}

bool sb_key_find(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash,
        struct sb_spot *ret)
{
        int r;

        while ((r = key_find_once(handle, key, key_len, hash, ret)) < 0)
                handle->counters.helped++;
        return r;
}

/* ---- removing ---- */

/* Whether a transaction holds @version still. Once it has let go, it has for good. */
static bool key_is_held(const struct sb_version *version, bool aborted)
{
        return sb_load_acquire(&version->block.retire) == SB_RETIRE_HELD && /* A:retire. */
               !(aborted ? SB_FAULT(REMOVE_UNDER_ABORTED) : SB_FAULT(REMOVE_HELD));
}

/* The first version that is not aborted; NULL: it, or one on the way, is held still. What is held
 * cannot be retired, and no process would come back for it. */
static struct sb_version *key_under_aborted(struct sb_handle *handle, struct sb_version *head)
{
        uint64_t left = sb_damage_bound(&handle->segment);

        /* Bound: damage. A chain that goes round; its key stays. */
        while (head && sb_damage_step(handle, &left)) {
                bool aborted = sb_load_acquire(&head->stamp) == SB_STAMP_ABORTED; /* A:stamp. */

                if (key_is_held(head, aborted))
                        return NULL;
                if (!aborted)
                        return head;
                head = sb_version_at(
                        &handle->segment, sb_pin_load(handle, &head->prev) & SB_OFFSET_MASK);
        }
        return NULL;
}

/* Whether a cut, open or to come, reads something else than "absent" in the chain of this tombstone
 * or placeholder; or a watch of a prefix has not read all that came before it: that lies below.
 * Fault REMOVE_UNAWAITED: it is not asked whether anything does. */
static bool key_is_needed(struct sb_handle *handle, const struct sb_version *version,
        uint64_t stamp, const struct sb_horizon *horizon)
{
        return !SB_FAULT(REMOVE_IGNORES_CUTS) &&
               (stamp > horizon->bound || ((sb_pin_load(handle, &version->prev) & SB_OFFSET_MASK) &&
                                                  !SB_FAULT(REMOVE_UNAWAITED)));
}

/* Whether the log has still to write this tombstone down. It looks at the key again behind that.
 * Where memory is short, the key goes all the same: the log then finds in `forgotten` that it has
 * to write down all keys. Fault REMOVE_UNLOGGED: the log finds nothing there. */
static bool key_is_unlogged(const struct sb_handle *handle, uint64_t stamp)
{
        return !handle->work.pressed && sb_unlogged_awaits(&handle->segment, stamp) &&
               !SB_FAULT(REMOVE_UNLOGGED);
}

struct sb_version *sb_key_tombstone(
        struct sb_handle *handle, struct sb_version *head, uint64_t *ret_stamp)
{
        struct sb_version *version = key_under_aborted(handle, head);
        uint64_t stamp = version ? sb_load_acquire(&version->stamp) : 0; /* A:stamp. */

        if (!stamp || (stamp & SB_STAMP_INTENT) ||
                (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) != SB_VERSION_DELETED)
                return NULL;
        *ret_stamp = stamp;
        return version;
}

/* Whether no cut, open or to come, can tell this key from one that is not there. */
static bool key_is_removable(
        struct sb_handle *handle, struct sb_version *head, const struct sb_horizon *horizon)
{
        uint64_t stamp;
        uint32_t kind;

        head = key_under_aborted(handle, head);
        if (!head)
                return false;
        kind = SB_SHAPE_KIND(head->shape) & SB_VERSION_KIND;
        stamp = sb_load_acquire(&head->stamp); /* A:stamp. */
        if (kind == SB_VERSION_VALUE || !stamp || (stamp & SB_STAMP_INTENT))
                return false;
        return !key_is_needed(handle, head, stamp, horizon) &&
               !(kind == SB_VERSION_DELETED && key_is_unlogged(handle, stamp));
}

/* Whether the key's rule of history lets it go. What lies above its tombstone was aborted. */
static bool key_is_forgotten(struct sb_handle *handle, struct sb_version *head)
{
        struct sb_node *node = sb_node_at(&handle->segment, head->node);
        struct sb_keeping keeping;

        head = key_under_aborted(handle, head);
        if (!node || !head)
                return false;
        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER)
                return true;
        sb_rules_keeping(handle, node, handle->horizon.bound, &keeping);
        return sb_rules_forget(&keeping, sb_load_acquire(&head->stamp)); /* A:stamp. */
}

/* Say that this delete, and the key with it, is known no more. Fault FORGOTTEN_UNSAID: left out. */
static void key_say_forgotten(struct sb_handle *handle, struct sb_version *head)
{
        struct sb_word64 *forgotten = &handle->segment.super->forgotten;
        const struct sb_version *tombstone;
        uint64_t stamp, old;

        tombstone = SB_FAULT(FORGOTTEN_UNSAID) ? NULL : sb_key_tombstone(handle, head, &stamp);
        if (!tombstone)
                return;
        if (!SB_FAULT(REMOVED_UNSAID))
                sb_prefix_say_removed(handle, tombstone, stamp);
        do
                old = sb_load_acquire(forgotten); /* A:forgotten. */
        /* R:forgotten > A:forgotten. */
        while (old < stamp && !sb_cas64_full(forgotten, old, stamp));
}

void sb_key_try_remove(
        struct sb_handle *handle, uint64_t cell_number, const struct sb_horizon *horizon)
{
        struct sb_word64 *cell = sb_cell_at(&handle->segment, cell_number);
        uint64_t word = cell ? sb_pin_load(handle, cell) : 0;
        struct sb_version *head = sb_version_at(&handle->segment, word & SB_OFFSET_MASK);

        if (!word || !head)
                return;
        if (word & SB_CELL_FROZEN) {
                sb_key_unhook(handle, cell_number, word);
                return;
        }
        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER &&
                !sb_index_confirm(handle, cell_number, word))
                return;
        if (((word & SB_CELL_WATCHED) && !SB_FAULT(REMOVE_WATCHED)) ||
                !key_is_removable(handle, head, horizon) ||
                ((word & SB_CELL_KEPT) && !key_is_forgotten(handle, head)))
                return;
        key_say_forgotten(handle, head);
        /* R:publish > A:publish. It expects what was judged; from here on any process goes on. */
        if (sb_cas64_full(cell, word, word | SB_CELL_FROZEN))
                sb_key_unhook(handle, cell_number, word | SB_CELL_FROZEN);
}

/* Fault GONE_RING_STAYS: left out. */
static void key_retire_ring(struct sb_handle *handle, struct sb_node *node)
{
        if (!SB_FAULT(GONE_RING_STAYS))
                sb_ring_retire(handle, node);
}

/* Out of cell and index: the first grace period begins. No watch stands; a ring may, that one made
 * and left. */
static void key_date_unhooked(struct sb_handle *handle, struct sb_node *node)
{
        uint64_t era;

        key_retire_ring(handle, node);
        era = sb_load_acquire(&handle->segment.super->era); /* A:era. After the cell was emptied. */
        /* R:retire > A:retire. Of several processes one dates the node. */
        if (sb_cas32_full(&node->unhooked, 0, sb_era_low(era)))
                sb_limbo_wait(handle, sb_offset_of(&handle->segment, node), era, true);
}

/* The node is linked still: there was no memory for the copy of a branch. A sweep goes on from
 * here. A node that damage keeps linked is never freed. */
static void key_leave_linked(struct sb_handle *handle)
{
        if (!sb_damage_met(handle))
                sb_limbo_leave(handle);
}

/* What lies under a version in a frozen cell; NULL: nothing. */
static struct sb_version *key_below(struct sb_handle *handle, const struct sb_version *version)
{
        uint64_t link = sb_pin_load(handle, &version->prev);

        return SB_FAULT(UNHOOK_HEAD_ONLY) ? NULL
                                          : sb_version_at(&handle->segment, link & SB_OFFSET_MASK);
}

/* All that lies in a frozen cell: a placeholder or a tombstone, and aborted versions above it.
 * @finish: date it, else say that it goes. */
static void key_retire_chain(struct sb_handle *handle, struct sb_version *head, bool finish)
{
        uint64_t left = sb_damage_bound(&handle->segment);

        /* Bound: damage. A chain that goes round; each of its versions was passed. */
        while (head && sb_damage_step(handle, &left)) {
                struct sb_version *next = key_below(handle, head);

                if (finish)
                        sb_limbo_date(handle, &head->block);
                else
                        sb_limbo_begin(handle, &head->block);
                head = next;
        }
}

/* Before the node is gone: the key's next life counts its revisions on from here. */
static void key_raise_floor(
        struct sb_segment *segment, const struct sb_node *node, const struct sb_version *head)
{
        if (!SB_FAULT(FLOOR_LATE))
                sb_index_raise_floor(segment, node->hash, head->rev);
}

static void key_mark_gone(struct sb_node *node, uint64_t cell_number)
{
        if (!SB_FAULT(GONE_UNMARKED))
                /* R:publish > A:publish. Behind the raised floor, before the node leaves the index.
                 */
                sb_cas64_full(&node->cell, cell_number, SB_NODE_GONE);
}

/* Any key may take the cell from here on. Fault FLOOR_LATE: only now the floor is raised. */
static void key_empty_cell(struct sb_segment *segment, uint64_t cell_number, uint64_t word,
        const struct sb_node *node, const struct sb_version *head)
{
        /* R:publish > A:publish. A process that finds the cell empty finds the node gone. */
        sb_cas64_full(sb_cell_at(segment, cell_number), word, 0);
        if (SB_FAULT(FLOOR_LATE))
                sb_index_raise_floor(segment, node->hash, head->rev);
}

void sb_key_unhook(struct sb_handle *handle, uint64_t cell_number, uint64_t word)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_version *head = sb_version_at(segment, word & SB_OFFSET_MASK);
        struct sb_node *node = head ? sb_node_at(segment, head->node) : NULL;
        bool unlinked;

        if (!node) {
                /* R:publish. Damaged: the cell belongs to no key. Emptied, so that no writer meets
                 * it for ever. */
                sb_cas64_full(sb_cell_at(segment, cell_number), word, 0);
                return;
        }
        key_raise_floor(segment, node, head);
        /* What lies in the cell says that it goes before it is out of reach, so that no kill can
         * lose it. */
        key_retire_chain(handle, head, false);
        key_mark_gone(node, cell_number);
        unlinked = sb_order_remove(handle, node);
        key_empty_cell(segment, cell_number, word, node, head);
        key_retire_chain(handle, head, true);
        if (unlinked)
                key_date_unhooked(handle, node);
        else
                key_leave_linked(handle);
        sb_index_heal_behind(handle, node->hash, cell_number);
}

void sb_key_abandon(struct sb_handle *handle, struct sb_node *node)
{
        bool unlinked;

        /* R:publish > A:publish. Failed: the node has a cell, or it is gone already. */
        sb_cas64_full(&node->cell, 0, SB_NODE_GONE);
        if (sb_pin_load(handle, &node->cell) != SB_NODE_GONE)
                return;
        unlinked = sb_order_remove(handle, node);
        sb_index_confirm_all(handle, node->hash, sb_offset_of(&handle->segment, node), false);
        if (unlinked)
                key_date_unhooked(handle, node);
        else if (!handle->work.pressed)
                /* In a lap for short memory not: all clients that wait would lap at once. The
                 * engine's sweep, which the removal asked for, asks on. */
                key_leave_linked(handle);
}

/* Take out what a slow maker has linked or placed since the node was unhooked. The grace period is
 * over, so each maker has signed what it placed, or its reaper has looked for it. Return: false:
 * the way to the node is barred, by damage or for lack of memory. */
static bool key_take_leftovers(struct sb_handle *handle, struct sb_node *node)
{
        bool unlinked;

        unlinked = sb_order_remove(handle, node);
        sb_index_confirm_all(handle, node->hash, sb_offset_of(&handle->segment, node), false);
        key_retire_ring(handle, node);
        return unlinked;
}

void sb_key_second_look(struct sb_handle *handle, struct sb_node *node)
{
        if (!key_take_leftovers(handle, node))
                key_leave_linked(handle);
        else if (sb_limbo_begin(handle, &node->block))
                sb_limbo_date(handle, &node->block);
}
