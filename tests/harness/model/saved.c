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

static unsigned char *saved_put(struct model_saved *to, size_t size)
{
        size_t at = to->size;

        if (at + size > to->room) {
                to->room = (at + size) * 2;
                to->bytes = realloc(to->bytes, to->room);
                if (!to->bytes)
                        abort();
        }
        to->size += size;
        return to->bytes + at;
}

static unsigned char *saved_take(struct model_saved *from, size_t size)
{
        size_t at = from->taken;

        if (at + size > from->size)
                abort();
        from->taken += size;
        return from->bytes + at;
}

unsigned char *model_saved_span(struct model_saved *saved, size_t size)
{
        return saved->loading ? saved_take(saved, size) : saved_put(saved, size);
}

void model_saved_move(struct model_saved *saved, void *bytes, size_t size)
{
        unsigned char *span = model_saved_span(saved, size);

        if (saved->loading)
                memcpy(bytes, span, size);
        else
                memcpy(span, bytes, size);
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
