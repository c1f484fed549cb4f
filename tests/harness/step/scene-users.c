/*
 * Acts by the public calls of the library, in scenes with TRIAL_USERS; see scene.h.
 *
 * What a guard shows is read when it is there, and once more before it is released. So a guard that
 * keeps nothing in place is seen, because the trials overwrite what is free.
 */
#include <string.h>

#include "libclient/statebus.h"
#include "shm/base/result.h"
#include "tests/harness/step/scene.h"
#include "tests/harness/step/story.h"

#define ATTEMPTS_MAX 30u
#define GUARDS_MAX   (SCENE_KEYS + 2)
/* What is wrong with what a call gives; no result of the library has these. */
#define BAD_ORDER    (-1001)
#define BAD_GUARD    (-1002) /* it does not show what it showed before */
#define BAD_WAY_BACK (-1003)
#define BAD_OWN      (-1004) /* a transaction does not see what it wrote */

static const struct sb_bytes mark = {"m", 1}, all = {NULL, 0};

static bool inside(const struct scene *scene, const void *at, size_t len)
{
        const unsigned char *bytes = at, *begin = (const unsigned char *)scene;

        return bytes >= begin && bytes <= begin + sizeof(*scene) &&
               len <= (size_t)(begin + sizeof(*scene) - bytes);
}

/* Whether a guard shows bytes of the scene, as it always must, whatever is in the segment. */
static bool shows_scene(struct scene *scene, const struct sb_guard *guard)
{
        bool good = inside(scene, guard->key.data, guard->key.len) &&
                    inside(scene, guard->value.data, guard->value.len);

        scene->strays += !good;
        return good;
}

struct fact scene_guard_fact(struct scene *scene, const struct sb_guard *guard, uint32_t key)
{
        const unsigned char *value = guard->value.data;
        struct sb_bytes name = scene_key(key);
        size_t len = guard->value.len;

        if (!guard->bus || guard->kind == SB_DELETED)
                return (struct fact){0};
        if (!shows_scene(scene, guard) || guard->key.len != name.len ||
                memcmp(guard->key.data, name.data, name.len) != 0 ||
                (len && memcmp(value, scene_value(value[0]), len) != 0))
                return (struct fact){.state = FACT_BROKEN};
        return (struct fact){.state = FACT_VALUE,
                .tag = len ? value[0] : 0,
                .len = (uint32_t)len,
                .rev = guard->rev};
}

static bool shows(
        struct scene *scene, const struct sb_guard *guard, uint32_t key, const struct fact *fact)
{
        struct fact now = scene_guard_fact(scene, guard, key);

        return scene_fact_equal(&now, fact, true);
}

uint32_t scene_guard_key(const struct sb_guard *guard)
{
        uint32_t key = 0;

        while (key < SCENE_KEYS &&
                (scene_key(key).len != guard->key.len ||
                        memcmp(scene_key(key).data, guard->key.data, guard->key.len) != 0))
                key++;
        return key;
}

/* ---- single keys ---- */

static int give_value(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        const struct act *act = argument;

        (void)old;
        *ret_value = (struct sb_bytes){scene_value(act->tag), act->len};
        return 0;
}

static void do_write(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_bus *bus = &scene->bus[act->actor];
        struct sb_bytes key = scene_key(act->key), value = {scene_value(act->tag), act->len};
        uint64_t then = scene->then[act->key], rev = 0;

        if (act->kind == UPDATE)
                ret->code = sb_update(bus, key, give_value, (void *)act, NULL, &rev);
        else if (act->kind == DELETE)
                ret->code = sb_delete(bus, key,
                        act->expect == THEN    ? then
                        : act->expect == STALE ? then - 1
                                               : SB_ANY_REV,
                        NULL, &rev);
        else if (act->expect == ANY)
                ret->code = sb_set(bus, key, value, NULL, &rev);
        else
                ret->code = sb_cas(bus, key,
                        act->expect == NOTHING ? 0
                        : act->expect == THEN  ? then
                                               : then - 1,
                        value, NULL, &rev);
        ret->rev = ret->code == 0 || ret->code == SB_E_CONFLICT ? rev : 0;
}

