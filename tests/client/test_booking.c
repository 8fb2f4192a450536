/*
 * test_booking.c - booking and releasing: what is answered, to the microsecond
 */
#include "support.h"

static void
book_and_release(void **state)
{
	const char *source = new_source(10 * SECOND);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_booking a;
	pgpacer_booking b;
	pgpacer_booking c;
	pgpacer_booking again;

	(void) state;
	assert_code(h, pgpacer_book(h, source, NULL, &a), PGPACER_OK);
	assert_int_equal(a.state, PGPACER_STATE_STARTED);
	assert_int_equal(a.wait_us, 0);
	assert_string_equal(a.source, source);
	assert_true(a.ticket > 0);
	assert_code(h, pgpacer_wait(h, &a, NULL), PGPACER_OK);
	assert_code(h, pgpacer_confirm(h, &a, NULL), PGPACER_OK);

	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	assert_int_equal(b.state, PGPACER_STATE_HELD);
	assert_true(b.wait_us > 9 * SECOND && b.wait_us <= 10 * SECOND);
	assert_int_equal(b.slot_at_us, a.slot_at_us + 10 * SECOND);
	assert_string_not_equal(a.key, b.key);
	assert_code(h, pgpacer_book(h, source, NULL, &c), PGPACER_OK);
	assert_int_equal(head_of(source), c.slot_at_us + 10 * SECOND);

	again = c;
	assert_code(h, pgpacer_release(h, &c), PGPACER_OK);
	assert_int_equal(c.state, PGPACER_STATE_RELEASED);
	assert_int_equal(head_of(source), c.slot_at_us);
	assert_code(h, pgpacer_release(h, &again), PGPACER_OK);
	assert_int_equal(again.state, PGPACER_STATE_FORGOTTEN);
	assert_code(h, pgpacer_release(h, &a), PGPACER_OK);
	assert_int_equal(a.state, PGPACER_STATE_STARTED);
	assert_code(h, pgpacer_wait(h, &c, NULL), PGPACER_INVALID);
	pgpacer_close(h);
}

static void
refusals(void **state)
{
	const char *source = new_source(10 * SECOND);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer_cancel *c = pgpacer_cancel_new();
	pgpacer_booking b;
	int64_t		head;

	(void) state;
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	head = head_of(source);
	o.max_wait_us = 0;
	assert_code(h, pgpacer_book(h, source, &o, &b), PGPACER_TOO_LATE);
	assert_string_equal(pgpacer_sqlstate(h), "PC002");
	assert_int_equal(b.state, PGPACER_STATE_NONE);
	assert_true(strlen(pgpacer_errmsg(h)) > 0);

	/* no slot is asked for beyond the deadline */
	o.max_wait_us = PGPACER_NO_LIMIT;
	o.cancel = c;
	pgpacer_cancel_deadline(c, 5 * SECOND);
	assert_code(h, pgpacer_book(h, source, &o, &b), PGPACER_TOO_LATE);
	o.cancel = NULL;
	assert_int_equal(head_of(source), head);

	sql("UPDATE pacer.source SET max_waiting = 0 WHERE name = '%s'", source);
	assert_code(h, pgpacer_book(h, source, &o, &b), PGPACER_FULL);
	assert_string_equal(pgpacer_sqlstate(h), "PC001");
	assert_code(h, pgpacer_book(h, "there is no such source", &o, &b), PGPACER_NO_SOURCE);
	assert_int_equal(head_of(source), head);

	/* success leaves no message behind */
	assert_code(h, pgpacer_book(h, new_source(1), NULL, &b), PGPACER_OK);
	assert_string_equal(pgpacer_errmsg(h), "");
	assert_string_equal(pgpacer_sqlstate(h), "");
	pgpacer_close(h);
	pgpacer_cancel_free(c);
}

static void
a_key_finds_its_slot(void **state)
{
	const char *source = new_source(100 * SECOND);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer_booking a;
	pgpacer_booking b;

	(void) state;
	assert_code(h, pgpacer_book(h, source, NULL, &a), PGPACER_OK);
	o.key = "the work, 42";
	assert_code(h, pgpacer_book(h, source, &o, &a), PGPACER_OK);
	assert_string_equal(a.key, "");
	assert_code(h, pgpacer_book(h, source, &o, &b), PGPACER_OK);
	assert_int_equal(a.ticket, b.ticket);
	assert_int_equal(a.slot_at_us, b.slot_at_us);
	assert_int_equal(booked_of(source), 2);
	pgpacer_close(h);
}

