/*
 * Watches of keys and queues, and the processes that write, prune or sweep beside them: what a
 * watch wants stays, and what is gone is said, also where one comes between two instructions of the
 * other (tests/kill/race.h). Those of prefixes: kill-between-prefix.c.
 */
#include "ring/op/watch.h"
#include "shm/memory/guard.h"
#include "shm/memory/pin.h"
#include "shm/mvcc/clock.h"
#include "shm/notify/bell.h"
#include "shm/notify/hint.h"
#include "shm/notify/queue.h"
#include "shm/notify/ring.h"
#include "shm/upkeep/reap.h"
#include "tests/kill/race.h"

static struct sb_handle engine;

static bool begin_served(void)
{
        return race_begin_served(&engine);
}

/* ---- what a watch that drops wants ---- */

#define ROOM 8u

static struct sb_op_watch drops;
static uint64_t wanted_there; /* revisions that it wants, and that are there */

static bool put_some(uint32_t count)
{
        while (count--)
                if (put(&writer, "key", "v", 1))
                        return false;
        return true;
}

static uint64_t newest_rev(void)
{
        uint64_t rev;

        sb_pin(&writer);
        rev = find("key")->rev;
        sb_unpin(&writer);
        return rev;
}

/* Its room is used up; so that the first revision that it wants is the next one to be pushed out,
 * so many writes on. */
static bool begin_with_full_queue(uint32_t behind)
{
        return begin_plain() && !put(&writer, "key", "0", 1) && !sb_guard_grow(&reader, 0) &&
               !sb_guard_grow(&reader, 1) &&
               !sb_op_watch_begin_dropping(&reader, "key", 3, 0, ROOM, ROOM, UINT64_MAX, &drops) &&
               put_some(ROOM + behind);
}

static bool begin_before_the_fifth(void)
{
        return begin_with_full_queue(4);
}

static bool begin_full(void)
{
        return begin_with_full_queue(0);
}

static bool read_next(uint64_t rev)
{
        struct sb_op_change change;

        return sb_op_watch_look(&reader, &drops, 0, 1, &change) == SB_WATCHED_CHANGE &&
               change.version->rev == rev;
}

static void put_once(void *context)
{
        (void)context;
        broken |= !put_some(1);
}

static void read_three(void)
{
        for (uint32_t i = 0; i < 3; i++)
                broken |= !read_next(sb_ring_wanted(&drops.wants, drops.passed));
}

static void read_once(void *context)
{
        struct sb_op_change change;

        (void)context;
        broken |= sb_op_watch_look(&reader, &drops, 0, 1, &change) != SB_WATCHED_CHANGE;
}

/* So many that each revision of before is pushed out, if no watch wants it. */
static void put_three_rounds(void)
{
        broken |= !put_some(3 * ROOM);
}

/* All that the watch wants, and that was made, is there: behind one more round of writes, too. */
static bool all_that_is_wanted_is_there(void)
{
        uint64_t newest = newest_rev();

        if (!put_some(2 * ROOM))
                return false;
        for (uint32_t i = 0; i < ROOM; i++) {
                uint64_t rev = sb_ring_wanted(&drops.wants, drops.passed);

                if (rev > newest)
                        break;
                if (!read_next(rev))
                        return false;
                wanted_there++;
        }
        return true;
}

static void test_a_watch_that_reads_on_beside_a_write_keeps_what_it_wants(void)
{
        const struct race race = {.begin = begin_before_the_fifth,
                .operation = put_once,
                .beside = read_three,
                .right = all_that_is_wanted_is_there};

        wanted_there = 0;
        CHECK(race_all(&race) > 20);
        CHECK(wanted_there > 0);
}

static void test_what_a_watch_wants_next_is_kept_before_it_says_so_to_the_end(void)
{
        const struct race race = {.begin = begin_full,
                .operation = read_once,
                .beside = put_three_rounds,
                .right = all_that_is_wanted_is_there};

        wanted_there = 0;
        CHECK(race_all(&race) > 20);
        CHECK(wanted_there > 0);
}

