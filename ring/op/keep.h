/*
 * Rules of history, written: the key of the rule, then every node that it applies to, then the cut
 * from which on the past is whole (shm/rules.h).
 *
 * A kill in the middle leaves a rule that covers nothing yet; whoever finds that finishes it.
 */
#ifndef SB_RING_OP_KEEP_H
#define SB_RING_OP_KEEP_H

#include "shm/layout/handle.h"

/* Lengths were checked by the caller, sb_keep_len_max() at most. @word: SB_RULE_WORD; NEWEST takes
 * the rule away. Return: 0, SB_E_FULL (no memory for the rule's key, nothing happened). */
int sb_keep_write(
        struct sb_peer *peer, const void *key, uint32_t key_len, bool prefix, uint64_t word);
/* The rule of exactly this key or prefix. Return: 0, SB_E_NOT_FOUND. */
int sb_keep_look_up(
        struct sb_peer *peer, const void *key, uint32_t key_len, bool prefix, uint64_t *ret_word);
/* For the engine, behind a reaping and at its start. */
void sb_keep_repair(struct sb_peer *peer);
/* Bytes of the longest key or prefix that a rule can be for. */
uint32_t sb_keep_len_max(const struct sb_peer *peer);

#endif
