/* How often keys are written, and how far their watchers are behind; see rates.h. */
#include "cli/rates.h"

#include <errno.h>
#include <mimalloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libclient/core/admin.h"
#include "shm/base/hash.h"

#define PAGE           256u /* keys of one call */
#define PAGES          8u   /* of one cut */
#define HOT_MAX        64u  /* keys that are looked at each time */
#define KEYS_MAX       (UINT32_C(1) << 20)
#define SECOND_NS      UINT64_C(1000000000)
#define FIRST_ROUND    6u /* times as much work in a look, until all keys were seen once */
#define AGAIN_TURNS    5u
#define AGAIN_PAUSE_NS 300000
#define AGAIN_NS       UINT64_C(100000000) /* two looks at a key that are closer count as one */

/* What is known of a key; hash 0: nothing. */
struct known {
        uint64_t hash, rev, looked_ns;
        float rate;
        uint32_t round;
        bool hot;
};

/* What is known of a watch, by its place. */
struct watch {
        uint64_t place, rev, first_rev, first_ns;
        uint32_t client, bit, wakes;
        uint32_t key; /* index of its key among the watched ones */
        bool behind;
};

struct cli_rates {
        struct known *table;
        uint32_t table_size, table_used; /* size: a power of two */
        uint32_t part;                   /* of all keys each 2^part-th is kept */
        uint64_t now_ns;
        /* the way through all keys */
        unsigned char *position; /* the last key that was seen */
        size_t position_len;
        uint32_t round;
        uint64_t round_keys, round_ns,
                round_before_ns; /* in this one; when it and the last began */
        struct cli_rates_key hot[HOT_MAX];
        uint32_t hot_count;
        double hot_least;
        struct cli_rates_key *watched;
        size_t watched_count, watched_size;
        struct watch *watches, *watches_before;
        size_t watch_count, watch_size, watch_count_before, watch_size_before;
        struct cli_rates_client clients[CLI_CLIENTS_MAX];
        struct cli_rates_key *keys; /* for the caller; the bytes are those of hot and watched */
        size_t keys_count;
        struct cli_rates_sums sums;
        uint64_t looked_twice;
        bool no_memory;
};

static uint64_t rates_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static uint64_t rates_hash(struct sb_bytes key)
{
        uint64_t hash = sb_hash_key(key.data, (uint32_t)key.len, 0);

        return hash ? hash : 1;
}

/* ---- a key, and what was known of it ---- */

static struct known *rates_find(const struct cli_rates *rates, uint64_t hash)
{
        uint32_t at = (uint32_t)hash & (rates->table_size - 1);

        while (rates->table[at].hash && rates->table[at].hash != hash)
                at = (at + 1) & (rates->table_size - 1);
        return &rates->table[at];
}

/* Whether the key is in the part of all keys that is kept. */
static bool rates_in_part(const struct cli_rates *rates, uint64_t hash)
{
        return rates->part == 0 || hash >> (64 - rates->part) == 0;
}

static bool rates_keeps(const struct cli_rates *rates, const struct known *known)
{
        return known->hash && known->round + 1 >= rates->round &&
               (known->hot || rates_in_part(rates, known->hash));
}

/* Make the table anew, for twice as many as are still there: without those that were not seen in
 * this round, nor in the last; and with half as many where it is as large as it may be. */
static bool rates_table_renew(struct cli_rates *rates)
{
        struct known *old = rates->table;
        uint32_t old_size = rates->table_size, left = 0, size = 1024;

        if (rates->table_used >= KEYS_MAX)
                rates->part++;
        for (uint32_t i = 0; i < old_size; i++)
                left += rates_keeps(rates, &old[i]);
        while (size < 4 * left && size < 2 * KEYS_MAX)
                size *= 2;
        rates->table = mi_calloc(size, sizeof(*rates->table));
        if (!rates->table) {
                rates->table = old;
                return false;
        }
        rates->table_size = size;
        rates->table_used = 0;
        for (uint32_t i = 0; i < old_size; i++)
                if (rates_keeps(rates, &old[i])) {
                        *rates_find(rates, old[i].hash) = old[i];
                        rates->table_used++;
                }
        mi_free(old);
        return true;
}

