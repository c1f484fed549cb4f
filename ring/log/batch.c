/* A batch of the log; see batch.h. */

#include "ring/log/batch.h"

#include <string.h>

#include "ring/log/chain.h"
#include "shm/base/fault.h"
#include "shm/base/model.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/block.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/help.h"
#include "shm/mvcc/snapshot.h"
#include "shm/mvcc/stamp.h"
#include "shm/notify/unlogged.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/prune.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/work.h"

#define BUCKETS_A_PIN 8u /* read under one pin: memory that others free waits for it */
/* Groups of so many buckets between two steps of fetching them. */
#define PIPE_APART  2u
#define PIPE_GROUPS 8u /* a power of two, with space for three such steps */

/* ---- marks ---- */

static uint64_t batch_words(const struct sb_geometry *geometry)
{
        return ((uint64_t)geometry->bucket_count + 63) / 64;
}

uint64_t sb_batch_space(const struct sb_geometry *geometry)
{
        return batch_words(geometry) * (3 * sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

void sb_batch_init(
        const struct sb_segment *segment, void *space, uint64_t durable, struct sb_batch *ret)
{
        uint64_t words = batch_words(&segment->geometry);

        *ret = (struct sb_batch){.above = durable, .all = !SB_FAULT(BATCH_ANEW_BY_MARKS)};
        ret->marks.bits = space;
        ret->next.bits = ret->marks.bits + words;
        ret->copied = ret->next.bits + words;
        ret->marks.words = (uint32_t *)(ret->copied + words);
        ret->next.words = ret->marks.words + words;
}

static void batch_mark_word(struct sb_batch_marks *marks, uint64_t word, uint64_t bits)
{
        if (!marks->bits[word])
                marks->words[marks->count++] = (uint32_t)word;
        marks->bits[word] |= bits;
}

static void batch_mark_cell(struct sb_batch_marks *marks, uint64_t cell_number)
{
        uint64_t bucket = cell_number / 8 - 1;

        batch_mark_word(marks, bucket / 64, UINT64_C(1) << (bucket % 64));
}

static void batch_clear(struct sb_batch_marks *marks)
{
        uint32_t i;

        for (i = 0; i < marks->count; i++)
                marks->bits[marks->words[i]] = 0;
        marks->count = 0;
}

/* All that is marked in @from is marked in @to. */
static void batch_add(struct sb_batch_marks *to, const struct sb_batch_marks *from)
{
        uint32_t i;

        for (i = 0; i < from->count; i++)
                batch_mark_word(to, from->words[i], from->bits[from->words[i]]);
}

/* ---- copies ---- */

void sb_batch_copy_once(struct sb_batch *batch)
{
        memset(batch->copied, 0,
                (size_t)((unsigned char *)batch->marks.words - (unsigned char *)batch->copied));
        batch->copy_next = 0;
        batch->copying = true;
}

void sb_batch_copy(struct sb_batch *batch)
{
        if (!batch->all)
                sb_batch_copy_once(batch);
}

void sb_batch_copy_some(const struct sb_handle *handle, struct sb_batch *batch, uint32_t words)
{
        uint64_t count = batch_words(&handle->segment.geometry);

        for (; batch->copying && words && batch->copy_next < count; words--, batch->copy_next++)
                if (~batch->copied[batch->copy_next])
                        batch_mark_word(
                                &batch->marks, batch->copy_next, ~batch->copied[batch->copy_next]);
}

/* Whether everything in a bucket is to be read. Fault BATCH_COPY_IN_PART: of what is marked, what
 * is above the last cut. */
static bool batch_is_full(const struct sb_batch *batch, uint64_t bucket)
{
        bool part = SB_FAULT(BATCH_COPY_IN_PART) && bucket / 64 >= batch->copy_next;

        return batch->whole ||
               (batch->copying && !part && !(batch->copied[bucket / 64] >> bucket % 64 & 1));
}

/* What a durable batch has had of the copy. */
static void batch_count_copied(
        const struct sb_handle *handle, struct sb_batch *batch, const struct sb_batch_marks *marks)
{
        uint32_t i;

        for (i = 0; i < marks->count; i++)
                batch->copied[marks->words[i]] |= marks->bits[marks->words[i]];
        if (batch->copy_next >= batch_words(&handle->segment.geometry) || batch->whole)
                batch->copying = false;
}

/* ---- beginning ---- */

static void batch_visit_node(struct sb_handle *handle, struct sb_node *node, void *context)
{
        struct sb_batch *batch = context;
        uint64_t cell_number = sb_pin_load(handle, &node->cell);

        if (sb_cell_at(&handle->segment, cell_number))
                batch_mark_cell(&batch->marks, cell_number);
}

static void batch_visit_word(void *context, uint64_t word, uint64_t bits)
{
        struct sb_batch *batch = context;

        batch_mark_word(&batch->marks, word, bits);
}

/* Announce a cut and take it, while all changes are told. That is more than is needed: a process
 * that knows the last cut alone has installed its change before this one is said, so the batch sees
 * it, and leaves to the next one what is above its cut. Fault BATCH_UNHELD: nothing is announced.
 * Fault BATCH_ASKS_LATE: changes are told that replace what is not above the clock of before. */
static int batch_take_cut(struct sb_handle *handle, struct sb_batch *batch)
{
        const struct sb_segment *segment = &handle->segment;
        int r;

        sb_unlogged_ask_all(segment);
        r = sb_snapshot_open(handle, &batch->snapshot, &batch->cut);
        if (r)
                return r;
        if (SB_FAULT(BATCH_UNHELD))
                sb_snapshot_close(handle, batch->snapshot);
        /* Fault BATCH_ASKS_LATE: what replaced versions above the cut is not told either. */
        sb_unlogged_ask_above(segment, batch->cut - (SB_FAULT(BATCH_ASKS_LATE) ? 1 : 0));
        return 0;
}

int sb_batch_begin(struct sb_handle *handle, struct sb_batch *batch)
{
        int r = batch_take_cut(handle, batch);

        if (r)
                return r;
        batch->held = true;
        batch->whole = false;
        if (SB_FAULT(BATCH_NOTES_LATE))
                sb_unlogged_take(&handle->segment, batch_visit_word, batch);
        /* Before the marks: a writer marks before its note goes. So what has no note any more by
         * now is marked. */
        sb_stable_look(handle, batch_visit_node, batch);
        if (!SB_FAULT(BATCH_NOTES_LATE))
                sb_unlogged_take(&handle->segment, batch_visit_word, batch);
        return 0;
}

/* ---- what went before it was logged ---- */

/* Asked behind the last look at a key: one that went before that look said so before it went. */
static void batch_ask_whole(struct sb_handle *handle, struct sb_batch *batch)
{
        /* A:forgotten. */
        uint64_t forgotten = sb_load_acquire(&handle->segment.super->forgotten);

        if (forgotten > batch->above && !SB_FAULT(BATCH_NEVER_WHOLE))
                batch->whole = true;
}

/* ---- reading ---- */

struct batch_sink {
        sb_batch_take *take;
        sb_batch_room *room;
        void *context;
};

/* The oldest versions of a key that are to be logged, above a revision. */
struct batch_found {
        uint64_t at[SB_BATCH_VERSIONS]; /* offsets; the last of them in a circle */
        uint64_t stamp[SB_BATCH_VERSIONS];
        uint64_t count; /* ever found */
        bool whole;     /* from the head on */
        struct sb_chain chain;
};

/* Whether more than the newest version of a key may be kept. Fault BATCH_NEWEST_ALONE: that is not
 * asked. */
static bool batch_is_kept(const struct sb_segment *segment, uint64_t word)
{
        /* A:mark. A mark that is made meanwhile is of a later cut: it says so before it takes that.
         */
        return ((word & SB_CELL_KEPT) || sb_load_acquire(&segment->super->mark_high)) &&
               !SB_FAULT(BATCH_NEWEST_ALONE);
}

/* What is to be logged of the key in a cell, with revisions above @rev. Under a pin. */
static void batch_find(struct sb_handle *handle, struct sb_batch *batch, uint64_t cell_number,
        uint64_t rev, struct batch_found *ret)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_word64 *cell = sb_cell_at(segment, cell_number);
        uint64_t word = cell ? sb_pin_load(handle, cell) : 0, last = 0;
        uint64_t left = sb_damage_bound(segment), from = sb_chain_begin(&ret->chain, rev);
        struct sb_version *version = sb_version_at(segment, from ? from : word & SB_OFFSET_MASK);
        bool kept = batch_is_kept(segment, word), full = batch_is_full(batch, cell_number / 8 - 1);

        ret->whole = !from;
        ret->count = 0;
        /* Bound: damage. A chain that goes round. */
        while (version && sb_version_fits(segment, version) && sb_damage_step(handle, &left) &&
                SB_SHAPE_KIND(version->shape) != SB_VERSION_PLACEHOLDER) {
                struct sb_settled settled = sb_stamp_settle(handle, version);
                bool committed = settled.outcome == SB_OUTCOME_COMMITTED;

                /* As in every read at a cut: if it commits, it is in the cut. */
                if (settled.outcome == SB_OUTCOME_UNDECIDED && settled.stamp &&
                        settled.stamp <= batch->cut) {
                        sb_help_version(handle, version);
                        continue;
                }
                if (committed && settled.stamp > batch->cut) {
                        if (!SB_FAULT(BATCH_CARRIES_NOTHING))
                                batch_mark_cell(&batch->next, cell_number);
                } else if (committed) {
                        if (settled.stamp <= batch->above && !full)
                                break;
                        if (version->rev <= rev)
                                break;
                        /* A version that moves is there twice. */
                        if (version->rev != last) {
                                ret->at[ret->count % SB_BATCH_VERSIONS] =
                                        sb_offset_of(segment, version);
                                ret->stamp[ret->count++ % SB_BATCH_VERSIONS] = settled.stamp;
                        }
                        last = version->rev;
                        if (!kept)
                                break;
                        if (SB_UNLIKELY(ret->count > SB_BATCH_VERSIONS))
                                sb_chain_pass(
                                        &ret->chain, sb_offset_of(segment, version), version->rev);
                }
                batch->walked++;
                version = sb_version_at(
                        segment, sb_pin_load(handle, &version->prev) & SB_OFFSET_MASK);
        }
        if (ret->count)
                sb_chain_end(&ret->chain);
        else
                sb_chain_forget(&ret->chain); /* damage: the place led to no version */
}

/* Whether a key's life began with this version, and nothing was ever taken out below it. */
static bool batch_is_first(struct sb_handle *handle, const struct sb_version *version)
{
        uint64_t link = sb_pin_load(handle, &version->prev);
        const struct sb_version *below = sb_version_at(&handle->segment, link & SB_OFFSET_MASK);

        return !(link & SB_PREV_TRIMMED) &&
               (!below || SB_SHAPE_KIND(below->shape) == SB_VERSION_PLACEHOLDER);
}

/* What a version says. False: it lies wrong. */
static bool batch_describe(struct sb_handle *handle, uint64_t at, uint64_t stamp,
        uint64_t cell_number, struct sb_batch_entry *ret)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_version *version = sb_version_at(segment, at);
        uint64_t shape = version ? sb_version_shape(segment, version) : 0;

        if (!version || !shape)
                return false;
        *ret = (struct sb_batch_entry){.key = version->bytes,
                .key_len = SB_SHAPE_KEY_LEN(shape),
                .value = version->bytes + SB_SHAPE_KEY_LEN(shape),
                .value_len = SB_SHAPE_VALUE_LEN(shape),
                .rev = version->rev,
                .stamp = stamp,
                .cell_number = cell_number,
                .kind = SB_SHAPE_KIND(shape) & SB_VERSION_KIND,
                .writer = SB_SHAPE_WRITER(shape),
                .born = batch_is_first(handle, version)};
        if (SB_SHAPE_KIND(shape) & SB_VERSION_HAS_TXN)
                memcpy(&ret->txn, ret->value + ret->value_len, SB_TRAILER_TXN);
        return true;
}

