/* A transaction's own writes; see own.h. */
#include "libclient/core/own.h"

#include <errno.h>
#include <mimalloc.h>
#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/bytes.h"

#define CHUNK_SIZE 8192u

struct sb_own_chunk {
        struct sb_own_chunk *next;
        unsigned char bytes[CHUNK_SIZE - sizeof(struct sb_own_chunk *)];
};

void sb_own_value_hold(struct sb_own_value *value, struct sb_own_value **held)
{
        value->holders++;
        if (value->link != NULL)
                return;
        value->next = *held;
        value->link = held;
        if (value->next != NULL)
                value->next->link = &value->next;
        *held = value;
}

void sb_own_value_drop(struct sb_own_value *value)
{
        if (--value->holders > 0)
                return;
        if (value->link != NULL) {
                *value->link = value->next;
                if (value->next != NULL)
                        value->next->link = value->link;
        }
        mi_free(value);
}

static struct sb_own_value *value_new(struct sb_bytes key, struct sb_bytes value)
{
        struct sb_own_value *new = mi_malloc(sizeof(*new) + key.len + value.len);

        if (new == NULL)
                return NULL;
        new->next = NULL;
        new->link = NULL;
        new->value_len = value.len;
        new->key_len = (uint32_t)key.len;
        new->holders = 1;
        memcpy(new->bytes, key.data, key.len);
        if (value.len > 0)
                memcpy(new->bytes + key.len, value.data, value.len);
        return new;
}

/* Before the first, links are the list's head; each step goes to those of the last entry on that
 * level whose key is below (not above with @through). Return: that entry on level 0, or NULL.
 * ret_path: NULL, or where the link to follow is, for each level. */
static struct sb_own_write *descend(const struct sb_own *own, const void *key, size_t key_len,
        bool through, struct sb_own_write *const **ret_path)
{
        struct sb_own_write *const *links = own->head;
        struct sb_own_write *last = NULL;

        for (uint32_t level = own->height; level-- > 0;) {
                struct sb_own_write *next;

                while ((next = links[level]) != NULL &&
                        sb_bytes_compare(next->value->bytes, next->value->key_len, key,
                                (uint32_t)key_len) < (through ? 1 : 0)) {
                        last = next;
                        links = next->next;
                }
                if (ret_path != NULL)
                        ret_path[level] = &links[level];
        }
        return last;
}

/* The first from @write on, itself included, that is something. */
static struct sb_own_write *something(struct sb_own_write *write)
{
        while (write != NULL && write->kind == SB_OWN_NOTHING)
                write = write->next[0];
        return write;
}

static bool has_key(const struct sb_own_write *write, const void *key, size_t key_len)
{
        return write != NULL && write->value->key_len == key_len &&
               memcmp(write->value->bytes, key, key_len) == 0;
}

struct sb_own_write *sb_own_find(const struct sb_own *own, const void *key, size_t key_len)
{
        struct sb_own_write *last = descend(own, key, key_len, true, NULL);

        return has_key(last, key, key_len) && last->kind != SB_OWN_NOTHING ? last : NULL;
}

struct sb_own_write *sb_own_above(
        const struct sb_own *own, const void *key, size_t key_len, bool after)
{
        struct sb_own_write *last = descend(own, key, key_len, after, NULL);

        return something(last == NULL ? own->head[0] : last->next[0]);
}

struct sb_own_write *sb_own_below(
        const struct sb_own *own, const void *key, size_t key_len, bool inclusive)
{
        struct sb_own_write *last = descend(own, key, key_len, inclusive, NULL);

        while (last != NULL && last->kind == SB_OWN_NOTHING)
                last = descend(own, last->value->bytes, last->value->key_len, false, NULL);
        return last;
}

struct sb_own_write *sb_own_next(const struct sb_own *own, const struct sb_own_write *write)
{
        return something(write == NULL ? own->head[0] : write->next[0]);
}

/* Room for an entry of this height, or NULL. */
static struct sb_own_write *entry_new(struct sb_own *own, uint32_t height)
{
        size_t size = sizeof(struct sb_own_write) + height * sizeof(struct sb_own_write *);
        struct sb_own_write *write;

        if (own->chunks == NULL || own->chunk_used + size > sizeof(own->chunks->bytes)) {
                struct sb_own_chunk *chunk = mi_malloc(sizeof(*chunk));

                if (chunk == NULL)
                        return NULL;
                chunk->next = own->chunks;
                own->chunks = chunk;
                own->chunk_used = 0;
        }
        write = (struct sb_own_write *)(own->chunks->bytes + own->chunk_used);
        own->chunk_used += size;
        write->height = height;
        return write;
}

/* 1, with one in four of them one higher, and so on. */
static uint32_t height_next(struct sb_own *own)
{
        uint32_t zeros;

        /* Weyl's sequence, mixed: any will do. */
        own->random += UINT64_C(0x9e3779b97f4a7c15);
        zeros = (uint32_t)__builtin_ctzll(
                (own->random ^ own->random >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 32 |
                UINT64_C(1) << 31);
        return 1 + (zeros / 2 < SB_OWN_HEIGHT_MAX ? zeros / 2 : SB_OWN_HEIGHT_MAX - 1);
}

/* A new entry for @value, where @path says. */
static int entry_insert(struct sb_own *own, struct sb_own_write *const **path,
        enum sb_own_kind kind, struct sb_own_value *value)
{
        uint32_t height = height_next(own);
        struct sb_own_write *write = entry_new(own, height);

        if (write == NULL)
                return -ENOMEM;
        for (; own->height < height; own->height++)
                path[own->height] = &own->head[own->height];
        write->value = value;
        write->kind = kind;
        for (uint32_t level = 0; level < height; level++) {
                /* The list is ours to change: only searches take it for constant. */
                struct sb_own_write **link = (struct sb_own_write **)path[level];

                write->next[level] = *link;
                *link = write;
        }
        own->count++;
        return 0;
}

int sb_own_put(
        struct sb_own *own, enum sb_own_kind kind, struct sb_bytes key, struct sb_bytes value)
{
        struct sb_own_value *new = value_new(key, value);
        struct sb_own_write *const *path[SB_OWN_HEIGHT_MAX];
        struct sb_own_write *write;
        int r;

        if (new == NULL)
                return -ENOMEM;
        descend(own, key.data, key.len, false, path);
        write = own->height > 0 ? *path[0] : NULL;
        if (!has_key(write, key.data, key.len)) {
                r = entry_insert(own, path, kind, new);
                if (r != 0)
                        mi_free(new);
                return r;
        }
        own->count += write->kind == SB_OWN_NOTHING;
        sb_own_value_drop(write->value);
        write->value = new;
        write->kind = kind;
        return 0;
}

void sb_own_drop(struct sb_own *own, struct sb_own_write *write)
{
        sb_assert(write->kind != SB_OWN_NOTHING);
        write->kind = SB_OWN_NOTHING;
        own->count--;
}

void sb_own_clear(struct sb_own *own)
{
        struct sb_own_write *write = own->head[0];

        if (write == NULL)
                return;
        for (; write != NULL; write = write->next[0])
                sb_own_value_drop(write->value);
        while (own->chunks->next != NULL) {
                struct sb_own_chunk *chunk = own->chunks;

                own->chunks = chunk->next;
                mi_free(chunk);
        }
        memset(own->head, 0, sizeof(own->head));
        own->chunk_used = 0;
        own->height = 0;
        own->count = 0;
}

void sb_own_fini(struct sb_own *own)
{
        sb_own_clear(own);
        mi_free(own->chunks);
        own->chunks = NULL;
}
