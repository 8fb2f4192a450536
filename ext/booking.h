/*
 * booking.h - bookings as SQL values, and their errors
 */
#ifndef PACER_BOOKING_H
#define PACER_BOOKING_H

#include "access/htup.h"
#include "fmgr.h"
#include "schedule.h"

/* bodies of the SQL functions of those names */
extern Datum booking_book(FunctionCallInfo fcinfo, bool refusal_is_row);
extern Datum booking_nextslot(FunctionCallInfo fcinfo);
extern Datum booking_peek(FunctionCallInfo fcinfo);
extern Datum booking_release(FunctionCallInfo fcinfo, const text *source, int64 ticket);

/* source and ticket of a pacer.booking; raises 22004 if one is null */
extern void booking_get(HeapTupleHeader booking, const text **source, int64 *ticket);

/* arguments that may be left out but not null; raise 22004 */
extern const text *booking_source_arg(FunctionCallInfo fcinfo, int n);
extern int64 booking_ticket_arg(FunctionCallInfo fcinfo, int n);
extern HeapTupleHeader booking_arg(FunctionCallInfo fcinfo, int n);

#endif							/* PACER_BOOKING_H */
