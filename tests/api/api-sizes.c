/* Structs with a size: a program that was built against an earlier header goes on to work, and no
 * byte behind its struct is read; what no header has is refused. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/api/world.h"
#include "tests/harness/test.h"

#define MIB   (UINT64_C(1) << 20)
#define PAGE  4096u
#define SIZES 3u /* of one struct, over all headers, and a 0 */

static struct world world;
static struct sb_bus *bus;
static const struct sb_bytes all = {NULL, 0};

/* ---- the structs, as the headers had them: these never change ---- */

struct options_first {
        size_t size;
        const char *bus;
        uint32_t access, flags;
};
struct write_first {
        size_t size;
        uint32_t durability, flags;
        uint64_t ttl_ns, deadline_ns, *ret_cut;
};
struct scan_options_first {
        size_t size;
        uint32_t flags, zero;
        uint64_t limit, cut;
        struct sb_txn *txn;
};
struct watch_options_first {
        size_t size;
        uint32_t flags, depth;
        uint64_t after;
};
struct rule_first {
        size_t size;
        uint32_t kind, zero;
        uint64_t value;
};

/* ---- a struct right before a page that cannot be read ---- */

static unsigned char *map;

static void begin_map(void)
{
        map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(map != MAP_FAILED);
        CHECK_EQ(mprotect(map + PAGE, PAGE, PROT_NONE), 0);
}

static void end_map(void)
{
        munmap(map, 2 * PAGE);
}

/* A copy of a struct of @len bytes. Its size field says @size. */
static void *at_the_edge(const void *bytes, size_t len, size_t size)
{
        unsigned char *at = map + PAGE - len;

        memcpy(at, bytes, len);
        memcpy(at, &size, sizeof(size));
        return at;
}

/* ---- one call for each struct: 0, or what it answers to a size that it does not take ---- */

static int call_open(const void *how)
{
        struct sb_bus *opened = NULL;
        int r = sb_open(how, &opened);

        return opened ? 1 : r == -ECONNREFUSED ? 0 : r;
}

static int call_set(const void *how)
{
        return sb_set(bus, b("key"), b("value"), how, NULL);
}
static int call_cas(const void *how)
{
        uint64_t rev = 0;
        int r = sb_cas(bus, b("key"), 0, b("value"), how, &rev);

        return r == SB_E_CONFLICT ? 0 : r;
}
static int call_delete(const void *how)
{
        int r = sb_delete(bus, b("nothing"), SB_ANY_REV, how, NULL);

        return r == SB_E_NOT_FOUND ? 0 : r;
}
static int call_incr(const void *how)
{
        return sb_incr(bus, b("number"), 1, how, NULL, NULL);
}
static int call_max(const void *how)
{
        return sb_max(bus, b("number"), 1, how, NULL, NULL);
}
static int call_append(const void *how)
{
        return sb_append(bus, b("key"), b("more"), how, NULL);
}
static int give_value(void *argument, const struct sb_guard *old, struct sb_bytes *ret_value)
{
        (void)argument;
        (void)old;
        *ret_value = b("value");
        return 0;
}
static int call_update(const void *how)
{
        return sb_update(bus, b("key"), give_value, NULL, how, NULL);
}
static int call_delete_range(const void *how)
{
        return sb_delete_range(
                bus, NULL, b("nothing/"), (struct sb_bytes){NULL, 0}, SB_PREFIX, how, NULL);
}
/* To a cut that a mark keeps, of a key that had no value in it. */
static int call_restore(const void *how)
{
        uint64_t cut;
        int r = sb_mark_find(bus, b("then"), &cut);

        if (r == SB_E_NOT_FOUND)
                r = sb_mark(bus, b("then"), &cut);
        return r == 0 ? sb_restore(bus, b("nothing"), 0, cut, how) : r;
}
static int call_commit(const void *how)
{
        sb_auto(sb_txn_endp) struct sb_txn *txn = NULL;
        int r = sb_txn_begin(bus, SB_SNAPSHOT, &txn);

        if (r == 0)
                r = sb_txn_set(txn, b("key"), b("value"));
        return r == 0 ? sb_txn_commit(txn, how) : r;
}
static int write_in_txn(void *argument, struct sb_txn *txn)
{
        (void)argument;
        return sb_txn_set(txn, b("key"), b("value"));
}
static int call_transact(const void *how)
{
        return sb_transact(bus, SB_SERIALIZABLE, write_in_txn, NULL, how);
}

