/* All that may be left at one place of a record; see tries.h. */
#include "tests/power/tries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX      (1u << 21) /* states of one test */
#define ALL_SUBSETS_OF 6u
#define SOME_SUBSETS   40u
#define TORN_SUBSETS   24u
#define SAME_MAX       6u /* so many states in a row that were seen before end a place's */

static uint64_t tries_seen[TRIES_MAX];
static uint64_t tries_seed;

void tries_begin(struct tries *tries)
{
        memset(tries, 0, sizeof(*tries));
        memset(tries_seen, 0, sizeof(tries_seen));
        tries_seed = 1;
}

static uint64_t tries_word(void)
{
        tries_seed = tries_seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return tries_seed ^ tries_seed >> 29;
}

/* Return: whether it is a new one. */
static bool tries_note(struct tries *tries, uint64_t look)
{
        uint32_t at = look % TRIES_MAX;

        while (tries_seen[at] && tries_seen[at] != look)
                at = (at + 1) % TRIES_MAX;
        if (tries_seen[at] == look)
                return false;
        if (++tries->states == TRIES_MAX - 1) {
                printf("FAIL more states than the test has space for\n");
                exit(1);
        }
        tries_seen[at] = look;
        return true;
}

bool tries_all(struct tries *tries, struct states *states, const void *known, uint64_t known_number,
        tries_judge judge, struct states_choice *ret_choice)
{
        const uint32_t waiting = states->write_count + states->names_waiting;
        const uint32_t subsets = waiting <= ALL_SUBSETS_OF ? 1u << waiting : SOME_SUBSETS;
        const uint32_t torn = states_visible(states) ? TORN_SUBSETS : 0;
        uint32_t same = 0;

        tries->places++;
        for (uint32_t i = 0; i < subsets + torn; i++) {
                struct states_choice choice = {
                        .writes = i, .names = (uint64_t)i >> states->write_count};
                bool is_new;

                if (i == subsets)
                        same = 0;
                if (waiting > ALL_SUBSETS_OF || i >= subsets) {
                        /* All and none of both come first. */
                        choice.writes = i & 1 ? tries_word() : 0 - (uint64_t)(i >> 1 & 1);
                        choice.names = i & 4 ? tries_word() : 0 - (uint64_t)(i >> 3 & 1);
                        if (same >= SAME_MAX && i > 16)
                                continue;
                }
                if (i >= subsets) {
                        choice.torn = 1 + tries_word() % 7;
                        choice.seed = tries_word();
                        choice.blocks = i % 3 == 0;
                }
                tries->made++;
                *ret_choice = choice;
                is_new = tries_note(tries, states_draw(states, &choice, known_number));
                same = is_new ? 0 : same + 1;
                if (!is_new)
                        continue;
                tries->torn += i >= subsets;
                if (!judge(states, known))
                        return false;
        }
        return true;
}
