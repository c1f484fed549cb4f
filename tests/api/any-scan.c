/*
 * Scans, by chance: with prefixes, ends, limits, both ways round, in transactions and at cuts of
 * before. See any.h.
 *
 * In the model a scan stands right before or right behind some bytes, or at its end. A step goes to
 * the next key of the scan there that has a value in its cut; where rules alone keep the cut, one
 * may come in between of which too little is left.
 */
#include <errno.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "tests/api/any.h"

#define MANY 70u

static struct scan {
        struct sb_scan *scan; /* NULL: none is open */
        struct any_txn *txn;
        uint32_t bus, prefix_len, end_len, at_len;
        uint64_t cut, left;
        bool reverse, bounded, at_end, at_behind;
        bool unsure; /* rules alone keep the cut */
        bool lost;   /* the cut is gone */
        unsigned char prefix[ANY_KEY_LEN], end[ANY_KEY_LEN], at[ANY_KEY_LEN];
} scans[ANY_SCANS];

static void stand(struct scan *scan, const void *key, size_t len, bool behind)
{
        scan->at_end = false;
        scan->at_behind = behind;
        scan->at_len = (uint32_t)len;
        if (len > 0)
                memmove(scan->at, key, len);
}

static bool is_in_range(const struct scan *scan, uint32_t key)
{
        const struct any_key *of = &any.key[key];

        return any_begins(of, scan->prefix, scan->prefix_len) &&
               (!scan->bounded || any_compare(of->bytes, of->len, scan->end, scan->end_len) < 0);
}

static bool is_seen(const struct scan *scan, uint32_t key)
{
        return is_in_range(scan, key) && (scan->txn ? any_txn_sees(scan->txn, key)
                                                 : any_at(key, scan->cut) ? true
                                                                          : false);
}

/* Whether a key lies in the way of a step up, or @down. */
static bool is_ahead(const struct scan *scan, uint32_t key, bool down)
{
        const struct any_key *of = &any.key[key];
        int order;

        if (scan->at_end)
                return down;
        order = any_compare(of->bytes, of->len, scan->at, scan->at_len);
        if (order == 0)
                return scan->at_behind == down;
        return (order < 0) == down;
}

/* The key to which a step comes; ANY_KEYS: the end. */
static uint32_t next_of(const struct scan *scan, bool down)
{
        for (uint32_t i = 0; i < any.key_count; i++) {
                uint32_t key = down ? any.key_count - 1 - i : i;

                if (is_seen(scan, key) && is_ahead(scan, key, down))
                        return key;
        }
        return ANY_KEYS;
}

/* A step went to @key: that was read, and all on the way. */
static void move_to(struct scan *scan, uint32_t key, bool down)
{
        for (uint32_t i = 0; scan->txn && i < any.key_count; i++)
                if (is_in_range(scan, i) && is_ahead(scan, i, down) &&
                        (key == ANY_KEYS || (down ? i >= key : i <= key)))
                        any_txn_read(scan->txn, i);
        if (key != ANY_KEYS)
                stand(scan, any.key[key].bytes, any.key[key].len, !down);
        else if (down)
                stand(scan, scan->prefix, scan->prefix_len, false);
        else
                scan->at_end = true;
}

/* Of a key too little is left, or the cut is gone. */
static void compare_lapped(struct scan *scan, bool down, struct sb_guard *guard)
{
        uint32_t key = 0, next = next_of(scan, down);

        ANY_CHECK(scan->unsure, "the cut of a scan is gone");
        any.lapped++;
        scan->lost = !guard->bus;
        if (scan->lost)
                return;
        while (key < any.key_count && any_compare(guard->key.data, guard->key.len,
                                              any.key[key].bytes, any.key[key].len) != 0)
                key++;
        ANY_CHECK(key < any.key_count && is_in_range(scan, key) && is_ahead(scan, key, down) &&
                          (next == ANY_KEYS || (down ? key >= next : key <= next)),
                "a scan says of key %u that too little is left, and is before %u", key, next);
        ANY_CHECK(!any_must_know(key, scan->cut), "key %u is kept, not known", key);
        move_to(scan, key, down);
        sb_guard_release(guard);
}

