/* The ring of a watched key; see ring.h. */

#include "shm/notify/ring.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/unit.h"
#include "shm/notify/bell.h"
#include "shm/notify/turn.h"

/* ---- blocks ---- */

void sb_ring_fill(
        struct sb_handle *handle, uint64_t at, uint64_t node, const struct sb_ring_form *form)
{
        struct sb_ring *ring = (struct sb_ring *)(handle->segment.base + at);
        uint64_t count = (sb_ring_size(*form) - sizeof(*ring)) / sizeof(ring->words[0]), i;

        sb_pin_give_birth(handle, &ring->block);
        ring->want_count = form->want_count;
        ring->hints = form->hints;
        ring->node = node;
        ring->shape = SB_SHAPE(
                sb_ring_size(*form) - sizeof(struct sb_version), 0, SB_VERSION_RING, handle->slot);
        ring->slot_count = form->slot_count;
        ring->watcher_count = form->watcher_count;
        /* Relaxed, all: the ring is private until its node names it. */
        sb_store_relaxed(&ring->state, 0);
        sb_store_relaxed(&ring->zero, 0);
        sb_store_relaxed(&ring->gone, SB_RING_UNOPENED);
        sb_store_relaxed(&ring->more, 0);
        sb_store_relaxed(&ring->tail, 0);
        sb_store_relaxed(&ring->mark, 0);
        sb_store_relaxed(&ring->given, 0);
        for (i = 0; i < count; i++)
                sb_store_relaxed(&ring->words[i], 0);
}

bool sb_ring_view(struct sb_handle *handle, uint64_t at, struct sb_ring_view *ret)
{
        struct sb_ring *ring = sb_block_at(&handle->segment, at & SB_OFFSET_MASK);
        struct sb_ring_form form;
        uint64_t size, want_count;

        if (!(at & SB_OFFSET_MASK) || !ring ||
                !sb_unit_is_block(&handle->segment, at & SB_OFFSET_MASK, SB_UNIT_VERSIONS, &size))
                return false;
        want_count = sb_once(ring->want_count);
        form = (struct sb_ring_form){.slot_count = sb_once(ring->slot_count),
                .watcher_count = sb_once(ring->watcher_count),
                .want_count = (uint32_t)want_count};
        if (SB_SHAPE_KIND(sb_once(ring->shape)) != SB_VERSION_RING || want_count > UINT32_MAX ||
                sb_ring_size(form) > size) {
                sb_damage_note(handle);
                return false;
        }
        *ret = (struct sb_ring_view){.ring = ring,
                .slots = ring->words,
                .watchers = ring->words + form.slot_count,
                .wants = ring->words + form.slot_count + form.watcher_count,
                .slot_count = form.slot_count,
                .watcher_count = form.watcher_count,
                .want_count = form.want_count};
        return true;
}

bool sb_ring_of(struct sb_handle *handle, struct sb_node *node, struct sb_ring_view *ret)
{
        uint64_t at = sb_pin_load(handle, &node->ring);

        /* A transaction's list of versions may lead to a block that is no node any more: then the
         * ring that it seems to have is another's. */
        return SB_UNLIKELY(at != 0) && sb_ring_view(handle, at, ret) &&
               sb_once(ret->ring->node) == sb_offset_of(&handle->segment, node);
}

bool sb_ring_further(struct sb_handle *handle, struct sb_ring_view *view, uint64_t *left)
{
        uint64_t more = sb_pin_load(handle, &view->ring->more);

        /* Bound: damage. Blocks that go round. */
        return (more & SB_OFFSET_MASK) && sb_damage_step(handle, left) &&
               sb_ring_view(handle, more, view);
}

/* A walk over all watchers: of the ring, and of each further block. */
struct ring_walk {
        struct sb_ring_view view;
        uint32_t index;
        uint64_t left;
};

