/*
 * The ordered index: what only reads it; see order.h.
 *
 * Always true: a branch's slots are loaded together, and what a FROZEN one leads to is followed
 * only if the branch was linked behind that (branch.h). So all that was found there was linked
 * then, and the pin keeps it.
 */

#include <string.h>

#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"

/* ---- one key ---- */

enum seek_ended { GOES_ON, AT_LEAF, AT_NOTHING, LOST_WAY, IN_DAMAGE };

/* Go down one branch by a key: @way leads to the branch, which is at least *depth deep, and behind
 * that to what is in the key's slot, with the next *depth. Where nothing is for the key, @way stays
 * as it was. */
static inline __attribute__((always_inline)) enum seek_ended seek_down_one(struct sb_handle *handle,
        const unsigned char *key, uint32_t key_len, struct sb_branch_way *way, uint32_t *depth,
        struct sb_branch_view *ret_view)
{
        const struct sb_word64 *slot;
        uint64_t word;

        if (!sb_branch_view(&handle->segment, way->word, *depth, ret_view))
                return IN_DAMAGE;
        if (ret_view->depth > 2 * key_len)
                return AT_NOTHING;
        slot = sb_branch_slot(
                handle, ret_view, sb_branch_symbol(key, key_len, ret_view->depth), &word);
        if (!slot || !(word & SB_OFFSET_MASK))
                return AT_NOTHING;
        *depth = ret_view->depth + 1;
        return sb_branch_follow(way, slot, word) ? GOES_ON : LOST_WAY;
}

/* Go down by a key, to the leaf that its way leads to. */
static enum seek_ended seek_read_down(struct sb_handle *handle, const unsigned char *key,
        uint32_t key_len, struct sb_branch_way *ret)
{
        enum seek_ended ended = GOES_ON;
        struct sb_branch_view view;
        uint32_t depth = 0;

        *ret = sb_branch_root(handle);
        if (!(ret->word & SB_OFFSET_MASK))
                return AT_NOTHING;
        /* Bound: result. Depths grow, or the index is damaged. */
        while (ended == GOES_ON && !(ret->word & SB_SLOT_LEAF))
                ended = seek_down_one(handle, key, key_len, ret, &depth, &view);
        return ended == GOES_ON ? AT_LEAF : ended;
}

struct sb_node *sb_order_find(struct sb_handle *handle, const void *key, uint32_t key_len)
{
        uint64_t left = sb_damage_bound(&handle->segment);
        struct sb_branch_way way;
        enum seek_ended ended;
        struct sb_node *node;

        /* Bound: damage. Each round means that another process replaced a branch. */
        while ((ended = seek_read_down(handle, key, key_len, &way)) == LOST_WAY) {
                handle->counters.retried++;
                if (!sb_damage_step(handle, &left))
                        return NULL;
        }
        if (ended == IN_DAMAGE)
                sb_damage_note(handle);
        if (ended != AT_LEAF)
                return NULL;
        node = sb_node_at(&handle->segment, way.word & SB_OFFSET_MASK);
        return node && !sb_node_compare(&handle->segment, node, key, key_len) ? node : NULL;
}

/* ---- one branch ---- */

/* Whether the way by a key comes to the branch at @offset; over FROZEN words, as a reader. */
static bool seek_meets(struct sb_handle *handle, const struct sb_branch_key *key, uint64_t offset)
{
        struct sb_branch_way way = sb_branch_root(handle);
        uint32_t next = 0;

        /* Bound: result. Depths grow, or the index is damaged: what cannot be told is not freed. */
        while ((way.word & SB_OFFSET_MASK) && !(way.word & SB_SLOT_LEAF) && next <= key->depth) {
                const struct sb_word64 *slot;
                struct sb_branch_view view;
                uint64_t word;

                if ((way.word & SB_OFFSET_MASK) == offset)
                        return true;
                if (!sb_branch_view(&handle->segment, way.word, next, &view)) {
                        sb_damage_note(handle);
                        return true;
                }
                next = view.depth + 1;
                slot = sb_branch_slot(
                        handle, &view, sb_branch_symbol(key->bytes, key->len, view.depth), &word);
                if (!slot)
                        return false;
                if (!sb_branch_follow(&way, slot, word)) {
                        way = sb_branch_root(handle);
                        next = 0;
                }
        }
        return false;
}

