/*
 * The engine's loop; see engine.h. One epoll set holds everything that the engine waits for, and a
 * tick does the work on memory in small steps.
 *
 *      listening socket, connections      -> accept
 *      pidfds of the attached processes   -> reaper
 *      maps of the segment that are gone  -> reaper
 *      timer                              -> tick
 *      signals                            -> sent on to the supervisor
 *      channel from the supervisor        -> stop
 *      pidfd of the supervisor            -> this process becomes the supervisor
 *
 * Always true: of the events of one round, deaths come before connections; so a new client finds
 * the record that a death has made free. The timer runs every 10 ms while shared words change, and
 * slows down to every 160 ms while none does.
 */
#define _GNU_SOURCE
#include "agentd/engine.h"

#include <errno.h>
#include <mimalloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agentd/guard.h"
#include "agentd/life.h"
#include "agentd/log.h"
#include "agentd/wal/wal-process.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/history/rules.h"
#include "shm/history/times.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/mvcc/evict.h"
#include "shm/notify/durable.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/reap.h"
#include "shm/upkeep/work.h"

#define EVENTS_AT_ONCE  64
#define LOOKS_AN_AGE    32
#define TICK_NS         UINT64_C(10000000)
#define IDLE_TICK_NS    (16 * TICK_NS)
#define SWEEP_PAUSE_MS  1 /* between two slices of a sweep, which are shorter */
#define HISTORY_NS      UINT64_C(500000000)
#define HISTORY_MOST_NS (16 * HISTORY_NS)
#define LOG_PATIENCE_MS 1000
#define LOG_RETRY_NS    UINT64_C(1000000000)
#define REPAIR_NS       UINT64_C(1000000000) /* between attempts at a rule that finds no memory */

int sb_engine_add(
        struct sb_engine *engine, int fd, uint32_t events, enum sb_event event, uint32_t index)
{
        struct epoll_event what = {.events = events, .data.u64 = (uint64_t)event << 32 | index};

        return epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &what) < 0 ? -errno : 0;
}

static void engine_set_timer(struct sb_engine *engine, uint64_t interval_ns)
{
        struct itimerspec timer = {
                .it_value.tv_nsec = (long)interval_ns,
                .it_interval.tv_nsec = (long)interval_ns,
        };

        if (engine->interval_ns == interval_ns)
                return;
        engine->interval_ns = interval_ns;
        (void)timerfd_settime(engine->timer_fd, 0, &timer, NULL);
}

/* Whether no shared word that leaves a trace of work changed since the last call. A writer changes
 * none of them until the versions that it replaced are to be freed. */
static bool engine_is_idle(struct sb_engine *engine)
{
        const struct sb_superblock *super = engine->handle.segment.super;
        /* All relaxed: only whether they changed matters. */
        uint64_t trace = sb_load_relaxed(&super->clock) + sb_load_relaxed(&super->era) +
                         sb_load_relaxed(&super->sweep_wanted);
        bool idle = trace == engine->trace;

        engine->trace = trace;
        return idle;
}

/* Take away the snapshots that are held for longer than the bus allows. */
static void engine_end_long_snapshots(struct sb_engine *engine)
{
        uint64_t age = engine->supervisor->config->snapshot_age_ns;
        uint64_t now = sb_os_linux.now_ns(sb_os_linux.context);
        uint32_t count;

        if (!engine->seen || now < engine->seen_ns)
                return;
        /* A look reads all announcements: a few looks an age are enough. */
        engine->seen_ns = now + age / LOOKS_AN_AGE;
        count = sb_evict_held(&engine->handle, engine->seen, now, age);
        if (count)
                sb_log("%u snapshots held for longer than --max-snapshot-age were taken away",
                        count);
}

/* Neither the growth of what history rules keep nor the passing of time changes a word that starts
 * a sweep, so ask for a sweep now and then. */
