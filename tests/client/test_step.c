/*
 * test_step.c - the face for event loops, child tokens, and what happens without a database
 */
#include "proxy.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

/* Polls as an event loop would, until it is done; bounded.  PGPACER_WAIT: it never was. */
static int
drive(pgpacer_step *step)
{
	int64_t		end = mono_us() + 20 * SECOND;

	while (mono_us() < end)
	{
		int			rc = pgpacer_step_on(step);
		struct pollfd fd = {.fd = pgpacer_step_fd(step),.events = pgpacer_step_events(step)};
		int64_t		us = pgpacer_step_timeout_us(step);

		if (rc != PGPACER_WAIT)
			return rc;
		poll(&fd, 1, us > SECOND ? 1000 : (int) ((us + 999) / 1000));
	}
	return PGPACER_WAIT;
}

/* Polls until the step has booked and waits for its slot; bounded. */
static void
drive_to_wait(pgpacer_step *step)
{
	int64_t		end = mono_us() + 20 * SECOND;

	while (pgpacer_step_booking(step)->state != PGPACER_STATE_HELD || pgpacer_step_timeout_us(step) == PGPACER_NO_LIMIT)
	{
		struct pollfd fd = {.fd = pgpacer_step_fd(step),.events = pgpacer_step_events(step)};

		assert_int_equal(pgpacer_step_on(step), PGPACER_WAIT);
		assert_true(mono_us() < end);
		poll(&fd, 1, 10);
	}
}

/* ------------------------------------------------------------------
 * Steps
 * ------------------------------------------------------------------ */

static void
several_in_one_loop(void **state)
{
	enum { N = 5 };
	const char *source = new_source(SECOND / 10);
	pgpacer    *h[N];
	pgpacer_step *step[N];
	int64_t		slots[N];
	int64_t		end = mono_us() + 20 * SECOND;
	int			left = N;

	(void) state;
	for (int i = 0; i < N; i++)
	{
		h[i] = open_with(NULL, NULL);
		assert_code(h[i], pgpacer_begin(&step[i], h[i], source, NULL), PGPACER_OK);
	}
	while (left > 0)
	{
		struct pollfd fds[N];
		int64_t		timeout = SECOND;

		assert_true(mono_us() < end);
		left = 0;
		for (int i = 0; i < N; i++)
		{
			int			rc = pgpacer_step_on(step[i]);

			if (rc == PGPACER_WAIT)
				left++;
			else
				assert_code(h[i], rc, PGPACER_OK);
			fds[i] = (struct pollfd) {.fd = pgpacer_step_fd(step[i]),.events = pgpacer_step_events(step[i])};
			if (rc == PGPACER_WAIT && pgpacer_step_timeout_us(step[i]) < timeout)
				timeout = pgpacer_step_timeout_us(step[i]);
		}
		if (left > 0)
			poll(fds, N, (int) ((timeout + 999) / 1000));
	}
	for (int i = 0; i < N; i++)
	{
		const pgpacer_booking *b = pgpacer_step_booking(step[i]);

		assert_int_equal(pgpacer_step_on(step[i]), PGPACER_OK);
		assert_int_equal(pgpacer_step_timeout_us(step[i]), 0);
		assert_int_equal(pgpacer_step_fd(step[i]), -1);
		assert_int_equal(b->state, PGPACER_STATE_STARTED);
		slots[i] = b->slot_at_us;
		for (int k = 0; k < i; k++)
			assert_true(llabs(slots[i] - slots[k]) >= SECOND / 10);
		pgpacer_step_end(step[i]);
		pgpacer_close(h[i]);
	}
	assert_int_equal(booked_of(source), N);
}

/* It waits without a session, and the handle is free again after the end. */
static void
a_step_that_waits_holds_nothing(void **state)
{
	const char *source = new_source(60 * SECOND);
	pgpacer_options o = PGPACER_OPTIONS_INIT;
	pgpacer    *h;
	pgpacer_step *step;
	pgpacer_booking b;
	int64_t		head;

	(void) state;
	o.application_name = "stepping";
	h = open_with(NULL, &o);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	head = head_of(source);
	assert_code(h, pgpacer_begin(&step, h, source, NULL), PGPACER_OK);
	drive_to_wait(step);
	assert_true(pgpacer_step_timeout_us(step) > 50 * SECOND);
	assert_true(becomes("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", "stepping", 0));
	assert_int_equal(head_of(source), head + 60 * SECOND);
	pgpacer_step_end(step);
	assert_int_equal(head_of(source), head);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	pgpacer_close(h);
}