static void do_get(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_guard *held = &scene->guard[act->actor];
        struct sb_guard guard;

        ret->code = sb_get(&scene->bus[act->actor], scene_key(act->key), &guard);
        if (ret->code)
                return;
        ret->seen[act->key] = scene_guard_fact(scene, &guard, act->key);
        if (act->kind == HOLD) {
                sb_guard_release(held);
                *held = guard;
                return;
        }
        if (!shows(scene, &guard, act->key, &ret->seen[act->key]))
                ret->code = BAD_GUARD;
        sb_guard_release(&guard);
}

static void do_let_go(struct scene *scene, const struct act *act, struct result *ret)
{
        if (!scene->guard[act->actor].bus)
                return;
        ret->seen[act->key] = scene_guard_fact(scene, &scene->guard[act->actor], act->key);
        sb_guard_release(&scene->guard[act->actor]);
}

static void do_get_many(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_guard guards[SCENE_KEYS];
        struct sb_bytes keys[SCENE_KEYS];

        for (uint32_t i = 0; i < act->len; i++)
                keys[i] = scene_key(act->key + i);
        ret->code = act->kind == GET_MANY
                            ? sb_get_many(&scene->bus[act->actor], keys, act->len, guards)
                            : sb_get_many_at(&scene->bus[act->actor], keys, act->len, 0, guards);
        if (ret->code)
                return;
        for (uint32_t i = 0; i < act->len; i++)
                ret->seen[act->key + i] = scene_guard_fact(scene, &guards[i], act->key + i);
        for (uint32_t i = 0; i < act->len; i++) {
                if (!shows(scene, &guards[i], act->key + i, &ret->seen[act->key + i]))
                        ret->code = BAD_GUARD;
                sb_guard_release(&guards[i]);
        }
}

/* ---- scans ---- */

/* Goes back over the same keys: each shows what was seen. */
static int walk_back(struct scene *scene, struct sb_scan *scan, const struct fact *seen)
{
        uint32_t missing = 0;
        struct sb_guard guard;
        int r;

        for (uint32_t key = 0; key < SCENE_KEYS; key++)
                missing += seen[key].state == FACT_VALUE;
        while ((r = sb_scan_prev(scan, &guard)) == 0) {
                uint32_t key = scene_guard_key(&guard);

                if (key == SCENE_KEYS || !missing-- || !shows(scene, &guard, key, &seen[key]))
                        r = BAD_WAY_BACK;
                sb_guard_release(&guard);
                if (r)
                        return r;
        }
        return r != SB_E_NOT_FOUND ? r : missing ? BAD_WAY_BACK : 0;
}

/* All keys, there and back; the guards stay until the scan is over. */
static int walk(struct scene *scene, enum scene_actor actor, struct sb_txn *txn, struct fact *seen)
{
        struct sb_guard guards[GUARDS_MAX];
        uint32_t count = 0, key;
        struct sb_scan *scan;
        int r = sb_scan_open(&scene->bus[actor], txn, all, &scan);

        if (r)
                return r;
        while (count < GUARDS_MAX && (r = sb_scan_next(scan, &guards[count])) == 0) {
                key = scene_guard_key(&guards[count]);
                if (key == SCENE_KEYS || seen[key].state != FACT_NONE ||
                        (count && memcmp(guards[count - 1].key.data, guards[count].key.data,
                                          guards[count - 1].key.len < guards[count].key.len
                                                  ? guards[count - 1].key.len
                                                  : guards[count].key.len) > 0))
                        r = BAD_ORDER;
                else
                        seen[key] = scene_guard_fact(scene, &guards[count], key);
                count++;
                if (r)
                        break;
        }
        if (r == SB_E_NOT_FOUND)
                r = walk_back(scene, scan, seen);
        sb_scan_close(scan);
        while (count) {
                count--;
                key = scene_guard_key(&guards[count]);
                if (!r && (key == SCENE_KEYS || !shows(scene, &guards[count], key, &seen[key])))
                        r = BAD_GUARD;
                sb_guard_release(&guards[count]);
        }
        return r;
}

