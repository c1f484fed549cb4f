/* A worker of the soak; see soak-worker.h. */
#define _GNU_SOURCE
#include "tests/storm/soak-worker.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "shm/memory/limbo.h"

#define LARGE_VALUE 24000u
#define HOLD_MS     300u /* a snapshot is held at most so long */
/* So many batches a worker does in a tenth of a second. What a cut keeps while its holder is halted
 * grows with what the others do meanwhile, and must fit. */
#define PACE 27u

struct soak_table *soak_table;

/* How often each kind of batch is, and how long. Together they are 538 parts. */
static const struct kind {
        uint32_t parts, parts_filling;
        uint32_t operations;
} soak_worker_kinds[SOAK_KINDS] = {
        [SOAK_TURNOVER] = {200, 150, 20},
        [SOAK_SET] = {100, 50, 20},
        [SOAK_GET] = {150, 50, 20},
        [SOAK_COMMIT] = {45, 45, 20},
        [SOAK_RULED_KEY] = {3, 203, 20},
        [SOAK_SCAN] = {20, 20, 1},
        [SOAK_MARK] = {20, 20, 1},
};
#define PARTS 538u

static unsigned char value_bytes[LARGE_VALUE];

static uint64_t cpu_ns(void)
{
        struct timespec time;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t soak_number(const char *name, uint64_t otherwise)
{
        const char *text = getenv(name);

        return text ? strtoull(text, NULL, 10) : otherwise;
}

struct sb_bytes soak_key(uint32_t key, uint32_t life, char ret[48])
{
        int len = snprintf(ret, 48, "soak/%05u/%u", key, life);

        return (struct sb_bytes){ret, (size_t)len};
}

struct sb_bytes soak_value(uint64_t random)
{
        uint64_t kind = random % 1000, more = random >> 20;
        size_t len = kind < 1    ? 12000 + more % (LARGE_VALUE - 12000)
                     : kind < 40 ? 256 + more % 1024
                                 : 8 + more % 48;

        return (struct sb_bytes){value_bytes, len};
}

static bool may_be(struct soak_seat *seat, int r, const char *what)
{
        if (r == SB_E_FULL)
                seat->full++;
        if (r == 0 || r == SB_E_NOT_FOUND || r == SB_E_CONFLICT || r == SB_E_FULL ||
                r == SB_E_LAPPED || r == -EINTR)
                return true;
        snprintf(seat->complaint, sizeof(seat->complaint), "%s: %s", what, sb_strerror(r));
        seat->complained = true;
        return false;
}

/* The key gives way to one that never was. A worker that is killed in here is followed by one that
 * does it again. */
static void turn_over(struct sb_bus *own, struct soak_seat *seat, uint32_t key, uint64_t random)
{
        char text[48];
        int r;

        __atomic_store_n(&seat->under_way, key, __ATOMIC_SEQ_CST);
        r = sb_delete(own, soak_key(key, soak_table->life[key], text), SB_ANY_REV, NULL, NULL);
        may_be(seat, r, "delete");
        r = sb_set(own, soak_key(key, soak_table->life[key] + 1, text), soak_value(random), NULL,
                NULL);
        may_be(seat, r, "set");
        __atomic_store_n(&soak_table->life[key], soak_table->life[key] + 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&seat->under_way, SOAK_NO_KEY, __ATOMIC_SEQ_CST);
}

static void overwrite(struct sb_bus *own, struct soak_seat *seat, uint32_t key, uint64_t random)
{
        char text[48];

        may_be(seat,
                sb_set(own, soak_key(key, soak_table->life[key], text), soak_value(random), NULL,
                        NULL),
                "overwrite");
}

static void get(struct sb_bus *own, struct soak_seat *seat, uint32_t key)
{
        struct sb_guard guard = {0};
        char text[48];

        may_be(seat, sb_get(own, soak_key(key, soak_table->life[key], text), &guard), "get");
        sb_guard_release(&guard);
}

static uint32_t own_key(uint32_t number, uint64_t random)
{
        return (uint32_t)(random % (SOAK_KEYS / SOAK_WORKERS)) * SOAK_WORKERS + number;
}

static void commit(struct sb_bus *own, struct soak_seat *seat, uint32_t number, uint64_t *state)
{
        uint64_t random = storm_random(state);
        struct sb_txn *txn;
        char text[48];
        int r = sb_txn_begin(own, random & 1 ? SB_SERIALIZABLE : SB_SNAPSHOT, &txn);

        if (!may_be(seat, r, "begin") || r)
                return;
        for (uint32_t i = 0; i < 4 && !r; i++) {
                uint32_t key = own_key(number, storm_random(state));

                r = sb_txn_set(
                        txn, soak_key(key, soak_table->life[key], text), soak_value(random >> i));
        }
        if (!r)
                r = sb_txn_commit(txn, NULL);
        may_be(seat, r, "commit");
        sb_txn_end(txn);
}

/* Hold a cut for a while, as a slow reader does, and look at keys in it. */
static void scan_slowly(struct sb_bus *own, struct soak_seat *seat, uint64_t random)
{
        uint64_t until = now_ns() + random % HOLD_MS * 1000000;
        struct sb_scan *scan;
        struct sb_guard guard = {0};
        int r = sb_scan_open(own, NULL, b("soak/"), &scan);

        if (!may_be(seat, r, "scan") || r)
                return;
        while (now_ns() < until && !soak_table->stop && (r = sb_scan_next(scan, &guard)) == 0)
                sb_guard_release(&guard);
        may_be(seat, r, "scan next");
        sb_scan_close(scan);
}

static void mark(struct sb_bus *own, struct soak_seat *seat, uint32_t number)
{
        uint64_t cut;
        char name[32];
        int r;

        snprintf(name, sizeof(name), "soak-%u", number);
        r = sb_mark_drop(own, b(name));
        may_be(seat, r, "drop");
        r = sb_mark(own, b(name), &cut);
        may_be(seat, r, "mark");
}

/* Under the rule of history: keys that are written again and again, and keys that are made once and
 * deleted, ever new ones. */
static void write_ruled(
        struct sb_bus *own, struct soak_seat *seat, uint32_t number, uint64_t random)
{
        char text[48];
        int r;

        snprintf(text, sizeof(text), "rule/%u/%u", number, (uint32_t)(random % SOAK_RULED));
        r = sb_set(own, b(text), soak_value(random >> 8), NULL, NULL);
        may_be(seat, r, "set under a rule");
        snprintf(text, sizeof(text), "rule/%u/once/%016" PRIx64, number, random);
        r = sb_set(own, b(text), soak_value(random >> 8), NULL, NULL);
        may_be(seat, r, "set once");
        r = sb_delete(own, b(text), SB_ANY_REV, NULL, NULL);
        may_be(seat, r, "delete once");
}

static void work_once(struct sb_bus *own, struct soak_seat *seat, uint32_t number,
        enum soak_kind kind, uint64_t *state)
{
        uint64_t random = storm_random(state);
        uint32_t key = own_key(number, storm_random(state));

        switch (kind) {
        case SOAK_TURNOVER:
                turn_over(own, seat, key, random);
                break;
        case SOAK_SET:
                overwrite(own, seat, key, random);
                break;
        case SOAK_GET:
                for (uint32_t i = 0; i < 8; i++)
                        get(own, seat, (key + i * 977) % SOAK_KEYS);
                break;
        case SOAK_COMMIT:
                commit(own, seat, number, state);
                break;
        case SOAK_RULED_KEY:
                write_ruled(own, seat, number, random);
                break;
        case SOAK_SCAN:
                scan_slowly(own, seat, random);
                break;
        default:
                mark(own, seat, number);
                break;
        }
}

static enum soak_kind draw_kind(uint64_t *state)
{
        uint32_t part = (uint32_t)(storm_random(state) % PARTS), kind = 0;

        for (;; kind++) {
                const struct kind *look = &soak_worker_kinds[kind];
                uint32_t parts = soak_table->filling ? look->parts_filling : look->parts;

                if (part < parts)
                        return kind;
                part -= parts;
        }
}

static void work_batch(struct sb_bus *own, struct soak_seat *seat, uint32_t number, uint64_t *state)
{
        enum soak_kind kind = draw_kind(state);
        uint32_t count = soak_worker_kinds[kind].operations;
        uint64_t before = cpu_ns();

        for (uint32_t i = 0; i < count; i++)
                work_once(own, seat, number, kind, state);
        seat->cpu_ns[kind] += cpu_ns() - before;
        seat->done[kind] += kind == SOAK_GET ? count * 8 : count;
}

/* Add what this worker's handle has counted since the last call. */
static void tell(struct sb_bus *own, struct soak_seat *seat, struct sb_counters *before)
{
        const struct sb_counters *now = &own->handle.counters;
        uint32_t waiting = sb_limbo_waiting(&own->handle);
        uint32_t pending = sb_limbo_pending(&own->handle);

        seat->swept += now->swept - before->swept;
        seat->slices += now->slices - before->slices;
        *before = *now;
        if (waiting > seat->limbo_most)
                seat->limbo_most = waiting;
        if (pending > seat->pending_most)
                seat->pending_most = pending;
}

void soak_work(struct world *world, uint32_t number, uint64_t seed)
{
        struct soak_seat *seat = &soak_table->seat[number];
        struct sb_counters before = {0};
        uint64_t state = seed;
        struct sb_bus *own;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        own = world_bus(world);
        if (!own) {
                may_be(seat, -EAGAIN, "attach");
                _exit(1);
        }
        if (seat->under_way != SOAK_NO_KEY)
                turn_over(own, seat, seat->under_way, storm_random(&state));
        while (!soak_table->stop && !seat->complained) {
                uint64_t next = now_ns() + 100000000, now;
                struct timespec rest = {0};

                for (uint32_t i = 0; i < PACE && !soak_table->stop && !seat->complained; i++)
                        work_batch(own, seat, number, &state);
                tell(own, seat, &before);
                now = now_ns();
                rest.tv_nsec = next > now ? (long)(next - now) : 0;
                nanosleep(&rest, NULL);
        }
        sb_close(own);
        _exit(seat->complained);
}
