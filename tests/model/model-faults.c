/*
 * Some scenario must find each seeded fault. The table says which one is expected to; when that one
 * does not, the test tries all others. A fault that no scenario finds fails the test, but for those
 * that need more than a tiny segment: another program finds them, which is named here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/lists.h"

/* The scenario that is tried first. */
static const struct {
        enum sb_fault fault;
        const char *scenario;
        /* for a fault that is seeded in a short way and in a long way, or asked in two ways: this
         * scenario must find it too */
        const char *long_way;
        /* where the walk is long: a schedule that showed the fault, of either scenario; tried
         * before the walk, which takes place when the code has changed and it shows nothing any
         * more */
        const char *schedule, *long_schedule;
} expected[] = {
        {SB_FAULT_PIN_NO_RECHECK, "get under two sets and frees, the long way",
                .schedule = "0.16s1,1.198s0,0.19s1"},
        {SB_FAULT_PIN_LATE, "get under set and free, the long way"},
        {SB_FAULT_RETIRE_ERA_EARLY, "late era, the long way"},
        {SB_FAULT_FREE_IGNORES_PINS, "get under set and free, the long way"},
        {SB_FAULT_ERA_PIN_FORGOTTEN, "get under set and free, the long way"},
        {SB_FAULT_LABEL_TOO_LATE, "ages, stopped get, the long way"},
        {SB_FAULT_BIRTH_STALE, "ages, set that stays", "ages, set that stays, the long way"},
        {SB_FAULT_FREE_IGNORES_GUARDS, "hold under set and free"},
        {SB_FAULT_FREE_GUARDS_FIRST, "hold under set and free, the long way"},
        {SB_FAULT_GUARD_BEYOND, "far guard held again"},
        {SB_FAULT_GUARD_AFTER_UNPIN, "hold under set and free, the long way"},
        {SB_FAULT_NO_MEMBARRIER, "magazine, get under buffers",
                "magazine, get under buffers, the long way"},
        {SB_FAULT_PINS_READ_EARLY, "magazine, get under buffers, the long way"},
        {SB_FAULT_UNLINK_UNMARKED, "three sets"},
        {SB_FAULT_SUPERSEDE_UNSTAMPED, "set, set over it, cut",
                "set, set over it, cut, the long way"},
        {SB_FAULT_GET_NO_STAMP, "set, delete, get", "set, delete, get, the long way"},
        {SB_FAULT_STAMP_EARLY, "snapshot and set", "snapshot and set, the long way"},
        {SB_FAULT_CUT_TOLD_OPEN, "users: told of a cut",
                "users: told of a cut, by the call for many"},
        {SB_FAULT_CUT_BEFORE_ANNOUNCE, "snapshot, set, prune"},
        {SB_FAULT_PRUNE_IGNORES_SNAPSHOTS, "snapshot, set, prune"},
        {SB_FAULT_PRUNE_PENDING_IGNORED, "snapshot, set, prune"},
        {SB_FAULT_STABLE_SKIPS_NOTES, "observer, set, stable cut"},
        {SB_FAULT_NOTE_AFTER_INSTALL, "observer, set, get, stable cut",
                "observer, set, get, stable cut, the long way", .schedule = "0.17s1,1.25s2,2.48s1",
                .long_schedule = "0.32s1,1.20s2,2.50s1"},
        {SB_FAULT_PLACEHOLDER_UNCONFIRMED, "make and make"},
        {SB_FAULT_SIGN_LATE, "away: two make"},
        {SB_FAULT_SIGN_BY_MAKER_ONLY, "away: killed make, reaped meanwhile"},
        {SB_FAULT_SIGN_UNCOUNTED, "away: remove and make"},
        {SB_FAULT_HEAL_IGNORES_PLACEHOLDERS, "away: make, remove, get"},
        {SB_FAULT_SWEEP_SKIPS_SIGNS, "away: killed remove"},
        {SB_FAULT_REAP_BY_SIGN, "away: killed make"},
        {SB_FAULT_FLOOR_EARLY, "make, delete, remove, late make"},
        {SB_FAULT_FLOOR_LATE, "remove and make"},
        {SB_FAULT_GONE_UNMARKED, "remove and make"},
        {SB_FAULT_FROZEN_WAITS, "remove and make"},
        {SB_FAULT_REMOVE_IGNORES_CUTS, "an old snapshot and a removal"},
        {SB_FAULT_ORDER_UNFROZEN, "branch: copied beside a maker"},
        {SB_FAULT_ORDER_FREE_UNFROZEN, "branch: copied beside a maker"},
        {SB_FAULT_ORDER_COPY_STALE, "branch: copied beside a maker"},
        {SB_FAULT_ORDER_FORK_ANY, "branch: copied beside two makers"},
        {SB_FAULT_ORDER_SYMBOL_LOST, "branch: grows beside a removal of another"},
        {SB_FAULT_ORDER_ANCHOR_EMPTIED, "branch: copied beside a maker"},
        {SB_FAULT_ORDER_FROZEN_PARENT, "branch: check beside two that go",
                .schedule = "0.32s1,0.58s2"},
        {SB_FAULT_ORDER_LOSER_DATES, "branch: check beside two that go",
                .schedule = "0.32s1,0.57s2"},
        {SB_FAULT_ORDER_POOR_STAYS, "branch: two removed, one made"},
        {SB_FAULT_ORDER_REMOVED_BY_KEY, "branch: copied beside two makers"},
        {SB_FAULT_ORDER_DATES_LINKED, "branch: killed removal, forked, swept",
                .schedule = "7.0p1,1.13s0,0.68x0,0.ep4"},
        {SB_FAULT_ORDER_SCAN_UNCOVERED, "branch: check over one that is younger",
                .schedule = "0.6s1,0.14s2"},
        {SB_FAULT_VACANCY_NOT_SET, "two free one"},
        {SB_FAULT_VACANCY_CLEAR_LATE, "full, hinted at, make and free",
                .schedule = "7.0p1,1.280s0,0.44s1"},
        {SB_FAULT_ALLOC_BIT_FIRST, "killed make, reaped under get"},
        {SB_FAULT_REAP_PIN_FIRST, "reap over a removal", .schedule = "0.4s1,1.281s0,0.30s1"},
        {SB_FAULT_REAP_FORGETS_FREEING, "killed free, reaped, taken again"},
        {SB_FAULT_REAP_LOOK_UNCOVERED, "noted block, reaped in another life",
                .schedule = "0.4s1,1.173s0,0.7s1"},
        {SB_FAULT_REAP_FORGETS_BLOCKS, "killed set, then reaped"},
        {SB_FAULT_FREE_TWO_WINNERS, "make twice, remove, late make"},
        {SB_FAULT_REAP_FORGETS_MAGAZINE, "magazine, killed set, then reaped"},
        {SB_FAULT_REACH_UNCOVERED, "magazine, built in again in a dead one's slab",
                .schedule = "0.36s1,1.200s0,0.42s1"},
        {SB_FAULT_MAGAZINE_NOTE_LATE, "magazine, killed set, then reaped"},
        {SB_FAULT_MAGAZINE_NO_GRACE, "magazine, get under sets and work"},
        {SB_FAULT_MAGAZINE_LIVE_EARLY, "magazine, killed set, then reaped"},
        {SB_FAULT_SPARE_NOT_WON, "spare, set and sweep",
                "users: spares out of a slab, sets and sweep"},
        {SB_FAULT_SPARE_NOTE_LATE, "spare, killed set, then reaped",
                "users: spares out of a slab, killed"},
        {SB_FAULT_SPARES_DATED_ONCE, "users: spares out of a slab, sets"},
        {SB_FAULT_PRUNE_TAKES_MAGAZINE, "magazine, set and sweep"},
        {SB_FAULT_EVICT_NO_LOOK, "evict beside reads, a set, a prune"},
        {SB_FAULT_EVICT_BESIDE_COMMIT, "txn: evicted beside a delete and its removal"},
        {SB_FAULT_TRIM_UNMARKED, "past over an old snapshot"},
        {SB_FAULT_KEEP_LOOKUP_EARLY, "keep beside the making of the key",
                .schedule = "7.0p1,1.78s0,0.279s1"},
        {SB_FAULT_KEEP_PLACEHOLDER_UNFLAGGED, "keep beside the making of the key"},
        {SB_FAULT_KEEP_BEGINS_ANEW, "keep beside the same"},
        {SB_FAULT_KEEP_FLAG_GIVEN_UP, "keep beside a set, and a set and a pruner",
                .schedule = "0.76s1,0.126s2"},
        {SB_FAULT_HOLD_LATE, "hold under set and free"},
        {SB_FAULT_HOLD_UNASKED, "hold under set and free"},
        {SB_FAULT_GET_AT_NEWEST, "users: many at one moment"},
        {SB_FAULT_GET_MANY_AT_UNASKED, "users: evict beside many at one moment"},
        {SB_FAULT_TXN_MANY_NOT_NOTED, "users: skew by batches"},
        {SB_FAULT_DELETE_RANGE_BLIND, "users: delete a range beside a key that comes"},
        {SB_FAULT_RESTORE_BLIND, "users: restore beside a key that comes"},
        {SB_FAULT_RESTORE_LAPPED_ENDS, "users: restore, its past evicted"},
        {SB_FAULT_RESTORE_NOW_RELEASED_FIRST, "users: restore, evicted beside a key that goes"},
        {SB_FAULT_SCAN_GUARD_LATE, "users: scan of a past that is gone"},
        {SB_FAULT_SCAN_NODE_NOT_HELD, "users: scan from a node that goes"},
        {SB_FAULT_SCAN_NODE_UNASKED, "users: evict beside a scan and back"},
        {SB_FAULT_SCAN_NODE_KEPT, "users: scan by seeks beside sets"},
        {SB_FAULT_SCAN_NOT_NOTED, "users: phantoms"},
        {SB_FAULT_SCAN_END_NOT_NOTED, "users: txn, a range with an end, a key that comes"},
        {SB_FAULT_SCAN_ENDS_TXN_CUT, "users: txn, its own writes in a scan"},
        {SB_FAULT_TXN_OWN_NOT_HELD, "users: txn, its own writes"},
        {SB_FAULT_HISTORY_GUARD_LATE, "users: history, passing on"},
        {SB_FAULT_HISTORY_LAST_NOT_HELD, "users: history, passing on"},
        {SB_FAULT_PAST_GUARD_LATE, "users: past"},
        {SB_FAULT_MARK_CUT_CLOSED, "users: mark"},
        {SB_FAULT_MARK_UNASKED, "mark, evicted before"},
        {SB_FAULT_BEHIND_UNASKED, "users: set above a cut, another comes",
                "users: set above a cut, another comes, the long way"},
        {SB_FAULT_OVERWRITE_FREED_AT_ONCE, "users: set above a cut, held"},
        {SB_FAULT_MAGAZINE_TAKES_CHAIN, "users: set above a cut that is read"},
        {SB_FAULT_HORIZON_LAST_MISSED, "old and young snapshot, two sets, prune"},
        {SB_FAULT_PRUNE_MARKS_FIRST, "mark beside a set and a prune",
                .schedule = "0.15s1,1.55s0,0.55s1"},
        {SB_FAULT_UNLINK_BEFORE_DYING, "killed set, then reaped"},
        {SB_FAULT_TXN_INSTALL_UNCHECKED, "txn: one gives way late",
                .schedule = "0.39s1,1.9s2,2.68s0"},
        {SB_FAULT_TXN_EXPECTS_PRESET, "txn: link to an aborted one"},
        {SB_FAULT_TXN_ABORT_BY_FLAGS, "txn: two on the same key, flags",
                .schedule = "0.44s1,1.14s0"},
        {SB_FAULT_TXN_PREV_STORED, "txn: helper and prune"},
        {SB_FAULT_TXN_CELL_BEFORE_PREV, "txn: link to an aborted one",
                .schedule = "7.0p1,1.45s2,2.46s0"},
        {SB_FAULT_PREV_UNSETTLED, "txn: link to one aborted meanwhile",
                .schedule = "7.0p2,2.145s0,0.29s1,1.ep2"},
        {SB_FAULT_TXN_STAMP_EACH, "txn: cut"},
        {SB_FAULT_TXN_STAMP_IN_DECISION, "txn: cut"},
        {SB_FAULT_TXN_COPIES_ALL, "txn: late helper"},
        {SB_FAULT_TXN_NOT_HELD, "txn: late helper"},
        {SB_FAULT_TXN_RELEASE_EARLY, "txn: one gives way late"},
        {SB_FAULT_TXN_DISPOSE_HEAD_ONLY, "txn: aborted, sets and work"},
        {SB_FAULT_TXN_NODE_UNASKED, "txn: a cell taken by another key"},
        {SB_FAULT_TXN_COMMIT_STALE, "txn: two on the same two keys"},
        {SB_FAULT_TXN_NOT_HELPED, "txn: late helper"},
        {SB_FAULT_TXN_OLD_BELOW, "txn: get, and what it came by pruned"},
        {SB_FAULT_SER_VALIDATE_FIRST, "txn: skew"},
        {SB_FAULT_SER_NO_STAMP, "txn: two sets and cut", .schedule = "0.119s1,1.71s2"},
        {SB_FAULT_SER_STAMP_UNSAID, "txn: skew, late"},
        {SB_FAULT_SER_FOREIGN_AS_BEFORE, "txn: skew"},
        {SB_FAULT_SER_SEEN_ONLY, "txn: phantoms"},
        {SB_FAULT_SER_CYCLE_IGNORED, "txn: skew, both in"},
        {SB_FAULT_SER_NO_UNWIND, "txn: cycle of three, all in"},
        {SB_FAULT_TXN_CLOSE_EARLY, "txn: range and delete", .schedule = "0.383s1,1.546s0"},
        {SB_FAULT_READ_SER_AS_BEFORE, "txn: set and cut"},
        {SB_FAULT_GET_SER_AS_BEFORE, "txn: set and reads"},
        {SB_FAULT_REMOVE_UNDER_ABORTED, "txn: aborted over a tombstone"},
        {SB_FAULT_REMOVE_HELD, "txn: evicted, its delete removed"},
        {SB_FAULT_UNHOOK_HEAD_ONLY, "txn: aborted over a tombstone"},
        {SB_FAULT_PRUNE_TAKES_HELD, "txn: aborted, sets and work"},
        {SB_FAULT_PRUNE_BY_ABORTED, "txn: aborted over a value"},
        {SB_FAULT_REAP_FORGETS_TXN, "txn: killed"},
        {SB_FAULT_NOTE_CLEARED_LATE, "txn: note reader", .schedule = "7.0p1,1.88s0,0.83s1,1.166s0"},
        {SB_FAULT_COMMIT_NOTE_LAZY, "txn: evicted under buffers", .schedule = "7.0p1,1.85k0,0.ep2"},
        {SB_FAULT_NOTE_CLEARED_LAZILY, "txn: note reader under buffers",
                .schedule = "7.0p1,1.98k0,0.70s1"},
        {SB_FAULT_NOTE_READ_UNPINNED, "txn: note reader and sweep", .schedule = "0.40s1,1.148s0"},
        {SB_FAULT_SWEEP_DATES_NOTED, "txn: note reader and sweep", .schedule = "0.40s1,1.146s0"},
        {SB_FAULT_NODE_GIVEN_BACK_NOTED, "make and make, note reader",
                .schedule = "7.0p1,1.30s0,0.30s1,1.69s0"},
        {SB_FAULT_REAP_FREES_NOTED, "killed make, reaped under note reader"},
        {SB_FAULT_REAP_COMMITS_EVICTED, "txn: evicted, killed before it looks",
                .schedule = "7.0p1,1.72s0,1.74x0"},
        {SB_FAULT_DYING_LATE, "txn: killed, then reaped"},
        {SB_FAULT_FINISH_FREEING_NO_DISPOSE, "txn: killed disposal"},
        {SB_FAULT_CONFLICT_BURNS, "txn: aborted over a value"},
        {SB_FAULT_STABLE_SKIPS_TXN, "txn: stable cut"},
        {SB_FAULT_TXN_CONFLICT_UNPINNED, "users: txn, a range that changed and goes"},
        {SB_FAULT_ROSTER_UNLISTED_EARLY, "leave and sweep"},
        {SB_FAULT_COPY_COUNTS, "move: ruled beside a pruner"},
        {SB_FAULT_COPY_LISTED, "move: users: history"},
        {SB_FAULT_COPY_STAYS, "move: killed, ruled"},
        {SB_FAULT_MOVE_FROZEN, "move: tombstone beside its removal"},
        {SB_FAULT_MOVE_UNDER_MARKED, "move: over an old snapshot beside a set"},
        {SB_FAULT_WINDOW_KEEPS_NONE, "move: two large in a txn"},
        {SB_FAULT_WINDOW_PARTS_FIRST, "move: large, killed"},
        {SB_FAULT_MOVE_UNSTAMPED, "move: over an old snapshot beside reads"},
        {SB_FAULT_MOVE_OVER_INTENT, "move: aborted above a tombstone"},
        {SB_FAULT_MOVE_STORED, "move: head beside set"},
        {SB_FAULT_MOVE_BORN_ANEW, "move: old snapshot, what it came by moves twice"},
        {SB_FAULT_MOVE_IN_HAND, "move: chain beside a sweep"},
        {SB_FAULT_MOVE_SKIPS, "move: alone"},
        {SB_FAULT_BELL_ALWAYS, "watch: stopped asleep beside two sets"},
        {SB_FAULT_BELL_TAKEN, "watch: sleeps beside a stopped set"},
        {SB_FAULT_BELL_BEFORE_BIT, "watch: sleeps beside a set"},
        {SB_FAULT_SLEEP_UNASKED, "watch: sleeps beside a set"},
        {SB_FAULT_STAND_UNASKED, "watch: a descriptor beside a set"},
        {SB_FAULT_TELL_LEFT_OUT, "watch: joins beside a set",
                "watch: joins beside a set, the long way"},
        {SB_FAULT_REAP_UNTOLD, "watch: sleeps beside a killed set",
                "prefix: sleeps beside a killed set"},
        {SB_FAULT_COMMIT_UNTOLD, "watch: sleeps beside a commit", "prefix: reads beside a commit"},
        {SB_FAULT_STABLE_UNTOLD, "watch: sleeps beside a stopped set and a cut",
                "watch: sleeps beside a stopped commit and a cut"},
        {SB_FAULT_RING_MORE_UNTOLD, "watch: two join, and a set"},
        {SB_FAULT_RING_UNKEPT, "watch: reads beside a set and a prune"},
        {SB_FAULT_REMOVE_WATCHED, "watch: a deleted key stays"},
        {SB_FAULT_RING_BACKWARDS, "watch: reads and holds beside two writers"},
        {SB_FAULT_RING_BEFORE_START, "watch: from before it began, cleared"},
        {SB_FAULT_WANTS_UNASKED, "drops: beside sets and prunes"},
        {SB_FAULT_WATCH_OLD_BELOW, "watch: joins beside a commit over what a cut needs",
                "watch: reads beside a commit while memory is short"},
        {SB_FAULT_ANCHOR_UNASKED, "drops: reads while memory is short"},
        {SB_FAULT_ANCHOR_UNHELD, "drops: reads while memory is short"},
        {SB_FAULT_DEPTH_LEFT_OUT, "depth: a deeper watch joins beside sets"},
        {SB_FAULT_RING_UNSEALED, "depth: a deeper watch joins beside a clearing"},
        {SB_FAULT_OUTGROWN_UNASKED, "depth: beside a cut"},
        {SB_FAULT_RING_GONE_UNASKED, "watch: reads while memory is short"},
        {SB_FAULT_GONE_UNSAID, "watch: reads while memory is short"},
        {SB_FAULT_WATCHED_IN_HAND, "watch: reads and holds beside two writers"},
        {SB_FAULT_GONE_SAID_LATE, "watch: reads beside a mover and a set"},
        {SB_FAULT_JOIN_OLD_TURN, "watch: joins beside a clearing and a set",
                "prefix: joins beside the end of a join"},
        {SB_FAULT_RING_GONE_DAMAGED, "watch: two join beside a clearing",
                .schedule = "7.0p1,1.17s0,1.22s2"},
        {SB_FAULT_CLEAR_UNASKED, "watch: joins beside a clearing and a set",
                "prefix: joins beside the end of a join"},
        {SB_FAULT_GONE_RING_STAYS, "watch: joins beside a removal"},
        {SB_FAULT_RETIRE_ANY_RING, "watch: joins beside a clearing and a set"},
        {SB_FAULT_PREFIX_UNTOLD, "prefix: reads beside a set"},
        {SB_FAULT_PREFIX_CUT_EARLY, "prefix: joins beside a set"},
        {SB_FAULT_LOOK_AT_NO_NOTES, "prefix: reads beside a set", "prefix: reads beside a commit"},
        {SB_FAULT_AWAIT_UNASKED, "prefix: reads beside a set and a prune"},
        {SB_FAULT_AWAIT_UNEQUAL, "prefix: reads beside a set and a prune"},
        {SB_FAULT_AWAIT_EARLY, "prefix: joins beside sets and a sweep"},
        {SB_FAULT_GIVEN_UP_UNASKED, "prefix: reads beside a mover",
                "prefix: reads while memory is short"},
        {SB_FAULT_HINT_KEEPS_ALL, "prefix: unread, and sets"},
        {SB_FAULT_HINT_LAP_UNASKED, "prefix: lapped beside a late half"},
        {SB_FAULT_LENGTHS_UNASKED, "prefix: joins beside a clearing"},
        {SB_FAULT_MOVE_AWAITED, "prefix: reads beside a mover"},
        {SB_FAULT_REMOVE_UNAWAITED, "prefix: a deleted key stays"},
        {SB_FAULT_FORGOTTEN_UNSAID, "prefix: from an earlier cut, beside a removal"},
        {SB_FAULT_HINT_TAIL_FIRST, "prefix: reads beside two writers"},
        {SB_FAULT_HINT_PAST_NOTE, "prefix: reads beside two writers"},
        {SB_FAULT_ROW_FIRST_ALONE, "queue: reads beside sets"},
        {SB_FAULT_QUEUE_UNASKED, "queue: not read, and sets"},
        {SB_FAULT_QUEUE_UNTOLD, "queue: reads beside sets"},
        {SB_FAULT_QUEUE_STAYS_OPEN, "queue: fills, and is not read"},
        {SB_FAULT_QUEUE_LOST_UNSAID, "queue: while memory is short"},
        {SB_FAULT_QUEUE_TEARS, "queue: a commit without room"},
        {SB_FAULT_PREFIX_UNWOKEN, "prefix: sleeps beside a set"},
        {SB_FAULT_GIVE_WAY_UNSAID, "prefix: reads while memory is short",
                "prefix: reads beside a mover"},
        {SB_FAULT_AGAIN_HINTS_LATE, "prefix: joins beside a set"},
        {SB_FAULT_READ_HINTS_EARLY, "prefix: joins beside a set"},
        {SB_FAULT_TAKE_UNASKED, "prefix: reads while memory is short",
                "prefix: from an earlier cut, beside a removal"},
        {SB_FAULT_LISTED_UNHELD, "prefix: reads while memory is short"},
        {SB_FAULT_LIST_COPY_TWICE, "prefix: from an earlier cut, beside a mover",
                .schedule = "0.264s1,1.342s0"},
        {SB_FAULT_LOG_UNTOLD, "batch: beside a set", "batch: beside a set, the long way"},
        {SB_FAULT_LOG_TOLD_EARLY, "batch: beside a set, the long way"},
        {SB_FAULT_LOG_TOLD_LATE, "batch: beside a set", "batch: beside a set, the long way"},
        {SB_FAULT_COMMIT_UNLOGGED, "batch: beside a commit"},
        {SB_FAULT_REAP_UNLOGGED, "batch: killed set"},
        {SB_FAULT_UNLOGGED_STOPS_EARLY, "batch: two levels, killed set"},
        {SB_FAULT_UNLOGGED_TAKEN_UPWARDS, "batch: two levels, beside a set"},
        {SB_FAULT_BATCH_NOTES_LATE, "batch: beside a set", "batch: beside a set, the long way"},
        {SB_FAULT_BATCH_CARRIES_NOTHING, "batch: beside a set",
                "batch: beside a set, the long way"},
        {SB_FAULT_BATCH_ASKS_LATE, "batch: beside two sets"},
        {SB_FAULT_BATCH_NEVER_WHOLE, "batch: beside a removal, memory is short"},
        {SB_FAULT_BATCH_WHOLE_EARLY, "batch: beside a removal, memory is short"},
        {SB_FAULT_BATCH_TIDY_TAKES, "batch: beside a delete and a removal"},
        {SB_FAULT_BATCH_UNHELD, "batch: beside a delete and a removal"},
        {SB_FAULT_BATCH_ANEW_BY_MARKS, "batch: killed log"},
        {SB_FAULT_BATCH_ALL_ONCE, "batch: another log, which fails at first"},
        {SB_FAULT_BATCH_FAILED_LEFT, "batch: fails beside a set"},
        {SB_FAULT_BATCH_COPY_IN_PART, "batch: a copy beside a set, in one bucket"},
        {SB_FAULT_BATCH_COPY_FAILED_COUNTS, "batch: a copy that fails, beside a set"},
        {SB_FAULT_BATCH_NEWEST_ALONE, "batch: of a key with a rule"},
        {SB_FAULT_REMOVE_UNLOGGED, "batch: beside a delete and a removal"},
};

