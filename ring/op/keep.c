/*
 * Rules of history, written; see keep.h. The first write of a rule's key is over the revision that
 * was read, the last one only over the revision of the first. So of two processes that write
 * different rules, the later one does the rest; of two that write the same one, either.
 */

#include "ring/op/keep.h"

#include <string.h>

#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/fault.h"
#include "shm/base/result.h"
#include "shm/history/rules.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"

/* A rule's key, and the key or prefix that the rule is for. */
struct target {
        const void *key;
        uint32_t key_len;
        bool prefix;
        uint32_t len;
        unsigned char bytes[SB_KEY_LEN_MAX];
};

/* Makes the rule's key. */
static void keep_aim(struct target *ret, const void *key, uint32_t key_len, bool prefix)
{
        ret->key = key;
        ret->key_len = key_len;
        ret->prefix = prefix;
        ret->len = sb_rules_key(key, key_len, prefix, ret->bytes);
}

uint32_t sb_keep_len_max(const struct sb_handle *handle)
{
        return handle->segment.key_len_max - SB_KEEP_PREFIX;
}

/* Writes the rule's key over revision @expected; @value NULL: deletes it. A rule that may be what
 * keeps all memory is taken away by a value first, and then a delete: both may have what is
 * reserved for that. Return: as sb_op_write_reserved(). */
static int keep_write_rule(struct sb_handle *handle, const struct target *target,
        const struct sb_rule_value *value, uint64_t expected, uint64_t *ret_rev)
{
        if (value && SB_RULE_KIND(value->word) == SB_RULE_NEWEST && expected)
                return sb_op_write_passing(handle, target->bytes, target->len, value,
                        sizeof(*value), expected, ret_rev);
        return sb_op_write_reserved(
                handle, target->bytes, target->len, value, sizeof(*value), expected, ret_rev);
}

/* sb_rules_read() under a pin of its own. */
static bool keep_read_rule(struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix,
        struct sb_rule_found *ret)
{
        bool found;

        sb_pin(handle);
        found = sb_rules_read(handle, key, key_len, prefix, ret);
        sb_unpin(handle);
        return found;
}

/* Writes one wider rule anew, with a past that begins now. One that has no past yet is written as
 * it is: its writer may have taken the cut already, in which it would begin, and loses its
 * revision. Return: 0, SB_E_FULL. */
static int keep_renew(struct sb_handle *handle, const void *key, uint32_t len)
{
        struct sb_rule_found found = {0};
        struct target target;
        int r = SB_E_CONFLICT;
        uint64_t rev;

        keep_aim(&target, key, len, true);
        /* A conflict means that another process has written the rule since the look. */
        while (r == SB_E_CONFLICT && keep_read_rule(handle, key, len, true, &found) &&
                SB_RULE_KIND(found.value.word) != SB_RULE_NEWEST) {
                if (found.value.since)
                        found.value.since = sb_clock_take_cut(handle);
                r = keep_write_rule(handle, &target, &found.value, found.rev, &rev);
        }
        return r == SB_E_CONFLICT ? 0 : r;
}

/* All that @narrow covered falls to the rules of shorter prefixes. They did not keep it so far, so
 * the past that they cover begins anew. Return: 0; SB_E_FULL: one of them claims it still, and
 * @narrow must stay, which says that they do not cover it. */
static int keep_renew_wider(struct sb_handle *handle, const struct target *narrow)
{
        uint32_t len = narrow->prefix ? narrow->key_len : narrow->key_len + 1;

        while (len--) {
                int r = keep_renew(handle, narrow->key, len);

                if (r)
                        return r;
        }
        return 0;
}

/* Moves @target on to the next rule's key, with @after behind its own, and reads what that key
 * holds. Return: whether there is one. */
static bool keep_next_rule(
        struct sb_handle *handle, struct target *target, bool after, struct sb_rule_found *ret)
{
        struct sb_node_key next = {0};
        struct sb_node *node;
        bool found = false;

        sb_pin(handle);
        node = sb_order_seek(handle, target->bytes, target->len, after);
        if (node)
                next = sb_node_key(&handle->segment, node);
        if (next.bytes && next.len >= SB_KEEP_PREFIX &&
                !memcmp(next.bytes, SB_RESERVED_KEEP, SB_KEEP_PREFIX - 1)) {
                target->len = next.len;
                memcpy(target->bytes, next.bytes, target->len);
                target->key = target->bytes + SB_KEEP_PREFIX;
                target->key_len = target->len - SB_KEEP_PREFIX;
                target->prefix = target->bytes[SB_KEEP_PREFIX - 1] == 'P';
                if (!sb_rules_read(handle, target->key, target->key_len, target->prefix, ret))
                        ret->value.since = 1; /* deleted: nothing is left to do */
                found = true;
        }
        sb_unpin(handle);
        return found;
}

/* ---- the place of a rule that went ---- */

/* Whether a place from the cut @since on says more than the shorter rules: the one that applies
 * covers a cut before that one, or may do so when its writer is through with it. */
static bool keep_place_counts(struct sb_handle *handle, const struct target *target, uint64_t since)
{
        struct sb_rule_found wide = {0};
        uint64_t horizon = 0;

        if (target->prefix && target->key_len == 0)
                return false;
        sb_pin(handle);
        sb_rules_find(handle, target->key, target->key_len - target->prefix, true, &wide);
        if (SB_RULE_KIND(wide.value.word) == SB_RULE_SPAN)
                horizon = sb_rules_horizon(handle, SB_RULE_VALUE(wide.value.word));
        sb_unpin(handle);
        return wide.key_len && wide.value.since < since && horizon < since;
}

