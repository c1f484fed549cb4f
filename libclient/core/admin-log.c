/* The log of a bus: what it has done, and having it copy the bus; see admin.h. */
#include <errno.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/notify/durable.h"

/* ---- what it has done ---- */

static void admin_log_read_counts(const struct sb_segment *segment, struct sb_admin_log *log)
{
        const struct sb_superblock *super = segment->super;
        /* Relaxed, all: for people. */
        uint64_t cut_ns = sb_load_relaxed(&super->log_cut_ns);
        uint64_t now_ns = segment->os->realtime_ns(segment->os->context);

        log->lag_ns = cut_ns && now_ns > cut_ns ? now_ns - cut_ns : 0;
        log->batches = sb_load_relaxed(&super->log_batches);
        log->batch_most = sb_load_relaxed(&super->log_batch_most);
        log->bytes = sb_load_relaxed(&super->log_bytes);
        log->user_bytes = sb_load_relaxed(&super->log_user_bytes);
        log->copies = sb_load_relaxed(&super->copies_ended);
        if (sb_load_relaxed(&super->copies_begun) > log->copies) {
                log->copy_done = sb_load_relaxed(&super->copy_done);
                log->copy_all = sb_load_relaxed(&super->copy_all);
        }
        for (uint32_t i = 0; i < SB_LOG_SYNCS; i++)
                log->syncs[i] = sb_load_relaxed(&super->log_syncs[i]);
}

int sb_admin_log_error(const struct sb_bus *bus)
{
        const struct sb_segment *segment = &bus->handle.segment;

        /* Relaxed: for people. */
        return sb_durable_is_logged(segment) ? (int)sb_load_relaxed(&segment->super->log_error)
                                             : -1;
}

uint64_t sb_admin_waits_since(const struct sb_bus *bus)
{
        /* Relaxed: for people. */
        return sb_load_relaxed(&bus->waits_since_ns);
}

void sb_admin_log_read(const struct sb_segment *segment, struct sb_admin_stat *stat)
{
        /* Relaxed, both: for people. */
        stat->durability = sb_load_relaxed(&segment->super->log_mode);
        stat->log_error = (int)sb_load_relaxed(&segment->super->log_error);
        if (!sb_durable_is_logged(segment))
                return;
        stat->durable = sb_durable_cut(segment);
        if (sb_roster_state(segment, sb_durable_slot(segment), NULL) == SB_RECORD_ATTACHED)
                stat->log_pid = sb_record_at(segment, sb_durable_slot(segment))->pid;
        admin_log_read_counts(segment, &stat->log);
}

void sb_admin_log_counts(const struct sb_bus *bus, struct sb_admin_log *ret)
{
        *ret = (struct sb_admin_log){0};
        if (sb_durable_is_logged(&bus->handle.segment))
                admin_log_read_counts(&bus->handle.segment, ret);
}

/* ---- copies ---- */

int sb_admin_log_copy(struct sb_bus *bus, uint64_t *ret_number)
{
        const struct sb_segment *segment = &bus->handle.segment;

        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        if (!sb_durable_is_logged(segment))
                return SB_E_NOT_DURABLE;
        *ret_number = sb_durable_want_copy(segment);
        return 0;
}

int sb_admin_log_wait(struct sb_bus *bus, uint64_t number, uint64_t deadline_ns)
{
        const struct sb_segment *segment = &bus->handle.segment;
        uint64_t until;
        uint32_t count;
        int r;

        for (;;) {
                /* Before the looks: the log tells behind what it says. */
                count = sb_durable_count(segment);
                if (sb_load_acquire(&segment->super->copies_ended) >= number) /* A:copies. */
                        return 0;
                if (sb_bus_detached(bus))
                        return SB_E_DETACHED;
                if (sb_admin_log_error(bus) > 0)
                        return SB_E_NOT_DURABLE;
                /* Nothing wakes the client when agentd is gone. */
                until = segment->os->now_ns(segment->os->context) + bus->watches.sleep_max_ns;
                if (until > deadline_ns)
                        until = deadline_ns;
                r = sb_durable_sleep(segment, count, until);
                if (r == -EINTR || (r == SB_E_TIMED_OUT && until == deadline_ns))
                        return r;
        }
}