static const struct {
        enum sb_fault fault;
        const char *program;
} elsewhere[] = {
        {SB_FAULT_RECLAIM_KEEPS_SLABS, "tests/unit/unit-faults"},
        {SB_FAULT_HINT_NOTED_ONCE, "tests/unit/unit-faults"},
        {SB_FAULT_AWAITED_UNSWEPT, "tests/unit/unit-faults"},
        {SB_FAULT_MOVE_KNOWN, "tests/unit/unit-faults"},
        /* What a slow sweep takes for a block of before is free by its bit (memory/grace.c). */
        {SB_FAULT_WINDOW_EARLY, "tests/unit/unit-faults"},
        {SB_FAULT_WINDOW_KNOWN_AGAIN, "tests/unit/unit-faults"},
        {SB_FAULT_MOVE_OWN_SLABS, "tests/unit/unit-faults"},
        {SB_FAULT_MOVE_PARTS, "tests/unit/unit-faults"},
        {SB_FAULT_WINDOW_PARTS_STAY, "tests/kill/kill-between-faults"},
        {SB_FAULT_BUDGET_IGNORES_DEAD, "tests/storm/storm-faults"},
        {SB_FAULT_EVICT_BY_CUT, "tests/unit/unit-faults"},
        {SB_FAULT_SWEEP_NODES_NEVER_LIE, "tests/unit/unit-faults"},
        {SB_FAULT_SWEEP_DYING_NEVER_LIE, "tests/unit/unit-faults"},
        {SB_FAULT_SWEEP_LIES_UNSAID, "tests/unit/unit-faults"},
        {SB_FAULT_LIMBO_IGNORES_SWEEPS, "tests/unit/unit-faults"},
        {SB_FAULT_LAP_KEEPS_HORIZON, "tests/unit/unit-faults"},
        {SB_FAULT_LOOK_UNFLUSHED, "tests/unit/unit-faults"},
        {SB_FAULT_KEPT_UNASKED, "tests/unit/unit-faults"},
        {SB_FAULT_KEEP_PLACE_PASSED, "tests/unit/unit-faults"},
        {SB_FAULT_KEEP_COPY_UNTAGGED, "tests/kill/kill-between-faults"},
        {SB_FAULT_KEEP_FLAG_UNASKED, "tests/kill/kill-between-faults"},
        {SB_FAULT_FREE_BY_DATE_ALONE, "tests/kill/kill-between-faults"},
        {SB_FAULT_WANTS_FIRST_UNASKED, "tests/kill/kill-between-faults"},
        {SB_FAULT_WANTS_ONCE, "tests/kill/kill-between-faults"},
        {SB_FAULT_QUEUE_ASKED_ONCE, "tests/kill/kill-between-faults"},
        {SB_FAULT_GONE_RAISED_ONCE, "tests/kill/kill-between-faults"},
        {SB_FAULT_HINT_RAISED_ONCE, "tests/kill/kill-between-faults"},
        {SB_FAULT_QUEUE_RAISED_ONCE, "tests/kill/kill-between-faults"},
        {SB_FAULT_HINTS_GO_UNASKED, "tests/kill/kill-between-faults"},
        {SB_FAULT_BELL_WAKES_UP, "tests/unit/unit-faults"},
        {SB_FAULT_FD_OPEN_UNSEEN, "tests/api/api-fd-faults"},
        {SB_FAULT_FD_OTHERS_UNASKED, "tests/api/api-fd-faults"},
        {SB_FAULT_FD_COUNT_STAYS, "tests/api/api-fd-faults"},
        {SB_FAULT_FD_RING_EAGER, "tests/api/api-fd-faults"},
        {SB_FAULT_RING_STAYS_SHALLOW, "tests/unit/unit-faults"},
        {SB_FAULT_RING_OPENED_LOW, "tests/unit/unit-faults"},
        {SB_FAULT_OUTGROWN_EARLY, "tests/unit/unit-faults"},
        {SB_FAULT_OVERWRITE_LEFT_UNNOTED, "tests/unit/unit-faults"},
        {SB_FAULT_SPARE_ERA_OPEN, "tests/unit/unit-faults"},
        {SB_FAULT_SPARE_OLD_BELIEVED, "tests/unit/unit-faults"},
        {SB_FAULT_SPARE_SHAPE_KEPT, "tests/unit/unit-faults"},
        {SB_FAULT_SLICE_SKIPS_CHUNK, "tests/unit/unit-faults"},
        {SB_FAULT_RETIRE_ANY_RING, "tests/kill/kill-faults"},
        {SB_FAULT_WRITES_READ_AGAIN, "tests/kill/kill-faults"},
        {SB_FAULT_RANGES_READ_AGAIN, "tests/kill/kill-faults"},
        {SB_FAULT_LISTED_READ_AGAIN, "tests/kill/kill-faults"},
        {SB_FAULT_MOVED_READ_AGAIN, "tests/kill/kill-faults"},
        {SB_FAULT_KEY_LEN_READ_AGAIN, "tests/kill/kill-faults"},
        {SB_FAULT_ORDER_STEM_LOST, "tests/kill/kill-between-faults"},
        {SB_FAULT_VACANCY_SUM_LOST, "tests/kill/kill-between-faults"},
        {SB_FAULT_SHAPE_READ_AGAIN, "tests/kill/kill-faults"},
        {SB_FAULT_SHOWN_KEY_UNASKED, "tests/kill/kill-faults"},
        {SB_FAULT_STORED_READ_AGAIN, "tests/kill/kill-faults"},
        {SB_FAULT_PLACE_UNRESERVED, "tests/api/api-faults"},
        {SB_FAULT_TICKET_OF_ANY, "tests/api/api-faults"},
        {SB_FAULT_DEAF_FOR_EVER, "tests/api/api-faults"},
        {SB_FAULT_LINES_DIRECT, "tests/power/power-ext4-faults"},
        {SB_FAULT_LINES_LOST_UNSAID, "tests/api/api-faults"},
        {SB_FAULT_MAP_UNLOCKED, "tests/api/api-faults"},
        {SB_FAULT_MAP_LOCK_UNASKED, "tests/api/api-faults"},
        {SB_FAULT_DURABLE_EARLY, "tests/api/api-faults"},
        {SB_FAULT_BATCH_TIDIES_HELD, "tests/unit/unit-faults"},
        {SB_FAULT_BATCH_RELEASE_UNSAID, "tests/unit/unit-faults"},
        {SB_FAULT_REST_KEEPS_LIMBO, "tests/unit/unit-faults"},
        {SB_FAULT_RECOVER_HEADLESS, "tests/api/api-faults"},
        {SB_FAULT_RECOVER_AS_LARGE, "tests/api/api-faults"},
        {SB_FAULT_RECOVER_ALL_HISTORY, "tests/api/api-faults"},
        {SB_FAULT_LOG_PAIR_LATE, "tests/api/api-faults"},
        {SB_FAULT_LOG_PAIR_TORN, "tests/api/api-faults"},
        {SB_FAULT_LOG_PAIR_EARLY, "tests/api/api-faults"},
        {SB_FAULT_WRITES_UNREFUSED, "tests/api/api-faults"},
        {SB_FAULT_STOPS_FOR_ANY, "tests/api/api-faults"},
        {SB_FAULT_SCAN_RUN_KEPT, "tests/api/api-faults"},
        {SB_FAULT_FIND_NODE_UNASKED, "tests/unit/unit-faults"},
        {SB_FAULT_REMOVED_UNSAID, "tests/api/api-faults"},
        {SB_FAULT_LOST_UNHEARD, "tests/api/api-faults"},
        {SB_FAULT_RESERVE_UNDIVIDED, "tests/api/api-faults"},
        {SB_FAULT_RULE_UNRESERVED, "tests/api/api-faults"},
        {SB_FAULT_OWN_MARKED, "tests/api/api-faults"},
        {SB_FAULT_OWN_AT_MARKS, "tests/api/api-faults"},
        {SB_FAULT_OWN_UNANNOUNCED, "tests/api/api-faults"},
        {SB_FAULT_MARK_UNANNOUNCED, "tests/kill/kill-between-faults"},
        {SB_FAULT_STOP_UNSEEN, "tests/kill/kill-between-faults"},
        {SB_FAULT_INSPECT_UNANSWERED, "tests/unit/unit-faults"},
        {SB_FAULT_SCAN_RUN_OF_ALL, "tests/api/api-faults"},
        {SB_FAULT_OLDER_COPY_DROPPED, "tests/api/api-faults"},
        {SB_FAULT_SPARE_UNSYNCED, "tests/power/power-faults"},
        {SB_FAULT_ASIDE_UNSYNCED, "tests/power/power-faults"},
        {SB_FAULT_MARK_UNSYNCED, "tests/power/power-faults"},
        {SB_FAULT_MARK_REPLACED, "tests/power/power-faults"},
        {SB_FAULT_UNMARKED_EARLY, "tests/power/power-faults"},
        {SB_FAULT_PARTIAL_UNMARKED, "tests/power/power-faults"},
        {SB_FAULT_PARTIAL_NAMED_EARLY, "tests/power/power-faults"},
        {SB_FAULT_PARTIAL_NAME_UNSYNCED, "tests/power/power-faults"},
        {SB_FAULT_PLACE_UNSYNCED, "tests/power/power-faults"},
        {SB_FAULT_SPELLS_UNCOUNTED, "tests/power/power-ext4-faults"},
        {SB_FAULT_LOAD_UNMOVED, "tests/unit/unit-faults"},
        {SB_FAULT_UNITS_UNHELD, "tests/unit/unit-faults"},
        {SB_FAULT_RULES_LOOK_BACK, "tests/unit/unit-faults"},
        {SB_FAULT_FRONT_NEEDED, "tests/api/api-faults"},
        {SB_FAULT_COPY_ENDED_EARLY, "tests/api/api-faults"},
        {SB_FAULT_COPY_UNWANTED, "tests/api/api-faults"},
        {SB_FAULT_FILES_UNCOUNTED, "tests/api/api-faults"},
        {SB_FAULT_SMALLER_UNMADE, "tests/api/api-faults"},
        {SB_FAULT_LAST_COPY_LEFT_OUT, "tests/api/api-faults"},
        {SB_FAULT_UNSTARTED_UNTOLD, "tests/api/api-faults"},
        {SB_FAULT_NAME_UNASKED, "tests/api/api-faults"},
        {SB_FAULT_SIZE_UNASKED, "tests/api/api-faults"},
        {SB_FAULT_STRANGER_REPLACED, "tests/api/api-faults"},
        {SB_FAULT_ROOM_UNASKED, "tests/api/api-faults"},
        {SB_FAULT_HELD_AS_READ, "tests/api/api-faults"},
        {SB_FAULT_LIFE_UNSAID, "tests/api/api-faults"},
        {SB_FAULT_GOING_BACK_UNENDED, "tests/api/api-faults"},
        {SB_FAULT_LOG_FILE_UNSAID, "tests/api/api-faults"},
        {SB_FAULT_REST_DROPPED, "tests/api/api-faults"},
        {SB_FAULT_LOG_DISOWNED, "tests/api/api-faults"},
        {SB_FAULT_RECOVER_UNLOCKED, "tests/api/api-faults"},
        {SB_FAULT_COPY_WITHOUT_FLOORS, "tests/api/api-faults"},
        {SB_FAULT_BACKUP_UNLOCKED, "tests/api/api-faults"},
        {SB_FAULT_BACKUP_END_UNCHECKED, "tests/unit/unit-faults"},
        {SB_FAULT_BACKUP_GROWTH_UNSEEN, "tests/unit/unit-faults"},
        {SB_FAULT_DURABLE_UNTOLD, "tests/unit/unit-faults"},
        {SB_FAULT_DURABLE_UNASKED, "tests/unit/unit-faults"},
        {SB_FAULT_REST_TAKEN_FIRST, "tests/kill/kill-starts-faults"},
        {SB_FAULT_HALF_REAPED_PASSED, "tests/kill/kill-starts-faults"},
        {SB_FAULT_LOAD_CLOCK_LATE, "tests/kill/kill-durable-faults"},
        {SB_FAULT_TAKE_OVER_UNSAID, "tests/kill/kill-durable-faults"},
        {SB_FAULT_FSYNC_LEFT_OUT, "tests/power/power-faults"},
        {SB_FAULT_RENAME_WITHOUT_DIRECTORY_FSYNC, "tests/power/power-faults"},
        {SB_FAULT_HEADER_UNSYNCED, "tests/power/power-faults"},
        {SB_FAULT_SALT_KEPT, "tests/power/power-faults"},
        {SB_FAULT_WATERMARK_EARLY, "tests/power/power-faults"},
        {SB_FAULT_NEXT_BATCH_BEFORE_FSYNC, "tests/power/power-faults"},
        {SB_FAULT_LAST_FRAME_UNCHECKED, "tests/power/power-faults"},
        {SB_FAULT_SEQUENCE_UNCHECKED, "tests/power/power-faults"},
        {SB_FAULT_LATER_HEAD_UNSEEN, "tests/unit/unit-faults"},
        {SB_FAULT_OWN_HEAD_BELIEVED, "tests/power/power-faults"},
        {SB_FAULT_VERSION_BELIEVED, "tests/unit/unit-faults"},
        {SB_FAULT_PIECES_NEEDED, "tests/unit/unit-faults"},
        {SB_FAULT_PIECES_MISSED, "tests/api/api-faults"},
        {SB_FAULT_FRAME_UNCHECKED, "tests/fuzz/fuzz-faults"},
        {SB_FAULT_ENTRY_UNMEASURED, "tests/fuzz/fuzz-faults"},
        {SB_FAULT_FLOOR_OF_NO_BUCKET, "tests/fuzz/fuzz-faults"},
        {SB_FAULT_DUMP_SUM_UNASKED, "tests/fuzz/fuzz-faults"},
};

