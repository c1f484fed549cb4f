/*
 * What a dump is; see dumped.h.
 *
 * A line is read into the fields that it has; which ones there are says what line it is. So the
 * order of the fields in a line does not matter, and a line that mixes them is none.
 */
#include "cli/dumped.h"

#include <errno.h>
#include <inttypes.h>
#include <mimalloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/layout/reserved.h"

#define END_MAX 256 /* bytes of an end, which is no longer */

struct cli_dumped_hash {
        XXH3_state_t state;
};

struct cli_dumped_hash *cli_dumped_hash_new(void)
{
        struct cli_dumped_hash *hash = mi_malloc_aligned(sizeof(*hash), _Alignof(typeof(*hash)));

        if (hash) {
                XXH3_INITSTATE(&hash->state);
                (void)XXH3_64bits_reset(&hash->state);
        }
        return hash;
}

struct cli_dumped_hash *cli_dumped_hash_free(struct cli_dumped_hash *hash)
{
        mi_free(hash);
        return NULL;
}

void cli_dumped_hash_add(struct cli_dumped_hash *hash, const void *bytes, size_t len)
{
        (void)XXH3_64bits_update(&hash->state, bytes, len);
}

void cli_dumped_hash_words(const struct cli_dumped_hash *hash, char ret_words[static 17])
{
        snprintf(ret_words, 17, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(&hash->state));
}

int cli_dumped_begin(struct cli_dumped *dumped)
{
        struct cli_dumped_hash *hash = cli_dumped_hash_new();

        if (!hash)
                return -ENOMEM;
        memset(dumped, 0, sizeof(*dumped));
        dumped->hash = hash;
        return 0;
}

void cli_dumped_end(struct cli_dumped *dumped)
{
        dumped->hash = cli_dumped_hash_free(dumped->hash);
}

/* ---- the fields of a line ---- */

enum dumped_field {
        FIELD_FORMAT,
        FIELD_CUT,
        FIELD_PREFIX,
        FIELD_AGENTCTL,
        FIELD_KEY,
        FIELD_VALUE,
        FIELD_REV,
        FIELD_RULE,
        FIELD_VERSIONS,
        FIELD_NS,
        FIELD_KEYS,
        FIELD_RULES,
        FIELD_XXH3,
        FIELD_COUNT
};
#define BIT(field) (1u << (field))

#define NAMED(name) name, sizeof(name) - 1
static const struct {
        const char *name;
        size_t len;
        bool is_text, maybe_base64;
} dumped_fields[FIELD_COUNT] = {
        [FIELD_FORMAT] = {NAMED("statebus_dump"), false, false},
        [FIELD_CUT] = {NAMED("cut"), false, false},
        [FIELD_PREFIX] = {NAMED("prefix"), true, true},
        [FIELD_AGENTCTL] = {NAMED("agentctl"), true, false},
        [FIELD_KEY] = {NAMED("key"), true, true},
        [FIELD_VALUE] = {NAMED("value"), true, true},
        [FIELD_REV] = {NAMED("rev"), false, false},
        [FIELD_RULE] = {NAMED("rule"), true, false},
        [FIELD_VERSIONS] = {NAMED("versions"), false, false},
        [FIELD_NS] = {NAMED("ns"), false, false},
        [FIELD_KEYS] = {NAMED("keys"), false, false},
        [FIELD_RULES] = {NAMED("rules"), false, false},
        [FIELD_XXH3] = {NAMED("xxh3"), true, false},
};

struct dumped_fields {
        uint32_t seen; /* BIT() of each field */
        struct sb_bytes text[FIELD_COUNT];
        uint64_t number[FIELD_COUNT];
};

static int __attribute__((format(printf, 2, 3)))
dumped_fail(struct cli_dumped *dumped, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(dumped->wrong, sizeof(dumped->wrong), format, arguments);
        va_end(arguments);
        return -EBADMSG;
}

/* Find a field by its name. Return: FIELD_COUNT: there is none of that name. */
static unsigned dumped_find_field(struct sb_bytes name, bool *ret_base64)
{
        static const char base64[] = "_base64";
        const size_t base64_len = sizeof(base64) - 1;

        for (unsigned i = 0; i < FIELD_COUNT; i++) {
                size_t len = dumped_fields[i].len;

                if (name.len < len || memcmp(name.data, dumped_fields[i].name, len) != 0)
                        continue;
                *ret_base64 = name.len != len;
                if (name.len == len)
                        return i;
                if (dumped_fields[i].maybe_base64 && name.len == len + base64_len &&
                        memcmp((const char *)name.data + len, base64, base64_len) == 0)
                        return i;
        }
        return FIELD_COUNT;
}

/* Decode a text over itself: base64 is longer than what it stands for. */
static int dumped_decode(struct cli_dumped *dumped, const char *name, struct sb_bytes *text)
{
        unsigned char *bytes = (unsigned char *)(uintptr_t)text->data;
        size_t len = 0;

        /* A zero byte in it would end the text early. */
        if (strlen((char *)bytes) != text->len || cli_base64_decode((char *)bytes, bytes, &len) < 0)
                return dumped_fail(dumped, "what stands in %s_base64 is not base64", name);
        text->len = len;
        return 0;
}

