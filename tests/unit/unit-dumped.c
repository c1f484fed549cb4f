/*
 * What load takes for a dump: lines of JSON, and a dump as a whole, cut off at each byte, changed
 * at each byte, and changed at random many thousand times.
 *
 * No bus is needed. Each line is given in memory of its own that ends behind it, so that a
 * sanitizer sees a read or a write beside it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/dumped.h"
#include "cli/json.h"
#include "libclient/statebus.h"
#include "tests/harness/test.h"
#include "tests/unit/draw.h"

#define TEXT_MAX 65536
#define CHANGED  20000 /* dumps */

struct text {
        size_t len;
        char bytes[TEXT_MAX];
};

static void text_add(struct text *text, const void *bytes, size_t len)
{
        if (len > sizeof(text->bytes) - text->len)
                abort();
        memcpy(text->bytes + text->len, bytes, len);
        text->len += len;
}

static void text_add_words(struct text *text, const char *words)
{
        text_add(text, words, strlen(words));
}

/* ---- lines of JSON ---- */

/* Read all fields of a line. Return: 0, or -EBADMSG with *ret_wrong. @ret_last: the last field; its
 * bytes are copied, because those of the line are gone. */
static int read_line(const char *line, size_t len, struct cli_json_field *ret_last,
        struct text *ret_bytes, const char **ret_wrong)
{
        char *own = malloc(len + 1);
        struct cli_json_field field;
        struct cli_json json;
        int r;

        if (!own)
                abort();
        memcpy(own, line, len);
        own[len] = '\0';
        cli_json_read(&json, own, len);
        while ((r = cli_json_next(&json, &field)) == 0) {
                *ret_last = field;
                ret_bytes->len = 0;
                if (field.is_text)
                        text_add(ret_bytes, field.text.data, field.text.len);
                if (field.is_text && ((const char *)field.text.data)[field.text.len] != '\0')
                        abort();
        }
        *ret_wrong = json.wrong;
        free(own);
        return r == SB_E_NOT_FOUND ? 0 : r;
}

static struct text bytes;

static void test_a_text_is_what_its_escapes_say(void)
{
        static const struct {
                const char *line, *text;
                size_t len;
        } cases[] = {
                {"{\"a\":\"\"}", "", 0},
                {"{\"a\":\"b\"}", "b", 1},
                {" {\t\"x\" : 1 , \"a\" : \"b c\" } ", "b c", 3},
                {"{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "\"\\/\b\f\n\r\t", 8},
                {"{\"a\":\"\\u0000\\u0041\\u007f\"}", "\0A\x7f", 3},
                {"{\"a\":\"x\\u0080y\\u07FF\"}", "x\xc2\x80y\xdf\xbf", 6},
                {"{\"a\":\"\\u0800\\ud7ff\\ue000\\uffff\"}",
                        "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", 12},
                {"{\"a\":\"\\ud800\\udc00\\uDBFF\\uDFFF\"}", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8},
                {"{\"a\":\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"}",
                        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9},
                {"{\"a\":\"{\\u007d,\\u0022:\"}", "{},\":", 5},
        };
        struct cli_json_field field;
        const char *wrong;

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                CHECK_EQ(
                        read_line(cases[i].line, strlen(cases[i].line), &field, &bytes, &wrong), 0);
                CHECK(field.is_text);
                CHECK_EQ(bytes.len, cases[i].len);
                CHECK(memcmp(bytes.bytes, cases[i].text, bytes.len) == 0);
        }
        CHECK_EQ(read_line("{}", 2, &field, &bytes, &wrong), 0);
}

static void test_numbers_have_64_bits_and_no_sign(void)
{
        static const struct {
                const char *line;
                uint64_t number;
        } cases[] = {{"{\"a\":0}", 0}, {"{\"a\":7}", 7}, {"{\"a\": 10 }", 10},
                {"{\"a\":18446744073709551615}", UINT64_MAX}};
        struct cli_json_field field;
        const char *wrong;

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                CHECK_EQ(
                        read_line(cases[i].line, strlen(cases[i].line), &field, &bytes, &wrong), 0);
                CHECK(!field.is_text);
                CHECK(field.number == cases[i].number);
        }
}

