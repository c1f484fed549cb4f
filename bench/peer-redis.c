/*
 * The contender "redis": Redis, where it is installed. The server is the benchmark's own, listens
 * on a socket in a folder of its own, and keeps nothing on disk. Each operation is one blocking
 * round trip, as in programs that share state by Redis. The gets that other contenders do at once
 * go out together, and their answers are read one after the other.
 *
 * The server runs where the scheduler puts it, at the workers' priority.
 *
 * Always true: only this one server is ever signalled. It is signalled by its pidfd, so that no
 * later process with the same pid is hit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"

#define FILL_AT_ONCE 1000u /* sets on their way while the store is filled */

struct store {
        char directory[64];
        char socket[96];
        pid_t pid;
        int pidfd;
        FILE *messages; /* open while the server runs: it must not get SIGPIPE */
};

/* Become the server. Does not return. */
static void server_become(const struct store *store, int messages, pid_t parent)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpriority(PRIO_PROCESS, 0, -20); /* as for the workers */
        dup2(messages, STDOUT_FILENO);
        dup2(messages, STDERR_FILENO);
        if (getppid() == parent)
                execl(BENCH_REDIS_SERVER, "redis-server", "--port", "0", "--unixsocket",
                        store->socket, "--unixsocketperm", "700", "--dir", store->directory,
                        "--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel",
                        "notice", (char *)NULL);
        _exit(127);
}

/* Start the server, and return when it says that it is ready. Return: 0, -errno. */
static int server_start(struct store *store)
{
        char line[256] = "nothing";
        pid_t parent = getpid();
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        store->messages = fdopen(ends[0], "r");
        store->pid = fork();
        if (store->pid == 0)
                server_become(store, ends[1], parent);
        close(ends[1]);
        if (store->pid < 0 || !store->messages)
                return -ENOMEM;
        store->pidfd = pidfd_open(store->pid, 0);
        if (store->pidfd < 0)
                return -errno;
        while (fgets(line, sizeof(line), store->messages))
                if (strstr(line, "ready to accept connections"))
                        return 0;
        line[strcspn(line, "\r\n")] = 0;
        fprintf(stderr, "bench-keys: %s ended before it was ready, and said: %s\n",
                BENCH_REDIS_SERVER, line);
        return -ECONNREFUSED;
}

/* Read the next answer. Return: whether it is the value or, for a write, whether the write was
 * done. */
static uint32_t answer_take(
        redisContext *connection, bool is_write, uint32_t value_len, uint64_t *sum)
{
        redisReply *reply;
        uint32_t done = 0;

        if (redisGetReply(connection, (void **)&reply) != REDIS_OK)
                return 0;
        if (is_write) {
                done = reply->type == REDIS_REPLY_STATUS;
        } else if (reply->type == REDIS_REPLY_STRING && reply->len == value_len) {
                *sum += bench_consume((const unsigned char *)reply->str, value_len);
                done = 1;
        }
        freeReplyObject(reply);
        return done;
}

static int set_append(redisContext *connection, const struct bench_key *key,
        const unsigned char *value, uint32_t value_len)
{
        const char *words[] = {"SET", (const char *)key->bytes, (const char *)value};
        const size_t lengths[] = {3, key->len, value_len};

        return redisAppendCommandArgv(connection, 3, words, lengths);
}

static int get_append(redisContext *connection, const struct bench_key *key)
{
        const char *words[] = {"GET", (const char *)key->bytes};
        const size_t lengths[] = {3, key->len};

        return redisAppendCommandArgv(connection, 2, words, lengths);
}

static int fill(redisContext *connection, const struct bench_shape *shape)
{
        unsigned char value[1024];
        struct bench_key key;
        uint64_t sum;

        for (uint32_t i = 0, answered = 0; answered < shape->key_count;) {
                for (; i < shape->key_count && i - answered < FILL_AT_ONCE; i++) {
                        bench_key_write(i, &key);
                        memset(value, (int)i & 0xff, shape->value_len);
                        if (set_append(connection, &key, value, shape->value_len) != REDIS_OK)
                                return -EIO;
                }
                for (; answered < i; answered++)
                        if (!answer_take(connection, true, 0, &sum))
                                return -EIO;
        }
        return 0;
}

static int redis_attach(void *opaque, uint32_t index, void **ret_handle)
{
        const struct store *store = opaque;
        redisContext *connection = redisConnectUnix(store->socket);

        (void)index;
        if (!connection)
                return -ENOMEM;
        if (connection->err) {
                redisFree(connection);
                return -ECONNREFUSED;
        }
        *ret_handle = connection;
        return 0;
}

static void redis_detach(void *handle)
{
        redisFree(handle);
}

static int redis_create(const struct bench_shape *shape, void **ret_store)
{
        struct store *store = calloc(1, sizeof(*store));
        void *connection;
        int r;

        if (!store)
                return -ENOMEM;
        store->pidfd = -1;
        *ret_store = store;
        strcpy(store->directory, "/tmp/statebus-bench-XXXXXX");
        if (!mkdtemp(store->directory)) {
                store->directory[0] = 0;
                return -errno;
        }
        snprintf(store->socket, sizeof(store->socket), "%s/redis", store->directory);
        r = server_start(store);
        if (!r)
                r = redis_attach(store, 0, &connection);
        if (!r) {
                r = fill(connection, shape);
                redis_detach(connection);
        }
        return r;
}

