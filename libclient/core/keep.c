/* Rules of history. What is done is in ring/keep.h. */
#include "ring/op/keep.h"
#include "shm/history/rules.h"

#include "libclient/core/bus.h"

static_assert(
        (int)SB_KEEP_NEWEST == (int)SB_RULE_NEWEST && (int)SB_KEEP_LAST == (int)SB_RULE_LAST &&
                (int)SB_KEEP_SPAN == (int)SB_RULE_SPAN && (int)SB_KEEP_ALL == (int)SB_RULE_ALL,
        "as in shm/rules.h");

/* A prefix may be empty: all keys. */
static int check(struct sb_bus *bus, struct sb_bytes key, uint32_t flags)
{
        if (bus == NULL || (flags & ~SB_PREFIX) != 0 || (key.data == NULL && key.len > 0) ||
                (key.len == 0 && !(flags & SB_PREFIX)))
                return -EINVAL;
        if (key.len > sb_keep_len_max(&bus->peer))
                return -ENAMETOOLONG;
        return sb_bus_detached(bus) ? SB_E_DETACHED : 0;
}

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
 * When it returns, the rule applies to all keys that are there and to all that come. What was gone
 * before does not come back: reads at cuts before that say SB_E_LAPPED where they do not know. A
 * span is kept a little longer than it says, the longer the more: up to a second, a minute or an
 * hour. One of more hours than the bus has 128 KiB, or than 512, keeps everything.
 *
 * Return:   0; SB_E_FULL (no memory for the rule itself: it covers nothing; call again);
 *           SB_E_DETACHED; -EINVAL; -ENAMETOOLONG (10 bytes fewer than a key may have).
 * Threads:  the bus's own.
 * Progress: lock-free; a process that is killed in the middle is finished by agentd.
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
