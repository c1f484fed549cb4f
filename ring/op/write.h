/*
 * What a write of one key is, and what came of it.
 */
#ifndef SB_RING_OP_WRITE_H
#define SB_RING_OP_WRITE_H

#include <stdint.h>

#define SB_OP_ANY_REV UINT64_MAX

struct sb_op_write {
        const void *key, *value;
        uint32_t key_len;
        uint32_t kind; /* SB_VERSION_VALUE or SB_VERSION_DELETED */
        uint64_t value_len;
        uint64_t expected_rev; /* SB_OP_ANY_REV: whatever there is; 0: create; deletes: never 0 */
};
struct sb_op_result {
        /* on 0: the new revision; on SB_E_CONFLICT: the current one, 0 without a value */
        uint64_t rev;
        uint64_t cut; /* on 0: the first cut that contains the write */
};

#endif