static void test_what_is_no_flat_object_is_refused_with_a_reason(void)
{
        static const struct {
                const char *line, *wrong;
        } cases[] = {
                {"", "no object"},
                {" ", "no object"},
                {"x", "no object"},
                {"[]", "no object"},
                {"\"a\"", "no object"},
                {"\xef\xbb\xbf{}", "no object"},
                {"{", "name of a field"},
                {"{\"a\":1", ", or a }"},
                {"{\"a\":1 \"b\":2}", ", or a }"},
                {"{\"a\":1,}", "name of a field"},
                {"{,}", "name of a field"},
                {"{a:1}", "name of a field"},
                {"{'a':1}", "name of a field"},
                {"{\"a\"}", ": is missing"},
                {"{\"a\" 1}", ": is missing"},
                {"{\"a\":}", "neither a text"},
                {"{\"a\":", "neither a text"},
                {"{\"a\":true}", "neither a text"},
                {"{\"a\":null}", "neither a text"},
                {"{\"a\":{}}", "neither a text"},
                {"{\"a\":[1]}", "neither a text"},
                {"{\"a\":-1}", "neither a text"},
                {"{\"a\":+1}", "neither a text"},
                {"{\"a\":01}", "begins with a 0"},
                {"{\"a\":00}", "begins with a 0"},
                {"{\"a\":1.0}", "not whole"},
                {"{\"a\":1e3}", "not whole"},
                {"{\"a\":0E0}", "not whole"},
                {"{\"a\":1x}", ", or a }"},
                {"{\"a\":18446744073709551616}", "64 bits"},
                {"{\"a\":20000000000000000000}", "64 bits"},
                {"{\"a\":184467440737095516150}", "64 bits"},
                {"{} {}", "behind the object"},
                {"{}x", "behind the object"},
                {"{\"a\":1}\r", "behind the object"},
                {"{\"a", "ends in a text"},
                {"{\"a\":\"b", "ends in a text"},
                {"{\"a\":\"b\\", "ends in a text"},
                {"{\"a\":\"b\\\"", "ends in a text"},
                {"{\"a\":\"\\x41\"}", "no such escape"},
                {"{\"a\":\"\\'\"}", "no such escape"},
                {"{\"a\":\"\\U0041\"}", "no such escape"},
                {"{\"a\":\"\\u", "four hexadecimal"},
                {"{\"a\":\"\\u004\"}", "four hexadecimal"},
                {"{\"a\":\"\\u00g0\"}", "four hexad"},
                {"{\"a\":\"\\u 041\"}", "four hexadecimal"},
                {"{\"a\":\"\\ud800\"}", "half of"},
                {"{\"a\":\"\\ud800x\"}", "half of"},
                {"{\"a\":\"\\ud800\\n\"}", "half of"},
                {"{\"a\":\"\\ud800\\u0041\"}", "half of"},
                {"{\"a\":\"\\udc00\"}", "half of"},
                {"{\"a\":\"\\ud800\\ue000\"}", "half of"},
                {"{\"a\":\"\\ud800\\ud800\"}", "half of"},
                {"{\"a\":\"\\ud800\\udc0", "four hex"},
                {"{\"a\":\"\t\"}", "control"},
                {"{\"a\":\"\x1f\"}", "control"},
                {"{\"a\":\"\x80\"}", "not UTF-8"},
                {"{\"a\":\"\xff\"}", "not UTF-8"},
                {"{\"a\":\"\xc3\"}", "not UTF-8"},
                {"{\"a\":\"\xc3", "not UTF-8"},
                {"{\"a\":\"\xc0\x80\"}", "not UTF-8"},
                {"{\"a\":\"\xed\xa0\x80\"}", "not UTF-8"},
                {"{\"a\":\"\xf4\x90\x80\x80\"}", "not UTF-8"},
                {"{\"\xff\":1}", "not UTF-8"},
        };
        struct cli_json_field field;
        const char *wrong;

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                int r = read_line(cases[i].line, strlen(cases[i].line), &field, &bytes, &wrong);

                if (r != -EBADMSG || !wrong || !strstr(wrong, cases[i].wrong))
                        TEST_FAIL("%s: result %d, %s", cases[i].line, r, wrong ? wrong : "(none)");
        }
        CHECK_EQ(read_line("{\"a\":\"\0\"}", 9, &field, &bytes, &wrong), -EBADMSG);
        CHECK(strstr(wrong, "control"));
        CHECK_EQ(read_line("{\"a\":1\0}", 8, &field, &bytes, &wrong), -EBADMSG);
        CHECK_EQ(read_line("{}\0", 3, &field, &bytes, &wrong), -EBADMSG);
}

