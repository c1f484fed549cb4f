/*
 * The model build includes this before everything else in protocol files: the compiler's
 * instrumentation does not see bulk copies of the C library, so they go through functions that look
 * at the region. Allocations of the client library come to the heaps of fibres.
 */
#ifndef TESTS_HARNESS_MODEL_PROTOCOL_H
#define TESTS_HARNESS_MODEL_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/harness/heap.h"

void *sb_model_memcpy(void *to, const void *from, size_t len);
void *sb_model_memmove(void *to, const void *from, size_t len);
void *sb_model_memset(void *to, int value, size_t len);
int sb_model_memcmp(const void *a, const void *b, size_t len);
void sb_model_block(uint64_t offset, uint64_t size, int allocated);
uint32_t sb_model_slab_takes(void); /* the scenario's */
uint32_t sb_model_branch_few(void);
uint32_t sb_model_scan_first(void);
void sb_model_unchecked_begin(void);
void sb_model_unchecked_end(void);

#define memcpy  sb_model_memcpy
#define memmove sb_model_memmove
#define memset  sb_model_memset
#define memcmp  sb_model_memcmp

#endif
