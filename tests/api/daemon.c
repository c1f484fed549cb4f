/* An agentd to test; see daemon.h. */
#define _GNU_SOURCE
#include "tests/api/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/attach/place.h"
#include "ring/op/get.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/memory/guard.h"
#include "shm/upkeep/handle.h"
#include "tests/api/crashed.h"
#include "tests/harness/space.h"

#define PATIENCE_NS UINT64_C(20000000000)

char daemon_home[64];
static unsigned bus_count;
struct sb_handle daemon_handle, daemon_other;
unsigned daemon_files;
const char *daemon_durability = "volatile";
int (*daemon_prepare)(void);

uint64_t daemon_now_ns(void)
{
        return sb_os_linux.now_ns(NULL);
}

uint64_t daemon_patience_ns(void)
{
        const char *text = getenv("SB_API_PATIENCE_MS");

        return text ? strtoull(text, NULL, 10) * 1000000 : UINT64_C(20000000000);
}

void daemon_rest(void)
{
        sb_os_linux.pause(NULL, 1000000);
}

void daemon_place(struct sb_place *ret)
{
        char name[96];

        snprintf(name, sizeof(name), "%s/bus%u", daemon_home, bus_count++);
        if (sb_place_resolve(name, ret))
                abort();
}

/* Run agentd with @arguments (NULL at the end) on daemon->place; its output comes through a
 * pipe. */
void daemon_spawn(struct daemon *daemon, const char *const *arguments)
{
        const char *argv[24] = {
                getenv("AGENTD"), "-b", daemon->place.directory, "--durability", daemon_durability};
        int pipe_fds[2], count = daemon_durability ? 5 : 3;

        for (; *arguments; arguments++)
                argv[count++] = *arguments;
        if (pipe2(pipe_fds, O_CLOEXEC))
                abort();
        daemon->pid = fork();
        if (daemon->pid == 0) {
                struct rlimit files = {daemon_files, daemon_files};

                if (daemon_files && setrlimit(RLIMIT_NOFILE, &files))
                        _exit(127);
                if (daemon_prepare && daemon_prepare())
                        _exit(127);
                dup2(pipe_fds[1], 1);
                dup2(pipe_fds[1], 2);
                execv(argv[0], (char *const *)argv);
                _exit(127);
        }
        close(pipe_fds[1]);
        daemon->out = pipe_fds[0];
        daemon->len = 0;
        daemon->said[0] = 0;
}

bool daemon_hear(struct daemon *daemon, const char *word)
{
        uint64_t end = daemon_now_ns() + PATIENCE_NS;

        while (!strstr(daemon->said, word)) {
                struct pollfd look = {.fd = daemon->out, .events = POLLIN};
                ssize_t len;

                if (daemon_now_ns() > end || daemon->len == sizeof(daemon->said) - 1)
                        return false;
                if (poll(&look, 1, 100) < 1)
                        continue;
                len = read(daemon->out, daemon->said + daemon->len,
                        sizeof(daemon->said) - 1 - daemon->len);
                if (len <= 0)
                        return strstr(daemon->said, word);
                daemon->len += (size_t)len;
                daemon->said[daemon->len] = 0;
        }
        return true;
}

void daemon_hear_more(struct daemon *daemon)
{
        struct pollfd look = {.fd = daemon->out, .events = POLLIN};
        size_t half = sizeof(daemon->said) / 2;
        ssize_t len;

        while (poll(&look, 1, 0) == 1) {
                if (daemon->len > half) {
                        memmove(daemon->said, daemon->said + half, daemon->len - half + 1);
                        daemon->len -= half;
                }
                len = read(daemon->out, daemon->said + daemon->len,
                        sizeof(daemon->said) - 1 - daemon->len);
                if (len <= 0)
                        return;
                daemon->len += (size_t)len;
                daemon->said[daemon->len] = 0;
        }
}

bool daemon_start(struct daemon *daemon)
{
        daemon_place(&daemon->place);
        SPAWN(daemon, "--size", "4M", "--clients", "16");
        return daemon_hear(daemon, "ready\n");
}

int daemon_ended(struct daemon *daemon)
{
        uint64_t end = daemon_now_ns() + PATIENCE_NS;
        int status = 0;

        while (daemon_now_ns() < end) {
                if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid) {
                        (void)daemon_hear(daemon, "\1"); /* the rest of its output */
                        close(daemon->out);
                        if (strstr(daemon->said, "runtime error") ||
                                strstr(daemon->said, "Sanitizer"))
                                return -2; /* a report of either process, in a build with sanitizers
                                            */
                        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                }
                daemon_rest();
        }
        return -1;
}

