/* Transactions as acts of a scene; see scene.h. */
#include "ring/op/commit.h"
#include "ring/op/get.h"
#include "shm/base/bytes.h"
#include "shm/base/result.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/memory/guard.h"
#include "shm/mvcc/snapshot.h"
#include "shm/upkeep/work.h"
#include "tests/harness/step/scene.h"

#define ATTEMPTS_MAX 30u
#define GUARD_GET    0u /* as scene-acts.c's */

/* All of this lies on the stack: another client's act may come in between at any instruction. */
struct txn {
        const struct act *act;
        uint32_t snapshot;
        uint64_t cut;
        struct sb_commit_write writes[SCENE_KEYS];
        struct sb_commit_range ranges[SCENE_KEYS];
        uint32_t write_count, range_count;
        struct fact seen[SCENE_KEYS]; /* at the cut */
        struct fact past[SCENE_KEYS]; /* RESTORE: at the cut of the snapshot */
};

static bool written(const struct act *act, uint32_t key)
{
        return key >= act->key && key < act->key + TXN_KEYS(act->len);
}

static int read_key(struct scene *scene, const struct txn *txn, uint32_t key, uint32_t snapshot,
        uint64_t cut, struct fact *ret)
{
        struct sb_handle *handle = scene_handle(scene, txn->act->actor);
        struct sb_bytes name = scene_key(key);
        struct sb_version *version;
        int r = sb_op_get_at(
                handle, name.data, (uint32_t)name.len, snapshot, cut, GUARD_GET, &version);

        if (r == SB_E_NOT_FOUND)
                return 0;
        if (r)
                return r;
        *ret = scene_fact_of(scene, version, key);
        sb_guard_set(handle, GUARD_GET, 0);
        return 0;
}

/* Reads what the writes depend on: all keys when serializable, else the keys that it writes. */
static int read_keys(struct scene *scene, struct txn *txn)
{
        const struct act *act = txn->act;
        uint32_t key;
        int r = 0;

        for (key = 0; key < scene->key_count && !r; key++) {
                if (!written(act, key) && !(act->len & TXN_SERIALIZABLE))
                        continue;
                r = read_key(scene, txn, key, txn->snapshot, txn->cut, &txn->seen[key]);
                if (!r && act->kind == RESTORE)
                        r = read_key(scene, txn, key, scene->snapshot[act->actor],
                                scene->snapshot_cut[act->actor], &txn->past[key]);
        }
        return r;
}

static uint32_t sum_of(const struct scene *scene, const struct txn *txn)
{
        uint32_t key, sum = 0;

        for (key = 0; key < scene->key_count; key++)
                sum += txn->seen[key].tag;
        return sum;
}

/* Keeps the writes in the order of the keys, as a commit requires. */
static void put_in_order(struct txn *txn, const struct sb_commit_write *write)
{
        uint32_t i = txn->write_count++;

        for (; i && sb_bytes_compare(write->key, write->key_len, txn->writes[i - 1].key,
                            txn->writes[i - 1].key_len) < 0;
                i--)
                txn->writes[i] = txn->writes[i - 1];
        txn->writes[i] = *write;
}

static void choose_writes(const struct scene *scene, struct txn *txn)
{
        const struct act *act = txn->act;
        uint32_t key, tag = act->tag;

        if (act->len & TXN_ADD)
                tag = (tag + sum_of(scene, txn)) & 63;
        for (key = act->key; key < act->key + TXN_KEYS(act->len); key++) {
                struct sb_commit_write write = {.key = scene_key(key).data,
                        .key_len = (uint32_t)scene_key(key).len,
                        .value = scene_value(tag),
                        .value_len = act->len & TXN_LARGE ? 600 : 10};

                if (act->kind == RESTORE) {
                        write.value = scene_value(txn->past[key].tag);
                        write.value_len = txn->past[key].len;
                        if (scene_fact_equal(&txn->past[key], &txn->seen[key], false))
                                continue;
                }
                if ((act->len & TXN_DELETE) ||
                        (act->kind == RESTORE && txn->past[key].state != FACT_VALUE)) {
                        if (txn->seen[key].state != FACT_VALUE)
                                continue;
                        write.kind = SB_VERSION_DELETED;
                        write.value = NULL;
                        write.value_len = 0;
                }
                put_in_order(txn, &write);
        }
        if (!(act->len & TXN_SERIALIZABLE))
                return;
        txn->ranges[0] = (struct sb_commit_range){.flags = SB_RANGE_NO_END};
        txn->range_count = 1;
}

/* Commits at the cut that is open, and closes it. */
static void commit(struct scene *scene, struct txn *txn, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, txn->act->actor);
        struct sb_commit_result result;
        struct sb_commit_wish wish;

        ret->code = read_keys(scene, txn);
        if (!ret->code) {
                choose_writes(scene, txn);
                wish = (struct sb_commit_wish){.writes = txn->writes,
                        .write_count = txn->write_count,
                        .ranges = txn->ranges,
                        .range_count = txn->range_count,
                        .serializable = txn->act->len & TXN_SERIALIZABLE,
                        .snapshot = txn->snapshot,
                        .cut = txn->cut};
                if (txn->write_count)
                        ret->code = sb_commit_run(handle, &wish, &result);
                /* As sb_txn_commit() does with time for so much. */
                for (uint32_t slices = 0; ret->code == SB_E_FULL && slices < 2; slices++) {
                        sb_work_slice(handle);
                        ret->code = sb_commit_run(handle, &wish, &result);
                }
        }
        sb_snapshot_close(handle, txn->snapshot);
        for (uint32_t key = 0; key < scene->key_count && !ret->code; key++)
                ret->seen[key] = txn->seen[key];
}

void scene_txn(struct scene *scene, const struct act *act, struct result *ret)
{
        struct txn txn = {.act = act};
        uint32_t attempts = 0;

        if (act->kind == TXN_COMMIT) {
                txn.snapshot = scene->snapshot[act->actor];
                txn.cut = scene->snapshot_cut[act->actor];
                commit(scene, &txn, ret);
                return;
        }
        do {
                txn = (struct txn){.act = act};
                ret->code =
                        sb_snapshot_open(scene_handle(scene, act->actor), &txn.snapshot, &txn.cut);
                if (!ret->code)
                        commit(scene, &txn, ret);
        } while (ret->code == SB_E_CONFLICT && ++attempts < ATTEMPTS_MAX);
}