/* Whether another program finds the fault. */
static bool is_found_elsewhere(enum sb_fault fault)
{
        uint32_t i;

        for (i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
                if (elsewhere[i].fault == fault) {
                        printf("# %s: %s finds it\n", world_fault_names[fault],
                                elsewhere[i].program);
                        return true;
                }
        return false;
}

static struct {
        struct model_scenario *all;
        uint32_t count;
        uint64_t executions;
} hunt;

static void add(struct world_list list)
{
        uint32_t i;

        hunt.all = realloc(hunt.all, (hunt.count + list.count) * sizeof *hunt.all);
        if (!hunt.all)
                abort();
        for (i = 0; i < list.count; i++)
                hunt.all[hunt.count++] = world_scenario(&list.cases[i]);
}

/* Few preemptions come first: one is enough for most faults. */
static bool found_by(
        enum sb_fault fault, const struct model_scenario *scenario, uint64_t execution_max)
{
        struct model_scenario bounded = *scenario;
        struct model_report report;

        bounded.execution_max = execution_max;
        for (bounded.preemptions = 0; bounded.preemptions <= scenario->preemptions;
                bounded.preemptions++) {
                model_explore(&bounded, &report);
                hunt.executions += report.executions;
                if (!report.failed)
                        continue;
                printf("ok %s: found by \"%s\" with %u preemptions, %lu executions: %s (schedule "
                       "%s)\n",
                        world_fault_names[fault], scenario->name, bounded.preemptions,
                        (unsigned long)report.executions, report.message, report.replay);
                return true;
        }
        return false;
}

/* Whether the schedule shows it, and nothing without it. */
static bool found_by_schedule(
        enum sb_fault fault, const struct model_scenario *scenario, const char *schedule)
{
        bool wrong;

        if (!schedule || getenv("SB_TEST_LONG"))
                return false;
        wrong = model_schedule_fails(scenario, schedule);
        world_fault = SB_FAULT_NONE;
        wrong = wrong && !model_schedule_fails(scenario, schedule);
        world_fault = fault;
        hunt.executions += 2;
        if (wrong)
                printf("ok %s: found by \"%s\" (schedule %s, known)\n", world_fault_names[fault],
                        scenario->name, schedule);
        return wrong;
}

static bool found_in(enum sb_fault fault, const char *scenario, const char *schedule)
{
        uint32_t i;

        for (i = 0; i < hunt.count; i++)
                if (!strcmp(hunt.all[i].name, scenario) &&
                        (found_by_schedule(fault, &hunt.all[i], schedule) ||
                                found_by(fault, &hunt.all[i], 3000000)))
                        return true;
        return false;
}

static bool found(enum sb_fault fault)
{
        const char *first = "", *long_way = NULL, *schedule = NULL, *long_schedule = NULL;
        uint32_t i;
        bool r;

        world_fault = fault;
        for (i = 0; i < sizeof expected / sizeof *expected; i++)
                if (expected[i].fault == fault) {
                        first = expected[i].scenario;
                        long_way = expected[i].long_way;
                        schedule = expected[i].schedule;
                        long_schedule = expected[i].long_schedule;
                }
        r = found_in(fault, first, schedule);
        for (i = 0; i < hunt.count && !r; i++)
                r = found_by(fault, &hunt.all[i], 200000);
        if (!r)
                printf("FAIL %s: nothing finds it\n", world_fault_names[fault]);
        if (r && long_way && !found_in(fault, long_way, long_schedule)) {
                printf("FAIL %s: \"%s\" does not find it\n", world_fault_names[fault], long_way);
                r = false;
        }
        return r;
}

int main(int argc, char **argv)
{
        uint32_t fault, bad = 0, ran = 0;

        setvbuf(stdout, NULL, _IOLBF, 0);
        for (uint32_t i = 0; i < WORLD_CHOSEN; i++)
                add(*world_chosen[i]);
        for (fault = SB_FAULT_NONE + 1; fault < SB_FAULT_COUNT; fault++) {
                if (argc > 1 && strcmp(argv[1], world_fault_names[fault]))
                        continue;
                ran++;
                if (is_found_elsewhere((enum sb_fault)fault))
                        continue;
                bad += !found((enum sb_fault)fault);
        }
        if (!ran)
                printf("FAIL %s: shm/base/fault.h has no such fault\n", argv[1]);
        printf("# %u faults, %u of them not found, %lu executions\n", ran, bad,
                (unsigned long)hunt.executions);
        return bad || !ran;
}
