/*
 * test_network.c - a server that is gone, stuck, full or cut off: no slot, no start, and
 * a bound on everything
 */
#include "proxy.h"

/* A handle whose every step is short. */
static pgpacer_options
hasty(void)
{
	pgpacer_options o = PGPACER_OPTIONS_INIT;

	o.connect_timeout_us = SECOND / 2;
	o.network_timeout_us = SECOND / 2;
	o.grace_us = SECOND / 2;
	return o;
}

static void
nobody_there(void **state)
{
	pgpacer_options o = PGPACER_OPTIONS_INIT;
	pgpacer    *h = open_with("host=/nonexistent", NULL);
	pgpacer_booking b;
	int64_t		before;

	(void) state;
	assert_code(h, pgpacer_book(h, "x", NULL, &b), PGPACER_UNREACHABLE);
	assert_int_equal(b.state, PGPACER_STATE_NONE);
	pgpacer_close(h);

	o.database_wait_us = SECOND / 2;
	h = open_with("host=/nonexistent", &o);
	before = mono_us();
	assert_code(h, pgpacer_book(h, "x", NULL, &b), PGPACER_UNREACHABLE);
	assert_true(mono_us() - before >= SECOND / 2);
	pgpacer_close(h);
}

/* The server is frozen: it takes connections and says nothing. */
static void
frozen_while_connecting(void **state)
{
	pgpacer_options o = hasty();
	pgpacer_book_options bo = PGPACER_BOOK_OPTIONS_INIT;
	Proxy		proxy;
	pgpacer    *h;
	pgpacer_booking b;
	int64_t		before;

	(void) state;
	proxy_start(&proxy);
	proxy.mode = PROXY_FREEZE;
	h = open_with(proxy.conninfo, &o);
	before = mono_us();
	assert_code(h, pgpacer_book(h, "x", NULL, &b), PGPACER_UNREACHABLE);
	assert_true(mono_us() - before >= SECOND / 2);
	assert_true(mono_us() - before < 3 * SECOND);

	bo.cancel = pgpacer_cancel_new();
	pgpacer_cancel_deadline(bo.cancel, SECOND / 10);
	assert_code(h, pgpacer_book(h, "x", &bo, &b), PGPACER_DEADLINE);
	pgpacer_cancel_free(bo.cancel);
	pgpacer_close(h);
	proxy_stop(&proxy);
}

/* The second host of a list is reached even if the first never answers. */
static void
the_second_host(void **state)
{
	const char *source = new_source(1);
	const char *host = getenv("PGHOST");
	const char *port = getenv("PGPORT");
	pgpacer_options o = hasty();
	Proxy		frozen;
	char		conninfo[512];
	pgpacer    *h;
	pgpacer_booking b;

	(void) state;
	if (!host || !port || strchr(host, ','))
		skip();
	proxy_start(&frozen);
	frozen.mode = PROXY_FREEZE;
	snprintf(conninfo, sizeof conninfo, "host=%s,/nonexistent,%s port=5432,1,%s target_session_attrs=read-write",
			 frozen.dir, host, port);
	h = open_with(conninfo, &o);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	pgpacer_close(h);
	proxy_stop(&frozen);
}

/* The answer to a booking is lost: the second try finds the slot of the first. */
static void
a_lost_answer(void **state)
{
	const char *source = new_source(100 * SECOND);
	Proxy		proxy;
	pgpacer    *h;
	pgpacer_booking first;
	pgpacer_booking b;

	(void) state;
	proxy_start(&proxy);
	h = open_with(proxy.conninfo, NULL);
	assert_code(h, pgpacer_book(h, source, NULL, &first), PGPACER_OK);
	proxy.mode = PROXY_CUT_ANSWER;
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	assert_int_equal(proxy.connections, 2);
	assert_int_equal(b.slot_at_us, first.slot_at_us + 100 * SECOND);
	assert_int_equal(booked_of(source), 2);

	/* and likewise a release, which then is done, whatever its second try is told */
	proxy.mode = PROXY_CUT_ANSWER;
	assert_code(h, pgpacer_release(h, &b), PGPACER_OK);
	assert_int_equal(head_of(source), b.slot_at_us);
	pgpacer_close(h);
	proxy_stop(&proxy);
}

