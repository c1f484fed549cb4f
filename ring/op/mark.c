/* Marks by name; see mark.h. The key is only ever written over the revision that was read. */

#include "ring/op/mark.h"

#include <string.h>

#include "ring/op/put.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/result.h"
#include "shm/history/named.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/reserved.h"
#include "shm/layout/superblock.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"

struct mark_key {
        uint32_t len;
        unsigned char bytes[SB_KEY_LEN_MAX];
};

/* Makes the key of a name. */
static void mark_make_key(struct mark_key *ret, const void *name, uint32_t name_len)
{
        memcpy(ret->bytes, SB_RESERVED_MARK, SB_MARK_PREFIX);
        memcpy(ret->bytes + SB_MARK_PREFIX, name, name_len);
        ret->len = SB_MARK_PREFIX + name_len;
}

uint32_t sb_op_mark_name_max(const struct sb_handle *handle)
{
        return handle->segment.key_len_max - SB_MARK_PREFIX;
}

/* Reads what the key holds now. Return: its revision; 0: it has no value. */
static uint64_t mark_read_key(
        struct sb_handle *handle, const struct mark_key *key, struct sb_named_value *ret)
{
        struct sb_version *version;
        uint64_t rev = 0;

        *ret = (struct sb_named_value){0};
        sb_pin(handle);
        version = sb_find_newest(handle, key->bytes, key->len,
                sb_hash_key(key->bytes, key->len, handle->segment.seed));
        if (version && (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE) {
                rev = version->rev;
                (void)sb_version_copy(&handle->segment, version, key->len, ret, sizeof(*ret));
        }
        sb_unpin(handle);
        return rev;
}

/* Writes the key over revision @expected; @value NULL: deletes it. Return: as
 * sb_op_write_reserved(). */
static int mark_write_key(struct sb_handle *handle, const struct mark_key *key,
        const struct sb_named_value *value, uint64_t expected, uint64_t *ret_rev)
{
        return sb_op_write_reserved(
                handle, key->bytes, key->len, value, sizeof(*value), expected, ret_rev);
}

/* Gives the mark its name. Return: 0 with the key's revision in *ret_rev; SB_E_CONFLICT: the name
 * is taken; SB_E_FULL. */
static int mark_name_it(struct sb_handle *handle, const struct mark_key *key,
        const struct sb_named_value *mark, uint64_t *ret_rev)
{
        struct sb_named_value present;
        uint64_t expected = 0, rev;
        int r;

        for (;;) {
                r = mark_write_key(handle, key, mark, expected, &rev);
                if (r != SB_E_CONFLICT)
                        break;
                /* A name of which the mark is gone is free. */
                expected = mark_read_key(handle, key, &present);
                if (expected && sb_named_stands(&handle->segment, &present))
                        break;
        }
        *ret_rev = rev;
        return r;
}

/* Marks the cut, which is announced; fault MARK_CUT_CLOSED: which was. */
static int mark_take(
        struct sb_handle *handle, uint32_t index, uint64_t cut, struct sb_named_value *ret)
{
        if (SB_FAULT(MARK_CUT_CLOSED))
                sb_snapshot_close(handle, index);
        return sb_named_take(handle, index, cut, ret);
}

int sb_op_mark(struct sb_handle *handle, const void *name, uint32_t name_len, uint64_t *ret_cut)
{
        struct sb_named_value mark;
        struct mark_key key;
        uint64_t cut, rev;
        uint32_t index;
        int r;

        mark_make_key(&key, name, name_len);
        if (!SB_FAULT(MARK_UNANNOUNCED))
                sb_named_announce(handle);
        r = sb_snapshot_open(handle, &index, &cut);
        if (r)
                return r;
        r = mark_take(handle, index, cut, &mark);
        if (r == SB_E_FULL) {
                sb_named_repair(handle);
                r = sb_named_take(handle, index, cut, &mark);
        }
        if (!r) {
                r = mark_name_it(handle, &key, &mark, &rev);
                /* As long as the announcement stands, no process takes the mark for a dead
                 * maker's. */
                if (!r && !sb_snapshot_holds(handle, index, cut)) {
                        (void)mark_write_key(handle, &key, NULL, rev, &rev);
                        r = SB_E_LAPPED;
                }
                if (r)
                        sb_named_let_go(handle, &mark);
        }
        sb_snapshot_close(handle, index);
        if (!r)
                *ret_cut = cut;
        return r;
}

int sb_op_mark_find(
        struct sb_handle *handle, const void *name, uint32_t name_len, uint64_t *ret_cut)
{
        struct sb_named_value present;
        struct mark_key key;

        mark_make_key(&key, name, name_len);
        if (!mark_read_key(handle, &key, &present) || !sb_named_stands(&handle->segment, &present))
                return SB_E_NOT_FOUND;
        *ret_cut = present.cut;
        return 0;
}

int sb_op_mark_drop(struct sb_handle *handle, const void *name, uint32_t name_len)
{
        struct sb_named_value present;
        struct mark_key key;
        uint64_t rev, ignored;
        bool stood;
        int r;

        mark_make_key(&key, name, name_len);
        do {
                rev = mark_read_key(handle, &key, &present);
                if (!rev)
                        return SB_E_NOT_FOUND;
                stood = sb_named_stands(&handle->segment, &present);
                r = mark_write_key(handle, &key, NULL, rev, &ignored);
        } while (r == SB_E_CONFLICT);
        if (r)
                return r;
        sb_named_let_go(handle, &present);
        return stood ? 0 : SB_E_NOT_FOUND;
}