static int dumped_take_field(
        struct cli_dumped *dumped, const struct cli_json_field *field, struct dumped_fields *fields)
{
        bool base64 = false;
        unsigned which = dumped_find_field(field->name, &base64);
        const char *name;

        if (which == FIELD_COUNT)
                return dumped_fail(dumped, "no line of a dump has a field '%.*s'",
                        (int)(field->name.len < 40 ? field->name.len : 40),
                        (const char *)field->name.data);
        name = dumped_fields[which].name;
        if (fields->seen & BIT(which))
                return dumped_fail(dumped, "the field %s stands twice in it", name);
        if (dumped_fields[which].is_text != field->is_text)
                return dumped_fail(
                        dumped, "the field %s is no %s", name, field->is_text ? "number" : "text");
        fields->seen |= BIT(which);
        fields->number[which] = field->number;
        fields->text[which] = field->text;
        /* A later format may have fields that this one does not know: so it is told first. */
        if (which == FIELD_FORMAT && field->number != CLI_DUMPED_FORMAT)
                return dumped_fail(dumped,
                        "the dump has format %" PRIu64 ", and this agentctl reads format %u alone: "
                        "load it with the version of agentctl that made it",
                        field->number, CLI_DUMPED_FORMAT);
        return base64 ? dumped_decode(dumped, name, &fields->text[which]) : 0;
}

/* ---- what the lines mean ---- */

/* Whether @key can stand in this dump: it has bytes, not too many, and those of the prefix. */
static int dumped_check_key(
        struct cli_dumped *dumped, const char *what, struct sb_bytes key, bool maybe_empty)
{
        if (key.len == 0 && !maybe_empty)
                return dumped_fail(dumped, "the %s is empty", what);
        if (key.len > CLI_DUMPED_KEY_MAX)
                return dumped_fail(dumped, "the %s has %zu bytes, and %u are the most", what,
                        key.len, CLI_DUMPED_KEY_MAX);
        if (sb_reserved_is(key.data, key.len))
                return dumped_fail(dumped, "the %s begins as the bus's own keys do", what);
        if (key.len < dumped->prefix_len ||
                memcmp(key.data, dumped->prefix, dumped->prefix_len) != 0)
                return dumped_fail(dumped, "the %s does not begin as the first line says", what);
        return 0;
}

static int dumped_take_head(
        struct cli_dumped *dumped, const struct dumped_fields *fields, struct cli_dumped_line *line)
{
        int r;

        line->kind = CLI_DUMPED_HEAD;
        line->key = fields->text[FIELD_PREFIX];
        r = dumped_check_key(dumped, "prefix", line->key, true);
        if (r != 0)
                return r;
        memcpy(dumped->prefix, line->key.data, line->key.len);
        dumped->prefix_len = line->key.len;
        return 0;
}

