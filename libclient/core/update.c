/*
 * Read, change, compare and set, as one call: by a caller's function, or by one of those in this
 * file (a sum, a maximum, a tail).
 *
 * Always true: an attempt that fails has lost against a write that succeeded, so some of the
 * processes that update one key get on. Each one pauses longer before every further
 * attempt, up to some microseconds, so that few are in each other's way.
 *
 * The public calls are described in statebus.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/core/number.h"
#include "libclient/core/use.h"
#include "libclient/core/write.h"
#include "shm/base/os.h"

#define ATTEMPTS_MAX 1000u
#define PAUSE_MORE   5u  /* the first pause has at most 2 to the power of this + 1 turns */
#define PAUSE_BITS   10u /* some twenty microseconds on average */

/* Make one attempt. Return: as sb_update(); SB_E_CONFLICT: another write came in between. */
static int update_once(struct sb_bus *bus, struct sb_bytes key, sb_update_function *function,
        void *argument, const struct sb_write *how, uint64_t *ret_rev)
{
        struct sb_bytes value = {NULL, 0};
        sb_auto(sb_guard_release) struct sb_guard old; /* released by an exception, too */
        int r;

        memset(&old, 0, sizeof(old));
        r = sb_get(bus, key, &old);
        if (r != 0 && r != SB_E_NOT_FOUND)
                return r;
        r = function(argument, &old, &value);
        if (r == 0)
                r = sb_cas(bus, key, !old.bus ? 0 : old.rev, value, how, ret_rev);
        else if (r == SB_E_CONFLICT)
                r = -ECANCELED; /* the function's own answer: no reason to try again */
        return r;
}

int sb_update(struct sb_bus *bus, struct sb_bytes key, sb_update_function *function, void *argument,
        const struct sb_write *how, uint64_t *ret_rev)
{
        int r;

        SB_USE(bus, sb_update(bus, key, function, argument, how, ret_rev));
        if (!bus || !function)
                return -EINVAL;
        r = sb_bus_key_check(bus, key);
        if (r == 0)
                r = sb_write_check(how);
        if (r == 0)
                r = sb_write_key(key);
        if (r != 0)
                return r;
        r = SB_E_CONFLICT;
        /* Bound: result. SB_E_CONFLICT: as the manual says. */
        for (uint32_t attempt = 0; attempt < ATTEMPTS_MAX && r == SB_E_CONFLICT; attempt++) {
                if (attempt)
                        sb_os_give_way(bus->handle.segment.os, attempt ^ bus->handle.slot << 8,
                                attempt + PAUSE_MORE < PAUSE_BITS ? attempt + PAUSE_MORE
                                                                  : PAUSE_BITS);
                r = update_once(bus, key, function, argument, how, ret_rev);
        }
        return r;
}

/* ---- integers ---- */

struct number {
        int64_t by, result;
        char text[SB_NUMBER_LEN_MAX];
};

/* The function of sb_incr(). */
static int update_add(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        struct number *number = argument;
        int64_t present = 0;

        if (old->bus && !sb_number_read(old->value, &present))
                return -EBADMSG;
        if (__builtin_add_overflow(present, number->by, &number->result))
                return -ERANGE;
        *ret_value = sb_number_print(number->result, number->text);
        return 0;
}

/* The function of sb_max(). Return: -EALREADY: the key has as much. */
static int update_raise_to(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        struct number *number = argument;

        number->result = number->by;
        if (old->bus && !sb_number_read(old->value, &number->result))
                return -EBADMSG;
        if (old->bus && number->result >= number->by)
                return -EALREADY;
        number->result = number->by;
        *ret_value = sb_number_print(number->result, number->text);
        return 0;
}

int sb_incr(struct sb_bus *bus, struct sb_bytes key, int64_t by, const struct sb_write *how,
        int64_t *ret_sum, uint64_t *ret_rev)
{
        struct number number = {.by = by};
        int r;

        SB_USE(bus, sb_incr(bus, key, by, how, ret_sum, ret_rev));
        r = sb_update(bus, key, update_add, &number, how, ret_rev);
        if (r == 0 && ret_sum)
                *ret_sum = number.result;
        return r;
}

int sb_max(struct sb_bus *bus, struct sb_bytes key, int64_t number, const struct sb_write *how,
        int64_t *ret_max, uint64_t *ret_rev)
{
        struct number wanted = {.by = number};
        int r;

        SB_USE(bus, sb_max(bus, key, number, how, ret_max, ret_rev));
        r = sb_update(bus, key, update_raise_to, &wanted, how, ret_rev);
        if (r == -EALREADY)
                r = 0;
        if (r == 0 && ret_max)
                *ret_max = wanted.result;
        return r;
}

/* ---- bytes ---- */

struct tail {
        struct sb_bytes bytes;
        char *whole; /* old value and bytes, on the heap */
        size_t size; /* of @whole */
};

/* The function of sb_append(). */
static int update_join(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        struct tail *tail = argument;
        size_t head = !old->bus ? 0 : old->value.len, len = head + tail->bytes.len;

        if (len > tail->size || !tail->whole) {
                char *whole = realloc(tail->whole, len + 1);

                if (!whole)
                        return -ENOMEM;
                tail->whole = whole;
                tail->size = len;
        }
        if (head)
                memcpy(tail->whole, old->value.data, head);
        if (tail->bytes.len)
                memcpy(tail->whole + head, tail->bytes.data, tail->bytes.len);
        *ret_value = (struct sb_bytes){tail->whole, len};
        return 0;
}

int sb_append(struct sb_bus *bus, struct sb_bytes key, struct sb_bytes bytes,
        const struct sb_write *how, uint64_t *ret_rev)
{
        struct tail tail = {.bytes = bytes};
        int r;

        SB_USE(bus, sb_append(bus, key, bytes, how, ret_rev));
        if (!bus || (!bytes.data && bytes.len > 0))
                return -EINVAL;
        if (bytes.len > bus->handle.segment.value_len_max)
                return -EMSGSIZE;
        r = sb_update(bus, key, update_join, &tail, how, ret_rev);
        free(tail.whole);
        return r;
}
