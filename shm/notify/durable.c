/* The durable cut, and waiting for it; see durable.h. */

#include "shm/notify/durable.h"

#include <errno.h>

#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/notify/bell.h"

#define SPIN_TURNS 4u

/* ---- the log ---- */

void sb_durable_tell(const struct sb_segment *segment, uint32_t error)
{
        struct sb_superblock *super = segment->super;

        sb_store_release(&super->log_error, error); /* R:durable-count. */
        /* R:durable-count > A:durable-count. Behind what it counts. */
        sb_add_full(&super->durable_count, 1);
        /* A:durable-waits, R:durable-waits. Behind the count: a client that says later that it
         * waits sees it. Fault DURABLE_UNTOLD: none is woken. */
        if (sb_exchange_full(&super->durable_waits, 0) && !SB_FAULT(DURABLE_UNTOLD))
                segment->os->wake(segment->os->context, &super->durable_count);
}

/* Fault TAKE_OVER_UNSAID: left out. */
void sb_durable_take_over(const struct sb_segment *segment)
{
        /* R:durable-waits > A:durable-waits. The next tale wakes. */
        if (!SB_FAULT(TAKE_OVER_UNSAID))
                sb_exchange_full(&segment->super->durable_waits, 1);
}

/* ---- clients ---- */

/* Have a word say @least or more, and wake the log. */
static void durable_ask(const struct sb_segment *segment, struct sb_word64 *wanted, uint64_t least)
{
        uint64_t old;

        do {
                old = sb_load_acquire(wanted); /* A:wanted; A:copies. */
                if (old >= least)
                        break;
                /* R:wanted > A:wanted; R:copies > A:copies. */
        } while (!sb_cas64_full(wanted, old, least));
        /* Also where another client wanted as much: it may be stopped before this. */
        sb_bell_ring(segment, sb_durable_slot(segment), 0);
}

void sb_durable_want(const struct sb_segment *segment, uint64_t cut)
{
        durable_ask(segment, &segment->super->wanted, cut);
}

uint64_t sb_durable_want_copy(const struct sb_segment *segment)
{
        /* A:copies. The one that goes on may have passed by what was written just now. */
        uint64_t number = sb_load_acquire(&segment->super->copies_begun) + 1;

        durable_ask(segment, &segment->super->copies_wanted, number);
        return number;
}

/* What there is to answer. Return: as sb_durable_wait(); -1: nothing yet. */
static int durable_look(const struct sb_segment *segment, uint64_t cut)
{
        if (sb_durable_cut(segment) >= cut)
                return 0;
        /* A:durable-count. */
        return sb_load_acquire(&segment->super->log_error) ? SB_E_NOT_DURABLE : -1;
}

/* Say that a client waits. A full barrier: what it looks at comes behind it. */
static void durable_say_waits(const struct sb_segment *segment)
{
        /* R:durable-waits > A:durable-waits. */
        sb_exchange_full(&segment->super->durable_waits, 1);
}

uint32_t sb_durable_count(const struct sb_segment *segment)
{
        return sb_load_acquire(&segment->super->durable_count); /* A:durable-count. */
}

int sb_durable_sleep(const struct sb_segment *segment, uint32_t count, uint64_t deadline_ns)
{
        const struct sb_os *os = segment->os;

        if (os->now_ns(os->context) >= deadline_ns)
                return SB_E_TIMED_OUT;
        durable_say_waits(segment);
        return os->wait(os->context, &segment->super->durable_count, count, deadline_ns);
}

/* Sleep until the count moves on. Return: 0, -EINTR. */
static int durable_sleep(const struct sb_segment *segment, uint64_t cut, uint64_t deadline_ns)
{
        uint32_t count = sb_durable_count(segment);

        durable_say_waits(segment);
        if (durable_look(segment, cut) >= 0 && !SB_FAULT(DURABLE_UNASKED))
                return 0;
        return segment->os->wait(
                segment->os->context, &segment->super->durable_count, count, deadline_ns);
}

int sb_durable_wait(
        const struct sb_segment *segment, uint64_t cut, uint64_t spin_ns, uint64_t deadline_ns)
{
        const struct sb_os *os = segment->os;
        uint64_t begun = os->now_ns(os->context), now;
        int r;

        for (;;) {
                r = durable_look(segment, cut);
                if (r >= 0)
                        return r;
                now = os->now_ns(os->context);
                if (now >= deadline_ns)
                        return SB_E_TIMED_OUT;
                if (now - begun < spin_ns) {
                        os->spin(os->context, SPIN_TURNS);
                        continue;
                }
                r = durable_sleep(segment, cut, deadline_ns);
                if (r == -EINTR)
                        return r;
        }
}
