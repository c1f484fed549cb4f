/*
 * A transaction as one call of a function, tried again when it is in conflict.
 *
 * Always true: of transactions that are in conflict at least one commits, so some of the processes
 * that try get on. Each one pauses longer before every further attempt, and in the end gives its
 * processor away, so that few are in each other's way.
 *
 * The public calls are described in statebus.h.
 */
#include <errno.h>

#include "libclient/core/use.h"
#include "libclient/core/write.h"
#include "shm/base/os.h"

#define ATTEMPTS_MAX 100u
#define PAUSE_MORE   5u  /* the second pause has at most 2 to the power of this + 2 turns */
#define PAUSE_BITS   13u /* some hundred microseconds */
#define SLEEP_FROM   10u /* attempts */
#define SLEEP_NS     50000u

/* Pause before attempt @number: the first two come at once. */
static void transact_pause_before(struct sb_bus *bus, uint32_t number)
{
        const struct sb_os *os = bus->handle.segment.os;
        uint32_t bits = number + PAUSE_MORE;

        /* Another transaction committed: a second try at once may well be in time. */
        if (number < 2)
                return;
        sb_os_give_way(os, number ^ bus->handle.slot << 8, bits < PAUSE_BITS ? bits : PAUSE_BITS);
        if (number >= SLEEP_FROM)
                os->pause(os->context, SLEEP_NS);
}

static bool transact_is_over(const struct sb_bus *bus, const struct sb_write *how)
{
        const struct sb_os *os = bus->handle.segment.os;

        return how && how->deadline_ns != 0 && os->now_ns(os->context) >= how->deadline_ns;
}

/* Make one attempt. Return: as sb_transact(). */
static int transact_once(struct sb_bus *bus, uint32_t isolation, sb_transact_function *function,
        void *argument, const struct sb_write *how)
{
        sb_auto(sb_txn_endp) struct sb_txn *txn = NULL; /* ended by an exception, too */
        int r = sb_txn_begin(bus, isolation, &txn);

        if (r != 0)
                return r;
        r = function(argument, txn);
        if (r == 0)
                r = sb_txn_commit(txn, how);
        return r;
}

int sb_transact(struct sb_bus *bus, uint32_t isolation, sb_transact_function *function,
        void *argument, const struct sb_write *how)
{
        int r = !bus || !function ? -EINVAL : sb_write_check(how);

        SB_USE(bus, sb_transact(bus, isolation, function, argument, how));
        if (r != 0)
                return r;
        if (isolation > SB_SERIALIZABLE)
                return -EINVAL;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        r = sb_write_able(bus, how);
        if (r != 0)
                return r;
        /* Bound: result. SB_E_CONFLICT: as the manual says. */
        for (uint32_t number = 0;; number++) {
                transact_pause_before(bus, number);
                r = transact_once(bus, isolation, function, argument, how);
                if (r != SB_E_CONFLICT || number + 1 == ATTEMPTS_MAX || transact_is_over(bus, how))
                        return r;
        }
}
