/*
 * Validation: whether what a serializable transaction has read is what it was at its cut (models:
 * txn).
 *
 * It only looks. What it finds in the way, another transaction's undecided intent, it gives to its
 * caller, which helps that transaction (help.h) and calls again: the look goes on where it stopped.
 */
#ifndef SB_MVCC_VALIDATE_H
#define SB_MVCC_VALIDATE_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"

enum sb_verdict {
        SB_VERDICT_VALID,     /* all of it is what it was */
        SB_VERDICT_CHANGED,   /* range number `range` is not */
        SB_VERDICT_IN_THE_WAY /* `met` belongs to a transaction that is not decided */
};
struct sb_validation {
        const struct sb_commit *commit;
        const unsigned char *at, *end; /* packed ranges that are not looked through yet */
        uint32_t range;                /* number of the first of them */
        struct sb_node *node;          /* in it: where the look goes on; NULL: at its beginning */
        struct sb_version *met;
};

/* Begin to validate what @commit has read; not under a pin of another life than sb_validate(). */
void sb_validate_begin(const struct sb_commit *commit, struct sb_validation *ret);
/* Go on until there is a verdict. All calls for one validation are made under one pin. */
enum sb_verdict sb_validate(struct sb_peer *peer, struct sb_validation *validation);

#endif
