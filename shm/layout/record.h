/*
 * A client record: the words in the segment that belong to one attached process. Record 0 is the
 * engine's. roster.h says which process has which record.
 *
 *      struct sb_record             identity | the owner's words | guard_chunk[] | bell | dirty[]
 *      snapshot[snapshot_count]     announcements of the cuts of open snapshots
 *      guard[guard_inline]          guard words (memory/guard.h)
 *      magazine[magazine_count]     entries of the magazine (memory/magazine.h)
 *      opened[snapshot_count]       how often each announcement was made
 *
 * Always true: a record's words are written by its owner, and by the reaper of a dead owner. Where
 * another process writes one, too, the word's comment says so. All processes may read them.
 */
#ifndef SB_LAYOUT_RECORD_H
#define SB_LAYOUT_RECORD_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/superblock.h"

#define SB_GUARDS_MAX         65536u
#define SB_MAGAZINE_MAX       352u /* entries of a magazine */
#define SB_MAGAZINE_HANDS     4u   /* entries at least: what a client with spares has in hand */
#define SB_MAGAZINE_BATCH_MIN 64u  /* a magazine of fewer entries is not worth its batches */
#define SB_MAGAZINE_BLOCK     256u /* bytes; every magazine takes blocks of up to this size */
/* Chunk 0 of a client's guard words lies in its record. Each further one is as large as all before
 * it, up to the largest class. So many chunks hold SB_GUARDS_MAX words where units are smallest, in
 * segments of up to 16 MiB. */
#ifndef SB_GUARD_CHUNKS
#define SB_GUARD_CHUNKS 264u
#endif

/* ---- the tag ---- */

/* A record's tag: {generation : 32, state : 32}. FREE -> CLAIMED -> ATTACHED by the engine;
 * ATTACHED -> FREE by the owner (sb_close); CLAIMED, ATTACHED -> DEAD -> FREE by the reaper. The
 * generation grows on the way to FREE. */
enum sb_record_state {
        SB_RECORD_FREE = 0,
        SB_RECORD_CLAIMED = 1,
        SB_RECORD_ATTACHED = 2,
        SB_RECORD_DEAD = 3
};
#define SB_RECORD_TAG(generation, state)                                                           \
        ((uint64_t)(uint32_t)(generation) << 32 | (uint32_t)(state))

/* ---- announcements ---- */

/* An announcement is 0 (none), or SB_SNAPSHOT_PENDING | count of opens: a snapshot is being opened,
 * and any process that meets it gives it a cut, by CAS; or the cut. The engine may take a snapshot
 * away (mvcc/evict.h): cut | SB_SNAPSHOT_EVICTING: reads at it are over, but pruners keep it still;
 * then SB_SNAPSHOT_EVICTED, below every cut, until the owner ends it. Both by CAS. */
#define SB_SNAPSHOT_PENDING  (UINT64_C(1) << 63)
#define SB_SNAPSHOT_EVICTING (UINT64_C(1) << 62)
#define SB_SNAPSHOT_EVICTED  UINT64_C(1)

/* ---- the doorbell ---- */

#define SB_BELL_SLEEPS (UINT64_C(1) << 32)
/* Of watches beyond 64 times as many, two or more share a bit. At most 64. */
#ifndef SB_DIRTY_WORDS
#define SB_DIRTY_WORDS 64u
#endif

/* ---- the record ---- */

#define SB_BASE(era, tag) ((uint64_t)(era) << 18 | ((tag)&0x3ffffu))
#define SB_BASE_ERA(word) ((word) >> 18)
#define SB_BASE_TAG(word) ((uint32_t)(word)&0x3ffffu)
#define SB_RECORD_BASES   2u

/* A pin of {hi, back}; a back that is too large to say means: from the beginning. */
#define SB_PIN(hi, back) ((uint64_t)(hi) << 16 | (back))
#define SB_PIN_BACK_MAX  0xffffu
#define SB_PIN_HI(pin)   ((pin) >> 16)
static inline uint64_t sb_record_pin_lo(uint64_t pin)
{
        return (pin & SB_PIN_BACK_MAX) == SB_PIN_BACK_MAX ? 0
                                                          : (pin >> 16) - (pin & SB_PIN_BACK_MAX);
}

