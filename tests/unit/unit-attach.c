/*
 * Before shared memory (ring/attach): which packets are messages, whatever their bytes; where a bus
 * lives, by its name, its length and the environment; and what the control groups of a process
 * limit, as files of the test's say, which are opened in the place of the kernel's (see
 * meson.build).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/statebus.h"
#include "ring/attach/hello.h"
#include "ring/attach/limit.h"
#include "ring/attach/place.h"
#include "shm/layout/superblock.h"
#include "tests/harness/test.h"
#include "tests/unit/draw.h"

/* ---- hello ---- */

static void test_a_request_that_was_made_is_heard_as_it_was_meant(void)
{
        struct sb_hello_request request, heard;
        unsigned char packet[1 + sizeof(request)];

        for (uint32_t verb = SB_HELLO_ATTACH; verb <= SB_HELLO_ATTACH_OPERATOR; verb++) {
                sb_hello_ask(verb, SB_PEER, UINT64_MAX - verb, &request);
                memcpy(packet + 1, &request, sizeof(request)); /* of any alignment */
                CHECK_EQ(sb_hello_judge(packet + 1, sizeof(request), 0, &heard), 0);
                CHECK(!memcmp(&request, &heard, sizeof(request)));
                CHECK(heard.verb == verb && heard.access == SB_PEER);
                CHECK_EQ(heard.ticket, UINT64_MAX - verb);
        }
}

/* What has to be said of a request, field by field, in this order. */
static int judge(const unsigned char *packet, size_t len, uint32_t features)
{
        struct sb_hello_request r;
        uint64_t magic;
        uint32_t protocol;

        if (len < 16)
                return -EPROTO;
        memcpy(&magic, packet, 8);
        memcpy(&protocol, packet + 8, 4);
        if (magic != SB_HELLO_MAGIC)
                return -EPROTO;
        if (protocol != SB_HELLO_PROTOCOL)
                return -EPROTONOSUPPORT;
        if (len != sizeof(r))
                return -EPROTO;
        memcpy(&r, packet, sizeof(r));
        if (r.layout_version != SB_LAYOUT_VERSION || (features & ~r.features))
                return -EPROTONOSUPPORT;
        return r.zero || r.access > SB_PEER || r.verb < 1 || r.verb > 5 || !r.ticket ? -EINVAL : 0;
}

static void test_hostile_requests_are_told_apart(void)
{
        uint32_t counts[4] = {0};

        draw_state = 1;
        for (uint32_t step = 0; step < 300000; step++) {
                struct sb_hello_request request, heard;
                unsigned char packet[3 * sizeof(request)] = {0};
                uint32_t features = draw(4) ? 0 : draw_bits(), *words = (uint32_t *)&request;
                size_t len = draw(6) ? sizeof(request) : draw(sizeof(packet));
                int r, expected;

                sb_hello_ask(1 + draw(5), draw(3), draw_word() | 1, &request);
                if (!draw(3))
                        request.features = draw_bits() | features;
                for (uint32_t i = draw(4); i; i--)
                        words[draw(sizeof(request) / 4)] = draw(3) ? draw(6) : draw_bits();
                memcpy(packet, &request, sizeof(request));
                memset(&heard, 0xee, sizeof(heard));
                expected = judge(packet, len, features);
                r = sb_hello_judge(packet, len, features, &heard);
                CHECK_EQ(r, expected);
                CHECK(r || !memcmp(&heard, &request, sizeof(heard)));
                CHECK(!r || *(unsigned char *)&heard == 0xee);
                counts[r == 0 ? 0 : r == -EPROTO ? 1 : r == -EINVAL ? 2 : 3]++;
        }
        for (uint32_t i = 0; i < 4; i++)
                CHECK(counts[i] > 1000);
}

static void test_a_refusal_says_why_and_nothing_else(void)
{
        struct sb_hello_answer answer, heard;

        for (int result = -200; result < 200; result++) {
                memset(&answer, 0xff, sizeof(answer));
                sb_hello_refuse(result, &answer);
                CHECK_EQ(sb_hello_hear(&answer, sizeof(answer), &heard), 0);
                CHECK_EQ(heard.result, result);
                CHECK(!heard.size && !heard.slot && !heard.generation && !heard.access &&
                        !heard.id[0] && !heard.id[1]);
        }
}

