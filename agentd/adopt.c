/*
 * Adoption: makes a validated segment, with this engine in record 0, out of a descriptor.
 *
 *      map -> take record 0 -> check the whole segment -> look at all other records
 *
 * Clients read and write all the while. The order matters: the old engine's record is reaped before
 * this engine pins in it; the segment is checked before the engine believes anything in it; only
 * then does the engine look at the other records.
 *
 * Always true: a step that fails ends the engine, and the reason is logged. What is wrong with the
 * segment is SB_ENGINE_UNSOUND; what is wrong with the system is SB_ENGINE_FAILED.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <mimalloc.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agentd/engine.h"
#include "agentd/inspect.h"
#include "agentd/log.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "ring/attach/map.h"
#include "shm/base/word.h"
#include "shm/history/times.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/mvcc/evict.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/reap.h"

#define SAY_BYTES (UINT64_C(1) << 30) /* of a segment at which one may look for seconds */

static enum sb_engine_end adopt_map(const struct sb_memory *memory, struct sb_segment *ret)
{
        void *base = sb_map_segment(memory->fd, memory->size);
        int r;

        if (!base) {
                sb_log("the engine cannot map the segment: %s", strerror(errno));
                return SB_ENGINE_FAILED;
        }
        r = sb_segment_open(base, memory->size, &sb_os_linux, ret);
        /* Another geometry may be sound in itself, but this engine's tables have the size of the
         * geometry that the segment was made with. */
        if (!r && memcmp(&ret->geometry, &memory->geometry, sizeof(memory->geometry)) != 0)
                r = -EBADMSG;
        if (r) {
                munmap(base, memory->size);
                sb_log("the segment is not adopted: its superblock is not what it was made as (%s)",
                        strerror(-r));
                return SB_ENGINE_UNSOUND;
        }
        return SB_ENGINE_STOPPED;
}

/* Take record 0 from the engine before this one, whatever that engine was doing. */
static enum sb_engine_end adopt_take_record(
        struct sb_engine *engine, const struct sb_segment *segment)
{
        struct sb_roster_identity identity = {
                .pid = (uint32_t)getpid(),
                .uid = geteuid(),
                .access = SB_PEER,
                .attached_ns = sb_os_linux.now_ns(sb_os_linux.context),
        };
        struct sb_segment copy = *segment;
        uint32_t slot, generation;

        engine->space = mi_malloc(sb_handle_space(&segment->geometry));
        if (!engine->space) {
                sb_log("the engine cannot start: no memory");
                return SB_ENGINE_FAILED;
        }
        (void)sb_reaper_start_time(identity.pid,
                &identity.pid_start); /* for people: the supervisor watches the engine's death */
        if (sb_roster_state(segment, 0, &generation) != SB_RECORD_FREE) {
                sb_handle_init(&engine->handle, segment, 0, generation, engine->space);
                sb_reap_record(&engine->handle, 0, generation);
        }
        if (sb_roster_claim(&copy, 0, &identity, &slot, &generation)) {
                sb_log("the segment is not adopted: the engine's own record cannot be had");
                return SB_ENGINE_UNSOUND;
        }
        sb_handle_init(&engine->handle, segment, slot, generation, engine->space);
        engine->attached = true;
        return SB_ENGINE_STOPPED;
}

static enum sb_engine_end adopt_validate(struct sb_engine *engine, struct sb_check_report *ret)
{
        const struct sb_config *config = engine->supervisor->config;
        int r;

        if (config->size >= SAY_BYTES)
                sb_log("looking at the whole segment before it is served");
        r = sb_inspect(&engine->handle, config->clients,
                sb_memory_parts(engine->supervisor->memory.size), ret);
        if (r) {
                sb_log("the segment is not adopted: it cannot be checked (%s)", strerror(-r));
                return SB_ENGINE_UNSOUND;
        }
        if (!ret->problem_count)
                return SB_ENGINE_STOPPED;
        for (uint32_t i = 0;
                i < ret->problem_count && i < sizeof(ret->problems) / sizeof(ret->problems[0]); i++)
                sb_log("the segment is not adopted: %.*s", (int)sizeof(ret->problems[i]),
                        ret->problems[i]);
        return SB_ENGINE_UNSOUND;
}

enum sb_engine_end sb_adopt(struct sb_engine *engine)
{
        struct sb_check_report report;
        struct sb_superblock *super;
        enum sb_engine_end end;
        struct sb_segment segment;
        struct sb_moment now;
        uint64_t generation;
        int r;

        r = sb_os_register();
        if (r) {
                sb_log("this system has no membarrier of the kind that is needed (%s): Linux 4.16 "
                       "or later",
                        strerror(-r));
                return SB_ENGINE_FAILED;
        }
        end = adopt_map(&engine->supervisor->memory, &segment);
        if (end)
                return end;
        /* From here on engine_free() unmaps the segment, through the handle. */
        engine->handle.segment = segment;
        end = adopt_take_record(engine, &segment);
        if (!end)
                end = adopt_validate(engine, &report);
        if (end)
                return end;
        /* R:history-floor > A:history-floor. The limit that this agentd was started with holds from
         * the next sweep on. */
        sb_store_release(&segment.super->history_limit, engine->supervisor->config->history_bytes);
        /* Relaxed: for people; the engine itself goes by its configuration. */
        sb_store_relaxed(&segment.super->clients_max, engine->supervisor->config->clients);
        sb_reaper_watch_maps(engine);
        sb_reaper_adopt(engine);
        sb_evict_finish(&engine->handle);
        sb_reaper_repair(engine);
        /* The first note of the time is made before the first client attaches, so that there is a
         * cut for each time. */
        sb_times_tick(&engine->handle.segment, &now);
        super = segment.super;
        /* Relaxed: for people. */
        generation = sb_load_relaxed(&super->engine_generation) + 1;
        sb_store_relaxed(&super->engine_generation, generation);
        sb_store_relaxed(&super->engine, (uint64_t)getpid());
        if (generation > 1)
                sb_log("engine %" PRIu64 " (pid %d) has adopted the segment: %" PRIu64 " key%s",
                        generation, (int)getpid(), report.keys, report.keys == 1 ? "" : "s");
        return SB_ENGINE_STOPPED;
}