static void engine_look_after_history(struct sb_engine *engine)
{
        struct sb_handle *handle = &engine->handle;
        uint64_t now = sb_os_linux.now_ns(sb_os_linux.context), trace;

        if (!sb_rules_any(&handle->segment) || sb_work_sweeping(handle) || now < engine->history_ns)
                return;
        /* Relaxed: what the last sweep found. While two sweeps find the same, the next may wait
         * longer. */
        trace = sb_load_relaxed(&handle->segment.super->history_bytes) + handle->counters.freed;
        if (trace != engine->history_trace)
                engine->history_pause_ns = HISTORY_NS;
        else if (engine->history_pause_ns < HISTORY_MOST_NS)
                engine->history_pause_ns = 2 * engine->history_pause_ns + HISTORY_NS;
        engine->history_trace = trace;
        engine->history_ns = now + engine->history_pause_ns;
        sb_work_ask(handle);
}

/* A rule that is left in the middle covers nothing, and no other process comes back to it. */
static void engine_look_after_rules(struct sb_engine *engine)
{
        uint64_t now;

        if (!engine->rules_left)
                return;
        now = sb_os_linux.now_ns(sb_os_linux.context);
        if (now < engine->repair_ns)
                return;
        engine->repair_ns = now + REPAIR_NS;
        sb_reaper_repair(engine);
}

/* Damage is met by ticks only where they pass it; one line is enough. */
static void engine_tell_of_damage(struct sb_engine *engine)
{
        if (!sb_damage_take(&engine->handle) || engine->damaged)
                return;
        engine->damaged = true;
        sb_log("the segment is damaged: `agentctl check` names the places; what is whole can be "
               "used, and the next engine will not adopt it");
}

/* ---- the log ---- */

/* Start the log, where there is to be one and its record is free. One that ended by itself is
 * followed by another a second behind its start. */
static void engine_look_after_log(struct sb_engine *engine)
{
        const struct sb_segment *segment = &engine->handle.segment;
        uint64_t now = sb_os_linux.now_ns(sb_os_linux.context);
        uint32_t slot = sb_durable_slot(segment), generation;
        int r;

        if (!sb_durable_is_logged(segment) || engine->log_fd >= 0 || now < engine->log_ns ||
                sb_roster_state(segment, slot, NULL) != SB_RECORD_FREE)
                return;
        engine->log_ns = now + LOG_RETRY_NS;
        r = sb_wal_process_start(engine->supervisor->config, engine->supervisor->directory.fd,
                segment, &engine->log_fd);
        if (r < 0) {
                engine->log_fd = -1;
                sb_log("the log cannot be started: %s; it is tried again each second",
                        strerror(-r));
                /* One that could not be watched has ended, and may have taken the record before. */
                if (sb_roster_state(segment, slot, &generation) != SB_RECORD_FREE)
                        sb_reap_record(&engine->handle, slot, generation);
                if (!SB_FAULT(UNSTARTED_UNTOLD))
                        sb_durable_tell(segment, (uint32_t)-r);
                return;
        }
        engine->log_pid = r;
        if (sb_engine_add(engine, engine->log_fd, EPOLLIN, SB_EVENT_LOG, 0) < 0)
                sb_log("the log (pid %d) cannot be watched: %s", r, strerror(errno));
}

/* The log has ended: its record is reaped as a client's. Return: SB_ENGINE_FAILED: go on; or how
 * the engine ends. */
static enum sb_engine_end engine_hear_log(struct sb_engine *engine)
{
        const struct sb_segment *segment = &engine->handle.segment;
        uint32_t slot = sb_durable_slot(segment), generation;
        int status = 0;

