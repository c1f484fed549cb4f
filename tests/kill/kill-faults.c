/*
 * The harness must bite: it finds each seeded fault that the stepper can find, and the test says by
 * what.
 *
 * A child of its own tries each fault, by the one trial and scenario known to find it. The model
 * checker (tests/model) finds the faults that need several processes in the middle of an operation
 * at once, or a store buffer: FREE_GUARDS_FIRST, NO_MEMBARRIER, ORDER_STOPS_AT_KEY,
 * REAP_PIN_FIRST, MAGAZINE_LIVE_EARLY (which leaves a block in a living client's slab), and most of
 * what goes wrong between transactions.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/faults.h"
#include "tests/harness/step/hostile.h"
#include "tests/harness/step/trial.h"
#include "tests/harness/test.h"

/* KILL_SHORT: killed, with keys with which the common operations go the short way. */
enum kind { KILL, KILL_SHORT, LATE, STALL, RESUME, RESUME_SHORT, TWICE, TWICE_SHORT, BESIDE };
static const char *const kind_names[] = {"killed", "killed on the short way", "killed later",
        "stopped", "resumed", "resumed on the short way", "stopped twice",
        "stopped twice on the short way", "stopped beside the reaper"};

#define EVERY_LATE 331

static const struct known {
        const char *fault, *scenario;
        enum kind kind;
} known[] = {
        {"PIN_NO_RECHECK", "get, stopped twice", TWICE},
        {"PIN_LATE", "get", RESUME},
        {"RETIRE_ERA_EARLY", "get", RESUME},
        {"FREE_IGNORES_PINS", "get", RESUME},
        {"FREE_IGNORES_GUARDS", "get many", RESUME},
        {"GUARD_AFTER_UNPIN", "get", RESUME},
        {"FREE_TWO_WINNERS", "free what another one frees and takes again", RESUME},
        {"UNLINK_BEFORE_DYING", "overwrite what another one wrote, no magazine", KILL},
        {"REAP_FORGETS_MAGAZINE", "overwrite out of the magazine", KILL},
        {"MAGAZINE_NOTE_LATE", "overwrite out of the magazine", KILL},
        {"UNLINK_BEFORE_DYING", "overwrite above what a cut needs", KILL_SHORT},
        {"UNLINK_BEFORE_DYING", "call: set above what a mark keeps", KILL_SHORT},
        {"MAGAZINE_TAKES_CHAIN", "overwrite above what a cut needs", STALL},
        {"SPARE_NOTE_LATE", "overwrite in a spare", KILL},
        {"SUPERSEDE_UNSTAMPED", "set in new classes", STALL},
        {"GET_NO_STAMP", "set, seen before it is stamped", STALL},
        {"STAMP_EARLY", "set beside a snapshot", RESUME},
        {"CUT_BEFORE_ANNOUNCE", "scan while keys go away", RESUME},
        {"PRUNE_IGNORES_SNAPSHOTS", "scan while keys go away", RESUME},
        {"PRUNE_PENDING_IGNORED", "scan while keys go away", RESUME},
        {"STABLE_SKIPS_NOTES", "set while the stable cut is published", RESUME},
        {"PLACEHOLDER_UNCONFIRMED", "set a new key", STALL},
        {"FLOOR_EARLY", "set a new key while it lives and goes", RESUME},
        {"FLOOR_LATE", "delete a large value", KILL},
        {"GONE_UNMARKED", "set a new key", KILL},
        {"FROZEN_WAITS", "memory work after deletes", KILL},
        {"REMOVE_IGNORES_CUTS", "scan while keys go away", RESUME},
        {"ALLOC_BIT_FIRST", "set a key that was removed", KILL},
        {"REAP_FORGETS_FREEING", "delete a large value", KILL},
        {"REAP_FORGETS_BLOCKS", "set a new key", KILL},
        {"NOTE_AFTER_INSTALL", "overwrite", KILL},
        {"UNLINK_UNMARKED", "set a new key", RESUME},
        {"REAP_FORGETS_TXN", "commit two keys", KILL},
        {"TXN_STAMP_IN_DECISION", "commit beside a snapshot", RESUME},
        {"TXN_STAMP_EACH", "commit beside a snapshot", STALL},
        {"STABLE_SKIPS_TXN", "commit while the stable cut is published", RESUME},
        {"SER_SEEN_ONLY", "commit serializable beside the same", STALL},
        {"READ_SER_AS_BEFORE", "commit serializable beside the same", STALL},
        {"DYING_LATE", "commit at a cut that was taken before", LATE},
        {"TXN_NOT_HELPED", "commit at a cut that was taken before", LATE},
        {"CONFLICT_BURNS", "commit that others get in the way of, set, memory work", RESUME},
        {"FINISH_FREEING_NO_DISPOSE", "commit that others get in the way of, set, memory work",
                LATE},
        {"TXN_NOT_HELD", "commit at a cut that was taken before, stopped twice", RESUME},
        {"HOLD_LATE", "get, stopped twice, another key in its block", TWICE_SHORT},
        {"HOLD_UNASKED", "get, stopped twice, another key in its block", TWICE_SHORT},
        {"GET_AT_NEWEST", "call: get many at one moment", RESUME_SHORT},
        {"DELETE_RANGE_BLIND", "call: delete a range", RESUME},
        {"PAST_GUARD_LATE", "call: read in a cut while its rule goes", RESUME},
        {"SCAN_NOT_NOTED", "call: commit a key, serializable, with a range", RESUME},
        {"TXN_MANY_NOT_NOTED", "call: commit a key, serializable, with keys by one call", RESUME},
        {"SCAN_ENDS_TXN_CUT", "call: commit a key, serializable, with a range", KILL},
        {"TXN_OWN_NOT_HELD", "call: commit two keys", KILL},
        {"MARK_CUT_CLOSED", "call: mark, read, drop", KILL},
        {"TXN_DISPOSE_HEAD_ONLY", "commit that others get in the way of, set, memory work", LATE},
        {"SLICE_SKIPS_CHUNK", "slices of a sweep", RESUME},
        {"COPY_COUNTS", "watch: set and large value where versions move", KILL},
        {"COPY_LISTED", "call: large value where newest versions lie", KILL},
        {"MOVE_UNSTAMPED", "call: large value where newest versions lie", KILL},
        {"MOVE_STORED", "call: large value where newest versions lie", RESUME},
        {"MOVE_SKIPS", "call: large value where older versions lie", KILL},
        {"TELL_LEFT_OUT", "watch: set, on which another one sleeps", RESUME},
        {"REAP_UNTOLD", "watch: set, on which another one sleeps", KILL},
        {"STABLE_UNTOLD", "watch: set, on which another one sleeps", STALL},
        {"BELL_TAKEN", "watch: set, on which another one sleeps", KILL},
        {"BELL_BEFORE_BIT", "watch: set beside one that falls asleep", RESUME},
        {"SLEEP_UNASKED", "watch: sleep", RESUME},
        {"STAND_UNASKED", "watch: a descriptor", RESUME},
        {"JOIN_OLD_TURN", "watch: memory work behind the last watch", RESUME},
        {"CLEAR_UNASKED", "watch: memory work behind the last watch", RESUME},
        {"RETIRE_ANY_RING", "watch: memory work behind the last watch", RESUME},
        {"RING_GONE_UNASKED", "watch: next, of which some gave way", RESUME},
        {"GONE_UNSAID", "watch: next, of which some gave way", RESUME},
        {"GONE_RING_STAYS", "watch: open", STALL},
        {"PREFIX_UNTOLD", "prefix: set, on which another one sleeps", KILL},
        {"PREFIX_CUT_EARLY", "prefix: open", RESUME},
        {"LOOK_AT_NO_NOTES", "prefix: set, read in between", RESUME},
        {"AWAIT_UNASKED", "prefix: set, read in between", KILL},
        {"AWAIT_UNEQUAL", "prefix: set, read in between", STALL},
        {"GIVEN_UP_UNASKED", "prefix: set, with which half of the hints are over", KILL},
        {"AGAIN_HINTS_LATE", "prefix: open where another watch stands", RESUME},
        {"GIVE_WAY_UNSAID", "prefix: next, of which some gave way", KILL},
        {"HINT_PAST_NOTE", "prefix: set, on which another one sleeps", KILL},
        {"PREFIX_UNWOKEN", "prefix: set, on which another one sleeps", KILL},
        {"HINT_TAIL_FIRST", "prefix: set, read in between", STALL},
        {"TAKE_UNASKED",
                "prefix: set, with which half of the hints are over, and a sweep is asked for",
                STALL},
        {"READ_HINTS_EARLY", "prefix: next", RESUME},
        {"LISTED_UNHELD", "prefix: next, of which some gave way", RESUME},
        {"LENGTHS_UNASKED", "prefix: memory work behind the last watch", RESUME},
        {"CLEAR_UNASKED", "prefix: memory work behind the last watch", RESUME},
        {"JOIN_OLD_TURN", "prefix: memory work behind the last watch", RESUME},
        {"TELL_LEFT_OUT", "prefix: set, on which another one sleeps", RESUME},
        {"REAP_UNTOLD", "prefix: set, on which another one sleeps", KILL},
        {"STABLE_UNTOLD", "prefix: set, on which another one sleeps", STALL},
        {"COMMIT_UNTOLD", "prefix: commit, on which another one sleeps", KILL},
        {"UNHOOK_HEAD_ONLY", "commit that others get in the way of, over what was deleted", LATE},
        {"LOG_UNTOLD", "log: set", KILL},
        {"LOG_TOLD_EARLY", "log: set", RESUME},
        {"LOG_TOLD_LATE", "log: set", STALL},
        {"LOOK_AT_NO_NOTES", "log: set", STALL},
        {"REAP_UNLOGGED", "log: set", KILL},
        {"COMMIT_UNLOGGED", "log: commit", KILL},
        {"LOOK_AT_NO_NOTES", "log: commit", STALL},
        {"UNLOGGED_STOPS_EARLY", "log: set where marks have two levels", KILL},
        {"UNLOGGED_TAKEN_UPWARDS", "log: batch where marks have two levels", RESUME},
        {"BATCH_CARRIES_NOTHING", "log: batch", RESUME},
        {"BATCH_UNHELD", "log: batch", RESUME},
        {"BATCH_ANEW_BY_MARKS", "log: batch", KILL},
        {"BATCH_NEVER_WHOLE", "log: batch while memory is short", RESUME},
        {"BATCH_WHOLE_EARLY", "log: batch while memory is short", RESUME},
        {"BATCH_COPY_IN_PART", "log: a copy", KILL},
        {"BATCH_COPY_FAILED_COUNTS", "log: a piece of a copy that fails, and another one", KILL},
        {"BATCH_FAILED_LEFT", "log: batch that fails, and another one", KILL},
};

