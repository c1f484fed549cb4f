/*
 * Logs in scenarios: batches by the steps of ring/log/batch.h; see world.h.
 *
 * A log's thread makes one batch after the other, and notes what each one gives: that is the disk.
 * Behind each batch it reads all keys at the batch's cut, in another way than a batch does. Where a
 * log is killed, the next one goes on from `durable`: the reaper's thread begins it, or the judge.
 *
 * What must hold: all batches up to one, put together by revision, are what was read at its cut; so
 * are those of a copy alone, at the cut of its last one, and from then on they stand for all. At
 * the end there are two more, one before the clients leave and the dead are reaped, and one behind
 * that. So a change that a batch of a thread may leave to the next one has to come with these.
 *
 * Always true: a thread touches no log but its own; the judge alone puts them together.
 */
#include <string.h>

#include "ring/log/batch.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/work.h"
#include "tests/model/world-core.h"

#define ENGINES_LOG MODEL_THREADS /* that of the reaper, and of the judge */

/* ---- a batch ---- */

/* A version that a batch gives lies still while it is given: its bytes follow each other. */
static uint32_t log_read_value(const struct sb_batch_entry *entry, enum world_key key)
{
        unsigned char value[VALUE_MAX];
        uint32_t tag;

        model_touch(entry->key, entry->key_len + entry->value_len);
        MODEL_CHECK(entry->key_len == world_key_len(key) &&
                    !memcmp(entry->key, world_key(key), entry->key_len));
        if (entry->kind != SB_VERSION_VALUE) {
                MODEL_CHECK(entry->kind == SB_VERSION_DELETED && !entry->value_len);
                return NO_TAG;
        }
        MODEL_CHECK(entry->value_len && entry->value_len <= VALUE_MAX);
        tag = (uint32_t)entry->value[0] - '0';
        world_fill_value(value, entry->value_len, key, tag);
        MODEL_CHECK(!memcmp(entry->value, value, entry->value_len));
        return tag;
}

/* WAY_MANY: there is room for one entry at a time. */
static bool log_take(const struct sb_batch_entry *entry, void *context)
{
        struct world_log *log = context;
        struct world_given *given = &log->given[log->given_count];
        struct world_batch *batch = &log->batches[log->batch_count - 1];
        uint32_t key;

        if (!log->room)
                return false;
        log->room -= log->narrow;
        key = (uint32_t)entry->key[0] - 'A';
        if (key >= WORLD_KEYS)
                return true; /* a rule's, or one that fills memory */
        if (log->given_count == LOG_GIVEN_MAX)
                model_fail("batches gave more versions than there were");
        MODEL_CHECK(entry->stamp <= batch->cut &&
                    (log->batch.whole || log->batch.copying || entry->stamp > batch->above));
        *given = (struct world_given){.key = (uint8_t)key,
                .rev = entry->rev,
                .cut = entry->stamp,
                .txn = entry->txn,
                .tag = log_read_value(entry, key)};
        log->given_count++;
        batch->count++;
        return true;
}

static int log_room(uint64_t size, void *context)
{
        struct world_log *log = context;

        MODEL_CHECK(size);
        log->room = 1;
        return 0;
}

static int log_read(struct sb_handle *handle, struct world_log *log)
{
        struct world_batch *batch = &log->batches[log->batch_count - 1];

        batch->first = log->given_count;
        batch->count = 0;
        return sb_batch_each(handle, &log->batch, log_take, log_room, log);
}

/* Whether a key may go before the log knows of that: where memory is short, and before there is a
 * log. */
static bool log_may_miss(void)
{
        return !spec()->logged || world_does(OP_PRESS);
}

