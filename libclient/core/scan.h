/* What the bus has to do with its open scans. */
#ifndef SB_SCAN_H
#define SB_SCAN_H

struct sb_scan;

/* The bus of these scans is going away: they answer SB_E_DETACHED from now on. @scans: the first of
 * the list, or NULL. */
void sb_scan_orphan(struct sb_scan *scans);

#endif
