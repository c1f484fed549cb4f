/*
 * Units, and the blocks in them: versions, descriptors, nodes and chunks of guard words.
 *
 * Always true: what is plain is written before the block is published, and never afterwards.
 */
#ifndef SB_LAYOUT_BLOCK_H
#define SB_LAYOUT_BLOCK_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/superblock.h"

#define SB_CLASS_MAX 60u
#define SB_BLOCK_MIN 64u

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

static inline bool sb_version_has_value(const struct sb_version *version)
{
        return (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE;
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

/* A block of a SB_UNIT_GUARDS slab: more guard words for one client. */
struct sb_guard_chunk {
        struct sb_block block;
        uint64_t owner; /* {generation : 32, slot : 16, number of the chunk : 16} */
        struct sb_cell64 guard[];
};

#endif
