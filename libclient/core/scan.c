/*
 * Scans: the keys with a prefix, in byte order, at one cut.
 *
 * A scan announces its cut as a snapshot for as long as it is open, so that no version of the cut
 * goes away, and no key that has a value in it. Between calls it stands on a node that a guard word
 * holds; a node that was removed meanwhile (its key had no value in the cut) is left by looking for
 * the next key above its own.
 *
 * In a transaction it reads at that one's cut, which is announced already, and the transaction's
 * own writes are merged in: the next key is the lesser of the next in the segment and the next
 * write, which hides the same key in the segment, and passes as nothing when it is a delete. They
 * are looked up anew in each step, so writes may come in between. A serializable transaction notes
 * each step: nothing between the places before and behind it but what it gave.
 *
 * Always true: at AT_NODE the scan's place holds the node; elsewhere it holds nothing.
 */
#include "libclient/core/scan.h"

#include <mimalloc.h>
#include <string.h>

#include "libclient/core/bus.h"
#include "libclient/core/scan-past.h"
#include "libclient/core/txn.h"
#include "shm/order.h"
#include "shm/reserved.h"
#include "shm/snapshot.h"
#include "shm/walk.h"

#define AGAIN (-1) /* the walk has to go on under a fresh pin; never leaves this file */
#define OWN   (-2) /* an own write comes first; never leaves this file */
/* Keys passed over under one pin, so that a walk over dead ones holds up no memory. */
#define STEPS_MAX 256u

enum position { AT_KEY, AT_NODE, AT_END };

struct sb_scan {
        struct sb_bus *bus;           /* NULL: closed under the scan */
        struct sb_scan *next, **link; /* in the bus's list */
        struct sb_txn *txn;           /* NULL: none, or ended */
        bool in_txn;                  /* not a cut of its own */
        uint64_t cut;
        uint32_t snapshot;       /* the cut's announcement */
        uint32_t place;          /* whose guard word holds the node */
        uint32_t ahead, fetched; /* keys to fetch the memory of next time; that it is there of */
        enum position position;
        /* AT_KEY: the first key above it, rather than the first not below it */
        bool after;
        bool reserved; /* the bus's own keys are asked for */
        bool reverse;  /* next goes down */
        bool trimmed;  /* what was found is not what was there, but the oldest that is left */
        struct sb_scan_past past;
        uint64_t left; /* so many keys more */
        uint32_t key_len, prefix_len;
        uint64_t node; /* AT_NODE: its offset */
        unsigned char key[SB_KEY_LEN_MAX];
        unsigned char prefix[SB_KEY_LEN_MAX];
};

/* A cut of its own, or @txn's. Return: 0, SB_E_FULL, SB_E_LAPPED. */
static int take_cut(struct sb_scan *scan, struct sb_bus *bus, struct sb_txn *txn, uint64_t cut)
{
        int r;

        if (cut != 0) {
                scan->cut = cut;
                return sb_scan_past_open(&bus->peer, scan->prefix, scan->prefix_len, cut,
                        &scan->snapshot, &scan->past);
        }
        if (txn == NULL) {
                r = sb_snapshot_open(&bus->peer, &scan->snapshot, &scan->cut);
                scan->past.cut = scan->cut;
                return r;
        }
        scan->past.cut = txn->cut;
        scan->txn = txn;
        scan->in_txn = true;
        scan->snapshot = txn->snapshot;
        scan->cut = txn->cut;
        txn->scan_count++;
        return 0;
}

/**
 * sb_scan_open() - look at all keys with a prefix as they are now, or as a transaction sees them
 * @bus:        bus with any access
 * @txn:        NULL: at a cut taken now; an open transaction of @bus: at its cut, with its own
 *              writes, also those that it makes while the scan is open
 * @prefix:     may be empty: all keys; not kept after the call
 * @ret_scan:   stands before the first key
 *
 * An open scan keeps what its cut needs. In a transaction it ends with it: once that is decided or
 * ended, each call but sb_scan_cut() and sb_scan_close() answers -EINVAL.
 *
 * Return:   0; SB_E_FULL: this bus has as many scans and transactions open as it may (32; one in a
 *           transaction does not count), or holds 65,536 guards; SB_E_DETACHED; -EINVAL;
 *           -ENAMETOOLONG; -ENOMEM.
 * Threads:  the bus's own.
 * Progress: lock-free; nobody waits for a scan.
 * Cost:     one compare and swap on the commit clock; in a transaction none.
 */
