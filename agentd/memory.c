/*
 * The segment's memory; see memory.h.
 *
 * Huge pages are tried first, unless the configuration says off. Whether enough of them are free is
 * the kernel's decision, when it reserves them. All pages are touched here, by a call that reports
 * missing memory instead of raising SIGBUS; several threads share that, which end before the
 * segment is made.
 */
#define _GNU_SOURCE
#include "agentd/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agentd/log.h"
#include "ring/attach/limit.h"
#include "ring/attach/map.h"
#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

#define HUGE_PAGE SB_MAP_HUGE_PAGE
#define PART_MIN  (UINT64_C(64) << 20) /* of work on all of a segment; see memory.h */
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* A part of the map, and how it went: 0, -errno. */
struct memory_part {
        unsigned char *base;
        uint64_t size;
        pthread_t thread;
        bool own;        /* it has a thread of its own */
        bool join;       /* its pages are to be joined to huge ones */
        uint64_t joined; /* bytes that were */
        int r;
};

/* Have the kernel put ordinary memory into huge pages: of each the first small page, which makes it
 * present, and then the whole. That clears as much as it would anyway, in fewer faults. It needs
 * Linux 6.1, and asks nothing of the machine's settings but that they do not deny it. */
static void memory_join_part(struct memory_part *part)
{
        uint64_t small = (uint64_t)sysconf(_SC_PAGESIZE), at;

        for (at = 0; at + HUGE_PAGE <= part->size; at += HUGE_PAGE)
                if (madvise(part->base + at, small, MADV_POPULATE_WRITE) == 0 &&
                        madvise(part->base + at, HUGE_PAGE, MADV_COLLAPSE) == 0)
                        part->joined += HUGE_PAGE;
                else if (errno != EAGAIN && errno != EBUSY)
                        return;
}

static void *memory_populate_part(void *context)
{
        struct memory_part *part = context;

        if (part->join)
                memory_join_part(part);
        do
                part->r = madvise(part->base, part->size, MADV_POPULATE_WRITE) < 0 ? -errno : 0;
        while (part->r == -EINTR || part->r == -EAGAIN);
        return NULL;
}

/* Where there are more processors than a set has places, one. */
uint32_t sb_memory_parts(uint64_t size)
{
        uint64_t most = size / PART_MIN;
        cpu_set_t set;
        int count = sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : CPU_COUNT(&set);

        if (most > SB_MEMORY_PARTS_MAX)
                most = SB_MEMORY_PARTS_MAX;
        return count < 1 || most < 1    ? 1
               : (uint32_t)count < most ? (uint32_t)count
                                        : (uint32_t)most;
}

/* Make every page of the map present: each processor a part, for the kernel clears them, and that
 * is most of the time that an empty bus takes to start. The threads end in here. @ret_joined: so
 * many bytes are in huge pages; NULL: none are to be. Return: 0, -errno. */
static int memory_populate(int fd, void *base, uint64_t size, uint64_t *ret_joined)
{
        struct memory_part parts[SB_MEMORY_PARTS_MAX] = {0};
        uint32_t count = sb_memory_parts(size), i;
        uint64_t share = size / count & ~(HUGE_PAGE - 1);
        int r = 0;

        for (i = count; i-- > 0;) {
                parts[i].base = (unsigned char *)base + i * share;
                parts[i].size = i + 1 == count ? size - i * share : share;
                parts[i].join = ret_joined;
                /* The first part is this thread's, and so is one that gets no thread. */
                parts[i].own = i && !pthread_create(&parts[i].thread, NULL, memory_populate_part,
                                            &parts[i]);
                if (!parts[i].own)
                        memory_populate_part(&parts[i]);
        }
        for (i = 0; i < count; i++) {
                if (parts[i].own)
                        pthread_join(parts[i].thread, NULL);
                if (!r)
                        r = parts[i].r;
                if (ret_joined)
                        *ret_joined += parts[i].joined;
        }
        if (r != -EINVAL)
                return r == -EFAULT || r == -EHWPOISON ? -ENOMEM : r;
        /* Linux before 5.14. */
        return fallocate(fd, 0, 0, (off_t)size) < 0 ? -errno : 0;
}

