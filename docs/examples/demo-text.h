/* Keys and values that are text, for the demo. */
#ifndef DEMO_TEXT_H
#define DEMO_TEXT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <statebus.h>

static inline struct sb_bytes text_bytes(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static inline bool same_bytes(struct sb_bytes a, struct sb_bytes b)
{
        return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static inline bool begins_with(struct sb_bytes a, const char *text)
{
        return a.len >= strlen(text) && memcmp(a.data, text, strlen(text)) == 0;
}

/* Read up to two numbers at the beginning of a value. */
static inline void read_numbers(struct sb_bytes value, uint64_t ret[2])
{
        char text[44] = {0};

        memcpy(text, value.data, value.len < sizeof(text) ? value.len : sizeof(text) - 1);
        ret[0] = ret[1] = 0;
        sscanf(text, "%" SCNu64 " %" SCNu64, &ret[0], &ret[1]);
}

#endif
