/* The judgement on a storm; see record.h. */
#include "tests/storm/record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/history/graph.h"

#define REV_SPAN_MAX (UINT64_C(1) << 26)

enum outcome { NONE, COMMITTED, ABORTED, UNKNOWN };
enum kind { GAP, SET, DELETED, MAYBE_DELETED };

struct txn {
        struct record_note *notes;
        uint32_t note_count, outcome;
        uint64_t identity, began, ended;
        uint64_t cut;    /* at which it reads */
        uint64_t stamp;  /* the first cut that contains what it wrote; 0: unknown */
        uint64_t number; /* of the transaction, as guards have it */
        bool tried, writes, seen;
        uint32_t writer, reader; /* the transactions of the history that stand for its writes and
                                    its reads */
};

struct version {
        uint64_t identity, stamp;
        uint32_t kind, life;
};

struct life {
        uint64_t first_stamp, end_stamp, end_rev, ended_by;
        uint32_t end; /* enum kind */
};

struct key {
        uint64_t first_rev, rev_count;
        struct version *versions; /* indexed by revision - first_rev */
        struct life *lives;
        uint32_t life_count;
};

struct judge {
        struct txn *txns[RECORD_SEATS]; /* by seat and their number in it */
        uint64_t txn_counts[RECORD_SEATS];
        uint32_t seat_count;
        struct key keys[RECORD_KEYS];
        struct history *history;
        struct record_verdict *verdict;
};

static void __attribute__((format(printf, 2, 3))) say(struct judge *judge, const char *format, ...)
{
        va_list arguments;

        if (judge->verdict->text[0] != '\0')
                return;
        va_start(arguments, format);
        vsnprintf(judge->verdict->text, sizeof(judge->verdict->text), format, arguments);
        va_end(arguments);
}

/* ---- transactions ---- */

static struct txn *txn_of(const struct judge *judge, uint64_t identity)
{
        uint64_t seat = (identity >> 40) - 1, number = identity & ((UINT64_C(1) << 40) - 1);

        if (seat >= judge->seat_count || number >= judge->txn_counts[seat] ||
                judge->txns[seat][number].outcome == NONE)
                return NULL;
        return &judge->txns[seat][number];
}

static bool is_write(const struct record_note *note)
{
        return note->what == RECORD_SET || note->what == RECORD_DELETE;
}

static void take_note(struct txn *txn, struct record_note *note)
{
        txn->note_count++;
        txn->writes = txn->writes || is_write(note);
        if (note->what == RECORD_TRY) {
                txn->tried = true;
                txn->outcome = UNKNOWN;
        } else if (note->what == RECORD_COMMITTED || note->what == RECORD_ABORTED) {
                txn->outcome = note->what == RECORD_COMMITTED ? COMMITTED : ABORTED;
                txn->ended = note->number;
                txn->stamp = note->cut;
                for (uint32_t i = 0; i < txn->note_count && note->rev; i++)
                        if (txn->notes[i].what == RECORD_SET)
                                txn->notes[i].rev = note->rev;
        }
}

static void take_record(struct judge *judge, struct record *record, uint32_t seat)
{
        struct txn *txn = NULL;

        judge->txn_counts[seat] = record->identities + 1;
        judge->txns[seat] = history_memory(NULL, record->identities + 1, sizeof(struct txn));
        memset(judge->txns[seat], 0, (record->identities + 1) * sizeof(struct txn));
        for (uint64_t i = 0; i < record->count; i++) {
                struct record_note *note = &record->notes[i];

                if (note->what == RECORD_BEGIN) {
                        txn = &judge->txns[seat][note->identity & ((UINT64_C(1) << 40) - 1)];
                        *txn = (struct txn){.notes = note + 1,
                                .outcome = ABORTED,
                                .identity = note->identity,
                                .began = note->number,
                                .cut = note->cut};
                } else {
                        take_note(txn, note);
                }
        }
}

#define EACH_TXN(judge, txn)                                                                       \
        for (uint32_t seat_ = 0; seat_ < (judge)->seat_count; seat_++)                             \
                for (struct txn *txn = (judge)->txns[seat_];                                       \
                        txn < (judge)->txns[seat_] + (judge)->txn_counts[seat_]; txn++)            \
                        if (txn->outcome != NONE)

