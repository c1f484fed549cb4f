/*
 * A transaction's write set; see write-set.h.
 *
 * The skip list's entries have 1 to 12 links, one in four one more than the others. Level 0 links
 * all entries, and a search begins at the highest level that any entry reaches. Entries are cut
 * from chunks of 8 KiB, and are never freed one by one: one that was taken out serves again.
 *
 * Always true: when a call fails for lack of memory, the set is as before.
 */
#include "libclient/core/write-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/bytes.h"

#ifndef SB_WRITE_SET_CHUNK
#define SB_WRITE_SET_CHUNK 8192u
#endif

struct sb_write_set_chunk {
        struct sb_write_set_chunk *next;
        unsigned char bytes[SB_WRITE_SET_CHUNK - sizeof(struct sb_write_set_chunk *)];
};

void sb_write_set_value_hold(struct sb_write_set_value *value, struct sb_write_set_value **held)
{
        value->holders++;
        if (value->link)
                return;
        value->next = *held;
        value->link = held;
        if (value->next)
                value->next->link = &value->next;
        *held = value;
}

void sb_write_set_value_drop(struct sb_write_set_value *value)
{
        if (--value->holders > 0)
                return;
        if (value->link) {
                *value->link = value->next;
                if (value->next)
                        value->next->link = value->link;
        }
        free(value);
}

static struct sb_write_set_value *write_set_value_new(struct sb_bytes key, struct sb_bytes value)
{
        struct sb_write_set_value *new = malloc(sizeof(*new) + key.len + value.len);

        if (!new)
                return NULL;
        new->link = NULL;
        new->value_len = value.len;
        new->key_len = (uint32_t)key.len;
        new->holders = 1;
        memcpy(new->bytes, key.data, key.len);
        if (value.len > 0)
                memcpy(new->bytes + key.len, value.data, value.len);
        return new;
}

/* Search from the top level down. On each level the search goes to the last entry with a key below
 * @key (not above it, with @through); before the first entry it follows the links of the list's
 * head. @ret_path: NULL, or where the links are, one for each level, into which a new entry of this
 * key goes. Return: the last such entry on level 0, or NULL. */
static struct sb_write_set_entry *write_set_descend(const struct sb_write_set *writes,
        const void *key, size_t key_len, bool through, struct sb_write_set_entry *const **ret_path)
{
        struct sb_write_set_entry *const *links = writes->head;
        struct sb_write_set_entry *last = NULL;

        for (uint32_t level = writes->height; level-- > 0;) {
                struct sb_write_set_entry *next;

                while ((next = links[level]) &&
                        sb_bytes_compare(next->value->bytes, next->value->key_len, key,
                                (uint32_t)key_len) < (through ? 1 : 0)) {
                        last = next;
                        links = next->next;
                }
                if (ret_path)
                        ret_path[level] = &links[level];
        }
        return last;
}

static bool write_set_has_key(
        const struct sb_write_set_entry *entry, const void *key, size_t key_len)
{
        return entry && entry->value->key_len == key_len &&
               memcmp(entry->value->bytes, key, key_len) == 0;
}

struct sb_write_set_entry *sb_write_set_find(
        const struct sb_write_set *writes, const void *key, size_t key_len)
{
        struct sb_write_set_entry *last = write_set_descend(writes, key, key_len, true, NULL);

        return write_set_has_key(last, key, key_len) ? last : NULL;
}

struct sb_write_set_entry *sb_write_set_above(
        const struct sb_write_set *writes, const void *key, size_t key_len, bool after)
{
        struct sb_write_set_entry *last = write_set_descend(writes, key, key_len, after, NULL);

        return !last ? writes->head[0] : last->next[0];
}

struct sb_write_set_entry *sb_write_set_below(
        const struct sb_write_set *writes, const void *key, size_t key_len, bool inclusive)
{
        return write_set_descend(writes, key, key_len, inclusive, NULL);
}

struct sb_write_set_entry *sb_write_set_next(
        const struct sb_write_set *writes, const struct sb_write_set_entry *entry)
{
        return !entry ? writes->head[0] : entry->next[0];
}

/* Take memory for an entry of this height: a spare one's, or cut from a chunk. Return: NULL: there
 * is none. */
static struct sb_write_set_entry *write_set_entry_new(struct sb_write_set *writes, uint32_t height)
{
        size_t size =
                sizeof(struct sb_write_set_entry) + height * sizeof(struct sb_write_set_entry *);
        struct sb_write_set_entry *entry = writes->spare[height - 1];

