/* Anchors; see anchor.h. */

#include "ring/op/anchor.h"

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"

static_assert((SB_ANCHOR_STEP & (SB_ANCHOR_STEP - 1)) == 0, "a power of two");

void sb_anchor_note(struct sb_descent *descent, uint64_t at, uint64_t rev)
{
        uint64_t every = SB_ANCHOR_STEP;

        for (uint32_t level = 0; level < SB_ANCHORS && descent->steps % every == 0; level++) {
                descent->passed[level][0] = descent->passed[level][1];
                descent->passed[level][1] = (struct sb_anchor){.at = at, .rev = rev};
                every *= SB_ANCHOR_STEP;
        }
}

static void anchor_set(struct sb_handle *handle, struct sb_anchors *anchors, uint32_t level,
        struct sb_anchor anchor)
{
        anchors->each[level] = anchor;
        if (!SB_FAULT(ANCHOR_UNHELD))
                sb_guard_set(handle, anchors->guards[level], anchor.at);
}

void sb_anchor_keep(
        struct sb_handle *handle, struct sb_anchors *anchors, const struct sb_descent *descent)
{
        for (uint32_t level = 0; level < SB_ANCHORS; level++)
                if (descent->passed[level][0].at)
                        anchor_set(handle, anchors, level, descent->passed[level][0]);
}

/* Whether the version was in its chain when its link was loaded, under the pin of now. Fault
 * ANCHOR_UNASKED: it is not asked. */
static bool anchor_is_linked(struct sb_handle *handle, const struct sb_version *version)
{
        return !(sb_pin_load(handle, &version->prev) & SB_PREV_MARKED) || SB_FAULT(ANCHOR_UNASKED);
}

struct sb_version *sb_anchor_find(
        struct sb_handle *handle, struct sb_anchors *anchors, uint64_t want)
{
        for (uint32_t level = 0; level < SB_ANCHORS; level++) {
                struct sb_anchor anchor = anchors->each[level];
                struct sb_version *version = sb_version_at(&handle->segment, anchor.at);

                if (!anchor.at)
                        continue;
                if (anchor.rev >= want && version && anchor_is_linked(handle, version))
                        return version;
                anchor_set(handle, anchors, level, (struct sb_anchor){0});
        }
        return NULL;
}

void sb_anchor_drop(struct sb_handle *handle, struct sb_anchors *anchors)
{
        for (uint32_t level = 0; level < SB_ANCHORS; level++)
                anchor_set(handle, anchors, level, (struct sb_anchor){0});
}
