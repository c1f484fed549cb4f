/*
 * Units, and the blocks in them: versions, descriptors of transactions, nodes of keys, and chunks
 * of guard words.
 *
 *      unit word         {kind, class, owner or what it was}       one for each unit
 *      unit birth        era                                       one for each unit
 *      unit bitmap       a bit for each block that is taken        one for each unit
 *      vacancies         lists of units, a bit for each unit       memory/vacancy.h
 *
 *      version           block | rev  stamp  prev  node  shape | key  value  trailers
 *      descriptor        block | number  status  -  -  shape | cut  counts | write set | read set
 *      ring              block | -  state  -  node  shape | gone  more  counts | slots | watchers
 *      node              block | cell  ring  rule  hash  unhooked | links | key
 *      guard chunk       block | owner | guard words
 *
 * All blocks begin with struct sb_block, and a descriptor is laid out like a version, so that all
 * code that frees blocks needs no more than that.
 *
 * Always true: what is plain is written before the block is published, and never afterwards. What
 * changes is a word, and its comment names what may write it.
 */
#ifndef SB_LAYOUT_BLOCK_H
#define SB_LAYOUT_BLOCK_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/superblock.h"

#ifndef SB_CLASS_MAX
#define SB_CLASS_MAX 60u /* size classes of slabs */
#endif
#define SB_BLOCK_MIN 64u /* bytes of the smallest class */

/* ---- units ---- */

/* A unit's word: {kind : 4, class : 6, owner : 54}. The owner is {slot + 1 : 22, generation : 32},
 * or 0. In a PART the low 32 bits are the number of the unit where the large block begins. In an
 * EMPTY unit they are {era since when, high : 19, the kind that it was : 3, era, low : 32}.
 *
 * FREE -> anything: any client, by CAS. With an owner: that owner alone (or the reaper of a dead
 * one). A slab without an owner: any client, by CAS, becomes its owner. A slab that its owner finds
 * empty becomes EMPTY. An EMPTY unit serves the same kind and class at once, and others only when
 * no process is pinned any more that was in that era and can know the unit's life: so a slow
 * reclaimer's CAS never meets anything but a retire word.
 *
 * The bitmap of a FREE or EMPTY unit is all zero. A unit's birth is the era in which its owner made
 * it what it is; the owner writes it before the first bit. */
enum sb_unit_kind {
        SB_UNIT_FREE = 0,
        SB_UNIT_VERSIONS = 1, /* a slab, as the next two are */
        SB_UNIT_NODES = 2,
        SB_UNIT_GUARDS = 3,
        SB_UNIT_LARGE = 4, /* the first unit of a large block */
        SB_UNIT_PART = 5,  /* a further one */
        SB_UNIT_EMPTY = 6
};
#define SB_UNIT_WORD(kind, class_, slot1, generation)                                              \
        ((uint64_t)(kind) << 60 | (uint64_t)(class_) << 54 | (uint64_t)(slot1) << 32 |             \
                (uint32_t)(generation))
#define SB_UNIT_KIND(word)  ((uint32_t)((word) >> 60))
#define SB_UNIT_CLASS(word) ((uint32_t)((word) >> 54) & 63u)
/* Of a slab or large block; 0: no owner. */
#define SB_UNIT_OWNER(word) ((word)&UINT64_C(0x003fffffffffffff))
/* Of an EMPTY unit. */
#define SB_UNIT_EMPTY_WORD(class_, was, era)                                                       \
        ((uint64_t)SB_UNIT_EMPTY << 60 | (uint64_t)(class_) << 54 |                                \
                ((uint64_t)(era) >> 32 & 0x7ffff) << 35 | (uint64_t)(was) << 32 | (uint32_t)(era))
#define SB_UNIT_WAS(word) ((uint32_t)((word) >> 32) & 7u)
#define SB_UNIT_ERA(word) (((word) >> 35 & 0x7ffff) << 32 | (uint32_t)(word))

