/*
 * The demo's work itself, which knows nothing of the bus: which headers there are, and the identifiers in one of them.
 *
 * Always true: a result depends on the file alone, so that whoever makes it again makes the same bytes.
 */
#ifndef DEMO_COUNT_H
#define DEMO_COUNT_H

#include <stddef.h>
#include <stdint.h>

#define PATH_BYTES_MAX 1000 /* of a path below the root: longer ones are left out, so that they fit a key */

/* Words with counts. Zero is an empty list. */
struct words {
        struct word {
                const char *name;
                size_t len;
                uint64_t count;
        } *list;
        size_t count, room;
};

/* The headers under @root, sorted: paths below it, each a string. Return: how many. */
size_t list_headers(const char *root, char ***ret_paths, size_t *ret_bytes);
/* The result for one file, "IDENTIFIER COUNT" a line; to be freed. What cannot be read counts as empty. Return: its length. */
size_t index_file(const char *root, const char *path, char **ret_result, uint64_t *ret_count);
/* Add a result; the list keeps a copy. */
void words_add_result(struct words *words, const char *result, size_t len);
/* Print the @count most frequent words. */
void words_print(struct words *words, size_t count);

#endif
