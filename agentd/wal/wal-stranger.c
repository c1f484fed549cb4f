/* Strangers among the log's names; see wal-stranger.h. */
#define _GNU_SOURCE
#include "agentd/wal/wal-stranger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX 1000u /* that are tried for one */

static void wal_stranger_tell(const struct sb_wal_strangers *strangers, const char *name,
        const char *what, const char *now)
{
        if (strangers)
                strangers->tell(strangers->context, name, what, now);
}

/* A name that nothing has: no name of the log's, for it has something behind the number. Only the
 * owner writes in the directory, so none comes there before it is used. */
static int wal_stranger_find_name(
        int directory_fd, const char *name, char ret[SB_WAL_STRANGER_NAME_MAX])
{
        struct stat status;

        for (unsigned i = 1; i <= NAMES_MAX; i++) {
                snprintf(ret, SB_WAL_STRANGER_NAME_MAX, "%s.stranger-%u", name, i);
                if (fstatat(directory_fd, ret, &status, AT_SYMLINK_NOFOLLOW) < 0)
                        return errno == ENOENT ? 0 : -errno;
        }
        return -EEXIST;
}

int sb_wal_stranger_move(const struct sb_wal_strangers *strangers, const struct sb_wal_io *io,
        int directory_fd, uint64_t number, const char *what)
{
        char name[SB_WAL_FILE_NAME_MAX], now[SB_WAL_STRANGER_NAME_MAX];
        int r;

        sb_wal_file_name(number, name);
        r = wal_stranger_find_name(directory_fd, name, now);
        r = r ? r : io->rename(io->context, name, now);
        wal_stranger_tell(strangers, name, what, r ? NULL : now);
        /* Of a mount point. To the log that is no word of the disk. */
        return r == -EBUSY ? -EEXIST : r;
}

int sb_wal_stranger_clear(const struct sb_wal_strangers *strangers, const struct sb_wal_io *io,
        int directory_fd, uint64_t number, const unsigned char *id)
{
        enum sb_wal_header header = SB_WAL_HEADER_BAD;
        const char *what = sb_wal_file_other_kind(directory_fd, number);
        struct sb_wal_file file;
        uint32_t version;
        int fd, r;

        if (!what) {
                r = sb_wal_file_open(directory_fd, number, &fd);
                if (r)
                        return r == -ENOENT ? 0 : r;
                r = sb_wal_file_read_header(fd, &file, &header, &version);
                close(fd);
                if (r || (header == SB_WAL_HEADER_GOOD && !memcmp(file.id, id, sizeof(file.id))))
                        return r;
                what = SB_WAL_STRANGER_FILE;
        }
        return sb_wal_stranger_move(strangers, io, directory_fd, number, what);
}

void sb_wal_stranger_stays(
        const struct sb_wal_strangers *strangers, uint64_t number, const char *what)
{
        char name[SB_WAL_FILE_NAME_MAX];

        sb_wal_file_name(number, name);
        wal_stranger_tell(strangers, name, what, NULL);
}

void sb_wal_stranger_spare_stays(
        const struct sb_wal_strangers *strangers, int directory_fd, uint32_t spare)
{
        char name[SB_WAL_FILE_NAME_MAX];
        const char *what;

        sb_wal_file_spare_name(spare, name);
        what = sb_wal_file_name_kind(directory_fd, name);
        if (what)
                wal_stranger_tell(strangers, name, what, NULL);
}