bool sb_order_reaches(struct sb_handle *handle, struct sb_branch *branch)
{
        struct sb_branch_key key;

        return sb_branch_key_below(handle, branch, &key) &&
               seek_meets(handle, &key, sb_offset_of(&handle->segment, branch));
}

/* ---- runs ---- */

#define STEPS  32u /* on the way to a key that a run remembers */
#define LEVELS 12u /* the same; beyond these it ends, and the next one begins there */
#define SHORT  48u /* nodes of a run that are fetched while it is taken: all are read at once */

/* A branch on the way to a key. */
struct seek_step {
        struct sb_branch_way way; /* to it */
        uint32_t depth;           /* it is at least so deep */
        struct sb_branch_view view;
};

/* A branch on the way, of which a part is to be gone through. */
struct seek_level {
        struct sb_branch_way way; /* to it */
        uint32_t depth;           /* it is at least so deep */
        int32_t past;             /* symbols behind this one, in the run's direction */
        bool loaded;
        uint32_t left;                    /* a bit for each symbol that is to be gone through */
        uint32_t branches;                /* and for each that leads to a branch */
        uint64_t word[SB_BRANCH_SYMBOLS]; /* by symbol */
        uint8_t slot[SB_BRANCH_SYMBOLS];
};

struct seek_search {
        struct sb_handle *handle;
        const unsigned char *key;
        uint32_t key_len, most;
        bool inclusive, backwards;
        struct sb_order_run *run;
        uint32_t step_count; /* of the whole way, the last of them in a circle */
        uint32_t end_depth;  /* where the way ends, and what is there is at least so deep */
        struct sb_branch_way end;
        uint32_t level_count;
        bool dropped; /* there were more levels */
        struct seek_step step[STEPS];
        struct seek_level level[LEVELS];
};

static int32_t seek_before_all(const struct seek_search *search)
{
        return search->backwards ? (int32_t)SB_BRANCH_SYMBOLS : -1;
}

static bool seek_is_past(const struct seek_search *search, uint64_t word, int32_t past)
{
        int32_t symbol = (int32_t)SB_SLOT_SYMBOL(word) - 1;

        return (word & SB_OFFSET_MASK) && (search->backwards ? symbol < past : symbol > past);
}

static void seek_push(
        struct seek_search *search, const struct sb_branch_way *way, uint32_t depth, int32_t past)
{
        struct seek_level *level;

        if (search->level_count == LEVELS) {
                memmove(&search->level[0], &search->level[1],
                        (LEVELS - 1) * sizeof(search->level[0]));
                search->level_count--;
                search->dropped = true;
        }
        level = &search->level[search->level_count++];
        level->way = *way;
        level->depth = depth;
        level->past = past;
        level->loaded = false;
}

/* A bit for each symbol past @past. */
static uint32_t seek_symbols_past(const struct seek_search *search, int32_t past)
{
        uint32_t below = past < 0 ? 0 : (UINT32_C(1) << past) - 1;

        return search->backwards ? below : ~(below << 1 | 1) | (past < 0);
}

/* The branches that a run comes to next, two lines of each, all at once. Nodes are fetched by their
 * users, before they read them; those of a short run by seek_take_leaves(). */
static void seek_fetch(const struct seek_search *search, const struct seek_level *level)
{
        const unsigned char *base = search->handle->segment.base;
        uint32_t left = search->most > 1 ? level->left & level->branches : 0;

        for (; left; left &= left - 1) {
                uint64_t at = level->word[__builtin_ctz(left)] & SB_OFFSET_MASK;

                sb_prefetch_later(base + at);
                sb_prefetch_later(base + at + SB_LINE);
        }
}