/* All keys, two with each call; the guards stay until the scan is over. */
static void do_scan_many(struct scene *scene, const struct act *act, struct result *ret)
{
        static const unsigned char above[] = {0xff, 0xff};
        const struct sb_scan_options how = {.size = sizeof(how), .end = {above, sizeof(above)}};
        struct sb_guard guards[GUARDS_MAX];
        size_t count = 0, given;
        struct sb_scan *scan;
        uint32_t key;

        ret->code = sb_scan_open_at(&scene->bus[act->actor], all, &how, &scan);
        if (ret->code)
                return;
        while (count + 2 <= GUARDS_MAX &&
                (ret->code = sb_scan_next_many(scan, &guards[count], 2, &given)) == 0)
                for (; given; given--, count++) {
                        key = scene_guard_key(&guards[count]);
                        if (key < SCENE_KEYS)
                                ret->seen[key] = scene_guard_fact(scene, &guards[count], key);
                }
        sb_scan_close(scan);
        ret->code = ret->code == SB_E_NOT_FOUND ? 0 : ret->code;
        while (count) {
                count--;
                key = scene_guard_key(&guards[count]);
                if (key == SCENE_KEYS || !shows(scene, &guards[count], key, &ret->seen[key]))
                        ret->code = BAD_GUARD;
                sb_guard_release(&guards[count]);
        }
}

/* What a step gave, if it is this key. */
static struct fact fact_if(
        struct scene *scene, const struct sb_guard *guard, uint32_t key, int r, int *ret_code)
{
        if (r && r != SB_E_NOT_FOUND)
                *ret_code = r;
        return r == 0 && scene_guard_key(guard) == key ? scene_guard_fact(scene, guard, key)
                                                       : (struct fact){.state = FACT_NONE};
}

/* Each key, from behind it and from before it; the guards stay until the next key. */
static void do_scan_seek(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_scan *scan;

        ret->code = sb_scan_open(&scene->bus[act->actor], NULL, all, &scan);
        for (uint32_t key = 0; key < scene->key_count && !ret->code; key++) {
                struct sb_guard guards[2] = {0};
                struct fact again;

                ret->code = sb_scan_seek_last(scan, scene_key(key));
                if (ret->code)
                        break;
                ret->seen[key] =
                        fact_if(scene, &guards[0], key, sb_scan_prev(scan, &guards[0]), &ret->code);
                ret->code = ret->code ? ret->code : sb_scan_seek(scan, scene_key(key));
                if (!ret->code) {
                        again = fact_if(
                                scene, &guards[1], key, sb_scan_next(scan, &guards[1]), &ret->code);
                        if (!scene_fact_equal(&again, &ret->seen[key], true))
                                ret->code = BAD_WAY_BACK;
                }
                for (uint32_t i = 0; i < 2; i++) {
                        if (ret->seen[key].state != FACT_NONE && !ret->code &&
                                !shows(scene, &guards[i], key, &ret->seen[key]))
                                ret->code = BAD_GUARD;
                        sb_guard_release(&guards[i]);
                }
        }
        sb_scan_close(scan);
}

static void do_clear(struct scene *scene, const struct act *act, struct result *ret)
{
        ret->code = sb_delete_range(
                &scene->bus[act->actor], NULL, all, all, SB_PREFIX, NULL, &ret->rev);
}

static void do_snapshot(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_txn **txn = &scene->txn[act->actor];

        if (act->kind == SNAPSHOT)
                ret->code = sb_txn_begin(&scene->bus[act->actor], SB_SERIALIZABLE, txn);
        else if (act->kind == SNAPSHOT_END)
                *txn = sb_txn_end(*txn);
        else
                ret->code = walk(scene, act->actor, act->kind == SCAN ? NULL : *txn, ret->seen);
        if (ret->code)
                memset(ret->seen, 0, sizeof(ret->seen));
        if (act->kind == SNAPSHOT_READ && !ret->code)
                scene->snapshot_read[act->actor] = *ret;
        if (act->kind != SCAN)
                scene->snapshot_was_read[act->actor] =
                        act->kind == SNAPSHOT_READ &&
                        (!ret->code || scene->snapshot_was_read[act->actor]);
}

