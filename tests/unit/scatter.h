/*
 * A bus on which versions lie scattered: single ones in units all over it, so that a large value
 * finds room only where some of them move. Each key has bytes of its own, by which it is known that
 * it is what it was set to.
 */
#ifndef SB_TEST_UNIT_SCATTER_H
#define SB_TEST_UNIT_SCATTER_H

#include "shm/layout/block.h"
#include "shm/layout/report.h"
#include "shm/layout/segment.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/window.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/work.h"
#include "tests/unit/bus.h"
#include "tests/unit/draw.h"
#include "tests/unit/units.h"

#define KEYS_MAX 4000u
#define TINY     8u /* bytes of a value that lies with its like, low down */

static uint32_t limit; /* the units from here on are a reserve */
static struct {
        uint64_t rev;
        uint32_t len; /* of the value */
} keys[KEYS_MAX];
static uint32_t key_count;
static unsigned char bytes[4 << 20];

static inline bool begin(uint64_t size, uint32_t unit_size)
{
        struct sb_geometry_wish wish = {.size = size,
                .clients = 3,
                .unit_size = unit_size,
                .magazine_count = SB_MAGAZINE_NONE};

        draw_state = size ^ unit_size;
        key_count = 0;
        if (!make_bus_of(&wish))
                return false;
        limit = writer.segment.geometry.unit_count - writer.segment.geometry.reserve_count;
        return true;
}

static inline const char *key_of(uint32_t i)
{
        static char text[16];

        snprintf(text, sizeof(text), "k%05u", i);
        return text;
}

/* Key @i gets a value of @len bytes, which are all the same. */
static inline int set(uint32_t i, uint32_t len)
{
        struct sb_op_write write = {.key = key_of(i),
                .key_len = 6,
                .value = bytes,
                .value_len = len,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;
        int r;

        memset(bytes, 'a' + (int)(i % 26), len);
        r = sb_op_write(&writer, &write, &result);
        if (!r) {
                keys[i].rev = result.rev;
                keys[i].len = len;
        }
        return r;
}

static inline bool is_sound(void)
{
        struct sb_check_report report;

        sb_work_all(&writer, true);
        sb_work_all(&writer, true);
        sb_slab_release_all(&writer);
        if (sb_check(&writer, true, &report))
                return false;
        for (uint32_t i = 0; i < report.problem_count && i < 8; i++)
                TEST_NOTE("%s", report.problems[i]);
        return !report.problem_count;
}

/* A key's newest version; no other process works. */
static inline struct sb_version *look(const char *key)
{
        struct sb_version *version;

        sb_pin(&reader);
        version = find(key);
        sb_unpin(&reader);
        return version;
}

/* Whether all keys are what they were set to. */
static inline bool all_there(void)
{
        bool right = true;

        for (uint32_t i = 0; i < key_count && right; i++) {
                struct sb_version *version = look(key_of(i));

                right = version && version->rev == keys[i].rev &&
                        SB_SHAPE_VALUE_LEN(version->shape) == keys[i].len &&
                        (!keys[i].len ||
                                (version->bytes[6] == 'a' + i % 26 &&
                                        version->bytes[6 + keys[i].len - 1] == 'a' + i % 26));
        }
        return right;
}

/* Keys are made, with tiny values; then they get values of @len bytes, until the bus is full; then
 * all but each @apart-th get tiny ones again. So nodes lie low down, and single versions all over
 * the rest. */
static inline bool scatter(uint32_t len, uint32_t apart)
{
        uint32_t unit_size = writer.segment.geometry.unit_size, grown = 0;
        uint32_t room = len < unit_size ? limit * (unit_size / (len + 64)) : limit / 2 + 1;

        for (key_count = 0; key_count < KEYS_MAX && key_count < room; key_count++)
                if (set(key_count, TINY))
                        break;
        while (grown < key_count && !set(grown, len))
                grown++;
        if (grown == key_count || grown < 40)
                return false;
        for (uint32_t i = 0; i < grown; i++)
                if (i % apart && set(i, TINY))
                        return false;
        for (uint32_t i = 0; i < 3; i++)
                sb_work_all(&writer, true);
        sb_slab_release_all(&writer);
        return true;
}

/* Wait for a block, as a write does. Return: where it begins, or 0. */
static inline uint64_t wait_for_block(enum sb_unit_kind kind, uint64_t size)
{
        uint64_t offset = 0;

        sb_window_begin(&writer);
        for (uint32_t rest = 0; rest < 200; rest += !sb_work_slice(&writer))
                if (!sb_slab_take(&writer, kind, size, 0, &offset))
                        break;
        sb_window_end(&writer);
        return offset;
}

/* The same for a run of @count units. */
static inline uint64_t wait_for(uint32_t count)
{
        return wait_for_block(
                SB_UNIT_VERSIONS, (uint64_t)count * writer.segment.geometry.unit_size);
}

static inline uint32_t unit_of(const struct sb_version *version)
{
        return sb_unit_of(&writer.segment, sb_offset_of(&writer.segment, version));
}

#endif
