/*
 * The command line of the benchmarks; see options.h.
 *
 * Always true: a number of processes above the number of cores is left out without a word, so that
 * the same command line runs everywhere.
 */
#include "bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct bench_peer *const bench_peers[BENCH_PEERS] = {
        &bench_ideal,
        &bench_table,
        &bench_statebus,
        &bench_direct,
#if BENCH_LMDB
        &bench_lmdb,
#endif
#if BENCH_REDIS
        &bench_redis,
#endif
#if BENCH_FASTER
        &bench_faster,
#endif
};

void bench_options_usage(void)
{
        /* clang-format off */
        fputs("usage: bench-keys [--keys N] [--rounds N] [--seconds S] [--only CASE] [--peers NAME,...] [--processes N,...]\n"
                "                  [--hugepages auto|require|off] [--agentd PATH] [--quick] [--profile OPERATIONS]\n"
                "  --seconds S   what one slice measures; a run has cases x rounds x contenders x numbers of processes slices\n"
                "  --only CASE   cases with CASE in their name; --peers: of ideal, table, statebus, lmdb, redis and\n"
                "                faster (where they are), direct (statebus without its library)\n"
                "  --profile N   no clock and no processes: N operations of each case by each contender, for callgrind\n",
                stderr);
        /* clang-format on */
}

static int peers_parse(const char *text, uint32_t *ret_mask)
{
        uint32_t mask = 0;

        while (*text) {
                size_t len = strcspn(text, ",");
                uint32_t found = 0;

                for (uint32_t i = 0; i < BENCH_PEERS; i++)
                        if (strlen(bench_peers[i]->name) == len &&
                                memcmp(bench_peers[i]->name, text, len) == 0)
                                found = 1u << i;
                if (!found)
                        return -EINVAL;
                mask |= found;
                text += len + (text[len] == ',');
        }
        *ret_mask = mask;
        return mask ? 0 : -EINVAL;
}

static void processes_add(struct bench_settings *settings, uint32_t count)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN);

        if (count < 1 || (long)count > cores || count > BENCH_WORKERS_MAX ||
                settings->process_count_count == BENCH_COUNTS_MAX)
                return;
        for (uint32_t i = 0; i < settings->process_count_count; i++)
                if (settings->process_counts[i] == count)
                        return;
        settings->process_counts[settings->process_count_count++] = count;
}

int bench_options_parse(
        int argc, char **argv, struct bench_settings *settings, const char **ret_pages)
{
        static const struct option options[] = {{"keys", 1, NULL, 'k'}, {"rounds", 1, NULL, 'r'},
                {"seconds", 1, NULL, 's'}, {"only", 1, NULL, 'o'}, {"peers", 1, NULL, 'p'},
                {"processes", 1, NULL, 'n'}, {"hugepages", 1, NULL, 'g'}, {"agentd", 1, NULL, 'a'},
                {"quick", 0, NULL, 'q'}, {"profile", 1, NULL, 'f'}, {"help", 0, NULL, 'h'},
                {NULL, 0, NULL, 0}};
        int option;

        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (option) {
                case 'k':
                        settings->key_count = (uint32_t)strtoul(optarg, NULL, 10);
                        break;
                case 'r':
                        settings->rounds = (uint32_t)strtoul(optarg, NULL, 10);
                        break;
                case 's':
                        settings->slice_ns = (uint64_t)(strtod(optarg, NULL) * 1e9);
                        settings->warm_ns = settings->slice_ns / 3;
                        break;
                case 'o':
                        settings->only = optarg;
                        break;
                case 'p':
                        if (peers_parse(optarg, &settings->peer_mask) < 0)
                                return -EINVAL;
                        break;
                case 'n':
                        for (char *at = optarg; *at; at += *at == ',')
                                processes_add(settings, (uint32_t)strtoul(at, &at, 10));
                        break;
                case 'g':
                        *ret_pages = optarg;
                        break;
                case 'a':
                        settings->agentd = optarg;
                        break;
                case 'q':
                        settings->key_count = 100000;
                        settings->rounds = 3;
                        settings->slice_ns = 20000000;
                        settings->warm_ns = 5000000;
                        break;
                case 'f':
                        settings->profile_ops = strtoull(optarg, NULL, 10);
                        break;
                default:
                        return -EINVAL;
                }
        }
        if (!settings->process_count_count) {
                processes_add(settings, 1);
                processes_add(settings, 2);
                processes_add(settings, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
        }
        return optind == argc && settings->key_count >= BENCH_BATCH &&
                               settings->key_count < BENCH_KEYS_MAX && settings->rounds &&
                               settings->slice_ns
                       ? 0
                       : -EINVAL;
}
