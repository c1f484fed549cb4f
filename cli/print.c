/*
 * Text and JSON on standard output. The JSON is written by hand, because agentctl needs so little
 * of it that a library would be longer to use.
 *
 * Always true: these functions print only printable ASCII and line ends, whatever the bytes were,
 * so that no byte sequence from the bus reaches a terminal raw.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define SHOWN_MAX 60 /* characters of a value on a terminal */

static bool first_field; /* the open object or list is empty so far */

bool cli_on_terminal(void)
{
        static int known = -1; /* it is asked for each value of a scan */

        if (known < 0)
                known = isatty(STDOUT_FILENO) == 1;
        return known == 1;
}

void cli_write_escaped(FILE *to, struct sb_bytes bytes)
{
        const unsigned char *p = bytes.data;

        for (size_t i = 0; i < bytes.len; i++) {
                if (p[i] == '\\')
                        fputs("\\\\", to);
                else if (p[i] == '\n')
                        fputs("\\n", to);
                else if (p[i] == '\t')
                        fputs("\\t", to);
                else if (p[i] == '\r')
                        fputs("\\r", to);
                else if (p[i] < 0x20 || p[i] > 0x7e)
                        fprintf(to, "\\x%02x", p[i]);
                else
                        putc(p[i], to);
        }
}

void cli_print_escaped(struct sb_bytes bytes)
{
        cli_write_escaped(stdout, bytes);
}

const char *cli_bytes_words(uint64_t bytes, char text[static 32])
{
        static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
        double amount = (double)bytes;
        unsigned unit = 0;

        while (amount >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
                amount /= 1024;
                unit++;
        }
        snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", amount, units[unit]);
        return text;
}

/* How many characters cli_print_escaped() prints for a byte. */
static size_t print_escaped_len(unsigned char byte)
{
        if (byte == '\\' || byte == '\n' || byte == '\t' || byte == '\r')
                return 2;
        return byte < 0x20 || byte > 0x7e ? 4 : 1;
}

/* Up to so many characters; of longer ones it also says how many bytes there are. */
static void print_shortened(struct sb_bytes bytes, size_t shown_max)
{
        const unsigned char *p = bytes.data;
        size_t count = 0;

        for (size_t shown = 0; count < bytes.len; count++) {
                shown += print_escaped_len(p[count]);
                if (shown > shown_max)
                        break;
        }
        cli_print_escaped((struct sb_bytes){p, count});
        if (count < bytes.len)
                printf("... (%zu bytes)", bytes.len);
}

void cli_print_shown(const struct cli *cli, struct sb_bytes value)
{
        if (cli->full || !cli_on_terminal())
                cli_print_escaped(value);
        else
                print_shortened(value, SHOWN_MAX);
}

static const char base64_digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void cli_print_base64(struct sb_bytes bytes)
{
        const unsigned char *p = bytes.data;

        for (size_t i = 0; i < bytes.len; i += 3) {
                size_t left = bytes.len - i;
                uint32_t group = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                                 (left > 2 ? p[i + 2] : 0);

                putchar(base64_digits[group >> 18]);
                putchar(base64_digits[group >> 12 & 63]);
                putchar(left > 1 ? base64_digits[group >> 6 & 63] : '=');
                putchar(left > 2 ? base64_digits[group & 63] : '=');
        }
}

/* The value of each digit of base64, and 1; 0: it is none. */
static const unsigned char *print_base64_values(void)
{
        static unsigned char values[256];

        if (values['A'] == 0)
                for (unsigned i = 0; i < 64; i++)
                        values[(unsigned char)base64_digits[i]] = (unsigned char)(i + 1);
        return values;
}

int cli_base64_decode(const char *text, unsigned char *ret_bytes, size_t *ret_len)
{
        const unsigned char *values = print_base64_values();
        size_t text_len = strlen(text), padding = 0, len = 0;
        uint32_t group = 0;

        if (text_len % 4 != 0)
                return -EINVAL;
        while (padding < 2 && padding < text_len && text[text_len - 1 - padding] == '=')
                padding++;
        for (size_t i = 0; i < text_len; i++) {
                unsigned char value =
                        i < text_len - padding ? values[(unsigned char)text[i]] : values['A'];

                if (value == 0)
                        return -EINVAL;
                group = group << 6 | (uint32_t)(value - 1);
                if (i % 4 == 3) {
                        ret_bytes[len++] = (unsigned char)(group >> 16);
                        ret_bytes[len++] = (unsigned char)(group >> 8);
                        ret_bytes[len++] = (unsigned char)group;
                        group = 0;
                }
        }
        *ret_len = len - padding;
        return 0;
}

