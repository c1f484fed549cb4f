/* Counting identifiers; see demo-count.h. */
#define _GNU_SOURCE
#include "demo-count.h"

#include <ctype.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *allocate(size_t size)
{
        void *memory = calloc(1, size);

        if (memory == NULL)
                abort();
        return memory;
}

static void table_add(struct table *table, const char *name, size_t len, uint64_t count)
{
        uint64_t hash = 14695981039346656037u;

        if (2 * table->used >= table->size) {
                struct table larger = {.size = table->size ? 2 * table->size : 4096};

                larger.words = allocate(larger.size * sizeof(*larger.words));
                for (size_t i = 0; i < table->size; i++)
                        if (table->words[i].name != NULL)
                                table_add(&larger, table->words[i].name, table->words[i].len, table->words[i].count);
                free(table->words);
                *table = larger;
        }
        for (size_t i = 0; i < len; i++)
                hash = (hash ^ (unsigned char)name[i]) * 1099511628211u;
        for (size_t i = hash >> 20;; i++) {
                struct word *word = &table->words[i & (table->size - 1)];

                if (word->name == NULL) {
                        *word = (struct word){name, len, 0};
                        table->used++;
                }
                if (word->len == len && memcmp(word->name, name, len) == 0) {
                        word->count += count;
                        return;
                }
        }
}

static int compare_names(const void *a_, const void *b_)
{
        const struct word *a = a_, *b = b_;
        int order = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);

        return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

static int compare_counts(const void *a_, const void *b_)
{
        const struct word *a = a_, *b = b_;

        return a->count != b->count ? (a->count < b->count) - (a->count > b->count) : compare_names(a, b);
}

static void table_sort(struct table *table, int (*compare)(const void *, const void *))
{
        size_t filled = 0;

        for (size_t i = 0; i < table->size; i++)
                if (table->words[i].name != NULL)
                        table->words[filled++] = table->words[i];
        if (filled > 0)
                qsort(table->words, filled, sizeof(*table->words), compare);
}

void table_add_result(struct table *table, const char *result, size_t len)
{
        char *line = strndup(result, len);

        line += strcspn(line, "\n");
        while (*line == '\n' && line[1] != '\0') {
                char *name = line + 1;
                size_t name_len = strcspn(name, " ");

                table_add(table, name, name_len, strtoull(name + name_len, &line, 10));
        }
}

void table_print(struct table *table, size_t count)
{
        table_sort(table, compare_counts);
        printf("\n%zu different identifiers, the most frequent ones:\n", table->used);
        for (size_t i = 0; i < table->used && i < count; i++)
                printf("%12" PRIu64 "  %.*s\n", table->words[i].count, (int)table->words[i].len, table->words[i].name);
}

/* Identifiers are words outside of comments and literals. Return: how many. */
static uint64_t count_identifiers(const char *p, struct table *table)
{
        uint64_t count = 0;

        while (*p != '\0') {
                const char *start = p;

                if (p[0] == '/' && p[1] == '/') {
                        p += strcspn(p, "\n");
                } else if (p[0] == '/' && p[1] == '*') {
                        p = strstr(p + 2, "*/");
                        if (p == NULL)
                                break;
                        p += 2;
                } else if (*p == '"' || *p == '\'') {
                        for (p++; *p != '\0' && *p != '\n' && *p != *start; p++)
                                p += *p == '\\' && p[1] != '\0';
                        p += *p == *start;
                } else if (isalnum((unsigned char)*p) || *p == '_') {
                        while (isalnum((unsigned char)*p) || *p == '_')
                                p++;
                        if (!isdigit((unsigned char)*start)) {
                                table_add(table, start, (size_t)(p - start), 1);
                                count++;
                        }
                } else {
                        p++;
                }
        }
        return count;
}

char *index_file(const char *root, const char *path, uint64_t pass, uint64_t *ret_count, size_t *ret_len)
{
        char *text = NULL, *result, full[PATH_MAX];
        struct table table = {0};
        FILE *file, *out;
        size_t room = 0;

        snprintf(full, sizeof(full), "%s/%s", root, path);
        file = fopen(full, "r");
        /* A NUL ends the text: no header has one. */
        if (file == NULL || getdelim(&text, &room, '\0', file) < 0)
                (text = realloc(text, 1))[0] = '\0';
        if (file != NULL)
                fclose(file);
        *ret_count = count_identifiers(text, &table);
        table_sort(&table, compare_names);
        out = open_memstream(&result, ret_len);
        fprintf(out, "%" PRIu64 " %" PRIu64 "\n", pass, *ret_count);
        for (size_t i = 0; i < table.used; i++)
                fprintf(out, "%.*s %" PRIu64 "\n", (int)table.words[i].len, table.words[i].name, table.words[i].count);
        fclose(out);
        free(table.words);
        free(text);
        return result;
}

/* What list_headers() gathers: nftw() hands nothing on. */
static char **paths;
static size_t path_count, bytes_total, root_len;

static int note_path(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
        size_t len = strlen(path);

        (void)ftw;
        if (type == FTW_F && len > 2 && strcmp(path + len - 2, ".h") == 0 && len - root_len <= PATH_BYTES_MAX) {
                paths = realloc(paths, (path_count + 1) * sizeof(*paths));
                paths[path_count++] = strdup(path + root_len + 1);
                bytes_total += (size_t)status->st_size;
        }
        return 0;
}

static int compare_paths(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t list_headers(const char *root, char ***ret_paths, size_t *ret_bytes)
{
        root_len = strcmp(root, "/") == 0 ? 0 : strlen(root);
        nftw(root, note_path, 32, FTW_PHYS);
        if (path_count > 0)
                qsort(paths, path_count, sizeof(*paths), compare_paths);
        *ret_paths = paths;
        *ret_bytes = bytes_total;
        return path_count;
}
