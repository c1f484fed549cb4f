/*
 * agentd under SIGKILL at its system calls: all of it while it starts and brings a bus back from
 * its log; its engine while it takes a killed one's place; its log while it does.
 *
 * A process shares files with others by system calls alone, and a segment with them from the moment
 * that it answers one. So a start that is killed at each call leaves all that a start can leave.
 * Engines and logs work in a segment that others use: every other one is killed some instructions
 * behind a call.
 *
 * Always true: behind each killed start the next one, by the same command, gives the same bus, and
 * takes a write that outlives another kill; a client that tried to attach all the while saw that
 * bus or none; of the log's files none was changed. Behind each killed engine or log the clients'
 * writes have gone on meanwhile, none has failed for good, strict ones are answered, and the bus is
 * sound.
 *
 * A quick run tries a part of the calls; SB_FIRST takes others. SB_TEST_LONG: all of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/core/admin.h"
#include "libclient/core/bus.h"
#include "libclient/statebus.h"
#include "shm/base/os.h"
#include "shm/layout/record.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "tests/api/daemon.h"
#include "tests/harness/test.h"

#define DUMP_MAX      (1u << 20)
#define POINTS_MAX    3000u /* no start has so many calls */
#define QUICK         6u    /* points of a quick run */
#define REST          40u   /* calls behind "ready" that belong to the start, too */
#define PARTS         8u    /* of a bus's life before the starts */
#define PARTS_A_START 2u
#define KEYS          1500u  /* of each writer */
#define REAPING       30000u /* instructions: in some of them an engine reaps a client */
#define ENOUGH        20u    /* strict writes that show that all is at work again */
#define STRICT        2u
#define WRITERS       (STRICT + 2)
#define WALKER        STRICT       /* it does not wait for the log */
#define VICTIM        (STRICT + 1) /* it is killed each time */

static struct table {
        char reference[DUMP_MAX]; /* the bus as it has to come back */
        char complaint[400];
        unsigned last_part; /* up to which the reference goes; its cut */
        uint64_t cut;
        uint64_t attached, turned_away;
        uint64_t tried[WRITERS], done[WRITERS];
        uint64_t full; /* writes that found no memory, and were made again */
        bool steps;    /* engines go on by single instructions for a while */
} * table;

static struct daemon daemon_;
static bool untraced; /* tracing is not permitted here */

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
        va_list arguments;

        if (*table->complaint)
                return;
        va_start(arguments, format);
        vsnprintf(table->complaint, sizeof(table->complaint), format, arguments);
        va_end(arguments);
}

static const char *text_of(int r)
{
        return r > 0 ? sb_strerror(r) : strerror(-r);
}

