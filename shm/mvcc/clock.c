/* Taking a cut from the commit clock; see clock.h. */

#include "shm/mvcc/clock.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"

uint64_t sb_clock_take_cut(struct sb_handle *handle)
{
        struct sb_word64 *clock = &handle->segment.super->clock;
        /* A:clock. All that was stamped from this value, or a lower one, is in the cut. */
        uint64_t cut = sb_load_acquire(clock);

        /* R:clock > A:clock. What is installed later reads a later clock. Failed: another process
         * advanced it, which serves as well. */
        sb_cas64_full(clock, cut, cut + 1);
        return cut;
}

/* Take the cut that the clock says, so that no later write gets its stamp. Fault CUT_TOLD_OPEN:
 * left out. */
static bool clock_close(struct sb_handle *handle, uint64_t cut)
{
        return SB_FAULT(CUT_TOLD_OPEN) || sb_clock_take_cut(handle) >= cut;
}

bool sb_clock_reaches(struct sb_handle *handle, uint64_t cut)
{
        /* A:clock. What another process stamped with @cut, before it told of it, is in the cut. */
        uint64_t clock = sb_load_acquire(&handle->segment.super->clock);

        return cut < clock || (cut == clock && clock_close(handle, cut));
}

void sb_clock_resume(struct sb_handle *handle, uint64_t cut)
{
        struct sb_word64 *clock = &handle->segment.super->clock;
        uint64_t old = sb_load_acquire(clock); /* A:clock. */

        if (old <= cut)
                sb_cas64_full(clock, old, cut + 1); /* R:clock > A:clock. No other process runs. */
}
