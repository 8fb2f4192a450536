/*
 * step.c - booking, waiting and confirming for event loops
 *
 * The phases of pgpacer_acquire(), taken one at a time.  Those that use the network run the
 * ordinary calls in a thread, which tells its end through a token; so a look-up of a
 * host's name, which libpq cannot do without blocking, blocks nobody either.  In between,
 * a step that waits is memory and nothing else.
 *
 * Guarantees: no function but pgpacer_step_end() blocks; what pgpacer_acquire() guarantees.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "local/local.h"

typedef enum Phase
{
	PHASE_BOOK,					/* in the thread */
	PHASE_WAIT,					/* for the slot */
	PHASE_CONFIRM,				/* in the thread */
	PHASE_RELEASE,				/* in the thread */
	PHASE_DONE
} Phase;

struct pgpacer_step
{
	pgpacer    *h;
	char		source[256];
	char	   *key;
	bool		confirm;
	pgpacer_book_options opt;
	pgpacer_cancel *token;		/* ours, a child of the caller's */
	pgpacer_cancel *ended;		/* fired when the thread is */
	pthread_t	thread;
	Phase		phase;
	int			rc;				/* of the thread, then of the whole */
	int			final;			/* PHASE_RELEASE: what it ends with */
	pgpacer_booking booking;	/* the thread's while there is one */
	pgpacer_booking shown;
};

/* ------------------------------------------------------------------
 * The thread
 * ------------------------------------------------------------------ */

static void *
use_network(void *arg)
{
	pgpacer_step *s = arg;

	switch (s->phase)
	{
		case PHASE_BOOK:
			s->rc = pgpacer_book(s->h, s->source, &s->opt, &s->booking);
			break;
		case PHASE_CONFIRM:
			s->rc = pgpacer_confirm(s->h, &s->booking, s->token);
			break;
		default:
			s->rc = pgpacer_release(s->h, &s->booking);
	}
	pgpacer_cancel_fire(s->ended, 1);
	return NULL;
}

/* Goes over to a phase of the network; without a thread to be had, or a token, to the end. */
static void
begin_phase(pgpacer_step *s, Phase phase)
{
	s->phase = phase;
	pgpacer_cancel_free(s->ended);
	s->ended = pgpacer_cancel_new();
	if (!s->ended || thread_begin(&s->thread, use_network, s) != 0)
	{
		s->phase = PHASE_DONE;
		s->rc = PGPACER_SYSTEM;
	}
}

static bool
in_thread(const pgpacer_step *s)
{
	return s->phase == PHASE_BOOK || s->phase == PHASE_CONFIRM || s->phase == PHASE_RELEASE;
}

static void
finish(pgpacer_step *s, int rc)
{
	s->phase = PHASE_DONE;
	s->rc = rc;
}

/* Gives the slot back, then ends with rc. */
static void
give_up(pgpacer_step *s, int rc)
{
	s->final = rc;
	begin_phase(s, PHASE_RELEASE);
	if (s->phase == PHASE_DONE)
		s->rc = rc;
}

/* A long wait is spent without a connection. */
static void
begin_wait(pgpacer_step *s)
{
	s->phase = PHASE_WAIT;
	if (s->booking.due_us - clock_us() > s->h->opt.keep_connection_us && handle_enter(s->h) == PGPACER_OK)
	{
		connection_drop(s->h);
		handle_leave(s->h, PGPACER_OK);
	}
}

/* The thread has ended with s->rc. */
static void
after_network(pgpacer_step *s)
{
	pthread_join(s->thread, NULL);
	s->shown = s->booking;
	if (s->phase == PHASE_RELEASE)
		finish(s, s->final);
	else if (s->rc == PGPACER_WAIT || (s->rc == PGPACER_OK && s->booking.state == PGPACER_STATE_HELD))
		begin_wait(s);
	else if (s->phase == PHASE_CONFIRM && (s->rc == PGPACER_CANCELLED || s->rc == PGPACER_DEADLINE))
		give_up(s, s->rc);
	else
		finish(s, s->rc);
}

