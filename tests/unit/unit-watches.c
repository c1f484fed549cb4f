/*
 * Which watches a bus has, and which are dirty (libclient/core/watches.h): from the bit that a
 * process sets to the list; and what one that is far behind is lent.
 */
#include "libclient/core/watches.h"

#include "shm/memory/guard.h"
#include "shm/notify/bell.h"
#include "tests/unit/bus.h"

static struct sb_bus *bus;

static bool make_client(void)
{
        return make_bus(1 << 20) &&
               !sb_bus_open_segment(&reader.segment, reader.slot, reader.generation, &bus);
}

static void unmake_client(void)
{
        bus = sb_close(bus);
        unmake_bus();
}

/* As a writer does behind a change. */
static void ring(const struct sb_watch *watch)
{
        sb_bell_ring(&writer.segment, reader.slot, watch->place % (SB_DIRTY_WORDS * 64));
}

static void test_a_bit_of_a_watch_that_is_being_opened_is_noted(void)
{
        struct sb_watch watch = {0};

        CHECK(make_client());
        CHECK(!sb_watches_enter(bus, &watch));
        CHECK(watch.bus == bus && !watch.dirty);
        ring(&watch);
        sb_watches_take_bits(bus);
        CHECK(watch.dirty && TAILQ_FIRST(&bus->watches.dirty) == &watch);
        sb_watches_note(&watch, false);
        sb_watches_leave(bus, &watch);
        /* A bit that comes late leads nowhere. */
        ring(&watch);
        sb_watches_take_bits(bus);
        CHECK(!watch.dirty && TAILQ_EMPTY(&bus->watches.dirty));
        unmake_client();
}

/* How many guard words are held by something. */
static uint32_t guards_in_use(void)
{
        uint32_t count = 0;

        for (uint32_t index = 0; index < bus->guard_count; index++)
                count += sb_guard_read(&writer.segment, reader.record, index) != 0;
        return count;
}

#define DEPTH 1000u

/* Opens a watch that keeps the first DEPTH changes, and makes three times as many. */
static struct sb_watch *fall_behind(void)
{
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = SB_BUFFERED, .depth = DEPTH, .after = SB_ANY_REV};
        struct sb_watch *watch = NULL;

        if (put(&writer, "key", "0", 1) ||
                sb_watch_open_at(bus, (struct sb_bytes){"key", 3}, &how, &watch))
                return NULL;
        for (uint32_t i = 0; i < 3 * DEPTH; i++)
                if (put(&writer, "key", "v", 1))
                        return NULL;
        return watch;
}

static void test_a_watch_that_is_far_behind_finds_each_change_in_some_steps(void)
{
        struct sb_watch *watch;
        struct sb_guard guard;
        uint64_t steps = 0;
        uint32_t free_before, held = 0;

        CHECK(make_client());
        watch = fall_behind();
        CHECK(watch);
        CHECK(!sb_bus_guards_prepare(bus, 2 * SB_ANCHORS));
        free_before = bus->guard_free_count;
        for (uint32_t i = 0; i < DEPTH; i++) {
                CHECK_EQ(sb_watch_next(watch, 0, &guard), 0);
                CHECK(guard.rev == i + 2 && guard.old_value.data && !guard.missed);
                steps += watch->op.walked;
                sb_guard_release(&guard);
                held = guards_in_use() > held ? guards_in_use() : held;
        }
        CHECK_EQ(sb_watch_next(watch, 0, &guard), SB_E_TIMED_OUT);
        CHECK_EQ(sb_watch_dropped(watch), 2 * DEPTH);
        CHECK(held >= 2 && held <= SB_ANCHORS);
        /* Two walks over all that was not read, and some steps for each change. */
        CHECK(steps >= 3 * DEPTH && steps < 40 * DEPTH);
        TEST_NOTE("%ju steps for %u changes", (uintmax_t)steps, DEPTH);
        CHECK(!watch->op.anchors && guards_in_use() == 0);
        CHECK_EQ(bus->guard_free_count, free_before);
        sb_watch_close(watch);
        unmake_client();
}

static void test_a_program_that_asks_which_watch_is_ready_lends_nothing_for_ever(void)
{
        struct sb_watch *watch;
        struct sb_guard guard;

        CHECK(make_client());
        watch = fall_behind();
        CHECK(watch);
        while (sb_watch_ready(bus)) {
                CHECK_EQ(sb_watch_next(watch, 0, &guard), 0);
                sb_guard_release(&guard);
        }
        CHECK(guard.rev == DEPTH + 1 && !watch->op.anchors && guards_in_use() == 0);
        sb_watch_close(watch);
        unmake_client();
}

/* However far down the last one lay that it read. */
static void test_a_watch_that_is_behind_no_more_is_lent_nothing(void)
{
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = SB_BUFFERED, .depth = 2, .after = 1};
        struct sb_watch *deep, *watch;
        struct sb_guard guard;

        CHECK(make_client());
        deep = fall_behind();
        CHECK(deep);
        CHECK_EQ(sb_watch_open_at(bus, (struct sb_bytes){"key", 3}, &how, &watch), 0);
        for (uint64_t rev = 2; rev <= 3; rev++) {
                CHECK_EQ(sb_watch_next(watch, 0, &guard), 0);
                CHECK(guard.rev == rev && watch->op.walked >= SB_ANCHOR_WORTH);
                sb_guard_release(&guard);
        }
        CHECK(watch->op.anchors);
        CHECK_EQ(sb_watch_next(watch, 0, &guard), SB_E_TIMED_OUT);
        CHECK_EQ(put(&writer, "key", "v", 1), 0);
        CHECK_EQ(sb_watch_next(watch, 0, &guard), 0);
        CHECK(!watch->op.anchors);
        sb_guard_release(&guard);
        sb_watch_close(watch);
        sb_watch_close(deep);
        unmake_client();
}

static void test_what_a_watch_was_lent_comes_back_when_it_ends_and_when_the_bus_does(void)
{
        struct sb_watch *watch;
        struct sb_guard guard;
        uint32_t free_before;

        for (uint32_t way = 0; way < 2; way++) {
                CHECK(make_client());
                watch = fall_behind();
                CHECK(watch && !sb_bus_guards_prepare(bus, 2 * SB_ANCHORS));
                free_before = bus->guard_free_count;
                for (uint32_t i = 0; i < 3; i++) {
                        CHECK_EQ(sb_watch_next(watch, 0, &guard), 0);
                        sb_guard_release(&guard);
                }
                CHECK(watch->op.anchors && guards_in_use() >= 2);
                CHECK_EQ(bus->guard_free_count, free_before - SB_ANCHORS);
                if (way == 0) {
                        sb_watch_close(watch);
                        CHECK_EQ(bus->guard_free_count, free_before);
                        CHECK_EQ(guards_in_use(), 0);
                        bus = sb_close(bus);
                } else {
                        bus = sb_close(bus);
                        CHECK(!watch->op.anchors);
                        sb_watch_close(watch);
                }
                for (uint32_t index = 0; index < reader.segment.geometry.guard_inline; index++)
                        CHECK_EQ(sb_guard_read(&writer.segment, reader.record, index), 0);
                unmake_bus();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_bit_of_a_watch_that_is_being_opened_is_noted);
        RUN(test_a_watch_that_is_far_behind_finds_each_change_in_some_steps);
        RUN(test_a_program_that_asks_which_watch_is_ready_lends_nothing_for_ever);
        RUN(test_a_watch_that_is_behind_no_more_is_lent_nothing);
        RUN(test_what_a_watch_was_lent_comes_back_when_it_ends_and_when_the_bus_does);
        return test_end();
}
