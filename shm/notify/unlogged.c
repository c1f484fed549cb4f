/* Which buckets have changes that the log has not taken yet; see unlogged.h. */

#include "shm/notify/unlogged.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"

void sb_unlogged_tell_node(struct sb_handle *handle, struct sb_node *node)
{
        uint64_t cell_number = sb_pin_load(handle, &node->cell);

        if (sb_cell_at(&handle->segment, cell_number))
                sb_unlogged_tell(&handle->segment, cell_number, 0);
}

/* ---- taking ---- */

/* The log's bits become @value; those of watched prefixes stay. */
static void unlogged_ask(const struct sb_segment *segment, uint64_t value)
{
        struct sb_word64 *attention = &segment->super->attention;
        uint64_t old;

        do
                old = sb_load_acquire(attention); /* A:attention. */
        /* R:attention > A:attention. Lock-free: a round that fails means that a watch came or went.
         */
        while (!sb_cas64_full(attention, old, (old & ~SB_ATTENTION_LOG) | value));
}

void sb_unlogged_ask_all(const struct sb_segment *segment)
{
        unlogged_ask(segment, SB_ATTENTION_ALL);
}

void sb_unlogged_ask_above(const struct sb_segment *segment, uint64_t cut)
{
        unlogged_ask(segment, cut & (SB_ATTENTION_ALL - 1));
}

/* Whether a word of @level is one: the bits above it are input. */
static bool unlogged_is_word(const struct sb_segment *segment, uint32_t level, uint64_t index)
{
        return index << (6 * (level + 1)) < segment->bucket_count;
}

/* Take the marks below word @index of @level. */
static void unlogged_take_below(const struct sb_segment *segment, uint32_t level, uint64_t index,
        sb_unlogged_visit *visit, void *context)
{
        struct sb_word64 *word = &segment->unlogged[level][index];
        uint64_t bits;

        /* A:unlogged, R:unlogged. From here on a process that marks below sets this bit again.
         * Fault UNLOGGED_TAKEN_UPWARDS: it does so behind what is below. */
        bits = SB_FAULT(UNLOGGED_TAKEN_UPWARDS) && level ? sb_load_acquire(word)
                                                         : sb_exchange_full(word, 0);

        if (!level) {
                if (bits)
                        visit(context, index, bits);
                return;
        }
        for (; bits; bits &= bits - 1) {
                uint64_t below = index * 64 + (uint64_t)__builtin_ctzll(bits);

                if (unlogged_is_word(segment, level - 1, below))
                        unlogged_take_below(segment, level - 1, below, visit, context);
        }
        if (SB_FAULT(UNLOGGED_TAKEN_UPWARDS))
                /* R:unlogged, too late: that is the fault. */
                sb_exchange_full(word, 0);
}

void sb_unlogged_take(const struct sb_segment *segment, sb_unlogged_visit *visit, void *context)
{
        unlogged_take_below(segment, segment->unlogged_levels - 1, 0, visit, context);
}

/* ---- looking ---- */

static void unlogged_look_below(const struct sb_segment *segment, uint32_t level, uint64_t index,
        sb_unlogged_visit *visit, void *context)
{
        /* Relaxed: marks that come meanwhile are seen or not. */
        uint64_t bits = sb_load_relaxed(&segment->unlogged[level][index]);

        if (!level) {
                if (bits)
                        visit(context, index, bits);
                return;
        }
        for (; bits; bits &= bits - 1) {
                uint64_t below = index * 64 + (uint64_t)__builtin_ctzll(bits);

                if (unlogged_is_word(segment, level - 1, below))
                        unlogged_look_below(segment, level - 1, below, visit, context);
        }
}

void sb_unlogged_look(const struct sb_segment *segment, sb_unlogged_visit *visit, void *context)
{
        unlogged_look_below(segment, segment->unlogged_levels - 1, 0, visit, context);
}

static void unlogged_count_word(void *context, uint64_t word, uint64_t bits)
{
        uint64_t *count = context;

        (void)word;
        *count += (uint64_t)__builtin_popcountll(bits);
}

uint64_t sb_unlogged_count(const struct sb_segment *segment)
{
        uint64_t count = 0;

        sb_unlogged_look(segment, unlogged_count_word, &count);
        return count;
}
