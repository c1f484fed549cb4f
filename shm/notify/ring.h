/*
 * The ring of a watched key: which clients watch it, and where its latest versions lie (models:
 * ring, watch, wring, wkey).
 *
 * It is a block that the key's node names, made when the key is first watched:
 *
 *      state       {joins, CLOSED, TURN, CLEARING}
 *      gone        all revisions up to this one may be out of the chain
 *      slots       of revision r: slot r modulo their count, {revision's low bits, offset}
 *      watchers    {slot + 1, dirty bit, generation} of each watch, or 0
 *      more        a further block: of watchers, or of more slots
 *
 * Telling. A process that wrote a watched key puts the new version into its slot, then sets the
 * dirty bit of each watch and rings (bell.h), and only then takes back its note (memory/note.h). So
 * its reaper, and each process that raises the stable cut, find what was not told to the end, and
 * tell it again: nothing is wrong with telling twice.
 *
 * The chain keeps, a slot is a hint. A process that takes a version out of a chain first raises
 * `gone` to its revision (upkeep/prune.c). A process follows a slot only under its pin, and only
 * where the revision is above `gone`, which it loads behind the slot: then the version was in its
 * chain under that pin, and so was each later one. All else it finds by the chain.
 *
 * Two things could go wrong with that. While a cell says neither WATCHED nor KEPT, writers take out
 * what they replace without a word about `gone` (memory/magazine.h): so the process that sets the
 * first of these flags raises `gone` to the newest revision before it does. And a pruner may have
 * found no ring just before one came: so a new ring says that all is gone (UNOPENED), until a
 * process that sees it in its node puts the newest revision there, which it loads then.
 *
 * Depth. Where a watch or a rule of history wants more than the ring has slots, a block with as
 * many is hung in behind `more`. From then on writers fill the slots there, readers look in all,
 * and pruners leave as many versions as the largest block has slots. It goes with the ring.
 *
 * Wants. A watch that keeps the first changes that it has not read, and drops what comes then, has
 * a further block of its own, with one entry, which names the revisions that it wants. A pruner
 * leaves these, and what they replaced, beyond the depth. The revisions ascend from number `first`
 * on, so a pruner finds one by halving. The watch gives the place of `first` another revision
 * before it raises `first`: so this place is asked by itself, and the others stand as long as
 * `first` does.
 *
 * Watching. A cell says WATCHED by two bits, used in turn. A watch enters itself among the
 * watchers, then counts itself in `state`; what that said before tells which bit to set: that of
 * TURN, or while CLEARING the other one. It sets the bit by CAS in a stamped cell that is not
 * frozen. The revision in that word is where the watch begins: each later writer replaces a word
 * with the bit. The engine alone takes bits away: it loads `state`, finds no watcher, and sets
 * CLEARING by a CAS that a join makes fail; takes the bit of TURN away; and turns. If none came
 * meanwhile it closes the ring instead, which goes then as blocks go.
 *
 * Always true: while a watch stands, its cell has one of the bits, its key is not removed, and its
 * ring is neither closed nor replaced. An entry of a client that is gone counts for nothing, and
 * any sweeper takes it away.
 */
#ifndef SB_NOTIFY_RING_H
#define SB_NOTIFY_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/assert.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"

/* A ring with counts that were checked. */
struct sb_ring_view {
        struct sb_ring *ring;
        struct sb_word64 *slots, *watchers, *wants;
        uint32_t slot_count, watcher_count, want_count;
};

/* What a block has room for. */
struct sb_ring_form {
        uint32_t slot_count, watcher_count, want_count;
        bool hints; /* the slots are those of hint.h */
};

/* What `gone` says in a ring that no process has opened yet. */
#define SB_RING_UNOPENED UINT64_MAX

/* Bytes of such a block. */
static inline uint64_t sb_ring_size(struct sb_ring_form form)
{
        return sizeof(struct sb_ring) +
               8 * ((uint64_t)form.slot_count + form.watcher_count + form.want_count);
}
/* Fill a block that was taken: a ring of @node, or a further block. Under a pin; the caller
 * publishes it. */
void sb_ring_fill(
        struct sb_handle *handle, uint64_t at, uint64_t node, const struct sb_ring_form *form);
/* The ring at @at, or what a ring's `more` names. Return: false: none lies there. Under a pin. */
bool sb_ring_view(struct sb_handle *handle, uint64_t at, struct sb_ring_view *ret);
/* Go on to the ring's next block. @left: as sb_damage_bound() says at first. Return: false: this is
 * the last one. Under a pin. */
bool sb_ring_further(struct sb_handle *handle, struct sb_ring_view *view, uint64_t *left);
/* The ring of a node. Return: false: it has none. Under a pin. */
bool sb_ring_of(struct sb_handle *handle, struct sb_node *node, struct sb_ring_view *ret);

/* ---- for the processes that write ---- */

/* Tell the watchers of @node, which has a ring, that @version (NULL: some version) came. */
void sb_ring_tell_all(
        struct sb_handle *handle, struct sb_node *node, const struct sb_version *version);