static void compare_step(struct scan *scan, bool down, int r, struct sb_guard *guard)
{
        uint32_t key = next_of(scan, down);

        if (r == SB_E_LAPPED) {
                compare_lapped(scan, down, guard);
                return;
        }
        ANY_CHECK(r == (key == ANY_KEYS ? SB_E_NOT_FOUND : 0), "a step to key %u says %d", key, r);
        if (r == 0) {
                any_compare_seen(guard, scan->txn, scan->cut, key);
                any_let_go(guard);
        }
        move_to(scan, key, down);
}

/* Whether a step that counts for the limit gave something. */
static bool counts(int r, const struct sb_guard *guard)
{
        return r == 0 || (r == SB_E_LAPPED && guard->bus);
}

static struct scan *draw_scan(void)
{
        struct scan *scan = &scans[any_below(ANY_SCANS)];

        if (!scan->scan || (scan->txn && scan->txn->decided))
                return NULL;
        return scan;
}

void any_scan_step(void)
{
        struct scan *scan = draw_scan();
        bool back = any_one_in(3);

        for (uint64_t left = any_one_in(4) ? any_below(80) : 1; scan && left > 0; left--) {
                struct sb_guard guard = {0};
                int r;

                back = any_one_in(12) ? !back : back;
                r = back ? sb_scan_prev(scan->scan, &guard) : sb_scan_next(scan->scan, &guard);
                if (any_is_full(r))
                        return;
                if (!back && scan->left == 0) {
                        ANY_CHECK(r == SB_E_NOT_FOUND, "a scan goes on behind its limit");
                        continue;
                }
                if (scan->lost) {
                        /* Where nothing comes, it need not look. */
                        ANY_CHECK(r == SB_E_LAPPED || (r == SB_E_NOT_FOUND && scan->at_end &&
                                                              scan->reverse == back),
                                "a lost scan says %d", r);
                        ANY_CHECK(!guard.bus, "a lost scan gives something");
                        continue;
                }
                scan->left -= !back && counts(r, &guard);
                compare_step(scan, scan->reverse != back, r, &guard);
        }
}

void any_scan_many(void)
{
        static struct sb_guard guards[MANY];
        struct sb_guard behind = {0};
        struct scan *scan = draw_scan();
        size_t count = 1 + any_below(any_one_in(2) ? MANY - 1 : 6), done = 0;
        int r, end = SB_E_FULL;

        if (!scan || scan->lost || scan->left == 0)
                return;
        memset(guards, 0, sizeof(guards));
        r = sb_scan_next_many(scan->scan, guards, count, &done);
        if (any_is_full(r))
                return;
        if (r != 0) {
                scan->left -= counts(r, &guards[0]);
                compare_step(scan, scan->reverse, r, &guards[0]);
                return;
        }
        ANY_CHECK(done > 0 && done <= count && done <= scan->left, "a batch of %zu keys", done);
        /* What ended it, the next call says: asked before any guard is released. */
        if (done < count && done < scan->left) {
                end = sb_scan_next(scan->scan, &behind);
                ANY_CHECK(end != 0 || any.bus[scan->bus]->guard_free_count == 0,
                        "a batch ended early");
        }
        for (size_t i = 0; i < done; i++) {
                scan->left--;
                compare_step(scan, scan->reverse, 0, &guards[i]);
        }
        if (end == SB_E_FULL)
                return;
        scan->left -= counts(end, &behind);
        compare_step(scan, scan->reverse, end, &behind);
}

void any_scan_seek(void)
{
        struct scan *scan = draw_scan();
        bool behind = any_one_in(3);
        struct sb_bytes key;
        int r;

        if (!scan)
                return;
        if (any_one_in(4)) {
                ANY_CHECK(sb_scan_seek_end(scan->scan) == 0, "seek to the end");
                scan->at_end = true;
                return;
        }
        key = any_near_key();
        r = behind ? sb_scan_seek_last(scan->scan, key) : sb_scan_seek(scan->scan, key);
        ANY_CHECK(r == 0, "seek: %d", r);
        if (key.len == 0 || any_compare(key.data, key.len, scan->prefix, scan->prefix_len) < 0)
                stand(scan, scan->prefix, scan->prefix_len, false);
        else
                stand(scan, key.data, key.len, behind);
}

/* Draw what to scan. */
static struct sb_scan_options draw_options(const struct any_txn *txn)
{
        struct sb_scan_options how = {.size = sizeof(how)};

