/*
 * status.h - the rows of pacer.status
 */
#ifndef PACER_STATUS_H
#define PACER_STATUS_H

#include "fmgr.h"

/* source NULL: all */
extern void status_rows(FunctionCallInfo fcinfo, const text *source);

#endif							/* PACER_STATUS_H */
