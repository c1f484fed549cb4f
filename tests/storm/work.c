/* Random transactions; see work.h, and record.h for what is written down about them. */
#define _GNU_SOURCE
#include "tests/storm/work.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "tests/storm/bank.h"

#define VALUE_MAX 2000u
#define STEPS_MAX 8u

struct work_table *work_table;

enum own { OWN_NONE, OWN_SET, OWN_DELETED };

struct worker {
        struct sb_bus *bus;
        struct sb_txn *txn; /* NULL: plain operations */
        struct work_seat *seat;
        struct record *record;
        uint32_t number; /* of the seat */
        uint64_t random, identity;
        struct {
                enum own what;
                uint32_t len;
                uint64_t rev; /* the one that it will have; 0: not known */
        } own[WORK_KEYS];
};

void work_complain(const char *format, ...)
{
        va_list arguments;

        if (__atomic_exchange_n(&work_table->complained, true, __ATOMIC_SEQ_CST))
                return;
        va_start(arguments, format);
        vsnprintf(work_table->complaint, sizeof(work_table->complaint), format, arguments);
        va_end(arguments);
}

uint32_t work_below(uint64_t *state, uint32_t limit)
{
        return (uint32_t)(storm_random(state) >> 33) % limit;
}

uint64_t work_now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void work_rest(uint64_t us)
{
        struct timespec wait = {
                .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};

        nanosleep(&wait, NULL);
}

static bool stopped(void)
{
        return __atomic_load_n(&work_table->stop, __ATOMIC_RELAXED) ||
               __atomic_load_n(&work_table->complained, __ATOMIC_RELAXED);
}

static uint32_t below(struct worker *w, uint32_t limit)
{
        return work_below(&w->random, limit);
}

/* ---- keys and values ---- */

struct sb_bytes work_key(uint32_t number, char text[16])
{
        int len = snprintf(text, 16, "hot/%u/%u", number / WORK_MEMBERS, number % WORK_MEMBERS);

        return (struct sb_bytes){text, (size_t)len};
}

/* The number of a key that a scan gave; WORK_KEYS for a key that is none of them. */
static uint32_t number_of(struct sb_bytes key)
{
        const char *text = key.data;
        uint32_t group, member;

        if (key.len != 7 || memcmp(text, "hot/", 4) != 0)
                return WORK_KEYS;
        group = (uint32_t)(text[4] - '0');
        member = (uint32_t)(text[6] - '0');
        return group < WORK_GROUPS && member < WORK_MEMBERS ? group * WORK_MEMBERS + member
                                                            : WORK_KEYS;
}

static struct sb_bytes make_value(uint64_t identity, uint32_t len, unsigned char *bytes)
{
        memcpy(bytes, &identity, sizeof(identity));
        for (uint32_t i = sizeof(identity); i < len; i++)
                bytes[i] = (unsigned char)(identity + i);
        return (struct sb_bytes){bytes, len};
}

/* Which transaction wrote it; 0: none wrote such a value. */
static uint64_t writer_of(struct sb_bytes value)
{
        const unsigned char *bytes = value.data;
        uint64_t identity;

        if (value.len < sizeof(identity) || value.len > VALUE_MAX)
                return 0;
        memcpy(&identity, bytes, sizeof(identity));
        for (uint32_t i = sizeof(identity); i < value.len; i++)
                if (bytes[i] != (unsigned char)(identity + i))
                        return 0;
        return identity;
}

/* ---- notes ---- */

static void note(struct worker *w, enum record_what what, uint32_t key, uint64_t rev)
{
        record_add(w->record, (struct record_note){.what = what, .key = key, .rev = rev});
        w->seat->operations += what == RECORD_READ || what == RECORD_ABSENT || what == RECORD_SET ||
                               what == RECORD_DELETE;
}

static void note_begin(struct worker *w, uint64_t began, uint64_t cut)
{
        w->identity = RECORD_IDENTITY(w->number, ++w->record->identities);
        record_add(w->record, (struct record_note){.what = RECORD_BEGIN,
                                      .identity = w->identity,
                                      .number = began,
                                      .cut = cut});
}

