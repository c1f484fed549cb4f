/*
 * A watch of one key: a position in the key's revisions (models: watch, wkey, wring).
 *
 * Opening makes the key where it is absent, hangs a ring at its node, enters the watch there and
 * marks the cell: notify/ring.h has the order, and what each step is for. From then on the key is
 * not removed, and each write of it is told to this client's bell (notify/bell.h).
 *
 * A look at the watch gives the revision behind the last one: by the ring's slot where that may be
 * followed, else down the chain from the newest version, or from an anchor (anchor.h). What is not
 * in the chain any more is lost, and the look says how many and where the watch can go on.
 *
 * A watch that drops has as many places as it keeps changes. Each place says which revision it
 * takes: all revisions follow each other, so it is known before it is there. When the watch has
 * read one, its place takes the revision behind the latest that another place takes, or the next
 * one that comes, if later ones were made by then: these are dropped. A place is said before it is
 * known to be free: then the watch looks again, and a revision that came too soon is dropped.
 *
 * Always true: a revision is given at most once, in ascending order; between two that follow each
 * other in time none is left out without a word.
 */
#ifndef SB_RING_OP_WATCH_H
#define SB_RING_OP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/op/anchor.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/notify/ring.h"

/* Changes that a ring has room for, and entries for watches in it: of each block of them. */
#ifndef SB_WATCH_DEPTH
#define SB_WATCH_DEPTH 64u
#endif
#ifndef SB_WATCH_ENTRIES
#define SB_WATCH_ENTRIES 12u
#endif

struct sb_op_watch {
        struct sb_word64 *cell, *entry;
        struct sb_ring_view ring;
        struct sb_ring_view row; /* of a prefix: the block of which it reads the hints */
        uint64_t node;           /* offset */
        uint64_t start;          /* the key's revision when the watch began */
        uint64_t last;           /* the revision behind which the next one is looked for */
        /* Of a watch that drops: its block, in which the revisions stand that it wants; how many it
         * went by, the latest one that it wants, how many it dropped. */
        struct sb_ring_view wants;
        uint64_t passed, latest, dropped;
        uint64_t passed_deep; /* changes that it read beyond the ring since it last had none */
        bool lapped; /* it was said that some are lost; the next look goes on with what is left */
        uint64_t walked;            /* versions that the last walk down the chain went by */
        struct sb_anchors *anchors; /* the caller's; NULL: none, so each walk is a whole one */
};

/* What the slots of a ring are: versions, or hints (notify/hint.h). */
enum sb_watch_slots { SB_WATCH_VERSIONS, SB_WATCH_HINTS };

/* Begin to watch a key, for the client's dirty bit @bit; the ring has @depth slots then, or a row
 * of so many. last is the revision then: the watch gives what comes later. Not under a pin. Return:
 * 0; SB_E_FULL: no room for the key, the ring or the entry; -E2BIG: no block is that large; -EIO:
 * the segment is damaged. */
int sb_op_watch_begin(struct sb_handle *handle, const void *key, uint32_t key_len, uint32_t bit,
        uint32_t depth, enum sb_watch_slots slots, struct sb_op_watch *ret);
/* The same for a watch that keeps the first @want_count changes that it has not read, and drops
 * what comes then; @after: behind this revision, UINT64_MAX: from now on. It never says LAPPED. */
int sb_op_watch_begin_dropping(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint32_t bit, uint32_t depth, uint32_t want_count, uint64_t after, struct sb_op_watch *ret);
/* The same for the key of a prefix, of which the ring is made with @slot_count slots: the watch has
 * a queue of its own with room for @room changes (notify/queue.h), which counts when that begins.
 */
int sb_op_watch_begin_queue(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint32_t bit, uint32_t slot_count, uint32_t room, struct sb_op_watch *ret);
/* How many it has dropped by now. Not under a pin. */
uint64_t sb_op_watch_dropped(struct sb_handle *handle, const struct sb_op_watch *watch);
/* End it. */
void sb_op_watch_end(struct sb_handle *handle, struct sb_op_watch *watch);

enum sb_watched { SB_WATCHED_NOTHING, SB_WATCHED_CHANGE, SB_WATCHED_LAPPED };
struct sb_op_change {
        struct sb_version *version, *old; /* old: NULL: it had no value, or it is not kept */
        uint64_t cut;                     /* the version's stamp */
        uint64_t missed;
};
/* Look for the next change. A change is held by guard word @guard, what it replaced by @old_guard,
 * and the watch goes on behind it. LAPPED is said once; the next look goes on with the oldest that
 * is left, with `missed`. Not under a pin. Cost: two cold misses where a change has just come;
 * where no slot names it, a walk, which is some steps where there are anchors. */
enum sb_watched sb_op_watch_look(struct sb_handle *handle, struct sb_op_watch *watch,
        uint32_t guard, uint32_t old_guard, struct sb_op_change *ret);

/* Under a pin: what a change replaced, if that is still there and was a value; else NULL. */
struct sb_version *sb_op_watch_replaced(struct sb_handle *handle, const struct sb_version *version);

/* Whether a look would give something. Not under a pin. */
bool sb_op_watch_has(struct sb_handle *handle, struct sb_op_watch *watch);
/* Go on behind the newest revision. Return: whether that is a step. Not under a pin. */
bool sb_op_watch_skip(struct sb_handle *handle, struct sb_op_watch *watch);

#endif