static void ring_walk_begin(
        struct sb_handle *handle, const struct sb_ring_view *view, struct ring_walk *walk)
{
        *walk = (struct ring_walk){.view = *view, .left = sb_damage_bound(&handle->segment)};
}

static struct sb_word64 *ring_walk_next(struct sb_handle *handle, struct ring_walk *walk)
{
        /* Bound: damage. Blocks that go round. */
        while (walk->index == walk->view.watcher_count) {
                if (!sb_ring_further(handle, &walk->view, &walk->left))
                        return NULL;
                walk->index = 0;
        }
        return &walk->view.watchers[walk->index++];
}

/* The block of a ring that has the most slots, which is hung in last: the ring itself, unless some
 * process wanted more later. @space: for the answer. */
static const struct sb_ring_view *ring_deepest(
        struct sb_handle *handle, const struct sb_ring_view *view, struct sb_ring_view *space)
{
        uint64_t more = sb_pin_load(handle, &view->ring->more), left;
        struct sb_ring_view each;

        if (SB_LIKELY(!(more & SB_OFFSET_MASK)))
                return view;
        left = sb_damage_bound(&handle->segment);
        *space = *view;
        /* Bound: damage. Blocks that go round. */
        while ((more & SB_OFFSET_MASK) && sb_damage_step(handle, &left) &&
                sb_ring_view(handle, more, &each)) {
                if (each.slot_count > space->slot_count)
                        *space = each;
                more = sb_pin_load(handle, &each.ring->more);
        }
        return space;
}

/* ---- telling ---- */

/* A slot: the offset, and in the 20 bits that are free beside it a tag: the low bits of the
 * revision divided by the number of slots. */
#define SLOT_TAG_HALF (UINT64_C(1) << 19)

static uint64_t ring_slot_word(const struct sb_ring_view *view, uint64_t rev, uint64_t at)
{
        uint64_t tag = rev / view->slot_count;

        return (tag << 44 & SB_TAG_MASK) | (at & SB_OFFSET_MASK) | (tag & 15);
}
static uint64_t ring_slot_tag(uint64_t word)
{
        return (word & SB_TAG_MASK) >> 44 | (word & 15);
}

/* Puts the version into its slot, unless a later one is there. */
static void ring_fill_slot(
        struct sb_handle *handle, const struct sb_ring_view *view, const struct sb_version *version)
{
        struct sb_word64 *slot = &view->slots[version->rev % view->slot_count];
        uint64_t word = ring_slot_word(view, version->rev, sb_offset_of(&handle->segment, version));
        uint64_t old, ahead;

        do {
                old = sb_load_acquire(slot); /* A:publish. */
                /* The same, or later: by less than half of all tags. */
                ahead = (ring_slot_tag(old) - ring_slot_tag(word)) % (2 * SLOT_TAG_HALF);
                if (old && ahead < SLOT_TAG_HALF && !SB_FAULT(RING_BACKWARDS))
                        return;
        } while (!sb_cas64_full(slot, old, word)); /* R:publish > A:publish. */
}

void sb_ring_wake(struct sb_handle *handle, const struct sb_ring_view *view)
{
        uint64_t left = sb_damage_bound(&handle->segment);
        struct sb_ring_view each = *view;

        /* Not by ring_walk_next(): each write of what is watched goes by all entries. */
        do {
                for (uint32_t i = 0; i < each.watcher_count; i++) {
                        uint64_t word = sb_load_acquire(&each.watchers[i]); /* A:watcher. */
                        uint32_t slot = SB_WATCHER_SLOT(word);

                        if (word && slot < handle->segment.geometry.record_count)
                                sb_bell_ring(&handle->segment, slot, SB_WATCHER_BIT(word));
                }
        } while (!SB_FAULT(RING_MORE_UNTOLD) && sb_ring_further(handle, &each, &left));
}

void sb_ring_tell_view(
        struct sb_handle *handle, const struct sb_ring_view *view, const struct sb_version *version)
{
        struct sb_ring_view space;

