/* A scan's cut, when it was taken before; see scan-past.h. */
#include "libclient/core/scan-past.h"

#include "shm/base/result.h"
#include "shm/snapshot.h"
#include "shm/walk.h"

int sb_scan_past_open(struct sb_peer *peer, const void *prefix, uint32_t prefix_len, uint64_t cut,
        uint32_t *ret_snapshot, struct sb_scan_past *ret)
{
        struct sb_scan_past past = {.cut = cut};
        uint32_t snapshot;
        int r = sb_snapshot_open_at(peer, cut, &snapshot);

        if (r)
                return r;
        /* Behind the announcement: until here the mark kept it, from here on we do. */
        past.ruled = !sb_past_marked(&peer->segment, cut);
        if (past.ruled && !sb_past_kept_all(peer, prefix, prefix_len, cut, &past.end_ns)) {
                sb_snapshot_close(peer, snapshot);
                return SB_E_LAPPED;
        }
        *ret_snapshot = snapshot;
        *ret = past;
        return 0;
}

bool sb_scan_past_holds(const struct sb_scan_past *past, const struct sb_segment *segment)
{
        return !past->ruled ||
               /* A:history-floor. */
               (sb_load_acquire(&segment->super->history_floor) <= past->cut &&
                       (past->end_ns == UINT64_MAX ||
                               segment->os->now_ns(segment->os->context) < past->end_ns));
}

static bool has_value(const struct sb_version *version)
{
        return (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE;
}

struct sb_version *sb_scan_past_version(const struct sb_scan_past *past, struct sb_peer *peer,
        struct sb_node *node, bool *ret_trimmed)
{
        struct sb_version *version = NULL;
        enum sb_past found;

        *ret_trimmed = false;
        if (!past->ruled) {
                version = sb_walk_at(peer, node, past->cut);
                return version && has_value(version) ? version : NULL;
        }
        found = sb_past_walk(peer, node, past->cut, &version);
        *ret_trimmed = found == SB_PAST_TRIMMED;
        if (found == SB_PAST_FOUND && has_value(version))
                return version;
        return *ret_trimmed ? version : NULL;
}
