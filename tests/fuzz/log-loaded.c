/* A log, brought back; see log-loaded.h. What recovery has from the rest of agentd is here. */
#define _GNU_SOURCE
#include "tests/fuzz/log-loaded.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agentd/log.h"
#include "agentd/memory.h"
#include "agentd/wal/wal-aside.h"
#include "agentd/wal/wal-recover.h"
#include "ring/op/put.h"
#include "ring/op/write.h"
#include "shm/base/hash.h"
#include "shm/base/os.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/keys/order.h"
#include "shm/layout/geometry.h"
#include "shm/layout/report.h"
#include "shm/layout/roster.h"
#include "shm/layout/segment.h"
#include "shm/mvcc/find.h"
#include "shm/upkeep/check.h"
#include "shm/upkeep/handle.h"
#include "tests/fuzz/fuzz.h"

#define LARGE_SIZE (512u << 10)
#define SMALL_SIZE 49152u /* a few units */
#define CHAIN_MAX  4096u

static char said[512];

/* ---- what recovery calls ---- */

void sb_log(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(said, sizeof(said), format, arguments);
        va_end(arguments);
        if (getenv("SB_VERBOSE"))
                fprintf(stderr, "%s\n", said);
}

/* The file that ends a log which goes back: each input has its own files. */
int __wrap_sb_wal_aside_end(
        int directory_fd, const struct sb_wal_end *end, uint64_t sequence, uint64_t cut);
int __wrap_sb_wal_aside_end(
        int directory_fd, const struct sb_wal_end *end, uint64_t sequence, uint64_t cut)
{
        (void)directory_fd;
        (void)end;
        (void)sequence;
        (void)cut;
        return 0;
}

static struct room {
        struct sb_geometry geometry;
        unsigned char *space, *empty, *map;
        int fd;
} large, small_one, *room = &large;

static void make_room(struct room *made, uint64_t size)
{
        struct sb_geometry_wish wish = {.size = size, .clients = 2};
        const uint64_t id[2] = {1, 2};

        FUZZ_CHECK(!sb_geometry_fit(&wish, &made->geometry));
        size = made->geometry.size;
        made->fd = memfd_create("statebus-fuzz", MFD_CLOEXEC);
        FUZZ_CHECK(made->fd >= 0 && !ftruncate(made->fd, (off_t)size));
        made->space = malloc(sb_handle_space(&made->geometry));
        made->empty = calloc(1, size);
        made->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, made->fd, 0);
        FUZZ_CHECK(made->space && made->empty && made->map != MAP_FAILED);
        sb_segment_format(made->map, &made->geometry, 7, id, 1);
        memcpy(made->empty, made->map, size);
}

/* An empty segment: the same memory once more. */
const char *sb_config_size_words(uint64_t bytes, char text[static 32])
{
        snprintf(text, 32, "%ju", (uintmax_t)bytes);
        return text;
}

int sb_memory_make(const struct sb_config *config, struct sb_memory *ret, void **ret_base)
{
        (void)config;
        memcpy(room->map, room->empty, room->geometry.size);
        *ret_base =
                mmap(NULL, room->geometry.size, PROT_READ | PROT_WRITE, MAP_SHARED, room->fd, 0);
        FUZZ_CHECK(*ret_base != MAP_FAILED);
        *ret = (struct sb_memory){.fd = room->fd,
                .size = room->geometry.size,
                .page_size = 4096,
                .geometry = room->geometry};
        return 0;
}

void sb_memory_drop(struct sb_memory *memory)
{
        *memory = (struct sb_memory){.fd = -1};
}

/* ---- what is in the segment ---- */

static uint64_t digest_version(
        const struct sb_segment *segment, const struct sb_version *version, uint64_t hash)
{
        uint64_t shape = sb_version_shape(segment, version);
        /* Relaxed, both: no other process runs. */
        const uint64_t words[] = {version->rev, sb_load_relaxed(&version->stamp), shape,
                sb_load_relaxed(&version->prev) & SB_PREV_TRIMMED};

        hash = sb_hash_key(words, sizeof(words), hash);
        return sb_hash_key(
                version->bytes, SB_SHAPE_KEY_LEN(shape) + (size_t)SB_SHAPE_VALUE_LEN(shape), hash);
}

static void digest_key(struct sb_handle *handle, struct sb_node *node, void *context)
{
        const struct sb_segment *segment = &handle->segment;
        struct sb_version *version = sb_find_in_node(handle, node, SB_STAMP_INTENT - 1);
        struct log_loaded *loaded = context;

        loaded->keys++;
        for (uint32_t i = 0; version && i < CHAIN_MAX; i++) {
                loaded->digest = digest_version(segment, version, loaded->digest);
                version = sb_version_at(segment, sb_load_relaxed(&version->prev) & SB_OFFSET_MASK);
        }
}

static void look_sound(struct sb_handle *handle)
{
        struct sb_check_report report;

        FUZZ_CHECK(!sb_check(handle, true, &report));
        for (uint32_t i = 0; i < report.problem_count && i < 8; i++)
                fprintf(stderr, "%s\n", report.problems[i]);
        FUZZ_CHECK(!report.problem_count && !report.blocks_lost);
}

/* A bus that was brought back serves. */
static void write_a_key(struct sb_handle *handle)
{
        struct sb_op_write write = {.key = "a new key",
                .key_len = 9,
                .value = "of some bytes",
                .value_len = 13,
                .expected_rev = SB_OP_ANY_REV};
        struct sb_op_result result;
        int r = sb_op_write(handle, &write, &result);

        FUZZ_CHECK(!r || r == SB_E_FULL);
        if (r)
                return;
        write.kind = SB_VERSION_DELETED;
        write.value_len = 0;
        r = sb_op_write(handle, &write, &result);
        FUZZ_CHECK(!r || r == SB_E_FULL);
}

static void look_into(struct log_loaded *ret)
{
        const struct sb_roster_identity identity = {.pid = 1};
        struct sb_segment segment;
        struct sb_handle handle;
        uint32_t slot, generation;

        FUZZ_CHECK(!sb_segment_open(room->map, room->geometry.size, &sb_os_linux, &segment));
        ret->cut = sb_load_relaxed(&segment.super->durable);
        ret->history_floor = sb_load_relaxed(&segment.super->history_floor);
        ret->forgotten = sb_load_relaxed(&segment.super->forgotten);
        FUZZ_CHECK(!sb_roster_claim(&segment, 0, &identity, &slot, &generation));
        sb_handle_init(&handle, &segment, slot, generation, room->space);
        look_sound(&handle);
        FUZZ_CHECK(sb_order_walk(&handle, "", 0, digest_key, ret));
        write_a_key(&handle);
        look_sound(&handle);
        sb_handle_fini(&handle);
}

void log_load(int directory_fd, uint64_t recover_to, bool small, struct log_loaded *ret)
{
        static struct sb_config config = {.place.directory = "here", .mode = SB_LOG_BATCHED};
        struct sb_memory memory;

        if (!large.map) {
                make_room(&large, LARGE_SIZE);
                make_room(&small_one, SMALL_SIZE);
                FUZZ_CHECK(!sb_os_register());
        }
        room = small ? &small_one : &large;
        *ret = (struct log_loaded){.digest = 1, .said = said};
        said[0] = '\0';
        config.recover_to = recover_to;
        ret->result = sb_wal_recover(&config, directory_fd, &memory);
        if (ret->result)
                FUZZ_CHECK(said[0]); /* what went wrong */
        else
                look_into(ret);
}
