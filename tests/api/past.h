/*
 * What the programs that look at the past share: a cut, a rule, and what is known of a key at a cut
 * or in all of its versions. With `world` and `bus`.
 */
#ifndef SB_TEST_PAST_H
#define SB_TEST_PAST_H

#include <stdio.h>
#include <string.h>

#include "libclient/statebus.h"
#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus;

#define BEGIN() WORLD_BEGIN(16 * MIB)
#define END()   WORLD_END()

static inline int put(const char *key, const char *value)
{
        return sb_set(bus, b(key), b(value), NULL, NULL);
}

/* The cut of this moment, which no mark keeps. */
static inline uint64_t cut_now(void)
{
        uint64_t cut = 0;

        return sb_cut_at(bus, UINT64_MAX, &cut) == 0 ? cut : 0;
}

static inline int keep(const char *key, uint32_t flags, uint32_t kind, uint64_t value)
{
        const struct sb_rule rule = {.size = sizeof(rule), .kind = kind, .value = value};

        return sb_keep(bus, b(key), flags, &rule);
}

/* What a key was at a cut: its value; "-": it had none; "?": the answer is SB_E_LAPPED; "?value":
 * the same, with the oldest value that is known. */
static inline const char *at(const char *key, uint64_t cut)
{
        static char text[64];
        struct sb_guard guard = {0};
        int r = sb_get_at(bus, b(key), cut, &guard);

        if (r == SB_E_NOT_FOUND && !guard.bus)
                return "-";
        if (r != 0 && r != SB_E_LAPPED)
                return "error";
        if (!guard.bus)
                return "?";
        snprintf(text, sizeof(text), "%s%.*s", r == 0 ? "" : "?", (int)guard.value.len,
                (const char *)guard.value.data);
        if (guard.kind == SB_DELETED)
                strcpy(text, "?deleted");
        sb_guard_release(&guard);
        return text;
}
#define AT(key, cut, expected) CHECK(strcmp(at(key, cut), expected) == 0)

/* All versions of a key, a space behind each; @ret_end: the last result. */
static inline const char *history(const char *key, uint32_t flags, int *ret_end)
{
        static char text[4096];
        sb_auto(sb_history_closep) struct sb_history *walk = NULL;
        struct sb_guard guard = {0};
        uint64_t time_ns;
        int r = sb_history_open(bus, b(key), flags, &walk);

        text[0] = '\0';
        while (r == 0 || (r == SB_E_LAPPED && (flags & SB_REVERSE) && text[0] == '\0')) {
                if (r == SB_E_LAPPED)
                        strcat(text, "... ");
                r = sb_history_next(walk, &guard, &time_ns);
                if (r != 0)
                        continue;
                if (guard.missed != 0)
                        snprintf(text + strlen(text), 32, "(%llu) ",
                                (unsigned long long)guard.missed);
                snprintf(text + strlen(text), 64, "%llu:%.*s%s ", (unsigned long long)guard.rev,
                        (int)guard.value.len, (const char *)guard.value.data,
                        guard.kind == SB_DELETED ? "x" : "");
                sb_guard_release(&guard);
        }
        *ret_end = r;
        return text;
}

#endif
