/* Money that moves, and must not get lost; see bank.h. */
#include "tests/storm/bank.h"

#include <stdio.h>
#include <string.h>

#define ACCOUNTS 12u
#define TOTAL    (ACCOUNTS * 100u)

static struct sb_bytes account_key(uint32_t number, char text[16])
{
        int len = snprintf(text, 16, "bank/%02u", number);

        return (struct sb_bytes){text, (size_t)len};
}

static uint64_t balance_of(struct sb_bytes value)
{
        uint64_t balance = UINT64_MAX / 1000;

        if (value.len == sizeof(balance))
                memcpy(&balance, value.data, sizeof(balance));
        return balance;
}

/* Read the balance of an account; @txn NULL: by a plain get. A key without a value means no
 * money. */
static int balance(struct sb_bus *bus, struct sb_txn *txn, uint32_t number, uint64_t *ret_balance)
{
        struct sb_guard guard = {0};
        char text[16];
        int r = txn ? sb_txn_get(txn, account_key(number, text), &guard)
                    : sb_get(bus, account_key(number, text), &guard);

        if (r != 0 && r != SB_E_NOT_FOUND)
                return r;
        *ret_balance = r == 0 ? balance_of(guard.value) : 0;
        sb_guard_release(&guard);
        return 0;
}

static int book(struct sb_txn *txn, uint32_t number, uint64_t old, uint64_t new)
{
        char text[16];
        struct sb_bytes key = account_key(number, text);

        if (new)
                return sb_txn_set(txn, key, (struct sb_bytes){&new, sizeof(new)});
        return old ? sb_txn_delete(txn, key) : 0;
}

struct transfer {
        uint32_t from, to;
        uint64_t amount;
};

static int transfer_once(void *argument, struct sb_txn *txn)
{
        const struct transfer *transfer = argument;
        uint64_t from, to, amount = transfer->amount;
        int r = balance(NULL, txn, transfer->from, &from);

        if (!r)
                r = balance(NULL, txn, transfer->to, &to);
        if (r)
                return r;
        amount = amount < from ? amount : from;
        r = book(txn, transfer->from, from, from - amount);
        return r ? r : book(txn, transfer->to, to, to + amount);
}

void bank_transfer(struct sb_bus *bus, struct work_seat *seat, uint64_t *state)
{
        struct transfer transfer = {
                .from = work_below(state, ACCOUNTS), .amount = 1 + work_below(state, 120)};
        enum sb_isolation isolation =
                work_table->isolation == WORK_SERIALIZABLE ? SB_SERIALIZABLE : SB_SNAPSHOT;
        int r;

        transfer.to = (transfer.from + 1 + work_below(state, ACCOUNTS - 1)) % ACCOUNTS;
        r = sb_transact(bus, isolation, transfer_once, &transfer, NULL);
        seat->transfers += r == 0;
        seat->conflicts += r == SB_E_CONFLICT;
        seat->full += r == SB_E_FULL;
        if (r != 0 && r != SB_E_CONFLICT && r != SB_E_FULL)
                work_complain("a transfer said %d", r);
}

/* Sum up plain gets, the second half later, so that the sum need not be right. */
static int sum_gets(struct sb_bus *bus, struct sb_txn *txn, uint64_t *ret_sum)
{
        uint64_t sum = 0, one;

        for (uint32_t i = 0; i < ACCOUNTS; i++) {
                int r = balance(bus, txn, i, &one);

                if (r)
                        return r;
                sum += one;
                if (!txn && i == ACCOUNTS / 2)
                        work_rest(10);
        }
        *ret_sum = sum;
        return 0;
}

static int sum_scan(struct sb_bus *bus, struct sb_txn *txn, uint64_t *ret_sum)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan;
        uint64_t sum = 0;
        int r = sb_scan_open(bus, txn, (struct sb_bytes){"bank/", 5}, &scan);

        if (r)
                return r;
        while ((r = sb_scan_next(scan, &guard)) == 0) {
                sum += balance_of(guard.value);
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        *ret_sum = sum;
        return r == SB_E_NOT_FOUND ? 0 : r;
}

bool bank_open(struct sb_bus *bus)
{
        uint64_t hundred = 100;
        char text[16];

        for (uint32_t i = 0; i < ACCOUNTS; i++)
                if (sb_set(bus, account_key(i, text), (struct sb_bytes){&hundred, 8}, NULL, NULL))
                        return false;
        return true;
}

bool bank_adds_up(struct sb_bus *bus)
{
        uint64_t gets = 0, scanned = 0;

        return sum_gets(bus, NULL, &gets) == 0 && sum_scan(bus, NULL, &scanned) == 0 &&
               gets == TOTAL && scanned == TOTAL;
}

bool bank_is_torn(struct sb_bus *bus)
{
        uint64_t sum = 0;

        return sum_gets(bus, NULL, &sum) == 0 && sum != TOTAL;
}

void bank_check(struct sb_bus *bus, struct sb_txn *txn, struct work_seat *seat, bool by_scan)
{
        uint64_t sum = 0;
        int r = by_scan ? sum_scan(bus, txn, &sum) : sum_gets(bus, txn, &sum);

        if (r == SB_E_FULL)
                return;
        if (r || sum != TOTAL)
                work_complain("the bank, summed up by %s%s: %d, %llu", by_scan ? "a scan" : "gets",
                        txn ? " in a transaction" : "", r, (unsigned long long)sum);
        seat->sums++;
}