/* ---- whole dumps ---- */

static struct text good, changed;
static char wrong_of_last[256];

/* Read a dump as load does. Return: 0: it is whole; -EBADMSG. */
static int read_dump(const struct text *text)
{
        struct cli_dumped dumped;
        struct cli_dumped_line line;
        const char *at = text->bytes, *end = at + text->len;
        int r = 0;

        if (cli_dumped_begin(&dumped) != 0)
                abort();
        while (r == 0 && at < end) {
                const char *line_end = memchr(at, '\n', (size_t)(end - at));
                size_t len = (size_t)((line_end ? line_end : end) - at);
                char *own = malloc(len + 1);

                if (!own)
                        abort();
                memcpy(own, at, len);
                own[len] = '\0';
                r = line_end ? cli_dumped_take(&dumped, own, len, &line) : -EBADMSG;
                free(own);
                at += len + 1;
        }
        if (r == 0)
                r = cli_dumped_finish(&dumped);
        snprintf(wrong_of_last, sizeof(wrong_of_last), "%s", dumped.wrong);
        cli_dumped_end(&dumped);
        return r;
}

/* Give a dump the end that its lines ask for. */
static void seal(struct text *text, unsigned keys, unsigned rules)
{
        struct cli_dumped_hash *hash = cli_dumped_hash_new();
        char words[17], end[128];

        if (!hash)
                abort();
        cli_dumped_hash_add(hash, text->bytes, text->len);
        cli_dumped_hash_words(hash, words);
        cli_dumped_hash_free(hash);
        snprintf(end, sizeof(end), "{\"keys\":%u,\"rules\":%u,\"xxh3\":\"%s\"}\n", keys, rules,
                words);
        text_add_words(text, end);
}

#define HEAD "{\"statebus_dump\":1,\"cut\":216,\"prefix\":\"\",\"agentctl\":\"0.1.0\"}\n"

static void make_good(unsigned keys)
{
        char line[128];

        good.len = 0;
        text_add_words(&good, HEAD "{\"prefix\":\"config/\",\"rule\":\"last\",\"versions\":10}\n"
                                   "{\"key_base64\":\"/w==\",\"rule\":\"for\",\"ns\":1500000}\n"
                                   "{\"prefix\":\"\",\"rule\":\"all\"}\n");
        for (unsigned i = 0; i + 3 < keys; i++) {
                snprintf(line, sizeof(line),
                        i % 5 == 4 ? "{\"key\":\"key %04u\",\"value_base64\":\"gIGC\",\"rev\":7}\n"
                                   : "{\"key\":\"key %04u\",\"value\":\"a\\u00e9\\n\","
                                     "\"rev\":18446744073709551615}\n",
                        i);
                text_add_words(&good, line);
        }
        text_add_words(&good, "{\"key\":\"l\\u0000\",\"value\":\"\",\"rev\":1}\n"
                              "{\"key\":\"l\\u0000\\u0000\",\"value\":\"\",\"rev\":1}\n"
                              "{\"key_base64\":\"//4=\",\"value_base64\":\"\",\"rev\":1}\n");
        seal(&good, keys, 3);
}

static void test_the_dump_of_the_manual_is_whole(void)
{
        changed.len = 0;
        text_add_words(&changed, HEAD "{\"prefix\":\"config/\",\"rule\":\"last\",\"versions\":10}\n"
                                      "{\"key\":\"config/model\",\"value\":\"large\",\"rev\":4}\n"
                                      "{\"keys\":1,\"rules\":1,\"xxh3\":\"257421f18b7be1ef\"}\n");
        CHECK_EQ(read_dump(&changed), 0);
}

static void test_a_dump_that_is_cut_off_at_any_byte_is_refused(void)
{
        make_good(12);
        CHECK_EQ(read_dump(&good), 0);
        for (size_t len = 0; len < good.len; len++) {
                changed = good;
                changed.len = len;
                if (read_dump(&changed) != -EBADMSG)
                        TEST_FAIL("the first %zu bytes of %zu are taken for whole", len, good.len);
        }
}

