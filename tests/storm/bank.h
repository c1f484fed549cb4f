/*
 * The bank of storm-txn: twelve accounts, between which workers move money in transactions. An
 * account without money has no key, so that transfers make and delete keys, too.
 *
 * Always true: at any one cut it adds up, whichever processes were killed or halted. A process that
 * sees that it does not complains, see work.h.
 */
#ifndef SB_TESTS_BANK_H
#define SB_TESTS_BANK_H

#include "tests/storm/work.h"

/* Each account gets 100. */
bool bank_open(struct sb_bus *bus);

/* Some money goes from one account to another, by storm_random(@state); @seat counts what became
 * of it. */
void bank_transfer(struct sb_bus *bus, struct work_seat *seat, uint64_t *state);

/* Add it up at one cut: @txn's, or without one the scan's own. @seat counts. */
void bank_check(struct sb_bus *bus, struct sb_txn *txn, struct work_seat *seat, bool by_scan);

/* Whether plain gets, one after the other, do not add up; they need not. */
bool bank_is_torn(struct sb_bus *bus);

/* For a process that is alone on the bus: whether gets and a scan both add up. */
bool bank_adds_up(struct sb_bus *bus);

#endif
