/*
 * Whether the log's files have their names still; see wal-named.h.
 *
 * The one that is written has all its bytes from the beginning. So where it has fewer, another
 * program has cut it, and what was durable in it is gone, as with a name.
 *
 * A directory says when it was changed last, in steps of some milliseconds. So a change that came
 * just before the look counts as one that may have come behind it, and is asked for again.
 */
#define _GNU_SOURCE
#include "agentd/wal/wal-named.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "shm/base/fault.h"

#define STEP_NS INT64_C(50000000) /* longer than the step of any file system's clock */

static int64_t wal_named_ns(const struct timespec *time)
{
        return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Whether the directory is as it was when all names were there. *ret_ns: when it changed. */
static bool wal_named_is_unchanged(const struct sb_wal_files *files, int64_t *ret_ns)
{
        struct timespec now;
        struct stat status;

        *ret_ns = 0;
        if (fstat(files->directory_fd, &status) < 0)
                return true; /* it cannot be told */
        clock_gettime(CLOCK_REALTIME, &now);
        if (wal_named_ns(&now) - wal_named_ns(&status.st_mtim) > STEP_NS)
                *ret_ns = wal_named_ns(&status.st_mtim);
        return *ret_ns && *ret_ns == files->named_ns;
}

/* Whether the last file, which is open, has its name. Fault SIZE_UNASKED: how long it is does not
 * matter. */
static bool wal_named_has_last(const struct sb_wal_files *files, bool *ret_is_short)
{
        const struct sb_wal_files_entry *last = &files->list[files->count - 1];
        uint64_t inode, size = 0;
        int r = sb_wal_files_inode(files, last->number, &inode, &size);

        *ret_is_short = !r && inode == last->inode && size < last->size && !SB_FAULT(SIZE_UNASKED);
        return r ? r != -ENOENT : inode == last->inode;
}

/* Takes out of the list what is not there. Return: how many that were, without those that may have
 * been let go. */
static size_t wal_named_drop(struct sb_wal_files *files)
{
        size_t count = files->count, lost = 0, i;
        uint64_t inode, size;

        files->count = 0;
        for (i = 0; i < count; i++)
                if (sb_wal_files_inode(files, files->list[i].number, &inode, &size) != -ENOENT)
                        files->list[files->count++] = files->list[i];
                else
                        lost += !files->list[i].leaving;
        return lost;
}

int sb_wal_named_look(struct sb_wal_files *files, bool written)
{
        bool lost = false, is_short = false;
        int64_t changed_ns = 0;

        if (SB_FAULT(NAME_UNASKED) || !files->count)
                return 0;
        if (written && !wal_named_has_last(files, &is_short)) {
                lost = true;
                files->count--;
        }
        lost |= is_short; /* it goes with the files before the next one, and keeps its number */
        if (!lost && wal_named_is_unchanged(files, &changed_ns))
                return 0;
        lost |= wal_named_drop(files) > 0;
        files->named_ns = lost ? 0 : changed_ns;
        return lost ? -ENOENT : 0;
}

bool sb_wal_named_lacks(const struct sb_wal_files *files, uint64_t above, uint64_t last)
{
        size_t i;

        if (!files->count || files->list[0].reaches_cut > above)
                return true;
        for (i = 1; i < files->count; i++)
                if (files->list[i].number != files->list[i - 1].number + 1)
                        return true;
        return files->list[files->count - 1].number < last;
}
