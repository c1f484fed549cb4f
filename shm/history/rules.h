/*
 * Rules of history: how much of a key's past is kept, beyond what open cuts need. A rule is a
 * stored value under a key of the bus's own (layout/reserved.h), for one key or for all with a
 * prefix; the longest that matches applies, a key's own before any prefix.
 *
 *      node: rule, a copy of what applies        cell: the flag KEPT, when that is not NEWEST
 *
 * The flag is in the word that every writer CASes. Only a process that finds it looks at the node,
 * and only when it prunes.
 *
 * Always true:
 *
 * - A rule is written before the nodes are walked, and a new node is linked before the rules are
 *   looked up: so one of the two processes sees the other's.
 *
 * - A process that copies a rule into a node looks the rule up again behind that, until it is what
 *   it copied.
 *
 * - A copy has a tag: how many rules had been announced when it was made. Once a rule covers a
 * past, each copy of it is from behind its announcement. So a process that looked at the node
 * before that, and has another rule in hand, loses its CAS, though the node had the same rule
 * before.
 *
 * - The flag is changed over a word of the cell that was loaded before the node was asked once
 * more, and the node is asked again behind that: a flag that was taken away for a rule of before
 * does not stay away.
 *
 * - The flag is in the cell before the key's placeholder is stamped, hence before anything is
 *   superseded.
 *
 * - A rule covers the past from a cut on that is taken when all flags are set (`since`). A pruner
 *   with an older prune horizon takes nothing out that was current in that cut, whatever flag it
 *   saw; one with a younger horizon sees the flag.
 *
 * - Where a rule goes, and a shorter one applies, its key stays with such a cut of its own, taken
 *   when all its nodes have the shorter rule: the shorter one covers these keys from there on. It
 *   goes when no shorter rule covers any cut before that one.
 */
#ifndef SB_HISTORY_RULES_H
#define SB_HISTORY_RULES_H

#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

/* kind : 2, value : 62 */
enum sb_rule_kind { SB_RULE_NEWEST, SB_RULE_LAST, SB_RULE_SPAN, SB_RULE_ALL };
#define SB_RULE_WORD(kind, value) ((uint64_t)(kind) << 62 | (value))
#define SB_RULE_KIND(word)        ((enum sb_rule_kind)((word) >> 62))
#define SB_RULE_VALUE(word)       ((word) & ((UINT64_C(1) << 62) - 1))

/* A node's copy of a rule; 0: none applies. kind : 2, tag : 30, amount : 32. The amount of a LAST
 * is its number, or the most that there is; that of a SPAN is exponent : 6, mantissa : 26, rounded
 * up. So a copy keeps no less than the rule. */
#define SB_RULE_AMOUNT_BITS   32
#define SB_RULE_MANTISSA_BITS 26
uint64_t sb_rules_copy(uint64_t word, uint64_t tag);
/* The word of a rule that keeps what the copy says. */
static inline uint64_t sb_rules_of_copy(uint64_t copy)
{
        uint64_t amount = (uint32_t)copy, most = SB_RULE_VALUE(UINT64_MAX);

        if (SB_RULE_KIND(copy) == SB_RULE_SPAN)
                amount = (amount & ((1u << SB_RULE_MANTISSA_BITS) - 1))
                         << (amount >> SB_RULE_MANTISSA_BITS);
        return SB_RULE_WORD(SB_RULE_KIND(copy), amount < most ? amount : most);
}
static inline uint64_t sb_rules_of_node(const struct sb_node *node)
{
        return sb_rules_of_copy(sb_load_acquire(&node->rule)); /* A:rule. */
}

/* What a rule's key holds. With NEWEST it is the place of a rule that went: `since` is the cut from
 * which on shorter rules cover its keys; 0: it is being taken away, and none covers them. */
struct sb_rule_value {
        uint64_t word;
        uint64_t since; /* a cut: what was current in it or later is kept; 0: not yet */
};
struct sb_rule_found {
        struct sb_rule_value value;
        uint32_t key_len; /* of the rule's key; 0: there is none */
        uint64_t rev;     /* of that key */
        bool renewed;     /* a longer one is being taken away: this covers nothing yet */
};

/* The key of a rule for @key, or for the prefix @key. Return: its length. */
uint32_t sb_rules_key(
        const void *key, uint32_t key_len, bool prefix, unsigned char ret[SB_KEY_LEN_MAX]);
/* Under a pin: the rule for exactly this key or prefix; @ret begins as zeros. Return: whether there
 * is one. ret->rev is set, too, where a damaged segment has a value there that is no rule. */
bool sb_rules_read(struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix,
        struct sb_rule_found *ret);
/* Under a pin: what applies to a key; with @prefix, to all keys with that prefix that have no
 * longer rule. Its `since` is no less than that of the place of a longer one that went. Cost: a
 * look-up for each length of prefix that ever had a rule. */
void sb_rules_find(struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix,
        struct sb_rule_found *ret);
/* Under a pin: up to which cut none of the rules that are there, for a key or for a prefix of it,
 * ever covered its past; 0: that is not known, for one of them is not its key's first one, or is
 * not finished. Cost: as of sb_rules_find(). */
uint64_t sb_rules_uncovered(struct sb_handle *handle, const void *key, uint32_t key_len);
/* For a process that writes a rule, before it does. */
void sb_rules_announce(struct sb_handle *handle, uint32_t key_len, bool prefix);
/* For a process that is alone in the segment: announce each rule that has a key. */
void sb_rules_announce_all(struct sb_handle *handle);
/* Whether there ever was a rule. */
static inline bool sb_rules_any(const struct sb_segment *segment)
{
        return sb_load_acquire(&segment->super->rule_count) != 0; /* A:rule. */
}
/* Under a pin: copy what applies into a node, and the flag into its cell, if it has one. */
void sb_rules_apply(struct sb_handle *handle, struct sb_node *node);
/* Not under a pin: the same for all keys with a prefix, or for one key. Return: 0; -EIO: the walk
 * met damage, and may have missed keys. */
int sb_rules_apply_all(struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix);
/* Under a pin, for a process that makes a key: the same, behind the link of the node and before its
 * placeholder. */
void sb_rules_apply_new(struct sb_handle *handle, struct sb_node *node);
/* The first cut that a rule with this span keeps; 0: it keeps all. */
uint64_t sb_rules_horizon(struct sb_handle *handle, uint64_t span_ns);

/* For a pruner: what a cell with the flag keeps. */
struct sb_keeping {
        uint64_t word;
        uint64_t floor, horizon; /* cuts, of all history and of the span: what was superseded up to
                                    either goes */
};
/* Read what the rule of a node keeps. @bound: of the prune horizon; what was worked out for the
 * same bound is not worked out again. */
void sb_rules_keeping(struct sb_handle *handle, const struct sb_node *node, uint64_t bound,
        struct sb_keeping *ret);
/* Whether it keeps the @number-th version (1 is the newest), which was superseded at @successor. */
bool sb_rules_keep(const struct sb_keeping *keeping, uint64_t number, uint64_t successor);
/* Whether it lets a key go of which only a tombstone is left, stamped @stamp. */
bool sb_rules_forget(const struct sb_keeping *keeping, uint64_t stamp);

#endif
