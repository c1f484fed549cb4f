/* Branches of the ordered index; see branch.h. */

#include "shm/keys/branch.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/word.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"

uint32_t sb_branch_differ(
        const unsigned char *a, uint32_t a_len, const unsigned char *b, uint32_t b_len)
{
        uint32_t len = a_len < b_len ? a_len : b_len, at = 0;

        while (at + 8 <= len) {
                uint64_t first, second;

                memcpy(&first, a + at, 8);
                memcpy(&second, b + at, 8);
                if (first != second)
                        break;
                at += 8;
        }
        while (at < len && a[at] == b[at])
                at++;
        if (at < len)
                return 2 * at + ((a[at] ^ b[at]) < 16);
        return a_len == b_len ? SB_BRANCH_SAME : 2 * len;
}

bool sb_branch_view(
        const struct sb_segment *segment, uint64_t word, uint32_t depth, struct sb_branch_view *ret)
{
        struct sb_branch *branch = sb_block_at(segment, word & SB_OFFSET_MASK);
        /* Relaxed: the load of @word has it complete. */
        uint64_t shape = branch ? sb_load_relaxed(&branch->shape) : 0;

        if (SB_UNLIKELY(!SB_BRANCH_IS(shape)))
                return false;
        *ret = (struct sb_branch_view){.branch = branch,
                .depth = SB_BRANCH_DEPTH(shape),
                .slots = SB_BRANCH_SLOTS(shape),
                .anchor = SB_BRANCH_ANCHOR(shape)};
        return SB_LIKELY(ret->depth >= depth && ret->depth <= 2 * SB_KEY_LEN_MAX &&
                         ret->slots > ret->anchor && ret->slots <= SB_BRANCH_SYMBOLS &&
                         sb_offset_of(segment, branch) + sb_branch_size(ret->slots) <=
                                 segment->geometry.size);
}

struct sb_word64 *sb_branch_slot(struct sb_handle *handle, const struct sb_branch_view *view,
        uint32_t symbol, uint64_t *ret_word)
{
        uint32_t i = view->slots == SB_BRANCH_SYMBOLS ? symbol : 0;

        for (; i < view->slots; i++) {
                uint64_t word = sb_pin_load(handle, &view->branch->slot[i]);
                uint32_t own = SB_SLOT_SYMBOL(word);

                if (!own || own == symbol + 1) {
                        *ret_word = word;
                        return &view->branch->slot[i];
                }
        }
        *ret_word = 0;
        return NULL;
}

int sb_branch_any_leaf(
        struct sb_handle *handle, struct sb_branch_way way, uint32_t depth, struct sb_node **ret)
{
        struct sb_branch_view view;

        /* Bound: result. Depths grow, or the index is damaged. */
        for (; !(way.word & SB_SLOT_LEAF); depth = view.depth + 1) {
                const struct sb_word64 *anchor;
                uint64_t word;

                if (!sb_branch_view(&handle->segment, way.word, depth, &view))
                        return -1;
                anchor = &view.branch->slot[view.anchor];
                word = sb_pin_load(handle, anchor);
                if (!(word & SB_OFFSET_MASK))
                        return -1;
                if (!sb_branch_follow(&way, anchor, word))
                        return 0;
        }
        *ret = sb_node_at(&handle->segment, way.word & SB_OFFSET_MASK);
        return *ret ? 1 : -1;
}

static bool branch_copy_key(
        struct sb_handle *handle, struct sb_branch *branch, struct sb_branch_key *ret)
{
        struct sb_branch_way way = {.word = sb_offset_of(&handle->segment, branch)};
        struct sb_branch_view view;
        struct sb_node_key key;
        struct sb_node *leaf;
        int r;

        do {
                if (!sb_branch_view(&handle->segment, way.word, 0, &view))
                        return false;
                /* Its own slots have no stem: a word that does not change, as long as the block is
                 * this branch. Relaxed: as in the view. */
                way.stem = &branch->shape;
                way.stem_word = sb_load_relaxed(&branch->shape);
                r = sb_branch_any_leaf(handle, way, 0, &leaf);
        } while (!r);
        if (r < 0)
                return false;
        key = sb_node_key(&handle->segment, leaf);
        if (!key.bytes)
                return false;
        memcpy(ret->bytes, key.bytes, key.len);
        ret->len = key.len;
        ret->depth = view.depth;
        return true;
}

bool sb_branch_key_below(
        struct sb_handle *handle, struct sb_branch *branch, struct sb_branch_key *ret)
{
        bool found;

        sb_model_unchecked_begin();
        found = branch_copy_key(handle, branch, ret);
        sb_model_unchecked_end();
        return found;
}
