/* Keeping a log aside; see wal-aside.h. */
#define _GNU_SOURCE
#include "agentd/wal/wal-aside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agentd/log.h"
#include "agentd/wal/wal-backend.h"
#include "agentd/wal/wal-writer.h"
#include "ring/wal/wal-file.h"
#include "shm/base/fault.h"
#include "ring/wal/wal-frame.h"

#define MARK      "going-back"
#define MARK_NEXT "going-back.next" /* before it takes that name */

#define ASIDE_MOST 1000u /* of one cut */

/* Make a directory that was not there. Return: 0, -errno. */
static int wal_aside_make(int directory_fd, uint64_t cut, char ret_name[SB_WAL_ASIDE_NAME_MAX])
{
        for (unsigned number = 1; number < ASIDE_MOST; number++) {
                snprintf(ret_name, SB_WAL_ASIDE_NAME_MAX, "aside-%" PRIu64, cut);
                if (number > 1)
                        snprintf(ret_name, SB_WAL_ASIDE_NAME_MAX, "aside-%" PRIu64 "-%u", cut,
                                number);
                if (mkdirat(directory_fd, ret_name, 0700) == 0)
                        return 0;
                if (errno != EEXIST)
                        return -errno;
        }
        return -EEXIST;
}

/* Fault ASIDE_UNSYNCED: the names are not on the disk. */
static int wal_aside_link_all(int directory_fd, int aside_fd, const struct sb_wal_names *names)
{
        char name[SB_WAL_FILE_NAME_MAX];

        for (size_t i = 0; i < names->number_count; i++) {
                sb_wal_file_name(names->numbers[i], name);
                if (linkat(directory_fd, name, aside_fd, name, 0) < 0)
                        return -errno;
        }
        if (SB_FAULT(ASIDE_UNSYNCED))
                return 0;
        return fsync(aside_fd) < 0 || fsync(directory_fd) < 0 ? -errno : 0;
}

/* Of a directory that cannot have all names nothing is left: each start tries again. */
static void wal_aside_drop(
        int directory_fd, int aside_fd, const struct sb_wal_names *names, const char *aside_name)
{
        char name[SB_WAL_FILE_NAME_MAX];

        for (size_t i = 0; aside_fd >= 0 && i < names->number_count; i++) {
                sb_wal_file_name(names->numbers[i], name);
                (void)unlinkat(aside_fd, name, 0);
        }
        (void)unlinkat(directory_fd, aside_name, AT_REMOVEDIR);
}

