/*
 * Shared words, and the only ways to touch them.
 *
 * A shared word is a struct of one member, so that plain access does not compile by accident. The
 * memory order is part of each operation's name: relaxed, acquire, release, or full for a full
 * barrier; none is sequentially consistent in silence. docs/ordering.md lists what each order is
 * for. C11 atomics lie underneath, so that the thread sanitizer and the model checker
 * (tests/harness/model) see every access.
 *
 * Always true: nothing else in the tree names _Atomic, __atomic or <stdatomic.h>.
 */
#ifndef SB_BASE_WORD_H
#define SB_BASE_WORD_H

#include <ck_pr.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/base/model.h"

struct sb_word64 {
        _Atomic uint64_t word_;
};
struct sb_word32 {
        _Atomic uint32_t word_;
};

/* For words of which the value alone matters, or that only their own writer reads back. Each use
 * says why weak is enough. */
#define sb_load_relaxed(word) atomic_load_explicit(&(word)->word_, memory_order_relaxed)
#define sb_store_relaxed(word, value)                                                              \
        atomic_store_explicit(&(word)->word_, (value), memory_order_relaxed)

/* An access that orders; the model checker learns in which line it stands. */
#define sb_access_(word, operation, ...)                                                           \
        ({                                                                                         \
                __typeof__(&(word)->word_) at_ = &(word)->word_;                                   \
                                                                                                   \
                sb_model_here();                                                                   \
                operation(at_, __VA_ARGS__);                                                       \
        })

/* What was written before a release is visible after the acquire that reads its value. Each use
 * names its edge. */
#define sb_load_acquire(word) sb_access_(word, atomic_load_explicit, memory_order_acquire)
#define sb_store_release(word, value)                                                              \
        sb_access_(word, atomic_store_explicit, (value), memory_order_release)

/* Whether what an acquire reads is @value at least: in one instruction, which takes no register,
 * for where each one counts. On x86-64 every load is an acquire. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(SB_MODEL)
#define sb_reaches_acquire(word, value)                                                            \
        ({                                                                                         \
                bool reaches_;                                                                     \
                                                                                                   \
                __asm__ volatile("cmpq %1, %2"                                                     \
                                 : "=@ccbe"(reaches_)                                              \
                                 : "m"((word)->word_), "r"((uint64_t)(value))                      \
                                 : "memory");                                                      \
                reaches_;                                                                          \
        })
#else
#define sb_reaches_acquire(word, value) (sb_load_acquire(word) >= (value))
#endif

/* Return: the former value. Each is a locked instruction on x86-64, and so a full barrier. */
#define sb_exchange_full(word, value)                                                              \
        sb_access_(word, atomic_exchange_explicit, (value), memory_order_seq_cst)
#define sb_add_full(word, value)                                                                   \
        sb_access_(word, atomic_fetch_add_explicit, (value), memory_order_seq_cst)
#define sb_or_full(word, value)                                                                    \
        sb_access_(word, atomic_fetch_or_explicit, (value), memory_order_seq_cst)
#define sb_and_full(word, value)                                                                   \
        sb_access_(word, atomic_fetch_and_explicit, (value), memory_order_seq_cst)

/* Compare and swap. True: the word was @expected, and is @desired now. False: it was something
 * else, and this was an acquire load. */
static inline bool sb_cas64_full(struct sb_word64 *word, uint64_t expected, uint64_t desired)
{
        return atomic_compare_exchange_strong_explicit(
                &word->word_, &expected, desired, memory_order_seq_cst, memory_order_acquire);
}

static inline bool sb_cas32_full(struct sb_word32 *word, uint32_t expected, uint32_t desired)
{
        return atomic_compare_exchange_strong_explicit(
                &word->word_, &expected, desired, memory_order_seq_cst, memory_order_acquire);
}

#ifdef SB_MODEL
#define sb_cas64_full(word, ...)                                                                   \
        ({                                                                                         \
                struct sb_word64 *at_ = (word);                                                    \
                                                                                                   \
                sb_model_here();                                                                   \
                sb_cas64_full(at_, __VA_ARGS__);                                                   \
        })
#define sb_cas32_full(word, ...)                                                                   \
        ({                                                                                         \
                struct sb_word32 *at_ = (word);                                                    \
                                                                                                   \
                sb_model_here();                                                                   \
                sb_cas32_full(at_, __VA_ARGS__);                                                   \
        })
#endif

/* A plain number in shared memory, a length or an offset: it is loaded here and nowhere else, so
 * that the number that is checked is the number that is used, whatever another process writes there
 * meanwhile. Costs nothing; it orders nothing. */
#define sb_once(plain)                                                                             \
        ({                                                                                         \
                __typeof__((plain) + 0) once_ = (plain);                                           \
                                                                                                   \
                __asm__("" : "+r"(once_));                                                         \
                once_;                                                                             \
        })

/* The same number, loaded once more: for seeded faults alone. */
#define sb_again(plain) (*(const volatile __typeof__(plain) *)&(plain))

/* Keeps the compiler, not the processor, from moving accesses across. Its other half is a
 * membarrier in another process. */
#define sb_compiler_barrier() atomic_signal_fence(memory_order_seq_cst)

/* A thread's stores become visible to all before its later loads. */
#define sb_fence_full() atomic_thread_fence(memory_order_seq_cst)

/* Fetch a line that is read soon. Not by the compiler's own: GCC takes a function that does nothing
 * else for one without any effect, and leaves out its calls. */
static inline void sb_prefetch(const void *address)
{
#ifdef __x86_64__
        __asm__ __volatile__("prefetcht0 %0" : : "m"(*(const char *)address));
#else
        __builtin_prefetch(address);
        sb_compiler_barrier();
#endif
}

/* The same of many lines, each of which is read some steps later: no nearer than the second cache,
 * where a core waits for three times as many at once. */
static inline void sb_prefetch_later(const void *address)
{
#ifdef __x86_64__
        __asm__ __volatile__("prefetcht1 %0" : : "m"(*(const char *)address));
#else
        __builtin_prefetch(address, 0, 2);
        sb_compiler_barrier();
#endif
}

/* Fetch a line that is about to be written, away from other processes. The compiler's own asks for
 * it to be read, unless it is told of the processor. */
static inline void sb_prefetch_write(const void *address)
{
#ifdef __x86_64__
        __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)address));
#else
        __builtin_prefetch(address, 1);
        sb_compiler_barrier();
#endif
}

/* One polite turn of a spinning loop. */
#define sb_stall() ck_pr_stall()

#endif
