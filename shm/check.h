/*
 * The one validator: walks a whole segment and says whether it is sound. Used by tests on images,
 * by an engine that adopts a segment, and by agentctl. Clients may go on reading and writing
 * meanwhile: what looks wrong is looked at again. Treats the segment as hostile input: never
 * asserts on it, every loop has a bound.
 */
#ifndef SB_CHECK_H
#define SB_CHECK_H

#include "peer.h"

struct sb_check_report {
        uint32_t problem_count;                               /* 0: sound */
        char problems[8][160];                                /* the first ones, as sentences */
        uint64_t keys, keys_deleted, births, versions, nodes; /* reachable */
        /* waiting: unlinked, for a grace period */
        uint64_t units_free, units_used, blocks_used, blocks_waiting;
        uint64_t blocks_private; /* taken by a live client, not published */
        /* allocated, reachable by nothing, owned by nobody alive: each is also a problem */
        uint64_t blocks_lost;
        uint64_t bytes_used, bytes_free;
        uint64_t clients, guards, pinned, snapshots;
};

/* @peer: an attached handle (pins while it walks). @quiescent: nobody else is running, so private
 * blocks of free records and the like are reported too. Return: 0 (see problem_count), or -EBADMSG
 * when the superblock is unusable. */
int sb_check(struct sb_peer *peer, bool quiescent, struct sb_check_report *ret);

#endif
