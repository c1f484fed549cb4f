/*
 * What lies where in a segment, and who writes which word. docs/format.md draws it.
 *
 *      superblock | client records | times, marks | buckets, spill buckets | unit words, unit
 * births | unit bitmaps | units ...
 *
 * Always true: fixed widths only, offsets instead of pointers, every shared word a cell; what is
 * plain is written before its object is published and never afterwards. The layout version changes
 * when anything here does.
 *
 * Offsets count bytes from the segment's start; 0 is "none" (the superblock lies there). Blocks are
 * aligned to 16 bytes and offsets fit 48 bits, so a cell has 4 low bits for flags and 16 high bits
 * for a tag.
 */
#ifndef SB_LAYOUT_SUPERBLOCK_H
#define SB_LAYOUT_SUPERBLOCK_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/base/word.h"

#define SB_MAGIC          0x3173756265746174u /* "tatebus1" */
#define SB_LAYOUT_VERSION 2u
#define SB_LINE           64u

#define SB_KEY_LEN_MAX  1024u
#define SB_HEIGHT_MAX   16u /* of a node in the ordered index; one in four nodes is one higher */
#define SB_BUCKET_CELLS 7u

/* Everything derived from the wish {size, clients, ...}: a run-time choice. Written once, by
 * sb_segment_format(). */
struct sb_geometry {
        uint64_t size;       /* of the whole segment */
        uint64_t clients_at; /* offset of client record 0, the engine's */
        uint64_t times_at;   /* struct sb_times, times_count entries a level */
        uint64_t marks_at;   /* mark_count of struct sb_mark */
        uint64_t buckets_at; /* bucket_count buckets, then spill_count more */
        uint64_t unit_words_at;
        uint64_t bitmaps_at;
        uint64_t units_at;     /* multiple of unit_size */
        uint32_t client_count; /* records, the engine's included */
        uint32_t client_stride;
        uint32_t bucket_count; /* power of two */
        uint32_t spill_count;
        uint32_t unit_size; /* power of two: a slab, or part of one large block */
        uint32_t unit_count;
        uint32_t reserve_count;  /* the last units: for tombstones alone */
        uint32_t bitmap_stride;  /* bytes */
        uint32_t guard_inline;   /* guard words in a client record */
        uint32_t snapshot_count; /* announcement words in a client record */
        uint32_t feed_count;     /* entries of a client's feed ring; 0 on a volatile bus */
        uint32_t stock_count;    /* words of a client's stock */
        uint32_t times_count;
        uint32_t mark_count;
};

enum sb_segment_state { SB_SEGMENT_SERVING = 1, SB_SEGMENT_REPLACED = 2 };
#define SB_LIFE_DIED UINT32_C(0x40000000) /* FUTEX_OWNER_DIED */