/* ---- what reads say about writers ---- */

static struct record_note *set_of(const struct txn *txn, uint32_t key)
{
        for (uint32_t i = 0; i < txn->note_count; i++)
                if (txn->notes[i].what == RECORD_SET && txn->notes[i].key == key)
                        return &txn->notes[i];
        return NULL;
}

static void learn(struct judge *judge, const struct record_note *read)
{
        struct txn *writer = txn_of(judge, read->identity);
        struct record_note *set = writer ? set_of(writer, read->key) : NULL;

        if (!set) {
                say(judge, "key %u was read with a value of %" PRIx64 ", which did not write it",
                        (unsigned)read->key, read->identity);
                return;
        }
        if (writer->outcome == UNKNOWN) {
                writer->outcome = COMMITTED;
                writer->stamp = read->cut;
                judge->verdict->believed++;
        }
        if (!set->rev)
                set->rev = read->rev;
        if (set->rev != read->rev)
                say(judge, "revision %" PRIu64 " of key %u is by %" PRIx64 ", which wrote %" PRIu64,
                        (uint64_t)read->rev, (unsigned)read->key, read->identity,
                        (uint64_t)set->rev);
        if (!writer->seen)
                writer->number = read->number;
        writer->seen = true;
        if (writer->number != read->number || (read->number != 0) != (writer->cut != 0))
                say(judge, "what %" PRIx64 " wrote has the numbers %" PRIx64 " and %" PRIx64,
                        read->identity, writer->number, read->number);
        if (writer->stamp != read->cut && writer->outcome == COMMITTED)
                say(judge, "what %" PRIx64 " wrote has the cuts %" PRIu64 " and %" PRIu64,
                        read->identity, writer->stamp, read->cut);
}

/* ---- versions and lives ---- */

static void make_versions(struct judge *judge)
{
        EACH_TXN(judge, txn)
        for (uint32_t i = 0; i < txn->note_count; i++) {
                const struct record_note *note = &txn->notes[i];
                struct key *key = &judge->keys[note->key];
                uint64_t end = key->first_rev + key->rev_count;

                if (!is_write(note) || !note->rev)
                        continue;
                if (!key->rev_count || note->rev < key->first_rev)
                        key->first_rev = note->rev;
                if (!key->rev_count || note->rev >= end)
                        end = note->rev + 1;
                key->rev_count = end - key->first_rev;
        }
        for (uint32_t i = 0; i < RECORD_KEYS; i++) {
                struct key *key = &judge->keys[i];

                if (key->rev_count > REV_SPAN_MAX) {
                        say(judge, "key %u has revisions from %" PRIu64 " on, and %" PRIu64, i,
                                key->first_rev, key->first_rev + key->rev_count);
                        key->rev_count = 1;
                }
                key->versions = history_memory(NULL, key->rev_count + 1, sizeof(struct version));
                memset(key->versions, 0, (key->rev_count + 1) * sizeof(struct version));
        }
}

static void enter_version(
        struct judge *judge, const struct txn *txn, const struct record_note *note, bool certain)
{
        struct key *key = &judge->keys[note->key];
        struct version *version = &key->versions[note->rev - key->first_rev];

        if (note->rev - key->first_rev >= key->rev_count)
                return;
        if (certain && version->kind != GAP)
                say(judge,
                        "revision %" PRIu64 " of key %u is %" PRIx64 "'s and %" PRIx64
                        "'s, and both committed",
                        (uint64_t)note->rev, (unsigned)note->key, version->identity, txn->identity);
        if (!certain && (version->kind != GAP || note->what != RECORD_DELETE))
                return;
        version->kind = !certain ? MAYBE_DELETED : note->what == RECORD_DELETE ? DELETED : SET;
        version->identity = txn->identity;
        version->stamp = txn->stamp;
}