static void note_end(struct worker *w, enum record_what what, uint64_t cut, uint64_t rev)
{
        record_add(w->record, (struct record_note){.what = what,
                                      .rev = rev,
                                      .number = work_now_ns(),
                                      .cut = what == RECORD_COMMITTED ? cut : 0});
        w->seat->commits += what == RECORD_COMMITTED;
}

static void note_read(struct worker *w, uint32_t key, const struct sb_guard *guard)
{
        uint64_t identity = writer_of(guard->value);

        if (!identity)
                work_complain("key %u has a broken value", key);
        record_add(w->record, (struct record_note){.what = RECORD_READ,
                                      .key = key,
                                      .rev = guard->rev,
                                      .identity = identity,
                                      .number = guard->txn,
                                      .cut = guard->cut});
        w->seat->operations++;
}

/* ---- the steps of a transaction ---- */

/* Check that the transaction reads its own writes. */
static void check_own(struct worker *w, uint32_t key, const struct sb_guard *guard, bool found)
{
        if (found != (w->own[key].what == OWN_SET))
                work_complain("an own %s of key %u was not seen", found ? "delete" : "set", key);
        else if (found && (guard->value.len != w->own[key].len ||
                                  writer_of(guard->value) != w->identity || guard->rev != 0))
                work_complain("an own set of key %u reads differently", key);
}

/* Get a key. Return: its revision at the cut, 0: it has no value. @silent: the history does not get
 * this read. */
static uint64_t get(struct worker *w, uint32_t key, bool silent)
{
        struct sb_guard guard = {0};
        uint64_t rev = 0;
        char text[16];
        int r = sb_txn_get(w->txn, work_key(key, text), &guard);

        if (r != 0 && r != SB_E_NOT_FOUND)
                work_complain("a get in a transaction said %d", r);
        else if (w->own[key].what != OWN_NONE)
                check_own(w, key, &guard, r == 0);
        else if (r == 0 && !silent)
                note_read(w, key, &guard);
        else if (r == SB_E_NOT_FOUND && !silent)
                note(w, RECORD_ABSENT, key, 0);
        rev = r == 0 ? guard.rev : 0;
        sb_guard_release(&guard);
        return rev;
}

static void set(struct worker *w, uint32_t key)
{
        uint32_t len = below(w, 64) ? 8 + below(w, 60) : 8 + below(w, VALUE_MAX - 8);
        unsigned char bytes[VALUE_MAX];
        char text[16];
        int r;

        if (w->own[key].what == OWN_NONE) {
                uint64_t rev = get(w, key, below(w, 2));

                w->own[key].rev = rev ? rev + 1 : 0;
        }
        r = sb_txn_set(w->txn, work_key(key, text), make_value(w->identity, len, bytes));
        if (r != 0)
                work_complain("a set in a transaction said %d", r);
        w->own[key].what = OWN_SET;
        w->own[key].len = len;
}

static void delete (struct worker *w, uint32_t key)
{
        uint64_t rev;
        char text[16];
        int r;

        if (w->own[key].what != OWN_NONE)
                return;
        rev = get(w, key, below(w, 2));
        r = sb_txn_delete(w->txn, work_key(key, text));
        if (r != (rev ? 0 : SB_E_NOT_FOUND))
                work_complain("a delete in a transaction said %d", r);
        if (rev) {
                w->own[key].what = OWN_DELETED;
                w->own[key].rev = rev + 1;
        }
}

/* Note that the keys of a group from @first to @last were looked at, and which of them were
 * @found. */
static void note_scanned(struct worker *w, uint32_t first, uint32_t last, const bool *found)
{
        for (uint32_t key = first; key <= last; key++)
                if (!found[key] && w->own[key].what == OWN_NONE)
                        note(w, RECORD_ABSENT, key, 0);
                else if (!found[key] && w->own[key].what == OWN_SET)
                        work_complain("a scan leaves out key %u, which its transaction wrote", key);
}

