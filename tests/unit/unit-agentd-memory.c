/*
 * The memory of a segment (agentd/memory.h) on machines that have too little, or an older kernel:
 * which pages are asked for and how, what is said where there are not enough, and that nothing is
 * left of a segment that could not be made.
 *
 * The program is linked so that the calls by which memory is made and looked at come here first
 * (see meson.build).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agentd/memory.h"
#include "agentd/wal/wal-recover.h"
#include "ring/attach/limit.h"
#include "ring/attach/place.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"
#include "tests/harness/test.h"
#include "tests/unit/agentd.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* ---- the machine ---- */

static struct {
        int populate[4]; /* how the first attempts to make pages present end; 0: well */
        unsigned populated, advised, allocated, huge_asked;
        unsigned joins, join_asked; /* huge pages that the kernel can make of small ones */
        int join_fails;             /* why it does not, behind those */
        uint64_t populated_bytes;
        bool huge_works;      /* plain pages stand for huge ones */
        const char *memory;   /* /proc/meminfo; NULL: it cannot be read */
        const char *pages[3]; /* of 2 MiB: all, those that are free, and those that are promised */
        uint64_t limit;       /* of the cgroup; 0: none */
} machine;

int __wrap_madvise(void *base, size_t size, int advice);
int __wrap_madvise(void *base, size_t size, int advice)
{
        unsigned before;

        (void)base;
        machine.advised += advice == MADV_HUGEPAGE;
        if (advice == MADV_COLLAPSE) {
                machine.join_asked++;
                errno = machine.join_fails ? machine.join_fails : EINVAL;
                return machine.joins && machine.joins-- ? 0 : -1;
        }
        if (advice != MADV_POPULATE_WRITE)
                return 0;
        /* Several threads at once. */
        before = __atomic_fetch_add(&machine.populated, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&machine.populated_bytes, size, __ATOMIC_SEQ_CST);
        errno = machine.populate[before < 3 ? before : 3];
        if (errno)
                return -1;
        errno = EPERM; /* what an earlier call left there says nothing */
        return 0;
}

int __real_fallocate64(int fd, int mode, off_t from, off_t size);
int __wrap_fallocate64(int fd, int mode, off_t from, off_t size);
int __wrap_fallocate64(int fd, int mode, off_t from, off_t size)
{
        machine.allocated++;
        return __real_fallocate64(fd, mode, from, size);
}

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
        machine.huge_asked += !!(flags & MFD_HUGETLB);
        errno = EPERM;
        if (((flags & MFD_HUGETLB) && !machine.huge_works) || fails == MEMFD)
                return -1;
        return __real_memfd_create(name, flags & (MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

ssize_t __real_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
        errno = EPERM;
        return fails == RANDOM ? -1 : __real_getrandom(bytes, size, flags);
}

static FILE *open_text(const char *text)
{
        return text ? fmemopen((void *)(uintptr_t)text, strlen(text), "r") : NULL;
}

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
        static const char *const names[] = {"nr_hugepages", "free_hugepages", "resv_hugepages"};
        static const char folder[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/";

        if (strcmp(path, "/proc/meminfo") == 0)
                return open_text(machine.memory);
        for (size_t i = 0; i < 3 && strncmp(path, folder, strlen(folder)) == 0; i++)
                if (strcmp(path + strlen(folder), names[i]) == 0)
                        return open_text(machine.pages[i]);
        return __real_fopen64(path, mode);
}

uint64_t __wrap_sb_limit_memory(void);
uint64_t __wrap_sb_limit_memory(void)
{
        return machine.limit ? machine.limit : SB_LIMIT_NONE;
}

/* ---- tests ---- */

/* Make a segment. Return: whether that worked, and it is whole. */
static bool makes(void)
{
        uint64_t page = machine.huge_works ? 2 * MIB : (uint64_t)sysconf(_SC_PAGESIZE);
        struct sb_memory memory = {.fd = -1};
        struct sb_superblock *super;
        struct stat status;
        bool whole;

        if (!forget_said())
                return false;
        if (make_memory(&memory))
                return false;
        super = __real_mmap64(
                NULL, sizeof(*super), PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0);
        whole = super != MAP_FAILED && !fstat(memory.fd, &status) &&
                (uint64_t)status.st_size == config.size && memory.size == config.size &&
                memory.page_size == page && (status.st_mode & 07777) == 0600 && super->id[0] &&
                super->id[1] && super->id[0] != super->id[1] && super->seed != super->id[0] &&
                sb_load_relaxed(&super->state) == SB_SEGMENT_SERVING;
        sb_memory_drop(&memory);
        whole = whole && memory.fd == -1 && !memory.super &&
                sb_load_relaxed(&super->state) == SB_SEGMENT_REPLACED;
        munmap(super, sizeof(*super));
        return whole;
}

static void test_pages_that_could_not_be_made_just_then_are_asked_for_again(void)
{
        MACHINE(.populate = {EINTR, EAGAIN, EINTR, 0});
        CHECK(makes());
        CHECK_EQ(machine.populated, 4);
        CHECK_EQ(machine.allocated, 0);
}

/* As many as there are, but no part is smaller than 64 MiB. */
static void test_each_processor_makes_a_part_of_a_large_segment_present(void)
{
        cpu_set_t set;
        unsigned parts;

        CHECK(!sched_getaffinity(0, sizeof(set), &set));
        parts = CPU_COUNT(&set) < 3 ? (unsigned)CPU_COUNT(&set) : 3;
        config.size = 192 * MIB;
        MACHINE();
        CHECK(makes());
        CHECK_EQ(machine.populated, parts);
        CHECK(machine.populated_bytes == 192 * MIB);
        for (unsigned i = 0; i < parts; i++) {
                MACHINE();
                machine.populate[i] = ENOMEM;
                CHECK(!makes());
                CHECK(said("Cannot allocate memory: a limit on memory was met"));
        }
        config.size = 4 * MIB;
}

static void test_an_older_kernel_allocates_the_pages_in_another_way(void)
{
        MACHINE(.populate = {EINVAL, EINVAL, EINVAL, EINVAL});
        CHECK(makes());
        CHECK_EQ(machine.populated, 1);
        CHECK_EQ(machine.allocated, 1);
}

static void test_pages_that_there_are_not_are_one_sentence(void)
{
        static const int ends[] = {EFAULT, EHWPOISON, ENOMEM};

        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
                MACHINE(.populate = {ends[i]});
                CHECK(!makes());
                CHECK(said("Cannot allocate memory: a limit on memory was met"));
                CHECK_EQ(machine.allocated, 0);
        }
        MACHINE(.populate = {EPERM});
        CHECK(!makes());
        CHECK(said("cannot make a segment of 4194304 bytes: Operation not permitted\n"));
}

