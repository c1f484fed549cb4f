/*
 * The engine's half of the attach protocol (ring/hello.h).
 *
 *      peers:      accepted -> SILENT -> ANSWERED -> gone
 *      strangers:  accepted -> ANSWERED (refused) -> gone
 *
 * Always true: nothing here waits for a client. Connections that were given no record are bounded,
 * strangers apart from peers; when there are too many, the oldest that has said nothing goes first.
 * One that was given a record has an entry by the record's number, and is not dropped for another
 * as long as there are descriptors: by it the engine learns that its client did not read the
 * answer. No descriptor is taken: messages are received without room for any.
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

static void drop(struct sb_engine *engine, struct sb_connection *connection)
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
                drop(engine, &engine->connections[i]);
}

/* A free entry in [first, first + count), made free if need be. */
static uint32_t find_entry(struct sb_engine *engine, uint32_t first, uint32_t count)
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
        drop(engine, &engine->connections[best]);
        return best;
}

/* What was said since on connections with a record: that it is not needed, or nothing, and gone. */
static bool hear_kept(struct sb_engine *engine)
{
        uint32_t before = engine->kept;

        for (uint32_t i = SB_STRANGERS_MAX + SB_CONNECTIONS_MAX; i < engine->connection_max; i++)
                sb_accept_ready(engine, i);
        return engine->kept != before;
}

/* Descriptors are short: the oldest connection with a record goes. Should its client never read the
 * answer and live on, its place is taken until it ends. */
static void drop_kept(struct sb_engine *engine)
{
        struct sb_connection *oldest = NULL;

        for (uint32_t i = SB_STRANGERS_MAX + SB_CONNECTIONS_MAX; i < engine->connection_max; i++) {
                struct sb_connection *connection = &engine->connections[i];

                if (connection->state != SB_CONNECTION_FREE &&
                        (!oldest || connection->number < oldest->number))
                        oldest = connection;
        }
        if (oldest)
                drop(engine, oldest);
}

/* A record was given to @connection: it goes to the record's entry. */
static void keep(struct sb_engine *engine, struct sb_connection *connection, uint32_t slot,
        uint32_t generation)
{
        uint32_t index = SB_STRANGERS_MAX + SB_CONNECTIONS_MAX + slot;
        struct epoll_event what = {
                .events = EPOLLIN, .data.u64 = (uint64_t)SB_EVENT_CONNECTION << 32 | index};

        drop(engine, &engine->connections[index]); /* of one that had the record before, if any */
        if (engine->kept >= engine->kept_max && !hear_kept(engine))
                drop_kept(engine);
        engine->kept++;
        engine->connections[index] = *connection;
        engine->connections[index].state = SB_CONNECTION_ANSWERED;
        engine->connections[index].generation = generation;
        engine->connections[index].slot = slot;
        *connection = (struct sb_connection){.fd = -1};
        /* Cannot fail: it is in the set. */
        (void)epoll_ctl(engine->epoll_fd, EPOLL_CTL_MOD, engine->connections[index].fd, &what);
}

/* Send an answer, with the segment's descriptor unless @memfd is -1. Return: 0, -errno. */
static int send_answer(int fd, const struct sb_hello_answer *answer, int memfd)
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

static void refuse(struct sb_connection *connection, int result)
{
        struct sb_hello_answer answer;

        sb_hello_refuse(result, &answer);
        (void)send_answer(
                connection->fd, &answer, -1); /* whoever does not want to hear it need not */
        connection->state = SB_CONNECTION_ANSWERED;
}

