/*
 * A target without libFuzzer: the files of its corpus, and these changed at random.
 *
 *      PROGRAM             each file of the corpus; then SB_COUNT changed ones, from SB_FIRST on
 *      PROGRAM FILE...     these files alone
 *      SB_SEED=n           other changes
 *      SB_SECONDS=n        for so long; SB_TEST_LONG: more of them
 *
 * The target runs in a child, so that one that crashes, hangs or ends is told with the input that
 * made it do so: the number of the change under this seed makes the same bytes again, and SB_SAVE
 * names a file that they are written into.
 *
 * Always true: the bytes of a changed input depend on the corpus, the seed and its number alone.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/harness/faults.h"
#include "tests/harness/test.h"
#include "tests/power/batches.h"
#include "tests/unit/draw.h"

#define FILES_MAX  512u
#define INPUT_MAX  16384u
#define HANGS_S    30u /* an input takes a thousandth of a second */
#define LONG_TIMES 40u
#define LOOK_EVERY 64u /* inputs, at the clock */

static struct input {
        char name[NAME_MAX + 1];
        size_t len;
        uint8_t bytes[INPUT_MAX];
} * files;
static uint32_t file_count;
/* How far the child is. */
static volatile uint64_t *progress;

/* ---- the corpus ---- */

static bool read_input(int directory_fd, const char *name, struct input *ret)
{
        int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC);
        ssize_t len = fd >= 0 ? read(fd, ret->bytes, sizeof(ret->bytes)) : -1;

        if (fd >= 0)
                close(fd);
        if (len < 0)
                return false;
        ret->len = (size_t)len;
        snprintf(ret->name, sizeof(ret->name), "%.*s", NAME_MAX, name);
        return true;
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(((const struct input *)a)->name, ((const struct input *)b)->name);
}

static bool read_corpus(void)
{
        DIR *stream = opendir(FUZZ_CORPUS);
        struct dirent *entry;

        while (stream && (entry = readdir(stream)) && file_count < FILES_MAX)
                if (entry->d_name[0] != '.' &&
                        read_input(dirfd(stream), entry->d_name, &files[file_count]))
                        file_count++;
        if (stream)
                closedir(stream);
        if (file_count)
                qsort(files, file_count, sizeof(*files), compare_names);
        return file_count > 0;
}

/* ---- changes at random ---- */

static const uint64_t interesting[] = {0, 1, 7, 8, 63, 64, 1023, 1024, 1025, 4095, 4096,
        UINT64_C(1) << 20, (UINT64_C(1) << 20) + 1, INT32_MAX, UINT32_MAX, UINT64_C(1) << 36,
        UINT64_C(1) << 61, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX};

/* Put @len bytes in the place of @gone at @at, as far as there is room. */
static void replace(struct input *input, size_t at, size_t gone, const void *with, size_t len)
{
        if (input->len - gone + len > INPUT_MAX)
                return;
        memmove(input->bytes + at + len, input->bytes + at + gone, input->len - at - gone);
        if (len)
                memcpy(input->bytes + at, with, len);
        input->len += len - gone;
}

static void change(struct input *input)
{
        const struct input *other = &files[draw(file_count)];
        size_t at = draw((uint32_t)input->len + 1), left = input->len - at;
        size_t len = 1 + draw(draw(4) ? 8 : 64), from = draw((uint32_t)other->len + 1);
        uint64_t word = interesting[draw(sizeof(interesting) / sizeof(*interesting))];
        uint8_t bytes[64];

        if (len > left)
                len = left;
        switch (draw(7)) {
        case 0:
                if (left)
                        input->bytes[at] ^= (uint8_t)(1u << draw(8));
                break;
        case 1:
                if (left)
                        input->bytes[at] = (uint8_t)draw(256);
                break;
        case 2:
                replace(input, at, len, NULL, 0);
                break;
        case 3:
                word += draw(3) - 1;
                replace(input, at, left < 8 ? left : 8, &word, 8);
                break;
        case 4: /* a piece of it once more */
                memcpy(bytes, input->bytes + at, len);
                replace(input, draw((uint32_t)input->len + 1), 0, bytes, len);
                break;
        case 5: /* a piece of another one */
                if (len > other->len - from)
                        len = other->len - from;
                memcpy(bytes, other->bytes + from, len);
                replace(input, at, draw(2) ? len : 0, bytes, len);
                break;
        case 6:
                for (size_t i = 0; i < len; i++)
                        bytes[i] = (uint8_t)draw(256);
                replace(input, at, draw(2) ? len : 0, bytes, len);
                break;
        }
}

