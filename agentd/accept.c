/*
 * The engine's half of the attach protocol (ring/attach/hello.h).
 *
 *      admitted:   accepted -> SILENT -> ANSWERED -> closed
 *      stranger:   accepted -> ANSWERED (refused) -> closed
 *
 * A process of the bus's user or of root is admitted, if its pid is visible here; any other process
 * is a stranger. Strangers, and admitted connections without a record, each have a bounded number
 * of entries. Where all of them are used, the oldest silent connection is closed, or else the
 * oldest one. A connection with a record is kept in the record's own entry, because its end tells
 * the engine whether the client read the answer; it is closed for another one only when descriptors
 * are short.
 *
 * Always true: nothing here waits for a client. No descriptor is taken from a client: messages are
 * received without space for any.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agentd/engine.h"
#include "agentd/log.h"
#include "ring/attach/hello.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#define ACCEPTS_AT_ONCE 32

static void accept_drop(struct sb_engine *engine, struct sb_connection *connection)
{
        if (connection->state != SB_CONNECTION_FREE)
                close(connection->fd);
        if (connection->slot)
                engine->kept--;
        *connection = (struct sb_connection){.fd = -1};
}

void sb_accept_close_all(struct sb_engine *engine)
{
        for (uint32_t i = 0; i < engine->connection_max; i++)
                accept_drop(engine, &engine->connections[i]);
}

/* Find a free entry in [first, first + count). If there is none, close a connection to make one. */
static uint32_t accept_find_entry(struct sb_engine *engine, uint32_t first, uint32_t count)
{
        uint32_t best = first;

        for (uint32_t i = first; i < first + count; i++) {
                struct sb_connection *connection = &engine->connections[i],
                                     *chosen = &engine->connections[best];

                if (connection->state == SB_CONNECTION_FREE)
                        return i;
                if (connection->state < chosen->state ||
                        (connection->state == chosen->state && connection->number < chosen->number))
                        best = i;
        }
        accept_drop(engine, &engine->connections[best]);
        return best;
}

/* Read what came in on the connections with a record. Return: whether any of them was closed. */
static bool accept_hear_kept(struct sb_engine *engine)
{
        uint32_t before = engine->kept;

        for (uint32_t i = SB_STRANGERS_MAX + SB_CONNECTIONS_MAX; i < engine->connection_max; i++)
                sb_accept_ready(engine, i);
        return engine->kept != before;
}

/* Descriptors are short: close the oldest connection with a record. If its client never reads the
 * answer and lives on, its record stays in use until the client ends. */
static void accept_drop_kept(struct sb_engine *engine)
{
        struct sb_connection *oldest = NULL;

        for (uint32_t i = SB_STRANGERS_MAX + SB_CONNECTIONS_MAX; i < engine->connection_max; i++) {
                struct sb_connection *connection = &engine->connections[i];

                if (connection->state != SB_CONNECTION_FREE &&
                        (!oldest || connection->number < oldest->number))
                        oldest = connection;
        }
        if (oldest)
                accept_drop(engine, oldest);
}

/* @connection was given a record: move it to the record's entry. */
static void accept_keep(struct sb_engine *engine, struct sb_connection *connection, uint32_t slot,
        uint32_t generation)
{
        uint32_t index = SB_STRANGERS_MAX + SB_CONNECTIONS_MAX + slot;
        struct epoll_event what = {
                .events = EPOLLIN, .data.u64 = (uint64_t)SB_EVENT_CONNECTION << 32 | index};

        /* If a process that had the record before is still connected, close that connection. */
        accept_drop(engine, &engine->connections[index]);
        if (engine->kept >= engine->kept_max && !accept_hear_kept(engine))
                accept_drop_kept(engine);
        engine->kept++;
        engine->connections[index] = *connection;
        engine->connections[index].state = SB_CONNECTION_ANSWERED;
        engine->connections[index].generation = generation;
        engine->connections[index].slot = slot;
        *connection = (struct sb_connection){.fd = -1};
        /* Cannot fail: the descriptor is in the set. */
        (void)epoll_ctl(engine->epoll_fd, EPOLL_CTL_MOD, engine->connections[index].fd, &what);
}

