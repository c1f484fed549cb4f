/*
 * Validation: whether what a serializable transaction has read is what it was at its cut (models:
 * txn). The read set lies in the descriptor, as ranges of keys, some of one key alone. Of each key
 * in a range the newest committed version must be in the cut.
 *
 * Validation only looks. When it finds another transaction's undecided intent in the way, it hands
 * that to its caller, which helps the other transaction (help.h) and calls again: the look goes on
 * at the key where it stopped.
 *
 * Always true: a key that was looked at needs no second look. Validation begins when all of
 * the transaction's intents are in and the stamp is taken; so what another transaction installs
 * behind this look has a stamp that is not below it, and that transaction's own validation meets
 * these intents.
 */
#ifndef SB_MVCC_VALIDATE_H
#define SB_MVCC_VALIDATE_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/mvcc/descriptor.h"

enum sb_verdict {
        SB_VERDICT_VALID,     /* all of it is what it was */
        SB_VERDICT_CHANGED,   /* range number `range` is not */
        SB_VERDICT_IN_THE_WAY /* `met` belongs to a transaction that is not decided */
};
struct sb_validation {
        const struct sb_descriptor *commit;
        const unsigned char *at, *end; /* packed ranges that are not looked through yet */
        uint32_t range;                /* number of the first of them */
        uint32_t range_count;          /* of all; so many at most, as they are packed */
        struct sb_node *node;          /* in it: where the look goes on; NULL: at its beginning */
        struct sb_version *met;
};

/* Begin to validate what @descriptor has read, which is in its @lists. The pin under which this is
 * called must last until the verdict: *ret names blocks that only this pin protects. */
void sb_validate_begin(const struct sb_descriptor *descriptor,
        const struct sb_descriptor_lists *lists, struct sb_validation *ret);
/* Go on until there is a verdict. After SB_VERDICT_IN_THE_WAY, bring the transaction of `met` to
 * its end and call again. */
enum sb_verdict sb_validate(struct sb_handle *handle, struct sb_validation *validation);

#endif
