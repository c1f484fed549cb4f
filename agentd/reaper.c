/*
 * The reaper: a pidfd for every record in use, and the cleaning up after a process that is dead.
 * Only the kernel declares a process dead. A record that an earlier engine filled counts as a dead
 * process's when its pid is gone, or belongs to a process that was started at another time.
 *
 * Always true: a watcher's generation is that of its record when the watch began. When the record
 * has been freed or given to another process since then, reaping that generation does nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agentd/engine.h"
#include "agentd/log.h"
#include "ring/op/keep.h"
#include "shm/base/result.h"
#include "shm/history/named.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/mvcc/evict.h"
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

uint32_t sb_reaper_collect(struct sb_engine *engine)
{
        uint32_t count = 0;

        for (uint32_t slot = 1; slot < engine->handle.segment.geometry.record_count; slot++) {
                if (engine->watchers[slot].pidfd < 0 ||
                        !reaper_sees_death(engine->watchers[slot].pidfd))
                        continue;
                sb_reaper_ready(engine, slot);
                count++;
        }
        return count;
}

void sb_reaper_give_back(struct sb_engine *engine, uint32_t slot, uint32_t generation)
{
        if (engine->watchers[slot].generation == generation)
                reaper_forget(&engine->watchers[slot]);
        sb_reap_record(&engine->handle, slot, generation);
        sb_reaper_repair(engine);
}

int sb_reaper_evict(
        struct sb_engine *engine, uint32_t slot, uint64_t pid, bool kill, uint32_t *ret_count)
{
        const struct sb_segment *segment = &engine->handle.segment;
        uint32_t generation;

        if (!slot || slot >= segment->geometry.record_count ||
                sb_roster_state(segment, slot, &generation) != SB_RECORD_ATTACHED ||
                (pid && sb_record_at(segment, slot)->pid != pid))
                return SB_E_NOT_FOUND;
        *ret_count = sb_evict_client(&engine->handle, slot, UINT64_MAX);
        sb_log("client %u (pid %u): an operator took %u snapshots away%s", slot,
                sb_record_at(segment, slot)->pid, *ret_count, kill ? ", and ends it" : "");
        if (!kill)
                return 0;
        /* Signal the process by the pidfd that it was attached with, so that no other process with
         * the same pid is meant. */
        if (engine->watchers[slot].pidfd < 0 || engine->watchers[slot].generation != generation)
                return SB_E_NOT_FOUND;
        return syscall(SYS_pidfd_send_signal, engine->watchers[slot].pidfd, SIGKILL, NULL, 0) < 0
                       ? -errno
                       : 0;
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
