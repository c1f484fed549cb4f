/*
 * All that a bus has, as text; the kept one is in memory that the processes of a test share.
 */
#define _GNU_SOURCE
#include "tests/kill/contents.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kill/traced.h"

static char *reference; /* CONTENTS_MAX bytes */

bool contents_begin(void)
{
        reference = traced_share(CONTENTS_MAX);
        return reference;
}

__attribute__((format(printf, 2, 3))) static void add(
        struct contents *contents, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        contents->len += (size_t)vsnprintf(contents->text + contents->len,
                sizeof(contents->text) - contents->len, format, arguments);
        va_end(arguments);
        if (contents->len >= sizeof(contents->text))
                abort();
}

static void add_version(struct contents *contents, const struct sb_guard *guard)
{
        add(contents, " %ju@%ju#%u:%u:%.*s", (uintmax_t)guard->rev, (uintmax_t)guard->cut,
                (unsigned)guard->kind, guard->writer, (int)guard->value.len,
                guard->value.len ? (const char *)guard->value.data : "");
}

/* All versions of a key that a rule keeps. */
static int add_history(struct sb_bus *bus, struct contents *contents, const char *key)
{
        struct sb_history *history = NULL;
        struct sb_guard guard = {0};
        int r = sb_history_open(bus, bytes_of(key), 0, &history);

        add(contents, "%s:", key);
        while (!r) {
                r = sb_history_next(history, &guard, NULL);
                if (r)
                        break;
                add_version(contents, &guard);
                sb_guard_release(&guard);
        }
        sb_history_close(history);
        add(contents, " %s\n", r == SB_E_NOT_FOUND ? "all" : "some");
        return r == SB_E_NOT_FOUND || r == SB_E_LAPPED ? 0 : r;
}

int contents_read(struct sb_bus *bus, struct contents *ret)
{
        static const char *const kept[] = {"kept/0", "kept/1", "kept/2"};
        struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        uint64_t cut = 0;
        int r;

        ret->len = 0;
        r = sb_scan_open(bus, NULL, bytes_of(""), &scan);
        while (!r) {
                r = sb_scan_next(scan, &guard);
                if (r)
                        break;
                if (*(const char *)guard.key.data != 'z') {
                        add(ret, "%.*s", (int)guard.key.len, (const char *)guard.key.data);
                        add_version(ret, &guard);
                        add(ret, "\n");
                }
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
        r = r == SB_E_NOT_FOUND ? 0 : r;
        for (unsigned i = 0; i < 3 && !r; i++)
                r = add_history(bus, ret, kept[i]);
        if (!r) {
                r = sb_mark_find(bus, bytes_of("mark"), &cut);
                add(ret, "mark %ju %d\n", (uintmax_t)cut, r);
                r = r == SB_E_NOT_FOUND ? 0 : r;
        }
        if (!r && cut) {
                r = sb_get_at(bus, bytes_of("key/3"), cut, &guard);
                add(ret, "at the mark %d", r);
                if (!r)
                        add_version(ret, &guard);
                sb_guard_release(&guard);
                r = r > 0 && r != SB_E_DETACHED ? 0 : r;
        }
        return r;
}

void contents_keep(struct sb_bus *bus)
{
        static struct contents contents;

        traced_must(contents_read(bus, &contents), "contents");
        memcpy(reference, contents.text, sizeof(contents.text));
}

void contents_compare(const struct contents *contents)
{
        size_t at = 0;

        if (!strcmp(contents->text, reference))
                return;
        while (contents->text[at] && contents->text[at] == reference[at])
                at++;
        while (at && contents->text[at - 1] != '\n')
                at--;
        traced_complain("another bus came back: \"%.100s\" instead of \"%.100s\"",
                contents->text + at, reference + at);
}
