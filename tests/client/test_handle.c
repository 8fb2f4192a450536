/*
 * test_handle.c - who may use a handle: one thread, one process, any descriptor
 */
#include "proxy.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

static void
wrong_arguments(void **state)
{
	pgpacer_options o = PGPACER_OPTIONS_INIT;
	pgpacer_book_options bo = PGPACER_BOOK_OPTIONS_INIT;
	pgpacer_booking b;
	pgpacer    *h;

	(void) state;
	assert_code(h, pgpacer_open(&h, "host", NULL), PGPACER_OK);	/* a database's name */
	pgpacer_close(h);
	assert_code(h, pgpacer_open(&h, "nosuchkeyword=1", NULL), PGPACER_INVALID);
	assert_true(strlen(pgpacer_errmsg(h)) > 0);
	assert_null(strchr(pgpacer_errmsg(h), '\n'));
	pgpacer_close(h);
	o.size = 3;
	assert_code(h, pgpacer_open(&h, NULL, &o), PGPACER_INVALID);
	pgpacer_close(h);
	o.size = sizeof o;
	o.grace_us = -1;
	assert_code(h, pgpacer_open(&h, NULL, &o), PGPACER_INVALID);
	pgpacer_close(h);

	h = open_with(NULL, NULL);
	assert_code(h, pgpacer_book(h, NULL, NULL, &b), PGPACER_INVALID);
	assert_code(h, pgpacer_book(h, "x", NULL, NULL), PGPACER_INVALID);
	bo.permits = 0;
	assert_code(h, pgpacer_book(h, "x", &bo, &b), PGPACER_INVALID);
	bo.permits = 1;
	bo.max_wait_us = -1;
	assert_code(h, pgpacer_book(h, "x", &bo, &b), PGPACER_INVALID);
	memset(&b, 0, sizeof b);
	assert_code(h, pgpacer_wait(h, &b, NULL), PGPACER_INVALID);
	assert_code(h, pgpacer_release(h, &b), PGPACER_INVALID);
	assert_code(h, pgpacer_release(h, NULL), PGPACER_INVALID);
	assert_int_equal(pgpacer_book(NULL, "x", NULL, &b), PGPACER_INVALID);
	assert_int_equal(pgpacer_booking_init(&b, "x", 0, 0), PGPACER_INVALID);
	assert_int_equal(pgpacer_close(NULL), PGPACER_OK);
	pgpacer_cancel_free(NULL);
	pgpacer_cancel_fire(NULL, 1);
	for (int code = -1; code < 25; code++)
		assert_non_null(pgpacer_strerror(code));
	pgpacer_close(h);
}

/* Programs compiled against an older, shorter struct, and a newer, longer one. */
static void
options_of_other_versions(void **state)
{
	struct
	{
		pgpacer_options known;
		int64_t		unknown;
	}			newer = {.known = PGPACER_OPTIONS_INIT};
	pgpacer_options older = PGPACER_OPTIONS_INIT;
	pgpacer    *h;

	(void) state;
	older.size = offsetof(pgpacer_options, keep_connection_us);
	older.grace_us = -1;		/* beyond its end: not read */
	assert_code(h, pgpacer_open(&h, NULL, &older), PGPACER_OK);
	pgpacer_close(h);
	newer.known.size = sizeof newer;
	assert_code(h, pgpacer_open(&h, NULL, &newer.known), PGPACER_OK);
	pgpacer_close(h);
	newer.unknown = 1;
	assert_code(h, pgpacer_open(&h, NULL, &newer.known), PGPACER_INVALID);
	pgpacer_close(h);
}

