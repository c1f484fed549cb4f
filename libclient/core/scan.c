/*
 * Scans: the keys with a prefix, in byte order, at one cut.
 *
 * A scan announces its cut as a snapshot for as long as it is open, so that no version of the cut
 * goes away, and no key that has a value in it. Between calls it stands on a node that a guard word
 * holds; a node that was removed meanwhile (its key had no value in the cut) is left by looking for
 * the next key above its own.
 *
 * Always true: at AT_NODE the scan's place holds the node; elsewhere it holds nothing.
 */
#include "libclient/core/scan.h"

#include <mimalloc.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "shm/order.h"
#include "shm/reserved.h"
#include "shm/snapshot.h"
#include "shm/walk.h"

#define AGAIN (-1) /* the walk has to go on under a fresh pin; never leaves this file */
/* Keys passed over under one pin, so that a walk over dead ones holds up no memory. */
#define STEPS_MAX 256u

enum position { AT_KEY, AT_NODE, AT_END };

struct sb_scan {
        struct sb_bus *bus;           /* NULL: closed under the scan */
        struct sb_scan *next, **link; /* in the bus's list */
        uint64_t cut;
        uint32_t snapshot; /* its announcement */
        uint32_t place;    /* whose guard word holds the node */
        enum position position;
        /* AT_KEY: the first key above it, rather than the first not below it */
        bool after;
        bool reserved; /* the bus's own keys are asked for */
        uint32_t key_len, prefix_len;
        uint64_t node; /* AT_NODE: its offset */
        unsigned char key[SB_KEY_LEN_MAX];
        unsigned char prefix[SB_KEY_LEN_MAX];
};

/**
 * sb_scan_open() - look at all keys with a prefix as they are now
 * @bus:        bus with any access
 * @txn:        NULL: at a cut taken now; transactions come in a later version (-ENOTSUP)
 * @prefix:     may be empty: all keys; not kept after the call
 * @ret_scan:   stands before the first key
 *
 * An open scan keeps what its cut needs: close it soon where others write much.
 *
 * Return:   0; SB_E_FULL: this bus has as many scans open as it may (32), or holds 65,536 guards;
 *           SB_E_DETACHED; -EINVAL; -ENAMETOOLONG; -ENOTSUP; -ENOMEM.
 * Threads:  the bus's own.
 * Progress: lock-free; nobody waits for a scan.
 * Cost:     one compare and swap on the commit clock.
 */
int sb_scan_open(
        struct sb_bus *bus, struct sb_txn *txn, struct sb_bytes prefix, struct sb_scan **ret_scan)
{
        struct sb_scan *scan;
        int r;

        if (bus == NULL || ret_scan == NULL || (prefix.data == NULL && prefix.len > 0))
                return -EINVAL;
        if (prefix.len > bus->peer.segment.key_len_max)
                return -ENAMETOOLONG;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        if (txn != NULL)
                return -ENOTSUP;
        r = sb_bus_place_reserve(bus, 1);
        if (r != 0)
                return r;
        scan = mi_zalloc(sizeof(*scan));
        if (scan == NULL)
                return -ENOMEM;
        r = sb_snapshot_open(&bus->peer, &scan->snapshot, &scan->cut);
        if (r != 0) {
                mi_free(scan);
                return r;
        }
        scan->bus = bus;
        scan->place = sb_bus_place_take(bus);
        scan->prefix_len = scan->key_len = (uint32_t)prefix.len;
        if (prefix.len > 0) {
                memcpy(scan->prefix, prefix.data, prefix.len);
                memcpy(scan->key, prefix.data, prefix.len);
        }
        scan->reserved = sb_is_reserved(scan->prefix, prefix.len);
        scan->next = bus->scans;
        scan->link = &bus->scans;
        if (scan->next != NULL)
                scan->next->link = &scan->next;
        bus->scans = scan;
        *ret_scan = scan;
        return 0;
}