static struct sb_bytes bytes_of(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

/* ---- what a bus has ---- */

static int try_open(struct sb_bus **ret)
{
        struct sb_options options = {
                .size = sizeof(options), .bus = daemon_.place.directory, .access = SB_PEER};

        return sb_open(&options, ret);
}

struct dump {
        char text[DUMP_MAX];
        size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct dump *dump, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        dump->len += (size_t)vsnprintf(
                dump->text + dump->len, sizeof(dump->text) - dump->len, format, arguments);
        va_end(arguments);
        if (dump->len >= sizeof(dump->text))
                abort();
}

static void add_version(struct dump *dump, const struct sb_guard *guard)
{
        add(dump, " %ju@%ju#%u:%u:%.*s", (uintmax_t)guard->rev, (uintmax_t)guard->cut,
                (unsigned)guard->kind, guard->writer, (int)guard->value.len,
                guard->value.len ? (const char *)guard->value.data : "");
}

/* All versions of a key that a rule keeps. */
static int dump_history(struct sb_bus *bus, struct dump *dump, const char *key)
{
        struct sb_history *history = NULL;
        struct sb_guard guard = {0};
        int r = sb_history_open(bus, bytes_of(key), 0, &history);

        add(dump, "%s:", key);
        while (!r) {
                r = sb_history_next(history, &guard, NULL);
                if (r)
                        break;
                add_version(dump, &guard);
                sb_guard_release(&guard);
        }
        sb_history_close(history);
        add(dump, " %s\n", r == SB_E_NOT_FOUND ? "all" : "some");
        return r == SB_E_NOT_FOUND || r == SB_E_LAPPED ? 0 : r;
}

/* Keys that begin with "z" come later. Return: 0; why there is no such bus any more. */
static int dump_bus(struct sb_bus *bus, struct dump *dump)
{
        static const char *const kept[] = {"kept/0", "kept/1", "kept/2"};
        struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        uint64_t cut = 0;
        int r;

        dump->len = 0;
        r = sb_scan_open(bus, NULL, bytes_of(""), &scan);
        while (!r) {
                r = sb_scan_next(scan, &guard);
                if (r)
                        break;
                if (*(const char *)guard.key.data != 'z') {
                        add(dump, "%.*s", (int)guard.key.len, (const char *)guard.key.data);
                        add_version(dump, &guard);
                        add(dump, "\n");
                }
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        r = r == SB_E_NOT_FOUND ? 0 : r;
        for (unsigned i = 0; i < 3 && !r; i++)
                r = dump_history(bus, dump, kept[i]);
        if (!r) {
                r = sb_mark_find(bus, bytes_of("mark"), &cut);
                add(dump, "mark %ju %d\n", (uintmax_t)cut, r);
                r = r == SB_E_NOT_FOUND ? 0 : r;
        }
        if (!r && cut) {
                r = sb_get_at(bus, bytes_of("key/3"), cut, &guard);
                add(dump, "at the mark %d", r);
                if (!r)
                        add_version(dump, &guard);
                sb_guard_release(&guard);
                r = r > 0 && r != SB_E_DETACHED ? 0 : r;
        }
        return r;
}

static void compare(const struct dump *dump)
{
        size_t at = 0;

        if (!strcmp(dump->text, table->reference))
                return;
        while (dump->text[at] && dump->text[at] == table->reference[at])
                at++;
        while (at && dump->text[at - 1] != '\n')
                at--;
        complain("another bus came back: \"%.100s\" instead of \"%.100s\"", dump->text + at,
                table->reference + at);
}

/* ---- the log that a start finds ---- */

static void must(int r, const char *what)
{
        if (!r)
                return;
        complain("%s: %d (%s)", what, r, text_of(r));
        _exit(1);
}

static void set(struct sb_bus *bus, const char *key, const char *value)
{
        must(sb_set(bus, bytes_of(key), bytes_of(value), NULL, NULL), key);
}

/* A part of the bus's life, which is a batch of its own. */
static void live(struct sb_bus *bus, unsigned part)
{
        char key[32], value[64];

        for (unsigned i = 0; i < 12; i++) {
                snprintf(key, sizeof(key), "%s/%u", i < 4 ? "kept" : "key", i % 4 + i / 8);
                snprintf(value, sizeof(value), "%u of part %u", i, part);
                set(bus, key, value);
                if (part % 2 && i % 3 == 1)
                        must(sb_delete(bus, bytes_of(key), SB_ANY_REV, NULL, NULL), "delete");
        }
        must(sb_flush(bus, UINT64_MAX), "flush");
}

static void keep_reference(struct sb_bus *bus)
{
        static struct dump dump;

        must(dump_bus(bus, &dump), "dump");
        memcpy(table->reference, dump.text, sizeof(dump.text));
}

/* In a client: writes the parts of a bus from one on, as far as a start goes. *context: the first
 * of them. */
static void write_some(void *context)
{
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_ALL};
        unsigned part = *(unsigned *)context, end = part + PARTS_A_START;
        struct sb_bus *bus = NULL;
        uint64_t cut;

        must(try_open(&bus), "open");
        if (!part)
                must(sb_keep(bus, bytes_of("kept/"), SB_PREFIX, &rule), "keep");
        for (; part < end; part++) {
                live(bus, part);
                if (!part)
                        must(sb_mark(bus, bytes_of("mark"), &cut), "mark");
                if (part == table->last_part) {
                        must(sb_flush(bus, UINT64_MAX), "flush");
                        keep_reference(bus);
                        table->cut = sb_durable(bus);
                }
        }
        must(sb_flush(bus, UINT64_MAX), "flush");
        sb_close(bus);
}

/* ---- processes that are traced ---- */

enum role { SUPERVISOR, SCRIBE, ENGINE, LOG, ROLES };

static struct {
        pid_t pid[ROLES];
        uint64_t calls[ROLES];   /* of the processes that have the roles now */
        uint64_t begun[ROLES];   /* how many had them */
        bool steps[ROLES];       /* a process of this role stops at its calls */
        uint64_t call, argument; /* that one is about to make */
        pid_t client;            /* a process that is none of these; 0: none, or it has ended */
        int client_status;
} trace;

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

        while (role < ROLES && trace.pid[role] != pid)
                role++;
        return role;
}