int sb_scan_open(
        struct sb_bus *bus, struct sb_txn *txn, struct sb_bytes prefix, struct sb_scan **ret_scan)
{
        const struct sb_scan_options how = {.size = sizeof(how), .txn = txn};

        return sb_scan_open_at(bus, prefix, &how, ret_scan);
}

static bool are_options(const struct sb_bus *bus, const struct sb_scan_options *how)
{
        /* A:clock. A cut that nobody took yet has no past. */
        return how->size == sizeof(*how) && (how->flags & ~SB_REVERSE) == 0 && how->zero == 0 &&
               (how->cut == 0 ||
                       (how->txn == NULL && how->cut > SB_STAMP_BIRTH &&
                               how->cut < sb_load_acquire(&bus->peer.segment.super->clock)));
}

/**
 * sb_scan_open_at() - the same, with a choice of moment, direction and length
 * @bus:        bus with any access
 * @prefix:     as for sb_scan_open()
 * @how:        NULL, or: flags: SB_REVERSE: next gives the keys from the last to the first;
 *              limit: so many keys, 0: all; cut: a cut that was taken before, 0: now; txn: as for
 *              sb_scan_open(), with cut 0
 * @ret_scan:   stands before the first key, or behind the last
 *
 * A cut that was taken before is kept by a mark, or for all keys with the prefix by rules
 * (sb_keep()). Where a rule has kept too little of a key, next answers SB_E_LAPPED with the oldest
 * version of it that is left in the guard, and goes on behind it.
 *
 * Return:   as sb_scan_open(); SB_E_LAPPED: nothing keeps that cut for these keys.
 * Threads:  the bus's own.
 * Progress: lock-free; nobody waits for a scan.
 * Cost:     one locked instruction; at a cut of before, a look at the rules.
 */
int sb_scan_open_at(struct sb_bus *bus, struct sb_bytes prefix, const struct sb_scan_options *how,
        struct sb_scan **ret_scan)
{
        static const struct sb_scan_options plain = {.size = sizeof(plain)};
        struct sb_scan *scan;
        struct sb_txn *txn;
        int r;

        if (bus == NULL || ret_scan == NULL || (prefix.data == NULL && prefix.len > 0))
                return -EINVAL;
        if (how == NULL)
                how = &plain;
        if (!are_options(bus, how))
                return -EINVAL;
        txn = how->txn;
        if (txn != NULL && (txn->state != SB_TXN_OPEN || txn->bus != bus))
                return -EINVAL;
        if (prefix.len > bus->peer.segment.key_len_max)
                return -ENAMETOOLONG;
        if (sb_bus_detached(bus))
                return SB_E_DETACHED;
        r = sb_bus_place_reserve(bus, 1);
        if (r != 0)
                return r;
        scan = mi_zalloc(sizeof(*scan));
        if (scan == NULL)
                return -ENOMEM;
        scan->prefix_len = scan->key_len = (uint32_t)prefix.len;
        if (prefix.len > 0) {
                memcpy(scan->prefix, prefix.data, prefix.len);
                memcpy(scan->key, prefix.data, prefix.len);
        }
        r = take_cut(scan, bus, txn, how->cut);
        if (r != 0) {
                mi_free(scan);
                return r;
        }
        scan->bus = bus;
        scan->place = sb_bus_place_take(bus);
        scan->left = how->limit != 0 ? how->limit : UINT64_MAX;
        scan->ahead = 1;
        scan->reverse = (how->flags & SB_REVERSE) != 0;
        scan->position = scan->reverse ? AT_END : AT_KEY;
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
        scan->ahead = 1;
        scan->fetched = 0;
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

/* Whether an own write comes before @key, or is of the same key. @key NULL: there is no key. */
static bool own_is_first(
        const struct sb_own_write *own, const unsigned char *key, uint32_t key_len, bool backwards)
{
        int order;

        if (own == NULL || key == NULL)
                return own != NULL;
        order = sb_key_compare(key, key_len, own->value->bytes, own->value->key_len);
        return backwards ? order <= 0 : order >= 0;
}

static bool in_prefix(const struct sb_scan *scan, const void *key, uint32_t key_len)
{
        return key_len >= scan->prefix_len && memcmp(key, scan->prefix, scan->prefix_len) == 0;
}

/* Behind an own write; at @node, when that has its key. */
static int stand_behind_own(
        struct sb_scan *scan, const struct sb_own_value *own, struct sb_node *node)
{
        const unsigned char *key = node ? sb_node_key(&scan->bus->peer.segment, node) : NULL;

