/*
 * A scan's cut, when it was taken before: announced anew, and read as far as it is left.
 *
 * A mark keeps a cut as an announcement does, so that from there on it is like any other. Otherwise
 * rules cover it, of all keys with the prefix; they only ever cover less as time goes by, so that
 * is asked again behind each read.
 */
#ifndef SB_SCAN_PAST_H
#define SB_SCAN_PAST_H

#include "shm/past.h"

struct sb_scan_past {
        bool ruled; /* not kept but by rules, until end_ns (CLOCK_MONOTONIC) */
        uint64_t cut, end_ns;
};

/* Announce @cut. Return: 0; SB_E_LAPPED: nothing keeps it; SB_E_FULL. */
int sb_scan_past_open(struct sb_peer *peer, const void *prefix, uint32_t prefix_len, uint64_t cut,
        uint32_t *ret_snapshot, struct sb_scan_past *ret);
/* Whether what covered it does so still. */
bool sb_scan_past_holds(const struct sb_scan_past *past, const struct sb_segment *segment);
/* Under a pin: what to show of a key, or NULL. *ret_trimmed: it is the oldest version that is left,
 * and what the key was is not known. */
struct sb_version *sb_scan_past_version(const struct sb_scan_past *past, struct sb_peer *peer,
        struct sb_node *node, bool *ret_trimmed);

#endif
