/*
 * Loading: fills an empty segment with what a log or a checkpoint has stored of a bus, as that was
 * at one cut: keys, revisions, stamps, history, rules and marks. Recovery calls it for each stored
 * version; reading files is not its part.
 *
 *      sb_load_begin() -> each stored version: sb_load_version() -> sb_load_turn(), which
 *      is told the cut -> each stored version once more, floors, times -> sb_load_end()
 *
 * The stored versions are read twice, because rules and marks are stored keys too (layout/
 * reserved.h), and say how much of all other keys' past is kept. The first reading takes the bus's
 * own keys, of which the newest versions alone count, the second one all others; each passes over
 * what the other one takes, so the caller may hand over everything in both. Between the two, the
 * tables of rules and marks are made from their keys.
 *
 * The versions of one key come in ascending order. What is not newer than what the key has already
 * is a duplicate, and is passed over: so a checkpoint of which the parts were written at different
 * cuts, and then the log from the first of these cuts on, give the bus of the log's last cut.
 *
 * A version that another one replaces is kept where a rule or a mark of the bus at its cut keeps
 * it, else it is freed at once. A rule looks forward: what was replaced before any of the rules of
 * its key began goes, unless the bus still had it when it was copied. Where rules alone decide,
 * more may stay until memory is short or the engine sweeps. A deleted key is taken out as in a bus
 * that serves: its floor rises to its last revision. Where memory is so short that the loading
 * sweeps, a delete that a rule with a span, or the floor of history, lets go at the cut may go
 * before what replaced it is loaded: then the past behind that one is not known.
 *
 * Always true:
 *
 * - No other process maps the segment until sb_load_end(). So a version that is replaced here
 *   was never seen, and needs no grace period. A process that is killed on the way leaves a segment
 *   that is thrown away.
 *
 * - A link says TRIMMED wherever something may be missing behind it: unless the revisions on both
 *   sides follow each other or, at the end of a chain, the source knows that the key was made
 *   there. So a read of the past that goes by links is true or "not known" (history/past.h).
 *
 * - Keys of the second reading are in no order until sb_load_end(): it sorts them all, which costs
 * a fraction of what it costs to look for the place of each (keys/sorted.h). Until then only their
 *   names find them.
 *
 * - The clock is above every stamp that was loaded.
 *
 * - A call that fails has loaded nothing; the loading may go on behind it.
 *
 * Threads: one, the only one that uses the handle; it holds no pin.
 */
#ifndef SB_RING_LOG_LOAD_H
#define SB_RING_LOG_LOAD_H

#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/superblock.h"

/* So many versions lie between the two steps in which a key's memory comes. */
#define SB_LOAD_FETCH 8u

/* The highest cut, and so the highest stamp: above it there is room for as many, below what the
 * words take in which a cut stands beside flags (SB_ATTENTION_ALL is the lowest). */
#define SB_LOAD_CUT_MAX (SB_ATTENTION_ALL / 2)

/* A loading; its members are load.c's. */
struct sb_load {
        struct sb_handle *handle;
        uint64_t newest;      /* the highest stamp of what was loaded */
        uint64_t cut;         /* of the bus that is loaded; 0: the first reading is going on */
        uint64_t node_count;  /* that sb_load_end() has to link */
        uint64_t borrowed;    /* values that are in the reserve, at most */
        uint64_t rules_since; /* what was replaced later than this is in the past of a rule */
        uint64_t rule_went;   /* the last stamp at which a rule was taken away; 0: none was */
        uint64_t last_ns;     /* the latest real time at which a cut was taken */
        bool rule_begins;     /* one of them has no past yet */
        bool forward;         /* as in sb_load_words */
        uint32_t rest; /* so many versions without another sweep, for one has freed nothing */
        bool borrows;  /* this one may go into the reserve */
        uint64_t fetched[SB_LOAD_FETCH]; /* hashes of which the buckets are on their way */
        uint32_t fetched_count;
};

