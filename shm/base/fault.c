/* The chosen fault of a build with seeded faults; see fault.h. */
#include "shm/base/fault.h"

#ifdef SB_FAULTS
enum sb_fault sb_fault_chosen;
#else
/* An empty translation unit is no C. */
extern int sb_fault_unused;
#endif