/* No answer at all: the outcome is unknown, said so in time, and found again by the key. */
static void
no_answer(void **state)
{
	const char *source = new_source(100 * SECOND);
	pgpacer_options o = hasty();
	pgpacer_book_options bo = PGPACER_BOOK_OPTIONS_INIT;
	Proxy		proxy;
	pgpacer    *h;
	pgpacer_booking b;
	pgpacer_booking again;
	int64_t		before;

	(void) state;
	proxy_start(&proxy);
	h = open_with(proxy.conninfo, &o);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	proxy.mode = PROXY_SWALLOW_ANSWERS;
	before = mono_us();
	assert_int_not_equal(pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	assert_true(mono_us() - before < 6 * SECOND);
	assert_int_equal(pgpacer_book(h, source, NULL, &b) == PGPACER_OK, 0);
	proxy.mode = PROXY_PASS;
	bo.key = b.key;
	assert_code(h, pgpacer_book(h, source, &bo, &again), PGPACER_OK);
	pgpacer_close(h);
	proxy_stop(&proxy);
}

/* Cancelled while the server is frozen: gone within the grace. */
static void
frozen_and_cancelled(void **state)
{
	const char *source = new_source(100 * SECOND);
	pgpacer_options o = PGPACER_OPTIONS_INIT;
	pgpacer_book_options bo = PGPACER_BOOK_OPTIONS_INIT;
	Proxy		proxy;
	pgpacer    *h;
	pgpacer_booking b;
	int64_t		before;

	(void) state;
	o.grace_us = SECOND;
	proxy_start(&proxy);
	h = open_with(proxy.conninfo, &o);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	proxy.mode = PROXY_FREEZE;
	bo.cancel = pgpacer_cancel_new();
	pgpacer_cancel_deadline(bo.cancel, SECOND / 5);
	before = mono_us();
	assert_code(h, pgpacer_book(h, source, &bo, &b), PGPACER_DEADLINE);
	assert_true(mono_us() - before < 3 * SECOND);
	proxy.mode = PROXY_PASS;
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	pgpacer_cancel_free(bo.cancel);
	pgpacer_close(h);
	proxy_stop(&proxy);
}

static void *
fire_soon(void *c)
{
	usleep(200000);
	pgpacer_cancel_fire(c, 5);
	return NULL;
}

#define BLOCKED "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'"

/* The statement waits in the server (for the owner's LOCK TABLE): it ends there, too. */
static void
cancelled_in_the_server(void **state)
{
	const char *source = new_source(100 * SECOND);
	pgpacer_book_options bo = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_booking b;
	pthread_t	thread;
	int64_t		before;
	int64_t		pid;

	(void) state;
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	pid = sql_int("SELECT pid FROM pg_stat_activity WHERE application_name = $1", "pgpacer");
	bo.cancel = pgpacer_cancel_new();
	sql("BEGIN; LOCK TABLE pacer.source, pacer.slot IN ACCESS EXCLUSIVE MODE");
	pthread_create(&thread, NULL, fire_soon, bo.cancel);
	before = mono_us();
	assert_code(h, pgpacer_book(h, source, &bo, &b), PGPACER_CANCELLED);
	assert_true(mono_us() - before >= SECOND / 5);
	assert_true(mono_us() - before < 3 * SECOND);
	assert_true(becomes(BLOCKED, "pgpacer", 0));
	sql("COMMIT");
	pthread_join(thread, NULL);
	assert_int_equal(booked_of(source), 1);

	/* the session was drained and serves on */
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	assert_int_equal(sql_int("SELECT pid FROM pg_stat_activity WHERE application_name = $1", "pgpacer"), pid);
	pgpacer_cancel_free(bo.cancel);
	pgpacer_close(h);
}

/* Fires each token it is handed some moment later. */
typedef struct Firer
{
	_Atomic(pgpacer_cancel *) target;
	atomic_bool stop;
} Firer;

static void *
fire_each(void *arg)
{
	Firer	   *f = arg;
	unsigned	seed = 1;

	while (!f->stop)
	{
		pgpacer_cancel *c = f->target;

		if (!c)
		{
			usleep(10);
			continue;
		}
		for (int64_t until = mono_us() + rand_r(&seed) % 400; mono_us() < until;)
			;
		pgpacer_cancel_fire(c, 1);
		f->target = NULL;
	}
	return NULL;
}

/*
 * Tokens that fire at any moment of a statement hit that one or none: the next on the
 * same handle always works.
 */
static void
a_cancellation_never_strays(void **state)
{
	const char *source = new_source(1000 * SECOND);
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_book_options bo = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer_booking b;
	Firer		firer = {NULL, false};
	pthread_t	thread;
	int			ended[5][6] = {{0}};

	(void) state;
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	pthread_create(&thread, NULL, fire_each, &firer);
	for (int i = 0; i < 500; i++)
	{
		int			rc;

		bo.cancel = pgpacer_cancel_new();
		firer.target = bo.cancel;
		rc = pgpacer_book(h, source, &bo, &b);
		assert_true(rc == PGPACER_OK || rc == PGPACER_CANCELLED);
		ended[rc][b.state]++;
		while (firer.target)
			usleep(10);
		pgpacer_cancel_free(bo.cancel);
		if (rc == PGPACER_OK)
			assert_code(h, pgpacer_release(h, &b), PGPACER_OK);
		assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
		assert_code(h, pgpacer_release(h, &b), PGPACER_OK);
		assert_int_equal(b.state, PGPACER_STATE_RELEASED);
	}
	firer.stop = true;
	pthread_join(thread, NULL);
	print_message("# of 500: %d booked, %d cancelled without a slot, %d cancelled and released\n",
				  ended[PGPACER_OK][PGPACER_STATE_HELD], ended[PGPACER_CANCELLED][PGPACER_STATE_NONE],
				  ended[PGPACER_CANCELLED][PGPACER_STATE_RELEASED]);
	assert_int_equal(ended[PGPACER_CANCELLED][PGPACER_STATE_HELD], 0);
	pgpacer_close(h);
}

/* "Too many connections" passes: tried again for a while, but not beyond max_wait. */
static void *
leave_soon(void *h)
{
	usleep(300000);
	pgpacer_close(h);
	return NULL;
}

static void
too_many_connections(void **state)
{
	const char *source = new_source(1);
	pgpacer_book_options bo = PGPACER_BOOK_OPTIONS_INIT;
	char		conninfo[64];
	pgpacer    *first;
	pgpacer    *h;
	pgpacer_booking b;
	pthread_t	thread;

	(void) state;
	sql("CREATE ROLE \"one-%d\" LOGIN CONNECTION LIMIT 1", getpid());
	sql("GRANT USAGE ON SCHEMA pacer TO \"one-%d\"", getpid());
	snprintf(conninfo, sizeof conninfo, "user=one-%d", getpid());
	first = open_with(conninfo, NULL);
	h = open_with(conninfo, NULL);
	assert_code(first, pgpacer_book(first, source, NULL, &b), PGPACER_OK);
	bo.max_wait_us = SECOND / 10;
	assert_code(h, pgpacer_book(h, source, &bo, &b), PGPACER_UNREACHABLE);
	assert_string_equal(pgpacer_sqlstate(h), "53300");
	assert_null(strstr(pgpacer_errmsg(h), "53300"));
	assert_null(strchr(pgpacer_errmsg(h), '\n'));
	pthread_create(&thread, NULL, leave_soon, first);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	pthread_join(thread, NULL);
	pgpacer_close(h);
	sql("REVOKE USAGE ON SCHEMA pacer FROM \"one-%d\"", getpid());
	assert_true(becomes("SELECT count(*) FROM pg_stat_activity WHERE usename = $1", conninfo + 5, 0));
	sql("DROP ROLE \"one-%d\"", getpid());
}

static void
a_read_only_server(void **state)
{
	const char *source = new_source(1);
	char		conninfo[64];
	pgpacer    *h;
	pgpacer_booking b;

	(void) state;
	sql("CREATE ROLE \"ro-%d\" LOGIN", getpid());
	sql("GRANT USAGE ON SCHEMA pacer TO \"ro-%d\"", getpid());
	sql("ALTER ROLE \"ro-%d\" SET default_transaction_read_only = on", getpid());
	snprintf(conninfo, sizeof conninfo, "user=ro-%d", getpid());
	h = open_with(conninfo, NULL);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_READ_ONLY);
	pgpacer_close(h);
	h = open_with("user=nobody-at-all", NULL);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_DENIED);
	pgpacer_close(h);
	sql("REVOKE USAGE ON SCHEMA pacer FROM \"ro-%d\"", getpid());
	sql("DROP ROLE \"ro-%d\"", getpid());
}