static void make_input(uint64_t seed, uint64_t number, struct input *ret)
{
        const struct input *from;

        draw_state = seed * UINT64_C(0x9e3779b97f4a7c15) + number;
        (void)draw_bits();
        from = &files[draw(file_count)];
        ret->len = from->len;
        memcpy(ret->bytes, from->bytes, from->len);
        for (uint32_t changes = 1 + draw(6); changes > 0; changes--)
                change(ret);
}

static void save(const struct input *input)
{
        const char *name = getenv("SB_SAVE");
        FILE *file = name ? fopen(name, "we") : NULL;

        if (!file)
                return;
        fwrite(input->bytes, 1, input->len, file);
        fclose(file);
}

/* ---- the child ---- */

/* In memory of its own that ends behind it, so that a sanitizer sees a read beside it. */
static void give(const struct input *input)
{
        uint8_t *own = malloc(input->len ? input->len : 1);

        if (!own)
                abort();
        memcpy(own, input->bytes, input->len);
        alarm(HANGS_S);
        LLVMFuzzerTestOneInput(own, input->len);
        alarm(0);
        free(own);
}

static void give_files(void)
{
        for (*progress = 0; *progress < file_count; ++*progress)
                give(&files[*progress]);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
        const char *text = getenv(name);

        return text ? strtoull(text, NULL, 10) : otherwise;
}

static void give_changed(void)
{
        static struct input changed;
        uint64_t seed = number_of("SB_SEED", 1), first = number_of("SB_FIRST", 0);
        uint64_t seconds = number_of("SB_SECONDS", 0),
                 end = first + number_of("SB_COUNT",
                                       FUZZ_COUNT * (getenv("SB_TEST_LONG") ? LONG_TIMES : 1));
        time_t began = time(NULL);

        for (*progress = first; seconds || *progress < end; ++*progress) {
                make_input(seed, *progress, &changed);
                save(&changed);
                give(&changed);
                if (seconds && *progress % LOOK_EVERY == 0 && time(NULL) - began >= (time_t)seconds)
                        break;
        }
}

/* Run @work in a child, with a directory for it. Return: whether it came to its end; else *ret says
 * how it ended. */
static bool run_in_child(void (*work)(void), char *ret, size_t size)
{
        char path[64];
        int directory = scratch_make(path, sizeof(path)), status = 0;
        pid_t child;

        if (directory < 0)
                return false;
        fflush(stdout);
        child = fork();
        if (!child) {
                setenv("SB_FUZZ_DIRECTORY", path, 1);
                work();
                exit(0);
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
                ;
        scratch_remove(directory, path);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
                snprintf(ret, size, "it did not end within %u s", HANGS_S);
        else if (WIFSIGNALED(status))
                snprintf(ret, size, "it ended by %s", strsignal(WTERMSIG(status)));
        else
                snprintf(ret, size, "it ended with exit status %d", WEXITSTATUS(status));
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- the tests ---- */

static void test_each_input_of_the_corpus_is_taken_or_refused_rightly(void)
{
        char how[128];

        CHECK(file_count > 0);
        if (!run_in_child(give_files, how, sizeof(how)))
                TEST_FAIL("%s: %s",
                        *progress < file_count ? files[*progress].name : "behind the last one",
                        how);
        TEST_NOTE("%u inputs of the corpus", file_count);
}

static void test_each_input_that_was_changed_at_random_is_too(void)
{
        uint64_t first = number_of("SB_FIRST", 0), seed = number_of("SB_SEED", 1);
        char how[128];

        CHECK(file_count > 0);
        if (!run_in_child(give_changed, how, sizeof(how)))
                TEST_FAIL("input %" PRIu64 ": %s. Again with: SB_SEED=%" PRIu64 " SB_FIRST=%" PRIu64
                          " SB_COUNT=1 SB_SAVE=FILE",
                        *progress, how, seed, *progress);
        TEST_NOTE("%" PRIu64 " changed inputs, from SB_FIRST=%" PRIu64 " on, of SB_SEED=%" PRIu64,
                *progress - first, first, seed);
}

int main(int argc, char **argv)
{
        files = calloc(FILES_MAX, sizeof(*files));
        progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (!files || progress == MAP_FAILED)
                return 1;
        fault_from_environment();
        if (argc > 1 && strncmp(argv[1], "test_", 5) != 0) {
                for (int i = 1; i < argc; i++) {
                        if (!read_input(AT_FDCWD, argv[i], &files[0]))
                                return 1;
                        give(&files[0]);
                        printf("ok %s\n", argv[i]);
                }
                return 0;
        }
        test_begin(argc, argv);
        (void)read_corpus();
        RUN(test_each_input_of_the_corpus_is_taken_or_refused_rightly);
        RUN(test_each_input_that_was_changed_at_random_is_too);
        free(files);
        return test_end();
}