static void test_a_dump_of_which_a_bit_was_changed_is_refused(void)
{
        make_good(12);
        for (size_t at = 0; at < good.len; at++) {
                for (unsigned bit = 0; bit < 8; bit++) {
                        changed = good;
                        changed.bytes[at] = (char)(changed.bytes[at] ^ 1 << bit);
                        if (read_dump(&changed) != -EBADMSG)
                                TEST_FAIL(
                                        "bit %u of byte %zu was changed, and it is whole", bit, at);
                }
        }
}

static void test_more_behind_the_end_is_refused(void)
{
        static const char *const more[] = {"\n", " ", "{}\n", HEAD, "{\"keys\":0}\n"};

        make_good(3);
        for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
                changed = good;
                text_add_words(&changed, more[i]);
                CHECK_EQ(read_dump(&changed), -EBADMSG);
        }
        changed = good;
        text_add(&changed, good.bytes, good.len);
        CHECK_EQ(read_dump(&changed), -EBADMSG);
        CHECK(strstr(wrong_of_last, "behind the last line"));
}

/* Each line stands in a dump with a right checksum, so that nothing but the line is wrong. */
static void test_a_line_that_dump_does_not_write_is_refused_with_a_reason(void)
{
        static char long_key[2048];
        static const struct {
                const char *head, *line, *wrong;
        } cases[] = {
                {HEAD, "{}", "not those of a key"},
                {HEAD, "{\"key\":\"a\",\"value\":\"\"}", "not those of a key"},
                {HEAD, "{\"key\":\"a\",\"rev\":1}", "not those of a key"},
                {HEAD, "{\"key\":\"a\",\"value\":\"\",\"rev\":1,\"cut\":1}", "not those of"},
                {HEAD, "{\"key\":\"a\",\"value\":\"\",\"rev\":1,\"kind\":1}", "a field 'kind'"},
                {HEAD, "{\"key\":\"a\",\"value\":\"\",\"rev\":1,\"rev\":1}", "rev stands twice"},
                {HEAD, "{\"key\":\"a\",\"key_base64\":\"YQ==\",\"value\":\"\",\"rev\":1}",
                        "key stands twice"},
                {HEAD, "{\"key\":\"a\",\"value\":\"\",\"rev_base64\":1}", "'rev_base64'"},
                {HEAD, "{\"key\\u0000\":\"a\",\"value\":\"\",\"rev\":1}", "no line of a dump"},
                {HEAD, "{\"key\":\"a\",\"value\":\"\",\"rev\":\"1\"}", "rev is no number"},
                {HEAD, "{\"key\":1,\"value\":\"\",\"rev\":1}", "key is no text"},
                {HEAD, "{\"key\":\"\",\"value\":\"\",\"rev\":1}", "the key is empty"},
                {HEAD, "{\"key_base64\":\"YQ\",\"value\":\"\",\"rev\":1}", "is not base64"},
                {HEAD, "{\"key_base64\":\"YQ=a\",\"value\":\"\",\"rev\":1}", "is not base64"},
                {HEAD, "{\"key_base64\":\"YW\\u0000=\",\"value\":\"\",\"rev\":1}", "not base64"},
                {HEAD, "{\"key_base64\":\"YWFh\\u0000abc\",\"value\":\"\",\"rev\":1}", "not base"},
                {HEAD, "{\"key\":\"\\u0000sb\\u0000mark\",\"value\":\"\",\"rev\":1}", "bus's own"},
                {HEAD, long_key, "has 1025 bytes"},
                {HEAD, HEAD, "not those of a key"},
                {HEAD, "{\"rule\":\"all\"}", "not those of a key"},
                {HEAD, "{\"rule\":\"all\",\"key\":\"\"}", "the key is empty"},
                {HEAD, "{\"rule\":\"all\",\"key\":\"a\",\"prefix\":\"a\"}", "not those of"},
                {HEAD, "{\"rule\":\"all\",\"key\":\"a\",\"ns\":1}", "its rule is not"},
                {HEAD, "{\"rule\":\"newest\",\"key\":\"a\"}", "its rule is not"},
                {HEAD, "{\"rule\":\"last\",\"key\":\"a\"}", "its rule is not"},
                {HEAD, "{\"rule\":\"last\",\"key\":\"a\",\"ns\":1}", "its rule is not"},
                {HEAD, "{\"rule\":\"last\",\"key\":\"a\",\"versions\":0}", "keeps nothing"},
                {HEAD, "{\"rule\":\"for\",\"key\":\"a\",\"ns\":4611686018427387904}", "more than"},
                {HEAD, "{\"rule\":\"for\",\"key\":\"a\",\"ns\":1,\"versions\":1}", "its rule is"},
                {"{\"statebus_dump\":1,\"cut\":1,\"prefix\":\"b\",\"agentctl\":\"\"}\n",
                        "{\"key\":\"a\",\"value\":\"\",\"rev\":1}", "not begin as the first line"},
                {"{\"statebus_dump\":1,\"cut\":1,\"prefix\":\"b\",\"agentctl\":\"\"}\n",
                        "{\"rule\":\"all\",\"prefix\":\"\"}", "not begin as the first line"},
                {"{\"statebus_dump\":2,\"colour\":1}\n", "", "has format 2"},
                {"{\"statebus_dump\":0,\"cut\":1,\"prefix\":\"b\",\"agentctl\":\"\"}\n", "",
                        "has format 0"},
                {"{\"statebus_dump\":1,\"cut\":1,\"prefix\":\"b\"}\n", "", "this is no dump"},
                {"{\"key\":\"a\",\"value\":\"\",\"rev\":1}\n", "", "this is no dump"},
                {"{\"statebus_dump\":1,\"cut\":1,\"prefix\":\"\\u0000sb\\u0000\",\"agentctl\":"
                 "\"\"}\n",
                        "", "bus's own"},
        };

        snprintf(long_key, sizeof(long_key), "{\"key\":\"%01025d\",\"value\":\"\",\"rev\":1}", 7);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                bool rule = strstr(cases[i].line, "\"rule\"");

                changed.len = 0;
                text_add_words(&changed, cases[i].head);
                text_add_words(&changed, cases[i].line);
                text_add_words(&changed, "\n");
                seal(&changed, !rule, rule);
                if (read_dump(&changed) != -EBADMSG || !strstr(wrong_of_last, cases[i].wrong))
                        TEST_FAIL("%s: %s", cases[i].line, wrong_of_last);
        }
}

