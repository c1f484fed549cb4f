/* Versions on their way from the segment into the log; see wal-stage.h. */

#include "agentd/wal/wal-stage.h"

#include <errno.h>
#include <mimalloc.h>
#include <string.h>

#include "ring/wal/wal-entry.h"
#include "shm/layout/block.h"

#define STAGE_FIRST (UINT64_C(1) << 20)
#define STAGE_MOST  (UINT64_C(32) << 20)

/* In front of each key and value; all of it is a multiple of 8 bytes. */
struct staged {
        struct sb_wal_entry entry;
};

static uint64_t wal_stage_space(uint64_t len)
{
        return sizeof(struct staged) + ((len + 7) & ~UINT64_C(7));
}

int sb_wal_stage_init(struct sb_wal_stage *ret)
{
        *ret = (struct sb_wal_stage){.bytes = mi_malloc(STAGE_FIRST), .capacity = STAGE_FIRST};
        return ret->bytes ? 0 : -ENOMEM;
}

void sb_wal_stage_clear(struct sb_wal_stage *stage)
{
        stage->len = 0;
}

bool sb_wal_stage_grow(struct sb_wal_stage *stage)
{
        unsigned char *bytes;

        if (stage->capacity >= STAGE_MOST)
                return false;
        bytes = mi_realloc(stage->bytes, 2 * stage->capacity);
        if (!bytes)
                return false;
        stage->bytes = bytes;
        stage->capacity *= 2;
        return true;
}

int sb_wal_stage_reserve(struct sb_wal_stage *stage, uint64_t size)
{
        uint64_t capacity =
                wal_stage_space(size) > STAGE_FIRST ? wal_stage_space(size) : STAGE_FIRST;
        unsigned char *bytes;

        if (capacity <= stage->capacity && stage->capacity <= STAGE_MOST)
                return 0;
        bytes = mi_malloc(capacity);
        if (!bytes)
                return -ENOMEM;
        mi_free(stage->bytes);
        *stage = (struct sb_wal_stage){.bytes = bytes, .capacity = capacity};
        return 0;
}

bool sb_wal_stage_add(struct sb_wal_stage *stage, const struct sb_batch_entry *entry)
{
        uint64_t space = wal_stage_space(entry->key_len + entry->value_len);
        struct staged *staged = (struct staged *)(stage->bytes + stage->len);

        if (space > stage->capacity - stage->len)
                return false;
        staged->entry = (struct sb_wal_entry){.kind = entry->kind == SB_VERSION_VALUE ? SB_WAL_VALUE
                                                      : entry->kind == SB_VERSION_EXPIRED
                                                              ? SB_WAL_EXPIRED
                                                              : SB_WAL_TOMBSTONE,
                .flags = entry->born ? SB_WAL_BORN : 0,
                .writer = (uint16_t)entry->writer,
                .key_len = entry->key_len,
                .value_len = entry->value_len,
                .rev = entry->rev,
                .stamp = entry->stamp,
                .transaction = entry->txn};
        memcpy(staged + 1, entry->key, entry->key_len);
        memcpy((unsigned char *)(staged + 1) + entry->key_len, entry->value, entry->value_len);
        stage->len += space;
        return true;
}

int sb_wal_stage_write(struct sb_wal_stage *stage, struct sb_wal_writer *writer, uint64_t *written)
{
        int r;

        for (uint64_t at = 0; at < stage->len;) {
                struct staged *staged = (struct staged *)(stage->bytes + at);
                struct sb_wal_entry *entry = &staged->entry;

                entry->key = staged + 1;
                entry->value = (const unsigned char *)(staged + 1) + entry->key_len;
                r = sb_wal_writer_add(writer, entry);
                if (r)
                        return r;
                *written += sb_wal_entry_size(entry->key_len, entry->value_len);
                at += wal_stage_space((uint64_t)entry->key_len + entry->value_len);
        }
        stage->len = 0;
        return 0;
}
