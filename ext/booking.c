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
#include "slot_row.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#define ERRCODE_PACER_FULL		MAKE_SQLSTATE('P', 'C', '0', '0', '1')
#define ERRCODE_PACER_TOO_LONG	MAKE_SQLSTATE('P', 'C', '0', '0', '2')

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

typedef struct BookArg
{
	ScheduleRequest req;
	ScheduleAnswer answer;
	ScheduleBooking booking;
	int64		max_wait_us;	/* the bound that was not met */
	int32		max_waiting;
	int32		quota;
} BookArg;

/*
 * ----------------------------------------------------------------
 *		Arguments
 * ----------------------------------------------------------------
 */

static void
null_argument(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", name)));
}

const text *
booking_source_arg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		null_argument("source");
	return PG_GETARG_TEXT_PP(n);
}

int64
booking_ticket_arg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		null_argument("ticket");
	return PG_GETARG_INT64(n);
}

HeapTupleHeader
booking_arg(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		null_argument("booking");
	return PG_GETARG_HEAPTUPLEHEADER(n);
}

static int32
permits_arg(FunctionCallInfo fcinfo, int n)
{
	int32		permits;

	if (PG_ARGISNULL(n))
		null_argument("permits");
	permits = PG_GETARG_INT32(n);
	if (permits < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("permits must be at least 1, not %d", permits)));
	return permits;
}

/* -1: no bound */
static int64
max_wait_arg(FunctionCallInfo fcinfo, int n)
{
	const Interval *in;
	int64		us;

	if (PG_ARGISNULL(n))
		return -1;
	in = PG_GETARG_INTERVAL_P(n);
	if (interval_is_infinite(in) && in->month > 0)
		return -1;
	if (!interval_to_us(in, &us) || us < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_wait must be at least 0 and must not have months")));
	return us;
}

/* the hash a key is remembered by; 0: none */
static uint64
key_arg(FunctionCallInfo fcinfo, int n)
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

/* nobody can guess a neighbour's ticket; drawn in batches, since each draw costs */
static int64
draw_ticket(void)
{
	static uint64 pool[64];
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
 * A row of pacer.booking, as the call's expression has it.  ticket 0 is null.
 * wait_us < 0: without end.
 */
static Datum
form_booking(FunctionCallInfo fcinfo, const text *source, int64 ticket, int64 slot, int64 wait_us)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(get_fn_expr_rettype(fcinfo->flinfo), -1);
	Interval	wait = {.time = wait_us};
	Datum		value[BOOKING_COLUMNS];
	bool		null[BOOKING_COLUMNS] = {false};
	HeapTuple	tuple;

	if (desc->natts != BOOKING_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("type pacer.booking does not have %d columns", BOOKING_COLUMNS)));

	value[BOOKING_SOURCE] = PointerGetDatum(source);
	value[BOOKING_TICKET] = Int64GetDatum(ticket);
	null[BOOKING_TICKET] = ticket == 0;
	value[BOOKING_SLOT_AT] = TimestampTzGetDatum(slot);
	value[BOOKING_WAIT] = IntervalPGetDatum(&wait);
	null[BOOKING_WAIT] = wait_us < 0;
	value[BOOKING_WAIT_MS] = Float8GetDatum((double) (wait_us / 1000 + (wait_us % 1000 > 0)));
	if (wait_us < 0)
		value[BOOKING_WAIT_MS] = Float8GetDatum(get_float8_infinity());

	tuple = heap_form_tuple(desc, value, null);
	ReleaseTupleDesc(desc);
	return HeapTupleGetDatum(tuple);
}

/*
 * The wait still to go, taken after the flush, which may have taken long.  It is
 * 0 if and only if the row recorded the booking as started.
 */
static int64
wait_until(int64 slot, bool started)
{
	int64		wait;

	if (started)
		return 0;
	if (slot == SCHEDULE_FOREVER)
		return -1;
	wait = slot - slot_row_now();
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
	int64		wait = wait_until(slot, false);

	return errdetail("The earliest slot is at %s, in " INT64_FORMAT " ms.",
					 slot_to_string(slot), wait / 1000 + (wait % 1000 > 0));
}

static void
raise_too_long(const char *source, const BookArg *arg)
{
	const char *unit = arg->max_wait_us % 1000 == 0 ? "ms" : "us";
	int64		bound = arg->max_wait_us % 1000 == 0 ? arg->max_wait_us / 1000 : arg->max_wait_us;

	ereport(ERROR,
			(errcode(ERRCODE_PACER_TOO_LONG),
			 errmsg("could not book a slot for \"%s\" within " INT64_FORMAT " %s",
					source, bound, unit),
			 errdetail_earliest(arg->booking.slot)));
}

static void
raise_answer(const text *name, const BookArg *arg)
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
		case SCHEDULE_OK:
		case SCHEDULE_NOT_HELD:
			elog(ERROR, "unexpected answer %d of the schedule", (int) arg->answer);
	}
}

