/* Which watches a bus has; see watches.h. */

#include "libclient/core/watches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/core/prefix.h"
#include "shm/layout/reserved.h"
#include "shm/notify/bell.h"

int sb_watches_enter(struct sb_bus *bus, struct sb_watch *watch)
{
        struct sb_watches *watches = &bus->watches;
        uint32_t place = watches->taken;

        while (place < watches->capacity && watches->table[place])
                place++;
        if (place == watches->capacity) {
                uint32_t capacity = watches->capacity ? 2 * watches->capacity : 16;
                struct sb_watch **table =
                        realloc(watches->table, capacity * sizeof(struct sb_watch *));

                if (!table)
                        return -ENOMEM;
                memset(table + watches->capacity, 0,
                        (capacity - watches->capacity) * sizeof(struct sb_watch *));
                watches->table = table;
                watches->capacity = capacity;
        }
        /* From here on a dirty bit leads to it, and from it to the list of its bus. */
        watch->bus = bus;
        watches->table[place] = watch;
        watches->taken = place + 1;
        watch->place = place;
        return 0;
}

void sb_watches_leave(struct sb_bus *bus, const struct sb_watch *watch)
{
        struct sb_watches *watches = &bus->watches;

        watches->table[watch->place] = NULL;
        if (watches->taken > watch->place)
                watches->taken = watch->place;
}

void sb_watches_note(struct sb_watch *watch, bool dirty)
{
        if (watch->dirty == dirty)
                return;
        watch->dirty = dirty;
        if (dirty)
                TAILQ_INSERT_TAIL(&watch->bus->watches.dirty, watch, entry);
        else
                TAILQ_REMOVE(&watch->bus->watches.dirty, watch, entry);
}

void sb_watches_take_bits(struct sb_bus *bus)
{
        const uint32_t bits_all = SB_DIRTY_WORDS * 64;
        uint64_t bits;
        uint32_t word;

        while (sb_bell_take(&bus->handle, &word, &bits))
                for (; bits; bits &= bits - 1) {
                        uint32_t place = word * 64 + (uint32_t)__builtin_ctzll(bits);

                        for (; place < bus->watches.capacity; place += bits_all)
                                if (bus->watches.table[place])
                                        sb_watches_note(bus->watches.table[place], true);
                }
}

/* ---- anchors ---- */

void sb_watches_lend(struct sb_watch *watch)
{
        struct sb_bus *bus = watch->bus;

        /* Two more are for the change itself. Without memory for them it goes on as before. */
        if (watch->op.anchors || watch->op.walked < SB_ANCHOR_WORTH ||
                sb_bus_guards_prepare(bus, SB_ANCHORS + 2) != 0)
                return;
        watch->anchors = (struct sb_anchors){0};
        for (uint32_t level = 0; level < SB_ANCHORS; level++)
                watch->anchors.guards[level] = sb_bus_guard_take(bus);
        watch->op.anchors = &watch->anchors;
}

void sb_watches_take_back(struct sb_watch *watch, bool gone)
{
        if (!watch->op.anchors)
                return;
        if (!gone)
                sb_anchor_drop(&watch->bus->handle, &watch->anchors);
        for (uint32_t level = 0; level < SB_ANCHORS; level++)
                sb_bus_guard_give(watch->bus, watch->anchors.guards[level]);
        watch->op.anchors = NULL;
        watch->op.walked = 0;
}

/* ---- cuts ---- */

bool sb_bus_holds_cut(const struct sb_bus *bus, uint64_t cut)
{
        for (uint32_t place = 0; place < bus->watches.capacity; place++) {
                const struct sb_watch *watch = bus->watches.table[place];

                if (watch && watch->prefix && watch->prefix->begun == cut &&
                        sb_prefix_holds(&bus->handle, &watch->prefix->op))
                        return true;
        }
        return false;
}

bool sb_bus_keeps_cut(
        const struct sb_bus *bus, uint64_t cut, const unsigned char *prefix, uint32_t prefix_len)
{
        /* Of the bus's own keys no watch of a prefix keeps anything. */
        for (uint32_t place = 0;
                place < bus->watches.capacity && !sb_reserved_is(prefix, prefix_len); place++) {
                const struct sb_watch *watch = bus->watches.table[place];

                if (watch && watch->prefix && watch->prefix->begun == cut &&
                        !watch->prefix->earlier && watch->prefix->op.prefix_len <= prefix_len &&
                        memcmp(prefix, watch->prefix->prefix, watch->prefix->op.prefix_len) == 0 &&
                        sb_op_prefix_keeps(&watch->prefix->op, cut))
                        return true;
        }
        return false;
}
