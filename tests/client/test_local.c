/*
 * test_local.c - the in-process toolkit; no server is needed
 */
#include "support.h"

#include <pthread.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "pgpacer_local.h"

#define MS INT64_C(1000)
#define HOUR (3600 * SECOND)

/* far more than anything here takes, and bounded all the same */
#define LONG_ENOUGH (20 * SECOND)

/* ------------------------------------------------------------------
 * Sleeping
 * ------------------------------------------------------------------ */

static int64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void
sleeps_its_time(void **state)
{
	(void) state;
	for (int64_t us = -1; us < 10000; us += 97)
	{
		int64_t		before = now_ns();

		assert_int_equal(pgpacer_sleep(us, NULL), PGPACER_OK);
		/* the clocks of the two may be read to different parts of a microsecond */
		assert_true(now_ns() - before + 1000 >= us * 1000);
	}
	assert_int_equal(pgpacer_sleep(INT64_MIN, NULL), PGPACER_OK);
}

static void
on_alarm(int signo)
{
	(void) signo;
}

static void
signals_do_not_shorten_it(void **state)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval storm = {{0, 5000}, {0, 5000}};
	struct itimerval calm = {{0, 0}, {0, 0}};
	int64_t		before = mono_us();

	(void) state;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &storm, NULL);
	assert_int_equal(pgpacer_sleep(300 * MS, NULL), PGPACER_OK);
	setitimer(ITIMER_REAL, &calm, NULL);
	assert_true(mono_us() - before >= 300 * MS);
}

static void *
fire_soon(void *cancel)
{
	usleep(300000);
	pgpacer_cancel_fire(cancel, 42);
	return NULL;
}

/* 2^32 ms and 5 s would be 5 s in 32 bits; INT64_MAX us overflows any sum. */
static void
any_length_can_be_cancelled(void **state)
{
	const int64_t lengths[] = {5 * SECOND, ((INT64_C(1) << 32) + 5000) * 1000, INT64_MAX - 1, PGPACER_NO_LIMIT};

	(void) state;
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
	{
		pgpacer_cancel *c = pgpacer_cancel_new();
		pthread_t	thread;
		int64_t		cpu = cpu_us();

		pthread_create(&thread, NULL, fire_soon, c);
		assert_int_equal(pgpacer_sleep(lengths[i], c), PGPACER_CANCELLED);
		pthread_join(thread, NULL);
		assert_int_equal(pgpacer_cancel_reason(c), 42);
		assert_true(cpu_us() - cpu < 150 * MS);
		/* fired already: not even a sleep of no length is over */
		assert_int_equal(pgpacer_sleep(0, c), PGPACER_CANCELLED);
		pgpacer_cancel_free(c);
	}
}

static void
a_deadline_ends_it(void **state)
{
	pgpacer_cancel *c = pgpacer_cancel_new();
	int64_t		before = mono_us();

	(void) state;
	pgpacer_cancel_deadline(c, 50 * MS);
	assert_int_equal(pgpacer_sleep(HOUR, c), PGPACER_DEADLINE);
	assert_true(mono_us() - before + 1 >= 50 * MS);
	pgpacer_cancel_free(c);
}

/* ------------------------------------------------------------------
 * Deadlines
 * ------------------------------------------------------------------ */

static int
return_seven(pgpacer_cancel *cancel, void *arg)
{
	*(int *) arg = pgpacer_cancel_reason(cancel);
	return 7;
}

static int
sleep_long(pgpacer_cancel *cancel, void *arg)
{
	(void) arg;
	return pgpacer_sleep(LONG_ENOUGH, cancel);
}

/* An event loop of its own, which never asks the library. */
static int
poll_long(pgpacer_cancel *cancel, void *arg)
{
	struct pollfd fd = {.fd = pgpacer_cancel_fd(cancel),.events = POLLIN};

	(void) arg;
	return poll(&fd, 1, (int) (LONG_ENOUGH / 1000));
}

static void
in_time_is_no_error(void **state)
{
	const int64_t limits[] = {LONG_ENOUGH, PGPACER_NO_LIMIT};

	(void) state;
	for (size_t i = 0; i < 2; i++)
	{
		pgpacer_error error = {.code = -1};
		int			reason = -1;
		int			result = 0;

		assert_int_equal(pgpacer_with_deadline(limits[i], NULL, return_seven, &reason, &result, &error), PGPACER_OK);
		assert_int_equal(result, 7);
		assert_int_equal(reason, 0);
		assert_int_equal(error.code, -1);
		assert_int_equal(pgpacer_with_deadline(limits[i], NULL, return_seven, &reason, NULL, NULL), PGPACER_OK);
	}
}

