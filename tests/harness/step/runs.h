/*
 * Runs every scenario through one kind of trial, for the programs of tests/kill and tests/stall.
 *
 * SB_SCENARIO=name: only that one. SB_VERBOSE=1: counts of each.
 */
#ifndef SB_TESTS_RUNS_H
#define SB_TESTS_RUNS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/step/trial.h"

typedef bool runs_trial(const struct step_scenario *scenario, struct trial_report *report);

static struct trial_report runs_total;

/* Of the total: in scenarios with names that begin so. */
static struct {
        const char *name;
        uint64_t points;
} runs_parts[] = {{"log: ", 0}, {"watch: ", 0}, {"prefix: ", 0}};

static inline void runs_note(const char *what)
{
        printf("# %s: points %llu", what, (unsigned long long)runs_total.points);
        for (size_t i = 0; i < sizeof(runs_parts) / sizeof(*runs_parts); i++)
                printf("%s%s%llu", i ? ", " : " (", runs_parts[i].name,
                        (unsigned long long)runs_parts[i].points);
        printf("), distinct images %llu\n", (unsigned long long)runs_total.images);
}

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
        for (size_t i = 0; i < sizeof(runs_parts) / sizeof(*runs_parts); i++)
                if (!strncmp(scenario->name, runs_parts[i].name, strlen(runs_parts[i].name)))
                        runs_parts[i].points += report.points;
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
