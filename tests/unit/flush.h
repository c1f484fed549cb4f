/*
 * A membarrier that the test sees: what other clients have stored and not flushed comes out at that
 * moment, by a function of the test. So a look that reads before its membarrier, or has none,
 * misses it each time, and not once in a million.
 */
#ifndef SB_TEST_UNIT_FLUSH_H
#define SB_TEST_UNIT_FLUSH_H

#include "shm/base/os.h"

static void (*flush_out)(void); /* what comes out at the next membarrier; NULL: nothing */
static unsigned flush_count;    /* membarriers so far */

static uint64_t flush_clock(void *context)
{
        (void)context;
        return 1;
}
static void flush_run(void *context)
{
        void (*out)(void) = flush_out;

        (void)context;
        flush_count++;
        flush_out = NULL;
        if (out)
                out();
}
static const struct sb_os flush_os = {
        .now_ns = flush_clock, .realtime_ns = flush_clock, .membarrier = flush_run};

/* From here on @handle's membarriers are the test's. */
static inline void flush_begin(struct sb_handle *handle, void (*out)(void))
{
        handle->segment.os = &flush_os;
        flush_out = out;
        flush_count = 0;
}

#endif
