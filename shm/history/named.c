/* Marks: the table of cuts that are kept under names; see named.h. */

#include "shm/history/named.h"

#include <errno.h>
#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/find.h"
#include "shm/mvcc/snapshot.h"

bool sb_named_read(const struct sb_segment *segment, uint32_t index, uint64_t *ret_cut)
{
        const struct sb_named_cut *mark = &segment->marks[index];

        /* Without a bound: each further round means that another process has dropped a mark here
         * and made one. */
        for (;;) {
                uint64_t owner = sb_load_acquire(&mark->owner), cut; /* A:mark. */

                if (!owner || (owner & SB_NAMED_MAKING))
                        return false;
                /* A:mark, both. If the owner is the same behind the load, this is its cut. */
                cut = sb_load_acquire(&mark->cut);
                if (sb_load_acquire(&mark->owner) != owner)
                        continue;
                *ret_cut = cut;
                return true;
        }
}

bool sb_named_keeps(const struct sb_segment *segment, uint32_t index, uint64_t *ret_cut)
{
        const struct sb_named_cut *mark = &segment->marks[index];

        if (!sb_load_acquire(&mark->owner)) /* A:mark. */
                return false;
        /* A:mark. If it is another owner's cut by now, the former owner has let go of its own. */
        *ret_cut = sb_load_acquire(&mark->cut);
        return *ret_cut != 0;
}

/* Write the cut into a mark that this handle has taken, in MAKING: pruners keep what it says from
 * now on. Return: whether the announcement was still there then: if so, there was always something
 * that kept the cut. */
static bool named_set_cut(
        struct sb_handle *handle, struct sb_named_cut *mark, uint32_t snapshot, uint64_t cut)
{
        /* R:mark > A:mark. A full barrier: if the engine takes the announcement away after the look
         * at it, pruners see that only after this cut is there. */
        sb_exchange_full(&mark->cut, cut);
        return sb_snapshot_holds(handle, snapshot, cut) || SB_FAULT(MARK_UNASKED);
}

/* Raise the number of marks that were ever used. */
static void named_raise_high(struct sb_segment *segment, uint64_t count)
{
        uint64_t high;

        do
                high = sb_load_acquire(&segment->super->mark_high); /* A:mark. */
        /* R:mark > A:mark. */
        while (high < count && !sb_cas64_full(&segment->super->mark_high, high, count));
}

void sb_named_announce(struct sb_handle *handle)
{
        named_raise_high(&handle->segment, 1);
}

int sb_named_take(
        struct sb_handle *handle, uint32_t snapshot, uint64_t cut, struct sb_named_value *ret)
{
        struct sb_segment *segment = &handle->segment;
        /* Relaxed: this client's own word. It was counted on for the snapshot, and will be for the
         * next one, so no two marks have the same owner. */
        uint64_t owner = SB_RECORD_NUMBER(handle->slot, sb_load_relaxed(&handle->record->opens));
        uint32_t index;

        for (index = 0; index < segment->geometry.mark_count; index++) {
                struct sb_named_cut *mark = &segment->marks[index];

                /* A:mark, R:mark > A:mark. With MAKING, sb_named_read() passes it by. */
                if (sb_load_acquire(&mark->owner) ||
                        !sb_cas64_full(&mark->owner, 0, owner | SB_NAMED_MAKING))
                        continue;
                /* Pruners look so far before the mark is one. */
                named_raise_high(segment, (uint64_t)index + 1);
                if (!named_set_cut(handle, mark, snapshot, cut)) {
                        /* R:mark > A:mark. The mark is free again; nothing came to rest on it. */
                        sb_cas64_full(&mark->owner, owner | SB_NAMED_MAKING, 0);
                        return SB_E_LAPPED;
                }
                /* R:mark > A:mark. The cut is in it. */
                sb_cas64_full(&mark->owner, owner | SB_NAMED_MAKING, owner);
                *ret = (struct sb_named_value){.cut = cut, .owner = owner, .index = index};
                return 0;
        }
        return SB_E_FULL;
}

bool sb_named_stands(const struct sb_segment *segment, const struct sb_named_value *value)
{
        return value->index < segment->geometry.mark_count && value->owner &&
               sb_load_acquire(&segment->marks[value->index].owner) == value->owner; /* A:mark. */
}

void sb_named_let_go(struct sb_handle *handle, const struct sb_named_value *value)
{
        /* R:mark > A:mark. No key names it any more. */
        if (sb_named_stands(&handle->segment, value) &&
                sb_cas64_full(&handle->segment.marks[value->index].owner, value->owner, 0))
                /* Pruners kept for it what perhaps nothing needs any more. */
                sb_limbo_leave(handle);
}

/* Whether the maker may be at work: the client of this slot announces @cut, or, with MAKING, any
 * cut at all. */
static bool named_is_announced(struct sb_segment *segment, uint64_t owner, uint64_t cut)
{
        uint64_t slot = ((owner & ~SB_NAMED_MAKING) >> 48) - 1;
        uint32_t i;

        for (i = 0; slot < segment->geometry.record_count && i < segment->geometry.snapshot_count;
                i++) {
                /* A:announce. */
                uint64_t word = sb_load_acquire(
                        &sb_record_snapshots(sb_record_at(segment, (uint32_t)slot))[i]);

                if (word && ((owner & SB_NAMED_MAKING) || (word & ~SB_SNAPSHOT_EVICTING) == cut))
                        return true;
        }
        return false;
}

/* The next key of a mark from @key on, or, with @after, behind it: it replaces @key; and what it
 * holds. False: there is none. */
