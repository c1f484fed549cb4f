/*
 * Parts of agentd where the system says no: the memory of a segment (agentd/memory.h) on machines
 * that have too little, or an older kernel; lines of the log (agentd/log.h) that nothing reads; and
 * when a process was started (agentd/engine.h).
 *
 * The program is linked so that the calls by which memory is made and looked at come here first
 * (see meson.build).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agentd/engine.h"
#include "agentd/log.h"
#include "agentd/memory.h"
#include "agentd/wal/wal-recover.h"
#include "ring/attach/limit.h"
#include "ring/attach/place.h"
#include "shm/base/word.h"
#include "shm/layout/roster.h"
#include "shm/layout/superblock.h"
#include "tests/harness/test.h"

#define MIB (UINT64_C(1) << 20)
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
        enum {
                NOTHING,
                MEMFD,
                FIRST_MAP,
                SECOND_MAP,
                RANDOM,
                MODE,
                LIST,
                LISTEN
        } fails; /* with EPERM */
        unsigned maps;
        bool locked;     /* the first time that a lock is asked for, another process has it */
        int lock_fails;  /* how each try to lock ends, the second as if a signal came; 0: well */
        unsigned ending; /* so many looks at the process that has the lock find it ending */
        sigset_t held;   /* signals that wait while a process waits for the lock */
        uint64_t limit;  /* of the cgroup; 0: none */
        struct sb_superblock *torn; /* a client damages it, once this engine has opened it */
} machine;

static struct sb_config config = {.size = 4 * MIB, .clients = 4, .hugepages = SB_HUGEPAGES_OFF};
static int said_fd = -1;

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
        if (((flags & MFD_HUGETLB) && !machine.huge_works) || machine.fails == MEMFD)
                return -1;
        return __real_memfd_create(name, flags & (MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

void *__real_mmap64(void *base, size_t size, int protection, int flags, int fd, off_t from);
void *__wrap_mmap64(void *base, size_t size, int protection, int flags, int fd, off_t from);
void *__wrap_mmap64(void *base, size_t size, int protection, int flags, int fd, off_t from)
{
        if (fd < 0) /* addresses alone */
                return __real_mmap64(base, size, protection, flags, fd, from);
        machine.maps++;
        if (machine.fails == FIRST_MAP + machine.maps - 1 && machine.maps <= 2) {
                errno = EPERM;
                return MAP_FAILED;
        }
        return __real_mmap64(base, size, protection, flags, fd, from);
}

ssize_t __real_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
        errno = EPERM;
        return machine.fails == RANDOM ? -1 : __real_getrandom(bytes, size, flags);
}

int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode)
{
        errno = EPERM;
        return machine.fails == MODE ? -1 : __real_fchmod(fd, mode);
}

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
        if (machine.torn)
                machine.torn->geometry.unit_size++;
        return __real_geteuid();
}

static FILE *open_text(const char *text)
{
        return text ? fmemopen((void *)(uintptr_t)text, strlen(text), "r") : NULL;
}

DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd)
{
        errno = EPERM;
        return machine.fails == LIST ? NULL : __real_fdopendir(fd);
}

int __real_listen(int fd, int count);
int __wrap_listen(int fd, int count);
int __wrap_listen(int fd, int count)
{
        errno = EPERM;
        return machine.fails == LISTEN ? -1 : __real_listen(fd, count);
}

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
        bool locked = machine.locked;

        machine.locked = false;
        if (!(operation & LOCK_NB))
                sigprocmask(SIG_SETMASK, NULL, &machine.held);
        errno = machine.lock_fails == EWOULDBLOCK && !(operation & LOCK_NB) ? EINTR
                : machine.lock_fails                                        ? machine.lock_fails
                                                                            : EWOULDBLOCK;
        return locked || machine.lock_fails ? -1 : __real_flock(fd, operation);
}

/* A process has the lock of which the end takes so many looks; then the lock is free. */
int __real_sb_place_supervisor(const struct sb_place *place, pid_t *ret_pid);
int __wrap_sb_place_supervisor(const struct sb_place *place, pid_t *ret_pid);
int __wrap_sb_place_supervisor(const struct sb_place *place, pid_t *ret_pid)
{
        if (!machine.ending)
                return __real_sb_place_supervisor(place, ret_pid);
        *ret_pid = 1;
        return 0;
}

