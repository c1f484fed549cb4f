/*
 * A bus on paper, for commands of agentctl: a list of keys, and one of rules of history. What the
 * library would do with a segment is done with these lists; nothing is shared, and nothing lasts.
 * Programs with it are linked so that the library's calls come here (see meson.build).
 *
 * Always true: keys are set in their order, each once; what comes otherwise ends the program.
 */
#ifndef SB_TESTS_PAPER_BUS_H
#define SB_TESTS_PAPER_BUS_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/statebus.h"

#define PAPER_KEYS_MAX  4096u
#define PAPER_RULES_MAX 1024u
#define PAPER_BYTES_MAX (256u << 10)

struct paper_key {
        uint32_t key_at, key_len, value_at, value_len; /* in the bytes */
};
struct paper_rule {
        uint32_t key_at, key_len;
        bool prefix;
        uint32_t kind;
        uint64_t value;
};
struct paper {
        struct paper_key keys[PAPER_KEYS_MAX];
        struct paper_rule rules[PAPER_RULES_MAX];
        uint32_t key_count, rule_count, bytes_used;
        unsigned char bytes[PAPER_BYTES_MAX];
};

/* The bus that the library's calls are about. */
extern struct paper *paper_open;
#define PAPER_KEY_LEN_MAX   1024u
#define PAPER_VALUE_LEN_MAX 2048u

void paper_clear(struct paper *paper);
void paper_set(struct paper *paper, struct sb_bytes key, struct sb_bytes value);
void paper_keep(struct paper *paper, struct sb_bytes key, bool prefix, const struct sb_rule *rule);
/* Whether there is that rule. */
bool paper_kept(struct paper *paper, struct sb_bytes key, bool prefix, struct sb_rule *ret_rule);
/* Whether @part has the first keys and rules of @whole, and no others. */
bool paper_is_part(const struct paper *part, const struct paper *whole);

#endif
