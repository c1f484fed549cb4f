/*
 * The client's half of attaching: it finds the bus's socket, asks the engine, receives the
 * segment's descriptor, and maps the segment.
 *
 * The engine may die at any moment in between. The client then asks again with the same ticket, by
 * which the next engine finds the record that the first one may have given out already.
 *
 * Always true: no descriptor stays open afterwards; what stays is the map, which a forked child
 * does not inherit (MADV_DONTFORK). When attaching fails, the record is given back.
 */
#ifndef SB_ATTACH_H
#define SB_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/attach/place.h"
#include "shm/layout/segment.h"

/* What sb_handle_init() needs: the segment, and which record of it is this client's. */
struct sb_attachment {
        struct sb_segment segment; /* segment.base is the map, segment.geometry.size its length */
        uint32_t slot, generation;
        uint32_t access; /* enum sb_access, granted */
};

/**
 * sb_attach_as() - take a record on a bus and map the bus's segment
 * @place:      where the bus lives
 * @verb:       SB_HELLO_ATTACH; SB_HELLO_ATTACH_OPERATOR: for agentctl
 * @access:     enum sb_access, the most wanted
 * @ret:        to be given back by sb_attach_unmap(), once the record was released
 *
 * Return:   0; -ECONNREFUSED (no agentd serves the bus); SB_E_DENIED; SB_E_FULL; -EPROTONOSUPPORT;
 *           -ENOTSUP (this daemon cannot give that access); -EINTR (a signal came while it waited);
 *           other -errno.
 * Progress: the call waits for the engine; an engine that is stopped delays attaching.
 * Cost:     a connection and a mapping of the whole segment.
 */
int sb_attach_as(
        const struct sb_place *place, uint32_t verb, uint32_t access, struct sb_attachment *ret);
/* The same for a client. */
int sb_attach(const struct sb_place *place, uint32_t access, struct sb_attachment *ret);

/* Unmap the segment. The caller has released the record before (sb_handle_fini(),
 * sb_roster_release()). A second call does nothing. */
void sb_attach_unmap(struct sb_attachment *attachment);

/**
 * sb_attach_lost() - whether no agentd serves the segment any more
 *
 * The fast half, sb_segment_serving(), reads one line of the superblock; call this one when that
 * says false. This one asks the kernel which process listens on the bus's socket now: a segment is
 * lost unless it is that process's. One that may not ask takes it for lost.
 *
 * Return: true: SB_E_DETACHED for good.
 * Cost:   a connection.
 */
bool sb_attach_lost(const struct sb_place *place, const struct sb_segment *segment);

/**
 * sb_attach_served() - whether an agentd takes clients of the bus
 *
 * Behind a segment that was lost, this tells an end of the bus from a new segment of the same bus:
 * an agentd that stops takes its socket away before it gives the segment up, and the socket of one
 * that was killed refuses.
 *
 * Return: 0; -ECONNREFUSED: no agentd serves the bus; -errno.
 * Cost:   a connection, which waits for no answer.
 */
int sb_attach_served(const struct sb_place *place);

/**
 * sb_attach_listener() - which process listens on the bus's socket
 * @ret_pid:    the supervisor that there was last; 0: in another pid namespace
 *
 * This finds an agentd of which the lock was removed.
 *
 * Return: 0; -ECONNREFUSED: none does; -EAGAIN: it ends just now, or as many as it takes wait for
 *         it; -errno.
 * Cost:   a connection; a quarter of a second, in which it is not hung up.
 */
int sb_attach_listener(const struct sb_place *place, pid_t *ret_pid);

/**
 * sb_attach_layout() - which layout of the segment the bus's engine has
 * @ret_layout: SB_LAYOUT_VERSION of the engine, of any version of agentd
 *
 * The request is one that every engine refuses, so it takes no record.
 *
 * Return: 0; otherwise as sb_attach().
 */
int sb_attach_layout(const struct sb_place *place, uint32_t *ret_layout);

/**
 * sb_attach_evict() - ask the engine to take a client's cuts away
 * @target:     SB_HELLO_TARGET()
 * @kill:       whether the engine ends the client's process, too
 * @ret_count:  the cuts that were taken away
 *
 * Return: 0; SB_E_NOT_FOUND: there is no such client; otherwise as sb_attach().
 */
int sb_attach_evict(const struct sb_place *place, uint64_t target, bool kill, uint32_t *ret_count);

/* How an agentd ended that was never ready. */
struct sb_attach_end {
        int status;            /* as waitpid() gives it; -1: not known */
        uint64_t memory_limit; /* of its memory cgroup, in bytes; SB_LIMIT_NONE: none that is known
                                */
        char line[512];        /* the last line that it logged; any bytes; empty: none */
};

/**
 * sb_attach_start() - start agentd for a bus in the background, and wait until it is ready or has
 * ended
 * @options:    more options of agentd, NULL at the end; or NULL
 * @ret_end:    on -ECONNREFUSED and -ENOMEM: how it ended; or NULL
 *
 * The program is $STATEBUS_AGENTD, else `agentd` on the PATH. It logs to BUS/agentd.log.
 *
 * Return: 0: agentd is ready; -ECONNREFUSED: it ended before it was ready (another agentd serves
 *         the bus already, or the log says why); -ENOMEM: it was killed, and its memory cgroup has
 *         a limit; -errno: it could not be started; -EINTR.
 */
int sb_attach_start(
        const struct sb_place *place, const char *const *options, struct sb_attach_end *ret_end);

#endif
