/* Reading at cuts that no client announces: the walk, and what covers a cut; see past.h. */

#include "shm/history/past.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/history/rules.h"
#include "shm/history/times.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/stamp.h"

/* The version that the link of @version leads to, or NULL; *trimmed: as for sb_past_next(). */
static struct sb_version *past_follow(
        struct sb_handle *handle, struct sb_version *version, bool *trimmed)
{
        uint64_t link = sb_pin_load(handle, &version->prev);

        *trimmed = *trimmed || (link & SB_PREV_TRIMMED);
        return sb_version_at(&handle->segment, link & SB_OFFSET_MASK);
}

static bool past_is_placeholder(const struct sb_version *version)
{
        return SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER;
}

/* A walk down a chain, from its head. */
static enum sb_past past_walk(struct sb_handle *handle, struct sb_version *version, uint64_t cut,
        struct sb_version **ret_version)
{
        uint64_t left = sb_damage_bound(&handle->segment);
        struct sb_version *oldest = NULL;
        bool trimmed = false;

        /* Bound: damage. A chain that goes round. */
        while (version && sb_version_fits(&handle->segment, version) &&
                sb_damage_step(handle, &left) && !past_is_placeholder(version)) {
                struct sb_settled settled = sb_stamp_settle(handle, version);

                /* As in every read at a cut: if it commits, it is in the cut. */
                if (settled.outcome == SB_OUTCOME_UNDECIDED && settled.stamp &&
                        settled.stamp <= cut) {
                        sb_help_version(handle, version);
                        continue;
                }
                if (settled.outcome == SB_OUTCOME_COMMITTED && settled.stamp <= cut && !trimmed) {
                        *ret_version = version;
                        return SB_PAST_FOUND;
                }
                if (settled.outcome == SB_OUTCOME_COMMITTED)
                        oldest = version;
                version = past_follow(handle, version, &trimmed);
        }
        if (!trimmed)
                return SB_PAST_ABSENT;
        *ret_version = oldest;
        return SB_PAST_TRIMMED;
}

struct sb_version *sb_past_head(
        struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_probe probe = sb_probe_first(segment, hash);
        struct sb_word64 *cell;

        while ((cell = sb_probe_next(segment, &probe))) {
                uint64_t word = sb_pin_load(handle, cell);
                struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);

                if (!(word & SB_CELL_FROZEN) && version && !past_is_placeholder(version) &&
                        sb_version_is(segment, version, key, key_len))
                        return version;
        }
        return NULL;
}

enum sb_past sb_past_find(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint64_t hash, uint64_t cut, struct sb_version **ret_version)
{
        struct sb_version *head = sb_past_head(handle, key, key_len, hash);

        return head ? past_walk(handle, head, cut, ret_version) : SB_PAST_ABSENT;
}

enum sb_past sb_past_walk(struct sb_handle *handle, struct sb_node *node, uint64_t cut,
        struct sb_version **ret_version)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_word64 *cell = sb_cell_at(segment, sb_pin_load(handle, &node->cell));
        uint64_t word = cell ? sb_pin_load(handle, cell) : 0;
        struct sb_version *head = sb_version_at(segment, word & SB_OFFSET_MASK);

        if (!word || (word & SB_CELL_FROZEN) || !head || head->node != sb_offset_of(segment, node))
                return SB_PAST_ABSENT;
        return past_walk(handle, head, cut, ret_version);
}

/* Whether the version that the walk came from, of which @above is the revision, is a copy of this
 * one: they are one write (upkeep/move.h). Fault COPY_LISTED: not asked. */
static bool past_is_copied(const struct sb_version *version, uint64_t above)
{
        return version->rev == above && !SB_FAULT(COPY_LISTED);
}

struct sb_version *sb_past_next(
        struct sb_handle *handle, struct sb_version *version, bool below, bool *trimmed)
{
        uint64_t left = sb_damage_bound(&handle->segment), above = 0;

        if (version && below) {
                above = version->rev;
                version = past_follow(handle, version, trimmed);
        }
        /* Bound: damage. A chain that goes round. */
        while (version && sb_version_fits(&handle->segment, version) &&
                sb_damage_step(handle, &left)) {
                if (past_is_placeholder(version))
                        return NULL;
                if (sb_stamp_settle(handle, version).outcome == SB_OUTCOME_COMMITTED &&
                        !past_is_copied(version, above))
                        return version;
                version = past_follow(handle, version, trimmed);
        }
        return NULL;
}

/* ---- what covers a cut ---- */

bool sb_past_marked(const struct sb_segment *segment, uint64_t cut)
{
        uint64_t high = sb_load_acquire(&segment->super->mark_high), marked; /* A:mark. */
        uint32_t i;

        for (i = 0; i < high && i < segment->geometry.mark_count; i++)
                if (sb_named_read(segment, i, &marked) && marked == cut)
                        return true;
        return false;
}