size_t cli_utf8_decode(const unsigned char *p, size_t len, uint32_t *ret_point)
{
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        size_t need = p[0] < 0x80   ? 1
                      : p[0] < 0xc2 ? 0
                      : p[0] < 0xe0 ? 2
                      : p[0] < 0xf0 ? 3
                      : p[0] < 0xf5 ? 4
                                    : 0;
        uint32_t point;

        if (need == 0 || need > len)
                return 0;
        point = need == 1 ? p[0] : p[0] & (0x7fu >> need);
        for (size_t i = 1; i < need; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
                point = point << 6 | (p[i] & 0x3f);
        }
        if (point < least[need] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
                return 0;
        *ret_point = point;
        return need;
}

static bool print_is_utf8(struct sb_bytes bytes)
{
        const unsigned char *p = bytes.data;
        uint32_t point;

        for (size_t i = 0, step; i < bytes.len; i += step) {
                step = cli_utf8_decode(p + i, bytes.len - i, &point);
                if (step == 0)
                        return false;
        }
        return true;
}

/* Print a JSON string; a byte that is not UTF-8 comes out as U+FFFD. */
static void print_json_string(struct sb_bytes bytes)
{
        const unsigned char *p = bytes.data;
        uint32_t point;

        putchar('"');
        for (size_t i = 0, step; i < bytes.len; i += step) {
                step = cli_utf8_decode(p + i, bytes.len - i, &point);
                if (step == 0) {
                        step = 1;
                        point = 0xfffd;
                }
                if (point == '"' || point == '\\')
                        printf("\\%c", (int)point);
                else if (point >= 0x20 && point < 0x7f)
                        putchar((int)point);
                else if (point < 0x10000)
                        printf("\\u%04x", point);
                else
                        printf("\\u%04x\\u%04x", 0xd7c0 + (point >> 10), 0xdc00 + (point & 0x3ff));
        }
        putchar('"');
}

static void print_json_name(const char *name)
{
        if (!first_field)
                putchar(',');
        first_field = false;
        if (name)
                printf("\"%s\":", name);
}

void cli_print_bytes(const struct cli *cli, struct sb_bytes bytes)
{
        if (cli->base64)
                cli_print_base64(bytes);
        else
                cli_print_escaped(bytes);
}

void cli_json_begin(void)
{
        putchar('{');
        first_field = true;
}

void cli_json_number(const char *name, uint64_t value)
{
        print_json_name(name);
        printf("%llu", (unsigned long long)value);
}

void cli_json_flag(const char *name, bool value)
{
        print_json_name(name);
        fputs(value ? "true" : "false", stdout);
}

void cli_json_text(const char *name, const char *value)
{
        print_json_name(name);
        print_json_string((struct sb_bytes){value, strlen(value)});
}

void cli_json_bytes(const char *name, struct sb_bytes bytes, bool base64)
{
        char with_suffix[64];

        if (!base64 && print_is_utf8(bytes)) {
                print_json_name(name);
                print_json_string(bytes);
                return;
        }
        snprintf(with_suffix, sizeof(with_suffix), "%s_base64", name);
        print_json_name(with_suffix);
        putchar('"');
        cli_print_base64(bytes);
        putchar('"');
}

void cli_json_list_begin(const char *name)
{
        print_json_name(name);
        putchar('[');
        first_field = true;
}

void cli_json_list_text(const char *value)
{
        cli_json_text(NULL, value);
}

void cli_json_list_number(uint64_t value)
{
        cli_json_number(NULL, value);
}

void cli_json_list_end(void)
{
        putchar(']');
        first_field = false;
}

void cli_json_end(void)
{
        puts("}");
}

void cli_json_guard(const struct cli *cli, const struct sb_guard *guard, bool value)
{
        cli_json_begin();
        cli_json_bytes("key", guard->key, cli->base64);
        if (value)
                cli_json_bytes("value", guard->value, false);
        cli_json_number("rev", guard->rev);
        cli_json_text("kind", cli_kind_name(guard->kind));
        cli_json_number("cut", guard->cut);
        cli_json_end();
}
