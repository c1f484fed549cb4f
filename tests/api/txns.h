/* What tests of transactions share: a bus, another client's bus, and short names for frequent
 * calls. */
#ifndef SB_TEST_TXNS_H
#define SB_TEST_TXNS_H

#include <string.h>

#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)

static struct world world;
static struct sb_bus *bus, *other;
static const struct sb_bytes none = {NULL, 0};

#define BEGIN() BEGIN_SIZE(16 * MIB)
#define BEGIN_SIZE(size)                                                                           \
        do {                                                                                       \
                WORLD_BEGIN(size);                                                                 \
                other = world_bus(&world);                                                         \
                CHECK(other);                                                                      \
        } while (0)
#define END()                                                                                      \
        do {                                                                                       \
                other = sb_close(other);                                                           \
                WORLD_END();                                                                       \
        } while (0)

/* Plain writes of another client. */
static inline int put(const char *key, const char *value)
{
        return sb_set(other, b(key), b(value), NULL, NULL);
}
static inline int take(const char *key)
{
        return sb_delete(other, b(key), SB_ANY_REV, NULL, NULL);
}
static inline bool lacks(const char *key)
{
        struct sb_guard guard = {0};
        int r = sb_get(other, b(key), &guard);

        sb_guard_release(&guard);
        return r == SB_E_NOT_FOUND;
}
static inline uint64_t rev_of(const char *key)
{
        struct sb_guard guard = {0};
        uint64_t rev = sb_get(other, b(key), &guard) == 0 ? guard.rev : 0;

        sb_guard_release(&guard);
        return rev;
}

/* Whether a transaction reads exactly this value; NULL: none. */
static inline bool sees(struct sb_txn *txn, const char *key, const char *value)
{
        struct sb_guard guard = {0};
        int r = sb_txn_get(txn, b(key), &guard);
        bool same;

        if (!value)
                return r == SB_E_NOT_FOUND && !guard.bus;
        same = r == 0 && guard.value.len == strlen(value) && guard.key.len == strlen(key) &&
               memcmp(guard.value.data, value, guard.value.len) == 0 &&
               memcmp(guard.key.data, key, guard.key.len) == 0 && guard.kind == SB_VALUE;
        sb_guard_release(&guard);
        return same;
}

static inline int set(struct sb_txn *txn, const char *key, const char *value)
{
        return sb_txn_set(txn, b(key), b(value));
}

static inline struct sb_txn *begin(uint32_t isolation)
{
        struct sb_txn *txn = NULL;

        return sb_txn_begin(bus, isolation, &txn) == 0 ? txn : NULL;
}

static inline bool conflict_is(const struct sb_txn *txn, const char *key)
{
        struct sb_bytes named = sb_txn_conflict(txn);

        return named.data && named.len == strlen(key) && memcmp(named.data, key, named.len) == 0;
}

/* Whether a scan gives exactly these keys from here on, a space behind each; own writes in
 * brackets. */
static inline bool gives(struct sb_scan *scan, bool backwards, const char *expected)
{
        struct sb_guard guard = {0};
        char got[1024] = "";

        while ((backwards ? sb_scan_prev(scan, &guard) : sb_scan_next(scan, &guard)) == 0) {
                size_t len = strlen(got);

                snprintf(got + len, sizeof(got) - len, guard.rev ? "%.*s " : "[%.*s] ",
                        (int)guard.key.len, (const char *)guard.key.data);
                sb_guard_release(&guard);
        }
        if (strcmp(got, expected) != 0)
                printf("got '%s', expected '%s'\n", got, expected);
        return strcmp(got, expected) == 0;
}

#endif
