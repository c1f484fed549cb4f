/* A test chooses a seeded fault by its name. Only a build with -DSB_FAULTS has faults to choose
 * from. */
#ifndef SB_TESTS_FAULTS_H
#define SB_TESTS_FAULTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/base/fault.h"

#ifdef SB_FAULTS
#define FAULT_NAME_(name, text) #name,
#define FAULT_TEXT_(name, text) text,
static const char *const fault_names[] = {"NONE", SB_FAULT_TABLE(FAULT_NAME_)};
static const char *const fault_texts[] = {"nothing is broken", SB_FAULT_TABLE(FAULT_TEXT_)};

/* The number of the fault, or SB_FAULT_COUNT. */
static inline enum sb_fault fault_find(const char *name)
{
        int fault = SB_FAULT_NONE;

        while (fault < SB_FAULT_COUNT && strcmp(fault_names[fault], name) != 0)
                fault++;
        return (enum sb_fault)fault;
}
#endif

/* The fault that SB_FAULT names, if any. A name that is none here ends the program: without its
 * fault the test would only seem not to find it. */
static inline void fault_from_environment(void)
{
        const char *name = getenv("SB_FAULT");

        if (!name)
                return;
#ifdef SB_FAULTS
        sb_fault_chosen = fault_find(name);
        if (sb_fault_chosen < SB_FAULT_COUNT)
                return;
        printf("FAIL SB_FAULT=%s: shm/base/fault.h has no such fault\n", name);
#else
        printf("FAIL SB_FAULT=%s: this build has no faults, build-faults/ has them\n", name);
#endif
        exit(1);
}

#endif