/* The slots of a branch in which something past @past may be: from *ret_first on, to *ret_end.
 * Where each symbol has its slot, these are the ones past it. */
static void seek_slots_past(const struct seek_search *search, const struct sb_branch_view *view,
        int32_t past, uint32_t *ret_first, uint32_t *ret_end)
{
        bool whole = view->slots == SB_BRANCH_SYMBOLS;

        *ret_first = whole && !search->backwards ? (uint32_t)(past + 1) : 0;
        *ret_end = whole && search->backwards ? (uint32_t)past : view->slots;
}

/* Load the slots in which something past level->past may be. Return: what they have in common. */
static uint64_t seek_load_slots(const struct seek_search *search, struct seek_level *level,
        const struct sb_branch_view *view)
{
        uint32_t left = 0, branches = 0, i, end;
        uint64_t any = 0;

        for (seek_slots_past(search, view, level->past, &i, &end); i < end; i++) {
                uint64_t word = sb_load_acquire(&view->branch->slot[i]); /* A:publish. */
                uint32_t symbol = SB_SLOT_SYMBOL(word) - 1;

                any |= word;
                if (!(word & SB_OFFSET_MASK) || SB_UNLIKELY(symbol >= SB_BRANCH_SYMBOLS))
                        continue;
                left |= UINT32_C(1) << symbol;
                branches |= (uint32_t) !(word & SB_SLOT_LEAF) << symbol;
                level->word[symbol] = word;
                level->slot[symbol] = (uint8_t)i;
        }
        level->left = left;
        level->branches = branches;
        return any;
}

/* Load what lies past level->past. False: the way is lost, or the index damaged. */
static bool seek_load(struct seek_search *search, struct seek_level *level)
{
        struct sb_handle *handle = search->handle;
        struct sb_branch_view view;
        uint64_t any;

        if (!sb_branch_view(&handle->segment, level->way.word, level->depth, &view)) {
                sb_damage_note(handle);
                return false;
        }
        do
                any = seek_load_slots(search, level, &view);
        while (!SB_FAULT(ORDER_SCAN_UNCOVERED) && !sb_pin_covers(handle));
        level->left &= seek_symbols_past(search, level->past);
        level->depth = view.depth;
        level->loaded = true;
        seek_fetch(search, level);
        /* A:publish. As in sb_branch_follow(). */
        return !(any & SB_SLOT_FROZEN) || SB_FAULT(ORDER_STEM_LOST) ||
               sb_load_acquire(level->way.stem) == level->way.stem_word;
}

static void seek_add(struct seek_search *search, uint64_t word)
{
        struct sb_node *node = sb_node_at(&search->handle->segment, word & SB_OFFSET_MASK);

        if (node)
                search->run->node[search->run->count++] = node;
        else
                sb_damage_note(search->handle);
}

/* The way to the branch in a symbol's slot. */
static struct sb_branch_way seek_way_below(
        const struct seek_search *search, const struct seek_level *level, uint32_t symbol)
{
        struct sb_branch_way way = level->way;
        const struct sb_branch *branch =
                sb_block_at(&search->handle->segment, way.word & SB_OFFSET_MASK);

        way.word = level->word[symbol];
        if (!(way.word & SB_SLOT_FROZEN)) {
                way.stem = &branch->slot[level->slot[symbol]];
                way.stem_word = way.word;
        }
        return way;
}

/* Take the leaves of a level, up to a branch. Return: *ret_way leads to that; false: there is none,
 * or the run is full. */
static bool seek_take_leaves(
        struct seek_search *search, struct seek_level *level, struct sb_branch_way *ret_way)
{
        uint32_t left = level->left, branches = level->branches;
        struct sb_order_run *run = search->run;
        uint32_t count = run->count, symbol = 0;
        bool below = false;

