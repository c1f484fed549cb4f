/*
 * Callbacks: what the compiler calls before each access of the protocol files, in place of the
 * sanitizer's library, and what these files call in place of memcpy() and its like (protocol.h).
 *
 * An access to the region goes to memory.c. All else is private: it happens as it is, and of a
 * write world.c is told.
 */
#include <string.h>

#include "tests/harness/model/core.h"

/* Most accesses are to private memory. */
static inline void plain_read(const volatile void *pointer, uint64_t size)
{
        uint32_t offset;

        if (model_region_has(pointer, &offset))
                model_plain_read(offset, size);
}

static inline void plain_write(const volatile void *pointer, uint64_t size)
{
        uint32_t offset;

        if (model_region_has(pointer, &offset))
                model_plain_write(offset, size);
        else
                model_world_write(pointer, size);
}

/* ---- accesses ---- */

#define CALLBACK __attribute__((visibility("default"), used))

#define ATOMICS(bits)                                                                              \
        CALLBACK uint##bits##_t __tsan_atomic##bits##_load(                                        \
                const volatile uint##bits##_t *p, int order);                                      \
        CALLBACK uint##bits##_t __tsan_atomic##bits##_load(                                        \
                const volatile uint##bits##_t *p, int order)                                       \
        {                                                                                          \
                uint32_t offset;                                                                   \
                return model_region_has(p, &offset)                                                \
                               ? (uint##bits##_t)model_atomic_load(offset, bits / 8, order)        \
                               : *p;                                                               \
        }                                                                                          \
        CALLBACK void __tsan_atomic##bits##_store(                                                 \
                volatile uint##bits##_t *p, uint##bits##_t value, int order);                      \
        CALLBACK void __tsan_atomic##bits##_store(                                                 \
                volatile uint##bits##_t *p, uint##bits##_t value, int order)                       \
        {                                                                                          \
                uint32_t offset;                                                                   \
                if (model_region_has(p, &offset)) {                                                \
                        model_atomic_store(offset, bits / 8, value, order);                        \
                } else {                                                                           \
                        model_world_write(p, bits / 8);                                            \
                        *p = value;                                                                \
                }                                                                                  \
        }                                                                                          \
        CALLBACK int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *p,     \
                uint##bits##_t *expected, uint##bits##_t desired, int order, int order_failed);    \
        CALLBACK int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *p,     \
                uint##bits##_t *expected, uint##bits##_t desired, int order, int order_failed)     \
        {                                                                                          \
                uint32_t offset;                                                                   \
                uint##bits##_t old;                                                                \
                (void)order, (void)order_failed;                                                   \
                if (!model_region_has(p, &offset)) {                                               \
                        model_world_write(p, bits / 8);                                            \
                        return __atomic_compare_exchange_n(                                        \
                                p, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
                }                                                                                  \
                old = (uint##bits##_t)model_atomic_cas(offset, bits / 8, *expected, desired);      \
                if (old == *expected)                                                              \
                        return 1;                                                                  \
                *expected = old;                                                                   \
                return 0;                                                                          \
        }
ATOMICS(32)
ATOMICS(64)

#define RMW(bits, name, what, direct)                                                              \
        CALLBACK uint##bits##_t __tsan_atomic##bits##_##name(                                      \
                volatile uint##bits##_t *p, uint##bits##_t value, int order);                      \
        CALLBACK uint##bits##_t __tsan_atomic##bits##_##name(                                      \
                volatile uint##bits##_t *p, uint##bits##_t value, int order)                       \
        {                                                                                          \
                uint32_t offset;                                                                   \
                (void)order;                                                                       \
                if (!model_region_has(p, &offset)) {                                               \
                        model_world_write(p, bits / 8);                                            \
                        return direct(p, value, __ATOMIC_SEQ_CST);                                 \
                }                                                                                  \
                return (uint##bits##_t)model_atomic_rmw(what, offset, bits / 8, value);            \
        }
#define RMWS(bits)                                                                                 \
        RMW(bits, exchange, RMW_EXCHANGE, __atomic_exchange_n)                                     \
        RMW(bits, fetch_add, RMW_ADD, __atomic_fetch_add)                                          \
        RMW(bits, fetch_sub, RMW_SUB, __atomic_fetch_sub)                                          \
        RMW(bits, fetch_and, RMW_AND, __atomic_fetch_and)                                          \
        RMW(bits, fetch_or, RMW_OR, __atomic_fetch_or)                                             \
        RMW(bits, fetch_xor, RMW_XOR, __atomic_fetch_xor)
RMWS(32)
RMWS(64)

#define PLAIN(name, function, size)                                                                \
        CALLBACK void name(void *p);                                                               \
        CALLBACK void name(void *p)                                                                \
        {                                                                                          \
                function(p, size);                                                                 \
        }
PLAIN(__tsan_read1, plain_read, 1)
PLAIN(__tsan_read2, plain_read, 2)
PLAIN(__tsan_read4, plain_read, 4)
PLAIN(__tsan_read8, plain_read, 8)
PLAIN(__tsan_read16, plain_read, 16)
PLAIN(__tsan_unaligned_read2, plain_read, 2)
PLAIN(__tsan_unaligned_read4, plain_read, 4)
PLAIN(__tsan_unaligned_read8, plain_read, 8)
PLAIN(__tsan_unaligned_read16, plain_read, 16)
PLAIN(__tsan_write1, plain_write, 1)
PLAIN(__tsan_write2, plain_write, 2)
PLAIN(__tsan_write4, plain_write, 4)
PLAIN(__tsan_write8, plain_write, 8)
PLAIN(__tsan_write16, plain_write, 16)
PLAIN(__tsan_unaligned_write2, plain_write, 2)
PLAIN(__tsan_unaligned_write4, plain_write, 4)
PLAIN(__tsan_unaligned_write8, plain_write, 8)
PLAIN(__tsan_unaligned_write16, plain_write, 16)

CALLBACK void __tsan_read_range(void *p, uint64_t size);
CALLBACK void __tsan_read_range(void *p, uint64_t size)
{
        plain_read(p, size);
}

CALLBACK void __tsan_write_range(void *p, uint64_t size);
CALLBACK void __tsan_write_range(void *p, uint64_t size)
{
        plain_write(p, size);
}

CALLBACK void __tsan_atomic_thread_fence(int order);
CALLBACK void __tsan_atomic_thread_fence(int order)
{
        model_atomic_fence(order);
}

CALLBACK void __tsan_atomic_signal_fence(int order);
CALLBACK void __tsan_atomic_signal_fence(int order)
{
        (void)order;
}

CALLBACK void __tsan_init(void);
CALLBACK void __tsan_init(void)
{
}

/* ---- bulk copies of protocol files (protocol.h) ---- */

void *sb_model_memcpy(void *to, const void *from, size_t len);
void *sb_model_memcpy(void *to, const void *from, size_t len)
{
        plain_read(from, len);
        plain_write(to, len);
        return memmove(to, from, len);
}

void *sb_model_memmove(void *to, const void *from, size_t len);
void *sb_model_memmove(void *to, const void *from, size_t len)
{
        return sb_model_memcpy(to, from, len);
}

void *sb_model_memset(void *to, int value, size_t len);
void *sb_model_memset(void *to, int value, size_t len)
{
        plain_write(to, len);
        return memset(to, value, len);
}

int sb_model_memcmp(const void *a, const void *b, size_t len);
int sb_model_memcmp(const void *a, const void *b, size_t len)
{
        plain_read(a, len);
        plain_read(b, len);
        return memcmp(a, b, len);
}
