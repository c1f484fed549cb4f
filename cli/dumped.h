/*
 * What a dump is: its lines, and whether it is whole. No bus is needed to tell.
 *
 * A dump is text, one object of JSON a line, each with a line end:
 *
 *     {"statebus_dump":1,"cut":216,"prefix":"","agentctl":"0.1.0"}     the head: format 1
 *     {"prefix":"config/","rule":"last","versions":10}                 rules of history
 *     {"key":"config/model","value":"large","rev":4}                   keys, in byte order
 *     {"keys":1,"rules":1,"xxh3":"257421f18b7be1ef"}                   the end
 *
 * The end says how many keys and rules there were, and has the XXH3 (xxHash, Y. Collet) of 64 bits
 * of all lines before it, line ends included. So a dump that is cut off, or of which any byte was
 * changed, is found out, at the latest there. A later format has another number in its head.
 *
 * Bytes that are no UTF-8, or shorter so, stand in base64 in a field with `_base64` at its end.
 *
 * Always true: a dump that cli_dumped_finish() takes for whole has exactly the lines that were
 * written, and nothing behind them; its keys ascend, so that none is there twice.
 */
#ifndef SB_CLI_DUMPED_H
#define SB_CLI_DUMPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/statebus.h"

#define CLI_DUMPED_FORMAT  1u
#define CLI_DUMPED_BEGINS  "{\"statebus_dump\"" /* the first bytes, of every format */
#define CLI_DUMPED_KEY_MAX 1024u                /* bytes of the longest key of any bus */

enum cli_dumped_kind { CLI_DUMPED_HEAD, CLI_DUMPED_RULE, CLI_DUMPED_KEY, CLI_DUMPED_END };

/* A line. What it points to lies in the line that was read. */
struct cli_dumped_line {
        enum cli_dumped_kind kind;
        struct sb_bytes key; /* a key; of a rule its key or prefix; of the head the prefix */
        struct sb_bytes value;
        bool prefix; /* the rule is of a prefix */
        struct sb_rule rule;
};

/* How far a dump was read. */
struct cli_dumped {
        struct cli_dumped_hash *hash;
        uint64_t lines, keys, rules;
        bool ended;
        size_t prefix_len, last_len; /* of the head's prefix, and of the last key */
        unsigned char prefix[CLI_DUMPED_KEY_MAX], last[CLI_DUMPED_KEY_MAX];
        char wrong[256]; /* of a line or of the dump; for a message */
};

/* Return: 0, -ENOMEM. cli_dumped_end() gives the memory back, also of one that is all zero. */
int cli_dumped_begin(struct cli_dumped *dumped);
void cli_dumped_end(struct cli_dumped *dumped);
/* Read the next line: the @len bytes at @line, which are overwritten, and the line end behind them.
 * Return: 0; -EBADMSG: dumped->wrong says what is wrong with it. */
int cli_dumped_take(
        struct cli_dumped *dumped, char *line, size_t len, struct cli_dumped_line *ret_line);
/* Behind the last line: whether it was the end. Return: 0, -EBADMSG as above. */
int cli_dumped_finish(struct cli_dumped *dumped);

/* The hash of the lines of a dump, for the writer, too. */
struct cli_dumped_hash;
struct cli_dumped_hash *cli_dumped_hash_new(void); /* NULL without memory */
struct cli_dumped_hash *cli_dumped_hash_free(struct cli_dumped_hash *hash);
void cli_dumped_hash_add(struct cli_dumped_hash *hash, const void *bytes, size_t len);
/* What was added so far, as 16 hexadecimal digits. */
void cli_dumped_hash_words(const struct cli_dumped_hash *hash, char ret_words[static 17]);

#endif
