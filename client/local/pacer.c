/*
 * pacer.c - a pacer for the threads of one process
 *
 * The callers stand in a line.  The first one starts when ext/schedule.c, asked with
 * "now or not at all", books it; so a start is recorded at the instant at which it
 * takes place, and no slot is handed out that its caller might be late for or give up:
 * lateness is never made up for by a burst, and whoever leaves the line takes nothing
 * along.  Those behind work out when their turn will come, which a start on time does
 * not change, and sleep until then: one wake-up per wait, and another one where
 * somebody in front was late.
 *
 * Guarantees: starts in the order of arrival, never earlier than the interval and burst
 * permit.  Does not guarantee that the system wakes a thread on time; one that is woken
 * late delays those behind it.
 *
 * All fields are under the mutex, which nobody holds while asleep.
 *
 * Who may race whom:
 *	- A leaves the line while B, behind it, is about to sleep until a turn worked out with
 *	  A: B holds the current Change from before it lets go of the mutex, and A fires it
 *	  (fire_change) after taking it.  B is woken and works it out again.
 *	- B's turn has come, but A before it has not woken up yet: B waits for "moved".  A is
 *	  due as well, since a turn is never before that of the one in front, so this takes
 *	  as long as A's wake-up and no longer.
 *	- resume() and a sleeper: as with A and B in the first case.
 *	- pause() and a sleeper: the sleeper wakes at its old turn, is refused, and sleeps on.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "local.h"
#include "../../ext/schedule.h"

/* the marks of another run are of no use here: there is none */
#define THIS_RUN	1

/* A caller in the line; lives on its stack. */
typedef struct Waiter
{
	struct Waiter *before;
	struct Waiter *behind;
	int32_t		permits;
	int64_t		width;			/* permits intervals */
} Waiter;

/*
 * What sleepers watch beside their own token: fired when a turn may come earlier than
 * they know.  Fired once, by then no longer the pacer's, and freed by the last of them.
 */
typedef struct Change
{
	pgpacer_cancel *token;
	int			holders;
} Change;

struct pgpacer_local
{
	pid_t		pid;
	int			max_waiting;
	int64_t		max_wait_us;
	ScheduleConfig cfg;

	pthread_mutex_t mutex;
	pthread_cond_t moved;		/* the line has: somebody is first now */
	Waiter	   *first;
	Waiter	   *last;
	int			waiting;
	Change	   *change;			/* NULL: nobody asks for one */
	int64_t		ticket;
	Schedule	schedule;
};

/* ------------------------------------------------------------------
 * The schedule
 * ------------------------------------------------------------------ */

/* One clock, which nobody can set: there is nothing to compare it with. */
static ScheduleClock
reading(int64_t now)
{
	return (ScheduleClock) {.wall = now};
}

/*
 * Starts a caller now, or says when it may: *turn_us, after now.  A refusal changes
 * nothing in the schedule (an overflow counts a booking, of which nothing depends), so
 * it needs no copy.
 */
static int
try_start(pgpacer_local *l, int32_t permits, int64_t now, int64_t *turn_us)
{
	const ScheduleClock clk = reading(now);
	const ScheduleRequest req = {.permits = permits,.max_wait_us = 0,.ticket = l->ticket};
	ScheduleBooking booking;
	ScheduleAnswer answer;

	schedule_enter(&l->schedule, &l->cfg, &clk, THIS_RUN);
	answer = schedule_book(&l->schedule, &l->cfg, now, &req, &booking);
	schedule_leave(&l->schedule, &l->cfg, &clk);
	*turn_us = booking.slot;
	switch (answer)
	{
		case SCHEDULE_OK:
			l->ticket = l->ticket < ENTRY_TICKET_MASK ? l->ticket + 1 : 1;
			return PGPACER_OK;
		case SCHEDULE_TOO_LONG:
		case SCHEDULE_PAUSED:	/* the slot is SCHEDULE_FOREVER, our "no limit" */
			return PGPACER_WAIT;
		default:
			return PGPACER_TOO_LATE;
	}
}

/*
 * When the turn of w (NULL: of somebody new) will come if everybody before it starts on
 * time: the rule of schedule.h, carried on over the line.
 */
static int64_t
turn_of(const pgpacer_local *l, const Waiter *w, int64_t now)
{
	int64_t		paused = l->schedule.logged.paused_until;
	int64_t		begin = paused > now ? paused : now;
	int64_t		head = l->schedule.un.next_request_at;
	int64_t		tolerance;

	if (head < begin)
		head = begin;
	for (const Waiter *p = l->first; p && p != w; p = p->behind)
		head = later_us(head, p->width);
	if (__builtin_mul_overflow(l->cfg.interval_us, (int64_t) l->cfg.burst - 1, &tolerance))
		return begin;
	return head - tolerance > begin ? head - tolerance : begin;
}

/* ------------------------------------------------------------------
 * The line
 * ------------------------------------------------------------------ */

static void
free_change(Change *c)
{
	if (c)
		pgpacer_cancel_free(c->token);
	free(c);
}