static void
late_work_is_told_and_named(void **state)
{
	pgpacer_error error;
	int			result = 0;
	int			reason = 0;
	int64_t		before = mono_us();
	int			line = __LINE__ + 3;

	(void) state;
	assert_int_equal(pgpacer_with_deadline(60 * MS, NULL, sleep_long, NULL, &result, &error), PGPACER_DEADLINE);
	assert_true(mono_us() - before + 1 >= 60 * MS);
	assert_int_equal(result, PGPACER_DEADLINE);
	assert_int_equal(error.code, PGPACER_DEADLINE);
	assert_string_equal(error.task, "sleep_long");
	assert_string_equal(error.function, "late_work_is_told_and_named");
	assert_int_equal(error.line, line);
	assert_non_null(strstr(error.file, "test_local.c"));
	assert_non_null(strstr(error.message, "sleep_long passed its deadline of 60 ms"));
	assert_non_null(strstr(error.message, "test_local.c:"));
	assert_true(error.limit_us == 60 * MS && error.took_us + 1 >= 60 * MS);

	/* a loop of the task's own is woken too */
	assert_int_equal(pgpacer_with_deadline(60 * MS, NULL, poll_long, NULL, &result, &error), PGPACER_DEADLINE);
	assert_int_equal(result, 1);

	/* no time at all: the task is called, and told */
	assert_int_equal(pgpacer_with_deadline(0, NULL, return_seven, &reason, &result, &error), PGPACER_DEADLINE);
	assert_int_equal(reason, PGPACER_REASON_DEADLINE);
	assert_int_equal(result, 7);

	assert_int_equal(pgpacer_with_deadline(0, NULL, NULL, NULL, NULL, &error), PGPACER_INVALID);
	assert_non_null(strstr(error.message, "was not called"));
}

static void
the_parent_is_heard(void **state)
{
	pgpacer_cancel *parent = pgpacer_cancel_new();
	pgpacer_cancel *hasty = pgpacer_cancel_new();
	pgpacer_error error;
	pthread_t	thread;
	int			reason = 0;
	int			result;

	(void) state;
	pthread_create(&thread, NULL, fire_soon, parent);
	assert_int_equal(pgpacer_with_deadline(HOUR, parent, poll_long, NULL, &result, &error), PGPACER_CANCELLED);
	pthread_join(thread, NULL);
	assert_int_equal(result, 1);
	assert_non_null(strstr(error.message, "was cancelled"));

	/* one that has fired: with its reason */
	assert_int_equal(pgpacer_with_deadline(HOUR, parent, return_seven, &reason, &result, &error), PGPACER_CANCELLED);
	assert_int_equal(reason, 42);

	/* the sooner of two deadlines */
	pgpacer_cancel_deadline(hasty, 30 * MS);
	assert_int_equal(pgpacer_with_deadline(HOUR, hasty, poll_long, NULL, &result, &error), PGPACER_DEADLINE);
	assert_int_equal(result, 1);
	pgpacer_cancel_free(parent);
	pgpacer_cancel_free(hasty);
}

/* ------------------------------------------------------------------
 * Many items
 * ------------------------------------------------------------------ */

#define ITEMS 200

typedef struct Load
{
	atomic_int	running;
	atomic_int	most;
	atomic_int	calls;
	atomic_int	stops;
	atomic_int	busy[16];		/* by worker */
	pgpacer_cancel *cancel;		/* fired by item 50 */
} Load;

static int
square(const pgpacer_item *item, void *arg)
{
	Load	   *load = arg;
	int			running = ++load->running;
	int			most = load->most;

	while (running > most && !atomic_compare_exchange_weak(&load->most, &most, running))
		;
	load->calls++;
	if (load->busy[item->worker]++ != 0)
		running = -1;			/* two at a time under one number */
	if (item->index == 50)
		pgpacer_cancel_fire(load->cancel, 5);
	usleep((useconds_t) (item->index % 3) * 200);
	load->busy[item->worker]--;
	load->running--;
	return running < 0 ? -1 : (int) (item->index * item->index);
}

static void
results_come_by_index(void **state)
{
	const int	workers[] = {1, 3, 8, 16};

	(void) state;
	for (size_t w = 0; w < sizeof workers / sizeof workers[0]; w++)
	{
		pgpacer_map_options o = PGPACER_MAP_OPTIONS_INIT;
		pgpacer_settled settled[ITEMS];
		Load		load = {0};

		o.workers = workers[w];
		assert_int_equal(pgpacer_map(ITEMS, &o, square, &load, settled), PGPACER_OK);
		assert_int_equal(load.calls, ITEMS);
		assert_true(load.most <= workers[w]);
		for (int i = 0; i < ITEMS; i++)
		{
			assert_int_equal(settled[i].status, i == 0 ? PGPACER_ITEM_DONE : PGPACER_ITEM_FAILED);
			assert_int_equal(settled[i].result, i * i);
		}
	}
}

static void
few_items_and_bad_options(void **state)
{
	pgpacer_map_options o = PGPACER_MAP_OPTIONS_INIT;
	pgpacer_settled settled[2];
	Load		load = {0};

	(void) state;
	assert_int_equal(pgpacer_map(0, NULL, square, &load, NULL), PGPACER_OK);
	assert_int_equal(load.calls, 0);
	assert_int_equal(pgpacer_map(2, NULL, square, &load, NULL), PGPACER_OK);
	assert_int_equal(load.calls, 2);
	o.workers = INT32_MAX;
	assert_int_equal(pgpacer_map(2, &o, square, &load, settled), PGPACER_OK);
	o.workers = 0;
	assert_int_equal(pgpacer_map(2, &o, square, &load, settled), PGPACER_INVALID);
	o.workers = 1;
	o.size = 3;
	assert_int_equal(pgpacer_map(2, &o, square, &load, settled), PGPACER_INVALID);
	assert_int_equal(pgpacer_map(2, NULL, NULL, &load, settled), PGPACER_INVALID);
}

/* Items above 3 wait for the token; 3 fails, all the others fail harmlessly. */
static int
fail_at_three(const pgpacer_item *item, void *arg)
{
	((Load *) arg)->calls++;
	if (item->index < 3)
		return 1;
	if (item->index == 3)
		return 99;
	return pgpacer_sleep(LONG_ENOUGH, item->cancel);
}