/*
 * ----------------------------------------------------------------
 *		Verbs
 * ----------------------------------------------------------------
 */

static SlotVerdict
verb_book(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	BookArg    *arg = ptr;

	arg->answer = schedule_book(s, cfg, now, &arg->req, &arg->booking);
	switch (arg->answer)
	{
		case SCHEDULE_OK:
			return SLOT_KEEP;
		case SCHEDULE_FULL:
		case SCHEDULE_TOO_LONG:
		case SCHEDULE_PAUSED:
			arg->max_waiting = cfg->max_waiting;
			arg->max_wait_us = arg->req.max_wait_us;
			if (arg->max_wait_us < 0 || (cfg->max_wait_us >= 0 && cfg->max_wait_us < arg->max_wait_us))
				arg->max_wait_us = cfg->max_wait_us;
			return SLOT_REFUSE;
		default:
			arg->quota = cfg->quota;
			return SLOT_DROP;
	}
}

/* what a booking without a bound would get; the copy is thrown away */
static SlotVerdict
verb_peek(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	BookArg    *arg = ptr;
	ScheduleConfig unbound = *cfg;

	unbound.max_waiting = -1;
	unbound.max_wait_us = -1;
	arg->answer = schedule_book(s, &unbound, now, &arg->req, &arg->booking);
	return SLOT_DROP;
}

typedef struct ReleaseArg
{
	int64		ticket;
	ScheduleRelease outcome;
} ReleaseArg;

static SlotVerdict
verb_release(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	ReleaseArg *arg = ptr;

	arg->outcome = schedule_release(s, cfg, now, arg->ticket);
	return arg->outcome == RELEASE_RELEASED ? SLOT_KEEP : SLOT_DROP;
}

/*
 * ----------------------------------------------------------------
 *		The SQL functions
 * ----------------------------------------------------------------
 */

/*
 * Declared SETOF so that the planner evaluates (book(...)).* once; answers one
 * row in the only call, as ExprSingleResult allows.
 */
Datum
booking_book(FunctionCallInfo fcinfo, bool refusal_is_row)
{
	const text *source = booking_source_arg(fcinfo, 0);
	BookArg		arg = {0};
	bool		refused;

	arg.req.permits = permits_arg(fcinfo, 1);
	arg.req.max_wait_us = max_wait_arg(fcinfo, 2);
	arg.req.key = key_arg(fcinfo, 3);
	arg.req.ticket = draw_ticket();
	slot_row_apply(fcinfo, source, refusal_is_row ? "try_book()" : "book()",
				   verb_book, &arg, false);

	refused = arg.answer == SCHEDULE_FULL || arg.answer == SCHEDULE_TOO_LONG ||
		arg.answer == SCHEDULE_PAUSED;
	if (arg.answer != SCHEDULE_OK && !(refused && refusal_is_row))
		raise_answer(source, &arg);
	return form_booking(fcinfo, source, refused ? 0 : arg.booking.ticket, arg.booking.slot,
						wait_until(arg.booking.slot, arg.booking.started));
}

Datum
booking_nextslot(FunctionCallInfo fcinfo)
{
	const text *source = booking_source_arg(fcinfo, 0);
	BookArg		arg = {.req = {.permits = 1, .max_wait_us = -1}};

	slot_row_apply(fcinfo, source, "nextslot()", verb_book, &arg, true);
	if (arg.answer != SCHEDULE_OK)
		raise_answer(source, &arg);
	PG_RETURN_TIMESTAMPTZ(arg.booking.slot);
}

Datum
booking_peek(FunctionCallInfo fcinfo)
{
	const text *source = booking_source_arg(fcinfo, 0);
	BookArg		arg = {.req = {.permits = 1, .max_wait_us = -1, .ticket = 1}};
	bool		believed;

	if (!slot_row_read(fcinfo, source, verb_peek, &arg, &believed))
		slot_row_no_source(source);
	if (arg.answer != SCHEDULE_OK && arg.answer != SCHEDULE_PAUSED)
		raise_answer(source, &arg);
	return form_booking(fcinfo, source, 0, arg.booking.slot,
						wait_until(arg.booking.slot, arg.booking.started));
}

void
booking_get(HeapTupleHeader booking, const text **source, int64 *ticket)
{
	bool		null;
	Datum		value;

	value = GetAttributeByNum(booking, BOOKING_SOURCE + 1, &null);
	if (null)
		null_argument("source");
	*source = DatumGetTextPP(value);
	value = GetAttributeByNum(booking, BOOKING_TICKET + 1, &null);
	if (null)
		null_argument("ticket");
	*ticket = DatumGetInt64(value);
}

Datum
booking_release(FunctionCallInfo fcinfo, const text *source, int64 ticket)
{
	static const char *const outcome[] = {"released", "started", "passed", "unknown"};
	ReleaseArg	arg = {.ticket = ticket};

	slot_row_apply(fcinfo, source, "release()", verb_release, &arg, false);
	PG_RETURN_TEXT_P(cstring_to_text(outcome[arg.outcome]));
}