static void go_on(pid_t pid, int signal)
{
        enum role role = role_of(pid);

        (void)ptrace(role < ROLES && trace.steps[role] ? PTRACE_SYSCALL : PTRACE_CONT, pid, NULL,
                (void *)(long)signal);
}

/* The scribe is the supervisor's first child, the engine its next one, and the log the engine's. */
static void take_newcomer(pid_t pid)
{
        pid_t parent = parent_of(pid);
        enum role role = parent != trace.pid[SUPERVISOR] ? LOG
                         : trace.begun[SCRIBE]           ? ENGINE
                                                         : SCRIBE;

        if (parent == trace.pid[SUPERVISOR] || parent == trace.pid[ENGINE]) {
                trace.pid[role] = pid;
                trace.calls[role] = 0;
                trace.begun[role]++;
        }
}

/* A process has forked. Its first child may be heard of later than its second one, but not this. */
static void take_child(pid_t parent)
{
        unsigned long child = 0;

        if (parent == trace.pid[SUPERVISOR] && !trace.begun[SCRIBE] &&
                !ptrace(PTRACE_GETEVENTMSG, parent, NULL, &child)) {
                trace.pid[SCRIBE] = (pid_t)child;
                trace.begun[SCRIBE]++;
        }
}

/* Handle what the kernel says of a process. Return: its role, where it is about to make a system
 * call, and stands; else ROLES, and it goes on. */
static enum role hear_of(pid_t pid, int status)
{
        enum role role = role_of(pid);

        if (WIFEXITED(status) || WIFSIGNALED(status)) {
                if (role < ROLES)
                        trace.pid[role] = 0;
                if (pid == trace.client) {
                        trace.client = 0;
                        trace.client_status = status;
                }
                return ROLES;
        }
        if (role == ROLES) {
                take_newcomer(pid);
                go_on(pid, 0);
        } else if (status >> 16 == PTRACE_EVENT_FORK) {
                take_child(pid);
                go_on(pid, 0);
        } else if (role == SCRIBE && WSTOPSIG(status) == SIGSTOP) {
                go_on(pid, 0); /* its beginning, if its parent's fork was heard of first */
        } else if (status >> 16 == PTRACE_EVENT_SECCOMP) {
                trace.calls[role]++;
                return role;
        } else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
                struct __ptrace_syscall_info info = {0};

                (void)ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info);
                if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                        trace.calls[role]++;
                        trace.call = info.entry.nr;
                        trace.argument = info.entry.args[0];
                        return role;
                }
                go_on(pid, 0);
        } else {
                go_on(pid, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
        }
        return ROLES;
}

/* Wait for what comes next, no longer than a moment. Return: as hear_of(). *ret_any: it came. */
static enum role hear(bool *ret_any)
{
        int status;
        pid_t pid = waitpid(-1, &status, __WALL | WNOHANG);

        *ret_any = pid > 0;
        if (pid > 0)
                return hear_of(pid, status);
        sb_os_linux.pause(NULL, 50000);
        return ROLES;
}

static bool spawn_traced(const char *const *arguments, bool stops)
{
        int status;

        memset(&trace, 0, sizeof(trace));
        daemon_prepare = stops ? ask_for_stops : ask_for_tracing;
        daemon_durability = NULL;
        daemon_spawn(&daemon_, arguments);
        trace.pid[SUPERVISOR] = daemon_.pid;
        if (waitpid(daemon_.pid, &status, 0) != daemon_.pid || !WIFSTOPPED(status)) {
                untraced = true;
                return false;
        }
        (void)ptrace(PTRACE_SETOPTIONS, daemon_.pid, NULL,
                (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                         PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL));
        return true;
}

static pid_t spared[WRITERS]; /* children that are none of agentd's processes */

/* A process of agentd that has lost its parent, and is this one's child so. 0: there is none.
 */
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
                for (unsigned i = 0; i < WRITERS; i++)
                        ours |= pid == spared[i];
        }
        if (file)
                fclose(file);
        return ours ? 0 : pid;
}

