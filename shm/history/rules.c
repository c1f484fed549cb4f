/* Rules of history: looking them up, copying them into nodes, asking them; see rules.h. */

#include "shm/history/rules.h"

#include <errno.h>
#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/word.h"
#include "shm/history/times.h"
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
#include "shm/notify/ring.h"

uint32_t sb_rules_key(
        const void *key, uint32_t key_len, bool prefix, unsigned char ret[SB_KEY_LEN_MAX])
{
        memcpy(ret, SB_RESERVED_KEEP, SB_KEEP_PREFIX - 1);
        ret[SB_KEEP_PREFIX - 1] = prefix ? 'P' : 'K';
        if (key_len)
                memcpy(ret + SB_KEEP_PREFIX, key, key_len);
        return SB_KEEP_PREFIX + key_len;
}

bool sb_rules_read(struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix,
        struct sb_rule_found *ret)
{
        unsigned char bytes[SB_KEY_LEN_MAX];
        struct sb_version *version;
        uint32_t len;

        if (key_len > handle->segment.key_len_max - SB_KEEP_PREFIX)
                return false;
        len = sb_rules_key(key, key_len, prefix, bytes);
        version = sb_find_newest(handle, bytes, len, sb_hash_key(bytes, len, handle->segment.seed));
        if (!version || (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) != SB_VERSION_VALUE)
                return false;
        ret->rev = version->rev;
        if (!sb_version_copy(&handle->segment, version, len, &ret->value, sizeof(ret->value)))
                return false;
        ret->key_len = len;
        return true;
}

/* Whether prefixes of this length ever had a rule. */
static bool rules_has_length(const struct sb_segment *segment, uint32_t len)
{
        /* A:rule. */
        return sb_load_acquire(&segment->super->rule_lengths[len / 64]) >> (len % 64) & 1;
}

/* What a look has found at one key of a rule: a rule, or the place of one that went. */
struct rules_look {
        bool leaving;   /* of a longer rule, which is being taken away still */
        uint64_t since; /* a cut up to which longer rules applied, which are gone */
};

/* Whether it is a rule. Then it covers no more than the longer ones leave to it. Fault
 * KEEP_PLACE_PASSED: all that it covers by itself. */
static bool rules_meet(struct rules_look *look, struct sb_rule_found *found)
{
        uint64_t since = found->value.since;

        if (SB_RULE_KIND(found->value.word) == SB_RULE_NEWEST) {
                look->leaving |= !since;
                look->since = since > look->since ? since : look->since;
                return false;
        }
        found->renewed = look->leaving;
        if (since && since < look->since && !SB_FAULT(KEEP_PLACE_PASSED))
                found->value.since = look->since;
        return true;
}

void sb_rules_find(struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix,
        struct sb_rule_found *ret)
{
        struct rules_look look = {0};
        uint32_t len = key_len + 1;

        *ret = (struct sb_rule_found){0};
        if (!sb_rules_any(&handle->segment) || sb_reserved_is(key, key_len))
                return;
        if (!prefix && sb_rules_read(handle, key, key_len, false, ret) && rules_meet(&look, ret))
                return;
        while (len--)
                if (rules_has_length(&handle->segment, len) &&
                        sb_rules_read(handle, key, len, true, ret) && rules_meet(&look, ret))
                        return;
        *ret = (struct sb_rule_found){0};
}

/* Of one rule. It is written twice in its first life: so with a later revision another one was here
 * before it, or one was taken away. */
static uint64_t rules_begin(const struct sb_rule_found *found)
{
        return found->rev <= 2 ? found->value.since : 0;
}

uint64_t sb_rules_uncovered(struct sb_handle *handle, const void *key, uint32_t key_len)
{
        struct sb_rule_found found = {0};
        uint64_t least = UINT64_MAX, begin;
        uint32_t len = key_len + 1;

        if (sb_rules_read(handle, key, key_len, false, &found))
                least = rules_begin(&found);
        while (len--) {
                if (!rules_has_length(&handle->segment, len) ||
                        !sb_rules_read(handle, key, len, true, &found))
                        continue;
                begin = rules_begin(&found);
                least = begin < least ? begin : least;
        }
        return least == UINT64_MAX ? 0 : least;
}

