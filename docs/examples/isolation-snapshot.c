/*
 * SB_SNAPSHOT by an example: what it lets happen, and what not.
 *
 * Two doctors are on call, a key each. One of them may leave as long as the other stays, so each
 * looks first. When both look at once, both see two, and both leave: each wrote another key, and
 * snapshot isolation asks only whether another one wrote what this one writes. That is write
 * skew, and no doctor is on call. The same with SB_SERIALIZABLE: isolation-serializable.c.
 *
 * A key that every decision by the same rule writes makes it a conflict here, too: the second part.
 */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>

static const struct sb_bytes alice = {"oncall/alice", 12}, bob = {"oncall/bob", 10};
static const struct sb_bytes all = {"oncall/", 7}, roster = {"roster", 6}, none = {"", 0};
static struct sb_bus *bus;

static void check(int r)
{
        if (r != 0) {
                fprintf(stderr, "isolation-snapshot: %s\n", sb_strerror(r));
                exit(1);
        }
}

/* How many are on call: at the transaction's cut, or now. */
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

/* A doctor looks, and leaves if another one stays. */
static struct sb_txn *leave(struct sb_bytes doctor, int write_roster)
{
        struct sb_txn *txn;

        check(sb_txn_begin(bus, SB_SNAPSHOT, &txn));
        if (count(txn) >= 2)
                check(sb_txn_delete(txn, doctor));
        if (write_roster)
                check(sb_txn_set(txn, roster, doctor));
        return txn;
}

static void both_leave(int write_roster)
{
        struct sb_txn *first, *second;
        struct sb_bytes key;
        int r;

        check(sb_set(bus, alice, none, NULL, NULL));
        check(sb_set(bus, bob, none, NULL, NULL));
        first = leave(alice, write_roster); /* both look before either commits */
        second = leave(bob, write_roster);
        check(sb_txn_commit(first, NULL));
        r = sb_txn_commit(second, NULL);
        key = sb_txn_conflict(second); /* its bytes stay until the end */
        if (r == SB_E_CONFLICT)
                printf("conflict: another one wrote %.*s\n", (int)key.len, (const char *)key.data);
        else
                check(r);
        sb_txn_end(first);
        sb_txn_end(second);
        printf("on call: %d\n", count(NULL));
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};

        check(sb_open(&options, &bus));
        both_leave(0); /* no key was written by both: no doctor is on call */
        both_leave(1); /* both write `roster`: one of them is in conflict */
        sb_close(bus);
        return 0;
}
