/*
 * Shared words and the only ways to touch them.
 *
 * A shared word is a cell: a struct of one member, so that plain access does not compile by
 * accident. The memory order is part of each operation's name; there is no silent seq_cst. C11
 * atomics underneath, so that the thread sanitizer and the model checker (tests/harness/model) see
 * every access.
 *
 * Always true: nothing else in the tree names _Atomic, __atomic or <stdatomic.h>.
 */
#ifndef SB_BASE_WORD_H
#define SB_BASE_WORD_H

#include <ck_pr.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sb_cell64 {
        _Atomic uint64_t word_;
};
struct sb_cell32 {
        _Atomic uint32_t word_;
};

/* For words whose value alone matters, or that only their own writer reads back. Each use says why
 * weak is enough. */
/* Between two looks at a word that somebody else is about to change. */
#if defined(__x86_64__)
#define sb_cpu_relax() __builtin_ia32_pause()
#else
#define sb_cpu_relax() atomic_signal_fence(memory_order_seq_cst)
#endif

#define sb_load_relaxed(cell) atomic_load_explicit(&(cell)->word_, memory_order_relaxed)
#define sb_store_relaxed(cell, value)                                                              \
        atomic_store_explicit(&(cell)->word_, (value), memory_order_relaxed)

#define sb_load_acquire(cell) atomic_load_explicit(&(cell)->word_, memory_order_acquire)
#define sb_store_release(cell, value)                                                              \
        atomic_store_explicit(&(cell)->word_, (value), memory_order_release)

/* A full barrier rides along on x86-64: a locked instruction. */
#define sb_exchange_full(cell, value)                                                              \
        atomic_exchange_explicit(&(cell)->word_, (value), memory_order_seq_cst)
#define sb_add_full(cell, value)                                                                   \
        atomic_fetch_add_explicit(&(cell)->word_, (value), memory_order_seq_cst)
#define sb_or_full(cell, value)                                                                    \
        atomic_fetch_or_explicit(&(cell)->word_, (value), memory_order_seq_cst)
#define sb_and_full(cell, value)                                                                   \
        atomic_fetch_and_explicit(&(cell)->word_, (value), memory_order_seq_cst)

static inline bool sb_cas64_full(struct sb_cell64 *cell, uint64_t expected, uint64_t desired)
{
        return atomic_compare_exchange_strong_explicit(
                &cell->word_, &expected, desired, memory_order_seq_cst, memory_order_acquire);
}

static inline bool sb_cas32_full(struct sb_cell32 *cell, uint32_t expected, uint32_t desired)
{
        return atomic_compare_exchange_strong_explicit(
                &cell->word_, &expected, desired, memory_order_seq_cst, memory_order_acquire);
}

/* Keeps the compiler, not the processor, from moving accesses across. Its other half is a
 * membarrier elsewhere. */
#define sb_compiler_barrier() atomic_signal_fence(memory_order_seq_cst)

/* A thread's stores become visible to all before its later loads. */
#define sb_fence_full() atomic_thread_fence(memory_order_seq_cst)

/* One polite turn of a spinning loop. */
#define sb_stall() ck_pr_stall()

#endif
