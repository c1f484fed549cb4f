/*
 * A watch of all keys with a prefix: a cut up to which every change was given (models: prefix2,
 * pwatch).
 *
 * It is a watch of the prefix's own key (notify/prefix.h), the ring of which has hints. A reading:
 *
 *      take a cut, and look at all notes: what is being written counts as hinted
 *      take the hints that came
 *      list, of each key that was hinted or noted, the changes above the watch's cut up to the new
 *      one, down its chain
 *      ask what was given up meanwhile: nothing above the watch's cut? then nothing is missing
 *
 * So the changes of a reading are all that happened between two cuts, each once, and whole
 * transactions; the next reading begins at the second. A change that is listed stays where it is
 * until it is given: nothing above the watch's cut goes before it is given up, which is asked again
 * under the pin that takes the change; then the change is looked for in its chain. Where it is not
 * there any more, or hints were overwritten, the watch begins anew at a cut of now.
 *
 * Always true: a change is given at most once. Between two cuts of a watch that begins nowhere anew
 * none is left out.
 */
#ifndef SB_RING_OP_PREFIX_H
#define SB_RING_OP_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/op/watch.h"
#include "shm/base/fault.h"
#include "shm/keys/order.h"
#include "shm/layout/handle.h"
#include "shm/mvcc/snapshot.h"
#include "shm/notify/hint.h"

/* Changes that a ring of hints keeps at least. */
#ifndef SB_PREFIX_DEPTH
#define SB_PREFIX_DEPTH 1024u
#endif

struct sb_op_prefix {
        struct sb_op_watch watch;    /* of the prefix's own key */
        struct sb_ring_view row;     /* of which it reads the hints: of the ring, or its queue's */
        const unsigned char *prefix; /* the caller's */
        uint32_t prefix_len;
        uint64_t hint; /* the next one to read */
        uint64_t cut;  /* every change up to it was given */
        /* The cut that it began at, or began anew. What has a successor above it, no process takes
         * out that did not ask the watch. */
        uint64_t joined;
        uint64_t before; /* hints of the ring's row when that cut was not taken yet */
        uint32_t snapshot;
        bool holds;   /* a snapshot of the cut that the watch began at is open */
        bool asks;    /* the next reading is the first behind sb_op_prefix_after(); */
        bool trimmed; /* and it met a chain out of which something was taken that it may want */
        bool drops;   /* it has a queue (notify/queue.h) */
};

/* Begin to watch, for the client's dirty bit @bit; the ring keeps @depth changes at least. Not
 * under
 * a pin. Return: 0; SB_E_FULL: no room; -EIO: the segment is damaged. */
int sb_op_prefix_begin(struct sb_handle *handle, const void *prefix, uint32_t prefix_len,
        uint32_t bit, uint32_t depth, struct sb_op_prefix *ret);
/* The same for a watch that drops: writers keep for it the first @room changes that came, @after: a
 * cut of before, 0: of now. What was read makes room by the calls of notify/queue.h. */
int sb_op_prefix_begin_dropping(struct sb_handle *handle, const void *prefix, uint32_t prefix_len,
        uint32_t bit, uint32_t room, uint64_t after, struct sb_op_prefix *ret);
/* Begin anew at a cut of now, which a snapshot holds, if half of them are free, until it
 * is let go. Return: false: the segment is damaged. */
bool sb_op_prefix_again(struct sb_handle *handle, struct sb_op_prefix *watch);
/* Whether it is held still: the engine may have taken the snapshot away. What the watch has read
 * since then changes nothing: fault HELD_AS_READ. */
static inline bool sb_prefix_holds(const struct sb_handle *handle, const struct sb_op_prefix *watch)
{
        return watch->holds && sb_snapshot_holds(handle, watch->snapshot,
                                       SB_FAULT(HELD_AS_READ) ? watch->cut : watch->joined);
}
void sb_op_prefix_let_go(struct sb_handle *handle, struct sb_op_prefix *watch);
void sb_op_prefix_end(struct sb_handle *handle, struct sb_op_prefix *watch);

/* Begin at @cut, which was taken before: the next reading looks at all keys with the prefix, each
 * of
 * which @visit is told of, under a pin. Return: false: the segment is damaged. */
bool sb_op_prefix_after(struct sb_handle *handle, struct sb_op_prefix *watch, uint64_t cut,
        sb_order_visit *visit, void *context);

/* A change that was listed. */
struct sb_op_listed {
        uint64_t stamp, cell_number, rev, txn; /* txn: 0: a plain write */
        uint64_t at;                           /* offset of the version */
};

/* Whether there is a hint that was not read. */
static inline bool sb_prefix_is_hinted(const struct sb_op_prefix *watch)
{
        return sb_hint_is_there(&watch->row, watch->hint);
}
/* The word that the next hint goes into: for a caller that spins. */
static inline const struct sb_word64 *sb_prefix_spot(const struct sb_op_prefix *watch)
{
        const struct sb_ring_view *row = &watch->row;

        return watch->drops ? &watch->watch.row.ring->tail
                            : &row->slots[watch->hint % row->slot_count];
}
/* Have the clock's line fetched, to take a cut in it, and the cell of the next hint: a CAS lets no
 * later load begin. Then the version in the cell, while notes are looked at. Hints: they have no
 * effect but time. */
void sb_op_prefix_fetch_cell(struct sb_handle *handle, const struct sb_op_prefix *watch);
void sb_op_prefix_fetch_version(struct sb_handle *handle, const struct sb_op_prefix *watch);
/* The next hint. Return: 1: *ret_cell; 0: there is none; -1: it was overwritten. */
int sb_op_prefix_hint(struct sb_op_prefix *watch, uint64_t *ret_cell);
/* List what happened to the key in a cell above the watch's cut up to @cut, newest first, @take of
 * it for each. Not under a pin. Return: whether something is above @cut. */
typedef void sb_op_take(const struct sb_op_listed *listed, void *context);
bool sb_op_prefix_list(struct sb_handle *handle, struct sb_op_prefix *watch, uint64_t cell_number,
        uint64_t cut, sb_op_take *take, void *context);
/* Whether nothing was given up above @cut, which was taken while the watch stood. */
bool sb_op_prefix_keeps(const struct sb_op_prefix *watch, uint64_t cut);
/* Whether nothing was given up above the watch's cut. */
bool sb_op_prefix_whole(const struct sb_op_prefix *watch);
/* The same behind a reading. The first one behind sb_op_prefix_after() goes by the chains, each of
 * which tells whether it is whole, and by one word that says whether a key may be missing. */
bool sb_op_prefix_was_whole(struct sb_handle *handle, struct sb_op_prefix *watch);
/* Take a change that was listed behind the watch's cut: it is held by guard word @guard, what it
 * replaced by @old_guard. Not under a pin. Return: false: it was given up meanwhile. */
bool sb_op_prefix_take(struct sb_handle *handle, const struct sb_op_prefix *watch,
        const struct sb_op_listed *listed, uint32_t guard, uint32_t old_guard,
        struct sb_op_change *ret);

#endif