struct sb_superblock {
        /* Written once, before anybody else maps the segment. */
        uint64_t magic;
        uint32_t layout_version;
        uint32_t features; /* 0: none yet */
        uint64_t seed;     /* of the keys' hash; secret */
        uint64_t id[2];    /* random; tells one segment from the next */
        uint64_t created_ns;
        uint64_t zero[2];
        struct sb_geometry geometry;
        uint64_t pad0[1];
        /* line: era and state. era: whoever reclaims, by CAS (never 0..15, never above SB_ERA_MAX).
         * state: keeper, engine. */
        struct sb_cell32 era;
        struct sb_cell32 state;
        /* keeper_life, engine_life: robust futex words: a thread id while that process lives;
         * SB_LIFE_DIED from the kernel when it dies. */
        struct sb_cell32 keeper_life;
        struct sb_cell32 birth_floor; /* no block that is in use was born before this era; by CAS,
                                         after a whole sweep */
        struct sb_cell32 engine_life;
        uint32_t zero2;
        uint64_t pad1[5];
        /* line: the commit clock. Advanced by CAS, by whoever needs a cut. Starts at 2. */
        struct sb_cell64 clock;
        uint64_t pad2[7];
        /* line: the cut that observers read at. Raised by CAS. Starts at 1. */
        struct sb_cell64 safe;
        uint64_t pad3[7];
        /* line: roster. client_high: records 0 .. client_high-1 were ever in use; raised by CAS, by
         * the engine. engine_generation: counts engines; the engine. sweep_wanted: anybody who
         * leaves memory work behind adds one. swept: what sweep_wanted was before the last whole
         * sweep; the sweeper. */
        struct sb_cell64 client_high;
        struct sb_cell64 engine_generation;
        struct sb_cell64 sweep_wanted;
        struct sb_cell64 swept;
        struct sb_cell64 keeper;    /* pid of the keeper; the keeper */
        struct sb_cell64 engine;    /* pid of the engine; the engine */
        struct sb_cell64 observers; /* how many read at `safe`; while there are any, it bounds
                                       pruning. The engine (later) */
        uint64_t pad4[1];
        /* The head of the ordered index: next links as in a node, of greatest height, for the key
         * below all. */
        struct sb_cell64 order[SB_HEIGHT_MAX];
        /* line: history. mark_high: marks 0 .. mark_high-1 were ever used; raised by CAS.
         * rule_count: rules ever written. history_floor: what was superseded up to this cut is kept
         * by no rule; raised by CAS. history_limit: bytes that rules may keep, 0: any; the engine.
         * history_bytes: that they kept at the end of the last sweep; for people. rule_lengths: bit
         * n: prefixes of n bytes ever had a rule. */
        struct sb_cell64 mark_high;
        struct sb_cell64 rule_count;
        struct sb_cell64 history_floor;
        struct sb_cell64 history_limit;
        struct sb_cell64 history_bytes;
        struct sb_cell64 rule_lengths[SB_KEY_LEN_MAX / 64 + 1];
        uint64_t pad5[2];
};
static_assert(sizeof(struct sb_geometry) == 120, "geometry");
static_assert(offsetof(struct sb_superblock, era) % SB_LINE == 0, "line");
static_assert(offsetof(struct sb_superblock, clock) % SB_LINE == 0, "line");
static_assert(offsetof(struct sb_superblock, client_high) % SB_LINE == 0, "line");
static_assert(offsetof(struct sb_superblock, order) % SB_LINE == 0, "line");

/* ---- times and marks ---- */

/* When cuts were taken, as rings: one entry each tick of the engine, each second, minute and hour.
 * The engine alone writes. An entry: cut 0, then the times, which were read after the cut was
 * taken, then the cut; a reader loads the cut on both sides of them. position: entries ever
 * written. */
#define SB_TIME_LEVELS 4u
struct sb_time {
        struct sb_cell64 cut;
        struct sb_cell64 realtime_ns, monotonic_ns;
};
struct sb_times {
        struct sb_cell64 position[SB_TIME_LEVELS];
        uint64_t pad[4];
        struct sb_time entry[]; /* times_count of level 0, of level 1, ... */
};
static_assert(sizeof(struct sb_times) == SB_LINE, "times");

/* A cut that is kept under a name (shm/mark.h). owner: 0 free; {slot + 1 : 16, count : 48} of who
 * made it, never the same again; with SB_MARK_MAKING while its maker writes the cut. By CAS. */
struct sb_mark {
        struct sb_cell64 owner;
        struct sb_cell64 cut;
};
#define SB_MARK_MAKING (UINT64_C(1) << 63)

/* ---- buckets ---- */

/* A cell: 0, or {tag : 16, offset of the key's newest version : 44, flags : 4}. Every change is a
 * CAS. */
#define SB_CELL_FROZEN                                                                             \
        UINT64_C(1)                 /* the key is being removed; nobody installs; anybody finishes \
                                     */
#define SB_CELL_KEPT    UINT64_C(2) /* a rule of history applies */
#define SB_CELL_WATCHED UINT64_C(12) /* two bits, used in turn (later) */
#define SB_CELL_FLAGS   UINT64_C(15)
#define SB_OFFSET_MASK  UINT64_C(0x0000fffffffffff0)
#define SB_TAG_MASK     UINT64_C(0xffff000000000000)

/* A key's cells are in its bucket (hash modulo bucket_count) or, where that says SPILLED, in the
 * spill buckets from number (bucket >> 3) modulo spill_count on, in turn, as long as each says
 * SPILLED too. The flag never goes away. */
struct sb_bucket {
        struct sb_cell64 cell[SB_BUCKET_CELLS];
        struct sb_cell64 floor; /* {floor : 63, SPILLED : 1}: no revision above the floor was ever
                                   removed; only grows */
};
#define SB_BUCKET_SPILLED UINT64_C(1)
static_assert(sizeof(struct sb_bucket) == SB_LINE, "bucket");
/* Number of a cell, never 0: 8 * (bucket number + 1) + place in the bucket; spill buckets follow
 * the others. */
#define SB_CELL_NUMBER(bucket, place) (((uint64_t)(bucket) + 1) * 8 + (place))

#endif