static int scan_step(
        struct worker *w, struct sb_scan *scan, bool back, bool *found, uint32_t *ret_key)
{
        struct sb_guard guard = {0};
        int r = back ? sb_scan_prev(scan, &guard) : sb_scan_next(scan, &guard);
        uint32_t key;

        if (r != 0)
                return r;
        key = number_of(guard.key);
        if (key == WORK_KEYS || found[key])
                work_complain("a scan gives what it should not");
        else if (w->own[key].what != OWN_NONE)
                check_own(w, key, &guard, true);
        else
                note_read(w, key, &guard);
        if (key < WORK_KEYS)
                found[key] = true;
        *ret_key = key;
        sb_guard_release(&guard);
        return 0;
}

/* Scan a group, forwards or backwards, to its end or only some of its keys. */
static void scan_group(struct worker *w, struct sb_scan *scan, uint32_t group)
{
        uint32_t first = group * WORK_MEMBERS, last = first + WORK_MEMBERS - 1,
                 limit = below(w, 2) ? WORK_MEMBERS + 1 : 1 + below(w, WORK_MEMBERS), key = first;
        bool found[WORK_KEYS] = {false}, back = below(w, 4) == 0;
        int r = back ? sb_scan_seek_end(scan) : 0;

        for (uint32_t count = 0; r == 0 && count < limit; count++) {
                r = scan_step(w, scan, back, found, &key);
                if (r == 0 && (key < first || key > last)) {
                        work_complain("a scan of group %u gives key %u", group, key);
                        return;
                }
        }
        if (r != 0 && r != SB_E_NOT_FOUND)
                work_complain("a scan said %d", r);
        if (r == 0 && back)
                first = key;
        else if (r == 0)
                last = key;
        note_scanned(w, first, last, found);
}

static void scan(struct worker *w)
{
        uint32_t group = below(w, WORK_GROUPS);
        struct sb_scan *scan;
        uint64_t began = work_now_ns();
        char text[16];
        int len = snprintf(text, sizeof(text), "hot/%u/", group);
        int r = sb_scan_open(w->bus, w->txn, (struct sb_bytes){text, (size_t)len}, &scan);

        if (r != 0 && r != SB_E_FULL)
                work_complain("opening a scan said %d", r);
        if (r != 0)
                return;
        if (!w->txn)
                note_begin(w, began, sb_scan_cut(scan));
        scan_group(w, scan, group);
        if (!w->txn)
                note_end(w, RECORD_COMMITTED, sb_scan_cut(scan), 0);
        sb_scan_close(scan);
}

/* ---- transactions ---- */

static void step(struct worker *w, bool only_read)
{
        uint32_t key = below(w, WORK_KEYS), what = below(w, only_read ? 60 : 100);

        if (what < 48)
                get(w, key, false);
        else if (what < 60)
                scan(w);
        else if (what < 88)
                set(w, key);
        else
                delete (w, key);
}

static bool write_down(struct worker *w)
{
        bool writes = false;

        for (uint32_t key = 0; key < WORK_KEYS; key++)
                if (w->own[key].what != OWN_NONE) {
                        note(w, w->own[key].what == OWN_SET ? RECORD_SET : RECORD_DELETE, key,
                                w->own[key].rev);
                        writes = true;
                }
        return writes;
}

/* Check that the conflict is over a key that was read or written; over one that was written, if
 * nothing else counts. */
static void check_conflict(struct worker *w, enum sb_isolation isolation)
{
        struct sb_bytes key = sb_txn_conflict(w->txn);
        uint32_t number = key.data ? number_of(key) : WORK_KEYS;

        if (number == WORK_KEYS)
                work_complain("a conflict over no key");
        else if (isolation == SB_SNAPSHOT && w->own[number].what == OWN_NONE)
                work_complain("a conflict over key %u, which was not written", number);
}

