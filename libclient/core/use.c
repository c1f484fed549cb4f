/* The checked mode; see use.h. What it finds, a lock would hide: it says which program is to be
 * mended, and makes no bus fit for threads. */
#define _GNU_SOURCE
#include "libclient/core/use.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/base/word.h"

#define NAME_MAX_LEN 16 /* of a thread */

struct sb_use {
        pthread_mutex_t mutex; /* recursive; held by the thread that is in a call */
        bool inside;           /* under @mutex */
        bool closed;           /* the bus was */
        bool over;             /* without checks, the bus would have been freed */
        pid_t opener;          /* the process */
        /* The outermost call of the thread that has the mutex, or had it last. */
        struct sb_word64 call; /* the address of its name */
        struct sb_word32 thread;
};

bool sb_use_wanted(void)
{
        const char *value = secure_getenv("STATEBUS_CHECKED");

        return value && *value && strcmp(value, "0") != 0;
}

/* Relaxed, here and below: only what a message says depends on it. */
static void use_note(struct sb_use *use, const char *call)
{
        sb_store_relaxed(&use->call, (uint64_t)(uintptr_t)call);
        sb_store_relaxed(&use->thread, (uint32_t)gettid());
}

struct sb_use *sb_use_new(void)
{
        struct sb_use *use = calloc(1, sizeof(*use));
        pthread_mutexattr_t attributes;

        if (!use)
                return NULL;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_init(&use->mutex, &attributes);
        pthread_mutexattr_destroy(&attributes);
        use->opener = getpid();
        use_note(use, "sb_open");
        return use;
}

/* End the program, with a line. */
static _Noreturn void use_abort(const char *format, ...)
{
        char line[512] = "statebus: ";
        va_list arguments;
        size_t len = strlen(line);

        va_start(arguments, format);
        vsnprintf(line + len, sizeof(line) - len - 1, format, arguments);
        va_end(arguments);
        len = strlen(line);
        line[len++] = '\n';
        (void)!write(STDERR_FILENO, line, len);
        abort();
}

/* The name that a thread of this process has given itself, in brackets; or nothing. */
static const char *use_name_of(uint32_t thread, char ret[NAME_MAX_LEN + 4])
{
        char path[64], name[NAME_MAX_LEN + 1] = "";
        ssize_t len;
        int fd;

        snprintf(path, sizeof(path), "/proc/self/task/%u/comm", thread);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return "";
        len = read(fd, name, NAME_MAX_LEN) - 1; /* without the newline behind it */
        close(fd);
        if (len <= 0)
                return "";
        snprintf(ret, NAME_MAX_LEN + 4, " (%.*s)", (int)len, name);
        return ret;
}

static _Noreturn void use_abort_two_threads(const struct sb_use *use, const char *call)
{
        char one_name[NAME_MAX_LEN + 4], other_name[NAME_MAX_LEN + 4];
        uint32_t one = (uint32_t)gettid(), other = sb_load_relaxed(&use->thread);

        use_abort("%s() by thread %u%s while thread %u%s is in %s() on the same bus: a bus belongs "
                  "to one thread at a time",
                call, one, use_name_of(one, one_name), other, use_name_of(other, other_name),
                (const char *)(uintptr_t)sb_load_relaxed(&use->call));
}

struct sb_use *sb_use_enter(struct sb_use *use, bool forked, const char *call, bool ends)
{
        if (!use)
                return NULL;
        if (use->closed)
                use_abort("%s() on a bus that sb_close() has ended", call);
        if (forked && ends)
                return NULL;
        if (forked)
                use_abort("%s() in process %d on a bus that process %d opened: a bus ends at "
                          "fork(), open another one",
                        call, (int)getpid(), (int)use->opener);
        if (pthread_mutex_trylock(&use->mutex) != 0)
                use_abort_two_threads(use, call);
        if (use->inside) {
                pthread_mutex_unlock(&use->mutex);
                return NULL;
        }
        use->inside = true;
        use_note(use, call);
        return use;
}

void sb_use_leave(struct sb_use *use)
{
        if (!use)
                return;
        use->inside = false;
        pthread_mutex_unlock(&use->mutex);
}

void sb_use_close(struct sb_use *use)
{
        use->closed = true;
}

void sb_use_end(struct sb_use *use)
{
        use->over = true;
}

void sb_use_stale(const struct sb_use *use)
{
        if (use && use->over)
                use_abort(
                        "sb_guard_release() of a copy of a guard that was released, on a bus that "
                        "sb_close() has ended");
}
