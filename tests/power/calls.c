/*
 * The calls of the C library that change files, recorded; see calls.h.
 *
 * What a descriptor is of is noted when it is opened: a directory's name, or a file's number in the
 * record.
 */
#define _GNU_SOURCE
#include "tests/power/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "ring/attach/place.h"

#define FDS_MAX 1024

static struct recorder *calls_recorder; /* NULL: nothing is recorded */
static struct recorder *calls_before;
static char calls_path[64];
static bool calls_old;

/* What a descriptor is of. */
static struct calls_fd {
        enum { CALLS_OTHER, CALLS_FILE, CALLS_DIRECTORY } kind;
        uint32_t node;
        char name[NAME_MAX_LEN];
} calls_fds[FDS_MAX];

void calls_begin(struct recorder *recorder, const char *path, int directory_fd)
{
        memset(calls_fds, 0, sizeof(calls_fds));
        calls_fds[directory_fd].kind = CALLS_DIRECTORY;
        snprintf(calls_path, sizeof(calls_path), "%s", path);
        calls_recorder = recorder;
}

void calls_end(void)
{
        calls_before = calls_recorder;
        calls_recorder = NULL;
}

void calls_resume(void)
{
        calls_recorder = calls_before;
}

void calls_age(bool is_old)
{
        calls_old = is_old;
}

/* ---- names ---- */

static bool calls_is_lock(const char *name)
{
        static const char *const locks[] = {SB_PLACE_LOCK, SB_PLACE_WRITER, SB_PLACE_BACKUP};
        const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;

        for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++)
                if (!strcmp(last, locks[i]))
                        return true;
        return false;
}

/* The name of the directory above the one of that name. */
static bool calls_name_above(const char *name, char ret[NAME_MAX_LEN])
{
        const char *slash = strrchr(name, '/');

        snprintf(ret, NAME_MAX_LEN, "%.*s", slash ? (int)(slash - name) : 0, name);
        return *name;
}

/* The name that the record has for what the call names. Return: false: it lies elsewhere, or none
 * of its calls counts. */
static bool calls_name(int directory_fd, const char *name, char ret[NAME_MAX_LEN])
{
        const size_t len = strlen(calls_path);
        const char *above = "";

        if (!calls_recorder)
                return false;
        if (*name == '/') {
                if (strncmp(name, calls_path, len) != 0 || (name[len] && name[len] != '/'))
                        return false;
                name += len + (name[len] == '/');
        } else {
                if (directory_fd < 0 || directory_fd >= FDS_MAX ||
                        calls_fds[directory_fd].kind != CALLS_DIRECTORY)
                        return false;
                above = calls_fds[directory_fd].name;
                name += !strcmp(name, ".");
                if (!strcmp(name, ".."))
                        return calls_name_above(above, ret);
        }
        if (snprintf(ret, NAME_MAX_LEN, "%s%s%s", above, *above && *name ? "/" : "", name) >=
                (int)NAME_MAX_LEN) {
                printf("FAIL a name is too long for the record\n");
                exit(1);
        }
        for (size_t end = strlen(ret); end && ret[end - 1] == '/';)
                ret[--end] = '\0';
        return !calls_is_lock(ret);
}

static bool calls_is_file(int fd)
{
        return calls_recorder && fd >= 0 && fd < FDS_MAX && calls_fds[fd].kind == CALLS_FILE;
}

/* ---- failing ---- */

/* The call fails, and nothing is done. */
static bool calls_refused(bool *ret_fails)
{
        *ret_fails = recorder_fails(calls_recorder);
        return *ret_fails && calls_recorder->failure != FAIL_PART;
}

static int calls_fail(void)
{
        errno = -calls_recorder->error;
        return -1;
}

/* A call that was done, or not; and that answers that it was not, where it is the one that fails.
 */
static int calls_answer(int r, bool fails)
{
        return r < 0 || !fails ? r : calls_fail();
}

static struct record *calls_note(enum record_kind kind, uint32_t node, const char *name)
{
        struct record *record = recorder_new(calls_recorder, kind, node);

        snprintf(record->name, sizeof(record->name), "%s", name);
        return record;
}

/* ---- the calls ---- */

