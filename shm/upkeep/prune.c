/*
 * Pruning; see prune.h. One walk goes down a chain and asks of each version whether it stays; a
 * walk that another process disturbed begins again at the cell.
 */

#include "shm/upkeep/prune.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/history/budget.h"
#include "shm/history/rules.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/horizon.h"

/* Walks that other processes disturb, one after the other. */
#define ROUNDS_MAX 1024u
/* Versions that stay by their number: so many a writer goes down by itself; for more a ring is made
 * that serves the rule alone, with some slots to spare for writers that come meanwhile. */
#ifndef SB_PRUNE_STEPS
#define SB_PRUNE_STEPS 8u
#endif
#define RING_SPARE 16u
/* While a ring is young, the versions of before it are looked at once in so many writes. */
#define YOUNG_EVERY 64u
/* More than so many are left to a sweep then. */
#define YOUNG_WALK 1024u

enum unlinked { UNLINKED, CHANGED, IN_HAND /* or kept */ };
/* What becomes of a version: it goes; it stays for a rule of history or a watch alone; it stays for
 * a cut. */
enum verdict { GOES, RULED, WATCHED, STAYS };

/* Whether a pruner leaves a version with this retire word alone: a transaction holds it, or a
 * client has it in its magazine. */
static bool prune_is_in_hand(uint32_t retire)
{
        if (retire == SB_RETIRE_HELD)
                return !SB_FAULT(PRUNE_TAKES_HELD);
        return retire >= SB_RETIRE_FREEING && !SB_FAULT(PRUNE_TAKES_MAGAZINE);
}

/* Whether @version may be taken out: then it is DYING by now. */
static bool prune_begin(struct sb_handle *handle, struct sb_version *version)
{
        uint32_t retire = 0;

        if (SB_FAULT(UNLINK_BEFORE_DYING))
                return true;
        /* 0 again: the client that had it in hand has let go of it just now. Then it must be DYING
         * before it is unlinked, as every version. */
        while (!retire && !sb_limbo_begin(handle, &version->block))
                retire = sb_load_acquire(&version->block.retire); /* A:retire. */
        return !prune_is_in_hand(retire);
}

/* Say that @version leaves its chain: before it is out. Fault GONE_SAID_LATE: behind that. */
static void prune_say_gone(struct sb_handle *handle, const struct sb_version *version, bool behind)
{
        struct sb_node *node = sb_node_at(&handle->segment, version->node);

        if (node && behind == SB_FAULT(GONE_SAID_LATE))
                sb_ring_say_gone(handle, node, version->rev);
}

/* @version is out of its chain: let its grace period begin. */
static void prune_end(struct sb_handle *handle, struct sb_version *version)
{
        if (SB_FAULT(UNLINK_BEFORE_DYING))
                sb_limbo_begin(handle, &version->block);
        sb_limbo_date(handle, &version->block);
}

/* Mark the link of a version that goes. Return: the link, which keeps its offset from now on. */
static uint64_t prune_mark(struct sb_handle *handle, struct sb_version *version)
{
        uint64_t own;

        for (;;) {
                own = sb_pin_load(handle, &version->prev);
                /* The last of its chain needs no mark: nothing can be taken out behind it, so its
                 * link stays 0. R:publish > A:publish: what follows the link sees the mark. */
                if (!(own & SB_OFFSET_MASK) || (own & SB_PREV_MARKED) ||
                        SB_FAULT(UNLINK_UNMARKED) ||
                        sb_cas64_full(&version->prev, own, own | SB_PREV_MARKED))
                        return own;
        }
}

/* Whether @successor is a copy of @version: both are committed, and one write (upkeep/move.h).
 * Fault COPY_COUNTS: not asked. */
static bool prune_is_copy(const struct sb_version *successor, const struct sb_version *version)
{
        uint64_t stamp = sb_load_acquire(&version->stamp); /* A:stamp, both. */

        return successor->rev == version->rev && (int64_t)stamp > 0 &&
               sb_load_acquire(&successor->stamp) == stamp && /* A:stamp. */
               SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER && !SB_FAULT(COPY_COUNTS);
}

