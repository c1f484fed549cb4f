/*
 * Seeded faults: each breaks one rule of the protocols, so that the harness can be shown to bite.
 *
 * SB_FAULT(X) is the constant false unless the tree is built with -DSB_FAULTS, where a global
 * chooses one fault for the process (tests set sb_fault_chosen, or the environment SB_FAULT=name
 * through the harness).
 */
#ifndef SB_BASE_FAULT_H
#define SB_BASE_FAULT_H

#define SB_FAULT_TABLE(X)                                                                          \
        X(PIN_NO_RECHECK, "a followed load does not look at the era again")                        \
        X(PIN_LATE, "the cell is loaded before the pin is published")                              \
        X(RETIRE_ERA_EARLY, "the retire era is read before the unlink")                            \
        X(FREE_IGNORES_PINS, "a block is freed without looking at the pins")                       \
        X(FREE_IGNORES_GUARDS, "a reclaimer does not read the guard words")                        \
        X(FREE_GUARDS_FIRST, "a reclaimer reads the guards before the pins")                       \
        X(GUARD_AFTER_UNPIN, "a guard is published after the pin is gone")                         \
        X(NO_MEMBARRIER, "a reclaimer does not flush the others' store buffers")                   \
        X(FREE_TWO_WINNERS, "a freer clears the bit without winning the retire word")              \
        X(UNLINK_UNMARKED, "a version is unlinked without marking its own prev")                   \
        X(UNLINK_BEFORE_DYING, "a version is unlinked before its retire word says so")             \
        X(SUPERSEDE_UNSTAMPED, "a writer installs over an unstamped version")                      \
        X(GET_NO_STAMP, "a get returns an unstamped version")                                      \
        X(STAMP_EARLY, "the clock is read before the install")                                     \
        X(CUT_BEFORE_ANNOUNCE, "a snapshot takes its cut before it is announced")                  \
        X(PRUNE_IGNORES_SNAPSHOTS, "a pruner does not read the announcements")                     \
        X(PRUNE_PENDING_IGNORED, "a pruner takes a pending announcement for none")                 \
        X(SAFE_SKIPS_SLOTS, "safe is raised without resolving the operation slots")                \
        X(BIRTH_UNCONFIRMED, "a birth is believed without asking its node")                        \
        X(FLOOR_EARLY, "the floor is read before the node is linked")                              \
        X(FLOOR_LATE, "the floor is raised after the cell is emptied")                             \
        X(GONE_UNMARKED, "a removed node is not marked as gone")                                   \
        X(NO_SECOND_LOOK, "no second look for late births after the grace period")                 \
        X(FROZEN_WAITS, "nobody but the remover finishes a removal")                               \
        X(REMOVE_IGNORES_CUTS, "a key is removed although an open cut needs it")                   \
        X(ORDER_UNMARKED, "a node is unlinked from the ordered index without a mark")              \
        X(ORDER_STOPS_AT_KEY, "a remover does not look behind a new node of the same key")         \
        X(WALK_STEPS_DOWN, "a walk steps down from a marked node")                                 \
        X(ALLOC_BIT_FIRST, "an allocator sets the bit before it resets the retire word")           \
        X(REAP_PIN_FIRST, "the reaper clears the pin before it finishes the slot")                 \
        X(REAP_FORGETS_FREEING, "the reaper does not finish a dead freer's work")                  \
        X(REAP_FORGETS_BLOCKS, "the reaper does not recover unpublished blocks")                   \
        X(REAP_FORGETS_STOCK, "the reaper does not look at what a dead client had in hand")        \
        X(REACH_UNCOVERED, "a retire word that no link led to is read without a look at the era")  \
        X(STOCK_NOTE_LATE, "a block is taken in hand before it is noted")                          \
        X(STOCK_NO_GRACE, "a block in hand is built in before its grace period is over")           \
        X(STOCK_LIVE_EARLY, "a block in hand is said to be live before it is installed")           \
        X(PRUNE_TAKES_STOCK, "a pruner unlinks a version that somebody has in hand")               \
        X(SLOT_AFTER_INSTALL, "the operation slot is written after the install")                   \
        X(EVICT_NO_LOOK, "a read does not look at its announcement again")                         \
        X(MARK_CLOSED_EARLY, "a mark's cut is announced no more when the mark is taken")

#define SB_FAULT_ENUM_(name, text) SB_FAULT_##name,
enum sb_fault { SB_FAULT_NONE, SB_FAULT_TABLE(SB_FAULT_ENUM_) SB_FAULT_COUNT };

#ifdef SB_FAULTS
extern enum sb_fault sb_fault_chosen;
#define SB_FAULT(name) (sb_fault_chosen == SB_FAULT_##name)
#else
#define SB_FAULT(name) 0
#endif

#endif
