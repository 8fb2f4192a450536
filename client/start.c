/*
 * start.c - from a booking to the start of the work
 *
 * Guarantees: nothing starts before its slot, nor on any code but PGPACER_OK; a wait
 * holds no transaction and sends nothing; a caller who gives up gives its slot back.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

/* how long before the start the connection is opened again to confirm it */
#define RECONNECT_US	INT64_C(100000)

/*
 * Sleeps until due_us.  An idle session costs the server a process and, behind a
 * limit, somebody else's connection: a long wait is spent without.  If the start is to
 * be confirmed the connection comes back shortly before, so that the start is not late
 * by what connecting takes; if that fails, confirming tries again and reports it.
 */
static Woken
sleep_unconnected(pgpacer *h, int64_t due_us, pgpacer_cancel *cancel, bool confirm)
{
	Bounds		bounds = handle_bounds(h, cancel);

	if (due_us - clock_us() > h->opt.keep_connection_us)
	{
		connection_drop(h);
		if (confirm && wait_for(-1, 0, cancel, due_us - RECONNECT_US) == WOKEN_TIMEOUT)
		{
			bounds.unreachable_us = bounds.crowded_us = 0;	/* once */
			connection_open(h, &bounds);
		}
	}
	return wait_for(-1, 0, cancel, due_us);
}

/* The body of pgpacer_wait(); confirm: the caller will. */
static int
wait_within(pgpacer *h, pgpacer_booking *b, pgpacer_cancel *cancel, bool confirm)
{
	int			rc = PGPACER_OK;

	if (b->state != PGPACER_STATE_HELD && b->state != PGPACER_STATE_STARTED)
		return handle_fail(h, PGPACER_INVALID, "nothing is booked");
	switch (sleep_unconnected(h, b->due_us, cancel,
							  confirm && b->state == PGPACER_STATE_HELD && b->paced_by == PGPACER_BY_SOURCE))
	{
		case WOKEN_READY:
		case WOKEN_TIMEOUT:
			return PGPACER_OK;
		case WOKEN_CANCELLED:
			rc = handle_cancelled(h, cancel);
			break;
		case WOKEN_FAILED:
			rc = handle_fail(h, PGPACER_SYSTEM, "could not poll: %s", strerror(errno));
			break;
	}
	release_in_grace(h, b);
	return rc;
}

int
pgpacer_wait(pgpacer *h, pgpacer_booking *b, pgpacer_cancel *cancel)
{
	int			rc = handle_enter(h);

	if (rc != PGPACER_OK)
		return rc;
	if (!b)
		return handle_leave(h, handle_fail(h, PGPACER_INVALID, "nothing is booked"));
	return handle_leave(h, wait_within(h, b, cancel, false));
}

/* Without the database: by this machine's clock, its slot being its own. */
static int
confirm_away(pgpacer *h, pgpacer_booking *b)
{
	b->wait_us = b->due_us - clock_us();
	if (b->wait_us > 0)
		return PGPACER_WAIT;
	b->wait_us = 0;
	away_start(h, b);
	return PGPACER_OK;
}

/* The body of pgpacer_confirm(); confirming twice changes nothing, so it may be asked again. */
static int
confirm_within(pgpacer *h, pgpacer_booking *b, pgpacer_cancel *cancel)
{
	Statement	s;
	Bounds		bounds = handle_bounds(h, cancel);
	PGresult   *res;
	int64_t		arrived;
	int			rc;

	if (b->state == PGPACER_STATE_STARTED)
		return PGPACER_OK;
	if (b->state != PGPACER_STATE_HELD)
		return handle_fail(h, PGPACER_INVALID, "nothing is booked");
	if (b->paced_by == PGPACER_BY_HANDLE)
		return confirm_away(h, b);
	statement_init(&s, "SELECT pacer.confirm($1, $2, $3)");
	add_text(&s, b->source);
	add_int8(&s, b->ticket);
	if (b->slot_at_us != 0)
		add_timestamptz(&s, b->slot_at_us);
	else
		add_null(&s, OID_TIMESTAMPTZ);

	rc = query_run_idempotent(h, &s, &bounds, &res, &arrived);
	if (rc == PGPACER_GONE)
		b->state = PGPACER_STATE_RELEASED;
	if (rc == PGPACER_OK && !get_interval(res, 0, &b->wait_us))
		rc = handle_fail(h, PGPACER_NOT_INSTALLED, "the server's answer is not an interval");
	PQclear(res);
	/* not for one that pgpacer_booking_init() made: it does not know when it is due */
	if (is_away(h, rc) && b->permits > 0)
		return confirm_away(h, b);
	if (rc != PGPACER_OK)
		return rc;
	b->due_us = later_us(arrived, b->wait_us);
	if (b->wait_us > 0)
		return PGPACER_WAIT;
	b->state = PGPACER_STATE_STARTED;
	return PGPACER_OK;
}