#define AGAIN (-1) /* there is more of the key: look again; otherwise 0, or what the room said */

/* Give what was found, oldest first. *ret_rev: of the last one that was taken. */
static int batch_give(struct sb_handle *handle, uint64_t cell_number, struct batch_found *found,
        const struct batch_sink *sink, uint64_t *ret_rev)
{
        uint64_t left = found->count < SB_BATCH_VERSIONS ? found->count : SB_BATCH_VERSIONS;
        uint64_t i = found->count;
        struct sb_batch_entry entry;
        int r;

        for (; left; left--) {
                i--;
                if (!batch_describe(handle, found->at[i % SB_BATCH_VERSIONS],
                            found->stamp[i % SB_BATCH_VERSIONS], cell_number, &entry))
                        return 0;
                if (!sink->take(&entry, sink->context)) {
                        sb_chain_forget(&found->chain);
                        sb_unpin(handle);
                        r = sink->room(entry.key_len + entry.value_len, sink->context);
                        sb_pin(handle);
                        return r ? r : AGAIN;
                }
                *ret_rev = entry.rev;
                /* Once it is durable, the key can go: no other process comes back for it. */
                if (entry.kind != SB_VERSION_VALUE)
                        sb_limbo_later(handle, cell_number, entry.stamp);
        }
        return found->count > SB_BATCH_VERSIONS || !found->whole ? AGAIN : 0;
}

