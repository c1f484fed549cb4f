/* The log's files as their writer has them; see wal-files.h. */
#define _GNU_SOURCE
#include "agentd/wal/wal-files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <mimalloc.h>

#include "ring/attach/place.h"
#include "ring/wal/wal-frame.h"
#include "shm/base/assert.h"
#include "shm/base/fault.h"

#define ZEROS_AT_ONCE (256u << 10)
#define SPARE_TRIES   64u /* names that are taken, at a time */
/* A smaller file takes a frame of any size. */
#define SMALLER_LEAST (UINT64_C(2) << 20)
static_assert(SMALLER_LEAST >= SB_WAL_BLOCK + SB_WAL_FRAME_MAX, "a frame");

/* ---- what is there ---- */

static int wal_files_add(struct sb_wal_files *files, const struct sb_wal_file *file, bool linked)
{
        struct sb_wal_files_entry *list;

        if (files->count == files->room) {
                size_t room = files->room ? 2 * files->room : 16;

                list = mi_realloc(files->list, room * sizeof(*list));
                if (!list)
                        return -ENOMEM;
                files->list = list;
                files->room = room;
        }
        files->list[files->count++] = (struct sb_wal_files_entry){.number = file->number,
                .reaches_cut = file->reaches_cut,
                .size = file->size,
                .linked = linked};
        files->first_sequence = file->first_sequence;
        return 0;
}

static int wal_files_add_existing(struct sb_wal_files *files, int directory_fd, uint64_t number)
{
        enum sb_wal_header header = SB_WAL_HEADER_BAD;
        struct sb_wal_file file;
        struct stat status = {0};
        uint32_t version;
        int fd, r;

        r = sb_wal_file_open(directory_fd, number, &fd);
        if (r)
                return r;
        r = sb_wal_file_read_header(fd, &file, &header, &version);
        if (!r && fstat(fd, &status) < 0)
                r = -errno;
        close(fd);
        if (r)
                return r;
        if (header != SB_WAL_HEADER_GOOD || file.number != number ||
                memcmp(file.id, files->id, sizeof(file.id)) != 0) {
                sb_wal_stranger_stays(files->strangers, number, SB_WAL_STRANGER_FILE);
                return -EBADMSG;
        }
        return wal_files_add(files, &file, status.st_nlink > 1);
}

/* Spares of before are made anew: what a power failure left of one is not known. */
static int wal_files_drop_spares(struct sb_wal_files *files, const struct sb_wal_names *names)
{
        char name[SB_WAL_FILE_NAME_MAX];
        int r = 0;

        for (size_t i = 0; i < names->spare_count && !r; i++) {
                sb_wal_file_spare_name(names->spares[i], name);
                r = files->io->unlink(files->io->context, name);
                if (r)
                        sb_wal_stranger_spare_stays(
                                files->strangers, files->directory_fd, names->spares[i]);
        }
        return r;
}

int sb_wal_files_open(struct sb_wal_files *files, int directory_fd)
{
        struct sb_wal_names names;
        int r;

        files->directory_fd = directory_fd;
        r = sb_wal_file_list(directory_fd, &names);
        if (r)
                return r;
        for (size_t i = 0; i < names.number_count && !r; i++) {
                const char *what = sb_wal_file_other_kind(directory_fd, names.numbers[i]);

                if (what)
                        r = sb_wal_stranger_move(
                                files->strangers, files->io, directory_fd, names.numbers[i], what);
                else
                        r = wal_files_add_existing(files, directory_fd, names.numbers[i]);
        }
        r = r ? r : wal_files_drop_spares(files, &names);
        sb_wal_file_list_end(&names);
        if (r)
                sb_wal_files_close(files);
        return r;
}

void sb_wal_files_close(struct sb_wal_files *files)
{
        mi_free(files->list);
        files->list = NULL;
        files->count = files->room = 0;
}

int sb_wal_files_settle(struct sb_wal_files *files)
{
        char name[SB_WAL_FILE_NAME_MAX];
        int file, r;

        if (!files->count)
                return sb_place_sync(files->directory_fd);
        sb_wal_file_name(files->list[files->count - 1].number, name);
        r = files->io->open(files->io->context, name, &file);
        if (r)
                return r;
        r = files->io->sync(files->io->context, file);
        files->io->close(files->io->context, file);
        return r;
}

/* ---- a new one ---- */

static int wal_files_write_zeros(struct sb_wal_files *files, int file, uint64_t size)
{
        unsigned char *zeros = mi_zalloc(ZEROS_AT_ONCE);
        int r = zeros ? 0 : -ENOMEM;

        for (uint64_t offset = 0; offset < size && !r; offset += ZEROS_AT_ONCE) {
                uint64_t len = size - offset;

                if (len > ZEROS_AT_ONCE)
                        len = ZEROS_AT_ONCE;
                r = files->io->write(files->io->context, file, zeros, len, offset);
        }
        mi_free(zeros);
        return r;
}

