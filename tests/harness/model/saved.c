/*
 * Executions that were saved half way, so that the walk need not begin each one anew: all that an
 * execution may change, as bytes, for some of the choices on the path.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/harness/model/core.h"

/* So many choices lie between one and the next: saving one costs as much as some choices. */
#define APART 6u
#define MOST  1024u

static struct {
        struct model_saved all[MOST];
        uint32_t count;
} saved;

static void saved_put(struct model_saved *to, const void *bytes, size_t size)
{
        if (to->size + size > to->room) {
                to->room = (to->size + size) * 2;
                to->bytes = realloc(to->bytes, to->room);
                if (!to->bytes)
                        abort();
        }
        memcpy(to->bytes + to->size, bytes, size);
        to->size += size;
}

static void saved_take(struct model_saved *from, void *ret, size_t size)
{
        if (from->taken + size > from->size)
                abort();
        memcpy(ret, from->bytes + from->taken, size);
        from->taken += size;
}

void model_saved_move(struct model_saved *saved, void *bytes, size_t size)
{
        if (saved->loading)
                saved_take(saved, bytes, size);
        else
                saved_put(saved, bytes, size);
}

struct model_saved *model_saved_top(void)
{
        struct model_saved *top = saved.count ? &saved.all[saved.count - 1] : NULL;

        if (top) {
                top->taken = 0;
                top->loading = true;
        }
        return top;
}

bool model_saved_due(uint32_t depth)
{
        return saved.count < MOST &&
               (!saved.count || depth >= saved.all[saved.count - 1].depth + APART);
}

struct model_saved *model_saved_push(uint32_t depth)
{
        struct model_saved *top = &saved.all[saved.count++];

        top->size = 0;
        top->loading = false;
        top->depth = depth;
        return top;
}

void model_saved_forget(uint32_t depth)
{
        while (saved.count && saved.all[saved.count - 1].depth >= depth)
                saved.count--;
}