        if (key != NULL && node->key_len == own->key_len &&
                memcmp(key, own->bytes, own->key_len) == 0)
                stand_at_node(scan, node);
        else
                stand_at_key(scan, own->bytes, own->key_len, true);
        return OWN;
}

/* Now and then: of ever more keys at once, so that a short scan fetches little in vain. */
static void fetch_ahead(struct sb_scan *scan, struct sb_node *node)
{
        if (scan->fetched > 0) {
                scan->fetched--;
                return;
        }
        scan->fetched = sb_walk_fetch(&scan->bus->peer, node, scan->ahead);
        scan->ahead = scan->ahead < SB_WALK_FETCH ? 2 * scan->ahead : SB_WALK_FETCH;
}

/* Under a pin: from where the scan stands to the first key in range with a value at the cut.
 * @own: the next own write in range, or NULL. Return: 0 (the scan stands at its node); OWN (it
 * stands behind that write); SB_E_NOT_FOUND (at the end); AGAIN. */
static int step_pinned(
        struct sb_scan *scan, const struct sb_own_write *own, struct sb_version **ret_version)
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

                        fetch_ahead(scan, from);
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
                if (key == NULL || !in_prefix(scan, key, node->key_len) ||
                        own_is_first(own, key, node->key_len, false))
                        break;
                if (!scan->reserved && sb_is_reserved(key, node->key_len)) {
                        stand_at_key(scan, SB_RESERVED_END, SB_RESERVED_LEN, false);
                        return AGAIN;
                }
                version = sb_scan_past_version(&scan->past, peer, node, &scan->trimmed);
                if (version != NULL) {
                        stand_at_node(scan, node);
                        *ret_version = version;
                        return 0;
                }
                if (steps == STEPS_MAX) {
                        stand_at_node(scan, node);
                        return AGAIN;
                }
        }
        if (own != NULL)
                return stand_behind_own(scan, own->value, node);
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
 * @own: the last own write there, or NULL. Return: 0, OWN: the scan stands before it;
 * SB_E_NOT_FOUND, before the first; AGAIN. */
static int step_back_pinned(struct sb_scan *scan, struct bound *bound,
        const struct sb_own_write *own, struct sb_version **ret_version)
{
        struct sb_peer *peer = &scan->bus->peer;

        for (uint32_t steps = 0; steps < STEPS_MAX; steps++) {
                struct sb_node *node =
                        sb_walk_below(peer, bound->key, bound->len, bound->inclusive);
                const unsigned char *key = node ? sb_node_key(&peer->segment, node) : NULL;
                struct sb_version *version;

                if (key == NULL || !in_prefix(scan, key, node->key_len))
                        key = NULL;
                if (own_is_first(own, key, key ? node->key_len : 0, true)) {
                        bound_set(bound, own->value->bytes, own->value->key_len, false);
                        stand_at_key(scan, bound->key, bound->len, false);
                        return OWN;
                }
                if (key == NULL) {
                        stand_at_key(scan, scan->prefix, scan->prefix_len, false);
                        return SB_E_NOT_FOUND;
                }
                if (!scan->reserved && sb_is_reserved(key, node->key_len)) {
                        bound_set(bound, SB_RESERVED, SB_RESERVED_LEN, false);
                        continue;
                }
                bound_set(bound, key, node->key_len, false);
                version = sb_scan_past_version(&scan->past, peer, node, &scan->trimmed);
                if (version != NULL) {
                        stand_at_key(scan, bound->key, bound->len, false);
                        *ret_version = version;
                        return 0;
                }
        }
        return AGAIN;
}

