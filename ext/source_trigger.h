/*
 * source_trigger.h - the triggers of pacer.source
 */
#ifndef PACER_SOURCE_TRIGGER_H
#define PACER_SOURCE_TRIGGER_H

#include "fmgr.h"

/* BEFORE INSERT OR UPDATE: the checked row, its intervals folded to microseconds */
extern Datum source_trigger_check(FunctionCallInfo fcinfo);

/* AFTER UPDATE OR DELETE: every session drops what it knows of the sources */
extern Datum source_trigger_changed(FunctionCallInfo fcinfo);

#endif							/* PACER_SOURCE_TRIGGER_H */
