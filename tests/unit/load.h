/*
 * Loading in tests (ring/log/load.h): versions, rules and marks that are given as a log would give
 * them, and what the segment says of a key afterwards.
 */
#ifndef SB_TEST_UNIT_LOAD_H
#define SB_TEST_UNIT_LOAD_H

#include <stdlib.h>

#include "ring/log/load.h"
#include "ring/op/past.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/past.h"
#include "shm/history/rules.h"
#include "shm/layout/report.h"
#include "shm/layout/reserved.h"
#include "shm/memory/pin.h"
#include "shm/upkeep/check.h"
#include "tests/unit/bus.h"

static struct sb_load load;
static unsigned char bytes[1 << 20] __attribute__((unused));

static inline struct sb_superblock *super(void)
{
        return writer.segment.super;
}

static inline bool begin(uint64_t size)
{
        return make_bus(size) && !sb_load_begin(&writer, &load);
}

/* With memory to sort the keys in. */
static inline int end_load(void)
{
        void *space = malloc(sb_load_space(&load) + 1);
        int r = sb_load_end(&load, space);

        free(space);
        return r;
}

/* The second reading, of a bus at this cut that had let go of nothing. */
static inline int turn(uint64_t cut)
{
        struct sb_load_words words = {.cut = cut};

        return sb_load_turn(&load, &words);
}

static inline int give(const void *key, uint32_t key_len, uint32_t kind, uint64_t rev,
        uint64_t stamp, const void *value, uint64_t value_len)
{
        struct sb_load_version version = {.key = key,
                .key_len = key_len,
                .kind = kind,
                .rev = rev,
                .stamp = stamp,
                .value = value,
                .value_len = value_len};

        return sb_load_version(&load, &version);
}

/* A version of which the value is its revision. */
static inline int value(const char *key, uint64_t rev, uint64_t stamp)
{
        return give(key, (uint32_t)strlen(key), SB_VERSION_VALUE, rev, stamp, &rev, 8);
}

static inline int deleted(const char *key, uint64_t rev, uint64_t stamp)
{
        return give(key, (uint32_t)strlen(key), SB_VERSION_DELETED, rev, stamp, NULL, 0);
}

static inline int rule(
        const char *key, bool prefix, uint64_t word, uint64_t since, uint64_t rev, uint64_t stamp)
{
        struct sb_rule_value held = {.word = word, .since = since};
        unsigned char name[SB_KEY_LEN_MAX];
        uint32_t len = sb_rules_key(key, (uint32_t)strlen(key), prefix, name);

        return give(name, len, SB_VERSION_VALUE, rev, stamp, &held, sizeof(held));
}

static inline int mark_of(
        const char *name, uint64_t cut, uint32_t index, uint64_t owner, uint64_t stamp)
{
        struct sb_named_value held = {.cut = cut, .owner = owner, .index = index};
        unsigned char key[SB_KEY_LEN_MAX];
        uint32_t len = (uint32_t)strlen(name);

        memcpy(key, SB_RESERVED_MARK, SB_MARK_PREFIX);
        memcpy(key + SB_MARK_PREFIX, name, len);
        return give(key, SB_MARK_PREFIX + len, SB_VERSION_VALUE, 1, stamp, &held, sizeof(held));
}

/* The revision of a key's newest value; 0: it has none. */
static inline uint64_t rev_of(const char *key)
{
        struct sb_version *version;
        uint64_t rev;

        sb_pin(&reader);
        version = find(key);
        rev = version && sb_version_has_value(version) ? version->rev : 0;
        sb_unpin(&reader);
        return rev;
}

/* The revisions in a key's chain, the newest first, each followed by '-', or by '~' where its link
 * says TRIMMED; what a delete wrote has a 'd'. */
__attribute__((noipa, unused)) static const char *chain_of(const char *key)
{
        static char text[4096];
        uint32_t len = (uint32_t)strlen(key), at = 0;
        struct sb_version *version;

        text[0] = '\0';
        sb_pin(&reader);
        version = sb_past_head(&reader, key, len, sb_hash_key(key, len, reader.segment.seed));
        while (version && at < sizeof(text) - 64) {
                uint64_t link = sb_load_relaxed(&version->prev);

                if (SB_SHAPE_KIND(version->shape) == SB_VERSION_PLACEHOLDER) {
                        at += (uint32_t)snprintf(text + at, sizeof(text) - at, "?");
                        break;
                }
                at += (uint32_t)snprintf(text + at, sizeof(text) - at, "%ju%s%c",
                        (uintmax_t)version->rev, sb_version_has_value(version) ? "" : "d",
                        link & SB_PREV_TRIMMED ? '~' : '-');
                version = sb_version_at(&reader.segment, link & SB_OFFSET_MASK);
        }
        sb_unpin(&reader);
        return text;
}

static inline bool chain_is(const char *key, const char *wanted)
{
        if (!strcmp(chain_of(key), wanted))
                return true;
        printf("# %s: %s instead of %s\n", key, chain_of(key), wanted);
        return false;
}

/* What a read of the past answers: the revision; 0: no value; -1: not known. */
static inline int64_t past_of(const char *key, uint64_t cut)
{
        struct sb_version *version = NULL;
        int r = sb_past_get(&reader, key, (uint32_t)strlen(key), cut, 0, &version);

        return r == 0                ? (int64_t)version->rev
               : r == SB_E_NOT_FOUND ? 0
               : r == SB_E_LAPPED    ? -1
                                     : -2;
}

static inline bool is_sound_as(bool quiescent, struct sb_check_report *ret)
{
        if (sb_check(&reader, quiescent, ret))
                return false;
        for (uint32_t i = 0; i < ret->problem_count && i < 8; i++)
                printf("# %s\n", ret->problems[i]);
        return !ret->problem_count && !ret->blocks_lost;
}

static inline bool is_sound(struct sb_check_report *ret)
{
        return is_sound_as(true, ret);
}

/* Before the end: keys are in no order yet, as beside a process that is making them. */
static inline bool is_sound_so_far(struct sb_check_report *ret)
{
        return is_sound_as(false, ret);
}

static inline bool sound(void)
{
        struct sb_check_report report;

        return is_sound(&report);
}

static inline bool sound_so_far(void)
{
        struct sb_check_report report;

        return is_sound_so_far(&report);
}

#define ALL  SB_RULE_WORD(SB_RULE_ALL, 0)
#define LAST SB_RULE_WORD(SB_RULE_LAST, 3)

#endif
