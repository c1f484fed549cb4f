/*
 * Integers as decimal text: what counts as one, at every edge of 64 bits, and that what is printed
 * is what printf() prints and what is read back.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "libclient/core/number.h"
#include "tests/harness/test.h"
#include "tests/unit/draw.h"

#define DRAWN 200000u

/* Read text of which no byte but its own may be read: it lies at the end of its block. */
static bool reads(const char *text, size_t len, int64_t *ret)
{
        char *copy = malloc(len);
        bool read;

        if (len > 0 && !copy)
                return false;
        memcpy(copy, text, len);
        read = sb_number_read((struct sb_bytes){copy, len}, ret);
        free(copy);
        return read;
}

static bool is_number(const char *text, int64_t number)
{
        int64_t found = number ^ 1;

        return reads(text, strlen(text), &found) && found == number;
}

static bool is_none(const char *text)
{
        int64_t found = 77;

        return !reads(text, strlen(text), &found) && found == 77;
}

/* Whether a number is printed as the C library prints it, and read back. */
static bool is_said(int64_t number)
{
        char space[SB_NUMBER_LEN_MAX], text[32];
        struct sb_bytes said = sb_number_print(number, space);

        snprintf(text, sizeof(text), "%" PRId64, number);
        return said.len == strlen(text) && memcmp(said.data, text, said.len) == 0 &&
               is_number(text, number);
}

static void test_the_numbers_of_64_bits_are_read(void)
{
        CHECK(is_number("0", 0));
        CHECK(is_number("7", 7));
        CHECK(is_number("-1", -1));
        CHECK(is_number("10", 10));
        CHECK(is_number("1000000000000000000", 1000000000000000000));
        CHECK(is_number("9223372036854775806", INT64_MAX - 1));
        CHECK(is_number("9223372036854775807", INT64_MAX));
        CHECK(is_number("-9223372036854775807", INT64_MIN + 1));
        CHECK(is_number("-9223372036854775808", INT64_MIN));
}

static void test_what_does_not_fit_64_bits_is_no_number(void)
{
        CHECK(is_none("9223372036854775808"));
        CHECK(is_none("9999999999999999999"));
        CHECK(is_none("10000000000000000000"));
        CHECK(is_none("18446744073709551615"));
        CHECK(is_none("18446744073709551616"));
        CHECK(is_none("18446744073709551617"));
        CHECK(is_none("99999999999999999999"));
        CHECK(is_none("999999999999999999999"));
        CHECK(is_none("-9223372036854775809"));
        CHECK(is_none("-9999999999999999999"));
        CHECK(is_none("-18446744073709551616"));
        CHECK(is_none("-99999999999999999999"));
}

static void test_leading_zeros_signs_and_other_bytes_are_no_number(void)
{
        static const char zeros[] = "00000000000000000000";
        int64_t found = 77;

        CHECK(is_none(""));
        CHECK(is_none("-"));
        CHECK(is_none("--1"));
        CHECK(is_none("+1"));
        CHECK(is_none("-0"));
        CHECK(is_none("-01"));
        CHECK(is_none("00"));
        CHECK(is_none("01"));
        CHECK(is_none("007"));
        CHECK(is_none(zeros));
        CHECK(is_none("-00000000000000000001"));
        CHECK(is_none(" 1"));
        CHECK(is_none("1 "));
        CHECK(is_none("1-"));
        CHECK(is_none("1x"));
        CHECK(is_none("1e3"));
        CHECK(is_none("1.0"));
        CHECK(is_none("0x10"));
        CHECK(!reads("1\0", 2, &found) && !reads("\0", 1, &found));
        CHECK(!sb_number_read((struct sb_bytes){NULL, 0}, &found));
        CHECK_EQ(found, 77);
}

/* Each byte that is no digit, at each place of a number. */
static void test_every_byte_that_is_no_digit_is_seen_wherever_it_stands(void)
{
        char text[] = "1234567890123456789";
        int64_t found;

        for (size_t place = 0; place < sizeof(text) - 1; place++)
                for (int byte = 0; byte < 256; byte++) {
                        char kept = text[place];
                        /* 9234567890123456789 is too large. */
                        bool fits = place > 0 ? byte >= '0' && byte <= '9'
                                              : (byte >= '1' && byte <= '8') || byte == '-';

                        text[place] = (char)byte;
                        CHECK_EQ(reads(text, sizeof(text) - 1, &found), fits);
                        text[place] = kept;
                }
}

static void test_numbers_are_printed_as_the_c_library_prints_them_and_read_back(void)
{
        uint64_t power = 1;

        CHECK(is_said(0) && is_said(INT64_MAX) && is_said(INT64_MIN) && is_said(INT64_MIN + 1));
        for (int digits = 1; digits <= 19; digits++, power *= 10)
                for (int64_t around = -2; around <= 2; around++) {
                        CHECK(is_said((int64_t)power + around));
                        CHECK(is_said(-(int64_t)power + around));
                }
        for (int64_t number = -1100; number <= 1100; number++)
                CHECK(is_said(number));
        for (uint32_t i = 0; i < DRAWN; i++) {
                uint64_t drawn = draw_word();

                CHECK(is_said((int64_t)(drawn >> (i % 64))));
                CHECK(is_said(-(int64_t)(drawn >> (i % 64) >> 1)));
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_the_numbers_of_64_bits_are_read);
        RUN(test_what_does_not_fit_64_bits_is_no_number);
        RUN(test_leading_zeros_signs_and_other_bytes_are_no_number);
        RUN(test_every_byte_that_is_no_digit_is_seen_wherever_it_stands);
        RUN(test_numbers_are_printed_as_the_c_library_prints_them_and_read_back);
        return test_end();
}