/* What one cell leads to. */
static int batch_cell(struct sb_handle *handle, struct sb_batch *batch, uint64_t cell_number,
        const struct batch_sink *sink)
{
        struct batch_found found;
        uint64_t rev = 0;
        int r;

        sb_chain_forget(&found.chain);
        do {
                batch_find(handle, batch, cell_number, rev, &found);
                r = batch_give(handle, cell_number, &found, sink, &rev);
        } while (r == AGAIN);
        return r;
}

/* The cells of one bucket. */
static int batch_bucket(struct sb_handle *handle, struct sb_batch *batch, uint64_t bucket,
        const struct batch_sink *sink)
{
        uint32_t index;
        int r = 0;

        for (index = 0; index < SB_BUCKET_CELLS && !r; index++)
                r = batch_cell(handle, batch, SB_CELL_NUMBER(bucket, index), sink);
        return r;
}

/* ---- the buckets of a batch ---- */

/* The next so many of them; they are read under one pin. */
struct batch_group {
        uint64_t buckets[BUCKETS_A_PIN];
        uint32_t count;
};

/* All marked buckets, or all that there are. */
struct batch_walk {
        const struct sb_batch *batch;
        uint64_t next, end; /* of the words of marks, or of all words */
        uint64_t word, bits;
        bool all;
};

