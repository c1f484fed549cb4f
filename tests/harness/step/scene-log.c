/*
 * The log in a scene: batches by the steps of ring/log/batch.h, and a disk; see scene.h.
 *
 * The disk has each key as the batches say so far. There are two copies of it: a batch fills the
 * one that does not count, and one store says that it counts from there on. So whatever instruction
 * kills a log, the disk has a batch whole or not at all. Of a copy it has what the copy's batches
 * say alone: with the last of them that is all that the disk has.
 *
 * Always true: what a log reads at its cut in another way is what its disk is about to have. That
 * is not asked of the client that is stepped: the stories say what its batches give.
 */
#include <string.h>

#include "ring/log/batch.h"
#include "shm/base/assert.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"
#include "shm/upkeep/work.h"
#include "tests/harness/step/scene.h"

#define BAD_ENTRY (-1010) /* a batch gives what is no key's value; no call has these results */
#define BAD_DISK  (-1011) /* the disk is not the bus at the cut */
#define BAD_WHOLE (-1012) /* a batch is whole twice */
#define BAD_COPY  (-1013) /* a copy that is whole is not what the disk has */

static struct fact *disk_staged(struct scene *of)
{
        return of->disk.facts[!of->disk.current];
}

static uint32_t key_of(const struct sb_batch_entry *entry)
{
        uint32_t key = 0;

        while (key < SCENE_KEYS &&
                (scene_key(key).len != entry->key_len ||
                        memcmp(scene_key(key).data, entry->key, entry->key_len) != 0))
                key++;
        return key;
}

static struct fact fact_of(const struct sb_batch_entry *entry)
{
        struct fact fact = {.state = FACT_VALUE,
                .tag = entry->value_len ? entry->value[0] : 0,
                .len = (uint32_t)entry->value_len,
                .rev = entry->rev};

        if (entry->kind != SB_VERSION_VALUE)
                return (struct fact){0};
        if (memcmp(entry->value, scene_value(fact.tag), entry->value_len) != 0)
                fact.state = FACT_BROKEN;
        return fact;
}

static struct fact *copy_staged(struct scene *of)
{
        return of->disk.copy[!of->disk.current];
}

static bool take(const struct sb_batch_entry *entry, void *context)
{
        struct scene *of = context;
        uint32_t key = key_of(entry);

        if (key < of->key_count)
                disk_staged(of)[key] = copy_staged(of)[key] = fact_of(entry);
        return true;
}

static int room(uint64_t size, void *context)
{
        (void)size, (void)context;
        return BAD_ENTRY;
}

static int read_batch(
        struct scene *of, struct sb_handle *handle, struct sb_batch *batch, bool copy_begins)
{
        int r;

        memcpy(disk_staged(of), of->disk.facts[of->disk.current], sizeof(of->disk.facts[0]));
        if (copy_begins)
                memset(copy_staged(of), 0, sizeof(of->disk.copy[0]));
        else
                memcpy(copy_staged(of), of->disk.copy[of->disk.current], sizeof(of->disk.copy[0]));
        r = sb_batch_each(handle, batch, take, room, of);
        if (r || !sb_batch_turns_whole(handle, batch))
                return r;
        memset(disk_staged(of), 0, sizeof(of->disk.facts[0]));
        memset(copy_staged(of), 0, sizeof(of->disk.copy[0]));
        r = sb_batch_each(handle, batch, take, room, of);
        return r || !sb_batch_turns_whole(handle, batch) ? r : BAD_WHOLE;
}

/* Whether what is staged is the bus at the cut. */
static int judge(struct scene *of, const struct sb_batch *batch)
{
        struct fact facts[SCENE_KEYS];

        scene_observe(of, batch->cut, facts);
        for (uint32_t key = 0; key < of->key_count; key++)
                if (!scene_fact_equal(&facts[key], &disk_staged(of)[key], true))
                        return BAD_DISK;
        return 0;
}

/* Whether the copy that has just ended is what the disk has. If not, each later batch says so: what
 * is wrong without an interruption is wrong in all stories. */
static void judge_copy(struct scene *of)
{
        const uint32_t current = of->disk.current;

        for (uint32_t key = 0; key < of->key_count; key++)
                if (!scene_fact_equal(
                            &of->disk.copy[current][key], &of->disk.facts[current][key], true))
                        of->disk.copied_wrong = true;
}

/* It stands alone: a log begins where the one before it is over. */
static void begin(struct scene *of, uint32_t actor)
{
        struct scene_log *log = &of->log[actor];
        struct sb_handle *handle = scene_handle(of, actor);

        for (uint32_t i = 0; i < SCENE_PEERS; i++)
                of->log[i].stands = false;
        sb_assert(sb_batch_space(&handle->segment.geometry) <= sizeof(log->space));
        memset(log->space, 0, sizeof(log->space));
        sb_batch_init(&handle->segment, log->space,
                sb_load_acquire(&handle->segment.super->durable), &log->batch);
        log->stands = true;
}

bool scene_log(struct scene *of, const struct act *act, struct result *ret)
{
        struct scene_log *log = &of->log[act->actor];
        struct sb_handle *handle = scene_handle(of, act->actor);
        bool durable = !(act->len & LOG_FAILS), copies, copy_begins;

        if (act->kind == PRESSED) {
                handle->work.pressed = true;
                sb_work_all(handle, true);
                handle->work.pressed = false;
                return true;
        }
        if (act->kind != LOG)
                return false;
        if (!log->stands || (act->len & LOG_ANEW))
                begin(of, act->actor);
        copy_begins = (act->len & LOG_COPIES) && !log->batch.copying;
        if (copy_begins)
                sb_batch_copy(&log->batch);
        copy_begins &= log->batch.copying;
        copies = log->batch.copying;
        ret->code = sb_batch_begin(handle, &log->batch);
        if (ret->code)
                return true;
        if (copies)
                sb_batch_copy_some(handle, &log->batch, !copy_begins);
        ret->code = read_batch(of, handle, &log->batch, copy_begins);
        if (!ret->code && act->actor != of->stepped)
                ret->code = judge(of, &log->batch);
        if (!ret->code)
                memcpy(ret->seen, disk_staged(of), sizeof(ret->seen));
        sb_batch_release(handle, &log->batch);
        sb_batch_tidy(handle, &log->batch);
        if (!ret->code && durable)
                of->disk.current = !of->disk.current;
        sb_batch_end(handle, &log->batch, !ret->code && durable);
        if (copies && !log->batch.copying && !ret->code)
                judge_copy(of);
        if (of->disk.copied_wrong)
                ret->code = BAD_COPY;
        return true;
}
