/*
 * An agentd to test: the program at $AGENTD, run on a bus of its own in a fresh directory, and
 * clients of it.
 */
#ifndef SB_TEST_DAEMON_H
#define SB_TEST_DAEMON_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libclient/core/attach.h"
#include "ring/attach/place.h"
#include "shm/layout/handle.h"

struct daemon {
        struct sb_place place;
        pid_t pid;
        int out;
        char said[16384]; /* its standard output and standard error, so far */
        size_t len;
};

/* Two handles, which are too large for the stack. */
extern struct sb_handle daemon_handle, daemon_other;
extern char daemon_home[64]; /* the directory of all buses of this run */

/* For main(): daemon_begin() goes before the tests and returns false when there is nothing to test.
 * daemon_end() goes behind them and returns @status, or 1 when it cannot clean up. */
bool daemon_begin(void);
int daemon_end(int status);

uint64_t daemon_now_ns(void);
/* How long WAIT waits: twenty seconds, or SB_API_PATIENCE_MS, where agentd is broken on purpose. */
uint64_t daemon_patience_ns(void);
void daemon_rest(void);
/* Wait until @condition holds, but not for ever. Return: whether it held when it was last
 * evaluated. It is not evaluated again, so a condition that may come and go needs another way to
 * wait. */
#define WAIT(condition)                                                                            \
        ({                                                                                         \
                uint64_t wait_end_ = daemon_now_ns() + daemon_patience_ns();                       \
                bool wait_holds_;                                                                  \
                while (!(wait_holds_ = (condition)) && daemon_now_ns() < wait_end_)                \
                        daemon_rest();                                                             \
                wait_holds_;                                                                       \
        })

/* A directory for a new bus. */
void daemon_place(struct sb_place *ret);
/* Run agentd with @arguments (NULL at the end) on daemon->place, with no more than daemon_files
 * descriptors unless that is 0, and after daemon_prepare() unless that is NULL. A log it has where
 * the arguments, or daemon_durability, ask for one. */
extern unsigned daemon_files;
extern const char *daemon_durability; /* "volatile"; NULL: what agentd has of its own */
extern int (*daemon_prepare)(void);   /* in the process that becomes agentd. Return: 0, -1 */
void daemon_spawn(struct daemon *daemon, const char *const *arguments);
#define SPAWN(daemon, ...)                                                                         \
        daemon_spawn((daemon), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
/* Read its output until @word is there. Return: whether @word came. */
bool daemon_hear(struct daemon *daemon, const char *word);
/* Read the output that is there, without waiting; of much output, the last part is kept. */
void daemon_hear_more(struct daemon *daemon);
/* Start agentd on a new bus with 4 MiB and 16 records, and wait until it is ready. */
bool daemon_start(struct daemon *daemon);
/* Wait for it to end. Return: its exit status; 128 + signal; -1: it did not end. */
int daemon_ended(struct daemon *daemon);
int daemon_stop(struct daemon *daemon);

pid_t daemon_engine(const struct sb_attachment *attachment);
int daemon_attach(
        const struct daemon *daemon, struct sb_attachment *ret, struct sb_handle *ret_handle);
void daemon_detach(struct sb_attachment *attachment, struct sb_handle *handle);
/* How many records are in use. */
unsigned daemon_attached(const struct sb_attachment *attachment);
int daemon_set(struct sb_handle *writer, const char *key, const char *value);
bool daemon_has(struct sb_handle *reader, const char *key, const char *value);
/* Start a process that attaches @count times, then stays until it is killed. *ret_result: the
 * result of attaching. */
pid_t daemon_child(const struct daemon *daemon, unsigned count, int *ret_result);
#define DAEMON_KILLED (128 + SIGKILL)
/* End a child, unless it has ended. Return: DAEMON_KILLED; or how it had ended by itself: its exit
 * status, or 128 + signal. -1: it is no child. */
int daemon_end_child(pid_t pid);

#endif