int __real_openat64(int directory_fd, const char *name, int flags, ...);
int __real_open64(const char *name, int flags, ...);
ssize_t __real_pwrite64(int fd, const void *bytes, size_t len, off_t offset);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __real_symlinkat(const char *text, int directory_fd, const char *name);
int __real_unlinkat(int directory_fd, const char *name, int flags);
int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_mkdirat(int directory_fd, const char *name, mode_t mode);
int __real_mkdir(const char *name, mode_t mode);
int __real_rmdir(const char *name);
int __real_close(int fd);

int __wrap_openat64(int directory_fd, const char *name, int flags, ...);
int __wrap_open64(const char *name, int flags, ...);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t len, off_t offset);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_symlinkat(const char *text, int directory_fd, const char *name);
int __wrap_unlinkat(int directory_fd, const char *name, int flags);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_mkdirat(int directory_fd, const char *name, mode_t mode);
int __wrap_mkdir(const char *name, mode_t mode);
int __wrap_rmdir(const char *name);
int __wrap_close(int fd);

/* Notes what was opened. */
static void calls_note_fd(int fd, const char *known, bool made)
{
        struct calls_fd *noted = &calls_fds[fd];
        struct stat status;
        int i;

        if (fd >= FDS_MAX || fstat(fd, &status) < 0)
                return;
        snprintf(noted->name, sizeof(noted->name), "%s", known);
        noted->kind = S_ISDIR(status.st_mode) ? CALLS_DIRECTORY : CALLS_OTHER;
        if (!S_ISREG(status.st_mode))
                return;
        if (made) {
                noted->node = recorder_add(calls_recorder, known);
                calls_note(RECORD_CREATE, noted->node, known);
        }
        i = recorder_find(calls_recorder, known);
        if (i < 0)
                return;
        noted->node = calls_recorder->names[i].node;
        noted->kind = CALLS_FILE;
}

static int calls_open(int directory_fd, const char *name, int flags, mode_t mode)
{
        char known[NAME_MAX_LEN];
        bool made;
        int fd;

        if (!calls_name(directory_fd, name, known))
                return __real_openat64(directory_fd, name, flags, mode);
        made = flags & O_CREAT && faccessat(directory_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
        if (made && recorder_fails(calls_recorder))
                return calls_fail();
        fd = __real_openat64(directory_fd, name, flags, mode);
        if (fd >= 0)
                calls_note_fd(fd, known, made);
        return fd;
}

int __wrap_openat64(int directory_fd, const char *name, int flags, ...)
{
        va_list arguments;
        mode_t mode;

        va_start(arguments, flags);
        mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
        va_end(arguments);
        return calls_open(directory_fd, name, flags, mode);
}

int __wrap_open64(const char *name, int flags, ...)
{
        va_list arguments;
        mode_t mode;

        va_start(arguments, flags);
        mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
        va_end(arguments);
        return calls_open(AT_FDCWD, name, flags, mode);
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t len, off_t offset)
{
        bool fails = false;
        ssize_t written;

        if (!calls_is_file(fd))
                return __real_pwrite64(fd, bytes, len, offset);
        if (calls_refused(&fails))
                return calls_fail();
        written = __real_pwrite64(fd, bytes, fails ? len / 2 : len, offset);
        if (written > 0)
                recorder_note_write(calls_recorder, calls_fds[fd].node, bytes, (size_t)written,
                        (uint64_t)offset);
        return written >= 0 && fails ? calls_fail() : written;
}

static int calls_sync(int fd)
{
        if (recorder_fails(calls_recorder)) {
                if (calls_fds[fd].kind == CALLS_FILE)
                        calls_note(RECORD_SYNC_FAILED, calls_fds[fd].node, "");
                return calls_fail();
        }
        calls_note(calls_fds[fd].kind == CALLS_FILE ? RECORD_SYNC : RECORD_DIRECTORY,
                calls_fds[fd].node, calls_fds[fd].kind == CALLS_FILE ? "" : calls_fds[fd].name);
        return 0;
}

int __wrap_fsync(int fd)
{
        return calls_recorder && fd < FDS_MAX && calls_fds[fd].kind ? calls_sync(fd)
                                                                    : __real_fsync(fd);
}

int __wrap_fdatasync(int fd)
{
        return calls_is_file(fd) ? calls_sync(fd) : __real_fdatasync(fd);
}

int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
        char known[NAME_MAX_LEN], known_to[NAME_MAX_LEN];
        bool fails = false;
        uint32_t node;
        int r;

        if (!calls_name(from_fd, from, known) || !calls_name(to_fd, to, known_to))
                return __real_linkat(from_fd, from, to_fd, to, flags);
        if (calls_refused(&fails))
                return calls_fail();
        r = __real_linkat(from_fd, from, to_fd, to, flags);
        if (r)
                return r;
        node = calls_recorder->names[recorder_find(calls_recorder, known)].node;
        recorder_put_name(calls_recorder, known_to, node);
        calls_note(RECORD_LINK, node, known_to);
        return calls_answer(r, fails);
}

