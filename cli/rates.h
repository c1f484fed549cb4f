/*
 * How often keys are written, and how far their watchers are behind, by looking again and again.
 *
 * Nothing counts writes in their hot path: each write of a key raises its revision, so what was
 * written between two looks at a key is the difference. A look goes through the keys a page at a
 * time, each page at a cut of its own that is open for no longer, until it has seen all keys or has
 * worked for as long as it may; the next look goes on from there. Keys of which more may be seen
 * (the hottest, and those that are watched) are looked at each time.
 *
 * A watcher is behind when something came since it last waited. How many changes that are is known
 * from the look on at which it first was; it counts anew when the watcher was woken in between, for
 * then it had seen all before. One that is busy is caught between two changes by several looks.
 *
 * Always true: what this keeps is private memory, and bounded: 40 bytes for each of at most a
 * million keys. Of a bus with more keys a part is looked at, and the sums are scaled up.
 */
#ifndef SB_CLI_RATES_H
#define SB_CLI_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/statebus.h"

#define CLI_CLIENTS_MAX 4096u

/* A key of the list. */
struct cli_rates_key {
        unsigned char *bytes;
        size_t len;
        bool prefix; /* of a watch: rev counts changes */
        uint64_t hash, rev;
        double rate;               /* writes a second; of a key that was seen once: 0 */
        uint32_t watchers, behind; /* of them are */
        uint64_t lag, behind_ns;   /* of the one that is furthest behind */
        uint64_t looked_ns;
};

/* The watches of a client. */
struct cli_rates_client {
        uint32_t watches, behind;
        uint64_t lag;
};

struct cli_rates_sums {
        double rate;           /* writes a second of all keys */
        uint64_t keys, looked; /* keys of the bus, as far as it was gone through; in this look */
        bool keys_all;         /* it was gone through to its end */
        bool rate_known;       /* some keys were seen twice */
        uint32_t watches, behind;
};

struct cli_rates;
/* Return: NULL without memory. */
struct cli_rates *cli_rates_new(void);
struct cli_rates *cli_rates_free(struct cli_rates *rates);
/* Look, for @budget_ns at most as far as keys are gone through. Return: 0; as sb_scan_open(), when
 * the bus is gone; -ENOMEM. */
int cli_rates_look(struct cli_rates *rates, struct sb_bus *bus, uint64_t budget_ns);
/* What the last look showed: good until the next one. The keys are in order: most written first,
 * then those with a watcher that is far behind. */
const struct cli_rates_key *cli_rates_keys(const struct cli_rates *rates, size_t *ret_count);
const struct cli_rates_client *cli_rates_client(const struct cli_rates *rates, uint32_t number);
struct cli_rates_sums cli_rates_sums(const struct cli_rates *rates);

#endif
