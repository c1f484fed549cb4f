/*
 * Views: what a fibre may read where memory is ordered as C11 orders it, by acquire and release,
 * and no more (struct model_scenario, `weak`).
 *
 * Each grain of four bytes has its messages, the values that were stored there, in modification
 * order. Memory holds the latest. A fibre counts its accesses, and knows for each fibre up to which
 * of its accesses all comes before its own next one ("happens before"). A load may read each
 * message that is not behind one that a known access read or wrote. A release store hands on what
 * its fibre knows, an acquire load takes it over. A locked instruction, a fence and a membarrier
 * hand on through one place for all, as full barriers do.
 *
 * Plain bytes have no old values: an access to them that is not ordered with another one's, of
 * which one is a write, is a data race, and that is a violation.
 *
 * What is left out: a load that sees a store which its own fibre's later store made possible (load
 * buffering), and what a compiler moves over a plain access or a relaxed one.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/harness/model/core.h"

#define GRAIN        4u
#define GRAINS       (MODEL_REGION_MAX / GRAIN)
#define ACTORS       FIBRE_CHECKER
#define MESSAGES_MAX (1u << 16)
#define START        ACTORS /* the writer of what was there at the start */
#define OLDER_MAX    8u     /* a load reaches back so far at the most */

/* For each fibre, the number of one of its accesses. */
struct known {
        uint16_t of[ACTORS];
};

struct message {
        uint32_t value;  /* of the latest one: in memory */
        uint32_t older;  /* its number; 0: none */
        uint16_t access; /* its writer's */
        uint8_t writer;
        bool locked, plain;
        struct known first;   /* access that read or wrote it; 0: none */
        struct known carries; /* for a fibre that acquires it */
};

struct cell {
        uint32_t grain, latest;
        struct known wrote, read; /* last accesses; of those that read, the plain ones */
        uint64_t hash;
};

static struct {
        uint32_t cell_count, message_count; /* the numbers from 1 on */
        uint64_t hash;
        struct known knows[ACTORS];    /* orders its next access behind these */
        struct known acquired[ACTORS]; /* will be known at its next fence */
        struct known fenced[ACTORS]; /* was known at its last fence: what a relaxed store carries */
        struct known barrier;        /* what full barriers hand on */
        struct known noted[MODEL_NOTES];
} views;
static struct cell cells[GRAINS + 1];
static struct message messages[MESSAGES_MAX];
static uint32_t cell_of[GRAINS];

static void join(struct known *known, const struct known *more)
{
        uint32_t i;

        for (i = 0; i < ACTORS; i++)
                if (known->of[i] < more->of[i])
                        known->of[i] = more->of[i];
}

static bool is_within(const struct known *accesses, const struct known *known)
{
        uint32_t i;

        for (i = 0; i < ACTORS; i++)
                if (accesses->of[i] > known->of[i])
                        return false;
        return true;
}

static uint64_t known_hash(uint64_t hash, const struct known *known)
{
        uint32_t i;

        for (i = 0; i < ACTORS; i++)
                hash = model_mix(hash, known->of[i]);
        return hash;
}

/* ---- cells and their messages ---- */

static uint32_t message_new(uint32_t writer, uint32_t access)
{
        struct message *message = &messages[++views.message_count];

        if (views.message_count + 1 >= MESSAGES_MAX)
                abort();
        *message = (struct message){.writer = (uint8_t)writer, .access = (uint16_t)access};
        return views.message_count;
}

static struct cell *cell_at(uint32_t grain)
{
        struct cell *cell;

        if (!cell_of[grain]) {
                cell_of[grain] = ++views.cell_count;
                cell = &cells[views.cell_count];
                *cell = (struct cell){.grain = grain, .latest = message_new(START, 0)};
        }
        return &cells[cell_of[grain]];
}

static void cell_rehash(struct cell *cell)
{
        uint64_t hash = model_mix(0, cell->grain);
        uint32_t at;

        for (at = cell->latest; at; at = messages[at].older)
                hash = model_mix(hash, (uint64_t)messages[at].writer << 32 | messages[at].access);
        views.hash ^= cell->hash ^ hash;
        cell->hash = hash;
}

/* The message that @back others of the cell are later than; 0: there is none. */
static uint32_t message_back(const struct cell *cell, uint32_t back)
{
        uint32_t at;

        for (at = cell->latest; at && back; back--)
                at = messages[at].older;
        return at;
}

/* Whether an access that comes before @me's next one read or wrote this message. */
static bool is_known(uint32_t at, uint32_t me)
{
        uint32_t i;

        for (i = 0; i < ACTORS; i++)
                if (messages[at].first.of[i] && messages[at].first.of[i] <= views.knows[me].of[i])
                        return true;
        return messages[at].writer == START && !messages[at].older;
}

