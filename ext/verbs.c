/*
 * verbs.c - the bodies of the SQL functions
 *
 * Each has a half that runs under the row's lock (verb_...), which asks the
 * schedule and notes its answer, and a half that takes the arguments, has the
 * first one run, and forms the result or raises.
 */
#include "postgres.h"

#include "booking.h"
#include "compat.h"
#include "funcapi.h"
#include "interval_us.h"
#include "miscadmin.h"
#include "pacer_clock.h"
#include "slot_row.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "verbs.h"
#include "wait.h"

static bool
is_refusal(ScheduleAnswer answer)
{
	return answer == SCHEDULE_FULL || answer == SCHEDULE_TOO_LONG || answer == SCHEDULE_PAUSED;
}

/* what becomes of the row, and what an error would have to say */
static SlotVerdict
verdict(const ScheduleConfig *cfg, BookingArg *arg)
{
	int64		bound = arg->req.max_wait_us;

	if (arg->answer == SCHEDULE_OK)
		return SLOT_KEEP;
	if (bound < 0 || (cfg->max_wait_us >= 0 && cfg->max_wait_us < bound))
		bound = cfg->max_wait_us;
	arg->max_wait_us = bound;
	arg->max_waiting = cfg->max_waiting;
	arg->quota = cfg->quota;
	return is_refusal(arg->answer) ? SLOT_REFUSE : SLOT_DROP;
}

/*
 * ----------------------------------------------------------------
 *		Book
 * ----------------------------------------------------------------
 */

static SlotVerdict
verb_book(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	BookingArg *arg = ptr;

	arg->answer = schedule_book(s, cfg, now, &arg->req, &arg->booking);
	return verdict(cfg, arg);
}

/*
 * Declared SETOF so that the planner evaluates (book(...)).* once; answers one
 * row in the only call, as ExprSingleResult allows.
 */
Datum
verbs_book(FunctionCallInfo fcinfo, bool refusal_is_row)
{
	const text *source = booking_source_arg(fcinfo, 0);
	BookingArg	arg = {0};
	bool		refused;

	arg.req.permits = booking_permits_arg(fcinfo, 1);
	arg.req.max_wait_us = booking_max_wait_arg(fcinfo, 2);
	arg.req.key = booking_key_arg(fcinfo, 3);
	arg.req.ticket = booking_draw_ticket();
	slot_row_apply(fcinfo, source, refusal_is_row ? "try_book()" : "book()",
				   verb_book, &arg, false);

	refused = is_refusal(arg.answer);
	if (arg.answer != SCHEDULE_OK && !(refused && refusal_is_row))
		booking_raise(source, &arg);
	return booking_form(fcinfo, source, refused ? 0 : arg.booking.ticket, arg.booking.slot,
						booking_wait_until(arg.booking.slot, arg.booking.started));
}

typedef struct BookManyArg
{
	BookingArg	one;			/* first, so that verdict() can have it */
	int			n;
	int			remembered;
	int64		ticket[SCHEDULE_MAX_REMEMBERED];
	ScheduleBooking booking[SCHEDULE_MAX_REMEMBERED];
} BookManyArg;

/* all on one copy of the row, which is kept only if each was booked */
static SlotVerdict
verb_book_many(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	BookManyArg *arg = ptr;

	arg->remembered = s->remembered;
	if (arg->n > s->remembered)
		return SLOT_DROP;
	for (int i = 0; i < arg->n; i++)
	{
		arg->one.req.ticket = arg->ticket[i];
		arg->one.answer = schedule_book(s, cfg, now, &arg->one.req, &arg->booking[i]);
		if (arg->one.answer != SCHEDULE_OK)
		{
			arg->one.booking = arg->booking[i];
			break;
		}
	}
	return verdict(cfg, &arg->one);
}

Datum
verbs_book_many(FunctionCallInfo fcinfo)
{
	const text *source = booking_source_arg(fcinfo, 0);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	BookManyArg *arg = palloc0(sizeof(BookManyArg));

	if (PG_ARGISNULL(1))
		booking_null_argument("n");
	arg->n = PG_GETARG_INT32(1);
	arg->remembered = SCHEDULE_MAX_REMEMBERED;
	if (arg->n < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("n must be at least 1, not %d", arg->n)));
	arg->one.req.permits = 1;
	arg->one.req.max_wait_us = booking_max_wait_arg(fcinfo, 2);
	for (int i = 0; i < Min(arg->n, SCHEDULE_MAX_REMEMBERED); i++)
		arg->ticket[i] = booking_draw_ticket();

	slot_row_apply(fcinfo, source, "book_many()", verb_book_many, arg, false);
	if (arg->n > arg->remembered)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot book %d slots for \"%s\" at once: it remembers %d bookings",
						arg->n, text_to_cstring(source), arg->remembered)));
	if (arg->one.answer != SCHEDULE_OK)
		booking_raise(source, &arg->one);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < arg->n; i++)
	{
		const ScheduleBooking *b = &arg->booking[i];
		HeapTupleHeader row = DatumGetHeapTupleHeader(booking_form(fcinfo, source, b->ticket, b->slot,
																   booking_wait_until(b->slot, b->started)));
		HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(row), .t_data = row};

		tuplestore_puttuple(rsinfo->setResult, &tuple);
	}
	return (Datum) 0;
}