static void test_keys_ascend_and_rules_stand_before_them(void)
{
        static const struct {
                const char *lines;
                unsigned keys, rules;
                int result;
        } cases[] = {
                {"{\"key\":\"a\",\"value\":\"\",\"rev\":1}\n"
                 "{\"key\":\"aa\",\"value\":\"\",\"rev\":1}\n"
                 "{\"key\":\"b\",\"value\":\"\",\"rev\":1}\n",
                        3, 0, 0},
                {"{\"key\":\"a\",\"value\":\"\",\"rev\":1}\n"
                 "{\"key_base64\":\"YQ==\",\"value\":\"\",\"rev\":1}\n",
                        2, 0, -EBADMSG},
                {"{\"key\":\"b\",\"value\":\"\",\"rev\":1}\n"
                 "{\"key\":\"a\",\"value\":\"\",\"rev\":1}\n",
                        2, 0, -EBADMSG},
                {"{\"key\":\"aa\",\"value\":\"\",\"rev\":1}\n"
                 "{\"key\":\"a\",\"value\":\"\",\"rev\":1}\n",
                        2, 0, -EBADMSG},
                {"{\"rule\":\"all\",\"key\":\"a\"}\n"
                 "{\"rev\":1,\"value\":\"\",\"key\":\"\\u00e9\"}\n",
                        1, 1, 0},
                {"{\"key\":\"a\",\"value\":\"\",\"rev\":1}\n"
                 "{\"rule\":\"all\",\"key\":\"a\"}\n",
                        1, 1, -EBADMSG},
                {"{\"key\":\"a\",\"value\":\"\",\"rev\":1}\n", 0, 0, -EBADMSG},
                {"{\"key\":\"a\",\"value\":\"\",\"rev\":1}\n", 1, 1, -EBADMSG},
                {"", 0, 0, 0},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                changed.len = 0;
                text_add_words(&changed, HEAD);
                text_add_words(&changed, cases[i].lines);
                seal(&changed, cases[i].keys, cases[i].rules);
                CHECK_EQ(read_dump(&changed), cases[i].result);
        }
}

/* ---- dumps changed at random ---- */

/* Put @len bytes in the place of @gone at @at. */
static void text_replace(struct text *text, size_t at, size_t gone, const void *in, size_t len)
{
        if (text->len - gone + len > sizeof(text->bytes))
                return;
        memmove(text->bytes + at + len, text->bytes + at + gone, text->len - at - gone);
        memcpy(text->bytes + at, in, len);
        text->len += len - gone;
}