static int hear(const struct sb_hello_answer *a, size_t len)
{
        if (len < 16 || a->magic != SB_HELLO_MAGIC)
                return -EPROTO;
        if (a->protocol != SB_HELLO_PROTOCOL)
                return -EPROTONOSUPPORT;
        if (len != sizeof(*a))
                return -EPROTO;
        /* What is refused need not be of this layout. */
        return !a->result && (a->layout_version != SB_LAYOUT_VERSION || a->features)
                       ? -EPROTONOSUPPORT
                       : 0;
}

static void test_hostile_answers_are_told_apart(void)
{
        uint32_t counts[3] = {0};

        draw_state = 2;
        for (uint32_t step = 0; step < 200000; step++) {
                struct sb_hello_answer packet[2] = {0}, heard;
                uint32_t *words = (uint32_t *)packet;
                size_t len = draw(6) ? sizeof(heard) : draw(sizeof(packet));
                int r;

                sb_hello_refuse(draw(2) ? 0 : (int)draw_bits(), packet);
                for (uint32_t i = draw(4); i; i--)
                        words[draw(sizeof(heard) / 4)] = draw(3) ? draw(6) : draw_bits();
                r = sb_hello_hear(packet, len, &heard);
                CHECK_EQ(r, hear(packet, len));
                CHECK(r || !memcmp(&heard, packet, sizeof(heard)));
                counts[r == 0 ? 0 : r == -EPROTO ? 1 : 2]++;
        }
        for (uint32_t i = 0; i < 3; i++)
                CHECK(counts[i] > 1000);
}

/* ---- place ---- */

static char folder[64];

static bool make_folder(void)
{
        snprintf(folder, sizeof(folder), "/tmp/statebus-unit-XXXXXX");
        return mkdtemp(folder);
}

/* What is made below it goes with it. */
static void remove_folder(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf '%s'", folder);
        if (system(command))
                printf("# %s is left behind\n", folder);
}

/* A user of no privileges, for a while. */
static uid_t self;
static bool become_a_user(void)
{
        self = geteuid();
        return self || !seteuid(65534);
}
static bool become_oneself(void)
{
        return seteuid(self) == 0;
}

static bool is_resolved(const char *bus, const char *directory)
{
        struct sb_place place;

        memset(&place, 0xee, sizeof(place));
        if (sb_place_resolve(bus, &place) || strcmp(place.directory, directory))
                return false;
        for (size_t i = strlen(directory); i < sizeof(place.directory); i++)
                if (place.directory[i])
                        return false;
        return true;
}

static int resolve(const char *bus)
{
        struct sb_place place;

        return sb_place_resolve(bus, &place);
}

static void test_a_directory_is_taken_as_it_is_but_for_slashes_at_its_end(void)
{
        CHECK(is_resolved("/run/bus", "/run/bus"));
        CHECK(is_resolved("./bus", "./bus"));
        CHECK(is_resolved("a/b/../c", "a/b/../c"));
        CHECK(is_resolved("/run/bus///", "/run/bus"));
        CHECK(is_resolved("/", "/") && is_resolved("///", "/"));
        CHECK(is_resolved("../", ".."));
}

static void test_what_is_no_name_is_refused(void)
{
        CHECK_EQ(resolve(""), -EINVAL);
        CHECK_EQ(resolve("."), -EINVAL);
        CHECK_EQ(resolve(".."), -EINVAL);
        setenv("STATEBUS", "..", 1);
        CHECK_EQ(resolve(NULL), -EINVAL);
        unsetenv("STATEBUS");
}

static void test_a_name_lies_where_the_users_state_does(void)
{
        bool right, ignored, home, none, empty;

        if (!become_a_user())
                TEST_SKIP("cannot become a user without privileges");
        setenv("XDG_STATE_HOME", "/state", 1);
        setenv("HOME", "/home/me", 1);
        right = is_resolved("bus", "/state/statebus/bus") &&
                is_resolved("...", "/state/statebus/...");
        setenv("XDG_STATE_HOME", "relative", 1);
        ignored = is_resolved("bus", "/home/me/.local/state/statebus/bus");
        setenv("XDG_STATE_HOME", "", 1);
        home = is_resolved("bus", "/home/me/.local/state/statebus/bus");
        setenv("HOME", "", 1);
        empty = resolve("bus") == -ENOENT && is_resolved("./bus", "./bus");
        unsetenv("HOME");
        unsetenv("XDG_STATE_HOME");
        none = resolve("bus") == -ENOENT;
        CHECK(become_oneself());
        CHECK(right && ignored && home && empty && none);
        if (self)
                return;
        setenv("XDG_STATE_HOME", "/state", 1); /* the superuser's lie where the system's do */
        CHECK(is_resolved("bus", "/var/lib/statebus/bus"));
}

