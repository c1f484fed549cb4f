/* Transactions: several keys change together or not at all. Money moves between two accounts; what
 * the two isolations let happen is in isolation-snapshot.c and isolation-serializable.c. */
#include <errno.h>
#include <inttypes.h>
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sb_bus *bus;

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "transactions: not as expected: %s\n", what);
                exit(1);
        }
}

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

/* A key's number as the transaction sees it. */
static int read_number(struct sb_txn *txn, const char *key, long *ret)
{
        sb_auto(sb_guard_release) struct sb_guard guard = {0};
        char text[24] = "";
        int r = sb_txn_get(txn, b(key), &guard);

        if (r != 0)
                return r;
        expect(guard.value.len < sizeof(text), "numbers are short");
        memcpy(text, guard.value.data, guard.value.len);
        *ret = atol(text);
        return 0;
}

static int write_number(struct sb_txn *txn, const char *key, long number)
{
        char text[24];

        snprintf(text, sizeof(text), "%ld", number);
        return sb_txn_set(txn, b(key), b(text)); /* copied: visible with the commit */
}

struct move {
        const char *from, *to;
        long amount;
};

/* May run several times: it has no effect but in its transaction. */
static int move(void *argument, struct sb_txn *txn)
{
        const struct move *m = argument;
        long from, to;
        int r = read_number(txn, m->from, &from);

        r = r ? r : read_number(txn, m->to, &to);
        if (r == 0 && from < m->amount)
                return -ERANGE; /* nothing is written, and sb_transact() returns this */
        r = r ? r : write_number(txn, m->from, from - m->amount);
        return r ? r : write_number(txn, m->to, to + m->amount);
}

/* Begin, move(), commit, end; again while another process is faster. */
static void move_money(void)
{
        struct move some = {"alice", "bob", 30}, much = {"alice", "bob", 1000};

        expect(sb_transact(bus, SB_SNAPSHOT, move, &some, NULL) == 0, "30 move");
        expect(sb_transact(bus, SB_SNAPSHOT, move, &much, NULL) == -ERANGE, "1000 are not there");
}

/* Both numbers of one moment. */
static void show_balances(void)
{
        struct sb_txn *txn;
        long alice, bob;

        expect(sb_txn_begin(bus, SB_SNAPSHOT, &txn) == 0, "a transaction");
        expect(sb_txn_cut(txn) > 0, "it reads at a cut");
        expect(read_number(txn, "alice", &alice) == 0 && read_number(txn, "bob", &bob) == 0,
                "both");
        sb_txn_end(txn); /* it wrote nothing, so there is nothing to commit */
        printf("alice %ld, bob %ld\n", alice, bob);
}

/* Several keys with one call, its own writes among them. */
static void read_both(void)
{
        struct sb_bytes keys[] = {b("alice"), b("bob")};
        struct sb_guard guards[2] = {0};
        struct sb_txn *txn;

        expect(sb_txn_begin(bus, SB_SNAPSHOT, &txn) == 0, "a transaction");
        expect(sb_txn_set(txn, b("bob"), b("1")) == 0, "a write");
        expect(sb_txn_get_many(txn, keys, 2, guards) == 0 && guards[1].rev == 0, "not committed");
        for (int i = 0; i < 2; i++)
                sb_guard_release(&guards[i]);
        sb_txn_end(txn); /* and never will be */
}

/* Both keys go at one moment. */
static void close_accounts(void)
{
        struct sb_txn *txn;
        uint64_t cut;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};

        expect(sb_txn_begin(bus, SB_SNAPSHOT, &txn) == 0, "a transaction");
        expect(sb_txn_delete(txn, b("alice")) == 0, "alice has an account");
        expect(sb_txn_delete(txn, b("bob")) == 0, "bob has an account");
        expect(sb_txn_commit(txn, &how) == 0, "no other process wrote");
        expect(cut > sb_txn_cut(txn), "the commit comes after what was read");
        sb_txn_end(txn);
        printf("closed both accounts\n");
}

/* A plain write comes in between: the commit does nothing, and says which key it was. */
static void meet_a_conflict(void)
{
        struct sb_txn *txn;
        struct sb_bytes key;

        expect(sb_txn_begin(bus, SB_SNAPSHOT, &txn) == 0, "a transaction");
        expect(sb_txn_set(txn, b("bob"), b("0")) == 0, "a write");
        expect(sb_set(bus, b("bob"), b("130"), NULL, NULL) == 0, "a faster writer");
        expect(sb_txn_commit(txn, NULL) == SB_E_CONFLICT, "the faster one won");
        key = sb_txn_conflict(txn); /* its bytes stay until the end */
        printf("conflict: %.*s\n", (int)key.len, (const char *)key.data);
        sb_txn_end(txn);
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};

        expect(sb_open(&options, &bus) == 0, "a bus");
        expect(sb_set(bus, b("alice"), b("100"), NULL, NULL) == 0, "alice has 100");
        expect(sb_set(bus, b("bob"), b("100"), NULL, NULL) == 0, "bob has 100");
        move_money();
        show_balances();
        read_both();
        meet_a_conflict();
        close_accounts();
        sb_close(bus);
        return 0;
}
