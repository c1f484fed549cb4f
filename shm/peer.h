/*
 * One attached handle: who writes in the segment, with its private caches and work lists.
 *
 * No allocation here: the owner of the struct (client library, daemon, tests) provides it. One
 * thread at a time. Everything private is a hint or a cache that may be lost with the process: what
 * counts is in the segment.
 */
#ifndef SB_PEER_H
#define SB_PEER_H

#include "segment.h"

#ifndef SB_PENDING_MAX
#define SB_PENDING_MAX 256 /* power of two; keys to look at again with a new view */
#endif
#ifndef SB_LIMBO_MAX
#define SB_LIMBO_MAX 1024 /* blocks that wait for a grace period */
#endif
#ifndef SB_RESERVE_MAX
#define SB_RESERVE_MAX 16 /* blocks of one class taken from a slab at once */
#endif
#ifndef SB_LOOKED_MAX
#define SB_LOOKED_MAX 16 /* pins told apart; with more at once, the least lo stands for all */
#endif
#define SB_HISTORY_STEPS 64u
#ifndef SB_VIEW_CUTS_MAX
#define SB_VIEW_CUTS_MAX 128
#endif

/* What a pruner knows: versions whose successor's stamp is <= bound are needed by the open cuts
 * alone. It holds for good; while the clock still is what bound was read from, it is all that there
 * is to know. */
struct sb_view {
        uint64_t bound;
        uint32_t cut_count;
        /* open snapshots, ascending; more than fit: the last stands for all above */
        uint64_t cuts[SB_VIEW_CUTS_MAX];
        bool cuts_overflow;
};

/* A cell whose chain can be shortened, or whose key can perhaps be removed, once the bound reaches
 * stamp. */
struct sb_pending {
        uint64_t cell_number;
        uint64_t stamp;
};
/* A block (a version, or a node in one of its two grace periods). */
struct sb_limbo {
        uint64_t offset;
        uint32_t era;
        uint32_t birth;
        uint32_t unit_kind; /* kind and class of its unit then */
        uint32_t place;     /* in the own stock; 0: it is everybody's to free */
};
/* Blocks of one class taken from one owned slab, not used yet. */
struct sb_reserve {
        uint64_t offset[SB_RESERVE_MAX];
        uint32_t count;
        uint32_t unit; /* the owned slab, or UINT32_MAX */
};

struct sb_peer {
        struct sb_segment segment;
        struct sb_client *client;
        struct sb_cell64 *guard_words; /* the guard_inline ones in the record */
        uint32_t slot, generation;
        uint32_t hi; /* of the current pin; 0: not pinned */
        /* What sb_era_look() saw: the era it made, the least lo of all pins, and the first pins
         * themselves, as words. */
        uint32_t looked_era, horizon, looked_count;
        uint64_t looked[SB_LOOKED_MAX];
        uint32_t search_unit; /* where the search for a slab goes on */
        struct sb_reserve versions[SB_CLASS_MAX];
        struct sb_reserve nodes[SB_CLASS_MAX];
        struct sb_reserve tombstones; /* from the units in reserve */
        struct sb_reserve guards;     /* chunks of guard words: rare, of any class */
        uint32_t exhausted[8];        /* owned slabs to give up when the operation is over */
        uint32_t exhausted_count;
        bool exhausted_many;      /* more than fit there */
        bool slabs_many;          /* more are owned than an idle one may keep */
        uint32_t aborted_waiting; /* own transactions whose intents lie in chains still */
        struct sb_pending pending[SB_PENDING_MAX];
        struct sb_view view;
        /* What the table of times said last of a rule with a span: shm/rules.c. */
        uint64_t horizon_span, horizon_bound, horizon_cut;
        /* Bytes that rules keep, by the cuts at which they were superseded: one sweep's sum. */
        bool history_counts;
        uint64_t history_from, history_width, history[SB_HISTORY_STEPS];
        uint32_t pending_head, pending_tail; /* counters; index modulo SB_PENDING_MAX */
        struct sb_limbo limbo[SB_LIMBO_MAX];
        uint32_t limbo_count;
        /* With so many a batch is near: the era advances, so that by then nobody is pinned any more
         * in the eras of most of them. With so many it is worth its membarrier. */
        uint32_t limbo_ripe, limbo_wake;
        bool limbo_ripened; /* the era has advanced for the next batch */
        /* Places are 1 .. stock_count; lists end with 0. */
        struct sb_cell64 *stock;            /* of the record; [0] is not the stock's */
        uint16_t stock_ready[SB_CLASS_MAX]; /* blocks that can be built in, by class */
        uint16_t stock_free;                /* places without a block */
        uint32_t stock_held, stock_limit;   /* places with one; how many there may be */
        uint16_t stock_next[SB_STOCK_MAX + 1];
        uint32_t stock_class_end; /* larger classes are not for the stock */
        bool stock_short;         /* a place was missing */
        uint32_t sweep_left;      /* units of the sweep that sb_reap_tick() is in the middle of */
        uint32_t sweep_rest, sweep_rest_left; /* ticks */
        uint32_t sweep_floor; /* births below are raised to it by the sweep that is going on */
        uint64_t sweep_goal, sweep_freed;
        uint64_t left_behind; /* work dropped for want of room here: a sweep will find it */
        /* counters for people, never for decisions */
        uint64_t count_helped, count_retried, count_freed, count_swept;
};

/* Take over a claimed record (state ATTACHED). No store to the segment. */
void sb_peer_init(
        struct sb_peer *peer, const struct sb_segment *segment, uint32_t slot, uint32_t generation);
/* Do what can be done of the private work, give up slabs and reserves, clear announcements, free
 * the record. */
void sb_peer_fini(struct sb_peer *peer);

#endif
