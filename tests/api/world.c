/* Buses for API tests; see world.h. */
#define _GNU_SOURCE
#include "tests/api/world.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "shm/base/os.h"
#include "shm/history/times.h"
#include "shm/layout/geometry.h"
#include "shm/layout/handle.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"
#include "shm/upkeep/work.h"
#include "tests/api/crashed.h"
#include "tests/harness/space.h"

#define HUGE_PAGE 2097152u

struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

uint64_t now_ns(void)
{
        return sb_os_linux.now_ns(NULL);
}

bool has(struct sb_bus *bus, const char *key, const char *value)
{
        struct sb_guard guard = {0};
        bool same;

        if (sb_get(bus, b(key), &guard) != 0)
                return false;
        same = guard.value.len == strlen(value) &&
               memcmp(guard.value.data, value, guard.value.len) == 0;
        sb_guard_release(&guard);
        return same;
}

/* Stop the agentd that a failed test left running. */
static char last_directory[64];
static void stop_last(void)
{
        pid_t pid;

        if (last_directory[0] != '\0' && sb_admin_supervisor(last_directory, &pid) == 0)
                kill(pid, SIGTERM);
}

bool world_has_log(void)
{
        const char *kind = getenv("SB_API_WORLD");

        return kind && strcmp(kind, "durable") == 0;
}

/* What the log does there is as often and as much as can be. Return: 0; as sb_admin_start(). */
static int start_remote(const struct world *world)
{
        char size_text[32], clients_text[32];
        const char *options[] = {"--size", size_text, "--clients", clients_text, "--durability",
                world_has_log() ? "batched" : "volatile", "--flush-ms", "5", "--checkpoint-bytes",
                "1M", NULL};

        snprintf(size_text, sizeof(size_text), "%lluK", (unsigned long long)(world->size / 1024));
        snprintf(clients_text, sizeof(clients_text), "%u", world->clients + 1);
        return sb_admin_start(world->directory, options, NULL);
}

/* An agentd with a few clients makes none that is smaller. */
#define SERVED_MIN (UINT64_C(144) << 10)

static const char *open_remote(struct world *world, uint64_t size, uint32_t clients)
{
        int r = -errno;

        if (!getenv("STATEBUS_AGENTD"))
                return "no agentd was built";
        world->remote = true;
        world->size = size > SERVED_MIN ? size : SERVED_MIN;
        world->clients = clients;
        stop_last();
        if (last_directory[0] == '\0')
                atexit(stop_last);
        strcpy(world->directory, "/tmp/sb-api-XXXXXX");
        if (!mkdtemp(world->directory) || (r = start_remote(world)) != 0) {
                printf("FAIL world_open: agentd does not start (%d): see %s/agentd.log\n", r,
                        world->directory);
                exit(1);
        }
        strcpy(last_directory, world->directory);
        return NULL;
}

static struct sb_handle *open_engine(struct world *world)
{
        struct sb_roster_identity identity = {.pid = (uint32_t)getpid()};
        struct sb_handle *engine = calloc(1, sizeof(*engine));
        uint32_t slot, generation;

        if (!engine || sb_roster_claim(&world->segment, 0, &identity, &slot, &generation) != 0 ||
                slot != 0)
                abort();
        sb_handle_init(engine, &world->segment, slot, generation, test_space(&world->segment));
        return engine;
}

const char *world_open(struct world *world, uint64_t size, uint32_t clients)
{
        const char *kind = getenv("SB_API_WORLD");
        struct sb_geometry_wish wish = {.size = size, .clients = clients + 1};
        int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
        static const uint64_t id[2] = {1, 2};

        *world = (struct world){0};
        if (world_has_log() || (kind && strcmp(kind, "agentd") == 0))
                return open_remote(world, size, clients);
        if (kind && strcmp(kind, "huge") == 0) {
                flags = MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB;
                wish.size = (wish.size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        }
        if (sb_os_register() != 0)
                return "no membarrier here";
        if (sb_geometry_fit(&wish, &world->geometry) != 0)
                return "no such geometry";
        world->base = mmap(NULL, world->geometry.size, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (world->base == MAP_FAILED && getenv("SB_HUGE_PAGES")) {
                printf("FAIL world_open: %llu MiB on huge pages are not free, though tests/run "
                       "reserved some: does another process use them, or are they too few?\n",
                        (unsigned long long)(world->geometry.size >> 20));
                exit(1);
        }
        if (world->base == MAP_FAILED)
                return "no huge pages are free";
        madvise(world->base, world->geometry.size, MADV_DONTFORK);
        sb_segment_format(world->base, &world->geometry, 0x5eed, id, now_ns());
        if (sb_segment_open(world->base, world->geometry.size, &sb_os_linux, &world->segment) != 0)
                abort();
        world->engine = open_engine(world);
        return NULL;
}

struct sb_bus *world_bus(struct world *world)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = world->directory, .access = SB_PEER};
        struct sb_roster_identity identity = {
                .pid = (uint32_t)getpid(), .access = SB_PEER, .attached_ns = now_ns()};
        uint32_t slot, generation;
        struct sb_bus *bus;

        if (world->remote)
                return sb_open(&options, &bus) == 0 ? bus : NULL;
        if (sb_roster_claim(&world->segment, 1, &identity, &slot, &generation) != 0)
                return NULL;
        return sb_bus_open_segment(&world->segment, slot, generation, &bus) == 0 ? bus : NULL;
}

