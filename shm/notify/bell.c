/* The doorbell of a client; see bell.h. */

#include "shm/notify/bell.h"

#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"

/* ---- the process that changed something ---- */

/* Sets a bit that is not set. Where it is set, the owner has not taken it since what this process
 * changed became visible: it will look behind that. */
static void bell_mark(struct sb_word64 *word, uint64_t bit)
{
        if (!(sb_load_acquire(word) & bit)) /* A:dirty. */
                sb_or_full(word, bit);      /* R:dirty > A:dirty. */
}

/* Whether the sleepers of @count were woken already. Another count than its own says nothing: that
 * of a process which was stopped for 2^31 sleeps would look like a later one, and none would wake
 * the client any more. */
static bool bell_was_rung(struct sb_record *record, uint32_t count)
{
        /* A:bell. The wake came before it was said. */
        return sb_load_acquire(&record->rung) == count + 1 && !SB_FAULT(BELL_ALWAYS);
}

/* Say that the sleepers of @count were woken. Behind a later one that was said: then one more
 * process wakes the client. */
static void bell_say_rung(struct sb_record *record, uint32_t count)
{
        sb_store_release(&record->rung, count + 1); /* R:bell > A:bell. */
}

/* Fault BELL_TAKEN: the flag is taken back by the process that wakes. */
static void bell_fault_take(struct sb_record *record)
{
        /* R:sleeps. */
        if (SB_FAULT(BELL_TAKEN))
                sb_exchange_full(&record->sleeps, 0);
}

static void bell_wake_record(const struct sb_segment *segment, struct sb_record *record)
{
        /* A:sleeps. Behind the full barrier of the bit, or of the change where the bit was set:
         * either this load sees that the owner sleeps, or the owner sees the bit. */
        uint64_t sleeps = sb_load_acquire(&record->sleeps);
        uint32_t count = (uint32_t)sleeps;

        if (!(sleeps & SB_BELL_SLEEPS) || bell_was_rung(record, count))
                return;
        bell_fault_take(record);
        /* R:bell. Failed: another process has counted it on, but perhaps not woken yet. */
        sb_cas32_full(&record->bell, count, count + 1);
        segment->os->wake(segment->os->context, &record->bell);
        bell_say_rung(record, count);
}

void sb_bell_wake(const struct sb_segment *segment, uint32_t slot)
{
        bell_wake_record(segment, sb_record_at(segment, slot));
}

void sb_bell_ring(const struct sb_segment *segment, uint32_t slot, uint32_t bit)
{
        struct sb_record *record = sb_record_at(segment, slot);
        uint32_t word = bit / 64 % SB_DIRTY_WORDS;

        if (SB_FAULT(BELL_BEFORE_BIT))
                bell_wake_record(segment, record);
        /* The bit, then the one that leads to it: an owner that finds the second finds the first.
         */
        bell_mark(&record->dirty[word], UINT64_C(1) << bit % 64);
        bell_mark(&record->dirty_any, UINT64_C(1) << word % 64);
        if (!SB_FAULT(BELL_BEFORE_BIT))
                bell_wake_record(segment, record);
}

/* ---- the owner ---- */

bool sb_bell_take(struct sb_handle *handle, uint32_t *ret_word, uint64_t *ret_bits)
{
        struct sb_record *record = handle->record;
        uint64_t any;

        while ((any = sb_load_acquire(&record->dirty_any)) != 0) { /* A:dirty. */
                uint32_t word = (uint32_t)__builtin_ctzll(any) % SB_DIRTY_WORDS;

                /* R:dirty > A:dirty, both. In this order: a process that sets a bit in between
                 * finds the first word's gone, and sets it again. */
                sb_and_full(&record->dirty_any, ~(any & -any));
                *ret_bits = sb_exchange_full(&record->dirty[word], 0); /* A:dirty. */
                *ret_word = word;
                if (*ret_bits)
                        return true;
        }
        return false;
}

/* The owner says that it sleeps. Return: the count that the bell has meanwhile. */
static uint32_t bell_say_sleeps(struct sb_record *record)
{
        uint32_t count = sb_load_acquire(&record->bell); /* A:bell. Before the look. */

        /* R:sleeps > A:sleeps. An exchange, for its full barrier: the look comes behind it. */
        sb_exchange_full(&record->sleeps, SB_BELL_SLEEPS | count);
        return count;
}

/* Whether there is something to see, so that the owner must not sleep. */
static bool bell_must_look(struct sb_handle *handle, const struct sb_word32 *stop)
{
        return sb_bell_is_dirty(handle) || sb_load_acquire(stop); /* A:stop. */
}

/* Behind a sleep the owner is awake, unless something waits in its place. Then the later count
 * stays: what waits is woken for each count from its own on. Fault BELL_WAKES_UP: it is awake. */
static void bell_say_awake(struct sb_handle *handle)
{
        /* R:sleeps. */
        if (!handle->bell.stands || SB_FAULT(BELL_WAKES_UP))
                sb_store_release(&handle->record->sleeps, 0);
}

int sb_bell_sleep(struct sb_handle *handle, const struct sb_word32 *stop, uint64_t deadline_ns)
{
        const struct sb_os *os = handle->segment.os;
        struct sb_record *record = handle->record;
        uint32_t count = bell_say_sleeps(record);
        int r = 0;

        /* Fault SLEEP_UNASKED: it sleeps without another look. */
        if (SB_FAULT(SLEEP_UNASKED) || !bell_must_look(handle, stop))
                r = os->wait(os->context, &record->bell, count, deadline_ns);
        bell_say_awake(handle);
        return r;
}

bool sb_bell_stand(struct sb_handle *handle, const struct sb_word32 *stop, uint32_t *ret_count)
{
        uint32_t count = bell_say_sleeps(handle->record);

        handle->bell.stands = true;
        /* Fault STAND_UNASKED: something waits without another look. */
        if (!SB_FAULT(STAND_UNASKED) && bell_must_look(handle, stop)) {
                sb_bell_unstand(handle);
                return false;
        }
        *ret_count = count;
        return true;
}

void sb_bell_unstand(struct sb_handle *handle)
{
        handle->bell.stands = false;
        sb_store_release(&handle->record->sleeps, 0); /* R:sleeps. */
}