int
pgpacer_confirm(pgpacer *h, pgpacer_booking *b, pgpacer_cancel *cancel)
{
	int			rc = handle_enter(h);

	if (rc != PGPACER_OK)
		return rc;
	if (!b)
		return handle_leave(h, handle_fail(h, PGPACER_INVALID, "nothing is booked"));
	return handle_leave(h, confirm_within(h, b, cancel));
}

/*
 * Wait and confirm, until the server agrees.  Ends, since each confirmation keeps the
 * place that the one before was given; only pausing the source prolongs it.
 */
static int
start_within(pgpacer *h, pgpacer_booking *b, pgpacer_cancel *cancel, bool confirm)
{
	int			rc;

	do
	{
		rc = wait_within(h, b, cancel, confirm);
		if (rc != PGPACER_OK || !confirm)
			return rc;
		rc = confirm_within(h, b, cancel);
	} while (rc == PGPACER_WAIT);
	if (rc == PGPACER_CANCELLED || rc == PGPACER_DEADLINE)
		release_in_grace(h, b);
	return rc;
}

static int
check_start(pgpacer *h, const pgpacer_book_options *options, pgpacer_cancel **cancel, bool *confirm)
{
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;

	if (!options_copy(&o, sizeof o, options))
		return handle_fail(h, PGPACER_INVALID, "the options have a wrong size or set a field unknown to this version");
	*cancel = o.cancel;
	*confirm = o.confirm != 0 ? o.confirm > 0 : CONFIRM_BY_DEFAULT;
	return PGPACER_OK;
}

int
pgpacer_start(pgpacer *h, pgpacer_booking *b, const pgpacer_book_options *options)
{
	pgpacer_cancel *cancel = NULL;
	bool		confirm = false;
	int			rc = handle_enter(h);

	if (rc != PGPACER_OK)
		return rc;
	if (!b)
		return handle_leave(h, handle_fail(h, PGPACER_INVALID, "nothing is booked"));
	rc = check_start(h, options, &cancel, &confirm);
	if (rc == PGPACER_OK)
		rc = start_within(h, b, cancel, confirm);
	return handle_leave(h, rc);
}

int
pgpacer_acquire(pgpacer *h, const char *source, const pgpacer_book_options *options, pgpacer_booking *booking)
{
	pgpacer_booking own;
	pgpacer_booking *b = booking ? booking : &own;
	pgpacer_cancel *cancel = NULL;
	bool		confirm = false;
	int			rc = handle_enter(h);

	memset(b, 0, sizeof *b);
	if (rc != PGPACER_OK)
		return rc;
	rc = check_start(h, options, &cancel, &confirm);
	if (rc == PGPACER_OK)
		rc = book_within(h, source, options, b);
	if (rc == PGPACER_OK)
		rc = start_within(h, b, cancel, confirm);
	return handle_leave(h, rc);
}

/* The handle is left before the work begins, so that the work may use it. */
int
pgpacer_run(pgpacer *h, const char *source, const pgpacer_book_options *options, pgpacer_work work, void *arg)
{
	pgpacer_booking b;
	int			rc;

	if (!work)
		return PGPACER_INVALID;
	rc = pgpacer_acquire(h, source, options, &b);
	if (rc == PGPACER_OK)
		work(&b, arg);
	return rc;
}