/* Faults that hostile neighbours use: what was checked is loaded again. */
static const struct prey {
        const char *fault, *scenario;
        enum hostile_target target;
} preys[] = {
        {"WRITES_READ_AGAIN", "commit two keys", WRITE_COUNT},
        {"RANGES_READ_AGAIN", "commit serializable", RANGES},
        {"LISTED_READ_AGAIN", "commit two keys", WRITES},
        {"KEY_LEN_READ_AGAIN", "keep no more", KEY_LEN},
        {"SHAPE_READ_AGAIN", "call: history", VALUE_LEN},
        {"SHOWN_KEY_UNASKED", "call: delete a range and write again", SHAPE_KEY_LEN},
        {"STORED_READ_AGAIN", "keep the last two versions", VALUE_LEN},
        {"MOVED_READ_AGAIN", "call: large value where newest versions lie", VALUE_LEN},
};

/* The point where others have to come depends on how many instructions come before. With a fault
 * this tries ever finer steps, until a trial finds the fault. */
static bool try_late(const struct step_scenario *scenario, struct trial_report *report)
{
        uint64_t first, fine;

        if (!trial_late(scenario, 0, EVERY_LATE, report))
                return false;
        for (fine = EVERY_LATE / 2; fine && sb_fault_chosen; fine /= 2)
                for (first = fine; first < EVERY_LATE; first += 2 * fine)
                        if (!trial_late(scenario, first, EVERY_LATE, report))
                                return false;
        return true;
}

