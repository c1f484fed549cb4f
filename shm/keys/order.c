/*
 * The ordered index: what changes it; see order.h.
 *
 * Everything begins with a way down by the key. A lost CAS means another way down.
 */

#include "shm/keys/order.h"

#include <errno.h>

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"

static struct sb_word64 *order_root(struct sb_handle *handle)
{
        return &handle->segment.super->order;
}

static bool order_is_gone(struct sb_handle *handle, uint64_t word)
{
        struct sb_node *node = sb_node_at(&handle->segment, word & SB_OFFSET_MASK);

        return (word & SB_SLOT_LEAF) && node && sb_pin_load(handle, &node->cell) == SB_NODE_GONE;
}

/* ---- a branch's successor ---- */

/* The slots of a branch that is replaced: what is left in them. */
struct order_left {
        uint64_t word[SB_BRANCH_SYMBOLS];
        uint32_t count;
};

/* Slots for so many symbols. */
static uint32_t order_slots_for(uint32_t count)
{
        return count <= SB_BRANCH_FEW    ? SB_BRANCH_FEW
               : count <= SB_BRANCH_MORE ? SB_BRANCH_MORE
                                         : SB_BRANCH_SYMBOLS;
}

/* FROZEN into a slot. Return: what it has from here on. The faults leave the slot alone, or leave
 * it alone while it is free, or take what was in it before. */
static uint64_t order_freeze(struct sb_word64 *slot)
{
        /* Relaxed: for the faults alone. */
        uint64_t before = sb_load_relaxed(slot);

        if (SB_FAULT(ORDER_UNFROZEN) || (SB_FAULT(ORDER_FREE_UNFROZEN) && !before))
                return before;
        /* R:publish > A:publish. What is in it was published by its own writer. */
        sb_or_full(slot, SB_SLOT_FROZEN);
        return SB_FAULT(ORDER_COPY_STALE) ? before : sb_load_acquire(slot); /* A:publish. */
}

/* Freeze all slots, and say what is left in them. @without_gone: leaves that are GONE are left out,
 * unless there is nothing else. False: the branch is not linked by @word any more. */
static bool order_freeze_all(struct sb_handle *handle, const struct sb_word64 *link, uint64_t word,
        const struct sb_branch_view *view, bool without_gone, struct order_left *ret)
{
        uint64_t last = 0;
        uint32_t i;

        ret->count = 0;
        for (i = 0; i < view->slots; i++) {
                uint64_t own = order_freeze(&view->branch->slot[i]);

                if (!(own & SB_OFFSET_MASK))
                        continue;
                /* A copy has no place for what is no symbol, and no key leads there. */
                if (SB_UNLIKELY(SB_SLOT_SYMBOL(own) - 1 >= SB_BRANCH_SYMBOLS))
                        sb_damage_note(handle);
                else
                        ret->word[ret->count++] = own;
        }
        /* All that is in the slots was linked at this load, and the pin covers it. */
        if (sb_pin_load(handle, link) != word)
                return false;
        if (!without_gone)
                return true;
        for (i = 0; i < ret->count;) {
                if (!order_is_gone(handle, ret->word[i])) {
                        i++;
                        continue;
                }
                last = ret->word[i];
                ret->word[i] = ret->word[--ret->count];
        }
        if (!ret->count && last)
                ret->word[ret->count++] = last;
        return true;
}

/* Units of 256 bytes, as tests have them, hold no branch of all symbols. */
static int order_take(struct sb_handle *handle, uint32_t slots, uint32_t also, uint64_t *ret)
{
        uint64_t size = sb_branch_size(slots);

        if (size > handle->segment.class_size[handle->segment.class_count - 1])
                return SB_E_FULL;
        return sb_slab_take(handle, SB_UNIT_NODES, size, also, ret);
}

