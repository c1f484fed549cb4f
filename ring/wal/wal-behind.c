/* What a log has behind damage; see wal-behind.h. */
#include "ring/wal/wal-behind.h"

#include <errno.h>
#include <stdbool.h>

#include "ring/wal/wal-whole.h"

int sb_wal_behind(struct sb_wal_reader *reader)
{
        struct sb_wal_end damage = *sb_wal_reader_end(reader), before_whole = {0};
        struct sb_wal_whole whole;
        bool found = false;
        int r;

        /* Each damage lies behind the one before. */
        while (damage.ending == SB_WAL_DAMAGED) {
                /* What comes behind lacks a file that belongs there, and was renamed. */
                if (damage.renamed_from > damage.renamed_to)
                        break;
                r = sb_wal_reader_go_behind(reader, &damage);
                if (r == -ENODATA)
                        break;
                r = r ? r : sb_wal_whole_look(reader, &whole);
                if (!r && !whole.since)
                        r = -ENODATA;
                if (r && r != -ENODATA)
                        return r;
                if (!r)
                        before_whole = damage;
                found |= !r;
                damage = *sb_wal_reader_end(reader);
        }
        return found ? sb_wal_reader_go_behind(reader, &before_whole) : -ENODATA;
}