static bool rates_copy_key(struct cli_rates_key *to, struct sb_bytes key)
{
        unsigned char *bytes = mi_realloc(to->bytes, key.len ? key.len : 1);

        if (!bytes)
                return false;
        memcpy(bytes, key.data, key.len);
        to->bytes = bytes;
        to->len = key.len;
        return true;
}

static void rates_hot_least(struct cli_rates *rates)
{
        rates->hot_least = rates->hot_count < HOT_MAX ? 0 : rates->hot[0].rate;
        for (uint32_t i = 1; i < rates->hot_count && rates->hot_count == HOT_MAX; i++)
                if (rates->hot[i].rate < rates->hot_least)
                        rates->hot_least = rates->hot[i].rate;
}

/* Keep the key among the hottest, if it is one of them. */
static void rates_hot_keep(struct cli_rates *rates, struct sb_bytes key, struct known *known)
{
        struct cli_rates_key *row = NULL;

        if (!known->hot && (known->rate <= 0 || (double)known->rate <= rates->hot_least))
                return;
        for (uint32_t i = 0; i < rates->hot_count; i++)
                if (known->hot ? rates->hot[i].hash == known->hash
                               : rates->hot_count == HOT_MAX &&
                                         rates->hot[i].rate <= rates->hot_least)
                        row = &rates->hot[i];
        if (!row && rates->hot_count == HOT_MAX)
                return;
        if (!row)
                row = &rates->hot[rates->hot_count++];
        else if (!known->hot)
                rates_find(rates, row->hash)->hot = false;
        if (row->hash != known->hash && !rates_copy_key(row, key)) {
                rates->no_memory = true;
                return;
        }
        known->hot = true;
        row->hash = known->hash;
        row->rev = known->rev;
        row->rate = (double)known->rate;
        row->looked_ns = known->looked_ns;
        rates_hot_least(rates);
}

/* A look at a key. @walked: on the way through all keys, on which a key that was not there in the
 * round before is one that was written since. Return: what is known; NULL: it is not kept. */
static struct known *rates_see(
        struct cli_rates *rates, struct sb_bytes key, uint64_t rev, bool walked)
{
        uint64_t hash = rates_hash(key), since_ns;
        struct known *known = rates_find(rates, hash);

        if (!known->hash) {
                if (walked && !rates_in_part(rates, hash))
                        return NULL;
                if (4 * (uint64_t)rates->table_used >= 3 * (uint64_t)rates->table_size ||
                        rates->table_used >= KEYS_MAX) {
                        if (!rates_table_renew(rates)) {
                                rates->no_memory = true;
                                return NULL;
                        }
                        known = rates_find(rates, hash);
                }
                rates->table_used++;
                *known = (struct known){.hash = hash, .rev = rev, .looked_ns = rates->now_ns};
                if (walked && rates->round > 1 && rates->now_ns > rates->round_before_ns)
                        known->rate = (float)(SECOND_NS /
                                              (double)(rates->now_ns - rates->round_before_ns));
        } else if (rates->now_ns - known->looked_ns >= AGAIN_NS) {
                since_ns = rates->now_ns - known->looked_ns;
                known->rate =
                        rev > known->rev
                                ? (float)((double)(rev - known->rev) * SECOND_NS / (double)since_ns)
                                : 0;
                known->rev = rev;
                known->looked_ns = rates->now_ns;
                rates->looked_twice += walked;
        }
        known->round = rates->round;
        rates_hot_keep(rates, key, known);
        return known;
}

/* ---- the way through all keys ---- */

static void rates_end_round(struct cli_rates *rates)
{
        rates->sums.keys = rates->round_keys;
        rates->sums.keys_all = true;
        rates->round_keys = 0;
        rates->round++;
        rates->round_before_ns = rates->round_ns;
        rates->position_len = 0;
        if (rates->table_used > 2 * rates->sums.keys + 1024 && !rates_table_renew(rates))
                rates->no_memory = true;
}

static bool rates_remember_position(struct cli_rates *rates, struct sb_bytes key)
{
        unsigned char *bytes = mi_realloc(rates->position, key.len + 1);

        if (!bytes)
                return false;
        memcpy(bytes, key.data, key.len);
        bytes[key.len] = 0; /* the first key above this one */
        rates->position = bytes;
        rates->position_len = key.len + 1;
        return true;
}

