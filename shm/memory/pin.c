/* The rare ways of a pin: raising hi, and continuing a dead process's pin; see pin.h. */

#include "shm/memory/pin.h"

#include "shm/base/word.h"
#include "shm/layout/handle.h"

/* Raise hi of a pin that was begun in @lo. */
static void pin_publish_from(struct sb_handle *handle, uint64_t lo, uint64_t hi)
{
        sb_pin_publish(
                handle, hi, hi - lo < SB_PIN_BACK_MAX ? (uint32_t)(hi - lo) : SB_PIN_BACK_MAX);
}

void sb_pin_resume(struct sb_handle *handle)
{
        /* Relaxed: the writer is dead, as the kernel has told this process. */
        uint64_t pin = sb_load_relaxed(&handle->record->pin);
        /* A:era. As in sb_pin(). */
        uint64_t era = sb_load_acquire(&handle->segment.super->era);

        handle->pin.hi = era;
        pin_publish_from(handle, pin ? sb_record_pin_lo(pin) : era, era);
}

void sb_pin_raise(struct sb_handle *handle, uint64_t era)
{
        handle->pin.hi = era;
        /* Relaxed: the owner reads back its own word. */
        pin_publish_from(handle, sb_record_pin_lo(sb_load_relaxed(&handle->record->pin)), era);
}