bool __real_sb_place_ending(pid_t pid);
bool __wrap_sb_place_ending(pid_t pid);
bool __wrap_sb_place_ending(pid_t pid)
{
        if (!machine.ending)
                return __real_sb_place_ending(pid);
        if (!--machine.ending)
                machine.lock_fails = 0;
        return true;
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

static int make_memory(struct sb_memory *ret)
{
        void *base;
        int r = sb_memory_make(&config, ret, &base);

        if (!r)
                munmap(base, ret->size);
        return r;
}

/* Make a segment. Return: whether that worked, and it is whole. */
static bool makes(void)
{
        uint64_t page = machine.huge_works ? 2 * MIB : (uint64_t)sysconf(_SC_PAGESIZE);
        struct sb_memory memory = {.fd = -1};
        struct sb_superblock *super;
        struct stat status;
        bool whole;

        if (ftruncate(said_fd, 0) || lseek(said_fd, 0, SEEK_SET))
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

static bool said(const char *words)
{
        char text[4096];
        ssize_t len = pread(said_fd, text, sizeof(text) - 1, 0);

        text[len > 0 ? len : 0] = 0;
        return strstr(text, words);
}

#define MACHINE(...)                                                                               \
        do {                                                                                       \
                machine = (typeof(machine)){__VA_ARGS__};                                          \
                config.hugepages = SB_HUGEPAGES_OFF;                                               \
        } while (0)

/* ---- tests ---- */

/* Write over what a function called from here finds on its stack. */
static __attribute__((noinline)) void litter(void)
{
        volatile char bytes[8192];

        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = ") "[i % 2];
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
                MACHINE(.fails = call);
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
        CHECK(machine.huge_asked == 0 && machine.maps == 0);
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

static void test_an_engine_that_cannot_map_the_segment_has_failed(void)
{
        static struct sb_engine engine;
        struct sb_supervisor supervisor = {.config = &config};

        MACHINE();
        CHECK(!ftruncate(said_fd, 0) && !lseek(said_fd, 0, SEEK_SET));
        CHECK(!make_memory(&supervisor.memory));
        engine.supervisor = &supervisor;
        machine.fails = FIRST_MAP;
        machine.maps = 0;
        CHECK_EQ(sb_adopt(&engine), SB_ENGINE_FAILED);
        CHECK(said("the engine cannot map the segment: Operation not permitted"));
        sb_memory_drop(&supervisor.memory);
}

/* Clients write meanwhile, and one may go wrong at any time. */
static void test_a_segment_that_is_damaged_during_its_adoption_is_refused(void)
{
        static struct sb_engine engine;
        struct sb_supervisor supervisor = {.config = &config};

        MACHINE();
        CHECK(!ftruncate(said_fd, 0) && !lseek(said_fd, 0, SEEK_SET));
        CHECK(!make_memory(&supervisor.memory));
        engine.supervisor = &supervisor;
        machine.torn = supervisor.memory.super;
        CHECK_EQ(sb_adopt(&engine), SB_ENGINE_UNSOUND);
        machine.torn = NULL;
        CHECK(said("the segment is not adopted: it cannot be checked (Bad message)"));
        munmap(engine.handle.segment.base, engine.handle.segment.geometry.size);
        sb_memory_drop(&supervisor.memory);
}

/* A client is refused only when all that have a place live, however many there are. */
static void test_all_that_died_meanwhile_are_collected(void)
{
        enum { CLIENTS = 100 };
        static struct sb_engine engine;
        struct sb_supervisor supervisor = {.config = &config};
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t count, slot, generation;
        struct pollfd gone;
        pid_t child;

        MACHINE();
        config.clients = CLIENTS;
        CHECK(!make_memory(&supervisor.memory));
        config.clients = 4;
        count = supervisor.memory.geometry.record_count;
        engine.supervisor = &supervisor;
        engine.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        engine.watchers = calloc(count, sizeof(*engine.watchers));
        CHECK(count > CLIENTS && engine.epoll_fd >= 0 && engine.watchers);
        for (slot = 0; slot < count; slot++)
                engine.watchers[slot].pidfd = -1;
        CHECK_EQ(sb_adopt(&engine), SB_ENGINE_STOPPED);
        child = fork();
        if (child == 0)
                _exit(0);
        gone = (struct pollfd){(int)syscall(SYS_pidfd_open, child, 0), POLLIN, 0};
        CHECK_EQ(poll(&gone, 1, -1), 1);
        for (uint32_t i = 1; i < count; i++) {
                CHECK_EQ(sb_roster_claim(&engine.handle.segment, i, &identity, &slot, &generation),
                        0);
                CHECK_EQ(slot, i);
                sb_reaper_watch(&engine, slot, generation, (int)syscall(SYS_pidfd_open, child, 0));
        }
        CHECK_EQ(sb_roster_count(&engine.handle.segment), count);
        /* A look at all of them goes on at once, and then ends. */
        engine.look_wanted = true;
        CHECK(sb_reaper_look(&engine));
        CHECK(!sb_reaper_look(&engine));
        CHECK_EQ(sb_reaper_collect(&engine), count - 1);
        CHECK_EQ(sb_roster_count(&engine.handle.segment), 1);
        CHECK_EQ(waitpid(child, NULL, 0), child);
        close(gone.fd);
        close(engine.maps_fd);
        close(engine.epoll_fd);
        free(engine.watchers);
        munmap(engine.handle.segment.base, engine.handle.segment.geometry.size);
        sb_memory_drop(&supervisor.memory);
}

/* Others could put another socket into it. */
static void test_a_directory_that_cannot_be_put_in_order_is_refused(void)
{
        char name[] = "/tmp/statebus-unit-XXXXXX";
        struct sb_directory directory;
        struct sb_place place;
        struct stat status;

        CHECK(mkdtemp(name) && !sb_place_resolve(name, &place));
        CHECK(!ftruncate(said_fd, 0) && !lseek(said_fd, 0, SEEK_SET));
        MACHINE(.fails = MODE);
        CHECK_EQ(sb_directory_take(&place, &directory), -1);
        CHECK(said("cannot set its mode to 0711: Operation not permitted"));
        /* One of which nothing says that it is a bus's alone keeps the mode that it has. */
        MACHINE(.fails = LIST);
        CHECK_EQ(sb_directory_take(&place, &directory), 0);
        CHECK(!stat(name, &status) && (status.st_mode & 07777) == 0700);
        sb_directory_leave(&directory);
        close(directory.listen_fd);
        close(directory.lock_fd);
        close(directory.fd);
        MACHINE();
        CHECK_EQ(sb_directory_take(&place, &directory), 0);
        CHECK(!stat(name, &status) && (status.st_mode & 07777) == 0711);
        sb_directory_leave(&directory);
        close(directory.listen_fd);
        close(directory.lock_fd);
        CHECK(!unlinkat(directory.fd, SB_PLACE_LOCK, 0) && !rmdir(name));
        close(directory.fd);
}

/* The process that had it was killed just now, and its end takes a moment. */
static void test_a_lock_that_was_waited_for_leaves_no_alarm_behind(void)
{
        char name[] = "/tmp/statebus-unit-XXXXXX";
        struct sb_directory directory;
        struct sigaction action;
        struct itimerval timer;
        struct sb_place place;
        sigset_t before, after, all, mask;

        CHECK(mkdtemp(name) && !sb_place_resolve(name, &place));
        /* All wait but for the alarm: these among others, which the litter would let through. */
        sigfillset(&all);
        CHECK(!sigprocmask(SIG_SETMASK, &all, &mask));
        CHECK(!sigprocmask(SIG_SETMASK, NULL, &before));
        MACHINE(.locked = true);
        litter();
        CHECK_EQ(sb_directory_take(&place, &directory), 0);
        CHECK(!machine.locked);
        sigdelset(&all, SIGALRM);
        for (int number = 1; number < NSIG; number++)
                if (number != SIGKILL && number != SIGSTOP && (number < 32 || number >= SIGRTMIN))
                        CHECK_EQ(sigismember(&machine.held, number), sigismember(&all, number));
        CHECK(!getitimer(ITIMER_REAL, &timer));
        CHECK(!timer.it_value.tv_sec && !timer.it_value.tv_usec && !timer.it_interval.tv_usec);
        CHECK(!sigaction(SIGALRM, NULL, &action) && action.sa_handler == SIG_DFL);
        CHECK(!sigprocmask(SIG_SETMASK, NULL, &after));
        for (int number = 1; number < NSIG; number++)
                CHECK_EQ(sigismember(&after, number), sigismember(&before, number));
        CHECK(!sigprocmask(SIG_SETMASK, &mask, NULL));
        sb_directory_leave(&directory);
        close(directory.listen_fd);
        close(directory.lock_fd);
        CHECK(!unlinkat(directory.fd, SB_PLACE_LOCK, 0) && !rmdir(name));
        close(directory.fd);
}

/* A killed agentd is outwaited, however long the kernel takes for its memory. */
static void test_a_lock_is_waited_for_as_long_as_the_process_that_had_it_ends(void)
{
        char name[] = "/tmp/statebus-unit-XXXXXX";
        struct sb_directory directory;
        struct sb_place place;

        CHECK(mkdtemp(name) && !sb_place_resolve(name, &place));
        MACHINE(.lock_fails = EWOULDBLOCK, .ending = 100);
        CHECK_EQ(sb_directory_take(&place, &directory), 0);
        CHECK(!machine.ending);
        sb_directory_leave(&directory);
        close(directory.listen_fd);
        close(directory.lock_fd);
        CHECK(!unlinkat(directory.fd, SB_PLACE_LOCK, 0) && !rmdir(name));
        close(directory.fd);
}

static int open_fds(void)
{
        int count = 0;

        for (int fd = 0; fd < 64; fd++)
                count += fcntl(fd, F_GETFD) >= 0;
        return count;
}

/* No directory is taken, this is said, no descriptor stays open, and the umask is as before. */
static bool refuses(const char *directory, const char *words)
{
        struct sb_directory untouched = {-7, -7, -7};
        mode_t mask = umask(0027);
        int before = open_fds();
        struct sb_place place;

        if (sb_place_resolve(directory, &place) || ftruncate(said_fd, 0) ||
                lseek(said_fd, 0, SEEK_SET) || !sb_directory_take(&place, &untouched))
                return false;
        mask = umask(mask);
        return said(words) && open_fds() == before && mask == 0027 && untouched.fd == -7 &&
               untouched.lock_fd == -7;
}

/* Other users could put another socket there. */
static void test_a_directory_that_others_own_or_may_write_in_is_refused(void)
{
        char name[] = "/tmp/statebus-unit-XXXXXX", file[64];
        struct stat status;

        MACHINE();
        CHECK(mkdtemp(name));
        snprintf(file, sizeof(file), "%s/another", name);
        close(open(file, O_CREAT | O_WRONLY, 0600));
        for (mode_t open = 0002; open <= 0020; open += 0016) {
                CHECK(!chmod(name, 0755 | open));
                CHECK(refuses(name, "can be written by others"));
                CHECK(!stat(name, &status) && (status.st_mode & 07777) == (0755 | open));
        }
        CHECK(!chmod(name, 0711));
        if (geteuid() == 0) {
                CHECK(!chown(name, 4711, 0));
                CHECK(refuses(name, "belongs to user 4711: give a directory of your own"));
        }
        CHECK(!unlink(file) && !rmdir(name));
}

static void test_what_hinders_a_new_agentd_in_its_directory_is_said(void)
{
        char name[] = "/tmp/statebus-unit-XXXXXX", file[64];

        CHECK(mkdtemp(name) && !chmod(name, 0711));
        MACHINE(.lock_fails = ENOLCK);
        CHECK(refuses(name, "/lock: cannot lock it: No locks available"));
        MACHINE(.lock_fails = EWOULDBLOCK);
        CHECK(refuses(name, "another agentd is just starting on /tmp"));
        snprintf(file, sizeof(file), "%s/socket", name);
        MACHINE(.fails = LISTEN);
        CHECK(refuses(name, "/socket: cannot listen there: Operation not permitted"));
        MACHINE();
        CHECK(!unlink(file));
        CHECK(!mkdir(file, 0700));
        CHECK(refuses(name, "/socket: cannot listen there: Is a directory"));
        CHECK(!rmdir(file));
        snprintf(file, sizeof(file), "%s/lock/bus", name);
        CHECK(refuses(file, "cannot make this directory: Not a directory"));
        snprintf(file, sizeof(file), "%s/lock", name);
        CHECK(refuses(file, "/lock: Not a directory"));
        CHECK(!unlink(file) && !mkdir(file, 0700));
        CHECK(refuses(name, "/lock: Is a directory"));
        CHECK(!rmdir(file) && !rmdir(name));
}

/* A supervisor for sb_engine_run(), with descriptors that never report anything. */
static bool supervise_nothing(struct sb_supervisor *ret)
{
        *ret = (struct sb_supervisor){.config = &config, .kept_max = 4};
        if (make_memory(&ret->memory))
                return false;
        ret->signal_fd = eventfd(0, EFD_CLOEXEC);
        ret->directory.listen_fd = eventfd(0, EFD_CLOEXEC);
        ret->channel = eventfd(0, EFD_CLOEXEC);
        ret->self_fd = eventfd(0, EFD_CLOEXEC);
        return ftruncate(said_fd, 0) == 0 && lseek(said_fd, 0, SEEK_SET) == 0;
}

/* Be the engine, in a child, where nothing is left behind but what it said. Return: how it ended;
 * 90: it ended well by the next SIGBUS, too. */
static int engine_ends(struct sb_supervisor *supervisor)
{
        struct sigaction action;
        int status = -1;
        pid_t child = fork();

        if (!child) {
                enum sb_engine_end end;

                alarm(20); /* where it serves after all */
                end = sb_engine_run(supervisor);

                _exit(sigaction(SIGBUS, NULL, &action) || action.sa_handler != SIG_DFL ? 90 : end);
        }
        return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)
                       ? -1
                       : WEXITSTATUS(status);
}

static void test_memory_that_is_gone_ends_the_engines_work_and_not_its_process(void)
{
        struct sb_supervisor supervisor;
        char page[4096];
        int sealed;

        MACHINE();
        CHECK(supervise_nothing(&supervisor));
        /* Of the same bytes, and not sealed: but for its beginning it goes. */
        sealed = supervisor.memory.fd;
        supervisor.memory.fd = memfd_create("statebus", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        for (off_t at = 0; at < 1 << 17; at += (off_t)sizeof(page)) {
                CHECK_EQ(pread(sealed, page, sizeof(page), at), sizeof(page));
                CHECK_EQ(pwrite(supervisor.memory.fd, page, sizeof(page), at), sizeof(page));
        }
        CHECK_EQ(engine_ends(&supervisor), SB_ENGINE_UNSOUND);
        CHECK(said("the segment is given up: part of its memory is gone (SIGBUS)"));
        close(sealed);
        sb_memory_drop(&supervisor.memory);
}

static void test_an_engine_that_cannot_wait_for_all_that_it_serves_does_not_start(void)
{
        struct sb_supervisor supervisor;
        int *const fds[] = {&supervisor.signal_fd, &supervisor.directory.listen_fd,
                &supervisor.channel, &supervisor.self_fd};

        for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
                MACHINE();
                CHECK(supervise_nothing(&supervisor));
                close(*fds[i]);
                *fds[i] = -1;
                CHECK_EQ(engine_ends(&supervisor), SB_ENGINE_FAILED);
                CHECK(said("the engine cannot start: Bad file descriptor"));
                for (size_t k = 0; k < sizeof(fds) / sizeof(fds[0]); k++)
                        if (k != i)
                                close(*fds[k]);
                sb_memory_drop(&supervisor.memory);
        }
}

/* A line is written whole, or not at all, and never waited for. */
static void test_a_log_that_nothing_reads_keeps_no_process_waiting(void)
{
        char bytes[4096] = {0}, line[64] = "";
        size_t filled = 0;
        int fds[2], status;
        ssize_t len;
        pid_t child;

        CHECK(!pipe2(fds, O_CLOEXEC | O_NONBLOCK));
        while ((len = write(fds[1], bytes, sizeof(bytes))) > 0)
                filled += (size_t)len;
        CHECK(!fcntl(fds[1], F_SETFL, 0));
        child = fork();
        if (child == 0) {
                dup2(fds[1], STDERR_FILENO);
                alarm(5);
                sb_log("this line is lost");
                sb_log_word("and this one");
                _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        for (; filled > 0; filled -= (size_t)len)
                CHECK((len = read(fds[0], bytes, sizeof(bytes))) > 0);
        child = fork();
        if (child == 0) {
                dup2(fds[1], STDERR_FILENO);
                sb_log("this %s is not", "line");
                _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK_EQ(read(fds[0], line, sizeof(line)), 25);
        CHECK_EQ(strcmp(line, "agentd: this line is not\n"), 0);
        close(fds[0]);
        close(fds[1]);
}

static void test_a_line_of_any_length_is_one_line_and_ends(void)
{
        char words[2048], text[4096];
        ssize_t len;

        for (size_t count = 980; count < 1080; count++) {
                size_t expected = count < 1014 - 21 ? count : 1014 - 21;

                memset(words, 'x', count);
                words[count] = 0;
                CHECK(!ftruncate(said_fd, 0) && !lseek(said_fd, 0, SEEK_SET));
                sb_log("%s", words);
                len = pread(said_fd, text, sizeof(text) - 1, 0);
                text[len > 0 ? len : 0] = 0;
                /* A file's lines begin with the time, of 21 bytes. */
                CHECK(text[4] == '-' && text[10] == 'T' && text[19] == 'Z' && text[20] == ' ');
                CHECK_EQ(strncmp(text + 21, "agentd: ", 8), 0);
                CHECK_EQ(strspn(text + 29, "x"), expected);
                CHECK_EQ(strcmp(text + 29 + expected, "\n"), 0);
        }
}

static void test_a_size_is_said_in_the_largest_unit_that_divides_it(void)
{
        static const struct {
                uint64_t bytes;
                const char *words;
        } cases[] = {{0, "0"}, {1, "1"}, {1023, "1023"}, {1024, "1K"}, {1025, "1025"},
                {1536, "1536"}, {3 << 20, "3M"}, {(1 << 20) + 1024, "1025K"},
                {UINT64_C(5) << 30, "5G"}, {UINT64_C(7) << 40, "7T"}, {UINT64_C(1) << 50, "1024T"},
                {UINT64_MAX, "18446744073709551615"}};
        char text[32];

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                if (strcmp(sb_config_size_words(cases[i].bytes, text), cases[i].words) != 0)
                        TEST_FAIL("%s, not %s", text, cases[i].words);
}

/* The name of a process may hold anything, and nothing but the file counts. */
static void test_a_process_was_started_when_the_kernel_says_so(void)
{
        static const char *const names[] = {"plain", "a b c", ") 1 2 3 4 5 6", "(((", "))) 77 ) )"};
        uint64_t start, first = 0;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                CHECK(!prctl(PR_SET_NAME, names[i]));
                litter();
                CHECK_EQ(sb_reaper_start_time((uint32_t)getpid(), &start), 0);
                CHECK(start > 0 && (!first || start == first));
                first = start;
        }
        CHECK_EQ(sb_reaper_start_time(0, &start), -ENOENT);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        said_fd = __real_memfd_create("said", MFD_CLOEXEC);
        if (said_fd < 0 || dup2(said_fd, STDERR_FILENO) < 0)
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
        RUN(test_an_engine_that_cannot_map_the_segment_has_failed);
        RUN(test_a_segment_that_is_damaged_during_its_adoption_is_refused);
        RUN(test_all_that_died_meanwhile_are_collected);
        RUN(test_a_directory_that_cannot_be_put_in_order_is_refused);
        RUN(test_a_directory_that_others_own_or_may_write_in_is_refused);
        RUN(test_what_hinders_a_new_agentd_in_its_directory_is_said);
        RUN(test_memory_that_is_gone_ends_the_engines_work_and_not_its_process);
        RUN(test_an_engine_that_cannot_wait_for_all_that_it_serves_does_not_start);
        RUN(test_a_lock_that_was_waited_for_leaves_no_alarm_behind);
        RUN(test_a_lock_is_waited_for_as_long_as_the_process_that_had_it_ends);
        RUN(test_a_log_that_nothing_reads_keeps_no_process_waiting);
        RUN(test_a_line_of_any_length_is_one_line_and_ends);
        RUN(test_a_size_is_said_in_the_largest_unit_that_divides_it);
        RUN(test_a_process_was_started_when_the_kernel_says_so);
        return test_end();
}
