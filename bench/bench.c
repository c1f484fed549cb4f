/*
 * Memory and work for the benchmarks; see bench.h. All contenders get pages of one kind, and orders
 * of access that are computed before any clock starts.
 *
 * Always true: the same seed gives the same order on every machine; what this process added to the
 * system's huge pages it takes away again.
 */
#define _GNU_SOURCE
#include "bench/bench.h"

bool bench_keys_mixed;

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define HUGE_SIZE (UINT64_C(2) << 20)

static long pages_before = -1; /* what nr_hugepages said before this process raised it */

uint64_t bench_now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void *bench_memory_map(uint64_t size, enum bench_pages pages)
{
        bool huge = pages == BENCH_PAGES_HUGE;
        uint64_t rounded = (size + HUGE_SIZE - 1) & ~(HUGE_SIZE - 1);
        int fd = memfd_create("statebus-bench", MFD_CLOEXEC | (huge ? MFD_HUGETLB : 0));
        void *address;

        if (fd < 0)
                return NULL;
        if (ftruncate(fd, (off_t)rounded) < 0) {
                close(fd);
                return NULL;
        }
        address = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        close(fd);
        return address == MAP_FAILED ? NULL : address;
}

void bench_memory_unmap(void *address, uint64_t size)
{
        munmap(address, (size + HUGE_SIZE - 1) & ~(HUGE_SIZE - 1));
}

void bench_memory_touch(void *address, uint64_t size)
{
        const unsigned char *bytes = address;

        for (uint64_t at = 0; at < size; at += 4096)
                bench_use(bytes[at]);
}

static long number_read(const char *path, const char *format)
{
        FILE *file = fopen(path, "re");
        char line[256];
        long number = -1;

        if (!file)
                return -1;
        while (number < 0 && fgets(line, sizeof(line), file))
                if (sscanf(line, format, &number) != 1)
                        number = -1;
        fclose(file);
        return number;
}

static void number_write(const char *path, long number)
{
        FILE *file = fopen(path, "we");

        if (!file)
                return;
        fprintf(file, "%ld\n", number);
        fclose(file);
}

bool bench_pages_reserve(uint64_t bytes)
{
        static const char path[] = "/proc/sys/vm/nr_hugepages";
        long wanted = (long)((bytes + HUGE_SIZE - 1) / HUGE_SIZE);
        long all = number_read(path, "%ld"),
             unused = number_read("/proc/meminfo", "HugePages_Free: %ld");

        if (all < 0 || unused < 0)
                return false;
        if (unused >= wanted)
                return true;
        pages_before = all;
        number_write(path, all + wanted - unused);
        if (number_read("/proc/meminfo", "HugePages_Free: %ld") >= wanted)
                return true;
        bench_pages_restore();
        return false;
}

void bench_pages_restore(void)
{
        if (pages_before >= 0)
                number_write("/proc/sys/vm/nr_hugepages", pages_before);
        pages_before = -1;
}

/* xorshift64*: random enough to choose keys, and the same on every machine. */
static uint64_t random_next(uint64_t *state)
{
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint32_t random_below(uint64_t *state, uint32_t limit)
{
        return (uint32_t)((random_next(state) >> 32) * limit >> 32);
}

/* The popularity of each rank, summed up: exact sums of 1 / rank^0.99. */
static double *zipf_new(uint32_t key_count)
{
        double *sums = malloc(key_count * sizeof(*sums));
        double sum = 0;

        if (!sums)
                return NULL;
        for (uint32_t rank = 0; rank < key_count; rank++)
                sums[rank] = sum += pow((double)rank + 1, -0.99);
        return sums;
}

static uint32_t zipf_choose(const double *sums, uint32_t key_count, uint64_t *state)
{
        double at = (double)(random_next(state) >> 11) * 0x1p-53 * sums[key_count - 1];
        uint32_t low = 0, high = key_count - 1;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (sums[middle] <= at)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* Which key has which rank. It is the same for all workers, so that they want the same keys. */
static uint32_t *ranks_new(uint32_t key_count)
{
        uint32_t *ranks = malloc(key_count * sizeof(*ranks));
        uint64_t state = BENCH_SEED;

        if (!ranks)
                return NULL;
        for (uint32_t i = 0; i < key_count; i++)
                ranks[i] = i;
        for (uint32_t i = key_count - 1; i > 0; i--) {
                uint32_t other = random_below(&state, i + 1), swap = ranks[i];

                ranks[i] = ranks[other];
                ranks[other] = swap;
        }
        return ranks;
}

uint32_t *bench_order_new(enum bench_spread spread, uint32_t key_count, uint64_t seed)
{
        uint32_t *order = malloc(BENCH_ORDER_LEN * sizeof(*order));
        uint32_t *ranks = spread == BENCH_ZIPF ? ranks_new(key_count) : NULL;
        double *sums = spread == BENCH_ZIPF ? zipf_new(key_count) : NULL;
        uint64_t state = BENCH_SEED ^ (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);

        if (!order || (spread == BENCH_ZIPF && (!ranks || !sums))) {
                free(order);
                order = NULL;
                goto done;
        }
        for (uint32_t i = 0; i < BENCH_ORDER_LEN; i++) {
                uint32_t key = spread == BENCH_ZIPF ? ranks[zipf_choose(sums, key_count, &state)]
                                                    : random_below(&state, key_count);

                order[i] = key | (uint32_t)(random_next(&state) >> 56) << 24;
        }
done:
        free(ranks);
        free(sums);
        return order;
}