/* Whether the messages at @back of two neighbours are the halves of one store. */
static bool is_one_store(uint32_t lower, uint32_t upper)
{
        return messages[lower].writer == messages[upper].writer &&
               messages[lower].access == messages[upper].access;
}

/* How many messages @me may read in a word of @grains grains: this one, or so many back. */
static uint32_t readable(uint32_t grain, uint32_t grains, uint32_t me)
{
        uint32_t at[2] = {cell_at(grain)->latest, grains == 2 ? cell_at(grain + 1)->latest : 0};
        uint32_t count;

        for (count = 1; count < OLDER_MAX; count++) {
                if (is_known(at[0], me) || (grains == 2 && is_known(at[1], me)))
                        break;
                at[0] = messages[at[0]].older;
                at[1] = grains == 2 ? messages[at[1]].older : 0;
                if (!at[0] || (grains == 2 && (!at[1] || !is_one_store(at[0], at[1]))))
                        break;
        }
        return count;
}

/* How many places in the modification order @me's next store may take: the last, or so many
 * earlier. None lies between a locked instruction and what it read. */
static uint32_t writable(uint32_t grain, uint32_t grains, uint32_t me)
{
        uint32_t count = readable(grain, grains, me), back, i;

        for (back = 1; back < count; back++)
                for (i = 0; i < grains; i++)
                        if (messages[message_back(cell_at(grain + i), back - 1)].locked)
                                return back;
        return count;
}

static uint32_t message_value(const struct cell *cell, uint32_t at)
{
        return at == cell->latest ? (uint32_t)model_memory_load_word(cell->grain * GRAIN, GRAIN)
                                  : messages[at].value;
}

static uint64_t value_back(uint32_t grain, uint32_t grains, uint32_t back)
{
        const struct cell *cell = cell_at(grain);
        uint64_t value = message_value(cell, message_back(cell, back));

        if (grains == 2) {
                cell = cell_at(grain + 1);
                value |= (uint64_t)message_value(cell, message_back(cell, back)) << 32;
        }
        return value;
}

/* The new message of @me, with @back others later than it. Memory is the caller's. */
static struct message *message_put(struct cell *cell, uint32_t me, uint32_t back, uint32_t value)
{
        uint32_t new = message_new(me, views.knows[me].of[me]);
        uint32_t later = back ? message_back(cell, back - 1) : 0;

        messages[cell->latest].value = message_value(cell, cell->latest);
        messages[new].value = value;
        messages[new].older = later ? messages[later].older : cell->latest;
        messages[new].first.of[me] = views.knows[me].of[me];
        if (later)
                messages[later].older = new;
        else
                cell->latest = new;
        cell->wrote.of[me] = views.knows[me].of[me];
        cell_rehash(cell);
        return &messages[new];
}

/* @me, in its present access, reads a message. */
static void message_read(uint32_t at, uint32_t me, bool acquire)
{
        if (!messages[at].first.of[me])
                messages[at].first.of[me] = views.knows[me].of[me];
        join(&views.acquired[me], &messages[at].carries);
        if (acquire)
                join(&views.knows[me], &messages[at].carries);
        run.fibres[me].history = model_mix(
                run.fibres[me].history, (uint64_t)messages[at].writer << 32 | messages[at].access);
}

static void knows_noted(uint32_t me)
{
        run.fibres[me].history = known_hash(run.fibres[me].history, &views.knows[me]);
}

/* ---- accesses ---- */

static void race(const char *what, uint32_t offset, uint32_t size)
{
        if (run.trace)
                model_trace_line(what, offset, 0, size, " bytes: a data race");
        model_fail("data race: %s of %u bytes at %x", what, size, offset);
}

static bool is_ordered(const struct known *accesses, uint32_t me)
{
        return run.fibres[me].unchecked || is_within(accesses, &views.knows[me]);
}

uint64_t model_views_load(uint32_t me, uint32_t offset, uint32_t size, bool acquire)
{
        uint32_t grain = offset / GRAIN, grains = size / GRAIN, back, i;
        uint64_t value;

        back = model_choose_older(readable(grain, grains, me));
        views.knows[me].of[me]++;
        value = value_back(grain, grains, back);
        for (i = 0; i < grains; i++)
                message_read(message_back(cell_at(grain + i), back), me, acquire);
        knows_noted(me);
        return value;
}

bool model_views_store(uint32_t me, uint32_t offset, uint32_t size, uint64_t value, bool release)
{
        uint32_t grain = offset / GRAIN, grains = size / GRAIN, back, i;

        back = model_choose_older(writable(grain, grains, me));
        views.knows[me].of[me]++;
        for (i = 0; i < grains; i++) {
                struct cell *cell = cell_at(grain + i);

                if (!is_ordered(&cell->read, me))
                        race("store", offset, size);
                message_put(cell, me, back, (uint32_t)(value >> 32 * i))->carries =
                        release ? views.knows[me] : views.fenced[me];
        }
        knows_noted(me);
        return !back;
}

