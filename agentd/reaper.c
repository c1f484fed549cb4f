/*
 * The reaper: a pidfd for every record in use, and the cleaning up after a process that is dead.
 * Only the kernel declares a process dead. A record that an earlier engine filled counts as a dead
 * process's when its pid is gone, or belongs to a process that was started at another time.
 *
 * A process that calls exec() lives on, and its map of the segment is gone. Here, too, the kernel
 * decides. The engine sends each client an open file description of its own, with a lock on a byte:
 * that with the number of the client's record. The client maps the segment by it. The description,
 * and so the lock, lasts until the last map by it is gone, whatever becomes of descriptors and
 * threads. A record of which nothing holds the lock any more has no process that could touch the
 * segment for it. inotify tells that some description of the file was closed; then the locks of all
 * records are looked at, a few a tick.
 *
 * Always true: a lock is taken before the client is answered, and by one description after the
 * other for one record; a client gives its record back before it unmaps. A watcher's generation is
 * that of its record when the watch began. When the record has been freed or given to another
 * process since then, reaping that generation does nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agentd/engine.h"
#include "agentd/log.h"
#include "ring/op/keep.h"
#include "shm/base/fault.h"
#include "shm/base/result.h"
#include "shm/history/named.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/mvcc/evict.h"
#include "shm/notify/durable.h"
#include "shm/upkeep/reap.h"

int sb_reaper_start_time(uint32_t pid, uint64_t *ret)
{
        char path[32], text[1024], *at;
        unsigned long long start;
        ssize_t len;
        int fd;

        snprintf(path, sizeof(path), "/proc/%u/stat", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        len = read(fd, text, sizeof(text) - 1);
        close(fd);
        if (len <= 0)
                return -ESRCH;
        text[len] = 0;
        /* Field 2 is the program's name, with anything in it; field 3 follows the last parenthesis.
         */
        at = strrchr(text, ')');
        for (unsigned field = 2; at && field < 22; field++)
                at = strchr(at + 1, ' ');
        if (!at || sscanf(at, "%llu", &start) != 1)
                return -EIO;
        *ret = start;
        return 0;
}

#define LOOKS_AT_ONCE 64u  /* locks looked at in a tick */
#define LOOK_TICKS    1024 /* between looks that no event asks for, where there is no inotify */

/* What the kernel calls the segment's file. */
static void reaper_name_file(const struct sb_engine *engine, char ret_path[32])
{
        snprintf(ret_path, 32, "/proc/self/fd/%d", engine->supervisor->memory.fd);
}

int sb_reaper_open_map(const struct sb_engine *engine)
{
        char path[32];

        reaper_name_file(engine, path);
        return open(path, O_RDWR | O_CLOEXEC);
}

static struct flock reaper_lock_of(uint32_t slot, short type)
{
        return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
}

