/* From which batch on a log has the whole bus; see wal-whole.h. */
#include "ring/wal/wal-whole.h"

#include <errno.h>

#include "shm/base/fault.h"

void sb_wal_whole_begin(struct sb_wal_whole *whole, const struct sb_wal_batch *batch)
{
        if (!whole->first)
                whole->first = batch->sequence;
        else if (batch->sequence != whole->sequence + 1)
                whole->passed = batch->sequence - 1;
        whole->sequence = batch->sequence;
        whole->entry = 0;
}

/* What the copy says that ends here. */
static int wal_whole_take_copy(struct sb_wal_whole *whole, uint64_t since)
{
        if (!since || since > whole->sequence)
                return -EBADMSG;
        /* A copy of which pieces are passed over is none: the one before it is taken. Fault
         * PIECES_MISSED: it is one. */
        if (since <= whole->passed && !SB_FAULT(PIECES_MISSED))
                return 0;
        whole->said = since;
        if (since < whole->first)
                return 0; /* it began in a file that is gone */
        whole->since = since;
        whole->since_entry = 0;
        return 0;
}

int sb_wal_whole_take(struct sb_wal_whole *whole, const struct sb_wal_entry *entry)
{
        whole->entry++;
        whole->said = 0;
        if (entry->kind != SB_WAL_WORD)
                return 0;
        if (entry->which == SB_WAL_WORD_SINCE)
                return wal_whole_take_copy(whole, entry->rev);
        if (entry->which == SB_WAL_WORD_WHOLE) {
                whole->said = whole->since = whole->sequence;
                whole->since_entry = whole->entry;
        }
        return 0;
}

/* Where there is no batch, `sequence` is that of the one before the first file. */
bool sb_wal_whole_begins(const struct sb_wal_whole *whole, const struct sb_wal_end *end)
{
        if (!end->first_sequence)
                return !end->sequence;
        return end->first_sequence == 1 || whole->since;
}

static int wal_whole_begin_any(void *context, const struct sb_wal_batch *batch, bool *ret_skip)
{
        *ret_skip = false;
        sb_wal_whole_begin(context, batch);
        return 0;
}

static int wal_whole_take_any(void *context, const struct sb_wal_entry *entry)
{
        return sb_wal_whole_take(context, entry);
}

int sb_wal_whole_look(struct sb_wal_reader *reader, struct sb_wal_whole *ret)
{
        static const struct sb_wal_visitor visitor = {
                .begin = wal_whole_begin_any, .entry = wal_whole_take_any};
        const struct sb_wal_end *end = sb_wal_reader_end(reader);
        struct sb_wal_whole whole = {0};
        int r;

        if (end->ending > SB_WAL_DAMAGED || !end->first_sequence)
                return -ENODATA;
        r = sb_wal_reader_visit(reader, &visitor, &whole);
        if (r) /* entries that no agentd brings back are further damage */
                return r == -EBADMSG || r == -EPROTONOSUPPORT ? -ENODATA : r;
        *ret = whole;
        return 0;
}