/* Send an answer, with the segment's descriptor unless @memfd is -1. Return: 0, -errno. */
static int accept_send_answer(int fd, const struct sb_hello_answer *answer, int memfd)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct iovec bytes = {.iov_base = (void *)answer, .iov_len = sizeof(*answer)};
        struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};

        if (memfd >= 0) {
                message.msg_control = &control;
                message.msg_controllen = sizeof(control.space);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(&control.header), &memfd, sizeof(int));
        }
        return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*answer)
                       ? 0
                       : -errno;
}

static void accept_refuse(struct sb_connection *connection, int result)
{
        struct sb_hello_answer answer;

        sb_hello_refuse(result, &answer);
        /* A process that does not read the answer loses nothing else. */
        (void)accept_send_answer(connection->fd, &answer, -1);
        connection->state = SB_CONNECTION_ANSWERED;
}

/* Open the process at the other end, and read when it was started. Return: a pidfd, or -errno. */
static int accept_open_process(const struct sb_connection *connection, uint64_t *ret_start)
{
        socklen_t len = sizeof(int);
        int pidfd, r;

        if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0) {
                struct pollfd look = {.fd = connection->fd, .events = POLLIN};

                if (errno != ENOPROTOOPT)
                        return -errno;
                /* Linux before 6.5. The pid may have passed to another process, but only if the
                 * process that connected is gone: then the connection is hung up by now. */
                pidfd = (int)syscall(SYS_pidfd_open, (pid_t)connection->pid, 0);
                if (pidfd < 0)
                        return -errno;
                if (poll(&look, 1, 0) == 1 && (look.revents & (POLLHUP | POLLERR))) {
                        close(pidfd);
                        return -ESRCH;
                }
        }
        r = sb_reaper_start_time(connection->pid, ret_start);
        if (r) {
                close(pidfd);
                return r;
        }
        return pidfd;
}

/* Whether the record is of the same process. Fault TICKET_OF_ANY: of any. */
static bool accept_is_same(
        const struct sb_record *record, const struct sb_roster_identity *identity)
{
        return (record->pid == identity->pid && record->pid_start == identity->pid_start) ||
               SB_FAULT(TICKET_OF_ANY);
}

/* Find the record that an earlier engine claimed for the same attempt to attach, without answering
 * the client any more. Return: its number; 0: there is none. */
static uint32_t accept_find_ticket(const struct sb_engine *engine,
        const struct sb_roster_identity *identity, uint32_t *ret_generation)
{
        const struct sb_segment *segment = &engine->handle.segment;

        for (uint32_t slot = 1; slot < segment->geometry.record_count; slot++) {
                const struct sb_record *record = sb_record_at(segment, slot);

                if (sb_roster_state(segment, slot, ret_generation) == SB_RECORD_ATTACHED &&
                        record->ticket == identity->ticket && accept_is_same(record, identity))
                        return slot;
        }
        return 0;
}

/* Claim a free record. Clients have the records 1 to --clients. The one behind them is for
 * agentctl, so that a bus with all its clients can be looked at; a second agentctl takes a
 * client's. */
static int accept_claim_free(struct sb_engine *engine, uint32_t verb,
        const struct sb_roster_identity *identity, uint32_t *ret_slot, uint32_t *ret_generation)
{
        struct sb_segment *segment = &engine->handle.segment;
        uint32_t end = engine->supervisor->config->clients + 1;

        /* Behind that one is the log's, where there is a log. */
        if ((verb == SB_HELLO_ATTACH_OPERATOR || SB_FAULT(PLACE_UNRESERVED)) &&
                !sb_roster_claim_below(segment, end, end + 1, identity, ret_slot, ret_generation))
                return 0;
        return sb_roster_claim_below(segment, 1, end, identity, ret_slot, ret_generation);
}

/* Claim a record. When none is free, first collect those of dead processes and of clients that gave
 * up. */
static int accept_claim_record(struct sb_engine *engine, uint32_t verb,
        const struct sb_roster_identity *identity, uint32_t *ret_slot, uint32_t *ret_generation)
{
        int r = accept_claim_free(engine, verb, identity, ret_slot, ret_generation);

        if (r == SB_E_FULL && (sb_reaper_collect(engine) | accept_hear_kept(engine)))
                r = accept_claim_free(engine, verb, identity, ret_slot, ret_generation);
        return r;
}

