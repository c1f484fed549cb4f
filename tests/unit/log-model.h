/*
 * A bus and what a log would know of it, by batches (ring/log/batch.h) that a test reads itself:
 * what is staged is complete behind a batch, and is logged where that became durable.
 */
#ifndef SB_TEST_UNIT_LOG_MODEL_H
#define SB_TEST_UNIT_LOG_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring/log/batch.h"
#include "shm/layout/block.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"
#include "shm/notify/unlogged.h"
#include "tests/unit/bus.h"

#define KEYS     24u
#define VERSIONS 64u

/* What a log knows of a key: the newest version that was given, and all of them. */
struct known {
        uint64_t rev, stamp, count;
        uint32_t kind;
        char value[24];
        uint64_t revs[VERSIONS];
};
struct contents {
        struct known keys[KEYS];
};

static struct contents logged, staged;
/* The same by the batches of the copy alone. Fewer versions of a key than by all is a chain cut
 * short. */
static struct contents copied, copy_staged;
static struct sb_batch batch;
static uint32_t room_asked, room_left, taken;
static char wrong[200];

static inline void name_of(uint32_t i, char ret[8])
{
        snprintf(ret, 8, "key%02u", i);
}

/* A bus with a log: from the beginning each change is told. */
static inline void *begin_log(uint64_t size)
{
        void *space;

        if (!make_bus(size))
                return NULL;
        sb_unlogged_ask_all(&writer.segment);
        space = calloc(1, sb_batch_space(&writer.segment.geometry));
        if (space)
                sb_batch_init(&writer.segment, space, 0, &batch);
        memset(&logged, 0, sizeof(logged));
        taken = 0;
        return space;
}

/* Put an entry to what is known. */
static inline void know(struct known *known, uint32_t i, const struct sb_batch_entry *entry)
{
        if (known->rev && entry->rev < known->rev) {
                if (!batch.copying)
                        snprintf(wrong, sizeof(wrong), "key %u: revision %lu behind %lu", i,
                                (unsigned long)entry->rev, (unsigned long)known->rev);
                return;
        }
        if (entry->rev != known->rev)
                known->revs[known->count++ % VERSIONS] = entry->rev;
        known->rev = entry->rev;
        known->stamp = entry->stamp;
        known->kind = entry->kind;
        memset(known->value, 0, sizeof(known->value));
        memcpy(known->value, entry->value,
                entry->value_len < sizeof(known->value) ? entry->value_len : sizeof(known->value));
}

static inline bool take(const struct sb_batch_entry *entry, void *context)
{
        uint32_t i;

        (void)context;
        if (entry->key_len != 5 || memcmp(entry->key, "key", 3))
                return true; /* a rule */
        if (room_left && !--room_left)
                return false;
        i = (uint32_t)(entry->key[3] - '0') * 10 + (uint32_t)(entry->key[4] - '0');
        if (entry->stamp > batch.cut)
                snprintf(wrong, sizeof(wrong), "key %u: a stamp above the cut", i);
        know(&staged.keys[i], i, entry);
        if (batch.copying)
                know(&copy_staged.keys[i], i, entry);
        taken++;
        return true;
}

static inline int room(uint64_t size, void *context)
{
        (void)context;
        room_asked++;
        room_left = size ? 3 : 0;
        return 0;
}

/* All of a batch: what is staged is complete behind it. */
static inline bool read_batch(void)
{
        staged = logged;
        copy_staged = copied;
        if (sb_batch_each(&reader, &batch, take, room, NULL) || is_pinned())
                return false;
        if (sb_batch_turns_whole(&reader, &batch)) {
                memset(&staged, 0, sizeof(staged));
                memset(&copy_staged, 0, sizeof(copy_staged));
                if (sb_batch_each(&reader, &batch, take, room, NULL) ||
                        sb_batch_turns_whole(&reader, &batch))
                        return false;
        }
        return !*wrong;
}

static inline void end_batch(bool durable)
{
        sb_batch_end(&reader, &batch, durable);
        if (durable) {
                logged = staged;
                copied = copy_staged;
        }
}

/* Whether the staged contents are the bus at the batch's cut. */
static inline bool is_the_bus(void)
{
        for (uint32_t i = 0; i < KEYS; i++) {
                const struct known *known = &staged.keys[i];
                struct sb_version *version;
                uint64_t rev = 0, len = 0;
                char name[8], value[24] = "";

                name_of(i, name);
                sb_pin(&reader);
                version = sb_find_at(
                        &reader, name, 5, sb_hash_key(name, 5, reader.segment.seed), batch.cut);
                if (version && sb_version_has_value(version)) {
                        rev = version->rev;
                        len = SB_SHAPE_VALUE_LEN(version->shape);
                        memcpy(value, version->bytes + 5, len < 24 ? len : 24);
                }
                sb_unpin(&reader);
                if (rev != (known->rev && known->kind == SB_VERSION_VALUE ? known->rev : 0) ||
                        (rev && memcmp(value, known->value, sizeof(value)))) {
                        printf("# %s at cut %lu: revision %lu, the log has %lu, kind %u\n", name,
                                (unsigned long)batch.cut, (unsigned long)rev,
                                (unsigned long)known->rev, known->kind);
                        return false;
                }
        }
        return true;
}

static inline bool log_once(bool durable)
{
        bool good;

        if (sb_batch_begin(&reader, &batch))
                return false;
        good = read_batch() && is_the_bus();
        end_batch(durable);
        return good;
}

#endif
