/*
 * Watched prefixes: which there are, telling them of a change, and asking what they still need
 * (models: prefix2, pwatch).
 *
 * A watched prefix is a key of the bus's own, SB_RESERVED_WATCH and then the prefix, which never
 * has a value. Its ring holds hints (hint.h), and its watches stand in that ring as those of any
 * key do (ring.h). On the keys with the prefix nothing is set. Instead each writer looks at one
 * word:
 *
 *      attention            some prefix is watched: two bits, used in turn (turn.h)
 *      prefix_lengths[]     of these lengths
 *
 * Telling. A process that has stamped a change loads `attention`. If it says so, the process looks
 * up the prefix of each length, puts a hint into its ring, and rings its watchers, before its note
 * goes. The reaper of a dead process does the same. Each process that raises the stable cut wakes
 * the watchers of what notes show: they look at notes by themselves (ring/op/prefix.h).
 *
 * Keeping. A process that takes a version out loads `attention` behind the stamp of the successor.
 * The version stays if a watched prefix of its key gives nothing up above that stamp; also where
 * both have one stamp, which no cut can tell apart. A tombstone need not ask: its key goes when
 * nothing lies below it any more, and what it replaced has asked by its stamp.
 *
 * Beginning. A watch enters itself in the ring, counts itself in the length's word, joins
 * `attention`, and only then takes its cut. So each writer with a stamp above that cut finds it.
 *
 * Ending. The engine alone takes lengths and bits back, at the end of a whole sweep that met no
 * watch of them, if none has joined since the sweep began.
 */
#ifndef SB_NOTIFY_PREFIX_H
#define SB_NOTIFY_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

/* ---- for the processes that write and prune; all under a pin ---- */

/* Whether a prefix may be watched. Loaded behind the stamp that is asked about. Cost: one load, on
 * the clock's line. */
static inline bool sb_prefix_any(const struct sb_segment *segment)
{
        /* A:attention. */
        return (sb_load_acquire(&segment->super->attention) & SB_ATTENTION_PREFIXES) != 0;
}
/* What becomes of what a change replaced, as far as prefixes are watched: they do not keep it; a
 * queue may, and its watch may be through with it; it stays in its chain until the hint of this
 * change is overwritten. */
enum sb_prefix_told { SB_PREFIX_GOES, SB_PREFIX_ASKS, SB_PREFIX_STAYS };
/* The client's own change of this key, with this stamp: a hint for each watched prefix of it, and a
 * wake. What these rings keep no more is noted to be looked at again. Cost: a lookup for each
 * length that is watched. */
enum sb_prefix_told sb_prefix_tell(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint64_t cell_number, uint64_t stamp);
/* Behind SB_PREFIX_STAYS, and under no key's flags: what the write replaced is left in its chain. A
 * look finds nothing that goes before the hint of the write is overwritten, and the process that
 * does that notes the cell. But a sweep that is asked for may miss the chain: then it is noted. */
void sb_prefix_leave(struct sb_handle *handle, uint64_t cell_number, uint64_t stamp);
/* The same for a process that goes by the key's node: an owner of a transaction, a reaper. @stamp
 * 0: it does not know it. */
void sb_prefix_tell_node(struct sb_handle *handle, struct sb_node *node, uint64_t stamp);
/* Wake the watchers of a key without a hint. */
void sb_prefix_wake(struct sb_handle *handle, struct sb_node *node);
/* Whether a watched prefix of the version's key keeps it: it has @stamp, and was superseded at
 * @newer. @give_way: memory is short: then it is given up, and its readers find out. */
bool sb_prefix_awaits_any(struct sb_handle *handle, const struct sb_version *version,
        uint64_t stamp, uint64_t newer, bool give_way);
static inline bool sb_prefix_awaits(struct sb_handle *handle, const struct sb_version *version,
        uint64_t stamp, uint64_t newer, bool give_way)
{
        return SB_UNLIKELY(sb_prefix_any(&handle->segment)) &&
               sb_prefix_awaits_any(handle, version, stamp, newer, give_way);
}
/* Say that the version, which has @stamp, is about to be moved: a reader that listed it does not
 * come back for it where it lay. */
void sb_prefix_say_moved(
        struct sb_handle *handle, const struct sb_version *version, uint64_t stamp);

/* Say that the key is about to go of which this tombstone, with @stamp, is all that is left. Where
 * memory was short, what it replaced has gone before a queue that drops has given the delete: that
 * is lost, too. Rows of hints were told so with what it replaced. */
void sb_prefix_say_removed_any(
        struct sb_handle *handle, const struct sb_version *tombstone, uint64_t stamp);
static inline void sb_prefix_say_removed(
        struct sb_handle *handle, const struct sb_version *tombstone, uint64_t stamp)
{
        if (SB_UNLIKELY(sb_prefix_any(&handle->segment)))
                sb_prefix_say_removed_any(handle, tombstone, stamp);
}

/* The same for a walk down a chain, which would look up the same rings for each of its versions:
 * what was given up is asked once. @floor begins as 0. */
struct sb_prefix_floor {
        uint64_t asked; /* what the clock said before that */
        uint64_t gone;  /* the least that a row of the key gives up; UINT64_MAX: it has none */
        bool queues;    /* a watch that drops is asked each time */
};
void sb_prefix_ask_floor(
        struct sb_handle *handle, const struct sb_version *version, struct sb_prefix_floor *floor);
static inline bool sb_prefix_awaits_above(struct sb_handle *handle,
        const struct sb_version *version, uint64_t stamp, uint64_t newer,
        struct sb_prefix_floor *floor)
{
        /* A watch that joins behind the question begins at a cut that is not below `asked`: so the
         * answer holds for stamps up to that. */
        if (newer > floor->asked)
                sb_prefix_ask_floor(handle, version, floor);
        return newer > floor->gone ||
               (floor->queues && sb_prefix_awaits_any(handle, version, stamp, newer, false));
}

/* ---- for the client that watches ---- */

/* The key under which a prefix is watched. Return: its length. */
uint32_t sb_prefix_key(const void *prefix, uint32_t prefix_len, unsigned char ret[SB_KEY_LEN_MAX]);
/* Behind the entry in the ring, and before the watch's cut is taken. */
void sb_prefix_join(struct sb_handle *handle, uint32_t prefix_len);

/* ---- for the engine's whole sweeps ---- */

void sb_prefix_sweep_begin(struct sb_handle *handle);
/* Under a pin: the ring of this node has a watch. */
void sb_prefix_sweep_saw(struct sb_handle *handle, const struct sb_node *node);
void sb_prefix_sweep_end(struct sb_handle *handle);

#endif
