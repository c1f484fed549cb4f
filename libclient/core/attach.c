/*
 * The client's half of attaching; see attach.h, and ring/attach/hello.h for the messages.
 *
 * A client dials the bus's socket, sends one request, and receives one answer with the descriptor
 * of the segment, which it maps.
 *
 * Always true: a client believes an answer only as far as it has checked it. The descriptor must be
 * sealed against shrinking and be as large as the answer says, so that no access to the map can
 * raise SIGBUS; sb_segment_open() judges the rest.
 */
#define _GNU_SOURCE
#include "libclient/core/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ring/attach/map.h"
#include "ring/attach/hello.h"
#include "ring/attach/place.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

#define ATTEMPTS_MAX 64 /* engines that died between connect and answer */

#define LISTENER_PATIENCE_MS 250 /* for one that ends to hang up */

/* Connect to the bus's socket. Return: the connected socket, or -errno; a refusal for lack of
 * rights is -EACCES. */
static int attach_dial(const struct sb_place *place, int flags)
{
        struct sockaddr_un address;
        int fd, through, r;

        r = sb_place_address(place, SB_PLACE_SOCKET, &address, &through);
        if (r)
                return r == -ENOENT || r == -ENOTDIR ? -ECONNREFUSED : r;
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
        if (fd < 0) {
                r = -errno;
        } else if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
                r = errno == ENOENT || errno == ENOTDIR ? -ECONNREFUSED : -errno;
                close(fd);
        } else {
                r = fd;
        }
        if (through >= 0)
                close(through);
        return r;
}

static int attach_send_request(int fd, uint32_t verb, uint32_t access, uint64_t ticket)
{
        struct sb_hello_request request;

        sb_hello_ask(verb, access, ticket, &request);
        return send(fd, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request)
                       ? 0
                       : -errno;
}

/* Take the descriptors out of a message. The first is kept; an agentd should send no more, and any
 * others are closed. Return: the first, or -1. */
static int attach_take_descriptor(struct msghdr *message)
{
        int kept = -1;

        for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
                if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= at->cmsg_len; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(int));
                        if (kept < 0)
                                kept = fd;
                        else
                                close(fd);
                }
        }
        return kept;
}

/* Wait for the answer, which must carry a descriptor when the request @attaches. Return: 0, with
 * the descriptor or -1; -ECONNRESET: the engine went away without an answer; -errno. */
static int attach_receive_answer(
        int fd, bool attaches, struct sb_hello_answer *ret_answer, int *ret_memfd)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(4 * sizeof(int))];
        } control;
        char packet[sizeof(struct sb_hello_answer) + 1];
        struct iovec bytes = {.iov_base = packet, .iov_len = sizeof(packet)};
        struct msghdr message = {.msg_iov = &bytes,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = sizeof(control.space)};
        ssize_t len = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
        int memfd, r;

        if (len < 0)
                return -errno;
        memfd = attach_take_descriptor(&message);
        r = len ? sb_hello_hear(packet, (size_t)len, ret_answer) : -ECONNRESET;
        /* The kernel drops a descriptor when this process may open no more. */
        if (!r && attaches && !ret_answer->result && memfd < 0)
                r = message.msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
        if (r && memfd >= 0)
                close(memfd);
        if (!r)
                *ret_memfd = memfd;
        return r;
}

/* Check the descriptor, map the segment and judge it. Return: 0, -EBADMSG, -errno; then nothing
 * stays mapped. */
