/*
 * pg_pacer.c - the extension's module: settings and SQL functions
 *
 * pacer.book() is to time what nextval() is to numbers.  README.md tells how;
 * the parts are
 *
 *		schedule.c			what slot a booking gets: pure arithmetic
 *		slot_row.c			where the schedule is kept, and how it survives
 *		source_cache.c		which row, and which configuration
 *		boot.c				in which run of the server
 *		verbs.c, booking.c	the SQL functions, their arguments, answers and errors
 *		wait.c				sleeping in the server
 *		status.c			observing
 *		source_trigger.c	configuration
 */
#include "postgres.h"

#include "booking.h"
#include "compat.h"
#include "fmgr.h"
#include "interval_us.h"
#include "pacer_clock.h"
#include "slot_row.h"
#include "source_cache.h"
#include "source_trigger.h"
#include "status.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "verbs.h"

PACER_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	DefineCustomIntVariable("pg_pacer.reserve_ahead",
							"How far the logged schedule of a source runs ahead of its bookings.",
							"A busy source writes to the log about twice in this time instead of once per booking; a crash costs it no more than this. 0 logs every booking.",
							&slot_row_reserve_ahead, 1000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_pacer.clock_tolerance",
							"Differences between wall clock and elapsed time above this are steps of the wall clock.",
							"After a step the schedules move with it, since callers wait for elapsed time.",
							&slot_row_clock_tolerance, 10, 1, 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	MarkGUCPrefixReserved("pg_pacer");

	pacer_clock_init();
	source_cache_init();
}

PG_FUNCTION_INFO_V1(pacer_book);
PG_FUNCTION_INFO_V1(pacer_try_book);
PG_FUNCTION_INFO_V1(pacer_book_many);
PG_FUNCTION_INFO_V1(pacer_nextslot);
PG_FUNCTION_INFO_V1(pacer_peek);
PG_FUNCTION_INFO_V1(pacer_release);
PG_FUNCTION_INFO_V1(pacer_release_booking);
PG_FUNCTION_INFO_V1(pacer_confirm);
PG_FUNCTION_INFO_V1(pacer_confirm_booking);
PG_FUNCTION_INFO_V1(pacer_acquire);
PG_FUNCTION_INFO_V1(pacer_pause);
PG_FUNCTION_INFO_V1(pacer_pause_text);
PG_FUNCTION_INFO_V1(pacer_resume);
PG_FUNCTION_INFO_V1(pacer_advance);
PG_FUNCTION_INFO_V1(pacer_rewind);
PG_FUNCTION_INFO_V1(pacer_source_status);
PG_FUNCTION_INFO_V1(pacer_every);
PG_FUNCTION_INFO_V1(pacer_source_check);
PG_FUNCTION_INFO_V1(pacer_source_changed);

Datum
pacer_book(PG_FUNCTION_ARGS)
{
	return verbs_book(fcinfo, false);
}

Datum
pacer_try_book(PG_FUNCTION_ARGS)
{
	return verbs_book(fcinfo, true);
}

Datum
pacer_book_many(PG_FUNCTION_ARGS)
{
	return verbs_book_many(fcinfo);
}

Datum
pacer_nextslot(PG_FUNCTION_ARGS)
{
	return verbs_nextslot(fcinfo);
}

Datum
pacer_peek(PG_FUNCTION_ARGS)
{
	return verbs_peek(fcinfo);
}

Datum
pacer_release(PG_FUNCTION_ARGS)
{
	return verbs_release(fcinfo, booking_source_arg(fcinfo, 0), booking_ticket_arg(fcinfo, 1));
}

Datum
pacer_release_booking(PG_FUNCTION_ARGS)
{
	const text *source;
	int64		ticket;
	int64		slot;

	booking_get(booking_arg(fcinfo, 0), &source, &ticket, &slot);
	return verbs_release(fcinfo, source, ticket);
}

/* without a ticket it is an appointment, known by its slot */
Datum
pacer_confirm(PG_FUNCTION_ARGS)
{
	int64		slot = PG_ARGISNULL(2) ? 0 : PG_GETARG_TIMESTAMPTZ(2);
	int64		ticket = slot != 0 && PG_ARGISNULL(1) ? 0 : booking_ticket_arg(fcinfo, 1);

	return verbs_confirm(fcinfo, booking_source_arg(fcinfo, 0), ticket, slot);
}

/* a refused try_book() has no ticket, and is no appointment */
Datum
pacer_confirm_booking(PG_FUNCTION_ARGS)
{
	const text *source;
	int64		ticket;
	int64		slot;

	booking_get(booking_arg(fcinfo, 0), &source, &ticket, &slot);
	return verbs_confirm(fcinfo, source, ticket, slot);
}

Datum
pacer_acquire(PG_FUNCTION_ARGS)
{
	return verbs_acquire(fcinfo);
}

Datum
pacer_pause(PG_FUNCTION_ARGS)
{
	return verbs_pause(fcinfo, booking_duration_arg(fcinfo, 1));
}

Datum
pacer_pause_text(PG_FUNCTION_ARGS)
{
	return verbs_pause(fcinfo, booking_duration_text_arg(fcinfo, 1));
}

Datum
pacer_resume(PG_FUNCTION_ARGS)
{
	return verbs_resume(fcinfo);
}

Datum
pacer_advance(PG_FUNCTION_ARGS)
{
	return verbs_advance(fcinfo);
}

Datum
pacer_rewind(PG_FUNCTION_ARGS)
{
	return verbs_rewind(fcinfo);
}

Datum
pacer_source_status(PG_FUNCTION_ARGS)
{
	status_rows(fcinfo, PG_ARGISNULL(0) ? NULL : PG_GETARG_TEXT_PP(0));
	return (Datum) 0;
}

/* rounded up, so that the rate is never exceeded */
Datum
pacer_every(PG_FUNCTION_ARGS)
{
	int64		us;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("permits and period must not be null")));
	if (PG_GETARG_INT32(0) < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("permits must be at least 1, not %d", PG_GETARG_INT32(0))));
	if (!interval_to_us(PG_GETARG_INTERVAL_P(1), &us) || us <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("period must be above 0 and must not have months")));
	PG_RETURN_INTERVAL_P(interval_from_us((us - 1) / PG_GETARG_INT32(0) + 1));
}

Datum
pacer_source_check(PG_FUNCTION_ARGS)
{
	return source_trigger_check(fcinfo);
}

Datum
pacer_source_changed(PG_FUNCTION_ARGS)
{
	return source_trigger_changed(fcinfo);
}