struct sb_record {
        /* Line 0: identity. The engine writes it in state CLAIMED. */
        struct sb_word64 tag; /* SB_RECORD_TAG; engine, owner, reaper: by CAS to claim the record,
                                 to leave it and to declare its owner dead */
        uint64_t pid_start; /* /proc/PID/stat field 22, in clock ticks: tells a pid's lives apart */
        uint32_t pid, uid;  /* as the engine's namespace sees them */
        uint64_t attached_ns; /* CLOCK_MONOTONIC */
        uint32_t access;
        uint32_t map_locked; /* 1: while the owner maps the segment, byte `slot` of the segment's
                                file is locked (agentd/reaper.c); 0: nothing tells */
        uint64_t ticket;     /* names the attempt to attach (ring/attach/hello.h) */
        /* {era : 46, tag : 18}: bases, which labels of blocks name. The era is 0: free, or going.
         * Any sweeper, CAS; they outlive the record's owner (memory/era.h). */
        struct sb_word64 base[2];

        /* Line 1: the owner's own words, which reclaimers and the reaper read. */
        struct sb_word64 pin;       /* 0, or {hi : 48, back : 16}: the eras that the owner may be
                                       reading in, from hi - back to hi (memory/pin.h) */
        struct sb_word64 operation; /* 0; or offset of the node of the key that is being written; or
                                       SB_OPERATION_DESCRIPTOR | offset of a descriptor. A link:
                                       memory/note.h says how it is followed */
        struct sb_word64 freeing;   /* 0, or offset of the block that is being freed */
        struct sb_word64 guard_high; /* no guard is in a word from this one on */
        struct sb_word64 opens;      /* counts snapshots opened */
        uint64_t unused2[2];
        struct sb_word64 commits; /* counts transactions, never reset */

        /* Lines 2 to 34: chunk i > 0 is the block at offset guard_chunk[i], or not made yet: 0. */
        struct sb_word64 guard_chunk[SB_GUARD_CHUNKS];

        /* Line 35: the doorbell (notify/bell.h). */
        struct sb_word32 bell;   /* counts rings, the word of a futex; any process, CAS, +1 */
        struct sb_word32 rung;   /* right below it sleepers were woken; any process */
        struct sb_word64 sleeps; /* 0, or SB_BELL_SLEEPS | the count that the owner sleeps on */
        struct sb_word64
                dirty_any; /* a bit for each word of dirty[] with bits; any process, locked */
        uint64_t unused[5];
        /* Lines 36 to 43: a bit for each watch with something to see; any process, locked. */
        struct sb_word64 dirty[SB_DIRTY_WORDS];

        /* snapshot[snapshot_count]: announcements; pending ones any process resolves, the engine
         * takes cuts away, both by CAS. guard[guard_inline]: 0, or offset of the version or node
         * that is held; or, for a moment or until its owner is reaped, of what was one.
         * magazine[magazine_count]: 0, or offset of a block that the owner has in hand.
         * opened[snapshot_count]: counts what was announced in snapshot[] of the same index, by any
         * owner: never reset. */
        struct sb_word64 words[];
};
static_assert(offsetof(struct sb_record, pin) == SB_LINE, "line");
static_assert(offsetof(struct sb_record, guard_chunk) == 2 * SB_LINE, "line");
static_assert(offsetof(struct sb_record, words) % SB_LINE == 0, "line");

#define SB_OPERATION_DESCRIPTOR UINT64_C(1)

/* What names a transaction, or a mark: {slot + 1 : 16, count : 48}. After 2^48 of one record (a
 * million a second for nine years) the counts come again. */
#define SB_RECORD_NUMBER(slot, count)                                                              \
        (((uint64_t)(slot) + 1) << 48 | ((uint64_t)(count) & ((UINT64_C(1) << 48) - 1)))

#endif