static bool batch_next_word(struct batch_walk *walk)
{
        const struct sb_batch_marks *marks = &walk->batch->marks;

        if (walk->next == walk->end)
                return false;
        walk->word = walk->all ? walk->next : marks->words[walk->next];
        walk->bits = walk->all ? UINT64_MAX : marks->bits[walk->word];
        walk->next++;
        return true;
}

static void batch_next_group(
        const struct sb_segment *segment, struct batch_walk *walk, struct batch_group *ret)
{
        ret->count = 0;
        while (ret->count < BUCKETS_A_PIN && (walk->bits || batch_next_word(walk))) {
                uint64_t bucket;

                if (!walk->bits)
                        continue;
                bucket = walk->word * 64 + (uint64_t)__builtin_ctzll(walk->bits);
                walk->bits &= walk->bits - 1;
                if (bucket >= segment->bucket_count)
                        continue; /* the marks are input */
                ret->buckets[ret->count++] = bucket;
        }
}

static void batch_fetch_buckets(const struct sb_segment *segment, const struct batch_group *group)
{
        uint32_t i;

        for (i = 0; i < group->count; i++)
                sb_prefetch(&segment->buckets[group->buckets[i]]);
}

/* What a cell of a group leads to, as a hint: it may be free memory by now. 0: nothing. */
static uint64_t batch_peek(
        const struct sb_segment *segment, const struct batch_group *group, uint32_t cell)
{
        uint64_t bucket = group->buckets[cell / SB_BUCKET_CELLS];

        /* Relaxed: a hint. */
        return sb_load_relaxed(&segment->buckets[bucket].cell[cell % SB_BUCKET_CELLS]) &
               SB_OFFSET_MASK;
}

/* Then what a group's buckets lead to: all misses at once. */
static void batch_fetch(const struct sb_segment *segment, const struct batch_group *group)
{
        uint32_t cell;

        sb_model_unchecked_begin();
        for (cell = 0; cell < group->count * SB_BUCKET_CELLS; cell++) {
                uint64_t at = batch_peek(segment, group, cell);

                if (!at)
                        continue;
                sb_prefetch(segment->base + at);
                sb_prefetch(segment->base + at + SB_LINE);
        }
        sb_model_unchecked_end();
}