static void test_large_pages_of_the_plain_kind_are_asked_for_with_auto_alone(void)
{
        MACHINE();
        CHECK(makes());
        CHECK(machine.advised == 0 && machine.huge_asked == 0);
        MACHINE();
        config.hugepages = SB_HUGEPAGES_AUTO;
        CHECK(makes());
        CHECK(machine.advised == 1 && machine.huge_asked == 1);
        CHECK(said("warning: using 4 KiB pages"));
        MACHINE(.huge_works = true);
        config.hugepages = SB_HUGEPAGES_AUTO;
        CHECK(makes());
        CHECK(machine.advised == 0 && machine.huge_asked == 1 && !said("warning"));
        MACHINE();
        config.hugepages = SB_HUGEPAGES_REQUIRE;
        CHECK(!makes());
        CHECK(machine.advised == 0 && said("start without --hugepages require"));
}

static void test_ordinary_memory_is_put_into_huge_pages_where_the_kernel_can(void)
{
        MACHINE(.joins = 2);
        config.hugepages = SB_HUGEPAGES_AUTO;
        CHECK(makes());
        CHECK(machine.join_asked == 2 && !said("warning"));
        MACHINE(.joins = 1);
        config.hugepages = SB_HUGEPAGES_AUTO;
        CHECK(makes());
        CHECK(machine.join_asked == 2 && said("warning: using 4 KiB pages for 50 % of it"));
        /* It asks no more where the kernel cannot, and goes on where a page is busy. */
        MACHINE(.join_fails = ENOMEM);
        config.hugepages = SB_HUGEPAGES_AUTO;
        CHECK(makes());
        CHECK(machine.join_asked == 1 && said("warning: using 4 KiB pages, which"));
        MACHINE(.join_fails = EAGAIN);
        config.hugepages = SB_HUGEPAGES_AUTO;
        CHECK(makes());
        CHECK(machine.join_asked == 2 && said("warning: using 4 KiB pages, which"));
        MACHINE(.joins = 2);
        CHECK(makes());
        CHECK(machine.join_asked == 0 && !said("warning"));
        MACHINE(.joins = 2, .huge_works = true);
        config.hugepages = SB_HUGEPAGES_AUTO;
        CHECK(makes());
        CHECK_EQ(machine.join_asked, 0);
}

/* The kernel would end a process that takes more; so agentd asks first, and says what to do. */
static void test_a_segment_has_to_fit_into_what_is_free(void)
{
        static const struct {
                const char *memory;
                bool fits;
        } cases[] = {
                {"MemTotal: 9\nMemAvailable:    4096 kB\nSwapFree: 0 kB\n", true},
                {"MemTotal: 9999999\nMemAvailable:    4095 kB\nSwapFree: 0 kB\n", false},
                {"MemAvailable: 4000 kB\nSwapTotal: 9 kB\nSwapFree: 96 kB\n", true},
                {"MemAvailable: 4000 kB\nSwapTotal: 999 kB\nSwapFree: 95 kB\n", false},
                {"MemAvailable: 4096 kB\n", true},
                {"MemAvailable: 4095 kB\n", false},
                {"MemTotal: 9 kB\nMemFree: 9 kB\n", true}, /* it does not say */
                {"MemAvailable: many kB\nSwapFree: 0 kB\n", true},
                {NULL, true},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                MACHINE(.memory = cases[i].memory);
                if (makes() != cases[i].fits)
                        TEST_FAIL("%s", cases[i].memory);
                CHECK_EQ(said("M of memory free; give a smaller --size"), !cases[i].fits);
        }
        MACHINE(.memory = "MemAvailable: 2048 kB\nSwapFree: 1024 kB\n");
        CHECK(!makes());
        CHECK(said("--size 4M: this machine has 3M of memory free"));
}

