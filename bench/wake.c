/* Ways of telling other processes that something has changed; see wake.h. */
#include "bench/wake.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench/bench.h"
#include "libclient/statebus.h"

#define VALUE_LEN 64u
static const char key[] = "watched/key-0001";
static const char prefix[] = "watched/";

int wake_init(struct wake_shared *shared)
{
        pthread_mutexattr_t mutex;
        pthread_condattr_t condition;
        int r = 0;

        memset(shared, 0, sizeof(*shared));
        pthread_mutexattr_init(&mutex);
        pthread_condattr_init(&condition);
        r |= pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
        r |= pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
        r |= pthread_mutex_init(&shared->mutex, &mutex);
        r |= pthread_cond_init(&shared->condition, &condition);
        pthread_mutexattr_destroy(&mutex);
        pthread_condattr_destroy(&condition);
        shared->condition_told = UINT64_MAX;
        return r ? -EINVAL : 0;
}

static int nothing_open(struct wake_end *end, const struct wake_how *how, bool waits)
{
        (void)how;
        (void)waits;
        /* Relaxed: no process tells before all have opened. */
        end->last = sb_load_relaxed(&end->shared->there);
        end->count = sb_load_relaxed(&end->shared->count);
        return 0;
}

void wake_close(struct wake_end *end)
{
        end->watch = sb_watch_close(end->watch);
        end->bus = sb_close(end->bus);
}

/* ---- a word that is looked at ---- */

static int word_tell(struct wake_end *end, uint64_t what)
{
        sb_store_release(&end->shared->there, what); /* R:told > A:told. */
        return 0;
}

static int word_wait(struct wake_end *end, uint64_t *ret_what)
{
        uint64_t what;

        /* A:told. */
        while ((what = sb_load_acquire(&end->shared->there)) == end->last)
                sb_stall();
        *ret_what = end->last = what;
        return 0;
}

const struct wake_way wake_word = {"word", false, nothing_open, word_tell, word_wait};

/* ---- a futex ---- */

static int futex_tell(struct wake_end *end, uint64_t what)
{
        struct wake_shared *shared = end->shared;

        sb_store_relaxed(&shared->told, what); /* ordered by the count */
        sb_add_full(&shared->count, 1);        /* R:told > A:told. */
        syscall(SYS_futex, &shared->count, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
        return 0;
}

static int futex_wait(struct wake_end *end, uint64_t *ret_what)
{
        struct wake_shared *shared = end->shared;

        while (sb_load_acquire(&shared->count) == end->count) /* A:told. */
                syscall(SYS_futex, &shared->count, FUTEX_WAIT, end->count, NULL, NULL, 0);
        end->count++;
        *ret_what = sb_load_relaxed(&shared->told); /* ordered by the count */
        return 0;
}

const struct wake_way wake_futex = {"futex", false, nothing_open, futex_tell, futex_wait};

/* ---- a condition variable ---- */

static int condition_open(struct wake_end *end, const struct wake_how *how, bool waits)
{
        (void)how;
        (void)waits;
        pthread_mutex_lock(&end->shared->mutex);
        end->last = end->shared->condition_told;
        pthread_mutex_unlock(&end->shared->mutex);
        return 0;
}

static int condition_tell(struct wake_end *end, uint64_t what)
{
        struct wake_shared *shared = end->shared;

        pthread_mutex_lock(&shared->mutex);
        shared->condition_told = what;
        pthread_mutex_unlock(&shared->mutex);
        /* Behind the lock, which is the fast way: the other process does not wake into it. */
        pthread_cond_broadcast(&shared->condition);
        return 0;
}

static int condition_wait(struct wake_end *end, uint64_t *ret_what)
{
        struct wake_shared *shared = end->shared;

        pthread_mutex_lock(&shared->mutex);
        while (shared->condition_told == end->last)
                pthread_cond_wait(&shared->condition, &shared->mutex);
        *ret_what = end->last = shared->condition_told;
        pthread_mutex_unlock(&shared->mutex);
        return 0;
}

const struct wake_way wake_condition = {
        "condition", false, condition_open, condition_tell, condition_wait};

/* ---- a key of a bus ---- */

static int bus_open(struct wake_end *end, const struct wake_how *how, bool waits)
{
        struct sb_options options = {.size = sizeof(options),
                .bus = how->directory,
                .access = SB_PEER,
                .spin_ns = how->spin_ns};
        int r = sb_open(&options, &end->bus);

        if (r || !waits)
                return r;
        if (how->prefix)
                return sb_watch_open(end->bus, (struct sb_bytes){prefix, sizeof(prefix) - 1},
                        SB_PREFIX, SB_ANY_REV, &end->watch);
        return sb_watch_open(
                end->bus, (struct sb_bytes){key, sizeof(key) - 1}, 0, SB_ANY_REV, &end->watch);
}

static int bus_tell(struct wake_end *end, uint64_t what)
{
        unsigned char value[VALUE_LEN] = {0};

        memcpy(value, &what, sizeof(what));
        return sb_set(end->bus, (struct sb_bytes){key, sizeof(key) - 1},
                (struct sb_bytes){value, sizeof(value)}, NULL, NULL);
}

/* The change after the last one, its value read where it lies. */
static int bus_wait(struct wake_end *end, uint64_t *ret_what)
{
        struct sb_guard change = {0};
        int r = sb_watch_next(end->watch, SB_FOREVER, &change);

        if (r)
                return r;
        memcpy(ret_what, change.value.data, sizeof(*ret_what));
        bench_use(bench_consume(change.value.data, VALUE_LEN));
        sb_guard_release(&change);
        return 0;
}

const struct wake_way wake_bus = {"statebus", true, bus_open, bus_tell, bus_wait};