static int attach_map(const struct sb_hello_answer *answer, int memfd, struct sb_attachment *ret)
{
        const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
        struct sb_attachment attachment = {
                .slot = answer->slot, .generation = answer->generation, .access = answer->access};
        struct stat status;
        void *base;
        int r;

        if (fstat(memfd, &status) < 0)
                return -errno;
        if (status.st_size < 0 || (uint64_t)status.st_size != answer->size || !answer->size)
                return -EBADMSG;
        r = fcntl(memfd, F_GET_SEALS);
        if (r < 0 && errno != EINVAL) /* EINVAL: what came can have no seals */
                return -errno;
        if (r < 0 || (r & needed) != needed)
                return -EBADMSG;
        r = sb_os_register();
        if (r)
                return r;
        base = sb_map_segment(memfd, answer->size);
        if (!base)
                return -errno;
        r = madvise(base, answer->size, MADV_DONTFORK) < 0 ? -errno : 0;
        if (!r)
                r = sb_segment_open(base, answer->size, &sb_os_linux, &attachment.segment);
        if (!r && (answer->slot == 0 || answer->slot >= attachment.segment.geometry.record_count ||
                          memcmp(attachment.segment.super->id, answer->id, sizeof(answer->id))))
                r = -EBADMSG;
        if (r) {
                munmap(base, answer->size);
                return r;
        }
        *ret = attachment;
        return 0;
}

/* Ask once, over one connection. Return: as sb_attach(); and -ECONNRESET or -EPIPE: ask again with
 * the same ticket. */
static int attach_attempt(const struct sb_place *place, uint32_t verb, uint32_t access,
        uint64_t ticket, struct sb_attachment *ret)
{
        struct sb_hello_answer answer;
        int fd, memfd = -1, r;

        fd = attach_dial(place, 0);
        if (fd < 0)
                return fd;
        r = attach_send_request(fd, verb, access, ticket);
        /* An engine that refuses at once closes its end early, which this send may see (-EPIPE);
         * its answer is in the queue all the same. */
        if (!r || r == -EPIPE)
                r = attach_receive_answer(fd, true, &answer, &memfd);
        if (!r && answer.result) {
                r = answer.result;
        } else {
                if (!r)
                        r = attach_map(&answer, memfd, ret);
                /* This process will not use the record that an answer names, or one that is still
                 * to come may name. */
                if (r)
                        (void)attach_send_request(fd, SB_HELLO_GIVE_BACK, access, ticket);
        }
        if (memfd >= 0)
                close(memfd);
        close(fd);
        return r;
}

int sb_attach(const struct sb_place *place, uint32_t access, struct sb_attachment *ret)
{
        return sb_attach_as(place, SB_HELLO_ATTACH, access, ret);
}

int sb_attach_as(
        const struct sb_place *place, uint32_t verb, uint32_t access, struct sb_attachment *ret)
{
        uint64_t ticket = 0;
        int r;

        while (!ticket)
                if (getrandom(&ticket, sizeof(ticket), 0) != (ssize_t)sizeof(ticket))
                        return -errno;
        /* Bound: result. -ECONNREFUSED: engines come and go, and none serves for long enough. */
        for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
                r = attach_attempt(place, verb, access, ticket, ret);
                /* -EPERM is no refusal of the bus: a filter forbids this process a call. */
                if (r != -ECONNRESET && r != -EPIPE)
                        return r == -EACCES ? SB_E_DENIED : r;
        }
        return -ECONNREFUSED;
}

/* Ask the engine once, over one connection, for what has no descriptor in its answer. Return: 0,
 * and the answer has a result; else as attach_attempt(). */
static int attach_ask(const struct sb_place *place, uint32_t verb, uint64_t ticket,
        struct sb_hello_answer *ret_answer)
{
        int fd, memfd = -1, r;

        fd = attach_dial(place, 0);
        if (fd < 0)
                return fd;
        r = attach_send_request(fd, verb, SB_PEER, ticket);
        if (!r || r == -EPIPE)
                r = attach_receive_answer(fd, false, ret_answer, &memfd);
        if (memfd >= 0)
                close(memfd);
        close(fd);
        return r;
}

/* The same, until an engine answers. Return: as sb_attach_as(). */
static int attach_ask_on(const struct sb_place *place, uint32_t verb, uint64_t ticket,
        struct sb_hello_answer *ret_answer)
{
        int r = -ECONNRESET;

        /* Bound: result. As in sb_attach_as(). */
        for (unsigned i = 0; i < ATTEMPTS_MAX && (r == -ECONNRESET || r == -EPIPE); i++)
                r = attach_ask(place, verb, ticket, ret_answer);
        if (r == -ECONNRESET || r == -EPIPE)
                return -ECONNREFUSED;
        return r == -EACCES ? SB_E_DENIED : r;
}

