/* Reading a line of JSON; see json.h. */
#include "cli/json.h"

#include <errno.h>
#include <string.h>

#include "cli/cli.h"

void cli_json_read(struct cli_json *json, char *line, size_t len)
{
        *json = (struct cli_json){.line = line, .at = line, .end = line + len};
}

size_t cli_json_place(const struct cli_json *json)
{
        return (size_t)(json->at - json->line) + 1;
}

static int json_fail(struct cli_json *json, const char *wrong)
{
        json->wrong = wrong;
        return -EBADMSG;
}

static void json_pass_blanks(struct cli_json *json)
{
        while (json->at < json->end && (*json->at == ' ' || *json->at == '\t'))
                json->at++;
}

/* Pass over @wanted, and the blanks before it. Return: whether it was there. */
static bool json_pass(struct cli_json *json, char wanted)
{
        json_pass_blanks(json);
        if (json->at == json->end || *json->at != wanted)
                return false;
        json->at++;
        return true;
}

/* Read four hexadecimal digits. Return: 0, -EBADMSG. */
static int json_read_unit(struct cli_json *json, uint32_t *ret_unit)
{
        uint32_t unit = 0;

        if (json->end - json->at < 4)
                return json_fail(json, "four hexadecimal digits stand behind \\u");
        for (int i = 0; i < 4; i++) {
                char digit = *json->at;

                if (digit >= '0' && digit <= '9')
                        unit = unit << 4 | (uint32_t)(digit - '0');
                else if (digit >= 'a' && digit <= 'f')
                        unit = unit << 4 | (uint32_t)(digit - 'a' + 10);
                else if (digit >= 'A' && digit <= 'F')
                        unit = unit << 4 | (uint32_t)(digit - 'A' + 10);
                else
                        return json_fail(json, "four hexadecimal digits stand behind \\u");
                json->at++;
        }
        *ret_unit = unit;
        return 0;
}

/* Read what stands behind \u: a character, or the two halves of one. Return: 0, -EBADMSG. */
static int json_read_point(struct cli_json *json, uint32_t *ret_point)
{
        uint32_t unit, low;
        int r = json_read_unit(json, &unit);

        if (r != 0)
                return r;
        if (unit < 0xd800 || unit > 0xdfff) {
                *ret_point = unit;
                return 0;
        }
        if (unit > 0xdbff || json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
                return json_fail(json, "half of a surrogate pair stands alone");
        json->at += 2;
        r = json_read_unit(json, &low);
        if (r != 0)
                return r;
        if (low < 0xdc00 || low > 0xdfff)
                return json_fail(json, "half of a surrogate pair stands alone");
        *ret_point = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        return 0;
}

/* Write a character as UTF-8. Return: behind it. */
static char *json_write_point(char *out, uint32_t point)
{
        if (point < 0x80) {
                *out++ = (char)point;
                return out;
        }
        if (point < 0x800) {
                *out++ = (char)(0xc0 | point >> 6);
        } else {
                if (point < 0x10000) {
                        *out++ = (char)(0xe0 | point >> 12);
                } else {
                        *out++ = (char)(0xf0 | point >> 18);
                        *out++ = (char)(0x80 | (point >> 12 & 0x3f));
                }
                *out++ = (char)(0x80 | (point >> 6 & 0x3f));
        }
        *out++ = (char)(0x80 | (point & 0x3f));
        return out;
}

/* Decode what stands behind a backslash to *out. Return: 0, -EBADMSG. */
static int json_read_escape(struct cli_json *json, char **out)
{
        static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        const char *escape;
        uint32_t point;
        int r;

        if (json->at == json->end)
                return json_fail(json, "the line ends in a text");
        escape = *json->at != '\0' ? strchr(escapes, *json->at) : NULL;
        if (escape) {
                *(*out)++ = meanings[escape - escapes];
                json->at++;
                return 0;
        }
        if (*json->at != 'u')
                return json_fail(json, "JSON has no such escape");
        json->at++;
        r = json_read_point(json, &point);
        if (r == 0)
                *out = json_write_point(*out, point);
        return r;
}

/* Take bytes that stand for themselves, up to a quote or a backslash, to *out. Return: 0, -EBADMSG.
 */
static int json_take_plain(struct cli_json *json, char **out)
{
        const char *begin = json->at;
        uint32_t point;
        size_t len;

        while (json->at < json->end && *json->at != '"' && *json->at != '\\') {
                unsigned char byte = (unsigned char)*json->at;

                if (byte < 0x20)
                        return json_fail(json, "a control character stands in a text");
                len = byte < 0x80 ? 1
                                  : cli_utf8_decode((const unsigned char *)json->at,
                                            (size_t)(json->end - json->at), &point);
                if (len == 0)
                        return json_fail(json, "a byte is not UTF-8");
                json->at += len;
        }
        len = (size_t)(json->at - begin);
        if (*out != begin) /* an escape stood before them */
                memmove(*out, begin, len);
        *out += len;
        return 0;
}

/* Read a text behind its quote, in place. Return: 0, -EBADMSG. */
static int json_read_text(struct cli_json *json, struct sb_bytes *ret_text)
{
        char *const begin = json->at, *out = begin;
        int r;

        for (;;) {
                r = json_take_plain(json, &out);
                if (r != 0)
                        return r;
                if (json->at == json->end)
                        return json_fail(json, "the line ends in a text");
                if (*json->at++ == '"')
                        break;
                r = json_read_escape(json, &out);
                if (r != 0)
                        return r;
        }
        *out = '\0';
        *ret_text = (struct sb_bytes){begin, (size_t)(out - begin)};
        return 0;
}

/* Read a whole number. Return: 0, -EBADMSG. */
static int json_read_number(struct cli_json *json, uint64_t *ret_number)
{
        const char *begin = json->at;
        uint64_t number = 0;

        for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++)
                if (__builtin_mul_overflow(number, 10, &number) ||
                        __builtin_add_overflow(number, (uint64_t)(*json->at - '0'), &number))
                        return json_fail(json, "a number has more than 64 bits");
        if (json->at == begin)
                return json_fail(json, "a value is neither a text nor a number from 0 on");
        if (*begin == '0' && json->at != begin + 1)
                return json_fail(json, "a number begins with a 0");
        if (json->at < json->end && memchr(".eE", *json->at, 3))
                return json_fail(json, "a number is not whole");
        *ret_number = number;
        return 0;
}

int cli_json_next(struct cli_json *json, struct cli_json_field *ret_field)
{
        struct cli_json_field field = {0};
        bool first = !json->begun;
        int r;

        if (first && !json_pass(json, '{'))
                return json_fail(json, "it is no object of JSON, which begins with {");
        json->begun = true;
        if (json_pass(json, '}')) {
                json_pass_blanks(json);
                return json->at == json->end ? SB_E_NOT_FOUND
                                             : json_fail(json, "more stands behind the object");
        }
        if (!first && !json_pass(json, ','))
                return json_fail(json, "a , or a } is missing");
        if (!json_pass(json, '"'))
                return json_fail(json, "the name of a field is missing");
        r = json_read_text(json, &field.name);
        if (r != 0)
                return r;
        if (!json_pass(json, ':'))
                return json_fail(json, "a : is missing behind the name of a field");
        field.is_text = json_pass(json, '"');
        r = field.is_text ? json_read_text(json, &field.text)
                          : json_read_number(json, &field.number);
        if (r == 0)
                *ret_field = field;
        return r;
}