/* What the successor's new link says besides its offset when @version is taken out. */
static uint64_t prune_flags(const struct sb_version *successor, const struct sb_version *version)
{
        uint64_t flags = 0;

        /* A helper may still be about to set the link of a transaction's version to what it was
         * when it was not in yet. */
        if ((SB_SHAPE_KIND(successor->shape) & SB_VERSION_HAS_TXN) && !SB_FAULT(PREV_UNSETTLED))
                flags = SB_PREV_SETTLED;
        /* A:stamp. Placeholders and aborted versions were never current in a cut, and what has a
         * copy is so still. */
        if (SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER &&
                sb_load_acquire(&version->stamp) != SB_STAMP_ABORTED &&
                !prune_is_copy(successor, version) && !SB_FAULT(TRIM_UNMARKED))
                flags |= SB_PREV_TRIMMED;
        return flags;
}

/* Take @version out from behind @successor; @link is what the successor's `prev` was. CHANGED: look
 * again. */
static enum unlinked prune_unlink(struct sb_handle *handle, struct sb_version *successor,
        uint64_t link, struct sb_version *version)
{
        uint64_t own, flags;

        if (!prune_begin(handle, version))
                return IN_HAND;
        /* A reader of the key's ring follows a slot only where this is not said. */
        prune_say_gone(handle, version, false);
        own = prune_mark(handle, version);
        flags = prune_flags(successor, version) | ((link | own) & SB_PREV_TRIMMED);
        /* R:publish > A:publish. The unlink; it expects the link that was followed. */
        if (!sb_cas64_full(&successor->prev, link, (own & SB_OFFSET_MASK) | flags))
                return CHANGED;
        prune_end(handle, version);
        prune_say_gone(handle, version, true);
        return UNLINKED;
}

/* Whether a head with this outcome supersedes what lies under it. */
static bool prune_supersedes(enum sb_outcome outcome)
{
        return outcome == SB_OUTCOME_COMMITTED ||
               (SB_FAULT(PRUNE_BY_ABORTED) && outcome == SB_OUTCOME_ABORTED);
}

/* What watches want: the latest versions, and some older ones. */
struct prune_watched {
        uint32_t depth;
        const struct sb_ring_view *ring; /* NULL: nothing */
        struct sb_prefix_floor floor;    /* of prefixes; asked behind each successor's stamp */
};

static __attribute__((noinline)) bool prune_is_wanted(
        struct sb_handle *handle, const struct prune_watched *watched, uint64_t rev)
{
        return sb_ring_wants(handle, watched->ring, rev);
}

/* @stamp: of @version, which is committed. @newer: the stamp of the next newer committed one, or 0
 * where there is none. @number: how many committed ones there are from the newest down to it.
 */
static inline __attribute__((always_inline)) enum verdict prune_judge(struct sb_handle *handle,
        const struct sb_horizon *horizon, const struct sb_keeping *keeping,
        const struct prune_watched *watched, const struct sb_version *version, uint64_t stamp,
        uint64_t newer, uint64_t number)
{
        if (!newer)
                return STAYS;
        if (SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER)
                return GOES;
        if (sb_horizon_keeps(handle, horizon, version, stamp, newer))
                return STAYS;
        if (keeping && sb_rules_keep(keeping, number, newer))
                return RULED;
        if (SB_LIKELY(!watched->ring))
                return GOES;
        return number <= watched->depth || prune_is_wanted(handle, watched, version->rev) ? WATCHED
                                                                                          : GOES;
}

/* A version is left in its chain that was current from @stamp until @newer: note in the look what
 * that means. @goes: it would have gone, had no process had it in hand. */
static void prune_note_kept(struct sb_prune_look *look, const struct sb_horizon *horizon,
        uint64_t stamp, uint64_t newer, bool goes)
{
        if (newer > horizon->bound || (!goes && stamp < newer &&
                                              !sb_horizon_needs(horizon, stamp,
                                                      newer < look->young ? newer : look->young)))
                look->again = newer;
        else
                look->kept = true;
}

/* Whether a watch of a prefix has not read yet that @version was superseded, or is the change
 * itself. Asked behind the load of @newer, its successor's stamp. Where memory is short, it is
 * given up. Faults AWAIT_UNASKED: not asked; AWAIT_UNEQUAL: not where both have one stamp;
 * AWAIT_EARLY: asked before that. */
