/*
 * Loading a bus (ring/log/load.h), killed behind each of its stores. What it leaves is thrown away,
 * and looks at no point like a segment that a loading may begin in, once it has a key; the clock is
 * above every stamp that is in it. Another loading of the same versions, beside it, gives the same
 * bus, which is sound.
 */
#include <errno.h>

#include "shm/history/named.h"
#include "shm/keys/index.h"
#include "shm/mvcc/clock.h"
#include "shm/upkeep/key.h"
#include "tests/harness/faults.h"
#include "tests/harness/step/stepper.h"
#include "tests/unit/load.h"

#define SIZE  (UINT64_C(1) << 20)
#define CUT   90u
#define AGAIN 64u /* points from one other loading to the next */

static const char *const keys[] = {"kept", "plain", "gone", "large", "again"};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static struct sb_handle other; /* on a copy of the segment, or a segment of its own */
static unsigned char spaces[16 << 20] __attribute__((aligned(64)));
static unsigned char *copy, *fresh;
static char whole[4096]; /* what the keys' chains are when all is loaded */
static const char *wrong;

/* To sort the keys in: of the loading that is stepped, and of those that come in the middle of it,
 * which may be the middle of a malloc(). */
static struct sort_space {
        unsigned char bytes[1 << 16];
} stepped_space, other_space;

/* The same to each loading. Return: 0, or why it failed. */
static int load_all(struct sort_space *space)
{
        int r = rule("kept", false, ALL, 2, 1, 3);

        r = r ? r : mark_of("mark", 30, 0, SB_RECORD_NUMBER(1, 1), 31);
        r = r ? r : turn(CUT);
        for (uint64_t rev = 1; rev < 6 && !r; rev++)
                r = value("kept", rev, 10 * rev);
        r = r ? r : value("plain", 1, 11);
        r = r ? r : value("plain", 2, 60);
        r = r ? r : value("plain", 1, 11);
        r = r ? r : value("gone", 1, 12);
        r = r ? r : deleted("gone", 2, 70);
        r = r ? r : give("large", 5, SB_VERSION_VALUE, 4, 80, bytes, 20000);
        r = r ? r : deleted("again", 3, 20);
        r = r ? r : value("again", 4, 81);
        /* Of the second half of all keys. */
        r = r ? r : sb_load_floor_of(&load, load.handle->segment.seed, 1, 2, 9);
        sb_load_time(&load, 50, 1000);
        sb_load_time(&load, CUT, 2000);
        if (!r && sb_load_space(&load) > sizeof(space->bytes))
                r = -ENOMEM;
        return r ? r : sb_load_end(&load, space->bytes);
}

static int result; /* of the loading that is stepped */

static void load_stepped(void *context)
{
        (void)context;
        result = load_all(&stepped_space);
}

/* The newest version of a key; NULL: there is none. Under a pin of @handle. */
static struct sb_version *head_of_bytes(struct sb_handle *handle, const void *key, uint32_t len)
{
        struct sb_spot spot;

        return sb_key_find(handle, key, len, sb_hash_key(key, len, handle->segment.seed), &spot)
                       ? spot.head
                       : NULL;
}

static struct sb_version *head_of(struct sb_handle *handle, const char *key)
{
        return head_of_bytes(handle, key, (uint32_t)strlen(key));
}

/* The same of the key that a rule is stored as, which is loaded before the bus's cut is known. */
static struct sb_version *head_of_rule(struct sb_handle *handle)
{
        unsigned char name[SB_KEY_LEN_MAX];

        return head_of_bytes(handle, name, sb_rules_key("kept", 4, false, name));
}

/* All chains, with revisions, stamps and what their links say; and two floors. */
static void write_chains(struct sb_handle *handle, char ret[sizeof(whole)])
{
        size_t at = (size_t)snprintf(ret, sizeof(whole), "%ju %ju ",
                (uintmax_t)sb_index_floor(&handle->segment, 0),
                (uintmax_t)sb_index_floor(&handle->segment, UINT32_MAX));

        sb_pin(handle);
        for (size_t i = 0; i < KEYS; i++) {
                struct sb_version *version = head_of(handle, keys[i]);

                at += (size_t)snprintf(ret + at, sizeof(whole) - at, "%s", keys[i]);
                while (version && at < sizeof(whole) - 100) {
                        uint64_t link = sb_load_relaxed(&version->prev);

                        at += (size_t)snprintf(ret + at, sizeof(whole) - at, " %ju@%ju/%jx%s",
                                (uintmax_t)version->rev,
                                (uintmax_t)sb_load_relaxed(&version->stamp),
                                (uintmax_t)version->shape, link & SB_PREV_TRIMMED ? "~" : "");
                        version = sb_version_at(&handle->segment, link & SB_OFFSET_MASK);
                }
        }
        sb_unpin(handle);
}