/* All that is there at the cut; SB_E_LAPPED: the cut was taken away. */
static int log_read_all(struct sb_handle *handle, struct world_log *log, struct outcome *outcome)
{
        struct world_batch *batch = &log->batches[log->batch_count - 1];
        int r = log_read(handle, log);

        if (!r && sb_batch_turns_whole(handle, &log->batch)) {
                MODEL_CHECK(log_may_miss());
                batch->whole = true;
                r = log_read(handle, log);
                MODEL_CHECK(r || !sb_batch_turns_whole(handle, &log->batch));
        }
        MODEL_CHECK(!r || r == SB_E_LAPPED);
        if (r)
                return r;
        world_scan(handle, batch->cut, WORLD_KEYS, outcome);
        return !world_evicts() || sb_snapshot_holds(handle, log->batch.snapshot, batch->cut)
                       ? 0
                       : SB_E_LAPPED;
}

/* One batch, from its beginning to its end, with so many words of a copy, if one goes on. @durable:
 * the disk has taken it. */
static void log_batch_of(struct sb_handle *handle, struct world_log *log, uint32_t words,
        bool durable, struct outcome *outcome)
{
        struct world_batch *batch = &log->batches[log->batch_count];

        if (log->batch_count == LOG_BATCHES_MAX)
                model_fail("a log made more batches than there is place for");
        MODEL_CHECK(!sb_batch_begin(handle, &log->batch));
        sb_batch_copy_some(handle, &log->batch, words);
        *batch = (struct world_batch){.cut = log->batch.cut,
                .above = log->batch.above,
                .copies = log->batch.copying,
                .copy_begins = log->copy_begins};
        log->copy_begins = false;
        outcome->cut = outcome->read_cut = batch->cut;
        outcome->begun = true;
        log->room = 1;
        log->batch_count++;
        outcome->r = log_read_all(handle, log, outcome);
        batch->read = !outcome->r;
        memcpy(batch->seen, outcome->seen, sizeof batch->seen);
        memcpy(batch->tags, outcome->tags, sizeof batch->tags);
        batch->written = batch->read && durable;
        sb_batch_release(handle, &log->batch);
        sb_batch_tidy(handle, &log->batch);
        sb_batch_end(handle, &log->batch, batch->written);
        batch->copy_ends = batch->copies && !log->batch.copying;
        batch->ended = true;
}

static void log_batch(
        struct sb_handle *handle, struct world_log *log, bool durable, struct outcome *outcome)
{
        log_batch_of(handle, log, UINT32_MAX, durable, outcome);
}

/* A log that knows nothing of what another one had taken, but where that was durable. */
static void log_begin(struct sb_handle *handle, struct world_log *log)
{
        if (sb_batch_space(&handle->segment.geometry) > sizeof log->space)
                model_fail("the space of a batch is larger");
        memset(log->space, 0, sizeof log->space);
        sb_batch_init(&handle->segment, log->space,
                sb_load_acquire(&handle->segment.super->durable), &log->batch);
        log->open = true;
}

/* ---- what threads do ---- */

static void log_run(
        uint32_t me, struct sb_handle *handle, const struct world_op *op, struct outcome *outcome)
{
        struct world_log *log = &world.logs[me];
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++)
                outcome->done_all[key] = model_noted(NOTE_DONE + key);
        if (!log->open || op->way == WAY_PAST || op->way == WAY_SHORT)
                log_begin(handle, log);
        log->narrow = op->way == WAY_MANY;
        if (op->way == WAY_TURN || op->way == WAY_SEEK) {
                sb_batch_copy(&log->batch);
                log->copy_begins = log->batch.copying;
                log_batch_of(handle, log, op->way == WAY_SEEK, op->way == WAY_TURN, outcome);
                return;
        }
        log_batch(handle, log, op->way != WAY_BACK && op->way != WAY_SHORT, outcome);
}

bool world_log_run(
        uint32_t me, struct sb_handle *handle, const struct world_op *op, struct outcome *outcome)
{
        if (op->kind == OP_LOG) {
                log_run(me, handle, op, outcome);
                return true;
        }
        if (op->kind != OP_PRESS || op->way != WAY_MANY)
                return false;
        handle->work.pressed = true;
        sb_work_all(handle, true);
        handle->work.pressed = false;
        return true;
}