        if (waitpid(engine->log_pid, &status, WNOHANG) != engine->log_pid)
                return SB_ENGINE_FAILED;
        close(engine->log_fd);
        engine->log_fd = -1; /* its pid may be another process's by now */
        if (WIFEXITED(status) && WEXITSTATUS(status) == SB_WAL_PROCESS_GAVE_UP)
                return SB_ENGINE_GAVE_UP;
        sb_log("the log (pid %d) ended with status %d; starting another", (int)engine->log_pid,
                WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
        if (sb_roster_state(segment, slot, &generation) != SB_RECORD_FREE) {
                sb_reap_record(&engine->handle, slot, generation);
                /* As of engines: that one which worked was killed says nothing about the next. */
                if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
                        engine->log_ns = 0;
        }
        engine_look_after_log(engine);
        return SB_ENGINE_FAILED;
}

/* Wait for the end of the log. It is told to stop once more when agentd is: then it leaves out what
 * a start can do without. */
static void engine_await_log(const struct sb_engine *engine)
{
        struct pollfd fds[2] = {{.fd = engine->log_fd, .events = POLLIN},
                {.fd = engine->supervisor->channel, .events = POLLIN}};
        char word;

        while (poll(fds, 2, -1) < 0 || !fds[0].revents) {
                if (!fds[1].revents)
                        continue;
                if (recv(fds[1].fd, &word, 1, MSG_DONTWAIT) == 1)
                        (void)kill(engine->log_pid, SIGTERM);
                else
                        fds[1].fd = -1; /* the supervisor is gone */
        }
}

/* Told to stop, the log writes what is there, and ends. Return: its status; -1: none runs. */
static int engine_stop_log(struct sb_engine *engine)
{
        const struct sb_segment *segment = &engine->handle.segment;
        uint32_t slot = sb_durable_slot(segment), generation;
        int status = -1;

        if (engine->log_fd < 0)
                return -1;
        (void)kill(engine->log_pid, SIGTERM);
        (void)kill(engine->log_pid, SIGCONT); /* one that is stopped writes nothing */
        engine_await_log(engine);
        (void)waitpid(engine->log_pid, &status, WNOHANG);
        close(engine->log_fd);
        engine->log_fd = -1;
        if (sb_roster_state(segment, slot, &generation) != SB_RECORD_FREE)
                sb_reap_record(&engine->handle, slot, generation);
        return status;
}

/* The bus is not served any more. Where no log runs just now, or the one that did was killed, one
 * more writes what is there. Return: how the engine ends. */
static enum sb_engine_end engine_finish_log(struct sb_engine *engine)
{
        int status;

        if (!sb_durable_is_logged(&engine->handle.segment))
                return SB_ENGINE_STOPPED;
        status = engine_stop_log(engine);
        if (status < 0 || WIFSIGNALED(status)) {
                engine->log_ns = 0;
                engine_look_after_log(engine);
                status = engine_stop_log(engine);
        }
        if (!status)
                return SB_ENGINE_STOPPED;
        sb_log(SB_PLACE_LOST);
        return SB_ENGINE_LOST;
}

/* The engine ends. If the bus goes on, this process becomes the supervisor, and the next engine has
 * a log of its own; one that hangs in the disk stays behind. Return: @end, or SB_ENGINE_LOST. */
static enum sb_engine_end engine_end_log(struct sb_engine *engine, enum sb_engine_end end)
{
        struct pollfd gone = {.fd = engine->log_fd, .events = POLLIN};

        if (end == SB_ENGINE_STOPPED)
                end = engine_finish_log(engine);
        if (engine->log_fd < 0)
                return end;
        (void)kill(engine->log_pid, SIGKILL);
        (void)poll(&gone, 1, LOG_PATIENCE_MS);
        (void)waitpid(engine->log_pid, NULL, WNOHANG);
        close(engine->log_fd);
        return end;
}

/* Do a little of the work on memory. Return: whether there is more to do at once. */
static bool engine_tick(struct sb_engine *engine)
{
        bool idle = engine_is_idle(engine);
        bool more = sb_work_tick(&engine->handle, &engine->sweep_cursor);
        bool looking = sb_reaper_look(engine);
        struct sb_moment now;

        sb_times_tick(&engine->handle.segment, &now);
        engine_end_long_snapshots(engine);
        engine_look_after_history(engine);
        engine_look_after_rules(engine);
        engine_look_after_log(engine);
        engine_tell_of_damage(engine);
        (void)engine_is_idle(engine); /* the words that the tick itself has changed do not count */
        if (more || looking || !idle || sb_work_is_noted(&engine->handle))
                engine_set_timer(engine, TICK_NS);
        else if (engine->interval_ns < IDLE_TICK_NS)
                engine_set_timer(engine, engine->interval_ns * 2);
        if (engine->deaf && !SB_FAULT(DEAF_FOR_EVER)) {
                engine->deaf = false;
                (void)sb_engine_add(engine, engine->supervisor->directory.listen_fd, EPOLLIN,
                        SB_EVENT_LISTEN, 0);
        }
        return more;
}

/* Send a signal on to the supervisor, which decides what it means. Where that is dead by now, or
 * dies before it has read the signal, this process is the supervisor soon, and finds it again. */
static void engine_forward_signal(struct sb_engine *engine)
{
        struct signalfd_siginfo info;

        while (read(engine->supervisor->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
                (void)syscall(SYS_pidfd_send_signal, engine->supervisor->self_fd, SIGTERM, NULL, 0);
                engine->sent_on = true;
        }
}

/* Whether the supervisor said stop. A channel that is hung up says nothing: the supervisor's pidfd
 * reports its death. */
static bool engine_is_told_to_stop(struct sb_engine *engine)
{
        char word;
        ssize_t len = recv(engine->supervisor->channel, &word, 1, MSG_DONTWAIT);

        if (len == 1)
                return word == SB_SUPERVISOR_STOP;
        if (len == 0 || (errno != EAGAIN && errno != EINTR))
                (void)epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, engine->supervisor->channel, NULL);
        return false;
}

/* Handle one event. Return: SB_ENGINE_FAILED: go on; otherwise how the engine ends. *more: tick
 * again at once. */
static enum sb_engine_end engine_dispatch(
        struct sb_engine *engine, enum sb_event event, uint32_t index, bool *more)
{
        uint64_t expirations;