static void change(struct text *text)
{
        static const char *const pieces[] = {"\"", "\\", "{", "}", ":", ",", "\n", "\\u0000", "0",
                "\\ud800", "_base64", "\"key\":", "\"value\":", "99999999999999999999", "\xff", "=",
                "\"rule\":\"last\",", "\r", "{\"keys\":1,\"rules\":0,\"xxh3\":\"\"}\n", "AAAA"};
        static char copied[256];
        size_t at = draw((uint32_t)text->len), left = text->len - at;
        size_t len = 1 + draw(draw(4) == 0 ? 200 : 8), from = draw((uint32_t)text->len);
        const char *piece = pieces[draw(sizeof pieces / sizeof *pieces)];
        char byte = (char)draw(256);

        if (len > left)
                len = left;
        switch (draw(6)) {
        case 0:
                text->bytes[at] = byte;
                break;
        case 1:
                text_replace(text, at, len, "", 0);
                break;
        case 2:
                text_replace(text, at, 0, piece, strlen(piece));
                break;
        case 3: /* a part stands somewhere else, too */
                if (len > text->len - from)
                        len = text->len - from;
                memcpy(copied, text->bytes + from, len);
                text_replace(text, at, draw(2) == 0 ? 0 : (len < left ? len : left), copied, len);
                break;
        case 4:
                text->len = at + 1;
                break;
        default:
                text_replace(text, at, 1, &byte, draw(2));
                break;
        }
}

/* Where the last line of a dump begins. */
static size_t end_of(const struct text *text)
{
        size_t at = text->len - 1;

        while (at > 0 && text->bytes[at - 1] != '\n')
                at--;
        return at;
}

static void test_no_dump_that_was_changed_at_random_is_taken_for_whole(void)
{
        const char *given = getenv("SB_SEED");
        uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
        unsigned taken = 0, whole_again = 0, sealed_whole = 0;
        size_t lines_len;

        TEST_NOTE("SB_SEED=%" PRIu64, seed);
        draw_state = seed;
        make_good(40);
        lines_len = end_of(&good);
        for (unsigned i = 0; i < CHANGED; i++) {
                changed = good;
                for (unsigned changes = 1 + draw(3); changes != 0 && changed.len != 0; changes--)
                        change(&changed);
                if (changed.len == good.len && memcmp(changed.bytes, good.bytes, good.len) == 0) {
                        whole_again++;
                        continue;
                }
                if (read_dump(&changed) == 0) {
                        /* The end may say the same in other words, as 0x20 between two fields. */
                        taken++;
                        if (changed.len < lines_len ||
                                memcmp(changed.bytes, good.bytes, lines_len) != 0 ||
                                end_of(&changed) != lines_len)
                                TEST_FAIL("dump %u of seed %" PRIu64 " was changed, and is whole",
                                        i, seed);
                }
                /* With a right checksum each line is met by what reads it, and may be good. */
                if (changed.len > 0 && changed.bytes[changed.len - 1] == '\n') {
                        changed.len = end_of(&changed);
                        seal(&changed, 40, 3);
                        sealed_whole += read_dump(&changed) == 0;
                }
        }
        TEST_NOTE("%u changed dumps; %u the same again, %u with another end that says the same; "
                  "%u good ones with a new checksum",
                CHANGED, whole_again, taken, sealed_whole);
        CHECK(taken + whole_again < CHANGED / 100);
        CHECK(sealed_whole > CHANGED / 1000);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_text_is_what_its_escapes_say);
        RUN(test_numbers_have_64_bits_and_no_sign);
        RUN(test_what_is_no_flat_object_is_refused_with_a_reason);
        RUN(test_the_dump_of_the_manual_is_whole);
        RUN(test_a_dump_that_is_cut_off_at_any_byte_is_refused);
        RUN(test_a_dump_of_which_a_bit_was_changed_is_refused);
        RUN(test_more_behind_the_end_is_refused);
        RUN(test_a_line_that_dump_does_not_write_is_refused_with_a_reason);
        RUN(test_keys_ascend_and_rules_stand_before_them);
        RUN(test_no_dump_that_was_changed_at_random_is_taken_for_whole);
        return test_end();
}