static int check_scan(const struct sb_scan *scan)
{
        if (scan->bus == NULL)
                return SB_E_DETACHED;
        if (scan->in_txn)
                return scan->txn == NULL ? -EINVAL : sb_txn_check(scan->txn);
        return sb_bus_detached(scan->bus) ? SB_E_DETACHED : 0;
}

static int check_step(const struct sb_scan *scan, const struct sb_guard *ret_guard)
{
        return scan == NULL || ret_guard == NULL ? -EINVAL : check_scan(scan);
}

/* The transaction's own write that is next from @place, or NULL. */
static struct sb_own_write *own_from(
        const struct sb_scan *scan, const struct bound *place, bool backwards)
{
        const struct sb_own *own = scan->txn == NULL ? NULL : &scan->txn->own;
        struct sb_own_write *write;

        if (own == NULL || own->count == 0)
                return NULL;
        write = backwards ? sb_own_below(own, place->key, place->len, place->inclusive)
                          : sb_own_above(own, place->key, place->len, place->inclusive);
        if (write != NULL && !scan->reserved &&
                sb_is_reserved(write->value->bytes, write->value->key_len))
                write = backwards ? sb_own_below(own, SB_RESERVED, SB_RESERVED_LEN, false)
                                  : sb_own_above(own, SB_RESERVED_END, SB_RESERVED_LEN, false);
        if (write == NULL || !in_prefix(scan, write->value->bytes, write->value->key_len))
                return NULL;
        return write;
}

/* One step from @place, which going back moves along: to a key whose version the guard word of
 * @place_index holds; or to an own write that is a value. Return: 0, OWN, SB_E_NOT_FOUND. */
static int step_merged(struct sb_scan *scan, struct bound *place, bool backwards,
        uint32_t place_index, struct sb_version **ret_version, struct sb_own_write **ret_own)
{
        struct sb_own_write *own = own_from(scan, place, backwards);
        struct sb_peer *peer = &scan->bus->peer;
        int r;

        do {
                sb_pin(peer);
                r = backwards ? step_back_pinned(scan, place, own, ret_version)
                              : step_pinned(scan, own, ret_version);
                if (r == 0)
                        sb_guard_set(peer, place_index, sb_offset_of(&peer->segment, *ret_version));
                sb_unpin(peer);
                if (r == OWN && own->kind == SB_OWN_DELETED) {
                        bound_of(scan, place);
                        own = own_from(scan, place, backwards);
                        r = AGAIN;
                }
        } while (r == AGAIN);
        *ret_own = own;
        return r;
}

static bool is_above(const struct sb_ranges_edge *a, const struct sb_ranges_edge *b)
{
        int order = compare_bytes(a->key, a->key_len, b->key, b->key_len);

        return order != 0 ? order > 0 : a->behind && !b->behind;
}

/* What lies between these places was seen; not the bus's own keys, unless they were asked for. */
static void note_step(struct sb_scan *scan, const struct bound *from, bool backwards)
{
        static const struct sb_ranges_edge reserved = {SB_RESERVED, SB_RESERVED_LEN, false},
                                           behind = {SB_RESERVED_END, SB_RESERVED_LEN, false};
        struct sb_ranges *ranges = &scan->txn->ranges;
        struct sb_ranges_edge edges[2];
        struct bound to;

        bound_of(scan, &to);
        edges[backwards] = (struct sb_ranges_edge){from->key, from->len, from->inclusive};
        edges[!backwards] = (struct sb_ranges_edge){to.key, to.len, to.inclusive};
        if (scan->reserved || is_above(&edges[0], &reserved) || !is_above(&edges[1], &behind)) {
                sb_ranges_add(ranges, &edges[0], &edges[1]);
                return;
        }
        sb_ranges_add(ranges, &edges[0], &reserved);
        sb_ranges_add(ranges, &behind, &edges[1]);
}

