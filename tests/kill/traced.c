/*
 * An agentd that is traced: which process has which role, and what the kernel says of each.
 */
#define _GNU_SOURCE
#include "tests/kill/traced.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/base/os.h"

#define QUICK         6u /* points of a quick run */
#define COMPLAINT_MAX 400u

struct traced traced;
struct daemon traced_agentd;
bool traced_denied;
char *traced_complaint;
pid_t traced_clients[TRACED_CLIENTS];

void *traced_share(size_t size)
{
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        return memory == MAP_FAILED ? NULL : memory;
}

bool traced_begin(void)
{
        traced_complaint = traced_share(COMPLAINT_MAX);
        return traced_complaint;
}

void traced_begin_test(void)
{
        memset(traced_complaint, 0, COMPLAINT_MAX);
        daemon_place(&traced_agentd.place);
}

void traced_complain(const char *format, ...)
{
        va_list arguments;

        if (*traced_complaint)
                return;
        va_start(arguments, format);
        vsnprintf(traced_complaint, COMPLAINT_MAX, format, arguments);
        va_end(arguments);
}

void traced_must(int r, const char *what)
{
        if (!r)
                return;
        traced_complain("%s: %d (%s)", what, r, text_of(r));
        _exit(1);
}

int traced_open(struct sb_bus **ret)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = traced_agentd.place.directory, .access = SB_PEER};

        return sb_open(&options, ret);
}

static int ask_for_tracing(void)
{
        return ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 ? -1 : 0;
}

/* The same, with a stop at each call of all processes, but for reads of files: of these there are
 * thousands, and what others see is the same before them and behind them. */
static int ask_for_stops(void)
{
        struct sock_filter steps[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        };
        struct sock_fprog filter = {.len = 4, .filter = steps};

        /* From here on each call waits for the tracer, which sets its options at the stop. */
        return ask_for_tracing() || raise(SIGSTOP) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
                               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)
                       ? -1
                       : 0;
}

static pid_t parent_of(pid_t pid)
{
        char path[64], text[256] = "", *at;
        FILE *file;
        int parent = 0;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        file = fopen(path, "re");
        if (!file)
                return 0;
        at = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
        fclose(file);
        return at && sscanf(at + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static enum role role_of(pid_t pid)
{
        enum role role = SUPERVISOR;

        while (role < ROLES && traced.pid[role] != pid)
                role++;
        return role;
}

void traced_go_on(pid_t pid, int signal)
{
        enum role role = role_of(pid);

        (void)ptrace(role < ROLES && traced.steps[role] ? PTRACE_SYSCALL : PTRACE_CONT, pid, NULL,
                (void *)(long)signal);
}

/* The scribe is the supervisor's first child, the engine its next one, and the log the engine's. */
static void take_newcomer(pid_t pid)
{
        pid_t parent = parent_of(pid);
        enum role role = parent != traced.pid[SUPERVISOR] ? LOG
                         : traced.begun[SCRIBE]           ? ENGINE
                                                          : SCRIBE;

        if (parent == traced.pid[SUPERVISOR] || parent == traced.pid[ENGINE]) {
                traced.pid[role] = pid;
                traced.calls[role] = 0;
                traced.begun[role]++;
        }
}

/* A process has forked. Its first child may be heard of later than its second one, but not this. */
static void take_child(pid_t parent)
{
        unsigned long child = 0;

        if (parent == traced.pid[SUPERVISOR] && !traced.begun[SCRIBE] &&
                !ptrace(PTRACE_GETEVENTMSG, parent, NULL, &child)) {
                traced.pid[SCRIBE] = (pid_t)child;
                traced.begun[SCRIBE]++;
        }
}

/* The test kills; a process that ends otherwise has crashed, also where another one takes its
 * place. */
static void note_end(pid_t pid, int status)
{
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
                traced_complain("a process was ended by signal %d", WTERMSIG(status));
        for (unsigned i = 0; i < TRACED_CLIENTS; i++)
                if (pid == traced_clients[i] && WIFEXITED(status))
                        traced_complain("client %u ended by itself", i);
}

/* Handle what the kernel says of a process. Return: its role, where it is about to make a system
 * call, and stands; else ROLES, and it goes on. */
static enum role hear_of(pid_t pid, int status)
{
        enum role role = role_of(pid);

        if (WIFEXITED(status) || WIFSIGNALED(status)) {
                note_end(pid, status);
                if (role < ROLES)
                        traced.pid[role] = 0;
                if (pid == traced.client) {
                        traced.client = 0;
                        traced.client_status = status;
                }
                return ROLES;
        }
        if (role == ROLES) {
                take_newcomer(pid);
                traced_go_on(pid, 0);
        } else if (status >> 16 == PTRACE_EVENT_FORK) {
                take_child(pid);
                traced_go_on(pid, 0);
        } else if (role == SCRIBE && WSTOPSIG(status) == SIGSTOP) {
                traced_go_on(pid, 0); /* its beginning, if its parent's fork was heard of first */
        } else if (status >> 16 == PTRACE_EVENT_SECCOMP) {
                traced.calls[role]++;
                return role;
        } else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
                struct __ptrace_syscall_info info = {0};

                (void)ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info);
                if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                        traced.calls[role]++;
                        traced.call = info.entry.nr;
                        traced.argument = info.entry.args[0];
                        return role;
                }
                traced_go_on(pid, 0);
        } else {
                traced_go_on(pid, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
        }
        return ROLES;
}

