/*
 * booking.h - bookings as SQL values, their arguments and errors
 */
#ifndef PACER_BOOKING_H
#define PACER_BOOKING_H

#include "access/htup.h"
#include "fmgr.h"
#include "schedule.h"

/* what a verb asks of the schedule, and what it answered */
typedef struct BookingArg
{
	ScheduleRequest req;
	ScheduleAnswer answer;
	ScheduleBooking booking;
	int64		max_wait_us;	/* for a refusal: the bound that was not met */
	int32		max_waiting;
	int32		quota;
} BookingArg;

/*
 * Arguments.  All may be left out as their SQL defaults have it; a null that
 * means nothing raises 22004, a value out of its bounds 22023.
 */
extern void booking_null_argument(const char *name);
extern const text *booking_source_arg(FunctionCallInfo fcinfo, int n);
extern int64 booking_ticket_arg(FunctionCallInfo fcinfo, int n);
extern HeapTupleHeader booking_arg(FunctionCallInfo fcinfo, int n);
extern int32 booking_permits_arg(FunctionCallInfo fcinfo, int n);
extern int64 booking_max_wait_arg(FunctionCallInfo fcinfo, int n);
extern uint64 booking_key_arg(FunctionCallInfo fcinfo, int n);
/* of a pause; -1: without end */
extern int64 booking_duration_arg(FunctionCallInfo fcinfo, int n);
extern int64 booking_duration_text_arg(FunctionCallInfo fcinfo, int n);
extern int64 booking_draw_ticket(void);

/* *slot is 0 where the booking has none; source and ticket must not be null */
extern void booking_get(HeapTupleHeader booking, const text **source, int64 *ticket, int64 *slot);

/*
 * A row of pacer.booking, as the call's expression has it.  ticket 0 is null;
 * wait_us < 0: without end.
 */
extern Datum booking_form(FunctionCallInfo fcinfo, const text *source, int64 ticket,
						  int64 slot, int64 wait_us);

/*
 * The wait still to go, taken after the flush, which may have taken long.  It is
 * 0 if and only if the row recorded the booking as started; -1 is without end.
 */
extern int64 booking_wait_until(int64 slot, bool started);

/* raises what arg->answer stands for */
extern void booking_raise(const text *source, const BookingArg *arg);

#endif							/* PACER_BOOKING_H */
