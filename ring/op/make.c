/* Making a key without a value; see make.h. */

#include "ring/op/make.h"

#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/index.h"
#include "shm/layout/damage.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/upkeep/key.h"

/* Each further round means that another process removed the key that was just made, under this
 * pin. So many mean that the segment is damaged. */
#ifndef SB_MAKE_ROUNDS_MAX
#define SB_MAKE_ROUNDS_MAX 1024u
#endif

bool sb_make_is_there(struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash)
{
        struct sb_spot spot;
        bool there;

        sb_pin(handle);
        there = sb_key_find(handle, key, key_len, hash, &spot);
        sb_unpin(handle);
        return there;
}

int sb_make_key(
        struct sb_handle *handle, const void *key, uint32_t key_len, uint64_t hash, uint32_t also)
{
        struct sb_key_supplies supplies = {0};
        struct sb_spot spot;
        uint32_t rounds = 0;
        int r = 0;

        sb_pin(handle);
        while (!r && !sb_key_find(handle, key, key_len, hash, &spot)) {
                /* Bound: damage. A key that has a node, and no cell that a search finds. */
                if (rounds++ == SB_MAKE_ROUNDS_MAX) {
                        sb_damage_note(handle);
                        break;
                }
                r = sb_key_take_supplies(handle, key_len, also, &supplies);
                if (r)
                        break;
                r = sb_key_make(handle, key, key_len, hash, &supplies);
        }
        /* R:operation > A:operation, R:unpin > A:pins. As in put_run(). */
        sb_store_release(&handle->record->operation, 0);
        sb_unpin(handle);
        if (supplies.node)
                sb_slab_give_back(handle, supplies.node);
        if (supplies.placeholder)
                sb_slab_give_back(handle, supplies.placeholder);
        sb_slab_settle(handle);
        return r;
}
