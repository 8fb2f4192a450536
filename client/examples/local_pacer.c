/*
 * local_pacer.c - twenty starts a second, and none more
 *
 *		$ ./local_pacer
 *		11 starts took 0.500 s
 */
#include <pgpacer_local.h>
#include <stdio.h>
#include <time.h>

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

int
main(void)
{
	pgpacer_local_options o = PGPACER_LOCAL_OPTIONS_INIT;
	pgpacer_local *pacer;
	double		begin = now();
	int			rc;

	o.per_second = 20;
	rc = pgpacer_local_new(&pacer, &o);
	for (int i = 0; rc == PGPACER_OK && i < 11; i++)
		rc = pgpacer_local_acquire(pacer, NULL);	/* then call */

	if (rc == PGPACER_OK)
		printf("11 starts took %.3f s\n", now() - begin);
	pgpacer_local_free(pacer);
	return rc != PGPACER_OK;
}
