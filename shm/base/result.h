/* SB_E_* for the layers below libclient: the same table as the installed header. */
#ifndef SB_BASE_RESULT_H
#define SB_BASE_RESULT_H
#include "libclient/statebus.h"

#endif