/* Make a memfd of @geometry->size bytes: sealed, populated and formatted. *ret_base: its map.
 * @ret_joined: as in memory_populate(). Return: 0, -errno. */
static int memory_make_memfd(unsigned memfd_flags, const struct sb_geometry *geometry,
        struct sb_memory *ret, void **ret_base, uint64_t *ret_joined)
{
        struct sb_memory memory = {.size = geometry->size,
                .page_size = (uint64_t)sysconf(_SC_PAGESIZE),
                .geometry = *geometry};
        uint64_t random[3];
        void *base = NULL;
        int r;

        if (memfd_flags & MFD_HUGETLB)
                memory.page_size = HUGE_PAGE;
        memory.fd = memfd_create("statebus", MFD_CLOEXEC | MFD_ALLOW_SEALING | memfd_flags);
        if (memory.fd < 0)
                return -errno;
        /* A memfd has mode 0777 at first. Give it the mode of the bus's own files, so that
         * /proc/PID/fd opens it to no other user. */
        if (fchmod(memory.fd, 0600) < 0 || ftruncate(memory.fd, (off_t)memory.size) < 0)
                goto failed;
        if (fcntl(memory.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                goto failed;
        base = sb_map_segment(memory.fd, memory.size);
        if (!base)
                goto failed;
        if (ret_joined)
                /* Before Linux 6.1: where the machine allows it for shared memory. */
                (void)madvise(base, memory.size, MADV_HUGEPAGE);
        errno = -memory_populate(memory.fd, base, memory.size, ret_joined);
        if (errno)
                goto failed;
        if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
                goto failed;
        sb_segment_format(
                base, geometry, random[0], random + 1, sb_os_linux.now_ns(sb_os_linux.context));
        memory.super = sb_map_segment(memory.fd, memory.page_size);
        if (!memory.super)
                goto failed;
        memory.super->huge_bytes = memfd_flags & MFD_HUGETLB ? memory.size
                                   : ret_joined              ? *ret_joined
                                                             : 0;
        *ret = memory;
        *ret_base = base;
        return 0;
failed:
        r = errno ? -errno : -EIO;
        if (base)
                munmap(base, memory.size);
        close(memory.fd);
        return r;
}

/* Read the number in a file of one number, or the number behind @field in a table like
 * /proc/meminfo. Return: whether there was one. */
static bool memory_read_number(const char *path, const char *field, uint64_t *ret)
{
        char line[256];
        FILE *file = fopen(path, "re");
        bool found = false;

        while (file && !found && fgets(line, sizeof(line), file)) {
                const char *at = line;

                if (field && strncmp(line, field, strlen(field)))
                        continue;
                at += field ? strlen(field) : 0;
                found = sscanf(at, "%" SCNu64, ret) == 1;
        }
        if (file)
                fclose(file);
        return found;
}

/* Whether this process may have @size bytes of memory, and the machine has them left. The kernel
 * would tell it otherwise by killing a process. Where the machine says nothing, the answer is yes.
 */
static bool memory_suffices(uint64_t size)
{
        uint64_t available, swap, limit = sb_limit_memory();

        if (size > limit) {
                sb_log("--size %" PRIu64 "M: the memory cgroup allows this process %" PRIu64
                       "M; give a smaller --size, or raise that limit",
                        size >> 20, limit >> 20);
                return false;
        }
        if (!memory_read_number("/proc/meminfo", "MemAvailable:", &available))
                return true;
        if (!memory_read_number("/proc/meminfo", "SwapFree:", &swap))
                swap = 0;
        if (size / 1024 <= available + swap)
                return true;
        sb_log("--size %" PRIu64 "M: this machine has %" PRIu64
               "M of memory free; give a smaller --size",
                size >> 20, (available + swap) >> 10);
        return false;
}

static void memory_say_failed(uint64_t size, int r)
{
        const char *remedy = "";

        if (r == -ENOMEM || r == -ENOSPC)
                remedy = ": a limit on memory was met; give a smaller --size, or raise the limit "
                         "of the container or cgroup";
        else if (r == -EFBIG)
                remedy = ": raise the limit on file sizes (ulimit -f)";
        sb_log("cannot make a segment of %" PRIu64 " bytes: %s%s", size, strerror(-r), remedy);
}

/* Write how to get enough huge pages: as many as there are now, and those that are missing. */
static void memory_write_remedy(uint64_t size, char *ret, size_t ret_size)
{
        static const char *const directory = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
        uint64_t total = 0, free = 0, reserved = 0, needed = size / HUGE_PAGE;
        char path[128];

        snprintf(path, sizeof(path), "%snr_hugepages", directory);
        (void)memory_read_number(path, NULL, &total);
        snprintf(path, sizeof(path), "%sfree_hugepages", directory);
        (void)memory_read_number(path, NULL, &free);
        snprintf(path, sizeof(path), "%sresv_hugepages", directory);
        (void)memory_read_number(path, NULL, &reserved);
        free = free > reserved ? free - reserved : 0;
        snprintf(ret, ret_size,
                "%" PRIu64 " huge pages are needed and %" PRIu64
                " are free: `sysctl vm.nr_hugepages=%" PRIu64 "` as root",
                needed, free,
                total - free + needed > total ? total - free + needed : total + needed);
}

/* Make the segment in pages of 2 MiB that the machine has set aside. Return: 0; 1: not possible,
 * and others may be tried; -1: not possible, and the reason was logged. */
static int memory_make_huge(const struct sb_config *config, struct sb_memory *ret, void **ret_base)
{
        struct sb_geometry geometry;
        char remedy[192];
        int r;

        r = sb_config_fit(config, HUGE_PAGE, &geometry);
        if (!r)
                r = memory_make_memfd(MFD_HUGETLB | MFD_HUGE_2MB, &geometry, ret, ret_base, NULL);
        if (!r)
                return 0;
        if (config->hugepages != SB_HUGEPAGES_REQUIRE)
                return 1;
        memory_write_remedy(geometry.size, remedy, sizeof(remedy));
        sb_log("no huge pages for %" PRIu64 " bytes (%s). %s, or start without --hugepages require",
                geometry.size, strerror(-r), remedy);
        return -1;
}

/* Warn where more than the rest behind the last huge page is in small ones. */
static void memory_warn_of_small(uint64_t size, uint64_t joined)
{
        char remedy[192], part[64] = "";

        if (size - joined < HUGE_PAGE)
                return;
        memory_write_remedy((size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, remedy, sizeof(remedy));
        if (joined)
                snprintf(part, sizeof(part), " for %" PRIu64 " %% of it",
                        (size - joined) * 100 / size);
        sb_log("warning: using 4 KiB pages%s, which makes lookups in a large bus slower by about a "
               "quarter. %s",
                part, remedy);
}

int sb_memory_make(const struct sb_config *config, struct sb_memory *ret, void **ret_base)
{
        const bool wanted = config->hugepages == SB_HUGEPAGES_AUTO;
        struct sb_geometry geometry;
        uint64_t joined = 0;
        int r;

        if (config->hugepages != SB_HUGEPAGES_OFF) {
                r = memory_make_huge(config, ret, ret_base);
                if (r <= 0)
                        return r;
        }
        r = sb_config_fit(config, (uint64_t)sysconf(_SC_PAGESIZE), &geometry);
        if (!r) {
                if (!memory_suffices(geometry.size))
                        return -1;
                r = memory_make_memfd(0, &geometry, ret, ret_base, wanted ? &joined : NULL);
        }
        if (r) {
                memory_say_failed(config->size, r);
                return -1;
        }
        if (wanted)
                memory_warn_of_small(geometry.size, joined);
        return 0;
}

void sb_memory_drop(struct sb_memory *memory)
{
        /* Relaxed: only the value matters; no read depends on it. */
        sb_store_relaxed(&memory->super->state, SB_SEGMENT_REPLACED);
        munmap(memory->super, memory->page_size);
        close(memory->fd);
        *memory = (struct sb_memory){.fd = -1};
}
