/*
 * The segment from its start: a map of its areas, the superblock, and the tables that all clients
 * share: times, marks and buckets. (docs/format.md draws the same without C.)
 *
 *      0              superblock                              here
 *      records_at     client records, one for each process    record.h
 *      times_at       times: when cuts were taken             here
 *      marks_at       marks: cuts that are kept by name       here
 *      buckets_at     buckets, then (floors_at) floors        here
 *      unlogged_at    which buckets the log has to look at    here
 *      unit_words_at  unit words, then unit births            block.h
 *      bitmaps_at     unit bitmaps, then vacancies            block.h
 *      units_at       units, with the blocks in them          block.h
 *
 * An offset counts bytes from the segment's start; 0 is "none", since the superblock lies there.
 * Blocks are aligned to 16 bytes and offsets fit 48 bits, so the word of a bucket's cell has 4 low
 * bits for flags and 16 high bits for a tag.
 *
 * Always true: fixed widths only, and offsets instead of pointers. What changes is a word of
 * base/word.h, and its comment names what may write it; what is plain is written before its object
 * is published, and never afterwards. SB_LAYOUT_VERSION changes when anything in these three
 * headers does.
 */
#ifndef SB_LAYOUT_SUPERBLOCK_H
#define SB_LAYOUT_SUPERBLOCK_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/base/word.h"

#define SB_MAGIC          0x3173756265746174u /* "tatebus1" */
#define SB_LAYOUT_VERSION 11u
#define SB_LINE           64u /* bytes of a cache line */

#define SB_KEY_LEN_MAX  1024u
#define SB_BUCKET_CELLS 7u

#define SB_CLIENTS_MAX 4002u /* of a segment: 4,000, agentctl and the log */
#define SB_RECORDS_MAX 4032u /* of the roster; with the records that are no clients' */

#define SB_OFFSET_MASK UINT64_C(0x0000fffffffffff0)

/* ---- superblock ---- */

/* Where the areas lie, and how much is in each: derived from the wish {size, clients, ...} when a
 * bus is made (geometry.h). Written once, by sb_segment_format(). */
struct sb_geometry {
        uint64_t size;       /* of the whole segment */
        uint64_t records_at; /* offset of client record 0, the engine's */
        uint64_t times_at;   /* struct sb_times, times_count entries a level */
        uint64_t marks_at;   /* mark_count of struct sb_named_cut */
        uint64_t buckets_at; /* bucket_count buckets */
        uint64_t floors_at;  /* bucket_count floors, one of each bucket */
        uint64_t unlogged_at;
        uint64_t unit_words_at;
        uint64_t bitmaps_at;
        uint64_t units_at;     /* multiple of unit_size */
        uint32_t record_count; /* records, the engine's included */
        uint32_t record_stride;
        uint32_t bucket_count; /* power of two, or four times a prime */
        uint32_t unit_size;    /* power of two: a slab, or part of one large block */
        uint32_t unit_count;
        uint32_t reserve_count;  /* the last units: for tombstones alone */
        uint32_t bitmap_stride;  /* bytes */
        uint32_t guard_inline;   /* guard words in a client record */
        uint32_t snapshot_count; /* announcement words in a client record */
        uint32_t magazine_count; /* entries of a client's magazine */
        uint32_t times_count;
        uint32_t mark_count;
};
static_assert(sizeof(struct sb_geometry) == 128, "geometry");

/* Odd: it is served. READ_ONLY: and no client writes, for nothing becomes durable. */
enum sb_segment_state {
        SB_SEGMENT_SERVING = 1,
        SB_SEGMENT_REPLACED = 2,
        SB_SEGMENT_READ_ONLY = 3,
};

#define SB_LOG_SYNCS 24u
#define SB_LIFE_DIED UINT32_C(0x40000000) /* FUTEX_OWNER_DIED */

/* Prefixes are watched: two bits, used in turn (notify/prefix.h). */
#define SB_ATTENTION_PREFIXES_0 (UINT64_C(1) << 62)
#define SB_ATTENTION_PREFIXES_1 (UINT64_C(1) << 61)
#define SB_ATTENTION_PREFIXES   (UINT64_C(3) << 61)
#define SB_PREFIX_LENGTHS       (SB_KEY_LEN_MAX / 32 + 1)
/* The log takes a cut: it has to hear of each change. In the other bits stands the cut of its last
 * batch; 0: there is no log (notify/unlogged.h). */