static bool prune_is_awaited(struct sb_handle *handle, const struct sb_version *version,
        uint64_t stamp, uint64_t newer, struct sb_prefix_floor *floor)
{
        if (SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER || SB_FAULT(AWAIT_UNASKED) ||
                (SB_FAULT(AWAIT_UNEQUAL) && stamp == newer))
                return false;
        return handle->work.pressed ? sb_prefix_awaits(handle, version, stamp, newer, true)
                                    : sb_prefix_awaits_above(handle, version, stamp, newer, floor);
}

/* How many committed versions a look goes by before it may stop below look->since: with a rule or a
 * watch, those that it keeps, and as many as came since. @number: how many came. */
static uint64_t prune_window(const struct sb_keeping *keeping, uint32_t depth, uint64_t number)
{
        uint64_t last = keeping && SB_RULE_KIND(keeping->word) == SB_RULE_LAST
                                ? SB_RULE_VALUE(keeping->word)
                                : 0;

        if (last < depth)
                last = depth;
        return last ? last + number : 0;
}

/* A committed version of which all later ones are in the chain: a walk may begin there, because
 * they stay by their number. */
struct prune_start {
        struct sb_version *version; /* NULL: there is none */
        uint64_t number, stamp;
        bool exact; /* it is the first that counts, and not a later one */
        bool first; /* it is the first behind all that may be gone */
};

/* One walk down. Return: false: another process changed the chain meanwhile. An aborted version
 * goes as soon as its transaction lets go of it (which then sees to it that a pruner looks here).
 * @start: where it begins, if not at @head.
 */
static bool prune_once(struct sb_handle *handle, struct sb_version *head,
        const struct sb_horizon *horizon, const struct sb_keeping *keeping,
        struct prune_watched *watched, const struct prune_start *start, struct sb_prune_look *look)
{
        struct sb_version *holder = head; /* of the link that the walk follows */
        uint64_t newer = 0, link;         /* newer: as prune_judge() takes it */
        uint64_t left = sb_damage_bound(&handle->segment);
        uint64_t number;     /* of the last committed one that was met */
        uint64_t above;      /* the stamp of that one, or of what lay below it */
        uint64_t window = 0; /* of prune_window() */
        bool started = start->version;
        struct sb_settled settled;

        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER)
                return true;
        settled = sb_stamp_settle(handle, head);
        number = settled.outcome == SB_OUTCOME_COMMITTED;
        if (prune_supersedes(settled.outcome))
                newer = settled.stamp ? settled.stamp : SB_STAMP_PLACEHOLDER;
        if (SB_UNLIKELY(started)) {
                holder = start->version;
                number = start->number;
                newer = start->stamp;
        }
        above = newer;
        for (;;) {
                struct sb_version *version;
                enum unlinked r = IN_HAND;
                enum verdict verdict;
                uint64_t stamp;
                bool aborted, copied, below; /* below: look->since */

                below = above && above < look->since;
                if (above >= look->since)
                        window = started ? 0 : prune_window(keeping, watched->depth, number);
                else if (below && number >= window && !look->whole)
                        return true;
                link = sb_pin_load(handle, &holder->prev);
                if (link & SB_PREV_MARKED)
                        return false;
                /* Bound: damage. A chain that goes round; what is left of it stays. */
                if (!sb_damage_step(handle, &left))
                        return true;
                version = link & SB_OFFSET_MASK
                                  ? sb_version_at(&handle->segment, link & SB_OFFSET_MASK)
                                  : NULL;
                if (!version)
                        return true;
                /* A:stamp. Set before its successor was installed. */
                stamp = sb_load_acquire(&version->stamp);
                aborted = stamp == SB_STAMP_ABORTED;
                copied = prune_is_copy(holder, version);
                /* One that is marked goes, whatever this horizon, perhaps an older one, says: the
                 * pruner that marked it may have stopped. */
                if ((sb_pin_load(handle, &version->prev) & SB_PREV_MARKED) || aborted ||
                        (copied && !SB_FAULT(COPY_STAYS)))
                        verdict = GOES;
                else
                        verdict = prune_judge(handle, horizon, keeping, watched, version, stamp,
                                newer, number + 1);
                /* What it waits for is a hint that is overwritten: that process notes the cell. */
                if (verdict == GOES && !aborted && !copied &&
                        !(sb_pin_load(handle, &version->prev) & SB_PREV_MARKED) &&
                        prune_is_awaited(handle, version, stamp, newer, &watched->floor))
                        verdict = WATCHED;
                if (verdict == GOES) {
                        look->more = look->most && look->taken == look->most;
                        if (SB_UNLIKELY(look->more))
                                return true;
                        r = prune_unlink(handle, holder, link, version);
                        look->taken += r == UNLINKED;
                }
                if (r == CHANGED)
                        return false;
                if (!aborted)
                        above = stamp;
                if (r == UNLINKED)
                        continue;
                if (verdict == RULED && !sb_budget_count(handle, keeping, version, newer) &&
                        !started)
                        return true;
                if (newer && !aborted && verdict != RULED && verdict != WATCHED &&
                        (!below || !look->whole || verdict == GOES))
                        prune_note_kept(look, horizon, stamp, newer, verdict == GOES);
                holder = version;
                number += !aborted && !copied;
                if (!aborted)
                        newer = stamp;
        }
}

