/*
 * booking.c - bookings as SQL values, and their errors
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "booking.h"
#include "common/hashfn.h"
#include "compat.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "interval_us.h"
#include "pacer_clock.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#define ERRCODE_PACER_FULL		MAKE_SQLSTATE('P', 'C', '0', '0', '1')
#define ERRCODE_PACER_TOO_LONG	MAKE_SQLSTATE('P', 'C', '0', '0', '2')
#define ERRCODE_PACER_NOT_HELD	MAKE_SQLSTATE('P', 'C', '0', '0', '3')

#define KEY_SEED				UINT64CONST(0x7061636572)	/* "pacer" */

/* columns of pacer.booking */
enum
{
	BOOKING_SOURCE,
	BOOKING_TICKET,
	BOOKING_SLOT_AT,
	BOOKING_WAIT,
	BOOKING_WAIT_MS,
	BOOKING_COLUMNS
};

/*
 * ----------------------------------------------------------------
 *		Arguments
 * ----------------------------------------------------------------
 */

void
booking_null_argument(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", name)));
}

const text *
booking_source_arg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		booking_null_argument("source");
	return PG_GETARG_TEXT_PP(n);
}

int64
booking_ticket_arg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		booking_null_argument("ticket");
	return PG_GETARG_INT64(n);
}

HeapTupleHeader
booking_arg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		booking_null_argument("booking");
	return PG_GETARG_HEAPTUPLEHEADER(n);
}

int32
booking_permits_arg(FunctionCallInfo fcinfo, int n)
{
	int32		permits;

	if (PG_ARGISNULL(n))
		booking_null_argument("permits");
	permits = PG_GETARG_INT32(n);
	if (permits < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("permits must be at least 1, not %d", permits)));
	return permits;
}

/* -1: no bound */
int64
booking_max_wait_arg(FunctionCallInfo fcinfo, int n)
{
	const Interval *in;
	int64		us;

	if (PG_ARGISNULL(n))
		return -1;
	in = PG_GETARG_INTERVAL_P(n);
	if (interval_is_infinite(in) && in->month > 0)
		return -1;
	if (in->month == 0 && !interval_is_infinite(in) && !interval_to_us(in, &us))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("max_wait is out of range")));
	if (!interval_to_us(in, &us) || us < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_wait must be at least 0 and must not have months")));
	return us;
}

/* the hash a key is remembered by; 0: none */
uint64
booking_key_arg(FunctionCallInfo fcinfo, int n)
{
	const text *key;
	uint64		hash;

	if (PG_ARGISNULL(n))
		return 0;
	key = PG_GETARG_TEXT_PP(n);
	if (VARSIZE_ANY_EXHDR(key) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key must not be empty")));
	hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(key),
							   VARSIZE_ANY_EXHDR(key), KEY_SEED);
	return hash != 0 ? hash : 1;
}

static int64
duration_us(const Interval *in)
{
	int64		us;

	if (interval_is_infinite(in) && in->month > 0)
		return -1;
	if (!interval_to_us(in, &us) || us <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("duration must be above 0 and must not have months")));
	return us;
}

int64
booking_duration_arg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		booking_null_argument("duration");
	return duration_us(PG_GETARG_INTERVAL_P(n));
}

/* the type interval has no infinity before PostgreSQL 17 */
int64
booking_duration_text_arg(FunctionCallInfo fcinfo, int n)
{
	char	   *duration;

	if (PG_ARGISNULL(n))
		booking_null_argument("duration");
	duration = text_to_cstring(PG_GETARG_TEXT_PP(n));
	if (pg_strcasecmp(duration, "infinity") == 0)
		return -1;
	return duration_us(DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(duration),
															  ObjectIdGetDatum(InvalidOid),
															  Int32GetDatum(-1))));
}

/* nobody can guess a neighbour's ticket; drawn in batches, since each draw costs */
int64
booking_draw_ticket(void)
{
	static uint64 pool[256];
	static int	left = 0;
	int64		ticket;

	do
	{
		if (left == 0)
		{
			if (!pg_strong_random(pool, sizeof(pool)))
				ereport(ERROR,
						(errcode(ERRCODE_INTERNAL_ERROR),
						 errmsg("could not generate a random number")));
			left = lengthof(pool);
		}
		ticket = (int64) (pool[--left] & ENTRY_TICKET_MASK);
	} while (ticket == 0);
	return ticket;
}

/*
 * ----------------------------------------------------------------
 *		Results
 * ----------------------------------------------------------------
 */

/*
 * The row type as the type cache has it.  Its entries are never freed, so that
 * one may be kept; an invalidation takes the descriptor out of it.  Valid until
 * the catalogs are read again.
 */
static TupleDesc
booking_desc(Oid type)
{
	static TypeCacheEntry *known = NULL;

	if (known == NULL || known->type_id != type || known->tupDesc == NULL)
		known = lookup_type_cache(type, TYPECACHE_TUPDESC);
	if (known->tupDesc == NULL || known->tupDesc->natts != BOOKING_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("type pacer.booking does not have %d columns", BOOKING_COLUMNS)));
	return known->tupDesc;
}