/* ---- blocks ---- */

/* The first word of every block.
 *
 * The retire word of a block: 0: live, or not published yet. SB_RETIRE_HELD: an intent of a
 * transaction that is not over for all processes. SB_RETIRE_DYING: on its way out of what links it.
 * The low bits of an era: unlinked in that era. SB_RETIRE_FREEING | slot: client slot has it in
 * hand, to clear its bit or to use it again, and has noted it in its record. docs/format.md draws a
 * block's life. */
struct sb_block {
        struct sb_word32 birth;  /* the low bits of the era of its taker's pin; or a label, when it
                                    is very old: a sweeper, CAS (memory/era.h) */
        struct sb_word32 retire; /* see above; any process, CAS; the client that has it in hand or
                                    begins its next life, a store */
};
#define SB_RETIRE_HELD    1u
#define SB_RETIRE_DYING   2u
#define SB_RETIRE_FREEING 0xffff0000u
/* The low bits of an era: births and dates have no more. They are never less than SB_ERA_MIN. */
#ifndef SB_ERA_LOW
#define SB_ERA_LOW 0x7fffffffu
#endif
#define SB_ERA_MIN 16u
/* Eras last for 200 years at 10,000 a second. */
#define SB_ERA_MAX ((UINT64_C(1) << 46) - 1)

/* A label: {1, number of a base : 13, tag : 18}. Record n has the bases 2 n and 2 n + 1. */
#define SB_BIRTH_LABEL           0x80000000u
#define SB_BIRTH_BASE(birth)     ((birth) >> 18 & 0x1fffu)
#define SB_BIRTH_TAG(birth)      ((birth)&0x3ffffu)
#define SB_BIRTH_OF(number, tag) (SB_BIRTH_LABEL | (uint32_t)(number) << 18 | (uint32_t)(tag))
/* The label of what was born at the beginning: there is no such base. */
#define SB_BIRTH_FIRST UINT32_MAX

/* ---- versions ---- */

/* VALUE, DELETED and EXPIRED are what a reader finds. A PLACEHOLDER stands in a new key's cell
 * until the first version, and no reader finds it. A DESCRIPTOR is no version, but a transaction's
 * descriptor; nor is a RING (notify/ring.h). With one of them: HAS_EXPIRY, HAS_TXN: a trailer. */
enum sb_version_kind {
        SB_VERSION_VALUE = 0,
        SB_VERSION_DELETED = 1,
        SB_VERSION_EXPIRED = 2,
        SB_VERSION_PLACEHOLDER = 3,
        SB_VERSION_DESCRIPTOR = 4,
        SB_VERSION_RING = 5,
        SB_VERSION_KIND = 7, /* mask */
        SB_VERSION_HAS_EXPIRY = 8,
        SB_VERSION_HAS_TXN = 16
};

/* A shape: {value length : 36, key length : 11, kind : 5, writer : 12}. */
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
        struct sb_word64 stamp; /* 0: not yet; SB_STAMP_PLACEHOLDER; the clock after the install;
                                   SB_STAMP_INTENT | offset of the descriptor; SB_STAMP_ABORTED.
                                   Any process, CAS */
        struct sb_word64 prev;  /* offset of the version that it replaced, or that it is a copy of
                                   (upkeep/move.h), or 0; with SB_PREV_*. Once published: any
                                   process, CAS */
        uint64_t node;          /* offset of its key's node */
        uint64_t shape;
        unsigned char bytes[]; /* key, value, trailers */
};
static_assert(sizeof(struct sb_version) == 48, "version");

/* A placeholder's stamp: older than every cut that was ever taken. */
#define SB_STAMP_PLACEHOLDER UINT64_C(1)
/* Intents and aborted versions have no stamp: their words are negative, so that every short way
 * leaves them alone. */