/* What is left for the readers of a ring (NULL: there is none). Where memory is short they give
 * way.
 */
static void prune_see_watched(
        struct sb_handle *handle, const struct sb_ring_view *ring, struct prune_watched *ret)
{
        ret->depth = 0;
        ret->ring = NULL;
        if (!ring || handle->work.pressed || SB_FAULT(RING_UNKEPT))
                return;
        ret->depth = sb_ring_depth_view(handle, ring);
        ret->ring = ring;
}

/* How many of the latest versions stay by their number alone, if that is what decides; else 0. */
static uint64_t prune_number(struct sb_handle *handle, const struct sb_node *node,
        const struct sb_ring_view *ring, uint64_t word)
{
        struct prune_watched watched;
        uint64_t number = 0, rule;

        if (word & SB_CELL_KEPT) {
                rule = sb_rules_of_node(node);
                if (SB_RULE_KIND(rule) != SB_RULE_LAST)
                        return 0;
                number = SB_RULE_VALUE(rule);
        }
        if (word & SB_CELL_WATCHED) {
                prune_see_watched(handle, ring, &watched);
                if (number < watched.depth)
                        number = watched.depth;
        }
        return SB_FAULT(OUTGROWN_EARLY) && number > 1 ? number - 1 : number;
}

/* Where a walk may begin that leaves the newest @number versions alone: by the ring, at the first
 * of them that a slot names. @newest: the newest revision, at least. */
static void prune_find_start(struct sb_handle *handle, const struct sb_ring_view *ring,
        uint64_t newest, uint64_t number, struct prune_start *ret)
{
        uint64_t rev = newest >= number ? newest - number + 1 : 1, gone, step;

        *ret = (struct prune_start){0};
        if (!number || !ring)
                return;
        gone = sb_ring_gone(ring);
        if (gone == SB_RING_UNOPENED)
                return;
        if (rev <= gone)
                rev = gone + 1;
        for (step = 1; rev <= newest; rev += step, step *= 2) {
                ret->version = sb_ring_find(handle, ring, rev);
                if (!ret->version)
                        continue;
                ret->number = newest - rev + 1;
                ret->stamp = sb_load_acquire(&ret->version->stamp); /* A:stamp. */
                ret->exact = step == 1;
                ret->first = rev == gone + 1;
                return;
        }
}

/* The start of a look, which wants all that was superseded at look->since or later. @number: of
 * prune_number(). */
static void prune_start_look(struct sb_handle *handle, const struct sb_ring_view *ring,
        const struct sb_version *head, uint64_t number, const struct sb_prune_look *look,
        struct prune_start *ret)
{
        /* A:stamp. An intent's revision, or that of an aborted one, is the next one's, too. */
        bool committed = (int64_t)sb_load_acquire(&head->stamp) > 0;

        *ret = (struct prune_start){0};
        if (look->whole || look->since <= SB_STAMP_PLACEHOLDER)
                return;
        prune_find_start(handle, ring, head->rev - !committed, number, ret);
        if (ret->version && ret->stamp < look->since)
                ret->version = NULL;
}

/* What decides in a chain of which versions stay for a rule or a watch. */
struct prune_terms {
        struct sb_keeping keeping;
        struct sb_ring_view ring;
        struct prune_watched watched;
        struct prune_start start;
};

