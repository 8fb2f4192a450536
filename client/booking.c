/*
 * booking.c - booking a slot and giving it back
 *
 * Guarantees: when the answer to a booking is lost, asking again with the same key
 * finds the slot that the first try may have taken, so a broken connection costs no
 * second slot.  Whatever ends a booking early, a slot that we know of is released.
 * Does not guarantee: that a slot whose answer never came is released; it passes.
 */
#define _GNU_SOURCE				/* getentropy */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* before a standby, or a server just promoted, is asked again */
#define READ_ONLY_PAUSE_US	INT64_C(100000)

/* One booking as asked for. */
typedef struct Order
{
	const char *key;			/* the caller's, or b->key */
	int			permits;
	int64_t		max_wait_us;
	int64_t		asked_us;		/* when the call began */
} Order;

/* 128 random bits in hexadecimal: nobody else's key. */
static bool
make_key(char key[40])
{
	unsigned char bits[16];

	if (getentropy(bits, sizeof bits) != 0)
		return false;
	for (size_t i = 0; i < sizeof bits; i++)
		snprintf(key + 2 * i, 3, "%02x", bits[i]);
	return true;
}

static bool
valid_source(const char *source)
{
	return source && source[0] != '\0' && strlen(source) < sizeof ((pgpacer_booking *) 0)->source;
}

int
pgpacer_booking_init(pgpacer_booking *b, const char *source, int64_t ticket, int64_t slot_at_us)
{
	if (!b || !valid_source(source) || ticket <= 0)
		return PGPACER_INVALID;
	memset(b, 0, sizeof *b);
	strcpy(b->source, source);
	b->ticket = ticket;
	b->slot_at_us = slot_at_us;
	b->due_us = clock_us();
	b->state = PGPACER_STATE_HELD;
	return PGPACER_OK;
}

/* ------------------------------------------------------------------
 * Releasing
 * ------------------------------------------------------------------ */

static int32_t
state_of_outcome(const char *outcome)
{
	if (strcmp(outcome, "released") == 0)
		return PGPACER_STATE_RELEASED;
	if (strcmp(outcome, "started") == 0)
		return PGPACER_STATE_STARTED;
	if (strcmp(outcome, "passed") == 0)
		return PGPACER_STATE_PASSED;
	return PGPACER_STATE_FORGOTTEN;
}

/* ------------------------------------------------------------------
 * Without a database
 * ------------------------------------------------------------------ */

/* Does the policy of the handle take over from here? */
bool
is_away(const pgpacer *h, int rc)
{
	return h->opt.away_interval_us > 0 && (rc == PGPACER_UNREACHABLE || rc == PGPACER_READ_ONLY);
}

static int64_t
away_width(const pgpacer *h, const pgpacer_booking *b)
{
	int64_t		width;

	return __builtin_mul_overflow(h->opt.away_interval_us, (int64_t) b->permits, &width) ? PGPACER_NO_LIMIT : width;
}

/* Books from the handle's own schedule: the rule of the source, for one. */
static int
away_book(pgpacer *h, int64_t max_wait_us, pgpacer_booking *b)
{
	int64_t		now = clock_us();
	int64_t		due = h->away_next_us > now ? h->away_next_us : now;

	if (due - now > max_wait_us)
		return handle_fail(h, PGPACER_TOO_LATE, "the database is away, and the handle's next start is too late");
	h->away_next_us = later_us(due, away_width(h, b));
	b->due_us = due;
	b->wait_us = due - now;
	b->state = due > now ? PGPACER_STATE_HELD : PGPACER_STATE_STARTED;
	b->paced_by = PGPACER_BY_HANDLE;
	return PGPACER_OK;
}

/* A start that the database could not be told of, however late: the handle's next one keeps off it. */
void
away_start(pgpacer *h, pgpacer_booking *b)
{
	int64_t		next = later_us(clock_us(), away_width(h, b));

	if (h->away_next_us < next)
		h->away_next_us = next;
	b->paced_by = PGPACER_BY_HANDLE;
	b->state = PGPACER_STATE_STARTED;
}

/* The last one is taken off again; others leave a gap, which harms nobody. */
static int
away_release(pgpacer *h, pgpacer_booking *b)
{
	if (clock_us() >= b->due_us)
		b->state = PGPACER_STATE_PASSED;
	else
	{
		if (h->away_next_us == later_us(b->due_us, away_width(h, b)))
			h->away_next_us = b->due_us;
		b->state = PGPACER_STATE_RELEASED;
	}
	return PGPACER_OK;
}

