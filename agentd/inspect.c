/* The look at a whole segment by several processes; see inspect.h. */
#define _GNU_SOURCE
#include "agentd/inspect.h"

#include <errno.h>
#include <mimalloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agentd/engine.h"
#include "agentd/guard.h"
#include "agentd/memory.h"
#include "shm/base/fault.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/keys/reach.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"

/* Of one child; in memory that it shares with its parent. */
struct inspect_answer {
        bool done; /* the report is complete; read when the child has ended */
        struct sb_check_report report;
};

struct inspect {
        struct sb_handle *handle;
        uint32_t clients;
        struct inspect_answer *answers;   /* zeros at first */
        pid_t child[SB_MEMORY_PARTS_MAX]; /* -1: there is none */
};

/* Lend a handle room for notes of the whole segment: with the few that it has, looks at many long
 * chains take steps for each part of the segment. Without memory it goes on with those. Return: to
 * be freed. */
static void *inspect_lend_room(struct sb_handle *handle)
{
        uint64_t count = sb_reach_words(&handle->segment), *words = mi_malloc(8 * count);

        sb_reach_lend(handle, words, count);
        return words;
}

static void inspect_take_room(struct sb_handle *handle, void *room)
{
        sb_reach_lend(handle, NULL, 0);
        mi_free(room);
}

/* ---- a child ---- */

static void inspect_answer_part(const struct inspect *inspect, struct sb_check_part part,
        void *space, struct inspect_answer *answer)
{
        struct sb_segment segment = inspect->handle->segment;
        struct sb_roster_identity identity = {
                .pid = (uint32_t)getpid(),
                .uid = geteuid(),
                .access = SB_PEER,
                .attached_ns = sb_os_linux.now_ns(sb_os_linux.context),
        };
        struct sb_handle handle;
        uint32_t slot, generation;
        void *room;

        (void)sb_reaper_start_time(identity.pid, &identity.pid_start);
        if (sb_roster_claim_below(&segment, 1, inspect->clients + 1, &identity, &slot, &generation))
                return;
        sb_handle_init(&handle, &segment, slot, generation, space);
        room = inspect_lend_room(&handle);
        sb_check_part(&handle, part, &answer->report);
        inspect_take_room(&handle, room);
        sb_handle_fini(&handle);
        answer->done = true;
}

static void inspect_be_child(const struct inspect *inspect, struct sb_check_part part,
        struct inspect_answer *answer, pid_t parent)
{
        void *space;

        prctl(PR_SET_NAME, "agentd-look");
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || sb_os_register())
                return;
        sb_guard_disarm(); /* the jump leads into the parent's work */
        space = mi_malloc(sb_handle_space(&inspect->handle->segment.geometry));
        if (space)
                inspect_answer_part(inspect, part, space, answer);
}

/* ---- their parent ---- */

static void inspect_begin(struct inspect *inspect, struct sb_check_part part, uint32_t child)
{
        struct inspect_answer *answer = &inspect->answers[child];
        pid_t parent = getpid();

        memset(answer, 0, sizeof(*answer));
        inspect->child[child] = fork();
        if (inspect->child[child])
                return;
        inspect_be_child(inspect, part, answer, parent);
        _exit(EXIT_SUCCESS);
}

/* One that is stopped is ended: it need not be woken. */
static void inspect_await(pid_t child)
{
        int status;
        pid_t r;

        while (child > 0) {
                r = waitpid(child, &status, WUNTRACED);
                if (r < 0 ? errno != EINTR : !WIFSTOPPED(status))
                        return;
                if (r > 0)
                        (void)kill(child, SIGKILL);
        }
}

/* Wait for a child, and add what it found; or look at its part. Fault INSPECT_UNANSWERED: it is not
 * looked at. */
static void inspect_end(struct inspect *inspect, struct sb_check_part part, uint32_t child,
        struct sb_check_report *report)
{
        const struct inspect_answer *answer = &inspect->answers[child];

        inspect_await(inspect->child[child]);
        if (answer->done)
                sb_report_add(report, &answer->report);
        else if (!SB_FAULT(INSPECT_UNANSWERED))
                sb_check_part(inspect->handle, part, report);
}

/* A pass by children, the first of which has part @first; this process does @own meanwhile. */
static void inspect_pass(struct inspect *inspect, struct sb_check_part own, enum sb_check_pass pass,
        uint32_t first, uint32_t parts, struct sb_check_report *report)
{
        uint32_t i;

        for (i = first; i < parts; i++)
                inspect_begin(inspect, (struct sb_check_part){pass, i, parts}, i);
        sb_check_part(inspect->handle, own, report);
        for (i = first; i < parts; i++)
                inspect_end(inspect, (struct sb_check_part){pass, i, parts}, i, report);
}

static int inspect_all(
        struct sb_handle *handle, uint32_t clients, uint32_t parts, struct sb_check_report *ret)
{
        struct inspect inspect = {.handle = handle, .clients = clients};
        uint64_t size = sizeof(*inspect.answers) * parts;
        void *answers = MAP_FAILED;
        int r;

        if (parts > 1)
                answers =
                        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (answers == MAP_FAILED)
                return sb_check(handle, false, ret);
        inspect.answers = answers;
        r = sb_check_begin(handle, ret);
        if (!r && !ret->problem_count)
                inspect_pass(&inspect, (struct sb_check_part){SB_CHECK_ORDER, 0, 1},
                        SB_CHECK_BUCKETS, 0, parts - 1, ret);
        if (!r && !ret->problem_count)
                inspect_pass(&inspect, (struct sb_check_part){SB_CHECK_UNITS, 0, parts},
                        SB_CHECK_UNITS, 1, parts, ret);
        if (!r)
                sb_check_part(handle, (struct sb_check_part){SB_CHECK_RECORDS, 0, 1}, ret);
        munmap(inspect.answers, size);
        return r;
}

int sb_inspect(
        struct sb_handle *handle, uint32_t clients, uint32_t parts, struct sb_check_report *ret)
{
        void *room = inspect_lend_room(handle);
        int r = inspect_all(handle, clients, parts, ret);

        inspect_take_room(handle, room);
        return r;
}