        if (version && view->slot_count)
                ring_fill_slot(handle,
                        SB_FAULT(RING_STAYS_SHALLOW) ? view : ring_deepest(handle, view, &space),
                        version);
        /* A rule's ring has no watchers. */
        if (view->watcher_count || sb_pin_load(handle, &view->ring->more))
                sb_ring_wake(handle, view);
}

void sb_ring_tell_all(
        struct sb_handle *handle, struct sb_node *node, const struct sb_version *version)
{
        struct sb_ring_view view;

        if (SB_UNLIKELY(sb_ring_of(handle, node, &view)))
                sb_ring_tell_view(handle, &view, version);
}

/* ---- what is gone ---- */

/* The newest revision of a node's key, or the one that a transaction is about to give it. Return:
 * false: the node has no cell. */
static bool ring_newest(struct sb_handle *handle, struct sb_node *node, uint64_t *ret)
{
        struct sb_word64 *cell = sb_cell_at(&handle->segment, sb_pin_load(handle, &node->cell));
        struct sb_version *head =
                cell ? sb_version_at(&handle->segment, sb_pin_load(handle, cell) & SB_OFFSET_MASK)
                     : NULL;

        if (head)
                *ret = SB_FAULT(RING_OPENED_LOW) ? 1 : head->rev;
        return head;
}

void sb_ring_open(struct sb_handle *handle, struct sb_node *node, const struct sb_ring_view *view)
{
        uint64_t rev;

        if (SB_LIKELY(sb_load_acquire(&view->ring->gone) != SB_RING_UNOPENED)) /* A:gone. */
                return;
        if (ring_newest(handle, node, &rev))
                /* R:gone > A:gone. Failed: another process opened it. */
                sb_cas64_full(&view->ring->gone, SB_RING_UNOPENED, rev);
}

void sb_ring_raise_view(struct sb_handle *handle, struct sb_node *node,
        const struct sb_ring_view *view, uint64_t rev)
{
        uint64_t gone;

        if (SB_FAULT(GONE_UNSAID))
                return;
        sb_ring_open(handle, node, view);
        do
                gone = sb_load_acquire(&view->ring->gone);                   /* A:gone. */
        while (gone < rev && !sb_cas64_full(&view->ring->gone, gone, rev) && /* R:gone > A:gone. */
                !SB_FAULT(GONE_RAISED_ONCE));
}

void sb_ring_raise_gone(struct sb_handle *handle, struct sb_node *node, uint64_t rev)
{
        struct sb_ring_view view;

        if (SB_UNLIKELY(sb_ring_of(handle, node, &view)))
                sb_ring_raise_view(handle, node, &view, rev);
}

uint32_t sb_ring_depth_view(struct sb_handle *handle, const struct sb_ring_view *view)
{
        struct sb_ring_view space;

        return ring_deepest(handle, view, &space)->slot_count;
}

uint32_t sb_ring_depth(struct sb_handle *handle, struct sb_node *node)
{
        struct sb_ring_view view;

        return sb_ring_of(handle, node, &view) ? sb_ring_depth_view(handle, &view) : 0;
}

/* What the slot of @rev says in this block; 0: another revision, or nothing. */
static inline uint64_t ring_read_slot(const struct sb_ring_view *view, uint64_t rev)
{
        uint64_t word;

        if (!view->slot_count)
                return 0;
        word = sb_load_acquire(&view->slots[rev % view->slot_count]); /* A:publish. */
        if (!word || ring_slot_tag(word) != ring_slot_tag(ring_slot_word(view, rev, 0)))
                return 0;
        return word & SB_OFFSET_MASK;
}

/* The same in a further block: what was told before more slots came lies in the block of before. */
static __attribute__((noinline)) uint64_t ring_read_further(
        struct sb_handle *handle, const struct sb_ring_view *view, uint64_t rev)
{
        uint64_t left = sb_damage_bound(&handle->segment), at = 0, more;
        struct sb_ring_view each = *view;

