/*
 * Reading a line of JSON: one flat object of texts and whole numbers, which is all that the lines
 * of a dump are made of (dumped.h). What print.c writes, this reads.
 *
 * It takes JSON as RFC 8259 has it, and of that no more than such an object: no object or list in
 * it, no fraction, no sign, no true, false or null. Bytes that are not UTF-8, an escape that there
 * is not, and half of a surrogate pair are errors, never something else in their place.
 *
 * Texts are decoded in place: what an escape stands for is never longer than the escape.
 *
 * Always true: nothing outside of the line is read or written, whatever the line holds.
 */
#ifndef SB_CLI_JSON_H
#define SB_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/statebus.h"

/* A position in a line. */
struct cli_json {
        char *line, *at, *end;
        bool begun;
        const char *wrong; /* what is wrong at @at, for a message; NULL: nothing so far */
};

/* A field: its name, and a text or a number. */
struct cli_json_field {
        struct sb_bytes name;
        bool is_text;
        struct sb_bytes text; /* in the line, with a zero byte behind it; it may hold some, too */
        uint64_t number;
};

/* Begin to read the @len bytes at @line, without the line end, and overwrite them on the way. */
void cli_json_read(struct cli_json *json, char *line, size_t len);
/* Read the next field. Return: 0; SB_E_NOT_FOUND: the object and the line have ended; -EBADMSG:
 * json->wrong says what is wrong, and cli_json_place() where. */
int cli_json_next(struct cli_json *json, struct cli_json_field *ret_field);
/* The number of the byte that was looked at last, from 1 on. */
size_t cli_json_place(const struct cli_json *json);

#endif