/* Whether there is room for one more place: each scan of the past looks at all of its prefix. Those
 * that say nothing any more go. Keys that were deleted do not count: a client that is stopped with
 * an open cut may keep any number of those. */
static bool keep_has_place(struct sb_handle *handle)
{
        uint32_t looked = 0, places = 0;
        struct target target;
        bool after = false;

        keep_aim(&target, NULL, 0, false);
        target.len--;
        while (looked < SB_KEEP_LOOKS_MAX) {
                struct sb_rule_found found = {0};
                uint64_t rev;

                if (!keep_next_rule(handle, &target, after, &found))
                        return places < SB_KEEP_PLACES_MAX;
                after = true;
                looked += found.key_len > 0;
                if (!found.key_len || SB_RULE_KIND(found.value.word) != SB_RULE_NEWEST ||
                        !found.value.since)
                        continue;
                if (keep_place_counts(handle, &target, found.value.since))
                        places++;
                else /* over its revision alone: another process may have set a rule there */
                        (void)keep_write_rule(handle, &target, NULL, found.rev, &rev);
        }
        return false;
}

/* A rule has gone from all nodes: its key goes, or stays as its place. Where there are too many of
 * those, all shorter rules begin anew. Return: 0; SB_E_CONFLICT; SB_E_NOT_FOUND; SB_E_FULL. */
static int keep_take_away(struct sb_handle *handle, const struct target *target, uint64_t rev)
{
        struct sb_rule_value place = {.word = SB_RULE_WORD(SB_RULE_NEWEST, 0)};
        bool counts = keep_place_counts(handle, target, UINT64_MAX);
        int r = 0;

        if (counts && keep_has_place(handle)) {
                place.since = sb_clock_take_cut(handle);
                return keep_write_rule(handle, target, &place, rev, &rev);
        }
        if (counts)
                r = keep_renew_wider(handle, target);
        r = r ? r : keep_write_rule(handle, target, NULL, rev, &rev);
        /* What lay below it, or below those that began anew. */
        if (!r)
                (void)keep_has_place(handle);
        return r;
}

/* Does the rest for a rule, the key of which is there with revision @rev and covers nothing yet.
 * Return: 0; SB_E_CONFLICT: another process has written the key meanwhile; SB_E_FULL, -EIO: the
 * rest is to be done still, and the rule covers nothing. */
static int keep_finish(struct sb_handle *handle, const struct target *target,
        struct sb_rule_value value, uint64_t rev)
{
        int r;

        /* Again: a scan that began behind the first time may have read the rule of before. */
        sb_rules_announce(handle, target->key_len, target->prefix);
        r = sb_rules_apply_all(handle, target->key, target->key_len, target->prefix);
        if (r)
                return r;
        if (SB_RULE_KIND(value.word) == SB_RULE_NEWEST) {
                r = keep_take_away(handle, target, rev);
        } else {
                value.since = sb_clock_take_cut(handle);
                r = keep_write_rule(handle, target, &value, rev, &rev);
        }
        return r == SB_E_NOT_FOUND ? SB_E_CONFLICT : r;
}

/* Whether the rule is what it is to be: then the past that it covers goes on. Fault
 * KEEP_BEGINS_ANEW: it never is. */
static bool keep_stands(bool there, const struct sb_rule_found *found, uint64_t word)
{
        if (SB_RULE_KIND(word) == SB_RULE_NEWEST)
                return !found->rev || (there && found->value.word == word && found->value.since);
        return there && found->value.word == word && found->value.since &&
               !SB_FAULT(KEEP_BEGINS_ANEW);
}

int sb_keep_write(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix, uint64_t word)
{
        struct sb_rule_value value = {.word = word};
        struct target target;
        int r;

        keep_aim(&target, key, key_len, prefix);
        /* A conflict means that another process has written the rule since the look. */
        do {
                struct sb_rule_found found = {0};
                bool there = keep_read_rule(handle, key, key_len, prefix, &found);
                /* What is no rule, in a damaged segment, is written over. */
                uint64_t rev = found.rev;

                if (keep_stands(there, &found, word))
                        return 0;
                r = 0;
                /* The same rule, which covers nothing yet: another process is about to finish it,
                 * or has stopped there. */
                if (!there || found.value.word != word || found.value.since) {
                        sb_rules_announce(handle, key_len, prefix);
                        r = keep_write_rule(handle, &target, &value, rev, &rev);
                }
                if (!r)
                        r = keep_finish(handle, &target, value, rev);
        } while (r == SB_E_CONFLICT);
        return r;
}

int sb_keep_look_up(struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix,
        uint64_t *ret_word)
{
        struct sb_rule_found found;

        if (!keep_read_rule(handle, key, key_len, prefix, &found) ||
                SB_RULE_KIND(found.value.word) == SB_RULE_NEWEST)
                return SB_E_NOT_FOUND;
        *ret_word = found.value.word;
        return 0;
}

int sb_keep_repair(struct sb_handle *handle)
{
        struct sb_rule_found found;
        struct target target;
        bool after = false;
        int r = 0;

        if (!sb_rules_any(&handle->segment))
                return 0;
        keep_aim(&target, NULL, 0, false);
        target.len--;
        for (; keep_next_rule(handle, &target, after, &found); after = true)
                if (!found.value.since) {
                        int one = keep_finish(handle, &target, found.value, found.rev);

                        r = r ? r : one;
                }
        return r;
}
