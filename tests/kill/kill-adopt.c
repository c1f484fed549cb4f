/*
 * An engine that takes the place of a dead one reaps the record that it sits in. Until what the
 * dead one noted is finished, the record's pin covers all that the dead one's pin covered: at each
 * instruction, because a process that frees memory may look at any of them.
 */
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/layout/roster.h"
#include "shm/mvcc/descriptor.h"
#include "shm/upkeep/reap.h"
#include "tests/harness/step/stepper.h"
#include "tests/unit/chain.h"

#define LO UINT64_C(850) /* of the dead engine's pin */
#define HI UINT64_C(900)

struct play {
        bool noted;     /* the note was there at the last point */
        uint64_t under; /* points with the note */
        uint64_t bare;  /* of these, without a pin that covers what the dead engine's did */
        uint64_t first; /* number of the first of those */
        uintptr_t where;
};

static void reap(void *context)
{
        (void)context;
        sb_reap_record(&reader, reader.slot, reader.generation);
}

static enum step_verdict point(void *context, uint64_t number, uintptr_t address)
{
        struct play *play = context;
        uint64_t pin = sb_load_relaxed(&reader.record->pin);

        play->noted = sb_load_relaxed(&reader.record->operation) != 0;
        if (!play->noted)
                return STEP_ON;
        play->under++;
        if (pin && sb_record_pin_lo(pin) <= LO && SB_PIN_HI(pin) >= HI)
                return STEP_ON;
        if (!play->bare++) {
                play->first = number;
                play->where = address;
        }
        return STEP_ON;
}

/* What a dead engine may have noted: nothing that is left to do, a transaction, a node. */
enum noted { NODE_OF_A_KEY, DESCRIPTOR, NOTED };

static void test_a_dead_engines_pin_lasts_until_what_it_noted_is_finished(void)
{
        for (enum noted noted = NODE_OF_A_KEY; noted < NOTED; noted++) {
                struct sb_descriptor *commit;
                struct play play = {0};
                struct sb_spot spot;
                struct step_run run = {.operation = reap,
                        .point = point,
                        .context = &play,
                        .point_limit = 1000000};

                CHECK(make_bus(1 << 20) && !put(&writer, "key", "value", 5));
                sb_store_relaxed(&writer.segment.super->era, HI);
                sb_pin(&writer);
                commit = make_descriptor(1, 0, 0);
                CHECK(commit && spot_of("key", &spot));
                sb_unpin(&writer);
                sb_store_relaxed(&reader.record->operation,
                        noted == DESCRIPTOR
                                ? sb_offset_of(&writer.segment, commit) | SB_OPERATION_DESCRIPTOR
                                : spot.head->node);
                sb_store_relaxed(&reader.record->pin, SB_PIN(HI, HI - LO));
                sb_store_relaxed(&writer.segment.super->era, HI + 100);
                CHECK_EQ(step_run(&run), STEP_DONE);
                CHECK(play.under > 100 && !play.noted);
                if (play.bare)
                        TEST_FAIL("%u: not pinned at %lu of %lu points, first at %lu, %s", noted,
                                (unsigned long)play.bare, (unsigned long)play.under,
                                (unsigned long)play.first, step_where(play.where));
                CHECK_EQ(sb_load_relaxed(&reader.record->pin), 0);
                CHECK_EQ(sb_load_relaxed(&reader.record->tag),
                        SB_RECORD_TAG(reader.generation + 1, SB_RECORD_FREE));
                unmake_bus();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_a_dead_engines_pin_lasts_until_what_it_noted_is_finished);
        return test_end();
}
