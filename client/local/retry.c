/*
 * retry.c - trying again
 *
 * Each attempt is a call like any other and gets its slot at the tail, behind those who
 * came meanwhile: a caller that fails does not start more often than one that does not.
 */
#define _GNU_SOURCE				/* getentropy */

#include <unistd.h>

#include "local.h"

/* Up to all of us is left, at least half. */
static int64_t
jitter(int64_t us)
{
	uint64_t	random = 0;

	if (getentropy(&random, sizeof random) != 0)
		random = 0;				/* the whole time is always right */
	return us - (int64_t) (random % ((uint64_t) us / 2 + 1));
}

/* The time to leave after that many attempts. */
static int64_t
backoff(const pgpacer_retry_options *o, int attempts)
{
	int64_t		us = o->backoff_us;

	while (--attempts > 0 && us > 0 && us < o->backoff_max_us)
		us = later_us(us, us);
	return jitter(sooner_us(us, o->backoff_max_us));
}

/*
 * "Nobody before" for everybody who uses the source, so it is said even if this
 * caller's token has fired, within grace.  A pause only ever extends: twice is safe.
 */
static int
pause_source(pgpacer *h, const char *source, int64_t us, pgpacer_cancel *cancel)
{
	Statement	s;
	Bounds		bounds;
	PGresult   *res;
	int64_t		arrived;
	int			rc = handle_enter(h);

	if (rc != PGPACER_OK)
		return rc;
	bounds = handle_bounds(h, NULL);
	if (cancel && pgpacer_cancel_reason(cancel) != 0)
		bounds.end_us = handle_grace_end(h);
	statement_init(&s, "SELECT pacer.pause($1, $2)");
	add_text(&s, source);
	if (us == PGPACER_NO_LIMIT)
		add_text(&s, "infinity");	/* an interval has no such value before 17 */
	else
		add_interval(&s, us);
	rc = query_run_idempotent(h, &s, &bounds, &res, &arrived);
	PQclear(res);
	return handle_leave(h, rc);
}

static int
hold_up(const pgpacer_retry_options *o, int64_t us)
{
	if (o->local)
		return pgpacer_local_pause(o->local, us);
	if (o->handle)
		return pause_source(o->handle, o->source, us, o->cancel);
	return PGPACER_OK;
}

/* A slot for the next attempt. */
static int
acquire_slot(const pgpacer_retry_options *o, const pgpacer_book_options *book)
{
	if (o->local)
		return pgpacer_local_acquire(o->local, book);
	if (o->handle)
		return pgpacer_acquire(o->handle, o->source, book, NULL);
	return o->cancel ? code_of_token(o->cancel) : PGPACER_OK;
}

/*
 * What is left to wait after an attempt, beside the next slot.  Where there is a
 * schedule the upstream's wish is in it already.
 */
static int64_t
quiet_after(const pgpacer_retry_options *o, const pgpacer_attempt *a)
{
	if (a->retry_after_us <= 0)
		return backoff(o, a->number);
	return o->local || o->handle ? 0 : a->retry_after_us;
}

static int
check_retry(const pgpacer_retry_options *options, pgpacer_retry_options *o, pgpacer_book_options *book)
{
	if (!options_copy(o, sizeof *o, options) || !options_copy(book, sizeof *book, o->book))
		return PGPACER_INVALID;
	if (o->attempts < 1 || o->backoff_us < 0 || o->backoff_max_us < 0 || book->key ||
		(o->handle != NULL) != (o->source != NULL) || (o->local && o->handle))
		return PGPACER_INVALID;
	book->cancel = o->cancel;
	return PGPACER_OK;
}

static bool
is_refusal(int rc)
{
	return rc == PGPACER_FULL || rc == PGPACER_TOO_LATE;
}

int
pgpacer_retry(const pgpacer_retry_options *options, pgpacer_retry_work work, void *arg, int *result, int *called)
{
	pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;
	pgpacer_book_options book = PGPACER_BOOK_OPTIONS_INIT;
	int			ncalls = 0;
	int			rc = work ? check_retry(options, &o, &book) : PGPACER_INVALID;

	if (called)
		*called = 0;
	for (int number = 1; rc == PGPACER_OK; number++)
	{
		pgpacer_attempt a = {.number = number,.cancel = o.cancel};
		bool		last = number >= o.attempts;

		rc = acquire_slot(&o, &book);
		if (rc == PGPACER_OK)
		{
			int			returned = work(&a, arg);

			if (result)
				*result = returned;
			if (called)
				*called = ++ncalls;
			if (a.retry_after_us > 0)
				rc = hold_up(&o, a.retry_after_us);
			if (rc != PGPACER_OK || returned == 0 || last || (o.retry_if && !o.retry_if(&a, returned, arg)))
				break;
		}
		else if (last || !o.retry_refused || !is_refusal(rc))
			break;
		rc = pgpacer_sleep(quiet_after(&o, &a), o.cancel);
	}
	return rc;
}
