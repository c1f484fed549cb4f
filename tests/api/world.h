/*
 * A bus for API tests, of the kind that the environment asks for, so that one suite runs over all
 * of them: SB_API_WORLD=segment (the default: in this process, on 4 KiB pages), huge (the same on 2
 * MiB pages; SB_HUGE_PAGES: there are enough, so that it is a failure when none are free), agentd
 * (a real one, named by $STATEBUS_AGENTD, on a directory of its own), durable (the same with a log,
 * which copies the bus again and again).
 *
 * In the background of the first two nothing reaps or sweeps unless the test calls world_tick():
 * what the API promises, it promises with the engine stopped.
 */
#ifndef SB_TEST_WORLD_H
#define SB_TEST_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/statebus.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

struct world {
        struct sb_segment segment; /* not for agentd */
        struct sb_geometry geometry;
        struct sb_handle *engine; /* record 0; not for agentd */
        void *base;
        uint32_t cursor;
        uint64_t size;
        uint32_t clients;
        bool remote;
        char directory[64];
};

/* Open a world. @size in bytes, more where agentd needs more; @clients besides the engine. Return:
 * NULL, or why this machine cannot have one (for TEST_SKIP). */
const char *world_open(struct world *world, uint64_t size, uint32_t clients);
/* Whether worlds have a log; for tests of what a bus without one alone does. */
bool world_has_log(void);
#define WORLD_WITHOUT_LOG()                                                                        \
        do {                                                                                       \
                if (world_has_log())                                                               \
                        TEST_SKIP("the bus has a log");                                            \
        } while (0)
/* Close it. Return: whether the validator found it sound (all buses are closed), and no process of
 * an agentd crashed. */
bool world_close(struct world *world);
/* Close it without a look at it; not for agentd. */
void world_drop(struct world *world);
/* End all of an agentd that has a log, by SIGKILL, and start it again: @bus, which is open, and all
 * others say SB_E_DETACHED from now on. Return: whether it serves the bus again. */
bool world_restart(struct world *world, struct sb_bus *bus);
/* Open one more bus. Return: NULL when that failed. */
struct sb_bus *world_bus(struct world *world);
/* Do what an engine does every few milliseconds. */
void world_tick(struct world *world);
/* Has the client, and the engine, take out what no cut and no rule needs: a remote engine in its
 * own time, of which it gets 30 milliseconds. */
void world_prune(struct world *world, struct sb_bus *bus);
/* Whether the validator finds nothing wrong while buses are open and idle. */
bool world_sound(struct world *world, struct sb_bus *bus);

/* Begin a test on a bus of @size bytes, and end it with a sound bus, in a file with `world` and
 * `bus`. */
#define WORLD_BEGIN(size)                                                                          \
        do {                                                                                       \
                const char *why = world_open(&world, (size), 8);                                   \
                if (why)                                                                           \
                        TEST_SKIP(why);                                                            \
                bus = world_bus(&world);                                                           \
                CHECK(bus);                                                                        \
        } while (0)
#define WORLD_END()                                                                                \
        do {                                                                                       \
                CHECK(world_sound(&world, bus));                                                   \
                bus = sb_close(bus);                                                               \
                CHECK(!bus);                                                                       \
                CHECK(world_close(&world));                                                        \
        } while (0)

/* A string as bytes. */
struct sb_bytes b(const char *text);
/* CLOCK_MONOTONIC. */
uint64_t now_ns(void);
/* Whether a key has exactly this value now. */
bool has(struct sb_bus *bus, const char *key, const char *value);

#endif