/* Creates a spare; a number of which the name is taken is passed over. */
static int wal_files_create(struct sb_wal_files *files, char ret_name[SB_WAL_FILE_NAME_MAX],
        uint32_t *ret, int *ret_file)
{
        int r = -EEXIST;

        for (uint32_t i = 0; r == -EEXIST && i < SPARE_TRIES; i++) {
                *ret = files->next_spare++;
                sb_wal_file_spare_name(*ret, ret_name);
                r = files->io->create(files->io->context, ret_name, ret_file);
        }
        return r;
}

/* Bytes that the disk has room for; UINT64_MAX: it does not say. The log asks for a file with each
 * batch as long as it needs one: a try that is bound to fail would fill the disk each time, for all
 * that write there. Fault ROOM_UNASKED: it is not asked. */
static uint64_t wal_files_free(const struct sb_wal_files *files)
{
        struct statvfs disk;

        /* Some file systems count no blocks. */
        if (fstatvfs(files->directory_fd, &disk) < 0 || !disk.f_blocks || !disk.f_frsize ||
                SB_FAULT(ROOM_UNASKED))
                return UINT64_MAX;
        return (geteuid() ? disk.f_bavail : disk.f_bfree) * disk.f_frsize;
}

bool sb_wal_files_have_room(const struct sb_wal_files *files, uint32_t count)
{
        return count <= files->spare_count ||
               wal_files_free(files) / (count - files->spare_count) >= files->file_size;
}

/* The smaller one leaves a part of the room, for others write there, too. Fault SMALLER_UNMADE: it
 * is never smaller. */
uint64_t sb_wal_files_next_size(const struct sb_wal_files *files, bool may_be_smaller)
{
        uint64_t room, size;

        if (!may_be_smaller || !files->count || files->spare_count || SB_FAULT(SMALLER_UNMADE))
                return files->file_size;
        room = wal_files_free(files);
        size = room / 4 * 3 / SB_WAL_BLOCK * SB_WAL_BLOCK;
        return room >= files->file_size || size < SMALLER_LEAST ? files->file_size : size;
}

/* Makes a file of zeros under a spare's name. Nothing is left of one that could not be made. */
static int wal_files_make(struct sb_wal_files *files, uint64_t size, uint32_t *ret)
{
        const struct sb_wal_io *io = files->io;
        char name[SB_WAL_FILE_NAME_MAX];
        int file, r;

        if (wal_files_free(files) < size)
                return -ENOSPC;
        r = wal_files_create(files, name, ret, &file);
        if (r)
                return r;
        r = wal_files_write_zeros(files, file, size);
        r = r ? r : io->sync(io->context, file);
        io->close(io->context, file);
        if (r)
                (void)io->unlink(io->context, name);
        return r;
}

int sb_wal_files_prepare(struct sb_wal_files *files)
{
        uint32_t spare;
        int r;

        if (files->spare_count >= files->spares_wanted)
                return 0;
        r = wal_files_make(files, files->file_size, &spare);
        if (!r)
                files->spares[files->spare_count++] = spare;
        return r;
}

/* Takes a spare out of the list, or makes one, of @size. */
static int wal_files_get_spare(struct sb_wal_files *files, uint64_t size, uint32_t *ret)
{
        if (!files->spare_count)
                return wal_files_make(files, size, ret);
        *ret = files->spares[--files->spare_count];
        return 0;
}

/* Opens a spare; one that was removed meanwhile is passed over. Return: 0, -errno. */
static int wal_files_open_spare(struct sb_wal_files *files, uint64_t size,
        char ret_name[SB_WAL_FILE_NAME_MAX], int *ret_file)
{
        const struct sb_wal_io *io = files->io;
        bool listed;
        uint32_t spare = 0;
        int r;

        do { /* Bound: result. Each time one less is in the list. */
                listed = files->spare_count;
                r = wal_files_get_spare(files, size, &spare);
                if (r)
                        return r;
                sb_wal_file_spare_name(spare, ret_name);
                r = io->open(io->context, ret_name, ret_file);
        } while (r == -ENOENT && listed);
        if (r)
                (void)io->unlink(io->context, ret_name);
        return r;
}

/* A salt for this use of the file; fault SALT_KEPT: the same for each use. */
static int wal_files_draw_salt(struct sb_wal_files *files, uint64_t *ret)
{
        if (SB_FAULT(SALT_KEPT)) {
                *ret = files->hash_seed;
                return 0;
        }
        return files->io->random(files->io->context, ret);
}

/* Writes the header of the spare that is open; fault HEADER_UNSYNCED: does not sync it. */
static int wal_files_write_header(
        struct sb_wal_files *files, int spare_file, const struct sb_wal_file *file)
{
        const struct sb_wal_io *io = files->io;
        unsigned char block[SB_WAL_BLOCK];
        int r;

