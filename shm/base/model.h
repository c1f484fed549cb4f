/*
 * What the model checker is told: which blocks are allocated, and which accesses it need not judge.
 * Nothing in every other build.
 */
#ifndef SB_BASE_MODEL_H
#define SB_BASE_MODEL_H

#ifdef SB_MODEL
/* 1: allocated, 0: freed, 2: allocated, perhaps as it was before. */
void sb_model_block(uint64_t offset, uint64_t size, int allocated);
void sb_model_unchecked_begin(void);
void sb_model_unchecked_end(void);
#else
#define sb_model_block(offset, size, allocated) ((void)0)
#define sb_model_unchecked_begin()              ((void)0)
#define sb_model_unchecked_end()                ((void)0)
#endif

#endif