/* Whatever a role's DateStyle, IntervalStyle and TimeZone make of a time. */
static void
times_to_the_microsecond(void **state)
{
	const char *source = new_source(333333);
	char		conninfo[64];
	pgpacer    *h;
	pgpacer_booking first;
	pgpacer_booking b;

	(void) state;
	sql("CREATE ROLE \"client-%d\" LOGIN", getpid());
	sql("GRANT USAGE ON SCHEMA pacer TO \"client-%d\"", getpid());
	sql("ALTER ROLE \"client-%d\" SET datestyle = 'German'", getpid());
	sql("ALTER ROLE \"client-%d\" SET timezone = 'America/St_Johns'", getpid());
	sql("ALTER ROLE \"client-%d\" SET intervalstyle = 'iso_8601'", getpid());
	snprintf(conninfo, sizeof conninfo, "user=client-%d", getpid());
	h = open_with(conninfo, NULL);
	assert_code(h, pgpacer_book(h, source, NULL, &first), PGPACER_OK);
	for (int i = 1; i <= 1000; i++)
	{
		assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
		assert_int_equal(b.slot_at_us, first.slot_at_us + i * INT64_C(333333));
		/* the wait ends at the slot: less than that of the slot before, counted from its answer */
		assert_true(b.wait_us <= i * INT64_C(333333));
	}
	assert_int_equal(head_of(source), b.slot_at_us + 333333);

	/* rights: this role may book, and may not create */
	pgpacer_source_options o = PGPACER_SOURCE_OPTIONS_INIT;

	o.interval_us = 1;
	assert_code(h, pgpacer_create_source(h, "not mine", &o), PGPACER_DENIED);
	pgpacer_close(h);
	sql("REVOKE USAGE ON SCHEMA pacer FROM \"client-%d\"", getpid());
	sql("DROP ROLE \"client-%d\"", getpid());
}

static void
long_intervals(void **state)
{
	const char *source = new_source(INT64_C(2000000000) * 3600 * SECOND);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer_booking b;
	int64_t		head;

	(void) state;
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	head = head_of(source);
	o.max_wait_us = INT64_MAX;	/* no limit */
	assert_code(h, pgpacer_book(h, source, &o, &b), PGPACER_INVALID);
	assert_string_equal(pgpacer_sqlstate(h), "22008");
	assert_int_equal(head_of(source), head);
	pgpacer_close(h);
}

static void
awkward_names(void **state)
{
	char		long1[256];
	char		long2[257];
	const char *names[] = {"it's", "say \"x\"", "back\\slash", "100%s", "two\nlines", "$1", "caf\303\251", long1};
	pgpacer_source_options o = PGPACER_SOURCE_OPTIONS_INIT;
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_booking b;

	(void) state;
	memset(long1, 'n', 255);
	memset(long2, 'n', 256);
	long1[255] = long2[256] = '\0';
	o.interval_us = SECOND;
	o.if_not_exists = 1;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
	{
		assert_code(h, pgpacer_create_source(h, names[i], &o), PGPACER_OK);
		assert_code(h, pgpacer_create_source(h, names[i], &o), PGPACER_OK);
		assert_code(h, pgpacer_book(h, names[i], NULL, &b), PGPACER_OK);
		assert_string_equal(b.source, names[i]);
		sql_int("SELECT pacer.drop_source($1) IS NULL", names[i]);
	}
	assert_code(h, pgpacer_book(h, long2, NULL, &b), PGPACER_INVALID);
	assert_code(h, pgpacer_book(h, "", NULL, &b), PGPACER_INVALID);
	assert_code(h, pgpacer_create_source(h, long2, &o), PGPACER_INVALID);
	pgpacer_close(h);
}

static void
sources_with_everything(void **state)
{
	pgpacer_source_options o = PGPACER_SOURCE_OPTIONS_INIT;
	pgpacer    *h = open_with(NULL, NULL);
	char		name[64];

	(void) state;
	snprintf(name, sizeof name, "everything-%d", getpid());
	o.interval_us = 1333;
	o.burst = 3;
	o.max_waiting = -1;
	o.max_wait_us = 60 * SECOND;
	o.quota = 1000;
	o.quota_window_us = 86400 * SECOND;
	o.quota_origin_us = INT64_C(-3600) * SECOND;
	o.remembered = 64;
	assert_code(h, pgpacer_create_source(h, name, &o), PGPACER_OK);
	assert_string_equal(sql("SELECT concat_ws(' ', start_interval, burst, max_waiting IS NULL, max_wait, quota, "
							"extract(epoch FROM quota_window)::int, extract(epoch FROM quota_origin)::int, remembered) "
							"FROM pacer.source WHERE name = '%s'", name),
						"00:00:00.001333 3 t 00:01:00 1000 86400 -3600 64");
	assert_code(h, pgpacer_create_source(h, name, &o), PGPACER_EXISTS);
	o.remembered = 3;
	assert_code(h, pgpacer_create_source(h, "never", &o), PGPACER_INVALID);
	o.interval_us = 0;
	assert_code(h, pgpacer_create_source(h, "never", &o), PGPACER_INVALID);
	pgpacer_close(h);
}