/* See the next keys, at a cut that is open no longer. *rate: the writes of those that are none of
 * the hottest are added. Return: 0; SB_E_NOT_FOUND: those were the last; another result of a scan.
 */
static int rates_walk_pages(struct cli_rates *rates, struct sb_bus *bus, double *rate)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guards[PAGE] = {{.bus = NULL}};
        size_t count = 0;
        int r = sb_scan_open(bus, NULL, (struct sb_bytes){0}, &scan);

        if (r == 0 && rates->position_len)
                r = sb_scan_seek(scan, (struct sb_bytes){rates->position, rates->position_len});
        for (uint32_t page = 0; r == 0 && page < PAGES; page++) {
                r = sb_scan_next_many(scan, guards, PAGE, &count);
                for (size_t i = 0; r == 0 && i < count; i++) {
                        struct known *known = rates_see(rates, guards[i].key, guards[i].rev, true);

                        rates->round_keys++;
                        rates->sums.looked += known ? 1 : 0;
                        *rate += known && !known->hot ? (double)known->rate : 0;
                }
                if (r == 0 && !rates_remember_position(rates, guards[count - 1].key))
                        r = -ENOMEM;
                for (size_t i = 0; i < count; i++)
                        sb_guard_release(&guards[i]);
                count = 0;
        }
        return r;
}

static int rates_walk(struct cli_rates *rates, struct sb_bus *bus, uint64_t budget_ns)
{
        uint64_t begin_ns = rates->now_ns;
        double rate = 0;
        int r;

        if (rates->round == 1)
                budget_ns *= FIRST_ROUND;

        rates->sums.looked = 0;
        rates->looked_twice = 0;
        do {
                r = rates_walk_pages(rates, bus, &rate);
        } while (r == 0 && rates_now() - begin_ns < budget_ns && !rates->no_memory);
        if (r == SB_E_NOT_FOUND)
                rates_end_round(rates);
        else if (!rates->sums.keys_all)
                rates->sums.keys = rates->round_keys;
        rates->sums.rate_known = rates->looked_twice > 0 || rates->round > 2;
        rates->sums.rate = rate;
        if (rates->sums.looked && rates->sums.looked < rates->sums.keys)
                rates->sums.rate *= (double)rates->sums.keys / (double)rates->sums.looked;
        /* A full bus, or one that took the cut away, is looked at again later. */
        return r == SB_E_NOT_FOUND || r == SB_E_FULL || r == SB_E_LAPPED ? 0 : r;
}

/* Look again at those of the hottest that the way through the keys did not come by. */
static int rates_look_at_hot(struct cli_rates *rates, struct sb_bus *bus)
{
        struct sb_guard guard = {0};
        int r = 0;

        for (uint32_t i = 0; i < rates->hot_count && (r == 0 || r == SB_E_NOT_FOUND); i++) {
                struct cli_rates_key *row = &rates->hot[i];
                struct sb_bytes key = {row->bytes, row->len};

                if (row->looked_ns == rates->now_ns)
                        continue;
                r = sb_get(bus, key, &guard);
                if (r == 0)
                        (void)rates_see(rates, key, guard.rev, false);
                else
                        row->rate = 0;
                sb_guard_release(&guard);
        }
        for (uint32_t i = 0; i < rates->hot_count;) {
                struct cli_rates_key *row = &rates->hot[i],
                                     *last = &rates->hot[rates->hot_count - 1];
                unsigned char *bytes = row->bytes;

                if (row->rate > 0) {
                        i++;
                        continue;
                }
                rates_find(rates, row->hash)->hot = false;
                *row = *last;
                *last = (struct cli_rates_key){.bytes = bytes};
                rates->hot_count--;
        }
        rates_hot_least(rates);
        /* They are known each time; what the others are written is scaled up. */
        for (uint32_t i = 0; i < rates->hot_count; i++)
                rates->sums.rate += rates->hot[i].rate;
        return r == SB_E_NOT_FOUND || r == SB_E_FULL ? 0 : r;
}

/* ---- watches ---- */

