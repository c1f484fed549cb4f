/* Scenarios of watches; see lists.h and watcher.c. Each line as in lists.c. */
#include "tests/model/lists.h"

/* clang-format off */
#define OPS(...) {__VA_ARGS__}
#define SET_A    {OP_SET, KEY_A}
#define PUT_A    {OP_PUT, KEY_A}
#define DELETE_A {OP_DELETE, KEY_A}
#define WORK     {OP_WORK, KEY_A}
#define MEMORY   {OP_MEMORY, KEY_A}
#define STABLE   {OP_STABLE, KEY_A}
#define SWEEP    {OP_SWEEP, KEY_A}
#define TICK     {OP_TICK, KEY_A}
#define WATCH_A  {OP_WATCH, KEY_A}
#define NEXT     {OP_NEXT, KEY_A}
#define SLEEP    {OP_SLEEP, KEY_A}
#define UNWATCH  {OP_UNWATCH, KEY_A}
#define PRESS    {OP_PRESS, KEY_A}

static const struct world_case watches[] = {
        {"watch: joins beside a set", {START_VALUE, {OPS(WATCH_A, NEXT), OPS(SET_A)}}, 2, 2},
        {"watch: sleeps beside a set", {START_VALUE, {OPS(SLEEP), OPS(SET_A)}, .watched = 1}, 2, 2},
};
/* clang-format on */

const struct world_list world_watches = {"watch", watches, sizeof watches / sizeof *watches};