#define SB_ATTENTION_ALL (UINT64_C(1) << 60)
#define SB_ATTENTION_LOG ((UINT64_C(1) << 61) - 1)

struct sb_superblock {
        /* Lines 0 to 2: written once, before another process maps the segment. */
        uint64_t magic;
        uint32_t layout_version;
        uint32_t features; /* 0: none yet */
        uint64_t seed;     /* of the keys' hash; secret */
        uint64_t id[2];    /* random; tells one segment from the next */
        uint64_t created_ns;
        uint64_t log_id[2]; /* names the log of the bus: that of its first segment */
        struct sb_geometry geometry;

        /* Line 3: era, state and lives. A life is a robust futex word: the thread id of a process,
         * with SB_LIFE_DIED, which the kernel sets, once that process has died. */
        struct sb_word64 era;         /* SB_ERA_MIN at first; any reclaimer, CAS, only up */
        struct sb_word64 birth_floor; /* a birth before this era is a label; a sweeper at the end of
                                         a whole sweep, CAS, only up */
        struct sb_word32 state;       /* enum sb_segment_state; supervisor, engine; between the odd
                                         ones the log, CAS */
        struct sb_word32 supervisor_life; /* the supervisor's; supervisor, kernel */
        uint32_t zero2;
        struct sb_word32 engine_life; /* the engine's; engine, kernel */
        uint64_t huge_bytes;          /* of the segment, in huge pages; for people; written once */
        uint64_t pad1[3];

        /* Line 4: the commit clock, 2 at first. A client that takes a cut, CAS, +1. Then what a
         * writer has to look at behind its stamp. */
        struct sb_word64 clock;
        struct sb_word64 attention; /* SB_ATTENTION_*; any client that watches a prefix, locked or;
                                       the engine, locked and; of its own bits: the log, CAS */
        struct sb_word64 prefixes;  /* SB_TURN_*, of these two bits; any client that watches a
                                       prefix, locked add; the engine, CAS */
        uint64_t pad2[5];

        /* Line 5: the stable cut, with nothing open below it, at which observers read; 1 at first.
         * Any client, CAS, only up. */
        struct sb_word64 stable;
        uint64_t pad3[7];

        /* Line 6: sweeps and processes. */
        struct sb_word64 engine_generation; /* counts engines; engine */
        struct sb_word64 sweep_wanted;      /* any client that leaves work on memory behind, +1 */
        struct sb_word64 swept;      /* what sweep_wanted was before the last whole sweep; the
                                        sweeper */
        struct sb_word64 supervisor; /* pid of the supervisor; supervisor */
        struct sb_word64 engine;     /* pid of the engine; engine */
        struct sb_word64 observers;  /* clients that read at the stable cut; while there are any,
                                        it bounds pruning. Engine (later) */
        struct sb_word64 sweep_next; /* chunks that slices were begun at, ever: where the next slice
                                        of a sweep for short memory begins; any client, +1 */
        struct sb_word64 clients_max; /* records 1 to this are for clients, and those behind them
                                         for agentctl; 0: all are for clients. Engine */

        /* Lines 7 and 8: the root of the ordered index: a slot's word without a symbol, never
         * frozen; 0: no key. Any client, CAS. */
        struct sb_word64 order;
        uint64_t unused_order[15];

        /* Lines 9 to 11: history. */
        struct sb_word64 mark_high;  /* marks 0 .. mark_high-1 were ever used, or the first one is
                                        about to be; a client that makes a mark, CAS, only up */
        struct sb_word64 rule_count; /* rules ever written; a client that writes one, +1 */
        struct sb_word64 history_floor; /* what was superseded up to this cut is kept by no rule; a
                                           sweeper, CAS, only up */
        struct sb_word64 history_limit; /* bytes that rules may keep, 0: any; engine */
        struct sb_word64 history_bytes; /* that they kept at the end of the last sweep, for people;
                                           the sweeper */
        struct sb_word64 rule_lengths[SB_KEY_LEN_MAX / 64 + 1]; /* bit n: prefixes of n bytes ever
                                                                   had a rule; a client that writes
                                                                   one, locked or */
        struct sb_word64 forgotten; /* no key was forgotten, and the delete that led to it, above
                                       this cut; any process that removes a key, CAS, only up */
        uint64_t held_units; /* that values, nodes and branches leave free: a bus that came back in
                                more than its --size has no more room by that. Written once, before
                                another process maps the segment */

