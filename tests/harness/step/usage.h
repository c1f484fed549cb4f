/* What everybody must be able to do on a sound bus, whatever happened before: each function fails
 * the trial when it is not so. */
#ifndef SB_TESTS_USAGE_H
#define SB_TESTS_USAGE_H

#include "tests/harness/step/story.h"

bool usage_check(enum scene_who who, bool quiescent, const char *when, struct sb_check_report *ret);
struct result usage_act(enum scene_who who, enum act_kind kind, uint32_t key, uint32_t tag,
        uint32_t len, enum act_expect expect);
/* What is there can be deleted, and nothing else. */
void usage_delete_all(enum scene_who who);
/* Scan and get agree; each key is set, compared and swapped, deleted and created, with the right
 * results. */
void usage_everything(enum scene_who who);
/* More writes than the segment has room for. */
void usage_write_much(enum scene_who who);
/* Delete everything, let all go but the engine, and see every block come back. */
void usage_drain(enum scene_who who);

#endif