static void commit(struct worker *w, enum sb_isolation isolation)
{
        uint64_t cut = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        bool writes = write_down(w);
        int r;

        if (writes && below(w, 32) == 0) {
                note_end(w, RECORD_ABORTED, 0, 0);
                return;
        }
        if (writes)
                record_add(w->record, (struct record_note){.what = RECORD_TRY});
        r = sb_txn_commit(w->txn, &how);
        if (r == SB_E_FULL)
                r = sb_txn_commit(w->txn, &how);
        note_end(w, r == 0 ? RECORD_COMMITTED : RECORD_ABORTED, cut, 0);
        w->seat->conflicts += r == SB_E_CONFLICT;
        w->seat->full += r == SB_E_FULL;
        if (r == SB_E_CONFLICT)
                check_conflict(w, isolation);
        if ((r != 0 && r != SB_E_CONFLICT && r != SB_E_FULL) || (r == SB_E_CONFLICT && !writes))
                work_complain("a commit said %d", r);
}

static void transaction(struct worker *w)
{
        uint32_t steps = 1 + below(w, STEPS_MAX);
        bool only_read = below(w, 5) == 0;
        enum sb_isolation isolation = work_table->isolation == WORK_SNAPSHOT       ? SB_SNAPSHOT
                                      : work_table->isolation == WORK_SERIALIZABLE ? SB_SERIALIZABLE
                                      : below(w, 2)                                ? SB_SNAPSHOT
                                                    : SB_SERIALIZABLE;
        uint64_t began = work_now_ns();
        int r = sb_txn_begin(w->bus, isolation, &w->txn);

        w->seat->full += r == SB_E_FULL;
        if (r != 0 && r != SB_E_FULL)
                work_complain("begin said %d", r);
        if (r != 0) {
                w->txn = NULL;
                return;
        }
        memset(w->own, 0, sizeof(w->own));
        note_begin(w, began, sb_txn_cut(w->txn));
        while (steps--) {
                step(w, only_read);
                if (below(w, 64) == 0) /* others come in between on few cores, too */
                        work_rest(below(w, 30));
        }
        commit(w, isolation);
        memset(w->own, 0, sizeof(w->own));
        w->txn = sb_txn_end(w->txn);
}

/* ---- plain operations ---- */

static void plain_set(struct worker *w, uint32_t key)
{
        uint64_t rev = 0, cut = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        unsigned char bytes[128];
        char text[16];
        int r;

        note_begin(w, work_now_ns(), 0);
        note(w, RECORD_SET, key, 0);
        record_add(w->record, (struct record_note){.what = RECORD_TRY});
        r = sb_set(w->bus, work_key(key, text), make_value(w->identity, 8 + below(w, 100), bytes),
                &how, &rev);
        note_end(w, r == 0 ? RECORD_COMMITTED : RECORD_ABORTED, cut, rev);
        w->seat->full += r == SB_E_FULL;
        if (r != 0 && r != SB_E_FULL)
                work_complain("a set said %d", r);
}

/* Get a key, then compare and set it, or delete it. */
static void plain_change(struct worker *w, uint32_t key, bool deletes)
{
        uint64_t expected = 0, rev = 0, cut = 0;
        struct sb_write how = {.size = sizeof(how), .ret_cut = &cut};
        unsigned char bytes[128];
        struct sb_guard guard = {0};
        struct sb_bytes value;
        char text[16];
        int r;

        note_begin(w, work_now_ns(), 0);
        value = make_value(w->identity, 8 + below(w, 100), bytes);
        r = sb_get(w->bus, work_key(key, text), &guard);
        if (r == 0)
                note_read(w, key, &guard);
        expected = r == 0 ? guard.rev : 0;
        sb_guard_release(&guard);
        if (deletes && !expected) {
                note_end(w, RECORD_ABORTED, 0, 0);
                return;
        }
        note(w, deletes ? RECORD_DELETE : RECORD_SET, key, expected ? expected + 1 : 0);
        record_add(w->record, (struct record_note){.what = RECORD_TRY});
        r = deletes ? sb_delete(w->bus, work_key(key, text), expected, &how, &rev)
                    : sb_cas(w->bus, work_key(key, text), expected, value, &how, &rev);
        note_end(w, r == 0 ? RECORD_COMMITTED : RECORD_ABORTED, cut, r == 0 ? rev : 0);
        w->seat->full += r == SB_E_FULL;
        if (r == 0 && expected && rev != expected + 1)
                work_complain("a change of revision %llu made %llu", (unsigned long long)expected,
                        (unsigned long long)rev);
        if (r != 0 && r != SB_E_CONFLICT && r != SB_E_FULL && !(deletes && r == SB_E_NOT_FOUND))
                work_complain("a cas or delete said %d", r);
}