/* ------------------------------------------------------------------
 * The functions
 * ------------------------------------------------------------------ */

static int
check_begin(pgpacer_step *s, const char *source, const pgpacer_book_options *options)
{
	s->opt = (pgpacer_book_options) PGPACER_BOOK_OPTIONS_INIT;
	if (!options_copy(&s->opt, sizeof s->opt, options) || !source || strlen(source) >= sizeof s->source)
		return PGPACER_INVALID;
	memcpy(s->source, source, strlen(source) + 1);
	s->confirm = s->opt.confirm != 0 ? s->opt.confirm > 0 : CONFIRM_BY_DEFAULT;
	if (s->opt.key && !(s->key = strdup(s->opt.key)))
		return PGPACER_NO_MEMORY;
	s->opt.key = s->key;
	s->token = pgpacer_cancel_child(s->opt.cancel);
	s->opt.cancel = s->token;
	return s->token ? PGPACER_OK : PGPACER_SYSTEM;
}

int
pgpacer_begin(pgpacer_step **step, pgpacer *h, const char *source, const pgpacer_book_options *options)
{
	pgpacer_step *s;
	int			rc;

	if (!step)
		return PGPACER_INVALID;
	*step = NULL;
	if (!h)
		return PGPACER_INVALID;
	s = calloc(1, sizeof *s);
	if (!s)
		return PGPACER_NO_MEMORY;
	s->h = h;
	s->phase = PHASE_DONE;
	rc = check_begin(s, source, options);
	if (rc == PGPACER_OK)
	{
		begin_phase(s, PHASE_BOOK);
		if (s->phase == PHASE_DONE)
			rc = s->rc;
	}
	if (rc == PGPACER_OK)
		*step = s;
	else
		pgpacer_step_end(s);
	return rc;
}

int
pgpacer_step_on(pgpacer_step *s)
{
	if (!s)
		return PGPACER_INVALID;
	if (in_thread(s))
	{
		if (pgpacer_cancel_reason(s->ended) == 0)
			return PGPACER_WAIT;
		after_network(s);
	}
	if (s->phase == PHASE_WAIT)
	{
		if (pgpacer_cancel_reason(s->token) != 0)
			give_up(s, code_of_token(s->token));
		else if (clock_us() >= s->booking.due_us)
		{
			if (s->confirm && s->booking.state == PGPACER_STATE_HELD)
				begin_phase(s, PHASE_CONFIRM);
			else
				finish(s, PGPACER_OK);
		}
	}
	return s->phase == PHASE_DONE ? s->rc : PGPACER_WAIT;
}

int
pgpacer_step_fd(const pgpacer_step *s)
{
	if (!s || s->phase == PHASE_DONE)
		return -1;
	return pgpacer_cancel_fd(s->phase == PHASE_WAIT ? s->token : s->ended);
}

short
pgpacer_step_events(const pgpacer_step *s)
{
	(void) s;
	return POLLIN;
}

int64_t
pgpacer_step_timeout_us(const pgpacer_step *s)
{
	int64_t		until;
	int64_t		now;

	if (!s || s->phase == PHASE_DONE)
		return 0;
	if (s->phase != PHASE_WAIT)
		return PGPACER_NO_LIMIT;
	until = sooner_us(s->booking.due_us, cancel_deadline_us(s->token));
	now = clock_us();
	return until > now ? until - now : 0;
}

const pgpacer_booking *
pgpacer_step_booking(const pgpacer_step *s)
{
	return s ? &s->shown : NULL;
}

void
pgpacer_step_end(pgpacer_step *s)
{
	if (!s)
		return;
	if (s->phase != PHASE_DONE)
		pgpacer_cancel_fire(s->token, 1);
	while (pgpacer_step_on(s) == PGPACER_WAIT)
		wait_for(pgpacer_step_fd(s), POLLIN, NULL, PGPACER_NO_LIMIT);
	/* it was booked, or confirmed, before the token was seen: it is started, or was released */
	pgpacer_cancel_free(s->ended);
	pgpacer_cancel_free(s->token);
	free(s->key);
	free(s);
}