/* The process at the other end, and when it was started. Return: a pidfd, or -errno. */
static int accept_open_process(const struct sb_connection *connection, uint64_t *ret_start)
{
        socklen_t len = sizeof(int);
        int pidfd, r;

        if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0) {
                struct pollfd look = {.fd = connection->fd, .events = POLLIN};

                if (errno != ENOPROTOOPT)
                        return -errno;
                /* Linux before 6.5: the pid may have passed to another process, but only if who
                 * connected is gone: then the connection is hung up by now. */
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

/* The record that an engine before this one made for the same attempt, and could not tell the
 * client of; 0: none. */
static uint32_t find_ticket(const struct sb_engine *engine, const struct sb_slot_identity *identity,
        uint32_t *ret_generation)
{
        const struct sb_segment *segment = &engine->peer.segment;

        for (uint32_t slot = 1; slot < segment->geometry.client_count; slot++) {
                const struct sb_client *client = sb_client_at(segment, slot);

                if (sb_slot_state(segment, slot, ret_generation) == SB_CLIENT_ATTACHED &&
                        client->ticket == identity->ticket && client->pid == identity->pid &&
                        client->pid_start == identity->pid_start)
                        return slot;
        }
        return 0;
}

/* Make room, if the dead still take it up, or who gave up. */
static int accept_claim_record(struct sb_engine *engine, const struct sb_slot_identity *identity,
        uint32_t *ret_slot, uint32_t *ret_generation)
{
        int r = sb_slot_claim(&engine->peer.segment, 1, identity, ret_slot, ret_generation);

        if (r == SB_E_FULL && (sb_reaper_collect(engine) | hear_kept(engine)))
                r = sb_slot_claim(&engine->peer.segment, 1, identity, ret_slot, ret_generation);
        return r;
}

static void attach(struct sb_engine *engine, struct sb_connection *connection,
        const struct sb_hello_request *request)
{
        const struct sb_superblock *super = engine->peer.segment.super;
        struct sb_slot_identity identity = {
                .pid = connection->pid,
                .uid = connection->uid,
                .access = SB_PEER,
                .attached_ns = sb_os_linux.now_ns(sb_os_linux.context),
                .ticket = request->ticket,
        };
        struct sb_hello_answer answer;
        uint32_t slot, generation;
        int pidfd, r;

        if (request->access != SB_PEER) {
                refuse(connection, -ENOTSUP);
                return;
        }
        pidfd = accept_open_process(connection, &identity.pid_start);
        if (pidfd < 0) {
                if (pidfd != -ESRCH && pidfd != -ENOENT)
                        sb_log("process %u cannot be watched, so it is not attached: %s",
                                connection->pid, strerror(-pidfd));
                refuse(connection, pidfd);
                return;
        }
        slot = find_ticket(engine, &identity, &generation);
        if (!slot) {
                r = accept_claim_record(engine, &identity, &slot, &generation);
                if (r) {
                        close(pidfd);
                        refuse(connection, r);
                        return;
                }
        }
        sb_reaper_watch(engine, slot, generation, pidfd);
        sb_hello_refuse(0, &answer);
        answer.features = super->features;
        answer.access = SB_PEER;
        answer.slot = slot;
        answer.generation = generation;
        answer.size = engine->peer.segment.geometry.size;
        memcpy(answer.id, super->id, sizeof(answer.id));
        r = send_answer(connection->fd, &answer, engine->supervisor->memory.fd);
        if (r) {
                sb_reaper_give_back(engine, slot, generation);
                drop(engine, connection);
                return;
        }
        keep(engine, connection, slot, generation);
}

static void evict(struct sb_engine *engine, struct sb_connection *connection,
        const struct sb_hello_request *request)
{
        struct sb_hello_answer answer;
        uint32_t count = 0;

        sb_hello_refuse(sb_reaper_evict(engine, request->ticket & UINT32_MAX, request->ticket >> 32,
                                request->verb == SB_HELLO_KILL, &count),
                &answer);
        answer.slot = count;
        (void)send_answer(connection->fd, &answer, -1);
        connection->state = SB_CONNECTION_ANSWERED;
}

/* What a peer that has not asked yet says. */
static void hear(
        struct sb_engine *engine, struct sb_connection *connection, const void *packet, size_t len)
{
        struct sb_hello_request request;
        int r = sb_hello_judge(packet, len, engine->peer.segment.super->features, &request);

        if (!r && request.verb == SB_HELLO_GIVE_BACK)
                r = -EPROTO;
        if (r)
                refuse(connection, r);
        else if (request.verb == SB_HELLO_ATTACH)
                attach(engine, connection, &request);
        else
                evict(engine, connection, &request);
}

/* What one says that was answered already: that it could not use the answer, or nothing. It gets no
 * second answer. */
static void hear_more(
        struct sb_engine *engine, struct sb_connection *connection, const void *packet, size_t len)
{
        struct sb_hello_request request;

        if (connection->slot &&
                !sb_hello_judge(packet, len, engine->peer.segment.super->features, &request) &&
                request.verb == SB_HELLO_GIVE_BACK)
                sb_reaper_give_back(engine, connection->slot, connection->generation);
        drop(engine, connection);
}

/* A close that comes while recv() looks may be told as an orderly end; the error is there by then
 * (Linux looks for an error, then takes the lock under which close() sets both). */
static bool is_reset(int fd)
{
        int error = 0;
        socklen_t len = sizeof(error);

        return !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) && error;
}

