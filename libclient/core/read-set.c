/*
 * A transaction's read set; see read-set.h.
 *
 * Entries are small and of one size; their keys lie in an array of bytes. Putting the set in order
 * writes new arrays, since a joined range may need more bytes than its parts.
 *
 * Always true: when a call fails for lack of memory, no read is forgotten.
 */
#define _GNU_SOURCE
#include "libclient/core/read-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ring/op/commit.h"
#include "shm/base/assert.h"
#include "shm/base/bytes.h"
#include "shm/layout/block.h"
#include "shm/layout/superblock.h"

#define ENTRIES_FIRST 32u
#define BYTES_FIRST   4096u
#define MORE          2u /* entries that fit after sb_read_set_prepare() */
#define ROOM          (MORE * 2u * SB_KEY_LEN_MAX) /* and the most bytes that they take */
#define KEEP_MAX      65536u                       /* bytes kept for the next transaction */

/* Its two keys, low and then high, lie at `at` in the bytes. */
struct sb_read_set_entry {
        uint64_t at;
        uint16_t low_len, high_len;
        uint16_t flags; /* SB_RANGE_*; a SB_RANGE_POINT ends right behind low */
};

static const unsigned char *read_set_low_of(
        const struct sb_read_set *reads, const struct sb_read_set_entry *e)
{
        return reads->bytes + e->at;
}
static const unsigned char *read_set_high_of(
        const struct sb_read_set *reads, const struct sb_read_set_entry *e)
{
        return reads->bytes + e->at + e->low_len;
}

/* Make of a key the least one that lies behind all keys that begin with it: its last byte below
 * 0xff is raised, and what follows is dropped. Return: the new length; 0: no key lies behind. */
static uint32_t read_set_raise_last(unsigned char *key, uint32_t key_len)
{
        while (key_len > 0 && key[key_len - 1] == 0xff)
                key_len--;
        if (key_len > 0)
                key[key_len - 1]++;
        return key_len;
}

/* Find the least key behind an edge. Return: false: there is none. */
static bool read_set_first_behind(const struct sb_read_set *reads,
        const struct sb_read_set_edge *edge, unsigned char ret[SB_KEY_LEN_MAX], uint32_t *ret_len)
{
        if (edge->key_len > 0)
                memcpy(ret, edge->key, edge->key_len);
        *ret_len = edge->key_len;
        if (!edge->behind)
                return true;
        if (edge->key_len < reads->key_len_max) {
                ret[(*ret_len)++] = 0;
                return true;
        }
        /* No key can be longer, so the next one differs in a byte. */
        *ret_len = read_set_raise_last(ret, edge->key_len);
        return *ret_len > 0;
}

/* Write the bytes of an entry, which are the last ones in use. */
static void read_set_put(struct sb_read_set *reads, struct sb_read_set_entry *entry,
        const void *low, uint32_t low_len, const void *high, uint32_t high_len, uint32_t flags)
{
        if (low_len > 0)
                memcpy(reads->bytes + entry->at, low, low_len);
        if (high_len > 0)
                memcpy(reads->bytes + entry->at + low_len, high, high_len);
        entry->low_len = (uint16_t)low_len;
        entry->high_len = (uint16_t)high_len;
        entry->flags = (uint16_t)flags;
        reads->used = entry->at + low_len + high_len;
}

static struct sb_read_set_entry *read_set_append(struct sb_read_set *reads)
{
        struct sb_read_set_entry *entry = &reads->entries[reads->count++];

        entry->at = reads->used;
        return entry;
}

void sb_read_set_add_key(struct sb_read_set *reads, const void *key, uint32_t key_len)
{
        read_set_put(reads, read_set_append(reads), key, key_len, NULL, 0, SB_RANGE_POINT);
}

static bool read_set_same(const void *a, uint32_t a_len, const void *b, uint32_t b_len)
{
        return a_len == b_len && memcmp(a, b, a_len) == 0;
}

void sb_read_set_add_range(struct sb_read_set *reads, const struct sb_read_set_edge *from,
        const struct sb_read_set_edge *to)
{
        struct sb_read_set_entry *last = reads->count ? &reads->entries[reads->count - 1] : NULL;
        unsigned char low[SB_KEY_LEN_MAX], high[SB_KEY_LEN_MAX], old[SB_KEY_LEN_MAX];
        uint32_t low_len = 0, high_len = 0, flags = 0;

        if (!read_set_first_behind(reads, from, low, &low_len))
                return;
        if (!read_set_first_behind(reads, to, high, &high_len))
                flags = SB_RANGE_NO_END;
        else if (sb_bytes_compare(low, low_len, high, high_len) >= 0)
                return;
        if (!last || last->flags & SB_RANGE_POINT) {
                read_set_put(reads, read_set_append(reads), low, low_len, high, high_len, flags);
        } else if (!(last->flags & SB_RANGE_NO_END) &&
                   read_set_same(read_set_high_of(reads, last), last->high_len, low, low_len)) {
                /* This is the next step of a scan. */
                memcpy(old, read_set_low_of(reads, last), last->low_len);
                read_set_put(reads, last, old, last->low_len, high, high_len, flags);
        } else if (flags == 0 &&
                   read_set_same(read_set_low_of(reads, last), last->low_len, high, high_len)) {
                /* This is the next step of a scan that goes backwards. */
                high_len = last->high_len;
                memcpy(old, read_set_high_of(reads, last), high_len);
                read_set_put(reads, last, low, low_len, old, high_len, last->flags);
        } else {
                read_set_put(reads, read_set_append(reads), low, low_len, high, high_len, flags);
        }
}

