/* Marks by name; see mark.h. The key is only ever written over the revision that was read. */

#include "ring/op/mark.h"

#include <string.h>

#include "ring/op/put.h"
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

uint32_t sb_mark_name_max(const struct sb_peer *peer)
{
        return peer->segment.key_len_max - SB_MARK_PREFIX;
}

/* Reads what the key holds now. Return: its revision; 0: it has no value. */
static uint64_t mark_read_key(
        struct sb_peer *peer, const struct mark_key *key, struct sb_mark_value *ret)
{
        struct sb_version *version;
        uint64_t rev = 0;

        *ret = (struct sb_mark_value){0};
        sb_pin(peer);
        version = sb_find_newest(
                peer, key->bytes, key->len, sb_hash_key(key->bytes, key->len, peer->segment.seed));
        if (version && (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE) {
                rev = version->rev;
                if (SB_SHAPE_VALUE_LEN(version->shape) == sizeof(*ret))
                        memcpy(ret, version->bytes + key->len, sizeof(*ret));
        }
        sb_unpin(peer);
        return rev;
}

/* Writes the key over revision @expected; @value NULL: deletes it. Return: as
 * sb_op_write_own(). */
static int mark_write_key(struct sb_peer *peer, const struct mark_key *key,
        const struct sb_mark_value *value, uint64_t expected, uint64_t *ret_rev)
{
        return sb_op_write_own(
                peer, key->bytes, key->len, value, sizeof(*value), expected, ret_rev);
}

/* Gives the mark its name. Return: 0 with the key's revision in *ret_rev; SB_E_CONFLICT: the name
 * is taken; SB_E_FULL. */
static int mark_name_it(struct sb_peer *peer, const struct mark_key *key,
        const struct sb_mark_value *mark, uint64_t *ret_rev)
{
        struct sb_mark_value present;
        uint64_t expected = 0, rev;
        int r;

        for (;;) {
                r = mark_write_key(peer, key, mark, expected, &rev);
                if (r != SB_E_CONFLICT)
                        break;
                /* A name of which the mark is gone is free. */
                expected = mark_read_key(peer, key, &present);
                if (expected && sb_mark_stands(&peer->segment, &present))
                        break;
        }
        *ret_rev = rev;
        return r;
}

int sb_mark_make(struct sb_peer *peer, const void *name, uint32_t name_len, uint64_t *ret_cut)
{
        struct sb_mark_value mark;
        struct mark_key key;
        uint64_t cut, rev;
        uint32_t index;
        int r;

        mark_make_key(&key, name, name_len);
        r = sb_snapshot_open(peer, &index, &cut);
        if (r)
                return r;
        r = sb_mark_take(peer, index, cut, &mark);
        if (r == SB_E_FULL) {
                sb_marks_repair(peer);
                r = sb_mark_take(peer, index, cut, &mark);
        }
        if (!r) {
                r = mark_name_it(peer, &key, &mark, &rev);
                /* As long as the announcement stands, no process takes the mark for a dead
                 * maker's. */
                if (!r && !sb_snapshot_holds(peer, index, cut)) {
                        (void)mark_write_key(peer, &key, NULL, rev, &rev);
                        r = SB_E_LAPPED;
                }
                if (r)
                        sb_mark_let_go(peer, &mark);
        }
        sb_snapshot_close(peer, index);
        if (!r)
                *ret_cut = cut;
        return r;
}

int sb_mark_look_up(struct sb_peer *peer, const void *name, uint32_t name_len, uint64_t *ret_cut)
{
        struct sb_mark_value present;
        struct mark_key key;

        mark_make_key(&key, name, name_len);
        if (!mark_read_key(peer, &key, &present) || !sb_mark_stands(&peer->segment, &present))
                return SB_E_NOT_FOUND;
        *ret_cut = present.cut;
        return 0;
}

int sb_mark_forget(struct sb_peer *peer, const void *name, uint32_t name_len)
{
        struct sb_mark_value present;
        struct mark_key key;
        uint64_t rev, ignored;
        bool stood;
        int r;

        mark_make_key(&key, name, name_len);
        do {
                rev = mark_read_key(peer, &key, &present);
                if (!rev)
                        return SB_E_NOT_FOUND;
                stood = sb_mark_stands(&peer->segment, &present);
                r = mark_write_key(peer, &key, NULL, rev, &ignored);
        } while (r == SB_E_CONFLICT);
        if (r)
                return r;
        sb_mark_let_go(peer, &present);
        return stood ? 0 : SB_E_NOT_FOUND;
}