/* ---- transactions ---- */

static bool written(const struct act *act, uint32_t key)
{
        return key >= act->key && key < act->key + TXN_KEYS(act->len);
}

static int read_key(struct scene *scene, struct sb_txn *txn, uint32_t key, struct sb_guard *guard,
        struct fact *ret)
{
        int r = sb_txn_get(txn, scene_key(key), guard);

        if (r == 0)
                *ret = scene_guard_fact(scene, guard, key);
        return r == SB_E_NOT_FOUND ? 0 : r;
}

/* All keys: as a range, or by one call; in a transaction. */
static int read_all(
        struct scene *scene, const struct act *act, struct sb_txn *txn, struct fact *seen)
{
        struct sb_guard guards[SCENE_KEYS];
        struct sb_bytes keys[SCENE_KEYS];
        int r;

        if (!(act->len & TXN_MANY))
                return walk(scene, act->actor, txn, seen);
        for (uint32_t key = 0; key < scene->key_count; key++)
                keys[key] = scene_key(key);
        r = sb_txn_get_many(txn, keys, scene->key_count, guards);
        for (uint32_t key = 0; key < scene->key_count && !r; key++)
                seen[key] = scene_guard_fact(scene, &guards[key], key);
        for (uint32_t key = 0; key < scene->key_count && !r; key++)
                r = shows(scene, &guards[key], key, &seen[key]) ? 0 : BAD_GUARD;
        for (uint32_t key = 0; key < scene->key_count && (!r || r == BAD_GUARD); key++)
                sb_guard_release(&guards[key]);
        return r;
}

static size_t txn_len(const struct act *act)
{
        return act->len & TXN_LARGE ? 600 : act->len & TXN_LONGER ? 40 : 10;
}

/* Writes or deletes, and reads what it wrote. */
static int write_key(struct scene *scene, const struct act *act, struct sb_txn *txn, uint32_t key,
        uint32_t tag, const struct fact *seen)
{
        struct sb_bytes value = {scene_value(tag), txn_len(act)};
        bool deletes = act->len & TXN_DELETE;
        struct sb_guard own = {0};
        struct fact now = {0};
        int r = deletes ? sb_txn_delete(txn, scene_key(key))
                        : sb_txn_set(txn, scene_key(key), value);

        if (deletes && r == SB_E_NOT_FOUND && seen->state == FACT_NONE)
                return 0;
        if (r == 0)
                r = read_key(scene, txn, key, &own, &now);
        if (r == 0 && (deletes ? now.state != FACT_NONE
                               : now.state != FACT_VALUE || now.tag != tag || now.len != value.len))
                r = BAD_OWN;
        sb_guard_release(&own);
        return r;
}

/* The reads, which are held, and the writes. */
static int fill(struct scene *scene, const struct act *act, struct sb_txn *txn, struct fact *seen)
{
        struct sb_guard guards[SCENE_KEYS] = {0};
        struct fact with_own[SCENE_KEYS] = {0};
        uint32_t key, tag = act->tag;
        int r = 0;

        if (act->len & TXN_SERIALIZABLE)
                r = read_all(scene, act, txn, seen);
        for (key = act->key; key < act->key + TXN_KEYS(act->len) && !r; key++)
                r = read_key(scene, txn, key, &guards[key], &seen[key]);
        for (key = 0; key < scene->key_count; key++)
                tag += act->len & TXN_ADD ? seen[key].tag : 0;
        tag = act->len & TXN_ADD ? tag & 63 : tag;
        for (key = act->key; key < act->key + TXN_KEYS(act->len) && !r; key++)
                r = write_key(scene, act, txn, key, tag, &seen[key]);
        if (act->len & TXN_SERIALIZABLE && !r)
                r = read_all(scene, act, txn, with_own);
        for (key = 0; key < scene->key_count && !r && (act->len & TXN_SERIALIZABLE); key++)
                if (written(act, key) ? with_own[key].state !=
                                                (act->len & TXN_DELETE ? FACT_NONE : FACT_VALUE)
                                      : !scene_fact_equal(&with_own[key], &seen[key], true))
                        r = BAD_OWN;
        for (key = 0; key < SCENE_KEYS; key++) {
                if (guards[key].bus && !r && !shows(scene, &guards[key], key, &seen[key]))
                        r = BAD_GUARD;
                sb_guard_release(&guards[key]);
        }
        return r;
}

