/* Integers as decimal text; see number.h. */

#include "libclient/core/number.h"

#include <string.h>

#include "shm/base/assert.h"

#define DIGITS_MAX 19u /* of any such number; so many nines fit 64 bits */

bool sb_number_read(struct sb_bytes text, int64_t *ret)
{
        const char *p = text.data, *end;
        uint64_t number = 0, negative, digits;

        if (SB_UNLIKELY(text.len == 0))
                return false;
        negative = *p == '-';
        p += negative;
        digits = text.len - negative;
        end = p + digits;
        if (SB_UNLIKELY(digits - 1 >= DIGITS_MAX) || SB_UNLIKELY(*p == '0' && text.len > 1))
                return false;
        for (; p < end; p++) {
                unsigned digit = (unsigned)(unsigned char)*p - '0';

                if (SB_UNLIKELY(digit > 9))
                        return false;
                number = 10 * number + digit;
        }
        if (SB_UNLIKELY(number > (uint64_t)INT64_MAX + negative))
                return false;
        *ret = (int64_t)(negative ? 0 - number : number);
        return true;
}

struct sb_bytes sb_number_print(int64_t number, char space[SB_NUMBER_LEN_MAX])
{
        static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                    "25262728293031323334353637383940414243444546474849"
                                    "50515253545556575859606162636465666768697071727374"
                                    "75767778798081828384858687888990919293949596979899";
        char *end = space + SB_NUMBER_LEN_MAX, *p = end;
        uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

        for (; left >= 100; left /= 100) {
                p -= 2;
                memcpy(p, pairs + 2 * (left % 100), 2);
        }
        if (left >= 10) {
                p -= 2;
                memcpy(p, pairs + 2 * left, 2);
        } else {
                *--p = (char)('0' + left);
        }
        if (number < 0)
                *--p = '-';
        return (struct sb_bytes){p, (size_t)(end - p)};
}
