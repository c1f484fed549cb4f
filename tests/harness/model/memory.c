/*
 * Accesses: the region, the store buffers and the ghost state of blocks, and what an access does to
 * them.
 *
 * An atomic access to the region is first a scheduling point and then happens. Under TSO a store
 * without a barrier goes into the buffer of its fibre; a locked store or a fence empties the buffer
 * first. A plain access is not a point and goes to memory at once: the protocols publish plain
 * stores by a locked instruction, which empties the buffer all the same. The region's hash is the
 * exclusive or of a hash for each word; it is brought up to date when a caller asks for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/model/core.h"

#define WORDS (MODEL_REGION_MAX / 8)
#define GRAIN 16u

/* The line of the acquire, release or locked instruction that is made next. */
const char *sb_model_file;
uint32_t sb_model_line;

enum { WORD_TOUCHED = 1, WORD_DIRTY = 2 };
enum { GHOST_NONE = 0, GHOST_FREE = 1, GHOST_ALLOCATED = 2 };

unsigned char model_region_bytes[MODEL_REGION_MAX] __attribute__((aligned(4096)));
static unsigned char image[MODEL_REGION_MAX] __attribute__((aligned(4096))); /* at the start */
static unsigned char hashed[MODEL_REGION_MAX]
        __attribute__((aligned(4096))); /* what region_hash describes */
static uint8_t word_flags[WORDS];
static uint32_t touched[WORDS], touched_count, dirty[WORDS], dirty_count;
static uint64_t region_hash, image_hash;
static uint32_t region_size;
static uint8_t ghost[MODEL_REGION_MAX / GRAIN], ghost_image[MODEL_REGION_MAX / GRAIN];
static bool ghost_changed;

/* ---- the region ---- */

unsigned char *model_region(uint32_t size)
{
        if (size > MODEL_REGION_MAX || size % GRAIN)
                abort();
        region_size = size;
        return model_region_bytes;
}

static uint64_t word_get(const unsigned char *base, uint32_t word)
{
        uint64_t value;

        memcpy(&value, base + word * 8, 8);
        return value;
}

static uint64_t word_hash(uint32_t word, uint64_t value)
{
        uint64_t x = value + (uint64_t)(word + 1) * UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
        x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
        return x ^ x >> 32;
}

uint64_t model_memory_hash(void)
{
        while (dirty_count) {
                uint32_t word = dirty[--dirty_count];
                uint64_t now = word_get(model_region_bytes, word);

                word_flags[word] &= (uint8_t)~WORD_DIRTY;
                region_hash ^= word_hash(word, word_get(hashed, word)) ^ word_hash(word, now);
                memcpy(hashed + word * 8, &now, 8);
        }
        return region_hash;
}

static inline void mark_changed(uint32_t offset, uint32_t size)
{
        uint32_t word, last = (offset + size - 1) / 8;

        for (word = offset / 8; word <= last; word++) {
                if (!(word_flags[word] & WORD_TOUCHED))
                        touched[touched_count++] = word;
                if (!(word_flags[word] & WORD_DIRTY))
                        dirty[dirty_count++] = word;
                word_flags[word] = WORD_TOUCHED | WORD_DIRTY;
        }
}

void model_memory_begin(void)
{
        memset(model_region_bytes, 0, sizeof model_region_bytes);
        memset(ghost, 0, sizeof ghost);
        memset(word_flags, 0, sizeof word_flags);
        touched_count = dirty_count = 0;
        region_size = MODEL_REGION_MAX;
}

void model_memory_snapshot(void)
{
        uint32_t word;

        memcpy(image, model_region_bytes, region_size);
        memcpy(hashed, model_region_bytes, region_size);
        memcpy(ghost_image, ghost, sizeof ghost);
        memset(word_flags, 0, sizeof word_flags);
        touched_count = dirty_count = 0;
        ghost_changed = false;
        image_hash = 0;
        for (word = 0; word < region_size / 8; word++)
                image_hash ^= word_hash(word, word_get(image, word));
        region_hash = image_hash;
}