/* A warning while booking (a standby was not waited for): nothing starts on that slot. */
static void
a_warning_is_no_slot(void **state)
{
	const char *source = new_source(100 * SECOND);
	pgpacer_book_options bo = PGPACER_BOOK_OPTIONS_INIT;
	Proxy		proxy;
	pgpacer    *h;
	pgpacer_booking first;
	pgpacer_booking b;

	(void) state;
	proxy_start(&proxy);
	h = open_with(proxy.conninfo, NULL);
	assert_code(h, pgpacer_book(h, source, NULL, &first), PGPACER_OK);
	proxy.mode = PROXY_WARN;
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	assert_int_equal(booked_of(source), 3);
	assert_int_equal(sql_int("SELECT released FROM pacer.status WHERE name = $1", source), 1);
	assert_int_equal(b.slot_at_us, first.slot_at_us + 100 * SECOND);
	bo.key = "mine";
	proxy.mode = PROXY_WARN;
	assert_code(h, pgpacer_book(h, source, &bo, &b), PGPACER_OK);
	assert_int_equal(booked_of(source), 5);
	pgpacer_close(h);
	proxy_stop(&proxy);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_there),
		cmocka_unit_test(frozen_while_connecting),
		cmocka_unit_test(the_second_host),
		cmocka_unit_test(a_lost_answer),
		cmocka_unit_test(no_answer),
		cmocka_unit_test(frozen_and_cancelled),
		cmocka_unit_test(cancelled_in_the_server),
		cmocka_unit_test(a_cancellation_never_strays),
		cmocka_unit_test(too_many_connections),
		cmocka_unit_test(a_read_only_server),
		cmocka_unit_test(a_warning_is_no_slot),
	};

	return cmocka_run_group_tests(tests, connect_admin, disconnect_admin);
}
