/*
 * The client's half of attaching: find the bus's socket, ask the engine, receive the segment's
 * descriptor, map it.
 *
 * Always true: nothing stays open afterwards but the map, which no fork inherits (MADV_DONTFORK);
 * whatever fails gives the client record back. The engine may die at any moment in between: the
 * request is made again, with the same ticket.
 */
#ifndef SB_ATTACH_H
#define SB_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/attach/place.h"
#include "shm/layout/segment.h"

/* For sb_peer_init(&peer, &attachment.segment, attachment.slot, attachment.generation). */
struct sb_attachment {
        struct sb_segment segment; /* segment.base is the map, segment.geometry.size its length */
        uint32_t slot, generation;
        uint32_t access; /* enum sb_access, granted */
};

/**
 * sb_attach() - take a client record on a bus and map its segment
 * @place:      the bus
 * @access:     enum sb_access, the most wanted
 *
 * Return:   0; -ECONNREFUSED (no agentd serves the bus); SB_E_DENIED; SB_E_FULL; -EPROTONOSUPPORT;
 * -ENOTSUP (an access that this daemon cannot give); -EINTR (a signal came while waiting); other
 * -errno. Progress: waits for the engine: one that is stopped delays attaching.
 */
int sb_attach(const struct sb_place *place, uint32_t access, struct sb_attachment *ret);

/* Unmap. The record was released before (sb_peer_fini, sb_slot_release). */
void sb_attach_unmap(struct sb_attachment *attachment);

/**
 * sb_attach_lost() - whether nobody serves the segment any more
 *
 * The fast half, sb_segment_serving(), is one line of the superblock; call this one when that says
 * false. It asks the kernel and, where keeper and engine are both dead, whoever listens on the
 * bus's socket now.
 *
 * Return: true: SB_E_DETACHED for good.
 */
bool sb_attach_lost(const struct sb_place *place, const struct sb_segment *segment);

/**
 * sb_attach_evict() - ask the engine to take a client's snapshots away
 * @target:       SB_HELLO_WHOM()
 * @kill:       and end its process
 *
 * Return: 0; SB_E_NOT_FOUND: there is no such client; otherwise as sb_attach().
 */
int sb_attach_evict(const struct sb_place *place, uint64_t target, bool kill, uint32_t *ret_count);

/**
 * sb_attach_start() - start agentd for a bus in the background, and wait until it is ready or has
 * ended
 * @options:    more options of agentd, NULL at the end; or NULL
 *
 * The program is $STATEBUS_AGENTD, else `agentd` on the PATH; it logs to BUS/agentd.log.
 *
 * Return: 0: ready; -ECONNREFUSED: it ended before it was (another one serves already, or the log
 * says why); -errno: it could not be started; -EINTR.
 */
int sb_attach_start(const struct sb_place *place, const char *const *options);

#endif
