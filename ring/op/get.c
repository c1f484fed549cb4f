/*
 * The read path; see get.h. Each public function is the short way, inlined; get_long() and
 * get_at_long() are the long ones.
 */

#include "ring/op/get.h"

#include <string.h>

#include "shm/base/assert.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find-plain.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"

/* Publishes the guard, before the unpin; with fault GUARD_AFTER_UNPIN get_fault_guard() does it,
 * behind the unpin. */
static inline __attribute__((always_inline)) void get_guard(
        struct sb_handle *handle, uint32_t guard_index, const struct sb_version *version)
{
        if (!SB_FAULT(GUARD_AFTER_UNPIN))
                sb_guard_set(handle, guard_index, sb_offset_of(&handle->segment, version));
}
static inline __attribute__((always_inline)) void get_fault_guard(
        struct sb_handle *handle, uint32_t guard_index, const struct sb_version *version)
{
        if (SB_FAULT(GUARD_AFTER_UNPIN))
                sb_guard_set(handle, guard_index, sb_offset_of(&handle->segment, version));
}

/* Before the unpin: the guard takes over from the pin. Return: whether @version is a value. */
static bool get_hold(struct sb_handle *handle, struct sb_version *version, uint32_t guard_index,
        struct sb_version **ret_version)
{
        if (!version || !sb_version_has_value(version))
                return false;
        get_guard(handle, guard_index, version);
        *ret_version = version;
        return true;
}

static __attribute__((noinline)) int get_long(struct sb_handle *handle, const void *key,
        uint32_t key_len, uint32_t guard_index, struct sb_version **ret_version)
{
        uint64_t hash = sb_hash_key(key, key_len, handle->segment.seed);
        bool held;

        sb_pin(handle);
        held = get_hold(
                handle, sb_find_newest(handle, key, key_len, hash), guard_index, ret_version);
        sb_unpin(handle);
        if (held)
                get_fault_guard(handle, guard_index, *ret_version);
        return held ? 0 : SB_E_NOT_FOUND;
}

static __attribute__((noinline)) bool get_at_long(struct sb_handle *handle, const void *key,
        uint32_t key_len, uint64_t cut, uint32_t guard_index, struct sb_version **ret_version)
{
        uint64_t hash = sb_hash_key(key, key_len, handle->segment.seed);
        bool held;

        sb_pin(handle);
        held = get_hold(
                handle, sb_find_at(handle, key, key_len, hash, cut), guard_index, ret_version);
        sb_unpin(handle);
        return held;
}

#define NEWEST UINT64_MAX /* a cut that contains all versions */

/* The short way: it finds the newest version. If that is in the cut, it is what was current in it.
 * Fault GET_AT_NEWEST: it always is. Return: whether the guard word holds *ret_version. */
static inline __attribute__((always_inline)) bool get_hold_at(struct sb_handle *handle,
        struct sb_word64 *cell, const void *key, uint64_t key_len, uint64_t cut,
        uint32_t guard_index, struct sb_version **ret_version, uint64_t *ret_shape)
{
        struct sb_found found;

        if (SB_UNLIKELY(!sb_find_hold_in(handle, cell, key, key_len, guard_index, &found)))
                return false;
        if (cut != NEWEST && SB_UNLIKELY(found.stamp > cut) && !SB_FAULT(GET_AT_NEWEST)) {
                sb_guard_set(handle, guard_index, 0);
                return false;
        }
        *ret_version = found.version;
        *ret_shape = found.shape;
        return true;
}

SB_FIND_FLAT int sb_op_get_at(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint32_t snapshot, uint64_t cut, uint32_t guard_index, struct sb_version **ret_version)
{
        uint64_t shape;
        bool held = get_hold_at(handle, sb_find_cell(handle, sb_find_hash(handle, key, key_len)),
                            key, key_len, cut, guard_index, ret_version, &shape) ||
                    get_at_long(handle, key, key_len, cut, guard_index, ret_version);

        if (sb_snapshot_holds(handle, snapshot, cut))
                return held ? 0 : SB_E_NOT_FOUND;
        if (held)
                sb_guard_set(handle, guard_index, 0);
        return SB_E_LAPPED;
}

SB_FIND_FLAT int sb_op_get(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint32_t guard_index, struct sb_version **ret_version)
{
        uint64_t shape;

        return get_hold_at(handle, sb_find_cell(handle, sb_find_hash(handle, key, key_len)), key,
                       key_len, NEWEST, guard_index, ret_version, &shape)
                       ? 0
                       : get_long(handle, key, key_len, guard_index, ret_version);
}

