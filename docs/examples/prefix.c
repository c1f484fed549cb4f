/* A watch of all keys with a prefix: what is there, and then what changes, without a gap. */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sb_bus *bus;

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "watch: not as expected: %s\n", what);
                exit(1);
        }
}

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static int is(struct sb_bytes bytes, const char *text)
{
        return bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

/* First what is there, by a scan at the watch's cut, then what changes. */
static void prefix(void)
{
        sb_auto(sb_watch_closep) struct sb_watch *watch = NULL;
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_scan_options how = {.size = sizeof(how)};
        struct sb_guard guard = {0};

        expect(sb_set(bus, b("crew/1"), b("idle"), NULL, NULL) == 0, "one is there");
        expect(sb_watch_open(bus, b("crew/"), SB_PREFIX, SB_ANY_REV, &watch) == 0, "a watch");
        expect(sb_set(bus, b("crew/2"), b("new"), NULL, NULL) == 0, "another one comes");
        how.cut = sb_watch_cut(watch);
        expect(sb_scan_open_at(bus, b("crew/"), &how, &scan) == 0, "a scan");
        expect(sb_scan_next(scan, &guard) == 0 && is(guard.key, "crew/1"), "what was there");
        sb_guard_release(&guard);
        expect(sb_scan_next(scan, &guard) == SB_E_NOT_FOUND, "no more");
        expect(sb_watch_next(watch, SB_FOREVER, &guard) == 0 && is(guard.key, "crew/2"), "it came");
        sb_guard_release(&guard);
        expect(sb_watch_next(watch, 0, &guard) == SB_E_TIMED_OUT, "that was all");
        expect(sb_delete_range(bus, NULL, b("crew/"), b("crew0"), 0, NULL, NULL) == 0, "they go");
        printf("prefix: one was there, one came\n");
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};

        expect(sb_open(&options, &bus) == 0, "a bus");
        prefix();
        sb_close(bus);
        return 0;
}