static void
note_start(const pgpacer_booking *b, void *arg)
{
	pgpacer_booking another;

	/* the handle is free while the work runs */
	assert_int_equal(pgpacer_book(*(pgpacer **) arg, b->source, NULL, &another), PGPACER_OK);
	*(pgpacer **) arg = NULL;
}

static void
run_calls_once_or_not_at_all(void **state)
{
	const char *source = new_source(SECOND / 10);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer    *arg = h;

	(void) state;
	assert_code(h, pgpacer_run(h, source, NULL, note_start, &arg), PGPACER_OK);
	assert_null(arg);
	o.max_wait_us = 0;
	arg = h;
	assert_code(h, pgpacer_run(h, source, &o, note_start, &arg), PGPACER_TOO_LATE);
	assert_ptr_equal(arg, h);
	pgpacer_close(h);
}

/* Confirming keeps starts apart when callers wake late, and asks nothing of whom it need not. */
static void
confirmed_starts(void **state)
{
	const char *source = new_source(SECOND / 5);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_options no_keep = PGPACER_OPTIONS_INIT;
	pgpacer_book_options o = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer_booking a;
	pgpacer_booking b;
	pgpacer_booking c;
	pgpacer_booking copy;
	int64_t		started;

	(void) state;
	if (strcmp(sql("SELECT to_regprocedure('pacer.confirm(text, int8, timestamptz)') IS NULL"), "t") == 0)
		skip();
	o.confirm = 1;
	assert_code(h, pgpacer_acquire(h, source, &o, &a), PGPACER_OK);
	assert_code(h, pgpacer_book(h, source, &o, &a), PGPACER_OK);
	assert_code(h, pgpacer_book(h, source, &o, &b), PGPACER_OK);
	assert_code(h, pgpacer_confirm(h, &a, NULL), PGPACER_WAIT);	/* too early */
	usleep(600000);				/* both are due now, and wake together */
	started = mono_us();
	assert_code(h, pgpacer_confirm(h, &a, NULL), PGPACER_OK);
	assert_int_equal(a.state, PGPACER_STATE_STARTED);
	assert_code(h, pgpacer_confirm(h, &b, NULL), PGPACER_WAIT);
	assert_true(b.wait_us > 0);
	assert_code(h, pgpacer_start(h, &b, &o), PGPACER_OK);
	assert_int_equal(b.state, PGPACER_STATE_STARTED);
	assert_true(mono_us() - started >= SECOND / 5);

	assert_code(h, pgpacer_book(h, source, &o, &c), PGPACER_OK);
	copy = c;
	assert_code(h, pgpacer_release(h, &c), PGPACER_OK);
	assert_int_equal(c.state, PGPACER_STATE_RELEASED);
	assert_code(h, pgpacer_confirm(h, &copy, NULL), PGPACER_GONE);
	pgpacer_close(h);

	/* without a connection while waiting */
	no_keep.keep_connection_us = 0;
	h = open_with(NULL, &no_keep);
	for (int i = 0; i < 3; i++)
	{
		assert_code(h, pgpacer_acquire(h, source, &o, &c), PGPACER_OK);
		assert_int_equal(c.state, PGPACER_STATE_STARTED);
	}
	pgpacer_close(h);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(book_and_release),
		cmocka_unit_test(refusals),
		cmocka_unit_test(a_key_finds_its_slot),
		cmocka_unit_test(times_to_the_microsecond),
		cmocka_unit_test(long_intervals),
		cmocka_unit_test(awkward_names),
		cmocka_unit_test(sources_with_everything),
		cmocka_unit_test(run_calls_once_or_not_at_all),
		cmocka_unit_test(confirmed_starts),
	};

	return cmocka_run_group_tests(tests, connect_admin, disconnect_admin);
}