void world_tick(struct world *world)
{
        if (!world->remote) {
                struct sb_moment now;

                while (sb_work_tick(world->engine, &world->cursor))
                        ;
                sb_times_tick(&world->segment, &now);
        }
}

void world_prune(struct world *world, struct sb_bus *bus)
{
        uint64_t end = now_ns() + UINT64_C(30000000);

        do {
                for (int i = 0; i < 3; i++)
                        sb_work_all(&bus->handle, true);
                world_tick(world);
        } while (world->remote && now_ns() < end);
}

static bool report_sound(const struct sb_check_report *report)
{
        for (uint32_t i = 0; i < report->problem_count && i < 8; i++)
                printf("check: %s\n", report->problems[i]);
        return report->problem_count == 0;
}

bool world_sound(struct world *world, struct sb_bus *bus)
{
        struct sb_check_report report;

        (void)world;
        return sb_admin_check(bus, &report) == 0 && report_sound(&report);
}

/* Whether an engine or a log of it crashed: the line that says so is printed. */
static bool has_crashed(const struct world *world)
{
        char path[96], line[4096];
        bool any = false;
        FILE *file;

        snprintf(path, sizeof(path), "%s/agentd.log", world->directory);
        file = fopen(path, "re");
        if (!file)
                return true;
        while (!any && fgets(line, sizeof(line), file)) {
                any = agentd_crashed(line);
                if (any)
                        printf("# agentd said: %s", line);
        }
        fclose(file);
        return any;
}

/* End a process that is no child of this one. */
static void end(pid_t pid)
{
        struct pollfd ended = {.fd = pidfd_open(pid, 0), .events = POLLIN};

        if (ended.fd < 0)
                return; /* it has ended */
        kill(pid, SIGKILL);
        while (poll(&ended, 1, -1) < 0)
                ;
        close(ended.fd);
}

/* End what serves the bus. An engine that sees the supervisor end takes its place. */
static void end_remote(const struct world *world, struct sb_bus *bus)
{
        struct sb_admin_stat stat;
        pid_t supervisor;

        while (sb_admin_supervisor(world->directory, &supervisor) == 0) {
                kill(supervisor, SIGSTOP);
                if (sb_admin_stat(bus, &stat) == 0) {
                        end((pid_t)stat.engine_pid);
                        if (stat.log_pid != 0)
                                end((pid_t)stat.log_pid);
                }
                end(supervisor);
        }
}

bool world_restart(struct world *world, struct sb_bus *bus)
{
        pid_t supervisor;
        int r;

        do {
                end_remote(world, bus);
                r = start_remote(world);
                /* One that had no number in the segment yet may have come between. */
        } while (r != 0 && sb_admin_supervisor(world->directory, &supervisor) == 0);
        return r == 0;
}

static bool close_remote(struct world *world)
{
        struct sb_bus *bus = world_bus(world);
        struct pollfd ended = {.events = POLLIN};
        char command[160];
        bool sound;
        pid_t pid;

        sound = bus && world_sound(world, bus);
        sb_close(bus);
        if (sb_admin_supervisor(world->directory, &pid) != 0 ||
                (ended.fd = pidfd_open(pid, 0)) < 0 || kill(pid, SIGTERM) != 0)
                return false;
        while (poll(&ended, 1, -1) < 0)
                ;
        close(ended.fd);
        sound = !has_crashed(world) && sound;
        snprintf(command, sizeof(command), "rm -r '%s'", world->directory);
        return system(command) == 0 && sound;
}

void world_drop(struct world *world)
{
        free(world->engine);
        munmap(world->base, world->geometry.size);
}

bool world_close(struct world *world)
{
        struct sb_check_report report;
        bool sound;

        if (world->remote)
                return close_remote(world);
        world_tick(world);
        sound = sb_check(world->engine, false, &report) == 0 && report_sound(&report);
        sb_handle_fini(world->engine);
        world_drop(world);
        return sound;
}