static bool try(const void *context, struct trial_report *report)
{
        const struct known *what = context;
        const struct step_scenario *scenario = scenario_find(what->scenario);

        scene_use_long_keys(what->kind == KILL_SHORT || what->kind == RESUME_SHORT ||
                            what->kind == TWICE_SHORT);
        switch (what->kind) {
        case KILL:
        case KILL_SHORT:
                return trial_kill(scenario, report);
        case LATE:
                return try_late(scenario, report);
        case STALL:
                return trial_stall(scenario, report);
        case RESUME:
        case RESUME_SHORT:
                return trial_resume(scenario, 0, 1, report);
        case TWICE:
        case TWICE_SHORT:
                return trial_twice(scenario, 0, 1, report);
        case BESIDE:
                return trial_beside(scenario, 4, 0, 5, report);
        }
        return false;
}

static bool try_prey(const void *context, struct trial_report *report)
{
        const struct prey *what = context;

        return trial_hostile(scenario_find(what->scenario), what->target, 0, 1, report);
}

/* Runs a trial with fault @fault in a child. Return: whether it passed there; its report comes
 * through a pipe. */
static bool passes_in_child(bool (*trial_of)(const void *, struct trial_report *), const void *what,
        enum sb_fault fault, struct trial_report *ret)
{
        int ends[2], status;
        pid_t pid;
        ssize_t got;

