/*
 * Branches of the ordered index: the symbols of keys, and how a process goes from one branch to the
 * next (order.h has the protocol).
 *
 * A reader's stem is the last link on its way that was not FROZEN, and what was in it. A FROZEN
 * word counts only while the stem still is what it was: then its branch is linked, and so is what
 * the word leads to. Else that may have gone, and be free memory.
 *
 * Always true: the shape of a branch is written before it is linked, and stays. All keys below it
 * are the same up to its depth, for its whole life.
 */
#ifndef SB_KEYS_BRANCH_H
#define SB_KEYS_BRANCH_H

#include <stdint.h>

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/keys/node.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"

/* The symbol of a key at @depth, which is not behind its end. */
static inline uint32_t sb_branch_symbol(const unsigned char *key, uint32_t len, uint32_t depth)
{
        uint32_t at = depth / 2;

        if (at >= len)
                return 0;
        return 1 + (depth % 2 ? key[at] & 15u : key[at] >> 4u);
}

/* The depth at which two keys differ first; SB_BRANCH_SAME: they are the same. */
#define SB_BRANCH_SAME UINT32_MAX
uint32_t sb_branch_differ(
        const unsigned char *a, uint32_t a_len, const unsigned char *b, uint32_t b_len);

/* Bytes of a branch of @slots slots. */
static inline uint64_t sb_branch_size(uint32_t slots)
{
        return sizeof(struct sb_branch) + 8 * (uint64_t)slots;
}

/* A branch of which the shape was loaded once and checked. */
struct sb_branch_view {
        struct sb_branch *branch;
        uint32_t depth, slots, anchor;
};
/* The branch that @word leads to, at least @depth deep. False: there can be none. */
bool sb_branch_view(const struct sb_segment *segment, uint64_t word, uint32_t depth,
        struct sb_branch_view *ret);

/* The slot of a symbol, or the free one that it would take, and what is in it; NULL: there is none,
 * and *ret_word is 0. Under a pin. */
struct sb_word64 *sb_branch_slot(struct sb_handle *handle, const struct sb_branch_view *view,
        uint32_t symbol, uint64_t *ret_word);

/* Where a reader is: a word, and its stem. */
struct sb_branch_way {
        const struct sb_word64 *stem;
        uint64_t stem_word, word;
};
/* Go on to @word, which was in @slot. False: the stem is not what it was, begin again. */
static inline bool sb_branch_follow(
        struct sb_branch_way *way, const struct sb_word64 *slot, uint64_t word)
{
        way->word = word;
        if (SB_LIKELY(!(word & SB_SLOT_FROZEN))) {
                way->stem = slot;
                way->stem_word = word;
                return true;
        }
        /* A:publish. */
        return SB_FAULT(ORDER_STEM_LOST) || sb_load_acquire(way->stem) == way->stem_word;
}

/* The root. */
static inline struct sb_branch_way sb_branch_root(struct sb_handle *handle)
{
        const struct sb_word64 *root = &handle->segment.super->order;
        uint64_t word = sb_pin_load(handle, root);

        return (struct sb_branch_way){.stem = root, .stem_word = word, .word = word};
}

/* A key below @way, by the anchors. Return: 1: it is *ret; 0: the way is lost, begin again; -1: the
 * index is damaged. */
int sb_branch_any_leaf(
        struct sb_handle *handle, struct sb_branch_way way, uint32_t depth, struct sb_node **ret);

/* A key, copied. */
struct sb_branch_key {
        unsigned char bytes[SB_KEY_LEN_MAX];
        uint32_t len;
        uint32_t depth; /* of the branch */
};
/* The key of a leaf along the anchors of a branch that may be out of the index: then its block, and
 * what its slots lead to, may be anything. False: there is none. */
bool sb_branch_key_below(
        struct sb_handle *handle, struct sb_branch *branch, struct sb_branch_key *ret);

#endif
