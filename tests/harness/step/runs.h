/*
 * Runs every scenario through one kind of trial, for the programs of tests/kill and tests/stall.
 *
 * SB_SCENARIO=name: only that one. SB_VERBOSE=1: counts of each.
 */
#ifndef SB_TESTS_RUNS_H
#define SB_TESTS_RUNS_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/harness/step/trial.h"

typedef bool runs_trial(const struct step_scenario *scenario, struct trial_report *report);

static struct trial_report runs_total;

static inline bool runs_one(
        runs_trial *trial, const char *what, const struct step_scenario *scenario)
{
        struct trial_report report = {0};
        bool passed = trial(scenario, &report);

        if (!passed)
                printf("# %s: %s\n", what, report.failure);
        if (getenv("SB_VERBOSE"))
                printf("# %s: %s: points %llu, distinct images %llu, resumed %llu\n", what,
                        scenario->name, (unsigned long long)report.points,
                        (unsigned long long)report.images, (unsigned long long)report.branches);
        runs_total.points += report.points;
        runs_total.images += report.images;
        runs_total.branches += report.branches;
        return passed;
}

/* Runs each scenario with both kinds of keys, or with one, which alternates. On a full segment,
 * where everything takes ten times as many instructions, @full_count says with how many; where
 * versions move, too, unless it is 0. Return:
 * how many failed; 1 when SB_SCENARIO names none. */
static inline uint32_t runs_all(runs_trial *trial, const char *what, uint64_t keys_first,
        uint32_t keys_count, uint32_t full_count)
{
        const char *only = getenv("SB_SCENARIO");
        const struct step_scenario *scenario;
        uint32_t failures = 0;
        bool known = !only;

        for (uint32_t i = 0; (scenario = scenario_at(i)); i++) {
                uint32_t count = scenario->flags & TRIAL_FULL ? full_count : keys_count;

                if ((scenario->flags & TRIAL_ROWS) && full_count && count > full_count)
                        count = full_count;

                if (only && strcmp(only, scenario->name) != 0)
                        continue;
                known = true;
                for (uint32_t keys = 0; keys < count; keys++) {
                        scene_use_long_keys((keys_first + i + keys) & 1);
                        failures += !runs_one(trial, what, scenario);
                }
        }
        if (!known)
                printf("# there is no scenario '%s'\n", only);
        return known ? failures : 1;
}

#endif
