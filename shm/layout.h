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
#ifndef SB_LAYOUT_H
#define SB_LAYOUT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

#define SB_MAGIC          0x3173756265746174u /* "tatebus1" */
#define SB_LAYOUT_VERSION 2u
#define SB_LINE           64u

#define SB_KEY_LEN_MAX     1024u
#define SB_HEIGHT_MAX      16u /* of a node in the ordered index; one in four nodes is one higher */
#define SB_BUCKET_CELLS    7u
#define SB_CLASS_MAX       60u
#define SB_BLOCK_MIN       64u
#define SB_GUARDS_MAX      65536u
#define SB_STOCK_MAX       352u /* blocks that one client has in hand */
#define SB_STOCK_BATCH_MIN 64u  /* so many at least: a smaller stock is not worth its batches */
#define SB_STOCK_BLOCK     256u /* of this size at least, where there are any */
/* Chunk 0 of a client's guard words lies in its record; each further one doubles, up to the largest
 * class. So many are SB_GUARDS_MAX words where units are smallest, in segments of up to 16 MiB. */
#ifndef SB_GUARD_CHUNKS
#define SB_GUARD_CHUNKS 264u
#endif

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

/* ---- client records: each on pages of its own (client_stride) ---- */

/* The record's tag: {generation : 32, state : 32}. FREE -> CLAIMED -> ATTACHED by the engine;
 * ATTACHED -> FREE by the owner (sb_close) ; CLAIMED, ATTACHED -> DEAD -> FREE by the reaper. The
 * generation grows on the way to FREE. */
enum sb_client_state {
        SB_CLIENT_FREE = 0,
        SB_CLIENT_CLAIMED = 1,
        SB_CLIENT_ATTACHED = 2,
        SB_CLIENT_DEAD = 3
};
#define SB_CLIENT_TAG(generation, state)                                                           \
        ((uint64_t)(uint32_t)(generation) << 32 | (uint32_t)(state))

/* An announcement: 0 none; SB_SNAPSHOT_PENDING | count of opens: being opened, whoever meets it
 * gives it a cut by CAS; else the cut. The engine takes one away (shm/evict.h): cut |
 * SB_SNAPSHOT_EVICTING: reads at it are over, pruners keep it still; then SB_SNAPSHOT_EVICTED,
 * below every cut; both by CAS, and it stays so until the owner ends it. */
#define SB_SNAPSHOT_PENDING  (UINT64_C(1) << 63)
#define SB_SNAPSHOT_EVICTING (UINT64_C(1) << 62)
#define SB_SNAPSHOT_EVICTED  UINT64_C(1)

struct sb_client {
        /* line: identity. The engine writes it in state CLAIMED. */
        struct sb_cell64 tag;
        uint64_t pid_start; /* /proc/PID/stat field 22, in clock ticks: tells a pid's lives apart */
        uint32_t pid, uid;  /* as the engine's namespace sees them */
        uint64_t attached_ns; /* CLOCK_MONOTONIC */
        uint32_t access, zero;
        uint64_t ticket; /* names the attempt to attach (ring/hello.h) */
        uint64_t pad0[2];
        /* line: the owner's own words, read by reclaimers and by the reaper.
         * pin: 0, or {lo : 32, hi : 32}, the eras that this client may be reading in.
         * operation: 0, or the offset of the node (low bits 0) whose key is being written, or
         * SB_OPERATION_COMMIT | that of a descriptor (struct sb_commit). freeing: 0, or the offset
         * of the block that is being freed. guard_high: guard words 0 .. guard_high-1 were ever
         * used. opens: counts snapshots opened. commits: counts transactions, never reset. */
        struct sb_cell64 pin;
        struct sb_cell64 operation;
        struct sb_cell64 freeing;
        struct sb_cell64 guard_high;
        struct sb_cell64 opens;
        struct sb_cell64 feed_head, feed_tail; /* of the feed ring: the engine's and the owner's */
        struct sb_cell64 commits;
        /* guard_chunk[i], i > 0: offset of the block with more guard words; the owner, cleared by
         * the reaper. */
        struct sb_cell64 guard_chunk[SB_GUARD_CHUNKS];
        /* struct sb_cell64 snapshot[snapshot_count]; struct sb_cell64 guard[guard_inline]; struct
         * sb_cell64 stock[stock_count]: 0, or the offset of a block that the owner has in hand
         * (shm/stock.h); feed entries */
        struct sb_cell64 words[];
};
static_assert(offsetof(struct sb_client, pin) == SB_LINE, "line");
static_assert(offsetof(struct sb_client, words) % SB_LINE == 0, "line");

#define SB_OPERATION_COMMIT UINT64_C(1)

/* What a feed ring carries: which key changed, never which version. */
struct sb_feed_entry {
        uint64_t node;
        uint64_t stamp;
};

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

/* ---- units ---- */