void model_memory_restore(void)
{
        while (touched_count) {
                uint32_t word = touched[--touched_count];

                word_flags[word] = 0;
                memcpy(model_region_bytes + word * 8, image + word * 8, 8);
                memcpy(hashed + word * 8, image + word * 8, 8);
        }
        dirty_count = 0;
        region_hash = image_hash;
        if (ghost_changed)
                memcpy(ghost, ghost_image, region_size / GRAIN);
        ghost_changed = false;
}

void model_memory_move(struct model_saved *saved)
{
        uint32_t i;

        if (saved->loading)
                model_memory_restore();
        else
                model_memory_hash(); /* so that no word is dirty */
        model_saved_move(saved, &region_hash, sizeof region_hash);
        model_saved_move(saved, &touched_count, sizeof touched_count);
        model_saved_move(saved, touched, touched_count * sizeof touched[0]);
        for (i = 0; i < touched_count; i++) {
                model_saved_move(saved, model_region_bytes + touched[i] * 8, 8);
                memcpy(hashed + touched[i] * 8, model_region_bytes + touched[i] * 8, 8);
                word_flags[touched[i]] = WORD_TOUCHED;
        }
        model_saved_move(saved, &ghost_changed, sizeof ghost_changed);
        if (ghost_changed)
                model_saved_move(saved, ghost, region_size / GRAIN);
}

/* Copies of 4 or 8 bytes, of which the compiler knows the length. */
static inline void bytes_store(uint32_t offset, uint32_t size, uint64_t value)
{
        if (size == 8)
                memcpy(model_region_bytes + offset, &value, 8);
        else if (size == 4)
                memcpy(model_region_bytes + offset, &value, 4);
        else
                memcpy(model_region_bytes + offset, &value, size);
}

static inline uint64_t bytes_load(uint32_t offset, uint32_t size)
{
        uint64_t value = 0;

        if (size == 8)
                memcpy(&value, model_region_bytes + offset, 8);
        else if (size == 4)
                memcpy(&value, model_region_bytes + offset, 4);
        else
                memcpy(&value, model_region_bytes + offset, size);
        return value;
}

void model_memory_store(uint32_t offset, uint32_t size, uint64_t value)
{
        mark_changed(offset, size);
        bytes_store(offset, size, value);
}

uint64_t model_memory_load_word(uint32_t offset, uint32_t size)
{
        return bytes_load(offset, size);
}

/* ---- the fibre that runs ---- */

static inline struct fibre *fibre_running(void)
{
        return run.current < FIBRE_CHECKER ? &run.fibres[run.current] : NULL;
}

static inline bool is_weak(void)
{
        return run.weak && fibre_running();
}

/* ---- ghost state of blocks ---- */

void model_ghost_area(uint64_t offset, uint64_t size)
{
        memset(ghost + offset / GRAIN, GHOST_FREE, size / GRAIN);
        ghost_changed = true;
}

void sb_model_block(uint64_t offset, uint64_t size, int allocated)
{
        uint8_t wanted = allocated ? GHOST_FREE : GHOST_ALLOCATED;
        uint64_t grain;

        if (offset % GRAIN || offset + size > region_size)
                model_fail("a block that cannot be: %lx, %lu bytes", (unsigned long)offset,
                        (unsigned long)size);
        if (run.trace)
                model_trace_line(
                        allocated ? "(allocated)" : "(freed)", (uint32_t)offset, 0, size, " bytes");
        ghost_changed = true;
        if (!allocated && is_weak())
                model_views_freed(run.current, (uint32_t)offset, (uint32_t)size);
        for (grain = offset / GRAIN; grain < (offset + size) / GRAIN; grain++) {
                if (allocated != 2 && ghost[grain] != wanted && ghost[grain] != GHOST_NONE)
                        model_fail(
                                allocated ? "a block is allocated twice: %lx" : "double free: %lx",
                                (unsigned long)offset);
                ghost[grain] = allocated ? GHOST_ALLOCATED : GHOST_FREE;
        }
}

