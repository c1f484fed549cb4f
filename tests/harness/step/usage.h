/* What every client must be able to do on a sound bus, whatever happened before: each function
 * fails the trial when the client cannot. */
#ifndef SB_TESTS_USAGE_H
#define SB_TESTS_USAGE_H

#include "shm/layout/report.h"
#include "tests/harness/step/story.h"

bool usage_check(
        enum scene_actor actor, bool quiescent, const char *when, struct sb_check_report *ret);
struct result usage_act(enum scene_actor actor, enum act_kind kind, uint32_t key, uint32_t tag,
        uint32_t len, enum act_expect expect);
/* The client can delete what is there, and nothing else. */
void usage_delete_all(enum scene_actor actor);
/* Scan and get agree; the client sets, compares and swaps, deletes and creates each key, with the
 * right results. */
void usage_everything(enum scene_actor actor);
/* Where a large value needs that others' versions move: each key's history lists each revision
 * once, and the client can write such a value. */
void usage_rows(enum scene_actor actor);
/* No client sleeps with something to see. */
void usage_sleepers(const char *when);
/* Each watch that stands, of clients that go on, gives what it has not given; then its client
 * sleeps, @writer or another client writes the key, and the client is woken and told of exactly
 * that. @resumed: the stepped client goes on, too. */
void usage_watches(enum scene_actor writer, bool resumed);
/* The log of each client that goes on, and behind that one that begins anew, of @actor, has all
 * that is there with its next batch. */
void usage_logs(enum scene_actor actor, bool resumed);
/* Writes more than the segment can hold. */
void usage_write_much(enum scene_actor actor);
/* Deletes everything, detaches all clients but the engine, and sees every block come back. */
void usage_drain(enum scene_actor actor);

#endif
