/*
 * The private state of a scenario: its threads' handles, what they hold and what they saw.
 *
 * It is larger than all else that an execution may change, and one execution writes little of it.
 * The compiler's callbacks tell of each write, so a part that was not written since the start is
 * neither saved nor put back. A small one is copied whole, for its scenario may be compiled without
 * callbacks. Now and then all parts are compared: what was written unseen ends the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/model/core.h"

#define SMALL         ((size_t)4096)
#define COMPARE_EVERY 256u

struct model_world model_world;

static struct {
        unsigned char *image; /* at the start */
        uint8_t *is_touched;  /* by parts */
        uint32_t *touched;    /* numbers of parts */
        uint32_t touched_count, part_count;
        uint32_t restored; /* so often */
} world;

static size_t part_size(uint32_t part)
{
        size_t left = model_world.size - (size_t)part * WORLD_PART;

        return left < WORLD_PART ? left : WORLD_PART;
}

/* With a length that the compiler knows, for nearly all parts. */
static void part_copy(unsigned char *to, const unsigned char *from, uint32_t part)
{
        size_t size = part_size(part);

        if (size == WORLD_PART)
                memcpy(to, from, WORLD_PART);
        else
                memcpy(to, from, size);
}

static void part_touch(uint32_t part)
{
        if (!world.is_touched[part]) {
                world.is_touched[part] = 1;
                world.touched[world.touched_count++] = part;
        }
}

void model_world_touch(size_t offset, size_t size)
{
        uint32_t part = (uint32_t)(offset / WORLD_PART);

        for (; part < world.part_count && (size_t)part * WORLD_PART < offset + size; part++)
                part_touch(part);
}

void model_world_begin(void *bytes, size_t size)
{
        free(world.image);
        free(world.is_touched);
        free(world.touched);
        model_world = (struct model_world){.bytes = bytes, .size = bytes ? size : 0};
        world.part_count = (uint32_t)((model_world.size + WORLD_PART - 1) / WORLD_PART);
        world.image = malloc(model_world.size + 1);
        world.is_touched = calloc(world.part_count + 1, 1);
        world.touched = calloc(world.part_count + 1, sizeof world.touched[0]);
        world.touched_count = 0;
        if (!world.image || !world.is_touched || !world.touched)
                abort();
        memset(bytes, 0, model_world.size);
}

void model_world_snapshot(void)
{
        memcpy(world.image, model_world.bytes, model_world.size);
        memset(world.is_touched, 0, world.part_count);
        world.touched_count = world.restored = 0;
        if (model_world.size <= SMALL)
                model_world_touch(0, model_world.size);
}

static void world_compare(void)
{
        uint32_t part;

        for (part = 0; part < world.part_count; part++) {
                size_t at = (size_t)part * WORLD_PART;

                if (world.is_touched[part] ||
                        !memcmp(model_world.bytes + at, world.image + at, part_size(part)))
                        continue;
                fprintf(stderr, "model: %s: byte %zu of the private state was written unseen\n",
                        run.scenario->name, at);
                abort();
        }
}

void model_world_restore(void)
{
        uint32_t i;

        if (!(world.restored++ % COMPARE_EVERY))
                world_compare();
        for (i = 0; i < world.touched_count; i++) {
                size_t at = (size_t)world.touched[i] * WORLD_PART;

                part_copy(model_world.bytes + at, world.image + at, world.touched[i]);
                world.is_touched[world.touched[i]] = 0;
        }
        world.touched_count = 0;
        if (model_world.size <= SMALL)
                model_world_touch(0, model_world.size);
}

void model_world_move(struct model_saved *saved)
{
        uint32_t count = world.touched_count, i;

        if (saved->loading)
                model_world_restore();
        model_saved_move(saved, &count, sizeof count);
        for (i = 0; i < count; i++) {
                uint32_t part = saved->loading ? 0 : world.touched[i];
                unsigned char *span, *bytes;

                model_saved_move(saved, &part, sizeof part);
                span = model_saved_span(saved, part_size(part));
                bytes = model_world.bytes + (size_t)part * WORLD_PART;
                part_copy(saved->loading ? bytes : span, saved->loading ? span : bytes, part);
                part_touch(part);
        }
}
