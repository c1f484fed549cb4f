/*
 * A disk that fails when it is told to, and may lose power: a FUSE file system of two files.
 *
 *     faulty-disk BACKING MOUNTPOINT
 *
 * `disk` has the bytes of BACKING; a loop device lies on it. `control` takes commands and, when it
 * is read, counts the calls since the last command that began a count:
 *
 *     fail write|fsync NTH TIMES ERRNO   the NTH call of this kind from now, and those behind it,
 *                                        fail, TIMES of them; TIMES 0: for ever
 *     count                              no call fails; count anew
 *     off SEED                           the power fails: of what was written since the last fsync,
 *                                        any writes are lost, drawn by SEED, and each write from
 *                                        now on is; SEED 0: all of them
 *     on                                 writes are taken again
 *     slow write|fsync MS                calls of this kind take so long, also one that has begun;
 *                                        0: they do not
 *
 * It runs in the foreground, and ends when it is unmounted, when its parent dies or by SIGTERM. A
 * call holds the mutex, but not while it is slow: so commands are taken meanwhile. A write is
 * durable by the next fsync that does not fail. It is kept in memory until
 * then, with what was there before, so that it can be undone. BACKING itself is never synced: it is
 * this disk that loses power, not the machine. A write that fails has done nothing.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define COMMAND_MAX 128
/* A command is a call, too, and must find a thread while all others hang. Of writes and reads the
 * kernel has 12 on their way at a time, and the loop device sends some flushes beside them. libfuse
 * has 10 threads where it is not told; before 3.12, as many as there are calls. */
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 12)
#define THREADS "max_threads=64"
#else
#define THREADS "rw"
#endif

enum faulty_kind {
        FAULTY_WRITE,
        FAULTY_FSYNC,
        FAULTY_KINDS,
};

/* A write that no fsync has made durable yet; its two halves are what was there, and what came. */
struct faulty_write {
        struct faulty_write *earlier, *later;
        off_t offset;
        size_t len;
        char bytes[];
};

static struct {
        int fd;
        off_t size;
        struct faulty_write *first, *last;
        bool off;
        uint64_t counts[FAULTY_KINDS]; /* calls */
        uint64_t failed;               /* of those */
        /* What is to fail. */
        enum faulty_kind kind;
        uint64_t nth, times; /* nth 0: nothing is to */
        int error;
        uint64_t slow_ms[FAULTY_KINDS];
} disk;

static pthread_mutex_t disk_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t disk_told; /* how slow it is */

/* ---- faults ---- */

/* Count a call. Return: 0; -errno: it is to fail so. */
static int faulty_disk_count(enum faulty_kind kind)
{
        uint64_t count = ++disk.counts[kind];

        if (!disk.nth || disk.kind != kind || count < disk.nth ||
                (disk.times && count >= disk.nth + disk.times))
                return 0;
        disk.failed++;
        return -disk.error;
}

/* ---- time ---- */

static uint64_t faulty_disk_now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Takes as long as the disk is told to, with the mutex given back. */
static void faulty_disk_take_time(enum faulty_kind kind)
{
        uint64_t begun = faulty_disk_now_ms(), end;
        struct timespec until;

        /* A command may have changed it meanwhile. */
        while (faulty_disk_now_ms() < (end = begun + disk.slow_ms[kind])) {
                until.tv_sec = (time_t)(end / 1000);
                until.tv_nsec = (long)(end % 1000) * 1000000;
                pthread_cond_timedwait(&disk_told, &disk_mutex, &until);
        }
}

/* ---- power ---- */

static void faulty_disk_forget(void)
{
        struct faulty_write *write, *later;

        for (write = disk.first; write; write = later) {
                later = write->later;
                free(write);
        }
        disk.first = disk.last = NULL;
}