/* ---- in order ---- */

static int read_set_compare_entries(const void *a, const void *b, void *argument)
{
        const struct sb_read_set *reads = argument;
        const struct sb_read_set_entry *x = a, *y = b;

        return sb_bytes_compare(
                read_set_low_of(reads, x), x->low_len, read_set_low_of(reads, y), y->low_len);
}

/* Where a range ends: right before a key, or right behind it, or nowhere (none). */
struct end {
        const unsigned char *key;
        uint32_t key_len;
        bool behind, none;
};

static struct end read_set_end_of(
        const struct sb_read_set *reads, const struct sb_read_set_entry *entry)
{
        if (entry->flags & SB_RANGE_POINT)
                return (struct end){read_set_low_of(reads, entry), entry->low_len, true, false};
        return (struct end){read_set_high_of(reads, entry), entry->high_len, false,
                (entry->flags & SB_RANGE_NO_END) != 0};
}

static bool read_set_ends_later(struct end a, struct end b)
{
        int order;

        if (a.none || b.none)
                return a.none && !b.none;
        order = sb_bytes_compare(a.key, a.key_len, b.key, b.key_len);
        return order != 0 ? order > 0 : a.behind && !b.behind;
}

/* Append to @to a range from the lower end of @low, an entry of @from, to @end. */
static void read_set_append_joined(struct sb_read_set *to, const struct sb_read_set *from,
        const struct sb_read_set_entry *low, struct end end)
{
        unsigned char high[SB_KEY_LEN_MAX];
        uint32_t high_len = 0, flags = end.none ? SB_RANGE_NO_END : 0;

        if (end.behind && low->flags & SB_RANGE_POINT && end.key_len == low->low_len &&
                memcmp(end.key, read_set_low_of(from, low), end.key_len) == 0) {
                sb_read_set_add_key(to, end.key, end.key_len);
                return;
        }
        if (!end.none &&
                !read_set_first_behind(to,
                        &(struct sb_read_set_edge){
                                .key = end.key, .key_len = end.key_len, .behind = end.behind},
                        high, &high_len))
                flags = SB_RANGE_NO_END;
        read_set_put(to, read_set_append(to), read_set_low_of(from, low), low->low_len, high,
                high_len, flags);
}

/* Append to @to, which is large enough, the entries of @from, which are sorted. Entries that touch
 * are joined, and with @more each takes in that many of the next ones behind it. Keys of @writes
 * are left out, unless they were joined with others. */
static void read_set_join(struct sb_read_set *to, const struct sb_read_set *from,
        const struct sb_write_set *writes, uint32_t more)
{
        for (uint32_t i = 0; i < from->count;) {
                const struct sb_read_set_entry *low = &from->entries[i];
                struct end end = read_set_end_of(from, low);
                uint32_t left = more;

                for (i++; i < from->count; i++) {
                        const struct sb_read_set_entry *next = &from->entries[i];

                        if (!end.none && sb_bytes_compare(read_set_low_of(from, next),
                                                 next->low_len, end.key, end.key_len) > 0) {
                                if (left == 0)
                                        break;
                                left--;
                        }
                        if (read_set_ends_later(read_set_end_of(from, next), end))
                                end = read_set_end_of(from, next);
                }
                read_set_append_joined(to, from, low, end);
                /* The commit looks at a key that it writes, without being told. */
                if (to->entries[to->count - 1].flags & SB_RANGE_POINT &&
                        sb_write_set_find(writes, end.key, end.key_len))
                        to->used = to->entries[--to->count].at;
        }
}

static uint64_t read_set_packed_len(const struct sb_read_set *reads)
{
        return reads->used + (uint64_t)SB_RANGE_HEAD * reads->count;
}

/* Allocate arrays for @count entries with @used bytes. Return: 0; -ENOMEM (nothing is allocated).
 */
static int read_set_make_arrays(struct sb_read_set *ret, uint32_t count, uint64_t used)
{
        ret->capacity = count < ENTRIES_FIRST ? ENTRIES_FIRST : count;
        ret->size = used < BYTES_FIRST ? BYTES_FIRST : used;
        ret->entries = malloc(ret->capacity * sizeof(*ret->entries));
        ret->bytes = malloc(ret->size);
        if (ret->entries && ret->bytes)
                return 0;
        free(ret->entries);
        free(ret->bytes);
        return -ENOMEM;
}