int sb_reaper_lock_map(int fd, uint32_t slot)
{
        /* A lock for reading: that of the process that had the record before may still be there. */
        struct flock lock = reaper_lock_of(slot, F_RDLCK);

        if (SB_FAULT(MAP_UNLOCKED))
                return 0;
        return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static bool reaper_is_attached(const struct sb_engine *engine, uint32_t slot, uint32_t generation)
{
        const struct sb_segment *segment = &engine->handle.segment;
        uint32_t current;

        return sb_roster_state(segment, slot, &current) == SB_RECORD_ATTACHED &&
               current == generation;
}

/* Whether no process can touch the segment for record @slot, although it is in use. A client that
 * closes its bus gives the record back before the lock goes: so the record is looked at again. */
static bool reaper_map_is_gone(const struct sb_engine *engine, uint32_t slot, uint32_t generation)
{
        struct flock lock = reaper_lock_of(slot, F_WRLCK);

        return reaper_is_attached(engine, slot, generation) &&
               sb_record_at(&engine->handle.segment, slot)->map_locked == 1 &&
               !fcntl(engine->supervisor->memory.fd, F_OFD_GETLK, &lock) &&
               lock.l_type == F_UNLCK && reaper_is_attached(engine, slot, generation) &&
               !SB_FAULT(MAP_LOCK_UNASKED);
}

static bool reaper_sees_death(int pidfd)
{
        struct pollfd look = {.fd = pidfd, .events = POLLIN};

        return poll(&look, 1, 0) == 1 && (look.revents & POLLIN);
}

static void reaper_forget(struct sb_watcher *watcher)
{
        if (watcher->pidfd >= 0)
                close(watcher->pidfd); /* also leaves the epoll set: no other descriptor refers to
                                          the same file */
        watcher->pidfd = -1;
}

void sb_reaper_watch(struct sb_engine *engine, uint32_t slot, uint32_t generation, int pidfd)
{
        struct sb_watcher *watcher = &engine->watchers[slot];

        reaper_forget(watcher);
        watcher->generation = generation;
        watcher->pidfd = pidfd;
        if (sb_engine_add(engine, pidfd, EPOLLIN, SB_EVENT_CLIENT, slot) < 0)
                sb_log("client %u cannot be watched: %s", slot, strerror(errno));
}

void sb_reaper_repair(struct sb_engine *engine)
{
        sb_named_repair(&engine->handle);
        engine->rules_left = sb_keep_repair(&engine->handle) != 0;
}

void sb_reaper_ready(struct sb_engine *engine, uint32_t slot)
{
        struct sb_watcher *watcher = &engine->watchers[slot];

        /* The event may be about the process that had the record before. */
        if (watcher->pidfd < 0 || !reaper_sees_death(watcher->pidfd))
                return;
        reaper_forget(watcher);
        sb_reap_record(&engine->handle, slot, watcher->generation);
        sb_reaper_repair(engine);
}

static bool reaper_end_exec(struct sb_engine *engine, uint32_t slot);

#define POLLED_AT_ONCE 64u

/* Reap the dead among the records from @first to @end, of which the kernel is asked in one call.
 * Return: how many there were. */
static uint32_t reaper_collect_dead(struct sb_engine *engine, uint32_t first, uint32_t end)
{
        struct pollfd looks[POLLED_AT_ONCE];
        uint32_t count = 0;

        /* poll() passes over what is negative. */
        for (uint32_t slot = first; slot < end; slot++)
                looks[slot - first] =
                        (struct pollfd){.fd = engine->watchers[slot].pidfd, .events = POLLIN};
        if (poll(looks, end - first, 0) <= 0)
                return 0;
        for (uint32_t slot = first; slot < end; slot++)
                if (looks[slot - first].revents & POLLIN) {
                        sb_reaper_ready(engine, slot);
                        count++;
                }
        return count;
}

/* Give back the records of which the maps are gone. Each lock is a system call: without an event
 * since the last look at all of them none can be gone. Where nothing tells of such events, some
 * are looked at, others each time. */
static uint32_t reaper_collect_maps(struct sb_engine *engine)
{
        uint32_t record_count = engine->handle.segment.geometry.record_count, count = 0;
        uint32_t looks = engine->maps_fd < 0 ? LOOKS_AT_ONCE : record_count;

        if (engine->maps_fd >= 0) {
                sb_reaper_hear_maps(engine);
                if (!engine->collect_wanted)
                        return 0;
                /* The event comes a moment before the lock goes: the look in ticks goes on. */
                engine->collect_wanted = false;
        }
        while (looks-- > 0) {
                engine->collect_next = engine->collect_next % (record_count - 1) + 1;
                count += reaper_end_exec(engine, engine->collect_next);
        }
        return count;
}

uint32_t sb_reaper_collect(struct sb_engine *engine)
{
        uint32_t record_count = engine->handle.segment.geometry.record_count, count = 0;

        for (uint32_t slot = 1; slot < record_count; slot += POLLED_AT_ONCE)
                count += reaper_collect_dead(engine, slot,
                        record_count - slot < POLLED_AT_ONCE ? record_count
                                                             : slot + POLLED_AT_ONCE);
        return count + reaper_collect_maps(engine);
}

void sb_reaper_give_back(struct sb_engine *engine, uint32_t slot, uint32_t generation)
{
        if (engine->watchers[slot].generation == generation)
                reaper_forget(&engine->watchers[slot]);
        sb_reap_record(&engine->handle, slot, generation);
        sb_reaper_repair(engine);
}

/* The pidfd that a client was attached with, so that no other process with the same pid is meant;
 * of the log, which agentd has started itself, that of its process. -1: there is none. */
static int reaper_pidfd(const struct sb_engine *engine, uint32_t slot, uint32_t generation)
{
        const struct sb_segment *segment = &engine->handle.segment;

        if (slot == sb_durable_slot(segment) && sb_durable_is_logged(segment))
                return engine->log_fd;
        return engine->watchers[slot].generation == generation ? engine->watchers[slot].pidfd : -1;
}

int sb_reaper_evict(
        struct sb_engine *engine, uint32_t slot, uint64_t pid, bool kill, uint32_t *ret_count)
{
        const struct sb_segment *segment = &engine->handle.segment;
        uint32_t generation;
        int pidfd = -1;

        if (!slot || slot >= segment->geometry.record_count ||
                sb_roster_state(segment, slot, &generation) != SB_RECORD_ATTACHED ||
                (pid && sb_record_at(segment, slot)->pid != pid))
                return SB_E_NOT_FOUND;
        if (kill)
                pidfd = reaper_pidfd(engine, slot, generation);
        if (kill && pidfd < 0)
                return SB_E_NOT_FOUND;
        *ret_count = sb_evict_client(&engine->handle, slot, UINT64_MAX);
        sb_log("client %u (pid %u): an operator took %u snapshots away%s", slot,
                sb_record_at(segment, slot)->pid, *ret_count, kill ? ", and ends it" : "");
        return kill && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 ? -errno : 0;
}

/* Open the process that a record names. Return: a pidfd; -1: the process is dead; -2: it lives, and
 * cannot be watched. */
static int reaper_open_process(const struct sb_record *record)
{
        uint32_t pid = record->pid; /* loaded once: it may be anything */
        uint64_t start;
        int pidfd;

        pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
        if (pidfd < 0)
                return errno == ESRCH || errno == EINVAL || errno == ENOENT ? -1 : -2;
        /* The process behind the pidfd cannot change any more, so a start time that is read now is
         * that of this process or of none. A file that cannot be read (/proc mounted with hidepid)
         * says nothing against the process. */
        if ((!sb_reaper_start_time(pid, &start) && start != record->pid_start) ||
                reaper_sees_death(pidfd)) {
                close(pidfd);
                return -1;
        }
        return pidfd;
}

void sb_reaper_adopt(struct sb_engine *engine)
{
        const struct sb_segment *segment = &engine->handle.segment;

        for (uint32_t slot = 1; slot < segment->geometry.record_count; slot++) {
                uint32_t generation;
                int pidfd = -1;

                switch (sb_roster_state(segment, slot, &generation)) {
                case SB_RECORD_FREE:
                        continue;
                case SB_RECORD_ATTACHED:
                        pidfd = reaper_open_process(sb_record_at(segment, slot));
                        break;
                default: /* an engine died while it made or reaped the record */
                        if (SB_FAULT(HALF_REAPED_PASSED))
                                continue;
                        break;
                }
                if (pidfd == -1)
                        sb_reap_record(&engine->handle, slot, generation);
                else if (pidfd == -2)
                        sb_log("client %u cannot be watched: %s", slot, strerror(errno));
                else
                        sb_reaper_watch(engine, slot, generation, pidfd);
        }
}

void sb_reaper_close_all(struct sb_engine *engine)
{
        if (!engine->watchers)
                return;
        for (uint32_t slot = 0; slot < engine->handle.segment.geometry.record_count; slot++)
                reaper_forget(&engine->watchers[slot]);
}

/* ---- maps that are gone ---- */

void sb_reaper_watch_maps(struct sb_engine *engine)
{
        char path[32];

        engine->look_wanted = engine->collect_wanted = true;
        engine->maps_fd = engine->supervisor->maps_fd;
        reaper_name_file(engine, path);
        /* Where an engine before this one asked for the file, it is asked for still. */
        if (engine->maps_fd >= 0 &&
                (inotify_add_watch(engine->maps_fd, path, IN_CLOSE_WRITE) < 0 ||
                        sb_engine_add(engine, engine->maps_fd, EPOLLIN, SB_EVENT_MAP, 0) < 0))
                engine->maps_fd = -1;
}

void sb_reaper_hear_maps(struct sb_engine *engine)
{
        char events[1024];

        while (read(engine->maps_fd, events, sizeof(events)) > 0)
                engine->look_wanted = engine->collect_wanted = true;
}

void sb_reaper_close_unused(struct sb_engine *engine, int fd)
{
        bool wanted;

        if (fd < 0)
                return;
        /* The close is an event as any other. One that comes between these two readings is left to
         * the look in ticks. */
        if (engine->maps_fd >= 0)
                sb_reaper_hear_maps(engine);
        wanted = engine->collect_wanted;
        close(fd);
        if (engine->maps_fd >= 0)
                sb_reaper_hear_maps(engine);
        engine->collect_wanted = wanted;
}

/* Whether the process of record @slot ends, or has ended. The kernel takes its maps before it says
 * that the process is dead; where another one traces a thread of it, long before. */
static bool reaper_is_ending(const struct sb_engine *engine, uint32_t slot, uint32_t pid)
{
        int pidfd = engine->watchers[slot].pidfd;

        return sb_place_ending((pid_t)pid) || (pidfd >= 0 && reaper_sees_death(pidfd));
}

/* Free record @slot if its client has no map any more. Return: whether it did. */
static bool reaper_end_exec(struct sb_engine *engine, uint32_t slot)
{
        uint32_t generation, pid = sb_record_at(&engine->handle.segment, slot)->pid;

        (void)sb_roster_state(&engine->handle.segment, slot, &generation);
        if (!reaper_map_is_gone(engine, slot, generation))
                return false;
        if (!reaper_is_ending(engine, slot, pid))
                sb_log("client %u (pid %u) has no map of the segment any more: it called exec() "
                       "with the bus open, or it was attaching when an engine was killed",
                        slot, pid);
        sb_reaper_give_back(engine, slot, generation);
        return true;
}

bool sb_reaper_look(struct sb_engine *engine)
{
        uint32_t record_count = engine->handle.segment.geometry.record_count;

        if (engine->maps_fd < 0 && ++engine->look_ticks % LOOK_TICKS == 0)
                engine->look_wanted = true;
        if (engine->look_wanted && !engine->look_next) {
                engine->look_wanted = false;
                engine->look_next = 1;
        }
        if (!engine->look_next)
                return false;
        for (uint32_t i = 0; i < LOOKS_AT_ONCE && engine->look_next < record_count;
                engine->look_next++)
                if (sb_roster_lists(&engine->handle.segment, engine->look_next)) {
                        (void)reaper_end_exec(engine, engine->look_next);
                        i++;
                }
        if (engine->look_next < record_count)
                return true;
        engine->look_next = 0;
        return engine->look_wanted;
}