#define RUNS 6u /* of a queue with room for four changes */

static struct sb_op_watch queue;
static bool queue_said;

/* Runs 0 to 5: from 10 to 15, from 20 to 25, and so on. */
static bool begin_with_runs(void)
{
        if (!begin_plain() || sb_op_watch_begin_queue(&reader, "key", 3, 0, 64, RUNS - 2, &queue))
                return false;
        while (sb_clock_take_cut(&writer) < 100)
                ;
        sb_queue_begin(&queue.wants, 10, 0, 1);
        for (uint32_t run = 0; run < RUNS; run++) {
                if (run)
                        sb_queue_open_run(&reader, &queue.wants, run, 0, 1);
                sb_queue_pass(&queue.wants, run, 10 * (run + 1));
                sb_queue_close_run(&queue.wants, 10 * (run + 1) + 5);
        }
        sb_queue_pass(&queue.wants, 0, 10);
        return true;
}

static void ask_queue(void *context)
{
        (void)context;
        queue_said = sb_queue_wants(&queue.wants, 43, 44);
}

/* The watch is through with three runs, and three others take their slots. */
static void go_on_by_three_runs(void)
{
        sb_queue_pass(&queue.wants, 3, 40);
        for (uint32_t run = RUNS; run < RUNS + 3; run++) {
                sb_queue_open_run(&reader, &queue.wants, run, 0, 1);
                sb_queue_close_run(&queue.wants, 1000 + run);
        }
}

static bool queue_said_so(void)
{
        sb_op_watch_end(&reader, &queue);
        return queue_said;
}

static void test_a_queue_that_goes_on_beside_a_look_keeps_what_it_wants(void)
{
        const struct race race = {.begin = begin_with_runs,
                .operation = ask_queue,
                .beside = go_on_by_three_runs,
                .right = queue_said_so,
                .bare = true}; /* a queue, and no prefix */

        CHECK(race_all(&race) > 5);
}

/* A run in which one change more has room. */
static bool begin_with_room_for_one(void)
{
        if (!begin_plain() || sb_op_watch_begin_queue(&reader, "key", 3, 0, 64, RUNS - 2, &queue))
                return false;
        sb_queue_begin(&queue.wants, 10, 0, 1);
        return true;
}

static void make_room(void *context)
{
        (void)context;
        queue_said = sb_queue_set_room(&queue.wants, 9);
}

static uint64_t closed_at;

static void use_room_up(void)
{
        sb_pin(&writer);
        sb_queue_tell(&writer, &queue.wants, 1, 0);
        sb_unpin(&writer);
        closed_at = sb_queue_high(&queue.wants);
        broken |= (closed_at & SB_QUEUE_OPEN) != 0;
}

/* Behind the last instruction the run has room for that change, and for more. */
static bool closed_run_stays_so(void)
{
        bool right = came ? !queue_said && sb_queue_high(&queue.wants) == closed_at
                          : queue_said && (sb_queue_high(&queue.wants) & SB_QUEUE_OPEN) != 0;

        sb_op_watch_end(&reader, &queue);
        return right;
}

static void test_a_run_that_is_closed_is_given_no_more_room(void)
{
        const struct race race = {.begin = begin_with_room_for_one,
                .operation = make_room,
                .beside = use_room_up,
                .right = closed_run_stays_so,
                .bare = true};

        CHECK(race_all(&race) > 1);
}

static void tell_the_last(void *context)
{
        (void)context;
        sb_pin(&writer);
        sb_queue_tell(&writer, &queue.wants, 1, 0);
        sb_unpin(&writer);
}

static uint64_t newest_cut;

static void take_cuts(void)
{
        for (uint32_t i = 0; i < 3; i++)
                newest_cut = sb_clock_take_cut(&reader);
}