/* A client is refused because all records are in use. It is told so by a number alone, so say what
 * to do: once, until a record is granted again. */
static void accept_say_full(struct sb_engine *engine)
{
        if (!engine->said_full)
                sb_log("no more clients: all %u clients of --clients are attached; end some, or "
                       "start agentd with more",
                        engine->supervisor->config->clients);
        engine->said_full = true;
}

static void accept_close(int fd)
{
        if (fd >= 0)
                close(fd);
}

/* Answer the client that was given record @slot, with the segment. @map: the description that it is
 * to map the segment by, or -1. Return: 0, -errno. */
static int accept_grant(struct sb_engine *engine, struct sb_connection *connection, uint32_t slot,
        uint32_t generation, int map)
{
        const struct sb_segment *segment = &engine->handle.segment;
        struct sb_hello_answer answer;
        int r = map >= 0 ? sb_reaper_lock_map(map, slot) : 0;

        if (r)
                return r;
        sb_hello_refuse(0, &answer);
        answer.features = segment->super->features;
        answer.access = SB_PEER;
        answer.slot = slot;
        answer.generation = generation;
        answer.size = segment->geometry.size;
        memcpy(answer.id, segment->super->id, sizeof(answer.id));
        return accept_send_answer(
                connection->fd, &answer, map >= 0 ? map : engine->supervisor->memory.fd);
}

static void accept_attach(struct sb_engine *engine, struct sb_connection *connection,
        const struct sb_hello_request *request)
{
        struct sb_roster_identity identity = {
                .pid = connection->pid,
                .uid = connection->uid,
                .access = SB_PEER,
                .attached_ns = sb_os_linux.now_ns(sb_os_linux.context),
                .ticket = request->ticket,
        };
        uint32_t slot, generation;
        int pidfd, map, r;

        if (request->access != SB_PEER) {
                accept_refuse(connection, -ENOTSUP);
                return;
        }
        pidfd = accept_open_process(connection, &identity.pid_start);
        if (pidfd < 0) {
                if (pidfd != -ESRCH && pidfd != -ENOENT)
                        sb_log("process %u cannot be watched, so it is not attached: %s",
                                connection->pid, strerror(-pidfd));
                accept_refuse(connection, pidfd);
                return;
        }
        map = sb_reaper_open_map(engine);
        identity.map_locked = map >= 0;
        slot = accept_find_ticket(engine, &identity, &generation);
        if (slot && map < 0 && sb_record_at(&engine->handle.segment, slot)->map_locked) {
                /* Nothing would show that this client maps the segment, as the record says. */
                close(pidfd);
                accept_refuse(connection, -EMFILE);
                return;
        }
        if (!slot) {
                r = accept_claim_record(engine, request->verb, &identity, &slot, &generation);
                if (r) {
                        accept_say_full(engine);
                        sb_reaper_close_unused(engine, map);
                        close(pidfd);
                        accept_refuse(connection, r);
                        return;
                }
                engine->said_full = false;
        }
        sb_reaper_watch(engine, slot, generation, pidfd);
        r = accept_grant(engine, connection, slot, generation, map);
        accept_close(map);
        if (r) {
                sb_reaper_give_back(engine, slot, generation);
                accept_drop(engine, connection);
                return;
        }
        accept_keep(engine, connection, slot, generation);
}

static void accept_evict(struct sb_engine *engine, struct sb_connection *connection,
        const struct sb_hello_request *request)
{
        struct sb_hello_answer answer;
        uint32_t count = 0;

        sb_hello_refuse(sb_reaper_evict(engine, request->ticket & UINT32_MAX, request->ticket >> 32,
                                request->verb == SB_HELLO_KILL, &count),
                &answer);
        answer.slot = count;
        (void)accept_send_answer(connection->fd, &answer, -1);
        connection->state = SB_CONNECTION_ANSWERED;
}

/* Handle the first message of an admitted connection. */
static void accept_hear(
        struct sb_engine *engine, struct sb_connection *connection, const void *packet, size_t len)
{
        struct sb_hello_request request;
        int r = sb_hello_judge(packet, len, engine->handle.segment.super->features, &request);

        if (!r && request.verb == SB_HELLO_GIVE_BACK)
                r = -EPROTO;
        if (r)
                accept_refuse(connection, r);
        else if (request.verb == SB_HELLO_ATTACH || request.verb == SB_HELLO_ATTACH_OPERATOR)
                accept_attach(engine, connection, &request);
        else
                accept_evict(engine, connection, &request);
}

