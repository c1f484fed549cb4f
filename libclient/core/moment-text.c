/* Texts that name moments; see moment-text.h. A reader goes along the text and stops where the form
 * that it knows does not go on. */

#include "libclient/core/moment-text.h"

#include <stddef.h>
#include <string.h>

#define SECOND_NS 1000000000u

/* What is left of a text. */
struct rest {
        const char *at;
        size_t len;
};

/* Goes past @byte. Return: whether it was there. */
static bool moment_text_skip(struct rest *rest, char byte)
{
        if (rest->len == 0 || *rest->at != byte)
                return false;
        rest->at++;
        rest->len--;
        return true;
}

static bool moment_text_digit(const struct rest *rest)
{
        return rest->len > 0 && *rest->at >= '0' && *rest->at <= '9';
}

/* Reads a number of at most @digits_max digits, from @low to @high. */
static bool moment_text_number(
        struct rest *rest, uint32_t digits_max, uint32_t low, uint32_t high, uint32_t *ret)
{
        uint32_t number = 0, digits;

        for (digits = 0; digits < digits_max && moment_text_digit(rest); digits++) {
                number = 10 * number + (uint32_t)(*rest->at - '0');
                (void)moment_text_skip(rest, *rest->at);
        }
        *ret = number;
        return digits > 0 && number >= low && number <= high;
}

/* Reads the digits of a fraction of a second, of which the first nine count. */
static void moment_text_fraction(struct rest *rest, uint32_t *ret_ns)
{
        uint32_t unit = SECOND_NS;

        for (*ret_ns = 0; moment_text_digit(rest); (void)moment_text_skip(rest, *rest->at)) {
                unit /= 10;
                *ret_ns += (uint32_t)(*rest->at - '0') * unit;
        }
}

/* What stands behind an @: digits, and perhaps a point and more digits. */
static bool moment_text_seconds(struct rest rest, struct sb_moment_text *ret)
{
        bool more = false;

        if (!moment_text_digit(&rest))
                return false;
        for (; moment_text_digit(&rest); (void)moment_text_skip(&rest, *rest.at))
                more |= __builtin_mul_overflow(ret->seconds, 10, &ret->seconds) ||
                        __builtin_add_overflow(
                                ret->seconds, (uint64_t)(*rest.at - '0'), &ret->seconds);
        if (more)
                ret->seconds = UINT64_MAX;
        if (moment_text_skip(&rest, '.'))
                moment_text_fraction(&rest, &ret->fraction_ns);
        return rest.len == 0;
}

/* The zone at the end of a date: Z, +HH:MM or -HH:MM; none: the time is local. */
static bool moment_text_zone(struct rest *rest, struct sb_moment_text *ret)
{
        uint32_t hours, minutes;
        bool west;

        ret->local = rest->len == 0;
        if (ret->local || moment_text_skip(rest, 'Z'))
                return true;
        west = moment_text_skip(rest, '-');
        if ((!west && !moment_text_skip(rest, '+')) ||
                !moment_text_number(rest, 2, 0, 23, &hours) || !moment_text_skip(rest, ':') ||
                !moment_text_number(rest, 2, 0, 59, &minutes))
                return false;
        ret->zone_minutes = (int32_t)(60 * hours + minutes) * (west ? -1 : 1);
        return true;
}

/* How many days the month has. */
static uint32_t moment_text_days(uint32_t year, uint32_t month)
{
        bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

        if (month == 2)
                return leap ? 29 : 28;
        return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* 2025-06-01, 2025-06-01T12:30, 2025-06-01 12:30:05.25+02:00 ... */
static bool moment_text_date(struct rest rest, struct sb_moment_text *ret)
{
        if (!moment_text_number(&rest, 4, 0, 9999, &ret->year) || !moment_text_skip(&rest, '-') ||
                !moment_text_number(&rest, 2, 1, 12, &ret->month) ||
                !moment_text_skip(&rest, '-') ||
                !moment_text_number(
                        &rest, 2, 1, moment_text_days(ret->year, ret->month), &ret->day))
                return false;
        if (moment_text_skip(&rest, 'T') || moment_text_skip(&rest, ' ')) {
                if (!moment_text_number(&rest, 2, 0, 23, &ret->hour) ||
                        !moment_text_skip(&rest, ':') ||
                        !moment_text_number(&rest, 2, 0, 59, &ret->minute))
                        return false;
                if (moment_text_skip(&rest, ':')) {
                        if (!moment_text_number(&rest, 2, 0, 60, &ret->second))
                                return false;
                        if (moment_text_skip(&rest, '.') || moment_text_skip(&rest, ','))
                                moment_text_fraction(&rest, &ret->fraction_ns);
                }
        }
        return moment_text_zone(&rest, ret) && rest.len == 0;
}

static bool moment_text_is_number(struct rest rest)
{
        while (moment_text_digit(&rest))
                (void)moment_text_skip(&rest, *rest.at);
        return rest.len == 0;
}

enum sb_moment_text_kind sb_moment_text_read(struct sb_bytes text, struct sb_moment_text *ret)
{
        struct rest rest = {text.data, text.len};
        struct sb_moment_text moment = {0};
        enum sb_moment_text_kind kind = SB_MOMENT_TEXT_NAME;

        if (rest.len == 0)
                return SB_MOMENT_TEXT_NOTHING;
        if (rest.len == 3 && memcmp(rest.at, "now", 3) == 0)
                return SB_MOMENT_TEXT_NOW;
        if (moment_text_is_number(rest))
                return SB_MOMENT_TEXT_NUMBER;
        if (moment_text_skip(&rest, '@'))
                kind = moment_text_seconds(rest, &moment) ? SB_MOMENT_TEXT_SECONDS
                                                          : SB_MOMENT_TEXT_NOTHING;
        else if (moment_text_date(rest, &moment))
                kind = SB_MOMENT_TEXT_DATE;
        if (kind == SB_MOMENT_TEXT_SECONDS || kind == SB_MOMENT_TEXT_DATE)
                *ret = moment;
        return kind;
}
