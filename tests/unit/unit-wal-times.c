/*
 * Which times a batch of the whole bus says of earlier cuts (agentd/wal/wal-log.h): all that the
 * bus knows, wherever the wall clock stood, but no time of its own cut that is later than its own.
 */
#include <mimalloc.h>
#include <stdio.h>
#include <string.h>

#include "agentd/wal/wal-log.h"
#include "ring/wal/wal-reader.h"
#include "shm/history/times.h"
#include "shm/mvcc/clock.h"
#include "tests/power/batches.h"
#include "tests/unit/bus.h"

#define HOUR_NS UINT64_C(3600000000000)
#define YEAR_NS (8766 * HOUR_NS)

__attribute__((format(printf, 1, 2))) void __wrap_sb_log(const char *format, ...);
void __wrap_sb_log(const char *format, ...)
{
        (void)format;
}

static struct sb_config config;
static struct sb_wal_log log;
static char path[64];

/* What the log says of times. */
static uint64_t cuts[16], times[16];
static uint32_t count;

static bool begin(void)
{
        static unsigned char marks[1 << 20];

        if (!make_bus(1 << 20) || sb_batch_space(&writer.segment.geometry) > sizeof(marks))
                return false;
        memset(marks, 0, sizeof(marks));
        config = (struct sb_config){.flush_bytes = 1 << 20, .checkpoint_bytes = 1 << 20};
        log = (struct sb_wal_log){.config = &config, .handle = writer};
        log.directory_fd = scratch_make(path, sizeof(path));
        if (log.directory_fd < 0 || sb_wal_stage_init(&log.stage) || sb_wal_stage_init(&log.pieces))
                return false;
        sb_batch_init(&writer.segment, marks, 0, &log.batch);
        sb_wal_log_begin(&log);
        return true;
}

static void note(uint64_t cut, uint64_t realtime_ns)
{
        static uint64_t monotonic_ns;
        struct sb_moment moment = {.cut = cut, .realtime_ns = realtime_ns};

        moment.monotonic_ns = monotonic_ns += HOUR_NS;
        sb_times_note(&writer.segment, &moment);
}

static int take_time(void *context, const struct sb_wal_entry *entry)
{
        (void)context;
        if (entry->kind == SB_WAL_TIME && count < 16) {
                cuts[count] = entry->rev;
                times[count++] = entry->which;
        }
        return 0;
}

static bool end(void)
{
        struct sb_wal_visitor visitor = {.entry = take_time};
        struct sb_wal_reader *reader_of;
        bool read;

        sb_wal_log_end(&log);
        mi_free(log.stage.bytes);
        mi_free(log.pieces.bytes);
        count = 0;
        read = !sb_wal_reader_open(log.directory_fd, NULL, &reader_of);
        if (read) {
                read = !sb_wal_reader_visit(reader_of, &visitor, NULL);
                sb_wal_reader_close(reader_of);
        }
        scratch_remove(log.directory_fd, path);
        unmake_bus();
        return read;
}

/* The clock was a year ahead for a while, or was set back by a year. */
static void test_times_of_a_clock_that_was_set_back_stay_in_the_log(void)
{
        uint64_t now = sb_os_linux.realtime_ns(NULL);
        const uint64_t taken[] = {now - HOUR_NS, now + YEAR_NS, now + YEAR_NS + HOUR_NS,
                now - YEAR_NS, now - HOUR_NS / 2};

        CHECK(begin());
        for (uint64_t i = 0; i < 20; i++)
                CHECK_EQ(put(&writer, "a", "one", 3), 0);
        while (sb_load_acquire(&writer.segment.super->clock) < 20)
                (void)sb_clock_take_cut(&writer);
        for (uint32_t i = 0; i < 5; i++)
                note(2 + i, taken[i]);
        CHECK_EQ(sb_wal_log_batch(&log), 0);
        CHECK(end());
        CHECK_EQ(count, 5);
        for (uint32_t i = 0; i < count; i++) {
                CHECK_EQ(cuts[i], 2 + i);
                CHECK(times[i] == taken[i]);
        }
}

/* The engine looked at the clock behind the log, and noted the batch's cut with a later time. */
static void test_a_later_time_of_its_own_cut_is_none(void)
{
        uint64_t now = sb_os_linux.realtime_ns(NULL), cut;

        CHECK(begin());
        CHECK_EQ(put(&writer, "a", "one", 3), 0);
        cut = sb_load_acquire(&writer.segment.super->clock);
        note(cut - 1, now - HOUR_NS);
        note(cut, now + HOUR_NS);
        CHECK_EQ(sb_wal_log_batch(&log), 0);
        CHECK_EQ(log.batch.above, cut);
        CHECK(end());
        CHECK_EQ(count, 1);
        CHECK(cuts[0] == cut - 1 && times[0] == now - HOUR_NS);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_times_of_a_clock_that_was_set_back_stay_in_the_log);
        RUN(test_a_later_time_of_its_own_cut_is_none);
        return test_end();
}