#define SB_STAMP_INTENT  (UINT64_C(1) << 63)
#define SB_STAMP_ABORTED (SB_STAMP_INTENT | 8)
static inline bool sb_stamp_is_intent(uint64_t stamp)
{
        return (stamp & SB_STAMP_INTENT) && (stamp & SB_OFFSET_MASK);
}

/* MARKED: this version leaves the chain. SETTLED: a version behind this one, which is a
 * transaction's, was taken out, so this one was in its chain, and no helper may set its link any
 * more. TRIMMED: a committed version was taken out from behind this one, so that the past is not
 * whole any more. */
#define SB_PREV_MARKED  UINT64_C(1)
#define SB_PREV_SETTLED UINT64_C(2)
#define SB_PREV_TRIMMED UINT64_C(4)

/* Bytes behind the value, where the kind has SB_VERSION_HAS_TXN: the number of the transaction. */
#define SB_TRAILER_TXN 8u
/* Bytes of a whole version, header and trailer included. */
static inline uint64_t sb_version_size(uint64_t shape)
{
        return sizeof(struct sb_version) + SB_SHAPE_KEY_LEN(shape) + SB_SHAPE_VALUE_LEN(shape) +
               (SB_SHAPE_KIND(shape) & SB_VERSION_HAS_TXN ? SB_TRAILER_TXN : 0);
}