static void enter_versions(struct judge *judge, uint32_t outcome)
{
        EACH_TXN(judge, txn)
        for (uint32_t i = 0; i < txn->note_count && txn->outcome == outcome; i++)
                if (is_write(&txn->notes[i]) && txn->notes[i].rev)
                        enter_version(judge, txn, &txn->notes[i], outcome == COMMITTED);
}

static void make_lives(struct judge *judge, struct key *key)
{
        uint32_t life_max = 1;
        uint64_t stamp = 0;
        bool begun = false;

        for (uint64_t i = 0; i < key->rev_count; i++)
                life_max += key->versions[i].kind >= DELETED;
        key->lives = history_memory(NULL, life_max, sizeof(struct life));
        memset(key->lives, 0, life_max * sizeof(struct life));
        for (uint64_t i = 0; i < key->rev_count; i++) {
                struct version *version = &key->versions[i];
                struct life *life = &key->lives[key->life_count];

                version->life = key->life_count;
                if (version->kind != GAP && !begun)
                        life->first_stamp = version->stamp;
                begun = begun || version->kind != GAP;
                if (version->kind == SET || version->kind == DELETED) {
                        if (version->stamp < stamp)
                                say(judge,
                                        "%" PRIx64 " wrote at %" PRIu64
                                        " over what is since %" PRIu64,
                                        version->identity, version->stamp, stamp);
                        stamp = version->stamp;
                }
                if (version->kind < DELETED)
                        continue;
                life->end = version->kind;
                life->end_stamp = version->stamp;
                life->end_rev = key->first_rev + i;
                life->ended_by = version->identity;
                key->life_count++;
                begun = false;
        }
        key->life_count += begun;
        judge->verdict->lives += key->life_count;
}

static uint64_t object_of(uint32_t key, uint32_t life)
{
        return (uint64_t)key << 32 | life;
}

/* ---- the history ---- */

static void add_txns(struct judge *judge)
{
        EACH_TXN(judge, txn)
        {
                enum history_outcome outcome = txn->outcome == COMMITTED ? HISTORY_COMMITTED
                                               : txn->outcome == UNKNOWN ? HISTORY_UNKNOWN
                                                                         : HISTORY_ABORTED;

                judge->verdict->unknown += txn->outcome == UNKNOWN;
                judge->verdict->aborted += txn->outcome == ABORTED && txn->tried;
                txn->writer = txn->reader = history_txn(judge->history, outcome,
                        outcome == HISTORY_COMMITTED && txn->ended ? txn->began : 0,
                        outcome == HISTORY_COMMITTED ? txn->ended : 0);
                /* What an aborted transaction read counts: it was at one cut, too. */
                if (txn->outcome == ABORTED)
                        txn->reader = history_txn(judge->history, HISTORY_COMMITTED,
                                txn->ended ? txn->began : 0, txn->ended);
        }
}

/* Check that a read at a cut gave the newest version not above the cut. */
static void check_read(struct judge *judge, const struct txn *txn, const struct record_note *read)
{
        const struct key *key = &judge->keys[read->key];
        uint64_t i = read->rev - key->first_rev + 1;

        while (i < key->rev_count &&
                (key->versions[i].kind == GAP || key->versions[i].kind == MAYBE_DELETED))
                i++;
        if (read->cut > txn->cut || (i < key->rev_count && key->versions[i].stamp <= txn->cut))
                say(judge,
                        "%" PRIx64 " read at %" PRIu64 " revision %" PRIu64
                        " of key %u, since %" PRIu64 "; the next is since %" PRIu64,
                        txn->identity, txn->cut, (uint64_t)read->rev, (unsigned)read->key,
                        read->cut, i < key->rev_count ? key->versions[i].stamp : 0);
}

static void add_read(struct judge *judge, const struct txn *txn, const struct record_note *read)
{
        const struct key *key = &judge->keys[read->key];
        const struct txn *writer = txn_of(judge, read->identity);

        if (!writer || read->rev - key->first_rev >= key->rev_count)
                return; /* learn() said so */
        if (txn->cut)
                check_read(judge, txn, read);
        history_read(judge->history, txn->reader,
                object_of(read->key, key->versions[read->rev - key->first_rev].life), read->rev,
                writer->writer);
}