/* The body of pgpacer_release(): asks only about a booking that may be held. */
int
release_within(pgpacer *h, pgpacer_booking *b, Bounds *bounds)
{
	Statement	s;
	PGresult   *res;
	int64_t		arrived;
	int			rc;

	if (b->state != PGPACER_STATE_HELD)
		return PGPACER_OK;
	if (b->paced_by == PGPACER_BY_HANDLE)
		return away_release(h, b);
	statement_init(&s, "SELECT pacer.release($1, $2)");
	add_text(&s, b->source);
	add_int8(&s, b->ticket);
	rc = query_run_idempotent(h, &s, bounds, &res, &arrived);
	if (rc == PGPACER_OK)
		b->state = state_of_outcome(PQgetvalue(res, 0, 0));
	PQclear(res);
	return rc;
}

/*
 * Releases for a call that ends without starting.  The call's own code and message are
 * what the caller wants to know; b->state tells how this went.
 */
void
release_in_grace(pgpacer *h, pgpacer_booking *b)
{
	Bounds		bounds = handle_bounds(h, NULL);
	char		errmsg[sizeof h->errmsg];
	char		sqlstate[sizeof h->sqlstate];

	memcpy(errmsg, h->errmsg, sizeof errmsg);
	memcpy(sqlstate, h->sqlstate, sizeof sqlstate);
	bounds.end_us = handle_grace_end(h);
	release_within(h, b, &bounds);
	memcpy(h->errmsg, errmsg, sizeof errmsg);
	memcpy(h->sqlstate, sqlstate, sizeof sqlstate);
}

int
pgpacer_release(pgpacer *h, pgpacer_booking *b)
{
	int			rc = handle_enter(h);
	Bounds		bounds;

	if (rc != PGPACER_OK)
		return rc;
	bounds = handle_bounds(h, NULL);
	if (!b || b->state == PGPACER_STATE_NONE)
		return handle_leave(h, handle_fail(h, PGPACER_INVALID, "nothing is booked"));
	return handle_leave(h, release_within(h, b, &bounds));
}

/* ------------------------------------------------------------------
 * Booking
 * ------------------------------------------------------------------ */

static bool
read_booking(const PGresult *res, int64_t arrived_us, pgpacer_booking *b)
{
	if (PQnfields(res) != 3 || !get_int8(res, 0, &b->ticket) || !get_timestamptz(res, 1, &b->slot_at_us) ||
		!get_interval(res, 2, &b->wait_us))
		return false;
	b->due_us = later_us(arrived_us, b->wait_us);
	b->state = b->wait_us > 0 ? PGPACER_STATE_HELD : PGPACER_STATE_STARTED;
	return true;
}

/*
 * The wait still acceptable: what the caller said, less the time lost by trying
 * again, and nothing beyond the token's deadline.
 */
static int64_t
acceptable_wait(const Order *order, const Bounds *bounds)
{
	int64_t		now = clock_us();
	int64_t		wait = order->max_wait_us;
	int64_t		deadline = cancel_deadline_us(bounds->cancel);

	if (wait != PGPACER_NO_LIMIT && bounds->retried)
		wait -= now - order->asked_us;
	if (deadline != PGPACER_NO_LIMIT)
		wait = sooner_us(wait, deadline - now);
	return wait > 0 ? wait : 0;
}

/* Asks the server for a slot, once. */
static int
ask(pgpacer *h, const Order *order, Bounds *bounds, pgpacer_booking *b)
{
	Statement	s;
	PGresult   *res;
	int64_t		arrived;
	int			rc = connection_open(h, bounds);	/* before the time left is looked at */

	if (rc != PGPACER_OK)
		return rc;
	statement_init(&s, "SELECT ticket, slot_at, wait FROM pacer.book($1, $2, $3, $4)");
	add_text(&s, b->source);
	add_int4(&s, order->permits);
	add_interval(&s, acceptable_wait(order, bounds));
	add_text(&s, order->key);
	h->warned = false;
	rc = query_run(h, &s, bounds, &res, &arrived);
	if (res && !read_booking(res, arrived, b))
		rc = handle_fail(h, PGPACER_NOT_INSTALLED, "the server's answer is not a booking");
	PQclear(res);
	return rc;
}

/*
 * A cancelled wait for a synchronous standby ends in a warning and a booking that a
 * failover may forget; nothing may start on it.  Give it back, so that its key is
 * free, and call it unknown: the caller of this then books anew.
 */