static void test_without_a_name_it_is_the_environments_and_then_default(void)
{
        setenv("STATEBUS", "/run/mine", 1);
        CHECK(is_resolved(NULL, "/run/mine"));
        CHECK(is_resolved("/run/yours", "/run/yours"));
        setenv("STATEBUS", "", 1);
        setenv("XDG_STATE_HOME", "/s", 1);
        if (!become_a_user())
                TEST_SKIP("cannot become a user without privileges");
        bool right = is_resolved(NULL, "/s/statebus/default");
        CHECK(become_oneself());
        CHECK(right);
        unsetenv("STATEBUS");
        unsetenv("XDG_STATE_HOME");
}

static void test_names_that_are_too_long_for_a_file_or_a_path_are_refused(void)
{
        static char name[SB_PLACE_MAX + 10];

        memset(name, 'n', sizeof(name));
        name[0] = '/';
        name[1 + NAME_MAX] = 0;
        CHECK(is_resolved(name, name));
        name[1 + NAME_MAX] = 'n';
        name[2 + NAME_MAX] = 0;
        CHECK_EQ(resolve(name), -ENAMETOOLONG);
        CHECK_EQ(resolve(name + 1), -ENAMETOOLONG);
        for (size_t i = 0; i < sizeof(name); i++)
                name[i] = i % 200 ? 'n' : '/';
        name[SB_PLACE_MAX - 1] = 0;
        CHECK(is_resolved(name, name));
        name[SB_PLACE_MAX - 1] = 'n';
        name[SB_PLACE_MAX] = 0;
        CHECK_EQ(resolve(name), -ENAMETOOLONG);
}

static void test_an_address_holds_the_name_or_goes_through_the_directory(void)
{
        struct sb_place place;
        struct sockaddr_un address;
        struct stat direct, through;
        char path[SB_PLACE_MAX], text[sizeof(address.sun_path) + 1] = {0};
        int fd, r, high[10];

        /* So that the directory's descriptor has two digits. */
        for (int i = 0; i < 10; i++)
                high[i] = dup(STDERR_FILENO);
        CHECK(make_folder());
        for (size_t len = strlen(folder) + 1; len < 240; len++) {
                size_t at = (size_t)snprintf(path, sizeof(path), "%s/", folder);

                memset(path + at, 'd', len - at + 1);
                path[len + 1] = 0;
                CHECK_EQ(sb_place_resolve(path, &place), 0);
                CHECK_EQ(sb_place_make(&place), 0);
                memset(&address, 0xee, sizeof(address));
                r = sb_place_address(&place, SB_PLACE_SOCKET, &address, &fd);
                CHECK_EQ(r, 0);
                CHECK_EQ(address.sun_family, AF_UNIX);
                memcpy(text, address.sun_path, sizeof(address.sun_path));
                strcat(path, "/socket");
                CHECK_EQ(fd < 0, strlen(path) < sizeof(address.sun_path));
                CHECK(fd >= 0 || !strcmp(text, path));
                if (fd < 0)
                        continue;
                /* The same file by both names. */
                close(open(path, O_CREAT | O_WRONLY, 0600));
                CHECK(!stat(path, &direct) && !stat(text, &through));
                CHECK(direct.st_ino == through.st_ino && direct.st_dev == through.st_dev);
                close(fd);
        }
        strcpy(place.directory + strlen(place.directory) - 1, "x/y");
        CHECK_EQ(sb_place_address(&place, SB_PLACE_SOCKET, &address, &fd), -ENOENT);
        /* A file's name that is too long either way: no descriptor stays behind. */
        strcpy(place.directory, folder);
        memset(path, 'f', 100);
        path[100] = 0;
        r = dup(STDERR_FILENO);
        close(r);
        CHECK_EQ(sb_place_address(&place, path, &address, &fd), -ENAMETOOLONG);
        CHECK(dup(STDERR_FILENO) == r && !close(r));
        for (int i = 0; i < 10; i++)
                close(high[i]);
        remove_folder();
}