Datum
booking_form(FunctionCallInfo fcinfo, const text *source, int64 ticket, int64 slot, int64 wait_us)
{
	TupleDesc	desc = booking_desc(get_fn_expr_rettype(fcinfo->flinfo));
	Interval	wait = {.time = wait_us};
	Datum		value[BOOKING_COLUMNS];
	bool		null[BOOKING_COLUMNS] = {false};

	value[BOOKING_SOURCE] = PointerGetDatum(source);
	value[BOOKING_TICKET] = Int64GetDatum(ticket);
	null[BOOKING_TICKET] = ticket == 0;
	value[BOOKING_SLOT_AT] = TimestampTzGetDatum(slot);
	value[BOOKING_WAIT] = IntervalPGetDatum(&wait);
	null[BOOKING_WAIT] = wait_us < 0;
	value[BOOKING_WAIT_MS] = Float8GetDatum((double) (wait_us / 1000 + (wait_us % 1000 > 0)));
	if (wait_us < 0)
		value[BOOKING_WAIT_MS] = Float8GetDatum(get_float8_infinity());

	return HeapTupleGetDatum(heap_form_tuple(desc, value, null));
}

int64
booking_wait_until(int64 slot, bool started)
{
	int64		wait;

	if (started)
		return 0;
	if (slot == SCHEDULE_FOREVER)
		return -1;
	wait = slot - pacer_clock_read().wall;
	return wait > 0 ? wait : 1;
}

static const char *
slot_to_string(int64 slot)
{
	return DatumGetCString(DirectFunctionCall1(timestamptz_out, TimestampTzGetDatum(slot)));
}

/* DETAIL of a refusal; a caller can branch on the SQLSTATE and come back then */
static int
errdetail_earliest(int64 slot)
{
	int64		wait = booking_wait_until(slot, false);

	return errdetail("The earliest slot is at %s, in " INT64_FORMAT " ms.",
					 slot_to_string(slot), wait / 1000 + (wait % 1000 > 0));
}

static void
raise_too_long(const char *source, const BookingArg *arg)
{
	const char *unit = arg->max_wait_us % 1000 == 0 ? "ms" : "us";
	int64		bound = arg->max_wait_us % 1000 == 0 ? arg->max_wait_us / 1000 : arg->max_wait_us;

	ereport(ERROR,
			(errcode(ERRCODE_PACER_TOO_LONG),
			 errmsg("could not book a slot for \"%s\" within " INT64_FORMAT " %s",
					source, bound, unit),
			 errdetail_earliest(arg->booking.slot)));
}

void
booking_raise(const text *name, const BookingArg *arg)
{
	const char *source = text_to_cstring(name);

	switch (arg->answer)
	{
		case SCHEDULE_FULL:
			ereport(ERROR,
					(errcode(ERRCODE_PACER_FULL),
					 errmsg_plural("could not book a slot for \"%s\": %d caller is waiting already",
								   "could not book a slot for \"%s\": %d callers are waiting already",
								   arg->max_waiting, source, arg->max_waiting),
					 errdetail_earliest(arg->booking.slot)));
			break;
		case SCHEDULE_TOO_LONG:
			raise_too_long(source, arg);
			break;
		case SCHEDULE_PAUSED:
			ereport(ERROR,
					(errcode(ERRCODE_PACER_TOO_LONG),
					 errmsg("could not book a slot for \"%s\": it is paused", source),
					 errdetail("The pause has no end."),
					 errhint("Use pacer.resume().")));
			break;
		case SCHEDULE_OVERFLOW:
			ereport(ERROR,
					(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
					 errmsg("cannot book %d permits of \"%s\": timestamp out of range",
							arg->req.permits, source)));
			break;
		case SCHEDULE_OVER_QUOTA:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("cannot book %d permits of \"%s\": its quota is %d",
							arg->req.permits, source, arg->quota)));
			break;
		case SCHEDULE_KEY_DIFFERS:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("cannot book %d permits of \"%s\": the booking with this key has another number of permits",
							arg->req.permits, source)));
			break;
		case SCHEDULE_NOT_HELD:
			ereport(ERROR,
					(errcode(ERRCODE_PACER_NOT_HELD),
					 errmsg("ticket " INT64_FORMAT " of source \"%s\" was released",
							arg->req.ticket, source)));
			break;
		case SCHEDULE_OK:
			elog(ERROR, "unexpected answer %d of the schedule", (int) arg->answer);
	}
}

void
booking_get(HeapTupleHeader booking, const text **source, int64 *ticket, int64 *slot)
{
	bool		null;
	Datum		value;

	value = GetAttributeByNum(booking, BOOKING_SOURCE + 1, &null);
	if (null)
		booking_null_argument("source");
	*source = DatumGetTextPP(value);
	value = GetAttributeByNum(booking, BOOKING_TICKET + 1, &null);
	if (null)
		booking_null_argument("ticket");
	*ticket = DatumGetInt64(value);
	value = GetAttributeByNum(booking, BOOKING_SLOT_AT + 1, &null);
	*slot = null ? 0 : DatumGetTimestampTz(value);
}