/* More than FD_SETSIZE descriptors: select() would write beyond its set. */
static void
high_descriptors(void **state)
{
	const char *source = new_source(SECOND / 5);
	struct rlimit limit;
	struct rlimit before;
	int			fds[1100];
	pgpacer    *h = open_with(NULL, NULL);
	pgpacer_cancel *c;
	pgpacer_booking b;

	(void) state;
	getrlimit(RLIMIT_NOFILE, &before);
	limit = before;
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	if (limit.rlim_cur < 1200 || setrlimit(RLIMIT_NOFILE, &limit) != 0)
		skip();
	for (int i = 0; i < 1100; i++)
		assert_true((fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
	c = pgpacer_cancel_new();
	assert_true(pgpacer_cancel_fd(c) >= 1024);
	assert_code(h, pgpacer_acquire(h, source, NULL, &b), PGPACER_OK);
	assert_code(h, pgpacer_acquire(h, source, NULL, &b), PGPACER_OK);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	pgpacer_cancel_fire(c, 1);
	assert_code(h, pgpacer_wait(h, &b, c), PGPACER_CANCELLED);
	assert_int_equal(b.state, PGPACER_STATE_RELEASED);
	pgpacer_cancel_free(c);
	pgpacer_close(h);
	for (int i = 0; i < 1100; i++)
		close(fds[i]);
	setrlimit(RLIMIT_NOFILE, &before);
}

static int
exit_status_of(pid_t pid)
{
	int			status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Children that exit, use the handle or close it: no byte of theirs reaches the server. */
static void
forked_children(void **state)
{
	const char *source = new_source(1);
	Proxy		proxy;
	pgpacer    *h;
	pgpacer_booking b;
	long		sent;

	(void) state;
	proxy_start(&proxy);
	h = open_with(proxy.conninfo, NULL);
	assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	for (int i = 0; i < 100; i++)
	{
		pid_t		pid;

		sent = proxy.from_client;
		pid = fork();
		if (pid == 0)
		{
			int			rc = PGPACER_FORKED;

			if (i % 3 > 0)
				rc = pgpacer_book(h, source, NULL, &b);
			if (i % 3 > 1 && pgpacer_close(h) != PGPACER_OK)
				rc = -1;
			_exit(rc == PGPACER_FORKED ? 0 : 1);
		}
		assert_int_equal(exit_status_of(pid), 0);
		assert_int_equal(proxy.from_client, sent);
		assert_code(h, pgpacer_book(h, source, NULL, &b), PGPACER_OK);
	}
	assert_int_equal(proxy.connections, 1);
	pgpacer_close(h);
	proxy_stop(&proxy);
}

typedef struct Waiter
{
	pgpacer    *h;
	pgpacer_booking *b;
	pgpacer_cancel *c;
	atomic_int	started;
	int			rc;
} Waiter;

static void *
wait_in_thread(void *arg)
{
	Waiter	   *w = arg;

	w->started = 1;
	w->rc = pgpacer_wait(w->h, w->b, w->c);
	return NULL;
}

/* While one thread waits on a handle, another is told so, and can end the wait. */
static void
two_threads(void **state)
{
	const char *source = new_source(100 * SECOND);
	pgpacer_booking b;
	pgpacer_booking other;
	Waiter		w = {.h = open_with(NULL, NULL),.b = &b,.c = pgpacer_cancel_new()};
	pthread_t	thread;
	int			rc;

	(void) state;
	assert_code(w.h, pgpacer_book(w.h, source, NULL, &b), PGPACER_OK);
	assert_code(w.h, pgpacer_book(w.h, source, NULL, &b), PGPACER_OK);
	pthread_create(&thread, NULL, wait_in_thread, &w);
	do							/* until the other thread is in there */
	{
		usleep(1000);
		rc = pgpacer_wait(w.h, NULL, NULL);
	} while (rc == PGPACER_INVALID);
	assert_int_equal(rc, PGPACER_BUSY);
	assert_int_equal(pgpacer_book(w.h, source, NULL, &other), PGPACER_BUSY);
	assert_int_equal(pgpacer_close(w.h), PGPACER_BUSY);
	pgpacer_cancel_fire(w.c, 1);
	pthread_join(thread, NULL);
	assert_int_equal(w.rc, PGPACER_CANCELLED);
	assert_int_equal(b.state, PGPACER_STATE_RELEASED);
	assert_code(w.h, pgpacer_book(w.h, source, NULL, &other), PGPACER_OK);
	pgpacer_close(w.h);
	pgpacer_cancel_free(w.c);
}

/* A token is shared across fork(), and does not make the other process spin. */
static void
a_token_after_fork(void **state)
{
	pgpacer_cancel *c = pgpacer_cancel_new();
	pgpacer    *h = open_with("host=/nonexistent", NULL);
	pgpacer_booking b;
	pid_t		pid;

	(void) state;
	pgpacer_booking_init(&b, "x", 1, 0);
	b.due_us += 100 * SECOND;
	pid = fork();
	if (pid == 0)
	{
		usleep(100000);
		pgpacer_cancel_fire(c, 9);
		_exit(0);
	}
	assert_code(h, pgpacer_wait(h, &b, c), PGPACER_CANCELLED);
	assert_int_equal(pgpacer_cancel_reason(c), 1);
	assert_int_equal(exit_status_of(pid), 0);
	pgpacer_close(h);
	pgpacer_cancel_free(c);
}

static int
open_descriptors(void)
{
	int			n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void
nothing_leaks(void **state)
{
	const char *source = new_source(1);
	int			before = open_descriptors();
	bool		ours[256] = {false};

	(void) state;
	for (int fd = 0; fd < 256; fd++)
		ours[fd] = fcntl(fd, F_GETFD) < 0;
	for (int i = 0; i < 10; i++)
	{
		pgpacer    *h = open_with(NULL, NULL);
		pgpacer_cancel *c = pgpacer_cancel_new();
		pgpacer_booking b;

		assert_code(h, pgpacer_acquire(h, source, NULL, &b), PGPACER_OK);
		for (int fd = 3; fd < 256; fd++)
			if (ours[fd] && fcntl(fd, F_GETFD) >= 0)
				assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		pgpacer_cancel_free(c);
		pgpacer_close(h);
	}
	assert_int_equal(open_descriptors(), before);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_arguments),
		cmocka_unit_test(options_of_other_versions),
		cmocka_unit_test(high_descriptors),
		cmocka_unit_test(forked_children),
		cmocka_unit_test(two_threads),
		cmocka_unit_test(a_token_after_fork),
		cmocka_unit_test(nothing_leaks),
	};

	return cmocka_run_group_tests(tests, connect_admin, disconnect_admin);
}