static void test_a_path_in_a_command_is_one_word_for_a_shell(void)
{
        static const char *const cases[][2] = {{"work", "work"}, {"/a-b/c_d.e,f:g=h@i%+1", NULL},
                {"", "''"}, {"my bus", "'my bus'"}, {"$HOME;*", "'$HOME;*'"}, {"~/bus", "'~/bus'"},
                {"it's", "'it'\"'\"'s'"}, {"back\\slash", "'back\\slash'"},
                {"\xc3\xbc", "$'\\xc3\\xbc'"}, {"it's\x7f\\\n ~", "$'it\\'s\\x7f\\\\\\x0a ~'"}};
        static char word[SB_PLACE_WORD_MAX], path[SB_PLACE_WORD_MAX];

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *wanted = cases[i][1] ? cases[i][1] : cases[i][0];

                if (strcmp(sb_place_word(cases[i][0], word), wanted) != 0)
                        TEST_FAIL("%s: %s", cases[i][0], sb_place_word(cases[i][0], word));
        }
        /* What does not fit is left as it is: the longest that does is two quotes shorter. */
        memset(path, ' ', sizeof(path) - 1);
        path[sizeof(path) - 3] = 0;
        CHECK(sb_place_word(path, word) == word && strlen(word) == sizeof(word) - 1);
        path[sizeof(path) - 3] = ' ';
        path[sizeof(path) - 2] = 0;
        CHECK(sb_place_word(path, word) == path);
}

static void test_a_bus_is_made_with_all_above_it_and_can_be_entered_by_all(void)
{
        struct sb_place place;
        struct stat status;
        mode_t before = umask(0077);
        char path[200];

        CHECK(make_folder());
        snprintf(path, sizeof(path), "%s/a/b//c", folder);
        CHECK_EQ(sb_place_resolve(path, &place), 0);
        CHECK_EQ(sb_place_make(&place), 0);
        CHECK(!stat(path, &status) && S_ISDIR(status.st_mode));
        CHECK_EQ(status.st_mode & 0777, 0711);
        CHECK_EQ(sb_place_make(&place), 0);
        chmod(path, 0700);
        CHECK_EQ(sb_place_make(&place), 0); /* and is left as it is when it is there */
        CHECK(!stat(path, &status) && (status.st_mode & 0777) == 0700);
        umask(before);
        snprintf(path, sizeof(path), "%s/file", folder);
        close(open(path, O_CREAT | O_WRONLY, 0600));
        strcat(path, "/bus");
        CHECK_EQ(sb_place_resolve(path, &place), 0);
        CHECK_EQ(sb_place_make(&place), -ENOTDIR);
        /* Why the first that is missing cannot be made, and not that the others have no parent. */
        CHECK_EQ(sb_place_resolve("/sys/none/bus", &place), 0);
        CHECK(access("/sys/fs", F_OK) ||
                (sb_place_make(&place) < 0 && sb_place_make(&place) != -ENOENT));
        remove_folder();
}

static void test_the_process_that_serves_a_bus_is_the_one_that_holds_its_lock(void)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        struct sb_place place;
        int fd, ready[2], end[2];
        char path[200], byte;
        pid_t child, found = -1;

        CHECK(make_folder());
        CHECK_EQ(sb_place_resolve(folder, &place), 0);
        CHECK_EQ(sb_place_supervisor(&place, &found), -ESRCH); /* no file */
        snprintf(path, sizeof(path), "%s/" SB_PLACE_LOCK, folder);
        fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        CHECK(fd >= 0 && !pipe(ready) && !pipe(end));
        CHECK_EQ(sb_place_supervisor(&place, &found), -ESRCH); /* none has it */
        child = fork();
        CHECK(child >= 0);
        if (!child) {
                close(end[1]);
                if (fcntl(fd, F_SETLK, &lock) || write(ready[1], "", 1) != 1)
                        _exit(1);
                _exit(read(end[0], &byte, 1) != 0);
        }
        CHECK_EQ(read(ready[0], &byte, 1), 1);
        CHECK_EQ(sb_place_supervisor(&place, &found), 0);
        CHECK_EQ(found, child);
        close(end[1]);
        CHECK(waitpid(child, NULL, 0) == child);
        CHECK_EQ(sb_place_supervisor(&place, &found), -ESRCH);
        snprintf(path, sizeof(path), "%s/lock/below", folder);
        CHECK_EQ(sb_place_resolve(path, &place), 0);
        CHECK_EQ(sb_place_supervisor(&place, &found), -ESRCH);
        close(fd);
        close(end[0]);
        close(ready[0]);
        close(ready[1]);
        remove_folder();
}

