/*
 * The checked mode: which thread is in which call of a bus.
 *
 * With STATEBUS_CHECKED=1 in the environment, three mistakes end the program with a line on
 * standard error, which names the call: a call while another thread is in a call of the same bus; a
 * call in a child of fork(); and a call on a bus that was closed. Without it they are what they
 * are: the first may break the bus's private lists, the second is SB_E_DETACHED, the third reads
 * freed memory.
 *
 * Each public call says SB_USE() or SB_USE_END() first (tests/tidy looks). A bus that is checked
 * has SB_BUS_CHECKED in its `alive` word, so that the short ways leave it to the long ones, and do
 * not ask themselves.
 *
 * Always true: while a thread is in a call of a checked bus, it holds the bus's mutex, calls within
 * that call included. No thread ever waits for it.
 */
#ifndef SB_USE_H
#define SB_USE_H

#include <stdbool.h>

/* What a checked bus has in addition: struct sb_bus, `use`. */
struct sb_use;

/* Whether the environment asks for checks. */
bool sb_use_wanted(void);
/* Make what a bus needs for them, which the calling thread opens. Return: NULL: no memory. */
struct sb_use *sb_use_new(void);

/* The bus was closed; and its last guard was released. What is left of it stays, for a call that
 * comes after all. */
void sb_use_close(struct sb_use *use);
void sb_use_end(struct sb_use *use);
/* A copy of a guard that was released is released: not on a bus that is over. @use may be NULL. */
void sb_use_stale(const struct sb_use *use);

/* The calling thread begins @call. @forked: the process is a child of the one that opened the bus;
 * there it may make a call that @ends something, and no other. Return: NULL: there is nothing to
 * leave: the bus is not checked (@use is NULL), or the thread is in a call of it already. */
struct sb_use *sb_use_enter(struct sb_use *use, bool forked, const char *call, bool ends);
/* Leave a call; NULL is fine. */
void sb_use_leave(struct sb_use *use);
static inline void sb_use_leavep(struct sb_use **use)
{
        sb_use_leave(*use);
}

/* At the beginning of a public call, in a file that knows struct sb_bus: when @bus (which may be
 * NULL) is checked, and the thread is in no call of it yet, make the same call, @again, as a
 * checked one. Costs one comparison. */
#define SB_USE_AS(bus, call, ends, again)                                                          \
        do {                                                                                       \
                const struct sb_bus *use_bus = (bus);                                              \
                                                                                                   \
                /* Relaxed: as in sb_bus_detached(). */                                            \
                if (use_bus && SB_UNLIKELY(sb_load_relaxed(use_bus->alive) != SB_BUS_ALIVE)) {     \
                        sb_auto(sb_use_leavep) struct sb_use *use_here =                           \
                                sb_use_enter(use_bus->use, sb_load_relaxed(use_bus->alive) == 0,   \
                                        (call), (ends));                                           \
                                                                                                   \
                        if (use_here)                                                              \
                                return again;                                                      \
                }                                                                                  \
        } while (0)
#define SB_USE(bus, again) SB_USE_AS(bus, __func__, false, again)
/* The same for a call that ends something. */
#define SB_USE_END(bus, again) SB_USE_AS(bus, __func__, true, again)

#endif
