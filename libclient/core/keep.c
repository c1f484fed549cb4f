/*
 * Rules of history: which keys keep how much of their past. ring/op/keep.h does the work; here the
 * arguments are checked, and struct sb_rule is turned into a rule's word and back.
 *
 * Always true: a rule that this file writes is one that it would accept again.
 */
#include "ring/keep.h"

#include "libclient/core/bus.h"

static_assert(
        (int)SB_KEEP_NEWEST == (int)SB_RULE_NEWEST && (int)SB_KEEP_LAST == (int)SB_RULE_LAST &&
                (int)SB_KEEP_SPAN == (int)SB_RULE_SPAN && (int)SB_KEEP_ALL == (int)SB_RULE_ALL,
        "as in shm/history/rules.h");

/* Whether bus, key and flags can be used. A prefix may be empty: it covers all keys. Return: 0,
 * -EINVAL, -ENAMETOOLONG, SB_E_DETACHED. */
static int check(struct sb_bus *bus, struct sb_bytes key, uint32_t flags)
{
        if (bus == NULL || (flags & ~SB_PREFIX) != 0 || (key.data == NULL && key.len > 0) ||
                (key.len == 0 && !(flags & SB_PREFIX)))
                return -EINVAL;
        if (key.len > sb_keep_len_max(&bus->peer))
                return -ENAMETOOLONG;
        return sb_bus_detached(bus) ? SB_E_DETACHED : 0;
}

/* Whether @rule can be meant, and fits a rule's word. */
static bool is_rule(const struct sb_rule *rule)
{
        bool counts = rule->kind == SB_KEEP_LAST || rule->kind == SB_KEEP_SPAN;

        return rule->size == sizeof(*rule) && rule->zero == 0 && rule->kind <= SB_KEEP_ALL &&
               (rule->value != 0) == counts && rule->value >> 62 == 0;
}

/**
 * sb_keep() - say how much of the past is kept
 * @bus:        bus with any access
 * @key:        a key, or with SB_PREFIX the beginning of keys, which may be empty; not kept after
 *              the call
 * @flags:      0, SB_PREFIX
 * @rule:       what to keep; SB_KEEP_NEWEST: nothing, as without a rule
 *
 * When the call returns, the rule applies to all keys that are there and to all that come. What was
 * gone before does not come back: reads at cuts before that say SB_E_LAPPED where they do not know.
 * A span is kept a little longer than it says, the longer the more: up to a second, a minute or an
 * hour. A span of more hours than the bus has 128 KiB, or of more than 512, keeps everything.
 *
 * Return:   0; SB_E_FULL (no memory for the rule itself: it covers nothing yet; call again);
 *           SB_E_DETACHED; -EINVAL; -ENAMETOOLONG (10 bytes fewer than a key may have).
 * Threads:  the bus's own.
 * Progress: lock-free; agentd finishes the call of a process that is killed in the middle.
 * Cost:     a walk over all keys that it applies to.
 */
int sb_keep(struct sb_bus *bus, struct sb_bytes key, uint32_t flags, const struct sb_rule *rule)
{
        int r = rule == NULL ? -EINVAL : check(bus, key, flags);

        if (r == 0 && !is_rule(rule))
                r = -EINVAL;
        if (r != 0)
                return r;
        return sb_keep_write(&bus->peer, key.data, (uint32_t)key.len, (flags & SB_PREFIX) != 0,
                SB_RULE_WORD(rule->kind, rule->value));
}

/**
 * sb_kept() - the rule of exactly this key or prefix
 * @bus:        bus with any access
 * @key:        as for sb_keep()
 * @flags:      0, SB_PREFIX
 * @ret_rule:   the rule
 *
 * Return:   0; SB_E_NOT_FOUND; SB_E_DETACHED; -EINVAL; -ENAMETOOLONG.
 * Threads:  the bus's own.
 * Progress: lock-free.
 * Cost:     a get.
 */
int sb_kept(struct sb_bus *bus, struct sb_bytes key, uint32_t flags, struct sb_rule *ret_rule)
{
        int r = ret_rule == NULL ? -EINVAL : check(bus, key, flags);
        uint64_t word;

        if (r == 0)
                r = sb_keep_look_up(
                        &bus->peer, key.data, (uint32_t)key.len, (flags & SB_PREFIX) != 0, &word);
        if (r == 0)
                *ret_rule = (struct sb_rule){.size = sizeof(*ret_rule),
                        .kind = (uint32_t)SB_RULE_KIND(word),
                        .value = SB_RULE_VALUE(word)};
        return r;
}
