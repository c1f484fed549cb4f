/*
 * Seeded faults: each breaks one rule of the protocols, to show that the tests find it.
 *
 * In a build with -DSB_FAULTS one fault is chosen for the process: a test sets sb_fault_chosen, or
 * the environment names it (SB_FAULT=name, through tests/harness; for agentd SB_AGENTD_FAULT=name).
 * In every other build SB_FAULT(X) is the constant 0, and costs nothing.
 *
 * Always true: each fault is found by a test (kill-faults, model-faults, storm-faults,
 * unit-faults, api-faults, power-faults). The code that a fault changes is a small helper of its
 * own, so that the protocol reads straight.
 */
#ifndef SB_BASE_FAULT_H
#define SB_BASE_FAULT_H

#define SB_FAULT_TABLE(X)                                                                          \
        X(PIN_NO_RECHECK, "a followed load does not look at the era again")                        \
        X(PIN_LATE, "a word is loaded before the pin is published")                                \
        X(RETIRE_ERA_EARLY, "the retire era is read before the unlink")                            \
        X(FREE_IGNORES_PINS, "a block is freed without looking at the pins")                       \
        X(ERA_PIN_FORGOTTEN, "the search in the pins of a look passes the last one by")            \
        X(LABEL_TOO_LATE, "a birth is labelled with a base that is later")                         \
        X(BIRTH_STALE, "a birth that was loaded ages ago is not looked at again")                  \
        X(FREE_IGNORES_GUARDS, "a reclaimer does not read the guard words")                        \
        X(FREE_GUARDS_FIRST, "a reclaimer reads the guards before the pins")                       \
        X(GUARD_BEYOND, "a guard is set beyond the bound that reclaimers read to")                 \
        X(GUARD_AFTER_UNPIN, "a guard is published after the pin is gone")                         \
        X(NO_MEMBARRIER, "a reclaimer does not flush the other processes' store buffers")          \
        X(LOOK_UNFLUSHED, "a look at all pins does not flush the other processes' stores")         \
        X(PINS_READ_EARLY, "a reclaimer reads the pins, and then flushes the stores of others")    \
        X(FREE_BY_DATE_ALONE, "a reclaimer takes a free block for one that waits, by its date")    \
        X(FREE_TWO_WINNERS, "a reclaimer clears the bit without winning the retire word")          \
        X(UNLINK_UNMARKED, "a version is unlinked without marking its own prev")                   \
        X(UNLINK_BEFORE_DYING, "a version is unlinked before its retire word says so")             \
        X(SUPERSEDE_UNSTAMPED, "a writer installs over an unstamped version")                      \
        X(GET_NO_STAMP, "a get returns an unstamped version")                                      \
        X(STAMP_EARLY, "the clock is read before the install")                                     \
        X(CUT_TOLD_OPEN, "a cut that a writer told of is read while writes still get its stamp")   \
        X(CUT_BEFORE_ANNOUNCE, "a snapshot takes its cut before it is announced")                  \
        X(PRUNE_IGNORES_SNAPSHOTS, "a pruner does not read the announcements")                     \
        X(PRUNE_PENDING_IGNORED, "a pruner takes a pending announcement for none")                 \
        X(STABLE_SKIPS_NOTES, "the stable cut is raised without resolving the noted writes")       \
        X(PLACEHOLDER_UNCONFIRMED, "a placeholder is believed without asking its node")            \
        X(SIGN_LATE, "a key outside its home is confirmed before it is signed")                    \
        X(SIGN_BY_MAKER_ONLY, "a process that meets a placeholder confirms it without signing")    \
        X(SIGN_UNCOUNTED, "a process that signs counts only where it sets a bit")                  \
        X(HEAL_IGNORES_PLACEHOLDERS, "unconfirmed placeholders do not count for a sign")           \
        X(SWEEP_SKIPS_SIGNS, "a sweep does not look at the signs")                                 \
        X(REAP_BY_SIGN, "the reaper looks for placeholders only where a sign leads it")            \
        X(FLOOR_EARLY, "the floor is read before the node is linked")                              \
        X(FLOOR_LATE, "the floor is raised after the cell is emptied")                             \
        X(GONE_UNMARKED, "a removed node is not marked as gone")                                   \
        X(FROZEN_WAITS, "no other client finishes a remover's removal")                            \
        X(REMOVE_IGNORES_CUTS, "a key is removed although an open cut needs it")                   \
        X(ORDER_UNFROZEN, "a branch is copied without freezing its slots")                         \
        X(ORDER_FREE_UNFROZEN, "free slots of a branch are not frozen")                            \
        X(ORDER_COPY_STALE, "a slot is copied as it was before it was frozen")                     \
        X(ORDER_FORK_ANY, "a fork takes the place of whatever is there")                           \
        X(ORDER_SYMBOL_LOST, "an emptied slot loses its symbol")                                   \
        X(ORDER_ANCHOR_EMPTIED, "a leaf is taken out of an anchor by a CAS")                       \
        X(ORDER_FROZEN_PARENT, "a branch is replaced in a frozen slot")                            \
        X(ORDER_LOSER_DATES, "a process that lost the CAS dates the branch, too")                  \
        X(ORDER_POOR_STAYS, "a branch with one leaf stays")                                        \
        X(ORDER_REMOVED_BY_KEY, "a remover takes out any node of its key")                         \
        X(ORDER_STEM_LOST, "a frozen word is followed unasked")                                    \
        X(ORDER_DATES_LINKED, "a sweep dates a branch that is linked")                             \
        X(ORDER_SCAN_UNCOVERED, "a scan follows slots that its pin may not cover")                 \
        X(VACANCY_NOT_SET, "memory that becomes free is not hinted at")                            \
        X(VACANCY_SUM_LOST, "a hint that comes while its list is found empty is lost")             \
        X(VACANCY_CLEAR_LATE, "a hint is cleared, and its unit is not looked at once more")        \
        X(ALLOC_BIT_FIRST, "a block's bit is set before its retire word is reset")                 \
        X(REAP_PIN_FIRST, "the reaper clears the pin before it finishes what is noted")            \
        X(REAP_FORGETS_FREEING, "the reaper does not finish a dead reclaimer's work")              \
        X(REAP_LOOK_UNCOVERED,                                                                     \
                "a dead client's note of a block is asked in steps that no pin covers")            \
        X(REAP_FORGETS_BLOCKS, "the reaper does not recover unpublished blocks")                   \
        X(REAP_FORGETS_MAGAZINE, "the reaper does not look at a dead client's magazine")           \
        X(REACH_UNCOVERED, "a retire word that no link led to is read without a look at the era")  \
        X(MAGAZINE_NOTE_LATE, "a block is taken in hand before it is noted")                       \
        X(MAGAZINE_NO_GRACE, "a block in hand is built in before its grace period is over")        \
        X(MAGAZINE_LIVE_EARLY, "a block in hand is said to be live before it is installed")        \
        X(SPARE_NOT_WON, "a client builds in a spare without winning its retire word")             \
        X(SPARE_NOTE_LATE, "a client wins a spare before it is noted")                             \
        X(SPARES_DATED_ONCE, "of blocks that become spares together one alone is dated")           \
        X(SPARE_ERA_OPEN, "a block becomes a spare in the era of its date")                        \
        X(SPARE_OLD_BELIEVED, "a spare that was found free ages ago is built in")                  \
        X(SPARE_SHAPE_KEPT, "a spare out of a slab says still what the block was before")          \
        X(PRUNE_TAKES_MAGAZINE, "a pruner unlinks a version that a client has in hand")            \
        X(NOTE_AFTER_INSTALL, "the operation is noted after the install")                          \
        X(EVICT_NO_LOOK, "a read does not look at its announcement again")                         \
        X(EVICT_BESIDE_COMMIT, "a snapshot is taken away without a look at its transaction")       \
        X(COPY_COUNTS,                                                                             \
                "a version that moved counts twice, and the past behind it is taken for trimmed")  \
        X(COPY_LISTED, "a history lists a version that moves twice")                               \
        X(COPY_STAYS, "an original stays below its copy for a rule of history")                    \
        X(MOVE_FROZEN, "a version moves in a cell that is frozen")                                 \
        X(MOVE_UNDER_MARKED, "a version moves from behind one that leaves the chain")              \
        X(WINDOW_PARTS_FIRST, "of a window that becomes a run, the parts come first")              \
        X(MOVE_UNSTAMPED, "a copy is published without its stamp")                                 \
        X(MOVE_OVER_INTENT, "a version moves from under an intent")                                \
        X(MOVE_STORED, "a copy is published without expecting the link that was followed")         \
        X(MOVE_IN_HAND, "a version that is in a hand moves")                                       \
        X(MOVE_KNOWN, "what a stopped client knows moves")                                         \
        X(MOVE_BORN_ANEW, "a copy is younger than versions that lead to it")                       \
        X(MOVE_SKIPS, "a copy's link leads past the original")                                     \
        X(WINDOW_EARLY, "a window serves before the grace period of what was there")               \
        X(WINDOW_KNOWN_AGAIN, "units that a stopped reader knows are chosen again")                \
        X(WINDOW_KEEPS_NONE, "a run that a waiting client gives back is free")                     \
        X(WINDOW_PARTS_STAY, "parts of what was in a window name it until the new run has them")   \
        X(MOVE_PARTS, "a window has the beginning of a large block, and not all of it")            \
        X(MOVE_OWN_SLABS, "a mover keeps its own slabs, which are in no window")                   \
        X(BELL_ALWAYS, "a process wakes a client that was woken already")                          \
        X(BELL_TAKEN, "the process that wakes takes back that the client sleeps")                  \
        X(BELL_BEFORE_BIT, "a client is woken before its dirty bit is set")                        \
        X(SLEEP_UNASKED, "a client sleeps without another look at its bits")                       \
        X(STAND_UNASKED, "a descriptor waits without another look at the bits")                    \
        X(BELL_WAKES_UP, "a sleep ends, and takes back what is said for the descriptor")           \
        X(FD_OPEN_UNSEEN, "a watch that is opened does not show by the descriptor")                \
        X(FD_OTHERS_UNASKED, "a watch with nothing speaks for all others")                         \
        X(FD_COUNT_STAYS, "the descriptor is not cleared where there is nothing")                  \
        X(FD_RING_EAGER, "an io_uring runs its work in the owner's thread at once")                \
        X(TELL_LEFT_OUT, "a writer does not tell the watchers")                                    \
        X(COMMIT_UNTOLD, "a transaction does not tell the watchers of what it wrote")              \
        X(REAP_UNTOLD, "the reaper does not tell what a dead client wrote")                        \
        X(STABLE_UNTOLD, "what a stopped client wrote is not told with the stable cut")            \
        X(RING_BACKWARDS, "a slow writer puts an older version into a slot")                       \
        X(RING_BEFORE_START, "a watch begins, and what came before is not said to be gone")        \
        X(RING_STAYS_SHALLOW, "where a ring got more slots, writers go on with the few")           \
        X(RING_OPENED_LOW, "a new ring is opened at a revision of long ago")                       \
        X(DEPTH_LEFT_OUT, "a deeper watch is content with the slots that are there")               \
        X(WANTS_UNASKED, "a pruner does not ask what watches that drop want")                      \
        X(WANTS_FIRST_UNASKED, "a pruner does not ask the place that a watch is just giving")      \
        X(GONE_RAISED_ONCE,                                                                        \
                "one that takes a version out of a chain says so once, beside another")            \
        X(HINT_RAISED_ONCE, "a process that gives hints up does not try again beside another one") \
        X(QUEUE_RAISED_ONCE,                                                                       \
                "one that takes a version from a queue does not say so a second time")             \
        X(WANTS_ONCE, "a pruner does not look again when a watch went on while it looked")         \
        X(WATCH_OLD_BELOW, "a watch takes the version under an intent without another look")       \
        X(ANCHOR_UNASKED, "a watch goes on from where it was, linked or not")                      \
        X(ANCHOR_UNHELD, "a watch goes on from where it was, and holds nothing there")             \
        X(RING_UNSEALED, "a block may be hung into a ring that is retired")                        \
        X(OUTGROWN_EARLY, "one version too many leaves when a new one comes")                      \
        X(OUTGROWN_UNASKED, "what leaves by its number leaves though a cut needs it")              \
        X(RING_GONE_UNASKED, "a slot is followed though its version may be out of the chain")      \
        X(RING_MORE_UNTOLD, "watches in a ring's further blocks are not told")                     \
        X(RING_UNKEPT, "a pruner takes what the readers of a ring have not read")                  \
        X(REMOVE_WATCHED, "a key is removed though it is watched")                                 \
        X(GONE_UNSAID, "a pruner does not say that a version leaves its chain")                    \
        X(GONE_SAID_LATE, "a pruner says that a version left its chain when it has")               \
        X(JOIN_OLD_TURN, "a watch that joins while bits are cleared sets the one that goes")       \
        X(CLEAR_UNASKED, "the engine takes a bit away beside a watch that joins")                  \
        X(RING_GONE_DAMAGED, "a ring that went, and another that came, are taken for damage")      \
        X(RECLAIM_KEEPS_SLABS, "a client keeps the slabs that ran out while it freed memory")      \
        X(RETIRE_ANY_RING, "the ring that came behind a closed one is taken away with it")         \
        X(PREFIX_UNTOLD, "a change leaves no hint for the watchers of its prefix")                 \
        X(PREFIX_CUT_EARLY, "a watch of a prefix takes its cut before writers look for it")        \
        X(RECOVER_AS_LARGE, "a bus that was full is not brought back into a larger segment")       \
        X(RECOVER_HEADLESS, "a log without its first files is taken for a whole one")              \
        X(LOG_PAIR_LATE, "the log says behind the durable cut which batch has it")                 \
        X(LOG_PAIR_EARLY, "half of the first batch's pair counts before any batch is durable")     \
        X(LOG_PAIR_TORN, "the log is killed where it says half of which batch has a cut")          \
        X(WRITES_UNREFUSED, "a client does not ask whether the bus takes writes")                  \
        X(STOP_UNSEEN, "a write does not look behind itself whether the bus is served still")      \
        X(STOPS_FOR_ANY, "the log ends by any SIGTERM, also while the bus is served")              \
        X(REMOVED_UNSAID, "of a delete that waits, no queue hears that its key goes")              \
        X(LOST_UNHEARD, "what went for want of memory before it was listed is not counted")        \
        X(MARK_UNANNOUNCED, "the log hears of the first mark behind its cut")                      \
        X(RESERVE_UNDIVIDED, "any delete may have what is for the bus's own keys")                 \
        X(RECOVER_ALL_HISTORY, "while a bus comes back, what rules may keep has no limit")         \
        X(RULE_UNRESERVED, "what takes a rule away may not have what deletes may")                 \
        X(OWN_MARKED, "marks keep the keys of marks")                                              \
        X(OWN_AT_MARKS, "the bus's own keys are read at a mark as if it kept them")                \
        X(OWN_UNANNOUNCED, "the bus's own keys go from below an open cut")                         \
        X(INSPECT_UNANSWERED,                                                                      \
                "a part of the segment is not looked at when its process was killed")              \
        X(LOG_DISOWNED, "a log without a whole batch is taken for one of another bus")             \
        X(RECOVER_UNLOCKED, "agentd reads a log that a killed process has not let go yet")         \
        X(FILES_UNCOUNTED, "a log that begins on many nearly empty files does not copy the bus")   \
        X(SMALLER_UNMADE, "a log that begins makes whole files alone, also where none has room")   \
        X(LAST_COPY_LEFT_OUT, "at a clean end the bus is not copied into its log")                 \
        X(UNSTARTED_UNTOLD, "that no log can be started is not told to those that wait for it")    \
        X(LOG_FILE_UNSAID, "the log does not say which file its last batch is in")                 \
        X(GOING_BACK_UNENDED, "a log that goes back to a cut says so with its next batch alone")   \
        X(NAME_UNASKED, "whether the log's files have their names still is not asked")             \
        X(SIZE_UNASKED, "whether the file that is written was cut short is not asked")             \
        X(STRANGER_REPLACED, "what has the name of the log's next file is written over")           \
        X(ROOM_UNASKED, "a file of the log is tried where the disk has no room for it")            \
        X(REST_DROPPED, "what a log has behind the cut that is asked for is not kept aside")       \
        X(ASIDE_UNSYNCED, "the names that keep a log aside are not synced before others go")       \
        X(MARK_UNSYNCED, "files go before the mark that says so is on the disk")                   \
        X(MARK_REPLACED, "a mark is taken away before the next one is there")                      \
        X(UNMARKED_EARLY, "a mark goes before what it stands for is on the disk")                  \
        X(REST_TAKEN_FIRST, "what is to be kept aside loses its names before it is")               \
        X(OLDER_COPY_DROPPED, "the log keeps one copy of the bus, not two")                        \
        X(LOAD_UNMOVED, "while a bus comes back, nothing moves out of the way of a large value")   \
        X(UNITS_UNHELD, "what a bus has more than its --size behind a start is filled")            \
        X(RULES_LOOK_BACK, "what was replaced before its rule was there comes back from the log")  \
        X(FRONT_NEEDED, "a log that is damaged before a whole copy is refused")                    \
        X(SPARE_UNSYNCED, "a file that did not leave for good becomes a spare")                    \
        X(SPELLS_UNCOUNTED, "files that trouble with the disk left do not count as the log's")     \
        X(COPY_ENDED_EARLY, "a copy of the bus counts as ended when it begins")                    \
        X(COPY_UNWANTED, "the log does not ask whether a client waits for a copy")                 \
        X(BACKUP_UNLOCKED, "the log lets files go that a backup is reading")                       \
        X(PARTIAL_UNMARKED, "a file that is being written is not marked on the disk at first")     \
        X(PARTIAL_NAMED_EARLY, "a file gets its name before all of it is on the disk")             \
        X(PARTIAL_NAME_UNSYNCED, "a file is said to be made, and its name is in memory alone")     \
        X(PLACE_UNSYNCED, "the names that lead to a new bus may be in memory alone")               \
        X(BACKUP_END_UNCHECKED, "a backup without its last batches is taken for a torn log")       \
        X(BACKUP_GROWTH_UNSEEN, "a backup with something behind its end is taken for whole")       \
        X(COPY_WITHOUT_FLOORS, "the log's copy of the bus ends without the floors of buckets")     \
        X(DURABLE_UNTOLD, "the log wakes no client that waits for it")                             \
        X(DURABLE_UNASKED, "a client sleeps without another look at what is durable")              \
        X(TAKE_OVER_UNSAID, "a log that begins wakes no client that one before it left")           \
        X(DURABLE_EARLY, "the log raises the durable cut before the disk has answered")            \
        X(LOG_UNTOLD, "a writer does not tell the log of a change")                                \
        X(UNLOGGED_STOPS_EARLY, "a writer marks up to the first bit that another one has set")     \
        X(UNLOGGED_TAKEN_UPWARDS, "the log takes the marks of buckets before those above them")    \
        X(BATCH_NOTES_LATE, "a batch looks at marks before it looks at notes")                     \
        X(BATCH_CARRIES_NOTHING, "a batch does not look again at what changed above its cut")      \
        X(BATCH_ASKS_LATE, "a batch asks for all changes behind its cut")                          \
        X(BATCH_NEVER_WHOLE, "a batch does not ask whether keys went unlogged")                    \
        X(BATCH_WHOLE_EARLY, "a batch asks that before it reads the keys")                         \
        X(BATCH_RELEASE_UNSAID, "writers do not hear that a batch needs its cut no more")          \
        X(BATCH_TIDIES_HELD, "what a batch left is tidied while its cut is held, and not behind")  \
        X(BATCH_TIDY_TAKES, "tidying takes the marks of the next batch")                           \
        X(BATCH_UNHELD, "a batch reads at a cut that is not announced")                            \
        X(REMOVE_UNLOGGED, "a deleted key goes before the log knows of it, and says nothing")      \
        X(LOG_TOLD_EARLY, "a writer tells the log before it installs its version")                 \
        X(LOG_TOLD_LATE, "a writer's note goes before it tells the log")                           \
        X(COMMIT_UNLOGGED, "a transaction does not tell the log of what it wrote")                 \
        X(REAP_UNLOGGED, "the reaper does not tell the log what a dead client wrote")              \
        X(BATCH_ANEW_BY_MARKS, "a log that begins anew goes by the marks alone")                   \
        X(BATCH_ALL_ONCE, "it looks at all buckets once, though that batch failed")                \
        X(BATCH_FAILED_LEFT, "the next batch does not have what one that failed had")              \
        X(BATCH_COPY_IN_PART, "the copy has of what is marked only what is new")                   \
        X(BATCH_COPY_FAILED_COUNTS, "what a batch that failed had is not copied again")            \
        X(BATCH_NEWEST_ALONE, "of a key with a rule a batch has the newest version alone")         \
        X(LOOK_AT_NO_NOTES, "a reader of a prefix does not look at what is being written")         \
        X(AWAIT_UNASKED, "a pruner does not ask the watches of prefixes")                          \
        X(AWAIT_UNEQUAL, "a pruner does not ask them where both versions have one stamp")          \
        X(AWAIT_EARLY, "a pruner asks them before it knows the stamp of the successor")            \
        X(GIVEN_UP_UNASKED, "a reader of a prefix does not ask what was given up meanwhile")       \
        X(HELD_AS_READ, "the cut of a watch that has read ahead is not held any more")             \
        X(LIFE_UNSAID, "a watch after a revision says nothing of a key that went since")           \
        X(HINT_KEEPS_ALL, "a ring of hints gives nothing up")                                      \
        X(HINT_NOTED_ONCE, "a key of overwritten hints is not looked at again when more goes")     \
        X(AWAITED_UNSWEPT, "what stays for a prefix is not noted, though a sweep may miss it")     \
        X(HINTS_GO_UNASKED, "a ring of hints goes, and no sweep is asked for what it kept")        \
        X(HINT_LAP_UNASKED, "a reader takes a later lap's hint for the one that it wants")         \
        X(LENGTHS_UNASKED, "a length is taken back from a watch that joined meanwhile")            \
        X(FORGOTTEN_UNSAID, "a key is removed, and a watch of before its delete cannot tell")      \
        X(REMOVE_UNAWAITED, "a key is removed though something lies below its delete")             \
        X(MOVE_AWAITED, "a version that a reader listed is moved without a word")                  \
        X(HINT_TAIL_FIRST, "the tail of the hints is moved before the slot is filled")             \
        X(HINT_PAST_NOTE, "a writer's note goes before its hint is in")                            \
        X(PREFIX_UNWOKEN, "a hint wakes no watcher")                                               \
        X(GIVE_WAY_UNSAID, "what a watch keeps is taken for memory without a word")                \
        X(AGAIN_HINTS_LATE, "a watch that begins takes the tail of the hints behind its cut")      \
        X(READ_HINTS_EARLY, "a reader takes the hints before its cut")                             \
        X(TAKE_UNASKED, "a reader goes to what it has listed, though that was given up since")     \
        X(LISTED_UNHELD, "a change that was listed is given, and no guard holds it")               \
        X(LIST_COPY_TWICE, "a version that was moved is listed twice")                             \
        X(ROW_FIRST_ALONE, "where a prefix's ring has further rows, writers know the first alone") \
        X(QUEUE_UNASKED, "a pruner does not ask what a queue wants")                               \
        X(QUEUE_ASKED_ONCE, "a pruner does not ask a queue again when its watch went on")          \
        X(QUEUE_UNTOLD, "a change leaves no hint in a queue that has room")                        \
        X(QUEUE_STAYS_OPEN, "a queue without room is not closed")                                  \
        X(QUEUE_LOST_UNSAID, "what a queue wants is taken for memory without a word")              \
        X(QUEUE_TEARS, "a transaction for which there is no room is taken in part")                \
        X(GONE_RING_STAYS, "a ring stays behind when its key is removed")                          \
        X(TRIM_UNMARKED, "a version is taken out of a chain without a trace")                      \
        X(KEEP_LOOKUP_EARLY, "a new key's rules are looked up before it is linked")                \
        X(KEEP_PLACEHOLDER_UNFLAGGED, "a placeholder is stamped before its cell says KEPT")        \
        X(HORIZON_LAST_MISSED, "the search in a prune horizon passes the last cut by")             \
        X(BEHIND_UNASKED, "a writer takes out what it replaced though an open cut needs it")       \
        X(OVERWRITE_FREED_AT_ONCE, "a short write gives back at once what it took out")            \
        X(OVERWRITE_LEFT_UNNOTED, "a short write leaves what a cut needs, and does not note it")   \
        X(MAGAZINE_TAKES_CHAIN, "a version with older ones below is taken for the last one")       \
        X(KEPT_UNASKED, "a short write takes for its own what a rule keeps")                       \
        X(WATCHED_IN_HAND, "a short write takes for its own what a watch keeps")                   \
        X(KEEP_BEGINS_ANEW, "a rule that stands is written again, and covers nothing of before")   \
        X(KEEP_PLACE_PASSED, "a rule covers the keys of a longer one that went from before that")  \
        X(KEEP_COPY_UNTAGGED, "a node's copy of a rule is the same behind another rule")           \
        X(KEEP_FLAG_UNASKED, "a rule's flag is changed without a second look at the node")         \
        X(KEEP_FLAG_GIVEN_UP, "a rule's flag is left out after one lost CAS")                      \
        X(BUDGET_IGNORES_DEAD, "deleted keys that rules keep do not count as history")             \
        X(PRUNE_MARKS_FIRST, "a pruner reads the marks before the announcements")                  \
        X(HOLD_LATE, "a get without a pin sets its guard behind the look at the cell")             \
        X(HOLD_UNASKED, "a get without a pin does not look at the cell again")                     \
        X(GET_AT_NEWEST, "a get at a cut gives what is newer than the cut")                        \
        X(GET_MANY_AT_UNASKED, "a batch at a cut is believed though the cut was taken away")       \
        X(TXN_MANY_NOT_NOTED, "a serializable transaction does not note the keys of a batch")      \
        X(DELETE_RANGE_BLIND, "keys that come while a range is deleted are no conflict")           \
        X(RESTORE_BLIND, "keys that come while a state is restored are no conflict")               \
        X(RESTORE_LAPPED_ENDS, "a past that was taken away is restored as far as it was read")     \
        X(RESTORE_NOW_RELEASED_FIRST, "a key is deleted by what a guard showed that was released") \
        X(SCAN_GUARD_LATE, "a step of a scan publishes its guard after the pin is gone")           \
        X(SCAN_NODE_NOT_HELD, "a scan stands at a node that it does not hold")                     \
        X(SCAN_NODE_UNASKED, "a scan reads the node where it stands when its cut may be gone")     \
        X(SCAN_NODE_KEPT, "a scan that leaves a node goes on holding it")                          \
        X(SCAN_RUN_OF_ALL, "a scan that goes down keeps nodes that have no value in its cut")      \
        X(FIND_NODE_UNASKED, "a cell is taken for a node's whatever node its version names")       \
        X(SCAN_RUN_KEPT, "a scan that was moved up goes down by the nodes of before")              \
        X(SCAN_NOT_NOTED, "a serializable transaction does not note what its scan read")           \
        X(SCAN_END_NOT_NOTED, "of a scan that ends, what lies behind its last key is not noted")   \
        X(SCAN_ENDS_TXN_CUT, "a scan in a transaction gives up the transaction's cut")             \
        X(TXN_CONFLICT_UNPINNED, "the key of a conflict is looked for without a pin")              \
        X(TXN_OWN_NOT_HELD, "a guard on a transaction's own write does not keep it")               \
        X(HISTORY_GUARD_LATE, "a history publishes its guards after the pin is gone")              \
        X(HISTORY_LAST_NOT_HELD, "a history does not hold where its next batch begins")            \
        X(PAST_GUARD_LATE, "a read in the past publishes its guard after the pin is gone")         \
        X(MARK_CUT_CLOSED, "a cut is marked that is not announced any more")                       \
        X(MARK_UNASKED, "a mark is made of a cut that was taken away")                             \
        X(TXN_INSTALL_UNCHECKED, "a helper installs without another look at the status")           \
        X(TXN_EXPECTS_PRESET, "an install expects the head that the owner saw")                    \
        X(TXN_ABORT_BY_FLAGS, "a changed flag of the cell is taken for a conflict")                \
        X(TXN_PREV_STORED, "a helper stores an intent's link instead of comparing it")             \
        X(TXN_CELL_BEFORE_PREV, "a helper loads the cell before the intent's link")                \
        X(PREV_UNSETTLED, "an unlink behind a transaction's version does not say so")              \
        X(TXN_STAMP_EACH, "each version of a transaction takes a stamp of its own")                \
        X(TXN_STAMP_IN_DECISION, "a transaction's stamp is read before the decision")              \
        X(TXN_COPIES_ALL, "a helper copies the outcome into all versions of the list")             \
        X(TXN_NOT_HELD, "intents are not held")                                                    \
        X(TXN_RELEASE_EARLY, "aborted intents are let go before their grace period is over")       \
        X(TXN_DISPOSE_HEAD_ONLY, "an aborted intent is looked for in the cell alone")              \
        X(TXN_NODE_UNASKED, "a helper installs over any word in the cell")                         \
        X(TXN_COMMIT_STALE, "a key is not looked at before an intent is built over it")            \
        X(TXN_OLD_BELOW, "the version under an intent is taken without another look")              \
        X(COMMIT_NOTE_LAZY,                                                                        \
                "a commit looks at its announcement before all processes see its note")            \
        X(NOTE_CLEARED_LAZILY, "a descriptor is dated before all processes see its note gone")     \
        X(REAP_COMMITS_EVICTED, "the reaper commits at a cut that was taken away")                 \
        X(TXN_NOT_HELPED, "a writer replaces an undecided intent")                                 \
        X(SER_VALIDATE_FIRST, "the read set is validated before the intents are in")               \
        X(SER_NO_STAMP, "a serializable transaction has no stamp before it validates")             \
        X(SER_STAMP_UNSAID, "a transaction's stamp is read before its status says STAMPING")       \
        X(SER_FOREIGN_AS_BEFORE, "validation looks through a foreign undecided intent")            \
        X(SER_SEEN_ONLY, "ranges of the read set are not validated")                               \
        X(SER_CYCLE_IGNORED, "no transaction gives way in a cycle")                                \
        X(SER_NO_UNWIND, "a helper that found a cycle does not go back")                           \
        X(TXN_CLOSE_EARLY, "the cut is given up before the decision")                              \
        X(READ_SER_AS_BEFORE, "a read at a cut looks through an intent stamped in it")             \
        X(GET_SER_AS_BEFORE, "a get looks through an intent that is stamped and undecided")        \
        X(REMOVE_UNDER_ABORTED, "a key is removed under an intent that is held")                   \
        X(REMOVE_HELD, "a key is removed of which the delete is held")                             \
        X(UNHOOK_HEAD_ONLY, "a removal retires the newest version alone")                          \
        X(PRUNE_TAKES_HELD, "a pruner unlinks a version that is held")                             \
        X(PRUNE_BY_ABORTED, "an aborted version supersedes")                                       \
        X(REAP_FORGETS_TXN, "the reaper does not finish a dead client's transaction")              \
        X(NOTE_CLEARED_LATE, "a transaction's note goes after its descriptor is dated")            \
        X(NOTE_READ_UNPINNED, "a note is followed under a younger pin than it was read under")     \
        X(SWEEP_DATES_NOTED, "a sweeper dates what a record notes")                                \
        X(NODE_GIVEN_BACK_NOTED, "a node that was noted and never linked is freed at once")        \
        X(REAP_FREES_NOTED, "the reaper frees a noted node at once that was never linked")         \
        X(DYING_LATE, "a transaction's note goes before its descriptor is on its way out")         \
        X(FINISH_FREEING_NO_DISPOSE, "the reaper frees a descriptor and forgets its intents")      \
        X(CONFLICT_BURNS, "a revision counts on from an aborted one")                              \
        X(STABLE_SKIPS_TXN, "the stable cut is raised without resolving transactions")             \
        X(EVICT_BY_CUT, "a cut's age counts, not how long it is held")                             \
        X(SWEEP_NODES_NEVER_LIE, "nodes that stopped clients hold are a sweep's work")             \
        X(SWEEP_DYING_NEVER_LIE, "what is DYING beside a stopped client asks for a sweep")         \
        X(SWEEP_LIES_UNSAID, "an engine that ends does not say what it let lie")                   \
        X(LIMBO_IGNORES_SWEEPS, "a look behind a write ends where a sweep may have missed more")   \
        X(REST_KEEPS_LIMBO, "between laps a client does not free what it retired itself")          \
        X(LAP_KEEPS_HORIZON, "a lap of slices goes by the horizon of before")                      \
        X(SLICE_SKIPS_CHUNK, "a slice takes a chunk and does not sweep it")                        \
        X(WRITES_READ_AGAIN, "a transaction's number of writes is loaded again behind its check")  \
        X(RANGES_READ_AGAIN,                                                                       \
                "the size of a transaction's ranges is loaded again behind its check")             \
        X(LISTED_READ_AGAIN, "an offset in a transaction's list is loaded again behind its check") \
        X(MOVED_READ_AGAIN, "the size of a version that moves is loaded again behind its check")   \
        X(KEY_LEN_READ_AGAIN, "a node's key length is loaded again behind its check")              \
        X(SHAPE_READ_AGAIN, "a version's lengths are loaded again behind their check")             \
        X(SHOWN_KEY_UNASKED, "what a scan shows as a key goes into a write set at any length")     \
        X(STORED_READ_AGAIN, "the size of a stored rule or mark is loaded again behind its check") \
        X(PLACE_UNRESERVED, "a client gets the place that is kept for agentctl")                   \
        X(TICKET_OF_ANY, "a ticket is known by its number, whichever process shows it")            \
        X(DEAF_FOR_EVER, "an engine that found no descriptor once listens no more")                \
        X(LINES_DIRECT, "agentd's processes write their lines where standard error goes")          \
        X(LINES_LOST_UNSAID, "lines that no pipe had space for are not counted")                   \
        X(MAP_UNLOCKED, "a client's map of the segment holds no lock")                             \
        X(MAP_LOCK_UNASKED, "the engine does not ask whether a record's map is gone")              \
        X(HALF_REAPED_PASSED, "an engine leaves records that one before it reaped in part")        \
        X(ROSTER_UNLISTED_EARLY, "a record leaves the roster before its owner's last pins")        \
        X(FSYNC_LEFT_OUT, "a batch goes on in the next file before the last one is synced")        \
        X(RENAME_WITHOUT_DIRECTORY_FSYNC, "a file of the log is used before its name is synced")   \
        X(HEADER_UNSYNCED, "a file of the log is named before its header is synced")               \
        X(SALT_KEPT, "a recycled file of the log keeps the salt of its use before")                \
        X(WATERMARK_EARLY, "a batch counts as durable before it is synced")                        \
        X(NEXT_BATCH_BEFORE_FSYNC, "a batch is written before the one before it is synced")        \
        X(LAST_FRAME_UNCHECKED, "a batch of the log is read without its last frame")               \
        X(SEQUENCE_UNCHECKED, "the order of batches and files of the log is not checked")          \
        X(LATER_HEAD_UNSEEN, "a later batch shows nothing unless it is whole")                     \
        X(OWN_HEAD_BELIEVED, "a header of the torn batch counts as one of a later batch")          \
        X(VERSION_BELIEVED, "a file with a changed version is one of another version")             \
        X(PIECES_NEEDED, "pieces of a copy are not passed over where they are bad")                \
        X(PIECES_MISSED, "a copy counts of which pieces were passed over")                         \
        X(FRAME_UNCHECKED, "the log's reader does not ask for a frame's checksum")                 \
        X(ENTRY_UNMEASURED, "an entry of the log is taken with any lengths")                       \
        X(FLOOR_OF_NO_BUCKET, "a floor of the log is taken of any bucket")                         \
        X(LOAD_CLOCK_LATE, "a version is loaded before the clock is above its stamp")              \
        X(DUMP_SUM_UNASKED, "a dump is taken for whole with any checksum")

#define SB_FAULT_ENUM_(name, text) SB_FAULT_##name,
enum sb_fault { SB_FAULT_NONE, SB_FAULT_TABLE(SB_FAULT_ENUM_) SB_FAULT_COUNT };

#ifdef SB_FAULTS
extern enum sb_fault sb_fault_chosen;
#define SB_FAULT(name) (sb_fault_chosen == SB_FAULT_##name)
#else
#define SB_FAULT(name) 0
#endif

#endif
