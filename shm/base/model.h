/*
 * What a build for the model checker (tests/harness/model) is told besides the accesses to words
 * that it sees by itself: which blocks are allocated, and which accesses it need not judge.
 *
 * Always true: in every other build these calls are nothing, and their arguments are not evaluated.
 */
#ifndef SB_BASE_MODEL_H
#define SB_BASE_MODEL_H

#ifdef SB_MODEL
/* The bytes at @offset are 1: allocated; 0: freed; 2: allocated, whether they were before or not.
 */
void sb_model_block(uint64_t offset, uint64_t size, int allocated);
/* Accesses in between may meet freed memory: the code does not depend on what they find. */
void sb_model_unchecked_begin(void);
void sb_model_unchecked_end(void);
/* Where the acquire, release or locked instruction stands that comes next. */
extern const char *sb_model_file;
extern uint32_t sb_model_line;
#define sb_model_here() ((void)(sb_model_file = __FILE__, sb_model_line = __LINE__))
#else
/* sizeof marks the arguments as used, for the compiler's warnings. */
#define sb_model_block(offset, size, allocated)                                                    \
        ((void)sizeof(offset), (void)sizeof(size), (void)sizeof(allocated))
#define sb_model_unchecked_begin() ((void)0)
#define sb_model_unchecked_end()   ((void)0)
#define sb_model_here()            ((void)0)
#endif

#endif