        /* Bound: damage. Blocks that go round. */
        while (!at && ((more = sb_pin_load(handle, &each.ring->more)) & SB_OFFSET_MASK) &&
                sb_damage_step(handle, &left) && sb_ring_view(handle, more, &each))
                at = ring_read_slot(&each, rev);
        return at;
}

struct sb_version *sb_ring_find(
        struct sb_handle *handle, const struct sb_ring_view *view, uint64_t rev)
{
        uint64_t at = ring_read_slot(view, rev);
        struct sb_version *version;

        if (!at)
                at = ring_read_further(handle, view, rev);
        /* A:gone. Behind the slot: while this does not say so, no process has taken the version out
         * of its chain. */
        if (!at || (sb_load_acquire(&view->ring->gone) >= rev && !SB_FAULT(RING_GONE_UNASKED)))
                return NULL;
        version = sb_version_at(&handle->segment, at);
        /* A:stamp. A slot is filled behind the stamp. */
        if (!version || version->rev != rev || version->node != sb_once(view->ring->node) ||
                (int64_t)sb_load_acquire(&version->stamp) <= 0 ||
                !sb_version_fits(&handle->segment, version))
                return NULL;
        return version;
}

uint64_t sb_ring_gone(const struct sb_ring_view *view)
{
        return sb_load_acquire(&view->ring->gone); /* A:gone. */
}

/* ---- watching ---- */

static uint64_t ring_own_entry(const struct sb_handle *handle, uint32_t bit)
{
        return SB_WATCHER(handle->slot, bit, handle->generation);
}

/* Whether the client of an entry is still there. */
static bool ring_stands(const struct sb_segment *segment, uint64_t word)
{
        uint32_t slot = SB_WATCHER_SLOT(word), generation;

        return slot < segment->geometry.record_count &&
               sb_roster_state(segment, slot, &generation) != SB_RECORD_FREE &&
               generation == SB_WATCHER_GENERATION(word);
}

bool sb_ring_enter(struct sb_handle *handle, const struct sb_ring_view *view, uint32_t bit,
        struct sb_word64 **ret_entry)
{
        struct ring_walk walk;
        struct sb_word64 *entry;

        ring_walk_begin(handle, view, &walk);
        while ((entry = ring_walk_next(handle, &walk))) {
                uint64_t word = sb_load_acquire(entry); /* A:watcher. */

                if (word && ring_stands(&handle->segment, word))
                        continue;
                /* R:watcher > A:watcher. Entered before it is counted: see sb_ring_join(). */
                if (sb_cas64_full(entry, word, ring_own_entry(handle, bit))) {
                        *ret_entry = entry;
                        return true;
                }
        }
        return false;
}

bool sb_ring_enter_wants(struct sb_handle *handle, const struct sb_ring_view *view, uint32_t bit,
        uint32_t count, struct sb_ring_view *ret_view)
{
        uint64_t left = sb_damage_bound(&handle->segment), more, word;
        struct sb_ring_view each = *view;

        /* Bound: damage. Blocks that go round. */
        while (((more = sb_pin_load(handle, &each.ring->more)) & SB_OFFSET_MASK) &&
                sb_damage_step(handle, &left) && sb_ring_view(handle, more, &each)) {
                if (each.want_count < count || each.watcher_count != 1)
                        continue;
                word = sb_load_acquire(each.watchers); /* A:watcher. */
                if (word && ring_stands(&handle->segment, word))
                        continue;
                /* R:watcher > A:watcher. As in sb_ring_enter(). */
                if (sb_cas64_full(each.watchers, word, ring_own_entry(handle, bit))) {
                        *ret_view = each;
                        return true;
                }
        }
        return false;
}