/* Fill a branch that no other process sees. The first word is the anchor. */
static void order_fill(struct sb_handle *handle, uint64_t at, uint32_t depth, uint32_t slots,
        const uint64_t *words, uint32_t count)
{
        struct sb_branch *branch = sb_block_at(&handle->segment, at);
        bool direct = slots == SB_BRANCH_SYMBOLS;
        uint32_t i;

        sb_assert(branch && count);
        sb_pin_give_birth(handle, &branch->block);
        /* Relaxed, all: private until it is linked. */
        for (i = 0; i < slots; i++)
                sb_store_relaxed(&branch->slot[i], 0);
        for (i = 0; i < count; i++)
                sb_store_relaxed(&branch->slot[direct ? SB_SLOT_SYMBOL(words[i]) - 1 : i],
                        words[i] & ~SB_SLOT_FROZEN);
        sb_store_relaxed(&branch->shape,
                SB_BRANCH_SHAPE(depth, slots, direct ? SB_SLOT_SYMBOL(words[0]) - 1 : 0));
}

int sb_order_make_branch(struct sb_handle *handle, uint32_t depth, const uint64_t *words,
        uint32_t count, uint64_t *ret_link)
{
        uint32_t slots = order_slots_for(count);

        if (order_take(handle, slots, SB_SLAB_LARGER, ret_link))
                return SB_E_FULL;
        order_fill(handle, *ret_link, depth, slots, words, count);
        return 0;
}

/* CAS of a link to a branch, from @word. Fault ORDER_FROZEN_PARENT: also where that is FROZEN. */
static bool order_set_link(struct sb_word64 *link, uint64_t word, uint64_t to)
{
        /* R:publish > A:publish. The successor is complete. */
        return sb_cas64_full(link, word, SB_SLOT_TO(word, to)) ||
               (SB_FAULT(ORDER_FROZEN_PARENT) && sb_cas64_full(link, word | SB_SLOT_FROZEN,
                                                         SB_SLOT_TO(word | SB_SLOT_FROZEN, to)));
}

/* Why a branch is replaced: for one more symbol; because it is FROZEN; without what is GONE. */
enum order_why { GROWS, HELPS, REMOVES };

/* Slots of the copy for so many symbols that are left; 0: no copy is needed. */
static uint32_t order_slots_of_copy(uint32_t left, enum order_why why)
{
        return left > 1 ? order_slots_for(left + (why == GROWS)) : 0;
}

/* The same by what is there now. A remover leaves out what is GONE: so the last but one leaf of a
 * branch goes without memory for a copy. */
static uint32_t order_slots_now(
        struct sb_handle *handle, const struct sb_branch_view *view, enum order_why why)
{
        uint32_t count = 0, i;

        for (i = 0; i < view->slots; i++) {
                uint64_t word = sb_pin_load(handle, &view->branch->slot[i]);

                count += (word & SB_OFFSET_MASK) && !(why == REMOVES && !(word & SB_SLOT_FROZEN) &&
                                                            order_is_gone(handle, word));
        }
        return order_slots_of_copy(count, why);
}

/* The block of a copy of @needed slots; *at: one of *slots slots, or 0, was taken before. */
static int order_take_copy(
        struct sb_handle *handle, uint32_t needed, uint32_t also, uint64_t *at, uint32_t *slots)
{
        if (needed == *slots)
                return 0;
        if (*at)
                sb_slab_give_back(handle, *at);
        *at = 0;
        *slots = needed;
        return needed ? order_take(handle, needed, also, at) : 0;
}

/* Fault ORDER_LOSER_DATES. */
static void order_date_lost(struct sb_handle *handle, const struct sb_branch_view *view)
{
        if (SB_FAULT(ORDER_LOSER_DATES))
                sb_limbo_date(handle, &view->branch->block);
}

/* Replace the branch to which @word in @link leads, by a copy or by what is left in it. Return: 0:
 * it was replaced, or another process did; SB_E_FULL: there is no memory for the copy. */
static int order_replace(struct sb_handle *handle, struct sb_word64 *link, uint64_t word,
        const struct sb_branch_view *view, enum order_why why, uint32_t also)
{
        uint32_t slots = order_slots_now(handle, view, why);
        struct order_left left;
        uint64_t copy = 0;

        /* The memory first: without it, nothing is FROZEN. */
        if (slots && order_take(handle, slots, also, &copy))
                return SB_E_FULL;
        if (!order_freeze_all(handle, link, word, view, why == REMOVES, &left) || !left.count) {
                if (copy)
                        sb_slab_give_back(handle, copy);
                return 0;
        }
        if (order_take_copy(handle, order_slots_of_copy(left.count, why), also, &copy, &slots))
                return SB_E_FULL;
        if (copy)
                order_fill(handle, copy, view->depth, slots, left.word, left.count);
        (void)sb_limbo_begin(handle, &view->branch->block);
        if (order_set_link(link, word, copy ? copy : SB_SLOT_LINK(left.word[0]))) {
                sb_limbo_date(handle, &view->branch->block);
                return 0;
        }
        order_date_lost(handle, view);
        if (copy)
                sb_slab_give_back(handle, copy);
        handle->counters.retried++;
        return 0;
}