Datum
verbs_nextslot(FunctionCallInfo fcinfo)
{
	const text *source = booking_source_arg(fcinfo, 0);
	BookingArg	arg = {.req = {.permits = 1, .max_wait_us = -1}};

	slot_row_apply(fcinfo, source, "nextslot()", verb_book, &arg, true);
	if (arg.answer != SCHEDULE_OK)
		booking_raise(source, &arg);
	PG_RETURN_TIMESTAMPTZ(arg.booking.slot);
}

/* what a booking without a bound would get; the copy is thrown away */
static SlotVerdict
verb_peek(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	BookingArg *arg = ptr;
	ScheduleConfig unbound = *cfg;

	unbound.max_waiting = -1;
	unbound.max_wait_us = -1;
	arg->answer = schedule_book(s, &unbound, now, &arg->req, &arg->booking);
	(void) verdict(cfg, arg);
	return SLOT_DROP;
}

Datum
verbs_peek(FunctionCallInfo fcinfo)
{
	const text *source = booking_source_arg(fcinfo, 0);
	BookingArg	arg = {.req = {.permits = 1, .max_wait_us = -1, .ticket = 1}};
	bool		believed;

	if (!slot_row_read(fcinfo, source, verb_peek, &arg, &believed))
		slot_row_no_source(source);
	if (arg.answer != SCHEDULE_OK && arg.answer != SCHEDULE_PAUSED)
		booking_raise(source, &arg);
	return booking_form(fcinfo, source, 0, arg.booking.slot,
						booking_wait_until(arg.booking.slot, arg.booking.started));
}

/*
 * ----------------------------------------------------------------
 *		Release and confirm
 * ----------------------------------------------------------------
 */

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

Datum
verbs_release(FunctionCallInfo fcinfo, const text *source, int64 ticket)
{
	static const char *const outcome[] = {"released", "started", "passed", "unknown"};
	ReleaseArg	arg = {.ticket = ticket};

	slot_row_apply(fcinfo, source, "release()", verb_release, &arg, false);
	PG_RETURN_TEXT_P(cstring_to_text(outcome[arg.outcome]));
}

typedef struct ConfirmArg
{
	BookingArg	answer;			/* .slot: the start, .started: it is now */
	int64		slot;			/* as the caller has it, 0: not known */
} ConfirmArg;

static SlotVerdict
verb_confirm(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	ConfirmArg *arg = ptr;
	BookingArg *answer = &arg->answer;
	int64		wait_us;

	answer->answer = schedule_confirm(s, cfg, now, answer->req.ticket, arg->slot, &wait_us);
	answer->booking.started = wait_us == 0;
	answer->booking.slot = now + wait_us;
	return answer->answer == SCHEDULE_OK ? SLOT_KEEP : SLOT_DROP;
}

static ScheduleBooking
confirm(FunctionCallInfo fcinfo, const text *source, int64 ticket, int64 slot)
{
	ConfirmArg	arg = {.answer.req.ticket = ticket, .slot = slot};

	slot_row_apply(fcinfo, source, "confirm()", verb_confirm, &arg, false);
	if (arg.answer.answer != SCHEDULE_OK)
		booking_raise(source, &arg.answer);
	return arg.answer.booking;
}

Datum
verbs_confirm(FunctionCallInfo fcinfo, const text *source, int64 ticket, int64 slot)
{
	ScheduleBooking answer;

	if (TIMESTAMP_NOT_FINITE(slot))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("slot_at must be a finite time")));
	answer = confirm(fcinfo, source, ticket, slot);
	PG_RETURN_INTERVAL_P(interval_from_us(booking_wait_until(answer.slot, answer.started)));
}

/*
 * ----------------------------------------------------------------
 *		Acquire: book, wait, confirm
 *
 * While it waits it holds no lock of any kind, but, being a statement, its
 * snapshot.  What would end the statement is seen by wait_until_elapsed()
 * before it is raised: the slot is then given back by an ordinary call in a
 * sound transaction, and the interrupt raised after that.  (From a handler of
 * the error one would have to do this in a transaction that is failing, or, when
 * the session is being terminated, from an exit callback.)
 * ----------------------------------------------------------------
 */

/* sleeps until the start; does not return if the statement is to end */
static void
wait_or_release(FunctionCallInfo fcinfo, const text *source, int64 ticket, int64 wait_us)
{
	ReleaseArg	arg = {.ticket = ticket};

	if (wait_until_elapsed(wait_us))
		return;
	slot_row_apply(fcinfo, source, "release()", verb_release, &arg, false);
	CHECK_FOR_INTERRUPTS();
	/* it has been released: nobody may start on it */
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling acquire() due to an interrupt")));
}