        how.flags = any_one_in(2) ? SB_REVERSE : 0;
        how.limit = any_one_in(4) ? any_below(10) : 0;
        how.txn = txn ? txn->txn : NULL;
        if (!txn && any_one_in(2))
                how.cut = any_cut();
        if (any_one_in(3)) {
                how.end = any_near_key();
                how.end.data = how.end.data ? how.end.data : "";
        } else if (any_one_in(3)) {
                how.size = offsetof(struct sb_scan_options, end); /* the first header's */
        }
        return how;
}

void any_scan_open(void)
{
        struct scan *scan = &scans[any_below(ANY_SCANS)];
        struct any_txn *txn = any_one_in(2) ? any_open_txn() : NULL;
        struct sb_scan_options how = draw_options(txn);
        struct sb_bytes prefix = any_near_key();
        int r;

        prefix.len = any_one_in(3) ? 0 : any_below(prefix.len + 1);
        if (any_is_own(prefix))
                return;
        sb_scan_close(scan->scan);
        *scan = (struct scan){.txn = txn, .bus = txn ? txn->bus : any_bus()};
        r = sb_scan_open_at(any.bus[scan->bus], prefix, &how, &scan->scan);
        if (any_is_full(r))
                return;
        if (r == SB_E_LAPPED && how.cut != 0) {
                ANY_CHECK(!any_is_marked(how.cut), "a marked cut cannot be scanned");
                any.lapped++;
                return;
        }
        ANY_CHECK(r == 0, "a scan: %d", r);
        scan->cut = sb_scan_cut(scan->scan);
        scan->unsure = how.cut != 0 && !any_is_marked(how.cut);
        scan->left = how.limit != 0 ? how.limit : UINT64_MAX;
        scan->reverse = scan->at_end = (how.flags & SB_REVERSE) != 0;
        scan->bounded = how.end.data;
        scan->end_len = (uint32_t)how.end.len;
        scan->prefix_len = scan->at_len = (uint32_t)prefix.len;
        if (prefix.len > 0) {
                memcpy(scan->prefix, prefix.data, prefix.len);
                memcpy(scan->at, prefix.data, prefix.len);
        }
        if (how.end.len > 0)
                memcpy(scan->end, how.end.data, how.end.len);
        if (how.cut == 0 && !txn)
                any_saw_cut(scan->cut);
}

void any_scan_whole(void)
{
        const struct sb_scan_options how = {
                .size = sizeof(how), .flags = any_one_in(2) ? SB_REVERSE : 0};
        struct scan scan = {.cut = UINT64_MAX, .at_end = how.flags != 0};
        struct sb_guard guard = {0};
        uint32_t key;
        int r = sb_scan_open_at(any.bus[any_bus()], (struct sb_bytes){NULL, 0}, &how, &scan.scan);

        if (any_is_full(r))
                return;
        ANY_CHECK(r == 0, "a scan of all: %d", r);
        do {
                key = next_of(&scan, how.flags != 0);
                r = sb_scan_next(scan.scan, &guard);
                if (any_is_full(r))
                        break;
                ANY_CHECK(r == (key == ANY_KEYS ? SB_E_NOT_FOUND : 0),
                        "a scan of all comes to key %u, and says %d", key, r);
                if (r == 0)
                        any_compare_guard(&guard, key, any_now(key));
                sb_guard_release(&guard);
                move_to(&scan, key, how.flags != 0);
        } while (r == 0);
        sb_scan_close(scan.scan);
}

void any_scans_lose(uint32_t bus)
{
        for (uint32_t i = 0; i < ANY_SCANS; i++)
                if (scans[i].scan && scans[i].bus == bus)
                        scans[i].lost = true;
}

void any_scans_of_txn_end(struct any_txn *txn)
{
        struct sb_guard guard = {0};

        for (uint32_t i = 0; i < ANY_SCANS; i++) {
                struct scan *scan = &scans[i];

                if (!scan->scan || scan->txn != txn)
                        continue;
                ANY_CHECK(sb_scan_next(scan->scan, &guard) == -EINVAL,
                        "a scan goes on behind its transaction");
                scan->scan = sb_scan_close(scan->scan);
        }
}

void any_scans_end(uint32_t bus, enum any_end end)
{
        struct sb_guard guard = {0};

        for (uint32_t i = 0; i < ANY_SCANS; i++) {
                struct scan *scan = &scans[i];

                if (!scan->scan || scan->bus != bus)
                        continue;
                ANY_CHECK(end != ANY_CLOSED || sb_scan_next(scan->scan, &guard) == SB_E_DETACHED,
                        "a scan goes on behind its bus");
                scan->scan = sb_scan_close(scan->scan);
        }
}