        if (entry) {
                writes->spare[height - 1] = entry->next[0];
                return entry;
        }
        if (!writes->chunks || writes->chunk_used + size > sizeof(writes->chunks->bytes)) {
                struct sb_write_set_chunk *chunk = malloc(sizeof(*chunk));

                if (!chunk)
                        return NULL;
                chunk->next = writes->chunks;
                writes->chunks = chunk;
                writes->chunk_used = 0;
        }
        entry = (struct sb_write_set_entry *)(writes->chunks->bytes + writes->chunk_used);
        writes->chunk_used += size;
        entry->height = height;
        return entry;
}

/* Draw a height: 1, in one case of four 2, in one of sixteen 3, and so on. */
static uint32_t write_set_height_next(struct sb_write_set *writes)
{
        uint32_t zeros;

        /* Weyl's sequence, mixed. The balance of the list needs no better random numbers. */
        writes->random += UINT64_C(0x9e3779b97f4a7c15);
        zeros = (uint32_t)__builtin_ctzll(
                (writes->random ^ writes->random >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 32 |
                UINT64_C(1) << 31);
        return 1 + (zeros / 2 < SB_WRITE_SET_HEIGHT_MAX ? zeros / 2 : SB_WRITE_SET_HEIGHT_MAX - 1);
}

/* Insert a new entry for @value behind the links that @path names. Return: 0, -ENOMEM. */
static int write_set_entry_insert(struct sb_write_set *writes,
        struct sb_write_set_entry *const **path, enum sb_write_set_kind kind,
        struct sb_write_set_value *value)
{
        uint32_t height = write_set_height_next(writes);
        struct sb_write_set_entry *entry = write_set_entry_new(writes, height);

        if (!entry)
                return -ENOMEM;
        for (; writes->height < height; writes->height++)
                path[writes->height] = &writes->head[writes->height];
        entry->value = value;
        entry->kind = kind;
        for (uint32_t level = 0; level < height; level++) {
                /* The search took the list for constant; here it is the caller's to change. */
                struct sb_write_set_entry **link = (struct sb_write_set_entry **)path[level];

                entry->next[level] = *link;
                *link = entry;
        }
        writes->count++;
        return 0;
}

int sb_write_set_put(struct sb_write_set *writes, enum sb_write_set_kind kind, struct sb_bytes key,
        struct sb_bytes value)
{
        struct sb_write_set_value *new = write_set_value_new(key, value);
        struct sb_write_set_entry *const *path[SB_WRITE_SET_HEIGHT_MAX];
        struct sb_write_set_entry *entry;
        int r;

        if (!new)
                return -ENOMEM;
        write_set_descend(writes, key.data, key.len, false, path);
        entry = writes->height > 0 ? *path[0] : NULL;
        if (!write_set_has_key(entry, key.data, key.len)) {
                r = write_set_entry_insert(writes, path, kind, new);
                if (r != 0)
                        free(new);
                return r;
        }
        sb_write_set_value_drop(entry->value);
        entry->value = new;
        entry->kind = kind;
        return 0;
}

void sb_write_set_drop(struct sb_write_set *writes, struct sb_write_set_entry *entry)
{
        struct sb_write_set_entry *const *path[SB_WRITE_SET_HEIGHT_MAX];

        write_set_descend(writes, entry->value->bytes, entry->value->key_len, false, path);
        for (uint32_t level = 0; level < entry->height; level++) {
                /* As in write_set_entry_insert(). */
                struct sb_write_set_entry **link = (struct sb_write_set_entry **)path[level];

                sb_assert(*link == entry);
                *link = entry->next[level];
        }
        sb_write_set_value_drop(entry->value);
        entry->next[0] = writes->spare[entry->height - 1];
        writes->spare[entry->height - 1] = entry;
        writes->count--;
}

void sb_write_set_clear(struct sb_write_set *writes)
{
        if (writes->height == 0)
                return;
        for (struct sb_write_set_entry *entry = writes->head[0]; entry; entry = entry->next[0])
                sb_write_set_value_drop(entry->value);
        while (writes->chunks->next) {
                struct sb_write_set_chunk *chunk = writes->chunks;

                writes->chunks = chunk->next;
                free(chunk);
        }
        memset(writes->head, 0, sizeof(writes->head));
        memset(writes->spare, 0, sizeof(writes->spare));
        writes->chunk_used = 0;
        writes->height = 0;
        writes->count = 0;
}

void sb_write_set_fini(struct sb_write_set *writes)
{
        sb_write_set_clear(writes);
        free(writes->chunks);
        writes->chunks = NULL;
}