static int
stop_at_99(const pgpacer_item *item, int result, void *arg)
{
	((Load *) arg)->stops++;
	return result == 99 && item->index == 3;
}

static void
an_error_stops_the_others(void **state)
{
	pgpacer_map_options o = PGPACER_MAP_OPTIONS_INIT;
	pgpacer_settled settled[ITEMS];
	Load		load = {0};
	int64_t		before = mono_us();
	int			not_called = 0;

	(void) state;
	o.workers = 4;
	o.stop = stop_at_99;
	assert_int_equal(pgpacer_map(ITEMS, &o, fail_at_three, &load, settled), PGPACER_CANCELLED);
	assert_true(mono_us() - before < LONG_ENOUGH);
	assert_int_equal(load.stops, 4);	/* not asked about those that it stopped */
	for (int i = 0; i < ITEMS; i++)
	{
		if (settled[i].status == PGPACER_ITEM_CANCELLED)
			not_called++;
		else
			assert_int_equal(settled[i].status, i == 3 ? PGPACER_ITEM_STOPPED : PGPACER_ITEM_FAILED);
		if (i > 3 && settled[i].status == PGPACER_ITEM_FAILED)
			assert_int_equal(settled[i].result, PGPACER_CANCELLED);
	}
	assert_int_equal(not_called + load.calls, ITEMS);
	assert_true(load.calls <= 7);
}

static int
sleep_on_item(const pgpacer_item *item, void *arg)
{
	(void) arg;
	return pgpacer_sleep(LONG_ENOUGH, item->cancel);
}

static void
the_caller_stops_all(void **state)
{
	pgpacer_map_options o = PGPACER_MAP_OPTIONS_INIT;
	pgpacer_settled settled[ITEMS];
	Load		load = {.cancel = pgpacer_cancel_new()};

	(void) state;
	o.cancel = load.cancel;
	assert_int_equal(pgpacer_map(ITEMS, &o, square, &load, settled), PGPACER_CANCELLED);
	assert_true(load.calls < ITEMS);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(settled[i].status == PGPACER_ITEM_CANCELLED, i >= load.calls);

	/* fired before it began */
	load.calls = 0;
	assert_int_equal(pgpacer_map(ITEMS, &o, square, &load, settled), PGPACER_CANCELLED);
	assert_int_equal(load.calls, 0);
	pgpacer_cancel_free(load.cancel);

	o.cancel = pgpacer_cancel_new();
	pgpacer_cancel_deadline(o.cancel, 50 * MS);
	assert_int_equal(pgpacer_map(ITEMS, &o, sleep_on_item, NULL, settled), PGPACER_DEADLINE);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(settled[i].status, i < 4 ? PGPACER_ITEM_FAILED : PGPACER_ITEM_CANCELLED);
	pgpacer_cancel_free(o.cancel);
}

/* ------------------------------------------------------------------
 * The pacer
 * ------------------------------------------------------------------ */

static pgpacer_local *
pacer_of(int64_t interval_us, int burst, int max_waiting)
{
	pgpacer_local_options o = PGPACER_LOCAL_OPTIONS_INIT;
	pgpacer_local *l;

	o.interval_us = interval_us;
	o.burst = burst;
	o.max_waiting = max_waiting;
	assert_int_equal(pgpacer_local_new(&l, &o), PGPACER_OK);
	return l;
}

static int
acquire_within(pgpacer_local *l, int64_t max_wait_us)
{
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;

	o.max_wait_us = max_wait_us;
	return pgpacer_local_acquire(l, &o);
}

/* One caller in a thread of its own. */
typedef struct Caller
{
	pgpacer_local *l;
	pgpacer_cancel *cancel;
	int			permits;
	atomic_int	done;
	int			rc;
	int			order;			/* among those that started */
	int64_t		at_us;
	long		switches;		/* how often it gave up the processor */
	pthread_t	thread;
} Caller;

static atomic_int started;

static void *
call(void *arg)
{
	Caller	   *c = arg;
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	struct rusage before;
	struct rusage after;

	o.permits = c->permits;
	o.cancel = c->cancel;
	getrusage(RUSAGE_THREAD, &before);
	c->rc = pgpacer_local_acquire(c->l, &o);
	getrusage(RUSAGE_THREAD, &after);
	c->at_us = mono_us();
	c->order = c->rc == PGPACER_OK ? started++ : -1;
	c->switches = after.ru_nvcsw - before.ru_nvcsw;
	c->done = 1;
	return NULL;
}

/* Begins a caller and returns once it stands in the line. */
static void
begin_caller(Caller *c, pgpacer_local *l, int permits)
{
	int			before = pgpacer_local_waiting(l);

	memset(c, 0, sizeof *c);
	c->l = l;
	c->permits = permits;
	c->cancel = pgpacer_cancel_new();
	pthread_create(&c->thread, NULL, call, c);
	while (pgpacer_local_waiting(l) == before && !c->done)
		usleep(100);
}

/* Its code; one that does not end by itself is cancelled, which is another code. */
static int
end_caller(Caller *c)
{
	for (int i = 0; i < LONG_ENOUGH / 1000 && !c->done; i++)
		usleep(1000);
	pgpacer_cancel_fire(c->cancel, 1);
	pthread_join(c->thread, NULL);
	pgpacer_cancel_free(c->cancel);
	return c->rc;
}

