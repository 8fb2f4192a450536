/*
 * test_wait.c - waiting: never early, never spinning, however long, whatever signals
 */
#include "support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

/* A booking that is due in that long, without a server. */
static pgpacer_booking
due_in(int64_t us)
{
	pgpacer_booking b;

	assert_int_equal(pgpacer_booking_init(&b, "no such source", 1, 0), PGPACER_OK);
	b.due_us = us < INT64_MAX - b.due_us ? b.due_us + us : INT64_MAX;
	return b;
}

static pgpacer *
offline(void)
{
	return open_with("host=/nonexistent", NULL);
}

static void
waits_its_time(void **state)
{
	pgpacer    *h = offline();

	(void) state;
	for (int64_t us = 0; us < 20000; us += 777)
	{
		pgpacer_booking b = due_in(us);
		int64_t		before = mono_us();

		assert_code(h, pgpacer_wait(h, &b, NULL), PGPACER_OK);
		/* due_us was truncated to a microsecond, so was our clock */
		assert_true(mono_us() - before + 200 >= us);
	}
	pgpacer_close(h);
}

static void
on_alarm(int signo)
{
	(void) signo;
}

/* An interrupted poll is neither the end of the wait nor its beginning anew. */
static void
signals_change_nothing(void **state)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval storm = {{0, 10000}, {0, 10000}};
	struct itimerval calm = {{0, 0}, {0, 0}};
	pgpacer    *h = offline();
	pgpacer_booking b;
	int64_t		before;
	int64_t		took;

	(void) state;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &storm, NULL);
	before = mono_us();
	b = due_in(2 * SECOND);
	assert_code(h, pgpacer_wait(h, &b, NULL), PGPACER_OK);
	took = mono_us() - before;
	setitimer(ITIMER_REAL, &calm, NULL);
	print_message("# 2 s under SIGALRM every 10 ms took %" PRId64 " us\n", took);
	assert_true(took >= 2 * SECOND);
	assert_true(took < 3 * SECOND);
	pgpacer_close(h);
}

static void *
fire_later(void *arg)
{
	usleep(1200000);
	pgpacer_cancel_fire(arg, 42);
	return NULL;
}

/* 2^32 ms and 5 s would be 5 s in 32 bits; INT64_MAX us overflows any sum. */
static void
long_waits_go_on(void **state)
{
	const int64_t waits[] = {((INT64_C(1) << 32) + 5000) * 1000, ((INT64_C(1) << 31) + 5) * 1000, INT64_MAX};
	pgpacer_options o = PGPACER_OPTIONS_INIT;

	(void) state;
	for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
	{
		pgpacer_cancel *c = pgpacer_cancel_new();
		pgpacer    *h = open_with("host=/nonexistent", &o);
		pgpacer_booking b = due_in(waits[i]);
		pthread_t	thread;
		struct rusage before;
		struct rusage after;
		int64_t		start = mono_us();
		int64_t		cpu = cpu_us();

		getrusage(RUSAGE_THREAD, &before);
		pthread_create(&thread, NULL, fire_later, c);
		assert_code(h, pgpacer_wait(h, &b, c), PGPACER_CANCELLED);
		getrusage(RUSAGE_THREAD, &after);
		assert_true(mono_us() - start >= SECOND);
		assert_true(cpu_us() - cpu < SECOND / 20);
		assert_true(after.ru_nvcsw - before.ru_nvcsw < 20);
		assert_int_equal(pgpacer_cancel_reason(c), 42);
		pthread_join(thread, NULL);
		pgpacer_close(h);
		pgpacer_cancel_free(c);
	}
}

static void
a_fired_token_ends_it_at_once(void **state)
{
	pgpacer_cancel *c = pgpacer_cancel_new();
	pgpacer    *h = offline();
	pgpacer_booking b = due_in(3600 * SECOND);
	pgpacer_booking due = due_in(0);

	(void) state;
	pgpacer_cancel_fire(c, 7);
	pgpacer_cancel_fire(c, 8);
	assert_int_equal(pgpacer_cancel_reason(c), 7);
	assert_code(h, pgpacer_wait(h, &b, c), PGPACER_CANCELLED);
	assert_code(h, pgpacer_wait(h, &due, c), PGPACER_CANCELLED);
	pgpacer_close(h);
	pgpacer_cancel_free(c);
}