static inline bool sb_version_has_value(const struct sb_version *version)
{
        return (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE;
}

/* ---- descriptors ---- */

/* A transaction's descriptor: the versions that it writes, the ranges that it read, and its
 * outcome. What is plain is written before another process sees the descriptor's offset. */
struct sb_descriptor {
        struct sb_block block;   /* retire: 0; DYING once the outcome is in all versions; an era */
        uint64_t number;         /* {slot + 1 : 16, count : 48}: as in the versions' trailers */
        struct sb_word64 status; /* SB_STATUS_*; any process, CAS */
        struct sb_word64 zero;   /* where versions have prev */
        uint64_t node;           /* 0: no node links it */
        uint64_t shape; /* kind SB_VERSION_DESCRIPTOR, no key; value length: all behind the head */
        uint64_t cut;   /* at which the transaction read */
        uint32_t write_count;
        uint32_t range_count;
        uint64_t ranges_len; /* bytes */
        /* The write set: offsets of the versions, in the order of their keys. Then the read set:
         * ranges, packed: {low length : 16, high length : 16, flags : 16, low, high}. */
        uint64_t write[];
};
static_assert(
        offsetof(struct sb_descriptor, shape) == offsetof(struct sb_version, shape), "commit");
static_assert(
        offsetof(struct sb_descriptor, status) == offsetof(struct sb_version, stamp), "commit");
static_assert(offsetof(struct sb_descriptor, zero) == offsetof(struct sb_version, prev), "commit");
static_assert(offsetof(struct sb_descriptor, node) == offsetof(struct sb_version, node), "commit");

/* A status: {stamp or cause : 61, serializable : 1, state : 2}.
 *
 * Snapshot isolation: {UNDECIDED, 0} -> {COMMITTED, 0} -> {COMMITTED, stamp}.
 * Serializable: {UNDECIDED, 0} -> {UNDECIDED, STAMPING}: all intents are in, and the clock is read
 * for it from now on -> {UNDECIDED, stamp} -> {COMMITTED, stamp}.
 * Both: {UNDECIDED, any} -> {ABORTED, cause}. A cause is 0: it gave way; 1 + number of the write
 * that was not first; 1 + write_count + number of the range that changed; SB_CAUSE_GONE: a key went
 * away, to be made again. */
enum sb_status { SB_STATUS_UNDECIDED = 0, SB_STATUS_COMMITTED = 1, SB_STATUS_ABORTED = 2 };
#define SB_STATUS_STATE(word)      ((enum sb_status)((word)&3u))
#define SB_STATUS_SERIALIZABLE     UINT64_C(4)
#define SB_STATUS_VALUE(word)      ((word) >> 3)
#define SB_STATUS_OF(state, value) ((uint64_t)(value) << 3 | (uint64_t)(state))
#define SB_STATUS_STAMPING         UINT64_C(1) /* no stamp, but below all */
#define SB_CAUSE_GONE              ((UINT64_C(1) << 61) - 1)

/* Flags of a range: the key low alone; up to the last key. */
#define SB_RANGE_POINT  1u
#define SB_RANGE_NO_END 2u
#define SB_RANGE_HEAD   6u /* bytes before low and high */

/* ---- rings ---- */

/* The ring of a key, or of a watched prefix, or a further block of its slots or watchers;
 * notify/ring.h, notify/hint.h. */
struct sb_ring {
        struct sb_block block;
        /* Where versions have rev. Watchers read it with each change: it lies more than a line from
         * the tail, which each process that tells moves. */
        struct sb_word64 given; /* of hints: what was superseded up to this cut was given up; any
                                   process, CAS, only up */
        struct sb_word64 state; /* SB_TURN_*; any process, locked. Of a further block: 0, or the
                                   entry of the watch that wants revisions; its client */
        struct sb_word64 zero;  /* where versions have prev */
        uint64_t node;
        uint64_t shape;        /* kind SB_VERSION_RING, no key; value length: all behind the head */
        struct sb_word64 gone; /* UNOPENED, then a revision; any process, CAS, only up */
        struct sb_word64 more; /* offset of a further block, 0: none, or SB_RING_SEALED: none will
                                  come; any client, CAS from 0 */
        uint64_t want_count;
        uint64_t hints; /* 0: slots name versions; 1: a prefix's, they are hints */
        uint32_t slot_count, watcher_count;
        union {
                struct sb_word64 tail;  /* of hints: how many there were; any process, CAS, +1 */
                struct sb_word64 first; /* of revisions that are wanted: the number of the first;
                                           that client, only up */
        };
        union {
                struct sb_word64 mark; /* of hints: the clock, a while ago; any process, CAS, only
                                          up */
                struct sb_word64 room; /* of revisions that are wanted: how many are at once; that
                                          client */
        };
        /* The slots, {tag 20 | offset, or number of a cell, 44}; any process, CAS. Then the
         * watchers: SB_WATCHER or 0; a client that watches, and a sweeper, which takes away what
         * dead ones left: CAS. Then the revisions that the watch of the first entry wants, while
         * `state` says that entry, number n in word n modulo `room`: that client. */
        struct sb_word64 words[];
};
static_assert(offsetof(struct sb_ring, state) == offsetof(struct sb_version, stamp), "ring");
static_assert(offsetof(struct sb_ring, zero) == offsetof(struct sb_version, prev), "ring");
static_assert(offsetof(struct sb_ring, node) == offsetof(struct sb_version, node), "ring");
static_assert(offsetof(struct sb_ring, shape) == offsetof(struct sb_version, shape), "ring");
static_assert(offsetof(struct sb_ring, tail) >= offsetof(struct sb_ring, given) + SB_LINE, "ring");

#define SB_RING_SEALED UINT64_C(1)

/* Which of two bits says that something is watched (notify/turn.h): {joins : 61, CLOSED, TURN,
 * CLEARING}. */
#define SB_TURN_CLEARING UINT64_C(1)
#define SB_TURN_SECOND   UINT64_C(2)
#define SB_TURN_CLOSED   UINT64_C(4)
#define SB_TURN_JOIN     UINT64_C(8)

/* {slot + 1 : 16, dirty bit : 16, generation : 32}. */
#define SB_WATCHER(slot, bit, generation)                                                          \
        (((uint64_t)(slot) + 1) << 48 | (uint64_t)((bit)&0xffffu) << 32 | (uint32_t)(generation))
#define SB_WATCHER_SLOT(word)       ((uint32_t)((word) >> 48) - 1)
#define SB_WATCHER_BIT(word)        ((uint32_t)((word) >> 32) & 0xffffu)
#define SB_WATCHER_GENERATION(word) ((uint32_t)(word))

/* ---- nodes ---- */

/* What a key keeps through all its versions: its bytes, and its cell. */
struct sb_node {
        struct sb_block block;
        struct sb_word64 cell; /* 0: none yet; number of the key's cell (SB_CELL_NUMBER);
                                  SB_NODE_GONE. Any process, CAS */
        struct sb_word64 ring; /* offset of the ring of a watched key, or 0; any process, CAS */
        struct sb_word64 rule; /* of history, a copy (history/rules.h); any client, CAS */
        uint64_t hash;
        struct sb_word32 unhooked; /* 0, or the era when the removed node was out of cell and index,
                                      which begins its first grace period; any process, CAS */
        uint16_t key_len;
        uint16_t zero;
        unsigned char key[];
};
static_assert(sizeof(struct sb_node) == 48, "node");
#define SB_NODE_GONE UINT64_MAX

/* ---- branches ---- */

/* A branch of the ordered index (keys/order.h), in a slab of nodes. The symbol of a key at a depth
 * is 0 at its end, else 1 + four bits of it, the high ones of a byte first. */
struct sb_branch {
        struct sb_block block;
        struct sb_word64 shape;  /* where nodes have `cell`: SB_BRANCH_SHAPE; its maker, before the
                                    branch is linked */
        struct sb_word64 slot[]; /* any client, CAS and OR */
};
#define SB_BRANCH_SYMBOLS 17u
/* How many slots: few, more, or one for each symbol, in the order of the symbols. */
#ifndef SB_BRANCH_FEW
#define SB_BRANCH_FEW  6u
#define SB_BRANCH_MORE 10u
#endif

/* {8 : 4, anchor : 8, slots : 8, depth : 16}. No node names such a cell. */
#define SB_BRANCH_SHAPE(depth, slots, anchor)                                                      \
        (UINT64_C(8) << 60 | (uint64_t)(anchor) << 24 | (uint64_t)(slots) << 16 | (uint64_t)(depth))
#define SB_BRANCH_IS(shape)     ((shape) >> 60 == 8)
#define SB_BRANCH_DEPTH(shape)  ((uint32_t)(shape)&0xffffu)
#define SB_BRANCH_SLOTS(shape)  ((uint32_t)((shape) >> 16) & 0xffu)
#define SB_BRANCH_ANCHOR(shape) ((uint32_t)((shape) >> 24) & 0xffu)

/* A slot: {symbol + 1 : 16, offset of a node or branch, flags : 4}; 0: free. Once it has a symbol,
 * that stays. LEAF: the offset is a node's. FROZEN: the slot stays as it is, a copy of its branch
 * takes its place. */
#define SB_SLOT_LEAF           UINT64_C(1)
#define SB_SLOT_FROZEN         UINT64_C(2)
#define SB_SLOT(symbol, link)  ((uint64_t)((symbol) + 1) << 48 | (link))
#define SB_SLOT_SYMBOL(word)   ((uint32_t)((word) >> 48)) /* + 1 */
#define SB_SLOT_LINK(word)     ((word) & (SB_OFFSET_MASK | SB_SLOT_LEAF))
#define SB_SLOT_TO(word, link) (((word) & ~(SB_OFFSET_MASK | SB_SLOT_LEAF)) | (link))

/* ---- guard chunks ---- */

/* A block of a SB_UNIT_GUARDS slab: more guard words for one client. */
struct sb_guard_chunk {
        struct sb_block block;
        uint64_t owner;           /* {generation : 32, slot : 16, number of the chunk : 16} */
        struct sb_word64 guard[]; /* as in the record; the owner, the reaper of a dead one */
};

#endif
