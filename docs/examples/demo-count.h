/*
 * The demo's work itself, which knows nothing of the bus: which headers there are, and the identifiers in one of them.
 *
 * Always true: a result depends on the file and the pass number alone, so that whoever makes it again makes the same bytes.
 */
#ifndef DEMO_COUNT_H
#define DEMO_COUNT_H

#include <stddef.h>
#include <stdint.h>

#define PATH_BYTES_MAX 1000 /* of a path below the root: longer ones are left out, so that they fit a key */

/* Words with counts. Zero is an empty table. */
struct table {
        struct word {
                const char *name;
                size_t len;
                uint64_t count;
        } *words;
        size_t used, size; /* size: a power of two */
};

/* Calloc, or the end. */
void *allocate(size_t size);
/* Add a result, as index_file() made it; the table keeps a copy. */
void table_add_result(struct table *table, const char *result, size_t len);
/* Print the @count most frequent words; nothing can be added any more. */
void table_print(struct table *table, size_t count);

/* The headers under @root, sorted: paths below it, each a string. Return: how many. */
size_t list_headers(const char *root, char ***ret_paths, size_t *ret_bytes);
/* The result for one file, "PASS COUNT", then "IDENTIFIER COUNT" a line; to be freed. What cannot be read counts as empty. */
char *index_file(const char *root, const char *path, uint64_t pass, uint64_t *ret_count, size_t *ret_len);

#endif