/* Wherever the token fires, the slot is not held afterwards, unless the start was first. */
static void
cancelled_at_every_point(void **state)
{
	const char *source = new_source(SECOND / 5);
	pgpacer    *h = open_with(NULL, NULL);
	int			started = 0;
	int			cancelled = 0;
	int			released = 0;

	(void) state;
	for (int steps = 0; steps < 12; steps++)
	{
		pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
		pgpacer_step *step;
		int			rc = PGPACER_WAIT;

		o.cancel = pgpacer_cancel_new();
		assert_code(h, pgpacer_begin(&step, h, source, &o), PGPACER_OK);
		for (int i = 0; i < steps && rc == PGPACER_WAIT; i++)
		{
			struct pollfd fd = {.fd = pgpacer_step_fd(step),.events = pgpacer_step_events(step)};

			/* the last of them get as far as a start, however slow this is */
			poll(&fd, 1, 5 + 50 * steps);
			rc = pgpacer_step_on(step);
		}
		pgpacer_cancel_fire(o.cancel, 7);
		rc = drive(step);
		if (rc == PGPACER_OK)
			started++;
		else
		{
			assert_code(h, rc, PGPACER_CANCELLED);
			cancelled++;
			assert_int_not_equal(pgpacer_step_booking(step)->state, PGPACER_STATE_HELD);
			released += pgpacer_step_booking(step)->state == PGPACER_STATE_RELEASED;
		}
		pgpacer_step_end(step);
		pgpacer_cancel_free(o.cancel);
	}
	assert_true(started > 0 && cancelled > 0);
	/* one cancelled while the server answered "at once" has spent its permit without a start */
	assert_true(sql_int("SELECT released FROM pacer.source_status($1)", source) >= released);
	assert_true(sql_int("SELECT booked - released FROM pacer.source_status($1)", source) >= started);
	assert_true(sql_int("SELECT booked - released FROM pacer.source_status($1)", source) <= started + cancelled - released);
	pgpacer_close(h);
}

static void
a_step_that_cannot_begin(void **state)
{
	pgpacer    *h = open_with("host=/nonexistent", NULL);
	pgpacer_step *step;
	char		name[300];

	(void) state;
	memset(name, 'x', sizeof name);
	name[sizeof name - 1] = '\0';
	assert_int_equal(pgpacer_begin(NULL, h, "x", NULL), PGPACER_INVALID);
	assert_int_equal(pgpacer_begin(&step, NULL, "x", NULL), PGPACER_INVALID);
	assert_int_equal(pgpacer_begin(&step, h, name, NULL), PGPACER_INVALID);
	assert_null(step);
	pgpacer_step_end(NULL);
	assert_int_equal(pgpacer_begin(&step, h, "x", NULL), PGPACER_OK);
	assert_int_equal(drive(step), PGPACER_UNREACHABLE);
	pgpacer_step_end(step);
	pgpacer_close(h);
}

/* ------------------------------------------------------------------
 * Child tokens
 * ------------------------------------------------------------------ */