static bool open_other(void *base)
{
        struct sb_segment segment;

        if (sb_segment_open(base, reader.segment.geometry.size, reader.segment.os, &segment) ||
                sb_handle_space(&segment.geometry) > sizeof(spaces))
                return false;
        memset(spaces, 0, sb_handle_space(&segment.geometry));
        sb_handle_init(&other, &segment, reader.slot, reader.generation, spaces);
        return true;
}

/* What the killed loading leaves: other processes would see it so. */
static void judge_left(void)
{
        struct sb_load begun;
        bool any = false;

        memcpy(copy, reader.segment.base, reader.segment.geometry.size);
        if (!open_other(copy)) {
                wrong = "it cannot be opened";
                return;
        }
        sb_pin(&other);
        for (size_t i = 0; i <= KEYS; i++) {
                struct sb_version *head =
                        i < KEYS ? head_of(&other, keys[i]) : head_of_rule(&other);

                if (!head || SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER)
                        continue;
                any = true;
                if (sb_load_relaxed(&head->stamp) >= sb_load_relaxed(&other.segment.super->clock))
                        wrong = "a stamp is not below the clock";
        }
        sb_unpin(&other);
        if (any && sb_load_begin(&other, &begun) != -EEXIST)
                wrong = "a loading begins in what another one has left";
}

/* Another one begins anew meanwhile. */
static void judge_again(void)
{
        const struct sb_load before = load;
        static struct sb_check_report report;
        static char chains[sizeof(whole)];
        uint64_t id[2] = {1, 2};

        memset(fresh, 0, reader.segment.geometry.size);
        sb_segment_format(fresh, &reader.segment.geometry, 7, id, 1);
        {
                struct sb_roster_identity identity = {.pid = 1};
                struct sb_segment segment;
                uint32_t slot, generation;

                if (sb_segment_open(
                            fresh, reader.segment.geometry.size, reader.segment.os, &segment) ||
                        sb_roster_claim(&segment, 1, &identity, &slot, &generation) ||
                        sb_roster_claim(&segment, 1, &identity, &slot, &generation) ||
                        !open_other(fresh) || sb_load_begin(&other, &load) ||
                        load_all(&other_space))
                        wrong = "another loading fails";
        }
        load = before;
        write_chains(&other, chains);
        if (!wrong && strcmp(chains, whole))
                wrong = "another loading gives another bus";
        if (sb_check(&other, true, &report) || report.problem_count || report.blocks_lost)
                wrong = "what another loading gives is not sound";
}

struct killed {
        uint64_t points, again, at;
        uintptr_t where;
};

static enum step_verdict kill_loading(void *context, uint64_t number, uintptr_t address)
{
        struct killed *killed = context;

        judge_left();
        if (killed->points++ % AGAIN == 0) {
                judge_again();
                killed->again++;
        }
        if (!wrong)
                return STEP_ON;
        killed->at = number;
        killed->where = address;
        return STEP_STOP;
}

static void test_what_a_killed_loading_leaves_is_no_beginning_and_another_one_gives_the_bus(void)
{
        struct killed killed = {0};
        struct step_run run = {.operation = load_stepped,
                .context = &killed,
                .point = kill_loading,
                .wanted = STEP_STORED,
                .point_limit = 10000000};

        CHECK(begin(SIZE) && !load_all(&stepped_space));
        write_chains(&reader, whole);
        CHECK(!strncmp(whole, "0 9 ", 4) && sound());
        unmake_bus();
        copy = aligned_alloc(UNIT_PAGE, SIZE * 2);
        fresh = aligned_alloc(UNIT_PAGE, SIZE * 2);
        CHECK(begin(SIZE) && copy && fresh && reader.segment.geometry.size <= 2 * SIZE);
        run.shared = (struct step_memory){reader.segment.base, reader.segment.geometry.size};
        CHECK_EQ(step_run(&run), STEP_DONE);
        CHECK_EQ(result, 0);
        if (wrong)
                TEST_FAIL("killed behind instruction %lu (%s): %s", (unsigned long)killed.at,
                        step_where(killed.where), wrong);
        CHECK(killed.points > 100 && killed.again > 1);
        TEST_NOTE("%lu stores, %lu other loadings", (unsigned long)killed.points,
                (unsigned long)killed.again);
        unmake_bus();
        free(copy);
        free(fresh);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_what_a_killed_loading_leaves_is_no_beginning_and_another_one_gives_the_bus);
        return test_end();
}