        switch (event) {
        case SB_EVENT_LISTEN:
                sb_accept_new(engine);
                break;
        case SB_EVENT_TIMER:
                if (read(engine->timer_fd, &expirations, sizeof(expirations)) > 0) {
                        sb_work_pass(
                                &engine->handle, expirations * (engine->interval_ns / TICK_NS) - 1);
                        *more = true;
                }
                break;
        case SB_EVENT_SIGNAL:
                engine_forward_signal(engine);
                break;
        case SB_EVENT_CHANNEL:
                if (engine_is_told_to_stop(engine))
                        return SB_ENGINE_STOPPED;
                break;
        case SB_EVENT_SUPERVISOR:
                if (engine->sent_on)
                        (void)kill(getpid(), SIGTERM); /* blocked: it waits */
                return SB_ENGINE_SUPERVISOR_DIED;
        case SB_EVENT_CONNECTION:
                sb_accept_ready(engine, index);
                break;
        case SB_EVENT_MAP:
                sb_reaper_hear_maps(engine);
                engine_set_timer(engine, TICK_NS);
                break;
        case SB_EVENT_LOG:
                return engine_hear_log(engine);
        case SB_EVENT_CLIENT:
                sb_reaper_ready(engine, index);
                break;
        }
        return SB_ENGINE_FAILED;
}

static enum sb_engine_end engine_serve(struct sb_engine *engine)
{
        struct epoll_event events[EVENTS_AT_ONCE];
        bool more = true;
        int count;

        for (;;) {
                /* A sweep rests between its slices. Where clients want all processors, an engine
                 * that did not would stop one of them for whole time slices, mostly under a pin.
                 * What the others replace meanwhile fills their lists, they leave it behind, and so
                 * ask for the next sweep. */
                count = epoll_wait(
                        engine->epoll_fd, events, EVENTS_AT_ONCE, more ? SWEEP_PAUSE_MS : -1);
                if (count < 0 && errno != EINTR) {
                        sb_log("the engine cannot wait: %s", strerror(errno));
                        return SB_ENGINE_FAILED;
                }
                for (int round = 0; round < 2; round++) {
                        for (int i = 0; i < count; i++) {
                                enum sb_event event = (enum sb_event)(events[i].data.u64 >> 32);
                                enum sb_engine_end end;

                                if ((round == 0) != (event == SB_EVENT_CLIENT))
                                        continue;
                                end = engine_dispatch(
                                        engine, event, (uint32_t)events[i].data.u64, &more);
                                if (end != SB_ENGINE_FAILED)
                                        return end;
                        }
                }
                if (more)
                        more = engine_tick(engine);
        }
}

/* Wait for everything but clients. */
static int engine_open_events(struct sb_engine *engine)
{
        const struct sb_supervisor *supervisor = engine->supervisor;
        int r;

        engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        engine->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (engine->epoll_fd < 0 || engine->timer_fd < 0)
                return -errno;
        r = sb_engine_add(engine, engine->timer_fd, EPOLLIN, SB_EVENT_TIMER, 0);
        if (!r)
                r = sb_engine_add(
                        engine, supervisor->directory.listen_fd, EPOLLIN, SB_EVENT_LISTEN, 0);
        if (!r)
                r = sb_engine_add(engine, supervisor->signal_fd, EPOLLIN, SB_EVENT_SIGNAL, 0);
        if (!r)
                r = sb_engine_add(engine, supervisor->channel, EPOLLIN, SB_EVENT_CHANNEL, 0);
        if (!r)
                r = sb_engine_add(engine, supervisor->self_fd, EPOLLIN, SB_EVENT_SUPERVISOR, 0);
        if (!r)
                engine_set_timer(engine, TICK_NS);
        return r;
}

static enum sb_engine_end engine_adopt_and_serve(struct sb_engine *engine)
{
        enum sb_engine_end end;
        char word = SB_SUPERVISOR_ADOPTED;
        int r;