void sb_rules_announce(struct sb_handle *handle, uint32_t key_len, bool prefix)
{
        struct sb_superblock *super = handle->segment.super;

        /* R:rule > A:rule. Before the rule's key is written. */
        if (prefix)
                sb_or_full(&super->rule_lengths[key_len / 64], UINT64_C(1) << (key_len % 64));
        /* R:rule > A:rule. The same. */
        sb_add_full(&super->rule_count, 1);
}

static void rules_announce_key(struct sb_handle *handle, struct sb_node *node, void *context)
{
        struct sb_version *version = sb_find_in_node(handle, node, SB_STAMP_INTENT - 1);
        struct sb_node_key key = sb_node_key(&handle->segment, node);

        (void)context;
        if (version && sb_version_has_value(version) && key.len >= SB_KEEP_PREFIX)
                sb_rules_announce(
                        handle, key.len - SB_KEEP_PREFIX, key.bytes[SB_KEEP_PREFIX - 1] == 'P');
}

void sb_rules_announce_all(struct sb_handle *handle)
{
        (void)sb_order_walk(handle, SB_RESERVED_KEEP, SB_KEEP_PREFIX - 1, rules_announce_key, NULL);
}

uint64_t sb_rules_copy(uint64_t word, uint64_t tag)
{
        uint64_t amount = SB_RULE_VALUE(word), exponent = 0;

        if (SB_RULE_KIND(word) == SB_RULE_NEWEST)
                return 0;
        if (SB_RULE_KIND(word) == SB_RULE_SPAN) {
                for (; amount >> SB_RULE_MANTISSA_BITS; exponent++)
                        amount = (amount + 1) / 2;
                amount |= exponent << SB_RULE_MANTISSA_BITS;
        } else if (amount > UINT32_MAX) {
                amount = UINT32_MAX;
        }
        return SB_RULE_WORD(SB_RULE_KIND(word), SB_RULE_VALUE(tag << SB_RULE_AMOUNT_BITS) | amount);
}

/* Whether the node has still the copy that this process looked at, or made. */
static bool rules_is_copy(const struct sb_node *node, uint64_t copy)
{
        return sb_load_acquire(&node->rule) == copy || SB_FAULT(KEEP_FLAG_UNASKED); /* A:rule. */
}

/* Under a pin: set or take away the flag in the cell of a node that has @copy. Return: false:
 * another process changed the cell or the copy first, look again; else the flag is what the copy
 * says, or none is needed. */
static bool rules_flag(struct sb_handle *handle, struct sb_node *node, uint64_t copy)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_word64 *cell = sb_cell_at(segment, sb_pin_load(handle, &node->cell));
        uint64_t word = cell ? sb_pin_load(handle, cell) : 0;
        struct sb_version *head = sb_version_at(segment, word & SB_OFFSET_MASK);

        /* No cell yet: the process that confirms its placeholder sees the rule. Going: no flag is
         * of use. */
        if (!word || !head || (word & SB_CELL_FROZEN) || head->node != sb_offset_of(segment, node))
                return true;
        /* Behind the load of the word. A process that has copied another rule since then has found
         * its flag there, perhaps, and does not set it again. */
        if (!rules_is_copy(node, copy))
                return false;
        if (copy && !(word & (SB_CELL_KEPT | SB_CELL_WATCHED)))
                sb_ring_say_gone(handle, node, head->rev);
        if (!(word & SB_CELL_KEPT) == !copy)
                return true;
        /* R:publish > A:publish. The flag alone is new. */
        return sb_cas64_full(cell, word, word ^ SB_CELL_KEPT) && rules_is_copy(node, copy);
}

/* Fault KEEP_FLAG_GIVEN_UP: a flag that was lost to another process's write is left out. */
static bool rules_give_up(bool flagged)
{
        return SB_FAULT(KEEP_FLAG_GIVEN_UP) && !flagged;
}