void sb_model_unchecked_begin(void)
{
        if (run.current < FIBRE_COUNT)
                run.fibres[run.current].unchecked++;
}

void sb_model_unchecked_end(void)
{
        if (run.current < FIBRE_COUNT)
                run.fibres[run.current].unchecked--;
}

static void ghost_refuse(uint32_t offset, uint32_t size, const char *what)
{
        if (run.trace)
                model_trace_line(what, offset, 0, size, "");
        model_fail("use after free: %s of %u bytes at %x", what, size, offset);
}

/* ---- store buffers ---- */

void model_buffer_drain_one(uint32_t index)
{
        struct fibre *fibre = &run.fibres[index];
        struct buffered_store first = fibre->buffer[0];

        memmove(fibre->buffer, fibre->buffer + 1, sizeof fibre->buffer - sizeof fibre->buffer[0]);
        fibre->buffered--;
        if (run.trace)
                model_trace_line(
                        "(a buffered store reaches memory)", first.offset, 0, first.value, "");
        model_memory_store(first.offset, first.size, first.value);
}

void model_buffers_drain(uint32_t index)
{
        while (run.fibres[index].buffered)
                model_buffer_drain_one(index);
}

static void own_drain(void)
{
        struct fibre *fibre = fibre_running();

        if (fibre && fibre->buffered)
                model_buffers_drain(run.current);
}

/* A plain access: buffered stores of the same fibre that overlap it reach memory first. */
static inline void own_drain_overlapping(uint32_t offset, uint32_t size)
{
        struct fibre *fibre = fibre_running();
        uint32_t i;

        for (i = 0; fibre && i < fibre->buffered; i++) {
                if (fibre->buffer[i].offset < offset + size &&
                        offset < fibre->buffer[i].offset + fibre->buffer[i].size)
                        own_drain();
        }
}

/* ---- one access ---- */

/* @peek: it may meet a free block. */
static inline void access_check_as(uint32_t offset, uint32_t size, const char *what, bool peek)
{
        uint32_t grain, last = (offset + size - 1) / GRAIN;

        if (run.current >= FIBRE_COUNT)
                return;
        if (++run.steps > run.step_max && run.current < FIBRE_CHECKER)
                model_fail("no progress: %lu accesses and no end", (unsigned long)run.steps);
        if (last * GRAIN >= region_size)
                model_fail("an access outside the segment: %x", offset);
        for (grain = offset / GRAIN; grain <= last; grain++) {
                if (ghost[grain] == GHOST_FREE && !peek && !run.fibres[run.current].unchecked)
                        ghost_refuse(offset, size, what);
        }
}

static inline void access_check(uint32_t offset, uint32_t size, const char *what)
{
        access_check_as(offset, size, what, false);
}

static inline void history_add(uint32_t offset, uint64_t value)
{
        if (run.current < FIBRE_CHECKER) {
                struct fibre *fibre = &run.fibres[run.current];

                fibre->history = model_mix(fibre->history ^ (uint64_t)offset << 32, value + 1);
        }
}

/* Any fibre may look at the one 32-bit word at this offset of a block, also by a CAS that fails,
 * whether the block is free or not: so sweeps and reclaimers find out what a block is. */
static inline bool is_retire_word(uint32_t offset, uint32_t size)
{
        return size == 4 && offset % GRAIN == 4;
}

/* How the access that comes now orders. To be asked before its choice, at which others go on. */
static inline enum model_order order_now(void)
{
        const char *file = sb_model_file;

        if (!run.weak)
                return MODEL_AS_WRITTEN;
        sb_model_file = NULL;
        return file && is_weak() && run.scenario->order ? run.scenario->order(file, sb_model_line)
                                                        : MODEL_AS_WRITTEN;
}

static bool is_ordered(int order, int wanted)
{
        return order == wanted && order_now() == MODEL_AS_WRITTEN;
}