static int compare_bytes(const void *a, size_t a_len, const void *b, size_t b_len)
{
        size_t len = a_len < b_len ? a_len : b_len;
        int order = len == 0 ? 0 : memcmp(a, b, len);

        return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

/* Go on at the first key not below @key (@after: above it). */
static void stand_at_key(struct sb_scan *scan, const void *key, uint32_t key_len, bool after)
{
        if (key_len > 0)
                memmove(scan->key, key, key_len);
        /* After the copy: the key may lie in the node that only this guard still holds. */
        if (scan->position == AT_NODE)
                sb_guard_set(&scan->bus->peer, scan->place, 0);
        scan->key_len = key_len;
        scan->after = after;
        scan->position = AT_KEY;
}

/* Under the pin under which @node was found. */
static void stand_at_node(struct sb_scan *scan, struct sb_node *node)
{
        scan->node = sb_offset_of(&scan->bus->peer.segment, node);
        sb_guard_set(&scan->bus->peer, scan->place, scan->node);
        scan->position = AT_NODE;
}

static void stand_at_end(struct sb_scan *scan)
{
        if (scan->position == AT_NODE)
                sb_guard_set(&scan->bus->peer, scan->place, 0);
        scan->position = AT_END;
}

/* Under a pin: from where the scan stands to the first key in range with a value at the cut.
 * Return: 0 (the scan stands at its node); SB_E_NOT_FOUND (at the end); AGAIN. */
static int step_pinned(struct sb_scan *scan, struct sb_version **ret_version)
{
        struct sb_peer *peer = &scan->bus->peer;
        struct sb_node *node = NULL;

        if (scan->position == AT_NODE)
                node = sb_node_at(&peer->segment, scan->node);
        for (uint32_t steps = 0;; steps++) {
                struct sb_version *version;
                const unsigned char *key;
                bool gone = false;

                if (node == NULL) {
                        node = sb_walk_seek(peer, scan->key, scan->key_len, scan->after);
                } else {
                        struct sb_node *from = node;

                        node = sb_walk_next(peer, from, &gone);
                        if (gone) {
                                key = sb_node_key(&peer->segment, from);
                                if (key == NULL)
                                        break;
                                stand_at_key(scan, key, from->key_len, true);
                                return AGAIN;
                        }
                }
                if (node == NULL)
                        break;
                key = sb_node_key(&peer->segment, node);
                if (key == NULL || node->key_len < scan->prefix_len ||
                        memcmp(key, scan->prefix, scan->prefix_len) != 0)
                        break;
                if (!scan->reserved && sb_is_reserved(key, node->key_len)) {
                        stand_at_key(scan, SB_RESERVED_END, SB_RESERVED_LEN, false);
                        return AGAIN;
                }
                version = sb_walk_at(peer, node, scan->cut);
                if (version != NULL &&
                        (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE) {
                        stand_at_node(scan, node);
                        *ret_version = version;
                        return 0;
                }
                if (steps == STEPS_MAX) {
                        stand_at_node(scan, node);
                        return AGAIN;
                }
        }
        stand_at_end(scan);
        return SB_E_NOT_FOUND;
}

/* A place between keys, to look downwards from. */
struct bound {
        uint32_t len;
        bool inclusive; /* the key itself counts */
        unsigned char key[SB_KEY_LEN_MAX];
};

static void bound_set(struct bound *ret, const void *key, uint32_t len, bool inclusive)
{
        if (len > 0)
                memcpy(ret->key, key, len);
        ret->len = len;
        ret->inclusive = inclusive;
}

/* Where the scan stands. */
static void bound_of(const struct sb_scan *scan, struct bound *ret)
{
        const struct sb_segment *segment = &scan->bus->peer.segment;
        uint32_t len = scan->prefix_len;

        if (scan->position == AT_NODE) {
                /* Behind this node's key. The guard word holds the node, and its key is plain. */
                const struct sb_node *node = sb_node_at(segment, scan->node);
                const unsigned char *key = node ? sb_node_key(segment, node) : NULL;

                bound_set(ret, key, key ? node->key_len : 0, true);
                return;
        }
        if (scan->position == AT_KEY &&
                (compare_bytes(scan->key, scan->key_len, scan->prefix, len) <= 0 ||
                        (scan->key_len >= len && memcmp(scan->key, scan->prefix, len) == 0))) {
                bound_set(ret, scan->key, scan->key_len, scan->after);
                return;
        }
        /* At the end, or above all keys with the prefix: below what comes behind the prefix. */
        while (len > 0 && scan->prefix[len - 1] == 0xff)
                len--;
        bound_set(ret, scan->prefix, len, false);
        if (len > 0) {
                ret->key[len - 1]++;
                return;
        }
        memset(ret->key, 0xff, SB_KEY_LEN_MAX); /* no key is above it */
        ret->len = SB_KEY_LEN_MAX;
        ret->inclusive = true;
}

/* Under a pin: the last key in range below @bound, which moves down, with a value at the cut.
 * Return: 0, the scan stands before it; SB_E_NOT_FOUND, before the first; AGAIN. */
static int step_back_pinned(
        struct sb_scan *scan, struct bound *bound, struct sb_version **ret_version)
{
        struct sb_peer *peer = &scan->bus->peer;

        for (uint32_t steps = 0; steps < STEPS_MAX; steps++) {
                struct sb_node *node =
                        sb_walk_below(peer, bound->key, bound->len, bound->inclusive);
                const unsigned char *key = node ? sb_node_key(&peer->segment, node) : NULL;
                struct sb_version *version;

                if (key == NULL || node->key_len < scan->prefix_len ||
                        memcmp(key, scan->prefix, scan->prefix_len) != 0) {
                        stand_at_key(scan, scan->prefix, scan->prefix_len, false);
                        return SB_E_NOT_FOUND;
                }
                if (!scan->reserved && sb_is_reserved(key, node->key_len)) {
                        bound_set(bound, SB_RESERVED, SB_RESERVED_LEN, false);
                        continue;
                }
                bound_set(bound, key, node->key_len, false);
                version = sb_walk_at(peer, node, scan->cut);
                if (version != NULL &&
                        (SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE) {
                        stand_at_key(scan, bound->key, bound->len, false);
                        *ret_version = version;
                        return 0;
                }
        }
        return AGAIN;
}

static int check_scan(const struct sb_scan *scan)
{
        return scan->bus == NULL || sb_bus_detached(scan->bus) ? SB_E_DETACHED : 0;
}

static int check_step(const struct sb_scan *scan, const struct sb_guard *ret_guard)
{
        return scan == NULL || ret_guard == NULL ? -EINVAL : check_scan(scan);
}

/* To the next key, or down from @bound, and hold its version. */
static int step(struct sb_scan *scan, struct bound *bound, struct sb_guard *ret_guard)
{
        struct sb_version *version = NULL;
        struct sb_bus *bus = scan->bus;
        uint32_t place;
        int r = sb_bus_place_reserve(bus, 1);

        if (r != 0)
                return r;
        place = sb_bus_place_first(bus);
        do {
                sb_pin(&bus->peer);
                r = bound ? step_back_pinned(scan, bound, &version) : step_pinned(scan, &version);
                if (r == 0)
                        sb_guard_set(&bus->peer, place, sb_offset_of(&bus->peer.segment, version));
                sb_unpin(&bus->peer);
                /* After the reads: what they found is no part of a cut that was taken away. */
                if (!sb_snapshot_holds(&bus->peer, scan->snapshot, scan->cut)) {
                        if (r == 0)
                                sb_guard_set(&bus->peer, place, 0);
                        return SB_E_LAPPED;
                }
        } while (r == AGAIN);
        if (r == 0)
                sb_bus_guard_fill(bus, sb_bus_ticket_take(bus), version,
                        SB_SHAPE_KEY_LEN(version->shape), ret_guard);
        return r;
}

/**
 * sb_scan_next() - hold the next key's version at the scan's cut
 * @scan:       an open scan
 * @ret_guard:  the version; held until it is released, whatever becomes of the scan
 *
 * Return:   0; SB_E_NOT_FOUND: the end, until sb_scan_seek(); SB_E_LAPPED: an operator took the
 *           cut away, or it grew older than the bus allows; SB_E_FULL (65,536 guards are held; the
 *           scan has not moved); SB_E_DETACHED; -EINVAL; -ENOMEM.
 * Threads:  the bus's own.
 * Progress: lock-free; passes over keys that came or went since the cut.
 * Cost:     two cold misses a key.
 */
int sb_scan_next(struct sb_scan *scan, struct sb_guard *ret_guard)
{
        int r = check_step(scan, ret_guard);

        if (r != 0)
                return r;
        if (scan->position == AT_END)
                return SB_E_NOT_FOUND;
        return step(scan, NULL, ret_guard);
}

/**
 * sb_scan_prev() - hold the version of the key before, at the scan's cut
 * @scan:       an open scan
 * @ret_guard:  as for sb_scan_next()
 *
 * A scan stands between two keys: after sb_scan_next() gave a key, sb_scan_prev() gives it again,
 * and the other way round. To begin with the last key: sb_scan_seek_end() first.
 *
 * Return:   0; SB_E_NOT_FOUND: there is none before; otherwise as sb_scan_next().
 * Threads:  the bus's own.
 * Progress: lock-free; passes over keys that came or went since the cut.
 * Cost:     a search from the top of the index for each key: some ten cold misses.
 */
int sb_scan_prev(struct sb_scan *scan, struct sb_guard *ret_guard)
{
        struct bound bound;
        int r = check_step(scan, ret_guard);

        if (r != 0)
                return r;
        bound_of(scan, &bound);
        return step(scan, &bound, ret_guard);
}

/**
 * sb_scan_seek_end() - go behind the last key, at the same cut
 * @scan:       an open scan; sb_scan_prev() gives the last key then
 *
 * Return:   0; SB_E_DETACHED; -EINVAL.
 * Threads:  the bus's own.
 * Progress: wait-free.
 * Cost:     none: the next call searches.
 */
int sb_scan_seek_end(struct sb_scan *scan)
{
        int r;

        if (scan == NULL)
                return -EINVAL;
        r = check_scan(scan);
        if (r != 0)
                return r;
        stand_at_end(scan);
        return 0;
}

/**
 * sb_scan_seek() - go to a key, forwards or backwards, at the same cut
 * @scan:       an open scan
 * @key:        next is the first key of the scan that is not below it; empty: the first of all
 *
 * Return:   0, also when no such key is there (next says so); SB_E_DETACHED; -EINVAL;
 *           -ENAMETOOLONG.
 * Threads:  the bus's own.
 * Progress: wait-free.
 * Cost:     none: the next call searches.
 */
int sb_scan_seek(struct sb_scan *scan, struct sb_bytes key)
{
        int r;

        if (scan == NULL || (key.data == NULL && key.len > 0))
                return -EINVAL;
        if (key.len > SB_KEY_LEN_MAX)
                return -ENAMETOOLONG;
        r = check_scan(scan);
        if (r != 0)
                return r;
        if (compare_bytes(key.data, key.len, scan->prefix, scan->prefix_len) < 0)
                stand_at_key(scan, scan->prefix, scan->prefix_len, false);
        else
                stand_at_key(scan, key.data, (uint32_t)key.len, false);
        return 0;
}

/**
 * sb_scan_cut() - the cut that a scan reads at
 * Return:   the cut; 0 for NULL.
 * Cost:     a load.
 */
uint64_t sb_scan_cut(const struct sb_scan *scan)
{
        return scan == NULL ? 0 : scan->cut;
}

/**
 * sb_scan_close() - end a scan; the guards that it gave stay held
 * @scan:       a scan, or NULL
 *
 * Return:   NULL.
 * Threads:  the bus's own.
 * Progress: wait-free.
 * Cost:     two stores.
 */
struct sb_scan *sb_scan_close(struct sb_scan *scan)
{
        if (scan == NULL)
                return NULL;
        if (scan->bus != NULL) {
                /* In a forked child the announcement and the guard word are the parent's. */
                if (sb_load_relaxed(scan->bus->alive) != 0) {
                        if (scan->position == AT_NODE)
                                sb_guard_set(&scan->bus->peer, scan->place, 0);
                        sb_snapshot_close(&scan->bus->peer, scan->snapshot);
                }
                sb_bus_place_give(scan->bus, scan->place);
                *scan->link = scan->next;
                if (scan->next != NULL)
                        scan->next->link = scan->link;
        }
        mi_free(scan);
        return NULL;
}

void sb_scan_orphan(struct sb_scan *scans)
{
        for (struct sb_scan *scan = scans; scan != NULL; scan = scan->next)
                scan->bus = NULL;
}