/* Read them, for a look at a chain with this @head. @word: of its cell. */
static __attribute__((noinline)) void prune_read_terms(struct sb_handle *handle,
        const struct sb_version *head, struct sb_node *node, uint64_t word,
        struct sb_prune_look *look, struct prune_terms *ret)
{
        const struct sb_ring_view *ring = sb_ring_of(handle, node, &ret->ring) ? &ret->ring : NULL;

        if (word & SB_CELL_WATCHED)
                prune_see_watched(handle, ring, &ret->watched);
        if (word & SB_CELL_KEPT)
                sb_rules_keeping(handle, node, handle->horizon.bound, &ret->keeping);
        look->ring = sb_prune_wants_ring(node, word) &&
                     (!ring || sb_ring_depth_view(handle, ring) < SB_RULE_VALUE(ret->keeping.word));
        prune_start_look(
                handle, ring, head, prune_number(handle, node, ring, word), look, &ret->start);
}

/* Fault AWAIT_EARLY: the watches of prefixes are asked once, before the key is looked at. */
static void prune_fault_ask(
        struct sb_handle *handle, struct sb_word64 *cell, struct sb_prefix_floor *floor)
{
        const struct sb_version *head;

        *floor = (struct sb_prefix_floor){0};
        if (!SB_FAULT(AWAIT_EARLY) || !cell)
                return;
        head = sb_version_at(&handle->segment, sb_pin_load(handle, cell) & SB_OFFSET_MASK);
        if (head)
                sb_prefix_ask_floor(handle, head, floor);
        floor->asked = UINT64_MAX;
}

void sb_prune_look(struct sb_handle *handle, uint64_t cell_number, const struct sb_horizon *horizon,
        struct sb_prune_look *look)
{
        struct sb_word64 *cell = sb_cell_at(&handle->segment, cell_number);
        struct prune_terms terms;
        uint32_t round;

        /* Bound: duty. The sweep that is asked for behind the loop looks at every chain. */
        for (round = 0; round < ROUNDS_MAX; round++) {
                uint64_t word;
                struct sb_version *head;
                struct sb_node *node;

                terms.watched = (struct prune_watched){0};
                prune_fault_ask(handle, cell, &terms.watched.floor);
                word = cell ? sb_pin_load(handle, cell) : 0;
                head = sb_version_at(&handle->segment, word & SB_OFFSET_MASK);
                node = head ? sb_node_at(&handle->segment, head->node) : NULL;
                look->again = 0;
                look->kept = look->ring = look->more = false;
                if (!word || !head || !node || (word & SB_CELL_FROZEN))
                        return;
                terms.start = (struct prune_start){0};
                if (SB_UNLIKELY(word & (SB_CELL_KEPT | SB_CELL_WATCHED)))
                        prune_read_terms(handle, head, node, word, look, &terms);
                if (prune_once(handle, head, horizon, word & SB_CELL_KEPT ? &terms.keeping : NULL,
                            &terms.watched, &terms.start, look))
                        return;
                handle->counters.retried++;
        }
        look->kept = true;
        sb_limbo_leave(handle);
}

bool sb_prune_cell(struct sb_handle *handle, uint64_t cell_number, const struct sb_horizon *horizon)
{
        struct sb_prune_look look = {.since = 0};

        sb_prune_look(handle, cell_number, horizon, &look);
        return look.again || look.kept;
}

void sb_prune_since(struct sb_handle *handle, uint64_t cell_number, uint64_t since)
{
        struct sb_prune_look look = {.since = since};

        sb_prune_look(handle, cell_number, &handle->horizon, &look);
}

/* Whether a cut, open or to come, reads what @version replaced. Fault BEHIND_UNASKED: none does. */
static bool prune_behind_needed(
        struct sb_handle *handle, const struct sb_version *version, const struct sb_version *old)
{
        static const struct sb_horizon nothing = {.bound = 0};
        /* A:clock. While the clock still is the bound, no cut was taken since the horizon was: it
         * says which cuts need what was just replaced. If it is not, the version goes only where
         * both have one stamp: no cut can tell them apart. */
        bool current = sb_load_acquire(&handle->segment.super->clock) == handle->horizon.bound;