/* NULL: no memory or no descriptors. */
static Change *
hold_change(pgpacer_local *l)
{
	if (!l->change)
	{
		Change	   *c = calloc(1, sizeof *c);

		if (c && (c->token = pgpacer_cancel_new()) == NULL)
		{
			free(c);
			c = NULL;
		}
		l->change = c;
	}
	if (l->change)
		l->change->holders++;
	return l->change;
}

static void
drop_change(pgpacer_local *l, Change *c)
{
	c->holders--;
	if (c->holders == 0 && c != l->change)
		free_change(c);
}

/* Wakes every sleeper, to look at its turn again. */
static void
fire_change(pgpacer_local *l)
{
	if (!l->change || l->change->holders == 0)
		return;
	pgpacer_cancel_fire(l->change->token, 1);
	l->change = NULL;
}

static void
join_line(pgpacer_local *l, Waiter *w)
{
	w->before = l->last;
	w->behind = NULL;
	*(l->last ? &l->last->behind : &l->first) = w;
	l->last = w;
	l->waiting++;
}

static void
leave_line(pgpacer_local *l, Waiter *w)
{
	*(w->before ? &w->before->behind : &l->first) = w->behind;
	*(w->behind ? &w->behind->before : &l->last) = w->before;
	l->waiting--;
	pthread_cond_broadcast(&l->moved);
}

/*
 * Sleeps without the mutex, which is held on entry and on return.  PGPACER_OK: look
 * again, for whatever reason.  Bounded by until_us and cancel.
 */
static int
sleep_in_line(pgpacer_local *l, int64_t until_us, pgpacer_cancel *cancel)
{
	Change	   *c = hold_change(l);
	Woken		woken;

	if (!c)
		return PGPACER_SYSTEM;
	pthread_mutex_unlock(&l->mutex);
	woken = wait_for(pgpacer_cancel_fd(c->token), POLLIN, cancel, until_us);
	pthread_mutex_lock(&l->mutex);
	drop_change(l, c);
	return woken == WOKEN_FAILED ? PGPACER_SYSTEM : PGPACER_OK;
}

/* The mutex is held on entry and on return; w is in the line on entry only. */
static int
wait_in_line(pgpacer_local *l, Waiter *w, pgpacer_cancel *cancel)
{
	int			rc = PGPACER_WAIT;

	for (;;)
	{
		int64_t		now = clock_us();
		int64_t		turn;

		if (cancel && pgpacer_cancel_reason(cancel) != 0)
			rc = code_of_token(cancel);
		else if (w == l->first)
			rc = try_start(l, w->permits, now, &turn);
		else
			turn = turn_of(l, w, now);
		if (rc != PGPACER_WAIT)
			break;

		if (turn > now)
		{
			if ((rc = sleep_in_line(l, turn, cancel)) != PGPACER_OK)
				break;
			rc = PGPACER_WAIT;
		}
		else
			pthread_cond_wait(&l->moved, &l->mutex);
	}
	leave_line(l, w);
	if (rc != PGPACER_OK && w->behind)
		fire_change(l);			/* those behind move up */
	return rc;
}

/* ------------------------------------------------------------------
 * Acquiring
 * ------------------------------------------------------------------ */

/* May a caller stand in the line until turn_us? */
static int
check_limits(const pgpacer_local *l, const pgpacer_book_options *o, int64_t now, int64_t turn_us)
{
	int64_t		max_wait = sooner_us(l->max_wait_us, o->max_wait_us);
	int64_t		deadline = cancel_deadline_us(o->cancel);

	if (l->max_waiting >= 0 && l->waiting >= l->max_waiting)
		return PGPACER_FULL;
	if (max_wait != PGPACER_NO_LIMIT && turn_us - now > max_wait)
		return PGPACER_TOO_LATE;
	if (deadline != PGPACER_NO_LIMIT && turn_us > deadline)
		return PGPACER_TOO_LATE;
	return PGPACER_OK;
}

/* With somebody in the line a newcomer goes behind, even if two may start at once. */
static int
acquire_locked(pgpacer_local *l, const pgpacer_book_options *o, Waiter *w)
{
	int64_t		now = clock_us();
	int64_t		turn;
	int			rc;

	if (l->first)
		turn = turn_of(l, NULL, now);
	else if ((rc = try_start(l, w->permits, now, &turn)) != PGPACER_WAIT)
		return rc;
	if ((rc = check_limits(l, o, now, turn)) != PGPACER_OK)
		return rc;
	join_line(l, w);
	return wait_in_line(l, w, o->cancel);
}

static int
check_acquire(const pgpacer_local *l, const pgpacer_book_options *options, pgpacer_book_options *o, Waiter *w)
{
	if (!l || !options_copy(o, sizeof *o, options) || o->permits < 1 || o->max_wait_us < 0 || o->key ||
		__builtin_mul_overflow(l->cfg.interval_us, (int64_t) o->permits, &w->width))
		return PGPACER_INVALID;
	if (l->pid != getpid())		/* somebody may have held the mutex when it was copied */
		return PGPACER_FORKED;
	w->permits = o->permits;
	return o->cancel ? code_of_token(o->cancel) : PGPACER_OK;
}

