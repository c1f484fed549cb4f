/*
 * Results: SB_E_* for the layers below libclient, out of the one table that there is. This is the
 * only file below libclient that includes the installed header.
 */
#ifndef SB_BASE_RESULT_H
#define SB_BASE_RESULT_H
#include "libclient/statebus.h"

#endif