static void plain_get(struct worker *w, uint32_t key)
{
        struct sb_guard guard = {0};
        char text[16];
        int r;

        note_begin(w, work_now_ns(), 0);
        r = sb_get(w->bus, work_key(key, text), &guard);
        if (r == 0)
                note_read(w, key, &guard);
        else if (r != SB_E_NOT_FOUND)
                work_complain("a get said %d", r);
        sb_guard_release(&guard);
        note_end(w, RECORD_COMMITTED, 0, 0);
}

/* ---- the processes ---- */

static uint64_t halts_random;

static void arm(void)
{
        struct itimerval next = {
                .it_value = {.tv_usec = (long)(50 + storm_random(&halts_random) % 1000)}};

        setitimer(ITIMER_REAL, &next, NULL);
}

/* Halt the worker between any two instructions, for a while in which other processes do a lot. */
static void on_alarm(int number)
{
        int kept = errno;

        (void)number;
        work_rest(storm_random(&halts_random) % 200);
        work_table->halts++; /* not exact: the signal may come in between */
        arm();
        errno = kept;
}

static void be_halted(uint64_t seed)
{
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

        halts_random = seed;
        sigaction(SIGALRM, &action, NULL);
        arm();
}

void work_watch(struct sb_bus *bus, uint32_t seat, uint64_t seed)
{
        struct worker w = {.bus = bus, .seat = &work_table->seat[seat], .random = seed};

        while (!stopped()) {
                int r = sb_txn_begin(bus, below(&w, 2) ? SB_SNAPSHOT : SB_SERIALIZABLE, &w.txn);

                for (uint32_t i = 0; i < 3 && r == 0; i++) {
                        bank_check(bus, w.txn, w.seat, false);
                        bank_check(bus, w.txn, w.seat, true);
                        work_rest(i && below(&w, 16) == 0 ? below(&w, 20000) : 0);
                }
                if (r == 0 && sb_txn_commit(w.txn, NULL) != 0)
                        work_complain("a commit of nothing did not go through");
                w.txn = r == 0 ? sb_txn_end(w.txn) : NULL;
                bank_check(bus, w.txn, w.seat, true);
                w.seat->torn += bank_is_torn(bus);
                work_rest(200);
        }
}

void work_transactions(struct sb_bus *bus, uint32_t seat, struct record *record, uint64_t seed)
{
        struct worker w = {.bus = bus,
                .seat = &work_table->seat[seat],
                .record = record,
                .number = seat,
                .random = seed};

        be_halted(seed);
        while (!stopped()) {
                uint32_t what = below(&w, 100), key = below(&w, WORK_KEYS);

                if (record->count > RECORD_NOTES_MAX - 256)
                        work_rest(1000);
                else if (what < 62)
                        transaction(&w);
                else if (what < 68)
                        bank_transfer(bus, w.seat, &w.random);
                else if (what < 74)
                        scan(&w);
                else if (what < 82)
                        plain_get(&w, key);
                else if (what < 90)
                        plain_set(&w, key);
                else
                        plain_change(&w, key, what >= 96);
        }
}

bool work_clear(struct sb_bus *bus)
{
        char text[16];

        for (uint32_t key = 0; key < WORK_KEYS; key++) {
                int r = sb_delete(bus, work_key(key, text), SB_ANY_REV, NULL, NULL);

                if (r != 0 && r != SB_E_NOT_FOUND)
                        return false;
        }
        return true;
}

void work_read_end(struct sb_bus *bus, uint32_t seat, struct record *record)
{
        struct worker w = {
                .bus = bus, .seat = &work_table->seat[seat], .record = record, .number = seat};

        for (uint32_t key = 0; key < WORK_KEYS; key++)
                plain_get(&w, key);
}