/* Shrink arrays that are more than twice as long as twice the set needs. */
static void read_set_trim(struct sb_read_set *reads)
{
        uint32_t capacity = 2 * reads->count + MORE;
        uint64_t size = 2 * reads->used + 2 * ROOM;
        void *less;

        if (capacity >= ENTRIES_FIRST && capacity < reads->capacity / 2) {
                less = realloc(reads->entries, capacity * sizeof(*reads->entries));
                reads->entries = less ? less : reads->entries;
                reads->capacity = less ? capacity : reads->capacity;
        }
        if (size >= BYTES_FIRST && size < reads->size / 2) {
                less = realloc(reads->bytes, size);
                reads->bytes = less ? less : reads->bytes;
                reads->size = less ? size : reads->size;
        }
}

/* Put the set in order, in arrays that are long enough for as much again. Return: 0, -ENOMEM (no
 * read is forgotten). */
static int read_set_sort_and_join(
        struct sb_read_set *reads, const struct sb_write_set *writes, uint64_t len_max)
{
        struct sb_read_set to = *reads, coarser;
        /* The end of a joined range may have a byte more than the keys that it is made of. */
        int r = read_set_make_arrays(
                &to, 2 * reads->count + MORE, 2 * reads->used + reads->count + 2 * ROOM);

        if (r != 0)
                return r;
        to.count = 0;
        to.used = 0;
        if (reads->count > 1)
                qsort_r(reads->entries, reads->count, sizeof(*reads->entries),
                        read_set_compare_entries, reads);
        read_set_join(&to, reads, writes, 0);
        while (r == 0 && read_set_packed_len(&to) > len_max && to.count > 1) {
                coarser = to;
                r = read_set_make_arrays(&coarser, to.capacity, to.size);
                if (r != 0)
                        break;
                coarser.count = 0;
                coarser.used = 0;
                read_set_join(&coarser, &to, writes, 1);
                free(to.entries);
                free(to.bytes);
                to = coarser;
        }
        free(reads->entries);
        free(reads->bytes);
        read_set_trim(&to);
        *reads = to;
        return r;
}

/* Put the set in order without new arrays, when it is what most are: keys alone, or one range
 * alone. Return: false: it is more than that. */
static bool read_set_sort_simple(
        struct sb_read_set *reads, const struct sb_write_set *writes, uint64_t len_max)
{
        struct sb_read_set_entry *entries = reads->entries;
        uint32_t left = 0;

        if (reads->count == 1 && !(entries->flags & SB_RANGE_POINT))
                return true;
        if (read_set_packed_len(reads) > len_max)
                return false;
        for (uint32_t i = 0; i < reads->count; i++)
                if (!(entries[i].flags & SB_RANGE_POINT))
                        return false;
        if (reads->count > 1)
                qsort_r(entries, reads->count, sizeof(*entries), read_set_compare_entries, reads);
        for (uint32_t i = 0; i < reads->count; i++)
                if ((left == 0 || read_set_compare_entries(
                                          &entries[left - 1], &entries[i], reads) != 0) &&
                        !sb_write_set_find(
                                writes, read_set_low_of(reads, &entries[i]), entries[i].low_len))
                        entries[left++] = entries[i];
        reads->count = left;
        return true;
}

int sb_read_set_prepare(struct sb_read_set *reads, const struct sb_write_set *writes)
{
        if (SB_LIKELY(reads->count + MORE <= reads->capacity && reads->used + ROOM <= reads->size))
                return 0;
        return read_set_sort_and_join(reads, writes, reads->len_max);
}

int sb_read_set_order(struct sb_read_set *reads, const struct sb_write_set *writes,
        uint64_t len_max, const struct sb_commit_range **ret_ranges, uint32_t *ret_count)
{
        int r;

        if (!read_set_sort_simple(reads, writes, len_max)) {
                r = read_set_sort_and_join(reads, writes, len_max);
                if (r != 0)
                        return r;
        }
        if (reads->count > reads->ordered_capacity) {
                struct sb_commit_range *ordered =
                        realloc(reads->ordered, reads->count * sizeof(*ordered));

                if (!ordered)
                        return -ENOMEM;
                reads->ordered = ordered;
                reads->ordered_capacity = reads->count;
        }
        for (uint32_t i = 0; i < reads->count; i++) {
                const struct sb_read_set_entry *entry = &reads->entries[i];

                reads->ordered[i] = (struct sb_commit_range){.low = read_set_low_of(reads, entry),
                        .high = read_set_high_of(reads, entry),
                        .low_len = entry->low_len,
                        .high_len = entry->high_len,
                        .flags = entry->flags};
        }
        *ret_ranges = reads->ordered;
        *ret_count = reads->count;
        return 0;
}

void sb_read_set_fini(struct sb_read_set *reads)
{
        free(reads->entries);
        free(reads->bytes);
        free(reads->ordered);
        *reads = (struct sb_read_set){.key_len_max = reads->key_len_max, .len_max = reads->len_max};
}

void sb_read_set_clear(struct sb_read_set *reads)
{
        if (reads->size > KEEP_MAX || reads->capacity > KEEP_MAX / sizeof(*reads->entries))
                sb_read_set_fini(reads);
        reads->count = 0;
        reads->used = 0;
}