/* ---- the way down ---- */

/* Where a key's way ends: a leaf, or a branch below which it does not go on. */
struct order_end {
        struct sb_branch_way way;
        uint32_t depth; /* what it leads to is at least so deep */
};

enum order_way { THERE, FROZEN_ON_THE_WAY, DAMAGED };

/* Go down by a key to the end of its way. *ret: the first branch that is @depth deep or deeper,
 * else the last one; FROZEN_ON_THE_WAY: the one that is to be replaced first. */
static enum order_way order_descend(struct sb_handle *handle, struct sb_node_key key,
        uint32_t depth, struct sb_order_place *ret, struct order_end *ret_end)
{
        struct sb_word64 *slot = order_root(handle);
        uint64_t slot_word = sb_pin_load(handle, slot);
        uint32_t above = 0;
        bool found = false;

        *ret = (struct sb_order_place){.link = slot, .word = slot_word};
        *ret_end = (struct order_end){0};
        /* Bound: result. Depths grow, or the index is damaged. */
        while ((slot_word & SB_OFFSET_MASK) && !(slot_word & SB_SLOT_LEAF)) {
                struct sb_order_place here = {.link = slot, .word = slot_word, .above = above};

                if (!sb_branch_view(&handle->segment, slot_word, above, &here.view))
                        return DAMAGED;
                *ret_end = (struct order_end){
                        .way = {.stem = slot, .stem_word = slot_word, .word = slot_word},
                        .depth = above};
                slot = NULL;
                slot_word = 0;
                if (here.view.depth <= 2 * key.len)
                        slot = sb_branch_slot(handle, &here.view,
                                sb_branch_symbol(key.bytes, key.len, here.view.depth), &slot_word);
                here.slot = slot;
                here.slot_word = slot_word;
                if (!found)
                        *ret = here;
                found |= here.view.depth >= depth;
                if (slot_word & SB_SLOT_FROZEN) {
                        *ret = here;
                        return FROZEN_ON_THE_WAY;
                }
                above = here.view.depth + 1;
        }
        if (slot_word & SB_SLOT_LEAF)
                ret_end->way = (struct sb_branch_way){
                        .stem = slot, .stem_word = slot_word, .word = slot_word};
        return THERE;
}

/* ---- making ---- */

/* Whether the key differs at the place, and not above or below it. A leaf that it comes to may be
 * that place. */
static bool order_fits(struct sb_order_target *target)
{
        struct sb_order_place *place = &target->place;

        if (place->word & SB_SLOT_LEAF)
                return true;
        if ((place->slot_word & SB_SLOT_LEAF) && target->depth > place->view.depth) {
                place->link = place->slot;
                place->word = place->slot_word;
                return true;
        }
        return target->depth >= place->above && target->depth <= place->view.depth &&
               (target->depth < place->view.depth || !(place->slot_word & SB_OFFSET_MASK));
}

static enum sb_order_found order_look(
        struct sb_handle *handle, struct sb_node_key key, struct sb_order_target *ret)
{
        uint32_t depth = UINT32_MAX, round;