/* No process of agentd goes on: what one begins on the way stands until it is killed. */
static void kill_all(void)
{
        pid_t pid;

        for (enum role role = SUPERVISOR; role < ROLES; role++)
                if (trace.pid[role])
                        (void)kill(trace.pid[role], SIGKILL);
        while ((pid = find_orphan())) {
                int status = 0;

                (void)kill(pid, SIGKILL);
                while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
                        (void)kill(pid, SIGKILL);
        }
        memset(trace.pid, 0, sizeof(trace.pid));
        daemon_hear_more(&daemon_);
        close(daemon_.out);
}

static bool is_ready(void)
{
        daemon_hear_more(&daemon_);
        return strstr(daemon_.said, "ready\n");
}

/* Until agentd has started. Return: whether it did. */
static bool serve(const char *const *arguments)
{
        uint64_t end_ns = daemon_now_ns() + daemon_patience_ns();
        bool any;

        if (!spawn_traced(arguments, false))
                return false;
        go_on(daemon_.pid, 0);
        while (!is_ready() && trace.pid[SUPERVISOR] && daemon_now_ns() < end_ns)
                (void)hear(&any);
        if (strstr(daemon_.said, "ready\n"))
                return true;
        complain("agentd does not start: %.300s", daemon_.said);
        return false;
}

/* A client does something, and ends, while agentd is traced. Return: whether it did. */
static bool have_client(void (*do_it)(void *context), void *context)
{
        uint64_t end_ns = daemon_now_ns() + daemon_patience_ns();
        bool any;

        trace.client = fork();
        if (trace.client == 0) {
                do_it(context);
                _exit(*table->complaint != 0);
        }
        while (trace.client && daemon_now_ns() < end_ns)
                (void)hear(&any);
        if (trace.client) {
                (void)kill(trace.client, SIGKILL);
                complain("a client waits for ever");
        } else if (trace.client_status) {
                complain("a client ended with %x", (unsigned)trace.client_status);
        }
        return !*table->complaint;
}

static pid_t start_child(void (*be)(unsigned number), unsigned number)
{
        pid_t pid = fork();

        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                be(number);
        }
        return pid;
}

/* ---- starts ---- */

#define FORTH                                                                                      \
        "--size", "4M", "--hugepages", "off", "--clients", "8", "--durability", "batched",         \
                "--checkpoint-bytes", "1M"
static const char *const forth[] = {FORTH, NULL};

/* A client that tries to attach all the while. */
static void be_attacher(unsigned number)
{
        static struct dump dump;

        (void)number;
        for (;;) {
                struct sb_bus *bus = NULL;
                int r = try_open(&bus);

                if (!r) {
                        r = dump_bus(bus, &dump);
                        if (!r)
                                compare(&dump);
                        else if (r != SB_E_DETACHED)
                                complain("a client that attached got %d (%s)", r, text_of(r));
                        table->attached += r == 0;
                } else {
                        table->turned_away++;
                        sb_os_linux.pause(NULL, 300000);
                }
                sb_close(bus);
        }
}

/* What a client finds behind a start. *context: whether it writes a key, or looks for it. */
static void judge(void *context)
{
        struct sb_write how = {.size = sizeof(how), .durability = SB_STRICT};
        static struct sb_check_report report;
        static struct dump dump;
        struct sb_guard guard = {0};
        struct sb_bus *bus = NULL;

        must(sb_admin_open(daemon_.place.directory, &bus), "open");
        must(dump_bus(bus, &dump), "dump");
        compare(&dump);
        must(sb_admin_check(bus, &report), "check");
        if (report.problem_count)
                complain("not sound: %.120s", report.problems[0]);
        if (*(bool *)context) {
                must(sb_set(bus, bytes_of("z"), bytes_of("later"), &how, NULL), "a strict write");
        } else {
                must(sb_get(bus, bytes_of("z"), &guard), "what was acknowledged");
                sb_guard_release(&guard);
        }
        sb_close(bus);
}

static char template[128], back_to[32];

/* A shell's command: $bus is the bus's directory, $log that of the log as it was. */
static bool run(const char *command)
{
        char text[8192];

        snprintf(text, sizeof(text), "bus='%s' log='%s'; %s", daemon_.place.directory, template,
                command);
        return system(text) == 0;
}