        while (left && count < search->most) {
                struct sb_node *node;

                symbol = search->backwards ? 31 - (uint32_t)__builtin_clz(left)
                                           : (uint32_t)__builtin_ctz(left);
                left ^= UINT32_C(1) << symbol;
                below = branches >> symbol & 1;
                if (below)
                        break;
                node = sb_node_at(&search->handle->segment, level->word[symbol] & SB_OFFSET_MASK);
                if (SB_UNLIKELY(!node)) {
                        sb_damage_note(search->handle);
                        continue;
                }
                run->node[count++] = node;
                if (search->most <= SHORT)
                        sb_prefetch_later(node);
        }
        level->left = left;
        run->count = count;
        if (below)
                *ret_way = seek_way_below(search, level, symbol);
        return below;
}

/* Go on from the levels that are there. False: the way is lost. */
static bool seek_go_on(struct seek_search *search)
{
        struct sb_order_run *run = search->run;

        /* Bound: result. Depths grow, or the index is damaged. */
        while (run->count < search->most && search->level_count) {
                struct seek_level *level = &search->level[search->level_count - 1];
                struct sb_branch_way way;

                if (!level->loaded && !seek_load(search, level))
                        return false;
                if (seek_take_leaves(search, level, &way))
                        seek_push(search, &way, level->depth + 1, seek_before_all(search));
                else if (!level->left)
                        search->level_count--;
        }
        run->more = run->count == search->most || search->dropped;
        return true;
}

/* Whether a branch has anything past @past. */
static bool seek_has_past(
        const struct seek_search *search, const struct sb_branch_view *view, int32_t past)
{
        uint32_t i, end;

        for (seek_slots_past(search, view, past, &i, &end); i < end; i++)
                /* Relaxed: a guess; the slots are loaded again. */
                if (seek_is_past(search, sb_load_relaxed(&view->branch->slot[i]), past))
                        return true;
        return false;
}

/* The number of the first step that is remembered. */
static uint32_t seek_first_step(const struct seek_search *search)
{
        return search->step_count > STEPS ? search->step_count - STEPS : 0;
}

/* The run goes on behind the key's symbol in this branch, if something is there. */
static void seek_push_step(struct seek_search *search, const struct seek_step *step)
{
        int32_t symbol = (int32_t)sb_branch_symbol(search->key, search->key_len, step->view.depth);

        if (seek_has_past(search, &step->view, symbol))
                seek_push(search, &step->way, step->depth, symbol);
}

/* The next step of a way. The first one of STEPS that gives way to it is one of the run's, as far
 * as is known by then. */
static struct seek_step *seek_add_step(struct seek_search *search)
{
        struct seek_step *step = &search->step[search->step_count % STEPS];

        if (SB_UNLIKELY(search->step_count >= STEPS))
                seek_push_step(search, step);
        search->step_count++;
        return step;
}

/* Go down by the key, as far as its way leads, or to the first branch that is deeper than @most. */
static enum seek_ended seek_go_down(struct seek_search *search, uint32_t most)
{
        struct sb_branch_way way = sb_branch_root(search->handle);
        enum seek_ended ended = GOES_ON;
        uint32_t depth = 0;

        search->step_count = search->level_count = 0;
        search->dropped = false;
        /* Bound: result. Depths grow, or the index is damaged. */
        while (ended == GOES_ON && (way.word & SB_OFFSET_MASK) && !(way.word & SB_SLOT_LEAF)) {
                struct seek_step *step = seek_add_step(search);

                step->way = way;
                step->depth = depth;
                ended = seek_down_one(
                        search->handle, search->key, search->key_len, &way, &depth, &step->view);
                if (ended == AT_NOTHING || (ended == GOES_ON && step->view.depth > most)) {
                        search->end = step->way;
                        search->end_depth = step->depth;
                        return AT_NOTHING;
                }
        }
        search->end = way;
        search->end_depth = depth;
        return ended != GOES_ON ? ended : way.word & SB_OFFSET_MASK ? AT_LEAF : AT_NOTHING;
}