/* Keep what is written, and what it overwrites. Return: 0, -errno. */
static int faulty_disk_keep(const char *bytes, size_t len, off_t offset)
{
        struct faulty_write *write = malloc(sizeof(*write) + 2 * len);

        if (!write)
                return -ENOMEM;
        if (pread(disk.fd, write->bytes, len, offset) != (ssize_t)len) {
                free(write);
                return -EIO;
        }
        memcpy(write->bytes + len, bytes, len);
        write->offset = offset;
        write->len = len;
        write->later = NULL;
        write->earlier = disk.last;
        *(disk.last ? &disk.last->later : &disk.first) = write;
        disk.last = write;
        return 0;
}

/* Each write that is not durable stays or not, as if the disk had chosen its own order. */
static int faulty_disk_lose_power(uint64_t seed)
{
        struct faulty_write *write;
        unsigned short state[3] = {(unsigned short)seed, (unsigned short)(seed >> 16), 0x330e};
        int r = 0;

        for (write = disk.last; write && !r; write = write->earlier)
                if (pwrite(disk.fd, write->bytes, write->len, write->offset) != (ssize_t)write->len)
                        r = -EIO;
        for (write = disk.first; write && !r; write = write->later)
                if (seed && nrand48(state) % 2 &&
                        pwrite(disk.fd, write->bytes + write->len, write->len, write->offset) !=
                                (ssize_t)write->len)
                        r = -EIO;
        faulty_disk_forget();
        disk.off = true;
        return r;
}

/* ---- control ---- */

static int faulty_disk_command(const char *text)
{
        unsigned long long nth, times, seed, ms;
        char kind[8];
        int error;

        if (!strcmp(text, "on\n")) {
                disk.off = false;
                return 0;
        }
        if (sscanf(text, "slow %7s %llu", kind, &ms) == 2) {
                disk.slow_ms[strcmp(kind, "fsync") ? FAULTY_WRITE : FAULTY_FSYNC] = ms;
                pthread_cond_broadcast(&disk_told);
                return 0;
        }
        if (sscanf(text, "off %llu", &seed) == 1)
                return faulty_disk_lose_power(seed);
        if (sscanf(text, "fail %7s %llu %llu %d", kind, &nth, &times, &error) == 4) {
                disk.kind = strcmp(kind, "fsync") ? FAULTY_WRITE : FAULTY_FSYNC;
                disk.nth = nth;
                disk.times = times;
                disk.error = error;
        } else if (!strcmp(text, "count\n")) {
                disk.nth = 0;
        } else {
                return -EINVAL;
        }
        memset(disk.counts, 0, sizeof(disk.counts));
        disk.failed = 0;
        return 0;
}

static int faulty_disk_say(char *ret_bytes, size_t len, off_t offset)
{
        char text[COMMAND_MAX];
        int said = snprintf(text, sizeof(text),
                "write %" PRIu64 " fsync %" PRIu64 " failed %" PRIu64 "\n",
                disk.counts[FAULTY_WRITE], disk.counts[FAULTY_FSYNC], disk.failed);

        if (offset >= said)
                return 0;
        if (len > (size_t)(said - offset))
                len = (size_t)(said - offset);
        memcpy(ret_bytes, text + offset, len);
        return (int)len;
}

/* ---- the file system ---- */

static bool faulty_disk_is_control(const char *path)
{
        return !strcmp(path, "/control");
}

static int faulty_disk_getattr(
        const char *path, struct stat *ret_stat, struct fuse_file_info *unused)
{
        (void)unused;
        *ret_stat = (struct stat){.st_nlink = 1, .st_mode = S_IFREG | 0600};
        if (!strcmp(path, "/"))
                *ret_stat = (struct stat){.st_nlink = 2, .st_mode = S_IFDIR | 0700};
        else if (!strcmp(path, "/disk"))
                ret_stat->st_size = disk.size;
        else if (!faulty_disk_is_control(path))
                return -ENOENT;
        return 0;
}

static int faulty_disk_open(const char *path, struct fuse_file_info *info)
{
        (void)path;
        info->direct_io = 1;
        return 0;
}

