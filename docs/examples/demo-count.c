/* The identifiers of C headers; see demo-count.h. */
#define _GNU_SOURCE
#include "demo-count.h"

#include <ctype.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void words_add(struct words *words, const char *name, size_t len, uint64_t count)
{
        if (words->count == words->room) {
                words->room = 2 * words->room + 1024;
                words->list = realloc(words->list, words->room * sizeof(*words->list));
                if (!words->list)
                        abort();
        }
        words->list[words->count++] = (struct word){name, len, count};
}

static int compare_names(const void *a_, const void *b_)
{
        const struct word *a = a_, *b = b_;

        return a->len != b->len ? (a->len > b->len) - (a->len < b->len)
                                : memcmp(a->name, b->name, a->len);
}

static int compare_counts(const void *a_, const void *b_)
{
        const struct word *a = a_, *b = b_;

        return a->count != b->count ? (a->count < b->count) - (a->count > b->count)
                                    : compare_names(a, b);
}

/* Merge the entries of each word into one, and sort by an order that is quick to compare. */
static void words_merge(struct words *words)
{
        size_t last = 0;

        if (words->count == 0)
                return;
        qsort(words->list, words->count, sizeof(*words->list), compare_names);
        for (size_t i = 1; i < words->count; i++) {
                if (compare_names(&words->list[last], &words->list[i]) == 0)
                        words->list[last].count += words->list[i].count;
                else
                        words->list[++last] = words->list[i];
        }
        words->count = last + 1;
}

void words_add_result(struct words *words, const char *result, size_t len)
{
        char *line = strndup(result, len);

        words->texts = realloc(words->texts, (words->text_count + 1) * sizeof(*words->texts));
        if (!line || !words->texts)
                abort();
        words->texts[words->text_count++] = line;
        line += strcspn(line, "\n") + 1; /* skips the line of the pass */
        while (*line != '\0') {
                const char *name = line;
                size_t name_len = strcspn(line, " ");
                uint64_t count = strtoull(line + name_len, &line, 10);

                words_add(words, name, name_len, count);
                line++;
        }
}

void words_print(struct words *words, size_t count)
{
        words_merge(words);
        if (words->count > 0)
                qsort(words->list, words->count, sizeof(*words->list), compare_counts);
        printf("\n%zu different identifiers, the most frequent ones:\n", words->count);
        for (size_t i = 0; i < words->count && i < count; i++)
                printf("%12" PRIu64 "  %.*s\n", words->list[i].count, (int)words->list[i].len,
                        words->list[i].name);
}

void words_free(struct words *words)
{
        while (words->text_count > 0)
                free(words->texts[--words->text_count]);
        free(words->texts);
        free(words->list);
}

/* Identifiers are words outside of comments and literals. */
static void find_identifiers(const char *p, struct words *words)
{
        while (p && *p != '\0') {
                const char *start = p;

                if (p[0] == '/' && p[1] == '/') {
                        p += strcspn(p, "\n");
                } else if (p[0] == '/' && p[1] == '*') {
                        p = strstr(p + 2, "*/");
                        p = p ? p + 2 : NULL;
                } else if (*p == '"' || *p == '\'') {
                        for (p++; *p != '\0' && *p != '\n' && *p != *start; p++)
                                p += *p == '\\' && p[1] != '\0';
                        p += *p == *start;
                } else if (isalnum((unsigned char)*p) || *p == '_') {
                        while (isalnum((unsigned char)*p) || *p == '_')
                                p++;
                        if (!isdigit((unsigned char)*start))
                                words_add(words, start, (size_t)(p - start), 1);
                } else {
                        p++;
                }
        }
}

struct result index_file(const struct headers *headers, size_t number, uint64_t pass)
{
        char *text = NULL, full[PATH_MAX];
        struct result result = {0};
        struct words words = {0};
        FILE *file, *out;
        size_t room = 0;

        snprintf(full, sizeof(full), "%s/%s", headers->root, headers->paths[number]);
        file = fopen(full, "r");
        /* The text ends at a NUL, because no header has one. */
        if (file && getdelim(&text, &room, '\0', file) >= 0)
                find_identifiers(text, &words);
        if (file)
                fclose(file);
        result.count = words.count;
        for (size_t i = 0; i < words.count; i++) {
                unsigned char first = (unsigned char)words.list[i].name[0];

                result.by_letter[first == '_' ? LETTERS - 1 : tolower(first) - 'a']++;
        }
        words_merge(&words);
        out = open_memstream(&result.text, &result.len);
        fprintf(out, "%" PRIu64 " %" PRIu64 "\n", pass, result.count);
        for (size_t i = 0; i < words.count; i++)
                fprintf(out, "%.*s %" PRIu64 "\n", (int)words.list[i].len, words.list[i].name,
                        words.list[i].count);
        fclose(out);
        words_free(&words);
        free(text);
        return result;
}

/* The headers found so far, in a variable of their own: nftw() hands no argument on. */
static struct headers found;

static int note_path(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
        size_t len = strlen(path), root_len = strcmp(found.root, "/") == 0 ? 0 : strlen(found.root);

        if (ftw->level == 0 && type != FTW_D)
                return type == FTW_DNR ? EACCES : ENOTDIR; /* it is the folder itself */
        if (type != FTW_F || !S_ISREG(status->st_mode) || len < 3 ||
                strcmp(path + len - 2, ".h") != 0 || len - root_len > PATH_BYTES_MAX)
                return 0;
        found.paths = realloc(found.paths, (found.count + 1) * sizeof(*found.paths));
        found.paths[found.count++] = strdup(path + root_len + 1);
        found.bytes += (size_t)status->st_size;
        return 0;
}

static int compare_paths(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

struct headers find_headers(int argc, char **argv)
{
        const char *folder = argc > 1 ? argv[1] : "/usr/include";
        int r = -1;

        if (argc == 2 && (strcmp(folder, "-h") == 0 || strcmp(folder, "--help") == 0)) {
                printf("usage: demo [DIR]: a crew of processes counts the identifiers of the C "
                       "headers in DIR\n"
                       "(without one, in /usr/include) on a bus, and is killed at random; then all "
                       "is counted again\n");
                exit(0);
        }
        found.root = realpath(folder, NULL);
        if (found.root)
                r = nftw(found.root, note_path, 32, FTW_PHYS);
        if (r != 0 || argc > 2) {
                fprintf(stderr, "demo: %s: %s\n", folder,
                        argc > 2 ? "one folder is enough" : strerror(r < 0 ? errno : r));
                fprintf(stderr,
                        "usage: demo [DIR]: a folder with C headers; without one, /usr/include\n");
                exit(2);
        }
        if (found.count == 0) {
                fprintf(stderr, "demo: there are no C headers (*.h) in %s\n", folder);
                exit(1);
        }
        qsort(found.paths, found.count, sizeof(*found.paths), compare_paths);
        return found;
}