static bool
readable(const pgpacer_cancel *c)
{
	struct pollfd fd = {.fd = pgpacer_cancel_fd(c),.events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static void
children_follow_their_parent(void **state)
{
	pgpacer_cancel *parent = pgpacer_cancel_new();
	pgpacer_cancel *child = pgpacer_cancel_child(parent);
	pgpacer_cancel *grandchild = pgpacer_cancel_child(child);
	pgpacer_cancel *brother = pgpacer_cancel_child(parent);

	(void) state;
	assert_non_null(grandchild);
	assert_false(readable(grandchild));
	/* by itself: the parent and the others do not notice */
	pgpacer_cancel_fire(brother, 3);
	assert_int_equal(pgpacer_cancel_reason(brother), 3);
	assert_int_equal(pgpacer_cancel_reason(parent), 0);
	assert_int_equal(pgpacer_cancel_reason(grandchild), 0);
	assert_false(readable(parent) || readable(child) || readable(grandchild));
	/* the parent's reason reaches all but the one that had its own */
	pgpacer_cancel_fire(parent, 15);
	assert_true(readable(child) && readable(grandchild));
	assert_int_equal(pgpacer_cancel_reason(grandchild), 15);
	assert_int_equal(pgpacer_cancel_reason(child), 15);
	assert_int_equal(pgpacer_cancel_reason(brother), 3);
	pgpacer_cancel_free(brother);
	pgpacer_cancel_free(grandchild);
	pgpacer_cancel_free(child);
	pgpacer_cancel_free(parent);
}

/* A parent's deadline bounds its children, a child's own only itself. */
static void
deadlines_of_families(void **state)
{
	const char *source = new_source(3600 * SECOND);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_cancel *parent = pgpacer_cancel_new();
	pgpacer_cancel *child = pgpacer_cancel_child(parent);
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer_booking b;

	(void) state;
	assert_code(h, pgpacer_acquire(h, source, NULL, NULL), PGPACER_OK);
	o.cancel = child;
	pgpacer_cancel_deadline(child, SECOND / 10);
	/* no slot is asked for beyond it */
	assert_code(h, pgpacer_book(h, source, &o, &b), PGPACER_TOO_LATE);
	usleep(SECOND / 10);
	assert_int_equal(pgpacer_cancel_reason(child), PGPACER_REASON_DEADLINE);
	assert_int_equal(pgpacer_cancel_reason(parent), 0);
	pgpacer_cancel_free(child);

	o.cancel = child = pgpacer_cancel_child(parent);
	pgpacer_cancel_deadline(parent, SECOND / 10);
	pgpacer_cancel_deadline(child, 3600 * SECOND);
	assert_code(h, pgpacer_book(h, source, &o, &b), PGPACER_TOO_LATE);
	usleep(SECOND / 10);
	assert_int_equal(pgpacer_cancel_reason(child), PGPACER_REASON_DEADLINE);
	pgpacer_cancel_free(child);
	pgpacer_cancel_free(parent);
	pgpacer_close(h);
}

static void *
fire_soon(void *arg)
{
	usleep(SECOND / 10);
	pgpacer_cancel_fire(arg, 9);
	return NULL;
}

/* A wait on the child ends with the parent, and gives the slot back. */
static void
a_parent_ends_the_wait_of_its_child(void **state)
{
	const char *source = new_source(60 * SECOND);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_cancel *parent = pgpacer_cancel_new();
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer_booking b;
	pthread_t	thread;

	(void) state;
	assert_code(h, pgpacer_acquire(h, source, NULL, NULL), PGPACER_OK);
	o.cancel = pgpacer_cancel_child(parent);
	pthread_create(&thread, NULL, fire_soon, parent);
	assert_code(h, pgpacer_acquire(h, source, &o, &b), PGPACER_CANCELLED);
	pthread_join(thread, NULL);
	assert_int_equal(pgpacer_cancel_reason(o.cancel), 9);
	assert_int_equal(b.state, PGPACER_STATE_RELEASED);
	pgpacer_cancel_free(o.cancel);
	pgpacer_cancel_free(parent);
	pgpacer_close(h);
}

/* ------------------------------------------------------------------
 * Without a database
 * ------------------------------------------------------------------ */

static void
paced_by_the_handle(void **state)
{
	pgpacer_options o = PGPACER_OPTIONS_INIT;
	pgpacer_book_options now_or_never = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer    *h;
	pgpacer_booking b;
	int64_t		before = 0;

	(void) state;
	o.away_interval_us = SECOND / 10;
	h = open_with("host=/nonexistent", &o);
	for (int i = 0; i < 4; i++)
	{
		assert_code(h, pgpacer_acquire(h, "x", NULL, &b), PGPACER_OK);
		assert_int_equal(b.paced_by, PGPACER_BY_HANDLE);
		assert_int_equal(b.state, PGPACER_STATE_STARTED);
		assert_true(i == 0 || b.due_us - before >= SECOND / 10);
		before = b.due_us;
	}

	/* the next is not at once, and a refusal costs nothing */
	now_or_never.max_wait_us = 0;
	o.away_interval_us = 3600 * SECOND;
	pgpacer_close(h);
	h = open_with("host=/nonexistent", &o);
	assert_code(h, pgpacer_book(h, "x", &now_or_never, &b), PGPACER_OK);
	assert_code(h, pgpacer_book(h, "x", &now_or_never, &b), PGPACER_TOO_LATE);
	assert_int_equal(b.state, PGPACER_STATE_NONE);

	/* one that was given back is the next one's */
	assert_code(h, pgpacer_book(h, "x", NULL, &b), PGPACER_OK);
	assert_int_equal(b.state, PGPACER_STATE_HELD);
	before = b.due_us;
	assert_code(h, pgpacer_confirm(h, &b, NULL), PGPACER_WAIT);
	assert_code(h, pgpacer_release(h, &b), PGPACER_OK);
	assert_int_equal(b.state, PGPACER_STATE_RELEASED);
	assert_code(h, pgpacer_book(h, "x", NULL, &b), PGPACER_OK);
	assert_true(b.due_us == before);
	pgpacer_close(h);
}

/* Without the policy nothing starts; with it not before a bound that was given to wait for the database. */
static void
away_is_asked_for(void **state)
{
	pgpacer_options o = PGPACER_OPTIONS_INIT;
	pgpacer    *h = open_with("host=/nonexistent", &o);
	pgpacer_booking b;
	int64_t		before;

	(void) state;
	assert_code(h, pgpacer_acquire(h, "x", NULL, &b), PGPACER_UNREACHABLE);
	assert_int_equal(b.paced_by, PGPACER_BY_SOURCE);
	pgpacer_close(h);

	o.away_interval_us = 1;
	o.database_wait_us = SECOND / 4;
	h = open_with("host=/nonexistent", &o);
	before = mono_us();
	assert_code(h, pgpacer_acquire(h, "x", NULL, &b), PGPACER_OK);
	assert_true(mono_us() - before >= SECOND / 4);
	pgpacer_close(h);

	o.away_interval_us = -1;
	assert_int_equal(pgpacer_open(&h, NULL, &o), PGPACER_INVALID);
	pgpacer_close(h);
}

/* The database goes away between booking and start: the slot is the caller's own, and it starts then. */
static void
away_before_the_start(void **state)
{
	const char *source = new_source(SECOND / 2);
	pgpacer_options o = PGPACER_OPTIONS_INIT;
	Proxy		proxy;
	pgpacer    *h;
	pgpacer_booking b;

	(void) state;
	proxy_start(&proxy);
	o.away_interval_us = SECOND;
	o.connect_timeout_us = o.network_timeout_us = SECOND / 2;
	h = open_with(proxy.conninfo, &o);
	assert_code(h, pgpacer_acquire(h, source, NULL, &b), PGPACER_OK);
	assert_int_equal(b.paced_by, PGPACER_BY_SOURCE);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	assert_int_equal(b.state, PGPACER_STATE_HELD);
	proxy_stop(&proxy);
	assert_code(h, pgpacer_start(h, &b, NULL), PGPACER_OK);
	assert_int_equal(b.paced_by, PGPACER_BY_HANDLE);
	assert_int_equal(b.state, PGPACER_STATE_STARTED);
	assert_int_equal(sql_int("SELECT confirmed FROM pacer.source_status($1)", source), 0);
	pgpacer_close(h);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several_in_one_loop),
		cmocka_unit_test(a_step_that_waits_holds_nothing),
		cmocka_unit_test(cancelled_at_every_point),
		cmocka_unit_test(a_step_that_cannot_begin),
		cmocka_unit_test(children_follow_their_parent),
		cmocka_unit_test(deadlines_of_families),
		cmocka_unit_test(a_parent_ends_the_wait_of_its_child),
		cmocka_unit_test(paced_by_the_handle),
		cmocka_unit_test(away_is_asked_for),
		cmocka_unit_test(away_before_the_start),
	};

	return cmocka_run_group_tests(tests, connect_admin, disconnect_admin);
}