        sb_wal_file_encode(file, block);
        r = io->write(io->context, spare_file, block, sizeof(block), 0);
        if (r || SB_FAULT(HEADER_UNSYNCED))
                return r;
        return io->sync(io->context, spare_file);
}

/* Gives the spare its number, for good, and what had its name another one; fault
 * RENAME_WITHOUT_DIRECTORY_FSYNC: not for good; STRANGER_REPLACED: it is written over. */
static int wal_files_name(struct sb_wal_files *files, const char *spare_name, uint64_t number)
{
        const struct sb_wal_io *io = files->io;
        char name[SB_WAL_FILE_NAME_MAX];
        int r = 0;

        sb_wal_file_name(number, name);
        if (!SB_FAULT(STRANGER_REPLACED))
                r = sb_wal_stranger_clear(
                        files->strangers, io, files->directory_fd, number, files->id);
        r = r ? r : io->rename(io->context, spare_name, name);
        if (r || SB_FAULT(RENAME_WITHOUT_DIRECTORY_FSYNC))
                return r;
        return io->sync_directory(io->context);
}

int sb_wal_files_inode(
        const struct sb_wal_files *files, uint64_t number, uint64_t *ret, uint64_t *ret_size)
{
        char name[SB_WAL_FILE_NAME_MAX];
        struct statx status;

        sb_wal_file_name(number, name);
        /* For its number and its size alone. A kernel that is asked for a file's times gives the
         * next write a time of its own, and writes the inode with each sync. */
        if (statx(files->directory_fd, name, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_SIZE, &status) <
                0)
                return -errno;
        *ret = status.stx_ino;
        *ret_size = status.stx_size;
        return 0;
}

int sb_wal_files_take(struct sb_wal_files *files, struct sb_wal_file *file, int *ret_file)
{
        const struct sb_wal_io *io = files->io;
        char spare_name[SB_WAL_FILE_NAME_MAX];
        uint64_t inode = 0, size;
        int opened, r;

        memcpy(file->id, files->id, sizeof(file->id));
        file->hash_seed = files->hash_seed;
        file->number = files->count ? files->list[files->count - 1].number + 1 : 1;
        r = wal_files_draw_salt(files, &file->salt);
        r = r ? r : wal_files_open_spare(files, file->size, spare_name, &opened);
        if (r)
                return r;
        r = wal_files_write_header(files, opened, file);
        r = r ? r : wal_files_name(files, spare_name, file->number);
        r = r ? r : sb_wal_files_inode(files, file->number, &inode, &size);
        /* It is in the list only now: a number is given again when its file was not named for good.
         */
        r = r ? r : wal_files_add(files, file, false);
        if (r) {
                io->close(io->context, opened);
                /* If it has its number already, the next file replaces it there. */
                (void)io->unlink(io->context, spare_name);
                return r;
        }
        files->list[files->count - 1].inode = inode;
        *ret_file = opened;
        return 0;
}

void sb_wal_files_abandon(struct sb_wal_files *files)
{
        if (files->count)
                files->list[files->count - 1].failed = true;
}

/* ---- old ones ---- */

/* Takes the first file out of the log. Where that is not for good, a power failure could bring it
 * back under its number: so it does not become a spare then, which gets a new header. */
static int wal_files_let_go(struct sb_wal_files *files)
{
        const struct sb_wal_io *io = files->io;
        struct sb_wal_files_entry *first = &files->list[0];
        bool keep = files->spare_count < files->spares_wanted && !first->failed && !first->linked &&
                    first->size == files->file_size;
        char name[SB_WAL_FILE_NAME_MAX], spare_name[SB_WAL_FILE_NAME_MAX];
        uint32_t spare = files->next_spare++;
        int r;

        sb_wal_file_name(first->number, name);
        sb_wal_file_spare_name(spare, spare_name);
        first->leaving = true;
        r = keep ? io->rename(io->context, name, spare_name) : io->unlink(io->context, name);
        if (r && r != -ENOENT)
                return r;
        keep = keep && !r;
        r = io->sync_directory(io->context);
        /* Fault SPARE_UNSYNCED: it does. */
        if (keep && (!r || SB_FAULT(SPARE_UNSYNCED)))
                files->spares[files->spare_count++] = spare;
        else if (keep)
                (void)io->unlink(io->context, spare_name);
        files->count--;
        memmove(files->list, files->list + 1, files->count * sizeof(*files->list));
        return r;
}

int sb_wal_files_release(struct sb_wal_files *files, uint64_t cut)
{
        int r = 0;

        while (!r && files->count > 1 && files->list[1].reaches_cut <= cut)
                r = wal_files_let_go(files);
        return r;
}
