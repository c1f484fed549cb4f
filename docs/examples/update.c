/* Updates: read a value, change it, and write it back only if no other process wrote meanwhile; the
 * library does this again until it succeeds. */
#include <errno.h>
#include <inttypes.h>
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sb_bus *bus;

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "update: not as expected: %s\n", what);
                exit(1);
        }
}

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static void show(const char *key)
{
        sb_auto(sb_guard_release) struct sb_guard guard = {0};

        expect(sb_get(bus, b(key), &guard) == 0, key);
        printf("%s: %.*s\n", key, (int)guard.value.len, (const char *)guard.value.data);
}

/* Exact, however many processes count at once. */
static void count(void)
{
        int64_t sum;

        expect(sb_incr(bus, b("jobs"), 40, NULL, NULL, NULL) == 0, "no value counts as 0");
        expect(sb_incr(bus, b("jobs"), 2, NULL, &sum, NULL) == 0, "the value is a number");
        printf("jobs: %" PRId64 "\n", sum);
}

/* The largest that any process has seen. */
static void remember_the_largest(void)
{
        int64_t largest;

        expect(sb_max(bus, b("peak"), 17, NULL, NULL, NULL) == 0, "the key gets a value");
        expect(sb_max(bus, b("peak"), 12, NULL, &largest, NULL) == 0, "12 changes nothing");
        printf("peak: %" PRId64 "\n", largest);
}

static void append_lines(void)
{
        int r = sb_append(bus, b("notes"), b("first; "), NULL, NULL);

        r = r ? r : sb_append(bus, b("notes"), b("second"), NULL, NULL);
        expect(r == 0, "the value grows");
        show("notes");
}

/* The new value lies in the argument: its bytes have to stay until sb_update() returns. */
static int turn_round(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        char *turned = argument;
        size_t len = !old->bus ? 0 : old->value.len;

        if (len > 63)
                return -EMSGSIZE; /* nothing is written, and sb_update() returns this */
        for (size_t i = 0; i < len; i++)
                turned[i] = ((const char *)old->value.data)[len - 1 - i];
        *ret_value = (struct sb_bytes){turned, len};
        return 0;
}

/* A change of one's own: turn_round() makes the new value from the old one. */
static void update_by_a_function(void)
{
        char turned[63];

        expect(sb_set(bus, b("word"), b("stressed"), NULL, NULL) == 0, "the word is there");
        expect(sb_update(bus, b("word"), turn_round, turned, NULL, NULL) == 0, "it is turned");
        show("word");
}

static void refuse_what_is_no_number(void)
{
        int r = sb_incr(bus, b("word"), 1, NULL, NULL, NULL);

        expect(r == -EBADMSG, "a word is no number, and stays as it is");
        show("word");
}

static void forget(const char *key)
{
        int r = sb_delete(bus, b(key), SB_ANY_REV, NULL, NULL);

        expect(r == 0 || r == SB_E_NOT_FOUND, key);
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};

        expect(sb_open(&options, &bus) == 0, "a bus");
        forget("jobs");
        forget("peak");
        forget("notes");
        count();
        remember_the_largest();
        append_lines();
        update_by_a_function();
        refuse_what_is_no_number();
        sb_close(bus);
        return 0;
}