static int
distrust(pgpacer *h, pgpacer_booking *b)
{
	Bounds		bounds = handle_bounds(h, NULL);
	int			rc = PGPACER_OK;

	bounds.end_us = later_us(clock_us(), h->opt.grace_us);
	release_within(h, b, &bounds);
	if (b->key[0] != '\0' && !make_key(b->key))
		rc = handle_fail(h, PGPACER_SYSTEM, "could not make a random key: %s", strerror(errno));
	b->ticket = 0;
	b->state = PGPACER_STATE_NONE;
	return rc != PGPACER_OK ? rc :
		handle_fail(h, PGPACER_UNKNOWN, "the booking may not have reached the standby");
}

/*
 * Asks up to twice if the first answer is lost or cannot be trusted, and for as long as
 * database_wait says if the server is read-only (with several hosts at least once
 * more: the primary may have moved).
 */
static int
ask_again(pgpacer *h, const Order *order, Bounds *bounds, pgpacer_booking *b)
{
	bool		unsure = false;
	bool		moved = false;

	for (;;)
	{
		int			rc = ask(h, order, bounds, b);

		if (rc == PGPACER_OK && h->warned)
			rc = distrust(h, b);
		if (rc == PGPACER_UNKNOWN && !unsure)
		{
			unsure = bounds->retried = true;
			continue;
		}
		if (rc == PGPACER_READ_ONLY)
		{
			connection_drop(h);
			if ((h->ntargets > 1 && !moved) || clock_us() < bounds->unreachable_us)
			{
				moved = bounds->retried = true;
				if (wait_for(-1, 0, bounds->cancel, later_us(clock_us(), READ_ONLY_PAUSE_US)) == WOKEN_TIMEOUT)
					continue;
				return handle_cancelled(h, bounds->cancel);
			}
		}
		return rc == PGPACER_UNREACHABLE && unsure ? PGPACER_UNKNOWN : rc;
	}
}

static int
check_order(pgpacer *h, const char *source, const pgpacer_book_options *options, pgpacer_book_options *o)
{
	if (!options_copy(o, sizeof *o, options))
		return handle_fail(h, PGPACER_INVALID, "the options have a wrong size or set a field unknown to this version");
	if (!valid_source(source))
		return handle_fail(h, PGPACER_INVALID, "a source's name has 1 to 255 bytes");
	if (o->permits < 1)
		return handle_fail(h, PGPACER_INVALID, "permits must be at least 1");
	if (o->max_wait_us < 0)
		return handle_fail(h, PGPACER_INVALID, "max_wait must not be negative");
	return PGPACER_OK;
}

/* The body of pgpacer_book(). */
int
book_within(pgpacer *h, const char *source, const pgpacer_book_options *options, pgpacer_booking *b)
{
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	Order		order;
	Bounds		bounds;
	int			rc;

	memset(b, 0, sizeof *b);
	rc = check_order(h, source, options, &o);
	if (rc != PGPACER_OK)
		return rc;
	strcpy(b->source, source);
	b->permits = o.permits;
	if (!o.key && !make_key(b->key))
		return handle_fail(h, PGPACER_SYSTEM, "could not make a random key: %s", strerror(errno));

	order = (Order) {
		.key = o.key ? o.key : b->key,.permits = o.permits,.max_wait_us = o.max_wait_us,.asked_us = clock_us()
	};
	bounds = handle_bounds(h, o.cancel);
	bounds.unreachable_us = sooner_us(bounds.unreachable_us, later_us(order.asked_us, o.max_wait_us));
	bounds.crowded_us = sooner_us(bounds.crowded_us, later_us(order.asked_us, o.max_wait_us));
	rc = ask_again(h, &order, &bounds, b);
	if (rc != PGPACER_OK && b->state == PGPACER_STATE_HELD)
		release_in_grace(h, b);
	if (is_away(h, rc))
		rc = away_book(h, acceptable_wait(&order, &bounds), b);
	return rc;
}

int
pgpacer_book(pgpacer *h, const char *source, const pgpacer_book_options *options, pgpacer_booking *b)
{
	int			rc = handle_enter(h);

	if (rc != PGPACER_OK)
		return rc;
	if (!b)
		return handle_leave(h, handle_fail(h, PGPACER_INVALID, "no place for the booking"));
	return handle_leave(h, book_within(h, source, options, b));
}