static bool dumped_is_word(struct sb_bytes text, const char *word)
{
        return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

static int dumped_take_rule(
        struct cli_dumped *dumped, const struct dumped_fields *fields, struct cli_dumped_line *line)
{
        const uint32_t values = fields->seen & (BIT(FIELD_VERSIONS) | BIT(FIELD_NS));
        struct sb_bytes word = fields->text[FIELD_RULE];
        int r;

        if (dumped->keys != 0)
                return dumped_fail(dumped, "a rule stands behind a key");
        line->kind = CLI_DUMPED_RULE;
        line->prefix = fields->seen & BIT(FIELD_PREFIX);
        line->key = fields->text[line->prefix ? FIELD_PREFIX : FIELD_KEY];
        r = dumped_check_key(dumped, line->prefix ? "prefix" : "key", line->key, line->prefix);
        if (r != 0)
                return r;
        line->rule.size = sizeof(line->rule);
        if (dumped_is_word(word, "last") && values == BIT(FIELD_VERSIONS)) {
                line->rule.kind = SB_KEEP_LAST;
                line->rule.value = fields->number[FIELD_VERSIONS];
        } else if (dumped_is_word(word, "for") && values == BIT(FIELD_NS)) {
                line->rule.kind = SB_KEEP_SPAN;
                line->rule.value = fields->number[FIELD_NS];
        } else if (dumped_is_word(word, "all") && values == 0) {
                line->rule.kind = SB_KEEP_ALL;
        } else {
                return dumped_fail(
                        dumped, "its rule is not last with versions, for with ns or all");
        }
        if (values != 0 && (line->rule.value == 0 || line->rule.value >> 62 != 0))
                return dumped_fail(dumped, "its rule keeps nothing, or more than a rule can");
        dumped->rules++;
        return 0;
}

/* -1, 0 or 1: which of the two comes first. */
static int dumped_compare(struct sb_bytes one, struct sb_bytes other)
{
        size_t len = one.len < other.len ? one.len : other.len;
        int order = memcmp(one.data, other.data, len);

        return order != 0 ? order : (one.len > other.len) - (one.len < other.len);
}

static int dumped_take_key(
        struct cli_dumped *dumped, const struct dumped_fields *fields, struct cli_dumped_line *line)
{
        int r;

        line->kind = CLI_DUMPED_KEY;
        line->key = fields->text[FIELD_KEY];
        line->value = fields->text[FIELD_VALUE];
        r = dumped_check_key(dumped, "key", line->key, false);
        if (r != 0)
                return r;
        if (dumped->keys != 0 &&
                dumped_compare(line->key, (struct sb_bytes){dumped->last, dumped->last_len}) <= 0)
                return dumped_fail(dumped, "the key does not come behind the one before it");
        memcpy(dumped->last, line->key.data, line->key.len);
        dumped->last_len = line->key.len;
        dumped->keys++;
        return 0;
}

static int dumped_take_end(
        struct cli_dumped *dumped, const struct dumped_fields *fields, struct cli_dumped_line *line)
{
        const uint64_t keys = fields->number[FIELD_KEYS], rules = fields->number[FIELD_RULES];
        char words[17];

        line->kind = CLI_DUMPED_END;
        if (keys != dumped->keys || rules != dumped->rules)
                return dumped_fail(dumped,
                        "by it there are %" PRIu64 " keys and %" PRIu64 " rules, but before it "
                        "stand %" PRIu64 " and %" PRIu64,
                        keys, rules, dumped->keys, dumped->rules);
        cli_dumped_hash_words(dumped->hash, words);
        if (!dumped_is_word(fields->text[FIELD_XXH3], words) && !SB_FAULT(DUMP_SUM_UNASKED))
                return dumped_fail(dumped,
                        "the checksum of the lines before it is %s, and not the one in it: some of "
                        "them were changed, or lost",
                        words);
        dumped->ended = true;
        return 0;
}

static int dumped_take_fields(
        struct cli_dumped *dumped, const struct dumped_fields *fields, struct cli_dumped_line *line)
{
        const uint32_t head =
                BIT(FIELD_FORMAT) | BIT(FIELD_CUT) | BIT(FIELD_PREFIX) | BIT(FIELD_AGENTCTL);
        const uint32_t owner = fields->seen & (BIT(FIELD_KEY) | BIT(FIELD_PREFIX));
        const uint32_t values = fields->seen & (BIT(FIELD_VERSIONS) | BIT(FIELD_NS));

        if (dumped->lines == 0)
                return fields->seen == head
                               ? dumped_take_head(dumped, fields, line)
                               : dumped_fail(dumped, "this is no dump: one begins with the field "
                                                     "statebus_dump, and has cut, prefix and "
                                                     "agentctl in its first line");
        if (fields->seen == (BIT(FIELD_KEY) | BIT(FIELD_VALUE) | BIT(FIELD_REV)))
                return dumped_take_key(dumped, fields, line);
        if (fields->seen == (BIT(FIELD_RULE) | owner | values) &&
                (owner == BIT(FIELD_KEY) || owner == BIT(FIELD_PREFIX)))
                return dumped_take_rule(dumped, fields, line);
        if (fields->seen == (BIT(FIELD_KEYS) | BIT(FIELD_RULES) | BIT(FIELD_XXH3)))
                return dumped_take_end(dumped, fields, line);
        return dumped_fail(dumped, "its fields are not those of a key, of a rule or of the end");
}

static void dumped_add_line(struct cli_dumped *dumped, const char *line, size_t len)
{
        cli_dumped_hash_add(dumped->hash, line, len);
        cli_dumped_hash_add(dumped->hash, "\n", 1);
}

int cli_dumped_take(
        struct cli_dumped *dumped, char *line, size_t len, struct cli_dumped_line *ret_line)
{
        struct dumped_fields fields = {0};
        struct cli_dumped_line taken = {0};
        struct cli_json_field field;
        struct cli_json json;
        char as_read[END_MAX];
        bool maybe_end = len <= END_MAX;
        int r;

        if (dumped->ended)
                return dumped_fail(dumped, "more stands behind the last line of the dump");
        /* Whether it is the end, which has the hash of those before it, is known when it was read,
         * and overwritten: so a line that is short enough for that is copied. */
        if (maybe_end)
                memcpy(as_read, line, len);
        else
                dumped_add_line(dumped, line, len);
        cli_json_read(&json, line, len);
        while ((r = cli_json_next(&json, &field)) == 0) {
                r = dumped_take_field(dumped, &field, &fields);
                if (r != 0)
                        return r;
        }
        if (r != SB_E_NOT_FOUND)
                return dumped_fail(dumped, "%s, at byte %zu", json.wrong, cli_json_place(&json));
        r = dumped_take_fields(dumped, &fields, &taken);
        if (r != 0)
                return r;
        if (maybe_end && !dumped->ended)
                dumped_add_line(dumped, as_read, len);
        dumped->lines++;
        *ret_line = taken;
        return 0;
}

int cli_dumped_finish(struct cli_dumped *dumped)
{
        if (dumped->ended)
                return 0;
        if (dumped->lines == 0)
                return dumped_fail(dumped, "it is empty: a dump has two lines at least");
        return dumped_fail(dumped,
                "it ends without the last line of a dump: it was cut off, or is still being "
                "written");
}
