/*
 * Rules of history: which keys keep how much of their past. ring/op/keep.h does the work; here the
 * arguments are checked, and struct sb_rule is turned into a rule's word and back.
 *
 * Always true: a rule that this file writes is one that it would accept again.
 *
 * The public calls are described in statebus.h.
 */
#include "libclient/core/bus.h"
#include "libclient/core/sized.h"
#include "libclient/core/use.h"
#include "libclient/core/write.h"
#include "ring/op/keep.h"
#include "shm/history/rules.h"

static_assert(
        (int)SB_KEEP_NEWEST == (int)SB_RULE_NEWEST && (int)SB_KEEP_LAST == (int)SB_RULE_LAST &&
                (int)SB_KEEP_SPAN == (int)SB_RULE_SPAN && (int)SB_KEEP_ALL == (int)SB_RULE_ALL,
        "as in shm/history/rules.h");

/* Whether bus, key and flags can be used. A prefix may be empty: it covers all keys. Return: 0,
 * -EINVAL, -ENAMETOOLONG, SB_E_DETACHED. */
static int keep_check(struct sb_bus *bus, struct sb_bytes key, uint32_t flags)
{
        if (!bus || (flags & ~SB_PREFIX) != 0 || (!key.data && key.len > 0) ||
                (key.len == 0 && !(flags & SB_PREFIX)))
                return -EINVAL;
        if (key.len > sb_keep_len_max(&bus->handle))
                return -ENAMETOOLONG;
        return sb_bus_detached(bus) ? SB_E_DETACHED : 0;
}

/* Whether @rule can be meant, and fits a rule's word. */
static bool keep_is_rule(const struct sb_rule *rule)
{
        bool counts = rule->kind == SB_KEEP_LAST || rule->kind == SB_KEEP_SPAN;

        return sb_sized_is(rule->size, sizeof(*rule), NULL) && rule->zero == 0 &&
               rule->kind <= SB_KEEP_ALL && (rule->value != 0) == counts && rule->value >> 62 == 0;
}

int sb_keep(struct sb_bus *bus, struct sb_bytes key, uint32_t flags, const struct sb_rule *rule)
{
        int r = !rule ? -EINVAL : keep_check(bus, key, flags);

        SB_USE(bus, sb_keep(bus, key, flags, rule));
        if ((r == 0 || r == SB_E_DETACHED) && !keep_is_rule(rule))
                r = -EINVAL;
        /* Rules do not apply to the bus's own keys (shm/history/rules.h), so none says so. */
        if ((r == 0 || r == SB_E_DETACHED) && sb_write_key(key) != 0)
                r = -EPERM;
        if (r == 0)
                r = sb_write_open(bus);
        if (r != 0)
                return r;
        r = sb_bus_result(
                bus, sb_keep_write(&bus->handle, key.data, (uint32_t)key.len,
                             (flags & SB_PREFIX) != 0, SB_RULE_WORD(rule->kind, rule->value)));
        return r != 0 ? r : sb_write_last_own(bus);
}

int sb_kept(struct sb_bus *bus, struct sb_bytes key, uint32_t flags, struct sb_rule *ret_rule)
{
        int r = !ret_rule ? -EINVAL : keep_check(bus, key, flags);
        uint64_t word;

        SB_USE(bus, sb_kept(bus, key, flags, ret_rule));
        if (r == 0)
                r = sb_bus_result(bus, sb_keep_look_up(&bus->handle, key.data, (uint32_t)key.len,
                                               (flags & SB_PREFIX) != 0, &word));
        if (r == 0)
                *ret_rule = (struct sb_rule){.size = sizeof(*ret_rule),
                        .kind = (uint32_t)SB_RULE_KIND(word),
                        .value = SB_RULE_VALUE(word)};
        return r;
}
