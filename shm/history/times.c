/* Which cut was taken when: one writer, the engine, and four ways to look; see times.h. */

#include "shm/history/times.h"

#include "shm/base/os.h"
#include "shm/base/word.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"

/* The first is shorter than a tick: every tick has an entry, but for one that follows another at
 * once. */
static const uint64_t intervals_ns[SB_TIME_LEVELS] = {
        UINT64_C(5000000), UINT64_C(1000000000), UINT64_C(60000000000), UINT64_C(3600000000000)};

static struct sb_time *times_entry(
        const struct sb_segment *segment, uint32_t level, uint64_t position)
{
        uint32_t count = segment->geometry.times_count;

        return &segment->times->entry[(uint64_t)level * count + position % count];
}

/* Read an entry. False: it is being written, or never was. */
static bool times_read(const struct sb_time *entry, struct sb_moment *ret)
{
        /* A:times, all of them: a time that is newer than the cut was stored behind the 0 that the
         * second look then finds, or what came after it. */
        ret->cut = sb_load_acquire(&entry->cut);
        ret->realtime_ns = sb_load_acquire(&entry->realtime_ns);
        ret->monotonic_ns = sb_load_acquire(&entry->monotonic_ns);
        return ret->cut && sb_load_acquire(&entry->cut) == ret->cut;
}

/* Write the next entry of a level. */
static void times_write(
        struct sb_segment *segment, uint32_t level, uint64_t position, const struct sb_moment *now)
{
        struct sb_time *entry = times_entry(segment, level, position);

        /* R:times > A:times. In this order: a reader that finds the cut the same on both sides of
         * the times has the times of that cut. */
        sb_store_release(&entry->cut, 0);
        sb_store_release(&entry->realtime_ns, now->realtime_ns);
        sb_store_release(&entry->monotonic_ns, now->monotonic_ns);
        sb_store_release(&entry->cut, now->cut);
        sb_store_release(&segment->times->position[level], position + 1);
}

/* Note @now in each level of which the last entry is old enough. @real: by the real time. */
static void times_note(struct sb_segment *segment, const struct sb_moment *now, bool real)
{
        uint32_t level;

        for (level = 0; level < SB_TIME_LEVELS; level++) {
                /* Relaxed: the engine's own word. */
                uint64_t position = sb_load_relaxed(&segment->times->position[level]), gap;
                struct sb_moment last;

                if (position && times_read(times_entry(segment, level, position - 1), &last)) {
                        gap = real ? now->realtime_ns - last.realtime_ns
                                   : now->monotonic_ns - last.monotonic_ns;
                        if (last.cut >= now->cut || gap < intervals_ns[level])
                                continue;
                }
                times_write(segment, level, position, now);
        }
}

void sb_times_note(struct sb_segment *segment, const struct sb_moment *now)
{
        times_note(segment, now, false);
}

void sb_times_load(struct sb_segment *segment, uint64_t cut, uint64_t realtime_ns)
{
        const struct sb_os *os = segment->os;
        uint64_t real = os->realtime_ns(os->context), now = os->now_ns(os->context),
                 age = real > realtime_ns ? real - realtime_ns : 0;
        /* What is older than the monotonic clock counts as taken when that began: so it is kept no
         * shorter. Many cuts may have that time, so the real time tells them apart. */
        struct sb_moment moment = {
                .cut = cut, .realtime_ns = realtime_ns, .monotonic_ns = now > age ? now - age : 0};

        times_note(segment, &moment, true);
}

void sb_times_tick(struct sb_segment *segment, struct sb_moment *ret)
{
        /* A:stable. First a cut that was taken, then the clocks. */
        ret->cut = sb_load_acquire(&segment->super->stable);
        ret->realtime_ns = segment->os->realtime_ns(segment->os->context);
        ret->monotonic_ns = segment->os->now_ns(segment->os->context);
        sb_times_note(segment, ret);
}

/* What an entry has to be like, and which of those is wanted: the one with the greatest cut, or the
 * least. */
enum wanted { REALTIME, MONOTONIC, BELOW, BEHIND };

static bool times_fits(const struct sb_moment *moment, enum wanted wanted, uint64_t limit)
{
        switch (wanted) {
        case REALTIME:
                return moment->realtime_ns <= limit;
        case MONOTONIC:
                return moment->monotonic_ns <= limit;
        case BELOW:
                return moment->cut < limit;
        case BEHIND:
                return moment->cut >= limit;
        }
        return false;
}

static bool times_find(const struct sb_segment *segment, uint32_t level, enum wanted wanted,
        uint64_t limit, struct sb_moment *ret)
{
        uint64_t count = (uint64_t)segment->geometry.times_count * SB_TIME_LEVELS, i;
        struct sb_moment best = {0}, moment;

        for (i = (uint64_t)segment->geometry.times_count * level; i < count; i++)
                if (times_read(&segment->times->entry[i], &moment) &&
                        times_fits(&moment, wanted, limit) &&
                        (!best.cut || (moment.cut < best.cut) == (wanted == BEHIND)))
                        best = moment;
        if (!best.cut)
                return false;
        *ret = best;
        return true;
}

uint32_t sb_times_list(const struct sb_segment *segment, struct sb_moment *ret)
{
        uint64_t count = (uint64_t)segment->geometry.times_count * SB_TIME_LEVELS, i;
        uint32_t found = 0;

        for (i = 0; i < count; i++)
                found += times_read(&segment->times->entry[i], &ret[found]);
        return found;
}

bool sb_times_at(const struct sb_segment *segment, uint64_t realtime_ns, struct sb_moment *ret)
{
        return times_find(segment, 0, REALTIME, realtime_ns, ret);
}

bool sb_times_horizon(const struct sb_segment *segment, uint64_t span_ns, struct sb_moment *ret)
{
        const struct sb_os *os = segment->os;
        uint64_t gaps = segment->geometry.times_count - 1, now;
        uint32_t level = 0;
        bool found;

        while (level < SB_TIME_LEVELS && gaps * intervals_ns[level] / 2 < span_ns)
                level++;
        if (level == SB_TIME_LEVELS)
                return false;
        /* The entry behind the one that is looked for is younger than the span. When the wanted one
         * is overwritten, the newest is that many gaps younger than the one behind it: so much time
         * there was to look. */
        do {
                now = os->now_ns(os->context);
                found = now >= span_ns && times_find(segment, level, MONOTONIC, now - span_ns, ret);
        } while (os->now_ns(os->context) - now > gaps * intervals_ns[level] - span_ns);
        return found;
}

bool sb_times_before(const struct sb_segment *segment, uint64_t stamp, struct sb_moment *ret)
{
        return times_find(segment, 0, BELOW, stamp, ret);
}

bool sb_times_behind(const struct sb_segment *segment, uint64_t cut, struct sb_moment *ret)
{
        return times_find(segment, 0, BEHIND, cut, ret);
}
