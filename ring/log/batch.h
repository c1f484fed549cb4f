/*
 * A batch of the log: what changed between two cuts (model: feedx; the test model-batch).
 *
 * The log of a bus is a client with a handle of its own. Again and again it
 *
 *      begins      asks for all changes, announces a cut, asks for those above it; looks at what
 *                  notes show; takes the marks (notify/unlogged.h)
 *      reads       each marked key at the cut: its newest version, or all of them, where a rule or
 *                  a mark may keep them; of those, what is above the last cut
 *      asks        whether a key went before it was logged: then it reads all keys
 *      releases    its cut: what is replaced from here on can go while the disk works
 *      tidies      takes out what its cut alone had kept, which writers would come back for
 *      ends        once that is on the disk, with success; else the next batch has the same keys
 *
 * A process that is killed takes along what it has marked in its private list, so the next log's
 * first batch looks at all buckets, and reads what is above the last durable cut.
 *
 * So that old files can go, the log copies the bus now and then, a few buckets with each batch: a
 * batch has, besides the marked buckets, the next ones of the copy; and of a bucket that no durable
 * batch of this copy had, it reads all there is at its cut, marked or not. So of each key, the
 * first thing that the batches of a copy say is all of it, and behind the last bucket they are
 * together as good as the whole log. A log that begins anew begins the copy anew. (Model: feedx,
 * where a checkpoint's chunks stand in a file of their own.)
 *
 * Always true: all batches up to one together, or all from a finished copy's first one on, are
 * exactly the bus at the cut of that one: whole transactions, and no effect without its cause.
 */
#ifndef SB_RING_LOG_BATCH_H
#define SB_RING_LOG_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout/handle.h"

/* Versions of one key that are looked up at once. */
#define SB_BATCH_VERSIONS 64u

/* Buckets, as bits, and the list of the words that are not 0. */
struct sb_batch_marks {
        uint64_t *bits;
        uint32_t *words;
        uint32_t count;
};

struct sb_batch {
        uint64_t cut;   /* of the batch that is open */
        uint64_t above; /* versions up to this cut are logged */
        uint32_t snapshot;
        bool held, whole; /* held: its cut is announced */
        bool all;         /* what an earlier log had taken is not known: look at all buckets */
        struct sb_batch_marks marks, next; /* of this batch; for the next one */
        uint64_t *copied;   /* buckets of which a durable batch of this copy had everything */
        uint32_t copy_next; /* the words of buckets before this one are in a batch of the copy */
        bool copying;
        uint64_t walked; /* versions that it went by, ever */
};

/* One version. What it points at is valid while the callback runs. */
struct sb_batch_entry {
        const unsigned char *key, *value;
        uint64_t value_len, rev, stamp, txn; /* txn: 0: a plain write */
        uint64_t cell_number;
        uint32_t key_len;
        uint32_t kind;   /* SB_VERSION_VALUE, SB_VERSION_DELETED, SB_VERSION_EXPIRED */
        uint32_t writer; /* number of the client's record */
        bool born;       /* the key was made with it: nothing is missing below */
};

/* Take an entry. Called under a pin: it copies, and never waits. Return: false: there is no room;
 * then sb_batch_room() is called, not under a pin, and the entry comes again. */
typedef bool sb_batch_take(const struct sb_batch_entry *entry, void *context);
/* Make room for an entry with @size bytes of key and value. Return: 0, or what sb_batch_each()
 * answers. */
typedef int sb_batch_room(uint64_t size, void *context);

/* The bytes that a batch needs besides, private and zero. */
uint64_t sb_batch_space(const struct sb_geometry *geometry);
/* Begin to log: what is above @durable. */
void sb_batch_init(
        const struct sb_segment *segment, void *space, uint64_t durable, struct sb_batch *ret);

/* Begin a copy, between two batches. Not before the first durable batch, which is all that there is
 * anyway. */
void sb_batch_copy(struct sb_batch *batch);
/* The same, where the next batch has all of the copy, sb_batch_copy_some() of all words: also a
 * batch that looks at all buckets. */
void sb_batch_copy_once(struct sb_batch *batch);
/* The batch that is open has the next @words words of 64 buckets of the copy, too. Before
 * sb_batch_each(). `copying` ends with the durable batch that has the last of them. Cost: a few
 * steps for each word. */
void sb_batch_copy_some(const struct sb_handle *handle, struct sb_batch *batch, uint32_t words);

/* Begin a batch; not under a pin. Return: 0; SB_E_FULL: no announcement is free. Cost: a look at
 * all records that were ever used, and a few steps for each marked bucket. */
int sb_batch_begin(struct sb_handle *handle, struct sb_batch *batch);
/* Each version of the batch; of one key the oldest first. Not under a pin. May be called again, for
 * the same ones. Return: 0; SB_E_LAPPED: the engine took the announcement away: end it
 * without success; what sb_batch_room() said. */
int sb_batch_each(struct sb_handle *handle, struct sb_batch *batch, sb_batch_take *take,
        sb_batch_room *room, void *context);
/* Behind sb_batch_each(): whether keys went before they were logged, because memory was short. Then
 * the batch is all that there is at its cut: sb_batch_each() once more, and nothing that was logged
 * before counts. */
bool sb_batch_turns_whole(struct sb_handle *handle, struct sb_batch *batch);
/* Behind the last sb_batch_each(): all is read, and the cut is needed no more. Not under a pin. */
void sb_batch_release(struct sb_handle *handle, struct sb_batch *batch);
/* Behind that: take out of the chains of all buckets that have changed since the batch began what
 * no cut needs any more, of what was replaced behind the batch's cut. Writers left it there for
 * this batch, and each of them would come back for it, and could build none of its versions in it.
 * Not under a pin. Cost: a look at the open cuts, with a membarrier; a few steps for each such
 * bucket, however much other cuts keep below. */
void sb_batch_tidy(struct sb_handle *handle, const struct sb_batch *batch);
/* End the batch; not under a pin. Its cut is released, if it was not. @durable: it survives power
 * loss, and so is `durable` now; keys that it says are deleted begin to go. Else the next one has
 * the same keys. */
void sb_batch_end(struct sb_handle *handle, struct sb_batch *batch, bool durable);

#endif
