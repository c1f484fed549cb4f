/*
 * Another process does something whole between two instructions of one.
 *
 * An operation is stopped before each instruction that loads or stores in the segment, in a bus of
 * its own for each; there another client acts, and the operation goes on to its end. What the other
 * client did stands, and the operation has done nothing over it: a CAS that has to fail there
 * failed, and a look was repeated.
 */
#ifndef SB_TEST_RACE_H
#define SB_TEST_RACE_H

#include "shm/layout/report.h"
#include "shm/upkeep/check.h"
#include "tests/harness/faults.h"
#include "tests/harness/step/stepper.h"
#include "tests/unit/bus.h"

struct race {
        bool (*begin)(void); /* the bus */
        void (*operation)(void *context);
        /* at one point */
        void (*beside)(void);
        /* there, and at each later one; NULL: the operation ends without another point */
        void (*behind)(void);
        bool (*right)(void); /* behind the operation; @came: whether there was the point */
        bool bare;           /* the blocks are no key's */
};

/* A bus with the record of an engine, which serves nothing by itself. */
static inline bool race_begin_served(struct sb_handle *ret_engine)
{
        struct sb_geometry_wish wish = {.size = 1 << 18, .clients = 4};
        struct sb_roster_identity identity = {.pid = 1};
        uint32_t slot, generation;

        if (!make_bus_of(&wish) ||
                sb_roster_claim_below(&writer.segment, 0, 1, &identity, &slot, &generation))
                return false;
        make_handle(ret_engine, &writer.segment, slot, generation);
        return true;
}

static bool broken; /* what the other client did failed, or was found undone */
static bool came;
static bool looked;      /* what the other client did shows its effect once */
static uint64_t stop_at; /* so many instructions of the operation come first, or a few more */

static uintptr_t stopped_before; /* the operation's next instruction there */

static struct step_run run;

static enum step_verdict race_point(void *context, uint64_t number, uintptr_t address)
{
        const struct race *race = *(const struct race **)context;

        if (!run.touches)
                return STEP_ON;
        if (number < stop_at)
                return STEP_ON;
        if (!came) {
                came = true;
                stop_at = number;
                stopped_before = address;
                race->beside();
        }
        if (!race->behind)
                return STEP_STOP;
        race->behind();
        return STEP_ON;
}

/* One point, or none. Return: NULL, or what is wrong. */
static const char *race_once(const struct race *race)
{
        static struct sb_check_report report;
        enum step_end end;

        broken = came = looked = false;
        if (!race->begin())
                return "there is no bus";
        run.shared = (struct step_memory){writer.segment.base, writer.segment.geometry.size};
        end = step_run(&run);
        if (end != STEP_DONE)
                return step_end_text(end);
        if (broken)
                return "the other client was answered wrongly, or the operation was";
        if (!race->right())
                return "not as it should be behind it";
        if (!race->bare && (sb_check(&writer, false, &report) || report.problem_count))
                return report.problems[0];
        unmake_bus();
        return NULL;
}

/* At each point. Return: how many there are; 0: one of them failed. */
static uint32_t race_all(const struct race *race)
{
        uint32_t count = 0;

        run = (struct step_run){.operation = race->operation,
                .point = race_point,
                .context = &race,
                .wanted = STEP_TOUCHING,
                .point_limit = 1000000};
        for (stop_at = 0, came = true; came; stop_at++) {
                const char *wrong = race_once(race);

                if (wrong) {
                        TEST_NOTE("point %u, instruction %lu, before %s: %s", count,
                                (unsigned long)stop_at, step_where(stopped_before), wrong);
                        return 0;
                }
                count += came;
        }
        return count;
}

static bool begin_plain(void)
{
        struct sb_geometry_wish wish = {.size = 1 << 18, .clients = 2};

        return make_bus_of(&wish);
}

#endif
