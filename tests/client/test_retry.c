/*
 * test_retry.c - the in-process toolkit on a source: what it books, pauses and cancels
 */
#include "support.h"

#include "pgpacer_local.h"

static int
fail_twice(pgpacer_attempt *attempt, void *arg)
{
	(void) arg;
	return attempt->number < 3 ? 503 : 0;
}

static int
too_many_requests(pgpacer_attempt *attempt, void *arg)
{
	attempt->retry_after_us = *(int64_t *) arg;
	return 429;
}

static pgpacer_retry_options
retry_on(pgpacer *h, const char *source)
{
	pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;

	o.handle = h;
	o.source = source;
	o.backoff_us = 0;
	return o;
}

static void
each_attempt_books(void **state)
{
	const char *source = new_source(20000);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_retry_options o = retry_on(h, source);
	int64_t		before = mono_us();
	int			result = -1;
	int			called = -1;

	(void) state;
	assert_code(h, pgpacer_retry(&o, fail_twice, NULL, &result, &called), PGPACER_OK);
	assert_int_equal(result, 0);
	assert_int_equal(called, 3);
	assert_int_equal(booked_of(source), 3);
	assert_true(mono_us() - before >= 35000);	/* the first slot was the server's "now" */
	pgpacer_close(h);
}

/* In microseconds from now, by the server's clock. */
static int64_t
pause_left(const char *source)
{
	return sql_int("SELECT (extract(epoch FROM paused_until - clock_timestamp()) * 1000000)::int8 "
				   "FROM pacer.status WHERE name = $1", source);
}

/* For everybody: the source is paused, also after the last attempt, and when our time is over. */
static void
retry_after_pauses_the_source(void **state)
{
	const char *source = new_source(1000);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_retry_options o = retry_on(h, source);
	pgpacer_book_options b = PGPACER_BOOK_OPTIONS_INIT;
	int64_t		after = 60 * SECOND;
	int			result = -1;
	int			called = -1;

	(void) state;
	b.max_wait_us = SECOND;
	o.book = &b;
	assert_code(h, pgpacer_retry(&o, too_many_requests, &after, &result, &called), PGPACER_TOO_LATE);
	assert_int_equal(result, 429);
	assert_int_equal(called, 1);
	assert_true(pause_left(source) > 40 * SECOND);

	/* until resumed */
	after = PGPACER_NO_LIMIT;
	o.source = source = new_source(1000);
	o.attempts = 1;
	assert_code(h, pgpacer_retry(&o, too_many_requests, &after, &result, &called), PGPACER_OK);
	assert_int_equal(sql_int("SELECT (paused_until = 'infinity')::int FROM pacer.status WHERE name = $1", source), 1);
	pgpacer_close(h);
}

static void
no_database_no_attempt(void **state)
{
	pgpacer    *h = open_with("host=/nonexistent", NULL);
	pgpacer_retry_options o = retry_on(h, "api");
	int			called = -1;

	(void) state;
	assert_code(h, pgpacer_retry(&o, fail_twice, NULL, NULL, &called), PGPACER_UNREACHABLE);
	assert_int_equal(called, 0);
	pgpacer_close(h);
}

/* A task that waits for a slot an hour away, until its deadline. */
typedef struct Visit
{
	pgpacer    *h;
	const char *source;
	pgpacer_booking booking;
} Visit;

static int
visit(pgpacer_cancel *cancel, void *arg)
{
	Visit	   *v = arg;
	int			rc = pgpacer_book(v->h, v->source, NULL, &v->booking);

	return rc != PGPACER_OK ? rc : pgpacer_wait(v->h, &v->booking, cancel);
}

static void
a_deadline_gives_the_slot_back(void **state)
{
	Visit		v = {.h = open_with(NULL, NULL),.source = new_source(3600 * SECOND)};
	pgpacer_error error;
	int			result = -1;
	int64_t		head;

	(void) state;
	assert_code(v.h, pgpacer_book(v.h, v.source, NULL, &v.booking), PGPACER_OK);
	head = head_of(v.source);
	assert_int_equal(pgpacer_with_deadline(200000, NULL, visit, &v, &result, &error), PGPACER_DEADLINE);
	assert_int_equal(result, PGPACER_DEADLINE);
	assert_int_equal(v.booking.state, PGPACER_STATE_RELEASED);
	assert_true(head_of(v.source) == head);
	assert_string_equal(error.task, "visit");
	pgpacer_close(v.h);
}

/* Eight items by four workers, each with a handle of its own. */
static pgpacer *handles[4];

static int
start_item(const pgpacer_item *item, void *arg)
{
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;

	o.cancel = item->cancel;
	return pgpacer_acquire(handles[item->worker], arg, &o, NULL);
}

static void
a_map_at_the_pace_of_a_source(void **state)
{
	const char *source = new_source(5000);
	pgpacer_settled settled[8];

	(void) state;
	for (int i = 0; i < 4; i++)
		handles[i] = open_with(NULL, NULL);
	assert_int_equal(pgpacer_map(8, NULL, start_item, (void *) source, settled), PGPACER_OK);
	for (int i = 0; i < 8; i++)
		assert_int_equal(settled[i].status, PGPACER_ITEM_DONE);
	assert_int_equal(booked_of(source), 8);
	for (int i = 0; i < 4; i++)
		pgpacer_close(handles[i]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_attempt_books),
		cmocka_unit_test(retry_after_pauses_the_source),
		cmocka_unit_test(no_database_no_attempt),
		cmocka_unit_test(a_deadline_gives_the_slot_back),
		cmocka_unit_test(a_map_at_the_pace_of_a_source),
	};

	return cmocka_run_group_tests(tests, connect_admin, disconnect_admin);
}