/* Room for one more in an array; what is new is zero. */
static bool rates_grow(void **array, size_t *size, size_t count, size_t item)
{
        size_t wanted = *size ? 2 * *size : 64;
        void *grown;

        if (count < *size)
                return true;
        grown = mi_realloc(*array, wanted * item);
        if (!grown)
                return false;
        memset((unsigned char *)grown + *size * item, 0, (wanted - *size) * item);
        *array = grown;
        *size = wanted;
        return true;
}

static void rates_see_watch(void *argument, const struct sb_admin_watch *watch)
{
        struct cli_rates *rates = argument;
        /* A prefix is none of the keys, and may look like one. */
        uint64_t hash = rates_hash(watch->key) + watch->prefix;
        struct cli_rates_key *key;

        if (!rates_grow((void **)&rates->watches, &rates->watch_size, rates->watch_count,
                    sizeof(*rates->watches)) ||
                !rates_grow((void **)&rates->watched, &rates->watched_size, rates->watched_count,
                        sizeof(*rates->watched))) {
                rates->no_memory = true;
                return;
        }
        if (!rates->watched_count || rates->watched[rates->watched_count - 1].hash != hash) {
                const struct known *known =
                        watch->prefix ? NULL : rates_see(rates, watch->key, watch->rev, false);
                unsigned char *bytes = rates->watched[rates->watched_count].bytes;

                key = &rates->watched[rates->watched_count];
                *key = (struct cli_rates_key){.bytes = bytes,
                        .hash = hash,
                        .prefix = watch->prefix,
                        .rev = watch->rev,
                        .rate = known ? (double)known->rate : 0};
                if (!rates_copy_key(key, watch->key)) {
                        rates->no_memory = true;
                        return;
                }
                rates->watched_count++;
        }
        rates->watches[rates->watch_count++] = (struct watch){.place = watch->place,
                .rev = watch->rev,
                .client = watch->client,
                .bit = watch->bit,
                .wakes = watch->wakes,
                .key = (uint32_t)rates->watched_count - 1,
                .behind = watch->behind};
}

static int rates_compare_watches(const void *a, const void *b)
{
        const struct watch *left = a, *right = b;

        return (left->place > right->place) - (left->place < right->place);
}

/* Since when a watch is behind: @before is what the look before saw of it, or NULL. */
static void rates_add_watch(
        struct cli_rates *rates, struct watch *watch, const struct watch *before)
{
        struct cli_rates_key *key = &rates->watched[watch->key];
        struct cli_rates_client *client = &rates->clients[watch->client % CLI_CLIENTS_MAX];
        bool still = before && before->client == watch->client && before->behind &&
                     before->wakes == watch->wakes;
        uint64_t lag;

        watch->first_rev = still ? before->first_rev : watch->rev;
        watch->first_ns = still ? before->first_ns : rates->now_ns;
        key->watchers++;
        client->watches++;
        rates->sums.watches++;
        if (!watch->behind)
                return;
        lag = watch->rev - watch->first_rev + 1;
        key->behind++;
        client->behind++;
        rates->sums.behind++;
        if (lag >= key->lag) {
                key->lag = lag;
                key->behind_ns = rates->now_ns - watch->first_ns;
        }
        if (lag > client->lag)
                client->lag = lag;
}

/* Look again at those that are behind: a watcher that is busy has seen all in between. */
static void rates_look_again(struct cli_rates *rates, struct sb_bus *bus)
{
        const struct timespec pause = {.tv_nsec = AGAIN_PAUSE_NS};
        bool behind = true;

        for (uint32_t turn = 0; behind && turn < AGAIN_TURNS; turn++) {
                behind = false;
                for (size_t i = 0; i < rates->watch_count; i++) {
                        struct watch *watch = &rates->watches[i];

                        watch->behind = watch->behind &&
                                        sb_admin_watch_is_behind(bus, watch->client, watch->bit);
                        behind |= watch->behind;
                }
                if (behind)
                        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        }
}

