/* Key nodes: finding the key in one; see node.h. */

#include "shm/keys/node.h"

#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/bytes.h"
#include "shm/base/fault.h"
#include "shm/layout/block.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

/* The fault KEY_LEN_READ_AGAIN loads again what was checked. */
static void node_read_again(const struct sb_node *node, struct sb_node_key *key)
{
        if (SB_FAULT(KEY_LEN_READ_AGAIN))
                key->len = (uint32_t)sb_again(node->key_len);
}

struct sb_node_key sb_node_key(const struct sb_segment *segment, const struct sb_node *node)
{
        uint32_t key_len = (uint32_t)sb_once(node->key_len);
        uint64_t at = sb_offset_of(segment, node);
        struct sb_node_key key;

        if (SB_UNLIKELY(!key_len || key_len > segment->key_len_max ||
                        at + sb_node_size(key_len) > segment->geometry.size))
                return (struct sb_node_key){0};
        key = (struct sb_node_key){.bytes = node->key, .len = key_len};
        node_read_again(node, &key);
        return key;
}

int sb_node_compare(const struct sb_segment *segment, const struct sb_node *node, const void *key,
        uint32_t key_len)
{
        struct sb_node_key own = sb_node_key(segment, node);

        return own.bytes ? sb_bytes_compare(own.bytes, own.len, key, key_len) : 1;
}
