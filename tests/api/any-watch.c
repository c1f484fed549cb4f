/*
 * Watches, by chance: of keys and of prefixes, as queues, after revisions and cuts of before; and
 * scans at their cuts. See any.h; any-wait.c waits for them.
 *
 * In the model a watch stands in the list of changes of each of its keys. The next change of a key
 * is the one behind that place: unless the watch was lapped, or is a queue that drops, none is left
 * out. What it has not given yet is waited for in vain by no call.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "tests/api/any.h"

#define LARGE   (UINT64_C(16) << 20) /* a bus on which memory is short seldom, and that shows */
#define LENGTHS 3u                   /* of prefixes, at most: each costs every write a look */

static bool is_of(const struct any_watch *watch, uint32_t key)
{
        return watch->key == ANY_KEYS ? any_begins(&any.key[key], watch->prefix, watch->len)
                                      : watch->key == key;
}

uint64_t any_left_of(const struct any_watch *watch)
{
        uint64_t left = 0;

        for (uint32_t key = 0; key < any.key_count; key++)
                if (is_of(watch, key))
                        left += any.key[key].count - watch->next[key];
        return left;
}

/* All that was so far is behind the watch. */
static void pass_all(struct any_watch *watch)
{
        for (uint32_t key = 0; key < any.key_count; key++)
                watch->next[key] = any.key[key].count;
}

static void close_watch(struct any_watch *watch)
{
        watch->watch = sb_watch_close(watch->watch);
}

/* ---- opening ---- */

/* After a revision of the key that is known, or from now on. */
static uint64_t draw_revision(struct any_watch *watch)
{
        const struct any_key *of = &any.key[watch->key];
        uint32_t i = of->count - (uint32_t)any_below(of->count < 100 ? of->count + 1 : 100);

        if (any_one_in(2) || i == 0 || of->change[i - 1].rev == 0 || of->change[i - 1].gone)
                return SB_ANY_REV;
        watch->opened = of->count;
        watch->next[watch->key] = i;
        watch->after = true;
        return of->change[i - 1].rev;
}

/* After a cut of before, or from now on. */
static uint64_t draw_cut(struct any_watch *watch, uint32_t *flags)
{
        uint64_t cut = any_one_in(3) ? any_cut() : 0;

        if (cut == 0)
                return SB_ANY_REV;
        for (uint32_t key = 0; key < any.key_count; key++) {
                uint32_t i = any.key[key].count;

                while (i > 0 && any.key[key].change[i - 1].cut > cut)
                        i--;
                watch->next[key] = i;
        }
        watch->after = true;
        *flags |= SB_AFTER_CUT;
        return cut;
}

static struct sb_bytes draw_prefix(struct any_watch *watch)
{
        const struct any_key *of = &any.key[any_key()];
        uint32_t lens[LENGTHS] = {0, of->len < 3 ? of->len : 3, of->len};

        watch->len = lens[any_below(LENGTHS)];
        watch->len = watch->len + 10 > any.key_len_max ? 0 : watch->len;
        memcpy(watch->prefix, of->bytes, watch->len);
        return (struct sb_bytes){watch->prefix, watch->len};
}

void any_watch_open(void)
{
        struct any_watch *watch = &any.watch[any_below(ANY_WATCHES)];
        struct sb_watch_options how = {.size = sizeof(how), .data = watch};
        struct sb_bytes key;
        int r;

        close_watch(watch);
        if (any_one_in(8))
                return;
        *watch = (struct any_watch){.bus = any_bus(), .key = any_one_in(2) ? ANY_KEYS : any_key()};
        pass_all(watch);
        watch->drops = any_one_in(3);
        how.flags = watch->drops ? SB_BUFFERED : 0;
        how.depth = any_one_in(2) ? 0 : 1 + (uint32_t)any_below(any_one_in(4) ? 300 : 10);
        watch->depth = how.depth ? how.depth : watch->key == ANY_KEYS ? 1024 : 64;
        if (watch->key != ANY_KEYS) {
                key = any_bytes(watch->key);
                how.after = draw_revision(watch);
        } else {
                key = draw_prefix(watch);
                how.flags |= SB_PREFIX;
                how.after = draw_cut(watch, &how.flags);
        }
        any.hurries = true; /* it has no deadline for memory */
        r = sb_watch_open_at(any.bus[watch->bus], key, &how, &watch->watch);
        any.hurries = false;
        if (any_is_full(r))
                return;
        ANY_CHECK(r == 0, "a watch: %d", r);
        watch->begun = watch->last = sb_watch_cut(watch->watch);
        if (watch->key != ANY_KEYS)
                return;
        watch->held = !watch->after;
        ANY_CHECK(!watch->after || watch->begun == how.after, "a watch begins at another cut");
        if (watch->held)
                any_saw_cut(watch->begun);
}

