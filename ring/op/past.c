/*
 * The value of a key at a cut that the caller does not announce; see past.h. A marked cut is read
 * as if it were announced; any other one by what the chain itself says of its gaps, and by the rule
 * that applies to the key.
 */

#include "ring/op/past.h"

#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/result.h"
#include "shm/history/past.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/segment.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"

/* Has the guard word hold @version; NULL: nothing. */
static void past_hold(struct sb_handle *handle, uint32_t guard_index, struct sb_version *version)
{
        sb_guard_set(handle, guard_index, version ? sb_offset_of(&handle->segment, version) : 0);
}

#define AGAIN (-1) /* the mark went meanwhile */
/* Reads at a cut that a mark keeps, as at one that is announced. Return: 0, SB_E_NOT_FOUND,
 * AGAIN. */
static int past_get_marked(struct sb_handle *handle, const void *key, uint32_t key_len,
        uint64_t hash, uint64_t cut, uint32_t guard_index, struct sb_version **ret_version)
{
        struct sb_version *version;
        bool there;

        sb_pin(handle);
        version = sb_find_at(handle, key, key_len, hash, cut);
        there = version && sb_version_has_value(version);
        if (there)
                past_hold(handle, guard_index, version);
        sb_unpin(handle);
        /* Asked behind the read: a process that drops the mark does so before any pruner takes out
         * what the mark kept. */
        if (!sb_past_marked(&handle->segment, cut)) {
                past_hold(handle, guard_index, NULL);
                return AGAIN;
        }
        if (!there)
                return SB_E_NOT_FOUND;
        *ret_version = version;
        return 0;
}

/* Ends the pin under which @version was found, which the guard word holds from before that on;
 * fault PAST_GUARD_LATE: from after that on. */
static void past_hold_and_unpin(
        struct sb_handle *handle, uint32_t guard_index, struct sb_version *version)
{
        if (version && !SB_FAULT(PAST_GUARD_LATE))
                past_hold(handle, guard_index, version);
        sb_unpin(handle);
        if (version && SB_FAULT(PAST_GUARD_LATE))
                past_hold(handle, guard_index, version);
}

int sb_past_get(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t cut,
        uint32_t guard_index, struct sb_version **ret_version)
{
        uint64_t hash = sb_hash_key(key, key_len, handle->segment.seed);
        struct sb_version *version = NULL;
        enum sb_past past;
        bool kept = false;
        int r;

        if (sb_past_is_marked(&handle->segment, cut, key, key_len)) {
                r = past_get_marked(handle, key, key_len, hash, cut, guard_index, ret_version);
                if (r != AGAIN)
                        return r;
        }
        sb_pin(handle);
        past = sb_past_find(handle, key, key_len, hash, cut, &version);
        if (past == SB_PAST_FOUND && !sb_version_has_value(version))
                version = NULL;
        if (past == SB_PAST_ABSENT)
                kept = sb_past_kept(handle, key, key_len, cut);
        past_hold_and_unpin(handle, guard_index, past == SB_PAST_ABSENT ? NULL : version);
        if (past == SB_PAST_ABSENT)
                return kept ? SB_E_NOT_FOUND : SB_E_LAPPED;
        if (past == SB_PAST_FOUND && !version)
                return SB_E_NOT_FOUND;
        *ret_version = version;
        return past == SB_PAST_FOUND ? 0 : SB_E_LAPPED;
}
