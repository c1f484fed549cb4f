/*
 * An agentd (tests/api/daemon.h) that is traced: each of its processes is known by its role, and
 * stops at its system calls where a test wants it to; there it goes on, or is killed.
 *
 * How it works: the test's process is the tracer, and hears of all its children in one place,
 * traced_hear(). A process that stands goes on when the test says so, or when what the kernel says
 * of it there needs no answer of the test. Clients are children that are not traced.
 *
 * Always true: no process of agentd is left behind traced_kill_all(), or behind the test's process.
 * The first complaint of any process of the test stands.
 */
#ifndef SB_TEST_KILL_TRACED_H
#define SB_TEST_KILL_TRACED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "libclient/statebus.h"
#include "tests/api/daemon.h"

enum role { SUPERVISOR, SCRIBE, ENGINE, LOG, ROLES };

extern struct traced {
        pid_t pid[ROLES];
        uint64_t calls[ROLES];   /* of the processes that have the roles now */
        uint64_t begun[ROLES];   /* how many had them */
        bool steps[ROLES];       /* a process of this role stops at its calls */
        uint64_t call, argument; /* that one is about to make */
        pid_t client;            /* a process that is none of these; 0: none, or it has ended */
        int client_status;
} traced;
extern struct daemon traced_agentd;
extern bool traced_denied;     /* tracing is not permitted here */
extern char *traced_complaint; /* in memory that all processes of the test share; "": none */

#define TRACED_CLIENTS 4u
extern pid_t traced_clients[TRACED_CLIENTS]; /* those that traced_start_client() started; 0: none */

/* What an agentd of these tests is started with; options behind these count. */
#define TRACED_OPTIONS                                                                             \
        "--size", "4M", "--clients", "8", "--durability", "batched", "--checkpoint-bytes", "1M"

/* For main(), before the tests. Return: false: there is no memory. */
bool traced_begin(void);
/* Memory, all zero, that this process and its later children share. Return: NULL: there is none. */
void *traced_share(size_t size);
/* For a test: a place for a new bus, and no complaint. */
void traced_begin_test(void);
__attribute__((format(printf, 1, 2))) void traced_complain(const char *format, ...);
/* In a client: unless @r is 0, complain of @what, and end. */
void traced_must(int r, const char *what);

/* Start agentd. Its first process stands; @stops: each of its processes stops at its calls, but for
 * reads of files. Return: false: traced_denied. */
bool traced_spawn(const char *const *arguments, bool stops);
void traced_go_on(pid_t pid, int signal);
/* Wait for what comes next, no longer than a moment. Return: the role of a process that is about to
 * make a system call, and stands; else ROLES. *ret_any: something came. */
enum role traced_hear(bool *ret_any);
bool traced_is_ready(void);
/* Start agentd, without such stops, and wait until it is ready. Return: whether it is. */
bool traced_serve(const char *const *arguments);
/* No process of agentd goes on: what one begins on the way stands until it is killed. */
void traced_kill_all(void);

/* As a client: attach. */
int traced_open(struct sb_bus **ret);
/* A client does something, and ends, while agentd is traced. Return: whether it did. */
bool traced_have_client(void (*do_it)(void *context), void *context);
/* A client that stays until it is ended. */
void traced_start_client(unsigned number, void (*be)(unsigned number));
void traced_end_client(unsigned number);

/* Where a quick run begins, and how far its points lie apart. */
uint64_t traced_first(uint64_t count, uint64_t *ret_every);

static inline const char *text_of(int r)
{
        return r > 0 ? sb_strerror(r) : strerror(-r);
}

static inline struct sb_bytes bytes_of(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

#endif
