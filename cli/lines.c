/* The lines of a file or a pipe; see lines.h. */
#include "cli/lines.h"

#include <errno.h>
#include <mimalloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libclient/statebus.h"

#define INPUT_SIZE 65536u

/* Make room behind what was not given out yet, for one byte more than is read. */
static int lines_make_room(struct cli_lines *lines)
{
        char *larger;

        if (lines->at != 0) {
                memmove(lines->bytes, lines->bytes + lines->at, lines->len - lines->at);
                lines->len -= lines->at;
                lines->at = 0;
        }
        if (lines->size - lines->len > INPUT_SIZE / 2)
                return 0;
        larger = mi_realloc(lines->bytes, lines->size + lines->len + INPUT_SIZE);
        if (!larger)
                return -ENOMEM;
        lines->bytes = larger;
        lines->size += lines->len + INPUT_SIZE;
        return 0;
}

/* Read what there is, up to the room. */
static int lines_read(struct cli_lines *lines)
{
        ssize_t got;
        int r;

        if (lines->len - lines->at > lines->line_max)
                return -EMSGSIZE;
        r = lines_make_room(lines);
        if (r != 0)
                return r;
        fflush(stdout); /* main says it when this fails */
        do
                got = read(lines->fd, lines->bytes + lines->len, lines->size - lines->len - 1);
        while (got < 0 && errno == EINTR);
        if (got < 0)
                return -errno;
        lines->len += (size_t)got;
        lines->ended = got == 0;
        return 0;
}

int cli_lines_next(struct cli_lines *lines, char **ret_line, size_t *ret_len, bool *ret_whole)
{
        char *line, *end;
        size_t len;
        int r;

        for (;;) {
                line = lines->bytes + lines->at;
                len = lines->len - lines->at;
                end = len > lines->looked ? memchr(line + lines->looked, '\n', len - lines->looked)
                                          : NULL;
                lines->looked = len;
                if (end || lines->ended)
                        break;
                r = lines_read(lines);
                if (r != 0)
                        return r;
        }
        lines->looked = 0;
        if (!end && len == 0)
                return SB_E_NOT_FOUND;
        if (end)
                len = (size_t)(end - line);
        lines->at += end ? len + 1 : len;
        line[len] = '\0';
        *ret_line = line;
        *ret_len = len;
        *ret_whole = end;
        return 0;
}

void cli_lines_free(struct cli_lines *lines)
{
        mi_free(lines->bytes);
        lines->bytes = NULL;
}