static int rates_look_at_watches(struct cli_rates *rates, struct sb_bus *bus)
{
        struct watch *before = rates->watches;
        size_t before_count = rates->watch_count, size = rates->watch_size, at = 0;
        int r;

        rates->watches = rates->watches_before;
        rates->watch_size = rates->watch_size_before;
        rates->watches_before = before;
        rates->watch_size_before = size;
        rates->watch_count = rates->watched_count = 0;
        memset(rates->clients, 0, sizeof(rates->clients));
        rates->sums.watches = rates->sums.behind = 0;
        r = sb_admin_watches(bus, rates_see_watch, rates);
        rates_look_again(rates, bus);
        if (rates->watch_count)
                qsort(rates->watches, rates->watch_count, sizeof(*rates->watches),
                        rates_compare_watches);
        for (size_t i = 0; i < rates->watch_count; i++) {
                struct watch *watch = &rates->watches[i];

                while (at < before_count && before[at].place < watch->place)
                        at++;
                rates_add_watch(rates, watch,
                        at < before_count && before[at].place == watch->place ? &before[at] : NULL);
        }
        return r;
}

/* ---- the list ---- */

static int rates_compare_keys(const void *a, const void *b)
{
        const struct cli_rates_key *left = a, *right = b;
        size_t len = left->len < right->len ? left->len : right->len;
        int order;

        if (left->rate != right->rate)
                return left->rate < right->rate ? 1 : -1;
        if (left->lag != right->lag)
                return left->lag < right->lag ? 1 : -1;
        if (left->watchers != right->watchers)
                return left->watchers < right->watchers ? 1 : -1;
        order = memcmp(left->bytes, right->bytes, len);
        return order ? order : (left->len > right->len) - (left->len < right->len);
}

/* The hottest keys and the watched ones, each once. */
static int rates_list(struct cli_rates *rates)
{
        struct cli_rates_key *keys = mi_realloc(
                rates->keys, (rates->watched_count + rates->hot_count + 1) * sizeof(*keys));

        if (!keys)
                return -ENOMEM;
        rates->keys = keys;
        rates->keys_count = 0;
        for (size_t i = 0; i < rates->watched_count; i++)
                keys[rates->keys_count++] = rates->watched[i];
        for (uint32_t i = 0; i < rates->hot_count; i++) {
                bool listed = false;

                for (size_t k = 0; k < rates->watched_count && !listed; k++)
                        listed = rates->watched[k].hash == rates->hot[i].hash;
                if (!listed)
                        keys[rates->keys_count++] = rates->hot[i];
        }
        qsort(keys, rates->keys_count, sizeof(*keys), rates_compare_keys);
        return 0;
}

/* ---- for the caller ---- */

struct cli_rates *cli_rates_new(void)
{
        struct cli_rates *rates = mi_calloc(1, sizeof(*rates));

        if (!rates)
                return NULL;
        rates->table_size = 1024;
        rates->table = mi_calloc(rates->table_size, sizeof(*rates->table));
        rates->round = 1;
        return rates->table ? rates : cli_rates_free(rates);
}

struct cli_rates *cli_rates_free(struct cli_rates *rates)
{
        if (!rates)
                return NULL;
        for (uint32_t i = 0; i < HOT_MAX; i++)
                mi_free(rates->hot[i].bytes);
        for (size_t i = 0; i < rates->watched_size; i++)
                mi_free(rates->watched[i].bytes);
        mi_free(rates->watched);
        mi_free(rates->watches);
        mi_free(rates->watches_before);
        mi_free(rates->keys);
        mi_free(rates->position);
        mi_free(rates->table);
        mi_free(rates);
        return NULL;
}

int cli_rates_look(struct cli_rates *rates, struct sb_bus *bus, uint64_t budget_ns)
{
        int r;

        rates->now_ns = rates_now();
        if (!rates->position_len)
                rates->round_ns = rates->now_ns;
        r = rates_walk(rates, bus, budget_ns);
        if (r == 0)
                r = rates_look_at_hot(rates, bus);
        if (r == 0)
                r = rates_look_at_watches(rates, bus);
        if (r == 0)
                r = rates_list(rates);
        return r == 0 && rates->no_memory ? -ENOMEM : r;
}

const struct cli_rates_key *cli_rates_keys(const struct cli_rates *rates, size_t *ret_count)
{
        *ret_count = rates->keys_count;
        return rates->keys;
}

const struct cli_rates_client *cli_rates_client(const struct cli_rates *rates, uint32_t number)
{
        return &rates->clients[number % CLI_CLIENTS_MAX];
}

struct cli_rates_sums cli_rates_sums(const struct cli_rates *rates)
{
        return rates->sums;
}