static void
a_deadline_fires_the_token(void **state)
{
	pgpacer_cancel *c = pgpacer_cancel_new();
	pgpacer    *h = offline();
	pgpacer_booking b = due_in(3600 * SECOND);
	int64_t		before = mono_us();

	(void) state;
	pgpacer_cancel_deadline(c, 1);
	pgpacer_cancel_deadline(c, PGPACER_NO_LIMIT);
	assert_int_equal(pgpacer_cancel_reason(c), 0);
	pgpacer_cancel_deadline(c, 100000);
	assert_code(h, pgpacer_wait(h, &b, c), PGPACER_DEADLINE);
	assert_true(mono_us() - before >= 100000);
	assert_int_equal(pgpacer_cancel_reason(c), PGPACER_REASON_DEADLINE);
	pgpacer_close(h);
	pgpacer_cancel_free(c);
}

/* Four threads at 1500 us: nobody starts before the slot by the server's clock, which is ours. */
#define STARTS 50

static const char *fast;

static void *
start_often(void *early)
{
	pgpacer    *h = open_with(NULL, NULL);

	for (int i = 0; i < STARTS; i++)
	{
		pgpacer_booking b;

		if (pgpacer_acquire(h, fast, NULL, &b) != PGPACER_OK || now_us(CLOCK_REALTIME) < b.slot_at_us)
			++*(int *) early;
	}
	pgpacer_close(h);
	return NULL;
}

static void
many_short_waits(void **state)
{
	pthread_t	threads[4];
	int			early[4] = {0};
	int64_t		before;
	int64_t		took;

	(void) state;
	fast = new_source(1500);
	before = mono_us();
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, start_often, &early[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	took = mono_us() - before;
	for (int i = 0; i < 4; i++)
		assert_int_equal(early[i], 0);
	assert_true(took >= (4 * STARTS - 1) * 1500);
	assert_int_equal(booked_of(fast), 4 * STARTS);
}

/* While a caller waits the server has no session of it; a short wait keeps one, idle. */
static void
waiting_holds_nothing(void **state)
{
	const char *source = new_source(2 * SECOND);
	pgpacer_options o = PGPACER_OPTIONS_INIT;
	pgpacer_cancel *c = pgpacer_cancel_new();
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_booking b;
	pthread_t	thread;

	(void) state;
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	assert_int_equal(sessions(), 1);
	assert_int_equal(sql_int("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND "
							 "(backend_xmin IS NOT NULL OR xact_start IS NOT NULL)", "pgpacer"), 0);
	pthread_create(&thread, NULL, fire_later, c);
	/* the token fires after 1.2 s, the slot is 2 s away: released over a new connection */
	assert_code(h, pgpacer_wait(h, &b, c), PGPACER_CANCELLED);
	pthread_join(thread, NULL);
	assert_int_equal(b.state, PGPACER_STATE_RELEASED);
	pgpacer_close(h);

	o.keep_connection_us = 0;
	h = open_with(NULL, &o);
	assert_code(h, pgpacer_book(h, new_source(1000), NULL, &b), PGPACER_OK);
	assert_code(h, pgpacer_wait(h, &b, NULL), PGPACER_OK);
	pgpacer_close(h);
	assert_true(becomes("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", "pgpacer", 0));
	pgpacer_cancel_free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_its_time),
		cmocka_unit_test(signals_change_nothing),
		cmocka_unit_test(long_waits_go_on),
		cmocka_unit_test(a_fired_token_ends_it_at_once),
		cmocka_unit_test(a_deadline_fires_the_token),
		cmocka_unit_test(many_short_waits),
		cmocka_unit_test(waiting_holds_nothing),
	};

	return cmocka_run_group_tests(tests, connect_admin, disconnect_admin);
}