static void add_absent(struct judge *judge, const struct txn *txn, uint32_t number)
{
        const struct key *key = &judge->keys[number];
        uint64_t until = txn->outcome == COMMITTED && txn->writes ? txn->stamp : txn->cut;
        uint32_t low = 0, high = key->life_count;

        judge->verdict->absent++;
        while (low < high) { /* find the lives that had begun */
                uint32_t middle = low + (high - low) / 2;

                if (key->lives[middle].first_stamp <= txn->cut)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low) {
                const struct life *life = &key->lives[low - 1];

                if (life->end == DELETED && life->end_stamp <= txn->cut)
                        history_read(judge->history, txn->reader, object_of(number, low - 1),
                                life->end_rev, txn_of(judge, life->ended_by)->writer);
                else if (life->end != MAYBE_DELETED)
                        say(judge,
                                "%" PRIx64 " saw no value of key %u at %" PRIu64
                                ", which had one from %" PRIu64 " to %" PRIu64,
                                txn->identity, number, txn->cut, life->first_stamp,
                                life->end_stamp);
        }
        while (low < key->life_count && key->lives[low].end != GAP &&
                key->lives[low].end_stamp <= until)
                low++;
        if (low < key->life_count)
                history_read(
                        judge->history, txn->reader, object_of(number, low), 0, HISTORY_ANYONE);
}

static void add_operations(struct judge *judge, const struct txn *txn)
{
        for (uint32_t i = 0; i < txn->note_count; i++) {
                const struct record_note *note = &txn->notes[i];
                const struct key *key = &judge->keys[note->key];

                if (note->what == RECORD_READ)
                        add_read(judge, txn, note);
                else if (note->what == RECORD_ABSENT)
                        add_absent(judge, txn, note->key);
                else if (is_write(note) && note->rev && note->rev - key->first_rev < key->rev_count)
                        history_write(judge->history, txn->writer,
                                object_of(
                                        note->key, key->versions[note->rev - key->first_rev].life),
                                note->rev);
                else if (is_write(note))
                        judge->verdict->unseen++;
        }
}

/* ---- what the transactions did that a verdict names ---- */

static void tell_note(const struct judge *judge, const struct record_note *note)
{
        static const char *const names[] = {
                "begin", "read", "saw nothing of", "set", "deleted", "try", "committed", "aborted"};
        const struct key *key = &judge->keys[note->key];
        uint64_t at = note->rev - key->first_rev;

        printf("  %s", names[note->what]);
        if (note->what == RECORD_READ || note->what == RECORD_ABSENT || is_write(note))
                printf(" key %u rev %" PRIu64, (unsigned)note->key, (uint64_t)note->rev);
        if ((note->what == RECORD_READ || is_write(note)) && at < key->rev_count)
                printf(" (life %" PRIu32 ")", key->versions[at].life);
        if (note->what == RECORD_READ)
                printf(" by %" PRIx64, note->identity);
        if (note->cut)
                printf(" cut %" PRIu64, note->cut);
        printf("\n");
}

static void tell_all(const struct judge *judge)
{
        const char *at = judge->verdict->history.text;

        for (; (at = strchr(at, 'T')); at++) {
                uint32_t number = (uint32_t)strtoul(at + 1, NULL, 10);

                EACH_TXN(judge, txn)
                {
                        if (txn->writer != number && txn->reader != number)
                                continue;
                        printf("T%" PRIu32 ": %" PRIx64 " at %" PRIu64 ", from %" PRIu64
                               " to %" PRIu64 " ns\n",
                                number, txn->identity, txn->cut, txn->began, txn->ended);
                        for (uint32_t i = 0; i < txn->note_count; i++)
                                tell_note(judge, &txn->notes[i]);
                }
        }
}

