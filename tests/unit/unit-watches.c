/*
 * Which watches a bus has, and which are dirty (libclient/core/watches.h): from the bit that a
 * process sets to the list.
 */
#include "libclient/core/watches.h"

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

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_bit_of_a_watch_that_is_being_opened_is_noted);
        return test_end();
}
