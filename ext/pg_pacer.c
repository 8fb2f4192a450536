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
 *		booking.c, status.c	answers
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

PACER_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	DefineCustomIntVariable("pg_pacer.reserve_ahead",
							"How far the logged schedule of a source runs ahead of its bookings.",
							"A busy source flushes the log about once in this time instead of once per booking; a crash costs it no more than this. 0 logs every booking.",
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
PG_FUNCTION_INFO_V1(pacer_nextslot);
PG_FUNCTION_INFO_V1(pacer_peek);
PG_FUNCTION_INFO_V1(pacer_release);
PG_FUNCTION_INFO_V1(pacer_release_booking);
PG_FUNCTION_INFO_V1(pacer_source_status);
PG_FUNCTION_INFO_V1(pacer_every);
PG_FUNCTION_INFO_V1(pacer_source_check);
PG_FUNCTION_INFO_V1(pacer_source_changed);

Datum
pacer_book(PG_FUNCTION_ARGS)
{
	return booking_book(fcinfo, false);
}

Datum
pacer_try_book(PG_FUNCTION_ARGS)
{
	return booking_book(fcinfo, true);
}

Datum
pacer_nextslot(PG_FUNCTION_ARGS)
{
	return booking_nextslot(fcinfo);
}

Datum
pacer_peek(PG_FUNCTION_ARGS)
{
	return booking_peek(fcinfo);
}

Datum
pacer_release(PG_FUNCTION_ARGS)
{
	return booking_release(fcinfo, booking_source_arg(fcinfo, 0), booking_ticket_arg(fcinfo, 1));
}

Datum
pacer_release_booking(PG_FUNCTION_ARGS)
{
	const text *source;
	int64		ticket;

	booking_get(booking_arg(fcinfo, 0), &source, &ticket);
	return booking_release(fcinfo, source, ticket);
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
