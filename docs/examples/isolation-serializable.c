/*
 * SB_SERIALIZABLE by an example: the two doctors of isolation-snapshot.c once more.
 *
 * Each may leave as long as the other one stays, and looks first. Both look at once, both see two,
 * both want to leave. Of a serializable transaction all that it read must be at its commit what it
 * was at its cut: the keys that it found, those that it did not find, and the ranges that it
 * scanned. So the first one leaves, and the second is told that the first one's key has changed.
 * Nothing of it happened; it looks again, and now decides otherwise.
 *
 * sb_transact() is that in one call: begin, the function, commit; and again when in conflict.
 */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>

static struct sb_bytes alice = {"oncall/alice", 12}, bob = {"oncall/bob", 10};
static const struct sb_bytes all = {"oncall/", 7}, none = {"", 0};
static struct sb_bus *bus;

static void check(int r)
{
        if (r != 0) {
                fprintf(stderr, "isolation-serializable: %s\n", sb_strerror(r));
                exit(1);
        }
}

/* How many are on call. The transaction notes that it looked at everything that begins so: one more
 * doctor is a change, too. */
static int count(struct sb_txn *txn)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan;
        int r, number = 0;

        check(sb_scan_open(bus, txn, all, &scan));
        while ((r = sb_scan_next(scan, &guard)) == 0) {
                number++;
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        check(r == SB_E_NOT_FOUND ? 0 : r);
        return number;
}

/* What one of them does, as often as it takes: it has no effect but in its transaction. */
static int leave(void *doctor, struct sb_txn *txn)
{
        return count(txn) >= 2 ? sb_txn_delete(txn, *(struct sb_bytes *)doctor) : 0;
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        struct sb_txn *first, *second;
        struct sb_bytes key;
        int r;

        check(sb_open(&options, &bus));
        check(sb_set(bus, alice, none, NULL, NULL));
        check(sb_set(bus, bob, none, NULL, NULL));

        check(sb_txn_begin(bus, SB_SERIALIZABLE, &first)); /* both look before either commits */
        check(sb_txn_begin(bus, SB_SERIALIZABLE, &second));
        check(leave(&alice, first));
        check(leave(&bob, second));
        check(sb_txn_commit(first, NULL));
        r = sb_txn_commit(second, NULL);
        check(r == SB_E_CONFLICT ? 0 : r);
        key = sb_txn_conflict(second); /* its bytes stay until the end */
        printf("conflict: %.*s has changed\n", (int)key.len, (const char *)key.data);
        sb_txn_end(first);
        sb_txn_end(second);

        check(sb_transact(bus, SB_SERIALIZABLE, leave, &bob, NULL)); /* bob stays */
        printf("on call: %d\n", count(NULL));
        sb_close(bus);
        return 0;
}
