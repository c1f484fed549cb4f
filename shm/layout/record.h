/*
 * Client records: the words in the segment that belong to one attached process, and which process
 * has which record. The engine claims a record; its owner frees it, or the reaper of a dead owner.
 */
#ifndef SB_LAYOUT_RECORD_H
#define SB_LAYOUT_RECORD_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/superblock.h"

#define SB_GUARDS_MAX      65536u
#define SB_STOCK_MAX       352u /* blocks that one client has in hand */
#define SB_STOCK_BATCH_MIN 64u  /* so many at least: a smaller stock is not worth its batches */
#define SB_STOCK_BLOCK     256u /* of this size at least, where there are any */
/* Chunk 0 of a client's guard words lies in its record; each further one doubles, up to the largest
 * class. So many are SB_GUARDS_MAX words where units are smallest, in segments of up to 16 MiB. */
#ifndef SB_GUARD_CHUNKS
#define SB_GUARD_CHUNKS 264u
#endif

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

#endif
