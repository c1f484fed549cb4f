/* Scans: the keys with a prefix, in byte order, at one moment, forwards and backwards. */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sb_bus *bus;

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "scan: not as expected: %s\n", what);
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

/* Print the key that a guard holds, and release it. */
static void show(struct sb_guard *guard)
{
        printf(" %.*s", (int)guard->key.len, (const char *)guard->key.data);
        sb_guard_release(guard);
}

/* What is written while the scan is open is not in its cut. */
static void list(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan;
        int r;

        expect(sb_scan_open(bus, NULL, b("fruit/"), &scan) == 0, "a scan");
        set("fruit/zucchini", "later");
        printf("forwards:");
        while ((r = sb_scan_next(scan, &guard)) == 0)
                show(&guard);
        expect(r == SB_E_NOT_FOUND, "it comes to its end");
        printf("\n");
        sb_scan_close(scan);
}

static void list_backwards(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan;

        expect(sb_scan_open(bus, NULL, b("fruit/"), &scan) == 0, "a scan");
        expect(sb_scan_seek_end(scan) == 0, "it stands behind the last key");
        printf("backwards:");
        while (sb_scan_prev(scan, &guard) == 0)
                show(&guard);
        printf("\n");
        sb_scan_close(scan);
}

/* The first key that is not below "fruit/b". */
static void seek(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan;

        expect(sb_scan_open(bus, NULL, b("fruit/"), &scan) == 0, "a scan");
        expect(sb_scan_seek(scan, b("fruit/b")) == 0, "it stands there");
        expect(sb_scan_next(scan, &guard) == 0, "there is such a key");
        printf("from fruit/b:");
        show(&guard);
        printf("\n");
        sb_scan_close(scan);
}

/* The last two keys, the last one first. */
static void list_the_last(void)
{
        struct sb_scan_options how = {.size = sizeof(how), .flags = SB_REVERSE, .limit = 2};
        struct sb_guard guard = {0};
        struct sb_scan *scan;

        expect(sb_scan_open_at(bus, b("fruit/"), &how, &scan) == 0, "a scan");
        printf("the last two:");
        while (sb_scan_next(scan, &guard) == 0)
                show(&guard);
        printf("\n");
        sb_scan_close(scan);
}

/* Two scans, one after the other: a later cut is larger. */
static void compare_cuts(void)
{
        struct sb_scan *first, *second;

        expect(sb_scan_open(bus, NULL, b(""), &first) == 0, "a scan of all keys");
        set("fruit/cherry", "again");
        expect(sb_scan_open(bus, NULL, b(""), &second) == 0, "another one");
        expect(sb_scan_cut(first) < sb_scan_cut(second), "cuts are in order");
        sb_scan_close(first);
        sb_scan_close(second);
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        int r;

        expect(sb_open(&options, &bus) == 0, "a bus");
        set("fruit/cherry", "red");
        set("fruit/apple", "green");
        set("fruit/banana", "yellow");
        set("vegetable/leek", "green");
        r = sb_delete(bus, b("fruit/zucchini"), SB_ANY_REV, NULL, NULL);
        expect(r == 0 || r == SB_E_NOT_FOUND, "no zucchini yet");
        list();
        list_backwards();
        seek();
        list_the_last();
        compare_cuts();
        sb_close(bus);
        return 0;
}