/* A unit's word: {kind : 4, class : 6, owner's slot + 1 or 0 : 22, owner's generation : 32}; for
 * SB_UNIT_PART the lower 32 bits are the number of the unit where the large block begins. FREE ->
 * anything: by CAS; with an owner: only the owner changes it (or the reaper of a dead one); slab
 * without owner: anybody makes it his own by CAS. A slab found empty by its owner becomes EMPTY:
 * {EMPTY, class, what kind it was : 22, era : 32}; it serves the same kind and class at once,
 * others only when nobody is pinned any more who was in that era and can know the unit's life: so a
 * slow freer's CAS never meets anything but a retire word. The bitmap of a FREE or EMPTY unit is
 * all zero. A unit's birth is the era in which its owner made it what it is, written before the
 * first bit. */
enum sb_unit_kind {
        SB_UNIT_FREE = 0,
        SB_UNIT_VERSIONS = 1,
        SB_UNIT_NODES = 2,
        SB_UNIT_GUARDS = 3,
        SB_UNIT_LARGE = 4,
        SB_UNIT_PART = 5,
        SB_UNIT_EMPTY = 6
};
#define SB_UNIT_WORD(kind, class_, slot1, generation)                                              \
        ((uint64_t)(kind) << 60 | (uint64_t)(class_) << 54 | (uint64_t)(slot1) << 32 |             \
                (uint32_t)(generation))
#define SB_UNIT_KIND(word)  ((uint32_t)((word) >> 60))
#define SB_UNIT_CLASS(word) ((uint32_t)((word) >> 54) & 63u)
#define SB_UNIT_OWNER(word)                                                                        \
        ((word)&UINT64_C(0x003fffffffffffff)) /* of a slab or large block; 0: nobody's */
#define SB_UNIT_ERA(word) ((uint32_t)(word))  /* of an EMPTY one */

/* ---- blocks ---- */

/* The first word of every block. birth: the allocator's hi when it filled the block; raised by a
 * sweep when it is very old, so that eras can wrap. retire: 0 live (or not published yet);
 * SB_RETIRE_HELD: an intent of a transaction that is not over for all; SB_RETIRE_DYING: on its way
 * out of what links it; an era: unlinked in that era; SB_RETIRE_FREEING | slot: client slot has it
 * in hand, to clear its bit or to use it again, and has noted it. */
struct sb_block {
        struct sb_cell32 birth;
        struct sb_cell32 retire;
};
#define SB_RETIRE_HELD    1u
#define SB_RETIRE_DYING   2u
#define SB_ERA_MIN        16u
#define SB_ERA_MAX        0xfffeffffu
#define SB_RETIRE_FREEING 0xffff0000u

enum sb_version_kind {
        SB_VERSION_VALUE = 0,
        SB_VERSION_DELETED = 1,
        SB_VERSION_EXPIRED = 2,
        SB_VERSION_BIRTH = 3,
        SB_VERSION_COMMIT = 4, /* no version: a transaction's descriptor */
        SB_VERSION_KIND = 7,
        SB_VERSION_HAS_EXPIRY = 8,
        SB_VERSION_HAS_TXN = 16
};

/* shape: {value length : 36, key length : 11, kind : 5, writer : 12} */
#define SB_SHAPE(value_len, key_len, kind, writer)                                                 \
        ((uint64_t)(value_len) << 28 | (uint64_t)(key_len) << 17 | (uint64_t)(kind) << 12 |        \
                (uint64_t)(writer))
#define SB_SHAPE_VALUE_LEN(shape) ((shape) >> 28)
#define SB_SHAPE_KEY_LEN(shape)   ((uint32_t)((shape) >> 17) & 0x7ffu)
#define SB_SHAPE_KIND(shape)      ((uint32_t)((shape) >> 12) & 31u)
#define SB_SHAPE_WRITER(shape)    ((uint32_t)(shape)&0xfffu)

struct sb_version {
        struct sb_block block;
        uint64_t rev;
        struct sb_cell64 stamp; /* 0: not yet; SB_STAMP_BIRTH; the clock after the install;
                                   SB_STAMP_INTENT | offset of the descriptor; SB_STAMP_ABORTED. By
                                   CAS */
        struct sb_cell64 prev;  /* offset of what it replaced, or 0; SB_PREV_MARKED: this version
                                   leaves the chain; SETTLED, TRIMMED. By CAS once published */
        uint64_t node;
        uint64_t shape;
        unsigned char bytes[]; /* key, value, trailers */
};
static_assert(sizeof(struct sb_version) == 48, "version");
#define SB_STAMP_BIRTH  UINT64_C(1) /* older than every cut that anybody took */
#define SB_STAMP_INTENT (UINT64_C(1) << 63)
/* Neither is ever a stamp: negative, so that every short way leaves them alone. */
#define SB_STAMP_ABORTED (SB_STAMP_INTENT | 8)
static inline bool sb_stamp_is_intent(uint64_t stamp)
{
        return (stamp & SB_STAMP_INTENT) && (stamp & SB_OFFSET_MASK);
}
#define SB_PREV_MARKED UINT64_C(1)
/* Something behind this version of a transaction was taken out: so the version was in its chain,
 * and no helper may set its link any more. */