enum role traced_hear(bool *ret_any)
{
        int status;
        pid_t pid = waitpid(-1, &status, __WALL | WNOHANG);

        *ret_any = pid > 0;
        if (pid > 0)
                return hear_of(pid, status);
        sb_os_linux.pause(NULL, 50000);
        return ROLES;
}

bool traced_spawn(const char *const *arguments, bool stops)
{
        int status;

        memset(&traced, 0, sizeof(traced));
        daemon_prepare = stops ? ask_for_stops : ask_for_tracing;
        daemon_durability = NULL;
        daemon_spawn(&traced_agentd, arguments);
        traced.pid[SUPERVISOR] = traced_agentd.pid;
        if (waitpid(traced_agentd.pid, &status, 0) != traced_agentd.pid || !WIFSTOPPED(status)) {
                traced_denied = true;
                return false;
        }
        (void)ptrace(PTRACE_SETOPTIONS, traced_agentd.pid, NULL,
                (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                         PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL));
        return true;
}

/* A process of agentd that has lost its parent, and is this one's child so. 0: there is none. */
static pid_t find_orphan(void)
{
        char path[64];
        int pid = 0;
        bool ours = true;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
        file = fopen(path, "re");
        while (file && ours && fscanf(file, "%d", &pid) == 1) {
                ours = false;
                for (unsigned i = 0; i < TRACED_CLIENTS; i++)
                        ours |= pid == traced_clients[i];
        }
        if (file)
                fclose(file);
        return ours ? 0 : pid;
}

void traced_kill_all(void)
{
        pid_t pid;

        for (enum role role = SUPERVISOR; role < ROLES; role++)
                if (traced.pid[role])
                        (void)kill(traced.pid[role], SIGKILL);
        while ((pid = find_orphan())) {
                int status = 0;

                (void)kill(pid, SIGKILL);
                while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
                        (void)kill(pid, SIGKILL);
        }
        memset(traced.pid, 0, sizeof(traced.pid));
        daemon_hear_more(&traced_agentd);
        close(traced_agentd.out);
}

bool traced_is_ready(void)
{
        daemon_hear_more(&traced_agentd);
        return strstr(traced_agentd.said, "ready\n");
}

bool traced_serve(const char *const *arguments)
{
        uint64_t end_ns = daemon_now_ns() + daemon_patience_ns();
        bool any;

        if (!traced_spawn(arguments, false))
                return false;
        traced_go_on(traced_agentd.pid, 0);
        while (!traced_is_ready() && traced.pid[SUPERVISOR] && daemon_now_ns() < end_ns)
                (void)traced_hear(&any);
        if (strstr(traced_agentd.said, "ready\n"))
                return true;
        traced_complain("agentd does not start: %.300s", traced_agentd.said);
        return false;
}

bool traced_have_client(void (*do_it)(void *context), void *context)
{
        uint64_t end_ns = daemon_now_ns() + daemon_patience_ns();
        bool any;

        traced.client = fork();
        if (traced.client == 0) {
                do_it(context);
                _exit(*traced_complaint != 0);
        }
        while (traced.client && daemon_now_ns() < end_ns)
                (void)traced_hear(&any);
        if (traced.client) {
                (void)kill(traced.client, SIGKILL);
                traced_complain("a client waits for ever");
        } else if (traced.client_status) {
                traced_complain("a client ended with %x", (unsigned)traced.client_status);
        }
        return !*traced_complaint;
}

void traced_start_client(unsigned number, void (*be)(unsigned number))
{
        traced_clients[number] = fork();
        if (traced_clients[number] == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                be(number);
        }
}

void traced_end_client(unsigned number)
{
        int status;

        (void)kill(traced_clients[number], SIGKILL);
        if (waitpid(traced_clients[number], &status, 0) == traced_clients[number])
                note_end(traced_clients[number], status);
        traced_clients[number] = 0;
}

uint64_t traced_first(uint64_t count, uint64_t *ret_every)
{
        const char *text = getenv("SB_FIRST");

        *ret_every = getenv("SB_TEST_LONG") || count < QUICK ? 1 : count / QUICK;
        return 1 + (text ? strtoull(text, NULL, 10) % *ret_every : 0);
}
