/* What the programs that watch keys or prefixes share. With `world` and `bus`. */
#ifndef SB_TEST_WATCHED_H
#define SB_TEST_WATCHED_H

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "libclient/statebus.h"
#include "tests/api/world.h"

#define MIB (UINT64_C(1) << 20)
#define MS  UINT64_C(1000000)

static struct world world;
static struct sb_bus *bus;

#define BEGIN() WORLD_BEGIN(16 * MIB)
#define END()   WORLD_END()

static inline bool is(struct sb_bytes bytes, const char *text)
{
        return text ? bytes.data && bytes.len == strlen(text) &&
                               memcmp(bytes.data, text, bytes.len) == 0
                    : !bytes.data;
}

/* Whether the next change of a key is this one; it is released. @value NULL: a delete. @old NULL:
 * it replaced nothing. */
static inline bool next_rev_is(
        struct sb_watch *watch, const char *value, const char *old, uint64_t rev)
{
        struct sb_guard change = {0};
        bool same = sb_watch_next(watch, 0, &change) == 0 && change.rev == rev &&
                    change.missed == 0 && is(change.old_value, old) &&
                    (value ? is(change.value, value) && change.kind == SB_VALUE
                           : change.kind == SB_DELETED);

        sb_guard_release(&change);
        return same;
}

static inline bool nothing(struct sb_watch *watch)
{
        struct sb_guard change = {.rev = 77};

        return sb_watch_next(watch, 0, &change) == SB_E_TIMED_OUT && change.rev == 77 &&
               !change.bus;
}

static inline void rest(uint64_t ns)
{
        struct timespec wait = {
                .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

        nanosleep(&wait, NULL);
}

#endif
