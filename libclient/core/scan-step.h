/*
 * Steps of a scan: from where the scan stands to the next key or the one before, with the
 * transaction's write set merged in. See scan.c.
 */
#ifndef SB_SCAN_STEP_H
#define SB_SCAN_STEP_H

#include "libclient/core/scan-place.h"

/* Go to the next key, or the one before, and hold its version. Return: as sb_scan_next(); then the
 * scan has moved, unless it answered SB_E_FULL or -ENOMEM. */
int sb_scan_step(struct sb_scan *scan, bool backwards, struct sb_guard *ret_guard);

/* The short way of a step on, of a scan that may go it (short_to). False: the scan has not moved,
 * and the long way has to be gone. */
bool sb_scan_step_short(struct sb_scan *scan, struct sb_guard *ret_guard);

#endif
