/*
 * A handle: the private side of a client record, in the process (or thread) that owns the record.
 * It caches, and it lists the work on memory that is still to do.
 *
 * This header only declares it, as plain data: a small struct for each module that keeps something
 * in it. Each of them belongs to one room, which is named first in its comment; other rooms call
 * that room's functions and leave the members alone. tests/tidy holds that.
 *
 * Always true: nothing here is needed by another process. All of it may be lost with the process:
 * what counts is in the segment. The code below libclient and agentd allocates nothing, so the
 * owner of the struct (client library, daemon, tests) provides it, and with it the *space*: memory
 * for what grows with the geometry (upkeep/handle.h). One thread at a time uses it.
 */
#ifndef SB_LAYOUT_HANDLE_H
#define SB_LAYOUT_HANDLE_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"

#ifndef SB_PENDING_MAX
#define SB_PENDING_MAX 1024 /* power of two; keys to look at again with a new prune horizon */
#endif
#ifndef SB_PENDING_BATCH
#define SB_PENDING_BATCH 64 /* writes that share a new horizon; with many cuts, more */
#endif
#define SB_PENDING_LATEST 256u
#ifndef SB_LIMBO_MAX
#define SB_LIMBO_MAX 1024 /* blocks that wait for a grace period */
#endif
#ifndef SB_SLAB_CACHE_MAX
#define SB_SLAB_CACHE_MAX 16 /* blocks of one class that are taken from a slab at once */
#endif
#define SB_BUDGET_STEPS 64u

struct sb_pin {
        uint64_t hi; /* of the current pin; 0: not pinned */
};

/* What the last look at the pins of all other clients saw. */
struct sb_era_pin {
        uint64_t lo, hi;
};
struct sb_era {
        uint64_t looked; /* the era of the look */
        uint64_t floor;  /* what birth_floor was then */
        uint32_t pin_count;
        /* By lo, ascending, and each reaches further than all before it: the others protect nothing
         * that these do not. In the handle's space, with room for one of each record. */
        struct sb_era_pin *pins;
        /* Of a whole sweep, in the space too: the bases that labels can name, {era : 46, number :
         * 13}, ascending, and those that go, as labels. */
        uint64_t *bases;
        uint32_t *drops;
        uint32_t base_count, drop_count;
};

/* The slab cache of one class: blocks that were taken from one owned slab and are not used yet. */
struct sb_slab_cache {
        uint64_t offset[SB_SLAB_CACHE_MAX];
        uint32_t count;
        uint32_t unit; /* the owned slab, or UINT32_MAX */
};
struct sb_slabs {
        struct sb_slab_cache versions[SB_CLASS_MAX];
        struct sb_slab_cache nodes[SB_CLASS_MAX];
        struct sb_slab_cache tombstones; /* from the reserve */
        struct sb_slab_cache guards;     /* chunks of guard words: rare, of any class */
        uint32_t empty_next;             /* where the search for an EMPTY unit goes on */
        uint32_t look_wait, look_rest;   /* searches between two looks at all pins; still to come */
        bool look_skipped;               /* in the search that is going on */
        uint32_t roomy_next;             /* where the search for a slab with much room goes on */
        uint32_t exhausted_count;
        uint64_t owned[2];          /* classes with an owned slab, as bits: of versions, of nodes */
        uint32_t acquired, clients; /* slabs taken; clients, counted some slabs ago */
        bool exhausted_many;        /* more than fit there */
        bool many;                  /* more are owned than an idle client may keep */
        bool takes_own;             /* what is taken now may have the whole reserve */
        uint32_t exhausted[256];    /* owned slabs to give up when the operation is over */
};

/* Which slabs this client uses: it keeps that of which it used most blocks lately. */
struct sb_slab_uses {
        uint32_t left;                    /* how often it gave slabs up because it owned too many */
        uint16_t blocks[2][SB_CLASS_MAX]; /* of versions and of nodes, by class */
};

/* The units that a large value waits for. */
#define SB_WINDOW_REFUSED 4096u /* units */
struct sb_window {
        uint32_t first, count;  /* owned units in a row; count 0: none */
        uint32_t wanted, limit; /* so many units, all below the limit; wanted 0: none */
        uint32_t waited;        /* looks at what moved, and was there still */
        uint64_t era;           /* since when all of them are empty; 0: they are not */
        uint32_t cursor, row;   /* the search: down to where; units of the row that ends there */
        uint64_t sum;           /* bytes that live in that row */
        uint32_t best;          /* found so far, and the bytes that live there */
        uint64_t best_cost;
        uint64_t refused[SB_WINDOW_REFUSED / 64]; /* units that were not to be emptied */
        uint64_t young;   /* older ones are known to a client that stays pinned */
        uint32_t no_room; /* windows of which nothing had room elsewhere */
        bool waits;       /* in a call that waits for memory */
        bool keeps;       /* runs that were given back meanwhile */
        bool moves;       /* blocks are taken for what moves out of the window */
};