static int faulty_disk_truncate(const char *path, off_t size, struct fuse_file_info *unused)
{
        (void)unused;
        (void)size;
        return faulty_disk_is_control(path) ? 0 : -EPERM;
}

static int faulty_disk_read(
        const char *path, char *ret_bytes, size_t len, off_t offset, struct fuse_file_info *unused)
{
        ssize_t n;

        (void)unused;
        if (faulty_disk_is_control(path)) {
                pthread_mutex_lock(&disk_mutex);
                n = faulty_disk_say(ret_bytes, len, offset);
                pthread_mutex_unlock(&disk_mutex);
                return (int)n;
        }
        n = pread(disk.fd, ret_bytes, len, offset);
        return n < 0 ? -errno : (int)n;
}

static int faulty_disk_control(const char *bytes, size_t len)
{
        char text[COMMAND_MAX];
        int r;

        if (len >= sizeof(text))
                return -EINVAL;
        memcpy(text, bytes, len);
        text[len] = 0;
        pthread_mutex_lock(&disk_mutex);
        r = faulty_disk_command(text);
        pthread_mutex_unlock(&disk_mutex);
        return r ? r : (int)len;
}

static int faulty_disk_take(const char *bytes, size_t len, off_t offset)
{
        ssize_t n;
        int r;

        faulty_disk_take_time(FAULTY_WRITE);
        if (disk.off)
                return (int)len;
        if (offset + (off_t)len > disk.size)
                return -EFBIG;
        r = faulty_disk_count(FAULTY_WRITE);
        r = r ? r : faulty_disk_keep(bytes, len, offset);
        if (r)
                return r;
        n = pwrite(disk.fd, bytes, len, offset);
        return n < 0 ? -errno : (int)n;
}

static int faulty_disk_write(const char *path, const char *bytes, size_t len, off_t offset,
        struct fuse_file_info *unused)
{
        int r;

        (void)unused;
        if (faulty_disk_is_control(path))
                return faulty_disk_control(bytes, len);
        pthread_mutex_lock(&disk_mutex);
        r = faulty_disk_take(bytes, len, offset);
        pthread_mutex_unlock(&disk_mutex);
        return r;
}

static int faulty_disk_flush(void)
{
        int r;

        faulty_disk_take_time(FAULTY_FSYNC);
        if (disk.off)
                return 0;
        r = faulty_disk_count(FAULTY_FSYNC);
        if (!r)
                faulty_disk_forget();
        return r;
}

static int faulty_disk_fsync(const char *path, int datasync, struct fuse_file_info *unused)
{
        int r;

        (void)unused;
        (void)datasync;
        if (faulty_disk_is_control(path))
                return 0;
        pthread_mutex_lock(&disk_mutex);
        r = faulty_disk_flush();
        pthread_mutex_unlock(&disk_mutex);
        return r;
}

static const struct fuse_operations faulty_disk_operations = {
        .getattr = faulty_disk_getattr,
        .open = faulty_disk_open,
        .truncate = faulty_disk_truncate,
        .read = faulty_disk_read,
        .write = faulty_disk_write,
        .fsync = faulty_disk_fsync,
};

int main(int argc, char **argv)
{
        char *options[] = {argv[0], "-f", "-o", THREADS, argc == 3 ? argv[2] : NULL, NULL};
        pthread_condattr_t clock;
        pid_t parent = getppid();

        if (argc != 3) {
                fprintf(stderr, "usage: faulty-disk BACKING MOUNTPOINT\n");
                return 2;
        }
        disk.fd = open(argv[1], O_RDWR | O_CLOEXEC);
        if (disk.fd < 0) {
                perror(argv[1]);
                return 1;
        }
        disk.size = lseek(disk.fd, 0, SEEK_END);
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
                return 1;
        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        pthread_cond_init(&disk_told, &clock);
        return fuse_main(5, options, &faulty_disk_operations, NULL);
}