/* Whether no floor has taken the rules away from what was current in @cut. */
static bool past_above_floor(const struct sb_segment *segment, uint64_t cut)
{
        return sb_load_acquire(&segment->super->history_floor) <= cut; /* A:history-floor. */
}

/* Whether one rule covers @cut. */
static bool past_covers(struct sb_handle *handle, const struct sb_rule_value *value, uint64_t cut)
{
        return SB_RULE_KIND(value->word) != SB_RULE_NEWEST && value->since && value->since <= cut &&
               past_above_floor(&handle->segment, cut) &&
               (SB_RULE_KIND(value->word) != SB_RULE_SPAN ||
                       sb_rules_horizon(handle, SB_RULE_VALUE(value->word)) <= cut);
}

/* The same of what a rule's key holds, or whether the rule that was there had gone by @cut. */
static bool past_goes_on(struct sb_handle *handle, const struct sb_rule_value *value, uint64_t cut)
{
        if (SB_RULE_KIND(value->word) == SB_RULE_NEWEST)
                return value->since && value->since <= cut;
        return past_covers(handle, value, cut);
}

bool sb_past_kept(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t cut)
{
        struct sb_rule_found found;

        sb_rules_find(handle, key, key_len, false, &found);
        return !found.renewed && past_covers(handle, &found.value, cut);
}

/* Lower *end_ns to the time until which a rule with a span keeps @cut: for that long after the next
 * cut that was noted. */
static void past_bound_end(
        struct sb_handle *handle, const struct sb_rule_value *value, uint64_t cut, uint64_t *end_ns)
{
        const struct sb_os *os = handle->segment.os;
        struct sb_moment next;
        uint64_t end;

        if (SB_RULE_KIND(value->word) != SB_RULE_SPAN)
                return;
        end = sb_times_behind(&handle->segment, cut + 1, &next) ? next.monotonic_ns
                                                                : os->now_ns(os->context);
        if (!__builtin_add_overflow(end, SB_RULE_VALUE(value->word), &end) && end < *end_ns)
                *end_ns = end;
}

/* Whether all rules for keys and prefixes further down cover @cut, too: the narrow ones first. @at:
 * where the keys of such rules begin. Lowers *end_ns. */
static bool past_all_cover(struct sb_handle *handle, const unsigned char *at, uint32_t at_len,
        uint64_t cut, uint64_t *end_ns)
{
        unsigned char key[SB_KEY_LEN_MAX];
        uint32_t key_len = handle->segment.key_len_max;
        bool good = true, more = true, last = true;

        /* No key that begins so lies above this one. */
        memset(key, 0xff, key_len);
        memcpy(key, at, at_len);
        while (good && more) {
                struct sb_version *version;
                struct sb_node_key next = {0};
                struct sb_rule_value value;
                struct sb_node *node;

                sb_pin(handle);
                node = sb_order_below(handle, key, key_len, last);
                if (node)
                        next = sb_node_key(&handle->segment, node);
                more = next.bytes && next.len >= at_len && !memcmp(next.bytes, at, at_len);
                if (more) {
                        key_len = next.len;
                        memcpy(key, next.bytes, key_len);
                        last = false;
                        version = sb_find_in_node(handle, node, SB_STAMP_INTENT - 1);
                        if (version && sb_version_copy(&handle->segment, version, key_len, &value,
                                               sizeof(value))) {
                                good = past_goes_on(handle, &value, cut);
                                past_bound_end(handle, &value, cut, end_ns);
                        }
                }
                sb_unpin(handle);
        }
        return good;
}

bool sb_past_kept_all(struct sb_handle *handle, const void *prefix, uint32_t prefix_len,
        uint64_t cut, uint64_t *ret_end_ns)
{
        unsigned char at[SB_KEY_LEN_MAX];
        struct sb_rule_found found;
        uint64_t end_ns = UINT64_MAX;
        uint32_t at_len, kind;
        bool good = true;

        /* From narrow to wide: a wider rule begins anew before the key of a narrow one, or its
         * place, is gone. So what covered a key at the first look covers it, or at the last one
         * nothing does. */
        for (kind = 0; good && kind < 2; kind++) {
                if (prefix_len > handle->segment.key_len_max - SB_KEEP_PREFIX)
                        break;
                at_len = sb_rules_key(prefix, prefix_len, kind, at);
                good = past_all_cover(handle, at, at_len, cut, &end_ns);
        }
        if (!good)
                return false;
        sb_pin(handle);
        sb_rules_find(handle, prefix, prefix_len, true, &found);
        good = !found.renewed && past_covers(handle, &found.value, cut);
        sb_unpin(handle);
        past_bound_end(handle, &found.value, cut, &end_ns);
        if (good)
                *ret_end_ns = end_ns;
        return good;
}