void model_views_fence(uint32_t me)
{
        join(&views.knows[me], &views.acquired[me]);
        join(&views.knows[me], &views.barrier);
        views.barrier = views.fenced[me] = views.knows[me];
        knows_noted(me);
}

void model_views_locked(uint32_t me, uint32_t offset, uint32_t size, enum model_order order)
{
        uint32_t grain = offset / GRAIN, grains = size / GRAIN, i;

        if (order == MODEL_AS_WRITTEN)
                model_views_fence(me);
        views.knows[me].of[me]++;
        for (i = 0; i < grains; i++)
                message_read(cell_at(grain + i)->latest, me, order != MODEL_RELAXED);
        if (order == MODEL_AS_WRITTEN)
                model_views_fence(me);
        for (i = 0; i < grains; i++) {
                struct cell *cell = cell_at(grain + i);
                struct known carries = messages[cell->latest].carries;
                struct message *message;

                if (!is_ordered(&cell->read, me))
                        race("locked instruction", offset, size);
                message = message_put(cell, me, 0, 0);
                join(&carries, order == MODEL_RELAXED ? &views.fenced[me] : &views.knows[me]);
                message->carries = carries;
                message->locked = true;
        }
        knows_noted(me);
}

bool model_views_cas_fails(uint32_t me, uint32_t offset, uint32_t size, uint64_t expected,
        enum model_order order, uint64_t *ret_value)
{
        uint32_t grain = offset / GRAIN, grains = size / GRAIN, count, back, i, way = 0;
        uint32_t ways[OLDER_MAX];

        count = readable(grain, grains, me);
        for (back = 0; back < count; back++)
                if (!back || value_back(grain, grains, back) != expected)
                        ways[way++] = back;
        back = ways[model_choose_older(way)];
        *ret_value = value_back(grain, grains, back);
        if (*ret_value == expected)
                return false;
        views.knows[me].of[me]++;
        for (i = 0; i < grains; i++)
                message_read(message_back(cell_at(grain + i), back), me, order != MODEL_RELAXED);
        knows_noted(me);
        return true;
}

void model_views_plain(uint32_t me, uint32_t offset, uint32_t size, bool write)
{
        uint32_t grain, last = (offset + size - 1) / GRAIN;

        views.knows[me].of[me]++;
        for (grain = offset / GRAIN; grain <= last; grain++) {
                struct cell *cell = cell_at(grain);

                if (!is_ordered(&cell->wrote, me) || (write && !is_ordered(&cell->read, me)))
                        race(write ? "write" : "read", offset, size);
                if (!write) {
                        if (!run.fibres[me].unchecked)
                                cell->read.of[me] = views.knows[me].of[me];
                        continue;
                }
                if (messages[cell->latest].plain && messages[cell->latest].writer == me)
                        cell->wrote.of[me] = views.knows[me].of[me];
                else
                        message_put(cell, me, 0, 0)->plain = true;
        }
}

void model_views_freed(uint32_t me, uint32_t offset, uint32_t size)
{
        uint32_t grain;

        for (grain = offset / GRAIN; grain < (offset + size) / GRAIN; grain++)
                if (cell_of[grain] && !is_ordered(&cell_at(grain)->read, me))
                        race("free", offset, size);
}

void model_views_membarrier(void)
{
        uint32_t i;

        for (i = 0; i < ACTORS; i++) {
                join(&views.barrier, &views.knows[i]);
                join(&views.barrier, &views.acquired[i]);
        }
        for (i = 0; i < ACTORS; i++) {
                views.knows[i] = views.fenced[i] = views.barrier;
                knows_noted(i);
        }
}

void model_views_note(uint32_t me, uint32_t index, bool write)
{
        views.hash ^= known_hash(index + 1, &views.noted[index]);
        if (write)
                join(&views.noted[index], &views.knows[me]);
        else
                join(&views.knows[me], &views.noted[index]);
        views.hash ^= known_hash(index + 1, &views.noted[index]);
        knows_noted(me);
}

void model_views_begin_behind(uint32_t me, uint32_t dead)
{
        join(&views.knows[me], &views.knows[dead]);
        join(&views.knows[me], &views.barrier);
}

/* ---- executions ---- */

void model_views_restore(void)
{
        while (views.cell_count)
                cell_of[cells[views.cell_count--].grain] = 0;
        memset(&views, 0, sizeof views);
}

void model_views_move(struct model_saved *saved)
{
        uint32_t i;

        if (saved->loading)
                model_views_restore();
        model_saved_move(saved, &views, sizeof views);
        model_saved_move(saved, cells + 1, views.cell_count * sizeof cells[0]);
        model_saved_move(saved, messages + 1, views.message_count * sizeof messages[0]);
        for (i = 1; i <= views.cell_count; i++)
                cell_of[cells[i].grain] = i;
}

uint64_t model_views_hash(void)
{
        return known_hash(views.hash, &views.barrier);
}