        memset(ret, 0, sizeof(*ret));
        fflush(stdout);
        if (pipe(ends))
                return false;
        pid = fork();
        if (pid == 0) {
                sb_fault_chosen = fault;
                trial_of(what, ret);
                _exit(write(ends[1], ret, sizeof(*ret)) != sizeof(*ret));
        }
        close(ends[1]);
        got = read(ends[0], ret, sizeof(*ret));
        close(ends[0]);
        waitpid(pid, &status, 0);
        if (got != sizeof(*ret))
                snprintf(ret->failure, sizeof(ret->failure), "the trial itself died, status %d",
                        status);
        return !ret->failure[0];
}

/* Whether the same trial stands in the table before, for another fault. */
static bool is_known_before(uint32_t i)
{
        for (uint32_t j = 0; j < i; j++)
                if (known[j].kind == known[i].kind &&
                        strcmp(known[j].scenario, known[i].scenario) == 0)
                        return true;
        return false;
}

/* The quick run sees that in build/, where kill-operations and stall-operations make them all. */
static void test_without_a_fault_the_same_trials_pass(void)
{
        struct trial_report report;

        for (uint32_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                CHECK(scenario_find(known[i].scenario));
                if (is_known_before(i))
                        continue;
                if (!passes_in_child(try, &known[i], SB_FAULT_NONE, &report))
                        TEST_FAIL("%s: %s", known[i].scenario, report.failure);
        }
}

static void test_each_seeded_fault_is_found(void)
{
        struct trial_report report;
        uint32_t found = 0, count = sizeof(known) / sizeof(known[0]);
        const char *missed = NULL;

        for (uint32_t i = 0; i < count; i++) {
                enum sb_fault fault = fault_find(known[i].fault);

                if (fault == SB_FAULT_COUNT)
                        TEST_FAIL("%s is no fault", known[i].fault);
                if (passes_in_child(try, &known[i], fault, &report)) {
                        missed = known[i].fault;
                        printf("%s (%s) is not found by %s, %s\n", known[i].fault,
                                fault_texts[fault], kind_names[known[i].kind], known[i].scenario);
                        continue;
                }
                found++;
                printf("%s (%s): found when %s: %s\n", known[i].fault, fault_texts[fault],
                        kind_names[known[i].kind], report.failure);
        }
        TEST_NOTE("stepper: %u of %u seeded faults found", found, count);
        if (missed)
                TEST_FAIL("%s is not found", missed);
}

static void test_hostile_neighbours_find_what_is_loaded_again(void)
{
        struct trial_report report;

        for (uint32_t i = 0; i < sizeof(preys) / sizeof(preys[0]); i++) {
                enum sb_fault fault = fault_find(preys[i].fault);

                CHECK(fault != SB_FAULT_COUNT && scenario_find(preys[i].scenario));
                if (getenv("SB_TEST_LONG") &&
                        !passes_in_child(try_prey, &preys[i], SB_FAULT_NONE, &report))
                        TEST_FAIL("%s: %s", preys[i].scenario, report.failure);
                if (passes_in_child(try_prey, &preys[i], fault, &report))
                        TEST_FAIL("%s is not found", preys[i].fault);
                printf("%s (%s): found: %s\n", preys[i].fault, fault_texts[fault], report.failure);
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        if (getenv("SB_TEST_LONG"))
                RUN(test_without_a_fault_the_same_trials_pass);
        RUN(test_each_seeded_fault_is_found);
        RUN(test_hostile_neighbours_find_what_is_loaded_again);
        return test_end();
}