/* And the run is closed by then, in any case. */
static bool clock_went_on(void)
{
        bool right = (!came || sb_clock_take_cut(&reader) > newest_cut) &&
                     !(sb_queue_high(&queue.wants) & SB_QUEUE_OPEN);

        sb_op_watch_end(&reader, &queue);
        return right;
}

static void test_a_run_that_is_closed_beside_cuts_sets_no_clock_back(void)
{
        const struct race race = {.begin = begin_with_room_for_one,
                .operation = tell_the_last,
                .beside = take_cuts,
                .right = clock_went_on,
                .bare = true};

        CHECK(race_all(&race) > 3);
}

static void give_room(void)
{
        make_room(NULL);
}

/* The reader was told whether there is room. */
static bool run_is_what_was_said(void)
{
        bool open = sb_queue_high(&queue.wants) & SB_QUEUE_OPEN;
        bool right = open == (came && queue_said);

        sb_op_watch_end(&reader, &queue);
        return right;
}

static void test_a_run_that_was_given_room_meanwhile_is_not_closed(void)
{
        const struct race race = {.begin = begin_with_room_for_one,
                .operation = tell_the_last,
                .beside = give_room,
                .right = run_is_what_was_said,
                .bare = true};

        CHECK(race_all(&race) > 3);
}

/* ---- what is given up is said, also beside a process that says less, or more ---- */

#define LESS UINT64_C(1000)
#define MORE UINT64_C(2000)

static struct sb_op_watch changes, hints;

static bool begin_with_watches(void)
{
        return begin_plain() &&
               !sb_op_watch_begin(&reader, "key", 3, 0, 8, SB_WATCH_VERSIONS, &changes) &&
               !sb_op_watch_begin(&reader, "hints", 5, 1, 8, SB_WATCH_HINTS, &hints) &&
               !sb_op_watch_begin_queue(&reader, "queue", 5, 2, 64, RUNS - 2, &queue) &&
               (sb_queue_begin(&queue.wants, 10, 0, 1), true);
}

static void give_up(struct sb_handle *handle, uint64_t up_to)
{
        sb_pin(handle);
        sb_ring_raise_view(
                handle, sb_node_at(&handle->segment, changes.node), &changes.ring, up_to);
        sb_hint_raise_gone(&hints.ring, up_to);
        sb_queue_say_lost(&queue.wants, up_to);
        sb_unpin(handle);
}

static void give_up_more(void *context)
{
        (void)context;
        give_up(&writer, MORE);
}

static void give_up_less(void *context)
{
        (void)context;
        give_up(&writer, LESS);
}

static void give_up_more_beside(void)
{
        give_up(&reader, MORE);
}

static void give_up_less_beside(void)
{
        give_up(&reader, LESS);
}

static bool is_said(uint64_t up_to)
{
        return sb_ring_gone(&changes.ring) == up_to && sb_hint_gone(&hints.ring) == up_to &&
               sb_queue_lost(&queue.wants) == up_to;
}

static bool more_is_said(void)
{
        return is_said(MORE);
}

/* Behind the last instruction the other process did nothing. */
static bool more_is_said_beside(void)
{
        return is_said(came ? MORE : LESS);
}

static void test_what_is_given_up_is_said_beside_a_process_that_gives_up_less(void)
{
        const struct race race = {.begin = begin_with_watches,
                .operation = give_up_more,
                .beside = give_up_less_beside,
                .right = more_is_said,
                .bare = true};

        CHECK(race_all(&race) > 5);
}

static void test_what_is_given_up_is_said_beside_a_process_that_gives_up_more(void)
{
        const struct race race = {.begin = begin_with_watches,
                .operation = give_up_less,
                .beside = give_up_more_beside,
                .right = more_is_said_beside,
                .bare = true};

        CHECK(race_all(&race) > 5);
}

/* ---- entries ---- */

