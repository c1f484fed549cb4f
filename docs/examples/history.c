/* History: a rule keeps older versions of some keys; go through them. */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sb_bus *bus;

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "history: not as expected: %s\n", what);
                exit(1);
        }
}

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

/* Of each key that begins with "config/", now or later: the last three versions. */
static void keep_three(void)
{
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_LAST, .value = 3};

        expect(sb_keep(bus, b("config/"), SB_PREFIX, &rule) == 0, "the rule applies");
}

static void look_at_the_rule(void)
{
        struct sb_rule rule;

        expect(sb_kept(bus, b("config/"), SB_PREFIX, &rule) == 0, "there is a rule");
        expect(rule.kind == SB_KEEP_LAST && rule.value == 3, "it is the one that was made");
        expect(sb_kept(bus, b("other/"), SB_PREFIX, &rule) == SB_E_NOT_FOUND, "no rule there");
}

/* Newest first. SB_E_LAPPED at the end: older ones were there and are gone. */
static void show_versions(void)
{
        struct sb_guard guard = {0};
        struct sb_history *history;
        int r, count = 0;

        expect(sb_history_open(bus, b("config/size"), 0, &history) == 0, "a history");
        while ((r = sb_history_next(history, &guard, NULL)) == 0) {
                if (++count <= 3) /* a few more may be left */
                        printf("%.*s\n", (int)guard.value.len, (const char *)guard.value.data);
                sb_guard_release(&guard);
        }
        expect(r == SB_E_NOT_FOUND || r == SB_E_LAPPED, "it comes to its end");
        sb_history_close(history);
}

/* A delete is a version, too. */
static void show_the_first(void)
{
        struct sb_guard guard = {0};
        struct sb_history *history;
        uint64_t time_ns;

        expect(sb_history_open(bus, b("config/size"), 0, &history) == 0, "a history");
        expect(sb_history_next(history, &guard, &time_ns) == 0, "there is a version");
        printf("newest: %s\n", guard.kind == SB_DELETED ? "deleted" : "there");
        sb_guard_release(&guard);
        sb_history_close(history);
}

/* Without a rule only the newest version is kept. */
static void keep_no_more(void)
{
        struct sb_rule rule = {.size = sizeof(rule), .kind = SB_KEEP_NEWEST};

        expect(sb_keep(bus, b("config/"), SB_PREFIX, &rule) == 0, "the rule is taken away");
        expect(sb_kept(bus, b("config/"), SB_PREFIX, &rule) == SB_E_NOT_FOUND, "it is gone");
}

int main(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        static const char *const values[] = {"1", "2", "3", "4"};

        expect(sb_open(&options, &bus) == 0, "a bus");
        keep_three();
        look_at_the_rule();
        for (int i = 0; i < 4; i++)
                expect(sb_set(bus, b("config/size"), b(values[i]), NULL, NULL) == 0, values[i]);
        show_versions();
        expect(sb_delete(bus, b("config/size"), SB_ANY_REV, NULL, NULL) == 0, "it had a value");
        show_the_first();
        keep_no_more();
        sb_close(bus);
        return 0;
}