/* Keys of which the memory is fetched at once: somewhat more cache misses than a core keeps in
 * flight. */
#define TOGETHER 32u

static inline __attribute__((always_inline)) bool get_slow(struct sb_handle *handle,
        const struct sb_op_key *key, uint64_t cut, uint32_t guard_index,
        struct sb_version **ret_version, uint64_t *ret_shape)
{
        uint32_t len = (uint32_t)key->len;
        bool held;

        if (cut == NEWEST)
                held = get_long(handle, key->data, len, guard_index, ret_version) == 0;
        else
                held = get_at_long(handle, key->data, len, cut, guard_index, ret_version);
        if (held)
                *ret_shape = sb_version_shape(&handle->segment, *ret_version);
        return held;
}

/* Gets up to TOGETHER keys at a cut, or NEWEST: first all buckets come, then all versions. */
static inline __attribute__((always_inline)) void get_together(struct sb_handle *handle,
        const struct sb_op_key *keys, uint32_t count, uint64_t cut, const uint32_t *guard_indexes,
        struct sb_version **ret_versions, uint64_t *ret_shapes)
{
        uint64_t hash[TOGETHER];
        struct sb_word64 *cells[TOGETHER];
        uint32_t i;

        for (i = 0; i < count; i++) {
                hash[i] = sb_find_hash(handle, keys[i].data, keys[i].len);
                sb_find_fetch_bucket(handle, hash[i]);
        }
        for (i = 0; i < count; i++)
                cells[i] = sb_find_fetch_version(handle, hash[i]);
        for (i = 0; i < count; i++)
                if (SB_UNLIKELY(!get_hold_at(handle, cells[i], keys[i].data, keys[i].len, cut,
                            guard_indexes[i], &ret_versions[i], &ret_shapes[i])) &&
                        !get_slow(handle, &keys[i], cut, guard_indexes[i], &ret_versions[i],
                                &ret_shapes[i]))
                        ret_versions[i] = NULL;
}

SB_FIND_FLAT void sb_op_get_many(struct sb_handle *handle, const struct sb_op_key *keys,
        uint32_t count, const uint32_t *guard_indexes, struct sb_version **ret_versions,
        uint64_t *ret_shapes)
{
        uint32_t done;

        for (done = 0; done < count; done += TOGETHER)
                get_together(handle, keys + done, count - done < TOGETHER ? count - done : TOGETHER,
                        NEWEST, guard_indexes + done, ret_versions + done, ret_shapes + done);
}

/* Whether what was read at the cut counts: it was announced until behind the last read. Fault
 * GET_MANY_AT_UNASKED: not asked. */
static bool get_many_holds(struct sb_handle *handle, uint32_t snapshot, uint64_t cut)
{
        return SB_FAULT(GET_MANY_AT_UNASKED) || sb_snapshot_holds(handle, snapshot, cut);
}

SB_FIND_FLAT int sb_op_get_many_at(struct sb_handle *handle, const struct sb_op_key *keys,
        uint32_t count, uint32_t snapshot, uint64_t cut, const uint32_t *guard_indexes,
        struct sb_version **ret_versions, uint64_t *ret_shapes)
{
        uint32_t done;

        for (done = 0; done < count; done += TOGETHER)
                get_together(handle, keys + done, count - done < TOGETHER ? count - done : TOGETHER,
                        cut, guard_indexes + done, ret_versions + done, ret_shapes + done);
        if (get_many_holds(handle, snapshot, cut))
                return 0;
        for (done = 0; done < count; done++)
                if (ret_versions[done])
                        sb_guard_set(handle, guard_indexes[done], 0);
        return SB_E_LAPPED;
}

void sb_op_fetch(struct sb_handle *handle, const struct sb_op_key *keys, uint32_t count)
{
        uint32_t done, i, end;

        for (done = 0; done < count; done = end) {
                end = count - done < TOGETHER ? count : done + TOGETHER;
                for (i = done; i < end; i++)
                        sb_find_fetch_bucket(
                                handle, sb_find_hash(handle, keys[i].data, keys[i].len));
                for (i = done; i < end; i++)
                        (void)sb_find_fetch_version(
                                handle, sb_find_hash(handle, keys[i].data, keys[i].len));
        }
}