        /* At first the way's end is tried; then the depth at which the key differs is known. */
        for (round = 0; round < 2; round++) {
                struct order_end end;
                enum order_way way = order_descend(handle, key, depth, &ret->place, &end);
                int r;

                if (way != THERE)
                        return way == DAMAGED ? SB_ORDER_LOST : SB_ORDER_IN_THE_WAY;
                if (!(ret->place.word & SB_OFFSET_MASK))
                        return SB_ORDER_NOTHING_THERE;
                r = sb_branch_any_leaf(handle, end.way, end.depth, &ret->leaf);
                if (r <= 0)
                        return r ? SB_ORDER_LOST : SB_ORDER_CHANGED;
                ret->leaf_key = sb_node_key(&handle->segment, ret->leaf);
                if (!ret->leaf_key.bytes)
                        return SB_ORDER_LOST;
                ret->depth = sb_branch_differ(
                        key.bytes, key.len, ret->leaf_key.bytes, ret->leaf_key.len);
                if (order_fits(ret))
                        return SB_ORDER_FOUND;
                depth = ret->depth;
        }
        return SB_ORDER_CHANGED;
}

/* Find where a key belongs. */
static void order_find_target(
        struct sb_handle *handle, struct sb_node_key key, struct sb_order_target *ret)
{
        ret->found = order_look(handle, key, ret);
}

/* CAS of a slot from what was read in it, no leaf and no branch, to the leaf. */
static bool order_set_leaf(struct sb_order_place *place, uint32_t symbol, uint64_t offset)
{
        /* R:publish > A:publish. The node is complete. */
        return sb_cas64_full(place->slot, place->slot_word, SB_SLOT(symbol, offset | SB_SLOT_LEAF));
}

/* Fault ORDER_FORK_ANY: the fork takes the place of what is there now, whatever that is. */
static uint64_t order_fork_expects(const struct sb_order_place *place)
{
        uint64_t now = sb_load_acquire(place->link); /* A:publish. */

        return SB_FAULT(ORDER_FORK_ANY) && (now & SB_OFFSET_MASK) && !(now & SB_SLOT_FROZEN)
                       ? now
                       : place->word;
}

/* A new branch where the key differs: with what was there, and the leaf. Return: 0: it is linked;
 * 1: another process was first; SB_E_FULL. */
static int order_fork(struct sb_handle *handle, const struct sb_order_target *target,
        struct sb_node_key key, uint64_t offset, uint32_t also)
{
        const struct sb_order_place *place = &target->place;
        uint64_t at, word = order_fork_expects(place),
                     words[2] = {SB_SLOT(sb_branch_symbol(target->leaf_key.bytes,
                                                 target->leaf_key.len, target->depth),
                                         SB_SLOT_LINK(word)),
                             SB_SLOT(sb_branch_symbol(key.bytes, key.len, target->depth),
                                     offset | SB_SLOT_LEAF)};

        if (order_take(handle, SB_BRANCH_FEW, also, &at))
                return SB_E_FULL;
        order_fill(handle, at, target->depth, SB_BRANCH_FEW, words, 2);
        /* R:publish > A:publish. The branch is complete. */
        if (sb_cas64_full(place->link, word, SB_SLOT_TO(word, at)))
                return 0;
        sb_slab_give_back(handle, at);
        return 1;
}

/* Link a node at the place that was found. Return: as order_fork(). */
static int order_link(struct sb_handle *handle, struct sb_order_target *target,
        struct sb_node_key key, uint64_t offset, uint32_t also)
{
        struct sb_order_place *place = &target->place;
        uint64_t leaf = offset | SB_SLOT_LEAF;
        int r;

        if (target->depth == SB_BRANCH_SAME)
                /* The node of the same key is GONE. R:publish > A:publish. */
                return !sb_cas64_full(place->link, place->word, SB_SLOT_TO(place->word, leaf));
        if ((place->word & SB_SLOT_LEAF) || target->depth < place->view.depth)
                return order_fork(handle, target, key, offset, also);
        if (place->slot)
                return !order_set_leaf(
                        place, sb_branch_symbol(key.bytes, key.len, target->depth), offset);
        r = order_replace(handle, place->link, place->word, &place->view, GROWS, also);
        return r ? r : 1;
}

/* One try. Return: 0: *ret_node is the key's node; 1: look again; SB_E_FULL; -EIO. */
static int order_insert_at(struct sb_handle *handle, struct sb_order_target *target,
        struct sb_node *node, struct sb_node_key key, uint32_t also, struct sb_node **ret_node)
{
        struct sb_order_place *place = &target->place;
        uint64_t offset = sb_offset_of(&handle->segment, node);
        int r;