void sb_accept_ready(struct sb_engine *engine, uint32_t index)
{
        struct sb_connection *connection = &engine->connections[index];
        char packet[sizeof(struct sb_hello_request) +
                    1]; /* one more, so that a longer packet shows */
        ssize_t len;

        if (connection->state == SB_CONNECTION_FREE)
                return;
        len = recv(connection->fd, packet, sizeof(packet), MSG_DONTWAIT);
        if (len < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (index < SB_STRANGERS_MAX) {
                /* A stranger's question is read, so that the answer is not lost when the connection
                 * goes; then it goes when he goes. */
                if (len <= 0 || connection->number == 0)
                        drop(engine, connection);
                else
                        connection->number = 0;
                return;
        }
        if (len < 0 || (len == 0 && is_reset(connection->fd))) {
                /* The answer was never read (ECONNRESET): the client died, or gave up waiting. */
                if (connection->slot)
                        sb_reaper_give_back(engine, connection->slot, connection->generation);
                drop(engine, connection);
        } else if (len == 0) {
                drop(engine, connection);
        } else if (connection->state == SB_CONNECTION_SILENT) {
                hear(engine, connection, packet, (size_t)len);
        } else {
                hear_more(engine, connection, packet, (size_t)len);
        }
}

/* Who is at the other end decides which entries it may take. */
static void accept_one(struct sb_engine *engine, int fd)
{
        struct ucred who;
        socklen_t len = sizeof(who);
        struct sb_connection *connection;
        bool peer;
        uint32_t index;

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0) {
                close(fd);
                return;
        }
        /* A pid of 0 is in a namespace that cannot be seen from here: its death could not be seen
         * either. */
        peer = (who.uid == geteuid() || who.uid == 0) && who.pid > 0;
        index = peer ? find_entry(engine, SB_STRANGERS_MAX, SB_CONNECTIONS_MAX)
                     : find_entry(engine, 0, SB_STRANGERS_MAX);
        connection = &engine->connections[index];
        *connection = (struct sb_connection){
                .fd = fd,
                .state = SB_CONNECTION_SILENT,
                .pid = (uint32_t)who.pid,
                .uid = who.uid,
                .number = ++engine->connection_count,
        };
        if (sb_engine_add(engine, fd, EPOLLIN, SB_EVENT_CONNECTION, index) < 0) {
                drop(engine, connection);
                return;
        }
        if (!peer)
                refuse(connection, SB_E_DENIED);
        sb_accept_ready(engine, index); /* most have asked already */
}

void sb_accept_new(struct sb_engine *engine)
{
        for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
                int fd = accept4(engine->supervisor->directory.listen_fd, NULL, NULL,
                        SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd >= 0) {
                        accept_one(engine, fd);
                } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
                           errno == ENOBUFS) {
                        /* The socket stays readable: turn away from it until the next tick. */
                        (void)epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL,
                                engine->supervisor->directory.listen_fd, NULL);
                        engine->deaf = true;
                        return;
                } else if (errno != ECONNABORTED && errno != EINTR) {
                        return;
                }
        }
}
