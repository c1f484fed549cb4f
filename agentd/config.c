/*
 * agentd's options. Each option is read into a plain struct and checked at once; whether all fit
 * together is checked at the end. --check-config makes nothing, and says exactly what a start would
 * say.
 *
 * Always true: what is wrong is printed as one sentence that says what to do instead.
 */
#define _GNU_SOURCE
#include "agentd/config.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ring/attach/place.h"
#include "shm/layout/geometry.h"
#include "shm/layout/superblock.h"

#define CLIENTS_MAX     (SB_CLIENTS_MAX - 2)
#define FLUSH_MS_MAX    60000u
#define FLUSH_BYTES_MIN (4u << 10)
#define CHECKPOINT_MIN  (1u << 20)
#define SIZE_MAX_       (UINT64_C(1) << 46)
#define AGE_MAX_NS      (UINT64_C(366) * 24 * 3600000000000)

static const char help_text[] =
        "agentd serves a statebus: it makes the shared segment, attaches clients and\n"
        "cleans up after the dead.\n"
        "\n"
        "usage: agentd [options]\n"
        "\n"
        "  -b, --bus BUS          a name, or a directory when it contains '/'\n"
        "                         [$STATEBUS, then \"default\"]\n"
        "      --size SIZE        bytes of shared memory, with K, M, G or T if you like\n"
        "                         [256M]\n"
        "      --hugepages WORD   auto: 2 MiB pages where they can be had; require; off\n"
        "                         [auto]\n"
        "      --durability WORD  batched: what is written survives power loss soon;\n"
        "                         strict: each write returns when it does; volatile: the\n"
        "                         bus lives in memory alone [batched]\n"
        "      --flush-ms N       milliseconds between batches of a durable bus, 1 to\n"
        "                         60000 [100]\n"
        "      --flush-bytes SIZE\n"
        "                         sooner, where so much would be changed by then [1M]\n"
        "      --checkpoint-bytes SIZE\n"
        "                         write the whole bus anew when the log has grown by so\n"
        "                         much [100M]\n"
        "      --checkpoint-every TIME\n"
        "                         or when it has grown at all, and so long ago; or off\n"
        "                         [30m]\n"
        "      --on-disk-error WORD\n"
        "                         when the log cannot be written: continue, and say so;\n"
        "                         read-only: take no writes; stop: end with exit status 1\n"
        "                         [continue]\n"
        "      --io WORD          how the log is written: auto, uring, sync [auto]\n"
        "      --clients N        how many clients can be attached at once, 1 to 4000\n"
        "                         [256]\n"
        "      --history-memory SIZE\n"
        "                         what `agentctl keep` may keep at most, or off: no limit\n"
        "                         [a quarter of --size]\n"
        "      --max-snapshot-age TIME\n"
        "                         take snapshots away that are held for longer, such as\n"
        "                         10m, 1h, 7d [off]\n"
        "      --recover-to CUT   start from what a damaged log has up to CUT, and keep\n"
        "                         the rest aside\n"
        "      --check-config     check the options, print them, and exit\n"
        "      --version          print the version, and exit\n"
        "  -h, --help             print this, and exit\n"
        "\n"
        "It runs in the foreground, says `ready` on standard error when clients can\n"
        "attach, and stops cleanly on SIGTERM and SIGINT. `agentctl start` runs it in the\n"
        "background. Exit status: 0 stopped, 1 failure, 2 wrong options.\n";

__attribute__((format(printf, 1, 2))) static bool config_complain(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        fputs("agentd: ", stderr);
        vfprintf(stderr, format, arguments);
        fputs("\nagentd: see agentd --help\n", stderr);
        va_end(arguments);
        return false;
}

/* A whole decimal number within [least, most]. */
static bool config_read_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
        char *end;
        uint64_t value;

        if (*text < '0' || *text > '9')
                return false;
        errno = 0;
        value = strtoull(text, &end, 10);
        if (errno || *end || value < least || value > most)
                return false;
        *ret = value;
        return true;
}

/* A number of bytes: digits, then nothing or one of K, M, G, T (of 1024), then perhaps iB or B. */
static bool config_read_size(const char *text, uint64_t *ret)
{
        static const char suffixes[] = "KMGT";
        const char *suffix;
        uint64_t value;
        unsigned shift = 0;
        char *end;

        if (*text < '0' || *text > '9')
                return false;
        errno = 0;
        value = strtoull(text, &end, 10);
        if (errno)
                return false;
        if (*end && (suffix = strchr(suffixes, *end >= 'a' ? *end - 32 : *end))) {
                shift = 10 * (unsigned)(suffix - suffixes + 1);
                end++;
                if (!strcmp(end, "iB") || !strcmp(end, "B"))
                        end += strlen(end);
        }
        if (*end || value > SIZE_MAX_ >> shift)
                return false;
        *ret = value << shift;
        return true;
}

