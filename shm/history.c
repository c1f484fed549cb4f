/* The memory that rules of history keep; see history.h. */
#include "history.h"

#include "retire.h"
#include "slab.h"

#define SHORT_PAST 64u /* versions, that a write looks through */

void sb_history_begin(struct sb_peer *peer)
{
        struct sb_superblock *super = peer->segment.super;
        uint64_t clock = sb_load_acquire(&super->clock); /* A:clock. */
        uint32_t i;

        peer->history_counts = sb_rules_any(&peer->segment);
        if (!peer->history_counts)
                return;
        peer->history_from = sb_load_acquire(&super->history_floor); /* A:history-floor. */
        peer->history_width = (clock - peer->history_from) / SB_HISTORY_STEPS + 1;
        for (i = 0; i < SB_HISTORY_STEPS; i++)
                peer->history[i] = 0;
}

bool sb_history_count(struct sb_peer *peer, const struct sb_keeping *keeping,
        const struct sb_version *version, uint64_t successor)
{
        const struct sb_segment *segment = &peer->segment;
        uint64_t bytes, step;
        uint32_t class_;

        if (!peer->history_counts)
                return SB_RULE_KIND(keeping->word) == SB_RULE_LAST &&
                       SB_RULE_VALUE(keeping->word) <= SHORT_PAST;
        if (successor <= peer->history_from)
                return true;
        bytes = sb_version_size(version->shape);
        class_ = sb_slab_class(segment, bytes);
        bytes = class_ < segment->class_count
                        ? segment->class_size[class_]
                        : (bytes + segment->geometry.unit_size - 1) &
                                  ~((uint64_t)segment->geometry.unit_size - 1);
        step = (successor - peer->history_from - 1) / peer->history_width;
        peer->history[step < SB_HISTORY_STEPS ? step : SB_HISTORY_STEPS - 1] += bytes;
        return true;
}

void sb_history_end(struct sb_peer *peer)
{
        struct sb_superblock *super = peer->segment.super;
        /* A:history-floor. */
        uint64_t limit = sb_load_acquire(&super->history_limit), total = 0, old;
        uint64_t floor = peer->history_from;
        uint32_t i;

        if (!peer->history_counts)
                return;
        peer->history_counts = false;
        for (i = 0; i < SB_HISTORY_STEPS; i++)
                total += peer->history[i];
        sb_store_relaxed(&super->history_bytes, total); /* Relaxed: for people. */
        for (i = 0; limit && total > limit && i < SB_HISTORY_STEPS; i++) {
                total -= peer->history[i];
                floor += peer->history_width;
        }
        if (floor == peer->history_from)
                return;
        for (old = sb_load_acquire(&super->history_floor); old < floor; /* A:history-floor. */
                old = sb_load_acquire(&super->history_floor))           /* A:history-floor. */
                /* R:history-floor > A:history-floor. */
                sb_cas64_full(&super->history_floor, old, floor);
        /* What lies below goes with the next sweep. */
        sb_retire_leave(peer);
}