static void
a_rate_is_never_exceeded(void **state)
{
	const double rates[] = {300, 700, 3000, 7777.7, 30000, 1e9};

	(void) state;
	for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
	{
		pgpacer_local_options o = PGPACER_LOCAL_OPTIONS_INIT;
		pgpacer_local *l;
		int			starts = rates[i] < 1000 ? 30 : 300;
		int64_t		before = now_ns();

		o.per_second = rates[i];
		assert_int_equal(pgpacer_local_new(&l, &o), PGPACER_OK);
		for (int k = 0; k < starts; k++)
			assert_int_equal(pgpacer_local_acquire(l, NULL), PGPACER_OK);
		/* the first start was recorded up to a microsecond before we began */
		assert_true((double) (now_ns() - before + 1000) >= (starts - 1) * 1e9 / rates[i]);
		assert_true(now_ns() - before + 1000 >= (starts - 1) * 1000);
		pgpacer_local_free(l);
	}
}

static void
options_are_checked(void **state)
{
	const struct
	{
		int64_t		interval_us;
		double		per_second;
		int			burst;
		int			max_waiting;
		int64_t		max_wait_us;
		int			rc;
	}			cases[] = {
		{0, 0, 1, 100, 0, PGPACER_INVALID},
		{1, 1, 1, 100, 0, PGPACER_INVALID},
		{-1, 0, 1, 100, 0, PGPACER_INVALID},
		{0, -1, 1, 100, 0, PGPACER_INVALID},
		{0, 1e-13, 1, 100, 0, PGPACER_INVALID},
		{0, 1.0 / 0.0, 1, 100, 0, PGPACER_INVALID},
		{0, 0.0 / 0.0, 1, 100, 0, PGPACER_INVALID},
		{1, 0, 0, 100, 0, PGPACER_INVALID},
		{1, 0, 1, -2, 0, PGPACER_INVALID},
		{1, 0, 1, 0, -1, PGPACER_INVALID},
		{1, 0, 1, -1, 0, PGPACER_OK},
		{INT64_MAX, 0, INT32_MAX, INT32_MAX, PGPACER_NO_LIMIT, PGPACER_OK},
		{0, 1e300, 1, 0, 0, PGPACER_OK},
		{0, 1e-12, 1, 0, 0, PGPACER_OK},
	};
	pgpacer_book_options b = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer_local *l;

	(void) state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
	{
		pgpacer_local_options o = PGPACER_LOCAL_OPTIONS_INIT;

		o.interval_us = cases[i].interval_us;
		o.per_second = cases[i].per_second;
		o.burst = cases[i].burst;
		o.max_waiting = cases[i].max_waiting;
		o.max_wait_us = cases[i].max_wait_us;
		assert_int_equal(pgpacer_local_new(&l, &o), cases[i].rc);
		assert_int_equal(l != NULL, cases[i].rc == PGPACER_OK);
		pgpacer_local_free(l);
	}
	assert_int_equal(pgpacer_local_new(&l, NULL), PGPACER_INVALID);
	assert_int_equal(pgpacer_local_new(NULL, NULL), PGPACER_INVALID);

	l = pacer_of(HOUR, 1, -1);
	b.permits = 0;
	assert_int_equal(pgpacer_local_acquire(l, &b), PGPACER_INVALID);
	b.permits = INT32_MAX;		/* as many hours are more than the calendar has */
	assert_int_equal(pgpacer_local_acquire(l, &b), PGPACER_OK);
	b.permits = 1;
	b.key = "job";
	assert_int_equal(pgpacer_local_acquire(l, &b), PGPACER_INVALID);
	assert_int_equal(pgpacer_local_acquire(NULL, NULL), PGPACER_INVALID);
	pgpacer_local_free(l);

	/* beyond the end of time */
	l = pacer_of(INT64_MAX, 1, -1);
	assert_int_equal(pgpacer_local_acquire(l, NULL), PGPACER_TOO_LATE);
	pgpacer_local_free(l);
}

#define CALLERS 6

/* One of them gives up: the others start in the order in which they came. */
static void
first_come_first_served(void **state)
{
	const int64_t interval = 100 * MS;
	pgpacer_local *l = pacer_of(interval, 1, -1);
	Caller		c[CALLERS];
	int64_t		before = mono_us();
	int			expected = 0;

	(void) state;
	started = 0;
	assert_int_equal(pgpacer_local_acquire(l, NULL), PGPACER_OK);
	for (int i = 0; i < CALLERS; i++)
		begin_caller(&c[i], l, 1);
	pgpacer_cancel_fire(c[3].cancel, 1);
	for (int i = 0; i < CALLERS; i++)
	{
		assert_int_equal(end_caller(&c[i]), i == 3 ? PGPACER_CANCELLED : PGPACER_OK);
		if (i == 3)
			continue;
		assert_int_equal(c[i].order, expected);
		expected++;
		assert_true(c[i].at_us - before + 1 >= expected * interval);
		print_message("# caller %d: %ld us after its slot, %ld times asleep\n", i,
					  (long) (c[i].at_us - before - expected * interval), c[i].switches);
	}
	assert_int_equal(pgpacer_local_waiting(l), 0);
	pgpacer_local_free(l);
}

