/*
 * What a write of one key asks for, and what came of it: the arguments of put.h and the result that
 * the short way (overwrite.h) and the long one have in common.
 *
 * Always true: ret->rev and ret->cut mean something only for the results that their comments name.
 */
#ifndef SB_RING_OP_WRITE_H
#define SB_RING_OP_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#define SB_OP_ANY_REV UINT64_MAX

struct sb_op_write {
        const void *key, *value;
        uint32_t key_len;
        uint32_t kind; /* SB_VERSION_VALUE or SB_VERSION_DELETED */
        uint64_t value_len;
        /* SB_OP_ANY_REV: the write takes place over any value, or none; 0: it creates the key;
         * otherwise the value's revision. A delete never expects 0. */
        uint64_t expected_rev;
        bool passes; /* a value that a delete follows at once: it may have what deletes may */
};
struct sb_op_result {
        /* on 0: the new revision; on SB_E_CONFLICT: the current one, 0 for a key without a value */
        uint64_t rev;
        uint64_t cut; /* on 0: the first cut that contains the write */
};

#endif