static uint64_t weak_load_at(uint32_t offset, uint32_t size, bool acquire)
{
        uint64_t value = model_views_load(run.current, offset, size, acquire);

        history_add(offset, value);
        if (run.trace)
                model_trace_line("load", offset, 0, value,
                        value == model_memory_load_word(offset, size) ? "" : ", an older value");
        return value;
}

uint64_t model_atomic_load(uint32_t offset, uint32_t size, int order)
{
        bool acquire = is_ordered(order, __ATOMIC_ACQUIRE);
        struct fibre *fibre;
        uint64_t value;
        uint32_t i;

        model_point(offset);
        access_check_as(offset, size, "load", is_retire_word(offset, size));
        fibre = fibre_running();
        if (fibre && run.weak)
                return weak_load_at(offset, size, acquire);
        value = bytes_load(offset, size);
        for (i = fibre ? fibre->buffered : 0; i-- > 0;) {
                if (fibre->buffer[i].offset == offset && fibre->buffer[i].size == size) {
                        value = fibre->buffer[i].value;
                        break;
                }
                if (fibre->buffer[i].offset / 8 == offset / 8) {
                        own_drain();
                        value = model_memory_load_word(offset, size);
                        break;
                }
        }
        history_add(offset, value);
        if (run.trace)
                model_trace_line("load", offset, 0, value, "");
        return value;
}

void model_atomic_store(uint32_t offset, uint32_t size, uint64_t value, int order)
{
        bool release = is_ordered(order, __ATOMIC_RELEASE);
        struct fibre *fibre;

        model_point(offset);
        access_check(offset, size, "store");
        history_add(offset, 3);
        fibre = fibre_running();
        if (run.trace)
                model_trace_line("store", offset, model_memory_load_word(offset, size), value, "");
        if (fibre && run.weak) {
                if (model_views_store(run.current, offset, size, value, release))
                        model_memory_store(offset, size, value);
                else if (run.trace)
                        model_trace_event("(another store is later)", run.current);
                return;
        }
        if (!fibre || !run.scenario->delays || order == __ATOMIC_SEQ_CST) {
                own_drain();
                model_memory_store(offset, size, value);
                return;
        }
        if (fibre->buffered == BUFFER_MAX)
                model_buffer_drain_one(run.current);
        fibre->buffer[fibre->buffered++] =
                (struct buffered_store){.offset = offset, .size = size, .value = value};
}

uint64_t model_atomic_rmw(enum model_rmw what, uint32_t offset, uint32_t size, uint64_t value)
{
        static const char *const names[] = {"exchange", "add", "subtract", "and", "or", "xor"};
        enum model_order order = order_now();
        uint64_t old, new = value;

        model_point(offset);
        access_check(offset, size, names[what]);
        own_drain();
        if (is_weak())
                model_views_locked(run.current, offset, size, order);
        old = bytes_load(offset, size);
        switch (what) {
        case RMW_EXCHANGE:
                break;
        case RMW_ADD:
                new = old + value;
                break;
        case RMW_SUB:
                new = old - value;
                break;
        case RMW_AND:
                new = old &value;
                break;
        case RMW_OR:
                new = old | value;
                break;
        case RMW_XOR:
                new = old ^ value;
                break;
        }
        model_memory_store(offset, size, new);
        history_add(offset, old);
        if (run.trace)
                model_trace_line(
                        names[what], offset, old, model_memory_load_word(offset, size), "");
        return old;
}

/* Return: the old value; the word changes when that is @expected. */
uint64_t model_atomic_cas(uint32_t offset, uint32_t size, uint64_t expected, uint64_t desired)
{
        enum model_order order = order_now();
        uint64_t old;

        model_point(offset);
        own_drain();
        old = bytes_load(offset, size);
        if (is_weak())
                model_views_cas_fails(run.current, offset, size, expected, order, &old);
        access_check_as(
                offset, size, "compare-and-swap", is_retire_word(offset, size) && old != expected);
        history_add(offset, old);
        if (run.trace)
                model_trace_line("cas", offset, old, old == expected ? desired : expected,
                        old == expected ? "" : " FAILED, it is not what was expected");
        if (old != expected)
                return old;
        if (is_weak())
                model_views_locked(run.current, offset, size, order);
        model_memory_store(offset, size, desired);
        return old;
}