/* One that has ended and was not waited for has as little memory as one that the kernel is at. */
static void test_a_process_without_memory_is_ending_and_others_are_not(void)
{
        siginfo_t info;
        pid_t child = fork();

        if (!child)
                for (;;)
                        pause();
        CHECK(child > 0);
        CHECK(!sb_place_ending(child) && !sb_place_ending(getpid()) && !sb_place_ending(0));
        CHECK(sb_place_lives(child) && sb_place_lives(getpid()) && !sb_place_lives(0));
        CHECK(!kill(child, SIGKILL) && !waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT));
        CHECK(sb_place_ending(child) && !sb_place_lives(child));
        CHECK(waitpid(child, NULL, 0) == child);
        CHECK(!sb_place_ending(child) && !sb_place_lives(child));
}

/* ---- limit ---- */

#define GROUPS "/proc/self/cgroup"
#define TWO    "/sys/fs/cgroup"
#define ONE    "/sys/fs/cgroup/memory"
#define NONE   "9223372036854771712\n" /* as the old hierarchy says it */

struct group_file {
        const char *path, *text;
};
static const struct group_file *group_files; /* these, and no others; NULL: the kernel's */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
        const struct group_file *file = group_files;
        va_list arguments;
        mode_t mode;
        int fd;

        va_start(arguments, flags);
        mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
        va_end(arguments);
        if (!file)
                return __real_open64(path, flags, mode);
        while (file->path && strcmp(file->path, path) != 0)
                file++;
        errno = ENOENT;
        fd = file->path ? memfd_create("group", MFD_CLOEXEC) : -1;
        if (fd >= 0 && (write(fd, file->text, strlen(file->text)) < 0 || lseek(fd, 0, SEEK_SET)))
                abort();
        return fd;
}

static void test_the_least_limit_of_a_group_and_those_above_it_counts(void)
{
        static const struct {
                uint64_t limit;
                struct group_file files[6];
        } cases[] = {
                {SB_LIMIT_NONE, {{TWO "/memory.max", "1\n"}}},
                {SB_LIMIT_NONE, {{GROUPS, "0::/a/b\n"}}},
                {SB_LIMIT_NONE, {{GROUPS, "0::/a\n"}, {TWO "/a/memory.max", "max\n"}}},
                {7000, {{GROUPS, "0::/a/b\n"}, {TWO "/a/b/memory.max", "7000\n"}}},
                {7000, {{GROUPS, "0::/a/b\n"}, {TWO "/a/memory.max", "7000\n"}}},
                {7000, {{GROUPS, "0::/a/b"}, {TWO "/memory.max", "7000"}}},
                {7000, {{GROUPS, "0::/\n"}, {TWO "/memory.max", "7000\n"}}},
                {SB_LIMIT_NONE, {{GROUPS, "0::/a/b\n"}, {TWO "/a/b/c/memory.max", "7000\n"},
                                        {TWO "/b/memory.max", "7000\n"},
                                        {ONE "/memory.limit_in_bytes", "7000\n"}}},
                {1000, {{GROUPS, "0::/a/b\n"}, {TWO "/a/b/memory.max", "max\n"},
                               {TWO "/a/memory.max", "1000\n"}, {TWO "/memory.max", "7000\n"}}},
                {0, {{GROUPS, "0::/a\n"}, {TWO "/a/memory.max", "0\n"}}},
                {SB_LIMIT_NONE, {{GROUPS, "0::/a\n"}, {TWO "/a/memory.max", ""},
                                        {TWO "/memory.max", " 1\n"}}},
                /* The old hierarchy, with its number for none, among others. */
                {4096, {{GROUPS, "9:cpu,cpuacct:/c\n5:memory:/x/y\n1:name=systemd:/\n"},
                               {ONE "/x/y/memory.limit_in_bytes", NONE},
                               {ONE "/x/memory.limit_in_bytes", "4096\n"},
                               {TWO "/cpu/memory.max", "5\n"}, {TWO "/c/memory.max", "5\n"}}},
                {SB_LIMIT_NONE, {{GROUPS, "5:memory:/x\n"}, {ONE "/x/memory.limit_in_bytes", NONE},
                                        {ONE "/memory.limit_in_bytes", "1152921504606846976\n"}}},
                {1152921504606846975,
                        {{GROUPS, "5:memory:/x\n"},
                                {ONE "/x/memory.limit_in_bytes", "1152921504606846975\n"}}},
                /* Both: whichever comes first. */
                {300, {{GROUPS, "5:memory:/x\n0::/x\n"}, {ONE "/x/memory.limit_in_bytes", "400\n"},
                              {TWO "/x/memory.max", "300\n"}}},
                {300, {{GROUPS, "5:memory:/x\n0::/x\n"}, {ONE "/x/memory.limit_in_bytes", "300\n"},
                              {TWO "/x/memory.max", "400\n"}}},
                /* Lines that make no sense are passed over, and none is read into the next. */
                {80, {{GROUPS, "\nno colon\n3:one colon\n0::/a\n"}, {TWO "/a/memory.max", "80\n"},
                             {TWO "/memory.max", "90\n"}}},
                {90, {{GROUPS, "0:\n5:memory:/a\n"}, {TWO "/memory.max", "10\n"},
                             {ONE "/a/memory.limit_in_bytes", "90\n"}}},
        };

        for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                uint64_t limit;

                group_files = cases[i].files;
                limit = sb_limit_memory();
                group_files = NULL;
                if (limit != cases[i].limit)
                        TEST_FAIL("case %u: %llu", i, (unsigned long long)limit);
        }
}

