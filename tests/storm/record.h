/*
 * What the processes of a storm write down about their transactions, and the judgement on it.
 *
 * A seat is taken by one process after the other. Each seat has a record of its own in memory that
 * outlives its processes: a row of notes. A transaction is BEGIN, what it read and means to write,
 * TRY, and what became of it. A process that was killed leaves its last transaction without an end:
 * behind a TRY its outcome is unknown, until a read of what it wrote is found.
 *
 * The judge does not believe the bus where it can look itself: versions of a key are numbered by
 * what writers saw before (their revision is one more than the one they replaced) and by what
 * readers saw, with the writer's identity in the value. From that the history is made for
 * tests/harness/history/history.h. Beside it: each read at a cut is of the newest version not above
 * that cut; what one transaction wrote has one number and one cut, which commit returned.
 *
 * A life of a key (up to the delete that ends it) is an object of its own. That a key was absent
 * does not say between which lives; the cut does. A life that began and ended between a
 * transaction's cut and its commit does not matter to the transaction: absent is absent.
 */
#ifndef SB_TESTS_RECORD_H
#define SB_TESTS_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/harness/history/history.h"

#define RECORD_NOTES_MAX (1u << 21)
#define RECORD_SEATS     8u
#define RECORD_KEYS      64u

enum record_what {
        RECORD_BEGIN,  /* identity; number: when; cut: at which it reads, 0 for plain operations */
        RECORD_READ,   /* key, rev; identity: the writer's; number of its transaction; cut: of the
                          version */
        RECORD_ABSENT, /* key; at the transaction's cut there was none */
        RECORD_SET,    /* key, rev that it will have; 0: not known */
        RECORD_DELETE, /* key, rev */
        RECORD_TRY,    /* from here on it may be committed */
        RECORD_COMMITTED, /* number: when; cut: the first that contains it; rev: of a plain set */
        RECORD_ABORTED,   /* number: when */
};

struct record_note {
        uint64_t what : 8, key : 8, rev : 48;
        uint64_t identity, number, cut;
};

struct record {
        uint64_t count;      /* stored after the note */
        uint64_t identities; /* given to transactions so far */
        struct record_note notes[RECORD_NOTES_MAX];
};

/* Which transaction, or plain operation, as its values say: {seat + 1, number in the seat}. */
#define RECORD_IDENTITY(seat, number) (((uint64_t)(seat) + 1) << 40 | (number))

/* A killed process leaves a note wholly or not at all, and notes in the order of the program. */
static inline void record_add(struct record *record, struct record_note note)
{
        record->notes[record->count] = note;
        __atomic_store_n(&record->count, record->count + 1, __ATOMIC_RELEASE);
}

struct record_verdict {
        struct history_verdict history;
        bool right; /* the history is right, and nothing is said below */
        char text[256];
        uint64_t unknown;  /* transactions that perhaps committed */
        uint64_t believed; /* of unknown outcome until a read of what they wrote was found */
        uint64_t unseen;   /* writes that no process read */
        uint64_t aborted, absent, lives;
};

/* @tell: print what the transactions did that the verdict names. */
bool record_judge(struct record *const *records, uint32_t record_count, enum history_level level,
        bool tell, struct record_verdict *ret);

/* A note, and in @ret_said what it must say so that it says what did not happen; @number chooses
 * among many. Return: the note, or NULL: there is none. */
enum record_lie { RECORD_LIE_STALE, RECORD_LIE_ABORTED, RECORD_LIE_BOTH_WON, RECORD_LIE_ABSENT };
#define RECORD_LIES 4u
struct record_note *record_lie(struct record *const *records, uint32_t record_count,
        enum record_lie lie, uint64_t number, struct record_note *ret_said);

#endif