/* Digits and one of ms, s, m, h, d; or "off". */
static bool config_read_age(const char *text, uint64_t *ret_ns)
{
        static const struct {
                const char *unit;
                uint64_t ns;
        } units[] = {{"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000},
                {"d", 86400000000000}};
        size_t digits = strspn(text, "0123456789");
        char number[16] = {0};
        uint64_t value;

        if (!strcmp(text, "off")) {
                *ret_ns = 0;
                return true;
        }
        if (!digits || digits >= sizeof(number))
                return false;
        memcpy(number, text, digits);
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
                if (!strcmp(text + digits, units[i].unit) &&
                        config_read_number(number, 1, AGE_MAX_NS / units[i].ns, &value)) {
                        *ret_ns = value * units[i].ns;
                        return true;
                }
        return false;
}

/* Options that are one of some words; a word's place is its value. */
static const char *const hugepages_words[] = {"auto", "require", "off", NULL};
static const char *const mode_words[] = {"", "volatile", "batched", "strict", NULL};
static const char *const io_words[] = {"auto", "uring", "sync", NULL};
static const char *const trouble_words[] = {"continue", "read-only", "stop", NULL};

static bool config_read_word(
        const char *option, const char *value, const char *const *words, unsigned *ret)
{
        char offer[64] = "";

        for (unsigned i = 0; words[i]; i++) {
                if (*value && !strcmp(value, words[i])) {
                        *ret = i;
                        return true;
                }
                if (*words[i])
                        snprintf(offer + strlen(offer), sizeof(offer) - strlen(offer), "%s%s",
                                !*offer        ? ""
                                : words[i + 1] ? ", "
                                               : " or ",
                                words[i]);
        }
        return config_complain("--%s %s: say %s", option, value, offer);
}

enum option_code {
        OPTION_SIZE = 256,
        OPTION_HUGEPAGES,
        OPTION_DURABILITY,
        OPTION_FLUSH_MS,
        OPTION_FLUSH_BYTES,
        OPTION_CHECKPOINT_BYTES,
        OPTION_CHECKPOINT_EVERY,
        OPTION_TROUBLE,
        OPTION_IO,
        OPTION_CLIENTS,
        OPTION_SNAPSHOT_AGE,
        OPTION_HISTORY,
        OPTION_RECOVER_TO,
        OPTION_CHECK,
        OPTION_VERSION
};

static const struct option options[] = {
        {"bus", required_argument, NULL, 'b'},
        {"size", required_argument, NULL, OPTION_SIZE},
        {"hugepages", required_argument, NULL, OPTION_HUGEPAGES},
        {"durability", required_argument, NULL, OPTION_DURABILITY},
        {"flush-ms", required_argument, NULL, OPTION_FLUSH_MS},
        {"flush-bytes", required_argument, NULL, OPTION_FLUSH_BYTES},
        {"checkpoint-bytes", required_argument, NULL, OPTION_CHECKPOINT_BYTES},
        {"checkpoint-every", required_argument, NULL, OPTION_CHECKPOINT_EVERY},
        {"on-disk-error", required_argument, NULL, OPTION_TROUBLE},
        {"io", required_argument, NULL, OPTION_IO},
        {"clients", required_argument, NULL, OPTION_CLIENTS},
        {"history-memory", required_argument, NULL, OPTION_HISTORY},
        {"max-snapshot-age", required_argument, NULL, OPTION_SNAPSHOT_AGE},
        {"recover-to", required_argument, NULL, OPTION_RECOVER_TO},
        {"check-config", no_argument, NULL, OPTION_CHECK},
        {"version", no_argument, NULL, OPTION_VERSION},
        {"help", no_argument, NULL, 'h'},
        {0},
};

/* What the options ask for beside the configuration itself. */
struct wishes {
        const char *bus;
        bool check;
};

/* Read one option of the log. Return: false: it was wrong, and that was said. */
static bool config_take_log_option(int option, const char *value, struct sb_config *config)
{
        uint64_t number;
        unsigned word;

        switch (option) {
        case OPTION_FLUSH_MS:
                if (!config_read_number(value, 1, FLUSH_MS_MAX, &number))
                        return config_complain(
                                "--flush-ms %s: give milliseconds, 1 to %u", value, FLUSH_MS_MAX);
                config->flush_ms = (uint32_t)number;
                return true;
        case OPTION_CHECKPOINT_BYTES:
                if (!config_read_size(value, &config->checkpoint_bytes) ||
                        config->checkpoint_bytes < CHECKPOINT_MIN)
                        return config_complain(
                                "--checkpoint-bytes %s: give a number of bytes, 1M at least, with "
                                "K, M, G or T if you like: --checkpoint-bytes 100M",
                                value);
                return true;
        case OPTION_FLUSH_BYTES:
                if (!config_read_size(value, &config->flush_bytes) ||
                        config->flush_bytes < FLUSH_BYTES_MIN)
                        return config_complain(
                                "--flush-bytes %s: give a number of bytes, 4K at least, with K, M, "
                                "G or T if you like: --flush-bytes 1M",
                                value);
                return true;
        case OPTION_CHECKPOINT_EVERY:
                if (!config_read_age(value, &config->checkpoint_ns))
                        return config_complain("--checkpoint-every %s: give a time such as 30s, "
                                               "10m, 1h or 7d, or off",
                                value);
                return true;
        case OPTION_TROUBLE:
                if (!config_read_word("on-disk-error", value, trouble_words, &word))
                        return false;
                config->trouble = (enum sb_config_trouble)word;
                return true;
        case OPTION_IO:
                if (!config_read_word("io", value, io_words, &word))
                        return false;
                config->io = (enum sb_wal_backend)word;
                return true;
        }
        return config_complain("this option is not known");
}

/* Read one option that has a value. Return: false: it was wrong, and that was said. */
static bool config_take_option(
        int option, const char *value, struct sb_config *config, struct wishes *wishes)
{
        uint64_t number;
        unsigned word;

        switch (option) {
        case 'b':
                wishes->bus = value;
                return true;
        case OPTION_SIZE:
                if (!config_read_size(value, &config->size))
                        return config_complain(
                                "--size %s: give a number of bytes up to 64T, with K, M, G or T "
                                "if you like: --size 256M",
                                value);
                return true;
        case OPTION_HUGEPAGES:
                if (!config_read_word("hugepages", value, hugepages_words, &word))
                        return false;
                config->hugepages = (enum sb_config_hugepages)word;
                return true;
        case OPTION_DURABILITY:
                if (!config_read_word("durability", value, mode_words, &word))
                        return false;
                config->mode = (enum sb_log_mode)word;
                return true;
        case OPTION_CLIENTS:
                if (!config_read_number(value, 1, CLIENTS_MAX, &number))
                        return config_complain(
                                "--clients %s: give a number, 1 to %u", value, CLIENTS_MAX);
                config->clients = (uint32_t)number;
                return true;
        case OPTION_HISTORY:
                if (!strcmp(value, "off"))
                        config->history_bytes = 0;
                else if (!config_read_size(value, &config->history_bytes) || !config->history_bytes)
                        return config_complain(
                                "--history-memory %s: give a number of bytes up to 64T, with K, "
                                "M, G or T if you like, or off: no limit",
                                value);
                return true;
        case OPTION_SNAPSHOT_AGE:
                if (!config_read_age(value, &config->snapshot_age_ns))
                        return config_complain(
                                "--max-snapshot-age %s: give a time such as 500ms, 30s, "
                                "10m, 1h or 7d, or off",
                                value);
                return true;
        case OPTION_RECOVER_TO:
                if (!config_read_number(value, 1, UINT64_MAX, &config->recover_to))
                        return config_complain(
                                "--recover-to %s: give the number of a cut, as agentd has said it",
                                value);
                return true;
        }
        return config_take_log_option(option, value, config);
}

static bool config_resolve(const char *bus, struct sb_place *ret)
{
        int r = sb_place_resolve(bus, ret);

        if (r == -EINVAL)
                return config_complain(
                        "the bus needs a name, or a directory with a '/' in it: -b work, "
                        "-b ./work");
        if (r == -ENAMETOOLONG)
                return config_complain(
                        "the name of the bus is too long: at most %u bytes with its directory",
                        SB_PLACE_MAX - 1);
        if (r == -ENOENT)
                return config_complain(
                        "neither $XDG_STATE_HOME nor $HOME is a path from / on, below which buses "
                        "live: give a directory, -b ./%s",
                        bus ? bus : "default");
        return true;
}

static uint64_t config_round_up(uint64_t size, uint64_t page_size)
{
        return (size + page_size - 1) / page_size * page_size;
}

int sb_config_fit(const struct sb_config *config, uint64_t page_size, struct sb_geometry *ret)
{
        struct sb_geometry_wish wish = {
                .size = config_round_up(config->size, page_size),
                .clients = config->clients + 1, /* and agentctl */
                .units_min = SB_UNITS_SHARED,
        };

        wish.clients += config->mode != SB_LOG_NONE; /* and the log */

        return sb_geometry_fit(&wish, ret);
}

const char *sb_config_size_words(uint64_t bytes, char text[static 32])
{
        static const char units[] = "\0KMGT";
        unsigned unit = 0;

        for (; bytes && bytes % 1024 == 0 && unit + 2 < sizeof(units); bytes /= 1024)
                unit++;
        snprintf(text, 32, "%" PRIu64 "%.1s", bytes, units + unit);
        return text;
}

/* Write @bytes as an argument of --size that is not smaller. */
static void config_write_size(uint64_t bytes, char *ret, size_t size)
{
        if (bytes >= 64u << 20)
                snprintf(ret, size, "%" PRIu64 "M", (bytes + (1u << 20) - 1) >> 20);
        else
                snprintf(ret, size, "%" PRIu64 "K", (bytes + 1023) >> 10);
}

static bool config_judge(const struct sb_config *config)
{
        struct sb_geometry geometry;
        char least[32];
        int r;

        r = sb_config_fit(config, (uint64_t)sysconf(_SC_PAGESIZE), &geometry);
        if (r == -ENOSPC) {
                config_write_size(geometry.size, least, sizeof(least));
                return config_complain(
                        "--size %" PRIu64
                        " is too small for --clients %u: the least that serves is --size %s",
                        config->size, config->clients, least);
        }
        if (r)
                return config_complain("--size %" PRIu64 " with --clients %u cannot be: %s",
                        config->size, config->clients, strerror(-r));
        return true;
}

static void config_print(const struct sb_config *config)
{
        printf("bus = %s\n", config->place.directory);
        printf("size = %" PRIu64 "\n", config->size);
        printf("hugepages = %s\n", hugepages_words[config->hugepages]);
        printf("durability = %s\n", mode_words[config->mode]);
        printf("flush-ms = %u\n", config->flush_ms);
        printf("flush-bytes = %" PRIu64 "\n", config->flush_bytes);
        printf("checkpoint-bytes = %" PRIu64 "\n", config->checkpoint_bytes);
        if (config->checkpoint_ns)
                printf("checkpoint-every = %" PRIu64 "ms\n", config->checkpoint_ns / 1000000);
        else
                printf("checkpoint-every = off\n");
        printf("on-disk-error = %s\n", trouble_words[config->trouble]);
        printf("io = %s\n", io_words[config->io]);
        printf("clients = %u\n", config->clients);
        if (config->history_bytes)
                printf("history-memory = %" PRIu64 "\n", config->history_bytes);
        else
                printf("history-memory = off\n");
        if (config->snapshot_age_ns)
                printf("max-snapshot-age = %" PRIu64 "ms\n", config->snapshot_age_ns / 1000000);
        else
                printf("max-snapshot-age = off\n");
        if (config->recover_to)
                printf("recover-to = %" PRIu64 "\n", config->recover_to);
}

bool sb_config_parse(int argc, char **argv, struct sb_config *ret, int *ret_exit)
{
        struct sb_config config = {.size = 256u << 20,
                .clients = 256,
                .mode = SB_LOG_BATCHED,
                .flush_ms = 100,
                .flush_bytes = 1u << 20,
                .checkpoint_bytes = 100u << 20,
                .checkpoint_ns = UINT64_C(1800000000000),
                .history_bytes = UINT64_MAX};
        static char name[] = "agentd"; /* as all other messages have it, and no path */
        struct wishes wishes = {0};
        int option;

        *ret_exit = SB_EXIT_USAGE;
        if (argc > 0)
                argv[0] = name;
        while ((option = getopt_long(argc, argv, "b:h", options, NULL)) >= 0) {
                switch (option) {
                case 'h':
                        fputs(help_text, stdout);
                        goto said;
                case OPTION_VERSION:
                        printf("agentd (statebus) %s, layout %u\n", SB_VERSION, SB_LAYOUT_VERSION);
                        goto said;
                case OPTION_CHECK:
                        wishes.check = true;
                        continue;
                case '?': /* getopt said which one */
                        fputs("agentd: see agentd --help\n", stderr);
                        return false;
                }
                if (!config_take_option(option, optarg, &config, &wishes))
                        return false;
        }
        if (optind < argc)
                return config_complain(
                        "%s: agentd takes options alone (the bus is named with -b)", argv[optind]);
        if (config.history_bytes == UINT64_MAX)
                config.history_bytes = config.size / 4;
        if (config.recover_to && config.mode == SB_LOG_NONE)
                return config_complain(
                        "--recover-to is for a durable bus: say --durability batched "
                        "or strict, too");
        if (!config_resolve(wishes.bus, &config.place) || !config_judge(&config))
                return false;
        if (wishes.check) {
                config_print(&config);
                goto said;
        }
        *ret = config;
        return true;
said:
        *ret_exit = fflush(stdout) ? SB_EXIT_FAILURE : 0;
        return false;
}