        r = engine_open_events(engine);
        if (r) {
                sb_log("the engine cannot start: %s", strerror(-r));
                return SB_ENGINE_FAILED;
        }
        end = sb_adopt(engine);
        if (end)
                return end;
        engine_look_after_log(engine);
        (void)send(engine->supervisor->channel, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        return engine_serve(engine);
}

static struct sb_engine *engine_new(struct sb_supervisor *supervisor)
{
        struct sb_engine *engine = mi_zalloc(sizeof(*engine));
        uint32_t records = supervisor->memory.geometry.record_count;

        if (!engine)
                return NULL;
        engine->connection_max = SB_STRANGERS_MAX + SB_CONNECTIONS_MAX + records;
        engine->kept_max = supervisor->kept_max;
        engine->watchers = mi_calloc(records, sizeof(*engine->watchers));
        engine->connections = mi_calloc(engine->connection_max, sizeof(*engine->connections));
        if (supervisor->config->snapshot_age_ns)
                engine->seen =
                        mi_calloc((size_t)records * supervisor->memory.geometry.snapshot_count,
                                sizeof(*engine->seen));
        if (!engine->watchers || !engine->connections ||
                (!engine->seen && supervisor->config->snapshot_age_ns)) {
                mi_free(engine->seen);
                mi_free(engine->watchers);
                mi_free(engine->connections);
                mi_free(engine);
                return NULL;
        }
        for (uint32_t i = 0; i < records; i++)
                engine->watchers[i].pidfd = -1;
        engine->supervisor = supervisor;
        engine->epoll_fd = engine->timer_fd = engine->maps_fd = engine->log_fd = -1;
        return engine;
}

static void engine_free(struct sb_engine *engine)
{
        sb_accept_close_all(engine);
        sb_reaper_close_all(engine);
        if (engine->handle.segment.base)
                munmap(engine->handle.segment.base, engine->supervisor->memory.size);
        if (engine->epoll_fd >= 0)
                close(engine->epoll_fd);
        if (engine->timer_fd >= 0)
                close(engine->timer_fd);
        mi_free(engine->seen);
        mi_free(engine->watchers);
        mi_free(engine->connections);
        mi_free(engine->space);
        mi_free(engine);
}

enum sb_engine_end sb_engine_run(struct sb_supervisor *supervisor)
{
        struct sb_engine *engine = engine_new(supervisor);
        enum sb_engine_end end;

        if (!engine) {
                sb_log("the engine cannot start: no memory");
                return SB_ENGINE_FAILED;
        }
        prctl(PR_SET_NAME, "agentd-engine");
        sb_life_hold(supervisor->memory.super, SB_LIFE_ENGINE);
        if (sigsetjmp(sb_guard_return, 1)) {
                sb_log("the segment is given up: part of its memory is gone (SIGBUS)");
                end = SB_ENGINE_UNSOUND;
        } else {
                sb_guard_arm();
                end = engine_adopt_and_serve(engine);
                end = engine_end_log(engine, end);
                if (engine->attached && (end == SB_ENGINE_STOPPED || end == SB_ENGINE_LOST ||
                                                end == SB_ENGINE_SUPERVISOR_DIED))
                        sb_handle_fini(&engine->handle);
        }
        sb_guard_disarm();
        engine_free(engine);
        return end;
}
