/*
 * What a bus and its transactions do with the scans that are open on them (scan.c).
 *
 * Always true: a scan is in its bus's list from sb_scan_open() to sb_scan_close(), or until the bus
 * is closed.
 */
#ifndef SB_SCAN_H
#define SB_SCAN_H

struct sb_scan;

/* Their bus is being closed: these scans answer SB_E_DETACHED from now on. @scans: the first of the
 * bus's list, or NULL. */
void sb_bus_orphan_scans(struct sb_scan *scans);

#endif