void sb_ring_want(const struct sb_ring_view *view)
{
        /* R:want > A:want. Relaxed load: the client's own entry. */
        sb_exchange_full(&view->ring->state, sb_load_relaxed(view->watchers));
}

bool sb_ring_counts(const struct sb_ring_view *view)
{
        uint64_t state = sb_load_acquire(&view->ring->state); /* A:want. */

        return view->want_count && view->watcher_count == 1 && state &&
               state == sb_load_acquire(view->watchers); /* A:watcher. */
}

uint64_t sb_ring_wanted(const struct sb_ring_view *view, uint64_t number)
{
        /* Relaxed: the client's own words. */
        return sb_load_relaxed(&view->wants[number % view->want_count]);
}

void sb_ring_want_next(const struct sb_ring_view *view, uint64_t number, uint64_t rev)
{
        /* R:want > A:want. Before the look whether it came too soon. */
        sb_exchange_full(&view->wants[number % view->want_count], rev);
}

void sb_ring_want_from(const struct sb_ring_view *view, uint64_t first)
{
        /* R:want, both. */
        sb_store_release(&view->ring->room, view->want_count);
        sb_store_release(&view->ring->first, first);
}

/* The first revision that is not below @rev, of those that the watch of a further block wants; 0:
 * none. */
static uint64_t ring_first_wanted(const struct sb_ring_view *view, uint64_t rev)
{
        /* A:want. */
        uint64_t room = sb_load_acquire(&view->ring->room), first, early, want, number, end;
        uint64_t middle, each;

        if (!room || room > view->want_count)
                return 0;
        /* Lock-free: another round means that the watch read a change. */
        do {
                first = sb_load_acquire(&view->ring->first); /* A:want. */
                /* A:want. Perhaps it is the last one by now, and `first` is about to be raised. */
                early = sb_load_acquire(&view->wants[first % room]);
                number = first + 1;
                end = first + room;
                /* A:want. */
                want = number < end ? sb_load_acquire(&view->wants[(end - 1) % room]) : 0;
                if (want < rev)
                        number = end;
                while (number < end) {
                        middle = number + (end - number) / 2;
                        each = sb_load_acquire(&view->wants[middle % room]); /* A:want. */
                        if (each < rev) {
                                number = middle + 1;
                        } else {
                                want = each;
                                end = middle;
                        }
                }
                /* A:want. */
        } while (!SB_FAULT(WANTS_ONCE) && sb_load_acquire(&view->ring->first) != first);
        if (early >= rev && (early < want || want < rev) && !SB_FAULT(WANTS_FIRST_UNASKED))
                return early;
        return want >= rev ? want : 0;
}

bool sb_ring_wants(struct sb_handle *handle, const struct sb_ring_view *view, uint64_t rev)
{
        uint64_t more = sb_pin_load(handle, &view->ring->more), left, want;
        struct sb_ring_view each;

        if (SB_LIKELY(!(more & SB_OFFSET_MASK)) || SB_FAULT(WANTS_UNASKED))
                return false;
        left = sb_damage_bound(&handle->segment);
        /* Bound: damage. Blocks that go round. */
        while ((more & SB_OFFSET_MASK) && sb_damage_step(handle, &left) &&
                sb_ring_view(handle, more, &each)) {
                if (!sb_once(each.ring->hints) && sb_ring_counts(&each)) {
                        want = ring_first_wanted(&each, rev);
                        if (want == rev || want == rev + 1)
                                return true;
                }
                more = sb_pin_load(handle, &each.ring->more);
        }
        return false;
}

struct sb_word64 *sb_ring_last(struct sb_handle *handle, const struct sb_ring_view *view)
{
        struct ring_walk walk;

        ring_walk_begin(handle, view, &walk);
        while (ring_walk_next(handle, &walk))
                ;
        return &walk.view.ring->more;
}

uint64_t sb_ring_join(const struct sb_ring_view *view)
{
        int turn = sb_turn_join(&view->ring->state);

        return turn == SB_TURN_NONE ? 0 : turn ? SB_CELL_WATCHED_1 : SB_CELL_WATCHED_0;
}

