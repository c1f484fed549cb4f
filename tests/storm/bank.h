/*
 * The bank of storm-txn: twelve accounts, between which workers move money in transactions. An
 * account without money has no key, so that transfers make and delete keys, too.
 *
 * Always true: at any one cut it adds up, whichever process was killed or halted. A worker that
 * sees that it does not complains, see work.h.
 */
#ifndef SB_TESTS_BANK_H
#define SB_TESTS_BANK_H

#include "tests/storm/work.h"

/* Give each account 100. */
bool bank_open(struct sb_bus *bus);

/* Move some money from one account to another, at random by storm_random(@state); @place counts the
 * outcome. */
void bank_transfer(struct sb_bus *bus, struct work_place *place, uint64_t *state);

/* Add it up at one cut: the cut of @txn, or without @txn that of the scan. @place counts. */
void bank_check(struct sb_bus *bus, struct sb_txn *txn, struct work_place *place, bool by_scan);

/* Whether plain gets, one after the other, do not add up; they need not. */
bool bank_is_torn(struct sb_bus *bus);

/* For a process that is alone on the bus: whether gets and a scan both add up. */
bool bank_adds_up(struct sb_bus *bus);

#endif