        /* Lines 12 to 19: the roster: bit n % 64 of word n / 64: record n is in use (roster.h). Set
         * by the engine that grants the record; cleared by its owner, or the reaper of a dead one;
         * locked or, locked and. */
        struct sb_word64 roster[SB_RECORDS_MAX / 64];
        uint64_t pad6[1];

        /* Lines 20 to 24: which lengths watched prefixes have: {joins : 32, bits : 32}, bit n % 32
         * of word n / 32: n bytes. A client that watches one, CAS; the engine clears bits, CAS. */
        struct sb_word64 prefix_lengths[SB_PREFIX_LENGTHS];
        uint64_t pad7[7];

        /* Line 25: the log. */
        struct sb_word64 durable; /* the last cut that survives power loss; 0: none does. The log,
                                     only up */
        struct sb_word64 wanted;  /* some client waits until `durable` is this or more; any client,
                                     CAS, only up */
        struct sb_word32 durable_count; /* counts the changes of `durable` and `log_error`: the word
                                           of a futex; as that, +1 */
        struct sb_word32 durable_waits; /* 1: some client sleeps on that; any client; 0: as that */
        struct sb_word32 log_error;     /* errno: why nothing becomes durable now; 0; the log, or
                                           the engine where it cannot start one; at the end the
                                           supervisor: why something is lost */
        struct sb_word32 log_mode;      /* enum sb_durability of the bus; the engine */
        /* {sequence, cut} of a batch, at 2 * (sequence % 2): one of the two has the cut that is
         * durable. The log, before it raises `durable`. */
        struct sb_word64 log_batch[4];

        /* Lines 26 to 30: copies of the bus in the log (ring/log/batch.h), counted from 1, and what
         * the log counts for people. The log, but for the first word. */
        struct sb_word64 copies_wanted; /* some client waits for the end of this one; any client,
                                           CAS, only up */
        struct sb_word64 copies_begun, copies_ended; /* ended first goes on, at a log's beginning */
        struct sb_word64 copy_done, copy_all;        /* of the one under way, in parts */
        struct sb_word64 log_cut_ns; /* realtime: what was written before is durable */
        struct sb_word64 log_batches;
        struct sb_word64 log_batch_most; /* bytes of the largest */
        struct sb_word64 log_bytes;      /* that were written */
        struct sb_word64 log_user_bytes; /* keys and values that were changed, in these */
        struct sb_word64 copied_above;   /* the cut before the batch that began the last whole copy:
                                            what has a later one stays when the next one ends; 0:
                                            that is not known, and all stays */
        struct sb_word64 log_file;       /* the file that the last durable batch ends in; 0: that is
                                            not known. The log, before it raises `durable` */
        uint64_t pad8[4];
        struct sb_word64 log_syncs[SB_LOG_SYNCS]; /* [n]: last writes with their syncs that took up
                                                     to 2^n us, and more than half of that; the
                                                     last: and those that took longer */
};
static_assert(SB_RECORDS_MAX % 64 == 0, "roster");
static_assert(offsetof(struct sb_superblock, era) == 3 * SB_LINE, "line");
static_assert(offsetof(struct sb_superblock, clock) == 4 * SB_LINE, "line");
static_assert(offsetof(struct sb_superblock, stable) == 5 * SB_LINE, "line");
static_assert(offsetof(struct sb_superblock, engine_generation) == 6 * SB_LINE, "line");
static_assert(offsetof(struct sb_superblock, order) == 7 * SB_LINE, "line");
static_assert(offsetof(struct sb_superblock, mark_high) == 9 * SB_LINE, "line");
static_assert(offsetof(struct sb_superblock, roster) == 12 * SB_LINE, "line");
static_assert(offsetof(struct sb_superblock, prefix_lengths) == 20 * SB_LINE, "line");
static_assert(offsetof(struct sb_superblock, durable) == 25 * SB_LINE, "line");
static_assert(offsetof(struct sb_superblock, copies_wanted) == 26 * SB_LINE, "line");
static_assert(offsetof(struct sb_superblock, log_syncs) == 28 * SB_LINE, "line");
static_assert(sizeof(struct sb_superblock) == 1984, "superblock");

