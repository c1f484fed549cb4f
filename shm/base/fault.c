/* The fault that is chosen, in a build with seeded faults; see fault.h. */
#include "shm/base/fault.h"

#ifdef SB_FAULTS
enum sb_fault sb_fault_chosen;
#else
/* C has no empty translation unit. */
extern int sb_fault_unused;
#endif