        /* A:stamp, both. */
        return SB_SHAPE_KIND(old->shape) != SB_VERSION_PLACEHOLDER &&
               sb_horizon_keeps(handle, current ? &handle->horizon : &nothing, old,
                       sb_load_acquire(&old->stamp), sb_load_acquire(&version->stamp)) &&
               !SB_FAULT(BEHIND_UNASKED);
}

/* The same of watches of a prefix, for whatever is no copy. */
static bool prune_behind_awaited(
        struct sb_handle *handle, const struct sb_version *version, const struct sb_version *old)
{
        uint64_t stamp = sb_load_acquire(&version->stamp); /* A:stamp. */
        struct sb_prefix_floor floor = {0};

        /* A:stamp. */
        return !prune_is_copy(version, old) &&
               prune_is_awaited(handle, old, sb_load_acquire(&old->stamp), stamp, &floor);
}

bool sb_prune_behind(struct sb_handle *handle, struct sb_version *version, struct sb_version *old)
{
        uint64_t link = sb_pin_load(handle, &version->prev);

        if ((link & SB_PREV_MARKED) ||
                (link & SB_OFFSET_MASK) != sb_offset_of(&handle->segment, old))
                return false;
        if (prune_behind_needed(handle, version, old) || prune_behind_awaited(handle, version, old))
                return false;
        return prune_unlink(handle, version, link, old) == UNLINKED;
}

/* ---- what a new version pushes out ---- */

/* The version above the one that goes, a few steps down from @version. */
static void prune_go_down(struct sb_handle *handle, const struct sb_version *version,
        uint64_t stamp, uint64_t number, struct prune_start *ret)
{
        struct sb_version *here, *next;

        here = sb_version_at(&handle->segment, sb_offset_of(&handle->segment, version));
        *ret = (struct prune_start){.version = here, .number = 1, .stamp = stamp, .exact = true};
        for (; ret->number < number; ret->number++) {
                uint64_t link = sb_pin_load(handle, &ret->version->prev);

                if (!(link & SB_OFFSET_MASK))
                        return;
                next = sb_version_at(&handle->segment, link & SB_OFFSET_MASK);
                ret->stamp = next ? sb_load_acquire(&next->stamp) : 0; /* A:stamp. */
                /* An aborted one, a copy, a gap: that is for a look. */
                if (!next || (link & SB_PREV_MARKED) || next->rev + 1 != ret->version->rev ||
                        (int64_t)ret->stamp <= 0) {
                        ret->version = NULL;
                        return;
                }
                ret->version = next;
        }
}

/* The version above the one that @version pushes out; where there are fewer yet, the oldest of
 * which all later ones are in the chain. */
static void prune_find_holder(struct sb_handle *handle, const struct sb_ring_view *ring,
        const struct sb_version *version, uint64_t stamp, uint64_t number, struct prune_start *ret)
{
        if (number <= SB_PRUNE_STEPS)
                prune_go_down(handle, version, stamp, number, ret);
        else
                prune_find_start(handle, ring, version->rev, number, ret);
}

/* The key has not had as many versions yet as stay since its ring came: what lies below is looked
 * at now and then. Return: for sb_limbo_later(), or 0. */
static uint64_t prune_young(
        struct sb_handle *handle, const struct sb_version *version, uint64_t number)
{
        if (version->rev % (number > YOUNG_EVERY ? number : YOUNG_EVERY))
                return 0;
        if (number <= YOUNG_WALK)
                return SB_STAMP_PLACEHOLDER + 1;
        sb_limbo_leave(handle);
        return 0;
}