/* ---- times ---- */

/* When cuts were taken, in four circular tables: one entry for each tick of the engine, each
 * second, minute and hour. The engine alone writes: first cut 0, then the times, which were read
 * after the cut was taken, then the cut. A reader loads the cut before and after them. */
#define SB_TIME_LEVELS 4u
struct sb_time {
        struct sb_word64 cut;
        struct sb_word64 realtime_ns, monotonic_ns;
};
struct sb_times {
        struct sb_word64 position[SB_TIME_LEVELS]; /* entries ever written; engine */
        uint64_t pad[4];
        struct sb_time entry[]; /* times_count of level 0, of level 1, ... */
};
static_assert(sizeof(struct sb_times) == SB_LINE, "times");

/* ---- marks ---- */

/* A cut that is kept under a name (history/named.h). */
struct sb_named_cut {
        struct sb_word64 owner; /* 0: free; else {slot + 1 : 16, count : 48} of the client that made
                                   it, never the same again; with SB_NAMED_MAKING while that client
                                   writes the cut. The client that makes or drops the mark, and a
                                   process that repairs what a killed one left; CAS */
        struct sb_word64 cut;   /* the client that makes the mark, exchange */
};
#define SB_NAMED_MAKING (UINT64_C(1) << 63)

/* ---- buckets ---- */

/* A key's home is a bucket that its hash names (keys/index.h). Its cell is there or, if that was
 * full when the key was made, in another bucket on the home's way. Behind the buckets is a floor of
 * each: no revision above it was ever removed from a key of this home; any client, CAS, only up. */
struct sb_bucket {
        struct sb_word64 cell[SB_BUCKET_CELLS]; /* 0, or {tag : 16, offset of the key's newest
                                                   version : 44, flags : 4}; any client, CAS */
        struct sb_word64 sign; /* {count : 40, classes : 16, stretches : 8}: which keys of this home
                                  are elsewhere, and where. Any client, CAS: one that confirms such
                                  a key sets bits and counts, one that looked clears bits */
};
static_assert(sizeof(struct sb_bucket) == SB_LINE, "bucket");

/* A sign's bits. Class c: a key with these four lowest bits of the tag may be elsewhere. Stretch s:
 * it may be in one of the buckets of this part of the way. */
#define SB_SIGN_STRETCHES      8u
#define SB_SIGN_CLASSES        16u
#define SB_SIGN_STRETCH(index) (UINT64_C(1) << (index))
#define SB_SIGN_CLASS(hash)    (UINT64_C(1) << (SB_SIGN_STRETCHES + ((hash) >> 48 & 15)))
#define SB_SIGN_BITS           ((UINT64_C(1) << (SB_SIGN_STRETCHES + SB_SIGN_CLASSES)) - 1)
#define SB_SIGN_ONE            (SB_SIGN_BITS + 1) /* of the count */

/* Behind the floors stand the buckets with changes that the log has not taken (notify/unlogged.h):
 * a bit for each bucket, then a bit for each word of those, and so on up to one word. Any process
 * that tells of a change, locked or; the log, exchange. */
#define SB_UNLOGGED_LEVELS 5u /* at most */

/* A cell's flags. FROZEN: the key is being removed, so that no client installs a version, and any
 * client that meets it finishes the removal. KEPT: a rule of history applies. WATCHED: two bits,
 * used in turn (notify/ring.h). */
#define SB_CELL_FROZEN    UINT64_C(1)
#define SB_CELL_KEPT      UINT64_C(2)
#define SB_CELL_WATCHED   UINT64_C(12)
#define SB_CELL_WATCHED_0 UINT64_C(4)
#define SB_CELL_WATCHED_1 UINT64_C(8)
#define SB_CELL_FLAGS     UINT64_C(15)
#define SB_TAG_MASK       UINT64_C(0xffff000000000000)

/* The number of a cell, never 0. @index: in the bucket. */
#define SB_CELL_NUMBER(bucket, index) (((uint64_t)(bucket) + 1) * 8 + (index))

#endif
