/*
 * The demo's work itself, which knows nothing of the bus: it finds the headers in a folder, and the
 * identifiers in one of them.
 *
 * Always true: a result depends on the file and the pass alone, so a worker that makes it again
 * makes the same bytes.
 */
#ifndef DEMO_COUNT_H
#define DEMO_COUNT_H

#include <stddef.h>
#include <stdint.h>

#define PATH_BYTES_MAX                                                                             \
        1000 /* bytes of a path below the root; longer paths do not fit a key and are left out */

struct headers {
        char *root;   /* the folder */
        char **paths; /* relative to it, sorted */
        size_t count, bytes;
};

/* Words with counts. All bytes zero is an empty list. */
struct words {
        struct word {
                const char *name;
                size_t len;
                uint64_t count;
        } * list;
        size_t count, room;
        char **texts; /* copies of the results that names point into */
        size_t text_count;
};

/* Find the headers in the folder that the command line names, and below. When there are none, say
 * why and end the program. */
struct headers find_headers(int argc, char **argv);
#define LETTERS   27
#define LETTER(i) ((char)((i) < 26 ? 'a' + (i) : '_'))

/* The result for one file: "PASS COUNT", then "IDENTIFIER COUNT", a line each; and how many
 * identifiers begin with each letter, small or large. */
struct result {
        char *text; /* the caller frees it */
        size_t len;
        uint64_t count, by_letter[LETTERS];
};
/* Count the identifiers of one header. A file that cannot be read counts as empty. */
struct result index_file(const struct headers *headers, size_t number, uint64_t pass);
/* Add the counts of a result's text; the list keeps a copy. */
void words_add_result(struct words *words, const char *result, size_t len);
/* Print the @count most frequent words. */
void words_print(struct words *words, size_t count);
void words_free(struct words *words);

#endif