struct sb_guards {
        struct sb_word64 *words; /* the guard_inline ones in the record */
        uint32_t top;            /* the last chunk with a guard in it; 0: none beyond the record */
        uint32_t used[SB_GUARD_CHUNKS]; /* guards in each chunk but the first */
};

/* A cell of which the chain can be shortened, or the key can perhaps be removed, once the prune
 * horizon's bound reaches `due`. What was superseded before `since` was looked at already. */
struct sb_pending {
        uint64_t cell_number;
        uint64_t since, due; /* stamps */
        uint64_t last;       /* the newest stamp that something was superseded at */
        uint32_t whole;      /* 1: look below `since`, too: a sweep may have missed the chain */
        uint32_t older;      /* the entry that was put there before, of those with this hash */
};
/* A block (a version, or a node in one of its two grace periods) that waits to be free. */
struct sb_limbo_entry {
        uint64_t offset; /* with SB_LIMBO_FIRST_GRACE */
        uint64_t era;    /* whole eras, both */
        uint64_t birth;
        uint32_t unit_kind; /* kind and class of its unit then */
        uint16_t held;      /* entry of this handle's magazine; 0: any process may free it */
        uint16_t spare;     /* whether it becomes a spare then */
};
struct sb_limbo {
        struct sb_pending pending[SB_PENDING_MAX];
        uint32_t pending_head, pending_tail; /* counters; index modulo SB_PENDING_MAX */
        uint32_t latest[SB_PENDING_LATEST];  /* by a cell's hash: the entry that was put there last,
                                                which names the one before it. So a cell is in the
                                                list once, however often it is written */
        uint32_t noted, batch;               /* calls since the last look; how many bring one on */
        struct sb_limbo_entry entries[SB_LIMBO_MAX];
        uint32_t count;
        /* With `ripe` entries a batch is near: the era advances, so that by then no process is
         * pinned any more in the eras of most of them. `wake` entries are worth a membarrier. */
        uint32_t ripe, wake;
        bool ripened;         /* the era has advanced for the next batch */
        uint64_t left_behind; /* work that was dropped for want of space here: a sweep finds it */
};

/* Entries are 1 .. magazine_count; lists end with 0. */
struct sb_magazine {
        struct sb_word64 *words;      /* in the record; [0] is not the magazine's */
        uint16_t ready[SB_CLASS_MAX]; /* blocks that can be built in, by class */
        uint16_t free;                /* entries without a block */
        uint32_t held, limit;         /* entries with one; how many there may be */
        uint16_t next[SB_MAGAZINE_MAX + 1];
        uint32_t class_end; /* of larger classes it has no share */
        uint32_t pass_from; /* blocks of this class and of larger ones become spares */
        uint32_t pass_end;  /* still larger ones do not */
        bool lacking;       /* an entry was missing */
        bool passes;        /* pass_from is 0: its share is too small */
        uint64_t keeps; /* bytes of spares that may come out of slabs, or are of large classes */
};

/* A dated block that no process can be reading any more. Lists end with 0. */
struct sb_spare {
        uint64_t offset, era;
        uint32_t unit_kind;  /* as in limbo */
        uint16_t next, kept; /* kept: it counts below */
};
struct sb_spares {
        struct sb_spare entries[SB_LIMBO_MAX + 1]; /* [0] is none */
        uint16_t first[SB_CLASS_MAX];
        uint64_t missed;     /* classes of which one was asked for when there was none, as bits */
        uint32_t free, used; /* entries: the first that was used and is free; how many ever were */
        uint32_t count;      /* spares */
        uint64_t kept;       /* bytes of those that magazine.keeps limits */
        uint64_t known;      /* since this era at least their grace periods are over */
};

/* What the times said last of a rule with a span. */
struct sb_rules_memo {
        uint64_t span, bound, cut;
};

/* Bytes that rules keep, by the cuts at which they were superseded: one sweep's sum. */
struct sb_budget {
        bool counts; /* a whole sweep is under way */
        bool looks;  /* in a slice of some sweep */
        uint64_t from, width, bytes[SB_BUDGET_STEPS];
};

