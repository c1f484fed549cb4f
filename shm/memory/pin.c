/* The rare ways of a pin: raising hi, and continuing a dead process's pin; see pin.h. */

#include "shm/memory/pin.h"

#include "shm/base/word.h"
#include "shm/layout/handle.h"

void sb_pin_resume(struct sb_handle *handle)
{
        /* Relaxed: the writer is dead, as the kernel has told this process. */
        uint64_t pin = sb_load_relaxed(&handle->record->pin);
        /* A:era. As in sb_pin(). */
        uint32_t era = sb_load_acquire(&handle->segment.super->era);

        handle->pin.hi = era;
        sb_pin_publish(handle, pin ? pin >> 32 : era, era);
}

void sb_pin_raise(struct sb_handle *handle, uint32_t era)
{
        handle->pin.hi = era;
        /* Relaxed: the owner reads back its own word. */
        sb_pin_publish(handle, sb_load_relaxed(&handle->record->pin) >> 32, era);
}