void world_log_reaped(struct sb_handle *engine, uint32_t dead)
{
        struct outcome outcome = {0};

        if (!world.logs[dead].open)
                return;
        log_begin(engine, &world.logs[ENGINES_LOG]);
        log_batch(engine, &world.logs[ENGINES_LOG], true, &outcome);
}

/* ---- at the start ---- */

void world_log_start(bool durable)
{
        uint32_t t;

        for (t = 0; t < MODEL_THREADS; t++) {
                struct outcome outcome = {0};

                if (!(spec()->logged >> t & 1))
                        continue;
                if (!world.logs[t].open)
                        log_begin(handle_of(t), &world.logs[t]);
                log_batch(handle_of(t), &world.logs[t], durable, &outcome);
        }
}

/* ---- at the end ---- */

/* What a disk has of a key; rev 0: nothing. */
struct log_key {
        uint64_t rev;
        uint32_t tag;
};

static bool is_written(enum world_op_kind kind)
{
        return is_write(kind) && kind != OP_ATTACH;
}

/* Of a key with a rule that keeps two versions, both are given. */
static void log_judge_kept(
        const struct world_log *log, const struct world_batch *batch, enum world_key key)
{
        uint32_t t, i, k;

        for (t = 0; t < MODEL_THREADS; t++)
                for (i = 0; i < WORLD_OPS; i++) {
                        const struct outcome *outcome = &world.outcomes[t][i];

                        if (!outcome->finished || outcome->r ||
                                !is_written(spec()->ops[t][i].kind) ||
                                spec()->ops[t][i].key != key || outcome->cut <= batch->above ||
                                outcome->cut > batch->cut || outcome->rev + 1 < batch->seen[key])
                                continue;
                        for (k = batch->first; k < batch->first + batch->count; k++)
                                if (log->given[k].key == key && log->given[k].rev == outcome->rev)
                                        break;
                        if (k == batch->first + batch->count)
                                model_fail("a batch at cut %lu lacks revision %lu of %s, which a "
                                           "rule keeps",
                                        (unsigned long)batch->cut, (unsigned long)outcome->rev,
                                        world_key(key));
                }
}

/* A batch is put to what the disk has. */
static void log_put(const struct world_log *log, const struct world_batch *batch,
        struct log_key disk[WORLD_KEYS])
{
        uint32_t i;

        if (batch->whole)
                memset(disk, 0, WORLD_KEYS * sizeof *disk);
        for (i = batch->first; i < batch->first + batch->count; i++) {
                const struct world_given *given = &log->given[i];

                if (given->rev >= disk[given->key].rev)
                        disk[given->key] = (struct log_key){given->rev, given->tag};
        }
}

/* Behind a batch, or the last one of a copy, the disk has what was there at its cut. */
static void log_judge_disk(
        const struct world_batch *batch, const struct log_key disk[WORLD_KEYS], const char *what)
{
        uint32_t key;

        for (key = 0; key < WORLD_KEYS; key++) {
                uint64_t rev = disk[key].tag == NO_TAG ? 0 : disk[key].rev;

                if (rev != batch->seen[key] || (rev && disk[key].tag != batch->tags[key]))
                        model_fail("at cut %lu %s is revision %lu, and the %s has %lu",
                                (unsigned long)batch->cut, world_key(key),
                                (unsigned long)batch->seen[key], what, (unsigned long)rev);
        }
}

static void log_judge_batch(const struct world_log *log, const struct world_batch *batch,
        struct log_key disk[WORLD_KEYS])
{
        uint32_t key;

        log_put(log, batch, disk);
        log_judge_disk(batch, disk, "log");
        for (key = 0; key < WORLD_KEYS && spec()->start == START_RULED; key++)
                log_judge_kept(log, batch, key);
}

/* The batches of one log. @next: the next one began above this cut: what is written and above that
 * is on the disk, or is not, as @all says. */