static void
refuses_what_it_must(void **state)
{
	pgpacer_local *l = pacer_of(HOUR, 1, 2);
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	Caller		a;
	Caller		b;

	(void) state;
	assert_int_equal(acquire_within(l, 0), PGPACER_OK);
	assert_int_equal(acquire_within(l, 0), PGPACER_TOO_LATE);
	assert_int_equal(acquire_within(l, HOUR / 2), PGPACER_TOO_LATE);

	o.cancel = pgpacer_cancel_new();
	pgpacer_cancel_deadline(o.cancel, HOUR / 2);
	assert_int_equal(pgpacer_local_acquire(l, &o), PGPACER_TOO_LATE);
	pgpacer_cancel_fire(o.cancel, 1);
	assert_int_equal(pgpacer_local_acquire(l, &o), PGPACER_CANCELLED);
	pgpacer_cancel_free(o.cancel);

	begin_caller(&a, l, 1);
	begin_caller(&b, l, 1);
	assert_int_equal(pgpacer_local_waiting(l), 2);
	assert_int_equal(acquire_within(l, PGPACER_NO_LIMIT), PGPACER_FULL);
	pgpacer_cancel_fire(a.cancel, 1);
	assert_int_equal(end_caller(&a), PGPACER_CANCELLED);
	assert_int_equal(pgpacer_local_waiting(l), 1);
	assert_int_equal(acquire_within(l, HOUR + HOUR / 2), PGPACER_TOO_LATE);
	pgpacer_cancel_fire(b.cancel, 1);
	assert_int_equal(end_caller(&b), PGPACER_CANCELLED);
	pgpacer_local_free(l);
}

/* b stands behind 100 s that a would take; a gives up, and b starts soon. */
static void
giving_up_spends_nothing(void **state)
{
	pgpacer_local *l = pacer_of(100 * MS, 1, -1);
	Caller		a;
	Caller		b;

	(void) state;
	assert_int_equal(pgpacer_local_acquire(l, NULL), PGPACER_OK);
	assert_int_equal(pgpacer_local_pause(l, 300 * MS), PGPACER_OK);
	begin_caller(&a, l, 1000);
	begin_caller(&b, l, 1);
	assert_int_equal(acquire_within(l, 90 * SECOND), PGPACER_TOO_LATE);
	pgpacer_cancel_fire(a.cancel, 1);
	assert_int_equal(end_caller(&a), PGPACER_CANCELLED);
	assert_int_equal(end_caller(&b), PGPACER_OK);
	assert_int_equal(acquire_within(l, 90 * SECOND), PGPACER_OK);
	pgpacer_local_free(l);
}

static void
a_burst_after_idling(void **state)
{
	pgpacer_local *l = pacer_of(HOUR, 3, 0);

	(void) state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(acquire_within(l, 0), PGPACER_OK);
	assert_int_equal(acquire_within(l, 0), PGPACER_FULL);
	pgpacer_local_free(l);
}

/*
 * The whole process is stopped for 20 intervals while 30 callers wait.  What passed
 * meanwhile is not made up for: in the two intervals after that, no more start than
 * one interval apart can, and one that had started but not got round to writing it
 * down.
 */
