/*
 * local_run.c - one limiter for all threads: half a second apart, two may wait, the others are
 * told at once
 *
 *		$ ./local_run
 *		3 called, 3 refused: too many callers are waiting already
 */
#include <pgpacer_local.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 6

static pgpacer_local *limiter;
static atomic_int called;
static atomic_int refused;

static int
call_the_api(pgpacer_cancel *cancel, void *arg)
{
	(void) cancel;
	(void) arg;
	called++;
	return 0;
}

static void *
serve(void *arg)
{
	int			result;

	if (pgpacer_local_run(limiter, NULL, call_the_api, arg, &result) == PGPACER_FULL)
		refused++;
	return NULL;
}

int
main(void)
{
	pgpacer_local_options o = PGPACER_LOCAL_OPTIONS_INIT;
	pthread_t	threads[THREADS];

	o.interval_us = 500000;
	o.max_waiting = 2;
	if (pgpacer_local_new(&limiter, &o) != PGPACER_OK)
		return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, serve, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d called, %d refused: %s\n", called, refused, pgpacer_strerror(PGPACER_FULL));
	pgpacer_local_free(limiter);
	return 0;
}
