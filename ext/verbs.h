/*
 * verbs.h - the bodies of the SQL functions
 */
#ifndef PACER_VERBS_H
#define PACER_VERBS_H

#include "fmgr.h"

extern Datum verbs_book(FunctionCallInfo fcinfo, bool refusal_is_row);
extern Datum verbs_book_many(FunctionCallInfo fcinfo);
extern Datum verbs_nextslot(FunctionCallInfo fcinfo);
extern Datum verbs_peek(FunctionCallInfo fcinfo);
extern Datum verbs_release(FunctionCallInfo fcinfo, const text *source, int64 ticket);
extern Datum verbs_confirm(FunctionCallInfo fcinfo, const text *source, int64 ticket, int64 slot);
extern Datum verbs_acquire(FunctionCallInfo fcinfo);
/* duration_us < 0: without end */
extern Datum verbs_pause(FunctionCallInfo fcinfo, int64 duration_us);
extern Datum verbs_resume(FunctionCallInfo fcinfo);
extern Datum verbs_advance(FunctionCallInfo fcinfo);
extern Datum verbs_rewind(FunctionCallInfo fcinfo);

#endif							/* PACER_VERBS_H */
