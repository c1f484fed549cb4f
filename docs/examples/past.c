/* The past: keep a moment of the whole bus under a name, read in it, and bring it back. */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct sb_bus *bus;

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "past: not as expected: %s\n", what);
                exit(1);
        }
}

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static void set(const char *key, const char *value)
{
        expect(sb_set(bus, b(key), b(value), NULL, NULL) == 0, key);
}

static void show(const char *when, const struct sb_guard *guard)
{
        printf("%s: %.*s is %.*s\n", when, (int)guard->key.len, (const char *)guard->key.data,
                (int)guard->value.len, (const char *)guard->value.data);
}

/* From now on all that is there stays readable at this cut. */
static void mark(void)
{
        uint64_t cut;
        int r = sb_mark(bus, b("before"), &cut);

        expect(r == 0, "the name is free, and there are marks left");
        expect(sb_mark(bus, b("before"), &cut) == SB_E_CONFLICT, "now the name is taken");
}

/* Another process needs the name alone. */
static uint64_t find_the_mark(void)
{
        uint64_t cut;

        expect(sb_mark_find(bus, b("before"), &cut) == 0, "the mark is there");
        return cut;
}

static void read_at(uint64_t cut)
{
        struct sb_guard guard = {0};

        expect(sb_get_at(bus, b("app/mode"), cut, &guard) == 0, "it had a value then");
        show("then", &guard);
        sb_guard_release(&guard);
        expect(sb_get_at(bus, b("app/new"), cut, &guard) == SB_E_NOT_FOUND, "it came later");
}

static void list_at(uint64_t cut)
{
        struct sb_scan_options how = {.size = sizeof(how), .cut = cut};
        struct sb_guard guard = {0};
        struct sb_scan *scan;

        expect(sb_scan_open_at(bus, b("app/"), &how, &scan) == 0, "the mark keeps this cut");
        while (sb_scan_next(scan, &guard) == 0) {
                show("listed", &guard);
                sb_guard_release(&guard);
        }
        sb_scan_close(scan);
}

/* All keys that begin with "app/", in one transaction; app/new goes. */
static void bring_back(uint64_t cut)
{
        struct sb_guard guard = {0};

        expect(sb_restore(bus, b("app/"), SB_PREFIX, cut, NULL) == 0, "it is as it was");
        expect(sb_get(bus, b("app/mode"), &guard) == 0, "it has a value");
        show("restored", &guard);
        sb_guard_release(&guard);
        expect(sb_get(bus, b("app/new"), &guard) == SB_E_NOT_FOUND, "what came later is gone");
}

/* What the mark kept may be forgotten now. */
static void drop_the_mark(void)
{
        expect(sb_mark_drop(bus, b("before")) == 0, "the mark was there");
        expect(sb_mark_drop(bus, b("before")) == SB_E_NOT_FOUND, "it is gone");
}

/* The cut that a time names: this moment, and one before there was a bus. */
static void find_by_time(void)
{
        struct timespec now;
        uint64_t cut, now_ns;
        int r;

        clock_gettime(CLOCK_REALTIME, &now);
        now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        r = sb_cut_at(bus, now_ns, &cut);
        expect(r == 0 || r == SB_E_LAPPED, "agentd may not have looked at the clock yet");
        expect(sb_cut_at(bus, 1, &cut) == SB_E_LAPPED, "1970 is not known");
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        uint64_t cut;

        expect(sb_open(&options, &bus) == 0, "a bus");
        set("app/mode", "careful");
        mark();
        set("app/mode", "fast");
        set("app/new", "thing");
        cut = find_the_mark();
        read_at(cut);
        list_at(cut);
        bring_back(cut);
        drop_the_mark();
        find_by_time();
        sb_close(bus);
        return 0;
}