bool record_judge(struct record *const *records, uint32_t record_count, enum history_level level,
        bool tell, struct record_verdict *ret)
{
        struct judge judge = {.seat_count = record_count, .verdict = ret};

        *ret = (struct record_verdict){0};
        for (uint32_t i = 0; i < record_count; i++)
                take_record(&judge, records[i], i);
        for (uint32_t i = 0; i < record_count; i++)
                for (uint64_t k = 0; k < records[i]->count; k++)
                        if (records[i]->notes[k].what == RECORD_READ)
                                learn(&judge, &records[i]->notes[k]);
        make_versions(&judge);
        enter_versions(&judge, COMMITTED);
        enter_versions(&judge, UNKNOWN);
        for (uint32_t i = 0; i < RECORD_KEYS; i++)
                make_lives(&judge, &judge.keys[i]);
        judge.history = history_make();
        add_txns(&judge);
        EACH_TXN(&judge, txn)
        add_operations(&judge, txn);
        ret->right = history_check(judge.history, level, &ret->history) && ret->text[0] == '\0';
        if (tell && ret->history.anomaly)
                tell_all(&judge);
        history_unmake(judge.history);
        for (uint32_t i = 0; i < record_count; i++)
                free(judge.txns[i]);
        for (uint32_t i = 0; i < RECORD_KEYS; i++) {
                free(judge.keys[i].versions);
                free(judge.keys[i].lives);
        }
        return ret->right;
}

/* ---- lies ---- */

static struct record_note *read_before(
        struct record *const *records, uint32_t record_count, const struct record_note *read)
{
        for (uint32_t i = 0; i < record_count; i++)
                for (uint64_t k = 0; k < records[i]->count; k++) {
                        struct record_note *note = &records[i]->notes[k];

                        if (note->what == RECORD_READ && note->key == read->key &&
                                note->rev + 1 == read->rev)
                                return note;
                }
        return NULL;
}

/* The note that ends transaction @identity, if it wrote something; or NULL. */
static struct record_note *end_of(struct record *record, uint64_t identity)
{
        bool within = false, writes = false;

        for (uint64_t i = 0; i < record->count; i++) {
                struct record_note *note = &record->notes[i];

                if (note->what == RECORD_BEGIN && within)
                        return NULL;
                within = within ||
                         (note->what == RECORD_BEGIN && note->identity == identity && note->cut);
                writes = writes || (within && is_write(note) && note->rev);
                if (within && note->what >= RECORD_COMMITTED)
                        return writes ? note : NULL;
        }
        return NULL;
}

static struct record_note *lie_about(struct record *const *records, uint32_t record_count,
        enum record_lie lie, struct record_note *note, struct record_note *ret_said)
{
        struct record_note *other = NULL;

        *ret_said = *note;
        if (lie == RECORD_LIE_BOTH_WON && note->what == RECORD_TRY &&
                note[1].what == RECORD_ABORTED && is_write(note - 1) && note[-1].rev) {
                *ret_said = note[1];
                ret_said->what = RECORD_COMMITTED;
                ret_said->cut = UINT64_C(1) << 40;
                return note + 1;
        }
        if (note->what != RECORD_READ || lie == RECORD_LIE_BOTH_WON)
                return NULL;
        if (lie == RECORD_LIE_ABSENT) {
                ret_said->what = RECORD_ABSENT;
                return note;
        }
        if (lie == RECORD_LIE_STALE) {
                other = read_before(records, record_count, note);
                if (other)
                        *ret_said = *other;
                return other ? note : NULL;
        }
        other = end_of(records[(note->identity >> 40) - 1], note->identity);
        if (other) {
                *ret_said = *other;
                ret_said->what = RECORD_ABORTED;
                ret_said->cut = 0;
        }
        return other;
}

struct record_note *record_lie(struct record *const *records, uint32_t record_count,
        enum record_lie lie, uint64_t number, struct record_note *ret_said)
{
        uint64_t at_cut = 0;

        for (uint32_t i = 0; i < record_count; i++) {
                struct record *record = records[(number + i) % record_count];

                for (uint64_t k = 0; k < record->count; k++) {
                        struct record_note *note = &record->notes[k], *changed;

                        if (note->what == RECORD_BEGIN)
                                at_cut = note->cut;
                        if (k < number % 1000 * record->count / 2000 || !at_cut)
                                continue;
                        changed = lie_about(records, record_count, lie, note, ret_said);
                        if (changed)
                                return changed;
                }
        }
        return NULL;
}