static void
no_burst_after_a_late_wake(void **state)
{
	const int64_t interval = 50 * MS;
	pgpacer_local *l = pacer_of(interval, 1, -1);
	Caller		c[30];
	int64_t		before;
	int64_t		woken = 0;
	int			soon = 0;
	pid_t		child;

	(void) state;
	assert_int_equal(pgpacer_local_acquire(l, NULL), PGPACER_OK);
	before = mono_us();
	for (int i = 0; i < 30; i++)
		begin_caller(&c[i], l, 1);
	child = fork();
	if (child == 0)
	{
		kill(getppid(), SIGSTOP);
		usleep(1000000);
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	/* stopped in here */
	for (int64_t last = mono_us(); woken == 0 && last - before < LONG_ENOUGH;)
	{
		int64_t		now;

		usleep(1000);
		now = mono_us();
		if (now - last > 700 * MS)
			woken = now;
		last = now;
	}
	assert_true(woken > 0);
	waitpid(child, NULL, 0);
	for (int i = 0; i < 30; i++)
		assert_int_equal(end_caller(&c[i]), PGPACER_OK);
	/* woken was read up to 1 ms after the first of them may have started */
	for (int i = 0; i < 30; i++)
		soon += c[i].at_us >= woken - 10 * MS && c[i].at_us < woken + 2 * interval;
	print_message("# %d starts within two intervals after a stop of 20\n", soon);
	assert_true(soon <= 5);
	pgpacer_local_free(l);
}

static void
long_waits_cost_nothing(void **state)
{
	pgpacer_local *l = pacer_of(((INT64_C(1) << 32) + 5000) * 1000, 1, -1);
	Caller		c[3];
	int64_t		cpu;

	(void) state;
	assert_int_equal(pgpacer_local_acquire(l, NULL), PGPACER_OK);
	for (int i = 0; i < 3; i++)
		begin_caller(&c[i], l, i == 1 ? 1000 : 1);
	cpu = cpu_us();
	usleep(1200000);
	for (int i = 0; i < 3; i++)
		assert_false(c[i].done);
	assert_true(cpu_us() - cpu < 100 * MS);
	for (int i = 0; i < 3; i++)
	{
		pgpacer_cancel_fire(c[i].cancel, 1);
		assert_int_equal(end_caller(&c[i]), PGPACER_CANCELLED);
		assert_true(c[i].switches < 20);
	}
	pgpacer_local_free(l);
}

static void
a_pause_holds_everybody(void **state)
{
	pgpacer_local *l = pacer_of(1 * MS, 1, -1);
	Caller		c;
	int64_t		before = mono_us();

	(void) state;
	assert_int_equal(pgpacer_local_pause(l, 200 * MS), PGPACER_OK);
	assert_int_equal(pgpacer_local_pause(l, 10 * MS), PGPACER_OK);	/* extends only */
	assert_int_equal(pgpacer_local_pause(l, 0), PGPACER_OK);
	assert_int_equal(acquire_within(l, 0), PGPACER_TOO_LATE);
	assert_int_equal(pgpacer_local_acquire(l, NULL), PGPACER_OK);
	assert_true(mono_us() - before + 1 >= 200 * MS);

	assert_int_equal(pgpacer_local_pause(l, PGPACER_NO_LIMIT), PGPACER_OK);
	assert_int_equal(acquire_within(l, HOUR), PGPACER_TOO_LATE);
	begin_caller(&c, l, 1);
	usleep(100000);
	assert_false(c.done);
	assert_int_equal(pgpacer_local_resume(l), PGPACER_OK);
	assert_int_equal(end_caller(&c), PGPACER_OK);
	assert_int_equal(pgpacer_local_pause(NULL, 1), PGPACER_INVALID);
	assert_int_equal(pgpacer_local_resume(NULL), PGPACER_INVALID);
	assert_int_equal(pgpacer_local_waiting(NULL), -1);
	pgpacer_local_free(l);
}

static int
add_one(pgpacer_cancel *cancel, void *arg)
{
	(void) cancel;
	return ++*(int *) arg;
}

static void
run_calls_once_or_not(void **state)
{
	pgpacer_local *l = pacer_of(HOUR, 1, 0);
	int			n = 0;
	int			result = 0;

	(void) state;
	assert_int_equal(pgpacer_local_run(l, NULL, NULL, &n, &result), PGPACER_INVALID);
	assert_int_equal(pgpacer_local_run(l, NULL, add_one, &n, &result), PGPACER_OK);
	assert_int_equal(result, 1);
	assert_int_equal(pgpacer_local_run(l, NULL, add_one, &n, &result), PGPACER_FULL);
	assert_int_equal(n, 1);
	pgpacer_local_free(l);
}

static void
a_fork_is_refused(void **state)
{
	pgpacer_local *l = pacer_of(1, 1, -1);
	pid_t		child = fork();
	int			status;

	(void) state;
	if (child == 0)
	{
		bool		good = pgpacer_local_acquire(l, NULL) == PGPACER_FORKED &&
			pgpacer_local_pause(l, 1) == PGPACER_FORKED &&
			pgpacer_local_resume(l) == PGPACER_FORKED && pgpacer_local_waiting(l) == -1;

		pgpacer_local_free(l);
		_exit(good ? 0 : 1);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(pgpacer_local_acquire(l, NULL), PGPACER_OK);
	pgpacer_local_free(l);
}

/*
 * Many threads, a short interval, tokens with deadlines that fire at any moment: starts
 * and interval agree, nobody is left in the line, every code is one that may be.
 */
#define CROWD 8
#define ROUNDS 150

static atomic_int crowd_started;

static void *
crowd(void *arg)
{
	unsigned	seed = (unsigned) (uintptr_t) &arg;
	intptr_t	bad = 0;

	for (int i = 0; i < ROUNDS; i++)
	{
		pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
		int			rc;

		o.cancel = pgpacer_cancel_new();
		o.max_wait_us = i % 5 == 0 ? 0 : PGPACER_NO_LIMIT;
		pgpacer_cancel_deadline(o.cancel, 20 * MS + rand_r(&seed) % (10 * MS));
		if (i % 3 == 0)
			pgpacer_cancel_deadline(o.cancel, PGPACER_NO_LIMIT);
		rc = pgpacer_local_acquire(arg, &o);
		if (rc == PGPACER_OK)
			crowd_started++;
		else if (rc != PGPACER_TOO_LATE && rc != PGPACER_DEADLINE)
			bad++;
		if (i % 50 == 7)
			pgpacer_local_pause(arg, 2 * MS);
		if (i % 50 == 9)
			pgpacer_local_resume(arg);
		pgpacer_cancel_free(o.cancel);
	}
	return (void *) bad;
}

static void
a_crowd_keeps_the_pace(void **state)
{
	const int64_t interval = 300;

	(void) state;
	for (int burst = 1; burst <= 3; burst += 2)
	{
		pgpacer_local *l = pacer_of(interval, burst, -1);
		pthread_t	threads[CROWD];
		int64_t		before = mono_us();

		crowd_started = 0;
		for (int i = 0; i < CROWD; i++)
			pthread_create(&threads[i], NULL, crowd, l);
		for (int i = 0; i < CROWD; i++)
		{
			void	   *bad;

			pthread_join(threads[i], &bad);
			assert_null(bad);
		}
		assert_true(mono_us() - before + 1 >= (crowd_started - burst) * interval);
		assert_int_equal(pgpacer_local_waiting(l), 0);
		print_message("# burst %d: %d of %d started\n", burst, crowd_started, CROWD * ROUNDS);
		pgpacer_local_free(l);
	}
}

/* ------------------------------------------------------------------
 * Trying again
 * ------------------------------------------------------------------ */

typedef struct Upstream
{
	int			succeeds_at;	/* which attempt; 0: none */
	int			fails_with;
	int64_t		retry_after_us;
	int			calls;
	int			asked;			/* retry_if */
	pgpacer_cancel *cancel;		/* fired by the first attempt */
} Upstream;

static int
try_upstream(pgpacer_attempt *attempt, void *arg)
{
	Upstream   *u = arg;

	u->calls++;
	assert_int_equal(attempt->number, u->calls);
	attempt->retry_after_us = u->retry_after_us;
	pgpacer_cancel_fire(u->cancel, 3);
	return attempt->number == u->succeeds_at ? 0 : u->fails_with;
}

static int
is_503(const pgpacer_attempt *attempt, int result, void *arg)
{
	(void) attempt;
	((Upstream *) arg)->asked++;
	return result == 503;
}

static void
tries_as_often_as_it_pays(void **state)
{
	const struct
	{
		int			attempts;
		int			succeeds_at;
		int			fails_with;
		int			calls;
		int			asked;
		int			result;
	}			cases[] = {
		{5, 1, 503, 1, 0, 0},
		{5, 3, 503, 3, 2, 0},
		{5, 0, 503, 5, 4, 503},
		{1, 0, 503, 1, 0, 503},
		{5, 3, 400, 1, 1, 400},
	};

	(void) state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
	{
		pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;
		Upstream	u = {.succeeds_at = cases[i].succeeds_at,.fails_with = cases[i].fails_with};
		int			result = -1;
		int			called = -1;

		o.attempts = cases[i].attempts;
		o.retry_if = is_503;
		o.backoff_us = 100;
		assert_int_equal(pgpacer_retry(&o, try_upstream, &u, &result, &called), PGPACER_OK);
		assert_int_equal(result, cases[i].result);
		assert_int_equal(called, cases[i].calls);
		assert_int_equal(u.calls, cases[i].calls);
		assert_int_equal(u.asked, cases[i].asked);
	}
}

/* At least half of 20, 40, 50, 50 ms. */
static void
backs_off(void **state)
{
	pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;
	Upstream	u = {.fails_with = 1};
	int64_t		before = mono_us();

	(void) state;
	o.backoff_us = 20 * MS;
	o.backoff_max_us = 50 * MS;
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, NULL), PGPACER_OK);
	assert_int_equal(u.calls, 5);
	assert_true(mono_us() - before >= 80 * MS);

	/* what the upstream asks for comes in place of it */
	u = (Upstream) {.fails_with = 1,.retry_after_us = 150 * MS};
	before = mono_us();
	o.attempts = 2;
	o.backoff_us = o.backoff_max_us = HOUR;
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, NULL), PGPACER_OK);
	assert_true(mono_us() - before >= 150 * MS);

	/* the longest there is */
	u = (Upstream) {.fails_with = 1,.cancel = pgpacer_cancel_new()};
	o.backoff_us = o.backoff_max_us = PGPACER_NO_LIMIT;
	o.cancel = u.cancel;
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, NULL), PGPACER_CANCELLED);
	pgpacer_cancel_free(u.cancel);
}