/* Handle a further message: the client gives the record back, or the connection is closed. There is
 * no second answer. */
static void accept_hear_more(
        struct sb_engine *engine, struct sb_connection *connection, const void *packet, size_t len)
{
        struct sb_hello_request request;

        if (connection->slot &&
                !sb_hello_judge(packet, len, engine->handle.segment.super->features, &request) &&
                request.verb == SB_HELLO_GIVE_BACK)
                sb_reaper_give_back(engine, connection->slot, connection->generation);
        accept_drop(engine, connection);
}

/* Whether the connection was reset. A close during recv() may look like an orderly end, but the
 * error is there by then (Linux looks for an error, then takes the lock under which close() sets
 * both). */
static bool accept_is_reset(int fd)
{
        int error = 0;
        socklen_t len = sizeof(error);

        return !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) && error;
}

void sb_accept_ready(struct sb_engine *engine, uint32_t index)
{
        struct sb_connection *connection = &engine->connections[index];
        char packet[sizeof(struct sb_hello_request) +
                    1]; /* one byte more, so that a longer packet shows */
        ssize_t len;

        if (connection->state == SB_CONNECTION_FREE)
                return;
        len = recv(connection->fd, packet, sizeof(packet), MSG_DONTWAIT);
        if (len < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (index < SB_STRANGERS_MAX) {
                /* A stranger's request is read, so that the answer is not lost when the connection
                 * closes. The connection is closed when the stranger closes it or sends more. */
                if (len <= 0 || connection->number == 0)
                        accept_drop(engine, connection);
                else
                        connection->number = 0;
                return;
        }
        if (len < 0 || (len == 0 && accept_is_reset(connection->fd))) {
                /* The client did not read the answer (ECONNRESET): it died, or gave up waiting. */
                if (connection->slot)
                        sb_reaper_give_back(engine, connection->slot, connection->generation);
                accept_drop(engine, connection);
        } else if (len == 0) {
                accept_drop(engine, connection);
        } else if (connection->state == SB_CONNECTION_SILENT) {
                accept_hear(engine, connection, packet, (size_t)len);
        } else {
                accept_hear_more(engine, connection, packet, (size_t)len);
        }
}

/* Accept one connection. The user of its process decides which entries it may take. */
static void accept_one(struct sb_engine *engine, int fd)
{
        struct ucred process;
        socklen_t len = sizeof(process);
        struct sb_connection *connection;
        bool admitted;
        uint32_t index;

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &process, &len) < 0) {
                close(fd);
                return;
        }
        /* A pid of 0 means a pid namespace that this process cannot see, so the death of that
         * process could not be seen either. */
        admitted = (process.uid == geteuid() || process.uid == 0) && process.pid > 0;
        index = admitted ? accept_find_entry(engine, SB_STRANGERS_MAX, SB_CONNECTIONS_MAX)
                         : accept_find_entry(engine, 0, SB_STRANGERS_MAX);
        connection = &engine->connections[index];
        *connection = (struct sb_connection){
                .fd = fd,
                .state = SB_CONNECTION_SILENT,
                .pid = (uint32_t)process.pid,
                .uid = process.uid,
                .number = ++engine->connection_count,
        };
        if (sb_engine_add(engine, fd, EPOLLIN, SB_EVENT_CONNECTION, index) < 0) {
                accept_drop(engine, connection);
                return;
        }
        if (!admitted)
                accept_refuse(connection, SB_E_DENIED);
        sb_accept_ready(engine, index); /* most requests have arrived by now */
}

void sb_accept_new(struct sb_engine *engine)
{
        /* Bound: slice. The socket stays readable. */
        for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
                int fd = accept4(engine->supervisor->directory.listen_fd, NULL, NULL,
                        SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd >= 0) {
                        accept_one(engine, fd);
                } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
                           errno == ENOBUFS) {
                        /* The socket stays readable, so do not listen until the next tick. */
                        (void)epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL,
                                engine->supervisor->directory.listen_fd, NULL);
                        engine->deaf = true;
                        return;
                } else if (errno != ECONNABORTED && errno != EINTR) {
                        return;
                }
        }
}
