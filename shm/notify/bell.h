/*
 * The doorbell: how a client sleeps until another process has something for it (models: bell,
 * bells).
 *
 * Each client has one bell and one set of dirty bits, whatever the number of its watches. In its
 * record:
 *
 *      dirty[], dirty_any      a bit for each watch with something to see, and for each word of
 *                              those: set by the process that changed something, taken by the owner
 *      bell                    a count: the word of the futex on which the owner sleeps
 *      sleeps                  0, or SB_BELL_SLEEPS | the count on which the owner sleeps
 *      rung                    1 + a count that sleepers were woken for: no later process wakes
 *                              them again
 *
 * A process that changed something sets the bit, then asks whether the owner sleeps; if it does, it
 * counts the bell on, wakes, and says so in `rung`. The owner that wants to sleep loads the bell,
 * says that it sleeps, and looks at the bits once more before it waits for that count to change.
 * So one of the two sees the other.
 *
 * The owner alone takes back that it sleeps. A process that took it back and was stopped before the
 * wake would keep all later ones from waking. Instead each process wakes, until one of them has
 * said in `rung` that it has. So a client that is stopped in its sleep costs one wake, and then
 * each writer a few loads.
 *
 * Something else may wait in the owner's place, while the owner does other things: a descriptor of
 * an event loop does (libclient/core/fd.h). The owner is said to sleep all that time, so that the
 * next change wakes what waits. A sleep of the owner itself in between takes nothing of that back.
 *
 * Always true: a bit that is set while the owner sleeps is followed by a wake, of the process that
 * set it, or of the one that finds its note (ring.h). No system call is made for a client that does
 * not sleep.
 */
#ifndef SB_NOTIFY_BELL_H
#define SB_NOTIFY_BELL_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/base/word.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"

/* Tell client @slot that there is something to see for its dirty bit @bit. It may be gone: then
 * nothing happens that counts. Cost: mostly two locked instructions and a few loads; a system call
 * when the client sleeps and no process has woken it yet. */
void sb_bell_ring(const struct sb_segment *segment, uint32_t slot, uint32_t bit);
/* Wake client @slot, if it sleeps, without a bit. */
void sb_bell_wake(const struct sb_segment *segment, uint32_t slot);

/* The owner takes the bits of one word. Return: false: there are none. */
bool sb_bell_take(struct sb_handle *handle, uint32_t *ret_word, uint64_t *ret_bits);
/* Whether there are any: one load. */
static inline bool sb_bell_is_dirty(const struct sb_handle *handle)
{
        return sb_load_acquire(&handle->record->dirty_any) != 0; /* A:dirty. */
}

/* The owner sleeps until a bit is set, @stop is not 0, or the deadline (monotonic nanoseconds;
 * UINT64_MAX: none) has passed; it may wake without any of them. Return: 0; -EINTR: a signal came.
 */
int sb_bell_sleep(struct sb_handle *handle, const struct sb_word32 *stop, uint64_t deadline_ns);

/* The owner has something else wait in its place, from now until sb_bell_unstand(). Return: true:
 * it is to wait as long as the bell is *ret_count; false: there is something to see, or @stop is
 * not 0: nothing is to wait. */
bool sb_bell_stand(struct sb_handle *handle, const struct sb_word32 *stop, uint32_t *ret_count);
/* Nothing waits in the owner's place any more. */
void sb_bell_unstand(struct sb_handle *handle);

#endif