int sb_attach_layout(const struct sb_place *place, uint32_t *ret_layout)
{
        struct sb_hello_answer answer;
        /* There is nothing to give back on a new connection: a refusal, by which no record went. */
        int r = attach_ask_on(place, SB_HELLO_GIVE_BACK, 1, &answer);

        if (!r)
                *ret_layout = answer.layout_version;
        return r;
}

int sb_attach_evict(const struct sb_place *place, uint64_t target, bool kill, uint32_t *ret_count)
{
        struct sb_hello_answer answer;
        int r = attach_ask_on(place, kill ? SB_HELLO_KILL : SB_HELLO_EVICT, target, &answer);

        if (r)
                return r;
        if (!answer.result)
                *ret_count = answer.slot;
        return answer.result == -EACCES || answer.result == -EPERM ? SB_E_DENIED : answer.result;
}

void sb_attach_unmap(struct sb_attachment *attachment)
{
        if (!attachment->segment.base)
                return;
        munmap(attachment->segment.base, attachment->segment.geometry.size);
        attachment->segment.base = NULL;
}

int sb_attach_served(const struct sb_place *place)
{
        int fd = attach_dial(place, SOCK_NONBLOCK);

        if (fd == -EAGAIN)
                return 0; /* it listens, and as many as it takes wait for it */
        if (fd < 0)
                return fd;
        close(fd);
        return 0;
}

int sb_attach_listener(const struct sb_place *place, pid_t *ret_pid)
{
        struct ucred listener = {0};
        socklen_t len = sizeof(listener);
        struct pollfd hung_up;
        int fd = attach_dial(place, SOCK_NONBLOCK), r = 0;

        if (fd < 0)
                return fd;
        /* An agentd that ends closes its lock first, and then hangs up. */
        hung_up = (struct pollfd){.fd = fd};
        if (poll(&hung_up, 1, LISTENER_PATIENCE_MS) != 0)
                r = -EAGAIN;
        else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &len) < 0)
                r = -errno;
        close(fd);
        if (!r)
                *ret_pid = listener.pid;
        return r;
}

/* Whether the process that listens has no more than the pid of the supervisor that is dead. One
 * that takes over says so before it listens: so the kernel has said of the listener that it died,
 * or of one behind it, and it lives. */
static bool attach_is_another(const struct sb_segment *segment, pid_t listener)
{
        return !sb_segment_serving(segment) && sb_place_lives(listener);
}

/* Whether this process may not connect to the bus, and will not be allowed to. */
static bool attach_is_forbidden(int r)
{
        return r == -EACCES || r == -EPERM || r == -ENOSYS;
}

bool sb_attach_lost(const struct sb_place *place, const struct sb_segment *segment)
{
        const struct sb_superblock *super = segment->super;
        struct ucred listener;
        socklen_t len = sizeof(listener);
        bool lost;
        int fd;

        if (sb_segment_serving(segment))
                return false;
        /* Relaxed: the value alone matters. */
        if (!(sb_load_relaxed(&super->state) & SB_SEGMENT_SERVING))
                return true;
        /* Supervisor and engine are dead, or a new engine was started just now and has not written
         * so yet. The listening socket lives as long as one of them does, and the kernel names the
         * process that listens. */
        fd = attach_dial(place, SOCK_NONBLOCK);
        /* A process that gave its rights up behind sb_open(), or has a filter of system calls since
         * then, can never ask. It goes by the kernel's two words: otherwise it would go on for ever
         * with a segment that no agentd serves. For want of a descriptor it asks again. */
        if (fd < 0)
                return fd == -ECONNREFUSED || attach_is_forbidden(fd);
        lost = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &len) < 0 ||
               (uint64_t)listener.pid != sb_load_relaxed(&super->supervisor) ||
               attach_is_another(segment, listener.pid);
        close(fd);
        return lost;
}