/* The log as it was left, where agentd looks. */
static bool restore(void)
{
        return run("rm -rf \"$bus\"/* && cp -a \"$log\"/wal-* \"$bus\"/");
}

static bool files_are_as_before(void)
{
        return run("for f in \"$log\"/wal-0*; do cmp -s \"$f\" \"$bus/${f##*/}\" || exit 1; done");
}

/* All of the log is in one of the directories that lie aside. */
static bool is_kept_aside(void)
{
        return run("for d in \"$bus\"/aside-*; do ok=1; for f in \"$log\"/wal-0*; do cmp -s \"$f\" "
                   "\"$d/${f##*/}\" || ok=; done; [ -z \"$ok\" ] || exit 0; done; exit 1");
}

/* Agentd starts, and is killed at call @at of all of its processes. Return: whether it was not at
 * rest before that. */
static bool start_and_kill(const char *const *arguments, uint64_t at, uint64_t *ret_calls)
{
        uint64_t calls = 0, rest = 0;
        bool any, ready = false;

        if (!spawn_traced(arguments, true))
                return false;
        go_on(daemon_.pid, 0);
        while (calls < at && rest < REST && trace.pid[SUPERVISOR]) {
                enum role role = hear(&any);

                if (role == ROLES)
                        continue;
                ready = ready || is_ready();
                rest += ready;
                if (++calls < at)
                        go_on(trace.pid[role], 0);
        }
        *ret_calls = calls;
        return calls == at;
}

/* What a start has brought back when it says that it is ready stays so: from there on each start
 * goes on, without saying what to go back to. */
static bool try_start(const char *const *arguments, uint64_t at, bool back)
{
        const char *const *again;
        uint64_t calls;
        bool writes = true;

        /* A start may have some calls fewer than the one that was counted: then it is at rest. */
        if (!restore() || (!start_and_kill(arguments, at, &calls) && !is_ready()))
                complain("the start is over before");
        kill_all();
        if (!back && !trace.begun[LOG] && !files_are_as_before())
                complain("a file of the log was changed");
        again = strstr(daemon_.said, "ready\n") ? forth : arguments;
        for (int i = 0; i < 2 && !*table->complaint; i++) {
                if (serve(i ? forth : again))
                        (void)have_client(judge, &writes);
                kill_all();
                writes = false;
        }
        if (back && !is_kept_aside())
                complain("what comes behind the cut is not kept aside");
        return !*table->complaint;
}

/* Each start begins a file. */
static bool make_log(void)
{
        for (unsigned part = 0; part < PARTS; part += PARTS_A_START) {
                bool done = serve(forth) && have_client(write_some, &part);

                kill_all();
                if (!done)
                        return false;
        }
        snprintf(back_to, sizeof(back_to), "%ju", (uintmax_t)table->cut);
        snprintf(template, sizeof(template), "%s/template", daemon_home);
        return run("rm -rf \"$log\" && mkdir \"$log\" && cp -a --sparse=always \"$bus\"/wal-* "
                   "\"$log\"/");
}

/* Where a quick run begins, and how far its points lie apart. */
static uint64_t first_of(uint64_t count, uint64_t *ret_every)
{
        const char *text = getenv("SB_FIRST");

        *ret_every = getenv("SB_TEST_LONG") || count < QUICK ? 1 : count / QUICK;
        return 1 + (text ? strtoull(text, NULL, 10) % *ret_every : 0);
}

/* Smaller steps about the time at which agentd says that it is ready. */
static uint64_t step_of(uint64_t at, uint64_t count, uint64_t every)
{
        return at + every > count - REST && every > REST / 5 ? REST / 5 : every;
}