void model_atomic_fence(int order)
{
        struct fibre *fibre = fibre_running();

        if (order == __ATOMIC_SEQ_CST && is_weak())
                model_views_fence(run.current);
        if (order != __ATOMIC_SEQ_CST || !fibre || !fibre->buffered)
                return;
        model_point(NO_OFFSET);
        if (run.trace)
                model_trace_event("fence", run.current);
        own_drain();
}

void model_plain_read(uint32_t offset, uint64_t size)
{
        uint32_t at;

        if (!size)
                return;
        access_check(offset, (uint32_t)size, "read");
        if (is_weak())
                model_views_plain(run.current, offset, (uint32_t)size, false);
        own_drain_overlapping(offset, (uint32_t)size);
        for (at = 0; at < size; at += 8)
                history_add(offset + at,
                        bytes_load(offset + at, size - at < 8 ? (uint32_t)size - at : 8));
}

void model_plain_write(uint32_t offset, uint64_t size)
{
        if (!size)
                return;
        access_check(offset, (uint32_t)size, "write");
        if (is_weak())
                model_views_plain(run.current, offset, (uint32_t)size, true);
        own_drain_overlapping(offset, (uint32_t)size);
        mark_changed(offset, (uint32_t)size);
        if (run.trace)
                model_trace_line("plain write", offset, 0, size, " (bytes)");
}

/* ---- for scenarios ---- */

void model_note(uint32_t index, uint64_t value)
{
        run.notes[index] = value;
        if (is_weak())
                model_views_note(run.current, index, true);
}

uint64_t model_noted(uint32_t index)
{
        history_add(0xffffff00u + index, run.notes[index]);
        if (is_weak())
                model_views_note(run.current, index, false);
        return run.notes[index];
}

void model_touch(const void *pointer, size_t len)
{
        uint32_t offset;

        model_point(NO_OFFSET);
        if (model_region_has(pointer, &offset))
                model_plain_read(offset, len);
}

static uint64_t os_now(void *context)
{
        (void)context;
        return 1000000;
}

static void os_membarrier(void *context)
{
        uint32_t i;

        (void)context;
        model_point(NO_OFFSET);
        for (i = 0; i < FIBRE_CHECKER; i++)
                model_buffers_drain(i);
        if (is_weak())
                model_views_membarrier();
        history_add(0xfffffe00u, 0);
        if (run.trace)
                model_trace_event("membarrier", run.current);
}

static void os_pause(void *context, uint64_t ns)
{
        (void)context;
        (void)ns;
        model_yield();
}

/* No other process goes on meanwhile. */
static void os_spin(void *context, uint32_t turns)
{
        (void)context, (void)turns;
}

/* As the kernel does it: no other fibre comes in between the look at the word and the sleep. */
static int os_wait(void *context, struct sb_word32 *word, uint32_t expected, uint64_t deadline_ns)
{
        uint32_t offset;
        uint64_t value;

        (void)context;
        (void)deadline_ns;
        if (!model_region_has(word, &offset))
                model_fail("a wait for a word outside");
        model_point(offset);
        own_drain();
        value = model_memory_load_word(offset, 4);
        history_add(offset, value);
        if (run.trace)
                model_trace_line("wait", offset, 0, value, "");
        if (value == expected)
                model_sleep(offset);
        return 0;
}

static void os_wake(void *context, struct sb_word32 *word)
{
        uint32_t offset;

        (void)context;
        if (!model_region_has(word, &offset))
                model_fail("a wake for a word outside");
        model_point(offset);
        own_drain();
        model_wake(offset);
        if (run.trace)
                model_trace_event("wakes", run.current);
}

const struct sb_os model_os = {.wait = os_wait,
        .wake = os_wake,
        .now_ns = os_now,
        .realtime_ns = os_now,
        .membarrier = os_membarrier,
        .pause = os_pause,
        .spin = os_spin};