static void test_a_segment_has_to_fit_into_the_limit_of_its_cgroup(void)
{
        MACHINE(.limit = 4 * MIB);
        CHECK(makes());
        MACHINE(.limit = 4 * MIB - 1);
        CHECK(!makes());
        CHECK(said("--size 4M: the memory cgroup allows this process 3M; give a smaller --size"));
}

static void test_missing_huge_pages_are_counted(void)
{
        static const struct {
                const char *pages[3], *says;
        } cases[] = {
                {{"10\n", "1\n", "0\n"}, "2 huge pages are needed and 1 are free: `sysctl "
                                         "vm.nr_hugepages=11` as root, or start without"},
                {{"10\n", "3\n", "2\n"}, "needed and 1 are free: `sysctl vm.nr_hugepages=11`"},
                {{"10\n", "1\n", "3\n"}, "needed and 0 are free: `sysctl vm.nr_hugepages=12`"},
                /* There seem to be enough, and the kernel gave none. */
                {{"10\n", "2\n", "0\n"}, "needed and 2 are free: `sysctl vm.nr_hugepages=12`"},
                {{"10\n", "6\n", "2\n"}, "needed and 4 are free: `sysctl vm.nr_hugepages=12`"},
                {{NULL, NULL, NULL}, "needed and 0 are free: `sysctl vm.nr_hugepages=2`"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                MACHINE();
                memcpy(machine.pages, cases[i].pages, sizeof(machine.pages));
                config.hugepages = SB_HUGEPAGES_REQUIRE;
                CHECK(!makes());
                if (!said(cases[i].says))
                        TEST_FAIL("not said: %s", cases[i].says);
        }
}

static void test_a_segment_that_cannot_be_made_leaves_nothing_behind(void)
{
        for (int call = MEMFD; call <= MODE; call++) {
                int next = dup(said_fd), after;

                close(next);
                MACHINE();
                fails = call;
                CHECK(!makes());
                CHECK(said("cannot make a segment of 4194304 bytes: Operation not permitted\n"));
                after = dup(said_fd);
                close(after);
                CHECK_EQ(after, next);
        }
        MACHINE();
        config.size = 16384;
        config.clients = 4000;
        config.hugepages = SB_HUGEPAGES_AUTO;
        CHECK(!makes());
        config.size = 4 * MIB;
        config.clients = 4;
        CHECK(machine.huge_asked == 0 && maps == 0);
        CHECK(said("cannot make a segment of 16384 bytes: No space left on device"));
}

/* Writers tell a log of each change where there is one, and only there. */
static void test_a_bus_asks_its_writers_to_tell_a_log_that_there_is(void)
{
        static const enum sb_log_mode modes[] = {SB_LOG_NONE, SB_LOG_BATCHED, SB_LOG_STRICT};

        for (uint32_t i = 0; i < 3; i++) {
                struct sb_memory memory = {.fd = -1};
                char path[] = "/tmp/unit-agentd-XXXXXX";
                struct sb_superblock *super;
                int fd;

                MACHINE();
                fd = mkdtemp(path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
                CHECK(fd >= 0);
                config.mode = modes[i];
                snprintf(config.place.directory, sizeof(config.place.directory), "%s", path);
                CHECK_EQ(sb_wal_recover(&config, fd, &memory), 0);
                super = __real_mmap64(
                        NULL, sizeof(*super), PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0);
                CHECK(super != MAP_FAILED);
                CHECK_EQ(sb_load_relaxed(&super->log_mode), (uint32_t)modes[i]);
                CHECK_EQ(sb_load_relaxed(&super->attention), i ? SB_ATTENTION_ALL : 0);
                sb_memory_drop(&memory);
                munmap(super, sizeof(*super));
                unlinkat(fd, SB_PLACE_WRITER, 0);
                close(fd);
                CHECK_EQ(rmdir(path), 0);
        }
        config.mode = SB_LOG_NONE;
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (!hear())
                return 1;
        RUN(test_pages_that_could_not_be_made_just_then_are_asked_for_again);
        RUN(test_each_processor_makes_a_part_of_a_large_segment_present);
        RUN(test_an_older_kernel_allocates_the_pages_in_another_way);
        RUN(test_pages_that_there_are_not_are_one_sentence);
        RUN(test_large_pages_of_the_plain_kind_are_asked_for_with_auto_alone);
        RUN(test_ordinary_memory_is_put_into_huge_pages_where_the_kernel_can);
        RUN(test_a_segment_has_to_fit_into_what_is_free);
        RUN(test_a_segment_has_to_fit_into_the_limit_of_its_cgroup);
        RUN(test_missing_huge_pages_are_counted);
        RUN(test_a_segment_that_cannot_be_made_leaves_nothing_behind);
        RUN(test_a_bus_asks_its_writers_to_tell_a_log_that_there_is);
        return test_end();
}