        *ret_node = node;
        switch (target->found) {
        case SB_ORDER_NOTHING_THERE:
                /* R:publish > A:publish. The node is complete. */
                return !sb_cas64_full(order_root(handle), place->word, offset | SB_SLOT_LEAF);
        case SB_ORDER_FOUND:
                if (target->depth != SB_BRANCH_SAME ||
                        sb_pin_load(handle, &target->leaf->cell) == SB_NODE_GONE)
                        return order_link(handle, target, key, offset, also);
                *ret_node = target->leaf;
                return 0;
        case SB_ORDER_IN_THE_WAY:
                r = order_replace(handle, place->link, place->word, &place->view, HELPS, also);
                return r ? r : 1;
        case SB_ORDER_CHANGED:
                return 1;
        case SB_ORDER_LOST:
                break;
        }
        return -EIO;
}

int sb_order_insert(struct sb_handle *handle, struct sb_node *node, uint32_t also,
        const struct sb_order_target *prepared, struct sb_node **ret_node)
{
        struct sb_node_key key = sb_node_key(&handle->segment, node);
        uint64_t left = sb_damage_bound(&handle->segment);
        struct sb_order_target target;
        int r;

        if (prepared)
                target = *prepared;
        else
                order_find_target(handle, key, &target);
        /* Bound: damage. Each round means that another process changed a word, or that this one
         * replaced a branch. */
        while ((r = order_insert_at(handle, &target, node, key, also, ret_node)) == 1) {
                handle->counters.retried++;
                if (!sb_damage_step(handle, &left))
                        return -EIO;
                order_find_target(handle, key, &target);
        }
        if (r == -EIO)
                sb_damage_note(handle);
        return r;
}

/* Slots of the branch that a node needs at the place that was found; 0: it needs none. */
static uint32_t order_slots_at(struct sb_handle *handle, const struct sb_order_target *target)
{
        const struct sb_order_place *place = &target->place;

        switch (target->found) {
        case SB_ORDER_FOUND:
                if (target->depth == SB_BRANCH_SAME)
                        return 0;
                if ((place->word & SB_SLOT_LEAF) || target->depth < place->view.depth)
                        return SB_BRANCH_FEW;
                return place->slot ? 0 : order_slots_now(handle, &place->view, GROWS);
        case SB_ORDER_IN_THE_WAY:
                return order_slots_now(handle, &place->view, HELPS);
        case SB_ORDER_CHANGED:
                return SB_BRANCH_FEW;
        case SB_ORDER_NOTHING_THERE:
        case SB_ORDER_LOST:
                break;
        }
        return 0;
}

int sb_order_prepare(struct sb_handle *handle, const void *key, uint32_t key_len, uint32_t also,
        struct sb_order_target *ret)
{
        uint32_t slots;
        uint64_t at;

        order_find_target(handle, (struct sb_node_key){.bytes = key, .len = key_len}, ret);
        slots = order_slots_at(handle, ret);
        if (!slots)
                return 0;
        if (order_take(handle, slots, also, &at))
                return SB_E_FULL;
        sb_slab_give_back(handle, at);
        return 0;
}

/* ---- removing ---- */

/* Whether a branch has fewer leaves and branches than it is worth. Fault ORDER_POOR_STAYS. */
static bool order_is_poor(const struct sb_branch_view *view)
{
        uint32_t count = 0, i;

        if (SB_FAULT(ORDER_POOR_STAYS))
                return false;
        for (i = 0; i < view->slots; i++)
                /* A:publish. A slot that is emptied meanwhile, its remover counts. */
                count += (sb_load_acquire(&view->branch->slot[i]) & SB_OFFSET_MASK) != 0;
        return count < 2 || (view->slots == SB_BRANCH_MORE && count <= SB_BRANCH_FEW / 2) ||
               (view->slots == SB_BRANCH_SYMBOLS && count <= SB_BRANCH_MORE / 2);
}

/* Take a leaf out of the slot in which it was found. */
static int order_take_leaf(struct sb_handle *handle, const struct sb_order_place *place)
{
        uint64_t empty = place->slot_word & ~(SB_OFFSET_MASK | SB_SLOT_LEAF);

        if (place->slot == &place->view.branch->slot[place->view.anchor] &&
                !SB_FAULT(ORDER_ANCHOR_EMPTIED))
                return order_replace(
                        handle, place->link, place->word, &place->view, REMOVES, SB_SLAB_LARGER);
        /* R:publish. The node's cell said before that it is GONE. */
        sb_cas64_full(place->slot, place->slot_word, SB_FAULT(ORDER_SYMBOL_LOST) ? 0 : empty);
        return 0;
}