static void commit(
        struct scene *scene, const struct act *act, struct sb_txn *txn, struct result *ret)
{
        struct fact seen[SCENE_KEYS] = {0};

        ret->code = fill(scene, act, txn, seen);
        if (!ret->code)
                ret->code = sb_txn_commit(txn, NULL);
        sb_txn_end(txn);
        if (!ret->code)
                memcpy(ret->seen, seen, sizeof(seen));
}

static void do_txn(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_txn *txn = scene->txn[act->actor];
        uint32_t attempts = 0;

        if (act->kind == TXN_COMMIT) {
                scene->txn[act->actor] = NULL;
                commit(scene, act, txn, ret);
                return;
        }
        do {
                ret->code = sb_txn_begin(&scene->bus[act->actor],
                        act->len & TXN_SERIALIZABLE ? SB_SERIALIZABLE : SB_SNAPSHOT, &txn);
                if (!ret->code)
                        commit(scene, act, txn, ret);
        } while (ret->code == SB_E_CONFLICT && ++attempts < ATTEMPTS_MAX);
}

/* ---- the past ---- */

static void do_mark(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_bus *bus = &scene->bus[act->actor];
        uint64_t cut;

        if (act->kind == MARK) {
                ret->code = sb_mark(bus, mark, &cut);
                if (!ret->code)
                        scene->marked_cut = cut;
        } else if (act->kind == MARK_DROP) {
                ret->code = sb_mark_drop(bus, mark);
        } else {
                ret->code = sb_mark_find(bus, mark, &cut);
                ret->seen[0].rev = !ret->code;
        }
}

static void do_keep(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_rule rule = {.size = sizeof(rule),
                .kind = act->len == KEEP_ALL ? SB_KEEP_ALL
                        : act->len           ? SB_KEEP_LAST
                                             : SB_KEEP_NEWEST,
                .value = act->len == KEEP_ALL ? 0 : act->len};

        ret->code = sb_keep(&scene->bus[act->actor], act->tag ? scene_key(act->key) : all,
                act->tag ? 0 : SB_PREFIX, &rule);
}

static void do_restore(struct scene *scene, const struct act *act, struct result *ret)
{
        bool one = act->len & RESTORE_ONE;

        ret->code = sb_restore(&scene->bus[act->actor], one ? scene_key(act->key) : all,
                one ? 0 : SB_PREFIX, scene->marked_cut, NULL);
}

static void do_past(struct scene *scene, const struct act *act, struct result *ret)
{
        uint32_t end = act->len ? act->len : scene->key_count;
        struct sb_guard guards[SCENE_KEYS] = {0};

        for (uint32_t key = 0; key < end && !ret->code; key++) {
                int r = sb_get_at(
                        &scene->bus[act->actor], scene_key(key), scene->marked_cut, &guards[key]);

                if (r != SB_E_NOT_FOUND)
                        ret->code = r;
                ret->seen[key] = scene_guard_fact(scene, &guards[key], key);
        }
        for (uint32_t key = 0; key < end; key++) {
                if (!ret->code && !shows(scene, &guards[key], key, &ret->seen[key]))
                        ret->code = BAD_GUARD;
                sb_guard_release(&guards[key]);
        }
        for (uint32_t key = 0; key < end; key++)
                if (ret->seen[key].state == FACT_BROKEN)
                        ret->code = BAD_GUARD;
        if (ret->code == SB_E_LAPPED)
                memset(ret->seen, 0, sizeof(ret->seen));
}