/* ---- the next change ---- */

/* Which change of its key the guard shows: not before @from. */
static uint32_t find_change(const struct sb_guard *guard, uint32_t key, uint32_t from)
{
        const struct any_key *of = &any.key[key];

        while (from < of->count &&
                (of->change[from].cut != guard->cut ||
                        (of->change[from].rev != 0 && of->change[from].rev != guard->rev)))
                from++;
        ANY_CHECK(from < of->count, "key %u: a change that was not, or comes again: revision %llu",
                key, (unsigned long long)guard->rev);
        return from;
}

static uint32_t find_key(const struct sb_guard *guard)
{
        uint32_t key = 0;

        while (key < any.key_count && any_compare(guard->key.data, guard->key.len,
                                              any.key[key].bytes, any.key[key].len) != 0)
                key++;
        return key;
}

/* What the change replaced, where it is shown. */
static void compare_old(const struct sb_guard *guard, uint32_t key, uint32_t i)
{
        const struct any_change *old = i > 0 ? &any.key[key].change[i - 1] : NULL;

        if (!guard->old_value.data)
                return;
        ANY_CHECK(old && !old->gone && guard->old_value.len == old->len &&
                          (old->len == 0 || !memcmp(guard->old_value.data, old->value, old->len)),
                "key %u: a change replaced another value", key);
}

/* Whether a change belongs to a later life of its key than change @from: what was before is then
 * passed over, with no number. */
static bool is_later_life(uint32_t key, uint32_t from, uint32_t i)
{
        while (from < i && !any.key[key].change[from].gone)
                from++;
        return from < i;
}

static void take_change(struct any_watch *watch, struct sb_guard *guard)
{
        uint32_t key = find_key(guard), next, i;

        ANY_CHECK(key < any.key_count && is_of(watch, key), "a change of another key");
        next = watch->next[key];
        i = find_change(guard, key, next);
        any_compare_guard(guard, key, &any.key[key].change[i]);
        compare_old(guard, key, i);
        ANY_CHECK(
                i == next || watch->drops ||
                        (watch->key != ANY_KEYS && (watch->lapped || is_later_life(key, next, i))),
                "key %u: %u changes were skipped", key, i - next);
        ANY_CHECK(guard->missed == 0 || watch->drops || watch->lapped,
                "key %u: %llu changes are lost", key, (unsigned long long)guard->missed);
        if (watch->key != ANY_KEYS && guard->missed != 0)
                ANY_CHECK(guard->missed >= i - next, "key %u: %u changes are lost, not %llu", key,
                        i - next, (unsigned long long)guard->missed);
        ANY_CHECK(
                watch->key != ANY_KEYS || (guard->cut >= watch->last && guard->cut > watch->begun),
                "key %u: a watch of a prefix goes back", key);
        watch->next[key] = i + 1;
        watch->last = guard->cut;
        watch->lapped = false;
        any.watched++;
        any_let_go(guard);
}

/* Whether so much has come that some of it may be gone; or it was before the watch was opened; or
 * memory was short. */
static bool may_be_lapped(const struct any_watch *watch)
{
        if (watch->after && (watch->key == ANY_KEYS || watch->next[watch->key] < watch->opened))
                return true;
        return any.full > 0 || any.bus[0]->handle.segment.geometry.size < LARGE ||
               any_left_of(watch) > watch->depth;
}

/* The watch begins anew: of a prefix at a cut of now. */
static void be_lapped(struct any_watch *watch)
{
        ANY_CHECK(!watch->drops || (watch->after && watch->key == ANY_KEYS), "a queue was lapped");
        ANY_CHECK(may_be_lapped(watch), "a watch was lapped by %llu changes",
                (unsigned long long)any_left_of(watch));
        /* What came since the key was forgotten may be gone, too. */
        ANY_CHECK(!watch->lapped ||
                          (watch->forgotten > 0 && watch->forgotten < any.key[watch->key].count),
                "a watch is lapped again, with nothing in between");
        any.watch_lapped++;
        if (watch->key != ANY_KEYS) {
                ANY_CHECK(any_left_of(watch) > 0 || !any_now(watch->key),
                        "a watch was lapped, and nothing came");
                if (watch->lapped) /* what is missed counts from there */
                        watch->next[watch->key] = watch->forgotten;
                watch->lapped = true;
                watch->forgotten = any_now(watch->key) ? 0 : any.key[watch->key].count;
                return;
        }
        watch->begun = watch->last = sb_watch_cut(watch->watch);
        any_saw_cut(watch->begun);
        watch->held = true;
        watch->after = false;
        pass_all(watch);
}

void any_found_nothing(struct any_watch *watch)
{
        /* The key was forgotten, and is to have another life. */
        if (!watch->lapped || any_now(watch->key))
                return;
        pass_all(watch);
        watch->lapped = false;
}