/* What a pruner knows: versions of which the successor's stamp is <= bound are needed by the open
 * cuts alone. It holds for good; while the clock still is what bound was read from, it is all that
 * there is to know. */
struct sb_horizon {
        uint64_t bound;
        uint32_t cut_count;
        uint64_t *cuts; /* open or marked, ascending, each once; in the handle's space, which has
                           room for as many as the segment has, twice: they are sorted there */
};

struct sb_sweep {
        uint64_t before; /* birth_floor when the sweep began */
        uint64_t floor;  /* births before it are labelled by the sweep that is going on */
        uint64_t since;  /* what clients hold that are pinned since before is not for its limbo */
        uint64_t held, held_by; /* so many blocks; the sum of those pins, when the sweep began */
};

/* A handle's sweeps. The engine's ticks are in the middle of a whole one while `left` is not 0. Of
 * a client that found the bus full: the lap of slices that it takes part in. */
struct sb_work {
        uint32_t left;            /* chunks */
        uint32_t rest, rest_left; /* ticks or looks between sweeps that free nothing */
        uint64_t goal, freed;     /* goal: what sweep_wanted was at the beginning */
        uint64_t lap, lap_end;    /* a client's lap: its next own chunk; where it ends, 0: none */
        bool whole;               /* it is a whole sweep */
        uint64_t stuck;           /* entries of its lists that the last work did not free */
        bool noted;               /* the last tick found a write under way */
        bool pressed;             /* in a slice for short memory: what watches want gives way */
};

struct sb_commits {
        uint32_t aborted_waiting; /* own transactions of which intents lie in chains still */
};

#ifndef SB_PREFIX_NOTED
#define SB_PREFIX_NOTED 1024u /* power of two */
#endif
/* A cell that this handle noted for a row of hints (its block's offset) when that gave so much up:
 * until it gives more up, another look at the cell finds nothing. Or for a sweep, the number of
 * which `gone` is then. */
struct sb_prefix_noted {
        uint64_t cell_number, row, gone;
};
/* What a whole sweep of the engine's found of watched prefixes; and which cells were noted. */
struct sb_prefixes {
        struct sb_prefix_noted noted[SB_PREFIX_NOTED]; /* by the cell's number */
        uint32_t noted_turn;
        bool sweeps, any;                    /* a sweep is under way; it met a watch */
        uint64_t state;                      /* when it began */
        uint64_t lengths[SB_PREFIX_LENGTHS]; /* the same */
        uint32_t used[SB_PREFIX_LENGTHS];    /* lengths of which it met a watch, as bits */
};

/* Walks that ended at a bound that no sound segment reaches. */
struct sb_damage {
        uint32_t met;
};

/* Room for notes of walks down chains, lent while a segment is validated; NULL: none. */
struct sb_reach_room {
        uint64_t *words, count;
};

/* The doorbell: whether something waits in the owner's place. */
struct sb_bell {
        bool stands;
};

/* For people, never for decisions. */
struct sb_counters {
        uint64_t helped, retried, lost, freed, swept, slices, walked, moved;
};

struct sb_handle {
        struct sb_segment segment;
        struct sb_record *record;
        uint32_t slot, generation;
        struct sb_damage damage;     /* layout: damage.h */
        struct sb_pin pin;           /* memory: pin.c */
        struct sb_era era;           /* memory: era.c */
        struct sb_slabs slabs;       /* memory: slab.c */
        struct sb_guards guards;     /* memory: guard.c */
        struct sb_limbo limbo;       /* memory: limbo.c */
        struct sb_magazine magazine; /* memory: magazine.c */
        struct sb_spares spares;     /* memory: spare.c */
        struct sb_rules_memo rules;  /* history: rules.c */
        struct sb_budget budget;     /* history: budget.c */
        struct sb_horizon horizon;   /* upkeep: horizon.c */
        struct sb_sweep sweep;       /* upkeep: sweep.c */
        struct sb_work work;         /* upkeep: work.c */
        struct sb_commits commits;   /* op: commit.c */
        struct sb_window window;     /* memory: window.c */
        struct sb_slab_uses uses;    /* memory: slab.c */
        struct sb_reach_room reach;  /* keys: reach.c */
        struct sb_bell bell;         /* notify: bell.c */
        struct sb_prefixes prefixes; /* notify: prefix.c */
        struct sb_counters counters; /* any room adds to them */
};

#endif