static void do_history(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_guard guards[SCENE_KEYS] = {0};
        struct fact seen[SCENE_KEYS] = {0};
        struct sb_history *history;
        uint32_t count = 0;

        ret->code = sb_history_open(&scene->bus[act->actor], scene_key(act->key), 0, &history);
        if (ret->code)
                return;
        while (count < SCENE_KEYS &&
                !(ret->code = sb_history_next(history, &guards[count], NULL))) {
                seen[count] = scene_guard_fact(scene, &guards[count], act->key);
                if (seen[count].state == FACT_BROKEN ||
                        (act->len && seen[count].state != FACT_VALUE))
                        ret->code = BAD_GUARD;
                count++;
        }
        sb_history_close(history);
        if (act->len == 0)
                memcpy(ret->seen, seen, sizeof(seen));
        else
                ret->code = ret->code == BAD_GUARD ? BAD_GUARD : 0;
        while (count--) {
                if (!shows(scene, &guards[count], act->key, &seen[count]))
                        ret->code = BAD_GUARD;
                sb_guard_release(&guards[count]);
        }
}

static bool call(struct scene *scene, const struct act *act, struct result *ret)
{
        switch (act->kind) {
        case SET:
        case CAS:
        case DELETE:
        case UPDATE:
                do_write(scene, act, ret);
                return true;
        case GET:
        case HOLD:
                do_get(scene, act, ret);
                return true;
        case LET_GO:
                do_let_go(scene, act, ret);
                return true;
        case GET_MANY:
        case GET_MANY_AT:
                do_get_many(scene, act, ret);
                return true;
        case SCAN_MANY:
                do_scan_many(scene, act, ret);
                return true;
        case SCAN_SEEK:
                do_scan_seek(scene, act, ret);
                return true;
        case CLEAR:
                do_clear(scene, act, ret);
                return true;
        case SCAN:
        case SNAPSHOT:
        case SNAPSHOT_READ:
        case SNAPSHOT_END:
                do_snapshot(scene, act, ret);
                return true;
        case TXN:
        case TXN_COMMIT:
                do_txn(scene, act, ret);
                return true;
        case RESTORE:
                do_restore(scene, act, ret);
                return true;
        case MARK:
        case MARK_DROP:
        case MARK_FIND:
                do_mark(scene, act, ret);
                return true;
        case KEEP:
                do_keep(scene, act, ret);
                return true;
        case PAST:
                do_past(scene, act, ret);
                return true;
        case HISTORY:
                do_history(scene, act, ret);
                return true;
        default:
                return false;
        }
}

/* No client evicts another one's cut, and memory is enough: most calls succeed. So a call that is
 * wrong without interruption is seen, too. */
static bool can_be(struct scene *scene, const struct act *act, int code)
{
        switch (act->kind) {
        case SET:
                return act->expect != ANY || code == 0 ||
                       (code == SB_E_FULL && (trial.scenario->flags & TRIAL_FULL));
        case GET_MANY:
        case GET_MANY_AT:
        case SCAN_MANY:
        case SCAN_SEEK:
        case CLEAR:
        case UPDATE:
        case SCAN:
        case SNAPSHOT:
        case SNAPSHOT_READ:
        case KEEP:
                return code == 0;
        case TXN:
                /* What a stopped client holds of a bus where units in a row are rare. */
                return code == 0 || (code == SB_E_FULL && (trial.scenario->flags & TRIAL_ROWS) &&
                                            scene_other_is_pinned(scene, act->actor));
        case RESTORE:
                return code == 0 || (code == SB_E_LAPPED && (act->len & RESTORE_GONE));
        case MARK:
                return code == 0 || code == SB_E_CONFLICT;
        case PAST:
        case HISTORY:
                return code == 0 || code == SB_E_LAPPED || code == SB_E_NOT_FOUND;
        default:
                return code >= 0;
        }
}

bool scene_call(struct scene *scene, const struct act *act, struct result *ret)
{
        if (!call(scene, act, ret))
                return false;
        if (!can_be(scene, act, ret->code))
                trial_fail("%s: %d", scene_act_text(act), ret->code);
        return true;
}