bool any_ask(struct any_watch *watch, bool has)
{
        struct sb_guard guard = {0};
        uint64_t deadline_ns = any_may_sleep(watch->bus, watch);
        int r = any_has_slept(sb_watch_next(watch->watch, deadline_ns, &guard));

        if (any_is_full(r)) {
                any_release_all();
                return false;
        }
        watch->held = false;
        switch (r) {
        case 0:
                take_change(watch, &guard);
                return true;
        case SB_E_LAPPED:
                be_lapped(watch);
                return true;
        case -EINTR: /* by a signal, whatever came meanwhile */
                return false;
        default:
                break;
        }
        /* Where memory was short, what waited in a queue is missed only when it is to be given. */
        ANY_CHECK(r == SB_E_TIMED_OUT && (!has || watch->drops), "a watch says %d", r);
        any_found_nothing(watch);
        ANY_CHECK(watch->drops || any_left_of(watch) == 0, "a watch keeps %llu changes to itself",
                (unsigned long long)any_left_of(watch));
        /* Of a key that was forgotten it counts them when its next life begins. */
        if (watch->drops && watch->key != ANY_KEYS && any_now(watch->key))
                ANY_CHECK(sb_watch_dropped(watch->watch) >= any_left_of(watch),
                        "a queue lost %llu changes, and counts %llu",
                        (unsigned long long)any_left_of(watch),
                        (unsigned long long)sb_watch_dropped(watch->watch));
        return false;
}

static struct any_watch *draw_watch(void)
{
        struct any_watch *watch = &any.watch[any_below(ANY_WATCHES)];

        return watch->watch ? watch : NULL;
}

void any_watch_next(void)
{
        struct any_watch *watch = draw_watch();
        uint64_t left = any_one_in(3) ? UINT64_MAX : 1 + any_below(20);

        if (!watch)
                return;
        if (any_must_give(watch))
                any_must_show(watch->bus, "a watch has something");
        while (left-- > 0 && any_ask(watch, false))
                any_must_show(watch->bus, "a watch gave something, and may have more");
}

/* Of one that has said that it is lapped that may have been all, of a key that was forgotten. */
bool any_must_give(const struct any_watch *watch)
{
        return watch->watch && !watch->drops && !watch->lapped && any_left_of(watch) > 0;
}

const struct any_watch *any_must_have(uint32_t bus)
{
        for (uint32_t i = 0; i < ANY_WATCHES; i++)
                if (any.watch[i].bus == bus && any_must_give(&any.watch[i]))
                        return &any.watch[i];
        return NULL;
}

/* ---- scans ---- */

/* The cut of a watch that was not asked yet is kept, whatever came since then. */
void any_watch_scan(void)
{
        struct any_watch *watch = draw_watch();
        struct sb_scan_options how = {.size = sizeof(how)};
        struct sb_guard guard = {0};
        struct sb_scan *scan = NULL;
        struct sb_bytes prefix;
        uint32_t key = 0;
        int r;

        if (!watch || !watch->held)
                return;
        prefix = (struct sb_bytes){watch->prefix, any_one_in(2) ? watch->len : 0};
        how.cut = watch->begun;
        r = sb_scan_open_at(any.bus[watch->bus], prefix, &how, &scan);
        if (any_is_full(r))
                return;
        ANY_CHECK(r == 0, "a scan at a watch's cut: %d", r);
        for (;;) {
                while (key < any.key_count &&
                        (!any_begins(&any.key[key], prefix.data, prefix.len) ||
                                !any_at(key, how.cut)))
                        key++;
                r = sb_scan_next(scan, &guard);
                if (any_is_full(r))
                        break;
                ANY_CHECK(r == (key == any.key_count ? SB_E_NOT_FOUND : 0),
                        "a scan at a watch's cut comes to key %u, and says %d", key, r);
                if (r != 0)
                        break;
                any_compare_guard(&guard, key, any_at(key, how.cut));
                sb_guard_release(&guard);
                key++;
        }
        sb_scan_close(scan);
        any.watch_scans++;
}

/* ---- the end ---- */

void any_watches_lose(uint32_t bus)
{
        for (uint32_t i = 0; i < ANY_WATCHES; i++)
                if (any.watch[i].bus == bus)
                        any.watch[i].held = false;
}

void any_watches_end(uint32_t bus, enum any_end end)
{
        struct sb_guard guard = {0};

        for (uint32_t i = 0; i < ANY_WATCHES; i++) {
                struct any_watch *watch = &any.watch[i];

                if (!watch->watch || watch->bus != bus)
                        continue;
                ANY_CHECK(end != ANY_CLOSED ||
                                  sb_watch_next(watch->watch, 0, &guard) == SB_E_DETACHED,
                        "a watch goes on behind its bus");
                close_watch(watch);
        }
}
