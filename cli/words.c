/*
 * Splitting a line into words, quoted as in a shell:
 *
 *     a\ b 'a b' "a b"    one word each: a blank, kept by a backslash or by quotes
 *     'a\n"$x'            in single quotes each byte stands for itself
 *     "a \" \\ \$ \`"     in double quotes a backslash quotes these four, and else stands for
 * itself
 *     $'\n\t\r\\\'\x1b'   escapes, as scan prints them: the way to give any byte but zero
 *
 * Blanks are the space and the tab. Nothing is expanded: outside of quotes $, *, ~ ; and their like
 * stand for themselves, so that a value is never changed behind its writer's back.
 *
 * Always true: a word is no longer than what it was read from, so it is written over that.
 */
#include "cli/words.h"

#include <stdbool.h>
#include <string.h>

/* What is read and what is written, in the same line. */
struct words_place {
        const char *in, *end;
        char *out;
};

static int words_hex_digit(char digit)
{
        if (digit >= '0' && digit <= '9')
                return digit - '0';
        if (digit >= 'a' && digit <= 'f')
                return digit - 'a' + 10;
        return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* Read what stands behind a backslash in $'...'. Return: NULL, or what is wrong. */
static const char *words_read_escape(struct words_place *at)
{
        static const char names[] = "\\'\"ntr", bytes[] = "\\'\"\n\t\r";
        const char *name;
        int high, low;

        if (at->in == at->end)
                return "$' is not closed";
        if (*at->in == 'x') {
                high = at->end - at->in > 2 ? words_hex_digit(at->in[1]) : -1;
                low = high >= 0 ? words_hex_digit(at->in[2]) : -1;
                if (low < 0)
                        return "two hexadecimal digits stand behind \\x";
                if (high == 0 && low == 0)
                        return "no word holds a zero byte: give it with --base64";
                *at->out++ = (char)(16 * high + low);
                at->in += 3;
                return NULL;
        }
        name = memchr(names, *at->in, sizeof(names) - 1);
        if (!name)
                return "$'...' has the escapes \\\\ \\' \\\" \\n \\t \\r and \\xHH alone";
        *at->out++ = bytes[name - names];
        at->in++;
        return NULL;
}

/* Read up to the closing quote; @at stands behind the opening one. Return: NULL, or what is
 * wrong. */
static const char *words_read_quoted(struct words_place *at, char quote, bool escapes)
{
        const char *wrong;

        while (at->in < at->end && *at->in != quote) {
                char byte = *at->in++;

                if (byte == '\\' && escapes) {
                        wrong = words_read_escape(at);
                        if (wrong)
                                return wrong;
                        continue;
                }
                if (byte == '\\' && quote == '"' && at->in < at->end &&
                        memchr("\"\\$`", *at->in, 4))
                        byte = *at->in++;
                *at->out++ = byte;
        }
        if (at->in == at->end)
                return quote == '"' ? "a \" is not closed" : "a ' is not closed";
        at->in++;
        return NULL;
}

static const char *words_read_word(struct words_place *at)
{
        const char *wrong = NULL;

        while (!wrong && at->in < at->end && *at->in != ' ' && *at->in != '\t') {
                char byte = *at->in++;

                if (byte == '$' && at->in < at->end && *at->in == '\'') {
                        at->in++;
                        wrong = words_read_quoted(at, '\'', true);
                } else if (byte == '\'' || byte == '"') {
                        wrong = words_read_quoted(at, byte, false);
                } else if (byte == '\\' && at->in == at->end) {
                        wrong = "a backslash at its end quotes nothing";
                } else {
                        *at->out++ = byte == '\\' ? *at->in++ : byte;
                }
        }
        return wrong;
}

const char *cli_split(char *line, size_t len, char **words, size_t words_max, size_t *ret_count)
{
        struct words_place at = {.in = line, .end = line + len, .out = line};
        const char *wrong;
        size_t count = 0;

        if (memchr(line, '\0', len))
                return "a zero byte stands in it: give it with --base64";
        for (;;) {
                while (at.in < at.end && (*at.in == ' ' || *at.in == '\t'))
                        at.in++;
                if (at.in == at.end)
                        break;
                if (count == words_max)
                        return "it has too many words";
                words[count++] = at.out;
                wrong = words_read_word(&at);
                if (wrong)
                        return wrong;
                /* The blank behind the word has been read before its place is written. */
                if (at.in < at.end)
                        at.in++;
                *at.out++ = '\0';
        }
        *ret_count = count;
        return NULL;
}
