/* Entries, out of the payloads of frames; see wal-gather.h. */
#include "ring/wal/wal-gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void sb_wal_gather_begin(struct sb_wal_gather *gather)
{
        gather->size = gather->have = 0;
}

void sb_wal_gather_end(struct sb_wal_gather *gather)
{
        free(gather->bytes);
        *gather = (struct sb_wal_gather){0};
}

bool sb_wal_gather_is_amid(const struct sb_wal_gather *gather)
{
        return gather->have;
}

/* Has room for @size bytes of an entry. It grows as the bytes come, so that a length alone takes no
 * memory. */
static int wal_gather_reserve(struct sb_wal_gather *gather, uint64_t size)
{
        uint64_t room = 2 * gather->room;
        unsigned char *entry;

        if (size <= gather->room)
                return 0;
        if (room > gather->size)
                room = gather->size;
        if (room < size)
                room = size;
        entry = realloc(gather->bytes, room);
        if (!entry)
                return -ENOMEM;
        gather->bytes = entry;
        gather->room = room;
        return 0;
}

/* Takes up to as many of the @len bytes as the entry lacks that does not lie in one frame. Return:
 * 0, -errno. */
static int wal_gather_collect(
        struct sb_wal_gather *gather, const unsigned char *bytes, uint64_t len, uint64_t *ret_taken)
{
        uint64_t taken = gather->size - gather->have;
        int r;

        if (taken > len)
                taken = len;
        r = wal_gather_reserve(gather, gather->have + taken);
        if (r)
                return r;
        memcpy(gather->bytes + gather->have, bytes, taken);
        gather->have += taken;
        *ret_taken = taken;
        if (gather->have == SB_WAL_ENTRY_HEAD && gather->size == SB_WAL_ENTRY_HEAD)
                return sb_wal_entry_measure(gather->bytes, &gather->size);
        return 0;
}

static int wal_gather_give(const unsigned char *bytes, const struct sb_wal_taker *taker)
{
        struct sb_wal_entry entry;

        sb_wal_entry_decode(bytes, &entry);
        return taker->entry(taker->context, &entry);
}

/* The entries of a payload that are announced before they are handed out. */
struct wal_gather_ahead {
        const unsigned char *bytes; /* where the next one begins */
        uint64_t len;               /* from there on */
};

/* Announces up to @count more entries; those that do not lie in this payload are not announced. */
static void wal_gather_announce(
        struct wal_gather_ahead *ahead, uint32_t count, const struct sb_wal_taker *taker)
{
        struct sb_wal_entry entry;
        uint64_t size;

        for (; count > 0 && ahead->len >= SB_WAL_ENTRY_HEAD; count--) {
                if (sb_wal_entry_measure(ahead->bytes, &size) || size > ahead->len)
                        break;
                sb_wal_entry_decode(ahead->bytes, &entry);
                taker->ahead(taker->context, &entry);
                ahead->bytes += size;
                ahead->len -= size;
        }
}

int sb_wal_gather_payload(struct sb_wal_gather *gather, const unsigned char *bytes, uint64_t len,
        const struct sb_wal_taker *taker)
{
        struct wal_gather_ahead ahead = {0};
        uint64_t size = 0, taken = 0;
        int r = 0;

        for (; len > 0 && !r; bytes += taken, len -= taken) {
                taken = 0;
                if (!gather->size && len >= SB_WAL_ENTRY_HEAD) {
                        r = sb_wal_entry_measure(bytes, &size);
                        if (!r && size <= len) {
                                if (taker->ahead && !ahead.bytes) {
                                        ahead = (struct wal_gather_ahead){bytes, len};
                                        wal_gather_announce(&ahead, SB_WAL_AHEAD, taker);
                                }
                                if (taker->ahead)
                                        wal_gather_announce(&ahead, 1, taker);
                                r = wal_gather_give(bytes, taker);
                                taken = size;
                                continue;
                        }
                }
                if (!gather->size)
                        gather->size = SB_WAL_ENTRY_HEAD;
                r = r ? r : wal_gather_collect(gather, bytes, len, &taken);
                if (!r && gather->have == gather->size) {
                        r = wal_gather_give(gather->bytes, taker);
                        gather->size = gather->have = 0;
                }
        }
        return r;
}