void sb_prune_outgrown(struct sb_handle *handle, struct sb_node *node,
        const struct sb_ring_view *ring, const struct sb_version *version, uint64_t stamp,
        uint64_t word, struct sb_outgrown *ret)
{
        uint64_t number = prune_number(handle, node, ring, word), link, old_stamp;
        struct sb_prefix_floor floor = {0};
        struct prune_start start;

        *ret = (struct sb_outgrown){.later = stamp};
        if (!number)
                return;
        prune_find_holder(handle, ring, version, stamp, number, &start);
        if (!start.version || !start.exact)
                return;
        link = sb_pin_load(handle, &start.version->prev);
        if (link & SB_PREV_MARKED)
                return;
        ret->later = 0;
        ret->old = sb_version_at(&handle->segment, link & SB_OFFSET_MASK);
        if (!(link & SB_OFFSET_MASK) || !ret->old)
                return;
        if (start.number < number) {
                ret->old = NULL;
                ret->later = prune_young(handle, version, number);
                return;
        }
        if ((word & SB_CELL_WATCHED) && ring && !handle->work.pressed &&
                sb_ring_wants(handle, ring, ret->old->rev)) {
                /* The watch notes the cell when it has read it. */
                ret->old = NULL;
                return;
        }
        ret->holder = start.version;
        ret->stamp = start.stamp;
        /* The last of before the ring: none of those below stays by its number from here on. */
        if (start.first && (sb_pin_load(handle, &ret->old->prev) & SB_OFFSET_MASK))
                ret->later = SB_STAMP_PLACEHOLDER + 1;
        old_stamp = sb_load_acquire(&ret->old->stamp); /* A:stamp. */
        if ((int64_t)old_stamp <= 0 || SB_SHAPE_KIND(ret->old->shape) == SB_VERSION_PLACEHOLDER ||
                prune_is_copy(start.version, ret->old) ||
                (!sb_horizon_passed(handle, start.stamp, old_stamp) &&
                        !SB_FAULT(OUTGROWN_UNASKED)) ||
                prune_is_awaited(handle, ret->old, old_stamp, start.stamp, &floor)) {
                ret->old = NULL;
                ret->later = start.stamp;
                return;
        }
        if (ring && !SB_FAULT(GONE_SAID_LATE))
                sb_ring_raise_view(handle, node, ring, ret->old->rev);
}

bool sb_prune_outgrow(struct sb_handle *handle, const struct sb_outgrown *outgrown)
{
        uint64_t link = sb_pin_load(handle, &outgrown->holder->prev);

        return !(link & SB_PREV_MARKED) &&
               (link & SB_OFFSET_MASK) == sb_offset_of(&handle->segment, outgrown->old) &&
               prune_unlink(handle, outgrown->holder, link, outgrown->old) == UNLINKED;
}

/* ---- the ring of a rule ---- */

bool sb_prune_wants_ring(const struct sb_node *node, uint64_t word)
{
        uint64_t rule = word & SB_CELL_KEPT ? sb_rules_of_node(node) : 0;

        return SB_RULE_KIND(rule) == SB_RULE_LAST && SB_RULE_VALUE(rule) > SB_PRUNE_STEPS;
}

void sb_prune_give_ring(struct sb_handle *handle, uint64_t cell_number)
{
        struct sb_word64 *cell = sb_cell_at(&handle->segment, cell_number), *link;
        uint64_t word = cell ? sb_pin_load(handle, cell) : 0, number, block, size;
        struct sb_version *head = sb_version_at(&handle->segment, word & SB_OFFSET_MASK);
        struct sb_node *node = head ? sb_node_at(&handle->segment, head->node) : NULL;
        struct sb_ring_form form = {0};
        struct sb_ring_view view;

        if (!node || (word & SB_CELL_FROZEN) || handle->work.pressed ||
                !sb_prune_wants_ring(node, word))
                return;
        number = SB_RULE_VALUE(sb_rules_of_node(node));
        form.slot_count = (uint32_t)number + RING_SPARE;
        size = sb_ring_size(form);
        if (head->rev < number || number > UINT32_MAX - RING_SPARE ||
                size > handle->segment.value_len_max || sb_ring_depth(handle, node) >= number ||
                sb_slab_take(handle, SB_UNIT_VERSIONS, size, 0, &block))
                return;
        sb_ring_fill(handle, block, head->node, &form);
        link = sb_ring_of(handle, node, &view) ? sb_ring_last(handle, &view) : &node->ring;
        /* R:publish > A:publish. Failed: another process was first; the next look will see. */
        if (!sb_cas64_full(link, 0, block))
                sb_slab_give_back(handle, block);
        if (sb_ring_of(handle, node, &view))
                sb_ring_open(handle, node, &view);
        /* A key that was removed meanwhile has passed the step that takes its ring. */
        if (sb_pin_load(handle, &node->cell) == SB_NODE_GONE)
                sb_ring_retire(handle, node);
}
