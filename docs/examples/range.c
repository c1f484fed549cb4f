/* Ranges: the keys from one to below another one, several with each call; and their end. */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sb_bus *bus;

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "range: not as expected: %s\n", what);
                exit(1);
        }
}

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static void set(const char *key)
{
        expect(sb_set(bus, b(key), b("a line"), NULL, NULL) == 0, key);
}

/* Print the key that a guard holds, and release it. */
static void show(struct sb_guard *guard)
{
        printf(" %.*s", (int)guard->key.len, (const char *)guard->key.data);
        sb_guard_release(guard);
}

/* The last key that is not above "log/2024-06". */
static void seek_last(void)
{
        struct sb_guard guard = {0};
        struct sb_scan *scan;

        expect(sb_scan_open(bus, NULL, b("log/"), &scan) == 0, "a scan");
        expect(sb_scan_seek_last(scan, b("log/2024-06")) == 0, "it stands behind it");
        expect(sb_scan_prev(scan, &guard) == 0, "there is such a key");
        printf("up to June:");
        show(&guard);
        printf("\n");
        sb_scan_close(scan);
}

/* The keys from "log/2024" to below "log/2025", several with each call. */
static void list(void)
{
        struct sb_scan_options how = {.size = sizeof(how), .end = b("log/2025")};
        struct sb_guard guards[8] = {0};
        struct sb_scan *scan;
        size_t count;
        int r;

        expect(sb_scan_open_at(bus, b("log/"), &how, &scan) == 0, "a scan");
        expect(sb_scan_seek(scan, b("log/2024")) == 0, "it stands there");
        printf("that year:");
        while ((r = sb_scan_next_many(scan, guards, 8, &count)) == 0)
                for (size_t i = 0; i < count; i++)
                        show(&guards[i]);
        expect(r == SB_E_NOT_FOUND, "it comes to its end");
        printf("\n");
        sb_scan_close(scan);
}

/* The logs of a year go at one moment, and then all that is left. */
static void forget(void)
{
        struct sb_bytes no_end = {NULL, 0};
        uint64_t year = 0, rest = 0;
        int r = sb_delete_range(bus, NULL, b("log/2024"), b("log/2025"), 0, NULL, &year);

        expect(r == 0, "no other process keeps on writing there");
        r = sb_delete_range(bus, NULL, b("log/"), no_end, SB_PREFIX, NULL, &rest);
        expect(r == 0, "all with a prefix");
        printf("forgot %d and %d\n", (int)year, (int)rest);
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};

        expect(sb_open(&options, &bus) == 0, "a bus");
        set("log/2023-12");
        set("log/2024-03");
        set("log/2024-11");
        set("log/2025-02");
        seek_last();
        list();
        forget();
        sb_close(bus);
        return 0;
}