/* One stored version. */
struct sb_load_version {
        const void *key, *value;
        uint32_t key_len;
        uint32_t kind; /* SB_VERSION_VALUE, or SB_VERSION_DELETED with a value of 0 bytes */
        uint64_t value_len;
        uint64_t rev, stamp;
        uint64_t txn;  /* number of the transaction that wrote it; 0: none did */
        uint32_t slot; /* of the client that wrote it */
        bool born;     /* the key was made with it: where it was read, its link led to no other
                          version, and did not say TRIMMED */
        bool copied;   /* it was read in a copy of the bus: what it replaces was read there, too, if
                          it was there still */
};

/* What the stored bus says of itself at its cut. */
struct sb_load_words {
        uint64_t cut; /* nothing that is stored is stamped above it */
        /* Its words of these names (layout/superblock.h), read behind the last chain that was
         * stored; the first must not be lower than it was then, and of the second UINT64_MAX, which
         * costs watches the changes of before the cut, is right where it was not stored. */
        uint64_t history_floor, forgotten;
        /* For a bus that does not fit: what was replaced before the rule that applies now began
         * goes, whatever rule kept it then. */
        bool forward;
};

/* Begins. @handle is of the only record in use, and has written nothing. Keys that are removed keep
 * their floors only if the caller loads these; that is possible bucket by bucket where it made the
 * segment with the stored bus's seed (sb_load_floor_of()). Return: 0; -EEXIST: the segment is not
 * empty. */
int sb_load_begin(struct sb_handle *handle, struct sb_load *ret);

/* Loads one version, or passes over it. Return: 0; SB_E_FULL: no memory; -EMSGSIZE: the segment
 * takes no keys or values of this length; -EINVAL: a member makes no sense; -EBADMSG: it
 * contradicts what was loaded before (a newer revision with an older stamp, or the other way
 * round), or its stamp is above the cut; -EIO: the segment is damaged. Cost: as of a set; where
 * memory is short, that of a sweep. */
int sb_load_version(struct sb_load *load, const struct sb_load_version *version);

/* Has the memory come that sb_load_version() will read for a key: of the version that lies
 * 2 * SB_LOAD_FETCH behind the next one, each time. It changes nothing but the time that loading
 * takes. Cost: a hash. */
void sb_load_fetch(struct sb_load *load, const void *key, uint32_t key_len);

/* Ends the first reading and begins the second: makes the tables of rules and marks. Once.
 * Return: 0; -EBADMSG: something loaded so far is stamped above the cut, or a mark names a cut
 * above it; SB_E_FULL: the segment takes fewer marks than there are; -EINVAL: it was called
 * already, or the cut is below all cuts. Cost: a look at each rule and each mark. */
int sb_load_turn(struct sb_load *load, const struct sb_load_words *words);

/* Raises the floor of all keys of the bucket @which of a bus with @count buckets and this @seed:
 * the next life of one that the stored bus had, and that has no version, begins above @rev. With
 * another seed than the segment's, all floors rise. Return: 0; -EBADMSG: no bus has such a bucket
 * or such a revision. Cost: a look at each floor that it may raise. */
int sb_load_floor_of(
        struct sb_load *load, uint64_t seed, uint64_t which, uint64_t count, uint64_t rev);
/* Notes when a cut was taken, for reads by time and rules with a span; cuts ascend. */
void sb_load_time(struct sb_load *load, uint64_t cut, uint64_t realtime_ns);

/* Bytes of memory that sb_load_end() takes, called next: 16 for each key. Cost: a look at each. */
uint64_t sb_load_space(struct sb_load *load);
/* Ends: puts the keys in order, has the rules with a span cover no more than the stored bus had
 * certainly kept, raises the stable cut, and asks for a sweep. From here on the segment may be
 * served. @space: sb_load_space() bytes, aligned to 8; NULL: there are none, and the
 * keys are put in order one by one, which takes several times as long. Return: 0; -EINVAL: there
 * was no second reading. */
int sb_load_end(struct sb_load *load, void *space);

#endif