/* Then what these replaced: batch_is_first() looks there. */
static void batch_fetch_below(const struct sb_segment *segment, const struct sb_batch *batch,
        const struct batch_group *group)
{
        uint32_t cell;

        sb_model_unchecked_begin();
        for (cell = 0; cell < group->count * SB_BUCKET_CELLS; cell++) {
                const struct sb_version *version =
                        sb_version_at(segment, batch_peek(segment, group, cell));

                /* Relaxed, both: hints. */
                if (version && sb_load_relaxed(&version->stamp) > batch->above)
                        sb_prefetch(
                                segment->base + (sb_load_relaxed(&version->prev) & SB_OFFSET_MASK));
        }
        sb_model_unchecked_end();
}

/* Groups on their way: before one is read, those behind it are fetched, each by one step more. */
struct batch_pipe {
        struct batch_group groups[PIPE_GROUPS];
        uint64_t at; /* of the group that is filled next */
};

static struct batch_group *batch_pipe_group(struct batch_pipe *pipe, uint64_t before)
{
        return &pipe->groups[(pipe->at - before) % PIPE_GROUPS];
}

/* The next group was filled. Return: the one that is to be read now; NULL: none is that far. */
static const struct batch_group *batch_pipe_step(
        const struct sb_segment *segment, const struct sb_batch *batch, struct batch_pipe *pipe)
{
        const struct batch_group *read = NULL;

        batch_fetch_buckets(segment, batch_pipe_group(pipe, 0));
        if (pipe->at >= PIPE_APART)
                batch_fetch(segment, batch_pipe_group(pipe, PIPE_APART));
        if (pipe->at >= 2 * PIPE_APART)
                batch_fetch_below(segment, batch, batch_pipe_group(pipe, 2 * PIPE_APART));
        if (pipe->at >= 3 * PIPE_APART)
                read = batch_pipe_group(pipe, 3 * PIPE_APART);
        pipe->at++;
        batch_pipe_group(pipe, 0)->count = 0;
        return read;
}

static int batch_read_group(struct sb_handle *handle, struct sb_batch *batch,
        const struct batch_group *group, const struct batch_sink *sink)
{
        uint32_t i;
        int r = 0;

        sb_pin(handle);
        for (i = 0; i < group->count && !r; i++)
                r = batch_bucket(handle, batch, group->buckets[i], sink);
        sb_unpin(handle);
        return r;
}

int sb_batch_each(struct sb_handle *handle, struct sb_batch *batch, sb_batch_take *take,
        sb_batch_room *room, void *context)
{
        const struct batch_sink sink = {.take = take, .room = room, .context = context};
        const struct sb_segment *segment = &handle->segment;
        struct batch_walk walk = {.batch = batch, .all = batch->all || batch->whole};
        struct batch_pipe pipe = {.at = 0};
        const struct batch_group *group;
        int r = 0;

        if (SB_FAULT(BATCH_WHOLE_EARLY))
                batch_ask_whole(handle, batch);
        walk.end = walk.all ? batch_words(&segment->geometry) : batch->marks.count;
        do {
                batch_next_group(segment, &walk, batch_pipe_group(&pipe, 0));
                group = batch_pipe_step(segment, batch, &pipe);
                if (group)
                        r = batch_read_group(handle, batch, group, &sink);
        } while (!r && (!group || group->count));
        if (!r && !sb_snapshot_holds(handle, batch->snapshot, batch->cut) &&
                !SB_FAULT(BATCH_UNHELD))
                r = SB_E_LAPPED;
        return r;
}

bool sb_batch_turns_whole(struct sb_handle *handle, struct sb_batch *batch)
{
        bool was = batch->whole;

        if (!SB_FAULT(BATCH_WHOLE_EARLY))
                batch_ask_whole(handle, batch);
        return batch->whole && !was;
}

/* ---- tidying ---- */

struct batch_tidy {
        struct sb_handle *handle;
        const struct sb_batch *batch;
        struct batch_pipe pipe;
};

/* Whether something may be taken out of a cell's chain by a walk down it. Of what stays by its
 * number, writers see to it themselves. Under a pin. */
static bool batch_is_untidy(struct sb_handle *handle, uint64_t cell_number)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_word64 *cell = sb_cell_at(segment, cell_number);
        uint64_t word = cell ? sb_pin_load(handle, cell) : 0;
        struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);

        return version && !(word & (SB_CELL_KEPT | SB_CELL_WATCHED)) &&
               sb_version_fits(segment, version) &&
               (sb_pin_load(handle, &version->prev) & SB_OFFSET_MASK);
}