/* To the next key, or the one before, and hold its version. */
static int step(struct sb_scan *scan, bool backwards, struct sb_guard *ret_guard)
{
        bool noted = scan->txn != NULL && scan->txn->serializable;
        struct sb_version *version = NULL;
        struct sb_own_write *own = NULL;
        struct sb_bus *bus = scan->bus;
        struct bound place, from;
        uint32_t place_index;
        int r = sb_bus_place_reserve(bus, 1);

        if (r == 0 && noted)
                r = sb_ranges_reserve(&scan->txn->ranges, &scan->txn->own);
        if (r != 0)
                return r;
        if (backwards || scan->txn != NULL)
                bound_of(scan, &place);
        if (noted)
                bound_set(&from, place.key, place.len, place.inclusive);
        place_index = sb_bus_place_first(bus);
        r = step_merged(scan, &place, backwards, place_index, &version, &own);
        if (!sb_snapshot_holds(&bus->peer, scan->snapshot, scan->cut) ||
                !sb_scan_past_holds(&scan->past, &bus->peer.segment)) {
                if (r == 0)
                        sb_guard_set(&bus->peer, place_index, 0);
                return SB_E_LAPPED;
        }
        if (noted)
                note_step(scan, &from, backwards);
        if (r == 0)
                sb_bus_guard_fill(bus, sb_bus_ticket_take(bus), version,
                        SB_SHAPE_KEY_LEN(version->shape), ret_guard);
        if (r == OWN)
                sb_txn_guard_fill(bus, own->value, ret_guard);
        if (r != 0 || !scan->trimmed)
                return r == OWN ? 0 : r;
        if ((SB_SHAPE_KIND(version->shape) & SB_VERSION_KIND) != SB_VERSION_VALUE)
                ret_guard->kind = SB_DELETED;
        return SB_E_LAPPED;
}

/* @backwards: as the scan goes. */
static int turn(struct sb_scan *scan, bool backwards, struct sb_guard *ret_guard)
{
        bool down = scan->reverse != backwards;

        return !down && scan->position == AT_END ? SB_E_NOT_FOUND : step(scan, down, ret_guard);
}

/**
 * sb_scan_next() - hold the next key's version at the scan's cut
 * @scan:       an open scan
 * @ret_guard:  the version, or in a transaction a copy of an own write (as sb_txn_get() gives);
 *              held until it is released, whatever becomes of the scan
 *
 * Return:   0; SB_E_NOT_FOUND: the end, until sb_scan_seek(), or the limit; SB_E_LAPPED: an
 *           operator took the cut away, or it grew older than the bus allows; or, with a guard that
 * is held, what this key was then is not known any more: go on; SB_E_FULL (65,536 guards are held;
 * the scan has not moved); SB_E_DETACHED; -EINVAL; -ENOMEM. Threads:  the bus's own. Progress:
 * lock-free; passes over keys that came or went since the cut. Cost:     two cold misses a key.
 */
int sb_scan_next(struct sb_scan *scan, struct sb_guard *ret_guard)
{
        int r = check_step(scan, ret_guard);

        if (r != 0)
                return r;
        if (scan->left == 0)
                return SB_E_NOT_FOUND;
        ret_guard->bus = NULL;
        r = turn(scan, false, ret_guard);
        scan->left -= r == 0 || (r == SB_E_LAPPED && ret_guard->bus != NULL);
        return r;
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
        int r = check_step(scan, ret_guard);

        return r != 0 ? r : turn(scan, true, ret_guard);
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
                        if (!scan->in_txn)
                                sb_snapshot_close(&scan->bus->peer, scan->snapshot);
                }
                if (scan->txn != NULL)
                        scan->txn->scan_count--;
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

void sb_scan_forget(struct sb_scan *scans, const struct sb_txn *txn)
{
        for (struct sb_scan *scan = scans; scan != NULL; scan = scan->next)
                if (scan->txn == txn)
                        scan->txn = NULL;
}