int sb_wal_aside(int directory_fd, uint64_t cut, char ret_name[SB_WAL_ASIDE_NAME_MAX])
{
        struct sb_wal_names names;
        int aside_fd, r = sb_wal_file_list(directory_fd, &names);

        if (r)
                return r;
        r = wal_aside_make(directory_fd, cut, ret_name);
        if (!r) {
                aside_fd = openat(
                        directory_fd, ret_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
                r = aside_fd < 0 ? -errno : wal_aside_link_all(directory_fd, aside_fd, &names);
                if (r)
                        wal_aside_drop(directory_fd, aside_fd, &names, ret_name);
                if (aside_fd >= 0)
                        close(aside_fd);
        }
        sb_wal_file_list_end(&names);
        return r;
}

/* Whether a file of the log has something of a batch up to @last. One without a good header has
 * nothing that can be read. Return: 1, 0; -errno: it cannot be told. */
static int wal_aside_counts(int directory_fd, uint64_t number, uint64_t last)
{
        enum sb_wal_header header = SB_WAL_HEADER_BAD;
        struct sb_wal_file file;
        uint32_t version;
        int fd, r = sb_wal_file_open(directory_fd, number, &fd);

        if (!r) {
                r = sb_wal_file_read_header(fd, &file, &header, &version);
                close(fd);
        }
        if (r)
                return r == -EBADMSG ? 0 : r;
        return header == SB_WAL_HEADER_GOOD && file.number == number && file.first_sequence <= last;
}

/* Its own name goes. Synced one by one, so that a power failure leaves no gap. */
static int wal_aside_take_away(int directory_fd, uint64_t number)
{
        char name[SB_WAL_FILE_NAME_MAX];

        sb_wal_file_name(number, name);
        return unlinkat(directory_fd, name, 0) < 0 || fsync(directory_fd) < 0 ? -errno : 0;
}

static int wal_aside_cut(int directory_fd, uint64_t last)
{
        struct sb_wal_names names;
        int r = sb_wal_file_list(directory_fd, &names);

        if (r)
                return r;
        for (size_t i = names.number_count; i-- > 0 && !r;) {
                int counts = wal_aside_counts(directory_fd, names.numbers[i], last);

                if (counts > 0)
                        break;
                r = counts ? counts : wal_aside_take_away(directory_fd, names.numbers[i]);
        }
        sb_wal_file_list_end(&names);
        return r;
}

static int wal_aside_cut_front(int directory_fd, uint64_t first)
{
        struct sb_wal_names names;
        int r = sb_wal_file_list(directory_fd, &names);

        if (r)
                return r;
        for (size_t i = 0; i < names.number_count && names.numbers[i] < first && !r; i++)
                r = wal_aside_take_away(directory_fd, names.numbers[i]);
        sb_wal_file_list_end(&names);
        return r;
}

/* Return: the cut of the mark; 0: there is none. */
static uint64_t wal_aside_marked(int directory_fd)
{
        char text[24] = "";
        ssize_t len = readlinkat(directory_fd, MARK, text, sizeof(text) - 1);

        return len > 0 ? strtoull(text, NULL, 10) : 0;
}

/* Take away a name that may not be there. Return: 0, -errno. */
static int wal_aside_forget(int directory_fd, const char *name)
{
        return unlinkat(directory_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* Make a mark, or have another one take the place of the one that is there, without a moment in
 * which there is none. One with the same cut is made anew, too: a start that was killed may have
 * left it in memory alone. Faults MARK_UNSYNCED, MARK_REPLACED: one rule each is not so. */
static int wal_aside_mark(int directory_fd, uint64_t cut)
{
        char text[24];
        int r = wal_aside_forget(directory_fd, MARK_NEXT);

        if (!r && SB_FAULT(MARK_REPLACED))
                r = wal_aside_forget(directory_fd, MARK);
        if (r)
                return r;
        snprintf(text, sizeof(text), "%" PRIu64, cut);
        if (symlinkat(text, directory_fd, MARK_NEXT) < 0 ||
                renameat(directory_fd, MARK_NEXT, directory_fd, MARK) < 0)
                return -errno;
        return !SB_FAULT(MARK_UNSYNCED) && fsync(directory_fd) < 0 ? -errno : 0;
}

int sb_wal_aside_take(int directory_fd, uint64_t cut, uint64_t last, uint64_t first)
{
        int r = cut ? wal_aside_mark(directory_fd, cut) : 0;

        if (!r && last != UINT64_MAX)
                r = wal_aside_cut(directory_fd, last);
        return r ? r : wal_aside_cut_front(directory_fd, first);
}

/* Fault UNMARKED_EARLY: what an earlier start did may not be on the disk yet. */
int sb_wal_aside_unmark(int directory_fd)
{
        if (!wal_aside_marked(directory_fd))
                return wal_aside_forget(directory_fd, MARK); /* nothing, or no mark */
        if (!SB_FAULT(UNMARKED_EARLY) && fsync(directory_fd) < 0)
                return -errno;
        return unlinkat(directory_fd, MARK, 0) < 0 || fsync(directory_fd) < 0 ? -errno : 0;
}

uint64_t sb_wal_aside_wanted(int directory_fd, uint64_t recover_to)
{
        uint64_t marked = wal_aside_marked(directory_fd);

        /* What comes behind the mark's cut may be gone in part. */
        if (!marked || (recover_to && recover_to <= marked))
                return recover_to;
        sb_log("going back to cut %" PRIu64 " was interrupted, and is done now", marked);
        return marked;
}

int sb_wal_aside_end(
        int directory_fd, const struct sb_wal_end *end, uint64_t sequence, uint64_t cut)
{
        struct sb_wal_io io;
        struct sb_wal_writer_options options = {.directory_fd = directory_fd,
                .io = &io,
                .hash_seed = end->hash_seed,
                .file_size =
                        2 * SB_WAL_BLOCK, /* it has no batch; the next one has a file of its own */
                .sequence = sequence,
                .cut = cut};
        struct sb_wal_writer *writer;
        const char *reason;
        int r = sb_wal_backend_open(SB_WAL_SYNC, directory_fd, &io, &reason);

        if (r)
                return r;
        memcpy(options.id, end->id, sizeof(options.id));
        r = sb_wal_writer_open(&options, &writer);
        if (!r) {
                r = sb_wal_writer_resume(writer);
                sb_wal_writer_close(writer);
        }
        sb_wal_backend_close(&io);
        return r;
}