/* Fault KEEP_COPY_UNTAGGED. */
static uint64_t rules_fault_tag(uint64_t tag)
{
        return SB_FAULT(KEEP_COPY_UNTAGGED) ? 0 : tag;
}

void sb_rules_apply(struct sb_handle *handle, struct sb_node *node)
{
        struct sb_node_key key = sb_node_key(&handle->segment, node);
        bool done = !key.bytes;

        /* Without a bound: each further round but the second means that another process has written
         * the key, or a rule. A flag that was left out would be a past that the rule claims, and
         * that pruners take away. */
        while (!done) {
                /* A:rule, both. In this order, and before the look: as rules.h says of the tag. */
                uint64_t old = sb_load_acquire(&node->rule),
                         tag = sb_load_acquire(&handle->segment.super->rule_count), copy;
                struct sb_rule_found found;
                bool flagged;

                sb_rules_find(handle, key.bytes, key.len, false, &found);
                copy = sb_rules_copy(found.value.word, rules_fault_tag(tag));
                /* R:rule > A:rule. The copy comes before the flag that sends pruners to it. */
                if (old != copy && !sb_cas64_full(&node->rule, old, copy))
                        continue;
                flagged = rules_flag(handle, node, copy);
                done = (flagged && old == copy) || rules_give_up(flagged);
        }
}

void sb_rules_apply_new(struct sb_handle *handle, struct sb_node *node)
{
        if (SB_UNLIKELY(sb_rules_any(&handle->segment)))
                sb_rules_apply(handle, node);
}

static void rules_visit(struct sb_handle *handle, struct sb_node *node, void *context)
{
        (void)context;
        sb_rules_apply(handle, node);
}

int sb_rules_apply_all(struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix)
{
        if (prefix) {
                (void)sb_order_walk(handle, key, key_len, rules_visit, NULL);
        } else {
                struct sb_node *node;

                sb_pin(handle);
                node = sb_order_find(handle, key, key_len);
                if (node)
                        sb_rules_apply(handle, node);
                sb_unpin(handle);
        }
        return sb_damage_met(handle) ? -EIO : 0;
}

uint64_t sb_rules_horizon(struct sb_handle *handle, uint64_t span_ns)
{
        struct sb_moment moment;

        return sb_times_horizon(&handle->segment, span_ns, &moment) ? moment.cut : 0;
}

void sb_rules_keeping(struct sb_handle *handle, const struct sb_node *node, uint64_t bound,
        struct sb_keeping *ret)
{
        ret->word = sb_rules_of_node(node);
        ret->floor = sb_load_acquire(&handle->segment.super->history_floor); /* A:history-floor. */
        ret->horizon = 0;
        if (SB_RULE_KIND(ret->word) != SB_RULE_SPAN)
                return;
        /* The table of times is long; what it said a moment ago is right, too, and keeps more. */
        if (handle->rules.span != SB_RULE_VALUE(ret->word) || handle->rules.bound != bound) {
                handle->rules.span = SB_RULE_VALUE(ret->word);
                handle->rules.bound = bound;
                handle->rules.cut = sb_rules_horizon(handle, handle->rules.span);
        }
        ret->horizon = handle->rules.cut;
}

bool sb_rules_keep(const struct sb_keeping *keeping, uint64_t number, uint64_t successor)
{
        if (successor <= keeping->floor)
                return false;
        switch (SB_RULE_KIND(keeping->word)) {
        case SB_RULE_LAST:
                return number <= SB_RULE_VALUE(keeping->word);
        case SB_RULE_SPAN:
                return successor > keeping->horizon;
        case SB_RULE_ALL:
                return true;
        default:
                return false;
        }
}

bool sb_rules_forget(const struct sb_keeping *keeping, uint64_t stamp)
{
        enum sb_rule_kind kind = SB_RULE_KIND(keeping->word);

        return kind == SB_RULE_NEWEST || stamp <= keeping->floor ||
               (kind == SB_RULE_SPAN && stamp <= keeping->horizon);
}