/* Where the key differs from a leaf at the end of its way. All below a branch on the way are the
 * same up to its depth, so above that depth the key differs from each of them there. False: the way
 * is lost, or the index damaged. */
static bool seek_differ(struct seek_search *search, struct sb_node_key *ret_own, uint32_t *ret)
{
        struct sb_node *leaf;
        int r = sb_branch_any_leaf(search->handle, search->end, search->end_depth, &leaf);

        if (r > 0)
                *ret_own = sb_node_key(&search->handle->segment, leaf);
        if (r < 0 || (r > 0 && !ret_own->bytes))
                sb_damage_note(search->handle);
        if (r <= 0 || !ret_own->bytes)
                return false;
        *ret = sb_branch_differ(search->key, search->key_len, ret_own->bytes, ret_own->len);
        return true;
}

/* Whether the key differs above all steps that are remembered. */
static bool seek_forgot(const struct seek_search *search, uint32_t depth)
{
        return search->step_count > STEPS &&
               search->step[seek_first_step(search) % STEPS].view.depth > depth;
}

/* Begin where the key belongs, which differs from what is there at @depth (SB_BRANCH_SAME: from
 * nothing): at each branch above, behind the key's symbol. Return: whether something is as deep, or
 * deeper: it lies on one side of the key, @search->end leads to it, and it was not pushed. */
static bool seek_begin(struct seek_search *search, uint32_t depth)
{
        uint32_t i;

        for (i = seek_first_step(search); i < search->step_count; i++) {
                const struct seek_step *step = &search->step[i % STEPS];

                if (step->view.depth > depth) {
                        search->end = step->way;
                        search->end_depth = step->depth;
                        return true;
                }
                seek_push_step(search, step);
                if (step->view.depth == depth)
                        return false;
        }
        return true;
}

/* One try. False: look again. */
static bool seek_run_once(struct seek_search *search)
{
        struct sb_order_run *run = search->run;
        enum seek_ended ended = seek_go_down(search, UINT32_MAX);
        struct sb_node_key own;
        uint32_t depth, again;
        bool past;

        run->count = 0;
        run->more = false;
        if (ended == IN_DAMAGE)
                sb_damage_note(search->handle);
        if (ended == IN_DAMAGE || ended == LOST_WAY || !(search->end.word & SB_OFFSET_MASK))
                return ended != LOST_WAY;
        if (!seek_differ(search, &own, &depth) || (depth == SB_BRANCH_SAME && ended != AT_LEAF))
                return false;
        /* A long way, once more, down to there. */
        if (SB_UNLIKELY(seek_forgot(search, depth)) &&
                (seek_go_down(search, depth) != AT_NOTHING || !seek_differ(search, &own, &again) ||
                        again != depth))
                return false;
        past = depth == SB_BRANCH_SAME
                       ? search->inclusive
                       : search->backwards !=
                                 (sb_branch_symbol(own.bytes, own.len, depth) >
                                         sb_branch_symbol(search->key, search->key_len, depth));
        if (seek_begin(search, depth) && past) {
                if (search->end.word & SB_SLOT_LEAF)
                        seek_add(search, search->end.word);
                else
                        seek_push(search, &search->end, search->end_depth, seek_before_all(search));
        }
        if (seek_go_on(search))
                return run->count || !search->dropped;
        run->more = true;
        return run->count;
}

void sb_order_take_run(struct sb_handle *handle, const void *key, uint32_t key_len, bool inclusive,
        bool backwards, uint32_t most, struct sb_order_run *ret)
{
        struct seek_search search;
        uint64_t left = sb_damage_bound(&handle->segment);

        search.handle = handle;
        search.key = key;
        search.key_len = key_len;
        search.most = most < SB_ORDER_RUN ? most : SB_ORDER_RUN;
        search.inclusive = inclusive;
        search.backwards = backwards;
        search.run = ret;
        /* Bound: damage. Each round means that another process replaced a branch. */
        while (!seek_run_once(&search)) {
                handle->counters.retried++;
                if (sb_damage_met(handle) || !sb_damage_step(handle, &left)) {
                        ret->count = 0;
                        ret->more = false;
                        return;
                }
        }
}