int __wrap_symlinkat(const char *text, int directory_fd, const char *name)
{
        char known[NAME_MAX_LEN];
        struct record *record;
        bool fails = false;
        int r;

        if (!calls_name(directory_fd, name, known))
                return __real_symlinkat(text, directory_fd, name);
        if (calls_refused(&fails))
                return calls_fail();
        r = __real_symlinkat(text, directory_fd, name);
        if (r)
                return r;
        record = calls_note(RECORD_SYMLINK, recorder_add(calls_recorder, known), known);
        record->bytes = (unsigned char *)strdup(text);
        record->len = (uint32_t)strlen(text);
        return calls_answer(r, fails);
}

int __wrap_unlinkat(int directory_fd, const char *name, int flags)
{
        char known[NAME_MAX_LEN];
        bool fails = false;
        int r;

        /* What is not there is no call that a disk can fail in. */
        if (!calls_name(directory_fd, name, known) || recorder_find(calls_recorder, known) < 0)
                return __real_unlinkat(directory_fd, name, flags);
        if (calls_refused(&fails))
                return calls_fail();
        r = __real_unlinkat(directory_fd, name, flags);
        if (r)
                return r;
        recorder_drop_name(calls_recorder, known);
        calls_note(RECORD_UNLINK, 0, known);
        return calls_answer(r, fails);
}

int __wrap_rmdir(const char *name)
{
        return __wrap_unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

static int calls_rename(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
        char known[NAME_MAX_LEN], known_to[NAME_MAX_LEN];
        struct record *record;
        bool fails = false;
        uint32_t node;
        int r;

        if (!calls_name(from_fd, from, known) || !calls_name(to_fd, to, known_to))
                return __real_renameat2(from_fd, from, to_fd, to, flags);
        if (calls_refused(&fails))
                return calls_fail();
        r = __real_renameat2(from_fd, from, to_fd, to, flags);
        if (r)
                return r;
        node = calls_recorder->names[recorder_find(calls_recorder, known)].node;
        recorder_drop_name(calls_recorder, known);
        recorder_put_name(calls_recorder, known_to, node);
        record = calls_note(RECORD_RENAME, node, known);
        snprintf(record->to, sizeof(record->to), "%s", known_to);
        return calls_answer(r, fails);
}

int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
        return calls_rename(from_fd, from, to_fd, to, 0);
}

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
        if (calls_recorder && calls_old) {
                errno = EINVAL;
                return -1;
        }
        return calls_rename(from_fd, from, to_fd, to, flags);
}

int __wrap_mkdirat(int directory_fd, const char *name, mode_t mode)
{
        char known[NAME_MAX_LEN];
        bool fails = false;
        int r;

        if (!calls_name(directory_fd, name, known) || recorder_find(calls_recorder, known) >= 0 ||
                !*known)
                return __real_mkdirat(directory_fd, name, mode);
        if (calls_refused(&fails))
                return calls_fail();
        r = __real_mkdirat(directory_fd, name, mode);
        if (r)
                return r;
        calls_note(RECORD_MAKE, recorder_add(calls_recorder, known), known);
        return calls_answer(r, fails);
}

int __wrap_mkdir(const char *name, mode_t mode)
{
        return __wrap_mkdirat(AT_FDCWD, name, mode);
}

int __wrap_close(int fd)
{
        if (fd >= 0 && fd < FDS_MAX)
                calls_fds[fd].kind = CALLS_OTHER;
        return __real_close(fd);
}