static struct sb_op_watch first, second;

/* The entry of a client that is gone is free, and a sweep takes it away. */
static bool begin_behind_a_dead_client(void)
{
        if (!begin_served() ||
                sb_op_watch_begin(&reader, "key", 3, 0, ROOM, SB_WATCH_VERSIONS, &first))
                return false;
        sb_reap_record(&engine, reader.slot, reader.generation);
        return true;
}

static void scrub(void *context)
{
        (void)context;
        sb_pin(&engine);
        (void)sb_ring_scrub(&engine, &first.ring);
        sb_unpin(&engine);
}

static void enter_there(void)
{
        broken |= sb_op_watch_begin(&writer, "key", 3, 0, ROOM, SB_WATCH_VERSIONS, &second) != 0 ||
                  second.entry != first.entry;
}

static bool entry_stays(void)
{
        bool right = !came || sb_load_acquire(second.entry);

        if (came)
                sb_op_watch_end(&writer, &second);
        return right;
}

static void test_a_sweep_takes_no_entry_of_a_watch_that_begins(void)
{
        const struct race race = {.begin = begin_behind_a_dead_client,
                .operation = scrub,
                .beside = enter_there,
                .right = entry_stays};

        CHECK(race_all(&race) > 1);
}

/* ---- a process that wakes, two sleeps behind ---- */

static struct sb_os waking;
static uint32_t wakes;

static void count_wake(void *context, struct sb_word32 *word)
{
        (void)context, (void)word;
        wakes++;
}

/* The client says that it sleeps, as where something waits in its place. */
static void sleep_anew(void)
{
        static const struct sb_word32 goes_on;
        uint32_t count;

        sb_bell_unstand(&reader);
        broken |= !sb_bell_stand(&reader, &goes_on, &count);
}

static bool begin_asleep(void)
{
        if (!begin_plain())
                return false;
        waking = sb_os_linux;
        waking.wake = count_wake;
        reader.segment.os = writer.segment.os = &waking;
        sleep_anew();
        return true;
}

static void wake_client(void *context)
{
        (void)context;
        sb_bell_wake(&writer.segment, reader.slot);
}

static void wake_and_sleep(void)
{
        wake_client(NULL);
        sleep_anew();
}

/* Each sleep that follows is woken, wherever the process stops then that wakes late. */
static void sleep_and_be_woken(void)
{
        sleep_anew();
        wakes = 0;
        wake_client(NULL);
        broken |= !wakes;
}

static bool next_sleep_is_woken(void)
{
        sleep_and_be_woken();
        return !broken;
}

static void test_a_process_that_wakes_late_keeps_no_later_sleep_from_being_woken(void)
{
        const struct race race = {.begin = begin_asleep,
                .operation = wake_client,
                .beside = wake_and_sleep, /* and once more there, behind it */
                .behind = sleep_and_be_woken,
                .right = next_sleep_is_woken};

        CHECK(race_all(&race) > 3);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        fault_from_environment();
        RUN(test_a_watch_that_reads_on_beside_a_write_keeps_what_it_wants);
        RUN(test_what_a_watch_wants_next_is_kept_before_it_says_so_to_the_end);
        RUN(test_a_queue_that_goes_on_beside_a_look_keeps_what_it_wants);
        RUN(test_a_run_that_is_closed_is_given_no_more_room);
        RUN(test_a_run_that_is_closed_beside_cuts_sets_no_clock_back);
        RUN(test_a_run_that_was_given_room_meanwhile_is_not_closed);
        RUN(test_what_is_given_up_is_said_beside_a_process_that_gives_up_less);
        RUN(test_what_is_given_up_is_said_beside_a_process_that_gives_up_more);
        RUN(test_a_sweep_takes_no_entry_of_a_watch_that_begins);
        RUN(test_a_process_that_wakes_late_keeps_no_later_sleep_from_being_woken);
        return test_end();
}