static void kill_starts(bool back)
{
        const char *arguments[] = {FORTH, back ? "--recover-to" : NULL, back_to, NULL};
        uint64_t count, every, points = 0;
        pid_t attacher;

        memset(table, 0, sizeof(*table));
        daemon_place(&daemon_.place);
        table->last_part = back ? PARTS / 2 : PARTS - 1;
        if (!make_log() || untraced) {
                if (untraced)
                        TEST_SKIP("tracing is not permitted here");
                TEST_FAIL("%s", table->complaint);
        }
        CHECK(restore());
        (void)start_and_kill(arguments, POINTS_MAX, &count);
        kill_all();
        if (count == POINTS_MAX || !trace.begun[LOG] || count < 2 * REST)
                TEST_FAIL("a start of %ju calls, with %ju logs: %s", (uintmax_t)count,
                        (uintmax_t)trace.begun[LOG], daemon_.said);
        attacher = spared[0] = start_child(be_attacher, 0);
        for (uint64_t at = first_of(count, &every); at < count;
                at += step_of(at, count, every), points++)
                if (!try_start(arguments, at, back)) {
                        daemon_end_child(attacher);
                        TEST_FAIL("killed at call %ju of %ju: %s", (uintmax_t)at, (uintmax_t)count,
                                table->complaint);
                }
        daemon_end_child(attacher);
        TEST_NOTE("%ju of %ju calls; a client attached %ju times, and was turned away %ju times",
                (uintmax_t)points, (uintmax_t)count, (uintmax_t)table->attached,
                (uintmax_t)table->turned_away);
        CHECK(table->attached && table->turned_away);
}

static void test_behind_a_start_that_was_killed_the_next_one_gives_the_same_bus(void)
{
        kill_starts(false);
}

static void test_the_same_where_the_bus_goes_back_to_a_cut(void)
{
        kill_starts(true);
}

/* ---- one that takes a killed one's place ---- */

/* What happens to an engine, or a log, that takes a place. */
struct fate {
        enum role role;
        bool stops; /* it is stopped for a while first */
        bool reaps; /* it looks whether the client lives that was killed: behind that it reaps */
};

/* A set, which may find no memory where an engine is stepped: it takes some thousand times as long
 * for its work, and with each load its pin reaches up to the era of now. So what all others replace
 * meanwhile waits; behind its death, until the next engine adopts. One that is stopped, or killed
 * at full speed, holds a version of each key at most, and no write fails. Return: as sb_set(). */
static int set_in_the_end(
        struct sb_bus *bus, const char *key, const char *value, const struct sb_write *how)
{
        uint64_t end_ns = daemon_now_ns() + daemon_patience_ns();
        int r;

        while ((r = sb_set(bus, bytes_of(key), bytes_of(value), how, NULL)) == SB_E_FULL &&
                table->steps && daemon_now_ns() < end_ns) {
                table->full++;
                sb_os_linux.pause(NULL, 1000000);
        }
        return r;
}

/* A client that counts, in many keys: what a log left out stays old. */
static void be_writer(unsigned number)
{
        struct sb_write how = {
                .size = sizeof(how), .durability = number < STRICT ? SB_STRICT : SB_BATCHED};
        struct sb_bus *bus = NULL;
        char key[32], value[32];
        int r;

        do
                r = try_open(&bus);
        while (r == -ECONNREFUSED);
        if (r)
                complain("writer %u: open: %s", number, text_of(r));
        for (uint64_t count = table->tried[number] + 1; !*table->complaint; count++) {
                snprintf(key, sizeof(key), "%u/%ju", number, (uintmax_t)(count % KEYS));
                snprintf(value, sizeof(value), "%ju", (uintmax_t)count);
                table->tried[number] = count;
                r = set_in_the_end(bus, key, value, &how);
                if (r)
                        complain("writer %u: %s", number, text_of(r));
                table->done[number] = count;
        }
        _exit(1);
}

static void start_writer(unsigned number)
{
        spared[number] = start_child(be_writer, number);
}

static void end_writer(unsigned number)
{
        int status;

        (void)kill(spared[number], SIGKILL);
        (void)waitpid(spared[number], &status, 0);
        spared[number] = 0;
}

/* Whether writers have gone on by so many writes behind what they had tried then. */
static bool went_on(const uint64_t *tried, unsigned first, unsigned end, uint64_t writes)
{
        for (unsigned number = first; number < end; number++)
                if (table->done[number] < tried[number] + writes)
                        return false;
        return true;
}

/* Let all go on until these writers did. */
static bool await_writers(unsigned first, unsigned end, uint64_t writes)
{
        uint64_t end_ns = daemon_now_ns() + daemon_patience_ns(), tried[WRITERS];
        bool any;

        memcpy(tried, table->tried, sizeof(tried));
        while (!went_on(tried, first, end, writes) && !*table->complaint) {
                enum role role = hear(&any);

                if (role < ROLES)
                        go_on(trace.pid[role], 0);
                if (daemon_now_ns() < end_ns)
                        continue;
                for (unsigned number = first; number < end; number++)
                        if (table->done[number] < tried[number] + writes)
                                complain("writer %u waits for ever", number);
        }
        return !*table->complaint;
}

