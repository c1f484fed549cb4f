/* Entries: written and looked at; see wal-entry.h. */
#include "ring/wal/wal-entry.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "ring/wal/wal-bytes.h"
#include "shm/base/fault.h"

enum {
        AT_KIND = 0,
        AT_FLAGS = 1,
        AT_WRITER = 2,
        AT_KEY_LEN = 4,
        AT_VALUE_LEN = 8,
        AT_REV = 16,
        AT_STAMP = 24, /* of a floor, a word or a time: which */
        AT_TRANSACTION = 32,
        AT_EXPIRY = 40,
};

static bool wal_entry_is_known(unsigned kind, unsigned flags)
{
        return kind >= SB_WAL_VALUE && kind <= SB_WAL_TIME && !(flags & ~(unsigned)SB_WAL_BORN);
}

static bool wal_entry_is_version(unsigned kind)
{
        return kind < SB_WAL_FLOOR;
}

/* Whether an entry of this kind has such a key and such a value. */
static bool wal_entry_fits(unsigned kind, uint32_t key_len, uint64_t value_len)
{
        if (!wal_entry_is_version(kind))
                return !key_len && !value_len;
        return key_len >= 1 && key_len <= SB_WAL_ENTRY_KEY_MAX &&
               value_len <= SB_WAL_ENTRY_VALUE_MAX && (kind == SB_WAL_VALUE || !value_len);
}

int sb_wal_entry_encode(const struct sb_wal_entry *entry, unsigned char *ret_head)
{
        if (!wal_entry_is_known(entry->kind, entry->flags) ||
                !wal_entry_fits(entry->kind, entry->key_len, entry->value_len))
                return -EINVAL;
        ret_head[AT_KIND] = (unsigned char)entry->kind;
        ret_head[AT_FLAGS] = entry->flags;
        sb_wal_bytes_put16(ret_head + AT_WRITER, entry->writer);
        sb_wal_bytes_put32(ret_head + AT_KEY_LEN, entry->key_len);
        sb_wal_bytes_put64(ret_head + AT_VALUE_LEN, entry->value_len);
        sb_wal_bytes_put64(ret_head + AT_REV, entry->rev);
        sb_wal_bytes_put64(ret_head + AT_STAMP,
                wal_entry_is_version(entry->kind) ? entry->stamp : entry->which);
        sb_wal_bytes_put64(ret_head + AT_TRANSACTION, entry->transaction);
        sb_wal_bytes_put64(ret_head + AT_EXPIRY, entry->expiry_ns);
        return 0;
}

int sb_wal_entry_measure(const unsigned char *head, uint64_t *ret_size)
{
        uint32_t key_len = sb_wal_bytes_get32(head + AT_KEY_LEN);
        uint64_t value_len = sb_wal_bytes_get64(head + AT_VALUE_LEN);

        if (!wal_entry_is_known(head[AT_KIND], head[AT_FLAGS]))
                return -EPROTONOSUPPORT;
        if (!wal_entry_fits(head[AT_KIND], key_len, value_len) && !SB_FAULT(ENTRY_UNMEASURED))
                return -EBADMSG;
        *ret_size = sb_wal_entry_size(key_len, value_len);
        return 0;
}

void sb_wal_entry_decode(const unsigned char *bytes, struct sb_wal_entry *ret)
{
        uint64_t word = sb_wal_bytes_get64(bytes + AT_STAMP);

        *ret = (struct sb_wal_entry){
                .kind = (enum sb_wal_kind)bytes[AT_KIND],
                .flags = bytes[AT_FLAGS],
                .writer = sb_wal_bytes_get16(bytes + AT_WRITER),
                .key_len = sb_wal_bytes_get32(bytes + AT_KEY_LEN),
                .value_len = sb_wal_bytes_get64(bytes + AT_VALUE_LEN),
                .rev = sb_wal_bytes_get64(bytes + AT_REV),
                .stamp = wal_entry_is_version(bytes[AT_KIND]) ? word : 0,
                .which = wal_entry_is_version(bytes[AT_KIND]) ? 0 : word,
                .transaction = sb_wal_bytes_get64(bytes + AT_TRANSACTION),
                .expiry_ns = sb_wal_bytes_get64(bytes + AT_EXPIRY),
        };
        ret->key = bytes + SB_WAL_ENTRY_HEAD;
        ret->value = bytes + SB_WAL_ENTRY_HEAD + ret->key_len;
}
