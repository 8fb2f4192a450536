/*
 * retry.c - trying again what may work later, at the pace of everybody else
 *
 *		$ ./retry
 *		attempt 1: 503
 *		attempt 2: 429, asked to wait 0.3 s
 *		attempt 3: 200
 *		called 3 times, result 0
 *		a bad request is not tried again: called once, result 400
 *
 * With o.handle and o.source in place of o.local each attempt books a slot in the
 * database, and the pause holds up every process that uses the source.
 */
#include <pgpacer_local.h>
#include <stdio.h>

static int
call_the_api(pgpacer_attempt *attempt, void *arg)
{
	(void) arg;
	switch (attempt->number)
	{
		case 1:
			puts("attempt 1: 503");
			return 503;
		case 2:
			puts("attempt 2: 429, asked to wait 0.3 s");
			attempt->retry_after_us = 300000;
			return 429;
		default:
			printf("attempt %d: 200\n", attempt->number);
			return 0;
	}
}

static int
bad_request(pgpacer_attempt *attempt, void *arg)
{
	(void) attempt;
	(void) arg;
	return 400;
}

static int
may_work_later(const pgpacer_attempt *attempt, int result, void *arg)
{
	(void) attempt;
	(void) arg;
	return result == 429 || result >= 500;
}

int
main(void)
{
	pgpacer_local_options pace = PGPACER_LOCAL_OPTIONS_INIT;
	pgpacer_retry_options o = PGPACER_RETRY_OPTIONS_INIT;
	int			result = 0;
	int			called = 0;
	int			rc;

	pace.per_second = 10;
	rc = pgpacer_local_new(&o.local, &pace);
	o.retry_if = may_work_later;

	if (rc == PGPACER_OK)
		rc = pgpacer_retry(&o, call_the_api, NULL, &result, &called);
	if (rc == PGPACER_OK)
		printf("called %d times, result %d\n", called, result);

	if (rc == PGPACER_OK)
		rc = pgpacer_retry(&o, bad_request, NULL, &result, &called);
	if (rc == PGPACER_OK && called == 1)
		printf("a bad request is not tried again: called once, result %d\n", result);

	pgpacer_local_free(o.local);
	return rc != PGPACER_OK;
}