/* So many instructions, as long as none of them waits. */
static void step_some(pid_t pid, uint64_t steps)
{
        int status = 0;

        while (steps-- > 0) {
                unsigned looks = 0;

                if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
                        return;
                while (waitpid(pid, &status, __WALL | WNOHANG) == 0)
                        if (++looks > 20000)
                                return;
                if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP || status >> 16)
                        return;
        }
}

static uint64_t draw_below(uint64_t below)
{
        static uint64_t seed = 1;

        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (seed >> 33) % below;
}

/* The engine is killed, and a client with it. What then takes the place is killed, too, at its call
 * @at or behind it. Return: whether it came so far. */
static bool kill_successor(const struct fate *fate, uint64_t at)
{
        uint64_t engines = trace.begun[ENGINE], logs = trace.begun[LOG], tried[WRITERS];
        bool any, came = false, rests = false;
        pid_t pid, victim = spared[VICTIM];

        trace.steps[ENGINE] = trace.steps[LOG] = false;
        (void)kill(trace.pid[ENGINE], SIGKILL);
        end_writer(VICTIM);
        trace.steps[fate->role] = true;
        /* Those of the killed ones that are left stop no more. */
        while (!came && !*table->complaint && !rests) {
                enum role role = hear(&any);

                if (trace.begun[LOG] == logs)
                        memcpy(tried, table->tried, sizeof(tried));
                rests = trace.begun[LOG] > logs && went_on(tried, 0, STRICT, ENOUGH);
                if (role == ROLES)
                        continue;
                came = role == fate->role && trace.begun[ENGINE] > engines &&
                       (role == ENGINE || trace.begun[LOG] > logs) &&
                       (fate->reaps ? trace.call == SYS_pidfd_open &&
                                               trace.argument == (uint64_t)victim
                                    : trace.calls[role] >= at);
                if (!came)
                        go_on(trace.pid[role], 0);
        }
        pid = trace.pid[fate->role];
        if (came) {
                if (fate->reaps)
                        step_some(pid, draw_below(REAPING));
                else if (draw_below(2))
                        step_some(pid, draw_below(UINT64_C(2) << draw_below(12)));
                /* A stopped one holds up none but those that wait for it. */
                if (fate->stops)
                        (void)await_writers(WALKER, WALKER + 1, 50);
                (void)kill(pid, SIGKILL);
                /* Mostly: another log alone comes a second later. */
                if (fate->role == LOG && trace.pid[ENGINE] && draw_below(8))
                        (void)kill(trace.pid[ENGINE], SIGKILL);
        }
        trace.steps[fate->role] = false;
        start_writer(VICTIM);
        (void)await_writers(0, WRITERS, 1);
        return came;
}

/* How many records are neither free nor a client's. */
static uint32_t count_half(const struct sb_segment *segment)
{
        uint32_t count = 0;

        for (uint32_t slot = 0; slot < segment->geometry.record_count; slot++) {
                enum sb_record_state state = sb_roster_state(segment, slot, NULL);

                count += state == SB_RECORD_DEAD || state == SB_RECORD_CLAIMED;
        }
        return count;
}

/* What a client finds when all have gone on. */
static void judge_bus(void *context)
{
        uint64_t end_ns = daemon_now_ns() + daemon_patience_ns();
        static struct sb_check_report report;
        struct sb_admin_stat stat;
        struct sb_bus *bus = NULL;

        (void)context;
        must(sb_admin_open(daemon_.place.directory, &bus), "open");
        must(sb_admin_check(bus, &report), "check");
        if (report.problem_count)
                complain("not sound: %.120s", report.problems[0]);
        do
                must(sb_admin_stat(bus, &stat), "stat");
        while ((stat.clients != WRITERS || count_half(&bus->handle.segment)) &&
                daemon_now_ns() < end_ns);
        if (stat.clients != WRITERS || count_half(&bus->handle.segment))
                complain("of %u clients %u are listed, and %u records are in between", WRITERS,
                        stat.clients, count_half(&bus->handle.segment));
        sb_close(bus);
}

