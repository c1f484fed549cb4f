/*
 * The descriptor of a bus: sb_fd(). It is an eventfd, which a waiter (waiter.h) writes when the
 * client's bell is rung, and this side when it finds that there is something to see.
 *
 * It can be read until a call on the bus says that no watch has anything. Then the call says that
 * the owner sleeps, looks once more, and has the waiter wait for the bell. All of that is the
 * process's own: no writer and no engine knows that there is a descriptor.
 *
 * Always true, between two calls on the bus: the descriptor can be read, or the waiter waits, and
 * no watch had anything when it began to.
 */
#ifndef SB_CORE_FD_H
#define SB_CORE_FD_H

#include "libclient/core/bus.h"

struct sb_fd;

/* Make the descriptor of a bus that has none. Return: 0, -errno. */
int sb_fd_new(struct sb_bus *bus);
/* For sb_close(), before the segment goes. @forked: the process is a child of the owner. */
void sb_fd_end(struct sb_bus *bus, bool forked);

/* The bus has one. In this order, where a call found that there is nothing:
 * sb_fd_hear(): it cannot be read any more. Return: whether it could, or nothing waits for the bell
 *      any more: then look at all watches.
 * sb_fd_wait(): where no watch has anything. Return: true: from here on something waits for the
 *      bell, and nothing came meanwhile.
 * sb_fd_show(): in all other cases: it can be read. */
bool sb_fd_hear(struct sb_bus *bus);
bool sb_fd_wait(struct sb_bus *bus);
void sb_fd_show(struct sb_bus *bus);
/* Its number. */
int sb_fd_number(const struct sb_bus *bus);

#endif