static int
acquire(pgpacer_local *l, const pgpacer_book_options *options, pgpacer_book_options *o)
{
	Waiter		w;
	int			rc = check_acquire(l, options, o, &w);

	if (rc != PGPACER_OK)
		return rc;
	pthread_mutex_lock(&l->mutex);
	rc = acquire_locked(l, o, &w);
	pthread_mutex_unlock(&l->mutex);
	return rc;
}

int
pgpacer_local_acquire(pgpacer_local *l, const pgpacer_book_options *options)
{
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;

	return acquire(l, options, &o);
}

int
pgpacer_local_run(pgpacer_local *l, const pgpacer_book_options *options, pgpacer_task task, void *arg, int *result)
{
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	int			returned;
	int			rc = task ? acquire(l, options, &o) : PGPACER_INVALID;

	if (rc != PGPACER_OK)
		return rc;
	returned = task(o.cancel, arg);
	if (result)
		*result = returned;
	return PGPACER_OK;
}

/* ------------------------------------------------------------------
 * Pausing, looking
 * ------------------------------------------------------------------ */

int
pgpacer_local_pause(pgpacer_local *l, int64_t us)
{
	int64_t		now = clock_us();
	const ScheduleClock clk = reading(now);
	int64_t		until = later_us(now, us);

	if (!l)
		return PGPACER_INVALID;
	if (l->pid != getpid())
		return PGPACER_FORKED;
	if (until > SCHEDULE_END)
		until = SCHEDULE_FOREVER;
	pthread_mutex_lock(&l->mutex);
	schedule_enter(&l->schedule, &l->cfg, &clk, THIS_RUN);
	schedule_pause(&l->schedule, &l->cfg, now, until);	/* no entry waits, so none moves */
	schedule_leave(&l->schedule, &l->cfg, &clk);
	pthread_mutex_unlock(&l->mutex);
	return PGPACER_OK;
}

int
pgpacer_local_resume(pgpacer_local *l)
{
	if (!l)
		return PGPACER_INVALID;
	if (l->pid != getpid())
		return PGPACER_FORKED;
	pthread_mutex_lock(&l->mutex);
	schedule_resume(&l->schedule);
	fire_change(l);
	pthread_mutex_unlock(&l->mutex);
	return PGPACER_OK;
}

int
pgpacer_local_waiting(pgpacer_local *l)
{
	int			n;

	if (!l || l->pid != getpid())
		return -1;
	pthread_mutex_lock(&l->mutex);
	n = l->waiting;
	pthread_mutex_unlock(&l->mutex);
	return n;
}

/* ------------------------------------------------------------------
 * Making and freeing
 * ------------------------------------------------------------------ */

/* The interval of a rate, rounded up; 0: there is none that fits. */
static int64_t
interval_of_rate(double per_second)
{
	double		us = 1000000 / per_second;
	int64_t		whole;

	if (!(per_second > 0) || !(us < 9e18))
		return 0;
	whole = (int64_t) us;
	/* the quotient was rounded: what counts is that so many intervals fill a second */
	while ((long double) whole * per_second < 1000000)
		whole++;
	return whole;
}

int
pgpacer_local_new(pgpacer_local **pacer, const pgpacer_local_options *options)
{
	pgpacer_local_options o = PGPACER_LOCAL_OPTIONS_INIT;
	pgpacer_local *l;

	if (!pacer)
		return PGPACER_INVALID;
	*pacer = NULL;
	if (!options_copy(&o, sizeof o, options) || (o.interval_us != 0) == (o.per_second != 0))
		return PGPACER_INVALID;
	if (o.interval_us == 0)
		o.interval_us = interval_of_rate(o.per_second);
	if (o.interval_us <= 0 || o.burst < 1 || o.max_waiting < -1 || o.max_wait_us < 0)
		return PGPACER_INVALID;

	l = calloc(1, sizeof *l);
	if (!l)
		return PGPACER_NO_MEMORY;
	l->pid = getpid();
	l->max_waiting = o.max_waiting;
	l->max_wait_us = o.max_wait_us;
	/* the line, and how long it may be, is ours; the schedule knows of starts only */
	l->cfg = (ScheduleConfig) {
		.interval_us = o.interval_us,.burst = o.burst,.max_waiting = -1,.max_wait_us = -1
	};
	l->ticket = 1;
	schedule_init(&l->schedule, SCHEDULE_MIN_REMEMBERED);
	pthread_mutex_init(&l->mutex, NULL);
	pthread_cond_init(&l->moved, NULL);
	*pacer = l;
	return PGPACER_OK;
}

/* In a forked child mutex and condition may be in use by threads that are not there. */
void
pgpacer_local_free(pgpacer_local *l)
{
	if (!l)
		return;
	if (l->pid == getpid())
	{
		pthread_cond_destroy(&l->moved);
		pthread_mutex_destroy(&l->mutex);
	}
	free_change(l->change);
	free(l);
}