/* The writers have ended: all that they wrote is made durable. */
static void take_reference(void *context)
{
        struct sb_bus *bus = NULL;

        (void)context;
        must(sb_admin_open(daemon_.place.directory, &bus), "open");
        must(sb_flush(bus, UINT64_MAX), "flush");
        keep_reference(bus);
        sb_close(bus);
}

static void judge_reference(void *context)
{
        static struct dump dump;
        struct sb_bus *bus = NULL;

        (void)context;
        must(sb_admin_open(daemon_.place.directory, &bus), "open");
        must(dump_bus(bus, &dump), "dump");
        compare(&dump);
        sb_close(bus);
}

static void end_writers(void)
{
        for (unsigned number = 0; number < WRITERS; number++)
                if (spared[number])
                        end_writer(number);
}

/* Return: how many points there were; 0: the complaint says why. */
static uint64_t kill_successors(const struct fate *fate, uint64_t most)
{
        /* A copy of the bus makes good what a log has left out. In a long run files are many. */
        const char *arguments[] = {
                FORTH, "--checkpoint-bytes", getenv("SB_TEST_LONG") ? "64M" : "2G", NULL};
        /* An engine makes some 105 calls, a log up to 160: so each has five points and more. */
        uint64_t every, points = 0, at = first_of(most * 3 / 4, &every);
        bool came = true;

        memset(table, 0, sizeof(*table));
        table->steps = fate->reaps;
        daemon_place(&daemon_.place);
        if (!serve(arguments))
                return 0;
        for (unsigned number = 0; number < WRITERS; number++)
                start_writer(number);
        (void)await_writers(0, WRITERS, 1);
        /* Where it reaps is drawn: of a few draws none may leave a record half reaped. */
        every = fate->reaps ? every / 2 + 1 : every;
        for (; came && at <= most && !*table->complaint; at += every) {
                came = kill_successor(fate, at);
                points += came;
                if (points % 16 == 0)
                        (void)have_client(judge_bus, NULL);
        }
        if (!*table->complaint)
                (void)have_client(judge_bus, NULL);
        end_writers();
        if (!*table->complaint)
                (void)have_client(take_reference, NULL);
        kill_all();
        if (!*table->complaint && serve(arguments))
                (void)have_client(judge_reference, NULL);
        kill_all();
        if (*table->complaint)
                printf("# behind call %ju, point %ju\n", (uintmax_t)at, (uintmax_t)points);
        return *table->complaint ? 0 : points;
}

static void check_successors(const struct fate *fate, uint64_t most)
{
        uint64_t points = kill_successors(fate, most);

        if (untraced)
                TEST_SKIP("tracing is not permitted here");
        if (!points)
                TEST_FAIL("%s; agentd said: %s", table->complaint,
                        daemon_.said + (daemon_.len > 500 ? daemon_.len - 500 : 0));
        TEST_NOTE("%ju points, %ju writes that were acknowledged, %ju made again",
                (uintmax_t)points, (uintmax_t)(table->done[0] + table->done[1]),
                (uintmax_t)table->full);
        CHECK(points > 4);
}

static void test_an_engine_that_is_killed_while_it_adopts_is_followed_by_another(void)
{
        check_successors(&(struct fate){.role = ENGINE}, 160);
}

static void test_the_same_where_it_is_killed_while_it_reaps(void)
{
        check_successors(&(struct fate){.role = ENGINE, .reaps = true}, 160);
}

static void test_a_log_that_is_killed_while_it_takes_over_is_followed_by_another(void)
{
        check_successors(&(struct fate){.role = LOG}, 160);
}

static void test_the_same_where_the_log_is_stopped_first(void)
{
        check_successors(&(struct fate){.role = LOG, .stops = true}, 160);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        table = mmap(
                NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (table == MAP_FAILED || !daemon_begin())
                return 1;
        RUN(test_behind_a_start_that_was_killed_the_next_one_gives_the_same_bus);
        RUN(test_the_same_where_the_bus_goes_back_to_a_cut);
        RUN(test_an_engine_that_is_killed_while_it_adopts_is_followed_by_another);
        RUN(test_the_same_where_it_is_killed_while_it_reaps);
        RUN(test_a_log_that_is_killed_while_it_takes_over_is_followed_by_another);
        RUN(test_the_same_where_the_log_is_stopped_first);
        return daemon_end(test_end());
}
