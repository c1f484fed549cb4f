/* What a log has behind damage; see wal-behind.h. */
#include "ring/wal/wal-behind.h"

#include <errno.h>
#include <stdbool.h>

/* From which batch on the log says all that there is; 0: none that was read says so. */
struct wal_behind_look {
        uint64_t sequence, whole_sequence;
        uint64_t passed; /* the last batch that was passed over; 0: none was */
};

static int wal_behind_begin(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        struct wal_behind_look *look = context;

        if (look->sequence && batch->sequence != look->sequence + 1)
                look->passed = batch->sequence - 1;
        look->sequence = batch->sequence;
        *ret_skip = false;
        return 0;
}

static int wal_behind_entry(void *context, const struct sb_wal_entry *entry)
{
        struct wal_behind_look *look = context;

        if (entry->kind == SB_WAL_WORD && entry->which == SB_WAL_WORD_WHOLE)
                look->whole_sequence = look->sequence;
        if (entry->kind == SB_WAL_WORD && entry->which == SB_WAL_WORD_SINCE) {
                if (!entry->rev || entry->rev > look->sequence)
                        return -EBADMSG;
                if (entry->rev > look->passed)
                        look->whole_sequence = entry->rev;
        }
        return 0;
}

/* Return: 0: the reader has the whole bus; -ENODATA; -errno. */
static int wal_behind_look(struct sb_wal_reader *reader)
{
        static const struct sb_wal_visitor visitor = {
                .begin = wal_behind_begin, .entry = wal_behind_entry};
        const struct sb_wal_end *end = sb_wal_reader_end(reader);
        struct wal_behind_look look = {0};
        int r;

        if (end->ending > SB_WAL_DAMAGED || !end->first_sequence)
                return -ENODATA;
        r = sb_wal_reader_visit(reader, &visitor, &look);
        if (r) /* entries that no agentd brings back are further damage */
                return r == -EBADMSG || r == -EPROTONOSUPPORT ? -ENODATA : r;
        return look.whole_sequence >= end->first_sequence ? 0 : -ENODATA;
}

int sb_wal_behind(struct sb_wal_reader *reader)
{
        struct sb_wal_end damage = *sb_wal_reader_end(reader), before_whole = {0};
        bool found = false;
        int r;

        /* Each damage lies behind the one before. */
        while (damage.ending == SB_WAL_DAMAGED) {
                r = sb_wal_reader_go_behind(reader, &damage);
                if (r == -ENODATA)
                        break;
                r = r ? r : wal_behind_look(reader);
                if (r && r != -ENODATA)
                        return r;
                if (!r)
                        before_whole = damage;
                found |= !r;
                damage = *sb_wal_reader_end(reader);
        }
        return found ? sb_wal_reader_go_behind(reader, &before_whole) : -ENODATA;
}