/* a start beyond the caller's bound: give the place back, then raise */
static void
release_and_raise(FunctionCallInfo fcinfo, const text *source, int64 ticket, BookingArg *arg)
{
	ReleaseArg	release = {.ticket = ticket};

	slot_row_apply(fcinfo, source, "release()", verb_release, &release, false);
	arg->answer = SCHEDULE_TOO_LONG;
	arg->max_wait_us = arg->req.max_wait_us;
	booking_raise(source, arg);
}

Datum
verbs_acquire(FunctionCallInfo fcinfo)
{
	const text *source = booking_source_arg(fcinfo, 0);
	int64		began = pacer_clock_elapsed();
	BookingArg	arg = {0};
	int64		ticket;
	int64		slot;

	arg.req.permits = booking_permits_arg(fcinfo, 1);
	arg.req.max_wait_us = booking_max_wait_arg(fcinfo, 2);
	arg.req.ticket = booking_draw_ticket();
	slot_row_apply(fcinfo, source, "acquire()", verb_book, &arg, false);
	if (arg.answer != SCHEDULE_OK)
		booking_raise(source, &arg);

	ticket = arg.booking.ticket;
	slot = arg.booking.slot;
	while (!arg.booking.started)
	{
		int64		wait_us = booking_wait_until(arg.booking.slot, false);

		/* a late start before this one, or a pause, may have moved it */
		if (arg.req.max_wait_us >= 0 &&
			pacer_clock_elapsed() - began > arg.req.max_wait_us - wait_us)
			release_and_raise(fcinfo, source, ticket, &arg);
		wait_or_release(fcinfo, source, ticket, wait_us);
		arg.booking = confirm(fcinfo, source, ticket, slot);
	}
	return booking_form(fcinfo, source, ticket, arg.booking.slot, 0);
}

/*
 * ----------------------------------------------------------------
 *		Pause, resume, advance, rewind
 * ----------------------------------------------------------------
 */

typedef struct MoveArg
{
	int64		time;			/* where to, or for how long */
	int64		now_is;			/* what holds after that */
	ScheduleAnswer answer;
} MoveArg;

static SlotVerdict
verb_pause(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	MoveArg    *arg = ptr;
	int64		until;

	if (arg->time < 0)
		until = SCHEDULE_FOREVER;
	else if (arg->time > SCHEDULE_END - now)
	{
		arg->answer = SCHEDULE_OVERFLOW;
		return SLOT_DROP;
	}
	else
		until = now + arg->time;
	arg->answer = schedule_pause(s, cfg, now, until);
	arg->now_is = s->logged.paused_until;
	return arg->answer == SCHEDULE_OK ? SLOT_KEEP : SLOT_DROP;
}

static SlotVerdict
verb_resume(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	schedule_resume(s);
	return SLOT_KEEP;
}

static SlotVerdict
verb_advance(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	MoveArg    *arg = ptr;

	schedule_advance(s, arg->time);
	arg->now_is = s->un.next_request_at;
	return SLOT_KEEP;
}

static SlotVerdict
verb_rewind(Schedule *s, const ScheduleConfig *cfg, int64 now, void *ptr)
{
	MoveArg    *arg = ptr;

	schedule_rewind(s, arg->time > 0 ? arg->time : now);
	arg->now_is = s->un.next_request_at;
	return SLOT_KEEP;
}

static int64
time_arg(FunctionCallInfo fcinfo, int n)
{
	int64		t;

	if (PG_ARGISNULL(n))
		booking_null_argument("to_time");
	t = PG_GETARG_TIMESTAMPTZ(n);
	if (TIMESTAMP_NOT_FINITE(t) || t <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("to_time must be a finite time after 2000-01-01")));
	return t;
}

Datum
verbs_pause(FunctionCallInfo fcinfo, int64 duration_us)
{
	const text *source = booking_source_arg(fcinfo, 0);
	MoveArg		arg = {.time = duration_us};

	slot_row_apply(fcinfo, source, "pause()", verb_pause, &arg, false);
	if (arg.answer != SCHEDULE_OK)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("cannot pause \"%s\" for so long: timestamp out of range",
						text_to_cstring(source))));
	PG_RETURN_TIMESTAMPTZ(arg.now_is);
}

Datum
verbs_resume(FunctionCallInfo fcinfo)
{
	slot_row_apply(fcinfo, booking_source_arg(fcinfo, 0), "resume()", verb_resume, NULL, false);
	PG_RETURN_VOID();
}

Datum
verbs_advance(FunctionCallInfo fcinfo)
{
	const text *source = booking_source_arg(fcinfo, 0);
	MoveArg		arg = {.time = time_arg(fcinfo, 1)};

	slot_row_apply(fcinfo, source, "advance()", verb_advance, &arg, false);
	PG_RETURN_TIMESTAMPTZ(arg.now_is);
}

Datum
verbs_rewind(FunctionCallInfo fcinfo)
{
	const text *source = booking_source_arg(fcinfo, 0);
	MoveArg		arg = {.time = PG_ARGISNULL(1) ? 0 : time_arg(fcinfo, 1)};

	slot_row_apply(fcinfo, source, "rewind()", verb_rewind, &arg, false);
	PG_RETURN_TIMESTAMPTZ(arg.now_is);
}
