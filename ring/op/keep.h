/*
 * Rules of history, written and looked up. What a rule is, and how pruners and writers come to know
 * it: shm/history/rules.h.
 *
 *      write the rule's key, which covers nothing yet -> copy the rule into every node that it
 *      applies to -> take a cut -> write the key again: the past is whole from that cut on
 *
 * To take a rule away is the same with NEWEST as the rule; the last step deletes the key, or leaves
 * it as a place: a shorter rule, which did not keep these keys so far, covers them from its cut on.
 * There are SB_KEEP_PLACES_MAX of those at most, and where more than SB_KEEP_LOOKS_MAX keys of
 * rules are to be looked at, none more: then all shorter rules begin anew, as a whole.
 *
 * Always true: once a rule has its cut (`since`), it is in every node that it applies to. A process
 * that is killed in the middle leaves a rule that covers nothing yet, and sb_keep_repair() finishes
 * it. So does a process that finds no memory on the way, or damage, and answers so.
 *
 * The caller of each of these holds no pin, and is the only thread that uses the handle.
 * sb_keep_write() costs a walk over the keys that the rule applies to, sb_keep_look_up() one get.
 */
#ifndef SB_RING_OP_KEEP_H
#define SB_RING_OP_KEEP_H

#include "shm/layout/handle.h"

/* Places of rules that went, and keys of rules that are looked at to count them: those that have a
 * value. */
#define SB_KEEP_PLACES_MAX 64u
#define SB_KEEP_LOOKS_MAX  1024u

/* Writes the rule for a key, or for all keys with a prefix. The caller has checked the length,
 * sb_keep_len_max() at most. @word: SB_RULE_WORD; NEWEST takes the rule away. Return: 0; SB_E_FULL:
 * no memory; -EIO: the segment is damaged. In both cases nothing happened, or the rule covers
 * nothing yet; a rule that is half taken away is away, and what it covered is covered by no wider
 * one yet. */
int sb_keep_write(
        struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix, uint64_t word);
/* Looks up the rule of exactly this key or prefix. Return: 0, SB_E_NOT_FOUND. */
int sb_keep_look_up(struct sb_handle *handle, const void *key, uint32_t key_len, bool prefix,
        uint64_t *ret_word);
/* Finishes each rule that was left in the middle, by a dead process or by one that found no memory.
 * The engine calls it at its start and behind each reaping, and again after a while as long as the
 * answer is not 0. Return: 0; SB_E_FULL, -EIO, SB_E_CONFLICT (another process has written it
 * meanwhile): one of them may cover nothing still. */
int sb_keep_repair(struct sb_handle *handle);
/* Return: bytes of the longest key or prefix that a rule can be for. */
uint32_t sb_keep_len_max(const struct sb_handle *handle);

#endif