int daemon_stop(struct daemon *daemon)
{
        kill(daemon->pid, SIGTERM);
        return daemon_ended(daemon);
}

pid_t daemon_engine(const struct sb_attachment *attachment)
{
        return (pid_t)sb_load_relaxed(&attachment->segment.super->engine);
}

int daemon_set(struct sb_handle *writer, const char *key, const char *value)
{
        struct sb_op_write write = {.key = key,
                .key_len = (uint32_t)strlen(key),
                .value = value,
                .value_len = strlen(value),
                .kind = SB_VERSION_VALUE,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;

        return sb_op_write(writer, &write, &result);
}

bool daemon_has(struct sb_handle *reader, const char *key, const char *value)
{
        struct sb_version *version;
        uint64_t len = strlen(value);
        bool same;

        if (sb_op_get(reader, key, (uint32_t)strlen(key), 0, &version))
                return false;
        same = SB_SHAPE_VALUE_LEN(version->shape) == len &&
               !memcmp(version->bytes + strlen(key), value, len);
        sb_guard_set(reader, 0, 0);
        return same;
}

int daemon_attach(
        const struct daemon *daemon, struct sb_attachment *ret, struct sb_handle *ret_handle)
{
        int r = sb_attach(&daemon->place, SB_PEER, ret);

        if (!r && ret_handle)
                sb_handle_init(ret_handle, &ret->segment, ret->slot, ret->generation,
                        test_space(&ret->segment));
        /* For daemon_has(): reclaimers read the guards that a client has grown, and no others. */
        if (!r && ret_handle)
                r = sb_guard_grow(ret_handle, 0);
        return r;
}

void daemon_detach(struct sb_attachment *attachment, struct sb_handle *of)
{
        sb_handle_fini(of);
        sb_attach_unmap(attachment);
}

unsigned daemon_attached(const struct sb_attachment *attachment)
{
        unsigned count = 0;

        for (uint32_t slot = 1; slot < attachment->segment.geometry.record_count; slot++)
                count += sb_roster_state(&attachment->segment, slot, NULL) != SB_RECORD_FREE;
        return count;
}

/* Start a process that attaches @count times, then stays until it is killed. Return: its pid;
 * *ret_result is the result of attaching. */
pid_t daemon_child(const struct daemon *daemon, unsigned count, int *ret_result)
{
        int pipe_fds[2], r = 0;
        pid_t pid;

        if (pipe2(pipe_fds, O_CLOEXEC))
                abort();
        pid = fork();
        if (pid == 0) {
                struct sb_attachment attachment;

                for (unsigned i = 0; i < count && !r; i++)
                        r = sb_attach(&daemon->place, SB_PEER, &attachment);
                (void)!write(pipe_fds[1], &r, sizeof(r));
                for (;;)
                        pause();
        }
        close(pipe_fds[1]);
        if (read(pipe_fds[0], ret_result, sizeof(int)) != (ssize_t)sizeof(int))
                *ret_result = -EPIPE;
        close(pipe_fds[0]);
        return pid;
}

int daemon_end_child(pid_t pid)
{
        int status;

        if (pid <= 0 || kill(pid, SIGKILL) || waitpid(pid, &status, 0) != pid)
                return -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* End what a failed test left running, orphans included: this process is their reaper. */
static void end_leftovers(void)
{
        char path[64];
        bool any = true;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
        while (any) {
                FILE *file = fopen(path, "r");
                int child;

                any = file && fscanf(file, "%d", &child) == 1;
                if (file)
                        fclose(file);
                if (any)
                        (void)daemon_end_child(child);
        }
}

bool daemon_begin(void)
{
        if (!getenv("AGENTD")) {
                printf("FAIL main: $AGENTD names no program to test\n");
                return false;
        }
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        snprintf(daemon_home, sizeof(daemon_home), "/tmp/statebus-test-XXXXXX");
        return mkdtemp(daemon_home) && !chmod(daemon_home, 0711);
}

int daemon_end(int status)
{
        char clean[128];

        end_leftovers();
        snprintf(clean, sizeof(clean), "rm -rf '%s'", daemon_home);
        return system(clean) ? 1 : status;
}
