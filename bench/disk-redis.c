/*
 * Redis, with an append-only file: appendfsync always where it waits, else everysec. The server is
 * the benchmark's own, on a socket in the folder.
 *
 * Always true: only this one server is ever signalled, by its pidfd.
 */
#define _GNU_SOURCE
#include "bench/disk.h"

#ifdef BENCH_REDIS
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"

#define TRIES 2000u /* of a millisecond each, until the server listens */

struct server {
        char directory[300], socket[320];
        pid_t pid;
        int pidfd;
};

struct access {
        redisContext *connection;
        uint32_t pipeline, queued;
};

static void server_become(const struct server *server, bool waits, pid_t parent)
{
        int nowhere = open("/dev/null", O_RDWR);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        if (getppid() == parent)
                execl(BENCH_REDIS_SERVER, "redis-server", "--port", "0", "--unixsocket",
                        server->socket, "--dir", server->directory, "--save", "", "--appendonly",
                        "yes", "--appendfsync", waits ? "always" : "everysec", (char *)NULL);
        _exit(127);
}

static void redis_end(void *store)
{
        struct server *server = store;

        (void)pidfd_send_signal(server->pidfd, SIGKILL, NULL, 0);
        (void)waitpid(server->pid, NULL, 0);
        close(server->pidfd);
        free(server);
}

static void *redis_begin(const char *directory, const struct disk_way *way)
{
        struct server *server = calloc(1, sizeof(*server));
        pid_t parent = getpid();

        if (!server)
                return NULL;
        snprintf(server->directory, sizeof(server->directory), "%s/redis-%s", directory,
                way->waits ? "always" : "everysec");
        snprintf(server->socket, sizeof(server->socket), "%s/socket", server->directory);
        (void)mkdir(server->directory, 0700);
        unlink(server->socket);
        fflush(stdout);
        server->pid = fork();
        if (!server->pid)
                server_become(server, way->waits, parent);
        server->pidfd = server->pid > 0 ? pidfd_open(server->pid, 0) : -1;
        for (uint32_t i = 0; i < TRIES && server->pidfd >= 0; i++) {
                redisContext *connection = redisConnectUnix(server->socket);
                redisReply *reply = NULL;

                if (connection && !connection->err)
                        reply = redisCommand(connection, "FLUSHALL");
                if (connection)
                        redisFree(connection);
                if (reply && reply->type == REDIS_REPLY_STATUS) {
                        freeReplyObject(reply);
                        return server;
                }
                if (reply)
                        freeReplyObject(reply);
                usleep(1000);
        }
        if (server->pidfd >= 0)
                redis_end(server);
        return NULL;
}

static void *redis_open(void *store, const struct disk_way *way)
{
        const struct server *server = store;
        struct access *access = calloc(1, sizeof(*access));

        if (!access)
                return NULL;
        access->pipeline = way->pipeline;
        access->connection = redisConnectUnix(server->socket);
        if (access->connection && !access->connection->err)
                return access;
        free(access);
        return NULL;
}

static int64_t redis_set(
        void *opened, const char *key, size_t key_len, const void *value, size_t value_len)
{
        struct access *access = opened;
        const char *words[] = {"SET", key, value};
        const size_t lengths[] = {3, key_len, value_len};
        int64_t answered = access->pipeline;
        redisReply *reply;

        if (redisAppendCommandArgv(access->connection, 3, words, lengths) != REDIS_OK)
                return -1;
        if (++access->queued < access->pipeline)
                return 0;
        for (; access->queued; access->queued--) {
                if (redisGetReply(access->connection, (void **)&reply) != REDIS_OK)
                        return -1;
                if (reply->type != REDIS_REPLY_STATUS)
                        answered = -1;
                freeReplyObject(reply);
        }
        return answered;
}

static void redis_close(void *opened)
{
        struct access *access = opened;

        redisFree(access->connection);
        free(access);
}

static int64_t redis_get(void *opened, const char *key, size_t key_len)
{
        struct access *access = opened;
        redisReply *reply = redisCommand(access->connection, "GET %b", key, key_len);
        int64_t len = -1;

        if (reply && reply->type == REDIS_REPLY_STRING) {
                bench_use(bench_consume((const unsigned char *)reply->str, (uint32_t)reply->len));
                len = (int64_t)reply->len;
        }
        if (reply)
                freeReplyObject(reply);
        return len;
}

const struct disk_peer *const disk_redis = &(const struct disk_peer){
        redis_begin, redis_open, redis_set, redis_close, redis_end, redis_get, NULL, false};
#else
const struct disk_peer *const disk_redis = NULL;
#endif