static bool named_next_key(struct sb_handle *handle, unsigned char *key, uint32_t *key_len,
        bool after, struct sb_named_value *ret)
{
        struct sb_version *version;
        struct sb_node_key next = {0};
        struct sb_node *node;
        bool found = false;

        sb_pin(handle);
        node = sb_order_seek(handle, key, *key_len, after);
        if (node)
                next = sb_node_key(&handle->segment, node);
        if (next.bytes && next.len >= SB_MARK_PREFIX &&
                !memcmp(next.bytes, SB_RESERVED_MARK, SB_MARK_PREFIX)) {
                *key_len = next.len;
                memcpy(key, next.bytes, *key_len);
                *ret = (struct sb_named_value){0};
                version = sb_find_in_node(handle, node, SB_STAMP_INTENT - 1);
                if (version)
                        (void)sb_version_copy(
                                &handle->segment, version, *key_len, ret, sizeof(*ret));
                found = true;
        }
        sb_unpin(handle);
        return found;
}

/* Whether a key names the mark of this owner. */
static bool named_has_key(struct sb_handle *handle, uint64_t owner)
{
        unsigned char key[SB_KEY_LEN_MAX];
        uint32_t key_len = SB_MARK_PREFIX;
        struct sb_named_value value;
        bool after = false;

        memcpy(key, SB_RESERVED_MARK, SB_MARK_PREFIX);
        for (; named_next_key(handle, key, &key_len, after, &value); after = true)
                if (value.owner == owner)
                        return true;
        return false;
}

void sb_named_repair(struct sb_handle *handle)
{
        struct sb_segment *segment = &handle->segment;
        bool freed = false;
        uint32_t i;

        /* All of them: one that is being made may lie above mark_high. */
        for (i = 0; i < segment->geometry.mark_count; i++) {
                struct sb_named_cut *mark = &segment->marks[i];
                uint64_t owner = sb_load_acquire(&mark->owner); /* A:mark. */

                /* First whether the maker is at work, then whether there is a key: if the maker has
                 * finished in between, there is. A:mark. */
                if (!owner || named_is_announced(segment, owner, sb_load_acquire(&mark->cut)) ||
                        named_has_key(handle, owner))
                        continue;
                /* R:mark > A:mark. Failed: its maker, or another repairer, has freed it. */
                freed = sb_cas64_full(&mark->owner, owner, 0) || freed;
        }
        if (freed)
                sb_limbo_leave(handle);
}

/* ---- from keys alone ---- */

/* One walk over the keys of marks. The first finds which key has each mark, and has the key's stamp
 * in the place of the cut meanwhile; the second writes the cuts. */
struct named_load {
        uint64_t most;
        bool second;
        int r;
};

/* Of the client that made this mark, no later mark gets the same owner. Relaxed: no other process
 * runs. */
static void named_count_on(const struct sb_segment *segment, uint64_t owner)
{
        uint64_t slot = (owner >> 48) - 1, count = owner & ((UINT64_C(1) << 48) - 1);
        struct sb_word64 *opens;

        if (slot >= segment->geometry.record_count)
                return;
        opens = &sb_record_at(segment, (uint32_t)slot)->opens;
        if (sb_load_relaxed(opens) < count)
                sb_store_relaxed(opens, count);
}

static void named_load_key(struct sb_handle *handle, struct sb_node *node, void *context)
{
        struct sb_segment *segment = &handle->segment;
        struct sb_version *version = sb_find_in_node(handle, node, SB_STAMP_INTENT - 1);
        struct sb_node_key key = sb_node_key(segment, node);
        struct named_load *load = context;
        struct sb_named_value value;
        struct sb_named_cut *mark;

        if (!version || !sb_version_has_value(version) ||
                !sb_version_copy(segment, version, key.len, &value, sizeof(value)) ||
                !value.owner || (value.owner & SB_NAMED_MAKING))
                return;
        if (value.index >= segment->geometry.mark_count || value.cut > load->most) {
                load->r = value.cut > load->most ? -EBADMSG : SB_E_FULL;
                return;
        }
        mark = &segment->marks[value.index];
        /* Relaxed, all of this function: no other process runs. */
        if (!load->second && sb_load_relaxed(&mark->cut) <= sb_load_relaxed(&version->stamp)) {
                sb_store_relaxed(&mark->owner, value.owner);
                sb_store_relaxed(&mark->cut, sb_load_relaxed(&version->stamp));
                named_count_on(segment, value.owner);
        } else if (load->second && sb_load_relaxed(&mark->owner) == value.owner) {
                sb_store_relaxed(&mark->cut, value.cut);
                if (sb_load_relaxed(&segment->super->mark_high) <= value.index)
                        sb_store_relaxed(&segment->super->mark_high, (uint64_t)value.index + 1);
        }
}

int sb_named_load(struct sb_handle *handle, uint64_t most)
{
        struct named_load load = {.most = most};
        uint32_t i;

        (void)sb_order_walk(handle, SB_RESERVED_MARK, SB_MARK_PREFIX, named_load_key, &load);
        load.second = true;
        if (!load.r)
                (void)sb_order_walk(
                        handle, SB_RESERVED_MARK, SB_MARK_PREFIX, named_load_key, &load);
        for (i = 0; load.r && i < handle->segment.geometry.mark_count; i++) {
                /* Relaxed, both: as above. */
                sb_store_relaxed(&handle->segment.marks[i].owner, 0);
                sb_store_relaxed(&handle->segment.marks[i].cut, 0);
        }
        return load.r;
}