static void log_judge(
        const struct world_log *log, uint64_t next, bool all, struct log_key disk[WORLD_KEYS])
{
        struct log_key then[WORLD_KEYS], copy[WORLD_KEYS] = {{0}}, copy_then[WORLD_KEYS];
        uint32_t i;

        for (i = 0; i < log->batch_count; i++) {
                const struct world_batch *batch = &log->batches[i];

                if (batch->copy_begins)
                        memset(copy, 0, sizeof copy);
                memcpy(then, disk, sizeof then);
                memcpy(copy_then, copy, sizeof copy);
                if (batch->read) {
                        log_judge_batch(log, batch, then);
                        log_put(log, batch, copy_then);
                }
                if (!batch->written || (!all && batch->cut > next))
                        continue;
                memcpy(disk, then, sizeof then);
                memcpy(copy, copy_then, sizeof copy);
                if (batch->copy_ends) {
                        log_judge_disk(batch, copy, "copy");
                        memcpy(disk, copy, sizeof copy);
                }
        }
}

void world_log_judge(void)
{
        const struct world_log *engines = &world.logs[ENGINES_LOG];
        uint64_t next = engines->batch_count ? engines->batches[0].above : UINT64_MAX;
        uint32_t all, t;

        for (all = 0; all < 2; all++) {
                struct log_key disk[WORLD_KEYS] = {{0}};

                for (t = 0; t < MODEL_THREADS; t++)
                        log_judge(&world.logs[t], next, all, disk);
                log_judge(engines, UINT64_MAX, true, disk);
        }
}

bool world_log_stands(void)
{
        uint32_t t, count = 0;

        for (t = 0; t <= ENGINES_LOG; t++)
                count += world.logs[t].open;
        return count;
}

/* The log that goes on; NULL: it is dead or stopped, so another one begins. */
static struct world_log *log_alive(struct sb_handle **ret_handle)
{
        uint32_t t;

        for (t = 0; t < MODEL_THREADS; t++)
                if (world.logs[t].open && model_finished(t)) {
                        *ret_handle = handle_of(t);
                        return &world.logs[t];
                }
        return NULL;
}

void world_log_go_on(struct sb_handle *engine)
{
        struct world_log *log = &world.logs[ENGINES_LOG];
        struct outcome outcome = {0};
        struct sb_handle *handle = engine;

        if (!world_log_stands())
                return;
        if (!log->open)
                log = log_alive(&handle);
        if (!log) {
                log = &world.logs[ENGINES_LOG];
                log_begin(engine, log);
        }
        log_batch(handle, log, true, &outcome);
        world_log_judge();
}

void world_log_end(struct sb_handle *engine)
{
        struct world_log *log = &world.logs[ENGINES_LOG];
        struct outcome outcome = {0};

        if (!world_log_stands())
                return;
        if (!log->open)
                log_begin(engine, log);
        log_batch(engine, log, true, &outcome);
        world_log_judge();
}

uint64_t world_log_hash(uint64_t hash)
{
        uint32_t t, i;

        for (t = 0; t <= ENGINES_LOG; t++) {
                const struct world_log *log = &world.logs[t];

                if (!log->open)
                        continue;
                hash = hash * 31 + log->batch_count * 4 + log->batch.all * 2 + log->batch.held;
                hash = hash * 31 + log->batch.copy_next * 2 + log->batch.copying;
                hash = hash * 31 + (log->batch.above ^ log->batch.cut << 20);
                for (i = 0; i < LOG_SPACE; i++)
                        hash = (hash ^ log->space[i]) * UINT64_C(0x9e3779b97f4a7c15);
                for (i = 0; i < log->batch_count; i++)
                        hash = hash * 256 + log->batches[i].read * 8 + log->batches[i].written * 4 +
                               log->batches[i].ended * 2 + log->batches[i].whole +
                               log->batches[i].copies * 16 + log->batches[i].copy_begins * 32 +
                               log->batches[i].copy_ends * 64;
                for (i = 0; i < log->given_count; i++)
                        hash = (hash ^ log->given[i].rev ^ log->given[i].cut << 20 ^
                                       (uint64_t)log->given[i].key << 40) *
                               UINT64_C(0x9e3779b97f4a7c15);
        }
        return hash;
}