/* Whether @word leads to the leaf that is to be taken out. Fault ORDER_REMOVED_BY_KEY: any node of
 * its key is. */
static bool order_leads_to(uint64_t word, uint64_t offset)
{
        if (!(word & SB_SLOT_LEAF))
                return false;
        return (word & SB_OFFSET_MASK) == offset || SB_FAULT(ORDER_REMOVED_BY_KEY);
}

/* One try to take a node out. Return: 0: it is out; 1: look again; SB_E_FULL; -EIO. */
static int order_remove_once(struct sb_handle *handle, struct sb_node_key key, uint64_t offset)
{
        struct sb_order_place place;
        struct order_end end;
        int r;

        switch (order_descend(handle, key, UINT32_MAX, &place, &end)) {
        case DAMAGED:
                return -EIO;
        case FROZEN_ON_THE_WAY:
                r = order_replace(
                        handle, place.link, place.word, &place.view, REMOVES, SB_SLAB_LARGER);
                return r ? r : 1;
        case THERE:
                break;
        }
        if (!(place.word & SB_OFFSET_MASK))
                return 0;
        if (place.word & SB_SLOT_LEAF) {
                if ((place.word & SB_OFFSET_MASK) != offset)
                        return 0;
                /* R:publish. As for a slot. */
                return !sb_cas64_full(place.link, place.word, 0);
        }
        if (order_leads_to(place.slot_word, offset)) {
                r = order_take_leaf(handle, &place);
                return r ? r : 1;
        }
        /* Without memory the branch stays poor. */
        if (order_is_poor(&place.view) && !order_replace(handle, place.link, place.word,
                                                  &place.view, REMOVES, SB_SLAB_LARGER))
                return 1;
        return 0;
}

bool sb_order_remove(struct sb_handle *handle, struct sb_node *node)
{
        struct sb_node_key key = sb_node_key(&handle->segment, node);
        uint64_t left = sb_damage_bound(&handle->segment),
                 offset = sb_offset_of(&handle->segment, node);
        int r;

        if (!key.bytes)
                return true;
        /* Bound: damage. Each round changes a word, or means that another process changed one. */
        while ((r = order_remove_once(handle, key, offset)) == 1)
                if (!sb_damage_step(handle, &left))
                        return false;
        if (r == -EIO)
                sb_damage_note(handle);
        return !r;
}

/* ---- branches that a dead process left ---- */

/* Replace a branch that the index leads to; or the one above that is in the way. Return: 0,
 * SB_E_FULL. */
static int order_replace_linked(struct sb_handle *handle, struct sb_branch *branch)
{
        struct sb_order_place place;
        struct order_end end;
        struct sb_branch_key key;
        enum order_way way;

        if (!sb_branch_key_below(handle, branch, &key))
                return 0;
        way = order_descend(handle, (struct sb_node_key){.bytes = key.bytes, .len = key.len},
                key.depth, &place, &end);
        if (way == DAMAGED || !(place.word & SB_OFFSET_MASK) || (place.word & SB_SLOT_LEAF))
                return 0;
        if (way == THERE && sb_offset_of(&handle->segment, branch) != (place.word & SB_OFFSET_MASK))
                return 0;
        return order_replace(handle, place.link, place.word, &place.view, REMOVES, SB_SLAB_LARGER);
}

void sb_order_finish(struct sb_handle *handle, struct sb_branch *branch)
{
        uint64_t left = sb_damage_bound(&handle->segment);
        bool linked;

        /* Bound: damage. Each round replaces a branch, or another process changed a word. */
        while ((linked = sb_order_reaches(handle, branch) && !SB_FAULT(ORDER_DATES_LINKED)) &&
                sb_damage_step(handle, &left))
                if (order_replace_linked(handle, branch))
                        return;
        if (!linked)
                sb_limbo_date(handle, &branch->block);
}