/* The same by the view of its ring. */
void sb_ring_tell_view(struct sb_handle *handle, const struct sb_ring_view *view,
        const struct sb_version *version);
/* The same of any node. Under a pin. Cost: one load where there is no ring. */
static inline void sb_ring_tell(
        struct sb_handle *handle, struct sb_node *node, const struct sb_version *version)
{
        if (SB_UNLIKELY(sb_load_acquire(&node->ring) != 0)) /* A:publish. Not followed. */
                sb_ring_tell_all(handle, node, version);
}
/* Ring all watchers: one of a client that is gone, too, which does no harm. Under a pin. */
void sb_ring_wake(struct sb_handle *handle, const struct sb_ring_view *view);
/* Say that the node's version of this revision is about to leave its chain. Under a pin. */
void sb_ring_raise_gone(struct sb_handle *handle, struct sb_node *node, uint64_t rev);
void sb_ring_raise_view(struct sb_handle *handle, struct sb_node *node,
        const struct sb_ring_view *view, uint64_t rev);
static inline void sb_ring_say_gone(struct sb_handle *handle, struct sb_node *node, uint64_t rev)
{
        if (SB_UNLIKELY(sb_load_acquire(&node->ring) != 0)) /* A:publish. Not followed. */
                sb_ring_raise_gone(handle, node, rev);
}
/* How many versions a pruner leaves in the node's chain for readers of the ring; 0: no ring. */
uint32_t sb_ring_depth(struct sb_handle *handle, struct sb_node *node);
uint32_t sb_ring_depth_view(struct sb_handle *handle, const struct sb_ring_view *view);

/* Whether a watch wants this revision, or the one that replaced it. Cost: one load where no watch
 * has a further block; else some loads for each such watch, or as many as halving takes. */
bool sb_ring_wants(struct sb_handle *handle, const struct sb_ring_view *view, uint64_t rev);

/* ---- for processes that follow its slots, under a pin ---- */

/* The committed version of this revision, if a slot says where it lies: it is in its chain under
 * this pin, and each later one is. NULL: look in the chain. */
struct sb_version *sb_ring_find(
        struct sb_handle *handle, const struct sb_ring_view *view, uint64_t rev);
/* What may be out of the chain: all revisions up to this one. */
uint64_t sb_ring_gone(const struct sb_ring_view *view);
/* Open the ring of a node, if that is not done. */
void sb_ring_open(struct sb_handle *handle, struct sb_node *node, const struct sb_ring_view *view);

/* ---- for the process that watches; all under a pin ---- */

/* Enter a watch. Return: false: no entry is free. */
bool sb_ring_enter(struct sb_handle *handle, const struct sb_ring_view *view, uint32_t bit,
        struct sb_word64 **ret_entry);
/* The same for a watch that wants revisions, @count at most: in a block that has room for so many,
 * which *ret_view is then. Nothing is wanted yet. */
bool sb_ring_enter_wants(struct sb_handle *handle, const struct sb_ring_view *view, uint32_t bit,
        uint32_t count, struct sb_ring_view *ret_view);
/* Say that the words of the block count from now on. */
void sb_ring_want(const struct sb_ring_view *view);
/* The revision of number @number that the watch wants, of view->want_count at once; another one in
 * its place; and that number @first is the first from now on. */
uint64_t sb_ring_wanted(const struct sb_ring_view *view, uint64_t number);
void sb_ring_want_next(const struct sb_ring_view *view, uint64_t number, uint64_t rev);
void sb_ring_want_from(const struct sb_ring_view *view, uint64_t first);
/* Whether the words of a further block count: those of a watch that stands, or that died with it.
 */
bool sb_ring_counts(const struct sb_ring_view *view);
/* Where a further block can be hung in: the word `more` of the last block. */
struct sb_word64 *sb_ring_last(struct sb_handle *handle, const struct sb_ring_view *view);
/* Count the watch that was entered. Return: the bit of the cell to set; 0: the ring is closed. */
uint64_t sb_ring_join(const struct sb_ring_view *view);

/* ---- upkeep, all under a pin ---- */

/* Take away the entries of clients that are gone. Return: whether one is left. */
bool sb_ring_scrub(struct sb_handle *handle, const struct sb_ring_view *view);
/* For the engine, of a cell that is WATCHED: take the bit away if no watch stands. Return: whether
 * the ring is closed, and to be retired. */
bool sb_ring_clear(struct sb_handle *handle, struct sb_node *node, struct sb_word64 *cell);
/* Take a closed ring, or the ring of a node that is gone, away from its node. Any process may, and
 * twice. */
void sb_ring_retire(struct sb_handle *handle, struct sb_node *node);
/* For the validator: what is wrong with the ring of a node, of which @cell said @word; NULL:
 * nothing, or the cell has changed meanwhile. @quiescent: no other process is running. */
const char *sb_ring_fault(struct sb_handle *handle, struct sb_node *node, struct sb_word64 *cell,
        uint64_t word, bool quiescent);

#endif
