/*
 * A small bus in this process with two handles, and no other process: no engine sweeps or reaps
 * unless the test does.
 */
#ifndef SB_TEST_UNIT_BUS_H
#define SB_TEST_UNIT_BUS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/hash.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/work.h"
#include "tests/harness/test.h"

static struct sb_handle writer, reader;

/* Spaces of handles, until the bus is unmade; what no handle touches costs nothing. */
static unsigned char unit_spaces[64 << 20] __attribute__((aligned(64)));
static uint64_t unit_spaces_used;

static inline void make_handle(struct sb_handle *handle, const struct sb_segment *segment,
        uint32_t slot, uint32_t generation)
{
        uint64_t at = unit_spaces_used;

        unit_spaces_used += (sb_handle_space(&segment->geometry) + 63) & ~UINT64_C(63);
        if (unit_spaces_used > sizeof(unit_spaces))
                abort();
        sb_handle_init(handle, segment, slot, generation, unit_spaces + at);
}

#define UNIT_PAGE 4096u

static inline bool make_bus_of(const struct sb_geometry_wish *wish)
{
        struct sb_roster_identity identity = {.pid = 1};
        uint64_t id[2] = {1, 2};
        struct sb_geometry geometry;
        struct sb_segment segment;
        uint32_t slot, generation;
        void *base;

        if (sb_geometry_fit(wish, &geometry))
                return false;
        /* Behind it no byte can be read: what goes beyond its end ends the test. */
        base = mmap(NULL, geometry.size + UNIT_PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED || mprotect(base, geometry.size, PROT_READ | PROT_WRITE) ||
                sb_os_register())
                return false;
        sb_segment_format(base, &geometry, 7, id, 1);
        if (sb_segment_open(base, geometry.size, &sb_os_linux, &segment) ||
                sb_roster_claim(&segment, 1, &identity, &slot, &generation))
                return false;
        unit_spaces_used = 0;
        make_handle(&writer, &segment, slot, generation);
        if (sb_roster_claim(&segment, 1, &identity, &slot, &generation))
                return false;
        make_handle(&reader, &segment, slot, generation);
        return true;
}

static inline bool make_bus_for(uint64_t size, uint32_t clients)
{
        struct sb_geometry_wish wish = {.size = size, .clients = clients};

        return make_bus_of(&wish);
}

static inline bool make_bus(uint64_t size)
{
        return make_bus_for(size, 2);
}

static inline void unmake_bus(void)
{
        munmap(writer.segment.base, writer.segment.geometry.size + UNIT_PAGE);
}

/* What lies in memory that is freed goes once no client is pinned: none is between two calls. */
static inline bool is_pinned(void)
{
        return sb_load_relaxed(&writer.record->pin) || sb_load_relaxed(&reader.record->pin);
}

static inline int put(
        struct sb_handle *handle, const char *key, const void *value, uint64_t value_len)
{
        struct sb_op_write write = {.key = key,
                .key_len = (uint32_t)strlen(key),
                .value = value,
                .value_len = value_len,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        return sb_op_write(handle, &write, &result);
}

static inline int delete (struct sb_handle *handle, const char *key)
{
        struct sb_op_write write = {.key = key,
                .key_len = (uint32_t)strlen(key),
                .kind = SB_VERSION_DELETED,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        return sb_op_write(handle, &write, &result);
}

/* From now on these records are in use, whether or not a client has them. */
static inline void list_records(uint32_t first, uint32_t end)
{
        for (uint32_t slot = first; slot < end; slot++)
                sb_or_full(&writer.segment.super->roster[slot / 64], UINT64_C(1) << (slot % 64));
}

/* The same for a writer that has time, as sb_set() has until its deadline: it takes part in sweeps,
 * and goes on after as long a rest as there is between those that free nothing. */
__attribute__((unused)) static int put_patiently(
        struct sb_handle *handle, const char *key, const void *value, uint64_t value_len)
{
        int r = put(handle, key, value, value_len);

        for (uint32_t rest = 0; r == SB_E_FULL && rest <= 64; rest += !sb_work_slice(handle))
                r = put(handle, key, value, value_len);
        return r;
}

/* Not inlined, because with a constant key the compiler warns of what xxHash would do with longer
 * keys. */
__attribute__((noipa, unused)) static struct sb_version *find(const char *key)
{
        uint32_t len = (uint32_t)strlen(key);

        return sb_find_newest(&reader, key, len, sb_hash_key(key, len, reader.segment.seed));
}

/* How many versions the key's chain has. */
__attribute__((unused)) static uint32_t chain_len(const char *key)
{
        const struct sb_version *version;
        uint32_t count = 0;

        sb_pin(&reader);
        for (version = find(key); version; count++)
                version = sb_version_at(
                        &reader.segment, sb_pin_load(&reader, &version->prev) & SB_OFFSET_MASK);
        sb_unpin(&reader);
        return count;
}

#endif
