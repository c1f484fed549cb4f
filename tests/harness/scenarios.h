/* The scenarios that kill and stall tests try; see trial.h for what is done with them. */
#ifndef SB_TESTS_SCENARIOS_H
#define SB_TESTS_SCENARIOS_H

#include "trial.h"

extern const struct step_scenario step_scenarios[];
extern const uint32_t step_scenario_count;

/* By name, or NULL. */
const struct step_scenario *scenario_find(const char *name);

#endif
