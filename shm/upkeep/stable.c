/* The stable cut, and what has to be stamped before it is raised; see stable.h. */

#include "shm/upkeep/stable.h"

#include "shm/base/fault.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/mvcc/note.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/descriptor.h"
#include "shm/mvcc/finish.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/prefix.h"
#include "shm/notify/ring.h"

/* The descriptor that a record notes, or NULL. */
static struct sb_descriptor *stable_descriptor(struct sb_handle *handle, uint64_t at)
{
        return SB_FAULT(STABLE_SKIPS_TXN) ? NULL : sb_descriptor_at(&handle->segment, at);
}

/* What becomes of the keys that notes show. */
struct stable_look {
        uint64_t since; /* the stable cut before: what is stamped up to it was told then */
        sb_stable_visit *visit;
        void *context; /* visit: NULL: watchers are told */
};

/* Its writer may be stopped between the stamp and the telling. What was stamped up to the cut
 * before was told when that was raised: a writer that stays stopped wakes a watcher once. Of its
 * prefixes, the watchers look at the note by themselves. Fault STABLE_UNTOLD: left out. */
static void stable_tell(struct sb_handle *handle, struct sb_node *node, uint64_t stamp,
        const struct stable_look *look)
{
        if (stamp <= look->since || SB_FAULT(STABLE_UNTOLD))
                return;
        sb_ring_tell(handle, node, NULL);
        sb_prefix_wake(handle, node);
}

static void stable_visit(
        struct sb_handle *handle, struct sb_node *node, uint64_t stamp, void *context)
{
        const struct stable_look *look = context;

        if (look->visit)
                look->visit(handle, node, look->context);
        else
                stable_tell(handle, node, stamp, look);
}

/* What a record shows as being written gets its stamp, and is visited. Return: whether it shows
 * something. */
static bool stable_resolve(
        struct sb_handle *handle, struct sb_record *record, struct stable_look *look)
{
        uint64_t at = sb_note_load(handle, record), stamp = 0;
        struct sb_node *node = at ? sb_node_at(&handle->segment, at) : NULL;
        struct sb_descriptor *descriptor;
        struct sb_version *head;
        struct sb_word64 *cell;

        if (at & SB_OPERATION_DESCRIPTOR) {
                descriptor = stable_descriptor(handle, at);
                if (descriptor) {
                        sb_help_resolve(handle, descriptor);
                        sb_finish_each(handle, descriptor, stable_visit, look);
                }
                return true;
        }
        if (!node)
                return false;
        cell = sb_cell_at(&handle->segment, sb_pin_load(handle, &node->cell));
        head = cell ? sb_version_at(&handle->segment, sb_pin_load(handle, cell) & SB_OFFSET_MASK)
                    : NULL;
        /* Only the newest can be unstamped: a successor is installed over what is stamped alone. */
        if (head && head->node == at && SB_SHAPE_KIND(head->shape) != SB_VERSION_PLACEHOLDER)
                stamp = sb_stamp(handle, head);
        /* One that was aborted or is not decided is no change, and its writer has a note, too. */
        stable_visit(handle, node, (int64_t)stamp > 0 ? stamp : 0, look);
        return true;
}

/* The next record to look at: a client that attaches later installs nothing below a cut that was
 * taken before. */
static struct sb_record *stable_next_record(struct sb_roster_walk *walk)
{
        return SB_FAULT(STABLE_SKIPS_NOTES) ? NULL : sb_roster_next(walk);
}

/* Look at the notes of all records. Return: whether one shows something. */
static bool stable_look_at_all(struct sb_handle *handle, struct stable_look *look)
{
        struct sb_roster_walk walk = {.segment = &handle->segment};
        struct sb_record *record;
        bool noted = false;

        sb_pin(handle);
        while ((record = stable_next_record(&walk)))
                /* A:operation. Most show nothing, and where nothing is followed no pin is asked. */
                if (sb_load_acquire(&record->operation))
                        noted |= stable_resolve(handle, record, look);
        sb_unpin(handle);
        return noted;
}

bool sb_stable_raise(struct sb_handle *handle)
{
        struct sb_superblock *super = handle->segment.super;
        struct stable_look look = {.since = sb_load_acquire(&super->stable)}; /* A:stable. */
        uint64_t cut = sb_clock_take_cut(handle), stable;
        bool noted = stable_look_at_all(handle, &look);

        for (;;) {
                stable = sb_load_acquire(&super->stable); /* A:stable. */
                /* R:stable > A:stable. All that is noted below the cut is stamped. */
                if (stable >= cut || sb_cas64_full(&super->stable, stable, cut))
                        return noted;
        }
}

void sb_stable_look(struct sb_handle *handle, sb_stable_visit *visit, void *context)
{
        struct stable_look look = {.visit = visit, .context = context};

        /* Fault LOOK_AT_NO_NOTES: left out. */
        if (!SB_FAULT(LOOK_AT_NO_NOTES))
                (void)stable_look_at_all(handle, &look);
}