/* The directories above it count still. */
static void test_a_group_with_too_long_a_name_is_passed_over(void)
{
        static char line[4090] = "0::/a/";
        const struct group_file files[] = {
                {GROUPS, line}, {TWO "/a/memory.max", "500\n"}, {NULL, NULL}};

        memset(line + 6, 'x', sizeof(line) - 7);
        group_files = files;
        CHECK_EQ(sb_limit_memory(), 500);
        group_files = NULL;
}

/* Of a longer text so much that a zero behind it has its place still. */
static void test_of_a_long_list_of_groups_the_beginning_counts(void)
{
        static char text[4096 + 1];
        const struct group_file files[] = {{GROUPS, text}, {TWO "/a/memory.max", "500\n"},
                {TWO "/ab/memory.max", "700\n"}, {NULL, NULL}};
        static const char last[] = "0::/ab";

        memset(text, '\n', sizeof(text) - 1);
        memcpy(text + sizeof(text) - sizeof(last), last, sizeof(last));
        group_files = files;
        CHECK_EQ(sb_limit_memory(), 500);
        group_files = NULL;
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_request_that_was_made_is_heard_as_it_was_meant);
        RUN(test_hostile_requests_are_told_apart);
        RUN(test_a_refusal_says_why_and_nothing_else);
        RUN(test_hostile_answers_are_told_apart);
        RUN(test_a_directory_is_taken_as_it_is_but_for_slashes_at_its_end);
        RUN(test_what_is_no_name_is_refused);
        RUN(test_a_name_lies_where_the_users_state_does);
        RUN(test_without_a_name_it_is_the_environments_and_then_default);
        RUN(test_names_that_are_too_long_for_a_file_or_a_path_are_refused);
        RUN(test_an_address_holds_the_name_or_goes_through_the_directory);
        RUN(test_a_path_in_a_command_is_one_word_for_a_shell);
        RUN(test_a_bus_is_made_with_all_above_it_and_can_be_entered_by_all);
        RUN(test_the_process_that_serves_a_bus_is_the_one_that_holds_its_lock);
        RUN(test_a_process_without_memory_is_ending_and_others_are_not);
        RUN(test_the_least_limit_of_a_group_and_those_above_it_counts);
        RUN(test_a_group_with_too_long_a_name_is_passed_over);
        RUN(test_of_a_long_list_of_groups_the_beginning_counts);
        return test_end();
}
