/*
 * Parts of agentd in a process of the test's. What they say goes into a file, and a call that makes
 * a segment or a directory fails where the test wants that. For programs that are linked with all
 * of agentd's objects but main, and with --wrap for mmap64 and fchmod.
 */
#ifndef TESTS_UNIT_AGENTD_H
#define TESTS_UNIT_AGENTD_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agentd/config.h"
#include "agentd/memory.h"

#define MIB (UINT64_C(1) << 20)

static struct sb_config config = {.size = 4 * MIB, .clients = 4, .hugepages = SB_HUGEPAGES_OFF};

/* The call that fails, with EPERM. */
static enum { NOTHING, MEMFD, FIRST_MAP, SECOND_MAP, RANDOM, MODE, LIST, LISTEN } fails;
static unsigned maps; /* of files */

/* What else is special here: each program has a struct of its own, @machine, which is empty but for
 * what a test says. */
#define MACHINE(...)                                                                               \
        do {                                                                                       \
                machine = (typeof(machine)){__VA_ARGS__};                                          \
                fails = NOTHING;                                                                   \
                maps = 0;                                                                          \
                config.hugepages = SB_HUGEPAGES_OFF;                                               \
        } while (0)

void *__real_mmap64(void *base, size_t size, int protection, int flags, int fd, off_t from);
void *__wrap_mmap64(void *base, size_t size, int protection, int flags, int fd, off_t from);
void *__wrap_mmap64(void *base, size_t size, int protection, int flags, int fd, off_t from)
{
        if (fd < 0) /* addresses alone */
                return __real_mmap64(base, size, protection, flags, fd, from);
        maps++;
        if (fails == FIRST_MAP + maps - 1 && maps <= 2) {
                errno = EPERM;
                return MAP_FAILED;
        }
        return __real_mmap64(base, size, protection, flags, fd, from);
}

int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode)
{
        errno = EPERM;
        return fails == MODE ? -1 : __real_fchmod(fd, mode);
}

/* ---- what it said ---- */

static int said_fd = -1;

/* From here on: what goes to standard error. */
static inline bool hear(void)
{
        said_fd = memfd_create("said", MFD_CLOEXEC);
        return said_fd >= 0 && dup2(said_fd, STDERR_FILENO) >= 0;
}

static inline bool forget_said(void)
{
        return !ftruncate(said_fd, 0) && !lseek(said_fd, 0, SEEK_SET);
}

static inline bool said(const char *words)
{
        char text[4096];
        ssize_t len = pread(said_fd, text, sizeof(text) - 1, 0);

        text[len > 0 ? len : 0] = 0;
        return strstr(text, words);
}

/* ---- what several of them need ---- */

static inline int make_memory(struct sb_memory *ret)
{
        void *base;
        int r = sb_memory_make(&config, ret, &base);

        if (!r)
                munmap(base, ret->size);
        return r;
}

/* Write over what a function called from here finds on its stack. */
static __attribute__((noinline, unused)) void litter(void)
{
        volatile char bytes[8192];

        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = ") "[i % 2];
}

#endif