static void batch_tidy_group(
        struct sb_handle *handle, const struct sb_batch *batch, const struct batch_group *group)
{
        uint32_t i;

        sb_pin(handle);
        for (i = 0; i < group->count * SB_BUCKET_CELLS; i++) {
                uint64_t number =
                        SB_CELL_NUMBER(group->buckets[i / SB_BUCKET_CELLS], i % SB_BUCKET_CELLS);

                if (batch_is_untidy(handle, number))
                        sb_prune_since(handle, number, batch->cut);
        }
        sb_unpin(handle);
        sb_work_due(handle);
}

static void batch_tidy_step(struct batch_tidy *tidy)
{
        const struct batch_group *group =
                batch_pipe_step(&tidy->handle->segment, tidy->batch, &tidy->pipe);

        if (group)
                batch_tidy_group(tidy->handle, tidy->batch, group);
}

static void batch_tidy_word(void *context, uint64_t word, uint64_t bits)
{
        struct batch_tidy *tidy = context;

        for (; bits; bits &= bits - 1) {
                struct batch_group *group = batch_pipe_group(&tidy->pipe, 0);
                uint64_t bucket = word * 64 + (uint64_t)__builtin_ctzll(bits);

                if (bucket >= tidy->handle->segment.bucket_count)
                        return; /* the marks are input */
                group->buckets[group->count++] = bucket;
                if (group->count == BUCKETS_A_PIN)
                        batch_tidy_step(tidy);
        }
}

void sb_batch_tidy(struct sb_handle *handle, const struct sb_batch *batch)
{
        struct batch_tidy tidy = {.handle = handle, .batch = batch};
        uint32_t i;

        /* Fault BATCH_TIDIES_HELD: by the cuts that were open before. */
        if (!SB_FAULT(BATCH_TIDIES_HELD))
                sb_horizon_renew(handle);
        /* Fault BATCH_TIDY_TAKES: the next batch does not get the marks. */
        (SB_FAULT(BATCH_TIDY_TAKES) ? sb_unlogged_take : sb_unlogged_look)(
                &handle->segment, batch_tidy_word, &tidy);
        for (i = 0; i <= 3 * PIPE_APART; i++)
                batch_tidy_step(&tidy);
}

/* ---- ending ---- */

/* What a batch has that did not become durable is the next one's. Faults BATCH_FAILED_LEFT,
 * BATCH_ALL_ONCE: its marks, or what it was to look at without marks, are not. */
static void batch_leave_to_next(struct sb_batch *batch, const struct sb_batch_marks *marks)
{
        if (!SB_FAULT(BATCH_FAILED_LEFT))
                batch_add(&batch->next, marks);
        if (SB_FAULT(BATCH_ALL_ONCE))
                batch->all = false;
}

void sb_batch_release(struct sb_handle *handle, struct sb_batch *batch)
{
        if (!batch->held)
                return;
        if (!SB_FAULT(BATCH_UNHELD))
                sb_snapshot_close(handle, batch->snapshot);
        /* Writers look for the open cuts again where the clock has moved. Until then each of them
         * keeps what this cut needed. Fault BATCH_RELEASE_UNSAID: it stands still. */
        if (!SB_FAULT(BATCH_RELEASE_UNSAID))
                (void)sb_clock_take_cut(handle);
        batch->held = false;
}

void sb_batch_end(struct sb_handle *handle, struct sb_batch *batch, bool durable)
{
        struct sb_batch_marks marks = batch->marks;

        sb_batch_release(handle, batch);
        if (durable || SB_FAULT(BATCH_COPY_FAILED_COUNTS))
                batch_count_copied(handle, batch, &marks);
        if (durable) {
                batch_clear(&marks);
                batch->above = batch->cut;
                batch->all = false;
                /* R:durable > A:durable. What survives was acknowledged by the disk. */
                sb_store_release(&handle->segment.super->durable, batch->cut);
        } else {
                batch_leave_to_next(batch, &marks);
                batch_clear(&marks);
        }
        batch->marks = batch->next;
        batch->next = marks;
        (void)sb_work_lists(handle);
}