static void
cancelling_ends_it(void **state)
{
	pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;
	Upstream	u = {.fails_with = 503,.cancel = pgpacer_cancel_new()};
	int			result = -1;
	int			called = -1;

	(void) state;
	o.cancel = u.cancel;
	o.backoff_us = HOUR;
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, &result, &called), PGPACER_CANCELLED);
	assert_int_equal(result, 503);
	assert_int_equal(called, 1);
	result = -1;
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, &result, &called), PGPACER_CANCELLED);
	assert_int_equal(result, -1);
	assert_int_equal(called, 0);
	pgpacer_cancel_free(u.cancel);
}

static void
each_attempt_has_a_slot(void **state)
{
	pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;
	Upstream	u = {.succeeds_at = 4,.fails_with = 503};
	int64_t		before = mono_us();

	(void) state;
	o.local = pacer_of(50 * MS, 1, -1);
	o.backoff_us = 0;
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, NULL), PGPACER_OK);
	assert_int_equal(u.calls, 4);
	assert_true(mono_us() - before + 1 >= 150 * MS);
	pgpacer_local_free(o.local);
}

/* Called by the first attempt: somebody else stands in line before the second. */
static Caller rival;

static int
invite_a_rival(pgpacer_attempt *attempt, void *arg)
{
	if (attempt->number == 1)
		begin_caller(&rival, arg, 1);
	else
		return started++ == 1 ? 0 : -1;
	return 503;
}

static void
the_next_attempt_is_at_the_tail(void **state)
{
	pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;
	int			result = -1;

	(void) state;
	started = 0;
	o.local = pacer_of(200 * MS, 1, -1);
	o.backoff_us = 0;
	o.attempts = 2;
	assert_int_equal(pgpacer_retry(&o, invite_a_rival, o.local, &result, NULL), PGPACER_OK);
	assert_int_equal(end_caller(&rival), PGPACER_OK);
	assert_int_equal(rival.order, 0);
	assert_int_equal(result, 0);
	pgpacer_local_free(o.local);
}

static void
retry_after_holds_up_all(void **state)
{
	pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;
	Upstream	u = {.succeeds_at = 1,.retry_after_us = 200 * MS};
	int64_t		before = mono_us();

	(void) state;
	o.local = pacer_of(1, 1, -1);
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, NULL), PGPACER_OK);
	assert_int_equal(pgpacer_local_acquire(o.local, NULL), PGPACER_OK); /* anybody else */
	assert_true(mono_us() - before >= 200 * MS);
	pgpacer_local_free(o.local);
}

