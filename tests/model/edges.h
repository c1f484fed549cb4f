/* All accesses of shm/ and ring/ that order something, with the edges that their comments name:
 * edges.py writes the table out of the sources. */
#ifndef TESTS_MODEL_EDGES_H
#define TESTS_MODEL_EDGES_H

#include <stdint.h>

#define SITES_MAX 1024u

enum site_kind { SITE_ACQUIRE, SITE_RELEASE, SITE_LOCKED };
struct site {
        const char *file;
        uint32_t first, last; /* lines */
        enum site_kind kind;
        const char *edges; /* " A:x R:y " */
};
extern const struct site sites[SITES_MAX];
extern const uint32_t site_count;

#endif