/* The node next to a key, if there is one. Callers go on behind what they are given: it lies there,
 * or in a damaged segment they could go round for ever. */
static struct sb_node *seek_one(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool inclusive, bool backwards)
{
        struct sb_order_run run;
        int order;

        sb_order_take_run(handle, key, key_len, inclusive, backwards, 1, &run);
        if (!run.count)
                return NULL;
        order = sb_node_compare(&handle->segment, run.node[0], key, key_len);
        if (SB_LIKELY(backwards ? order < inclusive : order > -(int)inclusive))
                return run.node[0];
        sb_damage_note(handle);
        return NULL;
}

struct sb_node *sb_order_seek(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool after)
{
        return seek_one(handle, key, key_len, !after, false);
}

struct sb_node *sb_order_below(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool inclusive)
{
        return seek_one(handle, key, key_len, inclusive, true);
}

/* ---- walks ---- */

#define FIRST_RUN 8u /* nodes: many a walk goes no further */

struct sb_node *sb_order_first(struct sb_handle *handle, const void *key, uint32_t key_len,
        bool after, struct sb_order_cursor *ret)
{
        sb_order_take_run(handle, key, key_len, !after, false, FIRST_RUN, &ret->run);
        ret->at = 1;
        return ret->run.count ? ret->run.node[0] : NULL;
}

struct sb_node *sb_order_next(struct sb_handle *handle, struct sb_order_cursor *cursor)
{
        struct sb_order_run *run = &cursor->run;
        struct sb_node_key key;

        if (cursor->at < run->count)
                return run->node[cursor->at++];
        if (!run->more)
                return NULL;
        key = sb_node_key(&handle->segment, run->node[run->count - 1]);
        cursor->at = 1;
        if (!key.bytes) {
                sb_damage_note(handle);
                return NULL;
        }
        sb_order_take_run(handle, key.bytes, key.len, false, false, SB_ORDER_RUN, run);
        /* Keys ascend; in a damaged segment the walk could go round for ever, by the last key,
         * behind which the next run begins. */
        if (run->count && sb_node_compare(&handle->segment, run->node[run->count - 1], key.bytes,
                                  key.len) <= 0) {
                sb_damage_note(handle);
                run->count = 0;
                run->more = false;
        }
        return run->count ? run->node[0] : NULL;
}

bool sb_order_walk(struct sb_handle *handle, const void *prefix, uint32_t prefix_len,
        sb_order_visit *visit, void *context)
{
        unsigned char at[SB_KEY_LEN_MAX];
        uint32_t at_len = prefix_len, i;
        bool after = false, going = true;
        struct sb_order_run run;

        if (prefix_len)
                memcpy(at, prefix, prefix_len);
        while (going) {
                sb_pin(handle);
                sb_order_take_run(handle, at, at_len, !after, false, SB_ORDER_RUN, &run);
                going = run.count;
                for (i = 0; i < run.count; i++) {
                        struct sb_node_key key = sb_node_key(&handle->segment, run.node[i]);

                        going = run.more && key.bytes;
                        if (!key.bytes || key.len < prefix_len ||
                                memcmp(key.bytes, prefix_len ? prefix : "", prefix_len) != 0) {
                                going = false;
                                break;
                        }
                        /* Keys ascend; in a damaged segment the walk could go round for ever. */
                        if (after && sb_bytes_compare(key.bytes, key.len, at, at_len) <= 0) {
                                sb_damage_note(handle);
                                going = false;
                                break;
                        }
                        visit(handle, run.node[i], context);
                        at_len = key.len;
                        memcpy(at, key.bytes, at_len);
                        after = true;
                }
                sb_unpin(handle);
        }
        return !sb_damage_met(handle);
}