#define SB_PREV_SETTLED UINT64_C(2)
/* A committed version was taken out from behind this one: the past is not whole any more. */
#define SB_PREV_TRIMMED UINT64_C(4)
/* Behind the value, where the kind has SB_VERSION_HAS_TXN: the number of the transaction. */
#define SB_TRAILER_TXN 8u
/* All of a version, header and trailer included. */
static inline uint64_t sb_version_size(uint64_t shape)
{
        return sizeof(struct sb_version) + SB_SHAPE_KEY_LEN(shape) + SB_SHAPE_VALUE_LEN(shape) +
               (SB_SHAPE_KIND(shape) & SB_VERSION_HAS_TXN ? SB_TRAILER_TXN : 0);
}

/* A transaction's descriptor: a block of its own, laid out like a version, so that all that frees
 * blocks takes it for one. What is plain is written before its offset is shown to anybody. */
struct sb_commit {
        struct sb_block block; /* retire: 0, DYING once the outcome is in all versions, an era */
        uint64_t number;       /* {slot + 1 : 16, count : 48}: as in the versions' trailers */
        struct sb_cell64 status;
        struct sb_cell64 zero; /* where versions have prev */
        uint64_t node;         /* 0: linked by nothing */
        uint64_t shape; /* kind SB_VERSION_COMMIT, no key; value length: all behind the head */
        uint64_t cut;   /* that was read at */
        uint32_t write_count;
        uint32_t range_count;
        uint64_t ranges_len; /* bytes */
        /* Offsets of the versions, in the order of their keys; then the ranges, packed: {low length
         * : 16, high length : 16, flags : 16, low, high}. */
        uint64_t write[];
};
static_assert(offsetof(struct sb_commit, shape) == offsetof(struct sb_version, shape), "commit");
static_assert(offsetof(struct sb_commit, status) == offsetof(struct sb_version, stamp), "commit");
static_assert(offsetof(struct sb_commit, zero) == offsetof(struct sb_version, prev), "commit");
static_assert(offsetof(struct sb_commit, node) == offsetof(struct sb_version, node), "commit");
/* status: {stamp or cause : 61, serializable : 1, state : 2}. Every change is a CAS:
 * snapshot isolation: {UNDECIDED, 0} -> {COMMITTED, 0} -> {COMMITTED, stamp};
 * serializable: {UNDECIDED, 0} -> {UNDECIDED, STAMPING}, all intents are in -> {UNDECIDED, stamp}
 * -> {COMMITTED, stamp}; both: {UNDECIDED, any}
 * -> {ABORTED, cause}: 0 gave way; 1 + number of the write that was not first; 1 + write_count +
 * number of the range; SB_CAUSE_GONE: a key went away, to be made again. */
enum sb_status { SB_STATUS_UNDECIDED = 0, SB_STATUS_COMMITTED = 1, SB_STATUS_ABORTED = 2 };
#define SB_STATUS_STATE(word)      ((enum sb_status)((word)&3u))
#define SB_STATUS_SERIALIZABLE     UINT64_C(4)
#define SB_STATUS_VALUE(word)      ((word) >> 3)
#define SB_STATUS_OF(state, value) ((uint64_t)(value) << 3 | (uint64_t)(state))
/* The clock is read for it from now on: no stamp, but below all. */
#define SB_STATUS_STAMPING UINT64_C(1)
#define SB_CAUSE_GONE      ((UINT64_C(1) << 61) - 1)
#define SB_RANGE_POINT     1u /* the key low alone */
#define SB_RANGE_NO_END    2u
#define SB_RANGE_HEAD      6u /* bytes before low and high */

struct sb_node {
        struct sb_block block;
        struct sb_cell64 cell; /* 0 none yet; number of the cell that is the key's (SB_CELL_NUMBER);
                                  SB_NODE_GONE. By CAS */
        struct sb_cell64 ring; /* later: the ring of a watched key */
        struct sb_cell64 rule; /* of history, SB_RULE_WORD (shm/rules.h); by CAS */
        uint64_t hash;
        struct sb_cell32 unhooked; /* 0, or the era when the removed node was out of cell and index:
                                      starts its first grace period */
        uint16_t key_len;
        uint16_t height;         /* 1 .. SB_HEIGHT_MAX */
        struct sb_cell64 next[]; /* height links, SB_PREV_MARKED as in versions: this node leaves
                                    the level; then the key */
};
static_assert(sizeof(struct sb_node) == 48, "node");
#define SB_NODE_GONE UINT64_MAX
/* Number of a cell, never 0: 8 * (bucket number + 1) + place in the bucket; spill buckets follow
 * the others. */
#define SB_CELL_NUMBER(bucket, place) (((uint64_t)(bucket) + 1) * 8 + (place))

/* A block of a SB_UNIT_GUARDS slab: more guard words for one client. */
struct sb_guard_chunk {
        struct sb_block block;
        uint64_t owner; /* {generation : 32, slot : 16, number of the chunk : 16} */
        struct sb_cell64 guard[];
};

#endif