/* ---- upkeep ---- */

bool sb_ring_scrub(struct sb_handle *handle, const struct sb_ring_view *view)
{
        struct ring_walk walk;
        struct sb_word64 *entry;
        bool left = false;

        ring_walk_begin(handle, view, &walk);
        while ((entry = ring_walk_next(handle, &walk))) {
                uint64_t word = sb_load_acquire(entry); /* A:watcher. */

                if (!word)
                        continue;
                if (ring_stands(&handle->segment, word))
                        left = true;
                else
                        /* R:watcher. Failed: another watch took the place. */
                        left |= !sb_cas64_full(entry, word, 0);
        }
        return left;
}

/* Take the bit of the turn out of the cell. */
static void ring_clear_bit(struct sb_handle *handle, struct sb_word64 *cell, uint64_t state)
{
        uint64_t bit = sb_turn_of(state) ? SB_CELL_WATCHED_1 : SB_CELL_WATCHED_0, word;

        do
                word = sb_pin_load(handle, cell);
        while ((word & bit) && !sb_cas64_full(cell, word, word & ~bit)); /* R:publish. */
}

/* CLEARING ends: with the ring, where no watch has joined since @state; else with the next turn.
 * Return: whether the ring is closed. */
static bool ring_end_clearing(struct sb_ring *ring, uint64_t state, bool fresh)
{
        /* R:watcher > A:watcher. */
        if (fresh &&
                sb_cas64_full(&ring->state, state, (state & ~SB_TURN_CLEARING) | SB_TURN_CLOSED))
                return true;
        sb_turn_end(&ring->state);
        return false;
}

bool sb_ring_clear(struct sb_handle *handle, struct sb_node *node, struct sb_word64 *cell)
{
        struct sb_ring_view view;
        uint64_t state;
        bool fresh;

        if (!sb_ring_of(handle, node, &view))
                return false;
        /* A:watcher. Before the look at the watchers. */
        state = sb_load_acquire(&view.ring->state);
        if (state & SB_TURN_CLOSED)
                return true;
        fresh = !(state & SB_TURN_CLEARING); /* else an engine died in here */
        if (fresh) {
                if (sb_ring_scrub(handle, &view))
                        return false;
                if (!sb_turn_begin(&view.ring->state, state))
                        return false;
                state |= SB_TURN_CLEARING;
        }
        ring_clear_bit(handle, cell, state);
        return ring_end_clearing(view.ring, state, fresh);
}

/* No process hangs a block in behind this one any more. Return: what @more says. Fault
 * RING_UNSEALED: another process may. */
static uint64_t ring_seal(struct sb_handle *handle, struct sb_word64 *more)
{
        /* R:publish > A:publish. */
        if (!SB_FAULT(RING_UNSEALED) && sb_cas64_full(more, 0, SB_RING_SEALED))
                return SB_RING_SEALED;
        return sb_pin_load(handle, more);
}

/* The ring and each further block: they say that they go, and no further one comes; @finish: they
 * are dated. */
static void ring_retire_all(struct sb_handle *handle, const struct sb_ring_view *view, bool finish)
{
        uint64_t left = sb_damage_bound(&handle->segment), more;
        struct sb_ring_view each = *view;

        /* Bound: damage. Blocks that go round. */
        do {
                if (finish) {
                        more = sb_pin_load(handle, &each.ring->more);
                        sb_limbo_date(handle, &each.ring->block);
                } else {
                        sb_limbo_begin(handle, &each.ring->block);
                        more = ring_seal(handle, &each.ring->more);
                }
        } while ((more & SB_OFFSET_MASK) && sb_damage_step(handle, &left) &&
                 sb_ring_view(handle, more, &each));
}

