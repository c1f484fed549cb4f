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

SB_FIND_FLAT int sb_op_get_at(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint32_t snapshot, uint64_t cut, uint32_t guard_index, struct sb_version **ret_version)
{
        struct sb_found found;
        bool held = true;

        /* The short way finds the newest version. If that is in the cut, it is what was current in
         * it. */
        if (SB_UNLIKELY(guard_index >= handle->segment.geometry.guard_inline) ||
                SB_UNLIKELY(!sb_find_plain(handle, key, key_len, sb_find_hash(handle, key, key_len),
                        sb_find_pin(handle), &found)) ||
                SB_UNLIKELY(found.stamp > cut)) {
                held = get_at_long(handle, key, key_len, cut, guard_index, ret_version);
        } else {
                sb_find_hold_and_unpin(handle, guard_index, found.offset);
                *ret_version = found.version;
        }
        if (sb_snapshot_holds(handle, snapshot, cut))
                return held ? 0 : SB_E_NOT_FOUND;
        if (held)
                sb_guard_set(handle, guard_index, 0);
        return SB_E_LAPPED;
}

SB_FIND_FLAT int sb_op_get(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint32_t guard_index, struct sb_version **ret_version)
{
        struct sb_found found;

        if (SB_UNLIKELY(guard_index >= handle->segment.geometry.guard_inline) ||
                SB_UNLIKELY(!sb_find_plain(handle, key, key_len, sb_find_hash(handle, key, key_len),
                        sb_find_pin(handle), &found)))
                return get_long(handle, key, key_len, guard_index, ret_version);
        sb_find_hold_and_unpin(handle, guard_index, found.offset);
        *ret_version = found.version;
        return 0;
}

/* Keys of which the memory is fetched at once: somewhat more cache misses than a core keeps in
 * flight. */
#define TOGETHER 32u

/* Behind a slow key, of which the read ended the pin of @era; fault GET_MANY_NO_PIN: that one has
 * to do. */
static inline __attribute__((always_inline)) uint64_t get_pin_again(
        struct sb_handle *handle, uint64_t era)
{
        return SB_FAULT(GET_MANY_NO_PIN) ? era : sb_find_pin(handle);
}

#define NEWEST UINT64_MAX /* a cut that contains all versions */

/* Whether the newest version of a key, which the short way found, is what was current at @cut;
 * fault GET_MANY_AT_NEWEST: it always is. */
static inline __attribute__((always_inline)) bool get_in_cut(
        const struct sb_found *found, uint64_t cut)
{
        return cut == NEWEST || SB_LIKELY(found->stamp <= cut) || SB_FAULT(GET_MANY_AT_NEWEST);
}

static inline __attribute__((always_inline)) bool get_slow(struct sb_handle *handle,
        const struct sb_op_key *key, uint64_t cut, uint32_t guard_index,
        struct sb_version **ret_version)
{
        if (cut == NEWEST)
                return get_long(handle, key->data, (uint32_t)key->len, guard_index, ret_version) ==
                       0;
        return get_at_long(handle, key->data, (uint32_t)key->len, cut, guard_index, ret_version);
}

/* Gets up to TOGETHER keys at a cut, or NEWEST, under one pin: first all buckets come, then all
 * versions. */
static inline __attribute__((always_inline)) void get_together(struct sb_handle *handle,
        const struct sb_op_key *keys, uint32_t count, uint64_t cut, const uint32_t *guard_indexes,
        struct sb_version **ret_versions)
{
        uint64_t hash[TOGETHER];
        struct sb_word64 *cells[TOGETHER];
        struct sb_found found;
        uint64_t era;
        uint32_t i;

        for (i = 0; i < count; i++) {
                hash[i] = sb_find_hash(handle, keys[i].data, keys[i].len);
                sb_find_fetch_bucket(handle, hash[i]);
        }
        for (i = 0; i < count; i++)
                cells[i] = sb_find_fetch_version(handle, hash[i]);
        era = sb_find_pin(handle);
        for (i = 0; i < count; i++) {
                if (SB_LIKELY(sb_find_plain_in(
                            handle, cells[i], keys[i].data, keys[i].len, era, &found)) &&
                        get_in_cut(&found, cut)) {
                        sb_guard_set(handle, guard_indexes[i], found.offset);
                        ret_versions[i] = found.version;
                        continue;
                }
                /* Guards hold what was found so far, so another pin may take this one's
                 * place. */
                if (!get_slow(handle, &keys[i], cut, guard_indexes[i], &ret_versions[i]))
                        ret_versions[i] = NULL;
                era = get_pin_again(handle, era);
        }
        sb_find_unpin(handle);
}

SB_FIND_FLAT void sb_op_get_many(struct sb_handle *handle, const struct sb_op_key *keys,
        uint32_t count, const uint32_t *guard_indexes, struct sb_version **ret_versions)
{
        uint32_t done;

        for (done = 0; done < count; done += TOGETHER)
                get_together(handle, keys + done, count - done < TOGETHER ? count - done : TOGETHER,
                        NEWEST, guard_indexes + done, ret_versions + done);
}

/* Whether what was read at the cut counts: it was announced until behind the last read. Fault
 * GET_MANY_AT_UNASKED: not asked. */
static bool get_many_holds(struct sb_handle *handle, uint32_t snapshot, uint64_t cut)
{
        return SB_FAULT(GET_MANY_AT_UNASKED) || sb_snapshot_holds(handle, snapshot, cut);
}

SB_FIND_FLAT int sb_op_get_many_at(struct sb_handle *handle, const struct sb_op_key *keys,
        uint32_t count, uint32_t snapshot, uint64_t cut, const uint32_t *guard_indexes,
        struct sb_version **ret_versions)
{
        uint32_t done;

        for (done = 0; done < count; done += TOGETHER)
                get_together(handle, keys + done, count - done < TOGETHER ? count - done : TOGETHER,
                        cut, guard_indexes + done, ret_versions + done);
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