static void
refusals_are_final_unless_asked(void **state)
{
	pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;
	pgpacer_book_options b = PGPACER_BOOK_OPTIONS_INIT;
	Upstream	u = {.succeeds_at = 1};
	int64_t		before;
	int			called = -1;

	(void) state;
	o.local = pacer_of(HOUR, 1, -1);
	assert_int_equal(pgpacer_local_acquire(o.local, NULL), PGPACER_OK);
	b.max_wait_us = 0;
	o.book = &b;
	o.backoff_us = 30 * MS;
	o.attempts = 3;
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, &called), PGPACER_TOO_LATE);
	assert_int_equal(called, 0);

	o.retry_refused = 1;
	before = mono_us();
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, &called), PGPACER_TOO_LATE);
	assert_true(mono_us() - before >= 45 * MS);	/* half of 30 and 60 */
	assert_int_equal(called, 0);
	pgpacer_local_free(o.local);
}

static void
bad_retries_are_refused(void **state)
{
	pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;
	pgpacer_book_options b = PGPACER_BOOK_OPTIONS_INIT;
	Upstream	u = {.succeeds_at = 1};

	(void) state;
	assert_int_equal(pgpacer_retry(NULL, try_upstream, &u, NULL, NULL), PGPACER_OK);
	assert_int_equal(pgpacer_retry(&o, NULL, &u, NULL, NULL), PGPACER_INVALID);
	o.source = "api";			/* without a handle */
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, NULL), PGPACER_INVALID);
	o.source = NULL;
	b.key = "one slot for all";
	o.book = &b;
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, NULL), PGPACER_INVALID);
	o.book = NULL;
	o.attempts = 0;
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, NULL), PGPACER_INVALID);
	o.attempts = 1;
	o.backoff_us = -1;
	assert_int_equal(pgpacer_retry(&o, try_upstream, &u, NULL, NULL), PGPACER_INVALID);
}

/* ------------------------------------------------------------------
 * The examples
 * ------------------------------------------------------------------ */

/* They are built into the folder beside that of this program. */
static void
examples_do_as_they_say(void **state)
{
	const struct
	{
		const char *name;
		const char *lines[3];
	}			examples[] = {
		{"sleep", {"slept 0.2 s\n", "by signal 15\n"}},
		{"map", {"item 1 failed with 404\n", "item 5 stopped the others with 507\n", "item 9 was not begun\n"}},
		{"with_deadline", {"quick returned 7\n", "slow passed its deadline of 100 ms"}},
		{"local_pacer", {"11 starts took "}},
		{"local_run", {"3 called, 3 refused"}},
		{"retry", {"called 3 times, result 0\n", "called once, result 400\n"}},
		{"acquire", {"started, after the slot\n"}},
		{"event_loop", {"one started\none started\none started\n"}},
		{"quota", {"call 3 starts\n", "call 4 has to wait"}},
	};
	char		self[3072];
	ssize_t		len = readlink("/proc/self/exe", self, sizeof self - 1);

	(void) state;
	assert_true(len > 0);
	self[len] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
	{
		char		command[4096];
		char		output[4096];
		char		hourly[32];
		FILE	   *f;

		/* those that ask a database get a source of their own, the others do not look */
		snprintf(hourly, sizeof hourly, "hourly_%d", (int) getpid());
		snprintf(command, sizeof command, "'%s/../examples/%s' %s 2>&1", self, examples[i].name,
				 strcmp(examples[i].name, "quota") == 0 ? hourly : new_source(SECOND / 10));
		f = popen(command, "r");
		assert_non_null(f);
		output[fread(output, 1, sizeof output - 1, f)] = '\0';
		if (pclose(f) != 0)
			fail_msg("%s failed: %s", examples[i].name, output);
		for (int k = 0; k < 3 && examples[i].lines[k]; k++)
			if (!strstr(output, examples[i].lines[k]))
				fail_msg("%s does not say \"%s\" but: %s", examples[i].name, examples[i].lines[k], output);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sleeps_its_time),
		cmocka_unit_test(signals_do_not_shorten_it),
		cmocka_unit_test(any_length_can_be_cancelled),
		cmocka_unit_test(a_deadline_ends_it),
		cmocka_unit_test(in_time_is_no_error),
		cmocka_unit_test(late_work_is_told_and_named),
		cmocka_unit_test(the_parent_is_heard),
		cmocka_unit_test(results_come_by_index),
		cmocka_unit_test(few_items_and_bad_options),
		cmocka_unit_test(an_error_stops_the_others),
		cmocka_unit_test(the_caller_stops_all),
		cmocka_unit_test(a_rate_is_never_exceeded),
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(first_come_first_served),
		cmocka_unit_test(refuses_what_it_must),
		cmocka_unit_test(giving_up_spends_nothing),
		cmocka_unit_test(a_burst_after_idling),
		cmocka_unit_test(no_burst_after_a_late_wake),
		cmocka_unit_test(long_waits_cost_nothing),
		cmocka_unit_test(a_pause_holds_everybody),
		cmocka_unit_test(run_calls_once_or_not),
		cmocka_unit_test(a_fork_is_refused),
		cmocka_unit_test(a_crowd_keeps_the_pace),
		cmocka_unit_test(tries_as_often_as_it_pays),
		cmocka_unit_test(backs_off),
		cmocka_unit_test(cancelling_ends_it),
		cmocka_unit_test(each_attempt_has_a_slot),
		cmocka_unit_test(the_next_attempt_is_at_the_tail),
		cmocka_unit_test(retry_after_holds_up_all),
		cmocka_unit_test(refusals_are_final_unless_asked),
		cmocka_unit_test(bad_retries_are_refused),
		cmocka_unit_test(examples_do_as_they_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