void sb_ring_retire(struct sb_handle *handle, struct sb_node *node)
{
        uint64_t at = sb_pin_load(handle, &node->ring);
        struct sb_ring_view view;

        if (!at || !sb_ring_view(handle, at, &view))
                return;
        /* A:watcher. Perhaps another process took the closed one away, and this is the next, with a
         * watch. */
        if (!(sb_load_acquire(&view.ring->state) & SB_TURN_CLOSED) &&
                sb_pin_load(handle, &node->cell) != SB_NODE_GONE && !SB_FAULT(RETIRE_ANY_RING))
                return;
        ring_retire_all(handle, &view, false);
        sb_cas64_full(&node->ring, at, 0); /* R:publish > A:publish. */
        ring_retire_all(handle, &view, true);
}

/* ---- the validator ---- */

static const char *ring_slots_fault(struct sb_handle *handle, const struct sb_ring_view *view)
{
        uint32_t i;

        for (i = 0; i < view->slot_count && !sb_once(view->ring->hints); i++) {
                uint64_t at = sb_load_acquire(&view->slots[i]) & SB_OFFSET_MASK; /* A:publish. */

                if (at && !sb_version_at(&handle->segment, at))
                        return "a slot of its ring leads out of the segment";
        }
        return NULL;
}

/* @told: writers tell the watchers. */
static const char *ring_watchers_fault(
        struct sb_handle *handle, const struct sb_ring_view *view, bool told, bool quiescent)
{
        uint32_t i;

        for (i = 0; i < view->watcher_count; i++) {
                uint64_t word = sb_load_acquire(&view->watchers[i]); /* A:watcher. */

                if (!word)
                        continue;
                if (SB_WATCHER_SLOT(word) >= handle->segment.geometry.record_count)
                        return "an entry of its ring names no client";
                if (quiescent && !told && ring_stands(&handle->segment, word))
                        return "a watch stands, and its cell does not say so";
        }
        return NULL;
}

/* The ring and each further block. */
static const char *ring_blocks_fault(
        struct sb_handle *handle, const struct sb_ring_view *view, bool told, bool quiescent)
{
        uint64_t left = sb_damage_bound(&handle->segment), node = sb_once(view->ring->node), more;
        struct sb_ring_view each = *view;
        const char *fault;

        do {
                fault = ring_slots_fault(handle, &each);
                if (!fault)
                        fault = ring_watchers_fault(handle, &each, told, quiescent);
                more = sb_pin_load(handle, &each.ring->more);
                if (fault || !(more & SB_OFFSET_MASK))
                        return fault;
                if (!sb_ring_view(handle, more, &each) || sb_once(each.ring->node) != node)
                        return "its ring leads to what is no block of watchers";
                /* Bound: result. It is reported. */
        } while (sb_damage_step(handle, &left));
        return "the blocks of its ring go round";
}

const char *sb_ring_fault(struct sb_handle *handle, struct sb_node *node, struct sb_word64 *cell,
        uint64_t word, bool quiescent)
{
        uint64_t at = sb_pin_load(handle, &node->ring);
        struct sb_ring_view view;
        const char *fault;
        bool closed;

        if (!at)
                /* A ring is there before the flag, and goes after it. */
                return (word & SB_CELL_WATCHED) && sb_pin_load(handle, cell) == word &&
                                       !sb_pin_load(handle, &node->ring)
                               ? "it is watched, and has no ring"
                               : NULL;
        if (!sb_ring_view(handle, at, &view) || !view.slot_count)
                return "its ring is none";
        if (sb_once(view.ring->node) != sb_offset_of(&handle->segment, node))
                return "its ring is another key's";
        closed = sb_load_acquire(&view.ring->state) & SB_TURN_CLOSED; /* A:watcher. */
        fault = ring_blocks_fault(handle, &view, (word & SB_CELL_WATCHED) && !closed, quiescent);
        return sb_pin_load(handle, cell) == word ? fault : NULL;
}
