/* What the bus and its transactions have to do with open scans. */
#ifndef SB_SCAN_H
#define SB_SCAN_H

struct sb_scan;
struct sb_txn;

/* The bus of these scans is going away: they answer SB_E_DETACHED from now on. @scans: the first of
 * the list, or NULL. */
void sb_bus_orphan_scans(struct sb_scan *scans);
/* @txn ends: its scans, among these, answer -EINVAL from now on. */
void sb_scan_forget(struct sb_scan *scans, const struct sb_txn *txn);

#endif