static int call_scan(const void *how)
{
        sb_auto(sb_scan_closep) struct sb_scan *scan = NULL;
        struct sb_guard guard = {0};
        unsigned count = 0;
        int r = sb_scan_open_at(bus, all, how, &scan);

        if (r != 0)
                return r;
        /* It gives both keys: an earlier header's scan has no end. */
        for (; (r = sb_scan_next(scan, &guard)) == 0; count++)
                sb_guard_release(&guard);
        return r == SB_E_NOT_FOUND && count == 2 ? 0 : 1;
}

static int call_watch(const void *how)
{
        sb_auto(sb_watch_closep) struct sb_watch *watch = NULL;
        int r = sb_watch_open_at(bus, b("key"), how, &watch);

        /* An earlier header's watch has no data. */
        return r == 0 && sb_watch_data(watch) ? 1 : r;
}

static int call_keep(const void *rule)
{
        return sb_keep(bus, b("key"), 0, rule);
}

/* ---- the tests ---- */

static const struct options_first options = {.bus = "/nonexistent/bus", .access = SB_PEER};
static const struct write_first how = {.deadline_ns = SB_FOREVER};
static const struct scan_options_first scan_options = {.flags = SB_REVERSE};
static const struct watch_options_first watch_options = {.depth = 100, .after = SB_ANY_REV};
static const struct rule_first rule = {.kind = SB_KEEP_LAST, .value = 2};

static const struct {
        int (*call)(const void *bytes);
        const void *bytes;
        size_t len, sizes[SIZES]; /* sizes: of all headers, the first one's first */
} calls[] = {
        {call_open, &options, sizeof(options), {sizeof(options), sizeof(struct sb_options)}},
        {call_set, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_cas, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_delete, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_incr, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_max, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_append, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_update, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_delete_range, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_restore, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_commit, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_transact, &how, sizeof(how), {sizeof(how), sizeof(struct sb_write)}},
        {call_scan, &scan_options, sizeof(scan_options),
                {sizeof(scan_options), sizeof(struct sb_scan_options)}},
        {call_watch, &watch_options, sizeof(watch_options),
                {sizeof(watch_options), sizeof(struct sb_watch_options)}},
        {call_keep, &rule, sizeof(rule), {sizeof(rule), sizeof(struct sb_rule)}},
};

/* A program of the first header: its struct lies right before memory that is not there. */
static void test_a_struct_of_an_earlier_header_is_taken_and_nothing_behind_it_is_read(void)
{
        WORLD_BEGIN(4 * MIB);
        begin_map();
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
                CHECK_EQ(calls[i].call(at_the_edge(calls[i].bytes, calls[i].len, calls[i].len)), 0);
        end_map();
        WORLD_END();
}

/* Whether some header has a struct of this size. */
static bool is_known(const size_t sizes[SIZES], size_t size)
{
        for (size_t i = 0; i < SIZES; i++)
                if (sizes[i] == size && size != 0)
                        return true;
        return false;
}

static void test_a_size_that_no_header_has_is_refused(void)
{
        static const size_t far[] = {4096, UINT32_MAX, SIZE_MAX / 2, SIZE_MAX};
        unsigned char bytes[256];

        WORLD_BEGIN(4 * MIB);
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
                memset(bytes, 0, sizeof(bytes));
                memcpy(bytes, calls[i].bytes, calls[i].len);
                for (size_t size = 0; size <= sizeof(bytes); size++) {
                        memcpy(bytes, &size, sizeof(size));
                        CHECK_EQ(
                                calls[i].call(bytes), is_known(calls[i].sizes, size) ? 0 : -EINVAL);
                }
                for (size_t j = 0; j < sizeof(far) / sizeof(far[0]); j++) {
                        memcpy(bytes, &far[j], sizeof(far[j]));
                        CHECK_EQ(calls[i].call(bytes), -EINVAL);
                }
        }
        WORLD_END();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_struct_of_an_earlier_header_is_taken_and_nothing_behind_it_is_read);
        RUN(test_a_size_that_no_header_has_is_refused);
        return test_end();
}