static void redis_destroy(void *opaque)
{
        struct store *store = opaque;

        if (store->pidfd >= 0) {
                pidfd_send_signal(store->pidfd, SIGTERM, NULL, 0);
                waitpid(store->pid, NULL, 0); /* fails when its end was seen already */
                close(store->pidfd);
        }
        if (store->messages)
                fclose(store->messages);
        if (store->directory[0]) {
                unlink(store->socket); /* the server has removed it, as a rule */
                if (rmdir(store->directory) < 0)
                        fprintf(stderr, "bench-keys: %s is left behind\n", store->directory);
        }
        free(store);
}

/* Send a command of @count words. Return: whether it could be sent. */
static bool say(
        redisContext *connection, int count, const char *const *words, const size_t *lengths)
{
        return redisAppendCommandArgv(
                       connection, count, (const char **)(uintptr_t)words, lengths) == REDIS_OK;
}

/* Read the next answer. Return: NULL: there was none. */
static redisReply *hear(redisContext *connection)
{
        redisReply *reply;

        return redisGetReply(connection, (void **)&reply) == REDIS_OK ? reply : NULL;
}

/* Read a balance from the next answer. The whole value is copied to @bytes. */
static bool hear_balance(
        redisContext *connection, uint32_t value_len, unsigned char *bytes, uint64_t *ret)
{
        redisReply *reply = hear(connection);
        bool right = reply && reply->type == REDIS_REPLY_STRING && reply->len == value_len;

        if (right) {
                memcpy(bytes, reply->str, value_len);
                memcpy(ret, bytes, sizeof(*ret));
        }
        freeReplyObject(reply);
        return right;
}

/* Two round trips: WATCH and both GETs, then MULTI, both SETs and EXEC. Return: 1: moved; 0:
 * another client was first; -1: an unexpected answer. */
static int transfer_once(redisContext *connection, const struct bench_batch *batch, uint32_t i)
{
        const struct bench_key *keys = &batch->keys[2 * i];
        const char *watch[] = {"WATCH", (const char *)keys[0].bytes, (const char *)keys[1].bytes};
        static const char *const multi[] = {"MULTI"}, *const exec[] = {"EXEC"};
        const size_t five[] = {5, keys[0].len, keys[1].len}, four[] = {4};
        unsigned char values[2][1024];
        uint64_t balances[2] = {0, 0};
        redisReply *reply = NULL;
        bool right;
        int moved = -1;

        if (!say(connection, 3, watch, five) || get_append(connection, &keys[0]) != REDIS_OK ||
                get_append(connection, &keys[1]) != REDIS_OK)
                return -1;
        reply = hear(connection);
        right = reply && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        for (uint32_t k = 0; k < 2; k++)
                right = hear_balance(connection, batch->value_len, values[k], &balances[k]) &&
                        right;
        balances[0]--;
        balances[1]++;
        right = right && say(connection, 1, multi, five);
        for (uint32_t k = 0; k < 2; k++) {
                memcpy(values[k], &balances[k], sizeof(balances[k]));
                right = right &&
                        set_append(connection, &keys[k], values[k], batch->value_len) == REDIS_OK;
        }
        if (!right || !say(connection, 1, exec, four))
                return -1;
        for (uint32_t k = 0; k < 3; k++)
                freeReplyObject(hear(connection)); /* OK, QUEUED, QUEUED: EXEC reports if not */
        reply = hear(connection);
        if (reply && reply->type == REDIS_REPLY_NIL)
                moved = 0;
        else if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
                moved = 1;
        freeReplyObject(reply);
        return moved;
}

static uint32_t transfer_all(redisContext *connection, const struct bench_batch *batch)
{
        uint32_t done = 0;

        while (done < batch->count) {
                int moved = transfer_once(connection, batch, done);

                if (moved < 0)
                        break;
                done += (uint32_t)moved;
                *batch->conflicts += !moved;
        }
        return done;
}

static uint32_t redis_run(void *connection, const struct bench_batch *batch)
{
        uint32_t at_once = batch->op == BENCH_GET_MANY ? BENCH_MANY : 1, done = 0;
        uint64_t sum = 0;

        if (batch->op == BENCH_TRANSFER)
                return transfer_all(connection, batch);
        for (uint32_t i = 0; i < batch->count; i += at_once) {
                bool is_write = batch->op == BENCH_MIX && batch->is_write[i];
                int r = REDIS_OK;

                for (uint32_t k = i; k < i + at_once && r == REDIS_OK; k++)
                        r = is_write ? set_append(connection, &batch->keys[k], batch->value,
                                               batch->value_len)
                                     : get_append(connection, &batch->keys[k]);
                for (uint32_t k = 0; k < at_once && r == REDIS_OK; k++)
                        done += answer_take(connection, is_write, batch->value_len, &sum);
        }
        bench_use(sum);
        return done;
}

const struct bench_peer bench_redis = {
        .name = "redis",
        .ops = 1u << BENCH_GET | 1u << BENCH_GET_MANY | 1u << BENCH_MIX | 1u << BENCH_TRANSFER,
        .is_server = true,
        .create = redis_create,
        .attach = redis_attach,
        .run = redis_run,
        .detach = redis_detach,
        .destroy = redis_destroy,
};
